//! Output queues, the transmit active flag, and ways in which transmitting can starve (TOCS 1997, sections
//! 4.4 and 8.2).
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use common::router::*;
use common::*;
use evenkeel_core::cable::{Options, pair};
use evenkeel_core::drop::QueueDrop;
use evenkeel_core::frame::{Frame, Pool, PoolLimit};
use evenkeel_core::host::{Config, Host, Transmit, TransmitService};
use evenkeel_core::interface::{Demultiplexer, Interface, RxQueue};
use evenkeel_core::poll::Quota;
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::tcp::FourTuple;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{EthernetAddress, IpCidr};

/// A router whose WAN adaptor has so many descriptors, and greeted its neighbours already.
fn bench(config: Config, transmit_ring_pkts: usize) -> Bench {
    let mut bench = Setup { transmit_ring_pkts: Some(transmit_ring_pkts), ..Setup::new(config) }.bench();
    for _ in 0..4 {
        bench.settle();
        bench.sent();
        bench.sent_wan();
    }
    bench
}

fn burst(bench: &mut Bench, numbers: core::ops::Range<u32>) {
    bench.send(&numbers.map(outwards).collect::<Vec<_>>());
    bench.settle();
}

#[test]
fn the_output_queue_is_bounded_and_keeps_the_order() {
    for architecture in Architecture::ALL {
        for transmit in [Transmit::Latency, Transmit::Throughput] {
            let config = Config { output_queue_pkts: 8, ..Config::of(architecture) };
            let config = config.with_alternatives(|a| a.transmit = transmit);
            let mut bench = bench(config, 4);
            let before = bench.host.ledger().transmitted;
            burst(&mut bench, 0..30);
            let ledger = bench.host.ledger();
            let (handed_over, dropped) =
                (ledger.transmitted - before, ledger.output_drops(QueueDrop::Output));
            assert_eq!((handed_over + 8 + dropped, handed_over), (30, handed_over.clamp(1, 4)));
            assert_eq!(bench.host.traffic(WAN).unwrap().dropped, dropped);
            assert_eq!(bench.host.waiting_to_leave(), 8, "{architecture}");
            let mut left = Vec::new();
            for _ in 0..30 {
                left.extend(numbers(&bench.leave_wan(1)));
                bench.settle();
            }
            assert!(left.is_sorted() && left[0] == 0, "{architecture}, {transmit:?}: {left:?}");
            assert_eq!(
                (left.len() as u64, bench.host.waiting_to_leave()),
                (30 - dropped, 0),
                "{architecture}"
            );
        }
    }
}

#[test]
fn in_throughput_mode_frames_wait_while_the_interface_is_active() {
    for architecture in Architecture::ALL {
        let handed_over = |transmit| {
            let config = Config::of(architecture).with_alternatives(|a| a.transmit = transmit);
            let mut bench = bench(config, 16);
            let before = bench.host.ledger().transmitted;
            let mut counts = Vec::new();
            for n in 0..3 {
                burst(&mut bench, n..n + 1);
                counts.push(bench.host.ledger().transmitted - before);
            }
            // The first has left: its transmit interrupt hands over the two others, and they leave together.
            let mut order = numbers(&bench.leave_wan(1));
            bench.settle();
            counts.push(bench.host.ledger().transmitted - before);
            order.extend(bench.numbers_wan());
            assert_eq!(order, [0, 1, 2], "{architecture}");
            bench.settle();
            // Nothing is active any more.
            burst(&mut bench, 3..4);
            counts.push(bench.host.ledger().transmitted - before);
            counts
        };
        assert_eq!(handed_over(Transmit::Throughput), [1, 1, 1, 3, 4], "{architecture}");
        assert_eq!(handed_over(Transmit::Latency), [1, 2, 3, 3, 4], "{architecture}");
    }
}

/// Endless input, all processed in the interrupt: frames handed over to the WAN's adaptor, which has eight
/// descriptors.
fn all_in_the_interrupt(transmit_service: TransmitService) -> u64 {
    let config = Config {
        device_work: DeviceWork::Interrupt,
        batch_pkts: 1,
        output_queue_pkts: 8,
        ..Config::of(Architecture::Polled)
    };
    let config = config.with_alternatives(|a| a.transmit_service = transmit_service);
    let mut bench = bench(config, 8);
    let before = bench.host.ledger().transmitted;
    for n in 0..2_000 {
        bench.send(&[outwards(n), outwards(n)]);
        bench.unit();
        bench.sent_wan();
    }
    bench.host.ledger().transmitted - before
}

#[test]
fn the_transmit_side_starves_unless_it_takes_turns() {
    assert!(all_in_the_interrupt(TransmitService::InTurn) > 900);
    assert!(all_in_the_interrupt(TransmitService::ReceiveFirst) <= 8);
    assert!(all_in_the_interrupt(TransmitService::LowerLevel) <= 8);
}

/// The third way: buffers that come back are found by a polling thread that receives first.
#[test]
fn without_a_quota_the_polling_thread_starves_it_too() {
    let sent = |quota| {
        let config =
            Config { quota, batch_pkts: 1, output_queue_pkts: 8, ..Config::of(Architecture::Polled) };
        let mut bench = bench(config, 8);
        let before = bench.host.ledger().transmitted;
        for n in 0..2_000 {
            bench.send(&[outwards(n), outwards(n)]);
            bench.unit();
            bench.sent_wan();
        }
        bench.host.ledger().transmitted - before
    };
    assert!(sent(Quota::Unlimited) <= 8);
    assert!(sent(Quota::Fixed(8)) > 900);
}

