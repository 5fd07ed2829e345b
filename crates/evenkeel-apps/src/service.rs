//! A UDP service: it receives requests, computes for each, and may answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel::raw::error::BindError;
use evenkeel::raw::process::{Program, Step, System};
use evenkeel::raw::socket::{Datagram, Datagrams, UdpSocket};
use evenkeel::raw::time::Duration;
use evenkeel::raw::wire::IpAddress;
use std::sync::Mutex;

/// The largest payload of a datagram (RFC 768: a length of 16 bits, including a header of 8 bytes). IPv6
/// allows it, because its own length does not count its header; IPv4 allows 20 bytes less.
const PAYLOAD_MAX: usize = 65_527;

/// Ports whose requests are not answered, in addition to the service's own. A program there may answer an
/// answer, and one forged datagram would then keep both busy for ever. They are the small services of inetd
/// (echo, systat, daytime, qotd, chargen, time: RFC 862, 866, 867, 865, 864, 868). DNS, TFTP and NTP have
/// servers that answer errors with errors (CVE-2024-2169, CVE-2009-3563).
const REFLECTORS: [u16; 9] = [7, 11, 13, 17, 19, 37, 53, 69, 123];

/// Options for a service over UDP.
#[derive(Debug, Clone)]
pub struct Options {
    /// The service's port, on all addresses of its host.
    pub port: u16,
    /// The multicast groups that the service joins. It answers requests to these, and to no other group or
    /// broadcast.
    pub groups: Vec<IpAddress>,
    /// The CPU time that the service uses for each request.
    pub work: Duration,
    /// Whether a request is answered with its own payload (RFC 862) or only counted (RFC 863).
    pub echo: bool,
    /// The number of requests after which the service ends.
    pub count: Option<u64>,
}

impl Options {
    /// Returns whether an answer to a request can do no harm: no program answers it in turn, and no other
    /// host answers this request.
    fn may_answer(&self, request: &Datagram) -> bool {
        let port = request.source().port;
        let is_reflected = port == self.port || REFLECTORS.contains(&port);
        !is_reflected && (request.is_unicast() || self.groups.contains(&request.destination().addr))
    }
}

/// The counters of a service. Any thread may read them while it runs.
#[derive(Debug, Default)]
pub struct Counters {
    requests: AtomicU64,
    bytes: AtomicU64,
    answers: AtomicU64,
    unanswered: AtomicU64,
    ignored: AtomicU64,
    opened: AtomicBool,
    ended: AtomicBool,
    refused: Mutex<Option<BindError>>,
}

impl Counters {
    /// Returns the number of requests received.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes of payload received.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of requests answered.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Returns the number of requests whose answer the host did not send.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Returns the number of requests that are not to be answered: from a port whose program may answer in
    /// turn, or to a broadcast.
    #[must_use]
    pub fn ignored(&self) -> u64 {
        self.ignored.load(Ordering::Relaxed)
    }

    /// Returns whether the service has its socket.
    #[must_use]
    pub fn opened(&self) -> bool {
        self.opened.load(Ordering::Relaxed)
    }

    /// Returns whether the service has ended.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Returns why the service could not start; `None` if it could.
    #[must_use]
    pub fn refused(&self) -> Option<BindError> {
        self.refused.lock().map_or(None, |refused| *refused)
    }
}

/// The program that serves requests over UDP.
#[derive(Debug)]
pub struct Service {
    options: Options,
    socket: Option<UdpSocket>,
    requests: Datagrams,
    buffer: Vec<u8>,
    tally: Arc<Counters>,
}

/// The most requests served in one step. Their answers leave together.
const BURST: usize = 16;
/// The most time that a step with several requests computes, because other programs wait meanwhile.
const STEP: Duration = Duration::from_micros(16);

impl Service {
    /// Creates a service that counts its work in `tally`.
    #[must_use]
    pub fn new(options: Options, tally: Arc<Counters>) -> Self {
        let buffer = if options.echo { vec![0; PAYLOAD_MAX] } else { Vec::new() };
        let fit = STEP.as_nanos().checked_div(options.work.as_nanos()).unwrap_or(u128::MAX);
        let requests = Datagrams::new(usize::try_from(fit).unwrap_or(BURST).min(BURST));
        Self { options, socket: None, requests, buffer, tally }
    }

