//! The run of services on several cores: a host on each, with its share of the flows of one device.

use std::sync::Arc;

use evenkeel::Group;
use evenkeel::raw::host::Host;
use evenkeel::raw::time::{Clock, Duration, Instant};

use super::{News, OnCore, Served, Services, Serving};
use crate::counters::HostCounters;
use crate::host_setup::{DeviceSetup, HostSetup, Limits, Occasion, SetupError};
use crate::hosted::farewell;
use crate::reports::Reports;
use crate::stream::Service;

/// The number of times that hosts are asked for a requested report before it is given up.
const ATTEMPTS: usize = 20;

/// Serves on a device that a host on each of `cores` shares, until a limit is reached, the device ends, or
/// the process is asked to. Each host has all services, and the connections and requests whose frames come
/// by its queues of the device.
///
/// # Errors
/// [`SetupError`]
pub fn on_cores<S: Service + Clone + 'static>(
    setup: &HostSetup,
    at: &DeviceSetup,
    cores: &[usize],
    serving: &Serving<S>,
    limits: Limits,
    mut news: impl FnMut(News<'_>),
) -> Result<Served, SetupError> {
    if !at.device.spreads_over_hosts() {
        let what = "only packet:NAME and xdp:NAME (without `,share`) spread their flows over several cores";
        return Err(SetupError::Cores(format!("{}: {what}", at.device)));
    }
    let mut running = Running::start(setup, at, cores, serving)?;
    news(News::Started);
    let elapsed = running.run(limits, &mut news)?;
    running.end(elapsed)
}

/// The hosts of all cores, with their services.
struct Running {
    group: Group,
    cores: Vec<usize>,
    services: Vec<Arc<Services>>,
    clock: Clock,
}

impl Running {
    fn start<S: Service + Clone + 'static>(
        setup: &HostSetup,
        at: &DeviceSetup,
        cores: &[usize],
        serving: &Serving<S>,
    ) -> Result<Self, SetupError> {
        let clock = Clock::start();
        let mut group = setup.on_cores(at, cores, clock)?;
        let start = |engine| Services::start(engine, serving.clone()).map(Arc::new);
        let services = group.engines_mut().iter_mut().map(start).collect::<Result<_, _>>()?;
        Ok(Self { group, cores: cores.to_vec(), services, clock })
    }

    /// Serves within limits. Returns the time that it took.
    fn run(&mut self, limits: Limits, news: &mut impl FnMut(News<'_>)) -> Result<Duration, SetupError> {
        let Self { group, cores, services, clock } = self;
        limits.leave_root()?;
        group.engines_mut().iter_mut().try_for_each(|engine| limits.publish(engine))?;
        let start = clock.now();
        let mut heartbeat = limits.ready(start);
        let looks = heartbeat.look();
        let describes = group.engines().iter().zip(&*services).map(|(engine, services)| {
            let (services, observer) = (Arc::clone(services), engine.observer());
            move |host: &mut Host, now: Instant| services.report(host, &observer, now.since(start))
        });
        let mut reports = Reports::new(group.remote(), describes.collect::<Vec<_>>());
        let end = limits.duration.map_or(Instant::NEVER, |duration| start + duration);
        let mut next = limits.every;
        let beside = || {
            let elapsed = clock.now().since(start);
            let interval = next.filter(|at| elapsed >= *at).map(|_| Occasion::Interval);
            let occasion = limits.take_request().or(interval);
            if occasion.is_none() && clock.now() < heartbeat.next() {
                return;
            }
            let attempts = if occasion == Some(Occasion::Request) { ATTEMPTS } else { 1 };
            let each = (0..attempts).find_map(|_| reports.collect());
            if reports.are_current() {
                heartbeat.beat(clock.now());
            }
            let (Some(occasion), Some(each)) = (occasion, each) else { return };
            next = limits.every.map(|every| elapsed + every);
            together(cores, each).iter().for_each(|served| news(News::Glance(occasion, served)));
        };
        let wake: Vec<_> = limits.reports.iter().map(|reports| reports.event().fd()).collect();
        let every = limits.every.unwrap_or(Duration::MAX).min(looks);
        let is_over =
            |index: usize, _: &Host| services.get(index).is_some_and(|it: &Arc<Services>| it.ended());
        group.run_beside(cores, end, is_over, every, &wake, beside)?;
        Ok(clock.now().since(start))
    }

    /// Ends the services, and returns their results.
    fn end(self, elapsed: Duration) -> Result<Served, SetupError> {
        let Self { mut group, cores, services, .. } = self;
        let mut each = Vec::new();
        for (engine, services) in group.engines_mut().iter_mut().zip(&services) {
            services.check()?;
            let before = services.report(engine.host(), &engine.observer(), elapsed);
            if let Some(listener) = &services.tcp {
                farewell(engine, listener.process, listener.tally.ended())?;
            }
            let now = services.report(engine.host(), &engine.observer(), elapsed);
            let served = now.with_streams_of(&before);
            each.push(Served { device_failed: engine.failed_device(), ..served });
        }
        together(&cores, each).ok_or_else(|| SetupError::Cores("no core".to_owned()))
    }
}

/// Returns the results of all hosts together, and of each; `None` if there is no host.
fn together(cores: &[usize], each: Vec<Served>) -> Option<Served> {
    let counters = HostCounters::together(each.iter().map(|served| &served.counters));
    let on_core = |(&core, served): (&usize, &Served)| OnCore {
        core,
        datagrams: served.datagrams.clone(),
        streams: served.streams.clone(),
        counters: served.counters.clone(),
    };
    let on_cores = cores.iter().zip(&each).map(on_core).collect();
    let whole = each.into_iter().reduce(Served::with)?;
    Some(Served { counters, cores: on_cores, ..whole })
}
