//! A host of ours, the kernel, and the link between them.

use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use evenkeel::raw::device::{DeviceSpec, Packet, PacketOptions, Tap, TapOptions, XdpSpec};
use evenkeel::raw::host::Config;
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::tcp::{Counter, ListenerConfig};
use evenkeel::raw::time::Duration;
use evenkeel::raw::wire::{IpCidr, IpEndpoint};
use evenkeel_apps::host_setup::{DeviceSetup, HostSetup, Limits};
use evenkeel_apps::sending::{self, Errand, Place as At, Sent};
use evenkeel_apps::serve::{self, Listening, Served, Streams};
use evenkeel_apps::stream::{Drain, Options, Service, Source, Stdio};
use evenkeel_sim::net::Conditions;
use evenkeel_sim::rng::Ratio;
use evenkeel_testing::{Bridge, Place, Program, Running, Scratch, attempt, run, wait_for, words};

use crate::kernel::{self, Network};
use crate::trace;

const PROGRAMS: [Program; 8] = [
    ("ip", "iproute2"),
    ("ping", "iputils-ping"),
    ("curl", "curl"),
    ("nc", "netcat-openbsd"),
    ("socat", "socat"),
    ("sha256sum", "coreutils"),
    ("ss", "iproute2"),
    ("tshark", "tshark"),
];

const US: [&str; 2] = ["10.77.0.2/24", "fd77::2/64"];
const KERNEL: [&str; 2] = ["10.77.0.1/24", "fd77::1/64"];

/// A time limit longer than any test.
const LIMIT: Duration = Duration::from_secs(900);

/// The kind of connection between us and the kernel that the test runs on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    /// A TAP.
    Tap,
    /// A veth pair, of which one end is ours through packet sockets.
    Packet,
    /// A veth pair, of which one end is ours behind an XDP program.
    Xdp,
    /// A veth pair with an MTU of 9000, of which one end is ours behind an XDP program.
    LargeXdp,
    /// A TAP, and from there through the emulator.
    Emulated(Conditions),
}

/// Returns conditions under which one in fifty frames is lost, and one in a hundred is late.
pub(crate) const fn lossy() -> Conditions {
    Conditions {
        delay: Duration::from_millis(2),
        loss: Ratio::percent(2),
        reordering: Ratio::percent(1),
        reordering_delay: Duration::from_millis(1),
        ..Conditions::PERFECT
    }
}

/// Returns the conditions of [`lossy`] with shorter delays, for long transfers. At this loss a window is
/// nine segments, for either sender (sqrt(3/2p), "The macroscopic behavior of the TCP congestion avoidance
/// algorithm", Mathis et al., 1997), and a gigabyte takes 80 000 round trips.
pub(crate) const fn lossy_nearby() -> Conditions {
    Conditions { delay: Duration::from_micros(200), reordering_delay: Duration::from_micros(100), ..lossy() }
}

impl Way {
    /// Returns whether this machine has what the way needs. If not, the test counts as skipped.
    pub(crate) fn is_there(self) -> bool {
        !matches!(self, Self::Xdp | Self::LargeXdp) || evenkeel_testing::has_xdp()
    }
}

/// Runs `test` in a network namespace of its own.
pub(crate) fn in_namespace(test: impl FnOnce() + Send + 'static) {
    evenkeel_testing::in_namespace(&[&PROGRAMS], test);
}

/// The devices, namespaces and capture of a test.
pub(crate) struct Stand {
    way: Way,
    /// The namespace of our end, if it is not the kernel's.
    there: Option<Place>,
    bridge: Option<Bridge>,
    device: DeviceSpec,
    capture: PathBuf,
    captures: usize,
    /// The sum over all captures so far, like the kernel's counters.
    syn_acks_again: u64,
}

fn cidr(text: &str) -> IpCidr {
    let (address, len) = text.split_once('/').unwrap();
    let address: std::net::IpAddr = address.parse().unwrap();
    IpCidr::new(address.into(), len.parse().unwrap())
}

impl Stand {
    pub(crate) fn new(way: Way, files: &Scratch) -> Self {
        let capture = files.file("capture.pcapng");
        let stand = |device, there, bridge| Self {
            way,
            there,
            bridge,
            device,
            capture,
            captures: 0,
            syn_acks_again: 0,
        };
        match way {
            Way::Tap => {
                run("ip tuntap add e0 mode tap");
                set_up("e0");
                stand(DeviceSpec::Tap("e0".into()), None, None)
            }
            Way::Packet | Way::Xdp | Way::LargeXdp => {
                run("ip link add k0 type veth peer name e0");
                if matches!(way, Way::LargeXdp) {
                    for name in ["k0", "e0"] {
                        run(&format!("ip link set {name} mtu 9000"));
                    }
                }
                run("sysctl -qw net.ipv6.conf.e0.disable_ipv6=1");
                run("ip link set e0 up");
                set_up("k0");
                let device = match way {
                    Way::Xdp | Way::LargeXdp => {
                        DeviceSpec::Xdp(XdpSpec { name: "e0".into(), queues: Vec::new(), shared: false })
                    }
                    _ => DeviceSpec::Packet("e0".into()),
                };
                stand(device, None, None)
            }
            Way::Emulated(conditions) => {
                let there = Place::new();
                // The kernel there has no part in this connection.
                there.run("ip tuntap add e0 mode tap");
                there.run("sysctl -qw net.ipv6.conf.e0.disable_ipv6=1");
                there.run("ip link set e0 up");
                let packet = there.here(|| Packet::open("e0", &PacketOptions::default()).unwrap());
                let options =
                    TapOptions { kernel_addresses: KERNEL.map(cidr).into(), ..TapOptions::default() };
                let tap = Tap::open("k0", &options).unwrap();
                let bridge = Bridge::between([Box::new(packet), Box::new(tap)], [conditions; 2], 1).unwrap();
                stand(DeviceSpec::Tap("e0".into()), Some(there), Some(bridge))
            }
        }
    }

