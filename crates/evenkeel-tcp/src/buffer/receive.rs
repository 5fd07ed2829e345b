//! Bytes that have come and that the user has not read, with holes where some are missing.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::super::options::SackBlocks;
use super::super::seq::{SeqNumber, SeqRange};
use super::super::table::Id;
use super::assembly::Assembly;
use super::slices::{forget_first, slices, slices_mut};
use super::spares::{Spares, Whose};

/// The part of the stream between the user and the window's right edge.
///
/// ```text
///    first unread       RCV.NXT
///   -------+---------------+------+=======+----+===+---
///    read       readable     hole   held   hole held
/// ```
#[derive(Debug, Default)]
pub struct ReceiveBuffer {
    /// From the first unread byte on. Holes have room.
    bytes: VecDeque<u8>,
    readable: usize,
    /// RCV.NXT.
    next: SeqNumber,
    /// There while there are holes.
    assembly: Option<Box<Assembly>>,
}

/// The outcome of the insertion of a segment's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Insertion {
    /// By how much RCV.NXT advanced.
    pub advanced: u32,
    /// The first bytes that had come before (RFC 2883, 4).
    pub duplicate: Option<SeqRange>,
    /// There were too many holes to take it.
    pub refused: bool,
}

impl ReceiveBuffer {
    /// Creates an empty buffer that expects the byte `next`.
    #[must_use]
    pub const fn new(next: SeqNumber) -> Self {
        Self { bytes: VecDeque::new(), readable: 0, next, assembly: None }
    }

    /// Returns the number of bytes the user can read.
    #[must_use]
    pub const fn readable(&self) -> usize {
        self.readable
    }

    /// Returns the number of bytes of memory that the buffer owns, for readable bytes and for those beyond
    /// holes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns whether the buffer holds no bytes, neither readable ones nor bytes beyond holes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns RCV.NXT, without SYN and FIN.
    #[must_use]
    pub const fn next(&self) -> SeqNumber {
        self.next
    }

    /// Returns whether bytes beyond RCV.NXT have arrived.
    #[must_use]
    pub const fn has_holes(&self) -> bool {
        self.assembly.is_some()
    }

    /// Returns the blocks for a SACK option: the four ranges that grew last.
    #[must_use]
    pub fn sack(&self) -> SackBlocks {
        self.assembly.as_ref().map(|assembly| *assembly.recent()).unwrap_or_default()
    }

    /// Returns the range held beyond RCV.NXT that contains `range`: the second block of a DSACK (RFC 2883,
    /// 4).
    #[must_use]
    pub fn held_around(&self, range: SeqRange) -> Option<SeqRange> {
        self.assembly.as_ref()?.around(range)
    }

    /// Takes the payload that begins at `seq`. The caller has cut off what lies beyond the window; what lies
    /// before RCV.NXT is left out here.
    pub fn insert(&mut self, seq: SeqNumber, payload: [&[u8]; 2]) -> Insertion {
        let whole = SeqRange::at(seq, (payload[0].len() + payload[1].len()) as u32);
        let old = whole.intersection(SeqRange::new(whole.start, self.next));
        let range = SeqRange::new(whole.start.max(self.next), whole.end);
        let duplicate = Some(old).filter(|old| !old.is_empty());
        if range.is_empty() {
            return Insertion { advanced: 0, duplicate, refused: false };
        }
        let duplicate = duplicate.or_else(|| self.assembly.as_ref()?.first_overlap(range));
        let [a, b] = payload;
        let skipped = range.start.since(whole.start) as usize;
        let payload = [
            a.get(skipped..).unwrap_or_default(),
            b.get(skipped.saturating_sub(a.len())..).unwrap_or_default(),
        ];
        if range.start == self.next && self.assembly.is_none() {
            self.append(payload);
            return Insertion { advanced: range.len(), duplicate, refused: false };
        }
        let reach = {
            let Some(reach) = self.assembly.get_or_insert_default().insert(self.next, range) else {
                return Insertion { advanced: 0, duplicate, refused: true };
            };
            self.put(range, payload);
            self.assembly.take_if(|assembly| assembly.is_empty());
            reach
        };
        let advanced = reach.since(self.next);
        self.readable += advanced as usize;
        self.next = reach;
        Insertion { advanced, duplicate, refused: false }
    }

