//! Connections and listeners that do not block.

use std::io::ErrorKind::{BrokenPipe, ConnectionReset, WouldBlock};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;

use crate::cases;
use crate::face::{Listener, Sockets, Stream};
use crate::world::{LONG, World, assert_same, both, eventually, fails, pattern, settle, unblocked};

cases![
    read_would_block,
    vectored_read_would_block,
    peek_would_block,
    accept_would_block,
    empty_read_would_block,
    read_gets_data,
    read_gets_the_end,
    read_gets_a_reset,
    peek_gets_data,
    accept_gets_a_connection,
    accept_would_block_after_the_last_one,
    write_would_block,
    write_is_short,
    vectored_write_is_short,
    write_goes_on_after_a_read,
    write_after_shutdown_is_a_broken_pipe,
    accepted_connection_blocks,
    is_shared_by_clones,
    is_shared_by_clones_of_a_listener,
    is_of_one_end,
    blocks_again,
    listener_blocks_again,
    long_time_out_is_not_waited_for,
    both_ends_talk,
    both_ends_send_much_in_one_thread,
    many_connections_are_polled,
];

fn read_would_block<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.set_nonblocking(true).unwrap();
    fails(client.recv(&mut [0; 8]), WouldBlock);
    fails(client.recv(&mut [0; 8]), WouldBlock);
}

fn vectored_read_would_block<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.set_nonblocking(true).unwrap();
    fails(client.shared().read_vectored(&mut [IoSliceMut::new(&mut [0; 8])]), WouldBlock);
}

fn peek_would_block<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.set_nonblocking(true).unwrap();
    fails(client.peek(&mut [0; 8]), WouldBlock);
}

fn accept_would_block<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    listener.set_nonblocking(true).unwrap();
    fails(listener.accept(), WouldBlock);
}

fn empty_read_would_block<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.set_nonblocking(true).unwrap();
    // Even a read of nothing waits for something.
    fails(client.recv(&mut []), WouldBlock);
    fails(client.peek(&mut []), WouldBlock);
}

fn read_gets_data<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_nonblocking(true).unwrap();
    fails(client.recv(&mut [0; 8]), WouldBlock);
    server.put(b"data");
    let mut buffer = [0; 8];
    assert_eq!(unblocked(|| client.recv(&mut buffer)).unwrap(), 4);
    assert_eq!(&buffer[..4], b"data");
    fails(client.recv(&mut buffer), WouldBlock);
}

fn read_gets_the_end<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_nonblocking(true).unwrap();
    drop(server);
    assert_eq!(unblocked(|| client.recv(&mut [0; 8])).unwrap(), 0);
}

fn read_gets_a_reset<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"unread");
    assert_eq!(server.peek(&mut [0; 6]).unwrap(), 6);
    client.set_nonblocking(true).unwrap();
    drop(server);
    fails(unblocked(|| client.recv(&mut [0; 8])), ConnectionReset);
}

fn peek_gets_data<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_nonblocking(true).unwrap();
    server.put(b"data");
    assert_eq!(unblocked(|| client.peek(&mut [0; 8])).unwrap(), 4);
    assert_eq!(client.recv(&mut [0; 8]).unwrap(), 4);
}

fn accept_gets_a_connection<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    listener.set_nonblocking(true).unwrap();
    fails(listener.accept(), WouldBlock);
    let client = world.dial(&listener);
    let (_server, from) = unblocked(|| listener.accept()).unwrap();
    assert_eq!(from, client.local_addr().unwrap());
}

fn accept_would_block_after_the_last_one<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    listener.set_nonblocking(true).unwrap();
    let _clients = [world.dial(&listener), world.dial(&listener)];
    let _servers = [(); 2].map(|()| unblocked(|| listener.accept()).unwrap());
    fails(listener.accept(), WouldBlock);
}

/// Writes until there is no room. Returns how much was written.
fn fill(stream: &impl Stream, bytes: &[u8]) -> usize {
    let mut written = 0;
    loop {
        match stream.send(&bytes[written..]) {
            Ok(0) => panic!("there is no limit"),
            Ok(len) => written += len,
            Err(error) => {
                assert_eq!(error.kind(), WouldBlock, "{error}");
                return written;
            }
        }
    }
}

fn write_would_block<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.set_nonblocking(true).unwrap();
    assert_ne!(fill(&client, &pattern(16 << 20)), 0);
}

fn write_is_short<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_nonblocking(true).unwrap();
    let bytes = pattern(16 << 20);
    let written = client.send(&bytes).unwrap();
    assert!((1..bytes.len()).contains(&written), "{written}");
    assert_same(&server.get(written), &bytes[..written]);
}

