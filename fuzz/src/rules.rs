//! Screening rules: what is read prints as something that reads the same, and any bytes are decided about, by
//! both alike.

use evenkeel_apps::route::rules::{Decision, RuleSet, Tally};

/// An input is rules, a zero, and packets, each behind a byte with its length.
pub fn run(input: &[u8]) -> Vec<Decision> {
    let (text, packets) = input.split_at(input.iter().position(|byte| *byte == 0).unwrap_or(input.len()));
    let Ok(text) = core::str::from_utf8(text) else { return Vec::new() };
    // A file's text is its name.
    let set = match RuleSet::parse_with("rules", text, &|name| Ok((name.to_owned(), name.to_owned()))) {
        Ok(set) => set,
        Err(error) => {
            assert!(error.file != "rules" || error.line <= text.matches('\n').count() + 1, "{error}");
            return Vec::new();
        }
    };
    let shown = set.to_string();
    let again = RuleSet::parse("shown", &shown).unwrap_or_else(|error| panic!("{error}\n{shown}"));
    assert_eq!(set, again, "{shown}");
    decide(&set, &again, packets.get(1..).unwrap_or_default())
}

fn decide(set: &RuleSet, again: &RuleSet, mut packets: &[u8]) -> Vec<Decision> {
    let tally = Tally::new(set.rules.len());
    let mut decisions = Vec::new();
    while let [len, rest @ ..] = packets {
        let (packet, others) = rest.split_at(rest.len().min(usize::from(*len)));
        packets = others;
        let decision = set.decide(packet, 0, &tally);
        assert_eq!(decision, again.decide(packet, 0, &tally));
        decisions.push(decision);
    }
    let decided: u64 = tally.counts().iter().map(|count| count.packets).sum();
    assert_eq!(decided + tally.unmatched() + tally.malformed(), 2 * decisions.len() as u64);
    decisions
}
