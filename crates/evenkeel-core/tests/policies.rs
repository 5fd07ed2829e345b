//! Policies around polling: dynamic quota, cycle limit, interrupt-rate limiter, clocked interrupts, all work
//! at the highest level (TOCS 1997, sections 6.6.2, 7 and 5).
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::router::*;
use common::*;
use evenkeel_core::drop::QueueDrop;
use evenkeel_core::host::{Config, Level, System};
use evenkeel_core::poll::{CycleLimit, Quota, TaskWeights};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::system::UdpSocket;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::work::Work;

// --- Dynamic quota ---

/// Floods a router whose WAN adaptor has eight descriptors and a queue of eight in front of them, for so many
/// units; frames leave at once if the link `works`. Gives frames sent and frames that the output queue
/// dropped.
fn flood(bench: &mut Bench, units: u32, works: bool) -> (u64, u64) {
    let count = |bench: &Bench| {
        let ledger = bench.host.ledger();
        (ledger.transmitted, ledger.output_drops(QueueDrop::Output))
    };
    let before = count(bench);
    for n in 0..units {
        bench.send(&[outwards(n), outwards(n)]);
        bench.unit();
        if works {
            bench.sent_wan();
        }
    }
    let after = count(bench);
    (after.0 - before.0, after.1 - before.1)
}

fn few_descriptors(quota: Quota) -> Bench {
    let config = Config { quota, batch_pkts: 1, output_queue_pkts: 8, ..Config::of(Architecture::Polled) };
    let mut bench = Setup { transmit_ring_pkts: Some(8), ..Setup::new(config) }.bench();
    bench.settle();
    bench.sent_wan();
    bench.settle();
    bench
}

#[test]
fn a_dynamic_quota_settles_below_the_onset_of_loss() {
    let mut bench = few_descriptors(Quota::Fixed(64));
    let (_, lost) = flood(&mut bench, 20_000, true);
    assert!(lost > 5_000, "a quota of 64 wastes work: {lost}");

    let mut bench = few_descriptors(Quota::Dynamic);
    flood(&mut bench, 40_000, true);
    let mut quotas = Vec::new();
    let (mut sent, mut lost) = (0, 0);
    for _ in 0..100 {
        let (s, l) = flood(&mut bench, 200, true);
        (sent, lost) = (sent + s, lost + l);
        quotas.push(bench.host.quota_pkts());
    }
    // A round of the thread gives back eight descriptors, and the queue evens out a little: loss begins at
    // nine.
    let (least, most) = (quotas.iter().min().unwrap(), quotas.iter().max().unwrap());
    assert!((8..=10).contains(most) && *least >= 5, "from {least} to {most}");
    assert!(lost * 200 < sent, "{lost} lost, {sent} sent");

    // While nothing leaves everything is wasted; then it recovers.
    flood(&mut bench, 5_000, false);
    assert_eq!(bench.host.quota_pkts(), 2, "as small as it gets");
    flood(&mut bench, 40_000, true);
    assert!((6..=10).contains(&bench.host.quota_pkts()), "{}", bench.host.quota_pkts());
}

// --- Cycle limit ---

/// Sleeps until a datagram comes, and computes from then on.
#[derive(Debug)]
struct Awakened(u16, bool);

impl Program for Awakened {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        if self.1 {
            system.compute(Duration::from_micros(10));
            return Step::Again;
        }
        let socket =
            UdpSocket::bind(system, None, self.0).unwrap_or(UdpSocket::from(evenkeel_core::socket::Fd(0)));
        if let Ok(datagram) = socket.receive(system) {
            system.recycle(datagram);
            self.1 = true;
            return Step::Again;
        }
        Step::Wait(socket.fd())
    }
}

const PERIOD: Duration = Duration::from_millis(10);

/// Returns the CPU time of input in each millisecond of a flood. The flood begins together with a program
/// that computes, in the middle of what was a period of the clock.
fn input_per_ms(architecture: Architecture) -> Vec<Duration> {
    let config = Config {
        cycle_limit: Some(CycleLimit { period: PERIOD, percent: 50 }),
        feedback: None,
        // What waits there when the limit is reached is processed all the same.
        ip_queue_pkts: 16,
        batch_pkts: 1,
        ..Config::of(architecture)
    };
    let mut bench = Bench::router(config.with_paper_policies(|a| a.limit_interrupts = true));
    bench.host.spawn("awakened", 0, Box::new(Awakened(9, false)));
    // A packet now and then: the core idles in between.
    for n in 0..11 {
        bench.send(&[outwards(n)]);
        bench.run(Duration::from_millis(3));
    }
    bench.sent_wan();
    bench.send(&[udp(9, b"wake up")]);
    let input = |bench: &Bench| {
        bench.host.cpu(Level::PollingThread)
            + if architecture == Architecture::Polled {
                Duration::ZERO
            } else {
                bench.host.cpu(Level::Interrupt) + bench.host.cpu(Level::SoftInterrupt)
            }
    };
    let mut used = Vec::new();
    for n in 0..100 {
        let before = input(&bench);
        let until = bench.now + Duration::from_millis(1);
        while bench.now < until {
            bench.send(&vec![outwards(n); 20]);
            bench.run(UNIT * 10);
            bench.sent_wan();
        }
        used.push(input(&bench) - before);
    }
    used
}

