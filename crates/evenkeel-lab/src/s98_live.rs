//! A live proxy over a day, with the old kernel and with the new one: Banga and Mogul, WRL 98/6, section 6,
//! with caching off.
//!
//! A day's requests follow the paper's statistics (tables 3 and 14), in a day of 16 minutes: each of the 96
//! samples has ten seconds instead of fifteen minutes, at the same rate. Each answer comes from an origin
//! server at the end of a slow path, in pieces, over a time that is distributed as the paper reports for its
//! proxies. So more requests mean more open connections, and most of them wait. The cost of a request besides
//! `select` was fitted to the old kernel's days, and to an hour of one (tables 4, 6 and 15). The live machine
//! had a faster processor than that of the laboratory, but its kernel's work on descriptors is bound by
//! memory, and costs the same here.

use std::collections::VecDeque;

use evenkeel::raw::host::Work;
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::time::{Duration, Instant};
use evenkeel::raw::wire::IpEndpoint;
use evenkeel_apps::load::{Arrivals, Day, SAMPLES, Spacing};
use evenkeel_sim::profile::Profile;
use evenkeel_sim::rng::Rng;
use evenkeel_sim::selecting::{
    Answers, Due, HandlerCosts, HotClients, LoopCosts, LoopCounts, Path, Proxy, SlowOrigin,
};
use evenkeel_sim::world::{HostId, World};

use crate::check::{Check, Claim, Origin::*, calibrated, condition, predicted};
use crate::experiment::{Experiment, Outcome, Point};
use crate::s98_profile::about;
use crate::s98_testbed::{
    CLIENT, HTTP, Kernel, ORIGIN, SERVER, add_alpha, add_free_machine, listener, machine,
};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "s98-live",
    title: "A live proxy over a day, by its CPU's mode",
    source: "Banga and Mogul, Scalable kernel performance for Internet servers, WRL 98/6, section 6",
    measure,
};

/// The live trials of a proxy.
#[derive(Debug, Clone, Copy)]
struct Trials {
    name: &'static str,
    /// The prefix of its names in the machine model.
    program: &'static str,
    /// Requests in the day, old kernel and new (S98.Tab3, S98.Tab14).
    requests: [f64; 2],
    /// The hour of the profiles.
    hour: usize,
}

const NETCACHE: Trials =
    Trials { name: "NetCache", program: "netcache", requests: [2_581_113.0, 2_602_448.0], hour: 10 };
const SQUID: Trials =
    Trials { name: "Squid 1.1.20Mod", program: "squid-mod", requests: [2_242_373.0, 2_591_284.0], hour: 11 };
const KERNELS: [(&str, Kernel); 2] = [("old", Kernel::Unmodified), ("new", Kernel::Modified)];

/// The length of a sample, instead of fifteen minutes.
const SAMPLE: Duration = Duration::from_secs(10);
/// The time until the number of connections is that of the night.
const WARM_UP: Duration = Duration::from_secs(20);

/// S98.r.resp: the median of the time of an answer. The model assumes a log-normal distribution. This
/// deviation of the logarithm then makes the mean 2.5 s. The longest answers take half a minute, because the
/// day is short.
const MEDIAN_S: f64 = 0.25;
const DEVIATION: f64 = 2.146;
/// The factor by which connections last longer than answers. Without it the busiest moment of the day would
/// have a third of the descriptors in table 3: a connection lasts longer than its answer, and the paper's
/// figure is a year older than its trials. The factor makes the numbers equal.
const SLOWER: f64 = 5.5;
const LONGEST_S: f64 = 30.0;
/// This value is a choice: the paper has no sizes of the live trials.
const PIECE: usize = 8_192 / PIECES as usize;
/// The number of pieces of an answer, chosen so that the old kernel's `select` takes the share in table 6.
const PIECES: u32 = 16;

/// A sample: the share of the CPU in each mode, and the rate.
#[derive(Debug, Clone, Copy)]
struct Sample {
    rate: f64,
    idle: f64,
    kernel: f64,
    user: f64,
    /// The share of `select` in `kernel`.
    select: f64,
    /// The share of the loop around `select` in `user`.
    around: f64,
    ufalloc: f64,
    calls: f64,
}

struct Day96 {
    samples: Vec<Sample>,
    descriptors: f64,
    failed: u64,
    hour: usize,
}

