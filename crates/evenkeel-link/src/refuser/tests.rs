//! The program compared with the demultiplexing function, by test runs of the kernel.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use core::cell::Cell;
use std::thread;

use aya::programs::{TestRun as _, TestRunOptions};
use evenkeel_core::demux::Class;
use evenkeel_core::wire::{IpEndpoint, Ipv4Address, Ipv6Address};
use evenkeel_skip::Lack;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;

const OURS: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);
const CHANNEL: ChannelId = ChannelId(7);
const PORT: u16 = 9;
const V4: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
const V6: Ipv6Address = Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

fn load() -> Option<KernelRefuser> {
    match KernelRefuser::load(OURS, Box::new(|_| {})) {
        Ok(mut refuser) => {
            for change in changes() {
                refuser.update(change);
            }
            Some(refuser)
        }
        Err(error @ LinkError::Privilege { .. }) => {
            evenkeel_skip::skip(
                thread::current().name().unwrap_or("a test"),
                &Lack::Root(&error.to_string()),
            );
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn changes() -> [Change; 4] {
    let group: IpAddress = Ipv4Address::new(224, 0, 0, 9).into();
    [
        Change::Hardware(OURS),
        Change::AddAddress(V4.into()),
        Change::AddAddress(V6.into()),
        Change::AddAddress(group),
    ]
}

const fn datagrams_to(port: u16) -> Binding {
    Binding::Udp { address: None, port }
}

impl KernelRefuser {
    /// Opens a channel for a port. Its allowance is used up, and no frame is due that passes even so.
    fn bind(&mut self, channel: ChannelId, port: u16) -> Box<dyn Allowance> {
        let mut allowance = self.open(channel).unwrap();
        self.update(Change::Bind(datagrams_to(port), channel));
        allowance.set(Some(0));
        self.filter.slot(self.slots[&channel]).probed_at.store(u64::MAX / 2, Ordering::Relaxed);
        allowance
    }

    /// Returns whether a frame passes.
    fn passes(&self, frame: &[u8]) -> bool {
        // The kernel takes what looks like an Ethernet header for one, and the filter begins behind it.
        let frame = [&[2; 12], &[0x88, 0xb5][..], frame].concat();
        let program: &SocketFilter = self.filter.program.program(PROGRAM).unwrap().try_into().unwrap();
        let options = TestRunOptions { data_in: Some(&frame), ..TestRunOptions::new() };
        program.test_run(options).unwrap().return_value != 0
    }
}

fn udp(port: u16) -> Vec<u8> {
    [[0x30, 0x39], port.to_be_bytes(), [0, 12], [0, 0], [1, 2], [3, 4]].concat()
}

fn ipv4(port: u16) -> Vec<u8> {
    let header = [0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    [&OURS.0[..], &[2, 0, 0, 0, 0, 1, 8, 0], &header, &udp(port)].concat()
}

fn ipv6(port: u16) -> Vec<u8> {
    let from = Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).octets();
    let ethernet = [&OURS.0[..], &[2, 0, 0, 0, 0, 1, 0x86, 0xdd]].concat();
    [&ethernet[..], &[0x60, 0, 0, 0, 0, 12, 17, 64], &from, &V6.octets(), &udp(port)].concat()
}

#[test]
fn an_allowance_is_for_the_datagrams_of_its_channel() {
    let Some(mut refuser) = load() else { return };
    let (mut allowance, other) = (refuser.bind(CHANNEL, PORT), refuser.bind(ChannelId(8), PORT + 1));
    allowance.set(Some(3));
    let passed = (0..5).map(|n| refuser.passes(&if n % 2 == 0 { ipv4(PORT) } else { ipv6(PORT) }));
    assert_eq!(passed.collect::<Vec<_>>(), [true, true, true, false, false]);
    assert_eq!((allowance.left(), allowance.refused(), other.refused()), (0, 2, 0));
    assert!(refuser.passes(&ipv4(PORT + 2)) && !refuser.passes(&ipv4(PORT + 1)));
    assert_eq!((other.refused(), refuser.filter.refused()), (1, 3));
    allowance.set(None);
    assert!(refuser.passes(&ipv4(PORT)));
}

/// The host decides where the address or the sender matters.
#[test]
fn a_port_that_channels_share_is_not_refused() {
    let Some(mut refuser) = load() else { return };
    let _allowance = refuser.bind(CHANNEL, PORT);
    let at = |address: IpAddress| Binding::Udp { address: Some(address), port: PORT };
    assert!(!refuser.passes(&ipv4(PORT)));
    refuser.update(Change::Bind(at(V4.into()), ChannelId(8)));
    assert!(refuser.passes(&ipv4(PORT)));
    refuser.update(Change::Unbind(at(V4.into())));
    assert!(!refuser.passes(&ipv4(PORT)));
    // Datagrams to a group are others.
    refuser.update(Change::Bind(at(Ipv4Address::new(224, 0, 0, 9).into()), ChannelId(8)));
    assert!(!refuser.passes(&ipv4(PORT)));
    refuser.update(Change::Connect(CHANNEL, PORT, IpEndpoint::new(V4.into(), 5)));
    assert!(refuser.passes(&ipv4(PORT)));
    refuser.update(Change::Unbind(datagrams_to(PORT)));
    refuser.update(Change::Bind(datagrams_to(PORT), CHANNEL));
    assert!(!refuser.passes(&ipv4(PORT)));
    refuser.update(Change::RemoveAddress(V4.into()));
    assert!(refuser.passes(&ipv4(PORT)) && !refuser.passes(&ipv6(PORT)));
    refuser.close(CHANNEL);
    assert!(refuser.passes(&ipv6(PORT)));
}

/// If nothing has passed for a millisecond, allowed frames may have been lost.
#[test]
fn one_frame_a_millisecond_passes_even_so() {
    let Some(mut refuser) = load() else { return };
    let allowance = refuser.bind(CHANNEL, PORT);
    let slot = refuser.filter.slot(refuser.slots[&CHANNEL]);
    slot.probed_at.store(0, Ordering::Relaxed);
    assert!(refuser.passes(&ipv4(PORT)));
    assert!(slot.probed_at.load(Ordering::Relaxed) > 0);
    slot.probed_at.store(u64::MAX / 2, Ordering::Relaxed);
    assert!(!refuser.passes(&ipv4(PORT)));
    assert_eq!(allowance.refused(), 1);
}

#[test]
fn slots_are_used_again_and_count_anew() {
    let Some(mut refuser) = load() else { return };
    let first = refuser.bind(CHANNEL, PORT);
    assert!(!refuser.passes(&ipv4(PORT)));
    assert_eq!(first.refused(), 1);
    drop(first);
    refuser.update(Change::Unbind(datagrams_to(PORT)));
    refuser.close(CHANNEL);
    let all: Vec<_> = (0..SLOTS as u32).map_while(|n| refuser.open(ChannelId(n))).collect();
    assert_eq!(all.len(), SLOTS);
    assert!(all.iter().all(|allowance| allowance.refused() == 0));
    assert!(refuser.open(ChannelId(5000)).is_none());
    assert_eq!(refuser.filter.refused(), 1);
}

/// Whatever is refused, the host would have put into the channel.
#[test]
fn what_is_refused_leads_to_the_channel() {
    let Some(mut refuser) = load() else { return };
    let _allowance = refuser.bind(CHANNEL, PORT);
    let mut model = DemuxTable::new(1);
    changes().into_iter().for_each(|change| model.apply(change));
    model.apply(Change::Bind(datagrams_to(PORT), CHANNEL));
    let base = prop_oneof![Just(ipv4(PORT)), Just(ipv6(PORT))];
    let frames = (base, vec((0..64_usize, any_byte()), 0..4), 0..80_usize, 0..20_usize);
    let refused = Cell::new(0);
    let check = |(mut frame, changes, len, more): (Vec<u8>, Vec<(usize, u8)>, usize, usize)| {
        for (at, byte) in changes {
            frame.get_mut(at).into_iter().for_each(|place| *place = byte);
        }
        frame.truncate(len.max(14));
        frame.resize(frame.len() + more, 0);
        if !refuser.passes(&frame) {
            refused.set(refused.get() + 1);
            prop_assert_eq!(model.classify(&frame), Class::Channel(CHANNEL));
        }
        Ok(())
    };
    let config = ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new(config).run(&frames, check).unwrap();
    assert!(refused.get() > 500, "{refused:?}");
}

/// Returns bytes of which those with a meaning are frequent.
fn any_byte() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), prop::sample::select(vec![0, 1, 2, 6, 8, 9, 17, 44, 0x45, 0x46, 0x60, 0xff])]
}
