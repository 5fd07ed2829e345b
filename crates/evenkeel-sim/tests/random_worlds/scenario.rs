//! A random world, and the records of its programs.

use std::collections::BTreeSet;

use evenkeel_core::Scheduling;
use evenkeel_core::drop::Reason;
use evenkeel_core::host::{Config, Host, PaperPolicies, Transmit, TransmitService};
use evenkeel_core::ledger::Ledger;
use evenkeel_core::poll::{
    CycleLimit, Feedback, FeedbackBy, FeedbackScope, Inhibition, NetworkPolling, Quota, TaskWeights,
    TickSampling,
};
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::stack::{InterfaceId, IpEndpoint};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr, Ipv4Address};
use evenkeel_sim::machine::{Costs, Machine};
use evenkeel_sim::net::Conditions;
use evenkeel_sim::packet::Station;
use evenkeel_sim::rng::{Ratio, Rng};
use evenkeel_sim::traffic::{Flow, Pattern};
use evenkeel_sim::workload::{Delivery, Log, Recorder, Sent, Spinner, Talker};
use evenkeel_sim::world::{HostId, Port, SegmentId, SourceId, World, hardware_address};

use crate::middlemen::{Monitor, Screener};
use crate::model::{Inbox, Outbox, Rules, violations};

/// A seed whose world doubles frames, and delivers some twice.
pub(crate) const DUPLICATING_SEED: u64 = 3;

/// The end of faults and blasts.
const FAULTS_END: Instant = Instant::from_millis(1_500);
/// The time by which the effects of faults on caches are gone: a wrong hardware address is used for 30 s,
/// used in doubt for 5 s, probed three times, and requested again three times.
const RECOVERED: Instant = Instant::from_millis(1_500 + 45_000);
/// The end of sending. Every datagram sent between `RECOVERED` and this time must arrive.
const LAST_WORDS: Instant = Instant::from_millis(1_500 + 47_000);
/// The time by which these datagrams must have arrived.
const END: Instant = Instant::from_millis(1_500 + 48_500);

/// The first port of recorders.
const PORTS: u16 = 7_000;
/// The first address of traffic sources.
const SOURCES: u8 = 200;

struct Speaker {
    addresses: Vec<IpAddress>,
    log: Log<Sent>,
    sent: Vec<Sent>,
    /// Whether it speaks after the faults, when everything must get through.
    late: bool,
}

struct Listener {
    host: HostId,
    addresses: Vec<IpAddress>,
    port: u16,
    log: Log<Delivery>,
    got: Vec<Delivery>,
}

struct Blaster {
    source: SourceId,
    address: IpAddress,
    listener: usize,
}

pub(crate) struct Scenario {
    seed: u64,
    rng: Rng,
    world: World,
    conditions: Vec<Conditions>,
    fragments: bool,
    speakers: Vec<Speaker>,
    listeners: Vec<Listener>,
    blasters: Vec<Blaster>,
    hosts: Vec<(HostId, Vec<IpAddress>)>,
    architectures: Vec<Architecture>,
    /// Whether the first host is on both segments and forwards between them.
    routed: bool,
    /// Whether a process of the first host screens forwarded packets.
    screened: bool,
}

impl Scenario {
    pub(crate) fn random(seed: u64) -> Self {
        let mut world = World::new(seed);
        let rng = world.fork_rng();
        let mut scenario = Self {
            seed,
            rng,
            world,
            conditions: Vec::new(),
            fragments: false,
            speakers: Vec::new(),
            listeners: Vec::new(),
            blasters: Vec::new(),
            hosts: Vec::new(),
            architectures: Vec::new(),
            routed: false,
            screened: false,
        };
        scenario.fragments = scenario.rng.chance(Ratio::percent(40));
        scenario.add_hosts();
        scenario.add_listeners();
        scenario.add_speakers();
        scenario.add_blasters();
        scenario
    }

    // --- Setting up ---

