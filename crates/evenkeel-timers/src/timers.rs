//! The deadlines of a program, each with its owner.

use core::fmt;

use crate::time::Instant;
use crate::wheel::Wheel;
use evenkeel_base::Slab;

/// Timers with owners. A value of type `W` names the owner of each timer.
///
/// [`Timers::register`] creates a timer, once for each owner. Setting, moving and cancelling it, and taking
/// an expired one, allocate nothing. They cost as much as the [`Wheel`] documents, whatever the number of
/// timers. The next deadline is kept, so [`Timers::is_due`] is one comparison. A program can afford it after
/// every piece of work.
///
/// ```
/// use evenkeel_timers::{Instant, Timers};
///
/// #[derive(Debug, Clone, Copy, PartialEq)]
/// enum Wants {
///     Retransmission,
///     Process(u32),
/// }
///
/// let mut timers = Timers::new();
/// let retransmission = timers.register(Wants::Retransmission);
/// let sleeper = timers.register(Wants::Process(7));
/// timers.set(&retransmission, Instant::from_millis(200));
/// timers.set(&sleeper, Instant::from_millis(50));
///
/// // A report of all timers that are set.
/// let waiting: Vec<_> = timers.iter().collect();
/// assert_eq!(waiting[1], (Wants::Process(7), Instant::from_millis(50)));
///
/// // The program sleeps until the next deadline. It does not wake for a cancelled timer.
/// assert_eq!(timers.next_deadline(), Instant::from_millis(50));
/// timers.cancel(&sleeper);
/// assert_eq!(timers.next_deadline(), Instant::from_millis(200));
/// assert_eq!(timers.poll_expired(Instant::from_millis(199)), None);
/// assert_eq!(timers.poll_expired(Instant::from_millis(200)), Some(Wants::Retransmission));
/// assert_eq!(timers.next_deadline(), Instant::NEVER);
/// ```
pub struct Timers<W> {
    wheel: Wheel,
    whose: Slab<W>,
    next: Instant,
}

/// A timer of [`Timers`]. Only its holder can set, cancel or release it.
#[derive(Debug, PartialEq, Eq)]
pub struct Timer(pub(crate) u32);

impl<W> Timers<W> {
    /// Creates an empty set of timers.
    #[must_use]
    pub fn new() -> Self {
        Self { wheel: Wheel::new(), whose: Slab::new(), next: Instant::NEVER }
    }

    /// Registers a timer for the owner `who`. The timer is not set.
    ///
    /// # Panics
    /// At 2^32 - 1 timers.
    #[inline]
    pub fn register(&mut self, who: W) -> Timer {
        Timer(self.whose.insert(who))
    }

    /// Cancels a timer and frees it. Returns its owner.
    pub fn release(&mut self, timer: Timer) -> Option<W> {
        self.cancel(&timer);
        self.whose.remove(timer.0)
    }

    /// Takes a timer that has expired at `now` or before, and releases it. Returns its key, which is free
    /// again, and its owner.
    pub(crate) fn release_expired(&mut self, now: Instant) -> Option<(u32, W)> {
        let Timer(key) = self.take_expired(now)?;
        Some((key, self.whose.remove(key)?))
    }

    /// Returns all owners of timers.
    pub(crate) fn into_whose(self) -> impl Iterator<Item = W> {
        self.whose.into_values()
    }

    /// Returns the owner for which a timer was registered.
    pub(crate) fn who(&self, timer: &Timer) -> Option<&W> {
        self.whose.get(timer.0)
    }

    /// Sets a timer, or moves it. [`Instant::NEVER`] cancels it. A timer whose deadline has passed expires at
    /// once.
    pub fn set(&mut self, timer: &Timer, deadline: Instant) {
        if deadline == Instant::NEVER {
            self.cancel(timer);
            return;
        }
        let before = self.wheel.deadline(timer.0);
        if before == Some(deadline) {
            return;
        }
        self.wheel.set(timer.0, deadline);
        if deadline < self.next {
            self.next = deadline;
        } else {
            self.look_ahead_without(before);
        }
    }

    /// Cancels a timer. Returns whether it was set. An expired timer is set until
    /// [`poll_expired`](Self::poll_expired) returns its owner.
    pub fn cancel(&mut self, timer: &Timer) -> bool {
        let before = self.wheel.deadline(timer.0);
        let was_set = self.wheel.cancel(timer.0);
        self.look_ahead_without(before);
        was_set
    }

    /// Returns the deadline of a timer, or [`Instant::NEVER`] if it is not set.
    #[must_use]
    pub fn deadline(&self, timer: &Timer) -> Instant {
        self.wheel.deadline(timer.0).unwrap_or(Instant::NEVER)
    }

    /// Returns the earliest deadline of all timers, or [`Instant::NEVER`] if none is set. It may have passed.
    #[must_use]
    pub const fn next_deadline(&self) -> Instant {
        self.next
    }

    /// Returns whether a timer has expired.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Takes a timer that has expired at `now` or before. It is then no longer set.
    fn take_expired(&mut self, now: Instant) -> Option<Timer> {
        if !self.is_due(now) {
            return None;
        }
        let key = self.wheel.poll_expired(now);
        self.look_ahead();
        if !self.is_due(now) {
            self.turn(now);
        }
        key.map(Timer)
    }

