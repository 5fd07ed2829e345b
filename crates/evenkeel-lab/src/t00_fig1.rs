//! The bounds of the time of an event: Aron and Druschel, TOCS 2000, figure 1 and section 3.

use evenkeel_sim::rng::Rng;
use evenkeel_timers::SoftTimers;

use crate::check::{Check, Origin::*, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::statistics::median;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "t00-fig1",
    title: "When an event happens: never early, and no later than the backing",
    source: "Aron and Druschel, Soft timers, TOCS 2000, figure 1 (a diagram: its example and its bounds)",
    measure,
};

/// The parts of a tick in which the simulation advances.
const FINE: u64 = 64;
const EVENTS: usize = 4_000;

/// Returns the ticks from the scheduling of events to their calls, for events of `ticks` at random times. The
/// backing comes every `interval` ticks, and trigger states, if there are any, come `gap` apart on average.
fn actual(ticks: u64, interval: u64, gap: Option<u64>, rng: &mut Rng) -> Vec<f64> {
    let mut events = SoftTimers::new(interval * 1_000, 1_000);
    let mut now = 0;
    let mut actual = Vec::new();
    while actual.len() < EVENTS {
        now += rng.below(interval * FINE);
        events.schedule_soft_event(now / FINE, ticks, ());
        let scheduled = now;
        let mut next_interrupt = now + 1 + rng.below(interval * FINE);
        let mut next_trigger = gap.map(|gap| now + 1 + rng.below(2 * gap * FINE));
        while events.poll_event(now / FINE).is_none() {
            if now == next_interrupt {
                next_interrupt += interval * FINE;
            }
            if let (Some(gap), true) = (gap, next_trigger == Some(now)) {
                next_trigger = Some(now + 1 + rng.below(2 * gap * FINE));
            }
            now = next_trigger.map_or(next_interrupt, |trigger| trigger.min(next_interrupt));
        }
        actual.push((now - scheduled) as f64 / FINE as f64);
    }
    actual
}

fn measure(seed: u64) -> Outcome {
    let mut rng = Rng::new(seed);
    let example = actual(1, 2, None, &mut rng);
    let interrupts = actual(0, 1_000, None, &mut rng);
    let states = actual(0, 1_000, Some(18), &mut rng);
    let mut points = Vec::new();
    for (series, delays) in [("interrupts alone", &interrupts), ("trigger states", &states)] {
        let share = |at: f64| delays.iter().filter(|delay| **delay <= at).count() as f64 / EVENTS as f64;
        points.extend((0..=20).map(|nth| f64::from(nth) * 50.0).map(|at| Point::new(series, at, share(at))));
    }
    points.extend(Point::derived("interrupts alone", &[(0.0, 0.0), (1_001.0, 1.0)]));
    let checks = checks(&example, &interrupts, &states);
    Outcome::new("delay beyond T (µs)", "share of the events that are no later", points, checks)
}

fn ends(of: &[f64]) -> [f64; 2] {
    [of.iter().copied().fold(f64::INFINITY, f64::min), of.iter().copied().fold(0.0, f64::max)]
}

/// Returns the greatest difference between a tenth of the range's share of the delays and a tenth.
fn unevenness(delays: &[f64], end: f64) -> f64 {
    let share = |nth: f64| {
        let within =
            delays.iter().filter(|delay| (nth * end / 10.0..(nth + 1.0) * end / 10.0).contains(*delay));
        within.count() as f64 / delays.len() as f64
    };
    (0..10).map(|nth| (share(f64::from(nth)) - 0.1).abs()).fold(0.0, f64::max)
}

fn checks(example: &[f64], interrupts: &[f64], states: &[f64]) -> Vec<Check> {
    let tick = 1.0 / FINE as f64;
    let late = interrupts.iter().chain(states).copied().collect::<Vec<_>>();
    vec![
        predicted(
            Paper,
            "T = 1, X = 2: the least and the most that passes (ticks): more than 1, less than 4",
        )
        .within([1.0 + tick / 2.0, 4.0 - tick / 2.0], &ends(example)),
        predicted(Derived, "T = 1, X = 2: of what may pass, the part that does")
            .within([0.95, 1.0], &[(ends(example)[1] - ends(example)[0]) / 3.0]),
        predicted(Paper, "clock of 1 MHz, interrupts at 1 kHz: the longest delay (µs): less than 1001")
            .within([0.0, 1_001.0], &ends(&late)),
        predicted(Paper, "interrupts alone: each tenth of the range, off a tenth of the events: uniform")
            .within([0.0, 0.02], &[unevenness(interrupts, 1_001.0)]),
        predicted(Words, "trigger states every 18 µs: median delay of that by interrupts: much closer to T")
            .within([0.0, 0.1], &[median(states.iter().copied()) / median(interrupts.iter().copied())]),
    ]
}
