//! A host that threads share: who is woken, who does the work, and what is left when threads go.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[allow(dead_code, reason = "these tests have no tasks")]
mod support;

use std::any::Any;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use evenkeel::net::{Net, TcpListener, TcpStream, UdpSocket};
use evenkeel::raw::time::Clock;
use evenkeel_testing::{orders, wait_for};
use support::{assert_nothing_is_left, close_all};

const SERVER: &str = "10.0.0.2";

/// Opens two hosts with a cable between them, the client's and the server's. Checks their books when the
/// test is over.
fn hosts() -> (Checked, Checked) {
    let (client, server) = Net::pair().unwrap();
    (Checked(client), Checked(server))
}

/// A host whose frames are all accounted for when it goes.
struct Checked(Net);

impl std::ops::Deref for Checked {
    type Target = Net;

    fn deref(&self) -> &Net {
        &self.0
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.0.raw(|host| host.check().unwrap());
        }
    }
}

fn connected(client: &Net, server: &Net, port: u16) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(server, ("0.0.0.0", port)).unwrap();
    let stream = TcpStream::connect(client, (SERVER, port)).unwrap();
    (stream, listener.accept().unwrap().0)
}

/// Returns the time that the calling thread has computed.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn a_writer_that_is_blocked_while_something_unread_waits_uses_no_time() {
    let (client, server) = hosts();
    let (mut near, mut far) = connected(&client, &server, 80);
    far.write_all(b"unread").unwrap();
    let mut peeked = [0];
    near.peek(&mut peeked).unwrap();
    near.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    // The peer does not read.
    while near.write(&[0; 65_536]).is_ok() {}
    let before = thread_time();
    assert_eq!(near.write(&[0; 65_536]).unwrap_err().kind(), ErrorKind::WouldBlock);
    let used = thread_time() - before;
    assert!(used < Duration::from_millis(30), "{used:?} of 300 ms");
    drop((near, far));
}

#[test]
fn many_threads_talk_through_one_host_each() {
    const THREADS: u16 = 24;
    let (client, server) = hosts();
    let listener = TcpListener::bind(&server, "0.0.0.0:80").unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..THREADS {
                let (mut stream, _) = listener.accept().unwrap();
                scope.spawn(move || {
                    let mut buffer = [0; 1_000];
                    loop {
                        match stream.read(&mut buffer).unwrap() {
                            0 => break,
                            len => stream.write_all(&buffer[..len]).unwrap(),
                        }
                    }
                });
            }
        });
        for nth in 0..THREADS {
            let udp = UdpSocket::bind(&server, ("0.0.0.0", 1_000 + nth)).unwrap();
            scope.spawn(move || {
                let mut buffer = [0; 100];
                for _ in 0..50 {
                    let (len, from) = udp.recv_from(&mut buffer).unwrap();
                    udp.send_to(&buffer[..len], from).unwrap();
                }
            });
            let client = &client;
            scope.spawn(move || {
                let mut stream = TcpStream::connect(client, (SERVER, 80)).unwrap();
                let udp = UdpSocket::bind(client, "0.0.0.0:0").unwrap();
                for round in 0..50_u32 {
                    let (sent, mut received) = ((u32::from(nth) << 16 | round).to_be_bytes(), [0; 4]);
                    stream.write_all(&sent).unwrap();
                    udp.send_to(&sent, (SERVER, 1_000 + nth)).unwrap();
                    stream.read_exact(&mut received).unwrap();
                    assert_eq!(received, sent);
                    let (len, _) = udp.recv_from(&mut received).unwrap();
                    assert_eq!(received[..len], sent);
                }
            });
        }
    });
}

/// While its thread computes, somebody else acknowledges what comes, so that the sender goes on.
#[test]
fn the_helper_stands_in_for_a_thread_that_computes() {
    let (client, server) = hosts();
    let (mut near, far) = connected(&client, &server, 80);
    // More than a window's worth of segments is acknowledged only if the peer's host processes them.
    near.write_all(&[7; 40_000]).unwrap();
    let unacknowledged = || near.info().unwrap().1.send_queue;
    wait_for("the acknowledgment", || unacknowledged() == 0);
    drop(far);
}

