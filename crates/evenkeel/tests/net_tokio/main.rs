//! Sockets on tokio's runtimes, over a cable.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::future::Future;
use std::io;
use std::time::Duration;

use evenkeel::net::Net;
use evenkeel::net::tokio::{TcpListener, TcpStream, UdpSocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// Long enough for a machine with other things to do.
const PATIENCE: Duration = Duration::from_secs(60);

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Runs a test on both kinds of runtimes.
fn on_each<F: Future<Output = io::Result<()>>>(test: impl Fn() -> F) {
    for runtime in [current_thread(), multi_thread()] {
        runtime.block_on(async { tokio::time::timeout(PATIENCE, test()).await }).unwrap().unwrap();
    }
}

/// Echoes on every connection, until the test ends.
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

#[test]
fn tcp_echoes() {
    on_each(|| async {
        let (client, server) = Net::pair()?;
        echo(TcpListener::bind(&server, "0.0.0.0:7").await?);
        let mut stream = TcpStream::connect(&client, "10.0.0.2:7").await?;
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
fn udp_echoes() {
    on_each(|| async {
        let (client, server) = Net::pair()?;
        let server = UdpSocket::bind(&server, "0.0.0.0:7").await?;
        tokio::spawn(async move {
            let mut buffer = [0; 100];
            loop {
                let (len, from) = server.recv_from(&mut buffer).await.unwrap();
                server.send_to(&buffer[..len], from).await.unwrap();
            }
        });
        let socket = UdpSocket::bind(&client, "0.0.0.0:0").await?;
        socket.connect("10.0.0.2:7").await?;
        for n in 0..1_000_u32 {
            socket.send(&n.to_ne_bytes()).await?;
            let mut buffer = [0; 4];
            assert_eq!(socket.recv(&mut buffer).await?, 4);
            assert_eq!(buffer, n.to_ne_bytes());
        }
        Ok(())
    });
}
