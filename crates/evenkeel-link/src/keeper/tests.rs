//! The program by test runs of the kernel, and on a device of its own network namespace.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::process::Command;
use std::thread;

use aya::programs::{TestRun as _, TestRunOptions};
use evenkeel_core::demux::{Change, Class, DemuxTable};
use evenkeel_core::drop::{IpDrop, Reason};
use evenkeel_core::wire::{EthernetAddress, Ipv4Address, Ipv6Address};
use evenkeel_skip::Lack;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;

const NEXT: u32 = u32::MAX;
const DROP: u32 = 2;

/// The hardware address of the loopback device, to which the kernel addresses frames of a test run.
const OURS: EthernetAddress = EthernetAddress([0; 6]);
const PEER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const EVERYBODY: [u8; 6] = [0xff; 6];
const V4: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
const V6: Ipv6Address = Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const OTHER_V4: Ipv4Address = Ipv4Address::new(10, 0, 0, 3);
const OTHER_V6: Ipv6Address = Ipv6Address::new(0xfd00, 1, 0, 0, 0, 0, 0, 2);

fn lacks(lack: &Lack<'_>) {
    evenkeel_skip::skip(thread::current().name().unwrap_or("a test"), lack);
}

fn run(command: &str) -> String {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a test on a thread in its own network namespace, which has the device `ek0`.
fn with_device(test: impl FnOnce() + Send + 'static) {
    let test = || {
        if let Err(error) = crate::enter_new_network() {
            return lacks(&Lack::Root(&error.to_string()));
        }
        run("ip link set lo up");
        run("ip link add kernel0 type veth peer name ek0");
        run("ip link set ek0 up");
        test();
    };
    let name = thread::current().name().unwrap_or("a test").to_owned();
    thread::Builder::new().name(name).spawn(test).unwrap().join().unwrap();
}

/// Loads the program for `ek0`, attached in this way, with the two addresses.
fn load(way: Attaching) -> (Program, Kept) {
    let (mut program, kept) = Program::load("ek0", &[way]).unwrap();
    program.set([V4.into(), V6.into()].into());
    (program, kept)
}

impl Program {
    /// Returns the decision about a frame.
    fn decide(&self, name: &str, frame: &[u8]) -> u32 {
        let program: &SchedClassifier = self._object.program(name).unwrap().try_into().unwrap();
        let options = TestRunOptions { data_in: Some(frame), ..TestRunOptions::new() };
        program.test_run(options).unwrap().return_value
    }
}

fn ipv4(to: EthernetAddress, address: Ipv4Address) -> Vec<u8> {
    let header = [0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1];
    let ethernet = [&to.0[..], &PEER, &[8, 0]].concat();
    [&ethernet[..], &header, &address.octets(), &[0x30, 0x39, 0, 9, 0, 12, 0, 0, 1, 2, 3, 4]].concat()
}

fn arp(to: EthernetAddress, target: Ipv4Address) -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, 1];
    let ethernet = [&to.0[..], &PEER, &[8, 6]].concat();
    [&ethernet[..], &head, &PEER, &[10, 0, 0, 1], &[0; 6], &target.octets()].concat()
}

fn ipv6(to: EthernetAddress, address: Ipv6Address, next: u8, body: &[u8]) -> Vec<u8> {
    let from = Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).octets();
    let ethernet = [&to.0[..], &PEER, &[0x86, 0xdd]].concat();
    let header = [0x60, 0, 0, 0, 0, body.len() as u8, next, 255];
    [&ethernet[..], &header, &from, &address.octets(), body].concat()
}

/// Returns a neighbour solicitation, to the solicited-node group of both addresses.
fn solicitation(kind: u8, target: Ipv6Address) -> Vec<u8> {
    let group = Ipv6Address::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 2);
    let body = [&[kind, 0, 0, 0, 0, 0, 0, 0], &target.octets()[..]].concat();
    ipv6(EthernetAddress([0x33, 0x33, 0xff, 0, 0, 2]), group, 58, &body)
}

