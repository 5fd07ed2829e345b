//! A request and the end of its stream in one segment: hyper answers it all the same.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;

use evenkeel::net::tokio::{TcpListener, TcpStream};
use evenkeel::raw::tcp::connection::StreamOption;
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::on_each;

const REQUESTS: usize = 1_000;

/// A listener as axum takes it.
struct Listening(TcpListener);

impl axum::serve::Listener for Listening {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        self.0.accept().await.unwrap()
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Sends requests, each on a connection of its own and with the end of its stream in its last segment.
async fn ask(net: &evenkeel::net::Net) -> io::Result<()> {
    for nth in 0..REQUESTS {
        let mut stream = TcpStream::connect(net, "10.0.0.2:80").await?;
        stream.set(StreamOption::Cork(true))?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: evenkeel\r\n\r\n").await?;
        stream.shutdown().await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        assert!(answer.ends_with("hello"), "{nth}: {answer:?}");
    }
    Ok(())
}

#[test]
fn axum_answers_a_half_closed_request() {
    on_each(async |client, server| {
        let listener = Listening(TcpListener::bind(&server, "0.0.0.0:80").await?);
        let router = axum::Router::new().route("/", axum::routing::get(async || "hello"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        ask(&client).await
    });
}

#[test]
fn hyper_answers_a_half_closed_request() {
    on_each(async |client, server| {
        let listener = TcpListener::bind(&server, "0.0.0.0:80").await?;
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let hello =
                    async |_: Request<Incoming>| Ok::<_, Infallible>(Response::new("hello".to_owned()));
                let service = hyper::service::service_fn(hello);
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        ask(&client).await
    });
}
