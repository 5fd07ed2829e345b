//! Cables side by side that are one interface with several queues: as many hosts share it, one on each core.

use super::end::{End, pair};
use super::options::Options;
use crate::demux::flow_hash;
use crate::frame::{Frame, Pool, PoolLimit};
use crate::interface::{Flows, Interface};

/// The outside end of an interface with several queues. Each flow goes to one of them.
#[derive(Debug)]
pub struct Bundle {
    ends: Vec<End>,
}

/// Creates an interface with `queues` queues, at least one. Returns its outside end, with the options
/// `outside`, and for each host an end with its own receive and transmit queues, with the options `inside`.
#[must_use]
pub fn bundle(outside: &Options, inside: &Options, queues: usize) -> (Bundle, Vec<End>) {
    let queues = queues.max(1);
    let of = |share| {
        let (end, host) = pair(outside.clone(), inside.clone());
        (end, host.sharing(Flows::Share { share, shares: queues }))
    };
    let (ends, hosts) = (0..queues).map(of).unzip();
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

    /// Sends a frame to a queue, whatever its flow: no promise is made where traffic arrives that is not of
    /// any flow.
    pub fn send_to(&mut self, queue: usize, frame: &[u8]) -> bool {
        self.ends.get_mut(queue).is_some_and(|end| end.send(frame))
    }

    /// Returns the queue of a frame's flow.
    #[must_use]
    pub fn queue_of(&self, frame: &[u8]) -> usize {
        flow_hash(frame) as usize % self.ends.len().max(1)
    }

    /// Wakes the hosts to which frames were sent, if they asked to be woken.
    pub fn flush(&mut self) {
        self.ends.iter_mut().for_each(End::flush);
    }

    /// Takes the oldest frame that the host of `queue` has sent.
    pub fn take_from(&mut self, queue: usize, pool: &mut Pool) -> Option<Frame> {
        self.ends.get_mut(queue)?.queue_mut(0).take(pool)
    }

    /// Returns the number of queues.
    #[must_use]
    pub fn queues(&self) -> usize {
        self.ends.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a frame of UDP over IPv4, in which only the fields of the hash are filled in.
    fn udp(from: (u8, u16), to: (u8, u16), fragment: u8) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        (frame[20], frame[23], frame[29], frame[33]) = (fragment, 17, from.0, to.0);
        frame[34..36].copy_from_slice(&from.1.to_be_bytes());
        frame[36..38].copy_from_slice(&to.1.to_be_bytes());
        frame
    }

    fn queues(frames: impl Iterator<Item = Vec<u8>>) -> Vec<usize> {
        let (bundle, _) = bundle(&Options::new("outside", 1), &Options::new("inside", 2), 4);
        let mut queues: Vec<usize> = frames.map(|frame| bundle.queue_of(&frame)).collect();
        queues.sort_unstable();
        queues.dedup();
        queues
    }

    #[test]
    fn flows_that_differ_in_any_end_are_spread_over_all_queues() {
        assert_eq!(queues((0..64).map(|n| udp((1, 1000 + n), (2, 9), 0))), [0, 1, 2, 3]);
        assert_eq!(queues((0..64).map(|n| udp((1, 1000), (2, n), 0))), [0, 1, 2, 3]);
        assert_eq!(queues((0..64).map(|n| udp((n, 1000), (2, 9), 0))), [0, 1, 2, 3]);
        assert_eq!(queues((0..64).map(|n| udp((1, 1000), (n, 9), 0))), [0, 1, 2, 3]);
    }

    #[test]
    fn a_flow_and_all_fragments_of_a_datagram_stay_together() {
        assert_eq!(queues((0..64).map(|_| udp((1, 1000), (2, 9), 0))).len(), 1);
        // More fragments, or an offset: what lies where ports would be is payload.
        assert_eq!(queues((0..64).map(|n| udp((1, n), (2, n + 7), 0x20))).len(), 1);
        assert_eq!(queues((0..64).map(|n| udp((1, n), (2, 9), 1 + n as u8 % 31))).len(), 1);
    }

    #[test]
    fn what_is_short_or_strange_has_a_queue_too() {
        let frame = udp((1, 1000), (2, 9), 0);
        assert_eq!(queues((0..14).map(|len| frame[..len].to_vec())), [0]);
        for len in 14..frame.len() {
            assert_eq!(queues([frame[..len].to_vec()].into_iter()).len(), 1);
        }
    }
}