fn path(rng: &mut Rng) -> Path {
    // The sum of twelve uniform numbers is nearly normal.
    let unit = |rng: &mut Rng| rng.below(1 << 53) as f64 / (1_u64 << 53) as f64;
    let normal = (0..12).map(|_| unit(rng)).sum::<f64>() - 6.0;
    let time = (SLOWER * MEDIAN_S * (DEVIATION * normal).exp()).min(LONGEST_S);
    Path { time: Duration::from_secs_f64(time), pieces: PIECES, bytes: PIECE }
}

struct Bench {
    world: World,
    proxy: HostId,
    around: LoopCounts,
    /// The time of the kernel for a request, without packets, calls and `select`.
    kernel_request: Duration,
}

impl Bench {
    fn new(trials: &Trials, kernel: Kernel, seed: u64) -> Self {
        let mut world = World::new(seed);
        let segment = world.add_segment();
        let model = machine();
        let costs = model.costs(Architecture::Eager);
        add_free_machine(&mut world, segment, CLIENT);
        let proxy = add_alpha(&mut world, segment, kernel, costs, SERVER);
        let origin = add_free_machine(&mut world, segment, ORIGIN);
        let mut rng = world.fork_rng();
        let slow = SlowOrigin::new(HTTP, listener(), move || path(&mut rng));
        world.host_mut(origin).spawn("origin", 0, Box::new(slow));
        let time = |part| model.program(&format!("{}-{part}", trials.program)).expect("the model has it");
        let kernel_request = time("kernel");
        let around = LoopCosts { descriptor: time("descriptor") };
        let costs = HandlerCosts { request: time("user") + kernel_request, kilobyte: Duration::ZERO };
        let to = IpEndpoint::new(ORIGIN.into(), HTTP);
        let (program, around, _) = Proxy::new((HTTP, listener()), to, Answers::Relayed, around, costs);
        world.host_mut(proxy).spawn("proxy", 0, Box::new(program));
        Self { world, proxy, around, kernel_request }
    }

    fn profile(&self) -> Profile {
        *self.world.cpu(self.proxy).profile()
    }
}

/// Returns the times at which requests are due.
fn due(requests: f64, seed: u64) -> VecDeque<Instant> {
    let mean = requests / 86_400.0;
    let day = Day::synthetic().scaled(mean, None).expect("a mean of any height can be had");
    let curve = day.within(SAMPLE * SAMPLES as u32, seed).after(WARM_UP);
    let mut arrivals = Arrivals::new(curve, Spacing::Poisson, seed);
    let next = || {
        let time = arrivals.next()?;
        arrivals.advance();
        Some(Instant::ZERO + time)
    };
    std::iter::from_fn(next).collect()
}

fn day(trials: &Trials, (nth, kernel): (usize, Kernel), seed: u64) -> Day96 {
    let mut bench = Bench::new(trials, kernel, seed);
    let to = IpEndpoint::new(SERVER.into(), HTTP);
    let due = Due::At(due(trials.requests[nth], seed));
    let (clients, counts) = HotClients::new(to, usize::MAX, 1, due);
    bench.world.host_mut(HostId(0)).spawn("clients", 0, Box::new(clients));
    bench.world.run_until(Instant::ZERO + WARM_UP);
    let mut samples = Vec::new();
    let (mut profile, mut answered) = (bench.profile(), counts.answered.get());
    let (mut around, mut calls) = (bench.around.nanos.get(), bench.around.calls.get());
    for _ in 0..SAMPLES {
        bench.world.run_until(bench.world.now() + SAMPLE);
        let now =
            (bench.profile(), counts.answered.get(), bench.around.nanos.get(), bench.around.calls.get());
        let part = now.0.since(&profile);
        let seconds = SAMPLE.as_secs_f64();
        let share = |time: Duration| time.as_secs_f64() / seconds;
        let rate = (now.1 - answered) as f64 / seconds;
        let (busy, user) =
            (share(part.total()), share(part.compute()) - bench.kernel_request.as_secs_f64() * rate);
        samples.push(Sample {
            rate,
            idle: 1.0 - busy,
            kernel: busy - user,
            user,
            select: share(part.of(Work::StatusTest) + part.of(Work::SetWord)),
            around: (now.2 - around) as f64 / 1e9 / seconds,
            ufalloc: share(part.of(Work::NumberLook)),
            calls: (now.3 - calls) as f64 / seconds,
        });
        (profile, answered, around, calls) = now;
    }
    let descriptors = bench.around.most.get() as f64;
    Day96 { samples, descriptors, failed: counts.failed.get(), hour: trials.hour }
}

