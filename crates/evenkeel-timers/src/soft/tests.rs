use proptest::prelude::*;

use super::*;
use random::Random;

#[path = "../../benches/random/mod.rs"]
mod random;

/// Parts of a tick in which the world goes on.
const FINE: u64 = 8;

fn taken<W>(poll: impl FnMut() -> Option<W>) -> Vec<W> {
    core::iter::from_fn(poll).collect()
}

/// The time at which an event was scheduled, its delay in ticks, and its latest time.
#[derive(Debug, Clone, Copy)]
struct Asked {
    at: u64,
    ticks: u64,
    latest: Option<u64>,
}

/// A core in time finer than its clock.
struct World {
    events: SoftTimers<Asked>,
    /// From one interrupt of the backing to the next, and when it comes first; in parts of a tick.
    period: u64,
    phase: u64,
    now: u64,
    /// The events that have happened, and when.
    happened: Vec<(Asked, u64)>,
}

impl World {
    fn new(interrupt_interval: u64, phase: u64) -> Self {
        let period = interrupt_interval * FINE;
        let events = SoftTimers::new(interrupt_interval * 1_000, 1_000);
        assert_eq!(events.interrupt_interval(), interrupt_interval);
        Self { events, period, phase: phase % period, now: 0, happened: Vec::new() }
    }

    fn schedule(&mut self, ticks: u64, latest: Option<u64>) {
        let (asked, measured) = (Asked { at: self.now, ticks, latest }, self.now / FINE);
        match latest {
            Some(latest) => self.events.schedule_with_deadline(measured, ticks, latest, asked),
            None => self.events.schedule_soft_event(measured, ticks, asked),
        };
    }

    fn trigger(&mut self) {
        let now = self.now;
        let due = taken(|| self.events.poll_event(now / FINE));
        self.happened.extend(due.into_iter().map(|asked| (asked, now)));
    }

    /// Advances time with a backing that comes at its period.
    fn pass_with_a_period(&mut self, by: u64) {
        let end = self.now + by;
        while let Some(next) = Some(self.next_interrupt()).filter(|next| *next <= end) {
            self.now = next;
            self.trigger();
        }
        self.now = end;
    }

    fn next_interrupt(&self) -> u64 {
        let periods = (self.now + self.period - self.phase) / self.period;
        self.phase + periods * self.period
    }

    /// Advances time with a one-shot backing, which is always set to the earliest deadline.
    fn pass_with_a_one_shot(&mut self, by: u64) {
        let end = self.now + by;
        while let Some(deadline) = self.events.next_deadline().filter(|deadline| deadline * FINE <= end) {
            self.now = self.now.max(deadline * FINE);
            let overdue = taken(|| self.events.poll_overdue(self.now / FINE));
            assert!(!overdue.is_empty(), "nobody is woken in vain");
            self.happened.extend(overdue.into_iter().map(|asked| (asked, self.now)));
        }
        self.now = end;
    }
}

/// Returns whether an event was called early, against the bound `T < actual`, in parts of a tick.
fn is_early((asked, at): &(Asked, u64)) -> bool {
    at - asked.at <= asked.ticks * FINE
}

#[test]
fn figure_1_the_bounds_for_t_1_and_x_2_are_kept_and_reached() {
    let mut actual = Vec::new();
    for scheduled in 0..4 * FINE {
        for phase in 0..2 * FINE {
            for every_moment_is_a_trigger_state in [false, true] {
                let mut world = World::new(2, phase);
                world.pass_with_a_period(scheduled);
                world.schedule(1, None);
                while world.happened.is_empty() {
                    world.pass_with_a_period(1);
                    if every_moment_is_a_trigger_state {
                        world.trigger();
                    }
                }
                actual.push(world.happened[0].1 - scheduled);
            }
        }
    }
    // 1 < actual < 4, and as close to both as time goes on here.
    assert_eq!((actual.iter().min(), actual.iter().max()), (Some(&(FINE + 1)), Some(&(4 * FINE - 1))));
}

#[test]
fn t_0_never_happens_in_the_same_tick() {
    let mut events = SoftTimers::new(1_000_000, 1_000);
    for now in 0..1_000 {
        events.schedule_soft_event(now, 0, now);
        assert_eq!(taken(|| events.poll_event(now)), if now == 0 { vec![] } else { vec![now - 1] });
        assert!(!events.is_due(now) && events.is_due(now + 1));
    }
}

