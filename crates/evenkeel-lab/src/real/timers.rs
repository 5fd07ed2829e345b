//! Table I of the paper on soft timers in real time: what events of a microsecond timer cost a saturated
//! server on the same core, and how late they come.
//!
//! A host answers requests over UDP on a core of its own, and is offered more than it can answer. Beside it
//! there are events at even distances: soft timers of its engine, or those of the kernel, whose every event
//! is an interrupt. The handler notes how late it is called and does nothing else.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use evenkeel::Engine;
use evenkeel::link::{self, Clock, SignalTimer, TimerFd};
use evenkeel_apps::latency::Histogram;
use evenkeel_apps::measure::{
    CoreTime, Generator, Schedule, Sending, Working, drain, drive, opposite, per_second, settle_on,
};
use evenkeel_apps::requests::{Requests, Shape};
use evenkeel_apps::service::{self, Service, Tally};
use evenkeel_core::cable::{self, End};
use evenkeel_core::frame::Pool;
use evenkeel_core::host::{Config, Host};
use evenkeel_core::interface::Interface as _;
use evenkeel_core::receive::Architecture;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{EthernetAddress, IpCidr, IpEndpoint, Ipv4Address};

use super::{Options, Place, Progress};
use crate::check::{Check, Origin::*, condition, predicted};
use crate::experiment::{Outcome, Point};

/// The experiment in virtual time.
pub(super) const ID: &str = "t00-tab1";

const INTERVALS_US: [u64; 4] = [10, 20, 50, 100];
const FACILITIES: [Facility; 4] = [Facility::Soft, Facility::TimerFd, Facility::Signal, Facility::TokioSleep];

/// Of the server's throughput, what soft timers may cost: noise of the machine is on both sides of nothing.
const FREE: [f64; 2] = [-0.05, 0.01];
/// A window beside events follows one without: what a server answers differs by a tenth from one window to
/// the next, so there are so many pairs for each repetition that is asked for.
const PAIRS: usize = 3;
/// How late a soft event may be, at the median.
const LATE_US: [f64; 2] = [0.0, 5.0];

const SERVER: Ipv4Address = Ipv4Address::new(10, 77, 0, 2);
const CLIENT: Ipv4Address = Ipv4Address::new(10, 77, 0, 1);
const HARDWARE: [EthernetAddress; 2] =
    [EthernetAddress([2, 0, 0, 0, 0, 1]), EthernetAddress([2, 0, 0, 0, 0, 2])];
const PORT: u16 = 7;
const PAYLOAD: usize = 64;
const FLOWS: u16 = 64;
const RING_PKTS: usize = 512;
/// Frames that the generator sends before it takes what has come back.
const BURST_PKTS: usize = 64;
const READY: Duration = Duration::from_millis(20);
const WARM_UP: Duration = Duration::from_millis(60);
const SETTLE: Duration = Duration::from_millis(5);

/// Who has events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Facility {
    Soft,
    TimerFd,
    Signal,
    TokioSleep,
}

impl Facility {
    const fn name(self) -> &'static str {
        match self {
            Self::Soft => "soft timers",
            Self::TimerFd => "timerfd",
            Self::Signal => "POSIX timer",
            Self::TokioSleep => "tokio sleep",
        }
    }
}

/// One run: the server alone, or beside events.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    answered: f64,
    events: f64,
    /// Lateness: median and 99 %.
    late_us: [f64; 2],
    core_share: f64,
    conserved: bool,
}

/// A round: the server alone, and then beside events.
type Pair = [Measured; 2];

