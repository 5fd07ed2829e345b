//! Random tests: rules read back as they were printed, and compiled rules decide like the evaluation one by
//! one.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;

use super::*;
use crate::route::rules::address::Address;
use crate::route::rules::compiled::tests::cut;

/// Draws addresses, many of which are in each other's prefixes.
pub(super) fn address() -> impl Strategy<Value = IpAddr> {
    let near = (0..4_u8, 0..4_u8, select(vec![0, 1, 2, 3, 127, 128, 254, 255]))
        .prop_map(|(a, b, c)| IpAddr::from([[10, 2, 198, 255][usize::from(a)], 0, b, c]));
    let near_v6 = (0..2_u16, select(vec![0, 1, 2, u16::MAX]))
        .prop_map(|(a, b)| IpAddr::from([0xfd00, a, 0, 0, 0, 0, 0, b]));
    prop_oneof![4 => near, 2 => near_v6, 1 => any::<[u8; 4]>().prop_map(IpAddr::from),
        1 => any::<[u8; 16]>().prop_map(IpAddr::from)]
}

fn prefix() -> impl Strategy<Value = Prefix> {
    let lengths = select(vec![0, 1, 8, 15, 16, 22, 23, 24, 25, 30, 31, 32, 64, 112, 127, 128]);
    (address(), prop_oneof![3 => lengths, 1 => 0..=128_u8])
        .prop_filter_map("too long", |(a, l)| Prefix::new(a, l))
}

fn range() -> impl Strategy<Value = Range> {
    (address(), address())
        .prop_filter_map("two families", |(a, b)| Range::new(a.min(b).into(), a.max(b).into()))
}

fn hosts() -> impl Strategy<Value = Hosts> {
    let part = (of(0..2_usize), select(vec![Part::Own, Part::Network, Part::Broadcast]), any::<bool>())
        .prop_map(|(link, part, first)| HostSet::Link(LinkPart { link, part, first }));
    let set = prop_oneof![
        4 => prefix().prop_map(HostSet::Prefix),
        1 => range().prop_map(HostSet::Range),
        2 => (0..TABLES.len()).prop_map(HostSet::Table),
        1 => part,
        1 => Just(HostSet::NoRoute),
    ];
    let host = (proptest::bool::weighted(0.2), set).prop_map(|(not, set)| Host { not, set });
    prop_oneof![2 => Just(Hosts::Any), 2 => host.clone().prop_map(Hosts::One),
        1 => vec(host, 1..4).prop_map(Hosts::List)]
}

pub(super) fn port() -> impl Strategy<Value = u16> {
    prop_oneof![4 => 0..6_u16, 1 => select(vec![79, 80, 81, u16::MAX - 1, u16::MAX]), 1 => any::<u16>()]
}

fn ports() -> impl Strategy<Value = Vec<Ports>> {
    let one = (0..9_u8, port(), port()).prop_map(|(kind, a, b)| match kind {
        0 => Ports::Equal(a),
        1 => Ports::NotEqual(a),
        2 => Ports::Less(a),
        3 => Ports::LessOrEqual(a),
        4 => Ports::Greater(a),
        5 => Ports::GreaterOrEqual(a),
        6 => Ports::Range(a, b),
        7 => Ports::Between(a, b),
        _ => Ports::Outside(a, b),
    });
    prop_oneof![1 => Just(vec![]), 1 => vec(one, 1..3)]
}

fn on() -> impl Strategy<Value = On> {
    (select(vec!["lan", "wan", ""]), proptest::bool::weighted(0.2)).prop_map(|(name, not)| On {
        name: name.to_owned(),
        not,
        interface: None,
        at: 0,
    })
}

fn changes() -> impl Strategy<Value = Changes> {
    let all = (of(1..=u16::MAX), any::<bool>(), of(1..=u8::MAX), of(any::<u8>()))
        .prop_map(|(max_mss, no_df, min_ttl, tos)| Changes { max_mss, no_df, min_ttl, tos });
    prop_oneof![3 => Just(Changes::default()), 1 => all]
}

