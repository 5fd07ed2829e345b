//! TCP endpoints against theory: how much gets through a bottleneck, and who gets it.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_core::tcp::congestion::Algorithm;
use evenkeel_core::tcp::endpoint::{EndpointEvent, ListenAt};
use evenkeel_core::tcp::recovery::{RecoveryConfig, RecoveryInfo};
use evenkeel_core::tcp::table::Id;
use evenkeel_core::tcp::{EndpointConfig, ListenerConfig};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_sim::net::Conditions;
use evenkeel_sim::tcp::{Change, Direction, Network, User};

const SERVER: usize = 0;
const CLIENT: usize = 1;
const SINK: ListenAt = ListenAt { address: None, port: 9 };

/// Clients that send without end to a server that reads everything.
#[derive(Default)]
struct Bulk {
    senders: Vec<Id>,
    /// Bytes read, by the client's port.
    read: BTreeMap<u16, u64>,
    ports: BTreeMap<Id, u16>,
}

impl User for Bulk {
    fn event(&mut self, network: &mut Network, node: usize, event: EndpointEvent) {
        match event {
            EndpointEvent::Acceptable(at) => {
                while let Some(id) = network.endpoint_mut(node).accept(&at) {
                    let port = network.endpoint(node).tuple(id).expect("just accepted").remote.port;
                    self.ports.insert(id, port);
                }
            }
            EndpointEvent::Connection(id, _) if node == SERVER => {
                let mut buffer = [0; 65_536];
                let now = network.now();
                while let Ok(len) = network.endpoint_mut(node).read(id, &mut buffer, now) {
                    *self.read.entry(self.ports[&id]).or_default() += len as u64;
                }
            }
            EndpointEvent::Connection(id, _) => {
                while network.endpoint_mut(node).write(id, &[7; 16_384]).is_ok() {}
            }
        }
    }

    /// A flow begins.
    fn woken(&mut self, network: &mut Network, token: u64) {
        let tuple = network.tuple((CLIENT, 1_000 + token as u16), (SERVER, SINK.port), false);
        let now = network.now();
        let id = network.endpoint_mut(CLIENT).connect(tuple, Network::mss(false), now).expect("a free port");
        self.senders.push(id);
    }
}

/// A way of `rate_bps` with a queue of one bandwidth-delay product.
struct Bottleneck {
    rate_bps: u64,
    rtt: Duration,
    /// The largest window that the server offers, in bytes.
    window: usize,
}

/// Bytes of a full segment as the network counts them: header, timestamps, and what Ethernet adds. And its
/// payload.
const ON_THE_WIRE: u64 = 1_480 + 24;
const PAYLOAD: u64 = 1_448;

impl Bottleneck {
    fn new(rate_bps: u64, rtt: Duration) -> Self {
        Self { rate_bps, rtt, window: 16 << 20 }
    }

    fn segment_time(&self) -> Duration {
        Duration::from_nanos(ON_THE_WIRE * 8 * 1_000_000_000 / self.rate_bps)
    }

    fn product(&self) -> usize {
        (self.rtt.as_nanos() / self.segment_time().as_nanos()) as usize
    }

    /// Segments a second.
    fn capacity(&self) -> f64 {
        1.0 / self.segment_time().as_secs_f64()
    }
}

struct Flows {
    network: Network,
    bulk: Bulk,
}

impl Flows {
    /// So many flows that begin one after the other, `apart`.
    fn new(path: &Bottleneck, algorithm: Algorithm, flows: u64, apart: Duration, seed: u64) -> Self {
        let mut network = Network::new(seed);
        let recovery = Arc::new(RecoveryConfig { algorithm, ..RecoveryConfig::default() });
        let mut config = EndpointConfig::default();
        let connection = Arc::make_mut(&mut config.connection);
        connection.recovery = recovery;
        connection.receive_buffer_max = path.window;
        network.add(config.clone());
        network.add(config);
        let there = Conditions::wire(path.rate_bps, path.rtt / 2, path.product());
        // Acknowledgments are a little late, each by another time: what is exactly periodic always hits the
        // same flow (Floyd and Jacobson, "Traffic phase effects in packet-switched gateways", 1991).
        let back = Conditions { delay: path.rtt / 2, jitter: path.segment_time() * 2, ..Conditions::PERFECT };
        network.join(CLIENT, SERVER, [there, back]);
        network.endpoint_mut(SERVER).listen(SINK, &ListenerConfig::default(), None).expect("nobody listens");
        for flow in 0..flows {
            network.wake(apart * flow as u32, flow);
        }
        Self { network, bulk: Bulk::default() }
    }

    /// What each flow got through in that time, in segments.
    fn run(&mut self, seconds: u64) -> Vec<f64> {
        let before = self.bulk.read.clone();
        let until = self.network.now() + Duration::from_secs(seconds);
        self.network.run(&mut self.bulk, until).expect("time passes");
        let more = |(port, read): (&u16, &u64)| read - before.get(port).copied().unwrap_or(0);
        self.bulk.read.iter().map(|each| more(each) as f64 / PAYLOAD as f64).collect()
    }
}

fn algorithms() -> [Algorithm; 2] {
    [Algorithm::NewReno, Algorithm::Cubic]
}

