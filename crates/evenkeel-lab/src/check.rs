//! A comparison with a paper's statement: the origin of the expected value, and whether anything was fitted
//! to it.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::statistics::median;

/// A figure of the paper, or of ours.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Figure {
    /// A number.
    Number(f64),
    /// Any number from the first to the second.
    Range([f64; 2]),
    /// A result that is not a number: an order, a place.
    Text(String),
}

impl Figure {
    /// Returns the least and the greatest number of a figure; `None` for text.
    const fn ends(&self) -> Option<[f64; 2]> {
        match self {
            Self::Number(n) => Some([*n, *n]),
            Self::Range(ends) => Some(*ends),
            Self::Text(_) => None,
        }
    }

    /// Returns a number if both ends are equal, and a range otherwise.
    fn of_ends([low, high]: [f64; 2]) -> Self {
        if low == high { Self::Number(low) } else { Self::Range([low, high]) }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => write!(f, "{}", round(*n)),
            Self::Range([low, high]) => write!(f, "{} to {}", round(*low), round(*high)),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Rounds to four digits, which are enough for a reader.
pub(crate) fn round(n: f64) -> f64 {
    if n == 0.0 || !n.is_finite() {
        return n;
    }
    let scale = 10_f64.powf(3.0 - n.abs().log10().floor()).min(1e6);
    if scale < 1.0 { n.round() } else { (n * scale).round() / scale }
}

/// The origin of an expected value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A figure that the paper states.
    Paper,
    /// A statement of the paper in words ("no livelock", "slightly"), with our bounds.
    Words,
    /// A result of arithmetic on figures of the paper.
    Derived,
    /// An expectation of ours, of which the paper says nothing.
    Ours,
}

impl Origin {
    /// Returns one word for a table.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Words => "words",
            Self::Derived => "derived",
            Self::Ours => "ours",
        }
    }
}

/// The significance of a check that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "basis", content = "fitted", rename_all = "kebab-case")]
pub enum Basis {
    /// A parameter was fitted to the expected value, or the value follows from fitted parameters, so the
    /// check shows little. A path (`cost.receive`) is one of the machine model; any other parameter is
    /// described in `docs/evidence/machine-models.md`.
    Calibrated(&'static str),
    /// Nothing was fitted to the value, so the check supports the modelled mechanisms.
    Predicted,
    /// The check is a condition for the other checks to be meaningful.
    Condition,
}

impl Basis {
    /// The names of the kinds of checks, for people.
    pub(crate) const KINDS: [&'static str; 3] = ["predicted", "calibrated", "conditions"];

    /// Returns the name of this basis among [`Self::KINDS`].
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::Predicted => "predicted",
            Self::Calibrated(_) => "calibrated",
            Self::Condition => "conditions",
        }
    }
}

/// The rule by which a measured figure agrees with the expected one.
#[derive(Debug, Clone, PartialEq)]
enum Rule {
    Near(f64, f64),
    Within([f64; 2]),
    Equal(String),
}

impl Rule {
    fn holds(&self, measured: &Figure) -> bool {
        match (self, measured) {
            (Self::Near(expected, tolerance), Figure::Number(n)) => {
                (n - expected).abs() <= tolerance * expected.abs()
            }
            (Self::Within([low, high]), figure) => {
                figure.ends().is_some_and(|ends| ends.iter().all(|end| (low..=high).contains(&end)))
            }
            (Self::Equal(expected), Figure::Text(text)) => text == expected,
            _ => false,
        }
    }
}

/// A claim to be checked. It names the origin of the expected value and the basis of the expectation, which
/// every check needs.
#[derive(Debug, Clone)]
pub struct Claim {
    name: String,
    origin: Origin,
    basis: Basis,
}

/// Creates a claim to which nothing was fitted.
#[must_use]
pub fn predicted(origin: Origin, name: impl Into<String>) -> Claim {
    Claim { name: name.into(), origin, basis: Basis::Predicted }
}

/// Creates a claim to which `fitted` was fitted, or which follows from `fitted`.
#[must_use]
pub fn calibrated(fitted: &'static str, origin: Origin, name: impl Into<String>) -> Claim {
    Claim { name: name.into(), origin, basis: Basis::Calibrated(fitted) }
}

/// Creates a condition, which must hold for the other checks to be meaningful.
#[must_use]
pub fn condition(name: impl Into<String>) -> Claim {
    Claim { name: name.into(), origin: Origin::Ours, basis: Basis::Condition }
}

