//! Tests of packet sockets on a veth pair in their own namespace, with each other and with the kernel's
//! stack.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::collections::VecDeque;
use std::fs::File;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};
use std::thread;

use evenkeel_core::bpf::{Instruction, Program};
use evenkeel_core::frame::{Frame, LinkType, Metadata, Pool};
use evenkeel_core::interface::{Burst, Interface, RxQueue as _, Seen, TxQueue as _};
use evenkeel_core::time::Duration;
use evenkeel_core::wire::{EthernetAddress, IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket, UdpPacket};
use evenkeel_link::capture::Frames;
use evenkeel_link::{
    Address, Clock, Device, DeviceChange, DeviceChanges, DeviceState, LinkError, Listen, Listener, Packet,
    PacketOptions, device_now,
};
use support::{
    Bench, arp_reply, attempt, echo_reply, in_namespace, is_arp_request, is_ipv4, run, with_patience,
};

const US: [u8; 4] = [10, 77, 0, 2];

/// Creates a veth pair: `kernel0` with addresses, and `ek0` without any, for us.
fn veth() {
    run("ip link add kernel0 type veth peer name ek0");
    for name in ["kernel0", "ek0"] {
        run(&format!("sysctl -qw net.ipv6.conf.{name}.accept_dad=0"));
    }
    run("sysctl -qw net.ipv6.conf.ek0.disable_ipv6=1");
    run("ip addr add 10.77.0.1/24 dev kernel0");
    run("ip addr add fd77::1/64 dev kernel0 nodad");
    run("ip link set kernel0 up");
    run("ip link set ek0 up");
}

fn open(name: &str) -> Bench<Packet> {
    Bench::new(Packet::open(name, &PacketOptions::default()).unwrap())
}

/// Creates a veth pair, opens our end, and gives the kernel the neighbours `10.77.0.2` and `fd77::2`.
fn veth_with_neighbour() -> Bench<Packet> {
    veth();
    let bench = open("ek0");
    let mac = bench.device.properties().address.to_string().replace('-', ":");
    run(&format!("ip neigh add 10.77.0.2 lladdr {mac} dev kernel0"));
    run(&format!("ip neigh add fd77::2 lladdr {mac} dev kernel0"));
    bench
}

/// Sees frames of ones, and when the kernel says that they came.
struct Stamps<'a>(&'a mut Pool, Vec<u64>);

impl Burst for Stamps<'_> {
    fn pool(&mut self) -> &mut Pool {
        self.0
    }

    fn records(&self) -> bool {
        false
    }

    fn see(&mut self, bytes: &[u8], metadata: &Metadata) -> Seen {
        // The kernel sends some of its own.
        if bytes.iter().all(|byte| *byte == 0xff) {
            self.1.push(metadata.stamp_nanos);
        }
        Seen::Discard
    }

    fn take(&mut self, _frame: Frame) -> bool {
        true
    }
}

#[test]
fn frames_come_with_the_kernels_stamp_if_it_is_wanted() {
    in_namespace(|| {
        veth();
        let mut sender = open("kernel0");
        for stamps in [true, false] {
            // Another address each time: a process that another test starts at this moment has a copy of the
            // first device's claim to its own.
            let options = PacketOptions { stamps, address: Address::Random, ..PacketOptions::default() };
            let mut bench = Bench::new(Packet::open("ek0", &options).unwrap());
            let (before, _) = bench.clock.wall_now();
            sender.send(&[0xff; 60]);
            let (after, _) = bench.clock.wall_now();
            let mut seen = Stamps(&mut bench.pool, Vec::new());
            let device = &mut bench.device;
            with_patience("a frame", bench.clock, || {
                device.queue_mut(0).receive(8, &mut seen);
                !seen.1.is_empty()
            });
            let as_wanted = |stamp: &u64| if stamps { (before..=after).contains(stamp) } else { *stamp == 0 };
            assert!(seen.1.iter().all(as_wanted), "{before} {:?} {after}", seen.1);
        }
    });
}