    fn add_hosts(&mut self) {
        let segments: Vec<SegmentId> =
            (0..self.rng.between(1, 2)).map(|_| self.world.add_segment()).collect();
        self.routed = segments.len() == 2 && self.rng.chance(Ratio::percent(70));
        self.screened = self.routed && self.rng.chance(Ratio::percent(50));
        for number in 0..self.rng.between(2, 5) as usize {
            // The first host is on every segment, the others on at least one.
            let must = segments[number % segments.len()];
            let on: Vec<SegmentId> = segments
                .iter()
                .copied()
                .filter(|&s| number == 0 || s == must || self.rng.chance(Ratio::percent(50)))
                .collect();
            self.add_host(number, &on);
        }
    }

    fn add_host(&mut self, number: usize, segments: &[SegmentId]) {
        let mut conditions = self.random_conditions();
        if number == 0 && self.routed {
            // A forwarded packet crosses two wires that flip bits.
            conditions.corruption = Ratio::ZERO;
        }
        let ports: Vec<Port> = segments
            .iter()
            .map(|&segment| Port {
                addresses: addresses_of(segment, number),
                up: Conditions { corruption: Ratio::ZERO, ..conditions },
                down: conditions,
                ring_pkts: self.rng.between(16, 64) as usize,
                transmit_ring_pkts: self
                    .rng
                    .chance(Ratio::percent(50))
                    .then(|| self.rng.between(2, 32) as usize),
                ..Port::new(segment, addresses_of(segment, number)[0])
            })
            .collect();
        let mut config = Self::with_paper_policies(self.random_config());
        config.stack.forwarding = number == 0 && self.routed;
        let costs = self.random_costs(config.architecture);
        self.architectures.push(config.architecture);
        self.conditions.push(conditions);
        let host = self.world.add_host(config, costs, &ports).expect("a host of these sizes can be");
        let addresses = ports.iter().flat_map(|p| &p.addresses).map(IpCidr::address).collect();
        if self.rng.chance(Ratio::percent(30)) {
            self.world.host_mut(host).spawn("spinner", 20, Box::new(Spinner));
        }
        if self.rng.chance(Ratio::percent(30)) {
            let monitor = Monitor::new(self.world.fork_rng());
            self.world.host_mut(host).spawn("monitor", 0, Box::new(monitor));
        }
        if number == 0 && self.screened {
            self.spawn_screener(host);
        }
        if let (true, [segment]) = (self.routed, segments) {
            self.add_routes(host, *segment);
        }
        self.hosts.push((host, addresses));
    }

    fn spawn_screener(&mut self, host: HostId) {
        let screener = Screener::new(self.world.fork_rng(), FAULTS_END);
        self.world.host_mut(host).spawn("screener", 0, Box::new(screener));
    }

    /// Adds routes from a host on one segment to the other segment, through the first host.
    fn add_routes(&mut self, host: HostId, segment: SegmentId) {
        let other = 1 - segment.0;
        let prefixes = [
            IpCidr::new(IpAddress::v4(10, 0, other as u8, 0), 24),
            IpCidr::new(IpAddress::v6(0xfd00, other as u16, 0, 0, 0, 0, 0, 0), 64),
        ];
        for (to, gateway) in prefixes.into_iter().zip(addresses_of(segment, 0)) {
            let added = self.world.host_mut(host).add_route(to, gateway.address(), InterfaceId(0));
            added.expect("the gateway is on the link");
        }
    }

    fn random_feedback(&mut self) -> Option<Feedback> {
        let timeout = self.rng.duration(Duration::from_millis(5)) + Duration::from_micros(100);
        let (all, resume_on_space) =
            (self.rng.chance(Ratio::percent(50)), self.rng.chance(Ratio::percent(70)));
        let scope = if all { FeedbackScope::All } else { FeedbackScope::Feeding };
        let feedback = Feedback { timeout, resume_on_space, scope, ..Feedback::default() };
        self.rng.chance(Ratio::percent(70)).then_some(feedback)
    }

    fn random_cycle_limit(&mut self) -> Option<CycleLimit> {
        let limit = CycleLimit {
            period: self.rng.duration(Duration::from_millis(20)) + Duration::from_millis(1),
            percent: self.rng.between(10, 100) as u8,
        };
        self.rng.chance(Ratio::percent(30)).then_some(limit)
    }

