//! A host on a real core: the thread that calls [`Engine::run`] is that core.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use evenkeel_core::cable::End;
use evenkeel_core::host::{AddInterfaceError, Config, Host};
use evenkeel_core::receive::ReceivePath;
use evenkeel_core::stack::{InterfaceId, Route, Via};
use evenkeel_core::tcp::Secret;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr, Ipv4Address, Ipv6Address};
use evenkeel_link::{self as link, Clock, Device, EventFd, LinkSpec, Stop};

use crate::driver::{Driver, ForOthers, Replacer, Units};
use crate::error::Error;
use crate::kernel::{self, FollowError, FollowedTables};
use crate::metrics::{Reader, Snapshot, publish};
use crate::notice::Notice;
use crate::observer::Observer;
use crate::soft::SoftEvents;

/// A driver that runs a [`Host`] in real time.
///
/// The calling thread runs units in order of level as fast as it can. When nothing is pending it halts on
/// the host's interfaces, which is what "interrupts enabled" means here. With a cable, it halts after 20 µs
/// without work. There is no other thread and no lock.
#[derive(Debug)]
pub struct Engine {
    pub(crate) driver: Driver,
    /// The handle that takes snapshots, once it was requested.
    reader: Option<Reader>,
}

impl Engine {
    /// Opens a host with the default settings on a device of the operating system, `tap:NAME` or
    /// `packet:NAME`. Its interface gets `address`, such as `10.77.0.2/24`.
    ///
    /// # Errors
    /// If the device cannot be opened, the address is not valid, or the process has reached a limit.
    /// Nothing is left behind.
    pub fn open(device: &str, address: &str) -> Result<Self, Error> {
        let LinkSpec::Device(spec) = device.parse()? else {
            return Err(Error::NoDevice(device.to_owned()));
        };
        if spec.is_shared() {
            return Err(FollowError::OwnAddresses.into());
        }
        let cidr: IpCidr = address.parse().map_err(|()| Error::Address(address.to_owned()))?;
        let clock = Clock::start();
        let mut engine = Self::new(Host::new(Config::default())?, clock)?;
        engine.add_device(evenkeel_link::open(&spec, clock)?, &[cidr])?;
        Ok(engine)
    }

    /// Creates an engine that runs `host`. A host without a secret gets a random one here, because peers in
    /// real time must not be able to guess it.
    ///
    /// # Errors
    /// If the process may open no more descriptors, or there are no random bits.
    pub fn new(mut host: Host, clock: Clock) -> io::Result<Self> {
        host.set_secret(Secret::new(link::random_bits()?));
        Ok(Self { driver: Driver::new(Units::new(host, clock))?, reader: None })
    }

    /// Makes [`Engine::run`] return when the process is asked to end (Ctrl-C).
    pub fn stop_on(&mut self, stop: &'static Stop) {
        self.driver.outside.halt.watch(stop.fd());
        self.driver.stop = Some(stop);
    }

    /// Makes [`Engine::run`] ignore requests to end the process from now on, so that remaining work can be
    /// done.
    pub fn ignore_stop(&mut self) {
        self.driver.stop = None;
    }

    /// Registers `attend`, which the engine calls between two units of work whenever `fd` is readable: at
    /// once while the core is halted, within a millisecond or one unit while it is busy. `attend` must read
    /// what is there, or it is called forever. Nothing else runs while it runs.
    pub fn attend(&mut self, fd: Arc<OwnedFd>, mut attend: impl FnMut(&mut Host, Instant) + Send + 'static) {
        self.attend_incrementally(fd, move |host, now| {
            attend(host, now);
            false
        });
    }

    /// Registers `attend`, which the engine calls after another thread has notified `event`. A busy core
    /// calls it within 20 µs or one unit, because it sees the notification without a system call.
    pub fn attend_event(&mut self, event: &EventFd, attend: impl FnMut(&mut Host, Instant) + Send + 'static) {
        self.driver.outside.attend_event(event, attend);
    }

    /// Registers `attend` for long work, which starts when `fd` is readable. Each call does a small piece
    /// and returns whether more remains. The engine then calls it again: at once if the core is idle,
    /// otherwise so that three quarters of the time remain for packets and programs.
    pub fn attend_incrementally(
        &mut self,
        fd: Arc<OwnedFd>,
        attend: impl FnMut(&mut Host, Instant) -> bool + Send + 'static,
    ) {
        self.driver.outside.attend(fd, None, Box::new(attend));
    }

    /// Follows the kernel's announcements of the host's devices from now on. When an MTU changes, packets
    /// are limited to it. `tell` receives a notice of that and of other events of devices and addresses.
    ///
    /// # Errors
    /// If the kernel provides no socket for it.
    pub fn follow_devices(&mut self, tell: impl FnMut(Notice) + Send + 'static) -> io::Result<()> {
        self.driver.outside.follow_devices(&mut self.driver.units.host, Box::new(tell))
    }

