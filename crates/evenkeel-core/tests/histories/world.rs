//! A host with a program, and its peers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Wake, Waker};

use evenkeel_core::cable::{End, Options, pair};
use evenkeel_core::frame::Pool;
use evenkeel_core::host::{Config, System};
use evenkeel_core::interface::Interface;
use evenkeel_core::process::{ProcessId, Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::{Allocation, Event, Fd, FdSets, Kinds, PollEntry, Select, StreamError};
use evenkeel_core::stack::{self, IpEndpoint};
use evenkeel_core::system::{EventQueue, TcpListener, TcpStream, UdpSocket};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{EthernetAddress, IpAddress, IpCidr, Ipv4Address, Ipv4Packet, UdpPacket};

use crate::common::router::{FAR, FAR_MAC, WAN, WAN_HOST, WAN_MAC};
use crate::common::two::{A, B, Two, address};
use crate::common::{UNIT, udp_between};
use crate::ops::{Op, To};
use crate::{LIMIT, READ_OR_WRITE};

pub(crate) const GROUP: Ipv4Address = Ipv4Address::new(239, 1, 2, 3);
pub(crate) const GROUP_PORT: u16 = 90;
const GROUP_MAC: EthernetAddress = EthernetAddress([0x01, 0x00, 0x5e, 0x01, 0x02, 0x03]);

/// The call in which the program sleeps.
#[derive(Debug, Clone, Default)]
pub(crate) enum Sleep {
    #[default]
    Nowhere,
    Select(FdSets),
    Poll(Vec<PollEntry>),
    On(Fd),
}

impl Sleep {
    /// Makes the call. Returns whether it has found nothing.
    fn call(&self, system: &mut System<'_>) -> bool {
        match self {
            Self::Select(sets) => system.select(sets, &mut FdSets::new()) == Ok(0),
            Self::Poll(entries) => system.poll(&mut entries.clone()) == 0,
            Self::Nowhere | Self::On(_) => false,
        }
    }

    /// Returns the descriptors in the call that are ready under the state `truth`, those included that are
    /// closed.
    pub(crate) fn ready(&self, truth: &BTreeMap<u32, Kinds>) -> Vec<u32> {
        let down = Kinds::HANG_UP_OR_ERROR.union(Kinds::INVALID);
        let holds =
            |fd: u32, kinds: Kinds| truth.get(&fd).is_none_or(|ready| ready.intersects(kinds.union(down)));
        match self {
            Self::Nowhere => Vec::new(),
            Self::Select(sets) => {
                let read = sets.read.iter().filter(|&fd| holds(fd, Kinds::READABLE));
                read.chain(sets.write.iter().filter(|&fd| holds(fd, Kinds::WRITABLE))).collect()
            }
            Self::Poll(entries) => {
                entries.iter().filter(|entry| holds(entry.fd, entry.events)).map(|entry| entry.fd).collect()
            }
            Self::On(fd) => Some(fd.0).filter(|&fd| holds(fd, Kinds::READABLE)).into_iter().collect(),
        }
    }
}

type Job = Box<dyn FnOnce(&mut System<'_>) + Send>;

/// The instructions of the test to a program of the host.
#[derive(Default)]
pub(crate) struct Script {
    job: Option<Job>,
    pub(crate) sleep: Sleep,
}

/// A program that follows its script, and sleeps as the script says.
struct Puppet {
    script: Arc<Mutex<Script>>,
    sleeps: bool,
}

impl std::fmt::Debug for Puppet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Puppet")
    }
}

impl Program for Puppet {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let mut script = self.script.lock().unwrap();
        if let Some(job) = script.job.take() {
            self.sleeps = false;
            job(system);
            return Step::Again;
        }
        match &script.sleep {
            Sleep::On(fd) if !core::mem::replace(&mut self.sleeps, true) => return Step::Wait(*fd),
            sleep if sleep.call(system) => return Step::Block(Instant::NEVER),
            _ => {}
        }
        script.sleep = Sleep::Nowhere;
        Step::Sleep(Instant::NEVER)
    }
}

/// Computes as long as its flag is set.
#[derive(Debug)]
struct Spinner(Arc<AtomicBool>);

impl Program for Spinner {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        if self.0.load(Ordering::Relaxed) {
            system.compute(Duration::from_micros(200));
            return Step::Again;
        }
        Step::Sleep(Instant::NEVER)
    }
}

#[derive(Debug, Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The caller: a program of the host, or a thread outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Program,
    Thread,
}

pub(crate) struct World {
    pub(crate) two: Two,
    pub(crate) script: Arc<Mutex<Script>>,
    pub(crate) me: ProcessId,
    who: Who,
    bell: Arc<Bell>,
    waker: Waker,
    spinner: ProcessId,
    spins: Arc<AtomicBool>,
    /// Of the peer.
    socket: UdpSocket,
    listener: TcpListener,
    streams: Vec<TcpStream>,
    /// The other end of a second interface, where frames are made by hand.
    wire: End,
    pool: Pool,
}

