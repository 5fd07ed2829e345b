//! The events of a history, and the results of the program's own calls.

use evenkeel_core::capture::Capture;
use evenkeel_core::host::System;
use evenkeel_core::screen::Verdict;
use evenkeel_core::socket::{BadDescriptor, Fd, FdSets, Interest, Kinds, PollEntry, ReceiveError, Trigger};
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::{
    CaptureSocket, EventQueue, Screen, TcpListener, TcpStream, Timer, UdpSocket, UserEvent,
};
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::{Duration, Instant};
use proptest::prelude::*;
use proptest::strategy::Union;

use crate::common::router::WAN;
use crate::common::two::{B, PORT, address};
use crate::world::{GROUP, GROUP_PORT};
use crate::{LIMIT, READ_OR_WRITE};

/// The destination of frames that come from the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    /// The port of a descriptor.
    Port(u32),
    Group,
    /// The other host: they are to be forwarded.
    Beyond,
}

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Bind,
    BindToGroup,
    OpenCapture,
    OpenScreen,
    Listen,
    Connect,
    Accept(u32),
    OpenTimer,
    OpenUserEvent,
    OpenQueue,
    Close(u32),
    Dup(u32),
    DupFrom(u32, u32),
    Dup2(u32, u32),
    Abort(u32),
    Limit(u32),
    /// Datagrams, captured frames, or packets to be screened.
    Receive(u32, usize),
    Read(u32, usize),
    Write(u32, usize),
    Shutdown(u32),
    Post(u32),
    Posted(u32),
    /// So many milliseconds from now, and then after each so many.
    SetTimer(u32, u32, u32),
    Expirations(u32),
    Add(u32, u32, Kinds, Trigger),
    Modify(u32, u32, Kinds, Trigger),
    Delete(u32, u32),
    Take(u32),
    /// Something happens to a registered descriptor, or all is taken from it: one of the other calls, as the
    /// model aims it.
    News(u32),
    Drain(u32),
    Select([u16; 3]),
    Poll(Vec<(u32, Kinds)>),
    /// The program goes to sleep in a call, or on a descriptor.
    SleepIn([u16; 2]),
    SleepInPoll(Vec<(u32, Kinds)>),
    SleepOn(u32),
    /// Another program begins or ends to compute; while it computes, the frames in channels are not
    /// processed.
    Busy(bool),
    /// The first event of the peer: it sends datagrams to the port of a descriptor.
    Send(u32, usize),
    /// Frames, of which some have a wrong checksum.
    Frames(To, Vec<bool>),
    ConnectTo(u32),
    PeerWrites(usize, usize),
    PeerReads(usize),
    PeerCloses(usize),
    PeerAborts(usize),
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<(Op, bool)>> {
    let fd = || prop_oneof![4 => 0..6_u32, 1 => 0..LIMIT + 1];
    let kinds = || prop::sample::select(vec![Kinds::READABLE, Kinds::WRITABLE, READ_OR_WRITE, Kinds::NONE]);
    let mask = || any::<u16>().prop_map(|mask| mask & 0x3ff);
    let entries = || prop::collection::vec((fd(), kinds()), 1..6);
    let trigger = || prop::sample::select(vec![Trigger::Level, Trigger::Edge, Trigger::OneShot]);
    let registration = move || (fd(), fd(), kinds(), trigger());
    let to = || prop_oneof![3 => fd().prop_map(To::Port), 2 => Just(To::Group), 1 => Just(To::Beyond)];
    let frames = move || (to(), prop::collection::vec(prop::bool::weighted(0.4), 1..7));
    let few = || 0..4_usize;
    let ms = || 0..400_u32;
    let opens = prop_oneof![
        3 => Just(Op::Bind),
        1 => Just(Op::BindToGroup),
        1 => Just(Op::OpenCapture),
        1 => Just(Op::OpenScreen),
        2 => Just(Op::Listen),
        2 => Just(Op::Connect),
        3 => fd().prop_map(Op::Accept),
        1 => Just(Op::OpenTimer),
        2 => Just(Op::OpenUserEvent),
        2 => Just(Op::OpenQueue),
    ];
    let closes = prop_oneof![
        4 => fd().prop_map(Op::Close),
        2 => fd().prop_map(Op::Dup),
        1 => (fd(), fd()).prop_map(|(fd, lowest)| Op::DupFrom(fd, lowest)),
        2 => (fd(), fd()).prop_map(|(fd, new)| Op::Dup2(fd, new)),
        1 => fd().prop_map(Op::Abort),
        1 => (3..LIMIT).prop_map(Op::Limit),
    ];
    let uses = prop_oneof![
        4 => (fd(), 1..9_usize).prop_map(|(fd, most)| Op::Receive(fd, most)),
        3 => (fd(), 1..9_usize).prop_map(|(fd, most)| Op::Read(fd, most * 3_000)),
        3 => (fd(), 1..9_usize).prop_map(|(fd, len)| Op::Write(fd, len * 30_000)),
        1 => fd().prop_map(Op::Shutdown),
        2 => fd().prop_map(Op::Post),
        2 => fd().prop_map(Op::Posted),
        2 => (fd(), ms(), ms()).prop_map(|(fd, first, then)| Op::SetTimer(fd, first, then)),
        2 => fd().prop_map(Op::Expirations),
    ];
    let asks = prop_oneof![
        5 => registration().prop_map(|(queue, fd, kinds, trigger)| Op::Add(queue, fd, kinds, trigger)),
        2 => registration().prop_map(|(queue, fd, kinds, trigger)| Op::Modify(queue, fd, kinds, trigger)),
        1 => (fd(), fd()).prop_map(|(queue, fd)| Op::Delete(queue, fd)),
        3 => fd().prop_map(Op::Take),
        6 => [mask(), mask(), mask()].prop_map(Op::Select),
        4 => entries().prop_map(Op::Poll),
        8 => mask().prop_map(|mask| Op::SleepIn([mask, 0])),
        1 => [mask(), mask()].prop_map(Op::SleepIn),
        2 => entries().prop_map(Op::SleepInPoll),
        4 => fd().prop_map(Op::SleepOn),
    ];
    let peer = prop_oneof![
        4 => (fd(), 1..7_usize).prop_map(|(fd, datagrams)| Op::Send(fd, datagrams)),
        3 => frames().prop_map(|(to, wrong)| Op::Frames(to, wrong)),
        3 => fd().prop_map(Op::ConnectTo),
        4 => (few(), 1..9_usize).prop_map(|(nth, len)| Op::PeerWrites(nth, len * 500)),
        2 => few().prop_map(Op::PeerReads),
        1 => few().prop_map(Op::PeerCloses),
        1 => few().prop_map(Op::PeerAborts),
    ];
    // What goes on for ever between a program and its event queue.
    let cycle = prop_oneof![
        4 => fd().prop_map(Op::Take),
        3 => fd().prop_map(Op::News),
        3 => fd().prop_map(Op::Drain),
        3 => registration().prop_map(|(queue, fd, kinds, trigger)| Op::Add(queue, fd, kinds, trigger)),
    ];
    let busy = any::<bool>().prop_map(Op::Busy);
    let [opens, closes, uses, asks, peer, cycle, busy] = [
        opens.boxed(),
        closes.boxed(),
        uses.boxed(),
        asks.boxed(),
        peer.boxed(),
        cycle.boxed(),
        busy.boxed(),
    ];
    let mixed = |weights: [u32; 7]| {
        let all = [&opens, &closes, &uses, &asks, &peer, &cycle, &busy];
        let op = Union::new_weighted(weights.into_iter().zip(all.map(BoxedStrategy::clone)).collect());
        prop::collection::vec((op, prop::bool::weighted(0.7)), 1..70)
    };
    let first = prop_oneof![1 => Just(Op::OpenQueue), 2 => opens.clone()];
    let first = prop::collection::vec((first, Just(false)), 0..7);
    // Anything; and the days of a program and its event queue.
    let then = prop_oneof![mixed([8, 6, 10, 16, 12, 1, 2]), mixed([2, 1, 2, 5, 2, 24, 3])];
    (first, then).prop_map(|(first, then)| [first, then].concat())
}

