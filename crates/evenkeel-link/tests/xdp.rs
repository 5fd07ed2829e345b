//! Tests of AF_XDP on a veth pair in their own namespace: with the kernel's stack, and with packet sockets at
//! the other end.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};

use evenkeel_core::demux::{Binding, Change};
use evenkeel_core::drop::{IpDrop, LinkDrop, Reason};
use evenkeel_core::frame::Pool;
use evenkeel_core::id::ChannelId;
use evenkeel_core::interface::{Arrived, Demultiplexer, Interface as _, Opened, RxQueue, TxQueue as _};
use evenkeel_core::time::Duration;
use evenkeel_core::wire::{IpAddress, Ipv4Packet, Ipv6Packet, UdpPacket};
use evenkeel_link::{
    Device as _, DeviceState, LinkError, Packet, PacketOptions, Xdp, XdpOptions, buffer_bytes_for,
};
use evenkeel_skip::Lack;
use support::{
    Bench, arp_reply, attempt, echo_reply, in_namespace, is_arp_request, is_ipv4, lacks, run, with_patience,
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

/// Runs `test` in a namespace of its own, where AF_XDP can be had. Elsewhere the test counts as skipped.
fn behind_xdp(test: impl FnOnce() + Send + 'static) {
    in_namespace(|| {
        veth();
        let opened = Xdp::open("ek0", &XdpOptions::default());
        run("ip link del kernel0");
        match opened {
            Err(why @ LinkError::Privilege { .. }) => lacks(&Lack::Other(&why.to_string())),
            Err(LinkError::Os { source, .. })
                if matches!(source.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::ENOSYS)) =>
            {
                lacks(&Lack::Other(&format!("no AF_XDP: {source}")));
            }
            _ => test(),
        }
    });
}

fn open() -> Bench<Xdp> {
    Bench::new(Xdp::open("ek0", &XdpOptions::default()).unwrap())
}

/// Makes the kernel's neighbours of our addresses.
fn neighbours(bench: &Bench<Xdp>) {
    let mac = bench.device.properties().address.to_string().replace('-', ":");
    run(&format!("ip neigh replace 10.77.0.2 lladdr {mac} dev kernel0"));
    run(&format!("ip neigh replace fd77::2 lladdr {mac} dev kernel0"));
}

fn veth_with_neighbour() -> Bench<Xdp> {
    veth();
    let bench = open();
    neighbours(&bench);
    bench
}

#[test]
fn the_kernel_resolves_and_pings_us() {
    behind_xdp(|| {
        veth();
        let mut bench = open();
        let mac = bench.device.properties().address.0;
        let ping =
            Command::new("ping").args(["-c1", "-W10", "10.77.0.2"]).stdout(Stdio::piped()).spawn().unwrap();
        let request = bench.expect("ARP request", |frame| is_arp_request(frame, US));
        bench.send(&arp_reply(request.bytes(), mac));
        let echo = bench.expect("echo request", |frame| is_ipv4(frame, 1));
        assert_eq!(echo.bytes()[..6], mac);
        bench.send(&echo_reply(echo.bytes()));
        let output = ping.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    });
}

/// Sends a frame with this number from `left` to `right`, and back: the even ones from where they lie.
fn there_and_back(left: &mut Bench<Packet>, right: &mut Bench<Xdp>, mut frame: Vec<u8>, number: u16) {
    let (ours, theirs) = (right.device.properties().address.0, left.device.properties().address.0);
    // The Ethertype is for local experiments (IEEE 802).
    let is_test = |frame: &[u8]| frame.get(12..14) == Some(&[0x88, 0xb5]);
    frame[..14].copy_from_slice(&[ours.as_slice(), &theirs, &[0x88, 0xb5]].concat());
    frame[14..16].copy_from_slice(&number.to_be_bytes());
    left.send(&frame);
    let got = right.expect("frame", is_test);
    assert!(got.bytes() == frame, "{} bytes", frame.len());
    if number.is_multiple_of(2) {
        let mut frames = [got].into();
        assert_eq!(right.device.transmit(&mut frames, &mut right.pool), 1);
    } else {
        right.send(&frame);
        right.pool.recycle(got);
    }
    let back = left.expect("its echo", is_test);
    assert!(back.bytes() == frame, "{} bytes", frame.len());
    left.pool.recycle(back);
}

/// Frames go there and back: once copied into the memory that the kernel reads, once from where they arrived.
#[test]
fn frames_cross_unchanged_and_in_order_and_can_be_sent_from_where_they_lie() {
    behind_xdp(|| {
        veth();
        let mut left = Bench::new(Packet::open("kernel0", &PacketOptions::default()).unwrap());
        let mut right = open();
        for number in 0..1000_u16 {
            let frame = vec![number as u8; 60 + usize::from(number) % 1455];
            there_and_back(&mut left, &mut right, frame, number);
        }
    });
}

