//! The machines of the LRP paper's experiments: SPARCstations on a 155 Mbit/s network.

use evenkeel::raw::drops::{LinkDrop, QueueDrop, Reason};
use evenkeel::raw::host::{Config, Scheduling};
use evenkeel::raw::receive::{Architecture, DeviceWork};
use evenkeel::raw::tcp::ListenerConfig;
use evenkeel::raw::time::{Duration, Instant};
use evenkeel::raw::wire::{IpCidr, Ipv4Address};
use evenkeel_sim::machine::{Costs, Machine};
use evenkeel_sim::net::Conditions;
use evenkeel_sim::packet::{Station, address_of_nobody, flood_syn};
use evenkeel_sim::rng::Ratio;
use evenkeel_sim::traffic::{Flow, Pattern};
use evenkeel_sim::world::{HostId, Port, SegmentId, World, hardware_address};

use crate::old_tcp::{SOCKET_BUFFER, tcp_of_the_time};

/// The limit of the shared IP queue: `IFQ_MAXLEN` of 4.4BSD.
const IP_QUEUE_PKTS: usize = 50;
/// The datagrams that a socket queue, or a channel, holds. The paper does not give it. With this value both
/// systems lose their first datagram where the paper's did, within 7 %.
const SOCKET_QUEUE_PKTS: usize = 96;
/// The sender is a process with a timer, behind a switch, so its packets arrive one by one or in pairs. With
/// this pattern the IP queue first overflows where it did in the paper.
const PATTERN: Pattern = Pattern::Bursts { mean_pkts: Ratio::new(3, 2), gap: Duration::from_micros(20) };
/// The sender of the SYNs needs no socket call for each, so due packets leave in longer bursts. With these
/// the IP queue first overflows where it did in the paper.
const FLOOD_PATTERN: Pattern =
    Pattern::Bursts { mean_pkts: Ratio::new(5, 2), gap: Duration::from_micros(35) };
/// Bytes of payload of a datagram (O96.F3.size).
const PAYLOAD_BYTES: usize = 14;

/// The parameters that differ between experiments.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tuning {
    /// The datagrams that a socket queue, or a channel, holds.
    pub(crate) socket_queue_pkts: Option<usize>,
}

/// Adds a SPARCstation that runs one of the paper's systems.
pub(crate) fn add_machine(
    world: &mut World,
    segment: SegmentId,
    architecture: Architecture,
    address: Ipv4Address,
) -> HostId {
    add_machine_with(world, segment, architecture, address, Tuning::default())
}

/// Adds a machine that takes no time for anything, to play the part of those that were not measured.
pub(crate) fn add_free_machine(world: &mut World, segment: SegmentId, address: Ipv4Address) -> HostId {
    let config = Config { tcp: tcp_of_the_time(1), ..Config::of(Architecture::Polled) };
    let port = Port::new(segment, IpCidr::new(address.into(), 24)).with_conditions(wire());
    world.add_host(config, Costs::FREE, &[port]).expect("the defaults have room for one interface")
}

pub(crate) fn add_machine_with(
    world: &mut World,
    segment: SegmentId,
    architecture: Architecture,
    address: Ipv4Address,
    tuning: Tuning,
) -> HostId {
    let socket_queue_pkts = tuning.socket_queue_pkts.unwrap_or(SOCKET_QUEUE_PKTS);
    let config = Config {
        // This is as in the paper; polled device work is evenkeel's default.
        device_work: DeviceWork::Interrupt,
        feedback: None,
        ip_queue_pkts: IP_QUEUE_PKTS,
        socket_queue_pkts,
        channel_pkts: socket_queue_pkts,
        batch_pkts: 1,
        memory_pkts: 1 << 17,
        scheduler: Scheduling::DecayUsage,
        tcp: tcp_of_the_time(1),
        ..Config::of(architecture)
    };
    let machine = machine();
    let port = Port::new(segment, IpCidr::new(address.into(), 24)).with_conditions(wire());
    world
        .add_host(config, machine.costs(architecture), &[port])
        .expect("the defaults have room for one interface")
}

pub(crate) fn machine() -> Machine {
    Machine::built_in("sparcstation-20").expect("a test checks the built-in models")
}

