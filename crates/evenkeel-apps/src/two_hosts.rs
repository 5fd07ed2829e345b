//! Two hosts on a cable for tests, each with a program whose turns the test controls.

use evenkeel::raw::cable::{Options, pair};
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::process::{ProcessId, System};
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::time::Instant;
use evenkeel::raw::wire::{IpAddress, IpCidr};

/// The addresses of the two hosts.
pub(crate) const ADDRESSES: [IpAddress; 2] = [IpAddress::v4(10, 77, 0, 2), IpAddress::v4(10, 77, 0, 1)];

pub(crate) struct TwoHosts {
    hosts: [Host; 2],
    programs: [ProcessId; 2],
    now: Instant,
}

impl TwoHosts {
    /// Creates the hosts. Everything but the programs' turns happens by interrupts.
    pub(crate) fn new() -> Self {
        let options = |name, number| Options { ring_pkts: 512, ..Options::new(name, number) };
        let (near, far) = pair(options("near", 1), options("far", 2));
        let mut ends = [Some(near), Some(far)];
        let mut hosts = ADDRESSES.map(|_| Host::new(Config::of(Architecture::Eager)).unwrap());
        for ((host, end), address) in hosts.iter_mut().zip(&mut ends).zip(ADDRESSES) {
            let end = Box::new(end.take().unwrap());
            host.add_interface(end, &[IpCidr::new(address, 24)], Instant::ZERO).unwrap();
        }
        let programs = [0, 1].map(|side: usize| hosts[side].attach("program", 0, Instant::ZERO));
        Self { hosts, programs, now: Instant::ZERO }
    }

    /// Runs a turn of the program on one host, and all that follows from it on both hosts.
    pub(crate) fn turn<T>(&mut self, side: usize, turn: impl FnOnce(&mut System<'_>) -> T) -> T {
        let now = self.now;
        let turned = self.hosts[side].enter(self.programs[side], now, turn).unwrap();
        while self.hosts.iter_mut().any(|host| runs(host, now)) {}
        turned
    }

    /// Advances time to `until`, with all due events.
    pub(crate) fn sleep(&mut self, until: Instant) {
        loop {
            let due = self.hosts.iter().map(Host::next_deadline).min().unwrap_or(Instant::NEVER);
            self.now = due.min(until).max(self.now);
            let now = self.now;
            while self.hosts.iter_mut().any(|host| runs(host, now)) {}
            if now >= until {
                return;
            }
        }
    }

    /// Returns what time it is.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }
}

fn runs(host: &mut Host, now: Instant) -> bool {
    host.turn(now).inspect(|ran| host.finish(ran, now)).is_some()
}
