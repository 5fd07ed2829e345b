//! The machines of the scalable-kernels paper's experiments in the laboratory: a web server, or a proxy and
//! its origin, on AlphaStations; hot clients at a rate, and cold connections.
//!
//! Clients and origin are on machines that take no time: the paper ensured that none of them was the
//! bottleneck.

use evenkeel::raw::host::{Config, Scheduling, Work};
use evenkeel::raw::receive::{Architecture, DeviceWork};
use evenkeel::raw::socket::{Allocation, Select};
use evenkeel::raw::tcp::ListenerConfig;
use evenkeel::raw::time::Duration;
use evenkeel::raw::wire::{IpCidr, IpEndpoint, Ipv4Address};
use evenkeel_sim::machine::{Costs, Machine};
use evenkeel_sim::net::Conditions;
use evenkeel_sim::profile::Profile;
use evenkeel_sim::selecting::{
    Answers, ClientCounts, ColdClients, Due, HandlerCosts, HotClients, LoopCosts, LoopCounts, Proxy,
    SelectServer,
};
use evenkeel_sim::web::WebServer;
use evenkeel_sim::workload::Tally;
use evenkeel_sim::world::{HostId, Port, SegmentId, World};

use crate::old_tcp::{SOCKET_BUFFER, tcp_of_the_time};

/// A kernel of the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kernel {
    Unmodified,
    NewUfalloc,
    NewSelect,
    Modified,
}

impl Kernel {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Unmodified => "unmodified",
            Self::NewUfalloc => "new ufalloc",
            Self::NewSelect => "new select",
            Self::Modified => "new select and ufalloc",
        }
    }

    const fn select(self) -> Select {
        match self {
            Self::Unmodified | Self::NewUfalloc => Select::Classic,
            Self::NewSelect | Self::Modified => Select::WithMemory,
        }
    }

    const fn allocation(self) -> Allocation {
        match self {
            Self::Unmodified | Self::NewSelect => Allocation::Linear,
            Self::NewUfalloc | Self::Modified => Allocation::Bitmap,
        }
    }
}

/// The server under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Server {
    /// Squid 1.1.11, with the origin.
    Squid,
    /// The web server.
    Thttpd,
}

/// A load of hot clients and cold connections on a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// The number of silent connections.
    pub(crate) cold: usize,
    /// The number of active clients.
    pub(crate) hot: usize,
    /// The rate of due requests, in requests a second.
    pub(crate) rate: f64,
    /// The bytes of an answer.
    pub(crate) bytes: usize,
}

/// The bytes of a short answer (S98.w.size).
pub(crate) const SHORT: usize = 1_259;
pub(crate) const LONG: usize = 8_192;
/// The number of cold connections of the realistic benchmark (S98.w.real).
pub(crate) const SLOW: usize = 750;
/// The greatest number of hot clients (S98.w.hot).
pub(crate) const HOT: usize = 50;
/// A request rate beyond the capacity of all kernels.
pub(crate) const SATURATING: f64 = 5_000.0;

/// The measurements under a load. Shares are of the whole time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// The rate of requests that were begun, in requests a second.
    pub(crate) offered: f64,
    /// The rate of answers, in answers a second.
    pub(crate) throughput: f64,
    /// The mean time from opening the connection to the end of the answer, in milliseconds.
    pub(crate) response_ms: f64,
    pub(crate) idle: f64,
    /// The kernel's part of `select`.
    pub(crate) select: f64,
    pub(crate) ufalloc: f64,
    /// The user-mode part: the loop around it.
    pub(crate) around: f64,
    /// The rate of calls of `select`, in calls a second.
    pub(crate) calls: f64,
    /// The descriptors that a call has found.
    pub(crate) events: f64,
    /// Requests that were not answered.
    pub(crate) failed: f64,
}

impl Measured {
    /// Returns the share of all other work of the CPU.
    pub(crate) fn others(&self) -> f64 {
        1.0 - self.idle - self.select - self.ufalloc - self.around
    }
}

