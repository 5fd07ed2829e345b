//! Verdicts about flows in the program, compared with a host that screens each packet.

use std::sync::{Arc, Mutex};

use evenkeel_core::host::System;
use evenkeel_core::offload::{Depth, Flow, FlowHits, FlowScope, FlowVerdict, Offload as _};
use evenkeel_core::process::{Program as Process, Step};
use evenkeel_core::screen::Verdict;
use evenkeel_core::system::Screen;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::offload::{Forwarding, HOP, Outcome, far_v4, far_v6, summed};
use super::*;

/// A rule about packets of one family. The first one that matches decides; without any, they pass.
#[derive(Debug, Clone, Copy)]
struct Rule {
    passes: bool,
    is_v4: bool,
    /// The first bits of addresses that must be those of the address.
    from: (IpAddress, u8),
    to: (IpAddress, u8),
    protocol: Option<u8>,
    source_port: Option<u16>,
    destination_port: Option<u16>,
    /// A length that packets must have, whatever their flow.
    length: Option<usize>,
}

impl Rule {
    fn is_in(address: IpAddress, (network, bits): (IpAddress, u8)) -> bool {
        let depth = Depth { v4: bits, v6: bits };
        let cut = |address| {
            let flow = Flow { source: address, ..NONE };
            FlowScope { source: depth, ..FlowScope::default() }.cut(&flow).source
        };
        cut(address) == cut(network)
    }

    /// Returns whether the rule may match packets of a flow.
    fn may_match(&self, flow: &Flow) -> bool {
        matches!(flow.source, IpAddress::Ipv4(_)) == self.is_v4
            && Self::is_in(flow.source, self.from)
            && Self::is_in(flow.destination, self.to)
            && self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && self.source_port.is_none_or(|port| port == flow.source_port)
            && self.destination_port.is_none_or(|port| port == flow.destination_port)
    }
}

const NONE: Flow = Flow {
    source: IpAddress::Ipv4(Ipv4Address::UNSPECIFIED),
    destination: IpAddress::Ipv4(Ipv4Address::UNSPECIFIED),
    protocol: 0,
    source_port: 0,
    destination_port: 0,
};

/// Rules, and the packets that they have decided about: their numbers and lengths, by account. The account of
/// packets that no rule matches is the number of rules, and packets of no flow have the next one.
#[derive(Debug, Default)]
struct Rules {
    rules: Vec<Rule>,
    decided: BTreeMap<u16, FlowHits>,
}

impl Rules {
    fn scope(&self) -> FlowScope {
        let depth = |side: fn(&Rule) -> (IpAddress, u8)| {
            let bits = |is_v4| {
                self.rules
                    .iter()
                    .filter(|rule| rule.is_v4 == is_v4)
                    .map(|rule| side(rule).1)
                    .max()
                    .unwrap_or(0)
            };
            Depth { v4: bits(true), v6: bits(false) }
        };
        FlowScope {
            source: depth(|rule| rule.from),
            destination: depth(|rule| rule.to),
            source_port: self.rules.iter().any(|rule| rule.source_port.is_some()),
            destination_port: self.rules.iter().any(|rule| rule.destination_port.is_some()),
        }
    }

    /// Returns the verdict about a packet, and whether it holds for its flow.
    fn decide(&self, packet: &[u8]) -> (FlowVerdict, bool) {
        let none = self.rules.len() as u16;
        let Some(flow) = Flow::of(packet) else {
            // In tests, every second one passes: what the program decides about it would show.
            return (FlowVerdict { passes: packet.len().is_multiple_of(2), account: none + 1 }, false);
        };
        let mut holds = true;
        for (rule, account) in self.rules.iter().zip(0..).filter(|(rule, _)| rule.may_match(&flow)) {
            holds &= rule.length.is_none();
            if rule.length.is_none_or(|length| length == packet.len()) {
                return (FlowVerdict { passes: rule.passes, account }, holds);
            }
        }
        (FlowVerdict { passes: true, account: none }, holds)
    }
}

