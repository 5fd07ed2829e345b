//! A running router: one host, or one on each of several cores.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::{iter, thread};

use evenkeel::raw::device::{Address, DeviceSpec, refuse_kernel_forwarding};
use evenkeel::raw::host::Host;
use evenkeel::raw::kernel::FollowedTables;
use evenkeel::raw::process::ProcessId;
use evenkeel::raw::signal::hangup_events;
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::{Engine, Group, Remote};

use super::active_rules::{ActiveRules, RuleScreener};
use super::error::RouterError;
use super::log::{Log, LogHandle, SharedLog};
use super::part::{Captured, Part, Screened};
use super::report::{CoreReport, Line, Routed, Stall, lock};
use super::returning::{self, Returning};
use super::router::{Reread, Router, Say};
use super::screen::{Report, Screening};
use super::tables::{Place, Tables};
use crate::host_setup::{Limits, Occasion, SetupError};
use crate::link_plan::Link;
use crate::reports::Reports;
use crate::supervised::Manager;

/// The longest interval between checks whether screening hangs and of the capture, if there is either. A
/// check wakes the host.
const LOOK: Duration = Duration::from_secs(2);
/// The number of times that hosts are asked for a requested report before it is given up.
const ATTEMPTS: usize = 20;
/// The time that the last captured packets may take to be written.
const DRAIN: Duration = Duration::from_millis(20);

/// Runs a router until a limit is reached or the process is asked to end. Calls `watch` as the limits say.
/// On SIGHUP it calls `reread` for rules, routes and neighbours, and uses them; if they cannot be used, it
/// shows why and continues as before. Without `reread`, SIGHUP asks the process to end. A link whose device
/// is removed is opened again when a device of that name returns.
///
/// # Errors
/// [`RouterError`]
pub fn run(
    router: Router,
    limits: Limits,
    reread: Option<Reread>,
    say: Say,
    watch: impl FnMut(Occasion, &Routed),
) -> Result<Routed, RouterError> {
    Running::start(router, limits, reread, say)?.run(limits, watch)
}

struct Running {
    group: Group,
    /// A processor for each host; empty if the only host runs wherever the kernel puts it.
    cores: Vec<usize>,
    /// The parts of each host.
    parts: Vec<Arc<Mutex<Part>>>,
    telling: Telling,
}

/// The parts of the report that concern all hosts together.
struct Telling {
    active: Option<ActiveRules>,
    log: Option<LogHandle>,
    reloads: Arc<Reloads>,
}

/// The number of times that changeable settings were read again.
#[derive(Debug, Default)]
struct Reloads {
    done: AtomicU64,
    failed: AtomicU64,
}

