//! Processes of a host: how they come, make calls from outside, and go.

use super::run::Host;
use super::work_item::Level;
use crate::config::Config;
use crate::id::ProcessId;
use crate::process::NotAttached;
use crate::process::{Bill, Body, Process, Program, Protocol, Sleep, SleepsOn, is_attached};
use crate::system::System;
use crate::tcp::Secret;
use crate::time::{Duration, Instant};
use crate::trigger::Trigger;
use crate::trigger::{Within, pass_state};

impl Host {
    /// Sets the host's secret, as in [`Config::secret`], and returns whether it could. A secret that was
    /// configured stays. So does that of a host which has used TCP: numbers and cookies that the host has
    /// sent depend on it.
    pub fn set_secret(&mut self, secret: Secret) -> bool {
        self.net.set_secret(secret)
    }

    /// Starts a program. `nice` from -20 to 20, as in UNIX.
    pub fn spawn(&mut self, name: &str, nice: i8, program: Box<dyn Program>) -> ProcessId {
        self.admit(name, nice, Body::Program(program))
    }

    /// Admits a process whose program is a thread outside: it enters the host to make its calls
    /// ([`Host::enter`]), and leaves again. It has sockets, a share of the core for its protocol processing,
    /// and a bill, as any other. [`Host::kill`] ends it.
    pub fn attach(&mut self, name: &str, nice: i8, now: Instant) -> ProcessId {
        let id = self.admit(name, nice, Body::Attached);
        self.put_to_sleep(id, Sleep { on: SleepsOn::Nothing, until: Instant::NEVER }, now);
        id
    }

    /// Makes calls, for a thread outside, as the process that it was [attached](Host::attach) as. Segments
    /// that have arrived for that process are processed first, at most one work item of them. Frames that
    /// result from the calls leave before this returns.
    ///
    /// To be called between two work items. [`Host::charge_process`] charges the time it took.
    ///
    /// # Errors
    /// [`NotAttached`]: nothing was called.
    pub fn enter<T>(
        &mut self,
        process: ProcessId,
        now: Instant,
        call: impl FnOnce(&mut System<'_>) -> T,
    ) -> Result<T, NotAttached> {
        self.enter_with(process, now, None, call)
    }

    /// Makes calls as [`Host::enter`] does, with trigger states at the ends of calls.
    ///
    /// # Errors
    /// [`NotAttached`]: nothing was called.
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
        if self.net.tcp.has_segments(process) {
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

    /// Handles a trigger state between two work items: handlers of soft events that are due make calls, and
    /// paced segments that are due leave. Resulting frames leave before this returns.
    ///
    /// A program may be in the middle of a step, whose effects are done and whose time is not over.
    pub fn trigger(&mut self, now: Instant, trigger: &mut dyn Trigger) {
        pass_state(trigger, &mut self.net, &self.processes, now);
        self.after_calls(now);
    }

    /// Completes calls that were not part of a program's step: notifies programs, sends what TCP and the
    /// interfaces have to send, and wakes processes.
    pub(super) fn after_calls(&mut self, now: Instant) {
        self.net.notify_programs();
        self.net.send_tcp(now);
        self.net.output(now).transmit();
        self.wake(now);
    }

    /// Charges a process for time that it has used outside of units: in [`Host::enter`].
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

    /// Ends a process; its sockets are closed, and what waited in them is counted.
    pub fn kill(&mut self, process: ProcessId, now: Instant) {
        self.exit(process, now);
    }

    pub(super) fn exit(&mut self, id: ProcessId, now: Instant) {
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
