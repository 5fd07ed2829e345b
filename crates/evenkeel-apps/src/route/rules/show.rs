//! The text of rules.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::address::{Family, Prefix, Range};
use super::names;
use super::rule::{
    Action, Changes, Flags, Host, HostSet, Hosts, LinkPart, On, Part, Ports, Probability, Rule, RuleSet,
    Side, Tos,
};

impl fmt::Display for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in &self.tables {
            writeln!(f, "{table}")?;
        }
        if !self.skip.is_empty() {
            list(f, "set skip on ", &self.skip, on)?;
            writeln!(f)?;
        }
        self.rules.iter().try_for_each(|rule| writeln!(f, "{}", Shown(rule, self)))
    }
}

impl RuleSet {
    /// Returns the text of the rule with this number, counted from 0.
    #[must_use]
    pub fn text(&self, rule: usize) -> Option<String> {
        Some(Shown(self.rules.get(rule)?, self).to_string())
    }
}

/// A rule with the set that it refers to, for printing.
struct Shown<'a>(&'a Rule, &'a RuleSet);

fn on(on: &On) -> String {
    let name = if on.name.is_empty() { "any" } else { &on.name };
    format!("{}{name}", if on.not { "!" } else { "" })
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(rule, set) = self;
        match rule.action {
            Action::Pass => f.write_str("pass in")?,
            Action::Match => f.write_str("match in")?,
            Action::Drop => f.write_str("block drop in")?,
            Action::Return => f.write_str("block return in")?,
            Action::ReturnRst => f.write_str("block return-rst in")?,
            Action::ReturnIcmp { v4, v6 } => write!(f, "block return-icmp({v4}, {v6}) in")?,
        }
        if rule.log {
            f.write_str(" log")?;
        }
        if rule.quick {
            f.write_str(" quick")?;
        }
        list(f, " on ", &rule.on, on)?;
        match rule.family {
            Some(Family::V4) => f.write_str(" inet")?,
            Some(Family::V6) => f.write_str(" inet6")?,
            None => {}
        }
        list(f, " proto ", &rule.protocols, |&protocol| names::protocol(protocol))?;
        if rule.from.is_any() && rule.to.is_any() {
            f.write_str(" all")?;
        } else {
            side(f, " from ", &rule.from, set)?;
            side(f, " to ", &rule.to, set)?;
        }
        options(f, rule, set)
    }
}

fn options(f: &mut fmt::Formatter<'_>, rule: &Rule, set: &RuleSet) -> fmt::Result {
    if let Some(Flags { set, mask }) = rule.flags {
        write!(f, " flags {}/{}", names::flags(set), names::flags(mask))?;
    }
    let word = if names::is_icmpv6(&rule.protocols) { " icmp6-type " } else { " icmp-type " };
    list(f, word, &rule.icmp, |icmp| match icmp.code {
        Some(code) => format!("{} code {code}", icmp.kind),
        None => icmp.kind.to_string(),
    })?;
    if rule.fragment {
        f.write_str(" fragment")?;
    }
    if let Some(bytes) = rule.less {
        write!(f, " less {bytes}")?;
    }
    if let Some(bytes) = rule.greater {
        write!(f, " greater {bytes}")?;
    }
    if let Some(Tos(tos)) = rule.tos {
        write!(f, " tos {tos:#04x}")?;
    }
    if let Some(received) = &rule.received {
        write!(f, " received-on {}", on(received))?;
    }
    let tag = |tag: u16| set.tags.get(usize::from(tag)).map_or("", String::as_str);
    if let Some(tagged) = rule.tagged {
        write!(f, "{} tagged \"{}\"", if tagged.not { " !" } else { "" }, tag(tagged.tag))?;
    }
    if let Some(Probability(parts)) = rule.probability {
        // Percentages have at most seven digits after the point.
        let digits = format!("{:07}", parts % 10_000_000);
        let digits = digits.trim_end_matches('0');
        let point = if digits.is_empty() { "" } else { "." };
        write!(f, " probability {}{point}{digits}%", parts / 10_000_000)?;
    }
    if let Some(name) = rule.tag {
        write!(f, " tag \"{}\"", tag(name))?;
    }
    changes(f, &rule.changes)?;
    rule.label.as_ref().map_or(Ok(()), |label| write!(f, " label \"{label}\""))
}