#[test]
fn no_period_of_the_cycle_limit_gets_more_than_its_budget() {
    for architecture in [Architecture::Polled, Architecture::Eager] {
        let used = input_per_ms(architecture);
        for (start, period) in used.windows(10).enumerate() {
            let sum: Duration = period.iter().sum();
            // A step of the program may delay the end of a period, and the samples are as long as the steps
            // allow.
            assert!(
                sum <= Duration::from_micros(5_150),
                "{architecture}: {sum:?} in the ten ms from {start}: {used:?}"
            );
        }
        let total: Duration = used.iter().sum();
        assert!(total >= Duration::from_millis(45), "{architecture}: and it gets it: {total:?}");
    }
}

#[test]
fn an_idle_core_never_makes_a_frame_wait_for_the_period() {
    for architecture in [Architecture::Polled, Architecture::SoftLrp, Architecture::Eager] {
        let limit = CycleLimit { period: Duration::from_secs(1), percent: 0 };
        let config = Config { cycle_limit: Some(limit), ..Config::of(architecture) };
        let mut bench = Bench::router(config.with_paper_policies(|a| a.limit_interrupts = true));
        bench.settle();
        bench.sent_wan();
        let start = bench.now;
        for n in 0..50 {
            bench.send(&[outwards(n)]);
            bench.settle();
            assert_eq!(bench.numbers_wan(), [n], "{architecture}");
        }
        assert!(bench.now.since(start) < Duration::from_millis(5), "{architecture}");
        assert!(bench.host.resumes().idle > 0, "{architecture}");
    }
}

/// Computes, and can be preempted after every unit.
#[derive(Debug)]
struct Preemptible;

impl Program for Preemptible {
    fn step(&mut self, _system: &mut System<'_>) -> Step {
        Step::Again
    }
}

#[test]
fn the_cycle_limit_is_a_limit_also_where_nearly_every_frame_interrupts() {
    let share = |limit_counts_interrupts| {
        let config = Config {
            cycle_limit: Some(CycleLimit { period: PERIOD, percent: 50 }),
            ..Config::of(Architecture::Polled)
        };
        let config = config.with_paper_policies(|a| a.limit_counts_interrupts = limit_counts_interrupts);
        let mut bench = Bench::router(config);
        let spinner = bench.host.spawn("spinner", 0, Box::new(Preemptible));
        bench.settle_some();
        let (start, before) = (bench.now, bench.host.bill(spinner).unwrap().used);
        for n in 0..20_000 {
            bench.send(&[outwards(n)]);
            bench.run(UNIT * 3);
            bench.sent_wan();
        }
        (bench.host.bill(spinner).unwrap().used - before).div_duration_f64(bench.now.since(start))
    };
    let (without, with) = (share(false), share(true));
    assert!(without < 0.4, "{without}");
    // What the transmit side does after the limit comes on top.
    assert!((0.48..0.56).contains(&with), "{with}");
}

#[test]
fn a_legacy_driver_knows_nothing_of_the_cycle_limit() {
    let limit = CycleLimit { period: Duration::from_secs(10), percent: 0 };
    let config = Config { cycle_limit: Some(limit), batch_pkts: 1, ..Config::of(Architecture::Polled) };
    let mut bench = Setup { legacy: [true, false], ..Setup::new(config) }.bench();
    bench.host.spawn("spinner", 0, Box::new(Spinner));
    bench.settle_some();
    bench.send_wan(&[inwards(0)]);
    bench.run(Duration::from_millis(1));
    let polled = bench.host.ledger().forwarded;
    bench.send_wan(&[inwards(0)]);
    bench.run(Duration::from_millis(1));
    assert_eq!(bench.host.ledger().forwarded, polled, "the polled one is held back");
    bench.send(&[outwards(1)]);
    bench.run(Duration::from_millis(1));
    assert_eq!(bench.numbers_wan(), [1], "the other is not");
}

// --- Interrupt-rate limiter ---

