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

/// The settings of a host: its architecture, limits and policies.
#[derive(Debug, Clone)]
pub struct Config {
    /// The receive architecture. Each interface may have its own ([`crate::host::Host::add_interface_with`]).
    /// Under `ni-lrp`, frames of an interface that does not demultiplex are received as under `soft-lrp`.
    pub architecture: Architecture,
    /// The place where `soft-lrp` and `polled` do their device work. Default [`DeviceWork::Polled`]. With
    /// [`DeviceWork::Interrupt`], `polled` processes packets to completion at the highest level.
    pub device_work: DeviceWork,
    /// Limit of frames that one callback of the polling thread takes. Default 16, one vector.
    pub quota: Quota,
    /// Feedback from full queues, which pauses receive work. `None` switches it off. Default
    /// [`Feedback::default`].
    pub feedback: Option<Feedback>,
    /// Limit of the share of the core that receive work uses. Default none.
    pub cycle_limit: Option<CycleLimit>,
    /// Policies that the papers name in addition to those above. Default [`PaperPolicies::default`].
    pub paper_policies: PaperPolicies,
    /// Limit of each interface's output queue, in packets. Default 256.
    pub output_queue_pkts: usize,
    /// Whether every frame ends behind the packet filter: the host does no protocol input and never sends.
    /// Default no.
    pub listen_only: bool,
    /// Nice value of the daemon that forwards packets under the lazy architectures. Default 0.
    pub forward_nice: i8,
    /// Limit of the shared IP queue, in packets. Default 256.
    pub ip_queue_pkts: usize,
    /// Limit of each socket's queue of processed datagrams, in packets. Default 128.
    pub socket_queue_pkts: usize,
    /// Limit of each channel, in packets. Default 128.
    pub channel_pkts: usize,
    /// Limit of frames that one work item of device or protocol work takes, 1 to 64. Default 16. Nothing can
    /// preempt a work item before its end. A simulator that preempts anywhere sets 1.
    pub batch_pkts: usize,
    /// Limit of all frame buffers together, 2 KiB each. Default 65 536 (128 MiB). Only buffers that queues
    /// have reserved use memory. An interface with a larger MTU makes all buffers larger: 9.2 KiB for 9000.
    pub memory_pkts: usize,
    /// The scheduler that picks the next process. Default [`Policy::Stride`].
    pub scheduler: Policy,
    /// The seed of all pseudo-random choices. Default 0.
    pub seed: u64,
    /// The secret behind everything that an outsider must not guess: sequence numbers, cookies and hashes of
    /// TCP, identifications of IP, and the places of fragments. Default `None`, which derives it from the
    /// seed, for simulations and tests. A host on a real network needs 128 random bits
    /// ([`crate::host::Host::set_secret`]).
    pub secret: Option<Secret>,
    /// Limits of TCP, and settings that its connections share.
    pub tcp: EndpointConfig,
    /// Limit of segments that wait in the channels of all connections together, under the lazy architectures.
    /// Default 4096. Only TCP sockets need it.
    ///
    /// Under `soft-lrp` each connection may use half of the free segments, and no window is larger than that.
    /// By default this is 2.9 MB, whatever [`tcp`](Self::tcp) allows. [`Config::window_max`] returns the
    /// largest window. [`Config::segment_pkts_for`] returns the setting for larger windows.
    /// [`crate::host::Host::tcp`] shows the values in effect.
    pub segment_pkts: usize,
    /// Limit of connections that have a channel of their own on adaptors which demultiplex (`ni-lrp`).
    /// Default 64. Other connections share the channel of the listener that they came by.
    pub connection_rings: usize,
    /// The method by which `select` and `poll` find ready descriptors. Default [`Select::WithMemory`].
    pub select: Select,
    /// The method by which the lowest free descriptor number is found. Default [`Allocation::Bitmap`].
    pub allocation: Allocation,
    /// Limit of descriptors of each process, unless the process has set its own. Default 1 048 576.
    pub descriptors_max: u32,
    /// Settings and limits of the IP stack.
    pub stack: stack::Config,
}

/// The moment at which frames are handed to an interface that is still sending others (TOCS 1997, section
/// 8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transmit {
    /// At once, as long as the interface has free descriptors.
    #[default]
    Latency,
    /// After the interface has reported that earlier frames have left, as with the *active* flag of 4.2BSD.
    /// Each driver call then sends more frames, and there are fewer calls. Under polling, a frame waits for
    /// the poll of the transmit side.
    Throughput,
}

/// The priority of reclaiming the buffers of frames that have left. The variants are three ways in which
/// transmission can starve (TOCS 1997, section 4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransmitService {
    /// Transmit interrupts take turns with those of receive rings.
    #[default]
    InTurn,
    /// Transmit interrupts have the level of receive interrupts, but run only when no receive ring
    /// interrupts.
    ReceiveFirst,
    /// Transmit interrupts have a lower level than receive interrupts and the protocol work that these cause.
    LowerLevel,
}

