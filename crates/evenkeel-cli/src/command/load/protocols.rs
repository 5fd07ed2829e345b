//! The choice of the protocols between the generator and the server.

use std::path::PathBuf;

use clap::Args;
use evenkeel_apps::load::{Protocols, RefusedTls, Scheme, Target, TasksError, Trust, TrustError, Version};

use super::Arguments;
use crate::failure::Failure;
use crate::quantity;

/// Options that choose the protocols below and above TLS.
#[derive(Debug, Args)]
pub(super) struct Choice {
    /// Speak HTTP/2: agreed on in the handshake of TLS; with an http URL, without asking.
    #[arg(long)]
    http2: bool,
    /// Have at most N requests at a time on a connection of HTTP/2; with --closed, exactly N [default: 100;
    /// with --closed 1].
    #[arg(long, value_name = "N", value_parser = quantity::count, requires = "http2")]
    streams: Option<u64>,
    /// With an https URL: accept the certificates whose issuers are in FILE (PEM), and no others.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    cacert: Option<PathBuf>,
    /// With an https URL: accept any certificate.
    #[arg(long, conflicts_with = "cacert")]
    insecure: bool,
}

/// Default numbers of requests at a time on a connection: in an open loop, where servers should allow no
/// fewer (RFC 9113, 6.5.2), and in a closed loop.
const STREAMS: [u64; 2] = [100, 1];

impl Choice {
    /// Returns the version of HTTP in words.
    pub(super) const fn http(&self) -> &'static str {
        if self.http2 { "2" } else { "1.1" }
    }

    /// Returns the name of a server that is wanted, for people.
    pub(super) const fn server(&self) -> &'static str {
        if self.http2 { "an HTTP/2 server" } else { "an HTTP server" }
    }

    /// Returns the protocols if they are others than HTTP/1.1 on TCP.
    ///
    /// # Errors
    /// The other arguments do not go with them.
    pub(super) fn checked(&self, url: &Target, all: &Arguments) -> Result<Option<Protocols>, Failure> {
        let usage = |line: &str| Err(Failure::Usage(line.to_owned()));
        let is_secure = url.scheme == Scheme::Https;
        if !is_secure && (self.cacert.is_some() || self.insecure) {
            return usage("--cacert and --insecure are for https://");
        }
        if !is_secure && !self.http2 {
            return Ok(None);
        }
        if all.own.is_cable() {
            return usage(
                "the server on a cable speaks HTTP/1.1 without TLS: use http:// without --http2 there, or \
                 --on tap:NAME or packet:NAME",
            );
        }
        let streams = self.streams.unwrap_or(STREAMS[usize::from(all.closed)]);
        let trust = match &self.cacert {
            _ if self.insecure => Trust::All,
            Some(file) => Trust::File(file.clone()),
            None => Trust::System,
        };
        let version = if self.http2 { Version::Http2 } else { Version::Http1 };
        Ok(Some(Protocols { version, streams: super::number(streams), trust }))
    }
}

/// Returns the reason why a handshake of TLS failed, and what can be done.
pub(super) fn explained(refused: &RefusedTls) -> String {
    match refused {
        RefusedTls::Certificate(why) => format!(
            "the server's certificate is not accepted ({why}): name its issuer, or the certificate itself, \
             with --cacert FILE, or accept any certificate with --insecure"
        ),
        RefusedTls::Protocol => {
            "the server does not speak this version of HTTP: try with, or without, --http2".to_owned()
        }
        RefusedTls::Other(why) => format!("{why}: is an HTTPS server listening there?"),
    }
}

/// Returns the failure of a load that could not be generated.
pub(super) fn failure(error: TasksError) -> Failure {
    match error {
        TasksError::Trust(error @ TrustError::NoRoots(_)) => {
            Failure::Machine(format!("{error}: name a file of them with --cacert, or use --insecure"))
        }
        TasksError::Trust(error @ (TrustError::File { .. } | TrustError::NoCertificate(_))) => {
            Failure::Machine(format!("--cacert: {error}"))
        }
        TasksError::Trust(error) => Failure::Machine(error.to_string()),
        TasksError::Request(line) => Failure::Usage(line),
        TasksError::Machine(error) => Failure::machine("cannot make connections", error),
        error => Failure::Machine(error.to_string()),
    }
}