#[test]
fn the_kernel_resolves_and_pings_us() {
    in_namespace(|| {
        veth();
        let mut bench = open("ek0");
        let mac = bench.device.properties().address.0;
        let ping =
            Command::new("ping").args(["-c1", "-W10", "10.77.0.2"]).stdout(Stdio::piped()).spawn().unwrap();
        let request = bench.expect("ARP request", |frame| is_arp_request(frame, US));
        bench.send(&arp_reply(request.bytes(), mac));
        let echo = bench.expect("echo request", |frame| is_ipv4(frame, 1));
        assert_eq!(echo.bytes()[..6], mac, "addressed to the MAC we gave, which is not the device's");
        bench.send(&echo_reply(echo.bytes()));
        let output = ping.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    });
}

#[test]
fn frames_cross_from_end_to_end_unchanged_and_in_order() {
    in_namespace(|| {
        veth();
        let (mut left, mut right) = (open("kernel0"), open("ek0"));
        let ours = |frame: &[u8]| frame.get(12..14) == Some(&[0x88, 0xb5]);
        for number in 0..1000_u16 {
            // The Ethertype is for local experiments (IEEE 802); lengths go from the shortest to the longest.
            let len = 60 + usize::from(number) % 1455;
            let mut frame = vec![number as u8; len];
            frame[..14].copy_from_slice(&[2, 9, 9, 9, 9, 9, 2, 8, 8, 8, 8, 8, 0x88, 0xb5]);
            frame[14..16].copy_from_slice(&number.to_be_bytes());
            left.send(&frame);
            let got = right.expect("frame", ours);
            assert_eq!(got.bytes(), frame);
            right.pool.recycle(got);
        }
        assert_eq!(left.pool.available(), left.pool.capacity());
        assert_eq!(right.pool.available(), right.pool.capacity());
        assert!(
            left.frame_within(Duration::from_millis(50), ours).is_none(),
            "what we send does not come back to us"
        );
    });
}

#[test]
fn many_frames_leave_by_one_system_call() {
    in_namespace(|| {
        veth();
        let (mut left, mut right) = (open("kernel0"), open("ek0"));
        left.pool = Pool::new(256);
        let ours = |frame: &[u8]| is_ipv4(frame, 17) && frame[26..30] == [10, 0, 1, 9];
        let mut frames: VecDeque<_> =
            (0..150).map(|n| left.pool.take_copy(&datagram(7, n)).unwrap()).collect();
        assert_eq!(left.device.transmit(&mut frames, &mut left.pool), 150);
        assert_eq!(left.device.info().status.sent(), (150, 3));
        // The kernel has copied them, so their buffers are free.
        assert_eq!(left.pool.available(), left.pool.capacity());
        for number in 0..150 {
            let frame = right.expect("a datagram", ours);
            assert_eq!(frame.bytes()[42], number);
            right.pool.recycle(frame);
        }
    });
}

#[test]
fn flows_are_spread_over_the_rings_of_one_interface_each_in_order_and_none_twice() {
    in_namespace(|| {
        veth();
        let mut left = open("kernel0");
        let options = PacketOptions { queues: 4, ..PacketOptions::default() };
        let mut device = Packet::open("ek0", &options).unwrap();
        assert_eq!((device.properties().queues, device.info().descriptors.list().len()), (4, 4));
        let mut pool = Pool::new(64);
        // So many that hardly ever all of them pass over one of the rings: the kernel's hash is another one
        // after each boot. And an odd number, or taking turns would look like flows that stay where they are.
        const FLOWS: usize = 129;
        let (mut ring_of, mut next) = ([9; FLOWS], [0; FLOWS]);
        for number in 0..8 {
            for flow in 0..FLOWS as u16 {
                left.send(&datagram(2000 + flow, number));
            }
            with_patience("a frame of each flow", left.clock, || {
                for ring in 0..4 {
                    while let Some(frame) = device.queue_mut(ring).take(&mut pool) {
                        if is_ipv4(frame.bytes(), 17) {
                            let flow = flow_of(frame.bytes());
                            assert_eq!(frame.bytes()[42], next[flow], "flow {flow}");
                            assert!(ring_of[flow] == ring || number == 0, "flow {flow}");
                            (ring_of[flow], next[flow]) = (ring, next[flow] + 1);
                        }
                        pool.recycle(frame);
                    }
                }
                next.iter().all(|&n| n == number + 1)
            });
        }
        assert!((0..4).all(|ring| ring_of.contains(&ring)), "{ring_of:?}");
    });
}

