//! A router flooded over cables in memory, to measure its forwarding without root and devices.

use std::sync::Arc;

use evenkeel::Engine;
use evenkeel::raw::cable::{self, End};
use evenkeel::raw::device::Interface as _;
use evenkeel::raw::host::{AddInterfaceError, Config, Host};
use evenkeel::raw::ip::{Route, Via};
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::signal::{ReportRequests, Stop};
use evenkeel::raw::time::{Clock, Duration};
use evenkeel::raw::wire::{EthernetAddress, IpAddress, IpCidr, IpEndpoint};
use schemars::JsonSchema;
use serde::Serialize;

use super::active_rules::{ActiveRules, RuleCount, Text};
use super::error::RouterError;
use super::screen::{Report, Screening};
use crate::counters::HostCounters;
use crate::far_ends::{self, Cables, Offered, Rings};
use crate::host_setup::{PATIENCE, SetupError};
use crate::measure::{CoreTime, Generator, Schedule, drive, opposite, undisturbed};
use crate::requests::{Requests, Shape};

/// The settings of a router and of the flood that it is measured with.
#[derive(Debug, Clone)]
pub struct Flood {
    /// The router's settings.
    pub config: Config,
    /// Screening rules, about the links `lan` (where the flood comes from) and `wan`.
    pub rules: Option<Text>,
    /// The IP packets of the flood, one after the other. If there are none, the flood is datagrams to one
    /// address.
    pub packets: Vec<Vec<u8>>,
    /// Limit of the screening queue.
    pub screen_queue_pkts: usize,
    /// Packets a second, one rate after another; `None` for the highest possible rate.
    pub rates_pps: Vec<Option<u64>>,
    /// The time that each rate is offered.
    pub each: Duration,
    /// Requests for a report.
    pub reports: Option<&'static ReportRequests>,
}

/// A notice to the caller of [`flood`] while it runs.
#[derive(Debug)]
pub enum News<'a> {
    /// The result of one rate.
    Step(&'a Step),
    /// The results of all rates so far, in answer to a request for a report. The current rate is not among
    /// them.
    Report(&'a Flooded),
}

/// The results of a flood.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Flooded {
    /// The results, one for each rate.
    pub steps: Vec<Step>,
    /// The most that was forwarded at any rate, in packets a second.
    pub peak_pps: f64,
    /// The rate forwarded at the last step, divided by the peak; 0 if nothing was forwarded.
    pub retention: f64,
    /// Whether every frame is accounted for, at every rate.
    pub conserved: bool,
}

/// The result of one rate.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Step {
    /// The requested rate; `None` for the highest possible one.
    pub target_pps: Option<u64>,
    /// The rate that was actually offered, in packets a second.
    pub offered_pps: f64,
    /// Packets that came out at the other end during the flood, in packets a second.
    pub forwarded_pps: f64,
    /// The share of the time in which router and generator really had their cores: the smaller of the two.
    pub core_share: f64,
    /// The counters of each rule.
    pub rules: Vec<RuleCount>,
    /// The counters of the host.
    pub counters: HostCounters,
}

/// Numbers of the adaptors: those of the router, and of the peers at its cables.
const LAN_NUMBER: u8 = 1;
const WAN_NUMBER: u8 = 2;
const FLOODER_NUMBER: u8 = 11;
const TARGET_NUMBER: u8 = 12;
/// The time for the router's setup.
const READY: Duration = Duration::from_millis(30);
const WARM_UP: Duration = Duration::from_millis(20);
/// The sizes of rings, for the frames of some milliseconds, because a machine may give a core to others for
/// that long. The router has a transmit descriptor for each frame that a full receive ring holds.
const RINGS: Rings = Rings { receive_pkts: 2048, transmit_pkts: 2048 };
/// The number of steps that may be repeated because the machine was busy.
const REPEATS: usize = 4;

