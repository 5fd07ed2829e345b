//! Units of a host in real time: charged by the clock, with trigger states at their ends, and interrupted
//! where a program computes for long.

use evenkeel_core::host::{Completed, Host, NotAttached, System, Trigger as _};
use evenkeel_core::process::ProcessId;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_link::Clock;

use crate::soft::{SPIN_BEFORE, SoftEvents};

/// The longest time that a program computes before the driver checks other work. A request to end the run
/// does not wait longer for it.
const SLICE: Duration = Duration::from_millis(1);
/// The shortest time that a program computes before the driver interrupts it for a soft event or a paced
/// segment. It leaves the program most of its time if a handler is due in every trigger state.
const SLICE_MIN: Duration = Duration::from_micros(5);

/// A host, the clock that its work is charged by, and the soft events of its trigger states.
#[derive(Debug)]
pub(crate) struct Units {
    pub(crate) host: Host,
    pub(crate) clock: Clock,
    pub(crate) soft: SoftEvents,
    /// The unit in which a program is computing.
    computing: Option<Computing>,
}

/// A unit that takes as long as its program asked for. The driver may interrupt it.
#[derive(Debug, Clone, Copy)]
struct Computing {
    ran: Completed,
    /// The time up to which the unit has been charged.
    charged: Instant,
    end: Instant,
}

impl Computing {
    /// Returns the time at which this slice of the unit ends. `exact` is the time of the next event that
    /// must be met exactly.
    fn slice_end(&self, exact: Instant) -> Instant {
        self.end.min(exact.max(self.charged + SLICE_MIN).min(self.charged + SLICE))
    }

    /// Leaves out time that the program has not had.
    fn postpone(&mut self, time: Duration) {
        self.charged += time;
        self.end += time;
    }
}

impl Units {
    pub(crate) fn new(host: Host, clock: Clock) -> Self {
        Self { host, clock, soft: SoftEvents::new(clock), computing: None }
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Returns whether a program is computing, so that nothing else may use the host.
    #[inline]
    pub(crate) const fn is_computing(&self) -> bool {
        self.computing.is_some()
    }

    /// Runs one unit, or at most [`SLICE`] of a unit in which a program computes for longer. Returns the
    /// time after it; `None` if no unit is pending. The end of either is a trigger state, and so are the
    /// ends of calls in the unit.
    pub(crate) fn turn(&mut self, now: Instant) -> Option<Instant> {
        if let Some(computing) = self.computing.take() {
            return Some(self.compute(computing));
        }
        let ran = self.host.turn_with(now, Some(&mut self.soft))?;
        let (compute, end) = (self.host.work().compute, self.clock.now());
        if compute.is_zero() {
            return Some(self.end_unit(&ran, end.since(now), end));
        }
        Some(self.compute(Computing { ran, charged: now, end: end + compute }))
    }

    fn compute(&mut self, computing: Computing) -> Instant {
        let Computing { ran, charged, end } = computing;
        let now = self.clock.spin_until(computing.slice_end(self.exact_deadline()));
        if now >= end {
            return self.end_unit(&ran, now.since(charged), now);
        }
        self.host.charge(&ran, now.since(charged));
        self.computing = Some(Computing { charged: now, ..computing });
        now
    }

    fn end_unit(&mut self, ran: &Completed, uncharged: Duration, end: Instant) -> Instant {
        self.host.charge(ran, uncharged);
        self.host.finish(ran, end);
        end
    }

    /// Continues the unit in which a program is computing until it is over.
    fn finish_computing(&mut self) {
        while let Some(computing) = self.computing.take() {
            let now = self.compute(computing);
            self.trigger(now);
        }
    }

    /// Makes calls as an attached process and charges their time to it. The end of the calls is a trigger
    /// state.
    pub(crate) fn enter<T>(
        &mut self,
        process: ProcessId,
        call: impl FnOnce(&mut System<'_>) -> T,
    ) -> Result<T, NotAttached> {
        self.finish_computing();
        let begin = self.clock.now();
        let result = self.host.enter_with(process, begin, Some(&mut self.soft), call)?;
        let end = self.clock.now();
        self.host.charge_process(process, end.since(begin));
        self.trigger(end);
        Ok(result)
    }

    /// Runs a trigger state: calls the handlers of soft events that are due. Returns the time after them.
    #[inline]
    pub(crate) fn trigger(&mut self, now: Instant) -> Instant {
        if self.soft.is_due(now) || self.is_computing() && self.host.exact_deadline() <= now {
            self.call_due(now)
        } else {
            now
        }
    }

    fn call_due(&mut self, now: Instant) -> Instant {
        self.host.trigger(now, &mut self.soft);
        // The packets that the handlers have sent leave now.
        self.host.start_output(now);
        let end = self.charge_control(now);
        if let Some(computing) = &mut self.computing {
            computing.postpone(end.since(now));
        }
        end
    }

    /// Charges the time since `begin` to the host itself. Returns the time now.
    pub(crate) fn charge_control(&mut self, begin: Instant) -> Instant {
        let end = self.clock.now();
        self.host.charge_control(end.since(begin));
        end
    }

    /// Returns the time of the next soft event or paced segment, which the core has to meet exactly.
    fn exact_deadline(&self) -> Instant {
        self.soft.next_due().min(self.host.exact_deadline())
    }

    /// Returns the time until which an idle core may halt; `None` if it has to spin.
    pub(crate) fn halt_until(&self, now: Instant) -> Option<Instant> {
        let exact = self.exact_deadline();
        if exact == Instant::NEVER {
            return Some(exact);
        }
        let until = Instant::from_nanos(exact.as_nanos().saturating_sub(SPIN_BEFORE.as_nanos() as u64));
        (until > now).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::process::{Program, Step};

    use super::*;
    use crate::Ended;
    use crate::test_host::engine;

    /// A program that computes for an hour in one step.
    #[derive(Debug)]
    struct Thinker;

    impl Program for Thinker {
        fn step(&mut self, system: &mut System<'_>) -> Step {
            system.compute(Duration::from_secs(3_600));
            Step::Exit
        }
    }

    #[test]
    fn a_program_that_computes_for_long_does_not_hold_up_the_end() {
        let mut engine = engine();
        engine.host_mut().spawn("thinker", 0, Box::new(Thinker));
        let processes = engine.host().processes().count();
        let start = engine.clock().now();
        let ran = Duration::from_millis(30);
        for n in 1..=3 {
            assert_eq!(engine.run(start + n * ran, |_| false).unwrap(), Ended::Time);
        }
        assert_eq!(engine.run(Instant::NEVER, |_| true).unwrap(), Ended::Done);
        let used = engine.host().cpu(evenkeel_core::host::Level::Process);
        assert!((2 * ran..Duration::from_secs(60)).contains(&used), "what was computed is charged: {used:?}");
        assert_eq!(engine.host().processes().count(), processes, "it has not come to its end");
    }
}
