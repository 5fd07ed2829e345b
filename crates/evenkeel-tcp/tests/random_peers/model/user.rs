//! Our user: the program with the connection.

use evenkeel_tcp::time::{Duration, Instant};

use super::choices::Choices;
use super::invariants::Invariants;
use super::ours::{Ours, Refusal};
use super::plan::UserPlan;
use super::wire::{byte, bytes};

#[derive(Debug)]
pub(crate) struct User {
    pub(crate) plan: UserPlan,
    /// Whether it has a connection.
    pub(crate) open: bool,
    /// Whether the user has closed or aborted before all data was sent.
    pub(crate) left: bool,
    pub(crate) failed: Option<String>,
    pub(crate) eof: bool,
    shut: bool,
    can_write: bool,
    can_read: bool,
    write_at: Instant,
    read_at: Instant,
}

impl User {
    pub(crate) const fn new(plan: UserPlan) -> Self {
        Self {
            plan,
            open: false,
            left: false,
            failed: None,
            eof: false,
            shut: false,
            can_write: true,
            can_read: true,
            write_at: Instant::ZERO,
            read_at: Instant::ZERO,
        }
    }

    /// Returns whether nothing more is to be sent or received.
    pub(crate) const fn is_done(&self) -> bool {
        self.left || self.failed.is_some() || self.shut && self.eof
    }

    pub(crate) fn next(&self, now: Instant, written: u64) -> Instant {
        if !self.open {
            return Instant::NEVER;
        }
        let later = |at: Instant, wanted: bool| if wanted && at > now { at } else { Instant::NEVER };
        later(self.write_at, self.can_write && written < self.plan.total)
            .min(later(self.read_at, self.can_read && !self.eof))
            .min(self.plan.closes_at.unwrap_or(Instant::NEVER))
    }

    pub(crate) const fn notify(&mut self, readable: bool, writable: bool) {
        self.can_read |= readable;
        self.can_write |= writable;
    }

    /// Makes the calls that are due.
    pub(crate) fn run(
        &mut self,
        ours: &mut impl Ours,
        state: &mut Invariants,
        choices: &mut Choices<'_>,
        now: Instant,
    ) -> Result<(), String> {
        if !self.open {
            return Ok(());
        }
        if self.plan.closes_at.is_some_and(|at| at <= now) {
            (self.left, state.over) = (true, true);
            self.open = false;
            if self.plan.aborts {
                ours.abort(now);
            } else {
                ours.close(now);
            }
            return Ok(());
        }
        self.write(ours, state, choices, now);
        self.read(ours, state, choices, now)?;
        if self.is_done() {
            self.open = false;
            state.over |= self.failed.is_some();
            ours.close(now);
        }
        Ok(())
    }

    fn write(
        &mut self,
        ours: &mut impl Ours,
        state: &mut Invariants,
        choices: &mut Choices<'_>,
        now: Instant,
    ) {
        while self.can_write && self.write_at <= now && state.written < self.plan.total {
            let len = choices.between(1, self.plan.write_chunk).min(self.plan.total - state.written);
            match ours.write(&bytes(true, state.written, len as usize), now) {
                Ok(taken) => {
                    state.written += taken as u64;
                    self.write_at = pause(now, self.plan.write_pause, choices);
                }
                Err(Refusal::WouldBlock) => self.can_write = false,
                Err(Refusal::Failed(why)) => return self.failed = Some(why),
            }
        }
        let may_close = !self.plan.closes_last || self.eof;
        if state.written == self.plan.total && may_close && !self.shut {
            (self.shut, state.fin) = (true, true);
            if !ours.shutdown(now) {
                // The next call of `read` returns the reason.
                (self.can_read, self.read_at) = (true, now);
            }
        }
    }

    fn read(
        &mut self,
        ours: &mut impl Ours,
        state: &mut Invariants,
        choices: &mut Choices<'_>,
        now: Instant,
    ) -> Result<(), String> {
        let mut to = [0; 65_536];
        while self.can_read && self.read_at <= now && !self.eof {
            let len = choices.between(1, self.plan.read_chunk) as usize;
            match ours.read(&mut to[..len], now) {
                Ok(0) => self.eof = true,
                Ok(len) => {
                    for (at, came) in (state.read..).zip(&to[..len]) {
                        if *came != byte(false, at) {
                            return Err(format!("byte {at} is read, and is wrong"));
                        }
                    }
                    state.read += len as u64;
                    self.read_at = pause(now, self.plan.read_pause, choices);
                }
                Err(Refusal::WouldBlock) => self.can_read = false,
                Err(Refusal::Failed(why)) => {
                    self.failed = Some(why);
                    return Ok(());
                }
            }
        }
        if self.eof && self.plan.closes_last {
            self.write(ours, state, choices, now);
        }
        Ok(())
    }
}

fn pause(now: Instant, most: Duration, choices: &mut Choices<'_>) -> Instant {
    if most.is_zero() {
        return now;
    }
    now + Duration::from_micros(choices.below(most.as_micros() as u64 + 1))
}
