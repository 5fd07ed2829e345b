//! A header field: for each of its values, the rules that the value fits.

use super::rows::{Collecting, Row, Rows};
use crate::route::rules::spans::{Number, Spans};

/// A field of many values. Values between two places where a rule begins or ends have one row.
#[derive(Debug)]
pub(super) struct Field<K> {
    /// Where the rows begin. The first one begins at zero.
    starts: Vec<K>,
    numbers: Vec<u32>,
    rows: Rows,
}

impl<K: Number> Field<K> {
    /// Makes the field of rules that are about these values; `None` for a rule that takes every value. The
    /// field is `None` if all rules do.
    pub(super) fn new<'a>(wanted: impl ExactSizeIterator<Item = Option<&'a Spans<K>>>) -> Option<Self>
    where
        K: 'a,
    {
        let rules = wanted.len();
        let mut row = Row::new(rules);
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
            return None;
        }
        turns.sort_unstable();
        let mut rows = Collecting::new(rules);
        let (mut starts, mut numbers, mut at) = (Vec::new(), Vec::new(), K::narrow(0));
        for (place, rule) in turns {
            if place != at {
                put(&mut starts, &mut numbers, at, rows.add(&row));
                at = place;
            }
            row.toggle(rule);
        }
        put(&mut starts, &mut numbers, at, rows.add(&row));
        Some(Self { starts, numbers, rows: rows.done() })
    }

    /// Returns the rules that a value fits.
    #[inline]
    pub(super) fn get(&self, value: K) -> &[u64] {
        let behind = self.starts.partition_point(|start| *start <= value);
        self.rows.get(self.numbers.get(behind.wrapping_sub(1)).copied().unwrap_or(u32::MAX))
    }
}

fn put<K>(starts: &mut Vec<K>, numbers: &mut Vec<u32>, at: K, number: u32) {
    if numbers.last() != Some(&number) {
        starts.push(at);
        numbers.push(number);
    }
}

/// A field of a byte, and how its conditions are told apart.
#[derive(Debug)]
pub(super) struct Small {
    numbers: Vec<u32>,
    rows: Rows,
}

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
            match runs.iter_mut().rev().take(8).find(|(known, _)| *known == condition) {
                Some((_, rules)) => rules.push(rule),
                None => runs.push((condition, vec![rule])),
            }
        }
        let mut rows = Collecting::new(conditions.len());
        let numbers = (0..=u8::MAX).map(|value| {
            let mut row = base.clone();
            for (_, rules) in runs.iter().filter(|(condition, _)| holds(*condition, value)) {
                rules.iter().for_each(|rule| row.set(*rule));
            }
            rows.add(&row)
        });
        Some(Self { numbers: numbers.collect(), rows: rows.done() })
    }

    /// Returns the rules that a value fits.
    #[inline]
    pub(super) fn get(&self, value: u8) -> &[u64] {
        self.rows.get(self.numbers.get(usize::from(value)).copied().unwrap_or(u32::MAX))
    }
}
