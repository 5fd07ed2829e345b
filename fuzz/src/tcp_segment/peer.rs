//! A peer: its made-up segments, and its conclusions from the segments that it receives, without access to
//! the endpoint.

use evenkeel_core::tcp::{
    AddrPort, Cookie, Ecn, Flags, FourTuple, Header, Options, SackBlocks, Segment, SeqNumber, SeqRange,
    Timestamps,
};
use evenkeel_core::time::Instant;

use super::super::Script;

/// The offsets from the right sequence number.
const OFF: [u32; 16] = [
    0,
    1,
    1_u32.wrapping_neg(),
    100,
    100_u32.wrapping_neg(),
    1_460,
    1_460_u32.wrapping_neg(),
    3_000,
    40_000,
    40_000_u32.wrapping_neg(),
    65_535,
    65_536,
    1 << 20,
    1 << 31,
    (1 << 31) - 1,
    7,
];
const LENGTHS: [u16; 8] = [0, 1, 10, 100, 536, 1_000, 1_460, 9_000];
const WINDOWS: [u16; 8] = [65_535, 0, 1, 100, 1_000, 3_000, 10_000, 60_000];
const MSS: [Option<u16>; 8] =
    [Some(1_460), None, Some(0), Some(47), Some(48), Some(536), Some(9_000), Some(65_535)];
const SCALES: [Option<u8>; 8] = [Some(2), None, Some(0), Some(7), Some(13), Some(14), Some(15), Some(255)];

/// Returns the byte that has this number, in either direction: never zero, as what was never sent could be.
pub(super) const fn byte(number: u32) -> u8 {
    (number.wrapping_mul(7) % 251) as u8 + 1
}

/// A segment to pass to the endpoint.
#[derive(Debug, Clone, Default)]
pub(super) struct Made {
    pub(super) header: Header,
    pub(super) payload: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Peer {
    /// The tuple from the endpoint's view.
    pub(super) tuple: FourTuple,
    /// The number that the endpoint expects next, which it acknowledged last.
    next: SeqNumber,
    /// The number behind the last that the endpoint has sent.
    sent: SeqNumber,
    /// The number of the endpoint's SYN.
    iss: Option<SeqNumber>,
    /// The last value of the endpoint's timestamp clock; `None` if it sent none.
    clock: Option<u32>,
    /// The Fast Open cookie that the endpoint gave last.
    cookie: Cookie,
    /// All ranges ever given to the endpoint.
    given: Vec<SeqRange>,
    /// The highest number up to which the endpoint's windows have allowed us to send.
    edge: Option<SeqNumber>,
    /// Whether the endpoint has allowed exactly that much: everything that was agreed on is known.
    exact: bool,
    /// The number that the endpoint's last SYN acknowledged.
    greeted: Option<SeqNumber>,
    /// The window scale in the endpoint's last SYN. If `None`, the windows of neither end are scaled.
    shift: Option<u8>,
    /// Whether we have sent a FIN, or something like one.
    fin: bool,
    /// The highest number up to which our windows have allowed the endpoint to send.
    offered: Option<SeqNumber>,
    syn_window: u16,
    shift_max: u8,
}

impl Peer {
    pub(super) const fn new(local: AddrPort, remote: AddrPort, first: u32) -> Self {
        Self {
            tuple: FourTuple { local, remote },
            next: SeqNumber::new(first),
            sent: SeqNumber::new(0),
            iss: None,
            clock: None,
            cookie: Cookie::REQUEST,
            given: Vec::new(),
            edge: None,
            exact: false,
            greeted: None,
            shift: None,
            fin: false,
            offered: None,
            syn_window: 0,
            shift_max: 0,
        }
    }

    // --- What it sends ---

    /// Returns the plain acknowledgment of all that came.
    pub(super) fn acknowledgment(&self, now: Instant) -> Made {
        let header = Header {
            seq: self.next,
            ack: self.sent,
            flags: Flags::ACK,
            window: 65_535,
            options: Options { timestamps: self.timestamps(now, 0), ..Options::default() },
            ..self.plain()
        };
        Made { header, payload: Vec::new() }
    }

