//! Generated tables and frames, some of them broken.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;

/// A step in the life of a table.
#[derive(Debug, Clone, Copy)]
enum Step {
    Change(Change),
    Open(ChannelId, u32),
    Close(ChannelId),
}

const PORTS: [u16; 4] = [0, 7, 9, 10];

fn hosts_v4() -> Vec<Ipv4Address> {
    let others = ["224.0.0.9", "224.0.0.10", "0.0.0.0", "255.255.255.255"];
    [1, 2, 2, 3, 3, 4].map(v4).into_iter().chain(others.map(|other| other.parse().unwrap())).collect()
}

/// Returns addresses, of which one is mapped.
fn hosts_v6() -> Vec<Ipv6Address> {
    let others = ["ff02::99", "ff02::98", "::", "::ffff:10.0.0.2"];
    [1, 2, 2, 3, 3, 4].map(v6).into_iter().chain(others.map(|other| other.parse().unwrap())).collect()
}

fn host() -> impl Strategy<Value = IpAddress> {
    prop_oneof![select(hosts_v4()).prop_map(IpAddress::from), select(hosts_v6()).prop_map(IpAddress::from),]
}

fn port() -> impl Strategy<Value = u16> {
    select(&PORTS[..])
}

fn hardware() -> impl Strategy<Value = EthernetAddress> {
    prop_oneof![
        8 => Just(OURS),
        1 => Just(STRANGER),
        1 => Just(ALL_NODES),
        1 => Just(EthernetAddress::BROADCAST),
    ]
}

fn channel() -> impl Strategy<Value = ChannelId> {
    (1..8_u32).prop_map(ChannelId)
}

/// Generates ends of a connection that frames may have: from one host, to one of two of our addresses.
fn tuple() -> impl Strategy<Value = FourTuple> {
    let four = (select(vec![v4(2), v4(3)]), port(), Just(v4(1)), port());
    let six = (select(vec![v6(2), v6(3)]), port(), Just(v6(1)), port());
    prop_oneof![
        four.prop_map(|(to, at, from, of)| FourTuple::new((to, at), (from, of))),
        six.prop_map(|(to, at, from, of)| FourTuple::new((to, at), (from, of))),
    ]
}

fn binding() -> impl Strategy<Value = Binding> {
    let address = || option::of(host());
    let special = vec![Binding::Neighbor, Binding::Control, Binding::PathMtu, Binding::Fragment];
    prop_oneof![
        4 => (address(), port()).prop_map(|(address, port)| Binding::Udp { address, port }),
        4 => (address(), port(), any::<bool>())
            .prop_map(|(address, port, opens)| Binding::Tcp { address, port, opens }),
        6 => tuple().prop_map(Binding::Connection),
        2 => select(special),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let peer = || (host(), port()).prop_map(|(address, port)| IpEndpoint::new(address, port));
    prop_oneof![
        12 => (binding(), channel()).prop_map(|(binding, channel)| Change::Bind(binding, channel)),
        3 => binding().prop_map(Change::Unbind),
        2 => (channel(), port(), peer()).prop_map(|(channel, at, peer)| Change::Connect(channel, at, peer)),
        4 => host().prop_map(Change::AddAddress),
        1 => host().prop_map(Change::RemoveAddress),
        1 => Just(Change::Bind(Binding::Forward, FORWARD)),
        1 => Just(Change::Unbind(Binding::Forward)),
        1 => Just(Change::Hardware(STRANGER)),
        1 => Just(Change::NoHardware(STRANGER)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => change().prop_map(Step::Change),
        2 => (channel(), 1..SLOTS).prop_map(|(channel, slot)| Step::Open(channel, slot)),
        1 => channel().prop_map(Step::Close),
    ]
}

/// Generates what is behind the headers of IP, with its protocol.
fn transport() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let kinds = select(vec![0, 2, 3, 8, 132, 133, 137, 138]);
    let whole = prop_oneof![
        3 => (port(), port()).prop_map(|(from, to)| (17, udp(from, to))),
        3 => (port(), port(), any::<u8>()).prop_map(|(from, to, flags)| (6, tcp(from, to, flags))),
        2 => (select(vec![1, 58]), kinds, 3..6_u8).prop_map(|(of, kind, code)| (of, vec![kind, code, 0, 0])),
        1 => (select(vec![0, 1, 2, 6, 17, 43, 44, 51, 58, 59, 60]), vec(any::<u8>(), 0..16)),
    ];
    let whole = prop_oneof![6 => whole, 1 => error()];
    (whole, option::weighted(0.2, 0..16_usize)).prop_map(|((of, mut payload), len)| {
        payload.truncate(len.unwrap_or(payload.len()));
        (of, payload)
    })
}

/// Generates ICMP errors that quote a packet.
fn error() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let four = (select(hosts_v4()), select(hosts_v4()));
    let six = (select(hosts_v6()), select(hosts_v6()));
    let head = (select(vec![1, 2, 3, 8, 11, 12, 128]), 3..6_u8);
    let sent = (select(vec![6, 17, 17, 1]), port(), port());
    (any::<bool>(), four, six, head, sent).prop_map(|(is_four, four, six, (kind, code), (of, from, to))| {
        let transport = if of == 6 { tcp(from, to, 2) } else { udp(from, to) };
        let quoted = if is_four {
            ipv4(four.0, four.1, of, 0, 0, &transport)
        } else {
            ipv6(six.0, six.1, of, &transport)
        };
        (if is_four { 1 } else { 58 }, [&[kind, code, 0, 0, 0, 0, 0, 0], &quoted[14..]].concat())
    })
}

