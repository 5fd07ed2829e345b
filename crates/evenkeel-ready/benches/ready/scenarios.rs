//! The scenarios that are measured. A process has a number of idle descriptors, and the active ones are
//! spread among them.

use evenkeel_ready::{
    Allocation, AnyNumbers, CallerId, Event, FdSet, FdSets, FileId, Interest, Kinds, Numbers, PollEntry,
    ProcessId, Readiness, Trigger, Wait, classic,
};

/// A function that performs one turn of a scenario.
pub(crate) type Turn = Box<dyn FnMut()>;

pub(crate) struct Scenario {
    pub(crate) name: String,
    /// The number of descriptors, calls or events in a turn.
    pub(crate) things: usize,
    pub(crate) make: Box<dyn Fn() -> Turn>,
}

const READABLE: Kinds = Kinds::READABLE;
/// The number of repetitions in a turn, if the scenario handles one event or descriptor at a time.
const TIMES: usize = 32;

/// Formats a number with a space between thousands: 100000 as 100 000.
fn number(n: u32) -> String {
    let digits = n.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(" ")
}

pub(crate) fn all() -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut add = |name: String, things: usize, make: Box<dyn Fn() -> Turn>| {
        all.push(Scenario { name, things, make });
    };
    for open in [10, 1_000, 100_000, 1_000_000] {
        let name = format!("descriptor, {} open", number(open));
        add(name, TIMES, Box::new(move || allocate_and_free(Allocation::Bitmap, open)));
    }
    for open in [10, 1_000, 100_000] {
        let name = format!("descriptor, linear search, {} open", number(open));
        add(name, TIMES, Box::new(move || allocate_and_free(Allocation::Linear, open)));
    }
    for open in [10, 1_000_000] {
        let name = format!("file opened and closed, {} open", number(open));
        add(name, TIMES, Box::new(move || open_and_close(open)));
        let name = format!("file opened, registered and closed, {} open", number(open));
        add(name, TIMES, Box::new(move || open_register_and_close(open)));
    }
    for (cold, hot) in
        [(1_000, 1), (1_000, 10), (100_000, 1), (100_000, 10), (100_000, 100), (1_000_000, 100)]
    {
        let name = format!("event, select, {} cold, {hot} hot", number(cold));
        add(name, hot as usize, Box::new(move || select(cold, hot)));
    }
    let name = "event, select, 100 000 cold that were written to, 1 hot".to_owned();
    add(name, 1, Box::new(|| select_after_writing(100_000, 1)));
    for (cold, hot) in [(1_000, 1), (100_000, 1), (100_000, 100)] {
        let name = format!("event, classic select, {} cold, {hot} hot", number(cold));
        add(name, hot as usize, Box::new(move || classic_select(cold, hot)));
    }
    for (cold, hot) in [(1_000, 10), (100_000, 100)] {
        let name = format!("event, poll, {} cold, {hot} hot", number(cold));
        add(name, hot as usize, Box::new(move || poll(cold, hot)));
    }
    for trigger in [Trigger::Level, Trigger::Edge] {
        for idle in [1_000, 1_000_000] {
            let name = |how: &str| format!("event, queue, {trigger:?}, {} idle, {how}", number(idle));
            add(name("one a call"), TIMES, Box::new(move || wait(trigger, idle, 1)));
            add(name("32 a call"), TIMES, Box::new(move || wait(trigger, idle, TIMES)));
            add(name("the caller asleep"), TIMES, Box::new(move || sleep_and_wake(trigger, idle)));
        }
    }
    for idle in [1_000, 1_000_000] {
        let name = format!("registration added and deleted, {} idle", number(idle));
        add(name, TIMES, Box::new(move || add_and_delete(idle)));
    }
    add("hint, nobody interested".to_owned(), TIMES, Box::new(|| hint(0)));
    add("hint, registered for something else".to_owned(), TIMES, Box::new(hint_of_something_else));
    add("hint, of 1 000 callers one interested".to_owned(), TIMES, Box::new(|| hint(1)));
    all
}

fn allocate_and_free(allocation: Allocation, open: u32) -> Turn {
    let mut numbers = AnyNumbers::new(allocation, 2_000_000);
    (0..open).for_each(|number| _ = numbers.claim(number));
    Box::new(move || {
        for _ in 0..TIMES {
            let number = numbers.allocate().unwrap();
            numbers.free(number);
        }
    })
}

