//! The XDP program compared with its model, by test runs of the kernel.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;
use std::{fs, thread};

use aya::programs::{TestRun as _, TestRunOptions, Xdp};
use evenkeel_core::demux::{Binding, Class, DemuxTable};
use evenkeel_core::drop::{IpDrop, LinkDrop, Reason};
use evenkeel_core::tcp::{FourTuple, Secret};
use evenkeel_core::wire::{EthernetAddress, IpAddress, IpEndpoint, Ipv4Address, Ipv6Address};
use evenkeel_skip::Lack;
use proptest::test_runner::{Config, TestRunner};
use rustix::net::{AddressFamily, SocketType, socket};

use super::*;

mod cookies;
mod frames;
mod generated;
mod offload;
mod refused;
mod verdicts;

use frames::{arp, ethernet, extension, fragment_header, ipv4, ipv6, tcp, udp, v4, v6};

const OURS: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);
const STRANGER: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 9]);
const ALL_NODES: EthernetAddress = EthernetAddress([0x33, 0x33, 0, 0, 0, 1]);

/// The channel of packets in transit, and of nothing else.
const FORWARD: ChannelId = ChannelId(20);

/// The decision about a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Slot(u32),
    Pass,
    Drop(Reason),
}

const UNKNOWN: Decision = Decision::Drop(Reason::Link(LinkDrop::UnknownEtherType));
const MALFORMED: Decision = Decision::Drop(Reason::Ip(IpDrop::Malformed));
const NOT_LOCAL: Decision = Decision::Drop(Reason::Ip(IpDrop::NotLocal));

impl Decision {
    /// Returns the decision that the program `classify` returns as this number.
    fn of(returned: u32) -> Self {
        match (returned >> 16, returned & 0xffff) {
            (1, slot) => Self::Slot(slot),
            (2, 0) => Self::Pass,
            (3, number) => Self::Drop(REASONS[number as usize]),
            other => panic!("{other:x?}"),
        }
    }
}

/// A program and its model, with the same bindings.
struct Pair {
    program: Program,
    model: DemuxTable,
    /// A model to which only sockets are bound.
    sockets: DemuxTable,
    slots: BTreeMap<ChannelId, u32>,
    sharing: Sharing,
}

impl Pair {
    /// Loads the program, without bindings. Without the privilege for that, reports it and returns `None`.
    fn load(sharing: Sharing) -> Option<Self> {
        Self::of(Program::load(Taken::Ours, sharing, Buffers::One), sharing)
    }

    /// Returns a loaded program, without bindings.
    fn of(loaded: Result<Program, LinkError>, sharing: Sharing) -> Option<Self> {
        let mut program = match loaded {
            Err(error @ LinkError::Privilege { .. }) => {
                lacks(&Lack::Root(&error.to_string()));
                return None;
            }
            loaded => loaded.unwrap(),
        };
        xdp(&mut program.object, "classify").unwrap().load().unwrap();
        program.demultiplex().unwrap();
        let [model, sockets] = [(); 2].map(|()| DemuxTable::new(1));
        Some(Self { program, model, sockets, slots: BTreeMap::new(), sharing })
    }

    fn apply(&mut self, change: Change) {
        self.program.apply(change).unwrap();
        self.model.apply(change);
        let is_special =
            |binding| !matches!(binding, Binding::Udp { .. } | Binding::Tcp { .. } | Binding::Connection(_));
        match change {
            Change::Bind(binding, _) | Change::Unbind(binding) if is_special(binding) => {}
            _ => self.sockets.apply(change),
        }
    }

    fn bind(&mut self, binding: Binding, channel: ChannelId) {
        self.apply(Change::Bind(binding, channel));
    }

    fn open(&mut self, channel: ChannelId, slot: u32) {
        self.program.open(channel, slot);
        self.slots.insert(channel, slot);
    }

    fn close(&mut self, channel: ChannelId) {
        self.program.close(channel);
        self.slots.remove(&channel);
    }

    /// Undoes all that was bound and opened. Loading another program would take a tenth of a second.
    fn clear(&mut self, sharing: Sharing) {
        for change in self.model.contents() {
            match change {
                Change::Bind(binding, _) => self.apply(Change::Unbind(binding)),
                Change::AddAddress(address) => self.apply(Change::RemoveAddress(address)),
                _ => {}
            }
        }
        [OURS, STRANGER].into_iter().for_each(|address| self.apply(Change::NoHardware(address)));
        self.slots.clone().into_keys().for_each(|channel| self.close(channel));
        self.forget_fragments();
        self.program.table.share(sharing);
        self.sharing = sharing;
    }

    fn forget_fragments(&mut self) {
        self.model.set_secret(Secret::new([7; 16]));
        self.sockets.set_secret(Secret::new([7; 16]));
        self.program.table.forget_fragments(|_| true);
    }

    fn slot(&self, channel: ChannelId) -> Decision {
        Decision::Slot(self.slots.get(&channel).copied().unwrap_or(0))
    }

