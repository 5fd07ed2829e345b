//! The interface of our side in a run: an endpoint alone, or a host that has one.

use std::net::{IpAddr, Ipv4Addr};

use evenkeel_tcp::connection::Info;
use evenkeel_tcp::time::Instant;
use evenkeel_tcp::{AddrPort, Ecn};

use super::plan::Plan;

pub(crate) const US: [u8; 4] = [10, 0, 0, 1];
pub(crate) const PEER: [u8; 4] = [10, 0, 0, 2];
pub(crate) const OUR_PORT: u16 = 80;
pub(crate) const PEER_PORT: u16 = 40_000;

/// An event for the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The connection was accepted. Others are aborted.
    Accepted,
    Ready {
        readable: bool,
        writable: bool,
    },
}

/// The reason why a call moved nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    WouldBlock,
    Failed(String),
}

/// Our side, with one connection.
pub(crate) trait Ours {
    /// Whether, for segments that arrive at one instant, the answer to one may leave before the next is
    /// processed.
    const SENDS_BETWEEN: bool = false;

    /// Listens. Returns the Fast Open cookie that the peer presents, if the plan requires one.
    fn listen(&mut self, plan: &Plan, now: Instant) -> Option<Vec<u8>>;

    /// Opens the connection. The call that opens gets `data`. Returns the number of bytes taken.
    fn connect(&mut self, plan: &Plan, data: Option<&[u8]>, now: Instant) -> Result<usize, String>;

    /// Takes a segment of the peer's.
    fn input(&mut self, segment: &[u8], ecn: Ecn, now: Instant);

    /// Takes the report of a segment that was too big.
    fn too_big(&mut self, seq: u32, mss: u16, now: Instant);

    fn advance(&mut self, now: Instant);

    fn deadline(&mut self) -> Instant;

    /// Writes the next segment that leaves to `to`, and returns its length.
    fn transmit(&mut self, to: &mut [u8], now: Instant) -> Option<(usize, Ecn)>;

    fn notice(&mut self, now: Instant) -> Option<Notice>;

    fn write(&mut self, data: &[u8], now: Instant) -> Result<usize, Refusal>;

    fn read(&mut self, to: &mut [u8], now: Instant) -> Result<usize, Refusal>;

    /// Ends our direction. Returns whether the connection was there.
    fn shutdown(&mut self, now: Instant) -> bool;

    fn close(&mut self, now: Instant);

    fn abort(&mut self, now: Instant);

    /// Returns the figures of the connection, if it is in the table.
    fn info(&self) -> Option<Info>;

    /// Returns what is left, once all is over and nothing happens any more.
    fn left(&mut self, now: Instant) -> Option<String>;
}

pub(crate) const fn end(address: [u8; 4], port: u16) -> AddrPort {
    AddrPort::new(ip(address), port)
}

pub(crate) const fn ip([a, b, c, d]: [u8; 4]) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}
