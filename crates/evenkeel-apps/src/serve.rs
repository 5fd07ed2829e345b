//! Running a UDP service in real time: on a device, or on a cable with a load generator at its other end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use evenkeel::Engine;
use evenkeel_core::cable;
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::time::Duration;
use evenkeel_link::Clock;
use serde::Serialize;

use crate::blast::{self, Blasted};
use crate::blaster;
use crate::books::Books;
use crate::hosted::Hosted;
use crate::monitor::{Inside, InsideCaptured};
use crate::service::{Options, Service, Tally};
use crate::site::{Limits, PATIENCE, Port, Site, SiteError, run_dry};

/// What a service has done.
#[derive(Debug, Clone, Serialize)]
pub struct Served {
    /// How long it ran, in seconds.
    pub seconds: f64,
    /// Requests received.
    pub requests: u64,
    /// Octets of payload in them.
    pub octets: u64,
    /// Requests answered.
    pub answers: u64,
    /// Requests whose answer could not be sent.
    pub unanswered: u64,
    /// What the host did.
    pub books: Books,
    /// On a cable: what the other end did.
    pub generator: Option<Blasted>,
    /// What was captured.
    pub capture: Option<InsideCaptured>,
    /// Why no frame comes from the device any more; `None` if all is well.
    pub device_failed: Option<String>,
}

/// What to serve, and what to write down of it.
#[derive(Debug, Clone)]
pub struct Serving {
    /// The service.
    pub service: Options,
    /// A capture of what comes and goes.
    pub capture: Option<Inside>,
}

/// Serves on a device until a limit is reached, the device ends, or the process is asked to.
///
/// # Errors
/// [`SiteError`]
pub fn on_device(
    site: &Site,
    port: &Port,
    serving: Serving,
    limits: Limits,
    watch: impl FnMut(&Served),
) -> Result<Served, SiteError> {
    let (engine, attached) = site.on_device(port, Clock::start())?;
    let served = Running::start(engine, attached.interface, serving)?.run(limits, || false, watch)?;
    attached.close().map(|()| served)
}

/// Serves on a cable at whose other end `load` is generated, until that has ended or a limit is reached.
///
/// # Errors
/// [`SiteError`]
pub fn on_cable(
    site: &Site,
    queues: usize,
    serving: Serving,
    other: &Site,
    load: blaster::Options,
    limits: Limits,
    watch: impl FnMut(&Served),
) -> Result<Served, SiteError> {
    let clock = Clock::start();
    let demultiplexes = site.config.architecture == Architecture::NiLrp;
    let near = cable::Options { queues, demultiplexes, ..cable::Options::new("cable0", 2) };
    let (near, far) = cable::pair(near, cable::Options::new("cable1", 1));
    let mut engine = site.engine(clock)?;
    let interface = engine.add_cable(near, &site.addresses)?;
    let running = Running::start(engine, interface, serving)?;
    let (served, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    thread::scope(|scope| {
        let generator = scope.spawn({
            let (served, ended) = (Arc::clone(&served), Arc::clone(&ended));
            move || {
                let result = blast::on_cable(other, clock, far, load, || served.load(Ordering::Relaxed));
                ended.store(true, Ordering::Relaxed);
                result
            }
        });
        let result = running.run(limits, || ended.load(Ordering::Relaxed), watch);
        served.store(true, Ordering::Relaxed);
        let generated = generator.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(Served { generator: Some(generated), ..result? })
    })
}

/// A host with the service on it.
#[derive(Debug)]
struct Running {
    hosted: Hosted,
    tally: Arc<Tally>,
}

impl Running {
    fn start(engine: Engine, interface: InterfaceId, serving: Serving) -> Result<Self, SiteError> {
        let Serving { service, capture } = serving;
        let mut hosted = Hosted::new(engine, interface, capture.as_ref())?;
        let (engine, tally) = (&mut hosted.engine, Arc::new(Tally::default()));
        engine.host_mut().spawn("service", 0, Box::new(Service::new(service, Arc::clone(&tally))));
        // Who sends on a cable need not wait for the service: it has its socket before the first request.
        let until = engine.clock().now() + PATIENCE;
        engine.run(until, |_| tally.opened() || tally.ended())?;
        Ok(Self { hosted, tally })
    }

    fn run(
        self,
        limits: Limits,
        done: impl Fn() -> bool,
        mut watch: impl FnMut(&Served),
    ) -> Result<Served, SiteError> {
        let Self { mut hosted, tally } = self;
        let interface = hosted.interface;
        let over = || tally.ended() || done();
        let mut elapsed = hosted
            .drive(limits, over, |engine, elapsed| watch(&served(engine, interface, &tally, elapsed)))?;
        if let Some(error) = tally.refused() {
            return Err(error.into());
        }
        if done() && !tally.ended() {
            // What was sent last is still on its way.
            elapsed += run_dry(&mut hosted.engine)?;
        }
        hosted.drain()?;
        let served = served(&mut hosted.engine, interface, &tally, elapsed);
        Ok(Served { capture: hosted.finish()?, ..served })
    }
}

fn served(engine: &mut Engine, interface: InterfaceId, tally: &Tally, elapsed: Duration) -> Served {
    Served {
        seconds: elapsed.as_secs_f64(),
        requests: tally.requests(),
        octets: tally.octets(),
        answers: tally.answers(),
        unanswered: tally.unanswered(),
        books: Books::of(engine.host_mut(), interface, elapsed),
        generator: None,
        capture: None,
        device_failed: engine.failed_device(),
    }
}
