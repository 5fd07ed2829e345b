//! Connections that several threads use.

use std::collections::BTreeMap;
use std::io::ErrorKind::{BrokenPipe, WouldBlock};
use std::net::Shutdown;
use std::panic;
use std::thread;
use std::time::Duration;

use crate::cases;
use crate::face::{Listener, Side, Sockets, Stream};
use crate::world::{World, assert_same, both, error_of, fails, pattern, settle};

cases![
    reads_and_writes_at_once,
    reads_and_writes_at_once_through_clones,
    clone_writes_while_the_original_waits,
    two_write,
    two_write_through_clones,
    two_read,
    two_read_through_clones,
    clone_is_made_while_another_thread_reads,
    shutdown_wakes_a_reader,
    shutdown_of_both_wakes_a_reader,
    shutdown_of_both_by_a_clone_wakes_all_readers,
    shutdown_wakes_a_writer,
    shutdown_of_writing_does_not_wake_a_reader,
    drop_of_a_clone_does_not_wake_a_reader,
    drop_of_a_clone_does_not_wake_an_acceptor,
    end_wakes_all_readers,
    time_out_set_by_another_thread_is_for_the_next_call,
    moves_to_another_thread,
    outlives_its_thread,
    is_dropped_in_another_thread,
    thread_for_each_connection,
    thread_for_each_connection_and_direction,
    proxy_passes_on_both_directions,
    pings_and_pongs,
    panic_of_a_thread_closes_its_connection,
];

fn reads_and_writes_at_once<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let late = || {
        settle();
        client.put(b"ping");
        assert_eq!(server.get(4), b"ping");
        server.put(b"pong");
    };
    assert_eq!(both(late, || client.get(4)).1, b"pong");
}

fn reads_and_writes_at_once_through_clones<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let bytes = pattern(1 << 18);
    let writer = client.try_clone().unwrap();
    let echo = || {
        for _ in 0..(1 << 18) / 1_024 {
            server.put(&server.get(1_024));
        }
    };
    let got = both(|| both(|| writer.put(&bytes), || client.get(1 << 18)).1, echo).0;
    assert_same(&got, &bytes);
}

fn clone_writes_while_the_original_waits<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let clone = server.try_clone().unwrap();
    let late = || {
        settle();
        clone.put(b"first");
        assert_eq!(client.get(5), b"first");
        client.put(b"second");
    };
    assert_eq!(both(late, || server.get(6)).1, b"second");
}

/// Returns how often each byte occurs.
fn census(bytes: &[u8]) -> BTreeMap<u8, usize> {
    let mut census = BTreeMap::new();
    bytes.iter().for_each(|byte| *census.entry(*byte).or_default() += 1);
    census
}

/// Lets two threads write, and checks that all of it arrives.
fn write_by_two<S: Sockets>(one: &S::Stream, two: &S::Stream, server: &S::Stream) {
    const LEN: usize = 200_000;
    let write = || {
        both(
            || (0..LEN / 100).for_each(|_| one.put(&[1; 100])),
            || (0..LEN / 100).for_each(|_| two.put(&[2; 100])),
        )
    };
    let got = both(write, || server.get(2 * LEN)).1;
    assert_eq!(census(&got), BTreeMap::from([(1, LEN), (2, LEN)]));
}

fn two_write<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    write_by_two::<S>(&client, &client, &server);
}

fn two_write_through_clones<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    write_by_two::<S>(&client, &client.try_clone().unwrap(), &server);
}

/// Lets two threads read, and checks that each byte goes to one of them.
fn read_by_two<S: Sockets>(client: S::Stream, one: &S::Stream, two: &S::Stream) {
    let bytes = pattern(200_000);
    let write = || {
        client.put(&bytes);
        drop(client);
    };
    let (_, (mut first, second)) = both(write, || both(|| one.get_all(), || two.get_all()));
    first.extend(second);
    assert_eq!(census(&first), census(&bytes));
}

fn two_read<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    read_by_two::<S>(client, &server, &server);
}

fn two_read_through_clones<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    read_by_two::<S>(client, &server, &server.try_clone().unwrap());
}

fn clone_is_made_while_another_thread_reads<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let late = || {
        settle();
        let clone = client.try_clone().unwrap();
        clone.put(b"question");
        assert_eq!(server.get(8), b"question");
        server.put(b"answer");
    };
    assert_eq!(both(late, || client.get(6)).1, b"answer");
}

fn shutdown_wakes_a_reader<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    let late = || {
        settle();
        client.shutdown(Shutdown::Read).unwrap();
    };
    assert_eq!(both(late, || client.recv(&mut [0; 8]).unwrap()).1, 0);
}

fn shutdown_of_both_wakes_a_reader<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let late = || {
        settle();
        client.shutdown(Shutdown::Both).unwrap();
    };
    assert_eq!(both(late, || client.recv(&mut [0; 8]).unwrap()).1, 0);
    assert_eq!(server.get_all(), b"");
}

fn shutdown_of_both_by_a_clone_wakes_all_readers<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    let clone = client.try_clone().unwrap();
    thread::scope(|scope| {
        let read = || client.recv(&mut [0; 8]).unwrap();
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(read)).collect();
        settle();
        clone.shutdown(Shutdown::Both).unwrap();
        readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), 0));
    });
}

