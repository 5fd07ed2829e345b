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
use evenkeel_core::host::{Config, Host, System, Transmit, TransmitService};
use evenkeel_core::interface::{Interface, Properties, RxQueue, TxQueue};
use evenkeel_core::poll::Quota;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::system::UdpSocket;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::IpCidr;

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
            let config = config.with_paper_policies(|a| a.transmit = transmit);
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
            let config = Config::of(architecture).with_paper_policies(|a| a.transmit = transmit);
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
    let config = config.with_paper_policies(|a| a.transmit_service = transmit_service);
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

/// If frames go through the shared IP queue, the software interrupt must run as well.
#[test]
fn below_livelock_no_service_of_the_transmit_side_loses_a_frame() {
    for transmit_service in
        [TransmitService::InTurn, TransmitService::ReceiveFirst, TransmitService::LowerLevel]
    {
        for architecture in Architecture::ALL {
            let config =
                Config::of(architecture).with_paper_policies(|a| a.transmit_service = transmit_service);
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
        // What one callback takes finds room above the mark.
        let quota = Quota::Fixed(8);
        let config = Config { output_queue_pkts: 16, quota, ..Config::of(Architecture::Polled) };
        let config = config.with_paper_policies(|a| a.output_feedback = output_feedback);
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

/// An interface that cannot send at times and does not say when it can again, or that would rather have many
/// frames at a time.
#[derive(Debug)]
struct Driver {
    properties: Properties,
    inner: evenkeel_core::cable::End,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    stalled: bool,
    /// The number of frames taken at each call of `transmit`.
    taken: Vec<usize>,
}

impl State {
    fn new() -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { stalled: false, taken: Vec::new() }))
    }
}

impl TxQueue for Driver {
    fn transmit(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool) -> usize {
        let mut state = self.state.lock().unwrap();
        let taken = if state.stalled { 0 } else { self.inner.transmit(frames, pool) };
        state.taken.push(taken);
        taken
    }
}

impl Interface for Driver {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn queue(&self, index: usize) -> &dyn RxQueue {
        self.inner.queue(index)
    }

    fn queue_mut(&mut self, index: usize) -> &mut dyn RxQueue {
        self.inner.queue_mut(index)
    }

    fn attach(&mut self, pool: &mut Pool) -> Result<(), PoolLimit> {
        self.inner.attach(pool)
    }
}

/// A host behind such an interface that has greeted its neighbours.
fn driven(architecture: Architecture, transmit_batch: usize, state: &Arc<Mutex<State>>) -> Bench {
    let (mut wire, inner) = pair(
        Options { ring_pkts: 1024, ..Options::new("wire", 1) },
        Options { ring_pkts: 64, ..Options::new("host", 2) },
    );
    let mut host = Host::new(Config::of(architecture)).unwrap();
    let properties = Properties { transmit_batch, ..inner.properties().clone() };
    let driver = Driver { properties, inner, state: Arc::clone(state) };
    let id = host.add_interface(Box::new(driver), &[IpCidr::new(HOST.into(), 24)], Instant::ZERO).unwrap();
    host.set_neighbor(id, PEER.into(), PEER_MAC, Instant::ZERO).unwrap();
    let mut pool = Pool::with_limit(4096);
    wire.attach(&mut pool).unwrap();
    let work = evenkeel_core::work::Work::ALL.iter().map(|&w| (w, 0)).collect();
    let mut bench = Bench { host, wire, wan: None, pool, now: Instant::ZERO, units: [0; 5], work };
    for _ in 0..4 {
        bench.settle();
        bench.sent();
    }
    state.lock().unwrap().taken.clear();
    bench
}

#[test]
fn a_stalled_interface_is_tried_again_soon_but_not_all_the_time() {
    let state = State::new();
    let mut bench = driven(Architecture::Polled, 1, &state);
    let attempts = || state.lock().unwrap().taken.len();
    state.lock().unwrap().stalled = true;
    bench.send(&[arp_request()]);
    bench.run(Duration::from_millis(20));
    assert_eq!((bench.sent().len(), bench.host.waiting_to_leave()), (0, 1));
    assert!((15..=25).contains(&attempts()), "about one a millisecond: {}", attempts());
    state.lock().unwrap().stalled = false;
    bench.run(Duration::from_millis(2));
    assert_eq!((bench.sent().len(), bench.host.waiting_to_leave()), (1, 0));
    let before = attempts();
    bench.run(Duration::from_millis(20));
    assert_eq!(attempts(), before, "and then it is left alone");
}

/// Answers what it receives.
#[derive(Debug)]
struct Echo {
    socket: Option<UdpSocket>,
    compute: Duration,
}

