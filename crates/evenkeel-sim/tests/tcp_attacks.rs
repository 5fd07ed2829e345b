//! Tests of TCP under attack, in virtual time on a machine with costs, for every receive architecture. They
//! check the throughput of connections, the use of memory, and that an attacker's segments end no connection.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::Arc;

use evenkeel_core::host::{Config, Host, System};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::socket::{ConnectOptions, StreamError};
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::{EventQueue, TcpStream};
use evenkeel_core::tcp::state::State;
use evenkeel_core::tcp::{self, Counter, Flags, Header, ListenerConfig, SeqNumber};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpCidr, Ipv4Address};
use evenkeel_sim::machine::{Costs, Machine};
use evenkeel_sim::net::Conditions;
use evenkeel_sim::packet::{Station, arp_request, flood_syn, segment_frame};
use evenkeel_sim::rng::Rng;
use evenkeel_sim::streams::{StreamDummy, StreamEcho};
use evenkeel_sim::traffic::{Flow, Pattern};
use evenkeel_sim::web::{WebClient, WebServer};
use evenkeel_sim::workload::{Log, Tally};
use evenkeel_sim::world::{HostId, Port, SegmentId, World, hardware_address};

const SERVER: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const CLIENT: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
const ATTACKER: Ipv4Address = Ipv4Address::new(10, 0, 0, 200);
/// The port of the echo server that the measured connections use.
const ECHO: u16 = 7;
/// The port of another process with its own connections.
const OTHER_ECHO: u16 = 8;
/// The port of a listener that accepts no connection.
const DUMMY: u16 = 9;
const HTTP: u16 = 80;
/// The first local port of the connections to [`ECHO`]. [`OTHER_FROM`] is that of the connections to
/// [`OTHER_ECHO`].
const FROM: u16 = 40_000;
const OTHER_FROM: u16 = 41_000;
const CONNECTIONS: u16 = 8;

/// The start of an attack. The attacked connections are well established by then.
const ATTACK: Instant = Instant::from_millis(3_000);
const SETTLED: Instant = Instant::from_millis(5_000);
const END: Instant = Instant::from_millis(11_000);

/// The least share of their throughput that connections keep under the lazy architectures.
const KEPT: f64 = 0.9;

/// A program that opens connections, writes a message on each at every tick, and counts the bytes that come
/// back.
#[derive(Debug)]
struct Talk {
    to: IpEndpoint,
    from: u16,
    streams: Vec<TcpStream>,
    next: Instant,
    echoed: Tally,
    ended: Log<StreamError>,
}

/// The message of each connection at every tick: with eight of them a quarter of the machine's capacity.
const MESSAGE: [u8; 1_000] = [7; 1_000];
const TICK: Duration = Duration::from_millis(15);

impl Talk {
    fn new(port: u16, from: u16) -> (Self, Tally, Log<StreamError>) {
        let (echoed, ended) = (Tally::default(), Log::default());
        let to = IpEndpoint::new(SERVER.into(), port);
        let next = Instant::from_millis(100);
        (
            Self { to, from, streams: Vec::new(), next, echoed: echoed.clone(), ended: ended.clone() },
            echoed,
            ended,
        )
    }

    fn hear(&self, stream: TcpStream, system: &mut System<'_>) {
        let mut chunk = [0; 4_096];
        loop {
            match stream.read(system, &mut chunk) {
                // The bytes are counted in hundreds, rounded down: whole messages lose nothing by that.
                Ok(len) if len > 0 => (0..len / 100).for_each(|_| self.echoed.add_one()),
                Ok(_) => return self.ended.push(StreamError::Closed),
                Err(StreamError::WouldBlock) => return,
                Err(why) => return self.ended.push(why),
            }
        }
    }
}

fn connect_from(port: u16, to: IpEndpoint, system: &mut System<'_>) -> TcpStream {
    let options = ConnectOptions { port, ..ConnectOptions::default() };
    TcpStream::connect_with(system, to, &options).unwrap().0
}

