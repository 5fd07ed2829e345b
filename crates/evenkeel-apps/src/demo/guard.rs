//! The guard of all verdicts: reasons why a measurement gives no information about an architecture.

use core::fmt;

use super::course::Course;
use crate::quantity::{percent, three_digits_at_most};

/// The share of the time below which a host's core counts as taken away.
const CORE: f64 = 0.90;
/// The share of its peak by which a curve may fall and rise again. Offered load only rises, so delivered load
/// rises to a peak and then keeps it or falls: a valley is the machine's.
const VALLEY: f64 = 0.10;
/// The least overload that shows the course of an architecture, as a multiple of its peak.
const OVERLOAD: f64 = 2.0;

/// A measurement of one curve at one load, ours or the kernel's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// The load that was really offered, in pps.
    pub offered_pps: f64,
    /// The rate that was delivered, in pps.
    pub delivered_pps: f64,
    /// The share of the window in which the host had its core.
    pub core_share: f64,
}

/// A reason why the measurements give no information about an architecture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Doubt {
    /// At one load the host had only this share of its core.
    Core(f64),
    /// Delivered load falls by this share of its peak and rises again.
    Valley(f64),
    /// The highest load is only this multiple of the peak.
    Load(f64),
}

/// The judgement on one curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Judgement {
    /// The measurements show this course.
    Shown(Course),
    /// The measurements give no information.
    Doubtful(Doubt),
}

impl Judgement {
    /// Judges a curve whose measurements are `loads`, lowest offered load first, and which keeps
    /// `retention` of its peak.
    pub(super) fn of(loads: &[Load], retention: f64) -> Self {
        doubt(loads).map_or_else(|| Self::Shown(Course::of(retention)), Self::Doubtful)
    }

    /// Returns the doubt, if there is one.
    #[must_use]
    pub fn doubt(self) -> Option<Doubt> {
        match self {
            Self::Shown(_) => None,
            Self::Doubtful(doubt) => Some(doubt),
        }
    }

    /// Returns the judgement in two or three words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Shown(course) => course.words(),
            Self::Doubtful(_) => "cannot tell",
        }
    }

    /// Returns the share of the peak that is left, in percent; `?` if the measurements do not tell.
    #[must_use]
    pub fn share_left(self, retention: f64) -> String {
        match self {
            Self::Shown(_) => percent(retention),
            Self::Doubtful(_) => "?".to_owned(),
        }
    }
}

impl Doubt {
    /// Returns the rank of the kind of doubt; that which weighs most is 0.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::Core(_) => 0,
            Self::Valley(_) => 1,
            Self::Load(_) => 2,
        }
    }

    /// Returns the graver of two doubts of one kind; `None` if their kinds differ.
    pub(super) fn graver(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Core(a), Self::Core(b)) => Some(Self::Core(a.min(b))),
            (Self::Valley(a), Self::Valley(b)) => Some(Self::Valley(a.max(b))),
            (Self::Load(a), Self::Load(b)) => Some(Self::Load(a.min(b))),
            _ => None,
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Core(share) => write!(f, "at one load the host had only {} % of its core", percent(share)),
            Self::Valley(depth) => {
                write!(f, "delivered load fell by {} % of its peak and rose again", percent(depth))
            }
            Self::Load(multiple) => {
                write!(f, "the highest load was only {} times the peak", three_digits_at_most(multiple))
            }
        }
    }
}

/// Returns the gravest doubt about a curve.
fn doubt(loads: &[Load]) -> Option<Doubt> {
    let core = loads.iter().map(|load| load.core_share).fold(1.0, f64::min);
    let peak = loads.iter().map(|load| load.delivered_pps).fold(0.0, f64::max);
    if core < CORE {
        return Some(Doubt::Core(core));
    }
    if peak <= 0.0 {
        return None;
    }
    let valley = deepest_valley(loads) / peak;
    let overload = loads.iter().map(|load| load.offered_pps).fold(0.0, f64::max) / peak;
    match () {
        () if valley > VALLEY => Some(Doubt::Valley(valley)),
        () if overload < OVERLOAD => Some(Doubt::Load(overload)),
        () => None,
    }
}

/// Returns the greatest depth of a point below higher ones on both sides of it, in pps.
fn deepest_valley(loads: &[Load]) -> f64 {
    let highest = |loads: &[Load]| loads.iter().map(|load| load.delivered_pps).fold(0.0, f64::max);
    let depth =
        |(n, load): (usize, &Load)| highest(&loads[..n]).min(highest(&loads[n + 1..])) - load.delivered_pps;
    loads.iter().enumerate().map(depth).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(loads: &[(f64, f64, f64)]) -> Judgement {
        let load =
            |&(offered_pps, delivered_pps, core_share)| Load { offered_pps, delivered_pps, core_share };
        Judgement::of(&loads.iter().map(load).collect::<Vec<_>>(), 1.0)
    }

    #[test]
    fn the_core_must_be_there_at_every_load() {
        let kept = |share| judge(&[(1.0, 1.0, share), (3.0, 1.0, 1.0)]);
        assert_eq!(kept(0.91), Judgement::Shown(Course::Keeps));
        assert_eq!(
            kept(0.89).doubt().unwrap().to_string(),
            "at one load the host had only 89.0 % of its core"
        );
        assert_eq!((kept(0.89).words(), kept(0.89).share_left(1.0)), ("cannot tell", "?".to_owned()));
    }

    #[test]
    fn a_curve_that_falls_and_rises_again_is_noise() {
        let curve = |low| judge(&[(1.0, 1.0, 1.0), (2.0, low, 1.0), (3.0, 1.0, 1.0)]);
        assert_eq!(curve(0.91), Judgement::Shown(Course::Keeps));
        let told = curve(0.75).doubt().unwrap().to_string();
        assert_eq!(told, "delivered load fell by 25.0 % of its peak and rose again");
        // A fall without a rise is a course, however steep.
        assert!(judge(&[(1.0, 1.0, 1.0), (2.0, 0.5, 1.0), (3.0, 0.1, 1.0)]).doubt().is_none());
    }

    /// A socket that received everything was not flooded.
    #[test]
    fn without_overload_nothing_is_known() {
        let told = judge(&[(1.0, 1.0, 1.0), (1.9, 1.0, 1.0)]).doubt().unwrap().to_string();
        assert_eq!(told, "the highest load was only 1.9 times the peak");
        assert!(judge(&[(1.0, 1.0, 1.0), (2.1, 1.0, 1.0)]).doubt().is_none());
    }

    #[test]
    fn nothing_delivered_at_all_is_livelock_and_no_doubt() {
        assert_eq!(judge(&[(1.0, 0.0, 1.0), (2.0, 0.0, 1.0)]).doubt(), None);
    }
}
