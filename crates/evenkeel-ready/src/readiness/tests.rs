use proptest::prelude::*;

use evenkeel_base::Slab;

use super::event_queues::{QueueError, Queues};
use super::names::CallerId;
use super::state::{Caller, Readiness};
use crate::call::Wait;
use crate::descriptors::Opened;
use crate::descriptors::{FileId, ProcessId};
use crate::kinds::Kinds;
use crate::numbers::Allocation;
use crate::queue::{Event, Interest, Trigger};
use crate::set::FdSets;
use crate::watches::Watcher;

/// Descriptors, callers and event queues come and go; those that are gone have no watches and are not
/// watched.
fn comes_and_goes(steps: &[(u8, u32, u32)]) {
    let mut host = Readiness::new(Allocation::Bitmap);
    let process = host.spawn(200);
    let mut callers = vec![host.attach(process)];
    let mut files = vec![];
    let status = |_: (), _| Kinds::NONE;
    for &(what, one, other) in steps {
        let caller = callers.get(one as usize % callers.len().max(1)).copied().unwrap_or(CallerId(9));
        let (fd, queue) = (other % 100, one % 100);
        let is_exclusive = one.is_multiple_of(3);
        let interest = Interest { events: Kinds::READABLE, trigger: Trigger::Level, token: 0 };
        match what % 16 {
            0..4 => files.extend(host.open(process, ()).map(|opened| opened.file)),
            4 => _ = host.open_queue(process),
            5 => _ = host.dup2(process, fd, queue),
            6 => _ = host.close(process, fd),
            7 => callers.push(host.attach(process)),
            8 if !callers.is_empty() => {
                let which = one as usize % callers.len();
                host.detach(callers.swap_remove(which));
            }
            9 => _ = host.delete(process, queue, fd),
            10..12 if is_exclusive => _ = host.add_exclusive(process, queue, fd, interest, status),
            10..12 => _ = host.add(process, queue, fd, interest, status),
            12 => host.hint(FileId(other % 40), Kinds::ALL),
            _ => {
                let mut sets = FdSets::new();
                let set = if what % 2 == 0 { &mut sets.read } else { &mut sets.exception };
                set.extend((0..100).filter(|fd| host.behind(process, *fd).is_some() && fd % 3 != one % 3));
                let status = |(), _| Kinds::READABLE.when(one.is_multiple_of(2));
                _ = host.select(caller, &sets, &mut FdSets::new(), Wait::UntilReady, status);
            }
        }
        host.callers.iter().for_each(|(_, caller)| caller.memory.check());
        assert!(host.queues.none_is_marked());
    }
    for fd in (0..100).filter(|fd| fd % 2 == 0) {
        _ = host.close(process, fd);
    }
    callers.into_iter().for_each(|caller| host.detach(caller));
    let queues = host.watches.iter().filter(|watch| matches!(watch.watcher, Watcher::Queue(..))).count();
    assert_eq!(host.watches.iter().count(), queues, "no caller is left");
    host.exit(process, |()| {});
    assert_eq!(host.watches.iter().count(), 0);
    assert!(host.callers.iter().next().is_none() && host.queues.is_empty());
}

#[test]
fn an_event_queue_takes_104_bytes_and_a_caller_312() {
    assert_eq!((Queues::BYTES, Slab::<Caller>::BYTES), (104, 312));
}

const LEVEL: Interest = Interest { events: Kinds::READABLE, trigger: Trigger::Level, token: 0 };

/// Event queues in a row, each of which has so many duplicates of the one before it registered; the first has
/// so many of a file.
struct Row {
    host: Readiness<u32>,
    process: ProcessId,
    file: FileId,
    queues: Vec<u32>,
}

impl Row {
    fn new(queues: usize, duplicates: usize) -> Self {
        let mut host = Readiness::new(Allocation::Bitmap);
        let process = host.spawn(10_000);
        let Opened { fd, file } = host.open(process, 7).unwrap();
        let queues: Vec<_> = (0..queues).map(|_| host.open_queue(process).unwrap().fd).collect();
        let mut row = Self { host, process, file, queues };
        for (inner, outer) in core::iter::once(fd).chain(row.queues.clone()).zip(row.queues.clone()) {
            row.add(outer, inner).unwrap();
            for _ in 1..duplicates {
                let duplicate = row.host.dup(process, inner).unwrap();
                row.add(outer, duplicate).unwrap();
            }
        }
        row
    }

