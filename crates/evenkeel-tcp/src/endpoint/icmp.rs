//! ICMP errors about segments that have left (RFC 9293, 3.9.2.2).
//!
//! Anybody can send an ICMP error, with any quote in it. Only one that quotes a segment under way at that
//! moment counts (RFC 5927, 4.1; RFC 8201, 4): a blind attacker would have to guess the sequence number.

use core::net::IpAddr;

use super::super::seq::SeqNumber;
use super::super::tuple::{AddrPort, FourTuple};

/// The part of a segment of ours that an ICMP error quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quote {
    /// The addresses and ports of the connection.
    pub tuple: FourTuple,
    /// SEG.SEQ: the segment's sequence number.
    pub seq: SeqNumber,
}

impl Quote {
    /// Parses the quote of a packet from `source`, an address of ours, to `destination`. `bytes` begin
    /// with the TCP header; eight are enough, which is what every ICMP error has (RFC 792).
    #[must_use]
    pub fn parse(bytes: &[u8], source: IpAddr, destination: IpAddr) -> Option<Self> {
        let [a, b, c, d, e, f, g, h] = *bytes.first_chunk()?;
        let local = AddrPort::new(source, u16::from_be_bytes([a, b]));
        let remote = AddrPort::new(destination, u16::from_be_bytes([c, d]));
        let seq = SeqNumber::new(u32::from_be_bytes([e, f, g, h]));
        Some(Self { tuple: FourTuple::new(local, remote), seq })
    }
}
