//! The file server: on an executor in virtual time, and on tokio with the kernel's sockets and other
//! people's clients.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod clients;
mod connections;
mod kernel;
mod load;
mod tree;
mod world;
