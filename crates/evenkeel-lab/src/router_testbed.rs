//! The livelock paper's router in virtual time: a DECstation 3000/300 between two Ethernets, and a faster
//! machine that floods it.

use evenkeel::raw::drops::QueueDrop;
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::ip::InterfaceId;
use evenkeel::raw::process::ProcessId;
use evenkeel::raw::receive::Quota;
use evenkeel::raw::time::{Duration, Instant};
use evenkeel::raw::wire::{IpCidr, Ipv4Address};
use evenkeel_sim::cpu::Cpu;
use evenkeel_sim::daemons::{Housekeeping, Screend};
use evenkeel_sim::machine::{Costs, Machine};
use evenkeel_sim::net::Conditions;
use evenkeel_sim::packet::Station;
use evenkeel_sim::traffic::{Flow, Pattern};
use evenkeel_sim::workload::Spinner;
use evenkeel_sim::world::{HostId, Port, SegmentId, SourceId, World, hardware_address};

use crate::check::Check;
use crate::experiment::{Outcome, Point};
use crate::router_setup::{Kernel, SCREENING_QUEUE_PKTS, Setup, TICK};

/// The descriptors of the LANCE's receive ring, as in its driver.
const RING_PKTS: usize = 32;
/// The descriptors of its transmit ring (D.L97.txring): with this number figure 8 has its maxima where the
/// paper has them.
const TRANSMIT_RING_PKTS: usize = 8;
/// The name of that ring in explanations of figures.
pub(crate) const TRANSMIT_RING: &str = "eight transmit descriptors";
/// The time of the shortest frames of a 10 Mbit/s Ethernet, back to back (L97.m.ethmax).
const FRAME_TIME: Duration = Duration::from_nanos(67_200);
/// The payload bytes of a packet (L97.w.size).
pub(crate) const PAYLOAD_BYTES: usize = 4;

const IN: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const OUT: Ipv4Address = Ipv4Address::new(10, 0, 1, 1);
const GENERATOR: u8 = 9;
/// The destination that does not exist (L97.w.dst).
const PHANTOM: Ipv4Address = Ipv4Address::new(10, 0, 1, 2);

/// The start of the load, when `screend` is already waiting.
pub(crate) const START: Instant = Instant::from_millis(20);

/// The packets that come in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Load {
    /// Packets at a mean rate, in bursts.
    Rate(u64),
    /// Packets at a rate, one by one.
    Spaced(u64),
    /// A single packet at a random moment of each interval.
    Single(Duration),
    /// This number of packets at this distance, once.
    Once(u32, Duration),
}

/// Returns the machine of all these experiments.
pub(crate) fn machine() -> Machine {
    Machine::built_in("decstation-3000-300").expect("a test checks the built-in models")
}

/// Returns the time that a program of the paper takes in user mode.
pub(crate) fn program(name: &str) -> Duration {
    machine().program(name).expect("the model knows the paper's programs")
}

/// A router under load.
#[derive(Debug)]
pub(crate) struct Router {
    world: World,
    host: HostId,
    source: SourceId,
    out: SegmentId,
    spinner: Option<ProcessId>,
}

/// The rates of a router in a measured interval, per second; the last field is a share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) offered_pps: f64,
    pub(crate) forwarded_pps: f64,
    pub(crate) ring: f64,
    pub(crate) ip_queue: f64,
    pub(crate) screening: f64,
    pub(crate) output: f64,
    pub(crate) interrupts: f64,
    /// The number of resumptions of input, and of those after the feedback's timeout.
    pub(crate) resumes: f64,
    pub(crate) timeouts: f64,
    /// The CPU time of the process that computes.
    pub(crate) user: f64,
}

#[derive(Clone, Copy)]
struct Snapshot {
    sent: u64,
    forwarded: u64,
    ring: u64,
    ip_queue: u64,
    screening: u64,
    output: u64,
    interrupts: u64,
    resumes: u64,
    timeouts: u64,
    user: Duration,
}

