//! Interfaces take turns (sections 6.4 and 6.6.2).

use evenkeel_core::host::Config;
use evenkeel_core::poll::Quota;
use evenkeel_core::receive::Architecture;
use evenkeel_core::time::{Duration, Instant};

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
        // Each three times what the router can forward; one begins later than the other.
        rig.load(Way::Out, 15_000, START, Instant::NEVER);
        rig.load(Way::Back, 15_000, START + Duration::from_millis(300), Instant::NEVER);
        let m = rig.measure(START + Duration::from_secs(1), START + Duration::from_secs(3));
        let share = m.out as f64 / (m.out + m.back) as f64;
        assert!((0.45..=0.55).contains(&share), "screened {screened}: {m:?}");
        assert!(m.out + m.back > 4_500, "{m:?}");
    }
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
    // Two seconds of two hundred packets each, at random moments.
    assert!((340..=460).contains(&back), "{back}");
    assert!(out > 8_500, "{out}");
    let (back, _) = trickle(of(Architecture::Eager));
    assert!(back < 100, "interrupts leave it nothing: {back}");
}
