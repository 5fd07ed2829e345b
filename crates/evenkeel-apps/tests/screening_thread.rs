//! Tests of screening by a function on its own thread: a function that hangs or panics does not stop packets
//! that are not forwarded.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use evenkeel::Engine;
use evenkeel::raw::cable::{self, End};
use evenkeel::raw::device::Interface as _;
use evenkeel::raw::drops::QueueDrop;
use evenkeel::raw::frame::Pool;
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::ip::InterfaceId;
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::screen::Verdict;
use evenkeel::raw::time::{Clock, Duration};
use evenkeel::raw::wire::{IpAddress, IpCidr, IpEndpoint};
use evenkeel_apps::requests::{Requests, Shape};
use evenkeel_apps::route::screen::Report;
use evenkeel_apps::route::screening_thread::{Waiting, screen_on_thread};
use evenkeel_apps::service::{Counters, Options, Service};

const LIMIT: usize = 8;

/// A gate that a screening function waits for.
#[derive(Default)]
struct Gate {
    shut: Mutex<bool>,
    opened: Condvar,
    panic: AtomicBool,
}

impl Gate {
    fn set(&self, shut: bool) {
        *self.shut.lock().unwrap() = shut;
        self.opened.notify_all();
    }

    fn pass(&self) -> Verdict {
        assert!(!self.panic.load(Ordering::Relaxed), "as the test wants it");
        drop(self.opened.wait_while(self.shut.lock().unwrap(), |shut| *shut).unwrap());
        Verdict::Pass
    }
}

/// A router with an echo service, whose packets are judged behind a gate. The test is the peer on its cables.
struct Stand {
    engine: Engine,
    lan: End,
    wan: End,
    pool: Pool,
    through: Requests,
    local: Requests,
    gate: Arc<Gate>,
    report: Arc<Report>,
    waiting: Waiting,
}

impl Stand {
    fn new(architecture: Architecture) -> Self {
        let mut config = Config::of(architecture);
        config.stack.forwarding = true;
        config.stack.report_groups = false;
        let clock = Clock::start();
        let mut engine = Engine::new(Host::new(config).unwrap(), clock).unwrap();
        let pair = |name, number| {
            cable::pair(cable::Options::new(name, number), cable::Options::new("far", number + 10))
        };
        let ((lan_near, mut lan), (wan_near, mut wan)) = (pair("lan", 1), pair("wan", 2));
        let shape = |to, port| Shape {
            hardware: (lan.properties().address, lan_near.properties().address),
            from: IpEndpoint::new(IpAddress::v4(10, 77, 1, 2), 20_000),
            to: IpEndpoint::new(to, port),
            payload: 18,
            flows: 1,
            seed: 1,
        };
        let target = IpAddress::v4(10, 77, 2, 2);
        let through = Requests::new(&shape(target, 9)).unwrap();
        let local = Requests::new(&shape(IpAddress::v4(10, 77, 1, 1), 7)).unwrap();
        for (near, net) in [(lan_near, 1), (wan_near, 2)] {
            engine.add_cable(near, &[IpCidr::new(IpAddress::v4(10, 77, net, 1), 24)]).unwrap();
        }
        let now = clock.now();
        let host = engine.host_mut();
        host.set_neighbor(InterfaceId(0), IpAddress::v4(10, 77, 1, 2), lan.properties().address, now)
            .unwrap();
        host.set_neighbor(InterfaceId(1), target, wan.properties().address, now).unwrap();
        let echo = Options { port: 7, groups: Vec::new(), work: Duration::ZERO, echo: true, count: None };
        host.spawn("echo", 0, Box::new(Service::new(echo, Arc::new(Counters::default()))));
        let mut pool = Pool::with_limit(2048);
        lan.attach(&mut pool).unwrap();
        wan.attach(&mut pool).unwrap();
        let (gate, report) = (Arc::new(Gate::default()), Arc::new(Report::default()));
        let judge = Arc::clone(&gate);
        let waiting =
            screen_on_thread(&mut engine, LIMIT, Arc::clone(&report), move |_shown| judge.pass()).unwrap();
        let mut stand = Self { engine, lan, wan, pool, through, local, gate, report, waiting };
        stand.run(Duration::from_millis(5));
        stand
    }

    fn run(&mut self, time: Duration) {
        let until = self.engine.clock().now() + time;
        self.engine.run(until, |_| false).unwrap();
        self.engine.host().check().unwrap();
    }

    fn send(&mut self, through: usize, local: usize) {
        (0..through).for_each(|_| assert!(self.lan.send(self.through.next())));
        (0..local).for_each(|_| assert!(self.lan.send(self.local.next())));
        self.lan.flush();
    }

    /// Takes the frames since the last call; returns the numbers of forwarded ones and of answers.
    fn take(&mut self) -> (usize, usize) {
        let mut take = |end: &mut End| {
            let mut count = 0;
            while let Some(frame) = end.queue_mut(0).take(&mut self.pool) {
                self.pool.recycle(frame);
                count += 1;
            }
            count
        };
        (take(&mut self.wan), take(&mut self.lan))
    }

    /// Runs until this many frames have come out in all, for at most five seconds.
    fn run_until(&mut self, forwarded: usize, answers: usize) {
        let mut seen = (0, 0);
        for _ in 0..500 {
            self.run(Duration::from_millis(10));
            let more = self.take();
            seen = (seen.0 + more.0, seen.1 + more.1);
            if seen == (forwarded, answers) {
                return;
            }
        }
        panic!("forwarded and answered {seen:?}, not {:?}", (forwarded, answers));
    }
}

fn hangs_and_recovers(architecture: Architecture) {
    let mut stand = Stand::new(architecture);
    stand.send(5, 5);
    stand.run_until(5, 5);

    stand.gate.set(true);
    for _ in 0..10 {
        stand.send(20, 1);
        stand.run_until(0, 1);
    }
    assert!(stand.waiting.packets() > 0 && stand.waiting.packets() <= LIMIT as u64);
    assert!(stand.engine.host().waiting_for_verdict() > 0);
    assert_eq!(stand.report.judged(), 5);

    stand.gate.set(false);
    for _ in 0..500 {
        stand.run(Duration::from_millis(10));
        if stand.waiting.packets() == 0 && stand.engine.host().waiting_for_verdict() == 0 {
            break;
        }
    }
    let judged = stand.report.judged();
    assert!(judged > 5, "what waited is judged");
    stand.take();
    stand.send(5, 5);
    stand.run_until(5, 5);
    assert_eq!(stand.report.passed(), judged + 5);
}

#[test]
fn a_function_that_hangs_does_not_stop_the_rest_and_recovers() {
    for architecture in [Architecture::SoftLrp, Architecture::Polled, Architecture::Eager] {
        hangs_and_recovers(architecture);
    }
}

#[test]
fn a_function_that_panics_takes_forwarding_with_it_and_nothing_else() {
    let mut stand = Stand::new(Architecture::SoftLrp);
    stand.gate.panic.store(true, Ordering::Relaxed);
    stand.send(3, 3);
    stand.run_until(0, 3);
    stand.send(3, 3);
    stand.run_until(0, 3);
    let dropped = |stand: &Stand| {
        let ledger = stand.engine.host().ledger();
        ledger.input_drops(QueueDrop::Closed) + ledger.input_drops(QueueDrop::Unscreened)
    };
    // The thread takes a while to print its panic, and ends only then.
    for _ in 0..1000 {
        stand.run(Duration::from_millis(10));
        if dropped(&stand) == 6 {
            return;
        }
    }
    panic!("unscreened, nothing passes, and is dropped: {} of 6", dropped(&stand));
}
