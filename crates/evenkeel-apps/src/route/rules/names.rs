//! Names for numbers: protocols, ports, TCP flags, ICMP messages. As pf and `/etc/services` have them.

pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMPV6: u8 = 58;

const PROTOCOLS: [(&str, u8); 10] = [
    ("icmp", ICMP),
    ("igmp", 2),
    ("tcp", TCP),
    ("udp", UDP),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmp6", ICMPV6),
    ("ospf", 89),
    ("sctp", 132),
];

const PORTS: [(&str, u16); 24] = [
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("http", 80),
    ("www", 80),
    ("pop3", 110),
    ("sunrpc", 111),
    ("ntp", 123),
    ("imap", 143),
    ("snmp", 161),
    ("bgp", 179),
    ("https", 443),
    ("isakmp", 500),
    ("syslog", 514),
    ("submission", 587),
    ("imaps", 993),
    ("sip", 5060),
    ("vxlan", 4789),
    ("mdns", 5353),
];

const ICMP_TYPES: [(&str, u8); 11] = [
    ("echorep", 0),
    ("unreach", 3),
    ("squench", 4),
    ("redir", 5),
    ("echoreq", 8),
    ("routeradv", 9),
    ("routersol", 10),
    ("timex", 11),
    ("paramprob", 12),
    ("timereq", 13),
    ("timerep", 14),
];

const ICMPV6_TYPES: [(&str, u8); 11] = [
    ("unreach", 1),
    ("toobig", 2),
    ("timex", 3),
    ("paramprob", 4),
    ("echoreq", 128),
    ("echorep", 129),
    ("routersol", 133),
    ("routeradv", 134),
    ("neighbrsol", 135),
    ("neighbradv", 136),
    ("redir", 137),
];

/// In the order of their bits (RFC 9293 3.1, RFC 3168 for the last two).
const FLAGS: [char; 8] = ['F', 'S', 'R', 'P', 'A', 'U', 'E', 'W'];

/// A decimal number and nothing else.
pub(super) fn number<T: core::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|d| d.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn look_up<T: Copy + core::str::FromStr>(names: &[(&str, T)], text: &str) -> Option<T> {
    number(text).or_else(|| names.iter().find(|(name, _)| *name == text).map(|&(_, number)| number))
}

pub(super) fn parse_protocol(text: &str) -> Option<u8> {
    look_up(&PROTOCOLS, text)
}

pub(super) fn parse_port(text: &str) -> Option<u16> {
    look_up(&PORTS, text)
}

pub(super) fn parse_icmp_type(text: &str) -> Option<u8> {
    look_up(&ICMP_TYPES, text)
}

pub(super) fn parse_icmpv6_type(text: &str) -> Option<u8> {
    look_up(&ICMPV6_TYPES, text)
}

/// A protocol's name, or its number if it has none.
pub(super) fn protocol(number: u8) -> String {
    let name = PROTOCOLS.iter().find(|(_, n)| *n == number).map(|(name, _)| (*name).to_owned());
    name.unwrap_or_else(|| number.to_string())
}

/// Whether the rule is about ICMPv6 and nothing else.
pub(super) fn is_icmpv6(protocols: &[u8]) -> bool {
    protocols == [ICMPV6]
}

/// `SA`: no letter twice, none that is no flag.
pub(super) fn parse_flags(text: &str) -> Option<u8> {
    text.chars().try_fold(0_u8, |flags, letter| {
        let bit = 1_u8 << FLAGS.iter().position(|flag| *flag == letter)?;
        (flags & bit == 0).then_some(flags | bit)
    })
}

pub(super) fn flags(set: u8) -> String {
    FLAGS.iter().enumerate().filter(|(bit, _)| set & (1 << bit) != 0).map(|(_, letter)| *letter).collect()
}
