//! A block of rules of one family, looked up field by field.

use super::brief::{Brief, Probe, ports};
use super::field::{Field, Small};
use super::rows::{Fit, Matching, RULES_MAX, Row, Scratch, Summary, TooLarge};
use super::side::{FamilyAddress, LookedUp, Side, Wanted};
use crate::route::rules::evaluate::Upper;
use crate::route::rules::headers::Headers;
use crate::route::rules::rule::{Icmp, Rule, RuleSet};
use crate::route::rules::spans::Spans;

const WORD: usize = u64::BITS as usize;

/// Bounds of a finder and its blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The largest set of rules that are compared one by one.
    pub(super) few: usize,
    /// The most rules in a shortlist.
    pub(super) depth: usize,
    /// The most broad rules that are compared one by one.
    pub(super) one_by_one: usize,
    /// The most rules of a block.
    pub(super) rules: usize,
    /// The most places where addresses of a block's rules begin and end; but a rule is never cut.
    pub(super) places: usize,
    /// The most words of a field's rows for each rule of the block. A block that needs more is cut in two.
    pub(super) words_per_rule: usize,
    /// The number of rules at which blocks are not cut further.
    pub(super) least: usize,
    /// The number of rules from which rules that leave equal fields open are grouped.
    pub(super) shaped: usize,
}

impl Limits {
    pub(super) const USUAL: Self = Self {
        few: 8,
        depth: 64,
        one_by_one: 16,
        rules: RULES_MAX - 1024,
        places: 4 * RULES_MAX,
        words_per_rule: 256,
        least: 1024,
        shaped: 256,
    };
}

/// A rule, and its conditions on the addresses of a family.
#[derive(Debug)]
pub(super) struct Placed<'a, K> {
    /// The rank. If two rules match, the one with the lower rank decides. Among rules that depend on others,
    /// the one with the lower rank is the earlier one.
    pub(super) rank: u32,
    /// The rule's place in the set.
    pub(super) index: u32,
    pub(super) rule: &'a Rule,
    pub(super) from: Wanted<K>,
    pub(super) to: Wanted<K>,
}

impl<'a, K: FamilyAddress> Placed<'a, K> {
    /// Returns `None` if the rule is not about the family.
    pub(super) fn new(index: u32, rule: &'a Rule, set: &RuleSet, looked_up: &LookedUp) -> Option<Self> {
        if rule.family.is_some_and(|family| family != K::FAMILY) {
            return None;
        }
        let wanted = |hosts| Wanted::of(hosts, set, looked_up);
        Some(Self { rank: index, index, rule, from: wanted(&rule.from.hosts)?, to: wanted(&rule.to.hosts)? })
    }

    /// Returns its conditions in short.
    pub(super) fn brief(&self) -> Brief<K> {
        Brief::of(self.rule, &self.from, &self.to)
    }

    /// Returns which of the fields with many values it leaves open.
    fn shape(&self) -> u8 {
        [self.from.is_any(), self.to.is_any(), self.rule.from.ports.is_empty(), self.rule.to.ports.is_empty()]
            .into_iter()
            .fold(0, |shape, is_open| shape << 1 | u8::from(is_open))
    }
}

/// A block of rules of one family.
///
/// Each header field has a row of bits for each value, or for each span of values that no rule distinguishes:
/// the rules that match the value. The rules that match a packet are those in all its rows (Lakshman and
/// Stiliadis, 1998). A row has a summary with a bit for each non-zero word. Only words that are in all
/// summaries are read (Baboescu and Varghese, 2001).
///
/// Rules that leave equal fields open are grouped, in the order of their ranks. Otherwise rules with
/// different open fields would fill words of all rows. Only the first match of each group matters.
#[derive(Debug)]
pub(super) struct Block<K> {
    /// The rank of the rule in each place; the highest number in a place without a rule.
    ranks: Vec<u32>,
    /// The lowest of them.
    first: u32,
    /// Conditions that hold for each packet that any of the rules matches.
    hull: Option<Brief<K>>,
    /// For each word, the first word after its group.
    ends: Vec<u16>,
    /// The places that have rules.
    all: (Summary, Row),
    from: Side<K>,
    to: Side<K>,
    on: Option<Small>,
    protocol: Option<Small>,
    tos: Option<Small>,
    flags: Option<Small>,
    fragment: Option<Small>,
    source: Option<Field<u16>>,
    destination: Option<Field<u16>>,
    icmp: Option<Field<u16>>,
    length: Option<Field<u16>>,
}

