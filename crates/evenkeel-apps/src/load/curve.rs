//! The number of requests a second that are wanted over time.

use evenkeel::raw::time::Duration;

/// A rate that changes in steps, over a limited time.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    steps: Vec<Step>,
}

/// A period during which the rate is constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The length of the period.
    pub length: Duration,
    /// The rate in requests a second.
    pub rate: f64,
}

impl Curve {
    /// Creates a curve with one rate for all of `length`.
    #[must_use]
    pub fn flat(rate: f64, length: Duration) -> Self {
        Self::of(vec![Step { length, rate }])
    }

    /// Creates a curve of consecutive steps. A rate that is negative or not finite counts as zero.
    #[must_use]
    pub fn of(mut steps: Vec<Step>) -> Self {
        for step in &mut steps {
            step.rate = if step.rate.is_finite() { step.rate.max(0.0) } else { 0.0 };
        }
        Self { steps }
    }

    /// Returns this curve with a step of `length` before it, at its first rate.
    #[must_use]
    pub fn after(mut self, length: Duration) -> Self {
        let rate = self.steps.first().map_or(0.0, |step| step.rate);
        self.steps.insert(0, Step { length, rate });
        self
    }

    /// Returns the steps of the curve in order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the sum of the lengths of all steps.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.steps.iter().fold(Duration::ZERO, |sum, step| sum.saturating_add(step.length))
    }

    /// Returns the number of requests wanted in all.
    #[must_use]
    pub fn requests(&self) -> f64 {
        self.steps.iter().map(|step| step.rate * step.length.as_secs_f64()).sum()
    }

    /// Returns the number of requests wanted between two times after the start.
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
