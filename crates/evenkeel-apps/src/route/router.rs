//! A router on devices, in real time.

use core::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, thread};

use evenkeel::Engine;
use evenkeel_core::drop::QueueDrop;
use evenkeel_core::host::{Config, Host};
use evenkeel_core::process::ProcessId;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_link::{
    Address, Bell, Clock, Device, DeviceSpec, Packet, PacketOptions, Stop, Tap, TapOptions, hangup_bell,
};
use serde::Serialize;

use super::kernel::Follower;
use super::log::{Log, LogHandle};
use super::mistake::Mistake;
use super::plan::Link;
use super::report::{KernelReport, Line, Routed, ScreeningReport, Stall};
use super::rulebook::{Rulebook, Text};
use super::screen::{Report, Screening};
use super::tables::{Place, Tables, Unusable, Written};
use crate::books::Books;
use crate::site::{Limits, SiteError, drive};

/// What a router is to be.
#[derive(Debug, Clone)]
pub struct Router {
    /// Its links, in the order of their interfaces.
    pub links: Vec<Link>,
    /// How it receives and forwards, and its limits. Whether it forwards is not asked: it does.
    pub config: Config,
    /// What may change while it runs.
    pub changing: Changing,
    /// Whether addresses, routes and neighbours are the kernel's: all links are then `packet:NAME`.
    pub kernel_routes: bool,
    /// Limit of the screening queue.
    pub screen_queue_pkts: usize,
    /// Nice value of the screening process.
    pub screen_nice: i8,
    /// Where packets go that rules with `log` decide about.
    pub log: Option<PathBuf>,
}

/// What a router reads again when it is asked to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changing {
    /// Screening rules; without any, all packets pass. They can change, but neither come nor go.
    pub rules: Option<Text>,
    /// Static routes and neighbours.
    pub tables: Written,
}

/// What a router's options come to.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// Its links.
    pub links: Vec<String>,
    /// Static routes.
    pub routes: Vec<String>,
    /// Static neighbours.
    pub neighbors: Vec<String>,
    /// Tables and rules; `None` if all packets pass.
    pub rules: Option<String>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, all) in [("link", &self.links), ("route", &self.routes), ("neighbor", &self.neighbors)] {
            all.iter().try_for_each(|one| writeln!(f, "{kind:<8} {one}"))?;
        }
        f.write_str(self.rules.as_deref().unwrap_or("pass in all\n"))
    }
}

