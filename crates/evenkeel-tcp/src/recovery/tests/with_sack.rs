//! SACK, RACK and proportional reduction (RFC 2018, 6675, 8985, 9937).

use super::script::{MSS, Script, ms};
use crate::recovery::{Expired, RecoveryState};

#[test]
fn the_initial_window_is_ten_segments() {
    let mut script = Script::new();
    assert_eq!(script.write(20), "N0 N1 N2 N3 N4 N5 N6 N7 N8 N9");
    assert_eq!((script.in_flight(), script.recovery.info().srtt), (10, Some(ms(100))));
}

#[test]
fn the_third_selectively_acknowledged_segment_begins_fast_recovery() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    script.available = 20;
    assert_eq!(script.sack(0, &[(1, 2)]).newly_sacked, MSS);
    assert_eq!(script.pump(), "N10", "limited transmit");
    script.sack(0, &[(1, 3)]);
    assert_eq!(script.pump(), "N11");
    assert_eq!(script.recovery.info().state, RecoveryState::Disorder);
    let acked = script.sack(0, &[(1, 4)]);
    assert_eq!((acked.newly_lost, acked.cwr), (MSS, true));
    assert_eq!(script.pump(), "R0");
    let info = script.recovery.info();
    // beta of CUBIC
    assert_eq!(
        (info.state, info.ssthresh, info.retransmitted_segments),
        (RecoveryState::Recovery, 7 * MSS, 1)
    );
}

#[test]
fn proportional_reduction_brings_the_window_to_ssthresh() {
    let mut script = Script::new();
    script.write(1000);
    script.at(200);
    let mut left = Vec::new();
    for arrived in 2..=10 {
        script.sack(0, &[(1, arrived)]);
        left.push(script.pump());
    }
    // Seven for ten that arrive, until seven are on their way; then one for one.
    assert_eq!(left.join("|"), "N10|N11|R0|||N12|N13|N14|N15");
    script.at(300);
    // The retransmission arrives, and the two of limited transmit.
    script.sack(12, &[]);
    assert_eq!((script.recovery.info().state, script.cwnd()), (RecoveryState::Open, 7));
    assert_eq!(script.pump(), "N16 N17 N18");
}

#[test]
fn a_burst_of_losses_is_sent_again_without_another_reduction() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    // Segments 0 to 4 are lost.
    script.sack(0, &[(5, 6)]);
    script.sack(0, &[(5, 7)]);
    let acked = script.sack(0, &[(5, 8)]);
    assert_eq!(acked.newly_lost, 5 * MSS);
    let mut left = vec![script.pump()];
    for arrived in 9..=10 {
        script.sack(0, &[(5, arrived)]);
        left.push(script.pump());
    }
    assert_eq!(left.join("|"), "R0|R1|R2", "what arrived is replaced: PRR-CRB");
    script.at(300);
    script.sack(1, &[(5, 10)]);
    assert_eq!(script.pump(), "R3 R4", "in good progress one more: PRR-SSRB");
    script.sack(3, &[(5, 10)]);
    script.at(400);
    assert_eq!(script.ack(10).newly_acked, 7 * MSS);
    assert_eq!((script.cwnd(), script.recovery.info().fast_recoveries), (7, 1));
    assert!(script.recovery.is_empty() && script.recovery.deadline().is_none());
}

#[test]
fn a_lost_retransmission_is_noticed_when_something_sent_later_arrives() {
    let mut script = Script::new();
    script.write(1000);
    script.at(200);
    (2..=10).for_each(|arrived| {
        script.sack(0, &[(1, arrived)]);
        script.pump();
    });
    // R0 is lost, and N12, which left after it, arrives. N10 and N11 left at the same time as R0, with higher
    // numbers.
    script.at(300);
    let acked = script.sack(0, &[(1, 13)]);
    assert_eq!(acked.newly_lost, MSS);
    assert!(script.pump().starts_with("R0"));
    assert_eq!(script.recovery.info().fast_recoveries, 1);
}

#[test]
fn reordering_is_waited_for_a_quarter_of_the_shortest_round_trip() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    // Two segments arrive early: no loss yet, but a timer (RFC 8985, 6.2, steps 4 and 5).
    script.sack(0, &[(1, 3)]);
    assert_eq!(script.recovery.info().state, RecoveryState::Disorder);
    assert_eq!(script.recovery.deadline(), Some(crate::time::Instant::from_millis(225)));
    script.at(210);
    script.ack(3);
    assert!(script.recovery.info().reordering_seen);
    assert_ne!(script.recovery.deadline(), Some(crate::time::Instant::from_millis(225)));
    assert_eq!(script.recovery.info().retransmitted_segments, 0);
}

