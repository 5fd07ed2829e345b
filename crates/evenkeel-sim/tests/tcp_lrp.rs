//! Tests of TCP under the lazy architectures: which process handles segments and pays for them, and the
//! places where the excess ends (OSDI 1996, sections 3.4 and 3.5).
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use evenkeel_core::host::{Config, Host, System};
use evenkeel_core::process::{ProcessId, Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::{SocketId, StreamError};
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::{TcpListener, TcpStream};
use evenkeel_core::tcp::{Counter, ListenerConfig};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr};
use evenkeel_sim::machine::{Costs, Machine};
use evenkeel_sim::net::Conditions;
use evenkeel_sim::streams::{Outcome, StreamClient, StreamEcho};
use evenkeel_sim::workload::{Log, Tally};
use evenkeel_sim::world::{HostId, Port, World};

const PORT: u16 = 7;
const LAZY: [Architecture; 2] = [Architecture::SoftLrp, Architecture::NiLrp];

fn cidr(last: u8) -> IpCidr {
    IpCidr::new(IpAddress::v4(10, 0, 0, last), 24)
}

fn server() -> IpEndpoint {
    IpEndpoint::new(cidr(2).address(), PORT)
}

/// Creates a client and a server on one segment, with rings that hold whole windows.
fn pair(config: &Config, costs: Costs, conditions: Conditions) -> (World, HostId, HostId) {
    let mut world = World::new(config.seed);
    let segment = world.add_segment();
    let mut host = |last: u8, costs| {
        let config = Config { seed: config.seed ^ u64::from(last), ..config.clone() };
        let port = Port { ring_pkts: 1024, ..Port::new(segment, cidr(last)).with_conditions(conditions) };
        world.add_host(config, costs, &[port]).unwrap()
    };
    let (client, server) = (host(1, Costs::FREE), host(2, costs));
    (world, client, server)
}

const LAN: Conditions = Conditions { delay: Duration::from_micros(50), ..Conditions::PERFECT };

fn spawn(world: &mut World, host: HostId, program: impl Program + 'static) -> ProcessId {
    world.host_mut(host).spawn("program", 0, Box::new(program))
}

/// A listener that accepts no connection before a given time.
#[derive(Debug)]
struct Late {
    from: Instant,
    backlog: usize,
    listener: Option<TcpListener>,
    accepted: Tally,
}

impl Program for Late {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let config = ListenerConfig { backlog: self.backlog, ..ListenerConfig::default() };
        let listener =
            *self.listener.get_or_insert_with(|| TcpListener::listen(system, None, PORT, &config).unwrap());
        if system.now() < self.from {
            return Step::Sleep(self.from);
        }
        let Ok((stream, _)) = listener.accept(system) else { return Step::Wait(listener.fd()) };
        self.accepted.add_one();
        system.close(stream);
        Step::Again
    }
}

fn listener_of(host: &Host, process: ProcessId) -> SocketId {
    host.sockets_of(process)[0]
}

#[test]
fn while_the_accept_queue_is_full_syns_die_in_their_channel_and_none_is_forgotten_after() {
    for architecture in LAZY {
        let (mut world, client, server_host) = pair(&Config::of(architecture), Costs::FREE, LAN);
        let accepted = Tally::default();
        let late = Late {
            from: Instant::from_millis(3_000),
            backlog: 8,
            listener: None,
            accepted: accepted.clone(),
        };
        let process = spawn(&mut world, server_host, late);
        world.run_until(Instant::from_millis(10));
        let (asks, outcomes) = StreamClient::new(server(), 400, 400, 1);
        spawn(&mut world, client, asks);
        world.run_until(Instant::from_millis(2_900));
        let host = world.host(server_host);
        let channel = host.channel_counters(listener_of(host, process)).unwrap();
        assert_eq!(host.tcp().len(), 8, "{architecture}: the backlog");
        // 64 of the SYNs arrived at once, as many as ARP lets wait, before any handshake could end. Of the
        // SYNs that found the queue full, 128 wait in the channel, and the rest was dropped there: TCP has
        // seen none of them.
        assert_eq!(host.tcp_counters().get(Counter::PassiveOpens), 64, "{architecture}");
        assert_eq!(channel.discarded, 400 - 64 - 128, "{architecture}: {channel:?}");
        // They are accepted as soon as there is room; dropped ones are accepted as soon as they are repeated.
        world.run_until(Instant::from_millis(200_000));
        // (A handshake that found the queue full may be given up before its last ACK is repeated often
        // enough.)
        assert!(accepted.get() >= 400 - 56, "{architecture}: {}", accepted.get());
        assert_eq!(outcomes.take().len(), 400);
        assert!(world.host(server_host).tcp().is_empty());
        world.host(server_host).check().unwrap();
    }
}

