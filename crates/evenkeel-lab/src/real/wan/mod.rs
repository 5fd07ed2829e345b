//! Tables X and XI of the paper on soft timers in real time: response times of answers over an emulated wide
//! area network. The senders use a known capacity, other knowledge of the path, slow start, or BBR; on
//! devices also the kernel's TCP.
//!
//! One client queries all servers in turn, over one emulator: 50 ms in each direction, and a bottleneck. The
//! connections are persistent as in the paper. They have carried data before, so that the client's window is
//! open, and have then been silent until congestion windows have shrunk. New connections show what can only
//! be learned at the start.

mod client;
mod kernel;
mod ours;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::thread;

use evenkeel::raw::cpu::cpus;
use evenkeel::raw::signal::Stop;
use evenkeel::raw::tcp::Rate;
use evenkeel::raw::tcp::congestion::Algorithm;
use evenkeel::raw::tcp::recovery::{RecoveryConfig, Restart, Start};
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wire::{IpCidr, IpEndpoint, Ipv4Address};
use evenkeel_apps::measure::settle_on;
use evenkeel_apps::wan::between::{self, Between, Link};
use evenkeel_apps::wan::{Direction, Late, RealTime, Report};
use evenkeel_wan::{Limit, Settings, Size};

use self::client::{CLIENT, Client, KERNEL};
use self::ours::{Serving, Way};
use super::{Options, Place, Progress};
use crate::check::{Check, Origin::*, condition, predicted};
use crate::experiment::{Outcome, Point};
use crate::statistics::median;
use crate::t00_tab10::{ONE_WAY, PACKET_BYTES, RTT, ideal};

/// The experiments in virtual time, and the bottlenecks of their tables in bits a second.
const TABLES: [(&str, u64); 2] = [("t00-tab10", 50_000_000), ("t00-tab11", 100_000_000)];

/// The sizes of answers in packets. The paper's 100 000 take half a minute each, and show no more.
const PACKETS: [u32; 5] = [5, 10, 100, 1_000, 10_000];
/// The packets that a connection carries before it is measured. They open the receiver's window.
const WARM_UP: u32 = 1_000;
/// The silence that follows. A congestion window that is halved with each retransmission timeout, as the
/// kernel's is, is the initial one by then.
const SILENCE: Duration = Duration::from_secs(4);
/// The time between the end of a connection and the next one.
const BREATH: Duration = Duration::from_millis(400);

/// The longest time that the emulator spins.
const SPIN: Duration = Duration::from_micros(250);
const MEMORY_PKTS: usize = 32_768;

const OURS: [u8; 4] = [10, 78, 0, 3];
const PORT: u16 = 80;

/// The range of ratios in which response times count as ideal: the goal, and the resolution of the clocks.
const AS_IDEAL: [f64; 2] = [0.99, 1.05];
/// The range of ratios that count as no worse than CUBIC.
const NO_WORSE: [f64; 2] = [0.0, 1.05];
/// The allowed lateness of frames that leave the emulator, in microseconds, for 99 % of them: half a percent
/// of the round trip.
const LATE_US: [f64; 2] = [0.0, 500.0];

