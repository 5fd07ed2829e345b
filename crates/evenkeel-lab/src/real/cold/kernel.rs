//! The server on the kernel's sockets, on its own thread.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;

use evenkeel::raw::cpu::ThreadMeter;
use evenkeel::raw::kernel::{Accepted, WaitBy, have_own_descriptors};
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel_apps::measure::Generator;

use super::httpd::{Httpd, Read, Sockets};

/// The longest time that an idle server waits before it checks the progress of the generator.
const LOOK: Duration = Duration::from_millis(5);

/// The measurements of the server's thread.
pub(super) struct Observed {
    pub(super) httpd: Httpd,
    /// Shares of the window in which the thread had work, and in which it did not get its core.
    pub(super) busy: f64,
    pub(super) run_delay: f64,
}

/// Serves until the generator has sent its last request. Sends its address to the generator.
pub(super) fn serve(
    by: WaitBy,
    at: SocketAddr,
    httpd: Httpd,
    clock: Clock,
    address: &Sender<SocketAddr>,
    generator: &Generator,
) -> io::Result<Observed> {
    have_own_descriptors()?;
    let mut server = Server { accepted: Accepted::listen(at, by)?, clock };
    let mut httpd = httpd;
    // If the generator has failed, its end of the channel is gone.
    let _ = address.send(server.accepted.address()?);
    generator.begin();
    let meter = ThreadMeter::of_this_thread();
    let mut ready = Vec::new();
    let (mut from, mut until) = (None, None);
    while !generator.has_sent() {
        if from.is_none() && generator.measures() {
            from = Some(Used::now(&meter, clock));
        }
        if until.is_none() && generator.has_measured() {
            until = Some(Used::now(&meter, clock));
        }
        server.accepted.wait(LOOK, &mut ready)?;
        let listener = server.accepted.listener();
        for &fd in &ready {
            if fd == listener { httpd.accept(&mut server) } else { httpd.serve(fd, &mut server) }
        }
    }
    let until = until.unwrap_or_else(|| Used::now(&meter, clock));
    let [busy, run_delay] = from.map_or([0.0; 2], |from| until.shares_since(&from));
    Ok(Observed { httpd, busy, run_delay })
}

/// The CPU time and the run delay of a thread up to one moment.
struct Used {
    at: Instant,
    ran: Duration,
    run_delay: Duration,
}

impl Used {
    fn now(meter: &ThreadMeter, clock: Clock) -> Self {
        let time = meter.read().unwrap_or_default();
        Self { at: clock.now(), ran: time.ran, run_delay: time.run_delay }
    }

    fn shares_since(&self, earlier: &Self) -> [f64; 2] {
        let elapsed = self.at.since(earlier.at).as_secs_f64().max(1e-9);
        let share = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64() / elapsed;
        let run_delay = share(self.run_delay, earlier.run_delay);
        [share(self.ran, earlier.ran) + run_delay, run_delay].map(|share| share.min(1.0))
    }
}

struct Server {
    accepted: Accepted,
    clock: Clock,
}

impl Sockets for Server {
    fn accept(&mut self) -> Option<u32> {
        self.accepted.accept().ok()?
    }

    fn read(&mut self, stream: u32, to: &mut [u8]) -> Read {
        match self.accepted.read(stream, to) {
            Ok(Some(len)) if len > 0 => Read::Bytes(len),
            Ok(None) => Read::Nothing,
            Ok(Some(_)) | Err(_) => Read::End,
        }
    }

    fn write(&mut self, stream: u32, bytes: &[u8]) -> bool {
        self.accepted.write(stream, bytes).is_ok_and(|taken| taken == bytes.len())
    }

    fn close(&mut self, stream: u32) {
        self.accepted.close(stream);
    }

    fn compute(&mut self, time: Duration) {
        self.clock.spin(time);
    }
}
