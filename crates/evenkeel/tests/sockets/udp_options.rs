//! Options of UDP sockets.

use std::io::ErrorKind::InvalidInput;

use crate::cases;
use crate::face::{Side, Sockets, Udp};
use crate::world::{World, fails};

cases![
    ttl_is_64_at_first,
    ttl_is_read_back,
    ttl_is_shared_by_clones,
    ttl_of_zero_is_invalid,
    ttl_beyond_a_byte_is_invalid,
    broadcast_is_off_at_first,
    broadcast_is_read_back,
    broadcast_is_shared_by_clones,
    no_error_is_pending_at_first,
];

fn ttl_is_64_at_first<S: Sockets>(world: &World<S>) {
    assert_eq!(world.udp(Side::Server).ttl().unwrap(), 64);
}

fn ttl_is_read_back<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    for ttl in [1, 100, 255] {
        client.set_ttl(ttl).unwrap();
        assert_eq!(client.ttl().unwrap(), ttl);
        client.put(b"x", server.addr());
        assert_eq!(server.get().0, b"x");
    }
    assert_eq!(server.ttl().unwrap(), 64);
}

fn ttl_is_shared_by_clones<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    socket.try_clone().unwrap().set_ttl(99).unwrap();
    assert_eq!(socket.ttl().unwrap(), 99);
}

fn ttl_of_zero_is_invalid<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    fails(socket.set_ttl(0), InvalidInput);
    assert_eq!(socket.ttl().unwrap(), 64);
}

fn ttl_beyond_a_byte_is_invalid<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    fails(socket.set_ttl(256), InvalidInput);
    assert_eq!(socket.ttl().unwrap(), 64);
}

fn broadcast_is_off_at_first<S: Sockets>(world: &World<S>) {
    assert!(!world.udp(Side::Server).broadcast().unwrap());
}

fn broadcast_is_read_back<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    socket.set_broadcast(true).unwrap();
    assert!(socket.broadcast().unwrap());
    socket.set_broadcast(false).unwrap();
    assert!(!socket.broadcast().unwrap());
}

fn broadcast_is_shared_by_clones<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    socket.try_clone().unwrap().set_broadcast(true).unwrap();
    assert!(socket.broadcast().unwrap());
}

fn no_error_is_pending_at_first<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"x", server.addr());
    assert_eq!(server.get().0, b"x");
    assert!(client.take_error().unwrap().is_none());
    assert!(server.take_error().unwrap().is_none());
}
