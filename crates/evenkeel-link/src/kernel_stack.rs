//! The kernel's stack, as far as a host shares its addresses on a device: it keeps ports for the host's
//! sockets, joins their groups, and resolves neighbours.
//!
//! A port is kept by a socket of the kernel that is bound there and receives nothing: a TCP socket does not
//! listen, and a filter discards what comes for a UDP socket. The kernel gives the ports back when the
//! process ends.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd as _, OwnedFd};

use evenkeel_core::bpf::Program;
use evenkeel_core::demux::Binding;
use evenkeel_core::host::{NotReserved, OtherStack, Resolved};
use evenkeel_core::id::InterfaceId;
use evenkeel_core::wire::IpAddress;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

use crate::rtnetlink::resolve_neighbor;
use crate::sys::attach_filter;

/// The kernel, whose addresses on one device a host shares.
#[derive(Debug)]
pub struct KernelStack {
    /// The device whose neighbours are resolved, and on which groups are joined.
    index: u32,
    reserved: BTreeMap<Taken, OwnedFd>,
}

/// The dynamic ports of RFC 6335, 6.
const DYNAMIC: RangeInclusive<u16> = 49_152..=u16::MAX;

/// Where the kernel shows the ports that it gives to sockets which do not ask for one.
const KERNEL_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

impl KernelStack {
    /// Returns the kernel, as far as it shares its addresses on the device with this index.
    #[must_use]
    pub fn new(index: u32) -> Self {
        Self { index, reserved: BTreeMap::new() }
    }

    /// Returns the dynamic ports that the kernel does not give to its own sockets.
    ///
    /// # Errors
    /// The kernel gives them all away. The text says which setting leaves some.
    pub fn dynamic_ports() -> io::Result<RangeInclusive<u16>> {
        let text = std::fs::read_to_string(KERNEL_RANGE)?;
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        let (Some(Ok(first)), Some(Ok(last))) = (numbers.next(), numbers.next()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        left_of(first..=last).ok_or_else(|| {
            let what = "the kernel gives out all dynamic ports; leave it fewer: sysctl -w \
                        net.ipv4.ip_local_port_range='32768 60999'";
            io::Error::new(io::ErrorKind::AddrInUse, what)
        })
    }
}

/// Returns the longer one of the two ranges of dynamic ports that a range of the kernel leaves.
fn left_of(kernel: RangeInclusive<u16>) -> Option<RangeInclusive<u16>> {
    let above = kernel.end().checked_add(1).map(|first| first.max(*DYNAMIC.start())..=*DYNAMIC.end());
    let below = kernel.start().checked_sub(1).map(|last| *DYNAMIC.start()..=last);
    [above, below].into_iter().flatten().filter(|range| !range.is_empty()).max_by_key(ExactSizeIterator::len)
}

/// The address and port that a binding takes of the kernel, of UDP or of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Taken {
    is_tcp: bool,
    address: Option<IpAddress>,
    port: u16,
}

impl Taken {
    const fn by(binding: &Binding) -> Option<Self> {
        match *binding {
            Binding::Udp { address, port } => Some(Self { is_tcp: false, address, port }),
            Binding::Tcp { address, port, opens: true } => Some(Self { is_tcp: true, address, port }),
            _ => None,
        }
    }
}

impl OtherStack for KernelStack {
    fn reserve(&mut self, binding: &Binding) -> Result<(), NotReserved> {
        let Some(taken) = Taken::by(binding) else { return Ok(()) };
        let socket = reserve(taken, self.index).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => NotReserved::Privilege,
            _ => NotReserved::InUse,
        })?;
        self.reserved.insert(taken, socket);
        Ok(())
    }

    fn release(&mut self, binding: &Binding) {
        Taken::by(binding).into_iter().for_each(|taken| drop(self.reserved.remove(&taken)));
    }

    fn resolve(&mut self, _interface: InterfaceId, address: IpAddress) -> Option<Resolved> {
        // Without an answer the host asks again.
        resolve_neighbor(self.index, address).ok().flatten()
    }
}

