//! The memory of `select` and `poll`: what they know of a caller's descriptors between its calls.
//!
//! The paper has three sets. INTERESTED are the descriptors that the caller has ever asked for. READY are
//! those of them that were ready at their last test. HINTS are those that may have become ready since. A
//! descriptor that is in INTERESTED alone is known not to be ready. Each set is kept for each kind of
//! event.
//!
//! The storage lets a call touch only what it has to test. INTERESTED, which is large, is a bitmap for each
//! of `select`'s sets, and is compared with the caller's sets many words at a time. All three are also
//! stored for each descriptor, in three bytes, with a bitmap of the few that are in READY or in HINTS. A
//! new interest counts as a hint.

use crate::call::{Answer, InSets, PollEntry};
use crate::descriptors::BadDescriptor;
use crate::kinds::Kinds;
use crate::set::{Bits, FdSet, FdSets};
use alloc::vec::Vec;

/// Descriptors, and the kinds of event that a caller asks for.
#[derive(Debug, Default)]
struct Asked {
    sets: FdSets,
    /// The descriptors that were asked for at all: their hang-ups and errors are reported in any case.
    hang_up_or_error: FdSet,
    /// The descriptors for which [`Kinds::READ_CLOSED`] was asked for; `select` has no set for that.
    read_closed: FdSet,
}

impl Asked {
    #[inline]
    fn kinds(&self, fd: u32) -> Kinds {
        let unasked = Kinds::HANG_UP_OR_ERROR.when(self.hang_up_or_error.contains(fd));
        let read_closed = Kinds::READ_CLOSED.when(self.read_closed.contains(fd));
        InSets::of(&self.sets, fd).asked().union(unasked).union(read_closed)
    }

    fn insert(&mut self, fd: u32, kinds: Kinds) {
        InSets::asking(kinds).add(fd, &mut self.sets);
        self.hang_up_or_error.insert(fd);
        if kinds.is_read_closed() {
            self.read_closed.insert(fd);
        }
    }

    fn clear(&mut self) {
        self.sets.clear();
        self.clear_beside_sets();
    }

    /// Clears the sets that only `poll` uses.
    fn clear_beside_sets(&mut self) {
        self.hang_up_or_error.clear();
        self.read_closed.clear();
    }
}

/// The remembered state of one descriptor.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    /// The kinds that were ever asked for. If there are any, hang-up and error are among them.
    interested: Kinds,
    /// The kinds that it was ready for at its last test.
    ready: Kinds,
    /// The kinds that it may have become ready for since.
    hints: Kinds,
}

/// The state of the caller in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Sleep {
    #[default]
    Awake,
    Asleep,
    /// A hint or a close has woken the caller, and it has not tested its descriptors yet.
    Woken,
}

/// The sets INTERESTED, READY and HINTS of one caller, and the descriptors on which it sleeps.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The descriptors that were asked for, by set.
    interested: FdSets,
    marks: Vec<Mark>,
    /// The descriptors that were ready or have a hint, by the sets that this concerns. A descriptor that
    /// was ready to write costs nothing while the caller asks to read from it.
    pending: FdSets,
    sleep: Sleep,
    /// The descriptors and kinds of the call in which the caller sleeps.
    asked: Asked,
    /// Whether one of these was closed in the meantime, so that the meaning of its number has to be found
    /// out anew.
    is_overtaken: bool,
}

impl Memory {
    // --- Calls ---

    /// Runs `select`: tests those of `selecting` that are new, were ready before, or have a hint. Calls
    /// `meet` with each that was not known before; it returns whether that descriptor is open.
    pub(crate) fn select(
        &mut self,
        selecting: &FdSets,
        found: &mut FdSets,
        meet: impl FnMut(u32) -> bool,
        status: impl FnMut(u32, Kinds) -> Kinds,
    ) -> Result<Answer, BadDescriptor> {
        self.sleep = Sleep::Awake;
        found.clear();
        self.take_interest_in(selecting, meet)?;
        Ok(self.scan(selecting, found, status))
    }

    /// Puts the caller to sleep until one of these descriptors is ready. The caller has just asked for
    /// them.
    pub(crate) fn sleep_on_sets(&mut self, selecting: &FdSets) {
        self.asked.sets.clone_from(selecting);
        self.asked.clear_beside_sets();
        self.fall_asleep();
    }

    /// Continues `select` when the caller is woken: tests the descriptors with a hint. If none is ready,
    /// the caller sleeps on.
    pub(crate) fn woken(
        &mut self,
        found: &mut FdSets,
        meet: impl FnMut(u32) -> bool,
        status: impl FnMut(u32, Kinds) -> Kinds,
    ) -> Result<Answer, BadDescriptor> {
        self.sleep = Sleep::Awake;
        found.clear();
        let asked = core::mem::take(&mut self.asked);
        let known = if self.is_overtaken { self.take_interest_in(&asked.sets, meet) } else { Ok(()) };
        let answer = known.map(|()| self.scan(&asked.sets, found, status));
        self.asked = asked;
        if answer.is_ok_and(|answer| answer.ready == 0) {
            self.fall_asleep();
        }
        answer
    }

