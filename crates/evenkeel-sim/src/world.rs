//! Hosts on simulated CPUs, Ethernet segments between them, traffic sources, and one virtual clock for all.

use std::fmt;

use evenkeel_core::cable::{self, Completion, Options};
use evenkeel_core::host::{AddInterfaceError, Config, Host, PoolLimit};
use evenkeel_core::time::Instant;
use evenkeel_core::wire::{EthernetAddress, IpCidr};

use crate::cpu::Cpu;
use crate::machine::Costs;
use crate::net::{Conditions, Counters, Path};
use crate::packet::destination;
use crate::rng::Rng;
use crate::standstill::{MOST, Standstill};
use crate::trace::Trace;
use crate::traffic::{Flow, Source};
use crate::wire::Wire;

/// The identifier of a host of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostId(pub usize);

/// The identifier of a segment of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentId(pub usize);

/// The identifier of a traffic source of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceId(pub usize);

/// A host's interface on a segment.
#[derive(Debug, Clone)]
pub struct Port {
    /// The segment.
    pub segment: SegmentId,
    /// The host's addresses there.
    pub addresses: Vec<IpCidr>,
    /// Conditions from the host to the segment's switch.
    pub up: Conditions,
    /// Conditions from the switch to the host.
    pub down: Conditions,
    /// The number of frames that the interface's receive ring holds.
    pub ring_pkts: usize,
    /// The number of descriptors of the transmit ring. The adaptor then sends one frame at a time, at the
    /// rate of `up`, and interrupts when it has left. With `None`, the frames leave the adaptor at once,
    /// into the queue of `up`.
    pub transmit_ring_pkts: Option<usize>,
    /// Whether its driver cannot be polled ([`Host::add_legacy_interface`]).
    pub legacy: bool,
}

impl Port {
    /// Creates an interface on a perfect wire, with a receive ring of 64 frames.
    #[must_use]
    pub fn new(segment: SegmentId, address: IpCidr) -> Self {
        let wire = Conditions::PERFECT;
        Self {
            segment,
            addresses: vec![address],
            up: wire,
            down: wire,
            ring_pkts: 64,
            transmit_ring_pkts: None,
            legacy: false,
        }
    }

    /// Sets the conditions of the port's wires in both directions.
    #[must_use]
    pub fn with_conditions(self, conditions: Conditions) -> Self {
        Self { up: conditions, down: conditions, ..self }
    }

    /// Returns the options of the adaptor's half of the cable.
    fn adaptor(&self, name: &str, hardware: EthernetAddress, demultiplexes: bool) -> Options {
        let options =
            Options { address: hardware, ring_pkts: self.ring_pkts, demultiplexes, ..Options::new(name, 0) };
        match self.transmit_ring_pkts {
            Some(transmit_ring_pkts) => {
                Options { completion: Completion::ByPeer, transmit_ring_pkts, ..options }
            }
            None => options,
        }
    }

    /// Returns the rate at which the adaptor sends, and the conditions that are left for the wire.
    fn transmitter(&self) -> (Option<u64>, Conditions) {
        match self.transmit_ring_pkts {
            Some(_) => (self.up.rate_bps, Conditions { rate_bps: None, ..self.up }),
            None => (None, self.up),
        }
    }
}