/// Frames that one device received and another one sends are copied. Their chunks return, and no ring runs
/// out of memory.
#[test]
fn frames_that_another_device_sends_return_to_the_one_that_received_them() {
    behind_xdp(|| {
        veth();
        run("ip link add kernel1 type veth peer name ek1");
        run("sysctl -qw net.ipv6.conf.kernel1.disable_ipv6=1 net.ipv6.conf.ek1.disable_ipv6=1");
        run("ip link set kernel1 up");
        run("ip link set ek1 up");
        let [mut sender, mut receiver] = ["kernel0", "kernel1"]
            .map(|name| Bench::new(Packet::open(name, &PacketOptions::default()).unwrap()));
        let mut from = open();
        let mut to = Bench::new(Xdp::open("ek1", &XdpOptions::default()).unwrap());
        let (ours, theirs) = (from.device.properties().address.0, receiver.device.properties().address.0);
        let is_test = |frame: &[u8]| frame.get(12..14) == Some(&[0x88, 0xb5]);
        // More frames than the memory of a device has chunks, some at a time.
        for round in 0..250_u16 {
            for number in 0..64_u8 {
                let mut frame = [&ours, &theirs, [0x88, 0xb5].as_slice(), &[number; 46]].concat();
                frame[15..17].copy_from_slice(&round.to_be_bytes());
                sender.send(&frame);
            }
            let free = from.pool.available();
            let mut frames: VecDeque<_> = (0..64)
                .map(|_| {
                    let mut frame = from.expect("frame", is_test);
                    frame.bytes_mut()[..6].copy_from_slice(&theirs);
                    frame
                })
                .collect();
            assert_eq!(from.pool.available(), free, "a frame of round {round} is in no chunk of its device");
            while !frames.is_empty() {
                to.device.transmit(&mut frames, &mut to.pool);
            }
            for number in 0..64_u8 {
                let frame = receiver.expect("relayed frame", is_test);
                assert_eq!((frame.bytes()[14], &frame.bytes()[15..17]), (number, &round.to_be_bytes()[..]));
                receiver.pool.recycle(frame);
            }
        }
        let missed = [&from, &to].map(|bench| bench.device.queue(0).missed());
        assert_eq!((missed, to.device.info().status.refused()), ([0, 0], 0));
    });
}

/// A packet monitor gets what the machine would get, and what is for other stations.
#[test]
fn a_device_of_which_everything_is_taken_leaves_nothing_to_the_kernel_until_it_is_shut() {
    behind_xdp(|| {
        veth();
        let options = XdpOptions { everything: true, ..XdpOptions::default() };
        let mut bench = Bench::new(Xdp::open("ek0", &options).unwrap());
        assert!(bench.device.demultiplexer().is_none());
        let second = Xdp::open("ek0", &options).unwrap_err();
        assert!(matches!(second, LinkError::Busy { .. }), "{second}");
        let mut sender = Bench::new(Packet::open("kernel0", &PacketOptions::default()).unwrap());
        let other = PacketOptions { address: evenkeel_link::Address::Random, ..PacketOptions::default() };
        let mut kernel = Bench::new(Packet::open("ek0", &other).unwrap());
        let is_test = |frame: &[u8]| frame.get(12..14) == Some(&[0x88, 0xb5]);
        let ours = bench.device.properties().address.0;
        let frame = |to: [u8; 6]| [to.as_slice(), &[2, 8, 8, 8, 8, 8, 0x88, 0xb5], &[7; 46]].concat();
        for to in [ours, [2, 9, 9, 9, 9, 9], [1, 0, 0x5e, 0, 0, 9], [0xff; 6]] {
            sender.send(&frame(to));
            let got = bench.expect("frame", is_test);
            assert_eq!(got.bytes(), frame(to));
            bench.pool.recycle(got);
        }
        assert!(kernel.frame_within(Duration::from_millis(100), is_test).is_none());
        bench.device.info().shut();
        sender.send(&frame([0xff; 6]));
        kernel.expect("frame", is_test);
        assert!(bench.frame_within(Duration::from_millis(100), is_test).is_none());
    });
}

#[test]
fn frames_of_other_stations_go_on_to_the_kernel() {
    behind_xdp(|| {
        veth();
        let mut sender = Bench::new(Packet::open("kernel0", &PacketOptions::default()).unwrap());
        let mut us = open();
        let options = PacketOptions { address: evenkeel_link::Address::Random, ..PacketOptions::default() };
        let mut kernel = Bench::new(Packet::open("ek0", &options).unwrap());
        let ours = us.device.properties().address.0;
        let other = [2, 9, 9, 9, 9, 9];
        let is_test = |frame: &[u8]| frame.get(12..14) == Some(&[0x88, 0xb5]);
        for (to, number) in [(ours, 1), (other, 2), (ours, 3), (other, 4)] {
            sender.send(&[to.as_slice(), &[2, 8, 8, 8, 8, 8, 0x88, 0xb5], &[number; 46]].concat());
        }
        let numbers = |frames: [u8; 2]| frames;
        let got = [(); 2].map(|()| us.expect("a frame to us", is_test).bytes()[14]);
        assert_eq!(got, numbers([1, 3]));
        let got = [(); 2].map(|()| kernel.expect("a frame to another", is_test).bytes()[14]);
        assert_eq!(got, numbers([2, 4]));
    });
}

