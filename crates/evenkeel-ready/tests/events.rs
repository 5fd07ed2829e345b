//! Event queues report what the model says, in every history: all that is ready and that asks for it, by
//! level as often as somebody looks, at an edge once for what has happened since, once; also event queues
//! within event queues, and nobody sleeps while there is an event for him.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_ready::{
    Allocation, CallerId, Event, FileId, Interest, Kinds, Object, Opened, PollEntry, ProcessId, QueueError,
    QueueId, Readiness, Trigger, Wait, classic,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Open(usize),
    OpenQueue(usize),
    Close(usize, u32),
    Dup(usize, u32),
    Dup2(usize, u32, u32),
    Fork(usize),
    Exit(usize),
    Attach(usize),
    Detach(usize),
    Arrive(usize, Kinds),
    Read(usize, Kinds),
    Add(usize, u32, u32, Kinds, Trigger),
    Modify(usize, u32, u32, Kinds, Trigger),
    Delete(usize, u32, u32),
    Wait(usize, u32, usize, Wait),
    /// Of all that the process has.
    Poll(usize, Wait),
    Run(usize),
    GiveUp(usize),
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
        2 => Just(Kinds::READABLE),
        2 => one.clone(),
        1 => (one.clone(), one).prop_map(|(a, b)| a.union(b)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let which = || 0..1_000_usize;
    let fd = || 0..8_u32;
    let trigger = || prop::sample::select(vec![Trigger::Level, Trigger::Edge, Trigger::OneShot]);
    let wait = || prop::sample::select(vec![Wait::No, Wait::UntilReady]);
    let registration = move || (which(), fd(), fd(), kinds(), trigger());
    prop_oneof![
        4 => which().prop_map(Step::Open),
        4 => which().prop_map(Step::OpenQueue),
        2 => (which(), fd()).prop_map(|(who, fd)| Step::Close(who, fd)),
        1 => (which(), fd()).prop_map(|(who, fd)| Step::Dup(who, fd)),
        1 => (which(), fd(), fd()).prop_map(|(who, fd, new)| Step::Dup2(who, fd, new)),
        1 => which().prop_map(Step::Fork),
        1 => which().prop_map(Step::Exit),
        1 => which().prop_map(Step::Attach),
        1 => which().prop_map(Step::Detach),
        12 => (which(), kinds()).prop_map(|(object, kinds)| Step::Arrive(object, kinds)),
        6 => (which(), kinds()).prop_map(|(object, kinds)| Step::Read(object, kinds)),
        16 => registration().prop_map(|(p, q, fd, kinds, trigger)| Step::Add(p, q, fd, kinds, trigger)),
        3 => registration().prop_map(|(p, q, fd, kinds, trigger)| Step::Modify(p, q, fd, kinds, trigger)),
        2 => (which(), fd(), fd()).prop_map(|(p, q, fd)| Step::Delete(p, q, fd)),
        12 => (which(), fd(), 1..6_usize, wait()).prop_map(|(who, q, max, w)| Step::Wait(who, q, max, w)),
        4 => (which(), wait()).prop_map(|(who, wait)| Step::Poll(who, wait)),
        10 => which().prop_map(Step::Run),
        1 => which().prop_map(Step::GiveUp),
    ]
}

#[derive(Debug, Clone, Copy)]
struct Registration {
    interest: Interest,
    is_enabled: bool,
    /// Something has happened since it was found not to be ready, or reported.
    is_candidate: bool,
}

type Registrations = BTreeMap<u32, Registration>;

#[derive(Debug, Clone, PartialEq)]
enum Call {
    Wait { fd: u32, queue: QueueId, max: usize },
    Poll(Vec<u32>),
}

#[derive(Debug)]
struct Caller {
    id: CallerId,
    process: ProcessId,
    /// The call in which it sleeps, and whether it was woken.
    sleep: Option<(Call, bool)>,
}

type Behind = Object<usize>;

struct World {
    host: Readiness<usize>,
    holds: Vec<Kinds>,
    files: Vec<FileId>,
    tables: BTreeMap<ProcessId, BTreeMap<u32, Behind>>,
    queues: BTreeMap<QueueId, (ProcessId, Registrations)>,
    callers: Vec<Caller>,
    tokens: u64,
    /// The number of times that a registration became a candidate. `tests` is the number of tests.
    candidacies: usize,
    tests: usize,
}

fn asked(interest: Interest) -> Kinds {
    interest.events.union(Kinds::HANG_UP_OR_ERROR)
}

