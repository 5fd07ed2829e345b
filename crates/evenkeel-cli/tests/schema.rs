//! The JSON Schema of what commands print with `--json`: the files in the documentation, and real reports.
//!
//! `UPDATE=1 cargo test -p evenkeel-cli --test schema` writes the files again.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use common::{SCHEMAS, assert_described, evenkeel, json, validator};
use serde_json::{Value, json};

/// The commands that print JSON.
const COMMANDS: [&str; 17] = [
    "demo",
    "echo",
    "sink",
    "send",
    "http",
    "blast",
    "load",
    "monitor",
    "route",
    "doctor",
    "guard",
    "wan",
    "stats",
    "top",
    "lab list",
    "lab run",
    "completions",
];

fn words(command: &str) -> Vec<&str> {
    command.split(' ').collect()
}

/// Returns the schema of a command, as the program prints it.
fn printed(command: &str) -> String {
    let output = evenkeel(&[&["schema"], &words(command)[..]].concat());
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_schemas_in_the_documentation_are_current() {
    let mut known = BTreeSet::new();
    for command in COMMANDS {
        let file = Path::new(SCHEMAS).join(format!("{}.json", command.replace(' ', "-")));
        common::assert_current(&file, &printed(command));
        known.insert(file);
    }
    let there: BTreeSet<_> = fs::read_dir(SCHEMAS).unwrap().map(|entry| entry.unwrap().path()).collect();
    let unknown: Vec<_> = there.difference(&known).collect();
    assert!(unknown.is_empty(), "no command prints these schemas: {unknown:?}");
}

/// Every command with `--json` in its help has a schema, and every other one is refused.
#[test]
fn a_command_has_a_schema_if_it_prints_json() {
    let help = String::from_utf8(evenkeel(&["--help"]).stdout).unwrap();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("    "));
    let mut found: BTreeSet<String> = BTreeSet::new();
    for name in commands.filter_map(|line| line.split_whitespace().next()) {
        let subcommands = if name == "lab" { vec!["lab list", "lab run"] } else { vec![name] };
        for command in subcommands {
            let help = evenkeel(&[&words(command)[..], &["--help"]].concat()).stdout;
            if String::from_utf8(help).unwrap().contains("  --json") {
                found.insert(command.to_owned());
            }
        }
    }
    assert_eq!(found, COMMANDS.map(str::to_owned).into());
    let output = evenkeel(&["schema", "help"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("`help` has no --json: expected demo, echo"), "{said}");
}

/// Returns the names of all properties in a schema, with those of its definitions.
fn properties(schema: &Value, names: &mut BTreeSet<String>) {
    if let Some(of) = schema.get("properties").and_then(Value::as_object) {
        names.extend(of.keys().cloned());
    }
    match schema {
        Value::Array(all) => all.iter().for_each(|one| properties(one, names)),
        Value::Object(all) => all.values().for_each(|one| properties(one, names)),
        _ => {}
    }
}

#[test]
fn the_page_about_json_names_every_field_and_links_every_schema() {
    let page = fs::read_to_string(Path::new(SCHEMAS).with_file_name("json.md")).unwrap();
    for command in COMMANDS {
        let file = format!("schema/{}.json", command.replace(' ', "-"));
        assert!(page.contains(&format!("]({file})")), "no link to {file}");
        let mut names = BTreeSet::new();
        properties(&serde_json::from_str(&printed(command)).unwrap(), &mut names);
        let unnamed: Vec<_> = names.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
        assert!(unnamed.is_empty(), "{command}: the page does not name {unnamed:?}");
    }
}

/// A report of each kind on the cable. Further tests of this crate check the reports of their commands, on
/// devices, too.
#[test]
fn reports_are_as_their_schemas_describe_them() {
    for line in [
        "demo --quick --points 3 --seconds-per-point 0.05 --architectures eager --no-kernel --no-report",
        "echo cable --rate 5k --duration 200ms",
        "echo cable --tcp --connections --duration 200ms",
        "sink cable --rate max --duration 200ms --architecture eager",
        "sink cable --tcp --clients 1 --bytes 64k --count 1 --duration 20s",
        "send cable --bytes 100k",
        "send cable --bytes 100k --sink",
        "http cable --duration 200ms --connections=3",
        "blast cable --rate 5k --duration 200ms",
        "load http://10.77.0.1/ --on cable --rate 100 --duration 300ms --warm-up 0 --cold 5 --cold-rate 20",
        "load http://10.77.0.1/ --on cable --closed --connections 2 --duration 200ms --warm-up 0",
        "monitor cable --rate 5k --duration 200ms",
        "route cable --rate 5k --duration 200ms",
        "route --check --link packet:a,10.0.1.1/24 --link packet:b,10.0.2.1/24 --route 10.9.0.0/16,link=b",
        "wan cable --duration 300ms --loss 1%",
        "lab list",
        "lab run l97-fig1 --no-files --seed 1",
        "completions bash",
    ] {
        // The function validates.
        json(&[&words(line)[..], &["--json"]].concat());
    }
    // With few seeds not every check holds, which is the exit status.
    let several = words("lab run l97-fig1 t00-tab8 --no-files --seeds 2 --json");
    assert_eq!(common::report(&several, evenkeel(&several).stdout).as_array().unwrap().len(), 2);
}

/// Returns the paths of all fields of a value that are objects.
fn objects(value: &Value, path: &str, paths: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            paths.push(path.to_owned());
            fields.iter().for_each(|(name, value)| objects(value, &format!("{path}/{name}"), paths));
        }
        Value::Array(all) => {
            all.iter().enumerate().for_each(|(nth, value)| objects(value, &format!("{path}/{nth}"), paths));
        }
        _ => {}
    }
}

/// The fields of `load` that are there only with `--on`.
const WITH_ON: [&str; 4] = ["tcp", "counters", "server", "device_failed"];

/// A field more, a field less, or a value of another type is an error in every object of a report, but in
/// those that map names to numbers.
#[test]
fn a_report_that_differs_from_its_schema_is_refused() {
    for line in [
        "echo cable --tcp --connections --duration 200ms",
        "blast cable --rate 5k --duration 200ms",
        "load http://10.77.0.1/ --on cable --rate 50 --duration 200ms --warm-up 0 --cold 5",
        "lab run l97-fig1 --no-files --seeds 2",
    ] {
        let arguments = [&words(line)[..], &["--json"]].concat();
        let (report, validator) = (json(&arguments), validator(&arguments));
        assert_described(&arguments, &report);
        let mut paths = Vec::new();
        objects(&report, "", &mut paths);
        let is_map = |path: &&String| path.ends_with("tcp/counters") || path.ends_with("/more");
        for path in paths.iter().filter(|path| !is_map(path)) {
            let mut more = report.clone();
            more.pointer_mut(path).unwrap()["undocumented"] = json!(1);
            assert!(!validator.is_valid(&more), "{line}: a field more of `{path}` is accepted");
            let first = report.pointer(path).unwrap().as_object().unwrap().keys().next().unwrap();
            let mut other = report.clone();
            other.pointer_mut(path).unwrap()[first] = json!([[]]);
            assert!(!validator.is_valid(&other), "{line}: `{path}/{first}` may be a list of lists");
        }
        let fields = report.as_object().unwrap().keys();
        for name in fields.filter(|name| words(line)[0] != "load" || !WITH_ON.contains(&name.as_str())) {
            let mut less = report.clone();
            less.as_object_mut().unwrap().remove(name);
            assert!(!validator.is_valid(&less), "{line}: `{name}` may be missing");
        }
    }
}
