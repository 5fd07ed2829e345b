//! A host with one interface in real time: driven within limits, checked at intervals, and optionally
//! captured.

use std::io;

use evenkeel::Engine;
use evenkeel::raw::ip::InterfaceId;
use evenkeel::raw::process::{ProcessId, Program};
use evenkeel::raw::time::Duration;

use crate::captures::{Capturing, Embedded, EmbeddedCaptured};
use crate::host_setup::{Limits, Looks, Occasion, PATIENCE, SetupError, drive, run_dry};

/// The time allowed for writing the frames captured last.
const DRAIN: Duration = Duration::from_millis(20);
/// The time allowed for connections to close after their program has ended early.
const FAREWELL: Duration = Duration::from_millis(100);
/// The time allowed for connections to close after their program has completed its work. Its last bytes
/// must still arrive, also over a lossy network.
const DELIVERY: Duration = Duration::from_secs(10);
/// The interval at which a capture is checked while frames come or go.
const ATTEND: Duration = Duration::from_millis(50);

/// A host on one interface, with an optional capture.
#[derive(Debug)]
pub(crate) struct Hosted {
    pub(crate) engine: Engine,
    capturing: Option<Capturing>,
}

impl Hosted {
    pub(crate) fn new(
        mut engine: Engine,
        interface: InterfaceId,
        capture: Option<&Embedded>,
    ) -> Result<Self, SetupError> {
        let capturing = capture.map(|capture| capture.start(&mut engine, &[interface])).transpose()?;
        Ok(Self { engine, capturing })
    }

    /// Starts a program, and runs the host until that has what it needs.
    pub(crate) fn spawn(
        &mut self,
        name: &str,
        program: Box<dyn Program>,
        ready: impl Fn() -> bool,
    ) -> io::Result<ProcessId> {
        spawn(&mut self.engine, name, program, ready)
    }

    /// Runs it within limits, or until it is over, which another thread may decide; `watch` is called
    /// whenever the limits say that the run is to be reported. Returns how long it ran.
    pub(crate) fn drive(
        &mut self,
        limits: Limits,
        over: impl Fn() -> bool,
        watch: impl FnMut(&mut Engine, Duration, Occasion),
    ) -> Result<Duration, SetupError> {
        self.drive_with(limits, true, over, watch)
    }

    /// Runs it as [`Hosted::drive`] does; `done_elsewhere` says whether it is another thread that decides. If
    /// not, an idle host sleeps.
    pub(crate) fn drive_with(
        &mut self,
        limits: Limits,
        done_elsewhere: bool,
        over: impl Fn() -> bool,
        mut watch: impl FnMut(&mut Engine, Duration, Occasion),
    ) -> Result<Duration, SetupError> {
        let Self { engine, capturing, .. } = self;
        let looks = Looks { done_elsewhere, attend: capturing.is_some().then_some(ATTEND) };
        let (_, elapsed) = drive(engine, limits, looks, over, |engine, elapsed, occasion| {
            attend(capturing.as_mut(), engine);
            occasion.into_iter().for_each(|occasion| watch(engine, elapsed, occasion));
            capturing.as_ref().is_some_and(Capturing::is_failing)
        })?;
        Ok(elapsed)
    }

    /// Ends a program, if it has not ended, and lets its connections close. Allows more time if all was
    /// `done`. Returns the time that it took.
    pub(crate) fn farewell(&mut self, process: ProcessId, done: bool) -> io::Result<Duration> {
        farewell(&mut self.engine, process, done)
    }

    /// Writes the frames that were captured last.
    pub(crate) fn drain(&mut self) -> Result<(), SetupError> {
        if self.capturing.is_some() {
            self.engine.ignore_stop();
            let until = self.engine.clock().now() + DRAIN;
            self.engine.run(until, |host| host.queued() == 0)?;
        }
        attend(self.capturing.as_mut(), &mut self.engine);
        Ok(())
    }

    /// Ends the host and its capture.
    pub(crate) fn finish(self) -> Result<Option<EmbeddedCaptured>, SetupError> {
        drop(self.engine);
        self.capturing.map(Capturing::finish).transpose()
    }
}

/// Starts a program, and runs its host until that has what it needs.
pub(crate) fn spawn(
    engine: &mut Engine,
    name: &str,
    program: Box<dyn Program>,
    ready: impl Fn() -> bool,
) -> io::Result<ProcessId> {
    let process = engine.host_mut().spawn(name, 0, program);
    let until = engine.clock().now() + PATIENCE;
    engine.run(until, |_| ready())?;
    Ok(process)
}

/// Ends a program as [`Hosted::farewell`] does.
pub(crate) fn farewell(engine: &mut Engine, process: ProcessId, done: bool) -> io::Result<Duration> {
    engine.ignore_stop();
    let begin = engine.clock().now();
    engine.host_mut().kill(process, begin);
    let patience = if done { DELIVERY } else { FAREWELL };
    engine.run(begin + patience, |host| host.tcp().is_empty())?;
    let elapsed = engine.clock().now().since(begin);
    Ok(elapsed + run_dry(engine)?)
}

fn attend(capturing: Option<&mut Capturing>, engine: &mut Engine) {
    let now = engine.clock().wall_nanos(engine.clock().now());
    if let Some(capturing) = capturing {
        capturing.attend(engine.host_mut(), now);
    }
}
