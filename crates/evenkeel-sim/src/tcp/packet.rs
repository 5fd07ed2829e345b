//! Packets that travel between endpoints.

use std::net::IpAddr;

use evenkeel_core::tcp::{Ecn, FourTuple, SeqNumber};

use crate::net::Frame;

/// A packet, with the fields of its IP header that matter.
#[derive(Debug, Clone)]
pub struct Packet {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) content: Content,
    /// The network has changed it.
    pub(super) damaged: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    /// A segment, from the TCP header on.
    Segment(Vec<u8>, Ecn),
    /// ICMP: a segment was too big; this many bytes would fit after its header.
    TooBig { tuple: FourTuple, seq: SeqNumber, mss: u16 },
}

/// Bytes of an ICMP message that quotes a header.
const ICMP_LEN: usize = 56;

impl Frame for Packet {
    /// Returns the size without Ethernet and IP headers.
    fn bytes(&self) -> usize {
        match &self.content {
            Content::Segment(bytes, _) => bytes.len(),
            Content::TooBig { .. } => ICMP_LEN,
        }
    }

    fn flip(&mut self, bit: u64) {
        self.damaged = true;
        if let Content::Segment(bytes, _) = &mut self.content {
            bytes.flip(bit);
        }
    }
}
