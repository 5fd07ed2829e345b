//! Probes, announcements and defence of our addresses, when they are due: see `conflict.rs`.

use super::conflict::{AddressConflict, Pending, Step};
use super::io::Io;
use super::state::Stack;
use crate::id::InterfaceId;
use crate::wire::{EthernetAddress, IpAddress};

impl Stack {
    /// Processes the evidence that another host uses `address`, which belongs to this host on this
    /// interface.
    pub(super) fn conflicts(
        &mut self,
        interface: InterfaceId,
        address: IpAddress,
        hardware: EthernetAddress,
        io: &mut Io<'_>,
    ) {
        let ours = self.addresses_of(interface).is_none_or(|own| own.hardware == hardware);
        if ours || self.config.forward_only {
            return;
        }
        let defend = self.claims.claimed(AddressConflict { interface, address, hardware }, io.now);
        if self.config.announce && defend == Some(true) {
            self.announce(interface, address, io);
        }
    }

    /// Returns the oldest conflict that has not been reported. Conflicts about one address are reported at
    /// most once in ten seconds.
    pub fn next_conflict(&mut self) -> Option<AddressConflict> {
        self.claims.waiting.pop_front()
    }

    /// Probes for new addresses and announces them, as far as that is due.
    pub(super) fn tick_claims(&mut self, io: &mut Io<'_>) {
        while let Some(Pending { interface, address, step, .. }) = self.claims.take_due(io.now) {
            match (step, address) {
                (Step::Probe, IpAddress::Ipv4(address)) => self.arp_probe(interface, address, io),
                (Step::Probe, IpAddress::Ipv6(address)) => self.duplicate_probe(interface, address, io),
                (Step::Announce | Step::AnnounceAgain, _) => self.announce(interface, address, io),
            }
        }
    }

    fn announce(&mut self, interface: InterfaceId, address: IpAddress, io: &mut Io<'_>) {
        match address {
            IpAddress::Ipv4(address) => self.arp_announcement(interface, address, io),
            IpAddress::Ipv6(address) => self.neighbor_advertisement(interface, address, None, io),
        }
    }
}
