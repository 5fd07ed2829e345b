//! The examples serve clients: ours on cables, and the kernel's over a TAP.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use evenkeel::raw::cable::{Options, pair};
use evenkeel::raw::error::{BadDescriptor, StreamError};
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::process::{ProcessId, System};
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::socket::{Fd, Kinds, TcpStream, UdpSocket};
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wire::{IpAddress, IpCidr, IpEndpoint};
use evenkeel::{Ended, Engine, Error, Fault};

#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/dns.rs"]
mod dns;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/epoll.rs"]
mod epoll;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/event_queue.rs"]
mod event_queue;
mod kernel;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/mio.rs"]
mod mio;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/tcp_echo.rs"]
mod tcp_echo;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/three.rs"]
mod three;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/udp_echo.rs"]
mod udp_echo;

const SERVER: IpAddress = IpAddress::v4(10, 0, 0, 2);
/// Long enough for a machine with other things to do.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client's host at one end of a cable, and a thread that is the server's at the other.
struct Bench {
    engine: Engine,
    me: ProcessId,
    server: Option<JoinHandle<()>>,
}

fn engine(architecture: Architecture, end: evenkeel::raw::cable::End, last: u8) -> Engine {
    let mut engine = Engine::new(Host::new(Config::of(architecture)).unwrap(), Clock::start()).unwrap();
    engine.add_cable(end, &[IpCidr::new(IpAddress::v4(10, 0, 0, last), 24)]).unwrap();
    engine
}

impl Bench {
    /// Runs `serve`, which never ends by itself, with an end time that leaves the test enough time.
    fn new(architecture: Architecture, serve: impl FnOnce(Engine, Instant) + Send + 'static) -> Self {
        let demultiplexes = architecture == Architecture::NiLrp;
        let (near, far) =
            pair(Options::new("client", 1), Options { demultiplexes, ..Options::new("server", 2) });
        let mut client = engine(Architecture::SoftLrp, near, 1);
        let me = client.attach("client");
        let server = thread::spawn(move || {
            let engine = engine(architecture, far, 2);
            let until = engine.clock().now() + Duration::from_secs(60);
            serve(engine, until);
        });
        Self { engine: client, me, server: Some(server) }
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut System<'_>) -> T) -> T {
        self.engine.enter(self.me, call).unwrap()
    }

    fn udp(&mut self) -> UdpSocket {
        self.call(|system| UdpSocket::bind(system, None, 0)).unwrap()
    }

    /// Sends until the answer is there, because the start of the server is not announced. Earlier requests
    /// may be answered twice.
    fn ask(&mut self, socket: UdpSocket, port: u16, payload: &[u8], is: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let end = self.engine.clock().now() + PATIENCE;
        loop {
            self.call(|system| socket.send(system, IpEndpoint::new(SERVER, port), payload)).unwrap();
            let until = self.engine.clock().now() + Duration::from_millis(50);
            if self.engine.wait(self.me, socket, until).unwrap() == Ended::Done {
                let answers = self.call(|system| {
                    let mut answers = Vec::new();
                    while let Ok(datagram) = socket.receive(system) {
                        answers.push(datagram.as_slice().unwrap().to_vec());
                        system.recycle(datagram);
                    }
                    answers
                });
                if let Some(answer) = answers.into_iter().find(|answer| is(answer)) {
                    return answer;
                }
            }
            assert!(self.engine.clock().now() < end, "no answer");
        }
    }

