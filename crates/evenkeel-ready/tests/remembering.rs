//! `select` and `poll` that remember find what those find that ask everybody, in every history; nobody sleeps
//! while something is ready that he waits for; and the status of just those descriptors is asked for that
//! are new, were ready before, or for which there is a hint.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ready::{
    Allocation, Answer, BadDescriptor, CallerId, FdSet, FdSets, FileId, Kinds, Object, PollEntry, ProcessId,
    Readiness, Wait, classic,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Open(usize),
    Close(usize, u32),
    Dup(usize, u32),
    DupFrom(usize, u32, u32),
    Dup2(usize, u32, u32),
    Pass(usize, u32, usize),
    Fork(usize),
    Exit(usize),
    Attach(usize),
    Detach(usize),
    /// Something happens to an object, and there is a hint.
    Arrive(usize, Kinds),
    /// There is a hint, but nothing has happened.
    Vain(usize, Kinds),
    /// Somebody reads what there is.
    Read(usize, Kinds),
    Select(usize, Selecting, Wait),
    Poll(usize, Vec<(u32, Kinds)>, Wait),
    /// One that was woken goes on where it slept.
    Run(usize),
    GiveUp(usize),
    ForgetAll(usize),
}

/// Of the open descriptors, by bit, those that are asked for; and maybe another one.
#[derive(Debug, Clone)]
struct Selecting {
    sets: [u32; 3],
    other: Option<u32>,
}

fn kinds() -> impl Strategy<Value = Kinds> {
    let all = [
        Kinds::READABLE,
        Kinds::WRITABLE,
        Kinds::EXCEPTIONAL,
        Kinds::HANG_UP,
        Kinds::ERROR,
        Kinds::READ_CLOSED,
    ];
    let one = prop::sample::select(all.to_vec());
    prop_oneof![
        3 => one.clone(),
        1 => (one.clone(), one).prop_map(|(a, b)| a.union(b)),
    ]
}

/// Generates descriptors in three words of a bitmap.
fn fd() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..7_u32, 1 => 62..67_u32, 1 => 128..131_u32]
}

fn step() -> impl Strategy<Value = Step> {
    let which = || 0..1_000_usize;
    let wait = || prop_oneof![Just(Wait::No), Just(Wait::UntilReady)];
    let selecting = || {
        let masks = prop_oneof![any::<[u32; 3]>(), any::<u32>().prop_map(|mask| [mask, 0, 0])];
        (masks, prop::option::weighted(0.1, fd())).prop_map(|(sets, other)| Selecting { sets, other })
    };
    let entries = prop::collection::vec((prop_oneof![9 => fd(), 1 => Just(u32::MAX)], kinds()), 0..6);
    prop_oneof![
        6 => which().prop_map(Step::Open),
        3 => (which(), fd()).prop_map(|(who, fd)| Step::Close(who, fd)),
        2 => (which(), fd()).prop_map(|(who, fd)| Step::Dup(who, fd)),
        2 => (which(), fd(), fd()).prop_map(|(who, fd, lowest)| Step::DupFrom(who, fd, lowest)),
        2 => (which(), fd(), fd()).prop_map(|(who, fd, new)| Step::Dup2(who, fd, new)),
        1 => (which(), fd(), which()).prop_map(|(who, fd, to)| Step::Pass(who, fd, to)),
        1 => which().prop_map(Step::Fork),
        1 => which().prop_map(Step::Exit),
        1 => which().prop_map(Step::Attach),
        1 => which().prop_map(Step::Detach),
        10 => (which(), kinds()).prop_map(|(object, kinds)| Step::Arrive(object, kinds)),
        1 => (which(), kinds()).prop_map(|(object, kinds)| Step::Vain(object, kinds)),
        6 => (which(), kinds()).prop_map(|(object, kinds)| Step::Read(object, kinds)),
        10 => (which(), selecting(), wait()).prop_map(|(who, what, wait)| Step::Select(who, what, wait)),
        6 => (which(), entries, wait()).prop_map(|(who, what, wait)| Step::Poll(who, what, wait)),
        10 => which().prop_map(Step::Run),
        1 => which().prop_map(Step::GiveUp),
        1 => which().prop_map(Step::ForgetAll),
    ]
}

/// INTERESTED, READY and HINTS, of one descriptor.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    interested: Kinds,
    ready: Kinds,
    hints: Kinds,
}

