//! The sockets of AF_XDP: how they are opened, and how the kernel is woken.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use evenkeel_core::time::Duration;
use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XdpDesc, XdpOptionsFlags,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with, sockopt,
};

use super::buffers::Buffers;
use super::ring::{Consumer, Producer};
use super::umem::{Awake, SEND_PKTS, Umem};
use crate::sys::ppoll;

/// The time between two attempts to bind a socket to a queue that is in use.
const AGAIN: Duration = Duration::from_millis(5);
/// The number of attempts. The kernel frees a queue only some time after its last socket was closed: it waits
/// for processors that may still use the socket, and leaves the rest to a worker thread.
const ATTEMPTS: u32 = 40;

/// Opens a socket of AF_XDP and closes it: whether the kernel has them, and this process may open one.
///
/// # Errors
/// `PermissionDenied` without `CAP_NET_RAW`; `EAFNOSUPPORT` if the kernel has no AF_XDP.
pub fn try_xdp_socket() -> io::Result<()> {
    Ok(socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None).map(drop)?)
}

/// A queue of a device, by the kernel's numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeviceQueue {
    /// The index of the device.
    pub(super) index: u32,
    /// The number of the queue.
    pub(super) queue: u32,
}

/// The first socket of a queue, which all others share the memory with.
#[derive(Debug)]
pub(super) struct First {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) receive: Consumer<XdpDesc>,
    pub(super) transmit: Producer<XdpDesc>,
    pub(super) umem: Umem,
    pub(super) zero_copy: bool,
}

impl First {
    /// Opens a socket on a queue, with a receive ring of `ring_pkts`. The driver reads and writes the memory
    /// itself if it can.
    pub(super) fn open(at: DeviceQueue, buffers: Buffers, ring_pkts: u32, others: Awake) -> io::Result<Self> {
        let socket = open()?;
        let fd = socket.as_fd();
        let umem = Umem::register(fd, buffers, ring_pkts as usize, others)?;
        sockopt::set_xdp_tx_ring_size(fd, SEND_PKTS as u32)?;
        let receive = receive_ring(fd, ring_pkts)?;
        let offsets = sockopt::xdp_mmap_offsets(fd)?;
        let transmit = Producer::map(fd, XDP_PGOFF_TX_RING, offsets.tx, SEND_PKTS as u32)?;
        bind_once_free(&socket, at, buffers)?;
        let zero_copy = sockopt::xdp_options(fd)?.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY);
        Ok(Self { socket: Arc::new(socket), receive, transmit, umem, zero_copy })
    }
}

/// Binds the first socket of a queue. Waits a little if the queue is in use, as sockets that are closed
/// already keep it for a moment.
fn bind_once_free(socket: &OwnedFd, at: DeviceQueue, buffers: Buffers) -> io::Result<()> {
    let address = SocketAddrXdp::new(buffers.flags(), at.index, at.queue);
    for _ in 1..ATTEMPTS {
        match bind(socket, &address) {
            Err(Errno::BUSY) => ppoll(&mut [], Some(AGAIN))?,
            bound => return Ok(bound?),
        }
    }
    Ok(bind(socket, &address)?)
}

/// Opens a further socket on a queue, which only receives and shares the memory of the first.
pub(super) fn open_further(
    at: DeviceQueue,
    first: BorrowedFd<'_>,
    ring_pkts: u32,
) -> io::Result<(OwnedFd, Consumer<XdpDesc>)> {
    let socket = open()?;
    let receive = receive_ring(socket.as_fd(), ring_pkts)?;
    let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, at.index, at.queue);
    bind(&socket, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: first })?;
    Ok((socket, receive))
}

fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)?)
}

fn receive_ring(socket: BorrowedFd<'_>, ring_pkts: u32) -> io::Result<Consumer<XdpDesc>> {
    sockopt::set_xdp_rx_ring_size(socket, ring_pkts)?;
    let offsets = sockopt::xdp_mmap_offsets(socket)?;
    Consumer::map(socket, XDP_PGOFF_RX_RING, offsets.rx, ring_pkts)
}

/// Makes the driver look at the fill ring.
pub(super) fn wake_receive(socket: &OwnedFd) {
    // It has nothing to say that the rings do not: an error of the socket stays until it is asked for.
    let _ = recv(socket, &mut [0_u8; 0], RecvFlags::DONTWAIT);
}

/// Makes the kernel send what is in the transmit ring.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if it has sent a part and wants to be called again, or has no room.
pub(super) fn wake_transmit(socket: &OwnedFd) -> io::Result<()> {
    send(socket, &[], SendFlags::DONTWAIT)?;
    Ok(())
}
