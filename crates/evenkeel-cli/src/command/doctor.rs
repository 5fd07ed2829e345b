//! `evenkeel doctor`: tells what this machine allows, what is missing, and how to get it.

use std::time::Duration;

use clap::Args;
use evenkeel_apps::doctor::{self, Area, Check, Finding, Options, Report, Verdict};

use crate::failure::Failure;
use crate::manual::guide::{Block, Example, Group, Guide, Section};
use crate::manual::texts;
use crate::terminal::{self, Progress};
use crate::{quantity, suggest};

/// Tell what this machine's kernel, drivers and limits allow, what is missing, and how to get it.
///
/// The doctor also tells which sockets lose datagrams at present. It changes nothing. Without root it sees
/// less, and says what it could not see.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Examine network interface NAME [default: those of hardware and veth pairs that are up].
    #[arg(value_name = "NAME")]
    interfaces: Vec<String>,
    /// Watch for losses for TIME.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::period)]
    watch: Duration,
    /// Test, as root and for about five seconds, whether the kernel livelocks.
    #[arg(long)]
    livelock_test: bool,
    /// Fail unless all of these checks are good, such as btf,af-xdp.
    #[arg(
        long, value_name = "CHECK,...", value_delimiter = ',', hide_possible_values = true,
        value_parser = suggest::with(check, Check::ALL.iter().map(|check| check.name))
    )]
    require: Vec<String>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

pub(crate) const GUIDE: Guide = Guide {
    groups: &[
        Group { heading: "Examination", first: &["watch", "livelock_test"], others: &[] },
        Group { heading: "Output", first: &["require", "json"], others: &[] },
    ],
    sections: &[Section {
        heading: "Verdicts",
        blocks: &[
            Block::Terms(&[
                ("bad", "Packets are lost at present, or the livelock test lost most of them."),
                ("missing", "The machine or this process lacks it."),
                ("could be better", "It works, and another setting would serve better."),
                ("unknown", "It could not be seen, for the reason given."),
                ("good", "Nothing has to be done."),
            ]),
            Block::Text(
                "The livelock test floods a UDP socket on a veth pair in a network namespace of its own, at \
                 rates that rise. It keeps two cores busy.",
            ),
        ],
    }],
    examples: &[
        Example { says: "Examine the machine.", command: "evenkeel doctor" },
        Example {
            says: "As root, look for ten seconds which sockets lose datagrams.",
            command: "evenkeel doctor --watch 10s --json | jq '.losing_sockets[]'",
        },
        Example {
            says: "In a script, ask whether AF_XDP and the guard can be used.",
            command: "evenkeel doctor --watch 1ms --require af-xdp,guard > /dev/null",
        },
        Example {
            says: "As root, test whether this kernel livelocks.",
            command: "evenkeel doctor --livelock-test",
        },
    ],
    exit_status: &[
        ("0", "The machine was examined, whatever was found."),
        (
            "1",
            "There is no such interface, the livelock test did not run, or a check of --require is not good.",
        ),
        ("2", texts::BAD_ARGUMENTS),
    ],
    see_also: &["guard", "stats", "ethtool(8)", "ss(8)"],
    ..Guide::EMPTY
};

/// Reads the name of a check.
fn check(name: &str) -> Result<String, String> {
    let is_known = Check::ALL.iter().any(|check| check.name == name);
    is_known.then(|| name.to_owned()).ok_or_else(|| {
        let names: Vec<&str> = Check::ALL.iter().map(|check| check.name).collect();
        format!("expected {}", names.join(", "))
    })
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let options = Options {
        interfaces: arguments.interfaces.clone(),
        watch: arguments.watch,
        livelock_test: arguments.livelock_test,
    };
    let mut progress = Progress::answering()?;
    let report = doctor::examine(&options, |line| progress.show(line))?;
    drop(progress);
    if arguments.json {
        terminal::print_json(&report)?;
    } else {
        terminal::print(&describe(&report))?;
    }
    ended(&report, arguments)
}

/// Returns an error if the report lacks what was asked for.
fn ended(report: &Report, arguments: &Arguments) -> Result<(), Failure> {
    if arguments.livelock_test && report.livelock.is_none() {
        let why = report.findings.iter().find(|finding| finding.area == Area::Livelock);
        let why = why.map_or("unknown", |finding| finding.seen.as_str());
        return Err(Failure::Machine(format!("the livelock test did not run: {why}")));
    }
    let lacking: Vec<String> = arguments.require.iter().filter_map(|check| lack(report, check)).collect();
    match lacking.as_slice() {
        [] => Ok(()),
        lacking => Err(Failure::Machine(format!("not good: {}", lacking.join(", ")))),
    }
}

