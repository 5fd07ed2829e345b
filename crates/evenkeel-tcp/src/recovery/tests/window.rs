//! What lets the window grow, and what an idle connection keeps.

use super::script::{Script, ms};
use crate::SeqNumber;
use std::sync::Arc;

use crate::congestion::Algorithm;
use crate::recovery::{Recovery, RecoveryConfig};
use crate::time::{Duration, Instant};

#[test]
fn the_initial_window_of_large_segments_has_fewer() {
    let window = |mss| Recovery::new(&Arc::default(), SeqNumber::new(1), mss).info().cwnd;
    assert_eq!([536, 1460, 8960].map(window), [5360, 14_600, 17_920]);
}

#[test]
fn the_initial_window_follows_the_segment_size_that_was_agreed_on() {
    let mut recovery = Recovery::new(&Arc::default(), SeqNumber::new(1), 536);
    recovery.set_mss(1448);
    assert_eq!(recovery.info().cwnd, 14_480);
}

#[test]
fn a_window_that_is_not_filled_does_not_grow() {
    let mut script = Script::new();
    for _ in 0..20 {
        let next = script.next();
        script.write(3);
        script.after(ms(100));
        script.ack(next + 3);
    }
    assert_eq!(script.cwnd(), 10);
    script.write(8);
    script.after(ms(100));
    (61..=68).for_each(|upto| {
        script.ack(upto);
    });
    assert_eq!(
        script.cwnd(),
        16,
        "in slow start more than half of it is use enough: until it is twice as large as what was on its way"
    );
}

#[test]
fn in_slow_start_a_full_window_doubles() {
    let mut script = Script::new();
    let mut upto = 0;
    for window in [10, 20, 40, 80] {
        assert_eq!(script.write(window).split(' ').count(), window as usize);
        script.after(ms(100));
        (0..window).for_each(|_| {
            upto += 1;
            script.ack(upto);
        });
    }
    assert_eq!(script.cwnd(), 160);
}

#[test]
fn after_a_pause_longer_than_the_timeout_the_window_is_the_initial_one() {
    let mut script = Script::new();
    script.grow_to(40);
    script.after(Duration::from_millis(200));
    script.write(1);
    assert!(script.cwnd() >= 40);
    script.ack(script.next());
    script.after(Duration::from_secs(2));
    script.write(1);
    assert_eq!(script.cwnd(), 10);
}

#[test]
fn pauses_between_windows_do_not_make_the_window_grow_faster() {
    let run = |pause: u64, heard: bool| {
        let mut script = in_congestion_avoidance();
        for _ in 0..60 {
            script.write(script.cwnd());
            script.after(ms(100));
            script.ack(script.next());
            script.after(ms(pause / 2));
            if heard {
                // The peer sends us something meanwhile.
                script.ack(script.next());
            }
            script.after(ms(pause / 2));
        }
        assert_eq!(script.recovery.info().timeouts, 0);
        script.recovery.info().cwnd
    };
    assert_eq!(run(0, false), run(190, false), "CUBIC's clock stands still while there is nothing to send");
    assert_eq!(run(0, false), run(190, true), "whatever is received");
}

/// RFC 9438, 4.2: "the elapsed time t MUST NOT include periods during which cwnd has not been updated due to
/// application-limited behavior".
#[test]
fn time_in_which_the_user_was_the_limit_does_not_make_the_window_grow_faster() {
    let run = |full: u32, small: u32| {
        let mut script = in_congestion_avoidance();
        for round in 0..full {
            script.write(script.cwnd());
            script.after(ms(100));
            script.ack(script.next());
            for _ in 0..if round == 20 { small } else { 0 } {
                script.write(1);
                script.after(ms(100));
                script.ack(script.next());
            }
        }
        script.recovery.info().cwnd
    };
    // The use of a window is known a round trip later.
    assert!(run(60, 600) <= run(63, 0), "{} {}", run(60, 600), run(63, 0));
}

/// The window was reduced once; ten segments were acknowledged.
fn in_congestion_avoidance() -> Script {
    let mut script = Script::new();
    script.write(10);
    script.after(ms(100));
    script.ack_with_ece(1);
    script.ack(10);
    script
}

#[test]
fn smaller_segments_send_again_what_is_too_large_without_a_reduction() {
    let mut script = Script::new();
    script.write(3);
    script.recovery.set_mss(400);
    assert_eq!((script.in_flight(), script.recovery.info().cwnd), (0, 10 * 400));
    let mut sizes = Vec::new();
    while let Some(range) = script.recovery.next_retransmission(400) {
        sizes.push(range.len());
        script.recovery.on_sent(range, true, script.now);
    }
    assert_eq!(sizes, [400, 400, 200].repeat(3));
    assert_eq!((script.in_flight(), script.recovery.info().state), (3, crate::recovery::RecoveryState::Open));
    script.at(200);
    script.ack(3);
    assert!(script.recovery.is_empty());
}

#[test]
fn with_pacing_a_window_leaves_over_the_round_trip() {
    let config = RecoveryConfig { pacing: true, hystart: false, ..RecoveryConfig::default() };
    let mut script = Script::with(&config, true);
    script.available = 10;
    let mut left = Vec::new();
    while script.next() < 10 {
        if let Some(at) = script.recovery.release_time(script.now) {
            script.now = at;
        }
        script.send_new();
        left.push(script.now);
    }
    // In slow start twice the rate: ten segments in 50 ms, with a millisecond of credit.
    assert_eq!(left[9], Instant::from_millis(144));
    assert!(left.windows(2).skip(1).all(|pair| pair[1] - pair[0] == ms(5)), "{left:?}");
}

#[test]
fn an_idle_connection_keeps_little_memory() {
    let bytes = size_of::<Recovery>();
    assert!(bytes <= 512, "{bytes}");
    let control: usize = [Algorithm::Cubic, Algorithm::NewReno]
        .map(|algorithm| size_of_val(&*algorithm.start(true, true)))
        .into_iter()
        .max()
        .unwrap();
    assert!(control <= 104, "{control}");
    let mut script = Script::new();
    script.grow_to(200);
    let info = allocation_counter::measure(|| {
        drop(core::mem::replace(
            &mut script.recovery,
            Recovery::new(&Arc::default(), SeqNumber::new(0), 1000),
        ))
    });
    // The new one has HyStart++ still; nothing else differs.
    assert!(info.bytes_current >= 0, "{info:?}");
}

#[test]
fn an_acknowledgment_allocates_nothing() {
    let mut script = Script::new();
    script.grow_to(50);
    script.write(40);
    script.after(ms(100));
    let upto = script.next();
    let info = allocation_counter::measure(|| {
        (1..40).for_each(|arrived| {
            script.recovery.on_ack(&crate::recovery::AckInfo {
                ack: script.segments(upto - 40 + arrived, upto).start,
                sack: &[],
                window_update: false,
                payload: false,
                rtt_echo: None,
                ece: false,
                unsent: false,
                now: script.now,
            });
        });
    });
    assert_eq!(info.count_total, 0);
}