/// With frames that go through the shared IP queue the software interrupt must have its turn as well.
#[test]
fn below_livelock_no_service_of_the_transmit_side_loses_a_frame() {
    for transmit_service in
        [TransmitService::InTurn, TransmitService::ReceiveFirst, TransmitService::LowerLevel]
    {
        for architecture in Architecture::ALL {
            let config =
                Config::of(architecture).with_alternatives(|a| a.transmit_service = transmit_service);
            let mut bench = bench(config, 8);
            let mut left = Vec::new();
            for n in 0..200 {
                bench.send(&[outwards(n)]);
                bench.run(UNIT * 20);
                left.extend(bench.numbers_wan());
            }
            bench.settle();
            left.extend(bench.numbers_wan());
            assert_eq!(left, (0..200).collect::<Vec<_>>(), "{architecture}, {transmit_service:?}");
        }
    }
}

#[test]
fn a_full_output_queue_can_hold_input_back() {
    let run = |output_feedback| {
        let config = Config { output_queue_pkts: 16, ..Config::of(Architecture::Polled) };
        let config = config.with_alternatives(|a| a.output_feedback = output_feedback);
        let mut bench = bench(config, 8);
        for n in 0..500 {
            bench.send(&vec![outwards(n); 8]);
            bench.run(UNIT * 20);
            // A slow link: two frames leave while eight come.
            bench.leave_wan(2);
        }
        let dropped = bench.host.ledger().output_drops(QueueDrop::Output);
        (dropped, bench.wire.sent().missed, bench.host.resumes())
    };
    let (dropped, missed, _) = run(false);
    assert!(dropped > 2_000 && missed == 0, "{dropped}, {missed}");
    let (dropped, missed, resumes) = run(true);
    assert!(missed > 2_000 && dropped <= 8 * resumes.timeout, "{dropped}, {missed}, {resumes:?}");
}

/// An interface that cannot send at times, and does not say when it can again.
#[derive(Debug)]
struct Stalling {
    inner: evenkeel_core::cable::End,
    state: Arc<Mutex<Stall>>,
}

#[derive(Debug, Default)]
struct Stall {
    stalled: bool,
    attempts: u32,
}

impl Interface for Stalling {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn address(&self) -> EthernetAddress {
        self.inner.address()
    }

    fn mtu(&self) -> usize {
        self.inner.mtu()
    }

    fn attach(&mut self, pool: &mut Pool) -> Result<(), PoolLimit> {
        self.inner.attach(pool)
    }

    fn receives(&self, flow: &FourTuple) -> bool {
        self.inner.receives(flow)
    }

    fn queues(&self) -> usize {
        1
    }

    fn queue(&self, index: usize) -> &dyn RxQueue {
        self.inner.queue(index)
    }

    fn queue_mut(&mut self, index: usize) -> &mut dyn RxQueue {
        self.inner.queue_mut(index)
    }

    fn transmit(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool) -> usize {
        let mut state = self.state.lock().unwrap();
        state.attempts += 1;
        if state.stalled { 0 } else { self.inner.transmit(frames, pool) }
    }

    fn detach(&mut self, _pool: &mut Pool) {}

    fn transmit_batch(&self) -> usize {
        1
    }

    fn unreclaimed(&self) -> Option<usize> {
        None
    }

    fn reclaim(&mut self, _pool: &mut Pool, _limit_pkts: usize) -> usize {
        0
    }

    fn channel_interrupts(&self) -> bool {
        false
    }

    fn demultiplexer(&mut self) -> Option<&mut dyn Demultiplexer> {
        None
    }

    fn set_readable(&mut self, _queue: usize) {}
}

#[test]
fn a_stalled_interface_is_tried_again_soon_but_not_all_the_time() {
    let (mut wire, inner) = pair(Options::new("wire", 1), Options::new("host", 2));
    let state = Arc::new(Mutex::new(Stall::default()));
    let mut host = Host::new(Config::of(Architecture::Polled)).unwrap();
    let stalling = Stalling { inner, state: Arc::clone(&state) };
    host.add_interface(Box::new(stalling), &[IpCidr::new(HOST.into(), 24)], Instant::ZERO).unwrap();
    let mut pool = Pool::with_limit(1024);
    wire.attach(&mut pool).unwrap();
    let mut bench = Bench {
        host,
        wire,
        wan: None,
        pool,
        now: Instant::ZERO,
        units: [0; 5],
        work: evenkeel_core::work::Work::ALL.iter().map(|&w| (w, 0)).collect(),
    };
    bench.settle();
    bench.sent();
    *state.lock().unwrap() = Stall { stalled: true, attempts: 0 };
    bench.send(&[arp_request()]);
    bench.run(Duration::from_millis(20));
    assert_eq!((bench.sent().len(), bench.host.waiting_to_leave()), (0, 1));
    let attempts = state.lock().unwrap().attempts;
    assert!((15..=25).contains(&attempts), "about one a millisecond: {attempts}");
    state.lock().unwrap().stalled = false;
    bench.run(Duration::from_millis(2));
    assert_eq!((bench.sent().len(), bench.host.waiting_to_leave()), (1, 0));
    let attempts = state.lock().unwrap().attempts;
    bench.run(Duration::from_millis(20));
    assert_eq!(state.lock().unwrap().attempts, attempts, "and then it is left alone");
}
