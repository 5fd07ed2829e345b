use core::net::IpAddr;

use proptest::prelude::*;

use super::names::{ICMP, ICMPV6, TCP, UDP};
use super::rule::Address;
use super::*;

fn rules(text: &str) -> RuleSet {
    RuleSet::parse("rules.conf", text).unwrap_or_else(|error| panic!("{error}"))
}

fn error_at(text: &str) -> String {
    RuleSet::parse("r", text).unwrap_err().to_string()
}

/// A packet with the fields that matter; more is said by the methods.
#[derive(Clone)]
struct Made {
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    payload: Vec<u8>,
    /// Offset in units of eight bytes, and whether more follow.
    piece: Option<(u16, bool)>,
    /// Next-header values of IPv6 extension headers of eight bytes.
    extensions: Vec<u8>,
}

fn made(from: &str, to: &str, protocol: u8, payload: Vec<u8>) -> Made {
    let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
    Made { from, to, protocol, payload, piece: None, extensions: Vec::new() }
}

fn udp(from: &str, from_port: u16, to: &str, port: u16) -> Made {
    made(from, to, UDP, [&from_port.to_be_bytes()[..], &port.to_be_bytes(), &[0; 4]].concat())
}

fn tcp(from: &str, to: &str, port: u16, flags: u8) -> Made {
    let mut header = vec![0; 20];
    header[2..4].copy_from_slice(&port.to_be_bytes());
    header[13] = flags;
    made(from, to, TCP, header)
}

impl Made {
    fn piece(mut self, offset: u16, more: bool) -> Self {
        self.piece = Some((offset, more));
        self
    }

    fn bytes(&self) -> Vec<u8> {
        match (self.from, self.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, self.protocol, 0, 0];
                packet.extend(from.octets().iter().chain(&to.octets()));
                packet.extend(&self.payload);
                let length = packet.len() as u16;
                packet[2..4].copy_from_slice(&length.to_be_bytes());
                let (offset, more) = self.piece.unwrap_or_default();
                packet[6..8].copy_from_slice(&(offset | u16::from(more) << 13).to_be_bytes());
                packet
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => self.bytes_v6(&from.octets(), &to.octets()),
            _ => panic!("two families"),
        }
    }

    fn bytes_v6(&self, from: &[u8], to: &[u8]) -> Vec<u8> {
        let mut kinds = self.extensions.clone();
        kinds.extend(self.piece.map(|_| 44));
        let mut headers = Vec::new();
        for (index, kind) in kinds.iter().enumerate() {
            let next = kinds.get(index + 1).copied().unwrap_or(self.protocol);
            match (kind, self.piece) {
                (44, Some((offset, more))) => {
                    headers.extend([next, 0]);
                    headers.extend((offset << 3 | u16::from(more)).to_be_bytes());
                    headers.extend([0; 4]);
                }
                _ => headers.extend([next, 0, 1, 4, 0, 0, 0, 0]),
            }
        }
        let first = kinds.first().copied().unwrap_or(self.protocol);
        let length = (headers.len() + self.payload.len()) as u16;
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend(length.to_be_bytes());
        packet.extend([first, 64]);
        packet.extend(from.iter().chain(to).chain(&headers).chain(&self.payload));
        packet
    }
}

/// What becomes of a packet that came in on interface 0.
fn decide(text: &str, packet: &Made) -> Action {
    let rules = rules(text);
    rules.decide(&packet.bytes(), 0, &Tally::new(rules.rules.len())).action
}

#[test]
fn the_last_rule_that_matches_decides_unless_one_is_quick() {
    let packet = udp("10.0.0.1", 5, "10.9.0.1", 53);
    assert_eq!(decide("", &packet), Action::Pass, "without rules all pass");
    assert_eq!(decide("block all\npass proto udp", &packet), Action::Pass);
    assert_eq!(decide("pass proto udp\nblock all", &packet), Action::Drop);
    assert_eq!(decide("pass quick proto udp\nblock all", &packet), Action::Pass);
    assert_eq!(decide("block return from 10.0.0.0/8", &packet), Action::Return);
}

