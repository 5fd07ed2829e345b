//! Hosts that runtimes share with other runtimes and with threads.

use std::io::{Read as _, Write as _};
use std::thread;
use std::time::Duration;

use evenkeel::net::Net;
use evenkeel::net::tokio::{TcpListener, TcpStream, UdpSocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;

use super::{PATIENCE, current_thread, echo, echo_datagrams, multi_thread};

/// A blocking socket of `net` that gives up at last.
fn blocking_udp(net: &Net, address: &str) -> evenkeel::net::UdpSocket {
    let socket = evenkeel::net::UdpSocket::bind(net, address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Sends a datagram from a thread and waits for its echo.
fn ask(socket: &evenkeel::net::UdpSocket, to: &str, n: u32) {
    let mut buffer = [0; 4];
    socket.send_to(&n.to_ne_bytes(), to).unwrap();
    assert_eq!(socket.recv_from(&mut buffer).unwrap().0, 4);
    assert_eq!(buffer, n.to_ne_bytes());
}

fn runtimes() -> impl Iterator<Item = Runtime> {
    [current_thread(), multi_thread()].into_iter()
}

/// On each of the two hosts are a runtime, and threads in calls that block.
#[test]
fn threads_and_a_runtime_share_a_host() {
    for runtime in runtimes() {
        let (client, server) = Net::pair().unwrap();
        let blocking = evenkeel::net::TcpListener::bind(&server, "0.0.0.0:80").unwrap();
        let serving = thread::spawn(move || {
            for _ in 0..4 {
                let (mut stream, _) = blocking.accept().unwrap();
                thread::spawn(move || {
                    let mut data = [0; 4];
                    while stream.read_exact(&mut data).is_ok() {
                        stream.write_all(&data).unwrap();
                    }
                });
            }
        });
        let (from, to) = (client.clone(), server.clone());
        let asking: Vec<_> = (0..4)
            .map(|_| {
                let from = from.clone();
                thread::spawn(move || {
                    let mut stream = evenkeel::net::TcpStream::connect(&from, "10.0.0.2:80").unwrap();
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    let socket = blocking_udp(&from, "0.0.0.0:0");
                    for n in 0..200_u32 {
                        stream.write_all(&n.to_ne_bytes()).unwrap();
                        let mut data = [0; 4];
                        stream.read_exact(&mut data).unwrap();
                        assert_eq!(data, n.to_ne_bytes());
                        // The runtime may not listen yet.
                        if n > 100 {
                            let mut buffer = [0; 4];
                            socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
                            while socket.send_to(&n.to_ne_bytes(), "10.0.0.2:7").is_ok()
                                && socket.recv_from(&mut buffer).is_err()
                            {}
                        }
                    }
                })
            })
            .collect();
        let exchange = async {
            echo_datagrams(UdpSocket::bind(&to, "0.0.0.0:7").await.unwrap());
            echo(TcpListener::bind(&to, "0.0.0.0:8").await.unwrap());
            let mut stream = TcpStream::connect(&from, "10.0.0.2:8").await.unwrap();
            while asking.iter().any(|thread| !thread.is_finished()) {
                stream.write_u32(7).await.unwrap();
                assert_eq!(stream.read_u32().await.unwrap(), 7);
            }
        };
        runtime.block_on(async { tokio::time::timeout(PATIENCE, exchange).await }).unwrap();
        asking.into_iter().for_each(|thread| thread.join().unwrap());
        serving.join().unwrap();
        client.check().unwrap();
        server.check().unwrap();
    }
}

/// The runtime ends while a thread is parked and connections are open.
#[test]
#[expect(clippy::disallowed_methods, reason = "a thread does not tell when it is parked")]
fn a_runtime_that_ends_hands_its_role_over() {
    for runtime in runtimes() {
        let (client, server) = Net::pair().unwrap();
        let mut streams = runtime.block_on(async {
            let listener = TcpListener::bind(&server, "0.0.0.0:8").await.unwrap();
            echo_datagrams(UdpSocket::bind(&server, "0.0.0.0:9").await.unwrap());
            let mut streams = Vec::new();
            for _ in 0..10 {
                streams.push(TcpStream::connect(&client, "10.0.0.2:8").await.unwrap());
                let (mut accepted, _) = listener.accept().await.unwrap();
                tokio::spawn(async move { accepted.read(&mut [0]).await });
            }
            tokio::task::yield_now().await;
            streams
        });
        let parked = blocking_udp(&server, "0.0.0.0:7");
        let parked = thread::spawn(move || {
            for _ in 0..100 {
                let mut buffer = [0; 4];
                let (len, from) = parked.recv_from(&mut buffer).unwrap();
                parked.send_to(&buffer[..len], from).unwrap();
            }
        });
        // However far the thread is by now.
        thread::sleep(Duration::from_millis(20));
        drop(runtime);
        let socket = blocking_udp(&client, "0.0.0.0:0");
        (0..100).for_each(|n| ask(&socket, "10.0.0.2:7", n));
        parked.join().unwrap();
        // The tasks are gone, and with them their ends of the connections. The streams outlive their runtime.
        let other = current_thread();
        for stream in &mut streams {
            let ended = other.block_on(async { tokio::time::timeout(PATIENCE, stream.read(&mut [0])).await });
            assert_eq!(ended.unwrap().unwrap(), 0);
        }
        drop(streams);
        client.check().unwrap();
        server.check().unwrap();
    }
}

#[test]
fn two_runtimes_share_a_host_and_end_one_after_the_other() {
    for first in runtimes() {
        let second = multi_thread();
        let (client, server) = Net::pair().unwrap();
        for (runtime, port) in [(&first, 7), (&second, 8)] {
            runtime.block_on(async {
                echo_datagrams(UdpSocket::bind(&server, ("0.0.0.0", port)).await.unwrap());
                let socket = UdpSocket::bind(&client, "0.0.0.0:0").await.unwrap();
                for n in 0..100_u32 {
                    socket.send_to(&n.to_ne_bytes(), ("10.0.0.2", port)).await.unwrap();
                    let received = tokio::time::timeout(PATIENCE, socket.recv_from(&mut [0; 4])).await;
                    assert_eq!(received.unwrap().unwrap().0, 4);
                }
            });
        }
        drop(first);
        let socket = blocking_udp(&client, "0.0.0.0:0");
        (0..100).for_each(|n| ask(&socket, "10.0.0.2:8", n));
        drop(second);
        let answering = blocking_udp(&server, "0.0.0.0:9");
        let answering = thread::spawn(move || {
            let mut buffer = [0; 4];
            let (len, from) = answering.recv_from(&mut buffer).unwrap();
            answering.send_to(&buffer[..len], from).unwrap();
        });
        ask(&socket, "10.0.0.2:9", 9);
        answering.join().unwrap();
        client.check().unwrap();
        server.check().unwrap();
    }
}

/// A runtime of a single thread drives only in `block_on`.
#[test]
fn threads_do_not_depend_on_a_runtime_that_does_not_run() {
    let (client, server) = Net::pair().unwrap();
    let runtime = current_thread();
    let exchange = async |(client, server): &(UdpSocket, UdpSocket)| {
        client.send_to(b"again", "10.0.0.2:6").await.unwrap();
        let received = tokio::time::timeout(PATIENCE, server.recv_from(&mut [0; 5])).await;
        assert_eq!(received.unwrap().unwrap().0, 5);
    };
    // The runtime drives both hosts when this is over.
    let sockets = runtime.block_on(async {
        let sockets = (
            UdpSocket::bind(&client, "0.0.0.0:0").await.unwrap(),
            UdpSocket::bind(&server, "0.0.0.0:6").await.unwrap(),
        );
        exchange(&sockets).await;
        sockets
    });
    let answering = blocking_udp(&server, "0.0.0.0:7");
    let answering = thread::spawn(move || {
        let mut buffer = [0; 4];
        for _ in 0..100 {
            let (len, from) = answering.recv_from(&mut buffer).unwrap();
            answering.send_to(&buffer[..len], from).unwrap();
        }
    });
    let socket = blocking_udp(&client, "0.0.0.0:0");
    (0..100).for_each(|n| ask(&socket, "10.0.0.2:7", n));
    answering.join().unwrap();
    // The runtime drives again when it runs.
    runtime.block_on(exchange(&sockets));
    client.check().unwrap();
    server.check().unwrap();
}

/// The last handle goes while the runtime that drives goes on.
#[test]
fn a_host_closes_while_its_runtime_goes_on() {
    for runtime in runtimes() {
        runtime.block_on(async {
            for _ in 0..20 {
                let (client, server) = Net::pair().unwrap();
                echo(TcpListener::bind(&server, "0.0.0.0:7").await.unwrap());
                let mut stream = TcpStream::connect(&client, "10.0.0.2:7").await.unwrap();
                stream.write_all(b"x").await.unwrap();
                let read = tokio::time::timeout(PATIENCE, stream.read_exact(&mut [0])).await;
                read.unwrap().unwrap();
            }
        });
    }
}
