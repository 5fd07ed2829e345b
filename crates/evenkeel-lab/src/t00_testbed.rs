//! The machines of the soft-timers paper's experiments in the laboratory: a web server on a Pentium,
//! saturated by clients that request 6 KB repeatedly.
//!
//! Clients are on machines that take no time.

use evenkeel::raw::host::{Config, Scheduling, Work};
use evenkeel::raw::receive::{Architecture, DeviceWork};
use evenkeel::raw::time::{Duration, Instant};
use evenkeel::raw::wire::{IpCidr, IpEndpoint, Ipv4Address};
use evenkeel_sim::calls::{Call, CallServer, Customers, Plan, Planned, Varying};
use evenkeel_sim::cpu::Cpu;
use evenkeel_sim::machine::{Costs, Machine};
use evenkeel_sim::net::Conditions;
use evenkeel_sim::trigger::Handlers;
use evenkeel_sim::workload::{Spinner, Tally};
use evenkeel_sim::world::{HostId, Port, World};

use crate::old_tcp::tcp_of_the_time;
use crate::s98_testbed::listener;

/// A machine of the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pentium {
    /// A Pentium II of 300 MHz.
    Ii,
    /// A Pentium II of 333 MHz, of the polling experiments.
    Ii333,
    /// A Pentium III of 500 MHz.
    Iii,
}

impl Pentium {
    /// Returns the clock frequency in Hz.
    pub(crate) const fn hz(self) -> u64 {
        match self {
            Self::Ii => 300_000_000,
            Self::Ii333 => 333_000_000,
            Self::Iii => 500_000_000,
        }
    }

    /// Scales a time of the slowest processor to this one.
    pub(crate) fn scaled(self, time: Duration) -> Duration {
        let nanos = time.as_nanos() * u128::from(Self::Ii.hz()) / u128::from(self.hz());
        Duration::from_nanos(nanos as u64)
    }

    /// Returns the time that a program, or a part of one, takes on this processor.
    pub(crate) fn program(self, name: &str) -> Duration {
        self.scaled(machine().program(name).expect("the model has it"))
    }

    /// Returns a time of the model that does not scale with the processor's clock.
    pub(crate) fn fixed(name: &str) -> Duration {
        machine().program(name).expect("the model has it")
    }

    /// Returns the time to send a segment.
    pub(crate) fn output(self) -> Duration {
        let costs = self.costs();
        costs.of(Work::SegmentOutput) + costs.of(Work::Transmit)
    }

    fn costs(self) -> Costs {
        machine().costs(Architecture::Eager).scaled(Self::Ii.hz(), self.hz())
    }
}

/// A web server of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Server {
    /// Apache 1.3.3: a process for each connection.
    Apache,
    /// Flash: one process, event-driven, with caches of names, headers and mapped files.
    Flash,
}