/// A snapshot for a measurement between two of them.
#[derive(Clone, Copy)]
struct Snapshot {
    profile: Profile,
    asked: u64,
    answered: u64,
    failed: u64,
    calls: u64,
    events: u64,
    around: u64,
}

pub(crate) const CLIENT: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
pub(crate) const SERVER: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
pub(crate) const ORIGIN: Ipv4Address = Ipv4Address::new(10, 0, 0, 3);
pub(crate) const HTTP: u16 = 80;
/// The listen backlog, as large as could be configured: no client of these experiments is rejected.
const BACKLOG: usize = 4_096;
/// The bytes of an answer that only reports that nothing has changed.
const NOT_MODIFIED: usize = 100;

const WARM_UP: Duration = Duration::from_secs(1);
const TIME: Duration = Duration::from_secs(3);

struct Bench {
    world: World,
    server: HostId,
    around: LoopCounts,
    accepted: Tally,
    clients: HostId,
}

impl Bench {
    fn new(kernel: Kernel, server: Server, bytes: usize, seed: u64) -> Self {
        let mut world = World::new(seed);
        let segment = world.add_segment();
        let clients = add_free_machine(&mut world, segment, CLIENT);
        let machine = machine();
        let host = add_alpha(&mut world, segment, kernel, machine.costs(Architecture::Eager), SERVER);
        let time = |program| machine.program(program).expect("the model has it");
        let around = |program| LoopCosts { descriptor: time(program) };
        let kilobyte = time("copy");
        let at = (HTTP, listener());
        let (around, accepted) = match server {
            Server::Squid => {
                let origin = add_free_machine(&mut world, segment, ORIGIN);
                let (program, _) = WebServer::new(HTTP, listener(), NOT_MODIFIED, Duration::ZERO);
                world.host_mut(origin).spawn("origin", 0, Box::new(program));
                let costs = HandlerCosts { request: time("squid-request"), kilobyte };
                let to = IpEndpoint::new(ORIGIN.into(), HTTP);
                let (program, around, accepted) =
                    Proxy::new(at, to, Answers::FromCache(bytes), around("squid-descriptor"), costs);
                world.host_mut(host).spawn("squid", 0, Box::new(program));
                (around, accepted)
            }
            Server::Thttpd => {
                let costs = HandlerCosts { request: time("thttpd-request"), kilobyte };
                let (program, around, accepted) =
                    SelectServer::new(at, bytes, around("thttpd-descriptor"), costs);
                world.host_mut(host).spawn("thttpd", 0, Box::new(program));
                (around, accepted)
            }
        };
        Self { world, server: host, around, accepted, clients }
    }

    /// Opens the cold connections, and makes the server accept them.
    fn add_cold(&mut self, count: usize) {
        let to = IpEndpoint::new(SERVER.into(), HTTP);
        self.world.host_mut(self.clients).spawn("cold", 0, Box::new(ColdClients::new(to, count)));
        let until = self.world.now() + Duration::from_secs(60);
        while self.accepted.get() < count as u64 && self.world.now() < until {
            self.world.run_until(self.world.now() + Duration::from_millis(100));
        }
        assert_eq!(self.accepted.get(), count as u64, "cold connections were not accepted");
    }

    fn snapshot(&self, counts: &ClientCounts) -> Snapshot {
        Snapshot {
            profile: *self.world.cpu(self.server).profile(),
            asked: counts.asked.get(),
            answered: counts.answered.get(),
            failed: counts.failed.get(),
            calls: self.around.calls.get(),
            events: self.around.events.get(),
            around: self.around.nanos.get(),
        }
    }
}

