//! SYNs that the program answers, compared with the answers of a listener.

use std::cell::Cell;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use evenkeel_core::tcp::endpoint::{ListenAt, Packet};
use evenkeel_core::tcp::{self, Checksum, Ecn, Endpoint, EndpointConfig, Flags, ListenerConfig, Segment};
use evenkeel_core::time::{Duration, Instant};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::clock::monotonic_nanos;

/// The listener's channel and slot in [`bind_all`], and its port.
const SYNS: ChannelId = ChannelId(4);
const SLOT: u32 = 4;
pub(super) const PORT: u16 = 9;
const HOPS: u8 = 77;
/// The number that a program returns to the kernel for an answer.
const XDP_TX: u32 = 3;
/// The bytes of Ethernet's and of IP's headers.
const HEADS: [usize; 2] = [34, 54];

/// A run that takes so long was interrupted, and the program may no longer answer.
pub(super) const STOPPED: Duration = Duration::from_millis(500);

/// A listener, and the device on which its SYNs arrive.
#[derive(Debug, Clone)]
pub(super) struct Listening {
    pub(super) secret: [u8; 16],
    mtu: usize,
    config: tcp::Config,
    ecn: bool,
    /// The time of the host.
    pub(super) now: Instant,
}

impl Listening {
    /// Returns an endpoint in which it listens, with room for so many half-open connections.
    pub(super) fn endpoint(&self, syn_queue: usize) -> (Endpoint, ListenAt) {
        let config =
            EndpointConfig { connection: Arc::new(self.config.clone()), ..EndpointConfig::default() };
        let mut endpoint = Endpoint::new(config, Secret::new(self.secret));
        let config = ListenerConfig { syn_queue, ecn: self.ecn, ..ListenerConfig::default() };
        let at = endpoint.listen(ListenAt::any(PORT), &config, None).unwrap();
        (endpoint, at)
    }

    pub(super) fn packet(&self, (source, destination): (IpAddr, IpAddr)) -> Packet {
        let mss = self.mtu as u16 - if source.is_ipv4() { 40 } else { 60 };
        Packet { source, destination, ecn: Ecn::NotCapable, mss }
    }

    /// Returns the frame with which the host answers a SYN by a cookie.
    fn answer(&self, frame: &[u8], now: Instant) -> Option<Vec<u8>> {
        let (mut endpoint, _) = self.endpoint(0);
        let ends = ends_of(frame);
        endpoint.input(segment_of(frame), &self.packet(ends), now);
        let mut segment = [0; 60];
        let sent = endpoint.poll_transmit(now, &(), &mut segment)?;
        Some(framed(ends, &segment[..sent.len]))
    }

    /// Returns the connection that an ACK opens, on a host whose device has answered the SYN.
    fn opened_by(&self, frame: &[u8], now: Instant) -> Option<tcp::connection::Info> {
        let (mut endpoint, at) = self.endpoint(100);
        endpoint.expect_cookies(&at, 1, self.now);
        endpoint.input(segment_of(frame), &self.packet(ends_of(frame)), now);
        let id = endpoint.accept(&at)?;
        Some(endpoint.connection(id).unwrap().info())
    }
}

fn is_v4(frame: &[u8]) -> bool {
    frame[12] == 8
}

/// Returns the source and the destination of a packet.
pub(super) fn ends_of(frame: &[u8]) -> (IpAddr, IpAddr) {
    let four = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&frame[at..at + 4]).unwrap());
    let six = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&frame[at..at + 16]).unwrap());
    if is_v4(frame) { (four(26), four(30)) } else { (six(22), six(38)) }
}

/// Returns the segment in a frame, without padding.
pub(super) fn segment_of(frame: &[u8]) -> &[u8] {
    let len = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    if is_v4(frame) { &frame[34..14 + len(16)] } else { &frame[54..54 + len(18)] }
}

/// Returns the frame that brings a segment back from `to` to `from`, as the host sends it.
fn framed((from, to): (IpAddr, IpAddr), segment: &[u8]) -> Vec<u8> {
    let mut frame = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ipv4(to, from, 6, 0, 0x4000, segment),
        (IpAddr::V6(from), IpAddr::V6(to)) => ipv6(to, from, 6, segment),
        other => panic!("{other:?}"),
    };
    let [to, from]: [[u8; 6]; 2] = [&frame[..6], &frame[6..12]].map(|address| address.try_into().unwrap());
    frame[..12].copy_from_slice(&[from, to].concat());
    let hops = if is_v4(&frame) { 22 } else { 21 };
    frame[hops] = HOPS;
    finish_v4(&mut frame);
    frame
}

