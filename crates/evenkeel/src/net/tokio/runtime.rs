//! The task by which a runtime drives a host.

use std::future::Future;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;
use ::tokio::runtime::Handle;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_link::Alarm;

use super::super::handle::Net;
use super::super::roles::TaskRole;
use super::super::runtimes::Attached;
use super::super::seat::Seat;
use super::super::shared::{Held, Shared};
use crate::ended::Next;

/// The turns that the task takes before it lets other tasks of its runtime run.
const TURNS_PER_POLL: usize = 4;

/// The time after which the task goes on when the kernel is out of memory.
const BETTER_TIMES: Duration = Duration::from_millis(1);

/// Returns the runtime of the caller. At its first call, the runtime begins to drive the host.
pub(super) fn current(net: &Net) -> io::Result<Arc<Attached>> {
    let handle = Handle::try_current().map_err(io::Error::other)?;
    net.runtimes().get(handle.id(), net.shared(), |attached| {
        handle.spawn(Drive::new(attached)?);
        Ok(())
    })
}

/// The task of a runtime that drives a host.
struct Drive {
    attached: Arc<Attached>,
    /// The descriptors of the devices.
    watched: Vec<AsyncFd<Arc<OwnedFd>>>,
    /// The [generation](evenkeel_link::Halt::generation) of `watched`.
    generation: Option<u64>,
    /// The deadline of the host.
    alarm: AsyncFd<Alarm>,
    /// The number of times that the role of the driver had been taken at the last turn.
    taken: u64,
    /// Whether the tasks that wait were woken because all devices have ended.
    has_ended: bool,
}

/// The events since the last turn.
#[derive(Debug, Clone, Copy, Default)]
struct Woken {
    by_descriptor: bool,
    by_alarm: bool,
}

/// The result of a turn.
enum Turn {
    /// There is more to do.
    Again,
    /// There is nothing to do before another event.
    Rests,
    /// The host has closed.
    Ends,
}

impl Drive {
    fn new(attached: &Arc<Attached>) -> io::Result<Self> {
        let alarm = watch(Alarm::new()?)?;
        attached.shared.lock().roles.add_task(&attached.seat);
        Ok(Self {
            attached: Arc::clone(attached),
            watched: Vec::new(),
            generation: None,
            alarm,
            taken: 0,
            has_ended: false,
        })
    }

    /// Returns the events since the last call. For those that have not come, the task is woken when they do.
    fn take_woken(&mut self, context: &mut Context<'_>) -> io::Result<Woken> {
        let mut woken = Woken::default();
        for descriptor in &self.watched {
            if let Poll::Ready(ready) = descriptor.poll_read_ready(context) {
                ready?.clear_ready();
                woken.by_descriptor = true;
            }
        }
        if let Poll::Ready(ready) = self.alarm.poll_read_ready(context) {
            ready?.clear_ready();
            self.alarm.get_mut().silence();
            woken.by_alarm = true;
        }
        Ok(woken)
    }

    /// Runs one turn of the host, and prepares the rest if nothing is to be done.
    fn take_turn(&mut self, has_readable: bool) -> io::Result<Turn> {
        let attached = Arc::clone(&self.attached);
        let Attached { shared, seat, .. } = &*attached;
        let mut held = shared.lock();
        if shared.closing.load(Ordering::Acquire) {
            return Ok(Turn::Ends);
        }
        if !take_role(&mut held, shared, seat) {
            return Ok(Turn::Rests);
        }
        held.task_turns += 1;
        let taken = mem::replace(&mut self.taken, held.roles.times_taken());
        // Another driver may have polled descriptors, and left the rest to this one.
        held.driver.end_rest(has_readable || taken != self.taken);
        let Ok(next) = held.take_turn_of_all() else {
            self.alarm.get_mut().ring_by(shared.now() + BETTER_TIMES, &shared.clock)?;
            return Ok(Turn::Rests);
        };
        held.call_helper_if_uncalled();
        if held.has_no_device() && !mem::replace(&mut self.has_ended, true) {
            let now = shared.now();
            held.host().wake_waiters(now);
        }
        if next == Next::Again {
            return Ok(Turn::Again);
        }
        let until = held.driver.begin_rest(self.alarm.get_ref().due());
        held.is_napping = true;
        self.follow_descriptors(&held)?;
        drop(held);
        if until <= shared.now() {
            return Ok(Turn::Again);
        }
        if until != Instant::NEVER {
            self.alarm.get_mut().ring_by(until, &shared.clock)?;
        }
        Ok(Turn::Rests)
    }

    /// Registers the host's descriptors with the runtime, if they have changed.
    fn follow_descriptors(&mut self, held: &Held<'_>) -> io::Result<()> {
        let halt = &held.driver.outside.halt;
        if self.generation == Some(halt.generation()) {
            return Ok(());
        }
        let before = mem::take(&mut self.watched);
        let mut before: Vec<_> = before.into_iter().map(Some).collect();
        for descriptor in halt.shared_descriptors() {
            let is = |other: &&mut Option<AsyncFd<Arc<OwnedFd>>>| {
                other.as_ref().is_some_and(|other| Arc::ptr_eq(other.get_ref(), descriptor))
            };
            self.watched.push(match before.iter_mut().find(is).and_then(Option::take) {
                Some(known) => known,
                None => watch(Arc::clone(descriptor))?,
            });
        }
        self.generation = Some(halt.generation());
        Ok(())
    }
}

