//! The papers' experiments in real time, on this machine: a host on one core, a load generator on another.
//!
//! Figures in packets a second show the capacity of this machine, not of the paper's. The checks compare the
//! shape: which variants keep their peak under any load, which fall, and the share of a neighbour on the same
//! core.

mod asking;
mod bench;
mod cold;
mod devices;
mod figures;
mod flood;
mod http;
mod link;
mod ping;
mod polling;
mod router;
mod sweep;
mod timers;
mod udp;
mod wan;

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use evenkeel::raw::cpu;
use evenkeel::raw::receive::Architecture;

use crate::experiment::{Experiment, Mode, Outcome, Report};

/// The kind of the host's interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    /// Two in-memory cables, with the generator's thread at their outside ends. Needs no privilege.
    #[default]
    Cable,
    /// Packet sockets on two veth pairs, in their own network namespace. Needs root.
    Packet,
    /// Two TAP devices, in their own network namespace. Needs root.
    Tap,
    /// AF_XDP sockets on two veth pairs, in their own network namespace. Needs root.
    Xdp,
}

impl Place {
    /// All kinds of interfaces.
    pub const ALL: [Self; 4] = [Self::Cable, Self::Packet, Self::Tap, Self::Xdp];

    /// Returns the name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cable => "cable",
            Self::Packet => "packet",
            Self::Tap => "tap",
            Self::Xdp => "xdp",
        }
    }

    /// Returns whether a host on these interfaces can have an architecture.
    const fn has(self, architecture: Architecture) -> bool {
        matches!(self, Self::Cable | Self::Xdp) || !matches!(architecture, Architecture::NiLrp)
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
        Self::ALL
            .into_iter()
            .find(|place| place.name() == name)
            .ok_or_else(|| "give cable, packet, tap or xdp".to_owned())
    }
}

/// Returns the end of a sentence that names the architectures that interfaces cannot have.
fn left_out(on: Place) -> &'static str {
    if on.has(Architecture::NiLrp) {
        ""
    } else {
        "; ni-lrp is left out, as the interface does not demultiplex"
    }
}

/// The options of an experiment in real time.
#[derive(Debug, Clone)]
pub struct Options {
    /// The kind of the host's interfaces. Default the cable.
    pub on: Place,
    /// The number of loads for each variant, in equal ratios. Default 10.
    pub points: usize,
    /// The time to fill queues and settle before a forwarding rate is measured. Default 60 ms.
    pub warm_up: Duration,
    /// The length of the measured window. Default 0.25 s.
    pub window: Duration,
    /// The measurements of each variant at each load; the median counts. With only one, disturbed
    /// measurements are not repeated. Default 3.
    pub repeats: usize,
    /// The work for each packet: of screening, or of the receiving process. Default 1 µs.
    pub work: Duration,
    /// The seed of everything that is random. Default 1.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            on: Place::default(),
            points: 10,
            warm_up: Duration::from_millis(60),
            window: Duration::from_millis(250),
            repeats: 3,
            work: Duration::from_micros(1),
            seed: 1,
        }
    }
}

/// The progress of a run.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The variant that was measured last.
    pub variant: &'a str,
    /// The load of that measurement, and its result.
    pub result: &'a str,
    /// Finished measurements, and all measurements.
    pub done: (usize, usize),
}

/// The kind of an experiment in real time.
enum Way {
    Http,
    Cold,
    Polling,
    Udp,
    Ping,
    Timers(timers::Handling),
    /// A transfer over an emulated wide area network with this bottleneck in bit/s.
    Wan(u64),
    Figure(&'static figures::Figure),
}

impl Way {
    fn of(id: &str) -> Option<Self> {
        match id {
            http::ID => Some(Self::Http),
            cold::ID => Some(Self::Cold),
            polling::ID => Some(Self::Polling),
            udp::ID => Some(Self::Udp),
            ping::ID => Some(Self::Ping),
            id => wan::bottleneck(id)
                .map(Self::Wan)
                .or_else(|| timers::Handling::of(id).map(Self::Timers))
                .or_else(|| figures::of(id).map(Self::Figure)),
        }
    }

    fn measure(
        &self,
        options: &Options,
        progress: &mut (dyn FnMut(&Progress<'_>) + Send),
    ) -> io::Result<Outcome> {
        match *self {
            Self::Http => http::measure(options, progress),
            Self::Cold => cold::measure(options, progress),
            Self::Polling => polling::measure(options, progress),
            Self::Udp => udp::measure(options, progress),
            Self::Ping => ping::measure(options, progress),
            Self::Timers(handling) => timers::measure(handling, options, progress),
            Self::Wan(bps) => wan::measure(bps, options, progress),
            Self::Figure(figure) => figure.measure(options, progress),
        }
    }

    /// Describes the conditions of the measurement, in one line.
    fn conditions(&self, options: &Options) -> String {
        let processor = evenkeel_apps::demo::processor().unwrap_or_else(|| "an unnamed processor".to_owned());
        let for_each_request = |work: Duration| format!("{work:?} of work for each request");
        let work = match *self {
            Self::Http => http::conditions(options.on),
            Self::Cold => for_each_request(cold::WORK),
            Self::Polling => for_each_request(polling::WORK),
            Self::Timers(handling) => handling.conditions().to_owned(),
            Self::Wan(bps) => wan::conditions(bps, options.on),
            Self::Udp => udp::conditions(options),
            Self::Ping => format!("servers without work{}", left_out(options.on)),
            Self::Figure(_) => format!("{:?} of screening for each packet", options.work),
        };
        let Options { repeats, window, .. } = *options;
        let measurements = match *self {
            Self::Wan(_) => format!("{repeats} transfers"),
            Self::Polling => format!("{} pairs of windows of {window:?}", polling::PAIRS * repeats),
            Self::Timers(_) => {
                format!("pairs of turns of {:?} in {repeats} windows of {window:?}", timers::TURN)
            }
            _ => format!("{repeats} windows of {window:?}"),
        };
        let on = match *self {
            Self::Cold => cold::conditions(options.on),
            _ => options.on.to_string(),
        };
        let cores = cpu::cpus().len();
        let shares = if cpu::are_shared_by_session() {
            "; processors are shared by session (sched_autogroup), and all that is measured is one session's"
        } else {
            ""
        };
        format!("on {on}; {processor}, {cores} cores; {work}; medians of {measurements}{shares}")
    }
}

/// Runs an experiment in real time. Returns `None` if the experiment has no such mode.
///
/// # Errors
/// If the machine refuses a thread, a namespace or a device; the message says what to do.
pub fn run(
    experiment: &Experiment,
    options: &Options,
    progress: &mut (dyn FnMut(&Progress<'_>) + Send),
) -> Option<io::Result<Report>> {
    let way = Way::of(experiment.id)?;
    let outcome = way.measure(options, progress);
    let conditions = Some(way.conditions(options));
    Some(outcome.map(|outcome| Report::new(experiment, Mode::Real, [options.seed, 1], conditions, outcome)))
}

/// Returns whether an experiment can be run in real time.
pub(crate) fn has(id: &str) -> bool {
    Way::of(id).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;

    #[test]
    fn what_can_be_run_in_real_time_is_an_experiment() {
        assert!(figures::ALL.iter().all(|figure| find(figure.id).is_some()));
        assert!([http::ID, cold::ID, polling::ID, udp::ID, ping::ID].iter().all(|id| find(id).is_some()));
    }

    #[test]
    fn places_are_found_by_their_names() {
        for place in Place::ALL {
            assert_eq!(place.to_string().parse(), Ok(place));
        }
        assert!("ether".parse::<Place>().is_err());
    }
}
