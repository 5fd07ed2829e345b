//! Settings of a host.

use crate::poll::{
    CycleLimit, Feedback, FeedbackBy, FeedbackScope, Inhibition, NetworkPolling, Quota, Sources, TaskWeights,
    TickSampling,
};
use crate::ready::{Allocation, Select};
use crate::receive::{Architecture, DeviceWork, Plan};
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
    /// Where `soft-lrp` and `polled` do their device work. Default polled; in the interrupt, `polled`
    /// processes packets to completion at the highest level.
    pub device_work: DeviceWork,
    /// Frames that one callback of the polling thread may take. Default 16, one vector.
    pub quota: Quota,
    /// Feedback from full queues to whatever takes frames in. `None` switches it off. Default
    /// [`Feedback::default`].
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
    /// Frames that one unit of device or protocol work takes at most, 1 to 64. Default 16: between two units
    /// of that length nothing can preempt. A simulator that preempts anywhere sets 1.
    pub batch_pkts: usize,
    /// Limit of all frame buffers together, 2 KiB each. Default 65 536 (128 MiB); used only as far as queues
    /// have them reserved.
    pub memory_pkts: usize,
    /// Which scheduler picks the next process. Default [`Policy::Stride`].
    pub scheduler: Policy,
    /// Where all pseudo-random choices start from.
    pub seed: u64,
    /// What nobody outside may guess: sequence numbers, cookies and hashes of TCP, identifications of IP, and
    /// the places of fragments come from it. `None` makes it from the seed, which is for simulations and
    /// tests; a host on a real network wants 128 random bits ([`crate::host::Host::set_secret`]).
    pub secret: Option<Secret>,
    /// Limits of TCP, and what its connections have in common.
    pub tcp: EndpointConfig,
    /// Segments that may wait in channels of connections, all together, under the lazy architectures. Default
    /// 4096; of use only once there are TCP sockets. Under `soft-lrp` each connection may have half of those
    /// that are free, and no window is larger than that: 2.9 MB by default, whatever [`tcp`](Self::tcp) says.
    /// [`Config::window_max`] says how large windows can be, [`Config::segment_pkts_for`] what it takes to
    /// have larger ones, and [`crate::host::Host::tcp`] what is in effect.
    pub segment_pkts: usize,
    /// Connections that may have a channel of their own on adaptors which demultiplex (`ni-lrp`). Default 64.
    /// Others share that of the listener that they came by.
    pub connection_rings: usize,
    /// How `select` and `poll` find out what is ready. Default [`Select::WithMemory`].
    pub select: Select,
    /// How the lowest free number of a descriptor is found. Default [`Allocation::Bitmap`].
    pub allocation: Allocation,
    /// Descriptors that each process may have, unless it has another limit set. Default 1 048 576.
    pub descriptors_max: u32,
    /// Limits of the protocols.
    pub stack: stack::Config,
}

/// When frames are handed to an interface that is still sending others (TOCS 1997, section 8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transmit {
    /// At once, as long as it has descriptors.
    #[default]
    Latency,
    /// When it has said that earlier ones have left: 4.2BSD's *active* flag. Fewer calls of the driver for
    /// more frames each; under polling a frame waits until the transmit side gets its turn.
    Throughput,
}

/// How soon buffers of frames that have left are taken back: three ways in which transmitting can starve
/// (TOCS 1997, section 4.4).
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

