//! UDP sockets that do not block.

use std::io::ErrorKind::{ConnectionRefused, WouldBlock};

use crate::cases;
use crate::face::{Side, Sockets, Udp};
use crate::world::{LONG, World, both, eventually, fails, settle, unblocked};

cases![
    receive_would_block,
    peek_would_block,
    receive_of_a_connected_socket_would_block,
    receive_gets_a_datagram,
    receive_gets_an_empty_datagram,
    receive_would_block_after_the_last_one,
    receive_gets_a_refusal,
    peek_gets_a_datagram,
    send_does_not_block,
    is_shared_by_clones,
    blocks_again,
    long_time_out_is_not_waited_for,
    both_ends_talk,
    many_sockets_are_polled,
];

fn receive_would_block<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    socket.set_nonblocking(true).unwrap();
    fails(socket.recv_from(&mut [0; 8]), WouldBlock);
    fails(socket.recv(&mut [0; 8]), WouldBlock);
    fails(socket.recv_from(&mut []), WouldBlock);
}

fn peek_would_block<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    socket.set_nonblocking(true).unwrap();
    fails(socket.peek_from(&mut [0; 8]), WouldBlock);
    fails(socket.peek(&mut [0; 8]), WouldBlock);
}

fn receive_of_a_connected_socket_would_block<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.udp_connected();
    client.set_nonblocking(true).unwrap();
    fails(client.recv(&mut [0; 8]), WouldBlock);
    fails(client.peek(&mut [0; 8]), WouldBlock);
}

fn receive_gets_a_datagram<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    server.set_nonblocking(true).unwrap();
    fails(server.recv_from(&mut [0; 8]), WouldBlock);
    client.put(b"data", server.addr());
    assert_eq!(unblocked(|| server.recv_from(&mut [0; 8])).unwrap(), (4, client.addr()));
}

fn receive_gets_an_empty_datagram<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    server.set_nonblocking(true).unwrap();
    client.put(b"", server.addr());
    assert_eq!(unblocked(|| server.recv_from(&mut [0; 8])).unwrap(), (0, client.addr()));
    fails(server.recv_from(&mut [0; 8]), WouldBlock);
}

fn receive_would_block_after_the_last_one<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    server.set_nonblocking(true).unwrap();
    for name in 0..5 {
        client.put(&[name], server.addr());
    }
    for _ in 0..5 {
        unblocked(|| server.recv_from(&mut [0; 8])).unwrap();
    }
    fails(server.recv_from(&mut [0; 8]), WouldBlock);
}

fn receive_gets_a_refusal<S: Sockets>(world: &World<S>) {
    let client = world.udp(Side::Client);
    client.connect(world.udp(Side::Server).addr()).unwrap();
    client.set_nonblocking(true).unwrap();
    client.send(b"x").unwrap();
    fails(unblocked(|| client.recv(&mut [0; 8])), ConnectionRefused);
}

fn peek_gets_a_datagram<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    server.set_nonblocking(true).unwrap();
    client.put(b"data", server.addr());
    assert_eq!(unblocked(|| server.peek_from(&mut [0; 8])).unwrap(), (4, client.addr()));
    assert_eq!(server.recv_from(&mut [0; 8]).unwrap(), (4, client.addr()));
}

fn send_does_not_block<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.set_nonblocking(true).unwrap();
    for turn in 0..50 {
        assert_eq!(unblocked(|| client.send_to(&[turn], server.addr())).unwrap(), 1);
        assert_eq!(server.get().0, [turn]);
    }
}

fn is_shared_by_clones<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    let clone = socket.try_clone().unwrap();
    clone.set_nonblocking(true).unwrap();
    fails(socket.recv_from(&mut [0; 8]), WouldBlock);
}

fn blocks_again<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    server.set_nonblocking(true).unwrap();
    fails(server.recv_from(&mut [0; 8]), WouldBlock);
    server.set_nonblocking(false).unwrap();
    let late = || {
        settle();
        client.put(b"late", server.addr());
    };
    assert_eq!(both(late, || server.get().0).1, b"late");
}

fn long_time_out_is_not_waited_for<S: Sockets>(world: &World<S>) {
    let socket = world.udp(Side::Server);
    // All of it would be longer than a case may take.
    socket.set_read_timeout(Some(4 * LONG)).unwrap();
    socket.set_nonblocking(true).unwrap();
    fails(socket.recv_from(&mut [0; 8]), WouldBlock);
}

fn both_ends_talk<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_connected();
    client.set_nonblocking(true).unwrap();
    server.set_nonblocking(true).unwrap();
    for turn in 0..100 {
        for (from, to) in [(&client, &server), (&server, &client)] {
            assert_eq!(unblocked(|| from.send(&[turn])).unwrap(), 1);
            let mut got = [0];
            assert_eq!(unblocked(|| to.recv(&mut got)).unwrap(), 1);
            assert_eq!(got, [turn]);
        }
    }
}

fn many_sockets_are_polled<S: Sockets>(world: &World<S>) {
    let client = world.udp(Side::Client);
    let servers: Vec<_> = (0..20).map(|_| world.udp(Side::Server)).collect();
    for server in servers.iter().rev() {
        server.set_nonblocking(true).unwrap();
        client.put(b"x", server.addr());
    }
    let mut silent: Vec<_> = servers.iter().collect();
    eventually(|| {
        silent.retain(|server| server.recv(&mut [0]).is_err());
        silent.is_empty().then_some(())
    });
}
