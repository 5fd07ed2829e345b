//! The share of a busy web server's throughput that timers cost.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use evenkeel::raw::time::{Duration, Instant};
use evenkeel_sim::cpu::Cpu;
use evenkeel_sim::trigger::{Devices, Handlers, PeriodicTimer, Source};
use evenkeel_sim::workload::Log;
use evenkeel_timers::SoftTimers;

use crate::statistics::{mean, micros};
use crate::t00_clocking::ticks;
use crate::t00_testbed::{Bench, Load, Pentium, Server};

const TIME: Duration = Duration::from_millis(600);

/// The timer that fires events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// No timer.
    None,
    /// Interrupts.
    Hard { period: Duration, interrupt: Duration },
    /// An event at every trigger state.
    Soft,
    /// An event at every trigger state, and an interrupt of a one-shot timer for each event that finds no
    /// trigger state within the deadline.
    Backed { deadline: Duration },
}

/// The action of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Handler {
    /// Returns immediately.
    Null,
    /// Sends one packet, if one waits.
    Send,
}

/// The measurements of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// Answers a second.
    pub(crate) throughput: f64,
    /// The mean interval in microseconds between packets of which the second waited when the first was sent,
    /// or between calls of a null handler.
    pub(crate) interval: f64,
    /// The share of events that the one-shot fired, in percent.
    pub(crate) one_shot: f64,
}

impl Measured {
    /// Returns the percentage by which the throughput is less than that of `of`.
    pub(crate) fn loss(&self, of: &Self) -> f64 {
        100.0 * (1.0 - self.throughput / of.throughput)
    }
}

type Run = (Load, Timer, Handler, u64);

static MEASURED: Mutex<BTreeMap<Run, Measured>> = Mutex::new(BTreeMap::new());

pub(crate) fn run(load: Load, timer: Timer, handler: Handler, seed: u64) -> Measured {
    let measured = || MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
    let run = (load, timer, handler, seed);
    if let Some(found) = measured().get(&run) {
        return *found;
    }
    let anew = anew(run);
    measured().insert(run, anew);
    anew
}

fn anew((load, timer, handler, seed): Run) -> Measured {
    let log = Log::default();
    let handlers = Clocking::new(load, timer, handler, log.clone());
    let mut bench = Bench::with(load, Box::new(handlers), |cpu| setup(cpu, timer, handler), seed);
    let _ = log.take();
    let throughput = bench.run(TIME);
    let fired = log.take();
    let intervals: Vec<f64> = fired.iter().filter_map(|fired| fired.interval).collect();
    let one_shot = fired.iter().filter(|fired| fired.by_one_shot).count();
    Measured {
        throughput,
        interval: mean(&intervals),
        one_shot: 100.0 * one_shot as f64 / fired.len() as f64,
    }
}

fn setup(cpu: &mut Cpu, timer: Timer, handler: Handler) {
    if handler == Handler::Send && timer != Timer::None {
        cpu.clock_output();
    }
    match timer {
        Timer::Hard { period, interrupt } => cpu.set_periodic_timer(PeriodicTimer { period, interrupt }),
        Timer::Backed { .. } => cpu.set_one_shot(Pentium::fixed("apic-iii")),
        Timer::None | Timer::Soft => {}
    }
}

/// A handler was called.
#[derive(Debug, Clone, Copy)]
struct Fired {
    interval: Option<f64>,
    by_one_shot: bool,
}

/// The handlers of all these kinds.
#[derive(Debug)]
struct Clocking {
    events: SoftTimers<()>,
    timer: Timer,
    handler: Handler,
    prices: Prices,
    last: Option<Instant>,
    log: Log<Fired>,
}

#[derive(Debug)]
struct Prices {
    check: Duration,
    /// The time to set the one-shot timer twice: to the deadline and away from it.
    aim: Duration,
    /// The time to send a packet from a trigger state, and from an interrupt.
    soft: Duration,
    hard: Duration,
}

