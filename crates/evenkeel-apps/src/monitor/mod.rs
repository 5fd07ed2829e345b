//! A packet monitor: a program that reads a capture queue and writes, prints or counts the frames.
//!
//! ```text
//!   interface --> receive ring --> packet filter --> capture queue --> program --> capture file, lines
//!    (filter)          ^                                  |                        or a summary
//!                      +------------ feedback ------------+
//! ```
//!
//! Frames that the program cannot take in time fill the capture queue. The full queue pauses the receive
//! ring, and excess frames are dropped there, at no cost (Mogul and Ramakrishnan, TOCS 1997, section 9).

mod run;

pub use run::{Glance, Monitored, News, Setup, What, on_cable, on_devices};
