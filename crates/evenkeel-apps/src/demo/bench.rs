//! One measured run: a host on one core, a load generator on another, and a link between them.

use std::io;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;

use evenkeel::Engine;
use evenkeel::raw::cable::{self, End};
use evenkeel::raw::cpu;
use evenkeel::raw::device::{Address, Device, Interface as _};
use evenkeel::raw::drops::LinkDrop;
use evenkeel::raw::frame::Pool;
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::process::{ProcessId, Program, Step, System};
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::socket::{Datagrams, UdpSocket};
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpCidr,
    IpEndpoint, Ipv4Address,
};

use super::devices;
use super::options::Place;
use super::results::Point;
use crate::counters::Drop;
use crate::far_ends::{FarEnd, Sender};
use crate::latency::Histogram;
use crate::measure::{CoreTime, Neighbour, drain, per_second, settle_on, undisturbed};
use crate::on_veth::{GENERATOR, HOST, PAYLOAD, SERVICE_PORT};
use crate::pace::Pace;
use crate::requests::{Requests, Shape};
use crate::service::{self, Counters, Service};

/// The port of the second service, which is not flooded.
const VICTIM_PORT: u16 = 53;
/// The rate of requests to the second service, in requests a second.
pub(super) const VICTIM_PPS: u64 = 1_000;
/// The number of flows of the flood.
const FLOWS: u16 = 64;
/// The limit of channels and of socket queues. It holds half a second of requests to the second service, in
/// case the machine takes the core away.
const QUEUE_PKTS: usize = 512;
/// The maximum number of frames sent between two readings of the clock.
const BURST_PKTS: u64 = 64;
/// The time before the window, in which queues fill and settle, and the time after it, in which frames on
/// their way arrive.
const WARM_UP: Duration = Duration::from_millis(150);
const DRAIN: Duration = Duration::from_millis(50);
/// The time that both threads have to get ready before the first frame.
const READY: Duration = Duration::from_millis(30);

/// The conditions of a run.
#[derive(Debug, Clone)]
pub(super) struct Conditions {
    pub(super) on: Place,
    pub(super) architecture: Architecture,
    pub(super) queues: usize,
    pub(super) work: Duration,
    pub(super) window: Duration,
    pub(super) seed: u64,
}

/// The number of bytes of each request frame, without FCS.
pub(super) const FRAME_BYTES: usize = 14 + 20 + 8 + PAYLOAD;

/// The hardware address of the host.
pub(super) const HARDWARE: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);

/// The times of a run: its start, the measured window, and its end.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    start: Instant,
    window: (Instant, Instant),
    end: Instant,
}

/// Offers `offered_pps` to the service and measures the outcome. Returns the first undisturbed measurement,
/// or the least disturbed of some tries.
pub(super) fn measure(conditions: &Conditions, offered_pps: u64, repeats: &mut usize) -> io::Result<Point> {
    undisturbed(repeats, |point: &Point| point.core_share, || measure_once(conditions, offered_pps))
}

fn measure_once(conditions: &Conditions, offered_pps: u64) -> io::Result<Point> {
    if conditions.on == Place::Cable {
        let (generator, end) = lay(conditions);
        let mut generator = FarEnd::cable(generator, 1024).map_err(io::Error::other)?;
        return run(conditions, &mut generator, Inside::Cable(Box::new(end)), offered_pps);
    }
    let device = devices::open(conditions.on, Address::Fixed(HARDWARE)).map_err(io::Error::other)?;
    let mut generator = FarEnd::Device(Sender::open(devices::GENERATOR).map_err(io::Error::other)?);
    run(conditions, &mut generator, Inside::Device(device), offered_pps)
}

/// Creates a cable: the generator's end, and the host's.
fn lay(conditions: &Conditions) -> (End, End) {
    let options = |name, number| cable::Options { ring_pkts: 512, ..cable::Options::new(name, number) };
    cable::pair(
        options("generator", 1),
        cable::Options {
            queues: conditions.queues,
            demultiplexes: conditions.architecture == Architecture::NiLrp,
            ..options("cable", 2)
        },
    )
}

