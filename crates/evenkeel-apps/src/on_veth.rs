//! A UDP socket under load on a veth pair, in the network namespace of the calling thread.
//!
//! The service does the same work for each request, and answers it. The veth's interface work runs on the
//! generator's core. The kernel's protocol input is moved to the service's core by receive packet steering,
//! so that this is the classic host, where the network interrupts whatever runs. The generator sends through
//! AF_XDP if it can.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use evenkeel::net;
use evenkeel::raw::cpu::{self, ThreadMeter};
use evenkeel::raw::device::{self, FloodProgress};
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wait::Halt;
use evenkeel::raw::wire::{EthernetAddress, IpEndpoint, Ipv4Address};

use crate::far_ends::Sender;
use crate::measure::{KernelCore, execute, settle_on};
use crate::pace::Pace;
use crate::requests::{Requests, Shape};

const FLOWS: u16 = 64;
const BURST_PKTS: u64 = 64;
const SETTLE: Duration = Duration::from_millis(150);
/// The time after which a waiting receive call returns, to check whether the run is over.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);

/// The device of the service. The generator's is its peer.
pub(crate) const SERVED: &str = "ekhost";
const SENDING: &str = "ekgen";
pub(crate) const GENERATOR_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 1]);
/// The own hardware address of the service's device, which is the kernel's.
pub(crate) const KERNEL_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);

/// The addresses of the service and of the generator.
pub(crate) const HOST: Ipv4Address = Ipv4Address::new(10, 77, 0, 2);
pub(crate) const GENERATOR: Ipv4Address = Ipv4Address::new(10, 77, 0, 1);
pub(crate) const SERVICE_PORT: u16 = 7;
/// The number of bytes of payload of every request. With headers, that makes the smallest Ethernet frame.
pub(crate) const PAYLOAD: usize = 18;

/// A pair in the network namespace of this thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    /// Whether the service's end has NAPI without an XDP program. Otherwise the kernel's generator cannot
    /// reach it.
    has_napi: bool,
}

impl Pair {
    /// Creates the pair, with protocol input on the core of the service.
    ///
    /// # Errors
    /// The command that failed, and why.
    pub(crate) fn set_up() -> Result<Self, String> {
        set_up()?;
        Ok(Self { has_napi: use_napi().is_ok() })
    }
}

/// Gives the service's end NAPI, which a veth has only with GRO or an XDP program.
fn use_napi() -> Result<(), String> {
    execute(&["ethtool", "-K", SERVED, "gro", "on"])
}

fn set_up() -> Result<(), String> {
    let cpu = cpu::cpus().get(1).copied().unwrap_or(0);
    // ip(8) wants colons.
    let [sending, kernel] = [GENERATOR_MAC, KERNEL_MAC].map(|mac| mac.to_string().replace('-', ":"));
    let commands: [&[&str]; 7] = [
        &["ip", "link", "add", SENDING, "type", "veth", "peer", "name", SERVED],
        &["ip", "link", "set", SENDING, "address", &sending],
        &["ip", "link", "set", SERVED, "address", &kernel],
        &["ip", "addr", "add", "10.77.0.2/24", "dev", SERVED],
        &["ip", "link", "set", SENDING, "up"],
        &["ip", "link", "set", SERVED, "up"],
        &["ip", "neigh", "add", "10.77.0.1", "lladdr", &sending, "dev", SERVED, "nud", "permanent"],
    ];
    commands.iter().try_for_each(|command| execute(command))?;
    set(&[("queues/rx-0/rps_cpus", &format!("{:x}", 1_u64 << cpu))])
}

/// Gives protocol input to a NAPI thread, which competes with the service as threads do.
///
/// # Errors
/// The command that failed, and why.
pub(crate) fn use_napi_thread() -> Result<(), String> {
    use_napi()?;
    set(&[("queues/rx-0/rps_cpus", "0"), ("threaded", "1")])
}

/// Writes settings of the service's device.
fn set(settings: &[(&str, &str)]) -> Result<(), String> {
    // Only a mount of this namespace shows its devices.
    let mut script = "mount -t sysfs sysfs /sys".to_owned();
    for (file, value) in settings {
        script.push_str(&format!(" && echo {value} > /sys/class/net/{SERVED}/{file}"));
    }
    execute(&["unshare", "--mount", "sh", "-c", &script])
}

