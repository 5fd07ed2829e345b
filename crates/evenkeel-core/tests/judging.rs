//! Screening by a process that cannot judge at once: packets are shown, and the verdicts come later.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::sync::{Arc, Mutex};

use common::{Bench, HOST_MAC, udp_to};
use evenkeel_core::drop::{IpDrop, QueueDrop};
use evenkeel_core::host::{Config, System};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::screen::Verdict;
use evenkeel_core::system::Screen;
use evenkeel_core::time::Duration;
use evenkeel_core::wire::Ipv4Address;

const LIMIT: usize = 8;

/// Packets shown to the judge, by their last byte, and verdicts it has given.
#[derive(Debug, Default)]
struct Court {
    shown: Vec<u8>,
    verdicts: Vec<Verdict>,
}

/// Shows all it can, gives the verdicts there are, and sleeps until it is woken.
#[derive(Debug)]
struct Screener {
    court: Arc<Mutex<Court>>,
    socket: Option<Screen>,
}

impl Program for Screener {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(socket) = self.socket else {
            self.socket = Some(Screen::open(system, LIMIT).unwrap());
            return Step::Again;
        };
        let mut court = self.court.lock().unwrap();
        for verdict in court.verdicts.split_off(0) {
            assert!(socket.judge(system, verdict).is_ok());
        }
        while socket.show(system, |transit| court.shown.push(*transit.packet().last().unwrap())).is_ok() {}
        Step::Sleep(system.now() + Duration::from_millis(1))
    }
}

fn transit(number: u8) -> Vec<u8> {
    udp_to(HOST_MAC, Ipv4Address::new(10, 0, 0, 77), 9, &[number])
}

fn judged_later(architecture: Architecture) {
    let mut config = Config::of(architecture);
    config.stack.forwarding = true;
    config.stack.icmp_errors_per_s = 0;
    let mut bench = Bench::new(config);
    let court = Arc::new(Mutex::new(Court::default()));
    let screener = Screener { court: Arc::clone(&court), socket: None };
    let process = bench.host.spawn("screener", 0, Box::new(screener));
    bench.run(Duration::from_millis(2));
    let frames: Vec<_> = (0..10).map(transit).collect();
    assert_eq!(bench.send(&frames[..8]), 8);
    bench.run(Duration::from_millis(2));
    assert_eq!(bench.send(&frames[8..]), 2);
    bench.run(Duration::from_millis(2));
    assert_eq!(court.lock().unwrap().shown, (0..8).collect::<Vec<_>>(), "no more than the limit are shown");
    assert_eq!(bench.host.ledger().forwarded, 0);
    assert_eq!(bench.host.queued() + bench.host.in_rings(), 10, "and all are waiting");

    court.lock().unwrap().verdicts = vec![Verdict::Drop, Verdict::Pass, Verdict::Reject];
    bench.host.wake_process(process, bench.now);
    bench.run(Duration::from_micros(100));
    assert_eq!(court.lock().unwrap().shown, (0..10).collect::<Vec<_>>(), "there is room for the others");
    assert_eq!(bench.host.ledger().input_drops(IpDrop::Refused), 2);

    bench.host.kill(process, bench.now);
    bench.host.check().unwrap();
    assert_eq!(
        bench.host.ledger().input_drops(QueueDrop::Closed),
        7,
        "what is kept is dropped with its keeper"
    );
}

#[test]
fn verdicts_come_later() {
    for architecture in
        [Architecture::Eager, Architecture::Polled, Architecture::SoftLrp, Architecture::NiLrp]
    {
        judged_later(architecture);
    }
}
