//! Tests of TCP between whole hosts, in virtual time, under every receive architecture.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use evenkeel_core::host::{Config, Host, System};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::{ConnectError, ConnectOptions, StreamError};
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::TcpStream;
use evenkeel_core::tcp::{Counter, ListenerConfig};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr};
use evenkeel_sim::machine::Costs;
use evenkeel_sim::net::Conditions;
use evenkeel_sim::streams::{Outcome, StreamClient, StreamEcho};
use evenkeel_sim::workload::Log;
use evenkeel_sim::world::{HostId, Port, World};

const PORT: u16 = 7;

fn cidr(last: u8, v6: bool) -> IpCidr {
    if v6 {
        IpCidr::new(IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)), 64)
    } else {
        IpCidr::new(IpAddress::v4(10, 0, 0, last), 24)
    }
}

struct Pair {
    world: World,
    server: HostId,
    client: HostId,
    to: IpEndpoint,
}

fn pair(architecture: Architecture, conditions: Conditions, v6: bool, seed: u64) -> Pair {
    let mut world = World::new(seed);
    let segment = world.add_segment();
    let mut host = |last, seed| {
        let config = Config { seed, ..Config::of(architecture) };
        // Wires without a rate deliver whole windows at once.
        let port = Port { ring_pkts: 4096, ..Port::new(segment, cidr(last, v6)).with_conditions(conditions) };
        world.add_host(config, Costs::FREE, &[port]).unwrap()
    };
    let (client, server) = (host(1, seed ^ 1), host(2, seed ^ 2));
    Pair { world, server, client, to: IpEndpoint::new(cidr(2, v6).address(), PORT) }
}

fn settled(host: &Host) {
    host.check().unwrap();
    assert!(host.tcp().is_empty(), "{:?}", host.tcp());
    assert_eq!(host.segments_waiting(), 0);
}

#[test]
fn what_is_sent_comes_back_under_every_architecture() {
    for architecture in Architecture::ALL {
        for v6 in [false, true] {
            let wire = Conditions { delay: Duration::from_micros(50), ..Conditions::PERFECT };
            let Pair { mut world, server, client, to } = pair(architecture, wire, v6, 1);
            let (echo, accepted) = StreamEcho::new(PORT, ListenerConfig::default());
            world.host_mut(server).spawn("echo", 0, Box::new(echo));
            world.run_until(Instant::from_millis(10));
            let (asks, outcomes) = StreamClient::new(to, 20, 4, 100_000);
            world.host_mut(client).spawn("client", 0, Box::new(asks));
            world.run_until(Instant::from_millis(70_000));
            assert_eq!(outcomes.take(), [Outcome::Echoed; 20], "{architecture} v6 {v6}");
            assert_eq!(accepted.get(), 20);
            settled(world.host(server));
            settled(world.host(client));
            // If a connection gets its own ring after its first segments, those may arrive out of order.
            let again = world.host(client).tcp_counters().get(Counter::RetransSegs);
            assert!(
                again <= if architecture == Architecture::NiLrp { 20 } else { 0 },
                "{architecture}: {again}"
            );
            assert_eq!(world.host(client).tcp().waiting(), 0);
        }
    }
}

/// A client that requests once it is connected, and closes with the answer.
#[derive(Debug)]
struct Patient {
    to: IpEndpoint,
    stream: Option<TcpStream>,
    asked: bool,
}

impl Program for Patient {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(stream) = self.stream else {
            let stream = TcpStream::connect(system, self.to).unwrap();
            self.stream = Some(stream);
            return Step::Wait(stream.fd());
        };
        if !core::mem::replace(&mut self.asked, true) {
            stream.write(system, b"?").unwrap();
        }
        match stream.read(system, &mut [0; 10]) {
            Err(StreamError::WouldBlock) => Step::Wait(stream.fd()),
            answer => {
                assert_eq!(answer, Ok(1));
                system.close(stream);
                Step::Exit
            }
        }
    }
}

/// Under the lazy architectures a process does its own protocol processing, and so knows that its program is
/// about to answer. The last ACK of a handshake goes with the first data, and that of a FIN with the FIN of a
/// program that closes, too.
#[test]
fn acknowledgments_go_with_what_the_program_says_to_what_came() {
    for architecture in Architecture::ALL {
        let wire = Conditions { delay: Duration::from_micros(50), ..Conditions::PERFECT };
        let Pair { mut world, server, client, to } = pair(architecture, wire, false, 1);
        let (echo, _) = StreamEcho::new(PORT, ListenerConfig::default());
        world.host_mut(server).spawn("echo", 0, Box::new(echo));
        world.run_until(Instant::from_millis(10));
        let asks = Patient { to, stream: None, asked: false };
        world.host_mut(client).spawn("client", 0, Box::new(asks));
        world.run_until(Instant::from_millis(70_000));
        let sent = [client, server].map(|host| world.host(host).tcp_counters().get(Counter::OutSegs));
        let lazy = matches!(architecture, Architecture::SoftLrp | Architecture::NiLrp);
        assert_eq!(sent, if lazy { [4, 3] } else { [5, 4] }, "{architecture}");
    }
}

