//! `select` and `poll` as UNIX has them. They test each descriptor at each call, and serve as baselines.
//!
//! They find what [`Readiness`](crate::Readiness) finds, which remembers earlier results. Their cost is
//! proportional to the number of descriptors that the caller asks for. `status` receives a descriptor and
//! the kinds that matter; it returns which of them hold now, or `None` if there is no such descriptor.
//!
//! Source: Banga and Mogul, WRL 98/6, section 2.2.
//!
//! ```
//! use evenkeel_ready::{FdSets, Kinds, classic};
//!
//! let (mut selecting, mut found) = (FdSets::new(), FdSets::new());
//! selecting.read.extend([0, 3, 5]);
//! let answer = classic::select(&selecting, &mut found, |fd, _| Some(Kinds::READABLE.when(fd == 3)))?;
//! assert_eq!((answer.ready, answer.tests), (1, 3));
//! assert!(found.read.contains(3));
//! # Ok::<(), evenkeel_ready::BadDescriptor>(())
//! ```

use crate::call::{Answer, InSets, PollEntry};
use crate::descriptors::BadDescriptor;
use crate::kinds::Kinds;
use crate::set::{Bits, FdSets};

/// Tests each descriptor of three sets, and sets `found` to those that are ready.
///
/// # Errors
/// If one of them is not open.
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

/// Tests the descriptor of each entry, and writes into the entry which kinds hold.
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
