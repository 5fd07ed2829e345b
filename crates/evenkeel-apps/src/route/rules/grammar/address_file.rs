//! Files of addresses, which tables name.

use winnow::error::EmptyError;
use winnow::stream::{Stream as _, TokenSlice};

use super::draft::Listed;
use super::hosts;
use super::terminal::{Input, Trace, unexpected};
use crate::route::rules::token::{self, Kind};
use crate::route::text_error::TextError;

/// Reads a file of addresses: one after the other, between blanks or ends of lines, each with `!` before it
/// or not.
pub(super) fn address_file(file: &str, text: &str) -> Result<Vec<Listed>, TextError> {
    let mut tokens =
        token::lex(text, 0).map_err(|at| TextError::at(file, text, at, token::unreadable(text, at)))?;
    tokens.retain(|token| token.kind != Kind::Newline);
    let trace = Trace::default();
    let mut input = Input { input: TokenSlice::new(&tokens), state: &trace };
    let mut all = Vec::new();
    while input.peek_token().is_some() {
        match hosts::listed(&mut input) {
            Ok(listed) => all.push(listed),
            Err(EmptyError) => {
                let (at, what) = unexpected(text.len(), &tokens, &trace.0.borrow());
                return Err(TextError::at(file, text, at, what));
            }
        }
    }
    Ok(all)
}
