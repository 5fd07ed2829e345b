//! Threads and processors: the placement of a thread, and the time that it has used.

use core::ops::{Add, Sub};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt as _;

use evenkeel_core::time::Duration;
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};

use crate::sys;

/// Returns the processors that this process may run on, in order.
///
/// The numbers are not always 0 to n-1, because containers often have a subset.
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

/// Asks the kernel to prefer the calling thread to all ordinary ones (nice -20). Returns whether that
/// succeeded, which takes privilege.
pub fn prefer_this_thread() -> bool {
    setpriority_process(None, -20).is_ok()
}

/// Makes the kernel run the calling thread before all ordinary ones (`SCHED_FIFO`, sched(7)). If it never
/// halts, a twentieth of its processor is left for them.
///
/// # Errors
/// `PermissionDenied` without `CAP_SYS_NICE`, or another error of `sched_setscheduler`.
pub fn run_in_real_time() -> io::Result<()> {
    sys::set_fifo(1)
}

/// Returns whether the kernel divides processors among sessions, and a session's share among its threads
/// (`sched_autogroup`, sched(7)). Niceness then counts inside the session only.
#[must_use]
pub fn are_shared_by_session() -> bool {
    std::fs::read("/proc/sys/kernel/sched_autogroup_enabled").is_ok_and(|text| text.starts_with(b"1"))
}

/// Returns the CPU time that the calling thread has used, in user and kernel mode. This is a system call of
/// about 350 ns.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32)
}

/// The times that a thread has spent running and waiting for a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadTime {
    /// The time on a processor, in user and kernel mode.
    pub ran: Duration,
    /// The part of `ran` in kernel mode: system calls. The kernel reports it in hundredths of a second.
    pub system: Duration,
    /// The time in which the thread was runnable while its processor ran other threads.
    pub run_delay: Duration,
}

impl Add for ThreadTime {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            ran: self.ran + other.ran,
            system: self.system + other.system,
            run_delay: self.run_delay + other.run_delay,
        }
    }
}

/// Subtracts an earlier reading, field by field.
impl Sub for ThreadTime {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            ran: self.ran.saturating_sub(earlier.ran),
            system: self.system.saturating_sub(earlier.system),
            run_delay: self.run_delay.saturating_sub(earlier.run_delay),
        }
    }
}

/// The kernel's account of a thread, to be read from any thread.
#[derive(Debug)]
pub struct ThreadMeter {
    schedstat: Option<File>,
    stat: Option<File>,
}

impl ThreadMeter {
    /// Creates a meter of the calling thread.
    #[must_use]
    pub fn of_this_thread() -> Self {
        let open = |name| File::open(format!("/proc/thread-self/{name}")).ok();
        Self { schedstat: open("schedstat"), stat: open("stat") }
    }

    /// Reads the account of the thread, without the fields that this kernel does not provide. Returns
    /// `None` when the thread has ended.
    #[must_use]
    pub fn read(&self) -> Option<ThreadTime> {
        let [user, system] = cpu_times(&read_file(self.stat.as_ref()?)?)?;
        // A thread that ends between the two reads has no usable value in hundredths.
        let scheduled = match &self.schedstat {
            Some(file) => schedstat(&read_file(file)?),
            None => None,
        };
        let (ran, run_delay) = scheduled.unwrap_or((user + system, Duration::ZERO));
        Some(ThreadTime { ran, system: system.min(ran), run_delay })
    }
}

/// Returns the time that processor `cpu` has not had for the kernel or for idling: the time of programs in
/// user mode, and the time that the hypervisor gave to other machines. The kernel reports it in hundredths of
/// a second.
///
/// # Errors
/// `/proc/stat` cannot be read, or does not name that processor.
pub fn taken_from_kernel(cpu: usize) -> io::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    user_and_steal(&stat, cpu).ok_or_else(|| io::Error::other(format!("/proc/stat has no line cpu{cpu}")))
}

/// Returns the sum of `user`, `nice` and `steal` of a processor's line (proc(5)). The times of guests are
/// within the first two.
fn user_and_steal(stat: &str, cpu: usize) -> Option<Duration> {
    let name = format!("cpu{cpu} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name))?;
    let ticks: Vec<u32> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    Some(TICK * *ticks.first()? + TICK * *ticks.get(1)? + TICK * *ticks.get(7)?)
}

fn read_file(file: &File) -> Option<String> {
    let mut text = [0; 1024];
    let len = file.read_at(&mut text, 0).ok()?;
    Some(String::from_utf8_lossy(text.get(..len)?).into_owned())
}

/// Returns the time on a processor and the time waiting for one, as in the documentation of `schedstats` in
/// Linux.
fn schedstat(text: &str) -> Option<(Duration, Duration)> {
    let mut fields = text.split_whitespace().map(|field| field.parse().ok().map(Duration::from_nanos));
    Some((fields.next()??, fields.next()??))
}

/// `USER_HZ`, which has this value wherever Linux runs today.
const TICK: Duration = Duration::from_millis(10);

/// Returns the time in user mode and in kernel mode, fields 14 and 15 of `stat` (proc(5)). The second field
/// is a name in parentheses, which may hold anything.
fn cpu_times(text: &str) -> Option<[Duration; 2]> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11).map(|field| field.parse::<u32>().ok());
    Some([TICK * fields.next()??, TICK * fields.next()??])
}

