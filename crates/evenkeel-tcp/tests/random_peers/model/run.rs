//! A run of one connection from beginning to end.

use std::fmt::{self, Write as _};

use evenkeel_tcp::connection::Info;
use evenkeel_tcp::time::Instant;
use evenkeel_tcp::{Ecn, State};

use super::choices::Choices;
use super::invariants::Invariants;
use super::network::{Item, Network};
use super::ours::{Notice, OUR_PORT, Ours, PEER, PEER_PORT, US};
use super::peer::Peer;
use super::plan::{BEGIN, Plan, Role};
use super::user::User;
use super::wire::{SYN, Seg, bytes};

/// The most segments at one instant; more are a loop.
const AT_ONCE_MAX: u32 = 5_000;
/// The most steps of a connection.
const STEPS_MAX: u64 = 400_000;

/// The outcome of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outcome {
    pub(crate) segments: u64,
    pub(crate) completed: bool,
    pub(crate) reset: bool,
    pub(crate) fast_open: bool,
    pub(crate) accepted: bool,
    pub(crate) bytes: u64,
}

/// The sums of the outcomes of many runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Summary {
    pub(crate) runs: u64,
    pub(crate) completed: u64,
    pub(crate) reset: u64,
    pub(crate) fast_open: u64,
    accepted: u64,
    segments: u64,
    bytes: u64,
}

impl Summary {
    pub(crate) fn of(runs: &[Outcome]) -> Self {
        let sum = |of: fn(&Outcome) -> u64| runs.iter().map(of).sum();
        Self {
            runs: runs.len() as u64,
            completed: sum(|run| run.completed.into()),
            reset: sum(|run| run.reset.into()),
            fast_open: sum(|run| run.fast_open.into()),
            accepted: sum(|run| run.accepted.into()),
            segments: sum(|run| run.segments),
            bytes: sum(|run| run.bytes),
        }
    }

    /// Asserts that most connections are completed, and that each kind occurs.
    pub(crate) fn assert_varied(&self) {
        assert!(self.completed > self.runs / 10 * 8, "too few are completed");
        assert!(self.fast_open > self.runs / 50, "too few open with data");
        assert!(self.reset > self.runs / 50, "too few are reset");
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, completed, reset, fast_open, accepted, segments, bytes } = self;
        write!(f, "{runs} connections: {completed} completed, {reset} reset, {fast_open} with Fast Open, ")?;
        write!(f, "{accepted} accepted; {segments} segments of ours, {bytes} bytes")
    }
}

/// A run in progress.
pub(crate) struct Run<'a, O> {
    now: Instant,
    ours: O,
    network: Network,
    peer: Peer,
    user: User,
    state: Invariants,
    choices: Choices<'a>,
    plan: Plan,
    outcome: Outcome,
    /// Whether the connection was ever synchronized.
    synchronized: bool,
    /// The trace for people, segment by segment.
    trace: Option<String>,
}

impl<'a, O: Ours> Run<'a, O> {
    /// Prepares a run of our side, which `ours` creates from the plan.
    pub(crate) fn new(mut choices: Choices<'a>, traced: bool, ours: impl FnOnce(&mut Plan) -> O) -> Self {
        let mut plan = Plan::new(&mut choices);
        let mut ours = ours(&mut plan);
        if matches!(plan.role, Role::Listener | Role::Cookies)
            && let Some(cookie) = ours.listen(&plan, BEGIN)
        {
            plan.peer.cookie = Some(cookie);
        }
        let cookies = plan.role == Role::Cookies || plan.fast_open;
        let odd = plan.peer.oddities.is_some();
        let buffer = plan.endpoint.connection.receive_buffer_initial as u32;
        let mut state = Invariants::new(plan.times, cookies, odd, buffer);
        state.sends_between = O::SENDS_BETWEEN;
        Self {
            now: BEGIN,
            ours,
            network: Network::new(plan.ways),
            peer: Peer::new(plan.peer.clone(), BEGIN),
            user: User::new(plan.user.clone()),
            state,
            choices,
            plan,
            outcome: Outcome::default(),
            synchronized: false,
            trace: traced.then(String::new),
        }
    }

