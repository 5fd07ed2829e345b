//! Packet monitors: which frames they get, what they miss, and what they do to the others (TOCS 1997, section
//! 9).
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::sync::Arc;

use common::programs::{Monitor, Reins};
use common::router::*;
use common::*;
use evenkeel_core::capture::{Capture, CaptureCounters, Filter, Tapped};
use evenkeel_core::drop::{LinkDrop, QueueDrop};
use evenkeel_core::host::{Config, System};
use evenkeel_core::poll::Feedback;
use evenkeel_core::process::{ProcessId, Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::UdpSocket;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr};
use evenkeel_core::work::Work;

/// Keeps so many bytes of UDP datagrams to a port.
#[derive(Debug)]
struct ToPort(u16, usize);

impl Filter for ToPort {
    fn keep(&mut self, frame: &Tapped<'_>) -> usize {
        let frame = frame.bytes;
        let wanted = frame.get(23) == Some(&17) && frame.get(36..38) == Some(&self.0.to_be_bytes());
        if wanted { self.1 } else { 0 }
    }
}

fn monitored(config: Config, wanted: Capture) -> (Bench, ProcessId, Arc<Reins>) {
    let mut bench = Bench::router(config);
    bench.settle();
    bench.sent();
    bench.sent_wan();
    let (monitor, reins) = Monitor::new(wanted);
    let process = bench.host.spawn("monitor", 0, Box::new(monitor));
    bench.settle();
    (bench, process, reins)
}

fn counters(bench: &Bench, reins: &Reins) -> CaptureCounters {
    bench.host.capture_counters(reins.queue()).unwrap()
}

#[test]
fn the_filter_says_which_frames_and_how_much_of_them() {
    for architecture in Architecture::ALL {
        let filter: Option<Box<dyn Filter>> = Some(Box::new(ToPort(9, 44)));
        let (mut bench, _, reins) =
            monitored(Config::of(architecture), Capture { filter, ..Capture::default() });
        for n in 0..10 {
            bench.send(&[outwards_to_port(7, n), outwards_to_port(9, n)]);
            bench.settle();
        }
        let captured = reins.captured.lock().unwrap();
        assert_eq!(captured.len(), 10, "{architecture}");
        for (n, sighted) in captured.iter().enumerate() {
            let frame = outwards_to_port(9, n as u32);
            assert_eq!(sighted.bytes, frame[..44], "{architecture}");
            assert_eq!((sighted.original_bytes, sighted.interface, sighted.sent), (frame.len(), LAN, false));
        }
        assert!(captured.is_sorted_by_key(|s| s.at), "{architecture}");
        let expected = CaptureCounters { seen: 20, accepted: 10, dropped: 0, delivered: 10 };
        assert_eq!(counters(&bench, &reins), expected, "{architecture}");
    }
}

#[test]
fn no_more_than_the_snapshot_length_is_kept() {
    let wanted = Capture { snaplen: 16, ..Capture::default() };
    let (mut bench, _, reins) = monitored(Config::of(Architecture::Polled), wanted);
    bench.send(&[outwards(1)]);
    bench.settle();
    let captured = reins.captured.lock().unwrap();
    assert_eq!((captured[0].bytes.len(), captured[0].original_bytes), (16, outwards(1).len()));
}

#[test]
fn one_interface_or_all_received_or_sent_too() {
    for (interface, sent_too, expected) in [
        (None, false, vec![(LAN, false), (WAN, false)]),
        (None, true, vec![(LAN, false), (WAN, true), (WAN, false), (LAN, true)]),
        (Some(WAN), true, vec![(WAN, true), (WAN, false)]),
        (Some(LAN), false, vec![(LAN, false)]),
    ] {
        for architecture in Architecture::ALL {
            let wanted = Capture { interface, sent_too, ..Capture::default() };
            let (mut bench, _, reins) = monitored(Config::of(architecture), wanted);
            bench.send(&[outwards(1)]);
            bench.settle();
            bench.send_wan(&[inwards(2)]);
            bench.settle();
            let captured = reins.captured.lock().unwrap();
            let where_seen: Vec<_> = captured.iter().map(|s| (s.interface, s.sent)).collect();
            assert_eq!(where_seen, expected, "{architecture}, {interface:?}");
            let shown = counters(&bench, &reins).seen;
            assert_eq!(
                bench.done(Work::Filter),
                shown,
                "{architecture}: the filter works on what it is shown"
            );
            let sent = captured.iter().find(|s| s.sent && s.interface == WAN);
            if let Some(sent) = sent {
                assert_eq!(sent.bytes, passed_on(&outwards(1), WAN_MAC, FAR_MAC));
            }
        }
    }
}