impl World {
    fn new() -> Self {
        let mut host = Readiness::new(Allocation::Bitmap);
        let process = host.spawn(8);
        let mut world = Self {
            host,
            holds: vec![],
            files: vec![],
            tables: BTreeMap::from([(process, BTreeMap::new())]),
            queues: BTreeMap::new(),
            callers: vec![],
            tokens: 0,
            candidacies: 0,
            tests: 0,
        };
        (0..3).for_each(|_| world.attach(process));
        world
    }

    fn attach(&mut self, process: ProcessId) {
        let id = self.host.attach(process);
        self.callers.push(Caller { id, process, sleep: None });
    }

    fn process(&self, which: usize) -> ProcessId {
        *self.tables.keys().nth(which % self.tables.len()).unwrap()
    }

    fn behind(&self, process: ProcessId, fd: u32) -> Option<Behind> {
        self.tables.get(&process)?.get(&fd).copied()
    }

    fn is_referred_to(&self, object: Behind) -> bool {
        self.tables.values().any(|table| table.values().any(|of| *of == object))
    }

    fn statuses(&self) -> impl FnMut(usize, Kinds) -> Kinds + use<> {
        let holds = self.holds.clone();
        move |object, _| holds[object]
    }

    // --- What is ready ---

    fn status(&self, object: Behind) -> Kinds {
        match object {
            Object::Outside(object) => self.holds[object],
            Object::Queue(queue) => Kinds::READABLE.when(!self.eligible(queue).is_empty()),
        }
    }

    /// Returns what a queue has to report: the token and the kinds of each registration.
    fn eligible(&self, queue: QueueId) -> BTreeMap<u64, Kinds> {
        let Some((process, registrations)) = self.queues.get(&queue) else { return BTreeMap::new() };
        let candidates = registrations.iter().filter(|(_, registration)| registration.is_candidate);
        let ready = candidates.map(|(fd, registration)| {
            let status = self.status(self.tables[process][fd]);
            (registration.interest.token, status.intersection(asked(registration.interest)))
        });
        ready.filter(|(_, ready)| !ready.is_empty()).collect()
    }

    /// A hint goes to all that refer to the object, and from there to event queues around.
    fn hint(&mut self, object: Behind, kinds: Kinds) {
        let mut hinted = BTreeSet::new();
        for (process, table) in &self.tables {
            for fd in table.iter().filter(|(_, of)| **of == object).map(|(fd, _)| fd) {
                for (id, (_, registrations)) in self.queues.iter_mut().filter(|(_, q)| q.0 == *process) {
                    let Some(registration) = registrations.get_mut(fd) else { continue };
                    if registration.is_enabled && asked(registration.interest).intersects(kinds) {
                        registration.is_candidate = true;
                        self.candidacies += 1;
                        hinted.insert(*id);
                    }
                }
            }
        }
        hinted.into_iter().for_each(|queue| self.hint(Object::Queue(queue), Kinds::READABLE));
    }

    /// Enters a registration that is new or was modified.
    fn look_at(&mut self, queue: QueueId, fd: u32, interest: Interest) {
        let (process, registrations) = self.queues.get_mut(&queue).unwrap();
        let process = *process;
        registrations.insert(fd, Registration { interest, is_enabled: true, is_candidate: false });
        if self.status(self.tables[&process][&fd]).intersects(asked(interest)) {
            let registrations = &mut self.queues.get_mut(&queue).unwrap().1;
            registrations.get_mut(&fd).unwrap().is_candidate = true;
            self.candidacies += 1;
            self.hint(Object::Queue(queue), Kinds::READABLE);
        }
    }

    // --- Event queues in event queues ---

    fn inner(&self, queue: QueueId) -> Vec<QueueId> {
        let (process, registrations) = &self.queues[&queue];
        let behind = registrations.keys().map(|fd| self.tables[process][fd]);
        behind.filter_map(|o| if let Object::Queue(inner) = o { Some(inner) } else { None }).collect()
    }

    fn height(&self, queue: QueueId) -> usize {
        self.inner(queue).into_iter().map(|inner| self.height(inner) + 1).max().unwrap_or(0)
    }

    fn is_within(&self, queue: QueueId, outer: QueueId) -> bool {
        queue == outer || self.inner(outer).into_iter().any(|inner| self.is_within(queue, inner))
    }

    /// Returns the height that the highest queue would have with `inner` registered at `outer`.
    fn height_with(&self, outer: QueueId, inner: QueueId) -> usize {
        let above = |queue: QueueId| -> usize {
            fn up(world: &World, queue: QueueId) -> usize {
                let holders = world.queues.keys().filter(|holder| world.inner(**holder).contains(&queue));
                holders.map(|holder| up(world, *holder) + 1).max().unwrap_or(0)
            }
            up(self, queue)
        };
        above(outer) + 1 + self.height(inner)
    }

    // --- Descriptors ---

