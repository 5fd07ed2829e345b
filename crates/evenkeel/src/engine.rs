//! A host on a real core: the thread that calls [`Engine::run`] is that core.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use evenkeel_core::cable::End;
use evenkeel_core::host::{AddInterfaceError, Host, Ran, Trigger as _};
use evenkeel_core::receive::Plan;
use evenkeel_core::stack::{InterfaceId, NeighborUpdate};
use evenkeel_core::tcp::Secret;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::IpCidr;
use evenkeel_link::{self as link, Clock, Device, DeviceChanges, EventFd, Halt, Stop, Woken};

use crate::devices::{Following, Notice, Replacements, Replacer, Watched};
use crate::observer::{Observer, Parts};
use crate::soft::{SPIN_BEFORE, SoftEvents};

/// The interval at which a busy host checks whether the run is to end, and polls what is visible without a
/// system call. It then also polls devices whose rings are not in memory.
const LOOK_PERIOD: Duration = Duration::from_micros(20);

/// The interval at which descriptors are polled if all rings are in memory. Urgent events are seen without
/// that ([`Engine::attend_event`]).
const ASK_PERIOD: Duration = Duration::from_millis(1);

/// The time that an idle core with a cable polls for work before it halts. It is about the time that the
/// core needs to halt, be woken with a system call of the peer core, and resume. A core that polls for so
/// long loses at most as much again as if it had known the length of the pause (Karlin, Li, Manasse,
/// Owicki, "Empirical studies of competitive spinning for a shared-memory multiprocessor", SOSP 1991).
/// Without a cable the core halts at once: the kernel wakes the threads that wait for its devices, and may
/// need this very core to do so.
const BUSY_POLL: Duration = Duration::from_micros(20);

/// The longest time that a program computes before the engine checks other work. A request to end the run
/// does not wait longer for it.
const SLICE: Duration = Duration::from_millis(1);
/// The shortest time that a program computes before the engine interrupts it for a soft event or a paced
/// segment. It leaves the program most of its time if a handler is due in every trigger state.
const SLICE_MIN: Duration = Duration::from_micros(5);

/// A driver that runs a [`Host`] in real time.
///
/// The calling thread runs units in order of level as fast as it can. When nothing is pending it halts on
/// the host's interfaces, which is what "interrupts enabled" means here. With a cable, it halts after 20 µs
/// without work. There is no other thread and no lock.
#[derive(Debug)]
pub struct Engine {
    host: Host,
    clock: Clock,
    halt: Halt,
    devices: Vec<Watched>,
    attended: Vec<Attended>,
    tell: Option<Tell>,
    following: Option<Following>,
    replacements: Option<Replacements>,
    stop: Option<&'static Stop>,
    next_look: Instant,
    /// The time when descriptors are polled next.
    next_ask: Instant,
    /// The time before which a busy core does no further piece of incremental work.
    next_piece: Instant,
    look_period: Duration,
    /// Whether the rings of some device are visible through a system call only.
    asks_often: bool,
    gather: Duration,
    /// Whether the host has a cable. Its frames are visible without a system call, so the core polls before
    /// it halts.
    busy_polls: bool,
    /// The time before which the core does not halt.
    busy_polls_until: Instant,
    /// Whether no unit has run since frames were last left to coalesce.
    gathered: bool,
    /// The unit in which a program is computing.
    computing: Option<Computing>,
    observer: Observer,
    pub(crate) soft: SoftEvents,
}

/// A unit that takes as long as its program asked for. The engine may interrupt it.
#[derive(Debug, Clone, Copy)]
struct Computing {
    ran: Ran,
    /// The time up to which the unit has been charged.
    charged: Instant,
    end: Instant,
}

/// The callback for a readable descriptor. It returns whether more work remains.
type Attend = Box<dyn FnMut(&mut Host, Instant) -> bool + Send>;

/// The callback that receives neighbour updates.
struct Tell(Box<dyn FnMut(NeighborUpdate) + Send>);

impl fmt::Debug for Tell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tell")
    }
}

struct Attended {
    index: usize,
    /// The event behind the descriptor, if its state is visible without a system call.
    event: Option<EventFd>,
    attend: Attend,
    /// Whether the descriptor was readable when it was last polled, and has not been attended since.
    readable: bool,
    /// Whether more work remains, even if the descriptor is not readable.
    more: bool,
}

impl Attended {
    fn is_due(&self) -> bool {
        self.readable || self.more || self.event.as_ref().is_some_and(EventFd::is_notified)
    }
}

impl fmt::Debug for Attended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attended").field("index", &self.index).finish_non_exhaustive()
    }
}

