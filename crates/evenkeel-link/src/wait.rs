//! Sleep of a thread until a device is ready, a deadline passes, or another thread wakes it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};

use evenkeel_core::time::{Duration, Instant};
use rustix::event::{EventfdFlags, eventfd};

use crate::clock::Clock;
use crate::device::Descriptors;
use crate::sys;
use crate::wakeup::Sleeper;

/// The place where one thread sleeps until its devices have frames: "interrupts enabled".
///
/// It holds the descriptors of the thread's devices. Readiness is level-triggered: a device that still has
/// frames also ends the next sleep. A wake-up before the sleep is not lost: it prevents the sleep. Sleeping
/// allocates nothing.
#[derive(Debug)]
pub struct Halt {
    notifier: Arc<Notifier>,
    /// Descriptors that stay open while they are in `polled`.
    watched: Vec<Watched>,
    devices: Vec<WatchedDevice>,
    /// The notifier's eventfd, then `watched` in the same order.
    polled: Vec<libc::pollfd>,
    /// The number of changes to the set of descriptors.
    generation: u64,
}

/// The reason why a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// A watched descriptor is ready; [`Halt::readable`] returns which one. (There may have been a wake-up as
    /// well.)
    Readable,
    /// A [`Waker`] or [`Notifier`] was used, before the sleep or during it.
    Notified,
    /// The deadline passed, or the sleep ended early for a reason without importance (a signal). The caller
    /// should read the clock.
    Deadline,
}

/// A place for a descriptor to be watched.
#[derive(Debug)]
struct Watched {
    /// `None` if the place is free.
    fd: Option<Arc<OwnedFd>>,
    /// Sleeps in a row that this descriptor ended with an error and nothing to read.
    errors: u8,
    /// The device that the descriptor is of, and its number there.
    of: Option<(usize, usize)>,
}

/// A device whose descriptors are watched.
#[derive(Debug)]
struct WatchedDevice {
    descriptors: Descriptors,
    /// The [generation](Descriptors::generation) that is watched.
    generation: u64,
}

/// After this many errors in a row the halt stops waiting for a descriptor, so that a removed device does not
/// turn sleeping into spinning. (A link that merely goes down reports one error.)
const ERRORS_MAX: u8 = 16;

/// A sleep of a thread that does not hold the [`Halt`] meanwhile, so that others can use it. It has a list of
/// descriptors of its own, and keeps them open.
#[derive(Debug, Default)]
pub struct Nap {
    polled: Vec<libc::pollfd>,
    descriptors: Vec<Arc<OwnedFd>>,
    /// The [generation](Halt::generation) of the list.
    generation: Option<u64>,
    /// A further descriptor that ends this sleep.
    further: Option<Arc<OwnedFd>>,
}

impl Nap {
    /// Creates a sleep that also ends when `further` is readable.
    #[must_use]
    pub fn with(further: Arc<OwnedFd>) -> Self {
        Self { further: Some(further), ..Self::default() }
    }

    /// Sleeps until a descriptor is readable or `timeout` has passed (`None`: no limit). A signal ends the
    /// sleep early.
    ///
    /// # Errors
    /// Only if the kernel is out of memory.
    pub fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        sys::ppoll(&mut self.polled, timeout)
    }
}

/// A negative descriptor, which `poll` ignores.
const UNWATCHED: i32 = -1;

impl Halt {
    /// Creates a place to sleep that watches nothing yet.
    ///
    /// # Errors
    /// If the process may open no more descriptors.
    pub fn new() -> io::Result<Self> {
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let polled = vec![interest(&event)];
        let notifier = Arc::new(Notifier(Sleeper::new(event)));
        Ok(Self { notifier, watched: Vec::new(), devices: Vec::new(), polled, generation: 0 })
    }

    /// Ends the sleep when `fd` becomes readable. Returns its index, as [`Halt::readable`] reports it.
    pub fn watch(&mut self, fd: Arc<OwnedFd>) -> usize {
        self.watch_of(fd, None)
    }