/// A socket that serves: both have the same calls.
pub(crate) trait Socket: Sized + Send {
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

/// The requests to one socket.
#[derive(Debug, Clone)]
pub(crate) struct Flood {
    /// The addresses of the host that serves.
    pub(crate) hardware: EthernetAddress,
    pub(crate) address: Ipv4Address,
    /// Requests a second.
    pub(crate) load: u64,
    /// The time between two readings of the counters.
    pub(crate) window: Duration,
    /// A frame that tells the host where answers go, if it has not been told.
    pub(crate) announcement: Option<Vec<u8>>,
}

/// A measurement of a socket at one load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Served {
    pub(crate) offered_pps: f64,
    pub(crate) delivered_pps: f64,
    /// The share of the window in which the service and protocol input had their core.
    pub(crate) core_share: f64,
}

impl Pair {
    /// Measures a socket of the kernel, which does no work for a request but to answer it.
    ///
    /// # Errors
    /// The socket or the generator cannot be opened.
    pub(crate) fn measure_kernel(self, load: u64, work: Duration, window: Duration) -> io::Result<Served> {
        let socket = UdpSocket::bind((std::net::IpAddr::from(HOST), SERVICE_PORT))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let flood = Flood { hardware: KERNEL_MAC, address: HOST, load, window, announcement: None };
        self.measure(&socket, &flood, work)
    }

    /// Measures a socket under a flood. The service works for so long on each request.
    ///
    /// # Errors
    /// The generator cannot be opened.
    pub(crate) fn measure(
        self,
        socket: &(impl Socket + Sync),
        flood: &Flood,
        work: Duration,
    ) -> io::Result<Served> {
        let clock = Clock::start();
        let cpus = cpu::cpus();
        // It also takes the answers.
        let sender = Sender::open(SENDING).map_err(io::Error::other)?;
        let live = if self.has_napi { flood.in_kernel() } else { None };
        let (served, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let (metering, meter) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                settle_on(cpus.get(1));
                let _ = metering.send(ThreadMeter::of_this_thread());
                serve(socket, work, clock, &served, &over);
            });
            let service = meter.recv().map_err(|_| io::Error::other("the service's thread has gone"))?;
            let seen = Seen { clock, served: &served, core: &KernelCore::of_host(service) };
            let point = match live {
                Some((generator, progress)) => flood.by_kernel(generator, progress, sender, &seen),
                None => flood.by_socket(sender, &seen),
            };
            over.store(true, Ordering::Relaxed);
            point
        })
    }
}

/// The counters that a measurement reads.
struct Seen<'a> {
    clock: Clock,
    served: &'a AtomicU64,
    core: &'a KernelCore,
}

/// The counters at the beginning of a window.
struct Begun {
    at: Instant,
    sent: u64,
    served: u64,
    taken: (Duration, Duration),
}

impl Seen<'_> {
    fn begin(&self, at: Instant, sent: u64) -> io::Result<Begun> {
        Ok(Begun { at, sent, served: self.served.load(Ordering::Relaxed), taken: self.core.taken()? })
    }

    #[expect(clippy::cast_precision_loss, reason = "rates for reports")]
    fn end(&self, begun: &Begun, at: Instant, sent: u64) -> io::Result<Served> {
        let window = at.since(begun.at);
        let delivered = self.served.load(Ordering::Relaxed) - begun.served;
        Ok(Served {
            offered_pps: (sent - begun.sent) as f64 / window.as_secs_f64(),
            delivered_pps: delivered as f64 / window.as_secs_f64(),
            core_share: KernelCore::share(begun.taken, self.core.taken()?, window),
        })
    }
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

impl Flood {
    fn requests(&self) -> Requests {
        let shape = Shape {
            hardware: (GENERATOR_MAC, self.hardware),
            from: IpEndpoint::new(GENERATOR.into(), 20_000),
            to: IpEndpoint::new(self.address.into(), SERVICE_PORT),
            payload: PAYLOAD,
            flows: FLOWS,
            seed: 1,
        };
        Requests::new(&shape).expect("both ends are IPv4 and the ports are in range")
    }

