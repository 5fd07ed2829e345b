//! The ends between which the host has connections, for the XDP program.
//!
//! The program drops segments that bring a wrong cookie to a listener, but none of a connection. Not every
//! connection is in its tables: there are half-open ones, those in TIME-WAIT, and those without a ring of
//! their own. So the host counts all of them by the hash of their ends, in memory that both share. Two that
//! have a cell in common protect each other's segments, and what a flood sends there.

use core::sync::atomic::{AtomicU16, Ordering};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use evenkeel_core::tcp::KnownEnds;

use crate::received::Memory as _;
use crate::sys::Mapping;

/// The cells. With as many connections in TIME-WAIT as a host may have, a fifth of the cells is in use.
const CELLS: usize = 1 << 19;
/// A number of connections at which a cell stays in use for good.
const MANY: u16 = u16::MAX;

/// A cell: `struct known` of `cookies.h`.
#[derive(Debug)]
#[repr(C)]
struct Cell {
    /// The connections of the host.
    connections: AtomicU16,
    /// The time at which the program last let a segment pass, in its own units.
    passed: AtomicU16,
}

/// The map `known`, in memory.
#[derive(Debug)]
pub(super) struct Known(Mapping);

// SAFETY: the map's cells are accessed by atomic loads and stores only.
unsafe impl Sync for Known {}

impl Known {
    /// Maps the memory of the map `known`.
    pub(super) fn map(known: BorrowedFd<'_>) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self(Mapping::at(known, 0, CELLS * size_of::<Cell>())?)))
    }

    fn connections(&self, hash: u32) -> &AtomicU16 {
        let at = hash as usize % CELLS;
        // SAFETY: the mapping has as many cells and begins at a page. All its bytes are initialized, and both
        // sides access them only by single loads and stores.
        let cell = unsafe { &*self.0.base().cast::<Cell>().add(at) };
        &cell.connections
    }

    /// Changes the number of connections of a cell. No other thread does so at the same time.
    fn change(&self, hash: u32, change: impl FnOnce(u16) -> u16) {
        let connections = self.connections(hash);
        let now = connections.load(Ordering::Relaxed);
        if now < MANY {
            connections.store(change(now), Ordering::Release);
        }
    }
}

impl KnownEnds for Known {
    fn add(&self, hash: u32) {
        self.change(hash, |now| now + 1);
    }

    fn remove(&self, hash: u32) {
        self.change(hash, |now| now.saturating_sub(1));
    }
}
