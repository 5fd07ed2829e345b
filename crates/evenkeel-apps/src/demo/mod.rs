//! The demonstration: one UDP service under rising load, on every receive architecture.

mod bench;
pub mod course;
mod devices;
pub mod guard;
pub mod json;
mod loads;
mod machine;
pub mod options;
pub mod report;
pub mod results;
mod run;
pub mod table;
pub mod verdict;
mod veth;

#[cfg(test)]
mod fixture;

pub use machine::processor;
pub use run::run;
