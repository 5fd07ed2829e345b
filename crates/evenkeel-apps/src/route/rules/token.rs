//! The lexer: it converts text to tokens, removes comments, and expands macros.

use std::collections::{BTreeMap, VecDeque};

use winnow::Parser as _;
use winnow::ascii::line_ending;
use winnow::combinator::{alt, delimited, repeat};
use winnow::error::EmptyError;
use winnow::stream::{LocatingSlice, Location as _};
use winnow::token::{one_of, take_till, take_while};

use super::ReadFile;
use super::source::Sources;
use crate::route::text_error::TextError;

/// A word or sign, and its place. Tokens of a macro have the place where the macro was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'s> {
    pub(super) kind: Kind,
    pub(super) text: &'s str,
    /// The place in bytes from the beginning of the first text.
    pub(super) at: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A keyword, name, number, address.
    Word,
    /// A text between double quotes.
    Text,
    /// A macro, `$name`, without the sign.
    Macro,
    /// A sign: one of `! = != < > <= >= <> >< { } ( ) ,`.
    Sign,
    /// The end of a statement.
    Newline,
}

/// The most nested braces.
const DEPTH_MAX: usize = 8;
/// The most tokens after macro expansion: some hundreds of megabytes of memory.
const TOKENS_MAX: usize = 1 << 22;

/// The most nested includes.
const DEEP_MAX: usize = 16;
/// The most bytes of all files together.
const BYTES_MAX: usize = 64 << 20;

/// Reads the files that a text includes, and those that they include.
pub(super) fn load(file: &str, text: &str, read: &ReadFile<'_>) -> Result<Sources, TextError> {
    let (mut sources, mut left) = (Sources::default(), VecDeque::new());
    sources.add(file, text.to_owned(), None);
    left.push_back((0, 0));
    let mut bytes = text.len();
    while let Some((number, depth)) = left.pop_front() {
        for (at, path) in included(&sources, number)? {
            let (name, text) = read(&path).map_err(|why| sources.error_at(at, why))?;
            bytes += text.len();
            if depth == DEEP_MAX || bytes > BYTES_MAX {
                let what = "files include one another too deeply, or are too large together";
                return Err(sources.error_at(at, what));
            }
            left.push_back((sources.add(&name, text, Some(at)), depth + 1));
        }
    }
    Ok(sources)
}

/// Returns the names of files that a text includes, and their places.
fn included(sources: &Sources, number: usize) -> Result<Vec<(usize, String)>, TextError> {
    let all = statements(sources, number)?;
    Ok(all
        .iter()
        .filter_map(|statement| include(statement))
        .map(|path| (path.at, path.text.to_owned()))
        .collect())
}

/// Returns the name of the file if a statement is an include.
fn include<'s>(statement: &[Token<'s>]) -> Option<Token<'s>> {
    match *statement {
        [word, path] if is_word_token(&word, "include") && path.kind == Kind::Text => Some(path),
        _ => None,
    }
}

fn is_word_token(token: &Token<'_>, text: &str) -> bool {
    token.kind == Kind::Word && token.text == text
}

/// Returns the tokens of rules, with a `Newline` at the end of each statement and nowhere else.
pub(super) fn tokens(sources: &Sources) -> Result<Vec<Token<'_>>, TextError> {
    let mut expansion = Expansion { sources, macros: BTreeMap::new(), made: 0, done: Vec::new() };
    // Texts that continue after an included file.
    let mut open = vec![statements(sources, 0)?.into_iter()];
    while let Some(text) = open.last_mut() {
        let Some(statement) = text.next() else {
            open.pop();
            continue;
        };
        if let Some(path) = include(&statement) {
            if let Some(number) = sources.included_at(path.at) {
                open.push(statements(sources, number)?.into_iter());
            }
            continue;
        }
        match statement[..] {
            [name, equals, ..]
                if name.kind == Kind::Word && equals.text == "=" && equals.kind == Kind::Sign =>
            {
                expansion.define(name, statement.get(2..).unwrap_or_default())?;
            }
            _ => expansion.put(&statement)?,
        }
    }
    Ok(expansion.done)
}

/// Returns a message about the character at `at`, where no word begins.
pub(super) fn unreadable(text: &str, at: usize) -> String {
    let found = text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or(' ');
    match found {
        '"' => "this text has no closing `\"` on its line".to_owned(),
        '$' => "expected the name of a macro after `$`".to_owned(),
        other => format!("`{}` means nothing here", other.escape_default()),
    }
}

