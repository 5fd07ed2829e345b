//! Exclusive use of a hardware address on a device. Two programs with one address would both answer every
//! frame, so the first one claims it.

use std::os::fd::OwnedFd;

use evenkeel_core::wire::EthernetAddress;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

use crate::error::LinkError;

/// A claim of a hardware address on a device. It ends when this value is dropped or the process is killed.
///
/// The claim is a name in the abstract namespace of Unix sockets, which belongs to the network namespace as
/// devices do (unix(7)).
#[derive(Debug)]
pub(crate) struct Claim {
    _socket: OwnedFd,
}

impl Claim {
    /// Claims `address` on the device called `name`, which has the number `index`.
    ///
    /// # Errors
    /// [`LinkError::Claimed`] if another process has the address.
    pub(crate) fn of(name: &str, index: i32, address: EthernetAddress) -> Result<Self, LinkError> {
        let fail = |source: Errno| LinkError::Os { what: format!("claim `{name}`"), source: source.into() };
        let place = format!("evenkeel/packet/{index}/{address}");
        let place = SocketAddrUnix::new_abstract_name(place.as_bytes()).map_err(fail)?;
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).map_err(fail)?;
        match bind(&socket, &place) {
            Ok(()) => Ok(Self { _socket: socket }),
            Err(Errno::ADDRINUSE) => Err(LinkError::Claimed { name: name.to_owned(), address }),
            Err(error) => Err(fail(error)),
        }
    }
}
