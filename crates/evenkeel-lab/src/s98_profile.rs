//! The CPU time of the proxy, kernel by kernel, as in profiles: 750 cold connections, 50 hot ones, 220
//! requests/s (tables 1 and 2 of the scalable-kernels paper).

use crate::experiment::Point;
use crate::s98_testbed::{HOT, Kernel, Load, Measured, SHORT, SLOW, Server, run};

/// Requests per second in table 1 and table 2.
pub(crate) const RATE: f64 = 220.0;

pub(crate) fn profile(kernel: Kernel, seed: u64) -> Measured {
    run(kernel, Server::Squid, Load { cold: SLOW, hot: HOT, rate: RATE, bytes: SHORT }, seed)
}

/// Returns percentages of the CPU: `select`, `ufalloc`, the loop around `select`, idle, and the rest.
pub(crate) fn rows(m: &Measured) -> [f64; 5] {
    [m.select, m.ufalloc, m.around, m.idle, m.others()].map(|share| 100.0 * share)
}

/// Returns the points of the measured profile and of the paper's.
pub(crate) fn points(measured: &Measured, paper: [f64; 5]) -> Vec<Point> {
    let line =
        |rows: [f64; 5]| (1..).zip(rows).map(|(row, share)| (f64::from(row), share)).collect::<Vec<_>>();
    let here = line(rows(measured)).into_iter().map(|(row, share)| {
        let more = [("calls_per_s", measured.calls), ("events_per_call", measured.events)];
        Point::new("CPU time", row, share).with(more)
    });
    here.chain(Point::of_paper("CPU time", &line(paper))).collect()
}

/// The label of the rows.
pub(crate) const ROWS: &str = "row: select, ufalloc, loop around select, idle, others";

/// The tolerance of a share, in percentage points.
pub(crate) const POINTS: f64 = 3.0;

/// Returns the range of [`POINTS`] around a share of the paper, in percent.
pub(crate) fn about(share: f64) -> [f64; 2] {
    [(share - POINTS).max(0.0), share + POINTS]
}