    fn run(&self, name: &str, frame: &[u8]) -> u32 {
        let xdp: &Xdp = self.program.object.program(name).unwrap().try_into().unwrap();
        let options = TestRunOptions { data_in: Some(frame), ..TestRunOptions::new() };
        xdp.test_run(options).unwrap().return_value
    }

    /// Returns the decision by the model. It follows one datagram in fragments: the program may follow
    /// others than the model if there are several.
    fn expected(&mut self, frame: &[u8]) -> Decision {
        if self.sharing == Sharing::Addresses {
            return self.expected_of_sockets(frame);
        }
        let is_group = frame[0] & 1 == 1;
        let is_ours = !is_group && self.sharing == Sharing::Nothing;
        let class = self.model.classify(frame);
        if class == Class::Discard(LinkDrop::NotForUs.into()) {
            return Decision::Pass;
        }
        if frame[12..14] == [8, 6] && !is_ours && !self.is_arp_for_us(frame) {
            return Decision::Pass;
        }
        match class {
            Class::Channel(FORWARD) if is_group => Decision::Pass,
            Class::FirstFragment(channel, key) => {
                self.forget_fragments();
                self.model.record_fragment(key, channel);
                self.slot(channel)
            }
            Class::Channel(channel) | Class::Segment { channel: Some(channel), .. } => self.slot(channel),
            Class::Segment { channel: None, .. } | Class::Discard(Reason::Ip(IpDrop::UnknownProtocol)) => {
                Decision::Slot(0)
            }
            Class::Discard(reason) if is_ours => Decision::Drop(reason),
            Class::Discard(_) => Decision::Pass,
        }
    }

    /// Returns the decision by the model if the kernel shares all addresses.
    fn expected_of_sockets(&mut self, frame: &[u8]) -> Decision {
        match self.sockets.classify(frame) {
            Class::FirstFragment(channel, key) => {
                self.forget_fragments();
                self.sockets.record_fragment(key, channel);
                self.slot(channel)
            }
            Class::Channel(channel) | Class::Segment { channel: Some(channel), .. } => self.slot(channel),
            _ if self.is_about_ours(frame) => match self.model.classify(frame) {
                Class::Channel(channel) => self.slot(channel),
                Class::FirstFragment(channel, key) => {
                    self.forget_fragments();
                    self.sockets.record_fragment(key, channel);
                    self.slot(channel)
                }
                // Control traffic is bound to no channel.
                _ => Decision::Pass,
            },
            _ => Decision::Pass,
        }
    }

    /// Returns whether a frame brings an ICMP error about a packet whose answer would be for a socket.
    fn is_about_ours(&mut self, frame: &[u8]) -> bool {
        let Some(error) = self.icmp_error(frame) else { return false };
        let address = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).unwrap().into();
        let address_v6 = |bytes: &[u8]| <[u8; 16]>::try_from(bytes).unwrap().into();
        let (answer, protocol) = match error.get(8..) {
            Some(sent) if sent.first() == Some(&0x45) && frame[12] == 8 && sent.len() >= 24 => {
                let payload = answer_to(sent[9], &sent[20..]);
                (ipv4(address(&sent[16..20]), address(&sent[12..16]), sent[9], 0, 0, &payload), sent[9])
            }
            Some(sent) if frame[12] == 0x86 && sent.len() >= 44 && sent[0] >> 4 == 6 => {
                let payload = answer_to(sent[6], &sent[40..]);
                (ipv6(address_v6(&sent[24..40]), address_v6(&sent[8..24]), sent[6], &payload), sent[6])
            }
            _ => return false,
        };
        let class = self.sockets.classify(&answer);
        matches!(protocol, 6 | 17)
            && matches!(class, Class::Channel(_) | Class::Segment { channel: Some(_), .. })
    }

    /// Returns the ICMP error in a frame to us that is no later fragment.
    fn icmp_error<'a>(&mut self, frame: &'a [u8]) -> Option<&'a [u8]> {
        // In the model with all bindings these are control traffic, if it is bound to a channel of its own.
        const CONTROL: ChannelId = ChannelId(1000);
        let mut model = self.sockets.clone();
        for binding in [Binding::Control, Binding::PathMtu] {
            model.apply(Change::Bind(binding, CONTROL));
        }
        if !matches!(model.classify(frame), Class::Channel(CONTROL) | Class::FirstFragment(CONTROL, _)) {
            return None;
        }
        let packet = frame.get(14..)?;
        if packet[0] >> 4 == 4 {
            let (header, len) = (usize::from(packet[0] & 15) * 4, [packet[2], packet[3]]);
            let error = packet.get(header..usize::from(u16::from_be_bytes(len)))?;
            return (packet[9] == 1 && matches!(error.first()?, 3 | 11 | 12)).then_some(error);
        }
        let end = 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]));
        let (mut next, mut at, mut fragmented) = (packet[6], 40, false);
        while let 0 | 43 | 44 | 60 = next {
            let header = packet.get(at..end)?;
            fragmented |= next == 44;
            at += if next == 44 { 8 } else { (usize::from(*header.get(1)?) + 1) * 8 };
            next = *header.first()?;
        }
        let error = packet.get(at..end)?;
        (next == 58 && !fragmented && *error.first()? < 128).then_some(error)
    }

    fn is_arp_for_us(&self, frame: &[u8]) -> bool {
        let Some([0, 1, 8, 0, 6, 4, _, rest @ ..]) = frame[14..].first_chunk::<28>() else { return false };
        let target: [u8; 4] = *rest.last_chunk().unwrap();
        self.model.addresses().any(|ours| ours == Ipv4Address::from(target).into())
    }

    /// Returns the decision about a frame, in which the program and the model agree.
    fn decide(&mut self, frame: &[u8]) -> Decision {
        let expected = self.expected(frame);
        let decision = Decision::of(self.run("classify", frame));
        assert_eq!(decision, expected, "by the program and by the model, of {frame:02x?}");
        decision
    }
}

