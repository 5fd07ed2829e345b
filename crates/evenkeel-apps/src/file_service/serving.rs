//! The files to serve, the place of the service, and its errors.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use evenkeel::raw::tcp::ListenerConfig;

use crate::captures::Embedded;
use crate::host_setup::SetupError;
use crate::http::files::{AccessLog, Settings, Tls};

/// The files to serve, and the way to serve them.
#[derive(Debug)]
pub struct Serving {
    /// The directory whose files are served.
    pub root: PathBuf,
    /// The settings of the server.
    pub settings: Settings,
    /// The addresses and ports to listen on.
    pub listen: Vec<Listen>,
    /// The log of requests, if there is one.
    pub log: Option<AccessLog>,
    /// TLS, if the server speaks it. SIGHUP then reloads the certificate, and does not end the process.
    pub tls: Option<Arc<Tls>>,
}

/// An address and port to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// The address; `None` for all addresses, of both families.
    pub address: Option<IpAddr>,
    /// The port; 0 for a free one.
    pub port: u16,
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            None => write!(f, "port {}", self.port),
            Some(address) => SocketAddr::new(address, self.port).fmt(f),
        }
    }
}

/// Settings of a service on an evenkeel host that the kernel's sockets do not have.
#[derive(Debug, Clone, Default)]
pub struct OnHost {
    /// The queues of listeners.
    pub listener: ListenerConfig,
    /// The most connections in the report.
    pub connections: usize,
    /// A capture of the frames that the host receives and sends.
    pub capture: Option<Embedded>,
}

/// The reason why files cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The host cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The directory cannot be opened.
    #[error("cannot open `{}`: {source}", root.display())]
    Root {
        /// The directory.
        root: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// An address and port cannot be listened on.
    #[error("cannot listen on {at}: {source}")]
    Listen {
        /// The address and port.
        at: Listen,
        /// The reason.
        source: io::Error,
    },
    /// The machine failed.
    #[error("cannot serve: {0}")]
    Machine(#[from] io::Error),
}
