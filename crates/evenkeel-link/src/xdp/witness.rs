//! A packet socket that notices what AF_XDP sockets do not: the end of their device, and of the XDP program.
//!
//! As long as the program is attached, no frame to our hardware address goes on to the kernel. If the socket
//! gets one, another program may have detached ours. A device that goes down or up may also let one through.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use evenkeel_core::bpf::{Instruction, Program as Bpf};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::EthernetAddress;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::clock::Clock;
use crate::closing::shut;
use crate::device::Status;
use crate::netdev::NetDevice;
use crate::socket::{Presence, be_promiscuous, packet_socket};
use crate::sys;

/// An Ethertype for local experiments (IEEE 802). The kernel does nothing else for a socket that asks for it.
const UNUSED: u16 = 0x88b6;
/// The time between two attempts to attach the program again.
const AGAIN: Duration = Duration::from_millis(500);
/// The most frames taken from the socket in one call. Others make it readable again.
const FRAMES_PER_CALL: usize = 64;
/// The number of attempts in a row that fail before the program counts as replaced.
const ATTEMPTS: u32 = 6;

/// A packet socket on a device. It keeps the device promiscuous.
#[derive(Debug)]
pub(super) struct Witness {
    socket: Arc<OwnedFd>,
    presence: Presence,
    clock: Clock,
    /// The time of the last attempt to attach the program again, and the number of attempts in a row.
    attempted: Option<(Instant, u32)>,
}

impl Witness {
    /// Opens a socket that gets no frames until [`Witness::watch`]. It becomes readable when the device goes
    /// down, as it also does before it is removed. With `shares_mac`, the kernel has frames to our hardware
    /// address of its own, and the socket never gets any.
    pub(super) fn open(index: i32, shares_mac: bool) -> io::Result<Self> {
        let socket = packet_socket()?;
        sys::attach_filter(socket.as_fd(), &Bpf::everything(0))?;
        sys::set_packet_option(socket.as_fd(), libc::PACKET_IGNORE_OUTGOING, 1)?;
        let protocol = if shares_mac { UNUSED } else { libc::ETH_P_ALL as u16 };
        sys::bind_packet(socket.as_fd(), index, protocol)?;
        be_promiscuous(socket.as_fd(), index)?;
        let presence = Presence::of(index);
        Ok(Self { socket: Arc::new(socket), presence, clock: Clock::start(), attempted: None })
    }

    /// Lets the socket get frames to `address` that go on to the kernel. The program must be attached.
    pub(super) fn watch(&self, address: EthernetAddress) -> io::Result<()> {
        sys::attach_filter(self.socket.as_fd(), &only_to(address))
    }

    /// Lets the socket get all frames that go on to the kernel. The program must be attached, and take them
    /// all.
    pub(super) fn watch_everything(&self) -> io::Result<()> {
        sys::attach_filter(self.socket.as_fd(), &Bpf::everything(1))
    }

    pub(super) const fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }

    /// Records that the socket is readable. Returns whether the program is to be attached again.
    pub(super) fn set_readable(&mut self, device: &NetDevice, status: &Status) -> bool {
        // An error is fetched first, as reading would.
        self.presence.set_readable(false, &self.socket);
        let has_frames = self.take_frames();
        self.presence.check(device, status);
        let now = self.clock.now();
        has_frames && self.attempted.is_none_or(|(last, _)| now >= last + AGAIN)
    }

    /// Takes frames from the socket. Returns whether there was one.
    fn take_frames(&mut self) -> bool {
        for taken in 0..FRAMES_PER_CALL {
            match recv(&self.socket, &mut [0_u8; 1], RecvFlags::DONTWAIT) {
                Ok(_) => {}
                Err(Errno::AGAIN) => return taken > 0,
                Err(_) => {
                    self.presence.set_down();
                    return taken > 0;
                }
            }
        }
        true
    }

    /// Records an attempt to attach the program. Fails `status` after several in vain.
    pub(super) fn record_attempt(&mut self, is_attached: bool, status: &Status) {
        let now = self.clock.now();
        let before = self.attempted.filter(|&(last, _)| now < last + AGAIN * 4).map_or(0, |(_, count)| count);
        let count = if is_attached { 0 } else { before + 1 };
        self.attempted = Some((now, count));
        if count >= ATTEMPTS {
            shut(&self.socket);
            status.fail("another XDP program has taken the place of ours".to_owned());
        }
    }
}

/// Returns a filter for the first byte of frames to `address`.
fn only_to(address: EthernetAddress) -> Bpf {
    const LOAD_WORD: u16 = 0x20;
    const LOAD_HALF: u16 = 0x28;
    const IS_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let [a, b, c, d, e, f] = address.0;
    let instruction = |code, jf, k| Instruction { code, jt: 0, jf, k };
    let all = [
        instruction(LOAD_WORD, 0, 0),
        instruction(IS_EQUAL, 3, u32::from_be_bytes([a, b, c, d])),
        instruction(LOAD_HALF, 0, 4),
        instruction(IS_EQUAL, 1, u32::from(u16::from_be_bytes([e, f]))),
        instruction(RETURN, 0, 1),
        instruction(RETURN, 0, 0),
    ];
    Bpf::new(&all).unwrap_or_else(|_| Bpf::everything(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_takes_frames_to_the_address_alone() {
        let filter = only_to(EthernetAddress([2, 1, 2, 3, 4, 5]));
        let length = |to: [u8; 6]| filter.run(&[&to[..], &[0; 8]].concat(), 14);
        assert_eq!(length([2, 1, 2, 3, 4, 5]), 1);
        assert_eq!([[2, 1, 2, 3, 4, 6], [3, 1, 2, 3, 4, 5], [0xff; 6]].map(length), [0; 3]);
    }
}
