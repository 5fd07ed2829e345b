//! The tables and timers next to TCP's connections: each stage with few and with many idle connections. The
//! two must cost the same in instructions. In time they may differ: data that are used rarely may have left
//! the processor's caches.

use std::hint::black_box;

use evenkeel_core::tcp::listener::Arrival;
use evenkeel_core::tcp::time_wait::Remains;
use evenkeel_core::tcp::{
    Counters, Flags, FourTuple, Header, InitialSequence, Listener, ListenerConfig, Options, Secret, Segment,
    SeqNumber, Table, TimeWait, TimeWaitConfig, Wheel,
};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, Ipv4Address};

use crate::batch::{BATCH, Batch, Stage, each};

/// The numbers of idle connections: few and many.
const IDLE: [u32; 2] = [1_000, 100_000];

pub(crate) fn stages() -> Vec<Stage> {
    type Among = fn(u32) -> Box<dyn Batch>;
    let among: [([&str; 2], Among); 7] = [
        (["TCP table: find one of 1 000", "TCP table: find one of 100 000"], |n| Box::new(find_any(n))),
        (["TCP table: find, 64 busy of 1 000", "TCP table: find, 64 busy of 100 000"], |n| {
            Box::new(find_busy(n))
        }),
        (["TCP table: add, remove; 1 000", "TCP table: add, remove; 100 000"], |n| {
            Box::new(insert_and_remove(n))
        }),
        (["TCP timer: none expired of 1 000", "TCP timer: none expired of 100 000"], |n| {
            Box::new(nothing_expired(n))
        }),
        (["TCP timer: put off one of 1 000", "TCP timer: put off one of 100 000"], |n| Box::new(put_off(n))),
        (["TCP timer: set, expire; 1 000", "TCP timer: set, expire; 100 000"], |n| {
            Box::new(set_and_expire(n))
        }),
        (["TCP TIME-WAIT: enter, leave; 1 000", "TCP TIME-WAIT: enter, leave; 100 000"], |n| {
            Box::new(enter_and_leave(n))
        }),
    ];
    let among = among.into_iter().flat_map(|(names, make)| {
        names.into_iter().zip(IDLE).map(move |(name, idle)| Stage::new(name, move || make(idle)))
    });
    let others = [
        Stage::new("TCP SYN: the SYN queue has room", half_open),
        Stage::new("TCP SYN: it is full, a cookie", cookie),
        Stage::new("TCP ACK: no cookie of ours", no_cookie),
    ];
    among.chain(others).collect()
}

const fn secret() -> Secret {
    Secret::new([0x5a; 16])
}

fn tuple(n: u32) -> FourTuple {
    let remote = Ipv4Address::from_bits(0x0b00_0000 + n / 50_000);
    FourTuple::new((IpAddress::v4(10, 0, 0, 2), 80), (remote, (1_024 + n % 50_000) as u16))
}

fn table(entries: u32) -> Table<u32> {
    let mut table = Table::new(secret(), 1 << 20);
    for n in 0..entries {
        table.insert(tuple(n), n).unwrap();
    }
    table
}

fn find_busy(idle: u32) -> impl Batch {
    let table = table(idle);
    let busy: Vec<_> = (0..BATCH as u32).map(|i| tuple(i * (idle / BATCH as u32))).collect();
    each(move |i| _ = black_box(table.find(black_box(&busy[i])).unwrap()))
}

fn find_any(idle: u32) -> impl Batch {
    let table = table(idle);
    let mut next = 0_u32;
    each(move |_| {
        next = next.wrapping_add(0x9e37_79b1);
        _ = black_box(table.find(black_box(&tuple(next % idle))).unwrap());
    })
}

fn insert_and_remove(idle: u32) -> impl Batch {
    let mut table = table(idle);
    let mut next = idle;
    each(move |_| {
        next += 1;
        let id = table.insert(tuple(next), next).unwrap();
        black_box(table.remove(id));
    })
}

/// Creates a wheel of keepalive timers of two hours, which began at different times.
fn wheel(timers: u32) -> Wheel {
    let mut wheel = Wheel::new();
    for n in 0..timers {
        wheel.set(n, Instant::from_millis(7_200_000 + u64::from(n) * 7_200_000 / u64::from(timers)));
    }
    wheel
}

