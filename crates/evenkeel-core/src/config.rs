//! Settings of a host.

use crate::poll::{
    CycleLimit, Feedback, FeedbackBy, FeedbackScope, Inhibition, NetworkPolling, Quota, Sources, TaskWeights,
    TickSampling,
};
use crate::ready::{Allocation, Select};
use crate::receive::{Architecture, DeviceWork, ReceivePath};
use crate::schedule::Policy;
use crate::stack;
use crate::tcp::{EndpointConfig, Secret};
use crate::time::Duration;

/// Settings of a host.
#[derive(Debug, Clone)]
pub struct Config {
    /// The receive architecture. Each interface may have its own ([`crate::host::Host::add_interface_with`]);
    /// under `ni-lrp`, one that does not demultiplex is received from as under `soft-lrp`.
    pub architecture: Architecture,
    /// The place where `soft-lrp` and `polled` do their device work. Default polled. In the interrupt,
    /// `polled` processes packets to completion at the highest level.
    pub device_work: DeviceWork,
    /// Frames that one callback of the polling thread may take. Default 16, one vector.
    pub quota: Quota,
    /// Feedback from full queues to whatever takes frames in. `None` switches it off. Default
    /// [`Feedback::default`].
    pub feedback: Option<Feedback>,
    /// Limit of the share of the core that goes to taking packets in. Default none.
    pub cycle_limit: Option<CycleLimit>,
    /// Policies that the papers name in addition to those above. Default [`PaperPolicies::default`].
    pub paper_policies: PaperPolicies,
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
    /// Frames that one unit of device or protocol work takes at most, 1 to 64. Default 16: between two units
    /// of that length nothing can preempt. A simulator that preempts anywhere sets 1.
    pub batch_pkts: usize,
    /// Limit of all frame buffers together, 2 KiB each. Default 65 536 (128 MiB); used only as far as queues
    /// have them reserved.
    pub memory_pkts: usize,
    /// The scheduler that picks the next process. Default [`Policy::Stride`].
    pub scheduler: Policy,
    /// The seed of all pseudo-random choices.
    pub seed: u64,
    /// The secret behind everything that an outsider must not guess: sequence numbers, cookies and hashes of
    /// TCP, identifications of IP, and the places of fragments. `None` derives it from the seed, which is
    /// for simulations and tests; a host on a real network needs 128 random bits
    /// ([`crate::host::Host::set_secret`]).
    pub secret: Option<Secret>,
    /// Limits of TCP, and what its connections have in common.
    pub tcp: EndpointConfig,
    /// Segments that may wait in the channels of all connections together, under the lazy architectures.
    /// Default 4096; needed only with TCP sockets. Under `soft-lrp` each connection may have half of the
    /// free ones, and no window is larger than that: 2.9 MB by default, whatever [`tcp`](Self::tcp) allows.
    /// [`Config::window_max`] returns the largest window, [`Config::segment_pkts_for`] the setting for
    /// larger ones, and [`crate::host::Host::tcp`] what is in effect.
    pub segment_pkts: usize,
    /// Connections that may have a channel of their own on adaptors which demultiplex (`ni-lrp`). Default 64.
    /// Others share that of the listener that they came by.
    pub connection_rings: usize,
    /// The method by which `select` and `poll` find ready descriptors. Default [`Select::WithMemory`].
    pub select: Select,
    /// The method by which the lowest free descriptor number is found. Default [`Allocation::Bitmap`].
    pub allocation: Allocation,
    /// Descriptors that each process may have, unless it has another limit set. Default 1 048 576.
    pub descriptors_max: u32,
    /// Limits of the protocols.
    pub stack: stack::Config,
}

/// The moment at which frames are handed to an interface that is still sending others (TOCS 1997, section
/// 8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transmit {
    /// At once, as long as the interface has descriptors.
    #[default]
    Latency,
    /// Once the interface has reported that earlier frames have left: 4.2BSD's *active* flag. Each driver
    /// call then sends more frames, and there are fewer calls. Under polling a frame waits for the poll of
    /// the transmit side.
    Throughput,
}

