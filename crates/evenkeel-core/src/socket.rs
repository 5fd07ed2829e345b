//! The objects that a program opens: UDP sockets, TCP listeners and streams, the screening queue, capture
//! queues, event queues, timers and user events.

use core::num::NonZeroU8;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use crate::capture::{CaptureCounters, CaptureQueue};
use crate::channel::ChannelTable;
use crate::frame::Pool;
use crate::id::{ChannelId, ProcessId};
use crate::queue::Queue;
use crate::stack::{Datagram, IpEndpoint, Origin, RouteHandle, Source, TakesDatagrams, Transit};
use crate::tcp;
use crate::tcp::FourTuple;
use crate::tcp::endpoint::ListenAt;
use crate::tcp::table::Id;
use crate::time::{Duration, Instant};
use crate::wire::IpAddress;
use evenkeel_timers::Timer;

pub use crate::error::{
    BadDescriptor, BindError, ConnectError, DupError, Fault, ListenError, PeerError, ReceiveError,
    RegisterError, SendError, StreamError, TooManyOpen,
};
pub use crate::id::{Fd, SocketId};
pub use crate::ready::{Allocation, Event, FdSet, FdSets, Interest, Kinds, PollEntry, Select, Trigger};

/// Counters of a socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketCounters {
    /// Datagrams handed to the program.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams dropped because the socket queue was full, after all protocol work.
    pub dropped: u64,
}

/// The state of a socket that has a queue of its own, and the counters of that queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SocketReport {
    /// The socket.
    pub id: SocketId,
    /// The kind of the socket: `udp`, `listener`, `screening` or `capture`.
    pub kind: &'static str,
    /// The process that owns the socket, and pays for its work; `None` if its owner has ended.
    pub owner: Option<ProcessId>,
    /// The local address; `None` for all addresses of the host, and an unspecified one for all of its family.
    pub address: Option<IpAddr>,
    /// The local port; 0 for a socket without ports.
    pub port: u16,
    /// The number of items that wait: frames in the socket's channels, and datagrams in its queue.
    pub waiting: usize,
    /// The number of items that may wait: datagrams in the socket's queue, and frames in those of its
    /// channels for which frames have come.
    pub limit: usize,
    /// Frames that came for the socket's channels; 0 under an architecture without channels.
    pub arrived: u64,
    /// Frames of these that were discarded because the channel was full.
    pub discarded: u64,
    /// The counters of the socket itself.
    pub counters: SocketCounters,
}

/// Options for opening a connection. By default the host chooses.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectOptions<'a> {
    /// The local address of the connection; `None` for one that suits the way to the peer.
    pub address: Option<IpAddress>,
    /// The local port of the connection; 0 for one that is free.
    pub port: u16,
    /// The stream's settings in place of the host's [`Config::tcp`](crate::host::Config::tcp), from its SYN
    /// on.
    pub stream: Option<&'a Arc<tcp::Config>>,
    /// The first data of the stream, sent at once; they may be empty.
    ///
    /// Once the server has given this host a Fast Open cookie, the data go along with the SYN and save a
    /// round trip (RFC 7413). The server may then receive them twice, so a request in them must do no harm
    /// if it is processed twice.
    pub data: Option<&'a [u8]>,
}

/// An option of a UDP socket, as set with `setsockopt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UdpOption {
    /// The TTL or hop limit of datagrams to single hosts and broadcasts (`IP_TTL`). At first it is that of
    /// the host.
    HopLimit(NonZeroU8),
    /// Whether datagrams may be sent to broadcast addresses (`SO_BROADCAST`). At first they may.
    Broadcast(bool),
}

/// An object that descriptors refer to.
///
/// Streams may be very many, so what is larger than theirs is kept elsewhere.
#[derive(Debug)]
pub(crate) enum Descriptor {
    Udp(Box<Socket>),
    Screen(Box<ScreenQueue>),
    Capture(Box<CaptureQueue>),
    Listener(Box<ListeningSocket>),
    Stream(Stream),
    /// An event queue, and whose it is.
    Queue(ProcessId),
    Timer(Box<TimerSocket>),
    UserEvent(Box<UserEventSocket>),
}

