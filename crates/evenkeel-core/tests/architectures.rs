//! The differences between the receive architectures, on a host that runs each work item in one microsecond.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::*;
use evenkeel_core::drop::{LinkDrop, QueueDrop, UdpDrop};
use evenkeel_core::host::{Config, Level, System};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::system::UdpSocket;
use evenkeel_core::tcp::Secret;
use evenkeel_core::time::Duration;
use evenkeel_core::wire::{EthernetAddress, Ipv4Address};
use evenkeel_core::work::Work;

fn small(architecture: Architecture) -> Config {
    Config {
        socket_queue_pkts: 8,
        channel_pkts: 8,
        ip_queue_pkts: 16,
        batch_pkts: 1,
        ..Config::of(architecture)
    }
}

/// Returns the frames of a flood for a port with a service.
fn flood(port: u16, frames: u32) -> Vec<Vec<u8>> {
    (0..frames).map(|n| udp(port, &n.to_be_bytes())).collect()
}

#[test]
fn every_architecture_delivers_what_was_sent_unchanged_and_in_order() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::new(Config::of(architecture));
        let (sink, seen) = Sink::new(7);
        bench.host.spawn("sink", 0, Box::new(sink));
        bench.settle();
        for n in 0..100_u32 {
            assert_eq!(bench.send(&[udp(7, &n.to_be_bytes())]), 1, "{architecture}");
            bench.settle();
        }
        let expected: Vec<_> = (0..100_u32).map(|n| n.to_be_bytes().to_vec()).collect();
        assert_eq!(*seen.payloads.lock().unwrap(), expected, "{architecture}");
        assert_eq!(bench.host.ledger().received, 100, "{architecture}");
    }
}

#[test]
fn every_architecture_answers_arp() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::new(Config::of(architecture));
        bench.settle();
        bench.sent();
        bench.send(&[arp_request()]);
        bench.settle();
        let answers = bench.sent();
        assert!(
            answers.iter().any(|f| f[..6] == PEER_MAC.0 && f[12..14] == [0x08, 0x06]),
            "{architecture}: {answers:?}"
        );
        assert_eq!(bench.host.ledger().consumed, 1, "{architecture}");
    }
}

/// A SYN for such a port is refused whether or not the host has run before.
#[test]
fn a_syn_for_a_port_where_nobody_listens_is_refused_at_once() {
    const RST: u8 = 0x04;
    for (architecture, has_run) in Architecture::ALL.into_iter().flat_map(|a| [(a, true), (a, false)]) {
        let mut bench = Bench::new(Config::of(architecture));
        if has_run {
            bench.settle();
        }
        assert_eq!(bench.send(&[arp_request(), syn(1000, 80), syn(1001, 80)]), 3, "{architecture}");
        bench.settle();
        let is_reset = |f: &&Vec<u8>| f[..6] == PEER_MAC.0 && f[23] == 6 && f[14 + 20 + 13] & RST != 0;
        assert_eq!(bench.sent().iter().filter(is_reset).count(), 2, "{architecture}, {has_run}");
    }
}

/// A SYN and a datagram in turn, a million frames a second: resets and unreachables have a rate limit each,
/// and when it is quiet again the next SYN is refused at once.
#[test]
fn a_flood_at_closed_ports_is_hardly_answered() {
    const FRAMES: u32 = 100_000;
    const RST: u8 = 0x04;
    for architecture in Architecture::ALL {
        let mut config = Config::of(architecture);
        (config.tcp.resets_per_s, config.tcp.reset_burst) = (200, 20);
        let (per_s, burst) = (config.stack.icmp_errors_per_s, config.stack.icmp_error_burst);
        let mut bench = Bench::new(config);
        bench.send(&[arp_request()]);
        bench.settle();
        bench.sent();
        let (mut resets, mut unreachables) = (0, 0);
        let mut count = |bench: &mut Bench| {
            for frame in bench.sent() {
                resets += u32::from(frame[23] == 6 && frame[14 + 20 + 13] & RST != 0);
                unreachables += u32::from(frame[23] == 1 && frame[14 + 20] == 3);
            }
            (resets, unreachables)
        };
        let start = bench.now;
        for n in 0..FRAMES / 2 {
            bench.now = bench.now.max(start + Duration::from_micros(2 * u64::from(n)));
            bench.send(&[syn(1_000 + n as u16 % 10_000, 80), udp(9, b"x")]);
            bench.settle();
            count(&mut bench);
        }
        let millis = u32::try_from(bench.now.since(start).as_millis()).unwrap();
        let (resets, unreachables) = count(&mut bench);
        // One sender has a part of it only.
        let most = |per_s: u32, burst| burst / 5..=burst + per_s * (millis + 1) / 1_000;
        assert!(most(200, 20).contains(&resets), "{architecture}: {resets} resets in {millis} ms");
        assert!(most(per_s, burst).contains(&unreachables), "{architecture}: {unreachables} unreachables");
        bench.now += Duration::from_secs(1);
        bench.send(&[syn(1_000, 80)]);
        bench.settle();
        assert_eq!(count(&mut bench).0, resets + 1, "{architecture}");
    }
}

