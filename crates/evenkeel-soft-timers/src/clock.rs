//! The machine's clock: nanoseconds since a start, from the time stamp counter if the kernel trusts it.

use core::fmt;

use evenkeel_timers::Instant;
use rustix::time::{ClockId, clock_gettime};

/// A clock of the machine, which starts at zero.
///
/// A copy of a clock has the same start, on every thread. If the processor's time stamp counter is invariant
/// and the kernel trusts it, a read takes a few nanoseconds and no system call. Otherwise it is
/// `clock_gettime(CLOCK_MONOTONIC)`. On one thread the time never goes back. Between threads, the kernel has
/// verified that the counters agree.
///
/// ```
/// use evenkeel_soft_timers::Clock;
///
/// let clock = Clock::start();
/// let before = clock.now();
/// assert!(clock.now() >= before);
/// assert!(["tsc", "monotonic"].contains(&clock.source()));
/// ```
#[derive(Clone, Copy)]
pub struct Clock {
    source: Source,
}

#[derive(Clone, Copy)]
enum Source {
    #[cfg(target_arch = "x86_64")]
    Tsc(tsc::Tsc),
    Monotonic {
        start: u64,
    },
}

impl Clock {
    /// Starts a clock at zero. The first one in a process measures the counter's rate, which takes 20 ms.
    #[must_use]
    pub fn start() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(tsc) = tsc::Tsc::start() {
            return Self { source: Source::Tsc(tsc) };
        }
        Self::start_monotonic()
    }

    /// Starts a clock at zero that calls the kernel for every read.
    #[must_use]
    pub fn start_monotonic() -> Self {
        Self { source: Source::Monotonic { start: monotonic() } }
    }

    /// Returns the current time of the clock.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_nanos(match self.source {
            #[cfg(target_arch = "x86_64")]
            Source::Tsc(tsc) => tsc.elapsed(),
            Source::Monotonic { start } => monotonic().saturating_sub(start),
        })
    }

    /// Returns the name of the time source: `tsc` or `monotonic`.
    #[must_use]
    pub const fn source(&self) -> &'static str {
        match self.source {
            #[cfg(target_arch = "x86_64")]
            Source::Tsc(_) => "tsc",
            Source::Monotonic { .. } => "monotonic",
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({}, {:?})", self.source(), self.now())
    }
}

/// Reads `CLOCK_MONOTONIC` in nanoseconds.
fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

#[cfg(target_arch = "x86_64")]
mod tsc {
    use core::arch::x86_64::{__cpuid, _rdtsc, CpuidResult};
    use std::fs;
    use std::hint;
    use std::sync::OnceLock;

    use super::monotonic;

    /// Nanoseconds per tick, times 2^32. The 32 bits make a rounding error of less than one in 10^9.
    type Scale = u64;

    /// A point on the counter from which nanoseconds are counted.
    #[derive(Clone, Copy)]
    pub(super) struct Tsc {
        start: u64,
        scale: Scale,
    }

    /// The rate is measured once, so that all clocks of a process run alike.
    static SCALE: OnceLock<Option<Scale>> = OnceLock::new();

    impl Tsc {
        /// `None` where the counter cannot be trusted.
        pub(super) fn start() -> Option<Self> {
            let scale = (*SCALE.get_or_init(|| trusted().then(measure).flatten()))?;
            Some(Self { start: read(), scale })
        }

        #[inline]
        pub(super) fn elapsed(self) -> u64 {
            nanos(read().saturating_sub(self.start), self.scale)
        }
    }

    #[inline]
    pub(super) fn nanos(ticks: u64, scale: Scale) -> u64 {
        ((u128::from(ticks) * u128::from(scale)) >> 32) as u64
    }

    #[inline]
    #[expect(unsafe_code, reason = "the one instruction that reads the counter")]
    fn read() -> u64 {
        // SAFETY: every x86-64 processor has RDTSC; Linux leaves it enabled for user space (CR4.TSD clear)
        // unless a thread forbade it to itself by prctl(PR_SET_TSC), which this program does not.
        unsafe { _rdtsc() }
    }

