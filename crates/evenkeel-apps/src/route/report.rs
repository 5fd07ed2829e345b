//! What a router has done, for people and programs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::host::Host;
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_link::Status;
use serde::Serialize;

use super::active_rules::RuleCount;
use super::log::Logged;
use crate::counters::{self, HostCounters};
use crate::monitor::EmbeddedCaptured;

/// What a router has done.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Routed {
    /// How long it ran, in seconds.
    pub seconds: f64,
    /// Packets sent on their way.
    pub forwarded: u64,
    /// What passed through each link.
    pub links: Vec<LinkReport>,
    /// What screening did; `None` if all packets pass.
    pub screening: Option<ScreeningReport>,
    /// Routes, those of the links' own networks included.
    pub routes: u64,
    /// Neighbours known or asked for.
    pub neighbors: u64,
    /// What the kernel's tables were followed for; `None` if they were not.
    pub kernel: Option<KernelReport>,
    /// How often rules, routes and neighbours were read again.
    pub reloads: u64,
    /// How often that failed, so that all stayed as it was.
    pub reloads_failed: u64,
    /// What the host did, or all of them together.
    pub counters: HostCounters,
    /// What the host on each core did; empty if it was told none.
    pub cores: Vec<CoreReport>,
    /// What was captured; `None` while it runs, and if nothing was to be.
    pub capture: Option<EmbeddedCaptured>,
}

/// What the host on a core did.
#[derive(Debug, Clone, Serialize)]
pub struct CoreReport {
    /// The processor.
    pub core: usize,
    /// Of this host.
    pub counters: HostCounters,
}

/// What passed through a link.
#[derive(Debug, Clone, Serialize)]
pub struct LinkReport {
    /// Its name.
    pub name: String,
    /// The device.
    pub device: String,
    /// The router's addresses on it.
    pub addresses: Vec<String>,
    /// Frames taken from it.
    pub received: u64,
    /// Frames that found its receive ring full, or were unusable.
    pub missed: u64,
    /// Frames handed to it.
    pub transmitted: u64,
    /// Of these, frames that the operating system did not take.
    pub refused: u64,
    /// Frames that found its output queue full.
    pub output_full: u64,
    /// Frames in its output queue.
    pub queued: u64,
    /// Why no frame comes from it any more; `None` if all is well.
    pub failed: Option<String>,
}

/// What screening did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ScreeningReport {
    /// Packets let through.
    pub passed: u64,
    /// Packets dropped without a word.
    pub dropped: u64,
    /// Packets dropped and their senders told.
    pub rejected: u64,
    /// Packets that found the screening queue full.
    pub queue_full: u64,
    /// For how many seconds packets have been waiting and none was judged: screening hangs. 0 if all is well.
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

/// What following the kernel's tables came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct KernelReport {
    /// Routes taken over.
    pub routes: u64,
    /// Neighbours taken over.
    pub neighbors: u64,
    /// Changes that were announced, and followed.
    pub changes: u64,
    /// How often announcements were lost, and the tables read as a whole.
    pub resyncs: u64,
    /// Entries that the host did not take, or that have no meaning here.
    pub skipped: u64,
    /// Prefixes to which nothing is forwarded, as the kernel's decision cannot be followed here.
    pub closed: u64,
}

impl Routed {
    /// Several hosts' reports as one.
    pub(super) fn together(each: Vec<Self>) -> Self {
        let counters = HostCounters::together(each.iter().map(|routed| &routed.counters));
        let whole = each.into_iter().reduce(Self::with).unwrap_or_default();
        Self { counters, ..whole }
    }

    /// What each host has seen a part of is added; what all of them have is the same.
    fn with(mut self, other: Self) -> Self {
        self.seconds = self.seconds.max(other.seconds);
        self.forwarded += other.forwarded;
        for (link, other) in self.links.iter_mut().zip(other.links) {
            link.add(other);
        }
        if let (Some(screening), Some(other)) = (&mut self.screening, &other.screening) {
            screening.add(other);
        }
        // Hosts need not know the same neighbours at every moment.
        self.routes = self.routes.max(other.routes);
        self.neighbors = self.neighbors.max(other.neighbors);
        if let (Some(kernel), Some(other)) = (&mut self.kernel, &other.kernel) {
            kernel.merge(other);
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

impl KernelReport {
    /// Each host follows the same tables by itself; one may be behind.
    fn merge(&mut self, other: &Self) {
        self.routes = self.routes.max(other.routes);
        self.neighbors = self.neighbors.max(other.neighbors);
        self.changes = self.changes.max(other.changes);
        self.resyncs = self.resyncs.max(other.resyncs);
        self.skipped = self.skipped.max(other.skipped);
        self.closed = self.closed.max(other.closed);
    }
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

/// How a link's device is doing: that of the present device, if one was removed and has returned.
pub(super) type SharedStatus = Arc<Mutex<Status>>;

impl Line {
    pub(super) fn report(&self, host: &mut Host) -> LinkReport {
        let traffic = host.traffic(self.interface).unwrap_or_default();
        let status = lock(&self.status);
        LinkReport {
            name: self.name.clone(),
            device: self.device.clone(),
            addresses: self.addresses.clone(),
            received: traffic.received,
            missed: counters::missed(host, self.interface),
            transmitted: traffic.transmitted,
            refused: status.refused(),
            output_full: traffic.dropped,
            queued: traffic.queued,
            failed: status.reason().map(str::to_owned),
        }
    }
}

/// Nothing that holds one of these locks leaves something half done.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sees whether screening hangs: packets wait and none is judged.
#[derive(Debug, Default)]
pub(super) struct Stall {
    judged: u64,
    since: Option<Instant>,
}

impl Stall {
    /// How long it has been hanging, at `now`. To be called again and again: between two calls something must
    /// have been judged, or nothing may wait.
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
