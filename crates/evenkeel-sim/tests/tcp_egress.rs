//! Tests of one host with a slow interface and a fast one, and streams over both: neither waits for the
//! other's output queue.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use evenkeel_core::host::Config;
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::{InterfaceId, IpEndpoint, Route, Via};
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr};
use evenkeel_sim::bulk::{Copying, StreamSink, StreamSource};
use evenkeel_sim::machine::Costs;
use evenkeel_sim::net::Conditions;
use evenkeel_sim::streams::{Outcome, StreamClient, StreamEcho};
use evenkeel_sim::workload::Talker;
use evenkeel_sim::world::{HostId, Port, World};

const PORT: u16 = 9;
const COPYING: Copying = Copying { per_kib: Duration::ZERO };
/// The first second is for the growth of windows.
const FROM: Instant = Instant::from_millis(1_000);
const WINDOW: Duration = Duration::from_millis(500);

/// A wire, and the number of endless streams over it.
#[derive(Debug, Clone, Copy)]
struct Load {
    rate_bps: u64,
    streams: u16,
}

/// Enough streams that the sum of their windows exceeds the output queue.
const SLOW: Load = Load { rate_bps: 10_000_000, streams: 16 };
const FAST: Load = Load { rate_bps: 200_000_000, streams: 4 };

fn cidr(net: usize, host: u8) -> IpCidr {
    IpCidr::new(IpAddress::v4(10, 0, net as u8, host), 24)
}

/// One sender, and a receiver behind each of its interfaces.
struct Star {
    world: World,
    sender: HostId,
    receivers: Vec<HostId>,
}

impl Star {
    fn new(architecture: Architecture, loads: &[Load]) -> Self {
        let mut world = World::new(1);
        let segments: Vec<_> = loads.iter().map(|_| world.add_segment()).collect();
        let config = |seed| Config { seed, ..Config::of(architecture) };
        let port = |net: usize, host| {
            let wire = Conditions::wire(loads[net].rate_bps, Duration::from_micros(100), 1_024);
            let port = Port::new(segments[net], cidr(net, host)).with_conditions(wire);
            Port { ring_pkts: 1_024, transmit_ring_pkts: Some(32), ..port }
        };
        let ports: Vec<_> = (0..loads.len()).map(|net| port(net, 1)).collect();
        let sender = world.add_host(config(1), Costs::FREE, &ports).unwrap();
        let nets = 0..loads.len();
        let mut receiver = |net| {
            let mut ports = vec![port(net, 2)];
            if net > 0 {
                // There is another path to it, through the first net.
                ports.push(port(0, 2 + net as u8));
            }
            world.add_host(config(2 + net as u64), Costs::FREE, &ports).unwrap()
        };
        let receivers = nets.map(&mut receiver).collect();
        let mut star = Self { world, sender, receivers };
        for (net, load) in loads.iter().enumerate() {
            (PORT..PORT + load.streams).for_each(|port| star.add_stream(net, port));
        }
        star
    }

    fn add_stream(&mut self, net: usize, port: u16) {
        let (sink, _) = StreamSink::new(port, ListenerConfig::default(), COPYING);
        let source = StreamSource::new(IpEndpoint::new(cidr(net, 2).address(), port), usize::MAX, COPYING);
        self.world.host_mut(self.receivers[net]).spawn("sink", 0, Box::new(sink));
        self.world.host_mut(self.sender).spawn("source", 0, Box::new(source));
    }

    /// Returns the bytes received from each stream of each receiver.
    fn received(&self) -> Vec<Vec<u64>> {
        let of = |&host| {
            let bytes = self.world.host(host).tcp().connections().map(|(_, _, info)| info.counts.bytes_in);
            bytes.collect()
        };
        self.receivers.iter().map(of).collect()
    }

    /// Returns the bits per second of each stream of each receiver.
    fn measure(&mut self) -> Vec<Vec<u64>> {
        self.world.run_until(FROM);
        let before = self.received();
        self.world.run_until(FROM + WINDOW);
        let after = self.received();
        let rates = |(before, after): (&Vec<u64>, &Vec<u64>)| {
            let bits = before.iter().zip(after).map(|(before, after)| (after - before) * 8);
            bits.map(|bits| bits * 1_000 / WINDOW.as_millis() as u64).collect()
        };
        before.iter().zip(&after).map(rates).collect()
    }
}

/// Returns the greatest payload rate of a wire, in bit/s: 1448 bytes of each frame, which takes the time of
/// 1538.
fn payload_bps(load: Load) -> u64 {
    load.rate_bps * 1_448 / 1_538
}

