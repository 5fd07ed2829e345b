//! Datagrams between sockets that are not connected.

use std::collections::BTreeMap;
use std::io::ErrorKind::{InvalidInput, NetworkUnreachable};
use std::net::{Ipv6Addr, SocketAddr};
use std::thread;

use rustix::io::Errno;

use crate::cases;
use crate::face::{Family, Side, Sockets, Udp};
use crate::world::{World, assert_same, both, fails, kind_of, pattern, settle};

cases![
    datagram_arrives_with_its_sender,
    receiver_waits_for_a_datagram,
    answer_goes_to_the_sender,
    datagrams_keep_their_boundaries,
    datagrams_keep_their_order,
    datagrams_of_many_lengths_arrive,
    short_buffer_truncates,
    rest_of_a_truncated_datagram_is_lost,
    long_buffer_is_not_filled,
    empty_datagram_arrives,
    empty_datagrams_are_counted,
    empty_buffer_takes_a_datagram,
    longest_datagram_arrives,
    longer_datagram_is_refused,
    socket_sends_after_a_refused_datagram,
    several_senders_are_told_apart,
    several_receivers_get_their_own,
    datagrams_cross,
    datagrams_outlive_their_sender,
    unconnected_socket_receives_without_the_address,
    closed_port_is_not_reported,
    port_zero_is_invalid,
    network_without_route_is_unreachable,
    pings_and_pongs,
    socket_sends_before_it_receives,
    unspecified_socket_sends_from_the_host;
    address_of_the_other_family_is_refused;
];

fn datagram_arrives_with_its_sender<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"hello", server.addr());
    let mut buffer = [0; 16];
    assert_eq!(server.recv_from(&mut buffer).unwrap(), (5, client.addr()));
    assert_eq!(&buffer[..5], b"hello");
}

fn receiver_waits_for_a_datagram<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let late = || {
        settle();
        client.put(b"late", server.addr());
    };
    assert_eq!(both(late, || server.get().0).1, b"late");
}

fn answer_goes_to_the_sender<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"question", server.addr());
    let from = server.get().1;
    server.put(b"answer", from);
    assert_eq!(client.get(), (b"answer".to_vec(), server.addr()));
}

fn datagrams_keep_their_boundaries<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    for datagram in [&b"one"[..], b"three", b"2"] {
        client.put(datagram, server.addr());
    }
    assert_eq!(server.get().0, b"one");
    assert_eq!(server.get().0, b"three");
    assert_eq!(server.get().0, b"2");
}

fn datagrams_keep_their_order<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    for name in 0..20 {
        client.put(&[name], server.addr());
    }
    for name in 0..20 {
        assert_eq!(server.get().0, [name]);
    }
}

fn datagrams_of_many_lengths_arrive<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    for len in (0..4_000).step_by(97).chain(1_440..1_490) {
        let datagram = pattern(len);
        client.put(&datagram, server.addr());
        assert_same(&server.get().0, &datagram);
    }
}

fn short_buffer_truncates<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"0123456789", server.addr());
    let mut buffer = [0; 4];
    assert_eq!(server.recv_from(&mut buffer).unwrap(), (4, client.addr()));
    assert_eq!(&buffer, b"0123");
}

fn rest_of_a_truncated_datagram_is_lost<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"0123456789", server.addr());
    client.put(b"next", server.addr());
    assert_eq!(server.recv_from(&mut [0; 4]).unwrap().0, 4);
    assert_eq!(server.get().0, b"next");
}

fn long_buffer_is_not_filled<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"one", server.addr());
    client.put(b"two", server.addr());
    let mut buffer = [b'-'; 8];
    assert_eq!(server.recv_from(&mut buffer).unwrap().0, 3);
    assert_eq!(&buffer, b"one-----");
}

fn empty_datagram_arrives<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"", server.addr());
    assert_eq!(server.recv_from(&mut [0; 8]).unwrap(), (0, client.addr()));
}

fn empty_datagrams_are_counted<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    for datagram in [&b""[..], b"", b"end"] {
        client.put(datagram, server.addr());
    }
    assert_eq!(server.get().0, b"");
    assert_eq!(server.get().0, b"");
    assert_eq!(server.get().0, b"end");
}

fn empty_buffer_takes_a_datagram<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"taken", server.addr());
    client.put(b"next", server.addr());
    assert_eq!(server.recv_from(&mut []).unwrap(), (0, client.addr()));
    assert_eq!(server.get().0, b"next");
}

