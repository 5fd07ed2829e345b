//! UDP sockets that several threads use.

use std::collections::BTreeSet;
use std::ops::Range;
use std::thread;

use crate::cases;
use crate::face::{Side, Sockets, Udp};
use crate::world::{World, both, settle};

cases![
    sends_while_another_thread_waits,
    clone_sends_while_the_original_waits,
    clone_answers_for_the_original,
    each_datagram_goes_to_one_of_two_receivers,
    each_datagram_goes_to_one_of_two_clones,
    two_send,
    many_clients_are_answered,
    drop_of_a_clone_does_not_wake_a_receiver,
    threads_wait_at_their_own_sockets,
    moves_to_another_thread,
    is_connected_while_another_thread_waits,
];

fn sends_while_another_thread_waits<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let late = || {
        settle();
        client.put(b"question", server.addr());
        let (datagram, from) = server.get();
        server.put(&datagram, from);
    };
    assert_eq!(both(late, || client.get()).1, (b"question".to_vec(), server.addr()));
}

fn clone_sends_while_the_original_waits<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_connected();
    let clone = client.try_clone().unwrap();
    let late = || {
        settle();
        clone.send(b"question").unwrap();
        server.send(&server.get().0).unwrap();
    };
    assert_eq!(both(late, || client.get().0).1, b"question");
}

fn clone_answers_for_the_original<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let clone = server.try_clone().unwrap();
    client.put(b"question", server.addr());
    let (datagram, from) = server.get();
    both(|| (), move || clone.put(&datagram, from));
    assert_eq!(client.get().1, server.addr());
}

/// Lets two threads receive, and checks that each datagram goes to one of them.
fn receive_by_two<S: Sockets>(world: &World<S>, one: &S::Udp, two: &S::Udp) {
    let client = world.udp(Side::Client);
    let receive = |socket: &S::Udp| {
        let mut names = Vec::new();
        loop {
            match socket.get().0[..] {
                [name] => names.push(name),
                _ => return names,
            }
        }
    };
    let send = || {
        for name in 0..100 {
            client.put(&[name], one.addr());
            if name % 10 == 0 {
                settle();
            }
        }
        // One for each of the two.
        client.put(b"", one.addr());
        client.put(b"", one.addr());
    };
    let (_, (mut names, others)) = both(send, || both(|| receive(one), || receive(two)));
    names.extend(others);
    names.sort_unstable();
    assert_eq!(names, (0..100).collect::<Vec<_>>());
}

fn each_datagram_goes_to_one_of_two_receivers<S: Sockets>(world: &World<S>) {
    let server = world.udp(Side::Server);
    receive_by_two(world, &server, &server);
}

fn each_datagram_goes_to_one_of_two_clones<S: Sockets>(world: &World<S>) {
    let server = world.udp(Side::Server);
    receive_by_two(world, &server, &server.try_clone().unwrap());
}

fn two_send<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let clone = client.try_clone().unwrap();
    let send = |socket: &S::Udp, names: Range<u8>| {
        for name in names {
            socket.put(&[name], server.addr());
        }
    };
    both(|| send(&client, 0..10), || send(&clone, 10..20));
    let names: BTreeSet<_> = (0..20).map(|_| server.get().0[0]).collect();
    assert_eq!(names, (0..20).collect());
}

fn many_clients_are_answered<S: Sockets>(world: &World<S>) {
    const CLIENTS: u8 = 10;
    let server = world.udp(Side::Server);
    thread::scope(|scope| {
        for name in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || {
                let client = world.udp(Side::Client);
                for turn in 0..20 {
                    client.put(&[name, turn], server.addr());
                    assert_eq!(client.get().0, [name, turn]);
                }
            });
        }
        for _ in 0..20 * u32::from(CLIENTS) {
            let (datagram, from) = server.get();
            server.put(&datagram, from);
        }
    });
}

fn drop_of_a_clone_does_not_wake_a_receiver<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let (clone, at) = (server.try_clone().unwrap(), server.addr());
    let late = || {
        settle();
        drop(clone);
        settle();
        client.put(b"data", at);
    };
    assert_eq!(both(late, || server.get().0).1, b"data");
}

fn threads_wait_at_their_own_sockets<S: Sockets>(world: &World<S>) {
    let client = world.udp(Side::Client);
    let servers: Vec<_> = (0..8).map(|_| world.udp(Side::Server)).collect();
    thread::scope(|scope| {
        for (name, server) in (0..).zip(&servers) {
            scope.spawn(move || assert_eq!(server.get().0, [name]));
        }
        settle();
        for (name, server) in (0..8).zip(&servers).rev() {
            client.put(&[name], server.addr());
        }
    });
}

fn moves_to_another_thread<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let at = server.addr();
    client.put(b"one", at);
    let server = both(
        || (),
        move || {
            assert_eq!(server.get().0, b"one");
            server
        },
    )
    .1;
    client.put(b"two", at);
    assert_eq!(server.get().0, b"two");
}

fn is_connected_while_another_thread_waits<S: Sockets>(world: &World<S>) {
    let (client, server) = world.udp_pair();
    let late = || {
        settle();
        server.connect(client.addr()).unwrap();
        client.put(b"peer", server.addr());
    };
    assert_eq!(both(late, || server.get()).1, (b"peer".to_vec(), client.addr()));
}
