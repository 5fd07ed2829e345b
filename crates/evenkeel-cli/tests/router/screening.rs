//! Rules between the kernel's hosts, and their replacement.

use serde_json::Value;

use crate::forwarding::perf;
use crate::support::{Router, Scratch, in_namespace};
use crate::{LINKS, hosts};

#[test]
fn rules_refuse_what_they_should() {
    in_namespace(&[], || {
        let (a, b) = hosts();
        let scratch = Scratch::new();
        let rules = scratch.write(
            "rules.conf",
            "table <b> { 10.0.2.0/24, !10.0.2.77 }\nblock return in on lan proto icmp to <b> icmp-type \
             echoreq\n\
             block in on lan proto icmp6 to fd00:2::2 label \"quiet\"\n",
        );
        b.run("ip addr add 10.0.2.77/24 dev b1");
        let router = Router::start(&format!("{LINKS} --rules {rules}"));
        let (done, said) = a.attempt("ping -c 1 -W 2 10.0.2.2");
        assert!(!done && said.contains("From 10.0.1.1") && said.contains("Packet filtered"), "{said}");
        a.run("ping -c 1 -W 5 10.0.2.77");
        let (done, said) = a.attempt("ping -c 1 -W 1 fd00:2::2");
        assert!(!done && !said.contains("From"), "{said}");
        b.run("ping -c 1 -W 5 10.0.1.2");
        let done = router.stop();
        let rules = done["screening"]["rules"].as_array().unwrap().clone();
        assert_eq!(
            (&rules[0]["packets"], &rules[1]["packets"]),
            (&Value::from(1), &Value::from(1)),
            "{done}"
        );
        assert_eq!(rules[1]["label"], "quiet");
    });
}

/// A stream of numbered datagrams passes while the rules are replaced as fast as possible.
#[test]
fn reloading_under_load_loses_nothing() {
    in_namespace(&[], || {
        let (a, b) = hosts();
        let scratch = Scratch::new();
        let rules = ["pass in proto udp\n", "block in proto 99\npass in proto udp\n"];
        let path = scratch.write("rules.conf", rules[0]);
        let config = scratch.write("router.toml", "rules = \"rules.conf\"\n");
        let mut router = Router::start(&format!("{LINKS} --config {config}"));
        let _server = b.spawn("iperf3 -s -1");
        let client = std::thread::scope(|scope| {
            let client =
                scope.spawn(|| perf(&a, "iperf3 -J -u -c 10.0.2.2 -t 3 -b 8M -l 200 --connect-timeout 3000"));
            let mut turn = 0;
            while !client.is_finished() {
                turn += 1;
                std::fs::write(&path, rules[turn % 2]).unwrap();
                router.reload("rules");
            }
            client.join().unwrap()
        });
        let sum = &client["end"]["sum"];
        let sent = sum["packets"].as_u64().unwrap();
        let done = router.stop();
        assert!(done["reloads"].as_u64().unwrap() > 10 && sent > 10_000, "{sent} sent; {done}");
        for link in done["links"].as_array().unwrap() {
            let lost = (&link["missed"], &link["refused"], &link["output_full"]);
            assert_eq!(lost, (&0.into(), &0.into(), &0.into()), "{done}");
        }
        let screening = &done["screening"];
        let refused = (&screening["dropped"], &screening["rejected"], &screening["queue_full"]);
        assert_eq!(refused, (&0.into(), &0.into(), &0.into()), "{done}");
        // The server did not read the packets that it missed: all of them arrived. (The kernel counts a
        // datagram when it is read.)
        assert_eq!(done["links"][1]["transmitted"], b.received("b1"), "{done}");
        assert_eq!(screening["passed"], done["forwarded"], "{done}");
        let judged: u64 = done["screening"]["rules"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r["packets"].as_u64().unwrap())
            .sum();
        assert!(judged >= sent, "the counter of a rule that stays goes on: {judged} of {sent}");
    });
}

#[test]
fn broken_rules_leave_the_old_ones_and_say_why() {
    in_namespace(&[], || {
        let (a, _b) = hosts();
        let scratch = Scratch::new();
        let path = scratch.write("rules.conf", "block return in proto icmp to 10.0.2.2\n");
        let mut router = Router::start(&format!("{LINKS} --rules {path}"));
        assert!(!a.attempt("ping -c 1 -W 2 10.0.2.2").0);
        std::fs::write(&path, "pass\nblok all\n").unwrap();
        let said = router.reload("stays as it was");
        assert!(said.contains("rules.conf:2:1: expected `pass`"), "{said}");
        assert!(!a.attempt("ping -c 1 -W 2 10.0.2.2").0, "the old ones are in force");
        std::fs::write(&path, "pass\n").unwrap();
        router.reload("read again");
        a.run("ping -c 1 -W 5 10.0.2.2");
        let done = router.stop();
        assert_eq!((&done["reloads"], &done["reloads_failed"]), (&1.into(), &1.into()));
    });
}

#[test]
fn routes_are_read_again_too() {
    in_namespace(&[], || {
        let (a, b) = hosts();
        b.run("ip addr add 10.9.9.9/32 dev lo");
        let scratch = Scratch::new();
        let config = scratch.write("router.toml", "");
        let mut router = Router::start(&format!("{LINKS} --config {config}"));
        assert!(!a.attempt("ping -c 1 -W 1 10.9.9.9").0);
        scratch.write("router.toml", "[[route]]\nto = \"10.9.0.0/16\"\nvia = \"10.0.2.2\"\n");
        router.reload("1 routes");
        a.run("ping -c 1 -W 5 10.9.9.9");
        scratch.write("router.toml", "");
        router.reload("0 routes");
        assert!(!a.attempt("ping -c 1 -W 1 10.9.9.9").0);
        router.stop();
    });
}