    /// A number of a process is not what it was any more.
    fn forget(&mut self, process: ProcessId, fd: u32) {
        for (_, registrations) in self.queues.values_mut().filter(|(of, _)| *of == process) {
            registrations.remove(&fd);
        }
        let gone: Vec<_> =
            self.queues.keys().copied().filter(|q| !self.is_referred_to(Object::Queue(*q))).collect();
        gone.into_iter().for_each(|queue| _ = self.queues.remove(&queue));
    }

    fn register(&mut self, process: ProcessId, queue: u32, fd: u32, interest: Interest, is_new: bool) {
        let known = match (self.behind(process, queue), self.behind(process, fd)) {
            (None, _) => Err(QueueError::BadDescriptor(queue)),
            (_, None) => Err(QueueError::BadDescriptor(fd)),
            (Some(Object::Outside(_)), _) => Err(QueueError::NotAQueue(queue)),
            (outer, object) if outer == object => Err(QueueError::Itself(fd)),
            (Some(Object::Queue(id)), Some(object)) => {
                let is_known = self.queues[&id].1.contains_key(&fd);
                match object {
                    _ if is_new && is_known => Err(QueueError::AlreadyAdded(fd)),
                    _ if !is_new && !is_known => Err(QueueError::NotAdded(fd)),
                    Object::Queue(inner)
                        if is_new && (self.is_within(id, inner) || self.height_with(id, inner) > 4) =>
                    {
                        Err(QueueError::Nested(fd))
                    }
                    _ => Ok(id),
                }
            }
        };
        let status = self.statuses();
        let said = if is_new {
            self.host.add(process, queue, fd, interest, status)
        } else {
            self.host.modify(process, queue, fd, interest, status)
        };
        assert_eq!(said, known.map(|_| ()));
        if let Ok(id) = known {
            self.look_at(id, fd, interest);
        }
    }

    // --- Calls ---

    fn wait(&mut self, who: usize, fd: u32, max: usize, wait: Wait) {
        let (id, process) = (self.callers[who].id, self.callers[who].process);
        let mut events = vec![Event::default(); max];
        let status = self.statuses();
        let answer = self.host.wait(id, fd, &mut events, wait, status);
        self.callers[who].sleep = None;
        let queue = match self.behind(process, fd) {
            None => return assert_eq!(answer, Err(QueueError::BadDescriptor(fd))),
            Some(Object::Outside(_)) => return assert_eq!(answer, Err(QueueError::NotAQueue(fd))),
            Some(Object::Queue(queue)) => queue,
        };
        let (answer, eligible) = (answer.unwrap(), self.eligible(queue));
        assert_eq!(answer.ready, eligible.len().min(max), "{eligible:?}");
        self.tests += answer.tests;
        let mut reported = BTreeSet::new();
        for event in &events[..answer.ready] {
            assert!(reported.insert(event.token), "reported twice");
            assert_eq!(Some(&event.ready), eligible.get(&event.token), "{event:?}");
        }
        for registration in self.queues.get_mut(&queue).unwrap().1.values_mut() {
            if reported.contains(&registration.interest.token) {
                registration.is_candidate = registration.interest.trigger == Trigger::Level;
                registration.is_enabled = registration.interest.trigger != Trigger::OneShot;
                self.candidacies += usize::from(registration.is_candidate);
            }
        }
        if answer.ready == 0 && wait == Wait::UntilReady {
            self.callers[who].sleep = Some((Call::Wait { fd, queue, max }, false));
        }
    }

    fn wanted_of_poll(&self, process: ProcessId, fds: &[u32]) -> Vec<PollEntry> {
        let asked = Kinds::READABLE.union(Kinds::HANG_UP_OR_ERROR);
        let ready = |fd| self.behind(process, fd).map(|object| self.status(object).intersection(asked));
        let entry = |fd| PollEntry {
            ready: ready(fd).unwrap_or(Kinds::INVALID),
            ..PollEntry::new(fd, Kinds::READABLE)
        };
        fds.iter().copied().map(entry).collect()
    }

    fn poll(&mut self, who: usize, fds: Vec<u32>, wait: Wait) {
        let (id, process) = (self.callers[who].id, self.callers[who].process);
        let wanted = self.wanted_of_poll(process, &fds);
        let mut entries: Vec<_> = fds.iter().map(|fd| PollEntry::new(*fd, Kinds::READABLE)).collect();
        let status = self.statuses();
        let answer = self.host.poll(id, &mut entries, wait, status);
        assert_eq!(entries, wanted);
        let sleeps = answer.ready == 0 && wait == Wait::UntilReady;
        self.callers[who].sleep = sleeps.then_some((Call::Poll(fds), false));
    }

