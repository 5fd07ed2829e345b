//! A header field: for each of its values a list of the few rules that may match.

use std::collections::BTreeMap;

use crate::route::rules::spans::{Index, Number, Spans};

/// A bit that is set unless a list has just one rule.
const MANY: u32 = 1 << 31;
/// A list without rules.
const NONE: u32 = u32::MAX;

/// A span of values with the same rules. It ends where the next one starts.
#[derive(Debug, Clone, Copy)]
#[repr(Rust, packed(4))]
struct Entry<K> {
    start: K,
    /// The only rule; or [`NONE`]; or the place of the list, with [`MANY`].
    list: u32,
}

/// Shortlists for the values of a field.
#[derive(Debug)]
pub(super) struct Shortlists<K: Copy> {
    /// The spans. The first one starts at zero.
    entries: Vec<Entry<K>>,
    index: Index<K>,
    /// Lists of several rules, each preceded by its length.
    lists: Vec<u32>,
}

impl<K: Number> Shortlists<K> {
    /// Creates the lists of rules that accept these values.
    fn new(turns: impl Iterator<Item = (K, u32)>) -> Self {
        let (mut entries, mut lists, mut known) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut put = |start: K, rules: &[u32]| {
            let list = match rules {
                [] => NONE,
                [only] => *only,
                several => *known.entry(several.to_vec()).or_insert_with(|| {
                    let at = lists.len() as u32;
                    lists.push(several.len() as u32);
                    lists.extend(several);
                    at | MANY
                }),
            };
            if entries.last().is_none_or(|last: &Entry<K>| last.list != list) {
                entries.push(Entry { start, list });
            }
        };
        let (mut rules, mut at) = (Vec::new(), K::narrow(0));
        for (place, rule) in turns {
            if place != at {
                put(at, &rules);
                at = place;
            }
            toggle(&mut rules, rule);
        }
        put(at, &rules);
        entries.shrink_to_fit();
        lists.shrink_to_fit();
        Self { index: Index::of(&entries, |entry| entry.start), entries, lists }
    }

    /// Returns the ranks of the rules that may take a value, from the lowest on.
    #[inline]
    pub(super) fn get(&self, value: K) -> &[u32] {
        let at = self.index.behind(&self.entries, |entry| entry.start, value);
        let Some(Entry { list, .. }) = self.entries.get(at.wrapping_sub(1)) else { return &[] };
        match *list {
            NONE => &[],
            several if several & MANY != 0 => self.several((several & !MANY) as usize),
            _ => core::slice::from_ref(list),
        }
    }

    #[inline]
    fn several(&self, at: usize) -> &[u32] {
        let list = self.lists.get(at..).and_then(<[u32]>::split_first);
        list.and_then(|(length, rest)| rest.get(..*length as usize)).unwrap_or_default()
    }
}

fn toggle(rules: &mut Vec<u32>, rule: u32) {
    match rules.binary_search(&rule) {
        Ok(at) => drop(rules.remove(at)),
        Err(at) => rules.insert(at, rule),
    }
}

/// The breadth of a rule that accepts all values of a field.
pub(super) const ANY: u32 = u32::MAX;
/// The breadth of a rule that accepts all values that any rule distinguishes.
pub(super) const WHOLE: u32 = 1 << 16;

/// The conditions of rules on a field.
#[derive(Debug)]
pub(super) struct Wishes<'a, K> {
    spans: Vec<Option<&'a Spans<K>>>,
    /// The breadth of each rule in the field.
    breadths: Vec<u32>,
}

impl<'a, K: Number> Wishes<'a, K> {
    /// Takes the values that each rule accepts; `None` for all of them.
    pub(super) fn new(spans: Vec<Option<&'a Spans<K>>>) -> Self {
        let ends = |(first, last): (K, K)| [Some(first), following(last)];
        let all = spans.iter().flatten().flat_map(|spans| spans.iter().flat_map(ends).flatten());
        let mut starts: Vec<K> = all.collect();
        starts.sort_unstable();
        starts.dedup();
        let place = |start: K| starts.partition_point(|known| *known < start);
        let part = |length: f64, whole: f64| length / whole.max(1.0) * f64::from(WHOLE);
        let whole = starts.first().zip(starts.last()).map_or(0, |(first, last)| last.wide() - first.wide());
        let breadth = |spans: &Spans<K>| {
            let places = |(first, last)| following(last).map_or(starts.len(), place) - place(first);
            let places: usize = spans.iter().map(places).sum();
            let values: f64 = spans.iter().map(|(first, last)| (last.wide() - first.wide()) as f64).sum();
            // Rules may crowd in a small part of the values, or distinguish nothing in a large one.
            part(places as f64, starts.len() as f64).max(part(values, whole as f64)) as u32
        };
        let breadths = spans.iter().map(|spans| spans.map_or(ANY, breadth)).collect();
        Self { spans, breadths }
    }

