//! Address resolution: solicitations, advertisements, and the neighbours that are set or given up.

use super::error::{NeighborError, OutputError};
use super::io::Io;
use super::neighbor::{Due, Key, Neighbor, NeighborState, Solicitation, Waiting, give_up};
use super::neighbor_update::{NeighborUpdate, Said};
use super::path::{Next, Path};
use super::problem::Problem;
use super::state::Stack;
use crate::id::InterfaceId;
use crate::time::Instant;
use crate::wire::{EthernetAddress, IpAddress};

/// The first hop of a packet: the interface it leaves by, and the neighbour it is handed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResolvedHop {
    /// The interface that the packet leaves by.
    pub interface: InterfaceId,
    /// The neighbour: the destination itself, or a router. `None` for a group and for a broadcast.
    pub neighbor: Option<IpAddress>,
    /// The hardware address that the frame goes to, once it is known.
    pub hardware: Option<EthernetAddress>,
}

impl Stack {
    /// Returns the first hop towards `destination`. Asks for its hardware address if that is neither known
    /// nor asked for; after three questions in three seconds (RFC 4861 10) the neighbour is forgotten.
    ///
    /// # Errors
    /// [`OutputError`]; nothing is asked then.
    pub fn first_hop(&mut self, destination: IpAddress, io: &mut Io<'_>) -> Result<ResolvedHop, OutputError> {
        let Path { interface, next } = self.path_to(&destination, None)?;
        let neighbor = match next {
            Next::Group(hardware) => {
                return Ok(ResolvedHop { interface, neighbor: None, hardware: Some(hardware) });
            }
            Next::Neighbor(neighbor) => neighbor,
        };
        if let Some(question) = self.neighbors.ask((interface, neighbor), io) {
            self.solicit(question, io);
        }
        let hardware = self.neighbors.hardware((interface, neighbor));
        Ok(ResolvedHop { interface, neighbor: Some(neighbor), hardware })
    }

    /// Sets a neighbour's hardware address for good: the neighbour is not probed, and its advertisements
    /// change nothing. [`Config::neighbors`](super::Config::neighbors) does not count it.
    ///
    /// # Errors
    /// [`NeighborError`]; nothing is changed then.
    pub fn set_neighbor(
        &mut self,
        interface: InterfaceId,
        address: IpAddress,
        hardware: EthernetAddress,
        io: &mut Io<'_>,
    ) -> Result<(), NeighborError> {
        self.addresses_of(interface).ok_or(NeighborError::Interface)?;
        if !address.is_unicast() || !hardware.is_unicast() {
            return Err(NeighborError::NotUnicast);
        }
        let waited = self.neighbors.set((interface, address), hardware, io);
        self.unpark(waited, interface, hardware, io);
        Ok(())
    }

    /// Forgets a neighbour, however it became known. Returns whether it was known. Packets that wait for it
    /// are dropped.
    pub fn remove_neighbor(&mut self, interface: InterfaceId, address: IpAddress, io: &mut Io<'_>) -> bool {
        self.neighbors.forget((interface, address), io)
    }

    /// Forgets what has been learned of the neighbours of an interface, which has come to another place.
    /// Those that were set stay.
    pub fn forget_neighbors(&mut self, interface: InterfaceId, io: &mut Io<'_>) {
        let learned = |n: &Neighbor| n.interface == interface && n.state != NeighborState::Permanent;
        let keys: Vec<Key> =
            self.neighbors(io.now).filter(learned).map(|n| (n.interface, n.address)).collect();
        for key in keys {
            self.neighbors.forget(key, io);
        }
    }

    /// Returns every neighbour known or solicited, as it stands at `now`.
    pub fn neighbors(&self, now: Instant) -> impl Iterator<Item = Neighbor> {
        self.neighbors.iter(now)
    }

    /// Processes an update that a neighbour sent to this host: for its own cache, and for those of others.
    pub(super) fn learn_neighbor(&mut self, update: NeighborUpdate, io: &mut Io<'_>) {
        self.updates.note(update);
        self.sync_neighbor(update, io);
    }

    /// Brings the cache in sync with that of another host, which must have the same interfaces and addresses.
    pub fn sync_neighbor(&mut self, NeighborUpdate { key, said }: NeighborUpdate, io: &mut Io<'_>) {
        let known = match said {
            Said::Asked(hardware) => Some((hardware, self.neighbors.heard(key, hardware, io))),
            Said::Advertised(said) => self.neighbors.advertised(key, said, io.now),
        };
        if let Some((hardware, waited)) = known {
            self.unpark(waited, key.0, hardware, io);
        }
    }

    /// Returns the oldest update that has not been passed on, if the stack is to keep them
    /// ([`Config::neighbor_updates`](super::Config::neighbor_updates)).
    pub fn next_neighbor_update(&mut self) -> Option<NeighborUpdate> {
        self.updates.waiting.pop_front()
    }

    pub(super) fn solicit(&mut self, question: Solicitation, io: &mut Io<'_>) {
        match question.key.1 {
            IpAddress::Ipv4(target) => self.arp_request(question.key.0, target, question.hardware, io),
            IpAddress::Ipv6(target) => {
                self.neighbor_solicitation(question.key.0, target, question.hardware, io)
            }
        }
    }

    /// Asks again for neighbours that have not answered, and forgets those that will not. Senders of packets
    /// in transit get an ICMP error (RFC 1812 5.2.7.1, RFC 4861 7.2.2); our own segments are recorded for
    /// TCP.
    pub(super) fn tick_neighbors(&mut self, io: &mut Io<'_>) {
        while let Some(due) = self.neighbors.poll(io.now) {
            match due {
                Due::Ask(question) => self.solicit(question, io),
                Due::GaveUp(packets) => packets.into_iter().for_each(|packet| self.unreachable(packet, io)),
            }
        }
    }

    fn unreachable(&mut self, packet: Waiting, io: &mut Io<'_>) {
        match packet.came_by {
            Some(came_by) => self.report_packet(came_by, packet.frame.bytes(), Problem::Host, io),
            None => self.record_unresolved(packet.frame.bytes()),
        }
        give_up(packet, io);
    }
}