impl Program for Talk {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = EventQueue::of_all(system).unwrap();
        if self.streams.is_empty() && system.now() >= Instant::from_millis(50) {
            for n in 0..CONNECTIONS {
                self.streams.push(connect_from(self.from + n, self.to, system));
            }
        }
        if system.now() >= self.next {
            self.next += TICK;
            for &stream in &self.streams {
                // Data without room is not sent, so the rate never exceeds the planned one.
                let _ = stream.write(system, &MESSAGE);
            }
        }
        match events.next(system) {
            Ok(event) => self.hear(TcpStream::of(&event), system),
            Err(_) => return Step::WaitUntil(events.fd(), self.next),
        }
        Step::Again
    }
}

/// Creates a listener without cookies that accepts no connection.
fn dummy() -> StreamDummy {
    let config = ListenerConfig { backlog: 5, syn_queue: 8, syn_cookies: false, ..ListenerConfig::default() };
    StreamDummy::new(DUMMY, config)
}

struct Bench {
    world: World,
    segment: SegmentId,
    server: HostId,
    client: HostId,
}

fn wire() -> Conditions {
    Conditions::wire(155_000_000, Duration::from_micros(20), 1_000)
}

/// Creates a bench whose server is a machine with costs, and whose client takes no time.
fn bench(architecture: Architecture, seed: u64, tune: impl FnOnce(&mut Config)) -> Bench {
    let mut world = World::new(seed);
    let segment = world.add_segment();
    let mut config =
        Config { device_work: DeviceWork::Interrupt, batch_pkts: 1, seed, ..Config::of(architecture) };
    if architecture == Architecture::Polled {
        config.device_work = DeviceWork::Polled;
    }
    tune(&mut config);
    let costs = Machine::built_in("sparcstation-20").unwrap().costs(architecture);
    let port =
        |address: Ipv4Address| Port::new(segment, IpCidr::new(address.into(), 24)).with_conditions(wire());
    let server = world.add_host(config, costs, &[port(SERVER)]).unwrap();
    // Its windows are small: a slow reader makes the sender keep the data.
    let mut free = Config { seed: seed ^ 1, ..Config::of(Architecture::Polled) };
    let small = tcp::Config {
        receive_buffer_initial: 8 << 10,
        receive_buffer_max: 8 << 10,
        ..tcp::Config::default()
    };
    free.tcp.connection = Arc::new(small);
    let client_port = Port { ring_pkts: 4_096, ..port(CLIENT) };
    let client = world.add_host(free, Costs::FREE, &[client_port]).unwrap();
    Bench { world, segment, server, client }
}

fn station(host: usize, address: Ipv4Address, port: u16) -> Station {
    Station { hardware: hardware_address(host, 0), address, port }
}

impl Bench {
    /// Sends frames from `make` to the server from the attack on. The attacker announces its address now and
    /// then, so that answers leave.
    fn attack(
        &mut self,
        rate_pps: u64,
        mut make: impl FnMut(u64, &mut Rng, Station, Station) -> Vec<u8> + Send + 'static,
    ) {
        let (from, to) = (station(200, ATTACKER, 1), station(0, SERVER, 1));
        let flow = Flow {
            from,
            to,
            payload_bytes: 0,
            rate_pps,
            pattern: Pattern::Poisson,
            start: ATTACK,
            stop: Instant::NEVER,
        };
        self.world.add_source_of(self.segment, flow, wire(), move |number, rng| {
            if number.is_multiple_of(10_000) {
                arp_request(from, SERVER)
            } else {
                make(number, rng, from, to)
            }
        });
    }

    fn syn_flood(&mut self, port: u16, rate_pps: u64) {
        self.attack(rate_pps, move |_, rng, from, to| flood_syn(from, Station { port, ..to }, rng));
    }

