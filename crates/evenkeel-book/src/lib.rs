//! Runs the pages of the book: commands and their output, snippets, links.
//!
//! A [`Document`] is what Markdown says: blocks, headings, links. A [`Page`] is what a reader would type: its
//! steps, in order. A [`Session`](session::Session) runs them, and [`run`](runner::run) compares what was
//! printed with the page, after everything that differs from run to run is made alike
//! ([`alike`](compare::alike)).
#![forbid(unsafe_code)]

pub mod compare;
pub mod links;
pub mod markdown;
pub mod page;
pub mod programs;
pub mod runner;
pub mod session;
pub mod shell;

/// The Rust blocks of README, CONTRIBUTING and all pages are compiled and run, one module for each page.
#[cfg(doctest)]
mod snippets {
    include!(concat!(env!("OUT_DIR"), "/pages.rs"));
}

pub use markdown::Document;
pub use page::Page;