fn shutdown_wakes_a_writer<S: Sockets>(world: &World<S>) {
    let (client, _server) = world.pair();
    let bytes = pattern(1 << 16);
    let late = || {
        settle();
        settle();
        client.shutdown(Shutdown::Write).unwrap();
    };
    let error = both(late, || error_of(|| client.send(&bytes))).1;
    assert_eq!(error.kind(), BrokenPipe);
}

fn shutdown_of_writing_does_not_wake_a_reader<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let late = || {
        settle();
        client.shutdown(Shutdown::Write).unwrap();
        settle();
        assert_eq!(server.get_all(), b"");
        server.put(b"answer");
    };
    assert_eq!(both(late, || client.get(6)).1, b"answer");
}

fn drop_of_a_clone_does_not_wake_a_reader<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let clone = client.try_clone().unwrap();
    let late = || {
        settle();
        drop(clone);
        settle();
        server.put(b"data");
    };
    assert_eq!(both(late, || client.get(4)).1, b"data");
}

fn drop_of_a_clone_does_not_wake_an_acceptor<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let clone = listener.try_clone().unwrap();
    let at = listener.addr();
    let late = || {
        settle();
        drop(clone);
        settle();
        world.connect(at).unwrap()
    };
    let (client, server) = both(late, || listener.next());
    assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
}

fn end_wakes_all_readers<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    thread::scope(|scope| {
        let read = || server.recv(&mut [0; 8]).unwrap();
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(read)).collect();
        settle();
        drop(client);
        readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), 0));
    });
}

fn time_out_set_by_another_thread_is_for_the_next_call<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let late = || {
        settle();
        client.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        settle();
        settle();
        server.put(b"late");
    };
    assert_eq!(both(late, || client.get(4)).1, b"late");
    fails(client.recv(&mut [0; 8]), WouldBlock);
}

fn moves_to_another_thread<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let server = both(
        || client.put(b"one"),
        move || {
            assert_eq!(server.get(3), b"one");
            server
        },
    );
    client.put(b"two");
    assert_eq!(server.1.get(3), b"two");
}

fn outlives_its_thread<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let client = both(|| (), || world.dial(&listener)).1;
    let server = both(|| (), || listener.next()).1;
    client.put(b"x");
    assert_eq!(server.get(1), b"x");
}

fn is_dropped_in_another_thread<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let clone = client.try_clone().unwrap();
    both(|| drop(client), || drop(clone));
    assert_eq!(server.get_all(), b"");
}

fn thread_for_each_connection<S: Sockets>(world: &World<S>) {
    const CLIENTS: u8 = 20;
    let listener = world.listener();
    thread::scope(|scope| {
        for name in 0..CLIENTS {
            let listener = &listener;
            scope.spawn(move || {
                let client = world.dial(listener);
                for turn in 0..20 {
                    client.put(&[name, turn]);
                    assert_eq!(client.get(2), [name, turn]);
                }
            });
        }
        for _ in 0..CLIENTS {
            let server = listener.next();
            scope.spawn(move || {
                for _ in 0..20 {
                    server.put(&server.get(2));
                }
            });
        }
    });
}

fn thread_for_each_connection_and_direction<S: Sockets>(world: &World<S>) {
    let listener = world.listener();
    let bytes = &pattern(50_000);
    thread::scope(|scope| {
        for _ in 0..5 {
            let (client, server) = (world.dial(&listener), listener.next());
            for end in [client, server] {
                let writer = end.try_clone().unwrap();
                scope.spawn(move || {
                    writer.put(bytes);
                    writer.shutdown(Shutdown::Write).unwrap();
                });
                scope.spawn(move || assert_same(&end.get_all(), bytes));
            }
        }
    });
}

/// Passes on all that `from` receives, and its end.
fn pump(from: &impl Stream, to: &impl Stream) {
    let mut buffer = [0; 4_096];
    loop {
        match from.recv(&mut buffer).unwrap() {
            0 => return to.shutdown(Shutdown::Write).unwrap(),
            len => to.put(&buffer[..len]),
        }
    }
}

fn proxy_passes_on_both_directions<S: Sockets>(world: &World<S>) {
    let front = world.listener();
    let back = world.sockets.listen(Side::Client, world.client()).unwrap();
    let client = world.dial(&front);
    let (near, far) = (front.next(), world.sockets.connect(Side::Server, &[back.addr()]).unwrap());
    let server = back.next();
    let (question, answer) = (pattern(300_000), pattern(200_000));
    let proxy = || both(|| pump(&near, &far), || pump(&far, &near));
    let ask = || {
        client.put(&question);
        client.shutdown(Shutdown::Write).unwrap();
        assert_same(&client.get_all(), &answer);
    };
    let serve = || {
        assert_same(&server.get_all(), &question);
        server.put(&answer);
        drop(server);
    };
    both(|| both(ask, serve), proxy);
}

fn pings_and_pongs<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    let pong = || {
        for _ in 0..500 {
            server.put(&server.get(1));
        }
    };
    let ping = || {
        for turn in 0..500 {
            client.put(&[turn as u8]);
            assert_eq!(client.get(1), [turn as u8]);
        }
    };
    both(ping, pong);
}

fn panic_of_a_thread_closes_its_connection<S: Sockets>(world: &World<S>) {
    let (client, server) = world.pair();
    client.put(b"last");
    let died = thread::scope(|scope| {
        let dies = move || {
            let _held = &client;
            // Without a panic's message among the results of cases.
            panic::resume_unwind(Box::new(()));
        };
        scope.spawn(dies).join()
    });
    assert!(died.is_err());
    assert_eq!(server.get_all(), b"last");
}