    /// Creates a segment as the script wants it: nearly right, or not. Zeros give the acknowledgment.
    pub(super) fn make(&self, script: &mut Script<'_>, now: Instant) -> Made {
        let (kind, extra) = (script.byte(), script.byte());
        let flags = self.flags(kind, script);
        let seq = self.next + number(script);
        let ack = self.sent + number(script);
        let len = script.pick(&LENGTHS);
        let window = if extra & 1 == 0 { script.pick(&WINDOWS) } else { script.word() };
        let mut options = Options::default();
        if flags.contains(Flags::SYN) {
            options = self.syn_options(script);
        }
        options.timestamps = match extra >> 1 & 3 {
            0 => self.timestamps(now, 0),
            1 => None,
            2 => self.timestamps(now, number(script)),
            _ => Some(Timestamps { value: number(script), echo: number(script) }),
        };
        if flags.contains(Flags::SYN) && extra & 6 == 0 {
            options.timestamps =
                Some(Timestamps { value: millis(now), echo: self.clock.unwrap_or_default() });
        }
        if extra & 8 != 0 {
            options.sack = self.sack(script);
        }
        let ecn =
            [Ecn::NotCapable, Ecn::Capable, Ecn::Experienced, Ecn::Capable1][usize::from(extra >> 4 & 3)];
        let header = Header { seq, ack, flags, window, options, ecn, urgent: window, ..self.plain() };
        let first = seq.to_u32().wrapping_add(u32::from(flags.contains(Flags::SYN)));
        Made { header, payload: (0..u32::from(len)).map(|i| byte(first.wrapping_add(i))).collect() }
    }

    fn plain(&self) -> Header {
        Header { source: self.tuple.remote.port, destination: self.tuple.local.port, ..Header::default() }
    }

    fn flags(&self, kind: u8, script: &mut Script<'_>) -> Flags {
        let ack = Flags::ACK;
        match kind % 16 {
            0 => ack,
            1 => ack | Flags::PSH,
            2 => ack | Flags::FIN,
            3 => Flags::SYN,
            4 => Flags::SYN | ack,
            5 => Flags::RST,
            6 => Flags::RST | ack,
            7 => Flags::NONE,
            8 => Flags::FIN,
            9 => ack | Flags::URG,
            10 => ack | Flags::ECE,
            11 => ack | Flags::CWR,
            12 => Flags::SYN | Flags::ECE | Flags::CWR,
            13 => Flags::SYN | Flags::RST,
            14 => Flags::SYN | Flags::FIN,
            _ => any_flags(script.byte()),
        }
    }

    fn syn_options(&self, script: &mut Script<'_>) -> Options {
        let (which, more) = (script.byte(), script.byte());
        let cookie = match more & 3 {
            0 => None,
            1 => Some(Cookie::REQUEST),
            2 => Some(self.cookie),
            _ => Cookie::new(script.bytes(8)),
        };
        Options {
            mss: MSS[usize::from(which & 7)],
            window_scale: SCALES[usize::from(which >> 3 & 7)],
            sack_permitted: which & 64 == 0,
            fast_open: cookie,
            ..Options::default()
        }
    }

    /// Returns timestamps of a peer's clock, which runs with the endpoint's time; `off` is their error.
    fn timestamps(&self, now: Instant, off: u32) -> Option<Timestamps> {
        self.clock.map(|echo| Timestamps { value: millis(now).wrapping_add(off), echo })
    }

    fn sack(&self, script: &mut Script<'_>) -> SackBlocks {
        let block = |script: &mut Script<'_>| {
            let start = self.sent - u32::from(script.word());
            SeqRange::new(start, start + u32::from(script.word()))
        };
        (0..=script.byte() % 4).map(|_| block(script)).collect()
    }

