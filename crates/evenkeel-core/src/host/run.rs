//! The host: it chooses the next work item, runs it, and charges its time.

use super::work_item::{Completed, Level, Next, WorkItem};
use crate::config::PaperPolicies;
use crate::deadline::{Deadline, Due};
use crate::id::{Fd, ProcessId};
use crate::poll::FeedbackBy;
use crate::process::{Body, Process, Sleep, SleepsOn, Step};
use crate::system::System;
use crate::time::{Duration, Instant};
use crate::trigger::Trigger;
use crate::trigger::Within;
use crate::work::{Work, WorkLog};

use crate::config::Config;
use crate::deadline::Sleepers;
use crate::frame::PoolLimit;
use crate::net::Net;
use crate::schedule::Scheduler;

/// The network subsystem of one core. The [module's description](crate::host) gives the order of calls.
///
/// Time never goes back: each `now` must be at least the previous one.
#[derive(Debug)]
pub struct Host {
    pub(super) net: Net,
    pub(super) processes: Vec<Option<Process>>,
    pub(super) scheduler: Scheduler,
    /// Processes that sleep until a certain time.
    pub(super) sleepers: Sleepers,
    /// The process that ran last. It continues unless another process precedes it.
    pub(super) current: Option<ProcessId>,
    /// Whether a software interrupt is being served. Further frames then need no new dispatch.
    pub(super) in_soft_interrupt: bool,
    pub(super) cpu: [Duration; Level::ALL.len()],
    /// The lowest level whose work items run.
    pub(super) lowest: Level,
    /// Whether calls of other threads follow soon.
    pub(super) calls_follow: bool,
}

impl Host {
    /// Creates a host with no interface and no program.
    ///
    /// # Errors
    /// [`PoolLimit`] if `config.memory_pkts` is too small for the host's own queues.
    pub fn new(config: Config) -> Result<Self, PoolLimit> {
        let scheduler = Scheduler::new(config.scheduler);
        let mut host = Self {
            net: Net::new(config)?,
            processes: Vec::new(),
            scheduler,
            sleepers: Sleepers::new(),
            current: None,
            in_soft_interrupt: false,
            cpu: [Duration::ZERO; Level::ALL.len()],
            lowest: Level::Idle,
            calls_follow: false,
        };
        let daemons: Vec<_> = host.net.rx.daemons(&host.net.config, host.net.plan.is_lazy()).collect();
        for (name, nice, channel) in daemons {
            let process = host.admit(name, nice, Body::Daemon(channel));
            host.net.rx.channels.set_reader(channel, process);
        }
        Ok(host)
    }

    /// Returns the work item that runs next. Changes nothing, so a call has no effect on the order of work
    /// items.
    pub(super) fn select(&self, now: Instant) -> Option<WorkItem> {
        if now >= self.next_deadline() {
            return Some(WorkItem::Clock);
        }
        if self.net.rx.channels.has_interrupt() || self.net.links.has_channel_interrupt() {
            return Some(WorkItem::ChannelInterrupt);
        }
        if let Some(port) = self.net.links.interrupting_port(&self.net.poller) {
            return Some(WorkItem::Device(port));
        }
        if !self.net.rx.ip_queue.is_empty() {
            return Some(WorkItem::SoftInterrupt);
        }
        if self.net.has_segments_to_send() {
            return Some(WorkItem::Segments);
        }
        if let Some(port) = self.net.links.low_interrupting_port(&self.net.poller) {
            return Some(WorkItem::Transmitted(port));
        }
        if self.net.poller.is_runnable() {
            return Some(WorkItem::Poll);
        }
        if self.lowest >= Level::Process
            && let Some(process) = self.scheduler.pick(self.current)
        {
            return Some(WorkItem::Process(process));
        }
        if self.net.links.coalesces() && !self.calls_follow {
            return Some(WorkItem::Transmit);
        }
        if self.net.poller.is_runnable_when_idle() {
            return Some(WorkItem::Poll);
        }
        (self.lowest == Level::Idle && self.net.rx.channels.has_listed()).then_some(WorkItem::Idle)
    }

