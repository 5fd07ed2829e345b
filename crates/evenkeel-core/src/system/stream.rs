//! TCP streams (RFC 9293 3.9.1).

use core::num::NonZeroU8;

use super::handle::handle;
use super::state::System;
use crate::id::{Fd, ProcessId, SocketId};
use crate::interface::Flows;
use crate::net::{Net, Owner};
use crate::socket::{BadDescriptor, ConnectError, ConnectOptions, Descriptor, Stream, StreamError};
use crate::tcp::connection::{Info, StreamOption};
use crate::tcp::endpoint::{Opening, Routes};
use crate::tcp::table::Id;
use crate::tcp::{self, FourTuple};
use crate::time::Instant;
use crate::wire::IpEndpoint;
use crate::work::Work;

/// A TCP stream: the local end of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TcpStream(Fd);

handle!(TcpStream);

impl TcpStream {
    // --- Open and close ---

    /// Opens a connection to `to`. The host chooses a free local port, and a local address that suits the
    /// route. The program may write to the stream at once. An event reports when the stream is connected.
    ///
    /// # Errors
    /// [`ConnectError`] if the destination cannot be used, no route or local address leads to it, or a limit
    /// is reached. Nothing was opened then.
    pub fn connect(system: &mut System<'_>, to: IpEndpoint) -> Result<Self, ConnectError> {
        Self::connect_with(system, to, &ConnectOptions::default()).map(|(stream, _)| stream)
    }

    /// Opens a connection to `to` with `options`. Returns the stream, and the number of bytes that it took
    /// from the data in `options`; the caller writes the rest.
    ///
    /// # Errors
    /// [`ConnectError`], as for [`TcpStream::connect`]. [`ConnectError::NotLocal`] if the host does not have
    /// the local address in `options`. Nothing was opened then.
    pub fn connect_with(
        system: &mut System<'_>,
        to: IpEndpoint,
        options: &ConnectOptions<'_>,
    ) -> Result<(Self, usize), ConnectError> {
        system.call();
        let (id, taken) = Self::open(system.net, system.process, to, options, system.now)?;
        Ok((Self(system.opened(id)), taken))
    }

    fn open(
        net: &mut Net,
        owner: ProcessId,
        to: IpEndpoint,
        options: &ConnectOptions<'_>,
        now: Instant,
    ) -> Result<(SocketId, usize), ConnectError> {
        if !to.addr.is_unicast() || to.port == 0 {
            return Err(ConnectError::NotUnicast);
        }
        if options.address.is_some_and(|address| !net.stack.is_local(&address)) {
            return Err(ConnectError::NotLocal);
        }
        let opened = net.stack.open_to(options.address, &to.addr, now);
        let (address, mss, route) = opened.map_err(|error| match error {
            _ if net.stack.is_broadcast(&to.addr) => ConnectError::NotUnicast,
            error => error.into(),
        })?;
        // Without them no segment of the peer's would ever find room.
        net.tcp_channels().reserve_segments().map_err(|_| ConnectError::Full)?;
        let socket = net.sockets.reserve(Some(owner), false, &mut net.work)?;
        let tuple = |port| FourTuple::new((address, port), (to.addr, to.port));
        let flows = route.interface().map_or(Flows::All, |interface| net.links.flows(interface));
        let place = net.strays.place();
        let port_fits = |port| match flows {
            Flows::All => place.has_port(port),
            Flows::Share { .. } => flows.contains(&tuple(port)),
        };
        let opening =
            Opening { mss, options: options.stream, data: options.data, port_fits: Some(&port_fits) };
        let connected = net.tcp.endpoint.connect_as(tuple(options.port), &opening, now);
        let (id, taken) = connected.inspect_err(|_| net.sockets.ready.retire(socket))?;
        net.tcp.endpoint.set_route(id, route, net.stack.generation());
        net.tcp.pending = true;
        Self::install(net, socket, id, owner);
        Ok((socket, taken))
    }

