//! Everything on a host that waits for a time: one set of timers, and who wants each.

use evenkeel_timers::{Timer, Timers};

use crate::id::ProcessId;
use crate::time::Instant;

macro_rules! deadlines {
    ($($variant:ident => $name:literal, $meaning:literal;)*) => {
        /// Who is to be woken when a certain time has come, and what for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Deadline {
            $(#[doc = $meaning] $variant,)*
            /// A process sleeps no longer than until then.
            Process(ProcessId),
        }

        /// The same without processes, of which there may be any number.
        #[derive(Clone, Copy)]
        enum Part { $($variant,)* }

        impl Deadline {
            /// All that there is one of on a host.
            const PARTS: &'static [Self] = &[$(Self::$variant),*];

            /// The name used in reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* Self::Process(_) => "process" }
            }

            const fn part(self) -> Option<Part> {
                match self { $(Self::$variant => Some(Part::$variant),)* Self::Process(_) => None }
            }
        }
    };
}

deadlines! {
    ClockedInterrupts => "clocked-interrupts", "the tick at which interfaces may interrupt";
    TransmitRetry => "transmit-retry", "an interface that could not send is tried again";
    Neighbors => "neighbors", "a neighbour is asked again, or given up";
    Reassembly => "reassembly", "the fragments of a packet have waited long enough for the others";
    Groups => "groups", "membership of a multicast group is reported";
    Claims => "claims", "an address of ours is announced or defended";
    Feedback => "feedback", "a full queue has held input back long enough";
    Limit => "limit", "a limit of the share of the core that goes to input begins a new period";
    Tcp => "tcp", "the earliest of the retransmissions, delayed acknowledgments and the like";
    Fragments => "fragments", "fragments whose first one is missing are looked at though the core is busy";
    Decay => "decay", "the scheduler lets recent use of the core count for less";
}

/// All deadlines of a host.
///
/// Of its parts there are few, and some say anew at the end of every unit when they have something to do:
/// they are a list with its earliest at hand. Of sleeping processes there may be any number: they are timers
/// in a wheel.
#[derive(Debug)]
pub(crate) struct Deadlines {
    parts: [Instant; Deadline::PARTS.len()],
    /// The earliest of `parts`.
    next_part: Instant,
    timers: Timers<ProcessId>,
    /// By the process's number; of those that have ever slept until a certain time.
    processes: Vec<Option<Timer>>,
}

impl Deadlines {
    pub(crate) fn new() -> Self {
        let parts = [Instant::NEVER; Deadline::PARTS.len()];
        Self { parts, next_part: Instant::NEVER, timers: Timers::new(), processes: Vec::new() }
    }

    /// `who` is to be woken at `deadline`, and not at an earlier one: never, if it is [`Instant::NEVER`].
    #[inline]
    pub(crate) fn set(&mut self, who: Deadline, deadline: Instant) {
        match (who, who.part()) {
            (Deadline::Process(process), _) => self.set_process(process, deadline),
            (_, Some(part)) => {
                let before = core::mem::replace(&mut self.parts[part as usize], deadline);
                if deadline <= self.next_part {
                    self.next_part = deadline;
                } else if before == self.next_part {
                    self.next_part = self.parts.iter().copied().fold(Instant::NEVER, Instant::min);
                }
            }
            _ => {}
        }
    }

    fn set_process(&mut self, process: ProcessId, deadline: Instant) {
        let place = process.0 as usize;
        if deadline != Instant::NEVER && place >= self.processes.len() {
            self.processes.resize_with(place + 1, || None);
        }
        let Self { timers, processes, .. } = self;
        let Some(timer) = processes.get_mut(place) else { return };
        if deadline != Instant::NEVER {
            let timer = timer.get_or_insert_with(|| timers.register(process));
            timers.set(timer, deadline);
        } else if let Some(timer) = timer {
            timers.cancel(timer);
        }
    }

    /// Nobody is to be woken for `who`.
    pub(crate) fn cancel(&mut self, who: Deadline) {
        self.set(who, Instant::NEVER);
    }

    /// Until when `who` waits; [`Instant::NEVER`] if it does not.
    pub(crate) fn of(&self, who: Deadline) -> Instant {
        match (who, who.part()) {
            (Deadline::Process(process), _) => {
                let timer = self.processes.get(process.0 as usize).and_then(Option::as_ref);
                timer.map_or(Instant::NEVER, |timer| self.timers.deadline(timer))
            }
            (_, part) => part.map_or(Instant::NEVER, |part| self.parts[part as usize]),
        }
    }

    /// A process is no more.
    pub(crate) fn forget(&mut self, process: ProcessId) {
        if let Some(timer) = self.processes.get_mut(process.0 as usize).and_then(Option::take) {
            self.timers.release(timer);
        }
    }

    /// The earliest of all.
    pub(crate) fn next(&self) -> Instant {
        self.next_part.min(self.timers.next_deadline())
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.next_part || self.timers.is_due(now)
    }

    /// One whose time has come. It waits no more.
    pub(crate) fn poll_expired(&mut self, now: Instant) -> Option<Deadline> {
        if now >= self.next_part {
            let due = |&&part: &&Deadline| self.of(part) <= now;
            let part = Deadline::PARTS.iter().filter(due).min_by_key(|&&part| self.of(part)).copied();
            if let Some(part) = part {
                self.cancel(part);
                return Some(part);
            }
        }
        self.timers.poll_expired(now).map(Deadline::Process)
    }

    /// Everybody who waits, and until when.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Deadline, Instant)> {
        let parts = Deadline::PARTS.iter().map(|&part| (part, self.of(part)));
        let processes = self.timers.iter().map(|(process, deadline)| (Deadline::Process(process), deadline));
        parts.filter(|&(_, deadline)| deadline != Instant::NEVER).chain(processes)
    }
}

/// The parts of a host whose time has come at one clock interrupt.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Due(u16);

impl Due {
    pub(crate) fn insert(&mut self, who: Deadline) {
        *self = Self(self.0 | Self::bit(who));
    }

    /// Whether it is that of any of these.
    pub(crate) fn any(self, of: &[Deadline]) -> bool {
        of.iter().any(|&who| self.0 & Self::bit(who) != 0)
    }

    const fn bit(who: Deadline) -> u16 {
        match who.part() {
            Some(part) => 1 << part as u16,
            None => 0,
        }
    }
}