/// A straight line through samples, by least squares, for a share in percent.
#[derive(Debug, Clone, Copy)]
struct Line {
    slope: f64,
    at_zero: f64,
    correlation: f64,
}

impl Line {
    fn through(points: &[(f64, f64)]) -> Self {
        let n = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
        let (x, y) = (mean(|p| p.0), mean(|p| p.1));
        let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|p| of(p.0 - x, p.1 - y)).sum::<f64>();
        let (xx, xy, yy) = (sum(&|dx, _| dx * dx), sum(&|dx, dy| dx * dy), sum(&|_, dy| dy * dy));
        let slope = xy / xx;
        Self { slope, at_zero: y - slope * x, correlation: xy / (xx * yy).sqrt() }
    }

    /// Returns the rate at which the line reaches zero.
    fn ends(&self) -> f64 {
        -self.at_zero / self.slope
    }
}

impl Day96 {
    fn points(&self, series: &str, share: fn(&Sample) -> f64) -> Vec<Point> {
        let more = |s: &Sample| {
            [("user", s.user), ("select", s.select), ("around_select", s.around), ("calls_per_s", s.calls)]
        };
        let point = |s: &Sample| Point::new(series, s.rate, 100.0 * share(s)).with(more(s));
        self.samples.iter().map(point).collect()
    }

    fn line(&self, share: fn(&Sample) -> f64, above: f64) -> Line {
        let samples = self.samples.iter().filter(|sample| sample.rate > above);
        Line::through(&samples.map(|sample| (sample.rate, 100.0 * share(sample))).collect::<Vec<_>>())
    }

    /// Returns the mean over the hour of the profile.
    fn hour(&self, of: fn(&Sample) -> f64) -> f64 {
        let hour = &self.samples[4 * self.hour..4 * (self.hour + 1)];
        hour.iter().map(of).sum::<f64>() / hour.len() as f64
    }

    /// Returns a share of the time that was not idle, in percent.
    fn busy_share(&self, of: fn(&Sample) -> f64) -> f64 {
        100.0 * self.hour(of) / (1.0 - self.hour(|sample| sample.idle))
    }
}

fn measure(seed: u64) -> Outcome {
    let days = [NETCACHE, SQUID].map(|trials| {
        let day = |nth: usize| day(&trials, (nth, KERNELS[nth].1), seed);
        [day(0), day(1)]
    });
    let mut points = Vec::new();
    for (trials, days) in [NETCACHE, SQUID].iter().zip(&days) {
        for ((kernel, _), day) in KERNELS.iter().zip(days) {
            points.extend(day.points(&format!("{}, idle, {kernel}", trials.name), |s| s.idle));
            points.extend(day.points(&format!("{}, kernel, {kernel}", trials.name), |s| s.kernel));
        }
    }
    Outcome::new("requests/s", "share of the CPU (%)", points, checks(&days))
}

/// The relative tolerance of a slope, and of the rate at which a line ends.
const SLOPE: f64 = 0.1;
/// The relative tolerance of a share of at most a few percent.
const SMALL: f64 = 0.25;

/// The figures that the paper states, for the old kernel and the new one.
mod paper {
    /// Regressions: the slopes of idle, kernel and user time, percent of the CPU for a request a second; and
    /// the rate at which no idle time is left.
    pub(super) struct Lines {
        pub(super) idle: [f64; 2],
        pub(super) kernel: [f64; 2],
        pub(super) user: [f64; 2],
        pub(super) ends: [f64; 2],
    }

    /// The lines of NetCache through all samples (S98.Tab4, S98.F10.x).
    pub(super) const NETCACHE: Lines =
        Lines { idle: [-1.67, -1.34], kernel: [1.09, 0.85], user: [0.58, 0.49], ends: [58.0, 69.0] };
    /// S98.Tab5, S98.F10.x20: the samples with more than [`ABOVE`].
    pub(super) const NETCACHE_ABOVE: Lines =
        Lines { idle: [-1.69, -1.46], kernel: [1.02, 0.85], user: [0.68, 0.65], ends: [57.0, 68.0] };
    pub(super) const ABOVE: f64 = 20.0;
    /// The lines of Squid through all samples (S98.Tab15, S98.F13.x).
    pub(super) const SQUID: Lines =
        Lines { idle: [-1.69, -1.26], kernel: [1.05, 0.73], user: [0.64, 0.54], ends: [55.0, 83.0] };
    /// S98.Tab6, S98.Tab7 and S98.Tab16, S98.Tab13: `select`, and the loop around it, as shares of the time
    /// that was not idle; and the idle time.
    pub(super) struct Hour {
        pub(super) select: [f64; 2],
        pub(super) around: [f64; 2],
        pub(super) idle: [f64; 2],
    }

