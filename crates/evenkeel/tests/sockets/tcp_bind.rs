//! Listeners and their addresses.

use std::io::ErrorKind::{AddrInUse, AddrNotAvailable, ConnectionRefused};
use std::net::{IpAddr, SocketAddr};

use crate::cases;
use crate::face::{Family, Listener, Side, Sockets, Stream, Udp};
use crate::world::{World, both, fails, settle};

cases![
    port_zero_becomes_a_port,
    listeners_have_different_ports,
    address_is_the_one_bound,
    address_of_another_host_is_not_available,
    port_in_use_is_refused,
    unspecified_address_conflicts_with_a_specific_one,
    specific_address_conflicts_with_the_unspecified_one,
    port_is_free_after_drop,
    port_is_free_after_drop_with_a_queued_connection,
    port_is_free_while_an_accepted_connection_is_open,
    port_is_free_after_the_server_closed_first,
    port_is_in_use_while_a_clone_is_open,
    port_is_free_after_the_last_clone,
    port_is_in_use_while_a_clone_waits,
    port_of_a_udp_socket_is_free,
    port_of_the_other_family_is_free,
    port_of_a_connection_is_in_use,
    hundred_listeners_are_bound;
    unspecified_address_of_ipv4_is_none_of_ipv6;
    unspecified_address_of_ipv6_is_one_of_ipv4
];

fn port_zero_becomes_a_port<S: Sockets>(world: &World<S>) {
    assert_ne!(world.listener().addr().port(), 0);
}

fn listeners_have_different_ports<S: Sockets>(world: &World<S>) {
    let (one, two) = (world.listener(), world.listener());
    assert_ne!(one.addr().port(), two.addr().port());
}

fn address_is_the_one_bound<S: Sockets>(world: &World<S>) {
    let free = world.closed();
    assert_eq!(world.sockets.listen(Side::Server, free).unwrap().addr(), free);
}

fn address_of_another_host_is_not_available<S: Sockets>(world: &World<S>) {
    fails(world.sockets.listen(Side::Server, world.foreign()), AddrNotAvailable);
}

fn port_in_use_is_refused<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    fails(world.sockets.listen(Side::Server, listener.addr()), AddrInUse);
    // The first one is as it was.
    world.dial(&listener);
}

fn unspecified_address_conflicts_with_a_specific_one<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let all = SocketAddr::new(world.unspecified().ip(), listener.addr().port());
    fails(world.sockets.listen(Side::Server, all), AddrInUse);
}

fn specific_address_conflicts_with_the_unspecified_one<S: Sockets>(world: &World<S>) {
    let all = world.sockets.listen(Side::Server, world.unspecified()).unwrap();
    let one = SocketAddr::new(world.server().ip(), all.addr().port());
    fails(world.sockets.listen(Side::Server, one), AddrInUse);
}

fn port_is_free_after_drop<S: Sockets>(world: &World<S>) {
    let mut at = world.server();
    for _ in 0..10 {
        let listener = world.sockets.listen(Side::Server, at).unwrap();
        at = listener.addr();
        world.dial(&listener);
    }
}

fn port_is_free_after_drop_with_a_queued_connection<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let at = listener.addr();
    let _queued = world.dial(&listener);
    drop(listener);
    let again = world.sockets.listen(Side::Server, at).unwrap();
    let client = world.dial(&again);
    assert_eq!(again.next().peer_addr().unwrap(), client.local_addr().unwrap());
}

fn port_is_free_while_an_accepted_connection_is_open<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let client = world.dial(&listener);
    let server = listener.next();
    let at = listener.addr();
    drop(listener);
    let again = world.sockets.listen(Side::Server, at).unwrap();
    client.put(b"old");
    assert_eq!(server.get(3), b"old");
    world.dial(&again).put(b"new");
    assert_eq!(again.next().get(3), b"new");
}

fn port_is_free_after_the_server_closed_first<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let client = world.dial(&listener);
    drop(listener.next());
    assert_eq!(client.get_all(), b"");
    drop(client);
    let at = listener.addr();
    drop(listener);
    let again = world.sockets.listen(Side::Server, at).unwrap();
    world.dial(&again).put(b"new");
    assert_eq!(again.next().get(3), b"new");
}

fn port_is_in_use_while_a_clone_is_open<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let clone = listener.try_clone().unwrap();
    assert_eq!(clone.addr(), listener.addr());
    drop(listener);
    fails(world.sockets.listen(Side::Server, clone.addr()), AddrInUse);
    let client = world.dial(&clone);
    assert_eq!(clone.next().peer_addr().unwrap(), client.local_addr().unwrap());
}

fn port_is_free_after_the_last_clone<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let at = listener.addr();
    let clone = listener.try_clone().unwrap();
    drop(listener);
    drop(clone);
    world.sockets.listen(Side::Server, at).unwrap();
}

fn port_is_in_use_while_a_clone_waits<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let at = listener.addr();
    let clone = listener.try_clone().unwrap();
    let attempt = || {
        settle();
        drop(listener);
        fails(world.sockets.listen(Side::Server, at), AddrInUse);
        world.connect(at).unwrap()
    };
    let (client, server) = both(attempt, || clone.next());
    assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
}

fn port_of_a_udp_socket_is_free<S: Sockets>(world: &World<S>) {
    let udp = world.udp(Side::Server);
    let listener = world.sockets.listen(Side::Server, udp.addr()).unwrap();
    world.dial(&listener);
}

fn port_of_the_other_family_is_free<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let other = match world.family {
        Family::V4 => Family::V6,
        Family::V6 => Family::V4,
    };
    let at = SocketAddr::new(world.sockets.address(Side::Server, other), listener.addr().port());
    let second = world.sockets.listen(Side::Server, at).unwrap();
    let client = world.connect(at).unwrap();
    assert_eq!(second.next().peer_addr().unwrap(), client.local_addr().unwrap());
}

fn port_of_a_connection_is_in_use<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    fails(world.sockets.listen(Side::Client, client.local_addr().unwrap()), AddrInUse);
}

fn hundred_listeners_are_bound<S: Sockets>(world: &World<S>) {
    let listeners: Vec<_> = (0..100).map(|_| world.listener()).collect();
    let clients: Vec<_> = listeners.iter().map(|listener| world.dial(listener)).collect();
    for (listener, client) in listeners.iter().zip(clients) {
        assert_eq!(listener.next().peer_addr().unwrap(), client.local_addr().unwrap());
    }
}

/// Listens at the unspecified address. Returns the listener, and the server's address of the other family.
fn listener_of_all<S: Sockets>(world: &World<S>, other: Family) -> (S::Listener, SocketAddr) {
    let listener = world.sockets.listen(Side::Server, world.unspecified()).unwrap();
    let to = SocketAddr::new(world.sockets.address(Side::Server, other), listener.addr().port());
    (listener, to)
}

fn unspecified_address_of_ipv4_is_none_of_ipv6<S: Sockets>(world: &World<S>) {
    let (_listener, to) = listener_of_all(world, Family::V6);
    fails(world.connect(to), ConnectionRefused);
}

fn unspecified_address_of_ipv6_is_one_of_ipv4<S: Sockets>(world: &World<S>) {
    let (listener, to) = listener_of_all(world, Family::V4);
    let client = world.connect(to).unwrap();
    let IpAddr::V4(from) = client.local_addr().unwrap().ip() else { panic!("an address of IPv4") };
    assert_eq!(listener.accept().unwrap().1.ip(), from.to_ipv6_mapped());
}
