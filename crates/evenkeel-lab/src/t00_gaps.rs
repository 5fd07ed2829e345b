//! Intervals between trigger states, measured as in the paper by an event of the highest frequency, with the
//! statistics of its tables and figures.

use std::collections::BTreeMap;

use evenkeel::raw::time::{Duration, Instant};
use evenkeel_sim::trigger::{Devices, Handlers, Source};
use evenkeel_sim::workload::Log;
use evenkeel_timers::SoftTimers;

use crate::statistics::{deviation, mean, median, micros};

/// A measured trigger state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) at: Instant,
    pub(crate) source: Source,
}

/// A recorder of every trigger state: an event that schedules itself again after no ticks.
#[derive(Debug)]
pub(crate) struct Recorder {
    events: SoftTimers<()>,
    log: Log<State>,
}

impl Recorder {
    /// Creates a recorder with a clock of `hz`, and its log.
    pub(crate) fn new(hz: u64) -> (Self, Log<State>) {
        let log = Log::default();
        let mut events = SoftTimers::new(hz, 1_000);
        events.schedule_soft_event(0, 0, ());
        (Self { events, log: log.clone() }, log)
    }
}

impl Handlers for Recorder {
    fn trigger(&mut self, now: Instant, at: Source, _: &mut Devices) -> Duration {
        let measure_time = self.events.measure_time(now);
        while self.events.poll_event(measure_time).is_some() {
            self.log.push(State { at: now, source: at });
            self.events.schedule_soft_event(measure_time, 0, ());
        }
        Duration::ZERO
    }

    fn next_due(&self) -> Option<Instant> {
        self.events.next_due().map(|due| self.events.instant(due))
    }
}

/// Intervals in microseconds, in order of size.
#[derive(Debug, Clone)]
pub(crate) struct Gaps(Vec<f64>);

impl Gaps {
    pub(crate) fn of(states: impl IntoIterator<Item = State>) -> Self {
        let mut at = states.into_iter().map(|state| state.at);
        let mut before = at.next().unwrap_or(Instant::ZERO);
        let mut gaps: Vec<f64> = at.map(|at| micros(at.since(std::mem::replace(&mut before, at)))).collect();
        gaps.sort_by(f64::total_cmp);
        Self(gaps)
    }

    pub(crate) fn mean(&self) -> f64 {
        mean(&self.0)
    }

    pub(crate) fn median(&self) -> f64 {
        median(self.0.iter().copied())
    }

    pub(crate) fn max(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn deviation(&self) -> f64 {
        deviation(&self.0)
    }

    /// Returns the percentage of intervals that are longer than `micros`.
    pub(crate) fn percent_over(&self, micros: f64) -> f64 {
        100.0 * (self.0.len() - self.0.partition_point(|gap| *gap <= micros)) as f64 / self.0.len() as f64
    }

    /// Returns the length that this percentage of the intervals does not exceed.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        let nth = (percent / 100.0 * self.0.len() as f64) as usize;
        self.0.get(nth.min(self.0.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
    }
}

/// Returns the medians of the intervals that end in each window of this length.
pub(crate) fn medians(states: &[State], window: Duration) -> Vec<(f64, f64)> {
    let mut windows: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for pair in states.windows(2) {
        let nth = pair[1].at.as_nanos() / window.as_nanos() as u64;
        windows.entry(nth).or_default().push(micros(pair[1].at.since(pair[0].at)));
    }
    let first = states.first().map_or(0, |state| state.at.as_nanos());
    let at = |nth: u64| (nth * window.as_nanos() as u64).saturating_sub(first) as f64 / 1e9;
    windows.into_iter().map(|(nth, gaps)| (at(nth), median(gaps.into_iter()))).collect()
}
