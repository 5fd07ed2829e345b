//! Large segments of TCP: they pass a host whole between interfaces that take them, and are cut for others.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};

use common::router::*;
use common::{HOST, HOST_MAC, PEER, PEER_MAC};
use evenkeel_core::cable::{End, Options, pair};
use evenkeel_core::drop::IpDrop;
use evenkeel_core::frame::{Frame, Metadata, Pool, PoolLimit};
use evenkeel_core::host::{Config, Host};
use evenkeel_core::interface::{Burst, Effort, Interface, Properties, RxCounters, RxQueue, Seen, TxQueue};
use evenkeel_core::receive::Architecture;
use evenkeel_core::segmentation::{Cuts, LARGE_PACKET_MAX, Offload, Segmentation};
use evenkeel_core::stack;
use evenkeel_core::tcp::endpoint::{ListenAt, Packet, Routes, Transmit};
use evenkeel_core::tcp::{
    Checksum, Counter, Endpoint, EndpointConfig, Flags, FourTuple, Header, ListenerConfig, Secret, Segment,
    SeqNumber,
};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{EthernetAddress, IpCidr, Ipv4Packet, TcpPacket};

const MSS: u16 = 1_460;
const HEADERS: usize = 14 + 20 + 20;

/// The large segments at an interface, each with the size of segments.
#[derive(Debug, Default)]
struct Large {
    coming: VecDeque<(Vec<u8>, NonZeroU16)>,
    left: Vec<(Vec<u8>, NonZeroU16)>,
}

/// The end of a cable, as an interface that takes and brings large segments.
#[derive(Debug)]
struct Offering {
    end: End,
    properties: Properties,
    large: Arc<Mutex<Large>>,
}

impl Offering {
    fn new(end: End, mtu: usize) -> (Self, Arc<Mutex<Large>>) {
        let segmentation = Some(Segmentation { most: LARGE_PACKET_MAX });
        let properties = Properties { segmentation, mtu, ..end.properties().clone() };
        let large = Arc::<Mutex<Large>>::default();
        (Self { end, properties, large: Arc::clone(&large) }, large)
    }
}

impl TxQueue for Offering {
    fn transmit(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool) -> usize {
        let mut taken = 0;
        while let Some(size) = frames.front().map(Frame::segment_bytes) {
            match size {
                Some(size) => {
                    let frame = frames.pop_front().unwrap();
                    self.large.lock().unwrap().left.push((frame.bytes().to_vec(), size));
                    pool.recycle(frame);
                }
                None => {
                    let mut one = VecDeque::from_iter(frames.pop_front());
                    assert_eq!(self.end.transmit(&mut one, pool), 1);
                }
            }
            taken += 1;
        }
        taken
    }
}

impl Interface for Offering {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn queue(&self, _index: usize) -> &dyn RxQueue {
        self
    }

    fn queue_mut(&mut self, _index: usize) -> &mut dyn RxQueue {
        self
    }

    fn attach(&mut self, pool: &mut Pool) -> Result<(), PoolLimit> {
        self.end.attach(pool)
    }
}

impl RxQueue for Offering {
    fn pending(&self) -> usize {
        self.end.queue(0).pending() + self.large.lock().unwrap().coming.len()
    }

    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize {
        let mut done = 0;
        while done < limit
            && let Some((bytes, size)) = self.large.lock().unwrap().coming.pop_front()
        {
            let mut frame = burst.pool().take_large().unwrap();
            assert!(frame.resize(bytes.len()) && frame.set_segment_bytes(Some(size)));
            frame.bytes_mut().copy_from_slice(&bytes);
            done += 1;
            if burst.see(frame.bytes(), &Metadata::NONE) == Seen::Take && !burst.take(frame) {
                return done;
            }
        }
        done + self.end.queue_mut(0).receive(limit - done, burst)
    }

    fn arm(&mut self) -> bool {
        self.end.queue_mut(0).arm() || self.pending() > 0
    }

    fn counters(&self, effort: Effort) -> Option<RxCounters> {
        self.end.queue(0).counters(effort)
    }
}

