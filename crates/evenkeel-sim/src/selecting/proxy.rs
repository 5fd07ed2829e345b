//! A caching proxy with one process, such as Squid.

use std::collections::BTreeMap;

use evenkeel_core::host::System;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::socket::StreamError;
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::{TcpListener, TcpStream};
use evenkeel_core::tcp::ListenerConfig;

use super::event_loop::{EventLoop, Happening, LoopCosts, LoopCounts};
use super::exchange::{Arriving, FILLER, HandlerCosts, REQUEST};
use crate::workload::Tally;

/// The source of a proxy's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// An answer of this size from the cache, after the origin has confirmed that it is not outdated: an
    /// If-Modified-Since exchange for each request.
    FromCache(usize),
    /// An answer with all bytes from the origin, relayed as they arrive: caching is off.
    Relayed,
}

/// A proxy that opens a connection with the origin for each request, and closes after each, as in HTTP/1.0.
#[derive(Debug)]
pub struct Proxy {
    origin: IpEndpoint,
    answers: Answers,
    costs: HandlerCosts,
    events: EventLoop,
    streams: BTreeMap<TcpStream, Stream>,
    accepted: Tally,
}

/// The role of a descriptor of the proxy.
#[derive(Debug)]
enum Stream {
    /// A client without a complete request.
    Asking(Arriving),
    /// A client that waits.
    Client(Client),
    /// A connection with the origin, for that client.
    Origin { client: TcpStream, asked: bool },
}

#[derive(Debug, Clone, Copy)]
struct Client {
    /// The connection with the origin, until the origin has answered.
    origin: Option<TcpStream>,
    /// Bytes still to be written.
    left: usize,
}

impl Proxy {
    /// Creates a proxy that listens on a port, for the documents of `origin`. Also returns the counters of
    /// its loop, and of accepted connections.
    #[must_use]
    pub fn new(
        listen: (u16, ListenerConfig),
        origin: IpEndpoint,
        answers: Answers,
        around: LoopCosts,
        costs: HandlerCosts,
    ) -> (Self, LoopCounts, Tally) {
        let (events, counts) = EventLoop::new(listen, around);
        let (streams, accepted) = (BTreeMap::new(), Tally::default());
        let proxy = Self { origin, answers, costs, events, streams, accepted: accepted.clone() };
        (proxy, counts, accepted)
    }

    /// Accepts one connection, as the handler of a ready listener.
    fn accept(&mut self, listener: TcpListener, system: &mut System<'_>) {
        let Ok((client, _)) = listener.accept(system) else { return };
        self.accepted.add_one();
        self.events.read(client);
        self.streams.insert(client, Stream::Asking(Arriving::default()));
    }

    fn readable(&mut self, fd: TcpStream, system: &mut System<'_>) {
        let mut chunk = [0; 16 << 10];
        let read = match fd.read(system, &mut chunk) {
            Err(StreamError::WouldBlock) => return,
            read => read.unwrap_or(0),
        };
        match self.streams.get_mut(&fd) {
            Some(Stream::Asking(request)) if read > 0 => {
                if request.add(&chunk[..read]) {
                    self.ask(fd, system);
                }
            }
            Some(Stream::Origin { client, .. }) => {
                let client = *client;
                self.answered(fd, client, read, system);
            }
            // Data from a waiting client is ignored, but its end is not.
            Some(Stream::Client(_)) if read > 0 => {}
            _ => self.end(fd, system),
        }
    }

    /// Queries the origin after a complete request of a client.
    fn ask(&mut self, client: TcpStream, system: &mut System<'_>) {
        system.compute(self.costs.request);
        let Ok(origin) = TcpStream::connect(system, self.origin) else { return self.end(client, system) };
        self.events.write(origin);
        self.streams.insert(origin, Stream::Origin { client, asked: false });
        self.streams.insert(client, Stream::Client(Client { origin: Some(origin), left: 0 }));
    }

    /// Handles bytes from the origin: their number, or none at the end.
    fn answered(&mut self, origin: TcpStream, client: TcpStream, bytes: usize, system: &mut System<'_>) {
        if bytes == 0 {
            self.close(origin, system);
        }
        let Some(Stream::Client(waiting)) = self.streams.get_mut(&client) else { return };
        if bytes == 0 {
            waiting.origin = None;
        }
        waiting.left += match self.answers {
            Answers::Relayed => bytes,
            Answers::FromCache(document) if bytes == 0 => document,
            Answers::FromCache(_) => 0,
        };
        if waiting.left > 0 {
            self.events.write(client);
        } else if bytes == 0 {
            self.end(client, system);
        }
    }

    fn writable(&mut self, fd: TcpStream, system: &mut System<'_>) {
        match self.streams.get_mut(&fd) {
            Some(Stream::Origin { asked, .. }) if !*asked => {
                *asked = true;
                match fd.write(system, REQUEST) {
                    Ok(_) => self.events.read(fd),
                    Err(_) => self.end(fd, system),
                }
            }
            Some(Stream::Client(_)) => self.tell(fd, system),
            _ => {}
        }
    }

    fn tell(&mut self, fd: TcpStream, system: &mut System<'_>) {
        let Some(Stream::Client(client)) = self.streams.get_mut(&fd) else { return };
        match fd.write(system, &FILLER[..FILLER.len().min(client.left)]) {
            Ok(taken) => {
                system.compute(self.costs.copying(taken));
                client.left -= taken;
                match (client.left, client.origin) {
                    (0, None) => self.end(fd, system),
                    (0, Some(_)) => self.events.read(fd),
                    _ => {}
                }
            }
            Err(StreamError::WouldBlock) => {}
            Err(_) => self.end(fd, system),
        }
    }

    /// Ends a client and its connection with the origin; or a client whose origin has failed.
    fn end(&mut self, fd: TcpStream, system: &mut System<'_>) {
        let other = match self.streams.get(&fd) {
            Some(Stream::Client(Client { origin, .. })) => *origin,
            Some(Stream::Origin { client, .. }) => Some(*client),
            _ => None,
        };
        other.into_iter().chain([fd]).for_each(|fd| self.close(fd, system));
    }

    fn close(&mut self, fd: TcpStream, system: &mut System<'_>) {
        if self.streams.remove(&fd).is_some() {
            self.events.forget(fd);
            system.close(fd);
        }
    }
}

impl Program for Proxy {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        match self.events.next(system) {
            Err(step) => return step,
            Ok(Happening::Acceptable(listener)) => self.accept(listener, system),
            Ok(Happening::Readable(fd)) => self.readable(fd, system),
            Ok(Happening::Writable(fd)) => self.writable(fd, system),
        }
        Step::Again
    }
}
