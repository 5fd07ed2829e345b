//! Processes of a host: starting, attaching and ending them, and calls from outside the host.

use super::run::Host;
use super::work_item::Level;
use crate::config::Config;
use crate::id::ProcessId;
use crate::net::Uncalled;
use crate::process::NotAttached;
use crate::process::{Bill, Body, Process, Program, Protocol, Sleep, SleepsOn, is_attached};
use crate::system::System;
use crate::tcp::Secret;
use crate::time::{Duration, Instant};
use crate::trigger::Trigger;
use crate::trigger::{Within, pass_state};

impl Host {
    /// Sets the host's secret ([`Config::secret`]), and returns whether it was set. A host keeps a configured
    /// secret. A host that has used TCP also keeps its secret, because numbers and cookies that it has sent
    /// depend on it.
    pub fn set_secret(&mut self, secret: Secret) -> bool {
        self.net.set_secret(secret)
    }

    /// Starts a program as a new process. `nice` ranges from -20 to 20, as in UNIX.
    pub fn spawn(&mut self, name: &str, nice: i8, program: Box<dyn Program>) -> ProcessId {
        self.admit(name, nice, Body::Program(program))
    }

    /// Registers a thread outside the host as a process. The thread makes its calls through [`Host::enter`].
    /// The process has sockets, a share of the core for its protocol processing, and a bill, as any other.
    /// [`Host::kill`] ends it.
    pub fn attach(&mut self, name: &str, nice: i8, now: Instant) -> ProcessId {
        let id = self.admit(name, nice, Body::Attached);
        self.put_to_sleep(id, Sleep { on: SleepsOn::Nothing, until: Instant::NEVER }, now);
        id
    }

    /// Registers threads outside the host as one process, as [`Host::attach`] does. Its TCP segments wait for
    /// a call on the socket that they are for: the thread that makes the call processes them. One of the
    /// threads that [wait](System::wait) for the socket is woken to make it.
    ///
    /// Segments that no thread waits for need somebody who [stands in](Host::stand_in) for the calls.
    pub fn attach_callers(&mut self, name: &str, now: Instant) -> ProcessId {
        let id = self.attach(name, 0, now);
        self.net.tcp.processing_of(id).in_calls = true;
        id
    }

    /// Returns what waits longest for a call of a process of [callers](Host::attach_callers). Two equal
    /// results mean that no call has come for it in between.
    pub fn uncalled(&mut self, process: ProcessId) -> Option<Uncalled> {
        self.net.tcp.first_uncalled(process, &self.net.rx.channels).map(Uncalled)
    }

    /// Processes segments that wait for calls of a process of [callers](Host::attach_callers), at most one
    /// work item of them. Returns whether more wait.
    pub fn stand_in(&mut self, process: ProcessId, now: Instant) -> bool {
        self.net.work.clear();
        self.net.process_segments(process, now);
        self.after_calls(now);
        self.uncalled(process).is_some()
    }

