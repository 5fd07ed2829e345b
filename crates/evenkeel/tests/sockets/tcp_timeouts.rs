//! Time-outs of reading from connections and of writing to them.

use std::io::ErrorKind::{InvalidInput, WouldBlock};
use std::io::{IoSliceMut, Read};
use std::net::Shutdown;
use std::time::Duration;

use crate::cases;
use crate::face::{Sockets, Stream};
use crate::world::{LONG, SHORT, World, assert_same, both, elapses, fails, in_time, pattern, settle};

cases![
    there_are_none_at_first,
    are_read_back,
    are_independent,
    are_cleared,
    of_zero_are_invalid,
    of_zero_leave_what_was_set,
    shortest_elapses,
    longest_is_accepted,
    elapsed_read_would_block,
    elapsed_read_leaves_the_connection,
    elapses_again_and_again,
    elapsed_peek_would_block,
    elapsed_vectored_read_would_block,
    elapsed_exact_read_would_block,
    elapsed_write_would_block,
    elapsed_write_leaves_the_connection,
    of_reading_do_not_concern_writing,
    of_writing_do_not_concern_reading,
    data_in_time_is_read,
    data_that_waits_is_read,
    end_in_time_is_read,
    end_comes_after_one_has_elapsed,
    are_shared_by_clones,
    of_a_clone_elapse,
    are_of_one_connection,
    cleared_one_does_not_elapse,
];

fn there_are_none_at_first<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    assert_eq!(client.read_timeout().unwrap(), None);
    assert_eq!(client.write_timeout().unwrap(), None);
}

fn are_read_back<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.set_read_timeout(Some(LONG)).unwrap();
    client.set_write_timeout(Some(LONG)).unwrap();
    assert_eq!(client.read_timeout().unwrap(), Some(LONG));
    assert_eq!(client.write_timeout().unwrap(), Some(LONG));
}

fn are_independent<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(client.write_timeout().unwrap(), None);
    client.set_write_timeout(Some(2 * LONG)).unwrap();
    assert_eq!(client.read_timeout().unwrap(), Some(LONG));
    client.set_read_timeout(None).unwrap();
    assert_eq!(client.write_timeout().unwrap(), Some(2 * LONG));
}

fn are_cleared<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.set_read_timeout(Some(LONG)).unwrap();
    client.set_write_timeout(Some(LONG)).unwrap();
    client.set_read_timeout(None).unwrap();
    client.set_write_timeout(None).unwrap();
    assert_eq!(client.read_timeout().unwrap(), None);
    assert_eq!(client.write_timeout().unwrap(), None);
}

fn of_zero_are_invalid<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    fails(client.set_read_timeout(Some(Duration::ZERO)), InvalidInput);
    fails(client.set_write_timeout(Some(Duration::ZERO)), InvalidInput);
}

fn of_zero_leave_what_was_set<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.set_read_timeout(Some(LONG)).unwrap();
    client.set_write_timeout(Some(LONG)).unwrap();
    fails(client.set_read_timeout(Some(Duration::ZERO)), InvalidInput);
    fails(client.set_write_timeout(Some(Duration::ZERO)), InvalidInput);
    assert_eq!(client.read_timeout().unwrap(), Some(LONG));
    assert_eq!(client.write_timeout().unwrap(), Some(LONG));
}

fn shortest_elapses<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.set_read_timeout(Some(Duration::from_nanos(1))).unwrap();
    assert!(client.read_timeout().unwrap().is_some());
    fails(client.recv(&mut [0]), WouldBlock);
}

fn longest_is_accepted<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_read_timeout(Some(Duration::MAX)).unwrap();
    let late = || {
        settle();
        server.put(b"late");
    };
    assert_eq!(both(late, || client.get(4)).1, b"late");
}

fn elapsed_read_would_block<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.set_read_timeout(Some(SHORT)).unwrap();
    elapses(|| client.recv(&mut [0; 8]));
}

fn elapsed_read_leaves_the_connection<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_read_timeout(Some(SHORT)).unwrap();
    elapses(|| client.recv(&mut [0; 8]));
    server.put(b"late");
    client.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(client.get(4), b"late");
    client.put(b"answer");
    assert_eq!(server.get(6), b"answer");
}