    /// Returns a connection that the server has accepted.
    fn connect(&mut self, port: u16) -> TcpStream {
        let end = self.engine.clock().now() + PATIENCE;
        loop {
            let stream =
                self.call(|system| TcpStream::connect(system, IpEndpoint::new(SERVER, port))).unwrap();
            let until = self.engine.clock().now() + Duration::from_millis(500);
            while self.engine.wait_for(self.me, stream, Kinds::WRITABLE, until).unwrap() == Ended::Done {
                let info = self.call(|system| stream.info(system));
                if info.ok().is_none_or(|(_, info)| info.state.is_synchronized()) {
                    break;
                }
                assert!(self.engine.clock().now() < end, "no connection");
            }
            if self.call(|system| stream.write(system, b"")).is_ok() {
                return stream;
            }
            self.call(|system| system.close(stream));
            assert!(self.engine.clock().now() < end, "no connection");
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // The server goes on until its time is up; nobody waits for that.
        if !thread::panicking() {
            self.engine.host().check().unwrap();
        }
    }
}

#[test]
fn udp_echo_answers_under_every_architecture() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::new(architecture, |engine, until| udp_echo::serve(engine, until).unwrap());
        let socket = bench.udp();
        for n in 0..100_u32 {
            bench.ask(socket, 7, &n.to_be_bytes(), |answer| answer == n.to_be_bytes());
        }
    }
}

/// Three connections, of which one goes on talking: it stays, and the others are closed by their server. A
/// machine that stops for longer than the silence makes the talking one silent, so longer ones are tried.
#[test]
fn event_queue_closes_connections_from_which_nothing_comes() {
    for architecture in Architecture::ALL {
        let silences = [400, 1_600, 6_400].map(Duration::from_millis);
        let stays = silences.into_iter().any(|silence| talking_stays(architecture, silence));
        assert!(stays, "{architecture}: the talking one was closed, too");
    }
}

/// Returns whether a talking connection outlives two silent ones, which the server closes.
fn talking_stays(architecture: Architecture, silence: Duration) -> bool {
    let mut bench = Bench::new(architecture, move |engine, until| {
        event_queue::serve(engine, until, silence).unwrap();
    });
    let [talking, silent, other] = [(); 3].map(|()| bench.connect(7));
    let mut open = vec![silent, other];
    let end = bench.engine.clock().now() + PATIENCE;
    while !open.is_empty() {
        if bench.call(|system| talking.write(system, b"!")) != Ok(1) {
            return false;
        }
        let until = bench.engine.clock().now() + silence / 8;
        bench.engine.wait(bench.me, silent, until).unwrap();
        match bench.call(|system| talking.read(system, &mut [0; 9])) {
            Ok(1..) | Err(StreamError::WouldBlock) => {}
            _ => return false,
        }
        open.retain(|&stream| bench.call(|system| stream.read(system, &mut [0])) != Ok(0));
        assert!(bench.engine.clock().now() < end, "{architecture}: they are still open");
    }
    true
}

#[test]
fn tcp_echo_sends_back_what_it_gets() {
    let mut bench =
        Bench::new(Architecture::SoftLrp, |engine, until| tcp_echo::serve(engine, until).unwrap());
    let stream = bench.connect(7);
    let sent: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    let (mut written, mut back) = (0, Vec::new());
    let mut buffer = vec![0; 65_536];
    while back.len() < sent.len() {
        let me = bench.me;
        let progress = bench
            .engine
            .enter(me, |system| {
                let before = (written, back.len());
                if let Ok(more) = stream.write(system, &sent[written..(written + 16_384).min(sent.len())]) {
                    written += more;
                }
                match stream.read(system, &mut buffer) {
                    Ok(len) => back.extend_from_slice(&buffer[..len]),
                    Err(StreamError::WouldBlock) => {}
                    Err(error) => panic!("{error}"),
                }
                before != (written, back.len())
            })
            .unwrap();
        if !progress {
            let until = bench.engine.clock().now() + PATIENCE;
            assert_eq!(
                bench.engine.wait_for(me, stream, Kinds::READABLE.union(Kinds::WRITABLE), until).unwrap(),
                Ended::Done,
                "{} came back",
                back.len()
            );
        }
    }
    assert!(back == sent);
}

