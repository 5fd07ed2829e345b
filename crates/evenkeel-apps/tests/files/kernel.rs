//! The server on tokio with the kernel's sockets, on a thread of its own.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::task::Context;
use std::thread::{self, JoinHandle};

use evenkeel_apps::http::files::{Server, Settings, Stopped, Stopper};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use crate::tree::Tree;

/// A running server. It stops when this is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stopper: Stopper,
    thread: Option<JoinHandle<Stopped>>,
}

impl Running {
    /// Starts a server for a tree, on the loopback interface.
    pub(crate) fn new(tree: &Tree, settings: Settings) -> Self {
        Self::with(tree, settings, |server| server)
    }

    /// Starts a server that `change` sets up further.
    pub(crate) fn with(tree: &Tree, settings: Settings, change: impl FnOnce(Server) -> Server) -> Self {
        Self::at(Ipv4Addr::LOCALHOST, tree, settings, change)
    }

    /// Starts a server at an address.
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
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let accept = move |cx: &mut Context<'_>| {
                    listener.poll_accept(cx).map_ok(|(stream, client)| (TokioIo::new(stream), client))
                };
                server.run(accept).await.unwrap()
            })
        });
        Self { address, stopper, thread: Some(thread) }
    }

    /// Stops the server, and returns how it ended.
    pub(crate) fn stop(&mut self) -> Stopped {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap()
    }

    /// Returns the address of a file.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop();
        }
    }
}
