//! A TCP peer that is not ours: small, written for this test alone, and as odd as its plan.
//!
//! It keeps numbers, not bytes: the endpoint sends a known stream, and `invariants.rs` compares every byte of
//! it.

use evenkeel_tcp::Ecn;
use evenkeel_tcp::time::{Duration, Instant};

use super::choices::Choices;
use super::wire::{ACK, CWR, ECE, FIN, PSH, RST, SYN, Seg, URG, after, bytes, earlier, later, sack_len};

/// The behaviour of the peer in a run: how it opens, sends, receives and closes.
#[derive(Debug, Clone)]
pub(crate) struct PeerPlan {
    /// Whether the peer opens.
    pub(crate) active: bool,
    /// Whether the peer sends a SYN although it has received ours.
    pub(crate) simultaneous: bool,
    /// Our listener's cookie, if the peer opens with data; or the cookie that the peer gives.
    pub(crate) cookie: Option<Vec<u8>>,
    /// Whether the peer accepts data in our SYN.
    pub(crate) takes_early: bool,
    pub(crate) iss: u32,
    pub(crate) mss: Option<u16>,
    pub(crate) scale: Option<u8>,
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
    pub(crate) ecn: bool,
    pub(crate) nagle: bool,
    /// The most bytes in a segment of the peer's.
    pub(crate) segment: usize,
    /// The percentage of segments that are smaller.
    pub(crate) pieces: u64,
    /// The most segments in flight.
    pub(crate) flight: u32,
    pub(crate) rto: Duration,
    pub(crate) windows: Windows,
    /// Whether data beyond the last window is dropped although an earlier window had room for it.
    pub(crate) strict: bool,
    /// The window that the peer keeps once the network is calm.
    pub(crate) last_window: u32,
    /// Whether the peer does not announce that window, so that we have to probe.
    pub(crate) silent_opening: bool,
    pub(crate) ack_every: u32,
    pub(crate) ack_delay: Duration,
    /// The percentage of acknowledgments that are partial.
    pub(crate) partial_acks: u64,
    pub(crate) reneging: u64,
    pub(crate) urgent: u64,
    /// Bytes that the peer sends in all, and in one call; the pause after each call.
    pub(crate) total: u64,
    pub(crate) write_chunk: u64,
    pub(crate) write_pause: Duration,
    /// Whether the peer closes only after our FIN.
    pub(crate) closes_last: bool,
    /// The interval between odd actions of the peer; `None` if it takes none.
    pub(crate) oddities: Option<Duration>,
    pub(crate) resets_at: Option<Instant>,
}

impl PeerPlan {
    /// Returns the answer to a SYN that asks for a Fast Open cookie.
    pub(crate) fn cookie_for(&self, syn: &Seg) -> Seg {
        Seg {
            seq: 1,
            ack: syn.seq.wrapping_add(1),
            flags: SYN | ACK,
            window: 1_000,
            mss: self.mss,
            cookie: self.cookie.clone(),
            ..Seg::default()
        }
    }
}

/// The size of the peer's windows while the network is rough.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Windows {
    /// A buffer, of which a number of bytes are read in each interval.
    Buffer(u32, u32, Duration),
    /// A random window after each interval, which may shrink.
    Wild(Duration),
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) plan: PeerPlan,
    out: Vec<Seg>,
    pub(crate) dead: bool,
    pub(crate) established: bool,
    pub(crate) was_reset: bool,
    /// Whether it has sent SYNs that may cause a reset.
    pub(crate) has_provoked: bool,
    calm: bool,
    // What it sends.
    una: u32,
    nxt: u32,
    max: u32,
    available: u64,
    edge: u32,
    their_shift: u8,
    their_mss: usize,
    backoff: u32,
    duplicates: u32,
    // What it receives.
    pub(crate) irs: Option<u32>,
    pub(crate) rcv_nxt: u32,
    acked: u32,
    beyond: Vec<(u32, u32)>,
    fin_at: Option<u32>,
    pub(crate) fin_received: bool,
    read: u32,
    wild: u32,
    shift: u8,
    edge_now: u32,
    edge_max: u32,
    unacked: u32,
    sack: bool,
    clock: Option<u32>,
    ecn: bool,
    ece: bool,
    early: u32,
    // When it does something next.
    rto_at: Instant,
    ack_at: Instant,
    write_at: Instant,
    window_at: Instant,
    odd_at: Instant,
}