impl Router {
    pub(crate) fn new(setup: &Setup, load: Load, seed: u64) -> Self {
        let mut world = World::new(seed);
        let (within, out) = (world.add_segment(), world.add_segment());
        let config = Config { batch_pkts: 1, seed, ..setup.config() };
        let ports = [port(within, IN), port(out, OUT)];
        let host = world.add_host(config, costs(setup), &ports).expect("room for two interfaces");
        keep_house(&mut world, host);
        let spinner = spawn(world.host_mut(host), setup);
        let phantom = hardware_address(usize::from(GENERATOR), 1);
        let set = world.host_mut(host).set_neighbor(InterfaceId(1), PHANTOM.into(), phantom, Instant::ZERO);
        set.expect("the phantom is on the second Ethernet");
        let source = world.add_source(within, flow(host, load), wire());
        Self { world, host, source, out, spinner }
    }

    /// Measures the router for `time`, from `warm_up` after the start of the load.
    pub(crate) fn measure(&mut self, warm_up: Duration, time: Duration) -> Measured {
        self.world.run_until(START + warm_up);
        let before = self.snapshot();
        self.world.run_until(START + warm_up + time);
        let after = self.snapshot();
        self.world.host(self.host).check().expect("the counters add up");
        let per_s =
            |count: fn(&Snapshot) -> u64| (count(&after) - count(&before)) as f64 / time.as_secs_f64();
        Measured {
            offered_pps: per_s(|s| s.sent),
            forwarded_pps: per_s(|s| s.forwarded),
            ring: per_s(|s| s.ring),
            ip_queue: per_s(|s| s.ip_queue),
            screening: per_s(|s| s.screening),
            output: per_s(|s| s.output),
            interrupts: per_s(|s| s.interrupts),
            resumes: per_s(|s| s.resumes),
            timeouts: per_s(|s| s.timeouts),
            user: (after.user - before.user).as_secs_f64() / time.as_secs_f64(),
        }
    }

    fn snapshot(&self) -> Snapshot {
        let host = self.world.host(self.host);
        let (ledger, resumes) = (host.ledger(), host.resumes());
        let bill = self.spinner.and_then(|process| host.bill(process)).unwrap_or_default();
        Snapshot {
            sent: self.world.sent(self.source),
            forwarded: self.world.wires(self.out).offered,
            ring: self.world.arrivals_missed(),
            ip_queue: ledger.input_drops(QueueDrop::IpQueue),
            screening: ledger.input_drops(QueueDrop::Screen),
            output: ledger.output_drops(QueueDrop::Output),
            interrupts: host.interrupts(),
            resumes: resumes.low_mark + resumes.timeout + resumes.idle,
            timeouts: resumes.timeout,
            user: bill.used,
        }
    }

    /// Records a timeline of the CPU until `end`.
    pub(crate) fn record(&mut self, end: Instant) -> &Cpu {
        self.world.cpu_mut(self.host).record();
        self.world.run_until(end);
        self.world.cpu(self.host)
    }
}

impl Measured {
    /// Returns a point of a curve of output against input.
    pub(crate) fn point(&self, series: &str) -> Point {
        self.point_at(series, self.offered_pps, self.forwarded_pps)
    }

    pub(crate) fn point_at(&self, series: &str, x: f64, y: f64) -> Point {
        let more = [
            ("ring_drops", self.ring),
            ("ip_queue_drops", self.ip_queue),
            ("screening_drops", self.screening),
            ("output_drops", self.output),
            ("interrupts", self.interrupts),
        ];
        Point::new(series, x, y).with(more)
    }

    pub(crate) fn lost(&self) -> f64 {
        self.ring + self.ip_queue + self.screening + self.output
    }

    /// Returns the places where packets were lost: those with more than a hundredth of the loss, in
    /// descending order.
    pub(crate) fn places(&self) -> String {
        let mut all = [
            ("ring", self.ring),
            ("IP queue", self.ip_queue),
            ("screening queue", self.screening),
            ("output queue", self.output),
        ];
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        let most = all.into_iter().filter(|(_, n)| *n > 0.01 * self.lost());
        most.map(|(place, _)| place).collect::<Vec<_>>().join(", ")
    }
}

/// Output over input, for one router.
#[derive(Debug)]
pub(crate) struct Curve {
    pub(crate) name: String,
    measured: Vec<(u64, Measured)>,
}