    /// Sets the lowest level whose work items run from now on. A driver that leaves processes to others sets
    /// [`Level::PollingThread`].
    pub const fn run_down_to(&mut self, lowest: Level) {
        self.lowest = lowest;
    }

    /// Returns the lowest level whose work items run.
    #[must_use]
    pub const fn lowest(&self) -> Level {
        self.lowest
    }

    /// Returns whether a process of the host has work: a daemon, a program, or an attached process whose
    /// segments the host's scheduler has processed.
    #[must_use]
    pub fn has_runnable(&self) -> bool {
        self.scheduler.has_runnable()
    }

    /// Returns the work item that runs next. Also begins or ends the polling in idle time.
    #[inline]
    pub(super) fn select_and_settle(&mut self, now: Instant) -> Option<WorkItem> {
        let mut unit = self.select(now);
        if unit.is_none() && self.net.links.enter_idle() {
            unit = self.select(now);
        }
        if unit.is_some() {
            self.net.links.leave_idle(now);
        }
        unit
    }

    /// Returns the time at which usage next decays, if a process is runnable; else [`Instant::NEVER`].
    pub(super) fn decay_deadline(&self) -> Instant {
        if self.scheduler.has_runnable() { self.scheduler.next_deadline() } else { Instant::NEVER }
    }

    /// Calls `hear` with each part of the host that waits for a time, and its deadline. Excludes processes.
    #[inline]
    pub(super) fn each_deadline(&self, mut hear: impl FnMut(Deadline, Instant)) {
        self.net.each_deadline(&mut hear);
        hear(Deadline::Decay, self.decay_deadline());
    }

    /// Returns the work item that [`Host::turn`] would run, with its level. Returns `None` if there is
    /// nothing to do.
    ///
    /// Changes nothing. The result is exact once the deadlines are [settled](Host::settle_deadlines).
    #[must_use]
    pub fn peek(&self, now: Instant) -> Option<Next> {
        // An interface that the host polls while it is idle has its work item only if there is no other.
        let when_idle = || self.net.links.interrupting_port_when_idle(&self.net.poller).map(WorkItem::Device);
        let unit = self.select(now).or_else(when_idle)?;
        let process = if let WorkItem::Process(process) = unit { Some(process) } else { None };
        let resuming = process.is_some_and(|p| self.is_resuming(p));
        Some(Next { level: unit.level(), process, resuming })
    }

    /// Returns whether a process continues a step that has already begun.
    pub(super) fn is_resuming(&self, id: ProcessId) -> bool {
        let Some(process) = self.process(id) else { return false };
        process.protocol.stepping || process.stepping.is_some() && !self.is_protocol_next(id)
    }

    /// Returns whether a process would do protocol processing next.
    pub(super) fn is_protocol_next(&self, id: ProcessId) -> bool {
        self.net.tcp.has_segments(id) && self.process(id).is_some_and(Process::prefers_protocol)
    }

    /// Runs one work item of the highest level that has work. Its effects happen at once. [`Host::work`]
    /// lists them afterwards.
    ///
    /// Returns `None` if there is nothing to do, or only a suspended step to continue.
    pub fn turn(&mut self, now: Instant) -> Option<Completed> {
        self.turn_with(now, None)
    }

