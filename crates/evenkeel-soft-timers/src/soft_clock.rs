//! Soft timers for all threads of a program.
//!
//! `tests/interleavings.rs` runs this file with loom's locks and a simulated kernel, in all orders of
//! threads.

use core::fmt;
use core::ops::ControlFlow;
use core::task::Waker;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, TryLockError, Weak};

use evenkeel_timers::soft::ticks_before;
use evenkeel_timers::{Duration, Every, Idle, Instant, SoftEvent, SoftTimers};

use crate::clock::Clock;
use crate::interrupt::Interrupt;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, thread};

/// Ticks in a second: they are nanoseconds.
const RESOLUTION: u64 = 1_000_000_000;

/// The action of an event when it happens.
///
/// [`Call`] is a handler for closures. A program with a few kinds of events can use an `enum`, which is
/// smaller and needs no pointer to call:
///
/// ```
/// use evenkeel_soft_timers::{Handler, Options, SoftClock};
///
/// enum Event {
///     SendPacket { left: u32 },
///     PollDevice,
/// }
///
/// impl Handler for Event {
///     fn call(self, clock: &SoftClock<Self>) {
///         match self {
///             Self::SendPacket { left: 0 } => {}
///             Self::SendPacket { left } => {
///                 clock.schedule_soft_event(20_000, Self::SendPacket { left: left - 1 });
///             }
///             Self::PollDevice => { /* ... */ }
///         }
///     }
/// }
///
/// let clock = SoftClock::start(Options::default())?;
/// clock.schedule_soft_event(0, Event::SendPacket { left: 3 });
/// clock.schedule_with_deadline(10_000, 50_000, Event::PollDevice);
/// while clock.next_due().is_some() {
///     clock.trigger();
/// }
/// let counts = clock.counts();
/// assert_eq!(counts.triggered + counts.overdue, 5);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Handler: Sized + Send + 'static {
    /// Handles the event, which has happened. No other handler of this clock runs meanwhile, on any thread,
    /// so a long handler delays all others. It may schedule and cancel events. Its own calls of
    /// [`SoftClock::trigger`] do nothing.
    fn call(self, clock: &SoftClock<Self>);
}

/// A handler that calls a closure, or wakes a task. A clone shares the closure, so cloning allocates nothing.
#[derive(Clone)]
pub struct Call(What);

type Closure = dyn Fn(&SoftClock, Call) + Send + Sync;

#[derive(Clone)]
enum What {
    Call(Arc<Closure>),
    Wake(Waker),
}

impl Call {
    /// Creates a call of `handler`, which runs each time that an event with a clone of this call happens.
    pub fn new(handler: impl Fn(&SoftClock) + Send + Sync + 'static) -> Self {
        Self::again(move |clock, _| handler(clock))
    }

    /// Creates a call from a closure that receives the call itself, so that it can schedule itself again.
    pub fn again(handler: impl Fn(&SoftClock, Self) + Send + Sync + 'static) -> Self {
        Self(What::Call(Arc::new(handler)))
    }
}

impl From<Waker> for Call {
    fn from(waker: Waker) -> Self {
        Self(What::Wake(waker))
    }
}

impl Handler for Call {
    fn call(self, clock: &SoftClock) {
        match &self.0 {
            What::Call(handler) => {
                let handler = Arc::clone(handler);
                handler(clock, self);
            }
            What::Wake(waker) => waker.wake_by_ref(),
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self.0, What::Wake(_)) { "Call(a waker)" } else { "Call(a closure)" })
    }
}

