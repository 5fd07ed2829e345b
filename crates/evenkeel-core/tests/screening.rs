//! Screening: a process decides of every packet whether it is forwarded (TOCS 1997, sections 6.2 and 6.6.1).
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::sync::Arc;

use common::programs::{Reins, Screener};
use common::router::*;
use common::*;
use evenkeel_core::drop::{IpDrop, QueueDrop};
use evenkeel_core::host::Config;
use evenkeel_core::poll::{Feedback, FeedbackScope, Quota};
use evenkeel_core::process::ProcessId;
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::screen::Verdict;
use evenkeel_core::socket::BindError;
use evenkeel_core::stack::Transit;
use evenkeel_core::time::Duration;
use evenkeel_core::work::Work;

/// Decides by the port of a UDP packet: 7 passes, 8 is rejected, all others are dropped.
fn by_port(transit: &Transit) -> Verdict {
    match transit.packet()[22..24] {
        [0, 7] => Verdict::Pass,
        [0, 8] => Verdict::Reject,
        _ => Verdict::Drop,
    }
}

fn screened(config: Config, limit_pkts: usize, compute: Duration) -> (Bench, ProcessId, Arc<Reins>) {
    let mut bench = Bench::router(config);
    let (screener, reins) = Screener::new(limit_pkts, by_port);
    let process = bench.host.spawn("screend", 0, Box::new(Screener { compute, ..screener }));
    bench.settle();
    (bench, process, reins)
}

fn every_config() -> Vec<Config> {
    let mut configs: Vec<_> = Architecture::ALL.map(Config::of).into();
    for architecture in [Architecture::Polled, Architecture::SoftLrp] {
        configs.push(Config { device_work: DeviceWork::Interrupt, ..Config::of(architecture) });
    }
    configs
}

#[test]
fn each_packet_has_the_fate_that_screening_decides() {
    for config in every_config() {
        let what = format!("{}, {:?}", config.architecture, config.device_work);
        let (mut bench, _, reins) = screened(config, 32, Duration::ZERO);
        bench.sent();
        for n in 0..30 {
            bench.send(&[outwards_to_port(7 + (n % 3) as u16, n)]);
            bench.settle();
        }
        let passed: Vec<u32> = (0..30).filter(|n| n % 3 == 0).collect();
        assert_eq!(bench.numbers_wan(), passed, "{what}");
        let ledger = bench.host.ledger();
        assert_eq!((reins.count(), ledger.forwarded), (30, 10), "{what}");
        assert_eq!(ledger.input_drops(IpDrop::Refused), 20, "{what}");
        assert_eq!(bench.host.socket_counters(reins.queue()).unwrap().received, 30, "{what}");
        // ICMP type 3, code 13: communication administratively prohibited.
        let told = bench.sent().iter().filter(|f| f[23] == 1 && f[34..36] == [3, 13]).count();
        assert_eq!(told, 10, "{what}: whom a packet was rejected is told");
    }
}

/// Floods a slow screening process, and returns the length of the longest queue. An interrupt-driven host
/// gets so much less that protocol input can run.
fn flood(bench: &mut Bench, reins: &Reins) -> usize {
    let mut longest = 0;
    let architecture = bench.host.config().architecture;
    let pkts = if matches!(architecture, Architecture::Eager | Architecture::EarlyDemux) { 5 } else { 40 };
    for n in 0..500 {
        bench.send(&vec![outwards(n); pkts]);
        let until = bench.now + UNIT * 20;
        while bench.now < until {
            bench.run(UNIT);
            longest = longest.max(bench.host.waiting_in(reins.queue()).unwrap());
        }
        bench.sent_wan();
    }
    assert!(reins.count() < 1_000, "it is slow");
    longest
}

fn small(architecture: Architecture) -> Config {
    Config { batch_pkts: 1, channel_pkts: 16, ip_queue_pkts: 16, ..Config::of(architecture) }
}

#[test]
fn the_queue_never_holds_more_than_its_limit_and_the_excess_is_counted() {
    for (architecture, feedback) in Architecture::ALL.into_iter().flat_map(|a| [(a, true), (a, false)]) {
        let config = small(architecture);
        let config = Config { feedback: config.feedback.filter(|_| feedback), ..config };
        let (mut bench, process, reins) = screened(config, 8, Duration::from_micros(20));
        let longest = flood(&mut bench, &reins);
        let lazy = matches!(architecture, Architecture::SoftLrp | Architecture::NiLrp);
        assert!(longest <= 8 && (longest >= 6 || lazy), "{architecture}: {longest}");
        let (counters, ledger) = (bench.host.socket_counters(reins.queue()).unwrap(), bench.host.ledger());
        let dropped = ledger.input_drops(QueueDrop::Screen);
        if architecture != Architecture::EarlyDemux {
            assert_eq!(counters.dropped, dropped, "{architecture}");
        }
        assert_eq!(counters.received, ledger.forwarded, "{architecture}");
        match architecture {
            Architecture::Polled if feedback => {
                assert!(dropped <= bench.host.resumes().timeout * 8, "{dropped} dropped after their input");
            }
            Architecture::Eager | Architecture::EarlyDemux | Architecture::Polled => {
                assert!(dropped > 500, "{architecture}: {dropped}");
            }
            Architecture::SoftLrp | Architecture::NiLrp => assert_eq!(dropped, 0, "{architecture}"),
        }
        bench.host.kill(process, bench.now);
        bench.settle();
    }
}

