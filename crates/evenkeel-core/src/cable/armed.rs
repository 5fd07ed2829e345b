//! The interrupt of a receive ring of a cable: its receiver asks for it, its sender raises it once.
//!
//! `evenkeel-link` has a test that runs this very file with loom's atomics, in all orders that the two
//! threads can come in (`tests/interleavings.rs`).

use crate::atomic::{AtomicBool, Ordering, fence};

/// Set while the receiver wants an interrupt.
#[derive(Debug, Default)]
pub(crate) struct Armed(AtomicBool);

impl Armed {
    /// The receiver asks for an interrupt at the next frame. Returns true if one `is_waiting` by then: there
    /// will be none for it.
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

    /// The sender has put frames into rings, and is about to see which of them want an
    /// [interrupt](Armed::interrupt).
    pub(crate) fn published() {
        fence(Ordering::SeqCst);
    }

    /// Whether the receiver asked for an interrupt. That is fulfilled by asking.
    pub(crate) fn interrupt(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn is_armed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