fn over_ipv4() -> impl Strategy<Value = Vec<u8>> {
    let hosts = (select(hosts_v4()), select(hosts_v4()));
    let field = select(vec![0, 0, 0, 0x4000, 0x2000, 0x2000, 1, 0x2001, 0x1fff]);
    (hosts, transport(), 0..2_u16, field, 0..3_u8).prop_map(
        |((from, to), (of, payload), id, field, units)| {
            let with_options = [vec![1; usize::from(units) * 4], payload].concat();
            let mut frame = ipv4(from, to, of, id, field, &with_options);
            frame[14] += units;
            frame
        },
    )
}

/// Generates the kind of an extension header, the length of it, and the field of a fragment's.
fn header() -> impl Strategy<Value = (u8, u8, u16)> {
    let kinds = prop_oneof![9 => select(vec![0, 43, 60]), 1 => Just(44)];
    let units = prop_oneof![20 => 0..3_u8, 1 => Just(80)];
    (kinds, units, select(vec![0, 1, 6, 8, 9, 0xfff8]))
}

fn over_ipv6() -> impl Strategy<Value = Vec<u8>> {
    let hosts = (select(hosts_v6()), select(hosts_v6()));
    let headers = prop_oneof![4 => vec(header(), 0..3), 1 => vec(header(), 14..21)];
    (hosts, transport(), headers, 0..2_u32).prop_map(|((from, to), transport, headers, id)| {
        let in_front = |(next, rest): (u8, Vec<u8>), (kind, units, field)| match kind {
            44 => (kind, fragment_header(next, field, id, &rest)),
            // The kernel takes no frame that is longer than a page.
            _ if rest.len() > 2500 => (next, rest),
            _ => (kind, extension(next, units, &rest)),
        };
        let (next, payload) = headers.into_iter().fold(transport, in_front);
        ipv6(from, to, next, &payload)
    })
}

fn over_ethernet() -> impl Strategy<Value = Vec<u8>> {
    let other = (any::<u16>(), vec(any::<u8>(), 0..30)).prop_map(|(kind, bytes)| ethernet(kind, &bytes));
    prop_oneof![
        6 => over_ipv4(),
        6 => over_ipv6(),
        1 => select(hosts_v4()).prop_map(arp),
        1 => other,
    ]
}

/// Generates a frame: some are padded, some are cut off, and some have bytes changed.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let changed = option::weighted(0.3, vec((any::<Index>(), any::<u8>()), 1..3));
    let cut = option::weighted(0.1, any::<Index>());
    (over_ethernet(), hardware(), changed, cut, 0..8_usize).prop_map(
        |(mut frame, to, changed, cut, padding)| {
            frame.resize(frame.len() + padding, 0xee);
            frame[..6].copy_from_slice(&to.0);
            // Most of what matters is in front.
            let reach = frame.len().min(80);
            changed.into_iter().flatten().for_each(|(at, byte)| frame[at.index(reach)] = byte);
            // The kernel runs no program on less than a header of Ethernet.
            let len = cut.map_or(frame.len(), |cut| 14 + cut.index(frame.len() - 13));
            frame.truncate(len);
            frame
        },
    )
}

/// Returns changes that give most generated frames a destination.
fn basis() -> impl Iterator<Item = Change> {
    let addresses: [IpAddress; 4] = [v4(2).into(), v4(3).into(), v6(2).into(), v6(3).into()];
    [Change::Hardware(OURS)].into_iter().chain(addresses.map(Change::AddAddress))
}

#[test]
fn generated_frames_are_classified_as_the_model_does() {
    let Some(pair) = Pair::load(Sharing::Nothing) else { return };
    let pair = RefCell::new(pair);
    // Slots of their own, the shared slot, passed, dropped.
    let seen = [const { Cell::new(0) }; 4];
    let sharing = select(vec![Sharing::Nothing, Sharing::Mac, Sharing::Addresses]);
    let cases = (sharing, vec(step(), 0..60), vec(frame(), 1..60));
    let config = Config { cases: 400, failure_persistence: None, ..Config::default() };
    let compared = TestRunner::new(config).run(&cases, |(sharing, steps, frames)| {
        let pair = &mut *pair.borrow_mut();
        pair.clear(sharing);
        basis().for_each(|change| pair.apply(change));
        pair.open(FORWARD, 50);
        for step in steps {
            match step {
                Step::Change(change) => pair.apply(change),
                Step::Open(channel, slot) => pair.open(channel, slot),
                Step::Close(channel) => pair.close(channel),
            }
        }
        for frame in frames {
            let kind = match pair.decide(&frame) {
                Decision::Slot(0) => 1,
                Decision::Slot(_) => 0,
                Decision::Pass => 2,
                Decision::Drop(_) => 3,
            };
            seen[kind].set(seen[kind].get() + 1);
        }
        Ok(())
    });
    compared.unwrap();
    let seen = seen.map(Cell::into_inner);
    assert!(seen.iter().all(|count| *count > 500), "{seen:?}");
}
