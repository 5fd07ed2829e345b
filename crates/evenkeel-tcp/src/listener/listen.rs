//! The LISTEN state: a SYN begins a connection, or gets a cookie; an ACK may bring one back (RFC 9293,
//! 3.10.7.2).

use core::net::IpAddr;

use super::{
    ANSWER_INTERVAL, Arrival, HalfOpen, Handshake, Listener, Reaction, WINDOW_SCALE_MAX, millis, overflow,
    reset,
};
use crate::cookie::{CookieOffer, CookieOptions, SynCookies};
use crate::counters::{Counter, Counters};
use crate::fast_open::Presented;
use crate::options::{MSS_DEFAULT_V4, MSS_DEFAULT_V6, MSS_MIN, Timestamps};
use crate::queue::Place;
use crate::segment::Flags;
use crate::seq::SeqNumber;
use crate::table::TupleHash;
use crate::time::Instant;

impl Listener {
    pub(super) fn handle_syn(
        &mut self,
        hash: TupleHash,
        arrival: &Arrival<'_>,
        counters: &mut Counters,
    ) -> Reaction {
        if !self.has_room() {
            return overflow(counters);
        }
        let presented = self.judge_fast_open(arrival, counters);
        if matches!(presented, Some(Presented::Good | Presented::GoodOld)) {
            if self.fast_open.as_mut().is_some_and(|server| server.admit(arrival.now)) {
                return self.open_fast(arrival, presented == Some(Presented::GoodOld), counters);
            }
            counters.count(Counter::FastOpenListenOverflow);
        }
        if self.half_open.is_full() {
            if let Some(answer) = self.answer_with_cookie(arrival, counters) {
                return answer;
            }
            if arrival.previous.is_none() || !self.give_up_oldest(counters) {
                counters.count(Counter::ReqQFullDrop);
                counters.count(Counter::ListenDrops);
                return Reaction::Drop;
            }
        }
        // A client with a good cookie does not need another one.
        let wants_cookie = presented.is_some_and(|presented| presented != Presented::Good);
        self.open_half(hash, arrival, wants_cookie, counters)
    }

    fn open_half(
        &mut self,
        hash: TupleHash,
        arrival: &Arrival<'_>,
        wants_cookie: bool,
        counters: &mut Counters,
    ) -> Reaction {
        let iss = self.numbers.next(&arrival.tuple, arrival.now, arrival.previous);
        let agreed = self.agree(arrival, iss);
        let entry = HalfOpen {
            place: Place::default(),
            iss,
            irs: agreed.irs,
            ts_recent: agreed.ts_recent.unwrap_or_default(),
            acked_at: millis(arrival.now).wrapping_sub(ANSWER_INTERVAL.as_millis() as u32),
            peer_mss: agreed.peer_mss,
            mss: agreed.mss,
            window: agreed.window,
            retries: 0,
            peer_window_scale: agreed.peer_window_scale,
            sack_permitted: agreed.sack_permitted,
            timestamps: agreed.ts_recent.is_some(),
            ecn: agreed.ecn,
            wants_cookie,
            sent_twice: false,
        };
        let Ok(id) = self.half_open.insert_hashed(hash, arrival.tuple, entry) else {
            return Reaction::Drop;
        };
        if let Some(first) = self.by_retries.first_mut() {
            first.push(&mut self.half_open, id, arrival.now);
        }
        counters.count(Counter::PassiveOpens);
        self.syn_ack(id, arrival.now).map_or(Reaction::Nothing, Reaction::Open)
    }

    /// Returns the handshake with the options that the SYN offers and this listener supports. A SYN with
    /// ECE and CWR offers ECN (RFC 3168, 6.1.1).
    fn agree(&self, arrival: &Arrival<'_>, iss: SeqNumber) -> Handshake {
        let (header, config) = (&arrival.segment.header, &self.config);
        let options = &header.options;
        let default = match arrival.tuple.remote.addr {
            IpAddr::V4(_) => MSS_DEFAULT_V4,
            IpAddr::V6(_) => MSS_DEFAULT_V6,
        };
        Handshake {
            tuple: arrival.tuple,
            iss,
            irs: header.seq,
            peer_mss: options.mss.unwrap_or(default).max(MSS_MIN),
            mss: arrival.mss.min(self.config.mss_max),
            window: header.window,
            peer_window_scale: self.scale(options.window_scale),
            sack_permitted: config.sack_permitted && options.sack_permitted,
            ts_recent: options.timestamps.filter(|_| config.timestamps).map(|timestamps| timestamps.value),
            ecn: config.ecn && header.flags.contains(Flags::ECE | Flags::CWR),
            sent_at: None,
            sent_again: 0,
        }
    }