    fn add(&mut self, queue: u32, fd: u32) -> Result<(), QueueError> {
        self.host.add(self.process, queue, fd, LEVEL, |_, _| Kinds::NONE)
    }

    /// Returns how many watches `what` visits.
    fn looks(&mut self, what: impl FnOnce(&mut Self)) -> u64 {
        let before = self.host.watches.looks.get();
        what(self);
        self.host.watches.looks.get() - before
    }
}

/// A row of five event queues has so many ways from the file to the last as there are duplicates, to the
/// power of five. Work goes with the registrations, whose number is five times that of duplicates.
#[test]
fn whatever_happens_to_event_queues_in_a_row_costs_what_there_are_of_registrations() {
    const DUPLICATES: usize = 50;
    let registrations = 5 * DUPLICATES as u64;
    let mut row = Row::new(5, DUPLICATES);

    let mut told = 0;
    let looks = row.looks(|row| {
        row.host.hint_and_tell(row.file, Kinds::READABLE, |_| {
            told += 1;
            false
        });
    });
    assert_eq!(told, registrations, "each registration once");
    assert!(looks <= registrations + 6, "{looks}");
    let last = *row.queues.last().unwrap();
    let mut events = [Event::default(); 2 * DUPLICATES];
    let caller = row.host.attach(row.process);
    let answer = row.host.wait(caller, last, &mut events, Wait::No, |_, _| Kinds::READABLE).unwrap();
    assert_eq!((answer.ready, answer.tests), (DUPLICATES, DUPLICATES));

    // One more at the bottom is one too many, and of four in a row it raises all that are above.
    let sixth = row.host.open_queue(row.process).unwrap().fd;
    let bottom = row.queues[0];
    let looks = row.looks(|row| assert_eq!(row.add(bottom, sixth), Err(QueueError::Nested(sixth))));
    assert!(looks <= registrations + 6, "{looks}");
    let mut row = Row::new(4, DUPLICATES);
    let fifth = row.host.open_queue(row.process).unwrap().fd;
    let bottom = row.queues[0];
    let looks = row.looks(|row| row.add(bottom, fifth).unwrap());
    assert!(looks <= 5 * registrations, "{looks}");
    let looks = row.looks(|row| row.host.delete(row.process, bottom, fifth).unwrap());
    assert!(looks <= 5 * registrations, "{looks}");
}

/// Many duplicates of one file are at one event queue: each close looks once at those who watch the file.
#[test]
fn what_is_closed_is_looked_for_once() {
    const DUPLICATES: u64 = 500;
    let mut row = Row::new(1, DUPLICATES as usize);
    let looks = row.looks(|row| _ = row.host.close(row.process, row.queues[0]).unwrap());
    assert!(looks <= DUPLICATES + 2, "the event queue: {looks}");

    let mut row = Row::new(1, 1);
    let callers: Vec<_> = (0..DUPLICATES).map(|_| row.host.attach(row.process)).collect();
    let other = row.host.dup(row.process, 0).unwrap();
    for caller in callers {
        for fd in [0, other] {
            let mut entry = [crate::PollEntry::new(fd, Kinds::READABLE)];
            row.host.poll(caller, &mut entry, Wait::No, |_, _| Kinds::NONE);
        }
    }
    let looks = row.looks(|row| _ = row.host.close(row.process, 0).unwrap());
    assert!(looks <= 2 * DUPLICATES + 2, "a descriptor that many callers have polled: {looks}");

    let mut row = Row::new(5, DUPLICATES as usize / 5);
    let looks = row.looks(|row| row.host.exit(row.process, |_| {}));
    assert!(looks <= 5 * DUPLICATES, "all of them: {looks}");
}

proptest! {
    #[test]
    fn nothing_is_left_of_what_is_gone(steps in prop::collection::vec(any::<(u8, u32, u32)>(), 1..200)) {
        comes_and_goes(&steps);
    }
}
