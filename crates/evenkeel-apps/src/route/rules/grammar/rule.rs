//! The grammar of a rule up to its options.

use winnow::Parser;
use winnow::combinator::{alt, opt, preceded, repeat};

use super::draft::{Draft, Opt};
use super::hosts::{on, place, sides};
use super::options::{changes, option};
use super::terminal::{Input, Parsed, any_word, one_or_list, terminal};
use crate::route::rules::address::Family;
use crate::route::rules::names;
use crate::route::rules::rule::{Action, Changes, On};
use crate::route::rules::token::Token;

pub(super) fn rule<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Draft<'s>> {
    let at = place(input);
    let action = action(input)?;
    let head = head(input)?;
    let options = repeat(0.., option).parse_next(input)?;
    Ok(Draft { at, action, options, ..head })
}

/// Reads a `scrub` rule of old: a rule that changes headers, wherever it stands.
pub(super) fn scrub<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Draft<'s>> {
    let at = place(input);
    let token = word!("scrub")(input)?;
    let head = head(input)?;
    let changes = changes(input)?;
    let idle = "packets are not reassembled, so that this line does nothing";
    let note = (changes == Changes::default()).then_some(idle);
    let options = vec![(token, Opt::Changes(changes))];
    Ok(Draft { at, action: Some(Action::Match), options, note, ..head })
}

/// Reads what every rule has between its first word and its options.
fn head<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Draft<'s>> {
    let (log, quick, note) = ways(input)?;
    let on: Vec<On> = opt(preceded(word!("on"), one_or_list(on))).parse_next(input)?.unwrap_or_default();
    let family = opt(family).parse_next(input)?;
    let protocol = any_word("a protocol, such as tcp, udp, icmp or a number", names::parse_protocol);
    let protocols =
        opt(preceded(word!("proto"), one_or_list(protocol))).parse_next(input)?.unwrap_or_default();
    let (from, to) = sides(input)?;
    Ok(Draft { at: 0, action: None, log, quick, on, family, protocols, from, to, options: Vec::new(), note })
}

/// Reads the action; `None` for `block` without more.
fn action<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Option<Action>> {
    if opt(word!("pass")).parse_next(input)?.is_some() {
        return Ok(Some(Action::Pass));
    }
    if opt(word!("match")).parse_next(input)?.is_some() {
        return Ok(Some(Action::Match));
    }
    word!("block")(input)?;
    if opt(word!("return-icmp")).parse_next(input)?.is_some() {
        let (v4, v6) = answer(V4, V6, input)?;
        return Ok(Some(Action::ReturnIcmp { v4, v6 }));
    }
    if opt(word!("return-icmp6")).parse_next(input)?.is_some() {
        let (v6, v4) = answer(V6, V4, input)?;
        return Ok(Some(Action::ReturnIcmp { v4, v6 }));
    }
    let others = alt((
        word!("return").value(Action::Return),
        word!("return-rst").value(Action::ReturnRst),
        word!("drop").value(Action::Drop),
    ));
    opt(others).parse_next(input)
}

/// The ICMP codes of a family for "destination unreachable".
#[derive(Clone, Copy)]
struct Codes {
    kind: u8,
    parse: fn(u8, &str) -> Option<u8>,
    /// The code of an unreachable port.
    port: u8,
}

const V4: Codes = Codes { kind: names::UNREACHABLE, parse: names::parse_icmp_code, port: 3 };
const V6: Codes = Codes { kind: names::UNREACHABLE_V6, parse: names::parse_icmpv6_code, port: 4 };
/// The code for a packet that is too big (RFC 792). Its message contains the size that fits, so rules must
/// not use it.
const NEED_FRAGMENTS: (u8, u8) = (names::UNREACHABLE, 4);

/// Reads codes: of one family, and after a comma of the other one. Without them it is that of an unreachable
/// port, as in pf.
fn answer<'i, 's: 'i>(first: Codes, second: Codes, input: &mut Input<'i, 's>) -> Parsed<(u8, u8)> {
    let code = |Codes { kind, parse, .. }: Codes| {
        any_word("a code of `unreach`, such as port-unr or a number, but not needfrag", move |text| {
            parse(kind, text).filter(|code| (kind, *code) != NEED_FRAGMENTS)
        })
    };
    let (mut one, mut other) = (first.port, second.port);
    if opt(sign!("(")).parse_next(input)?.is_some() {
        one = code(first)(input)?;
        if opt(sign!(",")).parse_next(input)?.is_some() {
            other = code(second)(input)?;
        }
        sign!(")")(input)?;
    }
    Ok((one, other))
}

/// Reads `in`, `log` and `quick`, each at most once. pf has them in this order; here any will do.
fn ways<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<(bool, bool, Option<&'static str>)> {
    let (mut inward, mut log, mut quick, mut note) = (false, false, false, None);
    loop {
        if !inward && opt(word!("in")).parse_next(input)?.is_some() {
            inward = true;
        } else if !log && opt(word!("log")).parse_next(input)?.is_some() {
            log = true;
            note = in_log(input)?;
        } else if !quick && opt(word!("quick")).parse_next(input)?.is_some() {
            quick = true;
        } else {
            return Ok((log, quick, note));
        }
    }
}

/// Reads what is in parentheses behind `log`: every packet is logged anyway, and there is one log.
fn in_log<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Option<&'static str>> {
    if opt(sign!("(")).parse_next(input)?.is_none() {
        return Ok(None);
    }
    let mut note = None;
    loop {
        if opt(word!("to")).parse_next(input)?.is_some() {
            terminal("a name", |token: &Token<'s>| Some(token.text))(input)?;
            note = Some("the log is the file of --log");
        } else {
            word!("all")(input)?;
        }
        opt(sign!(",")).parse_next(input)?;
        if opt(sign!(")")).parse_next(input)?.is_some() {
            return Ok(note);
        }
    }
}

pub(super) fn family<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<(Token<'s>, Family)> {
    let v4 = word!("inet").map(|token| (token, Family::V4));
    let v6 = word!("inet6").map(|token| (token, Family::V6));
    alt((v4, v6)).parse_next(input)
}
