use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::table::slot_bytes;
use crate::tuple::tests::{flags as flags_of, tuple};

const SND_NXT: SeqNumber = SeqNumber::new(7_000);
const RCV_NXT: SeqNumber = SeqNumber::new(2);
const TS_RECENT: u32 = 1_000;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn numbers() -> InitialSequence {
    InitialSequence::new(Secret::new([1; 16]))
}

struct Bench {
    waiting: TimeWait,
    counters: Counters,
}

impl Bench {
    fn new(config: TimeWaitConfig) -> Self {
        Self { waiting: TimeWait::new(config, Secret::new([2; 16]), numbers()), counters: Counters::new() }
    }

    /// With one connection, since the start of time.
    fn with_one(ts_recent: Option<u32>) -> Self {
        let mut bench = Self::new(TimeWaitConfig::default());
        bench.enter(0, 0, ts_recent);
        bench
    }

    fn enter(&mut self, millis: u64, n: u16, ts_recent: Option<u32>) {
        let remains = Remains { snd_nxt: SND_NXT, rcv_nxt: RCV_NXT, window: 500, ts_recent };
        self.waiting.enter(tuple(n), &remains, at(millis), &mut self.counters);
    }

    fn input(&mut self, millis: u64, header: Header, payload: &[u8]) -> Answer {
        let id = self.waiting.find(&tuple(0)).unwrap();
        let segment = Segment { header, payload: [payload, b""] };
        self.waiting.handle_segment(id, &segment, at(millis), &mut self.counters)
    }

    fn expired(&mut self, millis: u64) -> Vec<FourTuple> {
        core::iter::from_fn(|| self.waiting.poll_expired(at(millis), &mut self.counters)).collect()
    }

    fn count(&self, counter: Counter) -> u64 {
        self.counters.get(counter)
    }
}

fn header(flags: Flags, seq: SeqNumber, timestamp: Option<u32>) -> Header {
    let timestamps = timestamp.map(|value| Timestamps { value, echo: 0 });
    Header {
        flags,
        seq,
        ack: SND_NXT,
        options: Options { timestamps, ..Options::default() },
        ..Header::default()
    }
}

fn fin(timestamp: Option<u32>) -> Header {
    header(Flags::FIN | Flags::ACK, RCV_NXT - 1, timestamp)
}

const REOPEN: Answer = Answer::Reopen { previous: SND_NXT };

#[test]
fn a_connection_costs_at_most_88_bytes() {
    assert!(slot_bytes::<Entry>() <= 88, "{}", slot_bytes::<Entry>());
}

#[test]
fn the_wait_is_60_s_from_entering() {
    let mut bench = Bench::new(TimeWaitConfig::default());
    bench.enter(0, 0, None);
    bench.enter(10, 1, None);
    assert_eq!(bench.waiting.next_deadline(), Some(at(60_000)));
    assert_eq!(bench.expired(59_999), []);
    assert_eq!(bench.expired(60_000), [tuple(0)]);
    assert_eq!(bench.expired(70_000), [tuple(1)]);
    assert_eq!((bench.count(Counter::Tw), bench.waiting.len(), bench.waiting.next_deadline()), (2, 0, None));
}

#[test]
fn the_peers_fin_again_is_acknowledged_and_the_wait_begins_anew() {
    let mut bench = Bench::with_one(Some(TS_RECENT));
    bench.enter(500, 1, None);
    let timestamps = Timestamps { value: numbers().timestamp(&tuple(0), at(1_000)), echo: TS_RECENT };
    let expected = Header {
        source: 80,
        destination: tuple(0).remote.port,
        seq: SND_NXT,
        ack: RCV_NXT,
        flags: Flags::ACK,
        window: 500,
        options: Options { timestamps: Some(timestamps), ..Options::default() },
        ..Header::default()
    };
    assert_eq!(bench.input(1_000, fin(Some(TS_RECENT)), b""), Answer::Send(expected));
    // Each time: the peer sends it again because it heard nothing.
    assert!(matches!(bench.input(1_001, fin(Some(TS_RECENT)), b""), Answer::Send(_)));
    // With the last bytes in front of it, too.
    let with_data = Header { seq: RCV_NXT - 4, ..fin(Some(TS_RECENT)) };
    assert!(matches!(bench.input(1_002, with_data, b"end"), Answer::Send(_)));
    assert_eq!(bench.expired(61_001), [tuple(1)]);
    assert_eq!(bench.expired(61_002), [tuple(0)]);
}

