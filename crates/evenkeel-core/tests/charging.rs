//! The process that pays for each kind of work, under each architecture: device work, demultiplexing, and
//! protocol input of datagrams, of a stream's segments and of the traffic of daemons (OSDI 1996, sections
//! 3.2 to 3.5; TOCS 1997, section 4).
//!
//! Every work item takes a microsecond here, so a bill shows whose work items there were. The tests read
//! bills, and not what the host says about a work item. The shares of the processes show whether the
//! scheduler counts the same time.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::collections::BTreeMap;

use common::router::*;
use common::*;
use evenkeel_core::host::{Config, System};
use evenkeel_core::process::{Bill, ProcessId, Program, Step};
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::system::{EventQueue, TcpListener, TcpStream};
use evenkeel_core::tcp::{self, Flags, Header, ListenerConfig, Segment, SeqNumber};
use evenkeel_core::time::Duration;
use evenkeel_core::wire::{Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet, Ipv4Repr};
use evenkeel_core::work::Work;

const PORT: u16 = 80;

/// Returns each architecture, with device work in each possible place.
fn configs() -> Vec<Config> {
    use Architecture::{Eager, EarlyDemux, NiLrp, Polled, SoftLrp};
    use DeviceWork::{Interrupt, None};
    [
        (Eager, Interrupt),
        (EarlyDemux, Interrupt),
        (Polled, DeviceWork::Polled),
        (SoftLrp, Interrupt),
        (SoftLrp, DeviceWork::Polled),
        (NiLrp, None),
    ]
    .map(|(architecture, device_work)| Config { device_work, batch_pkts: 1, ..Config::of(architecture) })
    .to_vec()
}

/// Accepts connections, and reads what comes.
#[derive(Debug, Default)]
struct Server {
    is_listening: bool,
}

impl Program for Server {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = EventQueue::of_all(system).unwrap();
        if !core::mem::replace(&mut self.is_listening, true) {
            TcpListener::listen(system, None, PORT, &ListenerConfig::default()).unwrap();
        }
        while let Ok(event) = events.next(system) {
            while TcpListener::of(&event).accept(system).is_ok() {}
            while let Ok(1..) = TcpStream::of(&event).read(system, &mut [0; 4_096]) {}
        }
        Step::Wait(events.fd())
    }
}

/// Returns an echo request of the peer.
fn ping() -> Vec<u8> {
    let echo = Icmpv4Repr::EchoRequest { ident: 1, seq_no: 1, data: b"again" };
    let ip = Ipv4Repr {
        src_addr: PEER,
        dst_addr: HOST,
        next_header: IpProtocol::Icmp,
        payload_len: echo.buffer_len(),
        hop_limit: 64,
    };
    let mut frame = udp(7, &vec![0; echo.buffer_len() - 8]);
    let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
    ip.emit(&mut packet, &Default::default());
    echo.emit(&mut Icmpv4Packet::new_unchecked(packet.payload_mut()), &Default::default());
    frame
}

/// The process that has paid for a work item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Payer {
    /// No process.
    Nobody,
    /// A process that did not run the work item: an interrupt hit it.
    Hit(String),
    /// The process that ran the work item.
    Own(String),
}

/// A host that forwards, with a receiver of datagrams, a server of streams, and a program that computes
/// whenever no other process wants the core. All are at rest but the last.
struct Scene {
    bench: Bench,
    device_work: DeviceWork,
    /// The next segment of the connection that the server has.
    seq: SeqNumber,
    ack: SeqNumber,
}

impl Scene {
    fn new(config: Config) -> Self {
        let device_work = config.device_work;
        let mut bench = Bench::router(config);
        bench.host.spawn("sink", 0, Box::new(Sink::new(7).0));
        bench.host.spawn("server", 0, Box::<Server>::default());
        bench.settle();
        let mut scene = Self { bench, device_work, seq: SeqNumber::new(1_000), ack: SeqNumber::default() };
        let syn = scene.segment(4_000, Flags::SYN, b"");
        scene.bench.send(&[syn]);
        scene.bench.settle_some();
        let is_tcp = |frame: &Vec<u8>| frame[12..14] == [8, 0] && frame[23] == 6;
        let frame = scene.bench.sent().into_iter().find(is_tcp).expect("a SYN-ACK");
        let packet = Ipv4Packet::new_checked(&frame[14..]).unwrap();
        let ecn = tcp::Ecn::NotCapable;
        let syn_ack = Segment::parse(packet.payload(), HOST, PEER, ecn).unwrap();
        scene.seq += 1;
        scene.ack = syn_ack.header.seq + 1;
        let ack = scene.segment(4_000, Flags::ACK, b"");
        scene.bench.send(&[ack]);
        scene.bench.settle_some();
        scene.bench.host.spawn("spinner", 20, Box::new(Spinner));
        scene.bench.settle_some();
        scene.bench.sent();
        scene
    }

