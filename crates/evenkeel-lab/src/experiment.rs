//! What an experiment is, and what it reports.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

use serde::Serialize;

use crate::chart::{Axis, Chart, Line};

/// How an experiment passes its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// In virtual time, on a machine model: exact and repeatable.
    Virtual,
    /// On this machine, in real time.
    Real,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Virtual => "virtual",
            Self::Real => "real",
        })
    }
}

/// One figure or table of a paper, to be measured again.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// Its name on the command line.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// The paper and the place in it.
    pub source: &'static str,
    pub(crate) measure: fn(u64) -> Outcome,
}

impl Experiment {
    /// Runs it in virtual time. The same seed gives the same report.
    #[must_use]
    pub fn run(&self, seed: u64) -> Report {
        let outcome = (self.measure)(seed);
        Report {
            id: self.id,
            title: self.title,
            source: self.source,
            mode: Mode::Virtual,
            seed,
            conditions: None,
            outcome,
        }
    }
}

/// What was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The label of the points' `x`, with the unit.
    pub x: &'static str,
    /// The label of the points' `y`, with the unit.
    pub y: &'static str,
    /// The greatest `y` worth showing in a chart, if some curve leaves the others far behind.
    #[serde(skip)]
    pub y_max: Option<f64>,
    /// The curves, point by point.
    pub points: Vec<Point>,
    /// The comparison with the paper.
    pub checks: Vec<Check>,
}

/// One point of a curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Which curve.
    pub series: String,
    /// Where.
    pub x: f64,
    /// What was measured there.
    pub y: f64,
    /// What else was counted there, such as drops by place.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub more: BTreeMap<&'static str, f64>,
}

impl Point {
    /// What a paper says of some points of a curve.
    pub(crate) fn of_paper(series: &str, points: &[(f64, f64)]) -> impl Iterator<Item = Self> {
        let series = format!("paper: {series}");
        points.iter().map(move |&(x, y)| Self { series: series.clone(), x, y, more: BTreeMap::new() })
    }
}

/// A figure of the paper, or of ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Figure {
    /// A number.
    Number(f64),
    /// Anything from the first number to the second.
    Range([f64; 2]),
    /// Something that is not a number: an order, a place.
    Text(String),
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

/// A field of comma-separated values (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

/// Four digits are enough for a reader.
fn round(n: f64) -> f64 {
    if n == 0.0 || !n.is_finite() {
        return n;
    }
    let scale = 10_f64.powf(3.0 - n.abs().log10().floor()).min(1e6);
    if scale < 1.0 { n.round() } else { (n * scale).round() / scale }
}

/// One comparison with the paper.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// What is compared.
    pub name: String,
    /// What the paper says.
    pub expected: Figure,
    /// What came out here.
    pub measured: Figure,
    /// By what fraction of the expected value the measured one may be off. 0 for a range, whose ends are the tolerance, and for
    /// text, which must be equal.
    pub tolerance: f64,
    /// Whether it is within.
    pub ok: bool,
}

impl Check {
    /// The measured number is the paper's, give or take a fraction of it.
    #[must_use]
    pub fn near(name: impl Into<String>, expected: f64, measured: f64, tolerance: f64) -> Self {
        let ok = (measured - expected).abs() <= tolerance * expected.abs();
        Self {
            name: name.into(),
            expected: Figure::Number(expected),
            measured: Figure::Number(measured),
            tolerance,
            ok,
        }
    }

    /// All measured numbers lie between two.
    #[must_use]
    pub fn within(name: impl Into<String>, expected: [f64; 2], measured: &[f64]) -> Self {
        let low = measured.iter().copied().fold(f64::INFINITY, f64::min);
        let high = measured.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let ok = !measured.is_empty() && low >= expected[0] && high <= expected[1];
        let measured = match measured {
            [] => Figure::Text("nothing".to_owned()),
            _ if low == high => Figure::Number(low),
            _ => Figure::Range([low, high]),
        };
        Self { name: name.into(), expected: Figure::Range(expected), measured, tolerance: 0.0, ok }
    }

