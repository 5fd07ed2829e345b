//! The state that only the handshake needs, with Fast Open (RFC 7413).

use alloc::boxed::Box;

use super::super::options::Cookie;
use super::super::segment::Header;
use super::super::seq::SeqNumber;
use super::config::FastOpened;
use super::path_mtu::PathMtu;
use crate::time::Instant;

/// The state of the handshake.
#[derive(Debug)]
pub(super) struct Handshake {
    /// The sequence number of our SYN.
    pub(super) iss: SeqNumber,
    /// The sequence number of the peer's SYN.
    pub(super) irs: SeqNumber,
    pub(super) fast_open: Option<Box<FastOpen>>,
}

impl Handshake {
    pub(super) fn new(iss: SeqNumber) -> Self {
        Self { iss, irs: SeqNumber::default(), fast_open: None }
    }
}

/// An open with data (RFC 7413, 4.1 and 4.2).
#[derive(Debug, Clone, Copy)]
pub(super) struct FastOpen {
    /// The cookie, or the request for one, in the first SYN; in SYN-RECEIVED the cookie to give.
    pub(super) cookie: Option<Cookie>,
    /// The limit on the data in the SYN: a segment of this many bytes after the 20 of its header.
    pub(super) mss: u16,
    /// The bytes of data in the SYN, and the time at which it left.
    pub(super) data: u32,
    pub(super) sent_at: Instant,
    /// Whether the SYN had to be sent again, without cookie and data.
    pub(super) again: bool,
    /// The outcome, once the SYN-ACK has come.
    pub(super) opened: Option<FastOpened>,
}

impl FastOpen {
    pub(super) fn new(cookie: Option<Cookie>, now: Instant) -> Box<Self> {
        Box::new(Self { cookie, mss: u16::MAX, data: 0, sent_at: now, again: false, opened: None })
    }

    /// Returns the bytes of data that leave with a SYN that has a cookie (4.1.2): at most `queued`, and as
    /// many as a segment of `mss` bytes has room for after `options` bytes of options.
    pub(super) fn on_syn(&mut self, mss: u16, options: usize, queued: usize, now: Instant) -> u32 {
        let room = usize::from(mss.min(self.mss)).saturating_sub(options);
        if self.cookie.is_some_and(|cookie| !cookie.is_request()) {
            self.data = room.min(queued) as u32;
            self.sent_at = now;
        }
        self.data
    }

    /// Records the outcome from the SYN-ACK; `nxt` is SND.NXT, the number after our SYN.
    pub(super) fn on_syn_ack(&mut self, syn_ack: &Header, nxt: SeqNumber, path: &PathMtu) {
        self.opened = Some(FastOpened {
            cookie: syn_ack.options.fast_open.filter(|cookie| !cookie.is_request()),
            mss: path.peer_mss(syn_ack.options.mss),
            sent: self.data,
            taken: syn_ack.ack.since(nxt).min(self.data),
            again: self.again,
        });
    }
}