    pub(super) const NETCACHE_HOUR: Hour =
        Hour { select: [39.53, 30.0], around: [14.17, 18.32], idle: [10.77, 16.29] };
    pub(super) const SQUID_HOUR: Hour =
        Hour { select: [43.64, 24.49], around: [0.26, 0.54], idle: [10.73, 34.57] };
    /// S98.Tab3: the most descriptors of the day with the new kernel.
    pub(super) const DESCRIPTORS: f64 = 755.0;
    /// S98.Tab14: the most descriptors of the day with the new kernel, for Squid.
    pub(super) const SQUID_DESCRIPTORS: f64 = 1_714.0;
    /// Calls of `select` for a request of NetCache: the new kernel's number, divided by the old one's
    /// (S98.T7.calls).
    pub(super) const MORE_CALLS: f64 = 7.0;
    /// The share of `ufalloc` with NetCache, in percent: old kernel, new kernel (S98.T7.ufalloc).
    pub(super) const UFALLOC: [f64; 2] = [0.20, 0.03];
    /// The rate at which no idle time is left, for NetCache and for Squid: the new kernel's, divided by the
    /// old one's (S98.F10.gain, S98.F13.gain).
    pub(super) const GAINS: [f64; 2] = [1.19, 1.51];
}

const THREADS: &str = "NetCache has several threads, all of which ask for the same events again; by the \
     paper's account it calls the new select seven times as often; here is one thread";
const CHEAP: &str = "as in the laboratory the new select costs next to nothing for each event; the paper's \
     live proxies ask for far more (threads that find the same event, a small set that is polled very \
     often), which it does not count";
const LOOP: &str = "the loop around select has a price for each descriptor of a call, and there are half as \
     many calls again with the new select; the paper has seven times the calls and 1.3 times the loop's \
     share, so that most of those calls cannot take what one takes with the old kernel";
const DATA_CACHE: &str = "the paper suspects that the new kernel leaves more of the data cache to user mode; \
     there is no cache here, and user mode costs the same with both kernels";
const LOOKS: &str = "a look for a free number costs what it costs in the laboratory (0.5 µs, table 1), and \
     there are 360 for each number; the paper's 0.20 % are 37, and it says no more than that the numbers \
     of a live proxy may be allocated in another pattern";
const HOUSEKEEPING: &str = "the price was fitted to the slope of the whole day, 0.58; above 20 \
     requests/s the paper's is a sixth steeper, which it lays to other work at night; there is none \
     here, and the slope is even less, for the busier the proxy, the more a turn of its loop finds";
const MORE_DESCRIPTORS: &str = "Squid had more than twice as many descriptors as NetCache at the same load, \
     five months later; the paper does not say why, and here both have the same clients";

fn checks(days: &[[Day96; 2]; 2]) -> Vec<Check> {
    let [netcache, squid] = days;
    let mut checks = vec![condition("requests that failed").within([0.0, 0.0], &[failed(days)])];
    checks.extend(fitted(netcache, squid));
    checks.extend(lines(days));
    checks.extend(regressions(days));
    checks.extend(gains(days));
    checks.extend(hours(netcache, squid));
    checks
}

fn failed(days: &[[Day96; 2]; 2]) -> f64 {
    days.iter().flatten().map(|day| day.failed).sum::<u64>() as f64
}

const NETCACHE_PRICES: &str = "program.netcache-user, program.netcache-kernel";
const SQUID_PRICES: &str = "program.squid-mod-user, program.squid-mod-kernel";

/// Checks the descriptors and the old kernel's hours, to which costs were fitted.
fn fitted([netcache, new]: &[Day96; 2], [squid, _]: &[Day96; 2]) -> Vec<Check> {
    let (n, s) = (paper::NETCACHE_HOUR, paper::SQUID_HOUR);
    vec![
        calibrated("how much slower answers are", Paper, "NetCache, new: most descriptors of the day").near(
            paper::DESCRIPTORS,
            new.descriptors,
            0.1,
        ),
        calibrated(
            "pieces of an answer",
            Paper,
            "NetCache, old, busy hour: select, of the time not idle (%)",
        )
        .within(about(n.select[0]), &[netcache.busy_share(|s| s.select)]),
        calibrated("program.netcache-descriptor", Paper, "NetCache, old, busy hour: loop around select (%)")
            .within(about(n.around[0]), &[netcache.busy_share(|s| s.around)]),
        calibrated(NETCACHE_PRICES, Paper, "NetCache, old, busy hour: idle (%)")
            .within(about(n.idle[0]), &[100.0 * netcache.hour(|s| s.idle)]),
        calibrated("program.squid-mod-descriptor", Paper, "Squid, old, busy hour: loop around select (%)")
            .near(s.around[0], squid.busy_share(|s| s.around), SMALL),
    ]
}

