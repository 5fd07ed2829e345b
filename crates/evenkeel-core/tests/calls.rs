//! The calls of programs, each between two hosts on a cable: their effects and their errors.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::num::NonZeroU8;
use std::sync::Arc;

use common::two::{A, B, PORT, Two, address};
use evenkeel_core::capture::Capture;
use evenkeel_core::host::{Config, System};
use evenkeel_core::receive::Architecture;
use evenkeel_core::screen::Verdict;
use evenkeel_core::socket::{
    BadDescriptor, BindError, ConnectError, ConnectOptions, DupError, Event, Fault, Fd, FdSets, Interest,
    Kinds, ListenError, PollEntry, ReceiveError, RegisterError, SendError, StreamError, Trigger, UdpOption,
};
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::{
    CaptureSocket, EventQueue, Screen, TcpListener, TcpStream, Timer, UdpSocket, UserEvent,
};
use evenkeel_core::tcp::connection::{Error, Info, StreamOption};
use evenkeel_core::tcp::{self, Counter, EndpointConfig, ListenerConfig, State};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr};

/// A segment as it left, or came.
#[derive(Debug, Clone)]
struct Seen {
    at: Instant,
    sent: bool,
    dscp: u8,
    ttl: u8,
    flags: u8,
    /// The maximum segment size, if it is the first option.
    mss: Option<u16>,
    payload: usize,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;

impl Seen {
    fn parse(at: Instant, sent: bool, frame: &[u8]) -> Option<Self> {
        if frame.get(12..14)? != [8, 0] || *frame.get(23)? != 6 {
            return None;
        }
        let header = usize::from(frame.get(46)? >> 4) * 4;
        let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let mss = match frame.get(54..58) {
            Some(&[2, 4, a, b]) if header > 20 => Some(u16::from_be_bytes([a, b])),
            _ => None,
        };
        let (dscp, ttl, flags) = (frame[15] >> 2, frame[22], frame[47]);
        Some(Self { at, sent, dscp, ttl, flags, mss, payload: total - 20 - header })
    }
}

impl Two {
    fn info(&mut self, side: usize, stream: TcpStream) -> Info {
        self.call(side, |system| stream.info(system)).unwrap().1
    }

    fn capture(&mut self, side: usize) -> CaptureSocket {
        let wanted = Capture { sent_too: true, feedback: false, ..Capture::default() };
        self.call(side, |system| CaptureSocket::open(system, wanted)).unwrap()
    }

    /// Returns the segments captured since the last call.
    fn seen(&mut self, side: usize, capture: CaptureSocket) -> Vec<Seen> {
        self.call(side, |system| {
            let mut all = Vec::new();
            while let Ok(captured) = capture.front(system) {
                all.extend(Seen::parse(captured.at, captured.sent, captured.bytes));
                capture.pop(system);
            }
            all
        })
    }

