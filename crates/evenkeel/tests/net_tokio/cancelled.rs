//! Calls that are cancelled while they wait, and what goes on afterwards.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Waker};

use evenkeel::net::Net;
use evenkeel::net::tokio::{TcpListener, TcpStream, UdpSocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::on_each;

/// Polls a future until it waits, and cancels it.
async fn cancel<T>(future: impl Future<Output = T>) {
    let mut future = pin!(future);
    tokio::select! {
        biased;
        _ = &mut future => panic!("it did not wait"),
        () = tokio::task::yield_now() => {}
    }
    // The waker of the last poll is another's, and the future is dropped as it waits.
    assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

/// Opens a connection, and returns both ends.
async fn connection(client: &Net, listener: &TcpListener) -> io::Result<(TcpStream, TcpStream)> {
    let (near, far) = tokio::join!(TcpStream::connect(client, "10.0.0.2:7"), listener.accept());
    Ok((near?, far?.0))
}

/// Writes until nothing has room any more, also not when all that is under way has come.
async fn fill(stream: &TcpStream) -> usize {
    let (mut written, mut vain) = (0, 0);
    while vain < 10 {
        vain += 1;
        while stream.try_write(&[1; 10_000]).inspect(|bytes| written += bytes).is_ok() {
            vain = 0;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    written
}

#[test]
fn a_call_that_was_cancelled_can_be_made_again() {
    on_each(async |client, server| {
        let listener = TcpListener::bind(&server, "0.0.0.0:7").await?;
        cancel(listener.accept()).await;
        let (mut near, mut far) = connection(&client, &listener).await?;
        cancel(near.read(&mut [0; 10])).await;
        cancel(near.peek(&mut [0; 10])).await;
        cancel(near.readable()).await;
        let written = fill(&near).await;
        cancel(near.write(&[1; 10])).await;
        cancel(near.writable()).await;
        let mut data = vec![0; written];
        far.read_exact(&mut data).await?;
        far.write_all(b"answer").await?;
        let mut answer = [0; 6];
        assert_eq!(near.peek(&mut answer).await?, 6);
        near.read_exact(&mut answer).await?;
        assert_eq!(&answer, b"answer");

        let socket = UdpSocket::bind(&client, "0.0.0.0:0").await?;
        cancel(socket.recv_from(&mut [0; 10])).await;
        cancel(socket.peek_from(&mut [0; 10])).await;
        cancel(socket.readable()).await;
        let other = UdpSocket::bind(&server, "0.0.0.0:0").await?;
        other.send_to(b"datagram", ("10.0.0.1", socket.local_addr()?.port())).await?;
        assert_eq!(socket.recv_from(&mut [0; 10]).await?.0, 8);
        Ok(())
    });
}

/// Nobody answers at this address.
#[test]
fn a_cancelled_connect_leaves_nothing_behind() {
    on_each(async |client, server| {
        for _ in 0..100 {
            cancel(TcpStream::connect(&client, "10.0.0.77:7")).await;
        }
        let listener = TcpListener::bind(&server, "0.0.0.0:7").await?;
        connection(&client, &listener).await.map(drop)
    });
}

#[test]
fn aborted_tasks_close_what_they_had() {
    on_each(async |client, server| {
        let listener = TcpListener::bind(&server, "0.0.0.0:7").await?;
        for _ in 0..50 {
            let (mut near, mut far) = connection(&client, &listener).await?;
            let reading = tokio::spawn(async move { far.read(&mut [0]).await });
            tokio::task::yield_now().await;
            reading.abort();
            assert!(reading.await.unwrap_err().is_cancelled());
            assert_eq!(near.read(&mut [0]).await?, 0);
        }
        Ok(())
    });
}
