//! The transmit ring of a device.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use evenkeel_core::frame::{Frame, Pool};
use rustix::net::xdp::XdpDesc;

use super::queue::SharedUmem;
use super::ring::Producer;
use super::socket::wake_transmit;
use crate::device::{Refusal, Status};
use crate::netdev::NetDevice;

/// The most descriptors that the kernel copies out of the ring in one call (`TX_BATCH_SIZE` of
/// net/xdp/xsk.c).
pub(super) const CALL_PKTS: usize = 32;
/// The most calls for one hand-over: it has at most as many descriptors as the ring.
const CALLS: usize = super::umem::SEND_PKTS / CALL_PKTS + 1;

/// The transmit side of a device: the ring of one of its queues.
#[derive(Debug)]
pub(super) struct Transmit {
    pub(super) ring: Producer<XdpDesc>,
    pub(super) umem: SharedUmem,
    pub(super) socket: Arc<OwnedFd>,
    pub(super) device: Arc<NetDevice>,
}

impl Transmit {
    /// Puts frames into the ring, as many as there are chunks and descriptors for, and has the kernel send
    /// them.
    pub(super) fn send(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool, status: &Status) -> usize {
        let mut taken = 0;
        let parts_max;
        {
            let mut umem = self.umem.lock();
            parts_max = umem.parts_max();
            umem.refill();
            while self.ring.has_room() {
                let Some(frame) = frames.pop_front() else { break };
                if umem.is_too_long(&frame) {
                    status.count_refusal(Refusal::TooLong);
                    pool.recycle(frame);
                    taken += 1;
                    continue;
                }
                match umem.send(frame, &mut self.ring) {
                    Ok(copied) => {
                        copied.into_iter().for_each(|frame| pool.recycle(frame));
                        taken += 1;
                    }
                    Err(frame) => {
                        frames.push_front(frame);
                        break;
                    }
                }
            }
        }
        self.ring.publish();
        match self.wake(taken, status) {
            // A ring that the kernel does not empty would hold up all other links of the host.
            Some(refusal) if !self.ring.has_room_for(parts_max) => {
                taken + refuse(frames, refusal, pool, status)
            }
            _ => taken,
        }
    }

    /// Has the kernel send what is in the ring. Returns the reason if it refuses to.
    fn wake(&self, frames: usize, status: &Status) -> Option<Refusal> {
        let (mut refusal, mut left) = (None, frames as u64);
        for _ in 0..CALLS {
            if !self.ring.needs_wakeup() || self.ring.is_empty() {
                break;
            }
            let result = wake_transmit(&self.socket);
            status.count_call(core::mem::take(&mut left));
            match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    let number = error.raw_os_error().unwrap_or(libc::EIO);
                    let has_carrier = || self.device.has_carrier().unwrap_or(true);
                    let reason = Refusal::of(number, has_carrier);
                    // A call for frames of earlier calls has refused none.
                    if frames > 0 {
                        status.count_refusal(reason);
                    }
                    refusal = Some(reason);
                    break;
                }
                Ok(()) => {}
            }
        }
        if left > 0 {
            status.count_call(left);
        }
        refusal
    }
}

/// Drops frames that find the ring of a device full which sends nothing. Returns their number.
fn refuse(frames: &mut VecDeque<Frame>, refusal: Refusal, pool: &mut Pool, status: &Status) -> usize {
    let count = frames.len();
    for frame in frames.drain(..) {
        status.count_refusal(refusal);
        pool.recycle(frame);
    }
    count
}