/// Returns the transport header of an answer to a packet whose own begins so: its ports are exchanged.
fn answer_to(protocol: u8, sent: &[u8]) -> Vec<u8> {
    let port = |at: usize| u16::from_be_bytes([sent[at], sent[at + 1]]);
    if protocol == 6 { tcp(port(2), port(0), 0) } else { udp(port(2), port(0)) }
}

/// Reports and records that the test of this thread did not run.
fn lacks(lack: &Lack<'_>) {
    evenkeel_skip::skip(thread::current().name().unwrap_or("a test"), lack);
}

/// Binds what the vectors of this file lead to: each channel has the slot of its number.
fn bind_all(pair: &mut Pair) {
    let group: Ipv6Address = "ff02::99".parse().unwrap();
    let addresses: [IpAddress; 5] = [v4(2).into(), v4(3).into(), v6(2).into(), v6(3).into(), group.into()];
    pair.apply(Change::Hardware(OURS));
    addresses.into_iter().for_each(|address| pair.apply(Change::AddAddress(address)));
    let udp = |address, port| Binding::Udp { address, port };
    let tcp = |opens| Binding::Tcp { address: None, port: 9, opens };
    let connection = Binding::Connection(FourTuple::new((v4(2), 9), (v4(1), 7)));
    let bindings = [
        (udp(None, 9), 1),
        (udp(Some(v4(3).into()), 9), 2),
        (udp(Some(v6(3).into()), 9), 2),
        (udp(Some(group.into()), 11), 3),
        (udp(None, 12), 13),
        (udp(None, 14), 11),
        (udp(None, 15), 11),
        (tcp(true), 4),
        (tcp(false), 5),
        (connection, 6),
        // It keeps the channel that it was bound to first.
        (connection, 5),
        (Binding::Neighbor, 7),
        (Binding::Control, 8),
        (Binding::Fragment, 9),
        (Binding::PathMtu, 10),
        (Binding::Forward, FORWARD.0),
    ];
    for (binding, channel) in bindings {
        pair.bind(binding, ChannelId(channel));
        if channel != 13 {
            pair.open(ChannelId(channel), channel);
        }
    }
    for (port, from) in [(14, 7), (15, 8)] {
        pair.apply(Change::Connect(ChannelId(11), port, IpEndpoint::new(v4(1).into(), from)));
    }
}