#[test]
fn a_handler_that_schedules_itself_for_0_is_called_at_every_trigger_state() {
    let (mut events, mut random) = (SoftTimers::new(1_000_000_000, 1_000), Random(1));
    let (mut now, mut gaps, mut measured) = (0, Vec::new(), Vec::new());
    events.schedule_soft_event(now, 0, now);
    for _ in 0..1_000 {
        let gap = 1 + random.below(5_000);
        now += gap;
        gaps.push(gap);
        while let Some(before) = events.poll_event(now) {
            measured.push(now - before);
            events.schedule_soft_event(now, 0, now);
        }
    }
    assert_eq!(measured, gaps);
}

/// Delays beyond `T` of many events, scheduled at random times, in parts of a tick.
fn delays(interrupt_interval: u64, trigger_gap: Option<u64>) -> Vec<u64> {
    let mut world = World::new(interrupt_interval, 5);
    let mut random = Random(42);
    let mut next_trigger = trigger_gap.unwrap_or(u64::MAX);
    for _ in 0..20_000 {
        let end = world.now + random.below(3 * interrupt_interval * FINE);
        while next_trigger <= end {
            world.pass_with_a_period(next_trigger - world.now);
            world.trigger();
            next_trigger += trigger_gap.unwrap_or_default();
        }
        world.pass_with_a_period(end - world.now);
        let ticks = random.below(2 * interrupt_interval);
        world.schedule(ticks, None);
    }
    world.happened.iter().map(|(asked, at)| at - asked.at - asked.ticks * FINE).collect()
}

/// Returns the percentage of delays in each of ten equal parts of the range up to `end`.
fn tenths(delays: &[u64], end: u64) -> [usize; 10] {
    let mut counts = [0; 10];
    delays.iter().for_each(|delay| counts[(delay * 10 / end) as usize] += 1);
    counts.map(|count| (count * 100 + delays.len() / 2) / delays.len())
}

#[test]
fn without_trigger_states_the_delay_is_uniform_over_an_interval_of_the_backing() {
    const X: u64 = 200;
    let delays = delays(X, None);
    assert!(delays.iter().all(|delay| (1..(X + 1) * FINE).contains(delay)));
    assert!(delays.iter().any(|delay| *delay >= X * FINE), "the most that is allowed is reached");
    let tenths = tenths(&delays, (X + 1) * FINE);
    assert!(tenths.iter().all(|percent| (9..=11).contains(percent)), "{tenths:?}");
}

#[test]
fn with_trigger_states_at_a_regular_gap_the_delay_is_uniform_over_the_gap() {
    const X: u64 = 1_000;
    const GAP: u64 = 20;
    let delays = delays(X, Some(GAP * FINE));
    assert!(delays.iter().all(|delay| (1..=GAP * FINE).contains(delay)));
    let tenths = tenths(&delays, GAP * FINE + 1);
    assert!(tenths.iter().all(|percent| (9..=11).contains(percent)), "{tenths:?}");
}

#[test]
fn an_idle_core_spins_only_if_something_falls_due_before_the_backing_comes() {
    const NOW: u64 = 500;
    let mut events = SoftTimers::new(1_000_000, 1_000);
    let halt = |until| Idle::Halt { until: Some(until) };
    assert_eq!(events.idle(NOW, None, false), Idle::Halt { until: None });
    assert_eq!(events.idle(NOW, Some(1_000), false), halt(1_000));
    let event = events.schedule_soft_event(0, 998, ());
    assert_eq!(events.idle(NOW, Some(1_000), false), Idle::Spin);
    assert_eq!(events.idle(NOW, Some(1_000), true), halt(1_000));
    assert_eq!(events.idle(NOW, Some(999), false), halt(999), "the backing is as early");
    events.cancel(event);
    events.schedule_with_deadline(0, 998, 0, ());
    assert_eq!(events.idle(NOW, Some(1_000), false), halt(999), "the one-shot is as early");
}

