//! The results of a demonstration: plain data, and the machine-readable contract of `evenkeel demo --json`.
//!
//! `docs/reference/json.md` describes these fields for readers of the JSON. Change both together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::guard::{Judgement, Load};
use super::options::Place;
pub use crate::counters::{CpuShares, Drop};

/// The share of the offered frames that may be missing at a load that still counts as loss-free.
///
/// Offered and delivered frames are counted over one window of time. A few frames are always on their way
/// when the window ends. They are not lost; at low loads they weigh most.
pub const LOSS_FREE_TOLERANCE: f64 = 0.005;

/// The share of the time below which a host's core counts as disturbed. Figures are then low and uneven.
const DISTURBED: f64 = 0.95;

/// The results of one run of the demonstration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Demonstration {
    /// The version of evenkeel that measured.
    pub version: String,
    /// The conditions of the run, and the machine it ran on.
    pub setup: Setup,
    /// The results of each receive architecture, in the order they ran: one with a single receive queue comes
    /// before all that have several. None if only the kernel's own socket was measured.
    pub architectures: Vec<Architecture>,
    /// The results of the kernel's own socket under the same load, if it could be measured.
    pub kernel: Option<OnVeth>,
    /// The reason why `kernel` is missing although it was asked for.
    pub kernel_missing: Option<String>,
    /// The results of the kernel's own socket behind [`Guard`](evenkeel::raw::kernel::Guard), if it could be
    /// measured.
    #[serde(default)]
    pub guarded: Option<OnVeth>,
    /// The reason why `guarded` is missing although it was asked for.
    #[serde(default)]
    pub guarded_missing: Option<String>,
    /// The results of a socket of ours on the same veth pair, over AF_XDP under `ni-lrp`, if it could be
    /// measured.
    #[serde(default)]
    pub over_xdp: Option<OnVeth>,
    /// The reason why `over_xdp` is missing although it was asked for.
    #[serde(default)]
    pub over_xdp_missing: Option<String>,
}

/// The conditions of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setup {
    /// The processor's name, if the machine gives one.
    pub machine: Option<String>,
    /// The number of cores that this process may use. One runs the host, another the load generator.
    pub cores: usize,
    /// The CPU time that the service uses for each request, in nanoseconds.
    pub work_ns: u64,
    /// The number of bytes of each request frame, with the Ethernet header and without FCS.
    pub frame_bytes: usize,
    /// The interface of the architectures: `cable`, `packet` or `xdp`. `None` in results of old versions,
    /// which all had the cable.
    #[serde(default)]
    pub on: Option<String>,
    /// The reason why the interface is not `xdp`, if that was to be used and could not be had.
    #[serde(default)]
    pub no_xdp: Option<String>,
    /// The number of receive queues of the interface.
    pub queues: usize,
    /// Whether the requests to both services arrive through one receive queue, by the hash of the cable.
    pub shared_queue: bool,
    /// The rate of requests to the second, unflooded socket, in requests a second.
    pub victim_pps: f64,
    /// The length of the measured window at each load, in seconds.
    pub seconds_per_point: f64,
    /// The seed of everything that is random.
    pub seed: u64,
    /// The operating system and its release. `None` in results of old versions, like all that follow.
    #[serde(default)]
    pub system: Option<String>,
    /// The time at which the run began, as of RFC 3339 in UTC.
    #[serde(default)]
    pub started: Option<String>,
    /// The time that the whole run took, in seconds.
    #[serde(default)]
    pub took_s: Option<f64>,
    /// The command that repeats the run.
    #[serde(default)]
    pub command: Option<String>,
}

