//! The common part of measurements in real time: a core for each thread, its time, and repetition after
//! disturbances by the machine.

use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::thread;

use evenkeel::metrics::{CpuShares, CpuTimes};
use evenkeel::raw::cable::End;
use evenkeel::raw::cpu::{self, ThreadMeter};
use evenkeel::raw::device::Interface as _;
use evenkeel::raw::frame::Pool;
use evenkeel::raw::kernel;
use evenkeel::raw::process::{Program, Step, System};
use evenkeel::raw::signal;
use evenkeel::raw::time::{self, Duration, Instant};
use evenkeel::{Ended, Engine};

/// A measurement in which the host had its core for less than this share of the time is repeated.
pub const UNDISTURBED: f64 = 0.97;
const TRIES: usize = 4;

/// Repeats a measurement until it was undisturbed, and returns that one or the least disturbed. All
/// measurements of a run share `repeats`, so that the run ends in time on a machine that is never quiet.
///
/// # Errors
/// The errors of `measure`.
pub fn undisturbed<T, E>(
    repeats: &mut usize,
    core_share: impl Fn(&T) -> f64,
    mut measure: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let mut best = measure()?;
    for _ in 1..TRIES {
        if core_share(&best) >= UNDISTURBED || *repeats == 0 {
            break;
        }
        *repeats -= 1;
        let again = measure()?;
        if core_share(&again) > core_share(&best) {
            best = again;
        }
    }
    Ok(best)
}

/// Binds the calling thread to a core of its own, if the machine has enough. On a machine with one core all
/// threads share it. The figures are then imprecise, but still true.
pub fn settle_on(cpu: Option<&usize>) {
    let _ = cpu.map(|&cpu| cpu::pin_to_cpu(cpu));
    cpu::prefer_this_thread();
}

/// The progress of a generator. The end is signalled when this is dropped.
#[derive(Debug, Default)]
pub struct Sending(Arc<AtomicU8>);

/// A view of a generator's progress, for the host that it floods.
#[derive(Debug)]
pub struct Generator {
    state: Arc<AtomicU8>,
    host: Weak<AtomicBool>,
}

const MEASURING: u8 = 1;
const MEASURED: u8 = 2;
const SENT: u8 = 3;

impl Sending {
    /// Signals that the window opens.
    pub fn measuring(&self) {
        self.0.store(MEASURING, Ordering::Release);
    }

    /// Signals that the window closes although frames are still under way. Without this signal, the window
    /// closes with the last frame sent.
    pub fn measured(&self) {
        self.0.store(MEASURED, Ordering::Release);
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.store(SENT, Ordering::Release);
    }
}

impl Generator {
    /// Signals that the host is ready for the first frame.
    pub fn begin(&self) {
        if let Some(ready) = self.host.upgrade() {
            ready.store(true, Ordering::Release);
        }
    }

    /// Returns whether the generator's window has opened.
    #[must_use]
    pub fn measures(&self) -> bool {
        self.state.load(Ordering::Acquire) >= MEASURING
    }

    /// Returns whether the generator's window has closed.
    #[must_use]
    pub fn has_measured(&self) -> bool {
        self.state.load(Ordering::Acquire) >= MEASURED
    }

    /// Returns whether the generator has sent its last frame. All frames that it sent can then be seen.
    #[must_use]
    pub fn has_sent(&self) -> bool {
        self.state.load(Ordering::Acquire) >= SENT
    }
}

/// A view of a host's progress, for the generator that floods it.
#[derive(Debug)]
pub struct Working(Arc<AtomicBool>);