pub(crate) fn sets_of(masks: &[u16]) -> FdSets {
    let mut sets = FdSets::new();
    let bits = |mask: u16| (0..16_u32).filter(move |bit| mask >> bit & 1 == 1);
    for (mask, set) in masks.iter().zip([&mut sets.read, &mut sets.write, &mut sets.exception]) {
        set.extend(bits(*mask));
    }
    sets
}

pub(crate) fn entries_of(entries: &[(u32, Kinds)]) -> Vec<PollEntry> {
    entries.iter().map(|&(fd, kinds)| PollEntry::new(fd, kinds)).collect()
}

/// Takes one item from a socket, a capture or a screening queue, and returns its length.
fn take_one(system: &mut System<'_>, fd: Fd) -> Result<usize, ReceiveError> {
    const OTHER: ReceiveError = ReceiveError::BadDescriptor(BadDescriptor::OtherKind);
    match UdpSocket::from(fd).receive(system) {
        Ok(datagram) => {
            let len = datagram.as_slice().unwrap().len();
            system.recycle(datagram);
            Ok(len)
        }
        Err(OTHER) => match CaptureSocket::from(fd).front(system).map(|frame| frame.original_bytes) {
            Err(OTHER) => Screen::from(fd).decide(system, |_| Verdict::Pass).map(|()| 0),
            captured => {
                CaptureSocket::from(fd).pop(system);
                captured
            }
        },
        Err(error) => Err(error),
    }
}

