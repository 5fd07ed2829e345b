//! A socket in LISTEN, with its half-open connections and those that wait to be accepted.

mod accept_queue;
mod listen;
mod opening;
mod syn_received;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use self::accept_queue::AcceptQueue;
use super::cookie::SynCookies;
use super::counters::{Counter, Counters};
use super::fast_open::FastOpenServer;
use super::isn::InitialSequence;
use super::known::KnownEnds;
use super::options::{Cookie, Options, Timestamps};
use super::queue::{Place, Queue, Waits};
use super::secret::Secret;
use super::segment::{Flags, Header, Segment};
use super::seq::SeqNumber;
use super::table::{Id, Table, TupleHash};
use super::tuple::FourTuple;
use crate::time::{Duration, Instant};

/// The least interval between unrequested acknowledgments to a half-open connection (RFC 5961, 7), and
/// between SYN-ACKs for repeated SYNs.
const ANSWER_INTERVAL: Duration = Duration::from_millis(500);

/// The greatest window scale; a greater one is used as this one (RFC 7323, 2.3).
const WINDOW_SCALE_MAX: u8 = 14;
/// The most SYN-ACK retries: the wait doubles with each, and would then be minutes.
const RETRIES_MAX: u8 = 8;
/// The most SYN-ACK retries under pressure (Linux, `reqsk_timer_handler`), which gives a peer 7 s.
const RETRIES_UNDER_PRESSURE: usize = 2;
/// A SYN-ACK gives a Fast Open cookie up to this number of transmissions.
const COOKIE_SENT_MAX: u8 = 2;

/// The bounds and options of a listener. See [`Listener`].
///
/// ```
/// use evenkeel_tcp::ListenerConfig;
/// use evenkeel_tcp::time::Duration;
///
/// // A busy server: a longer queue, peers that do not answer are given up sooner, and Fast Open for at most
/// // 1000 connections at a time.
/// let config = ListenerConfig {
///     backlog: 16_384,
///     syn_ack_retries: 3,
///     syn_ack_timeout: Duration::from_millis(500),
///     fast_open: 1_000,
///     ..ListenerConfig::default()
/// };
/// # let _ = config;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerConfig {
    /// The most connections that wait to be accepted. A further one is not established until there is room.
    /// Default 4096, Linux's `SOMAXCONN`.
    pub backlog: usize,
    /// The most half-open connections, of about 100 bytes each; beyond that, SYN cookies are used. Default
    /// 4096.
    pub syn_queue: usize,
    /// Whether SYNs that find the SYN queue full are answered with SYN cookies (RFC 4987, 3.6). Default true.
    pub syn_cookies: bool,
    /// The number of times that a SYN-ACK is sent again, at most eight. Default 5, which with a first
    /// timeout of one second gives a peer 63 s. While more than half of the SYN queue is connections that
    /// have not answered the first SYN-ACK, the number is lower, but at least two, which gives 7 s.
    pub syn_ack_retries: u8,
    /// The time to wait for the answer to the first SYN-ACK. Default 1 s (RFC 6298, 2.1).
    pub syn_ack_timeout: Duration,
    /// The most bytes that we accept in a segment after the 20 of its header, whatever the path allows.
    /// Default no bound.
    pub mss_max: u16,
    /// The window to open with, in bytes; not scaled, as in every SYN (RFC 7323, 2.2). Default 65 535.
    pub window: u16,
    /// The window scale of our later windows, 0 to 14, if the peer supports it. Default 7, which allows 8
    /// MB.
    pub window_scale: Option<u8>,
    /// Whether to use SACK if the peer supports it. Default true.
    pub sack_permitted: bool,
    /// Whether to use timestamps if the peer supports them. Default true.
    pub timestamps: bool,
    /// Whether to use ECN if the peer supports it. Default true.
    pub ecn: bool,
    /// The most connections that may have sent data in their SYN while their handshake is not over (RFC 7413,
    /// 5.1). At 0, the default, data in SYNs is not accepted, because a server must tolerate receiving it
    /// twice (6.1).
    pub fast_open: usize,
}

