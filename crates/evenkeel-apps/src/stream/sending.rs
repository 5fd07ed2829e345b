//! Running a client with one connection in real time: on a device, or on a cable with a server at its other
//! end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use evenkeel::Engine;
use evenkeel_core::socket::StreamError;
use evenkeel_core::stack::{InterfaceId, IpEndpoint};
use evenkeel_core::tcp::connection::Error;
use evenkeel_core::time::Duration;
use evenkeel_link::Clock;
use serde::Serialize;

use super::report::{ConnectionReport, TcpReport};
use super::send::{Broken, Drain, Outcome, Send, Source, Tally};
use super::stdio::Stdio;
use super::{Echo, Options, Sink};
use crate::counters::HostCounters;
use crate::host_setup::{DeviceSetup, HostSetup, Limits, Occasion, SetupError};
use crate::hosted::Hosted;
use crate::monitor::{Embedded, EmbeddedCaptured};
use crate::serve::{Listening, Running, Served, pair};

/// What a client has done.
#[derive(Debug, Clone, Serialize)]
pub struct Sent {
    /// How long it ran, in seconds.
    pub seconds: f64,
    /// Whether there was a connection.
    pub connected: bool,
    /// Whether both sides have said all, and know it, and all was read and written that was to be.
    pub complete: bool,
    /// Why not, if the connection was not opened or has failed, or what came back could not be written.
    pub error: Option<String>,
    /// Bytes written.
    pub bytes_out: u64,
    /// Bytes of these that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Of made-up bytes: whether nothing came back but what was sent.
    pub as_sent: Option<bool>,
    /// The connection, as it was last seen.
    pub connection: Option<ConnectionReport>,
    /// The host's TCP.
    pub tcp: TcpReport,
    /// What the host did.
    pub counters: HostCounters,
    /// On a cable: what the other end did.
    pub server: Option<Box<Served>>,
    /// What was captured.
    pub capture: Option<EmbeddedCaptured>,
    /// Why no frame comes from the device any more; `None` if all is well.
    pub device_failed: Option<String>,
    /// Whether there was no connection because the next hop does not answer, or the network says that the
    /// peer cannot be reached.
    #[serde(skip)]
    pub unreachable: bool,
    /// Why the input could not be read to its end, or the output not be written.
    #[serde(skip)]
    pub outside: Option<(Way, Arc<io::Error>)>,
}

/// A way between the program and what is outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// What is sent.
    In,
    /// What comes back.
    Out,
}

/// Where it sends from.
#[derive(Debug)]
pub enum Place {
    /// A device.
    Device(DeviceSetup),
    /// A cable.
    Cable {
        /// Receive rings of our end.
        queues: usize,
        /// Where the host at the other end stands.
        other: Box<HostSetup>,
        /// How that serves.
        options: Options,
        /// Whether it gives back what it gets, or takes it only.
        echoes: bool,
    },
}

/// What is to be sent.
#[derive(Debug)]
pub struct Errand {
    /// Where to.
    pub to: IpEndpoint,
    /// The first bytes go along with the SYN (RFC 7413), once a first connection, which says nothing, has
    /// brought the server's cookie.
    pub fast_open: bool,
    /// What.
    pub source: Source,
    /// Where what comes back goes.
    pub drain: Drain,
    /// What notifies when either goes on.
    pub outside: Stdio,
    /// A capture of what comes and goes.
    pub capture: Option<Embedded>,
}

