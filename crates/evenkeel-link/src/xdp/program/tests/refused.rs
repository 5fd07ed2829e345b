//! Segments of no connection that the program drops, compared with a host that gets all of them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use evenkeel_core::tcp::cookie::SynCookies;
use evenkeel_core::tcp::endpoint::ListenAt;
use evenkeel_core::tcp::{Counter, Ecn, Endpoint, Flags, Header, KnownEnds, Segment, SeqNumber};
use evenkeel_core::time::{Duration, Instant};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::cookies::{
    Device, Listening, PORT, STOPPED, ends_of, finish_tcp, finish_v4, listening, segment_of,
};
use super::*;
use crate::clock::monotonic_nanos;

/// The channel and slot of the listener's segments that open no connection, in [`bind_all`].
const OTHERS: u32 = 5;

/// The part of a connection's life in which the host has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    HalfOpen,
    Established,
    TimeWait,
}

/// The origin of the numbers in a segment.
#[derive(Debug, Clone, Copy)]
enum Numbers {
    /// A cookie for this MSS that was made so many milliseconds before, or after, both numbers changed by so
    /// much.
    Cookie { mss: u16, age_ms: i64, wrong: [u32; 2] },
    /// Numbers of somebody who knows nothing.
    Random([u32; 2]),
}

/// A segment from a peer.
#[derive(Debug, Clone)]
struct Sent {
    ends: (u16, bool),
    flags: u8,
    numbers: Numbers,
    payload: usize,
}

fn numbers() -> impl Strategy<Value = Numbers> {
    let wrong = prop_oneof![
        4 => Just([0, 0]),
        1 => select(vec![[1, 0], [0, 1], [1, 1], [0, 8], [0, 1 << 24], [0, 2 << 24], [0, 255 << 24]]),
        1 => any::<[u32; 2]>(),
    ];
    let age_ms =
        prop_oneof![2 => 0..200_i64, 1 => -200..200_i64, 2 => 0..130_000_i64, 1 => 0..20_000_000_i64];
    let mss = select(vec![216, 536, 1_220, 1_460, 8_940]);
    prop_oneof![
        2 => (mss, age_ms, wrong).prop_map(|(mss, age_ms, wrong)| Numbers::Cookie { mss, age_ms, wrong }),
        1 => any::<[u32; 2]>().prop_map(Numbers::Random),
    ]
}

fn sent() -> impl Strategy<Value = Sent> {
    // A SYN without an ACK goes to another ring.
    let any_others = any::<u8>().prop_filter("opens a connection", |flags| flags & 0x12 != 2);
    let flags = prop_oneof![8 => Just(0x10), 4 => Just(0x18), 1 => any_others];
    let payload = prop_oneof![Just(0), 1..20_usize];
    ((10..70_u16, any::<bool>()), flags, numbers(), payload)
        .prop_map(|(ends, flags, numbers, payload)| Sent { ends, flags, numbers, payload })
}

/// A host that listens and has connections, and the ends of the connections.
struct Served<'a> {
    listening: &'a Listening,
    endpoint: Endpoint,
    at: ListenAt,
    known: BTreeSet<FourTuple>,
}

fn tuple_of((port, is_four): (u16, bool)) -> FourTuple {
    match is_four {
        true => FourTuple::new((v4(2), PORT), (v4(1), port)),
        false => FourTuple::new((v6(2), PORT), (v6(1), port)),
    }
}

/// Returns the frame of a segment that is sent to the local end of `tuple`.
fn frame_of(tuple: &FourTuple, header: Header, payload: &[u8]) -> Vec<u8> {
    let (from, to) = (tuple.remote, tuple.local);
    let header = Header { source: from.port, destination: to.port, window: 500, ..header };
    let mut bytes = [0; 60];
    let len = Segment::bare(header).emit(&mut bytes, from.addr, to.addr).unwrap();
    let segment = [&bytes[..len], payload].concat();
    let mut frame = match (from.addr, to.addr) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ipv4(from, to, 6, 0, 0x4000, &segment),
        (IpAddr::V6(from), IpAddr::V6(to)) => ipv6(from, to, 6, &segment),
        other => panic!("{other:?}"),
    };
    finish_v4(&mut frame);
    finish_tcp(&mut frame, true);
    frame
}

