//! The failures of requests by the errors of hyper.

use std::error::Error;
use std::io;

use super::super::account::Failure;
use super::super::transport::Fault;

/// The failure of a request that was given to hyper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) failure: Failure,
    /// Whether the server is known not to have processed the request (RFC 9113, 8.7).
    pub(super) unprocessed: bool,
}

impl Failed {
    pub(super) const fn by(failure: Failure) -> Self {
        Self { failure, unprocessed: false }
    }
}

impl From<&hyper::Error> for Failed {
    fn from(error: &hyper::Error) -> Self {
        if error.is_canceled() || error.is_closed() {
            return Self { failure: Failure::Reset, unprocessed: true };
        }
        if error.is_user() {
            // The task of the connection is gone.
            return Self::by(Failure::Reset);
        }
        let mut source = error.source();
        while let Some(cause) = source {
            if let Some(error) = cause.downcast_ref::<h2::Error>() {
                return of_http2(error);
            }
            if let Some(error) = cause.downcast_ref::<io::Error>() {
                return Self::by(of_stream(error));
            }
            source = cause.source();
        }
        Self::by(if error.is_incomplete_message() { Failure::Short } else { Failure::Malformed })
    }
}

fn of_http2(error: &h2::Error) -> Failed {
    if let Some(error) = error.get_io() {
        return Failed::by(of_stream(error));
    }
    let unprocessed = error.reason() == Some(h2::Reason::REFUSED_STREAM)
        || error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR);
    Failed { failure: if error.is_remote() { Failure::Reset } else { Failure::Malformed }, unprocessed }
}

/// Returns the failure of a stream that was open.
fn of_stream(error: &io::Error) -> Failure {
    match error.kind() {
        // TLS without its closing alert ends so, too.
        io::ErrorKind::UnexpectedEof => Failure::Short,
        // TLS whose records are wrong.
        io::ErrorKind::InvalidData => Failure::Malformed,
        _ => Fault::from(error).failure(true),
    }
}