#[test]
fn blocks_that_one_acknowledgment_brings_together_are_not_reordered() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    // The acknowledgment in between was lost; the newest block comes first (RFC 2018, 4).
    script.sack(0, &[(6, 7), (3, 4)]);
    assert!(!script.recovery.info().reordering_seen);
    script.sack(0, &[(1, 2), (6, 7), (3, 4)]);
    assert!(script.recovery.info().reordering_seen);
}

#[test]
fn when_the_time_for_reordering_is_over_the_segment_is_lost() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    script.sack(0, &[(1, 3)]);
    assert_eq!(script.expire(), Expired::Reordering { lost: MSS, reduced: true });
    assert_eq!((script.millis(), script.pump().as_str()), (225, "R0"));
    assert_eq!(script.recovery.info().ssthresh, 7 * MSS);
}

#[test]
fn after_reordering_was_seen_three_early_segments_are_no_loss() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    script.sack(0, &[(1, 2)]);
    script.ack(2);
    assert!(script.recovery.info().reordering_seen);
    script.sack(2, &[(3, 8)]);
    assert_eq!(script.recovery.info().lost_bytes, 0);
    assert_eq!(script.expire(), Expired::Reordering { lost: MSS, reduced: true });
    assert_eq!(script.millis(), 225);
}

#[test]
fn a_receiver_that_reports_duplicates_is_given_more_time() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    script.sack(0, &[(1, 3)]);
    script.at(225);
    script.recovery.on_deadline(script.now);
    assert_eq!(script.pump(), "R0");
    // The original was late, and the retransmission arrived twice.
    script.at(230);
    script.ack(10);
    script.at(325);
    let acked = script.sack(10, &[(0, 1)]);
    assert!(acked.undone);
    assert_eq!((script.cwnd(), script.recovery.info().undone), (10, 1));
    // Now a half of the shortest round trip is waited for.
    script.at(400);
    script.write(10);
    script.at(500);
    script.sack(10, &[(11, 13)]);
    assert_eq!(script.expire(), Expired::Reordering { lost: MSS, reduced: true });
    assert_eq!(script.millis(), 550);
}

#[test]
fn blocks_that_make_no_sense_change_nothing() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    for blocks in [&[(10, 11)][..], &[(5, 4)], &[(9, 20)], &[(0, 3), (0, 2)], &[(4, 4)]] {
        let acked = script.sack(0, blocks);
        assert_eq!((acked.newly_sacked, acked.newly_lost, script.in_flight()), (0, 0, 10), "{blocks:?}");
    }
    assert_eq!(script.ack(11), Default::default(), "never sent");
    script.ack(5);
    assert_eq!(script.ack(3), Default::default(), "old");
}

#[test]
fn of_a_segment_that_is_acknowledged_in_part_the_rest_is_kept() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    let acked = script.recovery.on_ack(&crate::recovery::AckInfo {
        ack: script.segments(2, 3).start + 400,
        sack: &[],
        window_update: false,
        payload: false,
        rtt_echo: None,
        ece: false,
        unsent: false,
        now: script.now,
    });
    assert_eq!((acked.newly_acked, script.recovery.in_flight()), (2400, 7600));
    script.expire();
    script.expire();
    assert_eq!(script.recovery.next_retransmission(1000).unwrap().len(), 600);
}

/// RFC 6675, 5: the scoreboard is brought up to date by every acknowledgment, also by one that another has
/// overtaken.
#[test]
fn an_overtaken_acknowledgment_tells_what_has_arrived() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    // Its SACK option had no room for all.
    script.sack(1, &[(9, 10)]);
    let acked = script.sack(0, &[(3, 4), (5, 6), (7, 8)]);
    assert_eq!((acked.newly_acked, acked.newly_sacked, acked.duplicate), (0, 3 * MSS, false));
    script.at(300);
    assert!(acked.newly_lost > 0 || matches!(script.expire(), Expired::Reordering { lost, .. } if lost > 0));
    assert_eq!(script.pump().split(' ').next(), Some("R1"), "it is not left to the timer");
}

/// Segments that an overtaken acknowledgment reports, and that were acknowledged meanwhile, count as
/// arrived once.
#[test]
fn an_overtaken_acknowledgment_is_none_of_duplicates() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    script.sack(5, &[(6, 7)]);
    let patience = script.recovery.parts.patience();
    let acked = script.sack(1, &[(2, 4)]);
    assert_eq!((acked.newly_sacked, acked.undone, script.recovery.parts.patience()), (0, false, patience));
    assert_eq!(script.ack(0), script.ack(0), "without blocks it says nothing");
    // But one that was one then, still is.
    script.sack(1, &[(0, 1)]);
    assert!(script.recovery.parts.patience() > patience);
}
