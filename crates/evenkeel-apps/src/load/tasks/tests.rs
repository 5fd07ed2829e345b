//! Tests of the pool with tasks and servers of arbitrary behaviour, in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel::raw::time::{Duration, Instant};
use proptest::prelude::*;

use super::super::Spacing;
use super::super::account::{Failure, Job};
use super::super::crew::{Chosen, Part as _};
use super::super::curve::Curve;
use super::super::plan::{Load, Plan};
use super::super::report::{Effort, Report};
use super::super::share::Share;
use super::super::transport::Id;
use super::fault::Failed;
use super::pool::{Line, Order, Pool};
use crate::dice::Dice;

/// An end of a simulated connection.
#[derive(Debug, Clone)]
struct End {
    closed: Arc<AtomicBool>,
    is_shared: bool,
}

impl Line for End {
    fn for_request(line: &mut Option<Self>) -> Option<Self> {
        if line.as_ref().is_some_and(|line| line.is_shared) { line.clone() } else { line.take() }
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}

/// The tasks of a thread, each of which ends when the dice say so.
struct Tasks {
    dice: Dice,
    /// Of 100 outcomes, so many are good.
    good: usize,
    streams: usize,
    is_open_loop: bool,
    opening: Vec<Id>,
    asked: Vec<(Id, End, Option<Job>, bool, Instant)>,
    open: BTreeMap<u64, End>,
    /// The largest number of requests that a connection had at a time.
    most: usize,
    /// The requests that have failed twice, by the time at which they were due.
    failed_twice: BTreeSet<Instant>,
}

const FAILURES: [Failure; 4] = [Failure::Reset, Failure::Timeout, Failure::Malformed, Failure::Short];

impl Tasks {
    fn take(&mut self, orders: Vec<Order<End>>, now: Instant) {
        for order in orders {
            match order {
                Order::Open { id, .. } => self.opening.push(id),
                Order::Ask { id, line, job, last } => {
                    let is_lost = job.is_some_and(|job| self.failed_twice.contains(&job.due));
                    assert!(!is_lost, "a request is sent twice at most");
                    self.asked.push((id, line, job, last, now));
                    let together = self.asked.iter().filter(|(other, ..)| *other == id).count();
                    self.most = self.most.max(together);
                }
            }
        }
    }

    fn is_good(&mut self) -> bool {
        self.dice.below(100) < self.good
    }

    /// Ends a task, or a connection.
    fn step(&mut self, pool: &mut Pool<End>, now: Instant) {
        let events = self.opening.len() + self.asked.len() + self.open.len();
        if events == 0 {
            return;
        }
        let event = self.dice.below(events);
        let orders = if event < self.opening.len() {
            self.end_opening(event, pool, now)
        } else if event - self.opening.len() < self.asked.len() {
            self.end_request(event - self.opening.len(), pool, now)
        } else {
            self.end_connection(event - self.opening.len() - self.asked.len(), pool, now);
            Vec::new()
        };
        self.take(orders, now);
    }

    fn end_opening(&mut self, event: usize, pool: &mut Pool<End>, now: Instant) -> Vec<Order<End>> {
        let id = self.opening.swap_remove(event);
        if !self.is_good() {
            return pool.unestablished(id, Failure::Refused, None, now);
        }
        let end = End { closed: Arc::default(), is_shared: self.streams > 1 };
        self.open.insert(id.token(), end.clone());
        pool.established(id, end, now)
    }

    fn end_request(&mut self, event: usize, pool: &mut Pool<End>, now: Instant) -> Vec<Order<End>> {
        let (id, line, job, last, sent) = self.asked.swap_remove(event);
        let keeps = if self.is_good() {
            pool.answered(job.as_ref(), 200, sent, now);
            !last
        } else {
            let failed =
                Failed { failure: FAILURES[self.dice.below(4)], unprocessed: self.dice.below(2) == 0 };
            if let Some(job) = job {
                // In a closed loop, several requests may be due at a time.
                if job.again && self.is_open_loop {
                    self.failed_twice.insert(job.due);
                }
                pool.failed(id, job, failed, self.dice.below(2) == 0, now);
            }
            self.streams > 1
        };
        pool.returned(id, keeps.then_some(line), now)
    }

