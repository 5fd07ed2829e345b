//! A server: connections are accepted, served within their limits, and ended.

use core::convert::Infallible;
use core::fmt;
use core::future::{self, Future, Ready, poll_fn};
use core::pin::pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel::raw::time::Clock;
use hyper::body::{Body as _, Incoming};
use hyper::rt::{Executor, Timer};
use hyper::service::Service;
use hyper::{Request, Response, Version};
use hyper_util::server::conn::auto;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::activity::Activity;
use super::body::{Body, FRAME_BYTES, PIECE_BYTES};
use super::log::{AccessLog, Entry};
use super::patience::{Patience, SharedTimer};
use super::runtime::{Spawner, Task};
use super::settings::Settings;
use super::site::Site;
use super::stream::{Stream, Watched};
use super::tls::Tls;

/// The bytes of a stream of HTTP/2 that wait to be sent when no further piece is read.
const STREAM_BUFFER_BYTES: usize = 16 * 1024;

/// The requests that a connection of HTTP/2 may have at a time.
const STREAMS_MAX: u32 = 100;

/// The pause after a connection that could not be accepted because a resource of the system is used up.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A server for the files below a directory.
pub struct Server {
    shared: Shared,
    stage: watch::Sender<Stage>,
}

/// The parts of a server that all its connections use.
struct Shared {
    site: Site,
    settings: Settings,
    clock: Clock,
    timer: SharedTimer,
    executor: Spawner,
    http: auto::Builder<Spawner>,
    log: Option<Arc<AccessLog>>,
    tls: Option<Arc<Tls>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Serving,
    /// Answers in flight are finished, and nothing else is begun.
    Finishing,
    /// All connections end.
    Ended,
}

/// A handle that stops a server, from any thread.
#[derive(Debug, Clone)]
pub struct Stopper(watch::Sender<Stage>);

impl Stopper {
    /// Makes the server stop: it accepts no connection, and has its [grace](Settings::grace) to finish the
    /// answers in flight.
    pub fn stop(&self) {
        advance(&self.0, Stage::Finishing);
    }
}

/// The end of a server that was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// The number of connections that were ended before they were finished.
    pub unfinished: usize,
}

impl Server {
    /// Creates a server for the files below `root`.
    ///
    /// Each connection is a task of `executor`, and so is each request of HTTP/2. Time-outs are set with
    /// `timer`.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    pub fn open(
        root: &Path,
        settings: Settings,
        timer: impl Timer + Send + Sync + 'static,
        executor: impl Executor<Task> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let executor = Spawner::new(executor);
        let shared = Shared {
            site: Site::open(root, &settings)?,
            clock: Clock::start(),
            timer: Arc::new(timer),
            http: protocols(&settings, &executor),
            executor,
            settings,
            log: None,
            tls: None,
        };
        Ok(Self { shared, stage: watch::Sender::new(Stage::Serving) })
    }

    /// Makes the server log its requests.
    #[must_use]
    pub fn with_log(mut self, log: AccessLog) -> Self {
        self.shared.log = Some(Arc::new(log));
        self
    }

    /// Makes the server speak TLS. The caller can keep a handle, to [reload](Tls::reload) the certificate.
    #[must_use]
    pub fn with_tls(mut self, tls: Arc<Tls>) -> Self {
        self.shared.tls = Some(tls);
        self
    }

    /// Returns a handle that stops the server.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stage.clone())
    }

    /// Serves the connections that `accept` returns, until the server is stopped and they are over.
    ///
    /// While the server has [as many as it may](Settings::connections_max), it accepts none: further clients
    /// wait in the listener's queue. If a resource of the system is used up, such as descriptors, the server
    /// accepts again after a tenth of a second.
    ///
    /// # Errors
    /// Any other error of `accept`, except those of a single connection. Connections are then finished, too.
    pub async fn run<S: Stream>(
        self,
        mut accept: impl FnMut(&mut Context<'_>) -> Poll<io::Result<(S, SocketAddr)>>,
    ) -> io::Result<Stopped> {
        let shared = Arc::new(self.shared);
        let places = shared.settings.connections_max.clamp(1, Semaphore::MAX_PERMITS);
        let slots = Arc::new(Semaphore::new(places));
        let mut result = Ok(());
        let mut stop = self.stage.subscribe();
        let accepting = async {
            while result.is_ok() {
                let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { break };
                match poll_fn(&mut accept).await {
                    Ok((stream, client)) => {
                        let stage = self.stage.subscribe();
                        let connection =
                            Arc::clone(&shared).attend(Box::new(stream), client.ip(), stage, slot);
                        shared.executor.execute(connection);
                    }
                    Err(error) if is_of_one_connection(&error) => {}
                    Err(error) if is_of_resources(&error) => shared.timer.sleep(ACCEPT_PAUSE).await,
                    Err(error) => result = Err(error),
                }
            }
        };
        first(accepting, reach(&mut stop, Stage::Finishing)).await;
        drop((stop, accept));
        advance(&self.stage, Stage::Finishing);
        first(self.stage.closed(), shared.timer.sleep(shared.settings.grace)).await;
        let unfinished = places - slots.available_permits();
        advance(&self.stage, Stage::Ended);
        self.stage.closed().await;
        result.map(|()| Stopped { unfinished })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { site, settings, .. } = &self.shared;
        f.debug_struct("Server").field("site", site).field("settings", settings).finish_non_exhaustive()
    }
}