    /// Takes the payload that begins at RCV.NXT, while there are no holes.
    pub fn append(&mut self, payload: [&[u8]; 2]) {
        debug_assert!(self.assembly.is_none(), "what is beyond a hole lies there");
        for part in payload.into_iter().filter(|part| !part.is_empty()) {
            self.bytes.extend(part);
            self.readable += part.len();
            self.next += part.len() as u32;
        }
    }

    /// Copies bytes to where they belong, making room up to them.
    fn put(&mut self, range: SeqRange, payload: [&[u8]; 2]) {
        let start = self.readable + range.start.since(self.next) as usize;
        let end = start + range.len() as usize;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        let mut rest = payload;
        for mut places in slices_mut(&mut self.bytes, start, range.len() as usize) {
            for part in &mut rest {
                let (bytes, left) = part.split_at(part.len().min(places.len()));
                let (room, after) = places.split_at_mut(bytes.len());
                room.copy_from_slice(bytes);
                (*part, places) = (left, after);
            }
        }
    }

    /// Copies what can be read to `to`; says how much that was.
    pub fn peek(&self, to: &mut [u8]) -> usize {
        let len = to.len().min(self.readable);
        let mut rest = to;
        for part in slices(&self.bytes, 0, len).into_iter().filter(|part| !part.is_empty()) {
            let Some((room, after)) = rest.split_at_mut_checked(part.len()) else { break };
            room.copy_from_slice(part);
            rest = after;
        }
        len
    }

    /// Moves what can be read to `to`; says how much that was.
    pub fn read(&mut self, to: &mut [u8]) -> usize {
        let len = self.peek(to);
        self.skip(len);
        len
    }

    /// Throws away what can be read.
    pub fn discard(&mut self) {
        self.skip(self.readable);
    }

    /// Forgets the first `len` bytes that can be read.
    fn skip(&mut self, len: usize) {
        forget_first(&mut self.bytes, len);
        self.readable -= len;
    }

    /// Gives its memory back if it is empty.
    pub fn release(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = VecDeque::new();
        }
    }

    /// Takes memory for `more` bytes: see [`Spares::lend`]. The connection is `id`.
    #[inline]
    pub(crate) fn borrow_from(&mut self, spares: &mut Spares, more: usize, id: Id) {
        spares.lend(&mut self.bytes, more, Whose::Receiver(id));
    }

    /// Gives its memory to `spares` if it is empty: see [`Spares::take`].
    #[inline]
    pub(crate) fn give_to(&mut self, spares: &mut Spares, id: Id) {
        spares.take(&mut self.bytes, Whose::Receiver(id));
    }

    /// Forgets what has come out of order. The peer will send it again, whatever SACK has told it (RFC 2018,
    /// 8: the receiver is permitted to discard it).
    pub fn renege(&mut self) {
        if self.assembly.take().is_some() {
            self.bytes.truncate(self.readable);
            self.bytes.shrink_to_fit();
        }
    }

    /// Forgets everything: it will not be read.
    pub fn clear(&mut self) {
        *self = Self::new(self.next);
    }
}

#[cfg(test)]
mod tests {
    use super::super::assembly::RANGES_MAX;
    use super::*;
    use proptest::prelude::*;

    const START: SeqNumber = SeqNumber::new(u32::MAX - 50);

    fn at(from: u32, len: u32) -> SeqRange {
        SeqRange::at(START + from, len)
    }

    /// Returns the bytes `from..from + len` of a stream in which every byte can be told from its
    /// neighbours.
    fn bytes(from: u32, len: u32) -> Vec<u8> {
        (from..from + len).map(|i| (i % 251) as u8).collect()
    }

    fn insert(buffer: &mut ReceiveBuffer, from: u32, len: u32) -> Insertion {
        let data = bytes(from, len);
        let (a, b) = data.split_at(data.len() / 3);
        buffer.insert(START + from, [a, b])
    }

