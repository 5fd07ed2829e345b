//! Reading from a connection, and peeking at what is to be read.

use std::io::ErrorKind::UnexpectedEof;
use std::io::{IoSliceMut, Read, Write};
use std::net::Shutdown;

use crate::cases;
use crate::face::{Sockets, Stream};
use crate::world::{World, assert_same, both, eventually, fails, pattern, settle};

cases![
    gets_what_was_written,
    waits_for_data,
    empty_buffer_leaves_data,
    short_buffer_leaves_the_rest,
    long_buffer_is_not_waited_for,
    exact_read_waits_for_several_writes,
    exact_read_ends_at_the_end,
    end_is_zero_bytes,
    end_is_repeated,
    end_comes_after_the_data,
    data_is_kept_after_the_peer_has_gone,
    single_bytes_come_in_order,
    vectors_are_filled_in_order,
    vectors_may_be_empty,
    no_vectors_get_nothing,
    vectors_at_the_end_get_nothing,
    owned_and_shared_streams_read_the_same,
    text_is_read_to_the_end,
    clones_read_the_same_stream,
    peek_leaves_data,
    peek_is_repeated,
    peek_may_be_shorter_than_the_data,
    peek_sees_what_comes_later,
    peek_waits_for_data,
    peek_at_the_end_is_zero,
    peek_of_an_empty_buffer_leaves_data,
    peek_of_a_clone_leaves_data,
    peek_after_a_read_continues,
];

fn gets_what_was_written<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"hello");
    let mut buffer = [0; 5];
    server.shared().read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"hello");
}

fn waits_for_data<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let late = || {
        settle();
        client.put(b"late");
    };
    assert_eq!(both(late, || server.get(4)).1, b"late");
}

fn empty_buffer_leaves_data<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"data");
    assert_eq!(server.peek(&mut [0; 4]).unwrap(), 4);
    assert_eq!(server.recv(&mut []).unwrap(), 0);
    assert_eq!(server.get(4), b"data");
}

fn short_buffer_leaves_the_rest<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"0123456789");
    let mut buffer = [0; 4];
    assert_eq!(server.recv(&mut buffer).unwrap(), 4);
    assert_eq!(&buffer, b"0123");
    assert_eq!(server.recv(&mut buffer).unwrap(), 4);
    assert_eq!(&buffer, b"4567");
    assert_eq!(server.recv(&mut buffer).unwrap(), 2);
    assert_eq!(&buffer, b"8967");
}

fn long_buffer_is_not_waited_for<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"few");
    let mut buffer = [0; 1_000];
    assert_eq!(server.recv(&mut buffer).unwrap(), 3);
    assert_eq!(&buffer[..4], b"few\0");
}

fn exact_read_waits_for_several_writes<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let parts = || {
        for part in [b"abc", b"def", b"ghi"] {
            client.put(part);
            settle();
        }
    };
    assert_eq!(both(parts, || server.get(9)).1, b"abcdefghi");
}

fn exact_read_ends_at_the_end<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"abc");
    drop(client);
    fails(server.shared().read_exact(&mut [0; 4]), UnexpectedEof);
}

fn end_is_zero_bytes<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    drop(client);
    assert_eq!(server.recv(&mut [0; 8]).unwrap(), 0);
}

fn end_is_repeated<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    drop(client);
    for _ in 0..5 {
        assert_eq!(server.recv(&mut [0; 8]).unwrap(), 0);
    }
}

fn end_comes_after_the_data<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"data");
    client.shutdown(Shutdown::Write).unwrap();
    let mut buffer = [0; 2];
    assert_eq!(server.recv(&mut buffer).unwrap(), 2);
    assert_eq!(server.recv(&mut buffer).unwrap(), 2);
    assert_eq!(&buffer, b"ta");
    assert_eq!(server.recv(&mut buffer).unwrap(), 0);
}

fn data_is_kept_after_the_peer_has_gone<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let bytes = pattern(10_000);
    client.put(&bytes);
    drop(client);
    settle();
    assert_same(&server.get_all(), &bytes);
}

fn single_bytes_come_in_order<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    for byte in 0..200 {
        client.put(&[byte]);
    }
    let expected: Vec<_> = (0..200).collect();
    assert_same(&server.get(200), &expected);
}

fn vectors_are_filled_in_order<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"0123456789");
    let (mut one, mut two, mut three) = ([0; 3], [0; 5], [0; 4]);
    let mut vectors = [&mut one[..], &mut two[..], &mut three[..]].map(IoSliceMut::new);
    assert_eq!(server.shared().read_vectored(&mut vectors).unwrap(), 10);
    assert_eq!((&one, &two, &three), (b"012", b"34567", b"89\0\0"));
}