    /// The server closes a connection. The task of the connection may notice it late.
    fn end_connection(&mut self, event: usize, pool: &mut Pool<End>, now: Instant) {
        let Some((token, end)) = self.open.iter().nth(event).map(|(token, end)| (*token, end.clone())) else {
            return;
        };
        if self.is_good() {
            return;
        }
        if end.closed.swap(true, Ordering::Relaxed) {
            self.open.remove(&token);
            pool.ended(Id::of_token(token), now);
        }
    }
}

proptest! {
    #[test]
    fn every_request_ends_once_whatever_happens(
        seed: u64,
        good in 20_usize..=100,
        streams in prop_oneof![Just(1_usize), 2_usize..6],
        connections in 1_usize..5,
        per_connection in prop_oneof![Just(None), (1_u64..5).prop_map(Some)],
        closed: bool,
        cold in prop_oneof![Just(0_usize), 1_usize..10],
        stop in prop_oneof![Just(None), (1_u64..300).prop_map(Some)],
    ) {
        let length = Duration::from_millis(200);
        let plan = Plan {
            load: if closed {
                Load::Closed
            } else {
                Load::Open { curve: Curve::flat(1_000.0, length), spacing: Spacing::Poisson }
            },
            length,
            warm_up: Duration::from_millis(20),
            connections,
            requests_per_connection: per_connection,
            timeout: Duration::from_millis(50),
            connect_timeout: Duration::from_millis(50),
            cold,
            cold_rate: 100.0,
            interval: Duration::from_millis(50),
            seed,
            share: Share::WHOLE,
        };
        let mut tasks = Tasks {
            dice: Dice::new(seed),
            good,
            streams,
            is_open_loop: !closed,
            opening: Vec::new(),
            asked: Vec::new(),
            open: BTreeMap::new(),
            most: 0,
            failed_twice: BTreeSet::new(),
        };
        let mut pool = Pool::new(plan, streams, true, 2, Chosen::default());
        let mut now = Instant::from_millis(1);
        let stop = stop.map_or(Instant::NEVER, Instant::from_millis);
        while !pool.is_over() {
            if now >= stop {
                pool.stop(now);
                break;
            }
            // A turn that is due at once must not be needed for ever.
            for _ in 0..1_000 {
                let orders = pool.turn(now);
                tasks.take(orders, now);
                if pool.is_over() || pool.deadline() > now {
                    break;
                }
            }
            prop_assert!(pool.is_over() || pool.deadline() > now);
            tasks.step(&mut pool, now);
            pool.check(|id| tasks.open.contains_key(&id.token()));
            now += Duration::from_micros(100);
            prop_assert!(now < Instant::from_millis(20_000), "{:?}", pool.glance(now));
        }
        for (id, _, job, ..) in tasks.asked.drain(..) {
            if let Some(job) = job {
                pool.failed(id, job, Failed::by(Failure::Unfinished), true, now);
            }
        }
        let report = Report::new(&pool.finish(now), Effort::default());
        let counts = report.counts;
        prop_assert_eq!(counts.due, counts.statuses.all() + counts.failed.all());
        prop_assert!(counts.offered <= counts.due && counts.offered >= counts.statuses.all());
        prop_assert!(report.connections.most <= connections && tasks.most <= streams);
        let due: u64 = report.intervals.iter().map(|part| part.due).sum();
        prop_assert_eq!(due, counts.due);
        if stop == Instant::NEVER {
            prop_assert_eq!(counts.failed.of(Failure::Unfinished), 0);
        }
        if good == 100 {
            prop_assert_eq!(counts.failed.of(Failure::Reset), 0);
        }
    }
}
