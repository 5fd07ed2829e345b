//! The router: a DECstation 3000/300 between two Ethernets.

use evenkeel_core::Scheduling;
use evenkeel_core::drop::QueueDrop;
use evenkeel_core::host::{Config, Host, Level, System, Transmit};
use evenkeel_core::poll::{Feedback, FeedbackScope, Quota};
use evenkeel_core::process::{ProcessId, Program, Step};
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::stack::{self, InterfaceId};
use evenkeel_core::system::Screen;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpCidr, Ipv4Address};
use evenkeel_sim::daemons::Screend;
use evenkeel_sim::machine::Machine;
use evenkeel_sim::net::Conditions;
use evenkeel_sim::packet::Station;
use evenkeel_sim::traffic::{Flow, Pattern};
use evenkeel_sim::workload::Tally;
use evenkeel_sim::world::{HostId, Port, SegmentId, SourceId, World, hardware_address};

/// One tick of the clock.
pub(crate) const TICK: Duration = Duration::from_nanos(976_562);
/// The limit of the screening queue.
pub(crate) const SCREEN_PKTS: usize = 32;
/// The programs are waiting.
pub(crate) const START: Instant = Instant::from_millis(50);

/// Returns the paper's kernel with polling, without feedback.
pub(crate) fn polled() -> Config {
    of(Architecture::Polled)
}

pub(crate) fn of(architecture: Architecture) -> Config {
    Config {
        device_work: DeviceWork::Polled,
        quota: Quota::Fixed(8),
        feedback: None,
        output_queue_pkts: 50,
        ip_queue_pkts: 50,
        batch_pkts: 1,
        scheduler: Scheduling::DecayUsage,
        stack: stack::Config { forwarding: true, ..stack::Config::default() },
        ..Config::of(architecture)
    }
    .with_paper_policies(|a| a.transmit = Transmit::Throughput)
}

/// Returns feedback as the paper describes it.
pub(crate) fn feedback() -> Option<Feedback> {
    Some(Feedback { scope: FeedbackScope::All, ..Feedback::default() })
}

pub(crate) fn machine() -> Machine {
    Machine::built_in("decstation-3000-300").expect("a sound model")
}

/// The direction of packets through the router, or their destination in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Out,
    Back,
    /// From the first Ethernet to a port of the router itself.
    ToPort(u16),
}

#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) world: World,
    pub(crate) router: HostId,
    segments: [SegmentId; 2],
    sources: Vec<SourceId>,
    /// The payload of later packets.
    pub(crate) payload_bytes: usize,
}

/// The packets of a measured interval, by outcome.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) offered: u64,
    /// Packets handed to the adaptors of the first and the second Ethernet.
    pub(crate) back: u64,
    pub(crate) out: u64,
    pub(crate) ring: u64,
    pub(crate) ip_queue: u64,
    pub(crate) screen: u64,
    pub(crate) output: u64,
    pub(crate) interrupts: u64,
    pub(crate) low_marks: u64,
    pub(crate) timeouts: u64,
    pub(crate) taken: u64,
    pub(crate) busy: Duration,
}

impl Rig {
    pub(crate) fn new(config: Config) -> Self {
        Self::with_ports(config, |_, port| port)
    }

    pub(crate) fn with_transmit_ring(config: Config, transmit_ring_pkts: Option<usize>) -> Self {
        Self::with_ports(config, |_, port| Port { transmit_ring_pkts, ..port })
    }

    /// Creates a router whose ports are changed by `change`, which gets the number of each.
    pub(crate) fn with_ports(config: Config, change: impl Fn(usize, Port) -> Port) -> Self {
        let mut world = World::new(7);
        let segments = [world.add_segment(), world.add_segment()];
        let port = |number: usize| {
            let address = Ipv4Address::new(10, 0, number as u8, 1);
            let up = Conditions { rate_bps: Some(10_000_000), ..Conditions::PERFECT };
            let port = Port::new(segments[number], IpCidr::new(address.into(), 24));
            change(number, Port { up, ring_pkts: 32, transmit_ring_pkts: Some(8), ..port })
        };
        let costs = match config.paper_policies.real_time_tasks {
            Some(_) => machine().variant("flag-only", config.architecture).expect("it is in the model"),
            None => machine().costs(config.architecture),
        };
        // The seed determines the times of group reports: with this one, none falls into a measurement.
        let router = world
            .add_host(Config { seed: 3, ..config }, costs, &[port(0), port(1)])
            .expect("room for two interfaces");
        for side in [0, 1] {
            let (address, hardware) = phantom(side);
            let set = world.host_mut(router).set_neighbor(
                InterfaceId(side),
                address.into(),
                hardware,
                Instant::ZERO,
            );
            set.expect("it is on that Ethernet");
        }
        Self { world, router, segments, sources: Vec::new(), payload_bytes: 8 }
    }

