//! What a demonstration is asked to do, and how it says how far it is.

use evenkeel_core::time::Duration;

/// Settings of a demonstration.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Names of the architectures to run, in this order. Default all five.
    pub architectures: Vec<String>,
    /// Loads at which each architecture is measured, from a tenth of the peak to beyond ten times. Default
    /// 12.
    pub points: usize,
    /// Length of the measured window at each load. Default 0.75 s, which makes the whole take about a minute.
    pub seconds_per_point: f64,
    /// Work of the service for each request. Default 1 µs.
    pub work: Duration,
    /// Receive queues of the interface. Default 4; `soft-lrp` is measured with one besides.
    pub queues: usize,
    /// Seed of everything that is random. Default 1.
    pub seed: u64,
    /// Whether to measure the kernel's own sockets too, where the privilege is there. Default yes.
    pub kernel: bool,
}

impl Options {
    /// Fewer and shorter points, for a first look: about ten seconds.
    #[must_use]
    pub fn quick() -> Self {
        Self { points: 6, seconds_per_point: 0.25, ..Self::default() }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            architectures: ["eager", "early-demux", "polled", "soft-lrp", "ni-lrp"]
                .map(str::to_owned)
                .to_vec(),
            points: 12,
            seconds_per_point: 0.75,
            work: Duration::from_micros(1),
            queues: 4,
            seed: 1,
            kernel: true,
        }
    }
}

/// How far a demonstration is: told after each measured load.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// What is being measured: an architecture, or `kernel`.
    pub name: &'a str,
    /// Loads measured so far, over all architectures.
    pub done: usize,
    /// Loads to measure.
    pub of: usize,
    /// The load just measured.
    pub offered_pps: f64,
    /// What was delivered at it.
    pub delivered_pps: f64,
}
