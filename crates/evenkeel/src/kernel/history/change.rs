//! Random changes of the kernel's tables, as commands.

use evenkeel_base::SplitMix64;

/// Sample destinations in and near the prefixes of the changes.
pub(super) const DESTINATIONS: [&str; 26] = [
    "20.1.2.3",
    "20.1.2.4",
    "20.1.2.200",
    "20.1.9.9",
    "20.9.9.9",
    "20.200.1.1",
    "30.1.1.1",
    "10.0.1.1",
    "10.0.1.2",
    "10.0.1.77",
    "10.0.2.2",
    "10.0.2.255",
    "10.0.3.9",
    "10.0.9.9",
    "10.0.0.33",
    "10.0.1.7",
    "2001:db8:1:2::3",
    "2001:db8:1:2::4",
    "2001:db8:1:9::9",
    "2001:db8:9::9",
    "2001:dead::1",
    "fd00:1::1",
    "fd00:1::2",
    "fd00:2::77",
    "fd00:3::9",
    "fd00:9::9",
];

const V4: [&str; 10] = [
    "default",
    "20.0.0.0/8",
    "20.1.0.0/16",
    "20.1.2.0/24",
    "20.1.2.128/25",
    "20.1.2.3/32",
    "20.128.0.0/9",
    "10.0.1.0/24",
    "10.0.0.0/8",
    "30.1.1.1/32",
];
const V6: [&str; 7] = [
    "default",
    "2001:db8::/32",
    "2001:db8:1::/48",
    "2001:db8:1:2::/64",
    "2001:db8:1:2::3/128",
    "fd00:1::/64",
    "fd00::/16",
];

/// A source of changes.
pub(super) struct Changes {
    random: SplitMix64,
    /// Whether to make changes that cannot be followed by destination.
    odd: bool,
}

impl Changes {
    pub(super) fn new(seed: u64, odd: bool) -> Self {
        let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
        Self { random: SplitMix64::new(seed), odd }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.remainder(bound as u64) as usize
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    pub(super) fn next(&mut self) -> String {
        match self.below(100) {
            0..56 => self.route(),
            56..72 => self.nexthop(),
            72..80 => self.rule(),
            80..90 => self.link(),
            90..97 => self.address(),
            _ => self.setting(),
        }
    }

    fn six(&mut self) -> bool {
        self.below(5) < 2
    }

    fn device(&mut self) -> &'static str {
        self.of(&["d0", "d1", "d1", "d2", "d2", "d3", "f0"])
    }

    fn gateway(&mut self, six: bool) -> String {
        let (net, host) = ([0, 1, 1, 2, 2, 3, 3, 9][self.below(8)], 2 + self.below(3));
        if six { format!("fd00:{net}::{host}") } else { format!("10.0.{net}.{host}") }
    }

    /// Returns a random gateway with its device.
    fn by(&mut self, six: bool) -> String {
        let net = [0, 1, 1, 2, 2, 3, 3, 9][self.below(8)];
        let device = if net == 9 { "f0".to_owned() } else { format!("d{net}") };
        let host = 2 + self.below(3);
        match (six, self.below(8)) {
            (true, _) => format!("via fd00:{net}::{host} dev {device}"),
            (false, 0) => format!("via inet6 fd00:{net}::{host} dev {device}"),
            (false, 1) => format!("via 10.0.{net}.{host} dev {device} onlink"),
            (false, _) => format!("via 10.0.{net}.{host} dev {device}"),
        }
    }

    fn target(&mut self, six: bool) -> String {
        match self.below(24) {
            0..7 => self.by(six),
            7..9 => format!("via {}", self.gateway(six)),
            9..12 => format!("dev {}", self.device()),
            12..15 => {
                let mut hops = String::new();
                for _ in 0..2 + self.below(2) {
                    hops.push_str(&format!(" nexthop {} weight {}", self.by(six), 1 + self.below(3)));
                }
                hops.trim_start().to_owned()
            }
            15..20 => format!("nhid {}", 1 + self.below(9)),
            20 if self.odd => format!("encap ip id 7 dst 10.0.1.5 dev {}", self.device()),
            _ => String::new(),
        }
    }

    fn route(&mut self) -> String {
        let six = self.six();
        let verb =
            self.of(&["add", "add", "append", "append", "prepend", "replace", "change", "del", "del", "del"]);
        let prefix = if six { self.of(&V6) } else { self.of(&V4) };
        let target = self.target(six);
        // Until IPv4 first has a rule, the kernel looks into its first two tables together, and nothing shows
        // whether it still does. It matters if the first table has a shorter prefix than one of the second:
        // that prefix is closed, and so cannot be followed. For the same reason a route in the last table is
        // closed if the second one discards.
        let to_local = six || self.odd || prefix.ends_with("/32");
        // The source address of the queries would be martian for any route.
        let has_source = matches!(prefix, "default" | "10.0.0.0/8") && !six;
        let kind = if target.is_empty() {
            let kinds = ["blackhole ", "unreachable ", "prohibit ", "throw ", "local ", "broadcast "];
            self.of(if to_local && !has_source { &kinds } else { &kinds[..4] })
        } else {
            ""
        };
        let target = match kind {
            "local " | "broadcast " => "dev lo".to_owned(),
            _ => target,
        };
        let (target, kind) =
            if verb == "del" && self.below(2) == 0 { (String::new(), "") } else { (target, kind) };
        let metric = self.of(&["", "", "", "", " metric 5", " metric 10", " metric 1024"]);
        let more = match self.below(20) {
            0 => " proto 99",
            1 => " mtu 1300",
            2 if !six => " src 10.0.1.7",
            3 if self.odd && !six => " table 253",
            4 | 5 => " table 100",
            6 => " table 101",
            7 if self.odd && !six => " tos 0x10",
            7 if self.odd => " from 2001:db8:77::/48",
            8 if six => " pref high",
            9 if six => " pref low",
            10 if to_local => " table 255",
            _ => "",
        };
        let ip = if six { "ip -6" } else { "ip" };
        format!("{ip} route {verb} {kind}{prefix} {target}{metric}{more}").replace("  ", " ")
    }

