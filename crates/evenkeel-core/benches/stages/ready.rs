//! The cost for a program of a host to find which of very many descriptors are ready. The descriptors are
//! user events, and 64 of them are posted to.

use evenkeel_core::host::{Config, Host};
use evenkeel_core::process::ProcessId;
use evenkeel_core::socket::{Event, Fd, FdSets, Interest, Kinds, Select, Trigger};
use evenkeel_core::system::{EventQueue, UserEvent};
use evenkeel_core::time::Instant;

use crate::batch::{BATCH, Batch, Stage};

pub(crate) fn stages() -> impl Iterator<Item = Stage> {
    [
        Stage::new("event queue: 1 000 idle", || Events::of(1_000)),
        Stage::new("event queue: 100 000 idle", || Events::of(100_000)),
        Stage::new("select: 1 000 idle", || Selecting::of(1_000, Select::WithMemory)),
        Stage::new("select: 100 000 idle", || Selecting::of(100_000, Select::WithMemory)),
        Stage::new("select, classic: 1 000 idle", || Selecting::of(1_000, Select::Classic)),
    ]
    .into_iter()
}

/// A process with so many user events, and those among them that are posted to.
struct Idle {
    host: Host,
    me: ProcessId,
    all: Vec<UserEvent>,
    hot: Vec<UserEvent>,
}

impl Idle {
    fn of(many: usize, select: Select) -> Self {
        let mut host = Host::new(Config { select, ..Config::default() }).unwrap();
        let me = host.attach("idle", 0, Instant::ZERO);
        let open = |_| host.enter(me, Instant::ZERO, UserEvent::open).unwrap().unwrap();
        let all: Vec<_> = (0..many).map(open).collect();
        let hot = all.iter().copied().step_by(many / BATCH).take(BATCH).collect();
        Self { host, me, all, hot }
    }

    fn post(&mut self) {
        let Self { host, me, hot, .. } = self;
        let post = |event: &UserEvent| {
            host.enter(*me, Instant::ZERO, |system| event.post(system, 1)).unwrap().unwrap()
        };
        hot.iter().for_each(post);
    }
}

/// A batch that takes all events at once, then what they are about.
struct Events {
    idle: Idle,
    queue: EventQueue,
}

impl Events {
    fn of(many: usize) -> Self {
        let mut idle = Idle::of(many, Select::default());
        let Idle { host, me, all, .. } = &mut idle;
        let queue = host.enter(*me, Instant::ZERO, |system| {
            let queue = EventQueue::open(system).unwrap();
            for &fd in &*all {
                let interest =
                    Interest { events: Kinds::READABLE, trigger: Trigger::Level, token: fd.fd().token() };
                queue.add(system, fd, interest).unwrap();
            }
            queue
        });
        Self { queue: queue.unwrap(), idle }
    }
}

impl Batch for Events {
    fn prepare(&mut self) {
        self.idle.post();
    }

    fn run(&mut self) {
        let Self { idle: Idle { host, me, .. }, queue } = self;
        let served = host.enter(*me, Instant::ZERO, |system| {
            let mut events = [Event::default(); BATCH];
            let ready = (*queue).take(system, &mut events).unwrap();
            events[..ready].iter().for_each(|event| _ = UserEvent::of(event).posted(system).unwrap());
            ready
        });
        assert_eq!(served.unwrap(), BATCH);
    }
}

/// A batch that finds what is ready through `select`.
struct Selecting {
    idle: Idle,
    selecting: FdSets,
    found: FdSets,
}

impl Selecting {
    fn of(many: usize, select: Select) -> Self {
        let idle = Idle::of(many, select);
        let mut selecting = FdSets::new();
        selecting.read.extend(idle.all.iter().map(|fd| fd.fd().0));
        let mut new = Self { idle, selecting, found: FdSets::new() };
        // Each is new once.
        new.prepare();
        new.run();
        new
    }
}

impl Batch for Selecting {
    fn prepare(&mut self) {
        self.idle.post();
    }

    fn run(&mut self) {
        let Self { idle: Idle { host, me, .. }, selecting, found } = self;
        let served = host.enter(*me, Instant::ZERO, |system| {
            let ready = system.select(selecting, found).unwrap();
            found.read.iter().for_each(|fd| _ = UserEvent::from(Fd(fd)).posted(system).unwrap());
            ready
        });
        assert_eq!(served.unwrap(), BATCH);
    }
}