/// The reason why [`Engine::run`] returned.
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
    /// Creates an engine that runs `host`. A host without a secret gets a random one here, because peers in
    /// real time must not be able to guess it.
    ///
    /// # Errors
    /// If the process may open no more descriptors, or there are no random bits.
    pub fn new(mut host: Host, clock: Clock) -> io::Result<Self> {
        host.set_secret(Secret::new(link::random_bits()?));
        let halt = Halt::new()?;
        Ok(Self {
            host,
            clock,
            halt,
            devices: Vec::new(),
            attended: Vec::new(),
            tell: None,
            following: None,
            replacements: None,
            stop: None,
            next_look: Instant::ZERO,
            next_ask: Instant::ZERO,
            next_piece: Instant::ZERO,
            look_period: LOOK_PERIOD,
            asks_often: false,
            gather: Duration::ZERO,
            busy_polls: false,
            busy_polls_until: Instant::ZERO,
            gathered: false,
            computing: None,
            observer: Observer::default(),
            soft: SoftEvents::new(clock),
        })
    }

    /// Makes [`Engine::run`] return when the process is asked to end (Ctrl-C).
    pub fn stop_on(&mut self, stop: &'static Stop) {
        self.halt.watch(stop.fd());
        self.stop = Some(stop);
    }

    /// Registers `attend`, which the engine calls between two units of work whenever `fd` is readable: at
    /// once while the core is halted, within a millisecond or one unit while it is busy. `attend` must read
    /// what is there, or it is called forever. Nothing else runs while it runs.
    pub fn attend(&mut self, fd: Arc<OwnedFd>, mut attend: impl FnMut(&mut Host, Instant) + Send + 'static) {
        self.attend_in_pieces(fd, move |host, now| {
            attend(host, now);
            false
        });
    }

    /// Registers `attend`, which the engine calls after another thread has notified `event`. A busy core
    /// calls it within 20 µs or one unit, because it sees the notification without a system call.
    pub fn attend_event(
        &mut self,
        event: &EventFd,
        mut attend: impl FnMut(&mut Host, Instant) + Send + 'static,
    ) {
        let taken = event.clone();
        self.attend(event.fd(), move |host, now| {
            if taken.take() {
                attend(host, now);
            }
        });
        self.attended.last_mut().into_iter().for_each(|attended| attended.event = Some(event.clone()));
    }

    /// Registers `attend` for long work, which starts when `fd` is readable. Each call does a small piece
    /// and returns whether more remains. The engine then calls it again: at once if the core is idle,
    /// otherwise so that three quarters of the time remain for packets and programs.
    pub fn attend_in_pieces(
        &mut self,
        fd: Arc<OwnedFd>,
        attend: impl FnMut(&mut Host, Instant) -> bool + Send + 'static,
    ) {
        let index = self.halt.watch(fd);
        let attend = Box::new(attend);
        self.attended.push(Attended { index, event: None, attend, readable: false, more: false });
    }

    /// Follows the kernel's announcements of the host's devices from now on. When an MTU changes, packets
    /// are limited to it. `tell` receives a notice of that and of other events of devices and addresses.
    ///
    /// # Errors
    /// If the kernel provides no socket for it.
    pub fn follow_devices(&mut self, tell: impl FnMut(Notice) + Send + 'static) -> io::Result<()> {
        let changes = DeviceChanges::open()?;
        let index = self.halt.watch(changes.fd());
        let mut following = Following::new(index, changes, Box::new(tell));
        // Changes before this moment were not announced.
        following.look(&mut self.devices, &mut self.host);
        self.following = Some(following);
        Ok(())
    }

    /// Returns a handle that replaces removed devices with devices that its owner opens. Once it exists,
    /// [`Engine::run`] does not end when all devices are gone.
    pub fn replacer(&mut self) -> Replacer {
        let wake = self.halt.notifier();
        self.replacements.get_or_insert_with(|| Replacements::new(wake)).replacer()
    }

    fn replace_devices(&mut self, now: Instant) {
        while let Some((interface, device)) =
            self.replacements.as_ref().and_then(|r| r.devices.try_recv().ok())
        {
            let Some(watched) = self.devices.iter_mut().find(|watched| watched.interface == interface) else {
                continue;
            };
            let (descriptors, name) = (device.info().descriptors, device.properties().name.clone());
            let (new, parts) =
                (Watched::new(watched.number_in_halt, interface, &*device), Parts::of(&*device));
            let missed = missed(&mut self.host, interface);
            let error = self.host.replace_interface(interface, device, now).err();
            if error.is_none() {
                self.halt.replace_device(watched.number_in_halt, descriptors);
                *watched = new;
                self.asks_often = !self.devices.iter().all(Watched::rings_in_memory);
                self.observer.observe(interface, parts, missed);
            }
            if let Some(following) = &mut self.following {
                (following.tell)(Notice::Replaced { name, error });
                // The device may have changed since it was opened.
                following.look(&mut self.devices, &mut self.host);
            }
        }
    }

    fn tell_conflicts(&mut self) {
        while let Some(conflict) = self.host.next_conflict() {
            let device = self.devices.iter().find(|watched| watched.interface == conflict.interface);
            if let (Some(following), Some(device)) = (&mut self.following, device) {
                (following.tell)(Notice::Conflict { name: device.name().to_owned(), conflict });
            }
        }
    }

    /// Registers `tell`, which receives neighbour updates before the core halts or within 20 µs. The host
    /// must keep neighbour updates.
    pub(crate) fn on_neighbor_update(&mut self, tell: impl FnMut(NeighborUpdate) + Send + 'static) {
        self.tell = Some(Tell(Box::new(tell)));
    }

    fn pass_on_neighbor_updates(&mut self) {
        self.tell_conflicts();
        let Some(Tell(tell)) = &mut self.tell else { return };
        while let Some(update) = self.host.next_neighbor_update() {
            tell(update);
        }
    }

    /// Sets the time for which frames coalesce after all pending work is done, before the engine looks for
    /// more. A wake-up costs as much as dozens of frames, so programs that can wait save wake-ups. An
    /// engine with no work at all still halts until a frame comes, and then wakes at once.
    pub fn gather(&mut self, time: Duration) {
        self.gather = time;
    }

    /// Sets the interval of the checks that a busy host otherwise makes every 20 µs. Each check polls the
    /// descriptors if rings of some device are not in memory; otherwise descriptors are polled at most once
    /// a millisecond.
    pub fn look_every(&mut self, period: Duration) {
        self.look_period = period;
    }

    /// Makes [`Engine::run`] ignore requests to end the process from now on, so that remaining work can be
    /// done.
    pub fn ignore_stop(&mut self) {
        self.stop = None;
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
        self.add_device_as(device, |host, device, now| host.add_interface(device, addresses, now))
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
        plan: Plan,
    ) -> Result<InterfaceId, AddInterfaceError> {
        self.add_device_as(device, |host, device, now| host.add_interface_with(device, addresses, plan, now))
    }

    fn add_device_as(
        &mut self,
        device: Box<dyn Device>,
        add: impl FnOnce(&mut Host, Box<dyn Device>, Instant) -> Result<InterfaceId, AddInterfaceError>,
    ) -> Result<InterfaceId, AddInterfaceError> {
        let descriptors = device.info().descriptors;
        let (watched, parts) = (Watched::new(0, InterfaceId::default(), &*device), Parts::of(&*device));
        let interface = add(&mut self.host, device, self.clock.now())?;
        self.observer.observe(interface, parts, 0);
        self.devices.push(watched.placed(self.halt.watch_device(descriptors), interface));
        self.asks_often = !self.devices.iter().all(Watched::rings_in_memory);
        Ok(interface)
    }

    /// Adds one end of a cable to the host.
    ///
    /// # Errors
    /// [`AddInterfaceError`]
    pub fn add_cable(&mut self, end: End, addresses: &[IpCidr]) -> Result<InterfaceId, AddInterfaceError> {
        end.set_waker(self.halt.waker());
        self.busy_polls = true;
        self.host.add_interface(Box::new(end), addresses, self.clock.now())
    }

    /// Returns the host that the engine runs.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the host for modification, for example to spawn programs.
    pub fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// Returns the name of the first device that has failed, and the reason why it brings no more frames.
    /// An end that was foreseen is no failure.
    #[must_use]
    pub fn failed_device(&self) -> Option<String> {
        self.devices.iter().find_map(Watched::failure)
    }

    /// Returns the clock of the engine.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the time spent in calls that halt the core. The [`Observer`](Engine::observer) reports for
    /// how much of it the thread slept.
    #[must_use]
    pub fn halted(&self) -> Duration {
        self.observer.halted()
    }

    /// Returns a handle to the measurements that the host itself does not count.
    #[must_use]
    pub fn observer(&self) -> Observer {
        self.observer.clone()
    }

    /// Runs the host until `until`, until `done` returns true, or until another reason to end ([`Ended`]).
    /// `done` is called whenever the core is about to halt or poll its devices, so at least every 20 µs, or
    /// 1 ms while a program computes. A unit in which a program computes beyond the end is interrupted, and
    /// continues in the next call.
    ///
    /// # Errors
    /// If halting fails: the kernel is out of memory.
    pub fn run(&mut self, until: Instant, done: impl FnMut(&Host) -> bool) -> io::Result<Ended> {
        let ended = self.run_for_a_while(until, done);
        // The kernel forgets the time of this thread once it has ended.
        self.observer.read_thread();
        ended
    }

    /// Runs the host as [`Engine::run`] does, but without a reading of the thread's time at the end. For
    /// callers that soon run the host again.
    pub(crate) fn run_for_a_while(
        &mut self,
        until: Instant,
        done: impl FnMut(&Host) -> bool,
    ) -> io::Result<Ended> {
        // The kernel may otherwise wake this thread 50 µs late, to save a little power.
        link::set_timer_slack(Duration::from_nanos(1))?;
        self.observer.observe_this_thread();
        let ended = self.run_units(until, done);
        // The time of the next run is unknown.
        self.host.start_output(self.clock.now());
        ended
    }

    fn run_units(&mut self, until: Instant, mut done: impl FnMut(&Host) -> bool) -> io::Result<Ended> {
        let mut now = self.clock.now();
        loop {
            now = self.trigger_at(now);
            let computing = self.computing.is_some();
            if computing || now >= self.next_look {
                if let Some(ended) = self.ended(until, now, &mut done) {
                    return Ok(ended);
                }
                // In the middle of a unit nothing else may use the host.
                if !computing {
                    self.pass_on_neighbor_updates();
                    self.replace_devices(now);
                    self.look(now)?;
                }
            }
            now = match self.turn(now) {
                Some(end) => end,
                None if now < self.busy_polls_until || self.halt_until(now).is_none() => {
                    core::hint::spin_loop();
                    self.clock.now()
                }
                None if self.host.halt(now) => {
                    if let Some(ended) = self.ended(until, now, &mut done) {
                        return Ok(ended);
                    }
                    self.pass_on_neighbor_updates();
                    self.replace_devices(now);
                    self.sleep(until, now)?
                }
                None => self.clock.now(),
            };
        }
    }

    /// Returns the host and the soft events, to run the host with its trigger states.
    pub(crate) const fn host_and_soft(&mut self) -> (&mut Host, &mut SoftEvents) {
        (&mut self.host, &mut self.soft)
    }

    /// Records that the calling thread runs the host, for calls other than [`Engine::run`].
    pub(crate) fn observe_this_thread(&self) {
        self.observer.observe_this_thread();
    }

    pub(crate) const fn halt(&self) -> &Halt {
        &self.halt
    }

    pub(crate) fn awake(&self) {
        self.halt.awake();
    }

    pub(crate) fn asleep(&mut self) -> bool {
        self.halt.asleep()
    }

    /// Returns whether an attended descriptor has more work.
    pub(crate) fn has_pieces(&self) -> bool {
        self.attended.iter().any(|attended| attended.more)
    }

    /// Polls everything outside of the host, including descriptors, unless the host is in the middle of a
    /// unit.
    pub(crate) fn look_at_all(&mut self, now: Instant) -> io::Result<()> {
        if self.computing.is_none() {
            self.pass_on_neighbor_updates();
            self.replace_devices(now);
            self.next_ask = now;
            self.look(now)?;
        }
        Ok(())
    }

    /// Continues the unit in which a program is computing until it is over.
    pub(crate) fn finish_computing(&mut self) {
        while let Some(computing) = self.computing.take() {
            let now = self.compute(computing);
            self.trigger_at(now);
        }
    }

    /// Runs a trigger state: calls the handlers of soft events that are due. Returns the time after them.
    #[inline]
    pub(crate) fn trigger_at(&mut self, now: Instant) -> Instant {
        if self.soft.is_due(now) || self.computing.is_some() && self.host.exact_deadline() <= now {
            self.call_due(now)
        } else {
            now
        }
    }

    fn call_due(&mut self, now: Instant) -> Instant {
        self.host.trigger(now, &mut self.soft);
        // The packets that the handlers have sent leave now.
        self.host.start_output(now);
        let end = self.clock.now();
        let took = end.since(now);
        self.host.charge_control(took);
        if let Some(computing) = &mut self.computing {
            // The program has not had that time.
            computing.charged += took;
            computing.end += took;
        }
        end
    }

    /// Returns the time of the next soft event or paced segment, which the core has to meet exactly.
    fn exact_deadline(&self) -> Instant {
        self.soft.next_due().min(self.host.exact_deadline())
    }

    /// Returns the time until which an idle core may halt; `None` if it has to spin.
    pub(crate) fn halt_until(&self, now: Instant) -> Option<Instant> {
        let exact = self.exact_deadline();
        if exact == Instant::NEVER {
            return Some(exact);
        }
        let until = Instant::from_nanos(exact.as_nanos().saturating_sub(SPIN_BEFORE.as_nanos() as u64));
        (until > now).then_some(until)
    }

    /// Runs one unit, or at most [`SLICE`] of a unit in which a program computes for longer. Returns the
    /// time after it; `None` if no unit is pending. The end of either is a trigger state, and so are the
    /// ends of calls in the unit.
    pub(crate) fn turn(&mut self, now: Instant) -> Option<Instant> {
        if let Some(computing) = self.computing.take() {
            return Some(self.compute(computing));
        }
        let ran = self.host.turn_with(now, Some(&mut self.soft))?;
        self.gathered = false;
        let (compute, end) = (self.host.work().compute, self.clock.now());
        if compute.is_zero() {
            return Some(self.end_unit(&ran, end.since(now), end));
        }
        Some(self.compute(Computing { ran, charged: now, end: end + compute }))
    }

    fn compute(&mut self, computing: Computing) -> Instant {
        let Computing { ran, charged, end } = computing;
        let slice_end = self.exact_deadline().max(charged + SLICE_MIN).min(charged + SLICE);
        let now = self.clock.spin_until(end.min(slice_end));
        if now >= end {
            return self.end_unit(&ran, now.since(charged), now);
        }
        self.host.charge(&ran, now.since(charged));
        self.computing = Some(Computing { charged: now, ..computing });
        now
    }

    fn end_unit(&mut self, ran: &Ran, uncharged: Duration, end: Instant) -> Instant {
        self.host.charge(ran, uncharged);
        self.host.finish(ran, end);
        if self.busy_polls && self.gather.is_zero() {
            self.busy_polls_until = end + BUSY_POLL;
        }
        end
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
        let all_ended = self.computing.is_none()
            && !self.devices.is_empty()
            && self.replacements.is_none()
            && self.devices.iter().all(|device| !device.is_running())
            && self.host.queued() == 0;
        all_ended.then_some(Ended::DevicesEnded)
    }

    /// Polls the descriptors without sleeping and serves those that are attended, each if it is due.
    fn look(&mut self, now: Instant) -> io::Result<()> {
        self.next_look = now + self.look_period;
        if now >= self.next_ask {
            self.ask(now)?;
        }
        if now >= self.next_piece {
            let end = self.attend_once(now);
            self.next_piece = end + 3 * end.since(now);
        }
        Ok(())
    }

    /// Polls the descriptors for readability, with a system call.
    fn ask(&mut self, now: Instant) -> io::Result<()> {
        self.next_ask =
            now + if self.asks_often { self.look_period } else { ASK_PERIOD.max(self.look_period) };
        let watching = !self.devices.is_empty() || !self.attended.is_empty() || self.following.is_some();
        if watching && self.halt.until(&self.clock, Instant::ZERO)? == Woken::Readable {
            self.note_readable();
        }
        Ok(())
    }

    fn sleep(&mut self, until: Instant, now: Instant) -> io::Result<Instant> {
        if self.has_pieces() {
            // Only looks at what has come meanwhile.
            if self.halt.until(&self.clock, Instant::ZERO)? == Woken::Readable {
                self.note_readable();
            }
            return Ok(self.attend_once(now));
        }
        let deadline = self.host.next_deadline().min(until).min(self.halt_until(now).unwrap_or(now));
        if !self.gather.is_zero() && !core::mem::replace(&mut self.gathered, true) {
            self.halt.rest(&self.clock, deadline.min(now + self.gather))?;
            let end = self.clock.now();
            self.observer.add_halted(end.since(now));
            return Ok(end);
        }
        let woken = self.halt.until(&self.clock, deadline)?;
        let end = self.clock.now();
        self.observer.add_halted(end.since(now));
        if woken == Woken::Readable {
            self.note_readable();
            return Ok(self.attend_once(end));
        }
        Ok(end)
    }

    /// Records which descriptors were readable when they were last polled. Devices see it at once; attended
    /// descriptors may have to wait.
    fn note_readable(&mut self) {
        for index in self.halt.readable() {
            if let Some(attended) = self.attended.iter_mut().find(|attended| attended.index == index) {
                attended.readable = true;
            }
            if let Some(following) = self.following.as_mut().filter(|f| f.index == index) {
                following.readable = true;
            }
        }
        for device in &self.devices {
            let Some(interface) = self.host.interface_mut(device.interface) else { continue };
            self.halt.readable_of(device.number_in_halt).for_each(|number| interface.set_readable(number));
        }
    }

    /// Serves each descriptor that is attended and due, with one piece of its work, and reads device
    /// announcements. Charges the time to the host. Returns the time after it.
    fn attend_once(&mut self, now: Instant) -> Instant {
        let mut worked = false;
        for attended in self.attended.iter_mut().filter(|attended| attended.is_due()) {
            attended.readable = false;
            attended.more = (attended.attend)(&mut self.host, now);
            worked = true;
        }
        if let Some(following) = self.following.as_mut().filter(|following| following.readable) {
            following.readable = false;
            following.read(&mut self.devices, &mut self.host);
            worked = true;
        }
        if !worked {
            return now;
        }
        let end = self.clock.now();
        self.host.charge_control(end.since(now));
        end
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
    use std::io::{Read as _, Write as _};
    use std::net::UdpSocket;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicU64, Ordering};

    use evenkeel_core::cable::{Options, pair};
    use evenkeel_core::frame::Pool;
    use evenkeel_core::host::{Config, System};
    use evenkeel_core::interface::Interface as _;
    use evenkeel_core::process::{Program, Step};
    use evenkeel_core::tcp::ListenerConfig;
    use evenkeel_core::wire::EthernetAddress;
    use evenkeel_link::capture::{Replay, ReplayOptions};
    use evenkeel_link::{Address, Tap, TapOptions};
    use evenkeel_testing::{in_namespace, run, wait_for};

    use super::*;

    const US: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);

    /// A program that keeps the core from ever halting.
    #[derive(Debug)]
    struct Spinner;

    impl Program for Spinner {
        fn step(&mut self, _system: &mut System<'_>) -> Step {
            Step::Again
        }
    }

    /// A program that computes for an hour in one step.
    #[derive(Debug)]
    struct Thinker;

    impl Program for Thinker {
        fn step(&mut self, system: &mut System<'_>) -> Step {
            system.compute(Duration::from_secs(3_600));
            Step::Exit
        }
    }

    #[test]
    fn a_program_that_computes_for_long_does_not_hold_up_the_end() {
        let mut engine = engine();
        engine.host_mut().spawn("thinker", 0, Box::new(Thinker));
        let processes = engine.host().processes().count();
        let start = engine.clock().now();
        let ran = Duration::from_millis(30);
        for n in 1..=3 {
            assert_eq!(engine.run(start + n * ran, |_| false).unwrap(), Ended::Time);
        }
        assert_eq!(engine.run(Instant::NEVER, |_| true).unwrap(), Ended::Done);
        let used = engine.host().cpu(evenkeel_core::host::Level::Process);
        assert!((2 * ran..Duration::from_secs(60)).contains(&used), "what was computed is charged: {used:?}");
        assert_eq!(engine.host().processes().count(), processes, "it has not come to its end");
    }

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

    /// A program that listens and waits forever.
    #[derive(Debug)]
    struct Listens;

    impl Program for Listens {
        fn step(&mut self, system: &mut System<'_>) -> Step {
            let listener = system.listen(None, 7, &ListenerConfig::default()).unwrap();
            Step::Wait(listener)
        }
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

    fn attended_while(busy: bool) {
        let mut engine = Engine::new(Host::new(Config::default()).unwrap(), Clock::start()).unwrap();
        if busy {
            engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        }
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut read = far.try_clone().unwrap();
        let (heard, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (to, from) = (Arc::clone(&heard), Arc::clone(&seen));
        engine.attend(Arc::new(OwnedFd::from(far)), move |host, _now| {
            let mut byte = [0];
            read.read_exact(&mut byte).unwrap();
            to.fetch_add(u64::from(byte[0]), Ordering::Relaxed);
            from.store(host.processes().count() as u64, Ordering::Relaxed);
        });
        for said in [1, 2, 4] {
            near.write_all(&[said]).unwrap();
        }
        let until = engine.clock().now() + Duration::from_secs(10);
        let ended = engine.run(until, |_| heard.load(Ordering::Relaxed) == 7).unwrap();
        assert_eq!(ended, Ended::Done, "heard {}", heard.load(Ordering::Relaxed));
        assert!(seen.load(Ordering::Relaxed) >= u64::from(busy), "it has the host at hand");
    }

    /// Returns how often a busy core polls its descriptors in `millis` milliseconds.
    fn asked_in(millis: u64, asks_often: bool) -> u64 {
        let mut engine = Engine::new(Host::new(Config::default()).unwrap(), Clock::start()).unwrap();
        engine.asks_often = asks_often;
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
    fn what_another_thread_notifies_is_seen_by_a_busy_core_without_asking_descriptors() {
        let mut engine = engine();
        engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        let (event, heard) = (EventFd::new().unwrap(), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&heard);
        engine.attend_event(&event, move |_host, _now| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        engine.next_ask = Instant::NEVER;
        for turn in 1..=3 {
            event.notify();
            event.notify();
            let until = engine.clock().now() + Duration::from_secs(10);
            let ended = engine.run(until, |_| heard.load(Ordering::Relaxed) == turn).unwrap();
            assert_eq!(ended, Ended::Done, "after {turn}");
        }
        let until = engine.clock().now() + Duration::from_millis(1);
        engine.run(until, |_| false).unwrap();
        assert_eq!(heard.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn how_often_descriptors_are_asked_goes_by_the_devices_that_are_there() {
        in_namespace(&[], || {
            let mut engine = engine();
            let now = engine.clock().now();
            let interface = engine.add_device(Box::new(silent_device("asked-seldom")), &[]).unwrap();
            assert!(!engine.asks_often);
            let replacer = engine.replacer();
            replacer.replace(interface, Box::new(Tap::open("ek0", &TapOptions::default()).unwrap()));
            engine.replace_devices(now);
            assert!(engine.asks_often);
            replacer.replace(interface, Box::new(silent_device("asked-seldom-again")));
            engine.replace_devices(now);
            assert!(!engine.asks_often);
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
                engine.replace_devices(engine.clock().now());
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
                    let missed = device.missed_before + missed(&mut engine.host, interface);
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

    /// Runs `work` in a thread. Returns the time that is known of the thread after it has ended.
    fn known_of_a_thread_that_has_ended(work: impl FnOnce(&mut Engine) + Send) -> Duration {
        let mut engine = engine();
        engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        let observer = engine.observer();
        std::thread::scope(|scope| {
            scope.spawn(|| work(&mut engine));
        });
        observer.core().thread.ran
    }

    #[test]
    fn how_a_thread_has_spent_its_time_is_known_when_it_has_ended() {
        let ran = known_of_a_thread_that_has_ended(|engine| {
            // The machine may leave it without a core.
            while engine.host().cpu(evenkeel_core::host::Level::Process) < Duration::from_millis(20) {
                engine.run(engine.clock().now() + Duration::from_millis(20), |_| false).unwrap();
            }
        });
        assert!(ran > Duration::from_millis(1), "{ran:?}");
    }

    #[test]
    fn an_event_loop_that_runs_a_host_is_observed_too() {
        let ran = known_of_a_thread_that_has_ended(|engine| {
            let observer = engine.observer();
            let end = engine.clock().now() + Duration::from_secs(30);
            while observer.core().thread.ran < Duration::from_millis(2) && engine.clock().now() < end {
                assert_eq!(engine.advance(16).unwrap(), crate::Next::Again);
            }
        });
        assert!(ran >= Duration::from_millis(2), "{ran:?}");
    }

    #[test]
    fn what_is_attended_is_served_while_the_core_is_halted() {
        attended_while(false);
    }

    #[test]
    fn what_is_attended_is_served_while_the_core_is_busy() {
        attended_while(true);
    }

    /// Does long work in 50 pieces of 200 µs, requested once. Returns the time until the end, the time that
    /// the pieces worked, and the time that the host counted.
    fn pieces(busy: bool) -> (Duration, Duration, Duration) {
        const PIECES: u32 = 50;
        let mut engine = engine();
        if busy {
            engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        }
        let (near, far) = UnixStream::pair().unwrap();
        let (mut near, mut read) = (near, far.try_clone().unwrap());
        let (clock, left, worked) =
            (*engine.clock(), Arc::new(AtomicU64::new(PIECES.into())), Arc::default());
        let (to_do, done): (_, Arc<AtomicU64>) = (Arc::clone(&left), Arc::clone(&worked));
        engine.attend_in_pieces(Arc::new(OwnedFd::from(far)), move |_host, now| {
            if to_do.load(Ordering::Relaxed) == u64::from(PIECES) {
                read.read_exact(&mut [0]).unwrap();
            }
            clock.spin(Duration::from_micros(200));
            done.fetch_add(clock.now().since(now).as_nanos() as u64, Ordering::Relaxed);
            to_do.fetch_sub(1, Ordering::Relaxed) > 1
        });
        near.write_all(&[1]).unwrap();
        let begin = clock.now();
        let ended =
            engine.run(begin + Duration::from_secs(30), |_| left.load(Ordering::Relaxed) == 0).unwrap();
        assert_eq!(ended, Ended::Done, "{} pieces are left", left.load(Ordering::Relaxed));
        let worked = Duration::from_nanos(worked.load(Ordering::Relaxed));
        (clock.now().since(begin), worked, engine.host().cpu(evenkeel_core::host::Level::Process))
    }

    #[test]
    fn long_work_is_done_in_pieces_though_it_is_asked_for_once_and_counts_as_work() {
        let (_, worked, counted) = pieces(false);
        assert!(counted >= worked * 9 / 10, "{counted:?} of {worked:?}");
    }

    /// Runs a core that never halts, with incremental work that never ends, and another descriptor. Returns
    /// how often that descriptor was attended with something to read, and how often in vain.
    fn beside_long_work(said: u64) -> (u64, u64) {
        let mut engine = engine();
        engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        let ((mut near, far), (mut kept, work)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        kept.write_all(&[1]).unwrap();
        engine.attend_in_pieces(Arc::new(OwnedFd::from(work)), |_host, _now| true);
        far.set_nonblocking(true).unwrap();
        let mut read = far.try_clone().unwrap();
        let (heard, vain): (Arc<AtomicU64>, Arc<AtomicU64>) = (Arc::default(), Arc::default());
        let (count, count_vain) = (Arc::clone(&heard), Arc::clone(&vain));
        engine.attend(Arc::new(OwnedFd::from(far)), move |_host, _now| {
            let got = read.read(&mut [0]);
            let counted = if got.is_ok_and(|len| len == 1) { &count } else { &count_vain };
            counted.fetch_add(1, Ordering::Relaxed);
        });
        for number in 0..said {
            near.write_all(&[1]).unwrap();
            let until = engine.clock().now() + Duration::from_secs(30);
            engine.run(until, |_| heard.load(Ordering::Relaxed) > number).unwrap();
            // Asked, and said nothing since.
            let until = engine.clock().now() + Duration::from_millis(2);
            engine.run(until, |_| false).unwrap();
        }
        (heard.load(Ordering::Relaxed), vain.load(Ordering::Relaxed))
    }

    #[test]
    fn beside_long_work_what_is_attended_is_served_when_it_is_readable_and_then_only() {
        assert_eq!(beside_long_work(20), (20, 0));
    }

    #[test]
    fn what_is_readable_while_a_piece_is_not_yet_due_is_attended_when_it_is() {
        let mut engine = engine();
        let (mut near, far) = UnixStream::pair().unwrap();
        let heard: Arc<AtomicU64> = Arc::default();
        let count = Arc::clone(&heard);
        engine.attend(Arc::new(OwnedFd::from(far)), move |_host, _now| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        near.write_all(&[1]).unwrap();
        let now = engine.clock().now();
        engine.next_piece = Instant::NEVER;
        engine.look(now).unwrap();
        assert_eq!(heard.load(Ordering::Relaxed), 0);
        // The descriptor is not asked a second time.
        (engine.next_ask, engine.next_piece) = (Instant::NEVER, now);
        engine.look(now).unwrap();
        assert_eq!(heard.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn long_work_leaves_a_busy_core_three_quarters_of_its_time() {
        let (elapsed, worked, _) = pieces(true);
        assert!(elapsed >= worked * 7 / 2, "{worked:?} in {elapsed:?}");
    }

    fn engine() -> Engine {
        Engine::new(Host::new(Config::default()).unwrap(), Clock::start()).unwrap()
    }

    /// Adds one end of a cable to the engine and returns the other to the test.
    fn plug_in(engine: &mut Engine) -> End {
        let (mut wire, end) = pair(Options::new("wire", 1), Options::new("host", 2));
        wire.attach(&mut Pool::with_limit(1_024)).unwrap();
        engine.add_cable(end, &[]).unwrap();
        wire
    }

    /// Returns a device of the operating system that needs no privilege and brings no frames.
    fn silent_device(name: &str) -> Replay {
        let path = std::env::temp_dir().join(format!("evenkeel-{}-{name}.pcap", std::process::id()));
        let header = [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, 1].map(u32::to_be_bytes);
        std::fs::write(&path, header.as_flattened()).unwrap();
        let device = Replay::open(&path, &ReplayOptions::default(), Clock::start());
        std::fs::remove_file(&path).unwrap();
        device.unwrap()
    }

    #[test]
    fn a_core_with_a_cable_busy_polls_for_a_while_after_every_unit() {
        let mut engine = engine();
        let _wire = plug_in(&mut engine);
        engine.add_device(Box::new(silent_device("beside-a-cable")), &[]).unwrap();
        assert_eq!(engine.busy_polls_until, Instant::ZERO);
        engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
        for _ in 0..3 {
            let end = engine.turn(engine.clock.now()).unwrap();
            assert_eq!(engine.busy_polls_until, end + BUSY_POLL);
        }
    }

    #[test]
    fn a_core_without_a_cable_and_one_that_lets_frames_gather_do_not_busy_poll() {
        let with_device = |engine: &mut Engine| {
            engine.add_device(Box::new(silent_device("alone")), &[]).unwrap();
        };
        let gathering = |engine: &mut Engine| {
            plug_in(engine);
            engine.gather(Duration::from_micros(50));
        };
        for equip in [with_device, gathering] {
            let mut engine = engine();
            equip(&mut engine);
            engine.host_mut().spawn("spinner", 0, Box::new(Spinner));
            assert!(engine.turn(engine.clock.now()).is_some());
            assert_eq!(engine.busy_polls_until, Instant::ZERO);
        }
    }

    /// The engine calls `done` as often as it can; during the second call a frame arrives.
    #[test]
    fn what_comes_while_a_core_busy_polls_is_served_without_halting() {
        let mut engine = engine();
        let mut wire = plug_in(&mut engine);
        while engine.turn(engine.clock.now()).is_some() {}
        // However long the operating system may keep this thread from its core, the while is not over.
        engine.busy_polls_until = Instant::NEVER;
        engine.look_every(Duration::ZERO);
        let mut asked = 0;
        let until = engine.clock().now() + Duration::from_secs(10);
        let ended = engine.run(until, |host| {
            asked += 1;
            if asked == 2 {
                assert!(wire.send(&[0; 60]));
                wire.flush();
            }
            host.ledger().received == 1
        });
        assert_eq!((ended.unwrap(), engine.halted()), (Ended::Done, Duration::ZERO));
    }

    #[test]
    fn a_core_that_has_busy_polled_halts() {
        let mut engine = engine();
        let _wire = plug_in(&mut engine);
        engine.host_mut().spawn("listens", 0, Box::new(Listens));
        // The operating system may keep this thread from its core for all of such a time, but not again and
        // again.
        let halts = (0..2_000).any(|_| {
            let until = engine.clock().now() + Duration::from_millis(1);
            assert_eq!(engine.run(until, |_| false).unwrap(), Ended::Time);
            !engine.halted().is_zero()
        });
        assert!(halts && engine.busy_polls_until > Instant::ZERO);
    }
}
