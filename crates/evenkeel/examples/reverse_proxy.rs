//! A reverse proxy: hyper takes requests, and sends each on to another server.
//!
//! As root: `cargo run --example reverse_proxy -- tap:keel0 10.77.0.1:8000`, with a server at that address,
//! and then `curl http://10.77.0.2/`.

use std::error::Error;
use std::net::SocketAddr;

use evenkeel::net::Net;
use evenkeel::net::tokio::{TcpListener, TcpStream};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Serves until the task is dropped. Requests go to `upstream`.
pub(crate) async fn serve(net: &Net, upstream: SocketAddr) -> Fallible<()> {
    let listener = TcpListener::bind(net, "0.0.0.0:80").await?;
    loop {
        let (stream, peer) = listener.accept().await?;
        let net = net.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| answer(&net, upstream, peer, request));
            if let Err(error) = server::Builder::new().serve_connection(TokioIo::new(stream), service).await {
                eprintln!("{peer}: {error}");
            }
        });
    }
}

async fn answer(
    net: &Net,
    upstream: SocketAddr,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> hyper::http::Result<Response<Either<Incoming, Full<Bytes>>>> {
    match pass_on(net, upstream, peer, request).await {
        Ok(response) => Ok(response.map(Either::Left)),
        Err(error) => {
            let body = Full::new(format!("{upstream} does not answer: {error}\n").into());
            Response::builder().status(StatusCode::BAD_GATEWAY).body(Either::Right(body))
        }
    }
}

async fn pass_on(
    net: &Net,
    upstream: SocketAddr,
    peer: SocketAddr,
    mut request: Request<Incoming>,
) -> Fallible<Response<Incoming>> {
    let stream = TcpStream::connect(net, upstream).await?;
    let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await?;
    // The connection ends with the answer.
    tokio::spawn(connection);
    request.headers_mut().remove(header::CONNECTION);
    request.headers_mut().insert("x-forwarded-for", peer.ip().to_string().parse()?);
    Ok(sender.send_request(request.map(BodyExt::boxed)).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fallible<()> {
    let mut args = std::env::args().skip(1);
    let link = args.next().unwrap_or_else(|| "tap:keel0".to_owned());
    let upstream = args.next().unwrap_or_else(|| "10.77.0.1:8000".to_owned()).parse()?;
    serve(&Net::open(&link)?, upstream).await
}
