//! All figures of a host at one moment.

use std::borrow::Cow;
use std::collections::BTreeMap;

use evenkeel_core::drop::{LinkDrop, Reason};
use evenkeel_core::host::Host;
use evenkeel_core::ledger::{Imbalance, Ledger};
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::time::Duration;

use super::cpu::CpuTimes;
use super::interface::{Interface, interfaces};
use super::owned::{Process, Socket, processes, sockets};
use super::tcp::Tcp;
use crate::observer::Observer;

/// All figures of a host at one moment: plain data, without a reference to the host.
///
/// Counters count from the start of the host. Two snapshots of a host have a difference
/// ([`Snapshot::since`]), from which rates are made.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Snapshot {
    /// The time since the clock of the host started, in seconds.
    #[cfg_attr(feature = "json", serde(rename = "seconds", with = "super::json::seconds"))]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub elapsed: Duration,
    /// The account of every frame.
    pub frames: Frames,
    /// The dropped frames, by place and reason.
    pub drops: Vec<Dropped>,
    /// The time of the core, in seconds.
    #[cfg_attr(feature = "json", serde(rename = "cpu_seconds"))]
    pub cpu: CpuTimes,
    /// The interfaces of the host.
    pub interfaces: Vec<Interface>,
    /// The processes of the host, including daemons, and the bill of each.
    pub processes: Vec<Process>,
    /// The sockets that have a queue of their own: UDP sockets, listeners, the screening queue, capture
    /// queues.
    pub sockets: Vec<Socket>,
    /// The figures of TCP.
    pub tcp: Tcp,
}

/// The account of every frame of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Frames {
    /// Frames taken from the interfaces.
    pub received: u64,
    /// Copies made for further members of a multicast group.
    pub duplicated: u64,
    /// Frames whose payload a program has received.
    pub delivered: u64,
    /// Frames that ended inside the host: ARP, NDP, ICMP, IGMP, MLD.
    pub consumed: u64,
    /// Frames for another host that were forwarded.
    pub forwarded: u64,
    /// Frames inside the host that are not delivered yet.
    pub queued: u64,
    /// Frames that this host created for sending.
    pub originated: u64,
    /// Frames handed to an interface.
    pub transmitted: u64,
    /// Outgoing frames that wait for a neighbour's address or in an output queue.
    pub waiting: u64,
}

/// Frames dropped at one place for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Drop"))]
pub struct Dropped {
    /// The reason of the drop, by its name.
    pub reason: Cow<'static, str>,
    /// The place of the drop: an interface's ring, a named queue, a socket.
    pub place: Cow<'static, str>,
    /// The number of frames dropped.
    pub frames: u64,
}

impl Dropped {
    fn new(reason: Reason, place: &'static str, frames: u64) -> Self {
        Self { reason: reason.name().into(), place: place.into(), frames }
    }

    /// Creates the entry of `frames` that an interface dropped.
    #[must_use]
    pub fn on_interface(reason: impl Into<Reason>, frames: u64) -> Self {
        let reason = reason.into();
        Self::new(reason, reason.place_on_interface(), frames)
    }

    /// Returns whether an interface dropped the frames, before the host had them.
    #[must_use]
    pub fn is_on_interface(&self) -> bool {
        Reason::PLACES_ON_INTERFACE.contains(&&*self.place)
    }

    /// Returns whether both stand for one reason and place.
    fn is_as(&self, other: &Self) -> bool {
        (&self.reason, &self.place) == (&other.reason, &other.place)
    }

    /// Returns whether the frames were to be sent.
    fn is_output(&self) -> bool {
        self.place == Reason::OUTPUT_PLACE
    }

    /// Returns the entries of the frames that the interfaces of a host dropped before it had them.
    fn on_interfaces(host: &Host) -> impl Iterator<Item = Self> {
        let mut all = BTreeMap::new();
        for (_, number) in host.interfaces().zip(0..) {
            for (reason, frames) in host.untaken(InterfaceId(number)).dropped {
                *all.entry(reason).or_default() += frames;
            }
        }
        all.into_iter().map(|(reason, frames)| Self::on_interface(reason, frames))
    }

    /// Returns the entries of the frames that a ledger counts as dropped.
    fn of(ledger: &Ledger) -> impl Iterator<Item = Self> {
        ledger.drops().flat_map(|(reason, input, output)| {
            let input = (input > 0).then(|| Self::new(reason, reason.place(), input));
            let output = (output > 0).then(|| Self::new(reason, Reason::OUTPUT_PLACE, output));
            input.into_iter().chain(output)
        })
    }
}