/// Why a router could not run.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// A link or the machine.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The rules.
    #[error(transparent)]
    Rules(#[from] Mistake),
    /// A route or neighbour.
    #[error(transparent)]
    Table(#[from] Unusable),
    /// The host does not take an entry.
    #[error("{0}")]
    Entry(String),
    /// The links.
    #[error("{0}")]
    Links(String),
}

impl From<io::Error> for RouterError {
    fn from(error: io::Error) -> Self {
        Self::Site(error.into())
    }
}

impl From<evenkeel_link::LinkError> for RouterError {
    fn from(error: evenkeel_link::LinkError) -> Self {
        Self::Site(error.into())
    }
}

/// Reads again what may have changed, on SIGHUP; the error is shown. Called on a thread of its own.
pub type Reread = Box<dyn FnMut() -> Result<Changing, String> + Send>;
/// Tells people what happened while it runs, in one line.
pub type Say = Box<dyn Fn(&str) + Send>;

/// Screening looks hung when packets have waited for so long and none was judged.
const STALLED: Duration = Duration::from_millis(500);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(250);

impl Router {
    /// Runs until a limit is reached, all links have failed, or the process is asked to end. On SIGHUP it asks `reread` for rules, routes and
    /// neighbours, and goes on with them; if they cannot be used, it says why and goes on as before.
    ///
    /// # Errors
    /// [`RouterError`]
    pub fn run(
        self,
        limits: Limits,
        reread: Reread,
        say: Say,
        watch: impl FnMut(&Routed),
    ) -> Result<Routed, RouterError> {
        Running::start(self, reread, say)?.run(limits, watch)
    }

    /// Whether it could run, as far as that can be said without its devices.
    ///
    /// # Errors
    /// [`RouterError`]
    pub fn check(&self) -> Result<(), RouterError> {
        self.plan().map(|_| ())
    }

    /// What it comes to: links, tables and rules as they were understood.
    ///
    /// # Errors
    /// [`RouterError`]
    pub fn plan(&self) -> Result<Plan, RouterError> {
        let places = self.places()?;
        Tables::of(&self.changing.tables, &places)?;
        let names = places.into_iter().map(|place| place.name).collect();
        let rules = self.changing.rules.as_ref().map(|text| Rulebook::open(text, names)).transpose()?;
        Ok(Plan {
            links: self.links.iter().map(ToString::to_string).collect(),
            routes: self.changing.tables.routes.iter().map(ToString::to_string).collect(),
            neighbors: self.changing.tables.neighbors.iter().map(ToString::to_string).collect(),
            rules: rules.map(|rules| rules.text()),
        })
    }

    fn places(&self) -> Result<Vec<Place>, RouterError> {
        if self.links.len() < 2 {
            return Err(RouterError::Links("a router stands between two links or more".to_owned()));
        }
        for (index, link) in self.links.iter().enumerate() {
            if self.links.iter().take(index).any(|other| other.name == link.name) {
                return Err(RouterError::Links(format!("two links are called `{}`", link.name)));
            }
        }
        if self.kernel_routes {
            for link in &self.links {
                if !matches!(link.device, DeviceSpec::Packet(_)) || !link.addresses.is_empty() {
                    let what =
                        "the kernel's tables are followed on packet:NAME, whose addresses are the kernel's";
                    return Err(RouterError::Links(format!("{link}: {what}")));
                }
            }
        }
        let place = |link: &Link| Place { name: link.name.clone(), addresses: link.addresses.clone() };
        Ok(self.links.iter().map(place).collect())
    }
}

fn open(link: &Link, as_the_kernel: bool, clock: Clock) -> Result<Box<dyn Device>, RouterError> {
    Ok(match &link.device {
        DeviceSpec::Packet(name) if as_the_kernel => {
            // Who asks for the kernel's addresses is told its hardware address, and sends there what we are to forward.
            Box::new(Packet::open(
                name,
                &PacketOptions { address: Address::Device, ..PacketOptions::default() },
            )?)
        }
        DeviceSpec::Tap(name) => {
            let kernel_addresses = link.kernel_addresses.clone();
            Box::new(Tap::open(name, &TapOptions { kernel_addresses, ..TapOptions::default() })?)
        }
        other => evenkeel_link::open(other, clock)?,
    })
}

/// A router that runs.
struct Running {
    engine: Engine,
    lines: Vec<Line>,
    screened: Option<Screened>,
    kernel: Option<Arc<Mutex<KernelReport>>>,
    reloads: Arc<Reloads>,
    stall: Stall,
}

struct Screened {
    process: ProcessId,
    report: Arc<Report>,
    book: Rulebook,
    log: Option<LogHandle>,
}

/// Changes on their way from the thread that reads them to the engine.
#[derive(Debug, Default)]
struct Reloads {
    tables: Mutex<Option<Tables>>,
    done: AtomicU64,
    failed: AtomicU64,
}

impl Running {
    fn start(router: Router, reread: Reread, say: Say) -> Result<Self, RouterError> {
        let places = router.places()?;
        let names: Vec<String> = places.iter().map(|place| place.name.clone()).collect();
        let book =
            router.changing.rules.as_ref().map(|text| Rulebook::open(text, names.clone())).transpose()?;
        let tables = Tables::of(&router.changing.tables, &places)?;
        let clock = Clock::start();
        let mut config = router.config.clone();
        config.stack.forwarding = true;
        config.stack.forward_only = router.kernel_routes;
        config.stack.report_groups &= !router.kernel_routes;
        let mut engine = Engine::new(Host::new(config).map_err(SiteError::from)?, clock)?;
        engine.stop_on(Stop::on_signals()?);
        let lines = attach(&mut engine, &router)?;
        let kernel = if router.kernel_routes { Some(follow_kernel(&mut engine, &router)?) } else { None };
        tables.apply(&Tables::default(), engine.host_mut(), clock.now()).map_err(RouterError::Entry)?;
        let screened = match &book {
            None => None,
            Some(book) => Some(screen(&mut engine, &router, book.clone(), &names)?),
        };
        let reloads = Arc::new(Reloads::default());
        follow_hangups(&mut engine, Reloader { places, book, reread, say }, tables, &reloads)?;
        Ok(Self { engine, lines, screened, kernel, reloads, stall: Stall::default() })
    }

    fn run(mut self, limits: Limits, mut watch: impl FnMut(&Routed)) -> Result<Routed, RouterError> {
        let Self { engine, lines, screened, kernel, reloads, stall } = &mut self;
        let every = limits.every.unwrap_or(LOOK).min(LOOK);
        let mut next_watch = limits.every;
        let (_, elapsed) = drive(
            engine,
            Limits { every: Some(every), ..limits },
            || false,
            |engine, elapsed| {
                let routed =
                    described(engine, lines, screened.as_ref(), kernel.as_ref(), reloads, stall, elapsed);
                if next_watch.is_some_and(|at| elapsed >= at) {
                    next_watch = limits.every.map(|every| elapsed + every);
                    watch(&routed);
                }
            },
        )?;
        if let Some(screened) = screened {
            // Ends the log, too.
            let now = engine.clock().now();
            engine.host_mut().kill(screened.process, now);
            if let Some(error) = screened.report.refused() {
                return Err(SiteError::from(error).into());
            }
        }
        Ok(described(engine, lines, screened.as_ref(), kernel.as_ref(), reloads, stall, elapsed))
    }
}

fn attach(engine: &mut Engine, router: &Router) -> Result<Vec<Line>, RouterError> {
    let mut lines = Vec::new();
    for link in &router.links {
        let device = open(link, router.kernel_routes, *engine.clock())?;
        let status = Some(device.status());
        let interface = engine.add_device(device, &link.addresses).map_err(SiteError::from)?;
        lines.push(Line {
            name: link.name.clone(),
            device: link.device.to_string(),
            interface,
            addresses: link.addresses.iter().map(ToString::to_string).collect(),
            status,
        });
    }
    Ok(lines)
}

fn follow_kernel(engine: &mut Engine, router: &Router) -> Result<Arc<Mutex<KernelReport>>, RouterError> {
    let name = |link: &Link| match &link.device {
        DeviceSpec::Packet(name) => Some(name.clone()),
        DeviceSpec::Tap(_) | DeviceSpec::Pcap(_) => None,
    };
    let names: Vec<String> = router.links.iter().filter_map(name).collect();
    let devices: Vec<&str> = names.iter().map(String::as_str).collect();
    let now = engine.clock().now();
    let mut follower = Follower::open(&devices, engine.host_mut(), now)?;
    let report = follower.report();
    engine.attend(follower.tables().fd(), move |host, now| {
        // What is announced while the kernel is short of memory is asked for again with the next announcement.
        let _ = follower.follow(host, now);
    });
    Ok(report)
}

fn screen(
    engine: &mut Engine,
    router: &Router,
    book: Rulebook,
    names: &[String],
) -> Result<Screened, RouterError> {
    let clock = *engine.clock();
    let log = router.log.as_ref().map(|path| Log::open(path, names, clock)).transpose()?;
    let handle = log.as_ref().map(Log::handle);
    let report = Arc::new(Report::default());
    let program = Screening::new(book.screener(log), router.screen_queue_pkts, Arc::clone(&report));
    let process = engine.host_mut().spawn("screening", router.screen_nice, Box::new(program));
    Ok(Screened { process, report, book, log: handle })
}

/// Reads again what may have changed, on a thread of its own: a large table must not hold up packets.
struct Reloader {
    places: Vec<Place>,
    book: Option<Rulebook>,
    reread: Reread,
    say: Say,
}

fn follow_hangups(
    engine: &mut Engine,
    mut reloader: Reloader,
    mut current: Tables,
    reloads: &Arc<Reloads>,
) -> Result<(), RouterError> {
    let (ask, asked): (Sender<()>, Receiver<()>) = mpsc::channel();
    let (hangup, ready) = (hangup_bell()?, Bell::new()?);
    engine.attend(hangup.fd(), move |_host, _now| {
        if hangup.heard() {
            // The thread ends with the process.
            let _ = ask.send(());
        }
    });
    let (shared, bell) = (Arc::clone(reloads), ready.clone());
    thread::Builder::new().name("reload".to_owned()).spawn(move || {
        for () in asked {
            match reloader.read() {
                Ok((tables, summary)) => {
                    *shared.tables.lock().unwrap_or_else(PoisonError::into_inner) = Some(tables);
                    shared.done.fetch_add(1, Ordering::Relaxed);
                    (reloader.say)(&summary);
                    bell.ring();
                }
                Err(why) => {
                    shared.failed.fetch_add(1, Ordering::Relaxed);
                    (reloader.say)(&format!("{why}; all stays as it was"));
                }
            }
        }
    })?;
    let shared = Arc::clone(reloads);
    engine.attend(ready.fd(), move |host, now| {
        let _ = ready.heard();
        if let Some(tables) = shared.tables.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Checked before, but for the table's limit.
            let _ = tables.apply(&current, host, now);
            current = tables;
        }
    });
    Ok(())
}

