//! All experiments on one page: their results, the confidence in them, and their limits.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use evenkeel_sim::machine::{Machine, Price};

use crate::check::{Basis, Check, Figure};
use crate::experiment::{Report, Summary};
use crate::statistics::micros;

const INTRODUCTION: &str = "\
# The experiments over many seeds

Written by `COMMAND`; do not edit.

Every experiment ran in virtual time with each of SEEDS seeds. A figure is the median of what came
out, and the median is what a check judges; beside it are the least and the greatest of all seeds,
and for how many seeds the check holds alone.

A check is **predicted** if nothing was fitted to what it expects, and **calibrated** if a parameter
was, or if it follows from those that were: that it holds says that the fit is a fit. A
**condition** says whether the others mean anything. What is expected stands in the paper (*paper*),
or the paper says it in words and the bounds are ours (*words*), or it is arithmetic on the paper's
figures (*derived*), or the paper says nothing of it (*ours*). Tolerances stand in the column
*expected*. A *miss* is known, explained, and enforced by a test; nothing else may be missed, and no
miss may be met.
";

/// The parts of each paper that no experiment covers, with the reason; papers by their keys.
const MISSING: [(&str, &str); 4] = [
    (
        "O96",
        "\
- Curves that the LRP paper has as pictures only, and whose values its text does not give, are drawn
  and not checked: the slopes of its figure 4.
- Of its figure 4, that the greater height of 4.4BSD's hump comes from who is charged: here it comes from
  longer interruptions, and with nobody charged for anything all figures are the same. That fixed
  priorities remove the hump: the scheduler here has none. The priority of control traffic.
- Its table 1's row of the vendor's own driver, and its anomaly of 300 µs, which nobody could explain.
",
    ),
    (
        "L97",
        "\
- Figures 3 and 4 of the livelock paper are diagrams. Of figures 11 and 12 the moments that are
  inside one price have no counterpart (one and four).
- Its figure 1's stages of a burst of four: one of its moments is checked, the others are in the picture only.
  That latency is linear for a wide range of packet sizes: no price of this machine depends on bytes.
- That output goes on while input is inhibited is checked by what is forwarded then, and not by itself.
- Its curves that are pictures only, and whose values its text does not give, are drawn and not
  checked: all of figure 7 but the order, figure 15 without feedback.
- Its figure 15's noise without feedback: it comes from bursts that change with the rate; here they
  grow steadily.
- Its sections 5.2 and 7 have alternatives without figures; tests of `evenkeel-sim` (`livelock`) show
  them.
",
    ),
    (
        "S98",
        "\
- Figure 2 of the scalable-kernels paper is an example of the bitmaps of descriptors: a test of
  `evenkeel-ready` has it. Figure 14, and the split of the new select's cost in tables 7, 11 to 13,
  are of parts of code that have no counterpart here.
- Of its live trials those with caching on (tables 8 to 11, figures 11 and 12), whose difference
  the paper lays to disks that were configured badly, and Squid before its loop was changed (table
  12), whose loop is a price here: of `comm_select`'s 30.12 and 0.54 % the second is
  checked. Peaks of single seconds (tables 3, 8, 14): the day has 16 minutes.
- What it says of data caches, cycles for an instruction among it: there are none here.
",
    ),
    (
        "T00",
        "\
- Of the soft-timers paper the bodies of all tables, and its figures, which are pictures: checked is
  what its text repeats of them. Tables II and III are about caches, which there are none of here,
  figure 5 is a diagram; the Alpha of table I. That the 8253 gives no result at 10 µs is said of table
  II: with the prices here it takes less than half of the time.
- Release of data at the rate of acknowledgments, and what it does about big acknowledgments (section 4).
- Its player and its build of a kernel are synthetic here, and show nothing of the real programs.
- Its curves are pictures; of most of their points nothing is known, and nothing is checked.
",
    ),
];

/// Returns the page of some reports, which states that `command` has written it.
#[must_use]
pub fn markdown(reports: &[Report], command: &str) -> String {
    let seeds = reports.iter().map(|report| report.seeds).max().unwrap_or(1).to_string();
    let mut page = INTRODUCTION.replace("COMMAND", command).replace("SEEDS", &seeds);
    totals(&mut page, reports);
    misses(&mut page, reports);
    let papers: BTreeSet<String> = reports.iter().map(|report| paper(report.id)).collect();
    prices(&mut page, &papers);
    missing(&mut page, &papers);
    for report in reports {
        figure(&mut page, report);
    }
    page
}

fn totals(page: &mut String, reports: &[Report]) {
    page.push_str("\n## All at a glance\n\n");
    page.push_str(&header(&["experiment", "predicted", "calibrated", "conditions", "known misses"]));
    let mut row = |name: &str, s: &Summary| {
        let missed = s.predicted.known_misses + s.calibrated.known_misses + s.conditions.known_misses;
        let _ =
            writeln!(page, "| {name} | {} | {} | {} | {missed} |", s.predicted, s.calibrated, s.conditions);
    };
    for report in reports {
        row(&format!("`{}` {}", report.id, report.title), &report.summary);
    }
    row("**all**", &Summary::of(reports.iter().flat_map(|report| &report.outcome.checks)));
    page.push_str("\nEach column says how many checks hold, of how many.\n");
}