#[test]
fn the_bottleneck_is_never_idle() {
    let path = Bottleneck::new(20_000_000, Duration::from_millis(50));
    for algorithm in algorithms() {
        for flows in [1, 2, 4, 16] {
            let mut world = Flows::new(&path, algorithm, flows, Duration::from_millis(200), 1);
            // Slow start is over.
            world.run(5);
            let got: f64 = world.run(20).iter().sum();
            let used = got / (20.0 * path.capacity());
            let full = world.network.counters(Direction { link: 0, back: false }).overflowed;
            println!("{algorithm:?}, {flows} flows: {used:.3} of the bottleneck, {full} dropped");
            assert!(used > 0.95, "{algorithm:?}, {flows} flows use {used}");
            assert!(full > 0, "the queue was full now and then");
        }
    }
}

/// Slow start doubles the window with every round trip, and the receiver's has to keep ahead of it: ten
/// segments are 500 after six of them.
#[test]
fn a_long_path_is_full_after_a_dozen_round_trips() {
    for (rate_bps, rtt_ms) in [(100_000_000, 60), (40_000_000, 200)] {
        let path = Bottleneck::new(rate_bps, Duration::from_millis(rtt_ms));
        let mut world = Flows::new(&path, Algorithm::Cubic, 1, Duration::ZERO, 1);
        let warm_up = world.network.now() + path.rtt * 12;
        world.network.run(&mut world.bulk, warm_up).expect("time passes");
        let used = world.run(3)[0] / (3.0 * path.capacity());
        println!("{} segments, {rtt_ms} ms: {used:.3} of the path", path.product());
        assert!(used > 0.9, "{used}");
    }
}

/// A full queue drops a segment or two, and so one flow or two reduce their windows: which, is chance. How
/// long it takes until that evens out goes by the number of reductions. A flow that has its share reduces its
/// window once in w / 2 round trips (Reno), w being 2 B / n of n flows that share B, the bandwidth-delay
/// product, and the round trip twice that without a queue. In a model of that without packets the worst of 16
/// shares is 14 % off after 200 reductions of each flow, and 8 % after 600. Where four flows share 166
/// segments at 50 ms, that is 340 s (6 %); here it is less than a minute.
#[test]
fn equal_flows_have_equal_shares() {
    for algorithm in algorithms() {
        for flows in [2, 4, 8, 16] {
            let path = Bottleneck::new(6_000_000 * flows, Duration::from_millis(10));
            let reduction = path.rtt * 2 * path.product() as u32 / flows as u32;
            let seconds = (reduction * 50 * flows as u32).as_secs() + 1;
            let mut world = Flows::new(&path, algorithm, flows, Duration::from_millis(100), 1);
            world.run(3);
            let got = world.run(seconds);
            let fair = got.iter().sum::<f64>() / flows as f64;
            let worst = got.iter().map(|share| (share / fair - 1.0).abs()).fold(0.0, f64::max);
            println!("{algorithm:?}, {flows} flows, {seconds} s: the worst share is {worst:.3} off");
            assert!(worst < 0.1, "{algorithm:?}, {flows} flows: {got:?}");
        }
    }
}

/// One flow, and everything vanishes for so long, some time after the beginning. Returns the longest time in
/// which the server could read nothing, and what its sender says.
fn longest_pause(rtt: Duration, hole: Duration, after: Duration) -> (Duration, RecoveryInfo) {
    let path = Bottleneck::new(100_000_000, rtt);
    // The server's window nearly fills the path: nothing else is lost.
    let path = Bottleneck { window: path.product() * PAYLOAD as usize * 9 / 10, ..path };
    let mut world = Flows::new(&path, Algorithm::Cubic, 1, Duration::ZERO, 1);
    let there = Direction { link: 0, back: false };
    let at = Instant::from_millis(1_600) + after;
    world.network.change(at, there, Change::Hole(true));
    world.network.change(at + hole, there, Change::Hole(false));
    let (mut longest, mut since) = (Duration::ZERO, at);
    let mut read = None;
    while world.network.now() < at + rtt * 8 {
        let until = world.network.now() + Duration::from_micros(200);
        world.network.run(&mut world.bulk, until).expect("time passes");
        if read.replace(world.bulk.read.clone()) != Some(world.bulk.read.clone()) {
            longest = longest.max(until.since(since.max(at)));
            since = until;
        }
    }
    let sender = world.network.endpoint(CLIENT).connection(world.bulk.senders[0]).expect("it sends");
    (longest, sender.info().recovery)
}

/// A lost segment is sent again as soon as three later ones have arrived (RFC 8985, 6.2, step 4: nothing was
/// ever out of order), and so what the user cannot read for want of it comes a round trip later than it would
/// have. That is so whether one segment is lost, or some, or half a window.
#[test]
fn what_is_lost_comes_a_round_trip_later() {
    for rtt_ms in [20, 60] {
        let rtt = Duration::from_millis(rtt_ms);
        for (hole, least, most) in [(Duration::from_micros(300), 1, 6), (rtt / 20, 5, 60), (rtt / 3, 20, 400)]
        {
            // The short one may find nothing to destroy.
            let mut tries = (0..10).map(|n| longest_pause(rtt, hole, rtt * n / 10));
            let found = tries.find(|(_, recovery)| recovery.retransmitted_segments > 0);
            let (pause, recovery) = found.expect("something is lost");
            let again = recovery.retransmitted_segments;
            println!(
                "{rtt_ms} ms, {again} segments lost: {:.3} round trips",
                pause.as_secs_f64() / rtt.as_secs_f64()
            );
            assert!((least..=most).contains(&again), "{recovery:?}");
            assert_eq!(
                (recovery.timeouts, recovery.probes, recovery.fast_recoveries),
                (0, 0, 1),
                "{recovery:?}"
            );
            assert!(
                pause > rtt && pause < hole + rtt * 11 / 10 + Duration::from_millis(3),
                "{pause:?}, {recovery:?}"
            );
        }
    }
}
