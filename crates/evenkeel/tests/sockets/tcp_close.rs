//! Closing: shutdowns, drops and half-closed connections, in all orders.

use std::io::ErrorKind::{BrokenPipe, NotConnected, WouldBlock};
use std::net::Shutdown::{Both, Read, Write};

use crate::cases;
use crate::face::{Listener, Sockets, Stream};
use crate::world::{World, assert_same, both, error_of, fails, pattern, settle};

cases![
    drop_ends_the_peers_reading,
    drop_of_the_server_ends_the_clients_reading,
    shutdown_of_writing_ends_the_peers_reading,
    shutdown_of_writing_lets_read,
    shutdown_of_reading_lets_write,
    shutdown_of_reading_ends_reading,
    shutdown_of_reading_keeps_what_has_arrived,
    shutdown_of_reading_is_not_seen_by_the_peer,
    shutdown_of_both_ends_both,
    shutdown_of_both_ends_the_peers_reading,
    shutdown_of_writing_may_be_repeated,
    shutdown_of_reading_may_be_repeated,
    shutdowns_of_both_directions_add_up,
    shutdown_after_both_ends_closed_is_not_connected,
    shutdown_by_a_clone_is_for_all,
    write_after_shutdown_is_a_broken_pipe,
    empty_write_after_shutdown_is_a_broken_pipe,
    request_and_end_are_answered_each_time,
    request_and_end_that_were_queued_are_answered_each_time,
    request_and_end_are_answered_with_much,
    end_before_the_request_is_seen,
    server_ends_first,
    both_end_at_once,
    both_drop_at_once,
    both_drop_at_once_after_data,
    half_closed_connection_stays_open,
    half_closed_connection_takes_much,
    peer_that_ended_is_still_named,
    write_after_the_peer_has_gone_is_a_broken_pipe,
    write_after_the_peer_shut_down_both_is_a_broken_pipe,
    write_fails_again_after_the_peer_has_gone,
    first_clone_dropped_leaves_the_connection,
    last_clone_dropped_closes,
    clones_dropped_in_the_other_order_close,
    clone_dropped_after_a_shutdown_leaves_reading,
    clone_of_a_clone_keeps_the_connection,
    listener_dropped_before_its_connections_leaves_them,
    hosts_may_go_before_their_sockets,
    empty_connections_close_again_and_again,
];

fn drop_ends_the_peers_reading<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"bye");
    drop(client);
    assert_eq!(server.get_all(), b"bye");
}

fn drop_of_the_server_ends_the_clients_reading<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    server.put(b"bye");
    drop(server);
    assert_eq!(client.get_all(), b"bye");
}

fn shutdown_of_writing_ends_the_peers_reading<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"bye");
    client.shutdown(Write).unwrap();
    assert_eq!(server.get_all(), b"bye");
}

fn shutdown_of_writing_lets_read<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.shutdown(Write).unwrap();
    server.put(b"before");
    assert_eq!(client.get(6), b"before");
    assert_eq!(server.get_all(), b"");
    server.put(b"after");
    assert_eq!(client.get(5), b"after");
}

fn shutdown_of_reading_lets_write<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.shutdown(Read).unwrap();
    client.put(b"still");
    assert_eq!(server.get(5), b"still");
}

fn shutdown_of_reading_ends_reading<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.shutdown(Read).unwrap();
    assert_eq!(client.recv(&mut [0; 8]).unwrap(), 0);
    assert_eq!(client.recv(&mut [0; 8]).unwrap(), 0);
    assert_eq!(client.peek(&mut [0; 8]).unwrap(), 0);
}

fn shutdown_of_reading_keeps_what_has_arrived<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    server.put(b"early");
    assert_eq!(client.peek(&mut [0; 8]).unwrap(), 5);
    client.shutdown(Read).unwrap();
    assert_eq!(client.get_all(), b"early");
}

fn shutdown_of_reading_is_not_seen_by_the_peer<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.shutdown(Read).unwrap();
    client.put(b"one");
    assert_eq!(server.get(3), b"one");
    server.set_nonblocking(true).unwrap();
    fails(server.recv(&mut [0]), WouldBlock);
}

fn shutdown_of_both_ends_both<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.shutdown(Both).unwrap();
    assert_eq!(client.recv(&mut [0; 8]).unwrap(), 0);
    fails(client.send(b"x"), BrokenPipe);
}

fn shutdown_of_both_ends_the_peers_reading<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"bye");
    client.shutdown(Both).unwrap();
    assert_eq!(server.get_all(), b"bye");
}