fn vectors_may_be_empty<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"0123");
    let (mut one, mut two) = ([0; 1], [0; 8]);
    let mut vectors = [&mut [][..], &mut one[..], &mut [][..], &mut two[..]].map(IoSliceMut::new);
    assert_eq!(server.shared().read_vectored(&mut vectors).unwrap(), 4);
    assert_eq!((&one, &two[..3]), (b"0", &b"123"[..]));
}

fn no_vectors_get_nothing<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"data");
    assert_eq!(server.shared().read_vectored(&mut []).unwrap(), 0);
    assert_eq!(server.get(4), b"data");
}

fn vectors_at_the_end_get_nothing<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    drop(client);
    let (mut one, mut two) = ([0; 3], [0; 5]);
    let mut vectors = [&mut one[..], &mut two[..]].map(IoSliceMut::new);
    assert_eq!(server.shared().read_vectored(&mut vectors).unwrap(), 0);
}

fn owned_and_shared_streams_read_the_same<S: Sockets>(world: &World<S>) {
    let (mut client, mut server) = world.pair();
    client.write_all(b"0123").unwrap();
    client.flush().unwrap();
    let mut buffer = [0; 2];
    server.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"01");
    assert_eq!(server.get(2), b"23");
}

fn text_is_read_to_the_end<S: Sockets>(world: &World<S>) {
    let (mut client, mut server) = world.pair();
    write!(client, "{} and {}", 1, 2).unwrap();
    drop(client);
    let mut text = String::new();
    server.read_to_string(&mut text).unwrap();
    assert_eq!(text, "1 and 2");
}

fn clones_read_the_same_stream<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let clone = server.try_clone().unwrap();
    client.put(b"012345");
    assert_eq!(server.get(2), b"01");
    assert_eq!(clone.get(2), b"23");
    assert_eq!(server.get(2), b"45");
}

fn peek_leaves_data<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"data");
    let mut buffer = [0; 10];
    assert_eq!(server.peek(&mut buffer).unwrap(), 4);
    assert_eq!(&buffer[..4], b"data");
    assert_eq!(server.get(4), b"data");
}

fn peek_is_repeated<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"data");
    for _ in 0..5 {
        let mut buffer = [0; 4];
        assert_eq!(server.peek(&mut buffer).unwrap(), 4);
        assert_eq!(&buffer, b"data");
    }
    assert_eq!(server.get(4), b"data");
}

fn peek_may_be_shorter_than_the_data<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"data");
    let mut buffer = [0; 4];
    assert_eq!(server.peek(&mut buffer[..2]).unwrap(), 2);
    assert_eq!(&buffer, b"da\0\0");
    assert_eq!(server.peek(&mut buffer).unwrap(), 4);
    assert_eq!(&buffer, b"data");
}

fn peek_sees_what_comes_later<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let mut buffer = [0; 8];
    client.put(b"data");
    assert_eq!(server.peek(&mut buffer).unwrap(), 4);
    client.put(b"more");
    eventually(|| (server.peek(&mut buffer).unwrap() == 8).then_some(()));
    assert_eq!(&buffer, b"datamore");
}

fn peek_waits_for_data<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let late = || {
        settle();
        client.put(b"late");
    };
    let peek = || server.peek(&mut [0; 4]).unwrap();
    assert_eq!(both(late, peek).1, 4);
}

fn peek_at_the_end_is_zero<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"x");
    drop(client);
    assert_eq!(server.peek(&mut [0; 4]).unwrap(), 1);
    assert_eq!(server.get(1), b"x");
    assert_eq!(server.peek(&mut [0; 4]).unwrap(), 0);
    assert_eq!(server.recv(&mut [0; 4]).unwrap(), 0);
}

fn peek_of_an_empty_buffer_leaves_data<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"data");
    assert_eq!(server.peek(&mut [0; 8]).unwrap(), 4);
    assert_eq!(server.peek(&mut []).unwrap(), 0);
    assert_eq!(server.get(4), b"data");
}

fn peek_of_a_clone_leaves_data<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"data");
    assert_eq!(server.try_clone().unwrap().peek(&mut [0; 4]).unwrap(), 4);
    assert_eq!(server.get(4), b"data");
}

fn peek_after_a_read_continues<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"0123456789");
    assert_eq!(server.get(4), b"0123");
    let mut buffer = [0; 3];
    assert_eq!(server.peek(&mut buffer).unwrap(), 3);
    assert_eq!(&buffer, b"456");
}