impl Default for ListenerConfig {
    fn default() -> Self {
        Self {
            backlog: 4_096,
            syn_queue: 4_096,
            syn_cookies: true,
            syn_ack_retries: 5,
            syn_ack_timeout: Duration::from_secs(1),
            mss_max: u16::MAX,
            window: 65_535,
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: true,
            ecn: true,
            fast_open: 0,
        }
    }
}

/// The parameters of a connection that both ends agreed on in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake {
    /// The addresses and ports of both ends.
    pub tuple: FourTuple,
    /// Our initial sequence number.
    pub iss: SeqNumber,
    /// The peer's initial sequence number.
    pub irs: SeqNumber,
    /// The most bytes that the peer accepts in a segment.
    pub peer_mss: u16,
    /// The most bytes in a segment that we have announced.
    pub mss: u16,
    /// The window in the header of the peer's SYN, which is not scaled; with a cookie, the one in its ACK.
    pub window: u16,
    /// The window scale of the peer. If `Some`, our windows are scaled, too, as configured.
    pub peer_window_scale: Option<u8>,
    /// Whether SACK is in use.
    pub sack_permitted: bool,
    /// TS.Recent; `None` if timestamps are not in use.
    pub ts_recent: Option<u32>,
    /// Whether ECN is in use (RFC 3168, 6.1.1).
    pub ecn: bool,
    /// The time at which our SYN-ACK was sent, if it was sent once. Its answer then measures the round trip
    /// (RFC 6298, 3).
    pub sent_at: Option<Instant>,
    /// The number of times that the SYN-ACK was sent again. If it is more than one, the connection begins
    /// with one segment (RFC 5681, 3.1; RFC 6928, 2).
    pub sent_again: u8,
}

/// A segment, with the context that its listener needs.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// The addresses and ports of both ends.
    pub tuple: FourTuple,
    /// The segment.
    pub segment: Segment<'a>,
    /// The most bytes that we accept in a segment on that path.
    pub mss: u16,
    /// The number in [`Answer::Reopen`](super::time_wait::Answer::Reopen), if TIME-WAIT had the connection
    /// and gave that answer.
    pub previous: Option<SeqNumber>,
    /// The time at which the segment arrived.
    pub now: Instant,
}

/// The listener's reaction to a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// No reaction.
    Nothing,
    /// No reaction, because there is no room for another connection. The peer will try again.
    Drop,
    /// Send this header.
    Send(Header),
    /// A half-open connection has begun: send this SYN-ACK. The listener's
    /// [deadline](Listener::next_deadline) may be earlier than before.
    Open(Header),
    /// Send this header, which was sent before.
    SendAgain(Header),
    /// The handshake is over: create the connection, [`queue`](Listener::queue) it, and pass the segment to
    /// it, which may carry data.
    Establish(Handshake),
    /// Data came with a good cookie (RFC 7413, 4.2.2). Create a connection in SYN-RECEIVED, `queue` it, pass
    /// the SYN to it as early data, and call [`FastOpenServer::finish`] when its handshake is over. The
    /// connection sends the SYN-ACK, with the cookie if there is one.
    FastOpen(Handshake, Option<Cookie>),
}

/// A socket in LISTEN.
///
/// Half-open connections are small, and limited by the configuration. Further SYNs get a SYN cookie, which
/// needs no memory. Once the SYN queue has had its full size, a SYN allocates nothing.
///
/// Established connections wait in the accept queue. When it is full, or half-open connections are too many
/// and there are no cookies, the listener [no longer accepts](Self::accepts). The caller should then stop
/// taking segments from its channel, so that further SYNs are dropped there at no cost (Druschel and Banga,
/// OSDI 1996, 3.4). If the caller continues, the listener drops SYNs and the last ACKs of handshakes, whose
/// senders will try again.
///
/// Pass segments for the listener's port that belong to no connection and to none in TIME-WAIT to
/// `handle_segment`. Call `poll_transmit` at each [`next_deadline`](Self::next_deadline).
pub struct Listener {
    config: ListenerConfig,
    numbers: InitialSequence,
    cookies: SynCookies,
    /// The time until which an ACK may carry a cookie; later, every cookie has expired.
    cookies_until: Instant,
    fast_open: Option<FastOpenServer>,
    half_open: Table<HalfOpen>,
    /// Half-open connections by their number of SYN-ACKs: within each queue, all wait equally long.
    by_retries: Box<[Queue]>,
    accept_queue: AcceptQueue,
}

