//! Waiters for a descriptor are notified. These tests are about races: between a queue that is found empty
//! and the next frame, and between the old and the new file of a descriptor number.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};

use common::router::outwards;
use common::two::{A, B, Two};
use common::*;
use evenkeel_core::host::{Config, System};
use evenkeel_core::process::{ProcessId, Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::screen::Verdict;
use evenkeel_core::socket::{
    BadDescriptor, DupError, Event, Fd, FdSets, Interest, Kinds, PollEntry, Select, StreamError, Trigger,
};
use evenkeel_core::system::{EventQueue, Screen, UdpSocket, UserEvent};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::UdpPacket;

/// A waker that counts its wake-ups.
#[derive(Debug, Default)]
struct Bell(AtomicU32);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn bell() -> (Arc<Bell>, Waker) {
    let bell = Arc::<Bell>::default();
    (Arc::clone(&bell), Waker::from(bell))
}

impl Bell {
    fn rang(&self) -> bool {
        self.0.swap(0, Ordering::Relaxed) > 0
    }
}

fn call<T>(bench: &mut Bench, me: ProcessId, call: impl FnOnce(&mut System<'_>) -> T) -> T {
    bench.host.enter(me, bench.now, call).unwrap()
}

fn interest(fd: impl Into<Fd>, trigger: Trigger) -> Interest {
    let fd = fd.into();
    Interest { events: Kinds::READABLE, trigger, token: fd.token() }
}

/// Returns the descriptors that an event queue reports now.
fn heard(system: &mut System<'_>, queue: EventQueue) -> Vec<Fd> {
    let mut events = [Event::default(); 64];
    let taken = queue.take(system, &mut events).unwrap();
    events[..taken].iter().map(Fd::of).collect()
}

fn reading(fds: &[Fd]) -> FdSets {
    let mut sets = FdSets::new();
    sets.read.extend(fds.iter().map(|fd| fd.0));
    sets
}

fn bad_sum(port: u16) -> Vec<u8> {
    let mut frame = udp(port, b"wrong checksum");
    UdpPacket::new_unchecked(&mut frame[34..]).set_checksum(0x1234);
    frame
}

#[test]
fn who_has_screened_all_hears_of_the_next_packet() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::router(Config::of(architecture));
        let me = bench.host.attach("screener", 0, bench.now);
        let (screen, queue) = call(&mut bench, me, |system| {
            let (screen, queue) = (Screen::open(system, 16).unwrap(), EventQueue::open(system).unwrap());
            queue.add(system, screen, interest(screen, Trigger::Edge)).unwrap();
            (screen, queue)
        });
        let (bell, waker) = bell();
        for n in 0..5 {
            let ready = call(&mut bench, me, |system| system.wait(queue, Kinds::READABLE, &waker));
            assert!(ready.is_empty(), "{architecture}: {n}");
            bench.send(&[outwards(n)]);
            bench.settle();
            assert!(bell.rang(), "{architecture}: packet {n}");
            let (heard, screened) = call(&mut bench, me, |system| {
                let heard = heard(system, queue);
                let mut screened = 0;
                while screen.decide(system, |_| Verdict::Pass).is_ok() {
                    screened += 1;
                }
                (heard, screened)
            });
            assert_eq!((heard, screened), (vec![screen.fd()], 1), "{architecture}: packet {n}");
        }
    }
}

#[test]
fn who_has_found_nothing_behind_many_datagrams_that_are_wrong_hears_of_the_right_one() {
    for architecture in Architecture::ALL {
        let config = Config { feedback: None, ..Config::of(architecture) };
        let mut bench = Bench::new(config);
        let me = bench.host.attach("receiver", 0, bench.now);
        let (socket, queue) = call(&mut bench, me, |system| {
            let (socket, queue) =
                (UdpSocket::bind(system, None, 9).unwrap(), EventQueue::open(system).unwrap());
            queue.add(system, socket, interest(socket, Trigger::Edge)).unwrap();
            (socket, queue)
        });
        // Busy: nobody processes what comes until the receiver calls.
        bench.host.spawn("spinner", 0, Box::new(Spinner));
        for _ in 0..4 {
            assert_eq!(bench.send(&vec![bad_sum(9); 30]), 30);
            bench.settle_some();
        }
        bench.send(&[udp(9, b"right")]);
        bench.settle_some();
        let mut received = 0;
        for _ in 0..10 {
            let heard = call(&mut bench, me, |system| heard(system, queue));
            if heard.is_empty() {
                break;
            }
            received +=
                call(&mut bench, me, |system| std::iter::from_fn(|| socket.receive(system).ok()).count());
        }
        assert_eq!(received, 1, "{architecture}");
    }
}

