//! Figure 9 of the paper on scalable readiness in real time: the answers of a saturated server, against open
//! and idle connections.
//!
//! The figure compares one event-driven server, on its own core, with each method of finding ready
//! descriptors: those of our host, including the paper's old and new ones, and those of the kernel. [`bench`]
//! describes the path between the server and its client.

mod bench;
mod httpd;
mod kernel;
mod ours;

use std::collections::BTreeMap;
use std::io;

use evenkeel::raw::kernel::{WaitBy, allow_descriptors};
use evenkeel::raw::socket::{Allocation, Select};
use evenkeel_apps::measure::{execute, undisturbed};

use super::{Options, Place, Progress, devices};
use crate::check::{Check, Origin::*, condition, predicted};
use crate::experiment::{Outcome, Point};
use crate::statistics::median;
pub(super) use bench::WORK;
use bench::{HOT, Measured, Server, run};
use ours::Way;

/// The experiment in virtual time.
pub(super) const ID: &str = "s98-fig9";

/// The numbers of cold connections.
const COLD: [usize; 6] = [0, 100, 1_000, 2_000, 5_000, 10_000];
/// Descriptors that a thread needs in addition to those of connections.
const OTHER_DESCRIPTORS: usize = 200;

/// The share of answers that must be kept with the most cold connections if the cost follows events: at least
/// the paper's share with a fifth of them.
const KEPT: [f64; 2] = [0.86, 1.15];
/// The share that may be kept at most if the cost follows descriptors. It depends on the other costs of a
/// request.
const FALLING: [f64; 2] = [0.0, 0.75];
/// The share of the time in which a saturated server has work.
const SATURATED: [f64; 2] = [0.9, 1.0];

/// A way to wait.
#[derive(Debug, Clone, Copy)]
struct Variant {
    name: &'static str,
    server: Server,
    /// The share of answers that the variant must keep with the most cold connections.
    keeps: [f64; 2],
}

const fn ours(name: &'static str, server: (Select, Allocation, Way), keeps: [f64; 2]) -> Variant {
    Variant { name, server: Server::Ours(server.0, server.1, server.2), keeps }
}

const fn linux(name: &'static str, by: WaitBy, keeps: [f64; 2]) -> Variant {
    Variant { name, server: Server::Kernel(by), keeps }
}

const VARIANTS: [Variant; 7] = [
    ours("old select", (Select::Classic, Allocation::Linear, Way::Select), FALLING),
    ours("new ufalloc", (Select::Classic, Allocation::Bitmap, Way::Select), FALLING),
    ours("new select", (Select::WithMemory, Allocation::Bitmap, Way::Select), KEPT),
    ours("event queue", (Select::WithMemory, Allocation::Bitmap, Way::EventQueue), KEPT),
    linux("linux select", WaitBy::Select, FALLING),
    linux("linux poll", WaitBy::Poll, FALLING),
    linux("linux epoll", WaitBy::Epoll, KEPT),
];

/// Describes the connection between server and client.
pub(super) fn conditions(on: Place) -> String {
    format!("{on}, linux on the loopback")
}

