//! The packet filter: copies of frames for packet monitors (TOCS 1997, section 9).
//!
//! A capture queue gets a copy of every frame that its filter wants, as far as it is to be kept. The filter runs where frames are taken from
//! the interface. A full queue drops copies, never the frames themselves, and gives feedback as other queues do.

use core::fmt;

use crate::frame::{Frame, Pool};
use crate::process::ProcessId;
use crate::socket::Queue;
use crate::stack::InterfaceId;
use crate::time::Instant;

/// Decides which frames are wanted.
pub trait Filter: fmt::Debug + Send {
    /// How many octets of the frame, from the Ethernet header on, are to be kept; 0 if it is not wanted at all. On the wire it had
    /// `original_bytes`.
    fn keep(&mut self, frame: &[u8], original_bytes: usize) -> usize;
}

/// What to capture.
#[derive(Debug)]
pub struct Capture {
    /// Which frames; `None` for all.
    pub filter: Option<Box<dyn Filter>>,
    /// Octets kept of each frame at most. A frame buffer holds 1920.
    pub snaplen: usize,
    /// Frames the queue holds. The paper's has 32.
    pub limit_pkts: usize,
    /// On one interface; `None` for all.
    pub interface: Option<InterfaceId>,
    /// Frames that are sent, too.
    pub sent_too: bool,
    /// Whether a queue that is nearly full holds back the rings that fill it. Not where these serve others too.
    pub feedback: bool,
}

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

/// A captured frame.
#[derive(Debug)]
pub struct Captured {
    /// Where it was seen.
    pub interface: InterfaceId,
    /// When it was taken from the interface, or put into its output queue.
    pub at: Instant,
    /// The device's own time stamp, in nanoseconds since 1970, if it has one.
    pub stamp_nanos: Option<u64>,
    /// Sent by this host, or by the operating system that it shares the interface with; not received.
    pub sent: bool,
    /// Its length before it was cut.
    pub original_bytes: usize,
    /// Frames that were wanted, and dropped since the one before.
    pub dropped_before: u64,
    pub(crate) kept: Frame,
}

impl Captured {
    /// What was kept of it, from the Ethernet header on.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.kept.bytes()
    }
}

#[derive(Debug)]
pub(crate) struct CaptureQueue {
    pub(crate) owner: ProcessId,
    pub(crate) wanted: Capture,
    pub(crate) queue: Queue<Captured>,
    pub(crate) counters: CaptureCounters,
    dropped_before: u64,
}

/// A sighting of a frame.
#[derive(Debug)]
pub(crate) struct Sighting<'a> {
    pub(crate) interface: InterfaceId,
    pub(crate) at: Instant,
    pub(crate) sent: bool,
    pub(crate) frame: Shown<'a>,
}

/// A frame as it is shown to a capture queue.
#[derive(Debug)]
pub(crate) enum Shown<'a> {
    /// To be copied, if it is wanted.
    ToCopy(&'a Frame),
    /// To be exchanged for an empty one, if it is wanted: nobody else needs what is in it.
    ToKeep(&'a mut Frame),
}

impl Shown<'_> {
    fn frame(&self) -> &Frame {
        match self {
            Self::ToCopy(frame) => frame,
            Self::ToKeep(frame) => frame,
        }
    }

    /// The first `len` octets, in a buffer of their own; `None` if none is free.
    fn keep(self, len: usize, pool: &mut Pool) -> Option<Frame> {
        match self {
            Self::ToCopy(frame) => pool.take_copy(frame.bytes().get(..len)?),
            Self::ToKeep(frame) => {
                let mut kept = core::mem::replace(frame, pool.take()?);
                // It is no longer than it was.
                kept.resize(len).then_some(kept)
            }
        }
    }
}

/// What became of a sighting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// On another interface, or in the other direction: no work for the filter.
    NotShown,
    NotWanted,
    /// Queued; this process is to be woken.
    Queued(Option<ProcessId>),
    Full,
    NoBuffer,
}

impl CaptureQueue {
    pub(crate) fn new(owner: ProcessId, wanted: Capture, queue: Queue<Captured>) -> Self {
        Self { owner, wanted, queue, counters: CaptureCounters::default(), dropped_before: 0 }
    }

    /// Shows a frame to the filter, and queues a copy, or the frame itself, if it is wanted.
    pub(crate) fn see(&mut self, sighting: Sighting<'_>, pool: &mut Pool) -> Outcome {
        let Sighting { interface, at, sent, frame } = sighting;
        let noted = frame.frame().noted();
        let sent = sent || noted.sent;
        let elsewhere = self.wanted.interface.is_some_and(|wanted| wanted != interface);
        if elsewhere || (sent && !self.wanted.sent_too) {
            return Outcome::NotShown;
        }
        self.counters.seen += 1;
        let bytes = frame.frame().bytes();
        let original_bytes = bytes.len() + noted.cut_bytes as usize;
        let keep =
            self.wanted.filter.as_mut().map_or(usize::MAX, |filter| filter.keep(bytes, original_bytes));
        if keep == 0 {
            return Outcome::NotWanted;
        }
        self.counters.accepted += 1;
        if !self.queue.has_room() {
            self.count_dropped();
            return Outcome::Full;
        }
        let len = keep.min(self.wanted.snaplen).min(bytes.len());
        let Some(kept) = frame.keep(len, pool) else {
            self.count_dropped();
            return Outcome::NoBuffer;
        };
        Outcome::Queued(self.queue.push(Captured {
            interface,
            at,
            stamp_nanos: Some(noted.stamp_nanos).filter(|&stamp| stamp > 0),
            sent,
            original_bytes,
            dropped_before: core::mem::take(&mut self.dropped_before),
            kept,
        }))
    }

    fn count_dropped(&mut self) {
        self.counters.dropped += 1;
        self.dropped_before += 1;
    }
}
