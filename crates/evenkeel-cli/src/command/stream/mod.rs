//! Commands with TCP streams, and what they print.

pub(crate) mod files;
pub(crate) mod http;
pub(crate) mod send;
pub(crate) mod serve;
mod show;