/// A process, its caller, and its open descriptors.
struct Server {
    host: Readiness<u32>,
    process: ProcessId,
    caller: CallerId,
    files: Vec<FileId>,
    fds: Vec<u32>,
    /// Which objects are ready.
    ready: Vec<bool>,
    /// Those in which something happens, spread among the others.
    hot: Vec<u32>,
}

impl Server {
    fn new(cold: u32, hot: u32) -> Self {
        let open = cold + hot;
        let mut host = Readiness::new(Allocation::Bitmap);
        let process = host.spawn(open + 1_000);
        let opened: Vec<_> = (0..open).map(|object| host.open(process, object).unwrap()).collect();
        Self {
            caller: host.attach(process),
            host,
            process,
            files: opened.iter().map(|opened| opened.file).collect(),
            fds: opened.iter().map(|opened| opened.fd).collect(),
            ready: vec![false; open as usize],
            hot: (0..hot).map(|nth| nth * (open / hot)).collect(),
        }
    }

    /// Makes data arrive for all hot files.
    fn arrive(&mut self) {
        for object in &self.hot {
            self.ready[*object as usize] = true;
            self.host.hint(self.files[*object as usize], READABLE);
        }
    }

    fn sets(&self) -> FdSets {
        FdSets { read: self.fds.iter().copied().collect(), ..FdSets::new() }
    }

    /// Whoever finds one ready reads what there is.
    fn read(&mut self, fds: &FdSet) {
        fds.iter().for_each(|fd| self.ready[fd as usize] = false);
    }
}

fn open_and_close(open: u32) -> Turn {
    let mut server = Server::new(open, 1);
    Box::new(move || {
        for _ in 0..TIMES {
            let fd = server.host.open(server.process, 0).unwrap().fd;
            server.host.close(server.process, fd).unwrap();
        }
    })
}

fn open_register_and_close(open: u32) -> Turn {
    let (mut server, queue) = registered(open, 1, Trigger::Level);
    Box::new(move || {
        for token in 0..TIMES as u64 {
            let fd = server.host.open(server.process, 0).unwrap().fd;
            let interest = Interest { events: READABLE, trigger: Trigger::Level, token };
            server.host.add(server.process, queue, fd, interest, |_, _| Kinds::NONE).unwrap();
            server.host.close(server.process, fd).unwrap();
        }
    })
}

fn select(cold: u32, hot: u32) -> Turn {
    select_by(Server::new(cold, hot), hot)
}

/// All have answered a request once, for which there was no room at first, and now wait for another one.
fn select_after_writing(cold: u32, hot: u32) -> Turn {
    let mut server = Server::new(cold, hot);
    let selecting = FdSets { write: server.sets().read, ..FdSets::new() };
    let (host, found) = (&mut server.host, &mut FdSets::new());
    host.select(server.caller, &selecting, found, Wait::No, |_, _| Kinds::NONE).unwrap();
    server.files.iter().for_each(|file| host.hint(*file, Kinds::WRITABLE));
    select_by(server, hot)
}

fn select_by(mut server: Server, hot: u32) -> Turn {
    let (selecting, mut found) = (server.sets(), FdSets::new());
    Box::new(move || {
        server.arrive();
        let Server { host, caller, ready, .. } = &mut server;
        let status = |object: u32, _| READABLE.when(ready[object as usize]);
        let answer = host.select(*caller, &selecting, &mut found, Wait::No, status).unwrap();
        assert_eq!(answer.ready, hot as usize);
        server.read(&found.read);
    })
}

fn classic_select(cold: u32, hot: u32) -> Turn {
    let mut server = Server::new(cold, hot);
    let (selecting, mut found) = (server.sets(), FdSets::new());
    Box::new(move || {
        server.arrive();
        let ready = &server.ready;
        let status = |fd: u32, _| Some(READABLE.when(ready[fd as usize]));
        let answer = classic::select(&selecting, &mut found, status).unwrap();
        assert_eq!(answer.ready, hot as usize);
        server.read(&found.read);
    })
}