/// Floods a router at each of several rates in turn. Calls `watch` with the result of each, and for each
/// request for a report.
///
/// # Errors
/// [`RouterError`]
pub fn flood(flood: &Flood, mut watch: impl FnMut(News<'_>) + Send) -> Result<Flooded, RouterError> {
    let stop = Stop::on_signals()?;
    let (mut steps, mut repeats) = (Vec::new(), REPEATS);
    for &rate in &flood.rates_pps {
        if stop.requested() {
            break;
        }
        let mut stopped = || {
            if flood.reports.is_some_and(|reports| reports.is_pending() && reports.take()) {
                watch(News::Report(&Flooded::of(steps.clone())));
            }
            stop.requested()
        };
        let once = || flood.at(rate, &mut stopped);
        let step = undisturbed(&mut repeats, |step: &Step| step.core_share, once)?;
        watch(News::Step(&step));
        steps.push(step);
    }
    Ok(Flooded::of(steps))
}

impl Flooded {
    fn of(steps: Vec<Step>) -> Self {
        let peak_pps = steps.iter().map(|step| step.forwarded_pps).fold(0.0, f64::max);
        let last = steps.last().map_or(0.0, |step| step.forwarded_pps);
        let conserved = steps.iter().all(|step| step.counters.conserved);
        Self { steps, peak_pps, retention: if peak_pps > 0.0 { last / peak_pps } else { 0.0 }, conserved }
    }
}

/// The router's own results of a step.
struct Routed {
    core_share: f64,
    rules: Vec<RuleCount>,
    counters: HostCounters,
    in_rings: u64,
}

impl Flood {
    fn at(
        &self,
        rate_pps: Option<u64>,
        stopped: &mut (dyn FnMut() -> bool + Send),
    ) -> Result<Step, RouterError> {
        let clock = Clock::start();
        let schedule = Schedule { start: clock.now() + READY, warm_up: WARM_UP, window: self.each };
        let demultiplexes = self.config.architecture == Architecture::NiLrp;
        let near = |name, number| cable::Options { demultiplexes, ..cable::Options::new(name, number) };
        let far = [FLOODER_NUMBER, TARGET_NUMBER].map(|number| cable::Options::new("", number).address);
        let laid = Cables::lay(far, [near("lan", LAN_NUMBER), near("wan", WAN_NUMBER)], RINGS);
        let (mut cables, ends) = laid.map_err(AddInterfaceError::NoMemory).map_err(SetupError::from)?;
        let frames = self.frames((far[0], ends[0].properties().address))?;
        let (routed, [offered]) = opposite(
            |generator| self.route(ends, far[1], clock, generator),
            |sending, router| {
                let flood = far_ends::Flood { frames, clock, schedule, sending, router };
                flood.run([rate_pps], &mut cables, &mut *stopped)
            },
        )?;
        Ok(describe(rate_pps, routed?, &offered, &mut cables))
    }

    fn route(
        &self,
        ends: [End; 2],
        target: EthernetAddress,
        clock: Clock,
        generator: &Generator,
    ) -> Result<Routed, RouterError> {
        let (mut engine, active) = self.router(ends, target, clock)?;
        let begin = clock.now();
        let start = CoreTime::of(&engine);
        let [_, until] = drive(&mut engine, generator, CoreTime::of)?;
        Ok(Routed {
            core_share: until.core_share_since(&start),
            rules: active.as_ref().map(ActiveRules::counts).unwrap_or_default(),
            counters: HostCounters::of(&engine.snapshot(), clock.now().since(begin)),
            in_rings: engine.host_mut().in_rings(),
        })
    }

    fn router(
        &self,
        [lan, wan]: [End; 2],
        target: EthernetAddress,
        clock: Clock,
    ) -> Result<(Engine, Option<ActiveRules>), RouterError> {
        let mut config = self.config.clone();
        config.stack.forwarding = true;
        let mut engine = Engine::new(Host::new(config).map_err(SetupError::from)?, clock)?;
        engine.stop_on(Stop::on_signals()?);
        let active = self.rules.as_ref().map(|rules| self.screen(&mut engine, rules)).transpose()?;
        engine.add_cable(lan, &[IpCidr::new(IpAddress::v4(10, 77, 1, 1), 24)]).map_err(SetupError::from)?;
        let nets = [IpCidr::new(TARGET_NET, 24), IpCidr::new(TARGET_NET_V6, 64)];
        let wan = engine.add_cable(wan, &nets).map_err(SetupError::from)?;
        for target_address in [TARGET, TARGET_V6] {
            // The peer does not answer ARP or NDP.
            let known = engine.host_mut().set_neighbor(wan, target_address, target, clock.now());
            known.map_err(|error| RouterError::Entry(error.to_string()))?;
            let everything = match target_address {
                IpAddress::Ipv4(_) => IpCidr::new(IpAddress::v4(0, 0, 0, 0), 0),
                IpAddress::Ipv6(_) => IpCidr::new(IpAddress::v6(0, 0, 0, 0, 0, 0, 0, 0), 0),
            };
            let route = Route { to: everything, via: Via::Gateway(wan, target_address), metric: 0 };
            let known = engine.host_mut().set_route(route);
            known.map_err(|error| RouterError::Entry(error.to_string()))?;
        }
        Ok((engine, active))
    }

    fn frames(&self, hardware: (EthernetAddress, EthernetAddress)) -> Result<Requests, RouterError> {
        let shape = Shape {
            hardware,
            from: IpEndpoint::new(IpAddress::v4(10, 77, 1, 2), 20_000),
            to: IpEndpoint::new(TARGET, 9),
            payload: 18,
            flows: 16,
            seed: 1,
        };
        let frames = match &*self.packets {
            [] => Requests::new(&shape),
            packets => Requests::of_packets(hardware, packets),
        };
        frames.map_err(|_| RouterError::Entry("no such packets".to_owned()))
    }

    /// Opens the screening queue of a router before it has links, so that every packet is screened.
    fn screen(&self, engine: &mut Engine, rules: &Text) -> Result<ActiveRules, RouterError> {
        let active = ActiveRules::open(rules, vec!["lan".to_owned(), "wan".to_owned()], 1)?;
        for screener in active.screeners(None, self.config.seed) {
            let report = Arc::new(Report::default());
            let screening = Screening::new(screener, self.screen_queue_pkts, Arc::clone(&report));
            engine.host_mut().require_screening();
            engine.host_mut().spawn("screening", 0, Box::new(screening));
            let until = engine.clock().now() + PATIENCE;
            engine.run(until, |_| report.opened())?;
        }
        Ok(active)
    }
}

fn describe(target_pps: Option<u64>, routed: Routed, offered: &Offered, cables: &mut Cables) -> Step {
    let Routed { core_share, rules, mut counters, in_rings } = routed;
    // The host must have counted the frames that the network sent and received.
    let sent = cables.sent();
    counters.conserved &= offered.frames == sent.accepted + sent.missed + sent.discarded;
    counters.conserved &=
        sent.accepted == counters.received + in_rings && counters.transmitted == cables.came_out();
    Step {
        target_pps,
        offered_pps: offered.offered_pps,
        forwarded_pps: offered.forwarded_pps,
        core_share: core_share.min(offered.core_share),
        rules,
        counters,
    }
}

/// The router's addresses on the far side, and those of the flood's destination.
const TARGET_NET: IpAddress = IpAddress::v4(10, 77, 2, 1);
const TARGET: IpAddress = IpAddress::v4(10, 77, 2, 2);
const TARGET_NET_V6: IpAddress = IpAddress::v6(0xfd77, 2, 0, 0, 0, 0, 0, 1);
const TARGET_V6: IpAddress = IpAddress::v6(0xfd77, 2, 0, 0, 0, 0, 0, 2);
