//! Flows of one sender over a bottleneck to a receiver that reads everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_core::tcp::congestion::Algorithm;
use evenkeel_core::tcp::endpoint::{EndpointEvent, ListenAt, Opening};
use evenkeel_core::tcp::recovery::{RecoveryConfig, RecoveryInfo, Start};
use evenkeel_core::tcp::table::Id;
use evenkeel_core::tcp::{Config, EndpointConfig, FourTuple, ListenerConfig};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_sim::net::Conditions;
use evenkeel_sim::rng::Ratio;
use evenkeel_sim::tcp::{Direction, Network, User};

const RECEIVER: usize = 0;
const SENDER: usize = 1;
const SINK: ListenAt = ListenAt { address: None, port: 9 };
/// The port of the first flow.
const FIRST_PORT: u16 = 1_000;
/// Bytes of a full segment, as the network counts them: the TCP header with timestamps, and the payload.
const SEGMENT: u64 = 1_480;
pub(crate) const PAYLOAD: u64 = 1_448;
/// Bytes of a packet: [`SEGMENT`] with the IP header, which the network does not count. The network does
/// count the bytes that Ethernet adds: preamble, gap and checksum.
pub(crate) const PACKET: u64 = SEGMENT + 20;
const ETHERNET: u64 = 24;
/// The direction from the sender to the receiver.
pub(crate) const THERE: Direction = Direction { link: 0, back: false };

/// A flow: its options, its amount of data, and its beginning.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub(crate) recovery: RecoveryConfig,
    pub(crate) bytes: u64,
    pub(crate) at: Duration,
    pub(crate) ecn: bool,
}

impl Flow {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        let recovery = RecoveryConfig { algorithm, ..RecoveryConfig::default() };
        Self { recovery, bytes: u64::MAX, at: Duration::ZERO, ecn: false }
    }

    pub(crate) fn start(start: Start) -> Self {
        let recovery = RecoveryConfig { start, ..RecoveryConfig::default() };
        Self { recovery, ..Self::new(Algorithm::Cubic) }
    }

    /// Returns `flows` copies, each of which begins `apart` after the previous one.
    pub(crate) fn times(&self, flows: u32, apart: Duration) -> Vec<Self> {
        (0..flows).map(|nth| self.clone().after(self.at + apart * nth)).collect()
    }

    pub(crate) fn bytes(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    pub(crate) fn after(self, at: Duration) -> Self {
        Self { at, ..self }
    }
}

/// The users of the flows, and the progress of the flows.
#[derive(Default)]
pub(crate) struct Flows {
    pub(crate) flows: Vec<Flow>,
    ids: BTreeMap<Id, usize>,
    senders: BTreeMap<usize, Id>,
    written: BTreeMap<usize, u64>,
    pub(crate) read: BTreeMap<u16, u64>,
    /// The time at which the last byte was read, by port.
    last: BTreeMap<u16, Instant>,
    ports: BTreeMap<Id, u16>,
    /// The times at which segments with payload left, by port. `None` if they are not recorded.
    pub(crate) left: Option<BTreeMap<u16, Vec<Instant>>>,
}

impl Flows {
    fn write(&mut self, network: &mut Network, id: Id) {
        let flow = self.ids[&id];
        let written = self.written.entry(flow).or_default();
        while *written < self.flows[flow].bytes {
            let some = (self.flows[flow].bytes - *written).min(16_384) as usize;
            match network.endpoint_mut(SENDER).write(id, &[7; 16_384][..some]) {
                Ok(taken) => *written += taken as u64,
                Err(_) => break,
            }
        }
    }

    fn config(flow: &Flow) -> Arc<Config> {
        Arc::new(Config {
            recovery: Arc::new(flow.recovery.clone()),
            ecn: flow.ecn,
            send_buffer_max: 32 << 20,
            ..Config::default()
        })
    }
}

impl User for Flows {
    fn event(&mut self, network: &mut Network, node: usize, event: EndpointEvent) {
        match event {
            EndpointEvent::Acceptable(at) => {
                while let Some(id) = network.endpoint_mut(node).accept(&at) {
                    let port = network.endpoint(node).tuple(id).expect("just accepted").remote.port;
                    self.ports.insert(id, port);
                }
            }
            EndpointEvent::Connection(id, _) if node == RECEIVER => {
                let mut buffer = [0; 65_536];
                let now = network.now();
                let Some(port) = self.ports.get(&id) else { return };
                while let Ok(len @ 1..) = network.endpoint_mut(node).read(id, &mut buffer, now) {
                    *self.read.entry(*port).or_default() += len as u64;
                    self.last.insert(*port, now);
                }
            }
            EndpointEvent::Connection(id, _) => self.write(network, id),
        }
    }

    /// Begins the flow with the number `token`.
    fn woken(&mut self, network: &mut Network, token: u64) {
        let flow = token as usize;
        let tuple = network.tuple((SENDER, FIRST_PORT + token as u16), (RECEIVER, SINK.port), false);
        let (now, options) = (network.now(), Self::config(&self.flows[flow]));
        let opening = Opening { options: Some(&options), ..Opening::new(Network::mss(false)) };
        let (id, _) = network.endpoint_mut(SENDER).connect_as(tuple, &opening, now).expect("a free port");
        self.ids.insert(id, flow);
        self.senders.insert(flow, id);
    }

