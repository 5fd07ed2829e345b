//! Tests that spurious reductions are undone: Eifel (RFC 3522, 4015), DSACK (RFC 3708), F-RTO (RFC 5682).

use super::script::{MSS, Script, ms};
use crate::recovery::{Expired, RecoveryState};

/// Returns a script with ten segments sent, a timeout at 300 ms after the probe, and the first segment sent
/// again.
fn timed_out() -> Script {
    let mut script = Script::new();
    script.write(10);
    assert_eq!(script.expire(), Expired::TailLossProbe);
    script.probe();
    assert_eq!(script.expire(), Expired::Timeout);
    assert_eq!((script.millis(), script.cwnd(), script.pump().as_str()), (600, 1, "R0"));
    script
}

#[test]
fn a_timestamp_older_than_the_retransmission_undoes_a_timeout() {
    let mut script = timed_out();
    script.at(610);
    let acked = script.sack_echoing(1, &[], 100);
    assert!(acked.undone);
    let info = script.recovery.info();
    assert_eq!((info.state, info.cwnd / MSS >= 10, info.ssthresh), (RecoveryState::Open, true, u32::MAX));
    assert_eq!(script.recovery.next_retransmission(1000), None, "nothing is lost");
    assert_eq!(script.in_flight(), 9);
}

#[test]
fn a_timestamp_of_the_retransmission_does_not() {
    let mut script = timed_out();
    script.at(700);
    let acked = script.sack_echoing(1, &[], 600);
    assert!(!acked.undone);
    assert_eq!(script.recovery.info().state, RecoveryState::Loss);
}

#[test]
fn a_timestamp_within_a_tick_of_the_retransmission_does_not_either() {
    let mut script = timed_out();
    script.at(700);
    assert!(!script.sack_echoing(1, &[], 599).undone);
    let mut script = timed_out();
    script.at(700);
    assert!(script.sack_echoing(1, &[], 598).undone);
}

/// Without a sample: what was sent twice gives none (Karn), and only a DSACK says that it was for nothing.
#[test]
fn a_timeout_that_was_for_nothing_ends_the_back_off() {
    let mut script = timed_out();
    let doubled = script.recovery.rto();
    script.at(610);
    assert!(!script.ack(1).undone);
    assert_eq!(script.recovery.rto(), doubled, "the first segment went out twice: no sample");
    let acked = script.sack(1, &[(0, 1)]);
    assert!(acked.undone);
    assert_eq!(script.recovery.rto() * 2, doubled);
}

#[test]
fn f_rto_sends_new_data_after_the_first_acknowledgment() {
    let mut script = timed_out();
    script.available += 10;
    script.at(610);
    script.ack(1);
    assert_eq!(script.pump(), "N10 N11", "not R1");
    script.at(620);
    // The second original arrives: it was sent once, and declared lost.
    let acked = script.ack(2);
    assert!(acked.undone);
    assert_eq!(
        (script.recovery.info().state, script.recovery.next_retransmission(1000)),
        (RecoveryState::Open, None)
    );
    assert!(script.cwnd() >= 10);
}

#[test]
fn f_rto_without_new_data_goes_on_as_usual() {
    let mut script = timed_out();
    script.at(700);
    script.ack(1);
    assert_eq!(script.pump(), "R1 R2");
}

#[test]
fn f_rto_takes_a_duplicate_for_a_real_loss() {
    let mut script = timed_out();
    script.available += 10;
    script.at(700);
    script.ack(1);
    assert_eq!(script.pump(), "N10 N11");
    script.at(800);
    let acked = script.sack(1, &[(10, 11)]);
    assert!(!acked.undone);
    assert!(script.pump().starts_with("R1"));
    assert_eq!(script.recovery.info().state, RecoveryState::Loss);
}

#[test]
fn a_delayed_acknowledgment_of_two_originals_shows_it_at_once() {
    let mut script = timed_out();
    script.at(610);
    assert!(script.ack(2).undone);
}

#[test]
fn the_acknowledgment_of_all_at_once_shows_it_too() {
    let mut script = timed_out();
    script.at(610);
    assert!(script.ack(10).undone);
    assert!(script.cwnd() >= 10);
}

