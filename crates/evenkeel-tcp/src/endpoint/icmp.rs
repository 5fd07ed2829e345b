//! ICMP errors about segments that have left (RFC 9293, 3.9.2.2).
//!
//! Anybody can send an ICMP error, with any quote in it. Only one that quotes a segment under way at that
//! moment counts (RFC 5927, 4.1; RFC 8201, 4): a blind attacker would have to guess the sequence number.

use super::super::counters::Counter;
use super::super::seq::SeqNumber;
use super::super::tuple::FourTuple;
use super::state::Endpoint;
use crate::time::Instant;
use crate::wire::{IpAddress, IpEndpoint};

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
    pub fn parse(bytes: &[u8], source: IpAddress, destination: IpAddress) -> Option<Self> {
        let [a, b, c, d, e, f, g, h] = *bytes.first_chunk()?;
        let local = IpEndpoint::new(source, u16::from_be_bytes([a, b]));
        let remote = IpEndpoint::new(destination, u16::from_be_bytes([c, d]));
        let seq = SeqNumber::new(u32::from_be_bytes([e, f, g, h]));
        Some(Self { tuple: FourTuple::new(local, remote), seq })
    }
}

impl<R: Copy> Endpoint<R> {
    /// Processes "packet too big" or "fragmentation needed": the segment that began at `seq` does not fit
    /// the path, and one with `mss` bytes after the 20 of its header would (the MTU, less the IP header,
    /// less 20). See [`Connection::on_packet_too_big`](crate::Connection::on_packet_too_big).
    ///
    /// Half-open connections and those in TIME-WAIT have nothing under way that could be too big. Returns
    /// whether the error counted.
    pub fn packet_too_big(&mut self, tuple: &FourTuple, seq: SeqNumber, mss: u16, now: Instant) -> bool {
        let id = self.connections.find(tuple);
        let entry = id.and_then(|id| self.connections.get_mut(id));
        let believed = entry.is_some_and(|entry| entry.connection.on_packet_too_big(seq, mss, now));
        match id.filter(|_| believed) {
            Some(id) => self.touch(id),
            None => self.disbelieve(),
        }
        believed
    }

    /// Processes "destination unreachable", or the like, in answer to the segment that began at `seq`.
    ///
    /// `hard` says that retries are useless: protocol or port unreachable, or administratively prohibited
    /// (RFC 1122, 4.2.3.9; RFC 5461, 2). A hard error ends a connection that is being opened. Any other
    /// error is only recorded: it is the reason if the connection is given up (RFC 5461, 4.1).
    pub fn unreachable(&mut self, tuple: &FourTuple, seq: SeqNumber, hard: bool) {
        if let Some(id) = self.connections.find(tuple) {
            let entry = self.connections.get_mut(id);
            if entry.is_some_and(|entry| entry.connection.on_unreachable(seq, hard)) {
                return self.touch(id);
            }
        } else if let Some(at) = self.listener_for(&tuple.local)
            && let Some(listener) = self.listeners.get_mut(&at)
            && listener.handle_unreachable(tuple, seq, hard, &mut self.counters)
        {
            return;
        }
        self.disbelieve();
    }

    /// Records that the segment that began at `seq` did not leave: its next hop answers neither ARP nor
    /// neighbour discovery. This ends a connection that is being opened, as in Linux (EHOSTUNREACH). An
    /// established one goes on, and fails for that reason if it fails (RFC 1122, 4.2.3.9: a soft error).
    ///
    /// The host finds this out itself, without a message from the network, so it cannot be forged.
    pub fn next_hop_silent(&mut self, tuple: &FourTuple, seq: SeqNumber) {
        if let Some(id) = self.connections.find(tuple)
            && let Some(entry) = self.connections.get_mut(id)
            && entry.connection.on_next_hop_silent(seq)
        {
            self.touch(id);
        }
    }

    fn disbelieve(&mut self) {
        self.counters.count(Counter::OutOfWindowIcmps);
    }
}