/// Runs a slow service in a flood on an interrupt-driven host. Returns the datagrams that it received, and
/// the frames dropped in the shared IP queue.
fn eager_flood(limit_interrupts: bool) -> (u64, u64, u64) {
    let config =
        Config { ip_queue_pkts: 16, socket_queue_pkts: 8, batch_pkts: 1, ..Config::of(Architecture::Eager) };
    let mut bench = Bench::new(config.with_paper_policies(|a| a.limit_interrupts = limit_interrupts));
    let (mut sink, seen) = Sink::new(7);
    sink.compute = Duration::from_micros(20);
    bench.host.spawn("sink", 0, Box::new(sink));
    bench.settle();
    for _ in 0..1_000 {
        bench.send(&vec![udp(7, b"flood"); 20]);
        bench.run(Duration::from_micros(20));
    }
    let ledger = bench.host.ledger();
    (
        seen.count(),
        ledger.input_drops(QueueDrop::IpQueue) + ledger.input_drops(QueueDrop::Socket),
        bench.wire.sent().missed,
    )
}

#[test]
fn limiting_the_interrupt_rate_ends_livelock_and_moves_the_loss_to_the_ring() {
    let (received, dropped, _) = eager_flood(false);
    assert!(received < 20 && dropped > 10_000, "{received}, {dropped}");
    let (received, dropped, missed) = eager_flood(true);
    assert!(received > 400, "{received}");
    assert!(dropped < missed / 20, "{dropped} dropped, {missed} missed");
}

#[test]
fn the_cycle_limit_protects_programs_from_interrupts_if_they_are_limited() {
    let share = |limit_interrupts| {
        let config = Config {
            cycle_limit: Some(CycleLimit { period: PERIOD, percent: 40 }),
            feedback: None,
            batch_pkts: 1,
            ..Config::of(Architecture::Eager)
        };
        let mut bench = Bench::router(config.with_paper_policies(|a| a.limit_interrupts = limit_interrupts));
        let spinner = bench.host.spawn("spinner", 0, Box::new(Spinner));
        bench.settle_some();
        let (start, before) = (bench.now, bench.host.bill(spinner).unwrap().used);
        for n in 0..10_000 {
            bench.send(&vec![outwards(n); 20]);
            bench.run(UNIT * 10);
            bench.sent_wan();
        }
        (bench.host.bill(spinner).unwrap().used - before).div_duration_f64(bench.now.since(start))
    };
    let (without, with) = (share(false), share(true));
    assert!(without < 0.05, "{without}");
    assert!((0.5..=0.65).contains(&with), "{with}");
}

// --- Clocked interrupts ---

const TICK: Duration = Duration::from_micros(100);

#[test]
fn clocked_interrupts_come_with_the_clock_and_lose_nothing() {
    for architecture in [Architecture::Polled, Architecture::SoftLrp, Architecture::Eager] {
        let config = Config::of(architecture).with_paper_policies(|a| a.clocked_interrupts = Some(TICK));
        let mut bench = Bench::router(config);
        let (sink, seen) = Sink::new(9);
        bench.host.spawn("sink", 0, Box::new(sink));
        bench.run(Duration::from_millis(2));
        bench.sent_wan();
        let (interrupts, start) = (bench.host.interrupts(), bench.now);
        for n in 0..300 {
            bench.send(&[outwards(n), udp(9, b"in")]);
            // At another moment of the tick each time, and the host halts in between.
            let sent = bench.now;
            bench.run(Duration::from_micros(137));
            let latency = TICK + UNIT * 40;
            assert!(bench.now.since(sent) <= latency || seen.count() == u64::from(n) + 1, "{architecture}");
            assert_eq!((bench.numbers_wan(), seen.count()), (vec![n], u64::from(n) + 1), "{architecture}");
        }
        let ticks = bench.now.since(start).as_micros() / TICK.as_micros() + 1;
        let interrupts = bench.host.interrupts() - interrupts;
        assert!(
            u128::from(interrupts) <= ticks,
            "{architecture}: {interrupts} for one ring in {ticks} ticks"
        );
        assert!(interrupts >= 200, "{architecture}: {interrupts}");
    }
}

#[test]
fn under_a_flood_clocked_interrupts_are_at_most_one_for_each_source_and_tick() {
    // The eager host gets what it can forward: its handlers work off a whole ring in many units.
    for (architecture, pkts) in [(Architecture::Polled, 10), (Architecture::Eager, 3)] {
        let config = Config { batch_pkts: 1, ..Config::of(architecture) };
        let mut bench = Bench::router(config.with_paper_policies(|a| a.clocked_interrupts = Some(TICK)));
        bench.settle_some();
        let (interrupts, start) = (bench.host.interrupts(), bench.now);
        for n in 0..2_000 {
            bench.send(&vec![outwards(n); pkts]);
            bench.send_wan(&vec![inwards(n); pkts]);
            bench.run(UNIT * 15);
            bench.sent();
            bench.sent_wan();
        }
        let ticks = bench.now.since(start).as_micros() / TICK.as_micros() + 1;
        // Two receive rings, and nothing to reclaim.
        let taken = u128::from(bench.host.interrupts() - interrupts);
        assert!(taken <= 2 * ticks, "{architecture}: {taken} in {ticks} ticks");
        assert!(bench.host.ledger().forwarded > 10_000, "{architecture}");
    }
}