pub(super) fn measure(
    options: &Options,
    progress: &mut (dyn FnMut(&Progress<'_>) + Send),
) -> io::Result<Outcome> {
    let mut work = || measure_all(options, progress);
    let runs = match options.on {
        Place::Cable => work()?,
        place @ Place::Tap => devices::in_namespace(place, || {
            execute(&["ip", "link", "set", "lo", "up"]).map_err(io::Error::other)?;
            work()
        })?,
        Place::Packet | Place::Xdp => {
            return Err(io::Error::other(format!("{ID} runs on the cable or on a TAP")));
        }
    };
    Ok(runs.outcome())
}

/// Measures each point in each round. Points without a result, which other work of the machine may cause, are
/// measured as often again; the median of all counts.
fn measure_all(options: &Options, progress: &mut (dyn FnMut(&Progress<'_>) + Send)) -> io::Result<Runs> {
    let needed = |cold: usize| (cold + HOT + OTHER_DESCRIPTORS) as u64;
    let allowed = allow_descriptors(COLD.map(needed).into_iter().max().unwrap_or(0));
    // The kernel's descriptors limit the connections in which it has a part.
    let can = |server: Server, cold: usize| {
        needed(cold) <= allowed || matches!(server, Server::Ours(..)) && options.on == Place::Cable
    };
    let round = VARIANTS.iter().enumerate().flat_map(|(nth, variant)| {
        COLD.into_iter().filter(move |&cold| can(variant.server, cold)).map(move |cold| (nth, variant, cold))
    });
    let rounds = options.repeats.max(1);
    let all = rounds * round.clone().count();
    let (mut done, mut spare) = (0, all);
    let mut runs = Runs::default();
    let mut measure = |runs: &mut Runs, (nth, variant, cold): (usize, &Variant, usize)| {
        let again = || run(variant.server, cold, options);
        let measured = undisturbed(&mut spare, |run: &Measured| run.core_share, again)?;
        done += 1;
        let result = format!("with {cold} cold connections answers {:.0}/s", measured.answered);
        progress(&Progress { variant: variant.name, result: &result, done: (done, all.max(done)) });
        runs.0.entry((nth, cold)).or_default().push(measured);
        io::Result::Ok(())
    };
    // The loop measures everything once, then everything again, and one variant after the other. So
    // conditions that last for minutes are equal for a whole curve, and differ between its rounds.
    for _ in 0..rounds {
        for point in round.clone() {
            measure(&mut runs, point)?;
        }
    }
    let missed: Vec<usize> = (0..VARIANTS.len()).filter(|&nth| !runs.keeps(nth).ok).collect();
    for _ in 0..rounds {
        for &nth in &missed {
            for cold in [0, runs.most(nth)] {
                measure(&mut runs, (nth, &VARIANTS[nth], cold))?;
            }
        }
    }
    Ok(runs)
}

/// The measurements by variant and number of cold connections: one for each round.
#[derive(Debug, Default)]
struct Runs(BTreeMap<(usize, usize), Vec<Measured>>);

impl Runs {
    fn outcome(&self) -> Outcome {
        let points = self.0.iter().filter_map(|(&(nth, cold), runs)| {
            let mut runs = runs.clone();
            runs.sort_by(|a, b| a.answered.total_cmp(&b.answered));
            let run = runs.get(runs.len() / 2)?;
            Some(Point::new(VARIANTS[nth].name, cold as f64, run.answered).with([
                ("kept", self.kept(nth, cold)),
                ("server_busy", run.busy[0]),
                ("client_busy", run.busy[1]),
                ("core_share", run.core_share),
                ("connections", run.most as f64),
                ("response_us", run.response_us),
                ("failed", run.failed as f64),
            ]))
        });
        Outcome::new("cold connections", "answers/s", points.collect(), self.checks())
    }

    /// Returns the rate of answers with cold connections, as a share of the variant's rate without them:
    /// the median of the rounds.
    fn kept(&self, nth: usize, cold: usize) -> f64 {
        let of = |cold| self.0.get(&(nth, cold)).into_iter().flatten().map(|run| run.answered);
        median(of(cold).zip(of(0)).map(|(with, without)| with / without.max(1.0)))
    }

    /// Returns the greatest number of cold connections of a variant.
    fn most(&self, nth: usize) -> usize {
        self.0.keys().filter(|key| key.0 == nth).map(|key| key.1).max().unwrap_or(0)
    }

    /// Checks that a variant keeps its share of answers with the most cold connections.
    fn keeps(&self, nth: usize) -> Check {
        let (variant, most) = (&VARIANTS[nth], self.most(nth));
        let name = format!("{}: share of its answers kept with {most} cold", variant.name);
        predicted(Words, name).within(variant.keeps, &[self.kept(nth, most)])
    }

    fn checks(&self) -> Vec<Check> {
        let kept = (0..VARIANTS.len()).map(|nth| self.keeps(nth));
        let every = || self.0.iter().flat_map(|(key, runs)| runs.iter().map(move |run| (key.1, run)));
        let of = |value: fn(&Measured) -> f64| every().map(|(_, run)| value(run)).collect::<Vec<_>>();
        let cold = every().all(|(cold, run)| run.cold == cold && run.most >= cold);
        let all_answered = every().all(|(_, run)| run.answers[0] >= run.answers[1] && run.answers[1] > 0);
        let yes = |holds| if holds { "yes" } else { "no" };
        kept.chain([
            condition("share of the time in which the server had something to do")
                .within(SATURATED, &of(|run| run.busy[0])),
            condition("share of their cores that both had").within([0.9, 1.0], &of(|run| run.core_share)),
            condition("requests that failed").within([0.0, 0.0], &of(|run| run.failed as f64)),
            condition("all cold connections are open throughout").equal("yes", yes(cold)),
            condition("the server has given what the client has counted").equal("yes", yes(all_answered)),
        ])
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel::raw::time::Duration;

    use super::*;

    const WINDOWS_MAX: usize = 10;

    /// Each server answers while there are silent connections. Several windows may be tried, because other
    /// load on the machine may take a core for a whole window.
    #[test]
    fn every_way_answers_beside_cold_connections() {
        let options = Options { window: Duration::from_millis(30), ..Options::default() };
        for variant in VARIANTS {
            let answers = (0..WINDOWS_MAX).any(|_| {
                let run = run(variant.server, 70, &options).unwrap();
                let open = run.cold == 70 && run.most >= 71 && run.most <= 70 + 2 * HOT;
                assert!(open && run.failed == 0, "{}: {run:?}", variant.name);
                assert!(run.answers[0] >= run.answers[1], "{}: {run:?}", variant.name);
                run.answered > 0.0 && run.answers[1] > 0
            });
            assert!(answers, "{}", variant.name);
        }
    }

    fn runs(of_first: &[(usize, [f64; 3])]) -> Runs {
        let run = |answered| Measured { answered, ..Measured::default() };
        Runs(of_first.iter().map(|&(cold, rates)| ((0, cold), rates.map(run).to_vec())).collect())
    }

    #[test]
    fn what_is_kept_is_of_the_same_round() {
        let runs = runs(&[(0, [100.0, 10.0, 50.0]), (10_000, [30.0, 9.0, 45.0])]);
        assert_eq!(runs.kept(0, 10_000), 0.9);
        assert!(runs.kept(1, 10_000).is_nan(), "nothing was measured");
    }

    #[test]
    fn a_way_that_should_fall_and_does_not_misses() {
        let ok = |with: f64| runs(&[(0, [100.0; 3]), (10_000, [with; 3])]).checks()[0].ok;
        assert_eq!([50.0, 76.0, 100.0].map(ok), [true, false, false]);
    }
}
