//! The run of a load generator in real time: as a program of a host on a device or a cable, or straight into
//! a cable for the highest rates.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use evenkeel::Engine;
use evenkeel::raw::cable::{self, End, WireCounters};
use evenkeel::raw::cpu::{cpus, pin_to_cpu};
use evenkeel::raw::drops::{LinkDrop, QueueDrop, UdpDrop};
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::signal::Stop;
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wire::EthernetAddress;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::blaster::{Blaster, Counters, Options, Trouble};
use crate::counters::{Drop, HostCounters};
use crate::host_setup::{DeviceSetup, HostSetup, Limits, Looks, SetupError, drive, run_dry};
use crate::hosted::Hosted;
use crate::pace::Pace;
use crate::requests::Requests;
use crate::service::{self, Service};

/// Results of a load generator.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Blasted {
    /// The requested rate; `None` for the highest possible one.
    pub target_pps: Option<u64>,
    /// Seconds for which requests were sent.
    pub seconds: f64,
    /// Requests given to the device.
    pub sent: u64,
    /// The rate at which the device took requests.
    pub offered_pps: f64,
    /// Requests that were skipped because the generator ran late.
    pub missed: u64,
    /// Requests that did not reach the device, or that it refused.
    pub unsent: u64,
    /// Datagrams received in reply.
    pub replies: u64,
}

/// Results of a load generator and of the sink at the other end of its cable.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Flooded {
    /// The generator.
    #[serde(flatten)]
    pub blasted: Blasted,
    /// Counters of the generator's host, on a device.
    pub counters: Option<HostCounters>,
    /// The sink.
    pub receiver: Option<Receiver>,
    /// The reason why the device takes no frame any more; `None` if it takes them.
    pub device_failed: Option<String>,
    /// The reason why no request was sent, such as a next hop without an answer; `None` if some were sent.
    #[serde(serialize_with = "in_words")]
    #[schemars(with = "Option<String>")]
    pub trouble: Option<Trouble>,
}

#[expect(clippy::ref_option, reason = "as serde calls it")]
fn in_words<S: Serializer>(trouble: &Option<Trouble>, serializer: S) -> Result<S::Ok, S::Error> {
    trouble.map(|trouble| trouble.to_string()).serialize(serializer)
}

/// The sink at the other end of a cable.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Receiver {
    /// The receive architecture of the sink's host.
    pub architecture: String,
    /// Requests that the sink's program received.
    pub requests: u64,
    /// Requests that the sink's program received per second of sending.
    pub delivered_pps: f64,
    /// Counters of the sink's host.
    pub counters: HostCounters,
}

/// Sends requests from a host on a device. Calls `watch` with the results so far for each request of
/// `limits`.
///
/// # Errors
/// [`SetupError`]
pub fn on_device(
    setup: &HostSetup,
    at: &DeviceSetup,
    options: Options,
    limits: Limits,
    mut watch: impl FnMut(&Flooded),
) -> Result<Flooded, SetupError> {
    let (mut engine, attached) = setup.on_device(at, Clock::start())?;
    let flooded = |engine: &mut Engine, Completed { blasted, elapsed, trouble }| {
        let counters = HostCounters::of(&engine.snapshot(), elapsed);
        let device_failed = engine.failed_device();
        Flooded { blasted, counters: Some(counters), receiver: None, device_failed, trouble }
    };
    let ran = run(&mut engine, options, limits, || false, |engine, ran| watch(&flooded(engine, ran)))?;
    let flooded = flooded(&mut engine, ran);
    drop(engine);
    attached.close()?;
    Ok(flooded)
}

/// Sends requests from a host on one end of a cable.
pub(crate) fn on_cable(
    setup: &HostSetup,
    clock: Clock,
    end: End,
    options: Options,
    done: impl Fn() -> bool,
) -> Result<Blasted, SetupError> {
    let mut engine = setup.engine(clock)?;
    engine.add_cable(end, &setup.addresses)?;
    let Completed { blasted, trouble, .. } = run(&mut engine, options, Limits::default(), done, |_, _| {})?;
    trouble.map_or(Ok(blasted), |trouble| Err(trouble.into()))
}

/// The results of a load generator on a host.
struct Completed {
    blasted: Blasted,
    /// The time for which the host ran.
    elapsed: Duration,
    trouble: Option<Trouble>,
}

/// Runs a generator on a host until it has ended or `done` returns true. Calls `watch` as the limits say.
fn run(
    engine: &mut Engine,
    options: Options,
    limits: Limits,
    done: impl Fn() -> bool,
    mut watch: impl FnMut(&mut Engine, Completed),
) -> Result<Completed, SetupError> {
    let (tally, target_pps) = (Arc::new(Counters::default()), options.rate_pps);
    engine.host_mut().spawn("blaster", 0, Box::new(Blaster::new(options, Arc::clone(&tally))));
    let over = || tally.ended() || done();
    let looks = Looks { done_elsewhere: true, attend: None };
    let (_, elapsed) = drive(engine, limits, looks, over, |engine, elapsed, occasion| {
        if occasion.is_some() {
            let ran = Completed::of(engine, &tally, target_pps, elapsed);
            watch(engine, ran);
        }
        false
    })?;
    Ok(Completed::of(engine, &tally, target_pps, elapsed))
}

