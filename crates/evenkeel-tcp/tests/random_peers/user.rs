//! Our user: the program that has the connection.

use evenkeel_tcp::Endpoint;
use evenkeel_tcp::connection::Unavailable;
use evenkeel_tcp::endpoint::Readiness;
use evenkeel_tcp::table::Id;
use evenkeel_tcp::time::{Duration, Instant};

use crate::choices::Choices;
use crate::invariants::Invariants;
use crate::plan::UserPlan;
use crate::wire::{byte, bytes};

#[derive(Debug)]
pub(crate) struct User {
    pub(crate) plan: UserPlan,
    pub(crate) id: Option<Id>,
    /// The user has closed or aborted before all was said.
    pub(crate) left: bool,
    pub(crate) failed: Option<Unavailable>,
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
            id: None,
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

    /// Nothing more is to be said or heard.
    pub(crate) const fn is_done(&self) -> bool {
        self.left || self.failed.is_some() || self.shut && self.eof
    }

    pub(crate) fn next(&self, now: Instant, written: u64) -> Instant {
        if self.id.is_none() {
            return Instant::NEVER;
        }
        let later = |at: Instant, wanted: bool| if wanted && at > now { at } else { Instant::NEVER };
        later(self.write_at, self.can_write && written < self.plan.total)
            .min(later(self.read_at, self.can_read && !self.eof))
            .min(self.plan.closes_at.unwrap_or(Instant::NEVER))
    }

    pub(crate) const fn notify(&mut self, readiness: Readiness) {
        self.can_write |= readiness.writable || readiness.over;
        self.can_read |= readiness.readable || readiness.over;
    }

    /// Makes the calls that are due.
    pub(crate) fn run(
        &mut self,
        endpoint: &mut Endpoint,
        state: &mut Invariants,
        choices: &mut Choices<'_>,
        now: Instant,
    ) -> Result<(), String> {
        let Some(id) = self.id else { return Ok(()) };
        if self.plan.closes_at.is_some_and(|at| at <= now) {
            (self.left, state.over) = (true, true);
            self.id = None;
            if self.plan.aborts {
                let _ = endpoint.abort(id);
            } else {
                endpoint.close(id, now);
            }
            return Ok(());
        }
        self.write(id, endpoint, state, choices, now);
        self.read(id, endpoint, state, choices, now)?;
        if self.is_done() {
            self.id = None;
            state.over |= self.failed.is_some();
            endpoint.close(id, now);
        }
        Ok(())
    }

    fn write(
        &mut self,
        id: Id,
        endpoint: &mut Endpoint,
        state: &mut Invariants,
        choices: &mut Choices<'_>,
        now: Instant,
    ) {
        while self.can_write && self.write_at <= now && state.written < self.plan.total {
            let len = choices.between(1, self.plan.write_chunk).min(self.plan.total - state.written);
            match endpoint.write(id, &bytes(true, state.written, len as usize)) {
                Ok(taken) => {
                    state.written += taken as u64;
                    self.write_at = pause(now, self.plan.write_pause, choices);
                }
                Err(Unavailable::WouldBlock) => self.can_write = false,
                Err(why) => return self.failed = Some(why),
            }
        }
        let may_close = !self.plan.closes_last || self.eof;
        if state.written == self.plan.total && may_close && !self.shut {
            (self.shut, state.fin) = (true, true);
            if endpoint.shutdown(id).is_err() {
                // The next call of `read` says why.
                (self.can_read, self.read_at) = (true, now);
            }
        }
    }

    fn read(
        &mut self,
        id: Id,
        endpoint: &mut Endpoint,
        state: &mut Invariants,
        choices: &mut Choices<'_>,
        now: Instant,
    ) -> Result<(), String> {
        let mut to = [0; 65_536];
        while self.can_read && self.read_at <= now && !self.eof {
            let len = choices.between(1, self.plan.read_chunk) as usize;
            match endpoint.read(id, &mut to[..len], now) {
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
                Err(Unavailable::WouldBlock) => self.can_read = false,
                Err(why) => {
                    self.failed = Some(why);
                    return Ok(());
                }
            }
        }
        if self.eof && self.plan.closes_last {
            self.write(id, endpoint, state, choices, now);
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