    fn watch_of(&mut self, fd: Arc<OwnedFd>, of: Option<(usize, usize)>) -> usize {
        let polled = interest(&fd);
        self.generation += 1;
        let watched = Watched { fd: Some(fd), errors: 0, of };
        let free = self.watched.iter().position(|watched| watched.fd.is_none());
        let index = free.unwrap_or(self.watched.len());
        match (self.watched.get_mut(index), self.polled.get_mut(index + 1)) {
            (Some(place), Some(place_polled)) => (*place, *place_polled) = (watched, polled),
            _ => {
                self.watched.push(watched);
                self.polled.push(polled);
            }
        }
        index
    }

    /// Watches `fd` in place of the descriptor with this index.
    pub fn replace(&mut self, index: usize, fd: Arc<OwnedFd>) {
        if let (Some(watched), Some(polled)) = (self.watched.get_mut(index), self.polled.get_mut(index + 1)) {
            *polled = interest(&fd);
            *watched = Watched { fd: Some(fd), errors: 0, of: None };
            self.generation += 1;
        }
    }

    /// Ends the sleep when any descriptor of a device becomes readable, and from then on follows the changes
    /// of its descriptors. Returns the number by which [`Halt::readable_of`] knows the device.
    pub fn watch_device(&mut self, descriptors: Descriptors) -> usize {
        let device = self.devices.len();
        self.devices.push(WatchedDevice { descriptors, generation: 0 });
        self.watch_descriptors_of(device);
        device
    }

    /// Watches the descriptors of another device in place of this one's.
    pub fn replace_device(&mut self, device: usize, descriptors: Descriptors) {
        if let Some(place) = self.devices.get_mut(device) {
            place.descriptors = descriptors;
            self.watch_descriptors_of(device);
        }
    }

    /// Returns the numbers of this device's descriptors that ended the last sleep.
    pub fn readable_of(&self, device: usize) -> impl Iterator<Item = usize> {
        let of = self.readable().filter_map(|index| self.watched.get(index)?.of);
        of.filter(move |&(other, _)| other == device).map(|(_, number)| number)
    }

    /// Watches the descriptors that devices have opened since the last sleep, and no longer those that they
    /// have closed.
    fn follow_devices(&mut self) {
        for device in 0..self.devices.len() {
            let is_new = |it: &WatchedDevice| it.descriptors.generation() != it.generation;
            if self.devices.get(device).is_some_and(is_new) {
                self.watch_descriptors_of(device);
            }
        }
    }

    /// Watches the present descriptors of a device.
    fn watch_descriptors_of(&mut self, device: usize) {
        let Some(place) = self.devices.get_mut(device) else { return };
        // In this order: a change in between is seen the next time.
        place.generation = place.descriptors.generation();
        let mut list = place.descriptors.list();
        for (watched, polled) in self.watched.iter_mut().zip(self.polled.iter_mut().skip(1)) {
            let Some((_, number)) = watched.of.filter(|of| of.0 == device) else { continue };
            let known = |(other, fd): &(usize, Arc<OwnedFd>)| {
                *other == number && watched.fd.as_ref().is_some_and(|watched| Arc::ptr_eq(watched, fd))
            };
            match list.iter().position(known) {
                Some(at) => _ = list.swap_remove(at),
                None => {
                    *watched = Watched { fd: None, errors: 0, of: None };
                    *polled = libc::pollfd { fd: UNWATCHED, events: 0, revents: 0 };
                    self.generation += 1;
                }
            }
        }
        for (number, fd) in list {
            self.watch_of(fd, Some((device, number)));
        }
    }