/// Makes a call of the program's own. Returns its result, and the descriptor it opened.
pub(crate) fn perform(op: &Op, zero: Instant, system: &mut System<'_>) -> (String, Option<Fd>) {
    fn opened<T: Into<Fd>, E: std::fmt::Debug>(result: Result<T, E>) -> (String, Option<Fd>) {
        let result: Result<Fd, E> = result.map(Into::into);
        (format!("{result:?}"), result.ok())
    }
    let at = |ms: u32| zero + Duration::from_millis(u64::from(ms)) + Duration::from_micros(500);
    let interest = |fd: u32, events, trigger| Interest { events, trigger, token: u64::from(fd) };
    let said = match *op {
        Op::Bind => return opened(UdpSocket::bind(system, None, 0)),
        Op::BindToGroup => return opened(UdpSocket::bind(system, Some(GROUP.into()), GROUP_PORT)),
        Op::OpenCapture => {
            let wanted = Capture { interface: Some(WAN), limit_pkts: 4, ..Capture::default() };
            return opened(CaptureSocket::open(system, wanted));
        }
        Op::OpenScreen => return opened(Screen::open(system, 4)),
        Op::Listen => return opened(TcpListener::listen(system, None, 0, &ListenerConfig::default())),
        Op::Connect => return opened(TcpStream::connect(system, IpEndpoint::new(address(B), PORT))),
        Op::Accept(fd) => return opened(TcpListener::from(Fd(fd)).accept(system).map(|(stream, _)| stream)),
        Op::OpenTimer => return opened(Timer::open(system)),
        Op::OpenUserEvent => return opened(UserEvent::open(system)),
        Op::OpenQueue => return opened(EventQueue::open(system)),
        Op::Dup(fd) => return opened(system.dup(Fd(fd))),
        Op::DupFrom(fd, lowest) => return opened(system.dup_from(Fd(fd), Fd(lowest))),
        Op::Dup2(fd, new) => format!("{:?}", system.dup2(Fd(fd), Fd(new))),
        Op::Close(fd) => format!("{:?}", system.close(Fd(fd))),
        Op::Abort(fd) => format!("{:?}", TcpStream::from(Fd(fd)).abort(system)),
        Op::Limit(limit) => format!("{:?}", system.set_descriptor_limit(limit)),
        Op::Receive(fd, most) => {
            let received = (0..most).map(|_| take_one(system, Fd(fd)));
            format!("{:?}", received.collect::<Vec<_>>())
        }
        Op::Read(fd, most) => format!("{:?}", TcpStream::from(Fd(fd)).read(system, &mut vec![0; most])),
        Op::Write(fd, len) => format!("{:?}", TcpStream::from(Fd(fd)).write(system, &vec![7; len])),
        Op::Shutdown(fd) => format!("{:?}", TcpStream::from(Fd(fd)).shutdown(system)),
        Op::Post(fd) => format!("{:?}", UserEvent::from(Fd(fd)).post(system, 2)),
        Op::Posted(fd) => format!("{:?}", UserEvent::from(Fd(fd)).posted(system)),
        Op::SetTimer(fd, first, then) => {
            // Not every few: it would be another number each time that somebody asks.
            let interval = (then > 200).then(|| Duration::from_millis(u64::from(then)));
            format!("{:?}", Timer::from(Fd(fd)).set(system, at(first), interval))
        }
        Op::Expirations(fd) => format!("{:?}", Timer::from(Fd(fd)).expirations(system).map(|_| ())),
        Op::Add(queue, fd, kinds, trigger) => {
            format!("{:?}", EventQueue::from(Fd(queue)).add(system, Fd(fd), interest(fd, kinds, trigger)))
        }
        Op::Modify(queue, fd, kinds, trigger) => {
            format!("{:?}", EventQueue::from(Fd(queue)).modify(system, Fd(fd), interest(fd, kinds, trigger)))
        }
        Op::Delete(queue, fd) => format!("{:?}", EventQueue::from(Fd(queue)).delete(system, Fd(fd))),
        Op::Select(masks) => {
            let mut found = FdSets::new();
            let ready = system.select(&sets_of(&masks), &mut found);
            let found = [&found.read, &found.write, &found.exception].map(|s| s.iter().collect::<Vec<_>>());
            format!("{ready:?} {found:?}")
        }
        Op::Poll(ref entries) => {
            let mut entries = entries_of(entries);
            format!("{} {entries:?}", system.poll(&mut entries))
        }
        _ => unreachable!("{op:?}"),
    };
    (said, None)
}
