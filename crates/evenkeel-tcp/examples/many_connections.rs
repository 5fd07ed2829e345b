//! An echo server with very many connections, and the clients of all of them: two endpoints in one program,
//! with a link of 10 ms between them. A hundred clients come each millisecond. Each sends a request, reads
//! its echo, and keeps its connection open. Time is virtual: it moves on to the next arrival or deadline,
//! until there is none. An idle connection has no deadline, and owns no buffer.
#![allow(clippy::print_stdout, reason = "it reports the result")]

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use evenkeel_tcp::endpoint::{EndpointEvent, ListenAt, Packet};
use evenkeel_tcp::time::{Duration, Instant};
use evenkeel_tcp::{Endpoint, EndpointConfig, FourTuple, ListenerConfig, Secret};

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
const MSS: u16 = 1_460;
const CLIENTS_PER_MS: usize = 100;
const DELAY: Duration = Duration::from_millis(10);

fn main() {
    let report = serve(10_000);
    println!("{} connections are open, {} were echoed to", report.open, report.echoed);
    println!("{} segments in {:?} of virtual time", report.segments, report.time);
    println!("{} bytes of buffers are left", report.buffered);
}

/// The result of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) open: usize,
    pub(crate) echoed: usize,
    pub(crate) segments: u64,
    pub(crate) time: Duration,
    /// Bytes of memory that the buffers of both endpoints own.
    pub(crate) buffered: usize,
}

/// Opens `connections` connections, and goes on until nothing is left to do.
pub(crate) fn serve(connections: usize) -> Report {
    let config = EndpointConfig { ports: 1_024..=65_535, ..EndpointConfig::default() };
    let mut server = Endpoint::new(config.clone(), Secret::of_seed(1));
    let mut clients = Endpoint::new(config, Secret::of_seed(2));
    let listener =
        ListenerConfig { backlog: connections, syn_queue: connections, ..ListenerConfig::default() };
    server.listen(ListenAt::any(7), &listener, None).expect("no other listener is there");

    let (mut now, mut link, mut echoed, mut requests) = (Instant::ZERO, Link::default(), 0, 0..connections);
    let mut next_clients = Some(now);
    loop {
        let deadlines = [next_clients, clients.next_deadline(), server.next_deadline(), link.next_arrival()];
        let Some(next) = deadlines.into_iter().flatten().min() else { break };
        now = next;
        if next_clients == Some(now) {
            requests.by_ref().take(CLIENTS_PER_MS).for_each(|request| open(&mut clients, request, now));
            next_clients = Some(now + Duration::from_millis(1)).filter(|_| !requests.is_empty());
        }
        link.deliver(&mut clients, &mut server, now);
        clients.advance(now);
        server.advance(now);
        echo(&mut server, now);
        echoed += read_echoes(&mut clients, now);
        link.take_from(&mut clients, now);
        link.take_from(&mut server, now);
    }
    let buffered = clients.buffered() + server.buffered();
    Report { open: server.len(), echoed, segments: link.segments, time: now.since(Instant::ZERO), buffered }
}

/// Opens a connection, and writes a request.
fn open(clients: &mut Endpoint, request: usize, now: Instant) {
    let tuple = FourTuple::new((CLIENT, 0), (SERVER, 7));
    let id = clients.connect(tuple, MSS, now).expect("a port is free");
    clients.write(id, &request.to_be_bytes()).expect("the buffer has room");
}

/// Accepts connections, and writes what they bring back to them.
fn echo(server: &mut Endpoint, now: Instant) {
    let mut buffer = [0; 2_048];
    while let Some(event) = server.poll_event() {
        match event {
            EndpointEvent::Acceptable(at) => while server.accept(&at).is_some() {},
            EndpointEvent::Connection(id, _) => {
                while let Ok(len @ 1..) = server.read(id, &mut buffer, now) {
                    server.write(id, &buffer[..len]).expect("the buffer has room for a request");
                }
            }
        }
    }
}

/// Reads the echoes that have come. Returns their number.
fn read_echoes(clients: &mut Endpoint, now: Instant) -> usize {
    let (mut count, mut buffer) = (0, [0; 2_048]);
    while let Some(event) = clients.poll_event() {
        if let EndpointEvent::Connection(id, _) = event {
            count += usize::from(clients.read(id, &mut buffer, now) == Ok(size_of::<usize>()));
        }
    }
    count
}

/// A link that delays segments, in both directions.
#[derive(Default)]
struct Link {
    under_way: VecDeque<(Instant, Packet, Vec<u8>)>,
    segments: u64,
}

impl Link {
    fn take_from(&mut self, endpoint: &mut Endpoint, now: Instant) {
        let mut buffer = [0; 2_048];
        while let Some(sent) = endpoint.poll_transmit(now, &(), &mut buffer) {
            let (source, destination) = (sent.tuple.local.addr, sent.tuple.remote.addr);
            let packet = Packet { source, destination, ecn: sent.ecn, mss: MSS };
            self.under_way.push_back((now + DELAY, packet, buffer[..sent.len].to_vec()));
            self.segments += 1;
        }
    }

    fn next_arrival(&self) -> Option<Instant> {
        self.under_way.front().map(|first| first.0)
    }

    fn deliver(&mut self, clients: &mut Endpoint, server: &mut Endpoint, now: Instant) {
        while self.next_arrival().is_some_and(|at| at <= now) {
            let Some((_, packet, segment)) = self.under_way.pop_front() else { break };
            let to = if packet.destination == SERVER { &mut *server } else { &mut *clients };
            to.input(&segment, &packet, now);
        }
    }
}
