//! The log of packets that rules with `log` decided about: a pcapng file in which each packet's comment is
//! the rule. A separate thread writes it.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use evenkeel::raw::capture::{Described, Direction, Output, Packet, Target, Writing, encode};
use evenkeel::raw::device::LinkError;
use evenkeel::raw::screen::Transit;
use evenkeel::raw::time::{Clock, Duration, Instant};
use schemars::JsonSchema;
use serde::Serialize;

/// Bytes kept of each packet: headers, and a little of the payload.
const SNAPLEN: usize = 160;

/// The time that the end of a log waits for a disk that accepts nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// A log of packets. The disk may be slow or full: packets that do not fit are counted as lost, and no
/// thread waits.
#[derive(Debug)]
pub struct Log {
    /// The output; `None` once the log has ended.
    output: Option<Output>,
    clock: Clock,
    handle: LogHandle,
    /// The number of packets lost since the last entry.
    gap: u64,
}

/// A cloneable log to which the screening processes of several hosts write. It ends with the last handle.
///
/// A writer locks it while the first bytes of a packet are copied.
#[derive(Debug, Clone)]
pub struct SharedLog(Arc<Mutex<Log>>);

impl SharedLog {
    /// Makes a log that several screening processes can share.
    #[must_use]
    pub fn new(log: Log) -> Self {
        Self(Arc::new(Mutex::new(log)))
    }

    pub(super) fn record(&self, transit: &Transit, now: Instant, remark: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).record(transit, now, remark);
    }

    pub(super) fn hand_over(&self) {
        match self.0.try_lock() {
            Ok(mut log) => log.hand_over(),
            Err(TryLockError::Poisoned(log)) => log.into_inner().hand_over(),
            // The process that holds the lock passes the buffer on when it has nothing else to do.
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

/// A cheap, cloneable handle to the state of a log.
#[derive(Debug, Clone)]
pub struct LogHandle {
    writing: Writing,
    file: String,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    recorded: AtomicU64,
    lost: AtomicU64,
}

/// A log's state at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Logged {
    /// The file.
    pub file: String,
    /// Packets that the log recorded.
    pub packets: u64,
    /// Packets for which the log had no room.
    pub lost: u64,
    /// Packets that are in the file.
    pub written: u64,
    /// The reason why nothing is written at present; `None` if writing works.
    pub failure: Option<String>,
    /// The reason of the last failure, even if writing works again.
    pub last_failure: Option<String>,
}

impl Log {
    /// Begins a file about links of these names, in the order of their interfaces.
    ///
    /// # Errors
    /// [`LinkError`]: the file cannot be created.
    pub fn open(path: &Path, links: &[String], clock: Clock) -> Result<Self, LinkError> {
        let described =
            |name: &String| Described { name: name.clone(), snaplen: SNAPLEN as u32, ..Described::default() };
        let mut header = Vec::new();
        encode::begin(&mut header, "", &links.iter().map(described).collect::<Vec<_>>());
        let now = clock.wall_nanos(clock.now());
        let output = Output::open(Target::File(path.to_owned()), header, now)?;
        let writing = output.writing();
        let handle = LogHandle { writing, file: path.display().to_string(), counts: Arc::default() };
        Ok(Self { output: Some(output), clock, handle, gap: 0 })
    }

    /// Returns a handle to the state of the log.
    #[must_use]
    pub fn handle(&self) -> LogHandle {
        self.handle.clone()
    }

    /// Records a packet and a remark about it, unless there is no room.
    fn record(&mut self, transit: &Transit, now: Instant, remark: &str) {
        let frame = transit.frame();
        let bytes = frame.get(..SNAPLEN).unwrap_or(frame);
        let Some(output) = &mut self.output else { return };
        if !output.has_room(bytes.len() + encode::comment_overhead(remark)) {
            self.gap += 1;
            return add(&self.handle.counts.lost);
        }
        output.packet(&Packet {
            interface: transit.interface().0.into(),
            direction: Direction::Inbound,
            time: self.clock.wall_nanos(now),
            original_bytes: frame.len() as u32,
            dropped_before: core::mem::take(&mut self.gap),
            bytes,
            comment: remark,
        });
        add(&self.handle.counts.recorded);
    }

    /// Hands all recorded packets to the writer. Called when there is nothing else to do.
    fn hand_over(&mut self) {
        if let Some(output) = &mut self.output {
            output.flush();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Some(output) = self.output.take() {
            // The handle reports packets that could not be written: taken, and not written.
            let _ = output.finish(PATIENCE, |_| {});
        }
    }
}

impl LogHandle {
    /// Returns the state of the log at this moment.
    #[must_use]
    pub fn state(&self) -> Logged {
        Logged {
            file: self.file.clone(),
            packets: self.counts.recorded.load(Ordering::Relaxed),
            lost: self.counts.lost.load(Ordering::Relaxed),
            written: self.writing.packets(),
            failure: self.writing.failure(),
            last_failure: self.writing.last_failure(),
        }
    }
}

/// Adds one to a counter. Only the holder of the log counts, so the addition need not be one atomic
/// operation.
fn add(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
