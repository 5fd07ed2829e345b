//! HTTP transfers during a flood of SYNs to another port: Druschel and Banga, OSDI 1996, figure 5.
//!
//! Eight clients on one machine fetch a document of 1300 bytes from a server that they saturate. Another
//! machine sends SYNs to a second listener on the server's machine. Its program accepts no connection, and it
//! has no cookies. NI-LRP is our addition; the paper has 4.4BSD and SOFT-LRP.

use evenkeel::raw::receive::Architecture;
use evenkeel::raw::tcp::Counter;
use evenkeel::raw::time::{Duration, Instant};
use evenkeel::raw::wire::{IpEndpoint, Ipv4Address};
use evenkeel_sim::streams::StreamDummy;
use evenkeel_sim::web::{WebClient, WebServer};
use evenkeel_sim::workload::Tally;
use evenkeel_sim::world::{HostId, SourceId, World};

use crate::check::{Origin::*, calibrated, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::lrp_testbed::{Lost, add_machine, add_syn_flood, listener, machine};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "o96-fig5",
    title: "HTTP transfers beside a SYN flood to another port",
    source: "Druschel and Banga, Lazy Receiver Processing, OSDI 1996, figure 5",
    measure,
};

const SYSTEMS: [Architecture; 3] = [Architecture::Eager, Architecture::SoftLrp, Architecture::NiLrp];

/// The figures that the paper states.
mod paper {
    /// The rate of SYNs per second from which 4.4BSD livelocks (O96.F5.bsdlive).
    pub(super) const BSD_LIVELOCK: f64 = 10_000.0;
    /// The rate of SYNs per second from which 4.4BSD drops packets at the IP queue (O96.F5.bsdip).
    pub(super) const BSD_IP_DROPS: f64 = 6_400.0;
    /// The share of its peak that SOFT-LRP keeps at 20 000 SYNs per second (O96.F5.lrp).
    pub(super) const SOFT_KEEPS: f64 = 0.5;
}

/// The number of HTTP clients (O96.F5.clients).
pub(crate) const CLIENTS: usize = 8;
/// Bytes of a document (O96.F5.clients).
pub(crate) const DOCUMENT: usize = 1300;

const CLIENT: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const SERVER: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
const HTTP: u16 = 80;
const DUMMY: u16 = 81;
/// The listen backlog of programs of the time.
pub(crate) const DUMMY_BACKLOG: usize = 5;
/// A backlog above the number of clients.
const HTTP_BACKLOG: usize = 16;

/// The start of the flood, long after the server's saturation.
const FLOOD_START: Instant = Instant::from_millis(1_000);
/// The warm-up, long enough for clients to retry connections that the flood broke.
const WARM_UP: Duration = Duration::from_secs(4);
const TIME: Duration = Duration::from_secs(10);

/// The measurements at a point of a curve.
#[derive(Debug, Clone, Copy)]
struct Measured {
    flood_pps: f64,
    transfers: f64,
    ip_queue: f64,
    channel: f64,
    ring: f64,
    /// SYNs that TCP dropped.
    in_tcp: f64,
    /// Segments that the clients retransmitted because the server's machine lost them.
    sent_again: f64,
}

struct Bench {
    world: World,
    client: HostId,
    server: HostId,
    flood: Option<SourceId>,
    fetched: Vec<Tally>,
}

#[derive(Clone, Copy)]
struct Snapshot {
    flood: u64,
    transfers: u64,
    lost: Lost,
    in_tcp: u64,
    sent_again: u64,
}

impl Bench {
    fn new(architecture: Architecture, flood_pps: u64, seed: u64) -> Self {
        let mut world = World::new(seed);
        let segment = world.add_segment();
        let client = add_machine(&mut world, segment, architecture, CLIENT);
        let server = add_machine(&mut world, segment, architecture, SERVER);
        let compute = machine().program("httpd").expect("the model has it");
        let (httpd, _) = WebServer::new(HTTP, listener(HTTP_BACKLOG), DOCUMENT, compute);
        world.host_mut(server).spawn("httpd", 0, Box::new(httpd));
        world.host_mut(server).spawn("dummy", 0, Box::new(StreamDummy::new(DUMMY, listener(DUMMY_BACKLOG))));
        let to = IpEndpoint::new(SERVER.into(), HTTP);
        let fetched = (0..CLIENTS).map(|_| {
            let (program, counts) = WebClient::new(to, DOCUMENT);
            world.host_mut(client).spawn("client", 0, Box::new(program));
            counts.fetched
        });
        let fetched = fetched.collect();
        let flood = (flood_pps > 0)
            .then(|| add_syn_flood(&mut world, segment, (server, SERVER, DUMMY), flood_pps, FLOOD_START));
        Self { world, client, server, flood, fetched }
    }

    fn snapshot(&self) -> Snapshot {
        let (server, client) = (self.world.host(self.server), self.world.host(self.client));
        Snapshot {
            flood: self.flood.map_or(0, |flood| self.world.sent(flood)),
            transfers: self.fetched.iter().map(Tally::get).sum(),
            lost: Lost::by(&self.world, self.server),
            in_tcp: server.tcp_counters().get(Counter::ListenDrops),
            sent_again: client.tcp_counters().get(Counter::RetransSegs),
        }
    }

