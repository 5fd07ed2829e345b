//! Channels open and close, with their rings on interfaces that demultiplex, and their buffers.

use super::state::Receive;
use crate::channel::Channel;
use crate::config::Config;
use crate::demux::{Binding, Change};
use crate::error::ChannelError;
use crate::frame::{Pool, PoolLimit};
use crate::id::{ChannelId, InterfaceId};
use crate::interface::{Demultiplexer, Opened, RxQueue};
use crate::link::{AddInterfaceError, Links};
use crate::poll::Gate;
use crate::receive::ReceivePath;
use crate::wire::EthernetAddress;

/// The rings that an interface which demultiplexes has for the channels there are.
pub(crate) type Rings = Vec<(ChannelId, Box<dyn RxQueue>)>;

/// Returns whether a binding is to all datagrams to a port, as far as no other one is to some of them.
fn is_for_datagrams(binding: &Binding) -> bool {
    matches!(binding, Binding::Udp { address, .. } if address.is_none_or(|address| address.is_unspecified()))
}

/// The channels of a host, with all that changes when one of them opens or closes.
pub(crate) struct Channels<'a> {
    pub(crate) rx: &'a mut Receive,
    pub(crate) links: &'a mut Links,
    pub(crate) pool: &'a mut Pool,
    pub(crate) config: &'a Config,
    pub(crate) plan: ReceivePath,
}

