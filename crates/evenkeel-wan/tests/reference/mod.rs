//! A wire as one would write it down first: a real queue, and one event after the other.

use std::collections::VecDeque;

use evenkeel_timers::Instant;
use evenkeel_wan::{Limit, Rate, Settings};

/// Parts of a nanosecond, so many that no rate here is rounded: times are exact fractions over the rate.
type Exact = u128;

pub(crate) struct Reference<'a> {
    settings: &'a Settings,
    begin: Instant,
    /// Frames that wait: number, bytes, and when they came.
    queue: VecDeque<(usize, u128, Instant)>,
    out: Vec<(usize, Instant)>,
    pub(crate) dropped: u64,
}

impl<'a> Reference<'a> {
    pub(crate) fn new(settings: &'a Settings, begin: Instant) -> Self {
        Self { settings, begin, queue: VecDeque::new(), out: Vec::new(), dropped: 0 }
    }

    /// Returns the frames that come out, in order, with their times.
    pub(crate) fn run(&mut self, frames: impl Iterator<Item = (Instant, usize)>) -> Vec<(usize, Instant)> {
        let frames: Vec<_> = frames
            .enumerate()
            .map(|(number, (at, len))| (number, at, u128::from(self.settings.size.of(len))))
            .collect();
        match &self.settings.rate {
            Rate::Unlimited => self.out.extend(frames.iter().map(|(number, at, _)| (*number, *at))),
            Rate::Bits(bps) => self.bits(u128::from(*bps), &frames),
            Rate::Trace(_) => self.trace(&frames),
        }
        self.out.iter().map(|(number, left)| (*number, *left + self.settings.delay)).collect()
    }

    /// Returns whether one more frame may wait, given how long it would wait.
    fn admit(&mut self, number: usize, bytes: u128, now: Instant, wait: u128) -> bool {
        let fits = match self.settings.queue {
            Limit::Packets(most) => self.queue.len() < most,
            Limit::Bytes(most) => {
                self.queue.iter().map(|(_, bytes, _)| bytes).sum::<u128>() + bytes <= u128::from(most)
            }
            Limit::Time(longest) => wait <= longest.as_nanos(),
        };
        if fits {
            self.queue.push_back((number, bytes, now));
        } else {
            self.dropped += 1;
        }
        fits
    }

    /// Times are in `bps`ths of a nanosecond.
    fn bits(&mut self, bps: u128, frames: &[(usize, Instant, u128)]) {
        let exact = |at: Instant| u128::from(at.as_nanos()) * bps;
        let mut free: Exact = 0;
        let take = |bytes: u128, start: Exact| start + bytes * 8 * 1_000_000_000;
        let whole = |at: Exact| Instant::from_nanos(at.div_ceil(bps) as u64);
        for &(number, at, bytes) in frames {
            // What has begun to leave by now, to the nanosecond.
            while let Some(&(number, bytes, _)) = self.queue.front().filter(|_| whole(free) <= at) {
                self.queue.pop_front();
                free = take(bytes, free);
                self.out.push((number, whole(free)));
            }
            if self.queue.is_empty() && whole(free) <= at {
                free = take(bytes, free.max(exact(at)));
                self.out.push((number, whole(free)));
                continue;
            }
            let ahead = self.queue.iter().fold(free, |free, (_, bytes, _)| take(*bytes, free));
            self.admit(number, bytes, at, u128::from(whole(ahead).nanos_since(at)));
        }
        while let Some((number, bytes, _)) = self.queue.pop_front() {
            free = take(bytes, free);
            self.out.push((number, whole(free)));
        }
    }

    /// Goes from one delivery opportunity to the next, for as long as anybody comes or waits.
    fn trace(&mut self, frames: &[(usize, Instant, u128)]) {
        let Rate::Trace(trace) = &self.settings.rate else { unreachable!() };
        let times: Vec<u64> = trace.times().map(|time| time.as_millis() as u64).collect();
        let mut arrivals = frames.iter().peekable();
        let mut leaving: Option<(usize, u128)> = None;
        let (mut lap, mut index) = (0_u64, 0);
        while arrivals.peek().is_some() || !self.queue.is_empty() || leaving.is_some() {
            let at = Instant::from_nanos(
                self.begin.as_nanos() + (lap * times[times.len() - 1] + times[index]) * 1_000_000,
            );
            // Who comes at that instant comes too late.
            while let Some(&&(number, now, bytes)) = arrivals.peek().filter(|(_, now, _)| *now < at) {
                arrivals.next();
                let wait = self.wait(&times, (lap, index), leaving, now);
                self.admit(number, bytes, now, wait);
            }
            let mut left = 1_500;
            while left > 0 {
                if leaving.is_none() {
                    leaving = self.queue.pop_front().map(|(number, bytes, _)| (number, bytes));
                }
                let Some((number, bytes)) = leaving else { break };
                let sent = bytes.min(left);
                left -= sent;
                leaving = Some((number, bytes - sent)).filter(|(_, bytes)| *bytes > 0);
                if leaving.is_none() {
                    self.out.push((number, at));
                }
            }
            (lap, index) = if index + 1 == times.len() { (lap + 1, 0) } else { (lap, index + 1) };
        }
    }

    /// Returns the time until the opportunity at which a frame that arrives now would begin to leave.
    fn wait(&self, times: &[u64], next: (u64, usize), leaving: Option<(usize, u128)>, now: Instant) -> u128 {
        let ahead = self.queue.iter().map(|(_, bytes, _)| bytes).sum::<u128>()
            + leaving.map_or(0, |(_, bytes)| bytes);
        let (lap, index) = (next.0, next.1 + (ahead / 1_500) as usize);
        let lap = lap + (index / times.len()) as u64;
        let millis = lap * times[times.len() - 1] + times[index % times.len()];
        let at = self.begin.as_nanos() + millis * 1_000_000;
        u128::from(at - now.as_nanos())
    }
}
