//! Threads and processors: where a thread runs, and what it has used.

use std::io;
use std::num::NonZeroU64;

use evenkeel_core::time::Duration;
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};

/// The processors this process may run on, in order.
///
/// Not the same as 0 to n-1: containers are often given a subset.
#[must_use]
pub fn cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

/// Binds the calling thread to processor `cpu`, one of [`cpus`].
///
/// # Errors
/// `InvalidInput` if there is no such processor, or this process may not use it.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut only = CpuSet::new();
    only.set(cpu);
    Ok(sched_setaffinity(None, &only)?)
}

/// Asks the kernel to prefer the calling thread to all ordinary ones (nice -20). Returns whether it does:
/// that takes privilege.
pub fn prefer_this_thread() -> bool {
    setpriority_process(None, -20).is_ok()
}

/// CPU time the calling thread has used, in user and kernel mode. A system call: about 350 ns.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32)
}

/// How late the kernel may wake the calling thread in order to bundle wake-ups; 50 µs unless set.
///
/// A thread that halts until a deadline wants it small. Zero is taken as 1 ns, the least there is.
///
/// # Errors
/// Whatever `prctl` says.
pub fn set_timer_slack(slack: Duration) -> io::Result<()> {
    let ns = u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX);
    Ok(set_current_timer_slack(Some(NonZeroU64::new(ns).unwrap_or(NonZeroU64::MIN)))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    #[test]
    fn a_pinned_thread_stays_where_it_was_put() {
        let all = cpus();
        assert!(!all.is_empty());
        let last = *all.last().unwrap();
        std::thread::spawn(move || {
            pin_to_cpu(last).unwrap();
            assert_eq!(cpus(), [last]);
            assert_eq!(rustix::thread::sched_getcpu(), last);
        })
        .join()
        .unwrap();
        assert!(pin_to_cpu(usize::MAX).is_err());
    }

    #[test]
    fn work_shows_as_cpu_time() {
        let clock = Clock::start();
        let before = thread_cpu_time();
        while thread_cpu_time() - before < Duration::from_millis(5) {
            assert!(clock.now().as_secs_f64() < 30.0, "CPU time does not advance");
            clock.spin(Duration::from_micros(100));
        }
    }
}
