//! A runtime whose sockets note when each packet left.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use evenkeel_soft_timers::SoftClock;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, UdpPoller};

/// When packets left, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u64>>>);

impl Log {
    pub(crate) fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, at: u64, packets: usize) {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend(std::iter::repeat_n(at, packets));
    }
}

#[derive(Debug)]
pub(crate) struct Recorded {
    runtime: Arc<dyn Runtime>,
    clock: SoftClock,
    log: Log,
}

impl Recorded {
    pub(crate) fn new(runtime: Arc<dyn Runtime>, clock: &SoftClock, log: Log) -> Self {
        Self { runtime, clock: clock.clone(), log }
    }
}

impl Runtime for Recorded {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        self.runtime.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.runtime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let socket = self.runtime.wrap_udp_socket(socket)?;
        Ok(Arc::new(Socket { socket, clock: self.clock.clone(), log: self.log.clone() }))
    }

    fn now(&self) -> Instant {
        self.runtime.now()
    }
}

#[derive(Debug)]
struct Socket {
    socket: Arc<dyn AsyncUdpSocket>,
    clock: SoftClock,
    log: Log,
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.socket).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let at = self.clock.measure_time();
        self.socket.try_send(transmit)?;
        let each = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        self.log.note(at, transmit.contents.len().div_ceil(each));
        Ok(())
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_recv(context, buffers, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}