impl Working {
    /// Returns whether the host is ready for the first frame, or never will be.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.0.load(Ordering::Acquire) || self.is_over()
    }

    /// Returns whether the host has closed its counters.
    #[must_use]
    pub fn is_over(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

/// Runs a host and the load generator that floods it, each on a thread and, if there are two, a core of its
/// own.
///
/// Runs a host and a generator on two threads. The host signals when it is ready for the first frame. The
/// generator signals when the window opens, and when it has sent its last frame. The host follows these
/// signals and not the clock, because a machine that gives cores to others may delay either thread.
/// Afterwards the generator receives until the host is done.
///
/// # Errors
/// If one of them panics.
pub fn opposite<H: Send, G: Send>(
    host: impl FnOnce(&Generator) -> H + Send,
    generator: impl FnOnce(Sending, &Working) -> G + Send,
) -> io::Result<(H, G)> {
    let cpus = cpu::cpus();
    let (sending, working) = (Sending::default(), Arc::new(AtomicBool::new(false)));
    let watching = Generator { state: Arc::clone(&sending.0), host: Arc::downgrade(&working) };
    let watched = Working(Arc::clone(&working));
    thread::scope(|scope| {
        let host = scope.spawn(|| {
            let _working = working;
            settle_on(cpus.get(1));
            host(&watching)
        });
        let generator = scope.spawn(|| {
            settle_on(cpus.first());
            generator(sending, &watched)
        });
        let generated = generator.join().map_err(|_| io::Error::other("the generator's thread panicked"));
        let hosted = host.join().map_err(|_| io::Error::other("the host's thread panicked"))?;
        Ok((hosted, generated?))
    })
}

/// The times of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// The earliest time of the first frame.
    pub start: Instant,
    /// The time before the window, in which queues fill and settle.
    pub warm_up: Duration,
    /// The length of the measured window. The window opens late if the machine was busy, and still has this
    /// length.
    pub window: Duration,
}

/// The time after the last frame for frames in transit.
const DRAIN: Duration = Duration::from_millis(40);
/// The interval at which a waiting host checks the generator's progress. A busy host checks it every 20 µs.
const LOOK: Duration = Duration::from_millis(1);

/// Drives a host through a measurement, until the generator has sent its last frame and the frames in transit
/// have arrived. Calls `look` with the host when the window opens and when it closes. If the process is asked
/// to end, the generator ends, too.
///
/// # Errors
/// If the machine fails.
pub fn drive<T>(
    engine: &mut Engine,
    generator: &Generator,
    mut look: impl FnMut(&Engine) -> T,
) -> io::Result<[T; 2]> {
    generator.begin();
    run_until(engine, || generator.measures())?;
    let from = look(engine);
    run_until(engine, || generator.has_measured())?;
    let until = look(engine);
    run_until(engine, || generator.has_sent())?;
    engine.run(engine.clock().now() + DRAIN, |_| false)?;
    Ok([from, until])
}

/// Drives a host through a measurement in alternating phases, without and with a condition, while the window
/// is open. `turn` begins or ends the condition. `look` reads the host's state when a phase begins and when
/// it ends. So disturbances by the machine affect both conditions alike.
///
/// # Errors
/// If the machine fails.
pub fn drive_by_turns<T>(
    engine: &mut Engine,
    generator: &Generator,
    length: Duration,
    mut turn: impl FnMut(&mut Engine, bool),
    mut look: impl FnMut(&Engine) -> T,
) -> io::Result<Vec<[[T; 2]; 2]>> {
    generator.begin();
    run_until(engine, || generator.measures())?;
    let mut pairs = Vec::new();
    while !generator.has_measured() {
        let mut of = |with: bool| -> io::Result<[T; 2]> {
            turn(engine, with);
            let from = look(engine);
            let end = engine.clock().now() + length;
            engine.run(end, |_| false)?;
            Ok([from, look(engine)])
        };
        let pair = [of(false)?, of(true)?];
        // The generator may have stopped in the middle of a phase.
        if !generator.has_measured() {
            pairs.push(pair);
        }
    }
    turn(engine, false);
    run_until(engine, || generator.has_sent())?;
    engine.run(engine.clock().now() + DRAIN, |_| false)?;
    Ok(pairs)
}

fn run_until(engine: &mut Engine, done: impl Fn() -> bool) -> io::Result<()> {
    while !done() {
        let look = engine.clock().now() + LOOK;
        match engine.run(look, |_| done())? {
            Ended::Stopped => engine.ignore_stop(),
            // The run returns at once, repeatedly.
            Ended::DevicesEnded => thread::yield_now(),
            Ended::Time | Ended::Done => {}
        }
    }
    Ok(())
}

/// A cache line that two cores pass back and forth, to measure their distance. The processors of a virtual
/// machine move, and shared memory costs several times as much between distant processors.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Ball(AtomicBool);

