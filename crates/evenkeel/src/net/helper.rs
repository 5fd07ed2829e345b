//! The helper: a thread that does what a host must while no thread is in a call.
//!
//! It runs the daemons of the host, such as the one that answers ARP. It processes segments for which no call
//! comes, because their thread computes. It drives while nobody else does. And it brings connections to their
//! end after the last handle of the host is gone. While another thread drives and every call comes, it
//! sleeps.

use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use evenkeel_core::host::Uncalled;
use evenkeel_core::process::ProcessId;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_link::Nap;

use super::roles::{Helper, Roles};
use super::shared::{Held, Shared};
use crate::ended::Next;

/// The time for which segments wait for a call before the helper processes them, and for which the role of
/// the driver is vacant before the helper drives. Either may take up to twice as long.
const PERIOD: Duration = Duration::from_millis(1);

/// The number of periods without any change after which the helper sleeps. A driver that leaves its role then
/// has to wake it.
const QUIET_PERIODS: u32 = 4;

/// The time for which a task that drives is left alone before the helper looks whether its runtime still
/// runs.
const TASK_PERIOD: Duration = Duration::from_millis(750);

/// The longest time for which connections go on after the last handle is gone. Their peers have not
/// acknowledged everything, or not closed.
const LINGER: Duration = Duration::from_secs(60);

/// Starts the helper of a host. It has the priority and the scheduling class of the calling thread.
pub(super) fn start(shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    thread::Builder::new().name("evenkeel".to_owned()).spawn(move || Watch::new(&shared).run())
}

/// The host as the helper has last seen it.
struct Watch<'a> {
    shared: &'a Shared,
    nap: Nap,
    /// The time of the last look, and the number of times that the role of the driver had been taken.
    looked: Instant,
    taken: u64,
    /// The segments that waited for a call at the last look, by process.
    uncalled: Vec<(ProcessId, Uncalled)>,
    quiet_periods: u32,
    /// The time at which the helper leaves connections that have not ended; never while the host has a
    /// handle.
    give_up: Instant,
}

impl<'a> Watch<'a> {
    fn new(shared: &'a Shared) -> Self {
        let nap = Nap::with(shared.kick.fd());
        let (looked, uncalled) = (shared.now(), Vec::new());
        Self { shared, nap, looked, taken: 0, uncalled, quiet_periods: 0, give_up: Instant::NEVER }
    }

    fn run(mut self) {
        let mut held = self.shared.lock();
        loop {
            if self.shared.closing.load(Ordering::Acquire) {
                let now = self.shared.now();
                self.give_up = self.give_up.min(now + LINGER);
                if !held.has_open_connections() || now >= self.give_up || held.has_no_device() {
                    break;
                }
                held.roles.helper_replaces_task();
                held.roles.helper_takes();
            }
            held.roles.helper = Helper::Watches;
            let turn = self.take_turn(held);
            // The kernel is out of memory: wait for better times.
            held = turn.unwrap_or_else(|_| self.sleep(self.shared.lock(), Some(PERIOD)));
        }
        held.roles.helper_leaves();
    }

    fn take_turn(&mut self, mut held: Held<'a>) -> io::Result<Held<'a>> {
        let is_due = mem::take(&mut held.is_helper_due);
        if held.roles.helper_drives() {
            return self.drive(held);
        }
        if is_due && held.host().has_runnable() {
            held.take_turn_aside();
            held.is_helper_due = held.host().has_runnable();
            return Ok(self.shared.relock(held));
        }
        let now = self.shared.now();
        if now < self.looked + PERIOD {
            let rest = (self.looked + PERIOD).since(now);
            return Ok(self.sleep(held, Some(rest)));
        }
        self.looked = now;
        let taken = mem::replace(&mut self.taken, held.roles.times_taken());
        let is_unchanged = taken == self.taken;
        held = self.stand_in(held);
        held.driver.wake_sleeper_before(now + 2 * PERIOD);
        if held.roles.is_vacant() && is_unchanged {
            let succession = held.roles.fill_vacancy();
            held.settle(succession);
            return Ok(self.shared.relock(held));
        }
        let is_quiet = is_unchanged && self.uncalled.is_empty();
        self.quiet_periods = if is_quiet { self.quiet_periods + 1 } else { 0 };
        if held.roles.task_drives() && self.quiet_periods >= QUIET_PERIODS {
            return self.look_after_task(held);
        }
        let is_asleep = self.quiet_periods >= QUIET_PERIODS && !held.roles.is_vacant();
        if is_asleep {
            held.driver.wake_early_sleeper();
        }
        Ok(self.sleep(held, if is_asleep { None } else { Some(PERIOD) }))
    }

    /// Sleeps for as long as a task is left alone. Takes its role if there is work that it has left alone.
    fn look_after_task(&mut self, mut held: Held<'a>) -> io::Result<Held<'a>> {
        held.roles.helper = Helper::Sleeps;
        held.driver.wake_early_sleeper();
        let turns = held.task_turns;
        held = self.sleep(held, Some(TASK_PERIOD));
        if held.roles.task_drives() && held.task_turns == turns && held.driver.look_beside()? {
            held.is_napping = false;
            held.roles.helper_replaces_task();
        }
        Ok(held)
    }

    /// Sleeps until it is called, for at most this long.
    fn sleep(&self, mut held: Held<'a>, timeout: Option<Duration>) -> Held<'a> {
        if timeout.is_none() {
            held.roles.helper = Helper::Sleeps;
        }
        self.shared.helper.prepare_to_sleep();
        drop(held);
        self.shared.helper.sleep(timeout);
        self.shared.lock()
    }

    /// Runs one turn of the host, and then sleeps on its devices if nothing is to be done.
    fn drive(&mut self, mut held: Held<'a>) -> io::Result<Held<'a>> {
        let next = held.take_turn_of_all()?;
        held = self.stand_in_if_due(held);
        if !held.roles.helper_drives() {
            // A thread has taken the role while segments were processed.
            return Ok(held);
        }
        let until = if self.uncalled.is_empty() { self.give_up } else { self.looked + PERIOD };
        // The turn may have ended the last connection of a host without handles.
        let is_over = self.give_up != Instant::NEVER && !held.has_open_connections();
        if next == Next::Again || is_over || held.has_no_device() {
            return Ok(self.shared.relock(held));
        }
        let held = self.shared.nap(held, &mut self.nap, until, Roles::helper_drives)?;
        let _ = self.shared.kick.take();
        Ok(held)
    }

    fn stand_in_if_due(&mut self, mut held: Held<'a>) -> Held<'a> {
        let now = self.shared.now();
        if now >= self.looked + PERIOD {
            self.looked = now;
            return self.stand_in(held);
        }
        if self.uncalled.is_empty() {
            self.uncalled = uncalled(&mut held);
        }
        held
    }

    /// Processes the segments that have waited for a call since the last look.
    fn stand_in(&mut self, mut held: Held<'a>) -> Held<'a> {
        for (process, waited) in mem::take(&mut self.uncalled) {
            while held.host().uncalled(process) == Some(waited) {
                held.driver.stand_in(process);
                held = self.shared.relock(held);
            }
        }
        self.uncalled = uncalled(&mut held);
        held
    }
}

/// Returns what waits for a call.
fn uncalled(held: &mut Held<'_>) -> Vec<(ProcessId, Uncalled)> {
    let callers = held.callers.clone();
    callers.into_iter().filter_map(|process| Some((process, held.host().uncalled(process)?))).collect()
}