/// Opens our device of a veth pair with this MTU, with buffers that hold its frames.
fn open_with_mtu(mtu: usize) -> Bench<Xdp> {
    for name in ["kernel0", "ek0"] {
        run(&format!("ip link set {name} mtu {mtu}"));
    }
    let mut bench = open();
    bench.pool = Pool::of_buffers(buffer_bytes_for(mtu), 64);
    bench.pool.grow(64).unwrap();
    bench
}

/// Frames of all lengths, in one chunk of memory and in several, go there and back: from where they lie, from
/// the buffer where they were gathered, and copied.
#[test]
fn frames_of_a_large_mtu_cross_unchanged_and_in_order() {
    for mtu in [3_000, 9_000, 11_502] {
        behind_xdp(move || {
            veth();
            let mut right = open_with_mtu(mtu);
            let options = PacketOptions { jumbo: true, ..PacketOptions::default() };
            let mut left = Bench::new(Packet::open("kernel0", &options).unwrap());
            left.pool = Pool::of_buffers(buffer_bytes_for(mtu), 64);
            left.pool.grow(64).unwrap();
            let edges = [3839, 3840, 3841, 4095, 4096, 4097, 7679, 7680, 7681, 8191, 8192, 8193];
            let lens = edges.into_iter().chain((0..300).map(|number| 60 + number * 997 % (mtu - 45)));
            let lens = lens.filter(|len| *len <= mtu + 14).chain([mtu + 14]);
            for (number, len) in (0_u16..).zip(lens) {
                let frame = (0..len).map(|at| (at / 251) as u8 ^ (at as u8)).collect();
                there_and_back(&mut left, &mut right, frame, number);
                assert_eq!((left.pool.available(), right.pool.available()), (64, 64));
            }
            let status = right.device.info().status;
            assert_eq!((right.device.queue(0).missed(), status.refused()), (0, 0));
        });
    }
}

fn checksum_is_right(frame: &[u8]) -> bool {
    let (source, destination, payload) = if frame[12..14] == [8, 0] {
        let ip = Ipv4Packet::new_checked(&frame[14..]).unwrap();
        (IpAddress::from(ip.src_addr()), IpAddress::from(ip.dst_addr()), ip.payload().to_vec())
    } else {
        let ip = Ipv6Packet::new_checked(&frame[14..]).unwrap();
        (ip.src_addr().into(), ip.dst_addr().into(), ip.payload().to_vec())
    };
    UdpPacket::new_checked(&payload[..]).unwrap().verify_checksum(&source, &destination)
}

fn is_udp(frame: &[u8], v4: bool) -> bool {
    if v4 {
        is_ipv4(frame, 17)
    } else {
        frame.get(12..14) == Some(&[0x86, 0xdd]) && frame.get(20) == Some(&17)
    }
}

/// Over a veth the kernel leaves the checksum to an adaptor that is not there.
#[test]
fn datagrams_of_the_kernel_have_a_right_checksum() {
    behind_xdp(|| {
        let mut bench = veth_with_neighbour();
        for len in [0, 1, 2, 3, 18, 100, 999, 1452] {
            for to in ["10.77.0.2:4242", "[fd77::2]:4242"] {
                let to: SocketAddr = to.parse().unwrap();
                let from = if to.is_ipv4() { "10.77.0.1:0" } else { "[fd77::1]:0" };
                let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
                UdpSocket::bind(from).unwrap().send_to(&payload, to).unwrap();
                let frame = bench.expect("datagram", |frame| is_udp(frame, to.is_ipv4()));
                assert!(checksum_is_right(frame.bytes()), "{to}, {len} bytes");
            }
        }
    });
}