/// Runs a server under a load, and measures after it has settled.
pub(crate) fn run(kernel: Kernel, server: Server, load: Load, seed: u64) -> Measured {
    let mut bench = Bench::new(kernel, server, load.bytes, seed);
    bench.add_cold(load.cold);
    let due = Due::Regular {
        from: bench.world.now(),
        gap: Duration::from_secs_f64(1.0 / load.rate),
        rng: bench.world.fork_rng(),
    };
    let to = IpEndpoint::new(SERVER.into(), HTTP);
    let (hot, counts) = HotClients::new(to, load.hot, load.bytes, due);
    bench.world.host_mut(bench.clients).spawn("hot", 0, Box::new(hot));
    bench.world.run_until(bench.world.now() + WARM_UP);
    let before = bench.snapshot(&counts);
    let _ = counts.times.take();
    bench.world.run_until(bench.world.now() + TIME);
    let after = bench.snapshot(&counts);
    let times = counts.times.take();
    let mean = times.iter().sum::<Duration>().as_secs_f64() / times.len() as f64;
    let per_s = |count: fn(&Snapshot) -> u64| (count(&after) - count(&before)) as f64 / TIME.as_secs_f64();
    let profile = after.profile.since(&before.profile);
    let share = |time: Duration| time.as_secs_f64() / TIME.as_secs_f64();
    Measured {
        offered: per_s(|s| s.asked),
        throughput: per_s(|s| s.answered),
        response_ms: mean * 1e3,
        idle: (1.0 - share(profile.total())).max(0.0),
        select: share(profile.of(Work::StatusTest) + profile.of(Work::SetWord)),
        ufalloc: share(profile.of(Work::NumberLook)),
        around: per_s(|s| s.around) / 1e9,
        calls: per_s(|s| s.calls),
        events: per_s(|s| s.events) / per_s(|s| s.calls),
        failed: per_s(|s| s.failed),
    }
}

pub(crate) fn machine() -> Machine {
    Machine::built_in("alphastation-500").expect("a test checks the built-in models")
}

/// Adds an AlphaStation with one of the paper's kernels.
pub(crate) fn add_alpha(
    world: &mut World,
    segment: SegmentId,
    kernel: Kernel,
    costs: Costs,
    address: Ipv4Address,
) -> HostId {
    let config = Config {
        device_work: DeviceWork::Interrupt,
        feedback: None,
        batch_pkts: 1,
        memory_pkts: 1 << 17,
        scheduler: Scheduling::DecayUsage,
        tcp: tcp_of_the_time(2),
        select: kernel.select(),
        allocation: kernel.allocation(),
        ..Config::of(Architecture::Eager)
    };
    let port = Port { ring_pkts: 256, ..Port::new(segment, IpCidr::new(address.into(), 24)) };
    let port = port.with_conditions(fddi());
    let host = world.add_host(config, costs, &[port]);
    let host = host.expect("the defaults have room for one interface");
    world.cpu_mut(host).set_clock(TICK);
    host
}

/// Adds a machine that takes no time for its work.
pub(crate) fn add_free_machine(world: &mut World, segment: SegmentId, address: Ipv4Address) -> HostId {
    let config = Config { tcp: tcp_of_the_time(2), ..Config::of(Architecture::Polled) };
    let port = Port { ring_pkts: 1_024, ..Port::new(segment, IpCidr::new(address.into(), 24)) };
    let host = world.add_host(config, Costs::FREE, &[port.with_conditions(fddi())]);
    host.expect("the defaults have room for one interface")
}

/// The tick of Digital UNIX, of 1024 a second.
const TICK: Duration = Duration::from_nanos(976_562);

/// Returns the conditions of 100 Mbit/s (S98.m.net), with frames as long as those of Ethernet.
fn fddi() -> Conditions {
    Conditions::wire(100_000_000, Duration::from_micros(10), 1_000)
}

pub(crate) fn listener() -> ListenerConfig {
    ListenerConfig {
        backlog: BACKLOG,
        syn_queue: BACKLOG,
        syn_cookies: false,
        window: SOCKET_BUFFER as u16,
        window_scale: None,
        sack_permitted: false,
        timestamps: false,
        ecn: false,
        fast_open: 0,
        ..ListenerConfig::default()
    }
}
