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
    // Ten segments, one each 10 ms; all acknowledgments are held up, and come at once.
    for _ in 0..10 {
        script.write(1);
        script.after(ms(10));
    }
    script.after(ms(100));
    script.ack(1);
    (2..=10).for_each(|upto| _ = script.ack(upto));
    let rate = rate(&script).unwrap().as_bytes_per_s();
    assert!(rate <= 110 * u64::from(MSS), "{rate}");
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
    assert!(rate(&script).unwrap().as_bytes_per_s() <= 100 * u64::from(MSS), "{:?}", rate(&script));
}