    fn measure(&mut self) -> Measured {
        let start = FLOOD_START + WARM_UP;
        self.world.run_until(start);
        let before = self.snapshot();
        self.world.run_until(start + TIME);
        let after = self.snapshot();
        let per_s =
            |count: fn(&Snapshot) -> u64| (count(&after) - count(&before)) as f64 / TIME.as_secs_f64();
        Measured {
            flood_pps: per_s(|s| s.flood),
            transfers: per_s(|s| s.transfers),
            ip_queue: per_s(|s| s.lost.ip_queue),
            channel: per_s(|s| s.lost.channel),
            ring: per_s(|s| s.lost.ring),
            in_tcp: per_s(|s| s.in_tcp),
            sent_again: per_s(|s| s.sent_again),
        }
    }
}

/// Returns the rates, with smaller steps where 4.4BSD first loses packets and where it livelocks. The
/// curves of the other systems do not change there.
fn rates(architecture: Architecture) -> Vec<u64> {
    if architecture != Architecture::Eager {
        return (0..=20_000).step_by(4_000).collect();
    }
    let coarse = (0..=20_000).step_by(2_000);
    let fine = (5_000..=7_500).step_by(250).chain((9_000..=11_000).step_by(500));
    let mut rates: Vec<u64> = coarse.chain(fine).collect();
    rates.sort_unstable();
    rates.dedup();
    rates
}

struct Curve {
    architecture: Architecture,
    measured: Vec<(u64, Measured)>,
}

impl Curve {
    fn measure(architecture: Architecture, seed: u64) -> Self {
        let run = |rate| (rate, Bench::new(architecture, rate, seed ^ rate).measure());
        Self { architecture, measured: rates(architecture).into_iter().map(run).collect() }
    }

    fn points(&self) -> impl Iterator<Item = Point> {
        self.measured.iter().map(|(_, m)| {
            Point::new(self.architecture.name(), m.flood_pps, m.transfers).with([
                ("ip_queue_drops", m.ip_queue),
                ("channel_drops", m.channel),
                ("ring_drops", m.ring),
                ("tcp_drops", m.in_tcp),
                ("sent_again", m.sent_again),
            ])
        })
    }

    fn peak(&self) -> f64 {
        self.measured.iter().map(|(_, m)| m.transfers).fold(0.0, f64::max)
    }

    fn last(&self) -> Measured {
        self.measured.last().expect("there are points").1
    }

    /// Returns the lowest rate from which on `is` holds.
    fn onset(&self, is: impl Fn(&Measured) -> bool) -> f64 {
        let last_not = self.measured.iter().rposition(|(_, m)| !is(m)).map_or(0, |i| i + 1);
        self.measured.get(last_not).map_or(f64::NAN, |(rate, _)| *rate as f64)
    }

    /// Returns the shares of the flood that died at the channel, at the rates with a flood.
    fn at_channel(&self) -> Vec<f64> {
        self.measured.iter().filter(|(rate, _)| *rate > 0).map(|(_, m)| m.channel / m.flood_pps).collect()
    }

    fn sent_again(&self) -> f64 {
        self.measured.iter().map(|(_, m)| m.sent_again).sum()
    }
}

/// Below this share of the peak a system livelocks.
const LIVELOCK: f64 = 0.05;

fn measure(seed: u64) -> Outcome {
    let curves = SYSTEMS.map(|architecture| Curve::measure(architecture, seed));
    let points = curves.iter().flat_map(Curve::points).collect();
    let [bsd, soft, ni] = curves;
    let keeps = |curve: &Curve| curve.last().transfers / curve.peak();
    let at_channel: Vec<f64> = [soft.at_channel(), ni.at_channel()].concat();
    let livelock = bsd.onset(|m| m.transfers < LIVELOCK * bsd.peak());
    let overflow = bsd.onset(|m| m.ip_queue > 0.0);
    let [low, high] = [-POINTS, POINTS].map(|points| paper::SOFT_KEEPS + points);
    let checks = vec![
        calibrated("cost.open", Paper, "4.4BSD serves less than 5 % of its peak from (SYNs/s)").near(
            paper::BSD_LIVELOCK,
            livelock,
            0.10,
        ),
        calibrated("flood's bursts", Paper, "4.4BSD drops at the IP queue from (SYNs/s)").near(
            paper::BSD_IP_DROPS,
            overflow,
            0.10,
        ),
        // 20000 interruptions of 25 µs are half a second.
        calibrated(INTERRUPTION, Paper, "SOFT-LRP at 20000/s, share of its peak")
            .within([low, high], &[keeps(&soft)]),
        predicted(Words, "SYNs that die at the channel, LRP systems").within([0.99, 1.01], &at_channel),
        predicted(Words, "HTTP segments sent again by the clients, LRP systems")
            .within([0.0, 0.0], &[soft.sent_again(), ni.sent_again()]),
        predicted(Ours, "NI-LRP (ours) at 20000/s, share of its peak").within([0.98, 1.0], &[keeps(&ni)]),
    ];
    Outcome::new("flood (SYNs/s)", "HTTP transfers/s", points, checks)
}

const INTERRUPTION: &str = "cost.interrupt, cost.receive, cost.demultiplex, cost.enqueue";
/// The tolerance of a share.
const POINTS: f64 = 0.03;
