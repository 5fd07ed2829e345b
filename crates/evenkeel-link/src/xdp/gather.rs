//! Frames in several chunks, which are gathered in one buffer of the host's pool.

use core::cell::Cell;

use evenkeel_core::frame::{Frame, Pool};
use rustix::net::xdp::{XdpDesc, XdpDescOptions};

use super::ring::Consumer;

/// Returns whether another descriptor goes on with the frame of this one.
#[inline]
pub(super) const fn goes_on(descriptor: &XdpDesc) -> bool {
    descriptor.options.contains(XdpDescOptions::XDP_PKT_CONTD)
}

/// The number of frames that wait in a ring, where one may have several descriptors.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The number of the first descriptor that has not been looked at.
    looked: Cell<u32>,
    /// The last descriptors of frames among those that were looked at and wait.
    frames: Cell<u32>,
}

impl Waiting {
    /// Returns the number of frames that wait in `ring`. Looks at each descriptor once.
    pub(super) fn count(&self, ring: &Consumer<XdpDesc>) -> usize {
        let mut frames = self.frames.get();
        let see = |descriptor: XdpDesc| frames += u32::from(!goes_on(&descriptor));
        self.looked.set(ring.look_from(self.looked.get(), see));
        self.frames.set(frames);
        frames as usize
    }

    /// Records that the descriptor with this number has been read.
    pub(super) fn read(&self, number: u32, is_last: bool) {
        if number == self.looked.get() {
            self.looked.set(number.wrapping_add(1));
        } else if is_last {
            self.frames.set(self.frames.get() - 1);
        }
    }
}

/// A frame of which some chunks have been taken from a ring. The kernel publishes all at once, so there is
/// nearly never one between two looks at the ring.
#[derive(Debug, Default)]
pub(super) struct Gathering(Option<State>);

#[derive(Debug)]
enum State {
    /// The copy of what has come.
    Copied(Frame),
    /// No buffer was free or large enough, or a chunk was not as it should be: the rest is dropped.
    Lost,
}

/// The state of a frame after one more chunk.
#[derive(Debug)]
pub(super) enum Gathered {
    /// Another chunk follows.
    Part,
    /// All chunks have come.
    Whole(Frame),
    /// All chunks have come, and the frame is lost.
    Lost,
}

impl Gathering {
    /// Returns whether the next chunk belongs to a frame of which some have come.
    #[inline]
    pub(super) const fn has_begun(&self) -> bool {
        self.0.is_some()
    }

    /// Copies the next chunk of a frame behind the earlier ones. `part` is `None` for a chunk that is of no
    /// use.
    pub(super) fn add(&mut self, part: Option<&Frame>, is_last: bool, pool: &mut Pool) -> Gathered {
        let state = match (self.0.take(), part) {
            (Some(State::Copied(frame)), Some(part)) => append(frame, part.bytes(), pool),
            (None, Some(part)) => pool.take_copy(part.bytes()).map_or(State::Lost, State::Copied),
            (Some(State::Copied(frame)), None) => {
                pool.recycle(frame);
                State::Lost
            }
            (Some(State::Lost) | None, _) => State::Lost,
        };
        match state {
            State::Copied(frame) if is_last => Gathered::Whole(frame),
            State::Lost if is_last => Gathered::Lost,
            state => {
                self.0 = Some(state);
                Gathered::Part
            }
        }
    }
}

fn append(mut frame: Frame, part: &[u8], pool: &mut Pool) -> State {
    let start = frame.len();
    if !frame.resize(start + part.len()) {
        pool.recycle(frame);
        return State::Lost;
    }
    frame.bytes_mut()[start..].copy_from_slice(part);
    State::Copied(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(gathered: Gathered) -> Option<Frame> {
        match gathered {
            Gathered::Whole(frame) => Some(frame),
            _ => None,
        }
    }

    #[test]
    fn chunks_become_one_frame_and_what_cannot_is_lost_with_all_its_chunks() {
        let (mut chunks, mut pool) = (Pool::new(1), Pool::new(1));
        let mut gathering = Gathering::default();
        let part = chunks.take_copy(&[7; 900]).unwrap();
        for lost in [false, true] {
            assert!(matches!(gathering.add(Some(&part), false, &mut pool), Gathered::Part));
            assert!(gathering.has_begun());
            assert!(matches!(gathering.add(Some(&part), lost, &mut pool), Gathered::Part) != lost);
            if !lost {
                // A third chunk exceeds the buffer.
                assert!(matches!(gathering.add(Some(&part), true, &mut pool), Gathered::Lost));
                assert_eq!(pool.available(), 1);
            }
            assert!(!gathering.has_begun());
        }
        for parts in [[None, Some(&part)], [Some(&part), None]] {
            assert!(matches!(gathering.add(parts[0], false, &mut pool), Gathered::Part));
            assert!(matches!(gathering.add(parts[1], true, &mut pool), Gathered::Lost));
            assert_eq!(pool.available(), 1, "no buffer is held for a frame that is lost");
        }
        assert!(matches!(gathering.add(Some(&part), false, &mut pool), Gathered::Part));
        let frame = whole(gathering.add(Some(&part), true, &mut pool)).unwrap();
        assert_eq!(frame.bytes(), [7; 1800]);
        assert!(matches!(gathering.add(Some(&part), false, &mut pool), Gathered::Part), "no buffer is free");
        assert!(matches!(gathering.add(Some(&part), true, &mut pool), Gathered::Lost));
    }
}
