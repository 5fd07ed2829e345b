//! The ends of a cable.

use core::sync::atomic::Ordering;
use core::task::Waker;
use std::collections::VecDeque;

use super::adaptor::{Adaptor, Rings, adaptor};
use super::options::Options;
use super::transmit::TransmitRing;
use crate::demux::steering_hash;
use crate::frame::{Frame, Pool, PoolLimit};
use crate::interface::{Demultiplexer, Flows, Interface, Properties, RxQueue, TxQueue};

/// Counters of the frames sent towards one end of a cable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WireCounters {
    /// Frames put into a ring, and taken from it or still there.
    pub accepted: u64,
    /// Frames shed because the ring was full, or left in a channel's ring when that was closed.
    pub missed: u64,
    /// Frames for which the adaptor found no channel.
    pub discarded: u64,
}

/// Creates a cable, and returns its two ends.
#[must_use]
pub fn pair(a: Options, b: Options) -> (End, End) {
    let (into_a, rings_a) = adaptor(&a);
    let (into_b, rings_b) = adaptor(&b);
    (End::new(a, rings_a, into_b), End::new(b, rings_b, into_a))
}

/// One end of a cable. A host takes it as an interface, or a load generator and a simulator use it directly.
#[derive(Debug)]
pub struct End {
    properties: Properties,
    rings: Rings,
    peer: Adaptor,
}

impl End {
    fn new(options: Options, rings: Rings, peer: Adaptor) -> Self {
        // One that demultiplexes has a ring for each channel in their place.
        let queues = if options.demultiplexes { 0 } else { rings.queues.len() };
        let transmit = rings.transmit.as_ref().map_or(0, TransmitRing::capacity_pkts);
        let properties = Properties {
            mtu: options.mtu,
            queues,
            buffers: queues * options.ring_pkts + transmit,
            ..Properties::new(options.name, options.address)
        };
        Self { properties, rings, peer }
    }

    /// This end as one of several that share flows.
    pub(super) const fn sharing(mut self, flows: Flows) -> Self {
        self.properties.flows = flows;
        self
    }

    /// Sends one frame, from the Ethernet header on. Returns whether the other end had room for it.
    ///
    /// [`End::flush`] wakes the other end, if that asked for it.
    pub fn send(&mut self, frame: &[u8]) -> bool {
        if let Some(demultiplexer) = &mut self.peer.demultiplexer {
            demultiplexer.follow();
        }
        if frame.len() > self.peer.mtu + 18 {
            self.peer.discarded += 1;
            return false;
        }
        self.peer.deliver(frame)
    }

    /// Wakes the other end for the frames that were [sent](End::send), if it asked for it.
    pub fn flush(&mut self) {
        self.peer.ring_doorbells();
    }

    /// Reports that `count` further frames that were received here have left the other end, if that was
    /// opened with [`Completion::ByPeer`](super::Completion::ByPeer). Wakes the other end's host to reclaim
    /// them if it halts.
    pub fn complete(&mut self, count: u64) {
        self.peer.complete(count);
    }

    /// Sets the waker that is woken when a frame arrives at an armed ring. Only the first call has an
    /// effect.
    pub fn set_waker(&self, waker: Waker) {
        let _ = self.rings.waker.set(waker);
    }

    /// Returns the counters of the frames sent from this end.
    #[must_use]
    pub fn sent(&self) -> WireCounters {
        let queues = self.peer.queues.iter();
        let channels = self.peer.demultiplexer.iter().flat_map(|d| d.channels.iter().flatten());
        let missed: u64 =
            queues.chain(channels).map(|inlet| inlet.shared.missed.0.load(Ordering::Relaxed)).sum();
        let closed = self.peer.demultiplexer.as_ref().map_or((0, 0), |d| (d.closed.missed, d.closed.unread));
        WireCounters {
            accepted: self.peer.accepted - closed.1,
            missed: missed + closed.0 + closed.1,
            discarded: self.peer.discarded,
        }
    }

    /// Returns the ring of the other end to which a frame would be steered, if that end does not
    /// demultiplex.
    #[must_use]
    pub fn steers_to(&self, frame: &[u8]) -> usize {
        steering_hash(frame) as usize % self.peer.queues.len().max(1)
    }
}

