//! What an interrupt-driven router forwards over what it gets: Mogul and Ramakrishnan, TOCS 1997, figure 2.
//!
//! Receive interrupts come before everything else, so work on packets that will be dropped starves work on those that could be forwarded.
//! With `screend`, a user process that decides about each packet, the starved one is the last in line and livelock comes early.

use crate::experiment::{Check, Experiment, Outcome, Point};
use crate::router_setup::Setup;
use crate::router_testbed::{Curve, rates};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "l97-fig2",
    title: "Forwarding rate of the unmodified kernel",
    source: "Mogul and Ramakrishnan, Eliminating receive livelock, TOCS 1997, figure 2",
    measure,
};

/// What the paper says.
mod paper {
    pub(super) const PEAK: f64 = 4700.0;
    pub(super) const ETHERNET_MAX: f64 = 14_880.0;
    pub(super) const SCREEND_KNEE: f64 = 2000.0;
    pub(super) const SCREEND_LIVELOCK: f64 = 6000.0;
    /// D.L97.dev: the device interrupt alone takes 72 us.
    pub(super) const LIVELOCK: f64 = 13_890.0;
    /// D.L97.ip: output falls linearly, (1 - 72e-6 r) / 140.8e-6.
    pub(super) const BEYOND: [(u64, f64); 2] = [(6000, 4034.0), (10_000, 1989.0)];
}

fn measure(seed: u64) -> Outcome {
    let plain = Curve::measure("without screend", &Setup::UNMODIFIED, rates(14_500, &[4_400]), seed);
    let screend = Setup::UNMODIFIED.with_screend();
    let screend = Curve::measure("with screend", &screend, rates(8_000, &[1_800, 5_400]), seed);
    Outcome {
        x: "input (packets/s)",
        y: "output (packets/s)",
        y_max: None,
        points: plain
            .points()
            .chain(screend.points())
            .chain(Point::of_paper("without screend", &[(paper::PEAK, paper::PEAK), (paper::LIVELOCK, 0.0)]))
            .chain(Point::of_paper(
                "with screend",
                &[(paper::SCREEND_KNEE, paper::SCREEND_KNEE), (paper::SCREEND_LIVELOCK, 0.0)],
            ))
            .collect(),
        checks: checks(&plain, &screend),
    }
}

fn checks(plain: &Curve, screend: &Curve) -> Vec<Check> {
    let mut checks = vec![
        Check::near("peak without screend (packets/s)", paper::PEAK, plain.peak(), 0.05),
        Check::within(
            "livelock, below the maximum of the Ethernet (packets/s)",
            [plain.peak(), paper::ETHERNET_MAX],
            &[plain.livelock()],
        ),
        Check::near(
            "the same, by the time of the device interrupt (packets/s)",
            paper::LIVELOCK,
            plain.livelock(),
            0.10,
        ),
    ];
    checks.extend(paper::BEYOND.map(|(rate, output)| {
        let name = format!("output at {rate}/s, on a line down to livelock (packets/s)");
        Check::near(name, output, plain.at(rate).forwarded_pps, 0.10)
    }));
    checks.extend([
        Check::equal("losses at 8000/s without screend", "IP queue", plain.at(8_000).places()),
        Check::near("peak with screend (packets/s)", paper::SCREEND_KNEE, screend.peak(), 0.05),
        Check::near("loss-free with screend up to (packets/s)", paper::SCREEND_KNEE, screend.mlfrr(), 0.05),
        Check::near("livelock with screend (packets/s)", paper::SCREEND_LIVELOCK, screend.livelock(), 0.10),
        Check::equal("losses at 4000/s with screend", "screening queue", screend.at(4_000).places()),
    ]);
    checks
}