    /// Makes the host take over the kernel's addresses and neighbours on `devices` and the kernel's routes
    /// through them, and follow their changes from now on. A device's place in the list is the number of its
    /// interface.
    ///
    /// The host's table has routes by destination only. A prefix is closed if the kernel decides about it
    /// otherwise, or sends its packets through other devices: the host sends nothing there.
    ///
    /// # Errors
    /// [`FollowError`] if a device does not exist, or the kernel provides no socket for it.
    pub fn follow_kernel(&mut self, devices: &[&str]) -> Result<FollowedTables, FollowError> {
        kernel::follow(&mut self.driver, devices)
    }

    /// Makes the host share the kernel's addresses on its only device, which was opened as `xdp:NAME,share`.
    /// The kernel keeps the addresses, and all traffic but that of the host's sockets. From now on the host
    /// has the same addresses, routes and neighbours. The port of each socket is reserved in the kernel.
    ///
    /// The host needs the settings that [`sharing`](crate::raw::kernel::sharing) returns. Call this before
    /// sockets are opened.
    ///
    /// # Errors
    /// [`FollowError`] if the device has no address, or the kernel provides no socket for its tables.
    pub fn share(&mut self, device: &str) -> Result<(), FollowError> {
        kernel::share(&mut self.driver, device)
    }

    /// Returns a handle that replaces removed devices with devices that its owner opens. Once it exists,
    /// [`Engine::run`] does not end when all devices are gone.
    pub fn replacer(&mut self) -> Replacer {
        self.driver.outside.replacer()
    }

    /// Registers `tell`, which receives news for the other hosts of a group before the core halts or within
    /// 20 µs. The host must keep neighbour updates.
    pub(crate) fn on_news_for_others(&mut self, tell: impl FnMut(ForOthers) + Send + 'static) {
        self.driver.outside.callbacks.on_news_for_others(tell);
    }

    /// Sets the time for which frames coalesce after all pending work is done, before the engine looks for
    /// more. A wake-up costs as much as dozens of frames, so programs that can wait save wake-ups. An
    /// engine with no work at all still halts until a frame comes, and then wakes at once.
    pub fn gather(&mut self, time: Duration) {
        self.driver.idle.coalesce(time);
    }

    /// Sets the interval of the checks that a busy host otherwise makes every 20 µs. Each check polls the
    /// descriptors if rings of some device are not in memory; otherwise descriptors are polled at most once
    /// a millisecond.
    pub fn look_every(&mut self, period: Duration) {
        self.driver.outside.looks.set_period(period);
    }

    /// Adds a device of the operating system to the host. Its frames are received as suits the host and the
    /// device ([`Host::add_interface`]).
    ///
    /// # Errors
    /// [`AddInterfaceError`]
    pub fn add_device(
        &mut self,
        device: Box<dyn Device>,
        addresses: &[IpCidr],
    ) -> Result<InterfaceId, AddInterfaceError> {
        self.driver.add_device(device, |host, device, now| host.add_interface(device, addresses, now))
    }

    /// Adds a device of the operating system whose frames are received along the receive path `plan`
    /// ([`Host::add_interface_with`]).
    ///
    /// # Errors
    /// [`AddInterfaceError`]
    pub fn add_device_with(
        &mut self,
        device: Box<dyn Device>,
        addresses: &[IpCidr],
        plan: ReceivePath,
    ) -> Result<InterfaceId, AddInterfaceError> {
        self.driver
            .add_device(device, |host, device, now| host.add_interface_with(device, addresses, plan, now))
    }

    /// Adds one end of a cable to the host.
    ///
    /// # Errors
    /// [`AddInterfaceError`]
    pub fn add_cable(&mut self, end: End, addresses: &[IpCidr]) -> Result<InterfaceId, AddInterfaceError> {
        let Driver { units, outside, idle, .. } = &mut self.driver;
        end.set_waker(outside.halt.waker());
        idle.add_cable();
        units.host.add_interface(Box::new(end), addresses, units.clock.now())
    }

    /// Adds a router for all destinations of its address family that are not on the link.
    ///
    /// # Errors
    /// Those of [`Engine::add_route`].
    pub fn add_gateway(&mut self, gateway: IpAddress, interface: InterfaceId) -> Result<(), Error> {
        let all = match gateway {
            IpAddress::Ipv4(_) => IpCidr::new(IpAddress::Ipv4(Ipv4Address::UNSPECIFIED), 0),
            IpAddress::Ipv6(_) => IpCidr::new(IpAddress::Ipv6(Ipv6Address::UNSPECIFIED), 0),
        };
        self.add_route(all, gateway, interface)
    }

