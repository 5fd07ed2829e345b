//! The stages of the receive path, each with its setup.

use std::collections::VecDeque;
use std::hint::black_box;

use evenkeel_core::channel::ChannelId;
use evenkeel_core::demux::{Binding, Change, DemuxTable, steering_hash};
use evenkeel_core::frame::{Frame, Pool};
use evenkeel_core::host::Config;
use evenkeel_core::internals::{Channel, Gate, Io, Received, Stack};
use evenkeel_core::ledger::Ledger;
use evenkeel_core::poll::Quota;
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::socket::Datagrams;
use evenkeel_core::stack::{self, InterfaceId};
use evenkeel_core::time::Instant;
use evenkeel_core::wire::{
    EthernetFrame, EthernetProtocol, EthernetRepr, IpAddress, IpCidr, IpProtocol, Ipv4Address, Ipv6Address,
    Ipv6Packet, Ipv6Repr, UdpPacket, UdpRepr,
};

use crate::batch::{BATCH, Batch, PAYLOAD, Stage, each};
use crate::common::{HOST, HOST_MAC, PEER_MAC, syn_from, udp};
use crate::filters;
use crate::rig::{BurstSink, Listening, Monitor, NAP, Rig, Sender, Sink, Sleeper};
use crate::router::Forward;

/// The loop around a stage that handles one frame after the other.
pub(crate) const EMPTY: &str = "empty loop";

const PORT: u16 = 7;
const HOST_V6: Ipv6Address = Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const PEER_V6: Ipv6Address = Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const LAN: InterfaceId = InterfaceId(0);

/// Returns every stage, the empty loop first.
pub(crate) fn all() -> Vec<Stage> {
    let mut stages = vec![
        Stage::new(EMPTY, || each(|i| _ = black_box(i))),
        Stage::new("pool: take and recycle", take_and_recycle),
        Stage::new("pool: take and drop", take_and_drop),
        Stage::new("steering hash", hash),
        Stage::new("demultiplex: IPv4, 10 ports bound", || classify(10, v4)),
        Stage::new("demultiplex: IPv4, 10 000 ports bound", || classify(10_000, v4)),
        Stage::new("demultiplex: IPv6, 10 ports bound", || classify(10, v6)),
        Stage::new("demultiplex: IPv4, port not bound", || classify(10, |i| v4(i + 20_000))),
        Stage::new("channel: push and take", push_and_take),
        Stage::new("UDP input: IPv4", || Input::of(v4)),
        Stage::new("UDP input: IPv6", || Input::of(v6)),
        Stage::new("forward: IPv4, 10 routes", || Forward::over(10)),
        Stage::new("forward: IPv4, 1 000 routes", || Forward::over(1_000)),
        Stage::new("forward: IPv4, 100 000 routes", || Forward::over(100_000)),
        Stage::new("demultiplex and discard: soft-lrp polled", || Discard::of(DeviceWork::Polled))
            .within(60.0),
        Stage::new("demultiplex and discard: soft-lrp interrupt", || Discard::of(DeviceWork::Interrupt))
            .within(60.0),
        Stage::new("discard the excess: soft-lrp, full ring", Excess::new).within(60.0),
        Stage::new("SYN flood, soft-lrp: own port", || SynFlood::of(PORT)),
        Stage::new("SYN flood, soft-lrp: closed port", || SynFlood::of(PORT + 1)),
        Stage::new("delivery: soft-lrp", || Delivery::of(Architecture::SoftLrp)),
        Stage::new("delivery: ni-lrp", || Delivery::of(Architecture::NiLrp)),
        Stage::new("receive path: eager", || Receive::of(Architecture::Eager)).within(200.0),
        Stage::new("receive path: early-demux", || Receive::of(Architecture::EarlyDemux)).within(200.0),
        Stage::new("receive path: polled", || Receive::of(Architecture::Polled)).within(200.0),
        Stage::new("receive path: soft-lrp", || Receive::of(Architecture::SoftLrp)).within(200.0),
        Stage::new("receive path: ni-lrp", || Receive::of(Architecture::NiLrp)).within(200.0),
        Stage::new("receive path: eager, vectors of 16", || Receive::in_bursts(Architecture::Eager)),
        Stage::new("receive path: polled, vectors of 16", || Receive::in_bursts(Architecture::Polled)),
        Stage::new("receive path: soft-lrp, vectors of 16", || Receive::in_bursts(Architecture::SoftLrp)),
        Stage::new("receive path: ni-lrp, vectors of 16", || Receive::in_bursts(Architecture::NiLrp)),
        Stage::new("send path, the cable's copy included", || Send::of(1)),
        Stage::new("send path, 16 datagrams a step", || Send::of(16)),
        Stage::new("capture: 60 bytes, 68 kept", || Captures::of(PAYLOAD)),
        Stage::new("capture: 1514 bytes, 68 kept", || Captures::of(1472)),
    ];
    stages.extend(filters::all());
    stages.extend(crate::ready::stages());
    stages.extend(crate::tcp::stages());
    stages
}