    fn random_config(&mut self) -> Config {
        let architecture = *self.rng.choose(&Architecture::ALL).expect("there are some");
        let polled = self.rng.chance(Ratio::percent(50));
        let decay = self.rng.chance(Ratio::percent(50));
        let quota = match self.rng.below(5) {
            0 => Quota::Dynamic,
            1 => Quota::Unlimited,
            _ => Quota::Fixed(self.rng.between(1, 16) as usize),
        };
        let feedback = self.random_feedback();
        let (paper_policies, cycle_limit) = self.random_limits();
        Config {
            device_work: if polled { DeviceWork::Polled } else { DeviceWork::Interrupt },
            quota,
            feedback,
            paper_policies,
            cycle_limit,
            output_queue_pkts: self.rng.between(8, 64) as usize,
            forward_nice: self.rng.between(0, 20) as i8 - 10,
            ip_queue_pkts: self.rng.between(8, 64) as usize,
            socket_queue_pkts: self.rng.between(8, 64) as usize,
            channel_pkts: self.rng.between(8, 64) as usize,
            batch_pkts: self.rng.between(1, 16) as usize,
            scheduler: if decay { Scheduling::DecayUsage } else { Scheduling::Stride },
            seed: self.rng.next_u64(),
            ..Config::of(architecture)
        }
    }

    fn random_limits(&mut self) -> (PaperPolicies, Option<CycleLimit>) {
        let output_feedback = self.rng.chance(Ratio::percent(20));
        let inhibitions = [Inhibition::AtOnce, Inhibition::AfterCallback];
        let inhibition = *self.rng.choose(&inhibitions).expect("there are some");
        let cycle_limit = self.random_cycle_limit();
        let limit_interrupts = self.rng.chance(Ratio::percent(30));
        let clocked = self.rng.chance(Ratio::percent(20));
        let clocked_interrupts =
            clocked.then(|| self.rng.duration(Duration::from_millis(3)) + Duration::from_micros(500));
        let transmits = [Transmit::Latency, Transmit::Throughput];
        let transmit = *self.rng.choose(&transmits).expect("there are some");
        let services = [TransmitService::InTurn, TransmitService::ReceiveFirst, TransmitService::LowerLevel];
        let transmit_service = *self.rng.choose(&services).expect("there are some");
        let policies = PaperPolicies {
            output_feedback,
            inhibition,
            limit_interrupts,
            clocked_interrupts,
            transmit,
            transmit_service,
            ..PaperPolicies::default()
        };
        (policies, cycle_limit)
    }

    /// Adds policies that the livelock paper names in addition to its own, each with a probability of 20 %.
    fn with_paper_policies(config: Config) -> Config {
        let mut rng = Rng::new(config.seed);
        let mut seldom = || rng.chance(Ratio::percent(20));
        let (by_length, samples, tasks) = (seldom(), seldom(), seldom());
        let sampling = TickSampling {
            tick: rng.duration(Duration::from_millis(2)) + Duration::from_micros(100),
            samples: rng.between(1, 5) as u32,
            pause_ticks: rng.between(1, 10) as u32,
        };
        let weights = TaskWeights { receive: rng.between(1, 5) as u16, transmit: rng.between(1, 5) as u16 };
        let polls = rng.chance(Ratio::percent(20)).then(|| NetworkPolling::new(rng.between(1, 15) as u32));
        let by = if by_length { FeedbackBy::Length } else { FeedbackBy::Marks };
        Config { feedback: config.feedback.map(|f| Feedback { by, ..f }), ..config }.with_paper_policies(
            |a| {
                a.tick_sampling = samples.then_some(sampling);
                a.real_time_tasks = tasks.then_some(weights);
                a.network_polling = polls;
            },
        )
    }

    fn random_costs(&mut self, architecture: Architecture) -> Costs {
        let names: Vec<&str> = Machine::names().collect();
        match self.rng.choose(&names) {
            Some(name) if self.rng.chance(Ratio::percent(80)) => {
                Machine::built_in(name).expect("built-in models are sound").costs(architecture)
            }
            _ => Costs::FREE,
        }
    }

