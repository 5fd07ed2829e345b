//! A service that answers all open requests before it ends.
//!
//! As root: `cargo run --example graceful_shutdown -- tap:keel0`, then `curl http://10.77.0.2/`, and Ctrl+C
//! before the answer comes.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::{MethodRouter, get};
use evenkeel::net::Net;
use evenkeel::net::tokio::{TcpListener, TcpStream};

/// A listener as axum takes it.
struct Listening(TcpListener);

impl axum::serve::Listener for Listening {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.0.accept().await {
                Ok(accepted) => return accepted,
                // A limit of the process: connections that end make room.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Serves `answer` until `end`, and then until all requests are answered.
pub(crate) async fn serve(
    net: &Net,
    answer: MethodRouter,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let listener = Listening(TcpListener::bind(net, "0.0.0.0:80").await?);
    let service = Router::new().route("/", answer);
    axum::serve(listener, service).with_graceful_shutdown(end).await
}

async fn slow() -> &'static str {
    tokio::time::sleep(Duration::from_secs(5)).await;
    "The answer took five seconds.\n"
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let link = std::env::args().nth(1).unwrap_or_else(|| "tap:keel0".to_owned());
    let end = async {
        // Without the signal, the service goes on.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    };
    serve(&Net::open(&link)?, get(slow), end).await
}