    /// Adds a route to `to` through a router on the link of `interface`.
    ///
    /// # Errors
    /// [`Error::Gateway`] if the router is not on the link. [`Error::Route`] if the host cannot have the
    /// route. Nothing is changed then.
    pub fn add_route(&mut self, to: IpCidr, gateway: IpAddress, interface: InterfaceId) -> Result<(), Error> {
        let is_on_link = |route: Route| route.via == Via::Link(interface) && route.to.contains_addr(&gateway);
        if !self.host().routes().any(is_on_link) {
            return Err(Error::Gateway(gateway));
        }
        Ok(self.host_mut().add_route(to, gateway, interface)?)
    }

    /// Returns the host that the engine runs.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.driver.units.host
    }

    /// Returns the host for modification, for example to spawn programs.
    pub fn host_mut(&mut self) -> &mut Host {
        &mut self.driver.units.host
    }

    /// Returns the name of the first device that has failed, and the reason why it brings no more frames.
    /// An end that was foreseen is no failure.
    #[must_use]
    pub fn failed_device(&self) -> Option<String> {
        self.driver.outside.devices.failure()
    }

    /// Returns the clock of the engine.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.driver.units.clock
    }

    /// Returns the time spent in calls that halt the core. The [`Observer`](Engine::observer) reports for
    /// how much of it the thread slept.
    #[must_use]
    pub fn halted(&self) -> Duration {
        self.driver.observer.halted()
    }

    /// Returns a handle to the measurements that the host itself does not count.
    #[must_use]
    pub fn observer(&self) -> Observer {
        self.driver.observer.clone()
    }

    /// Takes a snapshot of the host. Reads the kernel's counters of the thread and the devices, which takes a
    /// few system calls. Other threads use [`Engine::metrics`].
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let elapsed = self.clock().now().since(Instant::ZERO);
        Snapshot::of(self.host(), &self.driver.observer, elapsed)
    }

    /// Returns a handle that takes snapshots of the host from any thread, while the engine runs. All handles
    /// of an engine share one event.
    ///
    /// # Errors
    /// If the process may open no more descriptors.
    pub fn metrics(&mut self) -> io::Result<Reader> {
        if let Some(reader) = &self.reader {
            return Ok(reader.clone());
        }
        let (reader, event, answer) = publish(self.observer())?;
        self.attend_event(&event, answer);
        Ok(self.reader.insert(reader).clone())
    }

    /// Returns the soft events of this engine: handlers that it calls in its trigger states, at times in
    /// microseconds.
    ///
    /// Events come on time as long as programs make calls or yield the core. A program that computes on its
    /// own for a millisecond, without [`System::trigger`](evenkeel_core::host::System::trigger), delays
    /// them as long. A kernel timer does not help: it would need a signal, and a signal handler may not
    /// make the calls that an event makes. An idle core spins for the last 100 µs before an event is due,
    /// as it cannot be woken exactly enough.
    ///
    /// ```
    /// # use std::ops::ControlFlow;
    /// # use evenkeel::{Engine, raw::host::{Config, Host}, raw::time::{Clock, Duration}};
    /// let mut engine = Engine::new(Host::new(Config::default())?, Clock::start())?;
    /// let now = engine.clock().now();
    /// engine.soft_events().every(now, Duration::from_micros(20), |_host, _now| {
    ///     // ... send a packet ...
    ///     ControlFlow::Continue(())
    /// });
    ///
    /// engine.run(now + Duration::from_millis(5), |_| false)?;
    /// assert!(engine.soft_events().called() > 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn soft_events(&mut self) -> &mut SoftEvents {
        &mut self.driver.units.soft
    }

    /// Runs a trigger state: calls the handlers of the events that are due.
    pub fn trigger(&mut self) {
        let now = self.driver.units.now();
        self.driver.units.trigger(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_host::Listens;

    #[test]
    fn a_host_in_real_time_has_a_secret_of_its_own() {
        let secret_of = |config| {
            let engine = Engine::new(Host::new(config).unwrap(), Clock::start()).unwrap();
            engine.host().config().secret.unwrap()
        };
        // Not assert_ne!: secrets do not print themselves, but tests might.
        assert!(secret_of(Config::default()) != secret_of(Config::default()));
        let given = Secret::new([7; 16]);
        assert!(secret_of(Config { secret: Some(given), ..Config::default() }) == given);
    }

    #[test]
    fn a_secret_stays_once_it_is_used() {
        let mut host = Host::new(Config::default()).unwrap();
        host.spawn("listens", 0, Box::new(Listens));
        while let Some(ran) = host.turn(Instant::ZERO) {
            host.finish(&ran, Instant::ZERO);
        }
        assert!(!host.set_secret(Secret::new([1; 16])) && host.config().secret.is_none());
        assert!(Host::new(Config::default()).unwrap().set_secret(Secret::new([1; 16])));
    }
}