/// Floods a host on one core from a generator on another, and returns the outcome.
fn run(
    conditions: &Conditions,
    generator: &mut FarEnd,
    inside: Inside,
    offered_pps: u64,
) -> io::Result<Point> {
    let clock = Clock::start();
    let cpus = cpu::cpus();
    let start = clock.now() + READY;
    let window = (start + WARM_UP, start + WARM_UP + conditions.window);
    let schedule = Schedule { start, window, end: window.1 + DRAIN };
    // The generator drops its half when it has sent its last frame.
    let (sending, sent) = mpsc::channel();
    thread::scope(|scope| {
        let host = scope.spawn(|| {
            settle_on(cpus.get(1));
            run_host(conditions, inside, clock, schedule, sent)
        });
        let generator = scope.spawn(|| {
            let _sending: mpsc::Sender<()> = sending;
            settle_on(cpus.first());
            generate(generator, offered_pps, clock, schedule, conditions.seed)
        });
        let offered = generator.join().map_err(|_| io::Error::other("the generator's thread panicked"))?;
        let observed = host.join().map_err(|_| io::Error::other("the host's thread panicked"))??;
        Ok(point(offered_pps, &offered, observed))
    })
}

/// The host's end of the link.
enum Inside {
    Cable(Box<End>),
    Device(Box<dyn Device>),
}

/// Receives and discards answers. A device leaves them in its ring, which sheds more.
fn discard_answers(end: &mut FarEnd) {
    if let FarEnd::Cable(end, pool) = end {
        drain(end, pool);
    }
}

/// Returns the fates of the frames that were sent into a cable.
fn fates(end: &FarEnd) -> Option<cable::WireCounters> {
    match end {
        FarEnd::Cable(end, _) => Some(end.sent()),
        FarEnd::Device(_) => None,
    }
}

/// Returns whether the requests to both services arrive through the same one of `queues` receive queues.
/// Their ports are fixed, so the hash of the cable decides.
pub(super) fn shared_queue(queues: usize) -> bool {
    let options = |name, number| cable::Options { ring_pkts: 2, ..cable::Options::new(name, number) };
    let (mut generator, mut end) =
        cable::pair(options("generator", 1), cable::Options { queues, ..options("cable", 2) });
    let mut pool = Pool::with_limit(2 * queues);
    end.attach(&mut pool).expect("the pool has frames for all rings");
    let mut queue_of = |port| {
        generator.send(requests(generator.properties().address, port, 1, 0).next());
        (0..queues).find(|&queue| end.queue_mut(queue).take(&mut pool).map(|it| pool.recycle(it)).is_some())
    };
    queue_of(SERVICE_PORT) == queue_of(VICTIM_PORT)
}

/// The generator's counters of a run.
#[derive(Debug)]
struct Offered {
    /// The number of requests to the flooded service in the window.
    in_window: u64,
    /// The real length of the window.
    window: Duration,
    /// The number of requests to the second service in the whole run.
    victims: u64,
    /// The number of all frames in the whole run: requests to both services, and others.
    frames: u64,
    /// The fates of the frames, as the cable counts them; `None` if the link is the kernel's.
    wire: Option<cable::WireCounters>,
}

impl Offered {
    /// Returns whether each sent frame is among `received` of the host's counters, in a ring, shed by a ring,
    /// or refused by the adaptor. On a link of the kernel, returns whether the host has no more than were
    /// sent, because the kernel does not count reliably what is lost before the ring.
    fn is_found_in(&self, received: u64) -> bool {
        let Some(wire) = self.wire else { return received <= self.frames };
        self.frames == wire.accepted + wire.missed + wire.discarded && wire.accepted == received
    }
}

fn generate(end: &mut FarEnd, offered_pps: u64, clock: Clock, schedule: Schedule, seed: u64) -> Offered {
    let address = end.address();
    let mut flood = requests(address, SERVICE_PORT, FLOWS, seed);
    let mut victims = requests(address, VICTIM_PORT, 1, seed);
    clock.spin_until(schedule.start);
    let announced = announce(end);
    let mut pace = Pace::new(offered_pps, BURST_PKTS, schedule.start);
    let mut victim_pace = Pace::new(VICTIM_PPS, 1, schedule.start);
    let flooded = |end: &FarEnd, pace: &Pace, victims: &Pace| {
        let others = announced + victims.granted();
        end.sent(pace.granted() + others).saturating_sub(others)
    };
    let (mut from, mut until) = (None, None);
    let mut now = clock.now();
    while now < schedule.window.1 {
        if now >= schedule.window.0 && from.is_none() {
            from = Some((now, flooded(end, &pace, &victim_pace)));
        }
        for _ in 0..pace.take(now) {
            end.offer(flood.next());
        }
        if victim_pace.take(now) > 0 {
            end.offer(&stamped(victims.next(), clock.now()));
        }
        end.flush();
        discard_answers(end);
        until = Some((clock.now(), flooded(end, &pace, &victim_pace)));
        now = clock.now();
    }
    while clock.now() < schedule.end {
        discard_answers(end);
    }
    let ((t0, n0), (t1, n1)) = (from.unwrap_or((now, 0)), until.unwrap_or((now, 0)));
    let frames = end.sent(announced + pace.granted() + victim_pace.granted());
    let (in_window, window) = (n1 - n0, t1.since(t0));
    Offered { in_window, window, victims: victim_pace.granted(), frames, wire: fates(end) }
}

