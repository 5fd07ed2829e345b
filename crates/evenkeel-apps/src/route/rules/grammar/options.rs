//! The options of a rule, which follow its addresses.

use winnow::Parser;
use winnow::combinator::{alt, opt, preceded, repeat};

use super::draft::Opt;
use super::hosts::{is_name, on};
use super::terminal::{Input, Parsed, any_word, one_or_list, terminal};
use crate::route::rules::names;
use crate::route::rules::rule::{Changes, Flags, Icmp, Probability, Tos};
use crate::route::rules::token::{Kind, Token};

/// Reads an option; the token is its first one.
pub(super) fn option<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<(Token<'s>, Opt<'s>)> {
    let bytes = || any_word("a number of bytes from 0 to 65535", names::number);
    let any = any_word("`any`", |text| (text == "any").then_some(None));
    let flags = alt((any, any_word("TCP flags, such as S/SA", flags).map(Some)));
    let types = |parse: Parse, codes: Codes| one_or_list(icmp(parse, codes));
    let v4 = types(names::parse_icmp_type, names::parse_icmp_code);
    let v6 = types(names::parse_icmpv6_type, names::parse_icmpv6_code);
    let name = || terminal("a name", name);
    let headers = alt((
        (word!("flags"), flags.map(Opt::Flags)),
        (word!("icmp-type"), v4.map(Opt::Icmp)),
        (word!("icmp6-type"), v6.map(Opt::Icmpv6)),
        (word!("fragment"), winnow::combinator::empty.value(Opt::Fragment)),
        (word!("tos"), tos.map(Tos).map(Opt::Tos)),
        (word!("dscp"), any_word("a code point, such as ef or 46", names::parse_dscp).map(Tos).map(Opt::Tos)),
        (word!("less"), bytes().map(Opt::Less)),
        (word!("greater"), bytes().map(Opt::Greater)),
        (word!("received-on"), on.map(Opt::Received)),
    ));
    let others = alt((
        (word!("label"), terminal("a text in quotes", name_or_text).map(Opt::Label)),
        (word!("no"), word!("state").value(Opt::Idle(""))),
        (word!("allow-opts"), winnow::combinator::empty.value(Opt::Idle(OPTIONS))),
        (word!("tag"), name().map(Opt::Tag)),
        (word!("tagged"), name().map(|tag| Opt::Tagged { not: false, tag })),
        (sign!("!"), preceded(word!("tagged"), name()).map(|tag| Opt::Tagged { not: true, tag })),
        (word!("probability"), any_word("a chance, such as 20% or 0.2", probability).map(Opt::Probability)),
        (word!("scrub"), within(change).map(Opt::Changes)),
        (word!("set"), alt((within(mark), mark)).map(Opt::Changes)),
    ));
    alt((headers, others)).parse_next(input)
}

const OPTIONS: &str = "packets with IP options pass without it, too";

type Parse = fn(&str) -> Option<u8>;
type Codes = fn(u8, &str) -> Option<u8>;

fn name<'s>(token: &Token<'s>) -> Option<&'s str> {
    // A label is written in quotes, so it must not contain one.
    matches!(token.kind, Kind::Text | Kind::Word).then_some(token.text).filter(|name| !name.is_empty())
}

pub(super) fn name_or_text<'s>(token: &Token<'s>) -> Option<&'s str> {
    (token.kind == Kind::Text || is_name(token)).then_some(token.text)
}

fn flags(text: &str) -> Option<Flags> {
    let (set, mask) = text.split_once('/')?;
    Some(Flags { set: names::parse_flags(set)?, mask: names::parse_flags(mask)? })
}

fn icmp<'i, 's: 'i>(parse: Parse, codes: Codes) -> impl FnMut(&mut Input<'i, 's>) -> Parsed<Icmp> {
    move |input| {
        let kind = any_word("an ICMP type, such as echoreq or a number", parse)(input)?;
        let code = any_word("a number from 0 to 255", |text| codes(kind, text));
        let code = opt(preceded(word!("code"), code)).parse_next(input)?;
        Ok(Icmp { kind, code })
    }
}

fn tos<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<u8> {
    any_word("a type of service, such as lowdelay, ef or 0x10", names::parse_tos)(input)
}

/// Reads a probability, in parts of a thousand million: `20%`, `0.2`, `100%`.
fn probability(text: &str) -> Option<Probability> {
    const DIGITS: usize = 9;
    let (number, shift) = text.strip_suffix('%').map_or((text, 0), |number| (number, 2));
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = DIGITS - shift;
    if (whole.is_empty() && part.is_empty()) || part.len() > digits || whole.len() > 3 {
        return None;
    }
    let all: u64 = names::number(&format!("{whole}{part:0<digits$}"))?;
    u32::try_from(all).ok().filter(|all| *all <= Probability::ONE).map(Probability)
}

/// Reads changes in parentheses, with or without commas.
fn within<'i, 's: 'i>(
    one: fn(&mut Input<'i, 's>) -> Parsed<Changes>,
) -> impl FnMut(&mut Input<'i, 's>) -> Parsed<Changes> {
    move |input| {
        sign!("(")(input)?;
        let mut changes = one(input)?;
        loop {
            opt(sign!(",")).parse_next(input)?;
            if opt(sign!(")")).parse_next(input)?.is_some() {
                return Ok(changes);
            }
            changes.add(&one(input)?);
        }
    }
}

/// Reads changes of `scrub` without parentheses, with what old versions of pf had there.
pub(super) fn changes<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Changes> {
    let idle = (word!("fragment"), word!("reassemble")).value(Changes::default());
    let all: Vec<Changes> = repeat(0.., alt((change, idle))).parse_next(input)?;
    let mut changes = Changes::default();
    all.iter().for_each(|one| changes.add(one));
    Ok(changes)
}

fn change<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Changes> {
    let mss = any_word("a number of bytes from 1 to 65535", positive::<u16>);
    let ttl = any_word("a number of hops from 1 to 255", positive::<u8>);
    alt((
        preceded(word!("max-mss"), mss).map(|mss| Changes { max_mss: Some(mss), ..Changes::default() }),
        preceded(word!("min-ttl"), ttl).map(|ttl| Changes { min_ttl: Some(ttl), ..Changes::default() }),
        word!("no-df").map(|_| Changes { no_df: true, ..Changes::default() }),
        preceded(word!("set-tos"), tos).map(|tos| Changes { tos: Some(tos), ..Changes::default() }),
    ))
    .parse_next(input)
}

fn mark<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Changes> {
    let tos = preceded(word!("tos"), tos);
    tos.map(|tos| Changes { tos: Some(tos), ..Changes::default() }).parse_next(input)
}

fn positive<T: core::str::FromStr + Default + PartialEq>(text: &str) -> Option<T> {
    names::number(text).filter(|number| *number != T::default())
}