/// Returns the number of bytes in the longest datagram without jumbograms.
fn longest<S: Sockets>(world: &World<S>) -> usize {
    match world.family {
        Family::V4 => 65_535 - 20 - 8,
        Family::V6 => 65_535 - 8,
    }
}

fn longest_datagram_arrives<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let datagram = pattern(longest(world));
    client.put(&datagram, server.addr());
    assert_same(&server.get().0, &datagram);
}

fn longer_datagram_is_refused<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let datagram = pattern(longest(world) + 1);
    fails(client.send_to(&datagram, server.addr()), kind_of(Errno::MSGSIZE));
}

fn socket_sends_after_a_refused_datagram<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.send_to(&pattern(70_000), server.addr()).unwrap_err();
    client.put(b"short", server.addr());
    assert_eq!(server.get().0, b"short");
}

fn several_senders_are_told_apart<S: Sockets>(world: &World<S>) {
    let server = world.udp(Side::Server);
    let clients: Vec<_> = (0..8).map(|_| world.udp(Side::Client)).collect();
    for (name, client) in (0..).zip(&clients) {
        client.put(&[name], server.addr());
    }
    let mut names = BTreeMap::new();
    for _ in &clients {
        let (datagram, from) = server.get();
        names.insert(datagram[0], from);
    }
    let expected: BTreeMap<_, _> = (0..).zip(clients.iter().map(Udp::addr)).collect();
    assert_eq!(names, expected);
}

fn several_receivers_get_their_own<S: Sockets>(world: &World<S>) {
    let client = world.udp(Side::Client);
    let servers: Vec<_> = (0..8).map(|_| world.udp(Side::Server)).collect();
    for (name, server) in (0..).zip(&servers) {
        client.put(&[name], server.addr());
    }
    for (name, server) in (0..8).zip(&servers).rev() {
        assert_eq!(server.get(), (vec![name], client.addr()));
    }
}

fn datagrams_cross<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"forth", server.addr());
    server.put(b"back", client.addr());
    assert_eq!(client.get(), (b"back".to_vec(), server.addr()));
    assert_eq!(server.get(), (b"forth".to_vec(), client.addr()));
}

fn datagrams_outlive_their_sender<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let from = client.addr();
    client.put(b"last", server.addr());
    drop(client);
    assert_eq!(server.get(), (b"last".to_vec(), from));
}

fn unconnected_socket_receives_without_the_address<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"hello", server.addr());
    let mut buffer = [0; 8];
    assert_eq!(server.recv(&mut buffer).unwrap(), 5);
    assert_eq!(&buffer[..5], b"hello");
}

fn closed_port_is_not_reported<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let closed = world.udp(Side::Server).addr();
    client.put(b"lost", closed);
    settle();
    client.put(b"found", server.addr());
    assert_eq!(server.get().0, b"found");
    server.put(b"answer", client.addr());
    assert_eq!(client.get().0, b"answer");
    assert!(client.take_error().unwrap().is_none());
}

fn port_zero_is_invalid<S: Sockets>(world: &World<S>) {
    fails(world.udp(Side::Client).send_to(b"x", world.server()), InvalidInput);
}

fn network_without_route_is_unreachable<S: Sockets>(world: &World<S>) {
    let client = world.sockets.bind(Side::Client, world.unspecified()).unwrap();
    fails(client.send_to(b"x", world.foreign()), NetworkUnreachable);
}

fn pings_and_pongs<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..200 {
                let (datagram, from) = server.get();
                server.put(&datagram, from);
            }
        });
        for turn in 0..200 {
            client.put(&[turn], server.addr());
            assert_eq!(client.get().0, [turn]);
        }
    });
}

fn socket_sends_before_it_receives<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    for turn in 0..10 {
        client.put(&[turn], server.addr());
        server.put(&[turn], client.addr());
    }
    for turn in 0..10 {
        assert_eq!(client.get().0, [turn]);
        assert_eq!(server.get().0, [turn]);
    }
}

fn unspecified_socket_sends_from_the_host<S: Sockets>(world: &World<S>) {
    let client = world.sockets.bind(Side::Client, world.unspecified()).unwrap();
    let server = world.udp(Side::Server);
    client.put(b"x", server.addr());
    assert_eq!(server.get().1, SocketAddr::new(world.client().ip(), client.addr().port()));
    // It is still bound to all addresses.
    assert!(client.addr().ip().is_unspecified());
}

fn address_of_the_other_family_is_refused<S: Sockets>(world: &World<S>) {
    let client = world.udp(Side::Client);
    fails(client.send_to(b"x", (Ipv6Addr::LOCALHOST, 9).into()), kind_of(Errno::AFNOSUPPORT));
}