impl Frames {
    fn of(host: &Host) -> Self {
        let ledger = host.ledger();
        Self {
            received: ledger.received,
            duplicated: ledger.duplicated,
            delivered: ledger.delivered,
            consumed: ledger.consumed,
            forwarded: ledger.forwarded,
            queued: host.queued(),
            originated: ledger.originated,
            transmitted: ledger.transmitted,
            waiting: host.held(),
        }
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            received: self.received.saturating_sub(earlier.received),
            duplicated: self.duplicated.saturating_sub(earlier.duplicated),
            delivered: self.delivered.saturating_sub(earlier.delivered),
            consumed: self.consumed.saturating_sub(earlier.consumed),
            forwarded: self.forwarded.saturating_sub(earlier.forwarded),
            originated: self.originated.saturating_sub(earlier.originated),
            transmitted: self.transmitted.saturating_sub(earlier.transmitted),
            // These are no counters.
            queued: self.queued,
            waiting: self.waiting,
        }
    }
}

impl Snapshot {
    /// Takes a snapshot of `host` at `elapsed`. `observer` has the figures that the host does not count.
    #[must_use]
    pub fn of(host: &Host, observer: &Observer, elapsed: Duration) -> Self {
        let mut snapshot = Self::default();
        snapshot.read(host, elapsed);
        snapshot.complete(observer);
        snapshot
    }

    /// Reads the figures of the host and of its interfaces, into the memory of an earlier snapshot.
    pub(super) fn read(&mut self, host: &Host, elapsed: Duration) {
        self.elapsed = elapsed;
        self.frames = Frames::of(host);
        refill(&mut self.drops, Dropped::on_interfaces(host).chain(Dropped::of(host.ledger())));
        self.cpu = CpuTimes::of_levels(host);
        refill(&mut self.interfaces, interfaces(host));
        refill(&mut self.processes, processes(host));
        refill(&mut self.sockets, sockets(host));
        self.tcp.read(host);
    }

    /// Adds the figures that the host does not have: the time of its thread, and the system's of its devices.
    pub(super) fn complete(&mut self, observer: &Observer) {
        self.cpu = self.cpu.with(observer.core());
        let devices = observer.devices();
        for device in &devices {
            let served = |own: &&mut Interface| own.number == device.interface.0;
            if let Some(interface) = self.interfaces.iter_mut().find(served) {
                interface.complete(device);
            }
        }
        let before = devices.iter().map(|device| device.missed_before).sum();
        self.add_drop(Dropped::on_interface(LinkDrop::RingFull, before));
    }

    fn add_drop(&mut self, more: Dropped) {
        match self.drops.iter_mut().find(|drop| drop.is_as(&more)) {
            Some(drop) => drop.frames += more.frames,
            None if more.frames > 0 => self.drops.insert(0, more),
            None => {}
        }
    }

    /// Returns the number of dropped frames, for any reason.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|dropped| dropped.frames).sum()
    }

    /// Checks that every frame is accounted for. The sums on the way in are
    /// `received + duplicated = delivered + consumed + forwarded + dropped + queued`, and on the way out
    /// `originated + forwarded = transmitted + dropped + waiting`. Frames that an interface dropped are on
    /// neither side, because the host never had them. Of these, `received + missed + discarded + in_rings` of
    /// an [`Interface`] has all that came for the host, if its device counts what it drops.
    ///
    /// A difference of snapshots does not balance, because frames queued earlier may end in it.
    ///
    /// # Errors
    /// [`Imbalance`] of the side that does not balance, which is a bug of the host.
    pub fn check(&self) -> Result<(), Imbalance> {
        let Frames { received, duplicated, delivered, consumed, forwarded, queued, .. } = self.frames;
        let Frames { originated, transmitted, waiting, .. } = self.frames;
        let dropped = |output| {
            let side = self.drops.iter().filter(|drop| !drop.is_on_interface() && drop.is_output() == output);
            side.map(|drop| drop.frames).sum::<u64>()
        };
        let (came, went) =
            (received + duplicated, delivered + consumed + forwarded + dropped(false) + queued);
        if came != went {
            return Err(Imbalance { side: "input", came, went });
        }
        let (came, went) = (originated + forwarded, transmitted + dropped(true) + waiting);
        if came != went {
            return Err(Imbalance { side: "output", came, went });
        }
        Ok(())
    }

    /// Returns what has been added since `earlier`, a previous snapshot of the same host. What is no counter,
    /// such as the number of queued frames, stays as it is now. Processes and sockets that have ended in
    /// between are not included.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let drops = self.drops.iter().map(|now| {
            let before = earlier.drops.iter().find(|old| old.is_as(now)).map_or(0, |old| old.frames);
            Dropped { frames: now.frames.saturating_sub(before), ..now.clone() }
        });
        Self {
            elapsed: self.elapsed.saturating_sub(earlier.elapsed),
            frames: self.frames.since(&earlier.frames),
            drops: drops.filter(|dropped| dropped.frames > 0).collect(),
            cpu: self.cpu.since(&earlier.cpu),
            interfaces: Interface::all_since(&self.interfaces, &earlier.interfaces),
            processes: Process::all_since(&self.processes, &earlier.processes),
            sockets: Socket::all_since(&self.sockets, &earlier.sockets),
            tcp: self.tcp.since(&earlier.tcp),
        }
    }
}