impl<K: FamilyAddress> Block<K> {
    /// Creates the blocks of rules, which are in the order of their ranks.
    pub(super) fn of(placed: &[&Placed<'_, K>], limits: &Limits) -> Vec<Self> {
        let mut blocks = Vec::new();
        let mut rest = placed;
        while !rest.is_empty() {
            let mut places = 0;
            let fits = |one: &&&Placed<'_, K>| {
                places += one.from.places().max(one.to.places());
                places <= limits.places
            };
            let count = rest.iter().take(limits.rules).take_while(fits).count().max(1);
            let (these, others) = rest.split_at(count);
            Self::cut(these, limits, &mut blocks);
            rest = others;
        }
        blocks
    }

    /// Creates one block, or cuts the rules into several.
    fn cut(placed: &[&Placed<'_, K>], limits: &Limits, blocks: &mut Vec<Self>) {
        let words_max =
            if placed.len() <= limits.least { usize::MAX } else { limits.words_per_rule * placed.len() };
        match Self::new(placed, limits, words_max) {
            Ok(block) => blocks.push(block),
            Err(TooLarge) => {
                let (first, second) = placed.split_at(placed.len() / 2);
                Self::cut(first, limits, blocks);
                Self::cut(second, limits, blocks);
            }
        }
    }

    fn new(placed: &[&Placed<'_, K>], limits: &Limits, words_max: usize) -> Result<Self, TooLarge> {
        let (places, ends) = arranged(placed, limits);
        let rules = || places.iter().map(|place| place.map(|placed| placed.rule));
        let small = |condition: fn(&Rule) -> bool| -> Vec<_> {
            rules().map(|rule| rule.filter(|rule| condition(rule)).map(Same)).collect()
        };
        let wide = |spans: fn(&Rule) -> Option<Spans<u16>>| {
            let spans: Vec<_> = rules().map(|rule| rule.and_then(spans)).collect();
            Field::new(spans.iter().map(Option::as_ref), words_max)
        };
        let on = small(|rule| !rule.on.is_empty() || rule.received.is_some());
        let protocol = small(|rule| !rule.protocols.is_empty());
        let fragment: Vec<_> = rules().map(|rule| rule.filter(|rule| rule.fragment).map(|_| ())).collect();
        let tos: Vec<_> = rules().map(|rule| rule.and_then(|rule| rule.tos)).collect();
        let flags: Vec<_> = rules().map(|rule| rule.and_then(|rule| rule.flags)).collect();
        let all = Row::of(places.len(), |place| places.get(place).is_some_and(Option::is_some));
        Ok(Self {
            first: placed.first().map_or(u32::MAX, |placed| placed.rank),
            hull: placed.iter().map(|placed| placed.brief()).reduce(|hull, brief| hull.join(&brief)),
            ranks: places.iter().map(|place| place.map_or(u32::MAX, |placed| placed.rank)).collect(),
            ends,
            all: (all.summary(), all),
            from: Side::new(places.iter().map(|place| place.map(|placed| &placed.from)), words_max)?,
            to: Side::new(places.iter().map(|place| place.map(|placed| &placed.to)), words_max)?,
            on: Small::new(&on, |Same(rule), value| rule.is_on(value)),
            protocol: Small::new(&protocol, |Same(rule), value| rule.protocols.contains(&value)),
            tos: Small::new(&tos, |tos, value| tos.is(value)),
            flags: Small::new(&flags, |flags, value| flags.are(value)),
            fragment: Small::new(&fragment, |(), value| value == 1),
            source: wide(|rule| ports(&rule.from.ports))?,
            destination: wide(|rule| ports(&rule.to.ports))?,
            icmp: wide(|rule| messages(&rule.icmp))?,
            length: wide(lengths)?,
        })
    }

    /// Finds the rules that fit the fields of a packet.
    #[inline]
    pub(super) fn find<'a>(
        &'a self,
        packet: &Fields<K>,
        matching: &mut Matching<'a>,
        (from, to): (&'a mut Option<Scratch>, &'a mut Option<Scratch>),
        from_is_in: impl FnMut(usize) -> bool,
        to_is_in: impl FnMut(usize) -> bool,
    ) {
        let (summary, all) = &self.all;
        matching.begin(*summary);
        let small =
            |field: &'a Option<Small>, value: Option<u8>| field.as_ref().map(|field| field.get(value));
        let wide =
            |field: &'a Option<Field<u16>>, value: Option<u16>| field.as_ref().map(|field| field.get(value));
        // The fields that leave the fewest rules come first, and slow ones last.
        let any = (self.to.looks_up() || matching.keep(self.to.get(packet.to)))
            && (self.from.looks_up() || matching.keep(self.from.get(packet.from)))
            && matching.keep(wide(&self.destination, packet.destination))
            && matching.keep(small(&self.protocol, Some(packet.protocol)))
            && matching.keep(small(&self.on, Some(packet.interface)))
            && matching.keep(wide(&self.source, packet.source))
            && matching.keep(wide(&self.icmp, packet.icmp))
            && matching.keep(small(&self.flags, packet.flags))
            && matching.keep(small(&self.tos, Some(packet.tos)))
            && matching.keep(wide(&self.length, Some(packet.length)))
            && matching.keep(small(&self.fragment, Some(u8::from(packet.fragment))))
            && (!self.to.looks_up() || self.to.keep(matching, packet.to, to_is_in, to))
            && (!self.from.looks_up() || self.from.keep(matching, packet.from, from_is_in, from))
            && matching.keep(Some((*summary, Fit::of(all.words()))));
        if !any {
            matching.clear();
        }
    }

    /// Returns whether a packet may meet the conditions of any of its rules.
    #[inline]
    pub(super) fn may_match(&self, packet: &Probe<K>) -> bool {
        self.hull.is_some_and(|hull| hull.fits(packet))
    }

    /// Returns the lowest rank of all its rules.
    pub(super) const fn first(&self) -> u32 {
        self.first
    }

    /// Returns the lowest rank of rules that match, of those that are not below `least`.
    #[inline]
    pub(super) fn lowest(&self, matching: &Matching<'_>, least: u32) -> Option<u32> {
        let (mut lowest, mut at) = (u32::MAX, 0);
        while let Some(word) = matching.next_word(at) {
            at = word + 1;
            let ranks = self.ranks.get(word * WORD..).unwrap_or_default();
            let is_above = ranks.first().is_none_or(|first| *first >= lowest);
            let found = if is_above { None } else { first(matching.word(word), ranks, least) };
            lowest = lowest.min(found.unwrap_or(u32::MAX));
            if is_above || found.is_some() {
                at = self.ends.get(word).map_or(at, |end| usize::from(*end));
            }
        }
        (lowest < u32::MAX).then_some(lowest)
    }

    /// Passes the ranks of all matching rules to `take`, in the order of their places, until it returns
    /// false. Returns whether it never did.
    pub(super) fn each(&self, matching: &Matching<'_>, mut take: impl FnMut(u32) -> bool) -> bool {
        let mut at = 0;
        while let Some(word) = matching.next_word(at) {
            at = word + 1;
            let mut bits = matching.word(word);
            while bits != 0 {
                let place = word * WORD + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if !self.ranks.get(place).is_some_and(|rank| take(*rank)) {
                    return false;
                }
            }
        }
        true
    }
}

/// Returns the lowest rank in a word, of those that are not below `least`.
#[inline]
fn first(mut bits: u64, ranks: &[u32], least: u32) -> Option<u32> {
    while bits != 0 {
        let rank = ranks.get(bits.trailing_zeros() as usize).copied().filter(|rank| *rank >= least);
        if rank.is_some() {
            return rank;
        }
        bits &= bits - 1;
    }
    None
}

/// Returns a block's places, and for each word the end of the part that it is in.
fn arranged<'a, 'b, K: FamilyAddress>(
    placed: &[&'a Placed<'b, K>],
    limits: &Limits,
) -> (Vec<Option<&'a Placed<'b, K>>>, Vec<u16>) {
    let mut shapes: Vec<Vec<&Placed<'_, K>>> = vec![Vec::new(); 16];
    for &one in placed {
        let shape = if placed.len() < limits.shaped { 0 } else { one.shape() };
        shapes.get_mut(usize::from(shape)).into_iter().for_each(|shape| shape.push(one));
    }
    let (mut places, mut ends) = (Vec::new(), Vec::new());
    for shape in shapes {
        places.extend(shape.into_iter().map(Some));
        places.resize(places.len().next_multiple_of(WORD), None);
        let words = places.len() / WORD;
        ends.resize(words, words as u16);
    }
    (places, ends)
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
    /// The type and code of ICMP.
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

/// A rule, compared by the conditions on its links and protocols.
#[derive(Debug, Clone, Copy)]
struct Same<'a>(&'a Rule);

impl PartialEq for Same<'_> {
    fn eq(&self, other: &Self) -> bool {
        let Self(one) = self;
        let Self(other) = other;
        (&one.on, &one.received, &one.protocols) == (&other.on, &other.received, &other.protocols)
    }
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
