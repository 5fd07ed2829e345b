//! The choice of the process that runs next: two schedulers.
//!
//! Both count the time that processes are *charged*, so the place where protocol work is charged decides
//! which process gets the processor.

use std::collections::VecDeque;

use crate::id::ProcessId;
use crate::time::{Duration, Instant};

/// The policy by which the next process is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Stride scheduling: shares in proportion to weights, which follow `nice` by a factor of 1.25 a step.
    /// Exact within a millisecond, and a process that seldom runs is served at once.
    #[default]
    Stride,
    /// Decay-usage priorities as in 4.3BSD: recent CPU lowers priority, waiting restores it. What the papers'
    /// hosts ran. Coarse: processes that differ by less than 160 ms of recent CPU are equals, and equals take
    /// turns of 100 ms.
    DecayUsage,
}

/// The statistics clock of 4.3BSD: usage is counted in its ticks.
const TICK: Duration = Duration::from_millis(10);
/// Usage counts to 255 ticks and no further (4.3BSD `p_cpu`).
const USAGE_MAX: u64 = 255 * TICK.as_nanos() as u64;
/// The interval at which usage decays.
const DECAY_PERIOD: Duration = Duration::from_secs(1);
/// Round robin among processes of equal priority.
const BSD_QUANTUM: Duration = Duration::from_millis(100);
/// The time that a process may run ahead of the one that is due, so that two processes do not switch at
/// every work item.
const STRIDE_QUANTUM: Duration = Duration::from_millis(1);
/// Priorities are compared in classes of four, the run queues of 4.3BSD.
const PRIORITIES_PER_QUEUE: u64 = 4;

/// The scheduler's state of one process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    nice: i8,
    /// The weight under stride scheduling, computed from `nice`.
    weight: u64,
    /// Recent CPU in nanoseconds (decay-usage), or virtual time (stride).
    usage: u64,
    runnable: bool,
    /// Has just been woken and not run since. Decay-usage: the priority it slept at holds until it has
    /// (4.3BSD `tsleep` priorities). Stride: it need not wait for the others' quantum.
    woken: bool,
    slept_at: Instant,
    used_in_quantum: Duration,
    /// Nanoseconds of CPU that it has used since it was woken.
    used: u64,
}

/// Picks among runnable processes.
#[derive(Debug)]
pub(crate) struct Scheduler {
    policy: Policy,
    shares: Vec<Option<Share>>,
    /// Runnable processes in order of arrival; ties go to the front.
    ready: VecDeque<ProcessId>,
    next_decay: Instant,
    virtual_time: u64,
    /// A process was charged, and virtual time does not have it yet.
    is_charged: bool,
}

