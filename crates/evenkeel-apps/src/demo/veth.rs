//! UDP sockets under the same load on a veth pair, in a network namespace of its own: the kernel's, the same
//! behind the guard, and ours over AF_XDP.
//!
//! The service does the same work for each request, and answers it. The veth's interface work runs on the
//! generator's core, with our XDP program. The kernel's protocol input is moved to the service's core by
//! receive packet steering, so that this is the classic host, where the network interrupts whatever runs.
//! The generator sends through AF_XDP, which is slower than a cable. So the results give the load that was
//! really offered.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use evenkeel::net::{self, Net};
use evenkeel::raw::cpu::{self, ThreadMeter};
use evenkeel::raw::device::Address;
use evenkeel::raw::kernel::{self, Guard, GuardOptions};
use evenkeel::raw::time::{Clock, Duration};
use evenkeel::raw::wire::{EthernetAddress, IpEndpoint, Ipv4Address};

use super::bench::{self, GENERATOR, HOST, PAYLOAD, SERVICE_PORT};
use super::machine;
use super::results::{self, OnVeth, VethPoint};
use crate::far_ends::Sender;
use crate::measure::{KernelCore, execute, settle_on, undisturbed};
use crate::pace::Pace;
use crate::requests::{Requests, Shape};

const FLOWS: u16 = 64;
const BURST_PKTS: u64 = 64;
const SETTLE: Duration = Duration::from_millis(150);
/// The time after which a waiting receive call returns, to check whether the run is over.
const PATIENCE: Duration = Duration::from_millis(20);

const GENERATOR_MAC: &str = "02:00:00:00:00:01";
/// The device's own hardware address, which is the kernel's, and that of our host.
const KERNEL_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);
const OUR_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 3]);
const OUR_ADDRESS: Ipv4Address = Ipv4Address::new(10, 77, 0, 3);

/// The host whose socket serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    ByKernel,
    BehindGuard,
    OverXdp,
}

impl Served {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ByKernel => results::KERNEL,
            Self::BehindGuard => results::GUARDED,
            Self::OverXdp => results::OVER_XDP,
        }
    }

    const fn at(self) -> (EthernetAddress, Ipv4Address) {
        match self {
            Self::ByKernel | Self::BehindGuard => (KERNEL_MAC, HOST),
            Self::OverXdp => (OUR_MAC, OUR_ADDRESS),
        }
    }
}

/// The results of each, or the reason why one could not be measured.
pub(super) struct OnePair {
    pub(super) kernel: Result<OnVeth, String>,
    pub(super) guarded: Result<OnVeth, String>,
    pub(super) over_xdp: Result<OnVeth, String>,
}

/// Measures the sockets at each of `loads`, and calls `progress` after each. Repeats at most `repeats`
/// measurements that the machine disturbed, as with our own architectures.
///
/// # Errors
/// The reason why there is no veth pair.
pub(super) fn run(
    loads: &[u64],
    work: Duration,
    window: Duration,
    repeats: usize,
    progress: impl FnMut(Served, &VethPoint) + Send,
) -> Result<OnePair, String> {
    // A thread of its own: the namespace ends with it, and the veth pair with the namespace.
    thread::scope(|scope| {
        let measured = scope.spawn(|| {
            kernel::enter_new_network().map_err(|e| format!("no network namespace of its own: {e}"))?;
            set_up()?;
            let mut run = Run { work, window, repeats, progress };
            // The kernel alone first: with an XDP program, its own input is slower.
            let [kernel, guarded, over_xdp] = [Served::ByKernel, Served::BehindGuard, Served::OverXdp]
                .map(|served| run.over(served, loads));
            Ok(OnePair { kernel, guarded, over_xdp })
        });
        measured.join().unwrap_or_else(|_| Err("the measuring thread panicked".to_owned()))
    })
}

/// The conditions of all measurements on the pair.
struct Run<P> {
    work: Duration,
    window: Duration,
    repeats: usize,
    progress: P,
}

impl<P: FnMut(Served, &VethPoint)> Run<P> {
    /// Measures one socket, up to the load that the generator cannot reach.
    fn over(&mut self, served: Served, loads: &[u64]) -> Result<OnVeth, String> {
        // One host for all loads: the kernel gives up the rings of an earlier one only after a while.
        let net = match served {
            Served::ByKernel | Served::BehindGuard => None,
            Served::OverXdp => Some(open_net().map_err(|e| e.to_string())?),
        };
        let guarded = GuardOptions { ports: vec![SERVICE_PORT], counts_only: false };
        let attach = || Guard::attach(&["ekhost".to_owned()], &guarded).map_err(|e| e.to_string());
        let _guard = if served == Served::BehindGuard { Some(attach()?) } else { None };
        let mut points = Vec::new();
        for &load in loads {
            let (work, window) = (self.work, self.window);
            let once = || measure(net.as_ref(), load, work, window);
            let point = undisturbed(&mut self.repeats, |point: &VethPoint| point.core_share, once);
            let point = point.map_err(|e| e.to_string())?;
            (self.progress)(served, &point);
            // The generator has reached its maximum, so higher loads would give equal results.
            let saturated = point.offered_pps < load as f64 * 0.8;
            points.push(point);
            if saturated {
                break;
            }
        }
        Ok(OnVeth::from_points(machine::release().unwrap_or_else(|| "unknown".to_owned()), points))
    }
}