impl TxQueue for End {
    fn transmit(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool) -> usize {
        let room = self.rings.transmit.as_ref().map_or(usize::MAX, TransmitRing::room);
        let count = frames.len().min(room);
        for _ in 0..count {
            let Some(frame) = frames.pop_front() else { break };
            // What the other end has no room for is lost on the wire, and counted there.
            let arrived = self.send(frame.bytes());
            match &mut self.rings.transmit {
                Some(ring) => ring.push(frame, arrived),
                None => pool.recycle(frame),
            }
        }
        self.flush();
        count
    }

    fn unreclaimed(&self) -> Option<usize> {
        self.rings.transmit.as_ref().map(TransmitRing::unreclaimed)
    }

    fn reclaim(&mut self, pool: &mut Pool, limit_pkts: usize) -> usize {
        self.rings.transmit.as_mut().map_or(0, |ring| ring.reclaim(pool, limit_pkts))
    }
}

impl Interface for End {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn queue(&self, index: usize) -> &dyn RxQueue {
        let last = self.rings.queues.len() - 1;
        &self.rings.queues[index.min(last)]
    }

    fn queue_mut(&mut self, index: usize) -> &mut dyn RxQueue {
        let last = self.rings.queues.len() - 1;
        &mut self.rings.queues[index.min(last)]
    }

    fn attach(&mut self, pool: &mut Pool) -> Result<(), PoolLimit> {
        pool.grow(self.properties.buffers)?;
        self.rings.queues.iter_mut().take(self.properties.queues).for_each(|queue| queue.refill(pool));
        Ok(())
    }

