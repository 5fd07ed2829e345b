//! The system calls: what a program may ask of its host.

use core::fmt;
use core::task::Waker;
use std::sync::Arc;

use crate::capture::{Capture, CaptureCounters, Captured};
use crate::id::{Fd, ProcessId, SocketId};
use crate::net::Net;
use crate::ready::{Event, FdSets, Interest, Kinds, PollEntry, Registering, Waiter};
use crate::screen::Verdict;
use crate::socket::{
    BadDescriptor, BindError, ConnectError, ConnectOptions, Datagrams, Descriptor, DupError, Kind,
    ListenError, ReceiveError, RegisterError, SendError, StreamError, TooManyOpen,
};
use crate::stack::{Datagram, IpEndpoint, Origin, ResolvedHop, Screened, Transit};
use crate::tcp::connection::{Info, StreamOption};
use crate::tcp::endpoint::ListenAt;
use crate::tcp::table::Id;
use crate::tcp::{self, FourTuple, ListenerConfig};
use crate::time::{Duration, Instant};
use crate::wire::IpAddress;
use crate::work::Work;

/// A program's view of its host, for the length of one step.
///
/// A program names its open objects by numbers of its own ([`Fd`]), the lowest free one first, as in UNIX.
/// It cannot name the objects of other programs.
///
/// An error states whose fault it is that a call failed: see [`error`](crate::error).
///
/// A [`Program`](crate::process::Program) gets a `System` for each step. A thread outside gets one when it
/// makes calls through [`Host::enter`](crate::host::Host::enter):
///
/// ```
/// use evenkeel_core::cable::{self, Options};
/// use evenkeel_core::host::{Config, Host};
/// use evenkeel_core::socket::ReceiveError;
/// use evenkeel_core::stack::IpEndpoint;
/// use evenkeel_core::time::Instant;
/// use evenkeel_core::wire::{IpAddress, IpCidr};
///
/// let now = Instant::ZERO;
/// let mut host = Host::new(Config::default())?;
/// let (wire, end) = cable::pair(Options::new("wire", 1), Options::new("host", 2));
/// host.add_interface(Box::new(end), &[IpCidr::new(IpAddress::v4(10, 0, 0, 2), 24)], now)?;
///
/// let me = host.attach("me", 0, now);
/// host.enter(me, now, |system| {
///     let socket = system.bind(None, 7)?;
///     system.send(socket, IpEndpoint::new(IpAddress::v4(10, 0, 0, 1), 9), b"hello")?;
///     match system.receive(socket) {
///         Ok(request) => {
///             // From the address that the request came to.
///             request.as_slice().map(|payload| system.reply(socket, &request, payload)).transpose()?;
///             system.recycle(request);
///         }
///         // Nothing has come yet: wait until the host says that something has.
///         Err(error) => assert_eq!(error, ReceiveError::WouldBlock),
///     }
///     system.close(socket);
///     Ok::<(), Box<dyn std::error::Error>>(())
/// })??;
/// # drop(wire);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct System<'a> {
    net: &'a mut Net,
    process: ProcessId,
    now: Instant,
    /// The driver's work at the ends of calls, if there may be any.
    between_calls: Option<&'a mut dyn BetweenCalls>,
    /// Calls since the last trigger state.
    calls: u32,
}

/// The clock is read once in so many calls: a call on a datagram takes a fraction of a microsecond, and
/// reading the clock takes a twentieth of that.
const CALLS_A_LOOK: u32 = 8;

/// The driver's work in the trigger states within a step.
pub(crate) trait BetweenCalls: fmt::Debug {
    /// Does what is due. Returns the time if anything was.
    fn pass(&mut self, net: &mut Net) -> Option<Instant>;
}

impl<'a> System<'a> {
    pub(crate) fn new<B: BetweenCalls>(
        net: &'a mut Net,
        process: ProcessId,
        now: Instant,
        between_calls: Option<&'a mut B>,
    ) -> Self {
        let between_calls = between_calls.map(|it| -> &mut dyn BetweenCalls { it });
        Self { net, process, now, between_calls, calls: 0 }
    }
}

