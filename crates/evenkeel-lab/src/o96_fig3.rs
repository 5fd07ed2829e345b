//! Throughput against offered load for the four systems of the LRP paper: Druschel and Banga, OSDI 1996,
//! figure 3.
//!
//! One host receives 14-byte UDP datagrams in a process that discards them. The figure plots the received
//! rate over the sent rate.

use evenkeel::raw::receive::Architecture;
use evenkeel::raw::time::{Duration, Instant};
use evenkeel::raw::wire::Ipv4Address;
use evenkeel_sim::workload::{Sink, Tally};
use evenkeel_sim::world::{HostId, SourceId, World};

use crate::check::{Check, Origin::*, calibrated, predicted, ranking};
use crate::experiment::{Experiment, Outcome, Point};
use crate::lrp_testbed::{Lost, add_blaster, add_machine};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "o96-fig3",
    title: "UDP throughput against offered load",
    source: "Druschel and Banga, Lazy Receiver Processing, OSDI 1996, figure 3",
    measure,
};

/// The four systems, under the names of our architectures.
const SYSTEMS: [Architecture; 4] =
    [Architecture::Eager, Architecture::EarlyDemux, Architecture::SoftLrp, Architecture::NiLrp];

/// The figures that the paper states.
mod paper {
    pub(super) const BSD_PEAK: f64 = 7380.0;
    pub(super) const SOFT_PEAK: f64 = 9760.0;
    pub(super) const NI_PEAK: f64 = 11163.0;
    pub(super) const BSD_LIVELOCK: f64 = 20_000.0;
    pub(super) const BSD_IP_DROPS: f64 = 15_000.0;
    pub(super) const BSD_MLFRR: f64 = 6380.0;
    pub(super) const SOFT_MLFRR: f64 = 9210.0;
}

const PORT: u16 = 5001;

/// The measurements at a point of a curve.
#[derive(Debug, Clone, Copy)]
struct Measured {
    offered_pps: f64,
    delivered_pps: f64,
    lost: f64,
    ip_queue: f64,
    socket: f64,
    channel: f64,
    ring: f64,
    elsewhere: f64,
}

/// The receiver, and the load on it.
struct Bench {
    world: World,
    host: HostId,
    source: SourceId,
    received: Tally,
}

/// The counters at one moment.
#[derive(Clone, Copy)]
struct Snapshot {
    sent: u64,
    received: u64,
    lost: Lost,
}

impl Bench {
    fn new(architecture: Architecture, rate_pps: u64, seed: u64) -> Self {
        let mut world = World::new(seed);
        let segment = world.add_segment();
        let host = add_machine(&mut world, segment, architecture, ADDRESS);
        let (sink, received) = Sink::new(PORT, Duration::ZERO);
        world.host_mut(host).spawn("sink", 0, Box::new(sink));
        let source = add_blaster(&mut world, segment, (host, ADDRESS, PORT), rate_pps, START);
        Self { world, host, source, received }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            sent: self.world.sent(self.source),
            received: self.received.get(),
            lost: Lost::by(&self.world, self.host),
        }
    }

    fn measure(&mut self, warm_up: Duration, time: Duration) -> Measured {
        let start = self.world.now() + warm_up;
        self.world.run_until(start);
        let before = self.snapshot();
        self.world.run_until(start + time);
        let after = self.snapshot();
        let per_s =
            |count: fn(&Snapshot) -> u64| (count(&after) - count(&before)) as f64 / time.as_secs_f64();
        Measured {
            offered_pps: per_s(|s| s.sent),
            delivered_pps: per_s(|s| s.received),
            lost: per_s(|s| s.lost.everywhere()),
            ip_queue: per_s(|s| s.lost.ip_queue),
            socket: per_s(|s| s.lost.socket),
            channel: per_s(|s| s.lost.channel),
            ring: per_s(|s| s.lost.ring),
            elsewhere: per_s(|s| s.lost.elsewhere),
        }
    }
}

const ADDRESS: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
/// The start of the load, when the receiver is already waiting.
const START: Instant = Instant::from_millis(1);

/// Returns the rates, with smaller steps at the peaks and where 4.4BSD's IP queue overflows and it
/// livelocks.
fn rates(architecture: Architecture) -> Vec<u64> {
    let coarse = (1_000..=25_000).step_by(1_000);
    let fine = (6_750..8_000).step_by(250).chain((9_250..11_000).step_by(250));
    let mut rates: Vec<u64> = coarse.chain(fine).collect();
    if architecture == Architecture::Eager {
        rates.extend((14_500..21_000).step_by(1_000));
    }
    rates.sort_unstable();
    rates.dedup();
    rates
}