impl Claim {
    /// Checks that the measured number is the expected one, within `tolerance` as a fraction of it.
    #[must_use]
    pub fn near(self, expected: f64, measured: f64, tolerance: f64) -> Check {
        let measured = Figure::Number(measured);
        self.judge(Figure::Number(expected), tolerance, Rule::Near(expected, tolerance), measured)
    }

    /// Checks that all measured numbers lie between two. A NaN does not.
    #[must_use]
    pub fn within(self, expected: [f64; 2], measured: &[f64]) -> Check {
        let measured = if measured.is_empty() {
            Figure::Text("nothing".to_owned())
        } else if measured.iter().any(|n| n.is_nan()) {
            Figure::Number(f64::NAN)
        } else {
            let least = measured.iter().copied().fold(f64::INFINITY, f64::min);
            let most = measured.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            Figure::of_ends([least, most])
        };
        self.judge(Figure::Range(expected), 0.0, Rule::Within(expected), measured)
    }

    /// Checks that the measured text equals the expected one.
    #[must_use]
    pub fn equal(self, expected: impl Into<String>, measured: impl Into<String>) -> Check {
        let expected = expected.into();
        let rule = Rule::Equal(expected.clone());
        self.judge(Figure::Text(expected), 0.0, rule, Figure::Text(measured.into()))
    }

    fn judge(self, expected: Figure, tolerance: f64, rule: Rule, measured: Figure) -> Check {
        let Self { name, origin, basis } = self;
        let ok = rule.holds(&measured);
        Check { name, expected, measured, tolerance, ok, origin, basis, known_miss: None, over: None, rule }
    }
}

/// A comparison with the paper, made from a [`Claim`].
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Check {
    /// The name of the compared figure, with its unit.
    pub name: String,
    /// The expected figure.
    pub expected: Figure,
    /// The measured figure. Over several seeds, the median of each end, or the most frequent text.
    pub measured: Figure,
    /// The fraction of the expected value by which the measured one may be off. It is 0 for a range, because
    /// the range is the tolerance, and for text, which must be equal.
    pub tolerance: f64,
    /// Whether the measured figure is within the tolerance.
    pub ok: bool,
    /// The origin of the expected value.
    pub origin: Origin,
    /// The significance of the check if it holds.
    #[serde(flatten)]
    pub basis: Basis,
    /// The reason why the model misses the figure, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_miss: Option<&'static str>,
    /// The results over several seeds, if the run had several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<Over>,
    #[serde(skip)]
    rule: Rule,
}

/// A check over several seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Over {
    /// The number of seeds.
    pub seeds: usize,
    /// The share of the seeds for which the check holds.
    pub passing: f64,
    /// The least and the greatest number that was measured with any seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
}

impl Check {
    /// Marks the check as one that the model is known to miss, with the reason. A test asserts that the model
    /// does miss it.
    #[must_use]
    pub fn known_miss(self, why: &'static str) -> Self {
        Self { known_miss: Some(why), ..self }
    }

    /// Combines the results of one check over several seeds, judged by the median. `runs` must not be
    /// empty.
    pub(crate) fn over(runs: &[Self]) -> Option<Self> {
        let first = runs.first()?.clone();
        let ends: Option<Vec<[f64; 2]>> = runs.iter().map(|run| run.measured.ends()).collect();
        let measured = match &ends {
            Some(ends) => Figure::of_ends([0, 1].map(|end| median(ends.iter().map(|e| e[end])))),
            None => Figure::Text(most_frequent(runs)),
        };
        let range = ends.map(|ends| {
            let (low, high) = (ends.iter().map(|e| e[0]), ends.iter().map(|e| e[1]));
            [low.fold(f64::INFINITY, f64::min), high.fold(f64::NEG_INFINITY, f64::max)]
        });
        let passing = runs.iter().filter(|run| run.ok).count() as f64 / runs.len() as f64;
        let ok = first.rule.holds(&measured);
        let over = Some(Over { seeds: runs.len(), passing, range });
        Some(Self { measured, ok, over, ..first })
    }

    /// Returns the mark of the result: `ok`, `MISS` for a known miss, or `FAIL`.
    #[must_use]
    pub const fn mark(&self) -> &'static str {
        match (self.ok, self.known_miss.is_some()) {
            (true, _) => "ok",
            (false, true) => "MISS",
            (false, false) => "FAIL",
        }
    }
}

/// Returns the most frequent text; if several are, one that differs from the expected text.
fn most_frequent(runs: &[Check]) -> String {
    let count = |text: &str| runs.iter().filter(|run| run.measured.to_string() == text).count();
    let texts = runs.iter().map(|run| (run.measured.to_string(), run.ok));
    let most = texts.max_by_key(|(text, ok)| (count(text), !ok, text.clone()));
    most.map(|(text, _)| text).unwrap_or_default()
}

