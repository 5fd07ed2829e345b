//! The simulated CPU: runs a host's units with preemptive-resume priorities and lets each take the time a
//! machine model gives it.
//!
//! The effects of a unit happen when it starts; then the CPU is busy for its cost; frames that the host sent
//! go to the transmitter when it is over, or with later frames of a unit that is over sooner. The transmitter
//! puts them on the wire one after the other. When something of a higher level becomes pending meanwhile, the
//! rest of the unit is suspended until that is done. Equal levels do not preempt each other. A process is
//! suspended in the middle of its step, and whenever the CPU returns from an interrupt the host's scheduler
//! says which process goes on.

use std::collections::VecDeque;

use evenkeel_core::host::{Host, Level, Ran};
use evenkeel_core::process::ProcessId;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::work::Work;

use crate::machine::Costs;
use crate::timeline::{Stages, Timeline};
use crate::wire::Wire;

/// A host on a simulated CPU, with the outside ends of its cables.
///
/// Call [`Cpu::arrive`] when a frame reaches an interface and [`Cpu::run`] after that and whenever
/// [`Cpu::deadline`] is reached, then take what the host sent with [`Cpu::poll_frame`].
#[derive(Debug)]
pub struct Cpu {
    host: Host,
    costs: Costs,
    wires: Vec<Wire>,
    now: Instant,
    running: Option<Busy>,
    /// Units of interrupt handlers, the polling thread and the idle level that were preempted; the last is of
    /// the highest level.
    suspended: Vec<Busy>,
    /// Steps of processes that were preempted.
    steps: Vec<(ProcessId, Busy)>,
    /// What units that are not over have sent, in the order in which they did.
    held: VecDeque<(usize, Vec<u8>)>,
    /// Frames that the host has sent so far, held ones included.
    handed_over: u64,
    sent: VecDeque<(usize, Vec<u8>)>,
    counters: Counters,
    timeline: Option<Timeline>,
    clock: Option<Clock>,
}

/// A periodic interrupt: the clock of a system that has ticks. It does nothing for the host but take its
/// time.
#[derive(Debug, Clone, Copy)]
struct Clock {
    period: Duration,
    next: Instant,
}

/// What a CPU did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Units started.
    pub units: u64,
    /// Units suspended by a higher level.
    pub preemptions: u64,
    /// Times it had nothing to do and halted.
    pub halts: u64,
}

/// A unit whose time has not all passed.
#[derive(Debug)]
struct Busy {
    ran: Ran,
    left: Duration,
    /// What it does in that time, if somebody wants to know.
    stages: Stages,
    /// Frames that the host had sent when it had started, if it sent any itself: they leave when the unit is
    /// over.
    frames_up_to: Option<u64>,
}

impl Cpu {
    /// `host` on a CPU with these costs. `wires` are the cables that the host has as interfaces, in the order
    /// in which they were added to it.
    #[must_use]
    pub fn new(host: Host, costs: Costs, wires: Vec<Wire>) -> Self {
        Self {
            host,
            costs,
            wires,
            now: Instant::ZERO,
            running: None,
            suspended: Vec::new(),
            steps: Vec::new(),
            held: VecDeque::new(),
            handed_over: 0,
            sent: VecDeque::new(),
            counters: Counters::default(),
            timeline: None,
            clock: None,
        }
    }

    /// From now on a clock interrupts at every `period`, at the cost of [`Work::Clock`].
    pub fn set_clock(&mut self, period: Duration) {
        self.clock = Some(Clock { period, next: self.now + period });
    }

    /// From now on notes what is done when.
    pub fn record(&mut self) {
        self.timeline = Some(Timeline::default());
    }

    /// What was done when, if that was asked for.
    #[must_use]
    pub const fn timeline(&self) -> Option<&Timeline> {
        self.timeline.as_ref()
    }

    /// The host.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// The host, to start programs on it.
    #[must_use]
    pub const fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// What it did so far.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// A frame reaches interface `index`. Returns whether there was room in its ring.
    pub fn arrive(&mut self, now: Instant, index: usize, frame: &[u8]) -> bool {
        let accepted = self.wires.get_mut(index).is_some_and(|wire| wire.arrive(frame));
        if let (true, Some(timeline)) = (accepted, &mut self.timeline) {
            timeline.arrive(now);
        }
        accepted
    }

    /// The next frame that has left the host, and the interface it left from.
    pub fn poll_frame(&mut self) -> Option<(usize, Vec<u8>)> {
        self.sent.pop_front()
    }

