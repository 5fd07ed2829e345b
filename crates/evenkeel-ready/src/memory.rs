//! What `select` and `poll` remember of a caller's descriptors between its calls.
//!
//! The paper has three sets: INTERESTED, those that the caller has ever asked for; READY, those of them that
//! were ready when they were last looked at; HINTS, those that may have become ready since. Of a descriptor
//! that is in INTERESTED alone it is known that it is not ready. Each is kept for each kind of event.
//!
//! They are stored so that a call touches what it has to look at and no more. INTERESTED, which is large, is
//! a bitmap for each kind, to be compared with what the caller asks for, many words at a time. READY and
//! HINTS, which are small, lie together, two bytes for each descriptor, with a bitmap of where either is
//! not empty. A new interest is a hint that the caller gives himself.

use crate::call::{Answer, InSets, PollEntry};
use crate::descriptors::BadDescriptor;
use crate::kinds::Kinds;
use crate::set::{Bits, FdSet, FdSets};

/// Descriptors, and for what somebody asks each of them.
#[derive(Debug, Default)]
struct Asked {
    sets: FdSets,
    /// Those in which trouble is of interest, whatever else is.
    trouble: FdSet,
}

impl Asked {
    #[inline]
    fn kinds(&self, fd: u32) -> Kinds {
        InSets::of(&self.sets, fd).asked().union(Kinds::TROUBLE.when(self.trouble.contains(fd)))
    }

    fn insert(&mut self, fd: u32, kinds: Kinds) {
        let Self { sets, trouble } = self;
        let sets = [
            (Kinds::READABLE, &mut sets.read),
            (Kinds::WRITABLE, &mut sets.write),
            (Kinds::EXCEPTIONAL, &mut sets.exception),
            (Kinds::TROUBLE, trouble),
        ];
        for (kind, set) in sets {
            if kinds.intersects(kind) {
                set.insert(fd);
            }
        }
    }

    fn remove(&mut self, fd: u32) {
        self.sets.remove(fd);
        self.trouble.remove(fd);
    }

    fn clear(&mut self) {
        self.sets.clear();
        self.trouble.clear();
    }
}

/// What is remembered of one descriptor.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    /// For what it was ready when it was last looked at.
    ready: Kinds,
    /// For what it may have become ready since.
    hints: Kinds,
}

/// Whether the caller is in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Sleep {
    #[default]
    Awake,
    Asleep,
    /// Something has happened, and it has not looked yet.
    Woken,
}

/// INTERESTED, READY and HINTS of one caller, and what it sleeps on.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// All that are known are in its `trouble`.
    interested: Asked,
    marks: Vec<Mark>,
    /// Those whose mark is not empty.
    pending: FdSet,
    sleep: Sleep,
    /// What the call is about that the caller sleeps in.
    asked: Asked,
    /// One of these was closed in the meantime: what its number means is to be found out anew.
    is_overtaken: bool,
}

impl Memory {
    // --- Calls ---

    /// `select`: looks at those of `selecting` that are new, were ready before, or for which there is a hint.
    /// `meet` hears of each that was not known before, and says whether it is open.
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

    /// The caller sleeps until one of these is ready. It has just asked for them.
    pub(crate) fn sleep_on_sets(&mut self, selecting: &FdSets) {
        self.asked.sets.clone_from(selecting);
        self.asked.trouble.clear();
        self.fall_asleep();
    }

    /// What `select` does when the caller is woken: looks at those for which there is a hint. If none is
    /// ready the caller sleeps on.
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

    /// `poll`: goes through the entries, and asks those that are new, were ready before, or for which there
    /// is a hint.
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
            if entry.fd == PollEntry::IGNORED {
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

    /// The caller sleeps until one of these is ready. It has just asked for them.
    pub(crate) fn sleep_on_entries(&mut self, entries: &[PollEntry]) {
        self.asked.clear();
        for entry in entries.iter().filter(|entry| entry.fd != PollEntry::IGNORED) {
            self.asked.insert(entry.fd, entry.asked());
        }
        self.fall_asleep();
    }

    /// The caller is in no call any more.
    pub(crate) const fn give_up(&mut self) {
        self.sleep = Sleep::Awake;
    }

    // --- What happens to descriptors ---

    /// A descriptor may have become ready. Whether the caller is to be woken.
    #[inline]
    pub(crate) fn hint(&mut self, fd: u32, kinds: Kinds) -> bool {
        let kinds = kinds.intersection(self.interested.kinds(fd));
        let Some(mark) = self.marks.get_mut(fd as usize).filter(|_| !kinds.is_empty()) else { return false };
        mark.hints = mark.hints.union(kinds);
        self.pending.insert(fd);
        let wakes = self.sleep == Sleep::Asleep && self.asked.kinds(fd).intersects(kinds);
        if wakes {
            self.sleep = Sleep::Woken;
        }
        wakes
    }

    /// A descriptor is closed. Whether the caller is to be woken.
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

    /// All that are known.
    pub(crate) fn known(&self) -> impl Iterator<Item = u32> + '_ {
        self.interested.trouble.iter()
    }

