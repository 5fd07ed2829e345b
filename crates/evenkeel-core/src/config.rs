//! Settings of a host.

use crate::link::{Transmit, TransmitService};
use crate::poll::{
    CycleLimit, Feedback, FeedbackScope, Inhibition, Quota, Sources, TaskWeights, TickSampling,
};
use crate::receive::{Architecture, DeviceWork, Plan};
use crate::schedule::Policy;
use crate::stack;
use crate::tcp::{EndpointConfig, Secret};
use crate::time::Duration;

/// Settings of a host.
#[derive(Debug, Clone)]
pub struct Config {
    /// The receive architecture. Each interface may have its own ([`crate::host::Host::add_interface_with`]); under `ni-lrp`, one that does not
    /// demultiplex is received from as under `soft-lrp`.
    pub architecture: Architecture,
    /// Where `soft-lrp` and `polled` do their device work. Default polled; in the interrupt, `polled` processes packets to completion at
    /// the highest level.
    pub device_work: DeviceWork,
    /// Frames that one callback of the polling thread may take. Default 8, the best in the paper.
    pub quota: Quota,
    /// Feedback from full queues to whatever takes frames in. `None` switches it off. Default [`Feedback::default`].
    pub feedback: Option<Feedback>,
    /// Limit of the share of the core that goes to taking packets in. Default none.
    pub cycle_limit: Option<CycleLimit>,
    /// What the papers name beside these policies. Default none of it.
    pub alternatives: Alternatives,
    /// Limit of each interface's output queue. Default 256.
    pub output_queue_pkts: usize,
    /// Ends every frame behind the packet filter: no protocol input, and nothing is ever sent. Default no.
    pub listen_only: bool,
    /// Nice value of the daemon that forwards under the lazy architectures. Default 0.
    pub forward_nice: i8,
    /// Limit of the shared IP queue. Default 256.
    pub ip_queue_pkts: usize,
    /// Limit of each socket's queue of processed datagrams. Default 128.
    pub socket_queue_pkts: usize,
    /// Limit of each channel. Default 128.
    pub channel_pkts: usize,
    /// Frames that one unit of device or protocol work takes at most, 1 to 64. Default 16: between two units of that length nothing can
    /// preempt. A simulator that preempts anywhere sets 1.
    pub batch_pkts: usize,
    /// Limit of all frame buffers together, 2 KiB each. Default 65 536 (128 MiB); used only as far as queues are promised them.
    pub memory_pkts: usize,
    /// Which scheduler picks the next process. Default [`Policy::Stride`].
    pub scheduler: Policy,
    /// Where all pseudo-random choices start from.
    pub seed: u64,
    /// What nobody outside may guess: sequence numbers, cookies and hashes of TCP, identifications of IP, and the places of fragments come
    /// from it. `None` makes it from the seed, which is for simulations and tests; a host on a real network wants 128 random bits
    /// ([`crate::host::Host::set_secret`]).
    pub secret: Option<Secret>,
    /// Limits of TCP, and what its connections have in common.
    pub tcp: EndpointConfig,
    /// Segments that may wait in channels of connections, all together, under the lazy architectures. Default 4096; of use only once there are TCP
    /// sockets. Under `soft-lrp` each connection may have half of those that are free, and no window is larger than that: 2.9 MB.
    pub segment_pkts: usize,
    /// Connections that may have a channel of their own on adaptors which demultiplex (`ni-lrp`). Default 64. Others share that of the listener that they
    /// came by.
    pub connection_rings: usize,
    /// Limits of the protocols.
    pub stack: stack::Config,
}

