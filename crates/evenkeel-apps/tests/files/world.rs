//! An executor with virtual time, and connections in memory: the server on a runtime that is not tokio.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use evenkeel_apps::http::files::{Server, Settings, Stopped, Stopper, Task};
use hyper::rt::{Executor, Read, ReadBufCursor, Sleep, Timer, Write};

use crate::tree::Tree;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

/// The tasks that can run.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<VecDeque<Arc<Runnable>>>>);

struct Runnable {
    task: Mutex<Option<Task>>,
    tasks: Tasks,
}

impl Wake for Runnable {
    fn wake(self: Arc<Self>) {
        lock(&self.tasks.0).push_back(Arc::clone(&self));
    }
}

impl Executor<Task> for Tasks {
    fn execute(&self, task: Task) {
        Arc::new(Runnable { task: Mutex::new(Some(task)), tasks: self.clone() }).wake();
    }
}

impl Tasks {
    fn run(&self) {
        loop {
            let Some(runnable) = lock(&self.0).pop_front() else { break };
            let waker = Waker::from(Arc::clone(&runnable));
            let mut task = lock(&runnable.task);
            if let Some(future) = &mut *task
                && future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
            {
                *task = None;
            }
        }
    }
}

/// A clock that stands still until it is moved.
#[derive(Clone)]
struct Virtual(Arc<Mutex<Time>>);

struct Time {
    now: Instant,
    sleepers: BTreeMap<(Instant, u64), Waker>,
    sleeps: u64,
}

struct Nap {
    time: Virtual,
    deadline: Instant,
    key: u64,
}

impl Future for Nap {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut time = lock(&self.time.0);
        if time.now >= self.deadline {
            return Poll::Ready(());
        }
        time.sleepers.insert((self.deadline, self.key), cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Nap {
    fn drop(&mut self) {
        lock(&self.time.0).sleepers.remove(&(self.deadline, self.key));
    }
}

impl Sleep for Nap {}

impl Timer for Virtual {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let mut time = lock(&self.0);
        time.sleeps += 1;
        Box::pin(Nap { time: self.clone(), deadline, key: time.sleeps })
    }

    fn now(&self) -> Instant {
        lock(&self.0).now
    }
}

/// The bytes of one direction.
#[derive(Default)]
struct Direction {
    bytes: VecDeque<u8>,
    room: usize,
    is_closed: bool,
    waker: Option<Waker>,
}

impl Direction {
    fn wake(&mut self) {
        self.waker.take().into_iter().for_each(Waker::wake);
    }
}

/// The server's end of a connection in memory.
pub(crate) struct End {
    requests: Arc<Mutex<Direction>>,
    answers: Arc<Mutex<Direction>>,
}

impl Read for End {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut requests = lock(&self.requests);
        if requests.bytes.is_empty() && !requests.is_closed {
            requests.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let len = buffer.remaining().min(requests.bytes.len());
        buffer.put_slice(&requests.bytes.drain(..len).collect::<Vec<_>>());
        Poll::Ready(Ok(()))
    }
}

impl Write for End {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut answers = lock(&self.answers);
        if answers.is_closed {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let len = bytes.len().min(answers.room - answers.bytes.len());
        if len == 0 {
            answers.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        answers.bytes.extend(&bytes[..len]);
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.answers).is_closed = true;
        Poll::Ready(Ok(()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        lock(&self.answers).is_closed = true;
        lock(&self.requests).is_closed = true;
    }
}

/// A client's end of a connection in memory.
pub(crate) struct Client {
    world: Arc<Inner>,
    requests: Arc<Mutex<Direction>>,
    answers: Arc<Mutex<Direction>>,
}

impl Client {
    /// Sends bytes, and lets the server run until it waits.
    pub(crate) fn send(&self, bytes: impl AsRef<[u8]>) {
        let mut requests = lock(&self.requests);
        requests.bytes.extend(bytes.as_ref());
        requests.wake();
        drop(requests);
        self.world.tasks.run();
    }

    /// Closes the sending side.
    pub(crate) fn close(&self) {
        let mut requests = lock(&self.requests);
        requests.is_closed = true;
        requests.wake();
        drop(requests);
        self.world.tasks.run();
    }

    /// Sends the last bytes and the end, which the server sees together.
    pub(crate) fn send_last(&self, bytes: impl AsRef<[u8]>) {
        lock(&self.requests).bytes.extend(bytes.as_ref());
        self.close();
    }

    /// Takes all bytes that the server can send.
    pub(crate) fn take(&self) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let some = self.take_some(usize::MAX);
            if some.is_empty() {
                return all;
            }
            all.extend(some);
        }
    }

