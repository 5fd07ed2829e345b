//! The receive options of all commands that have a host.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};
use evenkeel::core::Scheduling;
use evenkeel::core::host::{Alternatives, Config};
use evenkeel::core::poll::{
    CycleLimit, Feedback, FeedbackBy, FeedbackScope, NetworkPolling, Quota, TaskWeights, TickSampling,
};
use evenkeel::core::receive::{Architecture, DeviceWork};

use crate::quantity::{period, time};
use crate::suggest;

/// The period over which the cycle limit counts, as in its paper.
const CYCLE_PERIOD: Duration = Duration::from_millis(10);

/// The clock that samples what the core is at.
const TICK: Duration = Duration::from_millis(1);

/// The heading of all these options.
pub(crate) const HEADING: &str = "How packets are received";

#[derive(Debug, Clone, Args)]
pub(crate) struct Receiving {
    /// The receive architecture: eager, early-demux, polled, soft-lrp or ni-lrp (on cable only).
    #[arg(
        long, help_heading = HEADING, value_name = "NAME", default_value = "soft-lrp",
        value_parser = suggest::architecture(), hide_possible_values = true
    )]
    architecture: Architecture,
    /// For soft-lrp and polled: where frames are taken from the interface. In the interrupt, polled processes
    /// packets to completion there.
    #[arg(long, help_heading = HEADING, value_name = "WHERE", value_enum, default_value_t = Where::Polled)]
    device_work: Where,
    /// Frames the polling thread takes from one receive ring before it turns to the next: a number, dynamic
    /// (as many as do no harm), or none for no limit [default: 16; of a packet monitor, which has nothing to
    /// send, 64].
    #[arg(
        long, help_heading = HEADING, value_name = "N", hide_possible_values = true,
        value_parser = suggest::with(quota, ["dynamic", "none"])
    )]
    quota: Option<Quota>,
    /// What a queue that is nearly full holds back until it has drained [default: all for polled, else
    /// feeding].
    #[arg(long, help_heading = HEADING, value_name = "WHAT", value_enum)]
    feedback: Option<Scope>,
    /// Shares of a queue's limit at which feedback sets in and ends.
    #[arg(
        long, help_heading = HEADING, value_name = "HIGH,LOW", default_value = "75%,25%",
        value_parser = marks
    )]
    feedback_marks: Marks,
    /// The longest that feedback holds anything back, whatever becomes of the queue.
    #[arg(long, help_heading = HEADING, value_name = "TIME", default_value = "977us", value_parser = time)]
    feedback_timeout: Duration,
    /// Let feedback end by its timeout only, not when the queue has drained.
    #[arg(long, help_heading = HEADING)]
    no_resume_on_space: bool,
    /// Whether a queue holds input back at those marks, or all the time by its length: the fuller, the less
    /// of the core for taking packets in, and the more for the program that reads it.
    #[arg(long, help_heading = HEADING, value_name = "WHAT", value_enum, default_value_t = By::Marks)]
    feedback_by: By,
    /// Share of the core for discarding excess frames at once, if several sockets share a receive ring.
    ///
    /// While discarding keeps up with what comes, it may take more: the flooded process pays that out of its
    /// own share. If discarding does not keep up, the whole ring is paused for moments.
    #[arg(
        long, help_heading = HEADING, value_name = "PERCENT", default_value = "25%", value_parser = percent
    )]
    discard_share: u8,
    /// Share of the core that taking packets in may use, such as 50% [default: no limit].
    #[arg(long, help_heading = HEADING, value_name = "PERCENT", value_parser = percent)]
    cycle_limit: Option<u8>,
    /// Without measuring time: when so many clock ticks in a row (of 1 ms) find the core taking packets in,
    /// take none for so many ticks, such as 4,4 [default: never].
    #[arg(long, help_heading = HEADING, value_name = "TICKS,TICKS", value_parser = tick_sampling)]
    tick_sampling: Option<TickSampling>,
    /// Share the polling thread among receive rings and transmit sides by these weights instead of round
    /// robin, such as 1,1; interrupts then only set a flag, and go on while the thread works [default: round
    /// robin].
    #[arg(long, help_heading = HEADING, value_name = "RECEIVE,TRANSMIT", value_parser = task_weights)]
    real_time_tasks: Option<TaskWeights>,
    /// Let feedback, the cycle limit and tick sampling hold back interrupts too, where there is no polling
    /// thread: an interrupt-rate limiter.
    #[arg(long, help_heading = HEADING)]
    limit_interrupts: bool,
    /// Look for frames at this interval instead of taking interrupts [default: interrupts].
    #[arg(long, help_heading = HEADING, value_name = "TIME", value_parser = period)]
    clocked_interrupts: Option<Duration>,
    /// While the core is busy, poll at an interval that adapts so that so many frames are found each time on
    /// average, instead of taking interrupts [default: interrupts].
    #[arg(long, help_heading = HEADING, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    aggregation_quota: Option<u32>,
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
enum By {
    /// Stops at the high mark, until the low one or the timeout.
    Marks,
    /// By its length, in periods of the timeout: scheduling as in Synthesis.
    Length,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Scheduler {
    /// Equal shares, exact within a millisecond.
    Stride,
    /// Priorities that fall with recent use, as in 4.3BSD.
    DecayUsage,
}

fn quota(text: &str) -> Result<Quota, String> {
    match text {
        "none" => Ok(Quota::Unlimited),
        "dynamic" => Ok(Quota::Dynamic),
        _ => {
            text.parse().ok().filter(|n| *n > 0).map(Quota::Fixed).ok_or_else(|| {
                "expected a number of frames above 0, such as 8, or dynamic, or none".to_owned()
            })
        }
    }
}

/// High and low mark, in percent.
#[derive(Debug, Clone, Copy)]
struct Marks(u8, u8);

fn marks(text: &str) -> Result<Marks, String> {
    let parts = text.split_once(',').and_then(|(high, low)| Some((share(high)?, share(low)?)));
    let ordered = parts.filter(|(high, low)| high > low && *high > 0);
    ordered
        .map(|(high, low)| Marks(high, low))
        .ok_or_else(|| "expected two shares, the higher first, such as 75%,25%".to_owned())
}

/// Reads two numbers above 0, with a comma between them.
fn pair<T: FromStr + PartialOrd + Default>(text: &str) -> Option<(T, T)> {
    let number = |part: &str| part.trim().parse().ok().filter(|n| *n > T::default());
    text.split_once(',').and_then(|(first, second)| Some((number(first)?, number(second)?)))
}

fn tick_sampling(text: &str) -> Result<TickSampling, String> {
    let (samples, pause_ticks) = pair(text).ok_or("expected two numbers of ticks above 0, such as 4,4")?;
    Ok(TickSampling { tick: TICK, samples, pause_ticks })
}

fn task_weights(text: &str) -> Result<TaskWeights, String> {
    let (receive, transmit) = pair(text).ok_or("expected two weights from 1 to 65535, such as 1,1")?;
    Ok(TaskWeights { receive, transmit })
}

/// Reads a share from 0% to 100%.
fn share(text: &str) -> Option<u8> {
    text.strip_suffix('%').unwrap_or(text).parse().ok().filter(|n| *n <= 100)
}

fn percent(text: &str) -> Result<u8, String> {
    let number = share(text).filter(|n| *n > 0);
    number.ok_or_else(|| "expected a share from 1% to 100%".to_owned())
}

impl Receiving {
    pub(crate) fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Returns the settings of a host that only listens. No frame waits to be sent, so batches are larger.
    pub(crate) fn listening(&self, seed: u64) -> Config {
        const AT_A_TIME: usize = 64;
        let quota = self.quota.unwrap_or(Quota::Fixed(AT_A_TIME));
        Config { listen_only: true, quota, batch_pkts: AT_A_TIME, ..self.config(seed) }
    }

