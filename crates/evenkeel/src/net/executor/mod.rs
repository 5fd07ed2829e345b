//! An executor of our own: the tasks of one thread, which drives the host when all of them wait.
//!
//! It needs no other runtime. Tasks need not be `Send`, as they stay on their thread. With one executor and
//! one host on each core, no task waits for a lock.
//!
//! ```
//! use evenkeel::net::Net;
//! use evenkeel::net::executor::{Executor, TcpListener, TcpStream};
//!
//! let (client, server) = Net::pair()?;
//! let listener = TcpListener::bind(&server, "0.0.0.0:7")?;
//! let executor = Executor::new(&server)?;
//! let echo = async move {
//!     let (stream, _) = listener.accept().await?;
//!     let mut room = [0; 512];
//!     let bytes = stream.read(&mut room).await?;
//!     stream.write(&room[..bytes]).await
//! };
//! executor.spawn(async { drop(echo.await) });
//!
//! let echoed = executor.block_on(async {
//!     let stream = TcpStream::connect(&client, ([10, 0, 0, 2], 7).into()).await?;
//!     stream.write(b"hello").await?;
//!     let mut room = [0; 512];
//!     let bytes = stream.read(&mut room).await?;
//!     Ok::<_, std::io::Error>(room[..bytes].to_vec())
//! })?;
//! assert_eq!(echoed, b"hello");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! With the feature `hyper`, streams are `hyper::rt::Read` and `hyper::rt::Write`, an [`Executor`] is a
//! `hyper::rt::Executor`, and a [`Timer`] is a `hyper::rt::Timer`.

#[cfg(feature = "hyper")]
mod hyper;
mod queue;
mod stream;
mod timer;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use evenkeel_core::time::Duration;

use self::queue::{Queue, Task};
use super::handle::Net;
use crate::error::Error;

pub use stream::{TcpListener, TcpStream};
pub use timer::{Sleep, Timer};

/// The time after which the thread goes on when the kernel is out of memory.
const BETTER_TIMES: Duration = Duration::from_millis(1);

/// The number of the future of [`Executor::block_on`].
const MAIN: usize = usize::MAX;

/// Runs tasks on one thread, and drives a host when all of them wait.
///
/// A clone is another handle of the same executor. Tasks that have not ended are dropped with the last handle
/// outside of them.
#[derive(Clone)]
pub struct Executor(Rc<Local>);

struct Local {
    net: Net,
    queue: Arc<Queue>,
    tasks: RefCell<Vec<Option<Spawned>>>,
    /// Places in `tasks` of tasks that have ended.
    free: RefCell<Vec<usize>>,
    is_running: Cell<bool>,
    /// Whether the devices of the host are gone, so that waiting on them is of no use.
    is_down: Cell<bool>,
}

/// A task, which is not in its place while it is polled.
struct Spawned {
    task: Arc<Task>,
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Executor {
    /// Returns an executor whose thread drives `net` while its tasks wait.
    ///
    /// # Errors
    /// None today.
    pub fn new(net: &Net) -> std::io::Result<Self> {
        Ok(Self(Rc::new(Local {
            net: net.clone(),
            queue: Arc::new(Queue::new(net.shared())),
            tasks: RefCell::default(),
            free: RefCell::default(),
            is_running: Cell::new(false),
            is_down: Cell::new(false),
        })))
    }

    /// Adds a task. It runs during [`block_on`](Self::block_on).
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        let (mut tasks, free) = (self.0.tasks.borrow_mut(), self.0.free.borrow_mut().pop());
        let place = free.unwrap_or_else(|| {
            tasks.push(None);
            tasks.len() - 1
        });
        let task = Arc::new(Task::new(place, &self.0.queue));
        tasks[place] = Some(Spawned { task: Arc::clone(&task), future: Some(Box::pin(future)) });
        drop(tasks);
        Waker::from(task).wake();
    }

    /// Returns the clock of the executor, for tasks that wait for a time.
    #[must_use]
    pub fn timer(&self) -> Timer {
        Timer::new(&self.0.queue)
    }

    /// Runs all tasks until `future` has ended, and returns its result. A panic of a task ends the call.
    ///
    /// # Panics
    /// If a task of this executor makes the call.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        assert!(!self.0.is_running.replace(true), "a task of an executor cannot run the executor");
        let _running = Running(&self.0.is_running);
        let mut future = pin!(future);
        let main = Arc::new(Task::new(MAIN, &self.0.queue));
        let waker = Waker::from(main.clone());
        waker.wake_by_ref();
        loop {
            let ready = self.0.queue.take_ready();
            if ready.is_empty() {
                self.wait();
                continue;
            }
            for place in ready {
                if place != MAIN {
                    self.poll_task(place);
                } else if main.begin()
                    && let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker))
                {
                    return result;
                }
            }
            // The devices are looked at even if some task is always ready.
            let _ = self.0.net.shared().lock().look_if_nobody_drives();
        }
    }

    fn poll_task(&self, place: usize) {
        let taken = self.0.tasks.borrow_mut().get_mut(place).and_then(|spawned| {
            let Spawned { task, future } = spawned.as_mut()?;
            task.begin().then(|| Some((Arc::clone(task), future.take()?))).flatten()
        });
        let Some((task, mut future)) = taken else { return };
        let waker = Waker::from(task);
        let polled = Polling { executor: self, place };
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            if let Some(spawned) = &mut self.0.tasks.borrow_mut()[place] {
                spawned.future = Some(future);
            }
            mem::forget(polled);
        }
    }

    /// Waits until a task may go on: on the devices of the host if nobody else drives it.
    fn wait(&self) {
        let Local { net, queue, is_down, .. } = &*self.0;
        let Some(until) = queue.begin_to_wait() else { return };
        let waited = match is_down.get() {
            true => Err(Error::Down),
            false => net.shared().wait_for_tasks(&queue.seat, until),
        };
        match waited {
            Ok(()) => {}
            Err(Error::Down) if !is_down.replace(true) => self.wake_all(),
            Err(Error::Down) => queue.sleep(until),
            Err(_) => queue.sleep(until.min(net.shared().now() + BETTER_TIMES)),
        }
        queue.end_wait();
    }

    /// Wakes all tasks, which find that their host is gone.
    fn wake_all(&self) {
        let tasks: Vec<_> = self.0.tasks.borrow().iter().flatten().map(|it| Arc::clone(&it.task)).collect();
        tasks.into_iter().for_each(|task| Waker::from(task).wake());
        self.0.queue.push(MAIN);
    }
}

/// A task that is polled. It is over when this is dropped, even by a panic.
struct Polling<'a> {
    executor: &'a Executor,
    place: usize,
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        let Local { tasks, free, .. } = &*self.executor.0;
        tasks.borrow_mut()[self.place] = None;
        free.borrow_mut().push(self.place);
    }
}

/// Ends the run of an executor, even by a panic.
struct Running<'a>(&'a Cell<bool>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = self.0.tasks.borrow().iter().flatten().count();
        f.debug_struct("Executor").field("tasks", &tasks).finish_non_exhaustive()
    }
}