/// The priority of reclaiming the buffers of frames that have left. The variants are three ways in which
/// transmission can starve (TOCS 1997, section 4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransmitService {
    /// Transmit interrupts take turns with those of receive rings.
    #[default]
    InTurn,
    /// At the same level, but only when no receive ring interrupts.
    ReceiveFirst,
    /// At a lower level than receive interrupts and the protocol work they cause.
    LowerLevel,
}

/// Policies that the papers name in addition to those of [`Config`]: for experiments and special needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaperPolicies {
    /// Whether full output queues give feedback too. Default no: another interface's queue is weak evidence
    /// that input is the cause.
    pub output_feedback: bool,
    /// The moment at which feedback and the cycle limit stop a callback of the polling thread. Default
    /// [`Inhibition::AtOnce`].
    pub inhibition: Inhibition,
    /// Whether the interrupts that start the polling thread count against the cycle limit, too. Default yes;
    /// the paper counts the thread's own time only, and has a dip where nearly every packet interrupts (its
    /// figure 10).
    pub limit_counts_interrupts: bool,
    /// Inhibition of input without a cycle counter: when several clock ticks in a row find the core taking
    /// packets in. Default none.
    pub tick_sampling: Option<TickSampling>,
    /// Interrupt handlers only set a flag, and the polling thread calls the devices' callbacks as real-time
    /// tasks by weight instead of round robin, as in Calaveras. Default none.
    pub real_time_tasks: Option<TaskWeights>,
    /// Whether feedback and limits also pause the interrupts of architectures that do their work there:
    /// Mogul and Ramakrishnan's interrupt-rate limiter. Default no, as in 4.2BSD.
    pub limit_interrupts: bool,
    /// Looks for frames at this interval instead of taking interrupts (clocked interrupts). Default no.
    pub clocked_interrupts: Option<Duration>,
    /// While the core is busy, looks for frames at an interval that adapts to the load instead of taking
    /// interrupts; instead of clocked interrupts, too (Aron and Druschel, TOCS 2000, section 4.2). It is
    /// about rings that the host takes frames from: channels of `ni-lrp` interrupt as ever. Default no.
    pub network_polling: Option<NetworkPolling>,
    /// The moment at which frames are handed to an interface that is still sending. Default
    /// [`Transmit::Latency`].
    pub transmit: Transmit,
    /// The priority of reclaiming transmitted buffers. Default [`TransmitService::InTurn`].
    pub transmit_service: TransmitService,
}

impl Default for PaperPolicies {
    fn default() -> Self {
        Self {
            output_feedback: false,
            inhibition: Inhibition::default(),
            limit_counts_interrupts: true,
            tick_sampling: None,
            real_time_tasks: None,
            limit_interrupts: false,
            clocked_interrupts: None,
            network_polling: None,
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
            paper_policies: PaperPolicies::default(),
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
            select: Select::default(),
            allocation: Allocation::Bitmap,
            descriptors_max: 1 << 20,
            stack: stack::Config::default(),
        }
    }
}

/// The divisor of the free buffers that gives the largest number a connection's channel may hold.
pub(crate) const CHANNEL_SHARE: usize = 2;
/// Bytes of payload in one buffer: a little less than fits Ethernet. A peer that sends smaller segments may
/// have some dropped.
const PAYLOAD_BYTES: usize = 1_400;

impl Config {
    /// Returns these settings with the policies of the papers changed by `change`.
    #[must_use]
    pub fn with_paper_policies(mut self, change: impl FnOnce(&mut PaperPolicies)) -> Self {
        change(&mut self.paper_policies);
        self
    }

    /// Returns the receive path that the settings choose, whatever an interface can do.
    #[must_use]
    pub const fn plan(&self) -> ReceivePath {
        ReceivePath::of(self.architecture, self.device_work)
    }

