//! Transfers in virtual time to a peer that changes its window, over a path that loses segments. No segment
//! may reach beyond the window that the peer last offered, and all must arrive in a stated time.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::congestion::Algorithm;
use crate::connection::{Config, Connection, Open};
use crate::time::{Duration, Instant};
use crate::{Flags, Header, Options, SackBlocks, Segment, SeqNumber, SeqRange, Timestamps};

const ISS: SeqNumber = SeqNumber::new(u32::MAX - 4_000);
const IRS: SeqNumber = SeqNumber::new(77);
const MSS: u16 = 1_460;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The parameters of a transfer.
#[derive(Debug, Clone, Copy)]
struct Case {
    algorithm: Algorithm,
    sack: bool,
    timestamps: bool,
    /// The peer takes the part of a segment that lies in its window; else it drops all of it.
    trims: bool,
    round_trip: Duration,
}

impl Case {
    fn all() -> impl Iterator<Item = Self> {
        let algorithms = [Algorithm::Cubic, Algorithm::NewReno, Algorithm::Bbr];
        algorithms.into_iter().flat_map(|algorithm| {
            (0..8).map(move |n| Self {
                algorithm,
                sack: n & 1 > 0,
                timestamps: n & 2 > 0,
                trims: n & 4 > 0,
                round_trip: ms(20),
            })
        })
    }
}

/// The peer: what came, and how far it lets us send. Numbers count from our first byte.
struct Peer {
    nxt: u32,
    ahead: Vec<(u32, u32)>,
    window: u32,
    /// The number at which the last segment began.
    last: u32,
    ts_recent: u32,
}

impl Peer {
    fn take(&mut self, start: u32, end: u32, trims: bool) {
        let edge = self.nxt + self.window;
        let fits = if trims { end.min(edge) } else { end };
        if fits > edge || fits <= start {
            return;
        }
        self.last = start;
        self.ahead.push((start, fits));
        self.ahead.sort_unstable();
        for &(start, end) in &self.ahead {
            if start <= self.nxt {
                // What was taken has taken of the window, unless it is read, and it is.
                self.nxt = self.nxt.max(end);
            }
        }
        self.ahead.retain(|&(_, end)| end > self.nxt);
    }

    /// Adjoining ranges are one block, and that of the last segment is the first (RFC 2018, 4).
    fn blocks(&self) -> SackBlocks {
        let mut blocks: Vec<(u32, u32)> = Vec::new();
        for &(start, end) in &self.ahead {
            match blocks.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => blocks.push((start, end)),
            }
        }
        blocks.sort_by_key(|&(start, end)| !(start..end).contains(&self.last));
        blocks.truncate(3);
        blocks.into_iter().map(|(start, end)| SeqRange::new(ISS + 1 + start, ISS + 1 + end)).collect()
    }
}

struct World {
    case: Case,
    now: Instant,
    connection: Connection,
    peer: Peer,
    to_peer: VecDeque<(Instant, Header, u32)>,
    to_us: VecDeque<(Instant, Header)>,
    /// The end of the window that was offered last.
    edge: SeqNumber,
    /// So many are lost that leave next.
    losses: u32,
    /// Of so many one arrives.
    one_in: u32,
    left: u32,
}

