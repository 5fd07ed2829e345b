//! The values of the metrics, from the figures of processes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use evenkeel::metrics::{
    CpuTimes, Guarded, Interface, LimitedAccount, Listener, PortAccount, Snapshot, Socket, Tcp, ThreadShare,
};
use evenkeel::raw::tcp::counters::Counter;
use evenkeel::raw::time::Duration;

use super::families as of;
use super::families::Family;
use super::figures::Figures;

/// The most sockets of a host, listeners of a host, or ports of a guard that have metrics. A set of labels
/// costs Prometheus memory for as long as it keeps values.
const MOST: usize = 256;

/// A set of labels: names with their values, in the order of the family.
pub(super) type Labels = Vec<(&'static str, String)>;

/// The values of all metrics, by the name of the family and by labels.
#[derive(Debug, Default)]
pub(super) struct Samples(BTreeMap<&'static str, BTreeMap<Labels, Value>>);

/// A value of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    Count(u64),
    Seconds(f64),
}

/// The place that values belong to: nothing for those of the exporter, or the labels of a host or a guard.
struct Place<'a> {
    samples: &'a mut Samples,
    common: Vec<String>,
}

impl Samples {
    /// Makes the values of all metrics.
    pub(super) fn of(figures: &Figures, version: &str) -> Self {
        let mut samples = Self::default();
        let mut exporter = Place { samples: &mut samples, common: Vec::new() };
        exporter.put(&of::BUILD, &[version], 1);
        exporter.put(&of::PROCESSES, &[], figures.processes.len());
        exporter.put(&of::UNREADABLE, &[], figures.unreadable.len());
        for process in &figures.processes {
            let mut at = |number: usize, put: &dyn Fn(&mut Place<'_>)| {
                let common = vec![process.pid.to_string(), process.program.clone(), number.to_string()];
                put(&mut Place { samples: &mut samples, common });
            };
            process.hosts.iter().enumerate().for_each(|(number, host)| at(number, &|place| place.host(host)));
            let guards = process.guards.iter().enumerate();
            guards.for_each(|(number, guard)| at(number, &|place| place.guard(guard)));
        }
        samples
    }

    /// Returns the values of a family, by labels.
    pub(super) fn of_family(&self, family: &Family) -> impl Iterator<Item = (&Labels, Value)> {
        let values = self.0.get(family.stem).into_iter().flatten();
        values.map(|(labels, value)| (labels, *value))
    }

    /// Adds to a value. Two things with the same labels have one value, because Prometheus refuses a scrape
    /// that has one twice.
    fn add(&mut self, family: &Family, labels: Labels, value: Value) {
        let values = self.0.entry(family.stem).or_default();
        values.entry(labels).and_modify(|there| *there = there.plus(value)).or_insert(value);
    }
}