/// The kernel's datagrams and echo requests fill the MTU. Their checksums are left to an adaptor, or not.
#[test]
fn packets_of_the_kernel_fill_a_large_mtu_in_both_directions() {
    behind_xdp(|| {
        veth();
        let mtu = 9_000;
        let mut bench = open_with_mtu(mtu);
        neighbours(&bench);
        for offload in ["on", "off"] {
            if offload == "off" && !attempt("ethtool -K kernel0 tx off").0 {
                lacks(&Lack::Program { program: "ethtool", package: "ethtool" });
                break;
            }
            for len in [100, 3_500, 3_797, 3_798, 3_799, 8_000, mtu - 28] {
                let payload: Vec<u8> = (0..len).map(|at| (at % 253) as u8).collect();
                let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
                socket.send_to(&payload, "10.77.0.2:4242").unwrap();
                let frame = bench.expect("datagram", |frame| is_udp(frame, true));
                assert!(checksum_is_right(frame.bytes()), "{len} bytes, with tx {offload}");
                assert!(frame.bytes()[42..] == payload, "{len} bytes");
                // The kernel takes the answer from where we got the question, or drops a wrong one.
                bench.send(&answer_to(frame.bytes()));
                let mut got = vec![0; 10_000];
                socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                let (got_len, _) = socket.recv_from(&mut got).unwrap();
                assert!(got[..got_len] == payload, "{len} bytes");
                bench.pool.recycle(frame);
            }
        }
        let ping = ["-M", "do", "-s", "8972", "-c", "1", "-W", "10", "10.77.0.2"];
        let ping = Command::new("ping").args(ping).stdout(Stdio::piped()).spawn().unwrap();
        let echo = bench.expect("echo request", |frame| is_ipv4(frame, 1));
        assert_eq!(echo.len(), mtu + 14);
        bench.send(&echo_reply(echo.bytes()));
        let output = ping.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    });
}

/// Returns a datagram over IPv4 with both ends exchanged, which changes no checksum.
fn answer_to(frame: &[u8]) -> Vec<u8> {
    let (addresses, ports) = (&frame[26..34], &frame[34..38]);
    let ends = [&addresses[4..], &addresses[..4], &ports[2..], &ports[..2]].concat();
    [&frame[6..12], &frame[..6], &frame[12..26], &ends, &frame[38..]].concat()
}

/// Large frames take several entries of a ring. A ring that has no room for one may have it for a small one.
#[test]
fn a_flood_of_large_and_small_frames_is_accounted_for_to_the_last_one() {
    behind_xdp(|| {
        veth();
        let mut bench = open_with_mtu(9_000);
        neighbours(&bench);
        let mut demultiplexer = bench.device.demultiplexer().unwrap();
        let demultiplexer = &mut *demultiplexer;
        demultiplexer.update(Change::AddAddress(IpAddress::v4(10, 77, 0, 2)));
        let [mut large, mut mixed, mut quiet] =
            [1, 2, 3].map(|id| Channel::open(demultiplexer, id, 64).unwrap());
        for (port, channel) in [(9, &large), (8, &mixed), (7, &quiet)] {
            bind(demultiplexer, port, channel);
        }
        let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
        let send = |len: usize, port: u16| socket.send_to(&vec![7; len], ("10.77.0.2", port)).unwrap();
        let free = bench.pool.available();
        let (clock, mut taken) = (bench.clock, [0; 2]);
        for round in 1..=50_u64 {
            for number in 0..400 {
                send(8_900, 9);
                send([8_900, 10, 3_700, 5_000][number % 4], 8);
            }
            // A full ring starves none.
            send(8_900, 7);
            send(10, 7);
            quiet.expect(2, &mut bench);
            for (channel, taken) in [&mut large, &mut mixed].into_iter().zip(&mut taken) {
                with_patience("the flood", clock, || {
                    *taken + channel.ring.missed() + channel.ring.pending() as u64 == 400 * round
                });
                let held = channel.ring.pending() as u64;
                // A part is taken, so that the rings begin the next round at any place.
                for _ in 0..held - round % 40 {
                    let frame = channel.ring.take(&mut bench.pool).unwrap();
                    assert!(checksum_is_right(frame.bytes()));
                    bench.pool.recycle(frame);
                    *taken += 1;
                }
                assert_eq!(channel.ring.pending() as u64, round % 40, "round {round}");
            }
        }
        for (channel, taken) in [&mut large, &mut mixed].into_iter().zip(&mut taken) {
            *taken += channel.drain(&mut bench.pool) as u64;
            assert_eq!(*taken + channel.ring.missed(), 20_000);
            assert!(channel.ring.missed() > 0 && *taken > 50 * 64 / 3, "{taken} taken");
        }
        assert_eq!(bench.pool.available(), free, "a buffer is lost");
        assert_eq!([&large, &mixed, &quiet].map(|channel| channel.ring.pending()), [0; 3]);
    });
}

#[test]
fn a_flood_is_shed_by_the_ring_and_counted() {
    behind_xdp(|| {
        veth();
        run("sysctl -qw net.ipv6.conf.kernel0.disable_ipv6=1");
        let options = XdpOptions { ring_pkts: 128, ..XdpOptions::default() };
        let mut bench = Bench::new(Xdp::open("ek0", &options).unwrap());
        let mac = bench.device.properties().address.to_string().replace('-', ":");
        run(&format!("ip neigh add 10.77.0.2 lladdr {mac} dev kernel0"));
        assert!(bench.frame_within(Duration::from_millis(300), |_| false).is_none());
        let quiet = bench.device.queue(0).missed();
        send_from_kernel(1000, 9);
        let mut taken = 0;
        while let Some(frame) = bench.frame_within(Duration::from_millis(200), |frame| is_ipv4(frame, 17)) {
            taken += 1;
            bench.pool.recycle(frame);
        }
        assert_eq!((taken, bench.device.queue(0).missed() - quiet), (128, 872));
    });
}

