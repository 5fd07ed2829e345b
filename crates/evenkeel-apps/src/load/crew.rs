//! The threads of a run, and the thread that watches them.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use evenkeel::raw::time::{Clock, Instant};
use evenkeel::raw::wait::{EventFd, Halt};

use super::effort::Meter;
use super::glance::Glance;
use super::hosts::Hosts;
use super::news::News;
use super::report::{Effort, Measured};
use crate::host_setup::Limits;

/// The part of a run that one thread has, as the thread sees it that watches.
pub(super) trait Part: Send {
    /// Returns a snapshot of the part at `now`.
    fn glance(&self, now: Instant) -> Glance;

    /// Returns the results of the part so far. The part goes on.
    fn so_far(&self, now: Instant) -> Measured;
}

/// The index of the server's address that all threads of a run use.
#[derive(Debug, Clone, Default)]
pub(super) struct Chosen(Arc<OnceLock<usize>>);

impl Chosen {
    /// Returns the chosen address, which is this one if no thread has chosen before.
    pub(super) fn or_this(&self, address: usize) -> usize {
        *self.0.get_or_init(|| address)
    }
}

/// A part of a run, shared by the thread that has it and the thread that watches.
#[derive(Debug)]
pub(super) struct Seat<P> {
    part: Mutex<P>,
    meter: OnceLock<Meter>,
}

impl<P> Seat<P> {
    pub(super) const fn new(part: P) -> Self {
        Self { part: Mutex::new(part), meter: OnceLock::new() }
    }

    pub(super) fn part(&self) -> MutexGuard<'_, P> {
        self.part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Measures the effort of the calling thread, from the first call on.
    pub(super) fn measure_effort(&self, now: Instant) {
        self.meter.get_or_init(|| Meter::start(now));
    }

    fn effort(&self, now: Instant) -> Effort {
        self.meter.get().map_or_else(Effort::default, |meter| meter.effort(now))
    }
}

/// Runs parts on a thread each, and merges their results. Calls `watch` on the calling thread meanwhile, as
/// the limits say. `hosts` returns the reports of the hosts of the run.
///
/// # Errors
/// If the process may open no more descriptors, or the error of a thread.
pub(super) fn run<P: Part>(
    parts: Vec<P>,
    clock: &Clock,
    limits: Limits,
    generate: impl Fn(&Arc<Seat<P>>) -> io::Result<Measured> + Sync,
    hosts: impl Fn() -> Option<Hosts>,
    mut watch: impl FnMut(News<'_>),
) -> io::Result<(Measured, Effort)> {
    let seats: Vec<_> = parts.into_iter().map(|part| Arc::new(Seat::new(part))).collect();
    let (ended, working) = (EventFd::new()?, AtomicUsize::new(seats.len()));
    let mut halt = Halt::new()?;
    halt.watch(ended.fd());
    if let Some(reports) = limits.reports {
        halt.watch(reports.event().fd());
    }
    let mut next_watch = limits.every.map_or(Instant::NEVER, |every| clock.now() + every);
    let work = &|seat: &Arc<Seat<P>>| {
        let _leaving = Leaving { working: &working, ended: &ended };
        generate(seat).map(|measured| (measured, seat.effort(clock.now())))
    };
    thread::scope(|scope| {
        let workers: Vec<_> = seats.iter().map(|seat| scope.spawn(move || work(seat))).collect();
        while working.load(Ordering::Acquire) > 0 {
            halt.until(clock, next_watch)?;
            let now = clock.now();
            if let (true, Some(every)) = (now >= next_watch, limits.every) {
                glance(&seats, now).iter().for_each(|glance| watch(News::Glance(glance)));
                next_watch = now + every;
            }
            if limits.take_request().is_some() {
                let effort =
                    seats.iter().map(|seat| seat.effort(now)).fold(Effort::default(), Effort::or_more);
                let hosts = hosts();
                let so_far = merged(seats.iter().map(|seat| seat.part().so_far(now)));
                watch(News::Report { measured: &so_far, effort, hosts: hosts.as_ref() });
            }
        }
        let mut results = Vec::new();
        for worker in workers {
            results.push(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        let effort = results.iter().map(|(_, effort)| *effort).fold(Effort::default(), Effort::or_more);
        Ok((merged(results.into_iter().map(|(measured, _)| measured)), effort))
    })
}

/// Records that a thread ends, also if it panics.
struct Leaving<'a> {
    working: &'a AtomicUsize,
    ended: &'a EventFd,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if self.working.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.ended.notify();
        }
    }
}

fn glance<P: Part>(seats: &[Arc<Seat<P>>], now: Instant) -> Option<Glance> {
    let glances = seats.iter().map(|seat| seat.part().glance(now));
    glances.reduce(|mut all, one| {
        all.merge(&one);
        all
    })
}

fn merged(parts: impl Iterator<Item = Measured>) -> Measured {
    let all = parts.reduce(|mut all, one| {
        all.merge(one);
        all
    });
    all.unwrap_or_default()
}