#[test]
fn dns_answers_what_is_asked_and_nothing_else() {
    let mut bench = Bench::new(Architecture::SoftLrp, |engine, until| dns::serve(engine, until).unwrap());
    let socket = bench.udp();
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend_from_slice(b"\x07example\x03com\x00\x00\x01\x00\x01");
    let answer = bench.ask(socket, 53, &query, |_| true);
    assert_eq!((&answer[..4], answer[7]), (&[0x12, 0x34, 0x85, 0][..], 1));
    assert!(answer.ends_with(&[0, 4, 192, 0, 2, 1]));
    for len in 0..query.len() {
        bench.call(|system| socket.send(system, IpEndpoint::new(SERVER, 53), &query[..len])).unwrap();
    }
    bench.ask(socket, 53, &query, |other| other == answer);
}

#[test]
fn one_thread_waits_for_two_udp_sockets_and_a_listener_at_once() {
    for architecture in Architecture::ALL {
        let (say, said) = mpsc::channel();
        let mut bench = Bench::new(architecture, move |engine, until| {
            three::serve(engine, until, |port| say.send(port).unwrap()).unwrap();
        });
        let socket = bench.udp();
        let heard = |bench: &mut Bench, port: u16| {
            let end = bench.engine.clock().now() + PATIENCE;
            loop {
                if port == 1003 {
                    let _ = bench.call(|system| TcpStream::connect(system, IpEndpoint::new(SERVER, port)));
                } else {
                    bench.call(|system| socket.send(system, IpEndpoint::new(SERVER, port), b"x")).unwrap();
                }
                let until = bench.engine.clock().now() + Duration::from_millis(20);
                bench.engine.run(until, |_| false).unwrap();
                // What was asked for before may still come.
                if said.try_iter().any(|came| came == port) {
                    return;
                }
                assert!(bench.engine.clock().now() < end, "{architecture}: nothing came for {port}");
            }
        };
        for port in [1001, 1003, 1002, 1002, 1001, 1003] {
            heard(&mut bench, port);
        }
    }
}

#[test]
fn somebody_else_s_event_loop_drives_a_host() {
    let (mut near, far) = UnixStream::pair().unwrap();
    let counted = Arc::new(Mutex::new(None));
    let count = Arc::clone(&counted);
    let mut bench = Bench::new(Architecture::SoftLrp, move |engine, _| {
        *count.lock().unwrap() = Some(epoll::serve(engine, far, Instant::NEVER).unwrap());
    });
    let socket = bench.udp();
    for n in 0..100_u32 {
        bench.ask(socket, 7, &n.to_be_bytes(), |answer| answer == n.to_be_bytes());
        // The loop has other things to do, too.
        near.write_all(b"line\n").unwrap();
    }
    drop(near);
    bench.server.take().unwrap().join().unwrap();
    assert!(counted.lock().unwrap().is_some_and(|count| count >= 100));
}

