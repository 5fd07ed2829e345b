//! Waiting for a time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use evenkeel_core::time::{Duration, Instant};

use super::queue::Queue;

/// The clock of an executor. A clone is another handle of it.
#[derive(Clone)]
pub struct Timer(Arc<Queue>);

/// A future that is ready at a time of its executor.
pub struct Sleep {
    queue: Arc<Queue>,
    deadline: Instant,
    /// The number of the wait that has begun.
    wait: Option<u64>,
}

impl Timer {
    pub(super) fn new(queue: &Arc<Queue>) -> Self {
        Self(Arc::clone(queue))
    }

    /// Returns a future that is ready after a time.
    #[must_use]
    pub fn sleep(&self, time: Duration) -> Sleep {
        Sleep { queue: Arc::clone(&self.0), deadline: self.0.now() + time, wait: None }
    }
}

impl Sleep {
    fn stop(&mut self) {
        if let Some(wait) = self.wait.take() {
            self.queue.forget(self.deadline, wait);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.stop();
        if self.deadline <= self.queue.now() {
            return Poll::Ready(());
        }
        self.wait = Some(self.queue.wake_at(self.deadline, context.waker()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Timer").field(&self.0.now()).finish()
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