/// Binds a socket of the kernel, or joins a group on the device with this index.
fn reserve(Taken { is_tcp, address, port }: Taken, index: u32) -> io::Result<OwnedFd> {
    let kind = if is_tcp { SocketType::STREAM } else { SocketType::DGRAM };
    let address = address.map(IpAddr::from);
    let both = address.is_none().then(|| reserve_at(kind, Ipv6Addr::UNSPECIFIED.into(), port, index, false));
    match both {
        // A kernel without IPv6.
        Some(Err(error)) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => {}
        Some(reserved) => return reserved,
        None => {}
    }
    reserve_at(kind, address.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), port, index, true)
}

fn reserve_at(
    kind: SocketType,
    address: IpAddr,
    port: u16,
    index: u32,
    of_one_family: bool,
) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, of_one_family)?;
    }
    if kind == SocketType::DGRAM {
        attach_filter(socket.as_fd(), &Program::everything(0))?;
    }
    if address.is_multicast() {
        // Groups are shared: a port there is nobody's own.
        join(&socket, address, index)?;
    } else {
        bind(&socket, &SocketAddr::new(address, port))?;
    }
    Ok(socket)
}

/// Joins a group on the device with this index.
fn join(socket: &OwnedFd, group: IpAddr, index: u32) -> io::Result<()> {
    Ok(match group {
        IpAddr::V4(group) => {
            let any = Ipv4Addr::UNSPECIFIED;
            sockopt::set_ip_add_membership_with_ifindex(socket, &group, &any, index)
        }
        IpAddr::V6(group) => sockopt::set_ipv6_add_membership(socket, &group, index),
    }?)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn the_kernels_own_ports_are_left_out() {
        assert_eq!(left_of(32_768..=60_999), Some(61_000..=65_535));
        assert_eq!(left_of(60_000..=65_535), Some(49_152..=59_999));
        assert_eq!(left_of(50_000..=50_001), Some(50_002..=65_535));
        assert_eq!(left_of(1024..=4999), Some(49_152..=65_535));
        assert_eq!(left_of(1024..=65_535), None);
    }

    fn bindings(address: Option<IpAddress>, port: u16) -> [Binding; 2] {
        [Binding::Udp { address, port }, Binding::Tcp { address, port, opens: true }]
    }

    /// A port is reserved once and for all others: neither the kernel's programs nor a second host get it.
    #[test]
    fn reserved_ports_are_nobody_elses() {
        let mut ports = KernelStack::new(1);
        let loopback = IpAddress::v4(127, 0, 0, 1);
        for address in [None, Some(loopback), Some(IpAddress::Ipv4(Ipv4Addr::UNSPECIFIED))] {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let at = ("127.0.0.1", port);
            for binding in bindings(address, port) {
                assert_eq!(ports.reserve(&binding), Ok(()), "{binding:?}");
                let again = KernelStack::new(1).reserve(&binding);
                assert_eq!(again, Err(NotReserved::InUse), "{binding:?}");
            }
            assert_eq!(TcpListener::bind(at).unwrap_err().kind(), io::ErrorKind::AddrInUse);
            assert_eq!(UdpSocket::bind(at).unwrap_err().kind(), io::ErrorKind::AddrInUse);
            bindings(address, port).iter().for_each(|binding| ports.release(binding));
            TcpListener::bind(at).unwrap();
            UdpSocket::bind(at).unwrap();
        }
    }

    #[test]
    fn ports_of_the_kernels_programs_are_refused() {
        let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut ports = KernelStack::new(1);
        for address in [None, Some(IpAddress::v4(127, 0, 0, 1))] {
            let [_, of_tcp] = bindings(address, tcp.local_addr().unwrap().port());
            let [of_udp, _] = bindings(address, udp.local_addr().unwrap().port());
            let reserved = [of_tcp, of_udp].map(|binding| ports.reserve(&binding));
            assert_eq!(reserved, [Err(NotReserved::InUse); 2], "{address:?}");
        }
    }
}