    /// Runs `poll`: goes through the entries, and tests those that are new, were ready before, or have a
    /// hint.
    pub(crate) fn poll(
        &mut self,
        entries: &mut [PollEntry],
        mut meet: impl FnMut(u32) -> bool,
        mut status: impl FnMut(u32, Kinds) -> Kinds,
    ) -> Answer {
        self.sleep = Sleep::Awake;
        let mut answer = Answer::default();
        for entry in entries {
            entry.ready = Kinds::NONE;
            if entry.fd == PollEntry::IGNORED || self.is_quiet(entry.fd, entry.asked()) {
                continue;
            }
            entry.ready = match self.take_interest(entry.fd, entry.asked(), &mut meet) {
                Ok(()) => self.test(entry.fd, entry.asked(), &mut status, &mut answer.tests),
                Err(BadDescriptor(_)) => Kinds::INVALID,
            };
            answer.ready += usize::from(!entry.ready.is_empty());
        }
        answer
    }

    /// Puts the caller to sleep until one of these descriptors is ready. The caller has just asked for
    /// them.
    pub(crate) fn sleep_on_entries(&mut self, entries: &[PollEntry]) {
        self.asked.clear();
        for entry in entries.iter().filter(|entry| entry.fd != PollEntry::IGNORED) {
            self.asked.insert(entry.fd, entry.asked());
        }
        self.fall_asleep();
    }

    /// Ends the wait of the caller.
    pub(crate) const fn give_up(&mut self) {
        self.sleep = Sleep::Awake;
    }

    // --- What happens to descriptors ---

    /// Records that a descriptor may have become ready. Returns whether the caller is to be woken.
    #[inline]
    pub(crate) fn hint(&mut self, fd: u32, kinds: Kinds) -> bool {
        let Some(mark) = self.marks.get_mut(fd as usize) else { return false };
        let kinds = kinds.intersection(mark.interested);
        if kinds.is_empty() {
            return false;
        }
        mark.hints = mark.hints.union(kinds);
        InSets::telling(kinds).add(fd, &mut self.pending);
        let wakes = self.sleep == Sleep::Asleep && self.asked.kinds(fd).intersects(kinds);
        if wakes {
            self.sleep = Sleep::Woken;
        }
        wakes
    }

    /// Forgets a descriptor that is closed. Returns whether the caller is to be woken.
    pub(crate) fn forget(&mut self, fd: u32) -> bool {
        self.interested.remove(fd);
        self.pending.remove(fd);
        if let Some(mark) = self.marks.get_mut(fd as usize) {
            *mark = Mark::default();
        }
        if self.sleep == Sleep::Awake || self.asked.kinds(fd).is_empty() {
            return false;
        }
        self.is_overtaken = true;
        core::mem::replace(&mut self.sleep, Sleep::Woken) == Sleep::Asleep
    }