/// A router between two interfaces, the first of which brings large segments.
struct Router {
    host: Host,
    lan: Arc<Mutex<Large>>,
    /// The large segments that leave to the WAN, if its interface takes any.
    wan: Option<Arc<Mutex<Large>>>,
    wires: [End; 2],
    pool: Pool,
    now: Instant,
}

impl Router {
    fn new(architecture: Architecture, wan_takes: bool, wan_mtu: usize) -> Self {
        let config = Config::of(architecture);
        let stack = stack::Config { forwarding: true, report_groups: false, ..config.stack.clone() };
        let mut host = Host::new(Config { stack, ..config }).unwrap();
        let cable = |number| {
            let outside = Options { ring_pkts: 4096, ..Options::new("wire", number - 1) };
            pair(outside, Options { ring_pkts: 64, ..Options::new("router", number) })
        };
        let ((mut wire, lan), (mut far, wan)) = (cable(2), cable(4));
        let (lan, coming) = Offering::new(lan, 1500);
        let (wan, left): (Box<dyn Interface>, _) = if wan_takes {
            let (wan, left) = Offering::new(wan, wan_mtu);
            (Box::new(wan), Some(left))
        } else {
            (Box::new(wan), None)
        };
        for (interface, address) in [(Box::new(lan) as Box<dyn Interface>, HOST), (wan, WAN_HOST)] {
            host.add_interface(interface, &[IpCidr::new(address.into(), 24)], Instant::ZERO).unwrap();
        }
        for (interface, address, hardware) in [(LAN, PEER, PEER_MAC), (WAN, FAR, FAR_MAC)] {
            host.set_neighbor(interface, address.into(), hardware, Instant::ZERO).unwrap();
        }
        let mut pool = Pool::with_limit(16_384);
        wire.attach(&mut pool).unwrap();
        far.attach(&mut pool).unwrap();
        Self { host, lan: coming, wan: left, wires: [wire, far], pool, now: Instant::ZERO }
    }

    /// Lets a large segment come from the LAN. Returns the frames that then left, to the LAN and to the WAN.
    fn pass(&mut self, bytes: &[u8]) -> [Vec<Vec<u8>>; 2] {
        self.settle();
        self.lan.lock().unwrap().coming.push_back((bytes.to_vec(), NonZeroU16::new(MSS).unwrap()));
        self.settle()
    }

    fn settle(&mut self) -> [Vec<Vec<u8>>; 2] {
        loop {
            while let Some(ran) = self.host.turn(self.now) {
                self.now += Duration::from_micros(1);
                self.host.charge(&ran, Duration::from_micros(1));
                self.host.finish(&ran, self.now);
            }
            if self.host.halt(self.now) {
                break;
            }
        }
        self.host.check().unwrap();
        self.wires.each_mut().map(|wire| {
            let mut frames = Vec::new();
            while let Some(frame) = wire.queue_mut(0).take(&mut self.pool) {
                frames.push(frame.bytes().to_vec());
                self.pool.recycle(frame);
            }
            frames.retain(|frame| frame[23] == 6 || frame[23] == 1 && frame[34] == 3);
            frames
        })
    }
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 256) as u8).collect()
}

/// Returns a large segment from the LAN to the WAN with an unfinished checksum.
fn large(payload: &[u8]) -> Vec<u8> {
    let header = Header {
        source: 1000,
        destination: 80,
        seq: SeqNumber::new(u32::MAX - 5),
        flags: Flags::ACK | Flags::PSH,
        window: 9,
        ..Header::default()
    };
    let mut frame = vec![0; HEADERS + payload.len()];
    let segment = Segment { header, payload: [payload, &[]] };
    segment.emit(&mut frame[34..], PEER, FAR).unwrap();
    let (source, destination) = (IpAddr::from(PEER), IpAddr::from(FAR));
    let unfinished = !Checksum::pseudo(source, destination, 6, frame.len() - 34).finish();
    frame[50..52].copy_from_slice(&unfinished.to_be_bytes());
    frame[..6].copy_from_slice(&HOST_MAC.0);
    frame[6..12].copy_from_slice(&PEER_MAC.0);
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    let len = frame.len() - 14;
    let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
    packet.set_total_len(len as u16);
    packet.set_dont_frag(true);
    packet.set_hop_limit(64);
    packet.set_next_header(evenkeel_core::wire::IpProtocol::Tcp);
    packet.set_src_addr(PEER);
    packet.set_dst_addr(FAR);
    packet.fill_checksum();
    frame
}