    /// Returns how much of the field a rule takes.
    pub(super) fn breadth(&self, rule: usize) -> u32 {
        self.breadths.get(rule).copied().unwrap_or(ANY)
    }

    /// Creates lists of the `chosen` rules, with at most `depth` rules in a list. Returns them and the rules
    /// that had to be left out. If possible these are rules with `another` field.
    pub(super) fn shortlists(
        &self,
        chosen: impl Fn(usize) -> bool,
        another: impl Fn(usize) -> bool,
        depth: usize,
    ) -> (Option<Shortlists<K>>, Vec<usize>) {
        let mut turns: Vec<(K, u32)> = Vec::new();
        for (rule, spans) in self.spans.iter().enumerate().filter(|(rule, _)| chosen(*rule)) {
            for (first, last) in spans.iter().flat_map(|spans| spans.iter()) {
                turns.push((first, rule as u32));
                turns.extend(following(last).map(|end| (end, rule as u32)));
            }
        }
        turns.sort_unstable();
        let mut is_out = vec![false; self.spans.len()];
        let (mut open, mut out) = (Vec::new(), Vec::new());
        for same in turns.chunk_by(|one, other| one.0 == other.0) {
            for (_, rule) in same.iter().filter(|(_, rule)| is_out.get(*rule as usize) == Some(&false)) {
                toggle(&mut open, *rule);
            }
            if open.len() > depth {
                // Rules with another field come first; then the broadest.
                open.sort_by_key(|rule| (another(*rule as usize), self.breadth(*rule as usize)));
                let kept = open.partition_point(|rule| !another(*rule as usize)).min(depth);
                for rule in open.drain(kept..) {
                    is_out.get_mut(rule as usize).into_iter().for_each(|is_out| *is_out = true);
                    out.push(rule as usize);
                }
                open.sort_unstable();
            }
        }
        turns.retain(|(_, rule)| is_out.get(*rule as usize) == Some(&false));
        ((!turns.is_empty()).then(|| Shortlists::new(turns.into_iter())), out)
    }
}

/// Returns the number behind this one, if there is one.
fn following<K: Number>(number: K) -> Option<K> {
    (number < K::MAX).then(|| K::narrow(number.wide() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(spans: &[(u16, u16)], other: &[usize], depth: usize) -> (Shortlists<u16>, Vec<usize>) {
        let spans: Vec<_> = spans.iter().map(|span| Spans::of(vec![*span])).collect();
        let wishes = Wishes::new(spans.iter().map(Some).collect());
        let (lists, out) = wishes.shortlists(|_| true, |rule| other.contains(&rule), depth);
        (lists.unwrap(), out)
    }

    #[test]
    fn a_value_leaves_the_rules_that_take_it() {
        let (lists, out) = lists(&[(5, 9), (0, 7), (7, u16::MAX), (20, 20)], &[], 4);
        let get = |value| lists.get(value);
        assert_eq!(
            [0, 5, 7, 8, 10, 20, 21].map(get),
            [&[1][..], &[0, 1], &[0, 1, 2], &[0, 2], &[2], &[2, 3], &[2]]
        );
        assert_eq!(out, [0; 0]);
    }

    #[test]
    fn a_list_is_never_too_long() {
        let spans = [(0, 100), (10, 90), (20, 80), (30, 70), (95, 99), (98, 98)];
        let (two, out) = lists(&spans, &[], 2);
        assert_eq!(out, [0, 1], "the broadest");
        assert_eq!([25, 50, 98].map(|value| two.get(value)), [&[2][..], &[2, 3], &[4, 5]]);
        let (two, out) = lists(&spans, &[2, 3], 2);
        assert_eq!(out, [2, 3, 0], "those that have another field, and then the broadest");
        assert_eq!([25, 50, 98].map(|value| two.get(value).len()), [1, 1, 2]);
    }

    #[test]
    fn breadths_are_parts_of_what_is_told_apart_and_of_all_values() {
        let spans = [(0, 9), (0, 1), (2, 3), (9, 9), (4, 8)].map(|span| Spans::<u16>::of(vec![span]));
        let wishes = Wishes::new(spans.iter().map(Some).chain([None]).collect());
        let breadths: Vec<_> = (0..6).map(|rule| wishes.breadth(rule)).collect();
        // 0, 2, 4, 9, 10
        assert_eq!(breadths, [WHOLE * 9 / 10, WHOLE / 5, WHOLE / 5, WHOLE / 5, WHOLE * 4 / 10, ANY]);
    }
}
