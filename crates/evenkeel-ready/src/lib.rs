//! TODO
#![forbid(unsafe_code)]
mod kinds;
mod numbers;
mod set;
mod slab;
mod tree;
pub use kinds::Kinds;
pub use numbers::{BitmapNumbers, LinearNumbers, Numbers, TooManyOpen};
pub use set::{FdSet, FdSets};