fn requests(from: EthernetAddress, port: u16, flows: u16, seed: u64) -> Requests {
    let shape = Shape {
        hardware: (from, HARDWARE),
        from: IpEndpoint::new(GENERATOR.into(), 20_000),
        to: IpEndpoint::new(HOST.into(), port),
        payload: PAYLOAD,
        flows,
        seed,
    };
    Requests::new(&shape).expect("both ends are IPv4 and the ports are in range")
}

/// Sends an ARP request for the host's hardware address, as any sender does first. The host learns the
/// generator's address from it. Returns the number of frames sent.
fn announce(end: &mut FarEnd) -> u64 {
    end.offer(&announcement(end.address(), HOST));
    end.flush();
    1
}

/// Returns the generator's ARP request for the hardware address of `host`.
pub(super) fn announcement(from: EthernetAddress, host: Ipv4Address) -> [u8; 60] {
    let request = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: from,
        source_protocol_addr: GENERATOR,
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: host,
    };
    let ethernet = EthernetRepr {
        src_addr: from,
        dst_addr: EthernetAddress::BROADCAST,
        ethertype: EthernetProtocol::Arp,
    };
    let mut frame = [0; 60];
    ethernet.emit(&mut EthernetFrame::new_unchecked(&mut frame[..]));
    request.emit(&mut ArpPacket::new_unchecked(&mut frame[14..]));
    frame
}

/// Returns the request with its sending time in the payload, and with no UDP checksum (zero, RFC 768).
fn stamped(request: &[u8], now: Instant) -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    let len = request.len().min(FRAME_BYTES);
    frame[..len].copy_from_slice(&request[..len]);
    frame[40..42].fill(0);
    frame[42..50].copy_from_slice(&now.as_nanos().to_be_bytes());
    frame
}

/// The maximum number of requests that are received in one step.
const REQUESTS_PER_STEP: usize = 16;

/// A program that records how long requests to the second service took to arrive.
#[derive(Debug)]
struct Witness {
    port: u16,
    socket: Option<UdpSocket>,
    requests: Datagrams,
    clock: Clock,
    seen: Arc<Mutex<Histogram>>,
}

impl Program for Witness {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(socket) = self.socket else {
            self.socket = UdpSocket::bind(system, None, self.port).ok();
            return if self.socket.is_some() { Step::Again } else { Step::Exit };
        };
        if socket.receive_burst(system, &mut self.requests).is_err() {
            return Step::Wait(socket.fd());
        }
        let Ok(mut seen) = self.seen.lock() else { return Step::Exit };
        for request in &*self.requests {
            let mut stamp = [0; 8];
            request.copy_to(&mut stamp);
            seen.record(self.clock.now().since(Instant::from_nanos(u64::from_be_bytes(stamp))));
        }
        Step::Again
    }
}

/// The counters of the host at one moment.
#[derive(Debug, Clone, Copy)]
struct Reading {
    core: CoreTime,
    delivered: u64,
    neighbour: Duration,
}

/// The host's counters and results of a run.
#[derive(Debug)]
struct Observed {
    window: (Reading, Reading),
    conserved: bool,
    received: u64,
    drops: Vec<Drop>,
    latency: Histogram,
}

