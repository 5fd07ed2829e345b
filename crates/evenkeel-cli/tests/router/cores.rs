//! Several hosts, each on a core, that form one router.

use evenkeel_skip::Lack;
use serde_json::Value;

use crate::forwarding::perf;
use crate::support::{Router, Scratch, in_namespace};
use crate::{LINKS, hosts};

/// Returns two processors in the form of `--cores`; skips the test if there are none.
fn two_cores() -> Option<String> {
    match evenkeel::raw::cpu::cpus()[..] {
        [first, second, ..] => Some(format!("{first},{second}")),
        _ => {
            let lack = Lack::Other("needs two processors");
            evenkeel_skip::skip(std::thread::current().name().unwrap_or("a test"), &lack);
            None
        }
    }
}

/// The number of flows, enough to be spread over two cores whatever the kernel's hash.
const FLOWS: usize = 16;

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap()
}

#[test]
fn two_cores_forward_as_one_router_and_take_over_what_is_read_again() {
    in_namespace(&[], || {
        let Some(cores) = two_cores() else { return };
        let (a, b) = hosts();
        // B has the whole prefix. Each address is a flow of its own, so each core gets some.
        b.run("ip addr add 10.9.0.1/16 dev lo");
        let scratch = Scratch::new();
        // A rule that moves and stays counts every judged packet.
        let rules = [
            "pass log in proto icmp\npass in proto tcp\n",
            "block in proto 99\npass in proto tcp\npass log in proto icmp\n",
        ];
        let path = scratch.write("rules.conf", rules[0]);
        let log = scratch.write("icmp.pcapng", "");
        let config = |routes: &str| {
            scratch.write(
                "router.toml",
                &format!("rules = \"rules.conf\"\nlog = \"icmp.pcapng\"\ncores = [{cores}]\n{routes}"),
            )
        };
        let route = "[[route]]\nto = \"10.9.0.0/16\"\nvia = \"10.0.2.2\"\n";
        let mut router = Router::start(&format!("{LINKS} --config {}", config("")));
        for to in ["10.0.1.1", "10.0.2.1", "fd00:1::1", "fd00:2::1", "10.0.2.2", "fd00:2::2"] {
            let said = a.run(&format!("ping -c 3 -i 0.05 -W 5 {to}"));
            assert!(said.contains(" 0% packet loss"), "{to}: {said}");
        }
        let mut turns = 0;
        for to in ["10.0.2.2", "fd00:2::2"] {
            let _server = b.spawn("iperf3 -s -1");
            let client = std::thread::scope(|scope| {
                let client =
                    scope.spawn(|| perf(&a, &format!("iperf3 -J -c {to} -P 8 -t 2 --connect-timeout 3000")));
                while !client.is_finished() {
                    turns += 1;
                    std::fs::write(&path, rules[turns % 2]).unwrap();
                    config(if turns % 2 == 0 { "" } else { route });
                    let said = router.reload("read again");
                    assert!(said.contains(if turns % 2 == 0 { "0 routes" } else { "1 routes" }), "{said}");
                }
                client.join().unwrap()
            });
            let received = number(&client["end"]["sum_received"]["bytes"]);
            assert!(received > 1_000_000, "{to}: {client}");
        }
        assert!(turns > 4, "{turns} reloads");
        // The route appears on both hosts, and then disappears on both.
        config(route);
        router.reload("1 routes");
        for to in 1..=FLOWS {
            a.run(&format!("ping -c 1 -W 5 10.9.0.{to}"));
        }
        config("");
        router.reload("0 routes");
        for to in 1..=FLOWS {
            let (done, said) = a.attempt(&format!("ping -c 1 -W 1 10.9.0.{to}"));
            assert!(!done, "{said}");
        }
        let done = router.stop();
        check(&done, &cores, turns as u64 + 2);
        let logged = &done["screening"]["log"];
        assert_eq!((&logged["lost"], &logged["failure"]), (&0.into(), &Value::Null), "{done}");
        assert_eq!(logged["packets"], logged["written"], "{done}");
        assert!(
            crate::support::run(&format!("capinfos -c -M -T -r {log}"))
                .contains(&logged["written"].to_string())
        );
    });
}

/// Checks the counters of both hosts, and their sums.
fn check(done: &Value, cores: &str, reloads: u64) {
    assert_eq!((&done["reloads"], &done["reloads_failed"]), (&reloads.into(), &0.into()), "{done}");
    let each = done["cores"].as_array().unwrap();
    let named: Vec<_> = each.iter().map(|core| core["core"].to_string()).collect();
    assert_eq!(named.join(","), cores);
    assert!(each.iter().all(|core| core["counters"]["conserved"] == true), "{done}");
    assert!(each.iter().all(|core| number(&core["counters"]["forwarded"]) > 100), "both forward: {done}");
    for counter in ["received", "forwarded", "consumed", "originated", "transmitted"] {
        let sum: u64 = each.iter().map(|core| number(&core["counters"][counter])).sum();
        assert_eq!(done["counters"][counter], sum, "{counter}: {done}");
    }
    let taken: u64 = done["links"].as_array().unwrap().iter().map(|link| number(&link["received"])).sum();
    assert_eq!(done["counters"]["received"], taken, "{done}");
    let screening = &done["screening"];
    let each_without_route: Vec<u64> = each.iter().map(without_route).collect();
    assert!(each_without_route.iter().all(|packets| *packets > 0), "the route was taken from both: {done}");
    assert_eq!(without_route(done), FLOWS as u64, "{done}");
    assert_eq!(number(&screening["passed"]), number(&done["forwarded"]) + FLOWS as u64, "{done}");
    let judged: u64 =
        screening["rules"].as_array().unwrap().iter().map(|rule| number(&rule["packets"])).sum();
    // The rule that no packet matches comes and goes; the counts of the other rules continue.
    assert_eq!(judged + number(&screening["unmatched"]), number(&screening["passed"]), "{done}");
}

fn without_route(done: &Value) -> u64 {
    let drops = done["counters"]["drops"].as_array().unwrap().iter();
    drops.filter(|drop| drop["reason"] == "no-route").map(|drop| number(&drop["frames"])).sum()
}
