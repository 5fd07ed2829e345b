//! The channels of a host: which there are, which have work, which wait for an interrupt, and the daemons
//! that read those of traffic without a socket.

use std::collections::VecDeque;

use evenkeel_base::slab::{Lowest, Slab};

use super::queue::Channel;
use crate::demux::Binding;
use crate::id::{ChannelId, InterfaceId, ProcessId};
use crate::interface::RxQueue;
use crate::looks::count_look;

/// All channels of a host. They alone say which of them the idle level looks at next.
#[derive(Debug)]
pub(crate) struct ChannelTable {
    channels: Slab<Channel, Lowest>,
    /// Those that have work for the idle level.
    listed: VecDeque<ChannelId>,
    /// Those on interfaces whose interrupt is not enabled.
    disarmed: Vec<ChannelId>,
    /// Those whose interrupt is pending.
    interrupts: VecDeque<ChannelId>,
    daemons: Daemons,
}

/// The channels of traffic without a socket, and the processes that read them.
#[derive(Debug, Default)]
pub(crate) struct Daemons {
    pub(crate) neighbor: Option<ChannelId>,
    pub(crate) control: Option<ChannelId>,
    pub(crate) path: Option<ChannelId>,
    pub(crate) fragment: Option<ChannelId>,
    pub(crate) forward: Option<ChannelId>,
    readers: Vec<(ChannelId, ProcessId)>,
}

impl ChannelTable {
    pub(crate) fn new() -> Self {
        Self {
            channels: Slab::lowest_first(),
            listed: VecDeque::new(),
            disarmed: Vec::new(),
            interrupts: VecDeque::new(),
            daemons: Daemons::default(),
        }
    }

    /// Returns the number that the next channel gets. Its rings are opened before the channel exists.
    pub(crate) fn vacant(&self) -> ChannelId {
        ChannelId(self.channels.vacant())
    }

    pub(crate) fn insert(&mut self, channel: Channel) -> ChannelId {
        ChannelId(self.channels.insert(channel))
    }

    /// Removes a channel from the table, and returns it. The channel is no longer polled.
    pub(crate) fn remove(&mut self, id: ChannelId) -> Option<Channel> {
        let channel = self.channels.remove(id.0)?;
        self.listed.retain(|&other| other != id);
        self.disarmed.retain(|&other| other != id);
        self.interrupts.retain(|&other| other != id);
        Some(channel)
    }