    fn payloads_sent(&mut self, side: usize, capture: CaptureSocket) -> Vec<usize> {
        let seen = self.seen(side, capture);
        seen.iter().filter(|seen| seen.sent && seen.payload > 0).map(|seen| seen.payload).collect()
    }
}

const NOT_OPEN: BadDescriptor = BadDescriptor::NotOpen;
const OTHER_KIND: BadDescriptor = BadDescriptor::OtherKind;

/// The number of calls that need a certain kind of descriptor.
const CALLS: usize = 36;

/// Makes every call that needs a kind of descriptor other than `kind` with this one, and returns their
/// errors.
fn refusals(system: &mut System<'_>, id: Fd, kind: &str) -> Vec<(&'static str, BadDescriptor)> {
    let to = IpEndpoint::new(address(B), PORT);
    let receive = |error: Option<ReceiveError>| match error {
        Some(ReceiveError::BadDescriptor(bad)) => Some(bad),
        _ => None,
    };
    let stream = |error: Option<StreamError>| match error {
        Some(StreamError::BadDescriptor(bad)) => Some(bad),
        _ => None,
    };
    let mut said = Vec::new();
    let mut says = |of: &str, call, bad: Option<BadDescriptor>| {
        if of != kind {
            said.push((call, bad.unwrap_or_else(|| panic!("{call} of a descriptor of {kind}"))));
        }
    };
    if kind != "udp" {
        says("udp", "receive", receive(UdpSocket::from(id).receive(system).err()));
        let joined = UdpSocket::from(id).join(system, IpAddress::v4(239, 0, 0, 1)).err();
        says("udp", "join", if let Some(BindError::BadDescriptor(bad)) = joined { Some(bad) } else { None });
        let sent = UdpSocket::from(id).send(system, to, b"").err();
        says("udp", "send", if let Some(SendError::BadDescriptor(bad)) = sent { Some(bad) } else { None });
        let refused = UdpSocket::from(id).connect(system, to).err();
        let bad = if let Some(SendError::BadDescriptor(bad)) = refused { Some(bad) } else { None };
        says("udp", "connect", bad);
        says("udp", "take_error", UdpSocket::from(id).take_error(system).err());
        says("udp", "set", UdpSocket::from(id).set(system, UdpOption::Broadcast(true)).err());
        says("udp", "hop_limit", UdpSocket::from(id).hop_limit(system).err());
    }
    if kind != "screen" {
        says("screen", "screen", receive(Screen::from(id).decide(system, |_| Verdict::Pass).err()));
        says("screen", "show", receive(Screen::from(id).show(system, |_| ()).err()));
        says("screen", "judge", receive(Screen::from(id).judge(system, Verdict::Pass).err()));
    }
    if kind != "capture" {
        says("capture", "captured", receive(CaptureSocket::from(id).front(system).err()));
        says("capture", "capture_counters", CaptureSocket::from(id).counters(system).err());
    }
    if kind != "listener" {
        says("listener", "accept", receive(TcpListener::from(id).accept(system).err()));
        says("listener", "set_hop_limit", TcpListener::from(id).set_hop_limit(system, NonZeroU8::MIN).err());
    }
    if kind != "events" {
        says("events", "next_event", receive(EventQueue::from(id).next(system).err()));
        says("events", "take_events", EventQueue::from(id).take(system, &mut [Event::default()]).err());
        let register = |error: Option<RegisterError>| match error {
            Some(RegisterError::BadDescriptor(bad)) => Some(bad),
            _ => None,
        };
        let interest = Interest { events: Kinds::READABLE, trigger: Trigger::Level, token: 0 };
        says("events", "add", register(EventQueue::from(id).add(system, id, interest).err()));
        says("events", "modify", register(EventQueue::from(id).modify(system, id, interest).err()));
        says("events", "delete", register(EventQueue::from(id).delete(system, id).err()));
    }
    if kind != "timer" {
        says("timer", "set_timer", Timer::from(id).set(system, Instant::NEVER, None).err());
        says("timer", "expirations", receive(Timer::from(id).expirations(system).err()));
    }
    if kind != "user event" {
        says("user event", "post", UserEvent::from(id).post(system, 1).err());
        says("user event", "posted", receive(UserEvent::from(id).posted(system).err()));
    }
    if kind != "stream" {
        says("stream", "read", stream(TcpStream::from(id).read(system, &mut [0]).err()));
        says("stream", "peek_stream", stream(TcpStream::from(id).peek(system, &mut [0]).err()));
        says("stream", "write", stream(TcpStream::from(id).write(system, b"x").err()));
        says("stream", "write_more", stream(TcpStream::from(id).write_more(system, b"x").err()));
        says("stream", "room", stream(TcpStream::from(id).room(system).err()));
        says("stream", "take_error", TcpStream::from(id).take_error(system).err());
        says("stream", "shutdown", stream(TcpStream::from(id).shutdown(system).err()));
        says("stream", "shutdown_read", stream(TcpStream::from(id).shutdown_read(system).err()));
        says("stream", "set", stream(TcpStream::from(id).set(system, StreamOption::Nagle(false)).err()));
        says("stream", "set_dscp", stream(TcpStream::from(id).set_dscp(system, 8).err()));
        says("stream", "hop_limit", TcpStream::from(id).hop_limit(system).err());
        says("stream", "stream_info", TcpStream::from(id).info(system).err());
        says("stream", "abort", stream(TcpStream::from(id).abort(system).err()));
    }
    said
}

/// Returns the port of a descriptor taken for a UDP socket, a listener, and a stream.
fn ports(system: &System<'_>, id: Fd) -> [Result<u16, BadDescriptor>; 3] {
    [UdpSocket::from(id).port(system), TcpListener::from(id).port(system), TcpStream::from(id).port(system)]
}

#[test]
fn a_descriptor_that_is_not_the_callers_or_of_another_kind_is_named_as_such() {
    let mut two = Two::new(Architecture::SoftLrp);
    let (stream, _) = two.connected();
    let kinds = two.call(A, |system| {
        [
            ("udp", UdpSocket::bind(system, None, 0).unwrap().fd()),
            ("listener", TcpListener::listen(system, None, 0, &ListenerConfig::default()).unwrap().fd()),
            ("stream", stream.fd()),
            ("screen", Screen::open(system, 1).unwrap().fd()),
            ("capture", CaptureSocket::open(system, Capture::default()).unwrap().fd()),
            ("events", EventQueue::of_all(system).unwrap().fd()),
            ("timer", Timer::open(system).unwrap().fd()),
            ("user event", UserEvent::open(system).unwrap().fd()),
        ]
    });
    let now = two.now;
    let thief = two.hosts[A].attach("thief", 0, now);
    for (kind, id) in kinds {
        let wrong = two.call(A, |system| refusals(system, id, kind));
        assert!(wrong.len() >= 10 && wrong.iter().all(|&(_, bad)| bad == OTHER_KIND), "{kind}: {wrong:?}");
        let another = two.hosts[A].enter(thief, now, |system| refusals(system, id, "another's")).unwrap();
        assert!(
            another.len() == CALLS && another.iter().all(|&(_, bad)| bad == NOT_OPEN),
            "{kind}: {another:?}"
        );
        let stolen = two.hosts[A].enter(thief, now, |system| ports(system, id)).unwrap();
        assert_eq!(stolen, [Err(NOT_OPEN); 3], "{kind}");
        for (of, port) in
            ["udp", "listener", "stream"].into_iter().zip(two.call(A, |system| ports(system, id)))
        {
            assert_eq!(port.err(), (of != kind).then_some(OTHER_KIND), "{kind} as {of}");
        }
        // All that the thief could have done to it: it is still open.
        assert!(two.hosts[A].enter(thief, now, |system| system.close(id)).is_ok());
        assert_eq!(two.call(A, |system| refusals(system, id, kind)), wrong);
        two.call(A, |system| system.close(id));
        let closed = two.call(A, |system| refusals(system, id, "closed"));
        assert!(
            closed.len() == CALLS && closed.iter().all(|&(_, bad)| bad == NOT_OPEN),
            "{kind}: {closed:?}"
        );
    }
    assert_eq!((NOT_OPEN.fault(), OTHER_KIND.fault()), (Fault::Misuse, Fault::Misuse));
}

#[test]
fn calls_that_take_any_kind_of_descriptor_say_that_one_is_not_open() {
    let mut two = Two::new(Architecture::SoftLrp);
    two.call(A, |system| {
        let (queue, event) = (EventQueue::open(system).unwrap(), UserEvent::open(system).unwrap());
        let no = Fd(77);
        let bad = DupError::BadDescriptor(NOT_OPEN);
        assert_eq!((system.dup(no), system.dup_from(no, Fd(9))), (Err(bad), Err(bad)));
        assert_eq!((system.dup2(no, event.fd()), system.dup2(no, no)), (Err(bad), Err(bad)));
        assert_eq!((bad.fault(), DupError::TooManyOpen.fault()), (Fault::Misuse, Fault::Limit));
        let mut sets = FdSets::new();
        sets.read.extend([event.fd().0, no.0]);
        let mut found = sets.clone();
        assert_eq!(system.select(&sets, &mut found), Err(NOT_OPEN));
        assert!(found.is_empty());
        let mut entries = [event, UserEvent::from(no)].map(|fd| PollEntry::new(fd.fd().0, Kinds::READABLE));
        assert_eq!(system.poll(&mut entries), 1);
        assert_eq!(entries.map(|entry| entry.ready), [Kinds::NONE, Kinds::INVALID]);
        let interest = Interest { events: Kinds::READABLE, trigger: Trigger::Level, token: 0 };
        let bad = Err(RegisterError::BadDescriptor(NOT_OPEN));
        assert_eq!(
            (queue.add(system, no, interest), EventQueue::from(no).add(system, event, interest)),
            (bad, bad)
        );
        assert_eq!((queue.modify(system, no, interest), queue.delete(system, no)), (bad, bad));
        assert_eq!(queue.modify(system, event, interest), Err(RegisterError::NotAdded));
        assert_eq!(queue.delete(system, event), Err(RegisterError::NotAdded));
        assert_eq!(queue.add(system, event, interest), Ok(()));
        assert_eq!(queue.add(system, event, interest), Err(RegisterError::AlreadyAdded));
        assert_eq!(queue.add(system, queue, interest), Err(RegisterError::Itself));
        assert_eq!(RegisterError::Itself.fault(), Fault::Misuse);
        assert_eq!(queue.take(system, &mut []), Err(OTHER_KIND));
        let ready = system.wait(no, Kinds::READABLE, std::task::Waker::noop());
        assert_eq!(ready, Kinds::INVALID, "the next call says so");
        assert_eq!(system.socket(no), Err(NOT_OPEN));
        system.close(no);
        assert_eq!(system.dup(event), Ok(Fd(2).into()), "nothing of it has taken a number, or closed one");
    });
}

#[test]
fn errors_of_binding_and_sending_say_whose_fault_it_was() {
    let small = |pkts| Config { memory_pkts: pkts, ..Config::default() };
    let mut two = Two::with(|_| Config::default());
    let elsewhere = IpAddress::v4(10, 9, 9, 9);
    two.call(A, |system| {
        let socket = UdpSocket::bind(system, None, PORT).unwrap();
        let refused = |address, port, system: &mut System<'_>| {
            let error = UdpSocket::bind(system, address, port).unwrap_err();
            (error, error.fault())
        };
        assert_eq!(refused(None, PORT, system), (BindError::InUse, Fault::Misuse));
        assert_eq!(refused(Some(elsewhere), 1, system), (BindError::NotLocal, Fault::Misuse));
        let joined = socket.join(system, address(A)).unwrap_err();
        assert_eq!((joined, joined.fault()), (BindError::NotMulticast, Fault::Misuse));
        let left = socket.leave(system, IpAddress::v4(239, 1, 2, 3)).unwrap_err();
        assert_eq!((left, left.fault()), (BindError::NotJoined, Fault::Misuse));
        let unsent = |to, len, system: &mut System<'_>| {
            let error = socket.send(system, IpEndpoint::new(to, 9), &vec![0; len]).unwrap_err();
            (error, error.fault())
        };
        assert_eq!(unsent(elsewhere, 1, system), (SendError::NoRoute, Fault::Network));
        assert_eq!(unsent(address(A), 1, system), (SendError::Loopback, Fault::Misuse));
        assert_eq!(unsent(address(B), 70_000, system), (SendError::TooBig, Fault::Misuse));
        let mut most = 0;
        let full = loop {
            match socket.send(system, IpEndpoint::new(IpAddress::v4(10, 0, 0, 255), 9), &[0; 60_000]) {
                Ok(()) => most += 1,
                Err(error) => break error,
            }
            assert!(most < 10_000, "there is no limit");
        };
        assert_eq!((full, full.fault()), (SendError::NoBuffer, Fault::Limit));
    });
    let mut two = Two::with(|_| small(4_000));
    let error = two.call(A, |system| {
        (0..100_000).find_map(|_| UdpSocket::bind(system, None, 0).err()).expect("there is a limit")
    });
    assert!(matches!(error, BindError::NoMemory(_)) && error.fault() == Fault::Limit, "{error}");
    let error = two
        .call(A, |system| CaptureSocket::open(system, Capture { limit_pkts: 9_000, ..Capture::default() }));
    assert_eq!(error.map_err(|error| error.fault()), Err(Fault::Limit));
}

