//! Requests about single entries of the kernel's tables: an address to add, a neighbour to resolve, the XDP
//! programs of a device and of its other end.

use std::io;
use std::net::IpAddr;

use evenkeel_core::host::Resolved;
use evenkeel_core::wire::{EthernetAddress, IpAddress, IpCidr};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage, LinkXdp};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, SendFlags, recv, sendto};

use super::socket::open_socket;

/// Room for an acknowledgement, which repeats the request, and for all about one device.
const ANSWER_BYTES: usize = 32 * 1024;

/// Adds an address to the device with this index, and keeps its other addresses. The kernel also adds the
/// route to the address's network. An address that the device already has stays.
///
/// # Errors
/// The kernel refuses the address, or the process may not change addresses.
pub(crate) fn add_address(index: u32, cidr: IpCidr) -> io::Result<()> {
    change(Message::NewAddress(new_address(index, cidr)), NLM_F_CREATE | NLM_F_REPLACE)
}

fn new_address(index: u32, cidr: IpCidr) -> AddressMessage {
    let mut message = AddressMessage::default();
    let address: IpAddr = cidr.address().into();
    message.header.family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    message.header.prefix_len = cidr.prefix_len();
    message.header.index = index;
    // Two different addresses would make the link point-to-point.
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    if let IpCidr::Ipv4(cidr) = cidr {
        message.attributes.extend(cidr.broadcast().map(AddressAttribute::Broadcast));
    }
    message
}

/// Returns the hardware address of a neighbour as the kernel has it; `None` if it has none. Makes the kernel
/// find out what it is not sure of, as if it had a packet for the neighbour (`NTF_USE`). The kernel announces
/// the result to [`KernelTables`](super::KernelTables).
///
/// # Errors
/// The kernel has no such device, or the process may not change neighbours.
pub(crate) fn resolve_neighbor(index: u32, address: IpAddress) -> io::Result<Option<Resolved>> {
    let request = neighbor_of(index, address);
    let known = match ask(Message::GetNeighbour(request.clone()), 0) {
        Ok(NetlinkPayload::InnerMessage(Message::NewNeighbour(known))) => hardware_in(&known),
        Ok(_) => None,
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => None,
        Err(error) => return Err(error),
    };
    if !known.is_some_and(|known| known.confirmed) {
        let mut used = request;
        used.header.flags = NeighbourFlags::Use;
        change(Message::NewNeighbour(used), NLM_F_CREATE)?;
    }
    Ok(known)
}

/// Returns the kernel's number for the XDP program of the device with this index; `None` if it has none.
///
/// # Errors
/// The kernel has no such device.
pub(crate) fn xdp_program(index: u32) -> io::Result<Option<u32>> {
    Ok(program_of(&link(index, None)?))
}

/// Returns whether a device sends the frames that an XDP program in its driver returns (`XDP_TX`). A veth
/// drops them while its other end has no XDP program, too.
///
/// # Errors
/// The kernel has no such device, or does not tell about the other end, which is in a network namespace that
/// this process may not manage.
pub(crate) fn sends_back(index: u32) -> io::Result<bool> {
    let link_here = link(index, None)?;
    let is_veth = |attribute: &LinkAttribute| match attribute {
        LinkAttribute::LinkInfo(about) => about.contains(&LinkInfo::Kind(InfoKind::Veth)),
        _ => false,
    };
    if !link_here.attributes.iter().any(is_veth) {
        return Ok(true);
    }
    let (mut other, mut namespace) = (None, None);
    for attribute in &link_here.attributes {
        match *attribute {
            LinkAttribute::Link(index) => other = Some(index),
            LinkAttribute::LinkNetNsId(id) => namespace = Some(id),
            _ => {}
        }
    }
    let other = other.ok_or(io::ErrorKind::NotFound)?;
    Ok(program_of(&link(other, namespace)?).is_some())
}

/// Returns what the kernel has about a link, which may be in another network namespace that has a number in
/// this one.
fn link(index: u32, namespace: Option<i32>) -> io::Result<LinkMessage> {
    let mut request = LinkMessage::default();
    request.header.index = index;
    request.attributes.extend(namespace.map(LinkAttribute::IfNetnsId));
    match ask(Message::GetLink(request), 0)? {
        NetlinkPayload::InnerMessage(Message::NewLink(link)) => Ok(link),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn program_of(link: &LinkMessage) -> Option<u32> {
    link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Xdp(about) => about.iter().find_map(|about| match about {
            LinkXdp::ProgId(number) => Some(*number),
            _ => None,
        }),
        _ => None,
    })
}

fn neighbor_of(index: u32, address: IpAddress) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    let (family, destination) = match address {
        IpAddress::Ipv4(address) => (AddressFamily::Inet, NeighbourAddress::Inet(address)),
        IpAddress::Ipv6(address) => (AddressFamily::Inet6, NeighbourAddress::Inet6(address)),
    };
    message.header.family = family;
    message.header.ifindex = index;
    message.attributes = vec![NeighbourAttribute::Destination(destination)];
    message
}

/// Returns the hardware address in a message, if the kernel would use it.
fn hardware_in(message: &NeighbourMessage) -> Option<Resolved> {
    use NeighbourState::{Delay, Noarp, Permanent, Probe, Reachable, Stale};
    let state = message.header.state;
    let confirmed = matches!(state, Permanent | Noarp | Reachable);
    let hardware = message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(bytes) => <[u8; 6]>::try_from(bytes.as_slice()).ok(),
        _ => None,
    });
    let hardware = EthernetAddress(hardware?);
    (confirmed || matches!(state, Stale | Delay | Probe)).then_some(Resolved { hardware, confirmed })
}

/// Requests a change, which the kernel acknowledges.
fn change(message: Message, flags: u16) -> io::Result<()> {
    match ask(message, NLM_F_ACK | flags)? {
        NetlinkPayload::Error(_) => Ok(()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Sends one request and returns the kernel's answer, which is available when the send returns.
fn ask(message: Message, flags: u16) -> io::Result<NetlinkPayload<Message>> {
    let mut request = NetlinkMessage::from(message);
    request.header.flags = NLM_F_REQUEST | flags;
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    let socket = open_socket(0, ANSWER_BYTES)?;
    sendto(&socket, &bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = vec![0; ANSWER_BYTES];
    let (len, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    let answer = answer.get(..len).unwrap_or_default();
    let answer = NetlinkMessage::<Message>::deserialize(answer).map_err(io::Error::other)?;
    match answer.payload {
        NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
        payload => Ok(payload),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_refusal_is_the_error() {
        // Without the privilege the kernel returns EPERM before that.
        let error = add_address(u32::MAX >> 1, "10.77.0.1/24".parse().unwrap()).unwrap_err();
        assert!(matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EPERM)), "{error}");
        assert_eq!(xdp_program(u32::MAX >> 1).unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