    // --- The sets ---

    const fn fall_asleep(&mut self) {
        self.sleep = Sleep::Asleep;
        self.is_overtaken = false;
    }

    /// Adds all of `selecting` to INTERESTED.
    fn take_interest_in(
        &mut self,
        selecting: &FdSets,
        mut meet: impl FnMut(u32) -> bool,
    ) -> Result<(), BadDescriptor> {
        self.take_interest_for(Kinds::READABLE, |sets| &sets.read, selecting, &mut meet)?;
        self.take_interest_for(Kinds::WRITABLE, |sets| &sets.write, selecting, &mut meet)?;
        self.take_interest_for(Kinds::EXCEPTIONAL, |sets| &sets.exception, selecting, &mut meet)
    }

    /// Adds one of the three sets: word by word those that are not in.
    fn take_interest_for(
        &mut self,
        kind: Kinds,
        of: impl Fn(&FdSets) -> &FdSet,
        selecting: &FdSets,
        meet: &mut impl FnMut(u32) -> bool,
    ) -> Result<(), BadDescriptor> {
        let mut from = 0;
        while let Some((index, news)) = of(selecting).next_not_in(of(&self.interested.sets), from) {
            for fd in Bits(news).map(|bit| (index * 64) as u32 + bit) {
                self.take_interest(fd, kind, meet)?;
            }
            from = index + 1;
        }
        Ok(())
    }

    /// Adds one to INTERESTED. If it was not known so far, trouble is new as well: whoever asks next for a
    /// call to read or to write will want to hear of it.
    #[inline]
    fn take_interest(
        &mut self,
        fd: u32,
        kinds: Kinds,
        meet: &mut impl FnMut(u32) -> bool,
    ) -> Result<(), BadDescriptor> {
        let known = self.interested.kinds(fd);
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
        let kinds = kinds.union(Kinds::TROUBLE);
        self.interested.insert(fd, kinds);
        let mark = &mut self.marks[fd as usize];
        mark.hints = mark.hints.union(kinds.without(known));
        self.pending.insert(fd);
        Ok(())
    }

    /// Tests those of `selecting` that are in READY or in HINTS.
    fn scan(
        &mut self,
        selecting: &FdSets,
        found: &mut FdSets,
        mut status: impl FnMut(u32, Kinds) -> Kinds,
    ) -> Answer {
        let mut answer = Answer::default();
        let mut from = 0;
        while let Some((index, pending)) = self.pending.next_word(from) {
            for fd in Bits(pending & selecting.word(index)).map(|bit| (index * 64) as u32 + bit) {
                let sets = InSets::of(selecting, fd);
                let ready = self.test(fd, sets.asked(), &mut status, &mut answer.tests);
                answer.ready += sets.tell(fd, ready, found);
            }
            from = index + 1;
        }
        answer
    }

    /// What of `asked` one is ready for, which is in INTERESTED for all of it. Its status is asked for if
    /// there is a hint, or it was ready before: the caller may have read what there was.
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
        if mark.ready.union(mark.hints).is_empty() {
            self.pending.remove(fd);
        }
        ready
    }

    /// What holds of every memory.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        for (fd, mark) in (0..).zip(&self.marks) {
            let marked = mark.ready.union(mark.hints);
            assert_eq!(self.pending.contains(fd), !marked.is_empty(), "descriptor {fd}");
            assert!(
                marked.without(self.interested.kinds(fd)).is_empty(),
                "READY and HINTS are in INTERESTED"
            );
            let is_known = self.interested.trouble.contains(fd);
            assert!(is_known || self.interested.kinds(fd).is_empty(), "all that are known are in `trouble`");
        }
    }
}