impl Reloader {
    fn read(&mut self) -> Result<(Tables, String), String> {
        let changing = (self.reread)()?;
        let tables = Tables::of(&changing.tables, &self.places).map_err(|error| error.to_string())?;
        let (routes, neighbors) = tables.len();
        let mut summary = format!("read again: {routes} routes, {neighbors} neighbours");
        if let (Some(book), Some(text)) = (&self.book, &changing.rules) {
            let rules = book.replace(text).map_err(|mistake| mistake.to_string())?;
            summary.push_str(&format!(", {rules} rules"));
        }
        Ok((tables, summary))
    }
}

fn described(
    engine: &mut Engine,
    lines: &[Line],
    screened: Option<&Screened>,
    kernel: Option<&Arc<Mutex<KernelReport>>>,
    reloads: &Reloads,
    stall: &mut Stall,
    elapsed: Duration,
) -> Routed {
    let now = engine.clock().now();
    let host = engine.host_mut();
    let interfaces: Vec<_> = lines.iter().map(|line| line.interface).collect();
    let books = Books::of_all(host, &interfaces, elapsed);
    let screening = screened.map(|screened| screened.describe(host, stall, now));
    Routed {
        seconds: elapsed.as_secs_f64(),
        forwarded: books.forwarded,
        links: lines.iter().map(|line| line.report(host)).collect(),
        screening,
        routes: host.routes().count() as u64,
        neighbors: host.neighbors(now).count() as u64,
        kernel: kernel.map(|report| report.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        reloads: reloads.done.load(Ordering::Relaxed),
        reloads_failed: reloads.failed.load(Ordering::Relaxed),
        books,
    }
}

impl Screened {
    fn describe(&self, host: &Host, stall: &mut Stall, now: Instant) -> ScreeningReport {
        let (unmatched, malformed) = self.book.others();
        let stalled = stall.look(self.report.judged(), host.waiting_for_verdict() > 0, now);
        ScreeningReport {
            passed: self.report.passed(),
            dropped: self.report.dropped(),
            rejected: self.report.rejected(),
            queue_full: host.ledger().input_drops(QueueDrop::Screen),
            stalled: if stalled >= STALLED { stalled.as_secs_f64() } else { 0.0 },
            unmatched,
            malformed,
            rules: self.book.counts(),
            log: self.log.as_ref().map(LogHandle::state),
        }
    }
}
