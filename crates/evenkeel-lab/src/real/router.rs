//! The host under test: a router between two links, with or without screening and a compute-bound neighbour.

use std::io;

use evenkeel::Engine;
use evenkeel::raw::cable::End;
use evenkeel::raw::device::Device;
use evenkeel::raw::drops::{QueueDrop, Reason};
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::ip::InterfaceId;
use evenkeel::raw::process::{ProcessId, Program, Step, System};
use evenkeel::raw::screen::{Screen, Verdict};
use evenkeel::raw::time::{Clock, Duration};
use evenkeel::raw::wire::{EthernetAddress, IpAddress, IpCidr, Ipv4Address};
use evenkeel_apps::demo::results::CpuShares;
use evenkeel_apps::measure::{CoreTime, Generator, Neighbour, drive};

/// The limit of the screening queue, as in the paper.
const SCREEN_PKTS: usize = 32;

/// The router's side of both links.
pub(super) const ROUTER: [Ipv4Address; 2] = [Ipv4Address::new(10, 77, 0, 2), Ipv4Address::new(10, 78, 0, 2)];
/// The source address of packets. [`DESTINATION`] is the address of their receiver.
pub(super) const SOURCE: Ipv4Address = Ipv4Address::new(10, 77, 0, 1);
pub(super) const DESTINATION: Ipv4Address = Ipv4Address::new(10, 78, 0, 1);
/// The hardware addresses of the peers. They are fixed, so no address resolution is needed.
pub(super) const OUTSIDE: [EthernetAddress; 2] =
    [EthernetAddress([2, 0, 0, 0, 0, 1]), EthernetAddress([2, 0, 0, 0, 0, 4])];
/// The hardware addresses of the router's own interfaces.
pub(super) const INSIDE: [EthernetAddress; 2] =
    [EthernetAddress([2, 0, 0, 0, 0, 2]), EthernetAddress([2, 0, 0, 0, 0, 3])];

/// A kernel of the paper, or ours.
#[derive(Debug, Clone)]
pub(super) struct Variant {
    pub(super) name: &'static str,
    pub(super) config: Config,
    /// The work of a screening process for each packet, if there is one. The process accepts all packets.
    pub(super) screening: Option<Duration>,
    pub(super) neighbour: bool,
}

/// The router's side of the links.
#[derive(Debug)]
pub(super) enum Inside {
    Cables(Box<[End; 2]>),
    Devices(Box<dyn Device>, Box<dyn Device>),
}

/// The measurements of the router's thread.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) cpu: CpuShares,
    pub(super) core_share: f64,
    pub(super) neighbour: f64,
    /// Whether the host's own counters balance.
    pub(super) balanced: bool,
    /// Frames that the host has received.
    pub(super) received: u64,
    /// Frames still in its rings; for a device of the kernel, 1 if there are any.
    pub(super) in_rings: u64,
    pub(super) transmitted: u64,
    /// Dropped frames by place, including those that found a ring full.
    pub(super) drops: Vec<(&'static str, u64)>,
}

/// A screening process that accepts every packet after some work: `screend`.
#[derive(Debug)]
struct Screener {
    work: Duration,
    screen: Option<Screen>,
}

impl Program for Screener {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(screen) = self.screen else {
            self.screen = Screen::open(system, SCREEN_PKTS).ok();
            return if self.screen.is_some() { Step::Again } else { Step::Exit };
        };
        if screen.decide(system, |_| Verdict::Pass).is_err() {
            return Step::Wait(screen.fd());
        }
        system.compute(self.work);
        Step::Again
    }
}

