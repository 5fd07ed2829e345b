//! Tests of two kernels, in a namespace each, with the emulator between them.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use evenkeel_core::time::Duration;
use evenkeel_core::wire::{IpAddress, IpCidr};
use evenkeel_link::{Device, Tap, TapOptions};
use evenkeel_sim::net::Conditions;
use evenkeel_sim::rng::Ratio;
use evenkeel_testing::{
    Bridge, Place, Program, Running, Scratch, Traffic, attempt, in_namespace, pause, run, wait_for, words,
};

const PROGRAMS: [Program; 4] =
    [("ip", "iproute2"), ("ping", "iputils-ping"), ("socat", "socat"), ("ethtool", "ethtool")];
const DELAY: Duration = Duration::from_millis(10);

/// Connects two namespaces, this one with 10.0.0.1 and another one with 10.0.0.2, through `conditions`.
fn connected(conditions: Conditions) -> (Place, Bridge) {
    let there = Place::new();
    let device = |last: u16| -> Box<dyn Device> {
        let v4 = IpCidr::new(IpAddress::v4(10, 0, 0, last as u8), 24);
        let v6 = IpCidr::new(IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, last), 64);
        let options = TapOptions { kernel_addresses: vec![v4, v6], ..TapOptions::default() };
        Box::new(Tap::open("k0", &options).unwrap())
    };
    let devices = [device(1), there.here(move || device(2))];
    // The kernel would count a large segment as one frame.
    run("ethtool -K k0 tso off");
    there.run("ethtool -K k0 tso off");
    let bridge = Bridge::between(devices, [conditions; 2], 7).unwrap();
    (there, bridge)
}

/// Waits until nothing is in transit and the counters are stable.
fn settled(bridge: &Bridge) -> [Traffic; 2] {
    let mut before = bridge.traffic();
    wait_for("rest", || {
        pause(Duration::from_millis(100));
        let now = bridge.traffic();
        core::mem::replace(&mut before, now) == now && now.iter().all(|traffic| traffic.flying == 0)
    });
    before
}

/// Returns the numbers of frames that the kernel has received from its end of the TAP and given to it, from
/// the text of its /proc/net/dev.
fn counted(text: &str) -> [u64; 2] {
    let row = text.lines().find_map(|line| line.trim().strip_prefix("k0:")).unwrap();
    let columns: Vec<u64> = row.split_whitespace().map(|column| column.parse().unwrap()).collect();
    [columns[1], columns[9]]
}

/// Returns the value of a TCP counter of this namespace's kernel.
fn snmp(name: &str) -> u64 {
    let text = run("cat /proc/net/snmp");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("Tcp:")).collect();
    let place = rows[0].split(' ').position(|column| column == name).unwrap();
    rows[1].split(' ').nth(place).unwrap().parse().unwrap()
}

/// Checks that every frame is accounted for: by the emulator alone, and by it and the kernel together.
fn check(bridge: &Bridge) -> [Traffic; 2] {
    let traffic = settled(bridge);
    assert!(traffic.iter().all(Traffic::adds_up), "{traffic:?}");
    assert!(traffic.iter().all(|way| way.refused == 0), "{traffic:?}");
    traffic
}

#[test]
fn without_faults_nothing_is_lost_and_everything_takes_its_time() {
    in_namespace(&[&PROGRAMS], || {
        let (_there, bridge) = connected(Conditions { delay: DELAY, ..Conditions::PERFECT });
        for address in ["10.0.0.2", "fd00::2"] {
            let said = run(&format!("ping -c 20 -i 0.02 {address}"));
            assert!(said.contains("20 packets transmitted, 20 received"), "{said}");
            let fastest = said.split("rtt min/avg/max/mdev = ").nth(1).unwrap().split('/').next().unwrap();
            assert!(fastest.parse::<f64>().unwrap() >= 20.0, "there and back: {said}");
        }
        let [there, back] = check(&bridge).map(|way| way.emulated);
        assert!(there.offered >= 40 && there.offered == there.delivered, "{there:?}");
        assert!(back.offered >= 40 && back.offered == back.delivered, "{back:?}");
        assert_eq!(counted(&run("cat /proc/net/dev")), [back.delivered, there.offered]);
    });
}

#[test]
fn tcp_of_the_kernel_brings_everything_across_what_loses_and_confuses() {
    in_namespace(&[&PROGRAMS], || {
        let conditions = Conditions {
            delay: DELAY,
            loss: Ratio::percent(2),
            duplication: Ratio::percent(1),
            corruption: Ratio::percent(1),
            reordering: Ratio::percent(1),
            reordering_delay: Duration::from_millis(3),
            ..Conditions::PERFECT
        };
        let (there, bridge) = connected(conditions);
        let files = Scratch::new();
        let text: String = (0..400_000).map(|n| format!("{n:>9}\n")).collect();
        let (from, to) = (files.write("from", &text), files.file("to"));
        let listen = format!("socat -u TCP-LISTEN:5000 OPEN:{},creat,trunc", to.display());
        let mut server = there.here(move || Running(words(&listen).spawn().unwrap()));
        wait_for("a server", || there.run("ss -ltn").contains(":5000"));
        run(&format!("socat -u OPEN:{from} TCP:10.0.0.2:5000"));
        server.0.wait().unwrap();
        assert_eq!(std::fs::read_to_string(&to).unwrap(), text, "every byte, in order");
        let traffic = check(&bridge);
        let [going, back] = traffic.map(|way| way.emulated);
        assert!(
            going.lost > 0 && going.duplicated > 0 && going.reordered > 0 && going.corrupted > 0,
            "{going:?}"
        );
        assert_eq!(counted(&run("cat /proc/net/dev")), [back.delivered, going.offered]);
        assert_eq!(counted(&there.run("cat /proc/net/dev")), [going.delivered, back.offered]);
        assert!(snmp("RetransSegs") > 0, "what was lost was sent again");
    });
}

#[test]
fn a_way_that_is_closed_lets_nothing_through_until_it_is_opened_and_afterwards_nothing_is_left() {
    in_namespace(&[&PROGRAMS], || {
        let (there, bridge) = connected(Conditions::PERFECT);
        run("ping -c 1 -W 5 10.0.0.2");
        let closed = Conditions { loss: Ratio::percent(100), ..Conditions::PERFECT };
        bridge.set_conditions([closed, Conditions::PERFECT]);
        // The bridge detects it at its next turn.
        wait_for("the end of the way", || !attempt("ping -c 1 -W 1 10.0.0.2").0);
        assert!(bridge.traffic()[0].emulated.lost >= 1);
        bridge.set_conditions([Conditions::PERFECT; 2]);
        wait_for("the way", || attempt("ping -c 1 -W 1 10.0.0.2").0);
        drop(bridge);
        // Programs that other tests start hold copies of this process's descriptors until they execute.
        wait_for("the end of both devices", || {
            !run("ip link").contains("k0") && !there.run("ip link").contains("k0")
        });
    });
}

#[test]
fn a_device_with_several_receive_rings_is_refused() {
    in_namespace(&[&PROGRAMS], || {
        let [one, several] = [("k0", 1), ("k1", 2)].map(|(name, queues)| -> Box<dyn Device> {
            Box::new(Tap::open(name, &TapOptions { queues, ..TapOptions::default() }).unwrap())
        });
        let error = Bridge::between([one, several], [Conditions::PERFECT; 2], 7).unwrap_err().to_string();
        assert!(error.contains("k1 has several receive rings"), "{error}");
    });
}
