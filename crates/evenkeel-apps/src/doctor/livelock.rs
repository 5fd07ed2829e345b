//! A test whether the kernel livelocks: its UDP socket under a flood that grows, on a veth pair.
//!
//! The pair is in a network namespace of its own, which ends with the thread, even by `kill -9`. One core
//! sends. The other has the service and the protocol input of its socket, as on a machine whose frames are
//! steered to the core of their program.

use std::io;
use std::thread;

use evenkeel::raw::cpu;
use evenkeel::raw::kernel::{self, Guard, GuardOptions};
use evenkeel::raw::time::Duration;
use schemars::JsonSchema;
use serde::Serialize;

use super::finding::{Check, Finding, Verdict};
use crate::on_veth::{self, Pair, SERVED};
use crate::quantity::{percent, pps, three_digits_at_most};

/// The loads of the steps, in requests a second. The last is more than any machine sends.
const LOADS: [u64; 6] = [50_000, 100_000, 200_000, 400_000, 800_000, 100_000_000];
/// The time for which a step is measured, after the time in which it settles.
const WINDOW: Duration = Duration::from_millis(350);
/// A generator that sends less than this share of a load has reached its maximum.
const REACHED: f64 = 0.8;
/// The shares of the peak at the highest load below which the socket livelocks, and loses too much.
const LIVELOCK: f64 = 0.2;
const KEEPS: f64 = 0.9;
/// The least overload that shows it, as a multiple of the peak; and the least share of its core that the
/// service must have had.
const OVERLOAD: f64 = 2.0;
const CORE: f64 = 0.9;

const SOURCE: &str = "a veth pair in a network namespace of its own";

/// The results of the livelock test.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Livelock {
    /// The steps, lowest load first.
    pub steps: Vec<Step>,
    /// The most requests a second that were delivered at any load.
    pub peak_pps: f64,
    /// Delivered at the highest load, divided by the peak.
    pub retention: f64,
    /// Delivered at the highest load with threaded NAPI and without RPS; `None` if that was not measured.
    pub threaded_pps: Option<f64>,
    /// Delivered at the highest load behind `evenkeel guard`; `None` if that was not measured.
    pub guarded_pps: Option<f64>,
}

/// A step of the livelock test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Step {
    /// Requests a second that were sent.
    pub offered_pps: f64,
    /// Requests a second that the program received.
    pub delivered_pps: f64,
    /// The share of the time in which the service and protocol input had their core.
    pub core_share: f64,
}

/// Runs the test, and calls `progress` with a line about each step.
///
/// # Errors
/// The reason why it cannot be run.
pub(super) fn run(progress: &mut (impl FnMut(&str) + Send)) -> Result<Livelock, String> {
    if cpu::cpus().len() < 2 {
        return Err("it needs two cores: one for the flood, and one for the service".to_owned());
    }
    thread::scope(|scope| {
        let test = scope.spawn(|| {
            kernel::enter_new_network().map_err(|error| format!("it needs root (CAP_SYS_ADMIN): {error}"))?;
            let pair = Pair::set_up()?;
            let livelock = sweep(pair, progress).map_err(|error| error.to_string())?;
            Ok(remedied(pair, livelock, progress))
        });
        test.join().unwrap_or_else(|_| Err("the thread of the test panicked".to_owned()))
    })
}

fn sweep(pair: Pair, progress: &mut impl FnMut(&str)) -> io::Result<Livelock> {
    let mut steps = Vec::new();
    for load in LOADS {
        let step = measure(pair, load)?;
        progress(&format!("{} offered, {} delivered", pps(step.offered_pps), pps(step.delivered_pps)));
        #[expect(clippy::cast_precision_loss, reason = "a share of a load")]
        let reached = step.offered_pps < load as f64 * REACHED;
        steps.push(step);
        if reached {
            break;
        }
    }
    Ok(Livelock::of(steps))
}

fn measure(pair: Pair, load: u64) -> io::Result<Step> {
    let on_veth::Served { offered_pps, delivered_pps, core_share } =
        pair.measure_kernel(load, Duration::ZERO, WINDOW)?;
    Ok(Step { offered_pps, delivered_pps, core_share })
}

/// Measures the highest load again with each remedy, if one is needed. A remedy that cannot be had is left
/// out.
fn remedied(pair: Pair, mut livelock: Livelock, progress: &mut impl FnMut(&str)) -> Livelock {
    if livelock.retention >= KEEPS {
        return livelock;
    }
    let highest = || LOADS.last().and_then(|&load| measure(pair, load).ok()).map(|step| step.delivered_pps);
    if let Ok(_guard) = Guard::attach(&[SERVED.to_owned()], &GuardOptions::default()) {
        livelock.guarded_pps = highest();
    }
    if on_veth::use_napi_thread().is_ok() {
        livelock.threaded_pps = highest();
    }
    progress("remedies measured");
    livelock
}

