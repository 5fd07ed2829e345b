//! Parsers of words and signs, of lists of them, and the place of a syntax error.

use core::cell::RefCell;

use winnow::Parser;
use winnow::combinator::opt;
use winnow::error::EmptyError;
use winnow::stream::{Stateful, Stream as _, TokenSlice};

use super::hint;
use crate::route::rules::token::{Kind, Token};
use crate::text::alternatives;

pub(super) type Input<'i, 's> = Stateful<TokenSlice<'i, Token<'s>>, &'i Trace>;
pub(super) type Parsed<T> = Result<T, EmptyError>;

/// The furthest place with an unexpected token. Among all ways in which a text could continue, the one that
/// got furthest is nearly always the intended one.
#[derive(Debug, Default)]
pub(super) struct Trace(pub(super) RefCell<Furthest>);

#[derive(Debug)]
pub(super) struct Furthest {
    /// Tokens that remain.
    pub(super) left: usize,
    pub(super) expected: Vec<&'static str>,
}

impl Default for Furthest {
    fn default() -> Self {
        Self { left: usize::MAX, expected: Vec::new() }
    }
}

impl Trace {
    pub(super) fn record(&self, left: usize, expected: &'static str) {
        let mut furthest = self.0.borrow_mut();
        if left < furthest.left {
            furthest.left = left;
            furthest.expected.clear();
        }
        if left == furthest.left && !furthest.expected.contains(&expected) {
            furthest.expected.push(expected);
        }
    }

    /// Replaces the expectations at this place, where a part began, with the name of the part.
    pub(super) fn rename(&self, left: usize, expected: &'static str) {
        let mut furthest = self.0.borrow_mut();
        if left == furthest.left {
            furthest.expected = vec![expected];
        }
    }
}

/// Returns the next token if `accept` takes it; otherwise records that `what` was expected here.
pub(super) fn terminal<'i, 's, T>(
    what: &'static str,
    accept: impl Fn(&Token<'s>) -> Option<T>,
) -> impl FnMut(&mut Input<'i, 's>) -> Parsed<T>
where
    's: 'i,
{
    move |input| {
        if let Some(accepted) = input.peek_token().and_then(&accept) {
            input.next_token();
            return Ok(accepted);
        }
        input.state.record(input.eof_offset(), what);
        Err(EmptyError)
    }
}

/// Parses a keyword; `shown` is the keyword in backticks.
pub(super) fn word<'i, 's: 'i>(
    text: &'static str,
    shown: &'static str,
) -> impl FnMut(&mut Input<'i, 's>) -> Parsed<Token<'s>> {
    terminal(shown, move |token| (token.kind == Kind::Word && token.text == text).then_some(*token))
}

pub(super) fn sign<'i, 's: 'i>(
    text: &'static str,
    shown: &'static str,
) -> impl FnMut(&mut Input<'i, 's>) -> Parsed<Token<'s>> {
    terminal(shown, move |token| (token.kind == Kind::Sign && token.text == text).then_some(*token))
}

/// Parses any word that `accept` takes.
pub(super) fn any_word<'i, 's: 'i, T>(
    what: &'static str,
    accept: impl Fn(&str) -> Option<T>,
) -> impl FnMut(&mut Input<'i, 's>) -> Parsed<T> {
    terminal(what, move |token| if token.kind == Kind::Word { accept(token.text) } else { None })
}

/// Parses one item, or several in braces; braces within braces change nothing.
pub(super) fn one_or_list<'i, 's: 'i, T>(
    mut one: impl FnMut(&mut Input<'i, 's>) -> Parsed<T>,
) -> impl FnMut(&mut Input<'i, 's>) -> Parsed<Vec<T>> {
    move |input| {
        if opt(sign!("{")).parse_next(input)?.is_none() {
            return one(input).map(|one| vec![one]);
        }
        list(&mut one, input)
    }
}

/// Reads the contents of a list after its opening brace, up to the closing one. It does not recurse,
/// because macros can nest braces to any depth.
pub(super) fn list<'i, 's: 'i, T>(
    one: &mut impl FnMut(&mut Input<'i, 's>) -> Parsed<T>,
    input: &mut Input<'i, 's>,
) -> Parsed<Vec<T>> {
    let (mut all, mut depth) = (Vec::new(), 1_usize);
    loop {
        while opt(sign!("{")).parse_next(input)?.is_some() {
            depth += 1;
        }
        all.push(one(input)?);
        loop {
            opt(sign!(",")).parse_next(input)?;
            if opt(sign!("}")).parse_next(input)?.is_none() {
                break;
            }
            depth -= 1;
            if depth == 0 {
                return Ok(all);
            }
        }
    }
}

/// Parses a part with a name. If not even its beginning is there, the error names the part.
pub(super) fn named<'i, 's: 'i, T>(
    what: &'static str,
    mut part: impl FnMut(&mut Input<'i, 's>) -> Parsed<T>,
) -> impl FnMut(&mut Input<'i, 's>) -> Parsed<T> {
    move |input| {
        let left = input.eof_offset();
        let parsed = part(input);
        if parsed.is_err() {
            input.state.rename(left, what);
        }
        parsed
    }
}

/// Returns the position of a syntax error, and a message about what was found and what was expected.
pub(super) fn unexpected(end: usize, tokens: &[Token<'_>], furthest: &Furthest) -> (usize, String) {
    let found = tokens.len().checked_sub(furthest.left).and_then(|index| tokens.get(index));
    let expected = alternatives(furthest.expected.iter().copied());
    let (at, found) = match found {
        None => (end, "the end of the file".to_owned()),
        Some(token) if token.kind == Kind::Newline => (token.at, "the end of the line".to_owned()),
        Some(token) => match hint::of(token) {
            Some(hint) => return (token.at, format!("`{}`: {hint}", token.text)),
            None => (token.at, format!("`{}`{}", token.text, hint::of_host(token, &furthest.expected))),
        },
    };
    (at, format!("expected {expected}, found {found}"))
}
