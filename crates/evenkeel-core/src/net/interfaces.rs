//! Interfaces are added; addresses come and go.

use super::state::Net;
use crate::demux::Change;
use crate::frame::Pool;
use crate::id::InterfaceId;
use crate::interface::{Demultiplexer, Interface, Properties};
use crate::link::{AddInterfaceError, Links};
use crate::poll::Gate;
use crate::receive::ReceivePath;
use crate::rx::Rings;
use crate::segmentation::Segmentation;
use crate::stack::{Stack, buffer_bytes_for};
use crate::time::Instant;
use crate::wire::{IpAddress, IpCidr};

/// The number of large buffers of a host with an interface that takes large segments: 4 MiB.
const LARGE_PKTS: usize = 64;

/// Makes the buffers of a host large enough for the frames of an interface with this MTU.
fn fit(pool: &mut Pool, stack: &mut Stack, mtu: usize) {
    pool.fit(buffer_bytes_for(mtu));
    stack.fit(pool.buffer_bytes());
}

/// Shows the interfaces the unicast addresses of the host.
fn show_addresses(stack: &Stack, links: &mut Links) {
    for interface in links.interfaces_mut() {
        let own = stack.local_addresses().filter(|address| stack.is_own(address));
        interface.set_addresses(&mut { own });
    }
}

/// Reserves large buffers if there are none. Returns whether there are some: the memory limit may not allow
/// them.
fn reserve_large(pool: &mut Pool) -> bool {
    pool.has_large() || pool.grow_large(LARGE_PKTS).is_ok()
}

/// Sets the large segments that leave by an interface whole.
fn set_segmentation(stack: &mut Stack, links: &mut Links, id: InterfaceId, large: Option<Segmentation>) {
    stack.set_segmentation(id, large);
    links.set_segmentation(id, large);
}

impl Net {
    /// Takes an interface whose frames are received as `plan` says, or else as suits the host and the
    /// interface. On error nothing is changed.
    pub(crate) fn add_interface(
        &mut self,
        mut interface: Box<dyn Interface>,
        addresses: &[IpCidr],
        plan: Option<ReceivePath>,
        now: Instant,
    ) -> Result<InterfaceId, AddInterfaceError> {
        let mut demultiplexer = interface.demultiplexer();
        let offload = interface.offload();
        let plan = plan.unwrap_or_else(|| self.config.plan_for(demultiplexer.is_some()));
        self.links.check_plan(plan, self.plan, interface.properties().queues, demultiplexer.is_some())?;
        demultiplexer = demultiplexer.filter(|_| plan.is_on_interface());
        fit(&mut self.pool, &mut self.stack, interface.properties().mtu);
        let reserved_pkts = self.pool.capacity();
        let rings = match self.reserve_rings(&mut *interface, demultiplexer.as_deref_mut(), plan) {
            Ok(rings) => rings,
            Err(error) => {
                self.pool.shrink(self.pool.capacity() - reserved_pkts);
                return Err(error);
            }
        };
        let &Properties { address, mtu, segmentation, .. } = interface.properties();
        let limit = self.config.transmit_queue_pkts();
        let gate = if self.config.paper_policies.output_feedback {
            self.rx.gate(limit, &self.config)
        } else {
            Gate::open()
        };
        let id = self.links.add(interface, demultiplexer, plan, gate, &self.config, &mut self.poller);
        let id = id.ok_or(AddInterfaceError::TooManyQueues)?;
        self.stack.add_interface(address, mtu);
        let large = segmentation.filter(|_| reserve_large(&mut self.pool));
        set_segmentation(&mut self.stack, &mut self.links, id, large);
        self.offloads.set(id, offload);
        self.links.find_refuser(id);
        self.channels().update(Change::Hardware(address));
        self.channels().add_rings(id, rings);
        self.channels().open_all_allowances_on(id);
        if self.links.has_demultiplexer() {
            self.rx.ahead.expect();
        }
        self.tcp_channels().adapt_endpoint();
        for &address in addresses {
            self.with_stack(now, |stack, io| stack.add_address(id, address, io));
        }
        self.follow_addresses();
        show_addresses(&self.stack, &mut self.links);
        Ok(id)
    }