fn vectored_write_is_short<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_nonblocking(true).unwrap();
    let bytes = pattern(16 << 20);
    let vectors: Vec<_> = bytes.chunks(1 << 20).map(IoSlice::new).collect();
    let written = client.shared().write_vectored(&vectors).unwrap();
    assert!((1..bytes.len()).contains(&written), "{written}");
    assert_same(&server.get(written), &bytes[..written]);
}

fn write_goes_on_after_a_read<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_nonblocking(true).unwrap();
    let bytes = pattern(16 << 20);
    let written = fill(&client, &bytes);
    assert_same(&server.get(written), &bytes[..written]);
    let more = unblocked(|| client.send(&bytes[written..])).unwrap();
    assert_same(&server.get(more), &bytes[written..written + more]);
}

fn write_after_shutdown_is_a_broken_pipe<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    client.set_nonblocking(true).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    fails(client.send(b"x"), BrokenPipe);
}

fn accepted_connection_blocks<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    listener.set_nonblocking(true).unwrap();
    let client = world.dial(&listener);
    let (server, _) = unblocked(|| listener.accept()).unwrap();
    let late = || {
        settle();
        client.put(b"late");
    };
    assert_eq!(both(late, || server.get(4)).1, b"late");
}

fn is_shared_by_clones<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    let clone = client.try_clone().unwrap();
    client.set_nonblocking(true).unwrap();
    fails(clone.recv(&mut [0; 8]), WouldBlock);
    fails(client.try_clone().unwrap().recv(&mut [0; 8]), WouldBlock);
}

fn is_shared_by_clones_of_a_listener<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let clone = listener.try_clone().unwrap();
    clone.set_nonblocking(true).unwrap();
    fails(listener.accept(), WouldBlock);
}

fn is_of_one_end<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_nonblocking(true).unwrap();
    let late = || {
        settle();
        client.put(b"late");
    };
    assert_eq!(both(late, || server.get(4)).1, b"late");
}

fn blocks_again<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_nonblocking(true).unwrap();
    fails(client.recv(&mut [0; 8]), WouldBlock);
    client.set_nonblocking(false).unwrap();
    let late = || {
        settle();
        server.put(b"late");
    };
    assert_eq!(both(late, || client.get(4)).1, b"late");
}

fn listener_blocks_again<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    listener.set_nonblocking(true).unwrap();
    fails(listener.accept(), WouldBlock);
    listener.set_nonblocking(false).unwrap();
    let late = || {
        settle();
        world.dial(&listener)
    };
    let (client, server) = both(late, || listener.next());
    assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
}

fn long_time_out_is_not_waited_for<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    // All of it would be longer than a case may take.
    client.set_read_timeout(Some(4 * LONG)).unwrap();
    client.set_nonblocking(true).unwrap();
    fails(client.recv(&mut [0; 8]), WouldBlock);
}

fn both_ends_talk<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.set_nonblocking(true).unwrap();
    server.set_nonblocking(true).unwrap();
    for turn in 0..100 {
        for (from, to) in [(&client, &server), (&server, &client)] {
            assert_eq!(from.send(&[turn]).unwrap(), 1);
            let mut got = [0];
            assert_eq!(unblocked(|| to.recv(&mut got)).unwrap(), 1);
            assert_eq!(got, [turn]);
        }
    }
}

fn both_ends_send_much_in_one_thread<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let bytes = pattern(1 << 20);
    let ends = [client, server];
    let (mut written, mut read) = ([0; 2], [Vec::new(), Vec::new()]);
    ends.iter().for_each(|end| end.set_nonblocking(true).unwrap());
    let mut buffer = vec![0; 1 << 16];
    eventually(|| {
        for (end, stream) in ends.iter().enumerate() {
            written[end] += stream.send(&bytes[written[end]..]).unwrap_or(0);
            let len = stream.recv(&mut buffer).unwrap_or(0);
            read[end].extend_from_slice(&buffer[..len]);
        }
        read.iter().all(|read| read.len() == bytes.len()).then_some(())
    });
    read.iter().for_each(|read| assert_same(read, &bytes));
}

fn many_connections_are_polled<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let pairs: Vec<_> = (0..20).map(|_| (world.dial(&listener), listener.next())).collect();
    pairs.iter().for_each(|(_, server)| server.set_nonblocking(true).unwrap());
    for (client, _) in pairs.iter().rev() {
        client.put(b"x");
    }
    let mut silent: Vec<_> = pairs.iter().map(|(_, server)| server).collect();
    eventually(|| {
        silent.retain(|server| server.recv(&mut [0]).is_err());
        silent.is_empty().then_some(())
    });
}
