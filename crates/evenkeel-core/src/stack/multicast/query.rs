//! Queries for members of groups, by IGMP and MLD.

use core::time::Duration;

use crate::wire::{IpAddress, Ipv4Address, Ipv6Address};

/// The type of a query of IGMP.
pub(crate) const IGMP_QUERY: u8 = 0x11;
/// Longest delay of an answer to IGMPv1 queriers, which name none (RFC 2236 4).
const IGMP_V1_DELAY: Duration = Duration::from_secs(10);

/// A query, of either protocol and any version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query {
    /// Whether it is of IGMP.
    pub(crate) is_v4: bool,
    /// The group that is asked for; `None` asks for all groups.
    pub(crate) group: Option<IpAddress>,
    pub(crate) max_delay: Duration,
    /// Whether the querier is of an old version.
    pub(crate) old: bool,
}

impl Query {
    /// Parses a query of IGMP. Returns `None` if it is invalid.
    pub(crate) fn parse_igmp(bytes: &[u8]) -> Option<Self> {
        let &[_, code, _, _, a, b, c, d, ref rest @ ..] = bytes else { return None };
        let group = Ipv4Address::new(a, b, c, d);
        if !group.is_unspecified() && !group.is_multicast() {
            return None;
        }
        let old = rest.is_empty();
        if !old && rest.len() < 4 {
            return None;
        }
        let tenths = if old { code.into() } else { floating(code.into(), 4) };
        let max_delay = if old && code == 0 { IGMP_V1_DELAY } else { Duration::from_millis(100) * tenths };
        let group = (!group.is_unspecified()).then_some(group.into());
        Some(Self { is_v4: true, group, max_delay, old })
    }

    /// Parses a query of MLD. Returns `None` if it is invalid.
    pub(crate) fn parse_mld(bytes: &[u8]) -> Option<Self> {
        let code = u16::from_be_bytes([*bytes.get(4)?, *bytes.get(5)?]);
        let group: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
        let group = Ipv6Address::from(group);
        if !group.is_unspecified() && !group.is_multicast() {
            return None;
        }
        let old = bytes.len() == 24;
        if !old && bytes.len() < 28 {
            return None;
        }
        let millis = if old { code.into() } else { floating(code.into(), 12) };
        let max_delay = Duration::from_millis(millis.into());
        let group = (!group.is_unspecified()).then_some(group.into());
        Some(Self { is_v4: false, group, max_delay, old })
    }
}

/// Returns a "floating-point" time of RFC 3376 4.1.1 and RFC 3810 5.1.3: a bit that marks it, an exponent of
/// three bits, the mantissa.
const fn floating(code: u32, mantissa_bits: u32) -> u32 {
    let flag = 1 << (mantissa_bits + 3);
    if code < flag {
        return code;
    }
    let mantissa = code & ((1 << mantissa_bits) - 1) | 1 << mantissa_bits;
    mantissa << (((code >> mantissa_bits) & 7) + 3)
}