#[test]
fn addresses_tables_and_negation() {
    let from = |rule: &str, from: &str, to: &str| decide(rule, &udp(from, 1, to, 2)) == Action::Drop;
    assert!(from("block from 10.0.0.0/8", "10.1.1.1", "8.8.8.8"));
    assert!(!from("block from 10.0.0.0/8", "11.1.1.1", "8.8.8.8"));
    assert!(from("block to { 8.8.8.8, 9.9.9.9 }", "1.1.1.1", "9.9.9.9"));
    assert!(from("block from !10.0.0.0/8", "11.0.0.1", "1.1.1.1"));
    assert!(!from("block from !10.0.0.0/8", "fd00::1", "fd00::2"), "of its family");
    let table = "table <t> { 10.0.0.0/8, !10.1.0.0/16 }\n";
    assert!(from(&format!("{table}block from <t>"), "10.2.0.1", "1.1.1.1"));
    assert!(!from(&format!("{table}block from <t>"), "10.1.0.1", "1.1.1.1"));
    assert!(from(&format!("{table}block from !<t>"), "10.1.0.1", "1.1.1.1"));
    assert!(from("block inet6", "fd00::1", "fd00::2") && !from("block inet", "fd00::1", "fd00::2"));
    assert!(from("block to ::/0", "fd00::1", "fd00::2") && !from("block to ::/0", "1.1.1.1", "2.2.2.2"));
}

#[test]
fn ranges_of_addresses() {
    let from = |rule: &str, from: &str, to: &str| decide(rule, &udp(from, 1, to, 2)) == Action::Drop;
    for rule in ["block from 10.0.0.7 - 10.0.1.2", "table <t> { 10.0.0.7-10.0.1.2 }\nblock from <t>"] {
        let inside =
            ["10.0.0.6", "10.0.0.7", "10.0.0.255", "10.0.1.2", "10.0.1.3"].map(|a| from(rule, a, "1.1.1.1"));
        assert_eq!(inside, [false, true, true, true, false], "{rule}");
    }
    assert!(from("block to { 1.1.1.1, fd00::5 - fd00::9 }", "fd00::1", "fd00::7"));
    let not = "block from !10.0.0.1 - 10.0.0.9";
    assert!(from(not, "10.0.0.10", "1.1.1.1") && !from(not, "10.0.0.5", "1.1.1.1"));
    assert!(!from(not, "fd00::1", "fd00::2"), "of its family");
    let table = "table <t> { 10.0.0.0/8, !10.0.0.3 - 10.0.0.5 }\nblock from <t>";
    assert!(from(table, "10.0.0.6", "1.1.1.1") && !from(table, "10.0.0.4", "1.1.1.1"));
}

#[test]
fn tables_from_files() {
    let read = |path: &str| match path {
        "bad" => Ok(("lists/bad".to_owned(), "10.0.0.1 # one\n\n! 10.0.0.2\n10.0.0.8 - 10.0.0.9".to_owned())),
        "wrong" => Ok(("lists/wrong".to_owned(), "10.0.0.1\n  10.0.0.9 - 10.0.0.8".to_owned())),
        "not" => Ok(("lists/not".to_owned(), "::1\n!fd00::/8".to_owned())),
        "cut" => Ok(("lists/cut".to_owned(), "10.0.0.1\n!".to_owned())),
        other => Err(format!("cannot read {other}: not there")),
    };
    let parse = |text: &str| RuleSet::parse_with("r", text, &read);
    let shown = parse("table <t> persist { fd00::/8 } file \"bad\"\nblock from <t>").unwrap().to_string();
    assert_eq!(
        shown,
        "table <t> { 10.0.0.1, !10.0.0.2, 10.0.0.8/31, fd00::/8 }\nblock drop in from <t> to any\n"
    );
    assert_eq!(parse("name = bad\ntable <t> file $name file \"not\"").unwrap().tables[0].len(), 5);
    let said = |text: &str| parse(text).unwrap_err().to_string();
    assert_eq!(said("pass\ntable <t> file \"x\""), "r:2:16: cannot read x: not there");
    assert_eq!(
        said("table <t> file \"wrong\""),
        "lists/wrong:2:14: expected the range's last address, not below its first one, found `10.0.0.8`"
    );
    assert_eq!(
        said("table <t> file \"not\" { fd00::/8 }"),
        "r:1:24: the same prefix is in this table with and without `!`"
    );
    assert!(said("table <t> file \"cut\"").starts_with("lists/cut:2:2: expected an address"));
    assert_eq!(
        said("table <t>"),
        "r:1:10: expected `persist`, `const`, `file` or `{`, found the end of the line"
    );
    assert_eq!(said("table <t> file"), "r:1:15: expected a file's name in quotes, found the end of the line");
    assert_eq!(error_at("table <t> file \"bad\""), "r:1:16: no files can be named here");
}

