//! Serving metrics over HTTP/1.1, on one thread.
//!
//! ```text
//! accept ─▶ read a head ─▶ read the figures, on a thread of a few ─▶ answer, close
//! ```
//!
//! Nothing that a client does ends the server, and little delays other clients: a connection has one request,
//! a bounded head, and a bounded time. If there are too many connections, the oldest one whose request is not
//! there yet is closed, so slow clients do not keep others away.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, pending, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use bytes::Bytes;
use evenkeel::raw::signal::Stop;
use evenkeel::raw::time::Duration;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::listen::{Listening, Socket};
use super::text::CONTENT_TYPE as METRICS;

/// The most connections at a time.
const CONNECTIONS: usize = 64;
/// The most readings of the figures at a time. Each waits at most some seconds for processes.
const READINGS: usize = 4;
/// The time of a client for its request.
const HEAD: Duration = Duration::from_secs(5);
/// The time of a connection. Prometheus waits ten seconds for an answer unless its configuration says more.
const WHOLE: Duration = Duration::from_secs(30);
/// The longest head of a request in bytes, and the most fields in it.
const HEAD_BYTES: usize = 8192;
const FIELDS: usize = 64;
/// The time until the next attempt when the process may open no more descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The reason why metrics are not served any more.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve metrics: {0}")]
pub struct ServeError(#[from] io::Error);

/// Makes the text of the metrics.
type Text = Arc<dyn Fn() -> String + Send + Sync>;

/// Serves `text` at `/metrics` until the process is asked to end, or until `duration` is over. Calls `text`
/// for each request, on a thread that may wait.
///
/// # Errors
/// If the machine has no descriptor for the server.
pub fn serve(
    listening: Listening,
    duration: Option<Duration>,
    text: impl Fn() -> String + Send + Sync + 'static,
) -> Result<(), ServeError> {
    let stop = Stop::on_signals()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let server = Server { text: Arc::new(text), readings: Arc::new(Semaphore::new(READINGS)) };
        first(server.run(&listening.socket), end(stop, duration)).await
    });
    // A thread may still wait for a process that does not answer.
    runtime.shutdown_background();
    Ok(served?)
}

/// Waits until the process is asked to end, or until `duration` is over.
#[allow(
    deprecated,
    reason = "its successor is unsafe for owners that close their descriptor early, and this does not"
)]
async fn end(stop: &Stop, duration: Option<Duration>) -> io::Result<()> {
    let signal = AsyncFd::with_interest(stop.fd(), Interest::READABLE)?;
    let over = async {
        match duration {
            Some(duration) => sleep(duration).await,
            None => pending().await,
        }
        Ok(())
    };
    first(async { signal.readable().await.map(drop) }, over).await
}

/// Returns the result of the first of two futures to end.
async fn first<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Pending => other.as_mut().poll(context),
        ended => ended,
    })
    .await
}

#[derive(Clone)]
struct Server {
    text: Text,
    readings: Arc<Semaphore>,
}

impl Server {
    /// Accepts connections without an end.
    async fn run(self, socket: &Socket) -> io::Result<()> {
        let mut open = Open::default();
        match socket {
            Socket::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                let listener = TcpListener::from_std(listener.try_clone()?)?;
                loop {
                    self.take(listener.accept().await, &mut open).await;
                }
            }
            Socket::Unix(listener) => {
                let listener = UnixListener::from_std(listener.try_clone()?)?;
                loop {
                    self.take(listener.accept().await, &mut open).await;
                }
            }
        }
    }

    /// Serves an accepted connection, if there is room for it.
    async fn take<S, A>(&self, accepted: io::Result<(S, A)>, open: &mut Open)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match accepted {
            Ok((stream, _)) if open.make_room() => {
                let has_request = Arc::new(AtomicBool::new(false));
                let connection = self.clone().connection(stream, Arc::clone(&has_request));
                open.0.push_back((tokio::spawn(connection).abort_handle(), has_request));
            }
            Ok(_) => {}
            // The process may open no more descriptors for a while, or the client has gone.
            Err(_) => sleep(PAUSE).await,
        }
    }

    async fn connection<S>(self, stream: S, has_request: Arc<AtomicBool>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let answer = service_fn(|request| {
            has_request.store(true, Ordering::Relaxed);
            self.answer(request)
        });
        let mut http = http1::Builder::new();
        http.keep_alive(false).half_close(true).max_buf_size(HEAD_BYTES).max_headers(FIELDS);
        http.timer(TokioTimer::new()).header_read_timeout(HEAD);
        // An error is one of this client.
        let _ = timeout(WHOLE, http.serve_connection(TokioIo::new(stream), answer)).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        if request.uri().path() != "/metrics" {
            return Ok(plain(StatusCode::NOT_FOUND, "metrics are at /metrics\n"));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "metrics are read by GET\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Ok(refused);
        }
        // Nobody closes the semaphore.
        let _turn = self.readings.acquire().await;
        let text = Arc::clone(&self.text);
        Ok(match tokio::task::spawn_blocking(move || text()).await {
            Ok(text) => response(StatusCode::OK, METRICS, text),
            Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the figures cannot be read\n"),
        })
    }
}

/// The open connections, the oldest first, and whether the request of each is there.
#[derive(Default)]
struct Open(VecDeque<(AbortHandle, Arc<AtomicBool>)>);

impl Open {
    /// Closes the oldest connection without a request if there are too many. Returns whether one more may
    /// come.
    fn make_room(&mut self) -> bool {
        self.0.retain(|(connection, _)| !connection.is_finished());
        if self.0.len() < CONNECTIONS {
            return true;
        }
        let is_idle = |(_, has_request): &(_, Arc<AtomicBool>)| !has_request.load(Ordering::Relaxed);
        let oldest = self.0.iter().position(is_idle).and_then(|at| self.0.remove(at));
        oldest.map(|(connection, _)| connection.abort()).is_some()
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", text)
}

fn response(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
