//! Bulk transfers (W11): datagrams with a sliding window, and a stream.

use evenkeel_core::host::System;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::socket::StreamError;
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::{EventQueue, TcpListener, TcpStream, UdpSocket};
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::{Duration, Instant};

use crate::workload::{Log, open};

/// The CPU time for copying payload, added to the prices of packets and calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copying {
    /// CPU time for 1024 bytes.
    pub per_kib: Duration,
}

impl Copying {
    fn of(self, bytes: usize) -> Duration {
        Duration::from_nanos((self.per_kib.as_nanos() * bytes as u128 / 1024) as u64)
    }
}

/// Sends datagrams, never more than a window ahead of what is acknowledged. Nothing is sent again.
#[derive(Debug)]
pub struct WindowSender {
    to: IpEndpoint,
    bytes: usize,
    window: u64,
    left: u64,
    sent: u64,
    acked: u64,
    copying: Copying,
    socket: Option<UdpSocket>,
}

impl WindowSender {
    /// Creates a sender of `datagrams` of `bytes` each.
    #[must_use]
    pub const fn new(to: IpEndpoint, datagrams: u64, bytes: usize, window: u64, copying: Copying) -> Self {
        Self { to, bytes, window, left: datagrams, sent: 0, acked: 0, copying, socket: None }
    }
}

impl Program for WindowSender {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let socket = open(&mut self.socket, system, 0);
        if self.left > 0 && self.sent < self.acked + self.window {
            self.left -= 1;
            self.sent += 1;
            let _ = socket.send(system, self.to, &vec![0; self.bytes]);
            system.compute(self.copying.of(self.bytes));
            return Step::Again;
        }
        let Ok(datagram) = socket.receive(system) else { return Step::Wait(socket.fd()) };
        if let Some(&count) = datagram.as_slice().and_then(|bytes| bytes.first_chunk()) {
            self.acked = self.acked.max(u64::from_be_bytes(count));
        }
        system.recycle(datagram);
        Step::Again
    }
}

/// Counts a [`WindowSender`]'s datagrams, and acknowledges them at a fixed interval of datagrams.
#[derive(Debug)]
pub struct WindowReceiver {
    port: u16,
    every: u64,
    copying: Copying,
    received: u64,
    ack: Option<IpEndpoint>,
    socket: Option<UdpSocket>,
    arrivals: Log<Instant>,
}

impl WindowReceiver {
    /// Creates a receiver on `port` that acknowledges every `every` datagrams, and the log of the times at
    /// which it had each.
    #[must_use]
    pub fn new(port: u16, every: u64, copying: Copying) -> (Self, Log<Instant>) {
        let arrivals = Log::default();
        (
            Self { port, every, copying, received: 0, ack: None, socket: None, arrivals: arrivals.clone() },
            arrivals,
        )
    }
}

impl Program for WindowReceiver {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let socket = open(&mut self.socket, system, self.port);
        if let Some(to) = self.ack.take() {
            let _ = socket.send(system, to, &self.received.to_be_bytes());
            return Step::Again;
        }
        let Ok(datagram) = socket.receive(system) else { return Step::Wait(socket.fd()) };
        self.received += 1;
        if self.received.is_multiple_of(self.every) {
            self.ack = Some(datagram.source());
        }
        system.compute(self.copying.of(datagram.chunks().map(<[u8]>::len).sum()));
        system.recycle(datagram);
        self.arrivals.push(system.now());
        Step::Again
    }
}

/// Bytes that one call of a program moves.
const CALL: usize = 8 << 10;

/// A program that sends a stream of this many bytes.
#[derive(Debug)]
pub struct StreamSource {
    to: IpEndpoint,
    left: usize,
    copying: Copying,
    stream: Option<TcpStream>,
}

impl StreamSource {
    /// Creates a source of `bytes` to `to`.
    #[must_use]
    pub const fn new(to: IpEndpoint, bytes: usize, copying: Copying) -> Self {
        Self { to, left: bytes, copying, stream: None }
    }
}

impl Program for StreamSource {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = EventQueue::of_all(system).expect("a process may have some descriptors");
        let Some(stream) = self.stream else {
            self.stream = Some(TcpStream::connect(system, self.to).expect("the peer can be reached"));
            return Step::Again;
        };
        match stream.write(system, &vec![0; self.left.min(CALL)]) {
            Ok(taken) => {
                self.left -= taken;
                system.compute(self.copying.of(taken));
            }
            Err(StreamError::WouldBlock) => {
                while events.next(system).is_ok() {}
                return Step::Wait(events.fd());
            }
            Err(why) => panic!("the stream ended: {why:?}"),
        }
        if self.left > 0 {
            return Step::Again;
        }
        system.close(stream);
        Step::Exit
    }
}

/// Reads streams to their ends and discards them.
#[derive(Debug)]
pub struct StreamSink {
    port: u16,
    config: ListenerConfig,
    copying: Copying,
    listener: Option<TcpListener>,
    stream: Option<(TcpStream, Arrived)>,
    arrived: Log<Arrived>,
}

/// A stream that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Bytes of the stream.
    pub bytes: usize,
    /// The time at which the sink accepted the connection.
    pub began: Instant,
    /// The time at which the sink had read the last byte.
    pub ended: Instant,
}

impl StreamSink {
    /// Creates a sink on `port`, and the log of the streams that it has read.
    #[must_use]
    pub fn new(port: u16, config: ListenerConfig, copying: Copying) -> (Self, Log<Arrived>) {
        let arrived = Log::default();
        (Self { port, config, copying, listener: None, stream: None, arrived: arrived.clone() }, arrived)
    }
}

impl Program for StreamSink {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(listener) = self.listener else {
            self.listener =
                Some(TcpListener::listen(system, None, self.port, &self.config).expect("the port is free"));
            return Step::Again;
        };
        let Some((stream, arrived)) = &mut self.stream else {
            let Ok((stream, _)) = listener.accept(system) else { return Step::Wait(listener.fd()) };
            let now = system.now();
            self.stream = Some((stream, Arrived { bytes: 0, began: now, ended: now }));
            return Step::Again;
        };
        match stream.read(system, &mut [0; CALL]) {
            Ok(len) if len > 0 => {
                arrived.bytes += len;
                system.compute(self.copying.of(len));
                return Step::Again;
            }
            Err(StreamError::WouldBlock) => return Step::Wait(stream.fd()),
            _ => {}
        }
        self.arrived.push(Arrived { ended: system.now(), ..*arrived });
        system.close(*stream);
        self.stream = None;
        Step::Again
    }
}