#[test]
fn a_rule_knows_its_line() {
    let lines: Vec<_> =
        rules("m = x\npass\n\n# no\nblock from { 10.0.0.1,\n 10.0.0.2 }\npass \\\nall\nblock")
            .rules
            .iter()
            .map(|rule| rule.line.0)
            .collect();
    assert_eq!(lines, [2, 5, 7, 9]);
}

#[test]
fn ports_of_both_ends() {
    let to = |ports: &str, port| {
        decide(&format!("block proto {{ tcp, udp }} to port {ports}"), &udp("1.1.1.1", 7, "2.2.2.2", port))
            == Action::Drop
    };
    assert!(to("53", 53) && to("domain", 53) && !to("53", 54));
    assert!(to("1000:2000", 1000) && to("1000:2000", 2000) && !to("1000:2000", 2001));
    assert!(to("{ 1, 5:9 }", 7) && to("!= 80", 81) && !to("!= 80", 80));
    assert!(to("< 1024", 1023) && !to("< 1024", 1024) && to("<= 1024", 1024));
    assert!(to("> 1024", 1025) && !to("> 1024", 1024) && to(">= 1024", 1024));
    assert!(to("10><12", 11) && !to("10><12", 10) && to("10<>12", 9) && to("1000 : 2000", 1500));
    assert!(to("10 >< 12", 11) && !to("10 >< 12", 12) && to("10 <> 12", 13) && !to("10 <> 12", 10));
    let from = decide("block proto udp from port 7 to port 9", &udp("1.1.1.1", 7, "2.2.2.2", 9));
    assert_eq!(from, Action::Drop);
}

#[test]
fn flags_types_and_lengths() {
    let flags = |text: &str, flags| {
        decide(&format!("block proto tcp flags {text}"), &tcp("1.1.1.1", "2.2.2.2", 80, flags))
            == Action::Drop
    };
    assert!(flags("S/SA", 2) && !flags("S/SA", 0x12) && flags("S/SA", 2 | 8));
    assert!(flags("/SFRA", 8) && flags("any", 0xff));
    let ping = made("1.1.1.1", "2.2.2.2", ICMP, vec![8, 0, 0, 0]);
    assert_eq!(decide("block proto icmp icmp-type echoreq", &ping), Action::Drop);
    assert_eq!(decide("block proto icmp icmp-type { 0, unreach code 4 }", &ping), Action::Pass);
    let ping = made("fd00::1", "fd00::2", ICMPV6, vec![128, 0, 0, 0]);
    assert_eq!(decide("block proto icmp6 icmp6-type 128 code 0", &ping), Action::Drop);
    let packet = udp("1.1.1.1", 1, "2.2.2.2", 2);
    assert_eq!(
        [decide("block less 28", &packet), decide("block less 27", &packet)],
        [Action::Drop, Action::Pass]
    );
    assert_eq!(
        [decide("block greater 28", &packet), decide("block greater 29", &packet)],
        [Action::Drop, Action::Pass]
    );
}

#[test]
fn links_by_name() {
    let text = "block on b\nblock on { c, a }";
    let mut set = rules(text);
    let packet = udp("1.1.1.1", 1, "2.2.2.2", 2).bytes();
    let tally = Tally::new(2);
    assert_eq!(set.decide(&packet, 1, &tally).rule, None, "not bound, no rule is about any link");
    set.bind(&["a", "b", "c", "d"], "r", text).unwrap();
    let by: Vec<_> = (0..4).map(|interface| set.decide(&packet, interface, &tally).rule).collect();
    assert_eq!(by, [Some(1), Some(0), Some(1), None]);
    let unknown = set.bind(&["a", "b"], "r", text).unwrap_err();
    assert_eq!(unknown.to_string(), "r:2:12: no link is called `c`: there is a or b");
}

