//! The operating system's devices of a host, and their events while the host runs.

use std::io;

use evenkeel_core::host::{AddInterfaceError, Host};
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::time::Instant;
use evenkeel_link::{Device, Halt};

use super::following::{Following, Tell};
use super::replacer::{Replacements, Replacer};
use super::watched::Watched;
use crate::notice::Notice;
use crate::observer::{Observer, Parts};

/// The devices of a host.
#[derive(Debug)]
pub(crate) struct Devices {
    all: Vec<Watched>,
    /// Whether the rings of all devices are visible without a system call.
    rings_in_memory: bool,
    following: Option<Following>,
    replacements: Option<Replacements>,
    observer: Observer,
}

impl Devices {
    pub(crate) fn new(observer: Observer) -> Self {
        let (following, replacements) = (None, None);
        Self { all: Vec::new(), rings_in_memory: true, following, replacements, observer }
    }

    /// Adds a device with `add`, which hands it to the host.
    pub(crate) fn add(
        &mut self,
        device: Box<dyn Device>,
        halt: &mut Halt,
        add: impl FnOnce(Box<dyn Device>) -> Result<InterfaceId, AddInterfaceError>,
    ) -> Result<InterfaceId, AddInterfaceError> {
        let (descriptors, parts) = (device.info().descriptors, Parts::of(&*device));
        let watched = Watched::new(&*device, InterfaceId::default(), 0);
        let interface = add(device)?;
        self.observer.observe(interface, parts, 0);
        self.all.push(watched.placed(interface, halt.watch_device(descriptors)));
        self.check_rings();
        Ok(interface)
    }

    /// Reports the kernel's announcements of the devices to `tell`.
    pub(crate) fn follow(&mut self, halt: &mut Halt, host: &mut Host, tell: Tell) -> io::Result<()> {
        let following = self.following.insert(Following::open(halt, tell)?);
        // Changes before this moment were not announced.
        following.look(&mut self.all, host);
        self.report_kernel_work();
        Ok(())
    }

    /// Returns a handle that replaces removed devices.
    pub(crate) fn replacer(&mut self, halt: &Halt) -> Replacer {
        self.replacements.get_or_insert_with(|| Replacements::new(halt.notifier())).replacer()
    }

    /// Replaces the devices for which others have been handed over.
    pub(crate) fn replace(&mut self, halt: &mut Halt, host: &mut Host, now: Instant) {
        while let Some((interface, device)) = self.replacements.as_ref().and_then(Replacements::next) {
            self.replace_one(interface, device, halt, host, now);
        }
    }

    fn replace_one(
        &mut self,
        interface: InterfaceId,
        device: Box<dyn Device>,
        halt: &mut Halt,
        host: &mut Host,
        now: Instant,
    ) {
        let Some(watched) = self.all.iter_mut().find(|watched| watched.interface() == interface) else {
            return;
        };
        let (descriptors, number) = (device.info().descriptors, watched.number_in_halt());
        let name = device.properties().name.clone();
        let (new, parts) = (Watched::new(&*device, interface, number), Parts::of(&*device));
        let missed = missed(host, interface);
        let error = host.replace_interface(interface, device, now).err();
        if error.is_none() {
            halt.replace_device(number, descriptors);
            *watched = new;
            self.check_rings();
            self.observer.observe(interface, parts, missed);
        }
        if let Some(following) = &mut self.following {
            following.report(Notice::Replaced { name, error });
            // The device may have changed since it was opened.
            following.look(&mut self.all, host);
        }
    }

    fn check_rings(&mut self) {
        self.rings_in_memory = self.all.iter().all(Watched::rings_in_memory);
    }

    /// Reports the address conflicts that the host has seen.
    pub(crate) fn report_conflicts(&mut self, host: &mut Host) {
        while let Some(conflict) = host.next_conflict() {
            let device = self.all.iter().find(|watched| watched.interface() == conflict.interface);
            if let (Some(following), Some(device)) = (&mut self.following, device) {
                following.report(Notice::Conflict { name: device.name().to_owned(), conflict });
            }
        }
    }

    /// Reports the work of the kernel's stack on frames of the host.
    pub(crate) fn report_kernel_work(&mut self) {
        let Some(following) = &mut self.following else { return };
        for device in &self.all {
            while let Some(work) = device.next_kernel_work() {
                following.report(Notice::KernelWork { name: device.name().to_owned(), work });
            }
        }
    }

    /// Records which descriptors were readable when they were polled.
    pub(crate) fn set_readable(&mut self, halt: &Halt, host: &mut Host) {
        for index in halt.readable() {
            self.following.iter_mut().for_each(|following| following.set_readable(index));
        }
        self.all.iter().for_each(|device| device.set_readable(halt, host));
    }

    /// Reads an announcement, if one was there when the descriptors were last polled. Returns whether one
    /// was.
    pub(crate) fn read_announcements(&mut self, host: &mut Host) -> bool {
        self.following.as_mut().is_some_and(|following| following.read(&mut self.all, host))
    }

    /// Returns whether there are descriptors to poll.
    pub(crate) fn is_watching(&self) -> bool {
        !self.all.is_empty() || self.following.is_some()
    }

    /// Returns whether the rings of all devices are visible without a system call.
    pub(crate) fn are_rings_in_memory(&self) -> bool {
        self.rings_in_memory
    }

    /// Returns whether there were devices, all have ended, and none can be replaced.
    pub(crate) fn have_ended(&self) -> bool {
        !self.all.is_empty()
            && self.replacements.is_none()
            && self.all.iter().all(|device| !device.is_running())
    }

