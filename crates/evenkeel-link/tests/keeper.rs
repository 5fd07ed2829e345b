//! Tests of packet sockets with the device's own hardware address: the kernel's stack works on no frame of
//! ours, and on all of its own.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use evenkeel_core::interface::Interface as _;
use evenkeel_core::time::Duration;
use evenkeel_core::wire::{EthernetAddress, IpAddress, Ipv4Address, Ipv6Address};
use evenkeel_link::{Address, Device as _, Packet, PacketOptions};
use evenkeel_skip::Lack;
use support::{Bench, in_namespace, lacks, run};

/// The last byte of addresses: the peer's, those of the kernel, and ours.
const PEER: u8 = 1;
const KERNEL: u8 = 2;
const OURS: u8 = 3;
const SECOND: u8 = 4;

fn v4(last: u8) -> Ipv4Address {
    Ipv4Address::new(10, 77, 0, last)
}

fn v6(last: u8) -> Ipv6Address {
    Ipv6Address::new(0xfd77, 0, 0, 0, 0, 0, 0, last.into())
}

/// A device whose kernel has addresses of its own, and a peer of which the test sends the frames.
struct Stand {
    peer: Bench<Packet>,
    ours: Bench<Packet>,
    /// The hardware address of the device.
    mac: EthernetAddress,
}

fn open(name: &str, address: Address) -> Bench<Packet> {
    let options = PacketOptions { address, ..PacketOptions::default() };
    Bench::new(Packet::open(name, &options).unwrap())
}

impl Stand {
    fn new() -> Self {
        run("ip link add peer0 type veth peer name ek0");
        run("sysctl -qw net.ipv6.conf.peer0.disable_ipv6=1 net.ipv6.conf.ek0.accept_dad=0");
        run("ip link set peer0 up");
        run("ip link set ek0 up");
        Self::give_kernel(KERNEL);
        let [peer, ours] = ["peer0", "ek0"].map(|name| open(name, Address::Device));
        let text = peer.device.properties().address.to_string().replace('-', ":");
        run(&format!("ip neigh add {} lladdr {text} dev ek0", v4(PEER)));
        run(&format!("ip neigh add {} lladdr {text} dev ek0", v6(PEER)));
        let mac = ours.device.properties().address;
        Self { peer, ours, mac }
    }

    /// Gives the kernel the addresses that end so.
    fn give_kernel(last: u8) {
        run(&format!("ip addr add {}/24 dev ek0", v4(last)));
        run(&format!("ip addr add {}/64 dev ek0 nodad", v6(last)));
    }

    fn set_addresses(&mut self, last: &[u8]) {
        let all = last.iter().flat_map(|&last| [IpAddress::from(v4(last)), v6(last).into()]);
        self.ours.device.set_addresses(&mut { all });
    }

    /// Sends all kinds of frames to the addresses that end so, each kind to the kernel's last. Returns for
    /// each address the number of frames by which the kernel answers.
    fn answers(&mut self, to: &[u8]) -> Vec<usize> {
        let (from, mac) = (self.peer.device.properties().address, self.mac);
        let mut count = vec![0; to.len()];
        for kind in KINDS {
            to.iter().for_each(|&last| self.peer.send(&kind(from, mac, last)));
            self.peer.send(&kind(from, mac, KERNEL));
            // The kernel answers in order.
            loop {
                let is_answer = |frame: &[u8]| answerer(frame).is_some();
                let frame = self.peer.expect("answer of the kernel's own address", is_answer);
                let last = answerer(frame.bytes()).unwrap();
                self.peer.pool.recycle(frame);
                if last == KERNEL {
                    break;
                }
                count[to.iter().position(|&to| to == last).unwrap()] += 1;
            }
        }
        count
    }

    /// Returns the number of frames to these addresses that our packet socket has got.
    fn received(&mut self, to: u8) -> usize {
        let is_to = |frame: &[u8]| {
            [&v4(to).octets()[..], &v6(to).octets()].iter().any(|address| {
                let places = [30..34, 38..42, 38..54, 62..78];
                places.into_iter().any(|place| frame.get(place) == Some(address))
            })
        };
        let mut received = 0;
        while let Some(frame) = self.ours.frame_within(Duration::from_millis(200), is_to) {
            self.ours.pool.recycle(frame);
            received += 1;
        }
        received
    }
}

/// A frame from the first hardware address to the other one, for the address that ends so.
type Kind = fn(EthernetAddress, EthernetAddress, u8) -> Vec<u8>;

/// A datagram and a SYN to closed ports by IPv4 and IPv6, an ARP request, and a neighbour solicitation.
const KINDS: [Kind; 6] = [
    |from, to, last| ipv4(from, to, last, 17, &datagram()),
    |from, to, last| ipv4(from, to, last, 6, &syn()),
    |from, to, last| ipv6(from, to, v6(last), 17, &datagram()),
    |from, to, last| ipv6(from, to, v6(last), 6, &syn()),
    arp,
    solicitation,
];

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(*two.get(1).unwrap_or(&0))).sum()
}

fn checksum(sum: u32) -> [u8; 2] {
    let folded = (sum & 0xffff) + (sum >> 16);
    (!((folded & 0xffff) + (folded >> 16)) as u16).to_be_bytes()
}

fn datagram() -> Vec<u8> {
    [0x30, 0x39, 0, 9, 0, 10, 0, 0, 1, 2].to_vec()
}

