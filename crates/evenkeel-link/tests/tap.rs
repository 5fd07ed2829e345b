//! Tests of a TAP in its own namespace, with the kernel's stack.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::collections::VecDeque;
use std::net::UdpSocket;
use std::process::{Command, Stdio};

use evenkeel_core::frame::Pool;
use evenkeel_core::interface::{Interface, TxQueue as _};
use evenkeel_core::time::Duration;
use evenkeel_core::wire::IpCidr;
use evenkeel_link::{Clock, Device, DeviceState, KernelCounts, LinkError, Tap, TapOptions};
use support::{
    Bench, arp_reply, attempt, echo_reply, in_namespace, is_arp_request, is_ipv4, run, wait_until_gone,
    with_patience,
};

const US: [u8; 4] = [10, 77, 0, 2];

fn tap_with_address() -> Bench<Tap> {
    let kernel_addresses =
        ["10.77.0.1/24", "fd77::1/64"].map(|cidr| cidr.parse::<IpCidr>().unwrap()).to_vec();
    Bench::new(Tap::open("ek0", &TapOptions { kernel_addresses, ..TapOptions::default() }).unwrap())
}

#[test]
fn the_kernel_resolves_and_pings_us() {
    in_namespace(|| {
        let mut bench = tap_with_address();
        let mac = bench.device.properties().address.0;
        let ping =
            Command::new("ping").args(["-c1", "-W10", "10.77.0.2"]).stdout(Stdio::piped()).spawn().unwrap();
        let request = bench.expect("ARP request", |frame| is_arp_request(frame, US));
        bench.send(&arp_reply(request.bytes(), mac));
        let echo = bench.expect("echo request", |frame| is_ipv4(frame, 1));
        assert_eq!(echo.bytes()[..6], mac, "addressed to the MAC we gave");
        bench.send(&echo_reply(echo.bytes()));
        let output = ping.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let neighbours = run("ip neigh show dev ek0");
        assert!(
            neighbours.contains(
                &format!("10.77.0.2 lladdr {}", bench.device.properties().address)
                    .to_lowercase()
                    .replace('-', ":")
            ),
            "{neighbours}"
        );
    });
}

#[test]
fn a_tap_that_we_made_goes_away_and_its_addresses_are_set() {
    in_namespace(|| {
        let bench = tap_with_address();
        let shown = run("ip addr show dev ek0");
        assert!(
            shown.contains("10.77.0.1/24") && shown.contains("fd77::1/64") && shown.contains("UP"),
            "{shown}"
        );
        assert_eq!(bench.device.properties().mtu, 1500);
        drop(bench);
        wait_until_gone("ek0");
    });
}

/// Returns our request for the hardware address of `target`.
fn arp_request(mac: [u8; 6], target: [u8; 4]) -> Vec<u8> {
    let header = [&[0xff; 6][..], &mac, &[8, 6]].concat();
    let body = [&[0, 1, 8, 0, 6, 4, 0, 1], &mac[..], &US, &[0; 6], &target].concat();
    [header, body].concat()
}

/// Returns an echo request in IPv6 (RFC 4443) to `target` at `to_mac`, from an address that the kernel knows.
fn echo_request_v6(mac: [u8; 6], to_mac: [u8; 6], from: [u8; 16], target: [u8; 16]) -> Vec<u8> {
    let mut message = [128, 0, 0, 0, 0, 1, 0, 1];
    let pseudo = [&from[..], &target, &[0, 0, 0, 8, 0, 0, 0, 58], &message].concat();
    let words = pseudo.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    message[2..4].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    let header = [&to_mac[..], &mac, &[0x86, 0xdd], &[0x60, 0, 0, 0, 0, 8, 58, 64]].concat();
    [&header[..], &from, &target, &message].concat()
}