/// Returns frames, each with the decision about it if the hardware address is ours, and if the kernel shares
/// it.
fn vectors() -> Vec<(&'static str, Vec<u8>, [Decision; 2])> {
    let slot = |slot| [Decision::Slot(slot); 2];
    let pass = [Decision::Pass; 2];
    let only_ours = |decision| [decision, Decision::Pass];
    let to = |address: EthernetAddress, mut frame: Vec<u8>| {
        frame[..6].copy_from_slice(&address.0);
        frame
    };
    let four = |n, protocol, payload: &[u8]| ipv4(v4(1), v4(n), protocol, 0, 0, payload);
    let six = |n, next, payload: &[u8]| ipv6(v6(1), v6(n), next, payload);
    let group = |port| ipv6(v6(1), "ff02::99".parse().unwrap(), 17, &udp(7, port));
    let options = |count| (0..count).fold((17, udp(7, 9)), |(next, rest), _| (60, extension(next, 1, &rest)));
    let behind = |count| {
        let (next, payload) = options(count);
        six(2, next, &payload)
    };
    vec![
        ("a stranger's", to(STRANGER, four(2, 17, &udp(7, 9))), pass),
        ("a stranger's ARP", to(STRANGER, arp(v4(2))), pass),
        ("another type", ethernet(0x88b5, &[0; 46]), only_ours(UNKNOWN)),
        ("a tagged frame", ethernet(0x8100, &[0; 46]), only_ours(UNKNOWN)),
        ("another type for all", to(ALL_NODES, ethernet(0x88cc, &[0; 46])), pass),
        ("ARP", arp(v4(2)), slot(7)),
        ("ARP for an address of the kernel", arp(v4(77)), [Decision::Slot(7), Decision::Pass]),
        ("no ARP", ethernet(0x0806, &[]), [Decision::Slot(7), Decision::Pass]),
        ("a question for us", to(EthernetAddress::BROADCAST, arp(v4(3))), slot(7)),
        ("a question for others", to(EthernetAddress::BROADCAST, arp(v4(77))), pass),
        ("UDP", four(2, 17, &udp(7, 9)), slot(1)),
        ("UDP to an address", four(3, 17, &udp(7, 9)), slot(2)),
        ("UDP to a port that is unbound", four(2, 17, &udp(7, 10)), slot(8)),
        ("UDP for a channel without a ring", four(2, 17, &udp(7, 12)), slot(0)),
        ("UDP from the peer", four(2, 17, &udp(7, 14)), slot(11)),
        ("UDP from another than the peer", four(2, 17, &udp(7, 15)), slot(8)),
        ("UDP over IPv6", six(2, 17, &udp(7, 9)), slot(1)),
        ("UDP over IPv6 to an address", six(3, 17, &udp(7, 9)), slot(2)),
        ("a group's", to(ALL_NODES, group(11)), slot(3)),
        ("a group's, not for any address", to(ALL_NODES, group(9)), slot(8)),
        ("another group's", to(ALL_NODES, ipv6(v6(1), "ff02::98".parse().unwrap(), 17, &[])), pass),
        ("a broken one for all", to(ALL_NODES, ethernet(0x0800, &[0; 40])), pass),
        ("a segment of a connection", four(2, 6, &tcp(7, 9, 0x10)), slot(6)),
        ("a segment of another", four(2, 6, &tcp(8, 9, 0x10)), slot(5)),
        ("a segment that opens", four(2, 6, &tcp(8, 9, 0x02)), slot(4)),
        ("a segment that accepts", four(2, 6, &tcp(8, 9, 0x12)), slot(5)),
        ("a segment to a port that is closed", four(2, 6, &tcp(8, 10, 0x02)), slot(8)),
        ("a segment over IPv6", six(2, 6, &tcp(8, 9, 0x02)), slot(4)),
        ("a segment for a connection over IPv6", six(2, 6, &tcp(7, 9, 0x10)), slot(5)),
        ("too little of a segment", four(2, 6, &tcp(7, 9, 2)[..13]), slot(8)),
        ("as much as is needed of a segment", four(2, 6, &tcp(7, 9, 2)[..14]), slot(6)),
        ("too little of UDP", four(2, 17, &udp(7, 9)[..3]), slot(8)),
        ("as much as is needed of UDP", four(2, 17, &udp(7, 9)[..4]), slot(1)),
        ("an echo", four(2, 1, &[8, 0, 0, 0]), slot(8)),
        ("fragmentation needed", four(2, 1, &[3, 4, 0, 0]), slot(10)),
        ("port unreachable", four(2, 1, &[3, 3, 0, 0]), slot(8)),
        ("packet too big", six(2, 58, &[2, 0, 0, 0]), slot(10)),
        ("a neighbour's", six(2, 58, &[135, 0, 0, 0]), slot(7)),
        ("behind a fragment header", six(2, 44, &fragment_header(58, 0, 1, &[135, 0])), slot(8)),
        ("a later fragment alone", ipv4(v4(1), v4(2), 17, 5, 3, &[0; 8]), slot(9)),
        ("a first fragment", ipv4(v4(1), v4(2), 17, 4, 0x2000, &udp(7, 9)), slot(1)),
        ("its later one", ipv4(v4(1), v4(2), 17, 4, 3, &udp(7, 10)), slot(1)),
        ("one of another protocol", ipv4(v4(1), v4(2), 18, 4, 3, &[0; 8]), slot(9)),
        ("one of another datagram", ipv4(v4(1), v4(2), 17, 3, 3, &[0; 8]), slot(9)),
        ("one of another host", ipv4(v4(9), v4(2), 17, 4, 3, &[0; 8]), slot(9)),
        ("one to another address", ipv4(v4(1), v4(3), 17, 4, 3, &[0; 8]), slot(9)),
        ("a first one over IPv6", six(2, 44, &fragment_header(17, 1, 1, &udp(7, 9))), slot(1)),
        ("its later one over IPv6", six(2, 44, &fragment_header(6, 8, 1, &[0; 8])), slot(1)),
        ("one of another datagram over IPv6", six(2, 44, &fragment_header(6, 8, 2, &[0; 8])), slot(9)),
        ("an atomic one", six(2, 44, &fragment_header(17, 0, 9, &udp(7, 9))), slot(1)),
        (
            "a segment in one whose reserved bits are set",
            six(2, 44, &fragment_header(6, 6, 9, &tcp(8, 9, 2))),
            slot(4),
        ),
        ("behind as many headers as are followed", behind(17), slot(1)),
        ("behind one more", behind(18), slot(8)),
        ("half a header", six(2, 60, &[17]), slot(8)),
        ("no version", ethernet(0x0800, &[0; 40]), only_ours(MALFORMED)),
        ("half of IPv6", six(2, 17, &udp(7, 9))[..50].to_vec(), only_ours(MALFORMED)),
        ("longer than its frame", four(2, 17, &[0; 8])[..41].to_vec(), only_ours(MALFORMED)),
        ("in transit", four(77, 17, &udp(7, 9)), slot(FORWARD.0)),
        ("in transit, and broken behind its header", six(77, 60, &[17]), slot(FORWARD.0)),
        ("to all", ipv4(v4(1), Ipv4Address::BROADCAST, 17, 0, 0, &[]), only_ours(NOT_LOCAL)),
    ]
}