impl Echo {
    fn boxed(compute: Duration) -> Box<Self> {
        Box::new(Self { socket: None, compute })
    }
}

impl Program for Echo {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(socket) = self.socket else {
            self.socket = Some(UdpSocket::bind(system, None, 7).unwrap());
            return Step::Again;
        };
        let Ok(datagram) = socket.receive(system) else { return Step::Wait(socket.fd()) };
        socket.send(system, datagram.source(), b"there").unwrap();
        system.recycle(datagram);
        system.compute(self.compute);
        Step::Again
    }
}

/// Frames are batched if a transmit call costs as much as some frames, and none stays behind. Otherwise they
/// leave at the end of their work item.
#[test]
fn frames_gather_while_there_is_other_work() {
    for architecture in
        [Architecture::Eager, Architecture::EarlyDemux, Architecture::Polled, Architecture::SoftLrp]
    {
        let calls = |batch| {
            let state = State::new();
            let mut bench = driven(architecture, batch, &state);
            bench.host.spawn("echo", 0, Echo::boxed(Duration::ZERO));
            bench.settle();
            bench.send(&vec![udp(7, b"here"); 20]);
            bench.settle();
            assert_eq!((bench.sent().len(), bench.host.waiting_to_leave()), (20, 0), "{architecture}");
            let state = state.lock().unwrap();
            assert_eq!(state.taken.iter().sum::<usize>(), 20);
            state.taken.len()
        };
        assert!(calls(64) <= 3, "{architecture}: {}", calls(64));
        assert!((3..=5).contains(&calls(8)), "{architecture}: {}", calls(8));
        assert!(calls(1) > calls(8), "{architecture}: {}", calls(1));
    }
}

/// Never has nothing to do.
#[derive(Debug)]
struct Restless;

impl Program for Restless {
    fn step(&mut self, _system: &mut System<'_>) -> Step {
        Step::Again
    }
}

/// Returns the time from the arrival of a request to its answer, with work items of one microsecond.
fn answered_after(others: Vec<Box<dyn Program>>) -> Duration {
    let state = State::new();
    let mut bench = driven(Architecture::SoftLrp, 64, &state);
    bench.host.spawn("echo", 0, Echo::boxed(Duration::ZERO));
    bench.settle();
    for other in others {
        bench.host.spawn("other", 0, other);
    }
    bench.run(Duration::from_millis(1));
    let begin = bench.now;
    bench.send(&[udp(7, b"here")]);
    while bench.sent().is_empty() {
        bench.run(UNIT);
        assert!(bench.now < begin + Duration::from_millis(50), "it is never answered");
    }
    bench.now.since(begin)
}

#[test]
fn what_gathers_waits_neither_until_the_host_sleeps_nor_for_another_process() {
    let alone = answered_after(Vec::new());
    assert!(alone < Duration::from_micros(10), "{alone:?}");
    let beside = answered_after(vec![Box::new(Spinner)]);
    assert!(beside < Duration::from_micros(40), "{beside:?}");
    let restless = answered_after(vec![Box::new(Restless)]);
    assert!(restless < Duration::from_micros(10), "{restless:?}");
}

#[test]
fn what_gathers_leaves_before_a_program_computes() {
    let state = State::new();
    let mut bench = driven(Architecture::SoftLrp, 64, &state);
    bench.host.spawn("echo", 0, Echo::boxed(Duration::from_millis(5)));
    bench.settle();
    bench.send(&[udp(7, b"here")]);
    // A unit's effects happen at its beginning; then its time passes.
    while bench.host.work().compute.is_zero() {
        assert_eq!(bench.sent().len(), 0);
        let ran = bench.host.turn(bench.now).unwrap();
        if bench.host.work().compute.is_zero() {
            bench.host.finish(&ran, bench.now);
        }
    }
    assert_eq!(bench.sent().len(), 1);
}

/// The polling thread keeps the core busy, and no process gets to run.
#[test]
fn what_gathers_leaves_within_fifty_microseconds() {
    let state = State::new();
    let mut bench = driven(Architecture::Polled, 64, &state);
    // Pings are answered by the polling thread itself; what is for nobody only keeps it busy.
    bench.send(&[arp_request()]);
    let begin = bench.now;
    while bench.sent().is_empty() {
        bench.send(&vec![udp(9, b"nobody"); 8]);
        assert!(bench.unit());
        assert!(bench.now < begin + Duration::from_millis(5), "it is never sent");
    }
    let took = bench.now.since(begin);
    assert!((Duration::from_micros(40)..Duration::from_micros(80)).contains(&took), "{took:?}");
}
