//! A plain model of the objects that descriptors refer to, and of the registrations at event queues.

use std::collections::BTreeMap;

use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::{BadDescriptor, Fd, Kinds, StreamError, Trigger};
use evenkeel_core::time::{Duration, Instant};

use crate::ops::{Op, To};

/// Numbers below are aimed, see [`Model::aim`]; the others hit what they hit.
const AIMED: u32 = 6;

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Udp,
    /// A socket in a multicast group, the only one of these tests.
    Group,
    Capture,
    Screen,
    Listener,
    Stream,
    Timer,
    UserEvent,
    Queue,
}

impl Kind {
    /// Returns the kind of file that `op` opens.
    fn opened_by(op: &Op) -> Self {
        match op {
            Op::Bind => Self::Udp,
            Op::BindToGroup => Self::Group,
            Op::OpenCapture => Self::Capture,
            Op::OpenScreen => Self::Screen,
            Op::Listen => Self::Listener,
            Op::Connect | Op::Accept(_) => Self::Stream,
            Op::OpenTimer => Self::Timer,
            Op::OpenUserEvent => Self::UserEvent,
            Op::OpenQueue => Self::Queue,
            _ => unreachable!("{op:?}"),
        }
    }

    /// Returns whether it is read from a channel under the lazy architectures.
    fn has_channel(self) -> bool {
        matches!(self, Self::Udp | Self::Group | Self::Screen)
    }

    fn is_of_tcp(self) -> bool {
        matches!(self, Self::Listener | Self::Stream)
    }
}

#[derive(Debug, Clone, Copy)]
struct Registration {
    asked: Kinds,
    trigger: Trigger,
    /// If one of these holds it is to report.
    due: Kinds,
    /// Something has happened to the file since it reported: an edge may report.
    has_news: bool,
}

/// An expected report of a registration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report {
    kinds: Kinds,
    /// Whether the report is certain; else it is allowed.
    pub(crate) must: bool,
}

pub(crate) type Reports = BTreeMap<u32, Report>;

#[derive(Debug)]
pub(crate) struct Model {
    is_lazy: bool,
    pub(crate) files: BTreeMap<u32, usize>,
    kinds: BTreeMap<usize, Kind>,
    /// Until when a timer may expire.
    expires: BTreeMap<usize, Instant>,
    /// Registrations of event queues, by file.
    queues: BTreeMap<usize, BTreeMap<u32, Registration>>,
    last: usize,
}

impl Model {
    pub(crate) fn new(architecture: Architecture) -> Self {
        Self {
            is_lazy: matches!(architecture, Architecture::SoftLrp | Architecture::NiLrp),
            files: BTreeMap::new(),
            kinds: BTreeMap::new(),
            expires: BTreeMap::new(),
            queues: BTreeMap::new(),
            last: 0,
        }
    }

    // --- Descriptors ---

    fn opened(&mut self, fd: u32, file: usize) {
        self.closed(fd);
        self.files.insert(fd, file);
    }

    fn closed(&mut self, fd: u32) {
        let Some(file) = self.files.remove(&fd) else { return };
        self.queues.values_mut().for_each(|registered| _ = registered.remove(&fd));
        if self.files.values().all(|&other| other != file) {
            self.queues.remove(&file);
        }
    }

    /// Returns the number of an open descriptor for which `is` holds, chosen by `fd`, if there is any.
    fn aimed(&self, fd: u32, is: impl Fn(Kind) -> bool) -> u32 {
        let fitting = self.files.iter().filter(|(_, file)| is(self.kinds[file]));
        nth(fd, fitting.map(|(&fd, _)| fd))
    }

    /// Returns the number of an event queue at which something is registered, chosen by `fd`, if there is
    /// any.
    fn aimed_queue(&self, fd: u32) -> u32 {
        let in_use = |file| self.queues.get(file).is_some_and(|registered| !registered.is_empty());
        let queue = self.aimed(fd, |kind| kind == Kind::Queue);
        nth(fd, self.files.iter().filter(|(_, file)| in_use(file)).map(|(&fd, _)| fd).chain([queue]))
    }

