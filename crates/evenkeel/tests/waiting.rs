//! Threads of one's own wait for many descriptors at once: by select, by poll and by an event queue, while
//! frames come from another host, in a thread of its own.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::mpsc;
use std::thread;

use evenkeel::raw::cable::{End, Options, pair};
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::process::System;
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::socket::{
    EventQueue, Fd, FdSets, Interest, Kinds, PollEntry, Trigger, UdpSocket, UserEvent,
};
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wire::{IpAddress, IpCidr, IpEndpoint};
use evenkeel::{Ended, Engine};

const PORTS: [u16; 3] = [1_001, 1_002, 1_003];
const TURNS: usize = 300;
/// Long enough for a machine with other things to do.
const PATIENCE: Duration = Duration::from_secs(30);

fn engine(architecture: Architecture, end: End, last: u8) -> Engine {
    let mut engine = Engine::new(Host::new(Config::of(architecture)).unwrap(), Clock::start()).unwrap();
    engine.add_cable(end, &[IpCidr::new(IpAddress::v4(10, 0, 0, last), 24)]).unwrap();
    engine
}

/// Sends a datagram to each port that it receives from `ports`.
fn sender(mut engine: Engine, ports: &mpsc::Receiver<u16>) {
    let me = engine.attach("sender");
    let socket = engine.enter(me, |system| UdpSocket::bind(system, None, 0)).unwrap().unwrap();
    loop {
        match ports.try_recv() {
            Ok(port) => {
                let to = IpEndpoint::new(IpAddress::v4(10, 0, 0, 2), port);
                engine.enter(me, |system| socket.send(system, to, b"x")).unwrap().unwrap();
            }
            Err(mpsc::TryRecvError::Empty) => {}
            Err(mpsc::TryRecvError::Disconnected) => break,
        }
        // Nobody answers. But the host has to run until the address is resolved, however late the other
        // thread has come to it.
        let until = engine.clock().now() + Duration::from_micros(300);
        engine.wait(me, socket, until).unwrap();
    }
}

/// A way in which a thread finds out which of three sockets is ready, or that it has to wait.
#[derive(Debug, Clone, Copy)]
enum Way {
    Select,
    Poll,
    Queue,
}

fn ready(system: &mut System<'_>, sockets: &[UdpSocket; 3], queue: EventQueue, way: Way) -> Vec<UdpSocket> {
    match way {
        Way::Select => {
            let (mut sets, mut found) = (FdSets::new(), FdSets::new());
            sets.read.extend(sockets.iter().map(|fd| fd.fd().0));
            system.select(&sets, &mut found).unwrap();
            found.read.iter().map(|fd| Fd(fd).into()).collect()
        }
        Way::Poll => {
            let mut entries = sockets.map(|fd| PollEntry::new(fd.fd().0, Kinds::READABLE));
            system.poll(&mut entries);
            entries
                .iter()
                .filter(|entry| entry.ready.is_readable())
                .map(|entry| Fd(entry.fd).into())
                .collect()
        }
        Way::Queue => std::iter::from_fn(|| queue.next(system).ok()).map(|e| UdpSocket::of(&e)).collect(),
    }
}

#[test]
fn a_thread_that_waits_for_many_hears_of_each_datagram() {
    for architecture in [Architecture::SoftLrp, Architecture::NiLrp, Architecture::Polled] {
        let demultiplexes = architecture == Architecture::NiLrp;
        let (near, far) =
            pair(Options::new("sender", 1), Options { demultiplexes, ..Options::new("waiter", 2) });
        let (tell, ports) = mpsc::channel();
        let other = thread::spawn(move || sender(engine(Architecture::SoftLrp, near, 1), &ports));
        let mut engine = engine(architecture, far, 2);
        let me = engine.attach("waiter");
        let (sockets, queue) = engine
            .enter(me, |system| {
                let sockets = PORTS.map(|port| UdpSocket::bind(system, None, port).unwrap());
                let queue = EventQueue::open(system).unwrap();
                for fd in sockets {
                    let interest =
                        Interest { events: Kinds::READABLE, trigger: Trigger::Edge, token: fd.fd().token() };
                    queue.add(system, fd, interest).unwrap();
                }
                (sockets, queue)
            })
            .unwrap();
        for way in [Way::Select, Way::Poll, Way::Queue] {
            for turn in 0..TURNS {
                let nth = turn * 7 % 3;
                tell.send(PORTS[nth]).unwrap();
                loop {
                    let found = engine.enter(me, |system| ready(system, &sockets, queue, way)).unwrap();
                    let received = engine
                        .enter(me, |system| {
                            let all = found.iter().flat_map(|&fd| {
                                std::iter::from_fn(|| fd.receive(system).ok())
                                    .map(move |_| fd)
                                    .collect::<Vec<_>>()
                            });
                            all.collect::<Vec<_>>()
                        })
                        .unwrap();
                    if !received.is_empty() {
                        assert_eq!(received, [sockets[nth]], "{architecture} {way:?}: {turn}");
                        break;
                    }
                    let until = engine.clock().now() + PATIENCE;
                    let ended = match way {
                        Way::Queue => engine.wait(me, queue, until),
                        _ => engine.block(me, until),
                    };
                    assert_eq!(ended.unwrap(), Ended::Done, "{architecture} {way:?}: {turn}");
                }
            }
        }
        drop(tell);
        other.join().unwrap();
    }
}

#[test]
fn a_call_ends_with_its_time_and_one_that_has_found_something_is_over() {
    let (_near, far) = pair(Options::new("peer", 1), Options::new("host", 2));
    let mut engine = engine(Architecture::SoftLrp, far, 2);
    let me = engine.attach("waiter");
    let event = engine.enter(me, UserEvent::open).unwrap().unwrap();
    let poll = |engine: &mut Engine| {
        let mut entries = [PollEntry::new(event.fd().0, Kinds::READABLE)];
        engine.enter(me, |system| system.poll(&mut entries)).unwrap()
    };
    for _ in 0..3 {
        assert_eq!(poll(&mut engine), 0);
        let until = engine.clock().now() + Duration::from_millis(2);
        assert_eq!(engine.block(me, until).unwrap(), Ended::Time);
        assert!(engine.clock().now() >= until);
    }
    // The time of that call is over: who blocks without another one would wait for nothing.
    assert_eq!(engine.block(me, Instant::NEVER).unwrap(), Ended::Done);
    engine.enter(me, |system| event.post(system, 1)).unwrap().unwrap();
    assert_eq!(poll(&mut engine), 1);
    assert_eq!(engine.block(me, Instant::NEVER).unwrap(), Ended::Done);
}
