//! Screening rules: parsed rules print as text that parses to the same rules. For any bytes, the compiled
//! rules, the rules one by one, and the printed rules decide alike.

use std::net::IpAddr;

use evenkeel_apps::route::rules::{Compiled, Counters, Decision, RuleSet, Surroundings};

/// Runs an input: rules, a zero, and packets, each after a byte with its length.
pub fn run(input: &[u8]) -> Vec<Decision> {
    let (text, packets) = input.split_at(input.iter().position(|byte| *byte == 0).unwrap_or(input.len()));
    let Ok(text) = core::str::from_utf8(text) else { return Vec::new() };
    // The text of a file is its name.
    let set = match RuleSet::parse_with("rules", text, &|name| Ok((name.to_owned(), name.to_owned()))) {
        Ok(set) => set,
        Err(error) => {
            assert!(error.file != "rules" || error.line <= text.matches('\n').count() + 1, "{error}");
            return Vec::new();
        }
    };
    let shown = set.to_string();
    let again = RuleSet::parse("shown", &shown).unwrap_or_else(|error| panic!("{error}\n{shown}"));
    assert_eq!(again.to_string(), shown);
    decide(set, again, packets.get(1..).unwrap_or_default())
}

fn decide(mut set: RuleSet, mut again: RuleSet, mut packets: &[u8]) -> Vec<Decision> {
    // Rules about other links are removed.
    for set in [&mut set, &mut again] {
        let _ = set.bind(&["lan", "wan"]);
    }
    let counters = [(); 3].map(|()| Counters::new(&set));
    let mut routers = [(); 3].map(|()| Router { random: 1 });
    let (compiled, again) = (Compiled::new(set.clone()), Compiled::new(again));
    let mut decisions = Vec::new();
    while let [len, rest @ ..] = packets {
        let (packet, others) = rest.split_at(rest.len().min(usize::from(*len)));
        packets = others;
        let decision = compiled.decide(packet, 0, &mut routers[0], &counters[0]);
        assert_eq!(decision, set.decide(packet, 0, &mut routers[1], &counters[1]));
        assert_eq!(decision, again.decide(packet, 0, &mut routers[2], &counters[2]));
        decision.changes.apply(&mut packet.to_vec());
        decisions.push(decision);
    }
    assert_eq!(counters[0].counts(), counters[1].counts());
    decisions
}

/// A router on 10.0.1.0/24 and 10.0.2.0/24, without further routes.
struct Router {
    random: u32,
}

impl Surroundings for Router {
    fn is_routed(&self, address: IpAddr) -> bool {
        matches!(address, IpAddr::V4(v4) if matches!(v4.octets(), [10, 0, 1 | 2, _]))
    }

    fn leads_back(&self, source: IpAddr) -> bool {
        matches!(source, IpAddr::V4(v4) if matches!(v4.octets(), [10, 0, 1, _]))
    }

    fn interfaces(&self) -> u8 {
        2
    }

    fn addresses(&self, interface: u8) -> impl Iterator<Item = (IpAddr, u8)> {
        (interface < 2).then(|| (IpAddr::from([10, 0, interface + 1, 1]), 24)).into_iter()
    }

    fn random(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.random
    }
}
