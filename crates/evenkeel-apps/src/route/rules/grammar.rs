//! From tokens to rules: the grammar of pf.conf(5), as far as a filter without state has a use for it.
//!
//! ```text
//! statement = table | rule
//! table     = "table" "<" name ">" ["const"] ["persist"] contents { contents }
//! contents  = "{" { ["!"] addresses } "}" | "file" path
//! addresses = prefix | address "-" address
//! rule      = ("pass" | "block" ["drop" | "return"]) ["in"] ["log"] ["quick"] ["on" names]
//!             ["inet" | "inet6"] ["proto" protocols]
//!             ["all" | ["from" hosts ["port" ports]] ["to" hosts ["port" ports]]] { option }
//! option    = "flags" ("any" | set "/" mask) | "icmp-type" types | "icmp6-type" types | "fragment"
//!           | "less" bytes | "greater" bytes | "label" text | "no" "state"
//! ```
//! Where a plural stands, a list in braces may; commas in it are free.

use core::cell::RefCell;
use core::net::IpAddr;
use std::borrow::Cow;

use winnow::Parser;
use winnow::combinator::{alt, opt, preceded, repeat};
use winnow::error::EmptyError;
use winnow::stream::{Stateful, Stream as _, TokenSlice};

use super::ReadFile;
use super::names;
use super::rule::{
    Action, Address, Family, Flags, HostSet, Hosts, Icmp, Line, On, Ports, Prefix, Range, Rule, RuleSet, Side,
};
use super::table::Table;
use super::token::{self, Kind, Token};
use crate::route::text_error::{TextError, alternatives};

type Input<'i, 's> = Stateful<TokenSlice<'i, Token<'s>>, &'i Trace>;
type Parsed<T> = Result<T, EmptyError>;

/// The furthest place where something else was expected than was found. Of all the ways in which a text could
/// go on, the one that got furthest is nearly always the one that was meant.
#[derive(Debug, Default)]
struct Trace(RefCell<Furthest>);

#[derive(Debug)]
struct Furthest {
    /// Tokens that were still to come.
    left: usize,
    expected: Vec<&'static str>,
}

impl Default for Furthest {
    fn default() -> Self {
        Self { left: usize::MAX, expected: Vec::new() }
    }
}

impl Trace {
    fn note(&self, left: usize, expected: &'static str) {
        let mut furthest = self.0.borrow_mut();
        if left < furthest.left {
            furthest.left = left;
            furthest.expected.clear();
        }
        if left == furthest.left && !furthest.expected.contains(&expected) {
            furthest.expected.push(expected);
        }
    }

    /// In place of what was expected at this place, which is where a part began, its name.
    fn rename(&self, left: usize, expected: &'static str) {
        let mut furthest = self.0.borrow_mut();
        if left == furthest.left {
            furthest.expected = vec![expected];
        }
    }
}

