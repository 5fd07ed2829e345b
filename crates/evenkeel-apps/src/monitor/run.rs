//! The run of a monitor in real time: on a device, or on a cable that is flooded from its other end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use evenkeel::raw::cable::{self, WireCounters};
use evenkeel::raw::capture::bpf::Program;
use evenkeel::raw::capture::encode::Described;
use evenkeel::raw::capture::{
    Capture, CaptureCounters, Expression, FilterError, Frames, Judge, KEPT_BYTES_MAX, PassedOver, Target,
};
use evenkeel::raw::cpu::cpus;
use evenkeel::raw::device::{DeviceInfo, DeviceSpec, Listen};
use evenkeel::raw::frame::LinkType;
use evenkeel::raw::host::Config;
use evenkeel::raw::ip::InterfaceId;
use evenkeel::raw::signal::Stop;
use evenkeel::raw::time::{Clock, Duration};
use evenkeel::raw::wire::EthernetAddress;
use evenkeel::{Ended, Engine};
use schemars::JsonSchema;
use serde::Serialize;

use crate::blast::{self, Blasted, Flood, Generator, SoFar};
use crate::captures::file::CaptureFile;
use crate::captures::lines::Lines;
use crate::captures::summary::Summarized;
use crate::captures::{Counters, Monitor, Options, Product, Writable, shared, watch};
use crate::counters::HostCounters;
use crate::host_setup::{HostSetup, Limits, Looks, Occasion, SetupError, drive};
use crate::requests::Requests;

/// Options for a run of the monitor.
#[derive(Debug)]
pub struct Setup {
    /// The configuration of the host: its receive architecture and its limits.
    pub config: Config,
    /// The filter that chooses the frames; `None` for all frames.
    pub filter: Option<Expression>,
    /// The most bytes kept of a frame.
    pub snaplen: usize,
    /// Frames that the capture queue holds.
    pub queue_pkts: usize,
    /// The number of frames that a cable's receive ring holds. The ring of a network device has 2 KiB of
    /// memory for each, and holds more frames if they are smaller.
    pub ring_pkts: usize,
    /// Whether frames to other stations are seen, too.
    pub promiscuous: bool,
    /// The number of frames after which the monitor ends; `None` for no end.
    pub count: Option<u64>,
    /// The output made of the frames.
    pub output: What,
}

/// The output that a monitor makes of frames.
#[derive(Debug)]
pub enum What {
    /// Writes the frames to a capture.
    File(Target),
    /// Shows a line for each frame.
    Lines(Lines),
    /// Counts the frames.
    Summary,
}

/// The result of a monitor, so far or at its end. Every frame is accounted for: `received = shed + seen`
/// and `accepted = dropped + discarded + unread + captured`. The filter rejected the frames that were seen
/// and not accepted.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Monitored {
    /// The time that the monitor ran, in seconds.
    pub seconds: f64,
    /// The filter expression.
    pub filter: Option<String>,
    /// Whether the kernel ran the filter, so that the number of rejected frames is unknown.
    pub filter_in_kernel: bool,
    /// The number of frames that came to the interface, or that the kernel's filter accepted.
    pub received: u64,
    /// Received frames that the interface dropped, nearly always because its ring was full. The counters of
    /// the host have the reasons.
    pub missed: u64,
    /// The number of frames that the filter was applied to.
    pub seen: u64,
    /// The number of frames that the filter accepted.
    pub accepted: u64,
    /// Accepted frames that were dropped because the capture queue was full.
    pub dropped: u64,
    /// Accepted frames that were not written because the disk was full or the reader took none.
    pub discarded: u64,
    /// Accepted frames that were still in the queue when the monitor ended.
    pub unread: u64,
    /// The number of frames captured.
    pub captured: u64,
    /// Captured frames that were larger than a block of the ring, of which the first 127 KiB were kept.
    pub cut: u64,
    /// Frames of a capture file that were seen and not accepted because the filter has no meaning on their
    /// link type.
    pub passed_over: u64,
    /// The reason why they were passed over.
    #[serde(skip)]
    pub passed_over_because: Option<String>,
    /// The bytes that the captured frames had on the wire.
    pub bytes: u64,
    /// The counts by protocol and by sender and destination; `None` if frames were written or shown.
    pub summary: Option<Summarized>,
    /// The counters of the host.
    pub counters: HostCounters,
    /// The result of the generator at the other end of a cable; `None` on a device.
    pub generator: Option<Blasted>,
    /// The reason why the device delivers no more frames; `None` if it works.
    pub device_failed: Option<String>,
    /// The reason why not all frames were written or seen; `None` if they were.
    #[serde(skip)]
    pub incomplete: Option<String>,
}

