//! Experiments and their reports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use crate::check::{Basis, Check, Figure, round};
use crate::seeds::{self, Seeds};
use crate::statistics::median;
use evenkeel_apps::chart::{self, Axis, Curve, LineChart, Scale};
use evenkeel_apps::quantity::short;

/// The prefixes of series that were not measured.
const REFERENCES: [&str; 2] = ["paper: ", "derived: "];

/// The clock of an experiment: virtual or real time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Virtual time on a machine model: exact and repeatable.
    Virtual,
    /// Real time on this machine.
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

/// A figure or table of a paper, to be measured again.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// The name of the experiment on the command line.
    pub id: &'static str,
    /// The title, which says what the experiment shows.
    pub title: &'static str,
    /// The paper and the place in it.
    pub source: &'static str,
    pub(crate) measure: fn(u64) -> Outcome,
}

impl Experiment {
    /// Runs the experiment in virtual time. Runs with one seed give equal reports.
    #[must_use]
    pub fn run(&self, seed: u64) -> Report {
        Report::new(self, Mode::Virtual, [seed, 1], None, (self.measure)(seed))
    }

    /// Runs the experiment over seeds, on all cores. Calls `progress` with the number of finished runs and
    /// of all runs. The report does not depend on the number of cores.
    #[must_use]
    pub fn run_over(&self, seeds: Seeds, progress: &mut dyn FnMut(usize, usize)) -> Report {
        if seeds.count == 1 {
            return self.run(seeds.first);
        }
        let outcomes = seeds::each(seeds, self.measure, progress);
        let outcome = Outcome::over(&outcomes).expect("there is a seed at least");
        Report::new(self, Mode::Virtual, [seeds.first, seeds.count.into()], None, outcome)
    }
}

/// The measurements of an experiment, and its checks.
#[derive(Debug, Clone, Serialize, JsonSchema)]
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
    /// The share of its peak that each variant kept at the highest load, in real time, as the checks use
    /// it. It is measured separately from the points.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kept: BTreeMap<String, f64>,
}

impl Outcome {
    /// Curves and checks, with the labels of the points' coordinates.
    pub(crate) const fn new(
        x: &'static str,
        y: &'static str,
        points: Vec<Point>,
        checks: Vec<Check>,
    ) -> Self {
        Self { x, y, y_max: None, points, checks, kept: BTreeMap::new() }
    }

    /// Combines the outcomes of several seeds into medians and ranges. Returns `None` without outcomes.
    pub(crate) fn over(outcomes: &[Self]) -> Option<Self> {
        let first = outcomes.first()?.clone();
        let check = |nth: usize| {
            let runs: Vec<Check> = outcomes.iter().filter_map(|o| o.checks.get(nth).cloned()).collect();
            assert!(
                runs.iter().all(|run| run.name == first.checks[nth].name),
                "checks are the same for every seed"
            );
            Check::over(&runs)
        };
        let checks = (0..first.checks.len()).filter_map(check).collect();
        Some(Self { points: Point::over(outcomes), checks, ..first })
    }
}

/// A point of a curve.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Point {
    /// The name of the curve.
    pub series: String,
    /// The position of the point on the x axis.
    pub x: f64,
    /// The measured value. Over several seeds, the median.
    pub y: f64,
    /// The least and the greatest value over several seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// Further counts at this point, such as drops by place.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub more: BTreeMap<&'static str, f64>,
}

impl Point {
    pub(crate) fn new(series: impl Into<String>, x: f64, y: f64) -> Self {
        Self { series: series.into(), x, y, range: None, more: BTreeMap::new() }
    }