    fn nexthop(&mut self) -> String {
        let id = 1 + self.below(9);
        match self.below(12) {
            0..4 => format!("ip nexthop del id {id}"),
            verb => {
                let verb = if verb < 8 { "add" } else { "replace" };
                let six = self.six();
                let by = self.by(six);
                let (a, b) = (1 + self.below(9), 1 + self.below(9));
                let what = match self.below(12) {
                    0..7 => by.replace("inet6 ", ""),
                    7 => "blackhole".to_owned(),
                    8 => format!("dev {}", self.device()),
                    9 => format!("group {a},{}/{b},{}", 1 + self.below(3), 1 + self.below(200)),
                    10 => format!("group {a}"),
                    _ => format!("group {a}/{b} type resilient buckets 8"),
                };
                let ip = if six { "ip -6" } else { "ip" };
                format!("{ip} nexthop {verb} id {id} {what}")
            }
        }
    }

    fn rule(&mut self) -> String {
        let six = self.six();
        let ip = if six { "ip -6" } else { "ip" };
        let prefix = if six { V6[1 + self.below(6)] } else { V4[1 + self.below(9)] };
        let table = self.of(&["100", "101", "main", "local", "253"]);
        let priority = 10 * (1 + self.below(6));
        if self.below(5) < 2 {
            return format!("{ip} rule del priority {priority}");
        }
        let condition = match self.below(if self.odd { 12 } else { 6 }) {
            0 => "".to_owned(),
            1..4 => format!("to {prefix}"),
            4 => "fwmark 7".to_owned(),
            5 => "not fwmark 7".to_owned(),
            6 => format!("from {}", if six { "2001:db8:77::/48" } else { "10.7.0.0/16" }),
            7 => "iif d1".to_owned(),
            8 => "iif f0".to_owned(),
            9 => "oif d1".to_owned(),
            10 => "ipproto udp dport 53".to_owned(),
            _ => format!("not to {prefix}"),
        };
        let action = match self.below(10) {
            0..6 => format!("lookup {table}"),
            6 => format!("lookup {table} suppress_prefixlength {}", [0, 8, 16, 24][self.below(4)]),
            7 => self.of(&["blackhole", "unreachable", "prohibit"]).to_owned(),
            8 => format!("goto {}", priority + 10 * (1 + self.below(3))),
            _ => "nop".to_owned(),
        };
        format!("{ip} rule add {condition} {action} priority {priority}").replace("  ", " ")
    }

    fn link(&mut self) -> String {
        let number = self.below(4);
        match self.below(14) {
            0..3 => format!("ip link set d{number} down"),
            3..6 => format!("ip link set d{number} up"),
            6..8 => format!("ip link set p{number} down"),
            8..10 => format!("ip link set p{number} up"),
            10 => "ip link del d3".to_owned(),
            11 | 12 => "ip link add d3 type veth peer name p3".to_owned(),
            _ => format!("ip link set d{number} mtu {}", [1200, 1500][self.below(2)]),
        }
    }

    fn address(&mut self) -> String {
        let net = self.below(4);
        let verb = self.of(&["add", "del"]);
        let address = match self.below(7) {
            0 | 1 => format!("10.0.{net}.1/24 brd +"),
            2 => "10.0.1.7/24".to_owned(),
            3 => format!("10.0.{net}.7/32"),
            4 => "20.9.9.8 peer 20.9.9.9/32".to_owned(),
            5 => format!("fd00:{net}::1/64 nodad"),
            _ => format!("10.0.{net}.8/24 noprefixroute"),
        };
        let address =
            if verb == "del" { address.replace(" brd +", "").replace(" nodad", "") } else { address };
        let address = if verb == "del" { address.replace(" noprefixroute", "") } else { address };
        format!("ip addr {verb} {address} dev d{net}")
    }

    fn setting(&mut self) -> String {
        let (number, value) = (self.below(4), self.below(2));
        match self.below(5) {
            0 | 1 => format!("sysctl -qw net.ipv4.conf.d{number}.ignore_routes_with_linkdown={value}"),
            2 => format!("sysctl -qw net.ipv6.conf.d{number}.ignore_routes_with_linkdown={value}"),
            3 => format!("sysctl -qw net.ipv4.conf.all.ignore_routes_with_linkdown={value}"),
            _ => format!("sysctl -qw net.ipv4.nexthop_compat_mode={value}"),
        }
    }
}