/// The reason why a host could not be set up.
#[derive(Debug)]
pub enum SetupError {
    /// Its configuration allows too little memory.
    Memory(PoolLimit),
    /// The host does not take an interface.
    Interface(AddInterfaceError),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Interface(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SetupError {}

/// A station at the end of a segment's wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Host { host: usize, interface: usize },
    Source(usize),
}

/// A station's place on a segment: its wires to and from the switch.
#[derive(Debug)]
struct Attachment {
    who: Who,
    hardware: EthernetAddress,
    up: Path,
    down: Path,
}

/// An Ethernet with a switch that takes no time and knows the place of every station.
#[derive(Debug, Default)]
struct Segment {
    attachments: Vec<Attachment>,
}

/// A simulated world. Worlds with equal seeds and equal calls run equally.
#[derive(Debug)]
pub struct World {
    now: Instant,
    rng: Rng,
    trace: Trace,
    hosts: Vec<Cpu>,
    /// The deadline of each host's CPU when it last ran.
    due: Vec<Instant>,
    sources: Vec<Source>,
    segments: Vec<Segment>,
    arrivals_missed: u64,
    standstill: Standstill,
}

impl World {
    /// Creates an empty world whose randomness comes from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            now: Instant::ZERO,
            rng: Rng::new(seed),
            trace: Trace::new(),
            hosts: Vec::new(),
            due: Vec::new(),
            sources: Vec::new(),
            segments: Vec::new(),
            arrivals_missed: 0,
            standstill: Standstill::new(),
        }
    }

    /// Adds a segment without stations.
    pub fn add_segment(&mut self) -> SegmentId {
        self.segments.push(Segment::default());
        SegmentId(self.segments.len() - 1)
    }

    /// Adds a host with interfaces on `ports`.
    ///
    /// # Errors
    /// [`SetupError`] if the configuration cannot be.
    pub fn add_host(&mut self, config: Config, costs: Costs, ports: &[Port]) -> Result<HostId, SetupError> {
        let number = self.hosts.len();
        let demultiplexes = config.architecture == evenkeel_core::receive::Architecture::NiLrp;
        let mut host = Host::new(config).map_err(SetupError::Memory)?;
        let mut wires = Vec::new();
        for (interface, port) in ports.iter().enumerate() {
            let hardware = hardware_address(number, interface);
            let name = format!("h{number}i{interface}");
            let (rate_bps, up) = port.transmitter();
            let inside = port.adaptor(&name, hardware, demultiplexes);
            let (inside, outside) = cable::pair(inside, Options::new("wire", 0));
            let add = if port.legacy { Host::add_legacy_interface } else { Host::add_interface };
            add(&mut host, Box::new(inside), &port.addresses, self.now).map_err(SetupError::Interface)?;
            wires.push(Wire::new(outside, rate_bps));
            let who = Who::Host { host: number, interface };
            self.attach(port.segment, who, hardware, up, port.down);
        }
        self.hosts.push(Cpu::new(host, costs, wires));
        self.due.push(self.now);
        Ok(HostId(number))
    }

    /// Adds a traffic source on a segment; its frames reach the switch over a wire with these conditions.
    pub fn add_source(&mut self, segment: SegmentId, flow: Flow, conditions: Conditions) -> SourceId {
        self.attach_source(segment, conditions, |rng| Source::new(flow, rng))
    }

    /// Adds a source of other frames than datagrams. `make` makes each frame, from the number of earlier
    /// ones and from a random number generator.
    pub fn add_source_of(
        &mut self,
        segment: SegmentId,
        flow: Flow,
        conditions: Conditions,
        make: impl FnMut(u64, &mut Rng) -> Vec<u8> + Send + 'static,
    ) -> SourceId {
        self.attach_source(segment, conditions, |rng| Source::of_frames(flow, rng, make))
    }

    fn attach_source(
        &mut self,
        segment: SegmentId,
        conditions: Conditions,
        make: impl FnOnce(Rng) -> Source,
    ) -> SourceId {
        let number = self.sources.len();
        // The order matters: the random numbers of earlier stations do not change.
        let (up, down) =
            (Path::new(conditions, self.rng.fork()), Path::new(Conditions::PERFECT, self.rng.fork()));
        let source = make(self.rng.fork());
        let hardware = source.flow().from.hardware;
        self.segments[segment.0].attachments.push(Attachment {
            who: Who::Source(number),
            hardware,
            up,
            down,
        });
        self.sources.push(source);
        SourceId(number)
    }

    fn attach(
        &mut self,
        segment: SegmentId,
        who: Who,
        hardware: EthernetAddress,
        up: Conditions,
        down: Conditions,
    ) {
        let (up, down) = (Path::new(up, self.rng.fork()), Path::new(down, self.rng.fork()));
        self.segments[segment.0].attachments.push(Attachment { who, hardware, up, down });
    }

    /// Returns the simulated time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Returns a random number generator for the setup of the world.
    #[must_use]
    pub fn fork_rng(&mut self) -> Rng {
        self.rng.fork()
    }

    /// Returns a host's CPU.
    ///
    /// # Panics
    /// If there is no such host.
    #[must_use]
    pub fn cpu(&self, id: HostId) -> &Cpu {
        &self.hosts[id.0]
    }

    /// Returns a host's CPU, to change its settings.
    ///
    /// # Panics
    /// If there is no such host.
    #[must_use]
    pub fn cpu_mut(&mut self, id: HostId) -> &mut Cpu {
        &mut self.hosts[id.0]
    }

    /// Returns a host.
    ///
    /// # Panics
    /// If there is no such host.
    #[must_use]
    pub fn host(&self, id: HostId) -> &Host {
        self.hosts[id.0].host()
    }

    /// Returns a host, to start programs on it.
    ///
    /// # Panics
    /// If there is no such host.
    #[must_use]
    pub fn host_mut(&mut self, id: HostId) -> &mut Host {
        self.hosts[id.0].host_mut()
    }

    /// Returns all hosts with their ids.
    pub fn hosts(&self) -> impl Iterator<Item = (HostId, &Host)> {
        self.hosts.iter().enumerate().map(|(n, cpu)| (HostId(n), cpu.host()))
    }

    /// Returns the number of frames that a source has sent.
    ///
    /// # Panics
    /// If there is no such source.
    #[must_use]
    pub fn sent(&self, id: SourceId) -> u64 {
        self.sources[id.0].sent()
    }

    /// Returns the number of frames that reached a host but were lost at its interface: its ring was full, or
    /// the interface demultiplexes and no receiver matched.
    #[must_use]
    pub const fn arrivals_missed(&self) -> u64 {
        self.arrivals_missed
    }

    /// Returns the sum of the counters of a segment's wires, over both directions.
    ///
    /// # Panics
    /// If there is no such segment.
    #[must_use]
    pub fn wires(&self, id: SegmentId) -> Counters {
        let paths = self.segments[id.0].attachments.iter().flat_map(|a| [&a.up, &a.down]);
        paths.map(Path::counters).fold(Counters::default(), |a, b| Counters {
            offered: a.offered + b.offered,
            delivered: a.delivered + b.delivered,
            lost: a.lost + b.lost,
            overflowed: a.overflowed + b.overflowed,
            duplicated: a.duplicated + b.duplicated,
            corrupted: a.corrupted + b.corrupted,
            reordered: a.reordered + b.reordered,
        })
    }

    /// Changes the conditions of a host's wires from now on: to the switch and from it. Frames in transit are
    /// not affected, and an adaptor with a transmit ring continues to send at its rate.
    ///
    /// # Panics
    /// If there is no such host, or if it has no such interface.
    pub fn set_wires(&mut self, host: HostId, interface: usize, up: Conditions, down: Conditions) {
        let attachment = self.attachment_mut(host.0, interface).expect("the host has the interface");
        attachment.up.set_conditions(up);
        attachment.down.set_conditions(down);
    }

    /// Ends all faults: from now on every wire keeps its rate and delay, and neither loses, changes,
    /// duplicates nor reorders frames.
    pub fn stop_faults(&mut self) {
        for attachment in self.segments.iter_mut().flat_map(|s| &mut s.attachments) {
            for path in [&mut attachment.up, &mut attachment.down] {
                path.set_conditions(path.conditions().without_faults());
            }
        }
    }

    /// Returns the trace so far, in words and as a hash.
    #[must_use]
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Advances time to `until`.
    ///
    /// # Panics
    /// If a host's work does not end while hardly any time passes. The message describes the work.
    pub fn run_until(&mut self, until: Instant) {
        // This includes started programs, and frames that hosts sent during their setup.
        for host in 0..self.hosts.len() {
            self.run_host(host);
        }
        loop {
            let next = self.next_event();
            if next > until {
                break;
            }
            self.now = self.now.max(next);
            assert!(!self.standstill.is_reached(self.now), "{}", self.standing_still());
            self.step();
        }
        self.now = self.now.max(until);
    }

    /// Describes the hosts and sources that are due while no time passes.
    fn standing_still(&self) -> String {
        let hosts = self.hosts.iter().enumerate().filter(|(_, cpu)| cpu.deadline() <= self.now);
        let hosts: Vec<_> = hosts.map(|(n, cpu)| format!("host {n}: {}", cpu.doing())).collect();
        let sources = self.sources.iter().filter(|source| source.poll_timeout() <= self.now).count();
        format!(
            "the world has gone on {MOST} times within a millisecond, at {:?}: {sources} sources are due; {}",
            self.now,
            hosts.join("; ")
        )
    }

    fn next_event(&self) -> Instant {
        let wires = self.segments.iter().flat_map(|s| &s.attachments);
        let wires = wires.map(|a| a.up.poll_timeout().min(a.down.poll_timeout()));
        let sources = self.sources.iter().map(Source::poll_timeout);
        wires.chain(sources).chain(self.due.iter().copied()).min().unwrap_or(Instant::NEVER)
    }

    /// Runs everything that is due now, in a fixed order.
    fn step(&mut self) {
        for segment in 0..self.segments.len() {
            self.step_segment(segment);
        }
        for host in 0..self.hosts.len() {
            if self.due[host] <= self.now {
                self.run_host(host);
            }
        }
    }

    fn step_segment(&mut self, segment: usize) {
        for index in 0..self.segments[segment].attachments.len() {
            if let Who::Source(source) = self.segments[segment].attachments[index].who {
                while let Some(frame) = self.sources[source].poll_frame(self.now) {
                    self.segments[segment].attachments[index].up.handle_frame(self.now, frame);
                }
            }
            while let Some(frame) = self.segments[segment].attachments[index].up.poll_frame(self.now) {
                self.switch(segment, index, frame);
            }
        }
        for index in 0..self.segments[segment].attachments.len() {
            while let Some(frame) = self.segments[segment].attachments[index].down.poll_frame(self.now) {
                self.arrive(segment, index, &frame);
            }
        }
    }

    /// Forwards a frame to the station with its destination address; to all others if no station has the
    /// address, or if it is a broadcast.
    fn switch(&mut self, segment: usize, from: usize, frame: Vec<u8>) {
        let Some(to) = destination(&frame) else { return };
        let attachments = &mut self.segments[segment].attachments;
        if let Some(attachment) = attachments.iter_mut().find(|a| a.hardware == to) {
            attachment.down.handle_frame(self.now, frame);
            return;
        }
        for (index, attachment) in attachments.iter_mut().enumerate() {
            if index != from {
                attachment.down.handle_frame(self.now, frame.clone());
            }
        }
    }

    fn arrive(&mut self, segment: usize, index: usize, frame: &[u8]) {
        let Who::Host { host, interface } = self.segments[segment].attachments[index].who else { return };
        self.trace.record_bytes(self.now, "arrive", frame);
        if !self.hosts[host].arrive(self.now, interface, frame) {
            self.arrivals_missed += 1;
        }
        self.run_host(host);
    }

    fn run_host(&mut self, host: usize) {
        self.hosts[host].run(self.now);
        while let Some((interface, frame)) = self.hosts[host].poll_frame() {
            self.trace.record_bytes(self.now, "depart", &frame);
            self.depart(host, interface, frame);
        }
        self.due[host] = self.hosts[host].deadline();
    }

    fn depart(&mut self, host: usize, interface: usize, frame: Vec<u8>) {
        let now = self.now;
        if let Some(attachment) = self.attachment_mut(host, interface) {
            attachment.up.handle_frame(now, frame);
        }
    }

    fn attachment_mut(&mut self, host: usize, interface: usize) -> Option<&mut Attachment> {
        let who = Who::Host { host, interface };
        let mut attachments = self.segments.iter_mut().flat_map(|segment| &mut segment.attachments);
        attachments.find(|attachment| attachment.who == who)
    }
}

/// Returns the hardware address of a host's interface.
#[must_use]
pub const fn hardware_address(host: usize, interface: usize) -> EthernetAddress {
    EthernetAddress([0x02, 0, 0, 0, host as u8, interface as u8])
}
