//! The settings of a router in the livelock paper's experiments, for virtual and real time.

use evenkeel::raw::host::{Config, PaperPolicies, Scheduling, Transmit};
use evenkeel::raw::ip;
use evenkeel::raw::receive::{Architecture, CycleLimit, Feedback, FeedbackScope, Inhibition, Quota};
use evenkeel::raw::time::Duration;

/// The limit of the shared IP queue and of each output queue: `IFQ_MAXLEN` of 4.2BSD.
const QUEUE_PKTS: usize = 50;
/// The limit of the screening queue (L97.F6.qlen).
pub(crate) const SCREENING_QUEUE_PKTS: usize = 32;
/// A tick of the clock, of 1024 per second (L97.F6.timeout, L97.m.hz).
pub(crate) const TICK: Duration = Duration::from_nanos(976_562);
/// The quota of the polling thread with screening (L97.F6.quota).
pub(crate) const SCREENING_QUOTA: Quota = Quota::Fixed(10);

/// The kernel of the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// The kernel of 4.2BSD.
    Unmodified,
    /// The modified kernel with its modifications switched off.
    PollingOff,
    /// The modified one.
    Polling,
}

/// The settings of a router in an experiment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) kernel: Kernel,
    pub(crate) quota: Quota,
    /// Feedback from the screening queue, with this timeout.
    pub(crate) feedback: Option<Duration>,
    /// The percentage of the CPU that packets may use.
    pub(crate) cycle_limit: Option<u8>,
    pub(crate) transmit: Transmit,
    /// Whether a user process decides about every packet.
    pub(crate) screend: bool,
    /// Whether a user process computes for ever.
    pub(crate) spinner: bool,
}

impl Setup {
    pub(crate) const UNMODIFIED: Self = Self {
        kernel: Kernel::Unmodified,
        quota: Quota::Fixed(8),
        feedback: None,
        cycle_limit: None,
        transmit: Transmit::Throughput,
        screend: false,
        spinner: false,
    };

    pub(crate) const POLLING: Self = Self { kernel: Kernel::Polling, ..Self::UNMODIFIED };

    pub(crate) const fn with_screend(self) -> Self {
        Self { screend: true, ..self }
    }

    pub(crate) const fn architecture(&self) -> Architecture {
        match self.kernel {
            Kernel::Unmodified | Kernel::PollingOff => Architecture::Eager,
            Kernel::Polling => Architecture::Polled,
        }
    }

    /// Returns the configuration of the host that is this router.
    pub(crate) fn config(&self) -> Config {
        // 75 % and 25 % full (L97.F6.hi, L97.F6.lo).
        let feedback = |timeout| Feedback { scope: FeedbackScope::All, timeout, ..Feedback::default() };
        let period = Duration::from_millis(10);
        Config {
            quota: self.quota,
            feedback: self.feedback.map(feedback),
            cycle_limit: self.cycle_limit.map(|percent| CycleLimit { period, percent }),
            paper_policies: PaperPolicies {
                limit_counts_interrupts: false,
                // This holds for every figure of the router. If a callback of ten packets, which takes longer
                // than the timeout, could finish, the queue would never drain, and figures 6 and 9 would show
                // livelock. The paper checks its cycle limit after a burst of five; a limit that acts at once
                // is within the same bounds (figure 10).
                inhibition: Inhibition::AtOnce,
                transmit: self.transmit,
                ..PaperPolicies::default()
            },
            ip_queue_pkts: QUEUE_PKTS,
            output_queue_pkts: QUEUE_PKTS,
            scheduler: Scheduling::DecayUsage,
            stack: ip::Config { forwarding: true, ..ip::Config::default() },
            ..Config::of(self.architecture())
        }
    }
}

/// The settings of a network monitor in an experiment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MonitorSetup {
    /// Whether `tcpdump` writes to a disk file, not to /dev/null.
    pub(crate) disk: bool,
    /// Whether the packet filter's queue gives feedback.
    pub(crate) feedback: bool,
    /// The ticks of the generator's clock from one burst to the next.
    pub(crate) burst_ticks: u32,
}

impl MonitorSetup {
    /// The greatest number of packets in the monitor's queue (L97.F15.qlen).
    pub(crate) const QUEUE_PKTS: usize = 32;

    /// Returns the configuration of the host that is this monitor.
    pub(crate) fn config(&self) -> Config {
        let feedback = Feedback {
            // Fewer than eight free slots of 32: 25 (L97.F15.room).
            high_percent: 79,
            // L97.F15.timeout; nothing else ends the pause.
            timeout: Duration::from_millis(1),
            resume_on_space: false,
            scope: FeedbackScope::All,
            ..Feedback::default()
        };
        Config {
            quota: SCREENING_QUOTA,
            feedback: self.feedback.then_some(feedback),
            // This differs from the router's setting. In the paper "very few packets were dropped at the
            // receiving interface", and "the kernel has no place to put the next batch" (section 9): the
            // kernel takes the ring's packets, and drops them in the filter's queue. With an immediate stop
            // they would be dropped in the ring.
            paper_policies: PaperPolicies {
                inhibition: Inhibition::AfterCallback,
                ..PaperPolicies::default()
            },
            listen_only: true,
            scheduler: Scheduling::DecayUsage,
            ..Config::of(Architecture::Polled)
        }
    }
}
