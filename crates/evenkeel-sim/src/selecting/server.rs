//! A web server with one process, such as thttpd.

use std::collections::BTreeMap;

use evenkeel_core::host::System;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::socket::StreamError;
use evenkeel_core::system::{TcpListener, TcpStream};
use evenkeel_core::tcp::ListenerConfig;

use super::event_loop::{EventLoop, Happening, LoopCosts, LoopCounts};
use super::exchange::{Arriving, FILLER, HandlerCosts};
use crate::workload::Tally;

/// A server that answers each request with one document, and closes, as in HTTP/1.0.
#[derive(Debug)]
pub struct SelectServer {
    /// Bytes of an answer.
    bytes: usize,
    costs: HandlerCosts,
    events: EventLoop,
    streams: BTreeMap<TcpStream, Conversation>,
    accepted: Tally,
}

#[derive(Debug)]
enum Conversation {
    Asked(Arriving),
    Telling { left: usize },
}

impl SelectServer {
    /// Creates a server that listens on a port and sends answers of `bytes`. Also returns the counters of its
    /// loop, and of accepted connections.
    #[must_use]
    pub fn new(
        listen: (u16, ListenerConfig),
        bytes: usize,
        around: LoopCosts,
        costs: HandlerCosts,
    ) -> (Self, LoopCounts, Tally) {
        let (events, counts) = EventLoop::new(listen, around);
        let (streams, accepted) = (BTreeMap::new(), Tally::default());
        let server = Self { bytes, costs, events, streams, accepted: accepted.clone() };
        (server, counts, accepted)
    }

    /// Accepts one connection, as the handler of a ready listener.
    fn accept(&mut self, listener: TcpListener, system: &mut System<'_>) {
        let Ok((stream, _)) = listener.accept(system) else { return };
        self.accepted.add_one();
        self.events.read(stream);
        self.streams.insert(stream, Conversation::Asked(Arriving::default()));
    }

    fn read_request(&mut self, stream: TcpStream, system: &mut System<'_>) {
        let mut chunk = [0; 1 << 10];
        match (self.streams.get_mut(&stream), stream.read(system, &mut chunk)) {
            (_, Err(StreamError::WouldBlock)) => {}
            (Some(Conversation::Asked(request)), Ok(len)) if len > 0 => {
                if request.add(&chunk[..len]) {
                    system.compute(self.costs.request);
                    self.streams.insert(stream, Conversation::Telling { left: self.bytes });
                    self.events.write(stream);
                }
            }
            _ => self.end(stream, system),
        }
    }

    fn tell(&mut self, stream: TcpStream, system: &mut System<'_>) {
        let Some(Conversation::Telling { left }) = self.streams.get_mut(&stream) else { return };
        match stream.write(system, &FILLER[..FILLER.len().min(*left)]) {
            Ok(taken) => {
                system.compute(self.costs.copying(taken));
                *left -= taken;
                if *left == 0 {
                    self.end(stream, system);
                }
            }
            Err(StreamError::WouldBlock) => {}
            Err(_) => self.end(stream, system),
        }
    }

    fn end(&mut self, stream: TcpStream, system: &mut System<'_>) {
        self.streams.remove(&stream);
        self.events.forget(stream);
        system.close(stream);
    }
}

impl Program for SelectServer {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        match self.events.next(system) {
            Err(step) => return step,
            Ok(Happening::Acceptable(listener)) => self.accept(listener, system),
            Ok(Happening::Readable(fd)) => self.read_request(fd, system),
            Ok(Happening::Writable(fd)) => self.tell(fd, system),
        }
        Step::Again
    }
}
