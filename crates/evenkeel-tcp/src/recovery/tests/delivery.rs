//! Delivery rate estimation (draft-cheng-iccrg-delivery-rate-estimation).

use super::script::{MSS, Script, ms};
use crate::rate::Rate;
use crate::recovery::{RecoveryConfig, Restart};
use crate::time::Duration;

fn script() -> Script {
    let (pacing, restart) = (true, Restart::LastRate);
    Script::with(&RecoveryConfig { pacing, restart, hystart: false, ..RecoveryConfig::default() }, true)
}

fn rate(script: &Script) -> Option<Rate> {
    script.recovery.info().delivery_rate
}

#[test]
fn segments_that_come_out_of_a_bottleneck_tell_its_rate() {
    let mut script = script();
    assert_eq!(rate(&script), None, "the acknowledgment of the SYN tells nothing");
    script.write(10);
    script.after(ms(100));
    // One each millisecond, and for each another leaves.
    for upto in 1..=300 {
        script.after(ms(1));
        script.ack(upto);
        script.write(1);
    }
    // The window is larger than what is written: ten segments in ten milliseconds.
    let rate = rate(&script).unwrap().as_bytes_per_s();
    assert!(rate.abs_diff(1_000 * u64::from(MSS)) < 20_000, "{rate}");
}

#[test]
fn acknowledgments_that_come_together_tell_no_more_than_was_sent() {
    let mut script = script();
    // One segment each 10 ms, and 100 ms later its acknowledgment, up to that of the eleventh, at 300 ms.
    for n in 0..=30 {
        script.at(100 + 10 * n);
        if (10..=20).contains(&n) {
            script.ack(n as u32 - 9);
        }
        if n == 30 {
            // Nine are late, and only one of them comes before the last segment leaves.
            script.ack(12);
        }
        script.send_new();
    }
    // All others come at once: nineteen segments in 100 ms, which left in 190.
    script.at(500);
    script.ack(31);
    assert_eq!(rate(&script), Rate::of(19 * u64::from(MSS), ms(190)));
}

#[test]
fn what_the_user_limits_does_not_lower_what_was_measured() {
    let mut script = script();
    script.write(10);
    script.after(ms(100));
    script.ack(10);
    let full = rate(&script);
    assert_eq!(full, Rate::of(10 * u64::from(MSS), ms(100)));
    for _ in 0..5 {
        script.recovery.on_nothing_to_send();
        script.write(1);
        script.after(ms(100));
        script.ack(script.next());
        assert_eq!(rate(&script), full);
    }
    // Nobody says that the user was the limit.
    script.after(ms(1));
    script.write(1);
    script.after(ms(100));
    script.ack(script.next());
    script.write(1);
    script.after(ms(100));
    script.ack(script.next());
    assert!(rate(&script) < full, "{:?}", rate(&script));
}

#[test]
fn lost_and_selectively_acknowledged_segments_count_once() {
    let mut script = script();
    script.write(10);
    script.after(ms(100));
    // The first is lost: what arrived arrived in a round trip.
    script.sack(0, &[(1, 10)]);
    assert_eq!(rate(&script), Rate::of(9 * u64::from(MSS), ms(100)));
    script.after(Duration::from_millis(30));
    script.pump();
    script.after(ms(100));
    script.ack(10);
    // The one that was sent again, in a round trip of its own.
    assert_eq!(rate(&script), Rate::of(MSS.into(), ms(100)));
}
