//! The packet filter: copies of frames for packet monitors (TOCS 1997, section 9).
//!
//! A capture queue gets a copy of every frame that its filter wants, as far as it is to be kept. The filter
//! runs where frames are taken from the interface. A full queue drops copies, never the frames themselves,
//! and gives feedback as other queues do.
//!
//! Copies are bytes, not frames: a queue keeps them close together in memory of its own, so that what is kept
//! of a small frame costs as little as it is small.

use core::fmt;
use core::ops::Deref;
use std::collections::VecDeque;

use crate::byte_queue::{ByteQueue, Place};
use crate::frame::{BUFFER_BYTES, LinkType, Metadata};
use crate::id::{InterfaceId, ProcessId};
use crate::poll::Gate;
use crate::time::Instant;

/// Decides which frames are wanted.
pub trait Filter: fmt::Debug + Send {
    /// Returns how many bytes of the frame to keep, counted from its link-layer header; 0 if the frame is
    /// not wanted.
    fn keep(&mut self, frame: &Tapped<'_>) -> usize;
}

/// The settings of a capture queue.
#[derive(Debug)]
pub struct Capture {
    /// The filter that selects frames; `None` for all.
    pub filter: Option<Box<dyn Filter>>,
    /// The largest number of bytes kept of each frame, at most [`KEPT_BYTES_MAX`].
    pub snaplen: usize,
    /// Frames the queue holds. The paper's has 32. Its memory holds 64 MiB of them, or so many of ordinary
    /// size if that is more: a queue of large frames is full earlier.
    pub limit_pkts: usize,
    /// The interface whose frames are captured; `None` for all.
    pub interface: Option<InterfaceId>,
    /// Frames that are sent, too.
    pub sent_too: bool,
    /// Whether a queue that is nearly full pauses the rings that fill it. Rings that also serve others are
    /// not paused.
    pub feedback: bool,
}

/// The most that is kept of a frame: no capture file has larger ones (libpcap keeps at most half as much).
pub const KEPT_BYTES_MAX: usize = 512 * 1024;

/// The memory of a queue, unless that many frames of ordinary size need more.
const MEMORY_BYTES: usize = 64 << 20;

impl Default for Capture {
    fn default() -> Self {
        Self {
            filter: None,
            snaplen: usize::MAX,
            limit_pkts: 1024,
            interface: None,
            sent_too: false,
            feedback: true,
        }
    }
}

/// Counters of a capture queue, in frames. `seen >= accepted = delivered + dropped + waiting`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CaptureCounters {
    /// Shown to the filter.
    pub seen: u64,
    /// Wanted by it.
    pub accepted: u64,
    /// Of these, dropped because the queue was full, or no buffer free.
    pub dropped: u64,
    /// Handed to the program.
    pub delivered: u64,
}

/// A captured frame: the oldest one of its queue, where it lies.
#[derive(Debug, Clone, Copy)]
pub struct Captured<'a> {
    /// The frame's description: interface, time and lengths.
    pub seen: &'a Seen,
    /// The bytes that were kept of the frame, from its link-layer header on.
    pub bytes: &'a [u8],
}

/// The description of a captured frame.
#[derive(Debug)]
pub struct Seen {
    /// The interface at which the frame was seen.
    pub interface: InterfaceId,
    /// The type of header that the frame begins with.
    pub link_type: LinkType,
    /// Sent by this host, or by the operating system that it shares the interface with; not received.
    pub sent: bool,
    /// The time when the host took the frame from the interface, or put it into the interface's output
    /// queue.
    pub at: Instant,
    /// The device's own time stamp, in nanoseconds since 1970; 0 if it has none.
    pub stamp_nanos: u64,
    /// The frame's length in bytes before it was cut.
    pub original_bytes: usize,
    /// Frames that were wanted, and dropped since the one before.
    pub dropped_before: u64,
    place: Place,
}

impl Deref for Captured<'_> {
    type Target = Seen;

    fn deref(&self) -> &Seen {
        self.seen
    }
}

#[derive(Debug)]
pub(crate) struct CaptureQueue {
    pub(crate) owner: ProcessId,
    wanted: Capture,
    queue: VecDeque<Seen>,
    limit: usize,
    /// Feedback to the rings that fill it.
    gate: Gate,
    bytes: ByteQueue,
    counters: CaptureCounters,
    dropped_before: u64,
}

/// A frame that passes a tap, as filters see it.
#[derive(Debug, Clone, Copy)]
pub struct Tapped<'a> {
    /// The interface that the frame passes.
    pub interface: InterfaceId,
    /// The time when the host took the frame from the interface, or queued it for output.
    pub at: Instant,
    /// Whether this host sends it.
    pub sent: bool,
    /// The frame's bytes, from the link-layer header on, as far as the device has them.
    pub bytes: &'a [u8],
    /// The device's metadata of the frame.
    pub metadata: &'a Metadata,
}

impl Tapped<'_> {
    /// Returns the bytes that the frame had on the wire.
    #[must_use]
    pub const fn original_bytes(&self) -> usize {
        self.bytes.len() + self.metadata.cut_bytes as usize
    }

    /// Returns whether this host sends the frame, or the operating system with which it shares the interface.
    #[must_use]
    pub const fn is_outbound(&self) -> bool {
        self.sent || self.metadata.sent
    }
}

