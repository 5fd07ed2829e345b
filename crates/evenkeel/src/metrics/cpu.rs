//! The time of a core: what it spent at each level, and what the kernel says of its thread.

use evenkeel_core::host::{Host, Level};
use evenkeel_core::time::Duration;
use evenkeel_link::ThreadTime;

use crate::observer::CoreUse;

/// The time that a core has spent at each level, and the time of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuTimes {
    /// The time of work items at interrupt level.
    #[cfg_attr(feature = "json", serde(with = "super::json::seconds"))]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub interrupt: Duration,
    /// The time of work items at software-interrupt level.
    #[cfg_attr(feature = "json", serde(with = "super::json::seconds"))]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub soft_interrupt: Duration,
    /// The time of the polling thread.
    #[cfg_attr(feature = "json", serde(with = "super::json::seconds"))]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub polling_thread: Duration,
    /// The time of processes.
    #[cfg_attr(feature = "json", serde(with = "super::json::seconds"))]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub process: Duration,
    /// The time of work items at idle level.
    #[cfg_attr(feature = "json", serde(with = "super::json::seconds"))]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub idle: Duration,
    /// The time that the thread ran on a processor, by the kernel's account.
    #[cfg_attr(feature = "json", serde(with = "super::json::seconds"))]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub ran: Duration,
    /// The part of `ran` in system calls.
    #[cfg_attr(feature = "json", serde(with = "super::json::seconds"))]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub system: Duration,
    /// The time in which the thread was runnable while the machine gave the core to others.
    #[cfg_attr(feature = "json", serde(with = "super::json::seconds"))]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub run_delay: Duration,
    /// The time in calls that halt the core.
    #[cfg_attr(feature = "json", serde(with = "super::json::seconds"))]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub halted: Duration,
}

/// The shares of a core's time. They add up to one, without `system`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuShares {
    /// The share at interrupt level.
    pub interrupt: f64,
    /// The share at software-interrupt level.
    pub soft_interrupt: f64,
    /// The share of the polling thread.
    pub polling_thread: f64,
    /// The share of processes: the service, the unflooded socket's program, and the neighbour.
    pub process: f64,
    /// The share at idle level, or asleep because there was no work.
    pub idle: f64,
    /// The share awake outside of work items: looking for work, falling asleep and waking up.
    #[cfg_attr(feature = "json", serde(default))]
    pub halting: f64,
    /// The share in which the thread was runnable, while the machine gave the core to others.
    #[cfg_attr(feature = "json", serde(default))]
    pub run_delay: f64,
    /// The share spent in system calls, inside work items or outside of them. It overlaps the other shares.
    #[cfg_attr(feature = "json", serde(default))]
    pub system: f64,
}

impl CpuTimes {
    /// Reads the time that the core of `host` has spent. `used` is the kernel's account of its thread.
    #[must_use]
    pub fn of(host: &Host, used: CoreUse) -> Self {
        Self::of_levels(host).with(used)
    }

    /// Reads the time of the work items of `host`, without the kernel's account.
    pub(super) fn of_levels(host: &Host) -> Self {
        Self {
            interrupt: host.cpu(Level::Interrupt),
            soft_interrupt: host.cpu(Level::SoftInterrupt),
            polling_thread: host.cpu(Level::PollingThread),
            process: host.cpu(Level::Process),
            idle: host.cpu(Level::Idle),
            ..Self::default()
        }
    }

    /// Returns these times with the kernel's account in `used`.
    pub(super) fn with(self, used: CoreUse) -> Self {
        let CoreUse { thread: ThreadTime { ran, system, run_delay }, halted } = used;
        Self { ran, system, run_delay, halted, ..self }
    }