/// The results of one receive architecture over all loads.
///
/// All values except `mlfrr_pps`, `peak_pps` and `conserved` are for the highest offered load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Architecture {
    /// The architecture's name: `eager`, `polled`, `early-demux`, `soft-lrp` or `ni-lrp`; `soft-lrp, 1
    /// queue` with one receive queue where the others have several.
    pub name: String,
    /// The number of receive queues of the interface.
    pub queues: usize,
    /// The maximum loss-free receive rate in pps: the highest offered load up to which nothing was lost.
    pub mlfrr_pps: f64,
    /// The highest rate delivered at any load, in pps.
    pub peak_pps: f64,
    /// The highest load as it was really offered, in pps.
    pub offered_max_pps: f64,
    /// The rate delivered at the highest load, in pps.
    pub delivered_max_pps: f64,
    /// The ratio `delivered_max_pps / peak_pps`: 1 if the architecture holds its peak, 0 for receive
    /// livelock.
    pub retention: f64,
    /// The dropped frames by place and reason.
    pub drops: Vec<Drop>,
    /// The shares of the host's core time by use.
    pub cpu: CpuShares,
    /// The share of the core that a compute-bound program on it got.
    pub neighbour_cpu: f64,
    /// The share of the requests to the unflooded socket that it never received.
    pub victim_loss: f64,
    /// The 99th percentile of the time from a request's sending until the program of the unflooded socket
    /// had it, in microseconds. `None` if it received none.
    pub victim_p99_us: Option<f64>,
    /// Whether each frame was accounted for at every load.
    pub conserved: bool,
    /// The measurements at each load, lowest first.
    pub points: Vec<Point>,
}

/// The measurements of one receive architecture at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The load that the generator was asked for, in pps.
    pub target_pps: f64,
    /// The load that the generator really offered, in pps.
    pub offered_pps: f64,
    /// The rate of requests that the service received, in pps.
    pub delivered_pps: f64,
    /// The share of the core that a compute-bound program on it got.
    pub neighbour_cpu: f64,
    /// The share of the requests to the unflooded socket that it never received.
    pub victim_loss: f64,
    /// The 99th percentile of the time from a request's sending until the program of the unflooded socket
    /// had it, in microseconds. `None` if it received none.
    pub victim_p99_us: Option<f64>,
    /// The shares of the host's core time by use.
    pub cpu: CpuShares,
    /// The dropped frames by place and reason.
    pub drops: Vec<Drop>,
    /// Whether each frame was accounted for.
    pub conserved: bool,
    /// The share of the window in which the host's thread really had its core. The machine gave the rest to
    /// other programs, or to other machines.
    pub core_share: f64,
}

/// The results of a UDP socket under the same load, on a veth pair whose interface work is on the generator's
/// core. Protocol input is on the service's core, the kernel's by receive packet steering.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OnVeth {
    /// The release of the kernel that has the pair.
    pub release: String,
    /// The maximum loss-free receive rate in pps: the highest offered load up to which nothing was lost.
    pub mlfrr_pps: f64,
    /// The highest rate delivered at any load, in pps.
    pub peak_pps: f64,
    /// The highest load as it was really offered, in pps.
    pub offered_max_pps: f64,
    /// The rate delivered at the highest load, in pps.
    pub delivered_max_pps: f64,
    /// The ratio `delivered_max_pps / peak_pps`: 1 if the socket holds its peak, 0 for receive livelock.
    pub retention: f64,
    /// The measurements at each load, lowest first.
    pub points: Vec<VethPoint>,
}

/// The measurements of a socket on a veth pair at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VethPoint {
    /// The load that was really offered, in pps.
    pub offered_pps: f64,
    /// The rate of requests that the program received, in pps.
    pub delivered_pps: f64,
    /// The share of the window in which the service's core was not given to other programs, or to other
    /// machines. The kernel's use of it counts as the socket's.
    #[serde(default = "whole")]
    pub core_share: f64,
}

/// Returns the share of an undisturbed core, which results without this field had.
const fn whole() -> f64 {
    1.0
}

impl Setup {
    /// Returns the interface of the architectures.
    #[must_use]
    pub fn place(&self) -> Place {
        self.on.as_deref().and_then(|on| on.parse().ok()).unwrap_or(Place::Cable)
    }
}