/// Returns which of the flows from port 2000 on a datagram belongs to.
fn flow_of(frame: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([frame[34], frame[35]]) - 2000)
}

/// Returns a UDP datagram from `port` with this number.
fn datagram(port: u16, number: u8) -> Vec<u8> {
    let ends = [&[2, 9, 9, 9, 9, 9, 2, 8, 8, 8, 8, 8, 8, 0][..], &[0x45, 0, 0, 29, 0, 0, 0, 0, 64, 17, 0, 0]]
        .concat();
    let rest = [&[10, 0, 1, 9, 10, 0, 2, 9][..], &port.to_be_bytes(), &[0, 9, 0, 9, 0, 0, number]].concat();
    let mut frame = [ends, rest].concat();
    frame.resize(60, 0);
    frame
}

#[test]
fn flows_are_spread_over_the_queues_of_a_device_each_in_order_and_none_twice() {
    in_namespace(|| {
        veth();
        let mut left = open("kernel0");
        let queues = Packet::open_queues("ek0", &PacketOptions::default(), 2).unwrap();
        assert_eq!(queues[0].properties().address, queues[1].properties().address);
        let mut queues: Vec<_> = queues.into_iter().map(Bench::new).collect();
        let ours = |frame: &[u8]| is_ipv4(frame, 17) && frame[26..30] == [10, 0, 1, 9];
        let (mut by, mut next) = ([0; 2], [0; 33]);
        for number in 0..8 {
            for flow in 0..33 {
                left.send(&datagram(2000 + flow, number));
            }
            with_patience("a frame of each flow", left.clock, || {
                for (queue, count) in queues.iter_mut().zip(&mut by) {
                    while let Some(frame) = queue.frame_within(Duration::ZERO, ours) {
                        let flow = flow_of(frame.bytes());
                        assert_eq!(frame.bytes()[42], next[flow], "flow {flow}");
                        next[flow] += 1;
                        *count += 1;
                        queue.pool.recycle(frame);
                    }
                }
                next.iter().all(|&n| n == number + 1)
            });
        }
        assert!(by.iter().all(|&n| n >= 8 && n % 8 == 0), "{by:?}");
        for queue in &mut queues {
            queue.send(&datagram(1, 1));
            let seen = left.expect("what a queue sends", ours);
            left.pool.recycle(seen);
        }
        // Frames that the kernel sends through the device are ignored, too.
        run("ip addr add 10.78.0.1/24 dev ek0");
        run("ip neigh add 10.78.0.9 lladdr 02:09:09:09:09:09 dev ek0");
        UdpSocket::bind("10.78.0.1:0").unwrap().send_to(&[0; 8], "10.78.0.9:9").unwrap();
        let seen = left.expect("what the kernel sends", |frame| is_ipv4(frame, 17));
        left.pool.recycle(seen);
        let is_udp = |frame: &[u8]| is_ipv4(frame, 17);
        assert!(queues.iter_mut().all(|queue| queue.frame_within(Duration::ZERO, is_udp).is_none()));
    });
}

/// Over a veth the kernel leaves the checksum to an adaptor that is not there; smoltcp's check is independent
/// of ours.
#[test]
fn datagrams_of_the_kernel_have_a_right_checksum() {
    in_namespace(|| {
        let mut bench = veth_with_neighbour();
        for len in [0, 1, 2, 3, 18, 100, 999, 1472] {
            for to in ["10.77.0.2:4242", "[fd77::2]:4242"] {
                let to: SocketAddr = to.parse().unwrap();
                let from = if to.is_ipv4() { "10.77.0.1:0" } else { "[fd77::1]:0" };
                let payload: Vec<u8> =
                    (0..if to.is_ipv4() { len } else { len.min(1452) }).map(|i| i as u8).collect();
                UdpSocket::bind(from).unwrap().send_to(&payload, to).unwrap();
                let frame = bench.expect("datagram", |frame| is_udp(frame, to.is_ipv4()));
                assert!(checksum_is_right(frame.bytes()), "{to}, {len} bytes");
                bench.pool.recycle(frame);
            }
        }
    });
}

