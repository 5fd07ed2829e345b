//! Writing, and long transfers.

use std::io::{IoSlice, Write};
use std::net::Shutdown;
use std::thread;

use crate::cases;
use crate::face::{Listener, Sockets, Stream};
use crate::world::{World, assert_same, both, pattern, settle};

/// More than the buffers of both ends are for.
const LONG: usize = 1 << 20;

cases![
    empty_write_is_zero,
    empty_write_sends_nothing,
    returns_the_number_of_bytes,
    vectors_are_written_in_order,
    vectors_may_be_empty,
    no_vectors_write_nothing,
    many_vectors_arrive_in_order,
    flush_succeeds,
    long_write_arrives,
    long_write_waits_for_the_reader,
    long_write_is_read_in_small_parts,
    small_writes_are_read_in_long_parts,
    long_writes_cross,
    long_write_is_echoed,
    long_write_arrives_after_a_drop,
    long_write_arrives_after_a_shutdown,
    long_write_arrives_after_a_drop_of_all_but_the_reader,
    ends_may_be_written_in_turn,
    writes_after_the_peer_has_ended_arrive,
    write_to_a_peer_that_does_not_read_any_more_succeeds,
    eight_long_writes_arrive_at_once,
    without_delay_small_writes_arrive,
];

fn empty_write_is_zero<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    assert_eq!(client.send(&[]).unwrap(), 0);
}

fn empty_write_sends_nothing<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"one");
    assert_eq!(client.send(&[]).unwrap(), 0);
    client.put(b"two");
    drop(client);
    assert_eq!(server.get_all(), b"onetwo");
}

fn returns_the_number_of_bytes<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    assert_eq!(client.send(b"12345").unwrap(), 5);
    assert_eq!(server.get(5), b"12345");
}

fn vectors_are_written_in_order<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let vectors = [&b"012"[..], b"34567", b"89"].map(IoSlice::new);
    assert_eq!(client.shared().write_vectored(&vectors).unwrap(), 10);
    assert_eq!(server.get(10), b"0123456789");
}

fn vectors_may_be_empty<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let vectors = [&b""[..], b"01", b"", b"23", b""].map(IoSlice::new);
    assert_eq!(client.shared().write_vectored(&vectors).unwrap(), 4);
    assert_eq!(server.get(4), b"0123");
}

fn no_vectors_write_nothing<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    assert_eq!(client.shared().write_vectored(&[]).unwrap(), 0);
    client.put(b"x");
    drop(client);
    assert_eq!(server.get_all(), b"x");
}

fn many_vectors_arrive_in_order<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let bytes = pattern(20_000);
    let mut vectors: Vec<_> = bytes.chunks(100).map(IoSlice::new).collect();
    let write = || {
        let mut rest = &mut vectors[..];
        while !rest.is_empty() {
            let written = client.shared().write_vectored(rest).unwrap();
            IoSlice::advance_slices(&mut rest, written);
        }
    };
    let got = both(write, || server.get(20_000)).1;
    assert_same(&got, &bytes);
}

fn flush_succeeds<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.shared().flush().unwrap();
    client.put(b"x");
    client.shared().flush().unwrap();
    assert_eq!(server.get(1), b"x");
}

fn long_write_arrives<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let bytes = pattern(LONG);
    let got = both(|| client.put(&bytes), || server.get(LONG)).1;
    assert_same(&got, &bytes);
}

fn long_write_waits_for_the_reader<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let bytes = pattern(8 * LONG);
    let late = || {
        settle();
        settle();
        server.get(8 * LONG)
    };
    let got = both(|| client.put(&bytes), late).1;
    assert_same(&got, &bytes);
}

fn long_write_is_read_in_small_parts<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let bytes = pattern(LONG / 4);
    let read = || -> Vec<u8> { (0..LONG / 4 / 512).flat_map(|_| server.get(512)).collect() };
    let got = both(|| client.put(&bytes), read).1;
    assert_same(&got, &bytes);
}

fn small_writes_are_read_in_long_parts<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let bytes = pattern(50_000);
    let write = || bytes.chunks(77).for_each(|part| client.put(part));
    let got = both(write, || server.get(50_000)).1;
    assert_same(&got, &bytes);
}

fn long_writes_cross<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let (forth, back) = (pattern(LONG), pattern(LONG + 12_345));
    let (got_back, got_forth) = both(
        || both(|| client.put(&forth), || client.get(back.len())).1,
        || both(|| server.put(&back), || server.get(forth.len())).1,
    );
    assert_same(&got_forth, &forth);
    assert_same(&got_back, &back);
}

fn long_write_is_echoed<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let bytes = pattern(LONG);
    let echo = move || {
        let mut buffer = [0; 10_000];
        loop {
            match server.recv(&mut buffer).unwrap() {
                0 => break,
                len => server.put(&buffer[..len]),
            }
        }
    };
    let write = || {
        client.put(&bytes);
        client.shutdown(Shutdown::Write).unwrap();
    };
    let got = both(|| both(write, || client.get_all()).1, echo).0;
    assert_same(&got, &bytes);
}

fn long_write_arrives_after_a_drop<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let bytes = pattern(LONG);
    let write = || {
        client.put(&bytes);
        drop(client);
    };
    let read = || {
        settle();
        server.get_all()
    };
    let got = both(write, read).1;
    assert_same(&got, &bytes);
}

fn long_write_arrives_after_a_shutdown<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let bytes = pattern(LONG);
    let write = || {
        client.put(&bytes);
        client.shutdown(Shutdown::Write).unwrap();
    };
    let read = || {
        settle();
        server.get_all()
    };
    let got = both(write, read).1;
    assert_same(&got, &bytes);
}

fn long_write_arrives_after_a_drop_of_all_but_the_reader<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let client = world.dial(&listener);
    let server = listener.next();
    let bytes = pattern(100_000);
    both(|| client.put(&bytes), || drop(listener));
    drop(client);
    settle();
    assert_same(&server.get_all(), &bytes);
}

fn ends_may_be_written_in_turn<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    for turn in 0..200_u8 {
        client.put(&[turn; 10]);
        assert_eq!(server.get(10), [turn; 10]);
        server.put(&[!turn; 10]);
        assert_eq!(client.get(10), [!turn; 10]);
    }
}

fn writes_after_the_peer_has_ended_arrive<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    server.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.get_all(), b"");
    let bytes = pattern(LONG);
    let got = both(|| client.put(&bytes), || server.get(LONG)).1;
    assert_same(&got, &bytes);
}

fn write_to_a_peer_that_does_not_read_any_more_succeeds<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    server.shutdown(Shutdown::Read).unwrap();
    for _ in 0..10 {
        client.put(b"unread");
        settle();
    }
    // The other direction is as it was.
    server.put(b"still");
    assert_eq!(client.get(5), b"still");
}

fn eight_long_writes_arrive_at_once<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let bytes = pattern(LONG / 8);
    thread::scope(|scope| {
        for _ in 0..8 {
            let (client, server) = (world.dial(&listener), listener.next());
            let bytes = &bytes;
            scope.spawn(move || client.put(bytes));
            scope.spawn(move || assert_same(&server.get_all(), bytes));
        }
    });
}

fn without_delay_small_writes_arrive<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_nodelay(true).unwrap();
    for turn in 0..200 {
        client.put(&[turn]);
    }
    let expected: Vec<_> = (0..200).collect();
    assert_same(&server.get(200), &expected);
}