#[test]
fn work_is_done_at_the_levels_that_the_architecture_says() {
    let levels = |architecture| {
        let mut bench = Bench::new(Config::of(architecture));
        let (sink, _) = Sink::new(7);
        bench.host.spawn("sink", 0, Box::new(sink));
        bench.settle();
        bench.units = [0; 5];
        bench.send(&[udp(7, b"x")]);
        bench.settle();
        let at = |level| bench.at(level) > 0;
        (at(Level::Interrupt), at(Level::SoftInterrupt), at(Level::PollingThread))
    };
    assert_eq!(levels(Architecture::Eager), (true, true, false));
    assert_eq!(levels(Architecture::EarlyDemux), (true, true, false));
    assert_eq!(levels(Architecture::Polled), (true, false, true));
    assert_eq!(levels(Architecture::SoftLrp), (true, false, true));
    assert_eq!(levels(Architecture::NiLrp), (true, false, false));
}

#[test]
fn soft_lrp_with_its_device_work_in_the_interrupt_needs_no_polling_thread() {
    let mut bench =
        Bench::new(Config { device_work: DeviceWork::Interrupt, ..Config::of(Architecture::SoftLrp) });
    let (sink, seen) = Sink::new(7);
    bench.host.spawn("sink", 0, Box::new(sink));
    bench.settle();
    bench.send(&flood(7, 20));
    bench.settle();
    assert_eq!((seen.count(), bench.at(Level::PollingThread)), (20, 0));
}

/// Floods a slow service for a while. Returns the number of datagrams it received, and the bench for further
/// checks.
fn overload(config: Config) -> (u64, Bench) {
    overload_every(config, Duration::from_micros(4))
}

/// Sends four frames every `period`.
fn overload_every(config: Config, period: Duration) -> (u64, Bench) {
    let mut bench = Bench::new(config);
    let (mut sink, seen) = Sink::new(7);
    sink.compute = Duration::from_micros(20);
    bench.host.spawn("sink", 0, Box::new(sink));
    bench.settle();
    let frames = flood(7, 4);
    for _ in 0..2_000 {
        bench.send(&frames);
        bench.run(period);
    }
    (seen.count(), bench)
}

#[test]
fn eager_processing_livelocks() {
    let (received, bench) = overload(small(Architecture::Eager));
    let ledger = bench.host.ledger();
    // A unit for each frame's device work and one for its protocol work: at one frame a microsecond nothing
    // is left.
    assert!(received < 20, "{received}");
    assert!(ledger.input_drops(QueueDrop::IpQueue) > 1_000);
}

#[test]
fn polling_with_feedback_sheds_at_the_ring() {
    let (received, bench) = overload(small(Architecture::Polled));
    let ledger = bench.host.ledger();
    // 8 ms at 22 us a datagram and its share of polling.
    assert!(received > 250, "{received}");
    assert!(bench.wire.sent().missed > 5_000);
    assert!(ledger.input_drops(QueueDrop::Socket) <= bench.host.resumes().timeout + 8, "{ledger:?}");
}

#[test]
fn polling_without_feedback_livelocks_at_the_socket() {
    let (received, bench) = overload(Config { feedback: None, ..small(Architecture::Polled) });
    assert!(received < 20, "{received}");
    assert!(bench.host.ledger().input_drops(QueueDrop::Socket) > 1_000);
}