fn changes(f: &mut fmt::Formatter<'_>, changes: &Changes) -> fmt::Result {
    let Changes { max_mss, no_df, min_ttl, tos } = changes;
    if let Some(tos) = tos {
        write!(f, " set tos {tos:#04x}")?;
    }
    let all = [
        max_mss.map(|mss| format!("max-mss {mss}")),
        min_ttl.map(|ttl| format!("min-ttl {ttl}")),
        no_df.then(|| "no-df".to_owned()),
    ];
    let all: Vec<_> = all.into_iter().flatten().collect();
    if all.is_empty() { Ok(()) } else { write!(f, " scrub ({})", all.join(", ")) }
}

fn link(part: &LinkPart, set: &RuleSet) -> String {
    let name = part.link.map_or("self", |link| set.links.get(link).map_or("", |link| &link.name));
    let modifier = match part.part {
        Part::Own => "",
        Part::Network => ":network",
        Part::Broadcast => ":broadcast",
    };
    format!("({name}{modifier}{})", if part.first { ":0" } else { "" })
}

fn side(f: &mut fmt::Formatter<'_>, word: &str, side: &Side, set: &RuleSet) -> fmt::Result {
    let shown = |host: &Host| {
        let shown = match &host.set {
            HostSet::Prefix(prefix) => prefix.to_string(),
            HostSet::Range(range) => range.to_string(),
            HostSet::Table(index) => {
                set.tables.get(*index).map_or_else(String::new, |table| format!("<{}>", table.name))
            }
            HostSet::Link(part) => link(part, set),
            HostSet::NoRoute => "no-route".to_owned(),
            HostSet::UrpfFailed => "urpf-failed".to_owned(),
        };
        format!("{}{shown}", if host.not { "!" } else { "" })
    };
    match &side.hosts {
        Hosts::Any => write!(f, "{word}any")?,
        Hosts::One(host) => write!(f, "{word}{}", shown(host))?,
        Hosts::List(hosts) => {
            write!(f, "{word}{{ {} }}", hosts.iter().map(shown).collect::<Vec<_>>().join(", "))?;
        }
    }
    list(f, " port ", &side.ports, ToString::to_string)
}

/// Prints nothing for an empty list, one item alone, and several in braces.
fn list<T>(f: &mut fmt::Formatter<'_>, word: &str, all: &[T], shown: impl Fn(&T) -> String) -> fmt::Result {
    match all {
        [] => Ok(()),
        [one] => write!(f, "{word}{}", shown(one)),
        several => write!(f, "{word}{{ {} }}", several.iter().map(shown).collect::<Vec<_>>().join(", ")),
    }
}

impl fmt::Display for Prefix {
    #[expect(clippy::cast_possible_truncation, reason = "an IPv4 address has 32 bits")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address: IpAddr = match self.family {
            Family::V4 => Ipv4Addr::from(self.bits as u32).into(),
            Family::V6 => Ipv6Addr::from(self.bits).into(),
        };
        if self.length == self.family.bits() {
            write!(f, "{address}")
        } else {
            write!(f, "{address}/{}", self.length)
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |bits| Prefix { family: self.family, length: self.family.bits(), bits };
        write!(f, "{} - {}", one(self.first), one(self.last))
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equal(p) => write!(f, "{p}"),
            Self::NotEqual(p) => write!(f, "!= {p}"),
            Self::Less(p) => write!(f, "< {p}"),
            Self::LessOrEqual(p) => write!(f, "<= {p}"),
            Self::Greater(p) => write!(f, "> {p}"),
            Self::GreaterOrEqual(p) => write!(f, ">= {p}"),
            Self::Range(a, b) => write!(f, "{a}:{b}"),
            Self::Between(a, b) => write!(f, "{a} >< {b}"),
            Self::Outside(a, b) => write!(f, "{a} <> {b}"),
        }
    }
}