/// Writes the checksum of the header of IPv4.
pub(super) fn finish_v4(frame: &mut [u8]) {
    if is_v4(frame) {
        frame[24..26].fill(0);
        let sum = Checksum::default().add(&frame[14..34]).finish();
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Writes the checksum of the segment: the whole one, or that of the pseudo-header alone.
pub(super) fn finish_tcp(frame: &mut [u8], whole: bool) {
    let start = HEADS[usize::from(!is_v4(frame))];
    frame[start + 16..start + 18].fill(0);
    let (source, destination) = ends_of(frame);
    let sum = Checksum::pseudo(source, destination, 6, frame.len() - start);
    let sum = if whole { sum.add(&frame[start..]).finish() } else { !sum.finish() };
    frame[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
}

/// The fields of a SYN that vary.
#[derive(Debug, Clone)]
struct Syn {
    ends: (u16, bool, u8),
    seq: u32,
    flags: u8,
    options: Vec<u8>,
    payload: usize,
    whole: bool,
    padding: usize,
    /// A byte that is changed after all checksums.
    broken: Option<(usize, u8)>,
}

impl Syn {
    fn frame(&self) -> Vec<u8> {
        let (port, is_four, host) = self.ends;
        let mut segment = [port.to_be_bytes(), PORT.to_be_bytes()].concat();
        segment.extend(self.seq.to_be_bytes());
        segment.extend([0; 4]);
        segment.extend([(5 + self.options.len() as u8 / 4) << 4, self.flags, 0x20, 0, 0, 0, 0, 0]);
        segment.extend(&self.options);
        segment.resize(segment.len() + self.payload, 7);
        let mut frame = match is_four {
            true => ipv4(v4(host), v4(2), 6, 3, 0x4000, &segment),
            false => ipv6(v6(host.into()), v6(2), 6, &segment),
        };
        finish_v4(&mut frame);
        finish_tcp(&mut frame, self.whole);
        let end = frame.len();
        if let Some((at, byte)) = self.broken {
            // Behind the hardware addresses.
            frame[12 + at % (end - 12)] ^= byte;
        }
        frame.resize(end + self.padding, 0);
        frame
    }

    /// Returns whether the program is to answer the SYN if the listener does with a cookie.
    fn is_plain(&self) -> bool {
        self.flags & 0x3f == 2
            && self.payload == 0
            && self.broken.is_none()
            && tcp::Options::parse(&self.options).fast_open.is_none()
    }
}

fn option_of_syn() -> impl Strategy<Value = Vec<u8>> {
    let mss = select(vec![0, 47, 48, 215, 216, 536, 1_219, 1_220, 1_440, 1_459, 1_460, 8_960, 65_535]);
    prop_oneof![
        6 => mss.prop_map(|mss: u16| [&[2, 4], &mss.to_be_bytes()[..]].concat()),
        4 => any::<u8>().prop_map(|shift| vec![3, 3, shift & 31]),
        4 => Just(vec![4, 2]),
        6 => any::<[u8; 8]>().prop_map(|clocks| [&[8, 10], &clocks[..]].concat()),
        4 => Just(vec![1]),
        1 => Just(vec![0]),
        1 => Just(vec![34, 2]),
        1 => (select(vec![2_u8, 3, 4, 8, 30, 254]), 0..8_u8).prop_map(|(kind, len)| vec![kind, len, 9, 9]),
    ]
}

fn syn() -> impl Strategy<Value = Syn> {
    let options = vec(option_of_syn(), 0..7).prop_map(|options| {
        let mut options = options.concat();
        options.truncate(40);
        options.resize(options.len().next_multiple_of(4), 0);
        options
    });
    let flags = prop_oneof![6 => Just(2), 4 => Just(0xc2), 1 => select(vec![0x42, 0x82, 0x0a, 0x03, 0x22])];
    let payload = prop_oneof![9 => Just(0_usize), 1 => 1..9_usize];
    let broken = proptest::option::weighted(0.1, (any::<usize>(), 1..=255_u8));
    let ends = (10..=u16::MAX, any::<bool>(), prop_oneof![Just(1), Just(9)]);
    let whole = prop_oneof![3 => Just(true), 1 => Just(false)];
    (ends, any::<u32>(), flags, options, payload, whole, 0..8_usize, broken).prop_map(
        |(ends, seq, flags, options, payload, whole, padding, broken)| Syn {
            ends,
            seq,
            flags,
            options,
            payload,
            whole,
            padding,
            broken,
        },
    )
}

pub(super) fn listening() -> impl Strategy<Value = Listening> {
    let config = (any::<[bool; 3]>(), select(vec![536_u16, 1_200, 1_440, 65_535])).prop_map(
        |([window_scaling, sack, timestamps], mss_max)| tcp::Config {
            window_scaling,
            sack,
            timestamps,
            mss_max,
            ..tcp::Config::default()
        },
    );
    let mtu = select(vec![1_280, 1_400, 1_500]);
    (any::<[u8; 16]>(), mtu, config, any::<bool>(), any::<u64>()).prop_map(
        |(secret, mtu, config, ecn, nanos)| Listening {
            secret,
            mtu,
            config,
            ecn,
            now: Instant::from_nanos(1_000_000_000 + (nanos >> 8)),
        },
    )
}

/// A program with a listener, whose ring holds two frames.
pub(super) struct Device {
    pub(super) pair: Pair,
    pub(super) socket: OwnedFd,
}

impl Device {
    pub(super) fn load() -> Option<Self> {
        let mut pair = Pair::load(Sharing::Nothing)?;
        bind_all(&mut pair);
        let socket = socket(AddressFamily::XDP, SocketType::RAW, None).unwrap();
        Some(Self { pair, socket })
    }

    /// Opens the listener's ring.
    pub(super) fn listen(&mut self, listening: &Listening) -> Mark {
        let (endpoint, at) = listening.endpoint(100);
        self.pair.program.set_mtu(listening.mtu).unwrap();
        let offer = endpoint.cookie_offer(&at, HOPS).unwrap();
        self.pair.apply(Change::AnswerSyns(SYNS, offer));
        self.pair.program.set_socket(0, SLOT, self.socket.as_fd(), 2).unwrap()
    }

    /// Runs the program on a frame. Returns its verdict and the frame as it is then.
    pub(super) fn run(&self, frame: &[u8]) -> (u32, Vec<u8>) {
        let xdp: &Xdp = self.pair.program.object.program("demux").unwrap().try_into().unwrap();
        let mut out = vec![0; frame.len() + 100];
        let options =
            TestRunOptions { data_in: Some(frame), data_out: Some(&mut out), ..TestRunOptions::new() };
        let result = xdp.test_run(options).unwrap();
        out.truncate(result.data_size_out as usize);
        (result.return_value, out)
    }
}

impl Device {
    /// Half fills the listener's ring with a SYN that is left to the host, and lets the program answer
    /// others. Returns the time on the machine's clock that is `now` on the host's.
    fn press(&self, mark: &Mark, syn: &Syn, now: Instant) -> u64 {
        let unusual = Syn { flags: 2, payload: 1, broken: None, ..syn.clone() };
        mark.level();
        mark.answer_syns(None, || 0);
        assert_eq!(self.run(&unusual.frame()).0, XDP_REDIRECT, "the ring is empty");
        let start = monotonic_nanos();
        mark.answer_syns(Some(now), || start);
        start
    }
}

/// Returns the ACK of a SYN-ACK in a frame, with this window.
fn ack_of(answer: &[u8], window: u16) -> Vec<u8> {
    let (from, to) = ends_of(answer);
    let syn_ack = Segment::parse(segment_of(answer), from, to, Ecn::NotCapable).unwrap().header;
    let timestamps = syn_ack
        .options
        .timestamps
        .map(|clocks| tcp::Timestamps { value: clocks.echo.wrapping_add(1), echo: clocks.value });
    let header = tcp::Header {
        source: syn_ack.destination,
        destination: syn_ack.source,
        seq: syn_ack.ack,
        ack: syn_ack.seq + 1,
        flags: Flags::ACK,
        window,
        options: tcp::Options { timestamps, ..tcp::Options::default() },
        ..tcp::Header::default()
    };
    let mut bytes = [0; 60];
    let len = Segment::bare(header).emit(&mut bytes, to, from).unwrap();
    framed((from, to), &bytes[..len])
}

/// The program sends what a listener would send between the times before and after its run. The listener of a
/// host that has seen no SYN then opens a connection with what both have agreed on.
#[test]
fn syns_are_answered_as_a_listener_does() {
    let Some(device) = Device::load() else { return };
    let device = RefCell::new(device);
    // Answered, with timestamps, left to the host.
    let seen = [const { Cell::new(0) }; 3];
    let count = |at: usize| seen[at].set(seen[at].get() + 1);
    // About 500 SYNs of this number have timestamps that count.
    let config = Config { cases: 450, failure_persistence: None, ..Config::default() };
    let compared = TestRunner::new(config).run(&(listening(), vec(syn(), 1..20)), |(listening, syns)| {
        let device = &mut *device.borrow_mut();
        let mark = device.listen(&listening);
        let mut answered = 0;
        for syn in syns {
            let frame = syn.frame();
            let start = device.press(&mark, &syn, listening.now);
            let clock = || Duration::from_nanos(monotonic_nanos() - start);
            // The program's clock is somewhat behind.
            let early = Instant::from_nanos(listening.now.as_nanos() - 10_000_000);
            let before = clock();
            let (verdict, sent) = device.run(&frame);
            let after = clock();
            answered += u64::from(verdict == XDP_TX);
            if after > STOPPED {
                continue;
            }
            let finished = Syn { whole: true, ..syn.clone() }.frame();
            let answer_at = |since: Duration| listening.answer(&finished, early + since);
            let expected = if syn.is_plain() { answer_at(after) } else { None };
            let Some(expected) = expected else {
                // Not all fields of IPv6 count.
                assert!(verdict != XDP_TX || syn.broken.is_some(), "{syn:?}");
                assert!(verdict == XDP_TX || sent == frame, "{syn:?}");
                count(2);
                continue;
            };
            assert_eq!(verdict, XDP_TX, "{syn:?}");
            let mut times =
                (before.as_millis()..=after.as_millis() + 1).map(|ms| Duration::from_millis(ms as u64));
            let is_same = sent == expected || times.any(|since| answer_at(since).as_ref() == Some(&sent));
            assert!(is_same, "{sent:02x?}, not {expected:02x?}, for {syn:?} of {listening:?}");
            count(0);
            let info = listening.opened_by(&ack_of(&sent, 500), listening.now + Duration::from_secs(1));
            let info = info.expect("the cookie is good");
            let offered = tcp::Options::parse(&syn.options);
            let timestamps = offered.timestamps.is_some() && listening.config.timestamps;
            assert_eq!(info.timestamps, timestamps);
            assert_eq!(info.sack, timestamps && offered.sack_permitted && listening.config.sack);
            assert_eq!(info.ecn, timestamps && syn.flags & 0xc0 == 0xc0 && listening.ecn);
            if timestamps {
                count(1);
            }
        }
        assert_eq!(mark.answered(), answered);
        Ok(())
    });
    compared.unwrap();
    let seen = seen.map(Cell::into_inner);
    assert!(seen.iter().all(|count| *count > 300), "{seen:?}");
}

/// A SYN to a broadcast address is none, nor is one that comes from an address of ours.
#[test]
fn syns_of_impossible_ends_are_left_to_the_host() {
    let Some(mut device) = Device::load() else { return };
    let broadcast = Ipv4Address::new(10, 0, 0, 255);
    device.pair.apply(Change::AddBroadcast(broadcast.into()));
    let now = Instant::from_millis(5_000);
    let config = tcp::Config::default();
    let listening = Listening { secret: [3; 16], mtu: 1_500, config, ecn: true, now };
    let mark = device.listen(&listening);
    let ends = (700, true, 1);
    let syn = Syn {
        ends,
        seq: 1,
        flags: 2,
        options: Vec::new(),
        payload: 0,
        whole: true,
        padding: 0,
        broken: None,
    };
    let between = |from: Ipv4Address, to: Ipv4Address| {
        let mut frame = syn.frame();
        frame[26..34].copy_from_slice(&[from.octets(), to.octets()].concat());
        finish_v4(&mut frame);
        finish_tcp(&mut frame, true);
        frame
    };
    let answers = |frame: &[u8]| {
        let start = device.press(&mark, &syn, now);
        let verdict = device.run(frame).0;
        // Unless it was interrupted.
        (monotonic_nanos() - start < 500_000_000).then_some(verdict == XDP_TX)
    };
    for (from, to, expected) in [
        (v4(1), v4(2), true),
        (v4(1), broadcast, false),
        (v4(3), v4(2), false),
        (Ipv4Address::new(127, 0, 0, 1), v4(2), false),
        (Ipv4Address::new(224, 0, 0, 1), v4(2), false),
        (Ipv4Address::new(0, 0, 0, 1), v4(2), false),
    ] {
        assert!(answers(&between(from, to)).is_none_or(|answered| answered == expected), "{from} to {to}");
    }
    let from_group = [&OURS.0[..], &ALL_NODES.0, &between(v4(1), v4(2))[12..]].concat();
    assert_ne!(answers(&from_group), Some(true));
    // Without the consent of the host there are no answers, nor with that of long ago.
    mark.level();
    mark.answer_syns(None, || 0);
    device.run(&syn.frame());
    assert_eq!(device.run(&syn.frame()).0, XDP_REDIRECT);
    mark.answer_syns(Some(now), || monotonic_nanos() - 5_000_000_000);
    mark.take(1);
    assert_eq!(device.run(&syn.frame()).0, XDP_REDIRECT);
}