fn syn() -> Vec<u8> {
    [0x30, 0x39, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0].to_vec()
}

/// Puts the checksum of a transport protocol behind a pseudo-header with these addresses into its place.
fn with_checksum(protocol: u8, addresses: &[u8], body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    let at = match protocol {
        6 => 16,
        17 => 6,
        _ => 2,
    };
    let sum = checksum(sum(addresses) + u32::from(protocol) + body.len() as u32 + sum(&body));
    body[at..at + 2].copy_from_slice(&sum);
    body
}

fn ipv4(from: EthernetAddress, to: EthernetAddress, last: u8, protocol: u8, body: &[u8]) -> Vec<u8> {
    let addresses = [v4(PEER).octets(), v4(last).octets()].concat();
    let mut header = [0x45, 0, 0, 20 + body.len() as u8, 0, 0, 0x40, 0, 64, protocol, 0, 0].to_vec();
    header.extend(&addresses);
    let sum = checksum(sum(&header));
    header[10..12].copy_from_slice(&sum);
    [&to.0[..], &from.0, &[8, 0], &header, &with_checksum(protocol, &addresses, body)].concat()
}

fn ipv6(from: EthernetAddress, to: EthernetAddress, target: Ipv6Address, next: u8, body: &[u8]) -> Vec<u8> {
    let addresses = [v6(PEER).octets(), target.octets()].concat();
    let header = [0x60, 0, 0, 0, 0, body.len() as u8, next, 255];
    let body = with_checksum(next, &addresses, body);
    [&to.0[..], &from.0, &[0x86, 0xdd], &header, &addresses, &body].concat()
}

fn arp(from: EthernetAddress, _: EthernetAddress, last: u8) -> Vec<u8> {
    let (sender, target) = (v4(PEER).octets(), v4(last).octets());
    let ethernet = [&[0xff; 6], &from.0, &[8, 6][..]].concat();
    [&ethernet[..], &[0, 1, 8, 0, 6, 4, 0, 1], &from.0, &sender, &[0; 6], &target].concat()
}

fn solicitation(from: EthernetAddress, _: EthernetAddress, last: u8) -> Vec<u8> {
    let group = Ipv6Address::new(0xff02, 0, 0, 0, 0, 1, 0xff00, last.into());
    let body = [&[135, 0, 0, 0, 0, 0, 0, 0], &v6(last).octets()[..], &[1, 1], &from.0].concat();
    ipv6(from, EthernetAddress([0x33, 0x33, 0xff, 0, 0, last]), group, 58, &body)
}

/// Returns the last byte of the address from which a frame answers the peer: a reset, an ICMP error, an ARP
/// reply or an advertisement.
fn answerer(frame: &[u8]) -> Option<u8> {
    let at = |place: usize| frame.get(place).copied();
    match (at(12)?, at(13)?) {
        (8, 0) if matches!((at(23)?, at(34)?), (6, _) | (1, 3)) && at(33)? == PEER => at(29),
        (8, 6) if at(21)? == 2 => at(31),
        (0x86, 0xdd) if at(20)? == 6 && at(53)? == PEER => at(37),
        (0x86, 0xdd) if at(20)? == 58 && at(54)? == 1 => at(37),
        (0x86, 0xdd) if at(20)? == 58 && at(54)? == 136 => at(77),
        _ => None,
    }
}

/// The kernel gets our addresses after us, so that it would answer if it got frames to them.
#[test]
fn the_kernel_answers_for_its_own_addresses_and_not_for_ours() {
    in_namespace(|| {
        let mut stand = Stand::new();
        stand.set_addresses(&[OURS]);
        let status = stand.ours.device.info().status;
        if let Some(work) = status.next_kernel_work() {
            return lacks(&Lack::Other(&format!("{work:?}")));
        }
        [OURS, SECOND].into_iter().for_each(Stand::give_kernel);
        let all = KINDS.len();
        assert_eq!(stand.answers(&[OURS, SECOND]), [0, all]);
        assert_eq!(status.kept_from_kernel(), Some(all as u64));
        assert_eq!(stand.received(OURS), all, "the packet socket has them all");
        // The address of the second is the kernel's by now, and is left to it.
        stand.set_addresses(&[OURS, SECOND]);
        assert_eq!(stand.answers(&[OURS, SECOND]), [all, all]);
    });
}

/// Addresses come and go while the host runs, and the program goes with the device.
#[test]
fn the_program_follows_the_addresses_and_goes_with_the_device() {
    in_namespace(|| {
        let mut stand = Stand::new();
        stand.set_addresses(&[OURS]);
        if let Some(work) = stand.ours.device.info().status.next_kernel_work() {
            return lacks(&Lack::Other(&format!("{work:?}")));
        }
        stand.set_addresses(&[SECOND]);
        [OURS, SECOND].into_iter().for_each(Stand::give_kernel);
        let all = KINDS.len();
        assert_eq!(stand.answers(&[OURS, SECOND]), [all, 0]);
        // With a hardware address of our own there is no program.
        let Stand { peer, ours, mac } = stand;
        drop(ours);
        let mut stand = Stand { peer, ours: open("ek0", Address::Own), mac };
        stand.set_addresses(&[SECOND]);
        assert_eq!(stand.answers(&[OURS, SECOND]), [all, all]);
        assert_eq!(stand.ours.device.info().status.kept_from_kernel(), None);
    });
}
