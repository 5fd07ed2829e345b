//! UDP sockets that are connected to a peer.

use std::io::ErrorKind::{ConnectionRefused, NetworkUnreachable, NotConnected, WouldBlock};
use std::net::SocketAddr;

use rustix::io::Errno;

use crate::cases;
use crate::face::{Side, Sockets, Udp};
use crate::world::{World, both, error_of, eventually, fails, kind_of, settle};

cases![
    sends_and_receives,
    peer_is_the_address_connected_to,
    local_address_becomes_specific,
    send_without_a_peer_needs_an_address,
    receives_from_the_peer_only,
    port_of_another_socket_of_the_peer_is_refused,
    datagrams_that_came_before_are_kept,
    connects_to_another_peer,
    sends_to_another_address,
    sends_to_its_peer_by_address,
    receives_with_the_address,
    two_connected_sockets_talk,
    empty_datagram_is_sent,
    short_buffer_truncates,
    closed_port_refuses_a_receiver,
    closed_port_refuses_a_waiting_receiver,
    closed_port_refuses_a_sender,
    closed_port_is_reported_by_take_error,
    closed_port_is_reported_once,
    receives_after_a_refusal,
    refusal_leaves_other_sockets,
    clones_share_the_peer,
    peer_of_a_clone_is_for_all,
    network_without_route_is_unreachable,
    failed_connect_leaves_it_unconnected,
];

fn sends_and_receives<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.connect(server.addr()).unwrap();
    assert_eq!(client.send(b"hello").unwrap(), 5);
    assert_eq!(server.get(), (b"hello".to_vec(), client.addr()));
    server.put(b"answer", client.addr());
    let mut buffer = [0; 8];
    assert_eq!(client.recv(&mut buffer).unwrap(), 6);
    assert_eq!(&buffer[..6], b"answer");
}

fn peer_is_the_address_connected_to<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.connect(server.addr()).unwrap();
    assert_eq!(client.peer_addr().unwrap(), server.addr());
    fails(server.peer_addr(), NotConnected);
}

fn local_address_becomes_specific<S: Sockets>(world: &World<S>) {
    let client = world.sockets.bind(Side::Client, world.unspecified()).unwrap();
    let port = client.addr().port();
    client.connect(world.udp(Side::Server).addr()).unwrap();
    assert_eq!(client.addr(), SocketAddr::new(world.client().ip(), port));
}

fn send_without_a_peer_needs_an_address<S: Sockets>(world: &World<S>) {
    fails(world.udp(Side::Client).send(b"x"), kind_of(Errno::DESTADDRREQ));
}

fn receives_from_the_peer_only<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let other = world.udp(Side::Client);
    server.connect(client.addr()).unwrap();
    other.put(b"stranger", server.addr());
    settle();
    client.put(b"peer", server.addr());
    assert_eq!(server.get(), (b"peer".to_vec(), client.addr()));
    server.set_nonblocking(true).unwrap();
    fails(server.recv(&mut [0; 8]), WouldBlock);
}

fn port_of_another_socket_of_the_peer_is_refused<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    server.connect(client.addr()).unwrap();
    let other = world.udp(Side::Client);
    other.connect(server.addr()).unwrap();
    other.send(b"stranger").unwrap();
    // For the stranger there is no socket at that port.
    fails(other.recv(&mut [0; 8]), ConnectionRefused);
}

fn datagrams_that_came_before_are_kept<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let other = world.udp(Side::Client);
    other.put(b"early", server.addr());
    assert_eq!(server.peek_from(&mut [0; 8]).unwrap().0, 5);
    server.connect(client.addr()).unwrap();
    client.put(b"peer", server.addr());
    assert_eq!(server.get(), (b"early".to_vec(), other.addr()));
    assert_eq!(server.get(), (b"peer".to_vec(), client.addr()));
}

fn connects_to_another_peer<S: Sockets>(world: &World<S>) {
    let (one, server) = world.udp_pair();
    let two = world.udp(Side::Client);
    server.connect(one.addr()).unwrap();
    server.connect(two.addr()).unwrap();
    assert_eq!(server.peer_addr().unwrap(), two.addr());
    one.put(b"one", server.addr());
    settle();
    two.put(b"two", server.addr());
    assert_eq!(server.get(), (b"two".to_vec(), two.addr()));
    server.send(b"answer").unwrap();
    assert_eq!(two.get().0, b"answer");
}

fn sends_to_another_address<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let other = world.udp(Side::Server);
    client.connect(server.addr()).unwrap();
    client.put(b"other", other.addr());
    assert_eq!(other.get(), (b"other".to_vec(), client.addr()));
    client.send(b"peer").unwrap();
    assert_eq!(server.get().0, b"peer");
}

fn sends_to_its_peer_by_address<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_connected();
    client.put(b"x", server.addr());
    assert_eq!(server.get(), (b"x".to_vec(), client.addr()));
}

fn receives_with_the_address<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_connected();
    client.send(b"x").unwrap();
    assert_eq!(server.recv_from(&mut [0; 8]).unwrap(), (1, client.addr()));
}