    fn start(&self, system: &mut System<'_>) -> Result<UdpSocket, BindError> {
        let socket = UdpSocket::bind(system, None, self.options.port)?;
        self.options.groups.iter().try_for_each(|&group| socket.join(system, group))?;
        Ok(socket)
    }

    /// Ends the service. The reason, if any, is recorded already.
    fn end(&self) -> Step {
        self.tally.ended.store(true, Ordering::Relaxed);
        Step::Exit
    }

    /// Serves the waiting requests.
    fn serve(&mut self, socket: UdpSocket, system: &mut System<'_>) -> Step {
        if let Some(count) = self.options.count {
            let left = count.saturating_sub(self.tally.requests());
            self.requests.limit(usize::try_from(left).unwrap_or(BURST));
        }
        if socket.receive_burst(system, &mut self.requests).is_err() {
            return Step::Wait(socket.fd());
        }
        for request in &*self.requests {
            system.compute(self.options.work);
            add(&self.tally.bytes, request.len() as u64);
            if self.options.echo && !self.options.may_answer(request) {
                add(&self.tally.ignored, 1);
            } else if self.options.echo {
                let length = request.copy_to(&mut self.buffer);
                let payload = self.buffer.get(..length).unwrap_or_default();
                let sent = socket.reply(system, request, payload).is_ok();
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

/// Adds to a counter. Only the program writes its counters, so the addition need not be one operation.
fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::two_hosts::{ADDRESSES, TwoHosts};
    use evenkeel::raw::wire::IpEndpoint;

    const PORT: u16 = 4_007;
    const GROUP: IpAddress = IpAddress::v4(239, 1, 2, 3);

    /// Runs a service on one host, with a request from a port of the other host. Returns the numbers of
    /// requests, of answers and of those not to be answered, and whether an answer arrived.
    fn asked(echo: bool, from: u16, to: IpAddress, groups: &[IpAddress]) -> ([u64; 3], bool) {
        let mut hosts = TwoHosts::new();
        let tally = Arc::new(Counters::default());
        let options =
            Options { port: PORT, groups: groups.to_vec(), work: Duration::ZERO, echo, count: None };
        let mut service = Service::new(options, Arc::clone(&tally));
        hosts.turn(0, |system| service.step(system));
        let socket = hosts.turn(1, |system| {
            let socket = UdpSocket::bind(system, None, from).unwrap();
            socket.send(system, IpEndpoint::new(to, PORT), b"payload").unwrap();
            socket
        });
        while hosts.turn(0, |system| service.step(system)) == Step::Again {}
        let answered = hosts.turn(1, |system| socket.receive(system).is_ok());
        assert_eq!(
            tally.answers() + tally.unanswered() + tally.ignored(),
            tally.requests() * u64::from(echo)
        );
        ([tally.requests(), tally.answers(), tally.ignored()], answered)
    }

    #[test]
    fn an_echo_answers_no_port_whose_program_may_answer_in_turn() {
        for port in [PORT, 7, 11, 13, 17, 19, 37, 53, 69, 123] {
            assert_eq!(asked(true, port, ADDRESSES[0], &[]), ([1, 0, 1], false), "from port {port}");
        }
        for port in [1, 8, 9, 1_024, PORT + 1, 50_000] {
            assert_eq!(asked(true, port, ADDRESSES[0], &[]), ([1, 1, 0], true), "from port {port}");
        }
        assert_eq!(asked(false, 7, ADDRESSES[0], &[]), ([1, 0, 0], false), "a sink answers nobody");
    }

    #[test]
    fn an_echo_answers_no_broadcast_and_only_groups_that_it_was_told_to_join() {
        for broadcast in [IpAddress::v4(255, 255, 255, 255), IpAddress::v4(10, 77, 0, 255)] {
            assert_eq!(asked(true, 50_000, broadcast, &[]), ([1, 0, 1], false), "{broadcast}");
        }
        assert_eq!(asked(true, 50_000, GROUP, &[GROUP]), ([1, 1, 0], true));
        assert_eq!(asked(true, 7, GROUP, &[GROUP]), ([1, 0, 1], false));
        assert_eq!(asked(true, 50_000, GROUP, &[]), ([0, 0, 0], false));
    }
}