#[derive(Debug, Clone)]
enum Call {
    Select(FdSets),
    Poll(Vec<PollEntry>),
}

#[derive(Debug)]
struct Caller {
    id: CallerId,
    process: ProcessId,
    known: BTreeMap<u32, Known>,
    /// The call in which it sleeps, and whether it was woken.
    sleep: Option<(Call, bool)>,
}

/// The objects that are ready or not, the descriptors of each process, and what its callers have asked for.
/// The model follows the words of the paper and knows nothing of the implementation.
struct World {
    host: Readiness<usize>,
    holds: Vec<Kinds>,
    files: Vec<FileId>,
    tables: BTreeMap<ProcessId, BTreeMap<u32, usize>>,
    callers: Vec<Caller>,
}

const TO_READ: Kinds = Kinds::READABLE.union(Kinds::HANG_UP_OR_ERROR);
const TO_WRITE: Kinds = Kinds::WRITABLE.union(Kinds::HANG_UP_OR_ERROR);

fn asked_by_select(sets: &FdSets, fd: u32) -> Kinds {
    let (read, write) = (TO_READ.when(sets.read.contains(fd)), TO_WRITE.when(sets.write.contains(fd)));
    read.union(write).union(Kinds::EXCEPTIONAL.when(sets.exception.contains(fd)))
}

fn all_of(sets: &FdSets) -> BTreeSet<u32> {
    sets.read.iter().chain(sets.write.iter()).chain(sets.exception.iter()).collect()
}

/// Asks for one descriptor: whether its status is to be asked for. What holds of it is known then.
fn ask(known: &mut Known, asked: Kinds, holds: Kinds) -> bool {
    let new = asked.without(known.interested);
    known.interested = known.interested.union(asked);
    let check = asked.intersection(new.union(known.ready).union(known.hints));
    known.hints = known.hints.without(check);
    known.ready = known.ready.without(check).union(holds.intersection(check));
    !check.is_empty()
}

impl World {
    fn new(allocation: Allocation) -> Self {
        let mut host = Readiness::new(allocation);
        let tables: BTreeMap<_, _> = (0..2).map(|_| (host.spawn(140), BTreeMap::new())).collect();
        let mut world = Self { host, holds: vec![], files: vec![], tables, callers: vec![] };
        for process in world.tables.keys().copied().collect::<Vec<_>>() {
            world.attach(process);
            world.attach(process);
        }
        world
    }

    fn attach(&mut self, process: ProcessId) {
        let id = self.host.attach(process);
        self.callers.push(Caller { id, process, known: BTreeMap::new(), sleep: None });
    }

    fn process(&self, which: usize) -> ProcessId {
        *self.tables.keys().nth(which % self.tables.len()).unwrap()
    }

    fn put(&mut self, process: ProcessId, fd: u32, object: usize) {
        self.tables.get_mut(&process).unwrap().insert(fd, object);
    }

    fn is_referred_to(&self, object: usize) -> bool {
        self.tables.values().any(|table| table.values().any(|of| *of == object))
    }

    /// A number of a process has ceased to be what it was: all of its callers forget it.
    fn forget(&mut self, process: ProcessId, fd: u32) {
        for caller in self.callers.iter_mut().filter(|caller| caller.process == process) {
            caller.known.remove(&fd);
        }
    }

    fn hint(&mut self, object: usize, kinds: Kinds) {
        for caller in &mut self.callers {
            for (fd, _) in self.tables[&caller.process].iter().filter(|(_, of)| **of == object) {
                if let Some(known) = caller.known.get_mut(fd) {
                    known.hints = known.hints.union(kinds.intersection(known.interested));
                }
            }
        }
        // The name of a file that is gone may be another's.
        if self.is_referred_to(object) {
            self.host.hint(self.files[object], kinds);
        }
    }

    // --- What the classic ones find ---

    fn classic_select(&self, process: ProcessId, sets: &FdSets) -> Result<FdSets, BadDescriptor> {
        let (table, mut found) = (&self.tables[&process], FdSets::new());
        classic::select(sets, &mut found, |fd, _| Some(self.holds[*table.get(&fd)?]))?;
        Ok(found)
    }

    fn classic_poll(&self, process: ProcessId, entries: &[PollEntry]) -> Vec<PollEntry> {
        let (table, mut entries) = (&self.tables[&process], entries.to_vec());
        classic::poll(&mut entries, |fd, _| Some(self.holds[*table.get(&fd)?]));
        entries
    }