/// The result of offering a frame to a capture queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A frame of another interface, or of the other direction: no work for the filter.
    NotShown,
    NotWanted,
    Queued,
    Full,
}

impl CaptureQueue {
    pub(crate) fn new(owner: ProcessId, wanted: Capture, gate: Gate) -> Self {
        let limit = wanted.limit_pkts.max(1);
        let longest = wanted.snaplen.min(KEPT_BYTES_MAX);
        let memory = MEMORY_BYTES.max(ByteQueue::needs(limit, longest.min(BUFFER_BYTES)));
        let bytes = ByteQueue::new(limit, longest, memory);
        let (queue, counters) = (VecDeque::with_capacity(limit), CaptureCounters::default());
        Self { owner, wanted, queue, limit, gate, bytes, counters, dropped_before: 0 }
    }

    /// Shows a frame to the filter, and queues a copy if it is wanted.
    #[inline]
    pub(crate) fn see(&mut self, tapped: &Tapped<'_>) -> Outcome {
        let &Tapped { interface, at, bytes, metadata, .. } = tapped;
        let (sent, original_bytes) = (tapped.is_outbound(), tapped.original_bytes());
        let elsewhere = self.wanted.interface.is_some_and(|wanted| wanted != interface);
        if elsewhere || (sent && !self.wanted.sent_too) {
            return Outcome::NotShown;
        }
        self.counters.seen += 1;
        let keep = self.wanted.filter.as_mut().map_or(usize::MAX, |filter| filter.keep(tapped));
        if keep == 0 {
            return Outcome::NotWanted;
        }
        self.counters.accepted += 1;
        let kept = bytes.get(..keep.min(self.wanted.snaplen)).unwrap_or(bytes);
        let place = if self.queue.len() < self.limit { self.bytes.push(kept) } else { None };
        let Some(place) = place else {
            self.counters.dropped += 1;
            self.dropped_before += 1;
            return Outcome::Full;
        };
        self.queue.push_back(Seen {
            interface,
            link_type: metadata.link_type,
            sent,
            at,
            stamp_nanos: metadata.stamp_nanos,
            original_bytes,
            dropped_before: core::mem::take(&mut self.dropped_before),
            place,
        });
        Outcome::Queued
    }

    /// Returns the oldest frame of the queue.
    #[inline]
    pub(crate) fn front(&self) -> Option<Captured<'_>> {
        let seen = self.queue.front()?;
        Some(Captured { seen, bytes: self.bytes.get(seen.place) })
    }

    /// Removes the oldest frame. Returns whether input may resume now that it is gone; `None` if there was
    /// none.
    pub(crate) fn pop(&mut self) -> Option<bool> {
        let place = self.queue.pop_front()?.place;
        self.bytes.pop(place);
        self.counters.delivered += 1;
        Some(self.gate.on_dequeue(self.occupancy()))
    }

    /// Frames that wait, or as many as their bytes would be if each had its equal share of the memory: a
    /// queue that is full of bytes is full.
    #[inline]
    fn occupancy(&self) -> usize {
        self.queue.len().max(self.bytes.occupancy())
    }

    /// Returns the queue's watermarks, and its length in frames: for the caller to report an enqueue or the
    /// attempt.
    pub(crate) fn gate(&mut self) -> (&mut Gate, usize) {
        let occupancy = self.occupancy();
        (&mut self.gate, occupancy)
    }

    pub(crate) fn filled_percent(&self) -> u8 {
        self.gate.filled_percent(self.occupancy())
    }

    pub(crate) fn reopen(&mut self) -> bool {
        self.gate.reopen(self.occupancy())
    }

    /// Returns the number of frames that wait.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn counters(&self) -> CaptureCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{Feedback, SourceId, Sources};

    /// Large frames fill the memory long before the queue has its limit of frames; the rings are paused
    /// then.
    #[test]
    fn a_queue_that_is_full_of_bytes_gives_feedback() {
        const LIMIT: usize = 1_000;
        let (gate, sources) = (Gate::new(&Feedback::default(), LIMIT), Sources::one(SourceId(0)));
        let wanted = Capture { limit_pkts: LIMIT, ..Capture::default() };
        let mut queue = CaptureQueue::new(ProcessId(0), wanted, gate);
        let frame = vec![7; KEPT_BYTES_MAX];
        let tapped = Tapped {
            interface: InterfaceId(0),
            at: Instant::ZERO,
            sent: false,
            bytes: &frame,
            metadata: &Metadata::NONE,
        };
        let stopped_at = (1..LIMIT).find(|_| {
            assert_eq!(queue.see(&tapped), Outcome::Queued);
            let (gate, waiting) = queue.gate();
            gate.on_enqueue(waiting, sources).is_some()
        });
        assert_eq!(stopped_at, Some(96), "three quarters of 64 MiB in pieces of 512 KiB");
        assert_eq!(queue.front().map(|captured| captured.bytes.len()), Some(KEPT_BYTES_MAX), "whole");
        let resumed_at = (1..LIMIT).find(|_| queue.pop() == Some(true));
        assert_eq!((resumed_at, queue.counters().dropped), (Some(64), 0), "down to a quarter");
    }
}