/// Registers an owner of a descriptor with the runtime of the caller.
#[allow(
    deprecated,
    reason = "its successor is unsafe for owners that close their descriptor early, and these do not"
)]
fn watch<T: AsRawFd>(owner: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(owner, Interest::READABLE)
}

/// Makes the task of `seat` the driver, if no other task is. Returns whether it drives.
fn take_role(held: &mut Held<'_>, shared: &Shared, seat: &Arc<Seat>) -> bool {
    match held.roles.task_takes(seat) {
        TaskRole::Waits => return false,
        TaskRole::ReplacesThread if held.is_napping => shared.oust.notify(),
        TaskRole::ReplacesHelper => shared.kick.notify(),
        TaskRole::Drives | TaskRole::ReplacesThread => {}
    }
    held.is_napping = false;
    true
}

impl Future for Drive {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.attached.seat.set_task(context.waker());
        let mut rests = false;
        for _ in 0..TURNS_PER_POLL {
            // An error means that the runtime ends.
            let Ok(woken) = this.take_woken(context) else { return Poll::Ready(()) };
            if rests && !woken.by_descriptor && !woken.by_alarm {
                return Poll::Pending;
            }
            match this.take_turn(woken.by_descriptor) {
                Ok(Turn::Again) => rests = false,
                Ok(Turn::Rests) => rests = true,
                Ok(Turn::Ends) | Err(_) => return Poll::Ready(()),
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        let Attached { shared, seat, .. } = &*self.attached;
        self.attached.end();
        let mut held = shared.lock();
        if held.roles.driving_task().is_some_and(|driver| Arc::ptr_eq(driver, seat)) {
            held.is_napping = false;
        }
        let succession = held.roles.task_leaves(seat);
        held.settle(succession);
    }
}

#[cfg(test)]
mod tests {
    use super::super::UdpSocket;
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build().unwrap()
    }

    /// Returns a host that the task of a runtime drives, and what keeps it so.
    fn driven() -> (Net, UdpSocket, tokio::runtime::Runtime) {
        let (runtime, (net, _)) = (runtime(), Net::pair().unwrap());
        let socket = runtime.block_on(UdpSocket::bind(&net, "0.0.0.0:7")).unwrap();
        while !net.shared().lock().roles.task_drives() {
            std::thread::yield_now();
        }
        (net, socket, runtime)
    }

    /// The thread sleeps on the devices without a limit, and is parked once it is told.
    #[test]
    fn a_task_takes_the_role_from_a_thread() {
        let (net, _peer) = Net::pair().unwrap();
        let blocking = super::super::super::UdpSocket::bind(&net, "0.0.0.0:9").unwrap();
        let receiving = blocking.try_clone().unwrap();
        let thread = std::thread::spawn(move || receiving.recv_from(&mut [0]));
        let until = |is: &dyn Fn(&Held<'_>) -> bool| {
            while !is(&net.shared().lock()) {
                std::thread::yield_now();
            }
        };
        // The host has announced its addresses, and no deadline wakes the thread any more.
        let late = net.shared().now() + Duration::from_secs(3_600);
        let is_late = |held: &Held<'_>| held.driver.outside.sleeper.rests_until().is_some_and(|at| at > late);
        until(&|held| held.is_napping && held.roles.driving_seat().is_some() && is_late(held));
        let runtime = runtime();
        // It makes no call that would wake the thread.
        let _attached = runtime.block_on(async { current(&net) }).unwrap();
        until(&|held| held.roles.task_drives() && held.roles.parked() == 1);
        drop(runtime);
        // The thread drives again.
        until(&|held| held.roles.driving_seat().is_some());
        drop(thread);
    }

    #[test]
    fn the_role_is_handed_over_when_the_runtime_ends() {
        let (net, _socket, runtime) = driven();
        drop(runtime);
        assert!(!net.shared().lock().roles.task_drives());
    }

    #[test]
    fn the_next_runtime_of_a_host_drives_it() {
        let (net, _socket, first) = driven();
        let second = runtime();
        let _other = second.block_on(UdpSocket::bind(&net, "0.0.0.0:8")).unwrap();
        // Its task waits for the role.
        while net.shared().lock().roles.tasks().len() < 2 {
            std::thread::yield_now();
        }
        drop(first);
        assert!(net.shared().lock().roles.task_drives());
        drop(second);
        assert!(!net.shared().lock().roles.task_drives());
    }

    #[test]
    fn an_idle_host_is_left_alone() {
        let (net, _socket, _runtime) = driven();
        let turns = || net.shared().lock().task_turns;
        // The first announcements are over.
        evenkeel_testing::pause(Duration::from_millis(200));
        let before = turns();
        evenkeel_testing::pause(Duration::from_millis(300));
        assert!(turns() - before < 20, "{} turns", turns() - before);
    }
}