fn passed(frame: &[u8], from: EthernetAddress, to: EthernetAddress) -> Vec<u8> {
    passed_on(frame, from, to)
}

#[test]
fn a_router_forwards_a_large_segment_whole_to_an_interface_that_takes_it() {
    for architecture in [Architecture::Eager, Architecture::Polled, Architecture::SoftLrp] {
        let mut router = Router::new(architecture, true, 1500);
        let frame = large(&payload(60_000));
        assert_eq!(router.pass(&frame), [const { Vec::<Vec<u8>>::new() }; 2], "{architecture}");
        let left = core::mem::take(&mut router.wan.as_ref().unwrap().lock().unwrap().left);
        assert_eq!(left, [(passed(&frame, WAN_MAC, FAR_MAC), NonZeroU16::new(MSS).unwrap())]);
        assert_eq!(router.host.ledger().forwarded, 1, "{architecture}");
    }
}

#[test]
fn a_large_segment_is_cut_for_an_interface_that_takes_none() {
    for architecture in [Architecture::Eager, Architecture::Polled, Architecture::SoftLrp] {
        let mut router = Router::new(architecture, false, 1500);
        let whole = payload(20 * usize::from(MSS) + 7);
        let [back, frames] = router.pass(&large(&whole));
        assert_eq!((back.len(), frames.len()), (0, 21), "{architecture}");
        let mut carried = Vec::new();
        for frame in &frames {
            let packet = Ipv4Packet::new_checked(&frame[14..]).unwrap();
            assert!(packet.verify_checksum() && packet.hop_limit() == 63);
            let segment = TcpPacket::new_checked(packet.payload()).unwrap();
            assert!(segment.verify_checksum(&PEER.into(), &FAR.into()), "{architecture}");
            carried.extend_from_slice(segment.payload());
        }
        assert_eq!(carried, whole, "{architecture}");
    }
}

#[test]
fn the_mtu_is_that_of_segments_and_the_sender_hears_of_a_smaller_one() {
    let mut router = Router::new(Architecture::Eager, true, 1400);
    let frame = large(&payload(60_000));
    let [back, on] = router.pass(&frame);
    assert_eq!((back.len(), on.len()), (1, 0));
    // Fragmentation needed, with the MTU (RFC 1191, 4).
    assert_eq!((&back[0][34..36], &back[0][40..42]), (&[3, 4][..], &1400_u16.to_be_bytes()[..]));
    assert_eq!(router.host.ledger().input_drops(IpDrop::TooBig), 1);
    assert!(router.wan.unwrap().lock().unwrap().left.is_empty());
}

/// The route of an endpoint whose interface cuts segments.
struct Cutting(usize);

impl Routes for Cutting {
    type Route = ();

    fn generation(&self) -> u32 {
        0
    }

    fn lookup(&self, _: &FourTuple) {}

    fn egress(&self, (): &()) -> Option<evenkeel_core::tcp::endpoint::Egress> {
        None
    }

    fn cuts(&self, (): &()) -> usize {
        self.0
    }
}

/// Two endpoints with a connection, and what the client has sent since.
struct Conversation {
    ends: [Endpoint; 2],
    routes: Cutting,
}

const ENDS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];

impl Conversation {
    fn new(cuts: usize) -> (Self, evenkeel_core::tcp::table::Id) {
        let mut ends = [1, 2].map(|seed| Endpoint::new(EndpointConfig::default(), Secret::of_seed(seed)));
        let _ = ends[1].listen(ListenAt::any(80), &ListenerConfig::default(), None).unwrap();
        let id = ends[0].connect(FourTuple::new((ENDS[0], 0), (ENDS[1], 80)), MSS, Instant::ZERO).unwrap();
        let mut it = Self { ends, routes: Cutting(cuts) };
        for from in [0, 1, 0, 1] {
            let sent = it.sent(from);
            it.give(1 - from, &sent);
        }
        (it, id)
    }

