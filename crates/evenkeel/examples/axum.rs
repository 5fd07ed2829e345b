//! An axum service on a host of its own.
//!
//! As root: `cargo run --example axum -- tap:keel0`, and then `curl http://10.77.0.2/hello/you`.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::Path;
use axum::routing::{get, post};
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
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Serves until the task is dropped.
pub(crate) async fn serve(net: &Net) -> io::Result<()> {
    let service = Router::new()
        .route("/hello/{name}", get(async |Path(name): Path<String>| format!("Hello, {name}!\n")))
        .route("/length", post(async |body: String| format!("{}\n", body.len())));
    let listener = Listening(TcpListener::bind(net, "0.0.0.0:80").await?);
    axum::serve(listener, service).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let link = std::env::args().nth(1).unwrap_or_else(|| "tap:keel0".to_owned());
    serve(&Net::open(&link)?).await
}
