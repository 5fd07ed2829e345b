//! A host with one interface in real time: driven within limits, looked at now and then, and a capture beside what it does.

use evenkeel::Engine;
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::time::Duration;

use crate::monitor::{Capturing, Inside, InsideCaptured};
use crate::site::{Limits, SiteError, drive};

/// How long what was captured last may take to be written.
const DRAIN: Duration = Duration::from_millis(20);
/// How often a capture is looked after.
const ATTEND: Duration = Duration::from_millis(50);

/// The host.
#[derive(Debug)]
pub(crate) struct Hosted {
    pub(crate) engine: Engine,
    pub(crate) interface: InterfaceId,
    capturing: Option<Capturing>,
}

impl Hosted {
    pub(crate) fn new(
        mut engine: Engine,
        interface: InterfaceId,
        capture: Option<&Inside>,
    ) -> Result<Self, SiteError> {
        let capturing = capture.map(|capture| capture.start(&mut engine, &[interface])).transpose()?;
        Ok(Self { engine, interface, capturing })
    }

    /// Runs it within limits, or until it is over; `watch` is called as often as they say. Says how long it ran.
    pub(crate) fn drive(
        &mut self,
        limits: Limits,
        over: impl Fn() -> bool,
        mut watch: impl FnMut(&mut Engine, Duration),
    ) -> Result<Duration, SiteError> {
        let Self { engine, capturing, .. } = self;
        let mut next_watch = limits.every.unwrap_or(Duration::MAX);
        let often = if capturing.is_some() { Limits { every: Some(ATTEND), ..limits } } else { limits };
        let (_, elapsed) = drive(engine, often, over, |engine, elapsed| {
            attend(capturing.as_mut(), engine);
            if elapsed >= next_watch {
                next_watch += limits.every.unwrap_or_default();
                watch(engine, elapsed);
            }
        })?;
        Ok(elapsed)
    }

    /// Lets what was captured last be written.
    pub(crate) fn drain(&mut self) -> Result<(), SiteError> {
        if self.capturing.is_some() {
            self.engine.ignore_stop();
            let until = self.engine.clock().now() + DRAIN;
            self.engine.run(until, |host| host.queued() == 0)?;
        }
        attend(self.capturing.as_mut(), &mut self.engine);
        Ok(())
    }

    /// Ends it, and its capture.
    pub(crate) fn finish(self) -> Result<Option<InsideCaptured>, SiteError> {
        drop(self.engine);
        self.capturing.map(Capturing::finish).transpose()
    }
}

fn attend(capturing: Option<&mut Capturing>, engine: &mut Engine) {
    let now = engine.clock().wall_nanos(engine.clock().now());
    if let Some(capturing) = capturing {
        capturing.attend(engine.host_mut(), now);
    }
}