fn set_up() -> Result<(), String> {
    let cpu = cpu::cpus().get(1).copied().unwrap_or(0);
    let steer = format!(
        "mount -t sysfs sysfs /sys && echo {:x} > /sys/class/net/ekhost/queues/rx-0/rps_cpus",
        1_u64 << cpu
    );
    let commands: [&[&str]; 8] = [
        &["ip", "link", "add", "ekgen", "type", "veth", "peer", "name", "ekhost"],
        &["ip", "link", "set", "ekgen", "address", GENERATOR_MAC],
        &["ip", "link", "set", "ekhost", "address", "02:00:00:00:00:02"],
        &["ip", "addr", "add", "10.77.0.2/24", "dev", "ekhost"],
        &["ip", "link", "set", "ekgen", "up"],
        &["ip", "link", "set", "ekhost", "up"],
        &["ip", "neigh", "add", "10.77.0.1", "lladdr", GENERATOR_MAC, "dev", "ekhost", "nud", "permanent"],
        // Only a mount of this namespace shows its devices.
        &["unshare", "--mount", "sh", "-c", &steer],
    ];
    commands.iter().try_for_each(|command| execute(command))
}

/// A socket that serves: both have the same calls.
trait Socket: Sized + Send {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)>;
    fn send(&self, payload: &[u8], to: SocketAddr) -> io::Result<usize>;
}

impl Socket for UdpSocket {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.recv_from(buffer)
    }

    fn send(&self, payload: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.send_to(payload, to)
    }
}

impl Socket for net::UdpSocket {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.recv_from(buffer)
    }

    fn send(&self, payload: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.send_to(payload, to)
    }
}

/// Opens our host over AF_XDP.
fn open_net() -> io::Result<Net> {
    let (hardware, address) = Served::OverXdp.at();
    let net = Net::builder().link("xdp:ekhost").mac(Address::Fixed(hardware));
    net.address(&format!("{address}/24")).open()
}

/// Measures a socket of `net`, or of the kernel.
fn measure(net: Option<&Net>, load: u64, work: Duration, window: Duration) -> io::Result<VethPoint> {
    let served = net.map_or(Served::ByKernel, |_| Served::OverXdp);
    let (hardware, address) = served.at();
    let flood = Flood { hardware, address, load };
    match net {
        None => {
            let socket = UdpSocket::bind((IpAddr::from(address), SERVICE_PORT))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            measure_socket(&socket, &flood, work, window)
        }
        Some(net) => {
            let socket = net::UdpSocket::bind(net, (IpAddr::from(address), SERVICE_PORT))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            measure_socket(&socket, &flood, work, window)
        }
    }
}

/// The requests to one socket.
#[derive(Debug, Clone, Copy)]
struct Flood {
    hardware: EthernetAddress,
    address: Ipv4Address,
    /// Requests a second.
    load: u64,
}

fn measure_socket(
    socket: &(impl Socket + Sync),
    flood: &Flood,
    work: Duration,
    window: Duration,
) -> io::Result<VethPoint> {
    let clock = Clock::start();
    let cpus = cpu::cpus();
    let sender = Sender::open("ekgen").map_err(io::Error::other)?;
    let (served, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (metering, meter) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            settle_on(cpus.get(1));
            let _ = metering.send(ThreadMeter::of_this_thread());
            serve(socket, work, clock, &served, &over);
        });
        let service = meter.recv().map_err(|_| io::Error::other("the service's thread has gone"))?;
        let core = KernelCore::of_host(service);
        let (cpus, served, over) = (&cpus, &served, &over);
        let generator = scope.spawn(move || {
            settle_on(cpus.first());
            let point = generate(sender, flood, clock, window, served, &core);
            over.store(true, Ordering::Relaxed);
            point
        });
        generator.join().unwrap_or_else(|_| Err(io::Error::other("the generator's thread panicked")))
    })
}

fn serve(socket: &impl Socket, work: Duration, clock: Clock, served: &AtomicU64, over: &AtomicBool) {
    let mut buffer = [0; 2048];
    while !over.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.receive(&mut buffer) else { continue };
        clock.spin(work);
        // An answer that cannot be sent is the client's loss, as with any UDP service.
        let _ = socket.send(&buffer[..length], from);
        served.fetch_add(1, Ordering::Relaxed);
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates for reports")]
fn generate(
    mut sender: Sender,
    flood: &Flood,
    clock: Clock,
    window: Duration,
    served: &AtomicU64,
    core: &KernelCore,
) -> io::Result<VethPoint> {
    let shape = Shape {
        hardware: (sender.address(), flood.hardware),
        from: IpEndpoint::new(GENERATOR.into(), 20_000),
        to: IpEndpoint::new(flood.address.into(), SERVICE_PORT),
        payload: PAYLOAD,
        flows: FLOWS,
        seed: 1,
    };
    let mut requests = Requests::new(&shape).expect("both ends are IPv4 and the ports are in range");
    let start = clock.now();
    let mut pace = Pace::new(flood.load, BURST_PKTS, start);
    // Our host learns from it where answers go. The kernel has been told.
    let announcement = bench::announcement(sender.address(), flood.address);
    sender.offer(&announcement);
    sender.flush();
    let mut from = None;
    loop {
        let now = clock.now();
        if from.is_none() && now >= start + SETTLE {
            from = Some((now, sender.sent(), served.load(Ordering::Relaxed), core.taken()?));
        }
        if let Some((t0, sent_then, served_then, taken_then)) = from
            && now >= t0 + window
        {
            let seconds = now.since(t0).as_secs_f64();
            let (offered, delivered) =
                (sender.sent() - sent_then, served.load(Ordering::Relaxed) - served_then);
            return Ok(VethPoint {
                offered_pps: offered as f64 / seconds,
                delivered_pps: delivered as f64 / seconds,
                core_share: KernelCore::share(taken_then, core.taken()?, now.since(t0)),
            });
        }
        for _ in 0..pace.take(now) {
            sender.offer(requests.next());
        }
        sender.flush();
    }
}
