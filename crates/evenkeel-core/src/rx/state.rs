//! The state of the receive floor, and the work that a burst of frames leaves for the floors above.

use core::ops::RangeInclusive;
use std::collections::VecDeque;

use crate::channel::{Ahead, ChannelTable, SegmentKind};
use crate::config::Config;
use crate::demux::DemuxTable;
use crate::frame::Frame;
use crate::id::{ChannelId, InterfaceId, SocketId};
use crate::other_stack::Sharing;
use crate::poll::Gate;
use crate::queue::Queue;
use crate::receive::DeviceWork;
use crate::stray::Place;
use crate::tcp::AddrPort;
use crate::time::Instant;
use crate::wire::IpAddress;

/// The queues that a host receives into, and the table that says where a frame goes.
#[derive(Debug)]
pub(crate) struct Receive {
    pub(crate) table: DemuxTable,
    pub(crate) channels: ChannelTable,
    /// The bound on messages that are processed ahead of other frames.
    pub(crate) ahead: Ahead,
    /// The queue that all IP traffic shares, under the architectures that have one.
    pub(crate) ip_queue: Queue<(InterfaceId, Frame)>,
    /// The time when the special fragment channel is read next though the core is busy.
    pub(crate) next_fragment_look: Instant,
    /// The ports from which one is chosen if a socket leaves the choice open.
    dynamic_ports: RangeInclusive<u16>,
    /// The port at which the search for a free one begins.
    pub(crate) next_port: u16,
    pub(crate) sharing: Sharing,
    /// The place of the host in its group, on which its ports depend.
    pub(crate) place: Place,
    /// The number of frames that may come for any queue after the one that has it pause its rings, without
    /// being lost: the smallest such room that there is.
    pub(crate) headroom_pkts: usize,
    /// The frames and wake-ups that the last burst left for the floors above.
    pub(crate) handover: Handover,
}

/// The work that a burst leaves for the floors above.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    /// Frames for protocol input in the same work item, in the order in which they came.
    pub(crate) frames: VecDeque<Frame>,
    /// Channels in which something has arrived that their receivers wait for.
    pub(crate) arrived: VecDeque<Arrived>,
}

/// An arrival in a channel that its receiver is told of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arrived {
    /// A receiver sleeps until something comes.
    Wake(ChannelId),
    /// Segments wait in a channel that was empty: its process is to process them.
    Activate(ChannelId, SegmentKind),
}

impl Receive {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            table: DemuxTable::new(config.seed),
            channels: ChannelTable::new(),
            ahead: Ahead::new(),
            ip_queue: Queue::new(config.ip_queue_pkts, Gate::open()),
            next_fragment_look: Instant::ZERO,
            next_port: *config.tcp.ports.start(),
            dynamic_ports: config.tcp.ports.clone(),
            sharing: Sharing::default(),
            place: Place::default(),
            headroom_pkts: usize::MAX,
            handover: Handover::default(),
        }
    }

    /// Returns the proxy daemons of the lazy architectures: name, nice value, and channel.
    pub(crate) fn daemons(
        &self,
        config: &Config,
        is_lazy: bool,
    ) -> impl Iterator<Item = (&'static str, i8, ChannelId)> + use<> {
        let daemons = self.channels.daemons();
        let neighbor = daemons.neighbor.map(|c| ("arpd", 0, c));
        let control = daemons.control.map(|c| ("icmpd", 0, c));
        let nice = config.forward_nice;
        let forward = daemons.forward.filter(|_| is_lazy).map(|c| ("forwardd", nice, c));
        neighbor.into_iter().chain(control).chain(forward)
    }

    /// Returns when the special fragment channel must be read even if the core is too busy to reach the
    /// idle level; [`Instant::NEVER`] if the channel is empty.
    #[inline]
    pub(crate) fn fragments_deadline(&self) -> Instant {
        let channel = self.channels.daemons().fragment.and_then(|id| self.channels.get(id));
        let waiting = channel.is_some_and(|channel| !channel.is_empty());
        if waiting { self.next_fragment_look } else { Instant::NEVER }
    }

    /// Returns the UDP socket that alone receives at an address and port.
    pub(crate) fn udp_socket_at(&self, at: &AddrPort) -> Option<SocketId> {
        let channel = self.table.udp(&at.addr.into(), at.port)?;
        match *self.channels.get(channel)?.members.as_slice() {
            [id] => Some(id),
            _ => None,
        }
    }

    /// Returns a port of the dynamic range at which no socket is in the way of another one at `address`.
    /// `None` if there is none.
    pub(crate) fn free_port(&mut self, address: Option<IpAddress>) -> Option<u16> {
        let (first, last) = (*self.dynamic_ports.start(), *self.dynamic_ports.end());
        for _ in first..=last {
            let port = self.next_port;
            self.next_port = if port < last { port + 1 } else { first };
            if port != 0 && self.place.has_port(port) && !self.table.conflicts(address, port) {
                return Some(port);
            }
        }
        None
    }

    /// Creates the gate of a queue that device work fills. It gives feedback if that is configured and if
    /// there is input to be paused.
    pub(crate) fn gate(&mut self, limit_pkts: usize, config: &Config) -> Gate {
        let throttled =
            config.plan_for(false).device == DeviceWork::Polled || config.paper_policies.limit_interrupts;
        match config.feedback {
            Some(feedback) if throttled => {
                let gate = Gate::new(&feedback, limit_pkts);
                self.headroom_pkts = self.headroom_pkts.min(gate.headroom_pkts());
                gate
            }
            _ => Gate::open(),
        }
    }
}