fn send_from_kernel(count: usize, port: u16) {
    let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
    for _ in 0..count {
        socket.send_to(&[0; 100], ("10.77.0.2", port)).unwrap();
    }
}

/// A ring of a channel, as the demultiplexer opens it.
struct Channel {
    id: ChannelId,
    ring: Box<dyn RxQueue>,
}

impl Channel {
    fn open(demultiplexer: &mut dyn Demultiplexer, id: u32, capacity_pkts: usize) -> Option<Self> {
        let id = ChannelId(id);
        match demultiplexer.open(id, capacity_pkts, &mut Pool::new(1)) {
            Opened::Own(ring) => Some(Self { id, ring }),
            Opened::Shared => None,
            Opened::Refused => panic!("{id:?} is refused"),
        }
    }

    /// Takes all frames that wait, and returns their number.
    fn drain(&mut self, pool: &mut Pool) -> usize {
        core::iter::from_fn(|| self.ring.take(pool)).count()
    }

    /// Waits for so many frames, and takes them. The kernel may deliver what it has sent a little later.
    fn expect(&mut self, count: usize, bench: &mut Bench<Xdp>) {
        let (clock, mut got) = (bench.clock, 0);
        with_patience("a frame", clock, || {
            got += self.drain(&mut bench.pool);
            got >= count
        });
        assert_eq!(got, count);
    }

    /// Waits until so many frames wait in the ring.
    fn wait_for(&self, count: usize, bench: &Bench<Xdp>) {
        with_patience("a frame", bench.clock, || self.ring.pending() >= count);
        assert_eq!(self.ring.pending(), count);
    }
}

fn bind(demultiplexer: &mut dyn Demultiplexer, port: u16, channel: &Channel) {
    demultiplexer.update(Change::Bind(Binding::Udp { address: None, port }, channel.id));
}

#[test]
fn each_channel_has_its_own_ring_and_a_full_one_starves_none() {
    behind_xdp(|| {
        let mut bench = veth_with_neighbour();
        let mut demultiplexer = bench.device.demultiplexer().unwrap();
        let demultiplexer = &mut *demultiplexer;
        demultiplexer.update(Change::AddAddress(IpAddress::v4(10, 77, 0, 2)));
        let [mut control, mut flooded, mut quiet] =
            [1, 2, 3].map(|id| Channel::open(demultiplexer, id, 128).unwrap());
        demultiplexer.update(Change::Bind(Binding::Control, control.id));
        bind(demultiplexer, 9, &flooded);
        bind(demultiplexer, 7, &quiet);
        // Far more than the memory of the queue has chunks.
        send_from_kernel(20_000, 9);
        let clock = bench.clock;
        with_patience("the flood", clock, || flooded.ring.missed() + flooded.ring.pending() as u64 == 20_000);
        let held = flooded.ring.pending();
        assert!((128..8_000).contains(&held), "{held}");
        for _ in 0..50 {
            send_from_kernel(2, 7);
            send_from_kernel(1, 80);
            quiet.expect(2, &mut bench);
            // Nobody has that port.
            control.expect(1, &mut bench);
        }
        assert_eq!(flooded.drain(&mut bench.pool), held);
        // A binding that is gone leads nowhere, and a channel that is closed has no ring.
        demultiplexer.update(Change::Unbind(Binding::Udp { address: None, port: 7 }));
        send_from_kernel(1, 7);
        control.expect(1, &mut bench);
        assert_eq!(quiet.drain(&mut bench.pool), 0);
        demultiplexer.update(Change::Unbind(Binding::Udp { address: None, port: 9 }));
        demultiplexer.close(flooded.id);
        drop(flooded);
        let mut again = Channel::open(demultiplexer, 2, 128).unwrap();
        bind(demultiplexer, 9, &again);
        send_from_kernel(3, 9);
        again.expect(3, &mut bench);
    });
}

