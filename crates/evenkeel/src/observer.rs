//! Measurements of a running host that the host itself does not count: the time of its thread, and the
//! operating system's counters of its devices.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use evenkeel_core::stack::InterfaceId;
use evenkeel_core::time::Duration;
use evenkeel_link::{Device, KernelCounters, KernelCounts, Status, ThreadMeter, ThreadTime};

/// A cheap, cloneable handle to the measurements of an engine. Usable from any thread, also while the
/// engine runs.
#[derive(Debug, Clone, Default)]
pub struct Observer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    threads: Mutex<Threads>,
    halted_nanos: AtomicU64,
    devices: Mutex<Vec<Arc<Observed>>>,
}

#[derive(Debug)]
struct Observed {
    interface: InterfaceId,
    device: Parts,
    /// The counters of the devices that this one has replaced.
    earlier: Option<DeviceCounters>,
}

/// The threads that have run an engine, one after the other.
#[derive(Debug, Default)]
struct Threads {
    /// The time that earlier threads have used while they ran the engine.
    earlier: ThreadTime,
    present: Option<Present>,
}

#[derive(Debug)]
struct Present {
    meter: Arc<ThreadMeter>,
    /// The time that the thread had used before it ran the engine.
    before: ThreadTime,
    /// The time at the last reading, which remains once the thread has ended.
    last: ThreadTime,
}

impl Threads {
    /// Makes the calling thread the present one. `until_now` is the time that all threads have used so far.
    fn observe(&mut self, until_now: ThreadTime) {
        let meter = ThreadMeter::of_this_thread();
        let before = meter.read().unwrap_or_default();
        self.earlier = until_now;
        self.present = Some(Present { meter: Arc::new(meter), before, last: before });
    }

    /// Returns the time that all threads have used until the last reading of the present one.
    fn time(&self) -> ThreadTime {
        let Some(Present { before, last, .. }) = &self.present else { return self.earlier };
        self.earlier + (*last - *before)
    }
}

/// The time that the threads of an engine have used, and the time that they have halted.
#[derive(Debug, Clone, Copy, Default)]
pub struct CoreUse {
    /// The time that the kernel has counted for the threads that ran the host
    /// ([`Engine::run`](crate::Engine::run), [`wait`](crate::Engine::wait) or
    /// [`advance`](crate::Engine::advance)). A thread counts in full from its first such call until another
    /// thread makes one; that includes its other work. Zero if no thread has run the host yet. A thread
    /// that has ended counts with its last reading: readings are made on request and at the end of `run`.
    pub thread: ThreadTime,
    /// The time in calls of the engine that halt the core, from the start to the end of the call. An event
    /// loop that runs the host with `advance` halts by itself, and this value does not include it.
    pub halted: Duration,
}

impl CoreUse {
    /// Returns the times that have been added since `earlier`, a previous value.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let halted = self.halted.saturating_sub(earlier.halted);
        Self { thread: self.thread - earlier.thread, halted }
    }
}

/// The operating system's counters of a device, including those of the devices that it has replaced.
#[derive(Debug, Clone)]
pub struct DeviceCounters {
    /// The interface of the host that the device serves.
    pub interface: InterfaceId,
    /// The name of the device.
    pub name: String,
    /// The number of frames handed to the operating system.
    pub sent: u64,
    /// The number of system calls that sent these frames.
    pub send_calls: u64,
    /// The number of these frames that the operating system did not accept: the device was down, gone or
    /// full.
    pub refused: u64,
    /// The kernel's counters since the device was opened; `None` if it is no network device. A removed
    /// device keeps its last reading.
    pub kernel: Option<KernelCounts>,
    /// The number of frames for the host that the kernel's stack did not get, though the host has the
    /// hardware address of the device. `None` if nothing keeps the kernel off them.
    pub kept_from_kernel: Option<u64>,
    /// The number of frames that the receive rings of replaced devices have dropped. The host counts what
    /// the rings of the present device drop
    /// ([`RxCounters::missed`](evenkeel_core::interface::RxCounters::missed)).
    pub missed_before: u64,
}

impl Observer {
    /// Returns the time that the threads of the engine have used and halted so far.
    #[must_use]
    pub fn core(&self) -> CoreUse {
        CoreUse { thread: self.read_thread(), halted: self.halted() }
    }