    /// Runs one work item as [`Host::turn`] does. The ends of the calls that a program makes are trigger
    /// states, which `trigger` handles.
    pub fn turn_with(&mut self, now: Instant, trigger: Option<&mut dyn Trigger>) -> Option<Completed> {
        self.net.tcp.settle_due(now);
        let unit = self.select_and_settle(now)?;
        self.net.work.clear();
        self.net.poller.roll(now);
        if !self.scheduler.has_runnable()
            && (unit == WorkItem::Idle || unit == WorkItem::Poll && !self.net.poller.is_runnable())
        {
            self.net.poller.idle();
        }
        let level = unit.level();
        // An interrupt is on the bill of whoever it happens to hit.
        let payer = match unit {
            WorkItem::Process(process) => Some(process),
            _ if level <= Level::SoftInterrupt => self.current.filter(|&p| self.scheduler.is_runnable(p)),
            _ => None,
        };
        let mut now = now;
        match unit {
            WorkItem::Clock => self.clock(now),
            WorkItem::Device(port) | WorkItem::Transmitted(port) => self.net.device_interrupt(port, now),
            WorkItem::ChannelInterrupt => self.net.channel_interrupt(),
            // What there is to send leaves at the end of this unit, as of every other.
            WorkItem::Segments => {}
            WorkItem::SoftInterrupt => {
                let dispatch = !core::mem::replace(&mut self.in_soft_interrupt, true);
                self.net.soft_interrupt(dispatch, now);
            }
            WorkItem::Poll => self.net.poll(now),
            WorkItem::Process(process) => now = self.step(process, now, trigger)?,
            WorkItem::Transmit => self.net.output(now).start(),
            WorkItem::Idle => self.net.idle_input(now),
        }
        self.net.notify_programs();
        self.send_segments(unit, now);
        self.net.output(now).transmit_batched();
        self.wake(now);
        let process = if let WorkItem::Process(p) = unit { Some(p) } else { None };
        let protocol = process.and_then(|p| self.process(p)).is_some_and(|p| p.protocol.stepping);
        Some(Completed { level, process, payer, limited: self.is_limited(unit), protocol })
    }

    /// Sends what TCP has to send, or defers it if it may soon be sent together with more.
    ///
    /// After protocol processing that wakes its own program, that program runs a step. The step will often
    /// answer, close, or make room in its window, and the acknowledgment then leaves with it (RFC 9293
    /// 3.8.6.3, RFC 1122 4.2.3.2). The acknowledgment waits for that step if it comes within a few work
    /// items.
    #[inline]
    pub(super) fn send_segments(&mut self, unit: WorkItem, now: Instant) {
        if !self.net.tcp.is_pending() {
            return;
        }
        if self.may_be_answered_soon(unit) && self.net.tcp.may_hold_segments() {
            self.net.tcp.hold_segments();
        } else {
            self.net.send_tcp(now);
        }
    }

    /// Returns whether protocol processing has ended the sleep of its own process, and the program has not
    /// run a step since.
    pub(super) fn may_be_answered_soon(&self, unit: WorkItem) -> bool {
        let held = self.net.tcp.holds_segments();
        let WorkItem::Process(id) = unit else { return held };
        let Some(process) = self.process(id).filter(|process| process.protocol.stepping) else {
            return false;
        };
        held || process.sleep.is_some() && self.net.sockets.ready.wakeups.has_process(id)
    }

    /// Continues a suspended step that [`Host::peek`] has returned, and makes its process the current one.
    /// [`Host::work`] then shows whether the host switched processes.
    pub fn resume(&mut self, process: ProcessId) {
        self.net.work.clear();
        self.switch_to(process);
    }

    /// Returns the log of the last work item.
    #[must_use]
    pub fn work(&self) -> &WorkLog {
        &self.net.work
    }

    pub(super) fn switch_to(&mut self, id: ProcessId) {
        self.scheduler.dispatch(self.current);
        if self.current != Some(id) {
            self.net.work.add(Work::Switch);
            self.current = Some(id);
        }
    }

