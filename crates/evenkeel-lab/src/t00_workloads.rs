//! The workloads of the soft-timers paper, and the trigger states that a machine passes under each.
//!
//! The web servers are simulated call by call and packet by packet. So is the file server, except for its
//! disk. The player and the build are synthetic: a mix of calls, given here, with packets or disk waits.
//! Their results show that the facility works under such a load, and nothing about the real programs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel::raw::host::Level;
use evenkeel::raw::time::{Duration, Instant};
use evenkeel::raw::wire::{IpCidr, Ipv4Address};
use evenkeel_sim::calls::{Call, Caller, DiskServer, Planned, Varying};
use evenkeel_sim::packet::Station;
use evenkeel_sim::traffic::{Flow, Pattern};
use evenkeel_sim::workload::{Sink, Tally};
use evenkeel_sim::world::{HostId, Port, World, hardware_address};

use crate::t00_gaps::{Gaps, Recorder, State};
use crate::t00_testbed::{BACKING, Bench, Load, Pentium, Server, WARM_UP, config, ethernet, machine};

/// The workload of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Workload {
    Web(Server, Pentium),
    /// ST-Apache, and a process that computes.
    ApacheCompute,
    RealAudio,
    Nfs,
    KernelBuild,
}

impl Workload {
    /// The workloads of figure 2.
    pub(crate) const ON_PENTIUM_II: [Self; 6] = [
        Self::APACHE,
        Self::ApacheCompute,
        Self::Web(Server::Flash, Pentium::Ii),
        Self::RealAudio,
        Self::Nfs,
        Self::KernelBuild,
    ];
    /// The workload of most of the paper.
    pub(crate) const APACHE: Self = Self::Web(Server::Apache, Pentium::Ii);

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Web(Server::Apache, Pentium::Ii) => "ST-Apache",
            Self::Web(Server::Flash, Pentium::Ii) => "ST-Flash",
            Self::Web(Server::Apache, _) => "ST-Apache, PIII",
            Self::Web(Server::Flash, _) => "ST-Flash, PIII",
            Self::ApacheCompute => "ST-Apache-compute",
            Self::RealAudio => "ST-real-audio",
            Self::Nfs => "ST-nfs",
            Self::KernelBuild => "ST-kernel-build",
        }
    }
}

/// The measurements of a workload.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) states: Vec<State>,
    pub(crate) gaps: Gaps,
    /// The share of the time in which the machine was idle.
    pub(crate) idle: f64,
}

/// The length of a run: long enough for 30 000 states of the slowest workload.
const TIME: Duration = Duration::from_secs(1);

/// The recorded traces. Several tables and figures share their runs: each run is made once, or twice if two
/// need it at a time.
static TRACES: Mutex<BTreeMap<(Workload, u64), Arc<Trace>>> = Mutex::new(BTreeMap::new());

pub(crate) fn trace(workload: Workload, seed: u64) -> Arc<Trace> {
    let traces = || TRACES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(trace) = traces().get(&(workload, seed)) {
        return Arc::clone(trace);
    }
    let trace = Arc::new(anew(workload, seed));
    traces().insert((workload, seed), Arc::clone(&trace));
    trace
}

fn anew(workload: Workload, seed: u64) -> Trace {
    let on = if let Workload::Web(_, on) = workload { on } else { Pentium::Ii };
    let (recorder, log) = Recorder::new(on.hz());
    let (mut world, host) = match workload {
        Workload::Web(server, on) => {
            let Bench { world, server, .. } = Bench::new(Load::new(server, on), Box::new(recorder), seed);
            (world, server)
        }
        Workload::ApacheCompute => {
            let load = Load { computes: true, ..Load::new(Server::Apache, Pentium::Ii) };
            let Bench { world, server, .. } = Bench::new(load, Box::new(recorder), seed);
            (world, server)
        }
        Workload::RealAudio | Workload::Nfs | Workload::KernelBuild => alone(workload, recorder, seed),
    };
    let _ = log.take();
    let busy = |world: &World| Level::ALL.map(|level| world.host(host).cpu(level)).iter().sum::<Duration>();
    let before = busy(&world);
    world.run_until(world.now() + TIME);
    let idle = 1.0 - (busy(&world) - before).as_secs_f64() / TIME.as_secs_f64();
    let states = log.take();
    Trace { gaps: Gaps::of(states.iter().copied()), states, idle }
}

/// Sets up a machine whose workload is not web service.
fn alone(workload: Workload, recorder: Recorder, seed: u64) -> (World, HostId) {
    const PORT: u16 = 2_049;
    let (on, address) = (Pentium::Ii, Ipv4Address::new(10, 0, 0, 2));
    let mut world = World::new(seed);
    let segment = world.add_segment();
    let port = Port::new(segment, IpCidr::new(address.into(), 24)).with_conditions(ethernet());
    let costs = machine().costs(evenkeel::raw::receive::Architecture::Eager);
    let host = world.add_host(config(), costs, &[port]).expect("there is room for its interface");
    let (traps, rng) = (Tally::default(), world.fork_rng());
    let varying = Varying { percent: 100, rng };
    let [short, file, map] = ["call-short", "call-file", "call-map"].map(|call| on.program(call));
    let step = |user, call, kernel| Planned { user, call, kernel };
    let (rate_pps, payload_bytes) = match workload {
        // The player reads the time and its descriptors, decodes, and passes sound to the device.
        Workload::RealAudio => {
            let user = on.program("audio-user");
            let mut mix = vec![step(user / 2, Call::Other, short); 6];
            mix.extend(vec![step(user * 2, Call::Other, short); 3]);
            mix.push(step(user, Call::Other, map));
            let player = Caller::new(mix, (0, Duration::ZERO), varying, traps.clone());
            let (sink, _) = Sink::new(PORT, Duration::ZERO);
            world.host_mut(host).spawn("player", 0, Box::new(player));
            world.host_mut(host).spawn("stream", 0, Box::new(sink));
            (30, 600)
        }
        // The build reads and writes files, touches new pages, and computes; one call in fifty waits for the
        // disk.
        Workload::KernelBuild => {
            let user = on.program("build-user");
            let mix = vec![
                step(user / 4, Call::Other, file),
                step(user / 2, Call::Other, file),
                step(user / 2, Call::Fault, map),
                step(user, Call::Fault, map),
                step(user * 3, Call::Other, short),
            ];
            let waits = (2, Duration::from_millis(5));
            let compiler = Caller::new(mix, waits, varying, traps.clone());
            world.host_mut(host).spawn("compiler", 0, Box::new(compiler));
            (1, 100)
        }
        _ => {
            let times = (on.program("nfs-request"), on.program("nfs-disk"));
            let (server, _) = DiskServer::new(PORT, 8_192, times, Varying { percent: 50, ..varying });
            world.host_mut(host).spawn("nfsd", 0, Box::new(server));
            // This is more than the disk can do.
            (300, 120)
        }
    };
    let from =
        Station { hardware: hardware_address(200, 0), address: Ipv4Address::new(10, 0, 0, 200), port: 1_000 };
    let to = Station { hardware: hardware_address(host.0, 0), address, port: PORT };
    let (start, stop, pattern) = (Instant::ZERO, Instant::NEVER, Pattern::Poisson);
    let flow = Flow { from, to, payload_bytes, rate_pps, pattern, start, stop };
    world.add_source(segment, flow, ethernet());
    world.cpu_mut(host).set_clock(BACKING);
    world.cpu_mut(host).set_handlers(Box::new(recorder), traps, on.program("idle-loop"));
    world.run_until(Instant::ZERO + WARM_UP);
    (world, host)
}
