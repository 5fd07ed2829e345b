//! `select` and `poll` as UNIX has them: they ask each descriptor, at each call. The baselines.
//!
//! What they find is what [`Readiness`](crate::Readiness) finds, which remembers; what they cost is
//! proportional to how many are asked for. `status` is asked with a descriptor, and what of it matters; it
//! says what of that holds now, or nothing if there is no such descriptor.
//!
//! Source: Banga and Mogul, WRL 98/6, section 2.2.

use crate::call::{Answer, InSets, PollEntry};
use crate::descriptors::BadDescriptor;
use crate::kinds::Kinds;
use crate::set::{Bits, FdSets};

/// Asks each descriptor of three sets, and says in `found` which are ready.
///
/// # Errors
/// One of them is not open.
pub fn select(
    selecting: &FdSets,
    found: &mut FdSets,
    mut status: impl FnMut(u32, Kinds) -> Option<Kinds>,
) -> Result<Answer, BadDescriptor> {
    found.clear();
    let mut answer = Answer::default();
    let sets = [&selecting.read, &selecting.write, &selecting.exception];
    let last = sets.into_iter().filter_map(|set| set.words().last()).map(|(base, _)| base / 64).max();
    for index in last.map_or(0..0, |last| 0..last as usize + 1) {
        for fd in Bits(selecting.word(index)).map(|bit| (index * 64) as u32 + bit) {
            let sets = InSets::of(selecting, fd);
            answer.tests += 1;
            let holds = status(fd, sets.asked()).ok_or(BadDescriptor(fd))?;
            let told = sets.and(InSets::telling(holds));
            told.add(fd, found);
            answer.ready += told.len();
        }
    }
    Ok(answer)
}

/// Asks the descriptor of each entry, and says in it what holds.
pub fn poll(entries: &mut [PollEntry], mut status: impl FnMut(u32, Kinds) -> Option<Kinds>) -> Answer {
    let mut answer = Answer::default();
    for entry in entries {
        entry.ready = Kinds::NONE;
        if entry.fd == PollEntry::IGNORED {
            continue;
        }
        answer.tests += 1;
        let holds = status(entry.fd, entry.asked());
        entry.ready = holds.map_or(Kinds::INVALID, |holds| holds.intersection(entry.asked()));
        answer.ready += usize::from(!entry.ready.is_empty());
    }
    answer
}
