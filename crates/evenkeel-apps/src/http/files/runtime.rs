//! The executor of a server, of whichever runtime.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use std::sync::Arc;

use hyper::rt::Executor;

/// A task of a server: a connection, or a request of HTTP/2.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A handle to the executor. All of a server is compiled once, with this type for every executor.
#[derive(Clone)]
pub(super) struct Spawner(Arc<dyn Executor<Task> + Send + Sync>);

impl Spawner {
    pub(super) fn new(executor: impl Executor<Task> + Send + Sync + 'static) -> Self {
        Self(Arc::new(executor))
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spawner")
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Spawner {
    fn execute(&self, task: F) {
        self.0.execute(Box::pin(task));
    }
}
