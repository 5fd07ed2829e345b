//! Trigger states within a unit: what becomes due while a program is in the middle of its step does not wait
//! until that is over.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use common::two::{A, B, Two, address};
use evenkeel_core::capture::Capture;
use evenkeel_core::host::{Config, System, Trigger, TriggerState};
use evenkeel_core::process::{NotAttached, Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::Kinds;
use evenkeel_core::stack::{InterfaceId, IpEndpoint};
use evenkeel_core::system::{CaptureSocket, TcpStream, UdpSocket, UserEvent};
use evenkeel_core::tcp::recovery::{RecoveryConfig, Start};
use evenkeel_core::tcp::{self, EndpointConfig, Rate};
use evenkeel_core::time::{Duration, Instant};

/// The time by which the clock advances whenever it is read.
const TICK: Duration = Duration::from_micros(10);

type Handler<'a> = Box<dyn FnMut(&mut TriggerState<'_>) -> Option<Duration> + 'a>;

/// A clock that goes on whenever it is read, and one event.
struct Driver<'a> {
    time: Cell<Instant>,
    read: Cell<u64>,
    due: Instant,
    handler: Handler<'a>,
}

impl std::fmt::Debug for Driver<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("time", &self.time).finish_non_exhaustive()
    }
}

impl<'a> Driver<'a> {
    fn new(
        now: Instant,
        due: Instant,
        handler: impl FnMut(&mut TriggerState<'_>) -> Option<Duration> + 'a,
    ) -> Self {
        Self { time: Cell::new(now), read: Cell::new(0), due, handler: Box::new(handler) }
    }
}

impl Trigger for Driver<'_> {
    fn time(&self) -> Instant {
        self.read.set(self.read.get() + 1);
        self.time.set(self.time.get() + TICK);
        self.time.get()
    }

    fn next_due(&self) -> Instant {
        self.due
    }

    fn call_due(&mut self, state: &mut TriggerState<'_>) {
        assert!(state.now() >= self.due, "never early");
        self.due = (self.handler)(state).map_or(Instant::NEVER, |after| state.now() + after);
    }
}

/// Makes calls all the time, in one step, and records the time after each.
#[derive(Debug)]
struct Caller {
    calls: usize,
    times: Arc<Mutex<Vec<Instant>>>,
}

impl Program for Caller {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        for _ in 0..self.calls {
            let event = UserEvent::open(system).unwrap();
            system.close(event);
            self.times.lock().unwrap().push(system.now());
        }
        Step::Exit
    }
}

fn caller(calls: usize) -> (Box<Caller>, Arc<Mutex<Vec<Instant>>>) {
    let times = Arc::default();
    (Box::new(Caller { calls, times: Arc::clone(&times) }), times)
}

/// Creates two hosts that know each other's hardware addresses.
fn acquainted(architecture: Architecture) -> Two {
    let mut two = Two::new(architecture);
    two.connected();
    two
}

fn transmitted(two: &Two) -> u64 {
    two.hosts[A].traffic(InterfaceId::default()).unwrap().transmitted
}

/// Runs one step of a program. Returns the frames that left before it was over.
fn step(two: &mut Two, driver: &mut Driver<'_>) -> u64 {
    let before = transmitted(two);
    let now = two.now;
    let ran = two.hosts[A].turn_with(now, Some(driver)).unwrap();
    two.now = driver.time.get();
    two.hosts[A].finish(&ran, two.now);
    transmitted(two) - before
}

#[test]
fn handlers_make_calls_in_the_middle_of_a_step_and_what_they_send_leaves_at_once() {
    for architecture in [Architecture::Eager, Architecture::Polled, Architecture::SoftLrp] {
        let mut two = acquainted(architecture);
        let (me, to) = (two.me[A], IpEndpoint::new(address(B), 9));
        let socket = two.call(A, |system| UdpSocket::bind(system, None, 0)).unwrap();
        let there = two.call(B, |system| UdpSocket::bind(system, None, 9)).unwrap();
        let (program, times) = caller(800);
        two.hosts[A].spawn("caller", 0, program);
        let capture = two
            .call(A, |system| CaptureSocket::open(system, Capture { sent_too: true, ..Capture::default() }))
            .unwrap();
        let (begin, mut calls, mut left_before) = (two.now, Vec::new(), 0);
        let mut driver = Driver::new(begin, begin + Duration::from_micros(25), |state| {
            state
                .enter(me, |system| {
                    while capture.front(system).is_ok() {
                        capture.pop(system);
                        left_before += 1;
                    }
                    assert_eq!(left_before, calls.len(), "the one before has left");
                    socket.send(system, to, b"now").unwrap();
                })
                .unwrap();
            calls.push(state.now());
            Some(Duration::from_micros(100))
        });
        let left = step(&mut two, &mut driver);
        assert_eq!(driver.read.get(), 200, "every eighth call is a trigger state");
        drop(driver);
        // At 30 us, as the clock ticks, and then in every eleventh tick at the latest.
        assert!((18..=20).contains(&calls.len()), "{architecture}: {calls:?}");
        assert_eq!(left, calls.len() as u64);
        let times = times.lock().unwrap();
        assert!(times.is_sorted() && times.first() < times.last(), "{times:?}");
        assert!(calls.iter().all(|call| *call > begin && *call <= two.now));
        two.run(Duration::from_millis(5));
        let received = (0..50).take_while(|_| two.call(B, |system| there.receive(system)).is_ok()).count();
        assert_eq!(received, calls.len(), "{architecture}");
    }
}

/// Connects, and then so often reads and makes another call.
#[derive(Debug)]
struct Reader(usize);