/// Sends until both sides have said all, a limit is reached, or the process is asked to end.
///
/// # Errors
/// [`SetupError`]
pub fn send(
    setup: &HostSetup,
    place: Place,
    errand: Errand,
    limits: Limits,
    watch: impl FnMut(Occasion, &Sent),
) -> Result<Sent, SetupError> {
    let clock = Clock::start();
    match place {
        Place::Device(at) => {
            let (engine, attached) = setup.on_device(&at, clock)?;
            let sent = run(engine, attached.interface, errand, limits, || false, watch)?;
            attached.close().map(|()| sent)
        }
        Place::Cable { queues, other, options, echoes } => {
            let mut engine = setup.engine(clock)?;
            let (near, far) = pair(setup, queues);
            let interface = engine.add_cable(near, &setup.addresses)?;
            let mut server = other.engine(clock)?;
            let server_interface = server.add_cable(far, &other.addresses)?;
            let server = if echoes {
                let service = Listening { service: Echo::default(), options, connections: 0 };
                Running::start(server, server_interface, service.alone())?
            } else {
                let service = Listening { service: Sink::default(), options, connections: 0 };
                Running::start(server, server_interface, service.alone())?
            };
            let ended = AtomicBool::new(false);
            thread::scope(|scope| {
                let serving = scope
                    .spawn(|| server.run(Limits::default(), Some(&|| ended.load(Ordering::Acquire)), |_| {}));
                let sent = run(engine, interface, errand, limits, || false, watch);
                ended.store(true, Ordering::Release);
                let served = serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                Ok(Sent { server: Some(Box::new(served)), ..sent? })
            })
        }
    }
}

fn run(
    engine: Engine,
    interface: InterfaceId,
    errand: Errand,
    limits: Limits,
    done: impl Fn() -> bool,
    mut watch: impl FnMut(Occasion, &Sent),
) -> Result<Sent, SetupError> {
    let Errand { to, fast_open, source, drain, outside, capture } = errand;
    let compares = matches!(source, Source::Pattern { .. });
    let mut hosted = Hosted::new(engine, interface, capture.as_ref())?;
    let tally = Arc::new(Tally::default());
    let engine = &mut hosted.engine;
    let program = Send::new(to, fast_open, source, drain, Arc::clone(&tally));
    let process = engine.host_mut().spawn("send", 0, Box::new(program));
    engine.attend_event(&outside.event, move |host, now| host.wake_process(process, now));
    let report = |engine: &mut Engine, elapsed| sent(engine, interface, &tally, compares, elapsed);
    let over = || tally.ended() || done();
    let mut elapsed = hosted.drive(limits, over, |engine, elapsed, occasion| {
        watch(occasion, &report(engine, elapsed));
    })?;
    let last = report(&mut hosted.engine, elapsed);
    elapsed += hosted.farewell(process, tally.ended())?;
    hosted.drain()?;
    let Sent { tcp, counters, .. } = report(&mut hosted.engine, elapsed);
    let Outcome { input, output, .. } = core::mem::take(&mut *tally.outcome());
    let capture = hosted.finish()?;
    let input = input.map(|error| (Way::In, Arc::new(error)));
    let written = output.map(super::Output::finish).unwrap_or(Ok(()));
    let outside = input.or(written.err().map(|error| (Way::Out, Arc::new(error))));
    // What is written last may fail when the connection is over already.
    Ok(Sent { complete: last.complete && outside.is_none(), tcp, counters, capture, outside, ..last })
}

fn sent(
    engine: &mut Engine,
    interface: InterfaceId,
    tally: &Tally,
    compares: bool,
    elapsed: Duration,
) -> Sent {
    let (broken, connection) = {
        let outcome = tally.outcome();
        (outcome.broken, outcome.last.as_ref().map(|(tuple, info)| ConnectionReport::new(tuple, info)))
    };
    let unreachable = broken == Some(Broken::Connection(StreamError::Failed(Error::Unreachable)));
    let error = broken.map(|broken| broken.to_string());
    let bytes_acked = connection.as_ref().map_or(0, |connection| connection.bytes_acked);
    Sent {
        seconds: elapsed.as_secs_f64(),
        connected: tally.connected(),
        complete: tally.ended() && error.is_none(),
        error,
        bytes_out: tally.written(),
        bytes_acked: bytes_acked.min(tally.written()),
        bytes_in: tally.read(),
        as_sent: compares.then(|| !tally.differs()),
        connection,
        tcp: TcpReport::of(engine.host()),
        counters: HostCounters::of(engine, interface, elapsed),
        server: None,
        capture: None,
        device_failed: engine.failed_device(),
        unreachable: unreachable && !tally.connected(),
        outside: None,
    }
}