    /// Returns the kernel's own generator; `None` if the kernel has none, or not for so small a load.
    fn in_kernel(&self) -> Option<(device::Flood, FloodProgress)> {
        (self.load >= device::Flood::PPS_MIN)
            .then(|| device::Flood::open(SENDING, self.requests().next(), FLOWS).ok())?
    }

    /// Measures while the kernel sends. If it cannot, measures while `sender` does.
    fn by_kernel(
        &self,
        mut generator: device::Flood,
        mut progress: FloodProgress,
        mut sender: Sender,
        seen: &Seen<'_>,
    ) -> io::Result<Served> {
        self.announcement.iter().for_each(|announcement| sender.offer(announcement));
        sender.flush();
        let load = self.load.min(device::Flood::PPS_MAX);
        // So many are not sent: it is stopped before.
        let frames = 2.0 * load as f64 * (SETTLE + self.window).as_secs_f64();
        let cpus = cpu::cpus();
        let measured = thread::scope(|scope| {
            let sending = scope.spawn(|| {
                settle_on(cpus.first());
                generator.send(load, frames as u32)
            });
            let measured = self.observe(&progress, seen, || sending.is_finished());
            progress.stop();
            let sent = sending.join().map_err(|_| io::Error::other("the generator's thread panicked"))?;
            if sent.is_err() { Ok(None) } else { measured }
        })?;
        measured.map_or_else(|| self.by_socket(sender, seen), Ok)
    }

    /// Reads the counters at the beginning and at the end of the window; returns `None` if nothing is sent.
    fn observe(
        &self,
        progress: &FloodProgress,
        seen: &Seen<'_>,
        has_ended: impl Fn() -> bool,
    ) -> io::Result<Option<Served>> {
        /// The time in which the kernel prepares to send.
        const PREPARATION: Duration = Duration::from_secs(1);
        let (clock, mut halt) = (seen.clock, Halt::new()?);
        let patience = clock.now() + PREPARATION;
        while progress.sent() == 0 {
            if has_ended() || clock.now() >= patience {
                return Ok(None);
            }
            sleep(&mut halt, clock, Duration::from_millis(1))?;
        }
        sleep(&mut halt, clock, SETTLE)?;
        let begun = seen.begin(clock.now(), progress.sent())?;
        sleep(&mut halt, clock, self.window)?;
        seen.end(&begun, clock.now(), progress.sent()).map(Some)
    }

    /// Measures while a socket sends, on the generator's core.
    fn by_socket(&self, sender: Sender, seen: &Seen<'_>) -> io::Result<Served> {
        let cpus = cpu::cpus();
        thread::scope(|scope| {
            let sending = scope.spawn(|| {
                settle_on(cpus.first());
                self.send(sender, seen)
            });
            sending.join().unwrap_or_else(|_| Err(io::Error::other("the generator's thread panicked")))
        })
    }

    fn send(&self, mut sender: Sender, seen: &Seen<'_>) -> io::Result<Served> {
        let mut requests = self.requests();
        let start = seen.clock.now();
        let mut pace = Pace::new(self.load, BURST_PKTS, start);
        self.announcement.iter().for_each(|announcement| sender.offer(announcement));
        sender.flush();
        let mut begun: Option<Begun> = None;
        loop {
            let now = seen.clock.now();
            match &begun {
                None if now >= start + SETTLE => begun = Some(seen.begin(now, sender.sent())?),
                Some(begun) if now >= begun.at + self.window => return seen.end(begun, now, sender.sent()),
                _ => {}
            }
            for _ in 0..pace.take(now) {
                sender.offer(requests.next());
            }
            sender.flush();
        }
    }
}

/// Sleeps for so long, also if something wakes it early.
fn sleep(halt: &mut Halt, clock: Clock, time: Duration) -> io::Result<()> {
    let end = clock.now() + time;
    while clock.now() < end {
        halt.until(&clock, end)?;
    }
    Ok(())
}