/// The host never sees what it could only discard, and every such frame is counted.
#[test]
fn what_is_of_no_use_is_dropped_and_counted_before_the_host_sees_it() {
    behind_xdp(|| {
        let mut bench = veth_with_neighbour();
        let mut demultiplexer = bench.device.demultiplexer().unwrap();
        demultiplexer.update(Change::AddAddress(IpAddress::v4(10, 77, 0, 2)));
        let mut sender = Bench::new(Packet::open("kernel0", &PacketOptions::default()).unwrap());
        let ours = bench.device.properties().address.0;
        let frame = |ethertype: [u8; 2], rest: &[u8]| {
            [&ours, &[2, 8, 8, 8, 8, 8], ethertype.as_slice(), rest].concat()
        };
        let packet = |version: u8, to: u8| {
            let mut packet = [0; 46];
            packet[0] = version << 4 | 5;
            packet[3] = 46;
            packet[9] = 17;
            packet[16..20].copy_from_slice(&[10, 77, 0, to]);
            packet
        };
        for (sent, ethertype, packet) in [
            (3, [0x88, 0xb5], packet(4, 2)),
            (4, [0x08, 0x00], packet(9, 2)),
            (5, [0x08, 0x00], packet(4, 3)),
            (2, [0x08, 0x00], packet(4, 2)),
        ] {
            (0..sent).for_each(|_| sender.send(&frame(ethertype, &packet)));
        }
        let mut came = 0;
        while bench.frame_within(Duration::from_millis(200), |frame| frame[..6] == ours).is_some() {
            came += 1;
        }
        let dropped = bench.device.dropped().into_iter().filter(|(_, frames)| *frames > 0);
        let expected: [(Reason, _); 3] = [
            (LinkDrop::UnknownEtherType.into(), 3),
            (IpDrop::Malformed.into(), 4),
            (IpDrop::NotLocal.into(), 5),
        ];
        assert!(dropped.eq(expected) && came == 2, "{came}");
    });
}

#[test]
fn channels_beyond_the_rings_share_one_and_lose_nothing() {
    behind_xdp(|| {
        let mut bench = veth_with_neighbour();
        let mut demultiplexer = bench.device.demultiplexer().unwrap();
        let demultiplexer = &mut *demultiplexer;
        demultiplexer.update(Change::AddAddress(IpAddress::v4(10, 77, 0, 2)));
        let mut own = Vec::new();
        for number in 0..200 {
            let id = 10 + u32::from(number);
            match Channel::open(demultiplexer, id, 64) {
                Some(channel) => {
                    bind(demultiplexer, 1000 + number, &channel);
                    own.push(channel);
                }
                None => demultiplexer
                    .update(Change::Bind(Binding::Udp { address: None, port: 1000 + number }, ChannelId(id))),
            }
        }
        assert!((20..64).contains(&own.len()), "{}", own.len());
        (0..200).for_each(|number| send_from_kernel(1, 1000 + number));
        own.iter_mut().for_each(|channel| channel.expect(1, &mut bench));
        let mut shared = 0;
        while bench.frame_within(Duration::from_millis(100), |frame| is_ipv4(frame, 17)).is_some() {
            shared += 1;
        }
        assert_eq!(shared, 200 - own.len());
    });
}

#[test]
fn a_ring_that_is_armed_interrupts_once_and_wakes_who_sleeps() {
    behind_xdp(|| {
        let mut bench = veth_with_neighbour();
        let mut demultiplexer = bench.device.demultiplexer().unwrap();
        let demultiplexer = &mut *demultiplexer;
        demultiplexer.update(Change::AddAddress(IpAddress::v4(10, 77, 0, 2)));
        let mut channel = Channel::open(demultiplexer, 1, 64).unwrap();
        let ahead = Channel::open(demultiplexer, 2, 64).unwrap();
        bind(demultiplexer, 7, &channel);
        bind(demultiplexer, 8, &ahead);
        send_from_kernel(1, 7);
        channel.wait_for(1, &bench);
        assert!(!demultiplexer.has_interrupt(), "nobody asked for one");
        assert!(channel.ring.arm(), "a frame waits");
        assert!(!demultiplexer.has_interrupt() && channel.drain(&mut bench.pool) == 1);
        for _ in 0..2 {
            assert!(!channel.ring.arm());
            send_from_kernel(2, 7);
            // The descriptors of the device become readable: the bench wakes from its sleep.
            assert!(bench.frame_within(Duration::from_millis(50), |_| false).is_none());
            channel.wait_for(2, &bench);
            assert!(demultiplexer.has_interrupt());
            assert_eq!(demultiplexer.interrupt(), Some(channel.id));
            assert_eq!((demultiplexer.interrupt(), demultiplexer.has_interrupt()), (None, false));
            assert_eq!(channel.drain(&mut bench.pool), 2);
        }
        assert!(!channel.ring.arm());
        send_from_kernel(1, 7);
        channel.wait_for(1, &bench);
        assert!(channel.ring.arm(), "a frame waits");
        assert_eq!(demultiplexer.interrupt(), Some(channel.id), "which interrupts, as was asked for before");
        assert_eq!(channel.drain(&mut bench.pool), 1);
        let arrived = Arrived::default();
        demultiplexer.watch(ahead.id, arrived.clone());
        send_from_kernel(1, 7);
        channel.expect(1, &mut bench);
        assert!(!arrived.is_set());
        send_from_kernel(1, 8);
        ahead.wait_for(1, &bench);
        send_from_kernel(1, 7);
        channel.expect(1, &mut bench);
        assert!(arrived.is_set(), "what came earlier to a ring that is ahead");
    });
}

