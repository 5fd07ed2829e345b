//! TCP connections that the kernel accepts for a server, and the kernel's calls that wait for them.

use core::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use evenkeel_core::time::Duration;
use rustix::event::{FdSetElement, FdSetIter, epoll, fd_set_bound, fd_set_insert, fd_set_remove};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::sys;

/// The most events taken from the kernel at a time.
const EVENTS: usize = 512;
/// The most connections that wait to be accepted; the kernel has its own bound, too.
const BACKLOG: i32 = 4_096;

/// The kernel's calls that wait for many descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitBy {
    /// `select`, with sets of any size: only the C library limits them to 1024.
    Select,
    /// `poll`
    Poll,
    /// `epoll`, level-triggered.
    Epoll,
}

/// A listening socket and its accepted connections, each identified by the number of its descriptor.
///
/// Only [`Accepted::wait`] blocks.
pub struct Accepted {
    listener: OwnedFd,
    /// Indexed by the number of the descriptor.
    streams: Vec<Option<OwnedFd>>,
    waiting: Waiting,
}

enum Waiting {
    Select { wanted: Vec<FdSetElement>, found: Vec<FdSetElement> },
    Poll { entries: Vec<libc::pollfd>, places: Vec<usize> },
    Epoll { epoll: OwnedFd, events: Vec<epoll::Event> },
}

impl fmt::Debug for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Accepted({} open)", self.open())
    }
}