#[test]
fn errors_of_listening_and_connecting_say_whose_fault_it_was() {
    let tcp = |ports| EndpointConfig { ports, connections: 3, ..EndpointConfig::default() };
    let mut two = Two::with(|_| Config { tcp: tcp(50_000..=50_001), ..Config::default() });
    two.listen();
    let elsewhere = IpAddress::v4(10, 9, 9, 9);
    let config = ListenerConfig::default();
    let deaf = |side: usize, address, port, two: &mut Two| {
        let error = two.call(side, |system| TcpListener::listen(system, address, port, &config)).unwrap_err();
        (error, error.fault())
    };
    assert_eq!(deaf(B, None, PORT, &mut two), (ListenError::InUse, Fault::Misuse));
    assert_eq!(deaf(B, Some(elsewhere), 8, &mut two), (ListenError::NotLocal, Fault::Misuse));
    let ports: Vec<_> = (0..2)
        .map(|_| {
            two.call(B, |system| {
                TcpListener::listen(system, None, 0, &config).map(|l| l.port(system).unwrap())
            })
        })
        .collect();
    let mut ports: Vec<u16> = ports.into_iter().map(Result::unwrap).collect();
    ports.sort_unstable();
    assert_eq!(ports, [50_000, 50_001], "a port of its own each");
    assert_eq!(deaf(B, None, 0, &mut two), (ListenError::NoPort, Fault::Limit));

    let refused = |to, port, from: ConnectOptions<'_>, two: &mut Two| {
        let error = two
            .call(A, |system| TcpStream::connect_with(system, IpEndpoint::new(to, port), &from))
            .unwrap_err();
        (error, error.fault())
    };
    let from = |address, port| ConnectOptions { address, port, ..ConnectOptions::default() };
    let any = from(None, 0);
    for to in [IpAddress::v4(239, 0, 0, 1), IpAddress::v4(255, 255, 255, 255), IpAddress::v4(10, 0, 0, 255)] {
        assert_eq!(refused(to, 7, any, &mut two), (ConnectError::NotUnicast, Fault::Misuse), "{to}");
    }
    assert_eq!(refused(address(B), 0, any, &mut two), (ConnectError::NotUnicast, Fault::Misuse));
    assert_eq!(refused(address(A), 7, any, &mut two), (ConnectError::Loopback, Fault::Misuse));
    assert_eq!(refused(elsewhere, 7, any, &mut two), (ConnectError::NoRoute, Fault::Network));
    let foreign = from(Some(elsewhere), 0);
    assert_eq!(refused(address(B), 7, foreign, &mut two), (ConnectError::NotLocal, Fault::Misuse));
    for _ in 0..2 {
        two.call(A, |system| TcpStream::connect(system, IpEndpoint::new(address(B), PORT))).unwrap();
    }
    let taken = from(None, 50_000);
    assert_eq!(refused(address(B), 7, taken, &mut two), (ConnectError::InUse, Fault::Misuse));
    assert_eq!(refused(address(B), 7, any, &mut two), (ConnectError::NoPort, Fault::Limit));
    two.call(A, |system| TcpStream::connect(system, IpEndpoint::new(address(B), 8))).unwrap();
    assert_eq!(refused(address(B), 9, any, &mut two), (ConnectError::Full, Fault::Limit));
}