#[test]
fn a_real_timeout_is_not_undone() {
    let mut script = timed_out();
    let mut upto = 0;
    while !script.recovery.is_empty() {
        script.after(ms(100));
        upto += script.in_flight().max(1);
        assert!(!script.ack(upto.min(10)).undone);
        script.pump();
    }
    let info = script.recovery.info();
    assert_eq!((info.undone, info.ssthresh), (0, 7 * MSS));
}

#[test]
fn a_fast_recovery_for_reordering_is_undone_by_a_timestamp() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    script.sack_echoing(0, &[(1, 4)], 100);
    assert_eq!(script.pump(), "R0");
    script.at(205);
    let acked = script.sack_echoing(10, &[], 100);
    assert!(acked.undone);
    let info = script.recovery.info();
    assert_eq!((info.state, info.cwnd / MSS >= 10, info.ssthresh), (RecoveryState::Open, true, u32::MAX));
}

/// Segments 0 and 9 are lost; of what leaves in that recovery, 12, which is sent again in it, and 15, which
/// is noticed when it is over.
#[test]
fn an_acknowledgment_of_what_an_earlier_recovery_sent_again_undoes_nothing() {
    let mut script = Script::new();
    script.write(20);
    script.at(200);
    script.sack_echoing(0, &[(1, 9)], 100);
    assert_eq!(script.pump(), "R0 N10 N11 N12 N13 N14");
    script.at(300);
    script.sack_echoing(9, &[(10, 12)], 200);
    assert_eq!(script.pump(), "R9 N15 N16 N17");
    script.at(310);
    script.sack_echoing(9, &[(10, 12), (13, 15)], 200);
    assert_eq!(script.pump(), "R12 N18 N19");
    script.at(400);
    script.sack_echoing(12, &[(13, 15)], 300);
    assert_eq!(script.recovery.info().state, RecoveryState::Disorder);
    script.at(402);
    script.sack_echoing(12, &[(13, 15), (16, 18)], 300);
    assert_eq!(script.pump(), "R15");
    script.at(410);
    let acked = script.sack_echoing(15, &[(16, 18)], 310);
    assert!(!acked.undone);
    assert_eq!(script.recovery.info().state, RecoveryState::Recovery);
}

#[test]
fn a_fast_recovery_with_two_retransmissions_needs_two_dsacks() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    script.sack(0, &[(2, 6)]);
    script.sack(0, &[(2, 8)]);
    assert_eq!(script.pump(), "R0 R1");
    script.at(210);
    script.ack(10);
    assert_eq!(script.cwnd(), 7);
    script.at(300);
    assert!(!script.sack(10, &[(0, 1)]).undone);
    assert!(script.sack(10, &[(1, 2)]).undone);
    assert_eq!(script.cwnd(), 10);
}

#[test]
fn a_segment_that_the_network_doubled_undoes_nothing() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    script.sack(0, &[(1, 4)]);
    assert_eq!(script.pump(), "R0");
    script.at(300);
    script.ack(10);
    assert!(!script.sack(10, &[(5, 6)]).undone);
    assert_eq!(script.cwnd(), 7);
}

#[test]
fn a_dsack_comes_too_late_when_another_round_trip_is_over() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    script.sack(0, &[(1, 4)]);
    script.pump();
    script.at(210);
    script.ack(10);
    script.write(4);
    script.at(310);
    script.ack(14);
    assert!(!script.sack(14, &[(0, 1)]).undone);
    assert!(script.cwnd() < 10);
}

#[test]
fn f_rto_is_not_put_off_by_data_of_the_peer() {
    let mut script = timed_out();
    script.available += 10;
    script.at(605);
    script.recovery.on_ack(&crate::recovery::AckInfo {
        ack: script.segments(0, 0).start,
        sack: &[],
        window_update: false,
        payload: true,
        rtt_echo: None,
        ece: false,
        unsent: true,
        now: script.now,
    });
    script.at(610);
    script.ack(1);
    assert_eq!(script.pump(), "N10 N11", "not R1");
}

#[test]
fn what_has_not_been_sent_again_yet_was_not_sent_again_in_vain() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    let acked = script.sack(0, &[(1, 4)]);
    assert_eq!((acked.newly_lost, acked.undone), (MSS, false));
    assert!(!script.sack(0, &[(1, 5)]).undone);
    assert_eq!(script.recovery.info().state, RecoveryState::Recovery);
}
