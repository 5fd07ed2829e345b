//! An interface that records its frames as they pass.

use core::cell::Cell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::channel::ChannelId;
use evenkeel_core::demux::Change;
use evenkeel_core::drop::Reason;
use evenkeel_core::frame::{Frame, Metadata, Pool, PoolLimit};
use evenkeel_core::interface::{
    Arrived, Burst, Demultiplexer, Effort, Interface, Opened, Properties, RxCounters, RxQueue, Seen, TxQueue,
};
use evenkeel_core::offload::Offload;
use evenkeel_core::refuser::Refuser;
use evenkeel_core::tcp::KnownEnds;
use evenkeel_core::wire::IpAddress;

use super::dump::Dump;
use super::encode::{Direction, Totals};
use crate::clock::Clock;
use crate::device::{Device, DeviceInfo};
use crate::error::LinkError;

/// Any interface, with what is taken from it and handed to it written to a pcapng file.
///
/// The file is completed when this is dropped. If it cannot be written any more (a full disk), recording ends
/// and the interface goes on; the [`Recording`] knows.
#[derive(Debug)]
pub struct Recorded<I: Interface + ?Sized> {
    recording: Recording,
    /// The ring that was last asked for.
    current: Cell<usize>,
    /// Frames at the front of what is to be sent that were recorded when they were handed over before.
    on_tape: usize,
    inner: Box<I>,
}

/// A handle to the progress of a recording. All clones share one state.
#[derive(Debug, Clone)]
pub struct Recording {
    tape: Arc<Mutex<Tape>>,
    path: PathBuf,
}

#[derive(Debug)]
struct Tape {
    dump: Dump<BufWriter<File>>,
    clock: Clock,
    begin: u64,
    received: u64,
    recorded: u64,
    failure: Option<io::Error>,
}

impl<I: Interface + ?Sized> Recorded<I> {
    /// Records `inner` to a new file at `path`, in place of what was there.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn new(inner: Box<I>, path: &Path, clock: Clock) -> Result<Self, LinkError> {
        let fail = |error: io::Error| LinkError::Capture {
            path: path.to_owned(),
            what: format!("cannot be written: {error}"),
        };
        let output = BufWriter::with_capacity(1 << 16, File::create(path).map_err(fail)?);
        let Properties { name, address, .. } = inner.properties();
        let dump = Dump::new(output, name, *address).map_err(fail)?;
        let begin = clock.wall_nanos(clock.now());
        let tape = Tape { dump, clock, begin, received: 0, recorded: 0, failure: None };
        let recording = Recording { tape: Arc::new(Mutex::new(tape)), path: path.to_owned() };
        Ok(Self { recording, current: Cell::new(0), on_tape: 0, inner })
    }

    /// Returns a handle to the recording, which stays valid after the device has been handed to a host.
    #[must_use]
    pub fn recording(&self) -> Recording {
        self.recording.clone()
    }
}

impl<I: Interface + ?Sized> Drop for Recorded<I> {
    fn drop(&mut self) {
        let inner = &self.inner;
        let missed = (0..inner.properties().queues).map(|index| inner.queue(index).missed()).sum();
        self.recording.tape().finish(missed);
    }
}