/// RFC 1858, RFC 3128: fragments are the classic way around a filter without state.
#[test]
fn fragments_do_not_get_around_rules() {
    let rule = "block proto tcp to port 80";
    let all = tcp("1.1.1.1", "2.2.2.2", 80, 2);
    assert_eq!(decide(rule, &all.clone().piece(0, true)), Action::Drop, "the first has its ports");
    let mut later = all.clone().piece(9, false);
    assert_eq!(decide(rule, &later), Action::Pass, "a later one has none");
    assert_eq!(decide("block fragment", &later), Action::Drop);
    assert_eq!(decide("block fragment", &all), Action::Pass);
    assert_eq!(decide("block proto tcp", &later), Action::Drop);
    later.piece = Some((1, false));
    assert_eq!(decide("", &later), Action::Drop, "would overwrite the flags");
    let mut tiny = all.piece(0, true);
    tiny.payload.truncate(8);
    assert_eq!(decide("", &tiny), Action::Drop, "hides its flags");
}

#[test]
fn extension_headers_are_walked() {
    let mut packet = udp("fd00::1", 1, "fd00::2", 53);
    let rule = "block proto udp to port 53";
    for extensions in [vec![0], vec![60, 43], vec![0, 60, 43, 60]] {
        packet.extensions = extensions;
        assert_eq!(decide(rule, &packet), Action::Drop, "{:?}", packet.extensions);
        assert_eq!(decide(rule, &packet.clone().piece(0, true)), Action::Drop);
        assert_eq!(decide(rule, &packet.clone().piece(2, false)), Action::Pass);
        assert_eq!(decide("block proto udp", &packet.clone().piece(2, false)), Action::Drop);
    }
    packet.extensions = vec![60; 9];
    assert_eq!(decide("", &packet), Action::Drop, "no honest packet has so many");
    packet.extensions = vec![51];
    assert_eq!(decide(rule, &packet), Action::Drop, "of an authentication header, zero says eight bytes");
}

#[test]
fn counters_of_rules() {
    let set = rules("pass proto udp\nblock quick proto tcp\nblock all");
    let tally = Tally::new(3);
    set.decide(&udp("1.1.1.1", 1, "2.2.2.2", 2).bytes(), 0, &tally);
    set.decide(&tcp("1.1.1.1", "2.2.2.2", 2, 0).bytes(), 0, &tally);
    set.decide(&[0x45], 0, &tally);
    let counts: Vec<_> = tally.counts().iter().map(|c| (c.evaluations, c.packets, c.bytes)).collect();
    assert_eq!(counts, [(2, 0, 0), (2, 1, 40), (1, 1, 28)]);
    assert_eq!((tally.malformed(), tally.unmatched()), (1, 0));

    let next = rules("block all\npass to 1.2.3.4\npass proto udp");
    let after = Tally::new(3);
    after.carry(&tally, &next.succession(&set));
    let carried: Vec<_> = after.counts().iter().map(|c| c.evaluations).collect();
    assert_eq!(carried, [1, 0, 2], "a rule that is written the same goes on counting");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, said) in [
        ("pas", "r:1:1: expected `pass`, `block`, `table` or `name = value`, found `pas`"),
        ("pass from 10.0.0", "r:1:11: expected an address, `any` or a <table>, found `10.0.0`"),
        ("pass from 10.0.0.0/33", "r:1:11: expected an address, `any` or a <table>, found `10.0.0.0/33`"),
        (
            "pass from { 1.1.1.1, !2.2.2.2 }",
            "r:1:22: expected an address or a <table> (`!` belongs into a table), found `!`",
        ),
        (
            "pass proto tcp to port 65536",
            "r:1:24: expected a port, such as 53, domain, 1000:2000 or != 80, found `65536`",
        ),
        (
            "pass proto tcp to port",
            "r:1:23: expected a port, such as 53, domain, 1000:2000 or != 80, found the end of the line",
        ),
        ("pass to port 80", "r:1:9: `port` needs `proto tcp`, `proto udp` or `proto { tcp, udp }` before it"),
        ("block flags S/SA", "r:1:7: `flags` needs `proto tcp` before it"),
        ("block proto icmp6 icmp-type 8", "r:1:19: `icmp-type` needs `proto icmp` before it"),
        (
            "pass proto tcp flags S/A",
            "r:1:16: these flags can never match: behind `/` some are missing that stand before it",
        ),
        ("pass inet6 from 10.0.0.1", "r:1:6: `inet6`, but an address of this rule is of the other family"),
        ("pass from <t>", "r:1:12: no table <t> is defined before this"),
        (
            "table <t> { 10.0.0.0/8 ! 10.0.0.0/8 }",
            "r:1:26: the same prefix is in this table with and without `!`",
        ),
        ("table <t> { }\ntable <t> { }", "r:2:8: table <t> is defined twice"),
        ("table t { }", "r:1:7: expected `<`, found `t`"),
        (
            "a = \"x\"\n\npass proto $a",
            "r:3:12: expected `{` or a protocol, such as tcp, udp, icmp or a number, found `x`",
        ),
    ] {
        assert_eq!(error_at(text), said);
    }
    assert!(error_at("block out").contains("found `out` (packets are screened as they come in"));
    assert!(error_at("pass proto tcp keep state").contains("rules keep no state"));
}