#[test]
fn frames_are_classified_as_the_model_does() {
    for (column, sharing) in [Sharing::Nothing, Sharing::Mac].into_iter().enumerate() {
        let Some(mut pair) = Pair::load(sharing) else { return };
        bind_all(&mut pair);
        for (name, frame, decisions) in vectors() {
            assert_eq!(pair.decide(&frame), decisions[column], "{name}");
        }
    }
}

/// The host gets what its sockets are bound to, and the errors about what they have sent. All else passes.
#[test]
fn a_kernel_that_shares_its_addresses_gets_what_is_not_for_a_socket() {
    let Some(mut pair) = Pair::load(Sharing::Addresses) else { return };
    bind_all(&mut pair);
    let of_sockets = [1, 2, 3, 4, 5, 6, 11].map(Decision::Slot);
    let mut passed = 0;
    for (name, frame, [decision, _]) in vectors() {
        let is_for_socket = of_sockets.contains(&decision) || name == "UDP for a channel without a ring";
        passed += usize::from(!is_for_socket);
        assert_eq!(pair.decide(&frame), if is_for_socket { decision } else { Decision::Pass }, "{name}");
    }
    assert!(passed > 30, "{passed} passed");
    let four = |error: [u8; 2], sent: Vec<u8>| {
        ipv4(v4(9), v4(2), 1, 0, 0, &[&error[..], &[0; 6], &sent[14..]].concat())
    };
    let six =
        |error: [u8; 2], sent: Vec<u8>| ipv6(v6(9), v6(2), 58, &[&error[..], &[0; 6], &sent[14..]].concat());
    let (control, path) = (Decision::Slot(8), Decision::Slot(10));
    let of_udp = |port| ipv4(v4(2), v4(1), 17, 0, 0, &udp(port, 7));
    for (name, frame, decision) in [
        ("port unreachable", four([3, 3], of_udp(9)), control),
        ("port unreachable, of a port of the kernel", four([3, 3], of_udp(10)), Decision::Pass),
        ("too big", four([3, 4], of_udp(9)), path),
        ("too long in transit", four([11, 0], of_udp(9)), control),
        ("about what a peer gets", four([3, 3], of_udp(14)), control),
        ("about what another peer gets", four([3, 3], of_udp(15)), Decision::Pass),
        ("about a connection", four([3, 1], ipv4(v4(2), v4(1), 6, 0, 0, &tcp(9, 7, 2))), control),
        ("about a listener's", four([3, 1], ipv4(v4(2), v4(1), 6, 0, 0, &tcp(9, 8, 2))), control),
        ("about the kernel's", four([3, 1], ipv4(v4(2), v4(1), 6, 0, 0, &tcp(10, 8, 2))), Decision::Pass),
        (
            "about what a stranger has sent",
            four([3, 3], ipv4(v4(77), v4(1), 17, 0, 0, &udp(9, 7))),
            Decision::Pass,
        ),
        ("no error, but an echo", four([8, 0], of_udp(9)), Decision::Pass),
        ("too big over IPv6", six([2, 0], ipv6(v6(2), v6(1), 17, &udp(9, 7))), path),
        ("unreachable over IPv6", six([1, 4], ipv6(v6(2), v6(1), 17, &udp(9, 7))), control),
        ("of the kernel over IPv6", six([1, 4], ipv6(v6(2), v6(1), 17, &udp(10, 7))), Decision::Pass),
        ("an echo over IPv6", six([128, 0], ipv6(v6(2), v6(1), 17, &udp(9, 7))), Decision::Pass),
    ] {
        assert_eq!(pair.decide(&frame), decision, "{name}");
    }
}

