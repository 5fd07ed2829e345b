//! A header field: for each of its values, the rules that the value fits.

use super::rows::{Collecting, Fit, Row, Rows, Summary, TooLarge};
use crate::route::rules::spans::{Number, Spans};

/// Bits of a value that tell where to search for it, at most.
const INDEX_BITS: u32 = 16;

/// A field of many values. Values between two places where a rule begins or ends have one row.
#[derive(Debug)]
pub(super) struct Field<K> {
    /// Where the rows begin. The first one begins at zero.
    starts: Vec<K>,
    numbers: Vec<u32>,
    index: Index,
    rows: Rows,
}

impl<K: Number> Field<K> {
    /// Makes the field of rules that are about these values; `None` for a rule that takes every value. The
    /// field is `None` if all rules do.
    ///
    /// # Errors
    /// [`TooLarge`], if its rows have more than `words_max` words.
    pub(super) fn new<'a>(
        wanted: impl ExactSizeIterator<Item = Option<&'a Spans<K>>>,
        words_max: usize,
    ) -> Result<Option<Self>, TooLarge>
    where
        K: 'a,
    {
        let mut row = Row::new(wanted.len());
        // A value from which on a rule is in the row, or no longer.
        let mut turns: Vec<(K, usize)> = Vec::new();
        let mut is_wanted = false;
        for (rule, spans) in wanted.enumerate() {
            let Some(spans) = spans else {
                row.toggle(rule);
                continue;
            };
            is_wanted = true;
            for (first, last) in spans.iter() {
                turns.push((first, rule));
                if last < K::MAX {
                    turns.push((K::narrow(last.wide() + 1), rule));
                }
            }
        }
        if !is_wanted {
            return Ok(None);
        }
        turns.sort_unstable();
        let mut rows = Collecting::new(&row, words_max);
        let (mut starts, mut numbers, mut at) = (Vec::new(), Vec::new(), K::narrow(0));
        for (place, rule) in turns {
            if place != at {
                put(&mut starts, &mut numbers, at, rows.add(&row)?);
                at = place;
            }
            row.toggle(rule);
        }
        put(&mut starts, &mut numbers, at, rows.add(&row)?);
        starts.shrink_to_fit();
        numbers.shrink_to_fit();
        Ok(Some(Self { index: Index::of(&starts), starts, numbers, rows: rows.done() }))
    }

    /// Returns the rules that a value fits; of a packet that has not the field, those that take every value.
    #[inline]
    pub(super) fn get(&self, value: Option<K>) -> (Summary, Fit<'_>) {
        let row = value.and_then(|value| {
            let at = self.index.behind(&self.starts, value);
            self.numbers.get(at.wrapping_sub(1)).copied()
        });
        self.rows.get(row.unwrap_or(u32::MAX))
    }
}

fn put<K>(starts: &mut Vec<K>, numbers: &mut Vec<u32>, at: K, number: u32) {
    if numbers.last() != Some(&number) {
        starts.push(at);
        numbers.push(number);
    }
}

/// Where to search among sorted numbers, by some bits of the distance from the first one that is not zero.
#[derive(Debug, Default)]
struct Index {
    origin: u128,
    shift: u32,
    /// For each value of the bits, how many numbers come before the first one that has it; and how many there
    /// are.
    before: Vec<u32>,
}

impl Index {
    fn of<K: Number>(starts: &[K]) -> Self {
        let (Some(origin), Some(last)) = (starts.get(1), starts.last()) else { return Self::default() };
        let (origin, span) = (origin.wide(), last.wide() - origin.wide());
        let bits = (usize::BITS - starts.len().leading_zeros()).min(INDEX_BITS);
        let shift = (u128::BITS - span.leading_zeros()).saturating_sub(bits);
        let buckets = (span >> shift) as usize + 1;
        let mut before = Vec::with_capacity(buckets + 1);
        let mut at = 1;
        for bucket in 0..buckets as u128 {
            while starts.get(at).is_some_and(|start| (start.wide() - origin) >> shift < bucket) {
                at += 1;
            }
            before.push(at as u32);
        }
        before.push(starts.len() as u32);
        Self { origin, shift, before }
    }

