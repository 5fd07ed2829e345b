//! Tests of the follower with the kernel. They make random histories of changes in the kernel. After each
//! change they compare the host's routes with the kernel's own answers (`ip route get`).

mod answer;
mod change;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use evenkeel_core::cable;
use evenkeel_core::host::{Config, Host};
use evenkeel_core::stack::{InterfaceId, Route, Via};
use evenkeel_core::time::Instant;
use evenkeel_core::wire::IpAddress;
use evenkeel_link::device_index;
use evenkeel_testing::{Scratch, attempt, in_namespace, pause, run};

use super::{Follower, Neighbors};
use answer::{Answer, Answered, Hop, answers};
use change::{Changes, DESTINATIONS};

/// The names of the router's links.
const LINKS: [&str; 4] = ["d0", "d1", "d2", "d3"];
/// The number of times that differing answers are requested again, a few milliseconds apart. The kernel
/// notices carriers and reads addresses in its own time, and the follower may have to wait for its next
/// reading.
const PATIENCE: u32 = 1000;

/// The counts of a step's answers.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    agreed: u64,
    /// Destinations closed by the host, to which the kernel forwards.
    closed: u64,
}

/// A kernel and a host that follows it, in a namespace of its own.
struct Bench {
    host: Host,
    follower: Follower,
    scratch: Scratch,
    /// The kernel's indices of the existing links.
    indices: [Option<u32>; 4],
    history: String,
    seed: u64,
    /// Whether the history has changes that cannot be followed by destination.
    odd: bool,
}

impl Bench {
    fn new(seed: u64, odd: bool) -> Self {
        run("sysctl -qw net.ipv6.conf.default.addr_gen_mode=1 net.ipv6.conf.default.router_solicitations=0 \
             net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0 \
             net.ipv4.conf.default.rp_filter=0");
        let mut made = String::new();
        for (device, peer, net) in [
            ("in0", "in1", 66),
            ("f0", "f1", 9),
            ("d0", "p0", 0),
            ("d1", "p1", 1),
            ("d2", "p2", 2),
            ("d3", "p3", 3),
        ] {
            let _ = write!(
                made,
                "link add {device} type veth peer name {peer}\nlink set {peer} up\nlink set {device} up\n\
                 addr add 10.0.{net}.1/24 brd + dev {device}\naddr add fd00:{net}::1/64 dev {device} nodad\n"
            );
        }
        let scratch = Scratch::new();
        run(&format!("ip -batch {}", scratch.write("made", &made)));
        let mut host = Host::new(Config::default()).unwrap();
        for _ in LINKS {
            let (end, _other) = cable::pair(cable::Options::new("a", 1), cable::Options::new("b", 2));
            host.add_interface(Box::new(end), &[], Instant::ZERO).unwrap();
        }
        let follower = Follower::open(&LINKS, Neighbors::All, &mut host, Instant::ZERO).unwrap();
        let indices = LINKS.map(|link| device_index(link).ok());
        Self { host, follower, scratch, indices, history: String::new(), seed, odd }
    }

    /// Makes a change, which the kernel may refuse.
    fn change(&mut self, step: usize, command: &str) {
        let (done, said) = attempt(command);
        let said = said.lines().next().unwrap_or_default();
        let _ = writeln!(self.history, "{step:3} {command}{}", if done { "" } else { " # refused: " });
        if !done {
            self.history.pop();
            let _ = writeln!(self.history, "{said}");
        }
        for (number, link) in LINKS.iter().enumerate() {
            let index = device_index(link).ok();
            if self.indices[number] != index {
                self.indices[number] = index;
                // The thread that reopens a device sends this, too.
                index.into_iter().for_each(|index| self.follower.moved(index, InterfaceId(number as u8)));
            }
        }
    }

    /// Reads what was announced, and what follows from it.
    fn settle(&mut self) {
        for _ in 0..20_000 {
            while self.follower.follow(&mut self.host, Instant::ZERO) {}
            if self.follower.is_settled() {
                return;
            }
            pause(core::time::Duration::from_millis(1));
        }
        panic!("{}: the follower never comes to an end", self.told());
    }

