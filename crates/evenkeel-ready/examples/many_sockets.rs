//! A host with 10 000 sockets of which few are busy, and a program that reads them through an event queue.
//! The counters show that idle sockets are never tested.
//!
//! `cargo run -p evenkeel-ready --example many_sockets`
#![allow(clippy::print_stdout, reason = "it shows what it did")]

use evenkeel_base::SplitMix64;
use evenkeel_ready::{
    Allocation, CallerId, Event, FileId, Interest, Kinds, QueueError, Readiness, Trigger, Wait,
};

fn main() -> Result<(), QueueError> {
    let report = serve(10_000, 1_000, 10)?;
    println!("{} bytes arrived and {} were read", report.arrived, report.read);
    println!("{} events took {} tests of sockets", report.events, report.tests);
    Ok(())
}

/// The counters of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) arrived: usize,
    pub(crate) read: usize,
    pub(crate) events: usize,
    /// The number of times that the status of a socket was requested.
    pub(crate) tests: usize,
}

/// The host: sockets, and the bytes that wait in each.
struct Host {
    readiness: Readiness<usize>,
    waiting: Vec<usize>,
    files: Vec<FileId>,
}

/// The program: it has one thread, and an event queue.
struct Program {
    thread: CallerId,
    queue: u32,
}

/// Lets 100 bytes arrive for each of `busy` random sockets, in each of `rounds` rounds. The program reads
/// whatever its event queue reports.
pub(crate) fn serve(sockets: usize, rounds: usize, busy: usize) -> Result<Report, QueueError> {
    let (mut host, program) = open(sockets);
    let mut random = SplitMix64::new(1);
    let mut report = Report::default();
    for _ in 0..rounds {
        for _ in 0..busy {
            let socket = random.remainder(sockets as u64) as usize;
            host.waiting[socket] += 100;
            report.arrived += 100;
            host.readiness.hint(host.files[socket], Kinds::READABLE);
        }
        program.read_all(&mut host, &mut report)?;
    }
    Ok(report)
}

/// Opens a host and a program that has registered all its sockets.
fn open(sockets: usize) -> (Host, Program) {
    let mut readiness = Readiness::new(Allocation::Bitmap);
    let process = readiness.spawn(sockets as u32 + 1);
    let thread = readiness.attach(process);
    let queue = readiness.open_queue(process).expect("the limit has room for it").fd;
    let files = (0..sockets).map(|socket| {
        let opened = readiness.open(process, socket).expect("the limit has room for all");
        let interest = Interest { events: Kinds::READABLE, trigger: Trigger::Edge, token: socket as u64 };
        let added = readiness.add(process, queue, opened.fd, interest, |_, _| Kinds::NONE);
        added.expect("each socket is new at the queue");
        opened.file
    });
    let files = files.collect();
    (Host { readiness, waiting: vec![0; sockets], files }, Program { thread, queue })
}

impl Program {
    /// Reads until the event queue has no more events, and the thread sleeps.
    fn read_all(&self, host: &mut Host, report: &mut Report) -> Result<(), QueueError> {
        let mut events = [Event::default(); 64];
        loop {
            let waiting = &host.waiting;
            let status = |socket: usize, _| Kinds::READABLE.when(waiting[socket] > 0);
            let answer =
                host.readiness.wait(self.thread, self.queue, &mut events, Wait::UntilReady, status)?;
            report.events += answer.ready;
            report.tests += answer.tests;
            if answer.ready == 0 {
                return Ok(());
            }
            for event in &events[..answer.ready] {
                report.read += core::mem::take(&mut host.waiting[event.token as usize]);
            }
        }
    }
}