impl Scheduler {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            policy,
            shares: Vec::new(),
            ready: VecDeque::new(),
            next_decay: Instant::ZERO + DECAY_PERIOD,
            virtual_time: 0,
            is_charged: false,
        }
    }

    fn share(&mut self, process: ProcessId) -> Option<&mut Share> {
        self.shares.get_mut(process.0 as usize)?.as_mut()
    }

    pub(crate) fn admit(&mut self, process: ProcessId, nice: i8) {
        self.advance_virtual_time();
        let index = process.0 as usize;
        if self.shares.len() <= index {
            self.shares.resize(index + 1, None);
        }
        let usage = if self.policy == Policy::Stride { self.virtual_time } else { 0 };
        self.shares[index] = Some(Share {
            nice,
            weight: weight(nice),
            usage,
            runnable: true,
            woken: false,
            slept_at: Instant::ZERO,
            used_in_quantum: Duration::ZERO,
            used: 0,
        });
        self.ready.push_back(process);
    }

    pub(crate) fn retire(&mut self, process: ProcessId) {
        self.advance_virtual_time();
        self.ready.retain(|&p| p != process);
        if let Some(share) = self.shares.get_mut(process.0 as usize) {
            *share = None;
        }
    }

    pub(crate) fn sleep(&mut self, process: ProcessId, now: Instant) {
        self.advance_virtual_time();
        if let Some(share) = self.share(process) {
            share.runnable = false;
            share.slept_at = now;
        }
        self.ready.retain(|&p| p != process);
    }

    pub(crate) fn wake(&mut self, process: ProcessId, now: Instant) {
        self.advance_virtual_time();
        let (policy, virtual_time) = (self.policy, self.virtual_time);
        let Some(share) = self.share(process) else { return };
        if share.runnable {
            return;
        }
        share.runnable = true;
        (share.used_in_quantum, share.used) = (Duration::ZERO, 0);
        match policy {
            Policy::DecayUsage => {
                // What the decay of the seconds asleep would have left (4.3BSD `updatepri`), at load one.
                let seconds = now.since(share.slept_at).as_secs().min(63);
                for _ in 0..seconds {
                    share.usage = share.usage * 2 / 3;
                }
            }
            // A sleeper is at most one quantum ahead of the others: enough to be served at once, no more.
            Policy::Stride => {
                let credit = STRIDE_QUANTUM.as_nanos() as u64;
                share.usage = share.usage.max(virtual_time.saturating_sub(credit));
            }
        }
        share.woken = true;
        self.ready.push_back(process);
    }

    /// Returns the process to run. `current` is the one that ran last; it continues unless another comes
    /// before it.
    ///
    /// Has no side effects; [`Scheduler::dispatch`] records the choice.
    #[inline]
    pub(crate) fn pick(&self, current: Option<ProcessId>) -> Option<ProcessId> {
        if self.ready.len() <= 1 {
            return self.ready.front().copied();
        }
        let (lowest, process) = self.best()?;
        let Some(current) = current.filter(|c| self.ready.contains(c)) else { return Some(process) };
        if lowest > 0 && self.in_quantum(current) {
            return Some(current);
        }
        let woken = matches!(self.shares.get(process.0 as usize), Some(Some(share)) if share.woken);
        let slack = match self.policy {
            Policy::Stride if !woken => STRIDE_QUANTUM.as_nanos() as u64,
            Policy::Stride | Policy::DecayUsage => 0,
        };
        if self.rank(current) > lowest.saturating_add(slack) {
            return Some(process);
        }
        if self.policy == Policy::Stride {
            return Some(current);
        }
        // Round robin: its quantum is used up, so whoever is of equal rank comes before it.
        let mut others = self.ready.iter().copied().filter(|&p| p != current);
        Some(others.find(|&p| self.rank(p) == lowest).unwrap_or(current))
    }

    /// Returns the runnable process of lowest rank, and that rank.
    fn best(&self) -> Option<(u64, ProcessId)> {
        let mut best: Option<(u64, ProcessId)> = None;
        for &process in &self.ready {
            let rank = self.rank(process);
            if best.is_none_or(|(lowest, _)| rank < lowest) {
                best = Some((rank, process));
            }
        }
        best
    }

    /// Dispatches the process that [`Scheduler::pick`] returned: if that ended the quantum of `current`,
    /// `current` goes to the back of those with equal rank.
    #[inline]
    pub(crate) fn dispatch(&mut self, current: Option<ProcessId>) {
        if self.policy != Policy::DecayUsage {
            return;
        }
        let Some(current) = current.filter(|c| self.ready.contains(c)) else { return };
        let Some((lowest, _)) = self.best() else { return };
        if self.in_quantum(current) || self.rank(current) > lowest {
            return;
        }
        if let Some(share) = self.share(current) {
            share.used_in_quantum = Duration::ZERO;
        }
        self.ready.retain(|&p| p != current);
        self.ready.push_back(current);
    }

    /// Returns whether the current process keeps the core under decay usage: 4.3BSD compares processes only
    /// when one has been woken, when the current one sleeps, and when its quantum is over.
    fn in_quantum(&self, current: ProcessId) -> bool {
        let share = self.shares.get(current.0 as usize).copied().flatten();
        self.policy == Policy::DecayUsage && share.is_some_and(|s| s.used_in_quantum < BSD_QUANTUM)
    }

    /// Returns the rank of a process under the policy. The lowest rank runs first.
    fn rank(&self, process: ProcessId) -> u64 {
        let Some(Some(share)) = self.shares.get(process.0 as usize) else { return u64::MAX };
        match self.policy {
            Policy::DecayUsage if share.woken => 0,
            // priority = 50 + usage/4 + 2 nice (4.3BSD `setpriority`); nice from -20 to 20 stays above zero.
            Policy::DecayUsage => {
                let ticks = share.usage / TICK.as_nanos() as u64;
                let priority = 50 + ticks / 4 + 2 * nice_steps(share.nice);
                1 + priority.min(127 + 40) / PRIORITIES_PER_QUEUE
            }
            Policy::Stride => share.usage,
        }
    }

    /// Returns the share of the core, in percent, that a process may have next to the runnable ones that
    /// compute all the time; without a process, the share of one more. Another process counts once it has
    /// used [`STRIDE_QUANTUM`] since it was woken.
    pub(crate) fn fair_percent(&self, process: Option<ProcessId>) -> u8 {
        let share = |process: ProcessId| self.shares.get(process.0 as usize)?.as_ref();
        let others = self.ready.iter().filter(|&&other| Some(other) != process);
        let others =
            others.filter_map(|&p| share(p)).filter(|share| share.used >= STRIDE_QUANTUM.as_nanos() as u64);
        let others: u64 = others.map(|share| share.weight).sum();
        let own = process.and_then(share).map_or(STRIDE_ONE, |share| share.weight);
        (100 * own / (own + others)) as u8
    }

    /// Charges CPU time to a process, whichever process used it.
    #[inline]
    pub(crate) fn charge(&mut self, process: ProcessId, elapsed: Duration) {
        let policy = self.policy;
        let nanos = elapsed.as_nanos() as u64;
        let Some(share) = self.share(process) else { return };
        share.used = share.used.saturating_add(nanos);
        match policy {
            Policy::DecayUsage => {
                share.usage = share.usage.saturating_add(nanos).min(USAGE_MAX);
                share.used_in_quantum += elapsed;
            }
            Policy::Stride => {
                let is_even = share.weight == STRIDE_ONE;
                let stride = if is_even { nanos } else { nanos.saturating_mul(STRIDE_ONE) / share.weight };
                share.usage = share.usage.saturating_add(stride);
                self.is_charged = true;
            }
        }
    }

    /// Advances virtual time to that of the process furthest behind. It is used when a process comes, and
    /// must be known before one goes.
    fn advance_virtual_time(&mut self) {
        if core::mem::take(&mut self.is_charged) {
            let usage = |p: &ProcessId| self.shares.get(p.0 as usize)?.map(|share| share.usage);
            let floor = self.ready.iter().filter_map(usage).min();
            self.virtual_time = self.virtual_time.max(floor.unwrap_or(0));
        }
    }

    /// Records that a process has run: the priority it was woken at no longer holds.
    pub(crate) fn ran(&mut self, process: ProcessId) {
        if let Some(share) = self.share(process) {
            share.woken = false;
        }
    }

    /// Decays usage, once a second: usage = usage x 2 load / (2 load + 1) + nice (4.3BSD `schedcpu`).
    pub(crate) fn tick(&mut self, now: Instant) {
        while now >= self.next_decay {
            self.next_decay += DECAY_PERIOD;
            if self.policy == Policy::Stride {
                continue;
            }
            let load = (self.ready.len() as u64).max(1);
            for share in self.shares.iter_mut().flatten() {
                let nice = i64::from(share.nice) * TICK.as_nanos() as i64;
                share.usage = (share.usage / (2 * load + 1) * (2 * load)).saturating_add_signed(nice);
            }
        }
    }

    pub(crate) const fn next_deadline(&self) -> Instant {
        self.next_decay
    }

    pub(crate) fn is_runnable(&self, process: ProcessId) -> bool {
        self.shares.get(process.0 as usize).is_some_and(|s| s.is_some_and(|s| s.runnable))
    }

    pub(crate) fn has_runnable(&self) -> bool {
        !self.ready.is_empty()
    }
}