    /// Inserts the descriptor of a connection under the reserved number `socket`, and records its owner.
    pub(super) fn install(net: &mut Net, socket: SocketId, id: Id, owner: ProcessId) {
        net.sockets.descriptors.insert(Descriptor::Stream(Stream { owner, id }));
        let channel = net.tcp.owner(id).and_then(|owner| owner.channel);
        net.tcp.set_owner(Owner { id, process: Some(owner), socket: Some(socket), channel });
        net.tcp_channels().open_ring(id);
    }

    /// Aborts the connection and closes the stream at once. The peer gets a reset, and unsent data are lost.
    /// Other descriptors of the stream stay open, but their connection is over.
    ///
    /// # Errors
    /// [`StreamError`] if the connection was over before; the stream is closed all the same. Also if the
    /// descriptor is no stream of this process.
    pub fn abort(self, system: &mut System<'_>) -> Result<(), StreamError> {
        let id = self.begin(system)?;
        let aborted = system.net.activation().abort_stream(id);
        system.close_number(self.0);
        aborted
    }

    // --- Read and write ---

    /// Reads bytes that have arrived. Returns their number, or 0 at the end of the stream.
    ///
    /// # Errors
    /// [`StreamError::WouldBlock`] if no byte has arrived: return [`crate::process::Step::Wait`]. Another
    /// [`StreamError`] if the stream is closed or has failed, or is no stream of this process.
    pub fn read(self, system: &mut System<'_>, to: &mut [u8]) -> Result<usize, StreamError> {
        let id = self.begin(system)?;
        system.net.work.add(Work::Deliver);
        Ok(system.net.tcp.read_stream(id, to, system.now)?)
    }

    /// Copies bytes that have arrived, as [`TcpStream::read`] does, but leaves them in the stream. A later
    /// call reads them again.
    ///
    /// # Errors
    /// [`StreamError`], as for [`TcpStream::read`].
    pub fn peek(self, system: &mut System<'_>, to: &mut [u8]) -> Result<usize, StreamError> {
        let id = self.begin(system)?;
        Ok(system.net.tcp.with_stream(id, |endpoint, id| endpoint.peek(id, to))?)
    }

    /// Queues as many bytes of `data` for sending as there is room for. Returns their number.
    ///
    /// # Errors
    /// [`StreamError::WouldBlock`] if there is no room: an event reports when there is. Another
    /// [`StreamError`] if the stream is closed or has failed, or is no stream of this process.
    pub fn write(self, system: &mut System<'_>, data: &[u8]) -> Result<usize, StreamError> {
        let id = self.begin(system)?;
        Ok(system.net.tcp.with_stream(id, |endpoint, id| endpoint.write(id, data))?)
    }

    /// Queues bytes as [`TcpStream::write`] does, for a caller that will write more at once. A segment that
    /// is not full waits for the further data.
    ///
    /// # Errors
    /// [`StreamError`], as for [`TcpStream::write`].
    pub fn write_more(self, system: &mut System<'_>, data: &[u8]) -> Result<usize, StreamError> {
        let id = self.begin(system)?;
        Ok(system.net.tcp.with_stream(id, |endpoint, id| endpoint.write_more(id, data))?)
    }

    /// Returns the number of bytes that [`TcpStream::write`] would take now. The write takes fewer if memory
    /// becomes scarce in between. Returns 0 if the sending direction was shut down.
    ///
    /// # Errors
    /// [`StreamError`] if the connection is over, or the descriptor is no stream of this process.
    pub fn room(self, system: &System<'_>) -> Result<usize, StreamError> {
        system.net.tcp.stream_room(self.connection(system)?)
    }

    /// Closes the sending direction of a stream. Data written before are still sent. The receiving direction
    /// stays open.
    ///
    /// # Errors
    /// [`StreamError`] if the connection is over, or the descriptor is no stream of this process.
    pub fn shutdown(self, system: &mut System<'_>) -> Result<(), StreamError> {
        let id = self.begin(system)?;
        system.net.tcp.change_stream(id, tcp::Endpoint::shutdown)
    }

