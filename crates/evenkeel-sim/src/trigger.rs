//! Trigger states of a simulated CPU for soft timers, where a handler can be called as a plain function. Also
//! interrupts of timers, for comparison and as the backing.
//!
//! Source: Aron and Druschel, "Soft timers: efficient microsecond software timer support for network
//! processing", ACM TOCS 18(3), 2000, sections 3 and 5.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use evenkeel_core::host::Level;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::work::{Work, WorkLog};

use crate::machine::Costs;

/// The activity of a CPU that brought it to a trigger state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A system call ends.
    SystemCall,
    /// A packet was handed to an interface.
    Output,
    /// A network interrupt ends, with its protocol input.
    Input,
    /// Other places in the network subsystem: timers of TCP, interrupts without frames.
    Others,
    /// An exception was handled, such as a page fault.
    Trap,
    /// The periodic interrupt of the system's clock ends: the backing.
    Clock,
    /// A turn of the idle loop ended.
    Idle,
}

impl Source {
    /// Returns the paper's name of the source.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SystemCall => "syscalls",
            Self::Output => "ip-output",
            Self::Input => "ip-intr",
            Self::Others => "tcpip-others",
            Self::Trap => "traps",
            Self::Clock => "clock",
            Self::Idle => "idle loop",
        }
    }
}

/// Handlers that a CPU calls at trigger states and from timers. Each call returns the CPU time that the
/// handlers have taken, which passes before the CPU goes on.
pub trait Handlers: fmt::Debug + Send {
    /// Runs the events that are due when the CPU is in a trigger state.
    fn trigger(&mut self, now: Instant, at: Source, devices: &mut Devices) -> Duration;

    /// Returns the time of the next event, before which an idle CPU need not check; `None` if no event is
    /// scheduled.
    fn next_due(&self) -> Option<Instant>;

    /// Runs the work that the interrupt of the periodic timer has dispatched: see [`PeriodicTimer`].
    fn periodic(&mut self, now: Instant, devices: &mut Devices) -> Duration {
        let _ = (now, devices);
        Duration::ZERO
    }

    /// Returns the time for which a one-shot timer is to be set, if there is one.
    fn one_shot(&mut self) -> Option<Instant> {
        None
    }

    /// Runs the overdue events when the one-shot timer has fired.
    fn overdue(&mut self, now: Instant, devices: &mut Devices) -> Duration {
        let _ = (now, devices);
        Duration::ZERO
    }
}

/// A timer that interrupts, in addition to the system's clock. Its interrupt dispatches a software
/// interrupt, which waits while another runs. Dispatches during that wait are combined into one.
#[derive(Debug, Clone, Copy)]
pub struct PeriodicTimer {
    /// The time from one interrupt to the next.
    pub period: Duration,
    /// The time that the interrupt takes, without the work that it dispatches.
    pub interrupt: Duration,
}

/// The interfaces of the CPU's host, as handlers use them.
#[derive(Debug, Default)]
pub struct Devices {
    /// Frames that wait for a handler to send them, if data is clocked.
    clocked: Option<VecDeque<(usize, Vec<u8>)>>,
    /// The frames that a handler has just sent.
    pub(crate) sent: Vec<(usize, Vec<u8>)>,
    /// Frames that have arrived while interrupts were off, if the devices are polled.
    polled: Option<VecDeque<(usize, Vec<u8>)>>,
    /// The frames that a handler has just found by a poll.
    pub(crate) found: Vec<(usize, Vec<u8>)>,
    /// Interfaces, with the number of frames that have left while interrupts were off, and those that a
    /// handler has found.
    left: BTreeMap<usize, u64>,
    pub(crate) found_left: Vec<(usize, u64)>,
}

/// The length of frames below which they carry no data worth clocking: they are acknowledgments, and ends of
/// connections.
const DATA_BYTES: usize = 200;
/// The place of a segment's ports in an IPv4 frame without IP options.
const PORTS: core::ops::Range<usize> = 34..38;

impl Devices {
    /// Makes segments with data wait for a handler from now on, and later segments of their connections
    /// behind them.
    pub(crate) fn clock_output(&mut self) {
        self.clocked = Some(VecDeque::new());
    }

    /// Makes events of interfaces while the CPU is busy wait for a poll from now on.
    pub(crate) fn poll_devices(&mut self) {
        self.polled = Some(VecDeque::new());
    }

