//! Invented results for tests of pictures and texts. No number here was measured.

use super::results::{Architecture, CpuShares, Demonstration, Drop, OnVeth, Point, Setup, VethPoint};

/// Returns a point at which everything is delivered and nothing is lost.
pub(crate) fn point(offered_pps: f64) -> Point {
    Point {
        target_pps: offered_pps,
        offered_pps,
        delivered_pps: offered_pps,
        neighbour_cpu: 0.5,
        victim_loss: 0.0,
        victim_p99_us: Some(10.0),
        cpu: CpuShares { process: 1.0, ..CpuShares::default() },
        drops: Vec::new(),
        conserved: true,
        core_share: 1.0,
    }
}

/// Returns shares of a core that the machine took in part. No share is zero.
pub(crate) fn shares_of_all_kinds() -> CpuShares {
    CpuShares {
        interrupt: 0.05,
        soft_interrupt: 0.1,
        polling_thread: 0.15,
        process: 0.3,
        idle: 0.05,
        halting: 0.15,
        run_delay: 0.2,
        system: 0.5,
    }
}

/// An invented behaviour of an architecture under a flood.
struct Shape {
    name: &'static str,
    peak_pps: f64,
    /// The share of the peak that delivered load loses while offered load rises by one peak beyond it: 0
    /// for none, 1 for all of it at twice the peak.
    fall: f64,
    victim_suffers: f64,
    place: (&'static str, &'static str),
}

const SHAPES: [Shape; 5] = [
    Shape {
        name: "eager",
        peak_pps: 610e3,
        fall: 0.55,
        victim_suffers: 1.0,
        place: ("ip-queue-full", "shared IP queue"),
    },
    Shape {
        name: "polled",
        peak_pps: 590e3,
        fall: 0.0008,
        victim_suffers: 0.97,
        place: ("ring-full", "interface ring"),
    },
    Shape {
        name: "early-demux",
        peak_pps: 605e3,
        fall: 0.07,
        victim_suffers: 0.35,
        place: ("socket-full", "socket of port 7"),
    },
    Shape {
        name: "soft-lrp",
        peak_pps: 640e3,
        fall: 0.0011,
        victim_suffers: 0.0,
        place: ("channel-full", "channel of port 7"),
    },
    Shape {
        name: "ni-lrp",
        peak_pps: 660e3,
        fall: 0.0,
        victim_suffers: 0.0,
        place: ("channel-full", "channel of port 7"),
    },
];

impl Shape {
    fn at(&self, load: f64) -> Point {
        let offered_pps = 600e3 * load;
        let over = (offered_pps / self.peak_pps - 1.0).max(0.0);
        let delivered_pps = offered_pps.min(self.peak_pps) * (1.0 - self.fall * over).max(0.0005);
        let pressed = over / (over + 0.5);
        let [interrupt, soft_interrupt, polling_thread] = match self.name {
            "eager" => [0.1 + 0.85 * pressed, 0.2 * (1.0 - pressed), 0.0],
            "polled" => [0.0, 0.0, 0.25 + 0.25 * pressed],
            "early-demux" => [0.1 + 0.45 * pressed, 0.2, 0.0],
            "soft-lrp" => [0.0, 0.0, 0.1 + 0.08 * pressed],
            _ => [0.0; 3],
        };
        let process = 1.0 - interrupt - soft_interrupt - polling_thread;
        let lost = ((offered_pps - delivered_pps) * 1.5) as u64;
        Point {
            delivered_pps,
            neighbour_cpu: process * 0.5,
            victim_loss: self.victim_suffers * pressed,
            victim_p99_us: (self.victim_suffers * pressed < 0.94)
                .then_some(9.0 + 700.0 * self.victim_suffers * pressed + 6.0 * pressed),
            cpu: CpuShares { interrupt, soft_interrupt, polling_thread, process, ..CpuShares::default() },
            drops: drops(self.place, lost),
            ..point(offered_pps)
        }
    }
}

fn drops((reason, place): (&'static str, &'static str), frames: u64) -> Vec<Drop> {
    let drop = |reason: &'static str, place: &'static str, frames| Drop {
        reason: reason.into(),
        place: place.into(),
        frames,
    };
    let mut drops =
        vec![drop(reason, place, frames - frames / 5), drop("ring-full", "interface ring", frames / 5)];
    drops.retain(|d| d.frames > 0);
    drops
}

/// Returns results of five architectures and the kernel at twelve loads.
pub(crate) fn demonstration() -> Demonstration {
    let loads = [0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0];
    let architecture =
        |s: &Shape| Architecture::from_points(s.name, 4, loads.iter().map(|&l| s.at(l)).collect());
    let kernel = |load: f64| VethPoint {
        offered_pps: 600e3 * load,
        delivered_pps: (600e3 * load).min(420e3) / (1.0 + (load - 0.8).max(0.0).powi(4)),
        core_share: 1.0,
    };
    let guarded = |load: f64| VethPoint {
        offered_pps: 600e3 * load,
        delivered_pps: (600e3 * load).min(400e3),
        core_share: 1.0,
    };
    let over_xdp = |load: f64| VethPoint {
        offered_pps: 500e3 * load,
        delivered_pps: (500e3 * load).min(480e3),
        core_share: 1.0,
    };
    Demonstration {
        version: "0.0.0-fixture".into(),
        setup: Setup {
            machine: Some("A <made-up> processor".into()),
            cores: 2,
            work_ns: 1_000,
            frame_bytes: 60,
            on: Some("cable".into()),
            no_xdp: None,
            queues: 4,
            shared_queue: false,
            victim_pps: 1_000.0,
            seconds_per_point: 1.0,
            seed: 1,
            system: Some("Linux 6.0.0-<made-up>".into()),
            started: Some("2026-01-02T03:04:05Z".into()),
            took_s: Some(61.0),
            command: Some("evenkeel demo --work 1us".into()),
        },
        architectures: SHAPES.iter().map(architecture).collect(),
        kernel_missing: None,
        guarded_missing: None,
        guarded: Some(OnVeth::from_points("6.0.0", loads.iter().map(|&l| guarded(l)).collect())),
        over_xdp_missing: None,
        over_xdp: Some(OnVeth::from_points("6.0.0", loads.iter().map(|&l| over_xdp(l)).collect())),
        kernel: Some(OnVeth::from_points("6.0.0", loads.iter().map(|&l| kernel(l)).collect())),
    }
}