    fn told(&self) -> String {
        format!("EVENKEEL_SEED={}:\n{}", self.seed, self.history)
    }

    /// Compares the host's routes with the kernel's answers for all destinations.
    fn compare(&mut self) -> Seen {
        let mut why = String::new();
        for _ in 0..PATIENCE {
            self.settle();
            match self.differ() {
                Ok(seen) => return seen,
                Err(what) => why = what,
            }
            pause(core::time::Duration::from_millis(3));
        }
        let tables = run("ip route show table all") + &run("ip -6 route show table all") + &run("ip nexthop");
        let rules = run("ip rule") + &run("ip -6 rule");
        panic!("{}{why}\n{rules}{tables}", self.told());
    }

    fn differ(&self) -> Result<Seen, String> {
        let routes: Vec<Route> = self.host.routes().collect();
        let mut seen = Seen::default();
        for answered in answers(&self.scratch, &DESTINATIONS) {
            let Answered { destination, plain, whole, .. } = &answered;
            let ours = lookup(&routes, destination);
            let closed = ours.is_some_and(|route| route.metric == u32::MAX);
            let agrees = self.agrees(ours, &answered);
            let may_close = self.odd || self.is_foreign(plain) || self.is_foreign(whole);
            if agrees {
                seen.agreed += 1;
            } else if closed && may_close && self.follower.fib.closed() > 0 {
                seen.closed += 1;
            } else {
                return Err(format!(
                    "to {destination} the kernel says {plain:?} of {whole:?}, we say {ours:?}"
                ));
            }
        }
        Ok(seen)
    }

    fn is_foreign(&self, answer: &Answer) -> bool {
        matches!(answer, Answer::Hops(hops) if hops.iter().any(|(device, _)| self.ours(device).is_none()))
    }

    fn ours(&self, device: &str) -> Option<InterfaceId> {
        let number = LINKS.iter().position(|link| *link == device)?;
        Some(InterfaceId(number as u8))
    }

    /// Returns whether the host forwards packets, or does not, as the kernel would.
    fn agrees(&self, ours: Option<&Route>, answered: &Answered) -> bool {
        let Answered { destination, plain, whole, dead } = answered;
        let Some(via) = ours.map(|route| &route.via) else { return matches!(plain, Answer::Unreachable) };
        let hops: BTreeSet<_> = via.hops().collect();
        let known = |hops: &[Hop]| -> BTreeSet<_> {
            let known = hops.iter().filter_map(|(device, gateway)| Some((self.ours(device)?, *gateway)));
            known.collect()
        };
        match plain {
            Answer::Hops(taken) => {
                let all = match whole {
                    Answer::Hops(all) => known(all),
                    // The answer has only the number of an object.
                    _ => hops.clone(),
                };
                let taken = known(taken);
                // IPv6 distributes a route's flows again when a link is removed, but not when the link begins
                // to be ignored because it has no carrier. Until then the kernel uses it for some packets,
                // and nothing shows that.
                let is_stale = matches!(destination, IpAddress::Ipv6(_)) && taken.is_subset(&known(dead));
                // If the kernel uses a device that is not ours, it may have other next hops that are.
                (taken.is_subset(&hops) || is_stale) && all == hops && !hops.is_empty()
            }
            Answer::Kernel | Answer::Blackhole => *via == Via::Blackhole,
            Answer::Prohibit => *via == Via::Prohibit,
            Answer::Unreachable => *via == Via::Unreachable,
        }
    }
}

/// Returns the route with the longest prefix, and among equal ones the first.
fn lookup<'a>(routes: &'a [Route], destination: &IpAddress) -> Option<&'a Route> {
    let matching = routes.iter().filter(|route| route.to.contains_addr(destination));
    // `max_by_key` returns the last of equal ones, so the order is reversed.
    matching.rev().max_by_key(|route| route.to.prefix_len())
}