/// An event for the caller of a running monitor.
#[derive(Debug)]
pub enum News {
    /// The monitor listens on these interfaces.
    Listening(Vec<String>),
    /// The progress so far, at every interval that the limits ask for.
    Glance(Box<Glance>),
    /// The result so far, after a request for a report.
    Report(Box<Monitored>),
    /// The output cannot be written, or can be written again.
    Writable(Writable),
}

/// The progress of a monitor at one time.
#[derive(Debug)]
pub struct Glance {
    /// The time since the start.
    pub elapsed: Duration,
    /// The time since the last glance.
    pub interval: Duration,
    /// The number of frames captured so far.
    pub captured: u64,
    /// Frames that the interface has dropped so far.
    pub missed: u64,
    /// Frames dropped so far because the capture queue was full.
    pub dropped: u64,
    /// The number of frames not written so far.
    pub discarded: u64,
    /// The counts since the last glance; `None` if frames are written or shown.
    pub summary: Option<Summarized>,
}

/// Monitors devices, all of one kind, until a limit is reached, all of them end, or the process is asked to.
///
/// # Errors
/// [`SetupError`]
pub fn on_devices(
    devices: &[DeviceSpec],
    setup: Setup,
    limits: Limits,
    news: impl FnMut(News),
) -> Result<Monitored, SetupError> {
    let clock = Clock::start();
    let kernel = devices.iter().map(|device| setup.kernel_filter(device)).collect::<Result<Vec<_>, _>>()?;
    // The sum exists only if all interfaces have the counters.
    let kernel: Option<Vec<_>> = kernel.into_iter().collect();
    let filter_in_kernel = kernel.is_some() && setup.filter.is_some();
    let batches = devices.iter().all(|device| matches!(device, DeviceSpec::Packet(_)));
    let ring_pkts = setup.ring_pkts / devices.len().max(1);
    let opened = devices.iter().enumerate().map(|(index, device)| {
        let filter = kernel.as_ref().and_then(|programs| programs.get(index)).cloned();
        let listen = Listen { filter, promiscuous: setup.promiscuous };
        evenkeel::raw::device::listen(device, &listen, ring_pkts, clock)
    });
    let opened = opened.collect::<Result<Vec<_>, _>>()?;
    let infos: Vec<_> = opened.iter().map(|device| device.info()).collect();
    let watched = opened.iter().map(|device| Watched {
        name: device.properties().name.clone(),
        address: device.properties().address,
        frames: device.info().frames,
    });
    let watched = watched.collect();
    let engine = host_setup(&setup.config).engine(clock)?;
    let mut running = Monitoring::start(engine, watched, setup, filter_in_kernel, news)?;
    let plan = running.engine.host().config().plan();
    for device in opened {
        running.engine.add_device_with(device, &[], plan)?;
    }
    running.listening();
    running.engine.look_every(BATCH);
    if !batches {
        running.engine.gather(BATCH);
    }
    let ended = running.drive(limits, None, None)?;
    // What was in the ring when the end was asked for is taken in; what comes later is not.
    if ended == Ended::Stopped || ended == Ended::Time {
        infos.iter().for_each(DeviceInfo::shut);
        running.drain()?;
    }
    running.finish(None)
}

