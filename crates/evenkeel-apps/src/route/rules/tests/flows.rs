//! Decisions about flows: they are those about each packet of the flow.

use evenkeel::raw::screen::{Depth, Flow, FlowScope};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::random::{address, any_rule, cases, port, set_of, tables};
use super::*;

fn scope_of(text: &str) -> FlowScope {
    Flows::new(&rules(text)).scope()
}

/// Returns whether the decision about a packet is about its flow.
fn holds(text: &str, packet: &Made) -> bool {
    let mut set = rules(text);
    set.bind(&["lan", "wan"]).unwrap();
    Flows::new(&set).holds(&packet.bytes(), 0, &mut World::default())
}

#[test]
fn the_scope_is_what_rules_distinguish() {
    assert_eq!(scope_of("block proto tcp flags S/SA\npass"), FlowScope::default());
    let scope = scope_of("block from 10.0.0.0/8 to 10.0.0.1\npass inet6 proto udp from fd00::/16 port 7");
    let expected = FlowScope {
        source: Depth { v4: 8, v6: 16 },
        destination: Depth { v4: 32, v6: 0 },
        source_port: true,
        destination_port: false,
    };
    assert_eq!(scope, expected);
    let table = "table <bad> { 10.0.0.0/8, !10.1.0.0/16 }\nblock proto udp to <bad> port 7";
    let destination = Depth { v4: 16, v6: 0 };
    assert_eq!(scope_of(table), FlowScope { destination, destination_port: true, ..FlowScope::default() });
    for whole in ["block from wan", "block from no-route", "block from urpf-failed"] {
        assert_eq!(scope_of(whole).source, Depth::WHOLE, "{whole}");
    }
    let range = scope_of("block from 10.0.0.1 - 10.0.0.9");
    assert_eq!(range.source, Depth { v4: 32, v6: 0 });
}

#[test]
fn decisions_that_depend_on_more_than_the_flow_are_about_the_packet() {
    let packet = udp("10.0.0.1", 1, "2.0.0.1", 9);
    let segment = tcp("10.0.0.1", "2.0.0.1", 9, 2);
    for text in [
        "",
        "block all",
        "block proto udp to port 9\npass quick to 2.0.0.0/8",
        // These match no packet of a flow.
        "block fragment",
        "block proto icmp icmp-type echoreq",
        // What comes later, or ends the evaluation, decides in any case.
        "block log less 100\npass",
        "pass quick\nblock log tos 8",
        "block log on wan",
        "block proto tcp flags S/SA",
    ] {
        assert!(holds(text, &packet), "{text}");
    }
    for text in [
        "block log",
        "block less 100",
        "block greater 100",
        "block tos 8",
        "block probability 50%",
        "block quick less 100\npass",
        "block log quick\npass",
        "match log\npass",
        "match tag x\nblock tagged x",
        "scrub in all no-df\nblock all",
    ] {
        assert!(!holds(text, &packet), "{text}");
    }
    assert!(!holds("block proto tcp flags S/SA", &segment));
    assert!(holds("block proto tcp flags S/SA\npass proto udp to port 9", &udp("10.0.0.1", 1, "2.0.0.1", 9)));
    assert!(holds("set skip on lan\nblock log", &packet));
}

/// The fields of a packet that its flow leaves open.
#[derive(Debug, Clone)]
struct Others {
    source: u128,
    destination: u128,
    ports: (u16, u16),
    tos: u8,
    flags: u8,
    more: usize,
    ttl: u8,
}