fn play(seed: u64, steps: usize) -> Seen {
    let odd = seed % 2 == 1;
    let mut bench = Bench::new(seed, odd);
    let mut changes = Changes::new(seed, odd);
    let mut seen = bench.compare();
    for step in 0..steps {
        bench.change(step, &changes.next());
        let more = bench.compare();
        seen = Seen { agreed: seen.agreed + more.agreed, closed: seen.closed + more.closed };
    }
    seen
}

/// Seeds with even numbers play only changes that can be followed. Then nothing is closed except routes
/// through devices that are not ours. The share of closed destinations is judged over many histories, because
/// a single rule may close nearly all of one.
#[test]
fn the_host_forwards_as_the_kernel_would_after_any_history() {
    let long = std::env::var_os("EVENKEEL_LONG").is_some();
    let one = std::env::var("EVENKEEL_SEED").ok().and_then(|seed| seed.parse().ok());
    let (count, steps) = if long { (500, 60) } else { (10, 30) };
    let seeds = one.map_or(0..count, |seed| seed..seed + 1);
    let mut all = Seen::default();
    for seed in seeds {
        let (sender, receiver) = std::sync::mpsc::channel();
        in_namespace(&[&[("ip", "iproute2"), ("sysctl", "procps")]], move || {
            sender.send(play(seed, steps)).unwrap();
        });
        // The test was skipped.
        let Ok(seen) = receiver.recv() else { return };
        all = Seen { agreed: all.agreed + seen.agreed, closed: all.closed + seen.closed };
    }
    println!("{} answers agreed, {} prefixes were closed", all.agreed, all.closed);
    assert!(one.is_some() || all.closed * 4 < all.agreed, "{all:?}: too much is closed");
}

/// Plays changes that the kernel announces partly or not at all. Each was once followed wrongly.
fn follows(changes: &[&str]) {
    let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
    in_namespace(&[&[("ip", "iproute2"), ("sysctl", "procps")]], move || {
        let mut bench = Bench::new(0, false);
        for (step, change) in changes.iter().enumerate() {
            bench.change(step, change);
            assert!(!bench.history.contains("refused"), "{}", bench.history);
            bench.compare();
        }
    });
}

/// The kernel removes IPv4 routes with their next-hop object, without an announcement.
#[test]
fn a_route_goes_with_its_next_hop_object() {
    follows(&[
        "ip nexthop add id 1 via 10.0.1.2 dev d1",
        "ip route add 20.0.0.0/8 nhid 1",
        "ip nexthop replace id 1 via 10.0.2.2 dev d2",
        "ip nexthop add id 2 via 10.0.3.2 dev d3",
        "ip nexthop add id 3 group 1,2",
        "ip route add 20.1.0.0/16 nhid 3",
        "ip nexthop del id 2",
        "ip nexthop del id 1",
        "ip nexthop add id 1 via 10.0.1.2 dev d1",
    ]);
}

/// The kernel keeps several routes of one prefix and metric, and uses the first.
#[test]
fn of_routes_with_one_metric_the_first_is_used_and_the_others_stay() {
    follows(&[
        "ip route add 20.0.0.0/8 via 10.0.1.2",
        "ip route append 20.0.0.0/8 via 10.0.1.3",
        "ip route append 20.0.0.0/8 via 10.0.2.3",
        "ip route prepend 20.0.0.0/8 via 10.0.1.4",
        "ip route del 20.0.0.0/8 via 10.0.1.4",
        "ip route del 20.0.0.0/8 via 10.0.1.3",
        "ip route replace 20.0.0.0/8 via 10.0.3.4",
        "ip route del 20.0.0.0/8 via 10.0.3.4",
    ]);
}

/// FRR sets `nexthop_compat_mode=0` for large tables.
#[test]
fn routes_that_are_told_by_the_number_of_their_object_alone_are_followed() {
    follows(&[
        "sysctl -qw net.ipv4.nexthop_compat_mode=0",
        "ip nexthop add id 1 via 10.0.1.2 dev d1",
        "ip nexthop add id 2 via fd00:2::2 dev d2",
        "ip nexthop add id 3 group 1,3/2,7",
        "ip nexthop add id 4 blackhole",
        "ip route add 20.0.0.0/8 nhid 3",
        "ip -6 route add 2001:db8::/32 nhid 2",
        "ip route add 20.1.0.0/16 nhid 4",
        "ip nexthop replace id 2 via fd00:3::2 dev d3",
        "ip nexthop del id 4",
        "ip nexthop del id 2",
    ]);
}

