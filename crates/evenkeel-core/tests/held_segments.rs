//! Segments that protocol processing has to send wait a little for the program that it woke, and leave with
//! the program's answer.
//!
//! Every segment is acknowledged at once here: a segment that waits does so for the program, and not for the
//! timer of delayed acknowledgments.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::*;
use evenkeel_core::host::{Config, Level, System};
use evenkeel_core::process::{ProcessId, Program, Step};
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::system::{EventQueue, TcpListener, TcpStream, UdpSocket};
use evenkeel_core::tcp::{self, EndpointConfig, Flags, Header, ListenerConfig, Segment, SeqNumber};
use evenkeel_core::time::Duration;
use evenkeel_core::wire::{EthernetAddress, Ipv4Packet};
use evenkeel_core::work::Work;

const PORT: u16 = 80;
/// A port of the program at which it waits instead of serving its streams.
const ELSEWHERE: u16 = 7;
/// The port of another program.
const OTHER: u16 = 9;
/// The largest number of work items for which segments wait: the one that processed the segment, and those
/// before the one at whose end they leave.
const UNITS_HELD: usize = 8;

fn config(architecture: Architecture, device_work: DeviceWork) -> Config {
    let connection = tcp::Config { ack_delay: Duration::ZERO, ..tcp::Config::default() };
    let tcp = EndpointConfig { connection: Arc::new(connection), ..EndpointConfig::default() };
    Config { device_work, tcp, ..Config::of(architecture) }
}

fn lazy() -> [Config; 3] {
    [
        config(Architecture::SoftLrp, DeviceWork::Polled),
        config(Architecture::SoftLrp, DeviceWork::Interrupt),
        config(Architecture::NiLrp, DeviceWork::None),
    ]
}

/// The behaviour of a program after it has accepted a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Waits for data, and answers.
    Listens,
    /// Waits for a datagram.
    WaitsElsewhere,
    /// Sleeps for a time.
    Naps,
    /// Goes on computing.
    Computes,
}

/// Answers whatever has been said on any of its streams by one byte, if it looks at them.
#[derive(Debug)]
struct Server {
    then: Then,
    connected: bool,
    elsewhere: Option<UdpSocket>,
    seen: Arc<Seen>,
}

impl Server {
    fn answer(&self, stream: TcpStream, system: &mut System<'_>) {
        let mut room = [0; 4_096];
        while let Ok(len @ 1..) = stream.read(system, &mut room) {
            self.seen.payloads.lock().unwrap().push(room[..len].to_vec());
            self.seen.count.fetch_add(1, Ordering::Relaxed);
            assert_eq!(stream.write(system, b"!"), Ok(1));
        }
    }
}

impl Program for Server {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = EventQueue::of_all(system).unwrap();
        let elsewhere = *self.elsewhere.get_or_insert_with(|| {
            TcpListener::listen(system, None, PORT, &ListenerConfig::default()).unwrap();
            UdpSocket::bind(system, None, ELSEWHERE).unwrap()
        });
        while let Ok(event) = events.next(system) {
            self.connected |= TcpListener::of(&event).accept(system).is_ok();
            if event.ready.is_readable() {
                self.answer(TcpStream::of(&event), system);
            }
        }
        match self.then {
            Then::WaitsElsewhere if self.connected => Step::Wait(elsewhere.fd()),
            Then::Naps if self.connected => Step::Sleep(system.now() + Duration::from_secs(1)),
            Then::Computes if self.connected => {
                system.compute(UNIT * 10);
                Step::Again
            }
            _ => Step::Wait(events.fd()),
        }
    }
}

/// The other end of a connection: where its next segment begins, and what it expects.
struct Peer {
    port: u16,
    seq: SeqNumber,
    ack: SeqNumber,
}

impl Peer {
    fn connect(bench: &mut Bench, port: u16) -> Self {
        let mut peer = Self { port, seq: SeqNumber::new(1_000), ack: SeqNumber::default() };
        bench.send(&[peer.segment(Flags::SYN, b"")]);
        bench.settle_some();
        let frames = bench.sent();
        let syn_ack = frames.iter().find_map(|frame| parse(frame)).expect("a SYN-ACK");
        peer.seq += 1;
        peer.ack = syn_ack.header.seq + 1;
        bench.send(&[peer.segment(Flags::ACK, b"")]);
        bench.settle_some();
        assert_eq!(segments(bench), []);
        peer
    }

    fn segment(&self, flags: Flags, payload: &[u8]) -> Vec<u8> {
        let (source, destination) = (self.port, PORT);
        let header = Header {
            source,
            destination,
            seq: self.seq,
            ack: self.ack,
            flags,
            window: 60_000,
            ..Header::default()
        };
        tcp(header, payload)
    }

    fn says(&mut self, text: &[u8]) -> Vec<u8> {
        let frame = self.segment(Flags::ACK | Flags::PSH, text);
        self.seq += text.len() as u32;
        frame
    }

    /// Returns the segment in which the host acknowledges all that the peer has sent, along with `text`.
    fn hears(&self, text: &[u8]) -> Heard {
        Heard { port: self.port, ack: self.seq, flags: Flags::ACK, text: text.to_vec() }
    }
}