    pub(crate) fn spawn(&mut self, name: &str, program: impl Program + 'static) -> ProcessId {
        self.world.host_mut(self.router).spawn(name, 0, Box::new(program))
    }

    /// Adds a process that screens, and takes as long as the paper's.
    pub(crate) fn screen(mut self) -> (Self, Tally) {
        let (screend, passed) =
            Screend::new(SCREEN_PKTS, machine().program("screend").expect("it is in the model"));
        self.spawn("screend", screend);
        (self, passed)
    }

    /// Adds traffic at a mean rate, at random moments.
    pub(crate) fn load(&mut self, way: Way, rate_pps: u64, start: Instant, stop: Instant) {
        self.send(way, rate_pps, Pattern::Poisson, start, stop);
    }

    pub(crate) fn send(&mut self, way: Way, rate_pps: u64, pattern: Pattern, start: Instant, stop: Instant) {
        let number = self.sources.len();
        let (side, to, port) = match way {
            Way::Out => (0, phantom(1).0, 9),
            Way::Back => (1, phantom(0).0, 9),
            Way::ToPort(port) => (0, Ipv4Address::new(10, 0, 0, 1), port),
        };
        let from = Station {
            hardware: hardware_address(20 + number, 0),
            address: Ipv4Address::new(10, 0, side, 20 + number as u8),
            port: 4000,
        };
        let to = Station { hardware: hardware_address(self.router.0, usize::from(side)), address: to, port };
        let flow = Flow { from, to, payload_bytes: self.payload_bytes, rate_pps, pattern, start, stop };
        let segment = self.segments[usize::from(side)];
        self.sources.push(self.world.add_source(segment, flow, Conditions::PERFECT));
    }

    pub(crate) fn host(&self) -> &Host {
        self.world.host(self.router)
    }

    /// Advances time to `until`, and returns the packets from `from` on.
    pub(crate) fn measure(&mut self, from: Instant, until: Instant) -> Measured {
        self.world.run_until(from);
        let before = self.snapshot();
        self.world.run_until(until);
        self.host().check().expect("the counters add up");
        let after = self.snapshot();
        let since = |of: fn(&Measured) -> u64| of(&after) - of(&before);
        Measured {
            offered: since(|m| m.offered),
            back: since(|m| m.back),
            out: since(|m| m.out),
            ring: since(|m| m.ring),
            ip_queue: since(|m| m.ip_queue),
            screen: since(|m| m.screen),
            output: since(|m| m.output),
            interrupts: since(|m| m.interrupts),
            low_marks: since(|m| m.low_marks),
            timeouts: since(|m| m.timeouts),
            taken: since(|m| m.taken),
            busy: after.busy - before.busy,
        }
    }

    fn snapshot(&self) -> Measured {
        let (host, resumes) = (self.host(), self.host().resumes());
        let traffic = |side| host.traffic(InterfaceId(side)).expect("there are two interfaces");
        Measured {
            offered: self.sources.iter().map(|&source| self.world.sent(source)).sum(),
            back: traffic(0).transmitted,
            out: traffic(1).transmitted,
            ring: self.world.arrivals_missed(),
            ip_queue: host.ledger().input_drops(QueueDrop::IpQueue),
            screen: host.ledger().input_drops(QueueDrop::Screen),
            output: host.ledger().output_drops(QueueDrop::Output),
            interrupts: host.interrupts(),
            low_marks: resumes.low_mark,
            timeouts: resumes.timeout,
            taken: host.ledger().received,
            busy: Level::ALL.iter().map(|&level| host.cpu(level)).sum(),
        }
    }
}

/// Returns a station that does not exist, so that only the router works.
fn phantom(side: u8) -> (Ipv4Address, evenkeel_core::wire::EthernetAddress) {
    (Ipv4Address::new(10, 0, side, 2), hardware_address(9, usize::from(side)))
}

/// Measures a router under a flood for a second, from 0.5 s after its start.
pub(crate) fn output(config: &Config, screened: bool, rate_pps: u64) -> Measured {
    let mut rig = Rig::new(config.clone());
    if screened {
        rig = rig.screen().0;
    }
    rig.load(Way::Out, rate_pps, START, Instant::NEVER);
    rig.measure(START + Duration::from_millis(500), START + Duration::from_millis(1_500))
}

/// A screening program that opens its queue and never reads it.
#[derive(Debug)]
pub(crate) struct HungScreend;

impl Program for HungScreend {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        // The first step opens it.
        let _ = Screen::open(system, SCREEN_PKTS);
        Step::Sleep(Instant::NEVER)
    }
}