    /// Puts another device in the place of an interface's: its addresses, routes, queues and limits stay. Its
    /// hardware address and MTU are the new one's. What the earlier one held goes back to the pool.
    pub(crate) fn replace_interface(
        &mut self,
        id: InterfaceId,
        mut interface: Box<dyn Interface>,
        now: Instant,
    ) -> Result<(), AddInterfaceError> {
        if !self.links.can_replace(id, &*interface) {
            return Err(AddInterfaceError::CannotReplace);
        }
        fit(&mut self.pool, &mut self.stack, interface.properties().mtu);
        interface.attach(&mut self.pool).map_err(AddInterfaceError::NoMemory)?;
        let &Properties { address: hardware, mtu, segmentation, .. } = interface.properties();
        let offload = interface.offload();
        let Some(earlier) = self.links.replace(id, interface) else { return Ok(()) };
        let &Properties { address, buffers, .. } = earlier.properties();
        self.pool.shrink(buffers);
        if !self.links.iter().any(|other| other.properties().address == address) {
            self.channels().update(Change::NoHardware(address));
        }
        self.channels().update(Change::Hardware(hardware));
        self.offloads.set(id, offload);
        self.links.find_refuser(id);
        self.channels().open_all_allowances_on(id);
        self.stack.set_mtu(id, mtu);
        let large = segmentation.filter(|_| reserve_large(&mut self.pool));
        set_segmentation(&mut self.stack, &mut self.links, id, large);
        self.with_stack(now, |stack, io| {
            stack.forget_neighbors(id, io);
            stack.set_hardware(id, hardware, io);
            stack.announce_again(id, io);
        });
        self.follow_addresses();
        show_addresses(&self.stack, &mut self.links);
        Ok(())
    }

    /// Reserves the buffers that another interface needs: its own, those of its transmit queue, and for each
    /// channel those of one more ring, or of the queue in the host's memory if this is the first interface
    /// that leaves demultiplexing to the host. Opens its rings.
    fn reserve_rings(
        &mut self,
        interface: &mut dyn Interface,
        demultiplexer: Option<&mut (dyn Demultiplexer + 'static)>,
        plan: ReceivePath,
    ) -> Result<Rings, AddInterfaceError> {
        let &Properties { queues, address, .. } = interface.properties();
        let (before, after) = (self.links.places(), self.links.places_with(plan, queues));
        let channels = self.rx.channels.iter();
        let more =
            channels.map(|(_, channel)| channel.reserved_pkts(after) - channel.reserved_pkts(before)).sum();
        self.pool.grow(self.config.transmit_queue_pkts()).map_err(AddInterfaceError::NoMemory)?;
        self.pool.grow(more).map_err(AddInterfaceError::NoMemory)?;
        interface.attach(&mut self.pool).map_err(AddInterfaceError::NoMemory)?;
        let rings = match demultiplexer {
            Some(demultiplexer) => self.channels().open_all_on(demultiplexer, address)?,
            None => Rings::new(),
        };
        if plan.is_lazy() && queues > 0 && self.tcp.is_used() {
            self.tcp_channels().reserve_channels_of_connections().map_err(AddInterfaceError::NoMemory)?;
        }
        Ok(rings)
    }

    pub(crate) fn add_address(&mut self, interface: InterfaceId, address: IpCidr, now: Instant) {
        self.with_stack(now, |stack, io| stack.add_address(interface, address, io));
        self.follow_addresses();
    }

    pub(crate) fn remove_address(&mut self, interface: InterfaceId, address: IpCidr) -> bool {
        let removed = self.stack.remove_address(interface, address);
        self.follow_addresses();
        removed
    }

    /// Tells the demultiplexing tables which addresses the stack now answers to, and the interfaces if these
    /// are others than before.
    pub(crate) fn follow_addresses(&mut self) {
        let current: Vec<IpAddress> = self.stack.local_addresses().collect();
        let known: Vec<IpAddress> = self.rx.table.addresses().collect();
        let is_change = |address: &IpAddress| !known.contains(address) || !current.contains(address);
        let has_changed = current.iter().chain(&known).any(is_change);
        for &gone in known.iter().filter(|address| !current.contains(address)) {
            self.channels().update(Change::RemoveAddress(gone));
        }
        // Each change makes verdicts of frames that wait worthless.
        for &new in current.iter().filter(|address| !known.contains(address)) {
            let is_broadcast = self.stack.is_broadcast(&new);
            self.channels().update(if is_broadcast {
                Change::AddBroadcast(new)
            } else {
                Change::AddAddress(new)
            });
        }
        if has_changed {
            show_addresses(&self.stack, &mut self.links);
        }
    }
}
