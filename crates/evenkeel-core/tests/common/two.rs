//! Two hosts on a cable, in virtual time where every unit takes a microsecond, and a thread of its own on
//! each.

use evenkeel_core::cable::{Options, pair};
use evenkeel_core::host::{Config, Host, System};
use evenkeel_core::process::ProcessId;
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::{ConnectOptions, StreamError};
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::{TcpListener, TcpStream};
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr};

use super::UNIT;

pub(crate) const PORT: u16 = 7;
pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;

pub(crate) const fn address(side: usize) -> IpAddress {
    IpAddress::v4(10, 0, 0, 1 + side as u8)
}

/// A thread of its own on each of two hosts.
pub(crate) struct Two {
    pub(crate) hosts: [Host; 2],
    pub(crate) me: [ProcessId; 2],
    pub(crate) now: Instant,
}

impl Two {
    pub(crate) fn new(architecture: Architecture) -> Self {
        Self::with(|_| Config::of(architecture))
    }

    pub(crate) fn with(config: impl Fn(usize) -> Config) -> Self {
        let demultiplexes = config(A).architecture == Architecture::NiLrp;
        let options = |number| Options { demultiplexes, ring_pkts: 1024, ..Options::new("end", number) };
        let (a, b) = pair(options(1), options(2));
        let (mut hosts, mut me) = (Vec::new(), Vec::new());
        for (side, end) in [a, b].into_iter().enumerate() {
            let mut host = Host::new(Config { seed: side as u64, ..config(side) }).unwrap();
            host.add_interface(Box::new(end), &[IpCidr::new(address(side), 24)], Instant::ZERO).unwrap();
            me.push(host.attach("me", 0, Instant::ZERO));
            hosts.push(host);
        }
        let hosts: [Host; 2] = hosts.try_into().unwrap();
        Self { hosts, me: me.try_into().unwrap(), now: Instant::ZERO }
    }

    pub(crate) fn call<T>(&mut self, side: usize, call: impl FnOnce(&mut System<'_>) -> T) -> T {
        self.hosts[side].enter(self.me[side], self.now, call).unwrap()
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            let mut idle = true;
            for host in &mut self.hosts {
                if let Some(ran) = host.turn(self.now) {
                    let elapsed = UNIT + host.work().compute;
                    self.now += elapsed;
                    host.charge(&ran, elapsed);
                    host.finish(&ran, self.now);
                    idle = false;
                }
            }
            let now = self.now;
            if idle && self.hosts.iter_mut().all(|host| host.halt(now)) {
                let next = self.hosts.iter().map(Host::next_deadline).min().unwrap();
                self.now = next.max(now + UNIT).min(until);
            }
        }
        self.hosts.iter().for_each(|host| host.check().unwrap());
    }

    pub(crate) fn settle(&mut self) {
        self.run(Duration::from_millis(600));
    }

    /// Opens a connection from A. Returns it and its other end at B.
    pub(crate) fn connected(&mut self) -> (TcpStream, TcpStream) {
        let listener = self.listen();
        self.connected_by(listener, &ConnectOptions::default())
    }

    pub(crate) fn listen(&mut self) -> TcpListener {
        self.call(B, |system| TcpListener::listen(system, None, PORT, &ListenerConfig::default())).unwrap()
    }

    pub(crate) fn connected_by(
        &mut self,
        listener: TcpListener,
        options: &ConnectOptions<'_>,
    ) -> (TcpStream, TcpStream) {
        let to = IpEndpoint::new(address(B), PORT);
        let (stream, _) = self.call(A, |system| TcpStream::connect_with(system, to, options)).unwrap();
        self.settle();
        let (accepted, _) = self.call(B, |system| listener.accept(system)).unwrap();
        (stream, accepted)
    }

    pub(crate) fn write(&mut self, side: usize, stream: TcpStream, data: &[u8]) -> usize {
        self.call(side, |system| stream.write(system, data)).unwrap()
    }

    pub(crate) fn read(&mut self, side: usize, stream: TcpStream) -> Result<Vec<u8>, StreamError> {
        let mut room = vec![0; 100_000];
        let len = self.call(side, |system| stream.read(system, &mut room))?;
        room.truncate(len);
        Ok(room)
    }
}