    fn segment(&self, source: u16, flags: Flags, payload: &[u8]) -> Vec<u8> {
        let (seq, ack) = (self.seq, self.ack);
        let header =
            Header { source, destination: PORT, seq, ack, flags, window: 60_000, ..Header::default() };
        tcp(header, payload)
    }

    fn bills(&self) -> BTreeMap<ProcessId, (String, Bill)> {
        self.bench.host.processes().map(|(id, name, bill)| (id, (name.to_owned(), bill))).collect()
    }

    /// Runs a unit. Who has paid for it, and for what it was.
    fn unit(&mut self) -> (Payer, Vec<Work>) {
        let (before, start) = (self.bills(), self.bench.now);
        assert!(self.bench.unit(), "there is always the spinner");
        let elapsed = self.bench.now.since(start);
        let mut payer = Payer::Nobody;
        for (id, (name, bill)) in self.bills() {
            let of = before.get(&id).map_or(Bill::default(), |(_, bill)| *bill);
            let (used, charged) = (bill.used - of.used, bill.charged - of.charged);
            if charged > Duration::ZERO {
                assert_eq!((charged, payer), (elapsed, Payer::Nobody), "all of it, and one pays: {name}");
                assert!(used == elapsed || used == Duration::ZERO, "{name}");
                payer = if used == elapsed { Payer::Own(name) } else { Payer::Hit(name) };
            } else {
                assert_eq!(used, Duration::ZERO, "used and not charged: {name}");
            }
        }
        let work = self.bench.host.work();
        (payer, work.iter().filter(|(_, count)| *count > 0).map(|(work, _)| work).collect())
    }

    /// Sends a frame. Returns the payer of each kind of work on it, until its protocol input is done.
    fn payers(&mut self, frame: &[u8], input: Work) -> BTreeMap<&'static str, Payer> {
        self.bench.send(&[frame.to_vec()]);
        let mut payers = BTreeMap::new();
        for _ in 0..200 {
            let (payer, works) = self.unit();
            let of_frame = [Work::Interrupt, Work::Receive, Work::Demultiplex, input];
            for work in of_frame.into_iter().filter(|work| works.contains(work)) {
                let pays = payers.entry(work.name()).or_insert_with(|| payer.clone());
                assert_eq!(*pays, payer, "two pay for {}", work.name());
            }
            if works.contains(&input) {
                return payers;
            }
        }
        panic!("it is never processed");
    }
}

/// Each kind of work is on the bill of the process that the architecture names.
#[test]
fn each_piece_of_work_is_on_the_bill_it_belongs_on() {
    for config in configs() {
        let name = format!("{} {:?}", config.architecture, config.device_work);
        let hit = || Payer::Hit("spinner".into());
        let is_lazy = matches!(config.architecture, Architecture::SoftLrp | Architecture::NiLrp);
        let does_demultiplex =
            matches!(config.architecture, Architecture::SoftLrp | Architecture::EarlyDemux);
        let mut scene = Scene::new(config.clone());
        let says = scene.segment(4_000, Flags::ACK | Flags::PSH, b"says");
        let opens = scene.segment(4_001, Flags::SYN, b"");
        for (frame, input, receiver) in [
            (udp(7, b"a datagram"), Work::Input, "sink"),
            (says, Work::Segment, "server"),
            (opens, Work::Open, "server"),
            (arp_request(), Work::Control, "arpd"),
            (ping(), Work::Control, "icmpd"),
            (outwards(1), Work::Forward, "forwardd"),
        ] {
            // The spinner is who is hit.
            scene.bench.settle_some();
            scene.bench.sent();
            let payers = scene.payers(&frame, input);
            let of = |work: Work| payers.get(work.name()).cloned();
            let processing = match config.architecture {
                Architecture::Polled => Payer::Nobody,
                _ if is_lazy => Payer::Own(receiver.into()),
                _ => hit(),
            };
            assert_eq!(of(input), Some(processing.clone()), "{name}, {input:?}: {payers:?}");
            let device = match config.device_work {
                DeviceWork::Polled => Payer::Nobody,
                DeviceWork::Interrupt => hit(),
                // From the channel, where the adaptor has put it.
                DeviceWork::None => processing,
            };
            assert_eq!(of(Work::Receive), Some(device.clone()), "{name}, {input:?}: {payers:?}");
            let demultiplexes = does_demultiplex.then_some(device);
            assert_eq!(of(Work::Demultiplex), demultiplexes, "{name}, {input:?}: {payers:?}");
            let interrupt = of(Work::Interrupt);
            assert!(interrupt.is_none_or(|payer| payer == hit()), "{name}, {input:?}: {payers:?}");
        }
    }
}