    /// Creates segments with the addresses and ports of live connections, and random numbers: resets,
    /// acknowledgments, SYNs, data, and any combination of flags.
    fn garbage(&mut self, port: u16, from_port: u16, rate_pps: u64) {
        self.attack(rate_pps, move |_, rng, _, to| {
            let flags = match rng.below(5) {
                0 => Flags::RST,
                1 => Flags::ACK,
                2 => Flags::SYN,
                3 => Flags::ACK | Flags::PSH,
                _ => Flags::RST | Flags::ACK,
            };
            let header = Header {
                seq: SeqNumber::new(rng.next_u64() as u32),
                ack: SeqNumber::new(rng.next_u64() as u32),
                flags,
                window: rng.next_u64() as u16,
                ..Header::default()
            };
            let source = station(1, CLIENT, from_port + rng.below(u64::from(CONNECTIONS)) as u16);
            let payload: &[u8] = if flags.contains(Flags::PSH) { &[0xee; 100] } else { b"" };
            segment_frame(source, Station { port, ..to }, header, payload)
        });
    }

    /// Adds data segments that acknowledge nothing, for connections that are closed or never were open.
    fn strays(&mut self, port: u16, from_port: u16, rate_pps: u64) {
        self.attack(rate_pps, move |_, rng, _, to| {
            let seq = SeqNumber::new(rng.next_u64() as u32);
            let header = Header { seq, flags: Flags::ACK, window: 1_000, ..Header::default() };
            let source = station(1, CLIENT, from_port + rng.below(u64::from(CONNECTIONS)) as u16);
            segment_frame(source, Station { port, ..to }, header, &[0xee; 100])
        });
    }

    fn talk(&mut self, port: u16, from: u16) -> (Tally, Log<StreamError>) {
        let config = ListenerConfig { syn_queue: 256, ..ListenerConfig::default() };
        self.world.host_mut(self.server).spawn("echo", 0, Box::new(StreamEcho::new(port, config).0));
        let (talk, echoed, ended) = Talk::new(port, from);
        self.world.host_mut(self.client).spawn("talk", 0, Box::new(talk));
        (echoed, ended)
    }

    fn server(&self) -> &Host {
        self.world.host(self.server)
    }

    /// Counts the echoed messages from `SETTLED` to `END`.
    fn measure(&mut self, echoed: &Tally) -> u64 {
        self.world.run_until(SETTLED);
        let before = echoed.get();
        self.world.run_until(END);
        echoed.get() - before
    }
}

const fn is_lazy(architecture: Architecture) -> bool {
    matches!(architecture, Architecture::SoftLrp | Architecture::NiLrp)
}

/// Checks that the memory of a host has not grown: its frames are those promised at the beginning, its
/// connections those that were opened.
fn bounded(host: &Host, frames: usize, connections: usize) {
    host.check().unwrap();
    assert_eq!(host.pool().1, frames, "frame buffers");
    assert!(host.tcp().len() <= connections, "{} connections", host.tcp().len());
    assert!(host.tcp().buffered() <= host.config().tcp.buffers);
}

/// Returns the share of an undisturbed run's throughput that is kept under an attack, and the bench for
/// further checks.
fn share_kept(architecture: Architecture, attack: impl Fn(&mut Bench)) -> (f64, Bench) {
    let run = |attacked: bool| {
        let mut bench = bench(architecture, 1, |_| {});
        bench.world.host_mut(bench.server).spawn("dummy", 0, Box::new(dummy()));
        let (echoed, ended) = bench.talk(ECHO, FROM);
        bench.world.run_until(Instant::from_millis(2_000));
        let frames = bench.server().pool().1;
        if attacked {
            attack(&mut bench);
        }
        let count = bench.measure(&echoed);
        assert_eq!(ended.take(), [], "{architecture}: no connection ends");
        bounded(bench.server(), frames, usize::from(CONNECTIONS));
        (count, bench)
    };
    let ((calm, _), (attacked, bench)) = (run(false), run(true));
    assert!(calm > 2_000, "{architecture}: {calm}");
    (attacked as f64 / calm as f64, bench)
}