    /// Returns how many numbers are not above a value.
    #[inline]
    fn behind<K: Number>(&self, starts: &[K], value: K) -> usize {
        let Some(distance) = value.wide().checked_sub(self.origin) else { return 1 };
        let bucket = usize::try_from(distance >> self.shift).unwrap_or(usize::MAX);
        let from = self.before.get(bucket).map_or(starts.len(), |from| *from as usize);
        let to = self.before.get(bucket.saturating_add(1)).map_or(starts.len(), |to| *to as usize);
        let among = starts.get(from..to).unwrap_or_default();
        from + among.partition_point(|start| *start <= value)
    }
}

/// A field of a byte, and how its conditions are told apart.
#[derive(Debug)]
pub(super) struct Small {
    numbers: [u32; 256],
    rows: Rows,
}

/// Conditions among which one is searched for that is already known.
const RECENT: usize = 32;

impl Small {
    /// Makes the field of rules with these conditions; `None` for a rule that takes every value. The field is
    /// `None` if all rules do.
    pub(super) fn new<C: PartialEq + Copy>(
        conditions: &[Option<C>],
        holds: impl Fn(C, u8) -> bool,
    ) -> Option<Self> {
        if conditions.iter().all(Option::is_none) {
            return None;
        }
        let base = Row::of(conditions.len(), |rule| conditions.get(rule).is_some_and(Option::is_none));
        // Neighbours often have the condition in common: it is then asked for once.
        let mut runs: Vec<(C, Vec<usize>)> = Vec::new();
        for (rule, condition) in conditions.iter().enumerate() {
            let Some(condition) = *condition else { continue };
            match runs.iter_mut().rev().take(RECENT).find(|(known, _)| *known == condition) {
                Some((_, rules)) => rules.push(rule),
                None => runs.push((condition, vec![rule])),
            }
        }
        let mut rows = Collecting::new(&base, usize::MAX);
        let mut numbers = [0; 256];
        for (value, number) in (0..=u8::MAX).zip(&mut numbers) {
            let mut row = base.clone();
            for (_, rules) in runs.iter().filter(|(condition, _)| holds(*condition, value)) {
                rules.iter().for_each(|rule| row.set(*rule));
            }
            // Without a bound there is no error.
            *number = rows.add(&row).unwrap_or(u32::MAX);
        }
        Some(Self { numbers, rows: rows.done() })
    }

    /// Returns the rules that a value fits; of a packet that has not the field, those that take every value.
    #[inline]
    pub(super) fn get(&self, value: Option<u8>) -> (Summary, Fit<'_>) {
        let row = value.and_then(|value| self.numbers.get(usize::from(value)).copied());
        self.rows.get(row.unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<K: Number + core::fmt::Debug>(mut starts: Vec<K>, values: &[K]) {
        starts.push(K::narrow(0));
        starts.sort_unstable();
        starts.dedup();
        let index = Index::of(&starts);
        for value in values.iter().chain(&starts) {
            let slow = starts.partition_point(|start| start <= value);
            assert_eq!(index.behind(&starts, *value), slow, "{value:?} of {starts:?}");
        }
    }

    #[test]
    fn an_index_finds_what_a_search_finds() {
        check::<u32>(vec![], &[0, 1, u32::MAX]);
        check::<u32>(vec![7], &[6, 8, u32::MAX]);
        check(vec![u32::MAX], &[0, u32::MAX - 1]);
        check((0..5000_u32).map(|n| n.wrapping_mul(0x9e37_79b9)).collect(), &[0, 1, 77, u32::MAX]);
        check((0..300_u16).map(|n| n * 211).collect(), &[0, 1, 210, 211, u16::MAX]);
        let far = [1 << 100, (1 << 100) + 5, (1 << 100) + 6, 3 << 120, u128::MAX];
        check(far.to_vec(), &[2, (1 << 100) + 7, u128::MAX - 1]);
    }
}