#[test]
fn a_full_queue_drops_copies_and_no_frame() {
    for architecture in Architecture::ALL {
        let wanted = Capture { limit_pkts: 8, ..Capture::default() };
        let (mut bench, process, reins) = monitored(Config::of(architecture), wanted);
        reins.hang(true);
        let frames: Vec<_> = (0..40).map(outwards).collect();
        bench.send(&frames);
        bench.run(Duration::from_millis(50));
        assert_eq!(bench.numbers_wan().len(), 40, "{architecture}: all are forwarded");
        let CaptureCounters { seen, accepted, dropped, delivered } = counters(&bench, &reins);
        // Its sleeping call got one.
        let waiting = bench.host.waiting_in(reins.queue()).unwrap() as u64;
        assert_eq!((seen, accepted, waiting), (40, 40, 8), "{architecture}");
        assert_eq!(accepted, delivered + dropped + waiting, "{architecture}");
        assert_eq!(bench.host.ledger().input_drops(QueueDrop::Capture), dropped, "{architecture}");
        bench.host.kill(process, bench.now);
        bench.settle();
        assert_eq!(bench.host.ledger().input_drops(QueueDrop::Closed), 8, "{architecture}");
        assert_eq!(bench.host.queued(), 0, "{architecture}");
    }
}

#[test]
fn closing_gives_every_buffer_back() {
    for architecture in Architecture::ALL {
        // Twenty queues at once have no room.
        let config = Config::of(architecture);
        let limit_pkts = config.memory_pkts / 4;
        let mut bench = Bench::router(config);
        bench.settle();
        let in_use = |bench: &Bench| bench.host.pool().1 - bench.host.pool().0;
        let (before, promised) = (in_use(&bench), bench.host.pool().1);
        for n in 0..20 {
            let (monitor, reins) = Monitor::new(Capture { limit_pkts, ..Capture::default() });
            reins.hang(true);
            let process = bench.host.spawn("monitor", 0, Box::new(monitor));
            bench.run(UNIT * 20);
            assert_eq!(*reins.refused.lock().unwrap(), None, "{architecture}: the {n}th");
            bench.send(&vec![outwards(n); 32]);
            bench.run(Duration::from_millis(5));
            bench.host.kill(process, bench.now);
            bench.settle();
            bench.sent_wan();
        }
        assert_eq!(bench.host.pool().1, promised, "{architecture}");
        assert!(in_use(&bench) <= before, "{architecture}: {} of {before}", in_use(&bench));
    }
}

/// TOCS 1997, section 9: `tcpdump` keeps 68 bytes, and that is why its work does not depend on the size of
/// packets.
#[test]
fn a_large_frame_is_no_more_work_than_a_small_one() {
    for listen_only in [false, true] {
        let run = |size: usize| {
            let config = Config { listen_only, ..Config::of(Architecture::Polled) };
            let wanted = Capture { snaplen: 68, ..Capture::default() };
            let (mut bench, _, reins) = monitored(config, wanted);
            let before: Vec<_> = Work::ALL.iter().map(|&work| bench.done(work)).collect();
            for number in 0..50 {
                let mut frame = outwards(number);
                frame.resize(size, 0);
                bench.send(&[frame]);
                bench.settle();
            }
            let captured = reins.captured.lock().unwrap();
            assert_eq!(captured.len(), 50);
            assert!(captured.iter().all(|s| s.original_bytes == size && s.bytes.len() == size.min(68)));
            let done = Work::ALL.iter().zip(before).map(|(&work, before)| (work, bench.done(work) - before));
            (done.collect::<Vec<_>>(), bench.now)
        };
        assert_eq!(run(60), run(1514), "listening only: {listen_only}");
    }
}

/// Creates a router and sends it two frames a microsecond, with a monitor that takes 20 us for each.
fn flooded(config: Config) -> (Bench, Arc<Reins>) {
    let mut bench = Bench::router(config);
    let (monitor, reins) = Monitor::new(Capture { limit_pkts: 32, snaplen: 68, ..Capture::default() });
    bench.host.spawn("monitor", 0, Box::new(Monitor { compute: Duration::from_micros(20), ..monitor }));
    bench.settle();
    for n in 0..500 {
        bench.send(&vec![outwards(n); 40]);
        bench.run(Duration::from_micros(20));
        bench.sent_wan();
        let c = bench.host.capture_counters(reins.queue()).unwrap();
        let waiting = bench.host.waiting_in(reins.queue()).unwrap() as u64;
        assert!(waiting <= 32 && c.seen >= c.accepted && c.accepted == c.delivered + c.dropped + waiting);
    }
    (bench, reins)
}

