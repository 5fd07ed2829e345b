//! System calls without a safe wrapper elsewhere. Each function is safe to call and checks the kernel's
//! answer.

use core::mem;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::ptr;

use evenkeel_core::bpf::{Instruction, Program};
use evenkeel_core::time::Duration;
use rustix::event::{FdSetElement, Timespec, fd_set_num_elements};
use rustix::process::Pid;

use crate::received::Memory;

/// Makes a command run in its own session. A terminal's signals do not reach it, and it uses none of the
/// caller's share if processors are divided among sessions.
pub fn in_own_session(command: &mut Command) -> &mut Command {
    let begin = || Ok(rustix::process::setsid().map(drop)?);
    // SAFETY: between fork and exec only setsid(2) is called, which is async-signal-safe, and nothing is
    // allocated.
    unsafe { command.pre_exec(begin) }
}

/// Runs `child` in a process of its own, with a session of its own and all signals blocked, which ends then.
///
/// # Safety
/// Other threads may hold locks for ever in the new process. So `child` may only make system calls that are
/// async-signal-safe: it must not allocate, take locks or panic.
pub(crate) unsafe fn fork_apart(child: impl FnOnce()) -> io::Result<Pid> {
    // SAFETY: an array of integers may be all zeros. The call fills it.
    let mut all: libc::sigset_t = unsafe { mem::zeroed() };
    let mut before = all;
    // SAFETY: both sets are valid for writing.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    // SAFETY: the caller promises that the new process does nothing that a fork among threads forbids.
    let process = unsafe { libc::fork() };
    if process == 0 {
        let _ = rustix::process::setsid();
        child();
        // SAFETY: this ends the process, and runs nothing of its parent's.
        unsafe { libc::_exit(0) }
    }
    let error = io::Error::last_os_error();
    // SAFETY: the set is the one that was in force.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
    Pid::from_raw(process).filter(|_| process > 0).ok_or(error)
}

/// Closes a descriptor in a process that was forked and shares the memory of its owner no longer.
pub(crate) fn close_in_child(fd: RawFd) {
    // SAFETY: the owner of the descriptor is the other process. Here nothing uses its number afterwards.
    unsafe { libc::close(fd) };
}

/// Sleeps until one of `fds` is ready or `timeout` has passed (`None`: no limit). A signal ends the sleep
/// early, without an error.
pub(crate) fn ppoll(fds: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<()> {
    let timeout = timeout.map(|t| libc::timespec {
        tv_sec: t.as_secs().min(i32::MAX as u64) as _,
        tv_nsec: t.subsec_nanos().into(),
    });
    let timeout_ptr = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `fds` is valid for writing `fds.len()` entries, the timeout is null or outlives the call, and
    // no signal mask is set.
    let ready = unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ptr, ptr::null()) };
    if ready >= 0 {
        return Ok(());
    }
    // The kernel does not write the results when it fails.
    fds.iter_mut().for_each(|fd| fd.revents = 0);
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}

/// Sleeps until one of the descriptors in `found`, all below `bound`, can be read, or `timeout` has passed.
/// Afterwards `found` holds only readable ones.
pub(crate) fn select(bound: RawFd, found: &mut [FdSetElement], timeout: &Timespec) -> io::Result<()> {
    if fd_set_num_elements(0, bound) > found.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the set has an element for each number below `bound`. A number in it that is not open makes the
    // call fail with EBADF: the kernel reads or writes nothing but the set.
    unsafe { rustix::event::select(bound, Some(found), None, None, Some(timeout)) }?;
    Ok(())
}

/// Makes `handler` interrupt the calling thread every `interval`, by the first real-time signal.
pub(crate) fn start_signal_timer(
    interval: Duration,
    handler: extern "C" fn(libc::c_int),
) -> io::Result<libc::timer_t> {
    let signal = libc::SIGRTMIN();
    on_every_signal(signal, handler)?;
    // SAFETY: all-zero is a valid `sigevent`.
    let mut event: libc::sigevent = unsafe { mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = signal;
    event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
    let mut timer: libc::timer_t = ptr::null_mut();
    // SAFETY: both are initialised and live through the call.
    check(unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) })?;
    set_signal_timer(timer, interval).inspect_err(|_| delete_timer(timer))?;
    Ok(timer)
}

