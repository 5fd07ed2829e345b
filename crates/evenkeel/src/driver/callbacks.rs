//! Callbacks of the program that runs a host. The driver calls them between two units of work.

use std::fmt;

use evenkeel_core::host::{Host, Stray};
use evenkeel_core::stack::NeighborUpdate;
use evenkeel_core::time::Instant;
use evenkeel_link::EventFd;

/// The callback for a readable descriptor. It returns whether more work remains.
pub(crate) type Attend = Box<dyn FnMut(&mut Host, Instant) -> bool + Send>;

/// News from a host for the other hosts of its group.
#[derive(Debug)]
pub(crate) enum ForOthers {
    /// A change of a neighbour, for all other hosts.
    Neighbor(NeighborUpdate),
    /// A packet without a socket, for the next host.
    Stray(Stray),
}

/// The callback that receives news for other hosts.
type Tell = Box<dyn FnMut(ForOthers) + Send>;

/// Callbacks for readable descriptors and for news for other hosts.
#[derive(Default)]
pub(crate) struct Callbacks {
    attended: Vec<Attended>,
    tell: Option<Tell>,
}

/// A descriptor with its callback.
struct Attended {
    /// The index of the descriptor in the driver's [`Halt`](evenkeel_link::Halt).
    index: usize,
    /// The event behind the descriptor, if its state is visible without a system call.
    event: Option<EventFd>,
    attend: Attend,
    /// Whether the descriptor was readable when it was last polled, and has not been attended since.
    readable: bool,
    /// Whether more work remains, even if the descriptor is not readable.
    more: bool,
}

impl Attended {
    fn is_due(&self) -> bool {
        self.readable || self.more || self.event.as_ref().is_some_and(EventFd::is_notified)
    }

