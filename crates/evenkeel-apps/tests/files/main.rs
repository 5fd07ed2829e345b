//! The file server: on an executor in virtual time, and on tokio with other people's clients, over the
//! kernel's sockets and over evenkeel's.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod clients;
mod connections;
mod load;
mod running;
mod tree;
mod world;