fn measure(seed: u64) -> Outcome {
    let curves: Vec<Curve> = SYSTEMS.into_iter().map(|a| Curve::measure(a, seed)).collect();
    let points = curves.iter().flat_map(Curve::points).collect();
    let [eager, early, soft, ni] =
        curves.try_into().unwrap_or_else(|_| unreachable!("one curve for each system"));
    let checks = [
        peaks(&eager, &soft, &ni),
        overload(&eager, &early, &soft, &ni),
        onsets(&eager),
        loss_free(seed),
        places([&eager, &early, &soft, &ni]),
    ];
    Outcome::new("offered (pps)", "received (pps)", points, checks.concat())
}

struct Curve {
    architecture: Architecture,
    measured: Vec<(u64, Measured)>,
}

const WARM_UP: Duration = Duration::from_millis(500);
const TIME: Duration = Duration::from_secs(2);

impl Curve {
    fn measure(architecture: Architecture, seed: u64) -> Self {
        let run = |rate| (rate, Bench::new(architecture, rate, seed ^ rate).measure(WARM_UP, TIME));
        Self { architecture, measured: rates(architecture).into_iter().map(run).collect() }
    }

    fn points(&self) -> Vec<Point> {
        let point = |(_, m): &(u64, Measured)| {
            Point::new(self.architecture.name(), m.offered_pps, m.delivered_pps).with([
                ("ip_queue_drops", m.ip_queue),
                ("socket_drops", m.socket),
                ("channel_drops", m.channel),
                ("ring_drops", m.ring),
            ])
        };
        self.measured.iter().map(point).collect()
    }

    fn peak(&self) -> f64 {
        self.measured.iter().map(|(_, m)| m.delivered_pps).fold(0.0, f64::max)
    }

    fn from(&self, rate: u64) -> impl Iterator<Item = &(u64, Measured)> {
        self.measured.iter().filter(move |(r, _)| *r >= rate)
    }

    fn at(&self, rate: u64) -> Measured {
        let nearest = self.measured.iter().min_by_key(|(r, _)| r.abs_diff(rate));
        nearest.expect("there are points").1
    }

    /// Returns the greatest loss at places other than queues, channels and rings.
    fn elsewhere(&self) -> f64 {
        self.measured.iter().map(|(_, m)| m.elsewhere).fold(0.0, f64::max)
    }

    /// Returns the lowest rate beyond the peak from which on `is` holds.
    fn onset(&self, is: impl Fn(&Measured) -> bool) -> f64 {
        let last_not = self.measured.iter().rposition(|(_, m)| !is(m)).map_or(0, |i| i + 1);
        self.measured.get(last_not).map_or(f64::NAN, |(rate, _)| *rate as f64)
    }
}

const BSD: &str = "architecture.eager.deliver";
const SOFT: &str = "cost.input, cost.append, cost.system-call, cost.deliver";
const NI: &str = "architecture.ni-lrp.receive";
const EARLY: &str = "architecture.early-demux.deliver";
const DRIVER: &str = "cost.interrupt, cost.receive, cost.demultiplex, cost.enqueue";
const QUEUES: &str = "queues of 96, senders' bursts";

fn peaks(eager: &Curve, soft: &Curve, ni: &Curve) -> Vec<Check> {
    vec![
        calibrated(BSD, Paper, "peak of 4.4BSD (pps)").near(paper::BSD_PEAK, eager.peak(), 0.05),
        calibrated(SOFT, Paper, "peak of SOFT-LRP (pps)").near(paper::SOFT_PEAK, soft.peak(), 0.05),
        calibrated(NI, Paper, "peak of NI-LRP (pps)").near(paper::NI_PEAK, ni.peak(), 0.05),
    ]
}

