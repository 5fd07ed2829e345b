//! Time-outs of UDP sockets.

use std::io::ErrorKind::{InvalidInput, WouldBlock};
use std::time::Duration;

use crate::cases;
use crate::face::{Side, Sockets, Udp};
use crate::world::{LONG, SHORT, World, both, elapses, fails, settle};

cases![
    there_are_none_at_first,
    are_read_back,
    are_independent,
    are_cleared,
    of_zero_are_invalid,
    of_zero_leave_what_was_set,
    shortest_elapses,
    longest_is_accepted,
    elapsed_receive_would_block,
    elapsed_peek_would_block,
    elapsed_receive_of_a_connected_socket_would_block,
    elapse_again_and_again,
    elapsed_one_leaves_the_socket,
    datagram_in_time_is_received,
    datagrams_of_others_do_not_end_the_wait,
    are_shared_by_clones,
    cleared_one_does_not_elapse,
];

fn there_are_none_at_first<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    assert_eq!(socket.read_timeout().unwrap(), None);
    assert_eq!(socket.write_timeout().unwrap(), None);
}

fn are_read_back<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.set_write_timeout(Some(2 * LONG)).unwrap();
    assert_eq!(socket.read_timeout().unwrap(), Some(LONG));
    assert_eq!(socket.write_timeout().unwrap(), Some(2 * LONG));
}

fn are_independent<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    socket.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(socket.write_timeout().unwrap(), None);
    socket.set_write_timeout(Some(LONG)).unwrap();
    socket.set_read_timeout(None).unwrap();
    assert_eq!(socket.write_timeout().unwrap(), Some(LONG));
}

fn are_cleared<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.set_write_timeout(Some(LONG)).unwrap();
    socket.set_read_timeout(None).unwrap();
    socket.set_write_timeout(None).unwrap();
    assert_eq!(socket.read_timeout().unwrap(), None);
    assert_eq!(socket.write_timeout().unwrap(), None);
}

fn of_zero_are_invalid<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    fails(socket.set_read_timeout(Some(Duration::ZERO)), InvalidInput);
    fails(socket.set_write_timeout(Some(Duration::ZERO)), InvalidInput);
}

fn of_zero_leave_what_was_set<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    socket.set_read_timeout(Some(LONG)).unwrap();
    fails(socket.set_read_timeout(Some(Duration::ZERO)), InvalidInput);
    assert_eq!(socket.read_timeout().unwrap(), Some(LONG));
}

fn shortest_elapses<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    socket.set_read_timeout(Some(Duration::from_nanos(1))).unwrap();
    assert!(socket.read_timeout().unwrap().is_some());
    fails(socket.recv_from(&mut [0; 8]), WouldBlock);
}

fn longest_is_accepted<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    server.set_read_timeout(Some(Duration::MAX)).unwrap();
    let late = || {
        settle();
        client.put(b"late", server.addr());
    };
    assert_eq!(both(late, || server.get().0).1, b"late");
}

fn elapsed_receive_would_block<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    socket.set_read_timeout(Some(SHORT)).unwrap();
    elapses(|| socket.recv_from(&mut [0; 8]));
    elapses(|| socket.recv(&mut [0; 8]));
}

fn elapsed_peek_would_block<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    socket.set_read_timeout(Some(SHORT)).unwrap();
    elapses(|| socket.peek_from(&mut [0; 8]));
    elapses(|| socket.peek(&mut [0; 8]));
}

fn elapsed_receive_of_a_connected_socket_would_block<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.udp_connected();
    client.set_read_timeout(Some(SHORT)).unwrap();
    elapses(|| client.recv(&mut [0; 8]));
}

fn elapse_again_and_again<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    socket.set_read_timeout(Some(SHORT)).unwrap();
    for _ in 0..3 {
        elapses(|| socket.recv_from(&mut [0; 8]));
    }
}

fn elapsed_one_leaves_the_socket<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    server.set_read_timeout(Some(SHORT)).unwrap();
    elapses(|| server.recv_from(&mut [0; 8]));
    client.put(b"late", server.addr());
    server.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(server.get().0, b"late");
}

fn datagram_in_time_is_received<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    server.set_read_timeout(Some(LONG)).unwrap();
    let late = || {
        settle();
        client.put(b"in time", server.addr());
    };
    assert_eq!(both(late, || server.get().0).1, b"in time");
}

fn datagrams_of_others_do_not_end_the_wait<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let other = world.udp(Side::Client);
    server.connect(client.addr()).unwrap();
    server.set_read_timeout(Some(SHORT)).unwrap();
    let disturb = || {
        for _ in 0..5 {
            other.put(b"stranger", server.addr());
            settle();
        }
    };
    both(disturb, || elapses(|| server.recv(&mut [0; 8])));
}

fn are_shared_by_clones<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    let clone = socket.try_clone().unwrap();
    clone.set_read_timeout(Some(SHORT)).unwrap();
    assert!(socket.read_timeout().unwrap().is_some());
    elapses(|| socket.recv_from(&mut [0; 8]));
}

fn cleared_one_does_not_elapse<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    server.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    server.set_read_timeout(None).unwrap();
    let late = || {
        settle();
        client.put(b"late", server.addr());
    };
    assert_eq!(both(late, || server.get().0).1, b"late");
}