impl Architecture {
    /// Sums up `points`, which may come in any order.
    ///
    /// # Panics
    /// There are no points.
    #[must_use]
    pub fn from_points(name: impl Into<String>, queues: usize, mut points: Vec<Point>) -> Self {
        points.sort_by(|a, b| a.offered_pps.total_cmp(&b.offered_pps));
        let curve = Curve::of(points.iter().map(|p| (p.offered_pps, p.delivered_pps)));
        let last = points.last().expect("at least one load is measured").clone();
        Self {
            name: name.into(),
            queues,
            mlfrr_pps: curve.mlfrr_pps,
            peak_pps: curve.peak_pps,
            offered_max_pps: curve.offered_max_pps,
            delivered_max_pps: curve.delivered_max_pps,
            retention: curve.retention(),
            drops: last.drops,
            cpu: last.cpu,
            neighbour_cpu: last.neighbour_cpu,
            victim_loss: last.victim_loss,
            victim_p99_us: last.victim_p99_us,
            conserved: points.iter().all(|p| p.conserved),
            points,
        }
    }

    /// Returns the share of requests that the unflooded socket lost at the load that hurt it most. A point
    /// at which nothing was offered does not count, because the machine did not let the generator send.
    #[must_use]
    pub fn worst_victim_loss(&self) -> f64 {
        let offered = self.points.iter().filter(|p| p.offered_pps > 0.0);
        offered.map(|p| p.victim_loss).fold(0.0, f64::max)
    }

    /// Returns the judgement on the architecture's course.
    #[must_use]
    pub fn judgement(&self) -> Judgement {
        let load = |p: &Point| Load {
            offered_pps: p.offered_pps,
            delivered_pps: p.delivered_pps,
            core_share: p.core_share,
        };
        Judgement::of(&self.points.iter().map(load).collect::<Vec<_>>(), self.retention)
    }
}

/// The name of the kernel's socket on the veth pair.
pub const KERNEL: &str = "kernel";
/// The name of the same socket behind the guard.
pub const GUARDED: &str = "kernel, guarded";
/// The name of our socket there.
pub const OVER_XDP: &str = "ni-lrp, xdp";

impl Demonstration {
    /// Returns the sockets that were measured on the veth pair, with their names.
    pub fn on_veth(&self) -> impl Iterator<Item = (&'static str, &OnVeth)> {
        let sockets = [(KERNEL, &self.kernel), (GUARDED, &self.guarded), (OVER_XDP, &self.over_xdp)];
        sockets.into_iter().filter_map(|(name, socket)| Some((name, socket.as_ref()?)))
    }

    /// Returns the sockets that could not be measured there although they were asked for, with the reasons.
    pub fn missing_on_veth(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let missing = [
            (KERNEL, &self.kernel_missing),
            (GUARDED, &self.guarded_missing),
            (OVER_XDP, &self.over_xdp_missing),
        ];
        missing.into_iter().filter_map(|(name, why)| Some((name, why.as_deref()?)))
    }

    /// Returns whether these are results of the kernel's own socket alone, without and with the guard.
    #[must_use]
    pub fn is_of_kernel(&self) -> bool {
        self.architectures.is_empty()
    }

    /// Returns the share of its core that the host had in the most disturbed measurement, if it is so small
    /// that the figures suffer from it.
    #[must_use]
    pub fn disturbed(&self) -> Option<f64> {
        let ours = self.architectures.iter().flat_map(|a| &a.points).map(|p| p.core_share);
        let on_veth = self.on_veth().flat_map(|(_, socket)| &socket.points).map(|p| p.core_share);
        let least = ours.chain(on_veth).fold(1.0, f64::min);
        (least < DISTURBED).then_some(least)
    }
}

impl OnVeth {
    /// Returns the judgement on the socket's course, by the guard that judges our architectures.
    #[must_use]
    pub fn judgement(&self) -> Judgement {
        let load = |p: &VethPoint| Load {
            offered_pps: p.offered_pps,
            delivered_pps: p.delivered_pps,
            core_share: p.core_share,
        };
        Judgement::of(&self.points.iter().map(load).collect::<Vec<_>>(), self.retention)
    }