/// Sets the interval of a timer of [`start_signal_timer`]; zero stops it.
pub(crate) fn set_signal_timer(timer: libc::timer_t, interval: Duration) -> io::Result<()> {
    // SAFETY: all-zero is a valid `itimerspec`.
    let mut setting: libc::itimerspec = unsafe { mem::zeroed() };
    setting.it_value.tv_sec = interval.as_secs().min(i32::MAX as u64) as _;
    setting.it_value.tv_nsec = interval.subsec_nanos().into();
    setting.it_interval = setting.it_value;
    // SAFETY: the timer was made and not deleted, and the setting lives through the call.
    check(unsafe { libc::timer_settime(timer, 0, &raw const setting, ptr::null_mut()) })
}

/// Deletes a timer of [`start_signal_timer`], which is not used any more.
pub(crate) fn delete_timer(timer: libc::timer_t) {
    // SAFETY: the timer is not used any more, and the caller has the only copy.
    let _ = unsafe { libc::timer_delete(timer) };
}

/// Gives the calling thread a real-time priority, which its children do not inherit.
pub(crate) fn set_fifo(priority: libc::c_int) -> io::Result<()> {
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // The function of musl fails always, so this is the kernel's call, whose `sched_param` is the priority.
    // SAFETY: zero is the calling thread. The kernel reads the priority, and keeps no pointer.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the bytes that a socket's receive queue is charged for, and their limit (`SO_MEMINFO`, socket(7)).
#[cfg(test)]
pub(crate) fn receive_memory(socket: BorrowedFd<'_>) -> io::Result<(i64, i64)> {
    // The first two numbers of `SK_MEMINFO` (linux/sock_diag.h).
    let mut memory = [0_u32; 9];
    let mut len = size_of_val(&memory) as libc::socklen_t;
    let option = libc::SO_MEMINFO;
    let to = memory.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `len` bytes to `memory`.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, to, &raw mut len) })?;
    Ok((memory[0].into(), memory[1].into()))
}

/// Converts a duration to the kernel's type.
pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec::try_from(time).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}

/// Installs `handler` for every `signal`.
pub(crate) fn on_every_signal(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> io::Result<()> {
    // SAFETY: all-zero is a valid `sigaction`: no flags, an empty mask, the default action.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` is initialised and lives through the call; without SA_SIGINFO the kernel calls the
    // handler with the one argument that its type says.
    check(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) })
}

/// Returns whether this process ignores `signal`, as a process started by `nohup` ignores SIGHUP.
pub(crate) fn is_ignored(signal: libc::c_int) -> io::Result<bool> {
    // SAFETY: all-zero is a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: nothing is set, and `action` lives through the call.
    check(unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) })?;
    Ok(action.sa_sigaction == libc::SIG_IGN)
}

/// Returns the kernel's monotonic clock in nanoseconds. Async-signal-safe.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives through the call, which cannot fail for this clock and leaves `errno` alone then.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Ends the process by the default action of `signal`, so that its parent sees which signal ended it.
/// Async-signal-safe. To be called by the handler of that signal.
pub(crate) fn die_of(signal: libc::c_int) {
    // SAFETY: both calls take numbers only. The signal is blocked while its handler runs, and is delivered
    // when that returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Makes eventfd `fd` readable. Async-signal-safe: one `write`, and `errno` is what it was.
pub(crate) fn notify_in_signal_handler(fd: RawFd) {
    let one = 1_u64.to_ne_bytes();
    // SAFETY: `write` reads 8 bytes of a live array; a bad descriptor is an error, not a fault.
    // `__errno_location` gives this thread's own errno, valid for its whole life.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(fd, one.as_ptr().cast(), one.len());
        *libc::__errno_location() = errno;
    }
}