    /// Has most calls hit what they are meant for.
    pub(crate) fn aim(&self, op: &Op) -> Op {
        let takes = |kind| matches!(kind, Kind::Udp | Kind::Group | Kind::Capture | Kind::Screen);
        let registered = |queue: u32| self.files.get(&queue).and_then(|file| self.queues.get(file));
        let mut op = match (op, self.registered(op)) {
            (Op::News(n), Some((fd, kind))) => return news(*n, fd, kind),
            (Op::Drain(_), Some((fd, kind))) => return drain(fd, kind),
            (Op::News(_) | Op::Drain(_), None) if self.queues.is_empty() => Op::OpenQueue,
            (Op::News(n) | Op::Drain(n), None) => Op::Add(*n, *n, Kinds::READABLE, Trigger::Edge),
            _ => op.clone(),
        };
        match &mut op {
            Op::Receive(fd, _) => *fd = self.aimed(*fd, takes),
            Op::Send(fd, _) | Op::Frames(To::Port(fd), _) => *fd = self.aimed(*fd, |kind| kind == Kind::Udp),
            Op::Accept(fd) | Op::ConnectTo(fd) => *fd = self.aimed(*fd, |kind| kind == Kind::Listener),
            Op::Read(fd, _) | Op::Write(fd, _) | Op::Shutdown(fd) | Op::Abort(fd) => {
                *fd = self.aimed(*fd, |kind| kind == Kind::Stream);
            }
            Op::Post(fd) | Op::Posted(fd) => *fd = self.aimed(*fd, |kind| kind == Kind::UserEvent),
            Op::SetTimer(fd, ..) | Op::Expirations(fd) => *fd = self.aimed(*fd, |kind| kind == Kind::Timer),
            Op::Take(queue) => *queue = self.aimed_queue(*queue),
            // One that is closed ends the call at once.
            Op::SleepIn(masks) => {
                let open = self.files.keys().fold(0, |open, fd| open | 1 << fd);
                masks.iter_mut().for_each(|mask| *mask &= open);
            }
            Op::Add(queue, fd, ..) => {
                *queue = self.aimed(*queue, |kind| kind == Kind::Queue);
                let others = self.files.keys().copied().filter(|other| other != queue);
                *fd = nth(*fd, others);
            }
            Op::Modify(queue, fd, ..) | Op::Delete(queue, fd) => {
                *queue = self.aimed_queue(*queue);
                *fd = nth(*fd, registered(*queue).into_iter().flat_map(BTreeMap::keys).copied());
            }
            _ => {}
        }
        op
    }

    /// Returns the descriptor for such an op, among all registered ones.
    fn registered(&self, op: &Op) -> Option<(u32, Kind)> {
        let (Op::News(n) | Op::Drain(n)) = *op else { return None };
        // Every other one of any that are open: somebody may sleep on it.
        let any = self.files.keys().filter(|_| n % 2 == 1);
        let all: Vec<_> = self.queues.values().flat_map(BTreeMap::keys).chain(any).collect();
        let fd = **all.get(n as usize % all.len().max(1))?;
        Some((fd, self.kinds[&self.files[&fd]]))
    }

    pub(crate) fn is_queue(&self, fd: u32) -> bool {
        self.files.get(&fd).is_some_and(|file| self.queues.contains_key(file))
    }

    /// Follows a call of the program, with the result `said`.
    pub(crate) fn follow(&mut self, op: &Op, said: &str, opened: Option<Fd>, zero: Instant) {
        let done = said.starts_with("Ok") || said == "()";
        self.hear(op);
        if said.contains("WouldBlock") {
            self.would_block(op);
        }
        match *op {
            Op::Close(fd) => self.closed(fd),
            Op::Abort(fd)
                if said != format!("{:?}", Err::<(), _>(StreamError::from(BadDescriptor::OtherKind))) =>
            {
                self.closed(fd);
            }
            Op::Dup(fd) | Op::DupFrom(fd, _) => {
                if let Some(Fd(new)) = opened {
                    self.opened(new, self.files[&fd]);
                }
            }
            Op::Dup2(fd, new) if done && fd != new => self.opened(new, self.files[&fd]),
            Op::Add(queue, fd, kinds, trigger) | Op::Modify(queue, fd, kinds, trigger) if done => {
                let asked = kinds.union(Kinds::HANG_UP_OR_ERROR);
                let registered = self.queues.get_mut(&self.files[&queue]).unwrap();
                registered.insert(fd, Registration { asked, trigger, due: asked, has_news: false });
            }
            Op::Delete(queue, fd) if done => {
                assert!(self.queues.get_mut(&self.files[&queue]).unwrap().remove(&fd).is_some());
            }
            Op::SetTimer(fd, first, then) if done => {
                let once = zero + Duration::from_millis(u64::from(first) + 10);
                self.expires.insert(self.files[&fd], if then > 200 { Instant::NEVER } else { once });
            }
            _ => {
                if let Some(Fd(new)) = opened {
                    self.last += 1;
                    self.opened(new, self.last);
                    self.kinds.insert(self.last, Kind::opened_by(op));
                    if matches!(op, Op::OpenQueue) {
                        self.queues.insert(self.last, BTreeMap::new());
                    }
                }
            }
        }
    }

