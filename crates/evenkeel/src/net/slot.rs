//! The place of a task that waits for one direction of a socket.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(feature = "tokio")]
use std::task::ready;
use std::task::{Context, Poll, Waker};

#[cfg(feature = "tokio")]
use ::tokio::task::coop::poll_proceed;
use evenkeel_core::host::System;
use evenkeel_core::socket::Kinds;

use super::handle::Net;
use super::seat::Seat;
use super::socket::Socket;
use crate::error::Error;

/// The place of a task that waits for one direction of a socket. The last task that polls has it.
#[derive(Debug)]
pub(super) struct Slot {
    seat: Arc<Seat>,
    /// Whether the host calls the seat.
    is_registered: AtomicBool,
}

/// The result of a visit to the host.
enum Visit<T> {
    Done(Result<T, Error>),
    /// The seat is registered.
    Waits,
    /// The call would block, but may succeed at once.
    Again,
}

/// Attempts at a call in one visit.
const ATTEMPTS: usize = 4;

impl Slot {
    pub(super) fn new(net: &Net) -> Self {
        Self { seat: net.shared().seat(), is_registered: AtomicBool::new(false) }
    }

    /// Makes `call`. If it would block, has the task woken when the socket is ready for one of `kinds`.
    pub(super) fn poll<T>(
        &self,
        socket: &Socket,
        kinds: Kinds,
        context: &mut Context<'_>,
        mut call: impl FnMut(&mut System<'_>) -> Result<T, Error>,
    ) -> Poll<Result<T, Error>> {
        self.visit(socket, context, |system, waker| {
            for _ in 0..ATTEMPTS {
                match call(system) {
                    Err(error) if error.would_block() => {}
                    result => return Visit::Done(result),
                }
                if system.wait(socket.fd, kinds, waker).is_empty() {
                    return Visit::Waits;
                }
            }
            Visit::Again
        })
    }

    /// Returns those of `kinds` for which the socket is ready. If it is for none, has the task woken when it
    /// is.
    #[cfg(feature = "tokio")]
    pub(super) fn poll_ready(
        &self,
        socket: &Socket,
        kinds: Kinds,
        context: &mut Context<'_>,
    ) -> Poll<Result<Kinds, Error>> {
        self.visit(socket, context, |system, waker| {
            let ready = system.wait(socket.fd, kinds, waker);
            if ready.is_empty() { Visit::Waits } else { Visit::Done(Ok(ready)) }
        })
    }

    fn visit<T>(
        &self,
        socket: &Socket,
        context: &mut Context<'_>,
        visit: impl FnOnce(&mut System<'_>, &Waker) -> Visit<T>,
    ) -> Poll<Result<T, Error>> {
        // Other tasks of a runtime run even if this one always finds something.
        #[cfg(feature = "tokio")]
        let budget = ready!(poll_proceed(context));
        if self.waits_on(context) {
            return Poll::Pending;
        }
        self.is_registered.store(false, Ordering::Release);
        let shared = socket.net.shared();
        let mut held = shared.lock();
        // Answers wait for those of the other tasks that were called, and not for its own.
        self.seat.resume();
        let visited = held.enter_as_task(socket.account.process(), |system| {
            self.seat.set_task(context.waker());
            let visited = visit(system, &Waker::from(Arc::clone(&self.seat)));
            self.is_registered.store(matches!(visited, Visit::Waits), Ordering::Release);
            Ok(visited)
        });
        let result = match visited {
            Ok(Visit::Waits) if held.has_no_device() => Err(Error::Down),
            Ok(Visit::Waits) => return Poll::Pending,
            Ok(Visit::Again) => {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Ok(Visit::Done(result)) => result,
            Err(error) => Err(error),
        };
        drop(held);
        #[cfg(feature = "tokio")]
        budget.made_progress();
        // Another task may have taken the place meanwhile.
        if let Some(other) = self.seat.take_task().filter(|task| !task.will_wake(context.waker())) {
            other.wake();
        }
        Poll::Ready(result)
    }

    /// Returns whether the host has still not called, and has the present task woken when it does.
    fn waits_on(&self, context: &Context<'_>) -> bool {
        let waits = || self.is_registered.load(Ordering::Acquire) && !self.seat.is_called();
        if !waits() {
            return false;
        }
        self.seat.set_task(context.waker());
        waits()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.seat.resume();
    }
}

/// A call of a task that waits. The host forgets it when it is dropped.
struct Call<'a> {
    socket: &'a Socket,
    slot: Slot,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.slot.is_registered.load(Ordering::Acquire) {
            let waker = Waker::from(Arc::clone(&self.slot.seat));
            let _ = self.socket.enter(|system| system.forget(self.socket.fd, &waker));
        }
    }
}

/// Makes `call` until it would not block any more.
pub(super) async fn wait_in<T>(
    socket: &Socket,
    kinds: Kinds,
    mut call: impl FnMut(&mut System<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let waiting = Call { socket, slot: Slot::new(&socket.net) };
    poll_fn(|context| waiting.slot.poll(socket, kinds, context, &mut call)).await
}

/// Waits until a socket is ready for one of `kinds`. Returns those for which it is.
#[cfg(feature = "tokio")]
pub(super) async fn ready_for(socket: &Socket, kinds: Kinds) -> Result<Kinds, Error> {
    let waiting = Call { socket, slot: Slot::new(&socket.net) };
    poll_fn(|context| waiting.slot.poll_ready(socket, kinds, context)).await
}

/// Makes `call` once, and never waits.
#[cfg(feature = "tokio")]
pub(super) fn try_in<T>(
    socket: &Socket,
    call: impl FnOnce(&mut System<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    socket.net.shared().lock().enter_as_task(socket.account.process(), call)
}
