//! The calls of programs (RFC 9293 3.9.1).

use std::sync::Arc;

use super::super::state::Net;
use super::state::{Listening, Owner};
use crate::demux::Binding;
use crate::error::TooManyOpen;
use crate::id::{ProcessId, SocketId};
use crate::socket::{ConnectError, ConnectOptions, Descriptor, ListenError, ListeningSocket, Stream};
use crate::tcp::endpoint::{ListenAt, Opening, Routes};
use crate::tcp::table::Id;
use crate::tcp::{self, FourTuple, ListenerConfig};
use crate::time::Instant;
use crate::wire::IpEndpoint;
use crate::work::Work;

impl Net {
    // --- Listening ---

    pub(crate) fn listen(
        &mut self,
        owner: ProcessId,
        at: ListenAt,
        config: &ListenerConfig,
        options: Option<&Arc<tcp::Config>>,
    ) -> Result<SocketId, ListenError> {
        if at.address.is_some_and(|address| address.is_multicast() || !self.stack.is_local(&address)) {
            return Err(ListenError::NotLocal);
        }
        let taken = if at.port == 0 { ListenError::NoPort } else { ListenError::InUse };
        let options = Arc::clone(options.unwrap_or(&self.tcp.endpoint.config().connection));
        let at = self.tcp.endpoint.listen_with(at, config, options, None).map_err(|_| taken)?;
        let listener = ListeningSocket { owner, at, syns: None, handshakes: None };
        let installed = self.sockets.install(Descriptor::Listener(Box::new(listener)), &mut self.work);
        let socket = installed.inspect_err(|_| {
            self.tcp.endpoint.unlisten(&at);
            self.tcp.pending = true;
        })?;
        self.tcp.listeners.insert(at, Listening { socket, owner });
        if let Err(error) = self.open_listener_channels(socket, at) {
            self.sockets.remove(socket);
            self.tcp.forget_listener(socket, &at);
            return Err(error);
        }
        Ok(socket)
    }

    pub(in crate::net) fn close_listener(
        &mut self,
        socket: SocketId,
        listener: &ListeningSocket,
        now: Instant,
    ) {
        self.tcp.forget_listener(socket, &listener.at);
        for (channel, opens) in [(listener.syns, true), (listener.handshakes, false)] {
            if let Some(channel) = channel {
                self.activation().deactivate(channel, listener.owner);
                let ListenAt { address, port } = listener.at;
                self.close_channel(channel, Binding::Tcp { address, port, opens }, now);
            }
        }
    }

    /// Accepts the connection that has waited longest, as a socket of `owner`. Returns its peer as well.
    pub(crate) fn accept(
        &mut self,
        listener: SocketId,
        owner: ProcessId,
    ) -> Result<Option<(SocketId, IpEndpoint)>, TooManyOpen> {
        let Some(Descriptor::Listener(listener)) = self.sockets.descriptors.get(listener) else {
            return Ok(None);
        };
        let at = listener.at;
        if !self.tcp.endpoint.is_acceptable(&at) {
            return Ok(None);
        }
        let socket = self.sockets.reserve(Some(owner), false, &mut self.work)?;
        let accepted = self.tcp.endpoint.accept(&at);
        let Some((id, tuple)) = accepted.and_then(|id| Some((id, *self.tcp.endpoint.tuple(id)?))) else {
            self.sockets.ready.retire(socket);
            return Ok(None);
        };
        self.tcp.pending = true;
        self.work.add(Work::Deliver);
        self.open_stream(socket, id, owner);
        Ok(Some((socket, tuple.remote)))
    }

    // --- Streams ---

    pub(crate) fn connect(
        &mut self,
        owner: ProcessId,
        to: IpEndpoint,
        options: &ConnectOptions<'_>,
        now: Instant,
    ) -> Result<(SocketId, usize), ConnectError> {
        if !to.addr.is_unicast() || to.port == 0 {
            return Err(ConnectError::NotUnicast);
        }
        if options.address.is_some_and(|address| !self.stack.is_local(&address)) {
            return Err(ConnectError::NotLocal);
        }
        let (address, mss, route) =
            self.stack.open_to(options.address, &to.addr, now).map_err(|error| match error {
                _ if self.stack.is_broadcast(&to.addr) => ConnectError::NotUnicast,
                error => error.into(),
            })?;
        // Without them no segment of the peer's would ever find room.
        self.reserve_segments().map_err(|_| ConnectError::Full)?;
        let socket = self.sockets.reserve(Some(owner), false, &mut self.work)?;
        let local = |port| IpEndpoint::new(address, port);
        let port_fits = |port| {
            let flow = FourTuple::new(local(port), to);
            route.interface().is_none_or(|interface| self.links.receives(interface, &flow))
        };
        let opening =
            Opening { mss, options: options.stream, data: options.data, port_fits: Some(&port_fits) };
        let tuple = FourTuple::new(local(options.port), to);
        let connected = self.tcp.endpoint.connect_as(tuple, &opening, now);
        let (id, taken) = connected.inspect_err(|_| self.sockets.ready.retire(socket))?;
        self.tcp.endpoint.set_route(id, route, self.stack.generation());
        self.tcp.pending = true;
        self.open_stream(socket, id, owner);
        Ok((socket, taken))
    }

    /// Inserts the descriptor of a connection under the reserved number `socket`, and records its owner.
    fn open_stream(&mut self, socket: SocketId, id: Id, owner: ProcessId) {
        self.sockets.descriptors.insert(Descriptor::Stream(Stream { owner, id }));
        let channel = self.tcp.owner(id).and_then(|owner| owner.channel);
        self.tcp.set_owner(Owner { id, process: Some(owner), socket: Some(socket), channel });
        self.open_connection_ring(id);
    }
}