const RTO_MAX: Duration = Duration::from_secs(2);

impl Peer {
    pub(crate) fn new(plan: PeerPlan, now: Instant) -> Self {
        let iss = plan.iss;
        let wild = plan.last_window;
        let window_at = match plan.windows {
            Windows::Buffer(_, _, pause) | Windows::Wild(pause) => now + pause,
        };
        Self {
            out: Vec::new(),
            dead: false,
            established: false,
            was_reset: false,
            has_provoked: false,
            calm: false,
            una: iss,
            nxt: iss,
            max: iss,
            available: 0,
            edge: iss.wrapping_add(1),
            their_shift: 0,
            their_mss: 536,
            backoff: 0,
            duplicates: 0,
            irs: None,
            rcv_nxt: 0,
            acked: 0,
            beyond: Vec::new(),
            fin_at: None,
            fin_received: false,
            read: 0,
            wild,
            shift: 0,
            edge_now: 0,
            edge_max: 0,
            unacked: 0,
            sack: false,
            clock: None,
            ecn: false,
            ece: false,
            early: 0,
            rto_at: if plan.active { now } else { Instant::NEVER },
            ack_at: Instant::NEVER,
            write_at: now + plan.write_pause,
            window_at,
            odd_at: plan.oddities.map_or(Instant::NEVER, |pause| now + pause),
            plan,
        }
    }

    pub(crate) fn next(&self) -> Instant {
        if self.dead {
            return Instant::NEVER;
        }
        let reset = self.plan.resets_at.unwrap_or(Instant::NEVER);
        let program = self.write_at.min(self.window_at).min(self.odd_at).min(reset);
        self.rto_at.min(self.ack_at).min(program)
    }

    pub(crate) fn poll(&mut self) -> Vec<Seg> {
        core::mem::take(&mut self.out)
    }

    /// Returns the number behind the last byte of its stream.
    const fn text_end(&self) -> u32 {
        self.plan.iss.wrapping_add(1).wrapping_add(self.plan.total as u32)
    }

    /// Returns whether the peer's FIN is acknowledged, and ours has come.
    pub(crate) fn is_done(&self) -> bool {
        self.dead || self.fin_received && self.una == self.text_end().wrapping_add(1)
    }

    /// Returns the end of all that it has ever sent.
    pub(crate) const fn sent_end(&self) -> u32 {
        self.max
    }

    // --- Time ---

    pub(crate) fn on_time(&mut self, now: Instant, choices: &mut Choices<'_>) {
        if self.dead {
            return;
        }
        if self.plan.resets_at.is_some_and(|at| at <= now) {
            self.plan.resets_at = None;
            if self.irs.is_some() {
                self.was_reset = true;
                self.dead = true;
                let seq = self.in_window();
                self.out.push(Seg { seq, ack: self.rcv_nxt, flags: RST | ACK, ..Seg::default() });
                return;
            }
        }
        if self.write_at <= now {
            self.write_at = Instant::NEVER;
            if self.available < self.plan.total {
                self.available = (self.available + self.plan.write_chunk.max(1)).min(self.plan.total);
                self.write_at = now + self.plan.write_pause.max(Duration::from_micros(10));
            }
            self.send(now, choices);
        }
        if self.window_at <= now {
            self.next_window(now, choices);
        }
        if self.ack_at <= now {
            self.acknowledge(now, choices, false);
        }
        if self.odd_at <= now {
            self.odd_at = Instant::NEVER;
            if let Some(pause) = self.plan.oddities.filter(|_| !self.calm) {
                self.odd_at = now + pause;
                self.be_odd(now, choices);
            }
        }
        if self.rto_at <= now {
            self.on_timeout(now, choices);
        }
    }