    // --- Edges ---

    /// Registrations that wait for an edge, with what their files are.
    fn edges(&mut self) -> impl Iterator<Item = (u32, usize, Kind, &mut Registration)> {
        let Self { queues, files, kinds, .. } = self;
        let all = queues.values_mut().flatten();
        let edges = all.filter(|(_, registration)| registration.trigger == Trigger::Edge);
        edges.map(|(&fd, registration)| (fd, files[&fd], kinds[&files[&fd]], registration))
    }

    /// Records the registrations for which an operation is an event.
    pub(crate) fn hear(&mut self, op: &Op) {
        let of = |fd: u32| self.files.get(&fd).copied();
        let kind_of = |fd: u32| Some(self.kinds[&of(fd)?]);
        // What is sent to the port of something else may be for any socket.
        let to_port = |fd: u32| (of(fd), kind_of(fd) == Some(Kind::Udp));
        let is_new: Box<dyn Fn(usize, Kind) -> bool> = match *op {
            Op::Send(fd, _) => {
                let (at, is_exact) = to_port(fd);
                Box::new(move |file, kind| kind == Kind::Udp && (!is_exact || Some(file) == at))
            }
            Op::Frames(To::Port(fd), _) => {
                let (at, is_exact) = to_port(fd);
                Box::new(move |file, kind| match kind {
                    Kind::Udp => !is_exact || Some(file) == at,
                    kind => kind == Kind::Capture,
                })
            }
            Op::Frames(To::Group, _) => Box::new(|_, kind| matches!(kind, Kind::Group | Kind::Capture)),
            Op::Frames(To::Beyond, _) => Box::new(|_, kind| matches!(kind, Kind::Screen | Kind::Capture)),
            // What waits in a channel is processed when there is time: then it is heard of again.
            Op::Busy(_) => Box::new(|_, kind| kind.has_channel()),
            // Whoever reads from the channel of a group puts what is there before all members.
            Op::Receive(fd, _) if kind_of(fd) == Some(Kind::Group) => Box::new(|_, kind| kind == Kind::Group),
            // Whoever reads from a channel processes what is there: that is heard of again, too.
            Op::Receive(fd, _) if self.is_lazy && kind_of(fd).is_some_and(Kind::has_channel) => {
                let at = of(fd);
                Box::new(move |file, _| Some(file) == at)
            }
            Op::Post(fd) => {
                let at = of(fd);
                Box::new(move |file, _| Some(file) == at)
            }
            Op::Connect
            | Op::Accept(_)
            | Op::Close(_)
            | Op::Dup2(..)
            | Op::Abort(_)
            | Op::Read(..)
            | Op::Write(..)
            | Op::Shutdown(_)
            | Op::ConnectTo(_)
            | Op::PeerWrites(..)
            | Op::PeerReads(_)
            | Op::PeerCloses(_)
            | Op::PeerAborts(_) => Box::new(|_, kind| kind.is_of_tcp()),
            _ => return,
        };
        for (_, file, kind, registration) in self.edges() {
            registration.has_news |= is_new(file, kind);
        }
    }

    /// Follows a call that has found nothing at a descriptor: its registrations must report when there is
    /// something again.
    fn would_block(&mut self, op: &Op) {
        let (fd, kinds) = match *op {
            Op::Accept(fd) | Op::Receive(fd, _) | Op::Read(fd, _) | Op::Posted(fd) | Op::Expirations(fd) => {
                (fd, Kinds::READABLE)
            }
            Op::Write(fd, _) => (fd, Kinds::WRITABLE),
            _ => return,
        };
        let at = self.files[&fd];
        for (.., registration) in self.edges().filter(|&(_, file, ..)| file == at) {
            registration.due = registration.due.union(kinds.intersection(registration.asked));
        }
    }