    /// Returns the number of a segment that may be on its way to this peer.
    pub(super) fn guess(&self, script: &mut Script<'_>) -> SeqNumber {
        self.sent - 1 - number(script)
    }

    /// Records a segment that was given to the endpoint.
    pub(super) fn note_given(&mut self, segment: &Segment<'_>) {
        let header = &segment.header;
        self.given.push(segment.range());
        self.fin |= header.flags.contains(Flags::FIN);
        if header.flags.contains(Flags::SYN) {
            self.syn_window = self.syn_window.max(header.window);
            self.shift_max = self.shift_max.max(header.options.window_scale.unwrap_or_default().min(14));
        }
        // A number further back than a window is not accepted.
        if header.flags.contains(Flags::ACK) && self.sent.to_u32().wrapping_sub(header.ack.to_u32()) < 1 << 29
        {
            let shift = self.shift.map_or(0, |_| self.shift_max);
            let edge = header.ack + (u32::from(header.window) << shift);
            self.offered = Some(self.offered.map_or(edge, |offered| offered.max(edge)));
        }
    }

    /// Records that the endpoint accepted an acknowledgment as the end of a handshake that it remembered:
    /// that of its last SYN-ACK, which gave the window. The segment itself may begin anywhere in the window,
    /// or before it.
    pub(super) fn note_established(&self, header: &Header) {
        assert_eq!(self.iss, Some(header.ack - 1), "{header:?} acknowledges no SYN of the endpoint's");
    }

    /// Records that the endpoint accepted an acknowledgment as one for a cookie, perhaps one that it never
    /// gave, and with made-up options. Everything that it knows of the connection comes from this segment;
    /// `syn_window` and `shift` are its values in every such case.
    pub(super) fn note_cookie(&mut self, header: &Header, syn_window: u16, shift: Option<u8>) {
        (self.iss, self.sent) = (Some(header.ack - 1), header.ack);
        self.given.push(SeqRange::at(header.seq - 1, 1));
        (self.edge, self.exact) = (Some(header.seq + u32::from(syn_window)), false);
        (self.shift, self.shift_max) = (shift, 14);
        self.offered = Some(header.ack + (u32::from(header.window) << self.shift_max));
    }

    /// Records that the endpoint has opened the connection, and has accepted our SYN. Its own SYN gave the
    /// window after it.
    pub(super) fn note_answered(&mut self, header: &Header, syn_window: u16) {
        self.edge = Some(header.seq + 1 + u32::from(syn_window));
        self.exact = self.iss.is_some_and(|iss| self.sent == iss + 1);
        self.shift = self.shift.filter(|_| header.options.window_scale.is_some());
    }

    /// Returns the number up to which the endpoint has to take a segment, because the window admits it and
    /// the segment begins at the next expected number; `None` if the endpoint need not take it.
    pub(super) fn must_take(&self, segment: &Segment<'_>, next: SeqNumber) -> Option<SeqNumber> {
        let (header, plain) = (&segment.header, [Flags::ACK, Flags::ACK | Flags::PSH]);
        let known = self.exact && !self.fin && plain.contains(&header.flags) && header.seq == next;
        self.edge.filter(|_| known && header.ack == self.sent).map(|edge| edge.min(segment.range().end))
    }

    // --- What it hears ---

    /// Handles a segment from the endpoint.
    pub(super) fn hear(&mut self, segment: &Segment<'_>) {
        let header = &segment.header;
        if header.flags.contains(Flags::RST) {
            assert!(segment.is_empty() && !header.flags.contains(Flags::SYN));
            return;
        }
        self.clock = header.options.timestamps.map(|timestamps| timestamps.value);
        self.cookie = header.options.fast_open.filter(|cookie| !cookie.is_request()).unwrap_or(self.cookie);
        if header.flags.contains(Flags::SYN) {
            self.hear_syn(segment);
        } else {
            assert!(header.flags.contains(Flags::ACK), "neither a SYN nor an ACK: {header:?}");
            self.hear_data(segment);
        }
        if header.flags.contains(Flags::ACK) {
            self.hear_ack(header);
        }
    }