/// A program that accepts one connection, then computes for a long time between two reads.
#[derive(Debug)]
struct Busy {
    listener: Option<TcpListener>,
    stream: Option<TcpStream>,
    computes: Duration,
    /// Whether it has read. The next part is a separate step, because a step's data leaves at its end.
    has_read: bool,
    read: Log<(Instant, usize)>,
}

impl Program for Busy {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        if core::mem::take(&mut self.has_read) {
            system.compute(self.computes);
            return Step::Again;
        }
        let config = ListenerConfig::default();
        let listener =
            *self.listener.get_or_insert_with(|| TcpListener::listen(system, None, PORT, &config).unwrap());
        let Some(stream) = self.stream else {
            let Ok((stream, _)) = listener.accept(system) else { return Step::Wait(listener.fd()) };
            self.stream = Some(stream);
            return Step::Again;
        };
        let mut room = vec![0; 1 << 20];
        match stream.read(system, &mut room) {
            Ok(0) => return Step::Exit,
            Ok(len) => self.read.push((system.now(), len)),
            Err(StreamError::WouldBlock) => return Step::Wait(stream.fd()),
            Err(why) => panic!("{why}"),
        }
        self.has_read = true;
        Step::Again
    }
}

/// "TCP must send acknowledgments while the application is away": receiver processing that waited for receive
/// calls would admit one window for each call.
#[test]
fn a_transfer_goes_on_while_its_receiver_computes_and_the_receiver_pays_for_it() {
    let machine = Machine::built_in("sparcstation-20").unwrap();
    for architecture in LAZY {
        let wire = Conditions::wire(10_000_000, LAN.delay, 500);
        let (mut world, client, server_host) =
            pair(&Config::of(architecture), machine.costs(architecture), wire);
        let read = Log::default();
        let computes = Duration::from_millis(400);
        let busy = Busy { listener: None, stream: None, computes, has_read: false, read: read.clone() };
        let receiver = spawn(&mut world, server_host, busy);
        world.run_until(Instant::from_millis(10));
        let (asks, _) = StreamClient::new(server(), 1, 1, 4_000_000);
        spawn(&mut world, client, asks);
        world.run_until(Instant::from_millis(2_500));
        let read = read.take();
        let total: usize = read.iter().map(|(_, len)| len).sum();
        // The buffer holds 64 KiB. Without acknowledgments between two reads, only the sender's initial
        // window of ten segments would arrive.
        let most = read.iter().map(|&(_, len)| len).max().unwrap();
        assert!(most > 60_000, "{architecture}: {most} bytes at a time");
        // The first read finds the first segment, and each of the six others nearly a whole window.
        assert!(total > 6 * 60_000, "{architecture}: {total} bytes in all");
        let bill = world.host(server_host).bill(receiver).unwrap();
        let computed = computes * (read.len() as u32 - 1);
        assert!(
            bill.used > computed + Duration::from_millis(20),
            "{architecture}: {bill:?}, {computed:?} of it its own"
        );
        world.host(server_host).check().unwrap();
    }
}

