//! A limit for those without a cycle counter (TOCS 1997, section 5.1): look at each clock tick what the core
//! is at.

use super::limit::Limit;
use crate::time::{Duration, Instant};

/// Inhibits input when several clock ticks in a row find the core taking packets in. Cruder than
/// [`super::CycleLimit`]: it does not see what fits between two ticks, and what runs in step with the clock
/// it sees always or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickSampling {
    /// Time from one tick to the next.
    pub tick: Duration,
    /// Ticks in a row that must find it so, at least one.
    pub samples: u32,
    /// Ticks for which input is inhibited then, unless the core becomes idle.
    pub pause_ticks: u32,
}

/// The samples taken so far. The clock ticks only while there is work.
#[derive(Debug)]
pub(super) struct Sampler {
    sampling: TickSampling,
    next_tick: Instant,
    /// Whether the last charged time went to taking packets in. A clock tick takes this as the activity of
    /// the core.
    takes_in: bool,
    /// Samples in a row that found it so.
    found: u32,
    /// Ticks that input is still inhibited.
    paused: u32,
}

impl Sampler {
    pub(super) const fn new(sampling: TickSampling) -> Self {
        Self { sampling, next_tick: Instant::NEVER, takes_in: false, found: 0, paused: 0 }
    }

    fn sample(&mut self) {
        self.found = if self.takes_in { self.found + 1 } else { 0 };
        if self.found >= self.sampling.samples {
            self.found = 0;
            self.paused = self.sampling.pause_ticks;
        }
    }
}

impl Limit for Sampler {
    fn is_reached(&self) -> bool {
        self.paused > 0
    }

    fn charge(&mut self, elapsed: Duration, takes_in: bool) {
        if !elapsed.is_zero() {
            self.takes_in = takes_in;
        }
    }

    fn roll(&mut self, now: Instant) -> bool {
        let due = now >= self.next_tick;
        if due || self.next_tick == Instant::NEVER {
            // Of ticks that were held up together one counts: they all see the same.
            self.next_tick = now + self.sampling.tick;
        }
        if due && self.paused > 0 {
            self.paused -= 1;
            return self.paused == 0;
        }
        if due {
            self.sample();
        }
        false
    }

    fn idle(&mut self) -> bool {
        let was_reached = self.is_reached();
        *self = Self::new(self.sampling);
        was_reached
    }

    fn next_deadline(&self) -> Instant {
        self.next_tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(1);
    const US: Duration = Duration::from_micros(1);

    fn sampler() -> Sampler {
        let mut sampler = Sampler::new(TickSampling { tick: TICK, samples: 3, pause_ticks: 2 });
        sampler.roll(Instant::ZERO);
        sampler
    }

    #[test]
    fn some_ticks_in_a_row_that_find_it_at_packets_inhibit_input_for_some_ticks() {
        let mut sampler = sampler();
        for tick in [1, 2, 3] {
            sampler.charge(TICK, true);
            assert!(!sampler.is_reached());
            assert_eq!(sampler.next_deadline(), Instant::from_millis(tick));
            sampler.roll(Instant::from_millis(tick));
        }
        assert!(sampler.is_reached());
        assert!(!sampler.roll(Instant::from_micros(3_999)));
        assert!(!sampler.roll(Instant::from_millis(4)) && sampler.is_reached());
        assert!(sampler.roll(Instant::from_millis(5)) && !sampler.is_reached());
    }

    #[test]
    fn a_tick_that_finds_something_else_begins_the_series_anew() {
        let mut sampler = sampler();
        for tick in 1..20 {
            // All of the tick but its end, now and then.
            sampler.charge(TICK, true);
            if tick % 3 == 0 {
                sampler.charge(US, false);
            }
            sampler.roll(Instant::from_millis(tick));
            assert!(!sampler.is_reached());
        }
    }

    #[test]
    fn an_idle_core_has_no_ticks_and_inhibits_nothing() {
        let mut sampler = sampler();
        for tick in 1..=3 {
            sampler.charge(TICK, true);
            sampler.roll(Instant::from_millis(tick));
        }
        assert!(sampler.idle() && !sampler.is_reached());
        assert_eq!(sampler.next_deadline(), Instant::NEVER);
        sampler.roll(Instant::from_millis(10));
        assert_eq!(sampler.next_deadline(), Instant::from_millis(11));
    }
}
