//! The retransmission timer (RFC 6298), and what it does to the window (RFC 5681, 3.1).

use std::sync::mpsc;

use super::script::{MSS, Script, ms};
use crate::congestion::{Arrival, CongestionControl, Window};
use crate::recovery::{Expired, RecoveryConfig, RecoveryState};
use crate::time::{Duration, Instant};

const fn at(millis: u64) -> Option<Instant> {
    Some(Instant::from_millis(millis))
}

#[test]
fn the_syn_is_sent_again_after_one_second_then_two_then_four() {
    let mut script = Script::before_handshake(&RecoveryConfig::default());
    let syn = script.syn();
    script.recovery.on_sent(syn, false, script.now);
    for expected in [1000, 3000, 7000] {
        assert_eq!(script.expire(), Expired::Timeout);
        assert_eq!(script.millis(), expected);
        assert_eq!(script.recovery.next_retransmission(1000), Some(syn));
        script.recovery.on_sent(syn, true, script.now);
    }
}

#[test]
fn after_a_lost_syn_data_begin_with_three_seconds_and_the_whole_initial_window() {
    let mut script = Script::before_handshake(&RecoveryConfig::default());
    script.recovery.on_sent(script.syn(), false, script.now);
    script.expire();
    script.recovery.on_sent(script.syn(), true, script.now);
    script.at(1100);
    script.ack(0);
    assert_eq!((script.recovery.info().srtt, script.cwnd()), (None, 10));
    script.write(1);
    assert_eq!(script.recovery.deadline(), at(4100));
}

#[test]
fn after_two_lost_syns_the_window_is_one_segment() {
    let mut script = Script::before_handshake(&RecoveryConfig::default());
    script.recovery.on_sent(script.syn(), false, script.now);
    for _ in 0..2 {
        script.expire();
        script.recovery.on_sent(script.syn(), true, script.now);
    }
    script.at(3100);
    script.ack(0);
    assert_eq!(script.cwnd(), 1);
}

#[test]
fn the_acknowledgment_of_the_syn_does_not_open_the_window() {
    assert_eq!(Script::new().cwnd(), 10);
}

#[test]
fn the_timer_runs_from_the_first_segment_and_starts_anew_with_each_acknowledgment() {
    let mut script = Script::without_sack();
    // SRTT 100 ms, RTTVAR 50 ms: the timeout is 300 ms.
    script.write(3);
    assert_eq!(script.recovery.deadline(), at(400));
    script.at(200);
    script.ack(1);
    // RTTVAR is 37.5 ms now, less than the 200 ms that the timeout is longer than the round trip.
    assert_eq!(script.recovery.deadline(), at(500));
    script.ack(3);
    assert_eq!(script.recovery.deadline(), None);
}

#[test]
fn no_segment_is_sent_again_less_than_a_timeout_after_it_was() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    script.sack(0, &[(1, 4)]);
    assert_eq!(script.pump(), "R0");
    assert_eq!(script.recovery.deadline(), at(500));
}

#[test]
fn a_timeout_leaves_one_segment_and_doubles() {
    let mut script = Script::without_sack();
    script.write(10);
    assert_eq!(script.expire(), Expired::Timeout);
    let info = script.recovery.info();
    assert_eq!((info.state, info.cwnd, info.ssthresh), (RecoveryState::Loss, MSS, 5 * MSS));
    assert_eq!(script.pump(), "R0");
    assert_eq!(script.recovery.deadline(), at(1000));
    assert_eq!(script.expire(), Expired::Timeout);
    assert_eq!(script.recovery.info().ssthresh, 5 * MSS, "the same segment: not halved again");
    assert_eq!(script.pump(), "R0");
    assert_eq!(script.recovery.deadline(), at(2200));
    assert_eq!(script.recovery.info().timeouts_in_a_row, 2);
}

#[test]
fn after_a_timeout_all_is_sent_again_in_slow_start() {
    let mut script = Script::without_sack();
    script.write(10);
    script.expire();
    assert_eq!(script.pump(), "R0");
    script.at(500);
    script.ack(1);
    assert_eq!(script.pump(), "R1 R2");
    script.at(600);
    script.ack(3);
    assert_eq!(script.pump(), "R3 R4 R5 R6");
    script.at(700);
    script.ack(7);
    // ssthresh is five: from here the window grows by one segment in a round trip.
    assert_eq!(script.pump(), "R7 R8 R9");
    script.at(800);
    script.ack(10);
    let info = script.recovery.info();
    assert_eq!((info.state, info.cwnd / MSS, info.timeouts_in_a_row), (RecoveryState::Open, 5, 0));
}

#[test]
fn an_acknowledgment_of_a_segment_sent_twice_tells_no_round_trip_time() {
    let mut script = Script::without_sack();
    script.write(1);
    script.expire();
    script.pump();
    script.at(401);
    script.ack(1);
    assert_eq!(script.recovery.info().srtt, Some(ms(100)));
    // Until there is a sample, the timeout stays doubled (Karn's algorithm).
    assert_eq!(script.recovery.info().rto, ms(600));
    script.write(1);
    script.at(501);
    script.ack(2);
    assert_eq!(script.recovery.info().rto, ms(300));
}

#[test]
fn with_timestamps_a_segment_sent_twice_tells_the_round_trip_time() {
    let mut script = Script::without_sack();
    script.write(1);
    script.expire();
    script.pump();
    script.at(520);
    script.sack_echoing(1, &[], 400);
    assert_eq!(script.recovery.info().srtt, Some(ms(100) + ms(20) / 8));
}

