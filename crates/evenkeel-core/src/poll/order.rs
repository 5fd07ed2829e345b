//! Which source the polling thread serves next: round robin, or as real-time tasks by their weights.

use super::sources::{SourceId, Sources};
use crate::time::Duration;

/// Weights of the real-time tasks that serve devices, as in Calaveras (TOCS 1997, section 10): each receive
/// ring has one, and so has each transmit side. While several of them want the core it is theirs in
/// proportion to these.
///
/// Interrupt handlers only set a flag then, and their interrupts stay enabled. So every frame may interrupt,
/// also one that the ring sheds: there is no livelock *as long as* frames are further apart than one handler
/// takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskWeights {
    /// Of a receive ring, at least 1.
    pub receive: u16,
    /// Of the transmit side of an interface, at least 1. Too small a weight lets frames die in the output
    /// queue.
    pub transmit: u16,
}

/// The order in which sources are served.
#[derive(Debug)]
pub(super) enum Order {
    /// Receive and transmit sides take turns, and so do the sources of each side among themselves. Where the
    /// one side has got to does not depend on the other: else, of two rings that an inhibition stops, the one
    /// behind the transmit side that went on would always be next.
    RoundRobin {
        /// The side served last, 0 for receive rings.
        side: usize,
        /// The last one served of each side.
        last: [SourceId; 2],
    },
    /// The task that has had the least for its weight.
    Weighted(Tasks),
}

impl Order {
    pub(super) const ROUND_ROBIN: Self =
        Self::RoundRobin { side: 0, last: [SourceId(Sources::MAX as u16 - 1); 2] };

    pub(super) fn next(&mut self, inputs: Sources, servable: Sources) -> Option<SourceId> {
        match self {
            Self::RoundRobin { side, last } => {
                let sides = [servable.and(inputs), servable.without(inputs)];
                let turn = |side: usize| sides[side].next(last[side].0 + 1).map(|source| (side, source));
                let (turned, source) = turn(1 - *side).or_else(|| turn(*side))?;
                *side = turned;
                last[turned] = source;
                Some(source)
            }
            Self::Weighted(tasks) => tasks.next(servable),
        }
    }

    /// Charges the time that a callback of the source has used.
    pub(super) fn charge(&mut self, source: SourceId, is_input: bool, elapsed: Duration) {
        if let Self::Weighted(tasks) = self {
            tasks.charge(source, is_input, elapsed);
        }
    }
}

/// The CPU time that each task has had. The basis of stride scheduling, with time for strides.
#[derive(Debug)]
pub(super) struct Tasks {
    weights: TaskWeights,
    /// CPU time, in nanoseconds by weight, of each source.
    had: Box<[u64; Sources::MAX]>,
    /// The CPU time, by weight, that the last served task had had. A task that has had less because it had
    /// no work has no claim to the difference.
    virtual_time: u64,
}

impl Tasks {
    pub(super) fn new(weights: TaskWeights) -> Self {
        Self { weights, had: Box::new([0; Sources::MAX]), virtual_time: 0 }
    }

    fn next(&mut self, servable: Sources) -> Option<SourceId> {
        let claim =
            |source: SourceId| self.had.get(usize::from(source.0)).map(|&had| had.max(self.virtual_time));
        let next = servable.iter().min_by_key(|&source| claim(source))?;
        self.virtual_time = claim(next)?;
        Some(next)
    }

    fn charge(&mut self, source: SourceId, is_input: bool, elapsed: Duration) {
        let weight = if is_input { self.weights.receive } else { self.weights.transmit };
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX) / u64::from(weight.max(1));
        if let Some(had) = self.had.get_mut(usize::from(source.0)) {
            *had = (*had).max(self.virtual_time).saturating_add(nanos);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUT: SourceId = SourceId(0);
    const OUTPUT: SourceId = SourceId(1);
    const US: Duration = Duration::from_micros(1);

    fn tasks(receive: u16, transmit: u16) -> Order {
        Order::Weighted(Tasks::new(TaskWeights { receive, transmit }))
    }

    /// Returns how often each of two sources is served in a hundred turns that take `us` microseconds each.
    fn turns(order: &mut Order, servable: Sources, us: [u32; 2]) -> [u32; 2] {
        let mut turns = [0, 0];
        for _ in 0..100 {
            let source = order.next(Sources::one(INPUT), servable).map_or(0, |s| usize::from(s.0));
            turns[source] += 1;
            order.charge(SourceId(source as u16), source == 0, US * us[source]);
        }
        turns
    }

    #[test]
    fn tasks_share_the_core_in_proportion_to_their_weights() {
        let both = Sources::one(INPUT).union(Sources::one(OUTPUT));
        assert_eq!(turns(&mut tasks(1, 1), both, [10, 10]), [50, 50]);
        assert_eq!(turns(&mut tasks(4, 1), both, [10, 10]), [80, 20]);
        // Of time, not of turns.
        assert_eq!(turns(&mut tasks(1, 1), both, [40, 10]), [20, 80]);
    }

    #[test]
    fn a_task_without_work_makes_no_claim_to_the_time_it_left() {
        let both = Sources::one(INPUT).union(Sources::one(OUTPUT));
        let mut order = tasks(1, 1);
        assert_eq!(turns(&mut order, Sources::one(INPUT), [10, 10]), [100, 0]);
        assert_eq!(turns(&mut order, both, [10, 10]), [50, 50]);
    }
}
