//! Listeners on the sockets of a host and on the kernel's.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

use evenkeel::net::{Net, tokio as own};
use evenkeel::raw::tcp::ListenerConfig;
use hyper_util::rt::TokioIo;
use tokio::net as kernel;

use super::serving::{Listen, ServeError};
use crate::http::files::Stream;

/// A listener whose streams the server can serve.
pub(super) trait Listener {
    type Stream: Stream;

    /// Accepts a connection, or has the task woken when there is one.
    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(Self::Stream, SocketAddr)>>;

    /// Returns the address and port that the listener is bound to.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

impl Listener for kernel::TcpListener {
    type Stream = TokioIo<kernel::TcpStream>;

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(Self::Stream, SocketAddr)>> {
        self.poll_accept(context).map_ok(|(stream, client)| {
            // An answer's last segment leaves at once. A connection that has failed says so when it is read.
            let _ = stream.set_nodelay(true);
            (TokioIo::new(stream), client)
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }
}

impl Listener for own::TcpListener {
    type Stream = TokioIo<own::TcpStream>;

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(Self::Stream, SocketAddr)>> {
        self.poll_accept(context)
            .map_ok(|(stream, client)| {
                let _ = stream.set_nodelay(true);
                (TokioIo::new(stream), client)
            })
            // The devices are gone for good, while the kernel has this error for single connections, too.
            .map_err(
                |error| {
                    if error.kind() == io::ErrorKind::NetworkDown { io::Error::other(error) } else { error }
                },
            )
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }
}

/// Listens on a host.
pub(super) async fn on_net(
    net: &Net,
    all: &[Listen],
    config: &ListenerConfig,
) -> Result<Vec<own::TcpListener>, ServeError> {
    let mut listeners = Vec::new();
    for &at in all {
        // The unspecified address of IPv6 stands for those of IPv4, too.
        let address = SocketAddr::new(at.address.unwrap_or(Ipv6Addr::UNSPECIFIED.into()), at.port);
        let bound = own::TcpListener::bind_with(net, address, config).await;
        listeners.push(bound.map_err(|source| ServeError::Listen { at, source })?);
    }
    Ok(listeners)
}

/// Listens on the kernel's sockets.
pub(super) fn on_kernel(all: &[Listen]) -> Result<Vec<kernel::TcpListener>, ServeError> {
    let listen = |&at: &Listen| bind(at).map_err(|source| ServeError::Listen { at, source });
    all.iter().map(listen).collect()
}

fn bind(at: Listen) -> io::Result<kernel::TcpListener> {
    let bind = |address| std::net::TcpListener::bind(SocketAddr::new(address, at.port));
    let listener = match at.address {
        Some(address) => bind(address)?,
        // The kernel may be without IPv6.
        None => bind(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| bind(Ipv4Addr::UNSPECIFIED.into()))?,
    };
    listener.set_nonblocking(true)?;
    kernel::TcpListener::from_std(listener)
}

/// Returns what accepts from all listeners in turn.
pub(super) fn in_turn<L: Listener>(
    listeners: Vec<L>,
) -> impl FnMut(&mut Context<'_>) -> Poll<io::Result<(L::Stream, SocketAddr)>> {
    let mut next = 0;
    move |context| {
        for _ in 0..listeners.len() {
            let listener = &listeners[next];
            next = (next + 1) % listeners.len();
            let accepted = listener.poll_accept(context);
            if accepted.is_ready() {
                return accepted;
            }
        }
        Poll::Pending
    }
}
