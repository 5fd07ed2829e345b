//! Senders that found no free buffer, until there are some again.

use super::descriptors::DescriptorTable;
use crate::id::SocketId;
use crate::ready::{Kinds, ReadyTable};
use crate::socket::Socket;
use crate::time::{Duration, Instant};

/// The time between two looks for free buffers while a sender waits for some. Buffers that a work item of the
/// host frees are seen at its end; those of datagrams that a program drops between its calls are not.
const LOOK_PERIOD: Duration = Duration::from_millis(1);

/// Payload bytes of the smallest fragment that is reckoned with (RFC 791: 576 bytes, with headers).
const FRAGMENT_BYTES: usize = 512;

/// The UDP sockets whose last datagram found too few free buffers.
#[derive(Debug)]
pub(crate) struct BlockedSenders {
    /// Each with the number of buffers that its datagram needs.
    waiting: Vec<(SocketId, usize)>,
    next_look: Instant,
}

impl BlockedSenders {
    pub(super) const fn new() -> Self {
        Self { waiting: Vec::new(), next_look: Instant::NEVER }
    }

    /// Returns whether there are none.
    #[inline(always)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns when the host has to look for free buffers though it has nothing else to do.
    #[inline(always)]
    pub(crate) const fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Records that a datagram of `len` bytes found too few of the pool's `capacity` buffers free. The socket
    /// is not writable until there are enough.
    #[cold]
    pub(crate) fn block(
        &mut self,
        id: SocketId,
        socket: &mut Socket,
        len: usize,
        capacity: usize,
        now: Instant,
    ) {
        if !core::mem::replace(&mut socket.lacks_buffers, true) {
            let needed = (len / FRAGMENT_BYTES + 2).min(capacity / 2).max(1);
            self.waiting.push((id, needed));
            self.next_look = self.next_look.min(now + LOOK_PERIOD);
        }
    }

    /// Notifies the senders that find enough buffers free.
    #[cold]
    pub(crate) fn unblock(
        &mut self,
        available: usize,
        descriptors: &mut DescriptorTable,
        ready: &mut ReadyTable,
    ) {
        self.waiting.retain(|&(id, needed)| {
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
        if self.waiting.is_empty() {
            self.next_look = Instant::NEVER;
        }
    }

    /// Sets the time of the next look, after one that may have found too few.
    pub(crate) fn look_again(&mut self, now: Instant) {
        if !self.waiting.is_empty() {
            self.next_look = now + LOOK_PERIOD;
        }
    }
}