/// Looks at datagrams, and says whether their checksums were right.
struct Checker {
    pool: Pool,
    records: bool,
    right: Vec<bool>,
}

impl Burst for Checker {
    fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    fn records(&self) -> bool {
        self.records
    }

    fn see(&mut self, bytes: &[u8], _metadata: &Metadata) -> Seen {
        self.right.extend((is_udp(bytes, true) || is_udp(bytes, false)).then(|| checksum_is_right(bytes)));
        Seen::Discard
    }

    fn take(&mut self, _frame: Frame) -> bool {
        unreachable!("it takes none")
    }
}

/// Its checksum is not computed before it is discarded, but a recording has it.
#[test]
fn a_datagram_of_the_kernel_is_discarded_without_its_checksum_unless_it_is_recorded() {
    in_namespace(|| {
        let mut bench = veth_with_neighbour();
        for records in [false, true] {
            let mut checker = Checker { pool: Pool::new(1), records, right: Vec::new() };
            for to in ["10.77.0.2:9", "[fd77::2]:9"] {
                let socket = UdpSocket::bind(if to.starts_with('[') { "[fd77::1]:0" } else { "10.77.0.1:0" });
                socket.unwrap().send_to(&[7; 1000], to).unwrap();
            }
            let deadline = bench.clock.now() + Duration::from_secs(10);
            while checker.right.len() < 2 && bench.clock.now() < deadline {
                bench.device.queue_mut(0).receive(16, &mut checker);
            }
            assert_eq!(checker.right, [records; 2]);
        }
    });
}

#[test]
fn segments_of_the_kernel_have_a_right_checksum() {
    in_namespace(|| {
        let mut bench = veth_with_neighbour();
        let client = thread::spawn(|| {
            TcpStream::connect_timeout(&"10.77.0.2:80".parse().unwrap(), Duration::from_secs(1))
        });
        let frame = bench.expect("SYN", |frame| is_ipv4(frame, 6));
        let ip = Ipv4Packet::new_checked(&frame.bytes()[14..]).unwrap();
        let tcp = TcpPacket::new_checked(ip.payload()).unwrap();
        assert!(tcp.syn() && tcp.verify_checksum(&ip.src_addr().into(), &ip.dst_addr().into()));
        let _ = client.join();
    });
}

fn is_udp(frame: &[u8], v4: bool) -> bool {
    if v4 {
        is_ipv4(frame, 17)
    } else {
        frame.get(12..14) == Some(&[0x86, 0xdd]) && frame.get(20) == Some(&17)
    }
}

fn checksum_is_right(frame: &[u8]) -> bool {
    if frame[12] == 8 {
        let ip = Ipv4Packet::new_checked(&frame[14..]).unwrap();
        let udp = UdpPacket::new_checked(ip.payload()).unwrap();
        assert!(udp.checksum() != 0 && ip.next_header() == IpProtocol::Udp);
        udp.verify_checksum(&ip.src_addr().into(), &ip.dst_addr().into())
    } else {
        let ip = Ipv6Packet::new_checked(&frame[14..]).unwrap();
        let udp = UdpPacket::new_checked(ip.payload()).unwrap();
        udp.verify_checksum(&ip.src_addr().into(), &ip.dst_addr().into())
    }
}

/// The kernel removes the tag from an incoming frame, and stores it separately.
#[test]
fn vlan_tags_are_where_they_were_on_the_wire() {
    in_namespace(|| {
        veth();
        let (mut left, mut right) = (open("kernel0"), open("ek0"));
        for tpid in [[0x81, 0], [0x88, 0xa8]] {
            let header = [&[2, 9, 9, 9, 9, 9, 2, 8, 8, 8, 8, 8][..], &tpid, &[0x20, 7, 0x88, 0xb5]].concat();
            let frame = [&header[..], &[5; 80]].concat();
            left.send(&frame);
            assert_eq!(right.expect("tagged frame", |frame| frame.starts_with(&header)).bytes(), frame);
        }
    });
}