    /// Returns the number of frames that wait for a handler to send them.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.clocked.as_ref().map_or(0, VecDeque::len)
    }

    /// Sends the frame that has waited longest. Returns whether there was one.
    pub fn send_one(&mut self) -> bool {
        let frame = self.clocked.as_mut().and_then(VecDeque::pop_front);
        let is_one = frame.is_some();
        self.sent.extend(frame);
        is_one
    }

    /// Takes the frames that have arrived on all interfaces and returns their number. Frees the buffers of
    /// frames that have left.
    pub fn poll(&mut self) -> usize {
        let before = self.found.len();
        self.found.extend(self.polled.iter_mut().flat_map(|polled| polled.drain(..)));
        self.found_left.extend(std::mem::take(&mut self.left));
        self.found.len() - before
    }

    /// Raises interrupts for all events so far. Returns whether there was any.
    pub(crate) fn turn_interrupts_on(&mut self) -> bool {
        self.poll();
        !self.found.is_empty() || !self.found_left.is_empty()
    }

    /// Counts a frame that has left, if the busy CPU polls its devices. Returns whether it polls.
    pub(crate) fn keeps_left(&mut self, index: usize) -> bool {
        if self.polled.is_some() {
            *self.left.entry(index).or_default() += 1;
        }
        self.polled.is_some()
    }

    /// Takes a frame that the host sends. Returns it if it need not wait for a handler.
    pub(crate) fn clocks(&mut self, index: usize, frame: Vec<u8>) -> Option<Vec<u8>> {
        let Some(waiting) = &mut self.clocked else { return Some(frame) };
        let behind = waiting.iter().any(|(_, other)| other.get(PORTS) == frame.get(PORTS));
        if frame.len() < DATA_BYTES && !behind {
            return Some(frame);
        }
        waiting.push_back((index, frame));
        None
    }

    /// Keeps a frame that arrives at a busy CPU with polled devices. Returns whether it did.
    pub(crate) fn keeps(&mut self, index: usize, frame: &[u8]) -> bool {
        let Some(polled) = &mut self.polled else { return false };
        polled.push_back((index, frame.to_vec()));
        true
    }
}

/// A CPU's handlers and timers, and their pending work.
#[derive(Debug)]
pub(crate) struct Soft {
    pub(crate) handlers: Box<dyn Handlers>,
    pub(crate) devices: Devices,
    /// The time of a turn of the idle loop.
    pub(crate) spin: Duration,
    /// The time at which the CPU entered that loop.
    pub(crate) idle_since: Option<Instant>,
    pub(crate) timer: Option<Ticking>,
    /// The time that the interrupt of the one-shot timer takes. `one_shot_at` is its next time.
    pub(crate) one_shot: Duration,
    pub(crate) one_shot_at: Instant,
    /// The time that a device interrupt takes beyond its price.
    pub(crate) device_entry: Duration,
    /// Whether a poll found the latest arrivals, in place of an interrupt.
    pub(crate) polled: bool,
    /// The saving on each frame of a unit after the first.
    pub(crate) warm: Duration,
}

impl Soft {
    /// Returns the time by which a unit is shorter than its prices: handlers do part of the work, and polls
    /// make other work cheaper.
    pub(crate) fn saved(&self, log: &WorkLog, costs: &Costs, clocked: u32) -> Duration {
        let later = (costs.of(Work::SegmentOutput) + costs.of(Work::Transmit)) * clocked;
        let warm = self.warm * log.count(Work::Input).saturating_sub(1);
        let entry = costs.of(Work::Interrupt) + self.device_entry;
        // The handler that polled has already taken the time for that.
        let entered = if self.polled { entry * log.count(Work::Interrupt) } else { Duration::ZERO };
        later + warm + entered
    }
}

/// A [`PeriodicTimer`] that ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticking {
    pub(crate) timer: PeriodicTimer,
    pub(crate) next: Instant,
    /// Whether the timer's interrupt has dispatched work that has not run yet.
    pub(crate) dispatched: bool,
}

impl Ticking {
    pub(crate) const fn new(timer: PeriodicTimer, now: Instant) -> Self {
        Self {
            timer,
            next: Instant::from_nanos(now.as_nanos() + timer.period.as_nanos() as u64),
            dispatched: false,
        }
    }

    /// Runs the timer's interrupt now. Interrupts that were due earlier, but could not occur, are lost.
    pub(crate) fn interrupt(&mut self, now: Instant) {
        while self.next <= now {
            self.next += self.timer.period;
        }
    }
}

/// Returns the trigger states that a unit passes, by the time that is left of the unit there.
pub(crate) fn states(
    level: Level,
    log: &WorkLog,
    trapped: bool,
    costs: &Costs,
    clocked: u32,
) -> VecDeque<(Duration, Source)> {
    let outputs = log.count(Work::Output) + log.count(Work::SegmentOutput).saturating_sub(clocked);
    let end = match level {
        // The software interrupt processes the frames, and ends the network interrupt.
        Level::Interrupt if log.count(Work::Enqueue) > 0 => None,
        Level::Interrupt => Some(Source::Others),
        Level::SoftInterrupt if log.count(Work::Input) + log.count(Work::Control) > 0 => Some(Source::Input),
        Level::Process if trapped => Some(Source::Trap),
        Level::Process if log.count(Work::SystemCall) > 0 => Some(Source::SystemCall),
        _ => None,
    };
    // The CPU then returns from the call of IP.
    let way_back = match end {
        Some(Source::SystemCall) => costs.of(Work::SystemCall),
        Some(_) => costs.of(Work::SoftInterrupt),
        None => Duration::ZERO,
    };
    let each = costs.of(Work::SegmentOutput) + costs.of(Work::Transmit);
    let outputs = (0..outputs).rev().map(|nth| (way_back + each * nth, Source::Output));
    outputs.chain(end.map(|end| (Duration::ZERO, end))).collect()
}