    fn run(&mut self, who: usize) {
        match self.callers[who].sleep.clone() {
            Some((Call::Wait { fd, max, .. }, true)) => self.wait(who, fd, max, Wait::UntilReady),
            Some((Call::Poll(fds), true)) => self.poll(who, fds, Wait::UntilReady),
            _ => {}
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Open(which) => {
                let (process, object) = (self.process(which), self.holds.len());
                if let Ok(opened) = self.host.open(process, object) {
                    self.holds.push(Kinds::NONE);
                    self.files.push(opened.file);
                    self.tables.get_mut(&process).unwrap().insert(opened.fd, Object::Outside(object));
                }
            }
            Step::OpenQueue(which) => {
                let process = self.process(which);
                if let Ok(opened) = self.host.open_queue(process) {
                    let Some(Object::Queue(id)) = self.host.behind(process, opened.fd) else { panic!() };
                    self.queues.insert(id, (process, BTreeMap::new()));
                    self.tables.get_mut(&process).unwrap().insert(opened.fd, Object::Queue(id));
                }
            }
            Step::Close(which, fd) => {
                let process = self.process(which);
                let object = self.tables.get_mut(&process).unwrap().remove(&fd);
                assert_eq!(self.host.close(process, fd).is_ok(), object.is_some());
                self.forget(process, fd);
            }
            Step::Dup(which, fd) => {
                let process = self.process(which);
                if let Ok(new) = self.host.dup(process, fd) {
                    let object = self.behind(process, fd).unwrap();
                    self.tables.get_mut(&process).unwrap().insert(new, object);
                }
            }
            Step::Dup2(which, fd, new) => {
                let process = self.process(which);
                if self.host.dup2(process, fd, new).is_ok() && fd != new {
                    let object = self.behind(process, fd).unwrap();
                    self.tables.get_mut(&process).unwrap().insert(new, object);
                    self.forget(process, new);
                }
            }
            Step::Fork(which) if self.tables.len() < 3 => {
                let parent = self.process(which);
                let child = self.host.fork(parent).unwrap();
                let mut table = self.tables[&parent].clone();
                table.retain(|_, object| matches!(object, Object::Outside(_)));
                self.tables.insert(child, table);
                self.attach(child);
            }
            Step::Exit(which) if self.tables.len() > 1 => {
                let process = self.process(which);
                self.host.exit(process, |_| {});
                self.tables.remove(&process);
                self.queues.retain(|_, (of, _)| *of != process);
                self.callers.retain(|caller| caller.process != process);
            }
            Step::Attach(which) if self.callers.len() < 8 => self.attach(self.process(which)),
            Step::Arrive(object, kinds) if !self.holds.is_empty() => {
                let object = object % self.holds.len();
                self.holds[object] = self.holds[object].union(kinds);
                if self.is_referred_to(Object::Outside(object)) {
                    self.host.hint(self.files[object], kinds);
                }
                self.hint(Object::Outside(object), kinds);
            }
            Step::Read(object, kinds) if !self.holds.is_empty() => {
                let object = object % self.holds.len();
                self.holds[object] = self.holds[object].without(kinds);
            }
            Step::Add(which, queue, fd, events, trigger) => {
                self.tokens += 1;
                let interest = Interest { events, trigger, token: self.tokens };
                self.register(self.process(which), queue, fd, interest, true);
            }
            Step::Modify(which, queue, fd, events, trigger) => {
                self.tokens += 1;
                let interest = Interest { events, trigger, token: self.tokens };
                self.register(self.process(which), queue, fd, interest, false);
            }
            Step::Delete(which, queue, fd) => {
                let process = self.process(which);
                let said = self.host.delete(process, queue, fd);
                let Some(Object::Queue(id)) = self.behind(process, queue) else {
                    return assert!(said.is_err());
                };
                let gone = self.queues.get_mut(&id).unwrap().1.remove(&fd);
                assert_eq!(said.is_ok(), gone.is_some());
            }
            _ if self.callers.is_empty() => {}
            Step::Detach(who) => {
                let caller = self.callers.swap_remove(who % self.callers.len());
                self.host.detach(caller.id);
            }
            Step::Wait(who, fd, max, wait) => {
                let who = who % self.callers.len();
                if self.callers[who].sleep.is_none() {
                    self.wait(who, fd, max, wait);
                }
            }
            Step::Poll(who, wait) => {
                let who = who % self.callers.len();
                if self.callers[who].sleep.is_none() {
                    let fds = self.tables[&self.callers[who].process].keys().copied().collect();
                    self.poll(who, fds, wait);
                }
            }
            Step::Run(who) => self.run(who % self.callers.len()),
            Step::GiveUp(who) => {
                let who = who % self.callers.len();
                self.callers[who].sleep = None;
                self.host.give_up(self.callers[who].id);
            }
            _ => {}
        }
    }