/// Returns the tokens of `text`, which begins at byte `base` of the file; or the place where none begins.
pub(super) fn lex(text: &str, base: usize) -> Result<Vec<Token<'_>>, usize> {
    let mut input = LocatingSlice::new(text);
    let mut tokens = Vec::new();
    loop {
        // Blanks, comments and continued lines never fail.
        let _ = blank(&mut input);
        let at = base + input.current_token_start();
        if input.is_empty() {
            return Ok(tokens);
        }
        let (kind, text) = token(&mut input).map_err(|_| at)?;
        tokens.push(Token { kind, text, at });
    }
}

type Text<'s> = LocatingSlice<&'s str>;

fn blank(input: &mut Text<'_>) -> Result<(), EmptyError> {
    let spaces = take_while(1.., |c: char| c == ' ' || c == '\t').void();
    let comment = ('#', take_till(0.., ['\n'])).void();
    let continued = ('\\', line_ending).void();
    repeat(0.., alt((spaces, comment, continued))).parse_next(input)
}

fn token<'s>(input: &mut Text<'s>) -> Result<(Kind, &'s str), EmptyError> {
    let newline = line_ending.map(|text| (Kind::Newline, text));
    let quoted = delimited('"', take_till(0.., ['"', '\n']), '"').map(|text| (Kind::Text, text));
    let used = ('$', name).map(|(_, text)| (Kind::Macro, text));
    let pair = alt(("!=", "<=", ">=", "<>", "><"));
    let sign = alt((pair, one_of(['!', '=', '<', '>', '{', '}', '(', ')', ',']).take()))
        .map(|text| (Kind::Sign, text));
    let word = take_while(1.., is_word).map(|text| (Kind::Word, text));
    alt((newline, quoted, used, sign, word)).parse_next(input)
}

fn name<'s>(input: &mut Text<'s>) -> Result<&'s str, EmptyError> {
    take_while(1.., |c: char| c.is_ascii_alphanumeric() || c == '_').parse_next(input)
}

/// Returns whether a character can be part of a word: an address, port, name or flag.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '/' | '-' | '_' | '*' | '@' | '+' | '%' | ';')
}

/// Returns the statements of a text: cut at ends of lines, except within braces.
fn statements(sources: &Sources, number: usize) -> Result<Vec<Vec<Token<'_>>>, TextError> {
    let Some(source) = sources.get(number) else { return Ok(Vec::new()) };
    let tokens = lex(&source.text, source.base)
        .map_err(|at| sources.error_at(at, unreadable(&source.text, at - source.base)))?;
    let (mut open, mut all, mut current) = (Vec::new(), Vec::new(), Vec::new());
    for token in tokens {
        match (token.kind, token.text) {
            (Kind::Newline, _) if open.is_empty() => {
                if !current.is_empty() {
                    all.push(core::mem::take(&mut current));
                }
            }
            (Kind::Newline, _) => {}
            (kind, sign) => {
                current.push(token);
                match (kind, sign) {
                    (Kind::Sign, "{") if open.len() == DEPTH_MAX => {
                        return Err(sources.error_at(token.at, "too many `{` within one another"));
                    }
                    (Kind::Sign, "{") => open.push(token.at),
                    (Kind::Sign, "}") => drop(open.pop()),
                    _ => {}
                }
            }
        }
    }
    if let Some(&at) = open.last() {
        return Err(sources.error_at(at, "this `{` is never closed"));
    }
    if !current.is_empty() {
        all.push(current);
    }
    Ok(all)
}

/// The definitions of macros, and the statements after expansion.
struct Expansion<'s> {
    sources: &'s Sources,
    macros: BTreeMap<&'s str, Vec<Token<'s>>>,
    /// Tokens created so far, including those of defined macros.
    made: usize,
    done: Vec<Token<'s>>,
}