    #[test]
    fn a_hole_that_is_filled_frees_what_is_behind_it() {
        let mut buffer = ReceiveBuffer::new(START);
        assert_eq!(insert(&mut buffer, 10, 10).advanced, 0);
        assert_eq!(insert(&mut buffer, 30, 10).advanced, 0);
        assert_eq!(buffer.sack().as_slice(), [at(30, 10), at(10, 10)], "the last first");
        assert_eq!(insert(&mut buffer, 0, 10).advanced, 20);
        assert_eq!((buffer.readable(), buffer.sack().as_slice()), (20, &[at(30, 10)][..]));
        let mut read = [0; 100];
        assert_eq!(buffer.read(&mut read), 20);
        assert_eq!(read[..20], bytes(0, 20));
        assert_eq!(
            insert(&mut buffer, 15, 15),
            Insertion { advanced: 20, duplicate: Some(at(15, 5)), refused: false }
        );
        assert_eq!(buffer.read(&mut read[..7]), 7);
        assert_eq!(buffer.read(&mut read[7..]), 13);
        assert_eq!(read[..20], bytes(20, 20));
        assert!(!buffer.has_holes() && buffer.bytes.is_empty() && buffer.bytes.capacity() > 0);
    }

    #[test]
    fn four_blocks_are_reported_and_a_block_that_grows_comes_first() {
        let mut buffer = ReceiveBuffer::new(START);
        for from in [10, 30, 50, 70, 90] {
            insert(&mut buffer, from, 10);
        }
        assert_eq!(buffer.sack().as_slice(), [at(90, 10), at(70, 10), at(50, 10), at(30, 10)]);
        insert(&mut buffer, 40, 5);
        assert_eq!(buffer.sack().as_slice(), [at(30, 15), at(90, 10), at(70, 10), at(50, 10)]);
        insert(&mut buffer, 45, 5);
        assert_eq!(buffer.sack().as_slice(), [at(30, 30), at(90, 10), at(70, 10)], "two became one");
    }

    #[test]
    fn what_came_twice_is_reported() {
        let mut buffer = ReceiveBuffer::new(START);
        insert(&mut buffer, 0, 20);
        assert_eq!(
            insert(&mut buffer, 5, 10),
            Insertion { advanced: 0, duplicate: Some(at(5, 10)), refused: false }
        );
        insert(&mut buffer, 30, 20);
        assert_eq!(insert(&mut buffer, 35, 5).duplicate, Some(at(35, 5)));
        assert_eq!(buffer.held_around(at(35, 5)), Some(at(30, 20)));
        assert_eq!(insert(&mut buffer, 25, 10).duplicate, Some(at(30, 5)));
    }

    #[test]
    fn holes_have_a_bound_and_the_next_byte_always_fits() {
        let mut buffer = ReceiveBuffer::new(START);
        for i in 0..RANGES_MAX as u32 {
            assert!(!insert(&mut buffer, 10 + 10 * i, 5).refused);
        }
        assert!(insert(&mut buffer, 5, 2).refused);
        assert!(!insert(&mut buffer, 15, 5).refused, "this one joins two");
        assert!(!insert(&mut buffer, 5, 2).refused);
        assert_eq!(insert(&mut buffer, 0, 5).advanced, 7);
    }

    proptest! {
        #[test]
        fn bytes_in_any_order_come_out_in_order(
            pieces in proptest::collection::vec((0u32..300, 0u32..40, 0usize..50), 1..80),
        ) {
            let mut buffer = ReceiveBuffer::new(START);
            let (mut here, mut out) = ([false; 400], Vec::new());
            for (from, len, read) in pieces {
                let before = buffer.next().since(START);
                let insertion = insert(&mut buffer, from, len);
                let duplicate = (from..from + len).any(|i| here[i as usize]);
                prop_assert_eq!(insertion.duplicate.is_some(), duplicate);
                here[from as usize..(from + len) as usize].fill(true);
                let next = here.iter().position(|here| !here).unwrap() as u32;
                prop_assert_eq!(insertion.advanced, next - before);
                let mut to = vec![0; read];
                let read = buffer.read(&mut to);
                out.extend_from_slice(&to[..read]);
                prop_assert_eq!(out.len() + buffer.readable(), next as usize);
                prop_assert_eq!(buffer.has_holes(), here[next as usize..].contains(&true));
                for block in buffer.sack().as_slice() {
                    let (start, end) = (block.start.since(START) as usize, block.end.since(START) as usize);
                    prop_assert!(here[start..end].iter().all(|h| *h), "{:?}", block);
                    prop_assert!(!here[start - 1] && !here[end], "{:?}", block);
                }
            }
            prop_assert_eq!(&out, &bytes(0, out.len() as u32));
        }
    }
}