    #[inline]
    pub(crate) fn get(&self, id: ChannelId) -> Option<&Channel> {
        count_look();
        self.channels.get(id.0)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: ChannelId) -> Option<&mut Channel> {
        count_look();
        self.channels.get_mut(id.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ChannelId, &Channel)> {
        self.channels.iter().inspect(|_| count_look()).map(|(number, channel)| (ChannelId(number), channel))
    }

    /// Has interfaces refuse no frames any more: packet monitors are to see all.
    pub(crate) fn lift_limits(&mut self) {
        let all: Vec<_> = self.channels.iter().map(|(number, _)| number).collect();
        all.into_iter()
            .for_each(|number| self.channels.get_mut(number).into_iter().for_each(Channel::lift_limit));
    }

    pub(crate) fn len(&self) -> usize {
        self.channels.len()
    }

    /// Returns the number of frames in the host's memory.
    pub(crate) fn queued(&self) -> u64 {
        self.iter().map(|(_, channel)| channel.queued() as u64).sum()
    }

    /// Returns an iterator over the rings that channels have on an interface.
    pub(crate) fn rings_on(&self, id: InterfaceId) -> impl Iterator<Item = &dyn RxQueue> {
        let all = self.iter().flat_map(|(_, channel)| channel.rings());
        all.filter(move |&(interface, _)| interface == id).map(|(_, ring)| ring)
    }

    /// Returns the number of frames in rings on interfaces.
    pub(crate) fn in_rings(&self) -> usize {
        self.iter().map(|(_, channel)| channel.len() - channel.queued()).sum()
    }

    pub(crate) fn filled_percent(&self, id: ChannelId) -> u8 {
        self.get(id).map_or(0, |channel| channel.gate.filled_percent(channel.queued()))
    }

    // --- Daemons ---

    /// Returns the channels of traffic without a socket, and their readers.
    #[inline]
    pub(crate) const fn daemons(&self) -> &Daemons {
        &self.daemons
    }

    /// Makes a channel that of traffic without a socket, as `binding` says.
    pub(crate) const fn set_daemon_channel(&mut self, binding: Binding, id: ChannelId) {
        let daemons = &mut self.daemons;
        match binding {
            Binding::Neighbor => daemons.neighbor = Some(id),
            Binding::Control => daemons.control = Some(id),
            Binding::PathMtu => daemons.path = Some(id),
            Binding::Fragment => daemons.fragment = Some(id),
            Binding::Forward => daemons.forward = Some(id),
            Binding::Udp { .. } | Binding::Tcp { .. } | Binding::Connection(_) => {}
        }
    }

    /// Makes `process` the reader of a daemon's channel. That of control traffic reads reports of path MTUs,
    /// too.
    pub(crate) fn set_reader(&mut self, channel: ChannelId, process: ProcessId) {
        let both = [Some(channel), self.daemons.read_along_with(channel)];
        self.daemons.readers.extend(both.into_iter().flatten().map(|channel| (channel, process)));
    }

    // --- The idle level ---

    /// Lists a channel for the idle level to poll, unless a daemon reads it.
    pub(crate) fn list(&mut self, id: ChannelId) {
        if self.daemons.reader(id).is_some() {
            return;
        }
        if let Some(channel) = self.get_mut(id)
            && !core::mem::replace(&mut channel.listed, true)
        {
            self.listed.push_back(id);
        }
    }

    pub(crate) fn has_listed(&self) -> bool {
        !self.listed.is_empty()
    }

    /// Takes the next channel from the list of the idle level. The caller [lists it
    /// again](Self::keep_listed) or [does not](Self::unlist).
    pub(crate) fn next_listed(&mut self) -> Option<ChannelId> {
        self.listed.pop_front()
    }

    pub(crate) fn keep_listed(&mut self, id: ChannelId) {
        self.listed.push_back(id);
    }

    pub(crate) fn unlist(&mut self, id: ChannelId) {
        if let Some(channel) = self.get_mut(id) {
            channel.listed = false;
        }
    }

    // --- Interrupts ---

    /// Records a channel whose interrupt is not enabled until the core halts.
    pub(crate) fn disarm(&mut self, id: ChannelId) {
        self.disarmed.push(id);
    }

    /// Takes the list of channels whose interrupt is to be enabled. A channel whose interrupt stays
    /// disabled is [disarmed](Self::disarm) again.
    pub(crate) fn take_disarmed(&mut self) -> Vec<ChannelId> {
        core::mem::take(&mut self.disarmed)
    }

    /// Gives the list back, its memory included.
    pub(crate) fn put_disarmed(&mut self, disarmed: Vec<ChannelId>) {
        self.disarmed = disarmed;
    }

    /// Marks the interrupt of a channel as pending: a frame arrived while the channel was not polled.
    pub(crate) fn raise(&mut self, id: ChannelId) {
        self.interrupts.push_back(id);
    }

    pub(crate) fn has_interrupt(&self) -> bool {
        !self.interrupts.is_empty()
    }

    pub(crate) fn next_interrupt(&mut self) -> Option<ChannelId> {
        self.interrupts.pop_front()
    }
}

impl Daemons {
    /// Returns the other channel that the daemon of `channel` reads, if it reads two.
    pub(crate) fn read_along_with(&self, channel: ChannelId) -> Option<ChannelId> {
        self.path.filter(|_| self.control == Some(channel))
    }

    /// Returns the channels of neighbour messages and of path MTU messages.
    pub(crate) const fn ahead(&self) -> [Option<ChannelId>; 2] {
        [self.neighbor, self.path]
    }

    /// Returns whether a channel holds neighbour or path MTU messages, which may be processed ahead of
    /// other frames.
    pub(crate) fn is_ahead(&self, channel: ChannelId) -> bool {
        self.ahead().contains(&Some(channel))
    }

    /// Returns the daemon that reads a channel, if one does.
    pub(crate) fn reader(&self, channel: ChannelId) -> Option<ProcessId> {
        self.readers.iter().find(|(c, _)| *c == channel).map(|&(_, process)| process)
    }

    /// Returns the daemon of control traffic.
    pub(crate) fn control_reader(&self) -> Option<ProcessId> {
        self.reader(self.control?)
    }

    /// Returns the daemon of forwarding, under the lazy architectures.
    pub(crate) fn forwarder(&self) -> Option<ProcessId> {
        self.reader(self.forward?)
    }
}