    /// Does one piece of work.
    fn serve(&mut self, host: &mut Host, now: Instant) {
        self.readable = false;
        self.more = (self.attend)(host, now);
    }
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indices = self.attended.iter().map(|attended| attended.index);
        f.debug_struct("Callbacks").field("attended", &indices.collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

impl Callbacks {
    /// Registers the callback for the descriptor with this index.
    pub(crate) fn attend(&mut self, index: usize, event: Option<EventFd>, attend: Attend) {
        self.attended.push(Attended { index, event, attend, readable: false, more: false });
    }

    /// Registers the callback that receives news for the other hosts of the group.
    pub(crate) fn on_news_for_others(&mut self, tell: impl FnMut(ForOthers) + Send + 'static) {
        self.tell = Some(Box::new(tell));
    }

    /// Returns whether no descriptor is attended.
    pub(crate) fn is_empty(&self) -> bool {
        self.attended.is_empty()
    }

    /// Returns whether an attended descriptor has more work, although it may not be readable.
    pub(crate) fn has_more(&self) -> bool {
        self.attended.iter().any(|attended| attended.more)
    }

    /// Records that the descriptor with this index was readable when it was polled.
    pub(crate) fn set_readable(&mut self, index: usize) {
        let mut all = self.attended.iter_mut();
        all.find(|attended| attended.index == index)
            .into_iter()
            .for_each(|attended| attended.readable = true);
    }

    /// Does one piece of the work of each descriptor that is due. Returns whether any was.
    pub(crate) fn serve(&mut self, host: &mut Host, now: Instant) -> bool {
        let mut has_served = false;
        for attended in self.attended.iter_mut().filter(|attended| attended.is_due()) {
            attended.serve(host, now);
            has_served = true;
        }
        has_served
    }

    /// Passes the host's neighbour updates and strays on.
    pub(crate) fn pass_on_news(&mut self, host: &mut Host) {
        let Some(tell) = &mut self.tell else { return };
        while let Some(update) = host.membership().next_neighbor_update() {
            tell(ForOthers::Neighbor(update));
        }
        while let Some(stray) = host.membership().next_stray() {
            tell(ForOthers::Stray(stray));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use evenkeel_core::time::Duration;

    use crate::Ended;
    use crate::test_host::{Spinner, engine};

    fn attended_while(busy: bool) {
        let mut engine = engine();
        if busy {
            engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        }
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut read = far.try_clone().unwrap();
        let (heard, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (to, from) = (Arc::clone(&heard), Arc::clone(&seen));
        engine.attend(Arc::new(OwnedFd::from(far)), move |host, _now| {
            let mut byte = [0];
            read.read_exact(&mut byte).unwrap();
            to.fetch_add(u64::from(byte[0]), Ordering::Relaxed);
            from.store(host.processes().count() as u64, Ordering::Relaxed);
        });
        for said in [1, 2, 4] {
            near.write_all(&[said]).unwrap();
        }
        let until = engine.clock().now() + Duration::from_secs(10);
        let ended = engine.run(until, |_| heard.load(Ordering::Relaxed) == 7).unwrap();
        assert_eq!(ended, Ended::Done, "heard {}", heard.load(Ordering::Relaxed));
        assert!(seen.load(Ordering::Relaxed) >= u64::from(busy), "it has the host at hand");
    }

    #[test]
    fn what_is_attended_is_served_while_the_core_is_halted() {
        attended_while(false);
    }

    #[test]
    fn what_is_attended_is_served_while_the_core_is_busy() {
        attended_while(true);
    }

    /// Does long work in 50 pieces of 200 µs, requested once. Returns the time until the end, the time that
    /// the pieces worked, and the time that the host counted.
    fn pieces(busy: bool) -> (Duration, Duration, Duration) {
        const PIECES: u32 = 50;
        let mut engine = engine();
        if busy {
            engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        }
        let (near, far) = UnixStream::pair().unwrap();
        let (mut near, mut read) = (near, far.try_clone().unwrap());
        let (clock, left, worked) =
            (*engine.clock(), Arc::new(AtomicU64::new(PIECES.into())), Arc::default());
        let (to_do, done): (_, Arc<AtomicU64>) = (Arc::clone(&left), Arc::clone(&worked));
        engine.attend_incrementally(Arc::new(OwnedFd::from(far)), move |_host, now| {
            if to_do.load(Ordering::Relaxed) == u64::from(PIECES) {
                read.read_exact(&mut [0]).unwrap();
            }
            clock.spin(Duration::from_micros(200));
            done.fetch_add(clock.now().since(now).as_nanos() as u64, Ordering::Relaxed);
            to_do.fetch_sub(1, Ordering::Relaxed) > 1
        });
        near.write_all(&[1]).unwrap();
        let begin = clock.now();
        let ended =
            engine.run(begin + Duration::from_secs(30), |_| left.load(Ordering::Relaxed) == 0).unwrap();
        assert_eq!(ended, Ended::Done, "{} pieces are left", left.load(Ordering::Relaxed));
        let worked = Duration::from_nanos(worked.load(Ordering::Relaxed));
        (clock.now().since(begin), worked, engine.host().cpu(evenkeel_core::host::Level::Process))
    }

    #[test]
    fn long_work_is_done_in_pieces_though_it_is_asked_for_once_and_counts_as_work() {
        let (_, worked, counted) = pieces(false);
        assert!(counted >= worked * 9 / 10, "{counted:?} of {worked:?}");
    }

    #[test]
    fn long_work_leaves_a_busy_core_three_quarters_of_its_time() {
        let (elapsed, worked, _) = pieces(true);
        assert!(elapsed >= worked * 7 / 2, "{worked:?} in {elapsed:?}");
    }

    /// Runs a core that never halts, with incremental work that never ends, and another descriptor. Returns
    /// how often that descriptor was attended with something to read, and how often in vain.
    fn beside_long_work(said: u64) -> (u64, u64) {
        let mut engine = engine();
        engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        let ((mut near, far), (mut kept, work)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        kept.write_all(&[1]).unwrap();
        engine.attend_incrementally(Arc::new(OwnedFd::from(work)), |_host, _now| true);
        far.set_nonblocking(true).unwrap();
        let mut read = far.try_clone().unwrap();
        let (heard, vain): (Arc<AtomicU64>, Arc<AtomicU64>) = (Arc::default(), Arc::default());
        let (count, count_vain) = (Arc::clone(&heard), Arc::clone(&vain));
        engine.attend(Arc::new(OwnedFd::from(far)), move |_host, _now| {
            let got = read.read(&mut [0]);
            let counted = if got.is_ok_and(|len| len == 1) { &count } else { &count_vain };
            counted.fetch_add(1, Ordering::Relaxed);
        });
        for number in 0..said {
            near.write_all(&[1]).unwrap();
            let until = engine.clock().now() + Duration::from_secs(30);
            engine.run(until, |_| heard.load(Ordering::Relaxed) > number).unwrap();
            // Asked, and said nothing since.
            let until = engine.clock().now() + Duration::from_millis(2);
            engine.run(until, |_| false).unwrap();
        }
        (heard.load(Ordering::Relaxed), vain.load(Ordering::Relaxed))
    }

    #[test]
    fn beside_long_work_what_is_attended_is_served_when_it_is_readable_and_then_only() {
        assert_eq!(beside_long_work(20), (20, 0));
    }
}
