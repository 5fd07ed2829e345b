//! `evenkeel schema`: prints the JSON Schema of a command's `--json`.
//!
//! The types of the reports are the source: their fields, and the descriptions in their docs.

use clap::Args;
use evenkeel::metrics::Guarded;
use evenkeel_apps::demo::results::Demonstration;
use evenkeel_apps::doctor::Report as Examined;
use evenkeel_apps::route::router::Plan;
use evenkeel_apps::wan::Report;
use evenkeel_apps::wan::cable::Demonstrated;
use evenkeel_lab::{Listing, Report as ExperimentReport};
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::completions::Completions;
use super::stream::{files, send, serve};
use super::{blast, load, monitor, route, stats, top, wan};
use crate::failure::Failure;
use crate::manual::guide::{Example, Guide};
use crate::{suggest, terminal};

/// Print the JSON Schema of the output of a command with --json.
///
/// The schema is of the draft 2020-12. It describes every field, and allows no other field.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print the schema of this command, such as blast or lab run.
    #[arg(
        required = true, value_name = "COMMAND", value_parser = suggest::command(&[]),
        hide_possible_values = true
    )]
    command: Vec<String>,
}

pub(crate) const GUIDE: Guide = Guide {
    examples: &[
        Example { says: "Print the schema of a report.", command: "evenkeel schema blast" },
        Example {
            says: "List the fields of a report.",
            command: "evenkeel schema monitor | jq '.\"$defs\".Monitor.properties | keys'",
        },
        Example {
            says: "Check a report with a validator.",
            command: "evenkeel schema lab run > schema.json\n\
                      evenkeel lab run l97-fig1 --no-files --json > report.json\n\
                      jsonschema schema.json --instance report.json",
        },
    ],
    exit_status: &[("0", "The schema is printed."), ("2", "The command has no --json.")],
    see_also: &["help"],
    ..Guide::EMPTY
};

/// Adds a type to the definitions of a generator, and returns a reference to it.
type Add = fn(&mut SchemaGenerator) -> Schema;

/// The commands with `--json`, each with the types of the values that it may print.
const OUTPUTS: [(&str, &[Add]); 17] = [
    ("demo", &[add::<Demonstration>]),
    ("echo", &[add::<serve::Output<'static>>]),
    ("sink", &[add::<serve::Output<'static>>]),
    ("send", &[add::<send::Output<'static>>]),
    ("http", &[add::<serve::Output<'static>>, add::<files::Output<'static>>]),
    ("blast", &[add::<blast::Output<'static>>]),
    ("load", &[add::<load::Output<'static>>]),
    ("monitor", &[add::<monitor::Output<'static>>]),
    ("doctor", &[add::<Examined>]),
    ("guard", &[add::<Guarded>]),
    ("route", &[add::<route::Output<'static>>, add::<route::cable::Output<'static>>, add::<Plan>]),
    ("wan", &[add::<wan::Output<'static, Report>>, add::<wan::Output<'static, Demonstrated>>]),
    ("stats", &[add::<stats::Stats>]),
    ("top", &[add::<top::Top>]),
    ("lab list", &[add::<Vec<Listing>>]),
    ("lab run", &[add::<ExperimentReport>, add::<Vec<ExperimentReport>>]),
    ("completions", &[add::<Completions>]),
];

fn add<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let command = arguments.command.join(" ");
    let Some((name, types)) = OUTPUTS.iter().find(|(name, _)| *name == command) else {
        let names: Vec<&str> = OUTPUTS.iter().map(|(name, _)| *name).collect();
        let line = format!("`{command}` has no --json: expected {}", names.join(", "));
        return Err(Failure::Usage(line));
    };
    terminal::print_json(&schema(name, types))
}

/// Returns the schema of a command that prints values of `types`.
fn schema(command: &str, types: &[Add]) -> Schema {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let any_of: Vec<Schema> = types.iter().map(|add| add(&mut generator)).collect();
    let mut schema = json_schema!({
        "$schema": generator.settings().meta_schema,
        "title": format!("evenkeel {command} --json"),
    });
    match &any_of[..] {
        [only] => schema.ensure_object().extend(only.as_object().cloned().unwrap_or_default()),
        _ => _ = schema.insert("anyOf".to_owned(), serde_json::json!(any_of)),
    }
    schema.insert("$defs".to_owned(), generator.take_definitions(false).into());
    Finish.transform(&mut schema);
    schema
}

/// Forbids fields that a schema does not describe, and gives descriptions the words of JSON.
#[derive(Debug)]
struct Finish;

/// The keywords of schemas that add properties to those of an object.
const PARTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// The keyword that forbids further properties of one schema, and the keyword that also counts its parts.
const CLOSED: &str = "additionalProperties";
const CLOSED_WITH_PARTS: &str = "unevaluatedProperties";

impl Transform for Finish {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        // serde's defaults are for reading older reports.
        object.remove("default");
        if let Some(Value::String(description)) = object.get_mut("description") {
            *description = in_json(description);
        }
        if !object.contains_key("properties") {
            return;
        }
        let mut has_parts = false;
        for keyword in PARTS {
            let parts = object.get_mut(keyword).and_then(Value::as_array_mut);
            for part in parts.into_iter().flatten() {
                open(part);
                has_parts = true;
            }
        }
        let keyword = if has_parts { CLOSED_WITH_PARTS } else { CLOSED };
        object.insert(keyword.to_owned(), false.into());
    }
}

/// Allows a part of a schema further properties: those of the whole.
fn open(part: &mut Value) {
    let Some(object) = part.as_object_mut() else { return };
    for keyword in [CLOSED, CLOSED_WITH_PARTS] {
        if object.get(keyword) == Some(&Value::Bool(false)) {
            object.remove(keyword);
        }
    }
    for keyword in PARTS {
        object.get_mut(keyword).and_then(Value::as_array_mut).into_iter().flatten().for_each(open);
    }
}

/// Returns the doc of a field as a description: paragraphs are lines, and `None` is `null`.
fn in_json(doc: &str) -> String {
    let paragraphs: Vec<String> = doc.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
    paragraphs.join("\n").replace("`None`", "`null`")
}
