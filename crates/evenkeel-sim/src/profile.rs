//! A profile of a CPU: its time by kind of work, as a profiler of all code would report it.

use evenkeel_core::time::Duration;
use evenkeel_core::work::{Work, WorkLog};

use crate::machine::Costs;

/// CPU time by kind of work, and the computing time of programs. Each work item counts from its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Profile {
    work: [Duration; Work::ALL.len()],
    compute: Duration,
}

impl Profile {
    /// Returns the CPU time of one kind of work.
    #[must_use]
    pub const fn of(&self, work: Work) -> Duration {
        self.work[work as usize]
    }

    /// Returns the CPU time in user mode: the time that programs have computed.
    #[must_use]
    pub const fn compute(&self) -> Duration {
        self.compute
    }

    /// Returns the sum of all CPU time: all kinds of work, and user mode.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.work.iter().sum::<Duration>() + self.compute
    }

    /// Returns the CPU time that was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let work = core::array::from_fn(|kind| self.work[kind].saturating_sub(earlier.work[kind]));
        Self { work, compute: self.compute.saturating_sub(earlier.compute) }
    }

    pub(crate) fn record(&mut self, log: &WorkLog, costs: &Costs) {
        for (work, count) in log.iter() {
            self.work[work as usize] += costs.of(work) * count;
        }
        self.compute += log.compute;
    }

    pub(crate) fn record_one(&mut self, work: Work, costs: &Costs) {
        self.work[work as usize] += costs.of(work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use evenkeel_core::receive::Architecture;

    #[test]
    fn it_adds_up_by_kind_and_what_was_before_is_taken_off() {
        let costs = Machine::built_in("sparcstation-20").unwrap().costs(Architecture::SoftLrp);
        let mut log = WorkLog::default();
        log.add(Work::Switch);
        log.add(Work::Switch);
        log.compute = Duration::from_micros(3);
        let mut profile = Profile::default();
        profile.record(&log, &costs);
        let before = profile;
        profile.record(&log, &costs);
        profile.record_one(Work::Clock, &costs);
        assert_eq!(profile.of(Work::Switch), costs.of(Work::Switch) * 4);
        let since = profile.since(&before);
        assert_eq!(since.of(Work::Switch), costs.of(Work::Switch) * 2);
        assert_eq!(since.compute(), Duration::from_micros(3));
        assert_eq!(since.total(), costs.total(&log) + costs.of(Work::Clock));
    }
}