#[test]
fn a_host_answers_while_no_thread_is_in_a_call() {
    let (client, server) = hosts();
    let silent = UdpSocket::bind(&server, "0.0.0.0:9").unwrap();
    let asking = UdpSocket::bind(&client, "0.0.0.0:0").unwrap();
    // The first datagram waits for the answer to an ARP request.
    asking.send_to(b"one", (SERVER, 9)).unwrap();
    silent.set_nonblocking(true).unwrap();
    let mut buffer = [0; 10];
    wait_for("the datagram", || silent.recv_from(&mut buffer).is_ok_and(|(len, _)| len == 3));
}

#[test]
fn a_shutdown_ends_the_calls_that_wait() {
    let (client, server) = hosts();
    let (near, mut far) = connected(&client, &server, 80);
    let (reader, begun) = (near.try_clone().unwrap(), Barrier::new(2));
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            begun.wait();
            (&reader).read(&mut [0; 10]).unwrap()
        });
        begun.wait();
        evenkeel_testing::pause(Duration::from_millis(5));
        near.shutdown(Shutdown::Both).unwrap();
        assert_eq!(reading.join().unwrap(), 0);
    });
    assert_eq!(far.read(&mut [0; 10]).unwrap(), 0);
}

#[test]
fn a_thread_that_panics_between_its_calls_leaves_the_host_to_the_others() {
    let (client, server) = hosts();
    let echo = UdpSocket::bind(&server, "0.0.0.0:7").unwrap();
    let asking = UdpSocket::bind(&client, "0.0.0.0:0").unwrap();
    let panicking = echo.try_clone().unwrap();
    thread::spawn(move || {
        panicking.recv_from(&mut [0; 10]).unwrap();
        std::panic::resume_unwind(Box::new(()));
    });
    asking.send_to(b"x", (SERVER, 7)).unwrap();
    thread::spawn(move || {
        let (_, from) = echo.recv_from(&mut [0; 10]).unwrap();
        echo.send_to(b"answer", from).unwrap();
    });
    asking.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    wait_for("the answer", || {
        asking.send_to(b"y", (SERVER, 7)).unwrap();
        asking.recv_from(&mut [0; 10]).is_ok_and(|(len, _)| len == 6)
    });
}

#[test]
fn what_was_written_arrives_after_all_handles_of_the_host_are_gone() {
    const BYTES: usize = 3_000_000;
    let (client, server) = Net::pair().unwrap();
    let (mut near, mut far) = connected(&client, &server, 80);
    let writing = thread::spawn(move || {
        near.write_all(&vec![5; BYTES]).unwrap();
        drop((near, client));
    });
    let mut received = Vec::new();
    far.read_to_end(&mut received).unwrap();
    assert!(received.len() == BYTES && received.iter().all(|&byte| byte == 5));
    writing.join().unwrap();
    drop((far, server));
}

/// The peer of a dropped stream reads its end, whatever else has been dropped before.
#[test]
fn hosts_and_sockets_may_be_dropped_in_any_order() {
    for order in orders(5) {
        let (client, server) = Net::pair().unwrap();
        let listener = bound_listener(&server, 80);
        let near = TcpStream::connect(&client, (SERVER, 80)).unwrap();
        let mut streams = [Some(near), Some(listener.accept().unwrap().0)];
        let others: [Box<dyn Any>; 3] = [Box::new(client), Box::new(server), Box::new(listener)];
        let mut others = others.map(Some);
        for part in order {
            if part >= streams.len() {
                others[part - streams.len()] = None;
                continue;
            }
            streams[part] = None;
            if let Some(mut peer) = streams[1 - part].as_ref() {
                peer.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                assert_eq!(peer.read(&mut [0]).unwrap(), 0);
            }
        }
    }
}