    fn random_conditions(&mut self) -> Conditions {
        let percent = |rng: &mut Rng, most| match rng.below(3) {
            0 => Ratio::ZERO,
            _ => Ratio::percent(rng.between(0, most) as u32),
        };
        let rng = &mut self.rng;
        Conditions {
            rate_bps: *rng.choose(&[None, Some(10_000_000), Some(100_000_000)]).expect("there are some"),
            delay: rng.duration(Duration::from_millis(3)),
            jitter: rng.duration(Duration::from_millis(1)),
            queue_pkts: rng.between(16, 100) as usize,
            loss: percent(rng, 10),
            duplication: percent(rng, 5),
            // Checksums notice one flipped bit in a datagram but not always two, so only one wire of two
            // flips any, and only where a datagram is one frame.
            corruption: if self.fragments { Ratio::ZERO } else { percent(rng, 5) },
            reordering: percent(rng, 10),
            reordering_delay: rng.duration(Duration::from_millis(5)),
        }
    }

    fn add_listeners(&mut self) {
        for (host, addresses) in self.hosts.clone() {
            for port in PORTS..PORTS + self.rng.between(1, 3) as u16 {
                let (recorder, log) = Recorder::new(port);
                self.world.host_mut(host).spawn("recorder", 0, Box::new(recorder));
                self.listeners.push(Listener {
                    host,
                    addresses: addresses.clone(),
                    port,
                    log,
                    got: Vec::new(),
                });
            }
        }
    }

    fn add_speakers(&mut self) {
        for (host, addresses) in self.hosts.clone() {
            for _ in 0..self.rng.between(1, 2) {
                let gap = self.rng.duration(Duration::from_millis(20)) + Duration::from_micros(200);
                self.add_speaker(host, &addresses, gap, FAULTS_END);
            }
        }
    }

    fn add_speaker(&mut self, host: HostId, addresses: &[IpAddress], gap: Duration, until: Instant) {
        let late = until > FAULTS_END;
        let peers = self.peers_of(addresses);
        let (talker, log) = Talker::new(self.speakers.len() as u64, peers, gap, until, self.world.fork_rng());
        let bytes_max = if self.fragments && !late { 6_000 } else { 1_000 };
        let talker = talker.with_payload_bytes_max(bytes_max);
        self.world.host_mut(host).spawn("talker", 0, Box::new(talker));
        self.speakers.push(Speaker { addresses: addresses.to_vec(), log, sent: Vec::new(), late });
    }

    /// Returns the listeners on other hosts: those with addresses on a shared segment, or all if a host
    /// forwards.
    fn peers_of(&self, addresses: &[IpAddress]) -> Vec<IpEndpoint> {
        let others = self.listeners.iter().filter(|l| l.addresses != addresses);
        let all = others.flat_map(|l| l.addresses.iter().map(|&address| IpEndpoint::new(address, l.port)));
        let near = |to: &IpAddress| addresses.iter().any(|from| segment_of(from) == segment_of(to));
        all.filter(|to| self.routed || near(&to.addr)).collect()
    }

    fn add_blasters(&mut self) {
        for number in 0..self.rng.between(0, 2) as u8 {
            let listener = self.rng.below(self.listeners.len() as u64) as usize;
            let Listener { host, ref addresses, port, .. } = self.listeners[listener];
            let Some(IpAddress::Ipv4(to)) = addresses.first().copied() else { continue };
            let mut segment = SegmentId(usize::from(to.octets()[2]));
            // A host's first interface is on the first of its segments, and so is its first address.
            let mut hardware = hardware_address(host.0, 0);
            if self.routed && host != self.hosts[0].0 && self.rng.chance(Ratio::percent(50)) {
                // The packets come from the other segment, through the router.
                segment = SegmentId(1 - segment.0);
                hardware = hardware_address(0, segment.0);
            }
            let to = Station { hardware, address: to, port };
            let name = SOURCES + number;
            let address = Ipv4Address::new(10, 0, segment.0 as u8, name);
            let from = Station { hardware: hardware_address(usize::from(name), 0), address, port: 9 };
            let flow = Flow {
                from,
                to,
                payload_bytes: self.rng.between(8, 64) as usize,
                rate_pps: self.rng.between(100, 25_000),
                pattern: Pattern::Bursts { mean_pkts: Ratio::new(3, 1), gap: Duration::from_micros(10) },
                start: Instant::from_millis(200),
                stop: FAULTS_END,
            };
            let source = self.world.add_source(segment, flow, Conditions::PERFECT);
            self.blasters.push(Blaster { source, address: address.into(), listener });
        }
    }

