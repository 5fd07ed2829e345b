//! Screening by a function on a thread of its own, which may take any time.

use core::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

use evenkeel::Engine;
use evenkeel::raw::ip::InterfaceId;
use evenkeel::raw::process::{Program, Step, System};
use evenkeel::raw::screen::{Screen, Verdict};
use evenkeel::raw::time::Duration;
use evenkeel::raw::wait::EventFd;

use super::screen::{Report, ScreenQueue};

/// A copy of a packet for the function.
#[derive(Debug)]
pub struct Shown {
    interface: InterfaceId,
    packet: Vec<u8>,
}

impl Shown {
    /// Returns the interface that the packet arrived on.
    #[must_use]
    pub const fn interface(&self) -> InterfaceId {
        self.interface
    }

    /// Returns the packet, from the IP header to its end.
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        &self.packet
    }
}

/// A verdict, and the memory of its packet.
type Answer = (Verdict, Vec<u8>);

/// The process that passes packets to the thread and applies its verdicts.
struct ThreadScreening {
    queue_pkts: usize,
    queue: ScreenQueue,
    to_judge: SyncSender<Shown>,
    judged: Receiver<Answer>,
    spare: Vec<Vec<u8>>,
    waiting: Arc<AtomicU64>,
    report: Arc<Report>,
}

/// A cheap, cloneable handle to the number of packets that wait for a screening function on a thread of its
/// own.
#[derive(Debug, Clone)]
pub struct Waiting(Arc<AtomicU64>);

impl Waiting {
    /// Returns the number of packets that the function has received and not judged yet.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The interval at which the process polls even if no thread wakes it.
const LOOK: Duration = Duration::from_millis(100);

/// Makes `function` screen all packets that the engine's host forwards from now on, on a thread of its own.
/// However long the function takes, and even if it never returns, the host continues with all other packets.
/// The function has at most `queue_pkts` packets, and as many wait for it. Further packets are dropped at the
/// rings or by the screening queue.
///
/// If the function panics, its packets are dropped. From then on all packets to be forwarded are dropped,
/// too, as when a screening process ends.
///
/// # Errors
/// If there can be no thread, or no further descriptor.
pub fn screen_on_thread(
    engine: &mut Engine,
    queue_pkts: usize,
    report: Arc<Report>,
    mut function: impl FnMut(&Shown) -> Verdict + Send + 'static,
) -> io::Result<Waiting> {
    let event = EventFd::new()?;
    // At most `queue_pkts` packets are in the channels, so neither side ever waits for room.
    let (to_judge, shown) = sync_channel::<Shown>(queue_pkts.max(1));
    let (answer, judged) = sync_channel::<Answer>(queue_pkts.max(1));
    let notified = event.clone();
    thread::Builder::new().name("screening".to_owned()).spawn(move || {
        // The process is also notified when the function panics, after the channel ends are dropped (locals
        // drop in reverse order), so that it sees the end.
        let event = NotifyAtEnd(notified);
        let (shown, answer) = (shown, answer);
        for shown in shown {
            let verdict = function(&shown);
            if answer.send((verdict, shown.packet)).is_err() {
                return;
            }
            event.0.notify();
        }
    })?;
    let waiting = Waiting(Arc::default());
    let program = ThreadScreening {
        queue_pkts: queue_pkts.max(1),
        queue: ScreenQueue::new(queue_pkts.max(1)),
        to_judge,
        judged,
        spare: Vec::with_capacity(queue_pkts),
        waiting: Arc::clone(&waiting.0),
        report,
    };
    engine.host_mut().require_screening();
    let process = engine.host_mut().spawn("screening", 0, Box::new(program));
    engine.attend_event(&event, move |host, now| host.wake_process(process, now));
    Ok(waiting)
}

/// A guard that notifies the event when it is dropped.
struct NotifyAtEnd(EventFd);

impl Drop for NotifyAtEnd {
    fn drop(&mut self) {
        self.0.notify();
    }
}

impl fmt::Debug for ThreadScreening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadScreening").field("queue_pkts", &self.queue_pkts).finish_non_exhaustive()
    }
}

impl ThreadScreening {
    /// Applies the verdicts so far; returns false if there will be no more.
    fn judge(&mut self, system: &mut System<'_>, queue: Screen) -> bool {
        loop {
            match self.judged.try_recv() {
                Ok((verdict, room)) => {
                    // The packet of each verdict was passed to the thread before.
                    let _ = queue.judge(system, verdict);
                    self.report.count(verdict);
                    self.waiting.fetch_sub(1, Ordering::Relaxed);
                    self.spare.push(room);
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Passes waiting packets to the thread, as far as there is room. Returns false if the thread has ended.
    fn show(&mut self, system: &mut System<'_>, queue: Screen) -> bool {
        loop {
            let mut packet = self.spare.pop().unwrap_or_default();
            let mut interface = None;
            let shown = queue.show(system, |transit| {
                packet.clear();
                packet.extend_from_slice(transit.packet());
                interface = Some(transit.interface());
            });
            let (Ok(()), Some(interface)) = (shown, interface) else {
                self.spare.push(packet);
                return true;
            };
            self.waiting.fetch_add(1, Ordering::Relaxed);
            if self.to_judge.try_send(Shown { interface, packet }).is_err() {
                return false;
            }
        }
    }

    fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= self.queue_pkts as u64
    }
}

impl Program for ThreadScreening {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let queue = match self.queue.open(system, &self.report) {
            Ok(queue) => queue,
            Err(step) => return step,
        };
        // Packets at the thread are dropped with the queue when this ends.
        if !self.judge(system, queue) || !self.show(system, queue) {
            return Step::Exit;
        }
        let until = system.now() + LOOK;
        if self.is_full() { Step::Sleep(until) } else { Step::WaitUntil(queue.fd(), until) }
    }
}