impl SoftClock {
    /// Calls `handler` every `ticks` ticks, for the first time after one interval, until it returns
    /// [`ControlFlow::Break`].
    ///
    /// The interval does not drift: a late call does not delay later ones. After a call that was late by more
    /// than half an interval, the next one follows after half an interval, until the lateness is made up for
    /// ([`Every`]).
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// use evenkeel_soft_timers::{Options, SoftClock};
    ///
    /// let clock = SoftClock::start(Options::default())?;
    /// let sent = Arc::new(AtomicU32::new(0));
    /// let count = Arc::clone(&sent);
    /// clock.every(20_000, move |_| {
    ///     // ... send a packet ...
    ///     let is_last = count.fetch_add(1, Ordering::Relaxed) == 9;
    ///     if is_last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    /// });
    /// while sent.load(Ordering::Relaxed) < 10 {
    ///     clock.trigger();
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn every(&self, ticks: u64, handler: impl Fn(&Self) -> ControlFlow<()> + Send + Sync + 'static) {
        let start = Instant::from_nanos(self.measure_time());
        let every = Every::new(Duration::from_nanos(ticks), start);
        let due = every.due();
        let every = Mutex::new(every);
        let call = Call::again(move |clock: &Self, again| {
            if handler(clock).is_break() {
                return;
            }
            let now = Instant::from_nanos(clock.measure_time());
            let next = every.lock().unwrap_or_else(PoisonError::into_inner).next(now);
            clock.schedule_at(next.as_nanos(), u64::MAX, again);
        });
        self.schedule_at(due.as_nanos(), u64::MAX, call);
    }
}

/// The mechanism that handles events for which no trigger state has occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// A one-shot timer of the kernel for the earliest deadline. A process without pending events is not
    /// woken, except once for a deadline that was set before.
    ///
    /// The timer is never set later than that deadline. If the event happens before, the timer is not moved:
    /// it fires needlessly and is set anew. Moving it with every event would cost a system call each.
    Deadline,
    /// A periodic timer of the kernel, as in the paper. It wakes the process at its frequency, also without
    /// pending events, and ignores the deadlines of events.
    Periodic,
}

/// The part of the process that waits for the kernel's timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// A small thread, which then calls the handlers of overdue events. So the bound on lateness holds even
    /// while the program computes without trigger states.
    Thread,
    /// The program. It polls the clock's descriptor with its others (the clock is [`AsFd`]), and calls
    /// [`SoftClock::interrupt`] when it is readable. So handlers run only on threads of the program. The
    /// bound on lateness holds as far as the program returns to its `poll`.
    ///
    /// ```
    /// use evenkeel_soft_timers::{Call, Options, SoftClock, Waits};
    /// use rustix::event::{PollFd, PollFlags, poll};
    ///
    /// let clock = SoftClock::start(Options { waits: Waits::Program, ..Options::default() })?;
    /// clock.schedule_with_deadline(100_000, 200_000, Call::new(|_| println!("100 to 200 µs later")));
    /// while clock.pending() > 0 {
    ///     // The sockets of the program would be in the list, too.
    ///     poll(&mut [PollFd::new(&clock, PollFlags::IN)], None)?;
    ///     clock.interrupt();
    ///     clock.trigger();
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    Program,
}

/// The configuration of a [`SoftClock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The mechanism that handles events for which no trigger state has occurred. Default:
    /// [`Backing::Deadline`].
    pub backing: Backing,
    /// The part of the process that waits for the backing's timer. Default: [`Waits::Thread`].
    pub waits: Waits,
    /// The frequency of the backing in Hz, from 1 to 1 000 000. Its reciprocal is the largest lateness of an
    /// event without a deadline of its own. Default: 1 000.
    pub interrupt_clock_resolution: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { backing: Backing::Deadline, waits: Waits::Thread, interrupt_clock_resolution: 1_000 }
    }
}

/// The counters of a [`SoftClock`] since it was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// The number of events that trigger states handled.
    pub triggered: u64,
    /// The number of events that the backing handled.
    pub overdue: u64,
    /// The number of times that the kernel's timer went off.
    pub interrupts: u64,
    /// The number of times that the kernel's timer was set. Each is a system call.
    pub aimed: u64,
}

/// Soft timers on the machine's clock. The [crate] has an introduction and an example.
///
/// Clones are handles to one clock, usable from all threads. The thread that reaches a trigger state calls
/// the due handlers, one after the other. When the last clone is dropped, pending events are forgotten. A
/// handler receives the clock as an argument. It should not hold a clone, which would keep the clock alive
/// while the event is pending.
///
/// Scheduling and cancelling take a lock for a short time. They allocate nothing once as many events were
/// pending before. A trigger state without due events takes no lock: it is a clock read and a comparison.
///
/// After `fork`, a child must not use the clock but start its own, because the backing's thread stays with
/// the parent. The backing's thread inherits the signal mask of the thread that starts the clock. A program
/// that waits for signals blocks them before.
pub struct SoftClock<H: Handler = Call> {
    shared: Arc<Shared<H>>,
}

