//! Listening TCP sockets (RFC 9293 3.9.1, passive OPEN).

use core::num::NonZeroU8;
use std::net::IpAddr;
use std::sync::Arc;

use super::handle::handle;
use super::state::System;
use super::stream::TcpStream;
use crate::demux::Binding;
use crate::id::{Fd, ProcessId, SocketId};
use crate::net::{Listening, Net};
use crate::socket::{BadDescriptor, Descriptor, Kind, ListenError, ListeningSocket, ReceiveError};
use crate::tcp::endpoint::ListenAt;
use crate::tcp::{self, ListenerConfig};
use crate::time::Instant;
use crate::wire::{IpAddress, IpEndpoint};
use crate::work::Work;

/// A listening TCP socket, which accepts connections to one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TcpListener(Fd);

handle!(TcpListener);

impl TcpListener {
    /// Opens a socket that listens at `port` of `address`, or of all the host's addresses if `address` is
    /// `None`. An unspecified address stands for all of its family. Port 0 lets the host choose a port, which
    /// [`TcpListener::port`] returns.
    ///
    /// # Errors
    /// [`ListenError`] if the address or the port cannot be used, or a limit is reached. No socket listens
    /// then.
    pub fn listen(
        system: &mut System<'_>,
        address: Option<IpAddress>,
        port: u16,
        config: &ListenerConfig,
    ) -> Result<Self, ListenError> {
        system.call();
        let id = Self::open(
            system.net,
            system.process,
            ListenAt { address: address.map(Into::into), port },
            config,
            None,
        )?;
        Ok(Self(system.opened(id)))
    }

    /// Opens a listening socket as [`TcpListener::listen`] does. Accepted streams use `options` instead of
    /// the host's [`Config::tcp`](crate::host::Config::tcp).
    ///
    /// # Errors
    /// [`ListenError`], as for [`TcpListener::listen`].
    pub fn listen_with(
        system: &mut System<'_>,
        address: Option<IpAddress>,
        port: u16,
        config: &ListenerConfig,
        options: &Arc<tcp::Config>,
    ) -> Result<Self, ListenError> {
        system.call();
        let id = Self::open(
            system.net,
            system.process,
            ListenAt { address: address.map(Into::into), port },
            config,
            Some(options),
        )?;
        Ok(Self(system.opened(id)))
    }

    /// Opens a listener of `owner`.
    pub(crate) fn open(
        net: &mut Net,
        owner: ProcessId,
        at: ListenAt,
        config: &ListenerConfig,
        options: Option<&Arc<tcp::Config>>,
    ) -> Result<SocketId, ListenError> {
        let is_foreign = |address: IpAddr| address.is_multicast() || !net.stack.is_local(&address.into());
        if at.address.is_some_and(|address| !address.is_unspecified() && is_foreign(address)) {
            return Err(ListenError::NotLocal);
        }
        let taken = if at.port == 0 { ListenError::NoPort } else { ListenError::InUse };
        let options = Arc::clone(options.unwrap_or(&net.tcp.endpoint.config().connection));
        let at = net.tcp.endpoint.listen_with(at, config, options, None).map_err(|_| taken)?;
        let listener = ListeningSocket { owner, at, syns: None, handshakes: None };
        let installed = net.sockets.install(Descriptor::Listener(Box::new(listener)), &mut net.work);
        let socket = installed.inspect_err(|_| {
            net.tcp.endpoint.unlisten(&at);
            net.tcp.pending = true;
        })?;
        net.tcp.listeners.insert(at, Listening { socket, owner });
        if let Err(error) = net.tcp_channels().open_for_listener(socket, at) {
            if let Some(Descriptor::Listener(listener)) = net.sockets.remove(socket) {
                Self::closed(net, socket, &listener, Instant::ZERO);
            }
            return Err(error);
        }
        Ok(socket)
    }

