//! The simulated CPU: it runs a host's work items with preemptive-resume priorities. A machine model gives
//! the time of each.
//!
//! The effects of a work item happen when it starts; then the CPU is busy for its cost. Frames that the host
//! sent go to the transmitter at the end of the item, or with later frames of an item that ends sooner. The
//! transmitter puts them on the wire one after the other. If work of a higher level becomes pending
//! meanwhile, the rest of the item is suspended until that is done. Equal levels do not preempt each other. A
//! process may be suspended in the middle of its step. Whenever the CPU returns from an interrupt, the host's
//! scheduler chooses the process that continues.

use std::collections::VecDeque;

use evenkeel_core::host::{Completed, Host, Level};
use evenkeel_core::process::ProcessId;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::work::Work;

use crate::machine::Costs;
use crate::profile::Profile;
use crate::standstill::{MOST, Standstill};
use crate::timeline::{Stages, Timeline};
use crate::trigger::{self, Devices, Handlers, PeriodicTimer, Soft, Source, Ticking};
use crate::wire::Wire;
use crate::workload::Tally;

/// A host on a simulated CPU, with the outside ends of its cables.
///
/// After a frame reaches an interface, call [`Cpu::arrive`] and then [`Cpu::run`]; also call [`Cpu::run`] at
/// each [`Cpu::deadline`]. Then take the frames that the host sent with [`Cpu::poll_frame`].
#[derive(Debug)]
pub struct Cpu {
    host: Host,
    costs: Costs,
    wires: Vec<Wire>,
    now: Instant,
    running: Option<Busy>,
    /// Preempted work items of interrupt handlers, the polling thread and the idle level. The last has the
    /// highest level.
    suspended: Vec<Busy>,
    /// Steps of processes that were preempted.
    steps: Vec<(ProcessId, Busy)>,
    /// Frames sent by unfinished work items, in the order of sending.
    held: VecDeque<(usize, Vec<u8>)>,
    /// Frames that the host has sent so far, including held ones.
    handed_over: u64,
    sent: VecDeque<(usize, Vec<u8>)>,
    counters: Counters,
    profile: Profile,
    timeline: Option<Timeline>,
    clock: Option<Clock>,
    soft: Option<Soft>,
    traps: Option<(Tally, u64)>,
    standstill: Standstill,
}

/// A periodic interrupt: the clock of a system with ticks. It only takes the host's time.
#[derive(Debug, Clone, Copy)]
struct Clock {
    period: Duration,
    next: Instant,
}

/// Counters of a CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Units started.
    pub units: u64,
    /// Units suspended by a higher level.
    pub preemptions: u64,
    /// Times that the CPU had no work and halted.
    pub halts: u64,
}

/// A unit whose time has not completely passed.
#[derive(Debug)]
struct Busy {
    ran: Completed,
    left: Duration,
    /// The stages of the unit in that time; empty without a timeline.
    stages: Stages,
    /// The number of frames that the host had sent when the item started, if the item sent any itself: they
    /// leave at its end.
    frames_up_to: Option<u64>,
    /// The trigger states ahead of the item, each with the time left of the item there; empty without
    /// handlers.
    states: VecDeque<(Duration, Source)>,
    then: Then,
}

/// Work at the end of an item that does not belong to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    /// The interrupt of a periodic timer, which dispatches the timer's work.
    Dispatch,
    /// The interrupt of a one-shot timer, which calls the overdue handlers.
    Overdue,
}