#[test]
fn errors_of_streams_say_whose_fault_it_was_and_that_waiting_is_nobodys() {
    let mut two = Two::new(Architecture::SoftLrp);
    let (ours, theirs) = two.connected();
    let waiting = two.read(A, ours).unwrap_err();
    assert_eq!((waiting, waiting.fault()), (StreamError::WouldBlock, None));
    let empty =
        two.call(A, |system| UdpSocket::bind(system, None, 0).map(|socket| socket.receive(system))).unwrap();
    assert_eq!(empty.map_err(|error| error.fault()).map(|_| ()), Err(None));
    two.call(A, |system| ours.shutdown(system)).unwrap();
    let shut = two.call(A, |system| ours.write(system, b"x")).unwrap_err();
    assert_eq!((shut, shut.fault()), (StreamError::Closed, Some(Fault::Misuse)));
    assert_eq!(two.call(B, |system| theirs.abort(system)), Ok(()));
    assert_eq!(two.call(B, |system| theirs.abort(system)), Err(NOT_OPEN.into()), "abort closes");
    two.settle();
    let reset = StreamError::Failed(Error::Reset);
    assert_eq!(reset.fault(), Some(Fault::Network));
    // It is told by every call until it is taken, once.
    assert_eq!(two.read(A, ours), Err(reset));
    two.call(A, |system| {
        assert_eq!(ours.write(system, b"x"), Err(reset));
        assert_eq!(ours.room(system), Err(reset));
        assert_eq!(ours.set(system, StreamOption::Nagle(false)), Err(reset));
        assert_eq!(ours.shutdown(system), Err(reset));
        assert_eq!(ours.shutdown_read(system), Err(reset));
        assert_eq!(ours.set_dscp(system, 8), Err(reset));
        assert_eq!(ours.take_error(system), Ok(Some(Error::Reset)));
        assert_eq!(ours.take_error(system), Ok(None));
        assert_eq!(ours.read(system, &mut [0]), Err(StreamError::Closed));
        assert_eq!(ours.shutdown(system), Err(StreamError::Closed));
        assert_eq!(ours.set(system, StreamOption::Nagle(false)), Err(StreamError::Closed));
        assert_eq!(ours.abort(system), Err(StreamError::Closed), "it was over before");
        assert_eq!(ours.info(system).err(), Some(NOT_OPEN), "and is closed all the same");
    });
    let nobody = two.call(A, |system| TcpStream::connect(system, IpEndpoint::new(address(B), 9))).unwrap();
    two.settle();
    assert_eq!(two.read(A, nobody), Err(StreamError::Failed(Error::Refused)));
}

#[test]
fn what_is_accepted_has_the_options_of_its_listener() {
    for architecture in Architecture::ALL {
        let mut two = Two::new(architecture);
        let options = Arc::new(tcp::Config {
            mss_max: 700,
            sack: false,
            timestamps: false,
            send_buffer_initial: 5_000,
            send_buffer_max: 5_000,
            receive_buffer_initial: 9_000,
            receive_buffer_max: 9_000,
            ..tcp::Config::default()
        });
        let config = ListenerConfig::default();
        let listener =
            two.call(B, |system| TcpListener::listen_with(system, None, PORT, &config, &options)).unwrap();
        let (ours, theirs) = two.connected_by(listener, &ConnectOptions::default());
        let (a, b) = (two.info(A, ours), two.info(B, theirs));
        assert_eq!((a.mss, b.mss), (700, 700), "{architecture}");
        assert_eq!((a.sack, b.sack, a.timestamps), (false, false, false), "{architecture}");
        assert_eq!((b.receive_limit, b.send_limit, a.send_window), (9_000, 5_000, 9_000), "{architecture}");
        assert_eq!(two.write(B, theirs, &[0; 100_000]), 5_000, "{architecture}");
        // Others are as the host's are.
        let port = 8;
        let plain = two.call(B, |system| TcpListener::listen(system, None, port, &config)).unwrap();
        let other =
            two.call(A, |system| TcpStream::connect(system, IpEndpoint::new(address(B), port))).unwrap();
        two.settle();
        assert!(two.call(B, |system| plain.accept(system)).is_ok());
        assert!(two.info(A, other).mss > 1_400 && two.info(A, other).sack, "{architecture}");
    }
}