/// A connection in SYN-RECEIVED, with only the state that is needed so far.
#[derive(Clone, Copy)]
struct HalfOpen {
    place: Place,
    iss: SeqNumber,
    irs: SeqNumber,
    ts_recent: u32,
    /// The time of the last unrequested acknowledgment, in milliseconds.
    acked_at: u32,
    peer_mss: u16,
    mss: u16,
    window: u16,
    retries: u8,
    peer_window_scale: Option<u8>,
    sack_permitted: bool,
    timestamps: bool,
    ecn: bool,
    /// Whether the peer has requested a Fast Open cookie.
    wants_cookie: bool,
    /// Whether the SYN-ACK was repeated because the SYN was: it then does not measure the round trip.
    sent_twice: bool,
}

impl Waits for HalfOpen {
    fn place(&self) -> &Place {
        &self.place
    }
    fn place_mut(&mut self) -> &mut Place {
        &mut self.place
    }
}

impl Listener {
    /// Creates a listener. Numbers and cookies come from `secret`; `numbers` is the source of the host's
    /// other sequence numbers.
    #[must_use]
    pub fn new(config: ListenerConfig, secret: Secret, numbers: InitialSequence) -> Self {
        let window_scale = config.window_scale.map(|shift| shift.min(WINDOW_SCALE_MAX));
        let config = ListenerConfig { window_scale, ..config };
        let retries = u32::from(config.syn_ack_retries.min(RETRIES_MAX));
        Self {
            config,
            numbers,
            cookies: SynCookies::new(secret),
            cookies_until: Instant::ZERO,
            fast_open: None,
            half_open: Table::new(secret, config.syn_queue),
            by_retries: (0..=retries)
                .map(|sent| Queue::new(config.syn_ack_timeout.saturating_mul(1 << sent)))
                .collect(),
            accept_queue: AcceptQueue::default(),
        }
    }

    /// Returns the configuration: the bounds of the listener, and what it offers.
    #[must_use]
    pub const fn config(&self) -> &ListenerConfig {
        &self.config
    }

    /// Makes `record` follow which connections are half-open.
    pub(crate) fn follow(&mut self, record: &Arc<dyn KnownEnds>) {
        self.half_open.follow(record);
    }

    /// Accepts data in SYNs (RFC 7413).
    pub fn enable_fast_open(&mut self, server: FastOpenServer) {
        self.fast_open = Some(server);
    }

    /// Returns the server's side of Fast Open, if it is enabled.
    pub const fn fast_open(&mut self) -> Option<&mut FastOpenServer> {
        self.fast_open.as_mut()
    }

    /// Returns whether a SYN can open a connection: the accept queue has room, and so has the SYN queue
    /// unless cookies replace it. If not, the caller is to stop protocol processing of the channel of these
    /// SYNs until there is room.
    #[must_use]
    pub fn accepts(&self) -> bool {
        self.has_room() && (self.config.syn_cookies || !self.half_open.is_full())
    }

    /// Returns whether the accept queue has room.
    fn has_room(&self) -> bool {
        self.accept_queue_len() < self.config.backlog
    }

    /// Adds a connection to the accept queue, after [`Reaction::Establish`] or [`Reaction::FastOpen`].
    /// Returns whether none waited before.
    pub fn queue(&mut self, connection: Id) -> bool {
        self.accept_queue.push(connection)
    }

    /// Records that a connection that waited to be accepted is gone, reset by its peer, and frees its place.
    /// `is_there` returns whether a connection still exists. All are checked only when half of them are gone,
    /// so the average cost is low.
    pub fn withdraw(&mut self, is_there: impl Fn(Id) -> bool) {
        self.accept_queue.withdraw(is_there);
    }

    /// Takes the connection that has waited longest to be accepted. It may have been
    /// [withdrawn](Self::withdraw): then report that, and take the next.
    pub fn accept(&mut self) -> Option<Id> {
        self.accept_queue.pop()
    }