    /// Makes the peer cooperate from now on.
    pub(crate) fn be_calm(&mut self, now: Instant, choices: &mut Choices<'_>) {
        self.calm = true;
        self.plan.oddities = None;
        self.plan.resets_at = None;
        (self.odd_at, self.plan.reneging, self.plan.partial_acks) = (Instant::NEVER, 0, 0);
        (self.plan.pieces, self.plan.nagle) = (0, false);
        self.backoff = 0;
        if let Windows::Wild(_) = self.plan.windows {
            self.wild = self.plan.last_window;
        }
        self.window_at = Instant::NEVER;
        self.read = self.rcv_nxt;
        if self.established && !self.plan.silent_opening {
            self.acknowledge(now, choices, false);
        }
        if self.rto_at != Instant::NEVER {
            self.rto_at = self.rto_at.min(now + self.plan.rto);
        }
    }

    fn next_window(&mut self, now: Instant, choices: &mut Choices<'_>) {
        self.window_at = Instant::NEVER;
        if self.calm {
            return;
        }
        let before = self.window();
        match self.plan.windows {
            Windows::Buffer(_, bytes, pause) => {
                self.read = earlier(self.read.wrapping_add(bytes), self.rcv_nxt);
                self.window_at = now + pause;
            }
            Windows::Wild(pause) => {
                let mss = u32::from(self.plan.mss.unwrap_or(536));
                let small = choices.between(1, u64::from(mss)) as u32;
                let sizes = [self.plan.last_window, 0, small, mss / 2, mss, mss * 2, mss * 7, 0, 60_000];
                self.wild = choices.pick(&sizes);
                self.window_at = now + pause;
            }
        }
        let announced = self.established && self.window() != before;
        if announced && choices.chance(90) {
            self.acknowledge(now, choices, false);
        }
    }

    fn on_timeout(&mut self, now: Instant, choices: &mut Choices<'_>) {
        self.rto_at = Instant::NEVER;
        if self.una == self.plan.iss {
            if self.plan.active || self.irs.is_some() {
                self.send_syn(now, self.backoff > 0);
                self.backoff += 1;
            }
            return;
        }
        if self.una == self.max || !after(self.edge, self.una) {
            self.probe_window(now, choices);
        } else if choices.chance(50) {
            self.nxt = self.una;
            self.send(now, choices);
        } else {
            self.send_again(now, choices);
        }
        self.backoff += 1;
        self.set_timer(now);
    }

    fn probe_window(&mut self, now: Instant, choices: &mut Choices<'_>) {
        let next = self.una.wrapping_sub(self.plan.iss).wrapping_sub(1);
        if u64::from(next) < self.available && choices.chance(50) {
            let payload = bytes(false, u64::from(next), 1);
            self.max = later(self.max, self.una.wrapping_add(1));
            self.push(Seg { seq: self.una, flags: ACK, payload, ..Seg::default() }, now);
        } else if u64::from(next) < self.available || self.is_fin_due() {
            self.push(Seg { seq: self.una.wrapping_sub(1), flags: ACK, ..Seg::default() }, now);
        }
    }

    /// Retransmits the first unacknowledged piece, with other borders than before.
    fn send_again(&mut self, now: Instant, choices: &mut Choices<'_>) {
        let nxt = core::mem::replace(&mut self.nxt, self.una);
        self.send_one(now, choices);
        self.nxt = later(nxt, self.nxt);
    }