/// Returns a check with its worst verdict, if it is not good.
fn lack(report: &Report, check: &str) -> Option<String> {
    let found = report.findings.iter().filter(|finding| finding.check == check);
    match found.map(|finding| finding.verdict).min() {
        Some(Verdict::Good) => None,
        Some(verdict) => Some(format!("{check} ({})", verdict.words())),
        None => Some(format!("{check} (not examined)")),
    }
}

/// Returns the report as text: areas with the worst findings first.
fn describe(report: &Report) -> String {
    let same = |a: &Finding, b: &Finding| (a.area, &a.interface) == (b.area, &b.interface);
    let mut areas: Vec<&[Finding]> = report.findings.chunk_by(same).collect();
    // The order is stable: areas that are as bad as each other stay as they are.
    areas.sort_by_key(|findings| findings.first().map(|worst| worst.verdict));
    let text: String = areas.into_iter().map(|findings| area(findings) + "\n").collect();
    text + &summary(&report.findings)
}

fn area(findings: &[Finding]) -> String {
    let heading = findings.first().map(heading).unwrap_or_default();
    std::iter::once(heading).chain(findings.iter().map(describe_one)).collect()
}

fn heading(finding: &Finding) -> String {
    match (finding.area, &finding.interface) {
        (Area::Kernel, _) => "Kernel, privileges and limits\n".to_owned(),
        (Area::Interface, Some(name)) => format!("Interface {name}\n"),
        (Area::Interface, None) => "Interfaces\n".to_owned(),
        (Area::Share, _) => "Share of processors\n".to_owned(),
        (Area::Trouble, _) => "Losses at present\n".to_owned(),
        (Area::Livelock, _) => "Livelock test\n".to_owned(),
    }
}

/// Returns a finding: one line if it is good, and otherwise also why it matters, and the command.
fn describe_one(finding: &Finding) -> String {
    let Finding { check, verdict, seen, source, why, mend, .. } = finding;
    let mut text = format!("  {:<15}  {check}: {seen} [{source}]\n", verdict.words());
    if *verdict != Verdict::Good {
        text.push_str(&format!("{:19}{why}\n", ""));
    }
    if let Some(command) = mend {
        text.push_str(&format!("{:19}# {command}\n", ""));
    }
    text
}

/// Returns how many findings there are of each verdict.
fn summary(findings: &[Finding]) -> String {
    const ALL: [Verdict; 5] =
        [Verdict::Bad, Verdict::Missing, Verdict::CouldBeBetter, Verdict::Unknown, Verdict::Good];
    let count = |verdict: &Verdict| findings.iter().filter(|finding| finding.verdict == *verdict).count();
    let counts = ALL.iter().map(|verdict| (count(verdict), verdict.words()));
    let counts: Vec<_> =
        counts.filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} {words}")).collect();
    counts.join(", ") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(area: Area, check: &'static str, verdict: Verdict) -> Finding {
        let mend = (verdict == Verdict::Missing).then(|| "mend it".to_owned());
        let (seen, source) = ("seen".to_owned(), "source".to_owned());
        Finding { area, interface: None, check, verdict, seen, source, why: "It matters.", mend }
    }

    fn report(findings: Vec<Finding>) -> Report {
        let (interfaces, losing_sockets) = (Vec::new(), Vec::new());
        Report { watched_seconds: 1.0, interfaces, findings, losing_sockets, livelock: None }
    }

    #[test]
    fn the_worst_area_is_first_and_good_findings_take_a_line() {
        let text = describe(&report(vec![
            finding(Area::Kernel, "tun", Verdict::Good),
            finding(Area::Share, "autogroup", Verdict::Missing),
        ]));
        let expected = "Share of processors\n  missing          autogroup: seen [source]\n\
                        \x20                  It matters.\n                   # mend it\n\n\
                        Kernel, privileges and limits\n  good             tun: seen [source]\n\n\
                        1 missing, 1 good\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_required_check_is_as_good_as_its_worst_finding() {
        let report = report(vec![
            finding(Area::Interface, "rps", Verdict::Good),
            finding(Area::Interface, "rps", Verdict::Unknown),
            finding(Area::Kernel, "tun", Verdict::Good),
        ]);
        assert_eq!(lack(&report, "tun"), None);
        assert_eq!(lack(&report, "rps").as_deref(), Some("rps (unknown)"));
        assert_eq!(lack(&report, "livelock").as_deref(), Some("livelock (not examined)"));
    }
}