fn overload(eager: &Curve, early: &Curve, soft: &Curve, ni: &Curve) -> Vec<Check> {
    let share = |&(rate, m): &(u64, Measured)| m.delivered_pps / soft.at(rate).delivered_pps;
    let shares: Vec<f64> = early.from(10_000).map(share).collect();
    let flat: Vec<f64> = ni.from(12_000).map(|(_, m)| m.delivered_pps / ni.peak()).collect();
    let order = [("4.4BSD", eager), ("Early-Demux", early), ("SOFT-LRP", soft), ("NI-LRP", ni)]
        .map(|(name, curve)| (name, curve.at(20_000).delivered_pps));
    vec![
        calibrated(DRIVER, Paper, "SOFT-LRP at 20000/s, share of 4.4BSD's peak")
            .within([0.88, 1.0], &[soft.at(20_000).delivered_pps / eager.peak()]),
        calibrated(EARLY, Paper, "Early-Demux, share of SOFT-LRP, 10000/s and more")
            .within([0.40, 0.65], &shares),
        predicted(Words, "NI-LRP, share of its peak, 12000/s and more: flat").within([0.98, 1.0], &flat),
        predicted(Words, "SOFT-LRP at 25000/s, share of its peak: no livelock")
            .within([0.25, 1.0], &[soft.at(25_000).delivered_pps / soft.peak()]),
        calibrated("all of the above", Paper, "order at 20000/s")
            .equal("NI-LRP > SOFT-LRP > Early-Demux > 4.4BSD", ranking(&order)),
    ]
}

fn onsets(eager: &Curve) -> Vec<Check> {
    let livelock = eager.onset(|m| m.delivered_pps < 0.05 * eager.peak());
    let ip_queue = eager.onset(|m| m.ip_queue > 1e-4 * m.offered_pps);
    vec![
        calibrated("cost.soft-interrupt", Paper, "4.4BSD receives less than 5 % of its peak from (pps)")
            .near(paper::BSD_LIVELOCK, livelock, 0.10),
        calibrated(QUEUES, Paper, "4.4BSD drops at the IP queue from (pps)").near(
            paper::BSD_IP_DROPS,
            ip_queue,
            0.10,
        ),
    ]
}

fn loss_free(seed: u64) -> Vec<Check> {
    let (bsd, soft) = (mlfrr(Architecture::Eager, seed), mlfrr(Architecture::SoftLrp, seed));
    let claim = |name| calibrated(QUEUES, Paper, name);
    vec![
        claim("highest loss-free rate of 4.4BSD (pps)")
            .near(paper::BSD_MLFRR, bsd, 0.05)
            .known_miss(LOSS_FREE),
        claim("highest loss-free rate of SOFT-LRP (pps)").near(paper::SOFT_MLFRR, soft, 0.05),
        claim("ratio of the two")
            .near(paper::SOFT_MLFRR / paper::BSD_MLFRR, soft / bsd, 0.05)
            .known_miss(LOSS_FREE),
    ]
}

const LOSS_FREE: &str = "one limit for all queues and one length of bursts were fitted to both rates, whose \
     ratio comes out at 1.34 instead of 1.44; the paper reports neither limits nor bursts";

/// The time in which no datagram may be lost at a rate that counts as loss-free.
const LOSS_FREE_TIME: Duration = Duration::from_secs(4);
const RATE_STEP: u64 = 20;

fn mlfrr(architecture: Architecture, seed: u64) -> f64 {
    let loses = |rate: u64| Bench::new(architecture, rate, seed).measure(WARM_UP, LOSS_FREE_TIME).lost > 0.0;
    let (mut free, mut lossy) = (1_000, 12_000);
    while lossy - free > RATE_STEP {
        let middle = (free + lossy) / 2;
        if loses(middle) {
            lossy = middle;
        } else {
            free = middle;
        }
    }
    free as f64
}

fn places([eager, early, soft, ni]: [&Curve; 4]) -> Vec<Check> {
    let places = |m: Measured| {
        let all =
            [("IP queue", m.ip_queue), ("socket queue", m.socket), ("channel", m.channel), ("ring", m.ring)];
        all.into_iter().filter(|(_, n)| *n > 0.0).map(|(place, _)| place).collect::<Vec<_>>().join(", ")
    };
    let drops_at = |name, expected: &str, m| predicted(Paper, name).equal(expected, places(m));
    vec![
        drops_at("4.4BSD at 10000/s drops at", "socket queue", eager.at(10_000)),
        drops_at("4.4BSD at 18000/s drops at", "IP queue, socket queue", eager.at(18_000)),
        drops_at("SOFT-LRP at 20000/s drops at", "channel", soft.at(20_000)),
        drops_at("NI-LRP at 20000/s drops at", "channel", ni.at(20_000)),
        predicted(Paper, "lost for want of a buffer, or anywhere else, all rates (pps): no mbuf shortage")
            .within([0.0, 0.0], &[eager, early, soft, ni].map(Curve::elsewhere)),
    ]
}