impl Server {
    pub(crate) const BOTH: [Self; 2] = [Self::Apache, Self::Flash];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Apache => "Apache",
            Self::Flash => "Flash",
        }
    }

    /// Returns the number of processes of the server. If there are several, each serves a connection at a
    /// time, and listens at a port of its own, in place of a lock around `accept`.
    const fn processes(self) -> u16 {
        match self {
            Self::Apache => CONNECTIONS,
            Self::Flash => 1,
        }
    }

    /// Returns the plan of the server's calls. The user mode of a request is divided by the numbers at the
    /// left.
    fn plan(self, on: Pentium, requests: u32) -> Plan {
        use Call::{Close, Fault, Other, Read, Shutdown, Write};
        let [short, file, map, copy] =
            ["call-short", "call-file", "call-map", "call-copy"].map(|call| on.program(call));
        let (user, accept, request, end) = match self {
            // The calls are: a lock around accept; the address, options, signals, timeouts. A name is looked
            // up component by component; the file is mapped, written with its header, logged. Then the server
            // waits for the client's FIN.
            Self::Apache => (
                on.program("apache-user"),
                vec![(5, Other, map), (2, Other, short), (4, Other, map)],
                vec![
                    (6, Other, short),
                    (4, Read, short),
                    (3, Other, short),
                    (20, Other, short),
                    (2, Other, short),
                    (18, Other, file),
                    (18, Other, file),
                    (18, Fault, map),
                    (18, Other, file),
                    (4, Other, map),
                    (5, Other, short),
                    (2, Other, short),
                    (18, Write, copy),
                    (4, Other, map),
                    (3, Other, map),
                    (18, Other, file),
                    (4, Other, short),
                ],
                vec![(4, Shutdown, short), (3, Other, map), (2, Other, short), (3, Close, map)],
            ),
            // There is a select before each call that may block, and a check whether a mapped file is in
            // memory.
            Self::Flash => (
                on.program("flash-user"),
                vec![(8, Other, map), (3, Other, short), (3, Other, short), (3, Other, short)],
                vec![
                    (6, Other, map),
                    (4, Read, short),
                    (4, Other, short),
                    (20, Other, short),
                    (8, Other, map),
                    (6, Fault, map),
                    (6, Other, map),
                    (4, Other, short),
                    (12, Write, copy),
                    (8, Other, short),
                    (6, Other, map),
                    (4, Other, map),
                ],
                vec![(6, Close, map), (4, Other, short), (4, Other, map)],
            ),
        };
        let shares: u32 = [&accept, &request, &end].into_iter().flatten().map(|(share, ..)| share).sum();
        let planned = |steps: Vec<(u32, Call, Duration)>| {
            let step = |(share, call, kernel)| Planned { user: user * share / shares, call, kernel };
            steps.into_iter().map(step).collect()
        };
        let (accept, request, end) = (planned(accept), planned(request), planned(end));
        Plan { accept, request, end, requests, bytes: ANSWER }
    }
}

/// T00.m.load: six kilobytes, with a header.
const ANSWER: usize = 6 * 1_024 + 250;
/// The number of connections, enough to saturate the server.
const CONNECTIONS: u16 = 24;
/// The percentage by which times vary about their means.
const VARYING_PERCENT: u32 = 40;
/// The period of the clock interrupt that backs soft timers (T00.F1.typ).
pub(crate) const BACKING: Duration = Duration::from_millis(1);
pub(crate) const WARM_UP: Duration = Duration::from_millis(300);

const HTTP: u16 = 80;

pub(crate) fn machine() -> Machine {
    Machine::built_in("pentium-ii-300").expect("a test checks the built-in models")
}

/// A saturated web server.
pub(crate) struct Bench {
    pub(crate) world: World,
    pub(crate) server: HostId,
    answered: Vec<Tally>,
}

/// A load: a server, its processor and its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Load {
    pub(crate) server: Server,
    pub(crate) on: Pentium,
    /// The requests on a connection: one is HTTP, more are P-HTTP.
    pub(crate) requests: u32,
    /// The number of interfaces, each with its own network.
    pub(crate) interfaces: u8,
    /// Whether a process computes in addition to the server.
    pub(crate) computes: bool,
}

impl Load {
    /// Creates a load of HTTP over as many networks as saturate the machine.
    pub(crate) const fn new(server: Server, on: Pentium) -> Self {
        let interfaces = if matches!(on, Pentium::Ii) { 1 } else { 4 };
        Self { server, on, requests: 1, interfaces, computes: false }
    }
}

impl Bench {
    /// Sets up a bench with `handlers` at the trigger states of its CPU, after it has settled.
    pub(crate) fn new(load: Load, handlers: Box<dyn Handlers>, seed: u64) -> Self {
        Self::with(load, handlers, |_| (), seed)
    }

