//! Many short conversations: a request and its response, on connections that are there, or each on one made
//! for it.

use std::hint::black_box;

use evenkeel_core::tcp::Endpoint;
use evenkeel_core::tcp::endpoint::EndpointEvent;
use evenkeel_core::tcp::table::Id;
use evenkeel_core::time::{Duration, Instant};

use crate::ends::{Cable, Ends};
use crate::meter::{Meter, Scenario};

/// Conversations at a time.
const TOGETHER: usize = 32;
/// Connections in TIME-WAIT, once there are as many: each new one ends the wait of the oldest.
const WAITING: usize = 1 << 14;
const REQUEST: &[u8] = b"?";
const RESPONSE: &[u8] = b"!";

fn per_second(nanos: f64) -> String {
    format!("{:.0} k/s", 1e6 / nanos)
}

/// A program that handles the events of an endpoint.
trait Program {
    fn hear(&mut self, endpoint: &mut Endpoint, event: EndpointEvent, now: Instant);
}

/// Handles the segments that have arrived, passes events to the program, and sends what there is to send.
fn run(endpoint: &mut Endpoint, program: &mut impl Program, from: &mut Cable, to: &mut Cable, now: Instant) {
    from.empty_into(endpoint, now, |_| {});
    while let Some(event) = endpoint.poll_event() {
        program.hear(endpoint, event, now);
    }
    to.fill(endpoint, now);
    endpoint.advance(now);
    black_box(endpoint.next_deadline());
}

fn read(endpoint: &mut Endpoint, id: Id, now: Instant) -> Option<usize> {
    endpoint.read(id, &mut [0; 16], now).ok()
}

/// Answers each request, and closes when the client does.
struct Server;

impl Program for Server {
    fn hear(&mut self, server: &mut Endpoint, event: EndpointEvent, now: Instant) {
        match event {
            EndpointEvent::Acceptable(at) => while server.accept(&at).is_some() {},
            EndpointEvent::Connection(id, ready) if ready.readable => match read(server, id, now) {
                Some(0) => server.close(id, now),
                Some(_) => _ = server.write(id, RESPONSE),
                None => {}
            },
            EndpointEvent::Connection(..) => {}
        }
    }
}

/// Has one request on its way on each connection, and keeps the connections.
#[derive(Default)]
struct Asker {
    heard: usize,
}

impl Program for Asker {
    fn hear(&mut self, client: &mut Endpoint, event: EndpointEvent, now: Instant) {
        if let EndpointEvent::Connection(id, ready) = event
            && ready.readable
            && read(client, id, now).is_some()
        {
            self.heard += 1;
            client.write(id, REQUEST).unwrap();
        }
    }
}

/// Asks when it is connected, and closes with the response.
#[derive(Default)]
struct Caller {
    heard: usize,
}

impl Program for Caller {
    fn hear(&mut self, client: &mut Endpoint, event: EndpointEvent, now: Instant) {
        let EndpointEvent::Connection(id, ready) = event else { return };
        if ready.readable && read(client, id, now) == Some(1) {
            self.heard += 1;
            client.close(id, now);
        } else if ready.connected && !ready.readable {
            client.write(id, REQUEST).unwrap();
        }
    }
}

/// Requests on connections that are there.
pub(crate) struct Requests {
    ends: Ends,
    asker: Asker,
}

impl Requests {
    pub(crate) fn new(idle: usize) -> Self {
        let mut ends = Ends::new(idle, WAITING, 4 * TOGETHER);
        // All first: what is under way while others are established is lost to the program.
        let streams: Vec<_> = (0..TOGETHER).map(|_| ends.establish().0).collect();
        for id in streams {
            ends.client.write(id, REQUEST).unwrap();
        }
        Self { ends, asker: Asker::default() }
    }
}

impl Scenario for Requests {
    fn ends(&self) -> [&'static str; 2] {
        ["client", "server"]
    }

    fn turn(&mut self, meter: &mut Meter) -> usize {
        let Self { ends, asker } = self;
        let Ends { client, server, to_server, to_client, now, .. } = ends;
        asker.heard = 0;
        meter.part(0, || run(client, asker, to_client, to_server, *now));
        meter.part(1, || run(server, &mut Server, to_server, to_client, *now));
        *now += Duration::from_micros(50);
        asker.heard
    }

    fn rate(&self, nanos: f64) -> String {
        per_second(nanos)
    }
}

/// A connection for each request, which the client closes first.
pub(crate) struct Connections {
    ends: Ends,
}

impl Connections {
    pub(crate) fn new(idle: usize) -> Self {
        let mut ends = Ends::new(idle, WAITING, 4 * TOGETHER);
        let mut meter = Meter::new();
        // Until each new connection in TIME-WAIT ends the wait of another one.
        while ends.client.waiting() < WAITING {
            Self::call(&mut ends, &mut meter);
        }
        Self { ends }
    }

    fn call(ends: &mut Ends, meter: &mut Meter) -> usize {
        let mut caller = Caller::default();
        meter.part(0, || (0..TOGETHER).for_each(|_| _ = ends.connect()));
        let idle = ends.server.len();
        let Ends { client, server, to_server, to_client, now, .. } = ends;
        for _ in 0..4 {
            meter.part(0, || run(client, &mut caller, to_client, to_server, *now));
            meter.part(1, || run(server, &mut Server, to_server, to_client, *now));
            *now += Duration::from_micros(10);
        }
        assert_eq!((server.len(), to_client.len()), (idle, 0), "all are closed");
        caller.heard
    }
}

impl Scenario for Connections {
    fn ends(&self) -> [&'static str; 2] {
        ["client", "server"]
    }

    fn turn(&mut self, meter: &mut Meter) -> usize {
        Self::call(&mut self.ends, meter)
    }

    fn rate(&self, nanos: f64) -> String {
        per_second(nanos)
    }
}