    fn wake(&mut self) {
        while let Some(id) = self.host.next_woken() {
            let caller = self.callers.iter_mut().find(|caller| caller.id == id).expect("it exists");
            let (_, is_woken) = caller.sleep.as_mut().expect("it was in a call");
            assert!(!core::mem::replace(is_woken, true), "and had not been woken");
        }
        for caller in &self.callers {
            match &caller.sleep {
                Some((Call::Wait { queue, .. }, false)) => {
                    let somebody_looks = self.callers.iter().any(|other| {
                        matches!(&other.sleep, Some((Call::Wait { queue: of, .. }, true)) if of == queue)
                    });
                    assert!(self.queues.contains_key(queue), "it sleeps on what is gone");
                    assert!(somebody_looks || self.eligible(*queue).is_empty(), "a lost wake-up");
                }
                Some((Call::Poll(fds), false)) => {
                    let wanted = self.wanted_of_poll(caller.process, fds);
                    assert!(wanted.iter().all(|entry| entry.ready.is_empty()), "a lost wake-up");
                }
                _ => {}
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
    fn they_report_what_is_ready_as_often_as_they_are_to(steps in prop::collection::vec(step(), 1..200)) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
            world.wake();
        }
        prop_assert!(world.tests <= world.candidacies, "no test without a reason");
        // Whoever was woken runs, and then nobody is left who should.
        while let Some(who) = world.callers.iter().position(|c| matches!(c.sleep, Some((_, true)))) {
            world.run(who);
            world.wake();
        }
    }
}

/// An event of a test whose files are all registered by level.
#[derive(Debug, Clone)]
enum Change {
    Open(Kinds),
    Close(usize),
    Arrive(usize, Kinds),
    Read(usize, Kinds),
    Look,
}

fn change() -> impl Strategy<Value = Change> {
    let which = || 0..1_000_usize;
    prop_oneof![
        2 => kinds().prop_map(Change::Open),
        1 => which().prop_map(Change::Close),
        6 => (which(), kinds()).prop_map(|(which, kinds)| Change::Arrive(which, kinds)),
        4 => (which(), kinds()).prop_map(|(which, kinds)| Change::Read(which, kinds)),
        4 => Just(Change::Look),
    ]
}

proptest! {
    #![proptest_config(config())]

    /// Against a scan of all by the classic `poll`.
    #[test]
    fn by_level_they_report_what_a_scan_of_all_finds(changes in prop::collection::vec(change(), 1..200)) {
        let mut server = Server::new(50);
        let (mut holds, mut open): (Vec<Kinds>, Vec<(PollEntry, u32, FileId)>) = (vec![], vec![]);
        for change in changes {
            match change {
                Change::Open(events) => {
                    let object = holds.len() as u32;
                    holds.push(Kinds::NONE);
                    let Ok(opened) = server.host.open(server.process, object) else { continue };
                    let interest = Interest { events, trigger: Trigger::Level, token: u64::from(opened.fd) };
                    let (process, queue) = (server.process, server.queue);
                    server.host.add(process, queue, opened.fd, interest, |_, _| Kinds::NONE).unwrap();
                    open.push((PollEntry::new(opened.fd, events), object, opened.file));
                }
                _ if open.is_empty() => {}
                Change::Close(which) => {
                    let (entry, ..) = open.swap_remove(which % open.len());
                    server.host.close(server.process, entry.fd).unwrap();
                }
                Change::Arrive(which, kinds) => {
                    let (_, object, file) = open[which % open.len()];
                    holds[object as usize] = holds[object as usize].union(kinds);
                    server.host.hint(file, kinds);
                }
                Change::Read(which, kinds) => {
                    let (_, object, _) = open[which % open.len()];
                    holds[object as usize] = holds[object as usize].without(kinds);
                }
                Change::Look => {
                    let behind = |fd| open.iter().find(|(entry, ..)| entry.fd == fd).unwrap().1;
                    let mut entries: Vec<_> = open.iter().map(|(entry, ..)| *entry).collect();
                    classic::poll(&mut entries, |fd, _| Some(holds[behind(fd) as usize]));
                    let mut events = [Event::default(); 64];
                    let (thread, queue) = (server.thread, server.queue);
                    let status = |object: u32, _| holds[object as usize];
                    let answer = server.host.wait(thread, queue, &mut events, Wait::No, status).unwrap();
                    let reported = events[..answer.ready].iter().map(|event| (event.token, event.ready));
                    let ready = entries.iter().filter(|entry| !entry.ready.is_empty());
                    let ready = ready.map(|entry| (u64::from(entry.fd), entry.ready));
                    let ready: BTreeMap<_, _> = ready.collect();
                    prop_assert_eq!(answer.ready, ready.len());
                    prop_assert_eq!(reported.collect::<BTreeMap<_, _>>(), ready);
                }
            }
        }
    }
}

// --- One thing at a time ---

const READABLE: Kinds = Kinds::READABLE;

/// A process with an event queue, and a thread that waits there.
struct Server {
    host: Readiness<u32>,
    process: ProcessId,
    thread: CallerId,
    queue: u32,
}

impl Server {
    fn new(limit: u32) -> Self {
        let mut host = Readiness::new(Allocation::Bitmap);
        let process = host.spawn(limit);
        let queue = host.open_queue(process).unwrap().fd;
        Self { thread: host.attach(process), host, process, queue }
    }

