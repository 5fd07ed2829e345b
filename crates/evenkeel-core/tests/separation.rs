//! Several sockets behind one receive ring: what a flood of one of them does to the others, and what it
//! costs.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::sync::Arc;

use common::{Bench, Seen, Sink, UNIT, syn, tcp, udp};
use evenkeel_core::drop::{QueueDrop, TcpDrop};
use evenkeel_core::host::{Config, System};
use evenkeel_core::poll::{Feedback, Quota};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::system::TcpListener;
use evenkeel_core::tcp::{Counter, Flags, Header, ListenerConfig};
use evenkeel_core::time::Duration;
use evenkeel_core::work::Work;

const FLOODED: u16 = 7;
const QUIET: u16 = 9;
/// Frames of the flood come in so many at a time, so far apart; each takes its program 50 µs.
const FLOOD_PKTS: usize = 8;
const APART: Duration = Duration::from_micros(20);
const COMPUTE: Duration = Duration::from_micros(50);

/// Counts of frames in one run of the host.
#[derive(Debug, Default, PartialEq, Eq)]
struct While {
    /// Frames sent to the quiet socket, and frames received there.
    quiet: (u64, u64),
    /// Frames received by the flooded socket.
    flooded: u64,
    /// Frames shed by the ring.
    shed: u64,
    /// Frames that found their channel full.
    discarded: u64,
}

struct Host {
    bench: Bench,
    flooded: Arc<Seen>,
    quiet: Arc<Seen>,
}

impl Host {
    fn new(feedback: Feedback) -> Self {
        Self::of(Config { feedback: Some(feedback), ..Config::of(Architecture::SoftLrp) }, |_| ())
    }

    /// Creates the bench; `with` sets up the flooded program.
    fn of(config: Config, with: impl FnOnce(&mut Sink)) -> Self {
        Self::in_vectors(16, config, with)
    }

    /// Creates the bench with vectors of `vector` frames, and eight times as many that are discarded.
    fn in_vectors(vector: usize, config: Config, with: impl FnOnce(&mut Sink)) -> Self {
        let config = Config { channel_pkts: 32, batch_pkts: vector, quota: Quota::Fixed(vector), ..config };
        // Its ring has 64 places.
        let mut bench = Bench::new(config);
        let (mut sink, flooded) = Sink::new(FLOODED);
        sink.compute = COMPUTE;
        with(&mut sink);
        bench.host.spawn("flooded", 0, Box::new(sink));
        let (sink, quiet) = Sink::new(QUIET);
        bench.host.spawn("quiet", 0, Box::new(sink));
        bench.settle();
        Self { bench, flooded, quiet }
    }

    fn counts(&self) -> While {
        While {
            quiet: (0, self.quiet.count()),
            flooded: self.flooded.count(),
            shed: self.bench.wire.sent().missed,
            discarded: self.bench.host.ledger().input_drops(QueueDrop::Channel),
        }
    }

    /// Sends `flood` frames at a time to the one program. If `others` receive, sends one to the other now and
    /// then.
    fn run(&mut self, time: Duration, flood: usize, others: bool) -> While {
        let before = self.counts();
        let (until, mut sent, mut turn) = (self.bench.now + time, 0, 0);
        while self.bench.now < until {
            let mut frames = vec![udp(FLOODED, &[7; 18]); flood];
            if others && turn % 10 == 0 {
                frames.insert(flood / 2, udp(QUIET, &[9; 18]));
                sent += 1;
            }
            turn += 1;
            self.bench.send(&frames);
            self.bench.run(APART);
        }
        // What is in the ring and in the channel is not lost: the flood stops for a moment, and they empty.
        let idle = self.bench.now + Duration::from_millis(5);
        while self.bench.now < idle && self.bench.host.queued() + self.bench.host.in_rings() > 0 {
            self.bench.run(UNIT * 50);
        }
        let after = self.counts();
        While {
            quiet: (sent, after.quiet.1 - before.quiet.1),
            flooded: after.flooded - before.flooded,
            shed: after.shed - before.shed,
            discarded: after.discarded - before.discarded,
        }
    }
}

const LONG: Duration = Duration::from_millis(40);

/// One socket is flooded with many times what its program can take. No other socket receives through its
/// ring, so the ring is paused, and sheds the excess at no cost.
#[test]
fn a_ring_that_carries_nothing_else_sheds_a_flood() {
    let mut host = Host::new(Feedback::default());
    let seen = host.run(LONG, FLOOD_PKTS, false);
    assert!(seen.shed > 4_000 && seen.discarded == 0, "{seen:?}");
    assert!(seen.flooded > 700, "its program is never without work: {seen:?}");
}

/// Another socket receives through the ring. Once the flood is clearly no burst, the excess is discarded,
/// and the other socket loses nothing.
#[test]
fn a_flooded_socket_takes_nothing_from_others_on_its_ring() {
    let mut host = Host::new(Feedback::default());
    host.run(LONG, FLOOD_PKTS, true);
    let seen = host.run(LONG, FLOOD_PKTS, true);
    assert_eq!(seen.quiet.0, seen.quiet.1, "{seen:?}");
    assert!(seen.quiet.0 > 60 && seen.shed == 0 && seen.discarded > 4_000, "{seen:?}");
    assert!(seen.flooded > 600, "its program has nearly all of the core: {seen:?}");
}

