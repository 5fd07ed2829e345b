//! Soft timers for programs in C. What the functions do is said in `include/evenkeel_soft_timers.h`, and more
//! of it in the crate [`evenkeel_soft_timers`].
//!
//! ```text
//! cargo build --release -p evenkeel-soft-timers-c
//! cc -O2 -I crates/evenkeel-soft-timers-c/include crates/evenkeel-soft-timers-c/examples/paced.c \
//!    target/release/libevenkeel_soft_timers_c.a -lpthread -ldl -lm
//! ```
//!
//! A program that knows nothing of it can have trigger states, too: `examples/trigger_preload.c` makes the
//! ends of the calls that a server like nginx makes most trigger states. `examples/beside_nginx.sh` measures
//! what events cost nginx so.

use core::ffi::{c_int, c_uint, c_void};
use std::os::fd::{AsFd, AsRawFd};

use evenkeel_soft_timers::{Backing, Handler, Options, SoftClock, SoftEvent, Waits};

/// The facility, of which C knows where it is.
pub type Clock = SoftClock<CHandler>;

/// A function of C and its argument.
#[derive(Debug)]
pub struct CHandler {
    function: Function,
    argument: *mut c_void,
}

/// The function that an event calls when it happens.
pub type Function = unsafe extern "C" fn(argument: *mut c_void);

// SAFETY: the header says that handlers may be called on the backing's thread, with their arguments; whoever
// schedules one agrees.
unsafe impl Send for CHandler {}

impl Handler for CHandler {
    fn call(self, _: &Clock) {
        // SAFETY: whoever scheduled it promised that it may be called with this argument.
        unsafe { (self.function)(self.argument) }
    }
}

/// An event that was scheduled.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    place: u32,
    number: u64,
}

impl From<SoftEvent> for Event {
    fn from(event: SoftEvent) -> Self {
        let (place, number) = event.into_parts();
        Self { place, number }
    }
}

const PERIODIC: c_uint = 1;
const PROGRAM: c_uint = 2;

/// Starts the facility; null if the kernel gives no descriptor or no thread.
// SAFETY: nobody else has a function of that name; the same of those below.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_start(options: c_uint, interrupt_clock_resolution: u64) -> *mut Clock {
    let default = Options::default();
    let options = Options {
        backing: if options & PERIODIC == 0 { Backing::Deadline } else { Backing::Periodic },
        waits: if options & PROGRAM == 0 { Waits::Thread } else { Waits::Program },
        interrupt_clock_resolution: match interrupt_clock_resolution {
            0 => default.interrupt_clock_resolution,
            hz => hz,
        },
    };
    Clock::start(options).map_or(core::ptr::null_mut(), |clock| Box::into_raw(Box::new(clock)))
}

/// Ends it.
///
/// # Safety
/// The clock is one that was started and not stopped, or null. Nobody uses it meanwhile or after, and this is
/// not called by a handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_stop(clock: *mut Clock) {
    if clock.is_null() {
        return;
    }
    // SAFETY: it is from `evenkeel_start`, and given back once.
    let clock = unsafe { Box::from_raw(clock) };
    clock.clear();
}

/// Ticks in a second.
///
/// # Safety
/// The clock is one that was started and not stopped. The same of all functions below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_measure_resolution(clock: *const Clock) -> u64 {
    // SAFETY: the caller has a clock.
    unsafe { &*clock }.measure_resolution()
}

/// Returns the time in ticks.
///
/// # Safety
/// As [above](evenkeel_measure_resolution).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_measure_time(clock: *const Clock) -> u64 {
    // SAFETY: the caller has a clock.
    unsafe { &*clock }.measure_time()
}

/// Returns the least resolution at which events can be expected, in Hz.
///
/// # Safety
/// As [above](evenkeel_measure_resolution).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_interrupt_clock_resolution(clock: *const Clock) -> u64 {
    // SAFETY: the caller has a clock.
    unsafe { &*clock }.interrupt_clock_resolution()
}

/// Calls the function when more than so many ticks have passed.
///
/// # Safety
/// As [above](evenkeel_measure_resolution). The function may be called with the argument, on any thread that
/// uses the clock and on the backing's, until it has been called or is cancelled, or the clock is stopped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_schedule_soft_event(
    clock: *const Clock,
    ticks: u64,
    function: Function,
    argument: *mut c_void,
) -> Event {
    // SAFETY: the caller has a clock.
    unsafe { &*clock }.schedule_soft_event(ticks, CHandler { function, argument }).into()
}

/// Schedules a soft event with a latest time, `latest` ticks from now.
///
/// # Safety
/// As [above](evenkeel_schedule_soft_event).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_schedule_with_deadline(
    clock: *const Clock,
    ticks: u64,
    latest: u64,
    function: Function,
    argument: *mut c_void,
) -> Event {
    // SAFETY: the caller has a clock.
    unsafe { &*clock }.schedule_with_deadline(ticks, latest, CHandler { function, argument }).into()
}

/// Cancels an event. Returns whether it was still pending.
///
/// # Safety
/// As [above](evenkeel_measure_resolution).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_cancel(clock: *const Clock, event: Event) -> bool {
    let event = SoftEvent::from_parts(event.place, event.number);
    // SAFETY: the caller has a clock.
    unsafe { &*clock }.cancel(event).is_some()
}

/// Calls the handlers of what is due, and returns how many.
///
/// # Safety
/// As [above](evenkeel_measure_resolution).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_trigger(clock: *const Clock) -> usize {
    // SAFETY: the caller has a clock.
    unsafe { &*clock }.trigger()
}

/// Returns the descriptor of the kernel's timer. It belongs to the clock.
///
/// # Safety
/// As [above](evenkeel_measure_resolution).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_descriptor(clock: *const Clock) -> c_int {
    // SAFETY: the caller has a clock.
    unsafe { &*clock }.as_fd().as_raw_fd()
}

/// Calls the handlers of what is overdue if the kernel's timer has gone off, and returns how many.
///
/// # Safety
/// As [above](evenkeel_measure_resolution), and this is not called by a handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_interrupt(clock: *const Clock) -> usize {
    // SAFETY: the caller has a clock.
    unsafe { &*clock }.interrupt()
}
