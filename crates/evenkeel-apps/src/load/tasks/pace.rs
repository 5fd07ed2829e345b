//! The task that begins requests when they are due.

use std::future::{Future as _, poll_fn};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use evenkeel::raw::cpu::set_timer_slack;
use evenkeel::raw::signal::Stop;
use evenkeel::raw::time::Alarm;
use evenkeel::raw::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::super::crew::Seat;
use super::super::report::Measured;
use super::connector::Connector;
use super::exchange::{Means, Sender, Shop};
use super::pool::Pool;

/// The number of tasks that run between two looks for events. The runtime's default would make requests late
/// when many answers come at once.
const TASKS_BETWEEN_EVENTS: u32 = 8;

/// Makes the requests of one thread.
pub(super) fn generate<C: Connector>(
    seat: &Arc<Seat<Pool<Sender>>>,
    means: &Arc<Means<C>>,
    stop: &Stop,
) -> io::Result<Measured> {
    // Without this, requests begin 50 µs late. They also do so if the process may not set the timer slack.
    let _ = set_timer_slack(Duration::from_nanos(1));
    let runtime = Builder::new_current_thread().enable_all().event_interval(TASKS_BETWEEN_EVENTS).build()?;
    let shop = Arc::new(Shop { means: Arc::clone(means), seat: Arc::clone(seat), answers: Notify::new() });
    runtime.block_on(keep_pace(&shop, stop))?;
    // Requests that have a task end with it.
    drop(runtime);
    let measured = seat.part().finish(shop.now());
    Ok(measured)
}

/// Begins requests until the run is over.
async fn keep_pace<C: Connector>(shop: &Arc<Shop<C>>, stop: &Stop) -> io::Result<()> {
    let mut waiting = Waiting { alarm: watch(Alarm::new()?)?, stop: watch(stop.fd())? };
    loop {
        let now = shop.now();
        let (orders, deadline) = {
            let mut pool = shop.seat.part();
            if stop.requested() {
                pool.stop(now);
            }
            let orders = if pool.is_over() { Vec::new() } else { pool.turn(now) };
            if pool.is_over() {
                return Ok(());
            }
            if pool.is_running() {
                shop.seat.measure_effort(now);
            }
            (orders, pool.deadline())
        };
        shop.carry_out(orders);
        if deadline <= shop.now() {
            yield_now().await;
        } else {
            waiting.until(deadline, shop).await?;
        }
    }
}

/// The events that the task waits for, in addition to the ends of requests.
struct Waiting {
    alarm: AsyncFd<Alarm>,
    stop: AsyncFd<Arc<OwnedFd>>,
}

impl Waiting {
    /// Waits for a deadline, a request to end, or the end of a request.
    async fn until<C: Connector>(&mut self, deadline: Instant, shop: &Shop<C>) -> io::Result<()> {
        self.alarm.get_mut().ring_by(deadline, &shop.means.clock)?;
        let mut answered = pin!(shop.answers.notified());
        poll_fn(|context| {
            let is_woken = self.has_event(context)? || answered.as_mut().poll(context).is_ready();
            if is_woken { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await
    }

    fn has_event(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        if let Poll::Ready(ready) = self.alarm.poll_read_ready(context) {
            ready?.clear_ready();
            self.alarm.get_mut().silence();
            return Ok(true);
        }
        Ok(self.stop.poll_read_ready(context).is_ready())
    }
}

/// Registers an owner of a descriptor with the runtime of the caller.
#[allow(
    deprecated,
    reason = "its successor is unsafe for owners that close their descriptor early, and these do not"
)]
fn watch<F: AsRawFd>(event: F) -> io::Result<AsyncFd<F>> {
    AsyncFd::with_interest(event, Interest::READABLE)
}
