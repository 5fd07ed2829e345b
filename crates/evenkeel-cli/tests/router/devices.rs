//! Changes of the router's devices while it runs, and other users of these devices.

use crate::bird::two_ways;
use crate::support::{Host, Router, Scratch, attempt, in_namespace, run, wait_for};
use crate::{LINKS, hosts};

/// Returns the error of a router that does not start; asserts that it is one line.
fn refused(arguments: &str) -> String {
    let (done, said) =
        attempt(&format!("{} route --duration 10s {arguments}", env!("CARGO_BIN_EXE_evenkeel")));
    assert!(!done, "{arguments}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

/// Sends a ping of one packet with `size` bytes of data. Returns whether the answer came, and the output
/// of `ping`.
fn ping(host: &Host, size: usize, fragments: &str, to: &str) -> (bool, String) {
    host.attempt("ip route flush cache");
    host.attempt(&format!("ping -M {fragments} -c 1 -W 2 -s {size} {to}"))
}

#[test]
fn an_mtu_that_changes_while_it_runs_counts_at_once() {
    in_namespace(&[], || {
        let (a, b) = hosts();
        let mut router = Router::start(LINKS);
        a.run("ping -c 1 -W 5 10.0.2.2");
        assert!(ping(&a, 1472, "do", "10.0.2.2").0);
        run("ip link set r2 mtu 1300");
        b.run("ip link set b1 mtu 1300");
        let notice = router.wait_until_said("MTU");
        assert!(notice.contains("evenkeel: r2: the MTU is 1300 now"), "{notice}");
        // The MTU is lowered: the router notifies senders, and fragments packets that may be fragmented.
        let (_, said) = ping(&a, 1472, "do", "10.0.2.2");
        assert!(said.contains("mtu = 1300") || said.contains("mtu=1300"), "{said}");
        assert!(ping(&a, 1472, "dont", "10.0.2.2").0);
        // The MTU is raised: the router no longer tells senders to send less.
        run("ip link set r2 mtu 1500");
        b.run("ip link set b1 mtu 1500");
        router.wait_until_said("r2: the MTU is 1500 now");
        assert!(ping(&a, 1472, "do", "10.0.2.2").0);
        // The MTU is larger than the router supports.
        run("ip link set r2 mtu 9000");
        let notice = router.wait_until_said("r2: the MTU is 9000 now");
        assert!(notice.contains("frames of more than 1901 bytes of IP are lost"), "{notice}");
        router.stop();
    });
}

#[test]
fn a_jumbo_mtu_is_refused_with_what_to_do() {
    in_namespace(&[], || {
        let (_a, _b) = hosts();
        run("ip link set r2 mtu 9000");
        let said = refused(LINKS);
        assert!(
            said.contains("`r2` has an MTU of 9000") && said.contains("ip link set r2 mtu 1500"),
            "{said}"
        );
    });
}

#[test]
fn a_device_that_returns_is_taken_up_again() {
    in_namespace(&[], || {
        let (a, b) = hosts();
        let mut router = Router::start(LINKS);
        a.run("ping -c 1 -W 5 10.0.2.2");
        for _ in 0..2 {
            run("ip link del r2");
            router.wait_until_said("evenkeel: r2: the device was removed");
            // The other link continues.
            a.run("ping -c 1 -W 5 10.0.1.1");
            b.link("r2", "b1", 2);
            b.default_route(2);
            router.wait_until_said("evenkeel: r2: the device is in use again");
            a.run("ping -c 1 -W 5 10.0.2.2");
        }
        // The MTU of the device that returns applies.
        run("ip link del r2");
        router.wait_until_said("r2: the device was removed");
        b.link("r2", "b1", 2);
        b.default_route(2);
        run("ip link set r2 mtu 1300");
        router.wait_until_said("r2: the device is in use again");
        wait_for("the MTU", || ping(&a, 1472, "do", "10.0.2.2").1.contains("1300"));
        let done = router.stop();
        assert_eq!(done["links"][1]["failed"], serde_json::Value::Null, "{done}");
    });
}

/// The router survives a time without any device, on several cores and with the device's own hardware
/// address, which is a different one afterwards.
#[test]
fn all_devices_may_be_gone_for_a_while() {
    in_namespace(&[], || {
        let (a, b) = hosts();
        let cores = match evenkeel::raw::cpu::cpus()[..] {
            [first, second, ..] => format!("--cores {first},{second}"),
            _ => String::new(),
        };
        let links = LINKS.replace(" --link wan", ",mac=device --link wan");
        let mut router = Router::start(&format!("{links},mac=device {cores}"));
        a.run("ping -c 1 -W 5 10.0.2.2");
        run("ip link del r1");
        router.wait_until_said("r1: the device was removed");
        run("ip link del r2");
        router.wait_until_said("r2: the device was removed");
        a.link("r1", "a1", 1);
        a.default_route(1);
        router.wait_until_said("r1: the device is in use again");
        b.link("r2", "b1", 2);
        b.default_route(2);
        router.wait_until_said("r2: the device is in use again");
        for _ in 0..8 {
            a.run("ping -c 1 -W 5 10.0.2.2");
            a.run("ping -c 1 -W 5 fd00:2::2");
        }
        router.stop();
    });
}

#[test]
fn the_kernels_tables_are_followed_on_a_device_that_returns() {
    in_namespace(&[], || {
        let (a, b) = two_ways();
        let mut router = Router::start("--link packet:r1 --link packet:r2 --link packet:r3 --kernel-routes");
        a.run("ping -c 1 -W 5 10.0.2.2");
        run("ip link del r2");
        router.wait_until_said("r2: the device was removed");
        b.link("r2", "h2", 2);
        b.default_route(2);
        router.wait_until_said("r2: the device is in use again");
        run("ip addr add 10.0.2.1/24 dev r2");
        run("sysctl -qw net.ipv4.conf.r2.forwarding=0");
        wait_for("the route to return", || a.attempt("ping -c 1 -W 1 10.0.2.2").0);
        router.stop();
    });
}

#[test]
fn two_that_would_both_answer_are_not_allowed_on_one_device() {
    in_namespace(&[], || {
        let (a, _b) = hosts();
        let router = Router::start(LINKS);
        let said = refused("--link packet:r1,10.0.1.9/24 --link packet:r2,10.0.2.9/24");
        assert!(said.contains("another evenkeel is 02-") && said.contains("on `r1`"), "{said}");
        // A router with hardware addresses of its own may use the network, too.
        let other =
            "--link packet:r1,10.0.1.9/24,mac=random --link packet:r2,10.0.2.9/24,mac=02:00:00:00:00:99";
        let other = Router::start(other);
        for to in ["10.0.1.1", "10.0.1.9"] {
            let said = a.run(&format!("ping -c 2 -i 0.1 -W 5 {to}"));
            assert!(!said.contains("DUP"), "{said}");
        }
        other.stop();
        router.stop();
        // A router that has ended holds no device any more.
        Router::start(LINKS).stop();
    });
}

#[test]
fn the_hardware_address_can_be_the_devices() {
    in_namespace(&[], || {
        let (a, _b) = hosts();
        let of_r1 = std::fs::read_to_string("/sys/class/net/r1/address");
        // The file system shows the devices of the namespace it was mounted in.
        let shown = run("ip -j link show dev r1");
        let links: serde_json::Value = serde_json::from_str(&shown).unwrap();
        let of_r1 = links[0]["address"].as_str().map_or_else(|| of_r1.unwrap(), str::to_owned);
        let links = LINKS.replace(" --link wan", ",mac=device --link wan") + ",mac=02:00:00:00:00:77";
        let router = Router::start(&links);
        a.run("ping -c 1 -W 5 10.0.2.2");
        let neighbor = a.run("ip neigh show 10.0.1.1");
        assert!(neighbor.contains(of_r1.trim()), "{of_r1}: {neighbor}");
        router.stop();
        run("sysctl -qw net.ipv4.conf.r1.forwarding=1");
        let said = refused(&links);
        assert!(said.contains("sysctl -w net.ipv4.conf.r1.forwarding=0"), "{said}");
    });
}

#[test]
fn whoever_else_has_an_address_of_ours_is_noticed() {
    in_namespace(&[], || {
        let (a, b) = hosts();
        // A has the router's address before, B takes it later.
        a.run("ip addr add 10.0.1.1/24 dev a1");
        let mut router = Router::start(LINKS);
        let said = router.said_at_start();
        let conflict = "also says by ARP that it has our address 10.0.1.1";
        assert!(said.contains("evenkeel: r1: ") && said.contains(conflict), "{said}");
        b.run("ip addr add 10.0.2.1/24 dev b1");
        b.attempt("ping -c 1 -W 1 -I 10.0.2.1 10.0.2.77");
        let said = router.wait_until_said("has our address");
        assert!(said.contains("evenkeel: r2: ") && said.contains("10.0.2.1;"), "{said}");
        router.stop();
    });
}

/// A neighbour with an old entry learns at once that the router has the address now.
#[test]
fn addresses_are_announced_at_the_start() {
    in_namespace(&[], || {
        let (a, _b) = hosts();
        a.run("ip neigh replace 10.0.1.1 lladdr 02:00:00:00:00:55 dev a1 nud stale");
        a.run("ip neigh replace fd00:1::1 lladdr 02:00:00:00:00:55 dev a1 nud stale");
        let router = Router::start(LINKS);
        for address in ["10.0.1.1", "fd00:1::1"] {
            wait_for("the announcement", || {
                !a.run(&format!("ip neigh show {address}")).contains("02:00:00:00:00:55")
            });
        }
        router.stop();
    });
}

/// Returns the CPU time of a process in seconds.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}

/// The cost of a routing daemon's whole table grows with the routes, not with their square, and does not
/// count as idle time.
#[test]
fn a_large_table_of_the_kernel_costs_what_it_is_and_is_counted() {
    const ROUTES: u32 = 60_000;
    in_namespace(&[], || {
        let (a, b) = (Host::new(), Host::new());
        for (host, net) in [(&a, 1), (&b, 2)] {
            host.link(&format!("r{net}"), &format!("h{net}"), net);
            run(&format!("ip addr add 10.0.{net}.1/24 dev r{net}"));
        }
        run("sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0");
        a.default_route(1);
        b.default_route(2);
        let route = |n: u32| format!("route add 20.{}.{}.0/24 via 10.0.2.2\n", n >> 8, n & 255);
        let scratch = Scratch::new();
        let add = scratch.write("add", &(0..ROUTES).map(route).collect::<String>());
        let mut router = Router::start("--link packet:r1 --link packet:r2 --kernel-routes");
        let before = cpu_seconds(router.pid());
        run(&format!("ip -batch {add}"));
        let routes = |family: &str| run(&format!("ip {family} route show table main")).lines().count();
        let expected = routes("-4") + routes("-6");
        assert!(expected >= ROUTES as usize);
        router.wait_until_said(&format!("; {expected} kernel routes"));
        let used = cpu_seconds(router.pid()) - before;
        let done = router.stop();
        assert!(used < 8.0, "{used} s for {ROUTES} routes");
        let counted =
            (1.0 - done["counters"]["cpu"]["idle"].as_f64().unwrap()) * done["seconds"].as_f64().unwrap();
        assert!(counted > used / 2.0, "{counted} s of {used} s counted: {}", done["counters"]["cpu"]);
    });
}
