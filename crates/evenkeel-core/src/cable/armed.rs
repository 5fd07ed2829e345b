//! The interrupt of a receive ring of a cable: its receiver asks for it, its sender raises it once.
//!
//! `evenkeel-link` has a test that runs this very file with loom's atomics, in all orders that the two
//! threads can come in (`tests/interleavings.rs`).

use crate::atomic::{AtomicBool, Ordering, fence};

/// A flag that is set while the receiver wants an interrupt.
#[derive(Debug, Default)]
pub(crate) struct Armed(AtomicBool);

impl Armed {
    /// Requests an interrupt for the receiver at the next frame. Returns true if a frame `is_waiting` by
    /// then: no interrupt reports that one.
    pub(crate) fn arm(&self, is_waiting: impl FnOnce() -> bool) -> bool {
        self.0.store(true, Ordering::Relaxed);
        // Pairs with the fence of `published`: either this side sees the frame or the other sees the flag.
        fence(Ordering::SeqCst);
        let waiting = is_waiting();
        if waiting {
            self.0.store(false, Ordering::Relaxed);
        }
        waiting
    }

    /// Orders a sender's writes to rings before its check which of them want an
    /// [interrupt](Armed::interrupt).
    pub(crate) fn published() {
        fence(Ordering::SeqCst);
    }

    /// Returns whether the receiver has asked for an interrupt, and clears that request.
    pub(crate) fn interrupt(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn is_armed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
