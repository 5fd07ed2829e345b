//! The monitor's program, which takes frames from a capture queue and passes them to a sink.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel::raw::capture::{Capture, CaptureCounters, CaptureSocket, Captured};
use evenkeel::raw::device::LISTEN_BYTES;
use evenkeel::raw::error::BindError;
use evenkeel::raw::host::Host;
use evenkeel::raw::process::{Program, Step, System};
use evenkeel::raw::socket::SocketId;
use evenkeel::raw::time::{Clock, Duration, Instant};

/// A consumer of captured frames.
pub trait Sink: fmt::Debug + Send {
    /// Takes a frame that was seen at `time`, in nanoseconds since 1970. Returns false if the reader or the
    /// store of the output is too slow to take it now; the program then offers the frame again.
    fn take(&mut self, captured: &Captured<'_>, time: u64) -> bool;

    /// Discards a frame that the sink could not take.
    fn discard(&mut self, captured: &Captured<'_>);

    /// Returns whether the program should discard frames that the sink cannot take. It is true while the
    /// sink is blocked for an unknown time.
    fn is_stuck(&self) -> bool {
        false
    }

    /// Hands on the buffered output when no further frame waits. Returns whether any output is left.
    fn flush(&mut self) -> bool {
        false
    }

    /// Returns whether further frames are useless, because the reader of the output has gone.
    fn is_over(&self) -> bool {
        false
    }
}

/// A sink shared by the program and the thread that supervises it.
pub type Shared<S> = Arc<Mutex<S>>;

/// Locks the sink, or other state that the program shares.
pub fn shared<S: ?Sized>(sink: &Mutex<S>) -> MutexGuard<'_, S> {
    // A panic in a sink ends the process.
    sink.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Options for a monitor program.
#[derive(Debug)]
pub struct Options {
    /// The capture to open: its filter, lengths and limits.
    pub capture: Capture,
    /// The number of frames after which the program ends; `None` for no end.
    pub count: Option<u64>,
    /// Whether frames that the sink cannot take are discarded. Otherwise the queue fills, and with it the
    /// rings that also serve other programs on this host.
    pub discards: bool,
}

/// The counters of a monitor program. Any thread may read them while it runs.
#[derive(Debug, Default)]
pub struct Counters {
    taken: AtomicU64,
    bytes: AtomicU64,
    cut: AtomicU64,
    discarded: AtomicU64,
    ended: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue: Option<SocketId>,
    /// The queue's counters when the program ended, and the queue with it.
    last: CaptureCounters,
    refused: Option<BindError>,
}

impl Counters {
    /// Returns the number of frames that the sink has taken.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that these frames had on the wire.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of taken frames of which more was wanted than a block of the ring holds.
    #[must_use]
    pub fn cut(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }

    /// Returns the number of frames that were discarded because the sink could not take them.
    #[must_use]
    pub fn discarded(&self) -> u64 {
        self.discarded.load(Ordering::Relaxed)
    }

    /// Returns whether the capture queue is open. From then on no frame is missed.
    #[must_use]
    pub fn opened(&self) -> bool {
        shared(&self.state).queue.is_some()
    }

    /// Returns whether the program has ended.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Returns the counters of the capture queue, which is on `host`.
    #[must_use]
    pub fn counters(&self, host: &Host) -> CaptureCounters {
        let State { queue, last, .. } = *shared(&self.state);
        queue.and_then(|queue| host.capture_counters(queue)).filter(|_| !self.ended()).unwrap_or(last)
    }

    /// Returns why the program could not start; `None` if it could.
    #[must_use]
    pub fn refused(&self) -> Option<BindError> {
        shared(&self.state).refused
    }
}

/// The most frames taken in one step. Each step costs a lock and a reading of the counters, and other
/// programs wait no longer than one step.
const FRAMES_PER_STEP: usize = 64;

/// The interval at which a program without further frames flushes its sink.
const BATCH: Duration = Duration::from_millis(100);

/// The time after which a frame that the sink could not take is offered again.
const ASK_AGAIN: Duration = Duration::from_millis(1);

/// The program that passes captured frames to a sink.
pub struct Monitor<S> {
    capture: Option<Capture>,
    snaplen: usize,
    queue: Option<CaptureSocket>,
    count: u64,
    discards: bool,
    clock: Clock,
    sink: Shared<S>,
    tally: Arc<Counters>,
    next_flush: Instant,
}

impl<S> fmt::Debug for Monitor<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor")
            .field("queue", &self.queue)
            .field("tally", &self.tally)
            .finish_non_exhaustive()
    }
}