#[test]
fn a_fast_interface_does_not_wait_for_a_slow_one() {
    for architecture in Architecture::ALL {
        for loads in [[SLOW, FAST], [FAST, SLOW]] {
            let mut star = Star::new(architecture, &loads);
            let rates = star.measure();
            for (load, rates) in loads.iter().zip(rates) {
                let (sum, wire) = (rates.iter().sum::<u64>(), payload_bps(*load));
                assert!(sum * 100 >= wire * 97, "{architecture}: {sum} of {wire} bit/s");
                // Windows differ, but no stream starves.
                let least = rates.iter().min().copied().unwrap_or_default();
                assert!(least * u64::from(load.streams) * 2 >= wire, "{architecture}: {rates:?}");
            }
            let sender = star.world.host(star.sender);
            for interface in [0, 1].map(InterfaceId) {
                let traffic = sender.traffic(interface).unwrap();
                assert_eq!(traffic.dropped, 0, "{architecture}: {traffic:?}");
                assert!(traffic.queued > 128, "both are full: {architecture}: {traffic:?}");
            }
            star.world.hosts().for_each(|(_, host)| host.check().unwrap());
            // No process spins while it waits for room.
            let traffic = [0, 1].map(|n| sender.traffic(InterfaceId(n)).unwrap());
            let frames: u64 = traffic.iter().map(|traffic| traffic.transmitted + traffic.received).sum();
            let units = star.world.cpu(star.sender).counters().units;
            assert!(units < 4 * frames, "{architecture}: {units} units for {frames} frames");
        }
    }
}

/// Connections over the fast interface, both passive and active, open while the slow one's queue is full.
#[test]
fn new_connections_do_not_wait_for_a_slow_interface() {
    for architecture in Architecture::ALL {
        for (opens, serves) in [(0, 1), (1, 0)] {
            let took = [0, SLOW.streams].map(|streams| {
                let idle = Load { streams: 0, ..FAST };
                let mut star = Star::new(architecture, &[Load { streams, ..SLOW }, idle]);
                let ends = [star.sender, star.receivers[1]];
                let (echo, _) = StreamEcho::new(7, ListenerConfig::default());
                star.world.host_mut(ends[serves]).spawn("echo", 0, Box::new(echo));
                star.world.run_until(FROM);
                let to = IpEndpoint::new(cidr(1, serves as u8 + 1).address(), 7);
                let (client, outcomes) = StreamClient::new(to, 20, 1, 5_000);
                star.world.host_mut(ends[opens]).spawn("client", 0, Box::new(client));
                let mut echoed = 0;
                while echoed < 20 {
                    star.world.run_until(star.world.now() + Duration::from_micros(100));
                    echoed +=
                        outcomes.take().into_iter().filter(|&outcome| outcome == Outcome::Echoed).count();
                }
                star.world.now().since(FROM)
            });
            assert!(took[1] <= took[0] * 11 / 10, "{architecture}: {took:?}");
        }
    }
}

/// Creates a star with a stream to the receiver behind the fast interface that takes a detour through the
/// slow one, among many. Returns the route.
fn with_detour(architecture: Architecture, slow: Load) -> (Star, Route) {
    let mut star = Star::new(architecture, &[slow, Load { streams: 0, ..FAST }]);
    let [fast, slow] = [cidr(1, 2), cidr(0, 3)].map(|cidr| cidr.address());
    let to = IpCidr::new(fast, 32);
    let detour = Route { to, via: Via::Gateway(InterfaceId(0), slow), metric: 0 };
    star.world.host_mut(star.sender).set_route(detour.clone()).unwrap();
    star.add_stream(1, PORT);
    (star, detour)
}

/// A connection through the slow interface uses the fast one as soon as its route does.
#[test]
fn a_connection_goes_with_its_route() {
    for architecture in Architecture::ALL {
        let (mut star, detour) = with_detour(architecture, SLOW);
        let by_the_slow_one = star.measure()[1][0];
        assert!(by_the_slow_one < SLOW.rate_bps / 4, "{architecture}: {by_the_slow_one} bit/s");
        assert!(star.world.host_mut(star.sender).remove_route(&detour));
        let before = star.received()[1][0];
        star.world.run_until(star.world.now() + WINDOW);
        let bps = (star.received()[1][0] - before) * 8 * 1_000 / WINDOW.as_millis() as u64;
        assert!(bps > SLOW.rate_bps * 3, "{architecture}: {bps} bit/s");
    }
}

/// A connection leaves an interface that never has room: a frame takes about a second, and datagrams keep the
/// queue full.
#[test]
fn a_connection_is_not_stuck_behind_an_interface_that_its_route_has_left() {
    const STUCK: Load = Load { rate_bps: 10_000, streams: 0 };
    for architecture in Architecture::ALL {
        let (mut star, detour) = with_detour(architecture, STUCK);
        star.world.run_until(Instant::from_millis(5_000));
        let to = IpEndpoint::new(cidr(0, 2).address(), PORT);
        let (gap, rng) = (Duration::from_millis(5), star.world.fork_rng());
        let (talker, _) = Talker::new(1, vec![to], gap, Instant::NEVER, rng);
        star.world.host_mut(star.sender).spawn("talker", 0, Box::new(talker));
        star.world.run_until(Instant::from_millis(20_000));
        let queued = |star: &Star| star.world.host(star.sender).traffic(InterfaceId(0)).unwrap().queued;
        assert!(queued(&star) >= 192, "{architecture}: {} wait", queued(&star));
        let before = star.received()[1][0];
        assert!(star.world.host_mut(star.sender).remove_route(&detour));
        // This leaves time to retransmit the segments lost in that queue.
        star.world.run_until(star.world.now() + Duration::from_secs(10));
        assert!(queued(&star) >= 192, "{architecture}: {} wait", queued(&star));
        let bytes = star.received()[1][0] - before;
        assert!(bytes > 100_000, "{architecture}: {bytes} bytes");
    }
}
