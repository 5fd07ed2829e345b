//! A flood of SYNs at the port of a server: the XDP program answers with SYN cookies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use evenkeel::raw::tcp::{Flags, FourTuple, Header, Options, Segment, SeqNumber};

use super::*;

const PORT: u16 = 80;
/// The place of drops by the XDP program.
const PLACE: &str = "demultiplexer on the interface";
/// The segments of a flood: as many as the ring of a listener holds at most.
const FLOOD: u16 = 1024;
const OURS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2)), IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2))];

/// Opens a host at one end of a veth pair. The other end takes frames that the program sends back, as it has
/// a program itself.
fn open_with_v6() -> Net {
    run("ip link add kernel0 type veth peer name ek0");
    run("sysctl -qw net.ipv6.conf.ek0.disable_ipv6=1");
    run("ip addr add 10.77.0.1/24 dev kernel0");
    run("ip addr add fd77::1/64 dev kernel0 nodad");
    run("ip link set kernel0 up");
    run("ip link set ek0 up");
    // With empty tables, the program passes everything.
    let object = concat!(env!("CARGO_MANIFEST_DIR"), "/../evenkeel-link/bpf/demux.o");
    run(&format!("ip link set kernel0 xdp obj {object} sec xdp"));
    Net::builder().link("xdp:ek0").address("10.77.0.2/24").address("fd77::2/64").open().unwrap()
}

/// Returns a segment to our port of IPv4, from an address that no host has.
fn spoofed(to: [u8; 6], flags: Flags, number: u16) -> Vec<u8> {
    let (from, ours) = (Ipv4Addr::new(10, 78, 0, 9), Ipv4Addr::new(10, 77, 0, 2));
    let tuple = FourTuple::new((from, 1024 + number), (ours, PORT));
    let header = Header {
        source: tuple.local.port,
        destination: PORT,
        seq: SeqNumber::new(u32::from(number) << 8),
        ack: SeqNumber::new(u32::from(number) << 16),
        flags,
        window: 1000,
        options: Options { mss: Some(1460), ..Options::default() },
        ..Header::default()
    };
    let mut segment = [0; 60];
    let len = Segment::bare(header).emit(&mut segment, from, ours).unwrap();
    let mut packet = vec![0x45, 0, 0, 20 + len as u8, 0, 0, 0x40, 0, 64, 6, 0, 0];
    packet.extend([from.octets(), ours.octets()].concat());
    let sum = evenkeel::raw::tcp::Checksum::default().add(&packet).finish();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(&segment[..len]);
    [&to[..], &[2, 8, 8, 8, 8, 8, 8, 0], &packet].concat()
}

/// Connects, and has a few bytes echoed.
fn echo(stream: &mut KernelStream) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"hello").unwrap();
    let mut back = [0; 5];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello");
}

/// Connects while nobody takes SYNs from the listener's ring, which a flood has filled. Returns `None` if the
/// machine has stopped this process for so long that the program no longer answers.
fn connect_flooded(net: &Net, raw: &mut kernel::Raw, ours: [u8; 6], to: IpAddr) -> Option<KernelStream> {
    const SOON: Duration = Duration::from_secs(2);
    // The host takes a SYN, and with that has the program answer others.
    echo(&mut KernelStream::connect((to, PORT)).unwrap());
    net.raw(|_| {
        (0..FLOOD).for_each(|number| raw.send(1, &spoofed(ours, Flags::SYN, number)));
        KernelStream::connect_timeout(&SocketAddr::new(to, PORT), SOON).ok()
    })
}

#[test]
fn connections_open_while_a_flood_of_syns_fills_the_ring_of_the_listener() {
    in_namespace(&[], || {
        if !has_xdp() {
            return;
        }
        let net = open_with_v6();
        let ours = net.raw(|host| host.interfaces().next().unwrap().properties().address).0;
        let listener = TcpListener::bind(&net, ("::", PORT)).unwrap();
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                thread::spawn(move || {
                    let mut buffer = [0; 100];
                    while let Ok(len @ 1..) = (&stream).read(&mut buffer) {
                        (&stream).write_all(&buffer[..len]).unwrap();
                    }
                });
            }
        });
        let mut raw = kernel::Raw::open();
        let mut streams = OURS.map(|to| {
            let mut stream = (0..5).find_map(|_| connect_flooded(&net, &mut raw, ours, to)).unwrap();
            echo(&mut stream);
            stream
        });
        // Now cookies are in use, and segments that bring none back are dropped.
        let dropped = |reason: &str| {
            let snapshot = net.snapshot();
            let mut drops = snapshot.drops.iter().filter(|drop| drop.place == PLACE);
            drops.find(|drop| drop.reason == reason).map_or(0, |drop| drop.frames)
        };
        let flood = |raw: &mut kernel::Raw| {
            // The host takes one, and with that has the program drop others.
            raw.send(1, &spoofed(ours, Flags::ACK, 0));
            echo(&mut KernelStream::connect((OURS[0], PORT)).unwrap());
            net.raw(|_| (0..FLOOD).for_each(|number| raw.send(1, &spoofed(ours, Flags::ACK, number))));
            dropped("tcp-wrong-cookie")
        };
        let refused = (0..5).map(|_| flood(&mut raw)).find(|refused| *refused > 0);
        // The ring was half full at most.
        assert!(refused.is_some_and(|refused| refused >= u64::from(FLOOD) / 2), "{refused:?}");
        streams.iter_mut().for_each(echo);
        OURS.into_iter().for_each(|to| echo(&mut KernelStream::connect((to, PORT)).unwrap()));
        let snapshot = net.snapshot();
        snapshot.check().unwrap();
        // The ring was half full at most, once for each address.
        let cookies = dropped("tcp-cookie");
        assert!(cookies >= u64::from(FLOOD) / 2, "{cookies}");
        net.check().unwrap();
    });
}
