//! A configuration file: options of the command line in TOML.
//!
//! Each key is the name of an option, and its value has the parser of that option. So a file accepts
//! everything that the command line accepts. Links, routes and neighbours may also be tables.

use std::ffi::OsString;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{Command, CommandFactory as _, Parser as _};
use evenkeel_apps::route::text_error::TextError;
use evenkeel_apps::text::alternatives;
use evenkeel_apps::text::read_text;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::failure::Failure;
use crate::usage;

/// Keys that only the command line accepts, for every command.
const NOT_IN_FILES: [&str; 3] = ["config", "check", "help"];
/// Options that name files. Their paths are relative to the configuration file.
const PATHS: [&str; 3] = ["rules", "log", "trace"];
/// A value that resets an option. It is not the name of a file.
const NONE: &str = "none";

/// Parses the command line of this process again, with the options of a file before its own. `name` is the
/// name of the command. The file must not give the options `not_in_files`.
pub(crate) fn complete(
    path: &Path,
    name: &str,
    not_in_files: &[&str],
) -> Result<(crate::Command, File), Failure> {
    let text = read_text(path)
        .map_err(|error| Failure::machine(format!("cannot read {}", path.display()), error))?;
    let whole = crate::Cli::command();
    let command = whole.find_subcommand(name).unwrap_or(&whole);
    let file = File::parse(path, &text, command, not_in_files);
    let file = file.map_err(|error| Failure::Usage(error.to_string()))?;
    let (before, given): (Vec<OsString>, Vec<OsString>) =
        (std::env::args_os().take(2).collect(), std::env::args_os().skip(2).collect());
    let all = before.into_iter().chain(file.arguments().map(OsString::from)).chain(given);
    let parsed = crate::Cli::try_parse_from(all).map_err(|error| Failure::Usage(usage::said(&error)))?;
    Ok((parsed.command, file))
}

/// Returns the failure of a command whose name was not the first word.
pub(crate) fn misplaced(name: &str) -> Failure {
    Failure::Usage(format!("`{name}` must be the first word"))
}

/// An option as a file gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    /// The name, without dashes.
    pub(crate) option: String,
    /// The value; `None` for a switch.
    pub(crate) value: Option<String>,
    /// The offset of the value in the file, in bytes.
    pub(crate) at: usize,
    /// The offset of the name in the file, in bytes.
    key_at: usize,
}

/// The options that a configuration file gives, with its name and text.
#[derive(Debug, Clone, Default)]
pub(crate) struct File {
    name: String,
    text: String,
    pub(crate) given: Vec<Given>,
}

impl File {
    /// Parses the text of the file at `path` with the options of `command`.
    fn parse(path: &Path, text: &str, command: &Command, not_in_files: &[&str]) -> Result<Self, TextError> {
        let mut file = Self { name: path.display().to_string(), text: text.to_owned(), given: Vec::new() };
        let table = DeTable::parse(text)
            .map_err(|error| file.error_at(error.span().map_or(0, |span| span.start), error.message()))?;
        for (key, value) in table.get_ref() {
            let name: &str = key.get_ref();
            if NOT_IN_FILES.contains(&name) || not_in_files.contains(&name) {
                let what = format!("`{name}` is for the command line only");
                return Err(file.error_at(key.span().start, what));
            }
            file.option(key, value)?;
        }
        // The options keep their order in the file.
        file.given.sort_by_key(|given| given.at);
        // What is required may be on the command line.
        let command = command.clone().no_binary_name(true).mut_args(|argument| argument.required(false));
        file.check(&file.given, &command)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for given in &mut file.given {
            let is_path = PATHS.contains(&given.option.as_str());
            if let Some(value) = given.value.as_mut().filter(|value| is_path && *value != NONE) {
                *value = folder.join(&*value).display().to_string();
            }
        }
        Ok(file)
    }

    /// Returns the file's options as arguments of the command line.
    fn arguments(&self) -> impl Iterator<Item = String> {
        self.given.iter().map(argument)
    }

    /// Returns an error at the byte `at` of the file.
    pub(crate) fn error_at(&self, at: usize, what: impl AsRef<str>) -> TextError {
        TextError::at(&self.name, &self.text, at, what.as_ref())
    }

    fn option(
        &mut self,
        key: &Spanned<toml::de::DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), TextError> {
        let name: &str = key.get_ref();
        let elements = match value.get_ref() {
            DeValue::Array(elements) => elements.iter().collect(),
            _ => vec![value],
        };
        for element in elements {
            let at = element.span().start;
            let value = match element.get_ref() {
                DeValue::Boolean(false) => continue,
                DeValue::Boolean(true) => None,
                DeValue::Table(table) => Some(self.table(name, key.span().start, at, table)?),
                other => Some(self.plain(at, other)?),
            };
            self.given.push(Given { option: name.to_owned(), value, at, key_at: key.span().start });
        }
        Ok(())
    }