impl Ball {
    /// Passes the ball until `until`. Returns the time of the fastest round trip, if there was any.
    pub fn serve(&self, clock: time::Clock, until: Instant) -> Option<Duration> {
        let mut fastest = None;
        loop {
            let served = clock.now();
            self.0.store(true, Ordering::Release);
            while self.0.load(Ordering::Acquire) {
                if clock.now() >= until {
                    return fastest;
                }
            }
            let took = clock.now().since(served);
            fastest = Some(fastest.map_or(took, |fastest: Duration| fastest.min(took)));
        }
    }

    /// Returns it until `until`, on another thread.
    pub fn give_back(&self, clock: time::Clock, until: Instant) {
        while clock.now() < until {
            if self.0.load(Ordering::Acquire) {
                self.0.store(false, Ordering::Release);
            }
        }
    }
}

/// A program that computes whenever it may run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Neighbour;

/// The CPU time that the compute-bound neighbour uses between two points where it can be preempted.
const NEIGHBOUR_STEP: Duration = Duration::from_micros(2);

impl Program for Neighbour {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        system.compute(NEIGHBOUR_STEP);
        Step::Again
    }
}

/// A reading of the time that a host's core has spent. Only the host's own thread may take it.
#[derive(Debug, Clone, Copy)]
pub struct CoreTime {
    /// The time of the reading.
    pub at: Instant,
    times: CpuTimes,
}

impl CoreTime {
    /// Reads the time that the core has spent so far.
    #[must_use]
    pub fn of(engine: &Engine) -> Self {
        Self { at: engine.clock().now(), times: CpuTimes::of(engine.host(), engine.observer().core()) }
    }

    /// Returns the shares of the levels since `earlier`.
    #[must_use]
    pub fn shares_since(&self, earlier: &Self) -> CpuShares {
        self.times.since(&earlier.times).shares(self.at.since(earlier.at))
    }

    /// Returns the share of the time since `earlier` in which the thread really had its core, or did not
    /// need it.
    #[must_use]
    pub fn core_share_since(&self, earlier: &Self) -> f64 {
        let CpuTimes { ran, run_delay, halted, .. } = self.times.since(&earlier.times);
        // The thread may have been runnable on its way back from halting.
        let run_delay = self.share(earlier, run_delay);
        self.share(earlier, ran + halted).min(1.0 - run_delay).max(0.0)
    }

    /// Returns the share of the core that a process had since `earlier`, while its bill went from
    /// `used_earlier` to `used`. Bills follow the clock, also while the machine gives the core to other
    /// threads. The process bears as large a part of that time as it has of the time of all processes.
    #[must_use]
    pub fn process_share_since(&self, earlier: &Self, used: Duration, used_earlier: Duration) -> f64 {
        let all = self.times.since(&earlier.times).process;
        if all.is_zero() {
            return 0.0;
        }
        let part = used.saturating_sub(used_earlier).as_secs_f64() / all.as_secs_f64();
        part * self.shares_since(earlier).process
    }

    fn share(&self, earlier: &Self, time: Duration) -> f64 {
        let elapsed = self.at.since(earlier.at);
        if elapsed.is_zero() { 0.0 } else { time.as_secs_f64() / elapsed.as_secs_f64() }
    }
}

/// The core on which a service and the kernel's protocol input run.
#[derive(Debug)]
pub struct KernelCore {
    cpu: usize,
    service: ThreadMeter,
}

impl KernelCore {
    /// Creates the account of the core that [`opposite`] gives the host. `service` is the thread of the
    /// service.
    #[must_use]
    pub fn of_host(service: ThreadMeter) -> Self {
        let cpus = cpu::cpus();
        Self { cpu: cpus.get(1).or(cpus.first()).copied().unwrap_or(0), service }
    }

    /// Returns the time in which programs used the core in user mode or other machines took it, and the
    /// time that the service itself used in user mode.
    ///
    /// # Errors
    /// The kernel has no account of that core.
    pub fn taken(&self) -> io::Result<(Duration, Duration)> {
        let service = self.service.read().unwrap_or_default();
        let all = cpu::taken_from_kernel(self.cpu)?;
        Ok((all, service.ran.saturating_sub(service.system)))
    }