impl<'s> Expansion<'s> {
    /// Defines a macro, `name = value`. The value ends with the statement; texts in quotes are part of it.
    fn define(&mut self, name: Token<'s>, value: &[Token<'s>]) -> Result<(), TextError> {
        if value.is_empty() {
            return Err(self.error_at(name.at, format!("macro `{}` has no value", name.text)));
        }
        let mut expanded = Vec::new();
        for token in value {
            match token.kind {
                // The quote itself is before the text.
                Kind::Text => {
                    let base = token.at + 1;
                    let inner = lex(token.text, base)
                        .map_err(|at| self.error_at(at, unreadable(token.text, at - base)))?;
                    for token in inner {
                        self.expand(token, &mut expanded)?;
                    }
                }
                _ => self.expand(*token, &mut expanded)?,
            }
        }
        self.macros.insert(name.text, expanded);
        Ok(())
    }

    fn put(&mut self, statement: &[Token<'s>]) -> Result<(), TextError> {
        let mut expanded = Vec::new();
        for &token in statement {
            self.expand(token, &mut expanded)?;
        }
        let end = statement
            .last()
            .map_or(0, |last| last.at + last.text.len() + 2 * usize::from(last.kind == Kind::Text));
        self.done.extend(expanded);
        self.done.push(Token { kind: Kind::Newline, text: "\n", at: end });
        Ok(())
    }

    fn expand(&mut self, token: Token<'s>, to: &mut Vec<Token<'s>>) -> Result<(), TextError> {
        if token.kind != Kind::Macro {
            to.push(token);
            return self.count(1, token.at);
        }
        let Some(value) = self.macros.get(token.text) else {
            return Err(self.error_at(token.at, format!("no macro `{}` is defined before this", token.text)));
        };
        let len = value.len();
        to.extend(value.iter().map(|inner| Token { at: token.at, ..*inner }));
        self.count(len, token.at)
    }

    fn count(&mut self, tokens: usize, at: usize) -> Result<(), TextError> {
        self.made += tokens;
        let room = self.made <= TOKENS_MAX;
        room.then_some(()).ok_or_else(|| self.error_at(at, "more words than memory should hold".to_owned()))
    }

    fn error_at(&self, at: usize, what: String) -> TextError {
        self.sources.error_at(at, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Sources, TextError> {
        load("t", text, &|name| Ok((name.to_owned(), name.replace(';', "\n"))))
    }

    fn texts(text: &str) -> Vec<String> {
        tokens(&read(text).unwrap()).unwrap().iter().map(|t| t.text.to_owned()).collect()
    }

    #[test]
    fn files_are_included_with_their_macros_and_errors_are_theirs() {
        let text = "a = b\ninclude \"c = $a ; pass $c\"\nblock $c";
        assert_eq!(texts(text), ["pass", "b", "\n", "block", "b", "\n"]);
        let sources = read(text).unwrap();
        let all = tokens(&sources).unwrap();
        let place = |index: usize| {
            let error = sources.error_at(all[index].at, "x");
            (error.file.clone(), error.line, error.column)
        };
        assert_eq!(place(0), ("c = $a ; pass $c".to_owned(), 2, 2));
        assert_eq!(place(3), ("t".to_owned(), 3, 1));
        let endless = load("t", "include \"x\"", &|name| Ok((name.to_owned(), "include \"x\"".to_owned())));
        assert_eq!(
            endless.unwrap_err().to_string(),
            "x:1:9: files include one another too deeply, or are too large together"
        );
        let absent = load("t", "include \"x\"", &|_| Err("not there".to_owned()));
        assert_eq!(absent.unwrap_err().to_string(), "t:1:9: not there");
    }

    #[test]
    fn words_signs_comments_and_continued_lines() {
        assert_eq!(
            texts("pass in # all\n\nblock from !10.0.0.0/8 \\\n to <bad> port >=1024"),
            [
                "pass",
                "in",
                "\n",
                "block",
                "from",
                "!",
                "10.0.0.0/8",
                "to",
                "<",
                "bad",
                ">",
                "port",
                ">=",
                "1024",
                "\n"
            ]
        );
        assert_eq!(texts("table <t> {\n a\n b }"), ["table", "<", "t", ">", "{", "a", "b", "}", "\n"]);
    }

    #[test]
    fn macros_are_put_in_also_into_one_another() {
        assert_eq!(
            texts("web = \"{ 80, 443 }\"\nall=$web\npass port $all"),
            ["pass", "port", "{", "80", ",", "443", "}", "\n"]
        );
        let sources = read("a = \"b\"\npass $a").unwrap();
        let used = tokens(&sources).unwrap();
        assert_eq!(used[1], Token { kind: Kind::Word, text: "b", at: 13 }, "it stands where it is used");
    }

    #[test]
    fn what_cannot_be_read_is_pointed_at() {
        let said = |text: &str| read(text).and_then(|all| tokens(&all).map(drop)).unwrap_err().to_string();
        assert_eq!(said("pass\nblock \"x"), "t:2:7: this text has no closing `\"` on its line");
        assert_eq!(said("pass §"), "t:1:6: `\\u{a7}` means nothing here");
        assert_eq!(said("pass $x"), "t:1:6: no macro `x` is defined before this");
        assert_eq!(said("x ="), "t:1:1: macro `x` has no value");
        assert_eq!(said("pass { {"), "t:1:8: this `{` is never closed");
    }

    /// Each macro doubles the previous one: forty lines would be a million million tokens.
    #[test]
    fn macros_cannot_use_up_memory() {
        let mut text = "m0 = \"x x\"\n".to_owned();
        for n in 1..40 {
            text.push_str(&format!("m{n} = \"$m{0} $m{0}\"\n", n - 1));
        }
        assert!(tokens(&read(&text).unwrap()).unwrap_err().what.contains("memory"));
    }
}
