//! The conduct of a core without work: whether it polls for a while before it halts, and whether it lets
//! frames coalesce.

use evenkeel_core::time::{Duration, Instant};

/// The time that an idle core with a cable polls for work before it halts. It is about the time that the
/// core needs to halt, be woken with a system call of the peer core, and resume. A core that polls for so
/// long loses at most as much again as if it had known the length of the pause (Karlin, Li, Manasse,
/// Owicki, "Empirical studies of competitive spinning for a shared-memory multiprocessor", SOSP 1991).
/// Without a cable the core halts at once: the kernel wakes the threads that wait for its devices, and may
/// need this very core to do so.
const BUSY_POLL: Duration = Duration::from_micros(20);

/// The conduct of a core without work.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    /// Whether the host has a cable. Its frames are visible without a system call, so the core polls before
    /// it halts.
    has_cable: bool,
    /// The time before which the core does not halt.
    busy_polls_until: Instant,
    /// The time for which frames coalesce.
    coalesce: Duration,
    /// Whether no unit has run since frames were last left to coalesce.
    has_coalesced: bool,
}

impl Idle {
    /// Records that the host has a cable.
    pub(crate) fn add_cable(&mut self) {
        self.has_cable = true;
    }

    /// Sets the time for which frames coalesce after all work is done.
    pub(crate) fn coalesce(&mut self, time: Duration) {
        self.coalesce = time;
    }

    /// Records that a unit, or a slice of one, has ended.
    #[inline]
    pub(crate) fn after_unit(&mut self, end: Instant) {
        self.has_coalesced = false;
        if self.has_cable && self.coalesce.is_zero() {
            self.busy_polls_until = end + BUSY_POLL;
        }
    }

    /// Returns whether the core polls on without halting.
    #[inline]
    pub(crate) fn is_busy_polling(&self, now: Instant) -> bool {
        now < self.busy_polls_until
    }

    /// Returns the time until which frames coalesce, once after every unit; `None` if they do not.
    pub(crate) fn coalesce_until(&mut self, now: Instant) -> Option<Instant> {
        let coalesces = !self.coalesce.is_zero() && !std::mem::replace(&mut self.has_coalesced, true);
        coalesces.then(|| now + self.coalesce)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::cable::{End, Options, pair};
    use evenkeel_core::frame::Pool;
    use evenkeel_core::interface::Interface as _;

    use super::*;
    use crate::test_host::{Listens, Spinner, engine, silent_device};
    use crate::{Ended, Engine};

    /// Adds one end of a cable to the engine and returns the other to the test.
    fn plug_in(engine: &mut Engine) -> End {
        let (mut wire, end) = pair(Options::new("wire", 1), Options::new("host", 2));
        wire.attach(&mut Pool::with_limit(1_024)).unwrap();
        engine.add_cable(end, &[]).unwrap();
        wire
    }

    #[test]
    fn a_core_with_a_cable_busy_polls_for_a_while_after_every_unit() {
        let mut engine = engine();
        let _wire = plug_in(&mut engine);
        engine.add_device(Box::new(silent_device("beside-a-cable")), &[]).unwrap();
        assert_eq!(engine.driver.idle.busy_polls_until, Instant::ZERO);
        engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        for _ in 0..3 {
            let end = engine.driver.turn(engine.clock().now()).unwrap();
            assert_eq!(engine.driver.idle.busy_polls_until, end + BUSY_POLL);
        }
    }

    #[test]
    fn a_core_without_a_cable_and_one_that_lets_frames_gather_do_not_busy_poll() {
        let with_device = |engine: &mut Engine| {
            engine.add_device(Box::new(silent_device("alone")), &[]).unwrap();
        };
        let gathering = |engine: &mut Engine| {
            plug_in(engine);
            engine.gather(Duration::from_micros(50));
        };
        for equip in [with_device, gathering] {
            let mut engine = engine();
            equip(&mut engine);
            engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
            assert!(engine.driver.turn(engine.clock().now()).is_some());
            assert_eq!(engine.driver.idle.busy_polls_until, Instant::ZERO);
        }
    }

    /// The engine calls `done` as often as it can; during the second call a frame arrives.
    #[test]
    fn what_comes_while_a_core_busy_polls_is_served_without_halting() {
        let mut engine = engine();
        let mut wire = plug_in(&mut engine);
        while engine.driver.turn(engine.clock().now()).is_some() {}
        // However long the operating system may keep this thread from its core, the while is not over.
        engine.driver.idle.busy_polls_until = Instant::NEVER;
        engine.look_every(Duration::ZERO);
        let mut asked = 0;
        let until = engine.clock().now() + Duration::from_secs(10);
        let ended = engine.run(until, |host| {
            asked += 1;
            if asked == 2 {
                assert!(wire.send(&[0; 60]));
                wire.flush();
            }
            host.ledger().received == 1
        });
        assert_eq!((ended.unwrap(), engine.halted()), (Ended::Done, Duration::ZERO));
    }

    #[test]
    fn a_core_that_has_busy_polled_halts() {
        let mut engine = engine();
        let _wire = plug_in(&mut engine);
        engine.host_mut().spawn("listens", 0, Box::new(Listens));
        // The operating system may keep this thread from its core for all of such a time, but not again and
        // again.
        let halts = (0..2_000).any(|_| {
            let until = engine.clock().now() + Duration::from_millis(1);
            assert_eq!(engine.run(until, |_| false).unwrap(), Ended::Time);
            !engine.halted().is_zero()
        });
        assert!(halts && engine.driver.idle.busy_polls_until > Instant::ZERO);
    }
}