    /// Returns the number of timers that are set.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.wheel.len()
    }

    /// Returns whether no timer is set.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.wheel.is_empty()
    }

    /// Returns the number of nodes touched, by which tests measure cost.
    #[cfg(test)]
    pub(crate) const fn steps(&self) -> u64 {
        self.wheel.steps()
    }

    /// Time has passed: the wheel turns as far as it can without anybody expiring, so that it files the next
    /// ones by how far away they are from now.
    pub(crate) fn turn(&mut self, now: Instant) {
        let before_next = Instant::from_nanos(self.next.as_nanos().saturating_sub(1));
        self.wheel.poll_expired(now.min(before_next));
    }

    /// One that was set until `before` no longer is, or later.
    fn look_ahead_without(&mut self, before: Option<Instant>) {
        if before.is_some_and(|before| before <= self.next) {
            self.look_ahead();
        }
    }

    fn look_ahead(&mut self) {
        self.next = self.wheel.next_deadline().unwrap_or(Instant::NEVER);
    }
}

impl<W: Copy> Timers<W> {
    /// Takes a timer that expired at `now` or before and returns its owner. The timer is then no longer
    /// set. Call it until it returns [`None`]. Timers come in the order of their deadlines.
    pub fn poll_expired(&mut self, now: Instant) -> Option<W> {
        let timer = self.take_expired(now)?;
        self.who(&timer).copied()
    }

    /// Returns every owner whose timer is set, with the time at which the timer expires, in the order of
    /// the timers' keys.
    pub fn iter(&self) -> impl Iterator<Item = (W, Instant)> {
        self.whose.iter().filter_map(|(key, who)| Some((*who, self.wheel.deadline(key)?)))
    }
}

impl<W> Default for Timers<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W: Copy + fmt::Debug> fmt::Debug for Timers<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[derive(Debug, Clone)]
    enum Step {
        Register,
        Release(usize),
        Set(usize, u64),
        Cancel(usize),
        Pass(u64),
    }

    fn time() -> impl Strategy<Value = u64> {
        (0..50_u32, any::<u64>()).prop_map(|(bits, random)| random & ((1 << bits) - 1))
    }

    fn step() -> impl Strategy<Value = Step> {
        let which = || 0..64_usize;
        prop_oneof![
            2 => Just(Step::Register),
            1 => which().prop_map(Step::Release),
            6 => (which(), time()).prop_map(|(which, after)| Step::Set(which, after)),
            2 => which().prop_map(Step::Cancel),
            3 => time().prop_map(Step::Pass),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        /// Against a list of who waits for when, sorted each time.
        #[test]
        fn they_do_what_a_sorted_list_does(steps in prop::collection::vec(step(), 1..120)) {
            let mut timers = Timers::new();
            let mut held: Vec<(u32, Timer)> = Vec::new();
            let mut model: Vec<(Instant, u32)> = Vec::new();
            let (mut now, mut named) = (0_u64, 0_u32);
            for step in steps {
                let count = held.len().max(1);
                match step {
                    Step::Register => {
                        held.push((named, timers.register(named)));
                        named += 1;
                    }
                    Step::Release(which) if which % count < held.len() => {
                        let (who, timer) = held.swap_remove(which % count);
                        timers.release(timer);
                        model.retain(|(_, other)| *other != who);
                    }
                    Step::Set(which, after) => {
                        let Some((who, timer)) = held.get(which % count) else { continue };
                        timers.set(timer, at(now + after));
                        model.retain(|(_, other)| other != who);
                        model.push((at(now + after), *who));
                        prop_assert_eq!(timers.deadline(timer), at(now + after));
                    }
                    Step::Cancel(which) => {
                        let Some((who, timer)) = held.get(which % count) else { continue };
                        let was_set = model.iter().any(|(_, other)| other == who);
                        prop_assert_eq!(timers.cancel(timer), was_set);
                        model.retain(|(_, other)| other != who);
                        prop_assert_eq!(timers.deadline(timer), Instant::NEVER);
                    }
                    Step::Pass(by) => {
                        now += by;
                        model.sort_unstable();
                        let due: Vec<_> = model.extract_if(.., |(when, _)| *when <= at(now)).collect();
                        prop_assert_eq!(timers.is_due(at(now)), !due.is_empty());
                        let mut expired = Vec::new();
                        while let Some(who) = timers.poll_expired(at(now)) {
                            let deadline = due.iter().find(|(_, other)| *other == who).map(|(when, _)| *when);
                            prop_assert!(deadline.is_some(), "{} was not due", who);
                            expired.push(deadline);
                        }
                        prop_assert_eq!(expired.len(), due.len());
                        prop_assert!(expired.is_sorted());
                    }
                    Step::Release(_) => {}
                }
                model.sort_unstable();
                let first = model.first().map_or(Instant::NEVER, |(deadline, _)| *deadline);
                prop_assert_eq!(timers.next_deadline(), first);
                let mut waiting: Vec<_> = timers.iter().map(|(who, deadline)| (deadline, who)).collect();
                waiting.sort_unstable();
                prop_assert_eq!(&waiting, &model);
            }
        }
    }
}