#[test]
fn early_demultiplexing_drops_before_input_what_the_screening_queue_has_no_room_for() {
    let (mut bench, _, reins) = screened(small(Architecture::EarlyDemux), 8, Duration::ZERO);
    reins.hang(true);
    for n in 0..100 {
        bench.send(&[outwards(n)]);
        bench.run(UNIT * 10);
    }
    let (dropped, input) = (
        bench.host.ledger().input_drops(QueueDrop::Screen),
        bench.done(Work::Input) + bench.done(Work::Control),
    );
    // One was taken by the call that the process was asleep in.
    assert!(dropped >= 90 && input <= 10, "{dropped} dropped, {input} taken in");
}

#[test]
fn under_the_lazy_architectures_input_is_on_the_bill_of_the_process_that_screens() {
    for architecture in [Architecture::SoftLrp, Architecture::NiLrp] {
        let (mut bench, process, reins) = screened(small(architecture), 8, Duration::from_micros(5));
        let daemon = bench.process("forwardd");
        let before = bench.host.bill(daemon).unwrap().used;
        // Before it has ever slept on its queue, while it sleeps, and while it is behind.
        for n in 0..300 {
            bench.send(&vec![outwards(n); if n % 3 == 0 { 1 } else { 8 }]);
            bench.run(Duration::from_micros(if n % 3 == 0 { 100 } else { 10 }));
            bench.sent_wan();
        }
        let used = bench.host.bill(process).unwrap().used;
        assert!(used >= Duration::from_micros(6) * reins.count() as u32, "{architecture}: {used:?}");
        assert_eq!(bench.host.bill(daemon).unwrap().used, before, "{architecture}: the daemon rests");
        assert_eq!(bench.host.ledger().input_drops(QueueDrop::Screen), 0, "{architecture}");
    }
}

#[test]
fn packets_that_come_before_the_screening_process_first_waits_are_its_own() {
    for architecture in [Architecture::SoftLrp, Architecture::NiLrp] {
        let mut bench = Bench::router(small(architecture));
        bench.settle();
        let daemon = bench.process("forwardd");
        let before = bench.host.bill(daemon).unwrap().used;
        let (screener, reins) = Screener::new(8, by_port);
        reins.hang(true);
        bench.host.spawn("screend", 0, Box::new(screener));
        bench.run(UNIT * 10);
        bench.send(&[outwards(0), outwards(1)]);
        bench.run(UNIT * 20);
        assert_eq!(bench.host.ledger().forwarded, 0, "{architecture}");
        reins.hang(false);
        bench.settle_some();
        assert_eq!((bench.numbers_wan(), reins.count()), (vec![0, 1], 2), "{architecture}");
        assert_eq!(bench.host.bill(daemon).unwrap().used, before, "{architecture}");
    }
}

#[test]
fn where_screening_is_required_nothing_passes_before_the_process_has_had_its_first_turn() {
    for config in every_config() {
        let what = format!("{}, {:?}", config.architecture, config.device_work);
        let mut bench = Bench::router(config);
        bench.host.require_screening();
        let (screener, _) = Screener::new(32, by_port);
        bench.host.spawn("screend", 0, Box::new(Screener { compute: Duration::ZERO, ..screener }));
        bench.send(&(0..5).map(|n| outwards_to_port(9, n)).collect::<Vec<_>>());
        bench.settle();
        assert_eq!(bench.numbers_wan(), [], "{what}: port 9 is refused");
        bench.send(&(5..8).map(outwards).collect::<Vec<_>>());
        bench.settle();
        assert_eq!(bench.numbers_wan(), [5, 6, 7], "{what}");
    }
}