/// The kind of a [`Descriptor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Udp,
    Screen,
    Capture,
    Listener,
    Stream,
    Queue,
    Timer,
    UserEvent,
}

impl Descriptor {
    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Udp(_) => Kind::Udp,
            Self::Screen(_) => Kind::Screen,
            Self::Capture(_) => Kind::Capture,
            Self::Listener(_) => Kind::Listener,
            Self::Stream(_) => Kind::Stream,
            Self::Queue(_) => Kind::Queue,
            Self::Timer(_) => Kind::Timer,
            Self::UserEvent(_) => Kind::UserEvent,
        }
    }

    pub(crate) fn owner(&self) -> Option<ProcessId> {
        match self {
            Self::Udp(socket) => socket.owner,
            Self::Screen(screen) => Some(screen.owner),
            Self::Capture(capture) => Some(capture.owner),
            Self::Listener(listener) => Some(listener.owner),
            Self::Stream(stream) => Some(stream.owner),
            Self::Queue(owner) => Some(*owner),
            Self::Timer(timer) => Some(timer.owner),
            Self::UserEvent(event) => Some(event.owner),
        }
    }

    pub(crate) fn reopen(&mut self) -> bool {
        match self {
            Self::Udp(socket) => socket.ready.reopen(),
            Self::Screen(screen) => screen.queue.reopen(),
            Self::Capture(capture) => capture.reopen(),
            _ => false,
        }
    }

    /// Returns how full the object's queue is, in percent. An object that gives no feedback counts as empty.
    pub(crate) fn filled_percent(&self) -> u8 {
        match self {
            Self::Udp(socket) => socket.ready.filled_percent(),
            Self::Screen(screen) => screen.queue.filled_percent(),
            Self::Capture(capture) => capture.filled_percent(),
            _ => 0,
        }
    }

    /// Returns whether an error of the object waits to be reported. Always false for TCP, whose endpoint
    /// keeps errors.
    pub(crate) fn has_error(&self) -> bool {
        matches!(self, Self::Udp(socket) if socket.error.is_some())
    }

    /// Returns the number of items that wait in the object's queue. Always 0 for TCP, whose endpoint keeps
    /// them.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Udp(socket) => socket.ready.len(),
            Self::Screen(screen) => screen.queue.len(),
            Self::Capture(capture) => capture.len(),
            Self::Timer(timer) => usize::from(timer.expirations > 0),
            Self::UserEvent(event) => usize::from(event.posted > 0),
            Self::Listener(_) | Self::Stream(_) | Self::Queue(_) => 0,
        }
    }
}

impl Descriptor {
    /// Returns the report of the object, whose number is `id`; `None` if it has no queue of its own.
    pub(crate) fn report(&self, id: SocketId, channels: &ChannelTable) -> Option<SocketReport> {
        let (kind, address, port, counters) = match self {
            Self::Udp(socket) => ("udp", socket.address.map(IpAddr::from), socket.port, socket.counters),
            Self::Listener(listener) => {
                ("listener", listener.at.address, listener.at.port, SocketCounters::default())
            }
            Self::Screen(screen) => ("screening", None, 0, screen.counters),
            Self::Capture(capture) => {
                let CaptureCounters { delivered, dropped, .. } = capture.counters();
                let counters = SocketCounters { received: delivered, sent: 0, dropped };
                ("capture", None, 0, counters)
            }
            Self::Stream(_) | Self::Queue(_) | Self::Timer(_) | Self::UserEvent(_) => return None,
        };
        let (owner, waiting, limit) = (self.owner(), self.len(), self.limit());
        let own = SocketReport {
            id,
            kind,
            owner,
            address,
            port,
            waiting,
            limit,
            arrived: 0,
            discarded: 0,
            counters,
        };
        Some(self.channels().filter_map(|channel| channels.get(channel)).fold(own, |report, channel| {
            let counters = channel.counters();
            // Where all work is done at once, channels stay unused.
            let limit = if counters.arrived > 0 { channel.limit_pkts() } else { 0 };
            SocketReport {
                waiting: report.waiting + channel.len(),
                limit: report.limit + limit,
                arrived: report.arrived + counters.arrived,
                discarded: report.discarded + counters.discarded,
                ..report
            }
        }))
    }