#[test]
fn with_a_one_shot_an_idle_core_spins_for_an_interval_before_something_is_due() {
    let mut events = SoftTimers::new(1_000_000, 1_000);
    let halt = |until| Idle::Halt { until: Some(until) };
    let event = events.schedule_soft_event(0, 4_999, ());
    assert_eq!(events.idle(0, None, false), halt(4_000));
    assert_eq!(events.idle(3_999, None, false), halt(4_000));
    assert_eq!(events.idle(4_000, None, false), Idle::Spin);
    assert_eq!(events.idle(4_000, None, true), halt(6_000), "what the other one misses");
    // Somebody is to be woken exactly when spinning begins: that needs no spinning before.
    events.schedule_with_deadline(0, 3_999, 0, ());
    assert_eq!(events.idle(3_500, None, false), halt(4_000));
    events.cancel(event);
    assert_eq!(taken(|| events.poll_overdue(4_000)), [()]);
    assert_eq!(events.idle(4_000, None, false), Idle::Halt { until: None });
}

#[test]
fn of_two_idle_cores_exactly_one_checks() {
    const X: u64 = 1_000;
    let (mut events, mut random) = (SoftTimers::new(1_000_000, 1_000), Random(7));
    // Who is idle, and who of them checks.
    let (mut idle, mut checks) = ([false; 2], [false; 2]);
    let mut checked = 0;
    for now in 0..200_000 {
        let next_interrupt = (now / X + 1) * X;
        if random.below(50) == 0 {
            let ticks = random.below(2 * X);
            events.schedule_soft_event(now, ticks, ());
        }
        for core in 0..2 {
            if random.below(20) == 0 {
                idle[core] = !idle[core];
            }
            // A core that halts decides anew when the interrupt wakes it or when the other goes away, here
            // at each tick.
            let another_checks = checks[1 - core] && idle[1 - core];
            checks[core] = idle[core] && events.idle(now, Some(next_interrupt), another_checks) == Idle::Spin;
        }
        let something_to_check = events.next_due().is_some_and(|due| due < next_interrupt);
        if idle == [true; 2] {
            let checking = checks.iter().filter(|checks| **checks).count();
            assert_eq!(checking, usize::from(something_to_check), "at {now}");
            checked += checking;
        }
        if checks != [false; 2] || now % X == 0 {
            taken(|| events.poll_event(now));
        }
    }
    assert!(checked > 10_000, "{checked}");
}

#[test]
fn ticks_and_instants() {
    let events = SoftTimers::<()>::new(1_000_000, 1_000);
    assert_eq!((events.measure_resolution(), events.interrupt_clock_resolution()), (1_000_000, 1_000));
    assert_eq!(events.measure_time(Instant::from_nanos(1_999)), 1);
    assert_eq!(events.instant(2), Instant::from_nanos(2_000));
    for resolution in [1, 1_000, 32_768, 1_000_000_000, 2_100_000_000] {
        let events = SoftTimers::<()>::new(resolution, 1_000);
        for ticks in [0, 1, 2, 3, 1_000, 123_456_789] {
            let first = events.instant(ticks);
            assert!(events.measure_time(first) >= ticks, "{ticks} of {resolution}");
            let before = Instant::from_nanos(first.as_nanos().saturating_sub(1));
            assert!(ticks == 0 || events.measure_time(before) < ticks, "{ticks} of {resolution}");
        }
    }
    let odd = SoftTimers::<()>::new(10, 1_000);
    assert_eq!((odd.interrupt_clock_resolution(), odd.interrupt_interval()), (10, 1));
    assert_eq!(SoftTimers::<()>::new(1_000, 300).interrupt_interval(), 4);
}

#[test]
fn who_is_forgotten_is_returned_and_later_events_are_others() {
    let mut events = SoftTimers::new(1_000_000, 1_000);
    let first = events.schedule_with_deadline(0, 5, 6, "first");
    assert_eq!(events.cancel(first), Some("first"));
    let old = ["a", "b"].map(|who| events.schedule_with_deadline(0, 10, 20, who));
    assert!(!events.is_pending(first) && events.is_pending(old[0]));
    assert_eq!(events.clear(), ["a", "b"]);
    assert_eq!((events.next_due(), events.next_deadline(), events.len()), (None, None, 0));
    let new = ["c", "d"].map(|who| events.schedule_soft_event(0, 10, who));
    assert!(old.iter().all(|old| !events.is_pending(*old) && events.cancel(*old).is_none()));
    assert_eq!(new.map(|new| events.cancel(new)), [Some("c"), Some("d")]);
    assert_eq!(SoftEvent::from_parts(new[0].into_parts().0, new[0].into_parts().1), new[0]);
}

