//! Connections that are reset, because an end is dropped that has not read all.

use std::io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
use std::net::Shutdown;

use crate::cases;
use crate::face::{Listener, Sockets, Stream};
use crate::world::{World, assert_same, both, error_of, eventually, fails, pattern, settle};

cases![
    drop_with_unread_data_resets,
    reset_is_reported_once,
    reset_is_reported_to_a_writer,
    reset_is_reported_to_one_of_two_clones,
    reset_is_reported_by_take_error,
    reset_is_peeked,
    write_after_a_reset_is_a_broken_pipe,
    shutdown_after_a_reset_is_not_connected,
    peer_after_a_reset_is_not_connected,
    local_address_remains_after_a_reset,
    data_before_a_reset_is_read,
    reset_wakes_a_reader,
    reset_wakes_a_writer,
    drop_after_reading_all_does_not_reset,
    drop_of_one_clone_with_unread_data_does_not_reset,
    half_closed_connection_is_reset,
    reset_of_one_connection_leaves_others,
    reset_leaves_the_listener,
    resets_again_and_again,
];

/// Returns the client's end of a connection whose server is gone with unread data.
fn reset<S: Sockets>(world: &World<S>) -> S::Stream {
    let (client, server) = world.pair();
    client.put(b"unread");
    assert_eq!(server.peek(&mut [0; 6]).unwrap(), 6);
    drop(server);
    client
}

fn drop_with_unread_data_resets<S: Sockets>(world: &World<S>) {
    fails(reset(world).recv(&mut [0; 8]), ConnectionReset);
}

fn reset_is_reported_once<S: Sockets>(world: &World<S>) {
    let client = reset(world);
    fails(client.recv(&mut [0; 8]), ConnectionReset);
    assert_eq!(client.recv(&mut [0; 8]).unwrap(), 0);
    assert_eq!(client.recv(&mut [0; 8]).unwrap(), 0);
}

fn reset_is_reported_to_a_writer<S: Sockets>(world: &World<S>) {
    let client = reset(world);
    settle();
    assert_eq!(error_of(|| client.send(b"x")).kind(), ConnectionReset);
    assert_eq!(error_of(|| client.send(b"x")).kind(), BrokenPipe);
}

fn reset_is_reported_to_one_of_two_clones<S: Sockets>(world: &World<S>) {
    let client = reset(world);
    let clone = client.try_clone().unwrap();
    fails(clone.recv(&mut [0; 8]), ConnectionReset);
    assert_eq!(client.recv(&mut [0; 8]).unwrap(), 0);
}

fn reset_is_reported_by_take_error<S: Sockets>(world: &World<S>) {
    let client = reset(world);
    let error = eventually(|| client.take_error().unwrap());
    assert_eq!(error.kind(), ConnectionReset);
    assert!(client.take_error().unwrap().is_none());
    assert_eq!(client.recv(&mut [0; 8]).unwrap(), 0);
}

fn reset_is_peeked<S: Sockets>(world: &World<S>) {
    fails(reset(world).peek(&mut [0; 8]), ConnectionReset);
}

fn write_after_a_reset_is_a_broken_pipe<S: Sockets>(world: &World<S>) {
    let client = reset(world);
    fails(client.recv(&mut [0; 8]), ConnectionReset);
    fails(client.send(b"x"), BrokenPipe);
    fails(client.send(b"x"), BrokenPipe);
}

fn shutdown_after_a_reset_is_not_connected<S: Sockets>(world: &World<S>) {
    let client = reset(world);
    fails(client.recv(&mut [0; 8]), ConnectionReset);
    fails(client.shutdown(Shutdown::Write), NotConnected);
    fails(client.shutdown(Shutdown::Both), NotConnected);
}

fn peer_after_a_reset_is_not_connected<S: Sockets>(world: &World<S>) {
    let client = reset(world);
    fails(client.recv(&mut [0; 8]), ConnectionReset);
    fails(client.peer_addr(), NotConnected);
}

fn local_address_remains_after_a_reset<S: Sockets>(world: &World<S>) {
    let client = reset(world);
    let here = client.local_addr().unwrap();
    fails(client.recv(&mut [0; 8]), ConnectionReset);
    assert_eq!(client.local_addr().unwrap(), here);
}

fn data_before_a_reset_is_read<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"unread");
    assert_eq!(server.peek(&mut [0; 6]).unwrap(), 6);
    server.put(b"answer");
    assert_eq!(client.peek(&mut [0; 6]).unwrap(), 6);
    drop(server);
    settle();
    assert_eq!(client.get(6), b"answer");
    fails(client.recv(&mut [0; 8]), ConnectionReset);
}

fn reset_wakes_a_reader<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"unread");
    assert_eq!(server.peek(&mut [0; 6]).unwrap(), 6);
    let late = || {
        settle();
        drop(server);
    };
    both(late, || fails(client.recv(&mut [0; 8]), ConnectionReset));
}

fn reset_wakes_a_writer<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let bytes = pattern(1 << 16);
    let late = || {
        settle();
        drop(server);
    };
    let error = both(late, || error_of(|| client.send(&bytes))).1;
    assert_eq!(error.kind(), ConnectionReset);
}

fn drop_after_reading_all_does_not_reset<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"read");
    assert_eq!(server.get(4), b"read");
    drop(server);
    assert_eq!(client.get_all(), b"");
}

fn drop_of_one_clone_with_unread_data_does_not_reset<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"unread");
    assert_eq!(server.peek(&mut [0; 6]).unwrap(), 6);
    let clone = server.try_clone().unwrap();
    drop(server);
    assert_eq!(clone.get(6), b"unread");
    clone.put(b"open");
    assert_eq!(client.get(4), b"open");
}

fn half_closed_connection_is_reset<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"unread");
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.peek(&mut [0; 6]).unwrap(), 6);
    drop(server);
    fails(client.recv(&mut [0; 8]), ConnectionReset);
}

fn reset_of_one_connection_leaves_others<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let gone = reset(world);
    fails(gone.recv(&mut [0; 8]), ConnectionReset);
    let bytes = pattern(100_000);
    let got = both(|| client.put(&bytes), || server.get(bytes.len())).1;
    assert_same(&got, &bytes);
}

fn reset_leaves_the_listener<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let client = world.dial(&listener);
    client.put(b"unread");
    let server = listener.next();
    assert_eq!(server.peek(&mut [0; 6]).unwrap(), 6);
    drop(server);
    fails(client.recv(&mut [0; 8]), ConnectionReset);
    let next = world.dial(&listener);
    assert_eq!(listener.accept().unwrap().1, next.local_addr().unwrap());
}

fn resets_again_and_again<S: Sockets>(world: &World<S>) {
    for _ in 0..50 {
        fails(reset(world).recv(&mut [0; 8]), ConnectionReset);
    }
}
