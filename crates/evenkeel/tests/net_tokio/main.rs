//! Sockets on tokio's runtimes, over a cable.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod cancelled;
mod device;
mod dropped;
mod half_closed;
mod killed;
mod many;
mod shared;
#[path = "../support/mod.rs"]
mod support;
mod udp;

use std::future::Future;
use std::io;
use std::time::Duration;

use evenkeel::net::Net;
use evenkeel::net::tokio::{TcpListener, TcpStream, UdpSocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

use support::assert_nothing_is_left;

/// Long enough for a machine with other things to do.
const PATIENCE: Duration = Duration::from_secs(120);

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Runs a test with the two hosts of a cable, on both kinds of runtimes. Afterwards the hosts account for
/// every frame, and have no socket and no connection left.
fn on_each<F: Future<Output = io::Result<()>>>(test: impl Fn(Net, Net) -> F) {
    on_each_pair(|| Net::pair().unwrap(), test);
}

/// Runs a test as [`on_each`] does, with hosts that `pair` opens.
fn on_each_pair<F: Future<Output = io::Result<()>>>(
    pair: impl Fn() -> (Net, Net),
    test: impl Fn(Net, Net) -> F,
) {
    for runtime in [current_thread(), multi_thread()] {
        let (client, server) = pair();
        let tested = test(client.clone(), server.clone());
        runtime.block_on(async { tokio::time::timeout(PATIENCE, tested).await }).unwrap().unwrap();
        client.check().unwrap();
        server.check().unwrap();
        drop(runtime);
        assert_nothing_is_left(&client);
        assert_nothing_is_left(&server);
    }
}

/// Echoes on every connection to a listener.
fn echo(listener: TcpListener) {
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                tokio::io::copy(&mut reader, &mut writer).await.unwrap();
            });
        }
    });
}

/// Answers every datagram with itself.
fn echo_datagrams(socket: UdpSocket) {
    tokio::spawn(async move {
        let mut buffer = [0; 2_000];
        loop {
            let (len, from) = socket.recv_from(&mut buffer).await.unwrap();
            socket.send_to(&buffer[..len], from).await.unwrap();
        }
    });
}

#[test]
fn streams_carry_requests_and_answers() {
    on_each(async |client, server| {
        echo(TcpListener::bind(&server, "0.0.0.0:7").await?);
        let mut stream = TcpStream::connect(&client, "10.0.0.2:7").await?;
        assert_eq!(stream.peer_addr()?, "10.0.0.2:7".parse().unwrap());
        for n in 0..1_000_u32 {
            stream.write_all(&n.to_ne_bytes()).await?;
            assert_eq!(stream.read_u32_le().await?, n);
        }
        stream.shutdown().await?;
        assert_eq!(stream.read(&mut [0]).await?, 0);
        Ok(())
    });
}

#[test]
fn a_port_without_a_listener_refuses() {
    on_each(async |client, _server| {
        let refused = TcpStream::connect(&client, "10.0.0.2:9").await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        Ok(())
    });
}

#[test]
fn datagrams_carry_requests_and_answers() {
    on_each(async |client, server| {
        echo_datagrams(UdpSocket::bind(&server, "0.0.0.0:7").await?);
        let socket = UdpSocket::bind(&client, "0.0.0.0:0").await?;
        socket.connect("10.0.0.2:7").await?;
        for n in 0..1_000_u32 {
            socket.send(&n.to_ne_bytes()).await?;
            let mut buffer = [0; 4];
            assert_eq!(socket.peek(&mut buffer).await?, 4);
            socket.readable().await?;
            assert_eq!(socket.recv(&mut buffer).await?, 4);
            assert_eq!(buffer, n.to_ne_bytes());
        }
        assert_eq!(socket.try_recv(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        Ok(())
    });
}

/// The bytes that each end of a connection sends to the other.
const BYTES: usize = 3_000_000;

fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

/// Writes until no byte has room, while nothing is read, and reads only then.
async fn exchange(stream: TcpStream) -> io::Result<()> {
    let (mut reader, mut writer) = stream.into_split();
    let writing = tokio::spawn(async move {
        let data: Vec<u8> = (0..BYTES).map(byte).collect();
        let (mut waited, mut rest) = (0_u32, &data[..]);
        while !rest.is_empty() {
            match writer.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    waited += 1;
                    writer.writable().await?;
                }
                Err(error) => return Err(error),
            }
        }
        writer.shutdown().await?;
        Ok(waited)
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (mut buffer, mut at) = (vec![0; 5_000], 0);
    loop {
        let len = reader.read(&mut buffer).await?;
        if len == 0 {
            break;
        }
        assert!(buffer[..len].iter().enumerate().all(|(nth, &found)| found == byte(at + nth)), "at {at}");
        at += len;
    }
    assert_eq!(at, BYTES);
    assert!(writing.await.unwrap()? > 0, "there was room for everything");
    Ok(())
}

#[test]
fn writers_wait_for_slow_readers_and_no_byte_is_lost() {
    on_each(async |client, server| {
        let listener = TcpListener::bind(&server, "0.0.0.0:7").await?;
        let accepting = tokio::spawn(async move { listener.accept().await.unwrap().0 });
        let near = TcpStream::connect(&client, "10.0.0.2:7").await?;
        let far = tokio::spawn(exchange(accepting.await.unwrap()));
        exchange(near).await?;
        far.await.unwrap()
    });
}

#[test]
fn halves_end_writing_when_dropped_and_can_be_put_together() {
    on_each(async |client, server| {
        echo(TcpListener::bind(&server, "0.0.0.0:7").await?);
        let (reader, mut writer) = TcpStream::connect(&client, "10.0.0.2:7").await?.into_split();
        writer.write_all(b"whole").await?;
        let mut stream = reader.reunite(writer).unwrap();
        stream.read_exact(&mut [0; 5]).await?;
        let (mut reader, writer) = stream.into_split();
        let other = TcpStream::connect(&client, "10.0.0.2:7").await?.into_split();
        let evenkeel::net::tokio::ReuniteError(_, writer) = other.0.reunite(writer).unwrap_err();
        drop(writer);
        assert_eq!(reader.read(&mut [0]).await?, 0);
        Ok(())
    });
}

#[test]
fn a_stream_that_does_not_linger_resets_its_connection() {
    on_each(async |client, server| {
        let listener = TcpListener::bind(&server, "0.0.0.0:7").await?;
        let near = TcpStream::connect(&client, "10.0.0.2:7").await?;
        let (mut far, _) = listener.accept().await?;
        near.set_zero_linger()?;
        drop(near);
        assert_eq!(far.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        Ok(())
    });
}

#[test]
fn a_constructor_outside_of_a_runtime_fails() {
    let (net, _peer) = Net::pair().unwrap();
    let mut bind = std::pin::pin!(TcpListener::bind(&net, "0.0.0.0:7"));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(matches!(bind.as_mut().poll(&mut context), std::task::Poll::Ready(Err(_))));
}