    /// Takes at most `len` bytes, and lets the server run.
    pub(crate) fn take_some(&self, len: usize) -> Vec<u8> {
        let mut answers = lock(&self.answers);
        let len = len.min(answers.bytes.len());
        let some = answers.bytes.drain(..len).collect();
        answers.wake();
        drop(answers);
        self.world.tasks.run();
        some
    }

    /// Takes all bytes as a text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.take()).unwrap()
    }

    /// Returns whether the server has closed its sending side.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.answers).is_closed
    }

    /// Returns whether the server has let go of the connection.
    pub(crate) fn is_gone(&self) -> bool {
        lock(&self.requests).is_closed
    }
}

struct Inner {
    tasks: Tasks,
    time: Virtual,
    backlog: Mutex<(VecDeque<io::Result<End>>, Option<Waker>)>,
    stopped: Mutex<Option<Result<Stopped, ErrorKind>>>,
}

/// A server on its own executor, with its clients.
pub(crate) struct World {
    inner: Arc<Inner>,
    pub(crate) stopper: Stopper,
}

impl World {
    /// Starts a server for a tree.
    pub(crate) fn new(tree: &Tree, settings: Settings) -> Self {
        Self::with(tree, settings, |server| server)
    }

    /// Starts a server that `change` sets up further.
    pub(crate) fn with(tree: &Tree, settings: Settings, change: impl FnOnce(Server) -> Server) -> Self {
        #[expect(clippy::disallowed_methods, reason = "an arbitrary start, from which virtual time counts")]
        let now = Instant::now();
        let inner = Arc::new(Inner {
            tasks: Tasks::default(),
            time: Virtual(Arc::new(Mutex::new(Time { now, sleepers: BTreeMap::new(), sleeps: 0 }))),
            backlog: Mutex::default(),
            stopped: Mutex::default(),
        });
        let server = Server::open(&tree.root(), settings, inner.time.clone(), inner.tasks.clone()).unwrap();
        let server = change(server);
        let stopper = server.stopper();
        let address: SocketAddr = "10.0.0.1:1234".parse().unwrap();
        let world = Arc::clone(&inner);
        let accept = move |cx: &mut Context<'_>| {
            let (backlog, waker) = &mut *lock(&world.backlog);
            let Some(end) = backlog.pop_front() else {
                *waker = Some(cx.waker().clone());
                return Poll::Pending;
            };
            Poll::Ready(end.map(|end| (end, address)))
        };
        let world = Arc::clone(&inner);
        inner.tasks.execute(Box::pin(async move {
            let stopped = server.run(accept).await;
            *lock(&world.stopped) = Some(stopped.map_err(|error| error.kind()));
        }));
        inner.tasks.run();
        Self { inner, stopper }
    }

    /// Connects a client whose receive buffer has room for `room` bytes.
    pub(crate) fn connect_with(&self, room: usize) -> Client {
        let requests = Arc::new(Mutex::new(Direction::default()));
        let answers = Arc::new(Mutex::new(Direction { room, ..Direction::default() }));
        let end = End { requests: Arc::clone(&requests), answers: Arc::clone(&answers) };
        self.arrive(Ok(end));
        Client { world: Arc::clone(&self.inner), requests, answers }
    }

    /// Connects a client with a large receive buffer.
    pub(crate) fn connect(&self) -> Client {
        self.connect_with(1 << 20)
    }

    /// Makes the listener fail once.
    pub(crate) fn fail(&self, error: impl Into<io::Error>) {
        self.arrive(Err(error.into()));
    }

    fn arrive(&self, end: io::Result<End>) {
        let mut backlog = lock(&self.inner.backlog);
        backlog.0.push_back(end);
        backlog.1.take().into_iter().for_each(Waker::wake);
        drop(backlog);
        self.run();
    }

    /// Lets all tasks run until they wait.
    pub(crate) fn run(&self) {
        self.inner.tasks.run();
    }

    /// Lets time pass. Each sleeper is woken at its time.
    pub(crate) fn pass(&self, duration: Duration) {
        self.run();
        let end = self.inner.time.now() + duration;
        loop {
            let mut time = lock(&self.inner.time.0);
            let due = time.sleepers.first_entry().filter(|entry| entry.key().0 <= end);
            let Some(entry) = due else {
                time.now = end;
                break;
            };
            let ((deadline, _), waker) = entry.remove_entry();
            time.now = deadline;
            drop(time);
            waker.wake();
            self.run();
        }
    }

    /// Returns how the server ended, once it has.
    pub(crate) fn stopped(&self) -> Option<Result<Stopped, ErrorKind>> {
        *lock(&self.inner.stopped)
    }

    /// Returns the number of clients that were not accepted yet.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.inner.backlog).0.len()
    }

    /// Returns the number of timers that were set since the start.
    pub(crate) fn timers(&self) -> u64 {
        lock(&self.inner.time.0).sleeps
    }
}
