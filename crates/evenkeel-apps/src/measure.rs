//! What measurements in real time have in common: a core of one's own, how it was spent, and what to do when the machine disturbed it.

use std::io;
use std::process::{Command, Stdio};

use evenkeel::Engine;
use evenkeel::link;
use evenkeel_core::cable::End;
use evenkeel_core::frame::Pool;
use evenkeel_core::host::{Level, System};
use evenkeel_core::interface::Interface as _;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::time::{Duration, Instant};

use crate::demo::results::CpuShares;

/// A measurement in which the host had its core for less than this share of the time is repeated.
pub const UNDISTURBED: f64 = 0.97;
const TRIES: usize = 4;

/// Measures until a measurement was undisturbed, and gives that or the least disturbed of some tries. All measurements of a run share
/// `repeats`, so that it ends in good time on a machine that is never quiet.
///
/// # Errors
/// Those of `measure`.
pub fn undisturbed<T>(
    repeats: &mut usize,
    core_share: impl Fn(&T) -> f64,
    mut measure: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let mut best = measure()?;
    for _ in 1..TRIES {
        if core_share(&best) >= UNDISTURBED || *repeats == 0 {
            break;
        }
        *repeats -= 1;
        let again = measure()?;
        if core_share(&again) > core_share(&best) {
            best = again;
        }
    }
    Ok(best)
}

/// Gives the calling thread a core of its own, as far as the machine lets it. On a machine with one core all threads share it; the
/// figures then say little, but they are still true.
pub fn settle_on(cpu: Option<&usize>) {
    let _ = cpu.map(|&cpu| link::pin_to_cpu(cpu));
    link::prefer_this_thread();
}

/// Computes whenever it may.
#[derive(Debug, Clone, Copy, Default)]
pub struct Neighbour;

/// What the compute-bound neighbour does between two points where it can be preempted.
const NEIGHBOUR_STEP: Duration = Duration::from_micros(2);

impl Program for Neighbour {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        system.compute(NEIGHBOUR_STEP);
        Step::Again
    }
}

/// How a host's core has been spent so far. To be taken on the host's own thread.
#[derive(Debug, Clone, Copy)]
pub struct CoreTime {
    /// When this was taken.
    pub at: Instant,
    ran: Duration,
    halted: Duration,
    levels: [Duration; Level::ALL.len()],
}

impl CoreTime {
    /// As it stands now.
    #[must_use]
    pub fn of(engine: &Engine) -> Self {
        Self {
            at: engine.clock().now(),
            ran: link::thread_cpu_time(),
            halted: engine.halted(),
            levels: Level::ALL.map(|level| engine.host().cpu(level)),
        }
    }

    /// The shares of the levels since `earlier`.
    #[must_use]
    pub fn shares_since(&self, earlier: &Self) -> CpuShares {
        let level = |level: Level| {
            self.share_of(earlier, self.levels[level as usize], earlier.levels[level as usize])
        };
        CpuShares {
            interrupt: level(Level::Interrupt),
            soft_interrupt: level(Level::SoftInterrupt),
            polling_thread: level(Level::PollingThread),
            process: level(Level::Process),
            idle: level(Level::Idle) + self.share_of(earlier, self.halted, earlier.halted),
        }
    }

    /// The share of the time since `earlier` in which the thread really had its core, or had no use for it.
    #[must_use]
    pub fn core_share_since(&self, earlier: &Self) -> f64 {
        self.share_of(earlier, self.ran + self.halted, earlier.ran + earlier.halted).min(1.0)
    }

    /// What share of the time between `earlier` and this a counter of CPU time has grown by.
    #[must_use]
    pub fn share_of(&self, earlier: &Self, used: Duration, used_earlier: Duration) -> f64 {
        let elapsed = self.at.since(earlier.at);
        if elapsed == Duration::ZERO {
            return 0.0;
        }
        used.saturating_sub(used_earlier).as_secs_f64() / elapsed.as_secs_f64()
    }
}

/// The rate of `count` in `elapsed`; none in no time, as when the machine was away for all of a short window.
#[expect(clippy::cast_precision_loss, reason = "rates for reports")]
#[must_use]
pub fn per_second(count: u64, elapsed: Duration) -> f64 {
    if elapsed == Duration::ZERO { 0.0 } else { count as f64 / elapsed.as_secs_f64() }
}

/// Takes and forgets what has arrived at an end of a cable; says how many frames.
pub fn drain(end: &mut End, pool: &mut Pool) -> u64 {
    let mut frames = 0;
    while let Some(frame) = end.queue(0).take(pool) {
        pool.recycle(frame);
        frames += 1;
    }
    frames
}

/// Runs a command that sets something up; says what it said if it fails.
///
/// # Errors
/// The command and its standard error, in one line.
pub fn execute(command: &[&str]) -> Result<(), String> {
    let [program, arguments @ ..] = command else { return Ok(()) };
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("cannot run `{program}`: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`{}` failed: {}", command.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best_of(shares: &[f64], repeats: &mut usize) -> f64 {
        let mut shares = shares.iter().copied();
        undisturbed(repeats, |&share| share, || shares.next().ok_or(io::ErrorKind::Other.into())).unwrap()
    }

    #[test]
    fn a_disturbed_measurement_is_repeated_and_the_least_disturbed_one_counts() {
        let mut repeats = 10;
        assert_eq!(best_of(&[0.98], &mut repeats), 0.98);
        assert_eq!(repeats, 10);
        assert_eq!(best_of(&[0.5, 0.99], &mut repeats), 0.99);
        assert_eq!(repeats, 9);
        assert_eq!(best_of(&[0.5, 0.7, 0.6, 0.4], &mut repeats), 0.7);
        assert_eq!(repeats, 6);
    }

    #[test]
    fn a_window_that_was_missed_has_a_rate_of_none() {
        assert_eq!(per_second(5, Duration::ZERO), 0.0);
        assert_eq!(per_second(5, Duration::from_millis(500)), 10.0);
    }

    #[test]
    fn repeats_are_not_without_end() {
        let mut repeats = 1;
        assert_eq!(best_of(&[0.5, 0.4], &mut repeats), 0.5);
        assert_eq!(repeats, 0);
    }

    #[test]
    fn a_command_that_fails_is_told_with_its_words() {
        let said = execute(&["sh", "-c", "echo alas >&2; exit 3"]).unwrap_err();
        assert!(said.ends_with("failed: alas"), "{said}");
        assert!(execute(&["no-such-program-at-all"]).unwrap_err().contains("cannot run"));
        assert_eq!(execute(&["true"]), Ok(()));
    }
}