#[test]
fn a_flood_is_shed_by_the_ring_and_counted() {
    in_namespace(|| {
        veth();
        run("sysctl -qw net.ipv6.conf.kernel0.disable_ipv6=1");
        run("ip neigh add 10.77.0.2 lladdr 02:00:00:00:00:01 dev kernel0");
        let options = PacketOptions { ring_pkts: 128, ..PacketOptions::default() };
        let mut bench = Bench::new(Packet::open("ek0", &options).unwrap());
        assert!(bench.frame_within(Duration::from_millis(300), |_| false).is_none());
        let quiet = bench.device.queue(0).missed();
        let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
        for _ in 0..1000 {
            socket.send_to(&[0; 100], "10.77.0.2:9").unwrap();
        }
        let mut taken = 0;
        while let Some(frame) = bench.frame_within(Duration::from_millis(200), |frame| is_ipv4(frame, 17)) {
            taken += 1;
            bench.pool.recycle(frame);
        }
        assert_eq!(
            (taken, bench.device.queue(0).missed() - quiet),
            (128, 872),
            "the ring holds what was asked for, the rest is counted"
        );
        assert_eq!(bench.pool.available(), bench.pool.capacity());
    });
}

/// UDP segmentation offload: one large packet, to be split by an adaptor. It may fit into the ring, or be
/// larger than it could hold.
#[test]
fn what_is_left_to_be_segmented_is() {
    in_namespace(|| {
        let mut bench = veth_with_neighbour();
        let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
        let quiet = bench.device.queue(0).missed();
        set_udp_option(&socket, UDP_SEGMENT, 500);
        for total in [1_200, 12_000, 1_700] {
            let payload: Vec<u8> = (0..total).map(|n| (n / 7) as u8).collect();
            socket.send_to(&payload, "10.77.0.2:9").unwrap();
            let mut got = Vec::new();
            while got.len() < total {
                let frame = bench.expect("segment", |frame| is_ipv4(frame, 17));
                assert!(frame.len() <= 14 + 20 + 8 + 500);
                got.extend_from_slice(&frame.bytes()[14 + 20 + 8..]);
                bench.pool.recycle(frame);
            }
            assert_eq!(got, payload);
        }
        set_udp_option(&socket, UDP_SEGMENT, 0);
        socket.send_to(&[2; 10], "10.77.0.2:9").unwrap();
        let frame = bench.expect("datagram", |frame| is_ipv4(frame, 17));
        assert_eq!(frame.len(), 14 + 20 + 8 + 10);
        assert_eq!(bench.device.queue(0).missed(), quiet);
    });
}

const UDP_SEGMENT: i32 = 103;

fn set_udp_option(socket: &UdpSocket, option: i32, value: i32) {
    use std::os::fd::AsRawFd;
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the descriptor is live, and the four bytes live through the call.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_UDP, option, (&raw const value).cast(), len)
    };
    assert_eq!(result, 0);
}

#[test]
fn frames_larger_than_a_slot_are_counted_and_harmless() {
    in_namespace(|| {
        let mut bench = veth_with_neighbour();
        run("ip link set kernel0 mtu 9000");
        run("ip link set ek0 mtu 9000");
        let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
        let quiet = bench.device.queue(0).missed();
        socket.send_to(&[7; 8000], "10.77.0.2:9").unwrap();
        socket.send_to(&[7; 1400], "10.77.0.2:9").unwrap();
        assert_eq!(bench.expect("datagram", |frame| is_ipv4(frame, 17)).len(), 14 + 20 + 8 + 1400);
        assert_eq!(bench.device.queue(0).missed() - quiet, 1);
    });
}

/// Otherwise a sender of unusable frames could keep a host in one call without end.
#[test]
fn frames_of_no_use_are_passed_over_so_many_at_a_time() {
    in_namespace(|| {
        let mut bench = veth_with_neighbour();
        run("ip link set kernel0 mtu 9000");
        run("ip link set ek0 mtu 9000");
        assert!(bench.frame_within(Duration::from_millis(300), |_| false).is_none());
        let (socket, quiet) = (UdpSocket::bind("10.77.0.1:0").unwrap(), bench.device.queue(0).missed());
        for _ in 0..9 {
            socket.send_to(&[7; 8000], "10.77.0.2:9").unwrap();
        }
        socket.send_to(&[7; 1400], "10.77.0.2:9").unwrap();
        let mut takes = 0;
        let frame = loop {
            let waits = bench.device.queue(0).pending() > 0;
            let missed = bench.device.queue(0).missed() - quiet;
            if let Some(frame) = bench.device.queue_mut(0).take(&mut bench.pool) {
                break frame;
            }
            takes += u64::from(waits);
            assert_eq!(bench.device.queue(0).missed() - quiet, missed + u64::from(waits));
        };
        assert_eq!((takes, frame.len()), (9, 14 + 20 + 8 + 1400));
        bench.pool.recycle(frame);
    });
}

