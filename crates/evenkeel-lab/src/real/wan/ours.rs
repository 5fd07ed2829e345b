//! Our host's ends: the server, with a sending rule for each connection, and the client on a cable.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::thread::{self, JoinHandle};

use evenkeel::Engine;
use evenkeel::raw::cable::End;
use evenkeel::raw::device::Device;
use evenkeel::raw::error::StreamError;
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::process::{ProcessId, Program, Step, System};
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::socket::{EventQueue, TcpListener, TcpStream};
use evenkeel::raw::tcp::recovery::RecoveryConfig;
use evenkeel::raw::tcp::{self, ListenerConfig};
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wire::{IpCidr, IpEndpoint};
use evenkeel_apps::measure::{CoreTime, settle_on};

use super::client::{Client, PATIENCE, REQUEST_BYTES, bytes_of, late};

/// The size of buffers: at least twice the data in flight at 100 Mbit/s.
const BUFFER: usize = 8 << 20;
/// The bytes that one call moves.
const CALL: usize = 64 << 10;

/// Returns the configuration of the server's connections.
pub(super) fn options(recovery: RecoveryConfig) -> Arc<tcp::Config> {
    Arc::new(tcp::Config {
        send_buffer_initial: BUFFER,
        send_buffer_max: BUFFER,
        recovery: Arc::new(recovery),
        ..tcp::Config::default()
    })
}

/// A server with a port for each sending rule.
#[derive(Debug)]
struct Server {
    ports: Vec<(u16, Arc<tcp::Config>)>,
    listeners: Vec<TcpListener>,
    streams: BTreeMap<TcpStream, Answering>,
}

/// The request that is arriving, and the bytes left of the last answer.
#[derive(Debug, Default)]
struct Answering {
    asked: Vec<u8>,
    left: usize,
}

impl Server {
    fn listen(&mut self, system: &mut System<'_>) {
        for (port, options) in self.ports.drain(..) {
            let listener = TcpListener::listen_with(system, None, port, &ListenerConfig::default(), &options);
            self.listeners.push(listener.unwrap_or_else(|error| panic!("cannot listen: {error}")));
        }
    }

    /// Reads and writes what can be; an error when the stream is to be closed.
    fn serve(
        stream: TcpStream,
        answering: &mut Answering,
        system: &mut System<'_>,
    ) -> Result<(), StreamError> {
        loop {
            while answering.left > 0 {
                let some = answering.left.min(CALL);
                answering.left -= stream.write(system, &[0; CALL][..some])?;
            }
            let mut request = [0; REQUEST_BYTES];
            let wanted = REQUEST_BYTES - answering.asked.len();
            match stream.read(system, &mut request[..wanted])? {
                0 => return Err(StreamError::Closed),
                len => answering.asked.extend_from_slice(&request[..len]),
            }
            if let Ok(packets) = answering.asked.as_slice().try_into().map(u32::from_be_bytes) {
                (answering.asked, answering.left) = (Vec::new(), bytes_of(packets));
            }
        }
    }
}

impl Program for Server {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = EventQueue::of_all(system).expect("a process may have some descriptors");
        self.listen(system);
        let Ok(event) = events.next(system) else { return Step::Wait(events.fd()) };
        let (listener, stream) = (TcpListener::of(&event), TcpStream::of(&event));
        if self.listeners.contains(&listener) {
            while let Ok((stream, _)) = listener.accept(system) {
                self.streams.insert(stream, Answering::default());
            }
        } else if let Some(answering) = self.streams.get_mut(&stream) {
            let served = Self::serve(stream, answering, system);
            if !matches!(served, Ok(()) | Err(StreamError::WouldBlock)) {
                self.streams.remove(&stream);
                system.close(stream);
            }
        }
        Step::Again
    }
}

/// The link of the server.
pub(super) enum Way {
    Cable(Box<End>),
    Device(Box<dyn Device>),
}