/// A client that requests over one connection after the other, with data from the first segment on, and
/// records the time of each answer.
#[derive(Debug)]
struct Eager {
    to: IpEndpoint,
    left: usize,
    asking: Option<(TcpStream, Instant, usize)>,
    took: Log<Duration>,
}

const QUESTION: &[u8] = b"something that may be heard twice";

impl Program for Eager {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some((stream, since, mut back)) = self.asking else {
            if self.left == 0 {
                return Step::Exit;
            }
            self.left -= 1;
            let options = ConnectOptions { data: Some(QUESTION), ..ConnectOptions::default() };
            let (stream, taken) = TcpStream::connect_with(system, self.to, &options).unwrap();
            assert_eq!(taken, QUESTION.len());
            self.asking = Some((stream, system.now(), 0));
            return Step::Again;
        };
        let mut room = [0; 100];
        match stream.read(system, &mut room) {
            Ok(len) => back += len,
            Err(StreamError::WouldBlock) => return Step::Wait(stream.fd()),
            Err(why) => panic!("{why}"),
        }
        self.asking = Some((stream, since, back));
        if back == QUESTION.len() {
            self.took.push(system.now().since(since));
            system.close(stream);
            self.asking = None;
        }
        Step::Again
    }
}

#[test]
fn with_a_cookie_a_connection_saves_a_round_trip() {
    for architecture in Architecture::ALL {
        let wire = Conditions { delay: Duration::from_millis(10), ..Conditions::PERFECT };
        let Pair { mut world, server, client, to } = pair(architecture, wire, false, 1);
        let (echo, _) = StreamEcho::new(PORT, ListenerConfig { fast_open: 16, ..ListenerConfig::default() });
        world.host_mut(server).spawn("echo", 0, Box::new(echo));
        world.run_until(Instant::from_millis(10));
        let took = Log::default();
        let eager = Eager { to, left: 4, asking: None, took: took.clone() };
        world.host_mut(client).spawn("client", 0, Box::new(eager));
        world.run_until(Instant::from_millis(100_000));
        let millis: Vec<_> = took.take().into_iter().map(|took| took.as_millis()).collect();
        // A round trip is 40 ms, two switches included. The first request needs one for ARP, one for the
        // handshake and one for the answer.
        assert_eq!(millis, [120, 40, 40, 40], "{architecture}");
        let counters = world.host(client).tcp_counters();
        assert_eq!(counters.get(Counter::FastOpenActive), 3, "{architecture}");
        settled(world.host(server));
        settled(world.host(client));
    }
}

/// A client that tries to open a connection, and records the result.
#[derive(Debug)]
struct Tries {
    to: IpEndpoint,
    has_tried: bool,
    answer: Log<Option<ConnectError>>,
}

impl Program for Tries {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        if std::mem::replace(&mut self.has_tried, true) {
            return Step::Exit;
        }
        self.answer.push(TcpStream::connect(system, self.to).err());
        Step::Sleep(system.now() + Duration::from_millis(10))
    }
}

#[test]
fn a_connection_that_the_memory_limit_leaves_no_buffers_for_is_refused_at_once() {
    let room = 4_096;
    for architecture in Architecture::ALL {
        for segment_pkts in [room / 4, room] {
            let mut world = World::new(1);
            let segment = world.add_segment();
            let config = Config { memory_pkts: room, segment_pkts, ..Config::of(architecture) };
            let port = Port::new(segment, cidr(1, false));
            let client = world.add_host(config, Costs::FREE, &[port]).unwrap();
            let answer = Log::default();
            let to = IpEndpoint::new(cidr(2, false).address(), PORT);
            world.host_mut(client).spawn(
                "tries",
                0,
                Box::new(Tries { to, has_tried: false, answer: answer.clone() }),
            );
            world.run_until(Instant::from_millis(1));
            // Otherwise segments wait in queues and rings that exist anyway.
            let needs_them = architecture == Architecture::SoftLrp;
            let refused = (needs_them && segment_pkts == room).then_some(ConnectError::Full);
            assert_eq!(answer.take(), [refused], "{architecture}, {segment_pkts}");
            assert_eq!(world.host(client).tcp().is_empty(), refused.is_some(), "{architecture}");
            world.run_until(Instant::from_millis(1_000_000));
            settled(world.host(client));
        }
    }
}
