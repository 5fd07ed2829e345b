//! Senders that found no free buffer, until there are some again.

use super::state::Sockets;
use crate::id::SocketId;
use crate::ready::Kinds;
use crate::time::{Duration, Instant};

/// The time between two looks for free buffers while a sender waits for some. Buffers that a work item of the
/// host frees are seen at its end; those of datagrams that a program drops between its calls are not.
const LOOK_PERIOD: Duration = Duration::from_millis(1);

/// Payload bytes of the smallest fragment that is reckoned with (RFC 791: 576 bytes, with headers).
const FRAGMENT_BYTES: usize = 512;

/// The UDP sockets whose last datagram found too few free buffers.
#[derive(Debug)]
pub(super) struct BlockedSenders {
    /// Each with the number of buffers that its datagram needs.
    waiting: Vec<(SocketId, usize)>,
    next_look: Instant,
}

impl BlockedSenders {
    pub(super) const fn new() -> Self {
        Self { waiting: Vec::new(), next_look: Instant::NEVER }
    }
}

impl Sockets {
    /// Records that a datagram of `len` bytes found too few of the pool's `capacity` buffers free. The socket
    /// is not writable until there are enough.
    #[cold]
    pub(crate) fn block_sender(&mut self, id: SocketId, len: usize, capacity: usize, now: Instant) {
        let Some(socket) = self.descriptors.udp_mut(id) else { return };
        if !core::mem::replace(&mut socket.lacks_buffers, true) {
            let needed = (len / FRAGMENT_BYTES + 2).min(capacity / 2).max(1);
            self.senders.waiting.push((id, needed));
            self.senders.next_look = self.senders.next_look.min(now + LOOK_PERIOD);
        }
    }

    /// Returns whether a sender waits for buffers.
    #[inline(always)]
    pub(crate) const fn has_blocked_senders(&self) -> bool {
        !self.senders.waiting.is_empty()
    }

    /// Returns when the host has to look for free buffers though it has nothing else to do.
    #[inline(always)]
    pub(crate) const fn next_sender_look(&self) -> Instant {
        self.senders.next_look
    }

    /// Notifies the senders that find enough buffers free.
    #[cold]
    pub(crate) fn unblock_senders(&mut self, available: usize) {
        let Self { senders, descriptors, ready, .. } = self;
        senders.waiting.retain(|&(id, needed)| {
            if available < needed {
                return true;
            }
            // Or it was closed meanwhile.
            if let Some(socket) = descriptors.udp_mut(id) {
                socket.lacks_buffers = false;
                ready.raise(id, Kinds::WRITABLE);
            }
            false
        });
        if senders.waiting.is_empty() {
            senders.next_look = Instant::NEVER;
        }
    }

    /// Looks for free buffers at the clock interrupt, and sets the time of the next look.
    pub(crate) fn look_for_buffers(&mut self, available: usize, now: Instant) {
        self.senders.next_look = now + LOOK_PERIOD;
        self.unblock_senders(available);
    }
}
