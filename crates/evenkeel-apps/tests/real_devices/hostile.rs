//! Tests with hostile frames: each ends in a drop that is counted for its reason, and the host continues to
//! serve.

use std::collections::BTreeMap;

use evenkeel::raw::drops::{IpDrop, LinkDrop, Reason, UdpDrop};
use evenkeel::raw::host::Config;
use evenkeel::raw::receive::Architecture;
use std::time::Duration;

use crate::attacker::{
    Attacker, FRAGMENT, ICMP, ICMPV6, KERNEL_V6, UDP, US_V4, US_V6, V4, echo_request, fragment_v6, frame,
    sealed_v6, spoil, v6,
};
use crate::conversation::echo;
use crate::stand::{self, HostCounters, Link, Stand, config, wait_for};
use crate::support::{pause, run};

const ECHO: u16 = 7;

/// Returns a configuration in which reassembly gives up soon, so that a test sees it.
fn impatient(architecture: Architecture) -> Config {
    let mut config = config(architecture);
    (config.stack.reassembly_v4, config.stack.reassembly_v6) =
        (Duration::from_secs(1), Duration::from_secs(1));
    config
}

fn still_answers() {
    for us in [stand::US_V4, stand::US_V6] {
        run(&format!("ping -n -c 2 -i 0.05 -w 10 {us}"));
    }
}

/// Returns the dropped received frames, by reason.
fn drops(counters: &HostCounters) -> BTreeMap<Reason, u64> {
    counters
        .ledger
        .drops()
        .map(|(reason, input, _)| (reason, input))
        .filter(|&(_, input)| input > 0)
        .collect()
}