#[test]
fn a_stream_is_opened_from_where_it_shall_be_with_options_of_its_own_and_data() {
    for architecture in Architecture::ALL {
        let mut two = Two::new(architecture);
        let listener = two.listen();
        let now = two.now;
        let second = IpCidr::new(IpAddress::v4(10, 0, 0, 77), 24);
        two.hosts[A].add_address(evenkeel_core::id::InterfaceId(0), second, now);
        let capture = two.capture(A);
        let stream = Arc::new(tcp::Config { mss_max: 600, sack: false, ..tcp::Config::default() });
        let options = ConnectOptions {
            address: Some(second.address()),
            port: 1_234,
            stream: Some(&stream),
            data: Some(b"early"),
        };
        let (ours, theirs) = two.connected_by(listener, &options);
        let (tuple, info) = two.call(A, |system| ours.info(system)).unwrap();
        assert_eq!(tuple.local, (second.address(), 1_234).into(), "{architecture}");
        assert_eq!(two.call(A, |system| ours.port(system)), Ok(1_234));
        // Less the time stamps that it has.
        assert_eq!((info.mss, info.sack), (588, false), "{architecture}");
        assert_eq!(two.info(B, theirs).mss, 588, "{architecture}: as its SYN said");
        let seen = two.seen(A, capture);
        let syn = seen.iter().find(|seen| seen.sent && seen.flags == SYN).unwrap();
        assert_eq!(syn.mss, Some(600), "{architecture}");
        assert_eq!(two.read(B, theirs).unwrap(), b"early", "{architecture}");
    }
}

#[test]
fn what_is_set_in_the_step_that_opens_a_stream_is_in_its_syn() {
    let mut two = Two::new(Architecture::SoftLrp);
    two.listen();
    let capture = two.capture(A);
    two.call(A, |system| {
        let stream = TcpStream::connect(system, IpEndpoint::new(address(B), PORT)).unwrap();
        stream.set(system, StreamOption::MssMax(555)).unwrap();
        stream.set_dscp(system, 46).unwrap();
    });
    two.settle();
    let seen = two.seen(A, capture);
    let syn = seen.iter().find(|seen| seen.sent && seen.flags == SYN).unwrap();
    assert_eq!((syn.mss, syn.dscp), (Some(555), 46));
}

/// Returns a limit that is not zero.
fn hops(limit: u8) -> NonZeroU8 {
    NonZeroU8::new(limit).unwrap()
}

/// SYN-ACKs and resets have it, too: a peer that demands 255 gets nothing else (RFC 5082).
#[test]
fn every_segment_has_the_hop_limit_of_its_stream_and_of_the_listener() {
    for architecture in Architecture::ALL {
        let mut two = Two::new(architecture);
        let captures = [A, B].map(|side| two.capture(side));
        let listener = two.listen();
        two.call(B, |system| {
            assert_eq!(listener.hop_limit(system), Ok(64));
            listener.set_hop_limit(system, hops(255)).unwrap();
            assert_eq!(listener.hop_limit(system), Ok(255));
        });
        let to = IpEndpoint::new(address(B), PORT);
        let ours = two.call(A, |system| {
            let stream = TcpStream::connect(system, to).unwrap();
            assert_eq!(stream.hop_limit(system), Ok(64));
            stream.set(system, StreamOption::HopLimit(hops(3))).unwrap();
            assert_eq!(stream.hop_limit(system), Ok(3));
            stream
        });
        two.settle();
        let (theirs, _) = two.call(B, |system| listener.accept(system)).unwrap();
        assert_eq!(two.call(B, |system| theirs.hop_limit(system)), Ok(255), "{architecture}");
        two.write(A, ours, b"question");
        two.write(B, theirs, b"answer");
        two.settle();
        two.call(B, |system| theirs.abort(system)).unwrap();
        two.settle();
        for (side, limit) in [(A, 3), (B, 255)] {
            let seen = two.seen(side, captures[side]);
            let sent: Vec<_> = seen.iter().filter(|seen| seen.sent).collect();
            assert!(sent.len() >= 3, "{architecture}");
            assert!(sent.iter().all(|seen| seen.ttl == limit), "{architecture}: {sent:?}");
        }
        // A segment for a closed port is answered on behalf of nobody.
        two.call(A, |system| TcpStream::connect(system, IpEndpoint::new(address(B), 99))).unwrap();
        two.settle();
        let seen = two.seen(B, captures[B]);
        assert!(
            seen.iter().any(|seen| seen.sent && seen.flags & RST != 0 && seen.ttl == 64),
            "{architecture}"
        );
    }
}

