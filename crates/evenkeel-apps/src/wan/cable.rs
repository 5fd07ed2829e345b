//! An emulator in memory, without root, with a sender and a receiver at each end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use evenkeel::raw::cable::End;
use evenkeel::raw::device::Interface as _;
use evenkeel::raw::frame::Pool;
use evenkeel::raw::signal::{ReportRequests, Stop};
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel_wan::{Settings, Size};
use schemars::JsonSchema;
use serde::Serialize;

use super::emulator::{AtEnd, Emulator, Options, Remote};
use super::error::WanError;
use super::links::{self, RING_PKTS};
use super::report::Report;
use super::run::{Changing, Reread};
use crate::latency::Histogram;
use crate::pace::Pace;

/// The frames to send through an emulator in memory, and the time to send them.
#[derive(Debug, Clone)]
pub struct Demonstration {
    /// The options of the emulator between the ends.
    pub options: Options,
    /// The rate of frames of 1500 bytes of IP in each direction, in packets per second.
    pub offered_pps: [u64; 2],
    /// The time for which frames are sent.
    pub duration: Duration,
    /// Requests for a report.
    pub reports: Option<&'static ReportRequests>,
}

/// An event for the caller of a running demonstration.
#[derive(Debug)]
pub enum News<'a> {
    /// The part of the demonstration that is done, from 0 to 1.
    Share(f64),
    /// The result so far, after a request for a report.
    Report(&'a Demonstrated),
}

/// The result of a demonstration.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Demonstrated {
    /// The report of the emulator.
    #[serde(flatten)]
    pub report: Report,
    /// The measurements at the ends: from the first to the second, and back.
    pub measured: Vec<Measured>,
}

/// The measurement of one direction at the ends.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Measured {
    /// Frames sent.
    pub sent: u64,
    /// Frames that arrived.
    pub received: u64,
    /// Received frames that later ones had overtaken.
    pub out_of_order: u64,
    /// The rate of the arriving frames while they arrived, in bits a second as the rate counts them; `null`
    /// if none did.
    pub received_bps: Option<f64>,
    /// The shortest time that a frame took from one end to the other, in microseconds.
    pub least_us: Option<f64>,
    /// The median of these times.
    pub p50_us: Option<f64>,
    /// The 99th percentile of these times.
    pub p99_us: Option<f64>,
}