    /// Returns the number of items that the object's own queue holds at most; 0 if it has none.
    fn limit(&self) -> usize {
        match self {
            Self::Udp(socket) => socket.ready.limit(),
            Self::Screen(screen) => screen.queue.limit(),
            Self::Capture(capture) => capture.limit(),
            Self::Listener(_) | Self::Stream(_) | Self::Queue(_) | Self::Timer(_) | Self::UserEvent(_) => 0,
        }
    }

    /// Returns the channels of the object.
    fn channels(&self) -> impl Iterator<Item = ChannelId> {
        let (datagrams, segments) = match self {
            Self::Udp(socket) => (&socket.channels[..], [None; 2]),
            Self::Listener(listener) => (&[][..], [listener.syns, listener.handshakes]),
            _ => (&[][..], [None; 2]),
        };
        datagrams.iter().map(|&(channel, _)| channel).chain(segments.into_iter().flatten())
    }
}

/// The screening queue: packets that wait for a process's verdict.
#[derive(Debug)]
pub(crate) struct ScreenQueue {
    pub(crate) owner: ProcessId,
    pub(crate) queue: Queue<Transit>,
    /// Shown to the process, which will say later what becomes of them; at most as many as the queue holds.
    pub(crate) judging: VecDeque<Transit>,
    pub(crate) counters: SocketCounters,
}

/// A UDP socket, with its channels and its queue of received datagrams.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) owner: Option<ProcessId>,
    pub(crate) address: Option<IpAddress>,
    /// The address that datagrams are sent from: the one that the socket is bound to, unless that is a group
    /// or a broadcast address, or the one that was chosen for its peer.
    pub(crate) source: Option<IpAddress>,
    pub(crate) port: u16,
    /// The peer, once the socket is connected.
    pub(crate) peer: Option<Peer>,
    /// An error about a datagram to the peer that no call has reported.
    pub(crate) error: Option<PeerError>,
    /// The TTL or hop limit of datagrams; `None` for that of the host.
    pub(crate) hop_limit: Option<NonZeroU8>,
    /// Whether datagrams to broadcast addresses are refused.
    pub(crate) no_broadcast: bool,
    /// The socket's own channel first, then those of the multicast groups it has joined, each with its
    /// group.
    pub(crate) channels: Vec<(ChannelId, Option<IpAddress>)>,
    pub(crate) next_channel: usize,
    /// Datagrams on which all protocol work is done.
    pub(crate) ready: Queue<Datagram>,
    /// Whether the last datagram to be sent found too few free buffers.
    pub(crate) lacks_buffers: bool,
    /// The route of the last datagram sent.
    pub(crate) route: RouteHandle,
    pub(crate) counters: SocketCounters,
}

/// The peer of a connected UDP socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) at: IpEndpoint,
    /// The number of datagrams that the socket had sent when it was connected.
    pub(crate) sent_before: u64,
}

impl Socket {
    pub(crate) fn has_room(&self) -> bool {
        self.ready.has_room()
    }

    /// Returns whether the socket takes a datagram: a connected one takes those of its peer.
    #[inline]
    pub(crate) fn takes(&self, datagram: &Datagram) -> bool {
        self.peer.is_none_or(|peer| peer.at == datagram.source())
    }

    /// Returns whether the socket may have sent a datagram between these addresses and ports: it is connected
    /// between them, and has sent something since.
    pub(crate) fn may_have_sent(&self, FourTuple { local, remote }: &FourTuple) -> bool {
        let remote = IpEndpoint::new(remote.addr.into(), remote.port);
        let is_local = self.source == Some(local.addr.into()) && self.port == local.port;
        is_local && self.peer.is_some_and(|peer| peer.at == remote && self.counters.sent > peer.sent_before)
    }