/// What the papers name beside the policies of [`Config`]: for experiments, and for those who want it so. A
/// host that has none of it does not look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alternatives {
    /// Whether full output queues give feedback too. Default no: another interface's queue is weak evidence
    /// that input is the cause.
    pub output_feedback: bool,
    /// Whether feedback and cycle limit stop a callback of the polling thread in the middle. Default yes.
    pub inhibition: Inhibition,
    /// Whether the interrupts that start the polling thread count against the cycle limit, too. Default yes;
    /// the paper counts the thread's own time only, and has a dip where nearly every packet interrupts (its
    /// figure 10).
    pub limit_counts_interrupts: bool,
    /// Without a cycle counter: inhibits input when clock ticks in a row find the core taking packets in.
    /// Default none.
    pub tick_sampling: Option<TickSampling>,
    /// Interrupt handlers only set a flag, and the polling thread calls the devices' callbacks as real-time
    /// tasks by weight instead of round robin, as in Calaveras. Default none.
    pub real_time_tasks: Option<TaskWeights>,
    /// Whether feedback and limits also hold back the interrupts of architectures that do their work there:
    /// Mogul and Ramakrishnan's interrupt-rate limiter. Default no, as in 4.2BSD.
    pub limit_interrupts: bool,
    /// Looks for frames at this interval instead of taking interrupts (clocked interrupts). Default no.
    pub clocked_interrupts: Option<Duration>,
    /// While the core is busy, looks for frames at an interval that adapts to the load instead of taking
    /// interrupts; instead of clocked interrupts, too (Aron and Druschel, TOCS 2000, section 4.2). It is
    /// about rings that the host takes frames from: channels of `ni-lrp` interrupt as ever. Default no.
    pub network_polling: Option<NetworkPolling>,
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
            select: Select::default(),
            allocation: Allocation::Bitmap,
            descriptors_max: 1 << 20,
            stack: stack::Config::default(),
        }
    }
}

/// Of the buffers that are free, one in so many may be held by a connection's channel.
pub(crate) const CHANNEL_SHARE: usize = 2;
/// Bytes of payload in one buffer: a little less than fits Ethernet. A peer that sends smaller segments may
/// have some dropped.
const PAYLOAD_BYTES: usize = 1_400;

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

    /// How they are received if it has not: under the lazy architectures by the interface if that
    /// demultiplexes, or else by the host.
    pub(crate) const fn plan_for(&self, demultiplexes: bool) -> Plan {
        match self.architecture {
            Architecture::SoftLrp | Architecture::NiLrp if demultiplexes => {
                Plan::of(Architecture::NiLrp, self.device_work)
            }
            Architecture::NiLrp => Plan::of(Architecture::SoftLrp, self.device_work),
            _ => self.plan(),
        }
    }

    /// The largest window that TCP can promise with these settings; `None` if it is as large as
    /// [`tcp`](Self::tcp) says.
    ///
    /// Under `soft-lrp` all of a window may come before the process has its turn, and what the peer was told
    /// to send is not to be dropped: it is no larger than what a connection's channel can hold if no other
    /// does, two segments at least.
    #[must_use]
    pub fn window_max(&self) -> Option<usize> {
        let plan = self.plan();
        (plan.is_lazy() && !plan.is_on_interface()).then(|| self.window_held_max())
    }

    /// The largest window all of which a connection's channel can hold.
    pub(crate) fn window_held_max(&self) -> usize {
        self.segment_pkts.div_ceil(CHANNEL_SHARE).max(2).saturating_mul(PAYLOAD_BYTES)
    }

    /// What [`segment_pkts`](Self::segment_pkts) has to be at least for windows of so many bytes. Each is a
    /// buffer of the host's memory.
    #[must_use]
    pub const fn segment_pkts_for(window: usize) -> usize {
        window.div_ceil(PAYLOAD_BYTES).saturating_mul(CHANNEL_SHARE)
    }

    /// The defaults of an architecture. `polled` inhibits all input when a socket queue is full, as its paper
    /// does; the lazy architectures only the rings that feed it.
    #[must_use]
    pub fn of(architecture: Architecture) -> Self {
        let scope =
            if architecture == Architecture::Polled { FeedbackScope::All } else { FeedbackScope::Feeding };
        Self { architecture, feedback: Some(Feedback { scope, ..Feedback::default() }), ..Self::default() }
    }

    pub(crate) fn transmit_queue_pkts(&self) -> usize {
        self.output_queue_pkts.max(1)
    }

    /// Whether a full channel holds back no ring from which others receive.
    pub(crate) fn separates(&self) -> bool {
        let feeding = |f: Feedback| f.scope == FeedbackScope::Feeding && f.by == FeedbackBy::Marks;
        self.feedback.is_some_and(feeding)
    }

    /// The sources to inhibit when frames of `fed_by` fill a queue.
    pub(crate) fn scope(&self, fed_by: Sources) -> Sources {
        match self.feedback {
            Some(Feedback { scope: FeedbackScope::All, .. }) if !fed_by.is_empty() => Sources::ALL,
            _ => fed_by,
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