/// A segment that the host has sent.
#[derive(Debug, PartialEq, Eq)]
struct Heard {
    port: u16,
    ack: SeqNumber,
    /// Without PSH.
    flags: Flags,
    text: Vec<u8>,
}

fn parse(frame: &[u8]) -> Option<Segment<'_>> {
    (frame[12..14] == [8, 0] && frame[23] == 6).then(|| {
        let packet = Ipv4Packet::new_checked(&frame[14..]).unwrap();
        Segment::parse(packet.payload(), HOST, PEER, tcp::Ecn::NotCapable).unwrap()
    })
}

fn segments(bench: &mut Bench) -> Vec<Heard> {
    let frames = bench.sent();
    let heard = |segment: Segment<'_>| Heard {
        port: segment.header.destination,
        ack: segment.header.ack,
        flags: segment.header.flags.without(Flags::PSH),
        text: segment.payload.concat(),
    };
    frames.iter().filter_map(|frame| parse(frame)).map(heard).collect()
}

/// Creates a host whose program has accepted a connection, and the connection's other end.
fn connected(config: Config, then: Then) -> (Bench, Peer, Arc<Seen>, ProcessId) {
    let mut bench = Bench::new(config);
    bench.host.set_neighbor(InterfaceId(0), PEER.into(), PEER_MAC, bench.now).unwrap();
    let seen = Arc::<Seen>::default();
    let server = Server { then, connected: false, elsewhere: None, seen: Arc::clone(&seen) };
    let process = bench.host.spawn("server", 0, Box::new(server));
    bench.settle_some();
    bench.sent();
    let peer = Peer::connect(&mut bench, 4_000);
    (bench, peer, seen, process)
}

/// Runs the next work item, and returns its level.
fn unit(bench: &mut Bench) -> Level {
    let before = bench.units;
    assert!(bench.unit(), "there is something to do");
    Level::ALL.into_iter().find(|&level| bench.at(level) > before[level as usize]).unwrap()
}

/// Sends the host a segment, and runs units until its protocol processing is done: the last of them.
fn process(bench: &mut Bench, segment: Vec<u8>) {
    let before = bench.done(Work::Segment);
    bench.send(&[segment]);
    while bench.done(Work::Segment) == before {
        unit(bench);
    }
}

/// Returns a frame that is work only for the device driver: it is for another station.
fn stray() -> Vec<u8> {
    udp_to(EthernetAddress([2, 0, 0, 0, 0, 77]), HOST, 1, b"")
}

#[test]
fn an_acknowledgment_waits_through_polls_and_leaves_with_the_answer() {
    let polled = [Level::Interrupt, Level::PollingThread];
    let cases = [(DeviceWork::Polled, &polled[..]), (DeviceWork::Interrupt, &polled[..1])];
    for (device_work, levels) in cases {
        let (mut bench, mut peer, seen, _) =
            connected(config(Architecture::SoftLrp, device_work), Then::Listens);
        process(&mut bench, peer.says(b"request"));
        assert_eq!(segments(&mut bench), [], "{device_work:?}");
        bench.send(&[stray()]);
        for &level in levels {
            assert_eq!(unit(&mut bench), level);
            assert_eq!((seen.count(), segments(&mut bench)), (0, vec![]), "{device_work:?}, {level:?}");
        }
        assert_eq!((unit(&mut bench), seen.count()), (Level::Process, 1));
        assert_eq!(segments(&mut bench), [peer.hears(b"!")], "{device_work:?}");
        bench.settle_some();
        assert_eq!(segments(&mut bench), []);
    }
}

#[test]
fn it_waits_through_further_protocol_processing_and_one_answer_acknowledges_all() {
    for config in lazy() {
        let architecture = config.architecture;
        let (mut bench, mut peer, seen, _) = connected(config, Then::Listens);
        process(&mut bench, peer.says(b"first half, "));
        process(&mut bench, peer.says(b"second half"));
        assert_eq!((seen.count(), segments(&mut bench)), (0, vec![]), "{architecture}");
        assert_eq!(unit(&mut bench), Level::Process);
        assert_eq!(segments(&mut bench), [peer.hears(b"!")], "{architecture}");
        assert_eq!(*seen.payloads.lock().unwrap(), [b"first half, second half"]);
        bench.settle_some();
        assert_eq!(segments(&mut bench), []);
    }
}

#[test]
fn those_of_several_connections_wait_for_the_same_step() {
    for config in lazy() {
        let architecture = config.architecture;
        let (mut bench, mut one, seen, _) = connected(config, Then::Listens);
        let mut other = Peer::connect(&mut bench, 4_001);
        process(&mut bench, one.says(b"request"));
        process(&mut bench, other.says(b"another"));
        assert_eq!((seen.count(), segments(&mut bench)), (0, vec![]), "{architecture}");
        assert_eq!(unit(&mut bench), Level::Process);
        assert_eq!(segments(&mut bench), [one.hears(b"!"), other.hears(b"!")], "{architecture}");
        bench.settle_some();
        assert_eq!(segments(&mut bench), []);
    }
}

