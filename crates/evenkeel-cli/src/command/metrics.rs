//! `evenkeel metrics`: the figures of running commands for Prometheus.

use std::time::Duration;

use clap::Args;
use evenkeel_apps::exporter::{self, Address, Listening};

use crate::failure::Failure;
use crate::manual::guide::{Block, Example, Group, Guide, Section};
use crate::manual::texts;
use crate::message::{self, Level};
use crate::quantity;
use crate::terminal;

/// Print the figures of running commands in Prometheus' text format, or serve them over HTTP.
///
/// The figures are those of `evenkeel stats`, of the processes of this user. They are read once, or at each
/// request: a command does no work for it while nobody asks.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Read the figures of this process [default: of all of this user].
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Serve http://WHERE/metrics at ADDRESS:PORT, or at the path of a Unix socket [default: print once].
    #[arg(long, value_name = "WHERE", value_parser = str::parse::<Address>)]
    listen: Option<Address>,
    /// With --listen: stop after TIME, such as 10s [default: at Ctrl-C].
    #[arg(long, value_name = "TIME", value_parser = quantity::time, requires = "listen")]
    duration: Option<Duration>,
}

pub(crate) const GUIDE: Guide = Guide {
    groups: &[Group { heading: "Run", first: &["listen", "duration"], others: &[] }],
    sections: &[Section {
        heading: "Places",
        blocks: &[Block::Terms(&[
            ("127.0.0.1:9464", "An address and a port. Every program that reaches it can read the figures."),
            (
                "/run/evenkeel.metrics",
                "A Unix socket for its owner alone. One that a killed process left is replaced.",
            ),
        ])],
    }],
    examples: &[
        Example {
            says: "Print the metrics of all running commands of this user.",
            command: "evenkeel metrics",
        },
        Example {
            says: "Serve them to a Prometheus on this machine.",
            command: "evenkeel metrics --listen 127.0.0.1:9464",
        },
        Example {
            says: "Write them for node_exporter's textfile collector.",
            command: "evenkeel metrics > /srv/textfile/evenkeel.new &&\n\
                      \x20 mv /srv/textfile/evenkeel.new /srv/textfile/evenkeel.prom",
        },
    ],
    exit_status: &[
        ("0", "The metrics are printed, or were served until the end."),
        ("1", "The process PID cannot be read, or nothing can listen there."),
        ("2", texts::BAD_ARGUMENTS),
    ],
    signals: &[("SIGINT, SIGTERM, SIGHUP", "End the server, and remove its Unix socket.")],
    files: texts::FIGURES,
    see_also: &["stats", "top", "guard"],
};

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let pid = arguments.pid;
    let Some(at) = &arguments.listen else { return print(pid) };
    // A request for a report must not end the server.
    terminal::reports()?;
    let listening = Listening::at(at).map_err(|error| Failure::Machine(error.to_string()))?;
    message::say(&began(listening.address()));
    let text = move || exporter::text(&exporter::read(pid));
    exporter::serve(listening, arguments.duration, text).map_err(|error| Failure::Machine(error.to_string()))
}

/// Prints the metrics once. A process that was named must answer; one of several need not.
fn print(pid: Option<u32>) -> Result<(), Failure> {
    let figures = exporter::read(pid);
    if let (Some(pid), Some((_, error))) = (pid, figures.unreadable.first()) {
        return Err(Failure::machine(format!("process {pid}"), error));
    }
    for (pid, error) in &figures.unreadable {
        message::put(
            Level::Warning,
            &Failure::machine(format!("process {pid} is left out"), error).to_string(),
        );
    }
    terminal::print(&exporter::text(&figures))
}

