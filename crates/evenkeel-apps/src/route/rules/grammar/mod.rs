//! The grammar of rules: that of pf.conf(5), as far as a filter without state can use it.
//!
//! ```text
//! statement = table | set | antispoof | rule
//! table     = "table" "<" name ">" { "const" | "persist" | "counters" } { contents }
//! contents  = "{" { ["!"] addresses } "}" | "file" path
//! addresses = prefix | address "-" address
//! set       = "set" "skip" "on" links | "set" "block-policy" ("drop" | "return") | "set" others
//! antispoof = "antispoof" ["log"] ["quick"] "for" links ["inet" | "inet6"] ["label" text]
//! rule      = ("pass" | "match" | "block" [answer]) ["in"] ["log" ["(" "all" ")"]] ["quick"]
//!             ["on" links] ["inet" | "inet6"] ["proto" protocols]
//!             ["all" | ["from" hosts ["port" ports]] ["to" hosts ["port" ports]]] { option }
//!           | "scrub" ["in"] ["log"] ["on" links] ["inet" | "inet6"] ["proto" protocols] ends { change }
//! answer    = "drop" | "return" | "return-rst"
//!           | ("return-icmp" | "return-icmp6") ["(" code ["," code] ")"]
//! hosts     = "any" | ["!"] host
//! host      = addresses | "<" table ">" | "no-route" | "urpf-failed" | link | "(" link ")"
//! link      = ("self" | name) { ":network" | ":broadcast" | ":0" }
//! option    = "flags" ("any" | set "/" mask) | "icmp-type" types | "icmp6-type" types | "fragment"
//!           | "tos" tos | "dscp" dscp | "less" bytes | "greater" bytes | "label" text | "no" "state"
//!           | "tag" name | ["!"] "tagged" name | "probability" chance | "received-on" ["!"] name
//!           | "allow-opts" | "set" "tos" tos | "set" "(" "tos" tos ")" | "scrub" "(" { change } ")"
//! change    = "max-mss" bytes | "min-ttl" hops | "no-df" | "set-tos" tos
//! ```
//! A plural allows a list in braces, with optional commas.

/// A keyword; error messages show it in backticks.
macro_rules! word {
    ($text:literal) => {
        $crate::route::rules::grammar::terminal::word($text, concat!("`", $text, "`"))
    };
}
macro_rules! sign {
    ($text:literal) => {
        $crate::route::rules::grammar::terminal::sign($text, concat!("`", $text, "`"))
    };
}

mod address_file;
mod building;
mod draft;
mod hint;
mod hosts;
mod options;
mod rule;
mod statement;
mod terminal;

use building::Building;
#[cfg(test)]
pub(super) use hint::HINTS;
use terminal::{Input, Trace, unexpected};
use winnow::error::EmptyError;
use winnow::stream::{Stream as _, TokenSlice};

use super::ReadFile;
use super::rule::RuleSet;
use super::token;
use crate::route::text_error::TextError;

/// Reads a text as a set of rules. `read` gives the text of a file that it names, and what to call it in
/// messages.
pub(super) fn parse(file: &str, text: &str, read: &ReadFile<'_>) -> Result<RuleSet, TextError> {
    let sources = token::load(file, text, read)?;
    let tokens = token::tokens(&sources)?;
    let trace = Trace::default();
    let mut input = Input { input: TokenSlice::new(&tokens), state: &trace };
    let mut set = Building::new(&sources, read);
    while input.peek_token().is_some() {
        match statement::statement(&mut input) {
            Ok(statement) => set.add(statement)?,
            Err(EmptyError) => {
                let (at, what) = unexpected(text.len(), &tokens, &trace.0.borrow());
                return Err(sources.error_at(at, what));
            }
        }
    }
    let done = set.done()?;
    drop(tokens);
    Ok(RuleSet { sources, ..done })
}
