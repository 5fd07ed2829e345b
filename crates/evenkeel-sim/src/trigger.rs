//! Trigger states of a simulated CPU, for soft timers: where a handler can be called as a plain function; and
//! the interrupts of timers, to compare and as backing.
//!
//! Source: Aron and Druschel, "Soft timers: efficient microsecond software timer support for network
//! processing", ACM TOCS 18(3), 2000, sections 3 and 5.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use evenkeel_core::host::Level;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::work::{Work, WorkLog};

use crate::machine::Costs;

/// What a CPU did that brought it to a trigger state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A system call ends.
    SystemCall,
    /// A packet was handed to an interface.
    Output,
    /// A network interrupt ends, with the protocol input that follows it.
    Input,
    /// Elsewhere in the network subsystem: timers of TCP, interrupts that bring nothing.
    Others,
    /// An exception was handled, such as a page fault.
    Trap,
    /// The periodic interrupt of the system's clock ends: the backing.
    Clock,
    /// The idle loop has gone round.
    Idle,
}

impl Source {
    /// The name the paper has for it.
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

/// What is called at trigger states, and by timers. Each says what CPU time its handlers have taken, which
/// passes before the CPU goes on.
pub trait Handlers: fmt::Debug + Send {
    /// The CPU is in a trigger state.
    fn trigger(&mut self, now: Instant, at: Source, devices: &mut Devices) -> Duration;

    /// When the next event is due: before that an idle CPU need not look.
    fn next_due(&self) -> Option<Instant>;

    /// What the interrupt of the periodic timer has dispatched: see [`PeriodicTimer`].
    fn periodic(&mut self, now: Instant, devices: &mut Devices) -> Duration {
        let _ = (now, devices);
        Duration::ZERO
    }

    /// What a one-shot timer is aimed at, if there is one.
    fn one_shot(&mut self) -> Option<Instant> {
        None
    }

    /// The one-shot timer has gone off.
    fn overdue(&mut self, now: Instant, devices: &mut Devices) -> Duration {
        let _ = (now, devices);
        Duration::ZERO
    }
}

/// A timer that interrupts, beside the clock of the system. Its interrupt dispatches a software interrupt,
/// which waits while another runs; what it is dispatched for meanwhile is done once.
#[derive(Debug, Clone, Copy)]
pub struct PeriodicTimer {
    /// From one interrupt to the next.
    pub period: Duration,
    /// What the interrupt takes, without what it dispatches.
    pub interrupt: Duration,
}

/// What handlers can do to the interfaces of the CPU's host.
#[derive(Debug, Default)]
pub struct Devices {
    /// Frames that wait for a handler to send them; if data is clocked.
    clocked: Option<VecDeque<(usize, Vec<u8>)>>,
    /// Those that a handler has sent just now.
    pub(crate) sent: Vec<(usize, Vec<u8>)>,
    /// Frames that have arrived while interrupts were off; if it is polled.
    polled: Option<VecDeque<(usize, Vec<u8>)>>,
    /// Those that a handler has found just now.
    pub(crate) found: Vec<(usize, Vec<u8>)>,
    /// Interfaces, with how many frames have left while interrupts were off; and those a handler has found.
    left: BTreeMap<usize, u64>,
    pub(crate) found_left: Vec<(usize, u64)>,
}

/// Shorter frames carry no data worth clocking: they are acknowledgments, and ends of connections.
const DATA_BYTES: usize = 200;
/// Where a segment's ports are in a frame without options of IP.
const PORTS: core::ops::Range<usize> = 34..38;

impl Devices {
    /// From now on segments with data wait for a handler, and others of the same connection behind them.
    pub(crate) fn clock_output(&mut self) {
        self.clocked = Some(VecDeque::new());
    }

    /// From now on what happens to interfaces while the CPU is busy waits to be polled.
    pub(crate) fn poll_devices(&mut self) {
        self.polled = Some(VecDeque::new());
    }

    /// How many frames wait to be sent by a handler.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.clocked.as_ref().map_or(0, VecDeque::len)
    }

    /// Sends the frame that has waited longest. Says whether there was one.
    pub fn send_one(&mut self) -> bool {
        let frame = self.clocked.as_mut().and_then(VecDeque::pop_front);
        let is_one = frame.is_some();
        self.sent.extend(frame);
        is_one
    }

    /// Takes in what has arrived on all interfaces; says how many frames that are. Those that have left are
    /// freed.
    pub fn poll(&mut self) -> usize {
        let before = self.found.len();
        self.found.extend(self.polled.iter_mut().flat_map(|polled| polled.drain(..)));
        self.found_left.extend(std::mem::take(&mut self.left));
        self.found.len() - before
    }