/// Checks the paper's statements about all trials.
fn lines(days: &[[Day96; 2]; 2]) -> Vec<Check> {
    let all = |share: fn(&Sample) -> f64| -> Vec<f64> {
        days.iter().flatten().map(|day| day.line(share, 0.0).correlation).collect()
    };
    let steeper = |share: fn(&Sample) -> f64| {
        days.each_ref().map(|[old, new]| old.line(share, 0.0).slope / new.line(share, 0.0).slope)
    };
    vec![
        predicted(Paper, "correlation of kernel time with the rate, all trials")
            .within([0.9, 1.0], &all(|s| s.kernel)),
        predicted(Paper, "correlation of idle time with the rate, all trials")
            .within([-1.0, -0.9], &all(|s| s.idle)),
        predicted(Words, "slope of kernel time, old of new: significantly steeper")
            .within([1.15, 3.0], &steeper(|s| s.kernel)),
        predicted(Words, "slope of idle time, old of new: significantly steeper")
            .within([1.15, 3.0], &steeper(|s| s.idle)),
    ]
}

/// A day's lines through the samples above a rate, compared with the paper's.
struct Regressions<'a> {
    proxy: &'static str,
    day: &'a Day96,
    /// The old kernel or the new one.
    kernel: usize,
    /// The prices that were fitted to the old kernel's day.
    prices: &'static str,
    above: f64,
    paper: paper::Lines,
}

impl Regressions<'_> {
    /// Checks the slopes of idle, kernel and user time, and the rate at which no idle time is left, each
    /// with the reason for a known miss.
    fn checks(&self, missed: [Option<&'static str>; 4]) -> Vec<Check> {
        let line = |share| self.day.line(share, self.above);
        let (idle, slopes) = (line(|s| s.idle), "(% for a request/s)");
        let (of, at) = (&self.paper, self.kernel);
        let compared = [
            (format!("slope of idle time {slopes}"), of.idle[at], idle.slope),
            (format!("slope of kernel time {slopes}"), of.kernel[at], line(|s| s.kernel).slope),
            (format!("slope of user time {slopes}"), of.user[at], line(|s| s.user).slope),
            ("no idle time left at (requests/s)".to_owned(), of.ends[at], idle.ends()),
        ];
        let check = |((what, expected, here), missed): ((String, f64, f64), Option<&'static str>)| {
            let check = self.claim(&what).near(expected, here, SLOPE);
            missed.map_or(check.clone(), |why| check.known_miss(why))
        };
        compared.into_iter().zip(missed).map(check).collect()
    }

    fn claim(&self, what: &str) -> Claim {
        let above =
            if self.above > 0.0 { format!(", above {} requests/s", self.above) } else { String::new() };
        let name = format!("{}, {}{above}: {what}", self.proxy, KERNELS[self.kernel].0);
        if self.kernel == 0 { calibrated(self.prices, Paper, name) } else { predicted(Paper, name) }
    }
}

/// Checks the lines of tables 4, 5 and 15.
fn regressions([netcache, squid]: &[[Day96; 2]; 2]) -> Vec<Check> {
    let netcache = |kernel: usize, above, paper| Regressions {
        proxy: NETCACHE.name,
        day: &netcache[kernel],
        kernel,
        prices: NETCACHE_PRICES,
        above,
        paper,
    };
    let squid = |kernel: usize| Regressions {
        proxy: "Squid",
        day: &squid[kernel],
        kernel,
        prices: SQUID_PRICES,
        above: 0.0,
        paper: paper::SQUID,
    };
    let all = |kernel| netcache(kernel, 0.0, paper::NETCACHE);
    let above = |kernel| netcache(kernel, paper::ABOVE, paper::NETCACHE_ABOVE);
    [
        all(0).checks([None; 4]),
        all(1).checks([None, Some(THREADS), Some(LOOP), Some(THREADS)]),
        above(0).checks([None, None, Some(HOUSEKEEPING), None]),
        above(1).checks([Some(THREADS), Some(THREADS), Some(LOOP), Some(THREADS)]),
        squid(0).checks([None; 4]),
        squid(1).checks([None, Some(CHEAP), Some(DATA_CACHE), None]),
    ]
    .concat()
}

