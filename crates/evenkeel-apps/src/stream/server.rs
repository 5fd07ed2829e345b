//! A server of very many connections. It handles only connections that have events, so idle connections
//! cost nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel::raw::error::{ReceiveError, StreamError};
use evenkeel::raw::process::{Program, Step, System};
use evenkeel::raw::socket::{EventQueue, TcpListener, TcpStream};
use evenkeel::raw::tcp::ListenerConfig;
use evenkeel::raw::tcp::connection::Error;
use evenkeel::raw::time::{Duration, Instant};

use super::session::{Progress, Service, Stream};
use super::streams::Streams;
use super::tally::Counters;

/// The maximum number of connections that are accepted in one step, and of those that are timed out in one.
const ACCEPTS: usize = 64;

/// The options of a server, whatever its service is.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The port that the server listens on, at all addresses of its host.
    pub port: u16,
    /// The sizes and options of the listener's queues.
    pub listener: ListenerConfig,
    /// The CPU time that the server uses for each read, in addition to the read itself.
    pub work: Duration,
    /// The number of closed connections after which the server exits; `None` for no limit.
    pub count: Option<u64>,
}

/// A program that accepts connections and runs a [`Service`] on each.
#[derive(Debug)]
pub struct Server<S: Service> {
    service: S,
    options: Options,
    socket: Option<TcpListener>,
    /// Whether the listener may have more connections to accept.
    accepting: bool,
    /// Whether accepting stopped because the process has as many descriptors as it may have. It resumes
    /// when a stream is closed.
    full: bool,
    streams: Streams<Client<S::Session>>,
    /// The times at which clients are checked for a timeout, if the service has timeouts.
    due: BTreeSet<(Instant, TcpStream)>,
    closed: u64,
    tally: Arc<Counters>,
}

/// The client on the peer end of a stream.
#[derive(Debug)]
struct Client<T> {
    session: T,
    /// The time from which the timeout runs.
    since: Instant,
    /// The time of the next timeout check. That may be too early, which is cheaper than an exact order.
    due: Instant,
    timed_out: bool,
}

impl<S: Service> Server<S> {
    /// Creates a server that counts in `tally`.
    #[must_use]
    pub fn new(service: S, options: Options, tally: Arc<Counters>) -> Self {
        Self {
            service,
            options,
            socket: None,
            accepting: false,
            full: false,
            streams: Streams::default(),
            due: BTreeSet::new(),
            closed: 0,
            tally,
        }
    }

    fn accept(&mut self, listener: TcpListener, system: &mut System<'_>) {
        self.accepting = true;
        for _ in 0..ACCEPTS {
            let (stream, peer) = match listener.accept(system) {
                Ok(accepted) => accepted,
                Err(why) => {
                    (self.accepting, self.full) = (false, why == ReceiveError::TooManyOpen);
                    break;
                }
            };
            let (session, since) = (self.service.open(peer), system.now());
            self.streams.insert(stream, Client { session, since, due: Instant::NEVER, timed_out: false });
            self.look_later(stream);
            self.tally.accepted.add(1);
        }
        self.tally.record_open(self.streams.len());
    }

    /// Runs one turn of the service on a stream, and does what the service then asks for.
    fn serve(&mut self, socket: TcpStream, system: &mut System<'_>) {
        let Some(client) = self.streams.get_mut(socket) else { return };
        let mut stream = Stream::new(system, socket, &self.tally, self.options.work);
        let progress = self.service.go_on(&mut client.session, &mut stream);
        if stream.restarted {
            client.since = stream.system.now();
        }
        match progress {
            Ok(Progress::Wait) => {}
            Ok(Progress::More) => self.streams.put_back(socket),
            Ok(Progress::Over) => self.close(socket, system),
            Err(why) => {
                self.tally.failed.add(1);
                let is_reset = matches!(why, StreamError::Failed(Error::Reset | Error::BrokenPipe));
                self.tally.reset.add(u64::from(is_reset));
                self.close(socket, system);
            }
        }
    }

    /// Schedules a client's next timeout check, if the service has timeouts.
    fn look_later(&mut self, socket: TcpStream) {
        let (Some(timeout), Some(client)) = (self.service.timeout(), self.streams.get_mut(socket)) else {
            return;
        };
        client.due = client.since + timeout;
        self.due.insert((client.due, TcpStream::from(socket.fd())));
    }

    /// Times out clients, at most [`ACCEPTS`] of them. If the service has no last answer for a client, its
    /// connection is cut off.
    fn time_out(&mut self, system: &mut System<'_>) {
        let now = system.now();
        for _ in 0..ACCEPTS {
            let Some(&(due, socket)) = self.due.first().filter(|(due, _)| *due <= now) else { return };
            self.due.remove(&(due, socket));
            let Some(client) = self.streams.get_mut(socket) else { continue };
            if self.service.timeout().is_some_and(|timeout| client.since + timeout <= now) {
                self.tally.timed_out.add(u64::from(!core::mem::replace(&mut client.timed_out, true)));
                client.since = now;
                if !self.service.time_out(&mut client.session) {
                    self.cut_off(socket, system);
                    continue;
                }
                self.serve(socket, system);
            }
            self.look_later(socket);
        }
    }