    fn set_timer(&mut self, now: Instant) {
        let next = u64::from(self.una.wrapping_sub(self.plan.iss).wrapping_sub(1));
        let more = next < self.available || self.is_fin_due() && next <= self.plan.total;
        self.rto_at = Instant::NEVER;
        if self.una != self.max || more {
            let longer = self.plan.rto * (1 << self.backoff.min(8));
            self.rto_at = now + longer.min(RTO_MAX.max(self.plan.rto));
        }
    }

    // --- What it sends ---

    fn clock_now(now: Instant) -> u32 {
        (now.as_nanos() / 1_000_000) as u32 + 77
    }

    fn in_window(&self) -> u32 {
        earlier(self.max, self.edge)
    }

    /// Completes a segment other than a SYN, and sends it.
    fn push(&mut self, mut seg: Seg, now: Instant) {
        if seg.has(ACK) {
            seg.ack = self.acked;
            let window = self.window().min(65_535 << self.shift);
            let coarse = if self.calm { (1 << self.shift) - 1 } else { 0 };
            seg.window = (window.saturating_add(coarse) >> self.shift).min(65_535) as u16;
            self.edge_now = self.acked.wrapping_add(u32::from(seg.window) << self.shift);
            self.edge_max = later(self.edge_max, self.edge_now);
            if self.ece {
                seg.flags |= ECE;
            }
        }
        seg.clock = self.clock.map(|recent| (Self::clock_now(now), recent));
        if self.sack && seg.has(ACK) {
            seg.sack = self.beyond.iter().rev().copied().take(4).collect();
        }
        self.out.push(seg);
    }

    fn send_syn(&mut self, now: Instant, again: bool) {
        let answers = self.irs.is_some();
        let mut seg = Seg {
            seq: self.plan.iss,
            flags: SYN,
            window: self.window().min(65_535) as u16,
            mss: self.plan.mss,
            scale: self.plan.scale,
            sack_permitted: self.plan.sack,
            clock: self.plan.timestamps.then(|| (Self::clock_now(now), 0)),
            ..Seg::default()
        };
        self.max = later(self.max, self.plan.iss.wrapping_add(1));
        if answers {
            seg.flags |= ACK | if self.ecn { ECE } else { 0 };
            seg.ack = self.rcv_nxt;
            seg.sack_permitted = self.sack;
            seg.clock = self.clock.map(|recent| (Self::clock_now(now), recent));
            seg.cookie = self.plan.cookie.clone();
            self.edge_now = self.rcv_nxt.wrapping_add(u32::from(seg.window));
            self.edge_max = later(self.edge_max, self.edge_now);
            self.acked = self.rcv_nxt;
        } else {
            seg.flags |= if self.plan.ecn && !again { ECE | CWR } else { 0 };
            if let Some(cookie) = self.plan.cookie.clone().filter(|_| !again) {
                seg.cookie = Some(cookie);
                self.early = self.plan.total.min(100) as u32;
                self.available = self.available.max(u64::from(self.early));
                seg.payload = bytes(false, 0, self.early as usize);
                self.max = later(self.max, self.plan.iss.wrapping_add(1 + self.early));
            }
        }
        self.nxt = later(self.nxt, self.plan.iss.wrapping_add(1));
        self.out.push(seg);
        self.rto_at = now + Duration::from_secs(1) * (1 << self.backoff.min(2));
    }

    const fn is_fin_due(&self) -> bool {
        self.available == self.plan.total && (!self.plan.closes_last || self.fin_received)
    }

    fn send(&mut self, now: Instant, choices: &mut Choices<'_>) {
        if !self.established {
            return;
        }
        for _ in 0..64 {
            if !self.send_one(now, choices) {
                break;
            }
        }
        if self.rto_at == Instant::NEVER {
            self.set_timer(now);
        }
    }

    /// Returns the most bytes in a segment that leaves now. Options take room from data (RFC 9293, 3.7.1).
    fn segment(&self) -> usize {
        let clock = if self.clock.is_some() { 12 } else { 0 };
        let sack = if self.sack { sack_len(self.beyond.len(), clock) } else { 0 };
        self.plan.segment.min(self.their_mss - clock - sack)
    }

