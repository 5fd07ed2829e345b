//! The kernel's epoll beside ours: histories of event queues, of what is registered at them and of what
//! happens to it, with the errors of every call. Of the rules on which both agree nothing is left out but
//! closing: a registration here ends with its number, there with its file.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::os::fd::OwnedFd;

use evenkeel_ready::{
    Allocation, CallerId, Event, FileId, Interest, Kinds, ProcessId, QueueError, Readiness, Trigger, Wait,
};
use proptest::prelude::*;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// As many numbers as a history uses.
const NUMBERS: usize = 9;

#[derive(Debug, Clone, Copy)]
enum Op {
    Add,
    AddExclusive,
    Modify,
    Delete,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Control(Op, usize, usize, u8, Trigger),
    Write(usize),
    Read(usize),
    Wait(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let number = || 0..NUMBERS + 1;
    let op = prop_oneof![
        8 => Just(Op::Add),
        2 => Just(Op::AddExclusive),
        3 => Just(Op::Modify),
        2 => Just(Op::Delete),
    ];
    let trigger = prop::sample::select(vec![Trigger::Level, Trigger::Edge, Trigger::OneShot]);
    let control = (op, number(), number(), 1..4_u8, trigger);
    prop_oneof![
        8 => control.prop_map(|(op, queue, fd, kinds, t)| Step::Control(op, queue, fd, kinds, t)),
        4 => number().prop_map(Step::Write),
        2 => number().prop_map(Step::Read),
        6 => (number(), Just(NUMBERS)).prop_map(|(queue, max)| Step::Wait(queue, max)),
    ]
}

/// Both hosts. Four eventfds, a duplicate of the first; four event queues, of which the last is a duplicate
/// of the third; and one that is not open.
struct Both {
    host: Readiness<usize>,
    process: ProcessId,
    caller: CallerId,
    /// Of each number: ours, the kernel's, and our file of an eventfd.
    ours: Vec<u32>,
    kernels: Vec<OwnedFd>,
    files: Vec<FileId>,
    counts: [u64; 4],
}

fn kinds_of(bits: u8) -> Kinds {
    Kinds::READABLE.when(bits & 1 != 0).union(Kinds::WRITABLE.when(bits & 2 != 0))
}

fn flags_of(bits: u8, trigger: Trigger) -> EventFlags {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, bits & 1 != 0);
    flags.set(EventFlags::OUT, bits & 2 != 0);
    match trigger {
        Trigger::Level => flags,
        Trigger::Edge => flags | EventFlags::ET,
        // With an edge, as we say that it is the same.
        Trigger::OneShot if bits & 1 != 0 => flags | EventFlags::ONESHOT | EventFlags::ET,
        Trigger::OneShot => flags | EventFlags::ONESHOT,
    }
}

fn errno_of(error: QueueError) -> Errno {
    match error {
        QueueError::BadDescriptor(_) => Errno::BADF,
        QueueError::NotAQueue(_) | QueueError::Itself(_) | QueueError::Exclusive(_) | QueueError::NoRoom => {
            Errno::INVAL
        }
        QueueError::AlreadyAdded(_) => Errno::EXIST,
        QueueError::NotAdded(_) => Errno::NOENT,
        QueueError::Nested(_) => Errno::LOOP,
    }
}

impl Both {
    fn new() -> Self {
        let mut host = Readiness::new(Allocation::Bitmap);
        let process = host.spawn(100);
        let (mut ours, mut kernels, mut files) = (vec![], vec![], vec![]);
        for object in 0..4 {
            let opened = host.open(process, object).unwrap();
            ours.push(opened.fd);
            files.push(opened.file);
            kernels.push(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap());
        }
        ours.push(host.dup(process, ours[0]).unwrap());
        kernels.push(rustix::io::dup(&kernels[0]).unwrap());
        for _ in 0..3 {
            ours.push(host.open_queue(process).unwrap().fd);
            kernels.push(epoll::create(epoll::CreateFlags::CLOEXEC).unwrap());
        }
        ours.push(host.dup(process, ours[7]).unwrap());
        kernels.push(rustix::io::dup(&kernels[7]).unwrap());
        assert_eq!((ours.len(), kernels.len()), (NUMBERS, NUMBERS));
        // To epoll a descriptor of a path is none.
        ours.push(99);
        kernels.push(rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap());
        let caller = host.attach(process);
        Self { host, process, caller, ours, kernels, files, counts: [0; 4] }
    }

