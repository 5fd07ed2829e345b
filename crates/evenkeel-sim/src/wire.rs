//! The far end of a host's cable: the adaptor's transmitter, which puts one frame at a time on the wire and
//! reports when it has left.

use std::collections::VecDeque;

use evenkeel_core::cable::End;
use evenkeel_core::frame::Pool;
use evenkeel_core::interface::Interface;
use evenkeel_core::time::Instant;

use crate::net::ethernet_time;

/// The number of frames that the far end of a cable can take during one work item.
const WIRE_PKTS: usize = 512;

/// A host's cable from outside.
///
/// A frame is *taken* when the host hands it over, *sent* at the end of the work item that did, and has
/// *left* when the wire has transmitted its last bit. Without a rate that is at once.
#[derive(Debug)]
pub struct Wire {
    end: End,
    pool: Pool,
    rate_bps: Option<u64>,
    /// Frames given to the transmitter; the first is on the wire.
    sending: VecDeque<Vec<u8>>,
    /// The time at which the first frame has left; [`Instant::NEVER`] if there is none.
    leaves: Instant,
}

impl Wire {
    /// Creates the cable with this outside end; the host's adaptor sends at `rate_bps`.
    #[must_use]
    pub fn new(mut end: End, rate_bps: Option<u64>) -> Self {
        let mut pool = Pool::with_limit(2 * WIRE_PKTS);
        // If the cable's far ring is larger, the cable sheds and counts the excess.
        let _ = end.attach(&mut pool);
        Self { end, pool, rate_bps, sending: VecDeque::new(), leaves: Instant::NEVER }
    }

    /// Passes a frame to the host. Returns whether there was room in its ring.
    pub(crate) fn arrive(&mut self, frame: &[u8]) -> bool {
        let accepted = self.end.send(frame);
        self.end.flush();
        accepted
    }

    /// Takes the next frame that the host has handed over.
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        let frame = self.end.queue_mut(0).take(&mut self.pool)?;
        let bytes = frame.bytes().to_vec();
        self.pool.recycle(frame);
        Some(bytes)
    }

    /// Gives a frame to the transmitter.
    pub(crate) fn send(&mut self, frame: Vec<u8>, now: Instant) {
        if self.sending.is_empty() {
            self.leaves = now + self.time_of(&frame);
        }
        self.sending.push_back(frame);
    }

    fn time_of(&self, frame: &[u8]) -> evenkeel_core::time::Duration {
        self.rate_bps.map(|rate| ethernet_time(frame.len(), rate)).unwrap_or_default()
    }

    /// Returns the time at which the next frame has left; [`Instant::NEVER`] if there is none.
    pub(crate) const fn poll_timeout(&self) -> Instant {
        self.leaves
    }

    /// Reports to the host's adaptor that this number of frames have left.
    pub(crate) fn complete(&mut self, frames: u64) {
        self.end.complete(frames);
    }

    /// Returns the next frame that has left by `now`. The caller must notify the host's adaptor
    /// ([`Self::complete`]).
    pub(crate) fn poll_frame(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.leaves > now {
            return None;
        }
        let frame = self.sending.pop_front()?;
        self.leaves = self.sending.front().map_or(Instant::NEVER, |next| self.leaves + self.time_of(next));
        Some(frame)
    }
}