    /// Returns the segments that an end sends now, cut as the device would.
    fn sent(&mut self, from: usize) -> Vec<Vec<u8>> {
        let (mut all, mut buffer) = (Vec::new(), vec![0; 65_535]);
        while let Some(Transmit { len, cut, .. }) =
            self.ends[from].poll_transmit_large(Instant::ZERO, &self.routes, &mut buffer)
        {
            let Some(size) = cut else {
                all.push(buffer[..len].to_vec());
                continue;
            };
            let mut frame = [&[0; 12][..], &[8, 0, 0x45], &[0; 19], &buffer[..len]].concat();
            frame[16..18].copy_from_slice(&(20 + len as u16).to_be_bytes());
            frame[23] = 6;
            frame[26..30].copy_from_slice(&ENDS[from].octets());
            frame[30..34].copy_from_slice(&ENDS[1 - from].octets());
            let mut cuts = Cuts::of(&frame, Offload::of_tcp(&frame, size).unwrap()).unwrap();
            while let Some(len) = cuts.next_len() {
                let mut segment = vec![0; len];
                assert!(cuts.next(&frame, &mut segment));
                all.push(segment.split_off(34));
            }
        }
        all
    }

    fn give(&mut self, to: usize, segments: &[Vec<u8>]) {
        let packet = Packet {
            source: ENDS[1 - to].into(),
            destination: ENDS[to].into(),
            ecn: evenkeel_core::tcp::Ecn::NotCapable,
            mss: MSS,
        };
        segments.iter().for_each(|segment| _ = self.ends[to].input(segment, &packet, Instant::ZERO));
    }
}

#[test]
fn what_a_device_cuts_is_what_would_have_left_without_it_to_the_byte() {
    let data = payload(1 << 20);
    let [mut one, mut other] = [0, 64_000].map(Conversation::new);
    let [back, too] =
        [&mut one, &mut other].map(|(talk, _)| talk.ends[1].accept(&ListenAt::any(80)).unwrap());
    assert_eq!(back, too);
    let (mut written, mut larger) = (0, 0);
    for round in 0..200 {
        for (talk, id) in [&mut one, &mut other] {
            let more = data.get(written..written + 3_000 * (round % 40)).unwrap_or_default();
            let len = talk.ends[0].write(*id, more).unwrap_or(0);
            larger += len;
            // The peer says something, too.
            if round % 5 == 0 {
                talk.ends[1].write(back, &[7; 300]).unwrap();
            }
        }
        written = larger / 2;
        let [sent, too] = [&mut one, &mut other].map(|(talk, _)| talk.sent(0));
        assert!(sent == too, "round {round}: {} and {} segments", sent.len(), too.len());
        for (talk, _) in [&mut one, &mut other] {
            // The peer sees the same, and loses the same.
            let arrived = sent.iter().enumerate().filter(|(n, _)| (round * 7 + n) % 31 > 0);
            talk.give(1, &arrived.map(|(_, segment)| segment.clone()).collect::<Vec<_>>());
        }
        let [answers, too] = [&mut one, &mut other].map(|(talk, _)| talk.sent(1));
        assert!(answers == too, "round {round}");
        for (talk, id) in [&mut one, &mut other] {
            // What comes twice is reported in the next segment, and in no other one.
            talk.give(0, &answers);
            talk.give(0, &answers[..answers.len().min(round % 3)]);
            talk.ends[0].read(*id, &mut [0; 3_000], Instant::ZERO).ok();
        }
    }
    let counted = [&one, &other].map(|(talk, _)| format!("{:?}", talk.ends[0].counters()));
    assert_eq!(counted[0], counted[1], "segments are counted as they are on the wire");
    assert!(written > 100_000, "{written}");
    assert!(one.0.ends[0].counters().get(Counter::DsackOldSent) > 10);
}
