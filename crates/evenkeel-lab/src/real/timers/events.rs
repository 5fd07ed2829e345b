//! Events at regular intervals next to a server, by each facility, and their records.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use evenkeel::raw::cpu;
use evenkeel::raw::device::StampedFrame;
use evenkeel::raw::tcp::rate_clock::{RateClock, Spacing};
use evenkeel::raw::time::{Duration, Instant, SignalTimer, TimerFd};
use evenkeel::{Engine, SoftHandler};
use evenkeel_apps::latency::Histogram;
use evenkeel_apps::measure::settle_on;

/// The interval at which unpaced packets leave: all packets of an interval leave together.
const TOGETHER: Duration = Duration::from_millis(1);

/// The action of a handler at each event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Handling {
    /// Records the lateness of the event, and does nothing else.
    Null,
    /// Sends a packet.
    Send,
}

impl Handling {
    /// Returns the handling that the experiment with this id measures.
    pub(in super::super) fn of(id: &str) -> Option<Self> {
        match id {
            "t00-tab1" => Some(Self::Null),
            "t00-tab7" => Some(Self::Send),
            _ => None,
        }
    }

    /// Describes the conditions in one line, for a report.
    pub(in super::super) const fn conditions(self) -> &'static str {
        match self {
            Self::Null => "a saturated UDP echo service",
            Self::Send => "a saturated UDP echo service, packets of 1500 bytes sent beside it",
        }
    }

    pub(super) fn facilities(self) -> &'static [Facility] {
        match self {
            Self::Null => &Facility::ALL[..4],
            Self::Send => &Facility::ALL,
        }
    }
}

/// The facility that calls the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Facility {
    Soft,
    TimerFd,
    Signal,
    TokioSleep,
    /// No facility: as many frames leave together every millisecond. This measures the cost of sending alone.
    Together,
}

impl Facility {
    pub(super) const ALL: [Self; 5] =
        [Self::Soft, Self::TimerFd, Self::Signal, Self::TokioSleep, Self::Together];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Soft => "soft timers",
            Self::TimerFd => "timerfd",
            Self::Signal => "POSIX timer",
            Self::TokioSleep => "tokio sleep",
            Self::Together => "sent together",
        }
    }
}

/// The lateness of events, as their handlers record it.
#[derive(Debug, Clone, Default)]
pub(super) struct Recorded(Arc<Mutex<Histogram>>);

impl Recorded {
    fn record(&self, late: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).record(late);
    }

    fn events(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count()
    }

    fn late_us(&self) -> [f64; 2] {
        let recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        [50.0, 99.0]
            .map(|percent| recorded.percentile(percent).map_or(f64::NAN, |late| late.as_secs_f64() * 1e6))
    }
}

/// A handler of events. It records its lateness, and sends a frame if it has one.
struct Handler {
    recorded: Recorded,
    frame: Option<StampedFrame>,
}

impl Handler {
    fn call(&mut self, now: Instant, due: Instant) {
        self.recorded.record(now.since(due));
        if let Some(frame) = &mut self.frame {
            frame.send(now);
        }
    }
}

/// A switch that enables and disables events.
#[derive(Debug, Clone, Default)]
pub(super) struct Switch(Arc<AtomicBool>);

impl Switch {
    fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }
}

/// Events that happen while they are switched on.
pub(super) enum Events {
    /// Events of the engine, each of which schedules the next one.
    Soft {
        recorded: Recorded,
        on: Switch,
        first: SoftHandler,
    },
    Signal(SignalTimer),
    /// Events of a thread on this core.
    Thread {
        recorded: Recorded,
        on: Switch,
        over: Arc<AtomicBool>,
        thread: JoinHandle<()>,
    },
}

impl Events {
    /// Creates the events, disabled at first. Each event sends a frame, if there is one.
    pub(super) fn new(
        engine: &mut Engine,
        (facility, every): (Facility, Duration),
        frame: Option<StampedFrame>,
    ) -> io::Result<Self> {
        let (recorded, on, clock) = (Recorded::default(), Switch::default(), *engine.clock());
        let paced = frame.is_some();
        let handler = |frame| Handler { recorded: recorded.clone(), frame };
        Ok(match facility {
            Facility::Soft => {
                let mut handler = handler(frame);
                let first = if paced {
                    pace(engine, every, on.clone(), handler)
                } else {
                    chain(engine, every, on.clone(), move |now, due| handler.call(now, due))
                };
                Self::Soft { recorded, on, first }
            }
            Facility::Together => {
                let (mut handler, count) = (handler(frame), TOGETHER.as_nanos() / every.as_nanos());
                let call = move |now, due| (0..count).for_each(|_| handler.call(now, due));
                Self::Soft { first: chain(engine, TOGETHER, on.clone(), call), recorded, on }
            }
            Facility::Signal => {
                let timer = SignalTimer::every(every, clock, frame)?;
                timer.pause();
                Self::Signal(timer)
            }
            Facility::TimerFd => {
                let (mut handler, timer) = (handler(frame), TimerFd::every(every)?);
                let mut due = clock.now();
                Self::on_this_core(recorded, on, move || {
                    // The signal is for other timers. Expirations that were missed while it was off do not
                    // count as late.
                    due += every * u32::try_from(timer.wait().unwrap_or(0)).unwrap_or(u32::MAX);
                    handler.call(clock.now(), due);
                })
            }
            Facility::TokioSleep => {
                let mut handler = handler(frame);
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
                Self::on_this_core(recorded, on, move || {
                    let begin = clock.now();
                    runtime.block_on(async { tokio::time::sleep(every).await });
                    handler.call(clock.now(), begin + every);
                })
            }
        })
    }

