//! Screening rules: the language of pf.conf(5), as far as a filter without state has a use for it.
//!
//! ```text
//! web = "{ 80, 443 }"
//! table <bad> { 10.0.0.0/8, !10.1.0.0/16 }
//!
//! block return log in on wan from <bad>
//! pass quick proto udp to port domain
//! block proto tcp from any to any port $web flags S/SA label "no new connections"
//! ```
//!
//! The **last** rule that matches a packet decides, or the first one with `quick`. If none matches, it passes. As in pf, `block` drops and
//! `block return` also tells the sender; `log` keeps a record.
//!
//! **There is no state.** Each packet is judged by itself: a rule that lets requests through needs another for the replies. Packets are not
//! reassembled: a fragment that is not the first has no ports, TCP flags or ICMP type, and a rule that asks for them is not about it. Rules
//! with `fragment` are about fragments. A first fragment too short to have what rules look at is dropped (RFC 1858), and so is
//! everything whose headers are malformed.
//!
//! What pf has and this has not: `out`, state, translation, queues, anchors, host names, interface names as addresses, `set`. What this has
//! and pf has not: tcpdump's `less` and `greater`, the packet's length in octets. A list means any of its elements; `!` in a list would
//! mean nearly everything, and is refused: tables have it.

mod evaluate;
mod grammar;
mod headers;
mod names;
mod rule;
mod table;
mod tally;
mod token;

pub use evaluate::Decision;
pub use rule::{Action, Family, Flags, HostSet, Hosts, Icmp, On, Ports, Prefix, Rule, RuleSet, Side};
pub use table::Table;
pub use tally::{Count, Tally};

use std::collections::{BTreeMap, VecDeque};

use super::mistake::Mistake;

impl RuleSet {
    /// Reads rules. `file` is what the text is called in messages.
    ///
    /// # Errors
    /// The first [`Mistake`].
    ///
    /// ```
    /// use evenkeel_apps::route::rules::RuleSet;
    ///
    /// let error = RuleSet::parse("rules.conf", "block in\npass from 10.0.0 to any").unwrap_err();
    /// assert_eq!(error.to_string(), "rules.conf:2:11: expected an address, `any` or a <table>, found `10.0.0`");
    /// ```
    pub fn parse(file: &str, text: &str) -> Result<Self, Mistake> {
        grammar::parse(file, text, &token::tokens(file, text)?)
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
