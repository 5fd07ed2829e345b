//! Exclusive registrations: one event for one of several callers that wait for the same file, each at its
//! own event queue.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use evenkeel_ready::{
    Allocation, CallerId, Event, FileId, Interest, Kinds, PollEntry, ProcessId, QueueError, Readiness,
    Trigger, Wait,
};
use proptest::prelude::*;

const READABLE: Kinds = Kinds::READABLE;

/// Workers, each with a thread and an event queue, at which the listener of all is registered.
struct Workers {
    host: Readiness<u32>,
    process: ProcessId,
    listener: FileId,
    fd: u32,
    workers: Vec<(CallerId, u32)>,
}

const fn interest(events: Kinds, trigger: Trigger) -> Interest {
    Interest { events, trigger, token: 0 }
}

impl Workers {
    fn new(are_exclusive: &[bool], trigger: Trigger) -> Self {
        let mut host = Readiness::new(Allocation::Bitmap);
        let process = host.spawn(100);
        let opened = host.open(process, 7).unwrap();
        let mut workers = Vec::new();
        for is_exclusive in are_exclusive {
            let queue = host.open_queue(process).unwrap().fd;
            let interest = interest(READABLE, trigger);
            let none = |_, _| Kinds::NONE;
            if *is_exclusive {
                host.add_exclusive(process, queue, opened.fd, interest, none).unwrap();
            } else {
                host.add(process, queue, opened.fd, interest, none).unwrap();
            }
            workers.push((host.attach(process), queue));
        }
        Self { host, process, listener: opened.file, fd: opened.fd, workers }
    }

    fn wait(&mut self, which: usize, wait: Wait, status: Kinds) -> usize {
        let (caller, queue) = self.workers[which];
        self.host.wait(caller, queue, &mut [Event::default(); 4], wait, |_, _| status).unwrap().ready
    }

    /// Makes a connection arrive. Returns the workers that are woken.
    fn arrive(&mut self) -> Vec<usize> {
        self.host.hint(self.listener, READABLE);
        let woken = core::iter::from_fn(|| self.host.next_woken());
        woken.map(|id| self.workers.iter().position(|(caller, _)| *caller == id).unwrap()).collect()
    }
}

proptest! {
    /// All that are not exclusive have the event; of those that are, the first in the order in which they
    /// were added that sleeps and all before it, or all of them if none sleeps.
    #[test]
    fn one_event_wakes_one_of_those_that_are_exclusive(
        workers in prop::collection::vec(any::<(bool, bool)>(), 1..8),
        is_level in any::<bool>(),
    ) {
        let trigger = if is_level { Trigger::Level } else { Trigger::Edge };
        let are_exclusive: Vec<_> = workers.iter().map(|(is_exclusive, _)| *is_exclusive).collect();
        let mut of = Workers::new(&are_exclusive, trigger);
        for (which, (_, sleeps)) in workers.iter().enumerate() {
            let wait = if *sleeps { Wait::UntilReady } else { Wait::No };
            prop_assert_eq!(of.wait(which, wait, Kinds::NONE), 0);
        }
        let exclusive = || workers.iter().enumerate().filter(|(_, (is_exclusive, _))| *is_exclusive);
        let first = exclusive().find(|(_, (_, sleeps))| *sleeps).map(|(which, _)| which);
        let has_event = |which: usize| !workers[which].0 || first.is_none_or(|first| which <= first);

        let mut woken = of.arrive();
        woken.sort_unstable();
        let wanted = (0..workers.len()).filter(|which| workers[*which].1 && has_event(*which));
        prop_assert_eq!(&woken, &wanted.collect::<Vec<_>>());
        for (which, (_, sleeps)) in workers.iter().enumerate() {
            let ready = usize::from(has_event(which));
            // Whoever still sleeps is not asked.
            if !sleeps || has_event(which) {
                prop_assert_eq!(of.wait(which, Wait::No, READABLE), ready, "{}", which);
            }
        }
    }
}

#[test]
fn each_of_several_events_wakes_another_one_and_select_hears_of_all() {
    let mut of = Workers::new(&[true; 3], Trigger::Edge);
    (0..3).for_each(|which| _ = of.wait(which, Wait::UntilReady, Kinds::NONE));
    assert_eq!([of.arrive(), of.arrive(), of.arrive(), of.arrive()], [vec![0], vec![1], vec![2], vec![]]);
    // A caller of poll is not exclusive.
    let poller = of.host.attach(of.process);
    let mut entries = [PollEntry::new(of.fd, READABLE)];
    of.host.poll(poller, &mut entries, Wait::UntilReady, |_, _| Kinds::NONE);
    of.wait(0, Wait::No, Kinds::NONE);
    of.wait(0, Wait::UntilReady, Kinds::NONE);
    of.host.hint(of.listener, READABLE);
    assert_eq!([of.host.next_woken(), of.host.next_woken()], [Some(poller), Some(of.workers[0].0)]);
}

/// A host whose callers wait by means of their own says that one does.
#[test]
fn whoever_waits_outside_counts_as_woken() {
    let mut of = Workers::new(&[true; 3], Trigger::Level);
    let (process, second) = (of.process, of.workers[1].1);
    let second = of.host.descriptors().file(process, second).unwrap();
    let mut told = 0;
    of.host.hint_and_tell(of.listener, READABLE, |queue| {
        told += 1;
        queue == second
    });
    assert_eq!(told, 2, "the first, where nobody waits, and the second");
    assert_eq!([0, 1, 2].map(|which| of.wait(which, Wait::No, READABLE)), [1, 1, 0]);
}

#[test]
fn what_cannot_be_exclusive_is_refused() {
    let mut of = Workers::new(&[true], Trigger::Level);
    let (process, queue, fd) = (of.process, of.workers[0].1, of.fd);
    let none = |_, _| Kinds::NONE;
    let level = interest(READABLE, Trigger::Level);
    let refused = |fd| Err(QueueError::Exclusive(fd));
    assert_eq!(of.host.modify(process, queue, fd, level, none), refused(fd));
    assert_eq!(of.host.add_exclusive(process, queue, fd, level, none), Err(QueueError::AlreadyAdded(fd)));
    let other = of.host.dup(process, fd).unwrap();
    for refusal in [
        interest(READABLE, Trigger::OneShot),
        interest(Kinds::EXCEPTIONAL, Trigger::Edge),
        interest(READABLE.union(Kinds::READ_CLOSED), Trigger::Edge),
    ] {
        assert_eq!(of.host.add_exclusive(process, queue, other, refusal, none), refused(other));
    }
    let inner = of.host.open_queue(process).unwrap().fd;
    assert_eq!(of.host.add_exclusive(process, queue, inner, level, none), refused(inner));
    assert_eq!(of.host.delete(process, queue, fd), Ok(()), "only deleted");
    assert_eq!(of.host.add(process, queue, fd, level, none), Ok(()));
}