#[test]
fn soft_lrp_discards_early_and_with_feedback_not_at_all() {
    let (received, bench) = overload(small(Architecture::SoftLrp));
    assert!(received > 250, "{received}");
    assert!(bench.host.ledger().input_drops(QueueDrop::Channel) <= bench.host.resumes().timeout + 8);
    let interrupt = Config { device_work: DeviceWork::Interrupt, ..small(Architecture::SoftLrp) };
    let (_, bench) = overload(interrupt);
    assert!(
        bench.host.ledger().input_drops(QueueDrop::Channel) > 1_000,
        "the channel sheds, after one demultiplexing"
    );
    assert!(
        bench.done(Work::Input) < bench.done(Work::Demultiplex) / 10,
        "no protocol work for what is discarded"
    );
}

#[test]
fn ni_lrp_does_nothing_for_a_frame_that_is_shed() {
    let (received, bench) = overload(small(Architecture::NiLrp));
    assert!(received > 300, "{received}");
    let ledger = bench.host.ledger();
    assert_eq!(ledger.drops().count(), 0, "{ledger:?}");
    assert!(bench.wire.sent().missed > 5_000);
    assert_eq!((bench.done(Work::Receive), bench.done(Work::Demultiplex)), (ledger.received, 0));
}

#[test]
fn a_flooded_socket_takes_nothing_from_another_under_lrp() {
    let device = |d| Config { device_work: d, ..small(Architecture::SoftLrp) };
    for (config, queues) in
        [(device(DeviceWork::Interrupt), 1), (device(DeviceWork::Polled), 8), (small(Architecture::NiLrp), 1)]
    {
        let mut bench = Bench::with_queues(config, queues);
        let (mut flooded, _) = Sink::new(7);
        flooded.compute = Duration::from_micros(20);
        let (quiet, seen) = Sink::new(9);
        bench.host.spawn("flooded", 0, Box::new(flooded));
        bench.host.spawn("quiet", 0, Box::new(quiet));
        bench.settle();
        let frames = flood(7, 4);
        if queues > 1 {
            assert_ne!(
                bench.wire.steers_to(&frames[0]),
                bench.wire.steers_to(&udp(9, b"")),
                "flows in rings of their own"
            );
        }
        for n in 0..1_000_u32 {
            bench.send(&frames);
            if n % 10 == 0 {
                assert_eq!(bench.send(&[udp(9, &n.to_be_bytes())]), 1);
            }
            bench.run(Duration::from_micros(8));
        }
        bench.settle();
        assert_eq!(
            seen.count(),
            100,
            "{:?} {queues} {:?} {:?}",
            bench.host.config().architecture,
            bench.host.ledger(),
            bench.units
        );
    }
}

#[test]
fn eager_processing_lets_a_flood_take_another_sockets_frames() {
    let mut bench = Bench::new(small(Architecture::Eager));
    let (flooded, _) = Sink::new(7);
    let (quiet, seen) = Sink::new(9);
    bench.host.spawn("flooded", 0, Box::new(flooded));
    bench.host.spawn("quiet", 0, Box::new(quiet));
    bench.settle();
    for n in 0..1_000_u32 {
        bench.send(&flood(7, 8));
        bench.send(&[udp(9, &n.to_be_bytes())]);
        bench.run(Duration::from_micros(8));
    }
    bench.settle();
    assert!(seen.count() < 500, "{}", seen.count());
}

#[test]
fn early_demux_drops_before_protocol_work_when_the_socket_queue_is_full() {
    let (_, bench) = overload_every(small(Architecture::EarlyDemux), Duration::from_micros(6));
    let dropped = bench.host.ledger().input_drops(QueueDrop::Socket);
    assert!(dropped > 1_000, "{dropped}");
    let (input, demultiplexed) = (bench.done(Work::Input), bench.done(Work::Demultiplex));
    assert!(input < demultiplexed / 2, "{input} of {demultiplexed} frames cost protocol work");
}

#[test]
fn lazy_work_is_done_early_when_the_core_is_idle() {
    let mut bench = Bench::new(Config::of(Architecture::SoftLrp));
    let (mut sink, seen) = Sink::new(7);
    sink.nap = Some(Duration::from_millis(1));
    bench.host.spawn("sink", 0, Box::new(sink));
    bench.run(Duration::from_micros(100));
    bench.send(&flood(7, 3));
    bench.run(Duration::from_micros(100));
    assert_eq!(seen.count(), 0, "the receiver sleeps");
    assert_eq!(bench.done(Work::Input), 3, "its datagrams are ready all the same");
    assert!(bench.at(Level::Idle) >= 3);
    bench.run(Duration::from_millis(10));
    assert_eq!(seen.count(), 3);
}