    /// Returns the descriptors for callers that wait by other means than [`Halt::until`], between
    /// [`Halt::asleep`] and [`Halt::awake`]. Descriptors that are [no longer waited for](Halt::is_watched)
    /// are left out.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.shared_descriptors().map(AsFd::as_fd)
    }

    /// Returns the same descriptors as [`Halt::descriptors`], for a thread that waits without holding this.
    pub fn shared_descriptors(&self) -> impl Iterator<Item = &Arc<OwnedFd>> {
        let watched = self.watched.iter().enumerate().filter(|&(index, _)| self.is_watched(index));
        core::iter::once(&self.notifier.0.counter)
            .chain(watched.filter_map(|(_, watched)| watched.fd.as_ref()))
    }

    /// Prepares the sleep of a thread that has declared itself [asleep](Halt::asleep), and then releases the
    /// lock around this.
    pub fn begin_nap(&self, nap: &mut Nap) {
        if nap.generation == Some(self.generation) {
            return;
        }
        nap.generation = Some(self.generation);
        nap.polled.clone_from(&self.polled);
        nap.polled.extend(nap.further.as_deref().map(interest));
        let watched = self.watched.iter().filter_map(|watched| watched.fd.as_ref());
        nap.descriptors.clear();
        nap.descriptors.extend(watched.chain([&self.notifier.0.counter]).map(Arc::clone));
    }

    /// Records that a thread is awake that slept without holding this, and what it has found. Descriptors
    /// that have come meanwhile are found by the next sleep.
    pub fn end_nap(&mut self, nap: &Nap) {
        self.awake();
        if nap.generation != Some(self.generation) {
            self.polled.iter_mut().for_each(|polled| polled.revents = 0);
            return;
        }
        for (polled, found) in self.polled.iter_mut().zip(&nap.polled) {
            polled.revents = found.revents;
        }
        self.count_errors();
    }

    /// Returns a number that grows with every change to the set of descriptors.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Declares the thread asleep, wherever it waits: from now on a wake-up makes a descriptor readable.
    /// Returns false if there was a wake-up already, so that the thread must not wait.
    #[must_use]
    pub fn asleep(&mut self) -> bool {
        self.follow_devices();
        self.notifier.0.fall_asleep()
    }

    /// Records that the thread is awake again.
    pub fn awake(&self) {
        self.notifier.0.rise();
    }

    /// Returns the handle that ends this thread's sleep, from any thread.
    #[must_use]
    pub fn notifier(&self) -> Arc<Notifier> {
        Arc::clone(&self.notifier)
    }

    /// Returns a waker that ends this thread's sleep, for a task that runs on it.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker::from(self.notifier())
    }

    /// Sleeps until a descriptor is readable, a wake-up comes, or `clock` shows `deadline`
    /// ([`Instant::NEVER`]: no deadline).
    ///
    /// With a deadline in the past, or after a wake-up, it only checks the descriptors.
    ///
    /// # Errors
    /// Only if the kernel is out of memory.
    pub fn until(&mut self, clock: &Clock, deadline: Instant) -> io::Result<Woken> {
        self.follow_devices();
        let timeout =
            if self.notifier.0.fall_asleep() { remaining(clock, deadline) } else { Some(Duration::ZERO) };
        let polled = sys::ppoll(&mut self.polled, timeout);
        let notified = self.notifier.0.rise();
        polled?;
        self.count_errors();
        Ok(match (self.readable().next(), notified) {
            (Some(_), _) => Woken::Readable,
            (None, true) => Woken::Notified,
            (None, false) => Woken::Deadline,
        })
    }

    /// Sleeps regardless of the descriptors, until a wake-up comes or `clock` shows `deadline`.
    ///
    /// # Errors
    /// Only if the kernel is out of memory.
    pub fn rest(&mut self, clock: &Clock, deadline: Instant) -> io::Result<()> {
        let timeout =
            if self.notifier.0.fall_asleep() { remaining(clock, deadline) } else { Some(Duration::ZERO) };
        let (notifier, watched) = self.polled.split_at_mut(1);
        watched.iter_mut().for_each(|polled| polled.revents = 0);
        let polled = sys::ppoll(notifier, timeout);
        self.notifier.0.rise();
        polled
    }

    /// Returns the descriptors that ended the last sleep, by index. A descriptor in error counts as
    /// readable, as a read reports the error.
    pub fn readable(&self) -> impl Iterator<Item = usize> {
        let devices = self.polled.iter().skip(1);
        devices.enumerate().filter(|(_, polled)| polled.revents != 0).map(|(index, _)| index)
    }

    /// Returns whether the descriptor with this index ended the last sleep.
    #[must_use]
    pub fn is_readable(&self, index: usize) -> bool {
        self.polled.get(index + 1).is_some_and(|polled| polled.revents != 0)
    }

    fn count_errors(&mut self) {
        for (polled, watched) in self.polled.iter_mut().skip(1).zip(&mut self.watched) {
            let failed = polled.revents != 0 && polled.revents & libc::POLLIN == 0;
            watched.errors = if failed { watched.errors + 1 } else { 0 };
            if watched.errors >= ERRORS_MAX {
                polled.fd = UNWATCHED;
                self.generation += 1;
            }
        }
    }

    /// Returns whether sleeps still wait for the descriptor with this index. They no longer do after the
    /// descriptor has reported only errors in 16 sleeps in a row.
    #[must_use]
    pub fn is_watched(&self, index: usize) -> bool {
        let (fd, polled) = (self.watched.get(index), self.polled.get(index + 1));
        fd.zip(polled).is_some_and(|(watched, polled)| {
            watched.fd.as_ref().is_some_and(|fd| fd.as_raw_fd() == polled.fd)
        })
    }
}