#[test]
fn an_event_where_the_range_of_the_clock_ends() {
    let mut events = SoftTimers::new(1_000_000, 1_000);
    let event = events.schedule_soft_event(5, u64::MAX, "far");
    assert_eq!((events.len(), events.next_due()), (1, Some(u64::MAX - 1)));
    assert_eq!(events.next_deadline(), None, "there is no such time");
    assert_eq!(events.cancel(event), Some("far"));
    events.schedule_with_deadline(u64::MAX - 10, 3, u64::MAX, "at the end");
    assert_eq!(taken(|| events.poll_overdue(u64::MAX - 7)), [""; 0]);
    assert_eq!(taken(|| events.poll_event(u64::MAX - 6)), ["at the end"]);
}

/// Nodes touched for each event that is scheduled, cancelled or happens, beside so many pending.
fn cost(pending: u64) -> u64 {
    const TIMES: u64 = 100_000;
    let (mut events, mut random) = (SoftTimers::new(1_000_000, 1_000), Random(3));
    // As many fall due in a tick however many there are.
    let span = pending * 4;
    (0..pending).for_each(|who| _ = events.schedule_soft_event(0, random.below(span), who));
    let steps = |events: &SoftTimers<u64>| events.timers.steps() + events.deadlines.steps();
    let (before, mut now, mut happened) = (steps(&events), 0, 0);
    for _ in 0..TIMES {
        now += 4;
        while let Some(who) = events.poll_event(now) {
            happened += 1;
            events.schedule_soft_event(now, random.below(span), who);
        }
        let event = events.schedule_with_deadline(now, random.below(span), 2 * span, 0);
        assert_eq!(events.cancel(event), Some(0));
    }
    assert!(happened > TIMES / 2, "{happened}");
    assert_eq!(events.len() as u64, pending);
    (steps(&events) - before) / (happened + TIMES)
}

#[test]
fn the_cost_does_not_grow_with_a_million_pending() {
    let cost = [1_000, 1_000_000].map(cost);
    assert!(cost.iter().all(|&cost| cost < 30), "{cost:?}");
}

#[test]
fn a_million_events_come_in_order_but_those_that_are_cancelled() {
    const MANY: u64 = 1_000_000;
    let (mut events, mut random) = (SoftTimers::new(1_000_000, 1_000), Random(9));
    let scheduled: Vec<_> = (0..MANY)
        .map(|_| {
            let due = random.below(10_000_000);
            (due, events.schedule_soft_event(0, due, due))
        })
        .collect();
    let (cancelled, kept) = scheduled.split_at(MANY as usize / 3);
    cancelled.iter().for_each(|(due, event)| assert_eq!(events.cancel(*event), Some(*due)));
    let mut expected: Vec<_> = kept.iter().map(|(due, _)| *due).collect();
    expected.sort_unstable();
    let (mut happened, mut now) = (Vec::with_capacity(expected.len()), 0);
    while !events.is_empty() {
        now += random.below(50_000);
        happened.extend(taken(|| events.poll_event(now)));
        assert!(happened.last().is_none_or(|due| *due < now));
        assert!(events.next_due().is_none_or(|due| due > now));
    }
    assert_eq!(happened, expected);
}

#[derive(Debug, Clone)]
enum Step {
    Schedule(u64),
    /// In so many ticks, and so much later at the latest.
    WithDeadline(u64, u64),
    Cancel(usize),
    /// So many ticks pass; then there is a trigger state, or the one-shot goes off.
    Pass(u64, bool),
}