    fn plain(&self, at: usize, value: &DeValue<'_>) -> Result<String, TextError> {
        match value {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) => Ok(number.as_str().to_owned()),
            DeValue::Float(number) => Ok(number.as_str().to_owned()),
            other => {
                Err(self.error_at(at, format!("expected a text or a number, found {}", other.type_str())))
            }
        }
    }

    /// Returns a link, route or neighbour with its parts in the order and form of the command line.
    fn table(
        &self,
        option: &str,
        key_at: usize,
        at: usize,
        table: &DeTable<'_>,
    ) -> Result<String, TextError> {
        let Some((_, keys)) = TABLES.iter().find(|(name, _)| *name == option) else {
            return Err(self.error_at(key_at, format!("`{option}` is no table: expected `{option} = ...`")));
        };
        for (key, _) in table {
            if !keys.iter().any(|known| known.name == key.get_ref().as_ref()) {
                let known = alternatives(keys.iter().map(|known| known.name));
                let what = format!("`{}` belongs to no {option}: expected {known}", key.get_ref());
                return Err(self.error_at(key.span().start, what));
            }
        }
        let mut text = String::new();
        for key in *keys {
            let Some(value) = table.get(key.name) else {
                if key.needed {
                    return Err(self.error_at(at, format!("this {option} has no `{}`", key.name)));
                }
                continue;
            };
            let values = match value.get_ref() {
                DeValue::Array(values) => values.iter().collect(),
                _ => vec![value],
            };
            for value in values {
                let value = self.plain(value.span().start, value.get_ref())?;
                text.push_str(&format!("{}{value}{}", key.before, key.after));
            }
        }
        Ok(text.trim_end_matches(',').to_owned())
    }

    /// Checks the options with their own parsers. It checks all at once because there may be very many. If
    /// one is wrong, it halves the list until it has found that one.
    fn check(&self, given: &[Given], command: &Command) -> Result<(), TextError> {
        let Err(error) = command.clone().try_get_matches_from(given.iter().map(argument)) else {
            return Ok(());
        };
        match given {
            [] => Ok(()),
            [one] => Err(self.wrong(one, &error)),
            _ => {
                let (first, second) = given.split_at(given.len() / 2);
                self.check(first, command)?;
                self.check(second, command)
            }
        }
    }

    /// Returns the error about an option at its place in the file, made from clap's `error`.
    fn wrong(&self, given: &Given, error: &clap::Error) -> TextError {
        if error.kind() == ErrorKind::UnknownArgument {
            let what = usage::said(error).replace("argument", "option").replace("--", "");
            return self.error_at(given.key_at, what);
        }
        let cause = core::error::Error::source(error).map(|cause| usage::expected(cause.to_string()));
        let what = cause.unwrap_or_else(|| usage::said(error));
        self.error_at(self.place(given, &what), what)
    }

    /// Returns the place of the part of a value that `message` names in backticks, or else of the value.
    fn place(&self, given: &Given, message: &str) -> usize {
        let part = message.split('`').nth(1).filter(|part| !part.is_empty());
        let found = part.and_then(|part| Some(given.at + self.text.get(given.at..)?.find(part)?));
        let value_end = self.given.iter().map(|other| other.at).filter(|at| *at > given.at).min();
        found.filter(|at| value_end.is_none_or(|end| *at < end)).unwrap_or(given.at)
    }
}

/// A key of a table: its name, the text before and after its value on the command line, and whether it is
/// required.
struct Key {
    name: &'static str,
    before: &'static str,
    after: &'static str,
    needed: bool,
}

const fn key(name: &'static str, before: &'static str) -> Key {
    Key { name, before, after: ",", needed: false }
}

const fn needed(name: &'static str) -> Key {
    Key { name, before: "", after: ",", needed: true }
}

/// The name of a link stands before its device.
const NAME: Key = Key { name: "name", before: "", after: "=", needed: false };

const TABLES: [(&str, &[Key]); 3] = [
    (
        "link",
        &[NAME, needed("device"), key("address", ""), key("mac", "mac="), key("kernel-address", "kernel=")],
    ),
    (
        "route",
        &[needed("to"), key("via", "via="), key("kind", ""), key("link", "link="), key("metric", "metric=")],
    ),
    ("neighbor", &[needed("address"), needed("hardware"), key("link", "link=")]),
];

fn argument(given: &Given) -> String {
    match &given.value {
        Some(value) => format!("--{}={value}", given.option),
        None => format!("--{}", given.option),
    }
}
