//! Sets of numbers as sorted spans with gaps between them.

/// A number in a header field.
pub(super) trait Number: Copy + Ord {
    /// The largest number of this type.
    const MAX: Self;
    /// Returns the number as the widest kind.
    fn wide(self) -> u128;
    /// Returns the number that `wide` came from, or the largest one.
    fn narrow(wide: u128) -> Self;
    /// Returns the bits above the last `shift` ones of the distance from `origin`; `None` below it.
    fn bits_from(self, origin: Self, shift: u32) -> Option<usize>;
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
            #[inline]
            fn bits_from(self, origin: Self, shift: u32) -> Option<usize> {
                let distance = self.checked_sub(origin)?;
                Some(usize::try_from(distance >> shift).unwrap_or(usize::MAX))
            }
        })*
    };
}
numbers!(u16 u32 u128);

/// A set of numbers: sorted spans, both ends included, with a gap between any two.
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

    /// Returns an index for [`contains`](Self::contains).
    pub(super) fn index(&self) -> Index<K> {
        Index::of(&self.0, |(first, _)| *first)
    }

    /// Returns whether a number is in the set. `index` is the index of the set.
    pub(super) fn contains(&self, number: K, index: &Index<K>) -> bool {
        let behind = index.behind(&self.0, |(first, _)| *first, number);
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

/// The most bits of a number that narrow a search for it.
const INDEX_BITS: u32 = 16;

/// An index to items that are sorted by a number. It narrows a search by some bits of the number's distance
/// from that of the second item, because the first item may be far from the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Index<K> {
    origin: K,
    shift: u32,
    /// For each value of the bits, the number of items before the first one that has it; finally the number
    /// of all items.
    before: Vec<u32>,
    /// The number of halvings that is enough for any search.
    halvings: u32,
}

impl<K: Number> Index<K> {
    /// Creates an index of items whose numbers ascend.
    pub(super) fn of<T>(things: &[T], number: impl Fn(&T) -> K) -> Self {
        let (Some(origin), Some(last)) = (things.get(1).map(&number), things.last().map(&number)) else {
            return Self { origin: K::MAX, shift: 0, before: Vec::new(), halvings: 1 };
        };
        let span = last.wide() - origin.wide();
        let bits = (1 + usize::BITS - things.len().leading_zeros()).min(INDEX_BITS);
        let shift = (u128::BITS - span.leading_zeros()).saturating_sub(bits);
        let bits = |number: K| number.bits_from(origin, shift).unwrap_or(0);
        let mut before = Vec::new();
        for (place, thing) in things.iter().enumerate().skip(1) {
            // The entries include values that no item has.
            before.resize(bits(number(thing)) + 1, place as u32);
        }
        before.push(things.len() as u32);
        before.shrink_to_fit();
        let most = before.iter().zip(before.iter().skip(1)).map(|(from, to)| to - from).max().unwrap_or(0);
        Self { origin, shift, before, halvings: u32::BITS - most.leading_zeros() }
    }

    /// Returns how many things have a number that is not above `value`.
    #[inline]
    pub(super) fn behind<T>(&self, things: &[T], number: impl Fn(&T) -> K, value: K) -> usize {
        let (from, to) = match value.bits_from(self.origin, self.shift) {
            Some(bucket) => {
                let before = |bucket| self.before.get(bucket).map_or(things.len(), |place| *place as usize);
                (before(bucket), before(bucket.saturating_add(1)))
            }
            None => (0, things.len().min(1)),
        };
        let (mut from, mut count) = (from, to.saturating_sub(from));
        // The number of iterations is constant, so that the branch is predicted well.
        for _ in 0..self.halvings {
            let half = count - count / 2;
            let last = things.get((from + half).wrapping_sub(1));
            from += if last.is_some_and(|last| number(last) <= value) { half } else { 0 };
            count -= half;
        }
        from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<K: Number + core::fmt::Debug>(mut starts: Vec<K>, values: &[K]) {
        starts.sort_unstable();
        starts.dedup();
        let index = Index::of(&starts, |start| *start);
        for value in values.iter().chain(&starts) {
            let slow = starts.partition_point(|start| start <= value);
            assert_eq!(index.behind(&starts, |start| *start, *value), slow, "{value:?} of {starts:?}");
        }
    }

    #[test]
    fn an_index_finds_what_a_search_finds() {
        check::<u32>(vec![], &[0, 1, u32::MAX]);
        check::<u32>(vec![7], &[6, 8, u32::MAX]);
        check(vec![0, u32::MAX], &[0, 1, u32::MAX - 1]);
        check((0..5000_u32).map(|n| n.wrapping_mul(0x9e37_79b9)).collect(), &[0, 1, 77, u32::MAX]);
        check((1..300_u16).map(|n| n * 211).collect(), &[0, 1, 210, 211, u16::MAX]);
        check((1..300_u16).collect(), &[0, 1, 299, 300, u16::MAX]);
        let far = [1 << 100, (1 << 100) + 5, (1 << 100) + 6, 3 << 120, u128::MAX];
        check(far.to_vec(), &[2, (1 << 100) + 7, u128::MAX - 1]);
    }

    #[test]
    fn spans_are_joined_and_turned_inside_out() {
        let set = Spans::<u16>::of(vec![(7, 9), (0, 2), (3, 4), (8, 8), (65_000, u16::MAX)]);
        assert_eq!(set.0, [(0, 4), (7, 9), (65_000, u16::MAX)]);
        assert_eq!(set.complement().0, [(5, 6), (10, 64_999)]);
        assert_eq!(set.complement().complement(), set);
        let all = Spans::of(vec![(0, u128::MAX)]);
        assert_eq!((all.complement(), Spans::default().complement()), (Spans::default(), all));
        assert_eq!(
            [4, 5, 6, 7, 10].map(|n| set.contains(n, &set.index())),
            [true, false, false, true, false]
        );
    }
}
