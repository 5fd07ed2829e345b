//! The processes that are watched: those of the command line, or all that serve their figures to this user.

use std::sync::mpsc::Sender;

use evenkeel::metrics::{self, Unreadable};
use evenkeel::raw::time::{Duration, Instant};
use evenkeel_apps::quantity::exact_time;

use super::model::Model;
use super::sources::{self, Message};
use crate::failure::Failure;

/// The processes that are watched, and how often.
#[derive(Debug)]
pub(super) struct Watched {
    /// The numbers of processes; all that are running if there is none.
    pub(super) pids: Vec<u32>,
    pub(super) interval: Duration,
}

impl Watched {
    /// Refuses a process of the command line that is not among those `there`.
    pub(super) fn check(&self, there: &[u32]) -> Result<(), Failure> {
        match self.pids.iter().find(|pid| !there.contains(pid)) {
            Some(missing) => Err(Failure::machine(format!("process {missing}"), Unreadable::NoProcess)),
            None => Ok(()),
        }
    }

    /// Refuses a model without a process.
    pub(super) fn check_any(&self, model: &Model) -> Result<(), Failure> {
        let there: Vec<u32> = model.processes.keys().copied().collect();
        self.check(&there)?;
        let none = || Failure::Machine("no running process serves its figures to this user".to_owned());
        if there.is_empty() { Err(none()) } else { Ok(()) }
    }

    /// Asks each process whose answer is due, on threads that do not hold up the caller.
    pub(super) fn ask(&self, model: &mut Model, now: Instant, to: &Sender<Message>) {
        let running = metrics::running();
        let is_wanted = |pid: &u32| self.pids.is_empty() || self.pids.contains(pid);
        let pids: Vec<u32> = running.into_iter().filter(is_wanted).collect();
        model.follow(&pids);
        for pid in model.ask(now, self.interval / 2) {
            sources::ask(pid, to);
        }
    }

    /// Returns a line about what is watched.
    pub(super) fn title(&self, model: &Model) -> String {
        let processes = model.processes.len();
        let hosts: usize = model.processes.values().map(|process| process.hosts.len()).sum();
        let plural = |count: usize| if count == 1 { "" } else { "es" };
        let hosts_plural = if hosts == 1 { "" } else { "s" };
        let (every, es) = (exact_time(self.interval), plural(processes));
        format!(" evenkeel top   {processes} process{es}, {hosts} host{hosts_plural}   every {every}")
    }
}
