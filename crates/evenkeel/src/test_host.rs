//! Hosts and programs for the tests of this crate.

use std::thread;

use evenkeel_core::host::{Config, Host, System};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::system::TcpListener;
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::Duration;
use evenkeel_link::Clock;
use evenkeel_link::capture::{Replay, ReplayOptions};

use crate::Engine;

/// A program that keeps the core from ever halting.
#[derive(Debug)]
pub(crate) struct Spinner;

impl Program for Spinner {
    fn step(&mut self, _system: &mut System<'_>) -> Step {
        Step::Again
    }
}

/// A program that listens and waits forever.
#[derive(Debug)]
pub(crate) struct Listens;

impl Program for Listens {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let listener = TcpListener::listen(system, None, 7, &ListenerConfig::default()).unwrap();
        Step::Wait(listener.fd())
    }
}

pub(crate) fn engine() -> Engine {
    Engine::new(Host::new(Config::default()).unwrap(), Clock::start()).unwrap()
}

/// Runs an engine in the calling thread until `work` has ended in another one, also by a panic.
pub(crate) fn run_beside<T: Send>(engine: &mut Engine, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let working = scope.spawn(work);
        while !working.is_finished() {
            let until = engine.clock().now() + Duration::from_millis(5);
            engine.run(until, |_| working.is_finished()).unwrap();
        }
        working.join().unwrap()
    })
}

/// Returns a device of the operating system that needs no privilege and brings no frames.
pub(crate) fn silent_device(name: &str) -> Replay {
    let path = std::env::temp_dir().join(format!("evenkeel-{}-{name}.pcap", std::process::id()));
    let header = [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, 1].map(u32::to_be_bytes);
    std::fs::write(&path, header.as_flattened()).unwrap();
    let device = Replay::open(&path, &ReplayOptions::default(), Clock::start());
    std::fs::remove_file(&path).unwrap();
    device.unwrap()
}