    /// Returns the window scale. Windows are scaled if both ends support it (RFC 7323, 2.2).
    fn scale(&self, peers: Option<u8>) -> Option<u8> {
        self.config.window_scale.and(peers).map(|shift| shift.min(WINDOW_SCALE_MAX))
    }

    fn judge_fast_open(&self, arrival: &Arrival<'_>, counters: &mut Counters) -> Option<Presented> {
        let (client, here) = (&arrival.tuple.remote.addr, &arrival.tuple.local.addr);
        let cookie = arrival.segment.header.options.fast_open.as_ref()?;
        let presented = self.fast_open.as_ref()?.judge(client, here, cookie);
        match presented {
            Presented::Request => counters.count(Counter::FastOpenCookieReqd),
            Presented::Wrong => counters.count(Counter::FastOpenPassiveFail),
            Presented::GoodOld => counters.count(Counter::FastOpenPassiveAltKey),
            Presented::Good => {}
        }
        Some(presented)
    }

    fn open_fast(&self, arrival: &Arrival<'_>, old_cookie: bool, counters: &mut Counters) -> Reaction {
        counters.count(Counter::PassiveOpens);
        counters.count(Counter::FastOpenPassive);
        let new_cookie = if old_cookie { self.fast_open_cookie(&arrival.tuple) } else { None };
        let iss = self.numbers.next(&arrival.tuple, arrival.now, arrival.previous);
        Reaction::FastOpen(self.agree(arrival, iss), new_cookie)
    }

    /// Makes room in a full SYN queue for a peer that no cookie can serve. Such a peer was connected before,
    /// unlike those of a flood. The half-open connection with the most SYN-ACKs, and among those the oldest,
    /// is given up.
    fn give_up_oldest(&mut self, counters: &mut Counters) -> bool {
        let oldest = self.by_retries.iter().rev().find_map(|queue| queue.first(&self.half_open));
        if let Some(id) = oldest {
            self.remove(id);
            counters.count(Counter::HalfOpenTimeouts);
            counters.count(Counter::AttemptFails);
        }
        oldest.is_some()
    }

    /// Answers a SYN that finds the SYN queue full.
    fn answer_with_cookie(&mut self, arrival: &Arrival<'_>, counters: &mut Counters) -> Option<Reaction> {
        let mut agreed = self.agree_with_cookie(arrival)?;
        counters.count(Counter::ReqQFullDoCookies);
        counters.count(Counter::SyncookiesSent);
        self.cookies_until = arrival.now + SynCookies::LIFETIME;
        let Some(echo) = agreed.ts_recent else {
            // Without a timestamp the ACK only brings back the MSS.
            (agreed.peer_window_scale, agreed.sack_permitted, agreed.ecn) = (None, false, false);
            return Some(Reaction::Send(self.syn_ack_of(&agreed, None, None)));
        };
        let options = CookieOptions {
            window_scale: agreed.peer_window_scale,
            sack_permitted: agreed.sack_permitted,
            ecn: agreed.ecn,
        };
        let value = options.encode(self.numbers.timestamp(&arrival.tuple, arrival.now));
        Some(Reaction::Send(self.syn_ack_of(&agreed, Some(Timestamps { value, echo }), None)))
    }

    /// Returns a handshake whose initial sequence number is a cookie; `None` if cookies are off or cannot
    /// be used. If the connection is in TIME-WAIT, its segments still in the network must not be taken for
    /// the new connection's. That holds if both connections have timestamps, as the new ones are later (RFC
    /// 7323, 5; RFC 6191, 2). Without timestamps our SYN's number has to follow the old numbers (RFC 9293,
    /// 3.4.1), and a cookie cannot choose its number.
    fn agree_with_cookie(&self, arrival: &Arrival<'_>) -> Option<Handshake> {
        if !self.config.syn_cookies {
            return None;
        }
        let agreed = self.agree(arrival, SeqNumber::default());
        let iss = self.cookies.make(&arrival.tuple, agreed.irs, agreed.peer_mss, arrival.now)?;
        let follows =
            arrival.previous.is_none_or(|previous| agreed.ts_recent.is_some() || iss.after(previous));
        follows.then_some(Handshake { iss, ..agreed })
    }