#[test]
fn a_device_that_goes_down_may_come_back_and_one_that_is_removed_has_failed() {
    behind_xdp(|| {
        let mut bench = veth_with_neighbour();
        let status = bench.device.info().status;
        run("ip link set ek0 down");
        assert!(bench.frame_within(Duration::from_millis(200), |_| false).is_none());
        assert_eq!(status.state(), DeviceState::Running);
        bench.send(&[0; 60]);
        assert_eq!(status.refused(), 1);
        // More than its ring holds: none of them holds up frames for other devices.
        (0..5_000).for_each(|_| bench.send(&[0; 60]));
        assert_eq!(status.refused(), 5_001);
        run("ip link set ek0 up");
        neighbours(&bench);
        let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
        let came = (0..20).any(|_| {
            let _ = socket.send_to(b"again", "10.77.0.2:9");
            bench.frame_within(Duration::from_millis(500), |frame| is_ipv4(frame, 17)).is_some()
        });
        assert!(came, "nothing comes though the device is up again");
        run("ip link del kernel0");
        let clock = bench.clock;
        let witness = bench.device.info().descriptors.list().iter().map(|(number, _)| *number).max().unwrap();
        with_patience("the end", clock, || {
            bench.frame_within(Duration::from_millis(50), |_| false);
            bench.device.set_readable(witness);
            status.state() == DeviceState::Failed
        });
    });
}

#[test]
fn nothing_is_left_behind() {
    behind_xdp(|| {
        veth();
        let bench = open();
        let text = run("ip -d link show ek0");
        assert!(text.contains("promiscuity 1") && text.contains("prog/xdp"), "{text}");
        drop(bench);
        let clock = evenkeel_link::Clock::start();
        with_patience("the end of the program", clock, || {
            let text = run("ip -d link show ek0");
            text.contains("promiscuity 0") && !text.contains("prog/xdp")
        });
        // And the device can be taken again.
        with_patience("the device", clock, || Xdp::open("ek0", &XdpOptions::default()).is_ok());
    });
}

/// The kernel frees the queues of a device a little later than their sockets are closed.
#[test]
fn a_device_that_is_closed_can_be_opened_at_once() {
    behind_xdp(|| {
        veth();
        let mut sender = Bench::new(Packet::open("kernel0", &PacketOptions::default()).unwrap());
        for round in 0..20_u8 {
            let opened = Xdp::open("ek0", &XdpOptions::default());
            let mut bench = Bench::new(opened.unwrap_or_else(|error| panic!("round {round}: {error}")));
            let ours = bench.device.properties().address.0;
            sender.send(&[ours.as_slice(), &[2, 8, 8, 8, 8, 8, 0x88, 0xb5], &[round; 46]].concat());
            let frame = bench.expect("frame", |frame| frame.get(12..14) == Some(&[0x88, 0xb5]));
            assert_eq!(frame.bytes()[14], round);
            bench.pool.recycle(frame);
            // The last owner of the sockets.
            let demultiplexer = bench.device.demultiplexer();
            drop(bench);
            drop(demultiplexer);
        }
    });
}

/// Creates a veth pair as [`veth`] does, with two queues at both ends.
fn veth_with_queues() {
    veth();
    run("ip link del kernel0");
    run(
        "ip link add kernel0 numrxqueues 2 numtxqueues 2 type veth peer name ek0 numrxqueues 2 numtxqueues 2",
    );
    run("sysctl -qw net.ipv6.conf.ek0.disable_ipv6=1 net.ipv6.conf.kernel0.disable_ipv6=1");
    run("ip addr add 10.77.0.1/24 dev kernel0");
    run("ip link set kernel0 up");
    run("ip link set ek0 up");
}

/// Sends `count` datagrams from a port of their own each, so that they are spread over all queues.
fn send_flows(count: usize) {
    for _ in 0..count {
        send_from_kernel(1, 9);
    }
}

/// Takes datagrams from both hosts until there are so many together. Returns their numbers.
fn take_from_both(hosts: &mut [Bench<Xdp>; 2], count: usize) -> [usize; 2] {
    let (mut got, clock) = ([0; 2], hosts[0].clock);
    with_patience("all datagrams", clock, || {
        for (host, got) in hosts.iter_mut().zip(&mut got) {
            while let Some(frame) = host.device.queue_mut(0).take(&mut host.pool) {
                *got += usize::from(is_ipv4(frame.bytes(), 17));
                host.pool.recycle(frame);
            }
        }
        got.iter().sum::<usize>() >= count
    });
    got
}