#[test]
fn under_lrp_the_receiver_pays_and_under_eager_processing_whoever_is_hit() {
    let bills = |config: Config| {
        let mut bench = Bench::new(config);
        let (sink, _) = Sink::new(7);
        let sink = bench.host.spawn("sink", 0, Box::new(sink));
        let spinner = bench.host.spawn("spinner", 0, Box::new(Spinner));
        bench.run(Duration::from_millis(1));
        for _ in 0..2_000 {
            bench.send(&flood(7, 1));
            bench.run(Duration::from_micros(50));
        }
        let (sink, spinner) = (bench.host.bill(sink).unwrap(), bench.host.bill(spinner).unwrap());
        ((sink.charged - sink.used) + (spinner.charged - spinner.used), bench.done(Work::Input))
    };
    let (eager, inputs) = bills(small(Architecture::Eager));
    assert_eq!(inputs, 2_000);
    assert!(eager >= Duration::from_micros(3_900), "device and protocol work hit whoever ran: {eager:?}");
    let (lazy, inputs) = bills(Config { device_work: DeviceWork::Interrupt, ..small(Architecture::SoftLrp) });
    assert_eq!(inputs, 2_000);
    assert!(lazy <= Duration::from_micros(2_100), "only demultiplexing does: {lazy:?}");
}

#[test]
fn frames_for_nobody_are_counted() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::new(Config::of(architecture));
        bench.settle();
        let strangers = [
            udp(1234, b"no socket"),
            udp_to(EthernetAddress([2, 0, 0, 0, 0, 9]), HOST, 7, b"other hardware"),
            udp_to(HOST_MAC, Ipv4Address::new(10, 0, 0, 77), 7, b"other host"),
            vec![0; 5],
        ];
        bench.send(&strangers);
        bench.settle();
        let ledger = bench.host.ledger();
        assert_eq!(ledger.input_drops(UdpDrop::NoSocket), 1, "{architecture}: {ledger:?}");
        assert_eq!(ledger.delivered, 0);
        if architecture == Architecture::NiLrp {
            assert_eq!(bench.wire.sent().discarded, 3, "the adaptor sees to the rest");
        } else {
            assert_eq!(ledger.input_drops(LinkDrop::NotForUs), 1, "{architecture}: {ledger:?}");
            assert_eq!(ledger.received, 4);
        }
    }
}

#[test]
fn closing_counts_what_was_queued() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::new(small(architecture));
        let (sink, _) = Sink::new(7);
        let process = bench.host.spawn("sink", 0, Box::new(sink));
        bench.settle();
        bench.send(&flood(7, 6));
        for _ in 0..4 {
            bench.unit();
        }
        bench.host.kill(process, bench.now);
        bench.host.check().unwrap();
        bench.settle();
        let (free, promised) = bench.host.pool();
        assert!(free <= promised);
    }
}

#[test]
fn an_adaptor_keeps_up_with_sockets_that_come_and_go_and_loses_no_frame() {
    let mut bench = Bench::new(small(Architecture::NiLrp));
    let promised = bench.host.pool().1;
    for round in 0..3 {
        let sinks: Vec<_> = (0..300)
            .map(|n| {
                let (sink, seen) = Sink::new(1000 + n);
                (bench.host.spawn("sink", 0, Box::new(sink)), seen)
            })
            .collect();
        bench.settle();
        let frames: Vec<_> = (0..300).map(|n| udp(1000 + n, b"first")).collect();
        assert_eq!(bench.send(&frames), 300, "round {round}");
        bench.settle();
        assert!(sinks.iter().all(|(_, seen)| seen.count() == 1), "round {round}");
        // The second frame of each is still in its ring when its socket is closed.
        assert_eq!(bench.send(&frames), 300);
        for (process, _) in sinks {
            bench.host.kill(process, bench.now);
        }
        bench.settle();
        bench.send(&[udp(1000, b"for nobody")]);
        bench.settle();
        let (wire, ledger) = (bench.wire.sent(), bench.host.ledger());
        assert_eq!(wire.accepted, ledger.received, "round {round}");
        assert_eq!(wire.accepted + wire.missed + wire.discarded, 601 * (round + 1));
        assert_eq!(bench.host.pool().1, promised, "every promise is taken back");
    }
}

