//! Forwarding by the program, compared with a host that forwards.

use evenkeel_core::cable::{self, End, Options};
use evenkeel_core::frame::Pool;
use evenkeel_core::host::{Config as HostConfig, Host};
use evenkeel_core::interface::Interface as _;
use evenkeel_core::offload::{Offload as _, OffloadHop};
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::{self, InterfaceId};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpCidr, Ipv4Packet};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::super::offload::Forwarder;
use super::*;

/// The return value of a program that has redirected a frame.
const REDIRECT: u32 = 4;
/// The return value of a program that has dropped a frame.
const DROPPED: u32 = 1;
const LEAVES: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 3]);
const NEXT: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 4]);
const MTU: usize = 600;
/// The way to the neighbour. In a test run, nothing leaves by a device. Every namespace has this one.
pub(super) const HOP: OffloadHop = OffloadHop { number: 0, device: 1, mtu: MTU, to: NEXT, from: LEAVES };

pub(super) fn far_v4(n: u8) -> Ipv4Address {
    Ipv4Address::new(198, 51, 100, n)
}

pub(super) fn far_v6(n: u16) -> Ipv6Address {
    Ipv6Address::new(0xfd00, 2, 0, 0, 0, 0, 0, n)
}

/// A host with two links that forwards from one to the other, and knows the neighbours there.
pub(super) struct Router {
    pub(super) host: Host,
    wires: [End; 2],
    pool: Pool,
    now: Instant,
}

impl Router {
    fn new() -> Self {
        let stack = stack::Config { forwarding: true, report_groups: false, ..stack::Config::default() };
        let mut host = Host::new(HostConfig { stack, ..HostConfig::of(Architecture::Polled) }).unwrap();
        let mut pool = Pool::with_limit(4096);
        let sides = [(OURS, v4(2), v6(2)), (LEAVES, far_v4(9), far_v6(9))];
        let wires = sides.map(|(hardware, four, six)| {
            let inside = Options { address: hardware, ..Options::new("router", 0) };
            let (mut wire, inside) = cable::pair(Options::new("wire", 7), inside);
            wire.attach(&mut pool).unwrap();
            let addresses = [IpCidr::new(four.into(), 24), IpCidr::new(six.into(), 64)];
            host.add_interface(Box::new(inside), &addresses, Instant::ZERO).unwrap();
            wire
        });
        for far in [IpAddress::from(far_v4(1)), far_v6(1).into()] {
            host.set_neighbor(InterfaceId(1), far, NEXT, Instant::ZERO).unwrap();
        }
        host.set_mtu(InterfaceId(1), MTU);
        let mut router = Self { host, wires, pool, now: Instant::ZERO };
        // Its own addresses are checked and announced first.
        router.now += Duration::from_secs(10);
        router.leaving();
        router
    }

    /// Lets the host work. Returns the frames that leave by the second link.
    pub(super) fn leaving(&mut self) -> Vec<Vec<u8>> {
        const UNIT: Duration = Duration::from_micros(1);
        let mut rests = false;
        for _ in 0..100_000 {
            let Some(ran) = self.host.turn(self.now) else {
                rests = self.host.halt(self.now);
                if rests {
                    break;
                }
                continue;
            };
            self.now += UNIT;
            self.host.charge(&ran, UNIT);
            self.host.finish(&ran, self.now);
        }
        assert!(rests, "the host never comes to rest");
        let mut left = Vec::new();
        for (link, wire) in self.wires.iter_mut().enumerate() {
            while let Some(frame) = wire.queue_mut(0).take(&mut self.pool) {
                if link == 1 {
                    left.push(frame.bytes().to_vec());
                }
                self.pool.recycle(frame);
            }
        }
        left
    }

    /// Returns what leaves when the frame comes.
    pub(super) fn forward(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        self.wires[0].send(frame);
        self.wires[0].flush();
        self.leaving()
    }
}

/// The program, which forwards to the same destinations.
pub(super) struct Forwarding {
    pair: Pair,
    pub(super) forwarder: Forwarder,
    pub(super) router: Router,
}

/// The fate of a frame in the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Forwarded(Vec<u8>),
    Refused,
    /// The program leaves the frame to the host.
    Left,
}

impl Forwarding {
    pub(super) fn load() -> Option<Self> {
        Self::load_for(Buffers::One, MTU)
    }

    fn load_for(buffers: Buffers, mtu: usize) -> Option<Self> {
        let mut pair =
            Pair::of(Program::load(Taken::NotForwarded, Sharing::Nothing, buffers), Sharing::Nothing)?;
        pair.apply(Change::Hardware(OURS));
        let mut forwarder = Forwarder::take(pair.program.object()).unwrap();
        let own = [IpAddress::from(v4(2)), far_v4(9).into(), v6(2).into(), far_v6(9).into()];
        let broadcasts = [v4(255), far_v4(255)].map(IpAddress::from);
        forwarder.set_addresses(&mut own.into_iter().chain(broadcasts));
        for far in [IpAddress::from(far_v4(1)), far_v6(1).into()] {
            assert!(forwarder.forward(far, &OffloadHop { mtu, ..HOP }));
        }
        Some(Self { pair, forwarder, router: Router::new() })
    }

