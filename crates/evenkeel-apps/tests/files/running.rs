//! The server on tokio, with the kernel's sockets or with evenkeel's, on a thread of its own.

use std::cell::Cell;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};

use evenkeel::net::Net;
use evenkeel::net::tokio as own;
use evenkeel_apps::http::files::{Server, Settings, Stopped, Stopper, Stream};
use evenkeel_testing::Program;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net as kernel;

use crate::tree::Tree;

thread_local! {
    /// Whether servers of this thread listen on evenkeel's sockets, and the number of their hosts so far.
    static HOSTS: Cell<Option<u8>> = const { Cell::new(None) };
}

const PROGRAMS: [Program; 1] = [("ip", "iproute2")];

/// Runs a test with the kernel's sockets, and then with those of a host at a TAP device, whose clients are
/// the kernel's. The latter needs root.
pub(crate) fn on_both_kinds_of_sockets(test: impl Fn() + Send + 'static) {
    test();
    evenkeel_testing::in_namespace(&[&PROGRAMS], move || {
        HOSTS.set(Some(0));
        test();
    });
}

/// A running server. It stops when this is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stopper: Stopper,
    thread: Option<JoinHandle<Stopped>>,
    net: Option<Net>,
}

impl Running {
    /// Starts a server for a tree, for clients of this machine.
    pub(crate) fn new(tree: &Tree, settings: Settings) -> Self {
        Self::with(tree, settings, |server| server)
    }

    /// Starts a server at an address of the kernel's.
    pub(crate) fn at(
        address: Ipv4Addr,
        tree: &Tree,
        settings: Settings,
        change: impl FnOnce(Server) -> Server,
    ) -> Self {
        let server = Server::open(&tree.root(), settings, TokioTimer::new(), TokioExecutor::new()).unwrap();
        let server = change(server);
        let stopper = server.stopper();
        let listener = TcpListener::bind((address, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let thread = thread::spawn(move || {
            run(
                server,
                async || kernel::TcpListener::from_std(listener).unwrap(),
                |listener, cx| listener.poll_accept(cx),
            )
        });
        Self { address, stopper, thread: Some(thread), net: None }
    }

    /// Starts a server that `change` sets up further.
    pub(crate) fn with(tree: &Tree, settings: Settings, change: impl FnOnce(Server) -> Server) -> Self {
        let Some(host) = HOSTS.get() else { return Self::at(Ipv4Addr::LOCALHOST, tree, settings, change) };
        let server = Server::open(&tree.root(), settings, TokioTimer::new(), TokioExecutor::new()).unwrap();
        let server = change(server);
        let stopper = server.stopper();
        HOSTS.set(Some(host + 1));
        let net = Net::builder()
            .link(&format!("tap:keel{host}"))
            .address(&format!("10.77.{host}.2/24"))
            .kernel_address(&format!("10.77.{host}.1/24"))
            .open()
            .unwrap();
        let address = SocketAddr::from(([10, 77, host, 2], 80));
        let (listening, listens) = mpsc::channel();
        let shared = net.clone();
        let thread = thread::spawn(move || {
            let listen = async || {
                let listener = own::TcpListener::bind(&shared, address).await.unwrap();
                listening.send(()).unwrap();
                listener
            };
            run(server, listen, |listener, cx| listener.poll_accept(cx))
        });
        listens.recv().unwrap();
        Self { address, stopper, thread: Some(thread), net: Some(net) }
    }

    /// Stops the server, and returns how it ended.
    pub(crate) fn stop(&mut self) -> Stopped {
        self.stopper.stop();
        let stopped = self.thread.take().unwrap().join().unwrap();
        self.net.iter().for_each(|net| net.check().unwrap());
        stopped
    }

    /// Returns the address of a file.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// Runs a server with a listener, on a runtime of the calling thread.
fn run<L, S>(
    server: Server,
    listen: impl AsyncFnOnce() -> L,
    poll_accept: impl Fn(&L, &mut Context<'_>) -> Poll<io::Result<(S, SocketAddr)>>,
) -> Stopped
where
    TokioIo<S>: Stream,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = listen().await;
        let accept = move |cx: &mut Context<'_>| {
            poll_accept(&listener, cx).map_ok(|(stream, client)| (TokioIo::new(stream), client))
        };
        server.run(accept).await.unwrap()
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop();
        }
    }
}