/// Drops what it receives, and gives nothing back.
#[derive(Debug)]
struct Careless {
    socket: Option<UdpSocket>,
    received: Arc<AtomicU64>,
}

impl Program for Careless {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(socket) = self.socket else {
            self.socket = Some(UdpSocket::bind(system, None, 7).expect("a port of its own"));
            return Step::Again;
        };
        let Ok(datagram) = socket.receive(system) else { return Step::Wait(socket.fd()) };
        drop(datagram);
        self.received.fetch_add(1, Ordering::Relaxed);
        Step::Again
    }
}

#[test]
fn a_program_that_drops_its_datagrams_receives_for_ever() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::new(small(architecture));
        let received = Arc::new(AtomicU64::new(0));
        bench.host.spawn("careless", 0, Box::new(Careless { socket: None, received: Arc::clone(&received) }));
        bench.settle();
        let (free, buffers) = bench.host.pool();
        let rounds = buffers as u64;
        for round in 0..rounds {
            assert_eq!(bench.send(&flood(7, 4)), 4, "{architecture}, round {round}");
            bench.settle();
        }
        assert_eq!(received.load(Ordering::Relaxed), 4 * rounds, "{architecture}: four for each buffer");
        assert_eq!(bench.host.pool(), (free, buffers), "{architecture}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let trace = || {
        let (received, mut bench) = overload(small(Architecture::SoftLrp));
        (received, bench.units, bench.now, format!("{:?}", bench.host.ledger()), bench.sent())
    };
    assert_eq!(trace(), trace());
}

#[test]
fn a_core_halts_while_a_program_with_full_queues_sleeps() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::new(small(architecture));
        let (mut sink, seen) = Sink::new(7);
        sink.nap = Some(Duration::from_secs(1));
        bench.host.spawn("sink", 0, Box::new(sink));
        bench.settle();
        // The first fill the socket's queue, where the idle level puts them, the second the channel.
        for _ in 0..2 {
            bench.send(&flood(7, 30));
            bench.settle();
        }
        assert_eq!(seen.count(), 0, "{architecture}");
        bench.run(Duration::from_secs(12));
        assert!(seen.count() >= 8, "{architecture}: {} received", seen.count());
    }
}

/// The link-local addresses of the host and of its peer.
const HOST_V6: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 2];
const PEER_V6: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1];

/// Returns an IPv6 packet from the peer.
fn ipv6(next: u8, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = [HOST_MAC.0, PEER_MAC.0].concat();
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.extend([next, hop_limit]);
    frame.extend([PEER_V6, HOST_V6].concat());
    frame.extend(payload);
    frame
}

