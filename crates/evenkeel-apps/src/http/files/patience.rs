//! The time-outs of a connection.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use hyper::rt::{Sleep, Timer};

use super::activity::{Activity, Phase};
use super::settings::Settings;

/// The timer of a server, which connections share.
pub(super) type SharedTimer = Arc<dyn Timer + Send + Sync>;

/// A future that is ready once a connection has used up its time.
///
/// It has one timer for the life of a connection. Progress only moves the deadline: the timer stays where it
/// is, and is set again when it fires early. So a request costs a reading of the clock and no timer.
///
/// The task of the connection polls it after the connection, so that it sees what was done. A request of
/// HTTP/2 is a task of its own. Its progress is seen when the task of the connection next runs, at the latest
/// when the timer fires. So a time-out can come late by at most the limit of the phase before.
pub(super) struct Patience {
    timer: SharedTimer,
    limits: Limits,
    activity: Arc<Activity>,
    seen: (Phase, u64),
    deadline: Instant,
    /// The time that the timer is set to, never later than the deadline.
    alarm: Instant,
    sleep: Pin<Box<dyn Sleep>>,
}

struct Limits {
    head: Duration,
    idle: Duration,
    stall: Duration,
}

impl Limits {
    /// Returns the time at which a phase has to make progress. A limit beyond a year is one of a year.
    fn deadline(&self, phase: Phase, now: Instant) -> Instant {
        const YEAR: Duration = Duration::from_secs(365 * 86_400);
        let limit = match phase {
            Phase::Head => self.head,
            Phase::Idle => self.idle,
            Phase::Answer => self.stall,
        };
        now + limit.min(YEAR)
    }
}

impl Patience {
    pub(super) fn new(timer: &SharedTimer, settings: &Settings, activity: &Arc<Activity>) -> Self {
        let limits = Limits {
            head: settings.head_timeout,
            idle: settings.idle_timeout,
            stall: settings.stall_timeout,
        };
        let seen = activity.snapshot();
        let deadline = limits.deadline(seen.0, timer.now());
        Self {
            sleep: timer.sleep_until(deadline),
            timer: Arc::clone(timer),
            activity: Arc::clone(activity),
            limits,
            seen,
            deadline,
            alarm: deadline,
        }
    }

    fn set_alarm(&mut self) {
        self.alarm = self.deadline;
        self.timer.reset(&mut self.sleep, self.alarm);
    }
}

impl Future for Patience {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let seen = this.activity.snapshot();
        if seen != this.seen {
            this.seen = seen;
            this.deadline = this.limits.deadline(seen.0, this.timer.now());
            if this.deadline < this.alarm {
                this.set_alarm();
            }
        }
        while this.sleep.as_mut().poll(cx).is_ready() {
            if this.timer.now() >= this.deadline {
                return Poll::Ready(());
            }
            this.set_alarm();
        }
        Poll::Pending
    }
}
