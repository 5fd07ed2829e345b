//! TCP endpoints against theory, over a bottleneck in virtual time: how much gets through it, who gets how
//! much, what a loss or a mark costs, and how long transfers take.

mod flows;
mod pacing;
mod responses;
mod windows;