impl Cpu {
    /// Creates a CPU with these costs that runs `host`. `wires` are the cables that the host has as
    /// interfaces, in the order in which they were added to it.
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
            profile: Profile::default(),
            timeline: None,
            clock: None,
            soft: None,
            traps: None,
            standstill: Standstill::new(),
        }
    }

    /// Calls `handlers` in every trigger state from now on. `traps` counts exceptions: a step that raises
    /// one, and makes no system call, ends in its handler. An idle CPU with a pending event runs its loop,
    /// once in `spin`.
    pub fn set_handlers(&mut self, handlers: Box<dyn Handlers>, traps: Tally, spin: Duration) {
        let devices = Devices::default();
        let spin = spin.max(Duration::from_nanos(1));
        let [one_shot, warm, device_entry] = [Duration::ZERO; 3];
        let (idle_since, timer) = (None, None);
        let one_shot_at = Instant::NEVER;
        self.soft = Some(Soft {
            handlers,
            devices,
            spin,
            idle_since,
            timer,
            one_shot,
            one_shot_at,
            device_entry,
            warm,
            polled: false,
        });
        self.traps = Some((traps.clone(), traps.get()));
    }

    /// Adds a timer that interrupts for the handlers ([`Handlers::periodic`]).
    pub fn set_periodic_timer(&mut self, timer: PeriodicTimer) {
        let now = self.now;
        self.soft_mut().timer = Some(Ticking::new(timer, now));
    }

    /// Sets the time that the interrupt of the handlers' one-shot timer takes ([`Handlers::one_shot`]).
    pub fn set_one_shot(&mut self, interrupt: Duration) {
        self.soft_mut().one_shot = interrupt;
    }

    /// Makes handlers send the segments with data from now on ([`Devices::send_one`]), in place of the
    /// units that produce the segments. The handler takes the time for sending.
    pub fn clock_output(&mut self) {
        self.soft_mut().devices.clock_output();
    }

    /// Stops interrupts of interfaces while the CPU is busy, from now on. A handler polls them
    /// ([`Devices::poll`]) and takes the time for it.
    pub fn poll_devices(&mut self) {
        self.soft_mut().devices.poll_devices();
    }

    /// Adds this time to the price of each device interrupt.
    pub fn set_device_entry(&mut self, more: Duration) {
        self.soft_mut().device_entry = more;
    }

    /// Sets the saving for consecutive frames: each frame after the first costs this much less, because its
    /// code is in the caches.
    pub fn set_warm(&mut self, saving: Duration) {
        self.soft_mut().warm = saving;
    }

    fn soft_mut(&mut self) -> &mut Soft {
        self.soft.as_mut().expect("there are handlers")
    }

    /// Adds a clock that interrupts at every `period` from now on, at the cost of [`Work::Clock`].
    pub fn set_clock(&mut self, period: Duration) {
        self.clock = Some(Clock { period, next: self.now + period });
    }

    /// Records a timeline of work from now on.
    pub fn record(&mut self) {
        self.timeline = Some(Timeline::default());
    }

    /// Returns the timeline of pieces of work, if the CPU records one.
    #[must_use]
    pub const fn timeline(&self) -> Option<&Timeline> {
        self.timeline.as_ref()
    }

    /// Returns the host that runs on the CPU.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the host, to start programs on it.
    #[must_use]
    pub const fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// Returns the counters since the creation of the CPU.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the CPU time so far by kind of work.
    #[must_use]
    pub const fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Passes a frame that reaches interface `index`. Returns whether there was room in its ring.
    pub fn arrive(&mut self, now: Instant, index: usize, frame: &[u8]) -> bool {
        if self.is_busy() && self.soft.as_mut().is_some_and(|soft| soft.devices.keeps(index, frame)) {
            return true;
        }
        if let Some(soft) = &mut self.soft {
            soft.polled = false;
        }
        let accepted = self.wires.get_mut(index).is_some_and(|wire| wire.arrive(frame));
        if let (true, Some(timeline)) = (accepted, &mut self.timeline) {
            timeline.arrive(now);
        }
        accepted
    }

    /// Returns whether the CPU runs a unit or has a suspended one.
    fn is_busy(&self) -> bool {
        self.running.is_some() || !self.suspended.is_empty() || !self.steps.is_empty()
    }

    /// Returns the next frame that has left the host, with the number of its interface.
    pub fn poll_frame(&mut self) -> Option<(usize, Vec<u8>)> {
        self.sent.pop_front()
    }

    /// Returns the time at which [`Cpu::run`] has something to do even if no frame arrives.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        let due = self.host.next_deadline();
        let own = match &self.running {
            // A deadline that has passed without preemption is handled at the end of the item.
            Some(busy) if due > self.now && busy.ran.level > Level::Interrupt => {
                due.min(self.now + busy.to_next_state())
            }
            Some(busy) => self.now + busy.to_next_state(),
            None => due.min(self.next_look()),
        };
        let tick = match &self.running {
            // It is handled at the end of the interrupt.
            Some(busy) if busy.ran.level == Level::Interrupt => Instant::NEVER,
            _ => self.next_interrupt(),
        };
        self.wires.iter().map(Wire::poll_timeout).fold(own.min(tick), Instant::min)
    }

    /// Advances time to `now`, which must not be later than [`Cpu::deadline`], and starts the work for that
    /// time.
    ///
    /// # Panics
    /// If the work does not end while hardly any time passes. The message describes the work.
    pub fn run(&mut self, now: Instant) {
        self.pass(now);
        self.transmit();
        loop {
            assert!(
                !self.standstill.is_reached(now),
                "the host has gone on {MOST} times within a millisecond, at {now:?}: {}",
                self.doing()
            );
            self.host.settle_deadlines();
            let Some((level, left)) = self.running.as_ref().map(|busy| (busy.ran.level, busy.left)) else {
                if self.tick() || self.timers_interrupt() || self.dispatched() || self.start() || self.look()
                {
                    continue;
                }
                return;
            };
            if self.pass_state() {
                continue;
            }
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

    /// Describes the running unit, the next one and the deadlines, for a failure report.
    pub(crate) fn doing(&self) -> String {
        let running = self.running.as_ref().map(|busy| (busy.ran, busy.left));
        let names = self.host.processes().map(|(id, name, _)| format!("{} {name}", id.0));
        format!(
            "it runs {running:?}, would run {:?}, and has done {:?} last; it is due at {:?}, its host at \
             {:?}; its processes are {}",
            self.host.peek(self.now),
            self.host.work().iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>(),
            self.deadline(),
            self.host.next_deadline(),
            names.collect::<Vec<_>>().join(", "),
        )
    }

    /// Charges the running unit for the time since the last call.
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
        let finished = self.collect().0;
        if let Some(last) = finished.or(busy.frames_up_to) {
            self.release(last);
        }
        match busy.then {
            Then::Nothing => {}
            Then::Dispatch => {
                if let Some(timer) = &mut self.soft_mut().timer {
                    timer.dispatched = true;
                }
            }
            Then::Overdue => {
                self.call(Level::Interrupt, |handlers, now, devices| handlers.overdue(now, devices));
            }
        }
    }

    /// Releases the frames up to number `last`. This includes earlier frames of a suspended item, because an
    /// interface sends frames in the order of the calls.
    fn release(&mut self, last: u64) {
        let first = self.handed_over - self.held.len() as u64;
        let count = last.saturating_sub(first) as usize;
        for (index, frame) in self.held.drain(..count.min(self.held.len())) {
            self.wires[index].send(frame, self.now);
        }
    }

    /// Takes the frames that have left the transmitters.
    fn transmit(&mut self) {
        let is_busy = self.is_busy();
        for (index, wire) in self.wires.iter_mut().enumerate() {
            while let Some(frame) = wire.poll_frame(self.now) {
                self.sent.push_back((index, frame));
                let is_kept =
                    is_busy && self.soft.as_mut().is_some_and(|soft| soft.devices.keeps_left(index));
                if !is_kept {
                    wire.complete(1);
                }
            }
        }
    }

    /// Returns whether a clock or timer interrupt is due that preempts work at `level`.
    fn interrupts(&self, level: Level) -> bool {
        level > Level::Interrupt && self.next_interrupt() <= self.now
            || level > Level::SoftInterrupt && self.is_dispatched()
    }

    /// Returns the time of the next interrupt of the clock, the periodic timer or the one-shot timer.
    fn next_interrupt(&self) -> Instant {
        let clock = self.clock.map_or(Instant::NEVER, |clock| clock.next);
        let Some(soft) = &self.soft else { return clock };
        let timer = soft.timer.map_or(Instant::NEVER, |timer| timer.next);
        clock.min(timer).min(soft.one_shot_at)
    }

    /// Runs the interrupt of a handlers' timer, if it is due.
    fn timers_interrupt(&mut self) -> bool {
        let now = self.now;
        let Some(soft) = &mut self.soft else { return false };
        let (price, then) = match &mut soft.timer {
            Some(timer) if timer.next <= now => {
                timer.interrupt(now);
                (timer.timer.interrupt, Then::Dispatch)
            }
            _ if soft.one_shot_at <= now => {
                soft.one_shot_at = Instant::NEVER;
                (soft.one_shot, Then::Overdue)
            }
            _ => return false,
        };
        self.counters.units += 1;
        self.begin_own(Level::Interrupt, price, then);
        true
    }

    fn is_dispatched(&self) -> bool {
        self.soft.as_ref().is_some_and(|soft| soft.timer.is_some_and(|timer| timer.dispatched))
    }

    /// Runs the work that a timer's interrupt has dispatched, and returns whether it did. Waiting devices
    /// and protocol input go first, so that a timer cannot starve them.
    fn dispatched(&mut self) -> bool {
        let is_free = self.suspended.iter().all(|busy| busy.ran.level > Level::SoftInterrupt);
        let waits = self.host.peek(self.now).is_some_and(|next| next.level <= Level::SoftInterrupt);
        if !is_free || waits || !self.is_dispatched() {
            return false;
        }
        if let Some(timer) = &mut self.soft_mut().timer {
            timer.dispatched = false;
        }
        self.call(Level::SoftInterrupt, |handlers, now, devices| handlers.periodic(now, devices));
        true
    }

    /// Calls handlers in a work item of their own, at that level.
    fn call(
        &mut self,
        level: Level,
        call: impl FnOnce(&mut dyn Handlers, Instant, &mut Devices) -> Duration,
    ) {
        if let Some(took) = self.handle(call) {
            self.begin_own(level, took, Then::Nothing);
        }
    }

    /// Calls the handlers. Returns the time that they took.
    fn handle(
        &mut self,
        call: impl FnOnce(&mut dyn Handlers, Instant, &mut Devices) -> Duration,
    ) -> Option<Duration> {
        let now = self.now;
        let Soft { handlers, devices, one_shot_at, polled, .. } = self.soft.as_mut()?;
        let took = call(handlers.as_mut(), now, devices);
        *one_shot_at = handlers.one_shot().unwrap_or(Instant::NEVER);
        for (index, frame) in devices.sent.drain(..) {
            self.wires[index].send(frame, now);
        }
        for (index, frame) in devices.found.drain(..) {
            *polled = true;
            self.wires[index].arrive(&frame);
        }
        for (index, count) in devices.found_left.drain(..) {
            *polled = true;
            self.wires[index].complete(count);
        }
        Some(took)
    }

    fn begin_own(&mut self, level: Level, left: Duration, then: Then) {
        let ran = Completed { level, process: None, payer: None, limited: false, protocol: false };
        let left = left.max(Duration::from_nanos(1));
        let (stages, states) = (Stages::default(), VecDeque::new());
        self.running = Some(Busy { ran, left, stages, frames_up_to: None, states, then });
    }

    /// Passes a trigger state of the running unit. The time of the handlers passes before the rest of the
    /// unit.
    fn pass_state(&mut self) -> bool {
        let Some(busy) = &mut self.running else { return false };
        let Some((_, source)) = busy.states.pop_front_if(|(left, _)| *left >= busy.left) else {
            return false;
        };
        let took = self.handle(|handlers, now, devices| handlers.trigger(now, source, devices));
        if let (Some(busy), Some(took)) = (&mut self.running, took) {
            busy.left += took;
            busy.stages.delay(took);
        }
        true
    }

    /// Returns the time at which the loop of an idle CPU next finds an event due; [`Instant::NEVER`] if the
    /// CPU is not idle or no event is scheduled.
    fn next_look(&self) -> Instant {
        let Some(Soft { handlers, spin, idle_since: Some(since), .. }) = &self.soft else {
            return Instant::NEVER;
        };
        let Some(due) = handlers.next_due() else { return Instant::NEVER };
        // At its last turn the loop has called the handlers already.
        let from = self.now.since(*since).as_nanos() / spin.as_nanos() + 1;
        let rounds = due.since(*since).as_nanos().div_ceil(spin.as_nanos()).max(from);
        *since + Duration::from_nanos((rounds * spin.as_nanos()) as u64)
    }

    /// Calls the handlers from the idle loop, at the end of a turn.
    fn look(&mut self) -> bool {
        let now = self.now;
        let Some(soft) = &mut self.soft else { return false };
        let Some(since) = soft.idle_since else {
            soft.idle_since = Some(now);
            return false;
        };
        let is_round = now > since && now.since(since).as_nanos().is_multiple_of(soft.spin.as_nanos());
        if !is_round || soft.handlers.next_due().is_none_or(|due| due > now) {
            return false;
        }
        soft.idle_since = None;
        self.call(Level::Idle, |handlers, now, devices| handlers.trigger(now, Source::Idle, devices));
        true
    }

    /// Runs the clock interrupt, if it is due.
    fn tick(&mut self) -> bool {
        let Some(clock) = self.clock.as_mut().filter(|clock| clock.next <= self.now) else { return false };
        clock.next += clock.period;
        self.counters.units += 1;
        self.profile.record_one(Work::Clock, &self.costs);
        self.begin_own(Level::Interrupt, self.costs.of(Work::Clock), Then::Nothing);
        if let (Some(busy), Some(_)) = (&mut self.running, &self.soft) {
            busy.states.push_back((Duration::ZERO, Source::Clock));
        }
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

    /// Starts or resumes the next work. Returns false, and halts, if there is none.
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
        let mut left = self.costs.total(self.host.work());
        self.profile.record(self.host.work(), &self.costs);
        let mut stages = Stages::default();
        if let Some(timeline) = &mut self.timeline {
            stages = Stages::of(self.host.work(), &self.costs);
            stages.pass(self.now, Duration::ZERO, timeline);
        }
        let (frames_up_to, clocked) = self.collect();
        let mut states = VecDeque::new();
        if let Some(soft) = &mut self.soft {
            let (log, costs) = (self.host.work(), &self.costs);
            left += soft.device_entry * log.count(Work::Interrupt);
            left = left.saturating_sub(soft.saved(log, costs, clocked)).max(Duration::from_nanos(1));
            let traps = self.traps.as_mut().is_some_and(|(traps, before)| {
                let now = traps.get();
                std::mem::replace(before, now) < now
            });
            states = trigger::states(ran.level, log, traps, costs, clocked);
            soft.idle_since = None;
        }
        self.running = Some(Busy { ran, left, stages, frames_up_to, states, then: Then::Nothing });
        true
    }

    fn resume_unit(&mut self) -> bool {
        self.running = self.suspended.pop();
        self.running.is_some()
    }

    fn resume_step(&mut self, process: ProcessId) -> bool {
        // Suspended protocol processing came after the step of the program, and ends before it.
        let Some(index) = self.steps.iter().rposition(|(p, _)| *p == process) else { return false };
        let (_, mut busy) = self.steps.remove(index);
        self.host.resume(process);
        let switch = self.costs.total(self.host.work());
        self.profile.record(self.host.work(), &self.costs);
        busy.left += switch;
        busy.stages.delay(switch);
        self.running = Some(busy);
        true
    }

    /// Returns true if something is pending after all.
    fn halt(&mut self) -> bool {
        // Interrupts are on from here. Earlier events are raised now, or they would be lost.
        if self.soft.as_mut().is_some_and(|soft| soft.devices.turn_interrupts_on()) {
            self.handle(|_, _, _| Duration::ZERO);
            self.soft_mut().polled = false;
            return self.host.peek(self.now).is_some();
        }
        if self.host.halt(self.now) {
            self.counters.halts += 1;
            return false;
        }
        self.host.peek(self.now).is_some()
    }

    /// Takes the frames that the host has put on its cables. Returns the number of frames sent since the
    /// start, if there are new ones, and the number of frames that wait for a handler to send them.
    fn collect(&mut self) -> (Option<u64>, u32) {
        let (before, mut clocked) = (self.held.len(), 0);
        for (index, wire) in self.wires.iter_mut().enumerate() {
            while let Some(frame) = wire.take() {
                let at_once = match &mut self.soft {
                    Some(soft) => soft.devices.clocks(index, frame),
                    None => Some(frame),
                };
                clocked += u32::from(at_once.is_none());
                self.held.extend(at_once.map(|frame| (index, frame)));
            }
        }
        let count = (self.held.len() - before) as u64;
        self.handed_over += count;
        ((count > 0).then_some(self.handed_over), clocked)
    }
}

impl Busy {
    /// Returns the time until the unit is over, or in a trigger state before.
    fn to_next_state(&self) -> Duration {
        let left_then = self.states.front().map_or(Duration::ZERO, |(left, _)| *left);
        self.left.saturating_sub(left_then)
    }
}