/// The implementation of the sending server, and its rule.
#[derive(Debug, Clone, Copy)]
enum Sender {
    Ours(fn(Rate) -> RecoveryConfig),
    Kernel(&'static str),
}

/// A curve of the figure: a sender, on persistent or on new connections.
#[derive(Debug, Clone, Copy)]
struct Series {
    name: &'static str,
    sender: Sender,
    /// Whether each transfer has a new connection.
    new: bool,
}

const fn persistent(name: &'static str, sender: Sender) -> Series {
    Series { name, sender, new: false }
}

const fn new(name: &'static str, sender: Sender) -> Series {
    Series { name, sender, new: true }
}

const KNOWN: &str = "known capacity";
const LAST: &str = "last rate";
const CUBIC: &str = "CUBIC";
const LINUX_CUBIC: &str = "Linux CUBIC";
const NEW_CUBIC: &str = "CUBIC, new";
const ESTIMATED: &str = "estimated, new";
const REMEMBERED: &str = "remembered, new";

const SERIES: [Series; 10] = [
    persistent(KNOWN, Sender::Ours(known)),
    persistent(LAST, Sender::Ours(last_rate)),
    persistent(CUBIC, Sender::Ours(cubic)),
    persistent("BBR", Sender::Ours(bbr)),
    persistent(LINUX_CUBIC, Sender::Kernel("cubic")),
    persistent("Linux BBR", Sender::Kernel("bbr")),
    new(ESTIMATED, Sender::Ours(estimated)),
    new(REMEMBERED, Sender::Ours(remembered)),
    new(NEW_CUBIC, Sender::Ours(cubic)),
    new("Linux CUBIC, new", Sender::Kernel("cubic")),
];

fn known(capacity: Rate) -> RecoveryConfig {
    RecoveryConfig { start: Start::At(capacity), ..RecoveryConfig::default() }
}

fn last_rate(_: Rate) -> RecoveryConfig {
    RecoveryConfig { pacing: true, restart: Restart::LastRate, ..RecoveryConfig::default() }
}

fn cubic(_: Rate) -> RecoveryConfig {
    RecoveryConfig::default()
}

fn bbr(_: Rate) -> RecoveryConfig {
    RecoveryConfig { algorithm: Algorithm::Bbr, ..RecoveryConfig::default() }
}

fn estimated(_: Rate) -> RecoveryConfig {
    RecoveryConfig { start: Start::Estimated, ..RecoveryConfig::default() }
}

fn remembered(_: Rate) -> RecoveryConfig {
    RecoveryConfig { start: Start::Remembered, ..RecoveryConfig::default() }
}

impl Series {
    /// Returns the endpoint of the series' server.
    fn endpoint(&self, nth: usize) -> IpEndpoint {
        let address = if self.is_kernels() { KERNEL } else { OURS };
        IpEndpoint::new(Ipv4Address::from(address).into(), port(nth))
    }

    const fn is_kernels(&self) -> bool {
        matches!(self.sender, Sender::Kernel(_))
    }
}

const fn port(nth: usize) -> u16 {
    PORT + nth as u16
}

/// Returns the bottleneck of an experiment in bit/s, if it is one of these.
pub(super) fn bottleneck(id: &str) -> Option<u64> {
    TABLES.iter().find(|(table, _)| *table == id).map(|(_, bps)| *bps)
}

/// Describes the conditions of the measurement, in addition to those of all experiments.
pub(super) fn conditions(bps: u64, on: Place) -> String {
    let receiver = if on == Place::Cable { "ours" } else { "the kernel" };
    format!(
        "{} Mbit/s, {ONE_WAY:?} each way, a queue of {} packets (twice what is on its way), to {receiver}",
        bps / 1_000_000,
        queue_pkts(bps)
    )
}

/// Returns the length of the queue: twice the packets that are under way.
fn queue_pkts(bps: u64) -> usize {
    let packets = Rate::bits_per_s(bps).bytes_in(RTT) / u64::from(PACKET_BYTES);
    2 * packets as usize
}

/// The plan for measuring a table: the sizes of answers, their number, and the pauses.
#[derive(Debug, Clone, Copy)]
struct Course {
    bps: u64,
    packets: &'static [u32],
    warm_up: u32,
    silence: Duration,
    repeats: usize,
    /// The emulator's core.
    cpu: Option<usize>,
}

/// Response times, by series and size.
type Times = BTreeMap<(usize, u32), Vec<Duration>>;

/// The response times of a table, and the conditions in which they were measured.
#[derive(Debug)]
struct Measured {
    times: Times,
    emulator: Report,
    core_share: f64,
}

pub(super) fn measure(
    bps: u64,
    options: &Options,
    progress: &mut (dyn FnMut(&Progress<'_>) + Send),
) -> io::Result<Outcome> {
    let repeats = options.repeats.max(1);
    // The processors are queried before this thread is bound to one.
    let [cpu, other] = [0, 1].map(|nth| cpus().get(nth).copied());
    let course = Course { bps, packets: &PACKETS, warm_up: WARM_UP, silence: SILENCE, repeats, cpu };
    // The measurement has its own thread. Threads that it starts share its core, except the emulator, which
    // gets another.
    let measured = thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            settle_on(other.as_ref());
            run(course, options, progress)
        });
        measuring.join().map_err(|_| io::Error::other("the measuring thread panicked"))?
    });
    Ok(measured?.outcome(bps))
}

