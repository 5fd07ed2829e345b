//! Some rules of one family, looked up field by field.

use super::field::{Field, Small};
use super::rows::{self, Candidates, RULES_MAX, Row};
use super::side::{FamilyAddress, LookedUp, Side, Wanted};
use crate::route::rules::evaluate::Upper;
use crate::route::rules::headers::Headers;
use crate::route::rules::rule::{Action, Icmp, Ports, Rule, RuleSet};
use crate::route::rules::spans::Spans;

/// Places where addresses of a block's rules begin and end, at most; but a rule is never cut.
const PLACES_MAX: usize = 4 * RULES_MAX;

/// Some rules of one family, in their order.
///
/// For every header field there is a row of bits for each value, or for each span of values that no rule
/// tells apart: the rules that the value fits. The rules that match a packet are those in all its rows
/// (Lakshman and Stiliadis, 1998). Rows are no longer than a block has rules, so that all blocks together
/// take memory in proportion to the rules; time grows with the number of blocks.
#[derive(Debug)]
pub(super) struct Block<K> {
    /// Their numbers in the rule set.
    pub(super) rules: Vec<u32>,
    /// Those with `quick` that are not special: the first one ends the evaluation.
    pub(super) ends: Row,
    /// Rules whose match depends on others, or that have an effect on others: they are taken one by one.
    pub(super) special: Row,
    from: Side<K>,
    to: Side<K>,
    on: Option<Small>,
    protocol: Option<Small>,
    tos: Option<Small>,
    /// Flags, ports and messages, and the rules that ask for none.
    flags: Option<(Small, Row)>,
    source: Option<(Field<u16>, Row)>,
    destination: Option<(Field<u16>, Row)>,
    icmp: Option<(Field<u16>, Row)>,
    length: Option<Field<u16>>,
    /// The rules that are not for fragments only.
    whole: Option<Row>,
}

/// A rule, and what it wants of the addresses of a family.
struct Placed<'a, K> {
    number: u32,
    rule: &'a Rule,
    from: Wanted<K>,
    to: Wanted<K>,
}

impl<K: FamilyAddress> Block<K> {
    /// Makes the blocks of a family's rules.
    pub(super) fn of(set: &RuleSet, looked_up: &LookedUp) -> Vec<Self> {
        let (mut blocks, mut open, mut places) = (Vec::new(), Vec::new(), 0);
        for (number, rule) in (0..).zip(&set.rules) {
            if rule.family.is_some_and(|family| family != K::FAMILY) {
                continue;
            }
            let wanted = |hosts| Wanted::of(hosts, set, looked_up);
            let (Some(from), Some(to)) = (wanted(&rule.from.hosts), wanted(&rule.to.hosts)) else { continue };
            let more = from.places().max(to.places());
            if open.len() == RULES_MAX || (places + more > PLACES_MAX && !open.is_empty()) {
                blocks.push(Self::new(&open));
                open.clear();
                places = 0;
            }
            places += more;
            open.push(Placed { number, rule, from, to });
        }
        if !open.is_empty() {
            blocks.push(Self::new(&open));
        }
        blocks
    }

