//! Memory of buffers that are empty, for those that are to hold something: most hold little, and not for
//! long, and to ask the allocator each time would cost more than all else they do.

use std::collections::VecDeque;

/// Memory that an empty buffer keeps at most.
pub(super) const KEPT_MAX: usize = 256 << 10;
/// The memory of so many buffers is kept at most.
const BUFFERS_MAX: usize = 64;

/// The memory of empty buffers, the last to come first.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    buffers: Vec<VecDeque<u8>>,
    bytes: usize,
}

impl Spares {
    /// Bytes of memory that are kept.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives a buffer that owns no memory that of another, if there is any.
    pub(super) fn lend(&mut self, to: &mut VecDeque<u8>) {
        if to.capacity() == 0
            && let Some(buffer) = self.buffers.pop()
        {
            self.bytes -= buffer.capacity();
            *to = buffer;
        }
    }

    /// Takes the memory of a buffer that is empty. All that is kept is `most_bytes` at most; the rest the
    /// allocator has back.
    #[inline]
    pub(super) fn take(&mut self, from: &mut VecDeque<u8>, most_bytes: usize) {
        if from.is_empty() && from.capacity() > 0 {
            self.put(core::mem::take(from), most_bytes);
        }
    }

    fn put(&mut self, buffer: VecDeque<u8>, most_bytes: usize) {
        let capacity = buffer.capacity();
        if self.buffers.len() < BUFFERS_MAX && self.bytes + capacity <= most_bytes {
            self.buffers.push(buffer);
            self.bytes += capacity;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_is_kept_within_bounds_and_lent() {
        let mut spares = Spares::default();
        let mut full = VecDeque::from(vec![1; 10]);
        spares.take(&mut full, 1_000);
        assert_eq!((full.len(), spares.bytes()), (10, 0), "it is not empty");
        full.clear();
        spares.take(&mut full, 9);
        assert_eq!((full.capacity(), spares.bytes()), (0, 0), "more than may be kept goes back");
        for _ in 0..2 * BUFFERS_MAX {
            spares.take(&mut VecDeque::with_capacity(10), 10 * BUFFERS_MAX * 2);
        }
        assert_eq!(spares.bytes(), 10 * BUFFERS_MAX);
        let mut other = VecDeque::from(vec![2]);
        spares.lend(&mut other);
        assert_eq!((&other, spares.bytes()), (&VecDeque::from([2]), 10 * BUFFERS_MAX), "it has some");
        let mut none = VecDeque::new();
        spares.lend(&mut none);
        assert_eq!((none.len(), none.capacity(), spares.bytes()), (0, 10, 10 * (BUFFERS_MAX - 1)));
    }
}
