//! A server of very many connections. It hears of those that have news and looks at no others, so connections that do nothing cost nothing.

use std::sync::Arc;

use evenkeel_core::host::System;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::socket::{Event, SocketId};
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::Duration;

use super::session::{Progress, Service, Stream};
use super::streams::Streams;
use super::tally::Tally;

/// Connections accepted in one step at most.
const ACCEPTS: usize = 64;

/// How a server serves, whatever it is.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Port it listens on, of all addresses of its host.
    pub port: u16,
    /// Its queues.
    pub listener: ListenerConfig,
    /// CPU it uses for each read.
    pub work: Duration,
    /// Connections after whose end it ends.
    pub count: Option<u64>,
}

/// The program.
#[derive(Debug)]
pub struct Server<S: Service> {
    service: S,
    options: Options,
    socket: Option<SocketId>,
    /// There may be more to accept.
    accepting: bool,
    streams: Streams<S::Session>,
    closed: u64,
    tally: Arc<Tally>,
}

impl<S: Service> Server<S> {
    /// A server that tells `tally` what it does.
    #[must_use]
    pub fn new(service: S, options: Options, tally: Arc<Tally>) -> Self {
        Self {
            service,
            options,
            socket: None,
            accepting: false,
            streams: Streams::default(),
            closed: 0,
            tally,
        }
    }

    fn accept(&mut self, listener: SocketId, system: &mut System<'_>) {
        self.accepting = true;
        for _ in 0..ACCEPTS {
            let Some((stream, peer)) = system.accept(listener) else {
                self.accepting = false;
                break;
            };
            self.streams.insert(stream, self.service.open(peer));
            self.tally.accepted.add(1);
        }
        self.tally.note_open(self.streams.len());
    }

    /// Gives a stream its turn.
    fn serve(&mut self, socket: SocketId, system: &mut System<'_>) {
        let Some(session) = self.streams.get_mut(socket) else { return };
        let mut stream = Stream::new(system, socket, &self.tally, self.options.work);
        match self.service.go_on(session, &mut stream) {
            Ok(Progress::Wait) => {}
            Ok(Progress::More) => self.streams.put_back(socket),
            Ok(Progress::Over) => self.close(socket, system),
            Err(_) => {
                self.tally.failed.add(1);
                self.close(socket, system);
            }
        }
    }

    fn close(&mut self, socket: SocketId, system: &mut System<'_>) {
        self.streams.remove(socket);
        system.close(socket);
        self.closed += 1;
        self.tally.note_open(self.streams.len());
    }

    fn start(&mut self, system: &mut System<'_>) -> Step {
        match system.listen(None, self.options.port, &self.options.listener) {
            Ok(listener) => {
                self.socket = Some(listener);
                self.tally.begin();
                Step::Again
            }
            Err(error) => {
                self.tally.refuse(error);
                Step::Exit
            }
        }
    }
}

impl<S: Service> Program for Server<S> {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = system.events();
        let Some(listener) = self.socket else { return self.start(system) };
        let event = system.next_event(events);
        match event {
            Some(Event { socket, .. }) if socket == listener => self.accept(listener, system),
            Some(Event { socket, .. }) => self.serve(socket, system),
            None if self.accepting => self.accept(listener, system),
            None => {}
        }
        if let Some(stream) = self.streams.next_busy() {
            self.serve(stream, system);
        }
        if self.options.count.is_some_and(|count| self.closed >= count) {
            self.tally.end();
            return Step::Exit;
        }
        let idle = event.is_none() && !self.accepting && !self.streams.has_busy();
        if idle { Step::Wait(events) } else { Step::Again }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::host::{Config, Host};
    use evenkeel_core::socket::ListenError;
    use evenkeel_core::time::Instant;

    use super::*;
    use crate::stream::{Echo, Sink};

    #[test]
    fn a_port_in_use_is_refused_and_the_first_server_keeps_it() {
        let mut host = Host::new(Config::default()).unwrap();
        let options =
            Options { port: 7, listener: ListenerConfig::default(), work: Duration::ZERO, count: None };
        let (first, second) = (Arc::new(Tally::default()), Arc::new(Tally::default()));
        host.spawn("first", 0, Box::new(Server::new(Echo::default(), options, Arc::clone(&first))));
        host.spawn("second", 0, Box::new(Server::new(Sink::default(), options, Arc::clone(&second))));
        while let Some(ran) = host.turn(Instant::ZERO) {
            host.finish(&ran, Instant::ZERO);
        }
        assert!(first.listening() && !first.ended() && first.refused().is_none());
        assert_eq!(
            (second.listening(), second.ended(), second.refused()),
            (false, true, Some(ListenError::InUse))
        );
    }
}