#[test]
fn a_full_capture_queue_holds_input_back() {
    let with = |resume_on_space| {
        let feedback = Feedback { resume_on_space, ..Feedback::default() };
        let config = Config { feedback: Some(feedback), batch_pkts: 1, ..Config::of(Architecture::Polled) };
        let (bench, reins) = flooded(config);
        (reins.count(), bench.host.resumes(), counters(&bench, &reins).dropped)
    };
    let config = Config { feedback: None, batch_pkts: 1, ..Config::of(Architecture::Polled) };
    let (bench, reins) = flooded(config);
    assert!(reins.count() < 50 && counters(&bench, &reins).dropped > 1_000, "livelock: {}", reins.count());

    let (captured, resumes, dropped) = with(true);
    assert!(captured > 300 && resumes.low_mark > 10, "{captured}, {resumes:?}");
    assert!(dropped <= resumes.timeout * 8, "{dropped}, {resumes:?}");

    let (captured, resumes, dropped) = with(false);
    assert!(captured > 200 && resumes.low_mark == 0 && resumes.timeout > 5, "{captured}, {resumes:?}");
    assert!(dropped <= resumes.timeout * 8, "{dropped}, {resumes:?}");
}

#[test]
fn frames_that_the_output_queue_drops_were_not_sent() {
    let config = Config { output_queue_pkts: 4, ..Config::of(Architecture::Polled) };
    let mut bench = Setup { transmit_ring_pkts: Some(4), ..Setup::new(config) }.bench();
    let (monitor, reins) =
        Monitor::new(Capture { sent_too: true, interface: Some(WAN), ..Capture::default() });
    bench.host.spawn("monitor", 0, Box::new(monitor));
    bench.settle();
    bench.sent_wan();
    bench.settle();
    reins.captured.lock().unwrap().clear();
    bench.send(&(0..20).map(outwards).collect::<Vec<_>>());
    bench.settle();
    assert_eq!(bench.host.ledger().output_drops(QueueDrop::Output), 12);
    assert_eq!(reins.captured.lock().unwrap().len(), 8);
}

/// Sends a datagram every millisecond.
#[derive(Debug)]
struct Talker;

impl Program for Talker {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        if let Ok(socket) = UdpSocket::bind(system, None, 0) {
            let _ = socket.send(system, IpEndpoint { addr: PEER.into(), port: 7 }, b"hello");
            system.close(socket);
        }
        Step::Sleep(system.now() + Duration::from_millis(1))
    }
}

#[test]
fn a_host_that_only_listens_sends_nothing_at_all() {
    for architecture in Architecture::ALL {
        let config = Config { listen_only: true, ..Config::of(architecture) };
        let mut bench = Bench::new(config);
        let address = IpCidr::new(IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, 2), 64);
        bench.host.add_address(LAN, address, Instant::ZERO);
        bench.host.spawn("talker", 0, Box::new(Talker));
        let (sink, seen) = Sink::new(7);
        bench.host.spawn("sink", 0, Box::new(sink));
        let (copied, copies) = Monitor::new(Capture { sent_too: true, ..Capture::default() });
        bench.host.spawn("first monitor", 0, Box::new(copied));
        let (monitor, reins) = Monitor::new(Capture { sent_too: true, ..Capture::default() });
        bench.host.spawn("monitor", 0, Box::new(monitor));
        bench.run(Duration::from_millis(5));
        for _ in 0..100 {
            bench.send(&[arp_request(), udp(7, b"for the sink"), udp(9, b"for nobody")]);
            // Long enough for group reports, neighbour probes and duplicate address detection.
            bench.now += Duration::from_secs(1);
            bench.run(Duration::from_millis(5));
            assert_eq!(bench.sent(), Vec::<Vec<u8>>::new(), "{architecture}");
        }
        let ledger = bench.host.ledger();
        assert_eq!((ledger.transmitted, seen.count()), (0, 0), "{architecture}");
        assert!(ledger.output_drops(LinkDrop::ListenOnly) > 100, "{architecture}: the test asks it to send");
        assert_eq!(reins.count(), 300, "{architecture}: the monitor sees everything");
        let bytes = |reins: &Reins| -> Vec<Vec<u8>> {
            reins.captured.lock().unwrap().iter().map(|s| s.bytes.clone()).collect()
        };
        assert_eq!(bytes(&reins), bytes(&copies), "{architecture}: and so does the other");
        assert!(reins.captured.lock().unwrap().iter().all(|s| !s.sent), "{architecture}");
    }
}

#[test]
fn a_monitor_changes_nothing_for_the_others() {
    for architecture in Architecture::ALL {
        let run = |monitors: usize| {
            let mut bench = Bench::router(Config::of(architecture));
            for _ in 0..monitors {
                let (monitor, _) = Monitor::new(Capture { sent_too: true, ..Capture::default() });
                bench.host.spawn("monitor", 0, Box::new(monitor));
            }
            bench.settle();
            bench.sent_wan();
            for n in 0..50 {
                bench.send(&[outwards(n), outwards(n + 100)]);
                bench.settle();
            }
            (bench.sent_wan(), bench.host.ledger().forwarded)
        };
        assert_eq!(run(0), run(3), "{architecture}");
    }
}