    /// Returns whether datagrams to `address` may leave: it is of the family of the address that the socket
    /// is bound to.
    #[inline]
    pub(crate) fn suits(&self, address: &IpAddress) -> bool {
        self.address.is_none_or(|bound| bound.version() == address.version())
    }

    /// Returns the source of a datagram that the program sends from `origin`. Without an address in that, it
    /// is the socket's.
    ///
    /// # Errors
    /// [`SendError::NotLocal`] if the socket sends from another address.
    #[inline(always)]
    pub(crate) fn source(&self, origin: Origin) -> Result<Source, SendError> {
        let address = match (self.source, origin.address) {
            (Some(bound), Some(asked)) if bound != asked => return Err(SendError::NotLocal),
            (bound, asked) => bound.or(asked),
        };
        let Self { port, hop_limit, no_broadcast, .. } = *self;
        Ok(Source { origin: Origin { address, ..origin }, port, hop_limit, no_broadcast })
    }
}

/// Datagrams that were received together: room for a few, to be filled again and again
/// ([`UdpSocket::receive_burst`](crate::system::UdpSocket::receive_burst)).
///
/// They lie in the frames they came in, which are the host's until they are given back: when the next ones
/// are received.
#[derive(Debug)]
pub struct Datagrams {
    datagrams: Vec<Datagram>,
    max: usize,
}

impl Datagrams {
    /// Creates a batch with room for `max` datagrams, at least one. Allocates here, and never later.
    #[must_use]
    pub fn new(max: usize) -> Self {
        let max = max.max(1);
        Self { datagrams: Vec::with_capacity(max), max }
    }

    /// Limits the next batches to `max` datagrams: at least one, and at most as many as there is room for.
    pub fn limit(&mut self, max: usize) {
        self.max = max.clamp(1, self.datagrams.capacity());
    }

    pub(crate) fn recycle(&mut self, pool: &mut Pool) {
        self.datagrams.drain(..).for_each(|datagram| datagram.recycle(pool));
    }
}

impl TakesDatagrams for Datagrams {
    #[inline]
    fn room(&self) -> usize {
        self.max.saturating_sub(self.datagrams.len())
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.datagrams.len() < self.max
    }

    #[inline(always)]
    fn put(&mut self, datagram: Datagram) {
        // There is room. Who says so spares the compiler the way to make some.
        if self.datagrams.len() < self.datagrams.capacity() {
            self.datagrams.push(datagram);
        }
    }
}

impl core::ops::Deref for Datagrams {
    type Target = [Datagram];

    fn deref(&self) -> &[Datagram] {
        &self.datagrams
    }
}

/// A TCP socket that listens.
#[derive(Debug)]
pub(crate) struct ListeningSocket {
    pub(crate) owner: ProcessId,
    pub(crate) at: ListenAt,
    /// Under the lazy architectures: its channels, of SYNs and of what else comes for its port.
    pub(crate) syns: Option<ChannelId>,
    pub(crate) handshakes: Option<ChannelId>,
}

/// One end of a TCP connection.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) owner: ProcessId,
    pub(crate) id: Id,
}

/// A timer that a program waits for as for a socket.
#[derive(Debug)]
pub(crate) struct TimerSocket {
    pub(crate) owner: ProcessId,
    /// Once it was set.
    pub(crate) timer: Option<Timer>,
    /// For when it is set, and after how long it expires again.
    pub(crate) due: Instant,
    pub(crate) interval: Option<Duration>,
    /// Expirations that the program has not read.
    pub(crate) expirations: u64,
}

/// A counter by which a program notifies itself.
#[derive(Debug)]
pub(crate) struct UserEventSocket {
    pub(crate) owner: ProcessId,
    pub(crate) posted: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_costs_its_host_16_bytes() {
        assert_eq!(size_of::<Option<Descriptor>>(), 16);
    }
}