    /// Calls `next` repeatedly on a thread that shares the core of the calling one.
    fn on_this_core(recorded: Recorded, on: Switch, mut next: impl FnMut() + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (is_over, is_on) = (Arc::clone(&over), on.clone());
        let thread = thread::spawn(move || {
            settle_on(cpu::cpus().get(1));
            // The kernel may otherwise wake it 50 µs late, to save a little power.
            let _ = cpu::set_timer_slack(Duration::from_nanos(1));
            while !is_over.load(Ordering::Relaxed) {
                if is_on.is_on() {
                    next();
                } else {
                    thread::park();
                }
            }
        });
        Self::Thread { recorded, on, over, thread }
    }

    /// Enables or disables the events.
    pub(super) fn turn(&self, engine: &mut Engine, to: bool) {
        match self {
            Self::Signal(timer) if to => timer.resume(),
            Self::Signal(timer) => timer.pause(),
            Self::Soft { on, first, .. } => {
                on.set(to);
                if to {
                    let now = engine.clock().now();
                    engine.soft_events().schedule(now, Duration::ZERO, *first);
                }
            }
            Self::Thread { on, thread, .. } => {
                on.set(to);
                thread.thread().unpark();
            }
        }
    }

    /// Ends the events for good.
    pub(super) fn end(self) {
        if let Self::Thread { on, over, thread, .. } = self {
            over.store(true, Ordering::Relaxed);
            on.set(false);
            thread.thread().unpark();
            let _ = thread.join();
        }
    }

    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Soft { recorded, .. } | Self::Thread { recorded, .. } => recorded.events(),
            Self::Signal(timer) => timer.called(),
        }
    }

    /// Returns the median and the 99th percentile of lateness, in microseconds.
    pub(super) fn late_us(&self) -> [f64; 2] {
        match self {
            Self::Soft { recorded, .. } | Self::Thread { recorded, .. } => recorded.late_us(),
            Self::Signal(timer) => {
                let calls: Vec<_> = timer.lateness().collect();
                let all: u64 = calls.iter().map(|(_, calls)| calls).sum();
                [0.5, 0.99].map(|share| {
                    let (mut below, rank) = (0, (all as f64 * share) as u64);
                    let at = calls.iter().find(|(_, calls)| {
                        below += calls;
                        below > rank
                    });
                    at.map_or(f64::NAN, |(late, _)| late.as_secs_f64() * 1e6)
                })
            }
        }
    }
}

/// Schedules a chain of events. Each is due a fixed time after the call of the previous one.
fn chain(
    engine: &mut Engine,
    every: Duration,
    on: Switch,
    mut call: impl FnMut(Instant, Instant) + Send + 'static,
) -> SoftHandler {
    let mut due = None;
    engine.soft_events().add_handler(move |_, now| {
        let before = due.take();
        if !on.is_on() {
            return None;
        }
        if let Some(due) = before {
            assert!(now >= due, "a soft event came early");
            call(now, due);
        }
        due = Some(now + every);
        Some(every)
    })
}

/// Paces packets with TCP's clock: late events are made up for by packets at half the interval.
fn pace(engine: &mut Engine, every: Duration, on: Switch, mut handler: Handler) -> SoftHandler {
    let spacing = Spacing { target: every, minimum: every / 2, credit: TOGETHER };
    let (mut clock, mut due) = (RateClock::new(), None);
    engine.soft_events().add_handler(move |_, now| {
        let before = due.take();
        if !on.is_on() {
            clock = RateClock::new();
            return None;
        }
        if let Some(due) = before {
            assert!(now >= due, "a soft event came early");
            handler.call(now, due);
        }
        clock.on_sent(spacing, now);
        clock.wait();
        let next = clock.release_time(now).unwrap_or(now);
        due = Some(next);
        Some(next.since(now))
    })
}