/// RFC 1337, 2: the three hazards all begin with a reset that ends the wait early.
#[test]
fn no_reset_ends_the_wait() {
    let mut bench = Bench::with_one(None);
    for seq in [RCV_NXT, RCV_NXT - 1, RCV_NXT + 100] {
        assert_eq!(bench.input(1, header(Flags::RST, seq, None), b""), Answer::Nothing);
        assert_eq!(
            bench.input(1, header(Flags::RST | Flags::ACK | Flags::SYN, seq, None), b""),
            Answer::Nothing
        );
    }
    assert_eq!((bench.waiting.len(), bench.count(Counter::TimeWaitResets)), (1, 6));
    assert_eq!(bench.waiting.next_deadline(), Some(at(60_000)));
}

#[test]
fn nothing_but_the_fin_prolongs_the_wait() {
    let mut bench = Bench::with_one(Some(TS_RECENT));
    let now = Some(TS_RECENT + 1);
    for (header, payload) in [
        (header(Flags::ACK, RCV_NXT, now), &b""[..]),
        (header(Flags::ACK, RCV_NXT - 10, now), b"0123456789"),
        (header(Flags::ACK, RCV_NXT, now), b"more"),
        (header(Flags::FIN | Flags::ACK, RCV_NXT, now), b""),
        (header(Flags::FIN | Flags::ACK, RCV_NXT - 1, Some(TS_RECENT - 1)), b""),
        (header(Flags::SYN, RCV_NXT - 1, Some(TS_RECENT - 1)), b""),
    ] {
        bench.input(1_000, header, payload);
        assert_eq!(bench.waiting.next_deadline(), Some(at(60_000)), "{header:?}");
    }
}

#[test]
fn an_ack_of_our_fin_needs_no_answer() {
    let mut bench = Bench::with_one(None);
    assert_eq!(bench.input(1, header(Flags::ACK, RCV_NXT, None), b""), Answer::Nothing);
    assert_eq!(bench.input(1, header(Flags::NONE, RCV_NXT, None), b"x"), Answer::Nothing);
    assert_eq!(bench.counters, Counters::new());
}

/// Two ends that each hold the other's for wrong: without a limit this would go on for a minute, as fast as
/// the wire is.
#[test]
fn acks_do_not_go_to_and_fro() {
    let mut bench = Bench::with_one(None);
    let wrong = Header { ack: SND_NXT + 1, ..header(Flags::ACK, RCV_NXT, None) };
    let answers = (0..2_000).filter(|&ms| bench.input(ms, wrong, b"") != Answer::Nothing).count();
    assert_eq!(answers, 4);
    assert_eq!(bench.count(Counter::AckSkippedTimeWait), 1_996);
}

#[test]
fn an_old_timestamp_is_answered_but_not_believed() {
    let mut bench = Bench::with_one(Some(TS_RECENT));
    let old = header(Flags::ACK, RCV_NXT, Some(TS_RECENT - 1));
    assert!(matches!(bench.input(1, old, b""), Answer::Send(_)));
    assert_eq!(bench.count(Counter::PawsEstab), 1);
}

/// RFC 6191, 2, case by case.
#[test]
fn a_syn_that_cannot_be_old_begins_a_new_incarnation() {
    let (earlier, same, later) = (Some(TS_RECENT - 1), Some(TS_RECENT), Some(TS_RECENT + 1));
    let (old, new) = (RCV_NXT - 1, RCV_NXT + 100_000);
    for (before, seq, timestamp, reopens) in [
        // The old one had timestamps.
        (Some(TS_RECENT), old, later, true),
        (Some(TS_RECENT), old, same, false),
        (Some(TS_RECENT), new, same, true),
        (Some(TS_RECENT), new, earlier, false),
        (Some(TS_RECENT), new, None, true),
        (Some(TS_RECENT), old, None, false),
        // It had none.
        (None, old, later, true),
        (None, new, None, true),
        (None, old, None, false),
    ] {
        let mut bench = Bench::with_one(before);
        let answer = bench.input(1, header(Flags::SYN, seq, timestamp), b"");
        assert_eq!(answer == REOPEN, reopens, "{before:?} {seq:?} {timestamp:?}");
        if !reopens {
            let Answer::Send(ack) = answer else { panic!() };
            assert_eq!((ack.flags, ack.seq, ack.ack), (Flags::ACK, SND_NXT, RCV_NXT), "RFC 5961, 4");
        }
        assert_eq!(bench.waiting.len(), 1, "until the listener has taken it");
    }
}

#[test]
fn with_timestamps_the_last_one_seen_counts() {
    let mut bench = Bench::with_one(Some(TS_RECENT));
    bench.input(1, header(Flags::ACK, RCV_NXT, Some(TS_RECENT + 50)), b"");
    assert_ne!(bench.input(1, header(Flags::SYN, RCV_NXT - 1, Some(TS_RECENT + 50)), b""), REOPEN);
    assert_eq!(bench.input(1, header(Flags::SYN, RCV_NXT - 1, Some(TS_RECENT + 51)), b""), REOPEN);
}