/// Monitors one end of a cable while its other end is flooded. Ends with the flood or at a limit.
///
/// # Errors
/// [`SetupError`]
pub fn on_cable(
    queues: usize,
    requests: Requests,
    flood: Flood,
    setup: Setup,
    limits: Limits,
    news: impl FnMut(News),
) -> Result<Monitored, SetupError> {
    let (clock, stop) = (Clock::start(), Stop::on_signals()?);
    let [generator, sink] = blast::HARDWARE.map(|EthernetAddress([.., number])| number);
    let near = cable::Options { queues, ring_pkts: setup.ring_pkts, ..cable::Options::new("cable0", sink) };
    let (near, far) = cable::pair(near, cable::Options::new("cable1", generator));
    let engine = host_setup(&setup.config).engine(clock)?;
    let [_, address] = blast::HARDWARE;
    let watched = Watched { name: "cable0".to_owned(), address, frames: Frames::ETHERNET };
    let mut running = Monitoring::start(engine, vec![watched], setup, false, news)?;
    running.engine.add_cable(near, &[])?;
    running.listening();
    let mut generator = Generator::new(far, requests, flood, clock, stop);
    let so_far = generator.so_far();
    let (processors, ended) = (cpus(), AtomicBool::new(false));
    let sent = thread::scope(|scope| {
        let sending = scope.spawn(|| {
            blast::pin(&processors, 1);
            let blasted = generator.run();
            ended.store(true, Ordering::Release);
            (blasted, generator.end.sent())
        });
        blast::pin(&processors, 0);
        let driven = running.drive(limits, Some(&|| ended.load(Ordering::Acquire)), Some(&so_far));
        if !ended.load(Ordering::Acquire) {
            stop.request();
        }
        let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        driven.map(|_| sent)
    })?;
    running.drain()?;
    running.finish(Some(sent))
}

fn host_setup(config: &Config) -> HostSetup {
    HostSetup { addresses: Vec::new(), gateways: Vec::new(), config: config.clone() }
}

impl Setup {
    /// Returns the filter that the kernel can run for us, if there is one: the earliest drop there is.
    fn kernel_filter(&self, device: &DeviceSpec) -> Result<Option<Program>, SetupError> {
        let DeviceSpec::Packet(device) = device else { return Ok(None) };
        let bytes = u32::try_from(self.snaplen).unwrap_or(u32::MAX);
        let Some(filter) = &self.filter else { return Ok(Some(Program::everything(bytes))) };
        let program = filter.compile_for_kernel(&Frames::on_device(&device.name)?)?;
        Ok(program.map(|program| program.cut_to(bytes)))
    }

    /// Returns the filter that the host is to run on what it is shown.
    fn own_filter(&self, watched: &[Watched]) -> Result<Option<Judge>, FilterError> {
        let frames = watched.iter().map(|watched| watched.frames.clone()).collect();
        self.filter.clone().map(|filter| Judge::new(filter, frames)).transpose()
    }

    /// Returns the capture that the host is to open.
    fn capture(&self, filter: Option<Judge>) -> Capture {
        Capture {
            filter: filter.map(|filter| Box::new(filter) as _),
            snaplen: self.snaplen,
            limit_pkts: self.queue_pkts,
            interface: None,
            sent_too: true,
            feedback: true,
        }
    }
}

/// An interface that is monitored.
struct Watched {
    name: String,
    address: EthernetAddress,
    frames: Frames,
}

/// A host with a monitor on it.
struct Monitoring<N> {
    engine: Engine,
    /// The names of the host's interfaces, indexed by interface number.
    names: Vec<String>,
    account: Account,
    product: Arc<Mutex<Product>>,
    tally: Arc<Counters>,
    news: N,
    elapsed: Duration,
    failing: bool,
}

/// The time for which frames are batched in the ring of a device that does not batch them itself.
const BATCH: Duration = Duration::from_millis(1);
/// The interval of checks for failures while frames come.
const WATCH: Duration = Duration::from_millis(50);
/// The most time that a monitor spends on opening its queue, or at its end on the frames that still wait.
const DRAIN: Duration = Duration::from_secs(1);