#[test]
fn a_halted_host_with_clocked_interrupts_wakes_by_its_deadline() {
    for architecture in [Architecture::Polled, Architecture::Eager, Architecture::SoftLrp] {
        let config = Config::of(architecture).with_paper_policies(|a| a.clocked_interrupts = Some(TICK));
        let mut bench = Bench::router(config);
        bench.run(Duration::from_millis(2));
        bench.send(&[outwards(1)]);
        while !bench.host.halt(bench.now) {
            bench.unit();
        }
        let deadline = bench.host.next_deadline();
        assert!(deadline != Instant::NEVER && deadline <= bench.now + TICK, "{architecture}");
        bench.now = deadline;
        while bench.unit() {}
        assert_eq!(bench.numbers_wan(), [1], "{architecture}");
    }
}

// --- Handlers that only set a flag ---

#[test]
fn a_frame_that_comes_while_its_flag_is_being_cleared_interrupts_again() {
    let tasks = TaskWeights { receive: 1, transmit: 1 };
    let config = Config::of(Architecture::Polled).with_paper_policies(|a| a.real_time_tasks = Some(tasks));
    let mut bench = Bench::router(config);
    bench.settle();
    bench.sent_wan();
    bench.send(&[outwards(1)]);
    assert!(bench.unit(), "the flag is set");
    let poll = bench.host.turn(bench.now).unwrap();
    bench.send(&[outwards(2)]);
    let interrupt = bench.host.turn(bench.now).unwrap();
    assert_eq!((poll.level, interrupt.level), (Level::PollingThread, Level::Interrupt));
    bench.host.finish(&interrupt, bench.now);
    bench.host.finish(&poll, bench.now);
    bench.settle();
    assert_eq!(bench.numbers_wan(), [1, 2]);
}

// --- Everything at the highest level ---

#[test]
fn processing_to_completion_in_the_interrupt_forwards_all_and_leaves_programs_nothing() {
    let config = Config {
        device_work: DeviceWork::Interrupt,
        batch_pkts: 1,
        feedback: None,
        ..Config::of(Architecture::Polled)
    };
    let mut bench = Bench::router(config);
    let spinner = bench.host.spawn("spinner", 0, Box::new(Spinner));
    bench.settle_some();
    bench.units = [0; 5];
    let (before, start) = (bench.host.bill(spinner).unwrap().used, bench.now);
    for n in 0..2_000 {
        bench.send(&vec![outwards(n); 20]);
        bench.run(UNIT * 10);
        bench.sent_wan();
    }
    let units = bench.now.since(start).as_micros() as u64;
    assert!(
        bench.host.ledger().forwarded > units * 9 / 10,
        "a packet in each unit: kernel livelock is solved"
    );
    assert_eq!((bench.at(Level::SoftInterrupt), bench.at(Level::PollingThread)), (0, 0));
    let share = (bench.host.bill(spinner).unwrap().used - before).div_duration_f64(bench.now.since(start));
    assert!(share < 0.05, "and programs still starve: {share}");
    assert!(bench.done(Work::Forward) > 0);
}

// --- Inhibition ---

#[test]
fn an_inhibition_at_once_stops_a_batch_in_the_middle() {
    for architecture in [Architecture::Polled, Architecture::SoftLrp] {
        let config = Config {
            socket_queue_pkts: 8,
            channel_pkts: 8,
            batch_pkts: 64,
            quota: Quota::Fixed(64),
            ..Config::of(architecture)
        };
        let mut bench = Bench::new(config);
        let (mut sink, seen) = Sink::new(7);
        sink.compute = Duration::from_micros(20);
        bench.host.spawn("sink", 0, Box::new(sink));
        bench.settle();
        bench.send(&vec![udp(7, b"burst"); 64]);
        bench.settle();
        // It takes longer to read them than the timeout is, but not to read down to the low mark.
        let ledger = bench.host.ledger();
        let dropped = ledger.input_drops(QueueDrop::Socket) + ledger.input_drops(QueueDrop::Channel);
        assert_eq!((seen.count(), dropped), (64, 0), "{architecture}");
    }
}