#[test]
fn a_syn_flood_to_another_port_takes_nothing_from_connections_under_lrp_and_all_under_bsd() {
    for architecture in Architecture::ALL {
        let (kept, bench) = share_kept(architecture, |bench| bench.syn_flood(DUMMY, 14_000));
        println!("SYN flood to another port, {architecture}: {kept:.3} kept");
        if is_lazy(architecture) {
            assert!(kept >= KEPT, "{architecture}: {kept}");
        } else if architecture == Architecture::Eager {
            assert!(kept < 0.2, "{architecture}: {kept}");
        }
        let listener = bench.server().tcp().listeners().find(|listener| listener.at.port == DUMMY).unwrap();
        assert_eq!((listener.half_open, listener.to_accept), (8, 0), "{architecture}: {listener:?}");
        if is_lazy(architecture) {
            let dropped = bench.server().tcp_counters().get(Counter::ReqQFullDrop);
            assert_eq!(dropped, 0, "{architecture}: they die before TCP");
        }
    }
}

#[test]
fn a_syn_flood_to_their_own_port_takes_nothing_from_connections_under_lrp() {
    for architecture in Architecture::ALL {
        let (kept, bench) = share_kept(architecture, |bench| bench.syn_flood(ECHO, 14_000));
        println!("SYN flood to the same port, {architecture}: {kept:.3} kept");
        if is_lazy(architecture) {
            assert!(kept >= KEPT, "{architecture}: {kept}");
        } else if architecture == Architecture::Eager {
            assert!(kept < 0.2, "{architecture}: {kept}");
        }
        let counters = bench.server().tcp_counters();
        assert!(
            counters.get(Counter::SyncookiesSent) > 1_000,
            "{architecture}: cookies stand in for half-open connections"
        );
        let listener = bench.server().tcp().listeners().find(|listener| listener.at.port == ECHO).unwrap();
        assert!(listener.half_open <= 256, "{architecture}: {listener:?}");
    }
}

#[test]
fn garbage_aimed_at_connections_ends_none_and_costs_little() {
    for architecture in Architecture::ALL {
        let (kept, bench) = share_kept(architecture, |bench| bench.garbage(ECHO, FROM, 4_000));
        println!("garbage to connections, {architecture}: {kept:.3} kept");
        assert!(kept >= KEPT, "{architecture}: {kept}");
        let counters = bench.server().tcp_counters();
        assert_eq!(counters.get(Counter::EstabResets), 0, "{architecture}");
        // Challenge ACKs are limited for each connection (RFC 5961, 7).
        let challenges = counters.get(Counter::ChallengeAck);
        let most = u64::from(CONNECTIONS) * 10 * (1 + END.since(ATTACK).as_secs() / 5);
        assert!((1..=most).contains(&challenges), "{architecture}: {challenges}");
    }
}

/// The garbage exceeds the machine's capacity: its target may suffer, but others must not.
#[test]
fn a_flood_of_garbage_takes_nothing_from_the_connections_of_others_under_lrp() {
    for architecture in Architecture::ALL {
        let run = |attacked: bool| {
            let mut bench = bench(architecture, 2, |_| {});
            let (_, victims) = bench.talk(ECHO, FROM);
            let (echoed, others) = bench.talk(OTHER_ECHO, OTHER_FROM);
            bench.world.run_until(Instant::from_millis(2_000));
            let frames = bench.server().pool().1;
            if attacked {
                bench.garbage(ECHO, FROM, 18_000);
            }
            let count = bench.measure(&echoed);
            assert_eq!(
                (victims.take(), others.take()),
                (vec![], vec![]),
                "{architecture}: no connection ends"
            );
            bounded(bench.server(), frames, 2 * usize::from(CONNECTIONS));
            count as f64
        };
        let kept = run(true) / run(false);
        println!("garbage to others' connections, {architecture}: {kept:.3} kept");
        if is_lazy(architecture) {
            assert!(kept >= KEPT, "{architecture}: {kept}");
        } else if architecture == Architecture::Eager {
            assert!(kept < 0.2, "{architecture}: {kept}");
        }
    }
}

/// A program that fetches a document over each of some connections, then over a new one at every tick.
#[derive(Debug)]
struct Visits {
    to: IpEndpoint,
    port: u16,
    next: Instant,
    fetched: Tally,
}

