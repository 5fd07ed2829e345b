//! Runs of a plan, with the checks at the end.

use std::sync::Arc;

use evenkeel_core::deadline::Deadline;
use evenkeel_core::host::{Config, Host};
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::StreamError;
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::tcp::connection::Error;
use evenkeel_core::tcp::connection::Keepalive;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr};
use evenkeel_sim::machine::{Costs, Machine};
use evenkeel_sim::streams::{Outcome, StreamClient, StreamEcho};
use evenkeel_sim::workload::Log;
use evenkeel_sim::world::{HostId, Port, World};

use crate::plan::{BEGIN, Plan, Station};
use crate::tally::Tally;

const PORT: u16 = 7;
/// The time by which every connection is over, and every TIME-WAIT.
const END: Instant = Instant::from_millis(20_000_000);

fn cidr(number: usize, v6: bool) -> IpCidr {
    let last = number as u8 + 1;
    if v6 {
        IpCidr::new(IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)), 64)
    } else {
        IpCidr::new(IpAddress::v4(10, 0, 0, last), 24)
    }
}

pub(crate) fn run(plan: &Plan, architecture: Architecture) -> Result<Tally, String> {
    let mut world = World::new(plan.seed);
    let segment = world.add_segment();
    let mut hosts = Vec::new();
    for (number, station) in plan.hosts.iter().enumerate() {
        let [up, down] = station.wires;
        let (seed, ring_pkts) = (plan.seed ^ number as u64, station.ring_pkts);
        let port = Port { up, down, ring_pkts, ..Port::new(segment, cidr(number, plan.v6)) };
        let host = world.add_host(config(architecture, seed), costs(station, architecture), &[port]);
        hosts.push(host.map_err(|why| why.to_string())?);
    }
    for &server in &hosts[..plan.servers] {
        world.host_mut(server).spawn("echo", 0, Box::new(StreamEcho::new(PORT, plan.listener).0));
    }
    world.run_until(BEGIN);
    let held = |((_, host), station): ((HostId, &Host), &Station)| {
        let held = Held::by(host);
        // Its ring is filled again only when the next frame arrives.
        Held { buffers: held.buffers.max(station.ring_pkts), ..held }
    };
    let before: Vec<_> = world.hosts().zip(&plan.hosts).map(held).collect();
    let mut tally = Tally::of(plan);
    let outcomes = go(plan, &mut world, &hosts, &mut tally)?;

    for (client, outcomes) in plan.clients.iter().zip(outcomes) {
        let outcomes = outcomes.take();
        if outcomes.len() != client.connections {
            return Err(format!("not all is over: {client:?}, {outcomes:?}"));
        }
        for outcome in outcomes {
            if matches!(outcome, Outcome::Wrong { .. }) || plan.must_work(client) && !is_good(outcome) {
                return Err(format!("{client:?}: {outcome:?}"));
            }
            tally.count(outcome);
        }
    }
    for ((id, host), before) in world.hosts().zip(before) {
        settled(host, &before).map_err(|why| format!("host {}: {why}", id.0))?;
        tally.note_host(host);
    }
    tally.note_world(&world, segment);
    Ok(tally)
}

fn config(architecture: Architecture, seed: u64) -> Config {
    let mut config = Config { seed, ..Config::of(architecture) };
    // The host detects a silent peer.
    Arc::make_mut(&mut config.tcp.connection).keepalive =
        Some(Keepalive { idle: Duration::from_secs(30), interval: Duration::from_secs(10), probes_max: 9 });
    config
}

fn costs(station: &Station, architecture: Architecture) -> Costs {
    if station.slow {
        Machine::built_in("sparcstation-20").expect("a machine").costs(architecture)
    } else {
        Costs::FREE
    }
}

/// A scheduled step of the run: a client begins, or wires change.
#[derive(Clone, Copy)]
enum Step {
    Client(usize),
    Change(usize),
}

/// Runs the plan. Returns the outcomes of each client's connections.
fn go(
    plan: &Plan,
    world: &mut World,
    hosts: &[HostId],
    tally: &mut Tally,
) -> Result<Vec<Log<Outcome>>, String> {
    let clients = plan.clients.iter().enumerate().map(|(n, client)| (BEGIN + client.begins, Step::Client(n)));
    let changes = plan.changes.iter().enumerate().map(|(n, change)| (change.at, Step::Change(n)));
    let mut steps: Vec<_> = clients.chain(changes).collect();
    steps.sort_by_key(|(at, _)| *at);
    let mut logs: Vec<_> = plan.clients.iter().map(|_| Log::default()).collect();
    for (at, step) in steps {
        world.run_until(at);
        match step {
            Step::Client(number) => {
                let client = &plan.clients[number];
                let to = IpEndpoint::new(cidr(client.server, plan.v6).address(), PORT);
                let (program, outcomes) = StreamClient::with_manners(
                    to,
                    client.connections,
                    client.abreast,
                    client.bytes,
                    client.manners,
                );
                world.host_mut(hosts[client.host]).spawn("client", 0, Box::new(program));
                logs[number] = outcomes;
            }
            Step::Change(number) => {
                let change = &plan.changes[number];
                let host = hosts[change.host];
                tally.note_change(change.what, !world.host(host).tcp().is_empty());
                let [up, down] = change.wires;
                world.set_wires(host, 0, up, down);
            }
        }
        for (id, host) in world.hosts() {
            host.check().map_err(|why| format!("host {} at {at:?}: {why}", id.0))?;
        }
    }
    world.run_until(END);
    Ok(logs)
}

/// Returns whether a connection may end so in gentle weather. Three questions in a row for a neighbour's
/// address can be lost even there, and then the connection cannot be opened (EHOSTUNREACH, as in Linux).
const fn is_good(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Echoed | Outcome::Left | Outcome::Failed(StreamError::Failed(Error::Unreachable))
    )
}

/// The resources of a host that must be returned. The host keeps channels for reuse; on an adaptor they
/// have rings.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    processes: usize,
    sockets: usize,
    channels: usize,
    /// Buffers that are in a ring, a queue or a frame.
    buffers: usize,
}

impl Held {
    fn by(host: &Host) -> Self {
        let (free, promised) = host.pool();
        Self {
            processes: host.processes().count(),
            sockets: host.processes().map(|(process, ..)| host.sockets_of(process).len()).sum(),
            channels: host.channel_count(),
            buffers: promised - free,
        }
    }
}

/// Checks that the host has returned all resources.
fn settled(host: &Host, before: &Held) -> Result<(), String> {
    host.check().map_err(|why| why.to_string())?;
    let (tcp, now) = (host.tcp(), Held::by(host));
    let waits = host.deadlines().any(|(who, ..)| who == Deadline::Tcp);
    if !tcp.is_empty() || tcp.waiting() != 0 || waits {
        return Err(format!("connections are left: {tcp:?}"));
    }
    if host.segments_waiting() != 0 || host.queued() != 0 || host.waiting_to_leave() != 0 {
        return Err(format!(
            "left: {} segments, {} frames, {} to leave",
            host.segments_waiting(),
            host.queued(),
            host.waiting_to_leave()
        ));
    }
    let config = host.config();
    let ring_pkts = if config.architecture == Architecture::NiLrp { config.channel_pkts } else { 0 };
    let rings = (now.channels - before.channels) * ring_pkts;
    if (now.processes, now.sockets) != (before.processes, before.sockets)
        || now.buffers > before.buffers + rings
    {
        return Err(format!("it had {before:?} and now has {now:?}"));
    }
    Ok(())
}
