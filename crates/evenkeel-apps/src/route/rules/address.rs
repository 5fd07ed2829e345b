//! Addresses, prefixes and ranges of addresses.

use core::net::{IpAddr, Ipv4Addr};

use super::names::number;

/// A family of IP addresses: IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// `inet`
    V4,
    /// `inet6`
    V6,
}

/// An address prefix. The bits after its length are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// The family of the prefix.
    pub family: Family,
    /// The number of bits in the prefix: 0 to 32 for IPv4, 0 to 128 for IPv6.
    pub length: u8,
    /// The bits of the address, right-aligned for IPv4.
    pub(super) bits: u128,
}

/// A range of addresses of one family, both ends included: `10.0.0.1 - 10.0.0.9`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    pub(super) family: Family,
    /// The first address, not above `last`.
    pub(super) first: u128,
    pub(super) last: u128,
}

impl Range {
    /// Returns `None` if the addresses are of two families, or the last one is below the first.
    pub(super) fn new(first: Address, last: Address) -> Option<Self> {
        let fits = first.family == last.family && first.bits <= last.bits;
        fits.then_some(Self { family: first.family, first: first.bits, last: last.bits })
    }

    pub(super) fn contains(&self, address: Address) -> bool {
        self.family == address.family && (self.first..=self.last).contains(&address.bits)
    }

    /// Returns the fewest prefixes that cover exactly these addresses, in order: at most two for each bit.
    pub(super) fn prefixes(self) -> impl Iterator<Item = Prefix> {
        let Self { family, last, .. } = self;
        let mut next = Some(self.first);
        core::iter::from_fn(move || {
            let bits = next?;
            let prefix = |length| Prefix { family, length, bits };
            let end = |prefix: Prefix| bits | !family.mask(prefix.length);
            // This is the shortest prefix that begins here and does not exceed the end.
            let fitting = |prefix: &Prefix| bits & family.mask(prefix.length) == bits && end(*prefix) <= last;
            let prefix = (0..=family.bits()).map(prefix).find(fitting)?;
            next = end(prefix).checked_add(1).filter(|next| *next <= last);
            Some(prefix)
        })
    }
}

/// An address as a number, right-aligned for IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) family: Family,
    pub(super) bits: u128,
}

impl Family {
    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// Returns the bits of an address that belong to a prefix of this length.
    pub(super) fn mask(self, length: u8) -> u128 {
        let host_bits = u32::from(self.bits().saturating_sub(length));
        u128::MAX.checked_shl(host_bits).unwrap_or(0)
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self { family: Family::V4, bits: u32::from(v4).into() },
            IpAddr::V6(v6) => Self { family: Family::V6, bits: v6.into() },
        }
    }
}

impl Prefix {
    /// Returns the prefix of an address with this length; `None` if the length exceeds the address.
    pub(super) fn new(address: IpAddr, length: u8) -> Option<Self> {
        let Address { family, bits } = address.into();
        (length <= family.bits()).then(|| Self { family, length, bits: bits & family.mask(length) })
    }

    /// Returns the only address of the prefix, if it has just one.
    pub(super) fn address(&self) -> Option<Address> {
        let Self { family, length, bits } = *self;
        (length == family.bits()).then_some(Address { family, bits })
    }

    /// Returns the last address of the prefix.
    pub(super) fn last(&self) -> u128 {
        self.bits | !self.family.mask(self.length)
    }

    pub(super) fn contains(&self, address: Address) -> bool {
        self.family == address.family && address.bits & self.family.mask(self.length) == self.bits
    }

    /// Reads a whole address, or a prefix: `10.0.0.0/8`, `10/8`, `10.0.0.0/255.0.0.0`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let Some((address, length)) = text.split_once('/') else {
            let address: IpAddr = text.parse().ok()?;
            return Self::new(address, if address.is_ipv4() { 32 } else { 128 });
        };
        let address = address.parse().ok().or_else(|| shortened(address).map(IpAddr::V4))?;
        let length = match (number(length), address) {
            (Some(length), _) => length,
            (None, IpAddr::V4(_)) => {
                let mask = u32::from(length.parse::<Ipv4Addr>().ok()?);
                let ones = mask.leading_ones();
                (ones == mask.count_ones()).then(|| u8::try_from(ones).ok()).flatten()?
            }
            (None, IpAddr::V6(_)) => return None,
        };
        Self::new(address, length)
    }
}

/// Reads an IPv4 address without its last bytes, which are zero, as in `10/8` and `192.168/16`.
fn shortened(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let Some(part) = parts.next() else { break };
        *octet = number(part).filter(|_| !part.is_empty())?;
    }
    parts.next().is_none().then(|| octets.into())
}
