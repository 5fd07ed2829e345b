//! The work of an ordinary router, as the kernel's tools see it.

use crate::support::{Host, Router, in_namespace, run};
use crate::{LINKS, hosts};

const BOTH: [(&str, &str); 2] = [("10.0.2.2", ""), ("fd00:2::2", "-6")];

#[test]
fn pings_of_every_size_come_through() {
    in_namespace(&[], || {
        let (a, _b) = hosts();
        let router = Router::start(LINKS);
        let said = router.said_at_start();
        assert!(said.contains("evenkeel: forwarding between lan and "), "{said}");
        for (to, _) in BOTH {
            for size in [0, 56, 1452, 1472, 1473, 4000, 20_000] {
                let said = a.run(&format!("ping -c 3 -i 0.05 -W 5 -s {size} {to}"));
                assert!(said.contains(" 0% packet loss"), "{to} {size}: {said}");
            }
        }
        for router in ["10.0.1.1", "10.0.2.1", "fd00:1::1", "fd00:2::1"] {
            a.run(&format!("ping -c 1 -W 5 {router}"));
        }
        let done = router.stop();
        assert!(done["forwarded"].as_u64().unwrap() >= 2 * 2 * 7 * 3, "{done}");
        assert_eq!(done["links"][0]["name"], "lan");
    });
}

/// The network is a link with an MTU of 1400 bytes behind one of 1500.
#[test]
fn a_smaller_mtu_behind_it_is_told_or_cut_to() {
    in_namespace(&[], || {
        let (a, b) = (Host::new(), Host::new());
        run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
        a.link("r1", "a1", 1);
        b.link("r2", "b1", 2);
        run("ip link set r2 mtu 1400");
        b.run("ip link set b1 mtu 1400");
        a.default_route(1);
        b.default_route(2);
        let router = Router::start(LINKS);
        let (_, said) = a.attempt("ping -M do -c 2 -i 0.1 -W 2 -s 1450 10.0.2.2");
        assert!(said.contains("mtu = 1400") || said.contains("mtu=1400"), "{said}");
        let (_, said) = a.attempt("ping -c 2 -i 0.1 -W 2 -M do -s 1440 fd00:2::2");
        assert!(said.contains("mtu = 1400") || said.contains("mtu=1400"), "{said}");
        a.run("ip route flush cache");
        a.run("ping -M dont -c 2 -i 0.1 -W 5 -s 1450 10.0.2.2");
        let done = router.stop();
        let too_big = done["counters"]["drops"].as_array().unwrap().iter().any(|d| d["reason"] == "too-big");
        assert!(too_big, "{done}");
    });
}

#[test]
fn traceroute_shows_it() {
    in_namespace(&[], || {
        let (a, _b) = hosts();
        let router = Router::start(LINKS);
        for (to, family) in BOTH {
            let said = a.run(&format!("traceroute {family} -n -w 3 -q 1 -N 1 {to}"));
            let hops: Vec<_> =
                said.lines().skip(1).map(|line| line.split_whitespace().nth(1).unwrap()).collect();
            let router = if family.is_empty() { "10.0.1.1" } else { "fd00:1::1" };
            assert_eq!(hops, [router, to], "{said}");
        }
        router.stop();
    });
}

#[test]
fn streams_and_datagrams_of_iperf3_come_through() {
    in_namespace(&[], || {
        let (a, b) = hosts();
        let router = Router::start(LINKS);
        for to in ["10.0.2.2", "fd00:2::2"] {
            for kind in ["", "-u -b 20M -l 1200"] {
                let _server = b.spawn("iperf3 -s -1");
                let said = perf(&a, &format!("iperf3 -J -c {to} -t 1 --connect-timeout 3000 {kind}"));
                let received = said["end"]["sum_received"]["bytes"].as_u64().unwrap_or(0);
                assert!(received > 1_000_000, "{to} {kind}: {said}");
            }
        }
        router.stop();
    });
}

/// Runs a client of iperf3 until it finds its server, and returns its result.
pub(crate) fn perf(host: &Host, command: &str) -> serde_json::Value {
    let mut result = serde_json::Value::Null;
    crate::support::wait_for("iperf3", || {
        let (done, said) = host.attempt(command);
        result = serde_json::from_str(&said).unwrap_or_default();
        // iperf3 reports the error and still exits with success.
        done && result["error"].is_null()
    });
    result
}

/// The kernel of R is a host on a TAP, which is one of the router's links.
#[test]
fn a_tap_is_a_link_like_any_other() {
    in_namespace(&[], || {
        let b = Host::new();
        b.link("r2", "b1", 2);
        b.default_route(2);
        let router = Router::start(
            "--link tap:t0,10.0.5.1/24,fd00:5::1/64,kernel=10.0.5.2/24,kernel=fd00:5::2/64 \
             --link packet:r2,10.0.2.1/24,fd00:2::1/64",
        );
        run("ip route add 10.0.2.0/24 via 10.0.5.1");
        run("ip route add fd00:2::/64 via fd00:5::1");
        for (to, _) in BOTH {
            run(&format!("ping -c 3 -i 0.05 -W 5 {to}"));
        }
        router.stop();
    });
}

#[test]
fn routes_lead_further_and_nowhere() {
    in_namespace(&[], || {
        let (a, b) = hosts();
        b.run("ip addr add 10.9.9.9/32 dev lo");
        let router = Router::start(&format!(
            "{LINKS} --route 10.9.0.0/16,via=10.0.2.2 --route 10.8.0.0/16,prohibit --route \
             10.7.0.0/16,blackhole"
        ));
        a.run("ping -c 1 -W 5 10.9.9.9");
        for (to, answer) in [("10.8.0.1", "Packet filtered"), ("10.6.0.1", "Net Unreachable")] {
            let (done, said) = a.attempt(&format!("ping -c 1 -W 2 {to}"));
            assert!(!done && said.contains(answer), "{to}: {said}");
        }
        let (done, said) = a.attempt("ping -c 1 -W 1 10.7.0.1");
        assert!(!done && !said.contains("From"), "{said}");
        router.stop();
    });
}
