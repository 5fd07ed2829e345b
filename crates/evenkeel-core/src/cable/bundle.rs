//! Cables side by side that are one interface with several queues: as many hosts share it, one on each core.

use super::{End, Options, WireCounters, pair};
use crate::demux::flow_hash;
use crate::frame::{Frame, Pool, PoolLimit};
use crate::interface::Interface;

/// The outside end of an interface with several queues. Each flow goes to one of them.
#[derive(Debug)]
pub struct Bundle {
    ends: Vec<End>,
}

/// An interface with `queues` queues, one at least: its outside end as `outside` says, and for each host the end with its own queues,
/// receive and transmit, as `inside` says.
#[must_use]
pub fn bundle(outside: &Options, inside: &Options, queues: usize) -> (Bundle, Vec<End>) {
    let (ends, hosts) = (0..queues.max(1)).map(|_| pair(outside.clone(), inside.clone())).unzip();
    (Bundle { ends }, hosts)
}

impl Bundle {
    /// Lets `pool` grow by what the outside ends hold, and fills them.
    ///
    /// # Errors
    /// [`PoolLimit`]
    pub fn attach(&mut self, pool: &mut Pool) -> Result<(), PoolLimit> {
        self.ends.iter_mut().try_for_each(|end| end.attach(pool))
    }

    /// Sends a frame to the queue of its flow. Returns whether there was room.
    pub fn send(&mut self, frame: &[u8]) -> bool {
        let queue = self.queue_of(frame);
        self.ends.get_mut(queue).is_some_and(|end| end.send(frame))
    }

    /// Sends a frame to a queue, whatever its flow: no promise is made where traffic arrives that is not of any flow.
    pub fn send_to(&mut self, queue: usize, frame: &[u8]) -> bool {
        self.ends.get_mut(queue).is_some_and(|end| end.send(frame))
    }

    /// The queue of a frame's flow.
    #[must_use]
    pub fn queue_of(&self, frame: &[u8]) -> usize {
        flow_hash(frame) as usize % self.ends.len().max(1)
    }

    /// Wakes the hosts that have been sent something and asked for it.
    pub fn flush(&mut self) {
        self.ends.iter_mut().for_each(Interface::flush);
    }

    /// The oldest frame that the host of `queue` has sent.
    pub fn take_from(&mut self, queue: usize, pool: &mut Pool) -> Option<Frame> {
        self.ends.get_mut(queue)?.queue(0).take(pool)
    }

    /// Queues.
    #[must_use]
    pub fn queues(&self) -> usize {
        self.ends.len()
    }

    /// What became of the frames sent to a queue.
    #[must_use]
    pub fn sent_to(&self, queue: usize) -> WireCounters {
        self.ends.get(queue).map_or_else(WireCounters::default, End::sent)
    }
}
