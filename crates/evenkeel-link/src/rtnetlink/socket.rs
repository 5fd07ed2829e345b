//! A socket of rtnetlink.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

/// Opens a socket that receives the announcements of `groups`, with room for `room` bytes of waiting ones.
pub(crate) fn open_socket(groups: u32, room: usize) -> io::Result<OwnedFd> {
    // The protocol with the number zero is NETLINK_ROUTE.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    if sockopt::set_socket_recv_buffer_size_force(&socket, room).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, room)?;
    }
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}