    #[expect(unsafe_code, reason = "the one instruction that describes the processor")]
    #[allow(unused_unsafe, reason = "newer compilers know that it is safe")]
    fn cpuid(leaf: u32) -> CpuidResult {
        // SAFETY: every x86-64 processor has CPUID.
        unsafe { __cpuid(leaf) }
    }

    /// Runs at a constant rate in every power state (CPUID 8000_0007h, EDX bit 8), and passed the kernel's
    /// own watchdog: a counter found to jump or to differ between processors is struck off the list of clock
    /// sources.
    fn trusted() -> bool {
        let leaves = cpuid(0x8000_0000).eax;
        let invariant = leaves >= 0x8000_0007 && cpuid(0x8000_0007).edx & (1 << 8) != 0;
        let list = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/available_clocksource");
        invariant && list.is_ok_and(|list| list.split_whitespace().any(|source| source == "tsc"))
    }

    /// Measures the counter against `CLOCK_MONOTONIC` over 20 ms; each end is known to about 50 ns, so to a
    /// few parts per million.
    fn measure() -> Option<Scale> {
        const WINDOW_NS: u64 = 20_000_000;
        let (ticks_then, ns_then) = pair();
        while monotonic().saturating_sub(ns_then) < WINDOW_NS {
            hint::spin_loop();
        }
        let (ticks_now, ns_now) = pair();
        let (ticks, ns) = (ticks_now.checked_sub(ticks_then)?, ns_now.checked_sub(ns_then)?);
        let scale = (u128::from(ns) << 32).checked_div(u128::from(ticks))?;
        // Between 1 MHz and 100 GHz, or something is wrong.
        let (fastest, slowest) = ((1 << 32) / 100, 1000 << 32);
        u64::try_from(scale).ok().filter(|scale| (fastest..=slowest).contains(scale))
    }

    /// Reads one moment on both clocks. It keeps the tightest of several readings, so that a preemption in
    /// between does not count.
    fn pair() -> (u64, u64) {
        let reading = || {
            let (before, ns, after) = (read(), monotonic(), read());
            (after.saturating_sub(before), before + after.saturating_sub(before) / 2, ns)
        };
        let (_, ticks, ns) = (0..32).map(|_| reading()).min_by_key(|&(width, ..)| width).unwrap_or_default();
        (ticks, ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads until so much has passed.
    fn pass(clock: Clock, nanos: u64) -> Instant {
        let (begin, mut last) = (clock.now(), Instant::ZERO);
        while last < begin.plus_nanos(nanos) {
            let now = clock.now();
            assert!(now >= last, "{clock:?}: {now:?} after {last:?}");
            last = now;
        }
        last
    }

    #[test]
    fn never_goes_back() {
        let _ = [Clock::start(), Clock::start_monotonic()].map(|clock| pass(clock, 5_000_000));
    }

    #[test]
    fn agrees_with_the_kernel() {
        let (fast, kernel) = (Clock::start(), Clock::start_monotonic());
        let offset = kernel.now().as_nanos().abs_diff(fast.now().as_nanos());
        let end = pass(kernel, 50_000_000);
        let off = end.as_nanos().abs_diff(fast.now().as_nanos());
        // A preemption between two reads may cost a few milliseconds on a busy machine.
        assert!(off < offset + 10_000_000, "{off} ns apart after 50 ms");
    }

    #[test]
    fn copies_count_from_the_same_start() {
        let clock = Clock::start();
        let copy = clock;
        let theirs = std::thread::spawn(move || copy.now()).join().unwrap();
        assert!(clock.now().nanos_since(theirs) < 10_000_000_000);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn ticks_become_nanoseconds_without_overflow() {
        let ghz2 = (1 << 32) / 2;
        assert_eq!(tsc::nanos(2_000_000_000, ghz2), 1_000_000_000);
        assert_eq!(tsc::nanos(u64::MAX, 1 << 32), u64::MAX);
    }
}