/// A rule with conditions beyond the destination closes the destinations that it may concern, and no others.
#[test]
fn a_rule_by_source_closes_what_its_table_has() {
    in_namespace(&[&[("ip", "iproute2"), ("sysctl", "procps")]], || {
        let mut bench = Bench::new(1, true);
        let (before, foreign) = (bench.follower.fib.closed(), bench.compare().closed);
        let commands = [
            "ip route add default via 10.0.1.2",
            "ip route add 20.0.0.0/8 via 10.0.2.2 table 100",
            "ip rule add from 10.7.0.0/16 lookup 100",
        ];
        for (step, command) in commands.iter().enumerate() {
            bench.change(step, command);
        }
        let in_table = DESTINATIONS.iter().filter(|to| to.starts_with("20.")).count() as u64;
        assert_eq!(bench.compare().closed, foreign + in_table);
        bench.change(3, "ip rule del from 10.7.0.0/16 lookup 100");
        assert_eq!((bench.compare().closed, bench.follower.fib.closed()), (foreign, before));
    });
}

/// The kernel lists routes for some sources apart from the other routes to their prefix.
#[test]
fn a_route_by_source_stays_when_all_is_read_again() {
    in_namespace(&[&[("ip", "iproute2"), ("sysctl", "procps")]], || {
        let mut bench = Bench::new(1, true);
        let commands = [
            "ip -6 route add 2001:db8::/32 via fd00:1::2",
            "ip -6 route add 2001:db8:1::/48 via fd00:2::2",
            "ip -6 route add prohibit 2001:db8::/32 from 2001:db8:77::/48",
        ];
        for (step, command) in commands.iter().enumerate() {
            bench.change(step, command);
        }
        let (seen, closed) = (bench.compare(), bench.follower.fib.closed());
        // The rule names a table that is not known yet.
        bench.change(3, "ip -6 rule add to 2001:db8:1:2::3/128 lookup 100 priority 10");
        assert_eq!((bench.compare().closed, bench.follower.fib.closed()), (seen.closed, closed));
        // One route is for another source, and one for no source replaces another for no source.
        bench.change(4, "ip -6 route add 2001:db8::/32 via fd00:1::3 from 2001:db8:78::/48");
        bench.change(5, "ip -6 route replace 2001:db8::/32 via fd00:2::3");
        assert_eq!((bench.compare().closed, bench.follower.fib.closed()), (seen.closed, closed));
        bench.change(6, "ip -6 route del 2001:db8::/32 from 2001:db8:77::/48");
        assert_eq!((bench.compare().closed, bench.follower.fib.closed()), (seen.closed, closed));
        bench.change(7, "ip -6 route del 2001:db8::/32 from 2001:db8:78::/48");
        bench.compare();
        assert!(bench.follower.fib.closed() < closed);
        assert!(!bench.history.contains("refused"), "{}", bench.told());
    });
}

/// A rule that discards applies even if no table has a route.
#[test]
fn a_rule_that_discards_needs_no_route() {
    follows(&[
        "ip rule add not fwmark 7 blackhole priority 50",
        "ip -6 rule add not to 2001:db8::/32 prohibit priority 50",
        "ip rule del priority 50",
        "ip -6 rule del priority 50",
    ]);
}

/// The kernel skips a broadcast address whose device has no carrier, if it ignores such devices.
#[test]
fn a_broadcast_address_without_carrier_is_passed_over() {
    follows(&[
        "ip route add 10.0.0.0/8 via 10.0.1.2",
        "ip link set p2 down",
        "sysctl -qw net.ipv4.conf.d2.ignore_routes_with_linkdown=1",
        "ip link set p2 up",
    ]);
}
