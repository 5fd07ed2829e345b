//! Connections as a listener accepts them, one after the other.

use std::collections::BTreeSet;
use std::io::ErrorKind::{ConnectionReset, WouldBlock};
use std::net::{Shutdown, SocketAddr};
use std::sync::Barrier;
use std::thread;

use crate::cases;
use crate::face::{Listener, Side, Sockets, Stream};
use crate::world::{LONG, World, both, fails, settle, unblocked};

cases![
    returns_the_address_of_the_peer,
    waits_for_a_connection,
    order_is_that_of_connecting,
    incoming_yields_each_connection,
    incoming_is_an_accept_each_time,
    incoming_has_errors_and_goes_on,
    listener_on_the_unspecified_address_accepts,
    local_address_is_the_one_connected_to,
    options_begin_with_their_defaults,
    data_may_come_before_it,
    connection_may_be_closed_before_it,
    connection_may_be_half_closed_before_it,
    hundred_connections_wait_for_it,
    threads_share_a_listener,
    threads_share_a_clone,
    clone_accepts_after_the_original_is_dropped,
    accepts_while_connections_are_open,
    connections_outlive_their_listener,
    dropped_listener_resets_queued_connections,
    clients_that_wait_for_each_other_are_served,
    clients_are_served_in_the_other_order,
    listeners_accept_their_own_connections,
    accepted_in_one_thread_is_served_in_another,
];

fn returns_the_address_of_the_peer<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let client = world.dial(&listener);
    let (server, from) = listener.accept().unwrap();
    assert_eq!(from, client.local_addr().unwrap());
    assert_eq!(from, server.peer_addr().unwrap());
}

fn waits_for_a_connection<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let late = || {
        settle();
        world.dial(&listener)
    };
    let (client, server) = both(late, || listener.next());
    assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
}

fn order_is_that_of_connecting<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let clients: Vec<_> = (0..20).map(|_| world.dial(&listener)).collect();
    for client in &clients {
        assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
    }
}

fn incoming_yields_each_connection<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let clients: Vec<_> = (0..5).map(|_| world.dial(&listener)).collect();
    for (client, server) in clients.iter().zip(listener.incoming()) {
        assert_eq!(server.unwrap().peer_addr().unwrap(), client.local_addr().unwrap());
    }
}

fn incoming_is_an_accept_each_time<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let clients: Vec<_> = (0..3).map(|_| world.dial(&listener)).collect();
    let incoming = || listener.incoming().next().unwrap().unwrap();
    for (turn, client) in clients.iter().enumerate() {
        let server = if turn == 1 { listener.next() } else { incoming() };
        assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
    }
}

fn incoming_has_errors_and_goes_on<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    listener.set_nonblocking(true).unwrap();
    let mut incoming = listener.incoming();
    fails(incoming.next().unwrap(), WouldBlock);
    fails(incoming.next().unwrap(), WouldBlock);
    let client = world.dial(&listener);
    let server = unblocked(|| incoming.next().unwrap()).unwrap();
    assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
}

fn listener_on_the_unspecified_address_accepts<S: Sockets>(world: &World<S>) {
    let listener = world.sockets.listen(Side::Server, world.unspecified()).unwrap();
    assert!(listener.addr().ip().is_unspecified());
    let client = world.dial(&listener);
    assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
}

fn local_address_is_the_one_connected_to<S: Sockets>(world: &World<S>) {
    let listener = world.sockets.listen(Side::Server, world.unspecified()).unwrap();
    let _client = world.dial(&listener);
    let expected = SocketAddr::new(world.server().ip(), listener.addr().port());
    assert_eq!(listener.next().local_addr().unwrap(), expected);
}

fn options_begin_with_their_defaults<S: Sockets>(world: &World<S>) {
    let (_client, server) = world.pair();
    assert!(!server.nodelay().unwrap());
    assert_eq!(server.read_timeout().unwrap(), None);
    assert_eq!(server.write_timeout().unwrap(), None);
    assert!(server.take_error().unwrap().is_none());
}

fn data_may_come_before_it<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let clients: Vec<_> = (0..5).map(|_| world.dial(&listener)).collect();
    for (name, client) in (0..).zip(&clients) {
        client.put(&[name; 1_000]);
    }
    for name in 0..5 {
        assert_eq!(listener.next().get(1_000), [name; 1_000]);
    }
}

fn connection_may_be_closed_before_it<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let client = world.dial(&listener);
    let from = client.local_addr().unwrap();
    client.put(b"last words");
    drop(client);
    let (server, peer) = listener.accept().unwrap();
    assert_eq!(peer, from);
    assert_eq!(server.get_all(), b"last words");
}