/// Runs the router through a measurement, on the calling thread.
pub(super) fn run(
    variant: &Variant,
    inside: Inside,
    clock: Clock,
    generator: &Generator,
) -> io::Result<Observed> {
    let host = Host::new(variant.config.clone()).map_err(io::Error::other)?;
    let mut engine = Engine::new(host, clock)?;
    let interfaces = attach(&mut engine, inside)?;
    let host = engine.host_mut();
    if let Some(work) = variant.screening {
        host.spawn("screen", 0, Box::new(Screener { work, screen: None }));
    }
    let neighbour = variant.neighbour.then(|| host.spawn("neighbour", 0, Box::new(Neighbour)));
    let start = CoreTime::of(&engine);
    let look = |engine: &Engine| (CoreTime::of(engine), used(engine.host(), neighbour));
    let [(from, used_from), (until, used_until)] = drive(&mut engine, generator, look)?;
    let host = engine.host_mut();
    let in_rings = host.in_rings();
    let missed = interfaces.iter().map(|&id| missed(host, id)).sum();
    let ledger = host.ledger();
    Ok(Observed {
        cpu: until.shares_since(&from),
        // Times before the window affect it: a process owes time in which its core was away.
        core_share: until.core_share_since(&start),
        neighbour: until.process_share_since(&from, used_until, used_from),
        balanced: host.check().is_ok(),
        received: ledger.received,
        in_rings,
        transmitted: ledger.transmitted,
        drops: drops(host, missed, &QUEUES),
    })
}

fn attach(engine: &mut Engine, inside: Inside) -> io::Result<[InterfaceId; 2]> {
    let addresses = ROUTER.map(|address| [IpCidr::new(address.into(), 24)]);
    let [first, second] = &addresses;
    let added = match inside {
        Inside::Cables(ends) => {
            let [a, b] = *ends;
            engine.add_cable(a, first).and_then(|a| Ok([a, engine.add_cable(b, second)?]))
        }
        Inside::Devices(a, b) => {
            engine.add_device(a, first).and_then(|a| Ok([a, engine.add_device(b, second)?]))
        }
    };
    let interfaces = added.map_err(io::Error::other)?;
    let now = engine.clock().now();
    for ((interface, address), hardware) in interfaces.into_iter().zip([SOURCE, DESTINATION]).zip(OUTSIDE) {
        let set = engine.host_mut().set_neighbor(interface, IpAddress::Ipv4(address), hardware, now);
        set.map_err(|e| io::Error::other(format!("{e:?}")))?;
    }
    Ok(interfaces)
}

fn used(host: &Host, process: Option<ProcessId>) -> Duration {
    process.and_then(|p| host.bill(p)).map_or(Duration::ZERO, |bill| bill.used)
}

/// Returns the number of frames that found the rings of an interface full.
pub(super) fn missed(host: &mut Host, interface: InterfaceId) -> u64 {
    let Some(interface) = host.interface_mut(interface) else { return 0 };
    (0..interface.properties().queues).map(|queue| interface.queue(queue).missed()).sum()
}

/// The queues of a router whose drops are counted, with the names of the counters.
const QUEUES: [(&str, QueueDrop); 4] = [
    ("ip_queue_drops", QueueDrop::IpQueue),
    ("channel_drops", QueueDrop::Channel),
    ("screen_drops", QueueDrop::Screen),
    ("output_drops", QueueDrop::Output),
];

/// Returns the drops of a host by place: `missed` at its rings, those of each queue, and all others.
pub(super) fn drops(
    host: &Host,
    missed: u64,
    queues: &[(&'static str, QueueDrop)],
) -> Vec<(&'static str, u64)> {
    let mut others = dropped(host, |_| true);
    let mut drops = vec![("ring_drops", missed)];
    for &(name, queue) in queues {
        let frames = dropped(host, |reason| reason == queue.into());
        others -= frames;
        drops.push((name, frames));
    }
    drops.push(("other_drops", others));
    drops
}

fn dropped(host: &Host, of: impl Fn(Reason) -> bool) -> u64 {
    host.ledger().drops().filter(|&(reason, ..)| of(reason)).map(|(_, input, output)| input + output).sum()
}