#[test]
fn an_empty_pool_loses_nothing() {
    in_namespace(|| {
        let mut bench = veth_with_neighbour();
        let held: Vec<_> = std::iter::from_fn(|| bench.pool.take()).collect();
        UdpSocket::bind("10.77.0.1:0").unwrap().send_to(b"wait", "10.77.0.2:9").unwrap();
        let deadline = bench.clock.now() + Duration::from_secs(10);
        while bench.device.queue(0).pending() == 0 && bench.clock.now() < deadline {}
        assert!(bench.device.queue_mut(0).take(&mut bench.pool).is_none());
        assert_eq!(bench.device.queue(0).pending(), 1);
        held.into_iter().for_each(|frame| bench.pool.recycle(frame));
        bench.expect("datagram", |frame| is_ipv4(frame, 17));
    });
}

#[test]
fn a_device_that_goes_down_may_come_back_and_one_that_is_removed_has_failed() {
    in_namespace(|| {
        let mut bench = veth_with_neighbour();
        let status = bench.device.info().status;
        run("ip link set ek0 down");
        assert!(bench.frame_within(Duration::from_millis(200), |_| false).is_none());
        assert_eq!(status.state(), DeviceState::Running);
        bench.send(&[0; 60]);
        assert_eq!(status.refused(), 1);
        run("ip link set ek0 up");
        let mac = bench.device.properties().address.to_string().replace('-', ":");
        run(&format!("ip neigh replace 10.77.0.2 lladdr {mac} dev kernel0"));
        // The kernel takes its time to see that there is a carrier again.
        let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
        let came = (0..20).any(|_| {
            let _ = socket.send_to(b"again", "10.77.0.2:9");
            bench.frame_within(Duration::from_millis(500), |frame| is_ipv4(frame, 17)).is_some()
        });
        assert!(came, "nothing comes though the device is up again");
        run("ip link del kernel0");
        for _ in 0..2 {
            assert!(bench.frame_within(Duration::from_millis(100), |_| false).is_none());
        }
        assert_eq!(status.state(), DeviceState::Failed);
    });
}

#[test]
fn nothing_is_left_behind() {
    in_namespace(|| {
        veth();
        let bench = open("ek0");
        assert!(run("ip -d link show ek0").contains("promiscuity 1"));
        drop(bench);
        let is_gone = || {
            run("ip -d link show ek0").contains("promiscuity 0")
                && run("cat /proc/thread-self/net/packet").lines().count() == 1
        };
        // A command that another test has just forked shares the socket until it executes its program.
        let mut patience = 200;
        while !is_gone() {
            assert!(patience > 0, "a packet socket is left");
            patience -= 1;
            run("sleep 0.05");
        }
    });
}

#[test]
fn the_address_is_as_asked_for() {
    in_namespace(|| {
        veth();
        let address = |address| {
            Packet::open("ek0", &PacketOptions { address, ..PacketOptions::default() })
                .unwrap()
                .properties()
                .address
        };
        let fixed = EthernetAddress([2, 1, 2, 3, 4, 5]);
        assert_eq!(address(Address::Fixed(fixed)), fixed);
        let device = address(Address::Device);
        assert!(run("ip link show ek0").contains(&device.to_string().replace('-', ":")));
        assert_ne!(address(Address::Own), device);
    });
}

#[test]
fn what_cannot_be_opened_says_why() {
    in_namespace(|| {
        let open = |name| Packet::open(name, &PacketOptions::default()).unwrap_err();
        assert!(matches!(open("ek0"), LinkError::NoDevice { .. }));
        assert!(matches!(open("lo"), LinkError::NotEthernet { .. }));
        veth();
        run("ip link set ek0 down");
        assert!(matches!(open("ek0"), LinkError::Down { .. }));
        assert!(attempt("ip link del ek0").0);
    });
}

