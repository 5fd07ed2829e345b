//! A neighbour that answers neither ARP nor neighbour discovery: what a program that connects to it learns.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use evenkeel_core::cable::{End, Options, pair};
use evenkeel_core::drop::IpDrop;
use evenkeel_core::host::{Config, Host, System};
use evenkeel_core::process::ProcessId;
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::{Fd, StreamError};
use evenkeel_core::stack::{InterfaceId, IpEndpoint};
use evenkeel_core::system::{EventQueue, TcpListener, TcpStream};
use evenkeel_core::tcp::connection::Error;
use evenkeel_core::tcp::{ListenerConfig, State};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr};

const UNIT: Duration = Duration::from_micros(1);

const fn v4(last: u8) -> IpAddress {
    IpAddress::v4(10, 0, 0, last)
}

const fn v6(last: u8) -> IpAddress {
    IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, last as u16)
}

/// A host at the end of a cable, in virtual time.
struct World {
    host: Host,
    interface: InterfaceId,
    me: ProcessId,
    now: Instant,
}

impl World {
    fn new(architecture: Architecture) -> (Self, End) {
        let (end, far) = pair(
            Options { demultiplexes: architecture == Architecture::NiLrp, ..Options::new("near", 1) },
            Options::new("far", 2),
        );
        (Self::at(architecture, end, 1), far)
    }

    fn at(architecture: Architecture, end: End, last: u8) -> Self {
        let mut host = Host::new(Config::of(architecture)).unwrap();
        let addresses = [IpCidr::new(v4(last), 24), IpCidr::new(v6(last), 64)];
        let interface = host.add_interface(Box::new(end), &addresses, Instant::ZERO).unwrap();
        let me = host.attach("me", 0, Instant::ZERO);
        Self { host, interface, me, now: Instant::ZERO }
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut System<'_>) -> T) -> T {
        self.host.enter(self.me, self.now, call).unwrap()
    }

    /// Does what can be done now; returns whether anything was.
    fn work(&mut self) -> bool {
        let Some(ran) = self.host.turn(self.now) else { return false };
        self.now += UNIT;
        self.host.charge(&ran, UNIT);
        self.host.finish(&ran, self.now);
        true
    }

    fn run_until(&mut self, until: Instant) {
        while self.now < until {
            if !self.work() && self.host.halt(self.now) {
                self.now = self.host.next_deadline().max(self.now + UNIT).min(until);
            }
        }
        self.host.check().unwrap();
    }

    fn state(&mut self, stream: TcpStream) -> Option<State> {
        self.call(|system| stream.info(system)).ok().map(|(_, info)| info.state)
    }
}

/// Three questions, a second apart, as in Linux.
#[test]
fn a_connect_to_nobody_fails_after_three_seconds() {
    for architecture in Architecture::ALL {
        for nobody in [v4(9), v6(9)] {
            let (mut world, _far) = World::new(architecture);
            let to = IpEndpoint::new(nobody, 80);
            let stream = world.call(|system| TcpStream::connect(system, to)).unwrap();
            world.run_until(Instant::from_millis(2_999));
            assert_eq!(world.state(stream), Some(State::SynSent), "{architecture:?} {nobody}");
            world.run_until(Instant::from_millis(3_010));
            let wrote = world.call(|system| stream.write(system, b"x"));
            let failed = Err(StreamError::Failed(Error::Unreachable));
            assert_eq!(wrote, failed, "{architecture:?} {nobody}");
            assert!(world.host.ledger().output_drops(IpDrop::Unresolved) > 0);
            world.call(|system| system.close(stream));
            world.run_until(Instant::from_millis(20_000));
        }
    }
}

/// Behind a router that is not there it is the same; and a program that waits is woken.
#[test]
fn a_router_that_does_not_answer_fails_the_connect_too() {
    let (mut world, _far) = World::new(Architecture::SoftLrp);
    let everywhere = IpCidr::new(IpAddress::v4(0, 0, 0, 0), 0);
    world.host.add_route(everywhere, v4(7), world.interface).unwrap();
    let to = IpEndpoint::new(IpAddress::v4(192, 0, 2, 1), 80);
    let stream = world.call(|system| TcpStream::connect(system, to)).unwrap();
    let events = world.call(EventQueue::of_all).unwrap();
    world.run_until(Instant::from_millis(2_999));
    assert!(world.call(|system| events.next(system)).is_err());
    world.run_until(Instant::from_millis(3_010));
    let event = world.call(|system| events.next(system)).unwrap();
    assert!(Fd::of(&event) == stream.fd() && event.ready.is_hang_up(), "{event:?}");
    assert_eq!(world.call(|system| stream.take_error(system)), Ok(Some(Error::Unreachable)));
}

/// RFC 1122 4.2.3.9: a soft error. The connection goes on as soon as the neighbour is back.
#[test]
fn an_established_connection_survives_a_neighbor_that_is_silent_for_a_while() {
    let (mut near, far) = World::new(Architecture::Eager);
    let mut far = World::at(Architecture::Eager, far, 2);
    let listener =
        far.call(|system| TcpListener::listen(system, None, 80, &ListenerConfig::default())).unwrap();
    let stream = near.call(|system| TcpStream::connect(system, IpEndpoint::new(v4(2), 80))).unwrap();
    while near.work() || far.work() {}
    let (accepted, _) = far.call(|system| listener.accept(system)).unwrap();
    let now = near.now;
    assert!(near.host.remove_neighbor(near.interface, v4(2), now));
    assert_eq!(near.call(|system| stream.write(system, b"hello")), Ok(5));
    near.run_until(now + Duration::from_millis(5_000));
    let (_, info) = near.call(|system| stream.info(system)).unwrap();
    assert_eq!((info.state, info.unreachable, info.error), (State::Established, true, None));
    // The other host runs again: questions and segments that wait in its ring are answered.
    far.now = near.now;
    for _ in 0..20 {
        while near.work() || far.work() {}
        let until = near.now.max(far.now) + Duration::from_millis(1_000);
        near.run_until(until);
        far.run_until(until);
    }
    let mut room = [0; 10];
    assert_eq!(far.call(|system| accepted.read(system, &mut room)), Ok(5));
    let (_, info) = near.call(|system| stream.info(system)).unwrap();
    assert_eq!((info.state, info.unreachable), (State::Established, false));
}