impl Program for Reader {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let event = UserEvent::open(system).unwrap();
        let stream = TcpStream::connect(system, IpEndpoint::new(address(B), 9)).unwrap();
        for _ in 0..self.0 {
            assert!(stream.read(system, &mut [0; 8]).is_err());
            assert!(event.posted(system).is_err());
        }
        Step::Exit
    }
}

#[test]
fn each_call_on_a_stream_begins_and_ends_in_a_trigger_state() {
    let looks = |reads| {
        let mut two = acquainted(Architecture::Eager);
        two.hosts[A].spawn("reader", 0, Box::new(Reader(reads)));
        let mut driver = Driver::new(two.now, two.now + Duration::from_secs(1), |_| None);
        step(&mut two, &mut driver);
        driver.read.get()
    };
    assert_eq!(looks(10), looks(0) + 20);
}

#[test]
fn nobody_looks_at_the_clock_if_nothing_is_pending() {
    let mut two = acquainted(Architecture::Eager);
    two.hosts[A].spawn("caller", 0, caller(100).0);
    let mut driver = Driver::new(two.now, Instant::NEVER, |_| None);
    step(&mut two, &mut driver);
    assert_eq!(driver.read.get(), 0);
}

#[test]
fn calls_are_made_only_as_who_is_attached() {
    let mut two = acquainted(Architecture::Eager);
    let (program, _) = caller(5);
    let running = two.hosts[A].spawn("caller", 0, program);
    let killed = two.hosts[A].attach("killed", 0, two.now);
    two.hosts[A].kill(killed, two.now);
    let mut tried = 0;
    let mut driver = Driver::new(two.now, two.now, |state| {
        for process in [running, killed] {
            assert_eq!(state.enter(process, |_| ()), Err(NotAttached));
            tried += 1;
        }
        None
    });
    step(&mut two, &mut driver);
    drop(driver);
    assert_eq!(tried, 2);
}

#[test]
fn whom_a_handler_wakes_runs_when_the_step_is_over() {
    let mut two = acquainted(Architecture::Eager);
    let (me, now) = (two.me[A], two.now);
    let event = two.call(A, UserEvent::open).unwrap();
    let woken = Arc::new(WakeFlag::default());
    let waker = Arc::clone(&woken).into();
    assert!(two.call(A, |system| system.wait(event, Kinds::READABLE, &waker)).is_empty());
    let (program, _) = caller(5);
    two.hosts[A].spawn("caller", 0, program);
    let mut driver = Driver::new(now, now, |state| {
        state.enter(me, |system| event.post(system, 1).unwrap()).unwrap();
        assert!(!woken.0.load(Ordering::Relaxed), "not before the step is over");
        None
    });
    step(&mut two, &mut driver);
    drop(driver);
    assert!(woken.0.load(Ordering::Relaxed));
}

#[derive(Debug, Default)]
struct WakeFlag(AtomicBool);

impl std::task::Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Of a handler that computes and reads, the program that it has interrupted knows nothing.
#[test]
fn what_the_step_is_to_compute_is_its_own() {
    let mut two = acquainted(Architecture::Eager);
    let me = two.me[A];
    two.hosts[A].spawn("caller", 0, caller(5).0);
    let mut driver = Driver::new(two.now, two.now, |state| {
        state.enter(me, |system| system.compute(Duration::from_secs(1))).unwrap();
        None
    });
    step(&mut two, &mut driver);
    assert_eq!(two.hosts[A].work().compute, Duration::ZERO);
}

/// 1 500 bytes in about 100 us.
const RATE: Rate = Rate::bits_per_s(120_000_000);

fn paced(_side: usize) -> Config {
    let recovery = RecoveryConfig { start: Start::At(RATE), ..RecoveryConfig::default() };
    let connection = tcp::Config { recovery: Arc::new(recovery), ..tcp::Config::default() };
    let tcp = EndpointConfig { connection: Arc::new(connection), ..EndpointConfig::default() };
    Config { tcp, ..Config::of(Architecture::Eager) }
}

#[test]
fn paced_segments_leave_in_the_middle_of_a_step() {
    let mut two = Two::with(paced);
    let (stream, _) = two.connected();
    assert_eq!(two.hosts[A].exact_deadline(), Instant::NEVER, "nothing waits");
    assert_eq!(two.write(A, stream, &[7; 40_000]), 40_000);
    let exact = two.hosts[A].exact_deadline();
    assert!(exact > two.now && exact < two.now + Duration::from_micros(200), "{exact:?} at {:?}", two.now);
    assert!(two.hosts[A].next_deadline() <= exact);
    two.hosts[A].spawn("caller", 0, caller(400).0);
    let (begin, mut driver) = (two.now, Driver::new(two.now, Instant::NEVER, |_| None));
    let left = step(&mut two, &mut driver);
    let segments = two.now.since(begin).as_micros() as u64 / 100;
    assert!((segments - 2..=segments).contains(&left), "{left} of {segments}");
    assert!(two.hosts[A].exact_deadline() > two.now);
}

#[test]
fn only_pacing_wants_to_be_exact() {
    let mut two = Two::with(paced);
    let (stream, _) = two.connected();
    // The last segment has left and is not acknowledged: all that is left is late at worst.
    assert_eq!(two.write(A, stream, b"a segment"), 9);
    two.hosts[A].settle_deadlines();
    assert_ne!(two.hosts[A].next_deadline(), Instant::NEVER);
    assert_eq!(two.hosts[A].exact_deadline(), Instant::NEVER);
    // All of what was paced is acknowledged: nobody spins for it.
    assert_eq!(two.write(A, stream, &[7; 40_000]), 40_000);
    two.settle();
    assert!(two.hosts[A].halt(two.now));
    assert_eq!(two.hosts[A].exact_deadline(), Instant::NEVER);
}
