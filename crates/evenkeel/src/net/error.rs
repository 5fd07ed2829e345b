//! Errors of calls as the standard library's, with the kernel's name for each.

use std::io::{self, ErrorKind};

use evenkeel_core::socket::{
    BadDescriptor, BindError, ConnectError, DupError, ListenError, PeerError, ReceiveError, RegisterError,
    SendError, StreamError,
};
use evenkeel_core::tcp::connection;
use evenkeel_link::LinkError;
use rustix::io::Errno;

use crate::error::Error;
use crate::kernel::FollowError;

impl Error {
    /// Returns the number and the name with which the kernel's sockets report the same error, such as
    /// `EADDRINUSE`. An error of the operating system has its own number, and no name here.
    #[must_use]
    pub fn errno(&self) -> (i32, &'static str) {
        if let Self::Os(source) | Self::Link(LinkError::Os { source, .. }) = self
            && let Some(number) = source.raw_os_error()
        {
            return (number, "");
        }
        let (errno, name) = self.named_errno();
        (errno.raw_os_error(), name)
    }

    fn named_errno(&self) -> (Errno, &'static str) {
        match self {
            Self::NotAttached(_) | Self::BadDescriptor(_) => (Errno::BADF, "EBADF"),
            Self::Spec(_)
            | Self::NoDevice(_)
            | Self::OneHost(_)
            | Self::Address(_)
            | Self::Interface(_)
            | Self::Route(_) => (Errno::INVAL, "EINVAL"),
            Self::Follow(FollowError::NoAddress(_)) => (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
            Self::Follow(_) => (Errno::INVAL, "EINVAL"),
            Self::Link(error) => of_link(error),
            Self::Os(_) => (Errno::IO, "EIO"),
            Self::Memory(_) => (Errno::NOMEM, "ENOMEM"),
            Self::Down => (Errno::NETDOWN, "ENETDOWN"),
            Self::Bind(error) => of_bind(*error),
            Self::Listen(error) => of_listen(*error),
            Self::Connect(error) => of_connect(*error),
            Self::Send(error) => of_send(*error),
            Self::Receive(ReceiveError::WouldBlock) => (Errno::AGAIN, "EAGAIN"),
            Self::Receive(ReceiveError::BadDescriptor(bad)) => of_descriptor(*bad),
            Self::Receive(ReceiveError::Failed(error)) => of_peer(*error),
            Self::Stream(error) => of_stream(*error),
            Self::Dup(DupError::BadDescriptor(bad)) => of_descriptor(*bad),
            Self::Register(RegisterError::BadDescriptor(bad)) => of_descriptor(*bad),
            Self::Register(RegisterError::AlreadyAdded) => (Errno::EXIST, "EEXIST"),
            Self::Register(RegisterError::NotAdded) => (Errno::NOENT, "ENOENT"),
            Self::Register(RegisterError::Nested) => (Errno::LOOP, "ELOOP"),
            Self::Register(_) => (Errno::INVAL, "EINVAL"),
            Self::Receive(_) | Self::TooManyOpen(_) | Self::Dup(_) => (Errno::MFILE, "EMFILE"),
            // As the kernel says of such a gateway.
            Self::Gateway(_) => (Errno::NETUNREACH, "ENETUNREACH"),
            Self::Unsupported(_) => (Errno::NOPROTOOPT, "ENOPROTOOPT"),
            Self::NotConnected => (Errno::DESTADDRREQ, "EDESTADDRREQ"),
        }
    }
}

const fn of_link(error: &LinkError) -> (Errno, &'static str) {
    match error {
        LinkError::Privilege { .. } => (Errno::PERM, "EPERM"),
        LinkError::NoDevice { .. } => (Errno::NODEV, "ENODEV"),
        LinkError::Down { .. } => (Errno::NETDOWN, "ENETDOWN"),
        LinkError::Busy { .. } | LinkError::Claimed { .. } => (Errno::BUSY, "EBUSY"),
        LinkError::Os { .. } => (Errno::IO, "EIO"),
        _ => (Errno::INVAL, "EINVAL"),
    }
}

const fn of_descriptor(error: BadDescriptor) -> (Errno, &'static str) {
    match error {
        BadDescriptor::NotOpen => (Errno::BADF, "EBADF"),
        _ => (Errno::NOTSOCK, "ENOTSOCK"),
    }
}

const fn of_bind(error: BindError) -> (Errno, &'static str) {
    match error {
        BindError::BadDescriptor(bad) => of_descriptor(bad),
        BindError::InUse | BindError::NoPort => (Errno::ADDRINUSE, "EADDRINUSE"),
        BindError::Privilege => (Errno::ACCESS, "EACCES"),
        BindError::NotLocal | BindError::NotJoined => (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
        BindError::NoRing => (Errno::NOBUFS, "ENOBUFS"),
        BindError::NoMemory(_) => (Errno::NOMEM, "ENOMEM"),
        BindError::TooManyOpen => (Errno::MFILE, "EMFILE"),
        _ => (Errno::INVAL, "EINVAL"),
    }
}

const fn of_listen(error: ListenError) -> (Errno, &'static str) {
    match error {
        ListenError::InUse | ListenError::NoPort => (Errno::ADDRINUSE, "EADDRINUSE"),
        ListenError::Privilege => (Errno::ACCESS, "EACCES"),
        ListenError::NotLocal => (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
        ListenError::NoMemory(_) => (Errno::NOMEM, "ENOMEM"),
        ListenError::TooManyOpen => (Errno::MFILE, "EMFILE"),
        _ => (Errno::NOBUFS, "ENOBUFS"),
    }
}

const fn of_connect(error: ConnectError) -> (Errno, &'static str) {
    match error {
        ConnectError::InUse | ConnectError::NoPort | ConnectError::NotLocal | ConnectError::NoAddress => {
            (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL")
        }
        ConnectError::NotUnicast | ConnectError::NoRoute | ConnectError::Loopback => {
            (Errno::NETUNREACH, "ENETUNREACH")
        }
        ConnectError::TooManyOpen => (Errno::MFILE, "EMFILE"),
        _ => (Errno::NOBUFS, "ENOBUFS"),
    }
}

const fn of_peer(error: PeerError) -> (Errno, &'static str) {
    match error {
        PeerError::Refused => (Errno::CONNREFUSED, "ECONNREFUSED"),
        _ => (Errno::HOSTUNREACH, "EHOSTUNREACH"),
    }
}

const fn of_send(error: SendError) -> (Errno, &'static str) {
    match error {
        SendError::BadDescriptor(bad) => of_descriptor(bad),
        SendError::NoRoute | SendError::Loopback => (Errno::NETUNREACH, "ENETUNREACH"),
        SendError::NoAddress | SendError::NotLocal => (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
        SendError::TooBig => (Errno::MSGSIZE, "EMSGSIZE"),
        SendError::Broadcast => (Errno::ACCESS, "EACCES"),
        SendError::Family => (Errno::AFNOSUPPORT, "EAFNOSUPPORT"),
        SendError::Failed(error) => of_peer(error),
        _ => (Errno::AGAIN, "EAGAIN"),
    }
}

const fn of_stream(error: StreamError) -> (Errno, &'static str) {
    match error {
        StreamError::WouldBlock => (Errno::AGAIN, "EAGAIN"),
        StreamError::BadDescriptor(bad) => of_descriptor(bad),
        StreamError::Failed(failed) => match failed {
            connection::Error::Refused => (Errno::CONNREFUSED, "ECONNREFUSED"),
            connection::Error::Reset => (Errno::CONNRESET, "ECONNRESET"),
            connection::Error::BrokenPipe => (Errno::PIPE, "EPIPE"),
            connection::Error::TimedOut => (Errno::TIMEDOUT, "ETIMEDOUT"),
            connection::Error::Unreachable => (Errno::HOSTUNREACH, "EHOSTUNREACH"),
            _ => (Errno::CONNABORTED, "ECONNABORTED"),
        },
        _ => (Errno::PIPE, "EPIPE"),
    }
}

/// Returns the error of the standard library with the same [kind](ErrorKind) as the kernel's sockets report.
/// Its source is the error itself: `error.get_ref().and_then(|e| e.downcast_ref::<evenkeel::Error>())`.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        if let Error::Os(source) = error {
            return source;
        }
        if error.would_block() {
            // It is frequent, and says all by its kind.
            return ErrorKind::WouldBlock.into();
        }
        let kind = Self::from_raw_os_error(error.errno().0).kind();
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::socket::Fault;

    use super::*;

    #[test]
    fn an_error_keeps_its_fault_and_its_number_behind_the_standard_librarys_kind() {
        let error = io::Error::from(Error::from(BindError::InUse));
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        let ours = error.get_ref().and_then(|error| error.downcast_ref::<Error>()).unwrap();
        assert_eq!((ours.fault(), ours.errno()), (Some(Fault::Misuse), (98, "EADDRINUSE")));
    }

    #[test]
    fn kinds_are_those_of_the_kernels_sockets() {
        let kind = |error: Error| io::Error::from(error).kind();
        assert_eq!(kind(ReceiveError::WouldBlock.into()), ErrorKind::WouldBlock);
        assert_eq!(kind(BindError::NotLocal.into()), ErrorKind::AddrNotAvailable);
        assert_eq!(kind(ConnectError::NoRoute.into()), ErrorKind::NetworkUnreachable);
        assert_eq!(kind(StreamError::Closed.into()), ErrorKind::BrokenPipe);
        assert_eq!(kind(StreamError::Failed(connection::Error::Reset).into()), ErrorKind::ConnectionReset);
        assert_eq!(
            kind(StreamError::Failed(connection::Error::Refused).into()),
            ErrorKind::ConnectionRefused
        );
        assert_eq!(kind(ReceiveError::Failed(PeerError::Refused).into()), ErrorKind::ConnectionRefused);
        assert_eq!(kind(SendError::Failed(PeerError::Unreachable).into()), ErrorKind::HostUnreachable);
        assert_eq!(kind(SendError::Broadcast.into()), ErrorKind::PermissionDenied);
        assert_eq!(kind(StreamError::Failed(connection::Error::BrokenPipe).into()), ErrorKind::BrokenPipe);
        assert_eq!(kind(Error::Down), ErrorKind::NetworkDown);
        let denied = LinkError::Privilege { what: String::new(), capability: "CAP_NET_ADMIN" };
        assert_eq!(kind(denied.into()), ErrorKind::PermissionDenied);
    }
}