    /// Sets up a bench like [`Bench::new`], and calls `set_up` on its CPU.
    pub(crate) fn with(
        load: Load,
        handlers: Box<dyn Handlers>,
        set_up: impl FnOnce(&mut Cpu),
        seed: u64,
    ) -> Self {
        let Load { server, on, requests, interfaces, computes } = load;
        let mut world = World::new(seed);
        let segments: Vec<_> = (0..interfaces).map(|_| world.add_segment()).collect();
        let addresses: Vec<_> = (0..interfaces).map(|net| Ipv4Address::new(10, 0, net, 2)).collect();
        // The adaptors of the polling experiments report each frame that has left (section 4.2).
        let transmit_ring_pkts = (on == Pentium::Ii333).then_some(64);
        let ports = segments.iter().zip(&addresses).map(|(segment, address)| {
            let port = Port {
                ring_pkts: 256,
                transmit_ring_pkts,
                ..Port::new(*segment, IpCidr::new((*address).into(), 24))
            };
            port.with_conditions(ethernet())
        });
        let ports: Vec<_> = ports.collect();
        let host = world.add_host(config(), on.costs(), &ports).expect("there is room for its interfaces");
        let (traps, mut rng) = (Tally::default(), world.fork_rng());
        let mut answered = Vec::new();
        for process in 0..server.processes() {
            let varying = Varying { rng: rng.fork(), percent: VARYING_PERCENT };
            let (at, plan) = ((HTTP + process, listener()), server.plan(on, requests));
            let (program, count) = CallServer::new(at, plan, varying, traps.clone());
            world.host_mut(host).spawn("server", 0, Box::new(program));
            answered.push(count);
        }
        if computes {
            world.host_mut(host).spawn("compute", 0, Box::new(Spinner));
        }
        world.cpu_mut(host).set_clock(BACKING);
        world.cpu_mut(host).set_handlers(handlers, traps, on.program("idle-loop"));
        set_up(world.cpu_mut(host));
        // All servers listen after that.
        world.run_until(Instant::ZERO + WARM_UP / 10);
        for (net, (segment, address)) in segments.iter().zip(&addresses).enumerate() {
            let client = Ipv4Address::new(10, 0, net as u8, 1);
            let client = Port::new(*segment, IpCidr::new(client.into(), 24)).with_conditions(ethernet());
            let config = Config { tcp: tcp_of_the_time(4), ..Config::of(Architecture::Polled) };
            let client = Port { ring_pkts: 1_024, ..client };
            let client = world.add_host(config, Costs::FREE, &[client]).expect("there is room");
            let of_this = CONNECTIONS / u16::from(interfaces);
            let ports = (0..of_this).map(|nth| HTTP + (nth + of_this * net as u16) % server.processes());
            let to = ports.map(|port| IpEndpoint::new((*address).into(), port)).collect();
            let customers = Customers::new(to, requests, ANSWER);
            world.host_mut(client).spawn("clients", 0, Box::new(customers));
        }
        let mut bench = Self { world, server: host, answered };
        bench.world.run_until(Instant::ZERO + WARM_UP);
        bench
    }

    /// Advances time. Returns the requests answered per second.
    pub(crate) fn run(&mut self, time: Duration) -> f64 {
        let answered = |bench: &Self| bench.answered.iter().map(Tally::get).sum::<u64>();
        let before = answered(self);
        self.world.run_until(self.world.now() + time);
        (answered(self) - before) as f64 / time.as_secs_f64()
    }
}

/// Returns the configuration of FreeBSD of the time. On its own network its TCP sends everything at once
/// (section 5.5).
pub(crate) fn config() -> Config {
    Config {
        device_work: DeviceWork::Interrupt,
        feedback: None,
        memory_pkts: 1 << 17,
        scheduler: Scheduling::DecayUsage,
        tcp: tcp_of_the_time(16),
        ..Config::of(Architecture::Eager)
    }
}

/// Returns the conditions of the server's Ethernet (T00.m.srv).
pub(crate) fn ethernet() -> Conditions {
    Conditions::wire(100_000_000, Duration::from_micros(20), 1_000)
}