    /// Runs the program, and checks its counters.
    pub(super) fn outcome(&self, frame: &[u8]) -> Outcome {
        let counts = || (self.forwarder.forwarded(), self.forwarder.refused());
        let before = counts();
        let xdp: &Xdp = self.pair.program.object.program(self.pair.program.name).unwrap().try_into().unwrap();
        let mut out = vec![0; frame.len()];
        let options =
            TestRunOptions { data_in: Some(frame), data_out: Some(&mut out), ..TestRunOptions::new() };
        let returned = xdp.test_run(options).unwrap().return_value;
        let more = (counts().0 - before.0, counts().1 - before.1);
        if returned == REDIRECT {
            assert_eq!(more, (1, 0));
            return Outcome::Forwarded(out);
        }
        assert_eq!(out, frame, "the host gets it as it came");
        if more == (0, 0) {
            return Outcome::Left;
        }
        assert_eq!((more, returned), ((0, 1), DROPPED));
        Outcome::Refused
    }

    /// Runs the program. Returns the frame as it leaves, if the program forwards it.
    fn run(&self, frame: &[u8]) -> Option<Vec<u8>> {
        match self.outcome(frame) {
            Outcome::Forwarded(frame) => Some(frame),
            Outcome::Left => None,
            Outcome::Refused => panic!("nothing was to be refused: {frame:02x?}"),
        }
    }

    /// Runs both. The host must forward what the program does, in the same form but for padding. Returns
    /// whether the program does.
    fn compare(&mut self, frame: &[u8]) -> bool {
        let by_program = self.run(frame);
        let by_host = self.router.forward(frame);
        if let Some(mut by_program) = by_program {
            by_program.truncate(by_host.first().map_or(0, Vec::len));
            assert!(by_host == [by_program], "{by_host:02x?} of {frame:02x?}");
            return true;
        }
        false
    }
}

/// Returns the frame with the checksum of its IPv4 header.
pub(super) fn summed(mut frame: Vec<u8>) -> Vec<u8> {
    if let Ok(mut packet) = Ipv4Packet::new_checked(&mut frame[14..]) {
        packet.fill_checksum();
    }
    frame
}

fn changed(mut frame: Vec<u8>, at: usize, to: &[u8]) -> Vec<u8> {
    frame[at..at + to.len()].copy_from_slice(to);
    summed(frame)
}

fn four(payload: &[u8]) -> Vec<u8> {
    summed(ipv4(v4(1), far_v4(1), 17, 0, 0, payload))
}

fn six(next: u8, payload: &[u8]) -> Vec<u8> {
    ipv6(v6(1), far_v6(1), next, payload)
}

#[test]
fn plain_packets_leave_as_the_host_would_send_them() {
    let Some(mut forwarding) = Forwarding::load() else { return };
    let all = [
        four(&udp(7, 9)),
        summed(ipv4(v4(1), far_v4(1), 6, 1, 0x4000, &tcp(7, 9, 2))),
        summed(ipv4(v4(1), far_v4(1), 17, 1, 0x2000, &[0; 64])),
        summed(ipv4(v4(1), far_v4(1), 17, 1, 9, &[0; 64])),
        four(&[0; MTU - 20]),
        changed(four(&udp(7, 9)), 22, &[2]),
        changed(four(&udp(7, 9)), 15, &[0xb9]),
        six(17, &udp(7, 9)),
        six(6, &tcp(7, 9, 2)),
        six(44, &fragment_header(17, 1, 7, &udp(7, 9))),
        six(60, &extension(17, 0, &udp(7, 9))),
        six(17, &[0; MTU - 40]),
        changed(six(17, &udp(7, 9)), 21, &[2]),
        // Padding stays.
        [four(&udp(7, 9)), vec![0; 14]].concat(),
    ];
    for frame in all {
        assert!(forwarding.compare(&frame), "{frame:02x?}");
    }
}

/// In a test run what exceeds some 3.5 KB of a frame lies in a second buffer.
#[test]
fn packets_in_several_buffers_leave_whole_or_are_left_to_the_host() {
    const LARGE: usize = 9_000;
    let Some(forwarding) = Forwarding::load_for(Buffers::Several, LARGE) else { return };
    for len in [30, 3_400, 3_600, LARGE - 40] {
        for (frame, ttl) in [(four(&vec![7; len]), 22), (six(17, &vec![7; len]), 21)] {
            let left = forwarding.run(&frame).unwrap();
            assert_eq!((left.len(), left[ttl]), (frame.len(), frame[ttl] - 1));
            assert_eq!(left[..6], NEXT.0);
            assert!(left[54..] == frame[54..], "{len} bytes");
            assert!(forwarding.run(&frame[..frame.len() - 1]).is_none(), "{len} bytes, the last one cut");
        }
    }
    assert!(forwarding.run(&four(&[7; LARGE - 19])).is_none(), "larger than the MTU");
    // The packet is small, and the frame is not: the next device need not take it.
    for len in [1_000, 4_000] {
        let padded = [four(&udp(7, 9)), vec![0; len]].concat();
        assert_eq!(forwarding.run(&padded).is_some(), len == 1_000);
    }
}

