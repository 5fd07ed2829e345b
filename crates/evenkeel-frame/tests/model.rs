//! Pools beside a model of a few numbers, whatever is done with them in whatever order, and by whichever
//! thread: nothing is lost, nothing is handed out twice, and the bytes of a frame stay what its owner wrote.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::thread;

use evenkeel_frame::{Frame, HEADROOM, Pool};
use proptest::prelude::*;

const LIMIT: usize = 64;
const POOLS: usize = 2;
const OPS_MAX: usize = if cfg!(miri) { 60 } else { 300 };
/// Bytes are compared one by one, for which Miri takes its time.
const LEN_MAX: usize = if cfg!(miri) { 40 } else { 1900 };

#[derive(Debug, Clone)]
enum Op {
    Grow(usize, usize),
    Shrink(usize, usize),
    Take(usize),
    Write(usize, u8, usize),
    Strip(usize, usize),
    /// To a pool, which may be another one than it is of.
    Recycle(usize, usize),
    Drop(usize),
    /// Written and dropped on another thread.
    DropElsewhere(usize),
    /// The pool goes, and a new one takes its place.
    Replace(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let (pool, pkts, frame) = (0..POOLS, 0..20_usize, any::<usize>());
    prop_oneof![
        2 => (pool.clone(), pkts.clone()).prop_map(|(pool, pkts)| Op::Grow(pool, pkts)),
        2 => (pool.clone(), pkts.clone()).prop_map(|(pool, pkts)| Op::Shrink(pool, pkts)),
        12 => pool.clone().prop_map(Op::Take),
        4 => (frame, any::<u8>(), 0..LEN_MAX).prop_map(|(frame, value, len)| Op::Write(frame, value, len)),
        2 => (frame, 0..HEADROOM).prop_map(|(frame, len)| Op::Strip(frame, len)),
        5 => (frame, pool.clone()).prop_map(|(frame, pool)| Op::Recycle(frame, pool)),
        3 => frame.prop_map(Op::Drop),
        2 => frame.prop_map(Op::DropElsewhere),
        1 => pool.prop_map(Op::Replace),
    ]
}

/// A frame that is out, and what it must look like.
struct Out {
    frame: Frame,
    /// The pool it is of, unless that is gone.
    pool: Option<usize>,
    bytes: Vec<u8>,
}

/// A model of a pool: the counts that a correct pool has.
#[derive(Debug, Default, Clone, Copy)]
struct Model {
    capacity: usize,
    free: usize,
    /// Dropped, and not collected.
    returned: usize,
    exhausted: u64,
}

impl Model {
    fn collect(&mut self) {
        self.free = (self.free + self.returned).min(self.capacity);
        self.returned = 0;
    }

    fn grow(&mut self, pkts: usize) {
        self.collect();
        self.capacity += pkts;
        self.free += pkts;
    }

    fn shrink(&mut self, pkts: usize) {
        self.collect();
        self.capacity = self.capacity.saturating_sub(pkts);
        self.free = self.free.min(self.capacity);
    }

    fn take(&mut self) -> bool {
        if self.free == 0 {
            self.collect();
        }
        let taken = self.free > 0;
        self.free -= usize::from(taken);
        self.exhausted += u64::from(!taken);
        taken
    }

    fn recycle(&mut self) {
        self.free = (self.free + 1).min(self.capacity);
    }
}

struct World {
    pools: [Pool; POOLS],
    models: [Model; POOLS],
    out: Vec<Out>,
}

impl World {
    fn new() -> Self {
        let pools = core::array::from_fn(|_| Pool::with_limit(LIMIT));
        Self { pools, models: [Model::default(); POOLS], out: Vec::new() }
    }

    fn some_out(&mut self, choice: usize) -> Option<&mut Out> {
        let count = self.out.len().max(1);
        self.out.get_mut(choice % count)
    }