#[test]
fn a_datagram_has_the_hop_limit_of_its_socket_unless_it_is_for_a_group() {
    let mut two = Two::new(Architecture::SoftLrp);
    let capture = two.capture(A);
    let group = IpAddress::v4(239, 1, 2, 3);
    two.call(A, |system| {
        let socket = UdpSocket::bind(system, None, PORT).unwrap();
        assert_eq!(socket.hop_limit(system), Ok(64));
        for (limit, to) in [(None, address(B)), (Some(7), address(B)), (None, group), (Some(255), address(B))]
        {
            if let Some(limit) = limit {
                socket.set(system, UdpOption::HopLimit(hops(limit))).unwrap();
                assert_eq!(socket.hop_limit(system), Ok(limit));
            }
            socket.send(system, IpEndpoint::new(to, PORT), b"x").unwrap();
        }
        // In fragments.
        socket.send(system, IpEndpoint::new(address(B), PORT), &[0; 3_000]).unwrap();
    });
    two.settle();
    let mut limits = two.call(A, |system| {
        let mut limits = Vec::new();
        while let Ok(captured) = capture.front(system) {
            if captured.sent && captured.bytes[12..14] == [8, 0] && captured.bytes[23] == 17 {
                limits.push(captured.bytes[22]);
            }
            capture.pop(system);
        }
        limits
    });
    // That to the group has not waited for a neighbour.
    limits.sort_unstable();
    assert_eq!(limits, [1, 7, 64, 255, 255, 255, 255]);
}

#[test]
fn sockets_with_an_address_in_common_conflict_and_those_of_two_families_do_not() {
    let all_v4 = Some(IpAddress::v4(0, 0, 0, 0));
    let all_v6 = Some(IpAddress::v6(0, 0, 0, 0, 0, 0, 0, 0));
    let one = Some(address(A));
    let places = [None, all_v4, all_v6, one];
    let conflicts = |first, second| {
        first == second
            || ![(all_v6, one), (one, all_v6)].contains(&(first, second))
                && ![(all_v4, all_v6), (all_v6, all_v4)].contains(&(first, second))
    };
    let config = ListenerConfig::default();
    for (first, second) in places.iter().flat_map(|&first| places.map(|second| (first, second))) {
        let mut two = Two::new(Architecture::SoftLrp);
        two.call(A, |system| {
            let socket = UdpSocket::bind(system, first, PORT).unwrap();
            let listener = TcpListener::listen(system, first, PORT, &config).unwrap();
            let (bound, listens) = (
                UdpSocket::bind(system, second, PORT).err(),
                TcpListener::listen(system, second, PORT, &config).err(),
            );
            let expected = conflicts(first, second);
            assert_eq!(bound, expected.then_some(BindError::InUse), "{first:?} and {second:?}");
            assert_eq!(listens, expected.then_some(ListenError::InUse), "{first:?} and {second:?}");
            system.close(socket);
            system.close(listener);
            if expected {
                UdpSocket::bind(system, second, PORT).unwrap();
                TcpListener::listen(system, second, PORT, &config).unwrap();
            }
        });
    }
}

#[test]
fn a_socket_that_may_not_broadcast_sends_to_single_hosts_and_groups() {
    let mut two = Two::new(Architecture::SoftLrp);
    two.call(A, |system| {
        let socket = UdpSocket::bind(system, None, PORT).unwrap();
        let send = |system: &mut System<'_>, to| socket.send(system, IpEndpoint::new(to, 9), b"x");
        let broadcasts = [IpAddress::v4(255, 255, 255, 255), IpAddress::v4(10, 0, 0, 255)];
        for to in broadcasts {
            assert_eq!(send(system, to), Ok(()), "at first it may");
        }
        socket.set(system, UdpOption::Broadcast(false)).unwrap();
        for to in broadcasts {
            // Also with a route that was just used.
            assert_eq!([send(system, to), send(system, to)], [Err(SendError::Broadcast); 2]);
            assert_eq!(socket.connect(system, IpEndpoint::new(to, 9)), Err(SendError::Broadcast));
        }
        assert_eq!([address(B), IpAddress::v4(239, 1, 2, 3)].map(|to| send(system, to)), [Ok(()); 2]);
        let other = IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, 2);
        let bound = UdpSocket::bind(system, Some(IpAddress::v4(0, 0, 0, 0)), 0).unwrap();
        assert_eq!(bound.send(system, IpEndpoint::new(other, 9), b"x"), Err(SendError::Family));
    });
}

#[test]
fn no_stream_gets_a_window_that_its_channel_cannot_hold_whatever_its_options_are() {
    let mut two = Two::new(Architecture::SoftLrp);
    let most = Config::of(Architecture::SoftLrp).window_max().unwrap();
    let all = 64 << 20;
    let large = Arc::new(tcp::Config {
        receive_buffer_initial: all,
        receive_buffer_max: all,
        ..tcp::Config::default()
    });
    let config = ListenerConfig::default();
    let listener =
        two.call(B, |system| TcpListener::listen_with(system, None, PORT, &config, &large)).unwrap();
    let options = ConnectOptions { stream: Some(&large), ..ConnectOptions::default() };
    let (ours, theirs) = two.connected_by(listener, &options);
    assert_eq!(two.info(A, ours).receive_limit, most);
    two.call(A, |system| ours.set(system, StreamOption::ReceiveBuffer(all))).unwrap();
    assert_eq!((two.info(A, ours).receive_limit, two.info(B, theirs).receive_limit), (most, most));
}

#[test]
fn what_is_peeked_at_is_still_there() {
    let mut two = Two::new(Architecture::SoftLrp);
    let (ours, theirs) = two.connected();
    assert_eq!(two.call(B, |system| theirs.peek(system, &mut [0; 9])), Err(StreamError::WouldBlock));
    two.write(A, ours, b"peek");
    two.settle();
    for _ in 0..2 {
        let mut room = [0; 9];
        assert_eq!(two.call(B, |system| theirs.peek(system, &mut room)), Ok(4));
        assert_eq!(&room[..4], b"peek");
    }
    assert_eq!(two.read(B, theirs).unwrap(), b"peek");
    assert_eq!(two.call(B, |system| theirs.peek(system, &mut [0; 9])), Err(StreamError::WouldBlock));
}