fn run_host(
    conditions: &Conditions,
    inside: Inside,
    clock: Clock,
    schedule: Schedule,
    sent: Receiver<()>,
) -> io::Result<Observed> {
    let config = Config {
        channel_pkts: QUEUE_PKTS,
        socket_queue_pkts: QUEUE_PKTS,
        seed: conditions.seed,
        ..Config::of(conditions.architecture)
    };
    let host = Host::new(config).map_err(io::Error::other)?;
    let mut engine = Engine::new(host, clock)?;
    let address = [IpCidr::new(HOST.into(), 24)];
    let added = match inside {
        Inside::Cable(end) => engine.add_cable(*end, &address),
        Inside::Device(device) => engine.add_device(device, &address),
    };
    added.map_err(io::Error::other)?;
    let (tally, seen) = (Arc::new(Counters::default()), Arc::new(Mutex::new(Histogram::default())));
    let options = service::Options {
        port: SERVICE_PORT,
        groups: Vec::new(),
        work: conditions.work,
        echo: true,
        count: None,
    };
    let host = engine.host_mut();
    host.spawn("service", 0, Box::new(Service::new(options, Arc::clone(&tally))));
    host.spawn(
        "witness",
        0,
        Box::new(Witness {
            port: VICTIM_PORT,
            socket: None,
            requests: Datagrams::new(REQUESTS_PER_STEP),
            clock,
            seen: Arc::clone(&seen),
        }),
    );
    let neighbour = host.spawn("neighbour", 0, Box::new(Neighbour));
    let mut at = |until| -> io::Result<Reading> {
        engine.run(until, |_| false)?;
        Ok(reading(&engine, &tally, neighbour))
    };
    let window = (at(schedule.window.0)?, at(schedule.window.1)?);
    at(schedule.end)?;
    // If the machine took the generator's core away, it may still send after the window. The counters are
    // final once it has sent everything.
    let _ = sent.recv();
    let in_rings = engine.host_mut().in_rings();
    let end = engine.snapshot();
    let latency = seen.lock().map_or_else(|_| Histogram::default(), |seen| seen.clone());
    Ok(Observed {
        window,
        conserved: end.check().is_ok(),
        received: end.frames.received + in_rings,
        drops: end.drops,
        latency,
    })
}

fn reading(engine: &Engine, tally: &Counters, neighbour: ProcessId) -> Reading {
    Reading {
        core: CoreTime::of(engine),
        delivered: tally.requests(),
        neighbour: engine.host().bill(neighbour).map_or(Duration::ZERO, |bill| bill.used),
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates for reports")]
fn point(target: u64, offered: &Offered, observed: Observed) -> Point {
    let (from, until) = observed.window;
    let seen = observed.latency.count();
    let conserved = observed.conserved && offered.is_found_in(observed.received);
    Point {
        target_pps: target as f64,
        offered_pps: per_second(offered.in_window, offered.window),
        delivered_pps: per_second(until.delivered - from.delivered, until.core.at.since(from.core.at)),
        neighbour_cpu: until.core.process_share_since(&from.core, until.neighbour, from.neighbour),
        victim_loss: lost(offered.victims, seen),
        victim_p99_us: observed.latency.percentile(99.0).map(|p99| p99.as_secs_f64() * 1e6),
        cpu: until.core.shares_since(&from.core),
        drops: drops(observed.drops, offered.wire),
        conserved,
        core_share: until.core.core_share_since(&from.core),
    }
}

/// Returns the share of requests that did not arrive; 0 if none was sent.
#[expect(clippy::cast_precision_loss, reason = "rates for reports")]
fn lost(sent: u64, seen: u64) -> f64 {
    if sent == 0 { 0.0 } else { 1.0 - seen as f64 / sent as f64 }
}

fn drops(all: Vec<Drop>, wire: Option<cable::WireCounters>) -> Vec<Drop> {
    let Some(wire) = wire else { return all };
    let missed = (wire.missed > 0).then(|| Drop::on_interface(LinkDrop::RingFull, wire.missed));
    let unmatched = (wire.discarded > 0).then(|| Drop::on_interface(LinkDrop::NotForUs, wire.discarded));
    // The cable counts what the interface shed.
    let inside = all.into_iter().filter(|drop| !drop.is_on_interface());
    missed.into_iter().chain(unmatched).chain(inside).collect()
}

#[cfg(test)]
mod tests {
    use evenkeel::raw::device::steering_hash;

    use super::*;

    /// No port is chosen for its queue, so with some numbers of queues the two services share one.
    #[test]
    fn both_services_share_a_queue_where_the_hash_says_so() {
        let (generator, _) = cable::pair(cable::Options::new("a", 1), cable::Options::new("b", 2));
        let address = generator.properties().address;
        let hash = |port| steering_hash(requests(address, port, 1, 0).next()) as usize;
        let (service, victim) = (hash(SERVICE_PORT), hash(VICTIM_PORT));
        let shared = |queues: &usize| shared_queue(*queues);
        let expected = (1..=16).filter(|queues| service % queues == victim % queues);
        assert!((1..=16).filter(shared).eq(expected));
        assert!(shared_queue(1) && shared_queue(3) && !shared_queue(4));
    }
}