#[test]
fn sockets_leave_nothing_behind_in_whatever_order_they_are_dropped() {
    for order in orders(4) {
        let (client, server) = hosts();
        let (near, far) = connected(&client, &server, 80);
        (&near).write_all(b"unread").unwrap();
        let parts: [Box<dyn Any>; 4] = [
            Box::new(near),
            Box::new(far),
            Box::new(bound_listener(&server, 81)),
            Box::new(bound(&server, 7)),
        ];
        let mut parts = parts.map(Some);
        order.into_iter().for_each(|part| parts[part] = None);
        assert_nothing_is_left(&client);
        assert_nothing_is_left(&server);
    }
}

/// Makes requests of an echo service on port 9 of a host, until it is dropped.
fn ask_echo(client: &Net) {
    let socket = UdpSocket::bind(client, "0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    wait_for("the echo", || {
        socket.send_to(b"ask", (SERVER, 9)).unwrap();
        socket.recv_from(&mut [0; 10]).is_ok()
    });
}

/// Answers one datagram on port 9 from a thread, which waits for it from now on.
fn echo_once(server: &Net) -> thread::JoinHandle<()> {
    let socket = bound(server, 9);
    thread::spawn(move || {
        let (len, from) = socket.recv_from(&mut [0; 10]).unwrap();
        socket.send_to(&[0; 10][..len], from).unwrap();
    })
}

#[test]
fn a_panic_in_a_thread_that_holds_the_host_leaves_it_to_the_others() {
    let (client, server) = hosts();
    for net in [&server, &client, &server] {
        let waiting = echo_once(&server);
        let (near, far) = connected(&client, &server, 80);
        let holder = Net::clone(net);
        let died = thread::spawn(move || {
            let _open = (&near, &far);
            holder.raw(|_| std::panic::resume_unwind(Box::new(())));
        });
        assert!(died.join().is_err());
        ask_echo(&client);
        waiting.join().unwrap();
        assert_nothing_is_left(&client);
        assert_nothing_is_left(&server);
    }
}

#[test]
fn sockets_of_a_thread_that_panics_are_closed_and_their_ports_are_free() {
    let (client, server) = hosts();
    for _ in 0..10 {
        let (near, far) = connected(&client, &server, 80);
        let (udp, listener) = (bound(&server, 7), bound_listener(&server, 81));
        let waiting = echo_once(&server);
        let died = thread::spawn(move || {
            let _open = (far, udp, listener);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(died.join().is_err());
        assert_eq!((&near).read(&mut [0]).unwrap(), 0);
        drop(near);
        ask_echo(&client);
        waiting.join().unwrap();
        assert_nothing_is_left(&client);
        assert_nothing_is_left(&server);
    }
}

#[test]
fn a_descriptor_that_is_closed_ends_the_calls_that_wait_for_it() {
    const BYTES: usize = 10_000_000;
    let (client, server) = hosts();
    let (near, far) = connected(&client, &server, 80);
    let (udp, listener) = (bound(&server, 7), bound_listener(&server, 81));
    let opened = TcpStream::connect(&server, ("10.0.0.1", 1)).map(drop);
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    thread::scope(|scope| {
        let calls = [
            scope.spawn(|| (&far).read(&mut [0]).map(drop)),
            scope.spawn(|| udp.recv(&mut [0]).map(drop)),
            scope.spawn(|| listener.accept().map(drop)),
            scope.spawn(|| (&far).write_all(&vec![0; BYTES])),
        ];
        evenkeel_testing::pause(Duration::from_millis(20));
        close_all(&server);
        for call in calls {
            call.join().unwrap().unwrap_err();
        }
    });
    // The peer reads what had been written, and then the end.
    let read = io::copy(&mut &near, &mut io::sink()).unwrap();
    assert!(read < BYTES as u64, "{read}");
    udp.recv(&mut [0]).unwrap_err();
    UdpSocket::bind(&server, "0.0.0.0:7").unwrap_err();
    drop(near);
    assert_nothing_is_left(&client);
    assert_nothing_is_left(&server);
}

/// Each thread waits for one of the others, so whoever drives has to pass on what is not its own.
#[test]
fn a_token_goes_round_through_all_threads() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 200;
    let (client, server) = hosts();
    let sockets: Vec<_> = (0..THREADS)
        .map(|nth| {
            let (net, port) = if nth.is_multiple_of(2) { (&client, 100) } else { (&server, 200) };
            let socket = UdpSocket::bind(net, ("0.0.0.0", port + nth as u16)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            socket
        })
        .collect();
    let address = |nth: usize| {
        let (host, port) = if nth.is_multiple_of(2) { ("10.0.0.1", 100) } else { (SERVER, 200) };
        (host, port + nth as u16)
    };
    let passed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for (nth, socket) in sockets.iter().enumerate() {
            let (passed, address) = (&passed, &address);
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    socket.recv_from(&mut [0; 4]).unwrap();
                    if passed.fetch_add(1, Ordering::Relaxed) + 1 < THREADS * ROUNDS {
                        socket.send_to(b"go", address((nth + 1) % THREADS)).unwrap();
                    }
                }
            });
        }
        sockets[THREADS - 1].send_to(b"go", address(0)).unwrap();
    });
    assert_eq!(passed.load(Ordering::Relaxed), THREADS * ROUNDS);
}

