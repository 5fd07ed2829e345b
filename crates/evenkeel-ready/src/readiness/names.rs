//! Names of callers and of event queues, and what a file stands for.

/// The name of a caller of `select`, `poll` or `wait`: a thread of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallerId(pub u32);

/// The name of an event queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u32);

/// The object behind a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object<T> {
    /// An object of the host.
    Outside(T),
    /// An event queue.
    Queue(QueueId),
}