impl<'a> Served<'a> {
    fn new(listening: &'a Listening, record: Arc<dyn KnownEnds>) -> Self {
        let (mut endpoint, at) = listening.endpoint(100);
        endpoint.record_ends(&record);
        endpoint.expect_cookies(&at, 1, listening.now);
        Self { listening, endpoint, at, known: BTreeSet::new() }
    }

    fn input(&mut self, frame: &[u8], now: Instant) {
        self.endpoint.input(segment_of(frame), &self.listening.packet(ends_of(frame)), now);
    }

    /// Returns the header of the next segment that the host sends.
    fn output(&mut self, now: Instant) -> Option<Header> {
        let mut bytes = [0; 60];
        let sent = self.endpoint.poll_transmit(now, &(), &mut bytes)?;
        let (from, to) = (sent.tuple.local.addr, sent.tuple.remote.addr);
        Some(Segment::parse(&bytes[..sent.len], from, to, Ecn::NotCapable).unwrap().header)
    }

    /// Brings a connection up to a stage.
    fn have(&mut self, ends: (u16, bool), stage: Stage, now: Instant) {
        let (tuple, seq) = (tuple_of(ends), SeqNumber::new(1));
        if !self.known.insert(tuple) {
            return;
        }
        let send = |served: &mut Self, flags, seq, ack| {
            let header = Header { seq, ack, flags, ..Header::default() };
            served.input(&frame_of(&tuple, header, &[]), now);
        };
        send(self, Flags::SYN, seq, SeqNumber::new(0));
        let syn_ack = self.output(now).unwrap();
        if stage == Stage::HalfOpen {
            return;
        }
        send(self, Flags::ACK, seq + 1, syn_ack.seq + 1);
        let id = self.endpoint.accept(&self.at).unwrap();
        if stage == Stage::Established {
            return;
        }
        self.endpoint.close(id, now);
        let fin = self.output(now).unwrap();
        assert!(fin.flags.contains(Flags::FIN));
        send(self, Flags::FIN | Flags::ACK, seq + 1, fin.seq + 1);
        self.output(now).unwrap();
        assert!(!self.endpoint.has(&tuple), "it is in TIME-WAIT");
    }

    /// Returns the frame of a segment.
    fn frame(&self, sent: &Sent) -> Vec<u8> {
        let tuple = tuple_of(sent.ends);
        let (seq, ack) = match sent.numbers {
            Numbers::Random([seq, ack]) => (seq, ack),
            Numbers::Cookie { mss, age_ms, wrong } => {
                let now_ms = self.listening.now.as_nanos() / 1_000_000;
                let made = Instant::from_millis(now_ms.saturating_add_signed(-age_ms));
                let cookies = SynCookies::new(Secret::new(self.listening.secret));
                let irs = SeqNumber::new(77);
                let cookie = cookies.make(&tuple, irs, mss, made).unwrap();
                ((irs + 1 + wrong[0]).to_u32(), (cookie + 1 + wrong[1]).to_u32())
            }
        };
        let flags = Flags::from_bits(sent.flags);
        let header =
            Header { seq: SeqNumber::new(seq), ack: SeqNumber::new(ack), flags, ..Header::default() };
        frame_of(&tuple, header, &[7; 20][..sent.payload])
    }

    /// Asserts that the host drops a segment without an answer.
    fn refuses(&mut self, sent: &Sent, frame: &[u8], now: Instant) {
        assert!(!self.known.contains(&tuple_of(sent.ends)), "{sent:?} is of a connection");
        assert!(self.output(now).is_none());
        let before = self.endpoint.len();
        let failed = |endpoint: &Endpoint| endpoint.counters().get(Counter::SyncookiesFailed);
        let failed_before = failed(&self.endpoint);
        self.input(frame, now);
        assert_eq!((self.endpoint.len(), self.output(now)), (before, None), "{sent:?}");
        let is_ack = sent.flags & 0x14 == 0x10;
        assert_eq!(failed(&self.endpoint) - failed_before, u64::from(is_ack), "{sent:?}");
    }
}

fn stage() -> impl Strategy<Value = Stage> {
    select(vec![Stage::HalfOpen, Stage::Established, Stage::TimeWait])
}

