//! Reading the figures of all running processes.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use evenkeel::metrics::{self, Published, Unreadable};

/// The most threads that wait for answers at a time.
const THREADS: usize = 16;

/// The figures of the running processes at one time.
#[derive(Debug, Default)]
pub struct Figures {
    /// The processes that answered, by number.
    pub processes: Vec<Published>,
    /// The processes that are there and could not be read, each with the reason.
    pub unreadable: Vec<(u32, Unreadable)>,
}

/// Reads the figures of the process `pid`, or of all of this user. Processes answer at the same time, so one
/// that does not answer delays the others by its own patience only.
#[must_use]
pub fn read(pid: Option<u32>) -> Figures {
    let pids = pid.map_or_else(metrics::running, |pid| vec![pid]);
    let answers = in_parallel(&pids, metrics::fetch);
    let mut figures = Figures::default();
    for (number, answer) in answers {
        match answer {
            Ok(published) => figures.processes.push(published),
            Err(error) if pid.is_none() && is_gone(&error) => {}
            Err(error) => figures.unreadable.push((number, error)),
        }
    }
    figures
}

/// Returns whether a process has ended, perhaps while it answered.
fn is_gone(error: &Unreadable) -> bool {
    match error {
        Unreadable::NoProcess | Unreadable::Stale => true,
        Unreadable::Malformed(error) => error.is_eof(),
        _ => false,
    }
}

/// Calls `ask` for each number, on a few threads. Returns the answers in the order of the numbers.
fn in_parallel<T: Send>(pids: &[u32], ask: impl Fn(u32) -> T + Sync) -> Vec<(u32, T)> {
    let (next, answers) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(&pid) = pids.get(next.fetch_add(1, Ordering::Relaxed)) {
            let answer = ask(pid);
            answers.lock().unwrap_or_else(PoisonError::into_inner).push((pid, answer));
        }
    };
    thread::scope(|scope| {
        for _ in 1..pids.len().min(THREADS) {
            // If there are no more threads, fewer of them do the work.
            let _ = thread::Builder::new().name("figures".to_owned()).spawn_scoped(scope, work);
        }
        work();
    });
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_by_key(|(pid, _)| *pid);
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_is_asked_once_and_answers_are_in_order() {
        for count in [0, 1, 5, 100] {
            let pids: Vec<u32> = (0..count).collect();
            let asked = AtomicUsize::new(0);
            let answers = in_parallel(&pids, |pid| {
                asked.fetch_add(1, Ordering::Relaxed);
                2 * pid
            });
            assert_eq!(answers, pids.iter().map(|pid| (*pid, 2 * pid)).collect::<Vec<_>>());
            assert_eq!(asked.into_inner(), pids.len());
        }
    }
}