fn run(
    course: Course,
    options: &Options,
    progress: &mut (dyn FnMut(&Progress<'_>) + Send),
) -> io::Result<Measured> {
    let clock = Clock::start();
    let cidr = |address: [u8; 4]| IpCidr::new(Ipv4Address::from(address).into(), 24);
    match options.on {
        Place::Tap | Place::Xdp => Err(io::Error::other("tables X and XI run on cable or packet only")),
        Place::Cable => {
            let ((left, first), (right, second)) = (between::cable("left", 10), between::cable("right", 20));
            let mut client = ours::client(right, cidr(CLIENT), clock)?;
            let way = Way::Cable(Box::new(left));
            let stand = Stand::begin(course, way, [first, second], options.seed, clock)?;
            stand.measure(course, &mut client, false, progress)
        }
        Place::Packet => {
            let kernels = SERIES.iter().enumerate().filter_map(|(nth, series)| match series.sender {
                Sender::Kernel(control) => Some((port(nth), control)),
                Sender::Ours(_) => None,
            });
            let kernels: Vec<_> = kernels.collect();
            kernel::in_namespaces(&kernels, clock, |left, right| {
                let mut client = kernel::client(clock)?;
                let (way, links) = (Way::Device(left.device), [left.link, right]);
                let stand = Stand::begin(course, way, links, options.seed, clock)?;
                let measured = stand.measure(course, &mut client, true, progress);
                drop(left.servers);
                measured
            })
        }
    }
}

/// The emulator, and our server behind it.
struct Stand {
    emulator: Between,
    server: Serving,
}

impl Stand {
    fn begin(course: Course, way: Way, links: [Link; 2], seed: u64, clock: Clock) -> io::Result<Self> {
        let Course { bps, cpu, .. } = course;
        let there = Settings {
            rate: evenkeel_wan::Rate::Bits(bps),
            size: Size::IP,
            queue: Limit::Packets(queue_pkts(bps)),
            delay: ONE_WAY,
            ..Settings::PERFECT
        };
        let directions = [there.clone(), there];
        let network = evenkeel_apps::wan::Options {
            directions,
            seed,
            spin: SPIN,
            real_time: RealTime::IfAllowed,
            cpu,
            memory_pkts: MEMORY_PKTS,
        };
        let emulator = Between::begin(&network, links, clock)?;
        let ports = SERIES.iter().enumerate().filter_map(|(nth, series)| match series.sender {
            Sender::Ours(rule) => Some((port(nth), ours::options(rule(Rate::bits_per_s(bps))))),
            Sender::Kernel(_) => None,
        });
        let address = IpCidr::new(Ipv4Address::from(OURS).into(), 24);
        Ok(Self { emulator, server: Serving::begin(way, address, ports.collect(), clock)? })
    }

    fn measure<S: Read + Write>(
        self,
        course: Course,
        client: &mut Client<S>,
        kernels: bool,
        progress: &mut (dyn FnMut(&Progress<'_>) + Send),
    ) -> io::Result<Measured> {
        let there = (0..SERIES.len()).filter(|nth| kernels || !SERIES[*nth].is_kernels());
        let mut asking = Asking { course, client, times: Times::new(), series: there.collect() };
        let asked = asking.ask_all(progress);
        let times = asking.times;
        let core_share = self.server.end()?;
        let emulator = self.emulator.end()?;
        asked?;
        Ok(Measured { times, emulator, core_share })
    }
}

/// The client, and the results of its requests so far.
struct Asking<'a, S> {
    course: Course,
    client: &'a mut Client<S>,
    times: Times,
    series: Vec<usize>,
}

/// A persistent connection, and the time of its last use.
struct Kept<S>(S, Instant);

impl<S: Read + Write> Asking<'_, S> {
    fn ask_all(&mut self, progress: &mut (dyn FnMut(&Progress<'_>) + Send)) -> io::Result<()> {
        let all = self.course.repeats * self.course.packets.len() * self.series.len();
        let mut done = 0;
        for _ in 0..self.course.repeats {
            let mut kept = self.open_all()?;
            for &packets in self.course.packets {
                for nth in self.series.clone() {
                    let time = match kept.get_mut(&nth) {
                        Some(kept) => self.on_persistent(kept, packets)?,
                        None => self.on_new(nth, packets)?,
                    };
                    self.times.entry((nth, packets)).or_default().push(time);
                    done += 1;
                    let result = format!("{packets} packets in {:.1} ms", ms(time));
                    progress(&Progress { variant: SERIES[nth].name, result: &result, done: (done, all) });
                }
                if Stop::on_signals()?.requested() {
                    return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
                }
            }
        }
        Ok(())
    }

    /// Opens each persistent connection, and the receiver's window on it.
    fn open_all(&mut self) -> io::Result<BTreeMap<usize, Kept<S>>> {
        let persistent: Vec<usize> = self.series.iter().copied().filter(|nth| !SERIES[*nth].new).collect();
        let mut kept = BTreeMap::new();
        for nth in persistent {
            let mut connection = self.client.open(SERIES[nth].endpoint(nth))?;
            self.client.ask(&mut connection, self.course.warm_up)?;
            kept.insert(nth, Kept(connection, self.client.now()));
        }
        Ok(kept)
    }

    fn on_persistent(&mut self, kept: &mut Kept<S>, packets: u32) -> io::Result<Duration> {
        let Kept(connection, used) = kept;
        let silent = self.client.now().since(*used);
        if silent < self.course.silence {
            self.client.pause(self.course.silence - silent)?;
        }
        let time = self.client.ask(connection, packets)?;
        *used = self.client.now();
        Ok(time)
    }

    fn on_new(&mut self, nth: usize, packets: u32) -> io::Result<Duration> {
        let to = SERIES[nth].endpoint(nth);
        if SERIES[nth].name == REMEMBERED {
            // This earlier connection gives the host something to remember.
            let mut earlier = self.client.open(to)?;
            self.client.ask(&mut earlier, self.course.warm_up)?;
        }
        self.client.pause(BREATH)?;
        let mut connection = self.client.open(to)?;
        // This covers the handshake, and the window of a SYN, which is not scaled.
        self.client.ask(&mut connection, 1)?;
        self.client.ask(&mut connection, packets)
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Measured {
    /// Returns the median response time, in milliseconds.
    fn response(&self, name: &str, packets: u32) -> f64 {
        let nth = SERIES.iter().position(|series| series.name == name);
        let times = nth.and_then(|nth| self.times.get(&(nth, packets)));
        median(times.into_iter().flatten().map(|time| ms(*time)))
    }

    /// Returns, for each size, the response time as a ratio to another.
    fn against(&self, name: &str, other: impl Fn(u32) -> f64) -> Vec<f64> {
        let sizes: std::collections::BTreeSet<u32> = self.times.keys().map(|key| key.1).collect();
        sizes.into_iter().map(|packets| self.response(name, packets) / other(packets)).collect()
    }

    fn outcome(&self, bps: u64) -> Outcome {
        let mut points: Vec<Point> = Vec::new();
        for (&(nth, packets), times) in &self.times {
            let response = self.response(SERIES[nth].name, packets);
            let all = || times.iter().map(|time| ms(*time));
            points.push(Point::new(SERIES[nth].name, f64::from(packets), response).with([
                ("of_ideal", response / ms(ideal(packets, bps))),
                ("least_ms", all().fold(f64::INFINITY, f64::min)),
                ("most_ms", all().fold(0.0, f64::max)),
            ]));
        }
        let ideals =
            PACKETS.map(|packets| Point::new("derived: ideal", packets.into(), ms(ideal(packets, bps))));
        points.extend(ideals);
        Outcome::new("packets", "response time (ms)", points, self.checks(bps))
    }

    fn checks(&self, bps: u64) -> Vec<Check> {
        let is_ideal = |packets| ms(ideal(packets, bps));
        let against_cubic = |name: &'static str, cubic: &'static str| {
            predicted(Ours, format!("{name}: response time at each size, of that of {cubic}"))
                .within(NO_WORSE, &self.against(name, |packets| self.response(cubic, packets)))
        };
        let mut checks = vec![
            predicted(Derived, "known capacity: response time at each size, of RTT + N packets")
                .within(AS_IDEAL, &self.against(KNOWN, is_ideal)),
            against_cubic(KNOWN, CUBIC),
            against_cubic(LAST, CUBIC),
            against_cubic(ESTIMATED, NEW_CUBIC),
            against_cubic(REMEMBERED, NEW_CUBIC),
            predicted(Derived, "CUBIC: response time for 100 packets (ms): four windows and the request")
                .within([400.0, 420.0], &[self.response(CUBIC, 100)]),
        ];
        if self.response(LINUX_CUBIC, 100).is_finite() {
            checks.push(against_cubic(KNOWN, LINUX_CUBIC));
            checks.push(against_cubic(CUBIC, LINUX_CUBIC));
            checks.push(
                predicted(Derived, "Linux CUBIC: response time for 100 packets (ms): the same")
                    .within([400.0, 420.0], &[self.response(LINUX_CUBIC, 100)]),
            );
        }
        checks.extend(self.conditions());
        checks
    }

    fn conditions(&self) -> [Check; 4] {
        let Report { directions, conserved, run_delay, .. } = &self.emulator;
        let own = directions.iter().map(|direction: &Direction| direction.own.lost()).sum::<u64>() as f64;
        let late: Vec<f64> = directions
            .iter()
            .map(|direction| {
                let Late { p99_us, .. } = direction.late;
                p99_us.unwrap_or(f64::NAN)
            })
            .collect();
        let conserved = if *conserved { "yes" } else { "no" };
        let had = [self.core_share, 1.0 - run_delay];
        [
            condition("frames that the emulator lost by itself").within([0.0, 0.0], &[own]),
            condition("how late the emulator sent 99 of 100 frames (µs)").within(LATE_US, &late),
            condition("share of the time that our server and the emulator had the cores they wanted")
                .within([0.9, 1.0], &had),
            condition("the emulator accounts for every frame").equal("yes", conserved),
        ]
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_skip::Lack;

    use super::*;

    const SHORT: Course = Course {
        bps: 100_000_000,
        packets: &[5, 60],
        warm_up: 20,
        silence: Duration::from_millis(10),
        repeats: 1,
        cpu: None,
    };

    /// Checks that each of its servers returns whole answers, none of them sooner than possible.
    fn is_whole(on: Place, servers: usize) -> io::Result<()> {
        let measured = run(SHORT, &Options { on, ..Options::default() }, &mut |_| ())?;
        assert_eq!(measured.times.len(), servers * SHORT.packets.len(), "{measured:?}");
        for (&(nth, packets), times) in &measured.times {
            let least = ideal(packets, SHORT.bps);
            assert!(times.len() == 1 && times[0] >= least, "{}: {times:?}, {least:?}", SERIES[nth].name);
        }
        assert!(measured.emulator.conserved, "{measured:?}");
        Ok(())
    }

    #[test]
    fn every_sender_of_ours_answers_over_the_emulator_between_cables() {
        is_whole(Place::Cable, 7).unwrap();
    }

    #[test]
    fn every_sender_answers_over_the_emulator_between_devices() {
        match is_whole(Place::Packet, SERIES.len()) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let test = "every_sender_answers_over_the_emulator_between_devices";
                evenkeel_skip::skip(test, &Lack::Root(&error.to_string()));
            }
            other => other.unwrap(),
        }
    }

    /// Returns measurements with these response times in round trips, equal for all sizes.
    fn measured(of: impl Fn(&str) -> f64) -> Measured {
        let times = SERIES
            .iter()
            .enumerate()
            .map(|(nth, series)| ((nth, 100), vec![ideal(100, 50_000_000).mul_f64(of(series.name)); 3]));
        let direction =
            |late| Direction { late: Late { p99_us: Some(late), ..Late::default() }, ..direction() };
        let emulator = Report { directions: vec![direction(20.0), direction(10.0)], ..report() };
        Measured { times: times.collect(), emulator, core_share: 1.0 }
    }

    fn report() -> Report {
        Report {
            seconds: 1.0,
            seed: 1,
            directions: Vec::new(),
            cpu: 0.1,
            run_delay: 0.0,
            preferred: false,
            real_time: false,
            clock: "tsc",
            conserved: true,
        }
    }

    fn direction() -> Direction {
        Direction {
            from: String::new(),
            to: String::new(),
            received: 0,
            bytes_in: 0,
            sent: 0,
            bytes_out: 0,
            out_bps: 0.0,
            lost: 0,
            queue_full: 0,
            duplicated: 0,
            corrupted: 0,
            reordered: 0,
            under_way: 0,
            own: evenkeel_apps::wan::Own::default(),
            given: Late::default(),
            late: Late::default(),
            adds_up: true,
        }
    }

    #[test]
    fn what_is_slower_than_it_should_be_misses() {
        let ok = |slow: &'static str, by: f64| {
            let of = |name: &str| match name {
                _ if name == slow => by,
                KNOWN | LAST => 1.0,
                _ => 405.0 / 124.0,
            };
            measured(of).checks(50_000_000).iter().map(|check| check.ok).collect::<Vec<_>>()
        };
        assert!(ok("", 1.0).iter().all(|ok| *ok), "{:?}", ok("", 1.0));
        assert_eq!(ok(KNOWN, 1.06)[..2], [false, true]);
        assert_eq!(ok(LAST, 4.0)[2..4], [false, true]);
        assert_eq!(ok(ESTIMATED, 4.0)[2..5], [true, false, true]);
        assert_eq!(ok(REMEMBERED, 4.0)[3..6], [true, false, true]);
        assert_eq!(ok(CUBIC, 4.0)[5..9], [false, true, false, true]);
    }

    #[test]
    fn an_emulator_that_was_late_or_lost_something_tells_nothing() {
        let with = |change: fn(&mut Measured)| {
            let mut measured = measured(|_| 1.0);
            change(&mut measured);
            measured.conditions().map(|check| check.ok)
        };
        assert_eq!(with(|_| ()), [true; 4]);
        assert_eq!(with(|m| m.emulator.directions[1].own.ring = 1), [false, true, true, true]);
        assert_eq!(with(|m| m.emulator.directions[1].late.p99_us = Some(600.0)), [true, false, true, true]);
        assert_eq!(with(|m| m.core_share = 0.5), [true, true, false, true]);
        assert_eq!(with(|m| m.emulator.run_delay = 0.5), [true, true, false, true]);
        assert_eq!(with(|m| m.emulator.conserved = false), [true, true, true, false]);
    }
}