fn shutdown_of_writing_may_be_repeated<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.shutdown(Write).unwrap();
    client.shutdown(Write).unwrap();
    assert_eq!(server.get_all(), b"");
    client.shutdown(Write).unwrap();
    server.put(b"open");
    assert_eq!(client.get(4), b"open");
}

fn shutdown_of_reading_may_be_repeated<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.shutdown(Read).unwrap();
    client.shutdown(Read).unwrap();
    client.put(b"open");
    assert_eq!(server.get(4), b"open");
}

fn shutdowns_of_both_directions_add_up<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.shutdown(Read).unwrap();
    client.shutdown(Write).unwrap();
    assert_eq!(client.recv(&mut [0; 8]).unwrap(), 0);
    fails(client.send(b"x"), BrokenPipe);
    assert_eq!(server.get_all(), b"");
}

fn shutdown_after_both_ends_closed_is_not_connected<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.shutdown(Write).unwrap();
    assert_eq!(server.get_all(), b"");
    drop(server);
    assert_eq!(client.get_all(), b"");
    assert_eq!(error_of(|| client.shutdown(Write)).kind(), NotConnected);
}

fn shutdown_by_a_clone_is_for_all<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let clone = client.try_clone().unwrap();
    clone.shutdown(Write).unwrap();
    fails(client.send(b"x"), BrokenPipe);
    drop(clone);
    assert_eq!(server.get_all(), b"");
    server.put(b"open");
    assert_eq!(client.get(4), b"open");
}

fn write_after_shutdown_is_a_broken_pipe<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.shutdown(Write).unwrap();
    fails(client.send(b"x"), BrokenPipe);
    fails(client.send(b"x"), BrokenPipe);
}

fn empty_write_after_shutdown_is_a_broken_pipe<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.shutdown(Write).unwrap();
    fails(client.send(&[]), BrokenPipe);
}

fn request_and_end_are_answered_each_time<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let serve = || {
        for server in listener.incoming().take(500) {
            let server = server.unwrap();
            let request = server.get_all();
            server.put(&request);
            server.put(b": done");
        }
    };
    let ask = || {
        for _ in 0..500 {
            let client = world.dial(&listener);
            client.put(b"GET /");
            client.shutdown(Write).unwrap();
            assert_eq!(client.get_all(), b"GET /: done");
        }
    };
    both(ask, serve);
}

fn request_and_end_that_were_queued_are_answered_each_time<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    for _ in 0..50 {
        let client = world.dial(&listener);
        client.put(b"GET /");
        client.shutdown(Write).unwrap();
        let server = listener.next();
        assert_eq!(server.get_all(), b"GET /");
        server.put(b"done");
        drop(server);
        assert_eq!(client.get_all(), b"done");
    }
}

fn request_and_end_are_answered_with_much<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let answer = pattern(1 << 20);
    client.put(b"GET /");
    client.shutdown(Write).unwrap();
    let serve = || {
        assert_eq!(server.get_all(), b"GET /");
        server.put(&answer);
        drop(server);
    };
    let got = both(|| client.get_all(), serve).0;
    assert_same(&got, &answer);
}

fn end_before_the_request_is_seen<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.shutdown(Write).unwrap();
    assert_eq!(server.get_all(), b"");
    server.put(b"no request");
    drop(server);
    assert_eq!(client.get_all(), b"no request");
}

fn server_ends_first<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    server.put(b"banner");
    server.shutdown(Write).unwrap();
    assert_eq!(client.get_all(), b"banner");
    client.put(b"after the end");
    client.shutdown(Write).unwrap();
    assert_eq!(server.get_all(), b"after the end");
}

fn both_end_at_once<S: Sockets>(world: &World<S>) {
    for _ in 0..30 {
        let (client, server) = world.pair();
        both(|| client.shutdown(Write).unwrap(), || server.shutdown(Write).unwrap());
        assert_eq!(client.get_all(), b"");
        assert_eq!(server.get_all(), b"");
    }
}

fn both_drop_at_once<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    for _ in 0..30 {
        let client = world.dial(&listener);
        let server = listener.next();
        both(|| drop(client), || drop(server));
    }
    world.dial(&listener).put(b"x");
    assert_eq!(listener.next().get(1), b"x");
}

