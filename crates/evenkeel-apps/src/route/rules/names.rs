//! Names for numbers: protocols, ports, TCP flags, ICMP messages, types of service.
//!
//! The names that rules usually contain are built in, so that they mean the same on every machine, also
//! without `/etc/services`.

use std::sync::OnceLock;

pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMPV6: u8 = 58;

/// Names of protocols. If a number has several names, the first one is printed.
const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", ICMP),
    ("igmp", 2),
    ("ipencap", 4),
    ("ipip", 4),
    ("tcp", TCP),
    ("egp", 8),
    ("igp", 9),
    ("udp", UDP),
    ("dccp", 33),
    ("ipv6", 41),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmp6", ICMPV6),
    ("ipv6-icmp", ICMPV6),
    ("eigrp", 88),
    ("ospf", 89),
    ("ospfigp", 89),
    ("etherip", 97),
    ("encap", 98),
    ("pim", 103),
    ("ipcomp", 108),
    ("carp", 112),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
    ("udplite", 136),
    ("mpls-in-ip", 137),
    ("pfsync", 240),
];

/// The services that rules usually name, with IANA's ports. Others are looked up in `/etc/services`.
const PORTS: &[(&str, u16)] = &[
    ("tcpmux", 1),
    ("echo", 7),
    ("discard", 9),
    ("systat", 11),
    ("daytime", 13),
    ("netstat", 15),
    ("qotd", 17),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("time", 37),
    ("whois", 43),
    ("tacacs", 49),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("gopher", 70),
    ("finger", 79),
    ("http", 80),
    ("www", 80),
    ("kerberos", 88),
    ("iso-tsap", 102),
    ("pop2", 109),
    ("pop3", 110),
    ("sunrpc", 111),
    ("portmap", 111),
    ("auth", 113),
    ("ident", 113),
    ("sftp", 115),
    ("nntp", 119),
    ("ntp", 123),
    ("epmap", 135),
    ("msrpc", 135),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ssn", 139),
    ("imap", 143),
    ("imap2", 143),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("snmptrap", 162),
    ("bgp", 179),
    ("irc", 194),
    ("smux", 199),
    ("ldap", 389),
    ("https", 443),
    ("microsoft-ds", 445),
    ("kpasswd", 464),
    ("submissions", 465),
    ("smtps", 465),
    ("isakmp", 500),
    ("biff", 512),
    ("exec", 512),
    ("login", 513),
    ("who", 513),
    ("shell", 514),
    ("syslog", 514),
    ("printer", 515),
    ("talk", 517),
    ("ntalk", 518),
    ("router", 520),
    ("route", 520),
    ("ripng", 521),
    ("uucp", 540),
    ("klogin", 543),
    ("kshell", 544),
    ("dhcpv6-client", 546),
    ("dhcpv6-server", 547),
    ("rtsp", 554),
    ("nntps", 563),
    ("submission", 587),
    ("ipp", 631),
    ("ldaps", 636),
    ("ldp", 646),
    ("rsync", 873),
    ("domain-s", 853),
    ("ftps-data", 989),
    ("ftps", 990),
    ("telnets", 992),
    ("imaps", 993),
    ("pop3s", 995),
    ("socks", 1080),
    ("openvpn", 1194),
    ("ms-sql-s", 1433),
    ("l2tp", 1701),
    ("h323hostcall", 1720),
    ("pptp", 1723),
    ("radius", 1812),
    ("radius-acct", 1813),
    ("nfs", 2049),
    ("nfsd", 2049),
    ("zookeeper", 2181),
    ("cvspserver", 2401),
    ("iscsi-target", 3260),
    ("mysql", 3306),
    ("rdp", 3389),
    ("ms-wbt-server", 3389),
    ("stun", 3478),
    ("bfd-control", 3784),
    ("bfd-echo", 3785),
    ("svn", 3690),
    ("epmd", 4369),
    ("ipsec-nat-t", 4500),
    ("ipsec-msft", 4500),
    ("vxlan", 4789),
    ("sip", 5060),
    ("sips", 5061),
    ("xmpp-client", 5222),
    ("xmpp-server", 5269),
    ("mdns", 5353),
    ("postgresql", 5432),
    ("amqp", 5672),
    ("amqps", 5671),
    ("x11", 6000),
    ("redis", 6379),
    ("ircs-u", 6697),
    ("http-alt", 8080),
    ("https-alt", 8443),
    ("puppet", 8140),
    ("git", 9418),
    ("bacula-dir", 9101),
    ("webmin", 10000),
    ("wireguard", 51820),
];