/// Returns 0 for nice -20, and 40 for nice +20.
fn nice_steps(nice: i8) -> u64 {
    (i64::from(nice.clamp(-20, 20)) + 20) as u64
}

/// The weight of nice 0.
const STRIDE_ONE: u64 = 1024;

/// Returns the weight of a nice value: 1024 at 0, with a factor of 1.25 for each step.
fn weight(nice: i8) -> u64 {
    let mut weight = STRIDE_ONE;
    for _ in 0..nice.clamp(-20, 20).unsigned_abs() {
        weight = if nice < 0 { weight * 5 / 4 } else { weight * 4 / 5 };
    }
    weight.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs always-runnable processes for `units` of 1 ms and returns the shares of time.
    fn shares(policy: Policy, nices: &[i8], units: u32) -> Vec<f64> {
        shares_after(policy, nices, 0, units)
    }

    /// Runs always-runnable processes for `settle` and then `units` of 1 ms, and returns the shares of the
    /// time after the first `settle` ms.
    fn shares_after(policy: Policy, nices: &[i8], settle: u32, units: u32) -> Vec<f64> {
        let mut scheduler = Scheduler::new(policy);
        for (i, &nice) in nices.iter().enumerate() {
            scheduler.admit(ProcessId(i as u32), nice);
        }
        let mut ran = vec![0_u32; nices.len()];
        let mut current = None;
        let mut now = Instant::ZERO;
        for unit in 0..settle + units {
            let process = scheduler.pick(current).unwrap();
            scheduler.dispatch(current);
            scheduler.ran(process);
            scheduler.charge(process, Duration::from_millis(1));
            now += Duration::from_millis(1);
            scheduler.tick(now);
            ran[process.0 as usize] += u32::from(unit >= settle);
            current = Some(process);
        }
        ran.iter().map(|&n| f64::from(n) / f64::from(units)).collect()
    }

    #[test]
    fn equal_processes_share_equally() {
        for policy in [Policy::DecayUsage, Policy::Stride] {
            for share in shares(policy, &[0, 0, 0], 9_000) {
                assert!((share - 1.0 / 3.0).abs() < 0.02, "{policy:?}: {share}");
            }
        }
    }

    #[test]
    fn stride_shares_follow_weights() {
        let got = shares(Policy::Stride, &[0, 5], 20_000);
        let ratio = got[0] / got[1];
        assert!((ratio - 1024.0 / 335.0).abs() < 0.1, "{ratio}");
    }

    #[test]
    fn a_nice_spinner_runs_only_when_nobody_else_wants_to() {
        let got = shares_after(Policy::DecayUsage, &[0, 20], 5_000, 20_000);
        assert!(got[1] < 0.05, "{got:?}");
    }

    #[test]
    fn a_woken_process_comes_before_the_one_it_interrupts() {
        let mut scheduler = Scheduler::new(Policy::DecayUsage);
        let (a, b) = (ProcessId(0), ProcessId(1));
        scheduler.admit(a, 0);
        scheduler.admit(b, 0);
        scheduler.sleep(b, Instant::ZERO);
        assert_eq!(scheduler.pick(Some(a)), Some(a));
        scheduler.wake(b, Instant::ZERO);
        assert_eq!(scheduler.pick(Some(a)), Some(b));
        scheduler.ran(b);
        assert_eq!(scheduler.pick(Some(b)), Some(b), "equal rank: it goes on");
    }

    #[test]
    fn under_stride_a_process_that_seldom_runs_is_served_at_once_and_to_the_end() {
        let mut scheduler = Scheduler::new(Policy::Stride);
        let (hog, quiet) = (ProcessId(0), ProcessId(1));
        scheduler.admit(hog, 0);
        scheduler.admit(quiet, 0);
        scheduler.sleep(quiet, Instant::ZERO);
        scheduler.charge(hog, Duration::from_millis(3));
        scheduler.wake(quiet, Instant::ZERO);
        scheduler.charge(hog, Duration::from_micros(1));
        assert_eq!(scheduler.pick(Some(hog)), Some(quiet));
        scheduler.ran(quiet);
        scheduler.charge(quiet, Duration::from_micros(1));
        assert_eq!(scheduler.pick(Some(quiet)), Some(quiet));
    }

    #[test]
    fn a_process_that_was_preempted_waits_for_the_other_to_sleep_or_use_up_its_quantum() {
        let mut scheduler = Scheduler::new(Policy::DecayUsage);
        let (a, b) = (ProcessId(0), ProcessId(1));
        scheduler.admit(a, 0);
        scheduler.admit(b, 10);
        scheduler.sleep(b, Instant::ZERO);
        scheduler.wake(b, Instant::ZERO);
        assert_eq!(scheduler.pick(Some(a)), Some(b));
        scheduler.ran(b);
        scheduler.charge(b, Duration::from_millis(50));
        assert_eq!(scheduler.pick(Some(b)), Some(b), "a comes before b, but nobody looks");
        scheduler.charge(b, Duration::from_millis(50));
        assert_eq!(scheduler.pick(Some(b)), Some(a));
    }

    #[test]
    fn a_sleeper_gains_no_credit_under_stride() {
        let mut scheduler = Scheduler::new(Policy::Stride);
        let (a, b) = (ProcessId(0), ProcessId(1));
        scheduler.admit(a, 0);
        scheduler.admit(b, 0);
        scheduler.sleep(b, Instant::ZERO);
        for _ in 0..1000 {
            scheduler.charge(a, Duration::from_millis(1));
        }
        scheduler.wake(b, Instant::from_millis(1000));
        for _ in 0..10 {
            scheduler.charge(b, Duration::from_millis(1));
        }
        assert_eq!(scheduler.pick(Some(b)), Some(a), "no second of CPU in one go");
    }
}
