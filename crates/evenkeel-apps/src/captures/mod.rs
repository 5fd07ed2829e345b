//! Reading a capture queue and writing, printing or counting its frames: the parts of a packet monitor, and a
//! capture inside a host that runs for another purpose.

mod address;
mod embedded;
pub mod file;
pub mod headers;
pub mod lines;
mod link_header;
mod product;
mod program;
pub mod summary;
mod watch;

pub use embedded::{Capturing, Embedded, EmbeddedCaptured};
pub(crate) use product::Product;
pub use program::{Counters, Monitor, Options, Shared, Sink, shared};
pub use watch::Writable;
pub(crate) use watch::watch;