impl Program for Visits {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = EventQueue::of_all(system).unwrap();
        if system.now() >= self.next {
            let stream = connect_from(self.port, self.to, system);
            let _ = stream.write(system, b"GET / HTTP/1.0\r\n\r\n");
            self.port += 1;
            self.next = if self.port < FROM + CONNECTIONS { self.next } else { self.next + TICK };
        }
        match events.next(system) {
            Ok(event) => {
                let stream = TcpStream::of(&event);
                while stream.read(system, &mut [0; 4_096]).is_ok_and(|len| len > 0) {}
                if stream.info(system).is_ok_and(|(_, info)| info.state == State::CloseWait) {
                    self.fetched.add_one();
                    system.close(stream);
                }
            }
            Err(_) => return Step::WaitUntil(events.fd(), self.next),
        }
        Step::Again
    }
}

/// The results of [`Visits`].
struct Visited {
    /// The number of documents fetched.
    fetched: f64,
    /// The CPU time charged to the server's process.
    paid: Duration,
    bench: Bench,
}

fn visit(architecture: Architecture, attack: impl FnOnce(&mut Bench)) -> Visited {
    visit_with(architecture, |_| {}, attack)
}

fn visit_with(
    architecture: Architecture,
    tune: impl FnOnce(&mut Config),
    attack: impl FnOnce(&mut Bench),
) -> Visited {
    let mut bench = bench(architecture, 4, tune);
    let (server, _) = WebServer::new(HTTP, ListenerConfig::default(), 1_300, Duration::ZERO);
    let process = bench.world.host_mut(bench.server).spawn("httpd", 0, Box::new(server));
    let fetched = Tally::default();
    let (to, next) = (IpEndpoint::new(SERVER.into(), HTTP), Instant::from_millis(50));
    let visits = Visits { to, port: FROM, next, fetched: fetched.clone() };
    bench.world.host_mut(bench.client).spawn("visits", 0, Box::new(visits));
    bench.world.run_until(Instant::from_millis(2_000));
    assert!(bench.server().tcp().waiting() > usize::from(CONNECTIONS), "the server closes first");
    let frames = bench.server().pool().1;
    attack(&mut bench);
    let fetched = bench.measure(&fetched) as f64;
    let host = bench.server();
    host.check().unwrap();
    assert_eq!(host.pool().1, frames, "frame buffers");
    Visited { fetched, paid: host.bill(process).unwrap().used, bench }
}

/// Connections in TIME-WAIT are unowned: the daemon pays for their segments, and not the processes that
/// later have connections from the same port.
#[test]
fn a_flood_for_connections_in_time_wait_leaves_new_ones_alone() {
    let calm = visit(Architecture::SoftLrp, |_| {});
    let Visited { fetched, paid, bench } =
        visit(Architecture::SoftLrp, |bench| bench.strays(HTTP, FROM, 14_000));
    assert!(calm.fetched > 300.0, "{}", calm.fetched);
    let kept = fetched / calm.fetched;
    println!(
        "a flood for connections in TIME-WAIT: {kept:.3} kept, {paid:?} paid instead of {:?}",
        calm.paid
    );
    assert!(kept >= KEPT, "{kept}");
    let skipped = bench.server().tcp_counters().get(Counter::AckSkippedTimeWait);
    assert!(skipped > 1_000, "{skipped}: they are what was flooded");
    let daemon = bench.server().processes().find(|(_, name, _)| *name == "icmpd").unwrap().2.used;
    assert!(
        paid < calm.paid * 3 / 2 && daemon > calm.paid,
        "{paid:?} instead of {:?}, {daemon:?} by the daemon",
        calm.paid
    );
}

