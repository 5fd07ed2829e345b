//! TLS for a server, with a certificate and a key from files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::stream::Stream;

/// The protocols that clients can choose (RFC 7301), best first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// TLS 1.2 and 1.3 of a server, with a certificate and a key in PEM files.
#[derive(Debug)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    config: RwLock<Arc<ServerConfig>>,
}

/// The reason why a certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or is no PEM file of its kind.
    #[error("cannot read `{}`: {}", path.display(), reason(source))]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: pem::Error,
    },
    /// The file of the certificate has none.
    #[error("`{}` has no certificate: its blocks begin with `-----BEGIN CERTIFICATE-----`", .0.display())]
    NoCertificate(PathBuf),
    /// The certificate and the key do not belong together, or are of an unknown kind.
    #[error("the certificate and the key cannot be used: {0}")]
    Refused(#[from] rustls::Error),
}

/// Returns the reason why a file cannot be used, in the words of the operating system if they are its.
fn reason(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

impl Tls {
    /// Reads a certificate, with those that it depends on, and its private key.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let config = RwLock::new(configure(certificate, key)?);
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), config })
    }

    /// Reads the files again, for connections from now on. After an error the former certificate stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = configure(&self.certificate, &self.key)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Completes a handshake on a stream.
    pub(super) async fn accept(&self, stream: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        let config = Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner));
        let stream = TlsAcceptor::from(config).accept(TokioIo::new(stream)).await?;
        Ok(Box::new(TokioIo::new(stream)))
    }
}

fn configure(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let file = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::File { path, source }
    };
    let chain = CertificateDer::pem_file_iter(certificate).map_err(file(certificate))?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(file(certificate))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(certificate.to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(file(key))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(Arc::new(config))
}