    fn new(placed: &[Placed<'_, K>]) -> Self {
        let rule = |place: usize| placed.get(place).map(|placed| placed.rule);
        let row = |holds: fn(&Rule) -> bool| Row::of(placed.len(), |place| rule(place).is_some_and(holds));
        let rules = || placed.iter().map(|placed| placed.rule);
        let conditions =
            |has: fn(&Rule) -> bool| -> Vec<_> { rules().map(|r| has(r).then_some(Same(r))).collect() };
        let flags: Vec<_> = rules().map(|rule| rule.flags).collect();
        let tos: Vec<_> = rules().map(|rule| rule.tos).collect();
        let source: Vec<_> = rules().map(|rule| ports(&rule.from.ports)).collect();
        let destination: Vec<_> = rules().map(|rule| ports(&rule.to.ports)).collect();
        let messages: Vec<_> = rules().map(|rule| messages(&rule.icmp)).collect();
        let lengths: Vec<_> = rules().map(lengths).collect();
        let on =
            Small::new(&conditions(|rule| !rule.on.is_empty() || rule.received.is_some()), |one, value| {
                one.0.is_on(value)
            });
        let protocol = Small::new(&conditions(|rule| !rule.protocols.is_empty()), |one, value| {
            one.0.protocols.contains(&value)
        });
        let is_any = row(|rule| rule.fragment).is_empty();
        Self {
            rules: placed.iter().map(|placed| placed.number).collect(),
            ends: row(|rule| rule.quick && !is_special(rule)),
            special: row(is_special),
            from: Side::new(placed.iter().map(|placed| &placed.from)),
            to: Side::new(placed.iter().map(|placed| &placed.to)),
            on,
            protocol,
            tos: Small::new(&tos, |tos, value| tos.is(value)),
            flags: Small::new(&flags, |flags, value| flags.are(value))
                .map(|field| (field, row(|rule| rule.flags.is_none()))),
            source: Field::new(source.iter().map(Option::as_ref))
                .map(|field| (field, row(|rule| rule.from.ports.is_empty()))),
            destination: Field::new(destination.iter().map(Option::as_ref))
                .map(|field| (field, row(|rule| rule.to.ports.is_empty()))),
            icmp: Field::new(messages.iter().map(Option::as_ref))
                .map(|field| (field, row(|rule| rule.icmp.is_empty()))),
            length: Field::new(lengths.iter().map(Option::as_ref)),
            whole: (!is_any).then(|| row(|rule| !rule.fragment)),
        }
    }

    /// Finds the rules whose conditions on headers a packet meets. Returns whether there is any.
    #[inline]
    pub(super) fn find(
        &self,
        packet: &Fields<K>,
        candidates: &mut Candidates,
        from_is_in: impl FnMut(usize) -> bool,
        to_is_in: impl FnMut(usize) -> bool,
    ) -> bool {
        let words = self.ends.words().len();
        let all = candidates.get_mut(..words).unwrap_or_default();
        all.fill(u64::MAX);
        if let Some(last) = all.last_mut() {
            *last >>= (words * 64 - self.rules.len()) as u32;
        }
        let small = |field: &Option<Small>, all: &mut [u64], value: u8| {
            field.as_ref().is_none_or(|field| rows::keep(all, field.get(value)))
        };
        let wide = |field: &Option<(Field<u16>, Row)>, all: &mut [u64], value: Option<u16>| {
            field.as_ref().is_none_or(|(field, without)| {
                rows::keep(all, value.map_or(without.words(), |value| field.get(value)))
            })
        };
        // Those that leave the fewest come first.
        self.to.keep(all, packet.to, to_is_in)
            && self.from.keep(all, packet.from, from_is_in)
            && small(&self.protocol, all, packet.protocol)
            && wide(&self.destination, all, packet.destination)
            && small(&self.on, all, packet.interface)
            && wide(&self.source, all, packet.source)
            && wide(&self.icmp, all, packet.icmp)
            && self.flags.as_ref().is_none_or(|(field, without)| {
                rows::keep(all, packet.flags.map_or(without.words(), |flags| field.get(flags)))
            })
            && small(&self.tos, all, packet.tos)
            && self.length.as_ref().is_none_or(|field| rows::keep(all, field.get(packet.length)))
            && (packet.fragment || self.whole.as_ref().is_none_or(|whole| rows::keep(all, whole.words())))
    }
}

/// The fields of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<K> {
    interface: u8,
    from: K,
    to: K,
    protocol: u8,
    tos: u8,
    length: u16,
    fragment: bool,
    flags: Option<u8>,
    source: Option<u16>,
    destination: Option<u16>,
    /// Type and code.
    icmp: Option<u16>,
}

impl<K: FamilyAddress> Fields<K> {
    pub(super) fn of(headers: &Headers, interface: u8) -> Self {
        let Upper { source, destination, flags, icmp } = headers.upper();
        Self {
            interface,
            from: K::narrow(headers.source.bits),
            to: K::narrow(headers.destination.bits),
            protocol: headers.protocol,
            tos: headers.tos,
            length: headers.length,
            fragment: headers.fragment,
            flags,
            source,
            destination,
            icmp: icmp.map(|(kind, code)| u16::from_be_bytes([kind, code])),
        }
    }
}

/// A rule, for the conditions on its links and protocols.
#[derive(Clone, Copy)]
struct Same<'a>(&'a Rule);

impl PartialEq for Same<'_> {
    fn eq(&self, other: &Self) -> bool {
        let Self(one) = self;
        let Self(other) = other;
        (&one.on, &one.received, &one.protocols) == (&other.on, &other.received, &other.protocols)
    }
}

fn is_special(rule: &Rule) -> bool {
    rule.action == Action::Match || rule.tag.is_some() || rule.tagged.is_some() || rule.probability.is_some()
}

fn ports(all: &[Ports]) -> Option<Spans<u16>> {
    (!all.is_empty()).then(|| Spans::of(all.iter().flat_map(|ports| ports.spans()).collect()))
}

fn messages(all: &[Icmp]) -> Option<Spans<u16>> {
    let span = |icmp: &Icmp| {
        let [first, last] = icmp.code.map_or([0, u8::MAX], |code| [code, code]);
        (u16::from_be_bytes([icmp.kind, first]), u16::from_be_bytes([icmp.kind, last]))
    };
    (!all.is_empty()).then(|| Spans::of(all.iter().map(span).collect()))
}

fn lengths(rule: &Rule) -> Option<Spans<u16>> {
    let (least, most) = (rule.greater.unwrap_or(0), rule.less.unwrap_or(u16::MAX));
    let span = (least <= most).then_some((least, most));
    (rule.greater.is_some() || rule.less.is_some()).then(|| Spans::of(span.into_iter().collect()))
}