/// Returns the first two lines of a table.
fn header(columns: &[&str]) -> String {
    format!("| {} |\n|{}\n", columns.join(" | "), " --- |".repeat(columns.len()))
}

fn misses(page: &mut String, reports: &[Report]) {
    page.push_str("\n## What is missed\n\n");
    for report in reports {
        for check in report.outcome.checks.iter().filter(|check| !check.ok) {
            let (expected, measured) = (&check.expected, &check.measured);
            let why = check.known_miss.unwrap_or("**not known**");
            let _ = writeln!(
                page,
                "- `{}`, {}: {expected} expected, {measured} here; {why}.",
                report.id, check.name
            );
        }
    }
}

/// Returns the key of the paper of an experiment.
fn paper(id: &str) -> String {
    id.split('-').next().unwrap_or_default().to_uppercase()
}

/// Writes the prices that differ by architecture or variant, for the machines of some papers.
fn prices(page: &mut String, papers: &BTreeSet<String>) {
    let machines =
        Machine::names().map(|name| Machine::built_in(name).expect("a test checks the built-in models"));
    let is_of = |machine: &Machine| {
        let mut sources = machine.prices().iter().map(|price| &price.source);
        sources.any(|source| papers.iter().any(|paper| source.contains(paper)))
    };
    let rows: String = machines.filter(is_of).map(|machine| different(&machine)).collect();
    if !rows.is_empty() {
        page.push_str("\n## Prices that differ by architecture\n\n");
        page.push_str(&header(&["machine", "price", "µs", "beside", "reason"]));
        page.push_str(&rows);
    }
}

/// Returns the rows of a machine's prices that differ by architecture or variant.
fn different(machine: &Machine) -> String {
    let mut rows = String::new();
    for price in machine.prices() {
        let Some(reason) = &price.reason else { continue };
        let us = |price: &Price| micros(price.time);
        let kind = price.path.rsplit('.').next().unwrap_or_default();
        let base = machine.prices().iter().find(|other| other.path == format!("cost.{kind}"));
        let base = base.map_or("nothing".to_owned(), |base| us(base).to_string());
        let (name, path) = (machine.name(), &price.path);
        let _ = writeln!(rows, "| {name} | `{path}` | {} | {base} | {reason} |", us(price));
    }
    rows
}

fn missing(page: &mut String, papers: &BTreeSet<String>) {
    page.push_str("\n## What is missing\n\n");
    let of_these = MISSING.iter().filter(|(paper, _)| papers.contains(*paper));
    page.extend(of_these.map(|(_, what)| *what));
}

fn figure(page: &mut String, report: &Report) {
    let _ = writeln!(page, "\n## `{}`: {}\n\n{}\n", report.id, report.title, report.source);
    page.push_str(&header(&["", "check", "expected", "here", "least to most", "seeds", "from", "basis"]));
    for check in &report.outcome.checks {
        let _ = writeln!(page, "{}", row(check));
    }
}

fn row(check: &Check) -> String {
    let tolerance = if check.tolerance > 0.0 {
        format!(" ± {} %", (100.0 * check.tolerance).round())
    } else {
        String::new()
    };
    let range = check.over.and_then(|over| over.range).map(|range| Figure::Range(range).to_string());
    let passing = check.over.map_or(f64::from(u8::from(check.ok)), |over| over.passing);
    let basis = match check.basis {
        Basis::Predicted => "predicted".to_owned(),
        Basis::Calibrated(fitted) => format!("calibrated: {fitted}"),
        Basis::Condition => "condition".to_owned(),
    };
    format!(
        "| {} | {} | {}{tolerance} | {} | {} | {:.0} % | {} | {basis} |",
        check.mark(),
        check.name,
        check.expected,
        check.measured,
        range.unwrap_or_default(),
        100.0 * passing,
        check.origin.word(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;

    #[test]
    fn every_paper_has_its_part() {
        let papers: BTreeSet<String> = crate::experiments().iter().map(|e| paper(e.id)).collect();
        assert_eq!(papers, MISSING.map(|(paper, _)| paper.to_owned()).into());
        let mut page = String::new();
        prices(&mut page, &papers);
        assert!(["sparcstation-20", "decstation-3000-300"].iter().all(|name| page.contains(name)), "{page}");
    }

    #[test]
    fn the_page_names_what_is_missed_and_why_and_what_every_price_rests_on() {
        let page = markdown(&[find("l97-fig1").unwrap().run(1)], "evenkeel lab run l97-fig1");
        assert!(page.contains("Written by `evenkeel lab run l97-fig1`; do not edit."), "{page}");
        assert!(page.contains("| ok | first packet of a burst of 16 (ms) | 5.03 ± 5 % |"), "{page}");
        assert!(
            page.contains("- `l97-fig1`, end of the copy of the third packet of four (ms): 1.33 expected"),
            "{page}"
        );
        assert!(page.contains("`architecture.eager.deliver` | 165 | 3 | none: "), "{page}");
        assert!(page.contains("Figures 3 and 4 of the livelock paper"), "{page}");
        let others = ["sparcstation-20", "of the LRP paper", "scalable-kernels", "soft-timers"];
        assert_eq!(others.map(|other| page.contains(other)), [false; 4], "{page}");
        let tables = page.lines().filter(|line| line.starts_with('|'));
        assert!(tables.into_iter().all(|line| line.ends_with('|')), "{page}");
    }
}