fn poll(cold: u32, hot: u32) -> Turn {
    let mut server = Server::new(cold, hot);
    let mut entries: Vec<_> = server.fds.iter().map(|fd| PollEntry::new(*fd, READABLE)).collect();
    Box::new(move || {
        server.arrive();
        let Server { host, caller, ready, .. } = &mut server;
        let status = |object: u32, _| READABLE.when(ready[object as usize]);
        let answer = host.poll(*caller, &mut entries, Wait::No, status);
        assert_eq!(answer.ready, hot as usize);
        entries.iter().filter(|entry| !entry.ready.is_empty()).for_each(|e| ready[e.fd as usize] = false);
    })
}

/// Creates a server with all files registered, and its event queue.
fn registered(idle: u32, hot: u32, trigger: Trigger) -> (Server, u32) {
    let mut server = Server::new(idle, hot);
    let queue = server.host.open_queue(server.process).unwrap().fd;
    for fd in &server.fds {
        let interest = Interest { events: READABLE, trigger, token: u64::from(*fd) };
        server.host.add(server.process, queue, *fd, interest, |_, _| Kinds::NONE).unwrap();
    }
    (server, queue)
}

fn wait(trigger: Trigger, idle: u32, hot: usize) -> Turn {
    let (mut server, queue) = registered(idle, hot as u32, trigger);
    let mut events = [Event::default(); TIMES];
    Box::new(move || {
        for _ in 0..TIMES / hot {
            server.arrive();
            let Server { host, caller, ready, .. } = &mut server;
            let status = |object: u32, _| READABLE.when(ready[object as usize]);
            let answer = host.wait(*caller, queue, &mut events, Wait::No, status).unwrap();
            assert_eq!(answer.ready, hot);
            events[..hot].iter().for_each(|event| ready[event.token as usize] = false);
        }
    })
}

/// Measures a sleeping caller: it is woken, takes the event and reads, and finding nothing more falls asleep
/// again.
fn sleep_and_wake(trigger: Trigger, idle: u32) -> Turn {
    let (mut server, queue) = registered(idle, 1, trigger);
    let mut events = [Event::default(); 1];
    let nothing = |_, _| Kinds::NONE;
    server.host.wait(server.caller, queue, &mut events, Wait::UntilReady, nothing).unwrap();
    Box::new(move || {
        for _ in 0..TIMES {
            server.arrive();
            let Server { host, caller, ready, .. } = &mut server;
            assert_eq!(host.next_woken(), Some(*caller));
            let status = |object: u32, _| READABLE.when(ready[object as usize]);
            let answer = host.wait(*caller, queue, &mut events, Wait::UntilReady, status).unwrap();
            assert_eq!((answer.ready, answer.tests), (1, 1));
            ready[events[0].token as usize] = false;
            let status = |object: u32, _| READABLE.when(ready[object as usize]);
            let answer = host.wait(*caller, queue, &mut events, Wait::UntilReady, status).unwrap();
            assert_eq!((answer.ready, answer.tests), (0, usize::from(trigger == Trigger::Level)));
        }
    })
}

fn add_and_delete(idle: u32) -> Turn {
    let (mut server, queue) = registered(idle, 1, Trigger::Level);
    let fd = server.host.open(server.process, 0).unwrap().fd;
    Box::new(move || {
        for token in 0..TIMES as u64 {
            let interest = Interest { events: READABLE, trigger: Trigger::Level, token };
            server.host.add(server.process, queue, fd, interest, |_, _| Kinds::NONE).unwrap();
            server.host.delete(server.process, queue, fd).unwrap();
        }
    })
}

/// Measures a hint to write for a file that is registered for reading.
fn hint_of_something_else() -> Turn {
    let (mut server, _) = registered(1, 1, Trigger::Level);
    Box::new(move || (0..TIMES).for_each(|_| server.host.hint(server.files[0], Kinds::WRITABLE)))
}

/// Measures a process with very many callers: this many wait for the first file, and the others for the
/// second.
fn hint(interested: usize) -> Turn {
    let mut server = Server::new(0, 2);
    let sets = [0, 1].map(|nth| FdSets { read: [server.fds[nth]].into_iter().collect(), ..FdSets::new() });
    for nth in 0..1_000 {
        let caller = server.host.attach(server.process);
        let selecting = &sets[usize::from(nth >= interested)];
        server.host.select(caller, selecting, &mut FdSets::new(), Wait::No, |_, _| Kinds::NONE).unwrap();
    }
    Box::new(move || (0..TIMES).for_each(|_| server.host.hint(server.files[0], READABLE)))
}
