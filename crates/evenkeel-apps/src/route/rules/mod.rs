//! Screening rules: the language of pf.conf(5), as far as a filter without state can use it.
//!
//! ```text
//! web = "{ 80, 443 }"
//! table <bad> { 10.0.0.0/8, !10.1.0.0/16, 192.0.2.5 - 192.0.2.70 } file "bad.txt"
//!
//! block return log in on wan from <bad>
//! pass quick proto udp to port domain
//! block proto tcp from any to any port $web flags S/SA label "no new connections"
//! ```
//!
//! The **last** rule that matches a packet decides, or the first one with `quick`. If none matches, it
//! passes. As in pf, `block` drops, and `block return` also notifies the sender; `log` records the packet.
//!
//! **There is no state.** Each packet is judged alone: a rule that passes requests needs another rule for the
//! replies. Packets are not reassembled: a fragment that is not the first has no ports, TCP flags or ICMP
//! type, so a rule with such conditions does not match it. Rules with `fragment` match fragments. A first
//! fragment that is too short for the fields that rules compare is dropped (RFC 1858), and so are packets
//! with malformed headers.
//!
//! The addresses of a table stand in braces, in files or in both. In a file they are separated by blanks or
//! ends of lines, and a `#` begins a comment. The name of a file is relative to the directory of the rules,
//! unless it begins with `/`. `include "file"` reads rules from a file in the same way.
//!
//! `match` rules decide nothing: they log, tag (`tag`, `tagged`) and change packets (`set tos`, and `scrub
//! (max-mss, min-ttl, no-df)`). The name of a link as an address (`wan`, `(wan)`, `lan:network`, `self`)
//! stands for the router's current addresses. A list matches any of its elements. With `!` in it this is
//! nearly every address, as in pf, and `--check` warns about it: use tables for exceptions.
//!
//! `block return` answers TCP with a reset, and other protocols with "administratively prohibited" (RFC 1812
//! 5.2.7.1). pf answers "port unreachable" instead: that is `block return-icmp` here.
//!
//! These parts of pf do not exist here: `out`, state, translation, queues, anchors, names of hosts. An error
//! message for each such word names the replacement. Options without effect (`set debug`) are accepted, and
//! `--check` says so. These parts do not exist in pf: tcpdump's `less` and `greater`, for the packet's length
//! in bytes, and `dscp`.

mod address;
mod change;
mod compiled;
mod evaluate;
mod flows;
mod grammar;
mod headers;
mod names;
mod rule;
mod show;
mod source;
mod spans;
mod table;
mod tally;
mod token;

pub use address::{Family, Prefix, Range};
pub use compiled::Compiled;
pub use evaluate::{Decision, Surroundings};
pub use flows::Flows;
pub use rule::{
    Action, Changes, Flags, Host, HostSet, Hosts, Icmp, Line, LinkName, LinkPart, Notes, On, Part, Ports,
    Probability, Rule, RuleSet, Side, Tagged, Tos,
};
pub use table::Table;
pub use tally::{Count, Counters};

use std::collections::{BTreeMap, VecDeque};

use super::text_error::TextError;

/// A function that reads a file named in rules. It returns the file's name for messages and its text, or the
/// reason why there is none.
pub type ReadFile<'a> = dyn Fn(&str) -> Result<(String, String), String> + 'a;

impl RuleSet {
    /// Reads rules that name no files. `file` is what the text is called in messages.
    ///
    /// # Errors
    /// The first [`TextError`].
    ///
    /// ```
    /// use evenkeel_apps::route::rules::RuleSet;
    ///
    /// let error = RuleSet::parse("rules.conf", "block in\npass from 10.0.0 to any").unwrap_err();
    /// let told = "rules.conf:2:11: expected an address, `any`, a <table> or a link, found `10.0.0`";
    /// assert_eq!(error.to_string(), told);
    /// ```
    pub fn parse(file: &str, text: &str) -> Result<Self, TextError> {
        Self::parse_with(file, text, &|_| Err("no files can be named here".to_owned()))
    }

    /// Parses rules whose tables may be in files, which `read` reads. It returns the file's name for messages
    /// and its text, or the reason why there is none.
    ///
    /// # Errors
    /// The first [`TextError`], in the rules or in a file.
    pub fn parse_with(file: &str, text: &str, read: &ReadFile<'_>) -> Result<Self, TextError> {
        grammar::parse(file, text, read)
    }

    /// Returns the file that a rule is in, and its line.
    #[must_use]
    pub fn place(&self, rule: &Rule) -> (&str, usize) {
        (self.sources.get(rule.line.file).map_or("", |source| &source.name), rule.line.number)
    }

    /// Returns, for each of the `earlier` rules, the rule of this set that is written the same, if there is
    /// one. It continues the earlier rule.
    #[must_use]
    pub fn succession(&self, earlier: &Self) -> Vec<Option<usize>> {
        let mut places: BTreeMap<_, VecDeque<_>> = BTreeMap::new();
        for place in 0..self.rules.len() {
            places.entry(self.text(place)).or_default().push_back(place);
        }
        let same = |rule| places.get_mut(&earlier.text(rule)).and_then(VecDeque::pop_front);
        (0..earlier.rules.len()).map(same).collect()
    }
}

#[cfg(test)]
mod tests;