    /// When [`Cpu::run`] has something to do even if no frame arrives.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        let due = self.host.next_deadline();
        let own = match &self.running {
            // A deadline that has passed without preempting will be met when the unit is over.
            Some(busy) if due > self.now && busy.ran.level > Level::Interrupt => {
                due.min(self.now + busy.left)
            }
            Some(busy) => self.now + busy.left,
            None => due,
        };
        let tick = match &self.running {
            // It will be met when the interrupt is over.
            Some(busy) if busy.ran.level == Level::Interrupt => Instant::NEVER,
            _ => self.clock.map_or(Instant::NEVER, |clock| clock.next),
        };
        self.wires.iter().map(Wire::poll_timeout).fold(own.min(tick), Instant::min)
    }

    /// Lets time pass up to `now`, which must not be later than [`Cpu::deadline`], and starts what is to run
    /// then.
    pub fn run(&mut self, now: Instant) {
        self.pass(now);
        self.transmit();
        loop {
            self.host.settle_deadlines();
            let Some((level, left)) = self.running.as_ref().map(|busy| (busy.ran.level, busy.left)) else {
                if self.tick() || self.start() {
                    continue;
                }
                return;
            };
            if left.is_zero() {
                self.complete();
                self.transmit();
            } else if self.interrupts(level) || self.host.peek(now).is_some_and(|next| next.level < level) {
                self.suspend();
            } else {
                return;
            }
        }
    }

    /// The unit that runs has used the time since the last call.
    fn pass(&mut self, now: Instant) {
        let elapsed = now.since(self.now);
        self.now = self.now.max(now);
        if let Some(busy) = &mut self.running {
            debug_assert!(elapsed <= busy.left, "the deadline was missed");
            busy.left = busy.left.saturating_sub(elapsed);
            self.host.charge(&busy.ran, elapsed);
            if let Some(timeline) = &mut self.timeline {
                busy.stages.pass(now, elapsed, timeline);
            }
        }
    }

    fn complete(&mut self) {
        let Some(busy) = self.running.take() else { return };
        self.host.finish(&busy.ran, self.now);
        let finished = self.collect();
        if let Some(last) = finished.or(busy.frames_up_to) {
            self.release(last);
        }
    }

    /// Frames up to number `last` leave. Those of a unit that is still suspended are among them if it sent
    /// them earlier: an interface sends in the order in which it was told to.
    fn release(&mut self, last: u64) {
        let first = self.handed_over - self.held.len() as u64;
        let count = last.saturating_sub(first) as usize;
        for (index, frame) in self.held.drain(..count.min(self.held.len())) {
            self.wires[index].send(frame, self.now);
        }
    }

    /// Frames that have left the transmitters.
    fn transmit(&mut self) {
        for (index, wire) in self.wires.iter_mut().enumerate() {
            while let Some(frame) = wire.poll_frame(self.now) {
                self.sent.push_back((index, frame));
            }
        }
    }

    /// Whether the clock interrupts what runs at `level`.
    fn interrupts(&self, level: Level) -> bool {
        level > Level::Interrupt && self.clock.is_some_and(|clock| clock.next <= self.now)
    }

    /// The clock interrupt, if it is due.
    fn tick(&mut self) -> bool {
        let Some(clock) = self.clock.as_mut().filter(|clock| clock.next <= self.now) else { return false };
        clock.next += clock.period;
        self.counters.units += 1;
        let ran =
            Ran { level: Level::Interrupt, process: None, payer: None, limited: false, protocol: false };
        let left = self.costs.of(Work::Clock).max(Duration::from_nanos(1));
        self.running = Some(Busy { ran, left, stages: Stages::default(), frames_up_to: None });
        true
    }

    fn suspend(&mut self) {
        let Some(busy) = self.running.take() else { return };
        self.counters.preemptions += 1;
        match busy.ran.process {
            Some(process) => self.steps.push((process, busy)),
            None => self.suspended.push(busy),
        }
    }

    /// Starts or resumes whatever comes first. Returns false, and halts, if there is nothing.
    fn start(&mut self) -> bool {
        let next = self.host.peek(self.now);
        let top = self.suspended.last().map(|busy| busy.ran.level);
        match (next, top) {
            (Some(next), Some(top)) if next.level >= top => self.resume_unit(),
            (None, Some(_)) => self.resume_unit(),
            (Some(next), _) => match next.process {
                Some(process) if next.resuming => self.resume_step(process),
                _ => self.begin(),
            },
            (None, None) => self.halt(),
        }
    }

    fn begin(&mut self) -> bool {
        let Some(ran) = self.host.turn(self.now) else { return false };
        self.counters.units += 1;
        let left = self.costs.total(self.host.work());
        let mut stages = Stages::default();
        if let Some(timeline) = &mut self.timeline {
            stages = Stages::of(self.host.work(), &self.costs);
            stages.pass(self.now, Duration::ZERO, timeline);
        }
        let frames_up_to = self.collect();
        self.running = Some(Busy { ran, left, stages, frames_up_to });
        true
    }

    fn resume_unit(&mut self) -> bool {
        self.running = self.suspended.pop();
        self.running.is_some()
    }

    fn resume_step(&mut self, process: ProcessId) -> bool {
        // Protocol processing that was suspended came after the step of the program, and ends before it.
        let Some(index) = self.steps.iter().rposition(|(p, _)| *p == process) else { return false };
        let (_, mut busy) = self.steps.remove(index);
        self.host.resume(process);
        let switch = self.costs.total(self.host.work());
        busy.left += switch;
        busy.stages.delay(switch);
        self.running = Some(busy);
        true
    }

    /// Returns true if something is pending after all.
    fn halt(&mut self) -> bool {
        if self.host.halt(self.now) {
            self.counters.halts += 1;
            return false;
        }
        self.host.peek(self.now).is_some()
    }

    /// Takes what the host has put on its cables. Says how many frames it has sent in all, if there were any
    /// now.
    fn collect(&mut self) -> Option<u64> {
        let before = self.held.len();
        for (index, wire) in self.wires.iter_mut().enumerate() {
            while let Some(frame) = wire.take() {
                self.held.push_back((index, frame));
            }
        }
        let count = (self.held.len() - before) as u64;
        self.handed_over += count;
        (count > 0).then_some(self.handed_over)
    }
}
