//! The code that packet sockets share, independent of the layout of their receive ring.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

use crate::device::Status;
use crate::netdev::NetDevice;
use crate::sys;

/// Opens a packet socket that receives nothing yet.
pub(crate) fn packet_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(
        AddressFamily::PACKET,
        SocketType::RAW,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?)
}

/// Makes the device receive frames to other stations, too, while the socket is open.
pub(crate) fn be_promiscuous(socket: BorrowedFd<'_>, index: i32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    sys::set_packet_option(socket, libc::PACKET_ADD_MEMBERSHIP, request)
}

/// The kernel's counters of a packet socket, summed over the readings so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    lost: Cell<u64>,
    put: Cell<u64>,
}

impl Counters {
    /// Returns the number of frames shed because the ring was full.
    pub(crate) fn lost(&self, socket: &OwnedFd) -> u64 {
        self.read(socket);
        self.lost.get()
    }

    /// Returns the number of frames put into the ring.
    pub(crate) fn put(&self, socket: &OwnedFd) -> u64 {
        self.read(socket);
        self.put.get()
    }

    fn read(&self, socket: &OwnedFd) {
        if let Ok(news) = sys::packet_statistics(socket.as_fd()) {
            self.lost.set(self.lost.get() + u64::from(news.tp_drops));
            self.put.set(self.put.get() + u64::from(news.tp_packets.saturating_sub(news.tp_drops)));
        }
    }
}

/// The presence of a device, observed through errors of its socket.
#[derive(Debug)]
pub(crate) struct Presence {
    index: i32,
    /// Whether the device went down. It may come up again, or be gone.
    down: bool,
}

impl Presence {
    /// Creates the presence of the device with this index, which must be up.
    pub(crate) fn of(index: i32) -> Self {
        Self { index, down: false }
    }

    /// Records that the socket is readable.
    pub(crate) fn set_readable(&mut self, has_frames: bool, socket: &OwnedFd) {
        // Readable with an empty ring means that the socket has an error, and stays readable until the error
        // is fetched.
        if has_frames {
            self.down = false;
        } else if let Ok(Err(_)) = sockopt::socket_error(socket) {
            self.down = true;
        }
    }

    /// Records that an error of the socket was fetched.
    pub(crate) const fn set_down(&mut self) {
        self.down = true;
    }

    /// Fails `status` if the device was removed. A removed device goes down first, and the socket reports
    /// nothing else: a lookup shows whether the device still exists.
    pub(crate) fn check(&self, device: &NetDevice, status: &Status) {
        if self.down && !device.index().is_ok_and(|index| index == self.index) {
            status.fail("the device was removed".to_owned());
        }
    }
}
