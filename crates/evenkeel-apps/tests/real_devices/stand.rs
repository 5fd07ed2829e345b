//! A host on a device, with the kernel as its peer.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use evenkeel::raw::capture::{Recorded, Recording};
use evenkeel::raw::device::{Device, DeviceSpec, XdpSpec, open};
use evenkeel::raw::drops::Ledger;
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::process::Program;
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::time::Clock;
use evenkeel::raw::wire::{EthernetAddress, IpCidr};
use evenkeel::{Ended, Engine};

use crate::support::{pause, run};

/// Our addresses, and those of the kernel.
pub(crate) const US_V4: &str = "10.77.0.2";
pub(crate) const US_V6: &str = "fd77::2";
pub(crate) const KERNEL_V4: &str = "10.77.0.1";
pub(crate) const KERNEL_V6: &str = "fd77::1";

/// The kind of connection between a host and the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// A TAP: the kernel's side is the device of that name.
    Tap,
    /// A veth pair: our end without addresses, read through packet sockets.
    Packet,
    /// A veth pair: our end behind an XDP program.
    Xdp,
}

impl Link {
    /// Returns the device that the kernel's programs use.
    pub(crate) const fn kernel_device(self) -> &'static str {
        match self {
            Self::Tap => "ek0",
            Self::Packet | Self::Xdp => "kernel0",
        }
    }

    /// Sets up both sides and opens ours. The kernel has no address there yet.
    pub(crate) fn open(self, clock: Clock) -> Box<dyn Device> {
        let spec = match self {
            Self::Tap => DeviceSpec::Tap("ek0".into()),
            Self::Packet | Self::Xdp => {
                run("ip link add kernel0 type veth peer name ek0");
                run("sysctl -qw net.ipv6.conf.ek0.disable_ipv6=1");
                run("ip link set kernel0 up");
                run("ip link set ek0 up");
                match self {
                    Self::Xdp => {
                        DeviceSpec::Xdp(XdpSpec { name: "ek0".into(), queues: Vec::new(), shared: false })
                    }
                    _ => DeviceSpec::Packet("ek0".into()),
                }
            }
        };
        open(&spec, clock).unwrap()
    }
}

/// Gives the kernel its addresses on `device`.
pub(crate) fn address_kernel(device: &str) {
    run(&format!("ip addr add {KERNEL_V4}/24 dev {device}"));
    run(&format!("ip addr add {KERNEL_V6}/64 dev {device} nodad"));
    run(&format!("ip route add 224.0.0.0/4 dev {device}"));
}

pub(crate) fn addresses() -> [IpCidr; 2] {
    [format!("{US_V4}/24"), format!("{US_V6}/64")].map(|cidr| cidr.parse().unwrap())
}

/// A host that runs on its own thread, in the namespace of the test.
pub(crate) struct Stand {
    pub(crate) device: &'static str,
    pub(crate) mac: EthernetAddress,
    pub(crate) recording: Option<Recording>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Engine>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Set by the test; cleared by the host's thread when it has stored its state.
    asked: AtomicBool,
    counters: Mutex<Option<HostCounters>>,
}

/// The state of a running host.
#[derive(Debug, Clone)]
pub(crate) struct HostCounters {
    pub(crate) ledger: Ledger,
    /// The numbers of free frame buffers, and of all promised ones.
    pub(crate) pool: (usize, usize),
}

impl HostCounters {
    /// Returns the state of `host`; asserts that its counters balance.
    fn of(host: &Host) -> Self {
        host.check().unwrap();
        Self { ledger: host.ledger().clone(), pool: host.pool() }
    }
}

impl Shared {
    /// Returns whether to stop. Stores the host's counters if they were asked for.
    fn attend(&self, host: &Host) -> bool {
        if self.asked.load(Ordering::Acquire) {
            *self.counters.lock().unwrap() = Some(HostCounters::of(host));
            self.asked.store(false, Ordering::Release);
        }
        self.stop.load(Ordering::Relaxed)
    }
}

impl Stand {
    /// Starts `programs` on a host on `link`, the kernel addressed; `dump` is written what passes.
    pub(crate) fn start(
        link: Link,
        config: Config,
        programs: Vec<Box<dyn Program>>,
        dump: Option<&Path>,
    ) -> Self {
        let stand = Self::start_bare(link, config, programs, dump);
        address_kernel(stand.device);
        stand
    }

    /// Starts a host as [`Stand::start`] does, with no addresses on the kernel's side.
    pub(crate) fn start_bare(
        link: Link,
        config: Config,
        programs: Vec<Box<dyn Program>>,
        dump: Option<&Path>,
    ) -> Self {
        let clock = Clock::start();
        let mut device = link.open(clock);
        let mac = device.properties().address;
        let mut recording = None;
        if let Some(path) = dump {
            let recorded = Recorded::new(device, path, clock).unwrap();
            recording = Some(recorded.recording());
            device = Box::new(recorded);
        }
        let mut engine = Engine::new(Host::new(config).unwrap(), clock).unwrap();
        engine.add_device(device, &addresses()).unwrap();
        for program in programs {
            engine.host_mut().spawn("program", 0, program);
        }
        let shared = Arc::new(Shared::default());
        let thread = thread::spawn({
            let shared = Arc::clone(&shared);
            move || serve(engine, &shared)
        });
        Self { device: link.kernel_device(), mac, recording, shared, thread: Some(thread) }
    }

    /// Returns our hardware address in the form of iproute2 and tshark.
    pub(crate) fn mac(&self) -> String {
        self.mac.to_string().replace('-', ":").to_lowercase()
    }

    /// Returns our link-local address (RFC 4291 appendix A).
    pub(crate) fn link_local(&self) -> String {
        let [a, b, c, d, e, f] = self.mac.0;
        format!("fe80::{:02x}{b:02x}:{c:02x}ff:fe{d:02x}:{e:02x}{f:02x}", a ^ 2)
    }

    /// Returns the host's present state.
    pub(crate) fn counters(&self) -> HostCounters {
        self.shared.asked.store(true, Ordering::Release);
        wait_for("the host's state", || {
            assert!(!self.has_ended(), "the host's run has ended");
            !self.shared.asked.load(Ordering::Acquire)
        });
        self.shared.counters.lock().unwrap().take().unwrap()
    }

    /// Returns whether the host's run has ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the host; returns it in its final state, and asserts that its counters balance.
    pub(crate) fn stop(mut self) -> Engine {
        self.shared.stop.store(true, Ordering::Relaxed);
        let engine = self.thread.take().unwrap().join().unwrap();
        engine.host().check().unwrap();
        engine
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A failed test reports its own panic.
            let _ = thread.join();
        }
    }
}

/// The interval at which a halted host checks whether it is to stop.
const SLICE: Duration = Duration::from_millis(5);

fn serve(mut engine: Engine, shared: &Shared) -> Engine {
    loop {
        let until = engine.clock().now() + SLICE;
        match engine.run(until, |host| shared.attend(host)).unwrap() {
            Ended::Time if !shared.attend(engine.host()) => {}
            _ => return engine,
        }
    }
}

/// Waits until `come`, ten seconds at most.
pub(crate) fn wait_for(what: &str, mut come: impl FnMut() -> bool) {
    let clock = Clock::start();
    while !come() {
        assert!(clock.now().as_secs_f64() < 10.0, "{what} did not come");
        pause(Duration::from_millis(1));
    }
}

/// Returns the settings of a test for every architecture.
pub(crate) fn config(architecture: Architecture) -> Config {
    Config::of(architecture)
}
