//! Socket addresses of the standard library and of hosts.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};
use std::num::NonZeroU8;

use evenkeel_core::wire::{IpAddress, IpEndpoint};

/// Returns the standard library's form of an address of a socket.
pub(super) fn socket_addr(endpoint: IpEndpoint) -> SocketAddr {
    match endpoint.addr {
        IpAddress::Ipv4(address) => SocketAddrV4::new(address, endpoint.port).into(),
        IpAddress::Ipv6(address) => SocketAddrV6::new(address, endpoint.port, 0, 0).into(),
    }
}

/// Returns a host's form of an address of a socket.
pub(super) fn endpoint(address: SocketAddr) -> IpEndpoint {
    IpEndpoint::new(ip_address(address.ip()), address.port())
}

pub(super) fn ip_address(address: IpAddr) -> IpAddress {
    match address {
        IpAddr::V4(address) => IpAddress::Ipv4(address),
        IpAddr::V6(address) => IpAddress::Ipv6(address),
    }
}

/// Returns the address to bind to. `None`, for `::`, stands for every address of the host; `0.0.0.0` stands
/// for those of IPv4.
pub(super) fn bound_address(address: IpAddr) -> Option<IpAddress> {
    (address != Ipv6Addr::UNSPECIFIED).then(|| ip_address(address))
}

/// Returns the TTL or hop limit that an option sets.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if no packet can have it.
pub(super) fn hop_limit(ttl: u32) -> io::Result<NonZeroU8> {
    let limit = u8::try_from(ttl).ok().and_then(NonZeroU8::new);
    limit.ok_or_else(|| rustix::io::Errno::INVAL.into())
}

/// Calls `with` for each address until one succeeds. Returns the last error otherwise.
pub(super) fn each_address<T>(
    addresses: impl ToSocketAddrs,
    mut with: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for address in addresses.to_socket_addrs()? {
        match with(address) {
            Ok(done) => return Ok(done),
            Err(error) => last = Some(error),
        }
    }
    Err(last
        .unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any addresses")))
}
