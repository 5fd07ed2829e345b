//! Round trips beside a blast: Druschel and Banga, OSDI 1996, figure 4.
//!
//! Machine A plays ping-pong with a server on machine B while machine C blasts another server on B, which discards what it gets. A and B
//! also run a spinner at nice +20, so that packets never find an idle loop.

use evenkeel_core::drop::QueueDrop;
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::Endpoint;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::Ipv4Address;
use evenkeel_sim::workload::{Echo, Log, Ping, PingPong, Sink, Spinner};
use evenkeel_sim::world::{HostId, SegmentId, World};

use crate::experiment::{Check, Experiment, Outcome, Point};
use crate::lrp_testbed;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "o96-fig4",
    title: "Round trip beside a blast to another socket",
    source: "Druschel and Banga, Lazy Receiver Processing, OSDI 1996, figure 4",
    measure,
};

const SYSTEMS: [Architecture; 3] = [Architecture::Eager, Architecture::SoftLrp, Architecture::NiLrp];

const CLIENT: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const SERVER: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
const PING_PORT: u16 = 5000;
const BLAST_PORT: u16 = 5001;
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// The blast starts when the machines know each other's addresses.
const BLAST_START: Instant = Instant::from_millis(500);
/// The scheduler's memory of CPU use takes seconds to settle.
const WARM_UP: Duration = Duration::from_secs(3);
const TIME: Duration = Duration::from_secs(4);

/// 1020 us over 750 us (O96.F4.peak). Whether these are round trips or what is added to them the paper leaves open.
const HUMP_RATIO: f64 = 1020.0 / 750.0;

/// One point of a curve.
#[derive(Debug, Clone, Copy)]
struct Measured {
    round_trip_us: f64,
    pings: usize,
    lost: usize,
    blast_received_pps: f64,
    ip_queue: u64,
}

fn run(architecture: Architecture, blast_pps: u64, seed: u64) -> Measured {
    let mut world = World::new(seed);
    let segment = world.add_segment();
    let client = add_machine(&mut world, segment, architecture, CLIENT);
    let server = add_machine(&mut world, segment, architecture, SERVER);
    let (sink, received) = Sink::new(BLAST_PORT, Duration::ZERO);
    world.host_mut(server).spawn("blast-server", 0, Box::new(sink));
    world.host_mut(server).spawn("ping-server", 0, Box::new(Echo::new(PING_PORT)));
    let to = Endpoint::new(SERVER.into(), PING_PORT);
    let (client_program, log) = PingPong::new(to, PING_TIMEOUT);
    world.host_mut(client).spawn("ping-client", 0, Box::new(client_program));
    if blast_pps > 0 {
        lrp_testbed::add_blaster(&mut world, segment, (server, SERVER, BLAST_PORT), blast_pps, BLAST_START);
    }
    let start = BLAST_START + WARM_UP;
    world.run_until(start);
    let _ = log.take();
    let before = received.get();
    world.run_until(start + TIME);
    let blast_received_pps = (received.get() - before) as f64 / TIME.as_secs_f64();
    let ip_queue = world.host(server).ledger().input_drops(QueueDrop::IpQueue);
    summarize(&log, blast_received_pps, ip_queue)
}

fn summarize(log: &Log<Ping>, blast_received_pps: f64, ip_queue: u64) -> Measured {
    let pings = log.take();
    let times: Vec<f64> = pings.iter().filter_map(|p| p.round_trip).map(|t| t.as_secs_f64() * 1e6).collect();
    Measured {
        round_trip_us: times.iter().sum::<f64>() / times.len() as f64,
        pings: pings.len(),
        lost: pings.len() - times.len(),
        blast_received_pps,
        ip_queue,
    }
}

fn add_machine(
    world: &mut World,
    segment: SegmentId,
    architecture: Architecture,
    address: Ipv4Address,
) -> HostId {
    let host = lrp_testbed::add_machine(world, segment, architecture, address);
    world.host_mut(host).spawn("spinner", 20, Box::new(Spinner));
    host
}

/// Closer together where the hump is.
fn rates() -> Vec<u64> {
    let mut rates: Vec<u64> = (0..7_000).step_by(500).chain((7_000..=25_000).step_by(1_000)).collect();
    rates.dedup();
    rates
}

struct Curve {
    architecture: Architecture,
    measured: Vec<(u64, Measured)>,
}

/// The text speaks of an effect at rates up to about this (O96.Fig4).
const HUMP_END: u64 = 7_000;