/// The addresses are of both families, in different networks and in one.
#[test]
fn every_address_of_the_kernels_is_there_and_answers() {
    in_namespace(|| {
        run("sysctl -qw net.ipv6.conf.default.accept_dad=0");
        let all = ["10.77.0.1/24", "10.77.0.9/24", "10.78.0.1/30", "fd77::1/64", "fd77::9/64", "fd78::1/127"];
        let kernel_addresses: Vec<IpCidr> = all.map(|cidr| cidr.parse().unwrap()).to_vec();
        let options = TapOptions { kernel_addresses: kernel_addresses.clone(), ..TapOptions::default() };
        let mut bench = Bench::new(Tap::open("ek0", &options).unwrap());
        let shown = run("ip addr show dev ek0");
        for cidr in all {
            assert!(shown.contains(&format!(" {cidr} ")), "{cidr}: {shown}");
        }
        assert!(shown.contains("brd 10.77.0.255") && shown.contains("brd 10.78.0.3"), "{shown}");
        let mac = bench.device.properties().address.0;
        let link = run("ip -o link show ek0");
        let address = link.split("link/ether ").nth(1).unwrap().split(' ').next().unwrap();
        let bytes = address.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap());
        let to_mac = <[u8; 6]>::try_from(bytes.collect::<Vec<_>>()).unwrap();
        let [a, b, c, d, e, f] = mac;
        run(&format!("ip neigh add fd77::2 lladdr {a:x}:{b:x}:{c:x}:{d:x}:{e:x}:{f:x} dev ek0"));
        let us_v6 = "fd77::2".parse::<std::net::Ipv6Addr>().unwrap().octets();
        for cidr in kernel_addresses {
            match cidr {
                IpCidr::Ipv4(cidr) => {
                    let target = cidr.address().octets();
                    bench.send(&arp_request(mac, target));
                    bench.expect("ARP reply", |frame| {
                        frame.get(12..14) == Some(&[8, 6])
                            && frame.get(20..22) == Some(&[0, 2])
                            && frame.get(28..32) == Some(&target)
                    });
                }
                IpCidr::Ipv6(cidr) => {
                    let target = cidr.address().octets();
                    bench.send(&echo_request_v6(mac, to_mac, us_v6, target));
                    bench.expect("echo reply", |frame| {
                        frame.get(20) == Some(&58)
                            && frame.get(22..38) == Some(&target)
                            && frame.get(54) == Some(&129)
                    });
                }
            }
        }
    });
}

#[test]
fn a_persistent_tap_is_used_and_left_as_it_was() {
    in_namespace(|| {
        run("ip tuntap add dev keep0 mode tap");
        let tap = Tap::open("keep0", &TapOptions::default()).unwrap();
        assert!(run("ip link show keep0").contains(",UP"));
        drop(tap);
        assert!(!run("ip link show keep0").contains("UP"));
        let options =
            TapOptions { kernel_addresses: vec!["10.77.0.1/24".parse().unwrap()], ..TapOptions::default() };
        assert!(matches!(Tap::open("keep0", &options), Err(LinkError::AddressOfExisting { .. })));
    });
}

#[test]
fn who_has_a_tap_that_was_removed_leaves_the_next_of_its_name_alone() {
    in_namespace(|| {
        let [first, _second] = [(); 2].map(|()| {
            let _ = attempt("ip link del keep0");
            run("ip tuntap add dev keep0 mode tap");
            Tap::open("keep0", &TapOptions::default()).unwrap()
        });
        drop(first);
        assert!(run("ip link show keep0").contains(",UP"));
    });
}

#[test]
fn what_cannot_be_opened_says_why() {
    in_namespace(|| {
        let options = TapOptions::default();
        let _held = Tap::open("ek0", &options).unwrap();
        assert!(matches!(Tap::open("ek0", &options), Err(LinkError::Busy { .. })));
        assert!(matches!(Tap::open("lo", &options), Err(LinkError::WrongKind { .. })));
        assert!(matches!(Tap::open("much-too-long-a-name", &options), Err(LinkError::BadName { .. })));
    });
}