impl<N: FnMut(News)> Monitoring<N> {
    /// Opens the capture queue of a host whose interfaces are still to be added, in this order, so that no
    /// frame is missed.
    fn start(
        mut engine: Engine,
        interfaces: Vec<Watched>,
        setup: Setup,
        filter_in_kernel: bool,
        news: N,
    ) -> Result<Self, SetupError> {
        let filter = setup.filter.as_ref().map(ToString::to_string);
        let described = interfaces.iter().map(|Watched { name, address, frames }| Described {
            name: name.clone(),
            link_type: frames.link_type(),
            address: (frames.link_type() == LinkType::ETHERNET).then_some(*address),
            snaplen: setup.snaplen.min(KEPT_BYTES_MAX) as u32,
            filter: filter.clone().unwrap_or_default(),
        });
        let described = numbers().zip(described).collect();
        let own_filter = if filter_in_kernel { None } else { setup.own_filter(&interfaces)? };
        let passed_over = own_filter.as_ref().map(Judge::passed_over);
        let names: Vec<_> = interfaces.into_iter().map(|watched| watched.name).collect();
        let options = Options { capture: setup.capture(own_filter), count: setup.count, discards: false };
        let clock = *engine.clock();
        let now = clock.wall_nanos(clock.now());
        let product = match setup.output {
            What::Summary => Product::Summaries(Box::default()),
            What::Lines(mut lines) => {
                if names.len() > 1 {
                    lines.name_interfaces(names.clone());
                }
                Product::Lines(lines)
            }
            What::File(target) => Product::File(Box::new(CaptureFile::open(target, described, now)?)),
        };
        let (product, tally) = (Arc::new(Mutex::new(product)), Arc::new(Counters::default()));
        let monitor = Monitor::new(options, clock, Arc::clone(&product), Arc::clone(&tally));
        engine.host_mut().spawn("monitor", 0, Box::new(monitor));
        let until = clock.now() + DRAIN;
        engine.run(until, |_| tally.opened() || tally.ended())?;
        if let Some(error) = tally.refused() {
            return Err(error.into());
        }
        let account = Account {
            filter,
            filter_in_kernel,
            passed_over,
            interfaces: ids(&names),
            tally: Arc::clone(&tally),
        };
        Ok(Self { engine, names, account, product, tally, news, elapsed: Duration::ZERO, failing: false })
    }

    /// Reports that the monitor has its interfaces.
    fn listening(&mut self) {
        (self.news)(News::Listening(self.names.clone()));
    }

    /// Runs until a limit is reached, `done` holds, or there is no point in going on. On a cable, `sent` is
    /// what its other end does.
    fn drive(
        &mut self,
        limits: Limits,
        done: Option<&dyn Fn() -> bool>,
        sent: Option<&SoFar>,
    ) -> Result<Ended, SetupError> {
        let Self { engine, account, product, tally, news, failing, .. } = self;
        let interfaces = account.interfaces.clone();
        let looks = Looks { done_elsewhere: done.is_some(), attend: Some(WATCH) };
        let mut last_glance = Duration::ZERO;
        let (ended, elapsed) = drive(
            engine,
            limits,
            looks,
            || tally.ended() || done.is_some_and(|done| done()),
            |engine, elapsed, occasion| {
                record(engine, &interfaces, tally, product);
                watch(product, tally, failing, &mut |change| news(News::Writable(change)));
                match occasion {
                    Some(Occasion::Interval) => {
                        let interval = elapsed - core::mem::replace(&mut last_glance, elapsed);
                        let glance = glance(engine, &interfaces, tally, product);
                        news(News::Glance(Box::new(Glance { elapsed, interval, ..glance })));
                    }
                    Some(Occasion::Request) => {
                        let summary = shared(product).summarized();
                        let so_far = account.of(engine, elapsed, sent.map(SoFar::get));
                        news(News::Report(Box::new(Monitored { summary, ..so_far })));
                    }
                    None => {}
                }
                *failing
            },
        )?;
        self.elapsed += elapsed;
        Ok(ended)
    }

    /// Captures the frames in rings and queues.
    fn drain(&mut self) -> Result<(), SetupError> {
        self.engine.ignore_stop();
        let end = self.engine.clock().now() + DRAIN;
        loop {
            let (taken, until) = (self.handled(), self.engine.clock().now() + Duration::from_millis(5));
            let tally = Arc::clone(&self.tally);
            let ended = self.engine.run(until, |_| tally.ended())?;
            let host = self.engine.host_mut();
            let empty = host.in_rings() == 0 && host.buffered() == 0 && host.queued() == 0;
            let idle = empty && self.handled() == taken;
            if idle || ended == Ended::Done || self.engine.clock().now() >= end {
                return Ok(());
            }
        }
    }

    fn handled(&self) -> u64 {
        self.tally.taken() + self.tally.discarded() + self.engine.host().ledger().received
    }

    /// Ends the output, and draws up the report.
    fn finish(mut self, sent: Option<(Blasted, WireCounters)>) -> Result<Monitored, SetupError> {
        let Self { engine, account, tally, product, elapsed, failing, news, .. } = &mut self;
        let accepted = sent.as_ref().map(|(_, wire)| wire.accepted);
        let mut monitored = account.of(engine, *elapsed, sent);
        record(engine, &account.interfaces, tally, product);
        watch(product, tally, failing, &mut |change| news(News::Writable(change)));
        let Monitored { counters, seen, unread, .. } = &mut monitored;
        counters.conserved &= tally.ended() || *seen == counters.received && *unread == 0;
        // A monitor that ends at a count leaves frames in the ring.
        let taken = counters.received + engine.host_mut().in_rings();
        counters.conserved &= accepted.is_none_or(|accepted| accepted == taken);
        // The program ends with its host, and the output remains.
        drop(self.engine);
        if let Some(Ok(product)) = Arc::into_inner(self.product).map(Mutex::into_inner) {
            monitored.summary = product.finish().unwrap_or_else(|(written, what)| {
                monitored.discarded += monitored.captured.saturating_sub(written);
                monitored.captured = written.min(monitored.captured);
                monitored.incomplete = Some(what);
                None
            });
        }
        Ok(monitored)
    }
}