/// The screening process of the host.
#[derive(Debug)]
struct Judge {
    queue: Option<Screen>,
    rules: Arc<Mutex<Rules>>,
}

impl Process for Judge {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let queue = *self.queue.get_or_insert_with(|| Screen::open(system, 32).unwrap());
        let judged = queue.decide(system, |transit| {
            let mut rules = self.rules.lock().unwrap();
            let (verdict, _) = rules.decide(transit.packet());
            let hits = rules.decided.entry(verdict.account).or_default();
            hits.packets += 1;
            hits.bytes += transit.packet().len() as u64;
            if verdict.passes { Verdict::Pass } else { Verdict::Drop }
        });
        if judged.is_ok() { Step::Again } else { Step::Wait(queue.fd()) }
    }
}

/// The program, and a host that screens by the same rules.
struct Screening {
    forwarding: Forwarding,
    rules: Arc<Mutex<Rules>>,
}

impl Screening {
    fn load() -> Option<Self> {
        let mut forwarding = Forwarding::load()?;
        let rules = Arc::<Mutex<Rules>>::default();
        let judge = Judge { queue: None, rules: Arc::clone(&rules) };
        forwarding.router.host.spawn("judge", 0, Box::new(judge));
        forwarding.router.leaving();
        Some(Self { forwarding, rules })
    }

    /// Replaces the rules, as a router does it: what the program has is taken back.
    fn replace(&mut self, rules: Vec<Rule>) {
        let forwarder = &mut self.forwarding.forwarder;
        forwarder.clear();
        forwarder.each_hit(&mut |_, _| {});
        // Verdicts are first asked for by the first one.
        let flow = Flow { source: v4(99).into(), destination: v4(99).into(), ..NONE };
        let judged = FlowVerdict { passes: false, account: 0 };
        *self.rules.lock().unwrap() = Rules { rules, decided: BTreeMap::new() };
        let scope = self.rules.lock().unwrap().scope();
        assert!(forwarder.judge(&scope.cut(&Flow { protocol: 6, ..flow }), &scope, judged));
        forwarder.clear();
        for far in [IpAddress::from(far_v4(1)), far_v6(1).into()] {
            assert!(forwarder.forward(far, &HOP));
        }
    }

    /// Runs the program and the host. The host must do what the program does. Hands the host's verdict over if
    /// it holds for the flow. Returns what the program did.
    fn compare(&mut self, frame: &[u8]) -> Outcome {
        let refused = |forwarding: &Forwarding| forwarding.router.host.ledger().input_drops(IpDrop::Refused);
        let before = refused(&self.forwarding);
        let decided = || self.rules.lock().unwrap().decided.clone();
        let earlier = decided();
        let outcome = self.forwarding.outcome(frame);
        let by_host = self.forwarding.router.forward(frame);
        let mut by_program = BTreeMap::new();
        self.forwarding.forwarder.each_hit(&mut |account, hits| {
            by_program.insert(account, hits);
        });
        let mut now = decided();
        now.retain(|account, hits| earlier.get(account) != Some(hits));
        for (account, hits) in &mut now {
            let earlier = earlier.get(account).copied().unwrap_or_default();
            *hits = FlowHits { packets: hits.packets - earlier.packets, bytes: hits.bytes - earlier.bytes };
        }
        match &outcome {
            Outcome::Forwarded(frame) => {
                let length = by_host.first().map_or(0, Vec::len);
                assert!(by_host == [frame[..length].to_vec()], "{by_host:02x?} of {frame:02x?}");
                assert_eq!(by_program, now, "counted by the program and the host");
            }
            Outcome::Refused => {
                assert_eq!((by_host, refused(&self.forwarding) - before), (vec![], 1), "{frame:02x?}");
                assert_eq!(by_program, now, "counted by the program and the host");
            }
            Outcome::Left => {
                assert_eq!(by_program, BTreeMap::new());
                // The host screens what it gets, and hands verdicts over.
                if !now.is_empty() {
                    self.hand_over(frame);
                }
            }
        }
        outcome
    }

