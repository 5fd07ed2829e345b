//! A saturated server on its own core, with and without events on that core.

use std::io;
use std::sync::Arc;

use evenkeel::Engine;
use evenkeel::raw::cable::End;
use evenkeel::raw::device::{Interface as _, StampedFrame};
use evenkeel::raw::frame::Pool;
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wire::{IpCidr, IpEndpoint};
use evenkeel_apps::measure::{
    CoreTime, Generator, Schedule, Sending, Working, drain, drive_by_turns, opposite, per_second,
};
use evenkeel_apps::requests::{Requests, Shape};
use evenkeel_apps::service::{self, Counters, Service};

use super::super::Options;
use super::super::asking::{CLIENT, HARDWARE, SERVER, lay};
use super::events::{Events, Facility, Handling};
use super::sink::{Intervals, Sink, TURN};

const PORT: u16 = 7;
const PAYLOAD: usize = 64;
const FLOWS: u16 = 64;
const RING_PKTS: usize = 512;
/// The frames of the sink's ring, large enough for the sink's thread to be absent for tens of milliseconds,
/// as threads are on a shared machine.
const SINK_PKTS: usize = 4_096;
/// Frames that the generator sends before it takes the answers.
const BURST_PKTS: usize = 64;
const READY: Duration = Duration::from_millis(20);
const WARM_UP: Duration = Duration::from_millis(60);
const SETTLE: Duration = Duration::from_millis(5);
/// The payload bytes of a packet of 1500 bytes (IPv4, UDP).
const FULL_PAYLOAD: usize = 1_472;
/// The place of UDP's checksum in a frame.
const UDP_CHECKSUM: core::ops::Range<usize> = 40..42;

/// Two phases of a server: without events, and then with them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    /// Answers a second.
    pub(super) alone: f64,
    pub(super) beside: f64,
    /// Events a second.
    pub(super) events: f64,
}

impl Pair {
    /// Returns the share of its throughput that the server loses to events.
    pub(super) fn lost(&self) -> f64 {
        1.0 - self.beside / self.alone.max(1.0)
    }
}

/// The measurements of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Measured {
    pub(super) pairs: Vec<Pair>,
    /// The lateness of events: median and 99th percentile.
    pub(super) late_us: [f64; 2],
    /// The share of its core that the server's thread had over the window, according to the kernel's ticks.
    pub(super) core_share: f64,
    pub(super) conserved: bool,
    /// The intervals between the packets that left.
    pub(super) sent: Intervals,
}

pub(super) fn run(
    handling: Handling,
    events: (Facility, Duration),
    options: &Options,
) -> io::Result<Measured> {
    let [(outside, inside), (far, near)] = [RING_PKTS, SINK_PKTS].map(lay);
    let sink = Sink::new(far, SINK_PKTS).map_err(io::Error::other)?;
    let frame = match handling {
        Handling::Send => StampedFrame::new(near, full_frame(options.seed)?),
        Handling::Null => None,
    };
    let clock = Clock::start();
    let schedule = Schedule { start: clock.now() + READY, warm_up: WARM_UP, window: options.window };
    let (observed, generated) = opposite(
        |generator| serve(events, frame, inside, clock, generator),
        |sending, server| flood((outside, sink), schedule, clock, options.seed, (sending, server)),
    )?;
    let sent = generated?;
    Ok(Measured { sent, ..observed? })
}

/// Returns a packet of the greatest length. Data that is written into it later is not in a checksum, which
/// UDP does not require.
fn full_frame(seed: u64) -> io::Result<Vec<u8>> {
    let shape = Shape { payload: FULL_PAYLOAD, flows: 1, ..shape(seed) };
    let mut frame = requests(&shape)?.next().to_vec();
    frame[UDP_CHECKSUM].fill(0);
    Ok(frame)
}

fn shape(seed: u64) -> Shape {
    Shape {
        hardware: (HARDWARE[0], HARDWARE[1]),
        from: IpEndpoint::new(CLIENT.into(), 20_000),
        to: IpEndpoint::new(SERVER.into(), PORT),
        payload: PAYLOAD,
        flows: FLOWS,
        seed,
    }
}

fn requests(shape: &Shape) -> io::Result<Requests> {
    Requests::new(shape).map_err(|what| io::Error::other(format!("{what:?}")))
}

fn serve(
    what: (Facility, Duration),
    frame: Option<StampedFrame>,
    end: End,
    clock: Clock,
    generator: &Generator,
) -> io::Result<Measured> {
    let host = Host::new(Config::of(Architecture::Polled)).map_err(io::Error::other)?;
    let mut engine = Engine::new(host, clock)?;
    engine.add_cable(end, &[IpCidr::new(SERVER.into(), 24)]).map_err(io::Error::other)?;
    let tally = Arc::<Counters>::default();
    let service =
        service::Options { port: PORT, groups: Vec::new(), work: Duration::ZERO, echo: true, count: None };
    engine.host_mut().spawn("echo", 0, Box::new(Service::new(service, Arc::clone(&tally))));
    engine.run(clock.now() + SETTLE, |_| false)?;
    let events = Events::new(&mut engine, what, frame)?;
    let look = |engine: &Engine| (CoreTime::of(engine), tally.requests(), events.count());
    let turn = |engine: &mut Engine, on: bool| events.turn(engine, on);
    let turns = drive_by_turns(&mut engine, generator, TURN, turn, look)?;
    let pair = |[alone, beside]: &[[_; 2]; 2]| Pair {
        alone: rate(alone, |(_, answered, _)| answered),
        beside: rate(beside, |(_, answered, _)| answered),
        events: rate(beside, |(_, _, events)| events),
    };
    let ends = turns.first().zip(turns.last()).map(|(first, last)| (first[0][0].0, last[1][1].0));
    let measured = Measured {
        pairs: turns.iter().map(pair).collect(),
        late_us: events.late_us(),
        core_share: ends.map_or(0.0, |(from, until)| until.core_share_since(&from)),
        conserved: engine.host().check().is_ok(),
        sent: Intervals::default(),
    };
    events.end();
    Ok(measured)
}

/// A snapshot by the server's thread: CPU time, answers and events so far.
type Look = (CoreTime, u64, u64);

fn rate([from, until]: &[Look; 2], of: fn(Look) -> u64) -> f64 {
    per_second(of(*until) - of(*from), until.0.at.since(from.0.at))
}

/// Sends more than the server can take. Takes the paced packets meanwhile, and returns the intervals
/// between their departures.
fn flood(
    (mut end, mut sink): (End, Sink),
    schedule: Schedule,
    clock: Clock,
    seed: u64,
    (sending, server): (Sending, &Working),
) -> io::Result<Intervals> {
    let mut requests = requests(&shape(seed))?;
    let mut pool = Pool::with_limit(2 * RING_PKTS);
    end.attach(&mut pool).map_err(io::Error::other)?;
    while !server.has_begun() || clock.now() < schedule.start {
        clock.spin(Duration::from_micros(20));
        sink.drain();
    }
    let mut send_until = |until: Instant, sink: &mut Sink| {
        while clock.now() < until && !server.is_over() {
            for _ in 0..BURST_PKTS {
                end.send(requests.next());
            }
            end.flush();
            drain(&mut end, &mut pool);
            sink.drain_by(clock.now());
        }
    };
    send_until(clock.now() + schedule.warm_up, &mut sink);
    sending.measuring();
    sink.begin();
    send_until(clock.now() + schedule.window, &mut sink);
    let seen = sink.seen();
    sending.measured();
    drop(sending);
    while !server.is_over() {
        drain(&mut end, &mut pool);
        sink.drain();
    }
    Ok(seen)
}
