//! The surroundings of a host: descriptors, devices, and the callbacks of the program that runs it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use evenkeel_core::host::{AddInterfaceError, Host};
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::time::Instant;
use evenkeel_link::{Device, EventFd, Halt, Nap, Woken};

use super::callbacks::{Attend, Callbacks};
use super::devices::Devices;
use super::following;
use super::looks::Looks;
use super::replacer::Replacer;
use super::rest::{Rest, Sleeper};
use super::units::Units;
use crate::observer::Observer;

/// Everything outside of a host that can bring it work.
#[derive(Debug)]
pub(crate) struct Outside {
    /// The descriptors, and the place to sleep until one is readable.
    pub(crate) halt: Halt,
    pub(crate) looks: Looks,
    pub(crate) devices: Devices,
    pub(crate) callbacks: Callbacks,
    /// The thread that drives the host, while it waits without the driver.
    pub(crate) sleeper: Sleeper,
}

impl Outside {
    pub(crate) fn new(observer: Observer) -> io::Result<Self> {
        let (looks, callbacks) = (Looks::default(), Callbacks::default());
        Ok(Self {
            halt: Halt::new()?,
            looks,
            devices: Devices::new(observer),
            callbacks,
            sleeper: Sleeper::Awake,
        })
    }

    /// Registers the callback for a readable descriptor. `event` is the event behind the descriptor, if its
    /// state is visible without a system call.
    pub(crate) fn attend(&mut self, fd: Arc<OwnedFd>, event: Option<EventFd>, attend: Attend) {
        let index = self.halt.watch(fd);
        self.callbacks.attend(index, event, attend);
        self.wake_sleeper();
    }

    /// Registers the callback for an event that other threads notify.
    pub(crate) fn attend_event(
        &mut self,
        event: &EventFd,
        mut attend: impl FnMut(&mut Host, Instant) + Send + 'static,
    ) {
        let taken = event.clone();
        let attend = move |host: &mut Host, now| {
            if taken.take() {
                attend(host, now);
            }
            false
        };
        self.attend(event.fd(), Some(event.clone()), Box::new(attend));
    }

    /// Adds a device with `add`, which hands it to the host.
    pub(crate) fn add_device(
        &mut self,
        device: Box<dyn Device>,
        add: impl FnOnce(Box<dyn Device>) -> Result<InterfaceId, AddInterfaceError>,
    ) -> Result<InterfaceId, AddInterfaceError> {
        let interface = self.devices.add(device, &mut self.halt, add)?;
        self.wake_sleeper();
        Ok(interface)
    }

    /// Reports the kernel's announcements of the host's devices to `tell`.
    pub(crate) fn follow_devices(&mut self, host: &mut Host, tell: following::Tell) -> io::Result<()> {
        self.devices.follow(&mut self.halt, host, tell)?;
        self.wake_sleeper();
        Ok(())
    }

    /// Returns a handle that replaces removed devices.
    pub(crate) fn replacer(&mut self) -> Replacer {
        self.devices.replacer(&self.halt)
    }

    #[inline]
    pub(crate) fn is_look_due(&self, now: Instant) -> bool {
        self.looks.is_due(now)
    }

    /// Declares the thread that drives the host asleep until `until`, wherever it waits. Returns false if it
    /// must not wait, because it has been notified already.
    pub(crate) fn fall_asleep(&mut self, until: Instant) -> bool {
        let may_wait = self.halt.asleep();
        if may_wait {
            self.sleeper = Sleeper::Waits { until };
        }
        may_wait
    }

    /// Wakes the thread that drives the host, if it rests while others enter.
    pub(crate) fn wake_sleeper(&mut self) {
        if self.sleeper.rests_until().is_some() {
            self.sleeper = Sleeper::Notified;
            self.halt.notifier().notify();
        }
    }

    /// Returns what a thread waits for that sleeps without the driver.
    pub(crate) fn rest(&self) -> Rest {
        let descriptors = self.halt.shared_descriptors().map(Arc::clone).collect();
        let until = self.sleeper.rests_until().unwrap_or(Instant::ZERO);
        Rest { descriptors, generation: self.halt.generation(), until }
    }

