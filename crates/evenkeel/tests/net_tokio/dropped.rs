//! Calls, sockets, hosts and runtimes that are dropped at any moment and in any order.

use std::any::Any;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::time::Duration;

use evenkeel::net::tokio::{TcpListener, TcpStream, UdpSocket};
use evenkeel::net::{self, Net};
use evenkeel_testing::orders;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::support::{Sockets, assert_nothing_is_left, close_all, drop_calls, frugal_pair, poll_up_to};
use super::{PATIENCE, current_thread, echo, multi_thread, on_each, on_each_pair};

const SERVER: &str = "10.0.0.2:7";

/// The sockets on tokio's runtimes.
struct Ours;

impl Sockets for Ours {
    type Listener = TcpListener;
    type Stream = TcpStream;

    async fn listen(net: &Net) -> io::Result<TcpListener> {
        TcpListener::bind(net, SERVER).await
    }

    async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
        Ok(listener.accept().await?.0)
    }

    async fn connect(net: &Net) -> io::Result<TcpStream> {
        TcpStream::connect(net, SERVER).await
    }

    async fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        AsyncReadExt::read(stream, buffer).await
    }

    async fn write(stream: &mut TcpStream, data: &[u8]) -> io::Result<usize> {
        AsyncWriteExt::write(stream, data).await
    }
}

#[test]
fn calls_that_are_dropped_at_random_leave_nothing_behind() {
    for seed in 1..=3 {
        on_each_pair(frugal_pair, async |client, server| drop_calls::<Ours>(&client, &server, seed).await);
    }
}

/// Each datagram comes once, to a call that was not dropped.
#[test]
fn no_datagram_is_lost_by_calls_that_are_dropped() {
    on_each(async |client, server| {
        let socket = UdpSocket::bind(&server, SERVER).await?;
        let asking = UdpSocket::bind(&client, "0.0.0.0:0").await?;
        for n in 0..2_000_u32 {
            let mut buffer = [0; 4];
            assert!(poll_up_to(u64::from(n % 5), socket.recv(&mut buffer)).await.is_none());
            asking.send_to(&n.to_ne_bytes(), SERVER).await?;
            let early = poll_up_to(u64::from(n % 3), socket.recv(&mut buffer)).await.transpose()?;
            if early.is_none() {
                socket.recv(&mut buffer).await?;
            }
            assert_eq!(buffer, n.to_ne_bytes());
        }
        Ok(())
    });
}

/// The peer of a dropped stream reads its end, whatever else has been dropped before.
#[test]
fn hosts_and_sockets_may_be_dropped_in_any_order() {
    let drop_in = async |order: Vec<usize>| {
        let (client, server) = Net::pair()?;
        let listener = TcpListener::bind(&server, SERVER).await?;
        let (near, accepted) = tokio::join!(TcpStream::connect(&client, SERVER), listener.accept());
        let mut streams = [Some(near?), Some(accepted?.0)];
        let others: [Box<dyn Any>; 3] = [Box::new(client), Box::new(server), Box::new(listener)];
        let mut others = others.map(Some);
        for part in order {
            if part >= streams.len() {
                others[part - streams.len()] = None;
                continue;
            }
            streams[part] = None;
            if let Some(peer) = streams[1 - part].as_mut() {
                assert_eq!(peer.read(&mut [0]).await?, 0);
            }
        }
        Ok::<_, io::Error>(())
    };
    for runtime in [current_thread(), multi_thread()] {
        for order in orders(5) {
            runtime
                .block_on(async { tokio::time::timeout(PATIENCE, drop_in(order)).await })
                .unwrap()
                .unwrap();
        }
    }
}

#[test]
fn sockets_leave_nothing_behind_in_whatever_order_they_are_dropped() {
    for order in orders(4) {
        on_each(async |client, server| {
            let listener = TcpListener::bind(&server, SERVER).await?;
            let (near, accepted) = tokio::join!(TcpStream::connect(&client, SERVER), listener.accept());
            let waiting = UdpSocket::bind(&server, SERVER).await?;
            let waiting = tokio::spawn(async move { waiting.recv(&mut [0]).await });
            let parts: [Box<dyn Any>; 4] =
                [Box::new(listener), Box::new(near?), Box::new(accepted?.0), Box::new(Aborts(waiting))];
            let mut parts = parts.map(Some);
            for &part in &order {
                parts[part] = None;
                tokio::task::yield_now().await;
            }
            Ok(())
        });
    }
}

/// A task that is aborted when this is dropped.
struct Aborts<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for Aborts<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[test]
fn a_task_that_panics_closes_what_it_had_and_others_go_on() {
    on_each(async |client, server| {
        let listener = TcpListener::bind(&server, SERVER).await?;
        let (near, accepted) = tokio::join!(TcpStream::connect(&client, SERVER), listener.accept());
        let (mut near, mut far) = (near?, accepted?.0);
        near.set_nodelay(true)?;
        for _ in 0..50 {
            let (dying, accepted) = tokio::join!(TcpStream::connect(&client, SERVER), listener.accept());
            let (mut dying, accepted) = (dying?, accepted?.0);
            let task = tokio::spawn(async move {
                let _open = accepted;
                std::panic::resume_unwind(Box::new(()));
            });
            assert!(task.await.unwrap_err().is_panic());
            assert_eq!(dying.read(&mut [0]).await?, 0);
            near.write_all(b"on").await?;
            far.read_exact(&mut [0; 2]).await?;
        }
        Ok(())
    });
}

#[test]
fn a_descriptor_that_is_closed_ends_the_calls_of_tasks() {
    on_each(async |client, server| {
        let listener = TcpListener::bind(&server, SERVER).await?;
        let (near, accepted) = tokio::join!(TcpStream::connect(&client, SERVER), listener.accept());
        let ((_near, mut far), udp) = ((near?, accepted?.0), UdpSocket::bind(&server, SERVER).await?);
        let calls = [
            tokio::spawn(async move { far.read(&mut [0]).await.map(drop) }),
            tokio::spawn(async move { udp.recv(&mut [0]).await.map(drop) }),
            tokio::spawn(async move { listener.accept().await.map(drop) }),
        ];
        // All of them wait.
        tokio::time::sleep(Duration::from_millis(20)).await;
        close_all(&server);
        for call in calls {
            call.await.unwrap().unwrap_err();
        }
        assert!(UdpSocket::bind(&server, SERVER).await.is_err());
        Ok(())
    });
}

/// Opens connections from threads, and has each echo something.
fn open(client: &Net) -> Vec<net::TcpStream> {
    let open = |_| {
        let mut stream = net::TcpStream::connect(client, SERVER).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"here").unwrap();
        stream.read_exact(&mut [0; 4]).unwrap();
        stream
    };
    (0..10).map(open).collect()
}

/// The peers of the connections see their end, or a reset.
#[test]
fn the_next_runtime_serves_at_the_port_of_one_that_was_dropped_with_open_connections() {
    let (client, server) = frugal_pair();
    for round in 0..20 {
        let runtime = if round % 2 == 0 { multi_thread() } else { current_thread() };
        let asking = runtime.block_on(async {
            echo(TcpListener::bind(&server, SERVER).await.unwrap());
            let client = client.clone();
            tokio::task::spawn_blocking(move || open(&client)).await.unwrap()
        });
        drop(runtime);
        for mut stream in asking {
            match stream.read(&mut [0]) {
                Ok(0) => {}
                other => assert_eq!(other.unwrap_err().kind(), ErrorKind::ConnectionReset),
            }
        }
    }
    assert_nothing_is_left(&client);
    assert_nothing_is_left(&server);
}