fn connection_may_be_half_closed_before_it<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let client = world.dial(&listener);
    client.put(b"question");
    client.shutdown(Shutdown::Write).unwrap();
    let server = listener.next();
    assert_eq!(server.get_all(), b"question");
    server.put(b"answer");
    drop(server);
    assert_eq!(client.get_all(), b"answer");
}

fn hundred_connections_wait_for_it<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let clients: Vec<_> = (0..100).map(|_| world.dial(&listener)).collect();
    let expected: BTreeSet<_> = clients.iter().map(|client| client.local_addr().unwrap()).collect();
    let peers: BTreeSet<_> = (0..100).map(|_| listener.accept().unwrap().1).collect();
    assert_eq!(peers, expected);
}

fn threads_share_a_listener<S: Sockets>(world: &World<S>) {
    let listener = &world.listener();
    let mut peers = BTreeSet::new();
    let clients: Vec<_> = thread::scope(|scope| {
        let accept = || -> Vec<_> { (0..5).map(|_| listener.accept().unwrap().1).collect() };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(accept)).collect();
        settle();
        let clients = (0..20).map(|_| world.dial(listener)).collect();
        peers.extend(threads.into_iter().flat_map(|thread| thread.join().unwrap()));
        clients
    });
    // Each connection is accepted once.
    let expected: BTreeSet<_> = clients.iter().map(|client| client.local_addr().unwrap()).collect();
    assert_eq!(peers, expected);
}

fn threads_share_a_clone<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let clone = listener.try_clone().unwrap();
    let (one, two) = both(
        || listener.accept().unwrap().1,
        || {
            settle();
            let clients = [world.dial(&clone), world.dial(&clone)];
            (clone.accept().unwrap().1, clients.map(|client| client.local_addr().unwrap()))
        },
    );
    let (two, clients) = two;
    assert_eq!(BTreeSet::from([one, two]), BTreeSet::from(clients));
}

fn clone_accepts_after_the_original_is_dropped<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let queued = world.dial(&listener);
    let clone = listener.try_clone().unwrap();
    drop(listener);
    assert_eq!(clone.accept().unwrap().1, queued.local_addr().unwrap());
    let late = world.dial(&clone);
    assert_eq!(clone.accept().unwrap().1, late.local_addr().unwrap());
}

fn accepts_while_connections_are_open<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let pairs: Vec<_> = (0..30).map(|_| (world.dial(&listener), listener.next())).collect();
    for (name, (client, server)) in (0..).zip(&pairs) {
        client.put(&[name]);
        server.put(&[name + 100]);
    }
    for (name, (client, server)) in (0..).zip(&pairs) {
        assert_eq!(server.get(1), [name]);
        assert_eq!(client.get(1), [name + 100]);
    }
}

fn connections_outlive_their_listener<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let client = world.dial(&listener);
    let server = listener.next();
    drop(listener);
    client.put(b"ping");
    assert_eq!(server.get(4), b"ping");
    server.put(b"pong");
    assert_eq!(client.get(4), b"pong");
}

fn dropped_listener_resets_queued_connections<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let client = world.dial(&listener);
    drop(listener);
    fails(client.recv(&mut [0]), ConnectionReset);
}

fn clients_that_wait_for_each_other_are_served<S: Sockets>(world: &World<S>) {
    serve_interleaved(world, true);
}

fn clients_are_served_in_the_other_order<S: Sockets>(world: &World<S>) {
    serve_interleaved(world, false);
}

/// Serves clients, each in a thread that begins once the one before is connected. They write in the order in
/// which they connected, or in the other one.
fn serve_interleaved<S: Sockets>(world: &World<S>, in_order: bool) {
    const CLIENTS: usize = 10;
    let listener = world.listener();
    let clients: Vec<_> = (0..CLIENTS).map(|_| world.dial(&listener)).collect();
    let connected = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let server = listener.next();
            scope.spawn(move || server.put(&server.get(1)));
        }
        scope.spawn(|| {
            connected.wait();
            let mut order: Vec<_> = (0..CLIENTS).collect();
            if !in_order {
                order.reverse();
            }
            for client in order {
                clients[client].put(&[client as u8]);
                assert_eq!(clients[client].get(1), [client as u8]);
            }
        });
        connected.wait();
    });
}

fn listeners_accept_their_own_connections<S: Sockets>(world: &World<S>) {
    let listeners = [world.listener(), world.listener(), world.listener()];
    let clients = [2, 0, 1].map(|place| (place, world.dial(&listeners[place])));
    for (place, client) in clients {
        assert_eq!(listeners[place].accept().unwrap().1, client.local_addr().unwrap());
    }
}

fn accepted_in_one_thread_is_served_in_another<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let client = world.dial(&listener);
    client.set_read_timeout(Some(LONG)).unwrap();
    let server = both(|| (), || listener.next()).1;
    both(|| (), move || server.put(b"moved"));
    assert_eq!(client.get_all(), b"moved");
}