#[test]
fn what_is_not_a_plain_syn_reopens_nothing() {
    for flags in [Flags::SYN | Flags::ACK, Flags::SYN | Flags::FIN, Flags::SYN | Flags::RST] {
        let mut bench = Bench::with_one(None);
        assert_ne!(bench.input(1, header(flags, RCV_NXT + 10, None), b""), REOPEN);
    }
}

#[test]
fn a_new_incarnation_ends_the_wait_once_the_listener_has_taken_it() {
    let mut bench = Bench::with_one(None);
    let id = bench.waiting.find(&tuple(0)).unwrap();
    bench.waiting.recycle(id, &mut bench.counters);
    bench.waiting.recycle(id, &mut bench.counters);
    assert_eq!((bench.waiting.len(), bench.count(Counter::TwRecycled)), (0, 1));
    assert_eq!(bench.waiting.next_deadline(), None);
}

#[test]
fn beyond_the_limit_whoever_has_waited_longest_goes() {
    let mut bench = Bench::new(TimeWaitConfig { connections: 3, ..TimeWaitConfig::default() });
    for n in 0..5 {
        bench.enter(u64::from(n), n, None);
    }
    assert_eq!((bench.waiting.len(), bench.count(Counter::TimeWaitOverflow)), (3, 2));
    assert_eq!(bench.expired(100_000), [tuple(2), tuple(3), tuple(4)]);
}

#[test]
fn one_that_enters_again_waits_anew() {
    let mut bench = Bench::with_one(None);
    bench.enter(1_000, 0, None);
    assert_eq!((bench.waiting.len(), bench.waiting.next_deadline()), (1, Some(at(61_000))));
}

#[test]
fn no_room_at_all_means_no_wait() {
    let mut bench = Bench::new(TimeWaitConfig { connections: 0, ..TimeWaitConfig::default() });
    bench.enter(0, 0, None);
    assert_eq!((bench.waiting.len(), bench.waiting.next_deadline()), (0, None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Against a list of deadlines: any segment at any time for any connection, and only the peer's FIN and
    /// the limit move anything.
    #[test]
    fn only_time_the_fin_and_the_limit_end_or_prolong_a_wait(
        steps in prop::collection::vec(
            (0..10_u16, any::<u8>(), -3..4_i64, 0..3_usize, 0..20_000_u64, any::<bool>()),
            1..100,
        ),
    ) {
        let mut bench = Bench::new(TimeWaitConfig { connections: 6, ..TimeWaitConfig::default() });
        let mut model = BTreeMap::<u16, u64>::new();
        let mut now = 0;
        for (n, flags, offset, payload, pass, enters) in steps {
            now += pass;
            let flags = flags_of(flags);
            let mut gone = bench.expired(now);
            gone.sort_unstable();
            let due = model.iter().filter(|entry| *entry.1 <= now);
            let mut expected: Vec<_> = due.map(|entry| tuple(*entry.0)).collect();
            expected.sort_unstable();
            prop_assert_eq!(gone, expected);
            model.retain(|_, deadline| *deadline > now);
            if enters && !model.contains_key(&n) {
                if model.len() == 6 {
                    let oldest = model.iter().min_by_key(|entry| *entry.1).map(|entry| *entry.1).unwrap();
                    let before = model.len();
                    bench.enter(now, n, None);
                    // Of several that have waited equally long, the first to enter goes.
                    let waits = |m| bench.waiting.find(&tuple(m)).is_some();
                    model.retain(|&m, &mut deadline| deadline != oldest || waits(m));
                    prop_assert_eq!(model.len(), before - 1);
                } else {
                    bench.enter(now, n, None);
                }
                model.insert(n, now + 60_000);
            } else if let Some(id) = bench.waiting.find(&tuple(n)) {
                let seq = SeqNumber::new(RCV_NXT.to_u32().wrapping_add(offset as u32));
                let header = header(flags, seq, None);
                let segment = Segment { header, payload: [&b"xyz"[..payload], b""] };
                bench.waiting.handle_segment(id, &segment, at(now), &mut bench.counters);
                let plain_fin = flags.contains(Flags::FIN) && !flags.intersects(Flags::SYN | Flags::RST);
                if plain_fin && offset + payload as i64 + 1 == 0 {
                    model.insert(n, now + 60_000);
                }
            }
            let earliest = model.values().min().map(|&deadline| at(deadline));
            prop_assert_eq!(bench.waiting.next_deadline(), earliest);
            for n in 0..10 {
                prop_assert_eq!(bench.waiting.find(&tuple(n)).is_some(), model.contains_key(&n));
            }
        }
    }
}