    /// Records that the connection that was accepted last had been withdrawn.
    pub const fn on_withdrawn_accepted(&mut self) {
        self.accept_queue.on_withdrawn_popped();
    }

    /// Returns the number of connections that wait to be accepted.
    #[must_use]
    pub fn accept_queue_len(&self) -> usize {
        self.accept_queue.len()
    }

    /// Returns the number of half-open connections.
    #[must_use]
    pub fn syn_queue_len(&self) -> usize {
        self.half_open.len()
    }

    /// Returns whether a segment that opens no connection is of a handshake that has begun here.
    pub(crate) fn expects(&self, hash: TupleHash, arrival: &Arrival<'_>) -> bool {
        self.half_open.find_hashed(hash, &arrival.tuple).is_some() || self.brings_cookie(arrival)
    }

    /// Returns whether a half-open connection is between these ends.
    pub(crate) fn has(&self, tuple: &FourTuple) -> bool {
        self.half_open.find(tuple).is_some()
    }

    /// Handles a segment for this listener.
    pub fn handle_segment(&mut self, arrival: &Arrival<'_>, counters: &mut Counters) -> Reaction {
        self.handle_hashed(self.half_open.hash(&arrival.tuple), arrival, counters)
    }

    /// Handles a segment whose caller already has the hash of the tuple.
    pub(super) fn handle_hashed(
        &mut self,
        hash: TupleHash,
        arrival: &Arrival<'_>,
        counters: &mut Counters,
    ) -> Reaction {
        if let Some(id) = self.half_open.find_hashed(hash, &arrival.tuple) {
            return self.handle_half_open(id, arrival, counters);
        }
        let flags = arrival.segment.header.flags;
        if flags.contains(Flags::RST) {
            Reaction::Nothing
        } else if flags.contains(Flags::ACK) {
            self.handle_ack(arrival, counters)
        } else if flags.contains(Flags::SYN) && !flags.contains(Flags::FIN) {
            self.handle_syn(hash, arrival, counters)
        } else {
            Reaction::Nothing
        }
    }

    /// Returns a SYN-ACK to send again, because its answer has not come. Gives up connections whose last wait
    /// is over. Call again until there is none.
    pub fn poll_transmit(&mut self, now: Instant, counters: &mut Counters) -> Option<(FourTuple, Header)> {
        while let Some(id) = self.first_due(now) {
            let retries_max = self.retries_max();
            self.leave_queue(id);
            if self.retries(id) < retries_max && self.wait_longer(id, now) {
                counters.count(Counter::SynRetrans);
                counters.count(Counter::RetransSegs);
                let tuple = *self.half_open.tuple(id)?;
                return Some((tuple, self.syn_ack(id, now)?));
            }
            self.half_open.remove(id);
            counters.count(Counter::HalfOpenTimeouts);
            counters.count(Counter::AttemptFails);
        }
        None
    }

    /// Returns how often a SYN-ACK is sent again at present. Half of the SYN queue is for young
    /// connections, to which only one SYN-ACK has been sent: nearly all real peers answer that within a
    /// round trip. While the others take more than their half, they are given up sooner the more of them
    /// there are, as in Linux (`reqsk_timer_handler`). A flood of SYNs then occupies each place for a few
    /// seconds, not for a minute.
    fn retries_max(&self) -> usize {
        let mut most = self.by_retries.len().saturating_sub(1);
        let len = self.half_open.len();
        if 2 * len <= self.config.syn_queue {
            return most;
        }
        let mut young = self.by_retries.first().map_or(0, Queue::len).saturating_mul(2);
        while most > RETRIES_UNDER_PRESSURE && len >= young {
            most -= 1;
            young = young.saturating_mul(2);
        }
        most
    }

    fn retries(&self, id: Id) -> usize {
        self.half_open.get(id).map_or(0, |entry| usize::from(entry.retries))
    }

