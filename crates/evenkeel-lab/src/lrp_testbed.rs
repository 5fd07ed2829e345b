//! The machines of the LRP paper, as its experiments use them: SPARCstations on a 155 Mbit/s network.

use evenkeel_core::Scheduling;
use evenkeel_core::host::Config;
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpCidr, Ipv4Address};
use evenkeel_sim::machine::Machine;
use evenkeel_sim::net::Conditions;
use evenkeel_sim::packet::Station;
use evenkeel_sim::rng::Ratio;
use evenkeel_sim::traffic::{Flow, Pattern};
use evenkeel_sim::world::{HostId, Port, SegmentId, World, hardware_address};

/// Limit of the shared IP queue: `IFQ_MAXLEN` of 4.4BSD.
const IP_QUEUE_PKTS: usize = 50;
/// Datagrams that a socket queue, or a channel, holds. The paper does not say; with this both systems lose their first datagram where
/// theirs did, within some 7 %.
const SOCKET_QUEUE_PKTS: usize = 96;
/// The sender is a process with a timer, behind a switch: what it sends comes one by one or in pairs. With this the IP queue first
/// overflows where it did in the paper.
const PATTERN: Pattern = Pattern::Bursts { mean_pkts: Ratio::new(3, 2), gap: Duration::from_micros(20) };
/// O96.F3.size.
const PAYLOAD_BYTES: usize = 14;

/// Adds a SPARCstation that runs one of the paper's systems.
pub(crate) fn add_machine(
    world: &mut World,
    segment: SegmentId,
    architecture: Architecture,
    address: Ipv4Address,
) -> HostId {
    let config = Config {
        // As in the paper; polled device work is what evenkeel does by default.
        device_work: DeviceWork::Interrupt,
        feedback: None,
        ip_queue_pkts: IP_QUEUE_PKTS,
        socket_queue_pkts: SOCKET_QUEUE_PKTS,
        channel_pkts: SOCKET_QUEUE_PKTS,
        batch_pkts: 1,
        scheduler: Scheduling::DecayUsage,
        ..Config::of(architecture)
    };
    let machine = Machine::built_in("sparcstation-20").expect("a test checks the built-in models");
    let port = Port::new(segment, IpCidr::new(address.into(), 24)).with_conditions(wire());
    world
        .add_host(config, machine.costs(architecture), &[port])
        .expect("the defaults have room for one interface")
}

/// Adds a machine that blasts short datagrams at a port of a host from `start` on, whatever becomes of them.
pub(crate) fn add_blaster(
    world: &mut World,
    segment: SegmentId,
    to: (HostId, Ipv4Address, u16),
    rate_pps: u64,
    start: Instant,
) -> evenkeel_sim::world::SourceId {
    let (host, address, port) = to;
    let flow = Flow {
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
    };
    world.add_source(segment, flow, wire())
}

/// The blaster's place, beyond those of the hosts.
const BLASTER: u8 = 200;

/// 155 Mbit/s (O96.m.net), through a switch.
fn wire() -> Conditions {
    Conditions::wire(155_000_000, Duration::from_micros(5), 1000)
}
