//! The parts of a router that belong to one of its hosts, and the report of that host.

use std::sync::Arc;

use evenkeel::Observer;
use evenkeel::metrics::Snapshot;
use evenkeel::raw::drops::QueueDrop;
use evenkeel::raw::host::Host;
use evenkeel::raw::kernel::FollowedTables;
use evenkeel::raw::process::ProcessId;
use evenkeel::raw::time::{Clock, Duration, Instant};

use super::active_rules::FlowCounters;
use super::report::{Line, Routed, ScreeningReport, Stall};
use super::screen::Report;
use crate::captures::Capturing;
use crate::counters::HostCounters;

/// The time after which screening counts as hung, if packets wait and none is judged.
const STALLED: Duration = Duration::from_millis(500);

/// The links, counters and capture of one host.
pub(super) struct Part {
    pub(super) lines: Vec<Line>,
    pub(super) screened: Option<Screened>,
    pub(super) kernel: Option<FollowedTables>,
    pub(super) capture: Option<Captured>,
    pub(super) observer: Observer,
}

/// A capture of the packets that enter and leave by all links.
pub(super) struct Captured {
    pub(super) capturing: Capturing,
    pub(super) clock: Clock,
}

pub(super) struct Screened {
    pub(super) process: ProcessId,
    pub(super) report: Arc<Report>,
    pub(super) flows: FlowCounters,
    pub(super) stall: Stall,
}

impl Part {
    /// Returns whether [`Part::describe`] has to be called regularly, even if no report is requested.
    pub(super) const fn is_to_be_looked_at(&self) -> bool {
        self.screened.is_some() || self.capture.is_some()
    }

    /// Returns the report of one host, with its own counters only. Also serves the capture.
    pub(super) fn describe(&mut self, host: &mut Host, now: Instant, elapsed: Duration) -> Routed {
        if let Some(Captured { capturing, clock }) = &mut self.capture {
            capturing.attend(host, clock.wall_nanos(now));
        }
        let snapshot = Snapshot::of(host, &self.observer, now.since(Instant::ZERO));
        let counters = HostCounters::of(&snapshot, elapsed);
        let screening = self.screened.as_mut().map(|screened| {
            let Screened { report, flows, .. } = screened;
            flows.count(|hit| host.take_flow_hits(hit));
            let stalled = screened.stall.look(report.judged(), host.waiting_for_verdict() > 0, now);
            ScreeningReport {
                passed: report.passed() + flows.passed,
                dropped: report.dropped() + flows.dropped,
                rejected: report.rejected(),
                queue_full: host.ledger().input_drops(QueueDrop::Screen),
                stalled: if stalled >= STALLED { stalled.as_secs_f64() } else { 0.0 },
                ..ScreeningReport::default()
            }
        });
        Routed {
            seconds: elapsed.as_secs_f64(),
            forwarded: counters.forwarded,
            offloaded: snapshot.interfaces.iter().map(|interface| interface.offloaded).sum(),
            offload_refused: snapshot.interfaces.iter().map(|interface| interface.offload_refused).sum(),
            links: self.lines.iter().map(|line| line.report(&snapshot)).collect(),
            screening,
            routes: host.route_count() as u64,
            neighbors: host.neighbors(now).count() as u64,
            kernel: self.kernel.as_ref().map(FollowedTables::report),
            counters,
            ..Routed::default()
        }
    }
}
