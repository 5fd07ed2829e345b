//! Trigger states: where handlers of soft events can be called as plain functions.
//!
//! Source: Aron and Druschel, "Soft timers: efficient microsecond software timer support for network
//! processing", ACM TOCS 18(3), 2000, section 3. A host reads no clock and knows no events: its driver does,
//! and passes them in.

use core::fmt;

use crate::id::ProcessId;
use crate::net::Net;
use crate::process::{NotAttached, Process, is_attached};
use crate::system::{BetweenCalls, System};
use crate::time::Instant;

/// A driver's clock and soft events, for the trigger states within a unit: they come at the end of every
/// call on a stream, and of every eighth other call that a program makes.
pub trait Trigger: fmt::Debug {
    /// Returns the time on the driver's clock.
    fn time(&self) -> Instant;

    /// Returns the time at which the next event is due; [`Instant::NEVER`] if there is none.
    fn next_due(&self) -> Instant;

    /// Calls the handlers of all that is due.
    fn call_due(&mut self, state: &mut TriggerState<'_>);
}

/// A host in a trigger state, for the handlers of soft events: between two units of work, or in the middle of
/// a program's step.
///
/// The step has begun and is not over, so the host can do nothing about its processes. What can be had in the
/// middle of it as well as between two units is what handlers get: calls, as processes that were
/// [attached](crate::host::Host::attach). What they send leaves at once. Whom it wakes runs when the step is
/// over.
#[derive(Debug)]
pub struct TriggerState<'a> {
    net: &'a mut Net,
    processes: &'a [Option<Process>],
    now: Instant,
}

impl<'a> TriggerState<'a> {
    const fn new(net: &'a mut Net, processes: &'a [Option<Process>], now: Instant) -> Self {
        Self { net, processes, now }
    }

    /// Returns the time of the trigger state.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Makes calls as a process that was [attached](crate::host::Host::attach). What it computes takes no
    /// time, and its calls are no trigger states.
    ///
    /// # Errors
    /// [`NotAttached`]: nothing was called.
    pub fn enter<T>(
        &mut self,
        process: ProcessId,
        call: impl FnOnce(&mut System<'_>) -> T,
    ) -> Result<T, NotAttached> {
        if !is_attached(self.processes, process) {
            return Err(NotAttached);
        }
        // What the program that is interrupted has read and is to compute stays its own.
        let (read, compute) = (self.net.sockets.last_read, self.net.work.compute);
        let result = call(&mut System::new(self.net, process, self.now, None::<&mut Within<'_>>));
        (self.net.sockets.last_read, self.net.work.compute) = (read, compute);
        Ok(result)
    }
}

/// The trigger states within a step.
#[derive(Debug)]
pub(crate) struct Within<'a> {
    trigger: &'a mut dyn Trigger,
    processes: &'a [Option<Process>],
}

impl<'a> Within<'a> {
    /// Returns the driver's work for a step, if anything is pending. Work that the step itself makes pending
    /// is handled when its work item is over.
    pub(crate) fn if_pending(
        trigger: &'a mut dyn Trigger,
        net: &Net,
        processes: &'a [Option<Process>],
    ) -> Option<Self> {
        let due = trigger.next_due().min(net.tcp.next_paced());
        (due != Instant::NEVER).then_some(Self { trigger, processes })
    }
}

impl BetweenCalls for Within<'_> {
    fn pass(&mut self, net: &mut Net) -> Option<Instant> {
        let now = self.trigger.time();
        if !pass_state(self.trigger, net, self.processes, now) {
            return None;
        }
        net.send_tcp(now);
        net.output(now).transmit();
        Some(now)
    }
}

/// Does what is due in a trigger state. Returns whether anything was.
pub(crate) fn pass_state(
    trigger: &mut dyn Trigger,
    net: &mut Net,
    processes: &[Option<Process>],
    now: Instant,
) -> bool {
    let (paces, is_due) = (net.tcp.next_paced() <= now, trigger.next_due() <= now);
    if paces {
        net.tcp.advance(now);
    }
    if is_due {
        trigger.call_due(&mut TriggerState::new(net, processes, now));
    }
    paces || is_due
}