    /// Returns the setup of our host for the next run. The host captures what it receives and sends.
    fn setup(&mut self) -> (HostSetup, DeviceSetup) {
        self.captures += 1;
        self.capture.set_file_name(format!("capture-{}.pcapng", self.captures));
        let config = Config { seed: self.captures as u64, ..Config::of(Architecture::SoftLrp) };
        let setup = HostSetup { addresses: US.map(cidr).into(), gateways: Vec::new(), config };
        let device = DeviceSetup {
            device: self.device.clone(),
            kernel_addresses: Vec::new(),
            mac: evenkeel::raw::device::Address::default(),
            dump: Some(self.capture.clone()),
            say: |_| {},
        };
        (setup, device)
    }

    fn spawn<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
        match &self.there {
            Some(there) => there.here(|| thread::spawn(job)),
            None => thread::spawn(job),
        }
    }

    /// Begins to serve this many connections.
    pub(crate) fn serve(
        &mut self,
        service: impl Service + 'static,
        port: u16,
        count: u64,
    ) -> JoinHandle<Served> {
        let (setup, at) = self.setup();
        // The server accepts data in a SYN from clients with a cookie.
        let listener = ListenerConfig { fast_open: 16, ..ListenerConfig::default() };
        let options = Options { port, listener, work: Duration::ZERO, count: Some(count) };
        let serving = Listening { service, options, connections: 0 }.alone();
        let limits = Limits { duration: Some(LIMIT), ..Limits::default() };
        let server = self.spawn(move || serve::on_device(&setup, &at, serving, limits, |_| {}).unwrap());
        for address in US {
            let host = address.split('/').next().unwrap();
            wait_for("our host", || attempt(&format!("ping -c 1 -W 1 {host}")).0);
        }
        server
    }

    /// Waits until all connections are over, and checks the result. Returns the results of the server.
    pub(crate) fn ended(&mut self, server: JoinHandle<Served>) -> Streams {
        let served = server.join().unwrap();
        assert!(served.counters.conserved, "{:?}", served.counters);
        let streams = served.streams().unwrap().clone();
        self.check(streams.tcp.count(Counter::RetransSegs));
        streams
    }

    /// Sends a file to the kernel's `host`, where it becomes the file `to`. With `fast_open` over a second
    /// connection, the first bytes in its SYN.
    pub(crate) fn send(&mut self, from: &Path, host: &'static str, to: &Path, fast_open: bool) -> Sent {
        let family = if host.contains(':') { "TCP6-LISTEN" } else { "TCP4-LISTEN" };
        std::fs::write(to, "").unwrap();
        let many = if fast_open { ",fork" } else { "" };
        let listen = format!("socat -u {family}:5000,reuseaddr{many} OPEN:{},append", to.display());
        let mut server = Running(words(&listen).spawn().unwrap());
        wait_for("a server", || run("ss -ltn").contains(":5000"));
        let (setup, at) = self.setup();
        let from = from.to_owned();
        let client = self.spawn(move || {
            let outside = Stdio::new().unwrap();
            let input = outside.input(std::fs::File::open(from).unwrap()).unwrap();
            let address: std::net::IpAddr = host.parse().unwrap();
            let errand = Errand {
                to: IpEndpoint { addr: address.into(), port: 5000 },
                fast_open,
                source: Source::Input(input),
                drain: Drain::Count,
                outside,
                capture: None,
            };
            let limits = Limits { duration: Some(LIMIT), ..Limits::default() };
            sending::send(&setup, At::Device(at), errand, limits, |_, _| {}).unwrap()
        });
        let sent = client.join().unwrap();
        if !fast_open {
            assert!(server.0.wait().unwrap().success());
        }
        self.check(sent.tcp.count(Counter::RetransSegs));
        sent
    }

    /// Checks that neither the kernel nor tshark has found a fault in our segments, of which `sent_again` are
    /// retransmissions.
    fn check(&mut self, sent_again: u64) {
        let traffic = self.bridge.as_ref().map(Bridge::traffic);
        if let Some(traffic) = &traffic {
            assert!(traffic.iter().all(|way| way.adds_up() && way.refused == 0), "{traffic:?}");
        }
        assert_eq!(traffic.is_some(), matches!(self.way, Way::Emulated(_)));
        let findings = trace::read(&self.capture);
        assert_eq!(findings.retransmissions, sent_again, "{findings:?}");
        self.syn_acks_again += findings.syn_acks_again;
        kernel::check_counters(&Network {
            held_back: traffic.map_or(0, |[to_kernel, _]| to_kernel.emulated.reordered),
            syn_acks_again: self.syn_acks_again,
        });
        kernel::check_capture(&self.capture);
    }
}

fn set_up(device: &str) {
    KERNEL.iter().for_each(|address| _ = run(&format!("ip addr add {address} dev {device}")));
    run(&format!("ip link set {device} up"));
}