impl Completed {
    fn of(engine: &Engine, tally: &Counters, target_pps: Option<u64>, elapsed: Duration) -> Self {
        // The host sends only requests, and a few queries for its neighbours.
        let lost = never_left(engine).min(tally.sent());
        let (seconds, sent) = (tally.sending().as_secs_f64(), tally.sent() - lost);
        let blasted = Blasted {
            target_pps,
            seconds,
            sent,
            offered_pps: per_second(sent, seconds),
            missed: tally.missed(),
            unsent: tally.unsent() + lost,
            replies: tally.replies(),
        };
        Self { blasted, elapsed, trouble: tally.trouble() }
    }
}

/// Returns how many frames a host made that no device has taken: dropped on their way out, still waiting, or
/// refused by the operating system.
fn never_left(engine: &Engine) -> u64 {
    let ledger = engine.host().ledger();
    let refused: u64 = engine.observer().devices().iter().map(|device| device.refused).sum();
    ledger.originated.saturating_sub(ledger.transmitted) + refused
}

/// The parameters of a flood over a cable.
#[derive(Debug, Clone, Copy)]
pub struct Flood {
    /// Receive rings of the sink.
    pub queues: usize,
    /// Requests per second; `None` for the highest possible rate.
    pub rate_pps: Option<u64>,
    /// The most requests sent at a time.
    pub burst_pkts: u64,
    /// The time for which requests are sent; `None` for no limit.
    pub duration: Option<Duration>,
    /// The number of requests to send; `None` for no limit.
    pub count: Option<u64>,
}

/// Hardware addresses of a flooded cable's ends: generator, sink.
pub const HARDWARE: [EthernetAddress; 2] =
    [EthernetAddress([2, 0, 0, 0, 0, GENERATOR]), EthernetAddress([2, 0, 0, 0, 0, SINK])];
const GENERATOR: u8 = 1;
const SINK: u8 = 2;
/// The interval at which a waiting generator checks whether to stop, and at which every generator publishes
/// its results.
const LOOK: Duration = Duration::from_millis(10);

/// Floods a sink over a cable. The generator is a thread of its own, and the sink is a host on the calling
/// thread. Calls `watch` with the results so far for each request of `limits`.
///
/// If the process has two processors or more, each thread gets its own.
///
/// # Errors
/// [`SetupError`]
pub fn flood(
    setup: &HostSetup,
    requests: Requests,
    flood: Flood,
    sink: service::Options,
    limits: Limits,
    mut watch: impl FnMut(&Flooded),
) -> Result<Flooded, SetupError> {
    let clock = Clock::start();
    let demultiplexes = setup.config.architecture == Architecture::NiLrp;
    let near = cable::Options { queues: flood.queues, demultiplexes, ..cable::Options::new("sink", SINK) };
    let (near, far) = cable::pair(near, cable::Options::new("generator", GENERATOR));
    let mut sink = Sink::open(setup, near, sink, clock)?;
    let mut generator = Generator::new(far, requests, flood, clock, Stop::on_signals()?);
    let so_far = generator.so_far();
    let (processors, ended) = (cpus(), AtomicBool::new(false));
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            pin(&processors, 1);
            let blasted = generator.run();
            ended.store(true, Ordering::Release);
            blasted
        });
        pin(&processors, 0);
        let received = sink.run(limits, || ended.load(Ordering::Acquire), &so_far, &mut watch);
        let received = received.and_then(|()| sink.run_dry());
        let blasted = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        received.map(|()| blasted)
    })
    .map(|blasted| sink.flooded(blasted, generator.end.sent()))
}

/// Pins the calling thread to the `index`th of several processors. Does nothing if that is not permitted.
pub(crate) fn pin(processors: &[usize], index: usize) {
    if let (true, Some(&cpu)) = (processors.len() > 1, processors.get(index)) {
        let _ = pin_to_cpu(cpu);
    }
}

/// A load generator that puts finished frames into a cable.
#[derive(Debug)]
pub(crate) struct Generator {
    pub(crate) end: End,
    pub(crate) requests: Requests,
    pub(crate) flood: Flood,
    pub(crate) clock: Clock,
    pub(crate) stop: &'static Stop,
    so_far: SoFar,
}

/// Results of a generator as of its last [`LOOK`]. Any thread may read them.
#[derive(Debug, Clone, Default)]
pub(crate) struct SoFar(Arc<Mutex<(Blasted, WireCounters)>>);

impl SoFar {
    pub(crate) fn get(&self) -> (Blasted, WireCounters) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, sent: (Blasted, WireCounters)) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sent;
    }
}

impl Generator {
    pub(crate) fn new(end: End, requests: Requests, flood: Flood, clock: Clock, stop: &'static Stop) -> Self {
        Self { end, requests, flood, clock, stop, so_far: SoFar::default() }
    }