#[test]
fn the_kernel_gets_all_but_what_is_for_the_host() {
    with_device(|| {
        let (mut program, kept) = load(Attaching::Link);
        let everybody = EthernetAddress(EVERYBODY);
        let udp = [0x30, 0x39, 0, 9, 0, 12, 0, 0, 1, 2, 3, 4];
        let ours = [
            ipv4(OURS, V4),
            ipv6(OURS, V6, 17, &udp),
            arp(everybody, V4),
            arp(OURS, V4),
            solicitation(135, V6),
        ];
        let group = Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let others = [
            ipv4(OURS, OTHER_V4),
            ipv4(everybody, Ipv4Address::BROADCAST),
            ipv6(OURS, OTHER_V6, 17, &udp),
            ipv6(EthernetAddress([0x33, 0x33, 0, 0, 0, 1]), group, 17, &udp),
            arp(everybody, OTHER_V4),
            solicitation(135, OTHER_V6),
            // An advertisement to all nodes.
            solicitation(136, V6),
            // To another station, which the device only overhears.
            ipv4(EthernetAddress([2, 0, 0, 0, 0, 9]), V4),
            [&[0; 12], &[0x88, 0xb5][..], &[0; 46]].concat(),
            // Cut off.
            arp(OURS, V4)[..40].to_vec(),
            solicitation(135, V6)[..70].to_vec(),
            // In a VLAN.
            [&[0; 6], &PEER, &[0x81, 0, 0, 5][..], &ipv4(OURS, V4)[12..]].concat(),
        ];
        for frame in &ours {
            assert_eq!(program.decide(PROGRAM, frame), DROP, "{frame:02x?}");
        }
        assert_eq!(kept.frames(), ours.len() as u64);
        for frame in &others {
            assert_eq!(program.decide(PROGRAM, frame), NEXT, "{frame:02x?}");
        }
        assert_eq!(kept.frames(), ours.len() as u64);
        program.set([V6.into()].into());
        let decided = ours.map(|frame| program.decide(PROGRAM, &frame));
        assert_eq!(decided, [NEXT, DROP, NEXT, NEXT, DROP], "an address was removed");
    });
}

/// Whatever is kept from the kernel, the host takes.
#[test]
fn what_is_kept_is_for_the_host() {
    with_device(|| {
        let (program, kept) = load(Attaching::Link);
        let mut model = DemuxTable::new(1);
        model.apply(Change::Hardware(OURS));
        [V4.into(), V6.into()].into_iter().for_each(|address| model.apply(Change::AddAddress(address)));
        let base = prop_oneof![
            Just(ipv4(OURS, V4)),
            Just(ipv6(OURS, V6, 17, &[0, 5, 0, 9, 0, 8, 0, 0])),
            Just(arp(OURS, V4)),
            Just(solicitation(135, V6))
        ];
        let byte = prop_oneof![any::<u8>(), prop::sample::select(vec![0, 2, 6, 8, 10, 58, 0x45, 0x60, 0xff])];
        let frames = (base, vec((0..80_usize, byte), 0..3), 0..90_usize);
        let check = |(mut frame, changes, len): (Vec<u8>, Vec<(usize, u8)>, usize)| {
            for (at, byte) in changes {
                frame.get_mut(at).into_iter().for_each(|place| *place = byte);
            }
            // The kernel accepts a fixed header at least.
            frame.truncate(len.max(54));
            // A solicitation for the host may be to another group than the host is in.
            if program.decide(PROGRAM, &frame) == DROP && frame[38] != 0xff {
                let not_ours = Class::Discard(Reason::Ip(IpDrop::NotLocal));
                prop_assert_ne!(model.classify(&frame), not_ours);
            }
            Ok(())
        };
        let config = ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() };
        TestRunner::new(config).run(&frames, check).unwrap();
        assert!(kept.frames() > 500, "{kept:?}");
    });
}