    /// Returns the counters of all devices, in the order in which the devices were added.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceCounters> {
        let all: Vec<_> = lock(&self.0.devices).iter().map(Arc::clone).collect();
        all.iter().map(|observed| observed.counters()).collect()
    }

    pub(crate) fn halted(&self) -> Duration {
        Duration::from_nanos(self.0.halted_nanos.load(Ordering::Relaxed))
    }

    pub(crate) fn add_halted(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.halted_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Reads the time of the present thread again, if it still exists. Returns the time that all threads have
    /// used so far.
    ///
    /// No lock is held during the system calls: a thread that runs the engine must not wait for them.
    pub(crate) fn read_thread(&self) -> ThreadTime {
        let present = lock(&self.0.threads).present.as_ref().map(|present| Arc::clone(&present.meter));
        let read = present.as_ref().and_then(|meter| meter.read());
        let mut threads = lock(&self.0.threads);
        if let (Some(meter), Some(read), Some(present)) = (&present, read, &mut threads.present)
            && Arc::ptr_eq(meter, &present.meter)
            && read.ran >= present.last.ran
        {
            present.last = read;
        }
        threads.time()
    }

    /// Makes the calling thread the one that is observed. `known` is the thread that the caller knows to be
    /// observed; while that is the calling one, this takes no lock.
    pub(crate) fn observe_this_thread(&self, known: &mut Option<ThreadId>) {
        let id = thread::current().id();
        if *known == Some(id) {
            return;
        }
        let until_now = self.read_thread();
        lock(&self.0.threads).observe(until_now);
        *known = Some(id);
    }

    /// Records the device of an interface. If it replaces another device, `missed` is the number of frames
    /// that the receive rings of that device have dropped.
    pub(crate) fn observe(&self, interface: InterfaceId, device: Parts, missed: u64) {
        let mut all = lock(&self.0.devices);
        let Some(observed) = all.iter_mut().find(|observed| observed.interface == interface) else {
            return all.push(Arc::new(Observed { interface, device, earlier: None }));
        };
        let mut earlier = observed.counters();
        earlier.missed_before += missed;
        *observed = Arc::new(Observed { interface, device, earlier: Some(earlier) });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds one panics.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The parts of a device that the observer keeps when the host takes the device.
#[derive(Debug)]
pub(crate) struct Parts {
    name: String,
    status: Status,
    kernel: Option<KernelCounters>,
}

impl Parts {
    pub(crate) fn of(device: &dyn Device) -> Self {
        let (info, name) = (device.info(), device.properties().name.clone());
        Self { name, status: info.status, kernel: info.kernel_counters }
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
            kept_from_kernel: status.kept_from_kernel(),
            missed_before: 0,
        };
        match &self.earlier {
            Some(earlier) => own.and(earlier),
            None => own,
        }
    }
}

impl DeviceCounters {
    /// Returns the sum of these counters and those of the replaced devices.
    fn and(self, earlier: &Self) -> Self {
        Self {
            sent: self.sent + earlier.sent,
            send_calls: self.send_calls + earlier.send_calls,
            refused: self.refused + earlier.refused,
            kernel: self.kernel.map(|kernel| kernel + earlier.kernel.unwrap_or_default()).or(earlier.kernel),
            kept_from_kernel: sum(self.kept_from_kernel, earlier.kept_from_kernel),
            missed_before: self.missed_before + earlier.missed_before,
            ..self
        }
    }
}

/// Returns the sum of two counters; `None` if neither is there.
fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.map(|one| one + other.unwrap_or(0)).or(other)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use crate::Engine;
    use crate::test_host::{Spinner, engine};

    use super::*;

    /// Runs `work` in a thread. Returns the time that is known of the thread after it has ended.
    fn known_of_a_thread_that_has_ended(work: impl FnOnce(&mut Engine) + Send) -> Duration {
        let mut engine = engine();
        engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        let observer = engine.observer();
        thread::scope(|scope| {
            scope.spawn(|| work(&mut engine));
        });
        observer.core().thread.ran
    }

    #[test]
    fn how_a_thread_has_spent_its_time_is_known_when_it_has_ended() {
        let ran = known_of_a_thread_that_has_ended(|engine| {
            // The machine may leave it without a core.
            while engine.host().cpu(evenkeel_core::host::Level::Process) < Duration::from_millis(20) {
                engine.run(engine.clock().now() + Duration::from_millis(20), |_| false).unwrap();
            }
        });
        assert!(ran > Duration::from_millis(1), "{ran:?}");
    }

    #[test]
    fn an_event_loop_that_runs_a_host_is_observed_too() {
        let ran = known_of_a_thread_that_has_ended(|engine| {
            let observer = engine.observer();
            let end = engine.clock().now() + Duration::from_secs(30);
            while observer.core().thread.ran < Duration::from_millis(2) && engine.clock().now() < end {
                assert_eq!(engine.advance(16).unwrap(), crate::Next::Again);
            }
        });
        assert!(ran >= Duration::from_millis(2), "{ran:?}");
    }

    /// A thread that observes and is descheduled while it holds the lock.
    #[test]
    fn a_thread_that_runs_a_host_again_does_not_wait_for_observers() {
        let mut engine = engine();
        let observer = engine.observer();
        thread::scope(|scope| {
            let ((tell, told), (begin, begun)) = (mpsc::channel(), mpsc::channel());
            scope.spawn(move || {
                // The first call makes this thread the observed one.
                while engine.advance(16).unwrap() == crate::Next::Again {}
                tell.send(()).unwrap();
                begun.recv().unwrap();
                while engine.advance(16).unwrap() == crate::Next::Again {}
                tell.send(()).unwrap();
            });
            let patience = Duration::from_secs(30);
            assert_eq!(told.recv_timeout(patience), Ok(()));
            let held = lock(&observer.0.threads);
            begin.send(()).unwrap();
            let ran = told.recv_timeout(patience);
            drop(held);
            assert_eq!(ran, Ok(()), "it waited for the observer");
        });
    }
}
