//! Very many TCP connections of the kernel on one thread.

use core::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::Arc;

use evenkeel_core::time::{Duration, Instant};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::clock::Clock;
use crate::sys;

/// The most events taken from the kernel at a time.
const EVENTS: usize = 512;
/// The epoll token of the descriptors that end every sleep.
const ENDS_SLEEP: u64 = u64::MAX;

/// An event of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Happened {
    /// The token that the caller gave the connection.
    pub token: u64,
    /// Whether the peer has ended its direction. Bytes that it sent before may still be unread.
    pub ended: bool,
}

/// Connections that this process opens, each in a numbered place that the caller chooses, and their events.
///
/// Only [`Connections::wait`] blocks. Events are edge-triggered: after an event, read until there is nothing
/// more.
pub struct Connections {
    epoll: OwnedFd,
    places: Vec<Option<OwnedFd>>,
    events: Vec<epoll::Event>,
    /// The descriptor for waits that need finer deadlines than milliseconds.
    polled: [libc::pollfd; 1],
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connections({} open)", self.places.iter().flatten().count())
    }
}

impl Connections {
    /// Creates a set without connections. Each of `events` ends every wait while it is readable.
    ///
    /// # Errors
    /// If the process may open no more descriptors.
    pub fn new(events: &[Arc<OwnedFd>]) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for event in events {
            epoll::add(&epoll, &**event, epoll::EventData::new_u64(ENDS_SLEEP), epoll::EventFlags::IN)?;
        }
        let polled = [libc::pollfd { fd: epoll.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
        Ok(Self { epoll, places: Vec::new(), events: Vec::with_capacity(EVENTS), polled })
    }

    /// Begins to open a connection in `place`, with `token` in its events, from `source` or from an address
    /// that the kernel chooses. Closes the previous connection in that place.
    ///
    /// # Errors
    /// Those of `socket`, `bind` and `connect`, for example no descriptor, no port or no route. Nothing was
    /// opened.
    pub fn open(&mut self, place: u32, token: u64, to: SocketAddr, source: Option<IpAddr>) -> io::Result<()> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        if let Some(source) = source {
            // The port is chosen when the destination is known: each source address has all ports for every
            // destination.
            let _ = sys::bind_without_port(socket.as_fd());
            rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
        }
        match rustix::net::connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        // Registered only now: a socket that was never connected would be reported as hung up.
        let news =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(token), news)?;
        let index = place as usize;
        if index >= self.places.len() {
            self.places.resize_with(index + 1, || None);
        }
        if let Some(slot) = self.places.get_mut(index) {
            *slot = Some(socket);
        }
        Ok(())
    }

    /// Returns whether the handshake is complete.
    ///
    /// # Errors
    /// The reason why there is no connection, such as a refusal by the peer.
    pub fn is_open(&self, place: u32) -> io::Result<bool> {
        let socket = self.socket(place)?;
        match rustix::net::getpeername(socket) {
            Ok(_) => Ok(true),
            Err(Errno::NOTCONN) => {
                sockopt::socket_error(socket)??;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Writes as many bytes as fit; returns their number.
    ///
    /// # Errors
    /// The connection is over.
    pub fn write(&self, place: u32, bytes: &[u8]) -> io::Result<usize> {
        match rustix::net::send(self.socket(place)?, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => Ok(sent),
            Err(Errno::AGAIN) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the received bytes; `None` if there are none, and 0 bytes at the end of the stream.
    ///
    /// # Errors
    /// The connection is over, for example because of a reset.
    pub fn read(&self, place: u32, to: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::net::recv(self.socket(place)?, to, RecvFlags::empty()) {
            Ok((_, read)) => Ok(Some(read)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Closes a connection; what was written is still sent.
    pub fn close(&mut self, place: u32) {
        if let Some(slot) = self.places.get_mut(place as usize) {
            *slot = None;
        }
    }

    /// Closes a connection at once by a reset: neither end keeps its state, and its port is free.
    pub fn reset(&mut self, place: u32) {
        if let Ok(socket) = self.socket(place) {
            // Without this option the close is an ordinary one.
            let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
        }
        self.close(place);
    }

    /// Waits until something has happened, `clock` shows `deadline`, or one of the events is readable. Adds
    /// the connections' events to `happened`. Returns whether an event is readable.
    ///
    /// # Errors
    /// Only if the kernel is out of memory.
    pub fn wait(
        &mut self,
        clock: &Clock,
        deadline: Instant,
        happened: &mut Vec<Happened>,
    ) -> io::Result<bool> {
        let rest = deadline.since(clock.now());
        if !rest.is_zero() {
            sys::ppoll(&mut self.polled, (deadline != Instant::NEVER).then_some(rest))?;
        }
        self.events.clear();
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&now)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let events = self.events.iter().map(|&epoll::Event { flags, data, .. }| Happened {
            token: data.u64(),
            ended: flags.intersects(epoll::EventFlags::RDHUP | epoll::EventFlags::HUP),
        });
        happened.extend(events.filter(|event| event.token != ENDS_SLEEP));
        Ok(self.events.iter().any(|event| event.data.u64() == ENDS_SLEEP))
    }

    fn socket(&self, place: u32) -> io::Result<&OwnedFd> {
        let socket = self.places.get(place as usize).and_then(Option::as_ref);
        socket.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

/// Raises the process's limit of descriptors to `wanted`, if it may; returns the limit.
pub fn allow_descriptors(wanted: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(now) = current else { return u64::MAX };
    if now >= wanted {
        return now;
    }
    let raised = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    // A privileged process may exceed its own limit, up to the system's.
    for (current, maximum) in [(wanted, maximum.map(|maximum| maximum.max(wanted))), (raised, maximum)] {
        if setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum }).is_ok() {
            return current;
        }
    }
    now
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::Stop;

    fn connections() -> (Connections, Clock) {
        (Connections::new(&[Stop::on_signals().unwrap().fd()]).unwrap(), Clock::start())
    }

    /// Waits until something happens.
    fn next(connections: &mut Connections, clock: &Clock) -> Vec<Happened> {
        let mut happened = Vec::new();
        let end = clock.now() + Duration::from_secs(30);
        while happened.is_empty() {
            assert!(clock.now() < end, "nothing happens");
            connections.wait(clock, end, &mut happened).unwrap();
        }
        happened
    }

    fn opened(source: Option<IpAddr>) -> (Connections, Clock, std::net::TcpStream) {
        let (mut connections, clock) = connections();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        connections.open(3, 77, listener.local_addr().unwrap(), source).unwrap();
        assert_eq!(next(&mut connections, &clock), [Happened { token: 77, ended: false }]);
        assert!(connections.is_open(3).unwrap());
        let (peer, from) = listener.accept().unwrap();
        assert_eq!(from.ip(), source.unwrap_or(Ipv4Addr::LOCALHOST.into()));
        (connections, clock, peer)
    }

    #[test]
    fn what_is_said_on_a_connection_comes_and_goes() {
        let (mut connections, clock, mut peer) = opened(Some("127.0.0.9".parse().unwrap()));
        assert_eq!(connections.write(3, b"hello").unwrap(), 5);
        let mut heard = [0; 5];
        peer.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"hello");
        assert_eq!(connections.read(3, &mut heard).unwrap(), None);
        peer.write_all(b"hi").unwrap();
        next(&mut connections, &clock);
        assert_eq!(connections.read(3, &mut heard).unwrap(), Some(2));
        drop(peer);
        assert!(next(&mut connections, &clock)[0].ended);
        assert_eq!(connections.read(3, &mut heard).unwrap(), Some(0));
        connections.close(3);
        assert!(connections.read(3, &mut heard).is_err());
    }

    #[test]
    fn a_reset_is_one_to_the_peer() {
        let (mut connections, _, mut peer) = opened(None);
        connections.reset(3);
        let error = peer.read(&mut [0; 5]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn nobody_there_is_said() {
        let (mut connections, clock) = connections();
        let gone = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        // The kernel reports the error at once or later.
        let error = connections.open(0, 5, gone, None).and_then(|()| {
            assert_eq!(next(&mut connections, &clock)[0].token, 5);
            connections.is_open(0).map(|_| ())
        });
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_wait_ends_at_the_deadline() {
        let (mut connections, clock) = connections();
        let deadline = clock.now() + Duration::from_micros(300);
        let mut happened = Vec::new();
        while clock.now() < deadline {
            connections.wait(&clock, deadline, &mut happened).unwrap();
        }
        assert!(happened.is_empty());
    }

    #[test]
    fn descriptors_are_allowed_as_far_as_the_system_lets() {
        let before = allow_descriptors(0);
        assert!(allow_descriptors(before.min(1_000_000)) >= before.min(1_000_000));
    }
}