/// Times at the edges of epochs, where the host and the program may see different ones.
fn at_an_edge(mut listening: Listening, minutes: u16, off_ms: i16) -> Listening {
    let now = Instant::from_millis((u64::from(minutes) + 5) * 60_000).as_nanos();
    let now = now.saturating_add_signed(i64::from(off_ms) * 1_000_000);
    listening.now = Instant::from_nanos(now);
    listening
}

fn listening_at_edges() -> impl Strategy<Value = Listening> {
    let off_ms = prop_oneof![-30..30_i16, -1_100..100_i16, any::<i16>()];
    (listening(), any::<u16>(), off_ms)
        .prop_map(|(listening, minutes, off)| at_an_edge(listening, minutes, off))
}

impl Device {
    /// Half fills the ring of the listener's other segments, and lets the program refuse some. Returns the
    /// time on the machine's clock that is `now` on the host's.
    fn press_others(&self, mark: &Mark, now: Instant) -> u64 {
        let header = Header { flags: Flags::ACK, ..Header::default() };
        mark.level();
        mark.answer_syns(None, || 0);
        let filler = frame_of(&tuple_of((5, true)), header, &[]);
        assert_eq!(self.run(&filler).0, XDP_REDIRECT, "the ring is empty");
        let start = monotonic_nanos();
        mark.answer_syns(Some(now), || start);
        start
    }

    fn refused(&self) -> u64 {
        dropped(&self.pair.program)[6]
    }
}

/// The host would drop all that the program drops: no segment of a connection, no good cookie.
#[test]
fn the_program_refuses_only_what_the_host_would() {
    let Some(device) = Device::load() else { return };
    let device = RefCell::new(device);
    // Dropped, good cookies, of connections, and left to the host for no reason.
    let seen = [const { Cell::new(0) }; 4];
    let count = |at: usize| seen[at].set(seen[at].get() + 1);
    let cases =
        (listening_at_edges(), vec(((10..70_u16, any::<bool>()), stage()), 0..20), vec(sent(), 1..60));
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let compared = TestRunner::new(config).run(&cases, |(listening, connections, all)| {
        let device = &mut *device.borrow_mut();
        device.listen(&listening);
        let socket = device.socket.as_fd();
        let mark = device.pair.program.set_socket(0, OTHERS, socket, 2).unwrap();
        let mut served = Served::new(&listening, device.pair.program.known_ends());
        connections.into_iter().for_each(|(ends, stage)| served.have(ends, stage, listening.now));
        let mut passed = BTreeMap::new();
        for sent in all {
            let (tuple, frame) = (tuple_of(sent.ends), served.frame(&sent));
            let start = device.press_others(&mark, listening.now);
            let before = device.refused();
            let (verdict, out) = device.run(&frame);
            let since = Duration::from_nanos(monotonic_nanos() - start);
            if since > STOPPED {
                continue;
            }
            let now = listening.now + since;
            assert_eq!(out, frame);
            assert_eq!(device.refused() - before, u64::from(verdict == XDP_DROP), "{sent:?}");
            if verdict == XDP_DROP {
                let last = passed.get(&tuple).copied().unwrap_or_default();
                assert!(start - last > 900_000_000, "{sent:?} follows one that the host has not seen");
                served.refuses(&sent, &frame, now);
                count(0);
                continue;
            }
            assert_eq!(verdict, XDP_REDIRECT);
            if sent.flags & 2 == 0 {
                passed.insert(tuple, start);
            }
            if served.known.contains(&tuple) {
                count(2);
            } else if sent.flags & 0x16 == 0x10 {
                let header =
                    Segment::parse(segment_of(&frame), tuple.remote.addr, tuple.local.addr, Ecn::NotCapable);
                let Header { seq, ack, .. } = header.unwrap().header;
                let cookies = SynCookies::new(Secret::new(listening.secret));
                let is_good = cookies.check(&tuple, seq - 1, ack - 1, now).is_some();
                count(if is_good { 1 } else { 3 });
            }
        }
        Ok(())
    });
    compared.unwrap();
    let [dropped, good, known, needless] = seen.map(Cell::into_inner);
    assert!(dropped > 500 && good > 500 && known > 200, "{dropped}, {good}, {known}");
    // Of peers that have just brought a good cookie, or by chance.
    assert!(needless < dropped, "{needless} of {dropped}");
}
