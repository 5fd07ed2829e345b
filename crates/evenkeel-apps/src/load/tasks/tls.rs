//! TLS of a client: the trust in servers, and handshakes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme,
    WantsVerifier,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::super::report::RefusedTls;
use super::super::request::Target;
use super::version::Version;

/// The certificates that a client accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Those whose issuers the system trusts.
    System,
    /// Those whose issuers are in this PEM file, or that are in it themselves.
    File(PathBuf),
    /// All, also expired ones and those of other servers.
    All,
}

/// The reason why a client cannot use TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The file cannot be read, or is no PEM file.
    #[error("cannot read `{}`: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: pem::Error,
    },
    /// The file has no certificate.
    #[error("`{}` has no certificate: its blocks begin with `-----BEGIN CERTIFICATE-----`", .0.display())]
    NoCertificate(PathBuf),
    /// The system trusts no issuer.
    #[error("this system has no certificates of issuers (package ca-certificates){0}")]
    NoRoots(String),
    /// The certificates cannot be used, or the name of the server is no name.
    #[error(transparent)]
    Refused(#[from] rustls::Error),
    /// No certificate can be for this name.
    #[error("`{0}` is no name that a certificate can have")]
    Name(String),
}

/// TLS 1.2 and 1.3 to one server. Each connection makes a full handshake, as that of a new user does.
#[derive(Clone)]
pub(super) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
    version: Version,
}

impl Tls {
    pub(super) fn new(target: &Target, trust: &Trust, version: Version) -> Result<Self, TrustError> {
        let name = ServerName::try_from(target.host.clone());
        let name = name.map_err(|_| TrustError::Name(target.host.clone()))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let mut config = match trust {
            Trust::System => builder.with_root_certificates(system_roots()?).with_no_client_auth(),
            Trust::File(path) => with_verifier(builder, Named::from_file(path, provider)?),
            Trust::All => with_verifier(builder, AcceptAll(provider)),
        };
        config.alpn_protocols = vec![version.alpn().to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name, version })
    }

    /// Makes the handshake on a stream.
    ///
    /// # Errors
    /// The handshake failed, or the server does not choose HTTP/2 although it is wanted.
    pub(super) async fn connect<S>(&self, stream: S) -> Result<TlsStream<S>, RefusedTls>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = self.connector.connect(self.name.clone(), stream).await.map_err(|e| refused(&e))?;
        let chosen = stream.get_ref().1.alpn_protocol();
        // A server that knows no ALPN may speak HTTP/1.1 all the same.
        let suits = chosen.map_or(self.version == Version::Http1, |chosen| chosen == self.version.alpn());
        if suits { Ok(stream) } else { Err(RefusedTls::Protocol) }
    }
}

fn refused(error: &io::Error) -> RefusedTls {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(error)) => RefusedTls::Certificate(words(error)),
        Some(rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol)) => {
            RefusedTls::Protocol
        }
        _ => RefusedTls::Other(error.to_string()),
    }
}

/// Returns what is wrong with a certificate, for people.
fn words(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => "its issuer is not trusted".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name".to_owned()
        }
        CertificateError::Other(why) => format!("{}", why.0),
        other => other.to_string(),
    }
}

fn system_roots() -> Result<RootCertStore, TrustError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some of a system's certificates may be older than what rustls reads.
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        let why: Vec<String> = found.errors.iter().map(|error| format!(": {error}")).collect();
        return Err(TrustError::NoRoots(why.concat()));
    }
    Ok(roots)
}

fn with_verifier(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    verifier: impl ServerCertVerifier + 'static,
) -> ClientConfig {
    builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
}

/// A verifier that accepts the certificates whose issuers are named in a file. A certificate that is in the
/// file itself is accepted for the names in it, also if it may issue others, as those made by
/// `openssl req -x509` may. Its expiry is not checked.
#[derive(Debug)]
struct Named {
    certificates: Vec<CertificateDer<'static>>,
    issuers: Arc<WebPkiServerVerifier>,
}

impl Named {
    fn from_file(path: &Path, provider: Arc<CryptoProvider>) -> Result<Self, TrustError> {
        let unreadable = |source| TrustError::File { path: path.to_owned(), source };
        let certificates = CertificateDer::pem_file_iter(path).map_err(unreadable)?;
        let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone())?;
        }
        if roots.is_empty() {
            return Err(TrustError::NoCertificate(path.to_owned()));
        }
        let issuers = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let issuers = issuers.map_err(|error| rustls::Error::General(error.to_string()))?;
        Ok(Self { certificates, issuers })
    }
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.certificates.iter().any(|named| named == certificate) {
            verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        self.issuers.verify_server_cert(certificate, others, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.issuers.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.issuers.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.issuers.supported_verify_schemes()
    }
}

/// A verifier that accepts all certificates. The server must still have the key of its certificate.
#[derive(Debug)]
struct AcceptAll(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
