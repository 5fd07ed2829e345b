//! Ranges of a ring of bytes, each in the two places where it lies.

use alloc::collections::VecDeque;

/// Returns the `len` bytes from `offset` on, in the two places where they lie.
#[inline]
pub(super) fn slices(bytes: &VecDeque<u8>, offset: usize, len: usize) -> [&[u8]; 2] {
    let (front, back) = bytes.as_slices();
    let (start, end) = (offset, offset.saturating_add(len));
    // Most do not wrap.
    if let Some(whole) = front.get(start..end) {
        return [whole, &[]];
    }
    [
        front.get(start.min(front.len())..end.min(front.len())).unwrap_or_default(),
        back.get(
            start.saturating_sub(front.len()).min(back.len())
                ..end.saturating_sub(front.len()).min(back.len()),
        )
        .unwrap_or_default(),
    ]
}

/// Returns `len` bytes from `offset` as two mutable slices.
pub(super) fn slices_mut(bytes: &mut VecDeque<u8>, offset: usize, len: usize) -> [&mut [u8]; 2] {
    let (front, back) = bytes.as_mut_slices();
    let (start, end) = (offset, offset.saturating_add(len));
    let middle = front.len();
    [
        front.get_mut(start.min(middle)..end.min(middle)).unwrap_or_default(),
        back.get_mut(
            start.saturating_sub(middle).min(back.len())..end.saturating_sub(middle).min(back.len()),
        )
        .unwrap_or_default(),
    ]
}

/// Removes the first `len` bytes: all there are, most of the time.
#[inline]
pub(super) fn forget_first(bytes: &mut VecDeque<u8>, len: usize) {
    if len == bytes.len() {
        bytes.clear();
    } else {
        bytes.drain(..len);
    }
}
