//! Tests of how fast losses are repaired, and of events that must not be taken for losses.

use std::collections::BTreeSet;

use super::link::{Ends, Fortune, Packet, Path, World};
use super::properties::dice;
use crate::congestion::Algorithm;
use crate::recovery::RecoveryConfig;
use crate::time::{Duration, Instant};

const RTT: Duration = Duration::from_millis(100);
/// Slow start from ten segments has sent 150 by the fourth round trip, and these 160 are the fifth.
const WINDOW: u64 = 160;
const FIRST: u64 = 150;

fn path() -> Path {
    // Ten microseconds for a segment: a window does not leave in an instant.
    Path { rtt: RTT, segment_time: Duration::from_micros(10), queue: 10_000 }
}

const fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Runs a transfer in which the first transmissions of some segments are lost. Returns the world after it.
fn transfer(ends: Ends, segments: u64, lost: &BTreeSet<u64>) -> World<impl FnMut(Packet) -> Fortune> {
    let lost = lost.clone();
    let fortune = move |packet| match packet {
        Packet::Data { segment, again: false, .. } if lost.contains(&segment) => Fortune::Lost,
        _ => Fortune::Arrives,
    };
    let mut world = World::new(path(), ends, 1, segments, fortune);
    assert!(world.run(at(60_000)));
    world
}

/// Transfers 310 segments, of which `lost` are lost. Returns how many round trips the transfer takes.
fn round_trips(lost: &BTreeSet<u64>) -> f64 {
    let world = transfer(Ends::default(), FIRST + WINDOW, lost);
    let info = world.flows[0].recovery.info();
    assert_eq!((info.timeouts, info.probes, info.undone), (0, 0, 0), "{info:?}");
    assert_eq!(info.retransmitted_segments, lost.len() as u64, "each once, and no others");
    assert_eq!(info.lost_bytes, info.retransmitted_bytes);
    assert_eq!(info.fast_recoveries, u32::from(!lost.is_empty()));
    world.now.since(Instant::ZERO).as_secs_f64() / RTT.as_secs_f64()
}

#[test]
fn losses_in_a_window_are_repaired_within_one_round_trip_more() {
    let without = round_trips(&BTreeSet::new());
    let single = BTreeSet::from([FIRST + 80]);
    let scattered: BTreeSet<u64> = (0..8).map(|n| FIRST + 3 + 19 * n).collect();
    let burst: BTreeSet<u64> = (FIRST + 60..FIRST + 100).collect();
    let every_fourth: BTreeSet<u64> = (FIRST..FIRST + 150).step_by(4).collect();
    for lost in [single, scattered, burst, every_fourth] {
        let with = round_trips(&lost);
        assert!(with - without < 1.1, "{with} instead of {without} round trips for {} losses", lost.len());
    }
}

#[test]
fn when_most_of_a_window_is_lost_two_segments_leave_for_each_that_arrives() {
    // Nine of ten: RACK knows it at once, but PRR conserves. Sixteen arrive, and then twice as many with each
    // round trip.
    let lost: BTreeSet<u64> = (FIRST..FIRST + 144).collect();
    let (without, with) = (round_trips(&BTreeSet::new()), round_trips(&lost));
    assert!(with - without < 4.1, "{with} instead of {without}");
}

#[test]
fn a_lost_tail_is_found_by_a_probe_and_repaired_without_a_timeout() {
    for tail in [1, 2, 5, 40] {
        let lost: BTreeSet<u64> = (FIRST + WINDOW - tail..FIRST + WINDOW).collect();
        let world = transfer(Ends::default(), FIRST + WINDOW, &lost);
        let info = world.flows[0].recovery.info();
        assert_eq!((info.timeouts, info.probes), (0, 1), "{tail}: {info:?}");
        assert_eq!(info.retransmitted_segments, tail);
    }
}