    /// Returns the times that have been added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            interrupt: self.interrupt.saturating_sub(earlier.interrupt),
            soft_interrupt: self.soft_interrupt.saturating_sub(earlier.soft_interrupt),
            polling_thread: self.polling_thread.saturating_sub(earlier.polling_thread),
            process: self.process.saturating_sub(earlier.process),
            idle: self.idle.saturating_sub(earlier.idle),
            ran: self.ran.saturating_sub(earlier.ran),
            system: self.system.saturating_sub(earlier.system),
            run_delay: self.run_delay.saturating_sub(earlier.run_delay),
            halted: self.halted.saturating_sub(earlier.halted),
        }
    }

    /// Returns the time of all work items.
    fn work_items(&self) -> Duration {
        self.interrupt + self.soft_interrupt + self.polling_thread + self.process + self.idle
    }

    /// Returns the shares of `elapsed`.
    ///
    /// Work items are timed by the clock, which continues while the kernel gives the core to other threads.
    /// If the items took longer than the thread ran, their times are scaled down to that.
    #[must_use]
    pub fn shares(&self, elapsed: Duration) -> CpuShares {
        let share = |time: Duration| time.as_secs_f64() / elapsed.as_secs_f64();
        if elapsed.is_zero() {
            return CpuShares { idle: 1.0, ..CpuShares::default() };
        }
        let slept = elapsed.saturating_sub(self.ran + self.run_delay).min(self.halted);
        let run_delay = self.run_delay.min(elapsed - slept);
        let awake = elapsed - slept - run_delay;
        let items = self.work_items();
        let scale = if items > awake { awake.as_secs_f64() / items.as_secs_f64() } else { 1.0 };
        CpuShares {
            interrupt: scale * share(self.interrupt),
            soft_interrupt: scale * share(self.soft_interrupt),
            polling_thread: scale * share(self.polling_thread),
            process: scale * share(self.process),
            idle: scale * share(self.idle) + share(slept),
            halting: share(awake.saturating_sub(items)),
            run_delay: share(run_delay),
            system: share(self.system),
        }
    }
}

impl CpuShares {
    /// Returns the shares that add up to 1, in the order of their fields.
    #[must_use]
    pub const fn parts(&self) -> [f64; 7] {
        let &Self {
            interrupt,
            soft_interrupt,
            polling_thread,
            process,
            idle,
            halting,
            run_delay,
            // System calls overlap the other shares.
            system: _,
        } = self;
        [interrupt, soft_interrupt, polling_thread, process, idle, halting, run_delay]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn used(ran: u64, run_delay: u64, halted: u64) -> CpuTimes {
        let [ran, run_delay, halted] = [ran, run_delay, halted].map(millis);
        CpuTimes { ran, system: ran / 4, run_delay, halted, ..CpuTimes::default() }
    }

    fn sum(cpu: &CpuShares) -> f64 {
        cpu.parts().iter().sum()
    }

    /// In 100 ms a thread ran for 50, of which 30 were in work items, and slept for 40. For 10 it waited for
    /// its core on the way back from halting.
    #[test]
    fn idle_is_asleep_and_neither_halting_nor_waiting_for_the_core() {
        let times = CpuTimes { polling_thread: millis(10), process: millis(20), ..used(50, 10, 70) };
        let cpu = times.shares(millis(100));
        let near = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-9, "{cpu:?}");
        near(cpu.polling_thread, 0.1);
        near(cpu.process, 0.2);
        near(cpu.idle, 0.4);
        near(cpu.halting, 0.2);
        near(cpu.run_delay, 0.1);
        near(cpu.system, 0.125);
        near(sum(&cpu), 1.0);
    }

    /// The clock continues while another thread has the core in the middle of a work item.
    #[test]
    fn what_others_took_is_on_nobodys_bill() {
        let cpu = CpuTimes { process: millis(100), ..used(60, 40, 0) }.shares(millis(100));
        assert!((cpu.process - 0.6).abs() < 1e-9 && (cpu.run_delay - 0.4).abs() < 1e-9, "{cpu:?}");
        assert!((sum(&cpu) - 1.0).abs() < 1e-9 && cpu.idle == 0.0, "{cpu:?}");
    }

    #[test]
    fn a_thread_that_is_blocked_elsewhere_is_not_idle() {
        let cpu = used(10, 0, 20).shares(millis(100));
        assert!((cpu.idle - 0.2).abs() < 1e-9 && (sum(&cpu) - 1.0).abs() < 1e-9, "{cpu:?}");
    }
}