/// Nothing of the kernel's is taken before the host's sockets are known.
#[test]
fn a_kernel_that_shares_its_addresses_gets_all_until_the_host_demultiplexes() {
    let Some(pair) = Pair::load(Sharing::Addresses) else { return };
    let mut program = Program::load(Taken::Ours, Sharing::Addresses, Buffers::One).unwrap();
    xdp(&mut program.object, "classify").unwrap().load().unwrap();
    for change in [Change::Hardware(OURS), Change::AddAddress(v4(2).into())] {
        program.apply(change).unwrap();
    }
    let fresh = Pair { program, ..pair };
    for (name, frame, _) in vectors() {
        assert_eq!(Decision::of(fresh.run("classify", &frame)), Decision::Pass, "{name}");
    }
}

#[test]
fn without_bindings_all_of_ours_go_to_the_shared_ring() {
    let Some(mut pair) = Pair::load(Sharing::Nothing) else { return };
    assert_eq!(pair.decide(&ipv4(v4(1), v4(2), 17, 0, 0, &udp(7, 9))), Decision::Pass, "not ours yet");
    pair.apply(Change::Hardware(OURS));
    assert_eq!(pair.decide(&ipv4(v4(1), v4(2), 17, 0, 0, &udp(7, 9))), NOT_LOCAL);
    for address in [v4(2).into(), v6(2).into()] {
        pair.apply(Change::AddAddress(address));
    }
    let to_us = [
        arp(v4(2)),
        ipv4(v4(1), v4(2), 17, 0, 0, &udp(7, 9)),
        ipv4(v4(1), v4(2), 6, 0, 0, &tcp(7, 9, 2)),
        ipv4(v4(1), v4(2), 17, 1, 0x2000, &udp(7, 9)),
        ipv4(v4(1), v4(2), 17, 1, 1, &udp(7, 9)),
        ipv6(v6(1), v6(2), 58, &[128, 0, 0, 0]),
    ];
    for frame in to_us {
        assert_eq!(pair.decide(&frame), Decision::Slot(0));
    }
    pair.apply(Change::NoHardware(OURS));
    assert_eq!(pair.decide(&arp(v4(2))), Decision::Pass);
}

/// The next channel of a slot does not get the fragments of the last one.
#[test]
fn a_closed_channel_is_forgotten_with_its_fragments() {
    let Some(mut pair) = Pair::load(Sharing::Nothing) else { return };
    bind_all(&mut pair);
    let first = ipv4(v4(1), v4(2), 17, 4, 0x2000, &udp(7, 9));
    let later = ipv4(v4(1), v4(2), 17, 4, 3, &[0; 8]);
    assert_eq!([pair.decide(&first), pair.decide(&later)], [Decision::Slot(1); 2]);
    pair.close(ChannelId(1));
    assert_eq!(pair.decide(&first[..]), Decision::Slot(0));
    pair.open(ChannelId(1), 33);
    assert_eq!([pair.decide(&first), pair.decide(&later)], [Decision::Slot(33); 2]);
    pair.program.close(ChannelId(1));
    assert_eq!(Decision::of(pair.run("classify", &later)), Decision::Slot(9));
}

/// Nothing follows a first fragment that has no channel.
#[test]
fn a_first_fragment_without_channel_is_not_followed() {
    let Some(mut pair) = Pair::load(Sharing::Nothing) else { return };
    bind_all(&mut pair);
    pair.apply(Change::Unbind(Binding::Control));
    let first = ipv4(v4(1), v4(2), 17, 4, 0x2000, &udp(7, 10));
    let later = ipv4(v4(1), v4(2), 17, 4, 3, &[0; 8]);
    assert_eq!([pair.decide(&first), pair.decide(&later)], [Decision::Slot(0), Decision::Slot(9)]);
}

/// The numbers that a program returns to the kernel.
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;

#[test]
fn a_slot_without_socket_is_served_by_the_shared_ring_and_drops_are_counted() {
    let Some(mut pair) = Pair::load(Sharing::Nothing) else { return };
    bind_all(&mut pair);
    let [own, other] = [9, 10].map(|port| ipv4(v4(1), v4(2), 17, 0, 0, &udp(7, port)));
    let one = socket(AddressFamily::XDP, SocketType::RAW, None).unwrap();
    pair.program.set_socket(0, 1, one.as_fd(), 64).unwrap();
    assert_eq!([&own, &other].map(|frame| pair.run("demux", frame)), [XDP_REDIRECT, XDP_DROP]);
    assert_eq!(dropped(&pair.program), [0, 0, 0, 1, 0, 0, 0]);
    pair.program.set_socket(0, 0, one.as_fd(), 64).unwrap();
    pair.program.remove_socket(0, 1);
    assert_eq!([&own, &other].map(|frame| pair.run("demux", frame)), [XDP_REDIRECT; 2]);
    let longest = [&own[..], &vec![0; 2048 - 256 - own.len()]].concat();
    assert_eq!(pair.run("demux", &longest), XDP_REDIRECT);
    (0..4).for_each(|_| assert_eq!(pair.run("demux", &[&longest[..], &[0]].concat()), XDP_DROP));
    pair.program.remove_socket(0, 0);
    assert_eq!([&own, &other].map(|frame| pair.run("demux", frame)), [XDP_DROP; 2]);
    let broken = [ethernet(0x88b5, &[]), ethernet(0x0800, &[]), ipv6(v6(1), v6(0xff), 17, &[])];
    pair.apply(Change::Unbind(Binding::Forward));
    for (n, frame) in broken.iter().enumerate() {
        (0..=n).for_each(|_| assert_eq!(pair.run("demux", frame), XDP_DROP));
    }
    let passed = ipv6(v6(1), v6(2), 17, &[]).split_off(6);
    assert_eq!(pair.run("demux", &[&STRANGER.0, &passed[..]].concat()), XDP_PASS);
    assert_eq!(dropped(&pair.program), [1, 2, 3, 3, 4, 0, 0]);
    assert!(pair.program.set_socket(0, SLOTS * 16, one.as_fd(), 64).is_err(), "no such slot");
}

