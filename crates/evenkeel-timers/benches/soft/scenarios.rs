//! The scenarios of the benchmark. In each, a number of events are pending, and one falls due every 20
//! ticks on average.

use std::hint::black_box;

use evenkeel_timers::{SoftEvent, SoftTimers};

use crate::random::Random;

/// Does it some times.
pub(crate) type Turn = Box<dyn FnMut()>;

pub(crate) struct Scenario {
    pub(crate) name: String,
    /// The number of checks or events in a turn.
    pub(crate) things: usize,
    pub(crate) make: Box<dyn Fn() -> Turn>,
}

/// The number of repetitions in a turn.
const TIMES: usize = 64;
/// Ticks from one event to the next, on average.
const GAP: u64 = 20;

pub(crate) fn all() -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut add = |name: String, make: Box<dyn Fn() -> Turn>| {
        all.push(Scenario { name, things: TIMES, make });
    };
    for (pending, number) in [(1, "1"), (1_000, "1 000"), (1_000_000, "1 000 000")] {
        add(format!("check, nothing due, {number} pending"), Box::new(move || check(pending)));
        add(
            format!("scheduled and cancelled, {number} pending"),
            Box::new(move || cancelled(pending, false)),
        );
        add(
            format!("scheduled with deadline and cancelled, {number} pending"),
            Box::new(move || cancelled(pending, true)),
        );
        add(format!("happens, scheduled again, {number} pending"), Box::new(move || happens(pending, false)));
        add(
            format!("happens, scheduled again with deadline, {number} pending"),
            Box::new(move || happens(pending, true)),
        );
        add(
            format!("overdue, scheduled again with deadline, {number} pending"),
            Box::new(move || overdue(pending)),
        );
    }
    add("handler at every trigger state".to_owned(), Box::new(every_trigger_state));
    all
}

/// Events and what is to come.
struct World {
    events: SoftTimers<u32>,
    random: Random,
    now: u64,
    /// All fall due within so many ticks.
    span: u64,
}

impl World {
    fn new(pending: u64, with_deadline: bool) -> Self {
        let events = SoftTimers::new(1_000_000, 1_000);
        let mut world = Self { events, random: Random(1), now: 0, span: 2 * GAP * pending };
        (0..pending).for_each(|who| _ = world.schedule(who as u32, with_deadline));
        world
    }

    fn schedule(&mut self, who: u32, with_deadline: bool) -> SoftEvent {
        let ticks = self.random.below(self.span);
        if with_deadline {
            self.events.schedule_with_deadline(self.now, ticks, ticks + 50, who)
        } else {
            self.events.schedule_soft_event(self.now, ticks, who)
        }
    }
}

fn check(pending: u64) -> Turn {
    let mut world = World::new(pending, false);
    Box::new(move || {
        for _ in 0..TIMES {
            assert_eq!(world.events.poll_event(black_box(world.now)), None);
        }
    })
}

fn cancelled(pending: u64, with_deadline: bool) -> Turn {
    let mut world = World::new(pending, with_deadline);
    let mut scheduled = Vec::with_capacity(TIMES);
    Box::new(move || {
        (0..TIMES).for_each(|who| scheduled.push(world.schedule(who as u32, with_deadline)));
        scheduled.drain(..).for_each(|event| assert!(world.events.cancel(event).is_some()));
    })
}

fn happens(pending: u64, with_deadline: bool) -> Turn {
    let mut world = World::new(pending, with_deadline);
    Box::new(move || {
        let mut happened = 0;
        while happened < TIMES {
            world.now += GAP;
            while happened < TIMES
                && let Some(who) = world.events.poll_event(world.now)
            {
                world.schedule(who, with_deadline);
                happened += 1;
            }
        }
    })
}

/// Measures events without trigger states: a one-shot timer fires for each.
fn overdue(pending: u64) -> Turn {
    let mut world = World::new(pending, true);
    Box::new(move || {
        let mut happened = 0;
        while happened < TIMES {
            world.now = world.now.max(world.events.next_deadline().unwrap());
            while happened < TIMES
                && let Some(who) = world.events.poll_overdue(world.now)
            {
                world.schedule(who, true);
                happened += 1;
            }
        }
    })
}

fn every_trigger_state() -> Turn {
    let mut world = World::new(0, false);
    world.events.schedule_soft_event(0, 0, 7);
    Box::new(move || {
        for _ in 0..TIMES {
            world.now += 1;
            let who = world.events.poll_event(world.now).unwrap();
            world.events.schedule_soft_event(world.now, 0, who);
        }
    })
}