impl<S: Sink> Monitor<S> {
    /// Creates a monitor that hands frames to `sink` and counts them in `tally`.
    #[must_use]
    pub fn new(options: Options, clock: Clock, sink: Shared<S>, tally: Arc<Counters>) -> Self {
        Self {
            snaplen: options.capture.snaplen,
            capture: Some(options.capture),
            queue: None,
            count: options.count.unwrap_or(u64::MAX),
            discards: options.discards,
            clock,
            sink,
            tally,
            next_flush: Instant::ZERO,
        }
    }

    fn open(&mut self, system: &mut System<'_>) -> Step {
        let opened = self.capture.take().map(|capture| CaptureSocket::open(system, capture));
        match opened {
            Some(Ok(queue)) => {
                self.queue = Some(queue);
                shared(&self.tally.state).queue = system.socket(queue).ok();
                Step::Again
            }
            Some(Err(error)) => {
                shared(&self.tally.state).refused = Some(error);
                self.end()
            }
            None => self.end(),
        }
    }

    fn end(&self) -> Step {
        self.tally.ended.store(true, Ordering::Relaxed);
        Step::Exit
    }

    fn take(&mut self, queue: CaptureSocket, system: &mut System<'_>) -> Step {
        let sink = Arc::clone(&self.sink);
        let mut sink = shared(&sink);
        let now = system.now();
        for _ in 0..FRAMES_PER_STEP {
            let Ok(captured) = queue.front(system) else { return self.idle(queue, &mut *sink, now) };
            let time = match captured.stamp_nanos {
                0 => self.clock.wall_nanos(captured.at),
                stamp => stamp,
            };
            if sink.take(&captured, time) {
                add(&self.tally.taken, 1);
                add(&self.tally.bytes, captured.original_bytes as u64);
                add(&self.tally.cut, u64::from(is_cut(&captured, self.snaplen)));
            } else if sink.is_over() {
                return self.end();
            } else if self.discards || sink.is_stuck() {
                sink.discard(&captured);
                add(&self.tally.discarded, 1);
            } else {
                return Step::Sleep(now + ASK_AGAIN);
            }
            queue.pop(system);
            if self.tally.taken() >= self.count {
                return self.end();
            }
        }
        Step::Again
    }

    fn idle(&mut self, queue: CaptureSocket, sink: &mut S, now: Instant) -> Step {
        if sink.is_over() {
            return self.end();
        }
        if now >= self.next_flush {
            self.next_flush = now + BATCH;
            if !sink.flush() {
                return Step::Wait(queue.fd());
            }
        }
        Step::WaitUntil(queue.fd(), self.next_flush)
    }
}

impl<S: Sink> Program for Monitor<S> {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(queue) = self.queue else { return self.open(system) };
        let step = self.take(queue, system);
        if let (Step::Exit, Ok(counters)) = (step, queue.counters(system)) {
            shared(&self.tally.state).last = counters;
        }
        step
    }
}

/// Returns whether a block of the ring did not hold what was wanted of a frame.
fn is_cut(captured: &Captured<'_>, snaplen: usize) -> bool {
    let kept = captured.bytes.len();
    kept == LISTEN_BYTES && kept < captured.original_bytes.min(snaplen)
}

/// Adds to a counter. Only the program writes its counters, so the addition need not be one operation.
fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}