/// Replaces the contents of a vector, and keeps its memory.
fn refill<T>(vector: &mut Vec<T>, contents: impl Iterator<Item = T>) {
    vector.clear();
    vector.extend(contents);
}

#[cfg(test)]
mod tests {
    use evenkeel_core::cable::{self, End, Options};
    use evenkeel_core::host::{Config, System};
    use evenkeel_core::process::ProcessId;
    use evenkeel_core::receive::Architecture;
    use evenkeel_core::system::UdpSocket;
    use evenkeel_core::wire::{IpAddress, IpCidr, IpEndpoint};

    use evenkeel_link::Clock;

    use super::*;
    use crate::Engine;

    const PORT: u16 = 7;

    /// A host with a socket, and one that sends datagrams to it.
    struct Pair {
        receiving: (Engine, ProcessId),
        sending: (Engine, ProcessId),
        sockets: [UdpSocket; 2],
    }

    fn address(number: u8) -> IpAddress {
        IpAddress::v4(10, 0, 0, number)
    }

    fn host(config: Config, end: End, number: u8) -> (Engine, ProcessId, UdpSocket) {
        let mut engine = Engine::new(Host::new(config).unwrap(), Clock::start()).unwrap();
        engine.add_cable(end, &[IpCidr::new(address(number), 24)]).unwrap();
        let me = engine.attach("me");
        let socket = engine.enter(me, |system| UdpSocket::bind(system, None, PORT)).unwrap().unwrap();
        (engine, me, socket)
    }

    impl Pair {
        fn new(config: Config) -> Self {
            let (near, far) = cable::pair(Options::new("near", 1), Options::new("far", 2));
            let ((a, b, c), (d, e, f)) = (host(config, near, 1), host(Config::default(), far, 2));
            Self { receiving: (a, b), sending: (d, e), sockets: [c, f] }
        }

        fn run(&mut self) {
            for _ in 0..20 {
                for engine in [&mut self.sending.0, &mut self.receiving.0] {
                    while engine.advance(16).unwrap() == crate::Next::Again {}
                }
            }
        }

        fn send(&mut self, datagrams: usize) {
            let (socket, to) = (self.sockets[1], IpEndpoint::new(address(1), PORT));
            let send = |system: &mut System<'_>| socket.send(system, to, b"hello").map(drop);
            for _ in 0..datagrams {
                // The first one waits for the neighbour's address.
                let _ = self.sending.0.enter(self.sending.1, send).unwrap();
                self.run();
            }
        }

        fn receive(&mut self, most: usize) -> usize {
            let (socket, (engine, me)) = (self.sockets[0], &mut self.receiving);
            let receive = |system: &mut System<'_>| match socket.receive(system) {
                Ok(datagram) => {
                    system.recycle(datagram);
                    true
                }
                Err(_) => false,
            };
            (0..most).filter(|_| engine.enter(*me, receive).unwrap()).count()
        }

