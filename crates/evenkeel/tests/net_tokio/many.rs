//! Ten thousand tasks at a time.

use std::io;
use std::sync::Arc;

use evenkeel::net::Net;
use evenkeel::net::tokio::{TcpListener, TcpStream, UdpSocket};
use evenkeel::raw::host::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Barrier, Semaphore};
use tokio::task::JoinSet;

use super::{echo, echo_datagrams, on_each, on_each_pair};

const TASKS: u32 = 10_000;

async fn all(mut tasks: JoinSet<io::Result<()>>) -> io::Result<()> {
    let mut done = 0;
    while let Some(task) = tasks.join_next().await {
        task.unwrap()?;
        done += 1;
    }
    assert_eq!(done, TASKS);
    Ok(())
}

#[test]
fn each_of_ten_thousand_tasks_has_a_connection() {
    on_each(async |client, server| {
        echo(TcpListener::bind(&server, "0.0.0.0:7").await?);
        let (at_once, all_open) = (Arc::new(Semaphore::new(64)), Arc::new(Barrier::new(TASKS as usize)));
        let mut tasks = JoinSet::new();
        for n in 0..TASKS {
            let (client, at_once, all_open) = (client.clone(), at_once.clone(), all_open.clone());
            tasks.spawn(async move {
                // What comes at once and finds no room in a queue is lost, and repeated much later.
                let permit = at_once.acquire().await.unwrap();
                let mut stream = TcpStream::connect(&client, "10.0.0.2:7").await?;
                drop(permit);
                all_open.wait().await;
                let _permit = at_once.acquire().await.unwrap();
                stream.write_u32(n).await?;
                assert_eq!(stream.read_u32().await?, n);
                Ok(())
            });
        }
        all(tasks).await
    });
}

#[test]
fn each_of_ten_thousand_tasks_exchanges_datagrams() {
    // Each queue reserves its buffers.
    let config = Config { channel_pkts: 8, socket_queue_pkts: 8, memory_pkts: 1 << 18, ..Config::default() };
    let pair = || {
        let client = Net::builder().link("cable").config(config.clone()).open().unwrap();
        let server = client.peer().unwrap().clone();
        (client, server)
    };
    on_each_pair(pair, async |client, server| {
        echo_datagrams(UdpSocket::bind(&server, "0.0.0.0:7").await?);
        let mut tasks = JoinSet::new();
        for n in 0..TASKS {
            let client = client.clone();
            tasks.spawn(async move {
                let socket = UdpSocket::bind(&client, "0.0.0.0:0").await?;
                socket.connect("10.0.0.2:7").await?;
                let mut buffer = [0; 4];
                loop {
                    // The server's queue has room for some of them at a time.
                    socket.send(&n.to_ne_bytes()).await?;
                    let patience = std::time::Duration::from_millis(200);
                    match tokio::time::timeout(patience, socket.recv(&mut buffer)).await {
                        Ok(received) => break assert_eq!(received?, 4),
                        Err(_) => continue,
                    }
                }
                assert_eq!(buffer, n.to_ne_bytes());
                Ok(())
            });
        }
        all(tasks).await
    });
}

/// Each datagram and each connection goes to one of the tasks, and none is left over.
#[test]
fn several_tasks_wait_for_one_socket() {
    const EACH: usize = 50;
    on_each(async |client, server| {
        let socket = Arc::new(UdpSocket::bind(&server, "0.0.0.0:7").await?);
        let listener = Arc::new(TcpListener::bind(&server, "0.0.0.0:7").await?);
        let mut tasks = JoinSet::new();
        for _ in 0..8 {
            let (socket, listener) = (Arc::clone(&socket), Arc::clone(&listener));
            tasks.spawn(async move {
                for _ in 0..EACH {
                    let (len, from) = socket.recv_from(&mut [0; 4]).await?;
                    socket.send_to(&[0; 4][..len], from).await?;
                    listener.accept().await?.0.write_u8(1).await?;
                }
                Ok::<_, io::Error>(())
            });
        }
        let asking = UdpSocket::bind(&client, "0.0.0.0:0").await?;
        asking.connect("10.0.0.2:7").await?;
        for _ in 0..8 * EACH {
            asking.send(b"next").await?;
            assert_eq!(asking.recv(&mut [0; 4]).await?, 4);
            assert_eq!(TcpStream::connect(&client, "10.0.0.2:7").await?.read_u8().await?, 1);
        }
        while let Some(task) = tasks.join_next().await {
            task.unwrap()?;
        }
        Ok(())
    });
}
