//! How many requests a second are wanted, and when.

use evenkeel_core::time::Duration;

/// A rate that changes by steps, over a limited time.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    steps: Vec<Step>,
}

/// A time in which the rate stays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// How long.
    pub length: Duration,
    /// Requests a second.
    pub rate: f64,
}

impl Curve {
    /// One rate for all of the time.
    #[must_use]
    pub fn flat(rate: f64, length: Duration) -> Self {
        Self::of(vec![Step { length, rate }])
    }

    /// One step after the other. A rate below zero, or none, counts as zero.
    #[must_use]
    pub fn of(mut steps: Vec<Step>) -> Self {
        for step in &mut steps {
            step.rate = if step.rate.is_finite() { step.rate.max(0.0) } else { 0.0 };
        }
        Self { steps }
    }

    /// The same, after so much time at its first rate.
    #[must_use]
    pub fn after(mut self, length: Duration) -> Self {
        let rate = self.steps.first().map_or(0.0, |step| step.rate);
        self.steps.insert(0, Step { length, rate });
        self
    }

    /// The steps.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// How long it is in all.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.steps.iter().fold(Duration::ZERO, |sum, step| sum.saturating_add(step.length))
    }

    /// Requests wanted in all.
    #[must_use]
    pub fn requests(&self) -> f64 {
        self.steps.iter().map(|step| step.rate * step.length.as_secs_f64()).sum()
    }

    /// Requests wanted between two moments.
    #[must_use]
    pub fn requests_between(&self, from: Duration, until: Duration) -> f64 {
        let mut begin = Duration::ZERO;
        let parts = self.steps.iter().map(|step| {
            let end = begin.saturating_add(step.length);
            let part = until.min(end).saturating_sub(from.max(begin));
            begin = end;
            step.rate * part.as_secs_f64()
        });
        parts.sum()
    }
}
