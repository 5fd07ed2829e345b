//! A hierarchical timing wheel, for the timers of very many connections.
//!
//! Setting, cancelling and expiring cost the same however many other timers there are. Source: Varghese and
//! Lauck, "Hashed and hierarchical timing wheels", SOSP 1987, scheme 7. Each slot is a heap instead of a
//! list, so that the next deadline is known exactly.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

use crate::heap::{NOBODY, Nodes};
use crate::time::Instant;

/// Bits of a deadline that one level looks at.
const LEVEL_BITS: u32 = 6;
const SLOTS_PER_LEVEL: usize = 1 << LEVEL_BITS;
/// Enough for all 64 bits of an instant: no deadline is too far away, and none is rounded.
const LEVELS: usize = u64::BITS.div_ceil(LEVEL_BITS) as usize;
/// In place of a slot: the timer is in none.
const NO_SLOT: u16 = u16::MAX;

/// A timing wheel: one timer for each key. Keys are small numbers, such as places in the caller's slab.
///
/// ```
/// use evenkeel_timers::{Instant, Wheel};
///
/// let mut wheel = Wheel::new();
/// wheel.set(3, Instant::from_millis(200));
/// wheel.set(9, Instant::from_millis(50));
///
/// let now = wheel.next_deadline().unwrap();
/// assert_eq!(now, Instant::from_millis(50));
/// assert_eq!(wheel.poll_expired(now), Some(9));
/// assert_eq!(wheel.poll_expired(now), None);
/// assert!(wheel.cancel(3));
/// assert_eq!(wheel.next_deadline(), None);
/// ```
///
/// # Design
///
/// ```text
///   bits of an instant               63..60      11..6    5..0
///                                  level 10 ... level 1  level 0
///   turned (the hands of a clock)       0          17       40    everything up to here has expired
///   a timer                             0          17       52    first differs at level 0: slot 52 there
///   a later timer                       0          23        5    first differs at level 1: slot 23 there,
///                                                                 with all others of that 64 ns; goes to
///                                                                 level 0 when the wheel turns to 23|0
/// ```
///
/// Every timer of a level is earlier than all timers of the levels above. Within a level, slots are in the
/// order of time. A slot is a pairing heap with its earliest timer on top. So the next deadline is the
/// deadline of a timer that is set: no caller wakes only to turn the wheel, or for a cancelled timer.
///
/// A postponed timer stays where it is, such as a retransmission timer at each acknowledgment. So does a
/// cancelled timer, which is often set again soon. The wheel files it anew, or leaves it out, when it comes
/// first in its slot and the caller asks for the next deadline, or the wheel turns there.
///
/// # Cost
///
/// Setting, moving and cancelling a timer take constant time. Postponing and cancelling are one comparison
/// and one store. Filing a postponed timer anew happens at most once for each postponement, and often once
/// for many. Expiring takes constant time too, except for the heap of a slot. That costs the logarithm of the
/// number of timers in the slot, in the long run. They are few unless their deadlines are far away.
///
/// A timer takes 32 bytes, set or not, up to the highest key in use. The wheel itself takes 3 KiB.
pub struct Wheel {
    turned: u64,
    timers: Nodes,
    /// The earliest timer of each slot.
    slots: Box<[u32]>,
    /// A bit for each slot that is not empty.
    occupied: [u64; LEVELS],
    len: usize,
}

impl Wheel {
    /// Creates a wheel without timers, turned to the start of time.
    #[must_use]
    pub fn new() -> Self {
        Self {
            turned: 0,
            timers: Nodes::new(NO_SLOT),
            slots: vec![NOBODY; LEVELS * SLOTS_PER_LEVEL].into_boxed_slice(),
            occupied: [0; LEVELS],
            len: 0,
        }
    }

    /// Sets the timer of `key`, or moves it. A deadline in the past expires at the next
    /// [`poll_expired`](Self::poll_expired).
    ///
    /// Allocates only if `key` is higher than any before.
    ///
    /// # Panics
    /// If `key` is `u32::MAX`, which no place in a slab has.
    pub fn set(&mut self, key: u32, deadline: Instant) {
        assert_ne!(key, NOBODY, "not a place in a slab");
        let deadline = deadline.as_nanos();
        self.timers.reach(key);
        let timer = self.timers.node(key);
        let (slot, filed) = (timer.slot, timer.filed);
        timer.deadline = deadline;
        self.len += usize::from(!core::mem::replace(&mut timer.set, true));
        if slot != NO_SLOT {
            if filed <= deadline {
                return;
            }
            self.take_out(slot, key);
        }
        self.file(key);
    }

