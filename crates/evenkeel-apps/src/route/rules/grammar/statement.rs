//! The grammar of statements: tables, options, and rules.

use winnow::Parser;
use winnow::combinator::{alt, opt, preceded, repeat};
use winnow::stream::Stream as _;

use super::draft::{Antispoof, Contents, Link, Statement};
use super::hosts::{link, listed, on, place, table_name};
use super::options::name_or_text;
use super::rule::{family, rule, scrub};
use super::terminal::{Input, Parsed, list, named, one_or_list, terminal};
use crate::route::rules::rule::Action;
use crate::route::rules::token::{Kind, Token};

pub(super) fn statement<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Statement<'s>> {
    let any = |input: &mut Input<'i, 's>| {
        let rule = alt((rule, scrub)).map(|draft| Statement::Rule(Box::new(draft)));
        alt((table, set, antispoof, rule)).parse_next(input)
    };
    let statement = named(
        "`pass`, `block`, `match`, `scrub`, `table`, `set`, `antispoof`, `include` or `name = value`",
        any,
    )(input)?;
    terminal("the end of the line", |token| (token.kind == Kind::Newline).then_some(()))(input)?;
    Ok(statement)
}

fn table<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Statement<'s>> {
    word!("table")(input)?;
    let name = table_name(input)?;
    // A table lives as long as the rules, changes with them, and has no counters.
    let attribute = alt((word!("persist"), word!("const"), word!("counters")));
    repeat::<_, _, (), _, _>(0.., attribute).parse_next(input)?;
    let contents = repeat(0.., contents).parse_next(input)?;
    Ok(Statement::Table { name, contents })
}

fn contents<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Contents<'s>> {
    if opt(word!("file")).parse_next(input)?.is_some() {
        let path = |token: &Token<'s>| matches!(token.kind, Kind::Text | Kind::Word).then_some(*token);
        return terminal("a file's name in quotes", path)(input).map(Contents::File);
    }
    sign!("{")(input)?;
    if opt(sign!("}")).parse_next(input)?.is_some() {
        return Ok(Contents::Here(Vec::new()));
    }
    list(&mut listed, input).map(Contents::Here)
}

/// Options of pf without effect here, and the reasons.
const IDLE: [(&str, &str); 8] = [
    ("loginterface", "every link is counted"),
    ("debug", "there are no such messages"),
    ("hostid", "there are no states to share"),
    ("fingerprints", "operating systems are not told apart"),
    ("ruleset-optimization", "rules are compiled, and decide in the order they are written"),
    ("require-order", "statements may come in any order, but for what must be defined before"),
    ("keepcounters", "a rule that stays the same goes on counting"),
    ("fail-policy", "rules that cannot be read never come into force"),
];

fn set<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Statement<'s>> {
    word!("set")(input)?;
    if opt(word!("skip")).parse_next(input)?.is_some() {
        return preceded(word!("on"), one_or_list(on)).map(Statement::Skip).parse_next(input);
    }
    if opt(word!("block-policy")).parse_next(input)?.is_some() {
        let policy = alt((word!("drop").value(Action::Drop), word!("return").value(Action::Return)));
        return policy.map(Statement::BlockPolicy).parse_next(input);
    }
    let mut idle = terminal("an option of pf, such as `skip` or `block-policy`", |token| {
        let known = IDLE.iter().find(|(word, _)| token.kind == Kind::Word && token.text == *word);
        known.map(|(_, why)| (*token, *why))
    });
    let (token, why) = match no_reassembly(input) {
        Some(token) => (token, "packets are never reassembled"),
        None => idle(input)?,
    };
    // The value may be anything.
    while input.peek_token().is_some_and(|token| token.kind != Kind::Newline) {
        input.next_token();
    }
    Ok(Statement::Idle(token, why))
}

/// Takes `reassemble no`, but not `reassemble yes`.
fn no_reassembly<'s>(input: &mut Input<'_, 's>) -> Option<Token<'s>> {
    let before = input.checkpoint();
    let (option, value) = (*input.next_token()?, *input.next_token()?);
    let is_no = (option.text, value.text) == ("reassemble", "no");
    if !is_no {
        input.reset(&before);
    }
    is_no.then_some(option)
}

fn antispoof<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Statement<'s>> {
    let at = place(input);
    word!("antispoof")(input)?;
    let log = opt(word!("log")).parse_next(input)?.is_some();
    let quick = opt(word!("quick")).parse_next(input)?.is_some();
    word!("for")(input)?;
    let links: Vec<Link<'s>> = one_or_list(link)(input)?;
    let family = opt(family).parse_next(input)?.map(|(_, family)| family);
    let label = preceded(word!("label"), terminal("a text in quotes", name_or_text));
    let label = opt(label).parse_next(input)?;
    Ok(Statement::Antispoof(Antispoof { at, log, quick, links, family, label }))
}
