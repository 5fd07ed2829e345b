//! Random histories of a host and the descriptors of a program. `select` and `poll` with memory find the
//! same as those that ask every descriptor, event queues report the true state according to each
//! registration, and no process sleeps that would find something.
//!
//! Two worlds have the same history. In one of them select is the classic one, and descriptor numbers are
//! searched for linearly. In a third world, classic too, the test asks about every descriptor after each
//! step: the result is the truth. It does not ask in the other two, as a call that finds a channel empty
//! requests a notification of the next frame.
//!
//! An event queue reports, of a registration by
//! - level: what holds of what it asks for;
//! - one-shot: the same, the first time that there is any, and then nothing until it is modified;
//! - edge: the same, the first time, and nothing more as long as nothing happens to its file. What did not
//!   hold then, or not when the program was told that its call would block, is reported when it holds.
//!   Between, what happens to the file may make it report what holds, or not.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../common/mod.rs"]
mod common;
mod model;
mod ops;
mod world;

use common::two::A;
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::{Fd, Kinds, Select};
use evenkeel_core::time::{Duration, Instant};
use proptest::prelude::*;

use model::{Model, check};
use ops::{Op, entries_of, ops, perform, sets_of};
use world::{Sleep, Who, World};

/// Descriptors that the program may have.
const LIMIT: u32 = 10;
/// After so long nothing is under way.
const QUIET: Duration = Duration::from_millis(300);
const READ_OR_WRITE: Kinds = Kinds::READABLE.union(Kinds::WRITABLE);

/// Worlds with the same history, and what is said of them.
struct Histories {
    /// With memory, and classic.
    worlds: [World; 2],
    /// A classic world in which the test queries every descriptor.
    oracle: World,
    model: Model,
    now: Instant,
}

impl Histories {
    fn new(architecture: Architecture, who: Who) -> Self {
        let world = |select| World::new(architecture, who, select);
        let worlds = [Select::WithMemory, Select::Classic].map(world);
        let (oracle, model) = (world(Select::Classic), Model::new(architecture));
        Self { worlds, oracle, model, now: Instant::ZERO }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut World> {
        self.worlds.iter_mut().chain([&mut self.oracle])
    }

    fn sleep(&mut self, sleep: &Sleep) {
        self.worlds.iter_mut().for_each(|world| world.sleep(sleep.clone()));
    }

    fn play(&mut self, op: &Op) {
        match op {
            Op::SleepIn(masks) => self.sleep(&Sleep::Select(sets_of(masks))),
            Op::SleepInPoll(entries) => self.sleep(&Sleep::Poll(entries_of(entries))),
            Op::SleepOn(fd) => self.sleep(&Sleep::On(Fd(*fd))),
            Op::Busy(busy) => {
                self.all().for_each(|world| world.set_busy(*busy));
                self.model.hear(op);
            }
            Op::Take(queue) => {
                self.rest(op);
                self.take(*queue);
            }
            Op::Send(..)
            | Op::Frames(..)
            | Op::ConnectTo(_)
            | Op::PeerWrites(..)
            | Op::PeerReads(_)
            | Op::PeerCloses(_)
            | Op::PeerAborts(_) => {
                self.all().for_each(|world| world.peer(op));
                self.model.hear(op);
            }
            _ => self.call(op),
        }
    }

    fn call(&mut self, op: &Op) {
        let (asks, zero) = (matches!(op, Op::Select(_) | Op::Poll(_)), self.now);
        let call = |world: &mut World| {
            let op = op.clone();
            let said = world.call(move |system| perform(&op, zero, system));
            if asks {
                world.call_again();
            }
            said
        };
        let [ours, classic] = self.worlds.each_mut().map(call);
        assert_eq!(ours, classic, "{op:?}");
        if !asks {
            assert_eq!(call(&mut self.oracle), ours, "{op:?}");
        }
        self.model.follow(op, &ours.0, ours.1, zero);
    }

    fn take(&mut self, queue: u32) {
        let truth = self.oracle.ready(0..LIMIT);
        let reports = self.model.reports(queue, &truth);
        self.oracle.take(queue);
        let [ours, classic] = self.worlds.each_mut().map(|world| world.take(queue));
        assert_eq!(ours, classic, "event queue {queue}");
        assert_eq!(ours.is_some(), reports.is_some(), "event queue {queue}");
        let Some((taken, reports)) = ours.zip(reports) else { return };
        check(&taken, &reports).unwrap_or_else(|what| panic!("{queue}: {what} of {reports:?}, {truth:?}"));
        self.model.taken(queue, &taken);
    }

    /// Lets all worlds come to rest, and checks that no process sleeps that would find something.
    fn rest(&mut self, op: &Op) {
        let since = self.now;
        self.now += QUIET;
        let now = self.now;
        self.all().for_each(|world| world.run_until(now));
        let mut truth = self.oracle.ready(0..LIMIT);
        assert!(truth.keys().eq(self.model.files.keys()), "what is open");
        // Whether an event queue has an event depends on what was told, and so on who has asked.
        let model = &self.model;
        truth.extend(self.worlds[1].ready((0..LIMIT).filter(|&fd| model.is_queue(fd))));
        self.model.rest(since, &truth);
        for (&fd, &ready) in &truth {
            if let Some(reports) = self.model.reports(fd, &truth) {
                let must = reports.values().any(|report| report.must);
                let is_as_said = if ready.is_readable() { !reports.is_empty() } else { !must };
                assert!(is_as_said, "event queue {fd} is {ready:?}: {reports:?}, {truth:?}");
            }
        }
        for world in &self.worlds {
            let sleep = &world.script.lock().unwrap().sleep;
            let ready = sleep.ready(&truth);
            assert!(ready.is_empty(), "after {op:?} one sleeps {sleep:?}, and {ready:?} is ready: {truth:?}");
        }
        self.now = self.all().map(|world| world.two.now).fold(now, Instant::max);
    }

    fn end(&mut self) {
        for world in self.all() {
            world.set_busy(false);
            world.two.hosts.iter().for_each(|host| host.check().unwrap());
            let (me, now) = (world.me, world.two.now);
            world.two.hosts[A].kill(me, now);
            assert_eq!(world.two.hosts[A].sockets_of(me), []);
            world.two.settle();
        }
    }
}

fn play(architecture: Architecture, who: Who, ops: &[(Op, bool)]) {
    let mut histories = Histories::new(architecture, who);
    let mut is_busy = false;
    for (op, quiet) in ops {
        let op = histories.model.aim(op);
        histories.play(&op);
        let was_busy = is_busy;
        if let Op::Busy(busy) = op {
            is_busy = busy;
        }
        // A thread outside sleeps only when all is quiet; and whose turn it is on a busy host differs.
        if *quiet || is_busy || was_busy || who == Who::Thread {
            histories.rest(&op);
        }
    }
    histories.end();
}

/// Returns the number of cases: half of that of other tests, because each has three worlds.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.div_ceil(2), failure_persistence: None, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_remembered_changes_no_answer_and_nobody_sleeps_who_would_find_something(
        architecture in prop::sample::select(Architecture::ALL.to_vec()),
        who in prop::sample::select(vec![Who::Program, Who::Thread]),
        ops in ops(),
    ) {
        play(architecture, who, &ops);
    }
}