#[test]
fn a_flood_is_shed_by_the_device_and_counted() {
    in_namespace(|| {
        let mut bench = tap_with_address();
        run("sysctl -qw net.ipv6.conf.ek0.disable_ipv6=1");
        run("ip neigh add 10.77.0.2 lladdr 02:00:00:00:00:01 dev ek0");
        assert!(bench.frame_within(Duration::from_millis(200), |_| false).is_none());
        let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
        let sent = 2000;
        for _ in 0..sent {
            let _ = socket.send_to(&[0; 100], "10.77.0.2:9");
        }
        let mut taken = 0;
        while let Some(frame) = bench.frame_within(Duration::from_millis(200), |frame| is_ipv4(frame, 17)) {
            taken += 1;
            bench.pool.recycle(frame);
        }
        assert_eq!(taken + bench.device.queue(0).missed(), sent);
        assert!(taken >= 400, "{taken} of a queue of 500");
        let kernel = bench.device.info().kernel_counters.unwrap().since_opened();
        assert_eq!(KernelCounts { tx_dropped: sent - taken, ..KernelCounts::default() }, kernel);
        assert_eq!(bench.pool.available(), bench.pool.capacity());
    });
}

#[test]
fn larger_frames_than_a_buffer_are_counted_and_harmless() {
    in_namespace(|| {
        run("ip tuntap add dev ek0 mode tap");
        run("ip link set ek0 mtu 9000 up");
        run("ip addr add 10.77.0.1/24 dev ek0");
        let error = Tap::open("ek0", &TapOptions::default()).unwrap_err();
        assert!(matches!(error, LinkError::Jumbo { mtu: 9000, .. }), "{error}");
        // The MTU may become small enough later.
        run("ip link set ek0 mtu 1500");
        let mut bench = Bench::new(Tap::open("ek0", &TapOptions::default()).unwrap());
        run("ip link set ek0 mtu 9000");
        run("ip neigh add 10.77.0.2 lladdr 02:00:00:00:00:01 dev ek0");
        let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
        socket.send_to(&[7; 8000], "10.77.0.2:9").unwrap();
        socket.send_to(&[7; 1400], "10.77.0.2:9").unwrap();
        let frame = bench.expect("datagram", |frame| is_ipv4(frame, 17));
        assert_eq!(frame.len(), 14 + 20 + 8 + 1400);
        assert_eq!(bench.device.queue(0).missed(), 1);
    });
}

/// Otherwise a sender of unusable frames could keep a host in one call without end.
#[test]
fn frames_of_no_use_are_passed_over_so_many_at_a_time() {
    in_namespace(|| {
        let mut bench = tap_with_address();
        run("sysctl -qw net.ipv6.conf.ek0.disable_ipv6=1");
        run("ip link set ek0 mtu 9000");
        run("ip neigh add 10.77.0.2 lladdr 02:00:00:00:00:01 dev ek0");
        assert!(bench.frame_within(Duration::from_millis(300), |_| false).is_none());
        let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
        for _ in 0..9 {
            socket.send_to(&[7; 8000], "10.77.0.2:9").unwrap();
        }
        socket.send_to(&[7; 1400], "10.77.0.2:9").unwrap();
        bench.device.set_readable(0);
        for missed in 1..=9 {
            assert!(bench.device.queue_mut(0).take(&mut bench.pool).is_none());
            assert_eq!((bench.device.queue(0).missed(), bench.device.queue(0).pending()), (missed, 1));
        }
        let frame = bench.device.queue_mut(0).take(&mut bench.pool).unwrap();
        assert_eq!(frame.len(), 14 + 20 + 8 + 1400);
    });
}