// --- Frames ---

fn v4(i: usize) -> Vec<u8> {
    udp(port(i), &[i as u8; PAYLOAD])
}

fn v6(i: usize) -> Vec<u8> {
    let udp = UdpRepr { src_port: 4321, dst_port: port(i) };
    let ip = Ipv6Repr {
        src_addr: PEER_V6,
        dst_addr: HOST_V6,
        next_header: IpProtocol::Udp,
        payload_len: 8 + PAYLOAD,
        hop_limit: 64,
    };
    let mut frame = vec![0; 14 + 40 + 8 + PAYLOAD];
    let ethernet = EthernetRepr { src_addr: PEER_MAC, dst_addr: HOST_MAC, ethertype: EthernetProtocol::Ipv6 };
    ethernet.emit(&mut EthernetFrame::new_unchecked(&mut frame[..]));
    ip.emit(&mut Ipv6Packet::new_unchecked(&mut frame[14..]));
    let mut segment = UdpPacket::new_unchecked(&mut frame[54..]);
    let (from, to) = (PEER_V6.into(), HOST_V6.into());
    udp.emit(&mut segment, &from, &to, PAYLOAD, |bytes| bytes.fill(i as u8), &Default::default());
    frame
}

fn port(i: usize) -> u16 {
    PORT + i as u16
}

fn batch_of(frame: impl Fn(usize) -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..BATCH).map(frame).collect()
}

// --- Small stages ---

fn take_and_recycle() -> impl Batch {
    let mut pool = Pool::new(BATCH);
    each(move |_| {
        let frame = black_box(pool.take().unwrap());
        pool.recycle(frame);
    })
}

fn take_and_drop() -> impl Batch {
    let mut pool = Pool::new(BATCH);
    each(move |_| drop(black_box(pool.take().unwrap())))
}

fn hash() -> impl Batch {
    let frames = batch_of(v4);
    each(move |i| _ = black_box(steering_hash(black_box(&frames[i][..]))))
}

/// Returns frames to as many different ports as the batch and the table allow.
fn classify(ports: usize, frame: fn(usize) -> Vec<u8>) -> impl Batch {
    let mut table = DemuxTable::new(0);
    table.apply(Change::Hardware(HOST_MAC));
    for address in [IpAddress::Ipv4(HOST), IpAddress::Ipv6(HOST_V6)] {
        table.apply(Change::AddAddress(address));
    }
    table.apply(Change::Bind(Binding::Control, ChannelId(u32::MAX - 1)));
    for i in 0..ports {
        table.apply(Change::Bind(Binding::Udp { address: None, port: port(i) }, ChannelId(i as u32)));
    }
    let frames = batch_of(|i| frame(i * (ports / BATCH).max(1) % ports));
    each(move |i| _ = black_box(table.classify(black_box(&frames[i][..]))))
}

