//! A UDP service: receives requests, does some work for each, and answers or not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel_core::host::System;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::socket::{BindError, Datagrams, Fd};
use evenkeel_core::time::Duration;
use evenkeel_core::wire::IpAddress;
use std::sync::Mutex;

/// The largest payload of a datagram (RFC 768: a length of 16 bits, header of 8 bytes included). IPv6 carries
/// it, since its own length does not count its header; IPv4 carries 20 bytes less.
const PAYLOAD_MAX: usize = 65_527;

/// What a service is to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// Port it is bound to, on all addresses of its host.
    pub port: u16,
    /// Multicast groups it joins.
    pub groups: Vec<IpAddress>,
    /// CPU it uses for each request.
    pub work: Duration,
    /// Whether a request is answered with its own payload (RFC 862) or only counted (RFC 863).
    pub echo: bool,
    /// Requests after which it ends.
    pub count: Option<u64>,
}

/// What a service has done; may be read from anywhere while it runs.
#[derive(Debug, Default)]
pub struct Tally {
    requests: AtomicU64,
    bytes: AtomicU64,
    answers: AtomicU64,
    unanswered: AtomicU64,
    opened: AtomicBool,
    ended: AtomicBool,
    refused: Mutex<Option<BindError>>,
}

impl Tally {
    /// Requests received.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Bytes of payload received.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Requests answered.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Requests whose answer the host would not send.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Whether the service has its socket.
    #[must_use]
    pub fn opened(&self) -> bool {
        self.opened.load(Ordering::Relaxed)
    }

    /// Whether the service has ended.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Why the service could not start, if it could not.
    #[must_use]
    pub fn refused(&self) -> Option<BindError> {
        self.refused.lock().map_or(None, |refused| *refused)
    }
}

/// The program.
#[derive(Debug)]
pub struct Service {
    options: Options,
    socket: Option<Fd>,
    requests: Datagrams,
    buffer: Vec<u8>,
    tally: Arc<Tally>,
}

/// Requests that are served in one step, at most: what answers them leaves together.
const BURST: usize = 16;
/// A step computes for no longer than this, if it serves more than one: nobody else has his turn meanwhile.
const STEP: Duration = Duration::from_micros(16);

impl Service {
    /// A service that tells `tally` what it does.
    #[must_use]
    pub fn new(options: Options, tally: Arc<Tally>) -> Self {
        let buffer = if options.echo { vec![0; PAYLOAD_MAX] } else { Vec::new() };
        let fit = STEP.as_nanos().checked_div(options.work.as_nanos()).unwrap_or(u128::MAX);
        let requests = Datagrams::new(usize::try_from(fit).unwrap_or(BURST).min(BURST));
        Self { options, socket: None, requests, buffer, tally }
    }

    fn start(&self, system: &mut System<'_>) -> Result<Fd, BindError> {
        let socket = system.bind(None, self.options.port)?;
        self.options.groups.iter().try_for_each(|&group| system.join(socket, group))?;
        Ok(socket)
    }

    /// Ends, for the reason that is told already.
    fn end(&self) -> Step {
        self.tally.ended.store(true, Ordering::Relaxed);
        Step::Exit
    }

    /// Serves the requests that there are.
    fn serve(&mut self, socket: Fd, system: &mut System<'_>) -> Step {
        if let Some(count) = self.options.count {
            let left = count.saturating_sub(self.tally.requests());
            self.requests.limit(usize::try_from(left).unwrap_or(BURST));
        }
        if system.receive_burst(socket, &mut self.requests).is_err() {
            return Step::Wait(socket);
        }
        for request in &*self.requests {
            system.compute(self.options.work);
            add(&self.tally.bytes, request.len() as u64);
            if self.options.echo {
                let length = request.copy_to(&mut self.buffer);
                let payload = self.buffer.get(..length).unwrap_or_default();
                let sent = system.send(socket, request.source(), payload).is_ok();
                add(if sent { &self.tally.answers } else { &self.tally.unanswered }, 1);
            }
            add(&self.tally.requests, 1);
        }
        match self.options.count {
            Some(count) if self.tally.requests() >= count => self.end(),
            _ => Step::Again,
        }
    }
}

impl Program for Service {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        if let Some(socket) = self.socket {
            return self.serve(socket, system);
        }
        match self.start(system) {
            Ok(socket) => {
                self.socket = Some(socket);
                self.tally.opened.store(true, Ordering::Relaxed);
                Step::Again
            }
            Err(error) => {
                if let Ok(mut refused) = self.tally.refused.lock() {
                    *refused = Some(error);
                }
                self.end()
            }
        }
    }
}

/// Only the program writes its counters, so that an addition need not be one operation.
fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}