/// Returns the message with its checksum of ICMPv6, UDP or TCP at `at`.
fn summed(protocol: u8, mut message: Vec<u8>, at: usize) -> Vec<u8> {
    message[at..at + 2].fill(0);
    let pseudo = [&PEER_V6[..], &HOST_V6, &(message.len() as u32).to_be_bytes(), &[0, 0, 0, protocol]];
    let bytes = [&pseudo.concat()[..], &message].concat();
    let sum: u32 =
        bytes.chunks(2).map(|c| u32::from(c[0]) << 8 | c.get(1).map_or(0, |&low| low.into())).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let sum = !((folded & 0xffff) + (folded >> 16)) as u16;
    message[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    message
}

fn fragment(next: u8, field: u16, rest: &[u8]) -> Vec<u8> {
    ipv6(44, 64, &[&[next, 0], &field.to_be_bytes()[..], &[0, 0, 0, 1], rest].concat())
}

/// Returns an IPv4 packet from the peer.
fn ipv4(protocol: u8, field: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend((20 + payload.len() as u16).to_be_bytes());
    header.extend([0, 1]);
    header.extend(field.to_be_bytes());
    header.extend([64, protocol, 0, 0]);
    header.extend([PEER.octets(), HOST.octets()].concat());
    let sum = header.chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum::<u32>();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [&HOST_MAC.0[..], &PEER_MAC.0, &[0x08, 0x00], &header, payload].concat()
}

/// Returns the sorted frames with which a host that knows its peer answers `frames`.
fn answers(architecture: Architecture, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut bench = Bench::new(Config::of(architecture));
    let solicitation = [&[135, 0, 0, 0, 0, 0, 0, 0], &HOST_V6[..], &[1, 1], &PEER_MAC.0].concat();
    bench.settle();
    bench.send(&[arp_request(), ipv6(58, 255, &summed(58, solicitation, 2))]);
    bench.settle();
    let greetings = bench.sent();
    assert!(greetings.iter().any(|f| f[..6] == PEER_MAC.0 && f.get(54) == Some(&136)), "{architecture}");
    for frame in frames {
        bench.send(core::slice::from_ref(frame));
        bench.settle();
    }
    let mut answers = bench.sent();
    answers.sort();
    answers
}

/// The frames, how many answers there are to be, and where in the first of them which bytes stand.
type Case = (&'static str, Vec<Vec<u8>>, usize, &'static [u8]);

/// Returns frames that make a host send, and frames that must not.
fn provocations() -> Vec<Case> {
    const PAD: [u8; 6] = [1, 4, 0, 0, 0, 0];
    /// An unknown option that is to be reported.
    const UNKNOWN: [u8; 6] = [0x80, 4, 0, 0, 0, 0];
    let options =
        |next: u8, units: u8, option: [u8; 6], rest: &[u8]| [&[next, units], &option[..], rest].concat();
    let many = |count: usize, last: [u8; 6]| {
        (0..count).fold((17, vec![0; 8]), |(next, rest), n| {
            (60, options(next, 0, if n + 1 == count { last } else { PAD }, &rest))
        })
    };
    let echo = |code: u8| summed(58, vec![128, code, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8], 2);
    let echo_v4 = |code: u8| {
        let sum = !(0x0800_u16 + u16::from(code) + 0x0102 + 0x0304);
        [&[8, code], &sum.to_be_bytes()[..], &[1, 2, 3, 4]].concat()
    };
    let datagram = summed(17, vec![0, 7, 0, 99, 0, 10, 0, 0, 1, 2], 6);
    let syn = {
        let mut header = vec![0; 20];
        [header[1], header[3], header[12], header[13]] = [7, 99, 0x50, 2];
        summed(6, header, 16)
    };
    let solicitation = [&[135, 0, 0, 0, 0, 0, 0, 0], &HOST_V6[..], &[1, 1], &PEER_MAC.0].concat();
    let solicitation = summed(58, solicitation, 2);
    let ahead = |(next, rest): (u8, Vec<u8>)| vec![ipv6(next, 64, &rest)];
    vec![
        ("an echo request", vec![ipv6(58, 64, &echo(0))], 1, &[129, 0]),
        ("one with a code", vec![ipv6(58, 64, &echo(7))], 1, &[129, 0]),
        ("one over IPv4 with a code", vec![ipv4(1, 0, &echo_v4(7))], 1, &[]),
        ("a datagram for nobody", vec![ipv6(17, 64, &datagram)], 1, &[1, 4]),
        ("a segment for nobody", vec![ipv6(6, 64, &syn)], 1, &[0, 99]),
        ("an unknown protocol", vec![ipv6(200, 64, &[0; 8])], 1, &[4, 1]),
        ("one over IPv4", vec![ipv4(200, 0, &[0; 8])], 1, &[]),
        ("no next header", vec![ipv6(59, 64, &[])], 0, &[]),
        ("a solicitation", vec![ipv6(58, 255, &solicitation)], 1, &[136, 0]),
        (
            "one in an atomic fragment",
            vec![ipv6(44, 255, &[&[58, 0, 0, 0, 0, 0, 0, 1], &solicitation[..]].concat())],
            0,
            &[],
        ),
        (
            "an echo request in fragments, the first one last",
            vec![fragment(58, 8, &echo(0)[8..]), fragment(58, 1, &echo(0)[..8])],
            1,
            &[129, 0],
        ),
        ("a source route", vec![ipv6(43, 64, &[17, 0, 0, 1, 0, 0, 0, 0])], 1, &[4, 0]),
        (
            "options without end in a first fragment",
            vec![fragment(60, 1, &options(17, 1, PAD, &[]))],
            1,
            &[4, 3],
        ),
        (
            "options and nothing else in a first fragment",
            vec![fragment(60, 1, &options(17, 0, PAD, &[]))],
            1,
            &[4, 3],
        ),
        ("the same of ICMPv6", vec![fragment(60, 1, &options(58, 0, PAD, &[]))], 1, &[4, 3]),
        ("half a TCP header in a first fragment", vec![fragment(6, 1, &syn[..16])], 1, &[4, 3]),
        ("a first fragment of odd length", vec![fragment(17, 1, &[0; 13])], 1, &[4, 0]),
        ("a later fragment of odd length", vec![fragment(17, 9, &[0; 13])], 1, &[4, 0]),
        ("a fragment beyond the end of any packet", vec![fragment(17, 0xfff8, &[0; 16])], 1, &[4, 0]),
        ("an unknown option", vec![ipv6(60, 64, &options(17, 0, UNKNOWN, &datagram))], 1, &[4, 2]),
        (
            "one in front of a header that is cut off",
            vec![ipv6(60, 64, &options(60, 0, UNKNOWN, &[17]))],
            1,
            &[4, 2],
        ),
        (
            "one in front of a fragment header that is cut off",
            vec![ipv6(60, 64, &options(44, 0, UNKNOWN, &[17, 0]))],
            1,
            &[4, 2],
        ),
        ("one in front of more headers than are looked at", ahead(many(30, UNKNOWN)), 1, &[4, 2]),
        ("more headers than are looked at", ahead(many(30, PAD)), 0, &[]),
        (
            "hop-by-hop options in the wrong place, cut off",
            vec![ipv6(60, 64, &options(0, 0, PAD, &[17, 9, 0, 0]))],
            1,
            &[4, 1],
        ),
        ("options that are cut off", vec![ipv6(60, 64, &options(17, 3, PAD, &[]))], 0, &[]),
    ]
}

#[test]
fn every_architecture_gives_the_same_answers() {
    for (name, frames, count, begin) in provocations() {
        let eager = answers(Architecture::Eager, &frames);
        assert_eq!(eager.len(), count, "{name}: {eager:02x?}");
        assert!(
            eager.iter().all(|frame| begin.is_empty() || frame[54..].starts_with(begin)),
            "{name}: {eager:02x?}"
        );
        for architecture in Architecture::ALL {
            assert_eq!(answers(architecture, &frames), eager, "{name}: {architecture}");
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(100))]

    /// A few bytes changed, and the end cut off.
    #[test]
    fn every_architecture_gives_the_same_answers_to_damaged_frames(
        which in 0_usize..26,
        changes in proptest::collection::vec((14_usize..120, proptest::num::u8::ANY), 0..4),
        cut in 0_usize..12,
    ) {
        let mut cases = provocations();
        let (_, mut frames, ..) = cases.swap_remove(which % cases.len());
        for frame in &mut frames {
            for &(at, value) in &changes {
                if let Some(byte) = frame.get_mut(at) {
                    *byte = value;
                }
            }
            frame.truncate(frame.len() - cut);
        }
        let eager = answers(Architecture::Eager, &frames);
        for architecture in Architecture::ALL {
            proptest::prop_assert_eq!(answers(architecture, &frames), eager.clone(), "{}", architecture);
        }
    }
}

/// Identifications of IP come from the secret of the host, be it configured or given later; with neither they
/// come from the seed.
#[test]
fn the_secret_of_a_host_is_that_of_its_ip_too() {
    let identification = |configured: Option<u8>, given: Option<u8>| {
        let secret = |bits: u8| Secret::new([bits; 16]);
        let mut bench =
            Bench::new(Config { secret: configured.map(secret), ..Config::of(Architecture::SoftLrp) });
        assert!(given.is_none_or(|bits| bench.host.set_secret(secret(bits))));
        bench.settle();
        let echo = [&[8, 0, 0xf3, 0xf9][..], &[1, 2, 3, 4]].concat();
        bench.send(&[arp_request(), ipv4(1, 0, &echo)]);
        bench.settle();
        let sent = bench.sent();
        let answer = sent.iter().find(|f| f[12..14] == [0x08, 0x00] && f[23] == 1).expect("an answer");
        [answer[18], answer[19]]
    };
    let of_seed = identification(None, None);
    assert_eq!(of_seed, identification(None, None));
    assert_ne!(of_seed, identification(None, Some(1)));
    assert_ne!(identification(None, Some(2)), identification(None, Some(1)));
    assert_eq!(identification(Some(1), None), identification(None, Some(1)));
}