    /// Returns whether a call would return now.
    fn would_return(&self, process: ProcessId, call: &Call) -> bool {
        match call {
            Call::Select(sets) => !self.classic_select(process, sets).is_ok_and(|found| found.is_empty()),
            Call::Poll(entries) => {
                self.classic_poll(process, entries).iter().any(|entry| !entry.ready.is_empty())
            }
        }
    }

    // --- Calls ---

    fn select(&mut self, who: usize, sets: &FdSets, wait: Wait, is_woken: bool) {
        let (id, process) = (self.callers[who].id, self.callers[who].process);
        let (wanted, holds) = (self.classic_select(process, sets), &self.holds);
        let mut found = FdSets::new();
        let status = |object: usize, _| holds[object];
        let answer = if is_woken {
            self.host.woken(id, &mut found, status)
        } else {
            self.host.select(id, sets, &mut found, wait, status)
        };
        assert_eq!(answer.is_ok(), wanted.is_ok(), "{answer:?}, {wanted:?}");
        let (Ok(answer), Ok(wanted)) = (answer, wanted) else {
            self.take_interest_until_a_bad_one(who, sets);
            self.callers[who].sleep = None;
            return;
        };
        assert_eq!((&found, answer.ready), (&wanted, wanted.len()));
        let mut tests = 0;
        for fd in all_of(sets) {
            let holds = self.holds[self.tables[&process][&fd]];
            let known = self.callers[who].known.entry(fd).or_default();
            tests += usize::from(ask(known, asked_by_select(sets, fd), holds));
        }
        assert_eq!(answer.tests, tests, "new, ready before, hinted");
        let sleeps = wait == Wait::UntilReady && answer.ready == 0;
        self.callers[who].sleep = sleeps.then(|| (Call::Select(sets.clone()), false));
    }

    /// A call that fails has no status to ask for, but remembers what it has come across by then.
    fn take_interest_until_a_bad_one(&mut self, who: usize, sets: &FdSets) {
        let caller = &mut self.callers[who];
        let table = &self.tables[&caller.process];
        for (set, kinds) in
            [(&sets.read, TO_READ), (&sets.write, TO_WRITE), (&sets.exception, Kinds::EXCEPTIONAL)]
        {
            for fd in set.iter() {
                if !table.contains_key(&fd) {
                    return;
                }
                let known = caller.known.entry(fd).or_default();
                known.hints = known.hints.union(kinds.without(known.interested));
                known.interested = known.interested.union(kinds);
            }
        }
    }

    fn poll(&mut self, who: usize, entries: &[PollEntry], wait: Wait) {
        let (id, process) = (self.callers[who].id, self.callers[who].process);
        let (wanted, holds) = (self.classic_poll(process, entries), &self.holds);
        let mut entries = entries.to_vec();
        let answer = self.host.poll(id, &mut entries, wait, |object, _| holds[object]);
        assert_eq!(&entries, &wanted);
        let ready = entries.iter().filter(|entry| !entry.ready.is_empty()).count();
        let mut tests = 0;
        for entry in &entries {
            let Some(object) = self.tables[&process].get(&entry.fd) else { continue };
            let known = self.callers[who].known.entry(entry.fd).or_default();
            let asked = entry.events.without(Kinds::HANG_UP_OR_ERROR).union(Kinds::HANG_UP_OR_ERROR);
            tests += usize::from(ask(known, asked, self.holds[*object]));
        }
        assert_eq!(answer, Answer { ready, tests });
        let sleeps = wait == Wait::UntilReady && ready == 0;
        self.callers[who].sleep = sleeps.then_some((Call::Poll(entries), false));
    }

    fn run(&mut self, who: usize) {
        match self.callers[who].sleep.clone() {
            Some((Call::Select(sets), true)) => self.select(who, &sets, Wait::UntilReady, true),
            Some((Call::Poll(entries), true)) => self.poll(who, &entries, Wait::UntilReady),
            _ => {}
        }
    }

