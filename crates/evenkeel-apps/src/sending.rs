//! Runs a client with one connection in real time, on a device or on a cable with a server at its peer end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use evenkeel::Engine;
use evenkeel::raw::error::StreamError;
use evenkeel::raw::ip::InterfaceId;
use evenkeel::raw::tcp::connection::Error;
use evenkeel::raw::time::{Clock, Duration};
use evenkeel::raw::wire::IpEndpoint;
use schemars::JsonSchema;
use serde::Serialize;

use crate::captures::{Embedded, EmbeddedCaptured};
use crate::counters::HostCounters;
use crate::host_setup::{DeviceSetup, HostSetup, Limits, Occasion, SetupError};
use crate::hosted::Hosted;
use crate::serve::{Listening, Running, Served, pair};
use crate::stream::report::{ConnectionReport, TcpReport};
use crate::stream::send::{Broken, Counters, Drain, Outcome, Send, Source};
use crate::stream::stdio::{Output, Stdio};
use crate::stream::{Echo, Options, Sink};

/// The result of a client.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Sent {
    /// The time that the client ran, in seconds.
    pub seconds: f64,
    /// Whether a connection was established.
    pub connected: bool,
    /// Whether both sides have sent everything and each knows it, and all input was read and all output
    /// written.
    pub complete: bool,
    /// The reason, if the connection was not opened or failed, or if its received bytes could not be
    /// written.
    pub error: Option<String>,
    /// Bytes written.
    pub bytes_out: u64,
    /// The number of the written bytes that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// The result of comparing the received bytes with the sent ones: true if only the sent bytes came
    /// back; `None` if the source was not a pattern.
    pub as_sent: Option<bool>,
    /// The connection, as it was last seen.
    pub connection: Option<ConnectionReport>,
    /// The host's TCP report.
    pub tcp: TcpReport,
    /// The host's counters.
    pub counters: HostCounters,
    /// On a cable, the result of the server at the peer end.
    pub server: Option<Box<Served>>,
    /// The result of the capture, if there was one.
    pub capture: Option<EmbeddedCaptured>,
    /// The reason why the device delivers no more frames; `None` if it works.
    pub device_failed: Option<String>,
    /// Whether no connection was established because the next hop does not answer, or the network reports
    /// that the peer cannot be reached.
    #[serde(skip)]
    pub unreachable: bool,
    /// The direction and the error, if the input could not be read to its end or the output could not be
    /// written.
    #[serde(skip)]
    pub outside: Option<(Way, Arc<io::Error>)>,
}

/// A direction between the program and the outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The input, which is sent.
    In,
    /// The output, which gets the received bytes.
    Out,
}

/// The place that the client sends from.
#[derive(Debug)]
pub enum Place {
    /// A device.
    Device(DeviceSetup),
    /// A cable.
    Cable {
        /// The number of receive rings of the client's end.
        queues: usize,
        /// The setup of the host at the peer end.
        other: Box<HostSetup>,
        /// The options of the server at the peer end.
        options: Options,
        /// Whether the server sends back what it receives. Otherwise it discards that.
        echoes: bool,
    },
}

/// A task for a client: what it sends, where to, and where received bytes go.
#[derive(Debug)]
pub struct Errand {
    /// The address and port to connect to.
    pub to: IpEndpoint,
    /// Whether the SYN carries the first bytes (RFC 7413). If so, a connection without data comes first and
    /// obtains the server's cookie.
    pub fast_open: bool,
    /// The bytes to send.
    pub source: Source,
    /// The destination of the received bytes.
    pub drain: Drain,
    /// The event that reports that the input or the output can go on.
    pub outside: Stdio,
    /// A capture of the frames that come and go, if there is to be one.
    pub capture: Option<Embedded>,
}

/// Runs the client until both sides have sent everything, a limit is reached, or the process is asked to
/// end.
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
    let tally = Arc::new(Counters::default());
    let engine = &mut hosted.engine;
    let program = Send::new(to, fast_open, source, drain, Arc::clone(&tally));
    let process = engine.host_mut().spawn("send", 0, Box::new(program));
    engine.attend_event(&outside.event, move |host, now| host.wake_process(process, now));
    let report = |engine: &mut Engine, elapsed| sent(engine, &tally, compares, elapsed);
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
    let written = output.map(Output::finish).unwrap_or(Ok(()));
    let outside = input.or(written.err().map(|error| (Way::Out, Arc::new(error))));
    // The last write may fail when the connection is already over.
    Ok(Sent { complete: last.complete && outside.is_none(), tcp, counters, capture, outside, ..last })
}

fn sent(engine: &mut Engine, tally: &Counters, compares: bool, elapsed: Duration) -> Sent {
    let (broken, connection) = {
        let outcome = tally.outcome();
        (outcome.broken, outcome.last.as_ref().map(|(tuple, info)| ConnectionReport::new(tuple, info)))
    };
    let snapshot = engine.snapshot();
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
        counters: HostCounters::of(&snapshot, elapsed),
        tcp: snapshot.tcp,
        server: None,
        capture: None,
        device_failed: engine.failed_device(),
        unreachable: unreachable && !tally.connected(),
        outside: None,
    }
}