/// A handle that ends the sleep of the thread whose [`Halt`] it came from. A wake-up costs one atomic swap,
/// and a system call only if the thread sleeps.
#[derive(Debug)]
pub struct Notifier(Sleeper<Arc<OwnedFd>>);

impl Notifier {
    /// Ends the sleep, or prevents the next one.
    pub fn notify(&self) {
        self.0.wake();
    }
}

impl Wake for Notifier {
    fn wake(self: Arc<Self>) {
        self.notify();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notify();
    }
}

fn interest(fd: &OwnedFd) -> libc::pollfd {
    libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

fn remaining(clock: &Clock, deadline: Instant) -> Option<Duration> {
    (deadline != Instant::NEVER).then(|| deadline.since(clock.now()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use rustix::pipe::pipe;

    use super::*;

    fn halt() -> (Halt, Clock) {
        (Halt::new().unwrap(), Clock::start())
    }

    #[test]
    fn sleeps_until_the_deadline() {
        let (mut halt, clock) = halt();
        let deadline = clock.now() + Duration::from_millis(5);
        while clock.now() < deadline {
            assert_eq!(halt.until(&clock, deadline).unwrap(), Woken::Deadline);
        }
        assert_eq!(halt.until(&clock, Instant::ZERO).unwrap(), Woken::Deadline, "in the past: only looks");
    }

    #[test]
    fn a_wake_up_before_the_sleep_prevents_it_once() {
        let (mut halt, clock) = halt();
        halt.waker().wake();
        halt.notifier().notify();
        assert_eq!(halt.until(&clock, Instant::NEVER).unwrap(), Woken::Notified);
        assert_eq!(halt.until(&clock, Instant::ZERO).unwrap(), Woken::Deadline);
    }

    #[test]
    fn descriptors_of_a_device_that_come_and_go_are_followed() {
        let (mut halt, clock) = halt();
        let [(first, to_first), (second, to_second), (third, to_third)] =
            core::array::from_fn(|_| pipe().map(|(near, far)| (Arc::new(near), far)).unwrap());
        let descriptors = Descriptors::new([Arc::clone(&first)]);
        let device = halt.watch_device(descriptors.clone());
        let stays = halt.watch(Arc::new(pipe().unwrap().0));
        assert_ne!(halt.watch_device(Descriptors::default()), device);
        let look = |halt: &mut Halt| {
            halt.until(&clock, Instant::ZERO).unwrap();
            halt.readable_of(device).collect::<Vec<_>>()
        };
        let write = |to| assert_eq!(rustix::io::write(to, &[1]), Ok(1));
        write(&to_second);
        assert_eq!(look(&mut halt), [0; 0]);
        descriptors.insert(7, Arc::clone(&second));
        assert_eq!(look(&mut halt), [7]);
        write(&to_first);
        assert_eq!(look(&mut halt), [0, 7]);
        // Another one in its place, and one that goes away: the place is used again.
        descriptors.insert(7, Arc::clone(&third));
        descriptors.remove(0);
        assert_eq!((look(&mut halt), Arc::strong_count(&first), Arc::strong_count(&second)), (vec![], 1, 1));
        write(&to_third);
        assert_eq!(look(&mut halt), [7]);
        descriptors.insert(0, first);
        assert_eq!((look(&mut halt).len(), halt.watched.len(), halt.polled.len()), (2, 3, 4));
        let others = Descriptors::new([second]);
        halt.replace_device(device, others.clone());
        assert_eq!(look(&mut halt), [0]);
        others.insert(1, third);
        assert!(halt.is_watched(stays) && halt.asleep());
        assert_eq!(halt.descriptors().count(), 4, "its own, two of the device, and the one that stays");
        halt.awake();
    }

    #[test]
    fn readiness_is_level_triggered() {
        let (mut halt, clock) = halt();
        let ((near, far), (quiet, _kept)) = (pipe().unwrap(), pipe().unwrap());
        assert_eq!(halt.watch(Arc::new(quiet)), 0);
        assert_eq!(halt.watch(Arc::new(near)), 1);
        rustix::io::write(&far, &[1]).unwrap();
        for _ in 0..3 {
            assert_eq!(halt.until(&clock, Instant::NEVER).unwrap(), Woken::Readable);
            assert_eq!(halt.readable().collect::<Vec<_>>(), [1]);
        }
    }

    #[test]
    fn a_rest_is_for_as_long_as_it_is_or_until_a_wake_up() {
        let (mut halt, clock) = halt();
        let (near, far) = pipe().unwrap();
        halt.watch(Arc::new(near));
        rustix::io::write(&far, &[1]).unwrap();
        let deadline = clock.now() + Duration::from_millis(2);
        halt.rest(&clock, deadline).unwrap();
        assert!(clock.now() >= deadline && halt.readable().next().is_none());
        halt.notifier().notify();
        halt.rest(&clock, Instant::NEVER).unwrap();
        assert_eq!(halt.until(&clock, Instant::NEVER).unwrap(), Woken::Readable);
    }

    #[test]
    fn a_descriptor_that_only_fails_is_given_up() {
        let (mut halt, clock) = halt();
        let (near, far) = pipe().unwrap();
        halt.watch(Arc::new(near));
        drop(far);
        for _ in 0..ERRORS_MAX {
            assert!(halt.is_watched(0) && halt.descriptors().count() == 2 && halt.generation() == 1);
            assert_eq!(halt.until(&clock, Instant::ZERO).unwrap(), Woken::Readable);
        }
        assert_eq!(halt.until(&clock, Instant::ZERO).unwrap(), Woken::Deadline);
        assert!(!halt.is_watched(0) && halt.descriptors().count() == 1 && halt.generation() == 2);
    }

    /// Between the two halves of a wake-up the sleeper wakes by itself, and reads before the waker has
    /// written.
    #[test]
    fn what_a_notifier_writes_late_ends_one_sleep_and_no_more() {
        let (mut halt, clock) = halt();
        let notifier = halt.notifier();
        for _ in 0..3 {
            assert!(halt.asleep());
            assert!(notifier.0.begin_to_wake());
            halt.awake();
            rustix::io::write(&notifier.0.counter, &1_u64.to_ne_bytes()).unwrap();
            let (deadline, mut sleeps) = (clock.now() + Duration::from_millis(5), 0);
            while clock.now() < deadline {
                halt.until(&clock, deadline).unwrap();
                sleeps += 1;
            }
            assert!(sleeps < 10, "{sleeps}");
        }
        // A wake-up while no thread sleeps writes nothing, and the next sleep does not wait.
        notifier.notify();
        assert_eq!(halt.until(&clock, Instant::NEVER).unwrap(), Woken::Notified);
        assert_eq!(notifier.0.owed(), 0);
    }

    /// Each wake-up is a handover. If one were lost, the sleeper would sleep until the far deadline and the
    /// count would be short.
    #[test]
    fn no_wake_up_is_lost_between_looking_and_sleeping() {
        const TURNS: u32 = 20_000;
        let (mut halt, clock) = halt();
        let (turn, notifier) = (Arc::new(AtomicU32::new(0)), halt.notifier());
        let theirs = Arc::clone(&turn);
        let other = thread::spawn(move || {
            for next in (1..TURNS).step_by(2) {
                while theirs.load(Ordering::Acquire) != next {
                    thread::yield_now();
                }
                theirs.store(next + 1, Ordering::Release);
                notifier.notify();
            }
        });
        let end = clock.now() + Duration::from_secs(60);
        for next in (0..TURNS).step_by(2) {
            while turn.load(Ordering::Acquire) != next {
                halt.until(&clock, end).unwrap();
                assert!(clock.now() < end, "lost at turn {next}");
            }
            turn.store(next + 1, Ordering::Release);
        }
        other.join().unwrap();
    }
}