#[test]
fn a_device_removed_under_us_is_noticed_and_does_not_spin() {
    in_namespace(|| {
        run("ip tuntap add dev gone0 mode tap");
        let mut bench = Bench::new(Tap::open("gone0", &TapOptions::default()).unwrap());
        let status = bench.device.info().status;
        run("ip link del gone0");
        assert!(bench.frame_within(Duration::from_millis(300), |_| false).is_none());
        assert_eq!(status.state(), DeviceState::Failed);
        bench.send(&[0; 60]);
        assert_eq!(status.refused(), 1);
        assert_eq!(bench.device.queue(0).pending(), 0);
    });
}

/// Takes all frames that wait in a ring. Returns the UDP ones, each with its source port.
fn come(device: &mut Tap, pool: &mut Pool, ring: usize) -> Vec<(u16, Vec<u8>)> {
    let mut all = Vec::new();
    device.set_readable(ring);
    while let Some(frame) = device.queue_mut(ring).take(pool) {
        let bytes = frame.bytes();
        if is_ipv4(bytes, 17) {
            all.push((u16::from_be_bytes([bytes[34], bytes[35]]), bytes.to_vec()));
        }
        pool.recycle(frame);
    }
    all
}

/// Returns the frame with source and destination swapped; its checksums do not change.
fn reply(frame: &[u8]) -> Vec<u8> {
    [
        &frame[6..12],
        &frame[..6],
        &frame[12..26],
        &frame[30..34],
        &frame[26..30],
        &frame[36..38],
        &frame[34..36],
    ]
    .concat()
    .into_iter()
    .chain(frame[38..].iter().copied())
    .collect()
}

#[test]
fn flows_are_spread_over_the_rings_of_a_tap_and_stay_there_though_we_answer() {
    in_namespace(|| {
        let kernel_addresses = vec!["10.77.0.1/24".parse().unwrap()];
        let options = TapOptions { queues: 4, kernel_addresses, ..TapOptions::default() };
        let mut device = Tap::open("ek0", &options).unwrap();
        let mut pool = Pool::new(256);
        assert_eq!((device.properties().queues, device.info().descriptors.list().len()), (4, 4));
        run("ip neigh add 10.77.0.2 lladdr 02:00:00:00:00:01 dev ek0");
        // So many that hardly ever all of them pass over one of the rings.
        const FLOWS: usize = 128;
        let bind = |n| UdpSocket::bind(("10.77.0.1", 40_000 + n)).unwrap();
        let sockets: Vec<_> = (0..FLOWS as u16).map(bind).collect();
        let (mut places, clock) = (Vec::new(), Clock::start());
        for turn in 0..4 {
            for socket in &sockets {
                socket.send_to(&[turn], "10.77.0.2:9").unwrap();
            }
            let mut place = [9; FLOWS];
            with_patience("a frame of each flow", clock, || {
                for ring in 0..4 {
                    for (port, frame) in come(&mut device, &mut pool, ring) {
                        place[usize::from(port - 40_000)] = ring;
                        let mut answer = VecDeque::from_iter(pool.take_copy(&reply(&frame)));
                        assert_eq!(device.transmit(&mut answer, &mut pool), 1);
                    }
                }
                !place.contains(&9)
            });
            for socket in &sockets {
                socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                assert_eq!(socket.recv(&mut [0; 9]).unwrap(), 1, "the answer has come");
            }
            places.push(place);
        }
        assert!((0..4).all(|ring| places[0].contains(&ring)), "{places:?}");
        assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
        drop(device);
        wait_until_gone("ek0");
    });
}

#[test]
fn a_tap_that_was_made_for_one_queue_cannot_have_several() {
    in_namespace(|| {
        run("ip tuntap add dev one0 mode tap");
        let options = TapOptions { queues: 2, ..TapOptions::default() };
        let error = Tap::open("one0", &options).unwrap_err();
        assert!(error.to_string().contains("not a TAP device with several queues"), "{error}");
        run("ip tuntap add dev many0 mode tap multi_queue");
        drop(Tap::open("many0", &options).unwrap());
        assert!(Tap::open("many0", &TapOptions::default()).is_err());
    });
}
