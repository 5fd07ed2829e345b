//! Sets of numbers as sorted spans that do not touch.

/// A number that a header field holds.
pub(super) trait Number: Copy + Ord {
    /// The largest one.
    const MAX: Self;
    /// Returns the number as the widest kind.
    fn wide(self) -> u128;
    /// Returns the number that `wide` came from, or the largest one.
    fn narrow(wide: u128) -> Self;
}

macro_rules! numbers {
    ($($kind:ty)*) => {
        $(impl Number for $kind {
            const MAX: Self = Self::MAX;
            fn wide(self) -> u128 {
                self.into()
            }
            fn narrow(wide: u128) -> Self {
                Self::try_from(wide).unwrap_or(Self::MAX)
            }
        })*
    };
}
numbers!(u16 u32 u128);

/// A set of numbers: spans from one to another, both included, sorted, with a gap between any two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spans<K>(Vec<(K, K)>);

impl<K> Default for Spans<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Number> Spans<K> {
    /// Returns the union of spans, which may overlap and come in any order.
    pub(super) fn of(mut spans: Vec<(K, K)>) -> Self {
        spans.sort_unstable();
        let mut done: Vec<(K, K)> = Vec::with_capacity(spans.len());
        for (first, last) in spans {
            match done.last_mut() {
                Some((_, end)) if first.wide() <= end.wide().saturating_add(1) => *end = last.max(*end),
                _ => done.push((first, last)),
            }
        }
        Self(done)
    }

    /// Returns the set of all other numbers.
    pub(super) fn complement(&self) -> Self {
        let (mut done, mut next) = (Vec::with_capacity(self.0.len() + 1), Some(0_u128));
        for &(first, last) in &self.0 {
            if let Some(from) = next
                && from < first.wide()
            {
                done.push((K::narrow(from), K::narrow(first.wide() - 1)));
            }
            next = last.wide().checked_add(1);
        }
        match next {
            Some(from) if from <= K::MAX.wide() => done.push((K::narrow(from), K::MAX)),
            _ => {}
        }
        Self(done)
    }

    pub(super) fn contains(&self, number: K) -> bool {
        let behind = self.0.partition_point(|&(first, _)| first <= number);
        behind.checked_sub(1).and_then(|at| self.0.get(at)).is_some_and(|&(_, last)| number <= last)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (K, K)> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_joined_and_turned_inside_out() {
        let set = Spans::<u16>::of(vec![(7, 9), (0, 2), (3, 4), (8, 8), (65_000, u16::MAX)]);
        assert_eq!(set.0, [(0, 4), (7, 9), (65_000, u16::MAX)]);
        assert_eq!(set.complement().0, [(5, 6), (10, 64_999)]);
        assert_eq!(set.complement().complement(), set);
        let all = Spans::of(vec![(0, u128::MAX)]);
        assert_eq!((all.complement(), Spans::default().complement()), (Spans::default(), all));
        assert_eq!([4, 5, 6, 7, 10].map(|n| set.contains(n)), [true, false, false, true, false]);
    }
}