    /// Handles an ACK. RFC 9293, 3.10.7.2, second: any acknowledgment is a bad one, unless it brings a cookie
    /// back. This is not even checked if no cookie can be in the network.
    ///
    /// If one can, a bad acknowledgment gets no answer. It may belong to a connection with a good cookie
    /// whose first segment was lost or overtaken. Only that segment gives the peer's initial number, and it
    /// will be sent again.
    pub(super) fn handle_ack(&mut self, arrival: &Arrival<'_>, counters: &mut Counters) -> Reaction {
        let header = &arrival.segment.header;
        if !self.expects_cookies(arrival) {
            return reset(&arrival.tuple, header);
        }
        let (irs, iss) = (header.seq - 1, header.ack - 1);
        let Some(peer_mss) = self.cookies.check(&arrival.tuple, irs, iss, arrival.now) else {
            counters.count(Counter::SyncookiesFailed);
            return Reaction::Nothing;
        };
        if !self.has_room() {
            return overflow(counters);
        }
        counters.count(Counter::SyncookiesRecv);
        counters.count(Counter::PassiveOpens);
        let timestamps = header.options.timestamps.filter(|_| self.config.timestamps);
        let options = timestamps.map(|timestamps| CookieOptions::decode(timestamps.echo));
        Reaction::Establish(Handshake {
            tuple: arrival.tuple,
            iss,
            irs,
            peer_mss,
            mss: arrival.mss.min(self.config.mss_max),
            window: header.window,
            peer_window_scale: self.scale(options.and_then(|options| options.window_scale)),
            sack_permitted: self.config.sack_permitted
                && options.is_some_and(|options| options.sack_permitted),
            ts_recent: timestamps.map(|timestamps| timestamps.value),
            ecn: self.config.ecn && options.is_some_and(|options| options.ecn),
            sent_at: None,
            sent_again: 0,
        })
    }
}

impl Listener {
    /// Returns the parameters with which a device may answer SYNs by cookies in place of this listener.
    /// `None` if cookies are off. `hop_limit` is that of the SYN-ACKs.
    #[must_use]
    pub fn cookie_offer(&self, hop_limit: u8) -> Option<CookieOffer> {
        let config = &self.config;
        config.syn_cookies.then_some(CookieOffer {
            secret: self.cookies.secret(),
            mss_max: config.mss_max,
            window: config.window,
            window_scale: config.window_scale,
            sack_permitted: config.sack_permitted,
            timestamps: config.timestamps,
            ecn: config.ecn,
            hop_limit,
        })
    }

    /// Records that a device has sent `cookies` SYN cookies in place of this listener, the last one at `now`
    /// or before. Until the last one has expired, ACKs may bring them back.
    pub fn expect_cookies(&mut self, cookies: u64, now: Instant, counters: &mut Counters) {
        counters.add(Counter::SyncookiesSent, cookies);
        self.cookies_until = now + SynCookies::LIFETIME;
    }

    /// Returns whether cookies are expected until `then` at least.
    pub(crate) fn expects_cookies_until(&self, then: Instant) -> bool {
        then < self.cookies_until
    }

    /// Returns whether the segment brings back a good cookie.
    pub(crate) fn brings_cookie(&self, arrival: &Arrival<'_>) -> bool {
        let header = &arrival.segment.header;
        let (irs, iss) = (header.seq - 1, header.ack - 1);
        self.expects_cookies(arrival) && self.cookies.check(&arrival.tuple, irs, iss, arrival.now).is_some()
    }

    /// Returns whether the segment may have a cookie in its acknowledgment.
    pub(super) fn expects_cookies(&self, arrival: &Arrival<'_>) -> bool {
        let flags = arrival.segment.header.flags;
        arrival.now < self.cookies_until && flags.contains(Flags::ACK) && !flags.contains(Flags::SYN)
    }
}