impl Running {
    fn start(
        mut router: Router,
        limits: Limits,
        reread: Option<Reread>,
        say: Say,
    ) -> Result<Self, RouterError> {
        router.plan()?.warnings.iter().for_each(|warning| say(warning));
        let places = router.places()?;
        let names: Vec<String> = places.iter().map(|place| place.name.clone()).collect();
        let rules = router.changing.rules.as_ref();
        let open = if router.offload { ActiveRules::open_about_flows } else { ActiveRules::open };
        let active = rules.map(|text| open(text, names.clone(), router.hosts())).transpose()?;
        let tables = Tables::of(&router.changing.tables, &places)?;
        let clock = Clock::start();
        let engines: Result<Vec<_>, _> =
            (0..router.hosts()).map(|index| router.engine(index, clock)).collect();
        let mut group = Group::new(engines?)?;
        let lines = attach(group.engines_mut(), &mut router, clock, &say)?;
        let statuses = lines.iter().map(|lines| lines.iter().map(|line| Arc::clone(&line.status)).collect());
        let statuses = statuses.collect();
        // There is a log only if there are rules that write to it.
        let path = router.log.as_ref().filter(|_| active.is_some());
        let log = path.map(|path| Log::open(path, &names, clock)).transpose()?;
        let handle = log.as_ref().map(Log::handle);
        let log = log.map(SharedLog::new);
        let mut screeners =
            active.iter().flat_map(|active| active.screeners(log.clone(), router.config.seed));
        let (mut parts, mut followed) = (Vec::new(), Vec::new());
        for (engine, lines) in group.engines_mut().iter_mut().zip(lines) {
            let kernel = if router.kernel_routes { Some(follow_kernel(engine, &router)?) } else { None };
            followed.extend(kernel.clone());
            tables.apply(&Tables::default(), engine.host_mut(), clock.now()).map_err(RouterError::Entry)?;
            let screened = screeners.next().map(|screener| screen(engine, &router, screener));
            let (capture, observer) = (capture(engine, &router, &lines)?, engine.observer());
            parts.push(Arc::new(Mutex::new(Part { lines, screened, kernel, capture, observer })));
        }
        drop(screeners);
        // The thread that opens returned devices starts later, and so has the capabilities that are kept.
        limits.leave_root()?;
        returning::follow(group.engines_mut(), Returning::new(&router, clock, followed, statuses), &say)?;
        say(&format!("forwarding between {}", names.join(" and ")));
        let reloads = Arc::new(Reloads::default());
        if let Some(reread) = reread {
            let process =
                |part: &Arc<Mutex<Part>>| lock(part).screened.as_ref().map(|screened| screened.process);
            let screening = parts.iter().map(process).collect();
            let (active, current) = (active.clone(), Arc::new(tables));
            let manager = limits.manager();
            let reloader = Reloader { places, active, screening, reread, say, current, manager };
            follow_hangups(&mut group, reloader, &reloads)?;
        }
        Ok(Self { group, cores: router.cores, parts, telling: Telling { active, log: handle, reloads } })
    }

    fn run(
        mut self,
        limits: Limits,
        mut watch: impl FnMut(Occasion, &Routed),
    ) -> Result<Routed, RouterError> {
        let Some(clock) = self.group.engines().first().map(|engine| *engine.clock()) else {
            return Err(RouterError::Cores("no host".to_owned()));
        };
        let start = clock.now();
        let end = limits.duration.map_or(Instant::NEVER, |duration| start + duration);
        let looks = self.parts.iter().any(|part| lock(part).is_to_be_looked_at());
        let look = if looks { LOOK } else { Duration::MAX };
        let every = limits.every.map_or(look, |every| every.min(look));
        let mut next_watch = limits.every;
        let Self { group, cores, parts, telling } = &mut self;
        group.engines_mut().iter_mut().try_for_each(|engine| limits.publish(engine))?;
        let mut heartbeat = limits.ready(start);
        let every = every.min(heartbeat.look());
        let describe = |part: &Arc<Mutex<Part>>| {
            let part = Arc::clone(part);
            move |host: &mut Host, now: Instant| lock(&part).describe(host, now, now.since(start))
        };
        let mut reports = Reports::new(group.remote(), parts.iter().map(describe));
        let beside = || {
            let elapsed = clock.now().since(start);
            let interval = next_watch.filter(|at| elapsed >= *at).map(|_| Occasion::Interval);
            let occasion = limits.take_request().or(interval);
            let attempts = if occasion == Some(Occasion::Request) { ATTEMPTS } else { 1 };
            let each = (0..attempts).find_map(|_| reports.collect());
            if reports.are_current() {
                heartbeat.beat(clock.now());
            }
            let Some(each) = each else { return };
            if let Some(occasion) = occasion {
                next_watch = limits.every.map(|every| elapsed + every);
                watch(occasion, &telling.together(cores, each));
            }
        };
        let wake: Vec<_> = limits.reports.iter().map(|reports| reports.event().fd()).collect();
        group.run_beside(cores, end, |_, _| false, every, &wake, beside)?;
        self.end(clock.now().since(start))
    }