    fn hand_over(&mut self, frame: &[u8]) {
        let rules = self.rules.lock().unwrap();
        let length = match frame[12] {
            8 => usize::from(u16::from_be_bytes([frame[16], frame[17]])),
            _ => 40 + usize::from(u16::from_be_bytes([frame[18], frame[19]])),
        };
        let packet = &frame[14..14 + length];
        let (verdict, holds) = rules.decide(packet);
        if let Some(flow) = Flow::of(packet).filter(|_| holds) {
            let scope = rules.scope();
            assert!(self.forwarding.forwarder.judge(&scope.cut(&flow), &scope, verdict));
        }
    }
}

fn near_v4() -> impl Strategy<Value = Ipv4Address> {
    prop_oneof![12 => (1..5_u8).prop_map(v4), 1 => select(vec![v4(255), Ipv4Address::new(127, 0, 0, 1)])]
}

fn to_v4() -> impl Strategy<Value = Ipv4Address> {
    let others = [far_v4(2), far_v4(9), far_v4(255), v4(2), v4(255), Ipv4Address::new(224, 0, 0, 5)];
    let strange = [[255; 4], [127, 0, 0, 1], [169, 254, 0, 1], [0; 4], [240, 0, 0, 1]].map(Ipv4Address::from);
    prop_oneof![20 => Just(far_v4(1)), 4 => select([others.to_vec(), strange.to_vec()].concat())]
}

fn near_v6() -> impl Strategy<Value = Ipv6Address> {
    prop_oneof![12 => (1..5_u16).prop_map(v6), 1 => Just(Ipv6Address::LOCALHOST)]
}

fn to_v6() -> impl Strategy<Value = Ipv6Address> {
    let others = [far_v6(2), far_v6(9), v6(2), Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 1)];
    let strange = [
        Ipv6Address::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
        Ipv6Address::LOCALHOST,
        far_v4(1).to_ipv6_mapped(),
        Ipv6Address::UNSPECIFIED,
    ];
    prop_oneof![20 => Just(far_v6(1)), 4 => select([others, strange].concat())]
}

fn rule() -> impl Strategy<Value = Rule> {
    let v4 = (near_v4(), to_v4()).prop_map(|(from, to)| (IpAddress::from(from), IpAddress::from(to)));
    let v6 = (near_v6(), to_v6()).prop_map(|(from, to)| (IpAddress::from(from), IpAddress::from(to)));
    let bits = || prop_oneof![2 => Just(0), 1 => select(vec![8, 24, 30, 31, 32, 125, 127, 128])];
    let ends = prop_oneof![v4, v6];
    let port = || weighted(0.3, 0..2_u16);
    let length = weighted(0.2, select(vec![32_usize, 40, 52, 60]));
    (any::<bool>(), ends, (bits(), bits()), weighted(0.3, select(vec![6_u8, 17])), port(), port(), length)
        .prop_map(
            |(passes, (from, to), (from_bits, to_bits), protocol, source_port, destination_port, length)| {
                let is_v4 = matches!(from, IpAddress::Ipv4(_));
                let most = if is_v4 { 32 } else { 128 };
                let [from, to] = [(from, from_bits.min(most)), (to, to_bits.min(most))];
                Rule { passes, is_v4, from, to, protocol, source_port, destination_port, length }
            },
        )
}

