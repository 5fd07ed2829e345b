//! A host as one of a group that shares interfaces and addresses.

use super::run::Host;
use crate::net::Others;
use crate::stack::NeighborUpdate;
use crate::stray::Stray;
use crate::time::Instant;

/// A host as a member of a group: the hosts share interfaces and addresses, and each has queues of its own of
/// the interfaces. Its driver passes messages between them.
#[derive(Debug)]
pub struct Membership<'a> {
    pub(super) host: &'a mut Host,
}

impl Membership<'_> {
    /// Makes this host one of `hosts`, the one with this index. Packets without a socket here are strays from
    /// now on, which [`Membership::next_stray`] returns for the host with the next index. Hosts of a group
    /// choose different local ports.
    pub fn join(self, index: usize, hosts: usize) {
        Others::of(&mut self.host.net).join(index, hosts);
    }

    /// Removes and returns the oldest packet that is to be offered to the next host of the group.
    pub fn next_stray(&mut self) -> Option<Stray> {
        self.host.net.strays.next()
    }

    /// Processes a packet from the previous host of the group, which has no socket for it. It counts as
    /// received.
    pub fn take_stray(&mut self, stray: Stray, now: Instant) {
        Others::of(&mut self.host.net).take(stray, now);
        self.host.after_calls(now);
    }

    /// Removes and returns the oldest neighbour update that has not been passed on to all other hosts of the
    /// group. Updates are kept only if [`crate::stack::Config::neighbor_updates`] is set.
    pub fn next_neighbor_update(&mut self) -> Option<NeighborUpdate> {
        self.host.net.stack.next_neighbor_update()
    }

    /// Applies a neighbour update from another host. That host must have the same interfaces, in the same
    /// order, and the same addresses.
    pub fn sync_neighbor(&mut self, update: NeighborUpdate, now: Instant) {
        self.host.net.with_stack(now, |stack, io| stack.sync_neighbor(update, io));
        self.host.net.output(now).transmit();
    }
}