    /// Cancels the timer of `key`. Returns whether it was set. An expired timer is set until
    /// [`poll_expired`](Self::poll_expired) returns its key.
    pub fn cancel(&mut self, key: u32) -> bool {
        let Some(timer) = self.timers.get_mut(key) else { return false };
        let was_set = core::mem::replace(&mut timer.set, false);
        self.len -= usize::from(was_set);
        was_set
    }

    /// Returns the deadline of the timer of `key`, if it is set.
    #[must_use]
    pub fn deadline(&self, key: u32) -> Option<Instant> {
        let timer = self.timers.get(key)?;
        timer.set.then_some(Instant::from_nanos(timer.deadline))
    }

    /// Returns the deadline of the earliest timer, if any is set. The caller calls
    /// [`poll_expired`](Self::poll_expired) then. If that timer has expired already, returns a time that has
    /// passed.
    ///
    /// The call files postponed timers anew and leaves cancelled ones out, as far as they come before the
    /// earliest timer.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        loop {
            let (slot, _) = self.next_slot()?;
            let earliest = self.slots[usize::from(slot)];
            if !self.timers.is_stale(earliest) {
                return Some(Instant::from_nanos(self.timers.node(earliest).deadline.max(self.turned)));
            }
            self.refile(slot);
        }
    }

    /// Returns an instant before which no timer expires, without filing any timer anew. It suits callers that
    /// ask often and wait seldom. It is never later than [`next_deadline`](Self::next_deadline), and earlier
    /// only if a timer before that was postponed or cancelled.
    #[must_use]
    pub fn not_before(&self) -> Option<Instant> {
        let (slot, _) = self.next_slot()?;
        let earliest = self.timers.get(self.slots[usize::from(slot)])?;
        Some(Instant::from_nanos(earliest.filed.max(self.turned)))
    }

    /// Takes a timer whose deadline is at or before `now`, and returns its key. The timer is then no longer
    /// set. Call it until it returns [`None`].
    ///
    /// No timer is taken before its deadline. Timers come in the order of their deadlines, and those of one
    /// deadline in the order of their keys.
    pub fn poll_expired(&mut self, now: Instant) -> Option<u32> {
        let now = now.as_nanos();
        while let Some((slot, start)) = self.next_slot().filter(|&(_, start)| start <= now) {
            let earliest = self.slots[usize::from(slot)];
            if self.timers.is_stale(earliest) {
                self.refile(slot);
            } else if self.timers.node(earliest).deadline <= now {
                self.take_out(slot, earliest);
                self.cancel(earliest);
                return Some(earliest);
            } else {
                self.turn_to(slot, start);
            }
        }
        self.turned = self.turned.max(now);
        None
    }

    /// Returns the number of timers that are set.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no timer is set.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of nodes touched, by which tests measure cost.
    #[cfg(test)]
    pub(crate) const fn steps(&self) -> u64 {
        self.timers.steps
    }

    /// Empties the slot that begins at `start`: its timers go to where they then belong. A timer moves at
    /// most once per level each time it is filed, which is what makes turning cheap in the long run.
    fn turn_to(&mut self, slot: u16, start: u64) {
        self.turned = start;
        let mut list = self.replace_heap(slot, NOBODY);
        while list != NOBODY {
            let key = list;
            list = self.timers.scatter(key);
            self.file_if_set(key);
        }
    }

    /// Timers that were put off or cancelled, and are first in a slot, go to where they now belong.
    fn refile(&mut self, slot: u16) {
        let (mut list, rest) = self.timers.take_stale(self.slots[usize::from(slot)]);
        self.replace_heap(slot, rest);
        while list != NOBODY {
            let key = list;
            list = self.timers.detach(key);
            self.file_if_set(key);
        }
    }

    /// Returns the slot of a deadline. The level is that of the highest bits in which the deadline differs
    /// from the time that the wheel has turned to. An expired timer is in the slot of that time.
    const fn slot_for(&self, deadline: u64) -> u16 {
        let deadline = if deadline < self.turned { self.turned } else { deadline };
        let level = (deadline ^ self.turned | 1).ilog2() / LEVEL_BITS;
        let place = (deadline >> (level * LEVEL_BITS)) % SLOTS_PER_LEVEL as u64;
        (level as usize * SLOTS_PER_LEVEL) as u16 + place as u16
    }

    /// Returns the next slot with timers in it, and the first instant that falls into it.
    fn next_slot(&self) -> Option<(u16, u64)> {
        let level = self.occupied.iter().position(|&slots| slots != 0)?;
        let place = self.occupied[level].trailing_zeros();
        let shift = level as u32 * LEVEL_BITS;
        let above = u64::MAX.checked_shl(shift + LEVEL_BITS).unwrap_or(0);
        let start = (self.turned & above) | (u64::from(place) << shift);
        Some(((level * SLOTS_PER_LEVEL) as u16 + place as u16, start))
    }

    /// Puts a timer that is in no slot into where it belongs.
    fn file(&mut self, key: u32) {
        let deadline = self.timers.node(key).deadline;
        let slot = self.slot_for(deadline);
        let timer = self.timers.node(key);
        (timer.filed, timer.slot) = (deadline, slot);
        let root = self.timers.push(self.slots[usize::from(slot)], key);
        self.replace_heap(slot, root);
    }

    /// Files a timer that is in no slot, unless it was cancelled.
    fn file_if_set(&mut self, key: u32) {
        let timer = self.timers.node(key);
        if timer.set {
            self.file(key);
        } else {
            timer.slot = NO_SLOT;
        }
    }

    fn take_out(&mut self, slot: u16, key: u32) {
        let root = self.timers.remove(self.slots[usize::from(slot)], key);
        self.replace_heap(slot, root);
        self.timers.node(key).slot = NO_SLOT;
    }

    /// Puts another heap into a slot. Returns the one that was there.
    fn replace_heap(&mut self, slot: u16, root: u32) -> u32 {
        let slot = usize::from(slot);
        let before = core::mem::replace(&mut self.slots[slot], root);
        if (before == NOBODY) != (root == NOBODY) {
            self.occupied[slot / SLOTS_PER_LEVEL] ^= 1 << (slot % SLOTS_PER_LEVEL);
        }
        before
    }
}