/// In a test run what exceeds some 3.5 KB of a frame lies in a second buffer.
#[test]
fn frames_in_several_buffers_are_decided_about_by_the_first() {
    let Some(mut pair) = Pair::load(Sharing::Nothing) else { return };
    bind_all(&mut pair);
    let long = |head: Vec<u8>, len: usize| [&head[..], &vec![7; len]].concat();
    for len in [3_400, 3_500, 3_600, 8_900] {
        let udp = long(udp(7, 9), len);
        let later = ipv4(v4(1), v4(2), 17, 4, 3, &udp);
        for (frame, slot) in [
            (ipv4(v4(1), v4(2), 17, 0, 0, &udp), 1),
            (ipv4(v4(1), v4(2), 6, 0, 0, &long(tcp(7, 9, 0), len)), 6),
            (ipv6(v6(1), v6(2), 17, &udp), 1),
            (ipv6(v6(1), v6(2), 60, &extension(17, 1, &udp)), 1),
            (ipv4(v4(1), v4(2), 17, 4, 0x2000, &udp), 1),
            (later.clone(), 1),
            (ipv4(v4(1), v4(2), 1, 0, 0, &long(vec![8, 0], len)), 8),
            (ipv4(v4(1), v4(9), 17, 0, 0, &udp), FORWARD.0),
        ] {
            assert_eq!(pair.decide(&frame), pair.slot(ChannelId(slot)), "{len} bytes for {slot}");
            let cut = pair.decide(&frame[..frame.len() - 1]);
            assert_eq!(cut, MALFORMED, "{len} bytes for {slot}");
        }
        pair.forget_fragments();
        assert_eq!(pair.decide(&later), Decision::Slot(9));
        assert_eq!(pair.decide(&ethernet(0x88b5, &udp)), UNKNOWN);
    }
    // The host looks for a header that lies in the second buffer.
    let hidden = extension(17, 255, &long(udp(7, 9), 100));
    for (sharing, decision) in [
        (Sharing::Nothing, Decision::Slot(0)),
        (Sharing::Mac, Decision::Slot(0)),
        (Sharing::Addresses, Decision::Pass),
    ] {
        pair.program.table.share(sharing);
        pair.sharing = sharing;
        let frame = ipv6(v6(1), v6(2), 60, &extension(60, 255, &hidden));
        assert_eq!(Decision::of(pair.run("classify", &frame)), decision);
        assert_eq!(pair.decide(&ipv6(v6(1), v6(2), 60, &hidden)), Decision::Slot(1));
        assert_ne!(pair.expected(&frame), decision, "the host finds it");
    }
}

/// A frame takes an entry for each chunk that it fills, and one beyond the MTU is dropped.
#[test]
fn frames_in_several_buffers_take_several_entries_of_a_ring() {
    let sharing = Sharing::Nothing;
    let loaded = Program::load(Taken::Ours, sharing, Buffers::Several);
    let Some(mut pair) = Pair::of(loaded, sharing) else { return };
    bind_all(&mut pair);
    pair.program.set_mtu(9_000).unwrap();
    let socket = socket(AddressFamily::XDP, SocketType::RAW, None).unwrap();
    let mark = pair.program.set_socket(0, 1, socket.as_fd(), 7).unwrap();
    let sized = |len: usize| {
        let head = ipv4(v4(1), v4(2), 17, 0, 0, &udp(7, 9));
        ipv4(v4(1), v4(2), 17, 0, 0, &[&udp(7, 9), &vec![0; len - head.len()][..]].concat())
    };
    let run = |len: usize| pair.run("demux_several", &sized(len));
    for (len, entries) in [(100, 1), (3_840, 1), (3_841, 2), (7_680, 2), (7_681, 3), (9_018, 3)] {
        mark.level();
        assert_eq!((run(len), run(100)), (XDP_REDIRECT, XDP_REDIRECT), "{len} bytes");
        for _ in entries..6 {
            assert_eq!(run(100), XDP_REDIRECT, "{len} bytes");
        }
        assert_eq!(run(100), XDP_DROP, "{len} bytes");
    }
    // A frame that finds too little room leaves it to smaller ones.
    mark.level();
    assert_eq!([9_000, 9_000, 9_000, 100, 100].map(run), [4, 4, 1, 4, 1]);
    assert_eq!((mark.refused(), run(9_019)), (8, XDP_DROP));
    assert_eq!(dropped(&pair.program)[4], 1);
}