/// What the papers name beside the policies of [`Config`]: for experiments, and for those who want it so. A host that has none of it does not look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alternatives {
    /// Whether full output queues give feedback too. Default no: another interface's queue is weak evidence that input is the cause.
    pub output_feedback: bool,
    /// Whether feedback and cycle limit stop a callback of the polling thread in the middle. Default yes.
    pub inhibition: Inhibition,
    /// Whether the interrupts that start the polling thread count against the cycle limit, too. Default yes; the paper counts the thread's own time
    /// only, and has a dip where nearly every packet interrupts (its figure 10).
    pub limit_counts_interrupts: bool,
    /// Without a cycle counter: inhibits input when clock ticks in a row find the core taking packets in. Default none.
    pub tick_sampling: Option<TickSampling>,
    /// Interrupt handlers only set a flag, and the polling thread calls the devices' callbacks as real-time tasks by weight instead of round
    /// robin, as in Calaveras. Default none.
    pub real_time_tasks: Option<TaskWeights>,
    /// Whether feedback and limits also hold back the interrupts of architectures that do their work there: Mogul and Ramakrishnan's
    /// interrupt-rate limiter. Default no, as in 4.2BSD.
    pub limit_interrupts: bool,
    /// Looks for frames at this interval instead of taking interrupts (clocked interrupts). Default no.
    pub clocked_interrupts: Option<Duration>,
    /// When frames are handed to an interface that is still sending. Default [`Transmit::Latency`].
    pub transmit: Transmit,
    /// How soon the transmit side gets its turn. Default [`TransmitService::InTurn`].
    pub transmit_service: TransmitService,
}

impl Default for Alternatives {
    fn default() -> Self {
        Self {
            output_feedback: false,
            inhibition: Inhibition::default(),
            limit_counts_interrupts: true,
            tick_sampling: None,
            real_time_tasks: None,
            limit_interrupts: false,
            clocked_interrupts: None,
            transmit: Transmit::default(),
            transmit_service: TransmitService::default(),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            architecture: Architecture::SoftLrp,
            device_work: DeviceWork::Polled,
            quota: Quota::default(),
            feedback: Some(Feedback::default()),
            cycle_limit: None,
            alternatives: Alternatives::default(),
            output_queue_pkts: 256,
            listen_only: false,
            forward_nice: 0,
            ip_queue_pkts: 256,
            socket_queue_pkts: 128,
            channel_pkts: 128,
            batch_pkts: 16,
            memory_pkts: 65_536,
            scheduler: Policy::default(),
            seed: 0,
            secret: None,
            tcp: EndpointConfig::default(),
            segment_pkts: 4_096,
            connection_rings: 64,
            stack: stack::Config::default(),
        }
    }
}

impl Config {
    /// The same with some of the alternatives as `change` sets them.
    #[must_use]
    pub fn with_alternatives(mut self, change: impl FnOnce(&mut Alternatives)) -> Self {
        change(&mut self.alternatives);
        self
    }

    /// How the frames of an interface are received, as far as the host has the choice.
    #[must_use]
    pub const fn plan(&self) -> Plan {
        Plan::of(self.architecture, self.device_work)
    }

    /// How they are received if it has not: under the lazy architectures by the interface if that demultiplexes, or else by the host.
    pub(crate) const fn plan_for(&self, demultiplexes: bool) -> Plan {
        match self.architecture {
            Architecture::SoftLrp | Architecture::NiLrp if demultiplexes => {
                Plan::of(Architecture::NiLrp, self.device_work)
            }
            Architecture::NiLrp => Plan::of(Architecture::SoftLrp, self.device_work),
            _ => self.plan(),
        }
    }

    /// The defaults of an architecture. `polled` inhibits all input when a socket queue is full, as its paper does; the lazy
    /// architectures only the rings that feed it.
    #[must_use]
    pub fn of(architecture: Architecture) -> Self {
        let scope =
            if architecture == Architecture::Polled { FeedbackScope::All } else { FeedbackScope::Feeding };
        Self { architecture, feedback: Some(Feedback { scope, ..Feedback::default() }), ..Self::default() }
    }

    pub(crate) fn transmit_queue_pkts(&self) -> usize {
        self.output_queue_pkts.max(1)
    }

    /// The sources to inhibit when frames of `fed_by` fill a queue.
    pub(crate) fn scope(&self, fed_by: Sources) -> Sources {
        match self.feedback {
            Some(Feedback { scope: FeedbackScope::All, .. }) if !fed_by.is_empty() => Sources::ALL,
            _ => fed_by,
        }
    }
}