impl Recording {
    /// Frames recorded so far.
    ///
    /// # Errors
    /// The error that ended the recording early.
    pub fn frames(&self) -> Result<u64, LinkError> {
        let tape = self.tape();
        match &tape.failure {
            None => Ok(tape.recorded),
            Some(error) => Err(LinkError::Capture {
                path: self.path.clone(),
                what: format!("cannot be written: {error}"),
            }),
        }
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        // No holder of the lock panics, and a partly written tape is still usable.
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tape {
    fn record(&mut self, direction: Direction, frame: &[u8]) {
        self.received += u64::from(direction == Direction::Inbound);
        let time = self.clock.wall_nanos(self.clock.now());
        self.attempt(|tape| {
            tape.dump.frame(direction, time, frame)?;
            tape.recorded += 1;
            Ok(())
        });
    }

    fn finish(&mut self, missed: u64) {
        let end = self.clock.wall_nanos(self.clock.now());
        let totals = Totals {
            begin: self.begin,
            end,
            received: Some(self.received + missed),
            missed: Some(missed),
            ..Totals::default()
        };
        self.attempt(|tape| tape.dump.finish(totals).map(|_| ()));
    }

    fn attempt(&mut self, write: impl FnOnce(&mut Self) -> io::Result<()>) {
        if self.failure.is_none() {
            self.failure = write(self).err();
        }
    }
}

impl<I: Interface + ?Sized> TxQueue for Recorded<I> {
    fn transmit(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool) -> usize {
        // Before they are handed over, because afterwards they are gone. Those that stay come again.
        let new = frames.iter().skip(self.on_tape);
        new.for_each(|frame| self.recording.tape().record(Direction::Outbound, frame.bytes()));
        let count = self.inner.transmit(frames, pool);
        self.on_tape = frames.len();
        count
    }

    fn unreclaimed(&self) -> Option<usize> {
        self.inner.unreclaimed()
    }

    fn reclaim(&mut self, pool: &mut Pool, limit_pkts: usize) -> usize {
        self.inner.reclaim(pool, limit_pkts)
    }
}

impl<I: Interface + ?Sized> Interface for Recorded<I> {
    fn properties(&self) -> &Properties {
        self.inner.properties()
    }

    fn queue(&self, index: usize) -> &dyn RxQueue {
        self.current.set(index);
        self
    }

    fn queue_mut(&mut self, index: usize) -> &mut dyn RxQueue {
        self.current.set(index);
        self
    }

    fn attach(&mut self, pool: &mut Pool) -> Result<(), PoolLimit> {
        self.inner.attach(pool)
    }

    fn set_readable(&mut self, number: usize) {
        self.inner.set_readable(number);
    }

    fn set_addresses(&mut self, addresses: &mut dyn Iterator<Item = IpAddress>) {
        self.inner.set_addresses(addresses);
    }

    fn dropped(&self) -> Vec<(Reason, u64)> {
        self.inner.dropped()
    }

    /// Hands over none: the recording is to have all frames.
    fn refuser(&mut self) -> Option<Box<dyn Refuser>> {
        None
    }

    /// Hands over none: the recording is to have all frames.
    fn offload(&mut self) -> Option<Box<dyn Offload>> {
        None
    }

    fn demultiplexer(&mut self) -> Option<Box<dyn Demultiplexer>> {
        let inner = self.inner.demultiplexer()?;
        Some(Box::new(RecordedDemultiplexer { recording: self.recording.clone(), inner }))
    }
}

impl<I: Device + ?Sized> Device for Recorded<I> {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }
}

/// Records what is shown, whatever becomes of it.
struct Taped<'a> {
    tape: &'a mut Tape,
    burst: &'a mut dyn Burst,
}

impl Burst for Taped<'_> {
    fn pool(&mut self) -> &mut Pool {
        self.burst.pool()
    }

    fn records(&self) -> bool {
        true
    }

    fn see(&mut self, bytes: &[u8], metadata: &Metadata) -> Seen {
        self.tape.record(Direction::Inbound, bytes);
        self.burst.see(bytes, metadata)
    }

    fn take(&mut self, frame: Frame) -> bool {
        self.burst.take(frame)
    }
}

/// The ring that was asked for last.
impl<I: Interface + ?Sized> RxQueue for Recorded<I> {
    fn pending(&self) -> usize {
        self.inner.queue(self.current.get()).pending()
    }

    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize {
        let tape = &mut *self.recording.tape();
        self.inner.queue_mut(self.current.get()).receive(limit, &mut Taped { tape, burst })
    }

    fn arm(&mut self) -> bool {
        self.inner.queue_mut(self.current.get()).arm()
    }

    fn counters(&self, effort: Effort) -> Option<RxCounters> {
        self.inner.queue(self.current.get()).counters(effort)
    }
}

/// A demultiplexer whose rings are recorded.
#[derive(Debug)]
struct RecordedDemultiplexer {
    recording: Recording,
    inner: Box<dyn Demultiplexer>,
}

impl Demultiplexer for RecordedDemultiplexer {
    fn open(&mut self, channel: ChannelId, capacity_pkts: usize, pool: &mut Pool) -> Opened {
        match self.inner.open(channel, capacity_pkts, pool) {
            Opened::Own(inner) => {
                Opened::Own(Box::new(RecordedRing { recording: self.recording.clone(), inner }))
            }
            other => other,
        }
    }

    fn watch(&mut self, channel: ChannelId, arrived: Arrived) {
        self.inner.watch(channel, arrived);
    }

    fn close(&mut self, channel: ChannelId) {
        self.inner.close(channel);
    }

    fn update(&mut self, change: Change) {
        self.inner.update(change);
    }

    fn known_ends(&self) -> Option<Arc<dyn KnownEnds>> {
        self.inner.known_ends()
    }

    fn has_interrupt(&self) -> bool {
        self.inner.has_interrupt()
    }

    fn interrupt(&mut self) -> Option<ChannelId> {
        self.inner.interrupt()
    }
}

/// The ring of a channel.
#[derive(Debug)]
struct RecordedRing {
    recording: Recording,
    inner: Box<dyn RxQueue>,
}

/// The interface answers no SYN for such a ring: the recording is to have all handshakes.
impl RxQueue for RecordedRing {
    fn pending(&self) -> usize {
        self.inner.pending()
    }

    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize {
        self.inner.receive(limit, &mut Taped { tape: &mut self.recording.tape(), burst })
    }

    fn arm(&mut self) -> bool {
        self.inner.arm()
    }

    fn counters(&self, effort: Effort) -> Option<RxCounters> {
        self.inner.counters(effort)
    }
}
