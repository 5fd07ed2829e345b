//! Several receive rings on one device of the kernel: a flood in one of them leaves the others alone. In a
//! network namespace; needs root, and says aloud if it is skipped.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::net;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration as Pause;

use evenkeel::Engine;
use evenkeel::raw::device::{Address, Device, Packet, PacketOptions, Tap, TapOptions};
use evenkeel::raw::frame::Pool;
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::process::{Program, Step, System};
use evenkeel::raw::socket::UdpSocket;
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wire::{EthernetAddress, IpCidr};
use evenkeel_testing::{in_namespace, pause, run, wait_for};

const RINGS: usize = 4;
const US: Address = Address::Fixed(EthernetAddress([2, 0, 0, 0, 0, 2]));
const FLOODED: u16 = 9;
const OTHER: u16 = 10;
const DATAGRAMS: u64 = 300;
/// On their way at a time: fewer than a ring or a channel holds, so that it does not matter how long the
/// machine leaves the host without a core.
const ON_THEIR_WAY: u64 = 64;
/// Asks by which ring a flow comes. That may be seen late, and does not count.
const WHICH: &[u8] = b"which";
const PROGRAMS: [evenkeel_testing::Program; 1] = [("ip", "iproute2")];

type Open = fn() -> Box<dyn Device>;

fn tap() -> Box<dyn Device> {
    let options = TapOptions { queues: RINGS, address: US, ..TapOptions::default() };
    Box::new(Tap::open("ek0", &options).unwrap())
}

fn packet() -> Box<dyn Device> {
    let options = PacketOptions { queues: RINGS, address: US, ..PacketOptions::default() };
    Box::new(Packet::open("ek0", &options).unwrap())
}

/// Counts what it receives, until it has had enough.
struct Sink {
    port: u16,
    enough: u64,
    count: Arc<AtomicU64>,
    socket: Option<UdpSocket>,
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sink")
    }
}

impl Program for Sink {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(socket) = self.socket else {
            self.socket = Some(UdpSocket::bind(system, None, self.port).unwrap());
            return Step::Again;
        };
        if self.count.load(Ordering::Relaxed) >= self.enough {
            return Step::Sleep(Instant::NEVER);
        }
        let Ok(datagram) = socket.receive(system) else { return Step::Wait(socket.fd()) };
        let counts = datagram.as_slice() != Some(WHICH);
        self.count.fetch_add(u64::from(counts), Ordering::Relaxed);
        system.recycle(datagram);
        Step::Again
    }
}

/// Returns the ring through which a socket's datagrams arrive.
fn ring_of(socket: &net::UdpSocket, port: u16, device: &mut dyn Device, pool: &mut Pool) -> usize {
    let from = socket.local_addr().unwrap().port().to_be_bytes();
    let mut ring = None;
    wait_for("a datagram", || {
        // A TAP that has just been opened loses some: the kernel takes a while to see that it has a carrier.
        socket.send_to(WHICH, ("10.77.0.2", port)).unwrap();
        for index in 0..RINGS {
            device.set_readable(index);
            while let Some(frame) = device.queue_mut(index).take(pool) {
                let bytes = frame.bytes();
                if bytes.get(23) == Some(&17) && bytes.get(34..36) == Some(&from) {
                    ring = Some(index);
                }
                pool.recycle(frame);
            }
        }
        ring.is_some()
    });
    ring.unwrap()
}

/// Returns a socket whose datagrams arrive through another ring than the flood's, and that of the flood.
fn sockets(device: &mut dyn Device) -> (net::UdpSocket, net::UdpSocket) {
    let mut pool = Pool::new(64);
    let flood = net::UdpSocket::bind(("10.77.0.1", 40_000)).unwrap();
    let flooded = ring_of(&flood, FLOODED, device, &mut pool);
    let mut others = (41_000..41_064).map(|port| net::UdpSocket::bind(("10.77.0.1", port)).unwrap());
    let other = others.find(|socket| ring_of(socket, OTHER, device, &mut pool) != flooded);
    (flood, other.expect("64 flows are not all in one ring of four"))
}

