//! The system calls: what a program may ask of its host.

use core::task::Waker;
use std::sync::Arc;

use crate::capture::{Capture, CaptureCounters, Captured};
use crate::id::{ProcessId, SocketId};
use crate::net::Net;
use crate::ready::{Event, Ready, Waiter};
use crate::screen::Verdict;
use crate::socket::{
    BadDescriptor, BindError, ConnectError, ConnectOptions, Datagrams, Descriptor, Kind, ListenError,
    ReceiveError, SendError, StreamError,
};
use crate::stack::{Datagram, IpEndpoint, Transit};
use crate::tcp::connection::{Info, StreamOption};
use crate::tcp::endpoint::ListenAt;
use crate::tcp::table::Id;
use crate::tcp::{self, FourTuple, ListenerConfig};
use crate::time::{Duration, Instant};
use crate::wire::IpAddress;
use crate::work::Work;

/// A program's view of its host, for the length of one step.
///
/// A program uses its own sockets only. Another's is to it as if it were closed ([`BadDescriptor::NotOpen`]),
/// so that a number kept too long does no harm to whoever has it now.
///
/// Errors say whose fault it is that a call failed: see [`error`](crate::error).
#[derive(Debug)]
pub struct System<'a> {
    pub(crate) net: &'a mut Net,
    pub(crate) process: ProcessId,
    pub(crate) now: Instant,
}

