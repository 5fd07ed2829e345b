//! The program: takes frames from a capture queue and hands them to a sink.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::capture::{Capture, CaptureCounters, Captured};
use evenkeel_core::host::{Host, System};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::socket::{BindError, Fd, SocketId};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_link::{Clock, LISTEN_BYTES};

/// What is made of captured frames.
pub trait Sink: fmt::Debug + Send {
    /// Takes a frame that was seen at `time`, in nanoseconds since 1970. False if it cannot now, because
    /// whoever reads or stores what it makes is slow; it is offered again then.
    fn take(&mut self, captured: &Captured<'_>, time: u64) -> bool;

    /// Gives up a frame that could not be taken.
    fn discard(&mut self, captured: &Captured<'_>);

    /// Whether frames that cannot be taken are to be discarded, and not waited for: it is not known how long
    /// that would be.
    fn is_stuck(&self) -> bool {
        false
    }

    /// Hands on what it has gathered: there is nothing more at the moment. Says whether anything is left.
    fn flush(&mut self) -> bool {
        false
    }

    /// Whether there is no point in going on: nobody is there to see it.
    fn is_over(&self) -> bool {
        false
    }
}

/// A sink that the program and whoever looks after it share.
pub type Shared<S> = Arc<Mutex<S>>;

/// The sink, for a moment.
pub fn shared<S: ?Sized>(sink: &Mutex<S>) -> MutexGuard<'_, S> {
    // A sink that panicked takes the process with it.
    sink.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a program monitors.
#[derive(Debug)]
pub struct Options {
    /// What to capture.
    pub capture: Capture,
    /// Frames after which it ends.
    pub count: Option<u64>,
    /// Discard what the sink cannot take, instead of letting the queue fill: others on this host are served
    /// from the same rings.
    pub discards: bool,
}

/// What a monitor has done; may be read from anywhere while it runs.
#[derive(Debug, Default)]
pub struct Tally {
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

impl Tally {
    /// Frames that the sink has taken.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Bytes that these had on the wire.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Frames taken of which more was wanted than a block of the ring holds.
    #[must_use]
    pub fn cut(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }

    /// Frames that the sink could not take, and that were not waited for.
    #[must_use]
    pub fn discarded(&self) -> u64 {
        self.discarded.load(Ordering::Relaxed)
    }

    /// Whether the capture queue is open: from then on no frame is missed.
    #[must_use]
    pub fn opened(&self) -> bool {
        shared(&self.state).queue.is_some()
    }

    /// Whether the program has ended.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// The counters of the queue, which is on `host`.
    #[must_use]
    pub fn counters(&self, host: &Host) -> CaptureCounters {
        let State { queue, last, .. } = *shared(&self.state);
        queue.and_then(|queue| host.capture_counters(queue)).filter(|_| !self.ended()).unwrap_or(last)
    }

    /// Why the program could not start, if it could not.
    #[must_use]
    pub fn refused(&self) -> Option<BindError> {
        shared(&self.state).refused
    }
}

/// Frames taken in one step at most: a lock and a look at the counters for each step, and others wait no
/// longer than that.
const FRAMES_PER_STEP: usize = 64;

/// How long frames are gathered, if there is nothing more to do, before they are handed on.
const GATHER: Duration = Duration::from_millis(100);

/// When a sink that could not take a frame is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(1);

/// The program.
pub struct Monitor<S> {
    capture: Option<Capture>,
    snaplen: usize,
    queue: Option<Fd>,
    count: u64,
    discards: bool,
    clock: Clock,
    sink: Shared<S>,
    tally: Arc<Tally>,
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
    /// A monitor that hands frames to `sink`, and tells `tally` what it does.
    #[must_use]
    pub fn new(options: Options, clock: Clock, sink: Shared<S>, tally: Arc<Tally>) -> Self {
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
        let opened = self.capture.take().map(|capture| system.open_capture(capture));
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

    fn take(&mut self, queue: Fd, system: &mut System<'_>) -> Step {
        let sink = Arc::clone(&self.sink);
        let mut sink = shared(&sink);
        let now = system.now();
        for _ in 0..FRAMES_PER_STEP {
            let Ok(captured) = system.captured(queue) else { return self.idle(queue, &mut *sink, now) };
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
            system.pass_captured(queue);
            if self.tally.taken() >= self.count {
                return self.end();
            }
        }
        Step::Again
    }

    fn idle(&mut self, queue: Fd, sink: &mut S, now: Instant) -> Step {
        if sink.is_over() {
            return self.end();
        }
        if now >= self.next_flush {
            self.next_flush = now + GATHER;
            if !sink.flush() {
                return Step::Wait(queue);
            }
        }
        Step::WaitUntil(queue, self.next_flush)
    }
}

impl<S: Sink> Program for Monitor<S> {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(queue) = self.queue else { return self.open(system) };
        let step = self.take(queue, system);
        if let (Step::Exit, Ok(counters)) = (step, system.capture_counters(queue)) {
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

/// Only the program writes its counters, so that an addition need not be one operation.
fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}
