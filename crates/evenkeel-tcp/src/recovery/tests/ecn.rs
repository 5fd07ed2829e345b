//! Explicit congestion notification (RFC 3168, 6.1.2).

use super::script::{MSS, Script, ms};
use crate::recovery::{Expired, RecoveryState};

#[test]
fn an_echo_reduces_the_window_once_for_a_window_of_data() {
    let mut script = Script::new();
    script.write(1000);
    script.at(200);
    assert!(script.ack_with_ece(1).cwr);
    assert_eq!(
        (script.recovery.info().state, script.recovery.info().ssthresh),
        (RecoveryState::Cwr, 7 * MSS)
    );
    let mut left = 0;
    for upto in 2..=10 {
        assert!(!script.ack_with_ece(upto).cwr, "the same window of data");
        left += script.pump().split_whitespace().count();
    }
    // What the mark was for is acknowledged: the window is seven, and the next mark counts.
    assert_eq!((script.in_flight(), left), (7, 7));
    assert_eq!(script.recovery.info().lost_bytes, 0);
    script.at(300);
    assert!(script.ack_with_ece(11).cwr);
    assert!(script.recovery.info().ssthresh < 7 * MSS);
}

#[test]
fn a_loss_in_a_marked_window_of_data_reduces_no_further() {
    let mut script = Script::new();
    script.write(1000);
    script.at(200);
    script.ack_with_ece(1);
    let ssthresh = script.recovery.info().ssthresh;
    let acked = script.sack(1, &[(2, 6)]);
    assert_eq!((acked.newly_lost, acked.cwr), (MSS, false));
    assert_eq!(
        (script.recovery.info().state, script.recovery.info().ssthresh),
        (RecoveryState::Recovery, ssthresh)
    );
}

/// RFC 3168, 6.1.2: it SHOULD NOT.
#[test]
fn an_acknowledgment_with_an_echo_does_not_open_the_window_after_a_timeout_either() {
    let mut script = Script::new();
    script.write(10);
    script.expire();
    script.probe();
    assert_eq!(script.expire(), Expired::Timeout);
    script.pump();
    script.after(ms(100));
    let before = script.recovery.cwnd();
    script.ack_with_ece(1);
    assert_eq!(script.recovery.cwnd(), before);
    script.ack(2);
    assert!(script.recovery.cwnd() > before);
}

#[test]
fn a_reduction_for_a_mark_is_never_undone() {
    let mut script = Script::new();
    script.write(1000);
    script.at(200);
    script.ack_with_ece(1);
    script.sack_echoing(1, &[(2, 6)], 100);
    script.pump();
    script.at(210);
    assert!(!script.sack_echoing(10, &[], 100).undone);
    assert_eq!(script.cwnd(), 7);
}