#[test]
fn who_asks_for_all_events_hears_of_what_had_come_before() {
    for architecture in Architecture::ALL {
        let mut two = Two::new(architecture);
        let (ours, theirs) = two.connected();
        two.write(B, theirs, b"before");
        two.settle();
        let events = two.call(A, EventQueue::of_all).unwrap();
        assert_eq!(two.call(A, |system| heard(system, events)), [ours.fd()], "{architecture}");
    }
}

#[test]
fn a_duplicate_is_heard_of_whatever_number_it_has() {
    let mut two = Two::new(Architecture::SoftLrp);
    let (ours, theirs) = two.connected();
    two.write(B, theirs, b"x");
    two.settle();
    let events = two.call(A, |system| {
        let other = system.dup(ours).unwrap();
        system.close(ours);
        system.dup_from(other, Fd(9)).unwrap();
        let events = EventQueue::of_all(system).unwrap();
        assert_eq!(events, ours.fd(), "the lowest number that was free");
        events
    });
    assert_eq!(two.call(A, |system| heard(system, events)), [Fd(1), Fd(9)]);
    // The number that it was opened as refers to it again, and it is ready all the time.
    two.call(A, |system| {
        system.close(events);
        system.dup2(Fd(1), Fd(5)).unwrap();
        let events = EventQueue::of_all(system).unwrap();
        assert_eq!(heard(system, events), [Fd(1), Fd(5), Fd(9)]);
        assert_eq!(events, ours.fd());
    });
}

#[test]
fn the_queue_of_all_events_is_opened_again_when_it_was_closed_or_replaced() {
    let mut two = Two::new(Architecture::SoftLrp);
    two.call(A, |system| {
        let events = EventQueue::of_all(system).unwrap();
        system.close(events);
        // It is another's number now.
        let user = UserEvent::open(system).unwrap();
        assert_eq!(user, events.fd());
        let again = EventQueue::of_all(system).unwrap();
        assert_ne!(again, user.fd());
        user.post(system, 1).unwrap();
        assert_eq!(heard(system, again), [user.fd()]);
        system.dup2(user, again.fd()).unwrap();
        let third = EventQueue::of_all(system).unwrap();
        assert!(third != again && third != user.fd());
        user.post(system, 1).unwrap();
        assert_eq!(heard(system, third), [user.fd(), again.fd()]);
        // An event queue of one's own that has the number does not hear of all.
        system.close(third);
        let own = EventQueue::open(system).unwrap();
        assert_eq!(own, third.fd());
        let other = UserEvent::open(system).unwrap();
        other.post(system, 1).unwrap();
        assert!(heard(system, own).is_empty());
    });
}

#[test]
fn who_waits_for_a_duplicate_of_what_is_aborted_hears_of_it() {
    for select in [Select::WithMemory, Select::Classic] {
        let mut two = Two::with(|_| Config { select, ..Config::default() });
        let (ours, _) = two.connected();
        let other = two.call(A, |system| system.dup(ours)).unwrap();
        let (bell, waker) = bell();
        let (sets, mut found) = (reading(&[other.fd()]), FdSets::new());
        two.call(A, |system| {
            assert_eq!(system.select(&sets, &mut found), Ok(0));
            assert!(!system.block(&waker));
        });
        two.call(A, |system| ours.abort(system)).unwrap();
        two.settle();
        assert!(bell.rang(), "{select:?}");
        assert_eq!(two.call(A, |system| system.select(&sets, &mut found)), Ok(1), "{select:?}");
    }
}

#[test]
fn a_number_above_the_limit_is_no_place_for_a_duplicate() {
    let mut two = Two::with(|_| Config { descriptors_max: 4, ..Config::default() });
    two.call(A, |system| {
        let event = UserEvent::open(system).unwrap();
        assert_eq!(system.dup2(event, Fd(4)), Err(DupError::AboveLimit));
        assert_eq!(system.dup_from(event, Fd(4)), Err(DupError::AboveLimit));
        assert_eq!(system.dup2(Fd(3), Fd(4)), Err(DupError::BadDescriptor(BadDescriptor::NotOpen)));
        assert_eq!(system.dup2(Fd(3), Fd(3)), Err(DupError::BadDescriptor(BadDescriptor::NotOpen)));
        assert_eq!(system.dup2(event, Fd(3)), Ok(()));
    });
}

