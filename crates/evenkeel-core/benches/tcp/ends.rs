//! Two endpoints, and what lies between them.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use evenkeel_core::tcp::endpoint::{ListenAt, Packet};
use evenkeel_core::tcp::table::Id;
use evenkeel_core::tcp::{
    AddrPort, Config, Ecn, Endpoint, EndpointConfig, FourTuple, ListenerConfig, Secret, TimeWaitConfig,
};
use evenkeel_core::time::Instant;

/// The bytes that Ethernet frames of 1500 bytes leave for TCP's header options and data.
pub(crate) const MSS: u16 = 1_460;
/// Bytes of data in a full segment, which has timestamps.
pub(crate) const PAYLOAD: usize = 1_448;
const ROOM: usize = 2_048;
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const PORT: u16 = 80;
const HTTP: ListenAt = ListenAt { address: None, port: PORT };
/// As an ordinary host may have before anything waits for TIME-WAIT to end.
const PORTS: u32 = 50_000;

/// Returns the client's end of connection `n`. The client's address changes when it has no more ports.
fn client(n: u32) -> AddrPort {
    let address = Ipv4Addr::from_bits(0x0a01_0000 + n / PORTS);
    AddrPort::new(address.into(), (10_000 + n % PORTS) as u16)
}

fn server() -> AddrPort {
    AddrPort::new(SERVER, PORT)
}

/// Segments on their way, each in a frame's place.
pub(crate) struct Cable {
    bytes: Vec<u8>,
    /// The addresses and ports of each segment, and its length in bytes.
    segments: Vec<(FourTuple, usize)>,
}

impl Cable {
    fn new(segments: usize) -> Self {
        Self { bytes: vec![0; segments * ROOM], segments: Vec::with_capacity(segments) }
    }

    fn is_full(&self) -> bool {
        self.segments.len() == self.segments.capacity()
    }

    /// Returns the number of segments on their way.
    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }

    /// Takes what the endpoint sends, as long as there is room.
    pub(crate) fn fill(&mut self, endpoint: &mut Endpoint, now: Instant) {
        while !self.is_full() {
            let start = self.segments.len() * ROOM;
            let Some(sent) = endpoint.poll_transmit(now, &(), &mut self.bytes[start..start + ROOM]) else {
                return;
            };
            self.segments.push((sent.tuple, sent.len));
        }
    }

    /// Gives the endpoint what is on its way, and calls `after` each segment.
    pub(crate) fn empty_into(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        mut after: impl FnMut(&mut Endpoint),
    ) {
        for (n, (tuple, len)) in self.segments.drain(..).enumerate() {
            let packet = Packet {
                source: tuple.local.addr,
                destination: tuple.remote.addr,
                ecn: Ecn::NotCapable,
                mss: MSS,
            };
            endpoint.input(&self.bytes[n * ROOM..][..len], &packet, now);
            after(endpoint);
        }
    }
}

/// A client, a server that listens, and a cable of two directions.
pub(crate) struct Ends {
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    pub(crate) to_server: Cable,
    pub(crate) to_client: Cable,
    pub(crate) now: Instant,
    opened: u32,
}

impl Ends {
    /// Creates the two ends with `idle` connections, which stay idle.
    pub(crate) fn new(idle: usize, waiting: usize, cable: usize) -> Self {
        let mut ends = Self {
            client: Self::endpoint(1, waiting),
            server: Self::endpoint(2, waiting),
            to_server: Cable::new(cable),
            to_client: Cable::new(cable),
            now: Instant::from_millis(1_000),
            opened: 0,
        };
        let config = ListenerConfig { backlog: 1 << 20, ..ListenerConfig::default() };
        ends.server.listen(HTTP, &config, None).unwrap();
        (0..idle).for_each(|_| _ = ends.establish());
        ends
    }

    fn endpoint(key: u8, waiting: usize) -> Endpoint {
        let time_wait = TimeWaitConfig { connections: waiting, ..TimeWaitConfig::default() };
        let connection = Arc::new(Config::default());
        let config = EndpointConfig { connection, time_wait, ..EndpointConfig::default() };
        Endpoint::new(config, Secret::new([key; 16]))
    }

    /// Makes a client begin the next connection.
    pub(crate) fn connect(&mut self) -> Id {
        let tuple = FourTuple::new(client(self.opened), server());
        self.opened += 1;
        self.client.connect(tuple, MSS, self.now).unwrap()
    }

    /// Opens a connection; what it is at the client, and at the server.
    pub(crate) fn establish(&mut self) -> (Id, Id) {
        let client = self.connect();
        for _ in 0..2 {
            self.to_server.fill(&mut self.client, self.now);
            self.to_server.empty_into(&mut self.server, self.now, |_| {});
            self.to_client.fill(&mut self.server, self.now);
            self.to_client.empty_into(&mut self.client, self.now, |_| {});
        }
        let server = self.server.accept(&HTTP).unwrap();
        self.to_client.fill(&mut self.server, self.now);
        discard_events(&mut self.client);
        discard_events(&mut self.server);
        (client, server)
    }
}

/// Discards the events of an endpoint whose caller polls its connections itself.
pub(crate) fn discard_events(endpoint: &mut Endpoint) {
    while endpoint.poll_event().is_some() {}
}