/// A full frame: a packet of 1500 bytes with its Ethernet header.
pub const FRAME_BYTES: usize = 1_514;
/// The offset of a frame's number, behind an Ethernet header of a type for experiments. The time of sending
/// follows it.
const NUMBER_AT: usize = 14;
const TIME_AT: usize = 22;
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
/// The most frames sent at a time to catch up.
const BURST_PKTS: u64 = 16;
/// The most time that the emulator runs after the end of sending, so that frames under way come out.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends through an emulator. Calls `watch` at intervals, and for each request for a report. On SIGHUP it
/// calls `reread` for the settings of later frames, and shows a failure with `say`.
///
/// # Errors
/// [`WanError`]
pub fn run(
    demonstration: &Demonstration,
    reread: Option<Reread<'_>>,
    say: fn(&str),
    mut watch: impl FnMut(News<'_>) + Send,
) -> Result<Demonstrated, WanError> {
    let mut changing = Changing::new(reread, say)?;
    let (stop, clock) = (Stop::on_signals()?, Clock::start());
    let mut emulator = Emulator::new(["left", "right"], &demonstration.options, clock, stop)?;
    let mut ends = Vec::new();
    for (port, (name, number)) in [("left", 10), ("right", 20)].into_iter().enumerate() {
        let (far, near) = links::cable(name, number);
        emulator.take_cable(port, near)?;
        ends.push(far);
    }
    let (sent_all, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let remote = emulator.remote();
    let mut outside = Outside::new(ends, demonstration, clock)?;
    thread::scope(|scope| {
        let sending = thread::Builder::new().name("ends".to_owned()).spawn_scoped(scope, || {
            let is_over = || over.load(Ordering::Acquire);
            {
                let _ending = AtEnd(|| {
                    sent_all.store(true, Ordering::Release);
                    remote.notify();
                });
                let mut look = |outside: &Outside, share: Option<f64>| {
                    if let Some(share) = share {
                        changing.look(&remote);
                        watch(News::Share(share));
                    }
                    if demonstration.reports.is_some_and(|reports| reports.is_pending() && reports.take()) {
                        let so_far = so_far(outside, &remote, &demonstration.options.directions);
                        so_far.iter().for_each(|so_far| watch(News::Report(so_far)));
                    }
                };
                outside.send(demonstration.duration, || is_over() || stop.requested(), &mut look);
            }
            while !is_over() {
                outside.take_out();
            }
            outside.take_out();
            outside.measured(&demonstration.options.directions)
        })?;
        let until = clock.now() + demonstration.duration + PATIENCE;
        let done = |emulator: &Emulator| sent_all.load(Ordering::Acquire) && emulator.is_quiet();
        let ran = {
            let _ending = AtEnd(|| over.store(true, Ordering::Release));
            emulator.run(until, stop, done)
        };
        let measured = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ran?;
        Ok(Demonstrated { report: emulator.report(true), measured })
    })
}

/// Returns what came of it so far; `None` if the emulator has ended.
fn so_far(outside: &Outside, emulator: &Remote, directions: &[Settings; 2]) -> Option<Demonstrated> {
    Some(Demonstrated { report: emulator.report(true)?, measured: outside.measured(directions) })
}

/// The two ends of the demonstration.
struct Outside {
    ends: Vec<End>,
    pool: Pool,
    clock: Clock,
    directions: [Seen; 2],
    offered_pps: [u64; 2],
}

/// The counters of one direction, kept by the ends.
#[derive(Default)]
struct Seen {
    sent: u64,
    received: u64,
    out_of_order: u64,
    next: u64,
    first: Option<Instant>,
    last: Instant,
    took: Histogram,
    least: Option<Duration>,
}

impl Outside {
    fn new(mut ends: Vec<End>, demonstration: &Demonstration, clock: Clock) -> Result<Self, WanError> {
        let mut pool = Pool::with_limit(4 * RING_PKTS);
        for end in &mut ends {
            end.attach(&mut pool).map_err(std::io::Error::other)?;
        }
        let offered_pps = demonstration.offered_pps;
        Ok(Self { ends, pool, clock, directions: [Seen::default(), Seen::default()], offered_pps })
    }

    /// Sends for `duration`. Calls `look` repeatedly, at intervals with the share of the time that is over.
    fn send(
        &mut self,
        duration: Duration,
        is_over: impl Fn() -> bool,
        look: &mut impl FnMut(&Self, Option<f64>),
    ) {
        let start = self.clock.now();
        let mut paces = self.offered_pps.map(|pps| Pace::new(pps, BURST_PKTS, start));
        let mut frame = [0; FRAME_BYTES];
        frame[12..14].copy_from_slice(&ETHERTYPE);
        let mut told = start;
        loop {
            let now = self.clock.now();
            if now.since(start) >= duration || is_over() {
                return;
            }
            for (direction, pace) in paces.iter_mut().enumerate() {
                let due = pace.take(now);
                for _ in 0..due {
                    let (seen, sent_at) = (&mut self.directions[direction], self.clock.now());
                    frame[NUMBER_AT..TIME_AT].copy_from_slice(&seen.sent.to_be_bytes());
                    frame[TIME_AT..TIME_AT + 8].copy_from_slice(&sent_at.as_nanos().to_be_bytes());
                    seen.sent += 1;
                    self.ends[direction].send(&frame);
                }
                if due > 0 {
                    self.ends[direction].flush();
                }
            }
            self.take_out();
            let is_due = now.since(told) >= Duration::from_millis(100);
            if is_due {
                told = now;
            }
            let share = now.since(start).as_secs_f64() / duration.as_secs_f64();
            look(self, is_due.then_some(share));
        }
    }

    fn take_out(&mut self) {
        for (direction, seen) in self.directions.iter_mut().enumerate() {
            let end = &mut self.ends[1 - direction];
            while let Some(frame) = end.queue_mut(0).take(&mut self.pool) {
                seen.record(frame.bytes(), self.clock.now());
                self.pool.recycle(frame);
            }
        }
    }

    fn measured(&self, settings: &[Settings; 2]) -> Vec<Measured> {
        self.directions.iter().zip(settings).map(|(seen, settings)| seen.measured(settings.size)).collect()
    }
}

impl Seen {
    fn record(&mut self, frame: &[u8], now: Instant) {
        let word = |at: usize| {
            let bytes = frame.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_be_bytes)
        };
        let took = now.since(Instant::from_nanos(word(TIME_AT)));
        // A frame with a flipped bit may have any number.
        self.out_of_order += u64::from(word(NUMBER_AT) < self.next);
        self.next = self.next.max(word(NUMBER_AT).saturating_add(1));
        self.received += 1;
        self.first.get_or_insert(now);
        self.last = now;
        self.took.record(took);
        self.least = Some(self.least.map_or(took, |least| least.min(took)));
    }

    fn measured(&self, size: Size) -> Measured {
        let us = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e6);
        let window = self.first.map_or(0.0, |first| self.last.since(first).as_secs_f64());
        let bits = self.received.saturating_sub(1) as f64 * f64::from(size.of(FRAME_BYTES)) * 8.0;
        Measured {
            sent: self.sent,
            received: self.received,
            out_of_order: self.out_of_order,
            received_bps: (window > 0.0).then(|| bits / window),
            least_us: us(self.least),
            p50_us: us(self.took.percentile(50.0)),
            p99_us: us(self.took.percentile(99.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::RealTime;
    use super::*;

    fn demonstration(cpu: Option<usize>, duration: Duration) -> Demonstration {
        let (directions, spin) = ([Settings::PERFECT, Settings::PERFECT], Duration::ZERO);
        let options =
            Options { directions, seed: 1, spin, real_time: RealTime::Off, cpu, memory_pkts: 100_000 };
        Demonstration { options, offered_pps: [1_000; 2], duration, reports: None }
    }

    /// The sender does not continue for the hour of the demonstration: the test allows it a minute.
    #[test]
    fn an_emulator_that_cannot_run_is_an_error_at_once() {
        let no_such_cpu = demonstration(Some(100_000), Duration::from_secs(3_600));
        let patient = |news: News<'_>| {
            let News::Share(share) = news else { return };
            assert!(share * 60.0 < 1.0, "it sends for a minute");
        };
        assert!(matches!(run(&no_such_cpu, None, |_| {}, patient), Err(WanError::Machine(_))));
    }

    /// The emulator ends, and so does the thread that waits for it.
    #[test]
    fn a_panic_of_who_is_told_ends_it() {
        let told = || run(&demonstration(None, Duration::from_secs(3_600)), None, |_| {}, |_| panic!("told"));
        assert!(std::panic::catch_unwind(told).is_err());
    }
}