    fn send_one(&mut self, now: Instant, choices: &mut Choices<'_>) -> bool {
        let segment = self.segment();
        let first = self.plan.iss.wrapping_add(1);
        let flight = self.una.wrapping_add(self.plan.flight * self.plan.segment as u32);
        let limit = earlier(first.wrapping_add(self.available as u32), earlier(self.edge, flight));
        let room = if after(limit, self.nxt) { limit.wrapping_sub(self.nxt) as usize } else { 0 };
        let mut size = room.min(segment);
        if size > 1 && choices.chance(self.plan.pieces) {
            size = choices.between(1, size as u64) as usize;
        }
        let end = self.nxt.wrapping_add(size as u32);
        let fin = self.is_fin_due() && end == self.text_end() && after(self.edge, end);
        if size == 0 && !fin {
            return false;
        }
        let small = size < segment && !fin;
        if self.plan.nagle && small && self.nxt != self.una && self.nxt == self.max {
            return false;
        }
        let payload = bytes(false, u64::from(self.nxt.wrapping_sub(first)), size);
        let urgent =
            if choices.chance(self.plan.urgent) { (URG, choices.below(size as u64 + 9)) } else { (0, 0) };
        let flags = ACK | PSH | urgent.0 | if fin { FIN } else { 0 };
        let seg = Seg { seq: self.nxt, flags, urgent: urgent.1 as u16, payload, ..Seg::default() };
        self.nxt = seg.end();
        self.max = later(self.max, self.nxt);
        self.acked = self.ack_number(choices);
        self.push(seg, now);
        true
    }

    fn ack_number(&self, choices: &mut Choices<'_>) -> u32 {
        let room = self.rcv_nxt.wrapping_sub(self.acked);
        if room > 1 && choices.chance(self.plan.partial_acks) {
            return self.acked.wrapping_add(choices.between(1, u64::from(room) - 1) as u32);
        }
        self.rcv_nxt
    }

    fn acknowledge(&mut self, now: Instant, choices: &mut Choices<'_>, may_be_partial: bool) {
        self.acked = if may_be_partial { self.ack_number(choices) } else { self.rcv_nxt };
        self.unacked = 0;
        self.ack_at = if self.acked == self.rcv_nxt { Instant::NEVER } else { now + self.plan.ack_delay };
        self.push(Seg { seq: self.in_window(), flags: ACK, ..Seg::default() }, now);
    }

    /// Returns the room that the peer announces behind what it acknowledges.
    fn window(&self) -> u32 {
        match self.plan.windows {
            Windows::Wild(_) => self.wild,
            Windows::Buffer(..) if self.calm => self.plan.last_window,
            Windows::Buffer(size, ..) => {
                let end = self.read.wrapping_add(size);
                if after(end, self.acked) { end.wrapping_sub(self.acked) } else { 0 }
            }
        }
    }