impl World {
    fn new(case: Case, window: u32) -> Self {
        let mut config = Config {
            timestamps: case.timestamps,
            sack: case.sack,
            send_buffer_initial: 1_000_000,
            ..Config::default()
        };
        Arc::make_mut(&mut config.recovery).algorithm = case.algorithm;
        let (now, config) = (Instant::from_millis(1_000), Arc::new(config));
        let open =
            Open { local_port: 1, remote_port: 2, ipv6: false, mss: MSS, iss: ISS, timestamp_offset: 5 };
        let mut connection = Connection::connect(&config, &open, None, now);
        while connection.poll_transmit(now).is_some() {}
        let now = now + case.round_trip;
        let options = Options {
            mss: Some(MSS),
            sack_permitted: case.sack,
            timestamps: case.timestamps.then_some(Timestamps { value: 9, echo: 1_005 }),
            ..Options::default()
        };
        let header = Header {
            seq: IRS,
            ack: ISS + 1,
            flags: Flags::SYN | Flags::ACK,
            window: window as u16,
            options,
            ..Header::default()
        };
        connection.on_segment(&Segment::bare(header), now);
        let mut world = Self {
            case,
            now,
            connection,
            peer: Peer { nxt: 0, ahead: Vec::new(), window, last: 0, ts_recent: 0 },
            to_peer: VecDeque::new(),
            to_us: VecDeque::new(),
            edge: ISS + 1 + window,
            losses: 0,
            one_in: 1,
            left: 0,
        };
        world.drain();
        world
    }

    fn write(&mut self, len: usize) {
        assert_eq!(self.connection.write(&vec![7; len]), Ok(len), "there is room");
        self.drain();
    }

    /// As an endpoint does: who has nothing more is not asked once more.
    fn drain(&mut self) {
        while self.connection.may_transmit() {
            let Some(left) = self.connection.poll_transmit(self.now) else { break };
            let (header, len) = (left.segment.header, left.segment.payload_len() as u32);
            assert!(
                len == 0 || (header.seq + len).at_or_before(self.edge),
                "{:?}: {:?} reaches beyond {:?}, {:?}",
                self.now,
                SeqRange::at(header.seq, len),
                self.edge,
                self.case,
            );
            self.left += u32::from(len > 0);
            if len > 0 && self.losses > 0 {
                self.losses -= 1;
            } else if len == 0 || self.left.is_multiple_of(self.one_in) {
                self.to_peer.push_back((self.now + self.case.round_trip / 2, header, len));
            }
        }
    }

    /// Makes the peer send an acknowledgment.
    fn acknowledge(&mut self) {
        let timestamps = self.case.timestamps.then(|| Timestamps {
            value: (self.now.as_nanos() / 1_000_000) as u32,
            echo: self.peer.ts_recent,
        });
        let sack = if self.case.sack { self.peer.blocks() } else { SackBlocks::default() };
        let header = Header {
            seq: IRS + 1,
            ack: ISS + 1 + self.peer.nxt,
            flags: Flags::ACK,
            window: self.peer.window as u16,
            options: Options { timestamps, sack, ..Options::default() },
            ..Header::default()
        };
        self.to_us.push_back((self.now + self.case.round_trip / 2, header));
    }

    fn arrives(&mut self, header: &Header, len: u32) {
        if len == 0 && header.seq.at_or_after(ISS + 1 + self.peer.nxt) {
            return;
        }
        let start = header.seq.to_u32().wrapping_sub((ISS + 1).to_u32());
        if let Some(clocks) = header.options.timestamps.filter(|_| start <= self.peer.nxt) {
            self.peer.ts_recent = clocks.value;
        }
        if len > 0 {
            self.peer.take(start, start + len, self.case.trims);
        }
        self.acknowledge();
    }

    /// Lets time pass until `until`, or until all that was written is acknowledged.
    fn run(&mut self, until: Instant) -> bool {
        while self.connection.info().send_queue > 0 || self.now < until {
            let peer = self.to_peer.front().map_or(Instant::NEVER, |(at, ..)| *at);
            let us = self.to_us.front().map_or(Instant::NEVER, |(at, _)| *at);
            let next = peer.min(us).min(self.connection.next_deadline());
            if next > until {
                self.now = until;
                return self.connection.info().send_queue == 0;
            }
            self.now = self.now.max(next);
            if peer <= self.now {
                let (_, header, len) = self.to_peer.pop_front().unwrap();
                self.arrives(&header, len);
            } else if us <= self.now {
                let (_, header) = self.to_us.pop_front().unwrap();
                self.edge = header.ack + u32::from(header.window);
                self.connection.on_segment(&Segment::bare(header), self.now);
            } else {
                self.connection.on_deadline(self.now);
            }
            self.drain();
        }
        true
    }