#[test]
fn who_shuts_one_direction_down_goes_on_in_the_other() {
    let mut two = Two::new(Architecture::SoftLrp);
    let (ours, theirs) = two.connected();
    two.call(A, |system| ours.shutdown(system)).unwrap();
    two.settle();
    assert_eq!(two.read(B, theirs).unwrap(), b"", "the end");
    two.write(B, theirs, b"still");
    two.settle();
    assert_eq!(two.read(A, ours).unwrap(), b"still");
    two.write(B, theirs, b"unread");
    two.settle();
    two.call(A, |system| ours.shutdown_read(system)).unwrap();
    assert_eq!(two.read(A, ours).unwrap(), b"", "what was not read is thrown away");
    // It is acknowledged all the same, however much comes.
    for _ in 0..50 {
        two.write(B, theirs, &[0; 50_000]);
        two.settle();
    }
    let info = two.info(B, theirs);
    assert_eq!((info.send_queue, info.state), (0, State::CloseWait));
    assert_eq!(two.info(A, ours).receive_queue, 0);
}

#[test]
fn small_writes_wait_for_more_if_they_are_told_that_more_follows() {
    let mut two = Two::new(Architecture::SoftLrp);
    let (ours, theirs) = two.connected();
    two.call(A, |system| ours.set(system, StreamOption::Nagle(false))).unwrap();
    // Nothing is sent again because its acknowledgment is late.
    two.call(B, |system| theirs.set(system, StreamOption::AckDelay(Duration::ZERO))).unwrap();
    let capture = two.capture(A);
    let pieces =
        |two: &mut Two, more: fn(&mut System<'_>, TcpStream, &[u8]) -> Result<usize, StreamError>| {
            for _ in 0..3 {
                assert_eq!(two.call(A, |system| more(system, ours, b"ab")), Ok(2));
                two.run(Duration::from_millis(1));
            }
            assert_eq!(two.call(A, |system| ours.write(system, b"c")), Ok(1));
            two.settle();
            assert_eq!(two.read(B, theirs).unwrap(), b"abababc");
            two.payloads_sent(A, capture)
        };
    assert_eq!(pieces(&mut two, |system, stream, data| stream.write(system, data)), [2, 2, 2, 1]);
    assert_eq!(pieces(&mut two, |system, stream, data| stream.write_more(system, data)), [7]);
    let cork =
        |two: &mut Two, cork| two.call(A, |system| ours.set(system, StreamOption::Cork(cork))).unwrap();
    cork(&mut two, true);
    for _ in 0..3 {
        two.write(A, ours, b"ab");
        two.run(Duration::from_millis(1));
    }
    assert_eq!(two.payloads_sent(A, capture), [], "corked");
    cork(&mut two, false);
    two.settle();
    assert_eq!(two.payloads_sent(A, capture), [6]);
}

#[test]
fn segments_are_no_larger_and_marked_as_it_was_set() {
    let mut two = Two::new(Architecture::SoftLrp);
    let (ours, theirs) = two.connected();
    let capture = two.capture(A);
    two.call(A, |system| {
        ours.set(system, StreamOption::MssMax(300)).unwrap();
        ours.set_dscp(system, 10).unwrap();
    });
    two.write(A, ours, &[0; 1_000]);
    two.settle();
    let seen = two.seen(A, capture);
    let sent: Vec<_> = seen.iter().filter(|seen| seen.sent && seen.payload > 0).collect();
    assert!(sent.len() >= 4 && sent.iter().all(|seen| seen.payload <= 300 && seen.dscp == 10), "{sent:?}");
    assert_eq!(two.read(B, theirs).unwrap().len(), 1_000);
}

#[test]
fn buffers_hold_what_was_set_and_no_more() {
    let mut two = Two::new(Architecture::SoftLrp);
    let (ours, theirs) = two.connected();
    two.call(A, |system| ours.set(system, StreamOption::SendBuffer(3_000))).unwrap();
    two.call(B, |system| theirs.set(system, StreamOption::ReceiveBuffer(100_000))).unwrap();
    assert_eq!(two.call(A, |system| ours.room(system)), Ok(3_000));
    assert_eq!(two.write(A, ours, &[0; 100_000]), 3_000);
    assert_eq!(two.call(A, |system| ours.write(system, b"x")), Err(StreamError::WouldBlock));
    for _ in 0..100 {
        two.settle();
        let _ = two.call(A, |system| ours.write(system, &[0; 3_000]));
    }
    // More than at first.
    let held = two.info(B, theirs).receive_queue;
    assert!((90_000..=100_000).contains(&held), "{held}");
}

#[test]
fn acknowledgments_wait_as_long_as_was_set() {
    let mut two = Two::new(Architecture::SoftLrp);
    let (ours, theirs) = two.connected();
    let capture = two.capture(A);
    let waited = |two: &mut Two, delay| {
        two.call(B, |system| theirs.set(system, StreamOption::AckDelay(delay))).unwrap();
        two.write(A, ours, b"x");
        two.settle();
        two.read(B, theirs).unwrap();
        let seen = two.seen(A, capture);
        let sent = seen.iter().find(|seen| seen.sent && seen.payload > 0).unwrap().at;
        seen.iter().find(|seen| !seen.sent).unwrap().at.since(sent)
    };
    let late = waited(&mut two, Duration::from_millis(200));
    assert!((Duration::from_millis(199)..Duration::from_millis(210)).contains(&late), "{late:?}");
    let soon = waited(&mut two, Duration::ZERO);
    assert!(soon < Duration::from_millis(1), "{soon:?}");
}

