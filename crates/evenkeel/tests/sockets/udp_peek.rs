//! Peeking at a datagram that is to be received.

use crate::cases;
use crate::face::{Side, Sockets, Udp};
use crate::world::{World, both, settle};

cases![
    leaves_the_datagram,
    has_the_sender,
    is_repeated,
    truncates_what_it_shows,
    sees_the_first_of_several,
    sees_an_empty_datagram,
    of_an_empty_buffer_leaves_the_datagram,
    waits_for_a_datagram,
    of_a_connected_socket_leaves_the_datagram,
    of_an_unconnected_socket_without_the_address,
    of_a_clone_leaves_the_datagram,
    sees_the_next_after_a_receive,
];

fn leaves_the_datagram<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"data", server.addr());
    let mut buffer = [0; 8];
    assert_eq!(server.peek_from(&mut buffer).unwrap().0, 4);
    assert_eq!(&buffer[..4], b"data");
    assert_eq!(server.get().0, b"data");
}

fn has_the_sender<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"data", server.addr());
    assert_eq!(server.peek_from(&mut [0; 8]).unwrap(), (4, client.addr()));
    assert_eq!(server.recv_from(&mut [0; 8]).unwrap(), (4, client.addr()));
}

fn is_repeated<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"data", server.addr());
    for _ in 0..5 {
        let mut buffer = [0; 4];
        assert_eq!(server.peek_from(&mut buffer).unwrap().0, 4);
        assert_eq!(&buffer, b"data");
    }
    assert_eq!(server.get().0, b"data");
}

fn truncates_what_it_shows<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"0123456789", server.addr());
    let mut buffer = [0; 4];
    assert_eq!(server.peek_from(&mut buffer).unwrap().0, 4);
    assert_eq!(&buffer, b"0123");
    assert_eq!(server.get().0, b"0123456789");
}

fn sees_the_first_of_several<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"one", server.addr());
    client.put(b"three", server.addr());
    assert_eq!(server.peek_from(&mut [0; 8]).unwrap().0, 3);
    assert_eq!(server.peek_from(&mut [0; 8]).unwrap().0, 3);
    assert_eq!(server.get().0, b"one");
    assert_eq!(server.get().0, b"three");
}

fn sees_an_empty_datagram<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"", server.addr());
    client.put(b"next", server.addr());
    assert_eq!(server.peek_from(&mut [0; 8]).unwrap(), (0, client.addr()));
    assert_eq!(server.get().0, b"");
    assert_eq!(server.peek_from(&mut [0; 8]).unwrap().0, 4);
}

fn of_an_empty_buffer_leaves_the_datagram<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"data", server.addr());
    assert_eq!(server.peek_from(&mut []).unwrap(), (0, client.addr()));
    assert_eq!(server.get().0, b"data");
}

fn waits_for_a_datagram<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let late = || {
        settle();
        client.put(b"late", server.addr());
    };
    assert_eq!(both(late, || server.peek_from(&mut [0; 8]).unwrap().0).1, 4);
    assert_eq!(server.get().0, b"late");
}

fn of_a_connected_socket_leaves_the_datagram<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_connected();
    client.send(b"data").unwrap();
    let mut buffer = [0; 8];
    assert_eq!(server.peek(&mut buffer).unwrap(), 4);
    assert_eq!(server.peek(&mut buffer).unwrap(), 4);
    assert_eq!(&buffer[..4], b"data");
    assert_eq!(server.recv(&mut buffer).unwrap(), 4);
}

fn of_an_unconnected_socket_without_the_address<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"data", server.addr());
    assert_eq!(server.peek(&mut [0; 8]).unwrap(), 4);
    assert_eq!(server.get().0, b"data");
}

fn of_a_clone_leaves_the_datagram<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    client.put(b"data", server.addr());
    assert_eq!(server.try_clone().unwrap().peek_from(&mut [0; 8]).unwrap().0, 4);
    assert_eq!(server.get().0, b"data");
}

fn sees_the_next_after_a_receive<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let other = world.udp(Side::Client);
    client.put(b"one", server.addr());
    assert_eq!(server.peek_from(&mut [0; 8]).unwrap().1, client.addr());
    other.put(b"two", server.addr());
    assert_eq!(server.get().0, b"one");
    assert_eq!(server.peek_from(&mut [0; 8]).unwrap().1, other.addr());
}
