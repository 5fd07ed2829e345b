//! Packets without a socket go from host to host of a group, and the last one answers them.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::{Bench, PEER_MAC, syn, tcp, udp};
use evenkeel_core::drop::QueueDrop;
use evenkeel_core::host::{Config, System};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::system::TcpListener;
use evenkeel_core::tcp::{Flags, Header, ListenerConfig, SeqNumber};
use evenkeel_core::wire::IpAddress;

const PORT: u16 = 80;
/// The flags of a reset.
const RST: u8 = 4;

/// A program that listens, and accepts nothing.
#[derive(Debug)]
struct Listens(Option<TcpListener>);

impl Program for Listens {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let config = ListenerConfig::default();
        let listener =
            *self.0.get_or_insert_with(|| TcpListener::listen(system, None, PORT, &config).unwrap());
        Step::Wait(listener.fd())
    }
}

/// Creates the hosts of a group, each with a listener.
fn group(architecture: Architecture, hosts: usize) -> Vec<Bench> {
    let host = |index| {
        let mut bench = Bench::new(Config::of(architecture));
        let peer = IpAddress::Ipv4(common::PEER);
        bench.host.set_neighbor(InterfaceId(0), peer, PEER_MAC, bench.now).unwrap();
        bench.host.membership().join(index, hosts);
        bench.host.spawn("listens", 0, Box::new(Listens(None)));
        bench.settle_some();
        bench
    };
    (0..hosts).map(host).collect()
}

/// Passes all strays of each host on to the next one. Returns their number.
fn pass_on(hosts: &mut [Bench]) -> usize {
    let mut passed = 0;
    for from in 0..hosts.len() {
        while let Some(stray) = hosts[from].host.membership().next_stray() {
            let to = &mut hosts[(from + 1) % hosts.len()];
            to.host.membership().take_stray(stray, to.now);
            to.settle_some();
            passed += 1;
        }
    }
    passed
}

/// Sends a frame to a host, and has it go round. Returns how often it was passed on.
fn goes_round(hosts: &mut [Bench], at: usize, frame: Vec<u8>) -> usize {
    hosts[at].send(&[frame]);
    hosts[at].settle_some();
    let rounds = hosts.len();
    core::iter::repeat_with(|| pass_on(hosts)).take(rounds).sum()
}

fn ack(seq: u32, ack: u32) -> Vec<u8> {
    let (seq, ack) = (SeqNumber::new(seq), SeqNumber::new(ack));
    let header = Header { source: 5000, destination: PORT, seq, ack, ..Header::default() };
    tcp(Header { flags: Flags::ACK, ..header }, b"")
}

/// The flags of the segments that a host has sent.
fn sent_flags(bench: &mut Bench) -> Vec<u8> {
    bench.sent().iter().filter(|frame| frame[23] == 6).map(|frame| frame[47]).collect()
}

#[test]
fn a_segment_of_no_connection_is_answered_by_the_last_host_alone() {
    for architecture in [Architecture::Polled, Architecture::SoftLrp, Architecture::Eager] {
        let mut hosts = group(architecture, 3);
        assert_eq!(goes_round(&mut hosts, 1, ack(7, 9)), 2, "{architecture:?}");
        let answers: Vec<_> = hosts.iter_mut().map(sent_flags).collect();
        assert_eq!(answers, [vec![RST], vec![], vec![]], "{architecture:?}");
        for at in [1, 2] {
            assert_eq!(hosts[at].host.ledger().input_drops(QueueDrop::HandedOver), 1);
        }
        hosts.iter().for_each(|bench| bench.host.check().unwrap());
    }
}

#[test]
fn a_handshake_that_changes_its_queue_ends_where_it_began() {
    for architecture in [Architecture::Polled, Architecture::SoftLrp, Architecture::Eager] {
        let mut hosts = group(architecture, 2);
        assert_eq!(goes_round(&mut hosts, 1, syn(5000, PORT)), 0, "a SYN is the listener's");
        let syn_ack = hosts[1].sent().pop().unwrap();
        let iss = u32::from_be_bytes(syn_ack[38..42].try_into().unwrap());
        assert_eq!(goes_round(&mut hosts, 0, ack(1, iss.wrapping_add(1))), 1, "{architecture:?}");
        assert_eq!(hosts[1].host.tcp().connections().count(), 1, "{architecture:?}");
        assert_eq!(hosts.iter_mut().map(sent_flags).collect::<Vec<_>>(), [[]; 2], "no reset");
    }
}

#[test]
fn a_datagram_to_a_closed_port_is_refused_once() {
    let mut hosts = group(Architecture::SoftLrp, 3);
    assert_eq!(goes_round(&mut hosts, 0, udp(9, b"x")), 2);
    let answers: Vec<_> = hosts.iter_mut().map(|bench| bench.sent().len()).collect();
    assert_eq!(answers, [0, 0, 1]);
}

/// A host alone, or a group of one, answers at once.
#[test]
fn a_host_alone_has_no_strays() {
    let mut hosts = group(Architecture::SoftLrp, 1);
    assert_eq!(goes_round(&mut hosts, 0, ack(7, 9)), 0);
    assert_eq!(sent_flags(&mut hosts[0]), [RST]);
}

#[test]
fn a_flood_of_strays_takes_little_of_other_hosts() {
    let mut hosts = group(Architecture::Polled, 2);
    let bench = &mut hosts[0];
    let mut strays = 0;
    let begin = bench.now;
    for _ in 0..100 {
        bench.send(&vec![ack(7, 9); 32]);
        bench.settle_some();
        strays += core::iter::from_fn(|| bench.host.membership().next_stray()).count();
    }
    let slices = bench.now.since(begin).as_millis() as usize / 10 + 2;
    let full = bench.host.ledger().input_drops(QueueDrop::Handover);
    assert!(
        strays <= 500 * slices && strays as u64 + full == 3_200,
        "{strays} and {full} in {slices} slices"
    );
    assert!(sent_flags(bench).is_empty());
}