/// Draws a rule that the grammar allows; a `plain` rule does not depend on other rules.
pub(super) fn any_rule(plain: bool) -> impl Strategy<Value = Rule> {
    let action = prop_oneof![
        3 => Just(Action::Pass),
        3 => Just(Action::Drop),
        1 => Just(Action::Return),
        1 => Just(Action::ReturnRst),
        1 => (0..4_u8, any::<u8>()).prop_map(|(v4, v6)| Action::ReturnIcmp { v4, v6 }),
        if plain { 0 } else { 2 } => Just(Action::Match),
    ];
    let protocols = prop_oneof![
        4 => Just(vec![]),
        2 => Just(vec![TCP]),
        2 => Just(vec![UDP]),
        2 => Just(vec![TCP, UDP]),
        1 => Just(vec![ICMP]),
        1 => Just(vec![ICMPV6]),
        1 => vec(any::<u8>(), 1..3),
    ];
    let quick = proptest::bool::weighted(0.15);
    let head = (action, any::<bool>(), quick, vec(on(), 0..2), of(on()), protocols);
    let icmp = vec((select(vec![0_u8, 3, 8, 128]), of(0..3_u8)), 0..3);
    let tags = (of(0..3_u16), of((any::<bool>(), 0..3_u16)), of(0..=Probability::ONE), changes());
    let few = |chance| proptest::bool::weighted(chance);
    let rest = (
        of((any::<u8>(), any::<u8>())),
        icmp,
        few(0.1),
        of(select(vec![0_u8, 0x10, 0xb8, 0xb9])),
        (few(0.1), 0..90_u16, few(0.1), 0..90_u16),
        of("[^\"\n]{0,12}"),
    );
    let rare = (few(0.2), few(0.2), few(0.2), few(0.2));
    (head, (hosts(), hosts(), ports(), ports()), tags, rest, rare).prop_map(
        move |(head, (from, to, from_ports, to_ports), tags, rest, rare)| {
            let (action, log, quick, on, received, protocols) = head;
            let (tag, tagged, probability, changes) = tags;
            let (flags, icmp, fragment, tos, (has_less, less, has_greater, greater), label) = rest;
            let ported = [vec![TCP], vec![UDP], vec![TCP, UDP]].contains(&protocols);
            let side = |hosts, ports: Vec<Ports>| Side { hosts, ports: if ported { ports } else { vec![] } };
            let message = protocols == [ICMP] || protocols == [ICMPV6];
            let passes = matches!(action, Action::Pass | Action::Match);
            Rule {
                action,
                log,
                quick,
                on,
                received: received.filter(|_| rare.0),
                family: None,
                from: side(from, from_ports),
                to: side(to, to_ports),
                flags: flags
                    .filter(|_| protocols == [TCP])
                    .map(|(set, mask)| Flags { set: set & mask, mask }),
                icmp: match message {
                    true => icmp.into_iter().map(|(kind, code)| Icmp { kind, code }).collect(),
                    false => vec![],
                },
                protocols,
                fragment,
                tos: tos.filter(|_| rare.1).map(Tos),
                less: has_less.then_some(less),
                greater: has_greater.then_some(greater),
                tag: tag.filter(|_| !plain && rare.2),
                tagged: tagged.filter(|_| !plain && rare.3).map(|(not, tag)| Tagged { not, tag }),
                probability: probability.filter(|_| !plain && rare.1).map(Probability),
                changes: if passes { changes } else { Changes::default() },
                label,
                line: Line::default(),
            }
        },
    )
}

const TABLES: [&str; 3] = ["one", "t-2", "large"];
const TAGS: [&str; 3] = ["a", "b c", "d"];

/// Creates a set of rules about existing links, tables and tags.
pub(super) fn set_of(rules: Vec<Rule>, tables: Vec<Vec<(Prefix, bool)>>) -> RuleSet {
    let tables =
        TABLES.iter().zip(tables).map(|(name, entries)| Table::new(name, &entries).unwrap()).collect();
    let link = |name: &str| LinkName { name: name.to_owned(), interface: None, at: 0 };
    let links = ["lan", "wan"].map(link).into();
    let mut set =
        RuleSet { tables, rules, links, tags: TAGS.map(str::to_owned).into(), ..RuleSet::default() };
    set.bind(&["lan", "wan"]).unwrap();
    set
}

pub(super) fn tables() -> impl Strategy<Value = Vec<Vec<(Prefix, bool)>>> {
    let table = |size| {
        proptest::collection::btree_map(prefix(), any::<bool>(), size)
            .prop_map(|entries| entries.into_iter().collect::<Vec<_>>())
    };
    // A table so large that rules do not copy its addresses.
    let large = (0..5_u8).prop_map(|step| {
        let entry = |n: u32| {
            (
                Prefix::new(IpAddr::from((0x0a00_0000 + n * 2).to_be_bytes()), 32).unwrap(),
                !n.is_multiple_of(7),
            )
        };
        (0..5_000).map(|n| entry(n * u32::from(step))).collect::<BTreeMap<_, _>>()
    });
    (table(0..6), table(0..6), large.prop_map(|all| all.into_iter().collect()))
        .prop_map(|(one, two, large)| vec![one, two, large])
}

