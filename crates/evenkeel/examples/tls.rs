//! HTTPS: hyper over rustls, with a certificate that nobody has signed.
//!
//! As root: `cargo run --example tls -- tap:keel0`, and then `curl --insecure https://10.77.0.2/`.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;

use evenkeel::net::Net;
use evenkeel::net::tokio::{TcpListener, TcpStream};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Returns the settings of a server with a new certificate.
fn settings() -> Fallible<ServerConfig> {
    let own = rcgen::generate_simple_self_signed(["evenkeel.example".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_no_client_auth().with_single_cert(vec![own.cert.into()], key.into())?)
}

/// Serves until the task is dropped.
pub(crate) async fn serve(net: &Net) -> Fallible<()> {
    let acceptor = TlsAcceptor::from(Arc::new(settings()?));
    let listener = TcpListener::bind(net, "0.0.0.0:443").await?;
    loop {
        let (stream, peer) = listener.accept().await?;
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            if let Err(error) = answer(acceptor, stream).await {
                eprintln!("{peer}: {error}");
            }
        });
    }
}

async fn answer(acceptor: TlsAcceptor, stream: TcpStream) -> Fallible<()> {
    let secure = acceptor.accept(stream).await?;
    let service = service_fn(async |request: Request<_>| {
        Ok::<_, Infallible>(Response::new(format!("Nobody else has seen {}\n", request.uri().path())))
    });
    http1::Builder::new().serve_connection(TokioIo::new(secure), service).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fallible<()> {
    let link = std::env::args().nth(1).unwrap_or_else(|| "tap:keel0".to_owned());
    serve(&Net::open(&link)?).await
}