    /// Closes a listener: ends the connections that were not accepted, and closes its channels.
    pub(super) fn closed(net: &mut Net, socket: SocketId, listener: &ListeningSocket, now: Instant) {
        net.tcp.forget_listener(socket, &listener.at);
        if let Some(handshakes) = listener.handshakes {
            // For its sender such a connection is open. Without a reset the sender would wait forever.
            let limit = net.config.channel_pkts;
            let _ = (0..limit).all(|_| net.process_segment(handshakes, now));
        }
        for (channel, opens) in [(listener.syns, true), (listener.handshakes, false)] {
            if let Some(channel) = channel {
                net.activation().deactivate(channel, listener.owner);
                let (address, port) = (listener.at.address.map(Into::into), listener.at.port);
                net.close_channel(channel, Binding::Tcp { address, port, opens }, now);
            }
        }
    }

    /// Accepts the connection that has waited longest. Returns it as a stream of this process, with the
    /// peer's address and port.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if no connection waits: return [`crate::process::Step::Wait`].
    /// [`ReceiveError::TooManyOpen`] if the process has reached its limit of descriptors; the connection
    /// keeps waiting. [`ReceiveError::BadDescriptor`] if the descriptor is no listener of this process.
    pub fn accept(self, system: &mut System<'_>) -> Result<(TcpStream, IpEndpoint), ReceiveError> {
        let listener = system.begin(self.0, Kind::Listener)?;
        system.process_opening_segments();
        let System { net, process, .. } = &mut *system;
        let at = match net.sockets.descriptors.get(listener) {
            Some(Descriptor::Listener(listener)) => listener.at,
            _ => return Err(BadDescriptor::OtherKind.into()),
        };
        if !net.tcp.endpoint.is_acceptable(&at) {
            return Err(ReceiveError::WouldBlock);
        }
        let socket = net.sockets.reserve(Some(*process), false, &mut net.work)?;
        let accepted = net.tcp.endpoint.accept(&at);
        let Some((id, tuple)) = accepted.and_then(|id| Some((id, *net.tcp.endpoint.tuple(id)?))) else {
            net.sockets.ready.retire(socket);
            return Err(ReceiveError::WouldBlock);
        };
        net.tcp.pending = true;
        net.work.add(Work::Deliver);
        TcpStream::install(net, socket, id, *process);
        Ok((
            TcpStream::from(system.opened(socket)),
            IpEndpoint::new(tuple.remote.addr.into(), tuple.remote.port),
        ))
    }

    // --- Settings and questions ---

    /// Sets the TTL or hop limit of the listener's segments, and of those of streams that are opened from now
    /// on. At first it is that of the host.
    ///
    /// # Errors
    /// [`BadDescriptor`] if the descriptor is no listener of this process.
    pub fn set_hop_limit(self, system: &mut System<'_>, limit: NonZeroU8) -> Result<(), BadDescriptor> {
        system.call();
        let at = self.at(system)?;
        system.net.tcp.endpoint.set_listener_hop_limit(&at, limit);
        let socket = system.descriptor(self.0)?.0;
        system.net.tcp_channels().offer_cookies(socket);
        Ok(())
    }

    /// Returns the TTL or hop limit of the listener's segments.
    ///
    /// # Errors
    /// [`BadDescriptor`] if the descriptor is no listener of this process.
    pub fn hop_limit(self, system: &System<'_>) -> Result<u8, BadDescriptor> {
        let limit = system.net.tcp.endpoint.listener_hop_limit(&self.at(system)?);
        Ok(limit.map_or(system.net.config.stack.hop_limit, NonZeroU8::get))
    }

    /// Returns the port at which the socket listens.
    ///
    /// # Errors
    /// [`BadDescriptor`] if the descriptor is no listener of this process.
    pub fn port(self, system: &System<'_>) -> Result<u16, BadDescriptor> {
        Ok(self.at(system)?.port)
    }

    fn at(self, system: &System<'_>) -> Result<ListenAt, BadDescriptor> {
        match system.descriptor(self.0)?.1 {
            Descriptor::Listener(listener) => Ok(listener.at),
            _ => Err(BadDescriptor::OtherKind),
        }
    }
}