/// An argument of a network-device ioctl: plain C data, all of it valid when zero.
///
/// # Safety
/// The type is `repr(C)`, any bit pattern is a valid value, and it is at least as large as what the kernel
/// copies for the requests it is used with.
pub(crate) unsafe trait IoctlArgument {}

// SAFETY: plain C structure of integers and unions of integers and unused pointers; the size that SIOC[GS]IF*
// and TUN[GS]ETIFF copy.
unsafe impl IoctlArgument for libc::ifreq {}
// SAFETY: the integer that TUNSETFILTEREBPF copies.
unsafe impl IoctlArgument for libc::c_int {}

/// Converts a constant of sockios.h, which has another type than a request in some C libraries.
pub(crate) const fn socket_request(constant: libc::c_ulong) -> libc::Ioctl {
    constant as libc::Ioctl
}

/// Calls `ioctl` with an argument that the kernel reads or writes, and to which it keeps no pointer.
pub(crate) fn ioctl<T: IoctlArgument>(
    fd: BorrowedFd<'_>,
    request: libc::Ioctl,
    argument: &mut T,
) -> io::Result<()> {
    // SAFETY: the descriptor is open; the argument is large enough by the contract of `IoctlArgument`, and
    // exclusively ours.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request, ptr::from_mut(argument)) })
}

/// Calls `ioctl` with a number as its argument.
pub(crate) fn ioctl_number(fd: BorrowedFd<'_>, request: libc::Ioctl, number: libc::c_uint) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the kernel takes the argument as a number.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request, libc::c_ulong::from(number)) })
}

/// The words of an answer of ethtool: as many as the longest one has, `struct ethtool_drvinfo`.
pub(crate) type EthtoolWords = [u32; 49];

/// A question to a device by ethtool (linux/ethtool.h), whose answer has at most [`EthtoolWords`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EthtoolGet {
    Driver = 3,
    Flags = 0x25,
    Gro = 0x2b,
    Channels = 0x3c,
}

impl EthtoolGet {
    /// Asks the device called `name`. The first word of the answer is the question.
    pub(crate) fn ask(self, fd: impl AsFd, name: &str) -> io::Result<EthtoolWords> {
        let mut words = [0; _];
        words[0] = self as u32;
        let mut request = ifreq(name.as_bytes());
        request.ifr_ifru.ifru_data = ptr::from_mut(&mut words).cast();
        // The kernel copies from and to `words`, which are large enough for each question, live through the
        // call, and are valid for any bit pattern. It keeps no pointer.
        ioctl(fd.as_fd(), SIOCETHTOOL, &mut request)?;
        Ok(words)
    }
}

/// The request of ethtool (linux/sockios.h).
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// Returns an `ifreq` for the device called `name`, of which at most 15 bytes are used: the last byte of
/// the field ends the C string.
pub(crate) fn ifreq(name: &[u8]) -> libc::ifreq {
    // SAFETY: an all-zero `ifreq` is an empty name and zeros.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, &from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name) {
        *to = from as libc::c_char;
    }
    request
}

/// Returns the name in an `ifreq` argument.
pub(crate) fn ifreq_name(request: &libc::ifreq) -> String {
    let bytes = request.ifr_name.iter().map(|&c| c as u8).take_while(|&c| c != 0);
    String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
}

