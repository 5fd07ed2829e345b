//! Programs that screen and capture.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use evenkeel_core::capture::Capture;
use evenkeel_core::host::System;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::screen::Verdict;
use evenkeel_core::socket::{BindError, Fd, SocketId};
use evenkeel_core::stack::{InterfaceId, Transit};
use evenkeel_core::system::{CaptureSocket, Screen};
use evenkeel_core::time::{Duration, Instant};

/// The state shared by a program of these tests and its test.
#[derive(Debug, Default)]
pub(crate) struct Reins {
    /// While this is set, the program sleeps.
    pub(crate) hangs: AtomicBool,
    pub(crate) count: AtomicU64,
    /// As the program and the host know it.
    pub(crate) queue: Mutex<Option<(Fd, SocketId)>>,
    pub(crate) refused: Mutex<Option<BindError>>,
    pub(crate) captured: Mutex<Vec<Sighted>>,
}

impl Reins {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn hang(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::Relaxed);
    }

    pub(crate) fn queue(&self) -> SocketId {
        self.queue.lock().unwrap().unwrap().1
    }

    fn capture(&self) -> CaptureSocket {
        self.queue.lock().unwrap().unwrap().0.into()
    }

    fn hangs(&self) -> bool {
        self.hangs.load(Ordering::Relaxed)
    }

    fn opened<T: Copy + Into<Fd>>(
        &self,
        result: Result<T, BindError>,
        system: &System<'_>,
    ) -> Result<T, Step> {
        match result {
            Ok(queue) => {
                *self.queue.lock().unwrap() = Some((queue.into(), system.socket(queue).unwrap()));
                Ok(queue)
            }
            Err(error) => {
                *self.refused.lock().unwrap() = Some(error);
                Err(Step::Exit)
            }
        }
    }
}

/// The time that a hanging program sleeps before it checks whether it still hangs.
const NAP: Duration = Duration::from_micros(50);

/// Screens packets, one by one.
#[derive(Debug)]
pub(crate) struct Screener {
    pub(crate) limit_pkts: usize,
    pub(crate) decide: fn(&Transit) -> Verdict,
    pub(crate) compute: Duration,
    pub(crate) reins: Arc<Reins>,
    pub(crate) queue: Option<Screen>,
}

impl Screener {
    pub(crate) fn new(limit_pkts: usize, decide: fn(&Transit) -> Verdict) -> (Self, Arc<Reins>) {
        let reins = Arc::<Reins>::default();
        (Self { limit_pkts, decide, compute: Duration::ZERO, reins: Arc::clone(&reins), queue: None }, reins)
    }
}

impl Program for Screener {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(queue) = self.queue else {
            let opened = Screen::open(system, self.limit_pkts);
            return match self.reins.opened(opened, system) {
                Ok(queue) => {
                    self.queue = Some(queue);
                    Step::Again
                }
                Err(step) => step,
            };
        };
        if self.reins.hangs() {
            return Step::Sleep(system.now() + NAP);
        }
        if queue.decide(system, self.decide).is_err() {
            return Step::Wait(queue.fd());
        }
        self.reins.count.fetch_add(1, Ordering::Relaxed);
        system.compute(self.compute);
        Step::Again
    }
}

/// A captured frame, as its program saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sighted {
    pub(crate) interface: InterfaceId,
    pub(crate) at: Instant,
    pub(crate) sent: bool,
    pub(crate) original_bytes: usize,
    pub(crate) bytes: Vec<u8>,
}

/// A program that captures frames.
#[derive(Debug)]
pub(crate) struct Monitor {
    pub(crate) wanted: Option<Capture>,
    pub(crate) compute: Duration,
    pub(crate) reins: Arc<Reins>,
}

impl Monitor {
    pub(crate) fn new(wanted: Capture) -> (Self, Arc<Reins>) {
        let reins = Arc::<Reins>::default();
        (Self { wanted: Some(wanted), compute: Duration::ZERO, reins: Arc::clone(&reins) }, reins)
    }
}

impl Program for Monitor {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        if let Some(wanted) = self.wanted.take() {
            let opened = CaptureSocket::open(system, wanted);
            if let Err(step) = self.reins.opened(opened, system) {
                return step;
            }
        }
        if self.reins.hangs() {
            return Step::Sleep(system.now() + NAP);
        }
        let queue = self.reins.capture();
        let Ok(captured) = queue.front(system) else { return Step::Wait(queue.fd()) };
        self.reins.count.fetch_add(1, Ordering::Relaxed);
        self.reins.captured.lock().unwrap().push(Sighted {
            interface: captured.interface,
            at: captured.at,
            sent: captured.sent,
            original_bytes: captured.original_bytes,
            bytes: captured.bytes.to_vec(),
        });
        queue.pop(system);
        system.compute(self.compute);
        Step::Again
    }
}