#[test]
fn threads_that_compute_do_not_keep_others_from_their_data() {
    let (client, server) = hosts();
    let (busy, quick) = (bound(&server, 1), bound(&server, 2));
    let over = Arc::new(AtomicBool::new(false));
    let computing = Arc::clone(&over);
    let thread = thread::spawn(move || {
        busy.recv_from(&mut [0; 10]).unwrap();
        // It has driven the host, and now it computes.
        while !computing.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    let echoing = thread::spawn(move || {
        for _ in 0..100 {
            let (len, from) = quick.recv_from(&mut [0; 10]).unwrap();
            quick.send_to(&[0; 10][..len], from).unwrap();
        }
    });
    let asking = UdpSocket::bind(&client, "0.0.0.0:0").unwrap();
    asking.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    asking.send_to(b"go", (SERVER, 1)).unwrap();
    for _ in 0..100 {
        asking.send_to(b"ping", (SERVER, 2)).unwrap();
        asking.recv_from(&mut [0; 10]).unwrap();
    }
    over.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    echoing.join().unwrap();
}

fn bound_listener(net: &Net, port: u16) -> TcpListener {
    TcpListener::bind(net, ("0.0.0.0", port)).unwrap()
}

fn bound(net: &Net, port: u16) -> UdpSocket {
    UdpSocket::bind(net, ("0.0.0.0", port)).unwrap()
}

#[test]
fn a_call_waits_for_its_time_and_not_for_less() {
    let (_client, server) = hosts();
    let socket = bound(&server, 1);
    socket.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
    // A second thread, so that one drives and one is parked.
    let other = socket.try_clone().unwrap();
    let waits = move |socket: UdpSocket| {
        let clock = Clock::start();
        let begun = clock.now();
        assert_eq!(socket.recv_from(&mut [0; 10]).unwrap_err().kind(), ErrorKind::WouldBlock);
        clock.now().since(begun)
    };
    let parked = thread::spawn(move || waits(other));
    assert!(waits(socket) >= Duration::from_millis(30));
    assert!(parked.join().unwrap() >= Duration::from_millis(30));
}

#[test]
fn snapshots_are_taken_from_any_thread_whoever_drives() {
    let (client, server) = hosts();
    let socket = bound(&server, 1);
    let reader = server.metrics().unwrap();
    let read = || {
        let snapshot = reader.snapshot(Duration::from_secs(30)).unwrap();
        snapshot.check().unwrap();
        snapshot.sockets.len()
    };
    // Nobody is in a call.
    assert_eq!(read(), server.snapshot().sockets.len());
    let begun = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            begun.wait();
            socket.recv_from(&mut [0; 10]).unwrap();
        });
        begun.wait();
        let sockets = read();
        assert!(sockets > 0);
        let asking = UdpSocket::bind(&client, "0.0.0.0:0").unwrap();
        asking.send_to(b"x", (SERVER, 1)).unwrap();
    });
}
