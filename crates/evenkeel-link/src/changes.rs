//! Changes of the kernel's network devices, received through rtnetlink (rtnetlink(7)): MTU, presence, return.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rustix::net::{RecvFlags, recv};

use crate::netdev::NetDevice;
use crate::rtnetlink::{message_len, open_socket};

/// The multicast group of announcements about devices: `RTMGRP_LINK` (linux/rtnetlink.h).
const LINKS: u32 = 0x1;
/// The size of the receive buffer in bytes: more than the kernel's message about one device.
const BUFFER_BYTES: usize = 64 * 1024;
/// The size in bytes of the socket's queue of announcements.
const RECEIVE_BYTES: usize = 1 << 20;

/// The kernel's announcement about a network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceChange {
    /// The device exists, with this state.
    Is {
        /// The kernel's number for it.
        index: u32,
        /// Its name.
        name: String,
        /// Its MTU.
        mtu: usize,
        /// Whether it is up.
        up: bool,
    },
    /// The device has been removed.
    Gone {
        /// The number it had.
        index: u32,
    },
    /// Announcements were lost: the caller must query each device.
    Lost,
}

/// Announcements about the network devices of the namespace in which it was opened.
#[derive(Debug)]
pub struct DeviceChanges {
    socket: Arc<OwnedFd>,
    buffer: Vec<u8>,
}

impl DeviceChanges {
    /// Opens a socket that receives the announcements.
    ///
    /// # Errors
    /// If the kernel provides no such socket.
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: Arc::new(open_socket(LINKS, RECEIVE_BYTES)?), buffer: vec![0; BUFFER_BYTES] })
    }

    /// Returns the descriptor, which is readable while an announcement waits.
    #[must_use]
    pub fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket)
    }

    /// Reads one announcement and passes it to `tell`; false if none waits.
    ///
    /// # Errors
    /// If the socket fails, except for lost announcements.
    pub fn read(&mut self, mut tell: impl FnMut(DeviceChange)) -> io::Result<bool> {
        let len = match recv(&*self.socket, &mut self.buffer[..], RecvFlags::empty()) {
            Ok((len, _)) => len,
            Err(rustix::io::Errno::AGAIN) => return Ok(false),
            Err(rustix::io::Errno::INTR) => return Ok(true),
            Err(rustix::io::Errno::NOBUFS) => {
                tell(DeviceChange::Lost);
                return Ok(true);
            }
            Err(error) => return Err(error.into()),
        };
        let mut bytes = self.buffer.get(..len).unwrap_or_default();
        while let Some(len) = message_len(bytes) {
            let (message, rest) = bytes.split_at(len.min(bytes.len()));
            bytes = rest.get(len.next_multiple_of(4) - len..).unwrap_or_default();
            // A message that cannot be parsed has an attribute that is newer than the library.
            let Ok(message) = NetlinkMessage::<Message>::deserialize(message) else { continue };
            match message.payload {
                NetlinkPayload::InnerMessage(Message::NewLink(link)) => {
                    device(&link).into_iter().for_each(&mut tell)
                }
                NetlinkPayload::InnerMessage(Message::DelLink(link)) => {
                    tell(DeviceChange::Gone { index: link.header.index });
                }
                NetlinkPayload::Overrun(_) => tell(DeviceChange::Lost),
                _ => {}
            }
        }
        Ok(true)
    }
}

/// Returns the current state of the network device called `name`; `None` if there is no such device.
#[must_use]
pub fn device_now(name: &str) -> Option<DeviceChange> {
    let device = NetDevice::open(name).ok()?;
    let index = device.index().ok()?.unsigned_abs();
    Some(DeviceChange::Is { index, name: name.to_owned(), mtu: device.mtu().ok()?, up: device.is_up().ok()? })
}

fn device(link: &LinkMessage) -> Option<DeviceChange> {
    let name = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    });
    let mtu = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Mtu(mtu) => usize::try_from(*mtu).ok(),
        _ => None,
    });
    let up = link.header.flags.contains(LinkFlags::Up);
    Some(DeviceChange::Is { index: link.header.index, name: name?, mtu: mtu?, up })
}