    /// Runs a step of a process: its protocol processing or its program. Returns the time of the last trigger
    /// state in the step that had work, or else `now`. Returns `None` if the process had no step to begin.
    pub(super) fn step(
        &mut self,
        id: ProcessId,
        now: Instant,
        trigger: Option<&mut dyn Trigger>,
    ) -> Option<Instant> {
        if self.current != Some(id) && self.net.links.coalesces() {
            // What one process has sent does not wait for another.
            self.net.output(now).start();
        }
        self.switch_to(id);
        let protocol = self.is_protocol_next(id);
        let process = self.processes.get_mut(id.0 as usize)?.as_mut()?;
        if process.protocol.stepping {
            return None;
        }
        if protocol {
            process.protocol.stepping = true;
            self.scheduler.ran(id);
            self.net.process_segments(id, now);
            return Some(now);
        }
        if process.sleep.is_some() {
            // What it was to process, another has.
            self.scheduler.sleep(id, now);
            return None;
        }
        if process.stepping.is_some() {
            return None;
        }
        self.scheduler.ran(id);
        let mut body = core::mem::replace(&mut process.body, Body::Running);
        let mut end = now;
        let step = match &mut body {
            Body::Program(program) => {
                let Self { net, processes, .. } = self;
                let mut within = trigger.and_then(|trigger| Within::if_pending(trigger, net, processes));
                let mut system = System::new(net, id, now, within.as_mut());
                let step = program.step(&mut system);
                end = system.now();
                step
            }
            Body::Daemon(channel) => {
                self.net.daemon_step(*channel, now);
                Step::Again
            }
            Body::Attached | Body::Running => Step::Exit,
        };
        let read = self.net.sockets.last_read.take();
        let process = self.processes.get_mut(id.0 as usize)?.as_mut()?;
        process.reads = read.or(process.reads);
        process.body = body;
        process.stepping = Some(step);
        Some(end)
    }

    /// Handles the clock interrupt: runs the parts and wakes the processes whose deadlines have passed.
    pub(super) fn clock(&mut self, now: Instant) {
        let mut due = Due::default();
        self.each_deadline(|who, deadline| {
            if deadline <= now {
                due.insert(who);
            }
        });
        self.net.clock(due, now);
        // It may be overdue because nobody wanted the core for a while: then nobody waits for it.
        self.scheduler.tick(now);
        while let Some(process) = self.sleepers.poll_expired(now) {
            self.net.sockets.ready.wakeups.wake_process(process);
        }
    }

    pub(super) fn wake(&mut self, now: Instant) {
        self.wake_protocol(now);
        (0..self.net.sockets.ready.wakeups.take_count()).for_each(|_| self.net.work.add(Work::Wakeup));
        self.net.sockets.ready.wakeups.wake_outside();
        while let Some(id) = self.net.sockets.ready.wakeups.next_process() {
            let Some(Some(process)) = self.processes.get_mut(id.0 as usize) else { continue };
            // A thread outside is woken by its own waker.
            if matches!(process.body, Body::Attached) {
                continue;
            }
            if let Some(sleep) = process.sleep.take() {
                self.sleepers.cancel(id);
                match sleep.on {
                    SleepsOn::Nothing => {}
                    SleepsOn::Socket(socket) => self.net.sockets.ready.forget_process(socket, id),
                    SleepsOn::Call => self.net.sockets.ready.end_sleep(id),
                }
                self.scheduler.wake(id, now);
            }
        }
    }

    /// Makes processes with segments to process runnable, whatever their programs wait for.
    pub(super) fn wake_protocol(&mut self, now: Instant) {
        while let Some(id) = self.net.tcp.called.pop() {
            if self.process(id).is_some() {
                if !self.scheduler.is_runnable(id) {
                    self.net.work.add(Work::Wakeup);
                }
                self.scheduler.wake(id, now);
            }
        }
    }

    /// Wakes a process from outside the host, for an event that the host cannot see.
    pub fn wake_process(&mut self, process: ProcessId, now: Instant) {
        self.net.sockets.ready.wakeups.wake_process(process);
        self.wake(now);
    }

    /// Returns whether a work item is receive work, which counts against the cycle limit.
    pub(super) fn is_limited(&self, unit: WorkItem) -> bool {
        let PaperPolicies { limit_interrupts, limit_counts_interrupts, .. } = self.net.config.paper_policies;
        match unit {
            WorkItem::Poll => true,
            WorkItem::Device(port) => {
                limit_interrupts || (limit_counts_interrupts && self.net.links.is_polled(port))
            }
            WorkItem::Clock
            | WorkItem::ChannelInterrupt
            | WorkItem::SoftInterrupt
            | WorkItem::Segments
            | WorkItem::Transmitted(_)
            | WorkItem::Transmit => limit_interrupts,
            WorkItem::Process(_) | WorkItem::Idle => false,
        }
    }