    /// Returns this point with further counts.
    pub(crate) fn with<const N: usize>(self, more: [(&'static str, f64); N]) -> Self {
        Self { more: more.into(), ..self }
    }

    /// Returns points of a curve that a paper states.
    pub(crate) fn of_paper(series: &str, points: &[(f64, f64)]) -> impl Iterator<Item = Self> {
        Self::dashed("paper", series, points)
    }

    /// Returns points of a curve that follow from a paper's figures by arithmetic, or from its words where
    /// it has no figures.
    pub(crate) fn derived(series: &str, points: &[(f64, f64)]) -> impl Iterator<Item = Self> {
        Self::dashed("derived", series, points)
    }

    fn dashed(from: &str, series: &str, points: &[(f64, f64)]) -> impl Iterator<Item = Self> {
        let series = format!("{from}: {series}");
        points.iter().map(move |&(x, y)| Self::new(series.clone(), x, y))
    }

    /// Combines the points of several seeds. The points of a curve are combined in their order if every
    /// seed has as many, since the offered load differs a little; otherwise by their position, if at least
    /// half of the seeds have a point there.
    fn over(outcomes: &[Outcome]) -> Vec<Self> {
        let first = outcomes.iter().max_by_key(|o| o.points.len()).map_or(&[][..], |o| &o.points);
        let curves: Vec<BTreeMap<&str, Vec<&Self>>> = outcomes.iter().map(Outcome::by_series).collect();
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let mut points = Vec::new();
        for point in first {
            let series = point.series.as_str();
            let nth = seen.entry(series).or_default();
            let of: Vec<&[&Self]> = curves.iter().filter_map(|c| c.get(series)).map(Vec::as_slice).collect();
            let alike = of.iter().all(|curve| curve.len() == of[0].len());
            let here = |curve: &&[&'_ Self]| {
                if alike { curve.get(*nth).copied() } else { curve.iter().find(|p| p.x == point.x).copied() }
                    .cloned()
            };
            let all: Vec<Self> = of.iter().filter_map(here).collect();
            *nth += 1;
            if 2 * all.len() >= outcomes.len() {
                points.push(Self::median(&all, point));
            }
        }
        points
    }

    fn median(all: &[Self], like: &Self) -> Self {
        let of = |value: fn(&Self) -> f64| median(all.iter().map(value));
        let (low, high) = (all.iter().map(|p| p.y), all.iter().map(|p| p.y));
        let range = [low.fold(f64::INFINITY, f64::min), high.fold(f64::NEG_INFINITY, f64::max)];
        let more = |key: &&'static str| (*key, median(all.iter().filter_map(|p| p.more.get(key).copied())));
        Self {
            series: like.series.clone(),
            x: of(|p| p.x),
            y: of(|p| p.y),
            range: Some(range),
            more: like.more.keys().map(more).collect(),
        }
    }
}

impl Outcome {
    fn by_series(&self) -> BTreeMap<&str, Vec<&Point>> {
        let mut curves: BTreeMap<&str, Vec<&Point>> = BTreeMap::new();
        for point in &self.points {
            curves.entry(&point.series).or_default().push(point);
        }
        curves
    }
}

/// Returns a field of comma-separated values (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

/// A report on a run of an experiment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Report {
    /// The name of the experiment on the command line.
    pub id: &'static str,
    /// The title, which says what the experiment shows.
    pub title: &'static str,
    /// The paper and the place in it.
    pub source: &'static str,
    /// The clock of the run.
    pub mode: Mode,
    /// The seed of the run, or the first one of several.
    pub seed: u64,
    /// The number of consecutive seeds.
    pub seeds: u64,
    /// The place and the conditions of a measurement in real time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<String>,
    /// The number of checks of each kind, and the number of those that hold.
    pub summary: Summary,
    /// The measurements and checks.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Checks of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Count {
    /// Checks of this kind.
    pub checks: usize,
    /// The number of these checks that hold.
    pub hold: usize,
    /// The number of these checks that are known to be missed, and are.
    pub known_misses: usize,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.hold, self.checks)
    }
}

/// Checks by what they show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Summary {
    /// Checks to which nothing was fitted.
    pub predicted: Count,
    /// Checks to which something was fitted.
    pub calibrated: Count,
    /// The conditions, without which the other checks are not meaningful.
    pub conditions: Count,
}

impl Summary {
    /// Counts the checks of each kind, and those that hold.
    #[must_use]
    pub fn of<'a>(checks: impl IntoIterator<Item = &'a Check>) -> Self {
        let mut summary = Self::default();
        for check in checks {
            let count = match check.basis {
                Basis::Predicted => &mut summary.predicted,
                Basis::Calibrated(_) => &mut summary.calibrated,
                Basis::Condition => &mut summary.conditions,
            };
            count.checks += 1;
            count.hold += usize::from(check.ok);
            count.known_misses += usize::from(!check.ok && check.known_miss.is_some());
        }
        summary
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds =
            [("predicted", self.predicted), ("calibrated", self.calibrated), ("conditions", self.conditions)];
        let told = kinds.into_iter().filter(|(_, count)| count.checks > 0);
        let told: Vec<String> = told.map(|(kind, count)| format!("{kind}: {count} hold")).collect();
        f.write_str(&told.join("; "))
    }
}

