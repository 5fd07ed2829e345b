//! Segments that a stranger can send repeatedly take no memory beyond the tables, once those have had their
//! full size.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::net::Ipv6Addr;

use allocation_counter::measure;
use evenkeel_core::tcp::listener::{Arrival, Reaction};
use evenkeel_core::tcp::time_wait::Remains;
use evenkeel_core::tcp::{
    Counter, Counters, Flags, FourTuple, Header, InitialSequence, Listener, ListenerConfig, Options, Secret,
    Segment, SeqNumber, Table, TimeWait, TimeWaitConfig, Timestamps, Wheel,
};
use evenkeel_core::time::{Duration, Instant};

const WARM_UP: u32 = 20_000;
const MEASURED: u32 = 20_000;

fn tuple(n: u32) -> FourTuple {
    let remote = Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(n));
    FourTuple::new((Ipv6Addr::from_bits(0xfd00 << 112 | 1 << 64), 80), (remote, 4_321))
}

fn secret() -> Secret {
    Secret::new([7; 16])
}

/// Runs `step` until everything has had its full size, then returns how often it allocated.
fn allocations(mut step: impl FnMut(u32)) -> u64 {
    (0..WARM_UP).for_each(&mut step);
    measure(|| (WARM_UP..WARM_UP + MEASURED).for_each(&mut step)).count_total
}

#[test]
fn a_flood_of_syns_allocates_nothing() {
    for syn_cookies in [true, false] {
        let config = ListenerConfig { syn_queue: 200, syn_cookies, ..ListenerConfig::default() };
        let mut listener = Listener::new(config, secret(), InitialSequence::new(secret()));
        let mut counters = Counters::new();
        let mut established = 0;
        let allocated = allocations(|n| {
            let now = Instant::from_millis(u64::from(n) * 20);
            let timestamps = Some(Timestamps { value: n, echo: 0 });
            let options = Options { mss: Some(1_460), timestamps, ..Options::default() };
            let header = Header { flags: Flags::SYN, seq: SeqNumber::new(n), options, ..Header::default() };
            let mut give = |header| {
                let segment = Segment::bare(header);
                let arrival = Arrival { tuple: tuple(n), segment, mss: 1_440, previous: None, now };
                listener.handle_segment(&arrival, &mut counters)
            };
            // One in ten is honest.
            if let Reaction::Open(syn_ack) | Reaction::Send(syn_ack) = give(header)
                && n % 10 == 0
            {
                let ack = Header { flags: Flags::ACK, seq: syn_ack.ack, ack: syn_ack.seq + 1, ..header };
                established += u32::from(matches!(give(ack), Reaction::Establish(_)));
            }
            while listener.poll_transmit(now, &mut counters).is_some() {}
        });
        assert_eq!(allocated, 0);
        assert_eq!(counters.get(Counter::SyncookiesSent) > 1_000, syn_cookies, "{counters:?}");
        assert!(counters.get(Counter::HalfOpenTimeouts) > 1_000 && established > 500, "{counters:?}");
        assert!(listener.syn_queue_len() > 150);
    }
}

#[test]
fn connections_that_come_and_go_allocate_nothing() {
    let numbers = InitialSequence::new(secret());
    let mut table = Table::new(secret(), 500);
    let mut waiting =
        TimeWait::new(TimeWaitConfig { connections: 300, ..TimeWaitConfig::default() }, secret(), numbers);
    let mut wheel = Wheel::new();
    let mut counters = Counters::new();
    let mut ids = std::collections::VecDeque::with_capacity(501);
    let mut expired = 0;
    let allocated = allocations(|n| {
        let now = Instant::from_millis(u64::from(n) * 100);
        let id = table.insert(tuple(n), n).unwrap();
        ids.push_back(id);
        wheel.set(id.index(), now + Duration::from_millis(u64::from(n % 7) * 777));
        if ids.len() == 500 {
            let gone = ids.pop_front().unwrap();
            let ended = *table.tuple(gone).unwrap();
            table.remove(gone);
            let seq = SeqNumber::new(n);
            let remains = Remains { snd_nxt: seq, rcv_nxt: seq, window: 1, ts_recent: None };
            waiting.enter(ended, &remains, now, &mut counters);
        }
        while wheel.poll_expired(now).is_some() {
            expired += 1;
        }
        while waiting.poll_expired(now, &mut counters).is_some() {}
    });
    assert_eq!(allocated, 0);
    assert!(expired > MEASURED && waiting.len() == 300, "{expired}, {waiting:?}");
    assert!(counters.get(Counter::TimeWaitOverflow) > 10_000);
}
