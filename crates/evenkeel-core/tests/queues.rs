//! A host on each queue of an interface: what it connects to answers to the same queue.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use evenkeel_core::cable::{Options, bundle};
use evenkeel_core::demux::{flow_hash, flow_hash_to};
use evenkeel_core::frame::Pool;
use evenkeel_core::host::{Config, Host};
use evenkeel_core::id::InterfaceId;
use evenkeel_core::interface::Interface;
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::TcpStream;
use evenkeel_core::tcp::{EndpointConfig, FourTuple};
use evenkeel_core::time::Instant;
use evenkeel_core::wire::{EthernetAddress, IpAddress, IpCidr, Ipv4Address, Ipv6Address};

const QUEUES: usize = 4;
const PEER: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 9]);

/// Returns the frame with addresses and ports swapped, as hashes see the answer to it.
fn answer(frame: &[u8]) -> Vec<u8> {
    let mut answer = frame.to_vec();
    let (addresses, len, ports) = if frame[12] == 8 { (26, 4, 34) } else { (22, 16, 54) };
    for (at, len) in [(addresses, len), (ports, 2)] {
        let (ours, theirs) = answer[at..at + 2 * len].split_at_mut(len);
        ours.swap_with_slice(theirs);
    }
    answer
}

fn flow(frame: &[u8]) -> FourTuple {
    let address = |at: usize| -> IpAddress {
        match frame[12] {
            8 => Ipv4Address::from(<[u8; 4]>::try_from(&frame[at..at + 4]).unwrap()).into(),
            _ => Ipv6Address::from(<[u8; 16]>::try_from(&frame[at..at + 16]).unwrap()).into(),
        }
    };
    let (from, to, ports) = if frame[12] == 8 { (26, 30, 34) } else { (22, 38, 54) };
    let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    FourTuple::new((address(from), port(ports)), (address(to), port(ports + 2)))
}

fn addresses(last: u8) -> [IpCidr; 2] {
    [
        IpCidr::new(IpAddress::v4(10, 0, 0, last), 24),
        IpCidr::new(IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, last.into()), 64),
    ]
}

/// Calls `each` with the SYN frames of 64 connections to each address of the peer, from each of `queues`
/// hosts.
fn connect(queues: usize, mut each: impl FnMut(usize, &[u8], usize)) {
    let options = |name| Options { ring_pkts: 1024, ..Options::new(name, 2) };
    let (mut outside, ends) = bundle(&options("outside"), &options("inside"), queues);
    let mut pool = Pool::with_limit(8192);
    outside.attach(&mut pool).unwrap();
    for (queue, end) in ends.into_iter().enumerate() {
        let mut host = Host::new(Config::of(Architecture::SoftLrp)).unwrap();
        host.add_interface(Box::new(end), &addresses(2), Instant::ZERO).unwrap();
        for peer in addresses(1) {
            host.set_neighbor(InterfaceId(0), peer.address(), PEER, Instant::ZERO).unwrap();
        }
        let me = host.attach("me", 0, Instant::ZERO);
        for n in 0..64 {
            for peer in addresses(1) {
                let to = IpEndpoint::new(peer.address(), 1_000 + n % 8);
                host.enter(me, Instant::ZERO, |system| TcpStream::connect(system, to)).unwrap().unwrap();
            }
        }
        let mut syns = 0;
        while let Some(frame) = outside.take_from(queue, &mut pool) {
            let bytes = frame.bytes().to_vec();
            pool.recycle(frame);
            let tcp = if bytes[12] == 8 { bytes[23] == 6 } else { bytes[12] == 0x86 && bytes[20] == 6 };
            if tcp {
                syns += 1;
                each(queue, &bytes, outside.queue_of(&answer(&bytes)));
            }
        }
        assert_eq!(syns, 128);
    }
}

#[test]
fn answers_come_to_the_queue_of_the_host_that_connects() {
    connect(QUEUES, |queue, _, answered| assert_eq!(answered, queue));
}

#[test]
fn the_hash_of_a_flow_is_that_of_its_frames() {
    connect(1, |_, syn, _| assert_eq!(flow_hash_to(&flow(syn)), flow_hash(&answer(syn))));
}

/// Ports are taken out of all there are: a quarter of them, by four hosts.
#[test]
fn a_host_has_the_ports_that_lead_to_its_queue_and_no_others() {
    let (_, ends) = bundle(&Options::new("outside", 1), &Options::new("inside", 2), QUEUES);
    let mut all = Vec::new();
    for end in ends {
        let tcp = EndpointConfig { ports: 50_000..=50_399, ..EndpointConfig::default() };
        let config = Config { tcp, ..Config::of(Architecture::Eager) };
        let mut host = Host::new(config).unwrap();
        let peer = IpEndpoint::new(addresses(1)[0].address(), 80);
        let local = addresses(2)[0].address();
        let to = |port| FourTuple::new((local, port), (peer.addr, peer.port));
        let fit: Vec<u16> =
            (50_000..=50_399).filter(|&port| end.properties().flows.contains(&to(port))).collect();
        host.add_interface(Box::new(end), &addresses(2), Instant::ZERO).unwrap();
        let me = host.attach("me", 0, Instant::ZERO);
        let mut ports = Vec::new();
        while let Ok(stream) =
            host.enter(me, Instant::ZERO, |system| TcpStream::connect(system, peer)).unwrap()
        {
            ports.push(host.enter(me, Instant::ZERO, |system| stream.port(system)).unwrap().unwrap());
        }
        ports.sort_unstable();
        assert_eq!(ports, fit);
        assert!((60..140).contains(&fit.len()), "{}", fit.len());
        all.extend(ports);
    }
    all.sort_unstable();
    assert_eq!(all, (50_000..=50_399).collect::<Vec<u16>>(), "each port is one host's");
}