    /// Ends the capture, then screening, and its log with it.
    fn end(self, elapsed: Duration) -> Result<Routed, RouterError> {
        let Self { mut group, cores, parts, telling } = self;
        let mut each = Vec::new();
        for (engine, part) in group.engines_mut().iter_mut().zip(&parts) {
            // The part must not be locked here, because the host may still describe itself.
            if lock(part).capture.is_some() {
                engine.ignore_stop();
                let until = engine.clock().now() + DRAIN;
                engine.run(until, |host| host.queued() == 0)?;
            }
            let (now, mut part) = (engine.clock().now(), lock(part));
            if let Some(screened) = &part.screened {
                engine.host_mut().kill(screened.process, now);
                if let Some(error) = screened.report.refused() {
                    return Err(SetupError::from(error).into());
                }
            }
            each.push(part.describe(engine.host_mut(), now, elapsed));
        }
        let routed = telling.together(&cores, each);
        // The program that writes the capture ends with its host, and the file remains.
        drop(group);
        let captured = parts.iter().find_map(|part| lock(part).capture.take());
        let capture = captured.map(|captured| captured.capturing.finish()).transpose()?;
        Ok(Routed { capture, ..routed })
    }
}

impl Telling {
    /// Combines the reports of all hosts, and adds what concerns all together.
    fn together(&self, cores: &[usize], each: Vec<Routed>) -> Routed {
        let counters = each.iter().map(|routed| routed.counters.clone());
        let cores =
            cores.iter().zip(counters).map(|(&core, counters)| CoreReport { core, counters }).collect();
        let mut routed = Routed { cores, ..Routed::together(each) };
        routed.reloads = self.reloads.done.load(Ordering::Relaxed);
        routed.reloads_failed = self.reloads.failed.load(Ordering::Relaxed);
        if let (Some(screening), Some(active)) = (&mut routed.screening, &self.active) {
            (screening.unmatched, screening.malformed) = active.others();
            screening.rules = active.counts();
            screening.log = self.log.as_ref().map(LogHandle::state);
        }
        routed
    }
}

/// Assigns each host its device of every link.
fn attach(
    engines: &mut [Engine],
    router: &mut Router,
    clock: Clock,
    say: &Say,
) -> Result<Vec<Vec<Line>>, RouterError> {
    let mut all: Vec<Vec<Line>> = engines.iter().map(|_| Vec::new()).collect();
    for index in 0..router.links.len() {
        let devices = router.open(index, clock)?;
        devices.iter().filter_map(|device| router.warning_about(&**device)).for_each(|warning| say(&warning));
        let Some(link) = router.links.get_mut(index) else { continue };
        if let (Some(Address::Random), Some(device)) = (link.mac, devices.first()) {
            // Drawn once: should the device return, it has the same.
            link.mac = Some(Address::Fixed(device.properties().address));
        }
        for ((engine, lines), device) in iter::zip(&mut *engines, &mut all).zip(devices) {
            let status = Arc::new(Mutex::new(device.info().status));
            let plan = engine.host().config().plan();
            let added = engine.add_device_with(device, &link.addresses, plan);
            let interface = added.map_err(SetupError::from)?;
            lines.push(Line {
                name: link.name.clone(),
                device: link.device.to_string(),
                interface,
                addresses: link.addresses.iter().map(ToString::to_string).collect(),
                status,
            });
        }
    }
    Ok(all)
}

/// Starts the capture. Only a single host may have one, so that no other host writes the file.
fn capture(engine: &mut Engine, router: &Router, lines: &[Line]) -> Result<Option<Captured>, RouterError> {
    let Some(inside) = &router.capture else { return Ok(None) };
    let interfaces: Vec<_> = lines.iter().map(|line| line.interface).collect();
    let clock = *engine.clock();
    Ok(Some(Captured { capturing: inside.start(engine, &interfaces)?, clock }))
}

