//! Reports of a router's work, for people and programs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel::metrics::Snapshot;
use evenkeel::raw::device::Status;
use evenkeel::raw::ip::InterfaceId;
use evenkeel::raw::kernel::KernelReport;
use evenkeel::raw::time::{Duration, Instant};
use schemars::JsonSchema;
use serde::Serialize;

use super::active_rules::RuleCount;
use super::log::Logged;
use crate::captures::EmbeddedCaptured;
use crate::counters::HostCounters;

/// The report of a router.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Routed {
    /// The time that the router has run, in seconds.
    pub seconds: f64,
    /// Packets that were forwarded, but for those of `offloaded`.
    pub forwarded: u64,
    /// Packets that were forwarded in XDP, and that the router did not see.
    pub offloaded: u64,
    /// Packets that were dropped in XDP as rules demand, and that the router did not see.
    pub offload_refused: u64,
    /// The report of each link.
    pub links: Vec<LinkReport>,
    /// The report of screening; `None` if all packets pass.
    pub screening: Option<ScreeningReport>,
    /// Routes, those of the links' own networks included.
    pub routes: u64,
    /// Neighbours that are known or being resolved.
    pub neighbors: u64,
    /// The report about following the kernel's tables; `None` if they are not followed.
    pub kernel: Option<KernelReport>,
    /// The number of times that rules, routes and neighbours were read again.
    pub reloads: u64,
    /// The number of times that reading them again failed, so that all stayed as it was.
    pub reloads_failed: u64,
    /// The counters of the host, or the sum of all hosts.
    pub counters: HostCounters,
    /// The report of the host on each core; empty if the router was given no cores.
    pub cores: Vec<CoreReport>,
    /// The result of the capture; `None` while the router runs, and if there was no capture.
    pub capture: Option<EmbeddedCaptured>,
}

/// The report of the host on one core.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CoreReport {
    /// The processor.
    pub core: usize,
    /// The counters of this host.
    pub counters: HostCounters,
}

/// The report of one link.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LinkReport {
    /// The name of the link.
    pub name: String,
    /// The device.
    pub device: String,
    /// The router's addresses on it.
    pub addresses: Vec<String>,
    /// Frames taken from the link.
    pub received: u64,
    /// Frames that found the link's receive ring full, or were unusable.
    pub missed: u64,
    /// Frames given to the link.
    pub transmitted: u64,
    /// The number of these frames that the operating system did not accept.
    pub refused: u64,
    /// Frames that found the link's output queue full.
    pub output_full: u64,
    /// Frames in the link's output queue.
    pub queued: u64,
    /// The reason why the link delivers no more frames; `None` if it works.
    pub failed: Option<String>,
}

/// The report of screening.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct ScreeningReport {
    /// Packets let through, in XDP or not.
    pub passed: u64,
    /// Packets dropped silently, in XDP or not.
    pub dropped: u64,
    /// Packets dropped and their senders notified.
    pub rejected: u64,
    /// Packets that found the screening queue full.
    pub queue_full: u64,
    /// The time in seconds for which packets have been waiting and none was judged: screening hangs. 0 if
    /// all is well.
    pub stalled: f64,
    /// Packets that no rule matched, and so passed.
    pub unmatched: u64,
    /// Packets with malformed headers, and so dropped.
    pub malformed: u64,
    /// Each rule in force.
    pub rules: Vec<RuleCount>,
    /// The log of packets that rules with `log` decided about.
    pub log: Option<Logged>,
}

impl Routed {
    /// Combines the reports of several hosts into one.
    pub(super) fn together(each: Vec<Self>) -> Self {
        let counters = HostCounters::together(each.iter().map(|routed| &routed.counters));
        let whole = each.into_iter().reduce(Self::with).unwrap_or_default();
        Self { counters, ..whole }
    }

    /// Adds the report of another host. Values of which each host has a part are added; for values that all
    /// hosts share, the largest counts.
    fn with(mut self, other: Self) -> Self {
        self.seconds = self.seconds.max(other.seconds);
        self.forwarded += other.forwarded;
        self.offloaded += other.offloaded;
        self.offload_refused += other.offload_refused;
        for (link, other) in self.links.iter_mut().zip(other.links) {
            link.add(other);
        }
        if let (Some(screening), Some(other)) = (&mut self.screening, &other.screening) {
            screening.add(other);
        }
        // At a given moment, hosts may know different neighbours.
        self.routes = self.routes.max(other.routes);
        self.neighbors = self.neighbors.max(other.neighbors);
        if let (Some(kernel), Some(other)) = (&mut self.kernel, &other.kernel) {
            merge(kernel, other);
        }
        self
    }
}

impl LinkReport {
    fn add(&mut self, other: Self) {
        self.received += other.received;
        self.missed += other.missed;
        self.transmitted += other.transmitted;
        self.refused += other.refused;
        self.output_full += other.output_full;
        self.queued += other.queued;
        self.failed = self.failed.take().or(other.failed);
    }
}

impl ScreeningReport {
    /// Adds what processes count; the rules' counters are added where they are kept.
    fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.dropped += other.dropped;
        self.rejected += other.rejected;
        self.queue_full += other.queue_full;
        self.stalled = self.stalled.max(other.stalled);
    }
}

/// Merges the report of another host. Each host follows the same tables on its own, and one may be behind.
fn merge(kernel: &mut KernelReport, other: &KernelReport) {
    kernel.routes = kernel.routes.max(other.routes);
    kernel.neighbors = kernel.neighbors.max(other.neighbors);
    kernel.changes = kernel.changes.max(other.changes);
    kernel.resyncs = kernel.resyncs.max(other.resyncs);
    kernel.skipped = kernel.skipped.max(other.skipped);
    kernel.closed = kernel.closed.max(other.closed);
}

/// A link of a running router.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) device: String,
    pub(super) interface: InterfaceId,
    pub(super) addresses: Vec<String>,
    pub(super) status: SharedStatus,
}

/// The status of a link's present device; after a removed device has returned, that of the new one.
pub(super) type SharedStatus = Arc<Mutex<Status>>;

impl Line {
    pub(super) fn report(&self, snapshot: &Snapshot) -> LinkReport {
        let own = snapshot.interfaces.iter().find(|interface| interface.number == self.interface.0);
        let interface = own.cloned().unwrap_or_default();
        LinkReport {
            name: self.name.clone(),
            device: self.device.clone(),
            addresses: self.addresses.clone(),
            received: interface.received,
            missed: interface.missed,
            transmitted: interface.transmitted,
            refused: interface.device.map_or(0, |device| device.refused),
            output_full: interface.output_full,
            queued: interface.queued,
            failed: lock(&self.status).reason().map(str::to_owned),
        }
    }
}

/// Locks a mutex. No holder of these locks leaves partial changes.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A detector that screening hangs: packets wait and none is judged.
#[derive(Debug, Default)]
pub(super) struct Stall {
    judged: u64,
    since: Option<Instant>,
}

impl Stall {
    /// Returns the time for which screening has been hanging at `now`. The caller polls it: between two
    /// calls some packet must have been judged, or none may wait.
    pub(super) fn look(&mut self, judged: u64, waiting: bool, now: Instant) -> Duration {
        if !waiting || judged != self.judged {
            *self = Self { judged, since: None };
        }
        if !waiting {
            return Duration::ZERO;
        }
        now.since(*self.since.get_or_insert(now))
    }
}
