//! A router: forwards between links, with packets screened by rules or by a function of the user's.

pub mod aside;
pub mod flood;
mod kernel;
pub mod log;
mod look;
pub mod mistake;
pub mod plan;
pub mod report;
pub mod router;
pub mod rulebook;
pub mod rules;
mod running;
pub mod screen;
pub mod tables;