fn both_drop_at_once_after_data<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    for _ in 0..30 {
        let client = world.dial(&listener);
        let server = listener.next();
        let exchange = |end: S::Stream| {
            end.put(b"data");
            assert_eq!(end.get(4), b"data");
        };
        both(|| exchange(client), || exchange(server));
    }
}

fn half_closed_connection_stays_open<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.shutdown(Write).unwrap();
    assert_eq!(server.get_all(), b"");
    for turn in 0..20 {
        settle();
        server.put(&[turn]);
        assert_eq!(client.get(1), [turn]);
    }
}

fn half_closed_connection_takes_much<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    server.shutdown(Write).unwrap();
    let bytes = pattern(1 << 20);
    let write = || {
        client.put(&bytes);
        client.shutdown(Write).unwrap();
    };
    let got = both(write, || server.get_all()).1;
    assert_same(&got, &bytes);
    assert_eq!(client.get_all(), b"");
}

fn peer_that_ended_is_still_named<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let (here, there) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
    drop(server);
    assert_eq!(client.get_all(), b"");
    assert_eq!(client.local_addr().unwrap(), here);
    assert_eq!(client.peer_addr().unwrap(), there);
}

fn write_after_the_peer_has_gone_is_a_broken_pipe<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    drop(server);
    assert_eq!(client.get_all(), b"");
    // The peer has to answer a segment before this end knows.
    client.put(b"x");
    settle();
    assert_eq!(error_of(|| client.send(b"x")).kind(), BrokenPipe);
}

fn write_after_the_peer_shut_down_both_is_a_broken_pipe<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    server.shutdown(Both).unwrap();
    assert_eq!(client.get_all(), b"");
    client.put(b"x");
    settle();
    assert_eq!(error_of(|| client.send(b"x")).kind(), BrokenPipe);
}

fn write_fails_again_after_the_peer_has_gone<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    drop(server);
    error_of(|| client.send(b"x"));
    for _ in 0..3 {
        fails(client.send(b"x"), BrokenPipe);
    }
    assert_eq!(client.recv(&mut [0; 8]).unwrap(), 0);
}

fn first_clone_dropped_leaves_the_connection<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    drop(client.try_clone().unwrap());
    client.put(b"ping");
    assert_eq!(server.get(4), b"ping");
    server.put(b"pong");
    assert_eq!(client.get(4), b"pong");
}

fn last_clone_dropped_closes<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let clone = client.try_clone().unwrap();
    drop(client);
    clone.put(b"still");
    assert_eq!(server.get(5), b"still");
    server.set_nonblocking(true).unwrap();
    fails(server.recv(&mut [0]), WouldBlock);
    server.set_nonblocking(false).unwrap();
    drop(clone);
    assert_eq!(server.get_all(), b"");
}

fn clones_dropped_in_the_other_order_close<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let clone = client.try_clone().unwrap();
    drop(clone);
    client.put(b"still");
    assert_eq!(server.get(5), b"still");
    drop(client);
    assert_eq!(server.get_all(), b"");
}

fn clone_dropped_after_a_shutdown_leaves_reading<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let writer = client.try_clone().unwrap();
    writer.put(b"question");
    writer.shutdown(Write).unwrap();
    drop(writer);
    assert_eq!(server.get_all(), b"question");
    server.put(b"answer");
    drop(server);
    assert_eq!(client.get_all(), b"answer");
}

fn clone_of_a_clone_keeps_the_connection<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let mut last = client;
    for turn in 0..20 {
        last = last.try_clone().unwrap();
        last.put(&[turn]);
        assert_eq!(server.get(1), [turn]);
    }
    assert_eq!(last.local_addr().unwrap(), server.peer_addr().unwrap());
}

fn listener_dropped_before_its_connections_leaves_them<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let pairs: Vec<_> = (0..5).map(|_| (world.dial(&listener), listener.next())).collect();
    drop(listener);
    for (client, server) in pairs {
        client.put(b"x");
        drop(client);
        assert_eq!(server.get_all(), b"x");
    }
}

fn hosts_may_go_before_their_sockets<S: Sockets>(world: &World<S>) {
    let other = World::<S>::new(world.family);
    let (client, server) = other.pair();
    drop(other);
    client.put(b"last");
    drop(client);
    assert_eq!(server.get_all(), b"last");
}

fn empty_connections_close_again_and_again<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    for turn in 0..100 {
        let (client, server) = (world.dial(&listener), listener.next());
        let (first, second) = if turn % 2 == 0 { (client, server) } else { (server, client) };
        drop(first);
        assert_eq!(second.get_all(), b"");
    }
}