/// Reads tokens as a set of rules. `read` gives the text of a file that they name, and what to call it in
/// messages.
pub(super) fn parse(
    file: &str,
    text: &str,
    tokens: &[Token<'_>],
    read: &ReadFile<'_>,
) -> Result<RuleSet, TextError> {
    let trace = Trace::default();
    let mut input = Input { input: TokenSlice::new(tokens), state: &trace };
    let mut set = Building { file, text, read, counted: (0, 0), done: RuleSet::default() };
    while input.peek_token().is_some() {
        match statement(&mut input) {
            Ok(statement) => set.add(statement)?,
            Err(EmptyError) => return Err(unexpected(file, text, tokens, &trace.0.borrow())),
        }
    }
    Ok(set.done)
}

/// Reads a file of addresses: one after the other, between blanks or ends of lines, each with `!` before it
/// or not.
fn address_file(file: &str, text: &str) -> Result<Vec<Listed>, TextError> {
    let mut tokens = token::lex(text, 0).map_err(|at| token::unreadable(file, text, at))?;
    tokens.retain(|token| token.kind != Kind::Newline);
    let trace = Trace::default();
    let mut input = Input { input: TokenSlice::new(&tokens), state: &trace };
    let mut all = Vec::new();
    while input.peek_token().is_some() {
        match listed(&mut input) {
            Ok(listed) => all.push(listed),
            Err(EmptyError) => return Err(unexpected(file, text, &tokens, &trace.0.borrow())),
        }
    }
    Ok(all)
}

/// What was found where it went wrong, and what would have been right.
fn unexpected(file: &str, text: &str, tokens: &[Token<'_>], furthest: &Furthest) -> TextError {
    let found = tokens.len().checked_sub(furthest.left).and_then(|index| tokens.get(index));
    let expected = alternatives(furthest.expected.iter().copied());
    let (at, found) = match found {
        None => (text.len(), "the end of the file".to_owned()),
        Some(token) if token.kind == Kind::Newline => (token.at, "the end of the line".to_owned()),
        Some(token) => (token.at, format!("`{}`{}", token.text, hint(token))),
    };
    TextError::at(file, text, at, format!("expected {expected}, found {found}"))
}

// --- What was read, before names are looked up ---

enum Statement<'s> {
    Table { name: Token<'s>, contents: Vec<Contents<'s>> },
    Rule(Box<Draft<'s>>),
}

enum Contents<'s> {
    Here(Vec<Listed>),
    File(Token<'s>),
}

/// Addresses in a table, and where they stand.
struct Listed {
    at: usize,
    not: bool,
    addresses: Addresses,
}

#[derive(Clone, Copy)]
enum Addresses {
    Prefix(Prefix),
    Range(Range),
}

impl Addresses {
    fn family(self) -> Family {
        match self {
            Self::Prefix(prefix) => prefix.family,
            Self::Range(range) => range.family,
        }
    }

    fn prefixes(self) -> Vec<Prefix> {
        match self {
            Self::Prefix(prefix) => vec![prefix],
            Self::Range(range) => range.prefixes().collect(),
        }
    }
}

#[derive(Clone, Copy)]
struct Entry<'s> {
    not: bool,
    host: DraftHost<'s>,
}

#[derive(Clone, Copy)]
enum DraftHost<'s> {
    Addresses(Addresses),
    Table(Token<'s>),
}

struct Draft<'s> {
    at: usize,
    action: Action,
    log: bool,
    quick: bool,
    on: Vec<On>,
    family: Option<(Token<'s>, Family)>,
    protocols: Vec<u8>,
    from: DraftSide<'s>,
    to: DraftSide<'s>,
    options: Vec<(Token<'s>, Opt<'s>)>,
}

#[derive(Default)]
struct DraftSide<'s> {
    hosts: DraftHosts<'s>,
    ports: Option<(Token<'s>, Vec<Ports>)>,
}

#[derive(Default)]
enum DraftHosts<'s> {
    #[default]
    Any,
    One(Entry<'s>),
    List(Vec<Entry<'s>>),
}

#[derive(Clone)]
enum Opt<'s> {
    Flags(Option<Flags>),
    Icmp(Vec<Icmp>),
    Icmpv6(Vec<Icmp>),
    Fragment,
    Less(u16),
    Greater(u16),
    Label(&'s str),
    NoState,
}

// --- Terminals ---

/// The next token, if `accept` takes it; otherwise it is noted that `what` was expected here.
fn terminal<'i, 's, T>(
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
        input.state.note(input.eof_offset(), what);
        Err(EmptyError)
    }
}

/// A keyword; `shown` is it in backticks.
fn word<'i, 's: 'i>(
    text: &'static str,
    shown: &'static str,
) -> impl FnMut(&mut Input<'i, 's>) -> Parsed<Token<'s>> {
    terminal(shown, move |token| (token.kind == Kind::Word && token.text == text).then_some(*token))
}

fn sign<'i, 's: 'i>(
    text: &'static str,
    shown: &'static str,
) -> impl FnMut(&mut Input<'i, 's>) -> Parsed<Token<'s>> {
    terminal(shown, move |token| (token.kind == Kind::Sign && token.text == text).then_some(*token))
}

/// Any word that `accept` takes.
fn any_word<'i, 's: 'i, T>(
    what: &'static str,
    accept: impl Fn(&str) -> Option<T>,
) -> impl FnMut(&mut Input<'i, 's>) -> Parsed<T> {
    terminal(what, move |token| if token.kind == Kind::Word { accept(token.text) } else { None })
}

/// A keyword in backticks comes from the keyword.
macro_rules! word {
    ($text:literal) => {
        word($text, concat!("`", $text, "`"))
    };
}
macro_rules! sign {
    ($text:literal) => {
        sign($text, concat!("`", $text, "`"))
    };
}

/// One, or several in braces; braces within braces change nothing.
fn one_or_list<'i, 's: 'i, T>(
    mut one: impl FnMut(&mut Input<'i, 's>) -> Parsed<T>,
) -> impl FnMut(&mut Input<'i, 's>) -> Parsed<Vec<T>> {
    move |input| {
        if opt(sign!("{")).parse_next(input)?.is_none() {
            return one(input).map(|one| vec![one]);
        }
        list(&mut one, input)
    }
}