    fn sets(&self, process: ProcessId, selecting: &Selecting) -> FdSets {
        let table = &self.tables[&process];
        let set = |mask: u32| -> FdSet {
            let picked = table.keys().enumerate().filter(|(nth, _)| mask >> (nth % 32) & 1 == 1);
            picked.map(|(_, fd)| *fd).collect()
        };
        let [mut read, write, exception] = selecting.sets.map(set);
        read.extend(selecting.other);
        FdSets { read, write, exception }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Open(which) => {
                let (process, object) = (self.process(which), self.holds.len());
                if let Ok(opened) = self.host.open(process, object) {
                    self.holds.push(Kinds::NONE);
                    self.files.push(opened.file);
                    self.put(process, opened.fd, object);
                }
            }
            Step::Close(which, fd) => {
                let process = self.process(which);
                let object = self.tables.get_mut(&process).unwrap().remove(&fd);
                let last = object.filter(|object| !self.is_referred_to(*object));
                let closed = self.host.close(process, fd);
                assert_eq!(closed, object.map(|_| last).ok_or(BadDescriptor(fd)));
                self.forget(process, fd);
            }
            Step::Dup(which, fd) => {
                let process = self.process(which);
                if let Ok(new) = self.host.dup(process, fd) {
                    self.put(process, new, self.tables[&process][&fd]);
                }
            }
            Step::DupFrom(which, fd, lowest) => {
                let process = self.process(which);
                if let Ok(new) = self.host.dup_from(process, fd, lowest) {
                    self.put(process, new, self.tables[&process][&fd]);
                }
            }
            Step::Dup2(which, fd, new) => {
                let process = self.process(which);
                if self.host.dup2(process, fd, new).is_ok() && fd != new {
                    self.put(process, new, self.tables[&process][&fd]);
                    self.forget(process, new);
                }
            }
            Step::Pass(which, fd, to) => {
                let (process, to) = (self.process(which), self.process(to));
                if let Ok(new) = self.host.pass(process, fd, to) {
                    self.put(to, new, self.tables[&process][&fd]);
                }
            }
            Step::Fork(which) if self.tables.len() < 4 => {
                let parent = self.process(which);
                let child = self.host.fork(parent).unwrap();
                self.tables.insert(child, self.tables[&parent].clone());
                self.attach(child);
            }
            Step::Exit(which) if self.tables.len() > 1 => {
                let process = self.process(which);
                let objects: BTreeSet<_> = self.tables.remove(&process).unwrap().into_values().collect();
                let mut last = BTreeSet::new();
                self.host.exit(process, |object| assert!(last.insert(object)));
                let wanted = objects.into_iter().filter(|object| !self.is_referred_to(*object));
                assert_eq!(last, wanted.collect());
                self.callers.retain(|caller| caller.process != process);
            }
            Step::Attach(which) if self.callers.len() < 8 => self.attach(self.process(which)),
            Step::Arrive(object, kinds) if !self.holds.is_empty() => {
                let object = object % self.holds.len();
                self.holds[object] = self.holds[object].union(kinds);
                self.hint(object, kinds);
            }
            Step::Vain(object, kinds) if !self.holds.is_empty() => {
                self.hint(object % self.holds.len(), kinds);
            }
            Step::Read(object, kinds) if !self.holds.is_empty() => {
                let object = object % self.holds.len();
                self.holds[object] = self.holds[object].without(kinds);
            }
            _ if self.callers.is_empty() => {}
            Step::Detach(who) => {
                let caller = self.callers.swap_remove(who % self.callers.len());
                self.host.detach(caller.id);
            }
            Step::Select(who, selecting, wait) => {
                let who = who % self.callers.len();
                if self.callers[who].sleep.is_none() {
                    let sets = self.sets(self.callers[who].process, &selecting);
                    self.select(who, &sets, wait, false);
                }
            }
            Step::Poll(who, entries, wait) => {
                let who = who % self.callers.len();
                if self.callers[who].sleep.is_none() {
                    let entries = entries.into_iter().map(|(fd, events)| PollEntry::new(fd, events));
                    self.poll(who, &entries.collect::<Vec<_>>(), wait);
                }
            }
            Step::Run(who) => self.run(who % self.callers.len()),
            Step::GiveUp(who) => {
                let who = who % self.callers.len();
                self.callers[who].sleep = None;
                self.host.give_up(self.callers[who].id);
            }
            Step::ForgetAll(who) => {
                let who = who % self.callers.len();
                if self.callers[who].sleep.is_none() {
                    self.callers[who].known.clear();
                    self.host.forget_all(self.callers[who].id);
                }
            }
            _ => {}
        }
    }

    /// Those that are woken were asleep, and, if something has arrived, not in vain; those that are not
    /// woken have no reason to be.
    fn wake(&mut self, has_arrived: bool) {
        while let Some(id) = self.host.next_woken() {
            let who = self.callers.iter().position(|caller| caller.id == id).expect("it exists");
            let process = self.callers[who].process;
            let (call, is_woken) = self.callers[who].sleep.clone().expect("it was in a call");
            assert!(!is_woken, "and had not been woken");
            assert!(!has_arrived || self.would_return(process, &call), "woken in vain");
            self.callers[who].sleep = Some((call, true));
        }
        for caller in &self.callers {
            if let Some((call, false)) = &caller.sleep {
                assert!(!self.would_return(caller.process, call), "a lost wake-up: {call:?}");
            }
        }
    }

    fn check(&self) {
        for (process, table) in &self.tables {
            for (fd, object) in table {
                assert_eq!(self.host.behind(*process, *fd), Some(Object::Outside(*object)));
            }
        }
    }
}