impl Report {
    /// Creates the report of an outcome over seeds from the first one on.
    pub(crate) fn new(
        experiment: &Experiment,
        mode: Mode,
        [seed, seeds]: [u64; 2],
        conditions: Option<String>,
        outcome: Outcome,
    ) -> Self {
        let Experiment { id, title, source, .. } = *experiment;
        let summary = Summary::of(&outcome.checks);
        Self { id, title, source, mode, seed, seeds, conditions, summary, outcome }
    }

    /// Returns whether every check holds.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.outcome.checks.iter().all(|c| c.ok)
    }

    /// Returns whether every check holds except known misses, each of which has its reason.
    #[must_use]
    pub fn as_known(&self) -> bool {
        self.outcome.checks.iter().all(|c| c.ok || c.known_miss.is_some())
    }

    /// Returns the picture of the curves; `None` for a table, whose rows cannot be joined by lines.
    #[must_use]
    pub fn picture(&self) -> Option<LineChart> {
        let numbers_rows = self.outcome.x.starts_with("row") || self.outcome.x.starts_with("1 ");
        (!numbers_rows).then(|| self.chart())
    }

    /// Returns the curves as a chart. The paper's figures are dashed, in the colour of the measured curve.
    #[must_use]
    pub fn chart(&self) -> LineChart {
        let axis = |label: &str, max| Axis {
            label: label.into(),
            scale: Scale::Linear,
            include: Some((0.0, 0.0)),
            max,
            format: short,
        };
        let measured =
            |name: &str| REFERENCES.iter().find_map(|prefix| name.strip_prefix(prefix)).map(str::to_owned);
        let subject = |name: &str| measured(name).unwrap_or_else(|| name.to_owned());
        let mut subjects: Vec<String> = self.series().into_iter().map(subject).collect();
        let mut seen = BTreeSet::new();
        subjects.retain(|subject| seen.insert(subject.clone()));
        let styles = chart::styles(&subjects);
        let curves = self.series().into_iter().map(|name| {
            let subject = subject(name);
            let place = subjects.iter().position(|known| *known == subject);
            let style = place.and_then(|place| styles.get(place)).copied().unwrap_or_default();
            let of_series = self.outcome.points.iter().filter(|point| point.series == name);
            let points = of_series.map(|point| (point.x, Some(point.y))).collect();
            Curve { name: name.into(), style, dashed: measured(name).is_some(), points }
        });
        LineChart {
            title: self.title.into(),
            description: format!("{} against {}", self.outcome.y, self.outcome.x),
            size: (860.0, 420.0),
            x: axis(self.outcome.x, None),
            y: axis(self.outcome.y, self.outcome.y_max),
            curves: curves.collect(),
            diagonal: None,
        }
    }

    /// Returns the points as comma-separated values, one line each, with a header.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut extras: Vec<&str> = self.outcome.points.iter().flat_map(|p| p.more.keys().copied()).collect();
        extras.sort_unstable();
        extras.dedup();
        let ends: &[&str] = if self.seeds > 1 { &["y_min", "y_max"] } else { &[] };
        let header = ["series", "x", "y"].iter().chain(&extras).chain(ends).copied();
        let mut text = header.collect::<Vec<_>>().join(",");
        text.push('\n');
        for point in &self.outcome.points {
            let _ = write!(text, "{},{},{}", quoted(&point.series), point.x, point.y);
            for extra in &extras {
                let value = point.more.get(extra).map(f64::to_string).unwrap_or_default();
                let _ = write!(text, ",{value}");
            }
            if self.seeds > 1 {
                let [low, high] = point.range.unwrap_or([point.y; 2]);
                let _ = write!(text, ",{low},{high}");
            }
            text.push('\n');
        }
        text
    }

    /// Returns the picture as a file, with the paper and the conditions as small print; `None` for a table. The
    /// file names `command`, which made it.
    #[must_use]
    pub fn picture_file(&self, command: &str) -> Option<String> {
        let notes: Vec<String> =
            [Some(self.circumstances()), self.conditions.clone()].into_iter().flatten().collect();
        Some(self.picture()?.file(&notes, command))
    }

    /// Returns the paper, the kind of time and the seeds.
    fn circumstances(&self) -> String {
        let seeds = match self.seeds {
            1 => format!("seed {}", self.seed),
            n => format!("medians of {n} seeds from {} on", self.seed),
        };
        format!("{} ({} time, {seeds})", self.source, self.mode)
    }

    /// Returns the report for a reader: the curves as a table, then the comparison with the paper.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}: {}\n{}\n", self.id, self.title, self.circumstances());
        if let Some(conditions) = &self.conditions {
            let _ = writeln!(text, "{conditions}");
        }
        text.push('\n');
        self.write_table(&mut text);
        for kind in Basis::KINDS {
            self.write_checks(&mut text, kind);
        }
        let _ = writeln!(text, "\n{}", self.summary);
        text
    }

    /// Writes the checks of one kind, under a heading.
    fn write_checks(&self, text: &mut String, kind: &str) {
        let mut checks = self.outcome.checks.iter().filter(|check| check.basis.kind() == kind).peekable();
        if checks.peek().is_none() {
            return;
        }
        let expected = if self.mode == Mode::Real { "wanted" } else { "expected" };
        let _ =
            write!(text, "\n{:<4} {kind:<64} {expected:>16} {:>16} {:>5} {:<8}", "", "here", "+-", "from");
        if self.seeds > 1 {
            let _ = write!(text, " {:>18} {:>5}", "least to most", "seeds");
        }
        text.push('\n');
        checks.for_each(|check| check.write_to(text));
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

    /// Writes the share of its peak that each variant kept, in a row below the curves.
    fn write_kept(&self, series: &[&str], text: &mut String) {
        if self.outcome.kept.is_empty() {
            return;
        }
        let _ = write!(text, "{:>28}", "kept of the peak (pairs)");
        for name in series {
            let kept = self.outcome.kept.get(*name).map(|&share| round(share).to_string());
            let _ = write!(text, " {:>12}", kept.unwrap_or_default());
        }
        text.push('\n');
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
        self.write_kept(&series, text);
    }
}

