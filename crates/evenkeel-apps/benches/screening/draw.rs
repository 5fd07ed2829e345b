//! Random rules and packets.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use evenkeel_base::SplitMix64;

const TCP: u8 = 6;
const UDP: u8 = 17;
const PACKETS: usize = 8192;

struct Random(SplitMix64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn between(&mut self, first: u128, last: u128) -> u128 {
        let random = u128::from(self.next()) << 64 | u128::from(self.next());
        match last.wrapping_sub(first).wrapping_add(1) {
            0 => random,
            count => first + random % count,
        }
    }
}

/// A range of addresses.
#[derive(Clone, Copy)]
struct Hosts {
    first: u128,
    last: u128,
    /// The length of the prefix, if the range is one.
    length: Option<u8>,
}

/// A rule for a protocol, a link and so on.
#[derive(Clone, Copy, Default)]
pub(crate) struct Rule {
    six: bool,
    quick: bool,
    on: Option<&'static str>,
    protocol: Option<u8>,
    from: Option<Hosts>,
    to: Option<Hosts>,
    from_ports: Option<(u16, u16)>,
    to_ports: Option<(u16, u16)>,
    tagged: bool,
}

/// A kind of rules.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    draw: fn(&mut Random, usize) -> Rule,
}

/// The choice of packets to send.
#[derive(Clone, Copy)]
pub(crate) enum Traffic {
    /// Each packet matches a random rule.
    Random,
    /// Each packet matches the rule that is found last.
    Last,
    /// No packet matches a rule.
    None,
}

impl Traffic {
    pub(crate) const ALL: [Self; 3] = [Self::Random, Self::Last, Self::None];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Last => "last",
            Self::None => "none",
        }
    }
}

/// Returns a random prefix between 20.0.0.0 and 99.255.255.255.
fn v4(random: &mut Random, least: u64, most: u64) -> Option<Hosts> {
    let address = 20_u128 << 24 | u128::from(random.below(80 << 24));
    let length = least + random.below(most + 1 - least);
    let host = u128::from(u32::MAX) >> length;
    let first = address & !host;
    Some(Hosts { first, last: first | host, length: Some(length as u8) })
}

fn v6(random: &mut Random) -> Option<Hosts> {
    let net = 0x2001_0db8_u128 << 96 | u128::from(random.below(1 << 20)) << 64;
    let length = 48 + random.below(81);
    let host = u128::MAX.checked_shr(length as u32).unwrap_or(0);
    let first = (net | u128::from(random.next())) & !host;
    Some(Hosts { first, last: first | host, length: Some(length as u8) })
}

fn ports(random: &mut Random) -> Option<(u16, u16)> {
    let first = random.below(60_000) as u16;
    let width = if random.chance(60) { 0 } else { random.below(2_000) as u16 };
    Some((first, first + width))
}

fn transport(random: &mut Random) -> Option<u8> {
    Some(if random.chance(50) { TCP } else { UDP })
}

/// Returns a range that begins in the first third of the addresses, and ends in the last third.
fn wide(random: &mut Random) -> Option<Hosts> {
    let third = 25_u64 << 24;
    let first = 20_u128 << 24 | u128::from(random.below(third));
    Some(Hosts { first, last: u128::from((75 << 24) + random.below(third)), length: None })
}

fn mixed(random: &mut Random, number: usize) -> Rule {
    let mut rule = Rule { quick: random.chance(30), ..Rule::default() };
    rule.from = if random.chance(60) { v4(random, 8, 32) } else { None };
    rule.to = if rule.from.is_none() || random.chance(60) { v4(random, 8, 32) } else { None };
    rule.on = [None, None, Some("lan"), Some("wan")][random.below(4) as usize];
    if random.chance(70) {
        rule.protocol = transport(random);
        rule.to_ports = if random.chance(70) { ports(random) } else { None };
        rule.from_ports = if random.chance(10) { ports(random) } else { None };
    }
    rule.tagged = number % 100 == 99;
    rule
}

pub(crate) const KINDS: [Kind; 9] = [
    Kind {
        name: "prefixes",
        draw: |random, _| Rule { from: v4(random, 16, 32), to: v4(random, 16, 32), ..Rule::default() },
    },
    Kind { name: "destinations", draw: |random, _| Rule { to: v4(random, 20, 32), ..Rule::default() } },
    Kind {
        name: "ipv6",
        draw: |random, _| Rule { six: true, from: v6(random), to: v6(random), ..Rule::default() },
    },
    Kind {
        name: "ports",
        draw: |random, _| Rule {
            protocol: transport(random),
            to: v4(random, 20, 32),
            to_ports: ports(random),
            ..Rule::default()
        },
    },
    Kind {
        name: "ports-alone",
        draw: |random, _| Rule {
            protocol: transport(random),
            from_ports: ports(random),
            to_ports: ports(random),
            ..Rule::default()
        },
    },
    Kind {
        name: "protocols-and-links",
        draw: |random, _| Rule {
            on: Some(if random.chance(50) { "lan" } else { "wan" }),
            protocol: Some(random.below(256) as u8),
            from: v4(random, 8, 24),
            ..Rule::default()
        },
    },
    Kind {
        name: "quick",
        draw: |random, _| Rule {
            quick: true,
            from: v4(random, 8, 32),
            to: v4(random, 8, 32),
            protocol: transport(random),
            ..Rule::default()
        },
    },
    Kind { name: "mixed", draw: mixed },
    // All rules overlap, and each begins and ends in its own places.
    Kind {
        name: "overlapping",
        draw: |random, _| Rule {
            quick: random.chance(50),
            protocol: transport(random),
            from: wide(random),
            to: wide(random),
            from_ports: Some((random.below(20_000) as u16, 40_000 + random.below(20_000) as u16)),
            to_ports: Some((random.below(20_000) as u16, 40_000 + random.below(20_000) as u16)),
            ..Rule::default()
        },
    },
];

