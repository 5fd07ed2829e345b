//! The kernel's ends, in their own network namespaces, with the emulator and our host between them.
//!
//! ```text
//!   namespace 1                        |            namespace 2
//!   the kernel's server ┐              |
//!                       ├ eksnd =veth= ekleft - emulator - ekright =veth= ekrcv - the kernel's client
//!   our host's server ──┘              |
//! ```
//!
//! Both servers share a device: our host uses it through a packet socket, with its own addresses.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use evenkeel::raw::device::{Device, Packet, PacketOptions};
use evenkeel::raw::kernel;
use evenkeel::raw::time::{Clock, Instant};
use evenkeel::raw::wait::{Halt, Notifier};
use evenkeel_apps::measure::execute;
use evenkeel_apps::wan::between::{self, Link};

use super::client::{CALL, CLIENT, Client, KERNEL, PATIENCE, REQUEST_BYTES, bytes_of};
use evenkeel_apps::measure::enter_quiet_network;

/// The least, initial and largest size of the kernel's socket buffers in bytes: large enough not to limit
/// anything.
const BUFFERS: &str = "4096 16777216 67108864";

/// The first namespace: the emulator's link to it, our host's device there, and the kernel's servers.
pub(super) struct Left {
    pub(super) link: Link,
    pub(super) device: Box<dyn Device>,
    pub(super) servers: Vec<Listening>,
}

/// Runs `work` on a thread in the second namespace, after preparing the first; both end with it. The kernel's
/// servers have these ports, each with a congestion control of that name.
pub(super) fn in_namespaces<T: Send>(
    servers: &[(u16, &'static str)],
    clock: Clock,
    work: impl FnOnce(Left, Link) -> io::Result<T> + Send,
) -> io::Result<T> {
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            enter(["ekrcv", "ekright"], CLIENT)?;
            let right = between::device("ekright")?;
            let left = scope.spawn(|| left(servers, clock)).join().map_err(|_| panicked())??;
            work(left, right)
        });
        client.join().map_err(|_| panicked())?
    })
}

fn panicked() -> io::Error {
    io::Error::other("a thread in a namespace panicked")
}

fn left(servers: &[(u16, &'static str)], clock: Clock) -> io::Result<Left> {
    enter(["eksnd", "ekleft"], KERNEL)?;
    let device = Packet::open("eksnd", &PacketOptions::default()).map_err(io::Error::other)?;
    let servers = servers.iter().map(|&(port, control)| Listening::begin(port, control, clock));
    Ok(Left {
        link: between::device("ekleft")?,
        device: Box::new(device),
        servers: servers.collect::<io::Result<_>>()?,
    })
}

/// Enters a new namespace with a veth pair. The kernel has one end with that address.
fn enter([ours, theirs]: [&str; 2], address: [u8; 4]) -> io::Result<()> {
    enter_quiet_network()?;
    for file in ["tcp_rmem", "tcp_wmem"] {
        fs::write(format!("/proc/sys/net/ipv4/{file}"), BUFFERS)?;
    }
    // With remembered metrics of a destination, later connections would start elsewhere.
    fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1")?;
    let [a, b, c, d] = address;
    let address = format!("{a}.{b}.{c}.{d}/24");
    let commands: [&[&str]; 5] = [
        &["ip", "link", "add", ours, "type", "veth", "peer", "name", theirs],
        // Frames leave one by one, as on a wire.
        &["ip", "link", "set", ours, "gso_max_segs", "1"],
        &["ip", "address", "add", &address, "dev", ours],
        &["ip", "link", "set", ours, "up"],
        &["ip", "link", "set", theirs, "up"],
    ];
    commands.iter().try_for_each(|command| execute(command)).map_err(io::Error::other)
}

/// A server on the kernel's sockets, which ends when this is dropped.
pub(super) struct Listening {
    over: Arc<AtomicBool>,
    notifier: Arc<Notifier>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    fn begin(port: u16, control: &str, clock: Clock) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((KERNEL, port)))?;
        kernel::set_congestion_control(&listener, control)
            .map_err(|error| io::Error::new(error.kind(), format!("the kernel has no {control}: {error}")))?;
        listener.set_nonblocking(true)?;
        let mut halt = Halt::new()?;
        halt.watch(Arc::new(OwnedFd::from(listener.try_clone()?)));
        let (over, notifier) = (Arc::new(AtomicBool::new(false)), halt.notifier());
        let is_over = Arc::clone(&over);
        let serve = move || {
            while !is_over.load(Ordering::Acquire) {
                while let Ok((stream, _)) = listener.accept() {
                    // The thread ends when the client closes the connection.
                    thread::spawn(move || answer(stream));
                }
                if halt.until(&clock, Instant::NEVER).is_err() {
                    return;
                }
            }
        };
        Ok(Self { over, notifier, thread: Some(thread::spawn(serve)) })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.notifier.notify();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Answers requests until the client closes, or the connection fails.
fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let mut request = [0; REQUEST_BYTES];
    loop {
        stream.read_exact(&mut request)?;
        let mut left = bytes_of(u32::from_be_bytes(request));
        while left > 0 {
            left -= stream.write(&[0; CALL][..left.min(CALL)])?;
        }
    }
}

/// Creates a client on the kernel's sockets, in the calling thread's namespace.
pub(super) fn client(clock: Clock) -> io::Result<Client<TcpStream>> {
    Client::new(clock, |to| {
        let stream = TcpStream::connect_timeout(to, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    })
}