/// The time until a queue that will fill has filled.
pub(crate) const WARM_UP: Duration = Duration::from_millis(300);
/// The time of a measurement. It covers as many packets as the paper's (L97.w.n) at the rates that matter.
pub(crate) const TIME: Duration = Duration::from_secs(2);
/// The share of lost input up to which a router counts as free of loss.
const LOSS_FREE: f64 = 1e-3;
/// The share of forwarded output up to which a router counts as livelocked.
const LIVELOCKED: f64 = 0.02;

/// Returns the outcome for output against input, with one line for each curve.
pub(crate) fn output_over_input(curves: &[Curve], checks: Vec<Check>) -> Outcome {
    let points = curves.iter().flat_map(Curve::points).collect();
    Outcome::new("input (pps)", "output (pps)", points, checks)
}

impl Curve {
    pub(crate) fn measure(
        name: impl Into<String>,
        setup: &Setup,
        rates: impl IntoIterator<Item = u64>,
        seed: u64,
    ) -> Self {
        Self::under(Load::Rate, name, setup, rates, seed)
    }

    /// Measures a curve under a load other than bursts.
    pub(crate) fn under(
        load: fn(u64) -> Load,
        name: impl Into<String>,
        setup: &Setup,
        rates: impl IntoIterator<Item = u64>,
        seed: u64,
    ) -> Self {
        let run = |rate| (rate, Router::new(setup, load(rate), seed ^ rate).measure(WARM_UP, TIME));
        Self { name: name.into(), measured: rates.into_iter().map(run).collect() }
    }

    /// Measures a curve for each quota.
    pub(crate) fn by_quota<const N: usize>(
        quotas: [Quota; N],
        setup: &Setup,
        rates: impl IntoIterator<Item = u64>,
        seed: u64,
    ) -> [Self; N] {
        let rates: Vec<u64> = rates.into_iter().collect();
        quotas.map(|quota| {
            let name = match quota {
                Quota::Fixed(pkts) => format!("quota {pkts}"),
                Quota::Unlimited => "no quota".to_owned(),
                Quota::Dynamic => "dynamic quota".to_owned(),
            };
            Self::measure(name, &Setup { quota, ..*setup }, rates.iter().copied(), seed)
        })
    }

    pub(crate) fn points(&self) -> impl Iterator<Item = Point> {
        self.measured.iter().map(|(_, m)| m.point(&self.name))
    }

    pub(crate) fn measured(&self) -> impl Iterator<Item = &(u64, Measured)> {
        self.measured.iter()
    }

    /// Returns the number of packets that the router forwards each time that input resumes.
    pub(crate) fn per_resume(&self, rate: u64) -> f64 {
        let measured = self.at(rate);
        measured.forwarded_pps / measured.resumes
    }

    pub(crate) fn peak(&self) -> f64 {
        self.measured.iter().map(|(_, m)| m.forwarded_pps).fold(0.0, f64::max)
    }

    /// Returns the rate at which the output is highest.
    pub(crate) fn peak_rate(&self) -> u64 {
        let highest =
            self.measured.iter().max_by(|(_, a), (_, b)| a.forwarded_pps.total_cmp(&b.forwarded_pps));
        highest.map_or(0, |(rate, _)| *rate)
    }

    pub(crate) fn at(&self, rate: u64) -> Measured {
        self.measured.iter().min_by_key(|(r, _)| r.abs_diff(rate)).expect("there are points").1
    }

    /// Returns the output at the highest rate.
    pub(crate) fn asymptote(&self) -> f64 {
        self.measured.last().expect("there are points").1.forwarded_pps
    }

    /// Returns the output from `rate` on, as shares of the peak.
    pub(crate) fn shares_from(&self, rate: u64) -> Vec<f64> {
        let beyond = self.measured.iter().filter(|(r, _)| *r >= rate);
        beyond.map(|(_, m)| m.forwarded_pps / self.peak()).collect()
    }

    /// Returns the maximum loss-free receive rate.
    pub(crate) fn mlfrr(&self) -> f64 {
        let free = self.measured.iter().take_while(|(_, m)| m.lost() <= LOSS_FREE * m.offered_pps);
        free.last().map_or(f64::NAN, |(_, m)| m.offered_pps)
    }