    fn demultiplexer(&mut self) -> Option<Box<dyn Demultiplexer>> {
        Some(Box::new(self.rings.control.take()?))
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU64;
    use std::sync::Arc;

    use super::super::transmit::Completion;
    use super::*;
    use crate::frame::Metadata;
    use crate::interface::{Burst, Seen};

    fn frame_to(port: u8) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14] = 0x45;
        frame[23] = 17;
        frame[37] = port;
        frame
    }

    #[test]
    fn a_host_that_gives_a_cable_up_has_the_memory_of_its_rings_back() {
        for (demultiplexes, completion, pkts) in [
            (false, Completion::AtOnce, 2 * 256),
            (false, Completion::ByPeer, 2 * 256 + 64),
            (true, Completion::ByPeer, 64),
        ] {
            let options = Options { queues: 2, demultiplexes, completion, ..Options::new("b", 2) };
            let (_, mut end) = pair(Options::new("a", 1), Options { transmit_ring_pkts: 64, ..options });
            let mut pool = Pool::with_limit(1_000);
            pool.grow(8).unwrap();
            end.attach(&mut pool).unwrap();
            assert_eq!(pool.capacity(), 8 + pkts);
            pool.shrink(end.properties().buffers);
            assert_eq!((pool.capacity(), pool.available()), (8, 8));
        }
    }

    #[test]
    fn frames_cross_and_a_full_ring_sheds() {
        let (mut a, mut b) = pair(Options::new("a", 1), Options { ring_pkts: 4, ..Options::new("b", 2) });
        let mut pool = Pool::with_limit(16);
        b.attach(&mut pool).unwrap();
        assert_eq!((0..6).filter(|_| a.send(&frame_to(7))).count(), 4);
        assert_eq!(a.sent(), WireCounters { accepted: 4, missed: 2, discarded: 0 });
        assert_eq!(b.queue(0).missed(), 2);
        let frame = b.queue_mut(0).take(&mut pool).unwrap();
        assert_eq!(frame.bytes(), frame_to(7));
        assert!(!a.send(&frame_to(7)), "the buffer has not come back");
        pool.recycle(frame);
        assert!(b.queue_mut(0).take(&mut pool).is_some());
        assert!(a.send(&frame_to(7)), "now it has");
    }

    /// Discards what it is shown.
    struct Discards(Pool);

    impl Burst for Discards {
        fn pool(&mut self) -> &mut Pool {
            &mut self.0
        }

        fn records(&self) -> bool {
            false
        }

        fn see(&mut self, _: &[u8], _: &Metadata) -> Seen {
            Seen::Discard
        }

        fn take(&mut self, _: Frame) -> bool {
            unreachable!("everything is discarded")
        }
    }

    #[test]
    fn a_frame_that_no_buffer_holds_brings_back_none_that_was_discarded() {
        let options = |name, n| Options { mtu: 4_000, ..Options::new(name, n) };
        let (mut a, mut b) = pair(options("a", 1), Options { ring_pkts: 4, ..options("b", 2) });
        let mut burst = Discards(Pool::with_limit(16));
        b.attach(&mut burst.0).unwrap();
        for _ in 0..4 {
            assert!(a.send(&frame_to(7)));
            assert_eq!(b.queue_mut(0).receive(1, &mut burst), 1);
        }
        assert!(a.send(&[7; 2_000]), "it is received, and dropped as truncated");
        assert!(b.queue_mut(0).take(&mut burst.0).unwrap().is_empty());
    }

    #[test]
    fn a_flow_keeps_to_its_ring() {
        let (a, _b) = pair(Options::new("a", 1), Options { queues: 4, ..Options::new("b", 2) });
        assert_eq!(a.steers_to(&frame_to(7)), a.steers_to(&frame_to(7)));
        let used: std::collections::BTreeSet<_> = (0..32).map(|port| a.steers_to(&frame_to(port))).collect();
        assert_eq!(used.len(), 4, "32 ports spread over 4 rings");
    }

    #[test]
    fn a_descriptor_is_in_use_until_the_frame_has_left_and_is_reclaimed() {
        let by_peer =
            Options { completion: Completion::ByPeer, transmit_ring_pkts: 2, ..Options::new("a", 1) };
        let (mut a, mut b) = pair(by_peer, Options { ring_pkts: 3, ..Options::new("b", 2) });
        let (mut pool, mut far) = (Pool::with_limit(300), Pool::with_limit(8));
        a.attach(&mut pool).unwrap();
        b.attach(&mut far).unwrap();
        pool.grow(1).unwrap();
        let free = pool.available();
        let send = |a: &mut End, pool: &mut Pool| {
            let mut frames = VecDeque::from_iter(pool.take_copy(&frame_to(7)));
            let taken = a.transmit(&mut frames, pool);
            frames.drain(..).for_each(|frame| pool.recycle(frame));
            taken == 1
        };
        assert!(a.unreclaimed().is_some() && b.unreclaimed().is_none());
        assert!(send(&mut a, &mut pool) && send(&mut a, &mut pool));
        assert!(!send(&mut a, &mut pool), "both descriptors are in use");
        assert_eq!((a.unreclaimed(), a.reclaim(&mut pool, 8)), (Some(0), 0), "nothing has left");
        b.complete(1);
        assert_eq!(a.unreclaimed(), Some(1));
        assert!(!send(&mut a, &mut pool), "left, but not reclaimed");
        assert_eq!(a.reclaim(&mut pool, 8), 1);
        assert!(send(&mut a, &mut pool));
        b.complete(2);
        assert_eq!(a.reclaim(&mut pool, 1), 1, "no more than the limit");
        assert_eq!(a.reclaim(&mut pool, 8), 1);
        assert_eq!(pool.available(), free);
        assert!(send(&mut a, &mut pool));
        assert_eq!(
            a.unreclaimed(),
            Some(1),
            "the other end had no room: lost on the wire, of which nobody will tell"
        );
    }

    #[test]
    fn a_host_that_halts_is_woken_when_a_frame_has_left() {
        #[derive(Default)]
        struct Count(AtomicU64);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let woken = Arc::new(Count::default());
        let (mut a, mut b) =
            pair(Options { completion: Completion::ByPeer, ..Options::new("a", 1) }, Options::new("b", 2));
        a.set_waker(Waker::from(Arc::clone(&woken)));
        b.complete(1);
        assert_eq!(woken.0.load(Ordering::Relaxed), 0, "it did not ask");
        assert!(!a.queue_mut(0).arm());
        b.complete(1);
        b.complete(1);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1, "once for each time it asked");
    }

    #[test]
    fn an_armed_ring_interrupts_once() {
        let (mut a, mut b) = pair(Options::new("a", 1), Options::new("b", 2));
        let mut pool = Pool::with_limit(256);
        b.attach(&mut pool).unwrap();
        assert!(!b.queue_mut(0).arm());
        a.send(&frame_to(7));
        a.flush();
        assert!(!b.rings.queues[0].shared.armed.0.is_armed());
        assert!(b.queue_mut(0).arm(), "a frame waits, so arming says so");
    }
}