/// A running server, until it is ended.
pub(super) struct Serving {
    over: Arc<AtomicBool>,
    waker: Waker,
    thread: JoinHandle<io::Result<f64>>,
}

impl Serving {
    pub(super) fn begin(
        way: Way,
        address: IpCidr,
        ports: Vec<(u16, Arc<tcp::Config>)>,
        clock: Clock,
    ) -> io::Result<Self> {
        let host = Host::new(Config::default()).map_err(io::Error::other)?;
        let mut engine = Engine::new(host, clock)?;
        let added = match way {
            Way::Cable(end) => engine.add_cable(*end, &[address]),
            Way::Device(device) => engine.add_device(device, &[address]),
        };
        added.map_err(io::Error::other)?;
        let server = Server { ports, listeners: Vec::new(), streams: BTreeMap::new() };
        engine.host_mut().spawn("server", 0, Box::new(server));
        let (over, waker) = (Arc::new(AtomicBool::new(false)), engine.waker());
        let is_over = Arc::clone(&over);
        let serve = move || {
            // The thread shares the core of the calling thread.
            settle_on(None);
            engine.run(clock.now(), |_| false)?;
            let begin = CoreTime::of(&engine);
            engine.run(Instant::NEVER, |_| is_over.load(Ordering::Acquire))?;
            Ok(CoreTime::of(&engine).core_share_since(&begin))
        };
        let thread = thread::Builder::new().name("server".to_owned()).spawn(serve)?;
        Ok(Self { over, waker, thread })
    }

    /// Ends the server. Returns the share of the time in which its thread had its core when it needed it.
    pub(super) fn end(self) -> io::Result<f64> {
        self.over.store(true, Ordering::Release);
        self.waker.wake();
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// A client that runs its host while it waits.
pub(super) struct OnCable {
    engine: Engine,
    process: ProcessId,
}

impl OnCable {
    pub(super) fn new(end: End, address: IpCidr, clock: Clock) -> io::Result<Self> {
        let mut config = Config::of(Architecture::Polled);
        let connection = Arc::make_mut(&mut config.tcp.connection);
        (connection.receive_buffer_initial, connection.receive_buffer_max) = (BUFFER, BUFFER);
        let mut engine = Engine::new(Host::new(config).map_err(io::Error::other)?, clock)?;
        engine.add_cable(end, &[address]).map_err(io::Error::other)?;
        let process = engine.attach("client");
        Ok(Self { engine, process })
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut System<'_>) -> T) -> io::Result<T> {
        self.engine.enter(self.process, call).map_err(io::Error::other)
    }
}

impl Client for OnCable {
    type Connection = TcpStream;

    fn open(&mut self, to: IpEndpoint) -> io::Result<TcpStream> {
        self.call(|system| TcpStream::connect(system, to))?.map_err(io::Error::other)
    }

    fn ask(&mut self, connection: &mut TcpStream, packets: u32) -> io::Result<Duration> {
        let stream = *connection;
        let since = self.engine.clock().now();
        let request = packets.to_be_bytes();
        self.call(|system| stream.write(system, &request))?.map_err(io::Error::other)?;
        let (mut left, mut buffer) = (bytes_of(packets), vec![0; CALL]);
        while left > 0 {
            match self.call(|system| stream.read(system, &mut buffer))? {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => left = left.saturating_sub(len),
                Err(StreamError::WouldBlock) => {
                    let until = since + PATIENCE;
                    self.engine.wait(self.process, stream, until).map_err(io::Error::other)?;
                    if self.engine.clock().now() >= until {
                        return Err(late(packets));
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(self.engine.clock().now().since(since))
    }

    fn close(&mut self, connection: TcpStream) -> io::Result<()> {
        self.call(|system| system.close(connection))
    }

    fn pause(&mut self, time: Duration) -> io::Result<()> {
        let until = self.engine.clock().now() + time;
        self.engine.run(until, |_| false).map(drop)
    }

    fn now(&self) -> Instant {
        self.engine.clock().now()
    }
}
