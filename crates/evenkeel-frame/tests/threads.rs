//! Frames that go from thread to thread, and come home from anywhere.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use evenkeel_frame::{Frame, Pool};

const PKTS: usize = if cfg!(miri) { 8 } else { 64 };
const THREADS: u64 = 3;

/// Fills a frame with what is told by its number.
fn write(frame: &mut Frame, number: u64) {
    assert!(frame.resize(64));
    frame.bytes_mut().chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&number.to_le_bytes()));
}

fn read(frame: &Frame) -> u64 {
    let words: Vec<_> =
        frame.bytes().chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words, [words[0]; 8], "nobody else wrote into it");
    words[0]
}

/// Reads and writes what it gets. Some goes on to its neighbour, some is dropped here.
fn pass_on(from: &Receiver<Frame>, to: &Sender<Frame>) {
    for mut frame in from {
        let number = read(&frame);
        write(&mut frame, number + 1);
        if number % 3 != 0 {
            // The neighbour may be gone: then it is dropped here.
            let _ = to.send(frame);
        }
    }
}

#[test]
fn every_frame_comes_home_from_other_threads() {
    let rounds = if cfg!(miri) { 60 } else { 20_000 };
    let mut pool = Pool::new(PKTS);
    let mut taken = 0;
    thread::scope(|scope| {
        let (mut first, mut from) = channel();
        let (home, back) = channel();
        let entrance = first.clone();
        for thread in 1..=THREADS {
            let (to, next) = channel();
            let to = if thread == THREADS { home.clone() } else { to };
            scope.spawn(move || pass_on(&from, &to));
            (first, from) = (home.clone(), next);
        }
        drop((first, home, from));
        for round in 0..rounds {
            if let Some(mut frame) = pool.take() {
                write(&mut frame, round);
                taken += 1;
                entrance.send(frame).unwrap();
            }
            if round.is_multiple_of(2)
                && let Ok(frame) = back.try_recv()
            {
                read(&frame);
                pool.recycle(frame);
            }
        }
        drop(entrance);
        back.iter().for_each(drop);
    });
    assert!(taken >= PKTS as u64);
    assert_eq!((pool.available(), pool.capacity()), (PKTS, PKTS));
    let all: Vec<_> = core::iter::from_fn(|| pool.take()).collect();
    assert_eq!(all.len(), PKTS);
}

#[test]
fn threads_that_drop_at_the_same_time_as_the_pool_goes() {
    for round in 0..if cfg!(miri) { 3 } else { 500 } {
        let mut pool = Pool::new(PKTS);
        let mut frames: Vec<_> = core::iter::from_fn(|| pool.take()).collect();
        frames.iter_mut().for_each(|frame| write(frame, round));
        let mut parts: Vec<Vec<Frame>> = (0..THREADS).map(|_| frames.drain(..PKTS / 4).collect()).collect();
        pool.recycle(frames.pop().unwrap());
        thread::scope(|scope| {
            for part in parts.drain(..) {
                scope.spawn(move || part.into_iter().for_each(|frame| assert_eq!(read(&frame), round)));
            }
            scope.spawn(move || drop(pool));
            scope.spawn(move || drop(frames));
        });
    }
}

#[test]
fn memory_falls_while_others_drop() {
    for _ in 0..if cfg!(miri) { 3 } else { 500 } {
        let mut pool = Pool::with_limit(4 * PKTS);
        (0..4).for_each(|_| pool.grow(PKTS).unwrap());
        let mut frames: Vec<_> = core::iter::from_fn(|| pool.take()).collect();
        let others = frames.split_off(2 * PKTS);
        let pool = thread::scope(|scope| {
            scope.spawn(move || drop(others));
            let shrinking = scope.spawn(move || {
                for frame in frames {
                    pool.recycle(frame);
                    pool.shrink(1);
                }
                pool
            });
            shrinking.join().unwrap()
        });
        let mut pool = pool;
        pool.shrink(4 * PKTS);
        assert_eq!((pool.capacity(), pool.allocated()), (0, 0));
    }
}