    /// What has happened until now raises interrupts; says whether anything has.
    pub(crate) fn turn_interrupts_on(&mut self) -> bool {
        self.poll();
        !self.found.is_empty() || !self.found_left.is_empty()
    }

    /// Keeps word of a frame that has left, if the busy CPU polls. Says whether it does.
    pub(crate) fn keeps_left(&mut self, index: usize) -> bool {
        if self.polled.is_some() {
            *self.left.entry(index).or_default() += 1;
        }
        self.polled.is_some()
    }

    /// A frame that the host sends, if it need not wait.
    pub(crate) fn clocks(&mut self, index: usize, frame: Vec<u8>) -> Option<Vec<u8>> {
        let Some(waiting) = &mut self.clocked else { return Some(frame) };
        let behind = waiting.iter().any(|(_, other)| other.get(PORTS) == frame.get(PORTS));
        if frame.len() < DATA_BYTES && !behind {
            return Some(frame);
        }
        waiting.push_back((index, frame));
        None
    }

    /// Keeps a frame that arrives at a busy CPU, if that polls. Says whether it did.
    pub(crate) fn keeps(&mut self, index: usize, frame: &[u8]) -> bool {
        let Some(polled) = &mut self.polled else { return false };
        polled.push_back((index, frame.to_vec()));
        true
    }
}

/// A CPU's handlers and timers, and what there is to do about them.
#[derive(Debug)]
pub(crate) struct Soft {
    pub(crate) handlers: Box<dyn Handlers>,
    pub(crate) devices: Devices,
    /// Once round the idle loop.
    pub(crate) spin: Duration,
    /// Since when the CPU is in that loop.
    pub(crate) idle_since: Option<Instant>,
    pub(crate) timer: Option<Ticking>,
    /// What the interrupt of the one-shot takes, and when it is to come.
    pub(crate) one_shot: Duration,
    pub(crate) one_shot_at: Instant,
    /// What a device interrupt takes more than its price says.
    pub(crate) device_entry: Duration,
    /// What came last was found by a poll.
    pub(crate) polled: bool,
    /// What a frame after the first costs less.
    pub(crate) warm: Duration,
}

impl Soft {
    /// What a unit takes less than its prices say: what handlers will do, and what polls do cheaper.
    pub(crate) fn saved(&self, log: &WorkLog, costs: &Costs, clocked: u32) -> Duration {
        let later = (costs.of(Work::SegmentOutput) + costs.of(Work::Transmit)) * clocked;
        let warm = self.warm * log.count(Work::Input).saturating_sub(1);
        let entry = costs.of(Work::Interrupt) + self.device_entry;
        // The handler that has polled has taken the time for that.
        let entered = if self.polled { entry * log.count(Work::Interrupt) } else { Duration::ZERO };
        later + warm + entered
    }
}

/// A [`PeriodicTimer`] that ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticking {
    pub(crate) timer: PeriodicTimer,
    pub(crate) next: Instant,
    /// What it has dispatched has not run.
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

    /// It interrupts now. Interrupts that were to come since, while it could not, are lost.
    pub(crate) fn interrupt(&mut self, now: Instant) {
        while self.next <= now {
            self.next += self.timer.period;
        }
    }
}

/// Where a unit passes trigger states: how much of it is left then.
pub(crate) fn states(
    level: Level,
    log: &WorkLog,
    trapped: bool,
    costs: &Costs,
    clocked: u32,
) -> VecDeque<(Duration, Source)> {
    let outputs = log.count(Work::Output) + log.count(Work::SegmentOutput).saturating_sub(clocked);
    let end = match level {
        // What it has brought is put in by the software interrupt, which ends it.
        Level::Interrupt if log.count(Work::Enqueue) > 0 => None,
        Level::Interrupt => Some(Source::Others),
        Level::SoftInterrupt if log.count(Work::Input) + log.count(Work::Control) > 0 => Some(Source::Input),
        Level::Process if trapped => Some(Source::Trap),
        Level::Process if log.count(Work::SystemCall) > 0 => Some(Source::SystemCall),
        _ => None,
    };
    // Then it returns from where it has called IP.
    let way_back = match end {
        Some(Source::SystemCall) => costs.of(Work::SystemCall),
        Some(_) => costs.of(Work::SoftInterrupt),
        None => Duration::ZERO,
    };
    let each = costs.of(Work::SegmentOutput) + costs.of(Work::Transmit);
    let outputs = (0..outputs).rev().map(|nth| (way_back + each * nth, Source::Output));
    outputs.chain(end.map(|end| (Duration::ZERO, end))).collect()
}