fn push_and_take() -> impl Batch {
    let mut pool = Pool::new(BATCH);
    let mut channel = Channel::new(BATCH, Gate::open());
    let mut frame = pool.take();
    each(move |_| {
        let _ = black_box(channel.push(LAN, frame.take().unwrap()));
        frame = channel.take(&mut pool).map(|(waiting, _)| waiting.frame);
    })
}

/// Protocol input of a frame: from the Ethernet header to a datagram, which is given back.
struct Input {
    frames: Vec<Vec<u8>>,
    arrived: Vec<Frame>,
    stack: Stack,
    pool: Pool,
    ledger: Ledger,
    out: VecDeque<(InterfaceId, Frame)>,
}

impl Input {
    fn of(frame: fn(usize) -> Vec<u8>) -> Self {
        let mut input = Self {
            frames: batch_of(frame),
            arrived: Vec::with_capacity(BATCH),
            stack: Stack::new(stack::Config { report_groups: false, ..stack::Config::default() }, 0),
            pool: Pool::new(2 * BATCH),
            ledger: Ledger::default(),
            out: VecDeque::new(),
        };
        input.stack.add_interface(HOST_MAC, 1500);
        for cidr in [IpCidr::new(HOST.into(), 24), IpCidr::new(HOST_V6.into(), 64)] {
            let Self { stack, pool, ledger, out, .. } = &mut input;
            stack.add_address(LAN, cidr, &mut Io { now: Instant::ZERO, pool, ledger, out });
        }
        input
    }
}

impl Batch for Input {
    fn prepare(&mut self) {
        let frames = self.frames.iter().rev().filter_map(|bytes| self.pool.take_copy(bytes));
        self.arrived.extend(frames);
    }

    fn run(&mut self) {
        while let Some(frame) = self.arrived.pop() {
            let Self { stack, pool, ledger, out, .. } = self;
            let mut io = Io { now: Instant::ZERO, pool, ledger, out };
            let Some(Received::Datagram(datagram)) = stack.input(LAN, frame, &mut io) else { panic!() };
            black_box(datagram).recycle(&mut self.pool);
        }
    }
}

// --- Stages of a host ---

/// Frames to a socket whose channel is full: taken from the ring, classified, dropped.
struct Discard {
    rig: Rig,
    frames: Vec<Vec<u8>>,
}

impl Discard {
    fn of(device_work: DeviceWork) -> Self {
        // With feedback a full channel would stop the polling thread, and the frames would end in the ring.
        let config = Config { device_work, feedback: None, ..Config::of(Architecture::SoftLrp) };
        let mut discard =
            Self { rig: Rig::new(config, Box::new(Sleeper { port: PORT })), frames: batch_of(|_| v4(0)) };
        for _ in 0..8 {
            discard.prepare();
            discard.run();
        }
        discard
    }
}

impl Batch for Discard {
    fn prepare(&mut self) {
        self.rig.send(&self.frames);
    }

    fn run(&mut self) {
        self.rig.run_to_rest();
    }
}

/// One turn of the polling thread at a ring that a flood keeps full.
struct Excess(Discard);

impl Excess {
    /// The number of frames that a turn discards: eight times what it may take.
    const FRAMES: usize = 128;

    fn new() -> Self {
        let mut excess = Self(Discard::of(DeviceWork::Polled));
        (0..3).for_each(|_| excess.0.rig.run_units(1));
        excess.prepare();
        excess.run();
        excess.prepare();
        let before = excess.0.rig.dropped();
        excess.run();
        assert_eq!(excess.0.rig.dropped() - before, Self::FRAMES as u64);
        excess
    }
}

impl Batch for Excess {
    fn prepare(&mut self) {
        (0..4).for_each(|_| self.0.prepare());
    }

    fn run(&mut self) {
        self.0.rig.run_units(1);
    }