impl Kind {
    /// Draws rules, always the same sequence: a smaller set is the beginning of a larger one.
    pub(crate) fn draw(&self, count: usize) -> Vec<Rule> {
        let mut random = Random(SplitMix64::new(7));
        (0..count).map(|number| (self.draw)(&mut random, number)).collect()
    }
}

impl Rule {
    /// Returns the rule as it is written.
    pub(crate) fn text(&self) -> String {
        let mut text = String::from(if self.tagged { "match in" } else { "pass in" });
        if self.quick && !self.tagged {
            text.push_str(" quick");
        }
        if let Some(on) = self.on {
            let _ = write!(text, " on {on}");
        }
        text.push_str(if self.six { " inet6" } else { " inet" });
        if let Some(protocol) = self.protocol {
            let _ = write!(text, " proto {protocol}");
        }
        let sides = [("from", self.from, self.from_ports), ("to", self.to, self.to_ports)];
        for (word, hosts, ports) in sides {
            match hosts {
                None => drop(write!(text, " {word} any")),
                Some(Hosts { first, length: Some(length), .. }) => {
                    let _ = write!(text, " {word} {}/{length}", self.address(first));
                }
                Some(Hosts { first, last, .. }) => {
                    let _ = write!(text, " {word} {} - {}", self.address(first), self.address(last));
                }
            }
            if let Some((first, last)) = ports {
                let _ = write!(text, " port {first}:{last}");
            }
        }
        if self.tagged {
            text.push_str(" tag seen");
        }
        text.push('\n');
        text
    }

    fn address(&self, number: u128) -> IpAddr {
        if self.six { Ipv6Addr::from(number).into() } else { Ipv4Addr::from(number as u32).into() }
    }

    /// Draws a packet that the rule matches if it arrives on the first link.
    fn packet(&self, random: &mut Random) -> Vec<u8> {
        let mut side = |hosts: Option<Hosts>, ports: Option<(u16, u16)>| {
            let everywhere = if self.six { v6(random) } else { v4(random, 0, 0) };
            let Hosts { first, last, .. } = hosts.or(everywhere).unwrap();
            let (first_port, last_port) = ports.unwrap_or((1, 65_000));
            // The addresses exclude those with a special meaning.
            let (first, last) =
                if self.six { (first, last) } else { (first.max(20 << 24), last.min(100 << 24)) };
            let port = random.between(first_port.into(), last_port.into()) as u16;
            (random.between(first, last), port)
        };
        let (from, to) = (side(self.from, self.from_ports), side(self.to, self.to_ports));
        packet(self.six, self.protocol.unwrap_or(UDP), from, to)
    }
}

fn packet(six: bool, protocol: u8, from: (u128, u16), to: (u128, u16)) -> Vec<u8> {
    let mut payload = vec![0; 26];
    payload[..2].copy_from_slice(&from.1.to_be_bytes());
    payload[2..4].copy_from_slice(&to.1.to_be_bytes());
    payload[5] = 26;
    payload[12] = 5 << 4;
    payload[13] = 2;
    let mut packet;
    if six {
        packet = vec![0x60, 0, 0, 0, 0, payload.len() as u8, protocol, 64];
        [from.0, to.0].iter().for_each(|address| packet.extend(address.to_be_bytes()));
    } else {
        packet = vec![0x45, 0, 0, 20 + payload.len() as u8, 0, 0, 0x40, 0, 64, protocol, 0, 0];
        [from.0, to.0].iter().for_each(|address| packet.extend((*address as u32).to_be_bytes()));
        let sum: u32 = packet.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    packet.extend(payload);
    packet
}

/// Draws packets for rules, always the same sequence.
pub(crate) fn packets(rules: &[Rule], traffic: Traffic) -> Vec<Vec<u8>> {
    let mut random = Random(SplitMix64::new(11));
    // This is the first rule without quick, or the last one with it.
    let last = rules.iter().find(|rule| !rule.quick).or(rules.last()).unwrap();
    let six = rules[0].six;
    let mut one = || match traffic {
        Traffic::Random => rules[random.below(rules.len() as u64) as usize].packet(&mut random),
        Traffic::Last => last.packet(&mut random),
        Traffic::None => {
            let mut side = |net: u8, net_v6: u128| {
                let host = u128::from(random.next());
                let address =
                    if six { net_v6 << 96 | host } else { u128::from(net) << 24 | host & 0xff_ffff };
                (address, 61_000 + random.below(4_000) as u16)
            };
            packet(six, 6 + 11 * u8::from(side(3, 0).1 % 2 == 0), side(3, 0x2a01_0001), side(5, 0x2a01_0002))
        }
    };
    (0..PACKETS).map(|_| one()).collect()
}

/// Writes a table of prefixes, and a rule that is about it.
pub(crate) fn table(count: usize) -> String {
    let mut random = Random(SplitMix64::new(3));
    let mut text = String::from("table <t> {");
    for _ in 0..count {
        let Hosts { first, .. } = v4(&mut random, 24, 24).unwrap();
        let _ = write!(text, " {}/24", Ipv4Addr::from(first as u32));
    }
    text.push_str(" }\npass in from <t>\n");
    text
}