fn elapses_again_and_again<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.set_read_timeout(Some(SHORT)).unwrap();
    for _ in 0..3 {
        elapses(|| client.recv(&mut [0; 8]));
    }
}

fn elapsed_peek_would_block<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.set_read_timeout(Some(SHORT)).unwrap();
    elapses(|| client.peek(&mut [0; 8]));
}

fn elapsed_vectored_read_would_block<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.set_read_timeout(Some(SHORT)).unwrap();
    elapses(|| client.shared().read_vectored(&mut [IoSliceMut::new(&mut [0; 8])]));
}

fn elapsed_exact_read_would_block<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    server.put(b"half");
    client.set_read_timeout(Some(SHORT)).unwrap();
    elapses(|| client.shared().read_exact(&mut [0; 8]));
}

/// Writes until a write does not return in time, because the buffers of both ends are full. Returns how much
/// was written before.
fn fill(stream: &impl Stream, bytes: &[u8]) -> usize {
    let mut written = 0;
    while let Some(len) = in_time(|| stream.send(&bytes[written..])) {
        written += len;
        assert!(written < bytes.len(), "there is no limit");
    }
    written
}

fn elapsed_write_would_block<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.set_write_timeout(Some(SHORT)).unwrap();
    assert_ne!(fill(&client, &pattern(16 << 20)), 0);
}

fn elapsed_write_leaves_the_connection<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_write_timeout(Some(SHORT)).unwrap();
    let bytes = pattern(16 << 20);
    let written = fill(&client, &bytes);
    // What was written arrives, no more and no less, and then the end.
    client.shutdown(Shutdown::Write).unwrap();
    assert_same(&server.get_all(), &bytes[..written]);
}

fn of_reading_do_not_concern_writing<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_read_timeout(Some(SHORT)).unwrap();
    let bytes = pattern(16 << 20);
    let late = || {
        settle();
        settle();
        settle();
        settle();
        server.get(bytes.len())
    };
    let got = both(|| client.put(&bytes), late).1;
    assert_same(&got, &bytes);
}

fn of_writing_do_not_concern_reading<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_write_timeout(Some(SHORT / 10)).unwrap();
    let late = || {
        settle();
        server.put(b"late");
    };
    assert_eq!(both(late, || client.get(4)).1, b"late");
}

fn data_in_time_is_read<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_read_timeout(Some(LONG)).unwrap();
    let late = || {
        settle();
        server.put(b"in time");
    };
    assert_eq!(both(late, || client.get(7)).1, b"in time");
}

fn data_that_waits_is_read<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_read_timeout(Some(LONG)).unwrap();
    server.put(b"early");
    settle();
    assert_eq!(client.get(5), b"early");
}

fn end_in_time_is_read<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_read_timeout(Some(LONG)).unwrap();
    let late = || {
        settle();
        drop(server);
    };
    assert_eq!(both(late, || client.recv(&mut [0; 8]).unwrap()).1, 0);
}

fn end_comes_after_one_has_elapsed<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_read_timeout(Some(SHORT)).unwrap();
    elapses(|| client.recv(&mut [0; 8]));
    drop(server);
    client.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(client.recv(&mut [0; 8]).unwrap(), 0);
}

fn are_shared_by_clones<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    let clone = client.try_clone().unwrap();
    client.set_read_timeout(Some(LONG)).unwrap();
    clone.set_write_timeout(Some(LONG)).unwrap();
    assert_eq!(clone.read_timeout().unwrap(), Some(LONG));
    assert_eq!(client.write_timeout().unwrap(), Some(LONG));
}

fn of_a_clone_elapse<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.try_clone().unwrap().set_read_timeout(Some(SHORT)).unwrap();
    elapses(|| client.recv(&mut [0; 8]));
}

fn are_of_one_connection<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(server.read_timeout().unwrap(), None);
    assert_eq!(world.pair().0.read_timeout().unwrap(), None);
}

fn cleared_one_does_not_elapse<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    client.set_read_timeout(None).unwrap();
    let late = || {
        settle();
        server.put(b"late");
    };
    assert_eq!(both(late, || client.get(4)).1, b"late");
}