/// Frames of the flood come faster than its program takes them, and each step of that leaves time to look.
/// The host does not: frames gather for several steps.
#[test]
fn frames_to_discard_gather_until_the_host_looks() {
    let mut host = Host::of(Config::of(Architecture::SoftLrp), |sink| sink.compute = UNIT * 4);
    host.run(LONG, 40, true);
    let looks = |host: &Host| host.bench.done(Work::PollRound);
    let (before, looks_before) = (host.counts(), looks(&host));
    let mut others = 0;
    for unit in 0..10_000 {
        let mut frames = vec![udp(FLOODED, &[7; 18]); 4];
        if unit % 10 == 0 {
            frames.push(udp(QUIET, &[9; 18]));
            others += 1;
        }
        host.bench.send(&frames);
        host.bench.run(UNIT);
    }
    let (seen, looks) = (host.counts(), looks(&host) - looks_before);
    let discarded = seen.discarded - before.discarded;
    assert!(discarded > 20_000 && looks * 10 < discarded, "{discarded} frames in {looks} looks");
    host.bench.run(Duration::from_millis(1));
    let seen = host.counts();
    assert_eq!((seen.shed - before.shed, seen.quiet.1 - before.quiet.1), (0, others));
}

/// The other socket loses next to nothing when a flood begins. A ring that overflows while it is paused
/// carries no burst: it is paused once, and not again.
#[test]
fn a_flood_takes_next_to_nothing_from_others_when_it_begins() {
    let mut host = Host::new(Feedback::default());
    host.run(LONG, 0, true);
    let seen = host.run(LONG, FLOOD_PKTS, true);
    assert!(seen.quiet.0 > 60 && seen.quiet.0 - seen.quiet.1 <= 2, "{seen:?}");
    assert!(seen.shed < 400 && seen.discarded > 4_000, "{seen:?}");
}

/// Nor does one whose program sleeps, and leaves the core idle.
#[test]
fn a_socket_that_nobody_reads_takes_nothing_from_others_on_its_ring() {
    let mut host = Host::of(Config::of(Architecture::SoftLrp), |sink| sink.nap = Some(LONG * 1_000));
    host.run(LONG, FLOOD_PKTS, true);
    let seen = host.run(LONG, FLOOD_PKTS, true);
    assert_eq!(seen.quiet.0, seen.quiet.1, "{seen:?}");
    assert!(seen.quiet.0 > 60 && seen.shed == 0 && seen.discarded > 10_000, "{seen:?}");
}

/// If interrupts take frames from the ring, nothing bounds the cost of discards: the ring is paused, so that
/// programs get time.
#[test]
fn interrupts_discard_no_flood() {
    use evenkeel_core::receive::DeviceWork;
    let mut config = Config::of(Architecture::SoftLrp);
    config.device_work = DeviceWork::Interrupt;
    config.paper_policies.limit_interrupts = true;
    let mut host = Host::of(config, |_| ());
    host.run(LONG, 40, true);
    let seen = host.run(LONG, 40, true);
    assert!(seen.flooded > 300 && seen.shed > 10_000, "{seen:?}");
}

/// The control: with feedback that knows no others they lose most of what comes for them.
#[test]
fn feedback_that_knows_no_others_takes_from_them() {
    use evenkeel_core::poll::FeedbackScope;
    let mut host = Host::new(Feedback { scope: FeedbackScope::All, ..Feedback::default() });
    host.run(LONG, FLOOD_PKTS, true);
    let seen = host.run(LONG, FLOOD_PKTS, true);
    assert!(seen.quiet.1 < seen.quiet.0 / 2 && seen.discarded == 0, "{seen:?}");
}

/// Others count from their last frame on, however many came before it one after the other.
#[test]
fn who_has_received_all_the_time_is_not_forgotten() {
    let mut host = Host::new(Feedback::default());
    host.run(Duration::from_millis(1_100), 0, true);
    host.run(LONG, FLOOD_PKTS, false);
    let seen = host.run(LONG, FLOOD_PKTS, false);
    assert!(seen.shed == 0 && seen.discarded > 4_000, "{seen:?}");
}

/// A second after the last frame for any other socket, the ring sheds again.
#[test]
fn who_has_received_nothing_for_a_second_is_forgotten() {
    let mut host = Host::new(Feedback::default());
    host.run(LONG, FLOOD_PKTS, true);
    let still = host.run(LONG, FLOOD_PKTS, false);
    assert!(still.discarded > 4_000 && still.shed == 0, "{still:?}");
    host.run(Duration::from_secs(1), FLOOD_PKTS, false);
    let then = host.run(LONG, FLOOD_PKTS, false);
    assert!(then.shed > 4_000 && then.discarded < 200, "{then:?}");
}