/// Policies that the papers name in addition to those of [`Config`]: for experiments and special needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaperPolicies {
    /// Whether full output queues give feedback too. Default no: a full queue of another interface is weak
    /// evidence that input is the cause.
    pub output_feedback: bool,
    /// The moment at which feedback and the cycle limit stop a callback of the polling thread. Default
    /// [`Inhibition::AtOnce`].
    pub inhibition: Inhibition,
    /// Whether the interrupts that start the polling thread count against the cycle limit, too. Default yes.
    /// The paper counts the thread's own time only. Its figure 10 therefore dips where nearly every packet
    /// interrupts.
    pub limit_counts_interrupts: bool,
    /// Pauses input without a cycle counter, when several clock ticks in a row find the core in receive work.
    /// Default none.
    pub tick_sampling: Option<TickSampling>,
    /// The weights by which the polling thread calls the devices' callbacks as real-time tasks, as in
    /// Calaveras. Interrupt handlers then only set a flag. Default none: round robin.
    pub real_time_tasks: Option<TaskWeights>,
    /// Whether feedback and limits also pause interrupts, if the architecture does its work there (Mogul and
    /// Ramakrishnan's interrupt-rate limiter). Default no, as in 4.2BSD.
    pub limit_interrupts: bool,
    /// The interval at which the host looks for frames instead of taking interrupts (clocked interrupts).
    /// Default none.
    pub clocked_interrupts: Option<Duration>,
    /// An interval that adapts to the load, at which a busy core looks for frames instead of taking
    /// interrupts (Aron and Druschel, TOCS 2000, section 4.2). It also replaces clocked interrupts. It
    /// applies only to rings that the host takes frames from; channels of `ni-lrp` still interrupt. Default
    /// none.
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
/// Payload bytes counted for one buffer, a little less than an Ethernet frame carries. A peer that sends
/// smaller segments may have some dropped.
const PAYLOAD_BYTES: usize = 1_400;

impl Config {
    /// Returns these settings with the policies of the papers changed by `change`.
    #[must_use]
    pub fn with_paper_policies(mut self, change: impl FnOnce(&mut PaperPolicies)) -> Self {
        change(&mut self.paper_policies);
        self
    }

    /// Returns the receive path that the settings choose. Ignores what an interface can do.
    #[must_use]
    pub const fn plan(&self) -> ReceivePath {
        ReceivePath::of(self.architecture, self.device_work)
    }

    /// Returns the receive path of an interface. `demultiplexes` says whether the interface demultiplexes.
    /// Under the lazy architectures it then does so itself; for any other interface the host does.
    pub(crate) const fn plan_for(&self, demultiplexes: bool) -> ReceivePath {
        match self.architecture {
            Architecture::SoftLrp | Architecture::NiLrp if demultiplexes => {
                ReceivePath::of(Architecture::NiLrp, self.device_work)
            }
            Architecture::NiLrp => ReceivePath::of(Architecture::SoftLrp, self.device_work),
            _ => self.plan(),
        }
    }

    /// Returns the largest window, in bytes, that TCP can promise with these settings. Returns `None` if
    /// [`tcp`](Self::tcp) alone limits it.
    ///
    /// Under `soft-lrp` a whole window may arrive before the process runs. Data that the peer was allowed to
    /// send must not be dropped. So a window is at most what a connection's channel can hold if no other
    /// channel holds anything. It is at least two segments.
    #[must_use]
    pub fn window_max(&self) -> Option<usize> {
        let plan = self.plan();
        (plan.is_lazy() && !plan.is_on_interface()).then(|| self.window_held_max())
    }

    /// Returns the largest window, in bytes, that a connection's channel can hold as a whole.
    pub(crate) fn window_held_max(&self) -> usize {
        self.segment_pkts.div_ceil(CHANNEL_SHARE).max(2).saturating_mul(PAYLOAD_BYTES)
    }

    /// Returns the lowest [`segment_pkts`](Self::segment_pkts) that allows windows of `window` bytes. Each
    /// segment is a buffer of the host's memory.
    #[must_use]
    pub const fn segment_pkts_for(window: usize) -> usize {
        window.div_ceil(PAYLOAD_BYTES).saturating_mul(CHANNEL_SHARE)
    }

    /// Returns the default settings of an architecture. Under `polled` a full socket queue pauses all input,
    /// as in its paper. Under the lazy architectures it pauses only the rings that feed it.
    #[must_use]
    pub fn of(architecture: Architecture) -> Self {
        let scope =
            if architecture == Architecture::Polled { FeedbackScope::All } else { FeedbackScope::Feeding };
        Self { architecture, feedback: Some(Feedback { scope, ..Feedback::default() }), ..Self::default() }
    }

    pub(crate) fn transmit_queue_pkts(&self) -> usize {
        self.output_queue_pkts.max(1)
    }

    /// Returns whether feedback is per channel. A full channel then pauses no ring from which other channels
    /// receive.
    pub(crate) fn per_channel_feedback(&self) -> bool {
        let feeding = |f: Feedback| f.scope == FeedbackScope::Feeding && f.by == FeedbackBy::Marks;
        self.feedback.is_some_and(feeding)
    }

    /// Returns the sources to pause when frames from `sources` fill a queue.
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
