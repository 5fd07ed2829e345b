//! Further network namespaces, for tests that need more than one.

use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace with a thread in it, both of which end when this is dropped.
/// [`in_namespace`](crate::in_namespace) makes the first of a test.
#[derive(Debug)]
pub struct Place {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Place {
    /// Creates a new namespace. It has only the loopback device, which is up.
    ///
    /// # Panics
    /// If it cannot be created.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it makes a namespace")]
    pub fn new() -> Self {
        let (jobs, to_do) = channel::<Job>();
        let name = thread::current().name().unwrap_or("a test").to_owned();
        let work = move || to_do.iter().for_each(|job| job());
        let thread = thread::Builder::new().name(name).spawn(work).unwrap();
        let place = Self { jobs: Some(jobs), thread: Some(thread) };
        place.here(|| {
            evenkeel_link::enter_new_network().unwrap();
            crate::settle();
        });
        place
    }

    /// Runs a job in this namespace and waits for it.
    ///
    /// # Panics
    /// If `job` panics.
    pub fn here<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> R {
        let (tell, told): (_, Receiver<thread::Result<R>>) = channel();
        let job = move || drop(tell.send(panic::catch_unwind(AssertUnwindSafe(job))));
        self.jobs.as_ref().unwrap().send(Box::new(job)).unwrap();
        told.recv().unwrap().unwrap_or_else(|panic| panic::resume_unwind(panic))
    }

    /// Runs a command in this namespace; returns its output.
    ///
    /// # Panics
    /// If the command fails.
    pub fn run(&self, command: &str) -> String {
        let command = command.to_owned();
        self.here(move || crate::run(&command))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.jobs = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