    pub(crate) fn so_far(&self) -> SoFar {
        self.so_far.clone()
    }

    pub(crate) fn run(&mut self) -> Blasted {
        let Flood { queues: _, rate_pps, burst_pkts, duration, count } = self.flood;
        let start = self.clock.now();
        let end = duration.map_or(Instant::NEVER, |duration| start + duration);
        let mut pace = rate_pps
            .map_or_else(|| Pace::unlimited(burst_pkts, start), |rate| Pace::new(rate, burst_pkts, start));
        let (mut now, mut sent) = (start, 0);
        let last = count.unwrap_or(u64::MAX);
        let blasted = |now: Instant, sent, pace: &Pace| {
            let seconds = now.since(start).as_secs_f64();
            Blasted {
                target_pps: rate_pps,
                seconds,
                sent,
                offered_pps: per_second(sent, seconds),
                missed: pace.missed(),
                ..Blasted::default()
            }
        };
        let mut look = start;
        while now < end && sent < last && !self.stop.requested() {
            let due = pace.take(now).min(last - sent);
            for _ in 0..due {
                self.end.send(self.requests.next());
            }
            if due > 0 {
                self.end.flush();
                sent += due;
            }
            if now >= look {
                look = now + LOOK;
                self.so_far.set((blasted(now, sent, &pace), self.end.sent()));
            }
            now = self.clock.spin_until(pace.next().min(end).min(now + LOOK));
        }
        blasted(now, sent, &pace)
    }
}

/// A host on the flooded end of a cable, with a service on it.
#[derive(Debug)]
struct Sink {
    hosted: Hosted,
    account: Account,
    elapsed: Duration,
}

impl Sink {
    fn open(
        setup: &HostSetup,
        end: End,
        options: service::Options,
        clock: Clock,
    ) -> Result<Self, SetupError> {
        let mut engine = setup.engine(clock)?;
        let interface = engine.add_cable(end, &setup.addresses)?;
        let mut hosted = Hosted::new(engine, interface, None)?;
        let tally = Arc::new(service::Counters::default());
        let program = Box::new(Service::new(options, Arc::clone(&tally)));
        hosted.spawn("sink", program, || tally.opened() || tally.ended())?;
        if let Some(error) = tally.refused() {
            return Err(error.into());
        }
        let account = Account { architecture: setup.config.architecture, tally };
        Ok(Self { hosted, account, elapsed: Duration::ZERO })
    }

    fn run(
        &mut self,
        limits: Limits,
        done: impl Fn() -> bool,
        sent: &SoFar,
        mut watch: impl FnMut(&Flooded),
    ) -> Result<(), SetupError> {
        let Self { hosted, account, elapsed, .. } = self;
        *elapsed += hosted.drive(limits, done, |engine, elapsed, _| {
            let counters = HostCounters::of(&engine.snapshot(), elapsed);
            let (blasted, wire) = sent.get();
            watch(&account.flooded(blasted, wire, counters));
        })?;
        Ok(())
    }

    /// Receives the frames that are still in transit.
    fn run_dry(&mut self) -> Result<(), SetupError> {
        self.elapsed += run_dry(&mut self.hosted.engine)?;
        Ok(())
    }

    /// Returns the results. `wire` has the counters of the cable, which counts what the interface shed.
    fn flooded(&mut self, blasted: Blasted, wire: WireCounters) -> Flooded {
        let engine = &mut self.hosted.engine;
        let mut counters = HostCounters::of(&engine.snapshot(), self.elapsed);
        counters.conserved &= blasted.sent == wire.accepted + wire.missed + wire.discarded;
        // A host that was stopped early leaves frames in its rings.
        counters.conserved &= wire.accepted == counters.received + engine.host().in_rings();
        self.account.flooded(blasted, wire, counters)
    }
}

/// The parts of the report on a flood.
#[derive(Debug)]
struct Account {
    architecture: Architecture,
    tally: Arc<service::Counters>,
}

impl Account {
    /// Returns what came of a flood. Frames shed by the interface are counted by the sender.
    fn flooded(&self, blasted: Blasted, wire: WireCounters, mut counters: HostCounters) -> Flooded {
        let missed = match self.architecture {
            Architecture::NiLrp => Drop::on_interface(QueueDrop::Channel, wire.missed),
            _ => Drop::on_interface(LinkDrop::RingFull, wire.missed),
        };
        let discarded = Drop::on_interface(UdpDrop::NoSocket, wire.discarded);
        counters.drops.retain(|drop| !drop.is_on_interface());
        counters.drops.splice(0..0, [missed, discarded].into_iter().filter(|d| d.frames > 0));
        let requests = self.tally.requests();
        let receiver = Receiver {
            architecture: self.architecture.name().to_owned(),
            requests,
            delivered_pps: per_second(requests, blasted.seconds),
            counters,
        };
        Flooded { blasted, counters: None, receiver: Some(receiver), device_failed: None, trouble: None }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for reports")]
fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}