impl Clocking {
    fn new(load: Load, timer: Timer, handler: Handler, log: Log<Fired>) -> Self {
        let Load { server, on, .. } = load;
        let (soft, hard) = match server {
            Server::Apache => ("apache-soft", "apache-hard"),
            Server::Flash => ("flash-soft", "flash-hard"),
        };
        let output = on.output();
        let prices = Prices {
            check: on.program("soft-check"),
            aim: Pentium::fixed("apic-aim"),
            soft: output + on.program(soft),
            hard: output + on.program(hard),
        };
        let mut clocking =
            Self { events: SoftTimers::new(on.hz(), 1_000), timer, handler, prices, last: None, log };
        clocking.schedule(0);
        clocking
    }

    /// Schedules an event for the next trigger state.
    fn schedule(&mut self, measure_time: u64) {
        match self.timer {
            Timer::Soft => _ = self.events.schedule_soft_event(measure_time, 0, ()),
            Timer::Backed { deadline } => {
                let latest = ticks(&self.events, deadline);
                self.events.schedule_with_deadline(measure_time, 0, latest, ());
            }
            Timer::None | Timer::Hard { .. } => {}
        }
    }

    fn handle(
        &mut self,
        now: Instant,
        devices: &mut Devices,
        by_one_shot: bool,
        price: Duration,
    ) -> Duration {
        let is_sent = self.handler == Handler::Send && devices.send_one();
        let interval = (self.handler == Handler::Null || is_sent)
            .then(|| self.last.map(|last| micros(now.since(last))))
            .flatten();
        let goes_on = self.handler == Handler::Null || devices.waiting() > 0;
        self.last = goes_on.then_some(now);
        self.log.push(Fired { interval, by_one_shot });
        if is_sent { price } else { Duration::ZERO }
    }
}

impl Handlers for Clocking {
    fn trigger(&mut self, now: Instant, _: Source, devices: &mut Devices) -> Duration {
        if !matches!(self.timer, Timer::Soft | Timer::Backed { .. }) {
            return Duration::ZERO;
        }
        let measure_time = self.events.measure_time(now);
        let mut took = self.prices.check;
        if self.events.poll_event(measure_time).is_some() {
            if matches!(self.timer, Timer::Backed { .. }) {
                took += self.prices.aim;
            }
            took += self.handle(now, devices, false, self.prices.soft);
            self.schedule(self.events.measure_time(now + took));
        }
        took
    }

    fn next_due(&self) -> Option<Instant> {
        self.events.next_due().map(|due| self.events.instant(due))
    }

    fn periodic(&mut self, now: Instant, devices: &mut Devices) -> Duration {
        self.handle(now, devices, false, self.prices.hard)
    }

    fn one_shot(&mut self) -> Option<Instant> {
        if !matches!(self.timer, Timer::Backed { .. }) {
            return None;
        }
        self.events.next_deadline().map(|at| self.events.instant(at))
    }

    fn overdue(&mut self, now: Instant, devices: &mut Devices) -> Duration {
        let measure_time = self.events.measure_time(now);
        let mut took = Duration::ZERO;
        if self.events.poll_overdue(measure_time).is_some() {
            // The interrupt itself calls the handler: no thread is dispatched.
            took = self.prices.aim + self.handle(now, devices, true, self.prices.soft);
            self.schedule(self.events.measure_time(now + took));
        }
        took
    }
}

/// Returns the 8253 of a machine, at this period.
pub(crate) fn off_chip(on: Pentium, period: Duration) -> Timer {
    let price = if on == Pentium::Iii { "timer-8253-iii" } else { "timer-8253-ii" };
    Timer::Hard { period, interrupt: Pentium::fixed(price) }
}

/// Returns the APIC of a Pentium III, at this period.
pub(crate) fn on_chip(period: Duration) -> Timer {
    Timer::Hard { period, interrupt: Pentium::fixed("apic-iii") }
}