    fn remove(&mut self, choice: usize) -> Option<Out> {
        let count = self.out.len().max(1);
        (!self.out.is_empty()).then(|| self.out.swap_remove(choice % count))
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Grow(pool, pkts) => {
                let fits = self.models[pool].capacity + pkts <= LIMIT;
                assert_eq!(self.pools[pool].grow(pkts).is_ok(), fits);
                if fits {
                    self.models[pool].grow(pkts);
                }
            }
            Op::Shrink(pool, pkts) => {
                self.pools[pool].shrink(pkts);
                self.models[pool].shrink(pkts);
            }
            Op::Take(pool) => self.take(pool),
            Op::Write(choice, value, len) => {
                let Some(out) = self.some_out(choice) else { return };
                assert!(out.frame.set(HEADROOM, len));
                out.frame.bytes_mut().fill(value);
                out.bytes = vec![value; len];
            }
            Op::Strip(choice, len) => {
                let Some(out) = self.some_out(choice) else { return };
                if out.frame.strip(len) {
                    out.bytes.drain(..len);
                } else {
                    assert!(len > out.bytes.len());
                }
            }
            Op::Recycle(choice, pool) => {
                let Some(out) = self.remove(choice) else { return };
                self.pools[pool].recycle(out.frame);
                match out.pool {
                    Some(its) if its == pool => self.models[pool].recycle(),
                    Some(other) => self.models[other].returned += 1,
                    None => {}
                }
            }
            Op::Drop(choice) => {
                let Some(Out { pool: Some(pool), .. }) = self.remove(choice) else { return };
                self.models[pool].returned += 1;
            }
            Op::DropElsewhere(choice) => {
                let Some(Out { mut frame, pool, .. }) = self.remove(choice) else { return };
                thread::spawn(move || frame.bytes_mut().fill(0xdd)).join().unwrap();
                if let Some(pool) = pool {
                    self.models[pool].returned += 1;
                }
            }
            Op::Replace(pool) => {
                self.pools[pool] = Pool::with_limit(LIMIT);
                self.models[pool] = Model::default();
                self.out.iter_mut().filter(|out| out.pool == Some(pool)).for_each(|out| out.pool = None);
            }
        }
    }

    fn take(&mut self, pool: usize) {
        let frame = self.pools[pool].take();
        assert_eq!(frame.is_some(), self.models[pool].take());
        let Some(frame) = frame else { return };
        assert_eq!(frame.len(), 0);
        self.out.push(Out { frame, pool: Some(pool), bytes: Vec::new() });
    }

    fn check(&self) {
        for (pool, model) in self.pools.iter().zip(&self.models) {
            let available = (model.free + model.returned).min(model.capacity);
            assert_eq!((pool.available(), pool.capacity()), (available, model.capacity));
            assert_eq!(pool.exhausted(), model.exhausted);
            assert!(pool.allocated() >= pool.capacity());
        }
        for out in &self.out {
            assert_eq!(out.frame.bytes(), &out.bytes[..]);
        }
        let mut places = BTreeMap::new();
        for out in &self.out {
            // Two frames in one buffer are never as far apart as this.
            let at = out.frame.bytes().as_ptr().addr();
            let before = places.range(..=at).next_back().is_none_or(|(&other, ())| at - other > 64);
            let after = places.range(at..).next().is_none_or(|(&other, ())| other - at > 64);
            assert!(before && after, "two frames in one buffer");
            places.insert(at, ());
        }
    }

    /// All memory goes back when everything is given back.
    fn end(mut self) {
        self.out.clear();
        for pool in &mut self.pools {
            pool.shrink(LIMIT);
            assert_eq!((pool.available(), pool.capacity(), pool.allocated()), (0, 0, 0));
        }
    }
}

fn config() -> ProptestConfig {
    let cases = if cfg!(miri) { 6 } else { 1000 };
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 10_000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn pools_are_what_their_model_is(ops in prop::collection::vec(op(), 0..OPS_MAX)) {
        let mut world = World::new();
        for op in &ops {
            world.apply(op);
            world.check();
        }
        world.end();
    }
}