/// Returns what is attached to the ingress of `ek0`: filters of clsact, and links of tcx.
fn attached() -> (usize, usize) {
    let filters = run("tc filter show dev ek0 ingress").matches(" direct-action ").count();
    let links = SchedClassifier::query_tcx("ek0", TcAttachType::Ingress).unwrap().1.len();
    (filters, links)
}

#[test]
fn a_link_of_the_program_goes_with_it() {
    with_device(|| {
        let (program, _) = load(Attaching::Link);
        let (second, _) = load(Attaching::Link);
        assert_eq!(attached(), (0, 2));
        drop(program);
        assert_eq!(attached(), (0, 1));
        drop(second);
        assert_eq!(attached(), (0, 0));
    });
}

/// The kernel empties the map when its last descriptor is closed, as at the end of a process.
#[test]
fn a_filter_that_is_left_does_nothing_and_is_replaced() {
    with_device(|| {
        let frame = ipv4(OURS, V4);
        let (mut killed, kept) = load(Attaching::Filter);
        assert_eq!((killed.decide(FILTER, &frame), kept.frames(), attached()), (DROP, 1, (1, 0)));
        drop(killed._running.take());
        // It does so on a thread of its own.
        while killed.decide(FILTER, &frame) == DROP {
            assert!(kept.frames() < 1_000_000, "the filter goes on");
        }
        assert_eq!(attached(), (1, 0));
        let (program, _) = load(Attaching::Filter);
        assert_eq!((program.decide(FILTER, &frame), attached()), (DROP, (1, 0)));
        // The link of the first one finds nothing to detach.
        drop(program);
        assert_eq!(attached(), (0, 0));
        drop(killed);
        assert_eq!(attached(), (0, 0));
    });
}

#[test]
fn addresses_of_the_kernel_are_left_to_it_and_reported_once() {
    with_device(|| {
        run("ip addr add 10.0.0.3/24 dev ek0");
        let status = Status::default();
        let mut keeper = Keeper::of("ek0", status.clone());
        keeper.set_addresses(&BTreeSet::new());
        assert_eq!((status.kept_from_kernel(), attached()), (None, (0, 0)));
        for _ in 0..2 {
            keeper.set_addresses(&[V4.into(), OTHER_V4.into()].into());
        }
        let State::Keeping(program) = &keeper.state else { panic!("{keeper:?}") };
        let decided = [V4, OTHER_V4].map(|address| program.decide(PROGRAM, &ipv4(OURS, address)));
        assert_eq!(decided, [DROP, NEXT]);
        assert_eq!(status.kept_from_kernel(), Some(1));
        let reported: Vec<_> = std::iter::from_fn(|| status.next_kernel_work()).collect();
        assert_eq!(reported, [KernelWork::On(OTHER_V4.into())]);
        run("ip addr del 10.0.0.3/24 dev ek0");
        keeper.set_addresses(&[OTHER_V4.into()].into());
        let State::Keeping(program) = &keeper.state else { panic!("{keeper:?}") };
        let decided = [V4, OTHER_V4].map(|address| program.decide(PROGRAM, &ipv4(OURS, address)));
        assert_eq!(decided, [NEXT, DROP]);
    });
}

#[test]
fn without_a_program_the_reason_is_reported_once() {
    with_device(|| {
        let status = Status::default();
        let mut keeper = Keeper::of("no-such-dev", status.clone());
        (0..2).for_each(|_| keeper.set_addresses(&[V4.into()].into()));
        let Some(KernelWork::OnAll { why }) = status.next_kernel_work() else { panic!("{keeper:?}") };
        assert!(why.contains(ATTACH), "{why}");
        assert_eq!((status.next_kernel_work(), status.kept_from_kernel()), (None, None));
    });
}