    // --- Running ---

    pub(crate) fn run_with_faults(&mut self) {
        self.world.run_until(Instant::from_millis(700));
        self.check_conservation();
        self.world.run_until(FAULTS_END);
        self.check_conservation();
        self.collect();
    }

    /// Runs the world after the end of faults. Every datagram that is sent from then on must arrive.
    pub(crate) fn run_without_faults(&mut self) {
        self.world.stop_faults();
        if self.screened {
            // The previous one may have ended.
            self.spawn_screener(self.hosts[0].0);
        }
        for (host, addresses) in self.hosts.clone() {
            self.add_speaker(host, &addresses, Duration::from_millis(100), LAST_WORDS);
        }
        self.world.run_until(END);
        self.check_conservation();
        self.collect();
    }

    fn check_conservation(&self) {
        for (id, host) in self.world.hosts() {
            host.check().unwrap_or_else(|imbalance| panic!("host {}: {imbalance}", id.0));
        }
    }

    fn collect(&mut self) {
        for speaker in &mut self.speakers {
            speaker.sent.extend(speaker.log.take());
        }
        for listener in &mut self.listeners {
            listener.got.extend(listener.log.take());
        }
    }

    // --- Judging ---

    /// Returns the rules that the faults of this world imply.
    pub(crate) fn rules(&self) -> Rules {
        let duplicates = self.conditions.iter().any(|c| c.duplication != Ratio::ZERO);
        let reorders = self.conditions.iter().any(|c| c.reordering != Ratio::ZERO);
        // A frame crosses two wires, or four, each of which may duplicate it. Fragments wait for their first,
        // so other datagrams may pass them.
        let copies_max = match (duplicates, self.routed) {
            (false, _) => 1,
            (true, false) => 4,
            (true, true) => 16,
        };
        Rules { copies_max, ordered: !reorders && !self.fragments }
    }

    pub(crate) fn violations(&self, rules: Rules) -> Vec<String> {
        let blasted: Vec<IpAddress> = self.blasters.iter().map(|b| b.address).collect();
        let outbox = |s: &Speaker| Outbox { host_addresses: s.addresses.clone(), sent: s.sent.clone() };
        let inbox = |l: &Listener| Inbox {
            host_addresses: l.addresses.clone(),
            port: l.port,
            got: l.got.iter().filter(|d| !blasted.contains(&d.from.addr)).cloned().collect(),
        };
        let outboxes: Vec<Outbox> = self.speakers.iter().map(outbox).collect();
        let inboxes: Vec<Inbox> = self.listeners.iter().map(inbox).collect();
        let mut found = violations(&outboxes, &inboxes, rules);
        self.judge_blasts(rules, &mut found);
        self.judge_last_words(&mut found);
        found
    }

    /// Checks that nothing waits anywhere when no program has sent anything for a while, except fragments
    /// of incomplete datagrams. Hosts still probe their neighbours, so each has a second to be seen at rest
    /// once.
    pub(crate) fn judge_rest(&mut self) -> Vec<String> {
        let fragments = self.fragments;
        let waits = |host: &Host| (if fragments { 0 } else { host.queued() }, host.waiting_to_leave());
        let mut restless = Vec::new();
        for look in 0..20 {
            self.world.run_until(END + look * Duration::from_millis(50));
            let waiting = self.world.hosts().map(|(id, host)| (id.0, waits(host)));
            let waiting = waiting.filter(|&(id, waits)| {
                waits != (0, 0) && (look == 0 || restless.iter().any(|&(other, _)| other == id))
            });
            restless = waiting.collect();
        }
        restless.iter().map(|(id, waits)| format!("host {id} does not come to rest: {waits:?}")).collect()
    }

