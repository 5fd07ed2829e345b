//! Options of connections and listeners, and their names.

use std::io::ErrorKind::InvalidInput;

use crate::cases;
use crate::face::{Listener, Sockets, Stream};
use crate::world::{World, assert_same, both, fails, pattern};

cases![
    nodelay_is_off_at_first,
    nodelay_is_read_back,
    nodelay_is_shared_by_clones,
    nodelay_is_of_one_connection,
    nodelay_may_change_during_a_transfer,
    ttl_is_64_at_first,
    ttl_is_read_back,
    ttl_is_shared_by_clones,
    ttl_of_zero_is_invalid,
    ttl_beyond_a_byte_is_invalid,
    ttl_of_a_listener_is_read_back,
    ttl_of_a_listener_is_inherited,
    no_error_is_pending_at_first,
    no_error_is_pending_on_a_listener,
    clone_has_the_addresses,
    stream_shows_its_addresses,
    listener_shows_its_address,
];

fn nodelay_is_off_at_first<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    assert!(!client.nodelay().unwrap());
    assert!(!server.nodelay().unwrap());
}

fn nodelay_is_read_back<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.set_nodelay(true).unwrap();
    assert!(client.nodelay().unwrap());
    client.set_nodelay(false).unwrap();
    assert!(!client.nodelay().unwrap());
}

fn nodelay_is_shared_by_clones<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    let clone = client.try_clone().unwrap();
    client.set_nodelay(true).unwrap();
    assert!(clone.nodelay().unwrap());
}

fn nodelay_is_of_one_connection<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let (other, _) = world.pair();
    client.set_nodelay(true).unwrap();
    assert!(!server.nodelay().unwrap());
    assert!(!other.nodelay().unwrap());
}

fn nodelay_may_change_during_a_transfer<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let bytes = pattern(20_000);
    let write = || {
        for (turn, part) in bytes.chunks(100).enumerate() {
            client.set_nodelay(turn % 2 == 0).unwrap();
            client.put(part);
        }
    };
    let got = both(write, || server.get(bytes.len())).1;
    assert_same(&got, &bytes);
}

fn ttl_is_64_at_first<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    assert_eq!(client.ttl().unwrap(), 64);
    assert_eq!(server.ttl().unwrap(), 64);
}

fn ttl_is_read_back<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    for ttl in [1, 100, 255] {
        client.set_ttl(ttl).unwrap();
        assert_eq!(client.ttl().unwrap(), ttl);
    }
    client.put(b"x");
    assert_eq!(server.get(1), b"x");
}

fn ttl_is_shared_by_clones<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    let clone = client.try_clone().unwrap();
    clone.set_ttl(99).unwrap();
    assert_eq!(client.ttl().unwrap(), 99);
}

fn ttl_of_zero_is_invalid<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    fails(client.set_ttl(0), InvalidInput);
    assert_eq!(client.ttl().unwrap(), 64);
}

fn ttl_beyond_a_byte_is_invalid<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    fails(client.set_ttl(256), InvalidInput);
    assert_eq!(client.ttl().unwrap(), 64);
}

fn ttl_of_a_listener_is_read_back<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    assert_eq!(listener.ttl().unwrap(), 64);
    listener.set_ttl(100).unwrap();
    assert_eq!(listener.ttl().unwrap(), 100);
    fails(listener.set_ttl(0), InvalidInput);
    assert_eq!(listener.try_clone().unwrap().ttl().unwrap(), 100);
}

fn ttl_of_a_listener_is_inherited<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    listener.set_ttl(100).unwrap();
    let client = world.dial(&listener);
    assert_eq!(listener.next().ttl().unwrap(), 100);
    assert_eq!(client.ttl().unwrap(), 64);
}

fn no_error_is_pending_at_first<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    assert!(client.take_error().unwrap().is_none());
    assert!(server.take_error().unwrap().is_none());
    client.put(b"x");
    drop(client);
    assert_eq!(server.get_all(), b"x");
    assert!(server.take_error().unwrap().is_none());
}

fn no_error_is_pending_on_a_listener<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    assert!(listener.take_error().unwrap().is_none());
    let _client = world.dial(&listener);
    assert!(listener.take_error().unwrap().is_none());
}

fn clone_has_the_addresses<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    let clone = client.try_clone().unwrap();
    assert_eq!(clone.local_addr().unwrap(), client.local_addr().unwrap());
    assert_eq!(clone.peer_addr().unwrap(), client.peer_addr().unwrap());
}

fn stream_shows_its_addresses<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    let text = format!("{client:?}");
    assert!(text.starts_with("TcpStream"), "{text}");
    assert!(text.contains(&client.local_addr().unwrap().to_string()), "{text}");
    assert!(text.contains(&client.peer_addr().unwrap().to_string()), "{text}");
}

fn listener_shows_its_address<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let text = format!("{listener:?}");
    assert!(text.starts_with("TcpListener"), "{text}");
    assert!(text.contains(&listener.addr().to_string()), "{text}");
}