    /// Returns the settings of a host that receives as these options say.
    pub(crate) fn config(&self, seed: u64) -> Config {
        let defaults = Config::of(self.architecture);
        let scoped = |scope| {
            Some(Feedback {
                high_percent: self.feedback_marks.0,
                low_percent: self.feedback_marks.1,
                timeout: self.feedback_timeout,
                resume_on_space: !self.no_resume_on_space,
                scope,
                discard_percent: self.discard_share,
                by: match self.feedback_by {
                    By::Marks => FeedbackBy::Marks,
                    By::Length => FeedbackBy::Length,
                },
            })
        };
        Config {
            device_work: match self.device_work {
                Where::Polled => DeviceWork::Polled,
                Where::Interrupt => DeviceWork::Interrupt,
            },
            quota: self.quota.unwrap_or_default(),
            feedback: match self.feedback {
                None => defaults.feedback.and_then(|feedback| scoped(feedback.scope)),
                Some(Scope::Feeding) => scoped(FeedbackScope::Feeding),
                Some(Scope::All) => scoped(FeedbackScope::All),
                Some(Scope::Off) => None,
            },
            cycle_limit: self.cycle_limit.map(|percent| CycleLimit { period: CYCLE_PERIOD, percent }),
            alternatives: Alternatives {
                tick_sampling: self.tick_sampling,
                real_time_tasks: self.real_time_tasks,
                limit_interrupts: self.limit_interrupts,
                clocked_interrupts: self.clocked_interrupts,
                network_polling: self.aggregation_quota.map(NetworkPolling::new),
                ..defaults.alternatives
            },
            scheduler: match self.scheduler {
                Scheduler::Stride => Scheduling::Stride,
                Scheduler::DecayUsage => Scheduling::DecayUsage,
            },
            seed,
            ..defaults
        }
    }
}