impl Value {
    fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Count(one), Self::Count(other)) => Self::Count(one.saturating_add(other)),
            (one, other) => Self::Seconds(one.float() + other.float()),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "Prometheus' values are floats")]
    fn float(self) -> f64 {
        match self {
            Self::Count(count) => count as f64,
            Self::Seconds(seconds) => seconds,
        }
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<i32> for Value {
    fn from(count: i32) -> Self {
        Self::Count(count.unsigned_abs().into())
    }
}

impl From<bool> for Value {
    fn from(is_so: bool) -> Self {
        Self::Count(is_so.into())
    }
}

impl From<f64> for Value {
    fn from(seconds: f64) -> Self {
        Self::Seconds(seconds)
    }
}

impl From<Duration> for Value {
    fn from(time: Duration) -> Self {
        Self::Seconds(time.as_secs_f64())
    }
}

impl Place<'_> {
    /// Puts a value of a family. `own` are the labels that the family has besides those of the place.
    fn put(&mut self, family: &Family, own: &[&str], value: impl Into<Value>) {
        let values = self.common.iter().map(String::as_str).chain(own.iter().copied());
        let labels: Labels = family.labels().zip(values.map(str::to_owned)).collect();
        debug_assert_eq!(labels.len(), family.labels().count(), "{}", family.stem);
        self.samples.add(family, labels, value.into());
    }

    fn host(&mut self, host: &Snapshot) {
        self.put(&of::HOST_AGE, &[], host.elapsed);
        self.frames(host);
        self.cores(&host.cpu);
        for process in &host.processes {
            let own = [&*process.number.to_string(), &process.name];
            self.put(&of::USED, &own, process.used);
            self.put(&of::CHARGED, &own, process.charged);
        }
        let mut sockets: Vec<&Socket> = host.sockets.iter().collect();
        sockets.sort_by_key(|it| (Reverse((it.discarded + it.dropped, it.received)), it.number));
        sockets.iter().take(MOST).for_each(|socket| self.socket(socket));
        self.put(&of::SOCKETS_OMITTED, &[], sockets.len().saturating_sub(MOST));
        self.tcp(&host.tcp);
        host.interfaces.iter().for_each(|interface| self.interface(interface));
    }

    fn frames(&mut self, host: &Snapshot) {
        let frames = &host.frames;
        for (family, count) in [
            (&of::RECEIVED, frames.received),
            (&of::DUPLICATED, frames.duplicated),
            (&of::DELIVERED, frames.delivered),
            (&of::CONSUMED, frames.consumed),
            (&of::FORWARDED, frames.forwarded),
            (&of::QUEUED, frames.queued),
            (&of::ORIGINATED, frames.originated),
            (&of::TRANSMITTED, frames.transmitted),
            (&of::WAITING, frames.waiting),
        ] {
            self.put(family, &[], count);
        }
        for drop in &host.drops {
            self.put(&of::DROPS, &[&drop.reason, &drop.place], drop.frames);
        }
    }

    fn cores(&mut self, cpu: &CpuTimes) {
        for (level, time) in [
            ("interrupt", cpu.interrupt),
            ("soft_interrupt", cpu.soft_interrupt),
            ("polling_thread", cpu.polling_thread),
            ("process", cpu.process),
            ("idle", cpu.idle),
        ] {
            self.put(&of::CPU, &[level], time);
        }
        // Threads that share a host are not measured: the kernel has their times.
        if cpu.ran.is_zero() && cpu.idle.is_zero() {
            return;
        }
        self.put(&of::RAN, &[], cpu.ran);
        self.put(&of::SYSTEM, &[], cpu.system);
        self.put(&of::RUN_DELAY, &[], cpu.run_delay);
        self.put(&of::HALTED, &[], cpu.halted);
    }

    fn socket(&mut self, socket: &Socket) {
        let address = socket.address.map_or_else(String::new, |address| address.to_string());
        let own = [&*socket.number.to_string(), &socket.kind, &address, &socket.port.to_string()];
        self.put(&of::SOCKET_WAITING, &own, socket.waiting);
        if socket.limit > 0 {
            self.put(&of::SOCKET_LIMIT, &own, socket.limit);
        }
        self.put(&of::SOCKET_ARRIVED, &own, socket.arrived);
        self.put(&of::SOCKET_DISCARDED, &own, socket.discarded);
        self.put(&of::SOCKET_RECEIVED, &own, socket.received);
        self.put(&of::SOCKET_DROPPED, &own, socket.dropped);
        self.put(&of::SOCKET_SENT, &own, socket.sent);
    }

    fn tcp(&mut self, tcp: &Tcp) {
        self.put(&of::TCP_CONNECTIONS, &[], tcp.connections);
        self.put(&of::TCP_TIME_WAIT, &[], tcp.time_wait);
        // Of the named counters one is a level, which is the number of connections.
        let events = tcp.counters.iter().filter(|(name, _)| name != Counter::CurrEstab.name());
        events.for_each(|(name, count)| self.put(&of::TCP_EVENTS, &[name], *count));
        for Listener { port, address, half_open, to_accept, backlog } in tcp.listeners.iter().take(MOST) {
            let own = [address.as_deref().unwrap_or_default(), &*port.to_string()];
            self.put(&of::HALF_OPEN, &own, *half_open);
            self.put(&of::TO_ACCEPT, &own, *to_accept);
            self.put(&of::BACKLOG, &own, *backlog);
        }
    }

    fn interface(&mut self, interface: &Interface) {
        let own = [interface.name.as_str()];
        for (family, count) in [
            (&of::IF_RECEIVED, interface.received),
            (&of::IF_MISSED, interface.missed),
            (&of::IF_DISCARDED, interface.discarded),
            (&of::IF_IN_RINGS, interface.in_rings),
            (&of::IF_OFFLOADED, interface.offloaded),
            (&of::IF_REFUSED, interface.offload_refused),
            (&of::IF_TRANSMITTED, interface.transmitted),
            (&of::IF_OUTPUT_FULL, interface.output_full),
            (&of::IF_QUEUED, interface.queued),
        ] {
            self.put(family, &own, count);
        }
        let Some(device) = &interface.device else { return };
        self.put(&of::DEVICE_SENT, &own, device.sent);
        self.put(&of::DEVICE_CALLS, &own, device.send_calls);
        self.put(&of::DEVICE_REFUSED, &own, device.refused);
        if let Some(kept) = device.kept_from_kernel {
            self.put(&of::DEVICE_KEPT, &own, kept);
        }
        for (counter, frames) in device.kernel.iter().flat_map(|kernel| kernel.losses()) {
            self.put(&of::DEVICE_KERNEL, &[&interface.name, counter], frames);
        }
    }

    fn guard(&mut self, guard: &Guarded) {
        self.put(&of::GUARD_AGE, &[], guard.seconds);
        self.put(&of::GUARD_DRY_RUN, &[], guard.dry_run);
        for interface in &guard.interfaces {
            self.put(&of::GUARD_MUTE, &[interface], guard.mute.contains(interface));
        }
        for &&PortAccount { protocol, port, passed, dropped, answered } in
            guard.worst_first().iter().take(MOST)
        {
            let port = port.to_string();
            for (verdict, packets) in [("passed", passed), ("dropped", dropped), ("answered", answered)] {
                self.put(&of::GUARD_PACKETS, &[protocol.name(), &port, verdict], packets);
            }
        }
        for &LimitedAccount { kind, passed, dropped } in &guard.limited {
            self.put(&of::GUARD_LIMITED, &[kind.name(), "passed"], passed);
            self.put(&of::GUARD_LIMITED, &[kind.name(), "dropped"], dropped);
        }
        if let Some(ThreadShare { lowered_seconds, .. }) = guard.threads {
            self.put(&of::GUARD_LOWERED, &[], lowered_seconds);
        }
        self.put(&of::GUARD_OMITTED, &[], guard.ports.len().saturating_sub(MOST));
    }
}
