//! The grammar of addresses, links and ports.

use core::net::IpAddr;

use winnow::Parser;
use winnow::combinator::{alt, opt, preceded};
use winnow::stream::Stream as _;

use super::draft::{Addresses, DraftHost, DraftHosts, DraftSide, Entry, Link, Listed};
use super::terminal::{Input, Parsed, any_word, list, named, one_or_list, terminal};
use crate::route::rules::address::{Address, Prefix, Range};
use crate::route::rules::names;
use crate::route::rules::rule::{On, Part, Ports};
use crate::route::rules::token::{Kind, Token};

/// Reads addresses of a table, with `!` before them or not.
pub(super) fn listed<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Listed> {
    named("an address, a prefix such as 10.0.0.0/8, or a range such as 10.0.0.1 - 10.0.0.9", |input| {
        let not = opt(sign!("!")).parse_next(input)?.is_some();
        let at = place(input);
        Ok(Listed { at, not, addresses: addresses("an address, a prefix or a range")(input)? })
    })(input)
}

/// Returns where the next token stands.
pub(super) fn place(input: &Input<'_, '_>) -> usize {
    input.peek_token().map_or(0, |token| token.at)
}

/// Reads a prefix, or a range: with blanks around its `-`, as pf wants them, or without.
fn addresses<'i, 's: 'i>(what: &'static str) -> impl FnMut(&mut Input<'i, 's>) -> Parsed<Addresses> {
    move |input| {
        let first = any_word(what, |text| prefix_of(text).or_else(|| range_of(text)))(input)?;
        let Addresses::Prefix(prefix) = first else { return Ok(first) };
        let Some(address) = prefix.address() else { return Ok(first) };
        let last = any_word("the range's last address, not below its first one", |text| {
            Range::new(address, address_of(text)?).map(Addresses::Range)
        });
        Ok(opt(preceded(word!("-"), last)).parse_next(input)?.unwrap_or(first))
    }
}

fn prefix_of(text: &str) -> Option<Addresses> {
    Prefix::parse(text).map(Addresses::Prefix)
}

fn range_of(text: &str) -> Option<Addresses> {
    let (first, last) = text.split_once('-')?;
    Range::new(address_of(first)?, address_of(last)?).map(Addresses::Range)
}

fn address_of(text: &str) -> Option<Address> {
    text.parse::<IpAddr>().ok().map(Address::from)
}

pub(super) fn table_name<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Token<'s>> {
    sign!("<")(input)?;
    let name = terminal("the name of a table", |token| is_name(token).then_some(*token))(input)?;
    sign!(">")(input)?;
    Ok(name)
}

pub(super) fn is_name(token: &Token<'_>) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    token.kind == Kind::Word && token.text.chars().all(plain)
}

/// Reads a link that packets come in on: `wan`, `!wan`, `any`.
pub(super) fn on<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<On> {
    let not = opt(sign!("!")).parse_next(input)?.is_some();
    terminal("the name of a link", |token| {
        let name = if token.text == "any" { "" } else { token.text };
        (token.kind == Kind::Word).then(|| On { name: name.to_owned(), not, interface: None, at: token.at })
    })(input)
}

/// Reads a link that stands for its addresses: `wan`, `(wan)`, `lan:network`, `self`.
pub(super) fn link<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Link<'s>> {
    let plain = |input: &mut Input<'i, 's>| {
        terminal("the name of a link", |token| {
            let named = token.kind == Kind::Word && !KEYWORDS.contains(&token.text);
            if named { link_of(token) } else { None }
        })(input)
    };
    if opt(sign!("(")).parse_next(input)?.is_none() {
        return plain(input);
    }
    let link = plain(input)?;
    sign!(")")(input)?;
    Ok(link)
}

/// Words that may follow addresses, and so are not names of links. So the error about a forgotten address is
/// at its place.
const KEYWORDS: [&str; 7] = ["port", "to", "from", "any", "all", "flags", "route"];

fn link_of<'s>(token: &Token<'s>) -> Option<Link<'s>> {
    let mut parts = token.text.split(':');
    let name = parts.next()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(plain);
    let mut link = Link { name, at: token.at, part: Part::Own, first: false };
    for part in parts {
        match part {
            "network" => link.part = Part::Network,
            "broadcast" => link.part = Part::Broadcast,
            "0" => link.first = true,
            _ => return None,
        }
    }
    is_name.then_some(link)
}