    /// Closes the receiving direction of a stream. Unread data, and data that still arrive, are acknowledged
    /// and discarded. The sending direction stays open.
    ///
    /// # Errors
    /// [`StreamError`] if the connection is over, or the descriptor is no stream of this process.
    pub fn shutdown_read(self, system: &mut System<'_>) -> Result<(), StreamError> {
        let id = self.begin(system)?;
        system.net.tcp.change_stream(id, tcp::Endpoint::shutdown_read)
    }

    // --- Settings and questions ---

    /// Sets an option of one stream. Until then the configured value applies. An option set in the step that
    /// opened the stream also applies to its SYN.
    ///
    /// # Errors
    /// [`StreamError`] if the connection is over, or the descriptor is no stream of this process.
    pub fn set(self, system: &mut System<'_>, option: StreamOption) -> Result<(), StreamError> {
        let id = self.begin(system)?;
        system.net.tcp.set_stream(id, option, system.now)
    }

    /// Sets the Differentiated Services codepoint (DSCP) of packets that the stream sends from now on. The
    /// low six bits of `dscp` count. The initial value is 0.
    ///
    /// # Errors
    /// [`StreamError`] if the connection is over, or the descriptor is no stream of this process.
    pub fn set_dscp(self, system: &mut System<'_>, dscp: u8) -> Result<(), StreamError> {
        let id = self.begin(system)?;
        system.net.tcp.change_stream(id, |endpoint, id| endpoint.set_dscp(id, dscp))
    }

    /// Returns the TTL or hop limit of packets that the stream sends.
    ///
    /// # Errors
    /// [`BadDescriptor`] if the descriptor is no stream of this process.
    pub fn hop_limit(self, system: &System<'_>) -> Result<u8, BadDescriptor> {
        let connection = system.net.tcp.endpoint.connection(self.connection(system)?);
        let limit = connection.and_then(tcp::Connection::hop_limit);
        Ok(limit.map_or(system.net.config.stack.hop_limit, NonZeroU8::get))
    }

    /// Returns the local port of a stream.
    ///
    /// # Errors
    /// [`BadDescriptor`] if the descriptor is no stream of this process.
    pub fn port(self, system: &System<'_>) -> Result<u16, BadDescriptor> {
        Ok(self.info(system)?.0.local.port)
    }

    /// Returns the addresses and ports of a stream, and its measured state ([`Info`]).
    ///
    /// # Errors
    /// [`BadDescriptor`] if the descriptor is no stream of this process.
    pub fn info(self, system: &System<'_>) -> Result<(FourTuple, Info), BadDescriptor> {
        system.net.tcp.stream_info(self.connection(system)?).ok_or(BadDescriptor::NotOpen)
    }

    /// Returns the reason why a stream has failed, or `None` if it has not. The reason is returned only once.
    /// Other calls then fail with [`StreamError::Closed`].
    ///
    /// # Errors
    /// [`BadDescriptor`] if the descriptor is no stream of this process.
    pub fn take_error(
        self,
        system: &mut System<'_>,
    ) -> Result<Option<tcp::connection::Error>, BadDescriptor> {
        let id = self.begin(system)?;
        Ok(system.net.tcp.with_stream(id, tcp::Endpoint::take_error))
    }

    // --- The connection ---

    /// Begins a call on the stream that may copy many bytes. Returns the connection.
    #[inline]
    fn begin(self, system: &mut System<'_>) -> Result<Id, BadDescriptor> {
        system.long_call();
        let id = self.connection(system)?;
        system.process_segments_of(id);
        Ok(id)
    }

    #[inline]
    fn connection(self, system: &System<'_>) -> Result<Id, BadDescriptor> {
        match system.descriptor(self.0)?.1 {
            Descriptor::Stream(stream) => Ok(stream.id),
            _ => Err(BadDescriptor::OtherKind),
        }
    }
}