    /// Follows a time in which the world was quiet, after which `truth` is the state.
    ///
    /// A kind that does not hold must be reported when it holds again. The exception is a descriptor behind
    /// a channel, under the lazy architectures: the next frame is reported only to a program that has found
    /// nothing itself.
    pub(crate) fn rest(&mut self, since: Instant, truth: &BTreeMap<u32, Kinds>) {
        let is_lazy = self.is_lazy;
        let expires = self.expires.clone();
        for (fd, file, kind, registration) in self.edges() {
            registration.has_news |= expires.get(&file).is_some_and(|&until| until >= since);
            if !(is_lazy && kind.has_channel()) {
                registration.due = registration.due.union(registration.asked.without(truth[&fd]));
            }
        }
    }

    // --- Event queues ---

    /// Returns the expected reports of an event queue under the state `truth`; `None` if the descriptor is
    /// none.
    pub(crate) fn reports(&self, queue: u32, truth: &BTreeMap<u32, Kinds>) -> Option<Reports> {
        let registered = self.queues.get(self.files.get(&queue)?)?;
        let reports = registered.iter().filter_map(|(&fd, registration)| {
            let (kinds, is_certain) = match self.reports(fd, truth) {
                Some(inner) => {
                    (Kinds::READABLE.when(!inner.is_empty()), inner.values().any(|report| report.must))
                }
                None => (truth[&fd], true),
            };
            let kinds = kinds.intersection(registration.asked);
            let is_due = kinds.intersects(registration.due);
            // An event queue hears of whatever its registrations hear.
            let may = registration.trigger == Trigger::Edge && (registration.has_news || self.is_queue(fd));
            let report = Report { kinds, must: is_certain && is_due };
            (!kinds.is_empty() && (is_due || may)).then_some((fd, report))
        });
        Some(reports.collect())
    }

    /// Records that an event queue has reported these events.
    pub(crate) fn taken(&mut self, queue: u32, taken: &BTreeMap<u32, Kinds>) {
        let registered = self.queues.get_mut(&self.files[&queue]).unwrap();
        for (fd, registration) in registered {
            // What it has kept to itself was no news.
            registration.has_news = false;
            let Some(&kinds) = taken.get(fd) else { continue };
            registration.due = match registration.trigger {
                Trigger::Level => registration.due,
                Trigger::Edge => registration.asked.without(kinds),
                Trigger::OneShot => Kinds::NONE,
            };
        }
    }
}

/// Returns the element of these that `n` selects, or else `n`.
fn nth(n: u32, fds: impl Iterator<Item = u32>) -> u32 {
    let fds: Vec<_> = fds.collect();
    if n < AIMED && !fds.is_empty() { fds[n as usize % fds.len()] } else { n }
}

/// Returns an operation that causes an event on such a descriptor.
fn news(n: u32, fd: u32, kind: Kind) -> Op {
    match kind {
        Kind::Udp => Op::Send(fd, 1),
        Kind::Group => Op::Frames(To::Group, vec![false]),
        Kind::Capture | Kind::Screen => Op::Frames(To::Beyond, vec![false]),
        Kind::Listener => Op::ConnectTo(fd),
        Kind::Stream => Op::PeerWrites(n as usize, 100),
        Kind::Timer => Op::SetTimer(fd, 100, 0),
        Kind::UserEvent => Op::Post(fd),
        Kind::Queue => Op::OpenUserEvent,
    }
}

/// Returns an operation that takes everything from such a descriptor.
fn drain(fd: u32, kind: Kind) -> Op {
    match kind {
        Kind::Udp | Kind::Group | Kind::Capture | Kind::Screen => Op::Receive(fd, 16),
        Kind::Listener => Op::Accept(fd),
        Kind::Stream => Op::Read(fd, 1 << 20),
        Kind::Timer => Op::Expirations(fd),
        Kind::UserEvent => Op::Posted(fd),
        Kind::Queue => Op::Take(fd),
    }
}

/// Returns an error if the events taken from an event queue contradict the expected reports.
pub(crate) fn check(taken: &BTreeMap<u32, Kinds>, reports: &Reports) -> Result<(), String> {
    for (fd, kinds) in taken {
        if reports.get(fd).is_none_or(|report| report.kinds != *kinds) {
            return Err(format!("{fd} reports {kinds:?}"));
        }
    }
    match reports.iter().find(|(fd, report)| report.must && !taken.contains_key(fd)) {
        Some((fd, _)) => Err(format!("{fd} is silent")),
        None => Ok(()),
    }
}
