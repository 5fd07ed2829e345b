//! Where a packet goes next.

use crate::id::InterfaceId;
use crate::wire::IpAddress;

/// Where a packet goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) interface: InterfaceId,
    pub(crate) neighbor: IpAddress,
    pub(crate) on_link: bool,
}
