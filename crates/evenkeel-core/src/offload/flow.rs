//! Flows of packets that screening does not distinguish.

use crate::wire::{IpAddress, Ipv4Address, Ipv6Address};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A flow: whole packets of TCP or UDP between two ends. In a flow within a [`FlowScope`], everything that the
/// scope leaves out is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// The address of the sender.
    pub source: IpAddress,
    /// The address of the receiver.
    pub destination: IpAddress,
    /// The number of TCP or UDP.
    pub protocol: u8,
    /// The port of the sender.
    pub source_port: u16,
    /// The port of the receiver.
    pub destination_port: u16,
}

impl Flow {
    /// Returns the flow of a packet, from its IP header on. Fragments, packets with options or extension
    /// headers, those of other protocols and those whose transport header is cut off belong to no flow.
    #[must_use]
    pub fn of(packet: &[u8]) -> Option<Self> {
        let (source, destination, protocol, payload): (IpAddress, IpAddress, _, _) = match packet.first()? {
            0x45 => {
                let (header, payload) = packet.split_first_chunk::<20>()?;
                let &[
                    _,
                    _,
                    _,
                    _,
                    _,
                    _,
                    place_high,
                    place_low,
                    _,
                    protocol,
                    _,
                    _,
                    s0,
                    s1,
                    s2,
                    s3,
                    d0,
                    d1,
                    d2,
                    d3,
                ] = header;
                if place_high & 0x3f != 0 || place_low != 0 {
                    return None;
                }
                let [source, destination] = [[s0, s1, s2, s3], [d0, d1, d2, d3]].map(Ipv4Address::from);
                (source.into(), destination.into(), protocol, payload)
            }
            first if first >> 4 == 6 => {
                let (header, payload) = packet.split_first_chunk::<40>()?;
                let address =
                    |at: usize| header.get(at..)?.first_chunk::<16>().copied().map(Ipv6Address::from);
                (address(8)?.into(), address(24)?.into(), *header.get(6)?, payload)
            }
            _ => return None,
        };
        let header_len = match protocol {
            TCP => 20,
            UDP => 8,
            _ => return None,
        };
        let &[s0, s1, d0, d1, ..] = payload.get(..header_len)? else { return None };
        let [source_port, destination_port] = [[s0, s1], [d0, d1]].map(u16::from_be_bytes);
        Some(Self { source, destination, protocol, source_port, destination_port })
    }
}

/// The first bits of addresses that matter, in each family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    /// Bits of an IPv4 address, at most 32.
    pub v4: u8,
    /// Bits of an IPv6 address, at most 128.
    pub v6: u8,
}

impl Depth {
    /// All bits of an address.
    pub const WHOLE: Self = Self { v4: 32, v6: 128 };

    /// Returns the bits of an IPv4 address that matter.
    #[must_use]
    pub fn mask_v4(self) -> Ipv4Address {
        Ipv4Address::from_bits(u32::MAX.checked_shl(32_u32.saturating_sub(self.v4.into())).unwrap_or(0))
    }

    /// Returns the bits of an IPv6 address that matter.
    #[must_use]
    pub fn mask_v6(self) -> Ipv6Address {
        Ipv6Address::from_bits(u128::MAX.checked_shl(128_u32.saturating_sub(self.v6.into())).unwrap_or(0))
    }

    fn cut(self, address: IpAddress) -> IpAddress {
        match address {
            IpAddress::Ipv4(address) => {
                Ipv4Address::from_bits(address.to_bits() & self.mask_v4().to_bits()).into()
            }
            IpAddress::Ipv6(address) => {
                Ipv6Address::from_bits(address.to_bits() & self.mask_v6().to_bits()).into()
            }
        }
    }
}

/// The fields of flows that screening distinguishes. The family and the protocol always matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowScope {
    /// The bits of the source address that matter.
    pub source: Depth,
    /// The bits of the destination address that matter.
    pub destination: Depth,
    /// Whether the source port matters.
    pub source_port: bool,
    /// Whether the destination port matters.
    pub destination_port: bool,
}

impl FlowScope {
    /// Returns the flow without everything that does not matter.
    #[must_use]
    pub fn cut(&self, flow: &Flow) -> Flow {
        Flow {
            source: self.source.cut(flow.source),
            destination: self.destination.cut(flow.destination),
            protocol: flow.protocol,
            source_port: if self.source_port { flow.source_port } else { 0 },
            destination_port: if self.destination_port { flow.destination_port } else { 0 },
        }
    }
}

/// The decision of screening about all packets of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowVerdict {
    /// Whether packets are let through. The others are dropped without a word.
    pub passes: bool,
    /// The account on which the packets are counted, below [`ACCOUNTS`].
    pub account: u16,
}

/// The number of accounts on which packets of flows are counted.
pub const ACCOUNTS: u16 = 1024;

/// Packets of flows about which an interface has decided by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowHits {
    /// The number of packets.
    pub packets: u64,
    /// Bytes in these packets, from the IP header on.
    pub bytes: u64,
}
