//! TCP between whole hosts, in virtual time, under every receive architecture.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use evenkeel_core::host::{Config, Host};
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::Endpoint;
use evenkeel_core::tcp::{Counter, ListenerConfig};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr};
use evenkeel_sim::machine::Costs;
use evenkeel_sim::net::Conditions;
use evenkeel_sim::streams::{Outcome, StreamClient, StreamEcho};
use evenkeel_sim::world::{HostId, Port, World};

const PORT: u16 = 7;

fn cidr(last: u8, v6: bool) -> IpCidr {
    if v6 {
        IpCidr::new(IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)), 64)
    } else {
        IpCidr::new(IpAddress::v4(10, 0, 0, last), 24)
    }
}

struct Pair {
    world: World,
    server: HostId,
    client: HostId,
    to: Endpoint,
}

fn pair(architecture: Architecture, conditions: Conditions, v6: bool, seed: u64) -> Pair {
    let mut world = World::new(seed);
    let segment = world.add_segment();
    let mut host = |last, seed| {
        let config = Config { seed, ..Config::of(architecture) };
        // Wires without a rate bring whole windows at once.
        let port = Port { ring_pkts: 4096, ..Port::new(segment, cidr(last, v6)).with_conditions(conditions) };
        world.add_host(config, Costs::FREE, &[port]).unwrap()
    };
    let (client, server) = (host(1, seed ^ 1), host(2, seed ^ 2));
    Pair { world, server, client, to: Endpoint::new(cidr(2, v6).address(), PORT) }
}

fn settled(host: &Host) {
    host.check().unwrap();
    assert!(host.tcp().is_empty(), "{:?}", host.tcp());
    assert_eq!(host.segments_waiting(), 0);
}

#[test]
fn what_is_sent_comes_back_under_every_architecture() {
    for architecture in Architecture::ALL {
        for v6 in [false, true] {
            let wire = Conditions { delay: Duration::from_micros(50), ..Conditions::PERFECT };
            let Pair { mut world, server, client, to } = pair(architecture, wire, v6, 1);
            let (echo, accepted) = StreamEcho::new(PORT, ListenerConfig::default());
            world.host_mut(server).spawn("echo", 0, Box::new(echo));
            world.run_until(Instant::from_millis(10));
            let (asks, outcomes) = StreamClient::new(to, 20, 4, 100_000);
            world.host_mut(client).spawn("client", 0, Box::new(asks));
            world.run_until(Instant::from_millis(70_000));
            assert_eq!(outcomes.take(), [Outcome::Echoed; 20], "{architecture} v6 {v6}");
            assert_eq!(accepted.get(), 20);
            settled(world.host(server));
            settled(world.host(client));
            // Where a connection gets a ring of its own after its first segments, those may come out of order.
            let again = world.host(client).tcp_counters().get(Counter::RetransSegs);
            assert!(
                again <= if architecture == Architecture::NiLrp { 20 } else { 0 },
                "{architecture}: {again}"
            );
            assert_eq!(world.host(client).tcp().waiting(), 0);
        }
    }
}