    fn status(counts: [u64; 4]) -> impl FnMut(usize, Kinds) -> Kinds {
        move |object, _| Kinds::READABLE.when(counts[object] > 0).union(Kinds::WRITABLE)
    }

    fn control(&mut self, op: Op, queue: usize, which: usize, bits: u8, trigger: Trigger) {
        // An event queue that watches another may report an edge once more than the kernel does.
        let trigger = if which >= 5 { Trigger::Level } else { trigger };
        let (epoll, kernel) = (&self.kernels[queue], &self.kernels[which]);
        let (queue, fd) = (self.ours[queue], self.ours[which]);
        let interest = Interest { events: kinds_of(bits), trigger, token: which as u64 };
        let (process, status) = (self.process, Self::status(self.counts));
        let said = match op {
            Op::Add => self.host.add(process, queue, fd, interest, status),
            Op::AddExclusive => self.host.add_exclusive(process, queue, fd, interest, status),
            Op::Modify => self.host.modify(process, queue, fd, interest, status),
            Op::Delete => self.host.delete(process, queue, fd),
        };
        let (data, flags) = (EventData::new_u64(which as u64), flags_of(bits, trigger));
        let wanted = match op {
            Op::Add => epoll::add(epoll, kernel, data, flags),
            Op::AddExclusive => epoll::add(epoll, kernel, data, flags | EventFlags::EXCLUSIVE),
            Op::Modify => epoll::modify(epoll, kernel, data, flags),
            Op::Delete => epoll::delete(epoll, kernel),
        };
        assert_eq!(said.map_err(errno_of), wanted, "{op:?}: {said:?}");
    }

    fn wait(&mut self, which: usize, max: usize) {
        let (queue, epoll) = (self.ours[which], &self.kernels[which]);
        let mut events = vec![Event::default(); max];
        let status = Self::status(self.counts);
        let said = self.host.wait(self.caller, queue, &mut events, Wait::No, status);
        let mut found: Vec<epoll::Event> = Vec::with_capacity(max);
        let wanted = epoll::wait(epoll, rustix::buffer::spare_capacity(&mut found), Some(&NOW));
        assert_eq!(said.map(|answer| answer.ready).map_err(errno_of), wanted, "{said:?}");
        let Ok(answer) = said else { return };
        let mut ours: Vec<_> =
            events[..answer.ready].iter().map(|event| (event.token, event.ready)).collect();
        let kernels = found.iter().map(|event| {
            let (data, flags) = (event.data, event.flags);
            let bits =
                u8::from(flags.contains(EventFlags::IN)) | u8::from(flags.contains(EventFlags::OUT)) << 1;
            (data.u64(), kinds_of(bits))
        });
        let mut kernels: Vec<_> = kernels.collect();
        // The order is not promised, by either.
        ours.sort_unstable_by_key(|(token, _)| *token);
        kernels.sort_unstable_by_key(|(token, _)| *token);
        assert_eq!(ours, kernels);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Control(op, queue, fd, bits, trigger) => self.control(op, queue, fd, bits, trigger),
            Step::Wait(queue, max) => self.wait(queue, max),
            Step::Write(which) if which < 4 => {
                rustix::io::write(&self.kernels[which], &1_u64.to_ne_bytes()).unwrap();
                self.counts[which] += 1;
                self.host.hint(self.files[which], Kinds::READABLE);
            }
            Step::Read(which) if which < 4 && self.counts[which] > 0 => {
                rustix::io::read(&self.kernels[which], &mut [0; 8]).unwrap();
                self.counts[which] = 0;
                self.host.hint(self.files[which], Kinds::WRITABLE);
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(512),
        ..Default::default()
    })]

    #[test]
    fn event_queues_do_what_those_of_the_kernel_do(steps in prop::collection::vec(step(), 1..120)) {
        let mut both = Both::new();
        for step in steps {
            both.take(step);
        }
    }
}

#[test]
fn errors_come_in_the_order_of_the_kernel() {
    let mut both = Both::new();
    let (eventfd, queue, not_open) = (0, 5, NUMBERS);
    for op in [Op::Add, Op::AddExclusive, Op::Modify, Op::Delete] {
        for (at, fd) in [
            (queue, not_open),
            (not_open, eventfd),
            (eventfd, not_open),
            (eventfd, eventfd),
            (eventfd, queue),
            (queue, queue),
            (7, 8),
            (8, 7),
        ] {
            both.control(op, at, fd, 1, Trigger::Level);
        }
    }
}