/// The parts of a monitor's report.
struct Account {
    filter: Option<String>,
    filter_in_kernel: bool,
    passed_over: Option<PassedOver>,
    interfaces: Vec<InterfaceId>,
    tally: Arc<Counters>,
}

impl Account {
    /// Returns what was done until now, without the product; on a cable with what the other end has `sent`.
    fn of(&self, engine: &mut Engine, elapsed: Duration, sent: Option<(Blasted, WireCounters)>) -> Monitored {
        let Self { filter, filter_in_kernel, passed_over, interfaces, tally } = self;
        let mut counters = HostCounters::of(&engine.snapshot(), elapsed);
        let (mut missed, taken) = (missed(engine, interfaces), counters.received);
        if let Some((_, wire)) = &sent {
            missed = wire.missed;
        }
        let CaptureCounters { seen, accepted, dropped, .. } = tally.counters(engine.host());
        let (captured, discarded) = (tally.taken(), tally.discarded());
        let unread = accepted.saturating_sub(dropped + captured + discarded);
        counters.conserved &= accepted <= seen && dropped + captured + discarded <= accepted;
        Monitored {
            seconds: elapsed.as_secs_f64(),
            filter: filter.clone(),
            filter_in_kernel: *filter_in_kernel,
            received: taken + missed,
            missed,
            seen,
            accepted,
            dropped,
            discarded,
            unread,
            captured,
            cut: tally.cut(),
            passed_over: passed_over.as_ref().map_or(0, PassedOver::count),
            passed_over_because: passed_over.as_ref().and_then(PassedOver::reason).map(|why| why.to_string()),
            bytes: tally.bytes(),
            summary: None,
            counters,
            generator: sent.map(|(blasted, _)| blasted),
            device_failed: engine.failed_device(),
            incomplete: None,
        }
    }
}

/// Returns the numbers that a host gives its interfaces, in the order in which they are added.
fn numbers() -> impl Iterator<Item = InterfaceId> {
    (0..).map(InterfaceId)
}

fn ids(names: &[String]) -> Vec<InterfaceId> {
    numbers().take(names.len()).collect()
}

fn missed(engine: &Engine, interfaces: &[InterfaceId]) -> u64 {
    interfaces.iter().map(|&interface| missed_at(engine, interface)).sum()
}

/// Returns the number of frames that an interface has dropped, for any reason.
fn missed_at(engine: &Engine, interface: InterfaceId) -> u64 {
    engine.host().untaken(interface).dropped.values().sum()
}

/// Records in the product the statistics for the end of its file.
fn record(engine: &mut Engine, interfaces: &[InterfaceId], tally: &Counters, product: &Mutex<Product>) {
    if let Product::File(file) = &mut *shared(product) {
        let now = engine.clock().wall_nanos(engine.clock().now());
        file.record(tally.counters(engine.host()), now);
        for &interface in interfaces {
            let missed = missed_at(engine, interface);
            // With several interfaces, the host does not count each one's received frames.
            let received = (interfaces.len() == 1).then(|| engine.host().ledger().received + missed);
            file.record_interface(interface, received, missed);
        }
    }
}

fn glance(
    engine: &mut Engine,
    interfaces: &[InterfaceId],
    tally: &Counters,
    product: &Mutex<Product>,
) -> Glance {
    let summary = match &mut *shared(product) {
        Product::Summaries(summaries) => Some(summaries.since_last.take_counts()),
        Product::File(_) | Product::Lines(_) => None,
    };
    Glance {
        elapsed: Duration::ZERO,
        interval: Duration::ZERO,
        captured: tally.taken(),
        missed: missed(engine, interfaces),
        dropped: tally.counters(engine.host()).dropped,
        discarded: tally.discarded(),
        summary,
    }
}
