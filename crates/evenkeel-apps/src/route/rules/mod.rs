//! Screening rules: the language of pf.conf(5), as far as a filter without state has a use for it.
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
//! passes. As in pf, `block` drops and `block return` also tells the sender; `log` keeps a record.
//!
//! **There is no state.** Each packet is judged by itself: a rule that lets requests through needs another
//! for the replies. Packets are not reassembled: a fragment that is not the first has no ports, TCP flags or
//! ICMP type, and a rule that asks for them is not about it. Rules with `fragment` are about fragments. A
//! first fragment too short to have what rules look at is dropped (RFC 1858), and so is everything whose
//! headers are malformed.
//!
//! A table's addresses stand in braces, in files or in both. In a file they stand between blanks or ends of
//! lines, what follows a `#` is a comment. A file's name is relative to the directory of the rules, unless it
//! begins with `/`.
//!
//! What pf has and this has not: `out`, state, translation, queues, anchors, host names, interface names as
//! addresses, `set`. What this has and pf has not: tcpdump's `less` and `greater`, the packet's length in
//! bytes. A list means any of its elements; `!` in a list would mean nearly everything, and is refused:
//! tables have it.

mod evaluate;
mod grammar;
mod headers;
mod names;
mod rule;
mod table;
mod tally;
mod token;

pub use evaluate::Decision;
pub use rule::{
    Action, Family, Flags, HostSet, Hosts, Icmp, Line, On, Ports, Prefix, Range, Rule, RuleSet, Side,
};
pub use table::Table;
pub use tally::{Count, Tally};

use std::collections::{BTreeMap, VecDeque};

use super::text_error::TextError;

/// Gives, for a file's name in rules, what to call it in messages, and its text; or why there is none.
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
    /// let told = "rules.conf:2:11: expected an address, `any` or a <table>, found `10.0.0`";
    /// assert_eq!(error.to_string(), told);
    /// ```
    pub fn parse(file: &str, text: &str) -> Result<Self, TextError> {
        Self::parse_with(file, text, &|_| Err("no files can be named here".to_owned()))
    }

    /// Reads rules whose tables may be in files: `read` gives what to call a file in messages, and its text;
    /// or why there is none.
    ///
    /// # Errors
    /// The first [`TextError`], in the rules or in a file.
    pub fn parse_with(file: &str, text: &str, read: &ReadFile<'_>) -> Result<Self, TextError> {
        grammar::parse(file, text, &token::tokens(file, text)?, read)
    }

    /// Which of these rules each of `earlier` goes on as: the one that is written the same, if there is one.
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
