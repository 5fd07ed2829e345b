//! The loss of frames: each by itself, or in bursts.

use crate::rng::{Ratio, Rng};

/// The model of which frames are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Each frame is lost with this probability, independently of all others.
    Independent(Ratio),
    /// Frames are lost with the probability of the present state of the link, so losses come in bursts.
    Bursts(Bursts),
}

/// A link that is good or bad for a while: the model of Gilbert and Elliott. A frame is lost or not by the
/// present state. Then the state may change.
///
/// ```
/// use evenkeel_wan::{Bursts, Loss, Ratio, Settings};
///
/// // One frame in a thousand begins a burst, of five frames on average, all of which are lost.
/// let bursts = Bursts {
///     enter: Ratio::new(1, 1_000),
///     leave: Ratio::percent(20),
///     in_bad: Ratio::percent(100),
///     in_good: Ratio::ZERO,
/// };
/// let settings = Settings { loss: Loss::Bursts(bursts), ..Settings::PERFECT };
/// # assert_ne!(settings, Settings::PERFECT);
/// ```
///
/// Source: Gilbert, "Capacity of a burst-noise channel", BSTJ 39, 1960; Elliott, "Estimates of error rates
/// for codes on burst-noise channels", BSTJ 42, 1963. The names in parentheses are those of `tc-netem(8)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bursts {
    /// The probability at each frame that the state turns from good to bad (`p`).
    pub enter: Ratio,
    /// The probability at each frame that the state turns from bad to good (`r`). The mean length of a
    /// burst is its reciprocal.
    pub leave: Ratio,
    /// The share of frames that are lost in the bad state (`1-h`).
    pub in_bad: Ratio,
    /// The share of frames that are lost in the good state (`1-k`).
    pub in_good: Ratio,
}

impl Loss {
    /// The model in which no frame is lost.
    pub const NONE: Self = Self::Independent(Ratio::ZERO);

    /// Returns whether the next frame is lost. `bad` is the state of the link.
    pub(crate) fn strikes(self, bad: &mut bool, rng: &mut Rng) -> bool {
        match self {
            Self::Independent(share) => rng.chance(share),
            Self::Bursts(Bursts { enter, leave, in_bad, in_good }) => {
                let (lost, turn) = if *bad { (in_bad, leave) } else { (in_good, enter) };
                let lost = rng.chance(lost);
                *bad ^= rng.chance(turn);
                lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strikes(loss: Loss, frames: usize) -> Vec<bool> {
        let (mut bad, mut rng) = (false, Rng::new(5));
        (0..frames).map(|_| loss.strikes(&mut bad, &mut rng)).collect()
    }

    /// Bursts of lost frames, by their length.
    fn runs(strikes: &[bool]) -> Vec<usize> {
        strikes.split(|lost| !lost).map(<[bool]>::len).filter(|len| *len > 0).collect()
    }

    #[test]
    fn bursts_are_as_frequent_and_as_long_as_their_model_says() {
        let (enter, leave) = (Ratio::percent(1), Ratio::percent(25));
        let bursts = Bursts { enter, leave, in_bad: Ratio::percent(100), in_good: Ratio::ZERO };
        let lost = strikes(Loss::Bursts(bursts), 1_000_000);
        let share = lost.iter().filter(|lost| **lost).count() as f64 / 1e6;
        assert!((share - 1.0 / 26.0).abs() < 0.002, "bad for p / (p + r) of the time: {share}");
        let runs = runs(&lost);
        let mean = runs.iter().sum::<usize>() as f64 / runs.len() as f64;
        assert!((mean - 4.0).abs() < 0.2, "bursts of 1 / r: {mean}");
    }

    #[test]
    fn in_either_state_frames_vanish_as_is_said_of_it() {
        let half = Ratio::percent(50);
        let bursts =
            Bursts { enter: half, leave: half, in_bad: Ratio::percent(80), in_good: Ratio::percent(10) };
        let lost = strikes(Loss::Bursts(bursts), 200_000).iter().filter(|lost| **lost).count() as f64;
        assert!((lost / 2e5 - 0.45).abs() < 0.01, "{lost}");
    }

    #[test]
    fn independent_losses_come_in_no_longer_bursts_than_chance_has_them() {
        let lost = strikes(Loss::Independent(Ratio::percent(4)), 1_000_000);
        let runs = runs(&lost);
        let mean = runs.iter().sum::<usize>() as f64 / runs.len() as f64;
        assert!((mean - 1.0 / 0.96).abs() < 0.01, "{mean}");
    }
}
