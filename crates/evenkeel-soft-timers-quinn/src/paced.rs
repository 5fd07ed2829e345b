//! A socket whose datagrams leave one by one, at even distances.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_soft_timers::{Sleep, SoftClock};
use evenkeel_tcp::rate_clock::{RateClock, Spacing};
use evenkeel_tcp::time::Instant;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

#[derive(Debug)]
pub(crate) struct Paced {
    socket: Arc<dyn AsyncUdpSocket>,
    clock: SoftClock,
    spacing: Spacing,
    rate: Mutex<RateClock>,
}

impl Paced {
    pub(crate) fn new(socket: Arc<dyn AsyncUdpSocket>, clock: &SoftClock, spacing: Spacing) -> Self {
        Self { socket, clock: clock.clone(), spacing, rate: Mutex::default() }
    }

    fn rate(&self) -> MutexGuard<'_, RateClock> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.measure_time())
    }
}

impl AsyncUdpSocket for Paced {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        let socket = Arc::clone(&self.socket).create_io_poller();
        Box::pin(Writable { paced: self, socket, sleep: None })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let (mut rate, now) = (self.rate(), self.now());
        if rate.release_time(now).is_some() {
            rate.wait();
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.socket.try_send(transmit)?;
        rate.on_sent(self.spacing, now);
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

    // One datagram at a time is sent: no more than one in a transmit.

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}

/// Waits for the time to send, and then for room.
struct Writable {
    paced: Arc<Paced>,
    socket: Pin<Box<dyn UdpPoller>>,
    sleep: Option<Sleep>,
}

impl UdpPoller for Writable {
    fn poll_writable(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let release = this.paced.rate().release_time(this.paced.now());
        if let Some(at) = release {
            let until = at.as_nanos();
            let sleep = this.sleep.take().filter(|sleep| sleep.until() == until);
            let sleep = this.sleep.insert(sleep.unwrap_or_else(|| this.paced.clock.sleep_until(until)));
            ready!(Pin::new(sleep).poll(context));
        }
        this.sleep = None;
        this.socket.as_mut().poll_writable(context)
    }
}

impl fmt::Debug for Writable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writable").field("sleep", &self.sleep).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::future::poll_fn;
    use evenkeel_soft_timers::Options;
    use quinn::Runtime as _;
    use std::time::Duration;

    #[test]
    fn datagrams_leave_at_the_target_however_eager_the_sender() {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = tokio.enter();
        let clock = SoftClock::start(Options::default()).unwrap();
        let to = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = quinn::TokioRuntime.wrap_udp_socket(socket).unwrap();
        let [target, minimum, credit] = [400, 200, 10_000].map(Duration::from_micros);
        let paced = Arc::new(Paced::new(socket, &clock, Spacing { target, minimum, credit }));
        let mut writable = Arc::clone(&paced).create_io_poller();
        let transmit = Transmit {
            destination: to.local_addr().unwrap(),
            ecn: None,
            contents: b"a datagram",
            segment_size: None,
            src_ip: None,
        };
        let (begin, mut sent) = (clock.measure_time(), 0);
        while sent < 50 {
            match paced.try_send(&transmit) {
                Ok(()) => sent += 1,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    tokio.block_on(poll_fn(|context| writable.as_mut().poll_writable(context))).unwrap();
                    assert_eq!(paced.rate().release_time(paced.now()), None, "it is writable");
                }
            }
        }
        assert!(clock.measure_time() - begin >= 49 * 400_000, "never ahead of the target");
        to.set_nonblocking(true).unwrap();
        let came = (0..60).take_while(|_| to.recv(&mut [0; 64]).is_ok()).count();
        assert_eq!(came, 50);
    }
}