    fn hear_syn(&mut self, segment: &Segment<'_>) {
        let header = &segment.header;
        assert!(segment.is_empty() && !header.flags.contains(Flags::FIN));
        let greeted = header.flags.contains(Flags::ACK).then_some(header.ack);
        // Another connection can have the same number at that time, and may then have a smaller window than
        // before.
        let known = self.iss == Some(header.seq);
        let again = known && greeted.is_some() && self.greeted == greeted;
        let edge = header.ack + u32::from(header.window);
        self.exact = greeted.is_some() && (!known || again && self.exact && self.edge == Some(edge));
        self.edge = self.edge.filter(|_| again);
        if !known {
            (self.iss, self.sent, self.offered, self.fin) = (Some(header.seq), header.seq + 1, None, false);
        }
        (self.greeted, self.shift) = (greeted, header.options.window_scale);
        let edge = header.seq + 1 + u32::from(self.syn_window);
        self.offered = Some(self.offered.map_or(edge, |offered| offered.max(edge)));
        self.sent = self.sent.max(header.seq + 1);
    }

    /// Checks that the data is what the user wrote, and within the window.
    fn hear_data(&mut self, segment: &Segment<'_>) {
        let Some(iss) = self.iss else { panic!("data before the SYN") };
        let (header, range) = (&segment.header, segment.range());
        let first = header.seq.to_u32().wrapping_sub(iss.to_u32() + 1);
        for (i, sent) in (0..).zip(segment.payload[0]) {
            let place = first.wrapping_add(i);
            assert_eq!(*sent, byte(place), "byte {place} is not what was written");
        }
        if !range.is_empty() {
            let Some(offered) = self.offered else { panic!("data without a window") };
            assert!(range.end.at_or_before(offered), "{range:?} is beyond the window, {offered:?}");
            self.sent = self.sent.max(range.end);
        }
    }

    /// Checks that only sent bytes within the window are acknowledged. A window is never taken back, except
    /// for the rounding of its scale (RFC 7323, 2.4).
    fn hear_ack(&mut self, header: &Header) {
        let ack = header.ack;
        let last = ack - 1;
        assert!(
            self.given.iter().any(|range| last.within(range.start, range.len())),
            "{ack:?} acknowledges what was never sent"
        );
        let syn = header.flags.contains(Flags::SYN);
        let shift = self.shift.filter(|_| !syn).unwrap_or_default();
        let edge = ack + (u32::from(header.window) << shift);
        if let Some(before) = self.edge {
            // A FIN takes room like a byte.
            assert!(ack.at_or_before(before), "{ack:?} is beyond what was let in, {before:?}");
            let kept = syn || !self.exact || (edge + (1 << shift)).after(before);
            assert!(kept, "what was let in, {before:?}, no longer is: {edge:?}");
        }
        self.edge = Some(self.edge.map_or(edge, |before| before.max(edge)));
        self.next = ack;
    }

    pub(super) const fn sent(&self) -> SeqNumber {
        self.sent
    }

    pub(super) const fn iss(&self) -> Option<SeqNumber> {
        self.iss
    }
}

/// Returns a number with a known error; from 240 on, any number.
fn number(script: &mut Script<'_>) -> u32 {
    let which = script.byte();
    if which < 240 {
        OFF[usize::from(which) % OFF.len()]
    } else {
        u32::from(script.word()) << 16 | u32::from(script.word())
    }
}

fn any_flags(bits: u8) -> Flags {
    let all =
        [Flags::FIN, Flags::SYN, Flags::RST, Flags::PSH, Flags::ACK, Flags::URG, Flags::ECE, Flags::CWR];
    let set = (0..8).zip(all).filter(|(bit, _)| bits >> bit & 1 == 1);
    set.fold(Flags::NONE, |flags, (_, flag)| flags | flag)
}

const fn millis(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}
