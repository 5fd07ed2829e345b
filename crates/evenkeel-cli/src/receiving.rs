//! How a host receives: the options that `echo`, `sink` and `blast` share.

use std::time::Duration;

use clap::{Args, ValueEnum};
use evenkeel::core::Scheduling;
use evenkeel::core::host::Config;
use evenkeel::core::poll::{CycleLimit, Feedback, FeedbackScope};
use evenkeel::core::receive::{Architecture, DeviceWork};

/// The period over which the cycle limit counts, as in its paper.
const CYCLE_PERIOD: Duration = Duration::from_millis(10);

const HEADING: &str = "How packets are received";

#[derive(Debug, Args)]
pub(crate) struct Receiving {
    /// The receive architecture: eager, early-demux, polled, soft-lrp or ni-lrp (on cable only).
    #[arg(long, help_heading = HEADING, value_name = "NAME", default_value = "soft-lrp")]
    architecture: Architecture,
    /// For soft-lrp: where frames are taken from the interface and classified.
    #[arg(long, help_heading = HEADING, value_name = "WHERE", value_enum, default_value_t = Where::Polled)]
    device_work: Where,
    /// Frames the polling thread takes from one receive ring before it turns to the next, or none for no limit.
    #[arg(long, help_heading = HEADING, value_name = "N", default_value = "8", value_parser = quota)]
    quota: Quota,
    /// What a queue that is three quarters full holds back, until it has drained to one quarter [default: all for polled, else
    /// feeding].
    #[arg(long, help_heading = HEADING, value_name = "WHAT", value_enum)]
    feedback: Option<Scope>,
    /// Share of the core that the polling thread may take, such as 50% [default: no limit].
    #[arg(long, help_heading = HEADING, value_name = "PERCENT", value_parser = percent)]
    cycle_limit: Option<u8>,
    /// Which program runs next.
    #[arg(long, help_heading = HEADING, value_name = "NAME", value_enum, default_value_t = Scheduler::Stride)]
    scheduler: Scheduler,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Where {
    /// In a thread with a quota, held back by feedback from full queues.
    Polled,
    /// In the interrupt, as in the paper.
    Interrupt,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Scope {
    /// The receive rings that fill it: other rings go on. Sockets that share a ring suffer together.
    Feeding,
    /// All receive rings.
    All,
    /// Nothing: what a full queue cannot take is dropped, at the cost of classifying it.
    Off,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Scheduler {
    /// Equal shares, exact within a millisecond.
    Stride,
    /// Priorities that fall with recent use, as in 4.3BSD.
    DecayUsage,
}

/// Frames per callback.
#[derive(Debug, Clone, Copy)]
struct Quota(usize);

fn quota(text: &str) -> Result<Quota, String> {
    if text == "none" {
        return Ok(Quota(usize::MAX));
    }
    let number = text.parse().ok().filter(|n| *n > 0).map(Quota);
    number.ok_or_else(|| "expected a number of frames above 0, such as 8, or none".to_owned())
}

fn percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok().filter(|n| (1..=100).contains(n));
    number.ok_or_else(|| "expected a share from 1% to 100%".to_owned())
}

impl Receiving {
    pub(crate) fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// The settings of a host that receives so.
    pub(crate) fn config(&self, seed: u64) -> Config {
        let defaults = Config::of(self.architecture);
        let scoped = |scope| Some(Feedback { scope, ..Feedback::default() });
        Config {
            soft_lrp_device: match self.device_work {
                Where::Polled => DeviceWork::Polled,
                Where::Interrupt => DeviceWork::Interrupt,
            },
            quota_pkts: self.quota.0,
            feedback: match self.feedback {
                None => defaults.feedback,
                Some(Scope::Feeding) => scoped(FeedbackScope::Feeding),
                Some(Scope::All) => scoped(FeedbackScope::All),
                Some(Scope::Off) => None,
            },
            cycle_limit: self.cycle_limit.map(|percent| CycleLimit { period: CYCLE_PERIOD, percent }),
            scheduler: match self.scheduler {
                Scheduler::Stride => Scheduling::Stride,
                Scheduler::DecayUsage => Scheduling::DecayUsage,
            },
            seed,
            ..defaults
        }
    }
}
