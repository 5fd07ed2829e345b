//! A program outside the tree that uses three packages of evenkeel: clients and an echo server over a link in
//! memory. The server waits with an event queue. A timer for each end, and one for the link, tell when to go
//! on. Time is virtual.

use std::collections::VecDeque;
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};

use evenkeel_ready::{Allocation, CallerId, Event, Interest, Kinds, ProcessId, Readiness, Trigger, Wait};
use evenkeel_tcp::endpoint::{EndpointEvent, ListenAt, Packet};
use evenkeel_tcp::table::Id;
use evenkeel_tcp::{Endpoint, EndpointConfig, FourTuple, ListenerConfig, Secret};
use evenkeel_timers::{Duration, Instant, Timers};

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
const MSS: u16 = 1_460;
const DELAY: Duration = Duration::from_millis(10);

fn main() -> Result<(), Box<dyn Error>> {
    let mut clients = Endpoint::new(EndpointConfig::default(), Secret::of_seed(1));
    let mut server = Server::new()?;
    let mut timers = Timers::new();
    let [client_timer, server_timer, link_timer] =
        ["clients", "server", "link"].map(|owner| timers.register(owner));
    let mut link = VecDeque::new();
    let (mut now, mut echoed) = (Instant::ZERO, 0);
    for _ in 0..3 {
        let id = clients.connect(FourTuple::new((CLIENT, 0), (SERVER, 7)), MSS, now).expect("a port is free");
        clients.write(id, b"hello").expect("the buffer has room");
    }
    while echoed < 15 {
        transmit(&mut clients, &mut link, now);
        transmit(&mut server.endpoint, &mut link, now);
        let deadlines =
            [clients.next_deadline(), server.endpoint.next_deadline(), link.front().map(|first| first.0)];
        for (timer, deadline) in [&client_timer, &server_timer, &link_timer].into_iter().zip(deadlines) {
            timers.set(timer, deadline.unwrap_or(Instant::NEVER));
        }
        now = timers.next_deadline();
        while timers.poll_expired(now).is_some() {}

        while link.front().is_some_and(|(arrival, ..)| *arrival <= now) {
            let Some((_, packet, segment)) = link.pop_front() else { break };
            let to = if packet.destination == SERVER { &mut server.endpoint } else { &mut clients };
            to.input(&segment, &packet, now);
        }
        clients.advance(now);
        server.endpoint.advance(now);
        server.serve(now)?;
        let mut buffer = [0; 64];
        while let Some(event) = clients.poll_event() {
            let EndpointEvent::Connection(id, _) = event else { continue };
            echoed += clients.read(id, &mut buffer, now).unwrap_or(0);
        }
    }
    println!("3 clients have {echoed} bytes back after {} ms", now.as_nanos() / 1_000_000);
    Ok(())
}

/// An echo server, as a program of a host: it has a thread, and an event queue.
struct Server {
    endpoint: Endpoint,
    host: Readiness<Id>,
    process: ProcessId,
    thread: CallerId,
    queue: u32,
    /// The connections. The place of each is the token of its events.
    connections: Vec<(Id, evenkeel_ready::FileId)>,
}

impl Server {
    fn new() -> Result<Self, Box<dyn Error>> {
        let mut endpoint = Endpoint::new(EndpointConfig::default(), Secret::of_seed(2));
        endpoint
            .listen(ListenAt::any(7), &ListenerConfig::default(), None)
            .expect("no other listener is there");
        let mut host = Readiness::new(Allocation::Bitmap);
        let process = host.spawn(1_024);
        let thread = host.attach(process);
        let queue = host.open_queue(process)?.fd;
        Ok(Self { endpoint, host, process, thread, queue, connections: Vec::new() })
    }

    /// Passes events of TCP on as hints, and lets the program run until it sleeps.
    fn serve(&mut self, now: Instant) -> Result<(), Box<dyn Error>> {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                EndpointEvent::Acceptable(at) => {
                    while let Some(id) = self.endpoint.accept(&at) {
                        self.open(id)?;
                    }
                }
                EndpointEvent::Connection(id, _) => {
                    let file = self.connections.iter().find(|connection| connection.0 == id);
                    file.into_iter().for_each(|(_, file)| self.host.hint(*file, Kinds::READABLE));
                }
            }
        }
        let (mut events, mut buffer) = ([Event::default(); 8], [0; 64]);
        loop {
            let endpoint = &self.endpoint;
            let status = |id, _| Kinds::READABLE.when(endpoint.readiness(id).readable);
            let answer = self.host.wait(self.thread, self.queue, &mut events, Wait::UntilReady, status)?;
            if answer.ready == 0 {
                return Ok(());
            }
            for event in &events[..answer.ready] {
                let (id, _) = self.connections[event.token as usize];
                let len = self.endpoint.read(id, &mut buffer, now).unwrap_or(0);
                self.endpoint.write(id, &buffer[..len]).expect("the buffer has room");
            }
        }
    }

    fn open(&mut self, id: Id) -> Result<(), Box<dyn Error>> {
        let opened = self.host.open(self.process, id)?;
        let token = self.connections.len() as u64;
        let interest = Interest { events: Kinds::READABLE, trigger: Trigger::Level, token };
        let endpoint = &self.endpoint;
        let status = |id, _| Kinds::READABLE.when(endpoint.readiness(id).readable);
        self.host.add(self.process, self.queue, opened.fd, interest, status)?;
        self.connections.push((id, opened.file));
        Ok(())
    }
}

/// Puts the segments that an endpoint sends on the link.
fn transmit(endpoint: &mut Endpoint, link: &mut VecDeque<(Instant, Packet, Vec<u8>)>, now: Instant) {
    let mut buffer = [0; 2_048];
    while let Some(sent) = endpoint.poll_transmit(now, &(), &mut buffer) {
        let (source, destination) = (sent.tuple.local.addr, sent.tuple.remote.addr);
        let packet = Packet { source, destination, ecn: sent.ecn, mss: MSS };
        link.push_back((now + DELAY, packet, buffer[..sent.len].to_vec()));
    }
}
