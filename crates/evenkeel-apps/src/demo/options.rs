//! The settings of a demonstration, and its progress reports.

use std::fmt;
use std::str::FromStr;

use evenkeel::raw::time::Duration;

/// The kind of the interface that the architectures are measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A cable in memory, which needs no privilege.
    Cable,
    /// A packet socket on a veth pair, in a network namespace of its own.
    Packet,
    /// AF_XDP sockets on a veth pair, in a network namespace of its own.
    Xdp,
}

impl Place {
    /// All kinds of interfaces.
    pub const ALL: [Self; 3] = [Self::Cable, Self::Packet, Self::Xdp];

    /// Returns the name on the command line and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cable => "cable",
            Self::Packet => "packet",
            Self::Xdp => "xdp",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|place| place.name() == name);
        named.ok_or_else(|| "give xdp, packet or cable".to_owned())
    }
}

/// The settings of a demonstration.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The names of the architectures to run, in this order. Default all five.
    pub architectures: Vec<String>,
    /// The number of loads at which each architecture is measured, from a tenth of the peak to beyond ten
    /// times. Default 12.
    pub points: usize,
    /// The length of the measured window at each load, in seconds. Default 0.75 s, which makes the whole
    /// demonstration take about a minute.
    pub seconds_per_point: f64,
    /// The CPU time that the service uses for each request. Default 1 µs.
    pub work: Duration,
    /// The kind of the interface. Default none: AF_XDP if the process and the machine can have it, otherwise
    /// packet sockets, or the cable without the privilege for either.
    pub on: Option<Place>,
    /// The number of receive queues of the cable. Default 4; `soft-lrp` is also measured with one. A veth
    /// pair has one.
    pub queues: usize,
    /// The seed of everything that is random. Default 1.
    pub seed: u64,
    /// Whether to measure the kernel's own sockets too, if the process has the privilege. Default yes.
    pub kernel: bool,
    /// Whether to measure the kernel's own socket alone, without and with the guard, and no architecture.
    /// Default no.
    pub guard: bool,
}

impl Options {
    /// Returns settings with fewer and shorter points, for a first impression. A demonstration then takes
    /// about ten seconds.
    #[must_use]
    pub fn quick() -> Self {
        Self { points: 6, seconds_per_point: 0.25, ..Self::default() }
    }
}

impl Options {
    /// Returns the command that runs a demonstration with these settings on `place`.
    #[must_use]
    pub fn command(&self, place: Place) -> String {
        let usual = Self::default();
        let option = |differs: bool, text: String| if differs { text } else { String::new() };
        let named = self.architectures.join(",");
        let names = !self.guard && self.architectures != usual.architectures;
        [
            "evenkeel demo".to_owned(),
            if self.guard { " --guard".to_owned() } else { format!(" --on {place}") },
            option(names, format!(" --architectures {named}")),
            option(self.points != usual.points, format!(" --points {}", self.points)),
            option(
                self.seconds_per_point != usual.seconds_per_point,
                format!(" --seconds-per-point {}", self.seconds_per_point),
            ),
            option(self.work != usual.work, format!(" --work {}ns", self.work.as_nanos())),
            option(self.queues != usual.queues, format!(" --queues {}", self.queues)),
            option(self.seed != usual.seed, format!(" --seed {}", self.seed)),
            option(!self.kernel, " --no-kernel".to_owned()),
        ]
        .concat()
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
            on: None,
            queues: 4,
            seed: 1,
            kernel: true,
            guard: false,
        }
    }
}

/// The progress of a demonstration, reported after each measured load.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The name of the architecture that was measured, or `kernel`.
    pub name: &'a str,
    /// The number of loads measured so far, over all architectures.
    pub done: usize,
    /// The number of loads to measure in all.
    pub of: usize,
    /// The load just measured, as it was really offered, in pps.
    pub offered_pps: f64,
    /// The rate that was delivered at that load, in pps.
    pub delivered_pps: f64,
}