/// Returns the options of a listener of the time: no cookies, and as many half-open connections as 4.4BSD
/// lets a backlog have, three halves of it.
pub(crate) fn listener(backlog: usize) -> ListenerConfig {
    ListenerConfig {
        backlog,
        syn_queue: backlog * 3 / 2,
        syn_cookies: false,
        // A connection is given up after about 75 seconds.
        syn_ack_retries: 3,
        syn_ack_timeout: Duration::from_secs(6),
        window: SOCKET_BUFFER as u16,
        window_scale: None,
        sack_permitted: false,
        timestamps: false,
        ecn: false,
        fast_open: 0,
        mss_max: ListenerConfig::default().mss_max,
    }
}

/// Adds a machine that floods a port of a host with SYNs from `start` on, each from another address that does
/// not exist and another port.
pub(crate) fn add_syn_flood(
    world: &mut World,
    segment: SegmentId,
    to: (HostId, Ipv4Address, u16),
    rate_pps: u64,
    start: Instant,
) -> evenkeel_sim::world::SourceId {
    let mut flow = blast(to, rate_pps, start);
    flow.pattern = FLOOD_PATTERN;
    let Flow { from, to, .. } = flow;
    world.add_source_of(segment, flow, wire(), move |_, rng| {
        let address = address_of_nobody(rng);
        flood_syn(Station { address, ..from }, to, rng)
    })
}

/// Adds a machine that sends short datagrams to a port of a host from `start` on, whatever their fate.
pub(crate) fn add_blaster(
    world: &mut World,
    segment: SegmentId,
    to: (HostId, Ipv4Address, u16),
    rate_pps: u64,
    start: Instant,
) -> evenkeel_sim::world::SourceId {
    world.add_source(segment, blast(to, rate_pps, start), wire())
}

fn blast(to: (HostId, Ipv4Address, u16), rate_pps: u64, start: Instant) -> Flow {
    let (host, address, port) = to;
    Flow {
        from: Station {
            hardware: hardware_address(usize::from(BLASTER), 0),
            address: Ipv4Address::new(10, 0, 0, BLASTER),
            port: 4000,
        },
        to: Station { hardware: hardware_address(host.0, 0), address, port },
        payload_bytes: PAYLOAD_BYTES,
        rate_pps,
        pattern: PATTERN,
        start,
        stop: Instant::NEVER,
    }
}

/// The number of the blaster's station, beyond those of the hosts.
const BLASTER: u8 = 200;

/// Returns the conditions of a wire of 155 Mbit/s (O96.m.net), through a switch.
fn wire() -> Conditions {
    Conditions::wire(155_000_000, Duration::from_micros(5), 1000)
}

/// Packets that a machine has lost so far, by place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lost {
    pub(crate) ip_queue: u64,
    pub(crate) socket: u64,
    pub(crate) channel: u64,
    pub(crate) ring: u64,
    /// Losses for any other reason, such as lack of a buffer.
    pub(crate) elsewhere: u64,
}

impl Lost {
    /// Returns the losses of `host`. Frames that found no room in an adaptor of any host are included.
    pub(crate) fn by(world: &World, host: HostId) -> Self {
        let (host, missed) = (world.host(host), world.arrivals_missed());
        let drops = |reason: Reason| host.ledger().input_drops(reason);
        // An adaptor that demultiplexes sheds frames that find their channel full; any other sheds at its
        // receive ring.
        let (at_channel, at_ring) =
            if host.config().architecture == Architecture::NiLrp { (missed, 0) } else { (0, missed) };
        let named = [QueueDrop::IpQueue.into(), QueueDrop::Socket.into(), QueueDrop::Channel.into()];
        let [ip_queue, socket, channel] = named.map(drops);
        let ring = drops(LinkDrop::RingFull.into());
        let all = host.ledger().drops().map(|(_, input, _)| input).sum::<u64>();
        Self {
            ip_queue,
            socket,
            channel: channel + at_channel,
            ring: ring + at_ring,
            elsewhere: all - ip_queue - socket - channel - ring,
        }
    }

    pub(crate) const fn everywhere(self) -> u64 {
        self.ip_queue + self.socket + self.channel + self.ring + self.elsewhere
    }
}