fn packet() -> impl Strategy<Value = Vec<u8>> {
    let protocol = select(vec![TCP, UDP, UDP, TCP, ICMP, ICMPV6, 47]);
    let piece =
        prop_oneof![4 => Just(None), 1 => select(vec![(0_u16, true), (9, false), (9, true)]).prop_map(Some)];
    let ports = (port(), port(), any::<u8>());
    (address(), address(), protocol, ports, piece, 0..40_usize, select(vec![0_u8, 0x10, 0xb8, 0xb9]))
        .prop_filter_map(
            "two families",
            |(from, to, protocol, (source, destination, flags), piece, len, tos)| {
                if from.is_ipv4() != to.is_ipv4() {
                    return None;
                }
                let mut payload = vec![0; len.max(20)];
                match protocol {
                    ICMP | ICMPV6 => payload[..2]
                        .copy_from_slice(&[[0, 3, 8, 128][usize::from(flags & 3)], source as u8 & 3]),
                    _ => {
                        payload[..2].copy_from_slice(&source.to_be_bytes());
                        payload[2..4].copy_from_slice(&destination.to_be_bytes());
                        payload[13] = flags;
                    }
                }
                let mut bytes = Made { from, to, protocol, payload, piece, extensions: Vec::new() }.bytes();
                match from {
                    IpAddr::V4(_) => bytes[1] = tos,
                    IpAddr::V6(_) => (bytes[0], bytes[1]) = (0x60 | tos >> 4, tos << 4),
                }
                Some(bytes)
            },
        )
}

/// Returns the number of cases, which is larger in the suite's long tier.
pub(super) fn cases() -> ProptestConfig {
    let cases = if std::env::var_os("EVENKEEL_LONG").is_some() { 5_000 } else { 300 };
    // Packets of two families are drawn again until they are of one.
    ProptestConfig { cases, max_local_rejects: u32::MAX, ..ProptestConfig::default() }
}

/// Compares the decisions of rules one by one with those of the compiled rules, as they are and cut into
/// small blocks. Returns the number of packets that a rule decided.
fn compare(set: &RuleSet, packets: &[(Vec<u8>, u8)]) -> usize {
    let [small, parts, lists] = cut(set);
    let compiled = [Compiled::new(set.clone()), small, parts, lists];
    let tallies = [(); 5].map(|()| Counters::new(set));
    let mut worlds = [(); 5].map(|()| World::default());
    let mut matched = 0;
    for (packet, interface) in packets {
        let one = set.decide(packet, *interface, &mut worlds[0], &tallies[0]);
        for (place, compiled) in (1..).zip(&compiled) {
            let fast = compiled.decide(packet, *interface, &mut worlds[place], &tallies[place]);
            assert_eq!(one, fast, "{place}: {packet:02x?} on {interface}\n{set}");
        }
        matched += usize::from(one.rule.is_some());
    }
    for place in 1..5 {
        assert_eq!(tallies[0].counts(), tallies[place].counts());
        assert_eq!(tallies[0].unmatched(), tallies[place].unmatched());
        assert_eq!(worlds[0].random, worlds[place].random, "chance is asked for as often");
    }
    matched
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn compiled_rules_decide_as_one_by_one(
        rules in vec(any_rule(false), 0..24),
        tables in tables(),
        packets in vec((packet(), 0..3_u8), 1..24),
    ) {
        compare(&set_of(rules, tables), &packets);
    }

    /// The rules do not depend on others, and there are more of them.
    #[test]
    fn plain_compiled_rules_decide_as_one_by_one(
        rules in vec(any_rule(true), 0..90),
        tables in tables(),
        packets in vec((packet(), 0..3_u8), 1..24),
    ) {
        compare(&set_of(rules, tables), &packets);
    }

    #[test]
    fn what_is_printed_reads_back(rules in vec(any_rule(false), 0..6), tables in tables()) {
        let set = set_of(rules, tables);
        let text = set.to_string();
        let read = RuleSet::parse("r", &text).map_err(|m| TestCaseError::fail(format!("{m}\n{text}")))?;
        // Places of links and tags depend on the order of their first use.
        prop_assert_eq!(read.to_string(), text);
        prop_assert_eq!(read.tables, set.tables);
    }

    /// The prefixes of a range cover exactly its addresses.
    #[test]
    fn a_range_is_its_prefixes(range in range(), address in prefix()) {
        let prefixes: Vec<_> = range.prefixes().collect();
        prop_assert!(prefixes.len() <= 2 * usize::from(range.family.bits()));
        let mut next = Some(range.first);
        for prefix in &prefixes {
            prop_assert_eq!(Some(prefix.bits), next);
            next = prefix.last().checked_add(1);
        }
        prop_assert_eq!(next, range.last.checked_add(1));
        let address = Address { family: address.family, bits: address.bits };
        let inside = prefixes.iter().any(|prefix| prefix.contains(address));
        prop_assert_eq!(range.contains(address), inside);
    }

    #[test]
    fn any_text_is_read_or_refused_with_a_place(text in "[a-z0-9{}()<>!=,$:/\\.\" \n#\\\\]{0,80}") {
        if let Err(error) = RuleSet::parse("r", &text) {
            prop_assert!(error.line <= text.matches('\n').count() + 1, "{}", error);
        }
    }

    #[test]
    fn any_words_are_read_or_refused_with_a_place(
        words in vec(select(WORDS.to_vec()), 0..16),
    ) {
        let text = words.join(" ");
        if let Ok(set) = RuleSet::parse("r", &text) {
            let shown = set.to_string();
            let again = RuleSet::parse("r", &shown);
            let again = again.map_err(|m| TestCaseError::fail(format!("{m}\n{shown}")))?;
            prop_assert_eq!(again, set, "{}", shown);
        }
    }

    #[test]
    fn any_bytes_are_decided_about(
        rules in vec(any_rule(false), 0..6),
        packet in vec(any::<u8>(), 0..120),
        six: bool,
    ) {
        let mut packet = packet;
        if let Some(first) = packet.first_mut() {
            *first = if six { 0x60 } else { 0x45 };
        }
        let set = set_of(rules, vec![vec![]; 3]);
        let decision = decided(&set, &packet, 0);
        decision.changes.apply(&mut packet);
    }
}

