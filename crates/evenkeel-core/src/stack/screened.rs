//! A packet to be judged, with what the host knows about its addresses.

use super::address::interfaces::InterfaceAddresses;
use super::route::routing::Routing;
use super::transit::Transit;
use crate::id::InterfaceId;
use crate::wire::{IpAddress, IpCidr};

/// A packet that is shown for a verdict, and the tables that rules may ask about its addresses.
#[derive(Debug)]
pub struct Screened<'a> {
    transit: &'a mut Transit,
    routing: &'a Routing,
    is_due: bool,
    account: Option<u16>,
}

impl<'a> Screened<'a> {
    pub(super) const fn new(transit: &'a mut Transit, routing: &'a Routing, is_due: bool) -> Self {
        Self { transit, routing, is_due, account: None }
    }

    /// Returns whether the verdict is to be handed over to the interface, if it holds for the packet's flow.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        self.is_due
    }

    /// Declares that the verdict holds for all packets of the flow that arrive at the interface, as long as no
    /// route and no address changes: of every length, and whatever else their headers say. The interface
    /// counts them on `account`, and may pass or drop them by itself.
    pub const fn settle(&mut self, account: u16) {
        self.account = Some(account);
    }

    /// Returns the account of a verdict that holds for the flow.
    pub(crate) const fn account(&self) -> Option<u16> {
        self.account
    }

    /// Returns the packet that the verdict is about.
    #[must_use]
    pub const fn transit(&self) -> &Transit {
        self.transit
    }

    /// Returns the packet, from the IP header to its end, to be changed before it is forwarded. Its length
    /// stays, and a caller that changes it keeps its checksums right.
    pub fn packet_mut(&mut self) -> &mut [u8] {
        self.transit.packet_mut()
    }

    /// Returns whether a route leads to `address`: one that discards packets does not.
    #[must_use]
    pub fn is_routed(&self, address: &IpAddress) -> bool {
        self.routing.leads_anywhere(address)
    }

    /// Returns whether packets to the packet's source would leave by the interface it came in by (RFC 3704
    /// 2.2).
    #[must_use]
    pub fn leads_back(&self, source: &IpAddress) -> bool {
        self.routing.leads_back(source, self.transit.interface())
    }

    /// Returns the host's own addresses on an interface, those of IPv4 first, in the order they were given.
    pub fn addresses(&self, interface: InterfaceId) -> impl Iterator<Item = IpCidr> {
        self.routing.interfaces().of(interface).into_iter().flat_map(InterfaceAddresses::cidrs)
    }

    /// Returns how many interfaces the host has.
    #[must_use]
    pub const fn interfaces(&self) -> usize {
        self.routing.interfaces().len()
    }
}
