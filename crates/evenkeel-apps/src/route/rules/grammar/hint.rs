//! Messages for users of pf about words that do not exist here.

use crate::route::rules::token::{Kind, Token};

const STATE: &str = "rules keep no state: leave it out and write a rule for each direction; replies of TCP \
    match `flags A/A`";
const TRANSLATION: &str = "addresses are not translated here: route them, or let another host translate";
const ROUTE: &str = "rules do not choose routes: give routes with --route or [[route]]";
const QUEUE: &str = "packets are not queued by rules: leave it out; `evenkeel wan` shapes traffic";
const ANCHOR: &str = "rules are in one list, without anchors: write them here or in a file of `include`, and \
    reload with SIGHUP";
const DIVERT: &str = "packets are not handed to programs by rules: leave it out";
const OWNER: &str = "packets that are forwarded belong to no user of this machine: leave it out";

/// Words of pf, and their replacements.
pub(in crate::route::rules) const HINTS: [(&str, &str); 52] = [
    ("keep", STATE),
    ("modulate", STATE),
    ("synproxy", STATE),
    ("syncookies", STATE),
    ("state-defaults", STATE),
    ("state-policy", STATE),
    ("timeout", "it is about states, and rules keep none: leave this line out"),
    ("optimization", "it is about the timeouts of states, and rules keep none: leave this line out"),
    ("limit", "it is about states and fragments, and rules keep neither: leave this line out"),
    (
        "reassemble",
        "neither packets nor TCP streams are reassembled: leave it out; `fragment` matches fragments",
    ),
    ("nat", TRANSLATION),
    ("rdr", TRANSLATION),
    ("binat", TRANSLATION),
    ("nat-to", TRANSLATION),
    ("rdr-to", TRANSLATION),
    ("binat-to", TRANSLATION),
    ("af-to", TRANSLATION),
    ("nat-anchor", TRANSLATION),
    ("rdr-anchor", TRANSLATION),
    ("binat-anchor", TRANSLATION),
    ("static-port", TRANSLATION),
    ("anchor", ANCHOR),
    ("load", ANCHOR),
    ("route-to", ROUTE),
    ("reply-to", ROUTE),
    ("dup-to", ROUTE),
    ("fastroute", ROUTE),
    ("rtable", "there is one table of routes: leave it out"),
    ("route", "routes have no labels: write the prefixes into a table"),
    ("altq", QUEUE),
    ("queue", QUEUE),
    ("dnqueue", QUEUE),
    ("dnpipe", QUEUE),
    ("prio", "packets have no priority: leave it out; `set tos` marks them for other routers"),
    ("divert-to", DIVERT),
    ("divert-reply", DIVERT),
    ("divert-packet", DIVERT),
    ("divert", DIVERT),
    ("user", OWNER),
    ("group", OWNER),
    ("os", "operating systems are not told apart: leave it out, or match `flags S/SA`"),
    ("once", "a rule stays until the rules are read again: leave it out"),
    ("max-pkt-rate", "rules do not count packets against a rate: leave it out"),
    ("overload", STATE),
    ("sloppy", STATE),
    ("pflow", "flows are not exported: leave it out"),
    (
        "out",
        "packets are screened as they come in, before routing: write a rule with `in` for the link that \
        they come from",
    ),
    ("random-id", "a router leaves the identification of packets as it is (RFC 6864): leave it out"),
    ("matches", "a rule's `log` is about its own packets: write `log` in the rules that are meant"),
    ("ether", "rules are about IP, not about Ethernet: leave it out"),
    ("urpf-failed", "it is about sources: write `from urpf-failed`"),
    ("peer", "links have networks and no peers: write the address"),
];

/// Returns what to write instead of a word of pf that has no place here.
pub(super) fn of(token: &Token<'_>) -> Option<&'static str> {
    let is_word = token.kind == Kind::Word;
    HINTS.iter().find(|(word, _)| is_word && *word == token.text).map(|(_, hint)| *hint)
}

/// Returns a remark if a name stands where an address was expected.
pub(super) fn of_host(token: &Token<'_>, expected: &[&str]) -> &'static str {
    let is_name = token.kind == Kind::Word
        && token.text.contains(|c: char| c.is_ascii_alphabetic())
        && !token.text.contains([':', '/']);
    if is_name && expected.iter().any(|what| what.starts_with("an address, a prefix")) {
        " (a table has addresses only: names of hosts are not looked up, and links belong into rules)"
    } else {
        ""
    }
}