const WORDS: [&str; 64] = [
    "pass",
    "block",
    "match",
    "in",
    "log",
    "quick",
    "on",
    "lan",
    "!",
    "inet",
    "inet6",
    "proto",
    "tcp",
    "udp",
    "{",
    "}",
    "icmp",
    "all",
    "from",
    "to",
    "any",
    "port",
    "80",
    "10/8",
    "(",
    ")",
    "self",
    "lan:network",
    "no-route",
    "urpf-failed",
    "flags",
    "S/SA",
    "icmp-type",
    "8",
    "code",
    "fragment",
    "tos",
    "lowdelay",
    "less",
    "label",
    "x",
    "tag",
    "tagged",
    "probability",
    "20%",
    "received-on",
    "allow-opts",
    "set",
    "skip",
    "block-policy",
    "drop",
    "return",
    "return-icmp",
    "return-rst",
    "scrub",
    "max-mss",
    "no-df",
    "antispoof",
    "for",
    "table",
    "<t>",
    "\n",
    "persist",
    ",",
];

/// The rules fill several blocks, in a fixed random order. Most do not match, and some do.
#[test]
fn thousands_of_rules_decide_as_one_by_one() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut draw = |strategy: BoxedStrategy<Rule>, count| {
        (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect::<Vec<_>>()
    };
    let mut few = draw(any_rule(false).boxed(), 150);
    let many = draw(any_rule(true).boxed(), 6_000);
    for (number, mut rule) in many.into_iter().enumerate() {
        // A rule that matches everything would hide all others.
        if rule.from.hosts == Hosts::Any && rule.to.hosts == Hosts::Any {
            let [_, b, c, d] = (number as u32).to_be_bytes();
            let prefix = Prefix::new(IpAddr::from([10, b, c, d]), 32).unwrap();
            rule.from.hosts = Hosts::One(Host { not: false, set: HostSet::Prefix(prefix) });
        }
        rule.quick &= number.is_multiple_of(16);
        few.insert((number * 7919) % (few.len() + 1), rule);
    }
    let tables = tables().new_tree(&mut runner).unwrap().current();
    let set = set_of(few, tables);
    let packets: Vec<_> =
        (0..400).map(|n| (packet().new_tree(&mut runner).unwrap().current(), (n % 3) as u8)).collect();
    assert!(compare(&set, &packets) > 300);
}