    /// Checks the datagrams of traffic sources, which carry numbers: each was sent, arrived no more often
    /// than allowed, and only at its socket.
    fn judge_blasts(&self, rules: Rules, found: &mut Vec<String>) {
        for blaster in &self.blasters {
            let sent = self.world.sent(blaster.source);
            let mut copies = std::collections::BTreeMap::new();
            for (index, listener) in self.listeners.iter().enumerate() {
                for delivery in listener.got.iter().filter(|d| d.from.addr == blaster.address) {
                    let number = delivery.payload.first_chunk().copied().map(u64::from_be_bytes);
                    let count: &mut usize = copies.entry(number).or_default();
                    *count += 1;
                    let known =
                        number.is_some_and(|n| n < sent) && delivery.payload[8..].iter().all(|&b| b == 0);
                    if index != blaster.listener || !known || *count > rules.copies_max {
                        found.push(format!(
                            "blast of {}: {delivery:?} at listener {index}, {count} times",
                            blaster.address
                        ));
                    }
                }
            }
        }
    }

    /// Checks liveness: datagrams sent long after the end of the faults have arrived.
    fn judge_last_words(&self, found: &mut Vec<String>) {
        let got: BTreeSet<&[u8]> =
            self.listeners.iter().flat_map(|l| &l.got).map(|d| d.payload.as_slice()).collect();
        for (index, speaker) in self.speakers.iter().enumerate().filter(|(_, s)| s.late) {
            for sent in
                speaker.sent.iter().filter(|s| s.at >= RECOVERED && !got.contains(s.payload.as_slice()))
            {
                found.push(format!(
                    "sender {index}: datagram sent at {:?} to {} never arrived",
                    sent.at, sent.to
                ));
            }
        }
    }

    /// Returns the number of forwarded packets, and the counts of every drop reason.
    pub(crate) fn happenings(&self) -> (u64, BTreeSet<Reason>) {
        let ledgers = || self.world.hosts().map(|(_, host)| host.ledger());
        let reasons = ledgers().flat_map(Ledger::drops).map(|(reason, ..)| reason);
        (ledgers().map(|l| l.forwarded).sum(), reasons.collect())
    }

    pub(crate) fn trace_hash(&self) -> u64 {
        self.world.trace().hash()
    }

    pub(crate) fn deliveries(&self) -> usize {
        self.listeners.iter().map(|l| l.got.len()).sum()
    }

    pub(crate) fn describe(&self) -> String {
        let ledgers: Vec<String> = self
            .world
            .hosts()
            .map(|(id, host)| {
                let drops: Vec<String> =
                    host.ledger().drops().map(|(r, i, o)| format!("{r} {i}/{o}")).collect();
                format!(
                    "host {} ({}), {:?}: dropped {}",
                    id.0,
                    self.architectures[id.0],
                    self.conditions[id.0],
                    drops.join(", ")
                )
            })
            .collect();
        format!("seed {}\n{}\nlast events:\n{}", self.seed, ledgers.join("\n"), self.world.trace().recent())
    }
}

/// Returns the addresses of a host: 10.0.segment.host/24 and fd00:segment::host/64.
fn addresses_of(segment: SegmentId, host: usize) -> Vec<IpCidr> {
    let v4 = IpAddress::v4(10, 0, segment.0 as u8, 1 + host as u8);
    let v6 = IpAddress::v6(0xfd00, segment.0 as u16, 0, 0, 0, 0, 0, 1 + host as u16);
    vec![IpCidr::new(v4, 24), IpCidr::new(v6, 64)]
}

fn segment_of(address: &IpAddress) -> u16 {
    match address {
        IpAddress::Ipv4(v4) => u16::from(v4.octets()[2]),
        IpAddress::Ipv6(v6) => v6.segments()[1],
    }
}