#[test]
fn after_eight_units_without_the_program_it_leaves_alone() {
    for device_work in [DeviceWork::Polled, DeviceWork::Interrupt] {
        let (mut bench, mut peer, seen, _) =
            connected(config(Architecture::SoftLrp, device_work), Then::Listens);
        process(&mut bench, peer.says(b"request"));
        for held in 1..=UNITS_HELD {
            assert_eq!(segments(&mut bench), [], "{device_work:?}, after {held} units");
            bench.send(&[stray()]);
            assert!(unit(&mut bench) < Level::Process);
        }
        assert_eq!(segments(&mut bench), [peer.hears(b"")], "{device_work:?}");
        assert_eq!(seen.count(), 0);
        // The answer comes when it comes.
        bench.settle_some();
        assert_eq!(segments(&mut bench), [peer.hears(b"!")], "{device_work:?}");
    }
}

/// Whenever a segment has been processed, the next one comes, and is processed before the program has its
/// step.
#[test]
fn so_it_does_after_eight_units_of_further_protocol_processing() {
    for config in lazy() {
        let architecture = config.architecture;
        let (mut bench, mut peer, seen, _) = connected(config, Then::Listens);
        let (first, before) = (peer.seq, bench.done(Work::Segment));
        let processed = |bench: &Bench| (bench.done(Work::Segment) - before) as u32;
        process(&mut bench, peer.says(b"x"));
        for held in 1..=UNITS_HELD {
            assert_eq!(segments(&mut bench), [], "{architecture}, after {held} units");
            if first + processed(&bench) == peer.seq {
                bench.send(&[peer.says(b"x")]);
            }
            unit(&mut bench);
        }
        let processed = processed(&bench);
        assert!(processed > 2, "{architecture}: {processed}");
        let heard = Heard { ack: first + processed, ..peer.hears(b"") };
        assert_eq!((segments(&mut bench), seen.count()), (vec![heard], 0), "{architecture}");
        bench.settle_some();
        // What came last was for a program that was awake, and so did not wait.
        assert_eq!(segments(&mut bench).pop(), Some(peer.hears(b"!")), "{architecture}");
    }
}

/// A datagram wakes another program, which has used less of the core, so that it comes first, and computes
/// for long.
#[test]
fn it_waits_for_no_other_program() {
    for config in lazy() {
        let architecture = config.architecture;
        let (mut bench, mut peer, seen, _) = connected(config, Then::Listens);
        let (mut other, received) = Sink::new(OTHER);
        other.compute = UNIT * 1_000;
        bench.host.spawn("other", -20, Box::new(other));
        bench.settle_some();
        process(&mut bench, peer.says(b"request"));
        bench.send(&[udp(OTHER, b"")]);
        while received.count() == 0 {
            assert_eq!(segments(&mut bench), [], "{architecture}");
            unit(&mut bench);
        }
        assert_eq!(seen.count(), 0);
        assert_eq!(segments(&mut bench), [peer.hears(b"")], "{architecture}");
        bench.settle_some();
        assert_eq!(segments(&mut bench), [peer.hears(b"!")], "{architecture}");
    }
}

/// Data that arrived for a killed program will not be read, so the peer gets a reset at once (RFC 9293,
/// 3.10.7.1), even if no work item follows.
#[test]
fn it_does_not_wait_for_a_program_that_is_killed() {
    for config in lazy() {
        let architecture = config.architecture;
        let (mut bench, mut peer, _, server) = connected(config, Then::Listens);
        process(&mut bench, peer.says(b"request"));
        assert_eq!(segments(&mut bench), [], "{architecture}");
        bench.host.kill(server, bench.now);
        let heard = segments(&mut bench);
        assert!(matches!(&heard[..], [only] if only.flags.contains(Flags::RST)), "{architecture}: {heard:?}");
        bench.settle_some();
        assert_eq!(segments(&mut bench), []);
    }
}

/// A program that sleeps for something else, or does not sleep, may read its stream much later.
#[test]
fn nothing_waits_for_a_program_that_was_not_woken() {
    for then in [Then::WaitsElsewhere, Then::Naps, Then::Computes] {
        for config in lazy() {
            let architecture = config.architecture;
            let (mut bench, mut peer, seen, _) = connected(config, then);
            process(&mut bench, peer.says(b"request"));
            assert_eq!(seen.count(), 0);
            assert_eq!(segments(&mut bench), [peer.hears(b"")], "{architecture}, {then:?}");
        }
    }
}

/// Under an eager architecture a segment's process is not known when the segment is processed.
#[test]
fn nothing_waits_where_protocol_processing_is_eager() {
    for architecture in [Architecture::Eager, Architecture::EarlyDemux, Architecture::Polled] {
        let (mut bench, mut peer, seen, _) =
            connected(config(architecture, DeviceWork::Polled), Then::Listens);
        process(&mut bench, peer.says(b"request"));
        assert_eq!(segments(&mut bench), [peer.hears(b"")], "{architecture}");
        assert_eq!(seen.count(), 0);
        bench.settle_some();
        assert_eq!(segments(&mut bench), [peer.hears(b"!")], "{architecture}");
    }
}
