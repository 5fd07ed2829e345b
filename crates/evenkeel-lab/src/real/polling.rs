//! Table XII of the paper on soft timers in real time: the answers of a saturated web server whose interfaces
//! interrupt, and of one that polls them by a soft event so that each poll finds some packets.
//!
//! An interrupt here is the engine's: while the host is busy it checks its rings at the end of every work
//! item, which costs a read of memory, and only a core that has halted is really interrupted. So the possible
//! gain is the saving of processing packets in batches, and the report gives their size. The paper's
//! interrupts cost microseconds each.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use evenkeel::Engine;
use evenkeel::raw::cable::End;
use evenkeel::raw::cpu;
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::receive::{Architecture, NetworkPolling};
use evenkeel::raw::tcp::ListenerConfig;
use evenkeel::raw::time::{Clock, Duration};
use evenkeel::raw::wire::IpCidr;
use evenkeel_apps::http::Document;
use evenkeel_apps::load::{Curve, Load, Plan, Share, Spacing};
use evenkeel_apps::measure::{CoreTime, Generator, drive, opposite};
use evenkeel_apps::stream::{self, Counters, Server, Web};

use super::asking::{self, HTTP, RING_PKTS, SERVER, lay};
use super::{Options, Place, Progress};
use crate::check::{Check, Origin::*, condition, predicted};
use crate::experiment::{Outcome, Point};
use crate::statistics::median;

/// The experiment in virtual time.
pub(super) const ID: &str = "t00-tab12";

const QUOTAS: [u32; 5] = [1, 2, 5, 10, 15];
/// The number of pairs for each requested repetition. A polled window is next to one with interrupts, after
/// it and before it in turn, because a server's rate varies more from one minute to the next than the
/// expected difference.
pub(super) const PAIRS: usize = 5;
/// The rate of answers that a polling server must reach, as a share of its rate by interrupts.
const KEPT: [f64; 2] = [0.97, 1.5];
/// The response time of a single request to an idle machine, as a share of the time with interrupts.
const AS_FAST: [f64; 2] = [0.8, 1.2];
/// The share of its core that an idle process may take.
const IDLE: [f64; 2] = [0.0, 0.01];
/// The share of the time in which a saturated server has work.
const SATURATED: [f64; 2] = [0.9, 1.0];

/// The work of the server for each request: enough to saturate the server's core, and not the client's.
pub(super) const WORK: Duration = Duration::from_micros(10);
/// The bytes of a document (T00.m.load).
const DOCUMENT: u64 = 6 << 10;
/// Connections with a request all the time.
const CONNECTIONS: usize = 50;
/// The rate of requests to an idle machine, in requests a second.
const SELDOM: f64 = 500.0;

const WARM_UP: Duration = Duration::from_millis(60);
const TIMEOUT: Duration = Duration::from_secs(5);
/// The time in TIME_WAIT, short enough for the next connection with the same port.
const TIME_WAIT: Duration = Duration::from_millis(500);
/// The time until the server listens.
const SETTLE: Duration = Duration::from_millis(5);

/// The behaviour of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asking {
    /// Requests at the highest rate, with a connection for each.
    Http,
    /// Requests at the highest rate, with several on each connection.
    PersistentHttp,
    /// Requests so rare that each finds an idle machine.
    Seldom,
}

/// The two that saturate the server.
const SATURATING: [Asking; 2] = [Asking::Http, Asking::PersistentHttp];

impl Asking {
    const fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::PersistentHttp => "P-HTTP",
            Self::Seldom => "a request to an idle machine",
        }
    }

    fn plan(self, options: &Options) -> Plan {
        let length = WARM_UP + options.window;
        let seldom = Load::Open { curve: Curve::flat(SELDOM, length), spacing: Spacing::Constant };
        Plan {
            load: if self == Self::Seldom { seldom } else { Load::Closed },
            length: options.window,
            warm_up: WARM_UP,
            connections: if self == Self::Seldom { 1 } else { CONNECTIONS },
            requests_per_connection: (self == Self::Http).then_some(1),
            timeout: TIMEOUT,
            connect_timeout: TIMEOUT,
            cold: 0,
            cold_rate: 0.0,
            interval: options.window,
            seed: options.seed,
            share: Share::WHOLE,
        }
    }
}

