//! Figure 3 of the LRP paper in real time: UDP throughput against offered load.
//!
//! One host receives datagrams in a process that works for a moment on each and discards it. On veth pairs a
//! socket of the kernel gets the same load through a pair of its own. The kernel's work for its interface is
//! on the generator's core there, and its protocol input on the core of the process, by receive packet
//! steering.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel::Engine;
use evenkeel::raw::cable::{self, End};
use evenkeel::raw::cpu::{self, ThreadMeter};
use evenkeel::raw::drops::QueueDrop;
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::time::{Clock, Duration};
use evenkeel::raw::wire::{EthernetAddress, IpCidr, IpEndpoint, Ipv4Address};
use evenkeel_apps::demo::results::CpuShares;
use evenkeel_apps::far_ends::{FarEnds, Sender};
use evenkeel_apps::measure::{CoreTime, Generator, KernelCore, drive, execute};
use evenkeel_apps::requests::{Requests, Shape};
use evenkeel_apps::service::{self, Service};

use super::bench::{Measured, run};
use super::link::Link;
use super::router::{INSIDE, OUTSIDE, Observed, drops, missed};
use super::sweep::{Curve, Subject, sweep};
use super::{Options, Place, Progress, devices, figures};
use crate::check::{Check, Origin::*, predicted, ranking};
use crate::experiment::Outcome;

/// The experiment in virtual time.
pub(super) const ID: &str = "o96-fig3";

/// The payload bytes of the paper's datagrams.
const PAYLOAD: usize = 14;
const PORT: u16 = 5_001;
const FLOWS: u16 = 64;
const RING_PKTS: usize = 512;
/// The share of its peak above which SOFT-LRP is in no livelock, as in virtual time.
const NO_LIVELOCK: [f64; 2] = [0.25, 1.1];
/// The time after which a waiting receive call returns, to check whether the run is over.
const PATIENCE: Duration = Duration::from_millis(5);

/// The addresses of the receiver, and of its generator: ours, and the kernel's.
const OURS: [Ipv4Address; 2] = [Ipv4Address::new(10, 77, 0, 2), Ipv4Address::new(10, 77, 0, 1)];
const KERNEL: [Ipv4Address; 2] = [Ipv4Address::new(10, 79, 0, 2), Ipv4Address::new(10, 79, 0, 1)];
const KERNEL_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 5]);

/// A system of the figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum System {
    Ours(Architecture),
    /// A socket of the kernel.
    Kernel,
}

/// The paper's systems, from the first to be in livelock to the last.
const SYSTEMS: [Architecture; 4] =
    [Architecture::Eager, Architecture::EarlyDemux, Architecture::SoftLrp, Architecture::NiLrp];

fn architectures(place: Place) -> impl Iterator<Item = Architecture> {
    SYSTEMS.into_iter().filter(move |&architecture| place.has(architecture))
}

fn has_kernel(place: Place) -> bool {
    matches!(place, Place::Packet | Place::Xdp)
}

/// Describes the work for each datagram, and the systems that are left out.
pub(super) fn conditions(options: &Options) -> String {
    format!("{:?} of work for each datagram{}", options.work, super::left_out(options.on))
}

