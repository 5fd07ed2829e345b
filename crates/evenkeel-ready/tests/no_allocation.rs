//! Nothing is allocated for an event, nor for a connection that comes and goes, once memory has grown; and
//! how far it grows.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use allocation_counter::measure;
use evenkeel_ready::{
    Allocation, CallerId, Event, FdSets, Interest, Kinds, PollEntry, ProcessId, Readiness, Trigger, Wait,
};

const READABLE: Kinds = Kinds::READABLE;

/// A process with a thread for each of three ways to ask.
struct Server {
    host: Readiness<u32>,
    process: ProcessId,
    threads: [CallerId; 3],
    queue: u32,
    selecting: FdSets,
    found: FdSets,
    entries: Vec<PollEntry>,
}

impl Server {
    fn new() -> Self {
        let mut host = Readiness::new(Allocation::Bitmap);
        let process = host.spawn(1_000);
        let threads = [0; 3].map(|_| host.attach(process));
        let queue = host.open_queue(process).unwrap().fd;
        let (selecting, found, entries) = (FdSets::new(), FdSets::new(), Vec::new());
        Self { host, process, threads, queue, selecting, found, entries }
    }

    /// A connection comes, is waited for, becomes ready, and goes.
    fn serve(&mut self, object: u32) {
        let Self { host, process, threads: [selects, polls, waits], queue, .. } = self;
        let mut events = [Event::default(); 4];
        let opened = host.open(*process, object).unwrap();
        let interest = Interest { events: READABLE, trigger: Trigger::Edge, token: 7 };
        host.add(*process, *queue, opened.fd, interest, |_, _| Kinds::NONE).unwrap();
        self.selecting.read.insert(opened.fd);
        self.entries.push(PollEntry::new(opened.fd, READABLE));
        for (hint, readable) in [(Kinds::NONE, false), (READABLE, true)] {
            host.hint(opened.file, hint);
            let status = |_, _| READABLE.when(readable);
            let answers = [
                if readable {
                    host.woken(*selects, &mut self.found, status).unwrap()
                } else {
                    host.select(*selects, &self.selecting, &mut self.found, Wait::UntilReady, status).unwrap()
                },
                host.poll(*polls, &mut self.entries, Wait::UntilReady, status),
                host.wait(*waits, *queue, &mut events, Wait::UntilReady, status).unwrap(),
            ];
            assert_eq!(answers.map(|answer| answer.ready), [usize::from(readable); 3]);
            let woken = core::iter::from_fn(|| host.next_woken()).count();
            assert_eq!(woken, if readable { 3 } else { 0 });
        }
        let number = host.dup(*process, opened.fd).unwrap();
        host.close(*process, number).unwrap();
        assert_eq!(host.close(*process, opened.fd), Ok(Some(object)));
        self.selecting.remove(opened.fd);
        self.entries.clear();
    }
}

/// Returns the bytes that each of `many` objects takes, in tables that double as they grow and are full.
fn bytes_of_each(many: u32, mut make: impl FnMut(u32)) -> u64 {
    let allocated = measure(|| (0..many).for_each(&mut make));
    (allocated.bytes_current / i64::from(many)).unsigned_abs()
}

#[test]
fn a_descriptor_takes_48_bytes_and_as_many_more_if_it_is_registered() {
    const MANY: u32 = 1 << 16;
    let mut host = Readiness::new(Allocation::Bitmap);
    let process = host.spawn(MANY + 1);
    let descriptor = bytes_of_each(MANY, |object| _ = host.open(process, object).unwrap());
    let queue = host.open_queue(process).unwrap().fd;
    let registered = bytes_of_each(MANY, |fd| {
        let interest = Interest { events: READABLE, trigger: Trigger::Edge, token: u64::from(fd) };
        host.add(process, queue, fd, interest, |_, _| Kinds::NONE).unwrap();
    });
    assert_eq!((descriptor, registered), (48, 48));
}

#[test]
fn an_event_and_a_connection_take_no_memory() {
    let mut server = Server::new();
    server.serve(0);
    let allocated = measure(|| (1..1_000).for_each(|object| server.serve(object)));
    assert_eq!(allocated.count_total, 0);
}
