//! A server against the rate of requests: the common part of figures 3 to 8 of the scalable-kernels paper.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::experiment::Point;
use crate::s98_testbed::{HOT, Kernel, Load, Measured, SATURATING, SLOW, Server, run};

/// Returns the rates of requests that the server can answer; the last point of each curve is far beyond its
/// capacity.
const fn rates(server: Server) -> &'static [f64] {
    match server {
        Server::Squid => &[50.0, 100.0, 150.0, 200.0, 300.0, 400.0],
        Server::Thttpd => &[100.0, 200.0, 400.0, 600.0, 800.0],
    }
}

/// The behaviour of the load-adding client (S98.w.naive, S98.w.real).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Benchmark {
    Naive,
    Realistic,
}

impl Benchmark {
    const fn name(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::Realistic => "realistic",
        }
    }

    const fn cold(self) -> usize {
        match self {
            Self::Naive => 0,
            Self::Realistic => SLOW,
        }
    }
}

/// The measurements of one kernel under one benchmark.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    kernel: Kernel,
    benchmark: Benchmark,
    measured: Vec<(f64, Measured)>,
}

/// The measured curves. Figures 3 to 7 share their runs: each is made once, or twice if two figures need it
/// at a time.
static MEASURED: Mutex<BTreeMap<Run, Curve>> = Mutex::new(BTreeMap::new());

type Run = ((Server, usize), Kernel, Benchmark, u64);

impl Curve {
    pub(crate) fn measure(of: (Server, usize), kernel: Kernel, benchmark: Benchmark, seed: u64) -> Self {
        let measured = || MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
        let run = (of, kernel, benchmark, seed);
        if let Some(curve) = measured().get(&run) {
            return curve.clone();
        }
        let curve = Self::anew(run);
        measured().insert(run, curve.clone());
        curve
    }

    fn anew(((server, bytes), kernel, benchmark, seed): Run) -> Self {
        let load = |rate| Load { cold: benchmark.cold(), hot: HOT, rate, bytes };
        let point = |rate| (rate, run(kernel, server, load(rate), seed ^ rate as u64));
        let saturated = point(SATURATING);
        let within = rates(server).iter().filter(|rate| **rate < saturated.1.throughput);
        let measured = within.map(|rate| point(*rate)).chain([saturated]).collect();
        Self { kernel, benchmark, measured }
    }

    pub(crate) fn name(&self) -> String {
        format!("{}, {}", self.benchmark.name(), self.kernel.name())
    }

    /// Returns points against the throughput.
    pub(crate) fn points(&self, y: impl Fn(&Measured) -> f64) -> Vec<Point> {
        self.points_of(&self.name(), y)
    }

    /// Returns points of a part of the measured value, against the throughput.
    pub(crate) fn parts(&self, part: &str, y: impl Fn(&Measured) -> f64) -> Vec<Point> {
        self.points_of(&format!("{part}, {}", self.kernel.name()), y)
    }

    fn points_of(&self, series: &str, y: impl Fn(&Measured) -> f64) -> Vec<Point> {
        let more = |m: &Measured| {
            [
                ("offered", m.offered),
                ("response_ms", m.response_ms),
                ("idle", m.idle),
                ("select", m.select),
                ("ufalloc", m.ufalloc),
                ("around_select", m.around),
                ("calls_per_s", m.calls),
                ("events_per_call", m.events),
                ("failed_per_s", m.failed),
            ]
        };
        let point = |m: &Measured| Point::new(series, m.throughput, y(m)).with(more(m));
        self.measured.iter().map(|(_, m)| point(m)).collect()
    }

    /// Returns the greatest throughput of the server.
    pub(crate) fn saturation(&self) -> f64 {
        self.saturated().throughput
    }

    pub(crate) fn saturated(&self) -> &Measured {
        &self.measured.last().expect("there is a point").1
    }

    /// Returns the measurement at this request rate, if the server can answer it.
    pub(crate) fn at(&self, rate: f64) -> Option<&Measured> {
        self.measured.iter().find(|(at, _)| *at == rate).map(|(_, m)| m)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Measured> {
        self.measured.iter().map(|(_, m)| m)
    }

    /// Returns the measurements at the rates that both curves have.
    pub(crate) fn beside<'a>(
        &'a self,
        other: &'a Self,
    ) -> impl Iterator<Item = (&'a Measured, &'a Measured)> {
        let rates = self.measured.iter().filter(|(rate, _)| *rate < SATURATING);
        rates.filter_map(|(rate, m)| Some((m, other.at(*rate)?)))
    }
}

/// The kernels of figures 3 to 8.
pub(crate) const KERNELS: [Kernel; 3] = [Kernel::Unmodified, Kernel::NewSelect, Kernel::Modified];

/// Returns the curves of all kernels under a benchmark.
pub(crate) fn all(of: (Server, usize), benchmark: Benchmark, seed: u64) -> [Curve; 3] {
    KERNELS.map(|kernel| Curve::measure(of, kernel, benchmark, seed))
}