    /// Returns the lowest rate from which on next to nothing is forwarded.
    pub(crate) fn livelock(&self) -> f64 {
        let alive = self.measured.iter().rposition(|(_, m)| m.forwarded_pps > LIVELOCKED * self.peak());
        alive.and_then(|index| self.measured.get(index + 1)).map_or(f64::NAN, |(_, m)| m.offered_pps)
    }
}

/// Returns rates in steps of 500, and in steps of 100 from each of `fine` to 600 more.
pub(crate) fn rates(last: u64, fine: &[u64]) -> Vec<u64> {
    let near = fine.iter().flat_map(|&from| (from..from + 600).step_by(100));
    let mut rates: Vec<u64> = (500..=last).step_by(500).chain(near).collect();
    rates.sort_unstable();
    rates.dedup();
    rates
}

pub(crate) fn costs(setup: &Setup) -> Costs {
    let machine = machine();
    match setup.kernel {
        Kernel::Unmodified | Kernel::Polling => machine.costs(setup.architecture()),
        Kernel::PollingOff => {
            machine.variant("polling-off", setup.architecture()).expect("the model has this variant")
        }
    }
}

pub(crate) fn port(segment: SegmentId, address: Ipv4Address) -> Port {
    let port = Port::new(segment, IpCidr::new(address.into(), 24)).with_conditions(wire());
    Port { ring_pkts: RING_PKTS, transmit_ring_pkts: Some(TRANSMIT_RING_PKTS), ..port }
}

/// Returns the conditions of a wire of 10 Mbit/s (L97.m.net), with room for all that a generator sends.
pub(crate) fn wire() -> Conditions {
    Conditions::wire(10_000_000, Duration::ZERO, 10_000)
}

/// Adds the clock and the background processes of the system (L97.F10.base).
pub(crate) fn keep_house(world: &mut World, host: HostId) {
    world.cpu_mut(host).set_clock(TICK);
    let housekeeping = Housekeeping::new(Duration::from_millis(10), program("housekeeping"));
    world.host_mut(host).spawn("housekeeping", -20, Box::new(housekeeping));
}

/// Returns the pattern of the generator's packets. The generator is bursty around its mean rate
/// (L97.w.pace), and its bursts change with the rate (L97.F15.noise). The model is a process that wakes at
/// every tick of its clock and sends what is due.
pub(crate) const fn pattern() -> Pattern {
    bursts(1)
}

/// Returns the pattern of a generator that wakes at every `ticks`th tick.
pub(crate) const fn bursts(ticks: u32) -> Pattern {
    Pattern::Ticks { period: TICK.saturating_mul(ticks), gap: FRAME_TIME }
}

/// Starts the programs; returns the one that computes.
fn spawn(host: &mut Host, setup: &Setup) -> Option<ProcessId> {
    if setup.screend {
        let (screend, _) = Screend::new(SCREENING_QUEUE_PKTS, program("screend"));
        host.spawn("screend", 0, Box::new(screend));
    }
    setup.spinner.then(|| host.spawn("spinner", 0, Box::new(Spinner)))
}

fn flow(host: HostId, load: Load) -> Flow {
    let (rate_pps, pattern) = match load {
        Load::Rate(rate) => (rate, pattern()),
        Load::Spaced(rate) => (rate, Pattern::Constant),
        Load::Single(period) => {
            let per_s = 1_000_000_000 / period.as_nanos() as u64;
            (per_s, Pattern::Ticks { period, gap: FRAME_TIME })
        }
        Load::Once(pkts, gap) => (1, Pattern::Once { pkts, gap }),
    };
    Flow {
        from: Station {
            hardware: hardware_address(usize::from(GENERATOR), 0),
            address: Ipv4Address::new(10, 0, 0, GENERATOR),
            port: 4000,
        },
        to: Station { hardware: hardware_address(host.0, 0), address: PHANTOM, port: 9 },
        payload_bytes: PAYLOAD_BYTES,
        rate_pps,
        pattern,
        start: START,
        stop: Instant::NEVER,
    }
}