    /// Sums up `points`, which may come in any order.
    #[must_use]
    pub fn from_points(release: impl Into<String>, mut points: Vec<VethPoint>) -> Self {
        points.sort_by(|a, b| a.offered_pps.total_cmp(&b.offered_pps));
        let curve = Curve::of(points.iter().map(|p| (p.offered_pps, p.delivered_pps)));
        Self {
            release: release.into(),
            mlfrr_pps: curve.mlfrr_pps,
            peak_pps: curve.peak_pps,
            offered_max_pps: curve.offered_max_pps,
            delivered_max_pps: curve.delivered_max_pps,
            retention: curve.retention(),
            points,
        }
    }
}

/// The four numbers that sum up delivered against offered load.
#[derive(Debug, Default)]
struct Curve {
    mlfrr_pps: f64,
    peak_pps: f64,
    offered_max_pps: f64,
    delivered_max_pps: f64,
}

impl Curve {
    /// Sums up pairs of offered and delivered load, lowest load first.
    fn of(points: impl Iterator<Item = (f64, f64)>) -> Self {
        let mut curve = Self::default();
        let mut loss_free = true;
        for (offered, delivered) in points {
            loss_free &= delivered >= offered * (1.0 - LOSS_FREE_TOLERANCE);
            if loss_free {
                curve.mlfrr_pps = offered;
            }
            curve.peak_pps = curve.peak_pps.max(delivered);
            curve.offered_max_pps = offered;
            curve.delivered_max_pps = delivered;
        }
        curve
    }

    fn retention(&self) -> f64 {
        if self.peak_pps > 0.0 { self.delivered_max_pps / self.peak_pps } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::fixture;

    fn summary(loads: &[(f64, f64)]) -> Architecture {
        let point = |&(offered_pps, delivered_pps): &(f64, f64)| Point {
            offered_pps,
            delivered_pps,
            ..fixture::point(offered_pps)
        };
        Architecture::from_points("eager", 1, loads.iter().map(point).collect())
    }

    #[test]
    fn livelock_is_summed_up() {
        let eager = summary(&[(100.0, 100.0), (200.0, 199.5), (400.0, 300.0), (4000.0, 30.0)]);
        assert_eq!((eager.mlfrr_pps, eager.peak_pps), (200.0, 300.0));
        assert_eq!((eager.offered_max_pps, eager.delivered_max_pps), (4000.0, 30.0));
        assert!((eager.retention - 0.1).abs() < 1e-12);
    }

    #[test]
    fn a_loss_ends_the_loss_free_range_for_good() {
        let flat = summary(&[(300.0, 300.0), (100.0, 90.0), (200.0, 200.0)]);
        assert_eq!(flat.mlfrr_pps, 0.0);
        assert_eq!(flat.offered_max_pps, 300.0, "points are put in order");
    }

    #[test]
    fn nothing_delivered_is_no_retention() {
        assert_eq!(summary(&[(100.0, 0.0), (200.0, 0.0)]).retention, 0.0);
    }

    #[test]
    fn a_disturbed_measurement_shows_in_the_whole() {
        let mut results = fixture::demonstration();
        assert_eq!(results.disturbed(), None);
        results.architectures[1].points[2].core_share = 0.4;
        assert_eq!(results.disturbed(), Some(0.4));
        results.kernel.as_mut().unwrap().points[0].core_share = 0.3;
        assert_eq!(results.disturbed(), Some(0.3), "the kernel's is judged by the same guard");
    }

    #[test]
    fn a_point_at_which_nothing_was_offered_is_no_loss() {
        let mut points = vec![fixture::point(0.0), fixture::point(2.0)];
        points[0].victim_loss = 1.0;
        points[1].victim_loss = 0.25;
        assert_eq!(Architecture::from_points("polled", 4, points).worst_victim_loss(), 0.25);
    }

    #[test]
    fn one_unbalanced_point_shows_in_the_whole() {
        let mut points = vec![fixture::point(1.0), fixture::point(2.0)];
        points[0].conserved = false;
        assert!(!Architecture::from_points("polled", 4, points).conserved);
    }
}