#[test]
fn a_loop_on_mio_drives_a_host_next_to_a_socket_of_the_kernel() {
    let kernel = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    kernel.set_nonblocking(true).unwrap();
    let near = kernel.local_addr().unwrap();
    let counted = Arc::new(Mutex::new(None));
    let count = Arc::clone(&counted);
    let mut bench = Bench::new(Architecture::SoftLrp, move |engine, _| {
        let kernel = ::mio::net::UdpSocket::from_std(kernel);
        *count.lock().unwrap() = Some(mio::serve(engine, kernel).unwrap());
    });
    let (socket, asker) = (bench.udp(), std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    asker.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    for n in 0..100_u32 {
        bench.ask(socket, 7, &n.to_be_bytes(), |answer| answer == n.to_be_bytes());
        asker.send_to(&n.to_be_bytes(), near).unwrap();
        let mut answer = [0; 8];
        assert_eq!(asker.recv(&mut answer).unwrap(), 4);
        assert_eq!(answer[..4], n.to_be_bytes());
    }
    asker.send_to(b"", near).unwrap();
    bench.server.take().unwrap().join().unwrap();
    assert!(matches!(*counted.lock().unwrap(), Some([host, 100]) if host >= 100));
}

#[test]
fn a_thread_that_waits_sleeps() {
    let (near, _far) = pair(Options::new("client", 1), Options::new("server", 2));
    let mut engine = engine(Architecture::SoftLrp, near, 1);
    let me = engine.attach("sleeper");
    let socket = engine.enter(me, |system| UdpSocket::bind(system, None, 7)).unwrap().unwrap();
    let begun = engine.clock().now();
    let ended = engine.wait(me, socket, begun + Duration::from_millis(300)).unwrap();
    assert_eq!(ended, Ended::Time);
    assert!(engine.halted() > Duration::from_millis(200), "halted for {:?}", engine.halted());
}

#[test]
fn nobody_enters_who_is_not_attached() {
    let mut engine = Engine::new(Host::new(Config::default()).unwrap(), Clock::start()).unwrap();
    assert!(engine.enter(ProcessId(99), |_| ()).is_err());
    let daemon = engine.host().processes().next().unwrap().0;
    assert!(engine.enter(daemon, |_| ()).is_err(), "a process of the host's own");
    let me = engine.attach("me");
    let socket = engine.enter(me, |system| UdpSocket::bind(system, None, 7)).unwrap().unwrap();
    let other = engine.attach("other");
    let stolen = engine.enter(other, |system| socket.receive(system)).unwrap();
    assert_eq!(stolen.err(), Some(BadDescriptor::NotOpen.into()), "another's socket");
    let now = engine.clock().now();
    engine.host_mut().kill(me, now);
    assert!(engine.enter(me, |_| ()).is_err());
    assert!(
        engine.enter(other, |system| UdpSocket::bind(system, None, 7)).unwrap().is_ok(),
        "its sockets are closed"
    );
}

#[test]
fn errors_of_the_door_say_whose_fault_it_was() {
    let fault = |device: &str, address: &str| Engine::open(device, address).unwrap_err().fault();
    for (device, address) in [
        ("cable", "10.77.0.2/24"),
        ("tap", "10.77.0.2/24"),
        ("nonsense:1", "10.77.0.2/24"),
        ("tap:keel9", "10.77.0.2"),
        ("packet:nosuchdevice", "10.77.0.2/24"),
    ] {
        assert_eq!(fault(device, address), Some(Fault::Misuse), "{device} {address}");
    }
    let mut engine = Engine::new(Host::new(Config::default()).unwrap(), Clock::start()).unwrap();
    let refused = engine.enter(ProcessId(99), |_| ()).unwrap_err();
    assert_eq!((refused.fault(), Error::from(refused).fault()), (Fault::Misuse, Some(Fault::Misuse)));
    let waited = engine.wait(ProcessId(99), UdpSocket::from(Fd(0)), Instant::NEVER).unwrap_err();
    assert_eq!(waited.fault(), Some(Fault::Misuse));
    let me = engine.attach("me");
    let mut fault = |call: &dyn Fn(&mut System<'_>) -> Result<(), Error>| {
        engine.enter(me, |system| call(system)).unwrap().unwrap_err().fault()
    };
    let nowhere = IpEndpoint::new(SERVER, 7);
    let unreachable = |system: &mut System<'_>| {
        TcpStream::connect(system, nowhere)?;
        Ok(())
    };
    assert_eq!(fault(&unreachable), Some(Fault::Network));
    let not_open = |system: &mut System<'_>| {
        UdpSocket::from(Fd(9)).receive(system)?;
        Ok(())
    };
    assert_eq!(fault(&not_open), Some(Fault::Misuse));
    let nothing = |system: &mut System<'_>| {
        let socket = UdpSocket::bind(system, None, 0)?;
        socket.receive(system)?;
        Ok(())
    };
    assert_eq!(fault(&nothing), None, "nothing has come");
    let limited = Host::new(Config { memory_pkts: 1, ..Config::default() }).unwrap_err();
    assert_eq!(Error::from(limited).fault(), Some(Fault::Limit));
}
