//! Connections as a client opens them, and refusals.

use std::collections::BTreeSet;
use std::io::ErrorKind::{ConnectionRefused, InvalidInput, NetworkUnreachable, TimedOut};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::cases;
use crate::face::{Listener, Side, Sockets, Stream};
use crate::world::{LONG, SHORT, World, fails};

cases![
    connects_before_it_is_accepted,
    addresses_of_both_ends_are_mirrored,
    peer_is_the_address_connected_to,
    connections_have_different_local_ports,
    clients_connect_in_both_directions,
    closed_port_refuses,
    closed_port_refuses_each_time,
    port_zero_refuses,
    dropped_listener_refuses,
    listener_on_another_address_refuses,
    connects_after_a_refusal,
    network_without_route_is_unreachable,
    group_is_unreachable,
    list_without_addresses_is_invalid,
    first_open_address_of_a_list_is_taken,
    list_of_closed_addresses_has_the_last_error,
    time_out_of_zero_is_invalid,
    time_out_that_does_not_elapse_connects,
    time_out_to_a_closed_port_refuses,
    time_out_elapses_where_nothing_answers,
    time_out_of_connecting_is_not_one_of_reading,
    connects_again_and_again,
    connects_from_many_threads,
];

fn connects_before_it_is_accepted<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let client = world.dial(&listener);
    client.put(b"early");
    assert_eq!(listener.next().get(5), b"early");
}

fn addresses_of_both_ends_are_mirrored<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    assert_eq!(client.local_addr().unwrap(), server.peer_addr().unwrap());
    assert_eq!(client.peer_addr().unwrap(), server.local_addr().unwrap());
}

fn peer_is_the_address_connected_to<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let client = world.dial(&listener);
    assert_eq!(client.peer_addr().unwrap(), listener.addr());
    assert_eq!(client.local_addr().unwrap().ip(), world.client().ip());
    assert_ne!(client.local_addr().unwrap().port(), 0);
}

fn connections_have_different_local_ports<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let clients: Vec<_> = (0..20).map(|_| world.dial(&listener)).collect();
    let ports: BTreeSet<_> = clients.iter().map(|client| client.local_addr().unwrap().port()).collect();
    assert_eq!(ports.len(), clients.len());
}

fn clients_connect_in_both_directions<S: Sockets>(world: &World<S>) {
    let (there, here) = (world.listener(), world.sockets.listen(Side::Client, world.client()).unwrap());
    let forth = world.dial(&there);
    let back = world.sockets.connect(Side::Server, &[here.addr()]).unwrap();
    forth.put(b"forth");
    back.put(b"back");
    assert_eq!(there.next().get(5), b"forth");
    assert_eq!(here.next().get(4), b"back");
}

fn closed_port_refuses<S: Sockets>(world: &World<S>) {
    fails(world.connect(world.closed()), ConnectionRefused);
}

fn closed_port_refuses_each_time<S: Sockets>(world: &World<S>) {
    let closed = world.closed();
    for _ in 0..10 {
        fails(world.connect(closed), ConnectionRefused);
    }
}

fn port_zero_refuses<S: Sockets>(world: &World<S>) {
    fails(world.connect(world.server()), ConnectionRefused);
}

fn dropped_listener_refuses<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let at = listener.addr();
    let client = world.dial(&listener);
    let _server = listener.next();
    drop(listener);
    fails(world.connect(at), ConnectionRefused);
    assert_eq!(client.peer_addr().unwrap(), at);
}

fn listener_on_another_address_refuses<S: Sockets>(world: &World<S>) {
    // A port of the client's host is closed on the server's, unless both are one host.
    let closed = world.closed();
    let other = SocketAddr::new(world.client().ip(), closed.port());
    fails(world.sockets.connect(Side::Server, &[other]), ConnectionRefused);
}

fn connects_after_a_refusal<S: Sockets>(world: &World<S>) {
    let at = world.closed();
    fails(world.connect(at), ConnectionRefused);
    let listener = world.sockets.listen(Side::Server, at).unwrap();
    world.connect(at).unwrap().put(b"open");
    assert_eq!(listener.next().get(4), b"open");
}

fn network_without_route_is_unreachable<S: Sockets>(world: &World<S>) {
    fails(world.connect(world.foreign()), NetworkUnreachable);
}

fn group_is_unreachable<S: Sockets>(world: &World<S>) {
    fails(world.connect(SocketAddr::new(world.group(), 9)), NetworkUnreachable);
}

fn list_without_addresses_is_invalid<S: Sockets>(world: &World<S>) {
    fails(world.sockets.connect(Side::Client, &[]), InvalidInput);
}

fn first_open_address_of_a_list_is_taken<S: Sockets>(world: &World<S>) {
    let (closed, one, two) = (world.closed(), world.listener(), world.listener());
    let list = [closed, one.addr(), two.addr()];
    let client = world.sockets.connect(Side::Client, &list).unwrap();
    assert_eq!(client.peer_addr().unwrap(), one.addr());
}

fn list_of_closed_addresses_has_the_last_error<S: Sockets>(world: &World<S>) {
    let list = [world.foreign(), world.closed()];
    fails(world.sockets.connect(Side::Client, &list), ConnectionRefused);
    let list = [world.closed(), world.foreign()];
    fails(world.sockets.connect(Side::Client, &list), NetworkUnreachable);
}

fn time_out_of_zero_is_invalid<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let zero = world.sockets.connect_timeout(Side::Client, &listener.addr(), Duration::ZERO);
    fails(zero, InvalidInput);
}

fn time_out_that_does_not_elapse_connects<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let client = world.sockets.connect_timeout(Side::Client, &listener.addr(), LONG).unwrap();
    let server = listener.next();
    client.put(b"ping");
    assert_eq!(server.get(4), b"ping");
    server.put(b"pong");
    assert_eq!(client.get(4), b"pong");
}

fn time_out_to_a_closed_port_refuses<S: Sockets>(world: &World<S>) {
    fails(world.sockets.connect_timeout(Side::Client, &world.closed(), LONG), ConnectionRefused);
}

#[expect(clippy::disallowed_methods, reason = "the kernel measures time-outs by this clock")]
fn time_out_elapses_where_nothing_answers<S: Sockets>(world: &World<S>) {
    let silent = SocketAddr::new(world.sockets.silent(world.family), 9);
    let began = Instant::now();
    fails(world.sockets.connect_timeout(Side::Client, &silent, SHORT), TimedOut);
    assert!(began.elapsed() >= SHORT, "{:?}", began.elapsed());
}

fn time_out_of_connecting_is_not_one_of_reading<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let client = world.sockets.connect_timeout(Side::Client, &listener.addr(), LONG).unwrap();
    assert_eq!(client.read_timeout().unwrap(), None);
    assert_eq!(client.write_timeout().unwrap(), None);
}

fn connects_again_and_again<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    for turn in 0..100_u8 {
        let client = world.dial(&listener);
        let server = listener.next();
        client.put(&[turn]);
        assert_eq!(server.get(1), [turn]);
    }
}

fn connects_from_many_threads<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    thread::scope(|scope| {
        for name in 0..20 {
            let listener = &listener;
            scope.spawn(move || world.dial(listener).put(&[name]));
        }
        let names: BTreeSet<_> = (0..20).map(|_| listener.next().get(1)[0]).collect();
        assert_eq!(names, (0..20).collect());
    });
}
