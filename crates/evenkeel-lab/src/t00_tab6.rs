//! The throughput that clocking of packets costs a web server on a Pentium II: Aron and Druschel, TOCS 2000,
//! table VI.

use evenkeel::raw::time::Duration;

use crate::check::{Check, Origin::*, calibrated, predicted};
use crate::experiment::{Experiment, Outcome};
use crate::t00_clocked::{Clocked, Row, Table};
use crate::t00_overhead::{Handler, Timer, off_chip, run};
use crate::t00_testbed::{Load, Pentium, Server};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "t00-tab6",
    title: "Overhead of rate-based clocking, 300 MHz Pentium II",
    source: "Aron and Druschel, Soft timers, TOCS 2000, table VI (its cells are missing: the overheads its \
        text repeats)",
    measure,
};

/// The period of the timer (T00.T6.hz).
const PERIOD: Duration = Duration::from_micros(20);

/// T00.T6.base: the percentage of the throughput that the dispatch of events alone costs.
const DISPATCH: f64 = 22.0;
/// T00.T6.poll: the least additional displacement of caches by handlers that interrupt, for Apache and for
/// Flash.
const DISPLACED: [f64; 2] = [4.0, 8.0];
/// The tolerance of those figures, in percentage points.
const POINTS: f64 = 3.0;

const LOST: &str = "a packet that is sent by an interrupt takes 38 or 48 µs here, more than the period: of \
    two or three interrupts one sends";
const TOO_LATE: &str = "a packet of Flash takes 26 µs from a trigger state here, too, and the next trigger \
    state is as much later";

fn measure(seed: u64) -> Outcome {
    let hard = off_chip(Pentium::Ii, PERIOD);
    let table = Table {
        x: "server (1 is Apache, 2 is Flash)",
        on: Pentium::Ii,
        timer: "8253 at 20 µs",
        // T00.TabVI.
        rows: [
            Row { hard, paper: [28.0, 2.0], fitted: Some(["program.apache-hard", "program.apache-soft"]) },
            Row { hard, paper: [36.0, 6.0], fitted: Some(["program.flash-hard", "program.flash-soft"]) },
        ],
    };
    let mut outcome = table.measure(seed, checks);
    outcome.checks.extend(dispatch(seed));
    outcome
}

/// Checks the two parts of the overhead of interrupts in the paper: their dispatch, and the additional cost
/// of handlers there, compared with handlers at trigger states.
fn dispatch(seed: u64) -> [Check; 2] {
    let hard = off_chip(Pentium::Ii, PERIOD);
    let parts = Server::BOTH.map(|server| {
        let run = |timer, handler| run(Load::new(server, Pentium::Ii), timer, handler, seed);
        let base = run(Timer::None, Handler::Null);
        let dispatch = run(hard, Handler::Null).loss(&base);
        let clocked = run(Timer::None, Handler::Send);
        let [by_interrupts, soft] = [hard, Timer::Soft].map(|timer| run(timer, Handler::Send).loss(&clocked));
        [dispatch, by_interrupts - dispatch - soft]
    });
    let displaced: Vec<f64> =
        parts.iter().zip(DISPLACED).map(|([_, displaced], paper)| displaced - paper).collect();
    let prices = "program.apache-hard, program.apache-soft, program.flash-hard, program.flash-soft";
    [
        calibrated(
            "program.timer-8253-ii",
            Paper,
            "8253 with a null handler, both servers (%): dispatch alone",
        )
        .within([DISPATCH - POINTS, DISPATCH + POINTS], &parts.map(|[dispatch, _]| dispatch)),
        calibrated(prices, Paper, "8253, less dispatch and soft timers, off the paper's 4 and 8 (points)")
            .within([-POINTS, POINTS], &displaced),
    ]
}

fn checks([apache, flash]: [&Clocked; 2]) -> Vec<Check> {
    let slower = |of: &Clocked| of.soft.interval / of.hard.interval;
    vec![
        predicted(Words, "Apache: interval by soft timers, of that by the 8253: slightly higher")
            .within([1.0, 1.3], &[slower(apache)]),
        predicted(Words, "Flash: interval by soft timers, of that by the 8253: lower")
            .within([0.5, 1.0], &[slower(flash)])
            .known_miss(TOO_LATE),
        predicted(Words, "8253: interval (µs): longer than programmed, as handlers are delayed")
            .within([20.1, 40.0], &[apache.hard.interval, flash.hard.interval])
            .known_miss(LOST),
    ]
}
