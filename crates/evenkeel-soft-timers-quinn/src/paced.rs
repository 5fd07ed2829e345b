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

    /// Returns when the next datagram may leave; `None` if now. The caller has a datagram to send: because
    /// that datagram waits, the rate clock makes up for lateness.
    fn wait(&self) -> Option<Instant> {
        let mut rate = self.rate();
        let release = rate.release_time(self.now());
        if release.is_some() {
            rate.wait();
        }
        release
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
        // quinn asks this before it sends, and when it sends the time has come.
        if let Some(at) = this.paced.wait() {
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
    use std::task::Waker;
    use std::time::Duration;

    const SPACING: Spacing = Spacing {
        target: Duration::from_micros(400),
        minimum: Duration::from_micros(200),
        credit: Duration::from_millis(10),
    };

    /// Returns a socket, and one that it sends to.
    fn sockets() -> (Arc<Paced>, std::net::UdpSocket) {
        let clock = SoftClock::start(Options::default()).unwrap();
        let [socket, to] = [0; 2].map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        to.set_nonblocking(true).unwrap();
        let socket = quinn::TokioRuntime.wrap_udp_socket(socket).unwrap();
        (Arc::new(Paced::new(socket, &clock, SPACING)), to)
    }

    fn send(paced: &Paced, to: &std::net::UdpSocket) -> io::Result<()> {
        paced.try_send(&Transmit {
            destination: to.local_addr().unwrap(),
            ecn: None,
            contents: b"a datagram",
            segment_size: None,
            src_ip: None,
        })
    }

    #[test]
    fn datagrams_leave_at_the_target_however_eager_the_sender() {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = tokio.enter();
        let (paced, to) = sockets();
        let mut writable = Arc::clone(&paced).create_io_poller();
        let (begin, mut sent) = (paced.now(), 0);
        while sent < 50 {
            match send(&paced, &to) {
                Ok(()) => sent += 1,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    tokio.block_on(poll_fn(|context| writable.as_mut().poll_writable(context))).unwrap();
                    assert_eq!(paced.rate().release_time(paced.now()), None, "it is writable");
                }
            }
        }
        assert!(paced.now() - begin >= 49 * SPACING.target, "never ahead of the target");
        let came = (0..60).take_while(|_| to.recv(&mut [0; 64]).is_ok()).count();
        assert_eq!(came, 50);
    }

    /// In quinn's order: it asks whether it may send, and waits for that, before it sends.
    #[test]
    fn what_a_datagram_leaves_late_is_made_up_for_if_it_has_waited() {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = tokio.enter();
        let (paced, to) = sockets();
        let mut writable = Arc::clone(&paced).create_io_poller();
        tokio.block_on(poll_fn(|context| writable.as_mut().poll_writable(context))).unwrap();
        send(&paced, &to).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        // The next one waits. Not so if another program has the core in between.
        while writable.as_mut().poll_writable(&mut context).is_ready() {
            send(&paced, &to).unwrap();
        }
        let late = paced.now() + 5 * SPACING.target;
        while paced.now() < late {
            std::thread::park_timeout(SPACING.target);
        }
        send(&paced, &to).unwrap();
        let next = paced.rate().release_time(Instant::ZERO).unwrap();
        assert!(next <= paced.now() + SPACING.minimum, "{:?} to come", next - paced.now());
    }
}