/// Returns the line that says where the metrics are.
fn began(at: &Address) -> String {
    match at {
        Address::Tcp(address) => format!("serving metrics at http://{address}/metrics"),
        Address::Unix(path) => {
            let path = path.display();
            format!("serving metrics at {path}: curl --unix-socket {path} http://localhost/metrics")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use serde_json::Value;

    use super::*;

    const GUIDE_PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/metrics.md");
    const DASHBOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/grafana/evenkeel.json");

    /// Returns the table of all metrics for the guide.
    fn table() -> String {
        let row = |family: &exporter::Family| {
            let labels: Vec<String> = family.labels().map(|label| format!("`{label}`")).collect();
            format!("| `{}` | {} | {} | {} |\n", family.name(), family.kind(), labels.join(", "), family.help)
        };
        let rows: String = exporter::all().into_iter().map(row).collect();
        format!("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n{rows}")
    }

    /// `UPDATE=1 cargo test -p evenkeel-cli --bin evenkeel the_guide_lists` writes the table again.
    #[test]
    fn the_guide_lists_every_metric() {
        let page = std::fs::read_to_string(GUIDE_PAGE).unwrap();
        let begin = page.find("| metric | type | labels | meaning |\n").unwrap();
        let end = begin + page[begin..].find("\n\n").unwrap() + 1;
        if std::env::var_os("UPDATE").is_some() {
            let page = format!("{}{}{}", &page[..begin], table(), &page[end..]);
            return std::fs::write(Path::new(GUIDE_PAGE), page).unwrap();
        }
        assert_eq!(&page[begin..end], table(), "run this test with UPDATE=1");
    }

    /// Calls `see` with each text under one of these names, wherever it is.
    fn each_text<'a>(value: &'a Value, names: &[&str], see: &mut impl FnMut(&'a str)) {
        match value {
            Value::Array(all) => all.iter().for_each(|one| each_text(one, names, see)),
            Value::Object(all) => {
                for (name, value) in all {
                    match value.as_str().filter(|_| names.contains(&name.as_str())) {
                        Some(text) => see(text),
                        None => each_text(value, names, see),
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the words of an expression that begin as metrics do.
    fn metrics_in(expression: &str) -> impl Iterator<Item = &str> {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with("evenkeel_"))
    }

    /// Returns the labels that an expression selects or groups by.
    fn labels_in(expression: &str) -> BTreeSet<String> {
        let mut labels = BTreeSet::new();
        for part in expression.split('{').skip(1) {
            let selectors = part.split('}').next().unwrap().split(',');
            labels.extend(
                selectors.filter_map(|it| it.split(['=', '!']).next()).map(|it| it.trim().to_owned()),
            );
        }
        for part in expression.split("by (").skip(1) {
            labels.extend(part.split(')').next().unwrap().split(',').map(|label| label.trim().to_owned()));
        }
        labels
    }

    #[test]
    fn the_page_of_grafana_shows_metrics_that_there_are() {
        let page: Value = serde_json::from_str(&std::fs::read_to_string(DASHBOARD).unwrap()).unwrap();
        let families = exporter::all();
        let family = |name: &str| families.iter().find(|family| family.name() == name);
        let (mut shown, mut unknown) = (BTreeSet::new(), Vec::new());
        each_text(&page, &["expr", "query", "definition"], &mut |expression| {
            let metrics: Vec<&str> = metrics_in(expression).collect();
            for name in &metrics {
                shown.insert((*name).to_owned());
                unknown.extend(family(name).is_none().then(|| (*name).to_owned()));
            }
            let known: BTreeSet<&str> =
                metrics.iter().filter_map(|name| family(name)).flat_map(|it| it.labels()).collect();
            let is_there = |label: &&String| {
                known.contains(label.as_str()) || ["instance", "job"].contains(&label.as_str())
            };
            let labels = labels_in(expression);
            let wrong: Vec<&String> = labels.iter().filter(|label| !is_there(label)).collect();
            assert!(metrics.is_empty() || wrong.is_empty(), "{expression}: no label {wrong:?}");
        });
        assert!(unknown.is_empty(), "no such metrics: {unknown:?}");
        assert!(shown.len() >= 15, "{shown:?}");
        let sources = page["templating"]["list"].as_array().unwrap();
        assert!(sources.iter().any(|it| it["type"] == "datasource" && it["query"] == "prometheus"));
        for panel in page["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row") {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        }
    }
}
