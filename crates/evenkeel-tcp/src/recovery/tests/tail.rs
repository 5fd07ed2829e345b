//! Tail loss probes (RFC 8985, 7).

use super::script::{MSS, Script, ms};
use crate::recovery::{Expired, RecoveryState};

#[test]
fn two_round_trips_without_acknowledgment_bring_a_probe() {
    let mut script = Script::new();
    script.write(5);
    assert_eq!(script.expire(), Expired::TailLossProbe);
    assert_eq!((script.millis(), script.probe().as_str()), (300, "R4"));
    // Then the retransmission timer runs anew, and there is no second probe.
    assert_eq!(script.recovery.deadline(), Some(script.now + script.recovery.info().rto));
}

#[test]
fn a_single_segment_is_given_time_for_a_delayed_acknowledgment() {
    let mut script = Script::new();
    // With 201 ms to the timeout at least, the delay of 200 ms is what counts: min(2 * 100 + 200, 300).
    script.write(1);
    script.expire();
    assert_eq!(script.millis(), 400, "not later than the timeout would be");
}

#[test]
fn new_data_are_a_better_probe() {
    let mut script = Script::new();
    assert_eq!(script.write(100).split(' ').count(), 10);
    script.expire();
    assert_eq!(script.probe(), "N10");
    assert_eq!((script.in_flight(), script.cwnd()), (11, 10), "one more than the window");
    assert_eq!(script.pump(), "");
}

#[test]
fn the_probe_shows_that_the_tail_was_lost_and_recovery_begins() {
    let mut script = Script::new();
    script.write(5);
    script.at(200);
    script.ack(2);
    script.expire();
    assert_eq!((script.millis(), script.probe().as_str()), (400, "R4"));
    // Two of the tail are lost, and the probe arrives.
    script.at(500);
    let acked = script.sack(2, &[(4, 5)]);
    assert_eq!(acked.newly_lost, 2 * MSS);
    assert_eq!(script.pump(), "R2");
    assert_eq!(script.recovery.info().state, RecoveryState::Recovery);
}

#[test]
fn a_probe_that_replaced_the_lost_segment_is_a_sign_of_congestion() {
    let mut script = Script::new();
    script.write(5);
    script.expire();
    script.probe();
    script.at(400);
    script.ack(5);
    assert_eq!(
        (script.recovery.is_empty(), script.cwnd()),
        (true, 10),
        "nothing tells yet whether the probe or the original arrived"
    );
    script.write(1);
    script.at(500);
    let acked = script.ack(6);
    assert!(acked.cwr);
    assert!(script.cwnd() < 10 && script.recovery.info().ssthresh < 10 * MSS);
}

#[test]
fn a_probe_that_arrived_twice_is_not() {
    let mut script = Script::new();
    script.write(5);
    script.expire();
    script.probe();
    script.at(400);
    script.ack(5);
    script.sack(5, &[(4, 5)]);
    script.write(1);
    script.at(500);
    assert!(!script.ack(6).cwr);
    assert_eq!(script.cwnd(), 10);
}

#[test]
fn without_sack_a_bare_duplicate_says_so() {
    let mut script = Script::new();
    script.write(2);
    script.expire();
    script.probe();
    script.at(400);
    script.ack(2);
    script.write(1);
    assert!(script.ack(2).duplicate);
    script.at(500);
    assert!(!script.ack(3).cwr);
}

#[test]
fn a_bare_duplicate_when_nothing_is_outstanding_any_more_says_so() {
    let mut script = Script::new();
    script.write(5);
    script.expire();
    script.probe();
    script.at(400);
    script.ack(5);
    // The probe came after its original, to a receiver that reports nothing that comes twice.
    script.ack(5);
    script.write(1);
    script.at(500);
    assert!(!script.ack(6).cwr);
    assert_eq!(script.cwnd(), 10);
}

#[test]
fn while_something_arrived_out_of_order_there_is_no_probe() {
    let mut script = Script::new();
    script.write(5);
    script.at(150);
    script.sack(0, &[(1, 2)]);
    // The time for reordering ends first; after it recovery's own timers run.
    assert!(matches!(script.expire(), Expired::Reordering { .. }));
    script.pump();
    assert_eq!(script.expire(), Expired::Timeout);
}

#[test]
fn a_lost_probe_ends_in_a_timeout() {
    let mut script = Script::new();
    script.write(3);
    script.expire();
    script.probe();
    let rto = script.recovery.info().rto;
    let probe_at = script.now;
    assert_eq!(script.expire(), Expired::Timeout);
    assert_eq!(script.now, probe_at + rto);
    assert_eq!(script.pump(), "R0");
    assert_eq!(rto, ms(300));
}

#[test]
fn a_duplicate_without_blocks_does_not_put_an_end_to_the_probe() {
    let mut script = Script::new();
    script.write(10);
    script.at(150);
    assert!(script.ack(0).duplicate);
    assert_eq!(script.expire(), Expired::TailLossProbe);
}
