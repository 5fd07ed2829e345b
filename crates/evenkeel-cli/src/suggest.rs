//! Parsers that accept more values than they suggest to a shell for completion.

use std::ffi::OsStr;
use std::str::FromStr as _;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};
use evenkeel::raw::device::{Address, LinkSpec};
use evenkeel::raw::receive::Architecture;
use evenkeel_apps::link_plan::Link;

/// A parser that names some values for completion.
#[derive(Debug, Clone)]
pub(crate) struct Suggesting<P> {
    parser: P,
    values: Vec<&'static str>,
}

impl<P: TypedValueParser> TypedValueParser for Suggesting<P> {
    type Value = P::Value;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<P::Value, Error> {
        self.parser.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.values.iter().map(PossibleValue::new)))
    }
}

/// Returns a parser that names `values` for completion.
pub(crate) fn with<P: TypedValueParser>(
    parser: P,
    values: impl IntoIterator<Item = &'static str>,
) -> Suggesting<P> {
    Suggesting { parser, values: values.into_iter().collect() }
}

/// Returns a parser of receive architectures' names.
pub(crate) fn architecture() -> impl TypedValueParser<Value = Architecture> {
    with(Architecture::from_str, Architecture::ALL.iter().map(|it| it.name()))
}

/// Returns a parser of a host's link.
pub(crate) fn link() -> impl TypedValueParser<Value = LinkSpec> {
    with(LinkSpec::from_str, ["cable", "tap:", "packet:", "xdp:", "pcap:"])
}

/// Returns a parser of a load generator's link.
pub(crate) fn own_link() -> impl TypedValueParser<Value = LinkSpec> {
    with(LinkSpec::from_str, ["cable", "tap:", "packet:", "xdp:"])
}

/// Returns a parser of the links of a router.
pub(crate) fn router_link() -> impl TypedValueParser<Value = Link> {
    with(Link::from_str, ["tap:", "packet:", "xdp:"])
}

/// Returns a parser of the links of an emulator.
pub(crate) fn between() -> impl TypedValueParser<Value = Link> {
    with(Link::from_str, ["tap:", "packet:"])
}

/// Returns a parser of a host's hardware address.
pub(crate) fn mac() -> impl TypedValueParser<Value = Address> {
    with(Address::from_str, ["own", "device", "random"])
}

/// The words of commands.
pub(crate) const COMMANDS: [&str; 22] = [
    "demo",
    "echo",
    "sink",
    "send",
    "http",
    "blast",
    "load",
    "monitor",
    "route",
    "wan",
    "stats",
    "top",
    "metrics",
    "lab",
    "list",
    "run",
    "completions",
    "man",
    "schema",
    "doctor",
    "guard",
    "help",
];

/// Returns a parser of words of commands, and of `others`.
pub(crate) fn command(others: &'static [&str]) -> impl TypedValueParser<Value = String> {
    with(String::from_str, COMMANDS.into_iter().chain(others.iter().copied()))
}

/// Returns a parser of the names of experiments and papers, and of `all`.
pub(crate) fn experiment() -> impl TypedValueParser<Value = String> {
    let ids = evenkeel_lab::experiments().iter().map(|experiment| experiment.id);
    let papers = ["all", "o96", "l97", "s98", "t00"];
    with(String::from_str, papers.into_iter().chain(ids))
}