/// What follows an opening brace, to the closing one. No recursion: macros can nest braces as deep as they
/// like.
fn list<'i, 's: 'i, T>(
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

/// A part by its name: if not even its beginning is there, that is what was expected.
fn named<'i, 's: 'i, T>(
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

// --- Statements ---

fn statement<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Statement<'s>> {
    let either = |input: &mut Input<'i, 's>| {
        let rule = rule.map(|draft| Statement::Rule(Box::new(draft)));
        alt((table, rule)).parse_next(input)
    };
    let statement = named("`pass`, `block`, `table` or `name = value`", either)(input)?;
    terminal("the end of the line", |token| (token.kind == Kind::Newline).then_some(()))(input)?;
    Ok(statement)
}

fn table<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Statement<'s>> {
    word!("table")(input)?;
    let name = table_name(input)?;
    opt(word!("persist")).parse_next(input)?;
    opt(word!("const")).parse_next(input)?;
    opt(word!("persist")).parse_next(input)?;
    let contents = repeat(1.., contents).parse_next(input)?;
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

fn listed<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Listed> {
    named("an address, a prefix such as 10.0.0.0/8, or a range such as 10.0.0.1 - 10.0.0.9", |input| {
        let not = opt(sign!("!")).parse_next(input)?.is_some();
        let at = input.peek_token().map_or(0, |token| token.at);
        Ok(Listed { at, not, addresses: addresses("an address, a prefix or a range")(input)? })
    })(input)
}

/// A prefix, or a range: with blanks around its `-`, as pf wants them, or without.
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

fn table_name<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Token<'s>> {
    sign!("<")(input)?;
    let name = terminal("the name of a table", |token| is_name(token).then_some(*token))(input)?;
    sign!(">")(input)?;
    Ok(name)
}

fn is_name(token: &Token<'_>) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    token.kind == Kind::Word && token.text.chars().all(plain)
}

fn rule<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Draft<'s>> {
    let at = input.peek_token().map_or(0, |token| token.at);
    let action = action(input)?;
    let (log, quick) = ways(input)?;
    let on = opt(preceded(word!("on"), one_or_list(link))).parse_next(input)?.unwrap_or_default();
    let family = opt(family).parse_next(input)?;
    let protocol = any_word("a protocol, such as tcp, udp, icmp or a number", names::parse_protocol);
    let protocols =
        opt(preceded(word!("proto"), one_or_list(protocol))).parse_next(input)?.unwrap_or_default();
    let (from, to) = sides(input)?;
    let options = repeat(0.., option).parse_next(input)?;
    Ok(Draft { at, action, log, quick, on, family, protocols, from, to, options })
}

fn action<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<Action> {
    if opt(word!("pass")).parse_next(input)?.is_some() {
        return Ok(Action::Pass);
    }
    word!("block")(input)?;
    if opt(word!("return")).parse_next(input)?.is_some() {
        return Ok(Action::Return);
    }
    opt(word!("drop")).parse_next(input)?;
    Ok(Action::Drop)
}

/// `in`, `log` and `quick`, each at most once. pf has them in this order; here any will do.
fn ways<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<(bool, bool)> {
    let (mut inward, mut log, mut quick) = (false, false, false);
    loop {
        if !inward && opt(word!("in")).parse_next(input)?.is_some() {
            inward = true;
        } else if !log && opt(word!("log")).parse_next(input)?.is_some() {
            log = true;
        } else if !quick && opt(word!("quick")).parse_next(input)?.is_some() {
            quick = true;
        } else {
            return Ok((log, quick));
        }
    }
}

fn link<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<On> {
    terminal("the name of a link", |token| {
        let named = token.kind == Kind::Word;
        named.then(|| On { name: token.text.to_owned(), interface: None, at: token.at })
    })(input)
}

fn family<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<(Token<'s>, Family)> {
    let v4 = word!("inet").map(|token| (token, Family::V4));
    let v6 = word!("inet6").map(|token| (token, Family::V6));
    alt((v4, v6)).parse_next(input)
}

fn sides<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<(DraftSide<'s>, DraftSide<'s>)> {
    if opt(word!("all")).parse_next(input)?.is_some() {
        return Ok(Default::default());
    }
    let from = opt(preceded(word!("from"), side)).parse_next(input)?.unwrap_or_default();
    let to = opt(preceded(word!("to"), side)).parse_next(input)?.unwrap_or_default();
    Ok((from, to))
}