    fn be_odd(&mut self, now: Instant, choices: &mut Choices<'_>) {
        let Some(irs) = self.irs.filter(|_| self.established) else {
            if self.plan.active && self.irs.is_none() && self.max != self.plan.iss {
                self.send_syn(now, choices.chance(50));
            }
            return;
        };
        let seq = self.in_window();
        let base = Seg { seq, flags: ACK, ..Seg::default() };
        match choices.below(13) {
            // A repeated acknowledgment.
            0 => (0..choices.between(1, 4)).for_each(|_| self.push(base.clone(), now)),
            // An acknowledgment of what was never sent.
            1 => self.push_with(base, now, |seg| {
                seg.ack = seg.ack.wrapping_add(200_000 + choices.below(1 << 20) as u32);
            }),
            // An old acknowledgment.
            2 => self.push_with(base, now, |seg| {
                seg.ack = seg.ack.wrapping_sub(choices.magnitude(1, 100_000) as u32);
            }),
            // SACK blocks that were made up.
            3 => self.push_with(base, now, |seg| {
                let mut number = || seg.ack.wrapping_add(choices.below(40_000) as u32).wrapping_sub(10_000);
                seg.sack = vec![(number(), number()), (number(), number())];
            }),
            // This is its SYN once more, or another one.
            4 => {
                self.has_provoked = true;
                let off = choices.pick(&[0, 1, 0x4000_0000, 0x8000_0000]);
                let flags = choices.pick(&[SYN, SYN | ACK]);
                let clock = self.clock.map(|recent| (Self::clock_now(now), recent));
                let iss = self.plan.iss.wrapping_add(off);
                let ack = if flags & ACK == 0 { 0 } else { irs.wrapping_add(1) };
                let (mss, scale) = (self.plan.mss, self.plan.scale);
                self.out.push(Seg {
                    seq: iss,
                    ack,
                    flags,
                    window: 9_000,
                    mss,
                    scale,
                    clock,
                    ..Seg::default()
                });
            }
            // This is a keep-alive, with a byte or without.
            5 | 6 => {
                let payload = if choices.chance(50) { vec![0] } else { Vec::new() };
                let old = after(self.una, self.plan.iss.wrapping_add(1));
                let payload = if old { payload } else { Vec::new() };
                self.push(Seg { seq: self.una.wrapping_sub(1), payload, ..base }, now);
            }
            // This is a reset with a number that is not the next.
            7 => {
                let off = choices.pick(&[1, 500, 0xffff_fff0, 0x1000_0000]);
                self.out.push(Seg { seq: self.max.wrapping_add(off), flags: RST, ..Seg::default() });
            }
            // The segment has no ACK, or no flag at all.
            8 => self.push(Seg { flags: choices.pick(&[0, PSH, URG]), payload: vec![7], ..base }, now),
            // The segment is beyond the window.
            9 => {
                let seq = self.edge.wrapping_add(choices.between(1, 70_000) as u32);
                let place = u64::from(seq.wrapping_sub(self.plan.iss).wrapping_sub(1));
                // A segment beyond the window may be inside it when it arrives.
                let right = place + 30 <= self.plan.total;
                let seq = if right { seq } else { self.edge.wrapping_add(1 << 29) };
                let payload = bytes(false, place, 30);
                self.max = if right { later(self.max, seq.wrapping_add(30)) } else { self.max };
                self.push(Seg { seq, payload, ..base }, now);
            }
            // The segment has old data.
            10 => {
                let sent = self.una.wrapping_sub(self.plan.iss).wrapping_sub(1);
                let from = choices.below(u64::from(sent).max(1));
                let len = (u64::from(sent) - from.min(u64::from(sent))).min(200) as usize;
                let seq = self.plan.iss.wrapping_add(1).wrapping_add(from as u32);
                self.push(Seg { seq, payload: bytes(false, from, len), ..base }, now);
            }
            // The segment has ECN flags, whether agreed on or not.
            11 => self.push(Seg { flags: ACK | choices.pick(&[ECE, CWR, ECE | CWR]), ..base }, now),
            // The segment has an old timestamp.
            _ => self.push_with(base, now, |seg| {
                seg.clock = seg.clock.map(|(value, echo)| (value.wrapping_sub(1 << 20), echo));
            }),
        }
    }

    fn push_with(&mut self, seg: Seg, now: Instant, change: impl FnOnce(&mut Seg)) {
        self.push(seg, now);
        if let Some(last) = self.out.last_mut() {
            change(last);
        }
    }

    // --- What it hears ---

