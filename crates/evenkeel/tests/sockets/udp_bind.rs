//! UDP sockets and their addresses.

use std::collections::BTreeSet;
use std::io::ErrorKind::{AddrInUse, AddrNotAvailable, NotConnected};
use std::net::{IpAddr, SocketAddr};

use crate::cases;
use crate::face::{Family, Listener, Side, Sockets, Udp};
use crate::world::{World, fails, settle};

cases![
    port_zero_becomes_a_port,
    sockets_have_different_ports,
    address_is_the_one_bound,
    address_of_another_host_is_not_available,
    port_in_use_is_refused,
    unspecified_address_conflicts_with_a_specific_one,
    specific_address_conflicts_with_the_unspecified_one,
    port_is_free_after_drop,
    port_is_free_after_drop_with_a_queued_datagram,
    port_is_in_use_while_a_clone_is_open,
    port_of_a_listener_is_free,
    port_of_the_other_family_is_free,
    new_socket_does_not_get_old_datagrams,
    socket_on_the_unspecified_address_receives,
    socket_is_not_connected_at_first,
    socket_shows_its_address,
    hundred_sockets_are_bound;
    unspecified_address_of_ipv4_is_none_of_ipv6;
    unspecified_address_of_ipv6_is_one_of_ipv4
];

fn port_zero_becomes_a_port<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    assert_ne!(socket.addr().port(), 0);
    assert_eq!(socket.addr().ip(), world.server().ip());
}

fn sockets_have_different_ports<S: Sockets>(world: &World<S>) {
    let (one, two) = (world.udp(Side::Server), world.udp(Side::Server));
    assert_ne!(one.addr().port(), two.addr().port());
}

/// Returns an address of the server at which no socket is bound.
fn free<S: Sockets>(world: &World<S>) -> SocketAddr {
    world.udp(Side::Server).addr()
}

fn address_is_the_one_bound<S: Sockets>(world: &World<S>) {
    let free = free(world);
    assert_eq!(world.sockets.bind(Side::Server, free).unwrap().addr(), free);
}

fn address_of_another_host_is_not_available<S: Sockets>(world: &World<S>) {
    fails(world.sockets.bind(Side::Server, world.foreign()), AddrNotAvailable);
}

fn port_in_use_is_refused<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    fails(world.sockets.bind(Side::Server, server.addr()), AddrInUse);
    // The first one is as it was.
    client.put(b"x", server.addr());
    assert_eq!(server.get(), (b"x".to_vec(), client.addr()));
}

fn unspecified_address_conflicts_with_a_specific_one<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    let all = SocketAddr::new(world.unspecified().ip(), socket.addr().port());
    fails(world.sockets.bind(Side::Server, all), AddrInUse);
}

fn specific_address_conflicts_with_the_unspecified_one<S: Sockets>(world: &World<S>) {
    let all = world.sockets.bind(Side::Server, world.unspecified()).unwrap();
    let one = SocketAddr::new(world.server().ip(), all.addr().port());
    fails(world.sockets.bind(Side::Server, one), AddrInUse);
}

fn port_is_free_after_drop<S: Sockets>(world: &World<S>) {
    let at = free(world);
    for _ in 0..10 {
        world.sockets.bind(Side::Server, at).unwrap();
    }
}

fn port_is_free_after_drop_with_a_queued_datagram<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let at = server.addr();
    client.put(b"x", at);
    assert_eq!(server.peek_from(&mut [0]).unwrap().0, 1);
    drop(server);
    world.sockets.bind(Side::Server, at).unwrap();
}

fn port_is_in_use_while_a_clone_is_open<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let at = server.addr();
    let clone = server.try_clone().unwrap();
    assert_eq!(clone.addr(), at);
    drop(server);
    fails(world.sockets.bind(Side::Server, at), AddrInUse);
    client.put(b"x", at);
    assert_eq!(clone.get().0, b"x");
    drop(clone);
    world.sockets.bind(Side::Server, at).unwrap();
}