    /// Closes a client's connection. A connection with unacknowledged data is reset, and the data is
    /// dropped.
    fn cut_off(&mut self, socket: TcpStream, system: &mut System<'_>) {
        if socket.info(system).is_ok_and(|(_, info)| info.send_queue > 0) {
            let _ = socket.abort(system);
        }
        self.close(socket, system);
    }

    fn close(&mut self, socket: TcpStream, system: &mut System<'_>) {
        if let Some(client) = self.streams.remove(socket) {
            self.due.remove(&(client.due, TcpStream::from(socket.fd())));
        }
        system.close(socket);
        self.accepting |= core::mem::take(&mut self.full);
        self.closed += 1;
        self.tally.record_open(self.streams.len());
    }

    fn start(&mut self, system: &mut System<'_>) -> Step {
        match TcpListener::listen(system, None, self.options.port, &self.options.listener) {
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
        let Ok(events) = EventQueue::of_all(system) else { return Step::Exit };
        let Some(listener) = self.socket else { return self.start(system) };
        let event = events.next(system);
        match event {
            Ok(event) if TcpListener::of(&event) == listener => self.accept(listener, system),
            Ok(event) => self.serve(TcpStream::of(&event), system),
            Err(_) if self.accepting => self.accept(listener, system),
            Err(_) => {}
        }
        if let Some(stream) = self.streams.next_busy() {
            self.serve(stream, system);
        }
        self.time_out(system);
        if self.options.count.is_some_and(|count| self.closed >= count) {
            self.tally.end();
            return Step::Exit;
        }
        let idle = event.is_err() && !self.accepting && !self.streams.has_busy();
        match self.due.first() {
            _ if !idle => Step::Again,
            Some(&(due, _)) => Step::WaitUntil(events.fd(), due),
            None => Step::Wait(events.fd()),
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel::raw::error::ListenError;
    use evenkeel::raw::host::{Config, Host};
    use evenkeel::raw::time::Instant;

    use super::*;
    use crate::stream::{Echo, Sink};
    use crate::two_hosts::{ADDRESSES, TwoHosts};
    use evenkeel::raw::wire::IpEndpoint;

    /// Five clients connect, and the server has descriptors for two at a time.
    #[test]
    fn whoever_finds_no_descriptor_left_is_served_when_one_is_closed() {
        let mut hosts = TwoHosts::new();
        let options =
            Options { port: 7, listener: ListenerConfig::default(), work: Duration::ZERO, count: None };
        let tally = Arc::new(Counters::default());
        let mut server = Server::new(Echo::default(), options, Arc::clone(&tally));
        let mut serve = |hosts: &mut TwoHosts| {
            while hosts.turn(1, |system| server.step(system)) == Step::Again {}
        };
        hosts.turn(1, |system| system.set_descriptor_limit(4));
        serve(&mut hosts);
        let to = IpEndpoint::new(ADDRESSES[1], 7);
        let mut clients: Vec<_> =
            (0..5).map(|_| hosts.turn(0, |system| TcpStream::connect(system, to)).unwrap()).collect();
        for left in [5, 4, 3, 2, 1] {
            serve(&mut hosts);
            assert_eq!(tally.accepted.get(), (5 - left + 2).min(5));
            let first = clients.remove(0);
            hosts.turn(0, |system| system.close(first));
        }
    }

    /// Many clients end connections by a reset, such as wrk at its end, and connection pools.
    #[test]
    fn a_connection_that_its_client_resets_is_counted_as_such() {
        let mut hosts = TwoHosts::new();
        let options =
            Options { port: 7, listener: ListenerConfig::default(), work: Duration::ZERO, count: None };
        let tally = Arc::new(Counters::default());
        let mut server = Server::new(Echo::default(), options, Arc::clone(&tally));
        let mut serve = |hosts: &mut TwoHosts| {
            while hosts.turn(1, |system| server.step(system)) == Step::Again {}
        };
        serve(&mut hosts);
        let to = IpEndpoint::new(ADDRESSES[1], 7);
        let streams = [(); 3].map(|()| hosts.turn(0, |system| TcpStream::connect(system, to)).unwrap());
        serve(&mut hosts);
        assert_eq!(hosts.turn(0, |system| streams[0].abort(system)), Ok(()));
        hosts.turn(0, |system| system.close(streams[1]));
        serve(&mut hosts);
        assert_eq!((tally.failed(), tally.reset(), tally.open()), (1, 1, 1));
    }

    #[test]
    fn a_port_in_use_is_refused_and_the_first_server_keeps_it() {
        let mut host = Host::new(Config::default()).unwrap();
        let options =
            Options { port: 7, listener: ListenerConfig::default(), work: Duration::ZERO, count: None };
        let (first, second) = (Arc::new(Counters::default()), Arc::new(Counters::default()));
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
