//! The constants, workloads and counters that all contenders share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use evenkeel::raw::cpu::{cpus, pin_to_cpu, prefer_this_thread};
use evenkeel::raw::time::Clock;

/// Bytes of a write and of a read.
pub(crate) const CHUNK: usize = 64 << 10;
/// The number of conversations at a time.
pub(crate) const TOGETHER: usize = 32;
pub(crate) const PORT: u16 = 80;
/// Bytes of the buffers of a bulk connection: the content of a ring. smoltcp has no congestion window by
/// default, and would send more than fits.
pub(crate) const BULK_WINDOW: usize = 1 << 20;

/// The workload that a run measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    Bulk,
    Connections,
    Requests,
}

impl Workload {
    pub(crate) const ALL: [Self; 3] = [Self::Bulk, Self::Connections, Self::Requests];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Connections => "connections",
            Self::Requests => "requests",
        }
    }

    pub(crate) const fn unit(self) -> &'static str {
        if matches!(self, Self::Bulk) { "Gbit/s" } else { "1 000/s" }
    }

    /// Returns how many counted items make one of the unit.
    pub(crate) const fn scale(self) -> f64 {
        if matches!(self, Self::Bulk) { 1e9 / 8.0 } else { 1e3 }
    }
}

/// The progress of a run. The working thread updates it: a third thread might wait long for a processor.
#[derive(Debug)]
pub(crate) struct Progress {
    clock: Clock,
    /// The time at which everything was set up, in nanoseconds; `u64::MAX` before that.
    ready: AtomicU64,
    /// The time for which the run counts, in nanoseconds.
    time: u64,
    done: AtomicU64,
    /// The first reading after the warm-up: the time since `ready`, in nanoseconds, and the count at that
    /// time. `last` is the latest such reading.
    first: [AtomicU64; 2],
    last: [AtomicU64; 2],
}

impl Progress {
    /// The time until counting begins, in nanoseconds. Windows open and tables fill during this time.
    const WARM_UP: u64 = 300_000_000;
    const LOOK_EVERY: u64 = 16;

    fn new(seconds: f64) -> Self {
        Self {
            clock: Clock::start(),
            ready: AtomicU64::new(u64::MAX),
            time: (seconds * 1e9) as u64,
            done: AtomicU64::new(0),
            first: Default::default(),
            last: Default::default(),
        }
    }

    fn running(&self) -> u64 {
        self.clock.now().as_nanos().saturating_sub(self.ready.load(Ordering::Relaxed))
    }

    /// Adds `more` items to the count. Only one thread may call it.
    pub(crate) fn add(&self, more: u64) {
        let done = self.done.load(Ordering::Relaxed);
        self.done.store(done + more, Ordering::Relaxed);
        if done / Self::LOOK_EVERY != (done + more) / Self::LOOK_EVERY {
            self.record(done + more);
        }
    }

    fn record(&self, done: u64) {
        let running = self.running();
        if running < Self::WARM_UP {
            return;
        }
        let to = if self.first[0].load(Ordering::Relaxed) == 0 { &self.first } else { &self.last };
        to[0].store(running, Ordering::Relaxed);
        to[1].store(done, Ordering::Relaxed);
    }

    /// Records that everything is set up, unless that was recorded before.
    pub(crate) fn begin(&self) {
        if self.ready.load(Ordering::Relaxed) == u64::MAX {
            self.ready.store(self.clock.now().as_nanos(), Ordering::Relaxed);
        }
    }

    /// Returns whether the run has lasted as long as it should.
    pub(crate) fn is_over(&self) -> bool {
        self.running() >= Self::WARM_UP + self.time
    }

    /// Returns the number of items counted per second.
    fn rate(&self) -> f64 {
        let [nanos, done] = [0, 1].map(|n| {
            self.last[n].load(Ordering::Relaxed).saturating_sub(self.first[n].load(Ordering::Relaxed))
        });
        done as f64 / (nanos.max(1) as f64 / 1e9)
    }
}

/// Runs a workload for some seconds. Returns the number of items that it did per second.
pub(crate) fn measure(workload: Workload, seconds: f64, run: &dyn Fn(Workload, &Arc<Progress>)) -> f64 {
    let progress = Arc::new(Progress::new(seconds));
    run(workload, &progress);
    progress.rate()
}

/// Runs both ends, each on a processor of its own.
pub(crate) fn on_two_processors(client: impl FnOnce() + Send, server: impl FnOnce() + Send) {
    let place = |number: usize| {
        pin_to_cpu(cpus()[number]).unwrap();
        prefer_this_thread();
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            place(0);
            client();
        });
        scope.spawn(|| {
            place(1);
            server();
        });
    });
}
