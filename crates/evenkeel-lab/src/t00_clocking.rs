//! Rate-based clocking as described in the soft-timers paper (section 4.1), for one connection.

use evenkeel::raw::tcp::rate_clock::{RateClock, Spacing};
use evenkeel::raw::time::{Duration, Instant};
use evenkeel_timers::SoftTimers;

use crate::statistics::micros;
use crate::t00_gaps::State;

/// All lateness is made up for, as in the paper: no event is later than this.
const CREDIT: Duration = Duration::from_secs(1);

/// Returns the spacing with this target and minimum, in microseconds.
pub(crate) const fn spacing([target, minimum]: [u64; 2]) -> Spacing {
    let [target, minimum] = [Duration::from_micros(target), Duration::from_micros(minimum)];
    Spacing { target, minimum, credit: CREDIT }
}

/// Returns the intervals between the packets of a train that is clocked at these trigger states, in
/// microseconds, by TCP's clock, with one event at a time. Its handler takes no time: the paper, too, assumes
/// packets to send.
pub(crate) fn adaptive(states: &[State], hz: u64, spacing: Spacing) -> Vec<f64> {
    let mut events = SoftTimers::new(hz, 1_000);
    let mut clock = RateClock::new();
    events.schedule_soft_event(0, 0, ());
    let mut sent = Vec::new();
    for state in states {
        let now = events.measure_time(state.at);
        if events.poll_event(now).is_some() {
            clock.on_sent(spacing, state.at);
            clock.wait();
            let next = clock.release_time(state.at).unwrap_or(state.at);
            events.schedule_soft_event(now, events.measure_time(next).saturating_sub(now), ());
            sent.push(state.at);
        }
    }
    intervals(&sent)
}

/// Returns the intervals of a train with an event for each packet, all scheduled when the train starts. The
/// paper argues against this.
pub(crate) fn fixed(states: &[State], hz: u64, target: u64) -> Vec<f64> {
    let mut events = SoftTimers::new(hz, 1_000);
    let (Some(first), Some(last)) = (states.first(), states.last()) else { return Vec::new() };
    let start = events.measure_time(first.at);
    let packets = (last.at.since(first.at).as_micros() / u128::from(target)) as u64;
    for nth in 0..packets {
        let after = ticks(&events, Duration::from_micros(nth * target));
        events.schedule_soft_event(start, after, ());
    }
    let mut sent = Vec::new();
    for state in states {
        while events.poll_event(events.measure_time(state.at)).is_some() {
            sent.push(state.at);
        }
    }
    intervals(&sent)
}

pub(crate) fn intervals(sent: &[Instant]) -> Vec<f64> {
    sent.windows(2).map(|pair| micros(pair[1].since(pair[0]))).collect()
}

/// Returns the ticks of the events' clock in a time, rounded down.
pub(crate) fn ticks(events: &SoftTimers<()>, time: Duration) -> u64 {
    (time.as_nanos() * u128::from(events.measure_resolution()) / 1_000_000_000) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::mean;
    use evenkeel_sim::trigger::Source;

    fn every(gaps: impl Iterator<Item = u64>) -> Vec<State> {
        let mut at = 1_000;
        let mut next = |gap: u64| {
            at += gap;
            State { at: Instant::from_micros(at), source: Source::SystemCall }
        };
        gaps.map(&mut next).collect()
    }

    #[test]
    fn with_a_trigger_state_at_every_tick_packets_leave_at_the_target() {
        let sent = adaptive(&every((0..100_000).map(|_| 1)), 1_000_000, spacing([40, 12]));
        // The interval is T + 1 ticks, and one at the minimum whenever the lateness is large enough, so the
        // average holds.
        assert!((mean(&sent) - 40.0).abs() < 0.1, "{}", mean(&sent));
        assert!(sent.iter().all(|interval| *interval >= 13.0));
    }

    #[test]
    fn after_a_gap_packets_come_at_the_minimum_where_a_chain_of_events_has_a_burst() {
        let states = every((0..5_000).map(|nth| if nth % 1_000 == 999 { 900 } else { 1 }));
        let adaptive = adaptive(&states, 1_000_000, spacing([40, 12]));
        assert!(adaptive.iter().all(|interval| *interval > 12.0));
        let chain = fixed(&states, 1_000_000, 40);
        assert!(chain.iter().filter(|interval| **interval < 1.0).count() > 50);
    }
}