    /// Returns the receive path of an interface that demultiplexes, or does not. Under the lazy
    /// architectures an interface that demultiplexes does so itself; for any other the host does.
    pub(crate) const fn plan_for(&self, demultiplexes: bool) -> ReceivePath {
        match self.architecture {
            Architecture::SoftLrp | Architecture::NiLrp if demultiplexes => {
                ReceivePath::of(Architecture::NiLrp, self.device_work)
            }
            Architecture::NiLrp => ReceivePath::of(Architecture::SoftLrp, self.device_work),
            _ => self.plan(),
        }
    }

    /// Returns the largest window that TCP can promise with these settings; `None` if [`tcp`](Self::tcp)
    /// alone limits it.
    ///
    /// Under `soft-lrp` a whole window may arrive before the process runs, and data that the peer was
    /// allowed to send must not be dropped. So a window is at most what a connection's channel can hold if
    /// no other does, and at least two segments.
    #[must_use]
    pub fn window_max(&self) -> Option<usize> {
        let plan = self.plan();
        (plan.is_lazy() && !plan.is_on_interface()).then(|| self.window_held_max())
    }

    /// Returns the largest window that a connection's channel can hold as a whole.
    pub(crate) fn window_held_max(&self) -> usize {
        self.segment_pkts.div_ceil(CHANNEL_SHARE).max(2).saturating_mul(PAYLOAD_BYTES)
    }

    /// Returns the lowest [`segment_pkts`](Self::segment_pkts) that allows windows of so many bytes. Each
    /// segment is a buffer of the host's memory.
    #[must_use]
    pub const fn segment_pkts_for(window: usize) -> usize {
        window.div_ceil(PAYLOAD_BYTES).saturating_mul(CHANNEL_SHARE)
    }

    /// Returns the default settings of an architecture. `polled` pauses all input when a socket queue is
    /// full, as its paper does; the lazy architectures pause only the rings that feed it.
    #[must_use]
    pub fn of(architecture: Architecture) -> Self {
        let scope =
            if architecture == Architecture::Polled { FeedbackScope::All } else { FeedbackScope::Feeding };
        Self { architecture, feedback: Some(Feedback { scope, ..Feedback::default() }), ..Self::default() }
    }

    pub(crate) fn transmit_queue_pkts(&self) -> usize {
        self.output_queue_pkts.max(1)
    }

    /// Returns whether feedback is per channel: a full channel then pauses no ring from which others
    /// receive.
    pub(crate) fn per_channel_feedback(&self) -> bool {
        let feeding = |f: Feedback| f.scope == FeedbackScope::Feeding && f.by == FeedbackBy::Marks;
        self.feedback.is_some_and(feeding)
    }

    /// Returns the sources to pause when frames of `sources` fill a queue.
    pub(crate) fn scope(&self, sources: Sources) -> Sources {
        match self.feedback {
            Some(Feedback { scope: FeedbackScope::All, .. }) if !sources.is_empty() => Sources::ALL,
            _ => sources,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;

    fn receive_buffer_max(config: Config) -> usize {
        Host::new(config).unwrap().tcp().config().connection.receive_buffer_max
    }

    #[test]
    fn a_window_that_cannot_be_held_is_said_to_be_smaller_and_can_be_had() {
        let config = Config::of(Architecture::SoftLrp);
        let asked = config.tcp.connection.receive_buffer_max;
        let most = config.window_max().expect("it is bound");
        assert!(most < asked);
        assert_eq!(receive_buffer_max(config.clone()), most);
        let enough = Config { segment_pkts: Config::segment_pkts_for(asked), ..config.clone() };
        assert!(enough.window_max() >= Some(asked));
        assert_eq!(receive_buffer_max(enough), asked);
        let almost = Config { segment_pkts: Config::segment_pkts_for(asked) - 2, ..config };
        assert!(almost.window_max() < Some(asked));
        for architecture in [Architecture::Eager, Architecture::NiLrp] {
            assert_eq!(Config::of(architecture).window_max(), None);
            assert_eq!(receive_buffer_max(Config::of(architecture)), asked);
        }
    }
}