/// So many cases at least; more if the environment says so.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.max(1_000), ..config }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn they_find_what_the_classic_ones_find(
        linear in any::<bool>(),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let allocation = if linear { Allocation::Linear } else { Allocation::Bitmap };
        let mut world = World::new(allocation);
        for step in steps {
            let has_arrived = matches!(step, Step::Arrive(..));
            world.take(step);
            world.wake(has_arrived);
            world.check();
        }
        // Whoever was woken runs, and then nobody is left who should.
        while let Some(who) = world.callers.iter().position(|c| matches!(c.sleep, Some((_, true)))) {
            world.run(who);
            world.wake(false);
        }
    }
}

// --- One thing at a time ---

const READABLE: Kinds = Kinds::READABLE;

/// A process with a thread, and so many files, none of which is ready.
struct Server {
    host: Readiness<u32>,
    process: ProcessId,
    thread: CallerId,
    files: Vec<FileId>,
}

impl Server {
    fn new(files: u32) -> Self {
        let mut host = Readiness::new(Allocation::Bitmap);
        let process = host.spawn(2_000_000);
        let files = (0..files).map(|object| host.open(process, object).unwrap().file).collect();
        Self { thread: host.attach(process), host, process, files }
    }

    /// Selects these to read, if just those objects are readable: which are, and how many were tested.
    fn select(&mut self, fds: impl IntoIterator<Item = u32>, readable: &[u32]) -> (Vec<u32>, usize) {
        let (selecting, mut found) = (to_read(fds), FdSets::new());
        let status = |object, _| READABLE.when(readable.contains(&object));
        let wait = Wait::UntilReady;
        let answer = self.host.select(self.thread, &selecting, &mut found, wait, status).unwrap();
        (found.read.iter().collect(), answer.tests)
    }

    fn woken(&mut self, readable: &[u32]) -> (Vec<u32>, usize) {
        let mut found = FdSets::new();
        let status = |object, _| READABLE.when(readable.contains(&object));
        let answer = self.host.woken(self.thread, &mut found, status).unwrap();
        (found.read.iter().collect(), answer.tests)
    }

    fn hint(&mut self, object: u32) {
        self.host.hint(self.files[object as usize], READABLE);
    }
}

fn to_read(fds: impl IntoIterator<Item = u32>) -> FdSets {
    FdSets { read: fds.into_iter().collect(), ..FdSets::new() }
}

#[test]
fn tests_are_of_what_is_new_was_ready_or_has_a_hint_and_after_a_wake_up_of_hints() {
    let mut server = Server::new(1_000);
    assert_eq!(server.select(0..900, &[5]), (vec![5], 900), "all are new");
    assert_eq!(server.select(0..900, &[5]), (vec![5], 1), "one was ready");
    assert_eq!(server.select(0..1_000, &[]), (vec![], 101), "the same, and a hundred are new");
    [7, 800, 900].into_iter().for_each(|object| server.hint(object));
    assert_eq!((server.host.next_woken(), server.host.next_woken()), (Some(server.thread), None));
    assert_eq!(server.woken(&[800]), (vec![800], 3), "three have hints");
    server.hint(800);
    server.hint(3);
    assert_eq!(server.select(0..500, &[3, 800]), (vec![3], 1), "what is not asked for keeps its hint");
    assert_eq!(server.select(0..1_000, &[3, 800]), (vec![3, 800], 2));
}