impl Others {
    /// Returns the packet with other fields, where those of the flow do not matter in the scope.
    fn of(&self, packet: &Made, scope: &FlowScope) -> Vec<u8> {
        let mut packet = packet.clone();
        let mix = |address: IpAddr, other: u128, depth: Depth| match address {
            IpAddr::V4(address) => {
                let mask = depth.mask_v4().to_bits();
                IpAddr::V4((address.to_bits() & mask | other as u32 & !mask).into())
            }
            IpAddr::V6(address) => {
                let mask = depth.mask_v6().to_bits();
                IpAddr::V6((address.to_bits() & mask | other & !mask).into())
            }
        };
        packet.from = mix(packet.from, self.source, scope.source);
        packet.to = mix(packet.to, self.destination, scope.destination);
        if !scope.source_port {
            packet.payload[..2].copy_from_slice(&self.ports.0.to_be_bytes());
        }
        if !scope.destination_port {
            packet.payload[2..4].copy_from_slice(&self.ports.1.to_be_bytes());
        }
        if packet.protocol == TCP {
            packet.payload[13] = self.flags;
        }
        packet.payload.extend(vec![0; self.more]);
        let mut bytes = packet.bytes();
        match packet.from {
            IpAddr::V4(_) => (bytes[1], bytes[8]) = (self.tos, self.ttl),
            IpAddr::V6(_) => (bytes[0], bytes[1], bytes[7]) = (0x60 | self.tos >> 4, self.tos << 4, self.ttl),
        }
        bytes
    }
}

fn others() -> impl Strategy<Value = Others> {
    let tos = select(vec![0_u8, 0x10, 0xb8, 0xb9]);
    (any::<u128>(), any::<u128>(), (port(), port()), tos, any::<u8>(), 0..90_usize, any::<u8>()).prop_map(
        |(source, destination, ports, tos, flags, more, ttl)| Others {
            source,
            destination,
            ports,
            tos,
            flags,
            more,
            ttl,
        },
    )
}

fn packet_of_flow() -> impl Strategy<Value = Made> {
    (address(), address(), select(vec![TCP, UDP]), (port(), port())).prop_filter_map(
        "two families",
        |(from, to, protocol, (source, destination))| {
            let mut payload = vec![0; 20];
            payload[..2].copy_from_slice(&source.to_be_bytes());
            payload[2..4].copy_from_slice(&destination.to_be_bytes());
            let made = Made { from, to, protocol, payload, piece: None, extensions: Vec::new() };
            (from.is_ipv4() == to.is_ipv4()).then_some(made)
        },
    )
}

/// A decision that holds for a flow is the decision about each of its packets, without a log and without
/// changes, and it counts for one rule.
#[test]
fn decisions_about_flows_are_those_about_each_packet() {
    let held = core::cell::Cell::new((0, 0));
    let mut runner = proptest::test_runner::TestRunner::new(cases());
    let strategy = (
        (vec(any_rule(false), 0..3), vec(any_rule(true), 0..12), any::<prop::sample::Index>()),
        tables(),
        vec((packet_of_flow(), 0..3_u8, vec(others(), 4)), 1..16),
    );
    let outcome = runner.run(&strategy, |((special, mut rules, place), tables, packets)| {
        let at = place.index(rules.len() + 1);
        rules.splice(at..at, special);
        let set = set_of(rules, tables);
        let flows = Flows::new(&set);
        for (packet, interface, all) in packets {
            let bytes = packet.bytes();
            let (count, total) = held.get();
            let holds = flows.holds(&bytes, interface, &mut World::default());
            held.set((count + usize::from(holds), total + 1));
            if !holds {
                continue;
            }
            let tally = Counters::new(&set);
            let decision = set.decide(&bytes, interface, &mut World::default(), &tally);
            prop_assert!(decision.log.is_none() && decision.changes.is_none(), "{set}");
            let flow = flows.scope().cut(&Flow::of(&bytes).unwrap());
            for (others, random) in all.iter().zip(0..) {
                let other = others.of(&packet, &flows.scope());
                prop_assert_eq!(flows.scope().cut(&Flow::of(&other).unwrap()), flow);
                let decided = set.decide(&other, interface, &mut World { random }, &tally);
                prop_assert_eq!(decided, decision, "{:02x?} and {:02x?}\n{}", bytes, other, set);
            }
            let counted: Vec<u64> =
                tally.counts().iter().map(|count| count.packets).filter(|packets| *packets > 0).collect();
            prop_assert_eq!(counted, if decision.rule.is_some() { vec![5] } else { vec![] });
        }
        Ok(())
    });
    outcome.unwrap();
    let (count, total) = held.get();
    assert!(count > total / 8 && count < total, "{count} of {total}");
}