impl Channels<'_> {
    /// Opens a channel that `binding` leads to, with a ring on each interface that demultiplexes.
    pub(crate) fn open(&mut self, binding: Binding) -> Result<ChannelId, ChannelError> {
        self.rx.sharing.reserve(&binding).map_err(ChannelError::NotReserved)?;
        let mut channel = self.new_channel();
        self.reserve(&mut channel).inspect_err(|_| self.rx.sharing.release(&binding))?;
        Ok(self.install(channel, binding))
    }

    fn new_channel(&mut self) -> Channel {
        let capacity = self.config.channel_pkts;
        let gate = if self.plan.is_lazy() { self.rx.gate(capacity, self.config) } else { Gate::open() };
        Channel::new(capacity, gate)
    }

    /// Opens the rings of a channel, and reserves its buffers. It is to be [installed](Self::install) or
    /// [given up](Self::give_up) next.
    pub(crate) fn reserve(&mut self, channel: &mut Channel) -> Result<(), ChannelError> {
        self.pool.grow(channel.reserved_pkts(self.links.places())).map_err(ChannelError::NoMemory)?;
        let id = self.rx.channels.vacant();
        if !self.open_rings(id, channel) {
            self.give_up(channel);
            return Err(ChannelError::NoRing);
        }
        if channel.has_rings() {
            self.rx.channels.disarm(id);
        }
        Ok(())
    }

    /// Closes the rings of a channel that is not installed, and returns its buffers.
    pub(crate) fn give_up(&mut self, channel: &Channel) {
        self.close_rings(self.rx.channels.vacant());
        self.pool.shrink(channel.reserved_pkts(self.links.places()));
    }

    /// Installs a channel whose buffers are reserved.
    pub(crate) fn install(&mut self, channel: Channel, binding: Binding) -> ChannelId {
        let id = self.rx.channels.insert(channel);
        if is_for_datagrams(&binding) {
            self.open_allowances(id);
        }
        self.update(Change::Bind(binding, id));
        id
    }

    /// Opens the allowance of a channel on each interface that refuses frames.
    fn open_allowances(&mut self, id: ChannelId) {
        let Some(channel) = self.rx.channels.get_mut(id) else { return };
        for (interface, refuser) in self.links.refusers() {
            channel.set_allowance(interface, refuser.open(id));
        }
    }

    /// Gives an interface that refuses frames a copy of the table, and opens the allowance of every channel
    /// there. An earlier device in its place is gone.
    pub(crate) fn open_all_allowances_on(&mut self, interface: InterfaceId) {
        let all: Vec<_> = self.rx.channels.iter().map(|(id, _)| id).collect();
        for id in all {
            self.rx.channels.get_mut(id).into_iter().for_each(|it| it.set_allowance(interface, None));
        }
        let Some(refuser) = self.links.refuser(interface) else { return };
        let changes = self.rx.table.contents();
        for &change in &changes {
            if let Change::Bind(binding, id) = change
                && is_for_datagrams(&binding)
                && let Some(channel) = self.rx.channels.get_mut(id)
            {
                channel.set_allowance(interface, refuser.open(id));
            }
            refuser.update(change);
        }
    }

    /// Opens a ring for a channel on each interface that demultiplexes, or has the channel share rings there.
    /// Returns false if an interface can do neither.
    fn open_rings(&mut self, id: ChannelId, channel: &mut Channel) -> bool {
        for (interface, demultiplexer) in self.links.demultiplexers() {
            match demultiplexer.open(id, channel.ring_pkts(), self.pool) {
                Opened::Own(ring) => channel.add_ring(interface, ring),
                Opened::Shared => {}
                Opened::Refused => return false,
            }
        }
        true
    }

    fn close_rings(&mut self, id: ChannelId) {
        self.links.demultiplexers().for_each(|(_, demultiplexer)| demultiplexer.close(id));
    }

    /// Opens a ring for every channel on an interface that demultiplexes, and gives the interface a copy of
    /// the table.
    ///
    /// As for a new channel, rings are opened before the table leads there.
    pub(crate) fn open_all_on(
        &mut self,
        demultiplexer: &mut dyn Demultiplexer,
        address: EthernetAddress,
    ) -> Result<Rings, AddInterfaceError> {
        let mut rings = Rings::new();
        for (id, channel) in self.rx.channels.iter().filter(|(_, channel)| channel.ring_pkts() > 0) {
            match demultiplexer.open(id, channel.ring_pkts(), self.pool) {
                Opened::Own(ring) => rings.push((id, ring)),
                Opened::Shared => {}
                Opened::Refused => return Err(AddInterfaceError::NoRing),
            }
        }
        for id in self.rx.channels.daemons().ahead().into_iter().flatten() {
            demultiplexer.watch(id, self.rx.ahead.flag());
        }
        demultiplexer.update(Change::Hardware(address));
        self.rx.table.contents().into_iter().for_each(|change| demultiplexer.update(change));
        Ok(rings)
    }

    pub(crate) fn add_rings(&mut self, interface: InterfaceId, rings: Rings) {
        for (id, ring) in rings {
            let Some(channel) = self.rx.channels.get_mut(id) else { continue };
            channel.add_ring(interface, ring);
            if channel.segments_for.is_none() {
                self.rx.channels.disarm(id);
            } else if channel.arm() {
                self.rx.channels.raise(id);
            }
        }
    }

    /// Changes the host's demultiplexing table, and the copies that interfaces have.
    pub(crate) fn update(&mut self, change: Change) {
        self.rx.table.apply(change);
        // An interface has its own hardware address and need not know the others'.
        if !matches!(change, Change::Hardware(_) | Change::NoHardware(_)) {
            self.links.demultiplexers().for_each(|(_, demultiplexer)| demultiplexer.update(change));
            self.links.refusers().for_each(|(_, refuser)| refuser.update(change));
        }
    }

    /// Opens a channel of traffic without sockets, before there is any interface.
    pub(crate) fn open_for_daemon(&mut self, binding: Binding) -> Result<(), PoolLimit> {
        let channel = self.new_channel();
        self.pool.grow(channel.reserved_pkts(self.links.places()))?;
        let id = self.install(channel, binding);
        self.rx.channels.set_daemon_channel(binding, id);
        Ok(())
    }

    /// Closes a channel that was drained, with its rings, and gives back its buffers.
    pub(crate) fn close(&mut self, id: ChannelId) {
        let Some(channel) = self.rx.channels.remove(id) else { return };
        if channel.ring_pkts() > 0 {
            self.close_rings(id);
        }
        self.links.refusers().for_each(|(_, refuser)| refuser.close(id));
        channel.rings().for_each(|(interface, ring)| self.links.count_closed_ring(interface, ring));
        self.pool.shrink(channel.reserved_pkts(self.links.places()));
    }
}