#[test]
fn a_timeout_spares_what_was_sent_less_than_a_round_trip_ago() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    script.sack(0, &[(1, 4)]);
    assert_eq!(script.pump(), "R0");
    script.at(490);
    script.available += 10;
    script.sack(0, &[(1, 6)]);
    assert_eq!(script.pump(), "N10 N11");
    assert_eq!((script.expire(), script.millis()), (Expired::Timeout, 500));
    assert_eq!((script.in_flight(), script.cwnd(), script.pump().as_str()), (2, 3, "R0"));
}

#[test]
fn a_receiver_that_takes_its_selective_acknowledgments_back_gets_all_again() {
    let mut script = Script::new();
    script.write(10);
    script.at(200);
    script.sack(0, &[(1, 10)]);
    assert_eq!(script.pump(), "R0");
    script.at(300);
    // The retransmission arrived, and 1 to 9 were thrown away.
    script.ack(1);
    assert_eq!(script.in_flight(), 0);
    assert_eq!(script.expire(), Expired::Timeout);
    assert_eq!(script.pump(), "R1");
    script.after(ms(100));
    script.ack(2);
    assert_eq!(script.pump(), "R2 R3");
}

#[test]
fn a_deadline_that_comes_early_does_nothing() {
    let mut script = Script::new();
    script.write(10);
    let deadline = script.recovery.deadline();
    assert_eq!(script.recovery.on_deadline(script.now), Expired::Nothing);
    assert_eq!(script.recovery.deadline(), deadline);
}

/// RFC 5682, 3.1, step 1: "if the TCP sender is already in RTO recovery", F-RTO is not tried again: the old
/// data are sent, not new ones.
#[test]
fn a_second_timeout_in_the_middle_of_recovery_is_not_thought_spurious() {
    let mut script = Script::new();
    script.write(10);
    script.available = 100;
    // The probe, and after it nothing.
    script.expire();
    script.probe();
    assert_eq!(script.expire(), Expired::Timeout);
    assert_eq!(script.pump(), "R0");
    script.after(ms(100));
    // Step 2b: new data now, and then their acknowledgments tell.
    script.ack(1);
    assert!(script.pump().starts_with('N'));
    assert_eq!(script.expire(), Expired::Timeout);
    assert_eq!(script.pump(), "R1");
    script.after(ms(100));
    script.ack(2);
    assert!(script.pump().starts_with("R2 R3"));
}

/// Karn's algorithm (RFC 6298, 3): what was sent once, but after something that was sent again, has waited
/// for it at the peer. Its acknowledgment says nothing about the round trip.
#[test]
fn an_acknowledgment_that_covers_a_retransmission_is_no_sample() {
    let mut script = Script::without_sack();
    script.write(2);
    script.expire();
    assert_eq!(script.pump(), "R0");
    script.after(ms(100));
    assert_eq!(script.ack(2).newly_acked, 2 * MSS);
    assert_eq!(script.recovery.srtt(), Some(ms(100)));
}

/// A peer with a small window takes a part of each segment, and the rest is sent again. If only whole
/// segments told, no round trip would ever be measured, and the timeout would stay where it was backed off
/// to.
#[test]
fn an_acknowledgment_of_a_part_of_a_segment_tells_the_round_trip_time_if_it_was_sent_once() {
    let mut script = Script::without_sack();
    script.write(1);
    script.expire();
    script.pump();
    script.after(ms(50));
    script.ack_in_part(0, 500);
    assert_eq!(script.recovery.info().rto, ms(600), "it was sent twice");
    script.ack(1);
    script.write(1);
    script.after(ms(180));
    script.ack_in_part(1, 500);
    assert_eq!(script.recovery.srtt(), Some(ms(100) + ms(80) / 8));
    assert!(script.recovery.info().rto < ms(400));
}

/// Hears of round trips, and changes nothing.
#[derive(Debug)]
struct Listener(mpsc::Sender<Option<Duration>>);

impl CongestionControl for Listener {
    fn name(&self) -> &'static str {
        "listener"
    }

    fn on_arrival(&mut self, _window: &mut Window, arrival: &Arrival) {
        self.0.send(arrival.rtt).unwrap();
    }

    fn on_congestion(&mut self, _window: &mut Window, _flight: u32) {}

    fn on_undo(&mut self, _window: &Window) {}
}

/// Nor does congestion control, which would take the wait for a queue, hear of a round trip then.
#[test]
fn an_acknowledgment_that_covers_a_retransmission_tells_congestion_control_of_no_round_trip() {
    let mut script = Script::without_sack();
    let (tell, told) = mpsc::channel();
    script.recovery.parts.congestion.control = Box::new(Listener(tell));
    let told = || told.try_iter().collect::<Vec<_>>();
    script.write(10);
    script.after(ms(70));
    script.ack(10);
    assert_eq!(told(), [Some(ms(70))]);
    script.write(10);
    script.expire();
    assert_eq!(script.pump(), "R10");
    script.after(ms(100));
    script.ack(20);
    assert_eq!(told(), [None]);
}

#[test]
fn what_a_timeout_takes_for_lost_is_counted_once() {
    let mut script = Script::without_sack();
    script.write(10);
    assert_eq!(script.expire(), Expired::Timeout);
    assert_eq!(script.recovery.info().lost_bytes, 10 * u64::from(MSS));
}