impl World {
    pub(crate) fn new(architecture: Architecture, who: Who, select: Select) -> Self {
        let allocation = if select == Select::Classic { Allocation::Linear } else { Allocation::Bitmap };
        let mut two = Two::with(|side| match side {
            A => Config {
                select,
                allocation,
                descriptors_max: LIMIT,
                socket_queue_pkts: 4,
                channel_pkts: 8,
                stack: stack::Config {
                    forwarding: true,
                    report_groups: false,
                    ..Config::of(architecture).stack
                },
                ..Config::of(architecture)
            },
            _ => Config::default(),
        });
        let (wire, pool) = wire(&mut two, architecture);
        let script = Arc::<Mutex<Script>>::default();
        let me = match who {
            Who::Thread => two.me[A],
            Who::Program => {
                let puppet = Puppet { script: Arc::clone(&script), sleeps: false };
                two.hosts[A].spawn("puppet", 0, Box::new(puppet))
            }
        };
        let spins = Arc::<AtomicBool>::default();
        let spinner = two.hosts[A].spawn("spinner", 0, Box::new(Spinner(Arc::clone(&spins))));
        let socket = two.call(B, |system| UdpSocket::bind(system, None, 50)).unwrap();
        let listener = two.listen();
        let bell = Arc::<Bell>::default();
        let waker = Waker::from(Arc::clone(&bell));
        Self {
            two,
            script,
            me,
            who,
            bell,
            waker,
            spinner,
            spins,
            socket,
            listener,
            streams: Vec::new(),
            wire,
            pool,
        }
    }

    pub(crate) fn set_busy(&mut self, busy: bool) {
        self.spins.store(busy, Ordering::Relaxed);
        self.two.hosts[A].wake_process(self.spinner, self.two.now);
    }

    /// Makes calls as the program.
    pub(crate) fn call<T: Send + 'static>(
        &mut self,
        call: impl FnOnce(&mut System<'_>) -> T + Send + 'static,
    ) -> T {
        let now = self.two.now;
        if self.who == Who::Thread {
            return self.two.hosts[A].enter(self.me, now, call).unwrap();
        }
        let (said, hear) = mpsc::channel();
        let job: Job = Box::new(move |system| said.send(call(system)).unwrap());
        self.script.lock().unwrap().job = Some(job);
        self.two.hosts[A].wake_process(self.me, now);
        for _ in 0..10_000 {
            if let Ok(result) = hear.try_recv() {
                return result;
            }
            let host = &mut self.two.hosts[A];
            let ran = host.turn(self.two.now).expect("it is awake");
            self.two.now += UNIT;
            host.charge(&ran, UNIT);
            host.finish(&ran, self.two.now);
        }
        panic!("the program never has its turn");
    }

    pub(crate) fn sleep(&mut self, sleep: Sleep) {
        let before = core::mem::replace(&mut self.script.lock().unwrap().sleep, sleep);
        match self.who {
            Who::Program => self.call(|_| ()),
            Who::Thread => {
                if let Sleep::On(fd) = before {
                    let waker = self.waker.clone();
                    self.call(move |system| system.forget(fd, &waker));
                }
                self.fall_asleep();
            }
        }
    }

    /// Makes the call in which a thread outside sleeps.
    pub(crate) fn fall_asleep(&mut self) {
        let (sleep, waker) = (self.script.lock().unwrap().sleep.clone(), self.waker.clone());
        self.bell.0.store(false, Ordering::Relaxed);
        let sleeps = self.call(move |system| match sleep {
            Sleep::On(fd) => system.wait(fd, Kinds::READABLE, &waker).is_empty(),
            _ => sleep.call(system) && !system.block(&waker),
        });
        if !sleeps {
            self.script.lock().unwrap().sleep = Sleep::Nowhere;
        }
    }

    pub(crate) fn run_until(&mut self, until: Instant) {
        self.two.run(until.since(self.two.now));
        while self.who == Who::Thread && self.bell.0.swap(false, Ordering::Relaxed) {
            // Whoever waits for one descriptor knows enough.
            let mut script = self.script.lock().unwrap();
            if matches!(script.sleep, Sleep::On(_)) {
                script.sleep = Sleep::Nowhere;
            }
            drop(script);
            self.fall_asleep();
        }
    }