struct Shared<H> {
    clock: Clock,
    /// The time with which trigger states compare: [`SoftTimers::next_due`].
    next_due: AtomicU64,
    events: Mutex<Events<H>>,
    /// Whoever calls handlers has it.
    calling: Mutex<()>,
    interrupt: Arc<Interrupt>,
    backing: Backing,
    waits: Waits,
    triggered: AtomicU64,
    overdue: AtomicU64,
    interrupts: AtomicU64,
    aimed: AtomicU64,
}

struct Events<H> {
    soft: SoftTimers<H>,
    /// The time at which the one-shot timer goes off, in ticks.
    aim: u64,
    /// The idle loop that sleeps: the time until which it sleeps, and its waker.
    #[cfg(feature = "tokio")]
    asleep: Option<(u64, Waker)>,
}

/// Takes the next event that is to happen at a time.
type Take<H> = fn(&mut SoftTimers<H>, u64) -> Option<H>;

impl<H: Handler> SoftClock<H> {
    /// Starts a clock with its backing. The first one in a process measures the clock's rate, which takes
    /// 20 ms.
    ///
    /// # Errors
    /// If the kernel gives no descriptor or no thread.
    pub fn start(options: Options) -> io::Result<Self> {
        let hz = options.interrupt_clock_resolution.clamp(1, 1_000_000);
        let interrupt = Arc::new(Interrupt::new(options.waits == Waits::Thread)?);
        let soft = SoftTimers::new(RESOLUTION, hz);
        let interrupt_interval = soft.interrupt_interval();
        let events = Events {
            soft,
            aim: u64::MAX,
            #[cfg(feature = "tokio")]
            asleep: None,
        };
        let shared = Arc::new(Shared {
            clock: Clock::start(),
            next_due: AtomicU64::new(u64::MAX),
            events: Mutex::new(events),
            calling: Mutex::new(()),
            interrupt,
            backing: options.backing,
            waits: options.waits,
            triggered: AtomicU64::new(0),
            overdue: AtomicU64::new(0),
            interrupts: AtomicU64::new(0),
            aimed: AtomicU64::new(0),
        });
        if options.backing == Backing::Periodic {
            shared.interrupt.every(interrupt_interval);
        }
        if options.waits == Waits::Thread {
            let (timer, shared) = (Arc::clone(&shared.interrupt), Arc::downgrade(&shared));
            let wait = move || wait_for_interrupts(&timer, &shared);
            thread::Builder::new().name("soft-timers".to_owned()).spawn(wait)?;
        }
        Ok(Self { shared })
    }

    /// Returns the clock's resolution in Hz: ticks are nanoseconds.
    #[must_use]
    pub const fn measure_resolution(&self) -> u64 {
        RESOLUTION
    }

    /// Returns the time of the clock in ticks since it was started.
    #[inline]
    #[must_use]
    pub fn measure_time(&self) -> u64 {
        self.shared.clock.now().as_nanos()
    }

    /// Returns the least resolution at which events can be expected, in Hz.
    #[must_use]
    pub fn interrupt_clock_resolution(&self) -> u64 {
        self.events().soft.interrupt_clock_resolution()
    }

    /// Schedules an event: `handler` is called when more than `ticks` have passed.
    pub fn schedule_soft_event(&self, ticks: u64, handler: H) -> SoftEvent {
        self.schedule(|soft, now| soft.schedule_soft_event(now, ticks, handler))
    }

    /// Schedules an event with a latest time, in ticks from now. With [`Backing::Deadline`], the backing
    /// handles the event at that time if no trigger state has occurred.
    pub fn schedule_with_deadline(&self, ticks: u64, latest: u64, handler: H) -> SoftEvent {
        self.schedule(|soft, now| soft.schedule_with_deadline(now, ticks, latest, handler))
    }

    /// Schedules an event that is due when the clock reads `until`, with a latest time `late` ticks after
    /// that.
    pub(crate) fn schedule_at(&self, until: u64, late: u64, handler: H) -> SoftEvent {
        self.schedule(|soft, now| {
            let ticks = ticks_before(now, until);
            soft.schedule_with_deadline(now, ticks, ticks.saturating_add(late), handler)
        })
    }