    /// Opens an object that is not ready, and registers it; its token is its descriptor.
    fn open(&mut self, object: u32, trigger: Trigger) -> (u32, FileId) {
        let opened = self.host.open(self.process, object).unwrap();
        self.add(self.queue, opened.fd, trigger).unwrap();
        (opened.fd, opened.file)
    }

    fn add(&mut self, queue: u32, fd: u32, trigger: Trigger) -> Result<(), QueueError> {
        let interest = Interest { events: READABLE, trigger, token: u64::from(fd) };
        self.host.add(self.process, queue, fd, interest, |_, _| Kinds::NONE)
    }

    /// The tokens of those events that there are, at most so many, if just these objects are readable.
    fn wait(&mut self, max: usize, readable: &[u32]) -> Vec<u64> {
        let mut events = vec![Event::default(); max];
        let status = |object, _| READABLE.when(readable.contains(&object));
        let answer = self.host.wait(self.thread, self.queue, &mut events, Wait::No, status).unwrap();
        events[..answer.ready].iter().map(|event| event.token).collect()
    }
}

#[test]
fn by_level_it_reports_as_long_as_it_is_ready() {
    let mut server = Server::new(10);
    let (fd, file) = server.open(7, Trigger::Level);
    server.host.hint(file, READABLE);
    assert_eq!([server.wait(4, &[7]), server.wait(4, &[7])], [[u64::from(fd)]; 2]);
    assert_eq!(server.wait(4, &[]), []);
    assert_eq!(server.wait(4, &[7]), [], "without a hint nobody looks");
}

#[test]
fn at_an_edge_it_reports_once_for_what_has_happened_since() {
    let mut server = Server::new(10);
    let (fd, file) = server.open(7, Trigger::Edge);
    let fd = u64::from(fd);
    (0..3).for_each(|_| server.host.hint(file, READABLE));
    assert_eq!(server.wait(4, &[7]), [fd]);
    assert_eq!(server.wait(4, &[7]), [], "nothing has happened since");
    server.host.hint(file, READABLE);
    assert_eq!(server.wait(4, &[7]), [fd], "more has come, though it never ceased to be ready");
    server.host.hint(file, READABLE);
    assert_eq!(server.wait(4, &[]), [], "it was read before anybody looked");
    assert_eq!(server.wait(4, &[7]), []);
}

#[test]
fn a_one_shot_reports_once_and_again_when_it_is_modified() {
    let mut server = Server::new(10);
    let (fd, file) = server.open(7, Trigger::OneShot);
    server.host.hint(file, READABLE);
    assert_eq!(server.wait(4, &[7]), [u64::from(fd)]);
    server.host.hint(file, READABLE);
    assert_eq!(server.wait(4, &[7]), []);
    let interest = Interest { events: READABLE, trigger: Trigger::OneShot, token: 99 };
    server.host.modify(server.process, server.queue, fd, interest, |_, _| READABLE).unwrap();
    assert_eq!(server.wait(4, &[7]), [99], "what has come in the meantime counts");
    assert_eq!(server.wait(4, &[7]), []);
}

#[test]
fn those_that_stay_ready_keep_nobody_from_reporting() {
    let mut server = Server::new(1_000);
    let files: Vec<_> = (0..10).map(|object| server.open(object, Trigger::Level)).collect();
    files.iter().for_each(|(_, file)| server.host.hint(*file, READABLE));
    let all: Vec<u32> = (0..10).collect();
    let fds: Vec<u64> = files.iter().map(|(fd, _)| u64::from(*fd)).collect();
    let turns: Vec<_> = (0..4).map(|_| server.wait(4, &all)).collect();
    assert_eq!(turns.concat(), [&fds[..], &fds[..6]].concat(), "in turn");
    let (late, file) = server.open(10, Trigger::Level);
    server.host.hint(file, READABLE);
    let readable: Vec<u32> = (0..11).collect();
    let turns: Vec<_> = (0..3).map(|_| server.wait(4, &readable)).collect();
    assert!(turns.concat().contains(&u64::from(late)), "{turns:?}");
    assert_eq!(server.wait(100, &readable).len(), 11, "and nobody twice in one call");
}

#[test]
fn a_registration_ends_with_its_number_whatever_else_refers_to_the_file() {
    let mut server = Server::new(10);
    let (fd, file) = server.open(7, Trigger::Level);
    let child = server.host.fork(server.process).unwrap();
    let duplicate = server.host.dup(server.process, fd).unwrap();
    server.host.hint(file, READABLE);
    assert_eq!(server.host.close(server.process, fd), Ok(None), "others refer to it");
    assert_eq!(server.wait(4, &[7]), []);
    server.host.hint(file, READABLE);
    assert_eq!(server.wait(4, &[7]), []);
    assert_eq!(server.host.open(server.process, 8).unwrap().fd, fd);
    server.host.hint(file, READABLE);
    assert_eq!(server.wait(4, &[7, 8]), [], "the number is another's");
    assert_eq!(server.add(server.queue, duplicate, Trigger::Level), Ok(()));
    server.host.hint(file, READABLE);
    assert_eq!(server.wait(4, &[7]), [u64::from(duplicate)]);
    assert_eq!(server.host.behind(child, server.queue), None, "a child does not inherit it");
}

#[test]
fn a_file_is_watched_while_somebody_may_hear_of_it() {
    let mut server = Server::new(10);
    let (process, queue) = (server.process, server.queue);
    let Opened { fd, file } = server.host.open(process, 7).unwrap();
    let other = server.host.dup(process, fd).unwrap();
    assert!(!server.host.is_watched(file), "it is only open");

    server.add(queue, fd, Trigger::Edge).unwrap();
    server.add(queue, other, Trigger::Edge).unwrap();
    server.host.delete(process, queue, fd).unwrap();
    assert!(server.host.is_watched(file), "the other number is registered");
    server.host.close(process, other).unwrap();
    assert!(!server.host.is_watched(file));

    let poll = |host: &mut Readiness<u32>, caller| {
        host.poll(caller, &mut [PollEntry::new(fd, READABLE)], Wait::No, |_, _| Kinds::NONE);
        assert!(host.is_watched(file));
    };
    poll(&mut server.host, server.thread);
    server.host.detach(server.thread);
    assert!(!server.host.is_watched(file));
    let caller = server.host.attach(process);
    poll(&mut server.host, caller);
    server.host.close(process, fd).unwrap();
    assert!(!server.host.is_watched(file), "whatever gets its name is watched by nobody");
    assert!(!server.host.is_watched(FileId(1_000)));
}

#[test]
fn an_event_costs_one_test_however_many_are_idle() {
    let mut server = Server::new(200_000);
    let files: Vec<_> = (0..100_000).map(|object| server.open(object, Trigger::Edge)).collect();
    let mut events = [Event::default(); 64];
    for nth in [0, 50_000, 99_999] {
        server.host.hint(files[nth].1, READABLE);
        let (status, mut tested) = (|object: u32| object as usize == nth, vec![]);
        let answer = server.host.wait(server.thread, server.queue, &mut events, Wait::No, |object, _| {
            tested.push(object as usize);
            READABLE.when(status(object))
        });
        assert_eq!((answer.unwrap().tests, tested), (1, vec![nth]));
    }
}

#[test]
fn an_event_wakes_the_one_who_waits_for_longest_and_what_he_leaves_the_next() {
    let mut server = Server::new(10);
    let threads = [0; 3].map(|_| server.host.attach(server.process));
    let files: Vec<_> = (0..2).map(|object| server.open(object, Trigger::Edge)).collect();
    let mut events = [Event::default(); 1];
    for thread in threads {
        let wait = server.host.wait(thread, server.queue, &mut events, Wait::UntilReady, |_, _| Kinds::NONE);
        assert_eq!(wait.unwrap().ready, 0);
    }
    server.host.hint(files[0].1, READABLE);
    assert_eq!((server.host.next_woken(), server.host.next_woken()), (Some(threads[0]), None));
    server.host.give_up(threads[0]);
    assert_eq!(server.host.next_woken(), Some(threads[1]), "he was woken for nothing: another takes it");
    // A second event for the one who was woken, who has room for one.
    server.host.hint(files[1].1, READABLE);
    assert_eq!(server.host.next_woken(), Some(threads[2]));
    let wait = server.host.wait(threads[1], server.queue, &mut events, Wait::UntilReady, |_, _| READABLE);
    assert_eq!(wait.unwrap().ready, 1);
    let wait = server.host.wait(threads[2], server.queue, &mut events, Wait::UntilReady, |_, _| READABLE);
    assert_eq!(wait.unwrap().ready, 1);
}

#[test]
fn whoever_was_woken_and_turns_to_something_else_leaves_the_event_to_another() {
    let elsewhere: [fn(&mut Server, CallerId); 3] = [
        |server, thread| {
            let other = server.host.open_queue(server.process).unwrap().fd;
            let mut events = [Event::default(); 1];
            server.host.wait(thread, other, &mut events, Wait::No, |_, _| Kinds::NONE).unwrap();
        },
        |server, thread| _ = server.host.poll(thread, &mut [], Wait::No, |_, _| Kinds::NONE),
        |server, thread| server.host.detach(thread),
    ];
    for turn_to in elsewhere {
        let mut server = Server::new(10);
        let threads = [0; 2].map(|_| server.host.attach(server.process));
        let (_, file) = server.open(7, Trigger::Edge);
        let mut events = [Event::default(); 1];
        for thread in threads {
            let status = |_, _| Kinds::NONE;
            server.host.wait(thread, server.queue, &mut events, Wait::UntilReady, status).unwrap();
        }
        server.host.hint(file, READABLE);
        assert_eq!((server.host.next_woken(), server.host.next_woken()), (Some(threads[0]), None));
        turn_to(&mut server, threads[0]);
        assert_eq!(server.host.next_woken(), Some(threads[1]));
    }
}

#[test]
fn whoever_sleeps_on_an_event_queue_that_is_closed_is_woken() {
    let mut server = Server::new(10);
    let mut events = [Event::default(); 1];
    let mut wait = |server: &mut Server| {
        server.host.wait(server.thread, server.queue, &mut events, Wait::UntilReady, |_, _| Kinds::NONE)
    };
    assert_eq!(wait(&mut server).unwrap().ready, 0);
    server.host.close(server.process, server.queue).unwrap();
    assert_eq!(server.host.next_woken(), Some(server.thread));
    assert_eq!(wait(&mut server), Err(QueueError::BadDescriptor(server.queue)));
}

#[test]
fn a_process_whose_event_queues_are_in_a_row_is_gone_with_all_of_them() {
    let mut server = Server::new(10);
    let queues: Vec<_> = (0..3).map(|_| server.host.open_queue(server.process).unwrap().fd).collect();
    for (inner, outer) in queues.iter().zip(&queues[1..]) {
        assert_eq!(server.add(*outer, *inner, Trigger::Level), Ok(()));
    }
    server.open(7, Trigger::Level);
    let mut last = vec![];
    server.host.exit(server.process, |object| last.push(object));
    assert_eq!(last, [7]);
    let mut events = [Event::default(); 1];
    let answer = server.host.wait(server.thread, queues[0], &mut events, Wait::No, |_, _| READABLE);
    assert_eq!(answer, Err(QueueError::BadDescriptor(queues[0])));
}

#[test]
fn event_queues_have_four_below_them_at_most_and_never_themselves() {
    let mut server = Server::new(20);
    let mut queues = vec![server.queue];
    for _ in 0..4 {
        let outer = server.host.open_queue(server.process).unwrap().fd;
        assert_eq!(server.add(outer, queues[queues.len() - 1], Trigger::Level), Ok(()));
        queues.push(outer);
    }
    let another = server.host.open_queue(server.process).unwrap().fd;
    assert_eq!(server.add(another, queues[4], Trigger::Level), Err(QueueError::Nested(queues[4])));
    assert_eq!(server.add(another, queues[3], Trigger::Level), Ok(()));
    for queue in &queues[1..] {
        assert_eq!(server.add(queues[0], *queue, Trigger::Level), Err(QueueError::Nested(*queue)));
    }
    let itself = Err(QueueError::Itself(queues[0]));
    assert_eq!(server.add(queues[0], queues[0], Trigger::Level), itself);
    let fresh = server.host.open_queue(server.process).unwrap().fd;
    assert_eq!(server.add(queues[0], fresh, Trigger::Level), Err(QueueError::Nested(fresh)), "at the bottom");
    // What happens at the bottom is heard of at the top, and there only while there is an event.
    let (fd, file) = server.open(7, Trigger::Level);
    server.host.hint(file, READABLE);
    let bottom = core::mem::replace(&mut server.queue, queues[4]);
    assert_eq!(server.wait(4, &[7]), [u64::from(queues[3])]);
    assert_eq!(server.wait(4, &[]), []);
    // One fewer in the row, and there is room for one above.
    server.host.delete(server.process, queues[1], bottom).unwrap();
    assert_eq!(server.add(another, queues[4], Trigger::Level), Ok(()));
    server.host.hint(file, READABLE);
    assert_eq!(server.wait(4, &[7]), [], "{fd} is not below it any more");
}
