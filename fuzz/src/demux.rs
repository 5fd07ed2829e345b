//! The demultiplexing function: it never panics, is pure, returns the same for a copy of the table, and finds
//! the bound channel.

use evenkeel_core::channel::ChannelId;
use evenkeel_core::demux::{Binding, Change, Class, DemuxTable, steering_hash};
use evenkeel_core::wire::IpAddress;

use super::Script;
use super::frames::{HOST_MAC, Made, PORTS, TO_V4, TO_V6, frame, noise};

const CONTROL: ChannelId = ChannelId(1001);
const NEIGHBOR: ChannelId = ChannelId(1002);
const FRAGMENT: ChannelId = ChannelId(1003);

/// The most changes of the table; frames follow.
const CHANGES_MAX: u8 = 16;

pub fn run(input: &[u8]) {
    let mut script = Script(input);
    let mut table = table(&mut script);
    // The table is seldom rebuilt, because that takes longer than all the rest.
    let mut copy = if script.byte() % 8 == 7 { rebuilt(&table) } else { table.clone() };
    while !script.is_over() {
        let made =
            if script.flag() { frame(&mut script) } else { Made { bytes: noise(&mut script), udp: None } };
        let class = table.classify(&made.bytes);
        assert_eq!(class, table.classify(&made.bytes), "the same twice");
        assert_eq!(class, copy.classify(&made.bytes), "the same for a copy");
        assert_eq!(steering_hash(&made.bytes), steering_hash(&made.bytes));
        if let Some((address, port)) = made.udp {
            let bound = table.udp(&address, port).unwrap_or(CONTROL);
            let local = table.addresses().any(|a| a == address);
            assert_eq!(class == Class::Channel(bound), local, "{address}:{port} is {class:?}");
        }
        if let Class::FirstFragment(channel, key) = class {
            table.record_fragment(key, channel);
            copy.record_fragment(key, channel);
        }
    }
}

/// Returns the table of an adaptor that was given the contents of this one.
fn rebuilt(table: &DemuxTable) -> DemuxTable {
    let mut copy = DemuxTable::new(1);
    copy.apply(Change::Hardware(HOST_MAC));
    table.contents().into_iter().for_each(|change| copy.apply(change));
    copy
}

fn table(script: &mut Script<'_>) -> DemuxTable {
    let mut table = DemuxTable::new(1);
    table.apply(Change::Hardware(HOST_MAC));
    table.apply(Change::Bind(Binding::Control, CONTROL));
    table.apply(Change::Bind(Binding::Neighbor, NEIGHBOR));
    table.apply(Change::Bind(Binding::Fragment, FRAGMENT));
    for id in 0..script.byte() % CHANGES_MAX {
        let change = change(script, ChannelId(id.into()));
        table.apply(change);
    }
    table
}

fn change(script: &mut Script<'_>, channel: ChannelId) -> Change {
    let what = script.byte();
    let address: IpAddress =
        if what & 8 == 0 { script.pick(&TO_V4).into() } else { script.pick(&TO_V6).into() };
    let binding = Binding::Udp { address: (what & 16 != 0).then_some(address), port: script.pick(&PORTS) };
    match what % 4 {
        0 => Change::Bind(binding, channel),
        1 => Change::AddAddress(address),
        2 => Change::Unbind(binding),
        _ => Change::RemoveAddress(address),
    }
}