    fn schedule(&self, schedule: impl FnOnce(&mut SoftTimers<H>, u64) -> SoftEvent) -> SoftEvent {
        let mut events = self.events();
        // Read while nobody else schedules, so that it does not go back.
        let now = self.measure_time();
        let event = schedule(&mut events.soft, now);
        self.look_ahead(&mut events, now);
        #[cfg(feature = "tokio")]
        if let Some(waker) = events.wakes(now) {
            drop(events);
            waker.wake();
        }
        event
    }

    /// Cancels an event and returns its handler, which is then not called. Returns [`None`] if the event has
    /// happened, or is happening on another thread.
    pub fn cancel(&self, event: SoftEvent) -> Option<H> {
        let mut events = self.events();
        let handler = events.soft.cancel(event);
        self.publish(&events);
        handler
    }

    /// Returns whether an event has neither happened nor been cancelled.
    #[must_use]
    pub fn is_pending(&self, event: SoftEvent) -> bool {
        self.events().soft.is_pending(event)
    }

    /// Calls the handlers of due events, and returns their number. The program calls this in each trigger
    /// state. If no event is due, the call reads the clock and compares. If another thread is calling
    /// handlers, it does nothing: events that became due since then wait for the next trigger state.
    #[inline]
    pub fn trigger(&self) -> usize {
        let now = self.measure_time();
        if now < self.shared.next_due.load(Ordering::Relaxed) { 0 } else { self.call_due(now) }
    }

    #[cold]
    fn call_due(&self, now: u64) -> usize {
        let _calling = match self.shared.calling.try_lock() {
            Ok(calling) => calling,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return 0,
        };
        let called = self.call_all(now, SoftTimers::poll_event);
        self.shared.triggered.fetch_add(called as u64, Ordering::Relaxed);
        called
    }

    /// Calls the handlers of overdue events if the kernel's timer has fired, and returns their number. With
    /// [`Waits::Thread`] the call does nothing. A handler must not call it, because it would wait for itself.
    pub fn interrupt(&self) -> usize {
        let gone_off = self.shared.waits == Waits::Program && self.shared.interrupt.take();
        if gone_off { self.call_overdue() } else { 0 }
    }

    fn call_overdue(&self) -> usize {
        self.shared.interrupts.fetch_add(1, Ordering::Relaxed);
        let _calling = self.shared.calling.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.measure_time();
        let called = match self.shared.backing {
            Backing::Periodic => self.call_all(now, SoftTimers::poll_event),
            Backing::Deadline => {
                self.events().aim = u64::MAX;
                let _aims = Aims(self);
                self.call_all(now, SoftTimers::poll_overdue)
            }
        };
        self.shared.overdue.fetch_add(called as u64, Ordering::Relaxed);
        called
    }

    /// One `now` for all: what handlers schedule is due later, so this ends.
    fn call_all(&self, now: u64, take: Take<H>) -> usize {
        let mut called = 0;
        while let Some(handler) = self.take(now, take) {
            handler.call(self);
            called += 1;
        }
        called
    }

    fn take(&self, now: u64, take: Take<H>) -> Option<H> {
        let mut events = self.events();
        let handler = take(&mut events.soft, now);
        self.publish(&events);
        handler
    }

    /// Returns what an idle thread is to do: call [`trigger`](Self::trigger) again and again, or halt.
    /// `another_checks` is whether another thread checks for events. A thread that halts is to be woken at
    /// the time in the result, in ticks; the backing handles events that are due before then.
    pub fn idle(&self, another_checks: bool) -> Idle {
        let now = self.measure_time();
        self.events().soft.idle(now, None, another_checks)
    }

    /// Returns what the executor's idle loop is to do. If the loop halts, `waker` is woken as soon as an
    /// event that another thread schedules requires the loop to check earlier.
    #[cfg(feature = "tokio")]
    pub(crate) fn idle_or_asleep(&self, waker: &Waker) -> Idle {
        let mut events = self.events();
        let idle = events.soft.idle(self.measure_time(), None, false);
        // Under one lock: whoever schedules does it before this looks, or finds the waker.
        events.asleep = match idle {
            Idle::Spin => None,
            Idle::Halt { until } => Some((until.unwrap_or(u64::MAX), waker.clone())),
        };
        idle
    }

    /// Removes a waker: its owner is not to be woken any more.
    #[cfg(feature = "tokio")]
    pub(crate) fn rise(&self, waker: &Waker) {
        let _ = self.events().asleep.take_if(|(_, asleep)| asleep.will_wake(waker));
    }