fn port_of_a_listener_is_free<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let server = world.sockets.bind(Side::Server, listener.addr()).unwrap();
    let client = world.udp(Side::Client);
    client.put(b"x", listener.addr());
    assert_eq!(server.get().0, b"x");
}

fn port_of_the_other_family_is_free<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    let other = match world.family {
        Family::V4 => Family::V6,
        Family::V6 => Family::V4,
    };
    let address = world.sockets.address(Side::Server, other);
    world.sockets.bind(Side::Server, SocketAddr::new(address, socket.addr().port())).unwrap();
}

fn new_socket_does_not_get_old_datagrams<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let at = server.addr();
    client.put(b"old", at);
    assert_eq!(server.peek_from(&mut [0; 3]).unwrap().0, 3);
    drop(server);
    let again = world.sockets.bind(Side::Server, at).unwrap();
    client.put(b"new", at);
    assert_eq!(again.get().0, b"new");
}

fn socket_on_the_unspecified_address_receives<S: Sockets>(world: &World<S>) {
    let server = world.sockets.bind(Side::Server, world.unspecified()).unwrap();
    assert!(server.addr().ip().is_unspecified());
    let client = world.udp(Side::Client);
    client.put(b"x", SocketAddr::new(world.server().ip(), server.addr().port()));
    let (datagram, from) = server.get();
    assert_eq!((&datagram[..], from), (&b"x"[..], client.addr()));
    server.put(b"y", from);
    assert_eq!(client.get().1, SocketAddr::new(world.server().ip(), server.addr().port()));
}

fn socket_is_not_connected_at_first<S: Sockets>(world: &World<S>) {
    fails(world.udp(Side::Server).peer_addr(), NotConnected);
}

fn socket_shows_its_address<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    let text = format!("{socket:?}");
    assert!(text.starts_with("UdpSocket"), "{text}");
    assert!(text.contains(&socket.addr().to_string()), "{text}");
}

fn hundred_sockets_are_bound<S: Sockets>(world: &World<S>) {
    let client = world.udp(Side::Client);
    let sockets: Vec<_> = (0..100).map(|_| world.udp(Side::Server)).collect();
    let ports: BTreeSet<_> = sockets.iter().map(|socket| socket.addr().port()).collect();
    assert_eq!(ports.len(), sockets.len());
    for (name, socket) in (0..).zip(&sockets) {
        client.put(&[name], socket.addr());
        assert_eq!(socket.get().0, [name]);
    }
}

/// Sends a datagram over the other family to a socket at the unspecified address. Returns the socket, and the
/// address that the datagram came from.
fn sent_over<S: Sockets>(world: &World<S>, other: Family) -> (S::Udp, IpAddr) {
    let server = world.sockets.bind(Side::Server, world.unspecified()).unwrap();
    let [from, to] = [Side::Client, Side::Server].map(|side| world.sockets.address(side, other));
    let client = world.sockets.bind(Side::Client, SocketAddr::new(from, 0)).unwrap();
    client.put(b"other", SocketAddr::new(to, server.addr().port()));
    (server, from)
}

fn unspecified_address_of_ipv4_is_none_of_ipv6<S: Sockets>(world: &World<S>) {
    let (server, _) = sent_over(world, Family::V6);
    settle();
    world.udp(Side::Client).put(b"same", SocketAddr::new(world.server().ip(), server.addr().port()));
    assert_eq!(server.get().0, b"same");
}

fn unspecified_address_of_ipv6_is_one_of_ipv4<S: Sockets>(world: &World<S>) {
    let (server, from) = sent_over(world, Family::V4);
    let IpAddr::V4(from) = from else { panic!("an address of IPv4") };
    let (datagram, got) = server.get();
    assert_eq!((&datagram[..], got.ip()), (&b"other"[..], from.to_ipv6_mapped().into()));
}