pub(super) fn sides<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<(DraftSide<'s>, DraftSide<'s>)> {
    if opt(word!("all")).parse_next(input)?.is_some() {
        return Ok(Default::default());
    }
    let from = opt(preceded(word!("from"), side)).parse_next(input)?.unwrap_or_default();
    let to = opt(preceded(word!("to"), side)).parse_next(input)?.unwrap_or_default();
    Ok((from, to))
}

/// Reads hosts, ports or both: `from port 53` is `from any port 53`.
fn side<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<DraftSide<'s>> {
    let ports = |input: &mut Input<'i, 's>| {
        let token = word!("port")(input)?;
        Ok((token, one_or_list(named("a port, such as 53, domain, 1000:2000 or != 80", ports))(input)?))
    };
    if let Some(ports) = opt(ports).parse_next(input)? {
        return Ok(DraftSide { hosts: DraftHosts::Any, ports: Some(ports) });
    }
    let hosts = named("an address, `any`, a <table> or a link", hosts)(input)?;
    Ok(DraftSide { hosts, ports: opt(ports).parse_next(input)? })
}

fn hosts<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<DraftHosts<'s>> {
    if opt(word!("any")).parse_next(input)?.is_some() {
        return Ok(DraftHosts::Any);
    }
    if opt(sign!("{")).parse_next(input)?.is_some() {
        let all = list(&mut named("an address, a <table> or a link", in_list), input)?;
        // A list with `any` stands for all addresses.
        let entries: Option<Vec<_>> = all.into_iter().collect();
        return Ok(entries.map_or(DraftHosts::Any, DraftHosts::List));
    }
    entry(input).map(DraftHosts::One)
}

/// Reads an element of a list; `None` for `any`.
fn in_list<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Option<Entry<'s>>> {
    if opt(word!("any")).parse_next(input)?.is_some() {
        return Ok(None);
    }
    entry(input).map(Some)
}

fn entry<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Entry<'s>> {
    let at = place(input);
    let not = opt(sign!("!")).parse_next(input)?.is_some();
    Ok(Entry { not, at, host: named("an address, a <table> or a link", host)(input)? })
}

fn host<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<DraftHost<'s>> {
    let addresses = addresses("an address").map(DraftHost::Addresses);
    let table = table_name.map(DraftHost::Table);
    let no_route = word!("no-route").map(|_| DraftHost::NoRoute);
    let urpf_failed = word!("urpf-failed").map(DraftHost::UrpfFailed);
    alt((addresses, table, no_route, urpf_failed, link.map(DraftHost::Link))).parse_next(input)
}

fn ports<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Ports> {
    type Make = fn(u16) -> Ports;
    const UNARY: [(&str, Make); 6] = [
        ("=", Ports::Equal),
        ("!=", Ports::NotEqual),
        ("<", Ports::Less),
        ("<=", Ports::LessOrEqual),
        (">", Ports::Greater),
        (">=", Ports::GreaterOrEqual),
    ];
    let unary = |token: &Token<'_>| {
        let sign = UNARY.iter().find(|(sign, _)| token.kind == Kind::Sign && token.text == *sign);
        sign.map(|&(_, make)| make)
    };
    if let Some(make) = opt(terminal("an operator", unary)).parse_next(input)? {
        return port(input).map(make);
    }
    if let Some(range) = opt(any_word("a range", range)).parse_next(input)? {
        return Ok(range);
    }
    let first = port(input)?;
    let between = preceded(sign!("><"), port).map(|last| Ports::Between(first, last));
    let outside = preceded(sign!("<>"), port).map(|last| Ports::Outside(first, last));
    let spaced = preceded(word!(":"), port).map(|last| Ports::Range(first, last));
    Ok(opt(alt((between, outside, spaced))).parse_next(input)?.unwrap_or(Ports::Equal(first)))
}

fn port<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<u16> {
    any_word("a port from 0 to 65535", names::parse_port)(input)
}

fn range(text: &str) -> Option<Ports> {
    let (first, last) = text.split_once(':')?;
    Some(Ports::Range(names::parse_port(first)?, names::parse_port(last)?))
}
