//! The receive options of all commands that have a host.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};
use evenkeel::raw::device::{DeviceSpec, LinkSpec};
use evenkeel::raw::host::{Config, PaperPolicies, Scheduling};
use evenkeel::raw::receive::{
    Architecture, CycleLimit, DeviceWork, Feedback, FeedbackBy, FeedbackScope, NetworkPolling, Quota,
    TaskWeights, TickSampling,
};

use crate::quantity::{period, time};
use crate::suggest;

/// The period of the cycle limit, as in its paper.
const CYCLE_PERIOD: Duration = Duration::from_millis(10);

/// The interval of the clock that samples the work of the core.
const TICK: Duration = Duration::from_millis(1);

/// The heading of all these options.
pub(crate) const HEADING: &str = "Receiving";

#[derive(Debug, Clone, Args)]
pub(crate) struct Receiving {
    /// Use this receive architecture: eager, early-demux, polled, soft-lrp or ni-lrp (cable, xdp) [default:
    /// soft-lrp; for programs on xdp ni-lrp].
    #[arg(
        long, help_heading = HEADING, value_name = "NAME",
        value_parser = suggest::architecture(), hide_possible_values = true
    )]
    architecture: Option<Architecture>,
    /// For soft-lrp and polled: take frames from the interface in this place. In the interrupt, polled also
    /// processes the packets to completion.
    #[arg(long, help_heading = HEADING, value_name = "WHERE", value_enum, default_value_t = Where::Polled)]
    device_work: Where,
    /// Let the polling thread take N frames from one receive ring before it turns to the next: a number,
    /// dynamic (as many as do no harm), or none for no limit [default: 16; 64 for a packet monitor, which
    /// sends nothing].
    #[arg(
        long, help_heading = HEADING, value_name = "N", hide_possible_values = true,
        value_parser = suggest::with(quota, ["dynamic", "none"])
    )]
    quota: Option<Quota>,
    /// Pause this input while a queue is nearly full, until it has drained [default: all for polled, else
    /// feeding].
    #[arg(long, help_heading = HEADING, value_name = "WHAT", value_enum)]
    feedback: Option<Scope>,
    /// Start and end feedback at these shares of a queue's limit.
    #[arg(
        long, help_heading = HEADING, value_name = "HIGH,LOW", default_value = "75%,25%",
        value_parser = marks
    )]
    feedback_marks: Marks,
    /// End each pause by feedback after at most TIME, whatever the queue's length.
    #[arg(long, help_heading = HEADING, value_name = "TIME", default_value = "977us", value_parser = time)]
    feedback_timeout: Duration,
    /// End feedback only after its timeout, not when the queue has drained.
    #[arg(long, help_heading = HEADING)]
    no_resume_on_space: bool,
    /// Pause input at those marks, or throttle it all the time by the queue's length: a fuller queue leaves
    /// less of the core for receiving packets, and more for the program that reads the queue.
    #[arg(long, help_heading = HEADING, value_name = "WHAT", value_enum, default_value_t = By::Marks)]
    feedback_by: By,
    /// Limit the share of the core for discarding excess frames at once, if several sockets share a receive
    /// ring.
    ///
    /// Discarding may take more while it keeps up with the incoming frames: the flooded process pays for that
    /// from its own share. If discarding does not keep up, the whole ring is paused for moments.
    #[arg(
        long, help_heading = HEADING, value_name = "PERCENT", default_value = "25%", value_parser = percent
    )]
    discard_share: u8,
    /// Limit the share of the core for receiving packets, such as 50% [default: no limit].
    #[arg(long, help_heading = HEADING, value_name = "PERCENT", value_parser = percent)]
    cycle_limit: Option<u8>,
    /// Limit input without measuring time: after the first number of clock ticks (of 1 ms) in a row that find
    /// the core receiving packets, receive none for the second number of ticks, such as 4,4 [default: never].
    #[arg(long, help_heading = HEADING, value_name = "TICKS,TICKS", value_parser = tick_sampling)]
    tick_sampling: Option<TickSampling>,
    /// Share the polling thread among receive rings and transmit sides by these weights, such as 1,1.
    /// Interrupts then only set a flag, and continue while the thread works [default: round robin].
    #[arg(long, help_heading = HEADING, value_name = "RECEIVE,TRANSMIT", value_parser = task_weights)]
    real_time_tasks: Option<TaskWeights>,
    /// Let feedback, the cycle limit and tick sampling also pause interrupts if there is no polling thread:
    /// an interrupt-rate limiter.
    #[arg(long, help_heading = HEADING)]
    limit_interrupts: bool,
    /// Poll for frames every TIME instead of taking interrupts [default: interrupts].
    #[arg(long, help_heading = HEADING, value_name = "TIME", value_parser = period)]
    clocked_interrupts: Option<Duration>,
    /// While the core is busy, poll instead of taking interrupts, at an interval that adapts to N frames a
    /// poll on average [default: interrupts].
    #[arg(long, help_heading = HEADING, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    aggregation_quota: Option<u32>,
    /// Choose the next program to run with this scheduler.
    #[arg(long, help_heading = HEADING, value_name = "NAME", value_enum, default_value_t = Scheduler::Stride)]
    scheduler: Scheduler,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Where {
    /// In a thread with a quota, paused by feedback from full queues.
    Polled,
    /// In the interrupt, as in the paper.
    Interrupt,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Scope {
    /// Pause the receive rings that fill it: other rings go on. Sockets that share a ring are paused
    /// together.
    Feeding,
    /// Pause all receive rings.
    All,
    /// Pause nothing: frames for a full queue are dropped after they were classified.
    Off,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum By {
    /// Input stops at the high mark, until the low mark or the timeout.
    Marks,
    /// The share of input follows the queue's length, in periods of the timeout: scheduling as in Synthesis.
    Length,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Scheduler {
    /// Give equal shares, exact within a millisecond.
    Stride,
    /// Lower the priority of a program with its recent use, as in 4.3BSD.
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

/// High and low marks, in percent.
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
        self.architecture.unwrap_or(Architecture::SoftLrp)
    }

    /// Returns these options for a host of programs on `link`, with the architecture that suits it unless one
    /// is given.
    pub(crate) fn on(&self, link: Option<&LinkSpec>) -> Self {
        let demultiplexes = matches!(link, Some(LinkSpec::Device(DeviceSpec::Xdp(_))));
        let suits = demultiplexes.then_some(Architecture::NiLrp);
        Self { architecture: self.architecture.or(suits), ..self.clone() }
    }

    /// Returns the settings of a host that only listens. No frame waits to be sent, so batches are larger.
    pub(crate) fn listening(&self, seed: u64) -> Config {
        const AT_A_TIME: usize = 64;
        let quota = self.quota.unwrap_or(Quota::Fixed(AT_A_TIME));
        Config { listen_only: true, quota, batch_pkts: AT_A_TIME, ..self.config(seed) }
    }

    /// Returns the settings of a host that receives as these options say.
    pub(crate) fn config(&self, seed: u64) -> Config {
        let defaults = Config::of(self.architecture());
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
            paper_policies: PaperPolicies {
                tick_sampling: self.tick_sampling,
                real_time_tasks: self.real_time_tasks,
                limit_interrupts: self.limit_interrupts,
                clocked_interrupts: self.clocked_interrupts,
                network_polling: self.aggregation_quota.map(NetworkPolling::new),
                ..defaults.paper_policies
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