/// A kind of attack: its name, the expected drop reason, and its frames.
struct Attack(&'static str, Reason, Vec<Vec<u8>>);

pub(crate) fn every_frame_ends_in_a_counted_drop(link: Link, architecture: Architecture) {
    let stand = Stand::start(link, impatient(architecture), vec![echo(None)], None);
    // This comes first, so that none of its frames count for an attack.
    still_answers();
    let mut attacker = Attacker::new(&stand);
    for Attack(what, reason, frames) in attacks(&attacker) {
        let before = drops(&stand.counters()).get(&reason).copied().unwrap_or(0);
        attacker.send(&stand, &frames);
        let count = |counters: &HostCounters| drops(counters).get(&reason).copied().unwrap_or(0) - before;
        // Lazy protocol input may still be pending, and fragments wait a second for the rest.
        let mut now = 0;
        for _ in 0..2500 {
            now = count(&stand.counters());
            if now >= frames.len() as u64 {
                break;
            }
            pause(Duration::from_millis(1));
        }
        // The kernel's own reports of its groups, to routers, are not for us either.
        let chatter = reason == IpDrop::NotLocal.into();
        let all = now == frames.len() as u64 || chatter && now > frames.len() as u64;
        assert!(all, "{what}, {now} of {}: {:?}", frames.len(), drops(&stand.counters()));
    }
    still_answers();
    let engine = stand.stop();
    let host = engine.host();
    let (free, promised) = host.pool();
    // The kernel sends frames on its own, so some may be in transit at this moment.
    let under_way = host.queued() + host.waiting_to_leave();
    assert_eq!(free as u64 + under_way, promised as u64, "every buffer has come back");
}

fn attacks(attacker: &Attacker) -> Vec<Attack> {
    [link_attacks(attacker), v4_attacks(attacker), v6_attacks(attacker), fragment_attacks(attacker)]
        .into_iter()
        .flatten()
        .collect()
}

fn link_attacks(attacker: &Attacker) -> Vec<Attack> {
    let elsewhere = [2, 0, 0, 0, 0, 99];
    let datagram = V4::new(UDP).udp(ECHO, b"who, me?");
    vec![
        Attack(
            "to another hardware address",
            LinkDrop::NotForUs.into(),
            vec![frame(elsewhere, 0x0800, &datagram); 3],
        ),
        Attack(
            "of no known type",
            LinkDrop::UnknownEtherType.into(),
            vec![attacker.frame(0x88b5, &[0; 50]); 3],
        ),
        Attack(
            "bad ARP",
            LinkDrop::BadArp.into(),
            (0..28).map(|len| attacker.frame(0x0806, &[0, 1, 8, 0, 6, 4, 0, 1].repeat(4)[..len])).collect(),
        ),
    ]
}

fn v4_attacks(attacker: &Attacker) -> Vec<Attack> {
    let valid = V4::new(UDP).udp(ECHO, &[7; 60]);
    let cut = |from: usize| (0..from).map(|len| attacker.v4(&valid[..len])).collect();
    let from = |source| attacker.v4(&V4 { source, ..V4::new(UDP) }.udp(ECHO, b"martian"));
    let martians = [
        US_V4,
        [127, 0, 0, 1],
        [0, 0, 0, 0],
        [224, 0, 0, 1],
        [239, 1, 2, 3],
        [255, 255, 255, 255],
        [10, 77, 0, 255],
    ];
    let mut long = valid.clone();
    long[25] = 200;
    // Its IP header is right again, so the defect is the length in UDP's header.
    vec![
        Attack("cut off at every length", IpDrop::Malformed.into(), cut(valid.len())),
        Attack("header checksum", IpDrop::Checksum.into(), vec![attacker.v4(&spoil(valid.clone(), 10)); 3]),
        Attack("source no frame can have", IpDrop::Martian.into(), martians.map(from).to_vec()),
        Attack(
            "land: from us, to us, port to port",
            IpDrop::Martian.into(),
            vec![attacker.v4(&V4 { source: US_V4, ..V4::new(UDP) }.udp(ECHO, &[0; 9])); 5],
        ),
        Attack(
            "to somebody else",
            IpDrop::NotLocal.into(),
            vec![attacker.v4(&V4 { destination: [10, 77, 0, 9], ..V4::new(UDP) }.udp(ECHO, b"route me")); 3],
        ),
        Attack(
            "protocol",
            IpDrop::UnknownProtocol.into(),
            vec![attacker.v4(&V4::new(253).packet(&[1; 20])); 3],
        ),
        Attack(
            "ICMP checksum",
            IpDrop::BadIcmp.into(),
            vec![attacker.v4(&V4::new(ICMP).packet(&spoil(echo_request(), 9))); 3],
        ),
        Attack("UDP checksum", UdpDrop::Checksum.into(), vec![attacker.v4(&spoil(valid.clone(), 40)); 3]),
        Attack("UDP length", UdpDrop::Malformed.into(), vec![attacker.v4(&long); 3]),
        Attack("port", UdpDrop::NoSocket.into(), vec![attacker.v4(&V4::new(UDP).udp(4242, b"hello?")); 3]),
    ]
}

fn v6_attacks(attacker: &Attacker) -> Vec<Attack> {
    let udp = |source: [u8; 16], port: u16| {
        let [high, low] = port.to_be_bytes();
        attacker.v6(&sealed_v6(
            source,
            UDP,
            [&[0x12, 0x34, high, low, 0, 68, 0, 0][..], &[7; 60]].concat(),
            6,
        ))
    };
    let valid = udp(KERNEL_V6, ECHO);
    let mut group = KERNEL_V6;
    group[0] = 0xff;
    let (mut loopback, unspecified) = ([0; 16], [0; 16]);
    loopback[15] = 1;
    let mut unsealed = valid.clone();
    unsealed[60..62].copy_from_slice(&[0, 0]);
    // One is a neighbour's answer that has crossed a router (RFC 4861 7.1.2), and one is cut off.
    let advertisement = [&[136, 0, 0, 0, 0x60, 0, 0, 0][..], &KERNEL_V6, &[2, 1, 6, 6, 6, 6, 6, 6]].concat();
    let forged = attacker.v6(&sealed_v6(KERNEL_V6, ICMPV6, advertisement, 2));
    vec![
        Attack(
            "cut off at every length",
            IpDrop::Malformed.into(),
            (14..valid.len()).map(|len| valid[..len].to_vec()).collect(),
        ),
        Attack(
            "source no frame can have",
            IpDrop::Martian.into(),
            [US_V6, group, loopback, unspecified].map(|source| udp(source, ECHO)).to_vec(),
        ),
        Attack("UDP checksum", UdpDrop::Checksum.into(), vec![spoil(valid.clone(), 80); 3]),
        Attack("no UDP checksum", UdpDrop::Checksum.into(), vec![unsealed; 3]),
        Attack("port", UdpDrop::NoSocket.into(), vec![udp(KERNEL_V6, 4242); 3]),
        Attack("a forged neighbour", IpDrop::BadIcmp.into(), vec![forged; 3]),
        Attack(
            "ICMPv6 checksum",
            IpDrop::BadIcmp.into(),
            vec![attacker.v6(&v6(KERNEL_V6, ICMPV6, &[128, 0, 9, 9, 0, 0, 0, 0])); 3],
        ),
    ]
}

fn fragment_attacks(attacker: &Attacker) -> Vec<Attack> {
    let part = |identification, offset, more, len| {
        let header = V4 { identification, offset, more, ..V4::new(UDP) };
        attacker.v4(&header.packet(&vec![1; len]))
    };
    let part_v6 = |id, offset, more, len| {
        attacker.v6(&v6(KERNEL_V6, FRAGMENT, &fragment_v6(UDP, offset, more, id, &vec![1; len])))
    };
    // This is Teardrop: the second fragment lies within the first. Later fragments of the packet follow.
    let overlap = vec![part(100, 0, true, 64), part(100, 24, false, 16), part(100, 64, false, 64)];
    let overlap_v6 =
        vec![part_v6(100, 0, true, 64), part_v6(100, 56, true, 64), part_v6(100, 120, false, 64)];
    vec![
        Attack("overlap", IpDrop::FragmentOverlap.into(), overlap),
        Attack("overlap, IPv6", IpDrop::FragmentOverlap.into(), overlap_v6),
        Attack("ping of death", IpDrop::FragmentTooBig.into(), vec![part(101, 65_528, false, 1000); 3]),
        Attack(
            "ping of death, IPv6",
            IpDrop::FragmentTooBig.into(),
            vec![part_v6(101, 65_528, false, 1000); 3],
        ),
        Attack(
            "the rest never comes",
            IpDrop::FragmentTimeout.into(),
            vec![part(102, 0, true, 64), part_v6(102, 0, true, 64)],
        ),
    ]
}

/// Floods the host with more of every kind of packet than it can store, and with noise.
pub(crate) fn floods_leave_memory_bounded(link: Link, architecture: Architecture) {
    let stand = Stand::start(link, impatient(architecture), vec![echo(None)], None);
    still_answers();
    let promised = stand.counters().pool.1;
    let mut attacker = Attacker::new(&stand);
    for flood in [fragments(&attacker), askers(&attacker), noise(&attacker)] {
        attacker.send(&stand, &flood);
        let counters = stand.counters();
        assert_eq!(counters.pool.1, promised, "no more buffers than before");
        still_answers();
    }
    assert!(drops(&stand.counters())[&IpDrop::FragmentLimit.into()] > 0);
    let requests =
        [b"answer me".repeat(100), Vec::new()].map(|text| attacker.v4(&V4::new(UDP).udp(ECHO, &text)));
    for request in requests {
        let before = stand.counters().ledger.delivered;
        attacker.flood(&request, 20_000);
        still_answers();
        let counters = stand.counters();
        assert!(counters.ledger.delivered > before && counters.pool.1 == promised, "{counters:?}");
    }
    // Reassembly gives up after a second, and packets for a neighbour that does not exist are given up after
    // a few.
    wait_for("every buffer", || stand.counters().pool == (promised, promised));
    stand.stop();
}

/// Returns the first fragments of 2000 packets, whose other fragments never come.
fn fragments(attacker: &Attacker) -> Vec<Vec<u8>> {
    let first = |id: u16| {
        let v4 = V4 { identification: id, more: true, ..V4::new(UDP) }.packet(&[1; 64]);
        let v6 = v6(KERNEL_V6, FRAGMENT, &fragment_v6(UDP, 0, true, id.into(), &[1; 64]));
        [attacker.v4(&v4), attacker.v6(&v6)]
    };
    (0..1000).flat_map(first).collect()
}

/// Returns ARP requests from 2000 hosts that do not exist, and 500 requests whose answers need a resolution.
fn askers(attacker: &Attacker) -> Vec<Vec<u8>> {
    let address = |number: u16| {
        let [high, low] = number.to_be_bytes();
        [10, 77, high, low]
    };
    let arp = |number| {
        let body =
            [&[0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 9, 9][..], &address(number), &[0; 6], &US_V4].concat();
        attacker.frame(0x0806, &body)
    };
    let request = |number: u16| {
        let source = [10, 77, 0, 10 + (number % 240) as u8];
        attacker.v4(&V4 { source, ..V4::new(UDP) }.udp(ECHO, b"answer me"))
    };
    (0..2000).map(|number| arp(256 + number)).chain((0..500).map(request)).collect()
}

/// Returns random bytes after a header that the host accepts, or without one; equal in every run.
fn noise(attacker: &Attacker) -> Vec<Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut make = || {
        let bytes: Vec<u8> = (0..random() % 1400).map(|_| random() as u8).collect();
        match random() % 6 {
            0 => attacker.frame(random() as u16, &bytes),
            1 => attacker.frame(0x0806, &bytes),
            2 => attacker.v4(&bytes),
            3 => attacker.v6(&bytes),
            4 => attacker.v4(&V4 {
                offset: 8 * (random() % 20) as usize,
                more: random() % 2 == 0,
                identification: (random() % 8) as u16,
                ..V4::new(random() as u8)
            }
            .packet(&bytes)),
            _ => attacker.v6(&v6(KERNEL_V6, random() as u8, &bytes)),
        }
    };
    (0..3000).map(|_| make()).collect()
}