    /// What came out reads as the paper has it.
    #[must_use]
    pub fn equal(name: impl Into<String>, expected: impl Into<String>, measured: impl Into<String>) -> Self {
        let (expected, measured) = (expected.into(), measured.into());
        let ok = expected == measured;
        Self {
            name: name.into(),
            expected: Figure::Text(expected),
            measured: Figure::Text(measured),
            tolerance: 0.0,
            ok,
        }
    }
}

impl Check {
    /// One line, or three if it is about words.
    fn write_to(&self, text: &mut String) {
        let mark = if self.ok { "ok" } else { "FAIL" };
        let (expected, measured) = (self.expected.to_string(), self.measured.to_string());
        let _ = if let Figure::Text(_) = self.expected {
            writeln!(text, "{mark:<4} {}\n{:>10} {expected}\n{:>10} {measured}", self.name, "paper:", "here:")
        } else if self.tolerance > 0.0 {
            let percent = round(self.tolerance * 100.0);
            writeln!(text, "{mark:<4} {:<64} {expected:>16} {measured:>16} {percent:>4}%", self.name)
        } else {
            writeln!(text, "{mark:<4} {:<64} {expected:>16} {measured:>16}", self.name)
        };
    }
}

/// What a run of an experiment reports.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// [`Experiment::id`].
    pub id: &'static str,
    /// [`Experiment::title`].
    pub title: &'static str,
    /// [`Experiment::source`].
    pub source: &'static str,
    /// How time passed.
    pub mode: Mode,
    /// The seed of the run.
    pub seed: u64,
    /// In real time: on what, and how, it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<String>,
    /// What was measured.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Report {
    /// Whether every check holds.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.outcome.checks.iter().all(|c| c.ok)
    }

    /// The curves as a chart.
    #[must_use]
    pub fn chart(&self) -> Chart {
        let axis = |label: &str| Axis { label: label.into(), ..Axis::default() };
        let lines = self.series().into_iter().map(|name| {
            let points =
                self.outcome.points.iter().filter(|p| p.series == name).map(|p| (p.x, p.y)).collect();
            Line { name: name.into(), points, dashed: name.starts_with("paper") }
        });
        Chart {
            title: self.title.into(),
            x: axis(self.outcome.x),
            y: Axis { max: self.outcome.y_max, ..axis(self.outcome.y) },
            lines: lines.collect(),
        }
    }

    /// The points as comma-separated values, one line each, with a header.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut extras: Vec<&str> = self.outcome.points.iter().flat_map(|p| p.more.keys().copied()).collect();
        extras.sort_unstable();
        extras.dedup();
        let mut text =
            ["series", "x", "y"].into_iter().chain(extras.iter().copied()).collect::<Vec<_>>().join(",");
        text.push('\n');
        for point in &self.outcome.points {
            let _ = write!(text, "{},{},{}", quoted(&point.series), point.x, point.y);
            for extra in &extras {
                let value = point.more.get(extra).map(f64::to_string).unwrap_or_default();
                let _ = write!(text, ",{value}");
            }
            text.push('\n');
        }
        text
    }

    /// The report for a reader: the curves as a table, then the comparison with the paper.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}: {}\n{} ({} time, seed {})\n",
            self.id, self.title, self.source, self.mode, self.seed
        );
        if let Some(conditions) = &self.conditions {
            let _ = writeln!(text, "{conditions}");
        }
        text.push('\n');
        self.write_table(&mut text);
        let expected = if self.mode == Mode::Real { "wanted" } else { "paper" };
        let _ = writeln!(text, "\n{:<4} {:<64} {:>16} {:>16} {:>5}", "", "check", expected, "here", "+-");
        for check in &self.outcome.checks {
            check.write_to(&mut text);
        }
        text
    }

    fn series(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for point in &self.outcome.points {
            if !names.contains(&point.series.as_str()) {
                names.push(&point.series);
            }
        }
        names
    }

    fn write_table(&self, text: &mut String) {
        let series = self.series();
        let mut xs: Vec<f64> = self.outcome.points.iter().map(|p| p.x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let _ = writeln!(text, "y: {}", self.outcome.y);
        let _ = write!(text, "{:>28}", self.outcome.x);
        for name in &series {
            let _ = write!(text, " {name:>12}");
        }
        text.push('\n');
        for x in xs {
            let _ = write!(text, "{:>28}", round(x));
            for name in &series {
                let y = self
                    .outcome
                    .points
                    .iter()
                    .find(|p| p.series == *name && p.x == x)
                    .map(|p| round(p.y).to_string());
                let _ = write!(text, " {:>12}", y.unwrap_or_default());
            }
            text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(series: &str, x: f64, y: f64, more: &[(&'static str, f64)]) -> Point {
        Point { series: series.into(), x, y, more: more.iter().copied().collect() }
    }

    fn report(checks: Vec<Check>) -> Report {
        let points = vec![point("a", 1.0, 2.0, &[("drops", 3.0)]), point("b", 1.0, 4.5, &[])];
        let outcome = Outcome { x: "offered (pkts/s)", y: "delivered (pkts/s)", y_max: None, points, checks };
        Report {
            id: "t",
            title: "A test",
            source: "Nobody, 1996, figure 0",
            mode: Mode::Virtual,
            seed: 7,
            conditions: None,
            outcome,
        }
    }

    #[test]
    fn checks_fail_when_they_should() {
        assert!(Check::near("n", 100.0, 105.0, 0.05).ok);
        assert!(!Check::near("n", 100.0, 105.1, 0.05).ok);
        assert!(!Check::near("n", 100.0, f64::NAN, 0.05).ok);
        assert!(Check::within("n", [1.0, 2.0], &[1.0, 2.0]).ok);
        assert!(!Check::within("n", [1.0, 2.0], &[1.5, 2.1]).ok);
        assert!(!Check::within("n", [1.0, 2.0], &[]).ok);
        assert!(!Check::equal("n", "a > b", "b > a").ok);
        assert!(report(vec![Check::equal("n", "a", "a")]).passed());
        assert!(!report(vec![Check::equal("n", "a", "b")]).passed());
    }

    #[test]
    fn json_keeps_the_contract() {
        let checks =
            vec![Check::near("peak", 100.0, 101.0, 0.05), Check::within("share", [0.4, 0.65], &[0.5, 0.6])];
        let json = serde_json::to_value(report(checks)).unwrap();
        for key in ["id", "title", "source", "mode", "seed", "points", "checks"] {
            assert!(json.get(key).is_some(), "{key}");
        }
        assert_eq!(json["mode"], "virtual");
        assert_eq!(
            json["points"][0],
            serde_json::json!({"series": "a", "x": 1.0, "y": 2.0, "more": {"drops": 3.0}})
        );
        let check = serde_json::json!({"name": "peak", "expected": 100.0, "measured": 101.0, "tolerance": 0.05, "ok": true});
        assert_eq!(json["checks"][0], check);
        assert_eq!(json["checks"][1]["expected"], serde_json::json!([0.4, 0.65]));
    }

    #[test]
    fn table_and_csv_have_every_point() {
        let report = report(vec![Check::near("peak", 100.0, 110.0, 0.05)]);
        assert_eq!(report.csv(), "series,x,y,drops\na,1,2,3\nb,1,4.5,\n");
        let mut with_comma = report.clone();
        with_comma.outcome.points[0].series = "a, 5\"".into();
        assert!(with_comma.csv().contains("\n\"a, 5\"\"\",1,2,3\n"), "{}", with_comma.csv());
        let text = report.text();
        assert!(text.contains("FAIL peak"), "{text}");
        assert!(text.contains("4.5"), "{text}");
        assert_eq!(report.chart().lines.len(), 2);
    }
}