/// Returns a batch of polls of a timer wheel in which nothing has expired, as at every work item of a host.
fn nothing_expired(idle: u32) -> impl Batch {
    let mut wheel = wheel(idle);
    let mut now = Instant::ZERO;
    each(move |_| {
        now += Duration::from_nanos(100);
        assert_eq!(black_box(wheel.poll_expired(now)), None);
    })
}

/// Returns a batch that sets a timer anew, as every ACK of new data sets the retransmission timer.
fn put_off(idle: u32) -> impl Batch {
    let mut wheel = wheel(idle);
    let mut now = Instant::ZERO;
    each(move |i| {
        now += Duration::from_micros(1);
        wheel.set(i as u32 * (idle / BATCH as u32), now + Duration::from_millis(200));
        black_box(wheel.poll_expired(now));
    })
}

fn set_and_expire(idle: u32) -> impl Batch {
    let mut wheel = wheel(idle);
    let mut now = Instant::ZERO;
    each(move |i| {
        let key = i as u32 * (idle / BATCH as u32);
        now += Duration::from_micros(10);
        wheel.set(key, now + Duration::from_micros(5));
        now += Duration::from_micros(10);
        assert_eq!(black_box(wheel.poll_expired(now)), Some(key));
    })
}

/// Measures connections in TIME-WAIT: one enters whenever one has waited a minute, so that their number stays
/// constant.
fn enter_and_leave(waiting: u32) -> impl Batch {
    let numbers = InitialSequence::new(secret());
    let mut all = TimeWait::new(TimeWaitConfig::default(), secret(), numbers);
    let mut counters = Counters::new();
    let remains =
        Remains { snd_nxt: SeqNumber::new(1), rcv_nxt: SeqNumber::new(2), window: 100, ts_recent: Some(3) };
    let step = Duration::from_secs(60) / waiting;
    let mut now = Instant::ZERO;
    let mut next = 0;
    let mut enter = move |leaves: bool| {
        now += step;
        next += 1;
        assert_eq!(all.poll_expired(now, &mut counters).is_some(), leaves);
        all.enter(tuple(next), &remains, now, &mut counters);
    };
    (0..waiting).for_each(|_| enter(false));
    each(move |_| enter(true))
}

fn segment(flags: Flags, seq: u32) -> Segment<'static> {
    let options = Options { mss: Some(1_460), ..Options::default() };
    Segment::bare(Header { flags, seq: SeqNumber::new(seq), options, ..Header::default() })
}

/// A listener, and one segment after the other for it, from as many peers.
struct Flood {
    listener: Listener,
    counters: Counters,
    now: Instant,
    next: u32,
}

impl Flood {
    fn new(config: ListenerConfig) -> Self {
        let listener = Listener::new(config, secret(), InitialSequence::new(secret()));
        Self { listener, counters: Counters::new(), now: Instant::ZERO, next: 0 }
    }

    fn next(&mut self, flags: Flags) {
        self.now += Duration::from_micros(1);
        self.next += 1;
        let segment = segment(flags, self.next);
        let arrival = Arrival { tuple: tuple(self.next), segment, mss: 1_460, previous: None, now: self.now };
        black_box(self.listener.handle_segment(black_box(&arrival), &mut self.counters));
    }
}

/// Measures SYNs whose half-open connections are dropped after a millisecond.
fn half_open() -> impl Batch {
    let wait = Duration::from_millis(1);
    let mut flood =
        Flood::new(ListenerConfig { syn_ack_retries: 0, syn_ack_timeout: wait, ..ListenerConfig::default() });
    each(move |_| {
        flood.next(Flags::SYN);
        assert_eq!(flood.listener.poll_transmit(flood.now, &mut flood.counters), None);
    })
}

fn cookie() -> impl Batch {
    let mut flood = Flood::new(ListenerConfig { syn_queue: 0, ..ListenerConfig::default() });
    each(move |_| flood.next(Flags::SYN))
}

fn no_cookie() -> impl Batch {
    let mut flood = Flood::new(ListenerConfig { syn_queue: 0, ..ListenerConfig::default() });
    flood.next(Flags::SYN);
    each(move |i| {
        // So that cookies stay in use.
        flood.next(if i == 0 { Flags::SYN } else { Flags::ACK });
    })
}