#[test]
fn connections_in_time_wait_have_no_channels_and_are_answered_all_the_same() {
    for architecture in LAZY {
        let (mut world, client, server_host) = pair(&Config::of(architecture), Costs::FREE, LAN);
        let (echo, accepted) = StreamEcho::new(PORT, ListenerConfig::default());
        spawn(&mut world, server_host, echo);
        world.run_until(Instant::from_millis(10));
        let before = world.host(client).channel_count();
        let (asks, outcomes) = StreamClient::new(server(), 3_000, 4, 1_000);
        spawn(&mut world, client, asks);
        world.run_until(Instant::from_millis(20_000));
        assert_eq!(outcomes.take(), vec![Outcome::Echoed; 3_000], "{architecture}");
        assert_eq!(accepted.get(), 3_000);
        // The side that closes first is in TIME-WAIT: the client, which shuts down its side.
        let host = world.host(client);
        assert_eq!((host.tcp().len(), host.tcp().waiting()), (0, 3_000), "{architecture}");
        assert!(host.channel_count() <= before + 8, "{architecture}: {} channels", host.channel_count());
        world.run_until(Instant::from_millis(90_000));
        assert_eq!(world.host(client).tcp().waiting(), 0, "{architecture}");
        world.host(client).check().unwrap();
    }
}

/// A connection takes a channel when its first segment arrives. If that finds no buffer, the channel is given
/// to another connection.
#[test]
fn connections_whose_segments_found_no_room_keep_no_channel() {
    let machine = Machine::built_in("sparcstation-20").unwrap();
    let config = Config { segment_pkts: 4, ..Config::of(Architecture::SoftLrp) };
    let (mut world, client, server_host) = pair(&config, machine.costs(config.architecture), LAN);
    let (echo, _) = StreamEcho::new(PORT, ListenerConfig::default());
    spawn(&mut world, server_host, echo);
    world.run_until(Instant::from_millis(10));
    let before = world.host(server_host).channel_count();
    let (asks, outcomes) = StreamClient::new(server(), 1_000, 100, 3_000);
    spawn(&mut world, client, asks);
    world.run_until(Instant::from_millis(300_000));
    assert_eq!(outcomes.take().len(), 1_000);
    let host = world.host(server_host);
    assert!(host.tcp().is_empty() && host.tcp_counters().get(Counter::RetransSegs) > 0);
    // The channels are those that have buffers, and one that was requested while they were taken.
    assert!(host.channel_count() <= before + 5, "{} channels more", host.channel_count() - before);
    host.check().unwrap();
}

/// No arriving segment finds room, and repeated requests for existing channels take nothing.
#[test]
fn without_buffers_for_connections_there_are_no_more_channels_either() {
    let config = Config { segment_pkts: 0, ..Config::of(Architecture::SoftLrp) };
    let (mut world, client, _) = pair(&config, Costs::FREE, LAN);
    let before = world.host(client).channel_count();
    let (asks, _) = StreamClient::new(server(), 100, 100, 1);
    spawn(&mut world, client, asks);
    world.run_until(Instant::from_millis(100));
    let host = world.host(client);
    assert_eq!(host.tcp().len(), 100);
    // These are the channel of TIME-WAIT, and a requested one.
    assert!(host.channel_count() <= before + 2, "{} channels more", host.channel_count() - before);
}