impl Accepted {
    /// Listens at an address; port 0 chooses one.
    ///
    /// # Errors
    /// Those of `socket`, `bind`, `listen` and `epoll_create`.
    pub fn listen(at: SocketAddr, by: WaitBy) -> io::Result<Self> {
        let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&listener, true)?;
        rustix::net::bind(&listener, &at)?;
        rustix::net::listen(&listener, BACKLOG)?;
        let mut waiting = match by {
            WaitBy::Select => Waiting::Select { wanted: Vec::new(), found: Vec::new() },
            WaitBy::Poll => Waiting::Poll { entries: Vec::new(), places: Vec::new() },
            WaitBy::Epoll => Waiting::Epoll {
                epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
                events: Vec::with_capacity(EVENTS),
            },
        };
        waiting.add(&listener)?;
        Ok(Self { listener, streams: Vec::new(), waiting })
    }

    /// Returns the local address of the listening socket.
    ///
    /// # Errors
    /// That of `getsockname`.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let address = rustix::net::getsockname(&self.listener)?;
        SocketAddr::try_from(address).map_err(io::Error::from)
    }

    /// Returns the number of the listening socket.
    #[must_use]
    pub fn listener(&self) -> u32 {
        number(&self.listener)
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn open(&self) -> usize {
        self.streams.iter().flatten().count()
    }

    /// Waits until something can be read or accepted, or for `at_most`. Sets `ready` to the ready
    /// descriptors.
    ///
    /// # Errors
    /// Only if the kernel is out of memory, or allows no such number of descriptors.
    pub fn wait(&mut self, at_most: Duration, ready: &mut Vec<u32>) -> io::Result<()> {
        ready.clear();
        self.waiting.wait(at_most, ready)
    }

    /// Accepts a connection and adds it to the waiting set; `None` if none is there.
    ///
    /// # Errors
    /// Any of `accept`, for example if the process may have no more descriptors.
    pub fn accept(&mut self) -> io::Result<Option<u32>> {
        let stream =
            match rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(stream) => stream,
                Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
        self.waiting.add(&stream)?;
        let fd = number(&stream);
        let index = fd as usize;
        if index >= self.streams.len() {
            self.streams.resize_with(index + 1, || None);
        }
        self.streams[index] = Some(stream);
        Ok(Some(fd))
    }

    /// Reads the received bytes; `None` if there are none, and 0 bytes at the end of the stream.
    ///
    /// # Errors
    /// The connection is over, for example because of a reset.
    pub fn read(&self, fd: u32, to: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::net::recv(self.stream(fd)?, to, RecvFlags::empty()) {
            Ok((_, read)) => Ok(Some(read)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes as many bytes as fit; returns their number.
    ///
    /// # Errors
    /// The connection is over.
    pub fn write(&self, fd: u32, bytes: &[u8]) -> io::Result<usize> {
        match rustix::net::send(self.stream(fd)?, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => Ok(sent),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Closes a connection; what was written is still sent.
    pub fn close(&mut self, fd: u32) {
        if let Some(stream) = self.streams.get_mut(fd as usize).and_then(Option::take) {
            self.waiting.remove(number(&stream));
        }
    }

    fn stream(&self, fd: u32) -> io::Result<&OwnedFd> {
        let stream = self.streams.get(fd as usize).and_then(Option::as_ref);
        stream.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Waiting {
    fn add(&mut self, fd: &OwnedFd) -> io::Result<()> {
        let raw = fd.as_raw_fd();
        match self {
            Self::Select { wanted, found } => {
                let elements = rustix::event::fd_set_num_elements(0, raw + 1).max(wanted.len());
                wanted.resize(elements, FdSetElement::default());
                found.resize(elements, FdSetElement::default());
                fd_set_insert(wanted, raw);
            }
            Self::Poll { entries, places } => {
                let index = number(fd) as usize;
                if index >= places.len() {
                    places.resize(index + 1, usize::MAX);
                }
                places[index] = entries.len();
                entries.push(libc::pollfd { fd: raw, events: libc::POLLIN, revents: 0 });
            }
            Self::Epoll { epoll, .. } => {
                let token = epoll::EventData::new_u64(number(fd).into());
                epoll::add(epoll, fd.as_fd(), token, epoll::EventFlags::IN)?;
            }
        }
        Ok(())
    }

    /// Removes the closed descriptor `fd` from the sets. An epoll needs no call for this.
    fn remove(&mut self, fd: u32) {
        match self {
            Self::Select { wanted, .. } => fd_set_remove(wanted, fd as i32),
            Self::Poll { entries, places } => {
                let Some(place) = places.get(fd as usize).copied().filter(|&place| place < entries.len())
                else {
                    return;
                };
                entries.swap_remove(place);
                if let Some(moved) = entries.get(place)
                    && let Some(of_moved) = places.get_mut(moved.fd as usize)
                {
                    *of_moved = place;
                }
            }
            Self::Epoll { .. } => {}
        }
    }

    fn wait(&mut self, at_most: Duration, ready: &mut Vec<u32>) -> io::Result<()> {
        match self {
            Self::Select { wanted, found } => {
                found.copy_from_slice(wanted);
                match sys::select(fd_set_bound(wanted), found, &sys::timespec(at_most)) {
                    Ok(()) => ready.extend(FdSetIter::new(found).map(|fd| fd as u32)),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Self::Poll { entries, .. } => {
                sys::ppoll(entries, Some(at_most))?;
                ready.extend(entries.iter().filter(|entry| entry.revents != 0).map(|entry| entry.fd as u32));
            }
            Self::Epoll { epoll, events } => {
                events.clear();
                match epoll::wait(
                    epoll,
                    rustix::buffer::spare_capacity(events),
                    Some(&sys::timespec(at_most)),
                ) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
                ready.extend(events.iter().map(|event| event.data.u64() as u32));
            }
        }
        Ok(())
    }
}

fn number(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd() as u32
}

/// Gives the calling thread a table of descriptors of its own, a copy of the process's. Descriptors that
/// the thread opens from now on count against a limit of its own and do not get in the way of other
/// threads. The table ends with the thread.
///
/// Descriptors that other threads open from now on mean nothing to this thread, and its descriptors mean
/// nothing to them. The threads must not pass descriptors to each other.
///
/// # Errors
/// If the kernel is out of memory.
pub fn have_own_descriptors() -> io::Result<()> {
    // SAFETY: only the descriptor table is unshared. It begins as a copy of the other, so the descriptors
    // that the thread borrows stay valid. If either thread closes a descriptor, it closes it in its own table
    // only. The caller must not use a descriptor of one table in the other. If it does, calls fail or reach
    // another file of the process, but memory stays safe.
    Ok(unsafe { unshare_unsafe(UnshareFlags::FILES) }?)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpStream};
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn listen(by: WaitBy) -> Accepted {
        Accepted::listen((Ipv4Addr::LOCALHOST, 0).into(), by).unwrap()
    }

    fn opened(accepted: &mut Accepted) -> (TcpStream, u32) {
        let peer = TcpStream::connect(accepted.address().unwrap()).unwrap();
        let mut ready = Vec::new();
        accepted.wait(LONG, &mut ready).unwrap();
        assert_eq!(ready, [accepted.listener()]);
        (peer, accepted.accept().unwrap().unwrap())
    }

    #[test]
    fn each_way_says_who_has_something_and_nobody_else() {
        for by in [WaitBy::Select, WaitBy::Poll, WaitBy::Epoll] {
            let mut accepted = listen(by);
            let mut streams: Vec<_> = (0..70).map(|_| opened(&mut accepted)).collect();
            assert_eq!((accepted.accept().unwrap(), accepted.open()), (None, 70));
            let (mut ready, mut heard) = (Vec::new(), [0; 8]);
            accepted.wait(Duration::ZERO, &mut ready).unwrap();
            assert_eq!(ready, [], "{by:?}");
            // One in the middle is closed, and then the last one becomes readable.
            accepted.close(streams[3].1);
            let (peer, fd) = streams.last_mut().unwrap();
            peer.write_all(b"hello").unwrap();
            accepted.wait(LONG, &mut ready).unwrap();
            assert_eq!(ready, [*fd], "{by:?}");
            assert_eq!(accepted.read(*fd, &mut heard).unwrap(), Some(5));
            assert_eq!(accepted.read(*fd, &mut heard).unwrap(), None);
            assert_eq!(accepted.write(*fd, b"hi").unwrap(), 2);
            accepted.close(*fd);
            let mut rest = String::new();
            peer.read_to_string(&mut rest).unwrap();
            assert_eq!((rest.as_str(), accepted.open()), ("hi", 68));
            accepted.wait(Duration::ZERO, &mut ready).unwrap();
            assert_eq!(ready, [], "{by:?}");
        }
    }

    fn descriptors() -> usize {
        std::fs::read_dir("/proc/thread-self/fd").unwrap().count()
    }

    #[test]
    fn what_a_thread_with_descriptors_of_its_own_opens_others_do_not_have() {
        const MANY: usize = 300;
        let before = descriptors();
        let (opened, closed) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                have_own_descriptors().unwrap();
                let _opened: Vec<_> = (0..MANY).map(|_| listen(WaitBy::Poll)).collect();
                opened.wait();
                closed.wait();
            });
            opened.wait();
            let now = descriptors();
            closed.wait();
            // Other tests may open some meanwhile.
            assert!(now < before + MANY / 2, "{before} and then {now}");
        });
    }
}