    fn sent(&mut self, network: &Network, node: usize, tuple: &FourTuple, segment: &[u8]) {
        if let Some(left) = self.left.as_mut().filter(|_| node == SENDER && segment.len() > 100) {
            left.entry(tuple.local.port).or_default().push(network.now());
        }
    }
}

/// The path that the flows share.
#[derive(Clone)]
pub(crate) struct Bottleneck {
    /// The rate in bits of packets a second, with their IP headers.
    pub(crate) rate_bps: u64,
    pub(crate) rtt: Duration,
    /// The most packets that wait. By default a bandwidth-delay product.
    pub(crate) queue: usize,
    /// The loss towards the receiver.
    pub(crate) loss: Ratio,
    /// The window that the receiver offers at first and at most, in bytes.
    pub(crate) window: [usize; 2],
}

impl Bottleneck {
    pub(crate) fn new(rate_bps: u64, rtt: Duration) -> Self {
        let initial = Config::default().receive_buffer_initial;
        let path = Self { rate_bps, rtt, queue: 0, loss: Ratio::ZERO, window: [initial, 32 << 20] };
        Self { queue: path.product(), ..path }
    }

    /// Makes the receiver offer the largest window, so that it is not a limit.
    pub(crate) const fn unbounded(mut self) -> Self {
        self.window = [16 << 20, 32 << 20];
        self
    }

    pub(crate) fn packet_time(&self) -> Duration {
        Duration::from_nanos(PACKET * 8 * 1_000_000_000 / self.rate_bps)
    }

    /// Returns the bandwidth-delay product, in packets.
    pub(crate) fn product(&self) -> usize {
        (self.rtt.as_nanos() / self.packet_time().as_nanos()) as usize
    }

    fn network(&self, seed: u64) -> Network {
        let mut network = Network::new(seed);
        let mut config = EndpointConfig::default();
        let connection = Arc::make_mut(&mut config.connection);
        [connection.receive_buffer_initial, connection.receive_buffer_max] = self.window;
        connection.ecn = true;
        network.add(config.clone());
        network.add(config);
        let wire = self.rate_bps * (SEGMENT + ETHERNET) / PACKET;
        let there = Conditions { loss: self.loss, ..Conditions::wire(wire, self.rtt / 2, self.queue) };
        // Acknowledgments have small, varying delays: exactly periodic events would always hit the same flow
        // (Floyd and Jacobson, "Traffic phase effects in packet-switched gateways", 1991).
        let back = Conditions { delay: self.rtt / 2, jitter: self.packet_time() * 2, ..Conditions::PERFECT };
        network.join(SENDER, RECEIVER, [there, back]);
        network
            .endpoint_mut(RECEIVER)
            .listen(SINK, &ListenerConfig::default(), None)
            .expect("nobody listens");
        network
    }

    /// Creates a world with these flows over the path.
    pub(crate) fn with(&self, flows: &[Flow], seed: u64) -> World {
        let mut network = self.network(seed);
        for (number, flow) in flows.iter().enumerate() {
            network.wake(flow.at, number as u64);
        }
        World { network, path: self.clone(), flows: Flows { flows: flows.to_vec(), ..Flows::default() } }
    }
}

pub(crate) struct World {
    pub(crate) network: Network,
    path: Bottleneck,
    pub(crate) flows: Flows,
}

impl World {
    pub(crate) fn run(&mut self, time: Duration) {
        let until = self.network.now() + time;
        self.network.run(&mut self.flows, until).expect("time passes");
    }

    /// Runs for this time and returns the payload of each flow in it, as a share of the bottleneck's
    /// capacity.
    pub(crate) fn shares(&mut self, time: Duration) -> Vec<f64> {
        let before = self.flows.read.clone();
        self.run(time);
        let carried = time.as_secs_f64() / self.path.packet_time().as_secs_f64() * PAYLOAD as f64;
        let got = |(port, read): (&u16, &u64)| (read - before.get(port).unwrap_or(&0)) as f64 / carried;
        self.flows.read.iter().map(got).collect()
    }

    pub(crate) fn info(&self, flow: usize) -> RecoveryInfo {
        let id = self.flows.senders[&flow];
        self.network.endpoint(SENDER).connection(id).expect("it is there").info().recovery
    }

    /// Gives the sender `bytes` more bytes to send.
    pub(crate) fn write_more(&mut self, flow: usize, bytes: u64) {
        self.flows.flows[flow].bytes += bytes;
        let id = self.flows.senders[&flow];
        self.flows.write(&mut self.network, id);
    }

    /// Returns the time from `since` until the receiver has read the last byte.
    pub(crate) fn transfer(&mut self, flow: usize, since: Instant) -> Duration {
        self.run(Duration::from_secs(30));
        let port = FIRST_PORT + flow as u16;
        assert_eq!(self.flows.read[&port], self.flows.flows[flow].bytes);
        self.flows.last[&port].since(since)
    }
}