    /// Makes the calls in `call` as an [attached](Host::attach) process, for a thread outside the host. First
    /// processes segments that have arrived for that process, at most one work item of them. Frames that
    /// result from the calls leave before this method returns.
    ///
    /// Call it between two work items. [`Host::charge_process`] charges the time that it took.
    ///
    /// # Errors
    /// [`NotAttached`] if `process` is not attached; `call` was not called then.
    pub fn enter<T>(
        &mut self,
        process: ProcessId,
        now: Instant,
        call: impl FnOnce(&mut System<'_>) -> T,
    ) -> Result<T, NotAttached> {
        self.enter_with(process, now, None, call)
    }

    /// Makes calls as [`Host::enter`] does. The ends of these calls are trigger states, which `trigger`
    /// handles.
    ///
    /// # Errors
    /// [`NotAttached`] if `process` is not attached; `call` was not called then.
    pub fn enter_with<T>(
        &mut self,
        process: ProcessId,
        now: Instant,
        trigger: Option<&mut dyn Trigger>,
        call: impl FnOnce(&mut System<'_>) -> T,
    ) -> Result<T, NotAttached> {
        if !is_attached(&self.processes, process) {
            return Err(NotAttached);
        }
        self.net.work.clear();
        if self.net.tcp.has_segments(process) && !self.net.tcp.processes_in_calls(process) {
            self.net.process_segments(process, now);
            self.net.notify_programs();
        }
        let Self { net, processes, .. } = self;
        let mut within = trigger.and_then(|trigger| Within::if_pending(trigger, net, processes));
        let mut system = System::new(net, process, now, within.as_mut());
        let result = call(&mut system);
        let now = system.now();
        self.net.sockets.last_read = None;
        self.after_calls(now);
        Ok(result)
    }

    /// Handles a trigger state between two work items: runs the handlers of due soft events, and sends due
    /// paced segments. Frames that result leave before this method returns.
    ///
    /// A program may be in the middle of a step: the effects of the step are done, but its time is not over.
    pub fn trigger(&mut self, now: Instant, trigger: &mut dyn Trigger) {
        pass_state(trigger, &mut self.net, &self.processes, now);
        self.after_calls(now);
    }

    /// Completes calls that were not part of a program's step: notifies programs, sends what TCP and the
    /// interfaces have to send, and wakes processes.
    pub(super) fn after_calls(&mut self, now: Instant) {
        self.net.notify_programs();
        self.net.send_tcp(now);
        if self.calls_follow && now < self.net.links.next_start() {
            self.net.output(now).transmit_batched();
        } else {
            self.net.output(now).transmit();
            self.start_output(now);
        }
        self.wake(now);
    }

    /// Sets whether calls of other threads follow soon, so that frames of calls may form a batch with theirs.
    /// A thread that has been woken and has not made its call yet is a reason. Frames wait for 50 µs at
    /// most, if anybody makes calls or runs the host by then.
    pub const fn expect_calls(&mut self, calls_follow: bool) {
        self.calls_follow = calls_follow;
    }

    /// Returns whether calls of other threads follow soon.
    #[must_use]
    pub const fn expects_calls(&self) -> bool {
        self.calls_follow
    }

    /// Charges a process for time that it used outside work items, in [`Host::enter`].
    pub fn charge_process(&mut self, process: ProcessId, elapsed: Duration) {
        self.cpu[Level::Process as usize] += elapsed;
        self.scheduler.charge(process, elapsed);
        if let Some(Some(process)) = self.processes.get_mut(process.0 as usize) {
            process.bill.charged += elapsed;
            process.bill.used += elapsed;
        }
    }

    pub(super) fn admit(&mut self, name: &str, nice: i8, body: Body) -> ProcessId {
        let process = Process {
            name: name.to_owned(),
            body,
            bill: Bill::default(),
            sleep: None,
            stepping: None,
            reads: None,
            protocol: Protocol::default(),
        };
        let index = self.processes.len();
        self.processes.push(Some(process));
        let id = ProcessId(index as u32);
        self.scheduler.admit(id, nice);
        id
    }

    /// Wakes all threads and tasks that wait for sockets: nothing comes any more, which their calls report.
    pub fn wake_waiters(&mut self, now: Instant) {
        self.net.sockets.ready.wake_all_waiters();
        self.wake(now);
    }

    /// Ends a process and closes its sockets. What was queued in them is dropped and counted.
    pub fn kill(&mut self, id: ProcessId, now: Instant) {
        for socket in self.net.sockets.descriptors.of(id).collect::<Vec<_>>() {
            crate::system::close(&mut self.net, socket, now);
        }
        self.net.sockets.ready.exit(id);
        self.net.activation().end_processing(id);
        self.net.notify_programs();
        self.net.send_tcp(now);
        self.net.output(now).transmit();
        self.scheduler.retire(id);
        self.sleepers.forget(id);
        if let Some(process) = self.processes.get_mut(id.0 as usize) {
            *process = None;
        }
        // Closing may have woken others, and no unit need follow.
        self.wake(now);
    }

    pub(super) fn process(&self, id: ProcessId) -> Option<&Process> {
        self.processes.get(id.0 as usize)?.as_ref()
    }

    /// Returns the host's settings in effect.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.net.config
    }
}