/// The measurements of a run.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    answered: f64,
    response_us: f64,
    /// The frames that an interrupt, or a poll, has brought to a ring's handler.
    frames_per_interrupt: f64,
    busy: f64,
    core_share: f64,
    failed: u64,
    conserved: bool,
}

/// A window with interrupts, and one with polling.
type Pair = [Measured; 2];

pub(super) fn measure(
    options: &Options,
    progress: &mut (dyn FnMut(&Progress<'_>) + Send),
) -> io::Result<Outcome> {
    if options.on != Place::Cable {
        return Err(io::Error::other(format!("{ID} runs on the cable only")));
    }
    let most = QUOTAS[QUOTAS.len() - 1];
    let saturating = SATURATING.iter().flat_map(|&asking| QUOTAS.map(|quota| (asking, quota)));
    let variants: Vec<(Asking, u32)> = saturating.chain([(Asking::Seldom, most)]).collect();
    let rounds = PAIRS * options.repeats.max(1);
    let all = rounds * variants.len();
    let (mut done, mut runs) = (0, Runs { pairs: BTreeMap::new(), idle: Vec::new() });
    let mut measure = |runs: &mut Runs, (asking, quota): (Asking, u32), round: usize| {
        let pair = pair(asking, quota, round.is_multiple_of(2), options)?;
        let [interrupts, polled] = pair;
        let result = match asking {
            Asking::Seldom => {
                let [polled, interrupts] = [polled, interrupts].map(|run| run.response_us);
                format!("polled takes {polled:.1} µs, by interrupts {interrupts:.1}")
            }
            _ => format!("quota {quota}: {:.0} answers/s of {:.0}", polled.answered, interrupts.answered),
        };
        done += 1;
        progress(&Progress { variant: asking.name(), result: &result, done: (done, all.max(done)) });
        runs.pairs.entry((asking, quota)).or_default().push(pair);
        io::Result::Ok(())
    };
    for round in 0..rounds {
        for &variant in &variants {
            measure(&mut runs, variant, round)?;
        }
    }
    // A busy machine may cause a miss, so missed points are measured as often again, and the median of all
    // counts.
    let missed: Vec<(Asking, u32)> = variants.into_iter().filter(|&v| !runs.keeps(v)).collect();
    for round in 0..rounds {
        for &variant in &missed {
            measure(&mut runs, variant, round)?;
        }
    }
    for _ in 0..options.repeats.max(1) {
        runs.idle.push(idle_share(most, options.window)?);
    }
    Ok(runs.outcome())
}

#[derive(Debug)]
struct Runs {
    pairs: BTreeMap<(Asking, u32), Vec<Pair>>,
    /// The share of its core that an idle process takes.
    idle: Vec<f64>,
}

impl Runs {
    /// Returns the median of the rounds.
    fn median(&self, (asking, quota): (Asking, u32), of: impl Fn(&Pair) -> f64) -> f64 {
        median(self.pairs.get(&(asking, quota)).into_iter().flatten().map(of))
    }

    /// Returns the rate of answers by polling, as a share of the rate by interrupts.
    fn kept(&self, variant: (Asking, u32)) -> f64 {
        self.median(variant, |[interrupts, polled]| polled.answered / interrupts.answered.max(1.0))
    }

    /// Returns whether a saturated server keeps its rate of answers by polling. Always true of a server
    /// that is asked seldom.
    fn keeps(&self, variant: (Asking, u32)) -> bool {
        let [least, most] = KEPT;
        variant.0 == Asking::Seldom || (least..=most).contains(&self.kept(variant))
    }

    /// Returns the median of the windows with interrupts, over all quotas.
    fn by_interrupts(&self, asking: Asking, of: impl Fn(&Measured) -> f64) -> f64 {
        let its = self.pairs.iter().filter(|((other, _), _)| *other == asking);
        median(its.flat_map(|(_, pairs)| pairs.iter().map(|pair| of(&pair[0]))))
    }

    fn points(&self) -> Vec<Point> {
        let point = |asking: Asking, quota: u32, of: &dyn Fn(fn(&Measured) -> f64) -> f64| {
            Point::new(asking.name(), f64::from(quota), of(|run| run.answered)).with([
                ("response_p50_us", of(|run| run.response_us)),
                ("frames_per_interrupt", of(|run| run.frames_per_interrupt)),
                ("busy", of(|run| run.busy)),
                ("core_share", of(|run| run.core_share)),
            ])
        };
        let mut points = Vec::new();
        for asking in [Asking::Http, Asking::PersistentHttp, Asking::Seldom] {
            points.push(point(asking, 0, &|of| self.by_interrupts(asking, of)));
            for &variant in self.pairs.keys().filter(|(other, _)| *other == asking) {
                let mut polled = point(asking, variant.1, &|of| self.median(variant, |pair| of(&pair[1])));
                polled.more.insert("of_interrupts", self.kept(variant));
                points.push(polled);
            }
        }
        points
    }

    fn outcome(&self) -> Outcome {
        Outcome::new("aggregation quota (0 is interrupts)", "answers/s", self.points(), self.checks())
    }

    fn checks(&self) -> Vec<Check> {
        let most = QUOTAS[QUOTAS.len() - 1];
        let kept = |asking| QUOTAS.map(|quota| self.kept((asking, quota)));
        let fast = |[interrupts, polled]: &Pair| polled.response_us / interrupts.response_us.max(1e-3);
        let saturated = self.pairs.iter().filter(|((asking, _), _)| *asking != Asking::Seldom);
        let busy: Vec<f64> =
            saturated.map(|(&variant, _)| self.median(variant, |[a, b]| a.busy.min(b.busy))).collect();
        let every = || self.pairs.values().flatten().flatten();
        let core_shares: Vec<f64> =
            self.pairs.keys().map(|&v| self.median(v, |[a, b]| a.core_share.min(b.core_share))).collect();
        let conserved = if every().all(|run| run.conserved) { "yes" } else { "no" };
        let failed: u64 = every().map(|run| run.failed).sum();
        vec![
            predicted(Ours, "HTTP: answers when polled, of those by interrupts, at each quota")
                .within(KEPT, &kept(Asking::Http)),
            predicted(Ours, "P-HTTP: answers when polled, of those by interrupts, at each quota")
                .within(KEPT, &kept(Asking::PersistentHttp)),
            predicted(Ours, "a request to an idle machine: median time with polling, of that by interrupts")
                .within(AS_FAST, &[self.median((Asking::Seldom, most), fast)]),
            predicted(Ours, "share of its core that an idle process takes").within(IDLE, &self.idle),
            condition("share of the time in which the saturated server had something to do")
                .within(SATURATED, &busy),
            condition("share of its core that the server had").within([0.9, 1.0], &core_shares),
            condition("requests that failed").within([0.0, 0.0], &[failed as f64]),
            condition("every frame is accounted for").equal("yes", conserved),
        ]
    }
}

/// Measures one window by interrupts and one by polling in sequence, so that disturbances by the machine
/// cancel out.
fn pair(asking: Asking, quota: u32, interrupts_first: bool, options: &Options) -> io::Result<Pair> {
    if interrupts_first {
        return Ok([run(asking, None, options)?, run(asking, Some(quota), options)?]);
    }
    let polled = run(asking, Some(quota), options)?;
    Ok([run(asking, None, options)?, polled])
}

fn run(asking: Asking, quota: Option<u32>, options: &Options) -> io::Result<Measured> {
    let (outside, inside) = lay(RING_PKTS);
    let clock = Clock::start();
    let plan = asking.plan(options);
    let (server, client) = opposite(
        |generator| serve(quota, inside, clock, generator),
        |sending, server| asking::from_host(plan, outside, clock, (sending, server)),
    )?;
    let (server, client) = (server?, client?);
    Ok(Measured {
        answered: client.report.answered_rps,
        response_us: client.report.response_us.p50.unwrap_or(f64::NAN),
        failed: client.report.counts.failed.all(),
        core_share: server.core_share.min(client.core_share),
        ..server
    })
}

/// Creates a host with a web server, with 4.2BSD's defaults except for `quota`.
fn engine(quota: Option<u32>, end: End, clock: Clock) -> io::Result<Engine> {
    let mut config = Config::of(Architecture::Eager)
        .with_paper_policies(|policies| policies.network_polling = quota.map(NetworkPolling::new));
    config.tcp.time_wait.wait = TIME_WAIT;
    let mut engine = Engine::new(Host::new(config).map_err(io::Error::other)?, clock)?;
    engine.add_cable(end, &[IpCidr::new(SERVER.into(), 24)]).map_err(io::Error::other)?;
    let options =
        stream::Options { port: HTTP, listener: ListenerConfig::default(), work: WORK, count: None };
    let server = Server::new(Web::new(Document::new(DOCUMENT)), options, Arc::<Counters>::default());
    engine.host_mut().spawn("httpd", 0, Box::new(server));
    // A SYN that arrives before the server listens is refused.
    engine.run(clock.now() + SETTLE, |_| false)?;
    Ok(engine)
}

/// Runs the server's thread. Returns its measurements of the run.
fn serve(quota: Option<u32>, end: End, clock: Clock, generator: &Generator) -> io::Result<Measured> {
    let mut engine = engine(quota, end, clock)?;
    let look = |engine: &Engine| {
        let host = engine.host();
        (CoreTime::of(engine), host.ledger().received, host.interrupts())
    };
    let [from, until] = drive(&mut engine, generator, look)?;
    Ok(Measured {
        frames_per_interrupt: (until.1 - from.1) as f64 / (until.2 - from.2).max(1) as f64,
        busy: 1.0 - until.0.shares_since(&from.0).idle,
        core_share: until.0.core_share_since(&from.0),
        conserved: engine.host().check().is_ok(),
        ..Measured::default()
    })
}

/// Returns the share of its core that an idle server takes.
fn idle_share(quota: u32, window: Duration) -> io::Result<f64> {
    let (_outside, inside) = lay(RING_PKTS);
    let clock = Clock::start();
    let mut engine = engine(Some(quota), inside, clock)?;
    let (begin, used) = (clock.now(), cpu::thread_cpu_time());
    engine.run(begin + window, |_| false)?;
    let elapsed = clock.now().since(begin).max(Duration::from_nanos(1));
    Ok(cpu::thread_cpu_time().saturating_sub(used).as_secs_f64() / elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_is_answered_and_polls_find_packets() {
        // A busy machine may leave a short window without an answer.
        let patiently = |asking, quota| {
            let windows = [30, 300, 3_000].map(Duration::from_millis).into_iter();
            let mut runs =
                windows.map(|window| run(asking, quota, &Options { window, ..Options::default() }).unwrap());
            let first = runs.next().unwrap();
            if first.answered > 0.0 { first } else { runs.find(|run| run.answered > 0.0).unwrap_or(first) }
        };
        for asking in [Asking::Http, Asking::PersistentHttp, Asking::Seldom] {
            for quota in [None, Some(1), Some(15)] {
                let run = patiently(asking, quota);
                assert!(run.conserved && run.failed == 0, "{asking:?}, {quota:?}: {run:?}");
                assert!(run.answered > 0.0 && run.frames_per_interrupt >= 1.0, "{asking:?}: {run:?}");
            }
        }
    }

    fn checks(answered: f64, response_us: f64, idle: f64) -> Vec<bool> {
        let good = Measured {
            answered: 100.0,
            response_us: 50.0,
            busy: 1.0,
            core_share: 1.0,
            conserved: true,
            ..Measured::default()
        };
        let pair = [good, Measured { answered, response_us, ..good }];
        let of = |asking| QUOTAS.map(|quota| ((asking, quota), vec![pair; 3]));
        let pairs = SATURATING.into_iter().flat_map(of).chain(of(Asking::Seldom)).collect();
        Runs { pairs, idle: vec![idle; 3] }.checks().iter().map(|check| check.ok).collect()
    }

    #[test]
    fn what_loses_throughput_is_slow_or_is_not_idle_misses() {
        assert_eq!(checks(101.0, 51.0, 0.001), [true; 8]);
        assert_eq!(checks(95.0, 51.0, 0.001)[..4], [false, false, true, true]);
        assert_eq!(checks(101.0, 70.0, 0.001)[..4], [true, true, false, true]);
        assert_eq!(checks(101.0, 51.0, 0.02)[..4], [true, true, true, false]);
    }
}