impl System<'_> {
    /// Returns the time at which this step began, or at which a soft event was last handled in it.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Handles a trigger state: calls the handlers of soft events that are due, and sends paced segments.
    /// Every call on a stream is a trigger state, and so is every eighth of the other calls. This is for
    /// programs that compute for long without making any.
    #[inline(never)]
    pub fn trigger(&mut self) {
        let Some(between_calls) = &mut self.between_calls else { return };
        self.calls = 0;
        if let Some(now) = between_calls.pass(self.net) {
            self.now = now;
        }
    }

    /// Begins a call. The call before ends there, which may be a trigger state. (The last call of a step
    /// ends with its work item.)
    #[inline]
    fn call(&mut self) {
        self.net.work.add(Work::SystemCall);
        if self.between_calls.is_some() {
            self.calls += 1;
            if self.calls == CALLS_A_LOOK {
                self.trigger();
            }
        }
    }

    /// Begins a call that may copy many bytes. Trigger states come before it and before the next call.
    #[inline]
    fn long_call(&mut self) {
        self.net.work.add(Work::SystemCall);
        if self.between_calls.is_some() {
            self.trigger();
            // It ends where the next call begins.
            self.calls = CALLS_A_LOOK - 1;
        }
    }

    /// Returns the process that makes the calls.
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
    pub fn bind(&mut self, address: Option<IpAddress>, port: u16) -> Result<Fd, BindError> {
        self.call();
        let socket = self.net.bind(Some(self.process), address, port, self.now)?;
        Ok(self.opened(socket))
    }

    /// Joins a multicast group on every interface: its datagrams to the socket's port are received by the
    /// socket. All sockets of a group and port share one channel.
    ///
    /// # Errors
    /// [`BindError`]; the socket is unchanged then.
    pub fn join(&mut self, socket: Fd, group: IpAddress) -> Result<(), BindError> {
        let id = self.begin(socket, Kind::Udp)?;
        let port = self.port(socket)?;
        if !group.is_multicast() {
            return Err(BindError::NotMulticast);
        }
        Ok(self.net.join(id, port, group, self.now)?)
    }

    /// Receives a datagram.
    ///
    /// Under the lazy architectures this is where protocol input happens, on the caller's bill. The datagram
    /// stays in the frames it came in. When it is dropped their buffers go back; [`System::recycle`] is the
    /// faster way.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if there is none: then [`crate::process::Step::Wait`].
    pub fn receive(&mut self, socket: Fd) -> Result<Datagram, ReceiveError> {
        let id = self.begin(socket, Kind::Udp)?;
        self.net.receive(id, self.now).ok_or(ReceiveError::WouldBlock)
    }

    /// Receives as many datagrams as there are and `datagrams` has room for, of 64 frames at most that wait
    /// in a channel. Those that it held before are given back first.
    ///
    /// It costs a fraction of as many calls of [`System::receive`], and what is sent in answer leaves
    /// together.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if there is none: then [`crate::process::Step::Wait`].
    pub fn receive_burst(&mut self, socket: Fd, datagrams: &mut Datagrams) -> Result<(), ReceiveError> {
        datagrams.recycle(&mut self.net.pool);
        let id = self.begin(socket, Kind::Udp)?;
        self.net.receive_into(id, datagrams, self.now);
        there_was(!datagrams.is_empty())
    }

    /// Gives back a received datagram's buffers: faster than dropping it.
    pub fn recycle(&mut self, datagram: Datagram) {
        datagram.recycle(&mut self.net.pool);
    }

    /// Sends a datagram from the socket's address and port. The payload is copied once, into the frame that
    /// leaves.
    ///
    /// A socket that is bound to no address sends from the one that suits the way there. That is right for
    /// requests only: [`System::reply`] sends an answer from the address that its request came to.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn send(&mut self, socket: Fd, to: IpEndpoint, payload: &[u8]) -> Result<(), SendError> {
        self.send_from(socket, Origin::default(), to, payload)
    }

    /// Answers a datagram: sends `payload` to its sender, from the address that it was sent to and by the
    /// interface that it came by ([`Datagram::reply_origin`]).
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn reply(&mut self, socket: Fd, request: &Datagram, payload: &[u8]) -> Result<(), SendError> {
        self.send_from(socket, request.reply_origin(), request.source(), payload)
    }

    /// Sends a datagram from an address and by an interface of the caller's choice, as `IP_PKTINFO` does: for
    /// answers that leave later than in the step that received the request.
    ///
    /// # Errors
    /// [`SendError`], and [`SendError::NotLocal`] if `from` is no address of this host, or another one than
    /// the socket is bound to; nothing was sent.
    pub fn send_from(
        &mut self,
        socket: Fd,
        from: Origin,
        to: IpEndpoint,
        payload: &[u8],
    ) -> Result<(), SendError> {
        let id = self.begin(socket, Kind::Udp)?;
        self.net.send(id, from, to, payload, self.now)
    }

    /// Returns the first hop of packets to `destination`. The host requests the hop's hardware address if
    /// that is neither known nor requested already, so that a program may wait until the first datagram can
    /// leave.
    ///
    /// # Errors
    /// [`SendError`]; nothing is asked then.
    pub fn first_hop(&mut self, destination: IpAddress) -> Result<ResolvedHop, SendError> {
        self.call();
        let hop = self.net.with_stack(self.now, |stack, io| stack.first_hop(destination, io));
        Ok(hop?)
    }

    /// Closes a descriptor. If it was the last one of what it refers to, that is closed, and what waits in it
    /// is dropped and counted. One that is not open stays closed.
    pub fn close(&mut self, fd: Fd) {
        self.call();
        self.net.close_descriptor(self.process, fd, self.now);
    }

    // --- Descriptors ---

    /// Makes the lowest free number refer to the same object as `fd`, and returns that number.
    ///
    /// # Errors
    /// [`DupError`]
    pub fn dup(&mut self, fd: Fd) -> Result<Fd, DupError> {
        self.dup_from(fd, Fd(0))
    }

    /// Makes the lowest free number that is not below `lowest` refer to the same object as `fd` (`F_DUPFD`),
    /// and returns that number.
    ///
    /// # Errors
    /// [`DupError`]
    pub fn dup_from(&mut self, fd: Fd, lowest: Fd) -> Result<Fd, DupError> {
        self.call();
        self.net.readiness().dup_from(self.process, fd, lowest.0)
    }

    /// Makes the number `new` refer to the same object as `fd`; the descriptor that `new` was before is
    /// closed. If both are the same number, nothing is done.
    ///
    /// # Errors
    /// [`DupError`]; nothing is changed then.
    pub fn dup2(&mut self, fd: Fd, new: Fd) -> Result<(), DupError> {
        self.call();
        self.net.dup2(self.process, fd, new, self.now)
    }

    /// Sets how many descriptors this process may have: new ones have lower numbers. Those above stay open.
    /// At first it is [`Config::descriptors_max`](crate::host::Config::descriptors_max).
    pub fn set_descriptor_limit(&mut self, limit: u32) {
        self.call();
        self.net.sockets.ready.set_limit(self.process, limit);
    }

    // --- Screening and capturing ---

    /// Makes this process the one that screens: from now on every packet that the host is to forward waits in
    /// a queue of at most `limit_pkts` for its verdict. If the process ends, nothing is forwarded until
    /// another one screens.
    ///
    /// # Errors
    /// [`BindError::InUse`] if another process screens, or [`BindError::NoMemory`].
    pub fn open_screen(&mut self, limit_pkts: usize) -> Result<Fd, BindError> {
        self.call();
        let screen = self.net.open_screen(self.process, limit_pkts)?;
        Ok(self.opened(screen))
    }

    /// Screens the next packet: it is forwarded or not, according to the verdict of `decide`.
    ///
    /// Under the lazy architectures this is where IP input happens, on the caller's bill.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if there is none: then [`crate::process::Step::Wait`].
    pub fn screen(
        &mut self,
        screen: Fd,
        decide: impl FnOnce(&Transit) -> Verdict,
    ) -> Result<(), ReceiveError> {
        self.screen_with(screen, |screened| decide(screened.transit()))
    }

    /// Screens the next packet as [`System::screen`] does. `decide` may also ask the host's tables about its
    /// addresses, and change the packet.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if there is none.
    pub fn screen_with(
        &mut self,
        screen: Fd,
        decide: impl FnOnce(&mut Screened<'_>) -> Verdict,
    ) -> Result<(), ReceiveError> {
        let id = self.begin(screen, Kind::Screen)?;
        there_was(self.net.screen(id, self.now, decide))
    }

    /// Shows the next packet to be screened, and keeps it for a later verdict through [`System::judge`].
    ///
    /// For programs that cannot judge at once, because another thread does. Packets kept when the process
    /// ends are dropped.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if there is none, or as many as the queue's limit are kept.
    pub fn show(&mut self, screen: Fd, see: impl FnOnce(&Transit)) -> Result<(), ReceiveError> {
        let id = self.begin(screen, Kind::Screen)?;
        there_was(self.net.show_screened(id, self.now, see))
    }

    /// Applies a verdict to the oldest packet of those shown.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if none waits for its verdict.
    pub fn judge(&mut self, screen: Fd, verdict: Verdict) -> Result<(), ReceiveError> {
        let id = self.begin(screen, Kind::Screen)?;
        there_was(self.net.judge_screened(id, verdict, self.now))
    }

    /// Opens a queue that gets copies of the frames selected by `wanted`, from and to any host.
    ///
    /// # Errors
    /// [`BindError::NoMemory`] if the host's memory limit does not allow the copies.
    pub fn open_capture(&mut self, wanted: Capture) -> Result<Fd, BindError> {
        self.call();
        let capture = self.net.open_capture(self.process, wanted)?;
        Ok(self.opened(capture))
    }

    /// Returns the oldest captured frame, which stays until [`System::pass_captured`].
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if there is none: then [`crate::process::Step::Wait`].
    #[inline]
    pub fn captured(&mut self, capture: Fd) -> Result<Captured<'_>, ReceiveError> {
        let id = self.begin(capture, Kind::Capture)?;
        self.net.sockets.captured(id).ok_or(ReceiveError::WouldBlock)
    }

    /// Takes the oldest captured frame off its queue, if there is one.
    #[inline]
    pub fn pass_captured(&mut self, capture: Fd) {
        if let Ok((id, _)) = self.descriptor(capture) {
            let (sockets, mut cx) = self.net.sockets(self.now);
            sockets.pass_captured(id, &mut cx);
        }
    }

    /// Counters of a capture queue.
    ///
    /// # Errors
    /// It is no capture queue of this process.
    pub fn capture_counters(&self, capture: Fd) -> Result<CaptureCounters, BadDescriptor> {
        match self.descriptor(capture)?.1 {
            Descriptor::Capture(capture) => Ok(capture.counters()),
            _ => Err(BadDescriptor::OtherKind),
        }
    }

    // --- TCP ---

    /// Listens for connections to `port` of `address`, or of all the host's addresses. With port 0 the host
    /// chooses one, which [`System::port`] returns.
    ///
    /// # Errors
    /// [`ListenError`]; nothing listens then.
    pub fn listen(
        &mut self,
        address: Option<IpAddress>,
        port: u16,
        config: &ListenerConfig,
    ) -> Result<Fd, ListenError> {
        self.call();
        let listener = self.net.listen(self.process, ListenAt { address, port }, config, None)?;
        Ok(self.opened(listener))
    }

    /// Listens as [`System::listen`] does. Accepted streams use `options` in place of the host's
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
    ) -> Result<Fd, ListenError> {
        self.call();
        let listener = self.net.listen(self.process, ListenAt { address, port }, config, Some(options))?;
        Ok(self.opened(listener))
    }

    /// Accepts the connection that has waited longest. Returns it as a stream of this process, with its
    /// peer.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if none waits: then [`crate::process::Step::Wait`]. If the process has as
    /// many descriptors as it may have, the connection waits on.
    pub fn accept(&mut self, listener: Fd) -> Result<(Fd, IpEndpoint), ReceiveError> {
        let id = self.begin(listener, Kind::Listener)?;
        let (socket, peer) = self.net.accept(id, self.process)?.ok_or(ReceiveError::WouldBlock)?;
        Ok((self.opened(socket), peer))
    }

    /// Opens a connection to `to`, from an address of the host that suits it and a free port. The stream can
    /// be written to at once; an event reports when it is connected.
    ///
    /// # Errors
    /// [`ConnectError`]; nothing was opened.
    pub fn connect(&mut self, to: IpEndpoint) -> Result<Fd, ConnectError> {
        self.connect_with(to, &ConnectOptions::default()).map(|(stream, _)| stream)
    }

    /// Opens a connection to `to` as `options` say. Returns the stream, and the number of bytes of their
    /// data that were taken; the caller writes the rest.
    ///
    /// # Errors
    /// [`ConnectError`]; nothing was opened.
    pub fn connect_with(
        &mut self,
        to: IpEndpoint,
        options: &ConnectOptions<'_>,
    ) -> Result<(Fd, usize), ConnectError> {
        self.call();
        let (stream, taken) = self.net.connect(self.process, to, options, self.now)?;
        Ok((self.opened(stream), taken))
    }

    /// Reads bytes that have arrived, and returns their number: 0 at the end of the stream.
    ///
    /// # Errors
    /// [`StreamError::WouldBlock`] if nothing has come: then [`crate::process::Step::Wait`].
    pub fn read(&mut self, stream: Fd, to: &mut [u8]) -> Result<usize, StreamError> {
        let id = self.begin_on_stream(stream)?;
        self.net.work.add(Work::Deliver);
        Ok(self.net.tcp.read_stream(id, to, self.now)?)
    }

    /// Reads as [`System::read`] does, and leaves the bytes there to be read again.
    ///
    /// # Errors
    /// As [`System::read`].
    pub fn peek_stream(&mut self, stream: Fd, to: &mut [u8]) -> Result<usize, StreamError> {
        let id = self.begin_on_stream(stream)?;
        Ok(self.net.tcp.with_stream(id, |endpoint, id| endpoint.peek(id, to))?)
    }

    /// Takes as many bytes to send as there is room for, and returns their number.
    ///
    /// # Errors
    /// [`StreamError::WouldBlock`] if there is no room: an event says when there is.
    pub fn write(&mut self, stream: Fd, data: &[u8]) -> Result<usize, StreamError> {
        let id = self.begin_on_stream(stream)?;
        Ok(self.net.tcp.with_stream(id, |endpoint, id| endpoint.write(id, data))?)
    }

    /// Writes as [`System::write`] does, for data that more will follow at once: a segment that is not full
    /// waits for it.
    ///
    /// # Errors
    /// As [`System::write`].
    pub fn write_more(&mut self, stream: Fd, data: &[u8]) -> Result<usize, StreamError> {
        let id = self.begin_on_stream(stream)?;
        Ok(self.net.tcp.with_stream(id, |endpoint, id| endpoint.write_more(id, data))?)
    }

    /// Bytes that [`System::write`] would take now, unless memory becomes scarce in between; 0 also if this
    /// direction was shut down.
    ///
    /// # Errors
    /// The connection is over.
    pub fn room(&self, stream: Fd) -> Result<usize, StreamError> {
        self.net.tcp.stream_room(self.stream(stream)?)
    }

    /// Returns why a stream has failed, if it has, and only once. Other calls then fail because the stream
    /// is closed.
    ///
    /// # Errors
    /// It is no stream of this process.
    pub fn take_error(&mut self, stream: Fd) -> Result<Option<tcp::connection::Error>, BadDescriptor> {
        let id = self.begin_on_stream(stream)?;
        Ok(self.net.tcp.with_stream(id, tcp::Endpoint::take_error))
    }

    /// Closes the sending direction of a stream. Data written before are still sent, and reading goes on.
    ///
    /// # Errors
    /// The connection is over.
    pub fn shutdown(&mut self, stream: Fd) -> Result<(), StreamError> {
        let id = self.begin_on_stream(stream)?;
        self.net.tcp.change_stream(id, tcp::Endpoint::shutdown)
    }

    /// Closes the receiving direction of a stream. Data that were not read, and data that still arrive, are
    /// acknowledged and discarded; writing goes on.
    ///
    /// # Errors
    /// The connection is over.
    pub fn shutdown_read(&mut self, stream: Fd) -> Result<(), StreamError> {
        let id = self.begin_on_stream(stream)?;
        self.net.tcp.change_stream(id, tcp::Endpoint::shutdown_read)
    }

    /// Closes a stream at once: its peer gets a reset, and what was not sent is lost. Other descriptors of it
    /// stay open, of a connection that is over.
    ///
    /// # Errors
    /// The connection was over before. The stream is closed all the same.
    pub fn abort(&mut self, stream: Fd) -> Result<(), StreamError> {
        let id = self.begin_on_stream(stream)?;
        let aborted = self.net.activation().abort_stream(id);
        self.net.close_descriptor(self.process, stream, self.now);
        aborted
    }

    /// Chooses something for one stream; at first all is as configured for the host. What is chosen in the
    /// step that opened the stream is in its SYN, too.
    ///
    /// # Errors
    /// The connection is over.
    pub fn set(&mut self, stream: Fd, option: StreamOption) -> Result<(), StreamError> {
        let id = self.begin_on_stream(stream)?;
        self.net.tcp.set_stream(id, option, self.now)
    }

    /// Sets the Differentiated Services codepoint of packets that a stream sends from now on. The low six
    /// bits count. The initial value is 0.
    ///
    /// # Errors
    /// The connection is over.
    pub fn set_dscp(&mut self, stream: Fd, dscp: u8) -> Result<(), StreamError> {
        let id = self.begin_on_stream(stream)?;
        self.net.tcp.change_stream(id, |endpoint, id| endpoint.set_dscp(id, dscp))
    }

    /// Returns the addresses and ports of a stream, and its figures.
    ///
    /// # Errors
    /// It is no stream of this process.
    pub fn stream_info(&self, stream: Fd) -> Result<(FourTuple, Info), BadDescriptor> {
        self.net.tcp.stream_info(self.stream(stream)?).ok_or(BadDescriptor::NotOpen)
    }

    // --- Readiness ---

    /// Sets `found` to those of `selecting` that are ready. Returns how many there are, counting a
    /// descriptor once for each set that it is in. If there are none,
    /// [`Step::Block`](crate::process::Step::Block) sleeps until there is one.
    ///
    /// The host remembers the result. The next call checks only descriptors that are new, those that were
    /// ready, and those for which something has come. See [`evenkeel_ready::Readiness::select`].
    ///
    /// # Errors
    /// One of them is not open; `found` is empty then.
    pub fn select(&mut self, selecting: &FdSets, found: &mut FdSets) -> Result<usize, BadDescriptor> {
        self.begin_or_continue();
        self.net.readiness().select(self.process, selecting, found)
    }

    /// Writes into each entry what its descriptor is ready for. Returns the number of entries that are
    /// ready, or not open. If there are none, [`Step::Block`](crate::process::Step::Block) sleeps until
    /// there is one.
    pub fn poll(&mut self, entries: &mut [PollEntry]) -> usize {
        self.begin_or_continue();
        self.net.readiness().poll_descriptors(self.process, entries)
    }

    /// Continues the call in which the process has slept, or begins a new one.
    fn begin_or_continue(&mut self) {
        if !self.net.sockets.ready.is_woken_in_call(self.process) {
            self.call();
        }
    }

    /// Has `waker` woken, once, when the last call of [`System::select`] or [`System::poll`], which has
    /// found nothing, would find something. This is for threads and tasks outside, which do not sleep
    /// through [`Step::Block`](crate::process::Step::Block). Returns whether the call would find something
    /// already; then `waker` is not woken.
    ///
    /// A process is in one call at a time: the next call replaces this one, and wakers registered for this
    /// one are then woken for that.
    pub fn block(&mut self, waker: &Waker) -> bool {
        self.call();
        self.net.readiness().wait_in_call(self.process, waker)
    }

    /// Ends the call in which nothing was found: wakers that [wait](System::block) in it are no longer woken
    /// for it.
    pub fn give_up(&mut self) {
        self.net.sockets.ready.leave_call(self.process);
    }

    /// Opens an event queue. Descriptors are [added](System::add) to it once, and [`System::take_events`]
    /// returns which of them are ready. A descriptor costs nothing until something has come for it, so their
    /// number does not matter.
    ///
    /// It is a descriptor itself: to be waited for, selected, and added to another one.
    ///
    /// # Errors
    /// The process has as many descriptors as it may have.
    pub fn open_queue(&mut self) -> Result<Fd, TooManyOpen> {
        self.call();
        self.net.readiness().open_queue(self.process)
    }

    /// Adds a descriptor to an event queue, until it is [deleted](System::delete) or closed. See
    /// [`Trigger`](crate::socket::Trigger) for when it reports.
    ///
    /// # Errors
    /// [`RegisterError`]
    pub fn add(&mut self, queue: Fd, fd: Fd, interest: Interest) -> Result<(), RegisterError> {
        self.call();
        self.net.readiness().set_interest(Registering::Add, self.process, queue, fd, interest)
    }

    /// Changes the interest of a descriptor that was added. The queue then checks it as if it were new.
    ///
    /// # Errors
    /// [`RegisterError`]
    pub fn modify(&mut self, queue: Fd, fd: Fd, interest: Interest) -> Result<(), RegisterError> {
        self.call();
        self.net.readiness().set_interest(Registering::Modify, self.process, queue, fd, interest)
    }

    /// Takes a descriptor out of an event queue.
    ///
    /// # Errors
    /// [`RegisterError`]
    pub fn delete(&mut self, queue: Fd, fd: Fd) -> Result<(), RegisterError> {
        self.call();
        Ok(self.net.sockets.ready.delete(self.process, queue, fd)?)
    }

    /// Takes events from an event queue, as many as there are and `events` has room for: they are at its
    /// beginning. Returns how many. If none, [`Step::Wait`](crate::process::Step::Wait) for the queue.
    ///
    /// # Errors
    /// It is no event queue of this process, or there is no room for any event.
    pub fn take_events(&mut self, queue: Fd, events: &mut [Event]) -> Result<usize, BadDescriptor> {
        self.call();
        match self.net.readiness().take_events(self.process, queue, events) {
            Ok(taken) => Ok(taken),
            Err(RegisterError::BadDescriptor(bad)) => Err(bad),
            Err(_) => Err(BadDescriptor::OtherKind),
        }
    }

    /// Returns the event queue that reports all descriptors of this process: those that it has, and those
    /// that it will have. Each was added with [`Trigger::Edge`](crate::socket::Trigger::Edge), for all kinds
    /// of event, and with its own number as the token ([`Fd::of`]).
    ///
    /// So read, write, accept or receive until there is nothing more: a descriptor is mentioned again when
    /// more has come.
    ///
    /// # Errors
    /// The process has as many descriptors as it may have.
    pub fn events(&mut self) -> Result<Fd, TooManyOpen> {
        self.net.readiness().open_events(self.process)
    }

    /// Takes the event of an event queue that has waited longest.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if there is none: then [`crate::process::Step::Wait`].
    pub fn next_event(&mut self, queue: Fd) -> Result<Event, ReceiveError> {
        let mut event = [Event::default()];
        let taken = self.take_events(queue, &mut event)?;
        if taken > 0 { Ok(event[0]) } else { Err(ReceiveError::WouldBlock) }
    }

    /// Has `waker` woken, once, when the descriptor is ready for one of `kinds`, or has ended. This is for
    /// threads and tasks outside, which do not sleep through [`Step::Wait`](crate::process::Step::Wait).
    ///
    /// Returns what of `kinds` it is ready for already, and whether it has ended; if anything, `waker` is not
    /// woken. A descriptor that is not open is [`Kinds::INVALID`]: the next call on it returns the error.
    pub fn wait(&mut self, fd: Fd, kinds: Kinds, waker: &Waker) -> Kinds {
        self.call();
        let Ok((id, _)) = self.descriptor(fd) else { return Kinds::INVALID };
        let ready = self.net.readiness().ready_for(id, kinds);
        if ready.is_empty() {
            self.net.sockets.ready.wait(id, Waiter::Waker(waker.clone()), kinds);
        }
        ready
    }

    /// Cancels the waking of `waker` for the descriptor.
    pub fn forget(&mut self, fd: Fd, waker: &Waker) {
        if let Ok((id, _)) = self.descriptor(fd) {
            self.net.sockets.ready.forget_waker(id, waker);
        }
    }

    // --- Timers and user events ---

    /// Opens a timer: a descriptor that is ready to read when it has expired.
    ///
    /// # Errors
    /// The process has as many descriptors as it may have.
    pub fn open_timer(&mut self) -> Result<Fd, TooManyOpen> {
        self.call();
        let timer = self.net.sockets.open_timer(self.process, &mut self.net.work)?;
        Ok(self.opened(timer))
    }

    /// Sets a timer to expire at a time, or never, and then after each `interval` if there is one. How often
    /// it had expired before is forgotten.
    ///
    /// # Errors
    /// It is no timer of this process.
    pub fn set_timer(
        &mut self,
        timer: Fd,
        at: Instant,
        interval: Option<Duration>,
    ) -> Result<(), BadDescriptor> {
        let id = self.begin(timer, Kind::Timer)?;
        self.net.sockets.set_timer(id, at, interval);
        Ok(())
    }

    /// Returns how often a timer has expired since it was set, or since the last such call.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if it has not: then [`crate::process::Step::Wait`].
    pub fn expirations(&mut self, timer: Fd) -> Result<u64, ReceiveError> {
        let id = self.begin(timer, Kind::Timer)?;
        let expirations = self.net.sockets.take_expirations(id);
        there_was(expirations > 0).map(|()| expirations)
    }

    /// Opens a user event: a counter, ready to read when something was posted to it.
    ///
    /// # Errors
    /// The process has as many descriptors as it may have.
    pub fn open_user_event(&mut self) -> Result<Fd, TooManyOpen> {
        self.call();
        let event = self.net.sockets.open_user_event(self.process, &mut self.net.work)?;
        Ok(self.opened(event))
    }

    /// Adds `times` to a user event.
    ///
    /// # Errors
    /// It is no user event of this process.
    pub fn post(&mut self, event: Fd, times: u64) -> Result<(), BadDescriptor> {
        let id = self.begin(event, Kind::UserEvent)?;
        self.net.sockets.post(id, times);
        Ok(())
    }

    /// Returns the sum that was posted to a user event since the last such call.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if none was: then [`crate::process::Step::Wait`].
    pub fn posted(&mut self, event: Fd) -> Result<u64, ReceiveError> {
        let id = self.begin(event, Kind::UserEvent)?;
        let posted = self.net.sockets.take_posted(id);
        there_was(posted > 0).map(|()| posted)
    }

    // --- This process ---

    /// Returns the socket that a descriptor refers to, for queries of the host
    /// ([`Host::socket_counters`](crate::host::Host::socket_counters) and others).
    ///
    /// # Errors
    /// It is not open.
    pub fn socket(&self, fd: Fd) -> Result<SocketId, BadDescriptor> {
        Ok(self.descriptor(fd)?.0)
    }

    /// Returns the port that a UDP socket is bound to, that a listener listens at, or that is a stream's
    /// local port.
    ///
    /// # Errors
    /// It is none of these, or not this process's.
    pub fn port(&self, socket: Fd) -> Result<u16, BadDescriptor> {
        match self.descriptor(socket)?.1 {
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

    /// Returns the object that a descriptor of this process refers to.
    #[inline]
    fn descriptor(&self, fd: Fd) -> Result<(SocketId, &Descriptor), BadDescriptor> {
        let id = self.net.sockets.ready.resolve(self.process, fd).ok_or(BadDescriptor::NotOpen)?;
        Ok((id, self.net.sockets.descriptors.get(id).ok_or(BadDescriptor::NotOpen)?))
    }

    /// Returns the descriptor of a socket that was just opened, after adding it to the process's queue of
    /// all events, if it has one.
    fn opened(&mut self, id: SocketId) -> Fd {
        let fd = self.net.sockets.ready.fd(id);
        self.net.readiness().add_opened_to_events(self.process, fd);
        fd
    }

    #[inline]
    fn stream(&self, fd: Fd) -> Result<Id, BadDescriptor> {
        match self.descriptor(fd)?.1 {
            Descriptor::Stream(stream) => Ok(stream.id),
            _ => Err(BadDescriptor::OtherKind),
        }
    }

    /// Begins a call on a descriptor that has to be of a certain kind.
    #[inline]
    fn begin(&mut self, fd: Fd, kind: Kind) -> Result<SocketId, BadDescriptor> {
        self.call();
        let (id, descriptor) = self.descriptor(fd)?;
        if descriptor.kind() == kind { Ok(id) } else { Err(BadDescriptor::OtherKind) }
    }

    #[inline]
    fn begin_on_stream(&mut self, fd: Fd) -> Result<Id, BadDescriptor> {
        self.long_call();
        self.stream(fd)
    }
}

/// Returns [`ReceiveError::WouldBlock`] unless a call has taken something from a queue.
const fn there_was(taken: bool) -> Result<(), ReceiveError> {
    if taken { Ok(()) } else { Err(ReceiveError::WouldBlock) }
}
