//! The livelock paper's network monitor in virtual time: `tcpdump` on a DECstation 3000/300 that sees the
//! traffic of other stations.

use evenkeel::raw::capture::{Capture, Filter, Tapped};
use evenkeel::raw::drops::QueueDrop;
use evenkeel::raw::host::Config;
use evenkeel::raw::time::{Duration, Instant};
use evenkeel::raw::wire::Ipv4Address;
use evenkeel_sim::daemons::{Tcpdump, Writing};
use evenkeel_sim::packet::Station;
use evenkeel_sim::traffic::Flow;
use evenkeel_sim::workload::Tally;
use evenkeel_sim::world::{HostId, SourceId, World, hardware_address};

use crate::experiment::Point;
use crate::router_setup::MonitorSetup;
use crate::router_testbed::{PAYLOAD_BYTES, START, bursts, keep_house, machine, port, program, wire};

/// The bytes of each frame that `tcpdump` captures (L97.F15.snap).
const SNAPLEN: usize = 68;
const PORT: u16 = 9;
const MONITOR: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const GENERATOR: u8 = 9;
const THIRD_HOST: u8 = 10;

/// A monitor under load.
#[derive(Debug)]
pub(crate) struct Monitor {
    world: World,
    host: HostId,
    source: SourceId,
    captured: Tally,
}

/// The rates of a monitor in a measured interval, per second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Captured {
    pub(crate) offered_pps: f64,
    pub(crate) captured_pps: f64,
    pub(crate) ring: f64,
    pub(crate) queue: f64,
}

/// A filter for packets to one UDP port, like `tcpdump udp port 9`.
#[derive(Debug)]
struct UdpPort(u16);

impl Filter for UdpPort {
    fn keep(&mut self, tapped: &Tapped<'_>) -> usize {
        let frame = tapped.bytes;
        let udp_over_ipv4 = frame.get(12..14) == Some(&[0x08, 0x00]) && frame.get(23) == Some(&17);
        let port = frame.get(36..38) == Some(&self.0.to_be_bytes());
        if udp_over_ipv4 && port { tapped.original_bytes() } else { 0 }
    }
}

impl Monitor {
    pub(crate) fn new(setup: &MonitorSetup, rate_pps: u64, seed: u64) -> Self {
        let mut world = World::new(seed);
        let segment = world.add_segment();
        let config = Config { batch_pkts: 1, seed, ..setup.config() };
        let costs = machine().costs(config.architecture);
        let host = world.add_host(config, costs, &[port(segment, MONITOR)]).expect("room for one interface");
        keep_house(&mut world, host);
        let wanted = Capture {
            filter: Some(Box::new(UdpPort(PORT))),
            snaplen: SNAPLEN,
            limit_pkts: MonitorSetup::QUEUE_PKTS,
            ..Capture::default()
        };
        let (tcpdump, captured) = Tcpdump::new(wanted, writing(setup));
        world.host_mut(host).spawn("tcpdump", 0, Box::new(tcpdump));
        let source = world.add_source(segment, flow(setup, rate_pps), wire());
        Self { world, host, source, captured }
    }

    pub(crate) fn measure(&mut self, warm_up: Duration, time: Duration) -> Captured {
        self.world.run_until(START + warm_up);
        let before = self.snapshot();
        self.world.run_until(START + warm_up + time);
        let after = self.snapshot();
        self.world.host(self.host).check().expect("the counters add up");
        let per_s = |index: usize| (after[index] - before[index]) as f64 / time.as_secs_f64();
        Captured { offered_pps: per_s(0), captured_pps: per_s(1), ring: per_s(2), queue: per_s(3) }
    }

    /// Returns the packets that were sent, captured, shed at the ring, and dropped at the capture queue.
    fn snapshot(&self) -> [u64; 4] {
        let ledger = self.world.host(self.host).ledger();
        let queue = ledger.input_drops(QueueDrop::Capture);
        [self.world.sent(self.source), self.captured.get(), self.world.arrivals_missed(), queue]
    }
}

impl Captured {
    pub(crate) fn point(&self, series: &str) -> Point {
        let more = [("ring_drops", self.ring), ("capture_queue_drops", self.queue)];
        Point::new(series, self.offered_pps, self.captured_pps).with(more)
    }
}

/// Returns the times of `tcpdump`. Its stdio writes 8 KiB at a time: records of 16 + 68 bytes.
fn writing(setup: &MonitorSetup) -> Writing {
    let flush = if setup.disk { program("write-to-disk") } else { Duration::ZERO };
    Writing { frame: program("tcpdump"), buffer_pkts: 8192 / (16 + SNAPLEN as u64), flush }
}

/// Returns the flow from the generator to a third host of the Ethernet (L97.F15.filter).
fn flow(setup: &MonitorSetup, rate_pps: u64) -> Flow {
    let station = |number: u8| Station {
        hardware: hardware_address(usize::from(number), 0),
        address: Ipv4Address::new(10, 0, 0, number),
        port: PORT,
    };
    Flow {
        from: station(GENERATOR),
        to: station(THIRD_HOST),
        payload_bytes: PAYLOAD_BYTES,
        rate_pps,
        pattern: bursts(setup.burst_ticks),
        start: START,
        stop: Instant::NEVER,
    }
}