    /// Returns all descriptors of which anything is remembered.
    pub(crate) fn known(&self) -> impl Iterator<Item = u32> + '_ {
        let marks = (0..).zip(&self.marks);
        marks.filter(|(_, mark)| !mark.interested.is_empty()).map(|(fd, _)| fd)
    }

    /// Forgets everything. The storage stays, because the classic calls forget at each call.
    pub(crate) fn clear(&mut self) {
        self.interested.clear();
        self.marks.clear();
        self.pending.clear();
        self.sleep = Sleep::Awake;
        self.asked.clear();
        self.is_overtaken = false;
    }

    // --- The sets ---

    const fn fall_asleep(&mut self) {
        self.sleep = Sleep::Asleep;
        self.is_overtaken = false;
    }

    /// Adds all of `selecting` to INTERESTED: finds those that are not in it word by word.
    fn take_interest_in(
        &mut self,
        selecting: &FdSets,
        mut meet: impl FnMut(u32) -> bool,
    ) -> Result<(), BadDescriptor> {
        for (nth, kind) in [Kinds::READABLE, Kinds::WRITABLE, Kinds::EXCEPTIONAL].into_iter().enumerate() {
            let (set, mut from) = (selecting.by_number(nth), 0);
            while let Some((index, news)) = set.next_not_in(self.interested.by_number(nth), from) {
                for fd in Bits(news).map(|bit| (index * 64) as u32 + bit) {
                    self.take_interest(fd, kind, &mut meet)?;
                }
                from = index + 1;
            }
        }
        Ok(())
    }

    /// Adds a descriptor to INTERESTED. If it was not known so far, hang-up and error are new as well: a
    /// later call to read or to write has to report them.
    #[inline]
    fn take_interest(
        &mut self,
        fd: u32,
        kinds: Kinds,
        meet: &mut impl FnMut(u32) -> bool,
    ) -> Result<(), BadDescriptor> {
        let kinds = kinds.union(Kinds::HANG_UP_OR_ERROR);
        let known = self.marks.get(fd as usize).map_or(Kinds::NONE, |mark| mark.interested);
        if kinds.without(known).is_empty() {
            return Ok(());
        }
        if known.is_empty() {
            if !meet(fd) {
                return Err(BadDescriptor(fd));
            }
            if self.marks.len() <= fd as usize {
                self.marks.resize(fd as usize + 1, Mark::default());
            }
        }
        let (new, mark) = (kinds.without(known), &mut self.marks[fd as usize]);
        (mark.interested, mark.hints) = (known.union(new), mark.hints.union(new));
        InSets::asking(new).add(fd, &mut self.interested);
        InSets::telling(new).add(fd, &mut self.pending);
        Ok(())
    }

    /// Tests those of `selecting` that are in READY or in HINTS, and adds those that are ready to `found`.
    fn scan(
        &mut self,
        selecting: &FdSets,
        found: &mut FdSets,
        mut status: impl FnMut(u32, Kinds) -> Kinds,
    ) -> Answer {
        let mut answer = Answer::default();
        let mut due = [0, 1, 2].map(|nth| self.next_due(nth, selecting, 0));
        while let Some(index) = due.iter().flatten().map(|(index, _)| *index).min() {
            let mut word = 0;
            for (nth, due) in due.iter_mut().enumerate() {
                if let Some((_, bits)) = due.filter(|(first, _)| *first == index) {
                    word |= bits;
                    *due = self.next_due(nth, selecting, index + 1);
                }
            }
            for fd in Bits(word).map(|bit| (index * 64) as u32 + bit) {
                let sets = InSets::of(selecting, fd);
                let ready = self.test(fd, sets.asked(), &mut status, &mut answer.tests);
                let told = sets.and(InSets::telling(ready));
                told.add(fd, found);
                answer.ready += told.len();
            }
        }
        answer
    }

    /// Returns the first word from `from` on with descriptors to test, of the `nth` set.
    #[inline]
    fn next_due(&self, nth: usize, selecting: &FdSets, from: usize) -> Option<(usize, u64)> {
        self.pending.by_number(nth).next_common(selecting.by_number(nth), from)
    }

    /// Returns whether a descriptor is known not to be ready for any of `asked`.
    #[inline]
    fn is_quiet(&self, fd: u32, asked: Kinds) -> bool {
        self.marks.get(fd as usize).is_some_and(|mark| {
            let news = asked.without(mark.interested);
            news.union(mark.ready.union(mark.hints).intersection(asked)).is_empty()
        })
    }

    /// Returns the kinds of `asked` that a descriptor is ready for; INTERESTED must have it for all of
    /// them. Requests the status if there is a hint, or if it was ready before: the caller may have read
    /// the data.
    #[inline]
    fn test(
        &mut self,
        fd: u32,
        asked: Kinds,
        status: &mut impl FnMut(u32, Kinds) -> Kinds,
        tests: &mut usize,
    ) -> Kinds {
        let mark = &mut self.marks[fd as usize];
        let due = mark.ready.union(mark.hints).intersection(asked);
        if due.is_empty() {
            return Kinds::NONE;
        }
        // Before the test: what happens after it leaves a hint again.
        (mark.ready, mark.hints) = (mark.ready.without(due), mark.hints.without(due));
        let ready = status(fd, due).intersection(due);
        *tests += 1;
        mark.ready = mark.ready.union(ready);
        InSets::telling(mark.ready.union(mark.hints)).keep(fd, &mut self.pending);
        ready
    }

    /// Asserts the invariants of a memory.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        for (fd, mark) in (0..).zip(&self.marks) {
            let marked = mark.ready.union(mark.hints);
            let pending = (InSets::of(&self.pending, fd), InSets::telling(marked));
            assert_eq!(pending.0.asked(), pending.1.asked(), "descriptor {fd}");
            assert!(marked.without(mark.interested).is_empty(), "READY and HINTS are in INTERESTED");
            let asked = InSets::of(&self.interested, fd).asked().without(Kinds::HANG_UP_OR_ERROR);
            let by_set = mark.interested.without(Kinds::HANG_UP_OR_ERROR.union(Kinds::READ_CLOSED));
            assert_eq!(by_set, asked, "the same by set");
        }
    }
}