impl System<'_> {
    /// The time at which this step began.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// The process that asks.
    #[must_use]
    pub const fn process(&self) -> ProcessId {
        self.process
    }

    /// Opens a UDP socket bound to `port` of `address`, or of all the host's addresses. Port 0 chooses one.
    ///
    /// Bound to a multicast group, it joins the group and receives nothing else; any number of sockets may.
    ///
    /// # Errors
    /// [`BindError`]; nothing is open then.
    pub fn bind(&mut self, address: Option<IpAddress>, port: u16) -> Result<SocketId, BindError> {
        self.net.work.add(Work::SystemCall);
        self.net.bind(Some(self.process), address, port, self.now)
    }

    /// Joins a multicast group on every interface: its datagrams to the socket's port are received by the
    /// socket. All sockets of a group and port share one channel.
    ///
    /// # Errors
    /// [`BindError`]; the socket is unchanged then.
    pub fn join(&mut self, socket: SocketId, group: IpAddress) -> Result<(), BindError> {
        self.begin(socket, Kind::Udp)?;
        let port = self.port(socket)?;
        if !group.is_multicast() {
            return Err(BindError::NotMulticast);
        }
        Ok(self.net.join(socket, port, group, self.now)?)
    }

    /// Receives a datagram.
    ///
    /// Under the lazy architectures this is where protocol input happens, on the caller's bill. The datagram
    /// stays in the frames it came in. When it is dropped their buffers go back; [`System::recycle`] is the
    /// faster way.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if there is none: then [`crate::process::Step::Wait`].
    pub fn receive(&mut self, socket: SocketId) -> Result<Datagram, ReceiveError> {
        self.begin(socket, Kind::Udp)?;
        self.net.receive(socket, self.now).ok_or(ReceiveError::WouldBlock)
    }

    /// Receives as many datagrams as there are and `datagrams` has room for, of 64 frames at most that wait
    /// in a channel. Those that it held before are given back first.
    ///
    /// It costs a fraction of as many calls of [`System::receive`], and what is sent in answer leaves
    /// together.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if there is none: then [`crate::process::Step::Wait`].
    pub fn receive_burst(&mut self, socket: SocketId, datagrams: &mut Datagrams) -> Result<(), ReceiveError> {
        datagrams.recycle(&mut self.net.pool);
        self.begin(socket, Kind::Udp)?;
        self.net.receive_into(socket, datagrams, self.now);
        there_was(!datagrams.is_empty())
    }

    /// Gives back a received datagram's buffers: faster than dropping it.
    pub fn recycle(&mut self, datagram: Datagram) {
        datagram.recycle(&mut self.net.pool);
    }

    /// Sends a datagram from the socket's address and port. The payload is copied once, into the frame that
    /// leaves.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn send(&mut self, socket: SocketId, to: IpEndpoint, payload: &[u8]) -> Result<(), SendError> {
        self.begin(socket, Kind::Udp)?;
        self.net.send(socket, to, payload, self.now)
    }

    /// Closes a descriptor; what waits in it is dropped and counted. One that is not open stays closed.
    pub fn close(&mut self, socket: SocketId) {
        self.net.work.add(Work::SystemCall);
        if self.descriptor(socket).is_ok() {
            self.net.close(socket, self.now);
        }
    }

    /// Makes this process the one that screens: from now on every packet that the host is to forward waits in
    /// a queue of at most `limit_pkts` for its verdict. If the process ends, nothing is forwarded until
    /// another one screens.
    ///
    /// # Errors
    /// [`BindError::InUse`] if another process screens, or [`BindError::NoMemory`].
    pub fn open_screen(&mut self, limit_pkts: usize) -> Result<SocketId, BindError> {
        self.net.work.add(Work::SystemCall);
        self.net.open_screen(self.process, limit_pkts)
    }

    /// Screens the next packet: it is forwarded, or not, as `decide` says.
    ///
    /// Under the lazy architectures this is where IP input happens, on the caller's bill.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if there is none: then [`crate::process::Step::Wait`].
    pub fn screen(
        &mut self,
        screen: SocketId,
        decide: impl FnOnce(&Transit) -> Verdict,
    ) -> Result<(), ReceiveError> {
        self.begin(screen, Kind::Screen)?;
        there_was(self.net.screen(screen, self.now, decide))
    }

    /// Shows the next packet to be screened, and keeps it for a verdict that comes later, by
    /// [`System::judge`].
    ///
    /// For those who cannot judge at once, because another thread does. What is kept when the process ends is
    /// dropped.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if there is none, or as many as the queue's limit are kept.
    pub fn show(&mut self, screen: SocketId, see: impl FnOnce(&Transit)) -> Result<(), ReceiveError> {
        self.begin(screen, Kind::Screen)?;
        there_was(self.net.show_screened(screen, self.now, see))
    }

    /// What becomes of the oldest packet of those shown.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if none waits for its verdict.
    pub fn judge(&mut self, screen: SocketId, verdict: Verdict) -> Result<(), ReceiveError> {
        self.begin(screen, Kind::Screen)?;
        there_was(self.net.judge_screened(screen, verdict, self.now))
    }

    /// Opens a queue that gets copies of frames as `wanted` says, sent by anybody to anybody.
    ///
    /// # Errors
    /// [`BindError::NoMemory`] if the host's memory limit does not allow the copies.
    pub fn open_capture(&mut self, wanted: Capture) -> Result<SocketId, BindError> {
        self.net.work.add(Work::SystemCall);
        self.net.open_capture(self.process, wanted)
    }

    /// The oldest captured frame. It stays until [`System::pass_captured`].
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if there is none: then [`crate::process::Step::Wait`].
    #[inline]
    pub fn captured(&mut self, capture: SocketId) -> Result<Captured<'_>, ReceiveError> {
        self.begin(capture, Kind::Capture)?;
        self.net.captured(capture).ok_or(ReceiveError::WouldBlock)
    }

    /// Takes the oldest captured frame off its queue, if there is one.
    #[inline]
    pub fn pass_captured(&mut self, capture: SocketId) {
        if self.descriptor(capture).is_ok() {
            self.net.pass_captured(capture);
        }
    }

    /// Counters of a capture queue.
    ///
    /// # Errors
    /// It is no capture queue of this process.
    pub fn capture_counters(&self, capture: SocketId) -> Result<CaptureCounters, BadDescriptor> {
        match self.descriptor(capture)? {
            Descriptor::Capture(capture) => Ok(capture.counters()),
            _ => Err(BadDescriptor::OtherKind),
        }
    }

    // --- TCP ---

    /// Listens for connections to `port` of `address`, or of all the host's addresses. With port 0 one is
    /// chosen: [`System::port`] says which.
    ///
    /// # Errors
    /// [`ListenError`]; nothing listens then.
    pub fn listen(
        &mut self,
        address: Option<IpAddress>,
        port: u16,
        config: &ListenerConfig,
    ) -> Result<SocketId, ListenError> {
        self.net.work.add(Work::SystemCall);
        self.net.listen(self.process, ListenAt { address, port }, config, None)
    }

    /// The same, and what is accepted has `options` in place of the host's
    /// [`Config::tcp`](crate::host::Config::tcp).
    ///
    /// # Errors
    /// [`ListenError`]; nothing listens then.
    pub fn listen_with(
        &mut self,
        address: Option<IpAddress>,
        port: u16,
        config: &ListenerConfig,
        options: &Arc<tcp::Config>,
    ) -> Result<SocketId, ListenError> {
        self.net.work.add(Work::SystemCall);
        self.net.listen(self.process, ListenAt { address, port }, config, Some(options))
    }

    /// The connection that has waited longest to be accepted, as a stream of this process, and its peer.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if none waits: then [`crate::process::Step::Wait`].
    pub fn accept(&mut self, listener: SocketId) -> Result<(SocketId, IpEndpoint), ReceiveError> {
        self.begin(listener, Kind::Listener)?;
        self.net.accept(listener, self.process).ok_or(ReceiveError::WouldBlock)
    }

    /// Opens a connection to `to`, from an address of ours that suits it and a port that is free. The stream
    /// can be written to at once; it is connected when its event says so.
    ///
    /// # Errors
    /// [`ConnectError`]; nothing was opened.
    pub fn connect(&mut self, to: IpEndpoint) -> Result<SocketId, ConnectError> {
        self.connect_with(to, &ConnectOptions::default()).map(|(stream, _)| stream)
    }

    /// The same as `options` say; says also how much of their data was taken, the rest is to be written.
    ///
    /// # Errors
    /// [`ConnectError`]; nothing was opened.
    pub fn connect_with(
        &mut self,
        to: IpEndpoint,
        options: &ConnectOptions<'_>,
    ) -> Result<(SocketId, usize), ConnectError> {
        self.net.work.add(Work::SystemCall);
        self.net.connect(self.process, to, options, self.now)
    }

    /// Reads what has come; says how many bytes. None at the end of the stream.
    ///
    /// # Errors
    /// [`StreamError::WouldBlock`] if nothing has come: then [`crate::process::Step::Wait`].
    pub fn read(&mut self, stream: SocketId, to: &mut [u8]) -> Result<usize, StreamError> {
        let id = self.begin_on_stream(stream)?;
        Ok(self.net.read_stream(id, to, self.now)?)
    }

    /// [`System::read`] of what is then still there to be read.
    ///
    /// # Errors
    /// As [`System::read`].
    pub fn peek_stream(&mut self, stream: SocketId, to: &mut [u8]) -> Result<usize, StreamError> {
        let id = self.begin_on_stream(stream)?;
        Ok(self.net.with_stream(id, |endpoint, id| endpoint.peek(id, to))?)
    }

    /// Takes bytes to send, as many as there is room for; says how many.
    ///
    /// # Errors
    /// [`StreamError::WouldBlock`] if there is no room: an event says when there is.
    pub fn write(&mut self, stream: SocketId, data: &[u8]) -> Result<usize, StreamError> {
        let id = self.begin_on_stream(stream)?;
        Ok(self.net.with_stream(id, |endpoint, id| endpoint.write(id, data))?)
    }

    /// [`System::write`] of something that more will follow at once: a segment that is not full waits for it.
    ///
    /// # Errors
    /// As [`System::write`].
    pub fn write_more(&mut self, stream: SocketId, data: &[u8]) -> Result<usize, StreamError> {
        let id = self.begin_on_stream(stream)?;
        Ok(self.net.with_stream(id, |endpoint, id| endpoint.write_more(id, data))?)
    }

    /// Bytes that [`System::write`] would take now, unless memory becomes scarce in between; 0 also if this
    /// direction was shut down.
    ///
    /// # Errors
    /// The connection is over.
    pub fn room(&self, stream: SocketId) -> Result<usize, StreamError> {
        self.net.stream_room(self.stream(stream)?)
    }

    /// Why a stream has failed, if it has, told once: other calls then say that it is closed.
    ///
    /// # Errors
    /// It is no stream of this process.
    pub fn take_error(&mut self, stream: SocketId) -> Result<Option<tcp::connection::Error>, BadDescriptor> {
        let id = self.begin_on_stream(stream)?;
        Ok(self.net.with_stream(id, tcp::Endpoint::take_error))
    }

    /// Says that nothing more will be written. What was written is still sent, and reading goes on.
    ///
    /// # Errors
    /// The connection is over.
    pub fn shutdown(&mut self, stream: SocketId) -> Result<(), StreamError> {
        let id = self.begin_on_stream(stream)?;
        self.net.change_stream(id, tcp::Endpoint::shutdown)
    }

    /// Says that nothing more will be read. What was not read, and what still comes, is acknowledged and
    /// thrown away; writing goes on.
    ///
    /// # Errors
    /// The connection is over.
    pub fn shutdown_read(&mut self, stream: SocketId) -> Result<(), StreamError> {
        let id = self.begin_on_stream(stream)?;
        self.net.change_stream(id, tcp::Endpoint::shutdown_read)
    }

    /// Closes a stream at once: its peer gets a reset, and what was not sent is lost.
    ///
    /// # Errors
    /// The connection was over before. The stream is closed all the same.
    pub fn abort(&mut self, stream: SocketId) -> Result<(), StreamError> {
        let id = self.begin_on_stream(stream)?;
        self.net.abort_stream(stream, id, self.now)
    }

    /// Chooses something for one stream; at first all is as configured for the host. What is chosen in the
    /// step that opened the stream is in its SYN, too.
    ///
    /// # Errors
    /// The connection is over.
    pub fn set(&mut self, stream: SocketId, option: StreamOption) -> Result<(), StreamError> {
        let id = self.begin_on_stream(stream)?;
        self.net.set_stream(id, option, self.now)
    }

    /// How routers are to treat what a stream sends from now on: the Differentiated Services codepoint, of
    /// which six bits count. At first 0.
    ///
    /// # Errors
    /// The connection is over.
    pub fn set_dscp(&mut self, stream: SocketId, dscp: u8) -> Result<(), StreamError> {
        let id = self.begin_on_stream(stream)?;
        self.net.change_stream(id, |endpoint, id| endpoint.set_dscp(id, dscp))
    }

    /// Between whom a stream is, and its figures.
    ///
    /// # Errors
    /// It is no stream of this process.
    pub fn stream_info(&self, stream: SocketId) -> Result<(FourTuple, Info), BadDescriptor> {
        self.net.stream_info(self.stream(stream)?).ok_or(BadDescriptor::NotOpen)
    }

    /// The queue in which this process hears of all its descriptors, of every kind: wait for it as for a
    /// socket, and take what is in it with [`System::next_event`].
    pub fn events(&mut self) -> SocketId {
        self.net.open_events(self.process)
    }

    /// The event that has waited longest. A stream or a listener is mentioned again when it is ready for more
    /// than it was when last seen, so read, write or accept until there is nothing more. Of datagrams,
    /// packets to be screened and captured frames that are left where they are, one hears again with the next
    /// wait.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if there is none: then [`crate::process::Step::Wait`].
    pub fn next_event(&mut self, events: SocketId) -> Result<Event, ReceiveError> {
        self.begin(events, Kind::Events)?;
        self.net.ready.next_event(self.process).ok_or(ReceiveError::WouldBlock)
    }

    /// Has `waker` woken, once, when the descriptor is ready: for threads and tasks outside, which do not
    /// sleep by [`Step::Wait`](crate::process::Step::Wait). Returns whether it is ready already; then nobody
    /// is woken. A descriptor of another process counts as ready, and so does one that is closed: the next
    /// call says so.
    pub fn wait(&mut self, socket: SocketId, waker: &Waker) -> bool {
        self.net.work.add(Work::SystemCall);
        if self.descriptor(socket).is_err() || self.net.is_ready_to_wait_for(socket) {
            return true;
        }
        self.net.ready.wait(socket, Waiter::Waker(waker.clone()), Ready::ALL);
        false
    }

    /// `waker` is not to be woken for the descriptor any more.
    pub fn forget(&mut self, socket: SocketId, waker: &Waker) {
        if self.descriptor(socket).is_ok() {
            self.net.ready.forget_waker(socket, waker);
        }
    }

    /// The port a UDP socket is bound to, a listener listens at, or a stream has at this end.
    ///
    /// # Errors
    /// It is none of these, or not this process's.
    pub fn port(&self, socket: SocketId) -> Result<u16, BadDescriptor> {
        match self.descriptor(socket)? {
            Descriptor::Udp(socket) => Ok(socket.port),
            Descriptor::Listener(listener) => Ok(listener.at.port),
            Descriptor::Stream(_) => Ok(self.stream_info(socket)?.0.local.port),
            _ => Err(BadDescriptor::OtherKind),
        }
    }

    /// Burns CPU: the work a program does with what it received. Takes effect when the step is over.
    pub fn compute(&mut self, time: Duration) {
        self.net.work.compute += time;
    }

    // --- Whose descriptors ---

    /// What stands behind a number, if this process has it open.
    fn descriptor(&self, id: SocketId) -> Result<&Descriptor, BadDescriptor> {
        let own = |descriptor: &&Descriptor| descriptor.owner() == Some(self.process);
        self.net.descriptor(id).filter(own).ok_or(BadDescriptor::NotOpen)
    }

    fn stream(&self, id: SocketId) -> Result<Id, BadDescriptor> {
        match self.descriptor(id)? {
            Descriptor::Stream(stream) => Ok(stream.id),
            _ => Err(BadDescriptor::OtherKind),
        }
    }

    /// Begins a call on a descriptor that has to be of a certain kind.
    fn begin(&mut self, id: SocketId, kind: Kind) -> Result<(), BadDescriptor> {
        self.net.work.add(Work::SystemCall);
        let is = self.descriptor(id)?.kind() == kind;
        if is { Ok(()) } else { Err(BadDescriptor::OtherKind) }
    }

    fn begin_on_stream(&mut self, id: SocketId) -> Result<Id, BadDescriptor> {
        self.net.work.add(Work::SystemCall);
        self.stream(id)
    }
}

/// A call that takes something from a queue says whether there was anything.
const fn there_was(taken: bool) -> Result<(), ReceiveError> {
    if taken { Ok(()) } else { Err(ReceiveError::WouldBlock) }
}