/// Hosts, ports or both: `from port 53` is `from any port 53`.
fn side<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<DraftSide<'s>> {
    let ports = |input: &mut Input<'i, 's>| {
        let token = word!("port")(input)?;
        Ok((token, one_or_list(named("a port, such as 53, domain, 1000:2000 or != 80", ports))(input)?))
    };
    if let Some(ports) = opt(ports).parse_next(input)? {
        return Ok(DraftSide { hosts: DraftHosts::Any, ports: Some(ports) });
    }
    let hosts = named("an address, `any` or a <table>", hosts)(input)?;
    Ok(DraftSide { hosts, ports: opt(ports).parse_next(input)? })
}

fn hosts<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<DraftHosts<'s>> {
    if opt(word!("any")).parse_next(input)?.is_some() {
        return Ok(DraftHosts::Any);
    }
    if opt(sign!("{")).parse_next(input)?.is_some() {
        let mut in_list = named("an address or a <table> (`!` belongs into a table)", |input| {
            Ok(Entry { not: false, host: host(input)? })
        });
        return list(&mut in_list, input).map(DraftHosts::List);
    }
    let not = opt(sign!("!")).parse_next(input)?.is_some();
    Ok(DraftHosts::One(Entry { not, host: named("an address or a <table>", host)(input)? }))
}

fn host<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<DraftHost<'s>> {
    let addresses = addresses("an address").map(DraftHost::Addresses);
    alt((addresses, table_name.map(DraftHost::Table))).parse_next(input)
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

fn option<'i, 's: 'i>(input: &mut Input<'i, 's>) -> Parsed<(Token<'s>, Opt<'s>)> {
    let bytes = || any_word("a number of bytes from 0 to 65535", names::number);
    let any = any_word("`any`", |text| (text == "any").then_some(None));
    let flags = alt((any, any_word("TCP flags, such as S/SA", flags).map(Some)));
    let types = |parse: fn(&str) -> Option<u8>| one_or_list(icmp(parse));
    alt((
        (word!("flags"), flags.map(Opt::Flags)),
        (word!("icmp-type"), types(names::parse_icmp_type).map(Opt::Icmp)),
        (word!("icmp6-type"), types(names::parse_icmpv6_type).map(Opt::Icmpv6)),
        (word!("fragment"), winnow::combinator::empty.value(Opt::Fragment)),
        (word!("less"), bytes().map(Opt::Less)),
        (word!("greater"), bytes().map(Opt::Greater)),
        (word!("label"), terminal("a text in quotes", label).map(Opt::Label)),
        (word!("no"), word!("state").value(Opt::NoState)),
    ))
    .parse_next(input)
}

fn label<'s>(token: &Token<'s>) -> Option<&'s str> {
    (token.kind == Kind::Text || is_name(token)).then_some(token.text)
}

fn flags(text: &str) -> Option<Flags> {
    let (set, mask) = text.split_once('/')?;
    Some(Flags { set: names::parse_flags(set)?, mask: names::parse_flags(mask)? })
}

fn icmp<'i, 's: 'i>(parse: fn(&str) -> Option<u8>) -> impl FnMut(&mut Input<'i, 's>) -> Parsed<Icmp> {
    move |input| {
        let kind = any_word("an ICMP type, such as echoreq or a number", parse)(input)?;
        let code = opt(preceded(word!("code"), any_word("a number from 0 to 255", names::number)))
            .parse_next(input)?;
        Ok(Icmp { kind, code })
    }
}

// --- What the grammar does not say ---

struct Building<'a> {
    file: &'a str,
    text: &'a str,
    read: &'a ReadFile<'a>,
    /// A place, and how many lines end before it.
    counted: (usize, usize),
    done: RuleSet,
}