impl Default for Wheel {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Wheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel").field("timers", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::heap::Node;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn expired(wheel: &mut Wheel, now: u64) -> Vec<u32> {
        core::iter::from_fn(|| wheel.poll_expired(at(now))).collect()
    }

    #[test]
    fn a_timer_costs_32_bytes() {
        assert_eq!(size_of::<Node>(), 32);
        assert_eq!(size_of_val(&*Wheel::new().slots), 2_816);
    }

    #[test]
    fn expires_at_its_deadline_and_not_before() {
        let mut wheel = Wheel::new();
        for (key, deadline) in [(0, 1), (1, 63), (2, 64), (3, 200_000_000), (4, 1 << 40), (5, u64::MAX)] {
            wheel.set(key, at(deadline));
            assert_eq!(wheel.next_deadline(), Some(at(deadline)));
            assert_eq!(expired(&mut wheel, deadline - 1), []);
            assert_eq!(wheel.deadline(key), Some(at(deadline)));
            assert_eq!(expired(&mut wheel, deadline), [key]);
            assert_eq!((wheel.deadline(key), wheel.next_deadline(), wheel.len()), (None, None, 0));
        }
    }

    #[test]
    fn a_deadline_in_the_past_expires_at_once() {
        let mut wheel = Wheel::new();
        assert_eq!(expired(&mut wheel, 1_000), []);
        wheel.set(7, at(999));
        assert_eq!(wheel.next_deadline(), Some(at(1_000)));
        assert_eq!(expired(&mut wheel, 1_000), [7]);
    }

    #[test]
    fn time_that_goes_back_does_no_harm() {
        let mut wheel = Wheel::new();
        assert_eq!(expired(&mut wheel, 1_000), []);
        wheel.set(1, at(1_001));
        assert_eq!(expired(&mut wheel, 10), []);
        wheel.set(2, at(60));
        assert_eq!(wheel.next_deadline(), Some(at(1_000)));
        assert_eq!(expired(&mut wheel, 1_000), [2]);
        assert_eq!(expired(&mut wheel, 1_001), [1]);
    }

    #[test]
    fn one_that_has_expired_can_still_be_cancelled_or_moved() {
        let mut wheel = Wheel::new();
        (0..3).for_each(|key| wheel.set(key, at(5)));
        assert_eq!(wheel.poll_expired(at(5)), Some(0));
        assert!(wheel.cancel(1));
        wheel.set(2, at(9));
        assert_eq!(expired(&mut wheel, 8), []);
        assert_eq!(expired(&mut wheel, 9), [2]);
    }

    #[test]
    fn a_timer_moves_at_most_once_per_level() {
        let mut wheel = Wheel::new();
        let deadline = u64::MAX - 1;
        wheel.set(0, at(deadline));
        let (mut turns, mut now) = (0, 0);
        while let Some((_, start)) = wheel.next_slot() {
            assert!(start > now || turns == 0);
            now = start;
            turns += 1;
            if expired(&mut wheel, now) == [0] {
                break;
            }
        }
        assert_eq!((now, turns), (deadline, LEVELS));
    }

    #[test]
    fn those_that_expire_together_come_in_the_order_of_their_deadlines() {
        let mut wheel = Wheel::new();
        for (key, deadline) in [(0, 900), (1, 5), (2, 70), (3, 900), (4, 1 << 30), (5, 6), (6, 70)] {
            wheel.set(key, at(deadline));
        }
        assert_eq!(expired(&mut wheel, 1 << 40), [1, 5, 2, 6, 0, 3, 4]);
    }

    /// Which of the timers, the `nth` in the order of their deadlines, moves next.
    type Whose = fn(nth: u32, count: u32) -> u32;

    /// Nodes touched for each time that a timer is moved and the next deadline asked for. All timers are
    /// within a second, 64 seconds away: they share a slot.
    fn cost_of_a_move(count: u32, whose: Whose) -> u64 {
        let mut wheel = Wheel::new();
        let time = |nth: u32| at(64_000_000_000 + u64::from(nth) * 1_000);
        (0..count).for_each(|key| wheel.set(key, time(key)));
        let before = wheel.timers.steps;
        for moved in 0..count {
            wheel.set(whose(moved, count), time(count + moved));
            assert!(wheel.next_deadline().is_some());
        }
        (wheel.timers.steps - before) / u64::from(count)
    }

    #[test]
    fn the_cost_does_not_grow_with_the_number_of_timers_whichever_of_them_moves() {
        let patterns: [(&str, Whose); 4] = [
            ("always the earliest", |nth, _| nth),
            ("always the latest", |nth, count| count - 1 - nth),
            ("any", |nth, count| (u64::from(nth) * 7_919 % u64::from(count)) as u32),
            ("one from either end", |nth, count| if nth % 2 == 0 { nth / 2 } else { count - 1 - nth / 2 }),
        ];
        for (name, whose) in patterns {
            let cost = [100, 10_000, 100_000].map(|count| cost_of_a_move(count, whose));
            assert!(cost.iter().all(|&cost| cost < 40), "{name}: {cost:?}");
        }
    }

    #[test]
    fn a_timer_that_is_put_off_or_cancelled_stays_where_it_is_until_somebody_asks() {
        const COUNT: u32 = 1_000;
        let mut wheel = Wheel::new();
        let time = |nth: u32| at(64_000_000_000 + u64::from(nth) * 1_000);
        (0..COUNT).for_each(|key| wheel.set(key, time(key)));
        let before = wheel.timers.steps;
        for later in 1..100 {
            (0..COUNT).for_each(|key| assert!(wheel.cancel(key)));
            assert!(wheel.is_empty() && !wheel.cancel(0));
            (0..COUNT).for_each(|key| wheel.set(key, time(key + later)));
        }
        assert_eq!(wheel.timers.steps, before);
        assert_eq!(wheel.next_deadline(), Some(time(99)));
        assert!(wheel.timers.steps - before < 3 * u64::from(COUNT), "each of them is filed once");
        assert_eq!(expired(&mut wheel, time(99 + 1).as_nanos()), [0, 1]);
        (2..COUNT).for_each(|key| assert!(wheel.cancel(key)));
        assert_eq!((wheel.next_deadline(), wheel.occupied), (None, [0; LEVELS]), "nobody is left in a slot");
    }

    #[derive(Debug, Clone)]
    enum Step {
        Set(u32, u64),
        Cancel(u32),
        /// Time passes; at most so many timers are taken.
        Pass(u64, usize),
        /// Somebody asks for the next deadline.
        Ask,
    }

    /// Draws times from nanoseconds to centuries; each magnitude is as likely as any other.
    fn time() -> impl Strategy<Value = u64> {
        (0..60_u32, any::<u64>()).prop_map(|(bits, random)| random & ((1 << bits) - 1))
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..40_u32, time()).prop_map(|(key, after)| Step::Set(key, after)),
            1 => (0..40_u32).prop_map(Step::Cancel),
            3 => (time(), prop_oneof![Just(usize::MAX), 0..4_usize])
                .prop_map(|(by, take)| Step::Pass(by, take)),
            1 => Just(Step::Ask),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Against a list of deadlines that is searched from end to end.
        #[test]
        fn does_what_a_sorted_list_does(steps in prop::collection::vec(step(), 1..80)) {
            let mut wheel = Wheel::new();
            let mut model = BTreeMap::<u32, u64>::new();
            let mut now = 0_u64;
            for step in steps {
                match step {
                    Step::Set(key, after) => {
                        wheel.set(key, at(now.saturating_add(after)));
                        model.insert(key, now.saturating_add(after));
                    }
                    Step::Cancel(key) => prop_assert_eq!(wheel.cancel(key), model.remove(&key).is_some()),
                    Step::Pass(by, take) => {
                        now = now.saturating_add(by);
                        let mut in_order = None;
                        for _ in 0..take {
                            let first = model.iter().map(|(&key, &deadline)| (deadline, key)).min();
                            let due = first.filter(|(deadline, _)| *deadline <= now).map(|(_, key)| key);
                            let expired = wheel.poll_expired(at(now));
                            prop_assert_eq!(expired.is_some(), due.is_some());
                            let Some(key) = expired else { break };
                            prop_assert!(in_order.is_none_or(|last| last < (model[&key], key)));
                            in_order = Some((model[&key], key));
                            prop_assert!(model.remove(&key).is_some_and(|deadline| deadline <= now));
                        }
                    }
                    Step::Ask => match model.values().min().copied() {
                        Some(earliest) if earliest <= now => {
                            prop_assert!(wheel.next_deadline().is_some_and(|next| next <= at(now)));
                        }
                        earliest => prop_assert_eq!(wheel.next_deadline(), earliest.map(at)),
                    },
                }
                prop_assert_eq!(wheel.len(), model.len());
                for key in 0..40 {
                    prop_assert_eq!(wheel.deadline(key), model.get(&key).copied().map(at));
                }
            }
        }

        /// Nothing is woken in vain, whatever was cancelled or moved: an idle machine costs nothing.
        #[test]
        fn every_next_deadline_is_that_of_a_timer_which_then_expires(
            moves in prop::collection::vec((0..40_u32, prop::option::weighted(0.7, time())), 1..200),
        ) {
            let mut wheel = Wheel::new();
            let mut model = BTreeMap::new();
            for (key, deadline) in moves {
                match deadline {
                    Some(deadline) => {
                        wheel.set(key, at(deadline));
                        model.insert(key, deadline);
                    }
                    None => {
                        wheel.cancel(key);
                        model.remove(&key);
                    }
                }
                let (early, exact) = (wheel.not_before(), model.values().min().copied().map(at));
                prop_assert!(exact.is_none() || early.is_some_and(|early| Some(early) <= exact));
                prop_assert_eq!(wheel.next_deadline(), exact);
                prop_assert_eq!(wheel.not_before(), exact, "nothing is left to be filed anew before it");
            }
            let mut sorted: Vec<_> = model.into_values().collect();
            sorted.sort_unstable();
            sorted.dedup();
            for deadline in sorted {
                prop_assert_eq!(wheel.next_deadline(), Some(at(deadline)));
                prop_assert!(!expired(&mut wheel, deadline).is_empty());
            }
            prop_assert!(wheel.is_empty());
        }
    }
}
