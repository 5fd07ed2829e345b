//! quinn on soft timers.
//!
//! quinn paces by a timer of its runtime. Tokio's are exact to a millisecond, so quinn sends at least ten
//! packets at a time, and what a timer is late beyond a quarter of that is lost. With [`SoftRuntime`] its
//! timers end within microseconds, in trigger states of the runtime; and, if it is told the distance, each
//! datagram of a socket leaves by itself, at a target rate on the average and never closer than a minimum.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use evenkeel_soft_timers::{Options, SoftClock};
//! use evenkeel_soft_timers_quinn::SoftRuntime;
//! use tokio::runtime::Builder;
//!
//! let clock = SoftClock::start(Options::default())?;
//! let runtime = clock.drive(&mut Builder::new_current_thread()).enable_all().build()?;
//! clock.block_on(&runtime, async {
//!     let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
//!     let quinn = Arc::new(SoftRuntime::new(&clock));
//!     let endpoint = quinn::Endpoint::new(quinn::EndpointConfig::default(), None, socket, quinn)?;
//!     // ... endpoint.connect(...) ...
//!     Ok::<(), std::io::Error>(())
//! })?;
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

mod paced;
mod timer;

use core::future::Future;
use core::pin::Pin;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Instant;

use evenkeel_soft_timers::SoftClock;
pub use evenkeel_tcp::rate_clock::Spacing;
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};

use crate::paced::Paced;
use crate::timer::{Base, Timer};

/// A runtime for quinn: tokio's tasks and sockets, and timers of a soft clock. To be used on a runtime of
/// tokio that the same clock [drives](SoftClock::block_on).
#[derive(Debug)]
pub struct SoftRuntime {
    clock: SoftClock,
    base: Base,
    spacing: Option<Spacing>,
}

impl SoftRuntime {
    /// One that leaves it to quinn when datagrams leave.
    #[must_use]
    pub fn new(clock: &SoftClock) -> Self {
        Self { clock: clock.clone(), base: Base::new(clock), spacing: None }
    }

    /// One whose sockets send a datagram at a time, so far apart: for a path whose capacity is known, or that
    /// is to be shaped. quinn's congestion control may send less, and never more.
    #[must_use]
    pub fn paced(clock: &SoftClock, spacing: Spacing) -> Self {
        Self { spacing: Some(spacing), ..Self::new(clock) }
    }
}

impl Runtime for SoftRuntime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer::new(&self.clock, self.base, at))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let socket = TokioRuntime.wrap_udp_socket(socket)?;
        Ok(match self.spacing {
            Some(spacing) => Arc::new(Paced::new(socket, &self.clock, spacing)),
            None => socket,
        })
    }

    fn now(&self) -> Instant {
        self.base.instant(self.clock.measure_time())
    }
}