impl Check {
    /// Writes the check in one line, or in three if it compares words, and a known miss in another.
    fn write_to(&self, text: &mut String) {
        let (mark, from) = (self.mark(), self.origin.word());
        let (expected, measured) = (self.expected.to_string(), self.measured.to_string());
        let percent =
            if self.tolerance > 0.0 { format!("{} %", round(self.tolerance * 100.0)) } else { String::new() };
        let words = matches!(self.expected, Figure::Text(_));
        let (cells, more) = if words {
            (
                [String::new(), String::new()],
                format!("{:>10} {expected}\n{:>10} {measured}\n", "expected:", "here:"),
            )
        } else {
            ([expected, measured], String::new())
        };
        let [expected, measured] = cells;
        let mut line =
            format!("{mark:<4} {:<64} {expected:>16} {measured:>16} {percent:>5} {from:<8}", self.name);
        if let Some(over) = self.over {
            let range = over.range.map_or(String::new(), |range| Figure::Range(range).to_string());
            let _ = write!(line, " {range:>18} {:>4.0} %", 100.0 * over.passing);
        }
        if let Basis::Calibrated(fitted) = self.basis {
            let _ = write!(line, "  fitted: {fitted}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
        text.push_str(&more);
        if let (false, Some(why)) = (self.ok, self.known_miss) {
            let _ = writeln!(text, "{:>10} {why}", "because:");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Origin, calibrated, predicted};

    fn point(series: &str, x: f64, y: f64, more: &[(&'static str, f64)]) -> Point {
        Point { more: more.iter().copied().collect(), ..Point::new(series, x, y) }
    }

    fn outcome(y: f64, checks: Vec<Check>) -> Outcome {
        let points = vec![point("a", 1.0, y, &[("drops", 3.0)]), point("b", 1.0, 4.5, &[])];
        let (x, y) = ("offered (pps)", "delivered (pps)");
        Outcome::new(x, y, points, checks)
    }

    const EXPERIMENT: Experiment = Experiment {
        id: "t",
        title: "A test",
        source: "Nobody, 1996, figure 0",
        measure: |seed| outcome(seed as f64, vec![near(100.0 + seed as f64)]),
    };

    fn near(measured: f64) -> Check {
        predicted(Origin::Paper, "peak").near(100.0, measured, 0.05)
    }

    fn report(checks: Vec<Check>) -> Report {
        Report::new(&EXPERIMENT, Mode::Virtual, [7, 1], None, outcome(2.0, checks))
    }

    #[test]
    fn json_keeps_the_contract() {
        let checks = vec![
            near(101.0),
            calibrated("cost.input", Origin::Words, "share").within([0.4, 0.65], &[0.5, 0.6]),
        ];
        let json = serde_json::to_value(report(checks)).unwrap();
        for key in ["id", "title", "source", "mode", "seed", "seeds", "summary", "points", "checks"] {
            assert!(json.get(key).is_some(), "{key}");
        }
        assert_eq!(json["mode"], "virtual");
        assert_eq!(
            json["points"][0],
            serde_json::json!({"series": "a", "x": 1.0, "y": 2.0, "more": {"drops": 3.0}})
        );
        let check = serde_json::json!({"name": "peak", "expected": 100.0, "measured": 101.0,
            "tolerance": 0.05, "ok": true, "origin": "paper", "basis": "predicted"});
        assert_eq!(json["checks"][0], check);
        assert_eq!(json["checks"][1]["expected"], serde_json::json!([0.4, 0.65]));
        let predicted = serde_json::json!({"checks": 1, "hold": 1, "known_misses": 0});
        assert_eq!(json["summary"]["predicted"], predicted);
        assert_eq!(json["summary"]["calibrated"]["checks"], 1);
    }

    #[test]
    fn table_and_csv_have_every_point() {
        let report = report(vec![near(110.0)]);
        assert_eq!(report.csv(), "series,x,y,drops\na,1,2,3\nb,1,4.5,\n");
        let mut with_comma = report.clone();
        with_comma.outcome.points[0].series = "a, 5\"".into();
        assert!(with_comma.csv().contains("\n\"a, 5\"\"\",1,2,3\n"), "{}", with_comma.csv());
        let text = report.text();
        assert!(text.contains("FAIL peak"), "{text}");
        assert!(text.contains("4.5"), "{text}");
        assert_eq!(report.chart().curves.len(), 2);
    }

    #[test]
    fn a_report_over_seeds_has_medians_and_what_they_are_of() {
        let seeds = Seeds { first: 3, count: 5 };
        let report = EXPERIMENT.run_over(seeds, &mut |_, _| ());
        assert_eq!((report.seed, report.seeds), (3, 5));
        let [a, b] = &report.outcome.points[..] else { panic!("{report:?}") };
        assert_eq!((a.y, a.range, a.more["drops"]), (5.0, Some([3.0, 7.0]), 3.0));
        assert_eq!((b.y, b.range), (4.5, Some([4.5, 4.5])));
        let check = &report.outcome.checks[0];
        assert!(check.ok, "the median is within 5 %");
        assert_eq!(check.over.unwrap().passing, 0.6);
        assert!(report.csv().starts_with("series,x,y,drops,y_min,y_max\na,1,5,3,3,7\nb,1,4.5,,4.5,4.5\n"));
        let text = report.text();
        assert!(text.contains("103 to 107") && text.contains("60 %"), "{text}");
        assert!(text.contains("predicted: 1 of 1 hold"), "{text}");
    }

    #[test]
    fn points_that_not_every_seed_has_are_put_together_by_where_they_are() {
        let with = |points: Vec<Point>| Outcome { points, ..outcome(0.0, Vec::new()) };
        let (here, there) = (|y| point("a", 1.0, y, &[]), |y| point("a", 2.0, y, &[]));
        let over = Outcome::over(&[
            with(vec![here(1.0), there(10.0), point("a", 3.0, 0.0, &[])]),
            with(vec![there(20.0)]),
            with(vec![here(3.0), there(30.0)]),
        ]);
        let points: Vec<(f64, f64)> = over.unwrap().points.iter().map(|p| (p.x, p.y)).collect();
        assert_eq!(points, [(1.0, 2.0), (2.0, 20.0)], "what one of three has is left out");
    }

    #[test]
    fn a_known_miss_says_why() {
        let report = report(vec![near(110.0).known_miss("the moon")]);
        assert!(!report.passed());
        let text = report.text();
        assert!(text.contains("MISS peak") && text.contains("because: the moon"), "{text}");
        assert_eq!(report.summary.predicted, Count { checks: 1, hold: 0, known_misses: 1 });
    }
}