impl Curve {
    fn measure(architecture: Architecture, seed: u64) -> Self {
        let measured = rates().into_iter().map(|rate| (rate, run(architecture, rate, seed ^ rate)));
        Self { architecture, measured: measured.collect() }
    }

    /// Where no ping came back there is no round trip to show.
    fn points(&self) -> impl Iterator<Item = Point> {
        self.measured.iter().filter(|(_, m)| m.round_trip_us.is_finite()).map(|(rate, m)| Point {
            series: self.architecture.name().into(),
            x: *rate as f64,
            y: m.round_trip_us,
            more: [
                ("pings", m.pings as f64),
                ("lost_pings", m.lost as f64),
                ("blast_received_pps", m.blast_received_pps),
                ("ip_queue_drops", m.ip_queue as f64),
            ]
            .into(),
        })
    }

    fn round_trip_us(&self, rate: u64) -> f64 {
        self.measured.iter().find(|(r, _)| *r == rate).map_or(f64::NAN, |(_, m)| m.round_trip_us)
    }

    /// The rate and the height of the hump: the greatest round trip that a smaller one follows before the hump's end.
    fn hump(&self) -> (u64, f64) {
        let before_end: Vec<(u64, f64)> = self
            .measured
            .iter()
            .map(|(r, m)| (*r, m.round_trip_us))
            .filter(|(r, _)| *r <= HUMP_END)
            .collect();
        let falls = |i: usize| before_end[i + 1..].iter().any(|(_, later)| *later < before_end[i].1);
        let tops = (0..before_end.len()).filter(|&i| falls(i)).map(|i| before_end[i]);
        tops.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, f64::NAN))
    }

    /// The smallest round trip after the hump, as a share of it.
    fn fall(&self) -> f64 {
        let (at, top) = self.hump();
        let after = self.measured.iter().filter(|(r, _)| *r > at && *r <= HUMP_END);
        after.map(|(_, m)| m.round_trip_us).fold(f64::INFINITY, f64::min) / top
    }

    fn lost(&self) -> usize {
        self.measured.iter().map(|(_, m)| m.lost).sum()
    }

    fn first_loss(&self) -> f64 {
        self.measured.iter().find(|(_, m)| m.lost > 0).map_or(f64::NAN, |(rate, _)| *rate as f64)
    }
}

fn measure(seed: u64) -> Outcome {
    let curves = SYSTEMS.map(|architecture| Curve::measure(architecture, seed));
    let points = curves.iter().flat_map(Curve::points).collect();
    let [bsd, soft, ni] = curves;
    let order = |rate: u64| {
        let mut all =
            [("4.4BSD", &bsd), ("SOFT-LRP", &soft), ("NI-LRP", &ni)].map(|(n, c)| (n, c.round_trip_us(rate)));
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.map(|(name, _)| name).join(" > ")
    };
    let expected = "4.4BSD > SOFT-LRP > NI-LRP";
    let lrp_hump = (soft.hump().1 + ni.hump().1) / 2.0;
    let checks = vec![
        Check::equal("round trips at 3000/s", expected, order(3_000)),
        Check::equal("round trips at 10000/s", expected, order(10_000)),
        Check::equal("round trips at 18000/s", expected, order(18_000)),
        Check::near("hump of 4.4BSD over that of the LRP systems", HUMP_RATIO, bsd.hump().1 / lrp_hump, 0.10),
        Check::within(
            "rate at the top of the hump (packets/s)",
            [1_000.0, HUMP_END as f64],
            &[&bsd, &soft, &ni].map(|c| c.hump().0 as f64),
        ),
        Check::within(
            "round trip after the hump, share of its top",
            [0.0, 0.98],
            &[&bsd, &soft, &ni].map(Curve::fall),
        ),
        Check::within(
            "NI-LRP at 20000/s over no blast: barely noticeable",
            [1.0, 1.05],
            &[ni.round_trip_us(20_000) / ni.round_trip_us(0)],
        ),
        Check::within("pings lost by the LRP systems", [0.0, 0.0], &[soft.lost() as f64, ni.lost() as f64]),
        Check::within(
            "4.4BSD loses pings from (packets/s); there 15000 and more",
            [15_000.0, 25_000.0],
            &[bsd.first_loss()],
        ),
    ];
    Outcome { x: "blast (packets/s)", y: "round trip (us)", y_max: Some(2_500.0), points, checks }
}
