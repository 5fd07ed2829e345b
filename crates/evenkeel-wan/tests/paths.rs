//! The invariants of a path, for all settings and all frames.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod reference;

use std::collections::BTreeSet;

use evenkeel_timers::{Duration, Instant};
use evenkeel_wan::{Bursts, Limit, Loss, Path, Rate, Ratio, Rng, Settings, Size};
use proptest::collection::vec;
use proptest::prelude::*;
use reference::Reference;

/// A frame that knows when it entered, and its number.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sent {
    number: usize,
    at: Instant,
    len: usize,
}

impl evenkeel_wan::Frame for Sent {
    fn bytes(&self) -> usize {
        self.len
    }

    fn flip(&mut self, bit: u64) {
        assert!(bit < (self.len as u64 * 8).max(1));
    }
}

/// The frames that enter: for each the nanoseconds since the one before, and its bytes.
type Arrivals = Vec<(u64, usize)>;

fn arrivals() -> impl Strategy<Value = Arrivals> {
    let gap = prop_oneof![Just(0), 1..2_000_u64, 100_000..3_000_000_u64, Just(50_000_000)];
    vec((gap, prop_oneof![Just(0_usize), 1..100_usize, Just(1514), 1..9_000_usize]), 1..80)
}

fn frames(arrivals: &Arrivals) -> Vec<Sent> {
    let mut at = Instant::from_nanos(7_000_003);
    let sent = |(number, &(gap, len)): (usize, &(u64, usize))| {
        at = at.plus_nanos(gap);
        Sent { number, at, len }
    };
    arrivals.iter().enumerate().map(sent).collect()
}

/// Runs frames through a path that is looked at after each, and then until it is empty; gives what came out
/// and when it was due.
fn run(path: &mut Path<Sent>, frames: &[Sent]) -> Vec<(Instant, Sent)> {
    let mut out = Vec::new();
    for frame in frames {
        path.handle_frame(frame.at, frame.clone());
        assert!(path.counters().add_up(path.under_way()), "{:?}", path.counters());
        out.extend(std::iter::from_fn(|| path.poll_due(frame.at)));
        assert!(path.poll_timeout() > frame.at);
    }
    while path.poll_timeout() != Instant::NEVER {
        let next = path.poll_timeout();
        let due = path.poll_due(next).unwrap();
        assert_eq!(due.0, next, "what is due next is what comes next");
        assert!(path.poll_due(Instant::from_nanos(next.as_nanos() - 1)).is_none(), "never early");
        out.push(due);
    }
    assert!(path.counters().add_up(0), "{:?}", path.counters());
    out
}

const BEGIN: Instant = Instant::from_millis(3);

fn path(settings: &Settings, seed: u64) -> Path<Sent> {
    Path::new(settings.clone(), Rng::new(seed), BEGIN)
}

fn share() -> impl Strategy<Value = Ratio> {
    prop_oneof![Just(Ratio::ZERO), (0..=100_u32).prop_map(Ratio::percent)]
}

fn loss() -> impl Strategy<Value = Loss> {
    let bursts = (share(), share(), share(), share());
    let bursts = bursts
        .prop_map(|(enter, leave, in_bad, in_good)| Loss::Bursts(Bursts { enter, leave, in_bad, in_good }));
    prop_oneof![share().prop_map(Loss::Independent), bursts]
}

fn rate() -> impl Strategy<Value = Rate> {
    let trace = vec(0..3_u32, 1..20).prop_map(|gaps| {
        let mut at = 0;
        let mut lines: Vec<String> = Vec::new();
        for gap in gaps {
            at += gap;
            lines.push(at.to_string());
        }
        lines.push((at + 1).to_string());
        Rate::Trace(lines.join("\n").parse().unwrap())
    });
    let bits = prop_oneof![1_000_000..3_000_000_000_u64, Just(50_000_000), Just(1_000_000_007)];
    prop_oneof![Just(Rate::Unlimited), bits.prop_map(Rate::Bits), trace]
}

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![
        (0..20_usize).prop_map(Limit::Packets),
        (0..30_000_u64).prop_map(Limit::Bytes),
        (0..5_000_u64).prop_map(|micros| Limit::Time(Duration::from_micros(micros))),
    ]
}