#[test]
fn who_waits_for_an_outer_event_queue_hears_of_what_is_added_to_an_inner_one() {
    let mut two = Two::new(Architecture::SoftLrp);
    let (bell, waker) = bell();
    let (inner, outer, event) = two.call(A, |system| {
        let [inner, outer] = [(); 2].map(|()| EventQueue::open(system).unwrap());
        outer.add(system, inner, interest(inner, Trigger::Level)).unwrap();
        let event = UserEvent::open(system).unwrap();
        event.post(system, 1).unwrap();
        assert!(system.wait(outer, Kinds::READABLE, &waker).is_empty());
        (inner, outer, event)
    });
    two.call(A, |system| inner.add(system, event, interest(event, Trigger::OneShot))).unwrap();
    assert!(bell.rang());
    two.call(A, |system| {
        assert_eq!(heard(system, outer), [inner.fd()]);
        assert_eq!(heard(system, inner), [event.fd()]);
        assert!(system.wait(outer, Kinds::READABLE, &waker).is_empty());
        inner.modify(system, event, interest(event, Trigger::OneShot)).unwrap();
    });
    assert!(bell.rang(), "modified");
}

/// Otherwise a thread that waits for room, and does not read, would find its wait over again and again.
#[test]
fn who_waits_for_room_is_left_alone_by_what_comes_to_be_read() {
    for architecture in Architecture::ALL {
        let mut two = Two::new(architecture);
        let (ours, theirs) = two.connected();
        let (bell, waker) = bell();
        let wait = |two: &mut Two, kinds| two.call(A, |system| system.wait(ours, kinds, &waker));
        while two.call(A, |system| ours.write(system, &[1; 10_000])) != Err(StreamError::WouldBlock) {
            two.run(Duration::from_millis(10));
        }
        assert_eq!(wait(&mut two, Kinds::WRITABLE), Kinds::NONE, "{architecture}");
        for _ in 0..3 {
            assert_eq!(two.call(B, |system| theirs.write(system, b"unread")), Ok(6), "{architecture}");
            two.run(Duration::from_millis(10));
            assert_eq!(wait(&mut two, Kinds::WRITABLE), Kinds::NONE, "{architecture}");
        }
        assert!(!bell.rang(), "{architecture}");
        assert_eq!(wait(&mut two, Kinds::READABLE), Kinds::READABLE, "{architecture}");
        while two.read(B, theirs).is_ok() {
            two.run(Duration::from_millis(10));
        }
        assert!(bell.rang(), "{architecture}");
        assert_eq!(wait(&mut two, Kinds::WRITABLE), Kinds::WRITABLE, "{architecture}");
    }
}

/// Finds nothing by `select`, looks at an event queue as well, and sleeps.
#[derive(Debug, Default)]
struct LooksTwice {
    opened: Option<(UdpSocket, EventQueue)>,
    seen: Arc<Seen>,
}

impl Program for LooksTwice {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let &mut (socket, queue) = self.opened.get_or_insert_with(|| {
            (UdpSocket::bind(system, None, 9).unwrap(), EventQueue::open(system).unwrap())
        });
        if system.select(&reading(&[socket.fd()]), &mut FdSets::new()).unwrap() == 0 {
            assert_eq!(heard(system, queue), []);
            return Step::Block(Instant::NEVER);
        }
        while socket.receive(system).is_ok() {
            self.seen.count.fetch_add(1, Ordering::Relaxed);
        }
        Step::Again
    }
}

#[test]
fn who_looks_at_an_event_queue_before_it_sleeps_in_select_is_woken_all_the_same() {
    for select in [Select::WithMemory, Select::Classic] {
        let mut bench = Bench::new(Config { select, ..Config::default() });
        let program = LooksTwice::default();
        let seen = Arc::clone(&program.seen);
        bench.host.spawn("looks twice", 0, Box::new(program));
        bench.settle();
        bench.send(&[udp(9, b"x")]);
        bench.run(Duration::from_secs(1));
        assert_eq!(seen.count(), 1, "{select:?}");
    }
}

/// Returns the kinds that `poll` reports of a stream after each work item in which its peer closes as well.
fn said_while_it_ends(architecture: Architecture, select: Select, asked: Kinds) -> Vec<Kinds> {
    let mut two = Two::with(|_| Config { select, ..Config::of(architecture) });
    let (ours, theirs) = two.connected();
    two.call(A, |system| ours.shutdown(system)).unwrap();
    two.settle();
    two.call(B, |system| system.close(theirs));
    let said = |two: &mut Two| {
        let mut entries = [PollEntry::new(ours.fd().0, asked)];
        two.call(A, |system| system.poll(&mut entries));
        entries[0].ready
    };
    (0..40)
        .map(|_| {
            two.run(UNIT);
            said(&mut two)
        })
        .collect()
}

#[test]
fn who_polls_when_the_last_acknowledgment_leaves_hears_that_the_stream_is_over() {
    for architecture in Architecture::ALL {
        for asked in [Kinds::READABLE, Kinds::NONE] {
            let [ours, classic] =
                [Select::WithMemory, Select::Classic].map(|s| said_while_it_ends(architecture, s, asked));
            assert_eq!(ours, classic, "{architecture}, {asked:?}");
            assert!(ours[39].is_hang_up(), "{architecture}, {asked:?}");
        }
    }
}
