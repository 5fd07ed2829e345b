//! The requirements that the grammar does not express: names, and words that need others.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::address_file::address_file;
use super::draft::{
    Antispoof, Contents, Draft, DraftHost, DraftHosts, DraftSide, Entry, Link, Listed, Opt, Statement,
};
use crate::route::rules::ReadFile;
use crate::route::rules::address::Family;
use crate::route::rules::names;
use crate::route::rules::rule::{
    Action, Flags, Host, HostSet, Hosts, Line, LinkName, LinkPart, On, Part, Rule, RuleSet, Side, Tagged,
};
use crate::route::rules::source::Sources;
use crate::route::rules::table::Table;
use crate::route::rules::token::Token;
use crate::route::text_error::TextError;

pub(super) struct Building<'a, 's> {
    sources: &'a Sources,
    read: &'a ReadFile<'a>,
    /// For each text, a place in it, and the number of lines that end before the place.
    counted: BTreeMap<usize, (usize, usize)>,
    tables: BTreeMap<&'s str, usize>,
    links: BTreeMap<&'s str, usize>,
    tags: BTreeMap<&'s str, u16>,
    /// The action of `block` without an option (`set block-policy`).
    block_policy: Action,
    done: RuleSet,
}

impl<'a, 's> Building<'a, 's> {
    pub(super) fn new(sources: &'a Sources, read: &'a ReadFile<'a>) -> Self {
        Self {
            sources,
            read,
            counted: BTreeMap::new(),
            tables: BTreeMap::new(),
            links: BTreeMap::new(),
            tags: BTreeMap::new(),
            block_policy: Action::Drop,
            done: RuleSet::default(),
        }
    }

    /// Returns the finished set of rules.
    pub(super) fn done(self) -> Result<RuleSet, TextError> {
        Ok(self.done)
    }

    fn error_at<T>(&self, at: Token<'_>, what: impl Into<String>) -> Result<T, TextError> {
        Err(self.sources.error_at(at.at, what))
    }

    fn record(&mut self, at: usize, what: &str) {
        self.done.notes.0.push(self.sources.error_at(at, what).to_string());
    }

    /// Returns the line of a place. Places of a text are requested in their order, so that no line is counted
    /// twice.
    fn line_of(&mut self, at: usize) -> Line {
        let file = self.sources.number_of(at);
        let Some(source) = self.sources.get(file) else { return Line::default() };
        let (from, lines) = self.counted.get(&file).copied().unwrap_or((source.base, 0));
        let between = source.text.get(from - source.base..at - source.base).unwrap_or_default();
        let lines = lines + between.matches('\n').count();
        self.counted.insert(file, (at, lines));
        Line { file, number: lines + 1 }
    }

    pub(super) fn add(&mut self, statement: Statement<'s>) -> Result<(), TextError> {
        match statement {
            Statement::Table { name, contents } => self.add_table(name, &contents)?,
            Statement::Rule(draft) => {
                let (line, at, note) = (self.line_of(draft.at), draft.at, draft.note);
                let rule = self.rule(*draft)?;
                if let Some(note) = note {
                    self.record(at, note);
                }
                self.done.rules.push(Rule { line, ..rule });
            }
            Statement::Skip(links) => self.done.skip.extend(links),
            Statement::BlockPolicy(action) => self.block_policy = action,
            Statement::Idle(token, why) => {
                self.record(token.at, &format!("`set {}` changes nothing: {why}", token.text));
            }
            Statement::Antispoof(antispoof) => self.antispoof(antispoof)?,
        }
        Ok(())
    }