#[test]
fn rules_are_printed_as_understood() {
    let text = "web = \"{ http 443 }\"\ntable <bad> const { 10.1.2.3/8, ! 10.1.0.0/16 fd00::/8 }\n\
        block log quick on eth0 inet proto tcp from !<bad> to { 10.0.0.1 <bad> } port $web flags S/SA label \
        \"x y\"\n\
        pass in proto icmp6 icmp6-type { echoreq, toobig code 0 } no state\nblock return fragment less 100 \
        greater 2\npass";
    let shown = rules(text).to_string();
    assert_eq!(
        shown,
        "table <bad> { !10.1.0.0/16, 10.0.0.0/8, fd00::/8 }\n\
         block drop in log quick on eth0 inet proto tcp from !<bad> to { 10.0.0.1, <bad> } port { 80, 443 } \
         flags S/SA label \"x y\"\n\
         pass in proto icmp6 all icmp6-type { 128, 2 code 0 }\n\
         block return in all fragment less 100 greater 2\n\
         pass in all\n"
    );
    assert_eq!(rules(&shown).to_string(), shown);
}

// --- Any rules, any bytes ---

fn prefix() -> impl Strategy<Value = Prefix> {
    prop_oneof![
        (any::<[u8; 4]>(), 0..=32_u8).prop_filter_map("too long", |(a, l)| Prefix::new(IpAddr::from(a), l)),
        (any::<[u8; 16]>(), 0..=128_u8).prop_filter_map("too long", |(a, l)| Prefix::new(IpAddr::from(a), l)),
    ]
}

fn range() -> impl Strategy<Value = Range> {
    let ordered = |a: IpAddr, b: IpAddr| Range::new(a.min(b).into(), a.max(b).into()).unwrap();
    prop_oneof![
        any::<[[u8; 4]; 2]>().prop_map(move |[a, b]| ordered(a.into(), b.into())),
        any::<[[u8; 16]; 2]>().prop_map(move |[a, b]| ordered(a.into(), b.into())),
    ]
}

fn hosts(tables: usize) -> impl Strategy<Value = Hosts> {
    let host = prop_oneof![
        prefix().prop_map(HostSet::Prefix),
        range().prop_map(HostSet::Range),
        (0..tables).prop_map(HostSet::Table)
    ];
    prop_oneof![
        Just(Hosts::Any),
        (any::<bool>(), host.clone()).prop_map(|(not, host)| Hosts::One { not, host }),
        proptest::collection::vec(host, 1..4).prop_map(Hosts::List),
    ]
}

