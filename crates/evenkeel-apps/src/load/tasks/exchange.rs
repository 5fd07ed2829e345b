//! The tasks of connections and requests.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel::raw::time::{Clock, Instant};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::super::account::{Failure, Job};
use super::super::crew::Seat;
use super::super::plan::Plan;
use super::super::report::RefusedTls;
use super::super::transport::{Fault, Id};
use super::connector::Connector;
use super::counted::Counted;
use super::fault::Failed;
use super::message::Message;
use super::pool::{Line, Order, Pool};
use super::tls::Tls;
use super::version::Version;

/// The means of a run, which all its threads share: a TCP, the protocols and the request.
pub(super) struct Means<C> {
    connector: C,
    tls: Option<Tls>,
    message: Message,
    version: Version,
    timeout: Duration,
    connect_timeout: Duration,
    pub(super) clock: Clock,
}

impl<C> Means<C> {
    pub(super) fn new(
        connector: C,
        tls: Option<Tls>,
        message: Message,
        version: Version,
        plan: &Plan,
        clock: Clock,
    ) -> Self {
        let connect_timeout = plan.connect_timeout.min(plan.timeout);
        Self { connector, tls, message, version, timeout: plan.timeout, connect_timeout, clock }
    }
}

/// The state of a thread, which all its tasks share.
pub(super) struct Shop<C> {
    pub(super) means: Arc<Means<C>>,
    pub(super) seat: Arc<Seat<Pool<Sender>>>,
    /// Wakes the task that begins requests.
    pub(super) answers: Notify,
}

/// An end of a connection, to which requests are given.
pub(super) struct Sender {
    way: Way,
    /// The task of the connection.
    task: AbortHandle,
}

enum Way {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Line for Sender {
    fn for_request(line: &mut Option<Self>) -> Option<Self> {
        match line {
            Some(Self { way: Way::Http2(sender), task }) => {
                Some(Self { way: Way::Http2(sender.clone()), task: task.clone() })
            }
            _ => line.take(),
        }
    }

    fn is_closed(&self) -> bool {
        match &self.way {
            Way::Http1(sender) => sender.is_closed(),
            Way::Http2(sender) => sender.is_closed(),
        }
    }
}

impl Sender {
    /// Sends a request, and reads its answer to the end. Sets `begun` when the answer begins.
    async fn ask(&mut self, request: hyper::Request<Full<Bytes>>, begun: &mut bool) -> hyper::Result<u16> {
        let answer = match &mut self.way {
            Way::Http1(sender) => sender.send_request(request).await?,
            Way::Http2(sender) => sender.send_request(request).await?,
        };
        *begun = true;
        let status = answer.status().as_u16();
        let mut body = answer.into_body();
        while let Some(frame) = body.frame().await {
            frame?;
        }
        Ok(status)
    }

    /// Waits until the connection can have its next request. Returns `None` if it cannot.
    async fn again(mut self) -> Option<Self> {
        let is_ready = match &mut self.way {
            Way::Http1(sender) => sender.ready().await.is_ok(),
            Way::Http2(sender) => !sender.is_closed(),
        };
        is_ready.then_some(self)
    }

    /// Returns the connection to its use after a request failed. One of HTTP/1.1 is reset.
    fn after_failure(self) -> Option<Self> {
        match self.way {
            Way::Http1(_) => {
                self.task.abort();
                None
            }
            Way::Http2(_) => Some(self),
        }
    }
}

/// A connection, which must be polled.
type Connection = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The reason why a connection was not opened.
struct Unopened(Failure, Option<RefusedTls>);

impl From<io::Error> for Unopened {
    fn from(error: io::Error) -> Self {
        Self(Fault::from(&error).failure(false), None)
    }
}

impl From<RefusedTls> for Unopened {
    fn from(refused: RefusedTls) -> Self {
        Self(Failure::Tls, Some(refused))
    }
}

impl From<hyper::Error> for Unopened {
    fn from(error: hyper::Error) -> Self {
        Self(Failed::from(&error).failure, None)
    }
}

impl<C: Connector> Shop<C> {
    pub(super) fn now(&self) -> Instant {
        self.means.clock.now()
    }