fn size() -> impl Strategy<Value = Size> {
    prop_oneof![Just(Size::default()), Just(Size::ETHERNET), Just(Size::IP)]
}

fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(Duration::ZERO), (0..20_000_000_u64).prop_map(Duration::from_nanos)]
}

prop_compose! {
    /// Returns a wire and the way behind it, without faults or dice.
    fn wires()(rate in rate(), queue in limit(), size in size(), delay in time()) -> Settings {
        Settings { rate, size, queue, delay, ..Settings::PERFECT }
    }
}

prop_compose! {
    fn settings()(
        wire in wires(), jitter in time(), jitter_reorders: bool, loss in loss(),
        faults in [share(), share(), share()], reordering_delay in time()
    ) -> Settings {
        let [duplication, corruption, reordering] = faults;
        let faulty = Settings { loss, duplication, corruption, ..wire };
        Settings { jitter, jitter_reorders, reordering, reordering_delay, ..faulty }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// To the nanosecond what a plain reference says, which has a real queue and goes from event to event.
    #[test]
    fn frames_are_due_when_the_reference_says(settings in wires(), arrivals in arrivals()) {
        let frames = frames(&arrivals);
        let mut reference = Reference::new(&settings, BEGIN);
        let expected: Vec<(usize, Instant)> = reference.run(frames.iter().map(|frame| (frame.at, frame.len)));
        let mut path = path(&settings, 1);
        let out = run(&mut path, &frames);
        let got: Vec<(usize, Instant)> = out.into_iter().map(|(due, frame)| (frame.number, due)).collect();
        prop_assert_eq!(got, expected);
        prop_assert_eq!(path.counters().overflowed, reference.dropped);
    }

    /// Conservation is checked by `run`, after every frame.
    #[test]
    fn every_frame_is_somewhere_and_none_is_early(settings in settings(), arrivals in arrivals(), seed: u64) {
        let frames = frames(&arrivals);
        let mut path = path(&settings, seed);
        let out = run(&mut path, &frames);
        let counters = path.counters();
        prop_assert_eq!(out.len() as u64, counters.delivered);
        prop_assert_eq!(counters.offered, frames.len() as u64);
        for (due, frame) in &out {
            prop_assert!(*due >= frame.at + settings.delay, "{due:?} {frame:?}");
            prop_assert_eq!(frame, &frames[frame.number], "unchanged");
        }
        let most = if settings.duplication == Ratio::ZERO { 1 } else { 2 };
        for frame in &frames {
            let times = out.iter().filter(|(_, out)| out.number == frame.number).count();
            prop_assert!(times <= most, "{times} times {frame:?}");
        }
    }

    #[test]
    fn frames_stay_in_order_unless_they_are_to_be_reordered(
        settings in settings(), arrivals in arrivals(), seed: u64
    ) {
        let settings = Settings { reordering: Ratio::ZERO, jitter_reorders: false, ..settings };
        let out = run(&mut path(&settings, seed), &frames(&arrivals));
        prop_assert!(out.is_sorted_by_key(|(_, frame)| frame.number));
        prop_assert!(out.is_sorted_by_key(|(due, _)| *due));
    }

    /// In whatever time between two frames, no more bits leave than the rate has.
    #[test]
    fn the_rate_is_never_exceeded(
        bps in prop_oneof![1_000_000..3_000_000_000_u64, Just(1_000_000_007)], size in size(),
        arrivals in arrivals()
    ) {
        let settings = Settings {
            rate: Rate::Bits(bps), size, queue: Limit::Packets(usize::MAX), ..Settings::PERFECT
        };
        let out = run(&mut path(&settings, 1), &frames(&arrivals));
        for from in 0..out.len() {
            let mut bits = 0;
            for to in from + 1..out.len() {
                bits += u128::from(size.of(out[to].1.len)) * 8;
                // Times are whole nanoseconds.
                let nanos = u128::from(out[to].0.nanos_since(out[from].0)) + 1;
                prop_assert!(bits * 1_000_000_000 <= nanos * u128::from(bps), "{from} to {to}");
            }
        }
    }

    /// Over any stretch of a trace, no more bytes leave than its opportunities carry.
    #[test]
    fn a_trace_delivers_no_more_than_it_has_opportunities(gap in 1..20_u32, arrivals in arrivals()) {
        let trace = Rate::Trace(format!("{gap}").parse().unwrap());
        let settings = Settings { rate: trace, queue: Limit::Packets(usize::MAX), ..Settings::PERFECT };
        let out = run(&mut path(&settings, 1), &frames(&arrivals));
        for from in 0..out.len() {
            let bytes_of = |frame: &Sent| u64::from(Size::default().of(frame.len));
            let bytes: u64 = out[from..].iter().map(|(_, frame)| bytes_of(frame)).sum();
            // Of the first opportunity less than all may be theirs, and of what left there some came before.
            let last = out.last().unwrap().0;
            let opportunities = last.nanos_since(out[from].0) / (u64::from(gap) * 1_000_000) + 1;
            let before = bytes_of(&out[from].1);
            prop_assert!(bytes <= opportunities * 1_500 + before);
        }
    }

    #[test]
    fn the_same_seed_does_the_same(settings in settings(), arrivals in arrivals(), seed: u64) {
        let frames = frames(&arrivals);
        let [mut one, mut other] = [(); 2].map(|()| path(&settings, seed));
        prop_assert_eq!(run(&mut one, &frames), run(&mut other, &frames));
        prop_assert_eq!(one.counters(), other.counters());
    }

    /// A path that is polled seldom reports the due times of a path that is polled after every frame.
    #[test]
    fn when_a_frame_is_due_does_not_depend_on_who_asks(
        settings in settings(), arrivals in arrivals(), seed: u64
    ) {
        let frames = frames(&arrivals);
        let asked = run(&mut path(&settings, seed), &frames);
        let mut path = path(&settings, seed);
        frames.iter().for_each(|frame| path.handle_frame(frame.at, frame.clone()));
        let at_the_end: Vec<_> = std::iter::from_fn(|| path.poll_due(Instant::NEVER)).collect();
        prop_assert_eq!(asked, at_the_end);
    }
}

#[test]
fn another_seed_does_something_else() {
    let settings = Settings { loss: Loss::Independent(Ratio::percent(50)), ..Settings::PERFECT };
    let frames = frames(&vec![(1_000, 100); 64]);
    assert_ne!(run(&mut path(&settings, 1), &frames), run(&mut path(&settings, 2), &frames));
}

#[test]
fn faults_come_at_their_shares() {
    let settings = Settings {
        loss: Loss::Independent(Ratio::percent(10)),
        duplication: Ratio::percent(20),
        corruption: Ratio::percent(30),
        reordering: Ratio::percent(5),
        reordering_delay: Duration::from_millis(1),
        ..Settings::PERFECT
    };
    let mut path = path(&settings, 3);
    run(&mut path, &frames(&vec![(1_000, 100); 10_000]));
    let c = path.counters();
    assert!((900..1100).contains(&c.lost), "{c:?}");
    assert!((1650..1950).contains(&c.duplicated), "{c:?}");
    assert!((2550..2850).contains(&c.corrupted), "{c:?}");
    assert!((450..630).contains(&c.reordered), "{c:?}");
}

#[test]
fn jitter_is_uniform_up_to_its_bound_and_lets_overtake_only_if_it_may() {
    let jitter = Duration::from_millis(1);
    let frames = frames(&vec![(10_000, 100); 10_000]);
    for jitter_reorders in [false, true] {
        let settings = Settings { jitter, jitter_reorders, ..Settings::PERFECT };
        let out = run(&mut path(&settings, 4), &frames);
        assert_eq!(out.is_sorted_by_key(|(_, frame)| frame.number), !jitter_reorders);
        let late: Vec<u64> = out.iter().map(|(due, frame)| due.nanos_since(frame.at)).collect();
        assert!(late.iter().all(|late| *late <= 1_000_000));
        if jitter_reorders {
            let mean = late.iter().sum::<u64>() / late.len() as u64;
            assert!((480_000..520_000).contains(&mean), "{mean}");
        }
    }
}

#[test]
fn a_held_back_frame_is_overtaken_by_those_of_that_time() {
    let settings = Settings {
        delay: Duration::from_millis(20),
        reordering: Ratio::percent(10),
        reordering_delay: Duration::from_millis(5),
        ..Settings::PERFECT
    };
    let out = run(&mut path(&settings, 4), &frames(&vec![(1_000_000, 100); 1_000]));
    let delays: BTreeSet<Duration> = out.iter().map(|(due, frame)| due.since(frame.at)).collect();
    assert_eq!(delays.into_iter().collect::<Vec<_>>(), [20, 25].map(Duration::from_millis));
    assert!(!out.is_sorted_by_key(|(_, frame)| frame.number));
}

/// Each takes a millisecond. What begins to leave at the instant at which another one comes makes room for
/// it.
#[test]
fn as_much_waits_as_the_queue_has_room_for() {
    for queue in [Limit::Packets(3), Limit::Bytes(375), Limit::Time(Duration::from_millis(3))] {
        let settings = Settings { rate: Rate::Bits(1_000_000), queue, ..Settings::PERFECT };
        let mut path = Path::new(settings, Rng::new(0), Instant::ZERO);
        let mut dropped = |micros, frames| {
            let before = path.counters().overflowed;
            (0..frames).for_each(|_| path.handle_frame(Instant::from_micros(micros), vec![0; 125]));
            path.counters().overflowed - before
        };
        assert_eq!(dropped(0, 10), 6, "one leaves, three wait: {queue:?}");
        assert_eq!(dropped(999, 1), 1, "{queue:?}");
        assert_eq!(dropped(1_000, 2), 1, "{queue:?}");
    }
}

/// At 50 Mbit/s a packet of 1500 bytes takes 240 µs if its Ethernet header does not count.
#[test]
fn what_counts_of_a_frame_can_be_chosen() {
    let due = |size, len| {
        let settings = Settings { rate: Rate::Bits(50_000_000), size, ..Settings::PERFECT };
        let mut path = Path::new(settings, Rng::new(0), Instant::ZERO);
        path.handle_frame(Instant::ZERO, vec![0; len]);
        path.poll_timeout().as_nanos()
    };
    assert_eq!(due(Size::IP, 1_514), 240_000);
    assert_eq!(due(Size::default(), 1_514), 242_240);
    assert_eq!(due(Size::ETHERNET, 1_514), 246_080);
    assert_eq!(due(Size::ETHERNET, 42), due(Size::ETHERNET, 60));
    assert_eq!(due(Size::IP, 0), 160, "never less than a byte");
}

#[test]
fn another_rate_holds_for_those_that_come_later() {
    let settings = |mbit: u64| Settings { rate: Rate::Bits(mbit * 1_000_000), ..Settings::PERFECT };
    let mut path = Path::new(settings(1), Rng::new(0), Instant::ZERO);
    path.handle_frame(Instant::ZERO, vec![1; 125]);
    path.set_settings(settings(10));
    path.handle_frame(Instant::ZERO, vec![2; 125]);
    let due: Vec<_> = std::iter::from_fn(|| path.poll_due(Instant::NEVER)).collect();
    assert_eq!(due.iter().map(|(due, _)| due.as_nanos()).collect::<Vec<_>>(), [1_000_000, 1_100_000]);
}
