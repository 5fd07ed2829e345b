//! The times at which requests are due. They are decided beforehand, whatever the server does (open loop).

use evenkeel::raw::time::Duration;

use super::curve::Curve;
use super::share::Share;
use crate::dice::Dice;

/// The spacing of requests at a given rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spacing {
    /// Requests are equally spaced.
    Constant,
    /// Requests are spaced at random, each independent of the others, like those of very many users (a
    /// Poisson process).
    #[default]
    Poisson,
}

impl core::str::FromStr for Spacing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "constant" => Ok(Self::Constant),
            "poisson" => Ok(Self::Poisson),
            _ => Err("expected constant or poisson".to_owned()),
        }
    }
}

/// The times at which requests are due, in order, counted from the start.
///
/// If time is measured in requests, they come at a rate of one, and the curve gives the speed of that time.
/// So a changing rate neither loses nor adds a request, and no error accumulates within a step.
#[derive(Debug)]
pub struct Arrivals {
    curve: Curve,
    dice: Option<Dice>,
    /// The step in which the next request is due, the start of that step in seconds, and the number of
    /// requests before that step.
    step: usize,
    begins: f64,
    counted: f64,
    /// The number of requests at which the next one is due; a fraction if the spacing is random.
    count: f64,
    /// Of so many requests one is taken here.
    of: usize,
    next: Option<Duration>,
}

impl Arrivals {
    /// Creates the arrivals along a curve. Equal seeds give equal times.
    #[must_use]
    pub fn new(curve: Curve, spacing: Spacing, seed: u64) -> Self {
        let mut dice = (spacing == Spacing::Poisson).then_some(Dice::new(seed));
        let count = dice.as_mut().map_or(0.0, Dice::exponential);
        let mut arrivals = Self { curve, dice, step: 0, begins: 0.0, counted: 0.0, count, of: 1, next: None };
        arrivals.next = arrivals.time();
        arrivals
    }

    /// Returns the arrivals of one thread of several. Those of all threads together are these.
    #[must_use]
    pub fn share(mut self, share: Share) -> Self {
        self.skip(share.index);
        self.of = share.of;
        self.next = self.time();
        self
    }

    /// Passes over the next requests, so that the one behind them is next.
    fn skip(&mut self, requests: usize) {
        for _ in 0..requests {
            self.count += self.dice.as_mut().map_or(1.0, Dice::exponential);
        }
    }

    /// Returns the time after the start at which the next request is due; `None` when there are no more.
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        self.next
    }

    /// Takes the next request, so that the one after it is next.
    pub fn advance(&mut self) {
        self.skip(self.of);
        self.next = self.time();
    }

    /// Returns the time at which the number of requests along the curve reaches `count`; `None` if it never
    /// does.
    fn time(&mut self) -> Option<Duration> {
        loop {
            let step = self.curve.steps().get(self.step)?;
            let length = step.length.as_secs_f64();
            let events = step.rate * length;
            // A request due at the very end of a step is due in the next one.
            if self.count < self.counted + events {
                let seconds = self.begins + (self.count - self.counted) / step.rate;
                return Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
            }
            self.begins += length;
            self.counted += events;
            self.step += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::curve::Step;
    use super::*;

    fn times(curve: &Curve, spacing: Spacing, seed: u64) -> Vec<f64> {
        let mut arrivals = Arrivals::new(curve.clone(), spacing, seed);
        let next = || {
            let time = arrivals.next()?;
            arrivals.advance();
            Some(time.as_secs_f64())
        };
        core::iter::from_fn(next).collect()
    }

    #[test]
    fn at_equal_distances_there_are_exactly_as_many_as_the_rate_says() {
        let times = times(&Curve::flat(1_000.0, Duration::from_secs(10)), Spacing::Constant, 1);
        assert_eq!(times.len(), 10_000);
        for (n, time) in times.iter().enumerate() {
            assert!((time - n as f64 / 1e3).abs() < 1e-8, "{n}: {time}");
        }
    }

    #[test]
    fn at_random_gaps_are_exponential_and_a_seed_gives_them() {
        let curve = Curve::flat(1_000.0, Duration::from_secs(100));
        let first = times(&curve, Spacing::Poisson, 7);
        assert_eq!(first, times(&curve, Spacing::Poisson, 7));
        assert_ne!(first, times(&curve, Spacing::Poisson, 8));
        let gaps: Vec<f64> = first.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        // A share of e^-1 of an exponential distribution is above the mean.
        let above = gaps.iter().filter(|gap| **gap > mean).count() as f64 / gaps.len() as f64;
        assert!((mean - 1e-3).abs() < 2e-5 && (above - 0.3679).abs() < 0.01, "{mean} {above}");
    }

    #[test]
    fn threads_have_the_requests_of_one_between_them() {
        let steps = [300.0, 0.0, 50.0].map(|rate| Step { length: Duration::from_secs(1), rate });
        let curve = Curve::of(steps.to_vec());
        for spacing in [Spacing::Constant, Spacing::Poisson] {
            let whole = times(&curve, spacing, 5);
            for of in [1, 2, 3, 1_000] {
                let mut shared = Vec::new();
                for index in 0..of {
                    let mut arrivals = Arrivals::new(curve.clone(), spacing, 5).share(Share { index, of });
                    while let Some(time) = arrivals.next() {
                        shared.push(time.as_secs_f64());
                        arrivals.advance();
                    }
                }
                shared.sort_by(f64::total_cmp);
                assert_eq!(shared, whole, "{of}");
            }
        }
    }

    #[test]
    fn nothing_is_due_while_the_rate_is_zero() {
        let second = Duration::from_secs(1);
        let steps = [10.0, 0.0, 20.0].map(|rate| Step { length: second, rate });
        for spacing in [Spacing::Constant, Spacing::Poisson] {
            let times = times(&Curve::of(steps.to_vec()), spacing, 1);
            assert!(times.iter().all(|time| *time < 1.0 || *time >= 2.0), "{times:?}");
            assert!(times.iter().any(|time| *time >= 2.0));
        }
        assert_eq!(times(&Curve::flat(0.0, second), Spacing::Poisson, 1), [0.0; 0]);
    }

    proptest! {
        /// For any curve, times are in order and within it. Equally spaced ones are as many in each step as
        /// wanted, plus or minus one.
        #[test]
        fn any_curve_is_followed(
            steps in proptest::collection::vec((1u64..5_000, 0.0f64..500.0), 1..20),
            poisson: bool,
        ) {
            let steps = steps.into_iter().map(|(ms, rate)| Step { length: Duration::from_millis(ms), rate });
            let curve = Curve::of(steps.collect());
            let spacing = if poisson { Spacing::Poisson } else { Spacing::Constant };
            let times = times(&curve, spacing, 3);
            prop_assert!(times.is_sorted());
            prop_assert!(times.last().is_none_or(|last| *last <= curve.length().as_secs_f64()));
            if poisson {
                let wanted = curve.requests();
                prop_assert!((times.len() as f64 - wanted).abs() < 7.0 * wanted.sqrt() + 10.0);
            } else {
                let mut begin = 0.0;
                for step in curve.steps() {
                    let end = begin + step.length.as_secs_f64();
                    let came = times.iter().filter(|time| (begin..end).contains(*time)).count() as f64;
                    let wanted = step.rate * step.length.as_secs_f64();
                    prop_assert!((came - wanted).abs() <= 1.0 + 1e-6, "{} for {}", came, wanted);
                    begin = end;
                }
            }
        }
    }
}
