//! A socket that records the time at which each packet leaves.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_soft_timers::SoftClock;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

/// The times at which packets left, in nanoseconds.
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

/// A socket that notes when each packet left.
#[derive(Debug)]
pub(crate) struct Recorded {
    socket: Arc<dyn AsyncUdpSocket>,
    clock: SoftClock,
    log: Log,
}

impl Recorded {
    pub(crate) fn new(socket: Arc<dyn AsyncUdpSocket>, clock: &SoftClock, log: Log) -> Self {
        Self { socket, clock: clock.clone(), log }
    }
}

impl AsyncUdpSocket for Recorded {
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