/// Returns the time charged to the receiver of a flood and to a rival that computes.
fn charged(scene: &mut Scene, receiver: &str, frame: &[u8]) -> (Duration, Duration) {
    let rival = scene.bench.host.spawn("rival", 0, Box::new(Spinner));
    let receiver = scene.bench.process(receiver);
    scene.bench.settle_some();
    let bill = |scene: &Scene, process| scene.bench.host.bill(process).unwrap().charged;
    let before = (bill(scene, receiver), bill(scene, rival));
    // More than there is time for, and not so many that interrupts leave no time at all.
    let pkts = if scene.device_work == DeviceWork::Interrupt { 25 } else { 50 };
    for _ in 0..1_000 {
        scene.bench.send(&vec![frame.to_vec(); pkts]);
        scene.bench.run(Duration::from_micros(50));
        scene.bench.sent();
        scene.bench.sent_wan();
    }
    (bill(scene, receiver) - before.0, bill(scene, rival) - before.1)
}

/// The scheduler charges what is on the bill: the receiver of a flood gets no more time than a process that
/// computes.
#[test]
fn a_flood_is_processed_in_its_receivers_share_of_the_core() {
    for config in configs() {
        if !matches!(config.architecture, Architecture::SoftLrp | Architecture::NiLrp) {
            continue;
        }
        let name = format!("{} {:?}", config.architecture, config.device_work);
        // Before the window: TCP answers each, and the program hears of none.
        let scene = Scene { seq: SeqNumber::new(1), ..Scene::new(config.clone()) };
        let old = scene.segment(4_000, Flags::ACK | Flags::PSH, b"old");
        for (receiver, frame) in [
            ("sink", udp(7, b"a datagram")),
            ("server", old),
            ("arpd", arp_request()),
            ("icmpd", ping()),
            ("forwardd", outwards(1)),
        ] {
            let mut scene = Scene::new(config.clone());
            let (flooded, rival) = charged(&mut scene, receiver, &frame);
            let share = flooded.div_duration_f64(flooded + rival);
            assert!((0.45..0.55).contains(&share), "{name}: {receiver} has {share:.3} of both");
        }
    }
}

/// Of two that compute, one is hit by all interrupts: together with its own they are half of the time.
#[test]
fn interrupts_count_for_whom_they_hit() {
    for config in configs() {
        let name = format!("{} {:?}", config.architecture, config.device_work);
        let mut bench = Bench::new(config);
        let [hit, other] = ["hit", "other"].map(|name| bench.host.spawn(name, 0, Box::new(Spinner)));
        bench.host.spawn("sink", 0, Box::new(Sink::new(7).0));
        bench.settle_some();
        for _ in 0..30_000 {
            let before = bench.host.bill(hit).unwrap().used;
            bench.unit();
            if bench.host.bill(hit).unwrap().used > before {
                bench.send(&[udp(7, b"a datagram")]);
            }
        }
        let [hit, other] = [hit, other].map(|process| bench.host.bill(process).unwrap());
        let interrupts = hit.charged - hit.used;
        let took_part = hit.charged.div_duration_f64(hit.charged + other.charged);
        assert!((0.48..0.52).contains(&took_part), "{name}: {hit:?} and {other:?}");
        let share = interrupts.div_duration_f64(hit.charged);
        assert!(share > 0.06, "{name}: {interrupts:?} of {hit:?}");
    }
}