impl Shared {
    /// Serves a connection until it is over, or the server has ended. The connection's `slot` is free then.
    async fn attend(
        self: Arc<Self>,
        stream: Box<dyn Stream>,
        client: IpAddr,
        stage: watch::Receiver<Stage>,
        slot: OwnedSemaphorePermit,
    ) {
        let mut ended = stage.clone();
        first(self.serve(stream, client, stage), reach(&mut ended, Stage::Ended)).await;
        // Before the server learns that no connection is left.
        drop(slot);
    }

    async fn serve(
        self: &Arc<Self>,
        stream: Box<dyn Stream>,
        client: IpAddr,
        mut stage: watch::Receiver<Stage>,
    ) {
        let activity = Activity::new();
        let mut patience = pin!(Patience::new(&self.timer, &self.settings, &activity));
        let stream = match &self.tls {
            None => stream,
            Some(tls) => {
                let mut handshake = pin!(tls.accept(stream));
                let stream = poll_fn(|cx| match handshake.as_mut().poll(cx) {
                    Poll::Pending => patience.as_mut().poll(cx).map(|()| None),
                    Poll::Ready(stream) => Poll::Ready(stream.ok()),
                });
                let Some(stream) = stream.await else { return };
                stream
            }
        };
        let site = Requests { shared: Arc::clone(self), client, activity: Arc::clone(&activity) };
        let mut http = pin!(self.http.serve_connection(Watched::new(stream, activity), site));
        let mut finishing = pin!(reach(&mut stage, Stage::Finishing));
        let mut is_finishing = false;
        poll_fn(|cx| {
            if !is_finishing && finishing.as_mut().poll(cx).is_ready() {
                is_finishing = true;
                http.as_mut().graceful_shutdown();
            }
            // An error is the client's, or was logged with its answer: either way the connection is over.
            if http.as_mut().poll(cx).is_ready() { Poll::Ready(()) } else { patience.as_mut().poll(cx) }
        })
        .await;
    }

    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.clock.wall_now().0)
    }
}

/// The requests of one connection.
struct Requests {
    shared: Arc<Shared>,
    client: IpAddr,
    activity: Arc<Activity>,
}

impl Service<Request<Incoming>> for Requests {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let is_shared = request.version() == Version::HTTP_2;
        let in_flight = self.activity.begin(is_shared, !is_shared && !request.body().is_end_stream());
        let now = self.shared.now();
        let mut answer = self.shared.site.answer(&request, now);
        let entry =
            self.shared.log.as_ref().map(|log| Entry::new(log, self.client, now, &request, answer.status()));
        answer.body_mut().attach(in_flight, entry, if is_shared { FRAME_BYTES } else { PIECE_BYTES });
        future::ready(Ok(answer))
    }
}

/// Returns the settings of both versions of the protocol. Time-outs are not among them: see [`Patience`].
fn protocols(settings: &Settings, executor: &Spawner) -> auto::Builder<Spawner> {
    let head_bytes = settings.head_bytes_max.max(8192);
    let mut http = auto::Builder::new(executor.clone());
    // A client may close its sending side once it has sent its request.
    http.http1().half_close(true).header_read_timeout(None).max_buf_size(head_bytes);
    http.http2()
        .max_header_list_size(u32::try_from(head_bytes).unwrap_or(u32::MAX))
        .max_send_buf_size(STREAM_BUFFER_BYTES)
        .max_concurrent_streams(STREAMS_MAX);
    http
}

/// Moves a server on to a stage, unless it is beyond.
fn advance(stage: &watch::Sender<Stage>, to: Stage) {
    stage.send_if_modified(|stage| {
        let is_later = *stage < to;
        *stage = to.max(*stage);
        is_later
    });
}

/// Waits until a server reaches a stage.
async fn reach(stage: &mut watch::Receiver<Stage>, to: Stage) {
    // A server that is gone has ended.
    let _ = stage.wait_for(|stage| *stage >= to).await;
}

/// Waits for the first of two futures.
async fn first(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| if one.as_mut().poll(cx).is_ready() { Poll::Ready(()) } else { other.as_mut().poll(cx) })
        .await;
}

/// Returns whether an error of accept(2) is one of the connection that was to be accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionReset, HostUnreachable, Interrupted, NetworkDown, NetworkUnreachable,
        TimedOut,
    };
    matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionReset
            | HostUnreachable
            | Interrupted
            | NetworkDown
            | NetworkUnreachable
            | TimedOut
    )
}

/// Returns whether an error says that descriptors or memory are used up.
fn is_of_resources(error: &io::Error) -> bool {
    // They have no stable kind.
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const ENOBUFS: i32 = 105;
    error.kind() == io::ErrorKind::OutOfMemory
        || matches!(error.raw_os_error(), Some(ENFILE | EMFILE | ENOBUFS))
}
