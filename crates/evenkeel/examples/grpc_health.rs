//! gRPC: tonic's service of health checks on a host of its own.
//!
//! As root: `cargo run --example grpc_health -- tap:keel0`, and then
//! `grpcurl -plaintext 10.77.0.2:50051 grpc.health.v1.Health/Check`, with the service's `health.proto`.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use evenkeel::net::Net;
use evenkeel::net::tokio::{TcpListener, TcpStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::Server;
use tonic::transport::server::Connected;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A listener as tonic takes it.
struct Incoming(TcpListener);

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let accepted = ready!(self.0.poll_accept(context));
        Poll::Ready(Some(accepted.map(|(stream, peer)| Connection { stream, peer })))
    }
}

/// A stream with what tonic tells services about their peer.
struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
}

impl Connected for Connection {
    type ConnectInfo = SocketAddr;

    fn connect_info(&self) -> SocketAddr {
        self.peer
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Serves until the task is dropped.
pub(crate) async fn serve(net: &Net) -> Fallible<()> {
    let listener = TcpListener::bind(net, "0.0.0.0:50051").await?;
    let (_, health) = tonic_health::server::health_reporter();
    Ok(Server::builder().add_service(health).serve_with_incoming(Incoming(listener)).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fallible<()> {
    let link = std::env::args().nth(1).unwrap_or_else(|| "tap:keel0".to_owned());
    serve(&Net::open(&link)?).await
}
