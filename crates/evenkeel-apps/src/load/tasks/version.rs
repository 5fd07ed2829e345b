//! The versions of HTTP that a client may speak.

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2: agreed on in the handshake of TLS, or without TLS by prior knowledge.
    Http2,
}

impl Version {
    /// Returns the name by which a handshake of TLS agrees on the version (RFC 7301).
    pub(super) const fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }
}