/// Returns a filter for frames with this Ethertype for local experiments (IEEE 802), and for 96 bytes of
/// each.
fn experimental() -> Program {
    let list = [(0x28, 0, 0, 12), (0x15, 0, 1, 0x88b5), (0x06, 0, 0, 96), (0x06, 0, 0, 0)];
    Program::new(&list.map(|(code, jt, jf, k)| Instruction { code, jt, jf, k })).unwrap()
}

/// Looks at those frames, which have numbers and lengths by these.
struct Looker {
    pool: Pool,
    last: Option<u32>,
}

impl Burst for Looker {
    fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    fn records(&self) -> bool {
        true
    }

    fn see(&mut self, bytes: &[u8], note: &Metadata) -> Seen {
        let number = u32::from_be_bytes(bytes[14..18].try_into().unwrap());
        let whole = 60 + number as usize % 1000;
        assert_eq!((bytes.len(), note.cut_bytes as usize), (whole.min(96), whole.saturating_sub(96)));
        assert!(note.stamp_nanos > 0 && !note.sent && self.last < Some(number));
        self.last = Some(number);
        Seen::Discard
    }

    fn take(&mut self, _frame: Frame) -> bool {
        unreachable!("it takes none")
    }
}

/// Opens a TUN device, which exists as long as the file is open.
fn tunnel(name: &str) -> File {
    let end = File::options().read(true).write(true).open("/dev/net/tun").unwrap();
    // SAFETY: an all-zero request has no name.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes the request, which outlives the call.
    let made = unsafe { libc::ioctl(end.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    end
}

/// Keeps frames of a device, with what is known of them.
struct Kept {
    pool: Pool,
    frames: Vec<(Vec<u8>, Metadata)>,
}

impl Burst for Kept {
    fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    fn records(&self) -> bool {
        true
    }

    fn see(&mut self, bytes: &[u8], metadata: &Metadata) -> Seen {
        self.frames.push((bytes.to_vec(), *metadata));
        Seen::Discard
    }

    fn take(&mut self, _frame: Frame) -> bool {
        unreachable!("it takes none")
    }
}

/// On a tunnel there is no link-layer header, and each frame says so.
#[test]
fn a_tunnel_can_be_listened_to() {
    in_namespace(|| {
        let _other_end = tunnel("ektun");
        run("ip addr add 10.9.3.1/24 dev ektun");
        run("ip link set ektun up");
        let listen = Listen { filter: None, promiscuous: true };
        let mut listener = Listener::open("ektun", &listen, 32).unwrap();
        assert_eq!(listener.info().frames, Frames::on_device("ektun").unwrap());
        assert_eq!(listener.info().frames.link_type(), LinkType::RAW);
        assert!(matches!(
            Packet::open("ektun", &PacketOptions::default()).unwrap_err(),
            LinkError::NotEthernet { .. }
        ));
        UdpSocket::bind("10.9.3.1:9").unwrap().send_to(&[7; 18], "10.9.3.2:9").unwrap();
        let mut kept = Kept { pool: Pool::with_limit(0), frames: Vec::new() };
        with_patience("a packet", Clock::start(), || {
            listener.queue_mut(0).receive(8, &mut kept);
            kept.frames.iter().any(|(bytes, metadata)| {
                bytes.len() == 46 && bytes[0] == 0x45 && metadata.sent && metadata.link_type == LinkType::RAW
            })
        });
    });
}

/// Whatever the ring holds, and whichever frames lie in a block that the kernel has not handed over yet.
#[test]
fn who_listens_sees_every_frame_or_knows_that_it_was_lost() {
    in_namespace(|| {
        veth();
        let mut left = open("kernel0");
        let listen = Listen { filter: Some(experimental()), promiscuous: true };
        let mut listener = Listener::open("ek0", &listen, 32).unwrap();
        let (clock, mut sent, mut seen) = (Clock::start(), 0_u32, 0);
        let mut looker = Looker { pool: Pool::with_limit(0), last: None };
        for many in [1, 700, 5000] {
            for _ in 0..many {
                let mut frame = vec![7; 60 + sent as usize % 1000];
                frame[..14].copy_from_slice(&[2, 9, 9, 9, 9, 9, 2, 8, 8, 8, 8, 8, 0x88, 0xb5]);
                frame[14..18].copy_from_slice(&sent.to_be_bytes());
                left.send(&frame);
                sent += 1;
            }
            let deadline = clock.now() + Duration::from_secs(60);
            while listener.queue(0).buffered() > 0 {
                assert!(clock.now() < deadline, "the kernel keeps {} frames", listener.queue(0).buffered());
                seen += listener.receive(64, &mut looker);
            }
            assert_eq!(seen as u64 + listener.queue(0).missed(), sent.into());
        }
        assert!(listener.queue(0).missed() > 1000, "a ring of 256 KiB held everything");
        // It sends nothing, and says so.
        let mut frames: VecDeque<_> = (0..3).map(|_| left.pool.take_copy(&[0; 60]).unwrap()).collect();
        assert_eq!(listener.transmit(&mut frames, &mut left.pool), 3);
        assert_eq!((listener.info().status.sent(), listener.info().status.refused()), ((3, 0), 3));
    });
}

#[test]
fn a_hardware_address_is_taken_once_on_a_device() {
    in_namespace(|| {
        veth();
        let first = Packet::open("ek0", &PacketOptions::default()).unwrap();
        let error = Packet::open("ek0", &PacketOptions::default()).unwrap_err();
        assert!(matches!(error, LinkError::Claimed { .. }), "{error}");
        let random = PacketOptions { address: Address::Random, ..PacketOptions::default() };
        let (second, third) = (Packet::open("ek0", &random).unwrap(), Packet::open("ek0", &random).unwrap());
        assert!(
            second.properties().address != third.properties().address
                && second.properties().address != first.properties().address
        );
        // On another device it is another matter, and whoever goes leaves it to others.
        Packet::open(
            "kernel0",
            &PacketOptions {
                address: Address::Fixed(first.properties().address),
                ..PacketOptions::default()
            },
        )
        .unwrap();
        drop(first);
        // Programs that other tests start hold copies of this process's descriptors until they execute.
        let mut again = Packet::open("ek0", &PacketOptions::default());
        for _ in 0..1_000 {
            if again.is_ok() {
                break;
            }
            thread::yield_now();
            run("true");
            again = Packet::open("ek0", &PacketOptions::default());
        }
        again.unwrap();
    });
}

#[test]
fn all_queues_of_a_device_have_the_address_that_was_drawn() {
    in_namespace(|| {
        veth();
        let options = PacketOptions { address: Address::Random, ..PacketOptions::default() };
        let queues = Packet::open_queues("ek0", &options, 3).unwrap();
        assert!(queues.iter().all(|queue| queue.properties().address == queues[0].properties().address));
    });
}

#[test]
fn what_is_too_large_for_our_buffers_is_refused() {
    in_namespace(|| {
        veth();
        for (mtu, fits) in [(1901, true), (1902, false), (9000, false)] {
            run(&format!("ip link set ek0 mtu {mtu}"));
            match Packet::open("ek0", &PacketOptions::default()) {
                Ok(device) => assert!(fits && device.properties().mtu == mtu),
                Err(error) => assert!(!fits && matches!(error, LinkError::Jumbo { .. }), "{mtu}: {error}"),
            }
        }
    });
}

#[test]
fn changes_of_devices_are_announced() {
    in_namespace(|| {
        let mut changes = DeviceChanges::open().unwrap();
        veth();
        run("ip link set ek0 mtu 1400");
        let index = evenkeel_link::device_index("ek0").unwrap();
        assert_eq!(
            device_now("ek0"),
            Some(DeviceChange::Is { index, name: "ek0".to_owned(), mtu: 1400, up: true })
        );
        run("ip link del ek0");
        assert_eq!(device_now("ek0"), None);
        let mut heard = Vec::new();
        while changes.read(|change| heard.push(change)).unwrap() {}
        let has = |mtu: usize, up: bool| {
            heard.contains(&DeviceChange::Is { index, name: "ek0".to_owned(), mtu, up })
        };
        assert!(has(1500, false) && has(1500, true) && has(1400, true), "{heard:?}");
        assert!(heard.contains(&DeviceChange::Gone { index }), "{heard:?}");
    });
}