impl Building<'_> {
    fn error_at<T>(&self, at: Token<'_>, what: impl Into<String>) -> Result<T, TextError> {
        Err(TextError::at(self.file, self.text, at.at, what))
    }

    /// Counted from 1. Places are asked for in their order, so that no line is counted twice.
    fn line_of(&mut self, at: usize) -> usize {
        let (from, lines) = self.counted;
        self.counted = (at, lines + self.text.get(from..at).unwrap_or_default().matches('\n').count());
        self.counted.1 + 1
    }

    fn add(&mut self, statement: Statement<'_>) -> Result<(), TextError> {
        match statement {
            Statement::Table { name, contents } => self.add_table(name, &contents),
            Statement::Rule(draft) => {
                let line = Line(self.line_of(draft.at));
                let rule = self.rule(*draft)?;
                self.done.rules.push(Rule { line, ..rule });
                Ok(())
            }
        }
    }

    fn add_table(&mut self, name: Token<'_>, contents: &[Contents<'_>]) -> Result<(), TextError> {
        if self.done.tables.iter().any(|table| table.name == name.text) {
            return self.error_at(name, format!("table <{}> is defined twice", name.text));
        }
        // The texts of files must be there for as long as places in them may have to be told.
        let mut texts = vec![(Cow::Borrowed(self.file), Cow::Borrowed(self.text))];
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
            let (text, at) = places.get(index).copied().unwrap_or_default();
            let (file, text) = texts.get(text).cloned().unwrap_or_default();
            TextError::at(&file, &text, at, "the same prefix is in this table with and without `!`")
        })?;
        self.done.tables.push(table);
        Ok(())
    }

    fn rule(&self, draft: Draft<'_>) -> Result<Rule, TextError> {
        let family = self.family(&draft)?;
        let Draft { action, log, quick, on, protocols, from, to, options, .. } = draft;
        let has_ports =
            protocols.iter().all(|p| matches!(*p, names::TCP | names::UDP)) && !protocols.is_empty();
        if let (false, Some((port, _))) = (has_ports, from.ports.as_ref().or(to.ports.as_ref())) {
            return self
                .error_at(*port, "`port` needs `proto tcp`, `proto udp` or `proto { tcp, udp }` before it");
        }
        let mut rule = Rule {
            action,
            log,
            quick,
            on,
            family,
            protocols,
            from: self.side(from)?,
            to: self.side(to)?,
            flags: None,
            icmp: Vec::new(),
            fragment: false,
            less: None,
            greater: None,
            label: None,
            line: Line::default(),
        };
        for (at, option) in options {
            self.set(&mut rule, at, option)?;
        }
        Ok(rule)
    }

    /// The family that a rule names; addresses of the other one would never match.
    fn family(&self, draft: &Draft<'_>) -> Result<Option<Family>, TextError> {
        let Some((token, family)) = draft.family else { return Ok(None) };
        let other = |host: &DraftHost<'_>| matches!(host, DraftHost::Addresses(of) if of.family() != family);
        let wrong = |side: &DraftSide<'_>| match &side.hosts {
            DraftHosts::Any => false,
            DraftHosts::One(entry) => other(&entry.host),
            DraftHosts::List(all) => all.iter().any(|entry| other(&entry.host)),
        };
        if wrong(&draft.from) || wrong(&draft.to) {
            return self.error_at(
                token,
                format!("`{}`, but an address of this rule is of the other family", token.text),
            );
        }
        Ok(Some(family))
    }

    fn side(&self, side: DraftSide<'_>) -> Result<Side, TextError> {
        let hosts = match side.hosts {
            DraftHosts::Any => Hosts::Any,
            DraftHosts::One(Entry { not, host }) => Hosts::One { not, host: self.host(host)? },
            DraftHosts::List(all) => {
                Hosts::List(all.into_iter().map(|entry| self.host(entry.host)).collect::<Result<_, _>>()?)
            }
        };
        Ok(Side { hosts, ports: side.ports.map(|(_, ports)| ports).unwrap_or_default() })
    }

    fn host(&self, host: DraftHost<'_>) -> Result<HostSet, TextError> {
        match host {
            DraftHost::Addresses(Addresses::Prefix(prefix)) => Ok(HostSet::Prefix(prefix)),
            DraftHost::Addresses(Addresses::Range(range)) => Ok(HostSet::Range(range)),
            DraftHost::Table(name) => match self.done.tables.iter().position(|t| t.name == name.text) {
                Some(index) => Ok(HostSet::Table(index)),
                None => self.error_at(name, format!("no table <{}> is defined before this", name.text)),
            },
        }
    }

    fn set(&self, rule: &mut Rule, at: Token<'_>, option: Opt<'_>) -> Result<(), TextError> {
        let needs = |protocol: u8, name: &str| match rule.protocols == [protocol] {
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
            Opt::Less(bytes) => rule.less = Some(bytes),
            Opt::Greater(bytes) => rule.greater = Some(bytes),
            Opt::Label(label) => rule.label = Some(label.to_owned()),
            Opt::NoState => {}
        }
        Ok(())
    }
}

/// What to tell those who know pf and miss something.
fn hint(token: &Token<'_>) -> &'static str {
    match token.text {
        "out" => " (packets are screened as they come in, before routing: rules are for `in`)",
        "keep" | "modulate" | "synproxy" => {
            " (rules keep no state: a rule for each direction; replies of TCP match `flags A/A`)"
        }
        _ => "",
    }
}