/// Packets of few flows, in some of which bytes of the headers are others.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let payload = || {
        let ports = (0..2_u16, 0..2_u16, any::<u8>(), 0..24_usize);
        (select(vec![6_u8, 6, 6, 17, 17, 17, 1, 58]), ports).prop_map(
            |(protocol, (source, destination, flags, more))| {
                let head =
                    if protocol == 6 { tcp(source, destination, flags) } else { udp(source, destination) };
                (protocol, [head, vec![0; more]].concat())
            },
        )
    };
    let plain = prop_oneof![
        (near_v4(), to_v4(), payload(), select(vec![0, 0, 0, 0, 0, 0x4000, 0x4000, 0x2000, 3])).prop_map(
            |(from, to, (protocol, payload), place)| summed(ipv4(from, to, protocol, 1, place, &payload))
        ),
        (near_v6(), to_v6(), payload())
            .prop_map(|(from, to, (protocol, payload))| ipv6(from, to, protocol, &payload)),
    ];
    let changes = prop_oneof![6 => Just(vec![]), 1 => vec((any::<Index>(), any::<u8>()), 1..3)];
    let padding = prop_oneof![3 => Just(0_usize), 1 => 0..20_usize];
    (plain, changes, any::<bool>(), padding).prop_map(|(mut frame, changes, sums, padding)| {
        let headers = frame.len().min(54);
        changes.into_iter().for_each(|(at, to)| frame[at.index(headers)] = to);
        frame.extend(vec![0; padding]);
        if sums { summed(frame) } else { frame }
    })
}

#[test]
fn the_program_does_with_flows_what_the_host_does_with_each_packet() {
    const CASES: u32 = 100;
    let Some(screening) = Screening::load() else { return };
    let (screening, outcomes) = (RefCell::new(screening), Cell::new((0, 0, 0)));
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(CASES) });
    let outcome = runner.run(&(vec(rule(), 0..5), vec(frame(), 100)), |(rules, frames)| {
        let mut screening = screening.borrow_mut();
        screening.replace(rules);
        for frame in frames {
            let (forwarded, refused, left) = outcomes.get();
            outcomes.set(match screening.compare(&frame) {
                Outcome::Forwarded(_) => (forwarded + 1, refused, left),
                Outcome::Refused => (forwarded, refused + 1, left),
                Outcome::Left => (forwarded, refused, left + 1),
            });
        }
        Ok(())
    });
    outcome.unwrap();
    let (forwarded, refused, left) = outcomes.get();
    assert!(forwarded > 1_000 && refused > 200 && left > 1_000, "{:?}", outcomes.get());
}

#[test]
fn verdicts_are_needed_from_the_first_on_and_taken_back_together() {
    let Some(mut screening) = Screening::load() else { return };
    let frame = summed(ipv4(v4(1), far_v4(1), 17, 0, 0, &udp(7, 9)));
    assert!(matches!(screening.forwarding.outcome(&frame), Outcome::Forwarded(_)), "nothing is screened yet");
    screening.replace(Vec::new());
    assert_eq!(screening.compare(&frame), Outcome::Left);
    assert!(matches!(screening.compare(&frame), Outcome::Forwarded(_)));
    let fragment = summed(ipv4(v4(1), far_v4(1), 17, 0, 0x2000, &udp(7, 9)));
    let cut_off = summed(ipv4(v4(1), far_v4(1), 6, 0, 0, &udp(7, 9)));
    for other in [fragment, cut_off, summed(ipv4(v4(1), far_v4(1), 1, 0, 0, &[8; 8]))] {
        assert_eq!([screening.compare(&other), screening.compare(&other)], [Outcome::Left, Outcome::Left]);
    }
    let no_bits = (IpAddress::from(v4(0)), 0);
    let drops = Rule {
        passes: false,
        is_v4: true,
        from: no_bits,
        to: no_bits,
        protocol: None,
        source_port: None,
        destination_port: Some(9),
        length: None,
    };
    screening.replace(vec![drops]);
    assert_eq!([screening.compare(&frame), screening.compare(&frame)], [Outcome::Left, Outcome::Refused]);
    // The rule distinguishes neither senders nor receivers.
    let another = summed(ipv4(v4(7), far_v4(77), 17, 0, 0, &udp(8, 9)));
    assert_eq!(screening.compare(&another), Outcome::Refused);
    // What is for the host itself is not in transit.
    for own in [v4(2), far_v4(9), v4(255)] {
        let own = summed(ipv4(v4(7), own, 17, 0, 0, &udp(8, 9)));
        assert_eq!(screening.compare(&own), Outcome::Left);
    }
    screening.forwarding.forwarder.clear();
    assert_eq!(screening.compare(&another), Outcome::Left);
}
