//! Links of AF_XDP, also next to links of other kinds.

use evenkeel_testing::has_xdp;
use serde_json::Value;

use crate::forwarding::perf;
use crate::support::{Host, Router, Scratch, in_namespace, run};
use crate::{LINKS, hosts};

/// Runs a test where AF_XDP can be had.
fn with_xdp(test: impl FnOnce() + Send + 'static) {
    in_namespace(&[], || {
        if has_xdp() {
            test();
        }
    });
}

/// Returns the two links with these kinds of devices.
fn links(lan: &str, wan: &str) -> String {
    LINKS.replace("packet:r1", &format!("{lan}:r1")).replace("packet:r2", &format!("{wan}:r2"))
}

/// Returns the number of frames that a link did not take in or did not send.
fn lost(link: &Value) -> u64 {
    ["missed", "refused", "output_full"].iter().map(|what| link[what].as_u64().unwrap()).sum()
}

fn pings_of_every_size_come_through(lan: &str, wan: &str, options: &str) {
    let (a, _b) = hosts();
    let router = Router::start(&format!("{} {options}", links(lan, wan)));
    for to in ["10.0.2.2", "fd00:2::2"] {
        for size in [0, 56, 1452, 1472, 1473, 4000, 20_000] {
            let said = a.run(&format!("ping -c 3 -i 0.05 -W 5 -s {size} {to}"));
            assert!(said.contains(" 0% packet loss"), "{lan} {wan} {options} {to} {size}: {said}");
        }
    }
    for router in ["10.0.1.1", "10.0.2.1", "fd00:1::1", "fd00:2::1"] {
        a.run(&format!("ping -c 1 -W 5 {router}"));
    }
    let done = router.stop();
    assert!(done["forwarded"].as_u64().unwrap() >= 2 * 2 * 7 * 3, "{done}");
    assert_eq!(done["links"].as_array().unwrap().iter().map(lost).sum::<u64>(), 0, "{done}");
}

#[test]
fn pings_come_through_between_two() {
    with_xdp(|| pings_of_every_size_come_through("xdp", "xdp", ""));
}

#[test]
fn pings_come_through_between_one_and_a_packet_socket() {
    with_xdp(|| pings_of_every_size_come_through("xdp", "packet", ""));
    with_xdp(|| pings_of_every_size_come_through("packet", "xdp", ""));
}

#[test]
fn pings_come_through_under_every_architecture() {
    for options in ["eager", "early-demux", "polled", "soft-lrp --device-work interrupt", "ni-lrp"] {
        with_xdp(move || {
            pings_of_every_size_come_through("xdp", "xdp", &format!("--architecture {options}"));
        });
    }
}

/// Rules stand between two links of AF_XDP. Nothing of a flood leaks: what did not come out was counted, and
/// afterwards everything passes.
#[test]
fn a_flood_is_screened_and_counted_and_leaves_nothing_behind() {
    with_xdp(|| {
        let (a, b) = hosts();
        let scratch = Scratch::new();
        let rules = scratch.write("rules.conf", "block in\npass in quick proto { udp, icmp, icmp6, tcp }\n");
        let router = Router::start(&format!("{} --rules {rules}", links("xdp", "xdp")));
        a.run("ping -c 1 -W 5 10.0.2.2");
        let _server = b.spawn("iperf3 -s -1");
        // Far more frames than the memory of a queue has chunks.
        let flood = perf(&a, "iperf3 -J -u -c 10.0.2.2 -n 60M -b 0 -l 200 --connect-timeout 3000");
        assert!(flood["end"]["sum"]["packets"].as_u64().unwrap() > 100_000, "{flood}");
        for to in ["10.0.2.2", "fd00:2::2"] {
            let said = a.run(&format!("ping -c 20 -i 0.02 -W 5 -s 1452 {to}"));
            assert!(said.contains(" 0% packet loss"), "{said}");
        }
        let done = router.stop();
        assert_eq!(done["links"][1]["transmitted"], b.received("b1"), "{done}");
        assert_eq!(done["screening"]["passed"], done["forwarded"], "{done}");
        let [sent, calls] = ["sent", "send_calls"].map(|what| of_interfaces(&done, what));
        assert!(calls < sent, "{sent} frames in {calls} calls: no batches");
    });
}

/// Returns the sum of a counter over the router's interfaces.
fn of_interfaces(done: &Value, what: &str) -> u64 {
    let interfaces = done["counters"]["interfaces"].as_array().unwrap();
    interfaces.iter().map(|interface| interface[what].as_u64().unwrap()).sum()
}