    /// Runs the connection. Returns a summary, or the invariant that does not hold.
    pub(crate) fn run(mut self) -> Result<Outcome, String> {
        let result = self.connect().and_then(|()| self.steps());
        match (result, self.trace) {
            (Ok(()), None) => Ok(self.outcome),
            (Ok(()), Some(trace)) => {
                println!("{:#?}\n{trace}{:?}", self.plan, self.outcome);
                Ok(self.outcome)
            }
            (Err(why), trace) => {
                if let Some(trace) = trace {
                    println!("{:#?}\n{trace}", self.plan);
                }
                Err(format!("{why}; {}", self.plan.in_brief()))
            }
        }
    }

    fn connect(&mut self) -> Result<(), String> {
        if !matches!(self.plan.role, Role::Client | Role::Simultaneous) {
            return Ok(());
        }
        let early = self.plan.user.total.min(700) as usize;
        let data = self.plan.fast_open.then(|| bytes(true, 0, early));
        self.state.written = self.ours.connect(&self.plan, data.as_deref(), self.now)? as u64;
        self.state.opened = Some(self.now);
        self.user.open = true;
        Ok(())
    }

    fn steps(&mut self) -> Result<(), String> {
        let complete_by = self.plan.calm_at + self.plan.rest;
        for _ in 0..STEPS_MAX {
            self.settle()?;
            let deadline = self.ours.deadline();
            if deadline <= self.now {
                return Err(format!("at {:?} a deadline has passed and stays", self.now));
            }
            let mut next = self.network.next().min(self.peer.next()).min(deadline);
            next = next.min(self.user.next(self.now, self.state.written));
            if !self.network.calm {
                next = next.min(self.plan.calm_at);
            }
            if let Some((at, ..)) = self.plan.mtu {
                next = next.min(at);
            }
            let info = self.info().filter(|info| info.state != State::Closed);
            // A listener's connection may end before it is accepted.
            let had = self.state.opened.is_some() || self.synchronized;
            self.state.over |= info.is_none() && had;
            self.state.check(info.as_ref(), self.now, next)?;
            if next == Instant::NEVER {
                if !self.user.open || !self.peer.dead {
                    return self.end();
                }
                // The peer has gone, and we learn of that only by sending.
                (self.user.left, self.state.over) = (true, true);
                self.user.open = false;
                self.ours.close(self.now);
                continue;
            }
            self.now = self.now.max(next);
            if self.now > complete_by && !self.is_complete() {
                return Err(format!("not complete {:?} after the network is calm", self.plan.rest));
            }
            self.happen()?;
        }
        Err("it goes on for ever".to_owned())
    }

    fn info(&self) -> Option<Info> {
        self.ours.info()
    }

    fn happen(&mut self) -> Result<(), String> {
        let now = self.now;
        // Due segments leave before those that arrive at the same instant are processed.
        self.ours.advance(now);
        self.settle()?;
        if !self.network.calm && self.plan.calm_at <= now {
            self.network.calm = true;
            self.peer.be_calm(now, &mut self.choices);
        }
        if let Some((_, mtu, reports)) = self.plan.mtu.take_if(|(at, ..)| *at <= now) {
            (self.network.mtu, self.network.reports) = (mtu, reports);
        }
        while let Some(item) = self.network.poll(now) {
            match item {
                Item::ToUs(seg, ecn) => self.arrives(&seg, ecn),
                Item::ToPeer(seg, ecn) => self.peer.on_segment(&seg, ecn, now, &mut self.choices),
                Item::TooBig(seq, mss) => self.ours.too_big(seq, mss, now),
            }
        }
        self.ours.advance(now);
        self.peer.on_time(now, &mut self.choices);
        Ok(())
    }