/// Ends both threads, also if the test fails.
struct Over<'a>([&'a AtomicBool; 2]);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|goes_on| goes_on.store(false, Ordering::Relaxed));
    }
}

fn flood_one_of(open: Open) {
    // It has to be this one: the kernel numbers the rings of another anew while this one is about to go.
    let mut device = open();
    let (flood, other) = sockets(&mut *device);
    let mut config = Config::default();
    // What the flood inhibits stays inhibited: if that were more than its ring, the others would never go on.
    config.feedback.as_mut().unwrap().timeout = Duration::from_secs(3_600);
    let mut engine = Engine::new(Host::new(config).unwrap(), Clock::start()).unwrap();
    let address: IpCidr = "10.77.0.2/24".parse().unwrap();
    let interface = engine.add_device(device, &[address]).unwrap();
    // The one that is flooded stops to receive, so that any flood fills its channel and then its ring.
    let [at_flooded, at_other] = [(FLOODED, 1_000), (OTHER, u64::MAX)].map(|(port, enough)| {
        let count = Arc::new(AtomicU64::new(0));
        let sink = Sink { port, enough, count: Arc::clone(&count), socket: None };
        engine.host_mut().spawn("sink", 0, Box::new(sink));
        count
    });
    let (floods, runs, missed) = (AtomicBool::new(true), AtomicBool::new(true), AtomicU64::new(0));
    thread::scope(|scope| {
        let over = Over([&runs, &floods]);
        scope.spawn(|| {
            while runs.load(Ordering::Relaxed) {
                let look = engine.clock().now() + Duration::from_millis(20);
                engine.run(look, |_| !runs.load(Ordering::Relaxed)).unwrap();
                let interface = engine.host_mut().interface_mut(interface).unwrap();
                let now = (0..RINGS).map(|ring| interface.queue(ring).missed()).sum();
                missed.store(now, Ordering::Relaxed);
            }
        });
        scope.spawn(|| {
            while floods.load(Ordering::Relaxed) {
                let _ = flood.send_to(&[0; 18], ("10.77.0.2", FLOODED));
            }
        });
        wait_for("the flood", || at_flooded.load(Ordering::Relaxed) == 1_000);
        let overflows = |what: &str| {
            let before = missed.load(Ordering::Relaxed);
            wait_for(what, || missed.load(Ordering::Relaxed) > before + 1_000);
        };
        overflows("a full ring");
        let received = || at_other.load(Ordering::Relaxed);
        for sent in 0..DATAGRAMS {
            wait_for("an earlier datagram", || received() + ON_THEIR_WAY > sent);
            other.send_to(b"hello", ("10.77.0.2", OTHER)).unwrap();
            pause(Pause::from_millis(1));
        }
        wait_for("every datagram", || received() == DATAGRAMS);
        overflows("a ring that is still full");
        drop(over);
    });
}

#[test]
fn a_flood_in_one_ring_of_a_tap_leaves_the_others_alone() {
    in_namespace(&[&PROGRAMS], || {
        run("ip tuntap add dev ek0 mode tap multi_queue");
        run("ip addr add 10.77.0.1/24 dev ek0");
        run("ip link set ek0 up");
        run("ip neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev ek0");
        flood_one_of(tap);
    });
}

#[test]
fn a_flood_in_one_ring_of_a_packet_device_leaves_the_others_alone() {
    in_namespace(&[&PROGRAMS], || {
        run("ip link add kernel0 type veth peer name ek0");
        run("sysctl -qw net.ipv6.conf.ek0.disable_ipv6=1");
        run("ip addr add 10.77.0.1/24 dev kernel0");
        run("ip link set kernel0 up");
        run("ip link set ek0 up");
        run("ip neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev kernel0");
        flood_one_of(packet);
    });
}
