//! Addresses, interests and readiness as tokio has them.

use std::io;
use std::net::SocketAddr;

use ::tokio::io::{Interest, Ready};
use ::tokio::net::{ToSocketAddrs, lookup_host};
use evenkeel_core::socket::Kinds;

use crate::error::Error;

/// Calls `with` for each address until one succeeds. Returns the last error otherwise.
pub(super) async fn each_address<T, F: Future<Output = Result<T, Error>>>(
    address: impl ToSocketAddrs,
    mut with: impl FnMut(SocketAddr) -> F,
) -> io::Result<T> {
    let mut last = None;
    for address in lookup_host(address).await? {
        match with(address).await {
            Ok(done) => return Ok(done),
            Err(error) => last = Some(error.into()),
        }
    }
    Err(last
        .unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any address")))
}

/// Returns the host's form of an interest. Whoever waits for one direction also learns of the end.
pub(super) fn interests(interest: Interest) -> Kinds {
    Kinds::READABLE.when(interest.is_readable()).union(Kinds::WRITABLE.when(interest.is_writable()))
}

/// Returns tokio's form of a readiness.
pub(super) fn readiness(kinds: Kinds) -> Ready {
    let pairs = [
        (Kinds::READABLE, Ready::READABLE),
        (Kinds::WRITABLE, Ready::WRITABLE),
        (Kinds::READ_CLOSED, Ready::READ_CLOSED),
        (Kinds::HANG_UP, Ready::READ_CLOSED | Ready::WRITE_CLOSED),
        (Kinds::ERROR, Ready::ERROR),
    ];
    let matching = pairs.into_iter().filter(|(kind, _)| kinds.intersects(*kind));
    matching.fold(Ready::EMPTY, |all, (_, ready)| all | ready)
}
