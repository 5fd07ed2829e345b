//! A host on a real core: the thread that calls [`Engine::run`] is that core.

use std::io;

use evenkeel_core::cable::End;
use evenkeel_core::host::{AddInterfaceError, Host};
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::IpCidr;
use evenkeel_link::{self as link, Clock, Device, Halt, Standing, Status, Stop, Woken};

/// While the host is busy, devices whose rings cannot be looked at are asked this often whether they are readable.
const LOOK_PERIOD: Duration = Duration::from_micros(20);

/// Runs a [`Host`] in real time.
///
/// The calling thread runs units in order of level as fast as it can; when nothing is pending it halts on the host's
/// interfaces, which is what "interrupts enabled" means here. There is no other thread and no lock.
#[derive(Debug)]
pub struct Engine {
    host: Host,
    clock: Clock,
    halt: Halt,
    devices: Vec<Watched>,
    stop: Option<&'static Stop>,
    next_look: Instant,
    halted: Duration,
}

#[derive(Debug)]
struct Watched {
    index: usize,
    interface: InterfaceId,
    status: Status,
}

/// Why [`Engine::run`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The time given has come.
    Time,
    /// The condition given holds.
    Done,
    /// The process was asked to end.
    Stopped,
    /// No device will bring another frame: a capture has been played to its end, or the device is gone.
    DevicesEnded,
}

impl Engine {
    /// Puts a host on this core.
    ///
    /// # Errors
    /// If the process may open no more descriptors.
    pub fn new(host: Host, clock: Clock) -> io::Result<Self> {
        let halt = Halt::new()?;
        Ok(Self {
            host,
            clock,
            halt,
            devices: Vec::new(),
            stop: None,
            next_look: Instant::ZERO,
            halted: Duration::ZERO,
        })
    }

    /// Ends [`Engine::run`] when the process is asked to end (Ctrl-C).
    pub fn stop_on(&mut self, stop: &'static Stop) {
        self.halt.watch(stop.fd());
        self.stop = Some(stop);
    }

    /// Gives the host a device of the operating system.
    ///
    /// # Errors
    /// [`AddInterfaceError`]
    pub fn add_device(
        &mut self,
        device: Box<dyn Device>,
        addresses: &[IpCidr],
    ) -> Result<InterfaceId, AddInterfaceError> {
        let (fd, status) = (device.fd(), device.status());
        let interface = self.host.add_interface(device, addresses, self.clock.now())?;
        let index = self.halt.watch(fd);
        self.devices.push(Watched { index, interface, status });
        Ok(interface)
    }

    /// Gives the host one end of a cable.
    ///
    /// # Errors
    /// [`AddInterfaceError`]
    pub fn add_cable(&mut self, end: End, addresses: &[IpCidr]) -> Result<InterfaceId, AddInterfaceError> {
        end.set_waker(self.halt.waker());
        self.host.add_interface(Box::new(end), addresses, self.clock.now())
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The host, to spawn programs on.
    pub fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// The clock it runs by.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Time spent halted.
    #[must_use]
    pub fn halted(&self) -> Duration {
        self.halted
    }

    /// Runs until `until`, or until `done` holds (asked whenever the core is about to halt or look at its devices, so
    /// at least every 20 µs), or until there is no point in going on.
    ///
    /// # Errors
    /// If halting fails: the kernel is out of memory.
    pub fn run(&mut self, until: Instant, mut done: impl FnMut(&Host) -> bool) -> io::Result<Ended> {
        // The kernel may otherwise wake this thread 50 µs late, to save a little power.
        link::set_timer_slack(Duration::from_nanos(1))?;
        let mut now = self.clock.now();
        loop {
            if now >= self.next_look {
                if let Some(ended) = self.ended(until, now, &mut done) {
                    return Ok(ended);
                }
                self.look()?;
                self.next_look = now + LOOK_PERIOD;
            }
            now = match self.turn(now) {
                Some(end) => end,
                None if self.host.halt(now) => {
                    if let Some(ended) = self.ended(until, now, &mut done) {
                        return Ok(ended);
                    }
                    self.sleep(until, now)?
                }
                None => self.clock.now(),
            };
        }
    }

    /// Runs one unit and gives the time at its end, which is a trigger state.
    fn turn(&mut self, now: Instant) -> Option<Instant> {
        let ran = self.host.turn(now)?;
        let compute = self.host.work().compute;
        let end = if compute.is_zero() { self.clock.now() } else { self.clock.spin(compute) };
        self.host.charge(&ran, end.since(now));
        self.host.finish(&ran, end);
        Some(end)
    }

    fn ended(&self, until: Instant, now: Instant, done: &mut impl FnMut(&Host) -> bool) -> Option<Ended> {
        if self.stop.is_some_and(Stop::requested) {
            return Some(Ended::Stopped);
        }
        if now >= until {
            return Some(Ended::Time);
        }
        if done(&self.host) {
            return Some(Ended::Done);
        }
        let all_ended = !self.devices.is_empty()
            && self.devices.iter().all(|d| d.status.standing() != Standing::Running)
            && self.host.queued() == 0;
        all_ended.then_some(Ended::DevicesEnded)
    }

    /// Looks at the devices without sleeping.
    fn look(&mut self) -> io::Result<()> {
        if !self.devices.is_empty() && self.halt.until(&self.clock, Instant::ZERO)? == Woken::Readable {
            self.mark_readable();
        }
        Ok(())
    }

    fn sleep(&mut self, until: Instant, now: Instant) -> io::Result<Instant> {
        let woken = self.halt.until(&self.clock, self.host.next_deadline().min(until))?;
        if woken == Woken::Readable {
            self.mark_readable();
        }
        let end = self.clock.now();
        self.halted += end.since(now);
        Ok(end)
    }

    fn mark_readable(&mut self) {
        for index in self.halt.readable() {
            let device = self.devices.iter().find(|d| d.index == index);
            if let Some(interface) = device.and_then(|d| self.host.interface_mut(d.interface)) {
                interface.set_readable();
            }
        }
    }
}