fn two_connected_sockets_talk<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_connected();
    for turn in 0..100 {
        client.send(&[turn]).unwrap();
        let mut buffer = [0; 2];
        assert_eq!(server.recv(&mut buffer).unwrap(), 1);
        server.send(&buffer[..1]).unwrap();
        assert_eq!(client.recv(&mut buffer).unwrap(), 1);
        assert_eq!(buffer[0], turn);
    }
}

fn empty_datagram_is_sent<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_connected();
    assert_eq!(client.send(b"").unwrap(), 0);
    client.send(b"next").unwrap();
    assert_eq!(server.recv(&mut [0; 8]).unwrap(), 0);
    assert_eq!(server.recv(&mut [0; 8]).unwrap(), 4);
}

fn short_buffer_truncates<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_connected();
    client.send(b"0123456789").unwrap();
    client.send(b"next").unwrap();
    let mut buffer = [0; 4];
    assert_eq!(server.recv(&mut buffer).unwrap(), 4);
    assert_eq!(&buffer, b"0123");
    assert_eq!(server.recv(&mut buffer).unwrap(), 4);
    assert_eq!(&buffer, b"next");
}

/// Returns a socket of the client that is connected to a closed port.
fn to_a_closed_port<S: Sockets>(world: &World<S>) -> S::Udp {
    let client = world.udp(Side::Client);
    client.connect(world.udp(Side::Server).addr()).unwrap();
    client
}

fn closed_port_refuses_a_receiver<S: Sockets>(world: &World<S>) {
    let client = to_a_closed_port(world);
    client.send(b"x").unwrap();
    fails(client.recv(&mut [0; 8]), ConnectionRefused);
}

fn closed_port_refuses_a_waiting_receiver<S: Sockets>(world: &World<S>) {
    let client = to_a_closed_port(world);
    let late = || {
        settle();
        client.send(b"x").unwrap();
    };
    both(late, || fails(client.recv_from(&mut [0; 8]), ConnectionRefused));
}

fn closed_port_refuses_a_sender<S: Sockets>(world: &World<S>) {
    let client = to_a_closed_port(world);
    client.send(b"x").unwrap();
    settle();
    assert_eq!(error_of(|| client.send(b"x")).kind(), ConnectionRefused);
}

fn closed_port_is_reported_by_take_error<S: Sockets>(world: &World<S>) {
    let client = to_a_closed_port(world);
    client.send(b"x").unwrap();
    let error = eventually(|| client.take_error().unwrap());
    assert_eq!(error.kind(), ConnectionRefused);
    assert!(client.take_error().unwrap().is_none());
}

fn closed_port_is_reported_once<S: Sockets>(world: &World<S>) {
    let client = to_a_closed_port(world);
    client.send(b"x").unwrap();
    fails(client.recv(&mut [0; 8]), ConnectionRefused);
    client.set_nonblocking(true).unwrap();
    fails(client.recv(&mut [0; 8]), WouldBlock);
}

fn receives_after_a_refusal<S: Sockets>(world: &World<S>) {
    let client = to_a_closed_port(world);
    client.send(b"x").unwrap();
    fails(client.recv(&mut [0; 8]), ConnectionRefused);
    // The port opens.
    let server = world.sockets.bind(Side::Server, client.peer_addr().unwrap()).unwrap();
    client.send(b"y").unwrap();
    assert_eq!(server.get(), (b"y".to_vec(), client.addr()));
    server.put(b"answer", client.addr());
    assert_eq!(client.recv(&mut [0; 8]).unwrap(), 6);
}

fn refusal_leaves_other_sockets<S: Sockets>(world: &World<S>) {
    let client = to_a_closed_port(world);
    let (other, server) = world.udp_connected();
    client.send(b"x").unwrap();
    fails(client.recv(&mut [0; 8]), ConnectionRefused);
    assert!(other.take_error().unwrap().is_none());
    other.send(b"x").unwrap();
    assert_eq!(server.recv(&mut [0; 8]).unwrap(), 1);
}

fn clones_share_the_peer<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_connected();
    let clone = client.try_clone().unwrap();
    assert_eq!(clone.peer_addr().unwrap(), server.addr());
    drop(client);
    clone.send(b"x").unwrap();
    assert_eq!(server.recv(&mut [0; 8]).unwrap(), 1);
}

fn peer_of_a_clone_is_for_all<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.try_clone().unwrap().connect(server.addr()).unwrap();
    assert_eq!(client.peer_addr().unwrap(), server.addr());
    client.send(b"x").unwrap();
    assert_eq!(server.get().0, b"x");
}

fn network_without_route_is_unreachable<S: Sockets>(world: &World<S>) {
    let client = world.sockets.bind(Side::Client, world.unspecified()).unwrap();
    fails(client.connect(world.foreign()), NetworkUnreachable);
}

fn failed_connect_leaves_it_unconnected<S: Sockets>(world: &World<S>) {
    let client = world.sockets.bind(Side::Client, world.unspecified()).unwrap();
    fails(client.connect(world.foreign()), NetworkUnreachable);
    fails(client.peer_addr(), NotConnected);
    let server = world.udp(Side::Server);
    client.put(b"x", server.addr());
    assert_eq!(server.get().0, b"x");
}