/// Changes the user and the groups of all threads of the process. The system calls change one thread only, so
/// libc's functions make each thread call them.
pub(crate) fn set_identity(user: u32, group: u32, others: &[u32]) -> io::Result<()> {
    // SAFETY: the kernel reads `others.len()` numbers at the pointer, and keeps no pointer.
    check(unsafe { libc::setgroups(others.len(), others.as_ptr()) })?;
    // SAFETY: the call has no pointer.
    check(unsafe { libc::setresgid(group, group, group) })?;
    // SAFETY: as above.
    check(unsafe { libc::setresuid(user, user, user) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A value of a socket option: plain C data that is valid for any bit pattern.
///
/// # Safety
/// The contract of [`IoctlArgument`] holds, and the type has no padding, which would reach the kernel
/// uninitialized.
pub(crate) unsafe trait OptionValue: Copy {}

// SAFETY: an integer.
unsafe impl OptionValue for libc::c_int {}
// SAFETY: four integers of equal size.
unsafe impl OptionValue for libc::tpacket_req {}
// SAFETY: seven integers of equal size.
unsafe impl OptionValue for libc::tpacket_req3 {}
// SAFETY: two integers of equal size.
unsafe impl OptionValue for libc::tpacket_stats {}
// SAFETY: integers and bytes, without padding: 4 + 2 + 2 + 8.
unsafe impl OptionValue for libc::packet_mreq {}

/// Sets an option of a packet socket.
pub(crate) fn set_packet_option<T: OptionValue>(
    fd: BorrowedFd<'_>,
    option: libc::c_int,
    value: T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let value = (&raw const value).cast();
    // SAFETY: `value` points to `len` initialised bytes that live through the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, option, value, len) })
}

/// Makes the kernel split data sent through a UDP socket into datagrams of `bytes` bytes of payload each
/// (udp(7), `UDP_SEGMENT`): the fastest way to make many small ones.
///
/// # Errors
/// Those of `setsockopt`: the socket is no UDP socket, or the kernel older than 4.18.
pub fn send_in_segments(socket: &impl AsFd, bytes: u16) -> io::Result<()> {
    let value = libc::c_int::from(bytes);
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the value is an integer that lives through the call.
    check(unsafe { libc::setsockopt(fd, libc::SOL_UDP, libc::UDP_SEGMENT, (&raw const value).cast(), len) })
}

/// Sets a stream's congestion control by the kernel's name for it (tcp(7), `TCP_CONGESTION`). Connections
/// inherit it from their listener.
///
/// # Errors
/// Those of `setsockopt`: the kernel has no algorithm of that name, or only for privileged processes.
pub fn set_congestion_control(socket: &impl AsFd, name: &str) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_tcp_congestion(socket, name)?)
}

/// Makes `bind` choose only an address; `connect` then chooses the port (ip(7), `IP_BIND_ADDRESS_NO_PORT`).
pub(crate) fn bind_without_port(socket: BorrowedFd<'_>) -> io::Result<()> {
    let value: libc::c_int = 1;
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    let option = libc::IP_BIND_ADDRESS_NO_PORT;
    let value = (&raw const value).cast();
    // SAFETY: the value is an integer that lives through the call.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_IP, option, value, len) })
}

/// Makes the kernel run a BPF program on a socket's received frames, from now on.
pub(crate) fn attach_bpf(fd: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let program = program.as_raw_fd();
    let bytes = size_of::<libc::c_int>() as libc::socklen_t;
    let value = ptr::from_ref(&program).cast();
    // SAFETY: the value is a number of that size.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_BPF, value, bytes) })
}

/// Makes the kernel run a filter on a socket's received frames, from now on.
pub(crate) fn attach_filter(fd: BorrowedFd<'_>, program: &Program) -> io::Result<()> {
    let list = program.instructions().iter();
    let mut list: Vec<_> =
        list.map(|&Instruction { code, jt, jf, k }| libc::sock_filter { code, jt, jf, k }).collect();
    let len = u16::try_from(list.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: list.as_mut_ptr() };
    let value = (&raw const program).cast();
    let bytes = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the value is `bytes` initialised bytes, and points to `len` instructions; both live through
    // the call, in which the kernel copies and checks them.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, value, bytes) })
}

/// Reads the counters of a packet socket since the last call. Reading sets them to zero.
pub(crate) fn packet_statistics(fd: BorrowedFd<'_>) -> io::Result<libc::tpacket_stats> {
    let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    let value = (&raw mut stats).cast();
    // SAFETY: `value` points to `len` bytes that are ours; any bit pattern the kernel leaves there is valid.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, value, &raw mut len)
    })?;
    Ok(stats)
}