    /// Charges the time of a work item to its level, and to the process that pays for it.
    pub fn charge(&mut self, ran: &Completed, elapsed: Duration) {
        self.cpu[ran.level as usize] += elapsed;
        self.net.poller.charge(elapsed, ran.limited);
        if ran.level == Level::PollingThread {
            self.net.poller.charge_callback(elapsed);
            self.charge_discards(elapsed);
        }
        let Some(payer) = ran.payer else { return };
        self.scheduler.charge(payer, self.by_queue_length(payer, elapsed));
        let both = ran.protocol || self.net.tcp.has_segments(payer);
        if let Some(Some(process)) = self.processes.get_mut(payer.0 as usize) {
            process.bill.charged += elapsed;
            if ran.process == ran.payer {
                process.bill.used += elapsed;
                if both {
                    process.balance(ran.protocol, elapsed);
                }
            }
        }
    }

    /// Charges the part of the polling thread's time that went to discarded frames. Discarding has a share of
    /// the core. The process that the frames were for pays for the excess.
    pub(super) fn charge_discards(&mut self, elapsed: Duration) {
        let Some((source, spent, receiver)) = self.net.spent_on_discards(elapsed) else { return };
        let fair_percent = self.scheduler.fair_percent(receiver);
        let pays = self.net.poller.charge_discards(source, spent, fair_percent);
        // One that sleeps wants nothing of the core, so there is nothing to pay with.
        let receiver =
            receiver.filter(|&receiver| pays > Duration::ZERO && self.scheduler.is_runnable(receiver));
        let Some(receiver) = receiver else { return };
        self.scheduler.charge(receiver, pays);
        if let Some(Some(process)) = self.processes.get_mut(receiver.0 as usize) {
            process.bill.charged += pays;
        }
    }

    /// Charges time that was spent on the host's behalf outside its work items. The time counts at
    /// [`Level::Process`], and no process pays for it.
    pub fn charge_control(&mut self, elapsed: Duration) {
        self.cpu[Level::Process as usize] += elapsed;
    }

    /// Returns the time that the scheduler charges a process for `elapsed`. Without feedback by queue length,
    /// this is all of it. With it, the charge falls as the queue that the process reads fills.
    pub(super) fn by_queue_length(&self, process: ProcessId, elapsed: Duration) -> Duration {
        if self.net.config.feedback.is_none_or(|f| f.by != FeedbackBy::Length) {
            return elapsed;
        }
        let filled_percent = match self.process(process) {
            Some(Process { body: Body::Daemon(channel), .. }) => {
                self.net.rx.channels.filled_percent(*channel)
            }
            Some(Process { reads: Some(queue), .. }) => {
                self.net.sockets.filled_percent(*queue, &self.net.rx.channels)
            }
            _ => 0,
        };
        elapsed * 100 / (100 + 3 * u32::from(filled_percent))
    }

    /// Ends a work item. A process that asked to sleep now sleeps, unless the event that it waits for has
    /// already come.
    pub fn finish(&mut self, ran: &Completed, now: Instant) {
        if ran.level == Level::SoftInterrupt {
            // It returns when the IP queue is empty; while it is not, frames that come meanwhile need no new
            // dispatch.
            self.in_soft_interrupt = !self.net.rx.ip_queue.is_empty();
        }
        if ran.level == Level::PollingThread {
            self.net.links.finish_poll(&mut self.net.poller, now);
        }
        self.net.links.finish_interrupt();
        let Some(id) = ran.process else { return };
        if ran.protocol {
            return self.finish_protocol(id, now);
        }
        let Some(process) = self.processes.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        let daemon = if let Body::Daemon(channel) = process.body { Some(channel) } else { None };
        let step = process.stepping.take();
        if !matches!(step, Some(Step::Block(_))) {
            self.net.sockets.ready.leave_call(id);
        }
        match (step, daemon) {
            (Some(Step::Again), None) | (None, _) => {}
            (Some(Step::Wait(fd)), _) => self.wait_for(id, fd, Instant::NEVER, now),
            (Some(Step::WaitUntil(fd, until)), _) => self.wait_for(id, fd, until, now),
            (Some(Step::Block(until)), _) => self.block(id, until, now),
            (Some(Step::Sleep(until)), _) => {
                if until > now {
                    self.put_to_sleep(id, Sleep { on: SleepsOn::Nothing, until }, now);
                }
            }
            (Some(Step::Exit), None) => self.kill(id, now),
            (Some(Step::Again | Step::Exit), Some(channel)) => {
                if !self.net.sockets.arm_daemon(channel, &mut self.net.rx.channels) {
                    self.put_to_sleep(id, Sleep { on: SleepsOn::Nothing, until: Instant::NEVER }, now);
                }
            }
        }
    }