fn ports() -> impl Strategy<Value = Vec<Ports>> {
    let one = (0..9_u8, any::<u16>(), any::<u16>()).prop_map(|(kind, a, b)| match kind {
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
    proptest::collection::vec(one, 0..3)
}

fn any_rule(tables: usize) -> impl Strategy<Value = Rule> {
    let action = prop_oneof![Just(Action::Pass), Just(Action::Drop), Just(Action::Return)];
    let protocols = prop_oneof![
        Just(vec![]),
        Just(vec![TCP]),
        Just(vec![UDP]),
        Just(vec![TCP, UDP]),
        Just(vec![ICMP]),
        Just(vec![ICMPV6]),
        proptest::collection::vec(any::<u8>(), 1..3),
    ];
    let links = proptest::collection::vec("[a-z][a-z0-9.-]{0,9}", 0..3);
    let head = (action, any::<bool>(), any::<bool>(), links, protocols);
    let sides = (hosts(tables), hosts(tables), ports(), ports());
    let icmp = proptest::collection::vec((any::<u8>(), proptest::option::of(any::<u8>())), 0..3);
    let label = proptest::option::of("[^\"\n]{0,12}");
    let rest =
        (any::<Option<(u8, u8)>>(), icmp, any::<bool>(), any::<Option<u16>>(), any::<Option<u16>>(), label);
    (head, sides, rest).prop_map(|(head, (from, to, from_ports, to_ports), rest)| {
        let (action, log, quick, links, protocols) = head;
        let (flags, icmp, fragment, less, greater, label) = rest;
        let ported = [vec![TCP], vec![UDP], vec![TCP, UDP]].contains(&protocols);
        let side = |hosts, ports: Vec<Ports>| Side { hosts, ports: if ported { ports } else { vec![] } };
        let message = protocols == [ICMP] || protocols == [ICMPV6];
        Rule {
            action,
            log,
            quick,
            on: links.into_iter().map(|name| On { name, interface: None, at: 0 }).collect(),
            family: None,
            from: side(from, from_ports),
            to: side(to, to_ports),
            flags: flags.filter(|_| protocols == [TCP]).map(|(set, mask)| Flags { set: set & mask, mask }),
            icmp: if message {
                icmp.into_iter().map(|(kind, code)| Icmp { kind, code }).collect()
            } else {
                vec![]
            },
            protocols,
            fragment,
            less,
            greater,
            label,
            line: Line::default(),
        }
    })
}

fn any_set() -> impl Strategy<Value = RuleSet> {
    let table = |name: &'static str| {
        proptest::collection::btree_map(prefix(), any::<bool>(), 0..6)
            .prop_map(move |entries| Table::new(name, &entries.into_iter().collect::<Vec<_>>()).unwrap())
    };
    (table("one"), table("t-2"), proptest::collection::vec(any_rule(2), 0..6))
        .prop_map(|(one, two, rules)| RuleSet { tables: vec![one, two], rules })
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(set in any_set()) {
        let text = set.to_string();
        prop_assert_eq!(RuleSet::parse("r", &text).map_err(|m| format!("{m}\n{text}")), Ok(set));
    }

    /// The prefixes of a range are its addresses, all of them, and no others.
    #[test]
    fn a_range_is_its_prefixes(range in range(), address in prefix()) {
        let prefixes: Vec<_> = range.prefixes().collect();
        prop_assert!(prefixes.len() <= 2 * usize::from(range.family.bits()));
        let mut next = Some(range.first);
        for prefix in &prefixes {
            prop_assert_eq!(Some(prefix.bits), next);
            next = (prefix.bits | !prefix.family.mask(prefix.length)).checked_add(1);
        }
        prop_assert_eq!(next, range.last.checked_add(1));
        let address = Address { family: address.family, bits: address.bits };
        let inside = prefixes.iter().any(|prefix| prefix.contains(address));
        prop_assert_eq!(range.contains(address), inside);
    }

    #[test]
    fn any_text_is_read_or_refused_with_a_place(text in "[a-z0-9{}<>!=,$:/\\.\" \n#\\\\]{0,80}") {
        if let Err(error) = RuleSet::parse("r", &text) {
            prop_assert!(error.line <= text.matches('\n').count() + 1, "{}", error);
        }
    }

    #[test]
    fn any_bytes_are_decided_about(
        set in any_set(),
        packet in proptest::collection::vec(any::<u8>(), 0..120),
        six: bool,
    ) {
        let mut packet = packet;
        if let Some(first) = packet.first_mut() {
            *first = if six { 0x60 } else { 0x45 };
        }
        let tally = Tally::new(set.rules.len());
        let decision = set.decide(&packet, 0, &tally);
        prop_assert_eq!(decision, set.decide(&packet, 0, &tally));
        let decided: u64 = tally.counts().iter().map(|c| c.packets).sum();
        prop_assert_eq!(decided + tally.unmatched() + tally.malformed(), 2);
    }
}
