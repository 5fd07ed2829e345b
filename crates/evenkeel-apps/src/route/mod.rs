//! A router: forwards between links, with packets screened by rules or by a function of the user's.

pub mod aside;
pub mod error;
pub mod flood;
mod kernel;
mod links;
pub mod log;
mod look;
pub mod mistake;
mod part;
pub mod plan;
pub mod report;
mod returning;
pub mod router;
pub mod rulebook;
pub mod rules;
pub mod running;
pub mod screen;
pub mod tables;
pub mod text;