        fn snapshot(&self) -> Snapshot {
            self.receiving.0.snapshot()
        }
    }

    #[test]
    fn a_snapshot_has_the_figures_of_its_host() {
        let mut pair = Pair::new(Config::default());
        pair.send(10);
        assert_eq!(pair.receive(4), 4);
        let snapshot = pair.snapshot();
        let host = pair.receiving.0.host();
        assert_eq!(snapshot.frames.delivered, 4);
        assert_eq!(snapshot.frames.received, host.ledger().received);
        assert_eq!(snapshot.frames.queued, 6);
        let [interface] = &snapshot.interfaces[..] else { panic!("{snapshot:?}") };
        assert_eq!((interface.name.as_str(), interface.received), ("near", snapshot.frames.received));
        let [socket] = &snapshot.sockets[..] else { panic!("{snapshot:?}") };
        assert_eq!((&*socket.kind, socket.port, socket.process), ("udp", PORT, Some(pair.receiving.1.0)));
        assert_eq!((socket.arrived, socket.discarded, socket.received, socket.waiting), (10, 0, 4, 6));
        let bill = host.bill(pair.receiving.1).unwrap();
        let mut processes = snapshot.processes.iter();
        let me = processes.find(|process| process.number == pair.receiving.1.0).unwrap();
        assert_eq!((me.name.as_str(), me.used, me.charged), ("me", bill.used, bill.charged));
    }

    #[test]
    fn the_limit_of_a_socket_is_that_of_its_queue_and_of_channels_in_use() {
        for architecture in [Architecture::SoftLrp, Architecture::Eager, Architecture::Polled] {
            let config = Config { socket_queue_pkts: 8, channel_pkts: 12, ..Config::of(architecture) };
            let mut pair = Pair::new(config);
            pair.send(20);
            let [socket] = &pair.snapshot().sockets[..] else { panic!("one socket") };
            // An idle core moves datagrams from the channel to the queue.
            let limit = if architecture == Architecture::SoftLrp { 8 + 12 } else { 8 };
            // Feedback may leave some in the ring.
            assert_eq!(socket.limit, limit, "{architecture:?}");
            assert!(socket.waiting > 4 && socket.waiting <= limit, "{architecture:?}: {socket:?}");
        }
    }

    #[test]
    fn a_difference_has_what_was_added_and_what_is_there_now() {
        let mut pair = Pair::new(Config::default());
        pair.send(3);
        let before = pair.snapshot();
        pair.send(5);
        pair.receive(2);
        let now = pair.snapshot();
        let added = now.since(&before);
        assert_eq!((added.frames.received, added.frames.delivered, added.frames.queued), (5, 2, 6));
        assert_eq!((added.sockets[0].arrived, added.sockets[0].waiting), (5, 6));
        assert_eq!(added.interfaces[0].received, 5);
        assert_eq!(added.elapsed, now.elapsed.checked_sub(before.elapsed).unwrap());
        let used = |snapshot: &Snapshot| snapshot.processes.iter().map(|p| p.used).sum::<Duration>();
        assert_eq!(used(&added), used(&now).checked_sub(used(&before)).unwrap());
        let nothing = now.since(&now);
        assert!(nothing.drops.is_empty() && nothing.frames.received == 0 && nothing.sockets[0].arrived == 0);
        assert_eq!(nothing.sockets[0].waiting, 6);
    }

    /// A number that was given to another process has a bill of its own.
    #[test]
    fn a_difference_does_not_mix_processes_of_one_number() {
        let process = |name: &str, used| Process {
            number: 1,
            name: name.to_owned(),
            used: Duration::from_secs(used),
            charged: Duration::ZERO,
        };
        let with = |process| Snapshot { processes: vec![process], ..Snapshot::default() };
        let added = with(process("new", 3)).since(&with(process("old", 2)));
        assert_eq!(added.processes, [process("new", 3)]);
        let added = with(process("old", 3)).since(&with(process("old", 2)));
        assert_eq!(added.processes, [process("old", 1)]);
    }

    #[test]
    fn a_snapshot_balances_as_its_host_does_while_frames_are_dropped_and_queued() {
        let config = Config { socket_queue_pkts: 4, ..Config::of(Architecture::Eager) };
        let mut pair = Pair::new(config);
        pair.send(10);
        assert_eq!(pair.receive(2), 2);
        let snapshot = pair.snapshot();
        let Socket { dropped, waiting, received, limit, .. } = snapshot.sockets[0];
        assert_eq!((dropped, waiting, received, limit), (6, 2, 2, 4));
        let drops = |reason| snapshot.drops.iter().filter(move |drop| drop.reason == reason);
        assert_eq!(drops("socket-full").map(|drop| drop.frames).sum::<u64>(), 6, "{:?}", snapshot.drops);
        assert_eq!((snapshot.check(), pair.receiving.0.host().check()), (Ok(()), Ok(())));
        let mut shed = snapshot.clone();
        shed.drops.push(Dropped::on_interface(LinkDrop::RingFull, 9));
        assert_eq!(shed.check(), Ok(()), "the host never had them");
        for lose in [
            |snapshot: &mut Snapshot| snapshot.frames.received += 1,
            |snapshot: &mut Snapshot| snapshot.frames.queued -= 1,
            |snapshot: &mut Snapshot| snapshot.frames.waiting += 1,
            |snapshot: &mut Snapshot| snapshot.frames.transmitted -= 1,
            |snapshot: &mut Snapshot| snapshot.drops.clear(),
        ] {
            let mut lost = snapshot.clone();
            lose(&mut lost);
            assert!(lost.check().is_err(), "{lost:?}");
        }
    }
}