pub(super) fn measure(
    options: &Options,
    progress: &mut (dyn FnMut(&Progress<'_>) + Send),
) -> io::Result<Outcome> {
    if options.on != Place::Cable {
        return Err(io::Error::other(format!("{ID} runs on the cable only")));
    }
    let rounds = PAIRS * options.repeats.max(1);
    let all = rounds * FACILITIES.len() * INTERVALS_US.len();
    let mut runs = Runs::default();
    for done in 0..all {
        let (facility, us) =
            (FACILITIES[done / INTERVALS_US.len() % FACILITIES.len()], done % INTERVALS_US.len());
        let interval = Duration::from_micros(INTERVALS_US[us]);
        // Beside each other, so that what the machine does to both cancels out.
        let pair = [run(None, options)?, run(Some((facility, interval)), options)?];
        let result =
            format!("every {interval:?} leaves {:.0} answers/s of {:.0}", pair[1].answered, pair[0].answered);
        progress(&Progress { variant: facility.name(), result: &result, done: (done + 1, all) });
        runs.0.entry((facility, us)).or_default().push(pair);
    }
    Ok(runs.outcome())
}

#[derive(Debug, Default)]
struct Runs(BTreeMap<(Facility, usize), Vec<Pair>>);

impl Runs {
    /// The median of the rounds.
    fn median(&self, facility: Facility, us: usize, of: impl Fn(&Pair) -> f64) -> f64 {
        let mut values: Vec<f64> = self.0.get(&(facility, us)).into_iter().flatten().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// The share of its throughput that a server loses to events.
    fn lost(&self, facility: Facility, us: usize) -> f64 {
        self.median(facility, us, |[alone, beside]| 1.0 - beside.answered / alone.answered.max(1.0))
    }

    fn outcome(&self) -> Outcome {
        let points = self.0.keys().map(|&(facility, us)| {
            let of = |value: fn(&Measured) -> f64| self.median(facility, us, |pair| value(&pair[1]));
            let (lost, events) = (self.lost(facility, us), of(|run| run.events));
            Point::new(facility.name(), INTERVALS_US[us] as f64, 100.0 * lost).with([
                ("answers_per_s", of(|run| run.answered)),
                ("alone_answers_per_s", self.median(facility, us, |pair| pair[0].answered)),
                ("events_per_s", events),
                ("cost_us", if events > 0.0 { lost * 1e6 / events } else { f64::NAN }),
                ("late_p50_us", of(|run| run.late_us[0])),
                ("late_p99_us", of(|run| run.late_us[1])),
                ("core_share", self.median(facility, us, |pair| pair[0].core_share)),
            ])
        });
        Outcome::new("interval (us)", "throughput lost (%)", points.collect(), self.checks())
    }

    fn checks(&self) -> Vec<Check> {
        let late = |us: usize| self.median(Facility::Soft, us, |pair| pair[1].late_us[0]);
        let soft_late: Vec<f64> = (0..INTERVALS_US.len()).map(late).collect();
        let asked = 1e6 / INTERVALS_US[0] as f64;
        let every = || self.0.values().flatten().flatten();
        let alone: Vec<f64> = self.0.values().flatten().map(|pair| pair[0].core_share).collect();
        let conserved = if every().all(|run| run.conserved) { "yes" } else { "no" };
        vec![
            predicted(Ours, "soft timers every 10 us: share of the throughput lost")
                .within(FREE, &[self.lost(Facility::Soft, 0)]),
            predicted(Ours, "timerfd every 10 us: share of the throughput lost")
                .within([0.25, 1.0], &[self.lost(Facility::TimerFd, 0)]),
            predicted(Ours, "soft timers: median lateness at each interval (us)").within(LATE_US, &soft_late),
            predicted(Ours, "soft timers every 10 us: share of the events that are asked for")
                .within([0.5, 1.0], &[self.median(Facility::Soft, 0, |pair| pair[1].events) / asked]),
            condition("share of its core that the server alone had").within([0.9, 1.0], &alone),
            condition("every frame is accounted for").equal("yes", conserved),
        ]
    }
}

/// When events were called, as their handlers note it.
#[derive(Debug, Clone, Default)]
struct Noted(Arc<Mutex<Histogram>>);

impl Noted {
    fn note(&self, late: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).record(late);
    }

    fn events(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count()
    }

    fn late_us(&self) -> [f64; 2] {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        [50.0, 99.0]
            .map(|percent| noted.percentile(percent).map_or(f64::NAN, |late| late.as_secs_f64() * 1e6))
    }
}

/// Events that go on until this is dropped.
enum Events {
    None,
    /// Of the engine.
    Soft(Noted),
    Signal(SignalTimer),
    /// Of a thread on the same core.
    Thread {
        noted: Noted,
        over: Arc<AtomicBool>,
        thread: Option<JoinHandle<()>>,
    },
}

impl Events {
    fn begin(engine: &mut Engine, what: Option<(Facility, Duration)>) -> io::Result<Self> {
        let (noted, clock) = (Noted::default(), *engine.clock());
        let Some((facility, every)) = what else { return Ok(Self::None) };
        Ok(match facility {
            Facility::Soft => {
                schedule_soft_events(engine, every, noted.clone());
                Self::Soft(noted)
            }
            Facility::Signal => Self::Signal(SignalTimer::every(every, clock)?),
            Facility::TimerFd => {
                let timer = TimerFd::every(every)?;
                let (mut due, called) = (clock.now(), noted.clone());
                Self::on_this_core(noted, move || {
                    // A signal is meant for others.
                    due += every * u32::try_from(timer.wait().unwrap_or(0)).unwrap_or(u32::MAX);
                    called.note(clock.now().since(due));
                })
            }
            Facility::TokioSleep => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
                let called = noted.clone();
                Self::on_this_core(noted, move || {
                    let begin = clock.now();
                    runtime.block_on(async { tokio::time::sleep(every).await });
                    called.note(clock.now().since(begin + every));
                })
            }
        })
    }

    /// Calls `next` again and again on a thread that has the same core as the calling one.
    fn on_this_core(noted: Noted, mut next: impl FnMut() + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let thread = thread::spawn(move || {
            settle_on(link::cpus().get(1));
            // The kernel may otherwise wake it 50 us late, to save a little power.
            let _ = link::set_timer_slack(Duration::from_nanos(1));
            while !is_over.load(Ordering::Relaxed) {
                next();
            }
        });
        Self::Thread { noted, over, thread: Some(thread) }
    }

    fn count(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Soft(noted) | Self::Thread { noted, .. } => noted.events(),
            Self::Signal(timer) => timer.called(),
        }
    }

    fn late_us(&self) -> [f64; 2] {
        match self {
            Self::None => [f64::NAN; 2],
            Self::Soft(noted) | Self::Thread { noted, .. } => noted.late_us(),
            Self::Signal(timer) => {
                let calls: Vec<_> = timer.lateness().collect();
                let all: u64 = calls.iter().map(|(_, calls)| calls).sum();
                [0.5, 0.99].map(|share| {
                    let (mut below, rank) = (0, (all as f64 * share) as u64);
                    let at = calls.iter().find(|(_, calls)| {
                        below += calls;
                        below > rank
                    });
                    at.map_or(f64::NAN, |(late, _)| late.as_secs_f64() * 1e6)
                })
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        if let Self::Thread { over, thread, .. } = self {
            over.store(true, Ordering::Relaxed);
            let _ = thread.take().map(JoinHandle::join);
        }
    }
}

/// Each is due so long after the one before it was called.
fn schedule_soft_events(engine: &mut Engine, every: Duration, noted: Noted) {
    let mut last = engine.clock().now();
    let handler = engine.soft_events().add_handler(move |_, now| {
        noted.note(now.since(last + every));
        last = now;
        Some(every)
    });
    let now = engine.clock().now();
    engine.soft_events().schedule(now, every, handler);
}

/// What the server's thread saw.
struct Observed {
    answered: f64,
    events: f64,
    late_us: [f64; 2],
    core_share: f64,
    conserved: bool,
}

fn run(events: Option<(Facility, Duration)>, options: &Options) -> io::Result<Measured> {
    let end = |name, nth: usize| cable::Options {
        address: HARDWARE[nth],
        ring_pkts: RING_PKTS,
        ..cable::Options::new(name, 0)
    };
    let (outside, inside) = cable::pair(end("outside", 0), end("inside", 1));
    let clock = Clock::start();
    let schedule = Schedule { start: clock.now() + READY, warm_up: WARM_UP, window: options.window };
    let (observed, generated) = opposite(
        |generator| serve(events, inside, clock, generator),
        |sending, server| flood(outside, schedule, clock, options.seed, (sending, server)),
    )?;
    generated?;
    let Observed { answered, events, late_us, core_share, conserved } = observed?;
    Ok(Measured { answered, events, late_us, core_share, conserved })
}

fn serve(
    events: Option<(Facility, Duration)>,
    end: End,
    clock: Clock,
    generator: &Generator,
) -> io::Result<Observed> {
    let host = Host::new(Config::of(Architecture::Polled)).map_err(io::Error::other)?;
    let mut engine = Engine::new(host, clock)?;
    engine.add_cable(end, &[IpCidr::new(SERVER.into(), 24)]).map_err(io::Error::other)?;
    let tally = Arc::<Tally>::default();
    let service =
        service::Options { port: PORT, groups: Vec::new(), work: Duration::ZERO, echo: true, count: None };
    engine.host_mut().spawn("echo", 0, Box::new(Service::new(service, Arc::clone(&tally))));
    engine.run(clock.now() + SETTLE, |_| false)?;
    let events = Events::begin(&mut engine, events)?;
    let look = |engine: &Engine| (CoreTime::of(engine), tally.requests(), events.count());
    let [from, until] = drive(&mut engine, generator, look)?;
    let elapsed = until.0.at.since(from.0.at);
    Ok(Observed {
        answered: per_second(until.1 - from.1, elapsed),
        events: per_second(until.2 - from.2, elapsed),
        late_us: events.late_us(),
        core_share: until.0.core_share_since(&from.0),
        conserved: engine.host().check().is_ok(),
    })
}

/// Sends as much as there is room for, and more.
fn flood(
    mut end: End,
    schedule: Schedule,
    clock: Clock,
    seed: u64,
    (sending, server): (Sending, &Working),
) -> io::Result<()> {
    let shape = Shape {
        hardware: (HARDWARE[0], HARDWARE[1]),
        from: IpEndpoint::new(CLIENT.into(), 20_000),
        to: IpEndpoint::new(SERVER.into(), PORT),
        payload: PAYLOAD,
        flows: FLOWS,
        seed,
    };
    let mut requests = Requests::new(&shape).map_err(|what| io::Error::other(format!("{what:?}")))?;
    let mut pool = Pool::with_limit(2 * RING_PKTS);
    end.attach(&mut pool).map_err(io::Error::other)?;
    while !server.has_begun() || clock.now() < schedule.start {
        clock.spin(Duration::from_micros(20));
    }
    let mut send_until = |until: Instant| {
        while clock.now() < until && !server.is_over() {
            for _ in 0..BURST_PKTS {
                end.send(requests.next());
            }
            end.flush();
            drain(&mut end, &mut pool);
        }
    };
    send_until(clock.now() + schedule.warm_up);
    sending.measuring();
    send_until(clock.now() + schedule.window);
    sending.measured();
    drop(sending);
    while !server.is_over() {
        drain(&mut end, &mut pool);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each has events beside a server that answers, and none is early.
    #[test]
    fn every_facility_has_events_beside_a_server() {
        let options = Options { window: Duration::from_millis(30), ..Options::default() };
        for facility in FACILITIES {
            let run = run(Some((facility, Duration::from_micros(100))), &options).unwrap();
            assert!(run.conserved && run.late_us[0] >= 0.0, "{facility:?}: {run:?}");
        }
    }

    #[test]
    fn what_costs_too_much_or_comes_too_late_misses() {
        let checks = |answered: f64, late: f64| {
            let beside = Measured { answered, events: 9e4, late_us: [late; 2], ..Measured::default() };
            let alone = Measured { answered: 100.0, core_share: 1.0, ..Measured::default() };
            let all = (0..INTERVALS_US.len()).map(|us| ((Facility::Soft, us), vec![[alone, beside]; 3]));
            Runs(all.collect()).checks().iter().map(|check| check.ok).collect::<Vec<_>>()
        };
        assert_eq!(checks(99.5, 2.0)[..4], [true, false, true, true], "nothing is known of timerfd");
        assert_eq!(checks(98.0, 2.0)[..4], [false, false, true, true]);
        assert_eq!(checks(99.5, 6.0)[..4], [true, false, false, true]);
    }
}