    pub(crate) fn peer(&mut self, op: &Op) {
        while let Ok((stream, _)) = self.two.call(B, |system| self.listener.accept(system)) {
            self.streams.push(stream);
        }
        let port_of =
            |world: &mut Self, fd: u32| world.call(move |system| UdpSocket::from(Fd(fd)).port(system)).ok();
        let (socket, nth) = (self.socket, |nth: usize, streams: &[TcpStream]| {
            (!streams.is_empty()).then(|| nth % streams.len())
        });
        match *op {
            Op::Send(fd, datagrams) => {
                let Some(port) = port_of(self, fd) else { return };
                for n in 0..datagrams {
                    let to = IpEndpoint::new(address(A), port);
                    self.two.call(B, |system| socket.send(system, to, &vec![0; n])).unwrap();
                }
            }
            Op::Frames(to, ref wrong) => {
                let port = if let To::Port(fd) = to { port_of(self, fd) } else { Some(GROUP_PORT) };
                let Some(port) = port else { return };
                self.frames(to, port, wrong);
            }
            Op::ConnectTo(fd) => {
                let Some(port) = port_of(self, fd) else { return };
                let to = IpEndpoint::new(address(A), port);
                self.streams.extend(self.two.call(B, |system| TcpStream::connect(system, to)).ok());
            }
            Op::PeerWrites(n, len) => {
                let Some(n) = nth(n, &self.streams) else { return };
                let _ = self.two.call(B, |system| self.streams[n].write(system, &vec![1; len]));
            }
            Op::PeerReads(n) => {
                let Some(n) = nth(n, &self.streams) else { return };
                let _ = self.two.call(B, |system| self.streams[n].read(system, &mut vec![0; 1 << 20]));
            }
            Op::PeerCloses(n) => {
                let Some(n) = nth(n, &self.streams) else { return };
                let stream = self.streams.remove(n);
                self.two.call(B, |system| system.close(stream));
            }
            Op::PeerAborts(n) => {
                let Some(n) = nth(n, &self.streams) else { return };
                let stream = self.streams.remove(n);
                let _: Result<(), StreamError> = self.two.call(B, |system| stream.abort(system));
            }
            _ => unreachable!("{op:?}"),
        }
    }

    /// Sends frames on the wire, some of them wrong.
    fn frames(&mut self, to: To, port: u16, wrong: &[bool]) {
        let (mac, to, ip_is_wrong) = match to {
            To::Port(_) => (WAN_MAC, WAN_HOST, false),
            To::Group => (GROUP_MAC, GROUP, false),
            To::Beyond => (WAN_MAC, Ipv4Address::new(10, 0, 0, 2), true),
        };
        for &is_wrong in wrong {
            let mut frame = udp_between(FAR, mac, to, port, b"by hand");
            match (is_wrong, ip_is_wrong) {
                (true, true) => Ipv4Packet::new_unchecked(&mut frame[14..]).set_checksum(0x1234),
                (true, false) => UdpPacket::new_unchecked(&mut frame[34..]).set_checksum(0x1234),
                (false, _) => {}
            }
            self.wire.send(&frame);
        }
        self.wire.flush();
        while let Some(frame) = self.wire.queue_mut(0).take(&mut self.pool) {
            self.pool.recycle(frame);
        }
    }

    /// Returns the ready kinds of each descriptor, without closed ones.
    pub(crate) fn ready(&mut self, fds: impl Iterator<Item = u32>) -> BTreeMap<u32, Kinds> {
        let mut entries: Vec<_> = fds.map(|fd| PollEntry::new(fd, READ_OR_WRITE)).collect();
        if entries.is_empty() {
            return BTreeMap::new();
        }
        let entries = self.call(move |system| {
            system.poll(&mut entries);
            entries
        });
        self.call_again();
        let open = entries.into_iter().filter(|entry| !entry.ready.intersects(Kinds::INVALID));
        open.map(|entry| (entry.fd, entry.ready)).collect()
    }

    /// Returns to sleep after a call: a thread that slept in another call sleeps on in that.
    pub(crate) fn call_again(&mut self) {
        let is_on = matches!(self.script.lock().unwrap().sleep, Sleep::On(_));
        if self.who == Who::Thread && !is_on {
            self.fall_asleep();
        }
    }

    /// Takes the events of an event queue; `None` if the descriptor is none.
    pub(crate) fn take(&mut self, queue: u32) -> Option<BTreeMap<u32, Kinds>> {
        self.call(move |system| {
            let mut events = [Event::default(); 16];
            let taken = EventQueue::from(Fd(queue)).take(system, &mut events).ok()?;
            let reports: BTreeMap<_, _> = events[..taken].iter().map(|e| (Fd::of(e).0, e.ready)).collect();
            assert_eq!(reports.len(), taken, "one is reported twice");
            Some(reports)
        })
    }
}

/// Creates a second interface of host A, and its other end.
fn wire(two: &mut Two, architecture: Architecture) -> (End, Pool) {
    let demultiplexes = architecture == Architecture::NiLrp;
    let inside = Options { demultiplexes, ring_pkts: 64, ..Options::new("inside", 4) };
    let (mut wire, inside) = pair(Options { ring_pkts: 256, ..Options::new("wire", 3) }, inside);
    let host = &mut two.hosts[A];
    host.add_interface(Box::new(inside), &[IpCidr::new(WAN_HOST.into(), 24)], Instant::ZERO).unwrap();
    host.set_neighbor(WAN, IpAddress::Ipv4(FAR), FAR_MAC, Instant::ZERO).unwrap();
    let mut pool = Pool::with_limit(1024);
    wire.attach(&mut pool).unwrap();
    (wire, pool)
}