    fn add_table(&mut self, name: Token<'s>, contents: &[Contents<'_>]) -> Result<(), TextError> {
        if self.tables.contains_key(name.text) {
            return self.error_at(name, format!("table <{}> is defined twice", name.text));
        }
        // The texts of files must live as long as errors may refer to places in them.
        let mut texts: Vec<(Cow<'_, str>, Cow<'_, str>)> = vec![("".into(), "".into())];
        let (mut prefixes, mut places) = (Vec::new(), Vec::new());
        let mut put = |listed: &[Listed], text: usize| {
            for Listed { at, not, addresses } in listed {
                for prefix in addresses.prefixes() {
                    prefixes.push((prefix, *not));
                    places.push((text, *at));
                }
            }
        };
        for contents in contents {
            match contents {
                Contents::Here(listed) => put(listed, 0),
                Contents::File(path) => {
                    let (file, text) = (self.read)(path.text).or_else(|why| self.error_at(*path, why))?;
                    put(&address_file(&file, &text)?, texts.len());
                    texts.push((file.into(), text.into()));
                }
            }
        }
        let table = Table::new(name.text, &prefixes).map_err(|index| {
            let what = "the same prefix is in this table with and without `!`";
            match places.get(index).copied().unwrap_or_default() {
                (0, at) => self.sources.error_at(at, what),
                (text, at) => {
                    let (file, text) = texts.get(text).cloned().unwrap_or_default();
                    TextError::at(&file, &text, at, what)
                }
            }
        })?;
        self.tables.insert(name.text, self.done.tables.len());
        self.done.tables.push(table);
        Ok(())
    }

    /// Adds the two rules that each link's `antispoof` stands for.
    fn antispoof(&mut self, antispoof: Antispoof<'s>) -> Result<(), TextError> {
        let Antispoof { at, log, quick, links, family, label } = antispoof;
        let line = self.line_of(at);
        for link in links {
            if link.name == "self" {
                let what =
                    "`antispoof` is for links: what comes in on another one must not be from its network";
                return Err(self.sources.error_at(link.at, what));
            }
            let mut rule = |on: Vec<On>, part: Part| {
                let set = self.link(Link { part, ..link });
                let from = Side { hosts: Hosts::One(Host { not: false, set }), ports: Vec::new() };
                let label = label.map(str::to_owned);
                let action = Action::Drop;
                let rule = Rule { action, log, quick, on, family, from, label, line, ..Rule::default() };
                self.done.rules.push(rule);
            };
            let on = On { name: link.name.to_owned(), not: true, interface: None, at: link.at };
            rule(vec![on], Part::Network);
            rule(Vec::new(), Part::Own);
        }
        Ok(())
    }

    fn rule(&mut self, draft: Draft<'s>) -> Result<Rule, TextError> {
        let family = self.family(&draft)?;
        let Draft { action, log, quick, on, protocols, from, to, options, .. } = draft;
        let has_ports =
            protocols.iter().all(|p| matches!(*p, names::TCP | names::UDP)) && !protocols.is_empty();
        if let (false, Some((port, _))) = (has_ports, from.ports.as_ref().or(to.ports.as_ref())) {
            return self
                .error_at(*port, "`port` needs `proto tcp`, `proto udp` or `proto { tcp, udp }` before it");
        }
        if let Some(token) = to.hosts.entries().find_map(|entry| match entry.host {
            DraftHost::UrpfFailed(token) => Some(token),
            _ => None,
        }) {
            return self.error_at(token, "`urpf-failed` is about sources: write `from urpf-failed`");
        }
        let action = action.unwrap_or(self.block_policy);
        let (from, to) = (self.side(from)?, self.side(to)?);
        let mut rule = Rule { action, log, quick, on, family, protocols, from, to, ..Rule::default() };
        for (at, option) in options {
            self.set(&mut rule, at, option)?;
        }
        Ok(rule)
    }

    /// Returns the family that a rule names; addresses of the other family would never match.
    fn family(&self, draft: &Draft<'_>) -> Result<Option<Family>, TextError> {
        let Some((token, family)) = draft.family else { return Ok(None) };
        let other = |entry: &Entry<'_>| match entry.host {
            DraftHost::Addresses(addresses) => addresses.family() != family,
            _ => false,
        };
        if draft.from.hosts.entries().chain(draft.to.hosts.entries()).any(other) {
            return self.error_at(
                token,
                format!("`{}`, but an address of this rule is of the other family", token.text),
            );
        }
        Ok(Some(family))
    }

    fn side(&mut self, side: DraftSide<'s>) -> Result<Side, TextError> {
        let hosts = match side.hosts {
            DraftHosts::Any => Hosts::Any,
            DraftHosts::One(entry) => Hosts::One(self.host(entry)?),
            DraftHosts::List(all) => {
                if let Some(not) = all.iter().find(|entry| entry.not && all.len() > 1) {
                    let what = "`!` in a list adds all other addresses, as in pf, so that nearly every \
                        address \
                        is in it; to except some, use a table: table <name> { 10.0.0.0/8, !10.1.0.0/16 }";
                    self.record(not.at, what);
                }
                let all: Result<_, _> = all.into_iter().map(|entry| self.host(entry)).collect();
                Hosts::List(all?)
            }
        };
        Ok(Side { hosts, ports: side.ports.map(|(_, ports)| ports).unwrap_or_default() })
    }

    fn host(&mut self, entry: Entry<'s>) -> Result<Host, TextError> {
        let set = match entry.host {
            DraftHost::Addresses(super::draft::Addresses::Prefix(prefix)) => HostSet::Prefix(prefix),
            DraftHost::Addresses(super::draft::Addresses::Range(range)) => HostSet::Range(range),
            DraftHost::Table(name) => match self.tables.get(name.text) {
                Some(index) => HostSet::Table(*index),
                None => {
                    return self.error_at(name, format!("no table <{}> is defined before this", name.text));
                }
            },
            DraftHost::Link(link) => self.link(link),
            DraftHost::NoRoute => HostSet::NoRoute,
            DraftHost::UrpfFailed(_) => HostSet::UrpfFailed,
        };
        Ok(Host { not: entry.not, set })
    }

    fn link(&mut self, link: Link<'s>) -> HostSet {
        let Link { name, at, part, first } = link;
        if name == "self" {
            return HostSet::Link(LinkPart { link: None, part, first });
        }
        let links = &mut self.done.links;
        let place = *self.links.entry(name).or_insert_with(|| {
            links.push(LinkName { name: name.to_owned(), interface: None, at });
            links.len() - 1
        });
        HostSet::Link(LinkPart { link: Some(place), part, first })
    }

    fn tag(&mut self, name: &'s str, at: Token<'_>) -> Result<u16, TextError> {
        if let Some(tag) = self.tags.get(name) {
            return Ok(*tag);
        }
        let Ok(tag) = u16::try_from(self.done.tags.len()) else {
            return self.error_at(at, "there are 65536 tags at most");
        };
        self.done.tags.push(name.to_owned());
        self.tags.insert(name, tag);
        Ok(tag)
    }

    fn set(&mut self, rule: &mut Rule, at: Token<'_>, option: Opt<'s>) -> Result<(), TextError> {
        let is_about = rule.protocols.clone();
        let needs = |protocol: u8, name: &str| match is_about == [protocol] {
            true => Ok(()),
            false => self.error_at(at, format!("`{}` needs `proto {name}` before it", at.text)),
        };
        match option {
            Opt::Flags(flags) => {
                needs(names::TCP, "tcp")?;
                if let Some(Flags { set, mask }) = flags
                    && set & !mask != 0
                {
                    return self.error_at(
                        at,
                        "these flags can never match: behind `/` some are missing that stand before it",
                    );
                }
                rule.flags = flags;
            }
            Opt::Icmp(types) => {
                needs(names::ICMP, "icmp")?;
                rule.icmp = types;
            }
            Opt::Icmpv6(types) => {
                needs(names::ICMPV6, "icmp6")?;
                rule.icmp = types;
            }
            Opt::Fragment => rule.fragment = true,
            Opt::Tos(tos) => rule.tos = Some(tos),
            Opt::Less(bytes) => rule.less = Some(bytes),
            Opt::Greater(bytes) => rule.greater = Some(bytes),
            Opt::Label(label) => rule.label = Some(label.to_owned()),
            Opt::Tag(name) => rule.tag = Some(self.tag(name, at)?),
            Opt::Tagged { not, tag } => rule.tagged = Some(Tagged { not, tag: self.tag(tag, at)? }),
            Opt::Probability(chance) => rule.probability = Some(chance),
            Opt::Received(on) => rule.received = Some(on),
            Opt::Changes(changes) => match rule.action {
                Action::Pass | Action::Match => rule.changes.add(&changes),
                _ => return self.error_at(at, "a packet that is blocked is not changed: leave this out"),
            },
            Opt::Idle("") => {}
            Opt::Idle(why) => self.record(at.at, &format!("`{}` changes nothing: {why}", at.text)),
        }
        Ok(())
    }
}

impl<'s> DraftHosts<'s> {
    fn entries(&self) -> impl Iterator<Item = &Entry<'s>> {
        match self {
            Self::Any => &[],
            Self::One(entry) => core::slice::from_ref(entry),
            Self::List(all) => &all[..],
        }
        .iter()
    }
}