#[test]
fn a_closed_stream_waits_for_its_peer_and_an_idle_one_asks_for_it_as_was_set() {
    let mut two = Two::new(Architecture::SoftLrp);
    let (ours, theirs) = two.connected();
    two.call(A, |system| {
        ours.set(system, StreamOption::FinWait2(Duration::from_secs(3))).unwrap();
        system.close(ours);
    });
    two.run(Duration::from_secs(2));
    assert!(!two.hosts[A].tcp().is_empty(), "in FIN-WAIT-2");
    two.run(Duration::from_secs(2));
    assert!(two.hosts[A].tcp().is_empty(), "the default is a minute");
    two.call(B, |system| system.close(theirs));
    let capture = two.capture(A);
    two.settle();
    assert!(two.seen(A, capture).iter().any(|seen| !seen.sent && seen.flags & FIN != 0));

    let mut two = Two::new(Architecture::SoftLrp);
    let (ours, _) = two.connected();
    let keepalive = tcp::connection::Keepalive {
        idle: Duration::from_secs(5),
        interval: Duration::from_secs(1),
        probes_max: 3,
    };
    let capture = two.capture(A);
    two.call(A, |system| ours.set(system, StreamOption::Keepalive(Some(keepalive)))).unwrap();
    two.run(Duration::from_secs(6));
    assert!(two.seen(A, capture).iter().any(|seen| seen.sent), "a probe");
}

#[test]
fn what_is_aborted_is_reset_and_what_is_unacknowledged_too_long_has_failed() {
    let mut two = Two::new(Architecture::SoftLrp);
    let (ours, theirs) = two.connected();
    let capture = two.capture(A);
    two.call(A, |system| ours.abort(system)).unwrap();
    two.settle();
    assert!(two.seen(A, capture).iter().any(|seen| seen.sent && seen.flags & RST != 0));
    assert_eq!(two.read(B, theirs), Err(StreamError::Failed(Error::Reset)));

    let mut two = Two::new(Architecture::SoftLrp);
    let (ours, _) = two.connected();
    two.call(A, |system| ours.set(system, StreamOption::UserTimeout(Duration::from_secs(4)))).unwrap();
    // The other end is another's now: nobody answers.
    assert!(two.hosts[B].remove_address(evenkeel_core::id::InterfaceId(0), IpCidr::new(address(B), 24)));
    two.write(A, ours, b"x");
    two.run(Duration::from_secs(30));
    let failed = two.read(A, ours).unwrap_err();
    assert_eq!(failed.fault(), Some(Fault::Network), "{failed}");
}

#[test]
fn a_listener_that_is_closed_resets_a_connection_whose_last_segment_waits_for_a_call() {
    let mut two = Two::new(Architecture::SoftLrp);
    two.me[B] = two.hosts[B].attach_callers("callers", two.now);
    let listener = two.listen();
    let to = IpEndpoint::new(address(B), PORT);
    let stream = two.call(A, |system| TcpStream::connect(system, to)).unwrap();
    two.settle();
    // This call answers the SYN. The acknowledgment of its answer waits for the next.
    let accepted = two.call(B, |system| listener.accept(system)).map(drop);
    assert_eq!(accepted, Err(ReceiveError::WouldBlock));
    two.settle();
    assert_eq!(two.read(A, stream), Err(StreamError::WouldBlock));
    two.call(B, |system| system.close(listener));
    two.settle();
    assert_eq!(two.read(A, stream), Err(StreamError::Failed(Error::Reset)));
}

#[test]
fn a_call_on_a_listener_answers_a_bounded_part_of_the_requests_that_wait() {
    let mut two = Two::new(Architecture::SoftLrp);
    two.me[B] = two.hosts[B].attach_callers("callers", two.now);
    let listener = two.listen();
    let to = IpEndpoint::new(address(B), PORT);
    for _ in 0..60 {
        two.call(A, |system| TcpStream::connect(system, to)).unwrap();
    }
    two.run(Duration::from_millis(10));
    let answered = |two: &Two| two.hosts[B].tcp().counters().get(Counter::OutSegs);
    let mut answers = Vec::new();
    while answers.last() != Some(&0) {
        let before = answered(&two);
        let accepted = two.call(B, |system| listener.accept(system)).map(drop);
        assert_eq!(accepted, Err(ReceiveError::WouldBlock));
        answers.push(answered(&two) - before);
    }
    assert_eq!(answers, [32, 28, 0]);
}

#[test]
fn a_group_that_was_left_is_not_received_and_another_socket_stays_in_it() {
    let group = IpAddress::v4(239, 1, 2, 3);
    for architecture in [Architecture::Eager, Architecture::SoftLrp, Architecture::NiLrp] {
        let mut two = Two::new(architecture);
        let sender = two.call(A, |system| UdpSocket::bind(system, None, 0)).unwrap();
        let [leaves, stays] = [PORT, PORT + 1].map(|port| {
            two.call(B, |system| {
                let socket = UdpSocket::bind(system, None, port).unwrap();
                socket.join(system, group).unwrap();
                socket
            })
        });
        let received = |two: &mut Two| {
            for port in [PORT, PORT + 1] {
                two.call(A, |system| sender.send(system, IpEndpoint::new(group, port), b"x")).unwrap();
            }
            two.settle();
            [leaves, stays].map(|socket| two.call(B, |system| socket.receive(system)).is_ok())
        };
        assert_eq!(received(&mut two), [true, true]);
        assert_eq!(two.call(B, |system| leaves.leave(system, group)), Ok(()));
        assert_eq!(received(&mut two), [false, true]);
        assert_eq!(two.call(B, |system| leaves.leave(system, group)), Err(BindError::NotJoined));
        two.call(B, |system| leaves.join(system, group)).unwrap();
        assert_eq!(received(&mut two), [true, true]);
        // One that waits to be received is dropped, and accounted for.
        two.call(A, |system| sender.send(system, IpEndpoint::new(group, PORT), b"x")).unwrap();
        two.settle();
        assert_eq!(two.call(B, |system| leaves.leave(system, group)), Ok(()));
        two.settle();
    }
}
