//! A packet monitor: a program that reads a capture queue, and what it makes of the frames.
//!
//! ```text
//!   interface --> receive ring --> packet filter --> capture queue --> program --> capture file, lines
//!    (filter)          ^                                  |                        or a summary
//!                      +------------ feedback ------------+
//! ```
//!
//! What the program cannot take in time fills the capture queue; that holds back the receive ring, and the
//! excess dies there, for free (Mogul and Ramakrishnan, TOCS 1997, section 9).

mod embedded;
pub mod file;
pub mod headers;
pub mod lines;
mod link_header;
mod product;
mod program;
pub mod run;
pub mod summary;

pub use embedded::{Capturing, Embedded, EmbeddedCaptured};
pub use program::{Monitor, Options, Shared, Sink, Tally, shared};
pub use run::{Glance, Monitored, News, Setup, What, on_cable, on_devices};