const ICMP_TYPES: &[(&str, u8)] = &[
    ("echorep", 0),
    ("unreach", UNREACHABLE),
    ("squench", 4),
    ("redir", 5),
    ("althost", 6),
    ("echoreq", 8),
    ("routeradv", 9),
    ("routersol", 10),
    ("timex", 11),
    ("paramprob", 12),
    ("timereq", 13),
    ("timerep", 14),
    ("inforeq", 15),
    ("inforep", 16),
    ("maskreq", 17),
    ("maskrep", 18),
    ("trace", 30),
    ("dataconv", 31),
    ("mobredir", 32),
    ("ipv6-where", 33),
    ("ipv6-here", 34),
    ("mobregreq", 35),
    ("mobregrep", 36),
    ("skip", 39),
    ("photuris", 40),
];

const ICMPV6_TYPES: &[(&str, u8)] = &[
    ("unreach", UNREACHABLE_V6),
    ("toobig", 2),
    ("timex", 3),
    ("paramprob", 4),
    ("echoreq", 128),
    ("echorep", 129),
    ("groupqry", 130),
    ("listqry", 130),
    ("grouprep", 131),
    ("listenrep", 131),
    ("groupterm", 132),
    ("listendone", 132),
    ("routersol", 133),
    ("routeradv", 134),
    ("neighbrsol", 135),
    ("neighbradv", 136),
    ("redir", 137),
    ("routrrenum", 138),
    ("fqdnreq", 139),
    ("niqry", 139),
    ("wrureq", 139),
    ("fqdnrep", 140),
    ("nirep", 140),
    ("wrurep", 140),
    ("mtraceresp", 200),
    ("mtrace", 201),
];

/// The ICMP type of "destination unreachable"; that of ICMPv6 is `UNREACHABLE_V6`.
pub(super) const UNREACHABLE: u8 = 3;
pub(super) const UNREACHABLE_V6: u8 = 1;

/// Codes of ICMP, each with its type.
const ICMP_CODES: &[(u8, &str, u8)] = &[
    (3, "net-unr", 0),
    (3, "host-unr", 1),
    (3, "proto-unr", 2),
    (3, "port-unr", 3),
    (3, "needfrag", 4),
    (3, "srcfail", 5),
    (3, "net-unk", 6),
    (3, "host-unk", 7),
    (3, "isolate", 8),
    (3, "net-prohib", 9),
    (3, "host-prohib", 10),
    (3, "net-tos", 11),
    (3, "host-tos", 12),
    (3, "filter-prohib", 13),
    (3, "host-preced", 14),
    (3, "cutoff-preced", 15),
    (5, "redir-net", 0),
    (5, "redir-host", 1),
    (5, "redir-tos-net", 2),
    (5, "redir-tos-host", 3),
    (9, "normal-adv", 0),
    (9, "common-adv", 16),
    (11, "transit", 0),
    (11, "reassemb", 1),
    (12, "badhead", 0),
    (12, "optmiss", 1),
    (12, "badlen", 2),
    (40, "unknown-ind", 1),
    (40, "auth-fail", 2),
    (40, "decrypt-fail", 3),
];

const ICMPV6_CODES: &[(u8, &str, u8)] = &[
    (1, "noroute-unr", 0),
    (1, "admin-unr", 1),
    (1, "notnbr-unr", 2),
    (1, "beyond-unr", 2),
    (1, "addr-unr", 3),
    (1, "port-unr", 4),
    (3, "transit", 0),
    (3, "reassemb", 1),
    (4, "badhead", 0),
    (4, "nxthdr", 1),
    (137, "redironlink", 0),
    (137, "redirrouter", 1),
];

/// Types of service (RFC 791), and code points in their place (RFC 2474), with pf's names.
const TOS: &[(&str, u8)] = &[
    ("lowdelay", 0x10),
    ("throughput", 0x08),
    ("reliability", 0x04),
    ("netcontrol", 0xe0),
    ("inetcontrol", 0xc0),
    ("critical", 0xa0),
];

/// Code points (RFC 2474, RFC 2597, RFC 3246, RFC 5865, RFC 8622).
const CODE_POINTS: &[(&str, u8)] = &[
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("ef", 46),
    ("va", 44),
    ("le", 1),
];

/// TCP flags in the order of their bits (RFC 9293 3.1, RFC 3168 for the last two).
const FLAGS: [char; 8] = ['F', 'S', 'R', 'P', 'A', 'U', 'E', 'W'];