#[test]
fn all_others_are_left_to_the_host() {
    let Some(mut forwarding) = Forwarding::load() else { return };
    let from = |source: &str| summed(ipv4(source.parse().unwrap(), far_v4(1), 17, 0, 0, &udp(7, 9)));
    let from_v6 = |source: &str| ipv6(source.parse().unwrap(), far_v6(1), 17, &udp(7, 9));
    let wrong = |at: usize| {
        let mut frame = four(&udp(7, 9));
        frame[at] ^= 1;
        frame
    };
    let with_option = || {
        let mut frame = four(&[&[7, 4, 4, 0][..], &udp(7, 9)].concat());
        frame[14] = 0x46;
        summed(frame)
    };
    let all = [
        changed(four(&udp(7, 9)), 22, &[1]),
        changed(four(&udp(7, 9)), 22, &[0]),
        changed(six(17, &udp(7, 9)), 21, &[1]),
        with_option(),
        six(0, &extension(17, 0, &udp(7, 9))),
        four(&[0; MTU - 19]),
        six(17, &[0; MTU - 39]),
        wrong(24),
        wrong(0),
        changed(four(&udp(7, 9)), 0, &STRANGER.0),
        changed(four(&udp(7, 9)), 0, &[0xff; 6]),
        summed(ipv4(v4(1), far_v4(2), 17, 0, 0, &udp(7, 9))),
        summed(ipv4(v4(1), v4(2), 17, 0, 0, &udp(7, 9))),
        from("0.0.0.0"),
        from("0.1.2.3"),
        from("127.0.0.1"),
        from("169.254.1.1"),
        from("224.0.0.1"),
        from("255.255.255.255"),
        from("10.0.0.2"),
        from_v6("::"),
        from_v6("::1"),
        from_v6("::ffff:10.0.0.1"),
        from_v6("fe80::1"),
        from_v6("ff02::1"),
        from_v6("fd00::2"),
        // A mapped destination is another one.
        ipv6(v6(1), far_v4(1).to_ipv6_mapped(), 17, &udp(7, 9)),
        four(&udp(7, 9))[..40].to_vec(),
        four(&udp(7, 9))[..30].to_vec(),
        six(17, &udp(7, 9))[..60].to_vec(),
        six(17, &udp(7, 9))[..45].to_vec(),
        ethernet(0x8100, &four(&udp(7, 9))[12..]),
    ];
    for frame in all {
        assert!(!forwarding.compare(&frame), "{frame:02x?}");
    }
}

/// Plain packets in which bytes of the headers are others, their checksums right or not.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let plain = prop_oneof![
        vec(any::<u8>(), 0..64).prop_map(|payload| four(&payload)),
        (select(&[0_u8, 6, 17, 43, 44, 58, 60][..]), vec(any::<u8>(), 0..64))
            .prop_map(|(next, payload)| six(next, &payload)),
    ];
    let changes = vec((any::<Index>(), any::<u8>()), 0..3);
    (plain, changes, any::<bool>()).prop_map(|(mut frame, changes, sums)| {
        let headers = frame.len().min(54);
        changes.into_iter().for_each(|(at, to)| frame[at.index(headers)] = to);
        if sums { summed(frame) } else { frame }
    })
}

#[test]
fn of_generated_packets_the_program_forwards_only_what_the_host_does() {
    const CASES: u32 = 2_000;
    let Some(forwarding) = Forwarding::load() else { return };
    let forwarding = RefCell::new(forwarding);
    let forwarded = Cell::new(0);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(CASES) });
    let outcome = runner.run(&frames(), |frame| {
        let by_program = forwarding.borrow_mut().compare(&frame);
        forwarded.set(forwarded.get() + u32::from(by_program));
        Ok(())
    });
    outcome.unwrap();
    assert!((CASES / 10..CASES).contains(&forwarded.get()), "{} forwarded", forwarded.get());
}

#[test]
fn what_is_cleared_is_the_hosts_again_and_the_unused_are_forgotten() {
    let Some(mut forwarding) = Forwarding::load() else { return };
    let used = |forwarding: &mut Forwarding| {
        let mut used = Vec::new();
        forwarding.forwarder.each_used(&mut |number| used.push(number));
        used
    };
    assert_eq!(used(&mut forwarding), [], "nothing has left");
    assert!(forwarding.run(&four(&udp(7, 9))).is_some());
    assert_eq!(used(&mut forwarding), [0]);
    assert_eq!(used(&mut forwarding), []);
    for _ in 0..40 {
        assert!(forwarding.run(&six(17, &udp(7, 9))).is_some());
        used(&mut forwarding);
    }
    assert!(forwarding.run(&four(&udp(7, 9))).is_none(), "not used for a while");
    assert!(forwarding.run(&six(17, &udp(7, 9))).is_some());
    forwarding.forwarder.clear();
    assert!(forwarding.run(&six(17, &udp(7, 9))).is_none());
    assert_eq!(forwarding.forwarder.forwarded(), 42);
}
