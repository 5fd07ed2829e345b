//! The neighbours on each link: their hardware addresses, how these are found out by ARP and NDP, and
//! conflicts about addresses.

pub(crate) mod arp;
pub(crate) mod claims;
pub(crate) mod discovery;
pub(crate) mod ndp;
pub(crate) mod table;
pub(crate) mod unresolved;
pub(crate) mod update;
