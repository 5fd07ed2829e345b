//! A request as hyper sends it, made once.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONNECTION, HOST, HeaderName, HeaderValue};
use hyper::{Method, Uri};

use super::super::request::Request;
use super::version::Version;

/// A request ready to be sent many times, to a server that speaks one version of HTTP.
#[derive(Debug, Clone)]
pub(super) struct Message {
    kept: hyper::Request<Full<Bytes>>,
    last: hyper::Request<Full<Bytes>>,
}

/// The fields that HTTP/2 does not have (RFC 9113, 8.2.2).
const NOT_IN_HTTP2: [&str; 4] = ["keep-alive", "proxy-connection", "te", "upgrade"];

impl Message {
    /// Creates the message of a request.
    ///
    /// # Errors
    /// A field that this version of HTTP does not have.
    pub(super) fn new(request: &Request, version: Version) -> Result<Self, String> {
        let parts = &request.parts;
        let unusable = |error: &dyn std::fmt::Display| format!("the request cannot be sent: {error}");
        let content = Full::new(Bytes::from(parts.content.clone()));
        let mut kept = hyper::Request::new(content);
        *kept.method_mut() = Method::from_bytes(parts.method.as_bytes()).map_err(|e| unusable(&e))?;
        let mut authority = parts.target.authority();
        for (name, value) in &parts.fields {
            if version == Version::Http2 && NOT_IN_HTTP2.contains(&name.to_ascii_lowercase().as_str()) {
                return Err(format!("HTTP/2 has no field `{name}`"));
            }
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|e| unusable(&e))?;
            if version == Version::Http2 && name == HOST {
                value.trim().clone_into(&mut authority);
                continue;
            }
            kept.headers_mut()
                .append(name, HeaderValue::from_bytes(value.trim().as_bytes()).map_err(|e| unusable(&e))?);
        }
        *kept.uri_mut() = match version {
            Version::Http1 => parts.target.path.parse::<Uri>(),
            Version::Http2 => {
                format!("{}://{authority}{}", parts.target.scheme.name(), parts.target.path).parse()
            }
        }
        .map_err(|e| unusable(&e))?;
        let mut last = kept.clone();
        if version == Version::Http1 {
            last.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(Self { kept, last })
    }

    /// Returns the request. If it is the `last` on its connection, HTTP/1.1 asks the server to close it.
    pub(super) fn request(&self, last: bool) -> hyper::Request<Full<Bytes>> {
        if last { self.last.clone() } else { self.kept.clone() }
    }
}