/// Reads a decimal number without anything else.
pub(super) fn number<T: core::str::FromStr>(text: &str) -> Option<T> {
    (!text.is_empty() && text.bytes().all(|d| d.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

fn look_up<T: Copy + core::str::FromStr>(names: &[(&str, T)], text: &str) -> Option<T> {
    number(text).or_else(|| names.iter().find(|(name, _)| *name == text).map(|&(_, number)| number))
}

pub(super) fn parse_protocol(text: &str) -> Option<u8> {
    look_up(PROTOCOLS, text)
}

pub(super) fn parse_port(text: &str) -> Option<u16> {
    look_up(PORTS, text).or_else(|| service(text))
}

/// Looks a service up in the machine's own list, which is read once.
fn service(name: &str) -> Option<u16> {
    static SERVICES: OnceLock<String> = OnceLock::new();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let path = std::path::Path::new("/etc/services");
    in_services(SERVICES.get_or_init(|| crate::text::read_text(path).unwrap_or_default()), name)
}

/// Finds a name or alias in lines such as `imaps 993/tcp imap4s # comment`.
fn in_services(text: &str, name: &str) -> Option<u16> {
    text.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let (first, port) = (words.next()?, words.next()?);
        (first == name || words.any(|alias| alias == name)).then(|| number(port.split('/').next()?)).flatten()
    })
}

/// Reads a byte: the name of a type of service or of a code point, or a number, also in hexadecimal.
pub(super) fn parse_tos(text: &str) -> Option<u8> {
    let code_point = || CODE_POINTS.iter().find(|(name, _)| *name == text).map(|(_, point)| point << 2);
    match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|d| d.is_ascii_hexdigit()) => u8::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None => look_up(TOS, text).or_else(code_point),
    }
}

/// Returns the byte with a code point, given by its name or a number up to 63.
pub(super) fn parse_dscp(text: &str) -> Option<u8> {
    look_up(CODE_POINTS, text).filter(|point| *point < 64).map(|point| point << 2)
}

pub(super) fn parse_icmp_code(kind: u8, text: &str) -> Option<u8> {
    look_up_code(ICMP_CODES, kind, text)
}

pub(super) fn parse_icmpv6_code(kind: u8, text: &str) -> Option<u8> {
    look_up_code(ICMPV6_CODES, kind, text)
}

fn look_up_code(codes: &[(u8, &str, u8)], kind: u8, text: &str) -> Option<u8> {
    let named = || codes.iter().find(|(of, name, _)| (*of, *name) == (kind, text));
    number(text).or_else(|| named().map(|(_, _, code)| *code))
}

pub(super) fn parse_icmp_type(text: &str) -> Option<u8> {
    look_up(ICMP_TYPES, text)
}

pub(super) fn parse_icmpv6_type(text: &str) -> Option<u8> {
    look_up(ICMPV6_TYPES, text)
}

/// Returns a protocol's name, or its number if it has none.
pub(super) fn protocol(number: u8) -> String {
    let name = PROTOCOLS.iter().find(|(_, n)| *n == number).map(|(name, _)| (*name).to_owned());
    name.unwrap_or_else(|| number.to_string())
}

/// Returns whether a rule with these protocols is about ICMPv6 and nothing else.
pub(super) fn is_icmpv6(protocols: &[u8]) -> bool {
    protocols == [ICMPV6]
}

/// Reads flags such as `SA`: no letter twice, and only flags.
pub(super) fn parse_flags(text: &str) -> Option<u8> {
    text.chars().try_fold(0_u8, |flags, letter| {
        let bit = 1_u8 << FLAGS.iter().position(|flag| *flag == letter)?;
        (flags & bit == 0).then_some(flags | bit)
    })
}

pub(super) fn flags(set: u8) -> String {
    FLAGS.iter().enumerate().filter(|(bit, _)| set & (1 << bit) != 0).map(|(_, letter)| *letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_have_names_on_every_machine_and_others_where_they_are_listed() {
        assert_eq!(
            ["imaps", "www", "bgp", "0", "65536", ""].map(parse_port),
            [Some(993), Some(80), Some(179), Some(0), None, None]
        );
        let text = "# services\nmine\t\t7001/tcp our own # comment\nother 7002/udp\nbroken\n";
        let found = ["mine", "own", "other", "broken", "comment", "tcp"].map(|name| in_services(text, name));
        assert_eq!(found, [Some(7001), Some(7001), Some(7002), None, None, None]);
    }

    #[test]
    fn types_of_service() {
        assert_eq!(
            ["lowdelay", "ef", "af11", "cs7", "0x10", "16", "0x", "0x100", "none"].map(parse_tos),
            [Some(16), Some(0xb8), Some(0x28), Some(0xe0), Some(16), Some(16), None, None, None]
        );
        assert_eq!(["ef", "46", "63", "64"].map(parse_dscp), [Some(0xb8), Some(0xb8), Some(0xfc), None]);
    }
}