/// Each segment gets a reset here; the rate limit of resets is enough for an eager host at this rate.
#[test]
fn a_flood_of_acknowledgments_to_a_listening_port_leaves_new_connections_alone_under_lrp() {
    let flood = |bench: &mut Bench| bench.strays(HTTP, OTHER_FROM, 14_000);
    for architecture in Architecture::ALL {
        let unlimited = |config: &mut Config| config.tcp.resets_per_s = 1_000_000;
        let calm = visit(architecture, |_| {}).fetched;
        let kept = visit_with(architecture, unlimited, flood).fetched / calm;
        println!("acknowledgments to a listening port, {architecture}: {kept:.3} kept");
        if is_lazy(architecture) {
            assert!(kept >= KEPT, "{architecture}: {kept}");
        } else if architecture == Architecture::Eager {
            assert!(kept < 0.2, "{architecture}: {kept}");
            let kept = visit(architecture, flood).fetched / calm;
            assert!(kept > 0.9, "{architecture}, resets with a rate limit: {kept}");
        }
    }
}

/// A program that requests documents on many connections and reads nothing.
#[derive(Debug)]
struct SlowReaders {
    to: IpEndpoint,
    left: usize,
    open: Vec<TcpStream>,
}

impl Program for SlowReaders {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = EventQueue::of_all(system).unwrap();
        if self.left > 0 {
            self.left -= 1;
            let stream = TcpStream::connect(system, self.to).unwrap();
            let _ = stream.write(system, b"GET / HTTP/1.0\r\n\r\n");
            self.open.push(stream);
            return Step::Sleep(system.now() + Duration::from_micros(1_000));
        }
        while events.next(system).is_ok() {}
        Step::Wait(events.fd())
    }
}

/// The bound of all buffers. The document, for all clients that do not read it, is a gigabyte in all.
const BUFFERS: usize = 8 << 20;
const DOCUMENT: usize = 512 << 10;
const READERS: usize = 2_000;

#[test]
fn thousands_of_slow_readers_hold_bounded_memory_and_nobody_up() {
    for architecture in Architecture::ALL {
        let run = |readers: usize| {
            let mut bench = bench(architecture, 3, |config| config.tcp.buffers = BUFFERS);
            let host = bench.world.host_mut(bench.server);
            let config = ListenerConfig::default();
            host.spawn("slow-httpd", 0, Box::new(WebServer::new(HTTP, config, DOCUMENT, Duration::ZERO).0));
            host.spawn(
                "httpd",
                0,
                Box::new(WebServer::new(HTTP + 1, config, 1_300, Duration::from_millis(2)).0),
            );
            let to = |port| IpEndpoint::new(SERVER.into(), port);
            let (client, counts) = WebClient::new(to(HTTP + 1), 1_300);
            let host = bench.world.host_mut(bench.client);
            host.spawn("client", 0, Box::new(client));
            host.spawn("slow", 0, Box::new(SlowReaders { to: to(HTTP), left: readers, open: Vec::new() }));
            bench.world.run_until(Instant::from_millis(15_000));
            let before = counts.fetched.get();
            bench.world.run_until(Instant::from_millis(25_000));
            let server = bench.server();
            server.check().unwrap();
            let held = server.tcp().len();
            assert!(held >= readers, "{architecture}: all are connected, {held}");
            // The bound allows two segments for each connection, and one growth of a buffer.
            let most = BUFFERS + held * 2 * 1_460 + (64 << 10);
            assert!(server.tcp().buffered() <= most, "{architecture}: {} bytes", server.tcp().buffered());
            println!("{readers} slow readers, {architecture}: {} bytes", server.tcp().buffered());
            assert_eq!(counts.failed.get(), 0, "{architecture}");
            ((counts.fetched.get() - before) as f64, server.pool().1)
        };
        let ((calm, frames), (fetched, frames_with)) = (run(0), run(READERS));
        // Frames wait only in the queues of adaptors that demultiplex, which have a number of them for
        // connections.
        let Config { connection_rings, channel_pkts, .. } = Config::of(architecture);
        let rings = if architecture == Architecture::NiLrp { connection_rings * channel_pkts } else { 0 };
        assert!(frames_with <= frames + rings, "{architecture}: {frames_with} frame buffers");
        let kept = fetched / calm;
        println!("slow readers, {architecture}: {kept:.3} kept");
        assert!(kept >= KEPT, "{architecture}: {kept}");
    }
}
