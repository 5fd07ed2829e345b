//! Exclusive use of something on a device. Two programs with one hardware address would both answer every
//! frame, so the first one claims it; so does a guard, of which a second one would do nothing but cost.

use std::os::fd::OwnedFd;

use evenkeel_core::wire::EthernetAddress;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

use crate::error::LinkError;

/// A claim of something on a device. It ends when this value is dropped or the process is killed.
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
        let claimed = Self::of_place(name, &format!("evenkeel/packet/{index}/{address}"))?;
        claimed.ok_or_else(|| LinkError::Claimed { name: name.to_owned(), address })
    }

    /// Claims the place of the guard on the device called `name`, which has the number `index`.
    ///
    /// # Errors
    /// [`LinkError::Busy`] if another process guards it.
    pub(crate) fn of_guard(name: &str, index: u32) -> Result<Self, LinkError> {
        let claimed = Self::of_place(name, &format!("evenkeel/guard/{index}"))?;
        claimed.ok_or_else(|| LinkError::Busy { name: name.to_owned() })
    }

    /// Claims what `place` stands for; returns `None` if it is another's.
    fn of_place(name: &str, place: &str) -> Result<Option<Self>, LinkError> {
        let fail = |source: Errno| LinkError::Os { what: format!("claim `{name}`"), source: source.into() };
        let place = SocketAddrUnix::new_abstract_name(place.as_bytes()).map_err(fail)?;
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).map_err(fail)?;
        match bind(&socket, &place) {
            Ok(()) => Ok(Some(Self { _socket: socket })),
            Err(Errno::ADDRINUSE) => Ok(None),
            Err(error) => Err(fail(error)),
        }
    }
}
