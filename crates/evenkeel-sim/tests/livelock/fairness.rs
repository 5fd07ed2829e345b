//! Tests that interfaces take turns (sections 6.4 and 6.6.2).

use evenkeel_core::host::Config;
use evenkeel_core::poll::Quota;
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_sim::traffic::Pattern;
use evenkeel_sim::world::Port;

use crate::rig::{Rig, START, Way, feedback, of, polled};

#[test]
fn two_flooded_interfaces_share_the_output_equally() {
    for (config, screened) in
        [(polled(), false), (Config { quota: Quota::Fixed(10), feedback: feedback(), ..polled() }, true)]
    {
        let mut rig = Rig::new(config);
        if screened {
            rig = rig.screen().0;
        }
        // Each flood is three times the router's capacity, and one begins later than the other.
        rig.load(Way::Out, 15_000, START, Instant::NEVER);
        rig.load(Way::Back, 15_000, START + Duration::from_millis(300), Instant::NEVER);
        let m = rig.measure(START + Duration::from_secs(1), START + Duration::from_secs(3));
        let share = m.out as f64 / (m.out + m.back) as f64;
        assert!((0.45..=0.55).contains(&share), "screened {screened}: {m:?}");
        assert!(m.out + m.back > 4_500, "{m:?}");
    }
}

/// Returns the longest time that a single packet on one interface takes through the router, while the other
/// interface is flooded.
fn worst_latency(quota: usize) -> Duration {
    let mut rig = Rig::new(Config { quota: Quota::Fixed(quota), ..polled() });
    rig.load(Way::Out, 14_000, START, Instant::NEVER);
    rig.send(Way::Back, 97, Pattern::Constant, START, Instant::NEVER);
    let step = Duration::from_micros(20);
    let mut worst = Duration::ZERO;
    rig.world.run_until(rig.world.now() + Duration::from_millis(49));
    let back = |rig: &Rig| rig.host().traffic(InterfaceId(0)).expect("it is there").transmitted;
    let before = back(&rig);
    for n in 0..100 {
        let sent = START + Duration::from_secs(1) * n / 97;
        rig.world.run_until(sent);
        while back(&rig) - before <= u64::from(n) {
            rig.world.run_until(rig.world.now() + step);
        }
        worst = worst.max(rig.world.now().since(sent));
    }
    worst
}

#[test]
fn the_worst_latency_of_a_packet_grows_with_the_quota() {
    let worst = [2, 8, 20].map(worst_latency);
    // The packet may arrive after a callback of the other interface has begun. The packets of that callback
    // come first.
    let packet = Duration::from_micros(165);
    for (quota, worst) in [2, 8, 20].into_iter().zip(worst) {
        assert!(worst > packet * (quota - 1), "quota {quota}: {worst:?}");
        assert!(worst < packet * (quota + 2) + Duration::from_micros(500), "quota {quota}: {worst:?}");
    }
}

/// Returns the numbers of packets that a router forwards in a second of a flood on one interface and a
/// trickle of 200 on the other: from the trickle, and from the flood.
fn beside_a_flood(legacy: Option<usize>, flooded: Way) -> (u64, u64) {
    let mut rig = Rig::with_ports(polled(), |number, port| Port { legacy: legacy == Some(number), ..port });
    let trickle = if flooded == Way::Out { Way::Back } else { Way::Out };
    rig.send(trickle, 200, Pattern::Constant, START, Instant::NEVER);
    rig.load(flooded, 14_000, START, Instant::NEVER);
    let m = rig.measure(START + Duration::from_millis(500), START + Duration::from_millis(1_500));
    if flooded == Way::Out { (m.back, m.out) } else { (m.out, m.back) }
}

#[test]
fn a_legacy_driver_beside_a_polled_one_can_still_livelock_the_rest() {
    // Both interfaces forward.
    let mut rig = Rig::with_ports(polled(), |number, port| Port { legacy: number == 0, ..port });
    rig.load(Way::Out, 1_000, START, Instant::NEVER);
    rig.load(Way::Back, 1_000, START, Instant::NEVER);
    let m = rig.measure(START + Duration::from_millis(500), START + Duration::from_millis(1_500));
    let lost = m.ring + m.ip_queue + m.output;
    assert!(lost == 0 && m.out > 850 && m.back > 850, "{m:?}");

    let (trickle, flood) = beside_a_flood(None, Way::Out);
    assert!(trickle >= 195 && flood > 4_200, "both polled: {trickle}, {flood}");
    let (trickle, flood) = beside_a_flood(Some(0), Way::Out);
    assert!(trickle < 20 && flood < 500, "a flooded legacy interface leaves nothing: {trickle}, {flood}");
    let (trickle, flood) = beside_a_flood(Some(0), Way::Back);
    assert!(trickle >= 195 && flood > 4_000, "one that is polled hurts neither: {trickle}, {flood}");
}

#[test]
fn a_flood_on_one_interface_stops_neither_direction_of_the_other() {
    let trickle = |config| {
        let mut rig = Rig::new(config);
        rig.load(Way::Out, 14_000, START, Instant::NEVER);
        rig.load(Way::Back, 200, START, Instant::NEVER);
        let m = rig.measure(START + Duration::from_millis(500), START + Duration::from_millis(2_500));
        (m.back, m.out)
    };
    let (back, out) = trickle(polled());
    // The trickle has two seconds of two hundred packets each, at random moments.
    assert!((340..=460).contains(&back), "{back}");
    assert!(out > 8_500, "{out}");
    let (back, _) = trickle(of(Architecture::Eager));
    assert!(back < 100, "interrupts leave it nothing: {back}");
}
