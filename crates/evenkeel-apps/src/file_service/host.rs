//! The host of a file server: its capture, its counters, and its end.

use std::io;
use std::time::Duration;

use evenkeel::Engine;
use evenkeel::metrics::{CpuTimes, Snapshot};
use evenkeel::net::Net;
use evenkeel::raw::cpu::ThreadTime;
use evenkeel::raw::host::Host;
use evenkeel::raw::tcp::state::State;
use evenkeel::raw::time::Clock;

use super::report::{FilesServed, HostServed};
use super::serving::{OnHost, ServeError};
use crate::captures::Capturing;
use crate::counters::HostCounters;
use crate::host_setup::{Attached, Limits};
use crate::stream::ConnectionReport;

/// The interval at which a capture is attended.
pub(super) const ATTEND: Duration = Duration::from_millis(50);
/// The interval at which a host is asked whether its connections are over.
const ASK: Duration = Duration::from_millis(5);
/// The time for the last segments of connections whose answers were not finished.
const FAREWELL: Duration = Duration::from_millis(100);

/// A host with the sockets of a file server.
#[derive(Debug)]
pub(super) struct Hosting {
    net: Net,
    clock: Clock,
    connections: usize,
    capturing: Option<Capturing>,
}

impl Hosting {
    /// Shares the host of an engine that is attached to a device.
    pub(super) fn new(mut engine: Engine, attached: &Attached, on_host: &OnHost) -> Result<Self, ServeError> {
        let capture = on_host.capture.as_ref();
        let capturing =
            capture.map(|capture| capture.start(&mut engine, &[attached.interface])).transpose()?;
        let clock = *engine.clock();
        Ok(Self { net: Net::from_engine(engine)?, clock, connections: on_host.connections, capturing })
    }

    pub(super) const fn net(&self) -> &Net {
        &self.net
    }

    /// Makes the figures of the host readable for others, if that is wanted.
    pub(super) fn publish(&self, limits: Limits) -> io::Result<()> {
        if let Some(publish) = limits.publish {
            publish(self.net.metrics()?);
        }
        Ok(())
    }

    pub(super) const fn has_capture(&self) -> bool {
        self.capturing.is_some()
    }

    /// Updates the capture, if there is one.
    pub(super) fn attend(&mut self) {
        let Self { net, clock, capturing, .. } = self;
        let now = clock.wall_nanos(clock.now());
        capturing.iter_mut().for_each(|capturing| net.raw(|host| capturing.attend(host, now)));
    }

    /// Returns the results so far of a host that has run for `elapsed`. The thread that serves has used
    /// `used`.
    pub(super) fn report(&self, elapsed: Duration, used: ThreadTime) -> HostServed {
        let mut snapshot = self.net.snapshot();
        snapshot.cpu = with_program(&snapshot, elapsed, used);
        HostServed {
            connections: self.net.raw(|host| ConnectionReport::busiest(host, self.connections)),
            tcp: snapshot.tcp.clone(),
            counters: HostCounters::of(&snapshot, elapsed),
            capture: None,
            device_failed: self.net.failed_device(),
        }
    }

    /// Waits until the peers have received the last answers and the end of their connections. `patience` is
    /// the longest time for that.
    pub(super) async fn farewell(&self, patience: Duration) {
        let until = self.clock.now() + patience.max(FAREWELL);
        let has_arrived = |host: &mut Host| {
            let mut connections = host.tcp().connections();
            connections.all(|(_, _, info)| matches!(info.state, State::FinWait2 | State::TimeWait))
        };
        let is_over = || self.net.raw(has_arrived) || self.net.failed_device().is_some();
        while self.clock.now() < until && !is_over() {
            tokio::time::sleep(ASK).await;
        }
    }

    /// Closes the host, and completes the report with its last counters and the result of the capture.
    pub(super) fn finish(mut self, mut served: FilesServed) -> Result<FilesServed, ServeError> {
        self.attend();
        let Self { net, clock, capturing, .. } = self;
        if let Some(capturing) = &capturing {
            net.raw(|host| capturing.stop(host, clock.now()));
        }
        drop(net);
        if let Some(host) = &mut served.host {
            host.capture = capturing.map(Capturing::finish).transpose()?;
        }
        Ok(served)
    }
}

/// Returns the time of the core in `snapshot` with the time of the thread that serves. The time outside of
/// the host's work items is that of the program, and the thread sleeps for the rest of `elapsed`.
fn with_program(snapshot: &Snapshot, elapsed: Duration, used: ThreadTime) -> CpuTimes {
    let ThreadTime { ran, system, run_delay } = used;
    let cpu = snapshot.cpu;
    let items = cpu.interrupt + cpu.soft_interrupt + cpu.polling_thread + cpu.process + cpu.idle;
    let program = ran.saturating_sub(items);
    CpuTimes { process: cpu.process + program, ran, system, run_delay, halted: elapsed, ..cpu }
}