#[test]
fn a_device_that_goes_down_or_away_is_used_again() {
    with_xdp(|| {
        let (a, b) = hosts();
        let mut router = Router::start(&links("xdp", "xdp"));
        a.run("ping -c 1 -W 5 10.0.2.2");
        run("ip link set r2 down");
        // What cannot leave is refused and counted, and the other link continues.
        a.attempt("ping -q -l 3000 -c 3000 -W 1 10.0.2.2");
        a.run("ping -c 3 -i 0.05 -W 5 10.0.1.1");
        run("ip link set r2 up");
        b.run("ip route replace default via 10.0.2.1");
        a.run("ping -c 1 -w 10 10.0.2.2");
        for _ in 0..2 {
            run("ip link del r2");
            router.wait_until_said("evenkeel: r2: the device was removed");
            a.run("ping -c 1 -W 5 10.0.1.1");
            b.link("r2", "b1", 2);
            b.default_route(2);
            router.wait_until_said("evenkeel: r2: the device is in use again");
            a.run("ping -c 1 -w 10 10.0.2.2");
            a.run("ping -c 1 -w 10 fd00:2::2");
        }
        let done = router.stop();
        assert_eq!(done["links"][1]["failed"], Value::Null, "{done}");
    });
}

#[test]
fn the_hardware_address_can_be_the_devices() {
    with_xdp(|| {
        let (a, _b) = hosts();
        let links = links("xdp", "xdp").replace(" --link wan", ",mac=device --link wan");
        let router = Router::start(&format!("{links},mac=device"));
        a.run("ping -c 3 -i 0.05 -W 5 10.0.2.2");
        let shown = run("ip -j link show dev r1");
        let devices: Value = serde_json::from_str(&shown).unwrap();
        let neighbor = a.run("ip neigh show 10.0.1.1");
        assert!(neighbor.contains(devices[0]["address"].as_str().unwrap()), "{shown} {neighbor}");
        router.stop();
    });
}

/// Sends pings, of which nearly all are answered. The floods of other tests pass through the same kernel.
fn pings(from: &Host, packets: u32, to: &str) {
    let said = from.run(&format!("ping -q -c {packets} -i 0.002 -W 5 {to}"));
    let mut words = said.split(' ');
    words.find(|word| *word == "transmitted,").unwrap();
    let received: u32 = words.next().unwrap().parse().unwrap();
    assert!(received >= packets * 9 / 10, "{to}: {said}");
}

/// Once the router has decided about a destination, its packets are forwarded in XDP, in both directions,
/// until the neighbour moves.
#[test]
fn packets_are_forwarded_in_xdp_until_their_neighbour_moves() {
    with_xdp(|| {
        let (a, b) = hosts();
        // A veth takes frames of XDP programs if its peer has NAPI. The kernel leaves checksums unfinished.
        a.run("ethtool -K a1 gro on tx off");
        b.run("ethtool -K b1 gro on tx off");
        let router = Router::start(&format!("{} --offload", links("xdp", "xdp")));
        assert!(!router.said_at_start().contains("XDP"), "{}", router.said_at_start());
        ["10.0.2.2", "fd00:2::2"].into_iter().for_each(|to| pings(&a, 500, to));
        let _server = b.spawn("iperf3 -s -1");
        let stream = perf(&a, "iperf3 -J -c 10.0.2.2 -n 20M --connect-timeout 3000");
        assert!(stream["end"]["sum_sent"]["bytes"].as_u64().unwrap() > 20_000_000, "{stream}");
        b.run("ip link set b1 address 02:00:00:00:07:07");
        for (router, far) in [("10.0.2.1", "10.0.2.2"), ("fd00:2::1", "fd00:2::2")] {
            // With that, the router learns the new hardware address.
            b.run(&format!("ping -c 1 -w 10 {router}"));
            pings(&a, 100, far);
        }
        let done = router.stop();
        let count = |what: &str| done[what].as_u64().unwrap();
        assert!(count("offloaded") > 2 * 900 + 5_000, "{done}");
        assert!(count("forwarded") < 1_000, "{done}");
    });
}

