//! Parsed statements, before names are looked up.

use crate::route::rules::address::{Family, Prefix, Range};
use crate::route::rules::rule::{Action, Changes, Flags, Icmp, On, Part, Ports, Probability, Tos};
use crate::route::rules::token::Token;

pub(super) enum Statement<'s> {
    Table {
        name: Token<'s>,
        contents: Vec<Contents<'s>>,
    },
    Rule(Box<Draft<'s>>),
    Skip(Vec<On>),
    BlockPolicy(Action),
    /// An option of pf that is accepted without effect, and the remark about it.
    Idle(Token<'s>, &'static str),
    Antispoof(Antispoof<'s>),
}

pub(super) struct Antispoof<'s> {
    pub(super) at: usize,
    pub(super) log: bool,
    pub(super) quick: bool,
    pub(super) links: Vec<Link<'s>>,
    pub(super) family: Option<Family>,
    pub(super) label: Option<&'s str>,
}

pub(super) enum Contents<'s> {
    Here(Vec<Listed>),
    File(Token<'s>),
}

/// Addresses in a table, and their places in the text.
pub(super) struct Listed {
    pub(super) at: usize,
    pub(super) not: bool,
    pub(super) addresses: Addresses,
}

#[derive(Clone, Copy)]
pub(super) enum Addresses {
    Prefix(Prefix),
    Range(Range),
}

impl Addresses {
    pub(super) fn family(self) -> Family {
        match self {
            Self::Prefix(prefix) => prefix.family,
            Self::Range(range) => range.family,
        }
    }

    pub(super) fn prefixes(self) -> Vec<Prefix> {
        match self {
            Self::Prefix(prefix) => vec![prefix],
            Self::Range(range) => range.prefixes().collect(),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Entry<'s> {
    pub(super) not: bool,
    /// The position of the entry in the texts, in bytes.
    pub(super) at: usize,
    pub(super) host: DraftHost<'s>,
}

#[derive(Clone, Copy)]
pub(super) enum DraftHost<'s> {
    Addresses(Addresses),
    Table(Token<'s>),
    Link(Link<'s>),
    NoRoute,
    UrpfFailed(Token<'s>),
}

/// A link, or all of them for `self`.
#[derive(Clone, Copy)]
pub(super) struct Link<'s> {
    pub(super) name: &'s str,
    pub(super) at: usize,
    pub(super) part: Part,
    pub(super) first: bool,
}

pub(super) struct Draft<'s> {
    pub(super) at: usize,
    /// The action; `None` for plain `block`, whose action is that of `set block-policy`.
    pub(super) action: Option<Action>,
    pub(super) log: bool,
    pub(super) quick: bool,
    pub(super) on: Vec<On>,
    pub(super) family: Option<(Token<'s>, Family)>,
    pub(super) protocols: Vec<u8>,
    pub(super) from: DraftSide<'s>,
    pub(super) to: DraftSide<'s>,
    pub(super) options: Vec<(Token<'s>, Opt<'s>)>,
    /// A remark about the rule, for the user.
    pub(super) note: Option<&'static str>,
}

#[derive(Default)]
pub(super) struct DraftSide<'s> {
    pub(super) hosts: DraftHosts<'s>,
    pub(super) ports: Option<(Token<'s>, Vec<Ports>)>,
}

#[derive(Default)]
pub(super) enum DraftHosts<'s> {
    #[default]
    Any,
    One(Entry<'s>),
    List(Vec<Entry<'s>>),
}

#[derive(Clone)]
pub(super) enum Opt<'s> {
    Flags(Option<Flags>),
    Icmp(Vec<Icmp>),
    Icmpv6(Vec<Icmp>),
    Fragment,
    Tos(Tos),
    Less(u16),
    Greater(u16),
    Label(&'s str),
    Tag(&'s str),
    Tagged {
        not: bool,
        tag: &'s str,
    },
    Probability(Probability),
    Received(On),
    Changes(Changes),
    /// A word that is accepted without effect.
    Idle(&'static str),
}
