//! Bytes the user has written and the peer has not acknowledged.

use alloc::collections::VecDeque;

use super::super::seq::{SeqNumber, SeqRange};
use super::super::table::Id;
use super::slices::{forget_first, slices};
use super::spares::{Spares, Whose};

/// The part of the stream that may have to be sent, again or for the first time.
///
/// ```text
///        start          SND.NXT            end
///   -------+---------------+----------------+------
///    acked    in the network    not yet sent
/// ```
#[derive(Debug, Default)]
pub struct SendBuffer {
    bytes: VecDeque<u8>,
    /// Of the first byte.
    start: SeqNumber,
}

impl SendBuffer {
    /// Creates an empty buffer, whose first byte will have the number `start`.
    #[must_use]
    pub const fn new(start: SeqNumber) -> Self {
        Self { bytes: VecDeque::new(), start }
    }

    /// Returns the number of bytes in the buffer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of bytes of memory that the buffer owns.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns whether the buffer has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the number after the last byte.
    #[must_use]
    pub fn end(&self) -> SeqNumber {
        self.start + self.bytes.len() as u32
    }

    /// Takes as much of `data` as keeps it within `limit` bytes; says how much.
    pub fn write(&mut self, data: &[u8], limit: usize) -> usize {
        let taken = data.len().min(limit.saturating_sub(self.bytes.len()));
        self.bytes.extend(data.get(..taken).unwrap_or_default());
        taken
    }

    /// Returns the bytes of `range`, as far as they are here.
    #[must_use]
    pub fn get(&self, range: SeqRange) -> [&[u8]; 2] {
        let range = range.intersection(SeqRange::new(self.start, self.end()));
        slices(&self.bytes, range.start.since(self.start) as usize, range.len() as usize)
    }

    /// Forgets everything before `upto`: the peer has it.
    pub fn acknowledge(&mut self, upto: SeqNumber) {
        let acked = upto.since(self.start).min(self.bytes.len() as u32);
        forget_first(&mut self.bytes, acked as usize);
        self.start += acked;
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
        spares.lend(&mut self.bytes, more, Whose::Sender(id));
    }

    /// Gives its memory to `spares` if it is empty: see [`Spares::take`].
    #[inline]
    pub(crate) fn give_to(&mut self, spares: &mut Spares, id: Id) {
        spares.take(&mut self.bytes, Whose::Sender(id));
    }

    /// Forgets everything: it will not be sent.
    pub fn clear(&mut self) {
        *self = Self::new(self.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_by_number_across_the_wrap_of_ring_and_numbers() {
        let mut buffer = SendBuffer::new(SeqNumber::new(u32::MAX - 4));
        let stream: Vec<u8> = (0..200).collect();
        let (mut written, mut acked) = (0, 0);
        while acked < stream.len() {
            written += buffer.write(&stream[written..], 16);
            for from in acked..written {
                let start = SeqNumber::new(u32::MAX - 4) + from as u32;
                let [a, b] = buffer.get(SeqRange::new(start, buffer.end()));
                assert_eq!([a, b].concat(), stream[from..written]);
            }
            acked = written.min(acked + 7);
            buffer.acknowledge(SeqNumber::new(u32::MAX - 4) + acked as u32);
        }
        assert!(buffer.is_empty() && buffer.capacity() > 0);
        buffer.release();
        assert_eq!(buffer.capacity(), 0);
    }

    #[test]
    fn it_takes_no_more_than_its_limit_and_gives_no_more_than_it_has() {
        let mut buffer = SendBuffer::new(SeqNumber::new(100));
        assert_eq!((buffer.write(b"abcdef", 4), buffer.write(b"ef", 4)), (4, 0));
        assert_eq!(buffer.get(SeqRange::at(SeqNumber::new(90), 1000)).concat(), b"abcd");
        assert_eq!(buffer.get(SeqRange::at(SeqNumber::new(104), 10)).concat(), b"");
        buffer.acknowledge(SeqNumber::new(2000));
        assert_eq!(
            buffer.end(),
            SeqNumber::new(104),
            "an acknowledgment of what was never written changes nothing"
        );
    }
}