/// Makes each host follow the kernel on its own.
fn follow_kernel(engine: &mut Engine, router: &Router) -> Result<FollowedTables, RouterError> {
    let name = |link: &Link| match &link.device {
        DeviceSpec::Packet(device) => Some(device.name.clone()),
        DeviceSpec::Tap(_) | DeviceSpec::Xdp(_) | DeviceSpec::Pcap(_) => None,
    };
    let names: Vec<String> = router.links.iter().filter_map(name).collect();
    let devices: Vec<&str> = names.iter().map(String::as_str).collect();
    for device in &devices {
        refuse_kernel_forwarding(device).map_err(|error| RouterError::Links(error.to_string()))?;
    }
    Ok(engine.follow_kernel(&devices)?)
}

fn screen(engine: &mut Engine, router: &Router, screener: RuleScreener) -> Screened {
    let report = Arc::new(Report::default());
    let flows = screener.flow_counters();
    let program = Screening::new(screener, router.screen_queue_pkts, Arc::clone(&report));
    engine.host_mut().require_screening();
    let process = engine.host_mut().spawn("screening", router.screen_nice, Box::new(program));
    Screened { process, report, flows, stall: Stall::default() }
}

/// The state of the thread that reads changeable settings again: a large table must not delay packets.
struct Reloader {
    places: Vec<Place>,
    active: Option<ActiveRules>,
    /// The screening process of each host.
    screening: Vec<Option<ProcessId>>,
    reread: Reread,
    say: Say,
    /// The tables that the hosts have, or will have after their pending messages.
    current: Arc<Tables>,
    manager: Option<&'static Manager>,
}

fn follow_hangups(
    group: &mut Group,
    mut reloader: Reloader,
    reloads: &Arc<Reloads>,
) -> Result<(), RouterError> {
    let (ask, asked): (Sender<()>, Receiver<()>) = mpsc::channel();
    let (hangup, remote) = (hangup_events()?, group.remote());
    if let Some(engine) = group.engines_mut().first_mut() {
        engine.attend_event(hangup, move |_host, _now| {
            // The thread ends with the process.
            let _ = ask.send(());
        });
    }
    let reloads = Arc::clone(reloads);
    thread::Builder::new().name("reload".to_owned()).spawn(move || {
        for () in asked {
            reloader.manager.iter().for_each(|manager| manager.reloading());
            match reloader.read() {
                Ok((tables, summary)) => {
                    reloader.replace(tables, &remote);
                    reloads.done.fetch_add(1, Ordering::Relaxed);
                    (reloader.say)(&summary);
                }
                Err(why) => {
                    reloads.failed.fetch_add(1, Ordering::Relaxed);
                    (reloader.say)(&format!("{why}; all stays as it was"));
                }
            }
            reloader.manager.iter().for_each(|manager| manager.ready());
        }
    })?;
    Ok(())
}

impl Reloader {
    fn read(&mut self) -> Result<(Tables, String), String> {
        let changing = (self.reread)()?;
        let tables = Tables::of(&changing.tables, &self.places).map_err(|error| error.to_string())?;
        let (routes, neighbors) = tables.len();
        let mut summary = format!("read again: {routes} routes, {neighbors} neighbours");
        if let (Some(active), Some(text)) = (&self.active, &changing.rules) {
            let rules = active.replace(text).map_err(|error| error.to_string())?;
            summary.push_str(&format!(", {rules} rules"));
        }
        Ok((tables, summary))
    }

    fn replace(&mut self, tables: Tables, hosts: &Remote) {
        let new = Arc::new(tables);
        let earlier = core::mem::replace(&mut self.current, Arc::clone(&new));
        hosts.everywhere(move |host, now| {
            // The tables were checked before, except for the limit of the host's table.
            let _ = new.apply(&earlier, host, now);
        });
        // Packets that are forwarded in XDP wake no process that would turn to new rules.
        for (index, process) in self.screening.iter().enumerate() {
            let Some(process) = *process else { continue };
            hosts.on(index, move |host, now| host.wake_process(process, now));
        }
    }
}