#[test]
fn without_the_process_nothing_passes_until_another_one_screens() {
    for config in every_config() {
        let what = format!("{}, {:?}", config.architecture, config.device_work);
        let (mut bench, first, reins) = screened(config, 32, Duration::ZERO);
        reins.hang(true);
        // It is asleep on its queue, gets one packet, and hangs with the rest.
        bench.send(&(0..6).map(outwards).collect::<Vec<_>>());
        bench.run(UNIT * 40);
        assert_eq!(bench.numbers_wan(), [], "{what}");
        bench.host.kill(first, bench.now);
        bench.settle();
        assert_eq!(bench.host.queued(), 0, "{what}: what it had not screened does not wait for ever");
        bench.send(&(10..15).map(outwards).collect::<Vec<_>>());
        bench.settle();
        assert_eq!(bench.numbers_wan(), [], "{what}: nothing passes unscreened");
        let ledger = bench.host.ledger();
        let (closed, unscreened) =
            (ledger.input_drops(QueueDrop::Closed), ledger.input_drops(QueueDrop::Unscreened));
        assert_eq!((closed + unscreened, bench.host.queued()), (11, 0), "{what}");
        assert!(unscreened >= 5, "{what}");

        let (second, reins) = Screener::new(32, by_port);
        bench.host.spawn("screend", 0, Box::new(second));
        bench.settle();
        bench.send(&(20..25).map(outwards).collect::<Vec<_>>());
        bench.settle();
        assert_eq!((bench.numbers_wan(), reins.count()), ((20..25).collect(), 5), "{what}");
    }
}

#[test]
fn a_second_screening_process_is_refused_and_the_first_goes_on() {
    for architecture in Architecture::ALL {
        let (mut bench, _, first) = screened(Config::of(architecture), 32, Duration::ZERO);
        let (second, refused) = Screener::new(32, by_port);
        bench.host.spawn("second", 0, Box::new(second));
        bench.settle();
        assert_eq!(*refused.refused.lock().unwrap(), Some(BindError::InUse));
        bench.send(&[outwards(0)]);
        bench.settle();
        assert_eq!((bench.numbers_wan(), first.count()), (vec![0], 1), "{architecture}");
    }
}

#[test]
fn closing_gives_every_buffer_back() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::router(Config::of(architecture));
        bench.settle();
        let in_use = |bench: &Bench| {
            let (available, capacity) = bench.host.pool();
            capacity - available
        };
        let (before, promised) = (in_use(&bench), bench.host.pool().1);
        for round in 0..30 {
            let (screener, reins) = Screener::new(32, by_port);
            let process = bench.host.spawn("screend", 0, Box::new(screener));
            bench.settle();
            reins.hang(true);
            bench.send(&vec![outwards(round); 32]);
            bench.run(UNIT * 200);
            bench.host.kill(process, bench.now);
            bench.settle();
        }
        assert_eq!((bench.host.queued(), bench.host.pool().1), (0, promised), "{architecture}");
        // Rings get buffers back in batches.
        assert!(in_use(&bench) <= before, "{architecture}: {} of {before}", in_use(&bench));
    }
}

/// Sends packets to the screening queue and every fifth to a service, while the screening process hangs.
/// Returns the datagrams that the service received, the longest screening queue, and the ticks that passed.
fn beside_a_hung_one(quota: Quota, batch_pkts: usize, scope: FeedbackScope) -> (u64, usize, u64) {
    let timeout = Duration::from_micros(100);
    let feedback = Some(Feedback { timeout, scope, ..Feedback::default() });
    let config = Config { quota, feedback, batch_pkts, ..Config::of(Architecture::Polled) };
    let (mut bench, _, reins) = screened(config, 32, Duration::ZERO);
    let (sink, seen) = Sink::new(9);
    bench.host.spawn("sink", 0, Box::new(sink));
    bench.settle();
    reins.hang(true);
    let (start, mut longest) = (bench.now, 0);
    for n in 0..2_000 {
        bench.send(&[outwards(n), outwards(n), udp(9, b"me"), outwards(n), outwards(n)]);
        bench.run(Duration::from_micros(50));
        longest = longest.max(bench.host.waiting_in(reins.queue()).unwrap());
    }
    assert!(reins.count() <= 1);
    let ticks = bench.now.since(start).as_micros() / timeout.as_micros();
    (seen.count(), longest, ticks as u64)
}

#[test]
fn a_hung_process_blocks_nobody_else_for_longer_than_a_tick() {
    for quota in [Quota::Fixed(8), Quota::Unlimited] {
        for (scope, batch_pkts) in
            [(FeedbackScope::All, 1), (FeedbackScope::All, 16), (FeedbackScope::Feeding, 1)]
        {
            let (seen, longest, ticks) = beside_a_hung_one(quota, batch_pkts, scope);
            assert!(longest <= 32, "{longest}");
            // Eight frames a tick, of which every fifth is for the service.
            assert!(seen >= ticks, "{seen} in {ticks} ticks, {quota:?}, batches of {batch_pkts}, {scope:?}");
        }
    }
}
