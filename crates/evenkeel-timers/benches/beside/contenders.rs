//! Ours, and other people's.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use evenkeel_timers::{SoftEvent, SoftTimers};
use hierarchical_hash_wheel_timer::IdOnlyTimerEntry;
use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::QuadWheelWithOverflow;
use tokio::runtime::{Builder, Runtime};
use tokio_util::time::{DelayQueue, delay_queue};

use crate::Timers;

type Make = fn() -> Box<dyn Timers>;

pub(crate) const CONTENDERS: [(&str, Make); 6] = [
    ("evenkeel SoftTimers", || Box::new(Soft::new(false))),
    ("evenkeel SoftTimers, deadlines", || Box::new(Soft::new(true))),
    ("std BinaryHeap", || Box::new(Heap::default())),
    ("std BTreeMap", || Box::new(Tree::default())),
    ("hierarchical_hash_wheel_timer", || Box::new(HashWheel::new())),
    ("tokio-util DelayQueue", || Box::new(Tokio::new())),
];

/// Stores the key by which a contender's timers name the event of `who`.
fn keep<K: Clone>(keys: &mut Vec<K>, who: u32, key: K) {
    let who = who as usize;
    if keys.len() <= who {
        keys.resize(who + 1, key.clone());
    }
    keys[who] = key;
}

struct Soft {
    events: SoftTimers<u32>,
    with_deadline: bool,
    keys: Vec<SoftEvent>,
}

impl Soft {
    fn new(with_deadline: bool) -> Self {
        Self { events: SoftTimers::new(1_000_000, 1_000), with_deadline, keys: Vec::new() }
    }
}

impl Timers for Soft {
    fn schedule(&mut self, now: u64, ticks: u64, who: u32) {
        let event = if self.with_deadline {
            self.events.schedule_with_deadline(now, ticks, ticks + 50, who)
        } else {
            self.events.schedule_soft_event(now, ticks, who)
        };
        keep(&mut self.keys, who, event);
    }

    fn cancel(&mut self, who: u32) {
        assert!(self.events.cancel(self.keys[who as usize]).is_some());
    }

    fn check(&mut self, now: u64) -> bool {
        self.events.is_due(now)
    }

    fn happens(&mut self, now: u64, happened: &mut Vec<u32>) {
        happened.extend(core::iter::from_fn(|| self.events.poll_event(now)));
    }
}

/// With a number for each event, so that one that was cancelled is not taken for a later one of the same.
#[derive(Default)]
struct Heap {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    numbers: Vec<u64>,
    scheduled: u64,
}

impl Timers for Heap {
    fn schedule(&mut self, now: u64, ticks: u64, who: u32) {
        self.scheduled += 1;
        self.heap.push(Reverse((now + ticks + 1, self.scheduled, who)));
        keep(&mut self.numbers, who, self.scheduled);
    }

    fn cancel(&mut self, who: u32) {
        self.numbers[who as usize] = 0;
    }

    fn check(&mut self, now: u64) -> bool {
        self.heap.peek().is_some_and(|Reverse((due, ..))| *due <= now)
    }

    fn happens(&mut self, now: u64, happened: &mut Vec<u32>) {
        while self.check(now)
            && let Some(Reverse((_, number, who))) = self.heap.pop()
        {
            if self.numbers[who as usize] == number {
                happened.push(who);
            }
        }
    }
}

#[derive(Default)]
struct Tree {
    tree: BTreeMap<(u64, u32), ()>,
    due: Vec<u64>,
}

impl Timers for Tree {
    fn schedule(&mut self, now: u64, ticks: u64, who: u32) {
        self.tree.insert((now + ticks + 1, who), ());
        keep(&mut self.due, who, now + ticks + 1);
    }

    fn cancel(&mut self, who: u32) {
        assert!(self.tree.remove(&(self.due[who as usize], who)).is_some());
    }

    fn check(&mut self, now: u64) -> bool {
        self.tree.first_key_value().is_some_and(|((due, _), ())| *due <= now)
    }

    fn happens(&mut self, now: u64, happened: &mut Vec<u32>) {
        while let Some(first) = self.tree.first_entry().filter(|first| first.key().0 <= now) {
            happened.push(first.remove_entry().0.1);
        }
    }
}

/// It knows no times, but ticks that pass.
struct HashWheel {
    wheel: QuadWheelWithOverflow<IdOnlyTimerEntry<u32>>,
    now: u64,
}

impl HashWheel {
    fn new() -> Self {
        Self { wheel: QuadWheelWithOverflow::new(), now: 0 }
    }
}

impl Timers for HashWheel {
    fn schedule(&mut self, now: u64, ticks: u64, who: u32) {
        assert_eq!(self.now, now);
        let entry = IdOnlyTimerEntry::new(who, Duration::from_millis(ticks + 1));
        assert!(self.wheel.insert(entry).is_ok());
    }

    fn cancel(&mut self, who: u32) {
        assert!(self.wheel.cancel(&who).is_ok());
    }

    fn check(&mut self, now: u64) -> bool {
        // What it can say: whether the next tick may be skipped.
        now > self.now && matches!(self.wheel.can_skip(), Skip::None)
    }

    fn happens(&mut self, now: u64, happened: &mut Vec<u32>) {
        while self.now < now {
            let left = (now - self.now) as u32;
            match self.wheel.can_skip() {
                Skip::Millis(ticks) => {
                    let ticks = ticks.min(left);
                    self.wheel.skip(ticks);
                    self.now += u64::from(ticks);
                }
                Skip::Empty => self.now = now,
                Skip::None => {
                    let expired: Vec<Rc<IdOnlyTimerEntry<u32>>> = self.wheel.tick();
                    happened.extend(expired.iter().map(|entry| entry.id));
                    self.now += 1;
                }
            }
        }
    }
}

struct Tokio {
    queue: DelayQueue<u32>,
    keys: Vec<Option<delay_queue::Key>>,
    now: u64,
    begin: tokio::time::Instant,
    runtime: Runtime,
}

impl Tokio {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (begin, queue) = runtime.block_on(async { (tokio::time::Instant::now(), DelayQueue::new()) });
        Self { queue, keys: Vec::new(), now: 0, begin, runtime }
    }

    fn poll(&mut self) -> Option<u32> {
        match self.queue.poll_expired(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(Some(expired)) => Some(expired.into_inner()),
            _ => None,
        }
    }
}

impl Timers for Tokio {
    fn schedule(&mut self, now: u64, ticks: u64, who: u32) {
        let _context = self.runtime.enter();
        let key = self.queue.insert_at(who, self.begin + Duration::from_millis(now + ticks + 1));
        keep(&mut self.keys, who, Some(key));
    }

    fn cancel(&mut self, who: u32) {
        self.queue.remove(&self.keys[who as usize].take().unwrap());
    }

    fn check(&mut self, _: u64) -> bool {
        self.poll().is_some()
    }

    fn set_clock(&mut self, now: u64) {
        let by = Duration::from_millis(now - self.now);
        self.runtime.block_on(tokio::time::advance(by));
        self.now = now;
    }

    fn happens(&mut self, _: u64, happened: &mut Vec<u32>) {
        let runtime = self.runtime.handle().clone();
        let _context = runtime.enter();
        happened.extend(core::iter::from_fn(|| self.poll()));
    }
}