    /// Returns when the next SYN-ACK is due or its connection is given up.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.by_retries.iter().filter_map(|queue| queue.deadline(&self.half_open)).min()
    }

    fn first_due(&self, now: Instant) -> Option<Id> {
        self.by_retries.iter().find_map(|queue| queue.due(&self.half_open, now))
    }

    fn leave_queue(&mut self, id: Id) {
        let retries = self.retries(id);
        if let Some(queue) = self.by_retries.get_mut(retries) {
            queue.remove(&mut self.half_open, id);
        }
    }

    /// Starts the next wait, for one more SYN-ACK. Returns whether there is one.
    fn wait_longer(&mut self, id: Id, now: Instant) -> bool {
        let Some(entry) = self.half_open.get_mut(id) else { return false };
        entry.retries += 1;
        let Some(queue) = self.by_retries.get_mut(usize::from(entry.retries)) else { return false };
        queue.push(&mut self.half_open, id, now);
        true
    }

    fn remove(&mut self, id: Id) {
        self.leave_queue(id);
        self.half_open.remove(id);
    }

    // --- What is sent ---

    fn syn_ack(&self, id: Id, now: Instant) -> Option<Header> {
        let (entry, tuple) = (self.half_open.get(id)?, self.half_open.tuple(id)?);
        // SYN-ACKs that stay unanswered may be dropped in the network because of their options.
        let gives = entry.wants_cookie && entry.retries < COOKIE_SENT_MAX;
        let cookie = if gives { self.fast_open_cookie(tuple) } else { None };
        Some(self.syn_ack_of(&entry.handshake(tuple), self.timestamps(entry, tuple, now), cookie))
    }

    fn fast_open_cookie(&self, tuple: &FourTuple) -> Option<Cookie> {
        Some(self.fast_open.as_ref()?.cookie(&tuple.remote.addr, &tuple.local.addr))
    }

    fn syn_ack_of(
        &self,
        agreed: &Handshake,
        timestamps: Option<Timestamps>,
        cookie: Option<Cookie>,
    ) -> Header {
        let ecn = if agreed.ecn { Flags::ECE } else { Flags::NONE };
        Header {
            seq: agreed.iss,
            ack: agreed.irs + 1,
            flags: Flags::SYN | Flags::ACK | ecn,
            window: self.config.window,
            options: Options {
                mss: Some(agreed.mss),
                window_scale: agreed.peer_window_scale.and(self.config.window_scale),
                sack_permitted: agreed.sack_permitted,
                timestamps,
                fast_open: cookie,
                ..Options::default()
            },
            ..agreed.tuple.header()
        }
    }

    /// Returns a pure acknowledgment of the peer's SYN. Its sequence number is behind our SYN.
    fn acknowledgment(&self, id: Id, now: Instant) -> Option<Header> {
        let (entry, tuple) = (self.half_open.get(id)?, self.half_open.tuple(id)?);
        Some(Header {
            seq: entry.iss + 1,
            ack: entry.irs + 1,
            flags: Flags::ACK,
            // From here on windows are scaled (RFC 7323, 2.3).
            window: self.config.window
                >> entry.peer_window_scale.and(self.config.window_scale).unwrap_or_default(),
            options: Options { timestamps: self.timestamps(entry, tuple, now), ..Options::default() },
            ..tuple.header()
        })
    }

    fn timestamps(&self, entry: &HalfOpen, tuple: &FourTuple, now: Instant) -> Option<Timestamps> {
        let value = || self.numbers.timestamp(tuple, now);
        entry.timestamps.then(|| Timestamps { value: value(), echo: entry.ts_recent })
    }
}

/// Returns `<SEQ=SEG.ACK><CTL=RST>`, for a segment that acknowledges a number that was never sent (RFC 9293,
/// 3.10.7.2).
fn reset(tuple: &FourTuple, header: &Header) -> Reaction {
    Reaction::Send(Header { seq: header.ack, flags: Flags::RST, ..tuple.header() })
}

/// Counts a SYN without room for another connection. The peer will try again.
fn overflow(counters: &mut Counters) -> Reaction {
    counters.count(Counter::ListenOverflows);
    counters.count(Counter::ListenDrops);
    Reaction::Drop
}

const fn millis(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("half_open", &self.half_open)
            .field("to_accept", &self.accept_queue.len())
            .field("backlog", &self.config.backlog)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
