//! Screening as a process of the host: by rules, or by a function of the user.

use core::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel::raw::error::BindError;
use evenkeel::raw::process::{Program, Step, System};
use evenkeel::raw::screen::{FlowScope, Screen, Screened, Transit, Verdict};
use evenkeel::raw::time::Instant;

/// The most packets judged in one step: between two steps other processes may run.
const PACKETS_PER_STEP: usize = 8;

/// A judge of packets that are to be forwarded.
///
/// Any `FnMut(&Transit) -> Verdict` is a screener:
///
/// ```
/// use evenkeel::raw::screen::{Transit, Verdict};
/// use evenkeel_apps::route::screen::{Report, Screener, Screening};
///
/// /// Refuses IPv4 packets with options.
/// fn no_options(transit: &Transit) -> Verdict {
///     match transit.packet().first() {
///         Some(0x46..=0x4f) => Verdict::Reject,
///         _ => Verdict::Pass,
///     }
/// }
///
/// let report = std::sync::Arc::new(Report::default());
/// let program = Screening::new(no_options, 32, report);
/// // host.spawn("screen", 0, Box::new(program));
/// # drop(program);
/// # fn is_screener(_: impl Screener) {}
/// # is_screener(no_options);
/// ```
///
/// A screener runs on the host's core: while it computes, nothing else runs there, and if it never returns,
/// the host stops. A function that may take long, or that waits for others, belongs on a thread of its own:
/// [`screen_on_thread`](super::screening_thread::screen_on_thread).
pub trait Screener: Send {
    /// Decides about one packet, which arrived at `now`, and may change it.
    fn screen(&mut self, screened: &mut Screened<'_>, now: Instant) -> Verdict;

    /// Turns to another opinion, if there is one: called between two packets. Returns the fields that verdicts
    /// about flows depend on, if [`Screened::settle`] is to be heard from now on; then all earlier verdicts are
    /// taken back.
    fn renew(&mut self) -> Option<FlowScope> {
        None
    }

    /// Called when no packet waits to be judged. Returns whether [`Screener::renew`] is to be called again, even
    /// if none comes.
    fn idle(&mut self) -> bool {
        false
    }
}

impl<F: FnMut(&Transit) -> Verdict + Send> Screener for F {
    fn screen(&mut self, screened: &mut Screened<'_>, _now: Instant) -> Verdict {
        self(screened.transit())
    }
}

/// The counters of screening, which any thread may read while it runs.
#[derive(Debug, Default)]
pub struct Report {
    opened: AtomicBool,
    passed: AtomicU64,
    dropped: AtomicU64,
    rejected: AtomicU64,
    refused: Mutex<Option<BindError>>,
}

impl Report {
    /// Returns whether the screening process has its queue.
    #[must_use]
    pub fn opened(&self) -> bool {
        self.opened.load(Ordering::Relaxed)
    }

    /// Returns the number of packets that were let through.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Returns the number of packets that were dropped silently.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Returns the number of packets that were dropped and whose senders were notified.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// Returns the number of all packets that were judged.
    #[must_use]
    pub fn judged(&self) -> u64 {
        self.passed() + self.dropped() + self.rejected()
    }

    /// Returns the error for which screening could not begin, if any.
    #[must_use]
    pub fn refused(&self) -> Option<BindError> {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self, verdict: Verdict) {
        let counter = match verdict {
            Verdict::Pass => &self.passed,
            Verdict::Drop => &self.dropped,
            Verdict::Reject | Verdict::Unreachable(_) | Verdict::Reset => &self.rejected,
        };
        // Only the program writes, so the addition need not be atomic.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(super) fn open(&self) {
        self.opened.store(true, Ordering::Relaxed);
    }

    pub(super) fn refuse(&self, error: BindError) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

/// The screening queue of a process, which it opens in its first step.
#[derive(Debug)]
pub(super) struct ScreenQueue {
    limit_pkts: usize,
    open: Option<Screen>,
}

impl ScreenQueue {
    pub(super) const fn new(limit_pkts: usize) -> Self {
        Self { limit_pkts, open: None }
    }

    /// Returns the queue. If it is not open yet, returns the step that opens it. Records the reason if it
    /// cannot be opened.
    pub(super) fn open(&mut self, system: &mut System<'_>, report: &Report) -> Result<Screen, Step> {
        if let Some(queue) = self.open {
            return Ok(queue);
        }
        match Screen::open(system, self.limit_pkts) {
            Ok(queue) => {
                self.open = Some(queue);
                report.open();
                Err(Step::Again)
            }
            Err(error) => {
                report.refuse(error);
                Err(Step::Exit)
            }
        }
    }
}

/// The screening program: it takes packets from the screening queue one by one, as `screend` did.
pub struct Screening<S> {
    screener: S,
    queue: ScreenQueue,
    report: Arc<Report>,
}

impl<S: Screener> Screening<S> {
    /// Creates a process that screens with `screener`, with a queue of `queue_pkts` in front of it. It counts
    /// in `report`.
    pub fn new(screener: S, queue_pkts: usize, report: Arc<Report>) -> Self {
        Self { screener, queue: ScreenQueue::new(queue_pkts), report }
    }
}

impl<S> fmt::Debug for Screening<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Screening").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl<S: Screener> Program for Screening<S> {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let queue = match self.queue.open(system, &self.report) {
            Ok(queue) => queue,
            Err(step) => return step,
        };
        let now = system.now();
        if let Some(scope) = self.screener.renew() {
            // The queue is open.
            let _ = queue.set_scope(system, scope);
        }
        for _ in 0..PACKETS_PER_STEP {
            let Self { screener, report, .. } = self;
            let judged = queue.decide_with(system, |screened| {
                let verdict = screener.screen(screened, now);
                report.count(verdict);
                verdict
            });
            if judged.is_err() {
                return if self.screener.idle() { Step::Again } else { Step::Wait(queue.fd()) };
            }
        }
        Step::Again
    }
}
