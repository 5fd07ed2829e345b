//! QUIC: quinn over a UDP socket of the host. Echoes on every stream.
//!
//! As root: `cargo run --example quic_echo -- tap:keel0`.

use std::error::Error;
use std::sync::Arc;

use evenkeel::net::Net;
use evenkeel::net::tokio::UdpSocket;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime};
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

/// The largest message on a stream.
const MESSAGE_BYTES: usize = 1 << 20;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Returns the settings of a server with a new certificate.
fn settings() -> Fallible<ServerConfig> {
    let own = rcgen::generate_simple_self_signed(["evenkeel.example".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder = tokio_rustls::rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?;
    let mut crypto = builder.with_no_client_auth().with_single_cert(vec![own.cert.into()], key.into())?;
    crypto.alpn_protocols = vec![b"echo".to_vec()];
    Ok(ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(crypto)?)))
}

/// Serves until the task is dropped.
pub(crate) async fn serve(net: &Net) -> Fallible<()> {
    let socket = Arc::new(UdpSocket::bind(net, "0.0.0.0:4433").await?);
    let endpoint = Endpoint::new_with_abstract_socket(
        EndpointConfig::default(),
        Some(settings()?),
        socket,
        Arc::new(TokioRuntime),
    )?;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            if let Err(error) = echo(incoming).await {
                eprintln!("{error}");
            }
        });
    }
    Ok(())
}

async fn echo(incoming: Incoming) -> Fallible<()> {
    let connection = incoming.await?;
    loop {
        let (mut send, mut receive) = match connection.accept_bi().await {
            Ok(stream) => stream,
            Err(quinn::ConnectionError::ApplicationClosed(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        tokio::spawn(async move {
            let message = receive.read_to_end(MESSAGE_BYTES).await?;
            send.write_all(&message).await?;
            send.finish()?;
            Fallible::Ok(())
        });
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fallible<()> {
    let link = std::env::args().nth(1).unwrap_or_else(|| "tap:keel0".to_owned());
    serve(&Net::open(&link)?).await
}
