//! Ten thousand tasks at a time.

use std::io;

use evenkeel::core::tcp::ListenerConfig;
use evenkeel::net::tokio::{TcpListener, TcpStream, UdpSocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::{echo, echo_datagrams, on_each};

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
        let config = ListenerConfig { backlog: TASKS as usize, ..ListenerConfig::default() };
        echo(TcpListener::bind_with(&server, "0.0.0.0:7", &config).await?);
        let mut tasks = JoinSet::new();
        for n in 0..TASKS {
            let client = client.clone();
            tasks.spawn(async move {
                let mut stream = TcpStream::connect(&client, "10.0.0.2:7").await?;
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
    on_each(async |client, server| {
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