    pub(crate) fn on_segment(&mut self, seg: &Seg, ecn: Ecn, now: Instant, choices: &mut Choices<'_>) {
        if self.dead {
            if !seg.has(RST) && seg.has(ACK) {
                self.out.push(Seg { seq: seg.ack, flags: RST, ..Seg::default() });
            }
            return;
        }
        if seg.has(RST) {
            return self.on_reset(seg, now, choices);
        }
        if seg.has(SYN) {
            return self.on_syn(seg, now, choices);
        }
        let Some(irs) = self.irs else {
            if after(seg.ack, self.plan.iss) && !after(seg.ack, self.max) {
                // The previous SYN-ACK was lost (RFC 9293, 3.10.7.3).
                return;
            }
            // The peer has no such connection.
            return self.out.push(Seg { seq: seg.ack, flags: RST, ..Seg::default() });
        };
        if !seg.has(ACK) || after(irs, seg.seq) {
            return;
        }
        if self.clock.is_some() && seg.clock.is_none() {
            return;
        }
        if after(seg.ack, self.max) {
            return self.acknowledge(now, choices, false);
        }
        if let Some((value, _)) = seg.clock.filter(|_| !after(seg.seq, self.acked)) {
            self.clock = self.clock.map(|recent| later(value, recent));
        }
        if !self.established {
            if !after(seg.ack, self.plan.iss) {
                return;
            }
            self.establish(now);
        }
        self.on_ack(seg, now, choices);
        self.on_text(seg, ecn, now, choices);
        self.send(now, choices);
    }

    fn on_reset(&mut self, seg: &Seg, now: Instant, choices: &mut Choices<'_>) {
        let begins = self.irs.is_none() && seg.has(ACK) && after(seg.ack, self.plan.iss);
        // Once both ends have closed, later segments belong to no connection.
        if self.is_done() || self.irs.is_none() && !begins {
            return;
        }
        if begins || seg.seq == self.rcv_nxt {
            (self.dead, self.was_reset) = (true, true);
        } else if after(seg.seq, self.rcv_nxt) && !after(seg.seq, self.edge_max) {
            // RFC 5961, 3.2
            self.acknowledge(now, choices, false);
        }
    }

    fn on_syn(&mut self, seg: &Seg, now: Instant, choices: &mut Choices<'_>) {
        if self.irs.is_some_and(|irs| irs != seg.seq) && self.established {
            return self.acknowledge(now, choices, false);
        }
        if self.established {
            // The segment is a repetition.
            return self.acknowledge(now, choices, false);
        }
        if seg.has(ACK) && (after(seg.ack, self.max) || !after(seg.ack, self.plan.iss)) {
            return self.out.push(Seg { seq: seg.ack, flags: RST, ..Seg::default() });
        }
        let known = self.irs == Some(seg.seq);
        if !known {
            self.irs = Some(seg.seq);
            self.rcv_nxt = seg.seq.wrapping_add(1);
            (self.read, self.acked) = (self.rcv_nxt, self.rcv_nxt);
            (self.edge_now, self.edge_max) = (self.rcv_nxt, self.rcv_nxt);
            self.agree(seg);
            if self.plan.takes_early && self.plan.cookie.is_some() && !seg.has(ACK) {
                let taken = choices.between(0, seg.payload.len() as u64);
                let taken = if choices.chance(50) { taken } else { seg.payload.len() as u64 };
                self.rcv_nxt = self.rcv_nxt.wrapping_add(taken as u32);
            }
        }
        self.edge = later(self.edge, self.plan.iss.wrapping_add(1).wrapping_add(u32::from(seg.window)));
        if seg.has(ACK) {
            self.establish(now);
            self.on_ack(seg, now, choices);
            self.acknowledge(now, choices, false);
            self.send(now, choices);
        } else if known || !self.plan.simultaneous {
            self.send_syn(now, known);
        } else {
            self.plan.active = true;
            self.send_syn(now, true);
        }
    }

