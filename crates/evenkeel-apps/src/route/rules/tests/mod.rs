use core::net::IpAddr;

use super::names::{ICMP, ICMPV6, TCP, UDP};
use super::*;

mod flows;
mod pf;
mod random;

/// A router with the link 0, `lan`, on 10.0.1.0/24 and fd00:1::/64, and the link 1, `wan`, on
/// 198.51.100.0/24.
/// It has routes to these networks, and to 2.0.0.0/8 by the wan.
#[derive(Debug, Clone, Default)]
struct World {
    /// The number of random numbers drawn so far.
    random: u32,
}

impl World {
    const ADDRESSES: [&'static [(&'static str, u8)]; 2] =
        [&[("10.0.1.1", 24), ("fd00:1::1", 64), ("10.0.3.1", 24)], &[("198.51.100.2", 24)]];

    fn link_to(&self, address: IpAddr) -> Option<u8> {
        let within = |network: IpAddr, length| Prefix::new(network, length).unwrap().contains(address.into());
        let link =
            (0..self.interfaces()).find(|link| self.addresses(*link).any(|(own, len)| within(own, len)));
        link.or_else(|| within(IpAddr::from([2, 0, 0, 0]), 8).then_some(1))
    }
}

impl Surroundings for World {
    fn is_routed(&self, address: IpAddr) -> bool {
        self.link_to(address).is_some()
    }

    fn leads_back(&self, source: IpAddr) -> bool {
        self.link_to(source) == Some(0)
    }

    fn interfaces(&self) -> u8 {
        2
    }

    fn addresses(&self, interface: u8) -> impl Iterator<Item = (IpAddr, u8)> {
        let all = Self::ADDRESSES.get(usize::from(interface)).copied().unwrap_or_default();
        all.iter().map(|(address, length)| (address.parse().unwrap(), *length))
    }

    fn random(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.random
    }
}

/// Returns the decision about a packet that arrived on an interface, by the compiled rules and by the
/// evaluation.
fn decided(set: &RuleSet, packet: &[u8], interface: u8) -> Decision {
    let compiled = Compiled::new(set.clone());
    let tallies = [(); 2].map(|()| Counters::new(set));
    let decision = compiled.decide(packet, interface, &mut World::default(), &tallies[0]);
    assert_eq!(decision, set.decide(packet, interface, &mut World::default(), &tallies[1]));
    assert_eq!(tallies[0].counts(), tallies[1].counts());
    decision
}

fn rules(text: &str) -> RuleSet {
    RuleSet::parse("rules.conf", text).unwrap_or_else(|error| panic!("{error}"))
}

fn error_at(text: &str) -> String {
    RuleSet::parse("r", text).unwrap_err().to_string()
}

/// A packet for the tests. Its methods set further fields.
#[derive(Debug, Clone)]
struct Made {
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    payload: Vec<u8>,
    /// The fragment offset in units of eight bytes, and whether more fragments follow.
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

/// Returns the action for a packet that came in on interface 0.
fn decide(text: &str, packet: &Made) -> Action {
    let rules = rules(text);
    decided(&rules, &packet.bytes(), 0).action
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
    assert!(parse("table <t>").unwrap().tables[0].is_empty());
    assert!(parse("table <t> counters persist const").unwrap().tables[0].is_empty());
    assert_eq!(said("table <t> file"), "r:1:15: expected a file's name in quotes, found the end of the line");
    assert_eq!(error_at("table <t> file \"bad\""), "r:1:16: no files can be named here");
}

#[test]
fn a_rule_knows_its_line() {
    let lines: Vec<_> =
        rules("m = x\npass\n\n# no\nblock from { 10.0.0.1,\n 10.0.0.2 }\npass \\\nall\nblock")
            .rules
            .iter()
            .map(|rule| rule.line.number)
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
    assert_eq!(decided(&set, &packet, 1).rule, None, "not bound, no rule is about any link");
    let unknown = set.clone().bind(&["a", "b"]).unwrap_err();
    assert_eq!(unknown.to_string(), "rules.conf:2:12: no link is called `c`: there is a or b");
    set.bind(&["a", "b", "c", "d"]).unwrap();
    let by: Vec<_> = (0..4).map(|interface| decided(&set, &packet, interface).rule).collect();
    assert_eq!(by, [Some(1), Some(0), Some(1), None]);
}

/// Fragments are the classic way around a filter without state (RFC 1858, RFC 3128).
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
    let tally = Counters::new(&set);
    let compiled = Compiled::new(set.clone());
    let decide = |packet: &[u8]| compiled.decide(packet, 0, &mut World::default(), &tally);
    decide(&udp("1.1.1.1", 1, "2.2.2.2", 2).bytes());
    decide(&tcp("1.1.1.1", "2.2.2.2", 2, 0).bytes());
    decide(&[0x45]);
    let counts: Vec<_> = tally.counts().iter().map(|c| (c.evaluations, c.packets, c.bytes)).collect();
    assert_eq!(counts, [(2, 0, 0), (2, 1, 40), (1, 1, 28)]);
    assert_eq!((tally.malformed(), tally.unmatched()), (1, 0));

    let next = rules("block all\npass to 1.2.3.4\npass proto udp");
    let after = Counters::new(&next);
    after.carry(&tally, &next.succession(&set));
    let carried: Vec<_> = after.counts().iter().map(|c| c.evaluations).collect();
    assert_eq!(carried, [1, 0, 2], "a rule that is written the same goes on counting");
}

/// Packets that a quick rule counts from an earlier set have not ended an evaluation of this set.
#[test]
fn rules_behind_a_quick_one_go_on_counting() {
    let set = rules("block quick proto tcp\npass all");
    let [before, after] = [(); 2].map(|()| Counters::new(&set));
    let compiled = Compiled::new(set.clone());
    let decide = |packet: &[u8], tally: &Counters| compiled.decide(packet, 0, &mut World::default(), tally);
    let evaluations = |tally: &Counters| tally.counts().iter().map(|c| c.evaluations).collect::<Vec<_>>();
    decide(&tcp("1.1.1.1", "2.2.2.2", 2, 0).bytes(), &before);
    decide(&udp("1.1.1.1", 1, "2.2.2.2", 2).bytes(), &before);
    assert_eq!(evaluations(&before), [2, 1]);
    after.carry(&before, &set.succession(&set));
    decide(&udp("1.1.1.1", 1, "2.2.2.2", 2).bytes(), &after);
    assert_eq!(evaluations(&after), [3, 2]);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, said) in [
        (
            "pas",
            "r:1:1: expected `pass`, `block`, `match`, `scrub`, `table`, `set`, `antispoof`, `include` or \
             `name = value`, \
             found `pas`",
        ),
        ("pass from 10.0.0", "r:1:11: expected an address, `any`, a <table> or a link, found `10.0.0`"),
        (
            "pass from 10.0.0.0/33",
            "r:1:11: expected an address, `any`, a <table> or a link, found `10.0.0.0/33`",
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
    assert!(error_at("block out").starts_with("r:1:7: `out`: packets are screened as they come in"));
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