/// Each host gets the frames of its queue, and the program is there as long as one of them lives.
#[test]
fn hosts_that_share_a_device_have_a_queue_each() {
    behind_xdp(|| {
        veth_with_queues();
        let opened = Xdp::open_queues("ek0", &XdpOptions::default(), 2).unwrap();
        let mut hosts: [Bench<Xdp>; 2] =
            opened.into_iter().map(Bench::new).collect::<Vec<_>>().try_into().ok().unwrap();
        let mac = hosts[0].device.properties().address.to_string().replace('-', ":");
        run(&format!("ip neigh replace 10.77.0.2 lladdr {mac} dev kernel0"));
        let [a, b] = hosts.each_ref().map(|host| host.device.properties().clone());
        assert_eq!((a.address, a.queues), (b.address, 1));
        send_flows(64);
        let [of_a, of_b] = take_from_both(&mut hosts, 64);
        assert!(of_a > 0 && of_b > 0 && of_a + of_b == 64, "{of_a} and {of_b}");
        assert!(Xdp::open("ek0", &XdpOptions::default()).is_err(), "a third host");
        // What comes by the queue of a host that is gone dies. The other goes on.
        let [first, mut last] = hosts;
        drop(first);
        send_flows(64);
        let mut got = 0;
        while let Some(frame) = last.frame_within(Duration::from_millis(300), |frame| is_ipv4(frame, 17)) {
            got += 1;
            last.pool.recycle(frame);
        }
        assert!(got > 0 && got < 64, "{got} of 64");
        drop(last);
        with_patience("the end of the program", evenkeel_link::Clock::start(), || {
            !run("ip -d link show ek0").contains("prog/xdp")
        });
    });
}

/// The program that calls those of the hosts takes frames in several chunks if these do.
#[test]
fn hosts_share_a_device_with_a_large_mtu() {
    behind_xdp(|| {
        veth_with_queues();
        ["kernel0", "ek0"].iter().for_each(|name| drop(run(&format!("ip link set {name} mtu 9000"))));
        let opened = Xdp::open_queues("ek0", &XdpOptions::default(), 2).unwrap();
        let mut hosts: [Bench<Xdp>; 2] =
            opened.into_iter().map(Bench::new).collect::<Vec<_>>().try_into().ok().unwrap();
        let mac = hosts[0].device.properties().address.to_string().replace('-', ":");
        run(&format!("ip neigh replace 10.77.0.2 lladdr {mac} dev kernel0"));
        send_flows(64);
        let [of_a, of_b] = take_from_both(&mut hosts, 64);
        assert!(of_a > 0 && of_b > 0 && of_a + of_b == 64, "{of_a} and {of_b}");
    });
}

#[test]
fn a_device_is_not_shared_by_more_hosts_than_it_has_queues() {
    behind_xdp(|| {
        veth_with_queues();
        let error = |options: &XdpOptions, hosts| {
            Xdp::open_queues("ek0", options, hosts).map(|_| ()).unwrap_err().to_string()
        };
        assert!(error(&XdpOptions::default(), 3).contains("`ek0` has queues for 2 of 3 hosts"));
        let one = XdpOptions { queues: vec![1], ..XdpOptions::default() };
        assert!(error(&one, 2).contains("`ek0` has queues for 1 of 2 hosts"));
        let shared = XdpOptions { shared: true, ..XdpOptions::default() };
        assert!(error(&shared, 2).contains("for one host"));
        assert!(attempt("ip -d link show ek0").1.contains("promiscuity 0"));
    });
}

#[test]
fn what_cannot_be_opened_says_why() {
    behind_xdp(|| {
        veth();
        let error = |name: &str| Xdp::open(name, &XdpOptions::default()).unwrap_err().to_string();
        assert!(error("nosuch0").contains("no network device is called `nosuch0`"));
        let first = open();
        let other = XdpOptions { address: evenkeel_link::Address::Random, ..XdpOptions::default() };
        let busy = Xdp::open("ek0", &other).unwrap_err();
        assert!(matches!(busy, LinkError::Busy { .. }), "{busy}");
        assert_eq!(error("ek0"), "another evenkeel is on `ek0`: stop that one, or use another device");
        drop(first);
        run("ip link set ek0 mtu 12000");
        assert!(error("ek0").contains("MTU of 12000, and frames of more than 11502 bytes"));
        run("ip link set ek0 down");
        assert_eq!(error("ek0"), "`ek0` is down: ip link set ek0 up");
        let queue = XdpOptions { queues: vec![7], ..XdpOptions::default() };
        run("ip link set ek0 mtu 1500 up");
        let text = Xdp::open("ek0", &queue).unwrap_err().to_string();
        assert!(text.contains("queue"), "{text}");
        assert!(attempt("ip -d link show ek0").1.contains("promiscuity 0"));
    });
}