    fn arrives(&mut self, seg: &Seg, ecn: Ecn) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            let _ = writeln!(trace, "{now:?} < {}", line(seg));
        }
        self.state.arrives(seg, &self.peer, now);
        let bytes = seg.emit((PEER, PEER_PORT), (US, OUR_PORT));
        self.ours.input(&bytes, ecn, now);
        let info = self.info();
        if info.is_some_and(|info| info.state.is_synchronized()) {
            self.synchronized = true;
            self.state.arrived(seg, now);
        }
    }

    /// Processes everything that can happen now.
    fn settle(&mut self) -> Result<(), String> {
        let mut buffer = [0; 10_000];
        for _ in 0..AT_ONCE_MAX {
            let mut quiet = true;
            while let Some(notice) = self.ours.notice(self.now) {
                quiet = false;
                self.on_notice(notice);
            }
            self.user.run(&mut self.ours, &mut self.state, &mut self.choices, self.now)?;
            for seg in self.peer.poll() {
                self.network.send_to_us(seg, self.now, &mut self.choices);
            }
            if let Some((len, ecn)) = self.ours.transmit(&mut buffer, self.now) {
                self.leaves(&buffer[..len], ecn)?;
                quiet = false;
            }
            if quiet {
                return Ok(());
            }
        }
        Err(format!("at {:?} segments leave without end", self.now))
    }

    fn on_notice(&mut self, notice: Notice) {
        match notice {
            Notice::Accepted => {
                (self.outcome.accepted, self.user.open) = (true, true);
                self.state.opened = Some(self.now);
            }
            Notice::Ready { readable, writable } => self.user.notify(readable, writable),
        }
    }

    fn leaves(&mut self, bytes: &[u8], ecn: Ecn) -> Result<(), String> {
        let seg = Seg::parse(bytes, US, PEER).ok_or("a malformed segment leaves")?;
        self.outcome.segments += 1;
        if let Some(trace) = &mut self.trace {
            let figures = self.ours.info().map_or_else(String::new, |info| {
                let now = info.recovery;
                format!("srtt {:?} rto {:?} cwnd {} in flight {}", now.srtt, now.rto, now.cwnd, now.in_flight)
            });
            let _ = writeln!(trace, "{:?} > {} {figures}", self.now, line(&seg));
        }
        self.outcome.fast_open |= seg.has(SYN) && !seg.payload.is_empty();
        self.state.sent(&seg, &self.peer, self.now)?;
        self.network.send_to_peer(seg, ecn, bytes.len() + 20, self.now, &mut self.choices);
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.user.is_done() || self.peer.was_reset && self.peer.dead
    }

    /// Checks the state at the end.
    fn end(&mut self) -> Result<(), String> {
        let Self { user, peer, state, plan, .. } = self;
        let ours = user.left || plan.peer.resets_at.is_some() || peer.has_provoked;
        if let Some(why) = &user.failed
            && !peer.was_reset
        {
            return Err(format!("the connection failed: {why}"));
        }
        if peer.was_reset && !ours {
            return Err("the connection was reset".to_owned());
        }
        if !user.left && !peer.was_reset {
            let all = 1 + user.plan.total + 1;
            let came = u64::from(peer.rcv_nxt.wrapping_sub(peer.irs.unwrap_or_default()));
            if came != all || !peer.is_done() {
                return Err(format!("nothing happens any more; {came} of {all} numbers came to the peer"));
            }
            if !user.eof || state.read != plan.peer.total {
                return Err(format!("nothing happens any more; {} of {} read", state.read, plan.peer.total));
            }
            self.outcome.completed = true;
            self.outcome.bytes = user.plan.total + plan.peer.total;
        }
        self.outcome.reset = peer.was_reset;
        self.ours.left(self.now).map_or(Ok(()), Err)
    }
}

fn line(seg: &Seg) -> String {
    let names = ['F', 'S', 'R', 'P', '.', 'U', 'E', 'W'];
    let flags: String = (0..8).filter(|bit| seg.flags >> bit & 1 == 1).map(|bit| names[bit]).collect();
    let Seg { seq, ack, window, payload, clock, sack, mss, scale, .. } = seg;
    let len = payload.len();
    format!("{flags} {seq}+{len} ack {ack} win {window} ts {clock:?} sack {sack:?} mss {mss:?} {scale:?}")
}
