//! The channels of sockets, as their receivers see them.

use super::state::Sockets;
use crate::channel::{Channel, ChannelTable};
use crate::id::{ChannelId, SocketId};
use crate::ready::Kinds;
use crate::socket::{Descriptor, Socket};

impl Sockets {
    /// Returns the channel that a descriptor is read from: a socket's first, or that of packets in transit
    /// for the screening queue.
    pub(crate) fn channel_before(descriptor: &Descriptor, channels: &ChannelTable) -> Option<ChannelId> {
        match descriptor {
            Descriptor::Udp(socket) => socket.channels.first().map(|(channel, _)| *channel),
            Descriptor::Screen(_) => channels.daemons().forward,
            _ => None,
        }
    }

    /// Returns the fill level, in percent, of the queue that a process reads or of the channel before it,
    /// whichever is fuller. A queue that gives no feedback counts as empty.
    pub(crate) fn filled_percent(&self, id: SocketId, channels: &ChannelTable) -> u8 {
        let Some(descriptor) = self.descriptors.get(id) else { return 0 };
        let channel = Self::channel_before(descriptor, channels);
        descriptor.filled_percent().max(channel.map_or(0, |id| channels.filled_percent(id)))
    }

    /// Returns whether the queues of all sockets that receive from a channel have room.
    pub(crate) fn have_room(&self, id: ChannelId, channels: &ChannelTable) -> bool {
        let room = |&member: &SocketId| self.descriptors.udp(member).is_none_or(Socket::has_room);
        channels.get(id).is_some_and(|channel| channel.members.iter().all(room))
    }

    /// Wakes those who wait for a channel: a daemon, or the processes that have its sockets.
    pub(crate) fn wake_receivers(&mut self, id: ChannelId, channels: &ChannelTable) {
        if self.screens(id, channels) {
            // Whoever screens looks into the channel before it sleeps.
            let screen = self.descriptors.screen_id().into_iter();
            return screen.for_each(|screen| self.ready.raise(screen, Kinds::READABLE));
        }
        if let Some(daemon) = channels.daemons().reader(id) {
            return self.ready.wakeups.wake_process(daemon);
        }
        for &member in channels.get(id).map_or(&[][..], |channel| &channel.members) {
            self.ready.raise(member, Kinds::READABLE);
        }
    }

    /// Arms the channels of a daemon that goes to sleep. Returns whether frames wait.
    pub(crate) fn arm_daemon(&self, id: ChannelId, channels: &mut ChannelTable) -> bool {
        if self.screens(id, channels) {
            return false;
        }
        let other = channels.daemons().read_along_with(id);
        let waits = [Some(id), other].into_iter().flatten();
        waits.fold(false, |any, id| any | channels.get_mut(id).is_none_or(Channel::arm))
    }

    /// Returns whether a process screens the packets of a channel, that of forwarding, and thereby does their
    /// IP input. The forwarding daemon rests meanwhile.
    pub(crate) fn screens(&self, channel: ChannelId, channels: &ChannelTable) -> bool {
        self.descriptors.screen_id().is_some() && channels.daemons().forward == Some(channel)
    }

    /// Returns whether the screening queue, if there is one, has no room.
    pub(crate) fn screen_is_full(&self) -> bool {
        self.descriptors.screen().is_some_and(|screen| !screen.queue.has_room())
    }

    /// Returns the number of packets that wait for a verdict.
    pub(crate) fn waiting_for_verdict(&self, channels: &ChannelTable) -> u64 {
        let Some(screen) = self.descriptors.screen() else { return 0 };
        let channel = channels.daemons().forward.and_then(|id| channels.get(id));
        (channel.map_or(0, Channel::len) + screen.queue.len() + screen.judging.len()) as u64
    }
}
