//! The system calls: what a program may ask of its host.

use core::task::Waker;

use crate::capture::{Capture, CaptureCounters, Captured};
use crate::id::{ProcessId, SocketId};
use crate::net::Net;
use crate::ready::{Event, Ready, Waiter};
use crate::screen::Verdict;
use crate::socket::{BindError, ConnectError, Descriptor, ListenError};
use crate::stack::{Datagram, Endpoint, SendError, Transit};
use crate::tcp::connection::{Info, StreamOption, Unavailable};
use crate::tcp::endpoint::{ListenAt, NotConnected};
use crate::tcp::{self, FourTuple, ListenerConfig};
use crate::time::{Duration, Instant};
use crate::wire::IpAddress;
use crate::work::Work;

/// A program's view of its host, for the length of one step.
///
/// A program uses its own sockets only. Another's is to it as if it were closed, so that a number kept too
/// long does no harm to whoever has it now.
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
        self.net.work.add(Work::SystemCall);
        if !self.owns(socket) {
            return Err(BindError::NotLocal);
        }
        self.net.join(socket, group, self.now)
    }

    /// Receives a datagram, or `None` if there is none: then [`crate::process::Step::Wait`].
    ///
    /// Under the lazy architectures this is where protocol input happens, on the caller's bill. The datagram
    /// stays in the frames it came in; give it back with [`System::recycle`].
    pub fn receive(&mut self, socket: SocketId) -> Option<Datagram> {
        self.net.work.add(Work::SystemCall);
        if self.owns(socket) { self.net.receive(socket, self.now) } else { None }
    }

    /// Gives back a received datagram's buffers.
    pub fn recycle(&mut self, datagram: Datagram) {
        datagram.recycle(&mut self.net.pool);
    }

    /// Sends a datagram from the socket's address and port. The payload is copied once, into the frame that
    /// leaves.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn send(&mut self, socket: SocketId, to: Endpoint, payload: &[u8]) -> Result<(), SendError> {
        self.net.work.add(Work::SystemCall);
        if !self.owns(socket) {
            return Err(SendError::NoAddress);
        }
        self.net.send(socket, to, payload, self.now)
    }

    /// Closes a socket; what waits in it is dropped and counted.
    pub fn close(&mut self, socket: SocketId) {
        self.net.work.add(Work::SystemCall);
        if self.owns(socket) {
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

    /// Screens the next packet: it is forwarded, or not, as `decide` says. Returns whether there was one; if
    /// not, [`crate::process::Step::Wait`].
    ///
    /// Under the lazy architectures this is where IP input happens, on the caller's bill.
    pub fn screen(&mut self, screen: SocketId, decide: impl FnOnce(&Transit) -> Verdict) -> bool {
        self.net.work.add(Work::SystemCall);
        self.owns(screen) && self.net.screen(screen, self.now, decide)
    }

    /// Shows the next packet to be screened, and keeps it for a verdict that comes later, by
    /// [`System::judge`]. Returns whether there was one; there is none while as many as the queue's limit are
    /// kept.
    ///
    /// For those who cannot judge at once, because another thread does. What is kept when the process ends is
    /// dropped.
    pub fn show(&mut self, screen: SocketId, see: impl FnOnce(&Transit)) -> bool {
        self.net.work.add(Work::SystemCall);
        self.owns(screen) && self.net.show_screened(screen, self.now, see)
    }

    /// What becomes of the oldest packet of those shown. Returns whether there was one.
    pub fn judge(&mut self, screen: SocketId, verdict: Verdict) -> bool {
        self.net.work.add(Work::SystemCall);
        self.owns(screen) && self.net.judge_screened(screen, verdict, self.now)
    }

    /// Opens a queue that gets copies of frames as `wanted` says, sent by anybody to anybody.
    ///
    /// # Errors
    /// [`BindError::NoMemory`] if the host's memory limit does not allow the copies.
    pub fn open_capture(&mut self, wanted: Capture) -> Result<SocketId, BindError> {
        self.net.work.add(Work::SystemCall);
        self.net.open_capture(self.process, wanted)
    }

    /// The oldest captured frame, or `None`: then [`crate::process::Step::Wait`]. It stays until
    /// [`System::pass_captured`].
    #[inline]
    pub fn captured(&mut self, capture: SocketId) -> Option<Captured<'_>> {
        self.net.work.add(Work::SystemCall);
        self.net.captured(capture, self.process)
    }

    /// Takes the oldest captured frame off its queue.
    #[inline]
    pub fn pass_captured(&mut self, capture: SocketId) {
        self.net.pass_captured(capture, self.process);
    }

    /// Counters of a capture queue of this process.
    #[must_use]
    pub fn capture_counters(&self, capture: SocketId) -> Option<CaptureCounters> {
        if self.owns(capture) { self.net.capture_counters(capture) } else { None }
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
        self.net.listen(self.process, ListenAt { address, port }, config)
    }

    /// The connection that has waited longest to be accepted, as a stream of this process, and its peer;
    /// `None` if none waits.
    pub fn accept(&mut self, listener: SocketId) -> Option<(SocketId, Endpoint)> {
        self.net.work.add(Work::SystemCall);
        if self.owns(listener) { self.net.accept(listener, self.process) } else { None }
    }

    /// Opens a connection to `to`, from an address of ours that suits it and a port that is free. The stream
    /// can be written to at once; it is connected when its event says so.
    ///
    /// # Errors
    /// [`ConnectError`]; nothing was opened.
    pub fn connect(&mut self, to: Endpoint) -> Result<SocketId, ConnectError> {
        self.connect_from(None, 0, to)
    }

    /// The same from a certain address or port; 0 for any.
    ///
    /// # Errors
    /// [`ConnectError`]; nothing was opened.
    pub fn connect_from(
        &mut self,
        address: Option<IpAddress>,
        port: u16,
        to: Endpoint,
    ) -> Result<SocketId, ConnectError> {
        self.net.work.add(Work::SystemCall);
        self.net.connect(self.process, (address, port), to, None, self.now).map(|(stream, _)| stream)
    }

    /// Opens a connection that has something to say at once; says how much of `data` was taken, the rest is
    /// to be written.
    ///
    /// Once the server has given this host a Fast Open cookie, the data go along with the SYN and save a
    /// round trip (RFC 7413). The server may then hear them twice: let it be something that does no harm if
    /// done twice.
    ///
    /// # Errors
    /// [`ConnectError`]; nothing was opened.
    pub fn connect_with(&mut self, to: Endpoint, data: &[u8]) -> Result<(SocketId, usize), ConnectError> {
        self.net.work.add(Work::SystemCall);
        self.net.connect(self.process, (None, 0), to, Some(data), self.now)
    }

    /// Reads what has come; says how many bytes. None at the end of the stream.
    ///
    /// # Errors
    /// [`Unavailable::WouldBlock`] if nothing has come: then [`crate::process::Step::Wait`].
    pub fn read(&mut self, stream: SocketId, to: &mut [u8]) -> Result<usize, Unavailable> {
        self.net.work.add(Work::SystemCall);
        if self.owns(stream) { self.net.read_stream(stream, to, self.now) } else { Err(Unavailable::Closed) }
    }

    /// Takes bytes to send, as many as there is room for; says how many.
    ///
    /// # Errors
    /// [`Unavailable::WouldBlock`] if there is no room: an event says when there is.
    pub fn write(&mut self, stream: SocketId, data: &[u8]) -> Result<usize, Unavailable> {
        self.net.work.add(Work::SystemCall);
        if self.owns(stream) { self.net.write_stream(stream, data) } else { Err(Unavailable::Closed) }
    }

    /// Bytes that [`System::write`] would take now, unless memory becomes scarce in between; 0 also if this
    /// direction was shut down.
    ///
    /// # Errors
    /// The connection has failed, or there is none any more.
    pub fn room(&self, stream: SocketId) -> Result<usize, Unavailable> {
        if self.owns(stream) { self.net.stream_room(stream) } else { Err(Unavailable::Closed) }
    }

    /// [`System::write`] of something that more will follow at once: a segment that is not full waits for it.
    ///
    /// # Errors
    /// As [`System::write`].
    pub fn write_more(&mut self, stream: SocketId, data: &[u8]) -> Result<usize, Unavailable> {
        self.with_own_stream(stream, |endpoint, id| endpoint.write_more(id, data))
            .unwrap_or(Err(Unavailable::Closed))
    }

    /// [`System::read`] of what is then still there to be read.
    ///
    /// # Errors
    /// As [`System::read`].
    pub fn peek_stream(&mut self, stream: SocketId, to: &mut [u8]) -> Result<usize, Unavailable> {
        self.with_own_stream(stream, |endpoint, id| endpoint.peek(id, to)).unwrap_or(Err(Unavailable::Closed))
    }

    /// Why a stream has failed, if it has, told once: other calls then say that it is closed.
    pub fn take_error(&mut self, stream: SocketId) -> Option<tcp::connection::Error> {
        self.with_own_stream(stream, tcp::Endpoint::take_error).unwrap_or(None)
    }

    /// Says that nothing more will be written. What was written is still sent, and reading goes on.
    ///
    /// # Errors
    /// The connection is over.
    pub fn shutdown(&mut self, stream: SocketId) -> Result<(), NotConnected> {
        self.with_own_stream(stream, tcp::Endpoint::shutdown).flatten()
    }

    /// Says that nothing more will be read. What was not read, and what still comes, is acknowledged and
    /// thrown away; writing goes on.
    ///
    /// # Errors
    /// The connection is over.
    pub fn shutdown_read(&mut self, stream: SocketId) -> Result<(), NotConnected> {
        self.with_own_stream(stream, tcp::Endpoint::shutdown_read).flatten()
    }

    /// Closes a stream at once: its peer gets a reset, and what was not sent is lost.
    ///
    /// # Errors
    /// The connection was over before. The stream is closed all the same.
    pub fn abort(&mut self, stream: SocketId) -> Result<(), NotConnected> {
        self.net.work.add(Work::SystemCall);
        if self.owns(stream) { self.net.abort_stream(stream, self.now) } else { Err(NotConnected) }
    }

    /// Chooses something for one stream; at first all is as configured for the host. What is chosen in the
    /// step that opened the stream is in its SYN, too.
    ///
    /// # Errors
    /// The connection is over.
    pub fn set(&mut self, stream: SocketId, option: StreamOption) -> Result<(), NotConnected> {
        self.net.work.add(Work::SystemCall);
        if self.owns(stream) { self.net.set_stream(stream, option, self.now) } else { Err(NotConnected) }
    }

    /// How routers are to treat what a stream sends from now on: the Differentiated Services codepoint, of
    /// which six bits count. At first 0.
    ///
    /// # Errors
    /// The connection is over.
    pub fn set_dscp(&mut self, stream: SocketId, dscp: u8) -> Result<(), NotConnected> {
        self.with_own_stream(stream, |endpoint, id| endpoint.set_dscp(id, dscp)).flatten()
    }

    fn with_own_stream<R>(
        &mut self,
        stream: SocketId,
        call: impl FnOnce(&mut tcp::Endpoint, tcp::table::Id) -> R,
    ) -> Result<R, NotConnected> {
        self.net.work.add(Work::SystemCall);
        if self.owns(stream) { self.net.with_stream(stream, call) } else { Err(NotConnected) }
    }

    /// Between whom a stream is, and its figures.
    #[must_use]
    pub fn stream_info(&self, stream: SocketId) -> Option<(FourTuple, Info)> {
        if self.owns(stream) { self.net.stream_info(stream) } else { None }
    }

    /// The queue in which this process hears of all its descriptors, of every kind: wait for it as for a
    /// socket, and take what is in it with [`System::next_event`].
    pub fn events(&mut self) -> SocketId {
        self.net.open_events(self.process)
    }

    /// The event that has waited longest, or `None`: then [`crate::process::Step::Wait`]. A stream or a
    /// listener is mentioned again when it is ready for more than it was when last seen, so read, write or
    /// accept until there is nothing more. Of datagrams, packets to be screened and captured frames that are
    /// left where they are, one hears again with the next wait.
    pub fn next_event(&mut self, events: SocketId) -> Option<Event> {
        self.net.work.add(Work::SystemCall);
        let own = self.net.ready.events_of(self.process) == Some(events);
        if own { self.net.ready.next_event(self.process) } else { None }
    }

    /// Has `waker` woken, once, when the descriptor is ready: for threads and tasks outside, which do not
    /// sleep by [`Step::Wait`](crate::process::Step::Wait). Returns whether it is ready already; then nobody
    /// is woken. A descriptor of another process counts as ready, and so does one that is closed: the next
    /// call says so.
    pub fn wait(&mut self, socket: SocketId, waker: &Waker) -> bool {
        self.net.work.add(Work::SystemCall);
        if !self.owns(socket) || self.net.is_ready_to_wait_for(socket) {
            return true;
        }
        self.net.ready.wait(socket, Waiter::Outside(waker.clone()), Ready::ALL);
        false
    }

    /// `waker` is not to be woken for the descriptor any more.
    pub fn forget(&mut self, socket: SocketId, waker: &Waker) {
        if self.owns(socket) {
            self.net.ready.forget_waker(socket, waker);
        }
    }

    fn owns(&self, socket: SocketId) -> bool {
        self.net.descriptor(socket).is_some_and(|d| d.owner() == Some(self.process))
    }

    /// The port a socket is bound to, or a listener listens at.
    #[must_use]
    pub fn port(&self, socket: SocketId) -> Option<u16> {
        match self.net.descriptor(socket)? {
            Descriptor::Listener(listener) => Some(listener.at.port),
            _ => self.net.socket(socket).map(|s| s.port),
        }
    }

    /// Burns CPU: the work a program does with what it received. Takes effect when the step is over.
    pub fn compute(&mut self, time: Duration) {
        self.net.work.compute += time;
    }
}