    /// Returns the time at which the next event is due, in ticks.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        Some(self.shared.next_due.load(Ordering::Relaxed)).filter(|due| *due != u64::MAX)
    }

    /// Returns the number of pending events. An event whose handler is running, and may schedule itself
    /// again, is not pending.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.events().soft.len()
    }

    /// Returns the counters of the clock.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            triggered: load(&self.shared.triggered),
            overdue: load(&self.shared.overdue),
            interrupts: load(&self.shared.interrupts),
            aimed: load(&self.shared.aimed),
        }
    }

    /// Forgets all pending events. When the call returns, no handler is running, and no handler that was
    /// scheduled before is called later. Sleeping tasks are not woken any more. A handler must not call it,
    /// because it would wait for itself.
    pub fn clear(&self) {
        let _calling = self.shared.calling.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = self.events();
        let forgotten = events.soft.clear();
        self.publish(&events);
        // What a handler owns may use the clock when it is dropped.
        drop(events);
        drop(forgotten);
    }

    fn events(&self) -> MutexGuard<'_, Events<H>> {
        self.shared.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Trigger states compare with when something is due now.
    fn publish(&self, events: &Events<H>) {
        let next_due = events.soft.next_due().unwrap_or(u64::MAX);
        self.shared.next_due.store(next_due, Ordering::Relaxed);
    }

    /// Publishes the next due time, and sets the one-shot timer earlier if the earliest deadline requires
    /// it.
    fn look_ahead(&self, events: &mut Events<H>, now: u64) {
        self.publish(events);
        if self.shared.backing == Backing::Periodic {
            return;
        }
        if let Some(deadline) = events.soft.next_deadline().filter(|deadline| *deadline < events.aim) {
            self.shared.interrupt.once(early(deadline.saturating_sub(now)));
            self.shared.aimed.fetch_add(1, Ordering::Relaxed);
            events.aim = deadline;
        }
    }
}

/// Converts a delay in ticks to the delay that the one-shot timer is set to. The kernel counts by another
/// clock, whose rate is known to a few millionths: a timer for more than a second is set too early, and
/// then set anew.
const fn early(after: u64) -> u64 {
    if after > RESOLUTION { after - after / 1_024 } else { after }
}

#[cfg(feature = "tokio")]
impl<H> Events<H> {
    /// Returns the waker of the sleeping idle loop if the loop is to wake earlier than it plans to.
    fn wakes(&mut self, now: u64) -> Option<Waker> {
        let Self { soft, asleep, .. } = self;
        let sleeps_too_long = |(until, _): &mut (u64, Waker)| match soft.idle(now, None, false) {
            Idle::Spin => true,
            Idle::Halt { until: earlier } => earlier.is_some_and(|earlier| earlier < *until),
        };
        Some(asleep.take_if(sleeps_too_long)?.1)
    }
}

/// Aims the one-shot when handlers have been called, who may have taken their time; also if one panics.
struct Aims<'a, H: Handler>(&'a SoftClock<H>);

impl<H: Handler> Drop for Aims<'_, H> {
    fn drop(&mut self) {
        self.0.look_ahead(&mut self.0.events(), self.0.measure_time());
    }
}

/// Handles overdue events at each interrupt until the last handle of the clock is dropped. The small thread
/// runs this.
fn wait_for_interrupts<H: Handler>(timer: &Interrupt, shared: &Weak<Shared<H>>) {
    while timer.take() {
        let Some(shared) = shared.upgrade() else { return };
        let clock = SoftClock { shared };
        // A handler that panics has said so; the others are taken care of next time.
        let _ = catch_unwind(AssertUnwindSafe(|| clock.call_overdue()));
    }
}

impl<H> Drop for Shared<H> {
    fn drop(&mut self) {
        // The thread finds that there is nobody.
        self.interrupt.once(0);
    }
}

impl<H: Handler> Clone for SoftClock<H> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<H: Handler> AsFd for SoftClock<H> {
    /// Returns the kernel's timer: readable when it has gone off. See [`Waits::Program`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.interrupt.as_fd()
    }
}

impl<H: Handler> fmt::Debug for SoftClock<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SoftClock").field("pending", &self.pending()).field("counts", &self.counts()).finish()
    }
}
