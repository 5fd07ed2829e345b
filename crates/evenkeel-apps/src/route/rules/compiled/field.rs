//! A header field: for each of its values, the rules that match it.

use super::rows::{Collecting, Fit, Row, Rows, Summary, TooLarge};
use crate::route::rules::spans::{Index, Number, Spans};

/// A field of many values. Values between two places where a rule begins or ends have one row.
#[derive(Debug)]
pub(super) struct Field<K> {
    /// The lowest value of each row, in ascending order. The first row begins at zero.
    starts: Vec<K>,
    /// The place of each row in `rows`.
    rows_at: Vec<u32>,
    index: Index<K>,
    rows: Rows,
}

impl<K: Number> Field<K> {
    /// Creates the field of rules with conditions on these values; `None` for a rule that accepts every
    /// value. Returns `None` if all rules do.
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
        // A value at which a rule begins or ends to be in the row.
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
        let (mut starts, mut rows_at, mut at) = (Vec::new(), Vec::new(), K::narrow(0));
        for (place, rule) in turns {
            if place != at {
                put(&mut starts, &mut rows_at, at, rows.add(&row)?);
                at = place;
            }
            row.toggle(rule);
        }
        put(&mut starts, &mut rows_at, at, rows.add(&row)?);
        starts.shrink_to_fit();
        rows_at.shrink_to_fit();
        Ok(Some(Self { index: Index::of(&starts, |start| *start), starts, rows_at, rows: rows.done() }))
    }

    /// Returns the rules that a value fits; of a packet that has not the field, those that take every value.
    #[inline]
    pub(super) fn get(&self, value: Option<K>) -> (Summary, Fit<'_>) {
        let row = value.and_then(|value| {
            let at = self.index.behind(&self.starts, |start| *start, value);
            self.rows_at.get(at.wrapping_sub(1)).copied()
        });
        self.rows.get(row.unwrap_or(Rows::BASE))
    }
}

fn put<K>(starts: &mut Vec<K>, rows_at: &mut Vec<u32>, start: K, at: u32) {
    if rows_at.last() != Some(&at) {
        starts.push(start);
        rows_at.push(at);
    }
}

/// A field of one byte, with its different conditions.
#[derive(Debug)]
pub(super) struct Small {
    rows_at: [u32; 256],
    rows: Rows,
}

/// The number of recent conditions that are searched for an equal one.
const RECENT: usize = 32;

impl Small {
    /// Creates the field of rules with these conditions; `None` for a rule that accepts every value. Returns
    /// `None` if all rules do.
    pub(super) fn new<C: PartialEq + Copy>(
        conditions: &[Option<C>],
        holds: impl Fn(C, u8) -> bool,
    ) -> Option<Self> {
        if conditions.iter().all(Option::is_none) {
            return None;
        }
        let base = Row::of(conditions.len(), |rule| conditions.get(rule).is_some_and(Option::is_none));
        // Consecutive rules often have equal conditions, which are then evaluated once.
        let mut runs: Vec<(C, Vec<usize>)> = Vec::new();
        for (rule, condition) in conditions.iter().enumerate() {
            let Some(condition) = *condition else { continue };
            match runs.iter_mut().rev().take(RECENT).find(|(known, _)| *known == condition) {
                Some((_, rules)) => rules.push(rule),
                None => runs.push((condition, vec![rule])),
            }
        }
        let mut rows = Collecting::new(&base, usize::MAX);
        let mut rows_at = [Rows::BASE; 256];
        for (value, at) in (0..=u8::MAX).zip(&mut rows_at) {
            let mut row = base.clone();
            for (_, rules) in runs.iter().filter(|(condition, _)| holds(*condition, value)) {
                rules.iter().for_each(|rule| row.set(*rule));
            }
            // Without a bound there is no error.
            *at = rows.add(&row).unwrap_or(Rows::BASE);
        }
        Some(Self { rows_at, rows: rows.done() })
    }

    /// Returns the rules that a value fits; of a packet that has not the field, those that take every value.
    #[inline]
    pub(super) fn get(&self, value: Option<u8>) -> (Summary, Fit<'_>) {
        let row = value.and_then(|value| self.rows_at.get(usize::from(value)).copied());
        self.rows.get(row.unwrap_or(Rows::BASE))
    }
}
