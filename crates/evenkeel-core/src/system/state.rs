//! A program's view of its host, and the beginning and end of each call.

use core::fmt;

use crate::id::{Fd, ProcessId, SocketId};
use crate::net::Net;
use crate::socket::{BadDescriptor, Descriptor, Kind, ReceiveError, SendError};
use crate::stack::{Datagram, ResolvedHop};
use crate::time::{Duration, Instant};
use crate::wire::IpAddress;
use crate::work::Work;

/// A program's view of its host during one step.
///
/// A program names its open objects by small numbers, its descriptors ([`Fd`]). As in UNIX, a new descriptor
/// gets the lowest free number. A program cannot name the objects of other programs. Each kind of object has
/// a handle, a type that wraps the descriptor. Calls on an object are methods of its handle:
/// [`UdpSocket`](super::UdpSocket), [`TcpListener`](super::TcpListener), [`TcpStream`](super::TcpStream),
/// [`EventQueue`](super::EventQueue), [`Timer`](super::Timer), [`UserEvent`](super::UserEvent),
/// [`Screen`](super::Screen) and [`CaptureSocket`](super::CaptureSocket). Calls that apply to every kind of
/// object are methods of `System`.
///
/// The `fault()` of an error says whether the caller, the network or a limit made the call fail: see
/// [`error`](crate::error).
///
/// A [`Program`](crate::process::Program) gets a `System` for each step. A thread outside the host gets one
/// for the calls that it makes through [`Host::enter`](crate::host::Host::enter):
///
/// ```
/// use evenkeel_core::cable::{self, Options};
/// use evenkeel_core::host::{Config, Host};
/// use evenkeel_core::socket::ReceiveError;
/// use evenkeel_core::stack::IpEndpoint;
/// use evenkeel_core::system::UdpSocket;
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
///     let socket = UdpSocket::bind(system, None, 7)?;
///     socket.send(system, IpEndpoint::new(IpAddress::v4(10, 0, 0, 1), 9), b"hello")?;
///     match socket.receive(system) {
///         Ok(request) => {
///             // The answer leaves from the address that the request came to.
///             request.as_slice().map(|payload| socket.reply(system, &request, payload)).transpose()?;
///             system.recycle(request);
///         }
///         // Nothing has arrived yet: wait until the host reports the socket as readable.
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
    pub(super) net: &'a mut Net,
    pub(super) process: ProcessId,
    pub(super) now: Instant,
    /// The driver's work at the ends of calls. With `None`, calls end without trigger states.
    between_calls: Option<&'a mut dyn BetweenCalls>,
    /// Calls since the last trigger state.
    calls: u32,
}

/// The number of calls after which the clock is read once. A call on a datagram takes a fraction of a
/// microsecond. Reading the clock takes a twentieth of that.
const CALLS_A_LOOK: u32 = 8;

/// The driver's work in the trigger states within a step.
pub(crate) trait BetweenCalls: fmt::Debug {
    /// Does the work that is due. Returns the time if there was any work, else `None`.
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
    /// Returns the time at which this step began. After a trigger state that had work, returns the time of
    /// that trigger state.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Handles a trigger state: calls the handlers of due soft events, and sends due paced segments.
    ///
    /// Every call on a stream is a trigger state, and so is every eighth of the other calls. A program that
    /// computes for a long time without such calls should call this method meanwhile.
    #[inline(never)]
    pub fn trigger(&mut self) {
        let Some(between_calls) = &mut self.between_calls else { return };
        self.calls = 0;
        if let Some(now) = between_calls.pass(self.net) {
            self.now = now;
        }
    }

    /// Begins a call. This ends the previous call, and its end may be a trigger state. The last call of a
    /// step ends with its work item.
    #[inline]
    pub(super) fn call(&mut self) {
        self.net.work.add(Work::SystemCall);
        if self.between_calls.is_some() {
            self.calls += 1;
            if self.calls == CALLS_A_LOOK {
                self.trigger();
            }
        }
    }

    /// Begins a call that may copy many bytes. One trigger state precedes this call, and another the next
    /// call.
    #[inline]
    pub(super) fn long_call(&mut self) {
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

    /// Returns the buffers of a received datagram to the host. This is faster than dropping the datagram.
    pub fn recycle(&mut self, datagram: Datagram) {
        datagram.recycle(&mut self.net.pool);
    }

    /// Returns the first hop of packets to `destination`. The host requests the hop's hardware address if it
    /// is neither known nor requested already. A program can thus wait until its first datagram can leave.
    ///
    /// # Errors
    /// [`SendError`] if the host cannot send to `destination`; it requests no address then.
    pub fn first_hop(&mut self, destination: IpAddress) -> Result<ResolvedHop, SendError> {
        self.call();
        let hop = self.net.with_stack(self.now, |stack, io| stack.first_hop(destination, io));
        Ok(hop?)
    }

    /// Returns the identifier of the socket that a descriptor refers to. Queries of the host take it, for
    /// example [`Host::socket_counters`](crate::host::Host::socket_counters).
    ///
    /// # Errors
    /// [`BadDescriptor::NotOpen`] if this process has no such descriptor open.
    pub fn socket(&self, fd: impl Into<Fd>) -> Result<SocketId, BadDescriptor> {
        Ok(self.descriptor(fd.into())?.0)
    }

    /// Adds `time` to the CPU time of this step: the time in which the program works on what it received. The
    /// time passes when the step is over.
    pub fn compute(&mut self, time: Duration) {
        self.net.work.compute += time;
    }

    // --- Whose descriptors ---

    /// Returns the object that a descriptor of this process refers to.
    #[inline]
    pub(super) fn descriptor(&self, fd: Fd) -> Result<(SocketId, &Descriptor), BadDescriptor> {
        let id = self.net.sockets.ready.resolve(self.process, fd).ok_or(BadDescriptor::NotOpen)?;
        Ok((id, self.net.sockets.descriptors.get(id).ok_or(BadDescriptor::NotOpen)?))
    }

    /// Returns the descriptor of a socket that was just opened. If the process has an event queue of all its
    /// descriptors, adds the descriptor to it.
    pub(super) fn opened(&mut self, id: SocketId) -> Fd {
        let fd = self.net.sockets.ready.fd(id);
        self.net.readiness().add_opened_to_events(self.process, fd);
        fd
    }

    /// Begins a call on a descriptor, and checks that the descriptor is of this kind.
    #[inline]
    pub(super) fn begin(&mut self, fd: Fd, kind: Kind) -> Result<SocketId, BadDescriptor> {
        self.call();
        let (id, descriptor) = self.descriptor(fd)?;
        if descriptor.kind() == kind { Ok(id) } else { Err(BadDescriptor::OtherKind) }
    }
}

/// Returns [`ReceiveError::WouldBlock`] unless `taken`, which says that a call took something from a queue.
pub(super) const fn there_was(taken: bool) -> Result<(), ReceiveError> {
    if taken { Ok(()) } else { Err(ReceiveError::WouldBlock) }
}