impl Livelock {
    /// Creates the results of `steps`, without remedies.
    fn of(mut steps: Vec<Step>) -> Self {
        steps.sort_by(|a, b| a.offered_pps.total_cmp(&b.offered_pps));
        let peak_pps = steps.iter().map(|step| step.delivered_pps).fold(0.0, f64::max);
        let last = steps.last().map_or(0.0, |step| step.delivered_pps);
        let retention = if peak_pps > 0.0 { last / peak_pps } else { 0.0 };
        Self { steps, peak_pps, retention, threaded_pps: None, guarded_pps: None }
    }

    /// Returns the reason why the results show nothing.
    fn doubt(&self) -> Option<String> {
        let highest = self.steps.last().map_or(0.0, |step| step.offered_pps);
        let core = self.steps.iter().map(|step| step.core_share).fold(1.0, f64::min);
        let overload = if self.peak_pps > 0.0 { highest / self.peak_pps } else { f64::INFINITY };
        match () {
            () if core < CORE => {
                let share = percent(core);
                Some(format!("the machine is busy: at one load the service had {share} % of its core"))
            }
            () if overload < OVERLOAD => {
                let times = three_digits_at_most(overload);
                Some(format!("the highest load was only {times} times the peak"))
            }
            () => None,
        }
    }

    /// Returns the finding about the kernel.
    pub(super) fn finding(&self, interface: Option<&str>) -> Finding {
        if let Some(doubt) = self.doubt() {
            return unseen(&doubt);
        }
        let verdict = match self.retention {
            r if r < LIVELOCK => Verdict::Bad,
            r if r < KEEPS => Verdict::CouldBeBetter,
            _ => Verdict::Good,
        };
        let highest = self.steps.last().map_or(0.0, |step| step.offered_pps);
        let mut seen = format!(
            "a kernel socket keeps {} % of its peak of {} at {}",
            percent(self.retention),
            pps(self.peak_pps),
            pps(highest)
        );
        for (with, rate) in [("the guard", self.guarded_pps), ("threaded NAPI", self.threaded_pps)] {
            seen.extend(rate.map(|rate| format!("; with {with} {}", pps(rate))));
        }
        let found = Check::LIVELOCK.finds(verdict, seen, SOURCE);
        match self.remedy(interface.unwrap_or("IFACE")) {
            Some(command) => found.mended_by(command),
            None => found,
        }
    }

    /// Returns the command for the remedy that delivered most, if it delivered more than the kernel alone.
    fn remedy(&self, interface: &str) -> Option<String> {
        let alone = self.steps.last()?.delivered_pps;
        let guarded = self.guarded_pps.map(|rate| (rate, format!("evenkeel guard {interface}")));
        let thread = |rate| (rate, format!("echo 1 > /sys/class/net/{interface}/threaded"));
        let remedies = guarded.into_iter().chain(self.threaded_pps.map(thread));
        let best = remedies.filter(|(rate, _)| *rate > alone).max_by(|a, b| a.0.total_cmp(&b.0));
        best.map(|(_, command)| command)
    }
}

/// Returns the finding that the test shows nothing.
pub(super) fn unseen(why: &str) -> Finding {
    Check::LIVELOCK.unseen(why, SOURCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(steps: &[(f64, f64, f64)]) -> Livelock {
        let step =
            |&(offered_pps, delivered_pps, core_share)| Step { offered_pps, delivered_pps, core_share };
        Livelock::of(steps.iter().map(step).collect())
    }

    #[test]
    fn what_is_left_of_the_peak_decides() {
        let judge = |left| of(&[(1e5, 1e5, 1.0), (1e6, left, 1.0)]).finding(None).verdict;
        assert_eq!(judge(1e3), Verdict::Bad);
        assert_eq!(judge(5e4), Verdict::CouldBeBetter);
        assert_eq!(judge(9.5e4), Verdict::Good);
        assert_eq!(of(&[(1e5, 0.0, 1.0)]).finding(None).verdict, Verdict::Bad);
    }

    #[test]
    fn a_busy_machine_or_a_weak_flood_shows_nothing() {
        let busy = of(&[(1e5, 1e5, 0.8), (1e6, 1e3, 1.0)]).finding(None);
        assert_eq!(busy.verdict, Verdict::Unknown);
        assert!(busy.seen.contains("80.0 % of its core"), "{}", busy.seen);
        let weak = of(&[(1e5, 1e5, 1.0), (1.5e5, 1e3, 1.0)]).finding(None);
        assert_eq!(
            (weak.verdict, weak.seen.as_str()),
            (Verdict::Unknown, "the highest load was only 1.5 times the peak")
        );
    }

    #[test]
    fn the_remedy_is_the_one_that_delivered_most() {
        let with = |guarded_pps, threaded_pps| {
            let livelock = of(&[(1e5, 1e5, 1.0), (1e6, 1e3, 1.0)]);
            Livelock { guarded_pps, threaded_pps, ..livelock }.finding(Some("eth0")).mend
        };
        assert_eq!(with(Some(2e5), Some(1e5)).as_deref(), Some("evenkeel guard eth0"));
        let threaded = "echo 1 > /sys/class/net/eth0/threaded";
        assert_eq!(with(Some(1e5), Some(2e5)).as_deref(), Some(threaded));
        assert_eq!(with(None, Some(2e5)).as_deref(), Some(threaded));
        assert_eq!((with(Some(500.0), None), with(None, None)), (None, None));
    }
}
