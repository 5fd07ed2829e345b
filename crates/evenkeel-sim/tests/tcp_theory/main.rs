//! Tests of TCP endpoints against theory, over a bottleneck in virtual time: throughput, shares of flows,
//! costs of losses and marks, and times of transfers.

mod flows;
mod pacing;
mod responses;
mod windows;