    /// Returns the name of the first device that has failed, with the reason.
    pub(crate) fn failure(&self) -> Option<String> {
        self.all.iter().find_map(Watched::failure)
    }
}

/// Returns the number of frames that the receive rings of an interface have dropped.
fn missed(host: &mut Host, interface: InterfaceId) -> u64 {
    let Some(interface) = host.interface_mut(interface) else { return 0 };
    (0..interface.properties().queues).map(|queue| interface.queue(queue).missed()).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::Write as _;
    use std::net::UdpSocket;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use evenkeel_core::frame::Pool;
    use evenkeel_core::time::Duration;
    use evenkeel_core::wire::EthernetAddress;
    use evenkeel_link::{Address, Tap, TapOptions};
    use evenkeel_testing::{in_namespace, run, wait_for};

    use super::*;
    use crate::Engine;
    use crate::test_host::{Spinner, engine, silent_device};

    const US: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);

    /// Has the engine replace the devices for which others were handed over.
    fn settle(engine: &mut Engine) {
        let now = engine.clock().now();
        engine.driver.outside.settle(&mut engine.driver.units.host, now);
    }

    /// Returns how often a busy core polls its descriptors in `millis` milliseconds.
    fn asked_in(millis: u64, asks_often: bool) -> u64 {
        let mut engine = engine();
        engine.driver.outside.devices.rings_in_memory = !asks_often;
        engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(&[1]).unwrap();
        let asked = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&asked);
        engine.attend(Arc::new(OwnedFd::from(far)), move |_host, _now| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let until = engine.clock().now() + Duration::from_millis(millis);
        engine.run(until, |_| false).unwrap();
        asked.load(Ordering::Relaxed)
    }

    #[test]
    fn descriptors_are_asked_seldom_where_rings_are_in_memory() {
        let seldom = asked_in(50, false);
        assert!((1..=51).contains(&seldom), "{seldom} times in 50 ms");
        // Others may have the core for a while.
        assert!((0..100).any(|_| asked_in(50, true) > 100));
    }

    #[test]
    fn how_often_descriptors_are_asked_goes_by_the_devices_that_are_there() {
        in_namespace(&[], || {
            let mut engine = engine();
            let interface = engine.add_device(Box::new(silent_device("asked-seldom")), &[]).unwrap();
            assert!(engine.driver.outside.devices.rings_in_memory);
            let replacer = engine.replacer();
            replacer.replace(interface, Box::new(Tap::open("ek0", &TapOptions::default()).unwrap()));
            settle(&mut engine);
            assert!(!engine.driver.outside.devices.rings_in_memory);
            replacer.replace(interface, Box::new(silent_device("asked-seldom-again")));
            settle(&mut engine);
            assert!(engine.driver.outside.devices.rings_in_memory);
        });
    }

    /// Counters never decrease, whatever happens to the device.
    #[test]
    fn what_was_counted_for_a_device_that_is_gone_counts_on_with_the_next() {
        in_namespace(&[&[("ip", "iproute2")]], || {
            let mut engine = engine();
            let (observer, replacer) = (engine.observer(), engine.replacer());
            let options = TapOptions { address: Address::Fixed(US), ..TapOptions::default() };
            let mut interface = None;
            for turn in 1..=2 {
                run("ip tuntap add dev ek0 mode tap");
                run("sysctl -qw net.ipv6.conf.ek0.disable_ipv6=1");
                run("ip addr add 10.77.0.1/24 dev ek0");
                let tap = Box::new(Tap::open("ek0", &options).unwrap());
                run("ip neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev ek0");
                let interface = *interface.get_or_insert_with(|| {
                    engine.add_device(Box::new(silent_device("before")), &[]).unwrap()
                });
                replacer.replace(interface, tap);
                settle(&mut engine);
                // A frame that finds the device's queue full is lost, and so is a frame sent by a device
                // that is down.
                let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
                // The kernel takes a while to see that it has a carrier.
                wait_for("a full queue", || {
                    (0..1_000).for_each(|_| _ = socket.send_to(&[0; 18], "10.77.0.2:9"));
                    observer.devices()[0].kernel.unwrap().tx_dropped >= turn * 1_000
                });
                run("ip link set ek0 down");
                let device = engine.host_mut().interface_mut(interface).unwrap();
                let (mut pool, mut frames) = (Pool::new(1), VecDeque::new());
                frames.extend(pool.take_copy(&[0; 60]));
                assert_eq!(device.transmit(&mut frames, &mut pool), 1);
                let counted = |engine: &mut Engine| {
                    let [device] = observer.devices().try_into().unwrap();
                    let kernel = device.kernel.unwrap_or_default();
                    let missed = device.missed_before + missed(engine.host_mut(), interface);
                    (device.sent, device.send_calls, device.refused, kernel.tx_dropped, missed)
                };
                let (sent, calls, refused, dropped, missed) = counted(&mut engine);
                assert!(refused == turn && sent == calls && sent >= turn, "{sent} {calls} {refused}");
                assert_eq!(missed, dropped);
                run("ip link del ek0");
                assert_eq!(counted(&mut engine), (sent, calls, refused, dropped, missed));
                // Not even if there is another device of this name, which is not ours.
                run("ip tuntap add dev ek0 mode tap");
                assert_eq!(counted(&mut engine), (sent, calls, refused, dropped, missed));
                run("ip link del ek0");
            }
        });
    }
}
