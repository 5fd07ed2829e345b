//! The four-tuples that identify connections.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use super::segment::Header;

/// An IP address and a port: one end of a connection.
///
/// The type is a [`SocketAddr`] without IPv6's flow label and scope, which TCP does not use, in 20 bytes
/// instead of 32. A table of connections has two of them in each entry.
///
/// ```
/// use std::net::SocketAddr;
///
/// use evenkeel_tcp::AddrPort;
///
/// let address: SocketAddr = "[2001:db8::1]:443".parse()?;
/// let end = AddrPort::from(address);
/// assert_eq!((end.port, end.to_string()), (443, address.to_string()));
/// assert_eq!(SocketAddr::from(end), address);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddrPort {
    /// The IP address.
    pub addr: IpAddr,
    /// The port.
    pub port: u16,
}

impl AddrPort {
    /// Creates an end from its address and port.
    #[must_use]
    pub const fn new(addr: IpAddr, port: u16) -> Self {
        Self { addr, port }
    }
}

impl From<SocketAddr> for AddrPort {
    fn from(address: SocketAddr) -> Self {
        Self::new(address.ip(), address.port())
    }
}

impl<A: Into<IpAddr>> From<(A, u16)> for AddrPort {
    #[inline]
    fn from((addr, port): (A, u16)) -> Self {
        Self::new(addr.into(), port)
    }
}

impl From<AddrPort> for SocketAddr {
    fn from(end: AddrPort) -> Self {
        Self::new(end.addr, end.port)
    }
}

/// Writes the end as a [`SocketAddr`], with an IPv6 address in brackets.
impl fmt::Display for AddrPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::from(*self).fmt(f)
    }
}

/// The pair of sockets that identifies a connection (RFC 9293, 3.3.1): addresses and ports of both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FourTuple {
    /// Our end.
    pub local: AddrPort,
    /// The peer's.
    pub remote: AddrPort,
}

impl FourTuple {
    /// Creates a tuple from both ends of a connection. Each is an [`AddrPort`], a [`SocketAddr`], or an
    /// address with a port.
    ///
    /// ```
    /// use std::net::{Ipv4Addr, SocketAddr};
    ///
    /// use evenkeel_tcp::FourTuple;
    ///
    /// let peer: SocketAddr = "192.0.2.2:80".parse()?;
    /// let tuple = FourTuple::new((Ipv4Addr::new(192, 0, 2, 1), 40_000), peer);
    /// assert_eq!(tuple.to_string(), "192.0.2.1:40000 192.0.2.2:80");
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn new(local: impl Into<AddrPort>, remote: impl Into<AddrPort>) -> Self {
        Self { local: local.into(), remote: remote.into() }
    }

    /// Returns the header of a segment from here to the peer, with nothing in it yet.
    pub(super) fn header(&self) -> Header {
        Header { source: self.local.port, destination: self.remote.port, ..Header::default() }
    }

    /// Gives `hash` the tuple as a string of bytes: 12 for IPv4, 36 for IPv6.
    pub(super) fn hash_with<T>(&self, hash: impl FnOnce(&[u8]) -> T) -> T {
        let [local, remote] = [self.local, self.remote].map(|end| end.port.to_be_bytes());
        if let (IpAddr::V4(from), IpAddr::V4(to)) = (self.local.addr, self.remote.addr) {
            return hash(&joined::<4, 12>(from.octets(), local, to.octets(), remote));
        }
        let [from, to] = [self.local, self.remote].map(|end| bytes_of(&end.addr));
        hash(&joined::<16, 36>(from, local, to, remote))
    }
}

/// Of lengths that the compiler knows, so that a few moves do.
#[inline]
fn joined<const A: usize, const ALL: usize>(
    from: [u8; A],
    local: [u8; 2],
    to: [u8; A],
    remote: [u8; 2],
) -> [u8; ALL] {
    let mut all = [0; ALL];
    all[..A].copy_from_slice(&from);
    all[A..A + 2].copy_from_slice(&local);
    all[A + 2..2 * A + 2].copy_from_slice(&to);
    all[2 * A + 2..2 * A + 4].copy_from_slice(&remote);
    all
}

/// Returns the bytes of an address. An IPv4 address is mapped into IPv6 (RFC 4291, 2.5.5.2).
pub(super) fn bytes_of(address: &IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

impl fmt::Display for FourTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.local, self.remote)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::segment::Flags;
    use core::net::{Ipv4Addr, Ipv6Addr};

    pub(crate) const SERVER: AddrPort = AddrPort { addr: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), port: 80 };

    /// Returns a different tuple for each number; odd ones are of IPv6.
    pub(crate) fn tuple(n: u16) -> FourTuple {
        let port = 1_024 + n % 60_000;
        if n % 2 == 1 {
            let address = |last| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, n, last));
            return FourTuple::new(AddrPort::new(address(1), 80), AddrPort::new(address(2), port));
        }
        let [high, low] = n.to_be_bytes();
        FourTuple::new(SERVER, AddrPort::new(IpAddr::V4(Ipv4Addr::new(192, 168, high, low)), port))
    }

    /// Returns the control bits of a header, as a fuzzer would set them.
    pub(crate) fn flags(bits: u8) -> Flags {
        let all =
            [Flags::FIN, Flags::SYN, Flags::RST, Flags::PSH, Flags::ACK, Flags::URG, Flags::ECE, Flags::CWR];
        let set = (0..8).zip(all).filter(|(bit, _)| bits >> bit & 1 == 1);
        set.fold(Flags::NONE, |flags, (_, flag)| flags | flag)
    }

    #[test]
    fn bytes_tell_every_tuple_from_every_other() {
        let mut all: Vec<_> = (0..2_000)
            .map(|n| {
                let bytes = tuple(n).hash_with(<[u8]>::to_vec);
                assert_eq!(bytes.len(), if n % 2 == 1 { 36 } else { 12 });
                bytes
            })
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2_000);
    }

    #[test]
    fn a_tuple_is_40_bytes() {
        assert_eq!((size_of::<AddrPort>(), size_of::<FourTuple>()), (20, 40));
    }
}
