//! Three duplicate acknowledgments (RFC 5681, 3.2), partial acknowledgments (RFC 6582), limited transmit (RFC
//! 3042).

use super::script::{MSS, Script};
use crate::recovery::RecoveryState;

#[test]
fn two_duplicates_let_new_segments_leave_and_the_third_begins_fast_recovery() {
    let mut script = Script::without_sack();
    script.write(1000);
    script.at(200);
    assert!(script.ack(0).duplicate);
    assert_eq!(script.pump(), "N10");
    script.ack(0);
    assert_eq!(script.pump(), "N11");
    let acked = script.ack(0);
    assert_eq!((acked.newly_lost, acked.cwr), (MSS, true));
    assert_eq!(script.pump(), "R0");
    let info = script.recovery.info();
    assert_eq!((info.state, info.ssthresh), (RecoveryState::Recovery, 5 * MSS));
}

#[test]
fn a_partial_acknowledgment_sends_the_next_lost_segment_and_a_full_one_ends_recovery() {
    let mut script = Script::without_sack();
    script.write(10);
    script.at(200);
    // 0 and 4 are lost; eight duplicates.
    let mut left = Vec::new();
    for _ in 0..8 {
        script.ack(0);
        left.push(script.pump());
    }
    assert_eq!(left.join("|"), "||R0|||||");
    script.at(300);
    let acked = script.ack(4);
    assert_eq!((acked.newly_acked, acked.newly_lost), (4 * MSS, MSS));
    assert_eq!(script.in_flight(), 0, "5 to 9 are what five of the duplicates stood for");
    assert_eq!(script.pump(), "R4");
    assert_eq!(script.recovery.info().state, RecoveryState::Recovery);
    script.at(400);
    script.ack(10);
    assert_eq!((script.recovery.info().state, script.cwnd()), (RecoveryState::Open, 5));
    assert_eq!(script.recovery.info().fast_recoveries, 1);
}

#[test]
fn during_recovery_duplicates_clock_out_new_data() {
    let mut script = Script::without_sack();
    script.write(1000);
    script.at(200);
    let mut left = Vec::new();
    for _ in 0..9 {
        script.ack(0);
        left.push(script.pump());
    }
    // Half of ten: one leaves for two that arrive, until five are on their way; then one for one.
    assert_eq!(left.join("|"), "N10|N11|R0|||N12|||N13");
}

#[test]
fn duplicates_for_what_was_sent_again_in_vain_begin_no_recovery() {
    let mut script = Script::without_sack();
    script.write(10);
    script.expire();
    script.pump();
    script.at(500);
    script.ack(1);
    script.pump();
    script.at(600);
    // The originals had only been late: all is acknowledged, and each retransmission brings a duplicate.
    script.ack(10);
    script.write(5);
    (0..5).for_each(|_| {
        script.ack(10);
    });
    assert_eq!(script.recovery.info().fast_recoveries, 0);
}

#[test]
fn segments_with_data_or_another_window_are_no_duplicates() {
    for (payload, window_update) in [(true, false), (false, true)] {
        let mut script = Script::without_sack();
        script.write(10);
        script.at(200);
        for _ in 0..5 {
            let acked = script.recovery.on_ack(&crate::recovery::AckInfo {
                ack: script.segments(0, 0).start,
                sack: &[],
                window_update,
                payload,
                rtt_echo: None,
                ece: false,
                unsent: false,
                now: script.now,
            });
            assert!(!acked.duplicate);
        }
        assert_eq!(script.recovery.info().state, RecoveryState::Open);
    }
}

#[test]
fn endless_duplicates_let_no_more_leave_than_was_in_flight() {
    let mut script = Script::without_sack();
    script.write(1000);
    script.at(200);
    for _ in 0..1000 {
        script.ack(0);
        script.pump();
        assert!(script.next() <= 22, "{}", script.next());
    }
}

#[test]
fn sack_blocks_that_were_not_agreed_on_are_ignored() {
    let mut script = Script::without_sack();
    script.write(10);
    script.at(200);
    assert_eq!(script.sack(0, &[(1, 10)]).newly_sacked, 0);
}

#[test]
fn a_partial_acknowledgment_leaves_duplicates_for_what_it_does_not_cover() {
    let mut script = Script::without_sack();
    script.write(10);
    script.at(200);
    // 0 and 2 are lost, and so are some acknowledgments.
    for _ in 0..4 {
        script.ack(0);
        script.pump();
    }
    script.at(300);
    script.ack(2);
    assert_eq!(script.in_flight(), 4, "of 3 to 9 three have arrived: one of the four was 1");
}