/// Returns the numbers of dropped frames, in the order of the reasons.
fn dropped(program: &Program) -> [u64; REASONS.len()] {
    let dropped = program.dropped();
    REASONS.map(|reason| dropped.iter().find(|(other, _)| *other == reason).unwrap().1)
}

/// Returns the output of a command that succeeds.
fn run(command: &str) -> String {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_device_has_the_program_as_long_as_it_is_held() {
    let test = || {
        if let Err(error) = crate::enter_new_network() {
            return lacks(&Lack::Root(&error.to_string()));
        }
        if Command::new("ip").arg("-V").output().is_err() {
            return lacks(&Lack::Program { program: "ip", package: "iproute2" });
        }
        run("ip link add xxa type veth peer name xxb");
        let is_attached = |device: &str| run(&format!("ip -d link show {device}")).contains("prog/xdp");
        for (device, mode) in [("xxa", Mode::Native), ("lo", Mode::Generic)] {
            let Some(mut pair) = Pair::load(Sharing::Nothing) else { return };
            assert_eq!(pair.program.attach(device).unwrap(), mode, "{device}");
            assert!(is_attached(device), "{device}");
            let second = Pair::load(Sharing::Nothing).unwrap().program.attach(device).unwrap_err();
            assert!(matches!(second, LinkError::Busy { .. }), "{second}");
            drop(pair);
            assert!(!is_attached(device), "{device}");
        }
        let missing = Pair::load(Sharing::Nothing).unwrap().program.attach("xxc").unwrap_err();
        assert!(matches!(missing, LinkError::NoDevice { .. }), "{missing}");
    };
    let name = thread::current().name().unwrap_or("a test").to_owned();
    thread::Builder::new().name(name).spawn(test).unwrap().join().unwrap();
}

/// The version of clang that has compiled the objects.
const CLANG: &str = "version 14.";

#[test]
fn the_objects_are_what_their_sources_compile_to() {
    let Ok(version) = Command::new("clang").arg("--version").output() else {
        return lacks(&Lack::Program { program: "clang", package: "clang-14" });
    };
    if !String::from_utf8_lossy(&version.stdout).contains(CLANG) {
        return lacks(&Lack::Other("needs clang 14"));
    }
    if Command::new("llvm-strip").arg("--version").output().is_err() {
        return lacks(&Lack::Program { program: "llvm-strip", package: "llvm-14" });
    }
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let scratch = std::env::temp_dir().join(format!("evenkeel-objects-{}", std::process::id()));
    fs::create_dir(&scratch).unwrap();
    run(&format!("{} {}", directory.join("build.sh").display(), scratch.display()));
    let differs = |name: &&str| {
        let [compiled, ours] = [&scratch, &directory].map(|place| fs::read(place.join(name)).unwrap());
        compiled != ours
    };
    let objects = ["demux.o", "guard.o", "keep.o", "refuse.o"];
    let old: Vec<_> = objects.into_iter().filter(differs).collect();
    fs::remove_dir_all(&scratch).unwrap();
    assert!(old.is_empty(), "compile them again by bpf/build.sh: {old:?}");
}

#[test]
fn a_ring_that_is_full_gets_no_more_frames_until_some_are_taken() {
    let Some(mut pair) = Pair::load(Sharing::Nothing) else { return };
    bind_all(&mut pair);
    let frame = ipv4(v4(1), v4(2), 17, 0, 0, &udp(7, 9));
    let socket = socket(AddressFamily::XDP, SocketType::RAW, None).unwrap();
    let mark = pair.program.set_socket(0, 1, socket.as_fd(), 2).unwrap();
    let run = |times: usize| (0..times).map(|_| pair.run("demux", &frame)).collect::<Vec<_>>();
    assert_eq!(run(4), [XDP_REDIRECT, XDP_REDIRECT, XDP_DROP, XDP_DROP]);
    assert_eq!(mark.refused(), 2);
    mark.take(1);
    assert_eq!(run(2), [XDP_REDIRECT, XDP_DROP]);
    // What the kernel has lost on the way does not count for ever.
    mark.level();
    assert_eq!(run(3), [XDP_REDIRECT, XDP_REDIRECT, XDP_DROP]);
    // The next ring of the slot begins anew.
    let next = pair.program.set_socket(0, 1, socket.as_fd(), 1).unwrap();
    assert_eq!([pair.run("demux", &frame), pair.run("demux", &frame)], [XDP_REDIRECT, XDP_DROP]);
    assert_eq!((mark.refused(), next.refused()), (5, 1));
}