    /// Starts a task for each order.
    pub(super) fn carry_out(self: &Arc<Self>, orders: Vec<Order<Sender>>) {
        for order in orders {
            let shop = Arc::clone(self);
            match order {
                Order::Open { id, address } => drop(tokio::spawn(shop.open(id, address))),
                Order::Ask { id, line, job, last } => drop(tokio::spawn(shop.ask(id, line, job, last))),
            }
        }
    }

    /// Opens a connection, and reports to the pool.
    async fn open(self: Arc<Self>, id: Id, address: usize) {
        let opened = timeout(self.means.connect_timeout, self.connect(address)).await;
        let now = self.now();
        let orders = match opened.unwrap_or(Err(Unopened(Failure::ConnectTimeout, None))) {
            Ok((way, connection)) => {
                let shop = Arc::clone(&self);
                let task = tokio::spawn(async move {
                    connection.await;
                    let now = shop.now();
                    shop.seat.part().ended(id, now);
                });
                let sender = Sender { way, task: task.abort_handle() };
                self.seat.part().established(id, sender, now)
            }
            Err(Unopened(failure, refused)) => self.seat.part().unestablished(id, failure, refused, now),
        };
        self.carry_out(orders);
        self.answers.notify_one();
    }

    async fn connect(&self, address: usize) -> Result<(Way, Connection), Unopened> {
        let stream = self.means.connector.connect(address).await?;
        let bytes = self.seat.part().bytes.clone();
        let stream = Counted { stream, bytes };
        match &self.means.tls {
            None => self.speak(stream).await,
            Some(tls) => self.speak(tls.connect(stream).await?).await,
        }
    }

    /// Begins HTTP on a stream.
    async fn speak<S>(&self, stream: S) -> Result<(Way, Connection), Unopened>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let stream = TokioIo::new(stream);
        Ok(match self.means.version {
            Version::Http1 => {
                let (sender, connection) = http1::handshake(stream).await?;
                (Way::Http1(sender), Box::pin(async { drop(connection.await) }))
            }
            Version::Http2 => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
                (Way::Http2(sender), Box::pin(async { drop(connection.await) }))
            }
        })
    }

    /// Sends a request on a connection that is open.
    async fn ask(self: Arc<Self>, id: Id, mut sender: Sender, job: Option<Job>, last: bool) {
        let mut under_way = UnderWay { shop: &self, id, job };
        let (request, sent, mut begun) = (self.means.message.request(last), self.now(), false);
        let asked = timeout(self.means.timeout, sender.ask(request, &mut begun)).await;
        let now = self.now();
        under_way.job = None;
        let failed = match &asked {
            Ok(Ok(status)) => {
                self.seat.part().answered(job.as_ref(), *status, sent, now);
                None
            }
            Ok(Err(error)) => Some(Failed::from(error)),
            Err(_) => Some(Failed::by(Failure::Timeout)),
        };
        let line = match failed {
            None if last => None,
            None => timeout(self.means.timeout, sender.again()).await.ok().flatten(),
            Some(failed) => {
                if let Some(job) = job {
                    self.seat.part().failed(id, job, failed, begun, now);
                }
                sender.after_failure()
            }
        };
        let (orders, makes_due) = {
            let mut pool = self.seat.part();
            (pool.returned(id, line, self.now()), pool.follows_answers())
        };
        self.carry_out(orders);
        if makes_due {
            self.answers.notify_one();
        }
    }
}

/// A request under way. If its task is dropped with it, the run has ended before the request.
struct UnderWay<'a, C: Connector> {
    shop: &'a Shop<C>,
    id: Id,
    job: Option<Job>,
}

impl<C: Connector> Drop for UnderWay<'_, C> {
    fn drop(&mut self) {
        if let Some(job) = self.job {
            let (mut pool, now) = (self.shop.seat.part(), self.shop.now());
            pool.failed(self.id, job, Failed::by(Failure::Unfinished), true, now);
        }
    }
}
