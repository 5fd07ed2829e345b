//! What is known of a running host beside what the host itself counts: how its thread has spent its time, and
//! what the operating system says of its devices.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use evenkeel_core::stack::InterfaceId;
use evenkeel_core::time::Duration;
use evenkeel_link::{Device, KernelCounters, KernelCounts, Status, ThreadMeter, ThreadTime};

/// To be asked from any thread, also while the engine runs; copies say the same.
#[derive(Debug, Clone, Default)]
pub struct Observer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    threads: Mutex<Threads>,
    halted_nanos: AtomicU64,
    devices: Mutex<Vec<Observed>>,
}

#[derive(Debug)]
struct Observed {
    interface: InterfaceId,
    device: Parts,
    /// What was counted for those that were in its place before.
    earlier: Option<DeviceCounters>,
}

/// The threads that have run an engine, one after the other.
#[derive(Debug, Default)]
struct Threads {
    /// What the earlier ones have used for it.
    earlier: ThreadTime,
    present: Option<Present>,
}

#[derive(Debug)]
struct Present {
    id: ThreadId,
    meter: ThreadMeter,
    /// What it had used before.
    before: ThreadTime,
    /// What was read last: it is what is known of a thread that has ended.
    last: ThreadTime,
}

impl Threads {
    fn observe(&mut self) {
        let id = thread::current().id();
        if self.present.as_ref().is_some_and(|present| present.id == id) {
            return;
        }
        self.earlier = self.time();
        let meter = ThreadMeter::of_this_thread();
        let before = meter.read().unwrap_or_default();
        self.present = Some(Present { id, meter, before, last: before });
    }

    /// What they have used so far, the present one as far as it can still be asked.
    fn time(&mut self) -> ThreadTime {
        let Some(Present { meter, before, last, .. }) = &mut self.present else { return self.earlier };
        *last = meter.read().unwrap_or(*last);
        self.earlier + (*last - *before)
    }
}

/// How the threads that ran an engine have spent its time.
#[derive(Debug, Clone, Copy, Default)]
pub struct CoreUse {
    /// As the kernel has it: of each thread that has run the host ([`Engine::run`](crate::Engine::run),
    /// [`wait`](crate::Engine::wait) or [`advance`](crate::Engine::advance)), all that it has used from the
    /// first time until another one did, what it did beside included. Nothing if none has yet; of one that
    /// has ended, what was read last: when it was asked for, and at the end of `run`.
    pub thread: ThreadTime,
    /// In calls of the engine that halt the core: asleep, and on the way there and back. An event loop that
    /// runs the host by turns halts by itself.
    pub halted: Duration,
}

impl CoreUse {
    /// What has come since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let halted = self.halted.saturating_sub(earlier.halted);
        Self { thread: self.thread - earlier.thread, halted }
    }
}

/// What the operating system says of a device, and of those that were in its place before.
#[derive(Debug, Clone)]
pub struct DeviceCounters {
    /// Which interface of the host it is.
    pub interface: InterfaceId,
    /// Its name.
    pub name: String,
    /// Frames handed to the operating system.
    pub sent: u64,
    /// System calls that took.
    pub send_calls: u64,
    /// Of these frames, those that it did not take: the device was down, gone or full.
    pub refused: u64,
    /// What the kernel has counted since the device was opened; none if it is no network device. Of one that
    /// is gone, what was read last.
    pub kernel: Option<KernelCounts>,
    /// Frames shed by the receive rings of those that were in its place before. What its own have shed the
    /// host knows ([`RxQueue::missed`](evenkeel_core::interface::RxQueue::missed)).
    pub missed_before: u64,
}

impl Observer {
    /// How the thread of the engine has spent its time so far.
    #[must_use]
    pub fn core(&self) -> CoreUse {
        CoreUse { thread: lock(&self.0.threads).time(), halted: self.halted() }
    }

    /// The devices, in the order in which they were added.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceCounters> {
        lock(&self.0.devices).iter().map(Observed::counters).collect()
    }

    pub(crate) fn halted(&self) -> Duration {
        Duration::from_nanos(self.0.halted_nanos.load(Ordering::Relaxed))
    }

    pub(crate) fn add_halted(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.halted_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Takes note of how the thread has spent its time, for when it can no longer be asked.
    pub(crate) fn read_thread(&self) {
        lock(&self.0.threads).time();
    }

    /// The calling thread is the one to be observed.
    pub(crate) fn observe_this_thread(&self) {
        lock(&self.0.threads).observe();
    }

    /// The device of this interface, be it the first or one in the place of another, whose receive rings have
    /// shed so many frames.
    pub(crate) fn observe(&self, interface: InterfaceId, device: Parts, missed: u64) {
        let mut all = lock(&self.0.devices);
        let Some(observed) = all.iter_mut().find(|observed| observed.interface == interface) else {
            return all.push(Observed { interface, device, earlier: None });
        };
        let mut earlier = observed.counters();
        earlier.missed_before += missed;
        *observed = Observed { interface, device, earlier: Some(earlier) };
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds one panics.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is kept of a device that is handed to a host.
#[derive(Debug)]
pub(crate) struct Parts {
    name: String,
    status: Status,
    kernel: Option<KernelCounters>,
}

impl Parts {
    pub(crate) fn of(device: &dyn Device) -> Self {
        Self { name: device.name().to_owned(), status: device.status(), kernel: device.kernel_counters() }
    }
}

impl Observed {
    fn counters(&self) -> DeviceCounters {
        let Parts { name, status, kernel } = &self.device;
        let (sent, send_calls) = status.sent();
        let own = DeviceCounters {
            interface: self.interface,
            name: name.clone(),
            sent,
            send_calls,
            refused: status.refused(),
            kernel: kernel.as_ref().map(KernelCounters::since_opened),
            missed_before: 0,
        };
        match &self.earlier {
            Some(earlier) => own.and(earlier),
            None => own,
        }
    }
}

impl DeviceCounters {
    /// Together with those of the devices that were in its place before.
    fn and(self, earlier: &Self) -> Self {
        Self {
            sent: self.sent + earlier.sent,
            send_calls: self.send_calls + earlier.send_calls,
            refused: self.refused + earlier.refused,
            kernel: self.kernel.map(|kernel| kernel + earlier.kernel.unwrap_or_default()).or(earlier.kernel),
            missed_before: self.missed_before + earlier.missed_before,
            ..self
        }
    }
}