    /// Records that the thread that drives the host has woken from a sleep without the driver, and what it
    /// has found there.
    pub(crate) fn end_nap(&mut self, nap: &Nap, host: &mut Host, now: Instant) {
        self.halt.end_nap(nap);
        self.sleeper = Sleeper::Awake;
        self.record_readable(host);
        // The descriptors have just been polled.
        self.looks.hurry();
        self.looks.take_ask(now, !self.devices.are_rings_in_memory());
    }

    /// Records that the thread that drives the host is awake, and has not slept.
    pub(crate) fn stay_awake(&mut self) {
        // A notification that has come meanwhile would prevent every sleep.
        self.halt.awake();
        self.sleeper = Sleeper::Awake;
    }

    /// Records that the event loop that drives the host is awake. Unless one of the descriptors has become
    /// readable, they are not polled soon.
    #[cfg(feature = "tokio")]
    pub(crate) fn end_rest(&mut self, has_readable: bool, now: Instant) {
        self.halt.awake();
        self.sleeper = Sleeper::Awake;
        if has_readable {
            self.looks.hurry();
        } else {
            self.looks.take_ask(now, !self.devices.are_rings_in_memory());
        }
    }

    /// Records that the thread that drives the host is awake. If it was asleep, a look is due. Returns
    /// whether it was.
    pub(crate) fn awake(&mut self) -> bool {
        self.halt.awake();
        let was_asleep = std::mem::take(&mut self.sleeper) != Sleeper::Awake;
        if was_asleep {
            self.looks.hurry();
        }
        was_asleep
    }

    /// Looks at everything, and serves each attended descriptor that is due. Polls the descriptors without
    /// sleeping, if it is time.
    pub(crate) fn look(&mut self, units: &mut Units, now: Instant) -> io::Result<()> {
        self.settle(&mut units.host, now);
        self.looks.record_look(now);
        if self.looks.take_ask(now, !self.devices.are_rings_in_memory()) {
            self.poll(units)?;
        }
        if self.looks.is_piece_due(now) {
            let end = self.serve(units, now);
            self.looks.record_piece(now, end);
        }
        Ok(())
    }

    /// Looks at everything, including the descriptors.
    pub(crate) fn look_at_all(&mut self, units: &mut Units, now: Instant) -> io::Result<()> {
        self.looks.hurry();
        self.look(units, now)
    }

    /// Exchanges with the host what needs no system call: passes on its conflicts and its news for other
    /// hosts, and replaces removed devices.
    pub(crate) fn settle(&mut self, host: &mut Host, now: Instant) {
        self.devices.report_conflicts(host);
        self.devices.report_kernel_work();
        self.callbacks.pass_on_news(host);
        self.devices.replace(&mut self.halt, host, now);
    }

    /// Polls the descriptors for readability, with a system call.
    pub(crate) fn poll(&mut self, units: &mut Units) -> io::Result<()> {
        let is_watching = self.devices.is_watching() || !self.callbacks.is_empty();
        if is_watching && self.halt.until(&units.clock, Instant::ZERO)? == Woken::Readable {
            self.record_readable(&mut units.host);
        }
        Ok(())
    }

    /// Records which descriptors were readable when they were last polled. Devices see it at once; attended
    /// descriptors may have to wait.
    pub(crate) fn record_readable(&mut self, host: &mut Host) {
        self.halt.readable().for_each(|index| self.callbacks.set_readable(index));
        self.devices.set_readable(&self.halt, host);
    }

    /// Serves each descriptor that is attended and due, with one piece of its work, and reads device
    /// announcements. Charges the time to the host. Returns the time after it.
    pub(crate) fn serve(&mut self, units: &mut Units, now: Instant) -> Instant {
        let attended = self.callbacks.serve(&mut units.host, now);
        let announced = self.devices.read_announcements(&mut units.host);
        if attended || announced { units.charge_control(now) } else { now }
    }
}