    fn frames(&self) -> usize {
        Self::FRAMES
    }
}

/// SYNs from everywhere: from the ring to what is answered.
struct SynFlood {
    rig: Rig,
    /// SYNs sent.
    sent: u32,
    port: u16,
}

impl SynFlood {
    fn of(port: u16) -> Self {
        let config = Config::of(Architecture::SoftLrp);
        let mut flood = Self { rig: Rig::new(config, Box::new(Listening { port: PORT })), sent: 0, port };
        flood.rig.add_gateway();
        // The SYN queue is full, and what may be sent unasked is used up.
        for _ in 0..200 {
            flood.prepare();
            flood.run();
        }
        flood
    }
}

impl Batch for SynFlood {
    fn prepare(&mut self) {
        self.rig.discard_sent();
        let mut syn = |_| {
            self.sent = self.sent.wrapping_add(0x9e37_79b9);
            let address = Ipv4Address::from_bits(0x0a4e_0000 | self.sent >> 16);
            syn_from(address, self.sent as u16 | 1024, self.port)
        };
        let frames: Vec<_> = (0..BATCH).map(&mut syn).collect();
        self.rig.send(&frames);
    }

    fn run(&mut self) {
        self.rig.run_to_rest();
    }
}

/// From the ring to the program: every unit of work, and the decisions which comes next.
struct Receive {
    rig: Rig,
    frames: Vec<Vec<u8>>,
}

impl Receive {
    fn of(architecture: Architecture) -> Self {
        let sink = Sink { port: PORT, socket: None };
        Self { rig: Rig::new(Config::of(architecture), Box::new(sink)), frames: batch_of(|_| v4(0)) }
    }

    fn in_bursts(architecture: Architecture) -> Self {
        let sink = BurstSink { port: PORT, socket: None, datagrams: Datagrams::new(16) };
        let config = Config { quota: Quota::Fixed(16), ..Config::of(architecture) };
        Self { rig: Rig::new(config, Box::new(sink)), frames: batch_of(|_| v4(0)) }
    }
}

impl Batch for Receive {
    fn prepare(&mut self) {
        self.rig.send(&self.frames);
    }

    fn run(&mut self) {
        self.rig.run_to_rest();
    }
}

/// The part of it that is the receiver's: the receive call, with protocol input in it.
struct Delivery(Receive);

impl Delivery {
    fn of(architecture: Architecture) -> Self {
        Self(Receive::of(architecture))
    }
}

impl Batch for Delivery {
    fn prepare(&mut self) {
        self.0.prepare();
        self.0.rig.run_above_processes();
    }

    fn run(&mut self) {
        self.0.run();
    }
}

/// A program's datagrams, until they are on the wire.
struct Send {
    rig: Rig,
    at_a_time: usize,
}

impl Send {
    fn of(at_a_time: usize) -> Self {
        let mut rig = Rig::new(Config::default(), Box::new(Sender { socket: None, at_a_time }));
        rig.pass(NAP);
        Self { rig, at_a_time }
    }
}

impl Batch for Send {
    fn prepare(&mut self) {
        self.rig.discard_sent();
    }

    fn run(&mut self) {
        self.rig.run_units(BATCH / self.at_a_time);
    }
}

/// A packet monitor's host and its program, from the ring until a frame is done with.
struct Captures {
    rig: Rig,
    frames: Vec<Vec<u8>>,
}

impl Captures {
    fn of(payload: usize) -> Self {
        let config = Config { listen_only: true, ..Config::default() };
        let frame = |i: usize| udp(PORT, &vec![i as u8; payload]);
        Self { rig: Rig::new(config, Box::new(Monitor::default())), frames: batch_of(frame) }
    }
}

impl Batch for Captures {
    fn prepare(&mut self) {
        self.rig.send(&self.frames);
    }

    fn run(&mut self) {
        self.rig.run_to_rest();
    }
}