/// Returns names in descending order of their values, as `a > b > c`. Names with equal values are shown as
/// equal, and a NaN is shown as such.
pub(crate) fn ranking(of: &[(&str, f64)]) -> String {
    let mut of = of.to_vec();
    of.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut text = String::new();
    for (nth, (name, value)) in of.iter().enumerate() {
        if nth > 0 {
            text.push_str(if of[nth - 1].1 > *value { " > " } else { " = " });
        }
        text.push_str(name);
        if value.is_nan() {
            text.push_str(" (nothing)");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(measured: f64) -> Check {
        predicted(Origin::Paper, "n").near(100.0, measured, 0.05)
    }

    #[test]
    fn checks_fail_when_they_should() {
        assert!(near(105.0).ok);
        assert!(!near(105.1).ok);
        assert!(!near(f64::NAN).ok);
        let within = |measured: &[f64]| predicted(Origin::Words, "n").within([1.0, 2.0], measured).ok;
        assert!(within(&[1.0, 2.0]));
        assert!(!within(&[1.5, 2.1]));
        assert!(!within(&[]));
        assert!(!within(&[f64::NAN]), "nothing was measured");
        assert!(!within(&[1.5, f64::NAN]));
        assert!(!predicted(Origin::Paper, "n").equal("a > b", "b > a").ok);
    }

    #[test]
    fn a_ranking_tells_ties_and_what_was_not_measured() {
        assert_eq!(ranking(&[("a", 1.0), ("b", 3.0), ("c", 2.0)]), "b > c > a");
        assert_eq!(ranking(&[("a", 0.0), ("b", 0.0)]), "a = b");
        assert_eq!(ranking(&[("a", f64::NAN), ("b", 0.0)]), "a (nothing) = b");
    }

    #[test]
    fn over_several_seeds_the_median_is_judged_and_the_rest_told() {
        let over = Check::over(&[100.0, 104.0, 120.0].map(near)).unwrap();
        assert_eq!((over.measured, over.ok), (Figure::Number(104.0), true));
        let over = over.over.unwrap();
        assert_eq!((over.seeds, over.range), (3, Some([100.0, 120.0])));
        assert!((over.passing - 2.0 / 3.0).abs() < 1e-12);
        assert!(!Check::over(&[100.0, 111.0, 120.0].map(near)).unwrap().ok);
    }

    #[test]
    fn of_ranges_each_end_has_its_median() {
        let within = |measured: &[f64]| predicted(Origin::Words, "n").within([0.9, 1.0], measured);
        let over = Check::over(&[within(&[0.95, 1.0]), within(&[0.8, 0.99]), within(&[0.91, 1.0])]).unwrap();
        assert_eq!((over.measured, over.ok), (Figure::Range([0.91, 1.0]), true));
        assert_eq!(over.over.unwrap().range, Some([0.8, 1.0]));
        let missing = Check::over(&[within(&[]), within(&[0.95])]).unwrap();
        assert!(!missing.ok, "half of them measured nothing");
    }

    #[test]
    fn a_text_must_come_out_for_more_than_half_of_the_seeds() {
        let equal = |measured: &str| predicted(Origin::Paper, "n").equal("a > b", measured);
        assert!(Check::over(&["a > b", "a > b", "b > a"].map(equal)).unwrap().ok);
        assert!(!Check::over(&["a > b", "b > a"].map(equal)).unwrap().ok, "half is not enough");
    }

    #[test]
    fn a_miss_is_marked_as_known_or_not() {
        assert_eq!([near(100.0).mark(), near(1.0).mark()], ["ok", "FAIL"]);
        assert_eq!(near(1.0).known_miss("why").mark(), "MISS");
    }

    #[test]
    fn json_says_what_was_fitted() {
        let json = |claim: Claim| serde_json::to_value(claim.near(1.0, 1.0, 0.1)).unwrap();
        let fitted = json(calibrated("cost.receive", Origin::Paper, "n"));
        assert_eq!((&fitted["basis"], &fitted["fitted"]), (&"calibrated".into(), &"cost.receive".into()));
        assert_eq!(fitted["origin"], "paper");
        let other = json(predicted(Origin::Ours, "n"));
        assert_eq!((&other["basis"], other.get("fitted")), (&"predicted".into(), None));
        assert_eq!(json(condition("n"))["basis"], "condition");
    }
}
