//! A router under a routing daemon: BIRD on R changes the kernel's tables.

use crate::support::{Host, Router, Running, Scratch, in_namespace, run, wait_for};

const BIRD: [(&str, &str); 2] = [("bird", "bird2"), ("birdc", "bird2")];

fn config(next_hop: &str, next_hop_v6: &str) -> String {
    format!(
        "router id 10.0.1.1;\nprotocol device {{ scan time 1; }}\n\
         protocol kernel {{ ipv4 {{ export all; }}; }}\nprotocol kernel {{ ipv6 {{ export all; }}; }}\n\
         protocol static {{ ipv4; route 10.9.0.0/16 via {next_hop}; }}\n\
         protocol static {{ ipv6; route fd09::/16 via {next_hop_v6}; }}\n"
    )
}

#[test]
fn bird_changes_a_route_and_traffic_follows() {
    in_namespace(&BIRD, || {
        let (a, b) = two_ways();
        b.run("ip addr add 10.9.9.9/32 dev lo");
        b.run("ip addr add fd09::9/128 dev lo");
        let scratch = Scratch::new();
        let path = scratch.write("bird.conf", &config("10.0.2.2", "fd00:2::2"));
        let socket = path.replace("bird.conf", "bird.ctl");
        let router = Router::start("--link packet:r1 --link packet:r2 --link packet:r3 --kernel-routes");
        let bird =
            std::process::Command::new("bird").args(["-f", "-c", &path, "-s", &socket]).spawn().unwrap();
        let _bird = Running(bird);
        for to in ["10.9.9.9", "fd09::9"] {
            wait_for("the first route", || a.attempt(&format!("ping -c 1 -W 1 {to}")).0);
            flows_by(&a, &b, to, "h2", "h3");
        }
        scratch.write("bird.conf", &config("10.0.3.2", "fd00:3::2"));
        run(&format!("birdc -s {socket} configure"));
        for to in ["10.9.9.9", "fd09::9"] {
            wait_for("the second route", || {
                let before = b.received("h3");
                a.attempt(&format!("ping -c 3 -i 0.05 -W 1 {to}")).0 && b.received("h3") >= before + 3
            });
            flows_by(&a, &b, to, "h3", "h2");
        }
        // The kernel is the host of R's addresses, and only one of the two answers.
        let said = a.run("ping -c 3 -i 0.05 -W 5 10.0.1.1");
        assert!(said.contains(" 0% packet loss") && !said.contains("DUP"), "{said}");
        let done = router.stop();
        assert!(done["kernel"]["changes"].as_u64().unwrap() > 0, "{done}");
    });
}

/// Returns A and B, with a link between R and A and two between R and B, on which R's kernel has its
/// addresses.
pub(crate) fn two_ways() -> (Host, Host) {
    let (a, b) = (Host::new(), Host::new());
    for (host, net, device) in [(&a, 1, "1"), (&b, 2, "2"), (&b, 3, "3")] {
        host.link(&format!("r{device}"), &format!("h{device}"), net);
        run(&format!("ip addr add 10.0.{net}.1/24 dev r{device}"));
        run(&format!("ip addr add fd00:{net}::1/64 dev r{device} nodad"));
    }
    run("sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0");
    a.default_route(1);
    b.default_route(2);
    b.run("sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.h3.rp_filter=0");
    (a, b)
}

/// Asserts that pings to `to` take B's link `by` and not `not_by`.
pub(crate) fn flows_by(a: &Host, b: &Host, to: &str, by: &str, not_by: &str) {
    let before = (b.received(by), b.received(not_by));
    let said = a.run(&format!("ping -c 20 -i 0.01 -W 5 {to}"));
    assert!(!said.contains("DUP"), "{said}");
    let (more, others) = (b.received(by) - before.0, b.received(not_by) - before.1);
    assert!(more >= 20 && others < 10, "{to}: {more} by {by}, {others} by {not_by}");
}

/// The router reads the kernel's tables again after it has lost announcements.
#[test]
fn a_flood_of_changes_is_followed_to_its_end() {
    in_namespace(&[], || {
        let (a, b) = (Host::new(), Host::new());
        for (host, net) in [(&a, 1), (&b, 2)] {
            host.link(&format!("r{net}"), &format!("h{net}"), net);
            run(&format!("ip addr add 10.0.{net}.1/24 dev r{net}"));
        }
        run("sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0");
        a.default_route(1);
        b.default_route(2);
        let scratch = Scratch::new();
        let route =
            |verb: &str, n: u32| format!("route {verb} 172.{}.{}.0/24 via 10.0.2.2\n", 16 + n / 256, n % 256);
        let add: String = (0..4000).map(|n| route("add", n)).collect();
        let del: String = (0..4000).filter(|n| n % 4 != 0).map(|n| route("del", n)).collect();
        let (add, del) = (scratch.write("add", &add), scratch.write("del", &del));
        let mut router = Router::start("--link packet:r1 --link packet:r2 --kernel-routes");
        // A stopped router receives nothing, and the kernel discards messages that its socket cannot hold.
        run(&format!("kill -STOP {}", router.pid()));
        for _ in 0..3 {
            run(&format!("ip -batch {add}"));
            run(&format!("ip -batch {del}"));
            run("ip route flush root 172.16.0.0/12");
        }
        run(&format!("ip -batch {add}"));
        run(&format!("ip -batch {del}"));
        run(&format!("kill -CONT {}", router.pid()));
        // The router may have lost messages; at the end its routes are the kernel's.
        let routes = |family: &str| run(&format!("ip {family} route show table main")).lines().count();
        let expected = routes("-4") + routes("-6");
        assert!(expected > 1000);
        router.wait_until_said(&format!("; {expected} kernel routes"));
        assert!(!a.attempt("ping -c 1 -W 1 172.16.4.1").1.contains("From 10.0.1.1"), "it is B's affair");
        assert!(a.attempt("ping -c 1 -W 1 172.31.159.1").1.contains("From 10.0.1.1"), "there is no route");
        let done = router.stop();
        assert_eq!(done["kernel"]["routes"], expected, "{}", done["kernel"]);
    });
}
