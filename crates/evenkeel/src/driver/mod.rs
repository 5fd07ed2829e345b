//! The driver of a host on a real core: one loop, with several ways to leave it.
//!
//! `Driver::drive` alternates between the host's units of work (`Units`) and a look at everything outside
//! of the host (`Outside`). An `Exit` decides when the loop ends, and what an idle core does.

mod callbacks;
mod devices;
mod drive;
mod exits;
mod following;
mod idle;
mod looks;
mod outside;
mod replacer;
mod rest;
mod units;
mod watched;

pub(crate) use callbacks::ForOthers;
pub(crate) use drive::Driver;
pub use replacer::Replacer;
pub use rest::Rest;
pub(crate) use units::Units;