    /// Ends a step of protocol processing. After the last such step, the process sleeps if its program
    /// sleeps.
    pub(super) fn finish_protocol(&mut self, id: ProcessId, now: Instant) {
        let more = self.net.tcp.has_segments(id);
        let Some(Some(process)) = self.processes.get_mut(id.0 as usize) else { return };
        process.protocol.stepping = false;
        if more {
            return;
        }
        process.protocol.ahead = 0;
        if process.sleep.is_some() {
            self.scheduler.sleep(id, now);
        }
    }

    pub(super) fn wait_for(&mut self, id: ProcessId, fd: Fd, until: Instant, now: Instant) {
        if until > now
            && let Some(socket) = self.net.readiness().arm_descriptor(fd, id)
        {
            self.put_to_sleep(id, Sleep { on: SleepsOn::Socket(socket), until }, now);
        }
    }

    /// Puts a process to sleep in its call, unless that call would already find something.
    pub(super) fn block(&mut self, id: ProcessId, until: Instant, now: Instant) {
        if until > now && !self.net.sockets.ready.is_call_over(id) {
            self.put_to_sleep(id, Sleep { on: SleepsOn::Call, until }, now);
        }
    }

    pub(super) fn put_to_sleep(&mut self, id: ProcessId, sleep: Sleep, now: Instant) {
        self.sleepers.set(id, sleep.until);
        if let Some(Some(process)) = self.processes.get_mut(id.0 as usize) {
            process.sleep = Some(sleep);
            process.protocol.ahead = 0;
        }
        if !self.net.tcp.has_segments(id) {
            self.scheduler.sleep(id, now);
        }
    }

    /// Computes the exact deadlines, which a busy host does not keep up to date. They stay exact until the
    /// next work item or call.
    pub fn settle_deadlines(&mut self) {
        self.net.tcp.settle_deadline();
    }

    /// Returns the time at which the host next has work even if nothing arrives. The time is exact once the
    /// host has [halted](Host::halt), or its deadlines are [settled](Host::settle_deadlines). Before that it
    /// may be too early: [`Host::turn`] then finds nothing to do.
    #[must_use]
    #[inline]
    pub fn next_deadline(&self) -> Instant {
        self.sleepers.next_deadline().min(self.net.next_deadline()).min(self.decay_deadline())
    }

    /// Returns the earliest deadline that must be met exactly: the time at which a paced segment leaves.
    /// Other deadlines may be late by the time that waking a halted core takes. The result is as exact as
    /// [`Host::next_deadline`], which is never later.
    #[must_use]
    #[inline]
    pub const fn exact_deadline(&self) -> Instant {
        self.net.tcp.next_paced()
    }

    /// Sends the frames that are batched between work items. A driver calls this method before it does
    /// something else.
    pub fn start_output(&mut self, now: Instant) {
        if self.net.links.coalesces() {
            self.net.output(now).start();
        }
    }

    /// Enables the interrupts of all interfaces before the driver halts. Returns `false` if work is pending
    /// after all.
    pub fn halt(&mut self, now: Instant) -> bool {
        if !self.scheduler.has_runnable() {
            self.net.poller.idle();
        }
        self.net.links.enter_idle();
        let pending = self.net.arm();
        self.wake_protocol(now);
        self.net.tcp.settle_deadline();
        !pending && self.select(now).is_none()
    }
}