/// Draws a number; each magnitude is as likely as any other.
fn time() -> impl Strategy<Value = u64> {
    (0..40_u32, any::<u64>()).prop_map(|(bits, random)| random & ((1 << bits) - 1))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => time().prop_map(Step::Schedule),
        3 => (time(), 0..2_000_u64).prop_map(|(ticks, slack)| Step::WithDeadline(ticks, slack)),
        2 => (0..200_usize).prop_map(Step::Cancel),
        3 => (time(), any::<bool>()).prop_map(|(by, trigger)| Step::Pass(by, trigger)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Never early, and no later than the backing, with trigger states at random, also further apart than X.
    #[test]
    fn t_is_less_than_the_actual_time_which_is_less_than_t_x_1(
        interrupt_interval in 1..40_u64,
        phase in any::<u64>(),
        steps in prop::collection::vec((0..100_u64, 0..60_u64, any::<bool>()), 1..100),
    ) {
        let mut world = World::new(interrupt_interval, phase);
        for (gap, ticks, schedule_first) in steps {
            // Up to three intervals.
            world.pass_with_a_period(gap * 3 * world.period / 100);
            if schedule_first {
                world.schedule(ticks, None);
            }
            world.trigger();
            if !schedule_first {
                world.schedule(ticks, None);
            }
        }
        world.pass_with_a_period(world.period + 61 * FINE);
        prop_assert!(world.events.is_empty());
        for event in &world.happened {
            let (asked, at) = event;
            prop_assert!(!is_early(event), "{:?}", event);
            let bound = (asked.ticks + interrupt_interval + 1) * FINE;
            prop_assert!(at - asked.at < bound, "{:?}, bound {}", event, bound);
        }
    }

    /// The one-shot comes for those that no trigger state came by for, at their deadlines, and for no others.
    #[test]
    fn nothing_is_later_than_its_deadline(
        interrupt_interval in 1..40_u64,
        steps in prop::collection::vec((0..400_u64, 0..60_u64, prop::option::of(0..100_u64)), 1..100),
    ) {
        let mut world = World::new(interrupt_interval, 0);
        for (gap, ticks, latest) in steps {
            world.pass_with_a_one_shot(gap);
            world.trigger();
            world.schedule(ticks, latest);
        }
        world.pass_with_a_one_shot(world.period + 101 * FINE);
        prop_assert!(world.events.is_empty());
        for event in &world.happened {
            let (Asked { at: scheduled, ticks, latest }, at) = *event;
            prop_assert!(!is_early(event), "{:?}", event);
            let backed = ticks + interrupt_interval;
            let deadline = latest.map_or(backed, |latest| latest.clamp(ticks, backed));
            prop_assert!(at <= (scheduled / FINE + deadline + 1) * FINE, "{:?}, {}", event, deadline);
        }
    }

    /// Against a list of who waits for when, looked through from end to end.
    #[test]
    fn they_do_what_a_sorted_list_does(steps in prop::collection::vec(step(), 1..120)) {
        const X: u64 = 1_000;
        let mut events = SoftTimers::new(1_000_000, 1_000);
        let mut scheduled: Vec<SoftEvent> = Vec::new();
        // When it is due, when that is overdue, and who waits: the number of the event.
        let mut model: Vec<(u64, u64, usize)> = Vec::new();
        let mut now = 0_u64;
        for step in steps {
            let who = scheduled.len();
            match step {
                Step::Schedule(ticks) => {
                    scheduled.push(events.schedule_soft_event(now, ticks, who));
                    model.push((now + ticks + 1, now + ticks + 1 + X, who));
                }
                Step::WithDeadline(ticks, slack) => {
                    scheduled.push(events.schedule_with_deadline(now, ticks, ticks + slack, who));
                    model.push((now + ticks + 1, now + ticks + 1 + slack.min(X), who));
                }
                Step::Cancel(which) => {
                    let Some(event) = scheduled.get(which % who.max(1)) else { continue };
                    let expected = model.extract_if(.., |(.., other)| *other == which % who).next();
                    prop_assert_eq!(events.cancel(*event), expected.map(|(.., who)| who));
                }
                Step::Pass(by, trigger) => {
                    now += by;
                    let is_due = model.iter().any(|(due, ..)| *due <= now);
                    prop_assert_eq!(events.is_due(now), is_due);
                    let when = |(due, overdue, _): &(u64, u64, usize)| if trigger { *due } else { *overdue };
                    let mut expected: Vec<_> = model.extract_if(.., |one| when(one) <= now).collect();
                    let happened = if trigger {
                        taken(|| events.poll_event(now))
                    } else {
                        taken(|| events.poll_overdue(now))
                    };
                    if trigger {
                        let due = |who: &usize| expected.iter().find(|one| one.2 == *who).map(when);
                        prop_assert!(happened.is_sorted_by_key(due));
                    }
                    let mut who: Vec<_> = happened.clone();
                    who.sort_unstable();
                    expected.sort_unstable_by_key(|(.., who)| *who);
                    prop_assert_eq!(who, expected.iter().map(|(.., who)| *who).collect::<Vec<_>>());
                }
            }
            prop_assert_eq!(events.len(), model.len());
            let due = model.iter().map(|(due, ..)| *due).min();
            prop_assert_eq!(events.next_due().map(|due| due.max(now)), due.map(|due| due.max(now)));
            let overdue = model.iter().map(|(_, overdue, _)| *overdue).min();
            prop_assert_eq!(events.next_deadline().map(|at| at.max(now)), overdue.map(|at| at.max(now)));
        }
    }
}