/// Sets how late the kernel may wake the calling thread in order to combine wake-ups. The kernel's default is
/// 50 µs.
///
/// A thread that halts until a deadline needs a small value. Zero is taken as 1 ns, the minimum.
///
/// # Errors
/// The error of `prctl`.
pub fn set_timer_slack(slack: Duration) -> io::Result<()> {
    let ns = u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX);
    Ok(set_current_timer_slack(Some(NonZeroU64::new(ns).unwrap_or(NonZeroU64::MIN)))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    #[test]
    fn what_programs_and_other_machines_took_of_a_processor() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 40 50 60 70 80 3 1 0\ncpu1 5 0 0 0 0 0 0 0 0 0\nintr 7\n";
        assert_eq!(user_and_steal(stat, 0), Some(Duration::from_millis(60)));
        assert_eq!(user_and_steal(stat, 1), Some(Duration::from_millis(50)));
        assert_eq!(user_and_steal(stat, 2), None);
        assert!(taken_from_kernel(cpus()[0]).is_ok());
    }

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
    fn a_thread_in_real_time_is_scheduled_so_and_others_are_not() {
        // The policy is field 41 (proc(5)); the second field is a name in parentheses.
        let policy = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            stat.rsplit_once(')').unwrap().1.split_whitespace().nth(38).unwrap().to_owned()
        };
        let threads = std::thread::spawn(move || match run_in_real_time() {
            Ok(()) => {
                assert_eq!(policy(), "1", "SCHED_FIFO");
                std::thread::spawn(policy).join().unwrap()
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
                policy()
            }
        });
        assert_eq!(threads.join().unwrap(), "0", "SCHED_OTHER");
    }

    #[test]
    fn the_kernels_tables_are_read() {
        assert_eq!(schedstat("5000 70 3\n"), Some((Duration::from_nanos(5000), Duration::from_nanos(70))));
        assert_eq!(schedstat("5000"), None);
        let stat = "12 (a) b) c) R 1 2 3 4 5 6 7 8 9 10 70 30 0 0 20";
        assert_eq!(cpu_times(stat), Some([Duration::from_millis(700), Duration::from_millis(300)]));
        assert_eq!(cpu_times("12 (a) R 1 2"), None);
    }

    /// A thread that is asleep has no use for its processor, one that shares it with another has.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "it is about sleeping")]
    fn sleeping_is_not_waiting_for_the_processor() {
        let clock = Clock::start();
        let meter = ThreadMeter::of_this_thread();
        let cpu = cpus()[0];
        pin_to_cpu(cpu).unwrap();
        if meter.schedstat.is_none() {
            return;
        }
        let read = || meter.read().unwrap();
        let before = read();
        while read().ran - before.ran < Duration::from_millis(1) {
            assert!(clock.now().as_secs_f64() < 30.0, "it is not told that the thread runs");
            clock.spin(Duration::from_micros(100));
        }
        let (before, begin) = (read(), clock.now());
        std::thread::sleep(Duration::from_millis(200));
        let (slept, while_asleep) = (clock.now().since(begin), read() - before);
        assert!(while_asleep.ran < Duration::from_millis(20), "{while_asleep:?} in {slept:?}");
        // The thread may have waited before it fell asleep, and when it was woken.
        assert!(while_asleep.run_delay + Duration::from_millis(150) < slept, "{while_asleep:?} in {slept:?}");
        let (before, done) = (read(), std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin_to_cpu(cpu).unwrap();
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    clock.spin(Duration::from_micros(100));
                }
            });
            while read().run_delay - before.run_delay < Duration::from_millis(20) {
                assert!(clock.now().as_secs_f64() < 60.0, "nobody else has the processor");
                clock.spin(Duration::from_millis(1));
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn of_a_thread_that_has_ended_nothing_is_told() {
        let meter = std::thread::spawn(ThreadMeter::of_this_thread).join().unwrap();
        // The kernel wakes who joins a thread a moment before the thread is gone.
        let clock = Clock::start();
        while meter.read().is_some() {
            assert!(clock.now().as_secs_f64() < 30.0, "its time is still told");
            std::thread::yield_now();
        }
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