    fn agree(&mut self, seg: &Seg) {
        let both = self.plan.scale.zip(seg.scale);
        (self.shift, self.their_shift) = both.map_or((0, 0), |(ours, theirs)| (ours.min(14), theirs.min(14)));
        if both.is_none() {
            self.plan.scale = None;
        }
        self.sack = self.plan.sack && seg.sack_permitted;
        self.clock = seg.clock.filter(|_| self.plan.timestamps).map(|(value, _)| value);
        let asked = seg.has(ECE) && (seg.has(ACK) || seg.has(CWR));
        self.ecn = self.plan.ecn && asked;
        self.their_mss = seg.mss.map_or(self.their_mss, usize::from);
    }

    fn establish(&mut self, now: Instant) {
        self.established = true;
        self.backoff = 0;
        self.una = later(self.una, self.plan.iss.wrapping_add(1));
        self.nxt = later(self.nxt, self.una);
        self.rto_at = Instant::NEVER;
        self.set_timer(now);
    }

    fn on_ack(&mut self, seg: &Seg, now: Instant, choices: &mut Choices<'_>) {
        let shift = if seg.has(SYN) { 0 } else { self.their_shift };
        let edge = seg.ack.wrapping_add(u32::from(seg.window) << shift);
        let opens = after(edge, self.edge);
        self.edge = later(self.edge, edge);
        if after(seg.ack, self.una) {
            self.una = seg.ack;
            self.nxt = later(self.nxt, self.una);
            (self.backoff, self.duplicates) = (0, 0);
            self.set_timer(now);
        } else if seg.ack == self.una && self.una != self.max && seg.payload.is_empty() && !opens {
            self.duplicates += 1;
            if self.duplicates == 3 {
                self.send_again(now, choices);
            }
        } else if opens {
            self.backoff = 0;
            self.set_timer(now);
        }
    }

    fn on_text(&mut self, seg: &Seg, ecn: Ecn, now: Instant, choices: &mut Choices<'_>) {
        if self.ecn {
            self.ece &= !seg.has(CWR);
            self.ece |= ecn == Ecn::Experienced && !seg.payload.is_empty();
        }
        if seg.end() == seg.seq {
            if seg.seq != self.rcv_nxt {
                // This is a keep-alive, or a window probe.
                self.acknowledge(now, choices, false);
            }
            return;
        }
        let limit = if self.plan.strict { self.edge_now } else { self.edge_max };
        let start = later(seg.text(), self.rcv_nxt);
        let end = earlier(seg.text_end(), limit);
        let before = self.rcv_nxt;
        if seg.has(FIN) && !after(seg.text_end(), limit) {
            self.fin_at = Some(seg.text_end());
        }
        if after(end, start) {
            self.insert(start, end);
        }
        if self.fin_at == Some(self.rcv_nxt) && !self.fin_received {
            self.fin_received = true;
            self.rcv_nxt = self.rcv_nxt.wrapping_add(1);
        }
        if self.rcv_nxt == before || !self.beyond.is_empty() || self.fin_received {
            if !self.beyond.is_empty() && choices.chance(self.plan.reneging) {
                self.acknowledge(now, choices, false);
                self.beyond.clear();
            } else {
                self.acknowledge(now, choices, false);
            }
            return;
        }
        self.unacked += 1;
        if self.unacked >= self.plan.ack_every || self.plan.ack_delay.is_zero() {
            self.acknowledge(now, choices, true);
        } else {
            self.ack_at = self.ack_at.min(now + self.plan.ack_delay);
        }
    }

    fn insert(&mut self, start: u32, end: u32) {
        let (mut start, mut end) = (start, end);
        self.beyond.retain(|(from, to)| {
            let apart = after(*from, end) || after(start, *to);
            if !apart {
                (start, end) = (earlier(start, *from), later(end, *to));
            }
            apart
        });
        if start == self.rcv_nxt {
            self.rcv_nxt = end;
            self.beyond.retain(|(_, to)| after(*to, end));
        } else {
            self.beyond.push((start, end));
        }
    }
}