/// Packets of 9000 bytes are forwarded by the router and in XDP, and may not be fragmented.
#[test]
fn packets_of_a_large_mtu_are_forwarded() {
    for options in ["", "--offload"] {
        with_xdp(move || {
            let (a, b) = hosts();
            for (host, far, near) in [(&a, "a1", "r1"), (&b, "b1", "r2")] {
                run(&format!("ip link set {near} mtu 9000"));
                host.run(&format!("ip link set {far} mtu 9000"));
                host.run(&format!("ethtool -K {far} gro on tx off"));
            }
            let router = Router::start(&format!("{} {options}", links("xdp", "xdp")));
            for to in ["10.0.2.2", "fd00:2::2"] {
                let said = a.run(&format!("ping -q -M do -c 200 -i 0.002 -W 5 -s 8952 {to}"));
                assert!(said.contains(" 0% packet loss"), "{to}: {said}");
            }
            let _server = b.spawn("iperf3 -s -1");
            let stream = perf(&a, "iperf3 -J -c 10.0.2.2 -n 100M --connect-timeout 3000");
            assert!(stream["end"]["sum_sent"]["bytes"].as_u64().unwrap() > 100_000_000, "{stream}");
            let done = router.stop();
            let [forwarded, offloaded] = ["forwarded", "offloaded"].map(|what| done[what].as_u64().unwrap());
            match options {
                "" => assert!(forwarded > 2 * 400 + 10_000 && offloaded == 0, "{done}"),
                _ => assert!(forwarded < 1_000 && offloaded > 2 * 350 + 10_000, "{done}"),
            }
        });
    }
}

#[test]
fn a_device_that_takes_no_frames_of_xdp_gets_them_from_the_router() {
    with_xdp(|| {
        let (a, b) = hosts();
        a.run("ethtool -K a1 gro off");
        b.run("ethtool -K b1 gro off");
        let router = Router::start(&format!("{} --offload", links("xdp", "xdp")));
        let said = router.said_at_start();
        assert!(said.contains("r1: its driver takes no frames") && said.contains("r2: its"), "{said}");
        pings(&a, 100, "10.0.2.2");
        let done = router.stop();
        assert_eq!(done["offloaded"], 0, "{done}");
    });
}

/// Returns the number of frames that the router dropped for a reason.
fn dropped_for(done: &Value, reason: &str) -> u64 {
    let drops = done["counters"]["drops"].as_array().unwrap();
    drops.iter().filter(|drop| drop["reason"] == reason).map(|drop| drop["frames"].as_u64().unwrap()).sum()
}

/// Sends so many datagrams to a port of the other host, of one flow in each family.
fn datagrams(from: &Host, scratch: &Scratch, packets: u32, port: u16) {
    let mut script = String::new();
    for to in ["10.0.2.2", "fd00:2::2"] {
        let send = format!("for n in $(seq {packets}); do echo $n >&3; done");
        script.push_str(&format!("exec 3>/dev/udp/{to}/{port}; {send}\n"));
    }
    let script = scratch.write("send.sh", &script);
    from.run(&format!("bash {script}"));
}

/// Flows that rules pass or drop are forwarded or dropped in XDP until the rules change. Rules count all of
/// their packets.
#[test]
fn flows_about_which_rules_have_decided_are_forwarded_or_dropped_in_xdp() {
    with_xdp(|| {
        let (a, b) = hosts();
        a.run("ethtool -K a1 gro on tx off");
        b.run("ethtool -K b1 gro on tx off");
        let scratch = Scratch::new();
        let rules = "pass all\nblock in on wan proto { icmp, icmp6 }\nblock in on lan proto udp to port 9\n\
                     block log in on lan proto udp to port 11\n";
        let path = scratch.write("rules.conf", rules);
        let config = scratch.write("router.toml", "rules = \"rules.conf\"\n");
        let mut router = Router::start(&format!("{} --offload --config {config}", links("xdp", "xdp")));
        // The kernel keeps few packets while it asks for the router's hardware address.
        for router in ["10.0.1.1", "fd00:1::1"] {
            a.run(&format!("ping -c 1 -W 5 {router}"));
        }
        for port in [7, 9, 11] {
            datagrams(&a, &scratch, 3_000, port);
        }
        std::fs::write(&path, format!("{rules}block in on lan proto udp to port 7\n")).unwrap();
        router.reload("rules");
        datagrams(&a, &scratch, 3_000, 7);
        let done = router.stop();
        let (count, screening) = (|what: &str| done[what].as_u64().unwrap(), &done["screening"]);
        assert!(count("offloaded") > 1_000 && count("offload_refused") > 2_000, "{done}");
        assert_eq!(screening["passed"], count("offloaded") + count("forwarded"), "{done}");
        let queue_full = screening["queue_full"].as_u64().unwrap();
        let lost = lost(&done["links"][0]) + dropped_for(&done, "channel-full") + queue_full;
        let packets = |rule: usize| screening["rules"][rule]["packets"].as_u64().unwrap();
        for (rule, expected) in [(0, 6_000), (2, 6_000), (3, 6_000), (4, 6_000)] {
            let packets = packets(rule);
            assert!(
                packets <= expected && packets + lost >= expected,
                "{rule}: {packets}, {lost} lost; {done}"
            );
        }
        let dropped: u64 = (1..5).map(packets).sum();
        assert_eq!(screening["dropped"], dropped, "{done}");
    });
}
