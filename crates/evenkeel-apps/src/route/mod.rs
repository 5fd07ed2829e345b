//! A router: forwards between links, with packets screened by rules or by a function of the user's.

pub mod active_rules;
pub mod error;
pub mod flood;
mod flow_accounts;
mod links;
pub mod log;
mod part;
pub mod plan;
pub mod report;
mod returning;
pub mod router;
pub mod rules;
pub mod running;
pub mod screen;
pub mod screening_thread;
pub mod tables;
pub mod text_error;