#[test]
fn a_killed_program_leaves_its_connections_to_be_ended_properly() {
    for architecture in Architecture::ALL {
        let wire = Conditions::wire(100_000_000, LAN.delay, 500);
        let (mut world, client, server_host) = pair(&Config::of(architecture), Costs::FREE, wire);
        let (echo, _) = StreamEcho::new(PORT, ListenerConfig::default());
        let process = spawn(&mut world, server_host, echo);
        world.run_until(Instant::from_millis(10));
        let (asks, outcomes) = StreamClient::new(server(), 10, 10, 100_000_000);
        spawn(&mut world, client, asks);
        world.run_until(Instant::from_millis(100));
        let now = Instant::from_millis(100);
        world.host_mut(server_host).kill(process, now);
        world.run_until(Instant::from_millis(200_000));
        let outcomes = outcomes.take();
        assert_eq!(outcomes.len(), 10, "{architecture}");
        // The connection was reset because of unread data, or ended early.
        let broken = |outcome: &Outcome| matches!(outcome, Outcome::Failed(_) | Outcome::Wrong { .. });
        assert!(outcomes.iter().all(broken), "{architecture}: {outcomes:?}");
        for host in [client, server_host] {
            assert!(world.host(host).tcp().is_empty(), "{architecture}: {:?}", world.host(host).tcp());
            assert_eq!(world.host(host).segments_waiting(), 0);
            world.host(host).check().unwrap();
        }
    }
}

#[test]
fn more_connections_than_an_adaptor_has_rings_for_share_those_of_their_listener() {
    let config = Config { connection_rings: 3, ..Config::of(Architecture::NiLrp) };
    let (mut world, client, server_host) = pair(&config, Costs::FREE, LAN);
    let (echo, _) = StreamEcho::new(PORT, ListenerConfig::default());
    spawn(&mut world, server_host, echo);
    world.run_until(Instant::from_millis(10));
    let (asks, outcomes) = StreamClient::new(server(), 60, 20, 20_000);
    spawn(&mut world, client, asks);
    world.run_until(Instant::from_millis(100_000));
    assert_eq!(outcomes.take(), vec![Outcome::Echoed; 60]);
    assert!(world.host(server_host).tcp().is_empty());
    world.host(server_host).check().unwrap();
}

#[test]
fn a_narrow_link_on_the_way_is_found_by_what_its_router_says() {
    for architecture in Architecture::ALL {
        let mut world = World::new(3);
        let (near, far) = (world.add_segment(), world.add_segment());
        let net = |third, last| IpCidr::new(IpAddress::v4(10, 0, third, last), 24);
        let port = |segment, cidr| Port { ring_pkts: 1024, ..Port::new(segment, cidr).with_conditions(LAN) };
        let config = Config::of(architecture);
        let client = world.add_host(config.clone(), Costs::FREE, &[port(near, net(1, 1))]).unwrap();
        let server_host = world.add_host(config.clone(), Costs::FREE, &[port(far, net(2, 1))]).unwrap();
        let mut forwarding = config.clone();
        forwarding.stack.forwarding = true;
        let ports = [port(near, net(1, 254)), port(far, net(2, 254))];
        let router = world.add_host(forwarding, Costs::FREE, &ports).unwrap();
        let interfaces = [client, server_host].map(|_| evenkeel_core::stack::InterfaceId(0));
        let everywhere = IpCidr::new(IpAddress::v4(0, 0, 0, 0), 0);
        world.host_mut(client).add_route(everywhere, net(1, 254).address(), interfaces[0]).unwrap();
        world.host_mut(server_host).add_route(everywhere, net(2, 254).address(), interfaces[1]).unwrap();
        world.host_mut(router).set_mtu(evenkeel_core::stack::InterfaceId(1), 1_000);
        let (echo, _) = StreamEcho::new(PORT, ListenerConfig::default());
        spawn(&mut world, server_host, echo);
        world.run_until(Instant::from_millis(10));
        let to = IpEndpoint::new(net(2, 1).address(), PORT);
        let (asks, outcomes) = StreamClient::new(to, 3, 1, 200_000);
        spawn(&mut world, client, asks);
        world.run_until(Instant::from_millis(100_000));
        assert_eq!(outcomes.take(), [Outcome::Echoed; 3], "{architecture}");
        // The first connection measures the path. The others begin with its result, and retransmit nothing.
        let again = world.host(client).tcp_counters().get(Counter::RetransSegs);
        assert!(again > 0, "{architecture}: {again}");
        for host in [client, server_host, router] {
            world.host(host).check().unwrap();
        }
    }
}