    fn pass(&mut self, time: Duration) -> bool {
        let until = self.now + time;
        self.run(until)
    }
}

#[test]
fn what_is_on_its_way_when_the_window_shrinks_arrives_by_round_trips_not_by_timeouts() {
    for case in Case::all() {
        for window in [100, 300, 1_000, 2_000, 3_000] {
            let mut world = World::new(case, 8_000);
            world.write(7_000);
            world.peer.window = window;
            // A timeout, and a window in each round trip.
            let rounds = 7_000 / window + 2;
            let most = ms(500) + case.round_trip * rounds * 2;
            assert!(world.pass(most), "{window} {case:?}: {} bytes after {most:?}", world.peer.nxt);
        }
    }
}

#[test]
fn what_is_on_its_way_when_the_window_closes_arrives_once_it_opens() {
    for case in Case::all() {
        for window in [400, 2_000, 8_000] {
            let mut world = World::new(case, 8_000);
            world.write(7_000);
            world.peer.window = 0;
            assert!(!world.pass(ms(5_000)));
            world.peer.window = window;
            world.acknowledge();
            let most = ms(300) + case.round_trip * (7_000 / window + 2) * 2;
            assert!(world.pass(most), "{window} {case:?}: {} bytes after {most:?}", world.peer.nxt);
        }
    }
}

#[test]
fn a_window_that_changes_all_the_time_stalls_nobody() {
    for case in Case::all() {
        let mut world = World::new(case, 30_000);
        world.write(60_000);
        for (n, window) in [5_000, 700, 0, 20_000, 1_460, 1, 9_000, 64_000].into_iter().cycle().enumerate() {
            world.peer.window = window;
            world.acknowledge();
            if world.pass(ms(200)) {
                break;
            }
            assert!(n < 60, "{case:?}: {} bytes", world.peer.nxt);
        }
    }
}

/// One byte every 20 ms for four seconds: Nagle's algorithm holds back what is written in a round trip. That
/// is not the path's rate.
#[test]
fn who_had_little_to_say_for_long_is_fast_when_there_is_more() {
    for case in Case::all().map(|case| Case { round_trip: ms(50), ..case }) {
        let mut world = World::new(case, 65_535);
        for _ in 0..200 {
            world.write(1);
            let until = world.now + ms(20);
            world.run(until);
        }
        world.write(200_000);
        let most = ms(1_500);
        assert!(world.pass(most), "{case:?}: {} bytes after {most:?}", world.peer.nxt);
    }
}

/// The samples of the rate from around timeouts are as small as one likes.
#[test]
fn who_has_lost_much_while_there_was_little_to_say_is_not_slow_for_ever() {
    for case in Case::all().map(|case| Case { round_trip: ms(50), ..case }) {
        let mut world = World::new(case, 65_535);
        for n in 0..100 {
            world.write(1 + n % 30);
            world.losses = u32::from(n % 5 == 0);
            let until = world.now + ms(40);
            world.run(until);
        }
        world.losses = 0;
        assert!(world.pass(ms(10_000)), "{case:?}");
        world.write(200_000);
        let most = ms(5_000);
        assert!(world.pass(most), "{case:?}: {} bytes after {most:?}", world.peer.nxt);
    }
}

/// A path that loses nearly all for long shows hardly any rate. Once it is well again, so is the connection.
#[test]
fn a_path_that_was_bad_for_long_is_not_paced_as_such_for_ever() {
    for case in Case::all() {
        for one_in in 2..9 {
            let mut world = World::new(case, 65_535);
            world.one_in = one_in;
            world.write(400_000);
            world.pass(ms(60_000));
            world.one_in = 1;
            let before = world.connection.info().send_queue;
            let most = ms(5_000) + world.connection.info().recovery.rto;
            assert!(
                world.pass(most),
                "{one_in} {case:?}: {before} bytes, {} bytes left after {most:?}",
                world.connection.info().send_queue
            );
        }
    }
}
