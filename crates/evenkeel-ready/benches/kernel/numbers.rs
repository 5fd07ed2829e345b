//! Which number a new descriptor gets, and what it costs to find out.

use std::hint::black_box;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use evenkeel_ready::{BitmapNumbers, LinearNumbers, Numbers};

use crate::{Random, TURN, TURNS, kernel};

/// Prints what it costs to close one of so many open descriptors, chosen at random, and to open another,
/// which gets its number.
pub(crate) fn compare(open: &[usize]) {
    println!("Nanoseconds to close one of so many descriptors, and to open one in its place.\n");
    println!("{:<34}{}", "", open.iter().map(|open| format!("{open:>11}")).collect::<String>());
    row("evenkeel, bitmaps", open, |open| Ok(pairs(BitmapNumbers::new(u32::MAX), open)));
    row("evenkeel, one after the other", open, |open| Ok(pairs(LinearNumbers::new(u32::MAX), open)));
    row("kernel, close and dup", open, kernel_pairs);
}

fn row(name: &str, open: &[usize], measure: impl Fn(usize) -> Result<f64, String>) {
    let mut cells = String::new();
    for open in open {
        cells += &match (0..TURNS).map(|_| measure(*open)).collect::<Result<Vec<_>, _>>() {
            Ok(mut times) => {
                times.sort_by(f64::total_cmp);
                format!("{:>11.0}", times[TURNS / 2])
            }
            Err(_) => format!("{:>11}", "-"),
        };
    }
    println!("{name:<34}{cells}");
}

/// Pairs of calls until time is up.
fn timed(mut pair: impl FnMut()) -> f64 {
    let (began, mut pairs) = (Instant::now(), 0_u32);
    loop {
        for _ in 0..16 {
            pair();
        }
        pairs += 16;
        let elapsed: Duration = began.elapsed();
        if elapsed > TURN / 4 {
            return elapsed.as_secs_f64() * 1e9 / f64::from(pairs);
        }
    }
}

fn pairs(mut numbers: impl Numbers, open: usize) -> f64 {
    // Each by its number: one after the other would search for each among all before it.
    (0..open as u32).for_each(|number| assert_eq!(numbers.claim(number), Ok(true)));
    let mut random = Random(1);
    timed(|| {
        let number = random.below(open) as u32;
        numbers.free(number);
        assert_eq!(black_box(numbers.allocate()), Ok(number));
    })
}

fn kernel_pairs(open: usize) -> Result<f64, String> {
    let mut open: Vec<_> = kernel::open(open)?.into_iter().map(Some).collect();
    let original = kernel::open(1)?;
    let mut random = Random(1);
    Ok(timed(|| {
        let index = random.below(open.len());
        let number = open[index].take().map(|closed| closed.as_raw_fd());
        let new = rustix::io::dup(&original[0]).unwrap();
        assert_eq!(Some(new.as_raw_fd()), number);
        open[index] = Some(new);
    }))
}