#[test]
fn a_number_that_is_used_again_has_no_past() {
    let mut server = Server::new(10);
    assert_eq!(server.select(0..10, &[4]), (vec![4], 10));
    server.host.close(server.process, 4).unwrap();
    let again = server.host.open(server.process, 99).unwrap();
    assert_eq!(again.fd, 4);
    assert_eq!(server.select(0..10, &[4]), (vec![], 1), "it is tested as new, and is another object");
    server.host.hint(again.file, READABLE);
    assert_eq!(server.woken(&[99]), (vec![4], 1));
}

#[test]
fn whoever_sleeps_on_a_descriptor_that_is_closed_finds_that_out() {
    let mut server = Server::new(10);
    assert_eq!(server.select(0..10, &[]).0, []);
    server.host.close(server.process, 4).unwrap();
    assert_eq!(server.host.next_woken(), Some(server.thread));
    let answer = server.host.woken(server.thread, &mut FdSets::new(), |_, _| Kinds::NONE);
    assert_eq!(answer, Err(BadDescriptor(4)));
}

#[test]
fn what_a_caller_polled_before_does_not_wake_it() {
    let mut server = Server::new(2);
    let mut entries = [PollEntry::new(0, READABLE)];
    let answer = server.host.poll(server.thread, &mut entries, Wait::UntilReady, |_, _| Kinds::NONE);
    assert_eq!(answer.ready, 0);
    server.host.give_up(server.thread);
    assert_eq!(server.select([1], &[]).0, []);
    server.host.hint(server.files[0], Kinds::HANG_UP);
    assert_eq!(server.host.next_woken(), None);
    server.host.hint(server.files[1], Kinds::HANG_UP);
    assert_eq!(server.host.next_woken(), Some(server.thread));
}

#[test]
fn whoever_calls_again_is_not_asleep_in_the_call_before() {
    let mut server = Server::new(2);
    assert_eq!(server.select([0], &[]).0, []);
    let (selecting, mut found) = (to_read([0]), FdSets::new());
    let answer = server.host.select(server.thread, &selecting, &mut found, Wait::No, |_, _| Kinds::NONE);
    assert_eq!(answer.unwrap().ready, 0);
    server.hint(0);
    assert_eq!(server.host.next_woken(), None);
}

#[test]
fn a_caller_who_remembers_nothing_is_a_classic_one() {
    let mut server = Server::new(100);
    for _ in 0..3 {
        server.host.forget_all(server.thread);
        assert_eq!(server.select(0..100, &[5]), (vec![5], 100));
    }
    // And hears of events, as long as it sleeps.
    server.host.forget_all(server.thread);
    assert_eq!(server.select(0..100, &[]).0, []);
    server.hint(7);
    assert_eq!(server.host.next_woken(), Some(server.thread));
}

#[test]
fn the_classic_ones_ask_everybody() {
    let ready = |fd| fd == 7 || fd == 500;
    let status = |fd, _| Some(READABLE.union(Kinds::WRITABLE).when(ready(fd)));
    let selecting = FdSets { write: [7, 8].into_iter().collect(), ..to_read(0..600) };
    let mut found = FdSets::new();
    let answer = classic::select(&selecting, &mut found, status).unwrap();
    assert_eq!(answer, Answer { ready: 3, tests: 600 }, "one is ready for two things, but asked once");
    assert_eq!(found, FdSets { write: [7].into_iter().collect(), ..to_read([7, 500]) });

    let fds = (0..600).chain([PollEntry::IGNORED]);
    let mut entries: Vec<_> = fds.map(|fd| PollEntry::new(fd, READABLE)).collect();
    assert_eq!(classic::poll(&mut entries, status), Answer { ready: 2, tests: 600 });
    assert_eq!(classic::poll(&mut entries[..3], |_, _| None), Answer { ready: 3, tests: 3 });
}

#[test]
fn a_million_descriptors_are_opened_and_closed_in_any_order() {
    const MANY: u32 = 1_000_003;
    let mut server = Server::new(MANY);
    assert_eq!(server.select(0..MANY, &[]), (vec![], MANY as usize));
    // A prime: each comes once.
    for nth in 1..=u64::from(MANY) {
        let fd = (nth * 611_953 % u64::from(MANY)) as u32;
        assert_eq!(server.host.close(server.process, fd), Ok(Some(fd)));
    }
    assert_eq!(server.host.next_woken(), Some(server.thread));
    let opened = [(); 2].map(|()| server.host.open(server.process, 0).unwrap().fd);
    assert_eq!(opened, [0, 1]);
    assert_eq!(server.host.behind(server.process, 2), None);
}