fn gains(days: &[[Day96; 2]; 2]) -> Vec<Check> {
    let ends = |day: &Day96| day.line(|s| s.idle, 0.0).ends();
    let [netcache, squid] = days.each_ref().map(|[old, new]| ends(new) / ends(old));
    let more = if squid > netcache { "Squid" } else { "NetCache" };
    vec![
        predicted(Words, "no idle time left, new kernel of old, both proxies: later")
            .within([1.1, 2.0], &[netcache, squid]),
        predicted(Paper, "NetCache: no idle time left, new kernel of old (times)")
            .near(paper::GAINS[0], netcache, SLOPE)
            .known_miss(THREADS),
        predicted(Paper, "Squid: no idle time left, new kernel of old (times)").near(
            paper::GAINS[1],
            squid,
            SLOPE,
        ),
        predicted(Paper, "which gains more").equal("Squid", more),
    ]
}

/// Checks the hour of the profiles.
fn hours([netcache, netcache_new]: &[Day96; 2], [squid, squid_new]: &[Day96; 2]) -> Vec<Check> {
    let (n, s) = (paper::NETCACHE_HOUR, paper::SQUID_HOUR);
    let select = |day: &Day96| day.busy_share(|s| s.select);
    let idle = |day: &Day96| 100.0 * day.hour(|s| s.idle);
    let calls = |day: &Day96| day.hour(|s| s.calls) / day.hour(|s| s.rate);
    let ufalloc = |day: &Day96| 100.0 * day.hour(|s| s.ufalloc);
    let of = |what: &str| predicted(Paper, format!("busy hour: {what}"));
    vec![
        of("Squid, old: select, of the time not idle (%)")
            .within(about(s.select[0]), &[select(squid)])
            .known_miss(MORE_DESCRIPTORS),
        of("NetCache, new: select, of the time not idle (%)")
            .within(about(n.select[1]), &[select(netcache_new)])
            .known_miss(THREADS),
        of("Squid, new: select, of the time not idle (%)")
            .within(about(s.select[1]), &[select(squid_new)])
            .known_miss(CHEAP),
        predicted(Words, "busy hour: select with the new kernel, of that with the old: significantly less")
            .within(
                [0.1, 0.8],
                &[select(netcache_new) / select(netcache), select(squid_new) / select(squid)],
            ),
        of("Squid, old: idle (%)").within(about(s.idle[0]), &[idle(squid)]).known_miss(MORE_DESCRIPTORS),
        predicted(Paper, "Squid, new: most descriptors of the day")
            .near(paper::SQUID_DESCRIPTORS, squid_new.descriptors, 0.1)
            .known_miss(MORE_DESCRIPTORS),
        of("Squid, new: idle (%)").within(about(s.idle[1]), &[idle(squid_new)]),
        of("NetCache, new: idle (%)").within(about(n.idle[1]), &[idle(netcache_new)]).known_miss(THREADS),
        of("NetCache: calls of select for a request, new kernel of old (times)")
            .near(paper::MORE_CALLS, calls(netcache_new) / calls(netcache), 0.1)
            .known_miss(THREADS),
        of("NetCache, new: the loop around select, of the time not idle (%)")
            .within(about(n.around[1]), &[netcache_new.busy_share(|s| s.around)])
            .known_miss(LOOP),
        of("Squid, new: the loop around select, of the time not idle (%)").near(
            s.around[1],
            squid_new.busy_share(|s| s.around),
            SMALL,
        ),
        of("NetCache, old: ufalloc (%)").near(paper::UFALLOC[0], ufalloc(netcache), SMALL).known_miss(LOOKS),
        // The paper has two decimals.
        of("NetCache, new: ufalloc (%)")
            .within([paper::UFALLOC[1] - 0.01, paper::UFALLOC[1] + 0.01], &[ufalloc(netcache_new)]),
        predicted(
            Words,
            "busy hour: ufalloc, old (%): no major problem, unlike with fixed cold connections (17.79)",
        )
        .within([0.02, 3.0], &[ufalloc(netcache), ufalloc(squid)]),
    ]
}