/// Discards are limited to a share of the core, a hundredth here. The ring sheds the rest of a flood, even
/// if other sockets receive through it.
#[test]
fn discarding_takes_no_more_than_its_share_of_the_core() {
    let share = |discard_percent| {
        let feedback = Some(Feedback { discard_percent, ..Feedback::default() });
        let mut host = Host::in_vectors(2, Config { feedback, ..Config::of(Architecture::SoftLrp) }, |_| ());
        host.run(LONG, 40, true);
        host.run(LONG, 40, true)
    };
    let (all, little) = (share(100), share(1));
    assert!(all.discarded > 20_000 && all.shed == 0, "{all:?}");
    // A unit takes 1 us here and discards up to 16 frames; in each of 40 periods it goes on until it is over.
    let most = (40_000 / 100 + 40) * 16;
    assert!((most / 4..=most).contains(&little.discarded) && little.shed > 10_000, "{little:?}");
    assert!(little.flooded >= all.flooded, "{little:?}, {all:?}");
}

/// A burst for an otherwise idle core is kept in the ring without loss, even if another socket receives
/// through it.
#[test]
fn a_burst_is_no_flood() {
    let mut host = Host::new(Feedback::default());
    for _ in 0..10 {
        let mut frames = vec![udp(FLOODED, &[7; 18]); 40];
        frames.push(udp(QUIET, &[9; 18]));
        host.bench.send(&frames);
        host.bench.run(Duration::from_millis(5));
    }
    let seen = host.counts();
    assert_eq!((seen.flooded, seen.quiet.1, seen.discarded, seen.shed), (400, 10, 0, 0));
}

const HTTP: u16 = 80;

/// Listens, with so much room for connections, and accepts none.
#[derive(Debug)]
struct Listens {
    backlog: usize,
}

impl Program for Listens {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let config = ListenerConfig { backlog: self.backlog, ..ListenerConfig::default() };
        Step::Wait(TcpListener::listen(system, None, HTTP, &config).unwrap().fd())
    }
}

/// Sends bursts of SYNs, each followed by a datagram for the quiet socket. Returns how many of the datagrams
/// were received at once, and how many frames were discarded and shed.
fn bursts_of_syns(backlog: usize) -> (u64, u64, u64) {
    let mut host = Host::new(Feedback::default());
    host.bench.host.spawn("listens", 0, Box::new(Listens { backlog }));
    host.bench.settle();
    let mut at_once = 0;
    for burst in 0..10 {
        let mut frames: Vec<_> = (0..40).map(|n| syn(1_000 + 40 * burst + n, HTTP)).collect();
        frames.push(udp(QUIET, &[9; 18]));
        host.bench.send(&frames);
        host.bench.run(Duration::from_micros(300));
        at_once += u64::from(host.quiet.count() == u64::from(burst) + 1);
        host.bench.run(Duration::from_millis(5));
    }
    let seen = host.counts();
    (at_once, seen.discarded, seen.shed)
}

/// A SYN that is lost costs its sender a second: a ring keeps a burst of them on a core that keeps up.
#[test]
fn a_burst_of_syns_is_no_flood() {
    assert_eq!(bursts_of_syns(100), (10, 0, 0));
}

/// A listener that can take no connections leaves SYNs in their channel. The ring is not paused for that, as
/// it carries frames for others.
#[test]
fn a_listener_that_can_take_no_connections_holds_nothing_back() {
    assert_eq!(bursts_of_syns(0), (10, 400 - 32, 0));
}

/// Segments for a closed port are answered within the rate limit of resets. The rest is discarded in place,
/// before protocol processing. So are resets, which are never answered.
#[test]
fn a_flood_of_a_closed_port_is_discarded_early() {
    let mut host = Host::new(Feedback::default());
    let mut flood = |flags: Flags| {
        for _ in 0..40 {
            let header = Header { source: 1_024, destination: HTTP, flags, ..Header::default() };
            host.bench.send(&vec![tcp(header, b""); 50]);
            host.bench.run(Duration::from_micros(500));
        }
        let bench = &host.bench;
        let count = |counter| bench.host.tcp_counters().get(counter);
        assert_eq!(bench.wire.sent().missed, 0);
        let sent_and_not = [Counter::OutRsts, Counter::ResetsSkipped].map(count);
        let discarded = bench.host.ledger().input_drops(TcpDrop::NoSocket);
        ([count(Counter::InSegs), discarded], sent_and_not, bench.work[Work::Segment as usize].1)
    };
    let (all, [resets, skipped], processed) = flood(Flags::SYN);
    assert_eq!((all, resets + skipped), ([2_000; 2], 2_000));
    // A quarter of 1000 at once for one prefix. A token lets as many pass as come before it is taken.
    assert!((200..=300).contains(&resets) && (resets..500).contains(&processed), "{resets} of {processed}");
    assert_eq!(flood(Flags::RST), ([4_000; 2], [resets, skipped], processed));
}