    /// Returns the share of `elapsed` that was left to the service and to protocol input. `from` and `until`
    /// are the results of [`KernelCore::taken`] before and after.
    #[must_use]
    pub fn share(from: (Duration, Duration), until: (Duration, Duration), elapsed: Duration) -> f64 {
        let (all, own) = (until.0.saturating_sub(from.0), until.1.saturating_sub(from.1));
        if elapsed.is_zero() {
            return 0.0;
        }
        (1.0 - all.saturating_sub(own).as_secs_f64() / elapsed.as_secs_f64()).max(0.0)
    }
}

/// Returns `count` per second of `elapsed`; zero if `elapsed` is zero, as after a short window in which the
/// machine did not run the thread.
#[expect(clippy::cast_precision_loss, reason = "rates for reports")]
#[must_use]
pub fn per_second(count: u64, elapsed: Duration) -> f64 {
    if elapsed == Duration::ZERO { 0.0 } else { count as f64 / elapsed.as_secs_f64() }
}

/// Takes and discards the frames at an end of a cable; returns their number.
pub fn drain(end: &mut End, pool: &mut Pool) -> u64 {
    let mut frames = 0;
    while let Some(frame) = end.queue_mut(0).take(pool) {
        pool.recycle(frame);
        frames += 1;
    }
    frames
}

/// Moves the calling thread into its own network namespace, in which the kernel sends no IPv6 traffic on its
/// links. The namespace ends with the thread and its devices.
///
/// # Errors
/// `PermissionDenied` without the privilege; otherwise if the kernel refuses a namespace, or the setting.
pub fn enter_quiet_network() -> io::Result<()> {
    kernel::enter_new_network().map_err(|e| {
        let why = format!("cannot make a network namespace: {e}; run as root, or on the cable");
        io::Error::new(e.kind(), why)
    })?;
    for which in ["all", "default"] {
        let file = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
        if fs::exists(&file).unwrap_or(false) {
            fs::write(&file, "1")
                .map_err(|e| io::Error::new(e.kind(), format!("cannot write {file}: {e}")))?;
        }
    }
    Ok(())
}

