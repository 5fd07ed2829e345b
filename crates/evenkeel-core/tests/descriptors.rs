//! Descriptors that are closed while a process waits for them, that exceed a limit, or that are very many;
//! and the cost to find which are ready.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use common::two::{A, B, PORT, Two, address};
use common::*;
use evenkeel_core::capture::Capture;
use evenkeel_core::deadline::Deadline;
use evenkeel_core::host::{Config, System};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::{
    Allocation, BindError, ConnectError, DupError, Event, Fd, FdSets, Interest, Kinds, ListenError,
    PollEntry, ReceiveError, Select, TooManyOpen, Trigger,
};
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::{
    CaptureSocket, EventQueue, Screen, TcpListener, TcpStream, Timer, UdpSocket, UserEvent,
};
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::IpAddress;
use evenkeel_core::work::Work;

#[derive(Debug, Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Bell {
    fn new() -> (Arc<Self>, Waker) {
        let bell = Arc::<Self>::default();
        (Arc::clone(&bell), Waker::from(bell))
    }

    fn rang(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

fn reading(fds: impl IntoIterator<Item = Fd>) -> FdSets {
    let mut sets = FdSets::new();
    sets.read.extend(fds.into_iter().map(|fd| fd.0));
    sets
}

fn level(fd: Fd) -> Interest {
    Interest { events: Kinds::READABLE, trigger: Trigger::Level, token: fd.token() }
}

/// Returns all state that a failing call must not change.
fn holdings(two: &Two) -> impl PartialEq + std::fmt::Debug {
    let of = |side: usize| {
        let host = &two.hosts[side];
        let connections = host.tcp().len();
        (host.pool().1, host.channel_count(), connections, host.sockets_of(two.me[side]), host.queued())
    };
    (of(A), of(B), two.hosts[A].waiting_to_leave())
}

type Open = fn(&mut System<'_>) -> Option<&'static str>;

/// Returns each call that opens a descriptor. Each call returns the name of its error, if it fails.
fn opening() -> [(&'static str, Open); 12] {
    fn said<T, E: PartialEq>(result: Result<T, E>, limit: E) -> Option<&'static str> {
        match result {
            Ok(_) => None,
            Err(error) if error == limit => Some("too many"),
            Err(_) => Some("another error"),
        }
    }
    let group = |system: &mut System<'_>| {
        said(UdpSocket::bind(system, Some(IpAddress::v4(239, 0, 0, 1)), 90), BindError::TooManyOpen)
    };
    [
        ("bind", |system| said(UdpSocket::bind(system, None, 80), BindError::TooManyOpen)),
        ("bind to a group", group),
        ("listen", |system| {
            said(TcpListener::listen(system, None, 80, &ListenerConfig::default()), ListenError::TooManyOpen)
        }),
        ("connect", |system| {
            said(TcpStream::connect(system, IpEndpoint::new(address(B), PORT)), ConnectError::TooManyOpen)
        }),
        ("open_screen", |system| said(Screen::open(system, 5), BindError::TooManyOpen)),
        ("open_capture", |system| {
            said(CaptureSocket::open(system, Capture::default()), BindError::TooManyOpen)
        }),
        ("open_queue", |system| said(EventQueue::open(system), TooManyOpen)),
        ("events", |system| said(EventQueue::of_all(system), TooManyOpen)),
        ("open_timer", |system| said(Timer::open(system), TooManyOpen)),
        ("open_user_event", |system| said(UserEvent::open(system), TooManyOpen)),
        ("dup", |system| said(system.dup(Fd(0)), DupError::TooManyOpen)),
        ("accept", |system| said(TcpListener::from(Fd(0)).accept(system), ReceiveError::TooManyOpen)),
    ]
}

#[test]
fn a_call_that_fails_for_too_many_descriptors_leaves_all_as_it_was() {
    for architecture in Architecture::ALL {
        let mut two = Two::new(architecture);
        two.connected();
        // A connection waits at A, too. Who has had one has reserved what all of them need.
        let listener = two.call(A, |system| {
            system.close(Fd(0));
            TcpListener::listen(system, None, PORT, &ListenerConfig::default()).unwrap()
        });
        assert_eq!(listener, Fd(0));
        two.call(B, |system| TcpStream::connect(system, IpEndpoint::new(address(A), PORT))).unwrap();
        two.settle();
        two.call(A, |system| system.set_descriptor_limit(1));
        for (call, open) in opening() {
            let before = format!("{:?}", holdings(&two));
            assert_eq!(two.call(A, open), Some("too many"), "{architecture}: {call}");
            two.run(Duration::from_millis(50));
            assert_eq!(format!("{:?}", holdings(&two)), before, "{architecture}: {call}");
        }
        // What could not be had can be had now: no port is taken, and the connection has waited.
        two.call(A, |system| system.set_descriptor_limit(100));
        for (nth, (call, open)) in (1..).zip(opening()) {
            assert_eq!(two.call(A, open), None, "{architecture}: {call}");
            let me = two.me[A];
            assert!(two.hosts[A].socket_of(me, Fd(nth)).is_some(), "{architecture}: {call}");
            assert!(two.hosts[A].socket_of(me, Fd(nth + 1)).is_none(), "{architecture}: {call}");
        }
        two.settle();
    }
}

#[test]
fn who_waits_for_what_another_closes_is_woken_to_find_that_out() {
    for architecture in Architecture::ALL {
        let mut two = Two::new(architecture);
        let now = two.now;
        for way in ["close", "close a duplicate", "dup2", "kill"] {
            let me = two.hosts[A].attach("threads", 0, now);
            let (mut bells, mut wakers) = (Vec::new(), Vec::new());
            for (bell, waker) in (0..5).map(|_| Bell::new()) {
                bells.push(bell);
                wakers.push(waker);
            }
            let (fds, other) = two.hosts[A]
                .enter(me, now, |system| {
                    let (socket, queue) =
                        (UdpSocket::bind(system, None, 0).unwrap(), EventQueue::open(system).unwrap());
                    let listener = TcpListener::listen(system, None, 0, &ListenerConfig::default()).unwrap();
                    let (timer, event) = (Timer::open(system).unwrap(), UserEvent::open(system).unwrap());
                    let fds = [socket.fd(), queue.fd(), listener.fd(), timer.fd(), event.fd()];
                    for (&fd, waker) in fds.iter().zip(&wakers) {
                        assert!(system.wait(fd, Kinds::READABLE, waker).is_empty());
                    }
                    let other = UserEvent::open(system).unwrap();
                    if way == "close a duplicate" {
                        fds.iter().for_each(|&fd| _ = system.dup(fd).unwrap());
                    }
                    (fds, other)
                })
                .unwrap();
            let (bell, waker) = Bell::new();
            let blocks = |two: &mut Two, waker: &Waker| {
                two.hosts[A].enter(me, now, |system| {
                    assert_eq!(system.select(&reading(fds), &mut FdSets::new()), Ok(0));
                    system.block(waker)
                })
            };
            if way == "kill" {
                assert_eq!(blocks(&mut two, &waker), Ok(false));
                two.hosts[A].kill(me, now);
                assert!(bell.rang() && bells.iter().all(|bell| bell.rang()), "{architecture}");
                assert_eq!(two.hosts[A].sockets_of(me), []);
                continue;
            }
            for (nth, fd) in fds.into_iter().enumerate() {
                let rest = reading(fds[nth..].iter().copied());
                two.hosts[A]
                    .enter(me, now, |system| {
                        assert_eq!(system.select(&rest, &mut FdSets::new()), Ok(0));
                        assert!(!system.block(&waker));
                        if way == "dup2" { system.dup2(other, fd).unwrap() } else { system.close(fd) }
                    })
                    .unwrap();
                assert!(bells[nth].rang(), "{architecture}: {way} {fd:?}");
                assert!(bells.iter().all(|bell| !bell.rang()), "{architecture}: {way} {fd:?}: just those");
                assert!(bell.rang(), "{architecture}: {way} {fd:?} in select");
            }
            two.hosts[A].kill(me, now);
        }
        two.settle();
    }
}

#[test]
fn a_timer_counts_what_was_missed_and_keeps_its_distances() {
    let (mut two, ms) = (Two::new(Architecture::SoftLrp), Duration::from_millis);
    let timer = two.call(A, |system| {
        let timer = Timer::open(system).unwrap();
        timer.set(system, system.now() + ms(10), Some(ms(3))).unwrap();
        timer
    });
    let expired = |two: &mut Two| two.call(A, |system| timer.expirations(system));
    two.run(ms(9));
    assert_eq!(expired(&mut two), Err(ReceiveError::WouldBlock), "never early");
    two.run(ms(8));
    assert_eq!(expired(&mut two), Ok(3), "at 10, 13 and 16");
    // Nobody looks at the clock for a while.
    two.now += ms(24);
    two.run(UNIT);
    assert_eq!(expired(&mut two), Ok(8), "19 to 40");
    two.run(ms(3));
    assert_eq!(expired(&mut two), Ok(1), "43");
    two.run(ms(3));
    two.call(A, |system| timer.set(system, Instant::NEVER, Some(ms(3)))).unwrap();
    two.run(ms(10));
    assert_eq!(expired(&mut two), Err(ReceiveError::WouldBlock), "forgotten, and stopped");
}

#[test]
fn who_sleeps_in_a_call_about_nothing_is_woken_when_its_process_is_killed() {
    let mut two = Two::new(Architecture::SoftLrp);
    let (me, now) = (two.me[A], two.now);
    let (bell, waker) = Bell::new();
    two.call(A, |system| {
        assert_eq!(system.select(&FdSets::new(), &mut FdSets::new()), Ok(0));
        assert!(!system.block(&waker));
    });
    two.hosts[A].kill(me, now);
    assert!(bell.rang());
}

/// Sleeps somehow, for ever.
#[derive(Debug)]
struct Sleeps(fn(&mut System<'_>) -> Step);

impl Program for Sleeps {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        (self.0)(system)
    }
}

/// Deadlines of processes, and of timers that they have set.
fn left_of(bench: &Bench) -> Vec<String> {
    let of_programs = |who: &Deadline| matches!(who, Deadline::Process(_) | Deadline::Timers);
    let left = bench.host.deadlines().filter(|(who, ..)| of_programs(who));
    left.map(|left| format!("{left:?}")).collect()
}

#[test]
fn who_is_killed_in_its_sleep_leaves_nothing_and_nobody_hangs() {
    let ways: [fn(&mut System<'_>) -> Step; 6] = [
        |system| {
            let socket = UdpSocket::bind(system, None, 9).unwrap();
            assert_eq!(system.select(&reading([socket.fd()]), &mut FdSets::new()), Ok(0));
            Step::Block(Instant::NEVER)
        },
        |system| {
            let socket = UdpSocket::bind(system, None, 9).unwrap();
            assert_eq!(system.poll(&mut [PollEntry::new(socket.fd().0, Kinds::READABLE)]), 0);
            Step::Block(system.now() + Duration::from_secs(1))
        },
        |system| {
            let (socket, queue) =
                (UdpSocket::bind(system, None, 9).unwrap(), EventQueue::open(system).unwrap());
            queue.add(system, socket, level(socket.fd())).unwrap();
            Step::Wait(queue.fd())
        },
        |system| {
            let events = EventQueue::of_all(system).unwrap();
            UdpSocket::bind(system, None, 9).unwrap();
            // It can be written to.
            while events.next(system).is_ok() {}
            Step::WaitUntil(events.fd(), system.now() + Duration::from_secs(1))
        },
        |system| {
            let timer = Timer::open(system).unwrap();
            let at = system.now() + Duration::from_millis(500);
            timer.set(system, at, Some(Duration::from_millis(10))).unwrap();
            Step::Wait(timer.fd())
        },
        |system| Step::Wait(UdpSocket::bind(system, None, 9).unwrap().fd()),
    ];
    for architecture in Architecture::ALL {
        let mut bench = Bench::new(Config::of(architecture));
        bench.settle();
        let before = (bench.host.pool().1, bench.host.channel_count(), bench.host.processes().count());
        for (nth, way) in ways.into_iter().enumerate() {
            // Asleep; and with what it waits for under way.
            for frames in [0, 1] {
                let id = bench.host.spawn("sleeps", 0, Box::new(Sleeps(way)));
                bench.settle();
                bench.send(&vec![udp(9, b"x"); frames]);
                bench.host.kill(id, bench.now);
                let left = left_of(&bench);
                assert!(left.is_empty(), "{architecture}: way {nth} leaves {left:?}");
                bench.run(Duration::from_secs(2));
                let after = (bench.host.pool().1, bench.host.channel_count(), bench.host.processes().count());
                assert_eq!(after, before, "{architecture}: way {nth}");
                assert_eq!(bench.host.sockets_of(id), []);
            }
        }
    }
}

#[test]
fn descriptors_without_number_come_and_go_in_any_order() {
    const MANY: u32 = 1_000_000;
    let mut two = Two::new(Architecture::SoftLrp);
    two.call(A, |system| {
        let mut random = 1_u64;
        let mut next = |below: u32| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((random >> 33) % u64::from(below)) as u32
        };
        let queue = EventQueue::open(system).unwrap();
        (1..MANY).for_each(|n| assert_eq!(UserEvent::open(system), Ok(Fd(n).into())));
        // In any order, a quarter of them; those that are opened then have the lowest numbers.
        let mut free = BTreeSet::new();
        while free.len() < MANY as usize / 4 {
            let fd = 1 + next(MANY - 1);
            if free.insert(fd) {
                system.close(Fd(fd));
            }
        }
        while let Some(fd) = free.pop_first() {
            assert_eq!(UserEvent::open(system), Ok(Fd(fd).into()));
        }
        let info = allocation_counter::measure(|| {
            for round in 0..MANY / 4 {
                let fd = Fd(1 + next(MANY - 1));
                system.close(fd);
                // It costs an allocation, of what is behind it; nothing else grows.
                assert_eq!(UserEvent::open(system), Ok(fd.into()));
                if round % 16 == 0 {
                    queue.add(system, fd, level(fd)).unwrap();
                    UserEvent::from(fd).post(system, 1).unwrap();
                }
            }
        });
        assert!(info.count_total < u64::from(MANY) / 4 + 100, "{info:?}");
        // Registrations alone, of which there were none before.
        assert!(info.bytes_current < 8 << 20, "{info:?}");
        let mut events = vec![Event::default(); MANY as usize];
        let mut posted = 0;
        let taken = queue.take(system, &mut events).unwrap();
        for event in &events[..taken] {
            posted += UserEvent::of(event).posted(system).unwrap();
        }
        assert!(taken > 10_000 && posted == taken as u64, "{taken}, {posted}");
    });
    let me = two.me[A];
    let now = two.now;
    two.hosts[A].kill(me, now);
    assert_eq!(two.hosts[A].sockets_of(me), []);
    two.settle();
}

/// Status tests that calls have taken.
fn tests_of(
    bench: &mut Bench,
    me: evenkeel_core::process::ProcessId,
    call: &mut dyn FnMut(&mut System<'_>),
) -> u32 {
    bench.host.enter(me, bench.now, |system| call(system)).unwrap();
    bench.host.work().iter().filter(|(work, _)| *work == Work::StatusTest).map(|(_, count)| count).sum()
}

#[test]
fn what_is_looked_at_is_what_is_new_was_ready_or_has_had_a_hint() {
    const IDLE: u32 = 300;
    for (architecture, select) in
        Architecture::ALL.into_iter().flat_map(|a| [(a, Select::WithMemory), (a, Select::Classic)])
    {
        let config = Config { socket_queue_pkts: 4, channel_pkts: 4, select, ..Config::of(architecture) };
        let mut bench = Bench::new(Config { allocation: Allocation::Linear, ..config });
        let me = bench.host.attach("asks", 0, bench.now);
        bench
            .host
            .enter(me, bench.now, |system| {
                (0..IDLE).for_each(|n| _ = UdpSocket::bind(system, None, 1_000 + n as u16).unwrap())
            })
            .unwrap();
        let (all, mut found) = (reading((0..IDLE).map(Fd)), FdSets::new());
        let mut entries: Vec<_> = (0..IDLE).map(|fd| PollEntry::new(fd, Kinds::READABLE)).collect();
        let classic = |tests| if select == Select::Classic { IDLE } else { tests };
        let mut asks = |bench: &mut Bench, tests: u32, ready: usize, what: &str| {
            let counted = tests_of(bench, me, &mut |system| {
                assert_eq!(system.select(&all, &mut found), Ok(ready), "{what}")
            });
            assert_eq!(counted, classic(tests), "{architecture} {select:?}: {what}");
            // What the one has found the other knows: only what is ready is looked at again.
            let counted =
                tests_of(bench, me, &mut |system| assert_eq!(system.poll(&mut entries), ready, "{what}"));
            assert_eq!(counted, classic(ready as u32), "{architecture} {select:?}: poll, {what}");
        };
        asks(&mut bench, IDLE, 0, "all are new");
        asks(&mut bench, 0, 0, "none is");
        for port in [1_003, 1_070, 1_299, 1_003] {
            bench.send(&[udp(port, b"x")]);
        }
        bench.settle();
        asks(&mut bench, 3, 3, "three have a hint");
        asks(&mut bench, 3, 3, "three were ready");
        bench
            .host
            .enter(me, bench.now, |system| {
                for fd in [3, 70].map(Fd) {
                    let datagram = UdpSocket::from(fd).receive(system).unwrap();
                    system.recycle(datagram);
                }
            })
            .unwrap();
        asks(&mut bench, 3, 2, "three were ready, one was emptied");
        asks(&mut bench, 2, 2, "two are");
        bench.send(&[udp(1_070, b"x")]);
        bench.settle();
        asks(&mut bench, 3, 3, "two were ready, one has a hint");
        bench
            .host
            .enter(me, bench.now, |system| {
                system.close(Fd(299));
                assert_eq!(UdpSocket::bind(system, None, 5), Ok(Fd(299).into()));
            })
            .unwrap();
        asks(&mut bench, 3, 2, "two were ready, one is new");
    }
}