pub(super) fn measure(
    options: &Options,
    progress: &mut (dyn FnMut(&Progress<'_>) + Send),
) -> io::Result<Outcome> {
    let place = options.on;
    let ours = architectures(place).map(System::Ours);
    let systems: Vec<System> = ours.chain(has_kernel(place).then_some(System::Kernel)).collect();
    let laziest = architectures(place).last().unwrap_or(Architecture::SoftLrp);
    let mut work = || sweep(&systems, &System::Ours(laziest), options, progress);
    let curves = match place {
        Place::Cable => work()?,
        place => devices::in_namespace(place, || {
            if has_kernel(place) {
                set_up_kernel().map_err(io::Error::other)?;
            }
            work()
        })?,
    };
    Ok(outcome(&curves, place))
}

fn outcome(curves: &[Curve], place: Place) -> Outcome {
    let received = |run: &Measured| run.forwarded_pps;
    let points = curves.iter().flat_map(|curve| {
        curve.points.iter().map(|(load, run)| figures::point(curve.name, *load, run, received))
    });
    let kept = curves.iter().map(|curve| (curve.name.to_owned(), curve.retention())).collect();
    let outcome =
        Outcome::new("load asked for (pps)", "received (pps)", points.collect(), checks(curves, place));
    Outcome { kept, ..outcome }
}

fn checks(curves: &[Curve], place: Place) -> Vec<Check> {
    let of = |architecture: Architecture| curves.iter().find(move |curve| curve.name == architecture.name());
    let highest = |curve: &Curve| curve.points.last().map_or(f64::NAN, |(_, run)| run.forwarded_pps);
    // An interface that demultiplexes does so for soft-lrp, too, and the two LRP systems are equal there.
    let lazy = [Architecture::SoftLrp, Architecture::NiLrp].into_iter().filter_map(of).map(highest);
    let at = |system| of(system).map_or(f64::NAN, highest);
    let order = [
        ("LRP", lazy.fold(f64::INFINITY, f64::min)),
        ("early-demux", at(Architecture::EarlyDemux)),
        ("eager", at(Architecture::Eager)),
    ];
    let mut checks: Vec<Check> = of(Architecture::NiLrp).map(figures::keeps).into_iter().collect();
    checks.extend(of(Architecture::Eager).map(figures::falls));
    checks.extend(of(Architecture::SoftLrp).map(|curve| {
        let name = format!("{}: share of the peak at the highest load, no livelock", curve.name);
        predicted(Words, name).within(NO_LIVELOCK, &[curve.retention()])
    }));
    checks.push(
        predicted(Paper, "order at the highest load").equal("LRP > early-demux > eager", ranking(&order)),
    );
    checks.extend([figures::overload(curves), figures::undisturbed(curves)]);
    let counters = match place {
        Place::Cable => figures::ALL_OF_THE_WAY,
        _ => "the host accounts for every frame, and has no more than were sent",
    };
    checks.push(figures::conserved(curves, counters));
    checks
}

impl Subject for System {
    fn name(&self) -> &'static str {
        match self {
            Self::Ours(architecture) => architecture.name(),
            Self::Kernel => "linux",
        }
    }

    fn measure<const LOADS: usize>(
        &self,
        loads: [Option<u64>; LOADS],
        options: &Options,
    ) -> io::Result<[Measured; LOADS]> {
        match (*self, options.on) {
            (Self::Kernel, _) => on_kernel(loads, options),
            (Self::Ours(architecture), Place::Cable) => on_cable(architecture, loads, options),
            (Self::Ours(architecture), place) => on_device(architecture, place, loads, options),
        }
    }
}

fn on_cable<const LOADS: usize>(
    architecture: Architecture,
    loads: [Option<u64>; LOADS],
    options: &Options,
) -> io::Result<[Measured; LOADS]> {
    let end =
        |name, address| cable::Options { address, ring_pkts: RING_PKTS, ..cable::Options::new(name, 0) };
    let demultiplexes = architecture == Architecture::NiLrp;
    let (far, near) =
        cable::pair(end("outside", OUTSIDE[0]), cable::Options { demultiplexes, ..end("in", INSIDE[0]) });
    let sink = Sink::new(architecture, options.work);
    let mut outside = Cable { end: far, received: Arc::clone(&sink.received) };
    let host = |clock, generator: &Generator| sink.run(Link::Cable(Box::new(near)), clock, generator);
    let run = run(host, frames(INSIDE[0], OURS, options.seed), loads, options, &mut outside)?;
    let conserved = run.is_conserved(outside.end.sent());
    Ok(run.measured(conserved))
}

fn on_device<const LOADS: usize>(
    architecture: Architecture,
    place: Place,
    loads: [Option<u64>; LOADS],
    options: &Options,
) -> io::Result<[Measured; LOADS]> {
    let sink = Sink::new(architecture, options.work);
    let device = devices::open_inside(place, "ekin", INSIDE[0])?;
    let counters = Arc::clone(&sink.received);
    let received = move || counters.requests();
    let mut outside = Outside { sender: devices::open_outside(place)?, received };
    let host = |clock, generator: &Generator| sink.run(Link::Device(device), clock, generator);
    let run = run(host, frames(INSIDE[0], OURS, options.seed), loads, options, &mut outside)?;
    let conserved = run.observed.balanced && run.observed.received <= run.frames();
    Ok(run.measured(conserved))
}

fn on_kernel<const LOADS: usize>(
    loads: [Option<u64>; LOADS],
    options: &Options,
) -> io::Result<[Measured; LOADS]> {
    let socket = UdpSocket::bind((IpAddr::from(KERNEL[0]), PORT))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let counter = AtomicU64::default();
    let received = || counter.load(Ordering::Relaxed);
    let mut outside = Outside { sender: Sender::open("ekkgen").map_err(io::Error::other)?, received };
    let host = |clock, generator: &Generator| discard(&socket, options.work, &counter, clock, generator);
    let run = run(host, frames(KERNEL_MAC, KERNEL, options.seed), loads, options, &mut outside)?;
    let conserved = run.observed.received <= run.frames();
    Ok(run.measured(conserved))
}

/// Creates the kernel's veth pair.
fn set_up_kernel() -> Result<(), String> {
    let cpu = cpu::cpus().get(1).copied().unwrap_or(0);
    let steer = format!(
        "mount -t sysfs sysfs /sys && echo {:x} > /sys/class/net/ekkern/queues/rx-0/rps_cpus",
        1_u64 << cpu
    );
    let hardware = KERNEL_MAC.to_string().replace('-', ":");
    let address = format!("{}/24", KERNEL[0]);
    let commands: [&[&str]; 6] = [
        &["ip", "link", "add", "ekkern", "type", "veth", "peer", "name", "ekkgen"],
        &["ip", "link", "set", "ekkern", "address", &hardware],
        &["ip", "addr", "add", &address, "dev", "ekkern"],
        &["ip", "link", "set", "ekkgen", "up"],
        &["ip", "link", "set", "ekkern", "up"],
        // Only a mount of this namespace shows its devices.
        &["unshare", "--mount", "sh", "-c", &steer],
    ];
    commands.iter().try_for_each(|command| execute(command))
}

fn frames(hardware: EthernetAddress, [to, from]: [Ipv4Address; 2], seed: u64) -> Requests {
    let shape = Shape {
        hardware: (OUTSIDE[0], hardware),
        from: IpEndpoint::new(from.into(), 20_000),
        to: IpEndpoint::new(to.into(), PORT),
        payload: PAYLOAD,
        flows: FLOWS,
        seed,
    };
    Requests::new(&shape).expect("both ends are IPv4 and the ports are in range")
}

/// The host under test: the process that discards datagrams, and its architecture.
struct Sink {
    architecture: Architecture,
    work: Duration,
    received: Arc<service::Counters>,
}

impl Sink {
    fn new(architecture: Architecture, work: Duration) -> Self {
        Self { architecture, work, received: Arc::default() }
    }

    /// Runs the host through a measurement, on the calling thread.
    fn run(&self, link: Link, clock: Clock, generator: &Generator) -> io::Result<Observed> {
        let host = Host::new(Config::of(self.architecture)).map_err(io::Error::other)?;
        let mut engine = Engine::new(host, clock)?;
        let interface = link.add_to(&mut engine, IpCidr::new(OURS[0].into(), 24))?;
        let options =
            service::Options { port: PORT, groups: Vec::new(), work: self.work, echo: false, count: None };
        let service = Service::new(options, Arc::clone(&self.received));
        engine.host_mut().spawn("sink", 0, Box::new(service));
        let start = CoreTime::of(&engine);
        let [from, until] = drive(&mut engine, generator, CoreTime::of)?;
        let host = engine.host_mut();
        let (in_rings, missed) = (host.in_rings(), missed(host, interface));
        let ledger = host.ledger();
        Ok(Observed {
            cpu: until.shares_since(&from),
            core_share: until.core_share_since(&start),
            neighbour: 0.0,
            balanced: host.check().is_ok(),
            received: ledger.received,
            in_rings,
            transmitted: ledger.transmitted,
            drops: drops(host, missed, &QUEUES),
        })
    }
}

/// The queues of a receiver whose drops are counted, with the names of the counters.
const QUEUES: [(&str, QueueDrop); 3] = [
    ("ip_queue_drops", QueueDrop::IpQueue),
    ("channel_drops", QueueDrop::Channel),
    ("socket_drops", QueueDrop::Socket),
];

/// Receives from a socket of the kernel, works on each datagram and discards it, on the calling thread.
fn discard(
    socket: &UdpSocket,
    work: Duration,
    received: &AtomicU64,
    clock: Clock,
    generator: &Generator,
) -> io::Result<Observed> {
    let core = KernelCore::of_host(ThreadMeter::of_this_thread());
    let serve_until = |done: &dyn Fn() -> bool| {
        let mut buffer = [0; 2_048];
        while !done() {
            if socket.recv(&mut buffer).is_ok() {
                clock.spin(work);
                received.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    generator.begin();
    serve_until(&|| generator.measures());
    let (opened, before) = (clock.now(), core.taken()?);
    serve_until(&|| generator.has_measured());
    let core_share = KernelCore::share(before, core.taken()?, clock.now().since(opened));
    serve_until(&|| generator.has_sent());
    Ok(Observed {
        cpu: CpuShares::default(),
        core_share,
        neighbour: 0.0,
        balanced: true,
        received: received.load(Ordering::Relaxed),
        in_rings: 0,
        transmitted: 0,
        drops: Vec::new(),
    })
}

/// The generator's end of a cable.
struct Cable {
    end: End,
    received: Arc<service::Counters>,
}

impl FarEnds for Cable {
    fn offer(&mut self, frame: &[u8]) {
        self.end.send(frame);
    }

    fn flush(&mut self) {
        self.end.flush();
    }

    /// Does nothing: the host sends no answers.
    fn drain(&mut self) {}

    fn forwarded(&mut self) -> u64 {
        self.received.requests()
    }
}

/// A generator that sends through a device of the kernel. `received` counts the datagrams that the process
/// has received.
struct Outside<F> {
    sender: Sender,
    received: F,
}

impl<F: Fn() -> u64> FarEnds for Outside<F> {
    fn offer(&mut self, frame: &[u8]) {
        self.sender.offer(frame);
    }

    fn flush(&mut self) {
        self.sender.flush();
    }

    /// Does nothing: the host sends no answers.
    fn drain(&mut self) {}

    fn forwarded(&mut self) -> u64 {
        (self.received)()
    }
}