/// Runs a command that sets something up, in a session of its own. Returns what it said if it fails.
///
/// No other part is a process of its own: hosts, generators and the kernel's services are threads.
///
/// # Errors
/// The command and its standard error, in one line.
pub fn execute(command: &[&str]) -> Result<(), String> {
    let [program, arguments @ ..] = command else { return Ok(()) };
    let mut setup = Command::new(program);
    let output = signal::in_own_session(setup.args(arguments).stdin(Stdio::null())).output();
    let output = output.map_err(|e| format!("cannot run `{program}`: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`{}` failed: {}", command.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best_of(shares: &[f64], repeats: &mut usize) -> f64 {
        let mut shares = shares.iter().copied();
        undisturbed(repeats, |&share| share, || shares.next().ok_or("no more")).unwrap()
    }

    #[test]
    fn a_disturbed_measurement_is_repeated_and_the_least_disturbed_one_counts() {
        let mut repeats = 10;
        assert_eq!(best_of(&[0.98], &mut repeats), 0.98);
        assert_eq!(repeats, 10);
        assert_eq!(best_of(&[0.5, 0.99], &mut repeats), 0.99);
        assert_eq!(repeats, 9);
        assert_eq!(best_of(&[0.5, 0.7, 0.6, 0.4], &mut repeats), 0.7);
        assert_eq!(repeats, 6);
    }

    /// Processes had half of their time; of 100 ms the machine took 40, in the middle of steps.
    #[test]
    fn what_others_took_of_the_core_no_process_had() {
        let at = |millis: u64, process: u64, ran, run_delay| {
            let [at, process, ran, run_delay] = [millis, process, ran, run_delay].map(Duration::from_millis);
            let times = CpuTimes { process, ran, run_delay, ..CpuTimes::default() };
            CoreTime { at: Instant::ZERO + at, times }
        };
        let (from, until) = (at(0, 0, 0, 0), at(100, 100, 60, 40));
        let had = until.process_share_since(&from, Duration::from_millis(50), Duration::ZERO);
        assert!((had - 0.3).abs() < 1e-9, "{had}");
        assert_eq!(from.process_share_since(&from, Duration::ZERO, Duration::ZERO), 0.0);
    }

    #[test]
    fn a_window_that_was_missed_has_a_rate_of_none() {
        assert_eq!(per_second(5, Duration::ZERO), 0.0);
        assert_eq!(per_second(5, Duration::from_millis(500)), 10.0);
    }

    /// The session is the sixth field of stat(5), after the name in parentheses.
    #[test]
    fn a_command_runs_in_a_session_of_its_own() {
        let own = fs::read_to_string("/proc/self/stat").unwrap();
        let session = own.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(3)).unwrap();
        let other = format!("read -r line </proc/$$/stat; set -- ${{line##*) }}; test \"$4\" != {session}");
        execute(&["sh", "-c", &other]).unwrap();
        let leader = "read -r line </proc/$$/stat; set -- ${line##*) }; test \"$4\" = $$";
        execute(&["sh", "-c", leader]).expect("it is the first of its session");
    }

    #[test]
    fn repeats_are_not_without_end() {
        let mut repeats = 1;
        assert_eq!(best_of(&[0.5, 0.4], &mut repeats), 0.5);
        assert_eq!(repeats, 0);
    }

    fn in_good_time(done: impl Fn() -> bool) {
        let clock = time::Clock::start();
        while !done() {
            assert!(clock.now().as_secs_f64() < 30.0, "it is never done");
            thread::yield_now();
        }
    }

    #[test]
    fn the_host_goes_by_the_generator_which_goes_on_until_the_host_is_done() {
        let seen = AtomicBool::new(false);
        let host = |generator: &Generator| {
            generator.begin();
            in_good_time(|| generator.measures());
            in_good_time(|| generator.has_measured());
            assert!(!generator.has_sent(), "something is under way");
            seen.store(true, Ordering::Release);
            in_good_time(|| generator.has_sent());
            5
        };
        let generator = |sending: Sending, host: &Working| {
            in_good_time(|| host.has_begun());
            assert!(!host.is_over(), "it goes by the generator");
            sending.measuring();
            sending.measured();
            in_good_time(|| seen.load(Ordering::Acquire));
            drop(sending);
            in_good_time(|| host.is_over());
            7
        };
        assert_eq!(opposite(host, generator).unwrap(), (5, 7));
    }

    #[test]
    fn neither_waits_for_one_that_panicked() {
        let host = |generator: &Generator| in_good_time(|| generator.has_sent());
        let error = opposite(host, |_, _| panic!("as the test wants")).unwrap_err();
        assert!(error.to_string().contains("generator"), "{error}");
        let generator = |_sending, host: &Working| {
            in_good_time(|| host.has_begun());
            in_good_time(|| host.is_over());
        };
        let error = opposite(|_| panic!("as the test wants"), generator).unwrap_err();
        assert!(error.to_string().contains("host"), "{error}");
    }

    #[test]
    fn a_ball_that_is_given_back_says_how_far_that_was() {
        let (ball, clock) = (Ball::default(), time::Clock::start());
        let until = |millis| clock.now() + Duration::from_millis(millis);
        assert_eq!(ball.serve(clock, until(1)), None, "nobody is there");
        thread::scope(|scope| {
            scope.spawn(|| ball.give_back(clock, until(200)));
            assert!(ball.serve(clock, until(200)).is_some_and(|took| took < Duration::from_millis(200)));
        });
    }

    #[test]
    fn a_command_that_fails_is_told_with_its_words() {
        let said = execute(&["sh", "-c", "echo alas >&2; exit 3"]).unwrap_err();
        assert!(said.ends_with("failed: alas"), "{said}");
        assert!(execute(&["no-such-program-at-all"]).unwrap_err().contains("cannot run"));
        assert_eq!(execute(&["true"]), Ok(()));
    }

    /// Programs use the core for 0.7 s of a second in user mode, and 0.5 s of that is the service.
    #[test]
    fn what_other_programs_took_is_not_the_services() {
        let at = |all, own| (Duration::from_millis(all), Duration::from_millis(own));
        let share = KernelCore::share(at(100, 50), at(800, 550), Duration::from_secs(1));
        assert!((share - 0.8).abs() < 1e-9, "{share}");
        assert_eq!(KernelCore::share(at(0, 0), at(0, 9), Duration::from_secs(1)), 1.0, "ticks are coarse");
    }
}
