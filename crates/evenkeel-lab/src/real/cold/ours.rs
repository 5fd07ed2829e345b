//! The server as a program of a host.

use std::sync::{Arc, Mutex, PoisonError};

use evenkeel::raw::error::StreamError;
use evenkeel::raw::process::{Program, Step, System};
use evenkeel::raw::socket::{
    Event, EventQueue, Fd, FdSets, Interest, Kinds, TcpListener, TcpStream, Trigger,
};
use evenkeel::raw::tcp::ListenerConfig;
use evenkeel::raw::time::{Duration, Instant};

use super::httpd::{Httpd, Read, Sockets};

/// The most events taken at a time.
const EVENTS: usize = 512;
/// The most connections that wait to be accepted.
const BACKLOG: usize = 1_024;

/// The interface by which the program waits for ready descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Select,
    EventQueue,
}

/// The server's state, shared with the thread that runs the host.
pub(super) type Shared = Arc<Mutex<Httpd>>;

#[derive(Debug)]
pub(super) struct Server {
    port: u16,
    httpd: Shared,
    waiting: Waiting,
    listener: Option<TcpListener>,
    /// The ready descriptors of the last call that were not served yet, in reverse order.
    ready: Vec<u32>,
}

/// The sets of `select`, or the event queue.
#[derive(Debug)]
enum Waiting {
    Select(Box<Sets>),
    EventQueue { queue: Option<EventQueue>, events: Vec<Event> },
}

#[derive(Debug, Default)]
struct Sets {
    wanted: FdSets,
    found: FdSets,
}

impl Server {
    /// Creates a server on `port`; and the handle to its [`Httpd`].
    pub(super) fn new(port: u16, httpd: Httpd, way: Way) -> (Self, Shared) {
        let httpd = Arc::new(Mutex::new(httpd));
        let waiting = match way {
            Way::Select => Waiting::Select(Box::default()),
            Way::EventQueue => Waiting::EventQueue { queue: None, events: vec![Event::default(); EVENTS] },
        };
        (Self { port, httpd: Arc::clone(&httpd), waiting, listener: None, ready: Vec::new() }, httpd)
    }

    fn listen(&mut self, system: &mut System<'_>) -> TcpListener {
        let config = ListenerConfig { backlog: BACKLOG, ..ListenerConfig::default() };
        let listener = TcpListener::listen(system, None, self.port, &config);
        let listener = listener.unwrap_or_else(|error| panic!("cannot listen: {error}"));
        if let Waiting::EventQueue { queue, .. } = &mut self.waiting {
            *queue = Some(EventQueue::open(system).expect("a process may have some descriptors"));
        }
        self.waiting.add(listener.fd(), system);
        *self.listener.insert(listener)
    }
}

impl Program for Server {
    /// Serves a ready descriptor, or finds the ready ones.
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let listener = self.listener.unwrap_or_else(|| self.listen(system));
        let Some(fd) = self.ready.pop() else { return self.waiting.wait(&mut self.ready, system) };
        let httpd = &mut *self.httpd.lock().unwrap_or_else(PoisonError::into_inner);
        let mut calls = Calls { system, waiting: &mut self.waiting, listener };
        if fd == listener.fd().0 {
            httpd.accept(&mut calls)
        } else {
            httpd.serve(fd, &mut calls)
        }
        Step::Again
    }
}

impl Waiting {
    fn add(&mut self, fd: Fd, system: &mut System<'_>) {
        match self {
            Self::Select(sets) => _ = sets.wanted.read.insert(fd.0),
            Self::EventQueue { queue, .. } => {
                let interest =
                    Interest { events: Kinds::READABLE, trigger: Trigger::Level, token: fd.token() };
                // Both descriptors are open, and neither was added before.
                queue.map(|queue| queue.add(system, fd, interest));
            }
        }
    }

    /// Removes a descriptor that is about to be closed. An event queue forgets it by itself.
    fn remove(&mut self, fd: Fd) {
        if let Self::Select(sets) = self {
            sets.wanted.read.remove(fd.0);
        }
    }

    fn wait(&mut self, ready: &mut Vec<u32>, system: &mut System<'_>) -> Step {
        match self {
            Self::Select(sets) => {
                if system.select(&sets.wanted, &mut sets.found) == Ok(0) {
                    return Step::Block(Instant::NEVER);
                }
                ready.extend(sets.found.read.iter());
            }
            Self::EventQueue { queue, events } => {
                let Some(queue) = *queue else { return Step::Exit };
                match queue.take(system, events) {
                    Ok(taken) if taken > 0 => {
                        ready.extend(events.iter().take(taken).map(|event| Fd::of(event).0));
                    }
                    _ => return Step::Wait(queue.fd()),
                }
            }
        }
        ready.reverse();
        Step::Again
    }
}

/// The calls of one step.
struct Calls<'a, 's> {
    system: &'a mut System<'s>,
    waiting: &'a mut Waiting,
    listener: TcpListener,
}

impl Sockets for Calls<'_, '_> {
    fn accept(&mut self) -> Option<u32> {
        let (stream, _) = self.listener.accept(self.system).ok()?;
        self.waiting.add(stream.fd(), self.system);
        Some(stream.fd().0)
    }

    fn read(&mut self, stream: u32, to: &mut [u8]) -> Read {
        match TcpStream::from(Fd(stream)).read(self.system, to) {
            Ok(0) => Read::End,
            Ok(len) => Read::Bytes(len),
            Err(StreamError::WouldBlock) => Read::Nothing,
            Err(_) => Read::End,
        }
    }

    fn write(&mut self, stream: u32, bytes: &[u8]) -> bool {
        TcpStream::from(Fd(stream)).write(self.system, bytes) == Ok(bytes.len())
    }

    fn close(&mut self, stream: u32) {
        self.waiting.remove(Fd(stream));
        self.system.close(Fd(stream));
    }

    fn compute(&mut self, time: Duration) {
        self.system.compute(time);
    }
}
