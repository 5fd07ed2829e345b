//! The events of a process that serves: signals, and intervals.

use std::future::Future as _;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use evenkeel::raw::signal::{Stop, hangup_events};
use evenkeel::raw::wait::EventFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Interval, MissedTickBehavior, Sleep, interval, sleep};

use super::host::{ATTEND, Hosting};
use super::serving::Serving;
use crate::host_setup::{Limits, Occasion};
use crate::supervised::Manager;

/// The signals of a process that serves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Process {
    stop: &'static Stop,
    hangup: Option<&'static EventFd>,
}

/// An event of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The server is to stop.
    Stop,
    /// The certificate is to be read again.
    Reload,
    /// A report is due.
    Report(Occasion),
    /// The capture is to be attended.
    Attend,
    /// The service manager expects a sign of life.
    Alive,
}

/// The events of a process, each of which wakes the task that serves.
#[derive(Debug)]
pub(super) struct Events {
    limits: Limits,
    hangup: Option<&'static EventFd>,
    stop: Option<AsyncFd<Arc<OwnedFd>>>,
    hung_up: Option<AsyncFd<Arc<OwnedFd>>>,
    requested: Option<AsyncFd<Arc<OwnedFd>>>,
    end: Option<Pin<Box<Sleep>>>,
    every: Option<Interval>,
    attend: Option<Interval>,
    alive: Option<Interval>,
}

impl Process {
    /// Takes the signals of the process: those that ask it to end, and SIGHUP if `serving` can reload.
    pub(super) fn prepare(serving: &Serving) -> io::Result<Self> {
        // The order matters: SIGHUP otherwise ends the process.
        let hangup = if serving.tls.is_some() { Some(hangup_events()?) } else { None };
        Ok(Self { stop: Stop::on_signals()?, hangup })
    }

    /// Returns the events of the process within limits, and those of the capture of its host.
    pub(super) fn events(self, limits: Limits, hosting: Option<&Hosting>) -> io::Result<Events> {
        let capture = hosting.filter(|hosting| hosting.has_capture());
        let ticks = |every| {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            // The first one comes at once.
            ticks.reset();
            ticks
        };
        Ok(Events {
            limits,
            hangup: self.hangup,
            stop: Some(watch(self.stop.fd())?),
            hung_up: self.hangup.map(|hangup| watch(hangup.fd())).transpose()?,
            requested: limits.reports.map(|reports| watch(reports.event().fd())).transpose()?,
            end: limits.duration.map(|duration| Box::pin(sleep(duration))),
            every: limits.every.map(ticks),
            attend: capture.map(|_| ticks(ATTEND)),
            alive: limits.manager().and_then(Manager::beats).map(ticks),
        })
    }
}

impl Events {
    /// Returns the next event, or has the task woken when there is one.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        let is_over = self.end.as_mut().is_some_and(|end| end.as_mut().poll(context).is_ready());
        if is_over || is_readable(self.stop.as_ref(), context) {
            // The descriptor stays readable.
            (self.end, self.stop) = (None, None);
            return Poll::Ready(Event::Stop);
        }
        while is_readable(self.hung_up.as_ref(), context) {
            if self.hangup.is_some_and(EventFd::take) {
                return Poll::Ready(Event::Reload);
            }
        }
        while is_readable(self.requested.as_ref(), context) {
            if let Some(occasion) = self.limits.take_request() {
                return Poll::Ready(Event::Report(occasion));
            }
        }
        if self.every.as_mut().is_some_and(|every| every.poll_tick(context).is_ready()) {
            return Poll::Ready(Event::Report(Occasion::Interval));
        }
        if self.attend.as_mut().is_some_and(|attend| attend.poll_tick(context).is_ready()) {
            return Poll::Ready(Event::Attend);
        }
        if self.alive.as_mut().is_some_and(|alive| alive.poll_tick(context).is_ready()) {
            return Poll::Ready(Event::Alive);
        }
        Poll::Pending
    }
}

/// Returns whether a descriptor has become readable since the last call. If not, has the task woken when it
/// does.
fn is_readable(descriptor: Option<&AsyncFd<Arc<OwnedFd>>>, context: &mut Context<'_>) -> bool {
    let ready = descriptor.map(|descriptor| descriptor.poll_read_ready(context));
    // An error says that the runtime ends.
    let Some(Poll::Ready(Ok(mut ready))) = ready else { return false };
    ready.clear_ready();
    true
}

/// Registers a descriptor with the runtime of the caller.
#[allow(
    deprecated,
    reason = "its successor is unsafe for owners that close their descriptor early, and these do not"
)]
fn watch(descriptor: Arc<OwnedFd>) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}