/// Returns the number of the fanout group of a packet socket, in the lower half.
pub(crate) fn packet_fanout(fd: BorrowedFd<'_>) -> io::Result<libc::c_int> {
    let mut group: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    let value = (&raw mut group).cast();
    // SAFETY: `value` points to `len` bytes that are ours; any bit pattern the kernel leaves there is valid.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_FANOUT, value, &raw mut len)
    })?;
    Ok(group)
}

/// Binds a packet socket to the device with this index. With `protocol` zero it receives nothing, and only
/// sends.
pub(crate) fn bind_packet(fd: BorrowedFd<'_>, index: i32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` is `len` initialised bytes that live through the call.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })
}

/// The most messages in one call of [`SendBatch::send`].
pub(crate) const SEND_BATCH: usize = 64;

/// The arguments of `sendmmsg` for a batch of messages. They are kept between calls: of their 5 KiB, a call
/// changes 16 bytes for each message.
#[derive(Debug)]
pub(crate) struct SendBatch {
    parts: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
}

// SAFETY: it contains pointers to heap memory that it owns, and to messages of an earlier call, which are not
// followed.
unsafe impl Send for SendBatch {}

impl SendBatch {
    pub(crate) fn new() -> Self {
        // SAFETY: all-zero is a valid `iovec` and a valid `mmsghdr`: null pointers and lengths of zero.
        let (part, header): (libc::iovec, libc::mmsghdr) = unsafe { mem::zeroed() };
        Self { parts: vec![part; SEND_BATCH].into(), headers: vec![header; SEND_BATCH].into() }
    }

    /// Sends the first of `messages` in one system call, without blocking. Returns the number of messages
    /// that the kernel took, at least one.
    ///
    /// # Errors
    /// The kernel's error about the first message, if it took none.
    pub(crate) fn send<'a>(
        &mut self,
        fd: BorrowedFd<'_>,
        messages: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<usize> {
        let mut count = 0;
        for ((message, part), header) in messages.zip(&mut self.parts).zip(&mut self.headers) {
            // The kernel only reads through this pointer.
            *part = libc::iovec { iov_base: message.as_ptr().cast_mut().cast(), iov_len: message.len() };
            header.msg_hdr.msg_iov = ptr::from_mut(part);
            header.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        let headers = self.headers.as_mut_ptr();
        // The type of the flags differs between C libraries.
        let flags = libc::MSG_DONTWAIT as _;
        // SAFETY: the first `count` headers each point to one of `parts`, which point to borrowed messages;
        // all outlive the call.
        let sent = unsafe { libc::sendmmsg(fd.as_raw_fd(), headers, count, flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// Memory shared with the kernel through a descriptor, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: ptr::NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and this is its only owner.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `fd` for reading and writing.
    pub(crate) fn new(fd: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        Self::map(len, libc::MAP_SHARED, fd.as_raw_fd(), 0)
    }

    /// Maps `len` bytes of `fd` from `offset` for reading and writing, and makes their pages present.
    pub(crate) fn at(fd: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Self> {
        let offset = offset.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
        Self::map(len, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), offset)
    }

    /// Maps `len` bytes of memory of this process, which are zero.
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        Self::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    fn map(len: usize, flags: libc::c_int, fd: RawFd, offset: libc::off_t) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the place, so no mapping of ours is replaced.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, fd, offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = ptr::NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped exactly this; nothing borrowed from it can be alive any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

// SAFETY: `len` bytes at `base` stay mapped, page-aligned, until drop; only this owner and the kernel know
// them.
unsafe impl Memory for Mapping {
    fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    fn len(&self) -> usize {
        self.len
    }
}