#[test]
fn lost_retransmissions_are_sent_a_third_time_without_a_timeout() {
    // A fifth of a window is lost, and the first of their retransmissions is, too.
    let mut losses = 0;
    let fortune = move |packet| match packet {
        Packet::Data { segment, again: false, .. } if (FIRST + 20..FIRST + 50).contains(&segment) => {
            Fortune::Lost
        }
        Packet::Data { again: true, .. } => {
            losses += 1;
            if losses <= 10 { Fortune::Lost } else { Fortune::Arrives }
        }
        _ => Fortune::Arrives,
    };
    let mut world = World::new(path(), Ends::default(), 1, 2000, fortune);
    assert!(world.run(at(60_000)));
    let info = world.flows[0].recovery.info();
    assert_eq!((info.timeouts, info.retransmitted_segments, info.fast_recoveries), (0, 40, 1), "{info:?}");
}

#[test]
fn without_sack_scattered_losses_take_a_round_trip_each_but_no_timeout() {
    let lost: BTreeSet<u64> = (0..4).map(|n| FIRST + 3 + 19 * n).collect();
    let config =
        RecoveryConfig { algorithm: Algorithm::NewReno, hystart: false, ..RecoveryConfig::default() };
    let ends = |sack| Ends { config: config.clone(), sack, ..Ends::default() };
    let world = transfer(ends(false), FIRST + WINDOW, &lost);
    let info = world.flows[0].recovery.info();
    assert_eq!((info.timeouts, info.retransmitted_segments, info.fast_recoveries), (0, 4, 1), "{info:?}");
    let rounds = world.now.since(transfer(ends(true), FIRST + WINDOW, &lost).now);
    assert!(rounds >= RTT * 5 / 2 && rounds <= RTT * 7 / 2, "{rounds:?} more than with SACK");
}

#[test]
fn a_little_reordering_costs_nothing() {
    // Every seventh segment is late by a fifth of a round trip.
    let fortune = |packet| match packet {
        Packet::Data { number, .. } if number % 7 == 3 => Fortune::Late(RTT / 5),
        _ => Fortune::Arrives,
    };
    let mut world = World::new(path(), Ends::default(), 1, 5000, fortune);
    assert!(world.run(at(60_000)));
    let info = world.flows[0].recovery.info();
    assert!(info.reordering_seen);
    // Before it was seen, three early segments looked like a loss.
    assert!(info.retransmitted_segments <= 3 && info.fast_recoveries <= 1, "{info:?}");
    assert_eq!(info.fast_recoveries, info.undone, "that was taken back");
}

#[test]
fn more_reordering_is_learnt_from_what_arrives_twice() {
    // Late by more than a quarter of a round trip: spurious at first, until the window for reordering has
    // grown.
    let fortune = |packet| match packet {
        Packet::Data { number, .. } if number % 50 == 3 => Fortune::Late(RTT * 2 / 5),
        _ => Fortune::Arrives,
    };
    let run = |segments| {
        let mut world = World::new(path(), Ends::default(), 1, segments, fortune);
        assert!(world.run(at(600_000)));
        world.flows[0].recovery.info()
    };
    let (few, many) = (run(5000), run(25_000));
    assert!(few.retransmitted_segments > 0);
    assert!(many.retransmitted_segments - few.retransmitted_segments < 20_000 / 50 / 4, "{few:?} {many:?}");
}

#[test]
fn a_pause_of_the_path_is_no_loss() {
    // A whole window is late by 700 ms, and so are the probe and what the timeout sends again.
    for timestamps in [false, true] {
        let fortune = |packet| match packet {
            Packet::Data { number, .. } if (311..=632).contains(&number) => {
                Fortune::Late(Duration::from_millis(700))
            }
            _ => Fortune::Arrives,
        };
        let mut world = World::new(path(), Ends { timestamps, ..Ends::default() }, 1, 2000, fortune);
        assert!(world.run(at(60_000)));
        let info = world.flows[0].recovery.info();
        // What left after the pause overtakes the probe, which may look like a loss for a moment.
        assert_eq!((info.timeouts, info.undone), (1, 1 + info.fast_recoveries), "{info:?}");
        assert!(info.retransmitted_segments <= 2, "{info:?}");
        assert_eq!(info.ssthresh, crate::congestion::Window::UNKNOWN, "as if nothing had been");
    }
}

#[test]
fn the_same_dice_give_the_same_run() {
    let run = || {
        let mut world = World::new(path(), Ends::default(), 2, 2000, dice(7, 20, 20, 10));
        assert!(world.run(at(600_000)));
        (world.now, world.flows[0].recovery.info(), world.flows[1].recovery.info())
    };
    assert_eq!(run(), run());
}
