//! A whole host on a cable. The counters add up after every step, and the host comes to rest. It still serves
//! a new program after any script, and in the end no buffer is missing.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use evenkeel_core::cable::{Completion, End, Options, pair};
use evenkeel_core::capture::Capture;
use evenkeel_core::frame::Pool;
use evenkeel_core::host::{Config, Host, PaperPolicies, System, Transmit, TransmitService};
use evenkeel_core::interface::Interface;
use evenkeel_core::ledger::Ledger;
use evenkeel_core::poll::{
    CycleLimit, Feedback, FeedbackBy, Inhibition, NetworkPolling, Quota, TaskWeights, TickSampling,
};
use evenkeel_core::process::{ProcessId, Program, Step};
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::screen::Verdict;
use evenkeel_core::socket::{Event, Fd, FdSets, Interest, Kinds, PollEntry, Trigger};
use evenkeel_core::stack::{self, InterfaceId, IpEndpoint, Transit};
use evenkeel_core::system::{CaptureSocket, EventQueue, Screen, Timer, UdpSocket, UserEvent};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr};

use super::frames::{FROM_V4, FROM_V6, GROUP, GROUP_V6, HOST, HOST_V6, PORTS, datagram, frame, noise};
use super::{Script, sent};

const UNIT: Duration = Duration::from_micros(1);
const MEMORY_PKTS: usize = 1024;
const RING_PKTS: usize = 16;
const TRANSMIT_RING_PKTS: usize = 4;
const PUPPETS: usize = 3;
/// The number of frames sent to a new program. The first ones may find input inhibited or a ring full.
const CALLS: usize = 50;
/// More work items than any script can cause between two moments of rest.
const UNITS_TO_REST: usize = 100_000;

/// Runs the script; returns the counters, which show how far it got.
pub fn run(input: &[u8]) -> Ledger {
    let mut script = Script(input);
    let mut world = World::new(&mut script);
    while !script.is_over() {
        world.act(&mut script);
        world.check();
    }
    world.end();
    world.host.ledger().clone()
}

fn config(script: &mut Script<'_>) -> Config {
    let (architecture, options, more) = (script.pick(&Architecture::ALL), script.byte(), script.byte());
    let base = Config::of(architecture);
    let feedback =
        Feedback { timeout: UNIT * 50, resume_on_space: options & 128 == 0, ..Feedback::default() };
    let alternatives = more & 32 != 0;
    let by = if alternatives { FeedbackBy::Length } else { FeedbackBy::Marks };
    let polling = NetworkPolling { aggregation_quota: 2, shortest: UNIT * 20, longest: UNIT * 400 };
    let sampling = TickSampling { tick: UNIT * 20, samples: 2, pause_ticks: 2 };
    let services = [TransmitService::InTurn, TransmitService::ReceiveFirst, TransmitService::LowerLevel];
    Config {
        device_work: if options & 1 == 0 { DeviceWork::Polled } else { DeviceWork::Interrupt },
        feedback: base
            .feedback
            .map(|f| Feedback { scope: f.scope, by, ..feedback })
            .filter(|_| options & 2 == 0),
        batch_pkts: if options & 4 == 0 { 1 } else { 16 },
        cycle_limit: (options & 8 != 0)
            .then_some(CycleLimit { period: Duration::from_millis(10), percent: 50 }),
        quota: if more & 128 == 0 { Quota::Fixed(4) } else { Quota::Dynamic },
        paper_policies: PaperPolicies {
            tick_sampling: alternatives.then_some(sampling),
            real_time_tasks: alternatives.then_some(TaskWeights { receive: 2, transmit: 1 }),
            limit_interrupts: options & 16 != 0,
            transmit: if options & 32 == 0 { Transmit::Latency } else { Transmit::Throughput },
            inhibition: if options & 64 == 0 { Inhibition::AtOnce } else { Inhibition::AfterCallback },
            clocked_interrupts: (more & 2 != 0).then_some(UNIT * 200),
            // This has precedence over clocked interrupts.
            network_polling: (more & 2 != 0 && options & 16 != 0).then_some(polling),
            transmit_service: services[usize::from(more >> 3 & 3) % services.len()],
            output_feedback: more & 64 != 0,
            ..base.paper_policies
        },
        listen_only: more & 4 != 0,
        output_queue_pkts: 8,
        ip_queue_pkts: 8,
        socket_queue_pkts: 4,
        channel_pkts: 4,
        memory_pkts: MEMORY_PKTS,
        stack: stack::Config {
            forwarding: more & 1 != 0,
            neighbors: 4,
            pending_per_neighbor_pkts: 3,
            pending_pkts: 5,
            reassembly_packets: 3,
            fragments_per_packet: 50,
            fragment_pkts: 60,
            groups: 3,
            ..stack::Config::default()
        },
        ..base
    }
}

struct World {
    host: Host,
    wire: End,
    pool: Pool,
    now: Instant,
    /// Frames given to its adaptor that have not left.
    in_adaptor: u64,
    puppets: [Option<(ProcessId, Strings)>; PUPPETS],
}

impl World {
    fn new(script: &mut Script<'_>) -> Self {
        let config = config(script);
        // A third of the adaptors report when frames have left.
        let slow = script.byte() % 3 == 2;
        let queues = 1 + usize::from(script.byte() % 3);
        let demultiplexes = config.architecture == Architecture::NiLrp;
        let (completion, transmit_ring_pkts) =
            if slow { (Completion::ByPeer, TRANSMIT_RING_PKTS) } else { (Completion::AtOnce, 0) };
        let inside = Options {
            queues,
            demultiplexes,
            ring_pkts: RING_PKTS,
            completion,
            transmit_ring_pkts,
            ..Options::new("host", 2)
        };
        let (mut wire, end) = pair(Options::new("wire", 1), inside);
        let mut host = Host::new(config).expect("room for the host's own queues");
        let addresses = [IpCidr::new(HOST.into(), 24), IpCidr::new(HOST_V6.into(), 64)];
        host.add_interface(Box::new(end), &addresses, Instant::ZERO).expect("room for its rings");
        let everywhere = IpCidr::new(IpAddress::v4(0, 0, 0, 0), 0);
        host.add_route(everywhere, FROM_V4[0].into(), InterfaceId(0)).expect("it is on the link");
        let mut pool = Pool::with_limit(256);
        wire.attach(&mut pool).expect("room for a ring");
        let mut world =
            Self { host, wire, pool, now: Instant::ZERO, in_adaptor: 0, puppets: [const { None }; PUPPETS] };
        (0..PUPPETS).for_each(|nth| world.spawn(nth));
        world
    }

    fn spawn(&mut self, nth: usize) {
        let strings = Strings::default();
        let puppet = Puppet { strings: Arc::clone(&strings), sockets: Vec::new() };
        self.puppets[nth] = Some((self.host.spawn("puppet", 0, Box::new(puppet)), strings));
    }

    fn act(&mut self, script: &mut Script<'_>) {
        match script.byte() % 16 {
            0..=5 => _ = self.wire.send(&frame(script).bytes),
            6 => _ = self.wire.send(&noise(script)),
            7 | 8 => {
                self.wire.flush();
                self.run_to_rest();
            }
            9 => {
                self.wire.flush();
                (0..script.byte() % 64).for_each(|_| _ = self.unit());
            }
            10 => {
                let micros = [1_u64, 100, 1_000, 100_000, 1_000_000, 31_000_000, 61_000_000, 600_000_000];
                self.now += Duration::from_micros(script.pick(&micros));
            }
            11 => {
                let nth = usize::from(script.byte()) % PUPPETS;
                if let Some((process, _)) = self.puppets[nth].take() {
                    self.host.kill(process, self.now);
                } else {
                    self.spawn(nth);
                }
            }
            12 => self.leave(u64::from(script.byte())),
            _ => self.pull(script),
        }
        self.take_sent();
    }

    /// Lets frames leave the adaptor.
    fn leave(&mut self, most: u64) {
        let count = self.in_adaptor.min(most);
        self.in_adaptor -= count;
        self.wire.complete(count);
    }

    /// Sets the next action of a puppet.
    fn pull(&mut self, script: &mut Script<'_>) {
        let nth = usize::from(script.byte()) % PUPPETS;
        let call = Call::of(script);
        if let Some((_, strings)) = &self.puppets[nth] {
            strings.lock().expect("nobody panicked").push_back(call);
        }
    }

    fn unit(&mut self) -> bool {
        let Some(ran) = self.host.turn(self.now) else { return false };
        let elapsed = UNIT + self.host.work().compute;
        self.now += elapsed;
        self.host.charge(&ran, elapsed);
        self.host.finish(&ran, self.now);
        true
    }

    fn run_to_rest(&mut self) {
        let policies = &self.host.config().paper_policies;
        // A host that polls the network takes interrupts when it is idle.
        let clocked = policies.clocked_interrupts.is_some() && policies.network_polling.is_none();
        let mut ticks = 0;
        for _ in 0..UNITS_TO_REST {
            self.take_sent();
            if self.unit() || !self.host.halt(self.now) {
                continue;
            }
            // By the next tick the host must have checked its rings, and by the one after that an inhibition
            // has ended.
            if !clocked || ticks == 2 {
                return;
            }
            ticks += 1;
            self.now = self.host.next_deadline();
        }
        panic!("the host never comes to rest");
    }

    fn take_sent(&mut self) {
        while let Some(frame) = self.wire.queue_mut(0).take(&mut self.pool) {
            let config = self.host.config();
            assert!(!config.listen_only, "a host that only listens");
            if !config.stack.forwarding {
                // Frames from others may be anything.
                sent::check(frame.bytes());
            }
            self.in_adaptor += 1;
            self.pool.recycle(frame);
        }
    }

    /// Checks that a new program gets its datagrams, whatever the others have done.
    fn serves_newcomers(&mut self, port: u16) {
        if self.host.config().listen_only {
            return;
        }
        let heard = Arc::new(AtomicBool::new(false));
        let newcomer = self.host.spawn(
            "newcomer",
            0,
            Box::new(Newcomer { port, socket: None, heard: Arc::clone(&heard) }),
        );
        for _ in 0..CALLS {
            self.run_to_rest();
            if heard.load(Ordering::Relaxed) || self.host.sockets_of(newcomer).is_empty() {
                return self.host.kill(newcomer, self.now);
            }
            let _ = self.wire.send(&datagram(port));
            self.wire.flush();
            self.now += Duration::from_millis(1);
        }
        panic!("a newcomer hears nothing");
    }

    fn check(&self) {
        self.host.check().expect("the counters add up");
        let (available, capacity) = self.host.pool();
        assert!(available <= capacity && capacity <= MEMORY_PKTS);
    }

    /// Ends all programs, lets time pass, and checks that nothing is queued or held any more, and that the
    /// only buffers in use are those in rings.
    fn end(&mut self) {
        self.wire.flush();
        self.serves_newcomers(1001);
        for (process, _) in self.puppets.iter_mut().filter_map(Option::take) {
            self.host.kill(process, self.now);
        }
        self.serves_newcomers(1002);
        for _ in 0..60 {
            self.leave(u64::MAX);
            self.run_to_rest();
            self.now += Duration::from_secs(30);
        }
        self.run_to_rest();
        self.check();
        let waiting = (self.host.queued() + self.host.waiting_to_leave(), self.host.in_rings());
        let (available, capacity) = self.host.pool();
        let promised = if self.host.config().architecture == Architecture::NiLrp {
            // The rings of neighbours, control, path MTUs, fragments, and packets to be forwarded.
            (4 + usize::from(self.host.config().stack.forwarding)) * self.host.config().channel_pkts
        } else {
            RING_PKTS * self.host.interface_mut(InterfaceId(0)).map_or(0, |i| i.properties().queues)
        };
        assert!(capacity - available <= promised, "{} of {capacity} buffers in use", capacity - available);
        assert_eq!(waiting, (0, 0), "nothing waits for ever");
    }
}

/// A program that opens a port, unless the host has no memory left for it, and records when it has received
/// something.
#[derive(Debug)]
struct Newcomer {
    port: u16,
    socket: Option<UdpSocket>,
    heard: Arc<AtomicBool>,
}

impl Program for Newcomer {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(socket) = self.socket else {
            self.socket = UdpSocket::bind(system, None, self.port).ok();
            return if self.socket.is_some() { Step::Again } else { Step::Exit };
        };
        let Ok(datagram) = socket.receive(system) else { return Step::Wait(socket.fd()) };
        system.recycle(datagram);
        self.heard.store(true, Ordering::Relaxed);
        Step::Again
    }
}

type Strings = Arc<Mutex<VecDeque<Call>>>;

/// A system call of the script.
#[derive(Debug)]
enum Call {
    Bind(Option<IpAddress>, u16),
    Join(u8, IpAddress),
    Receive(u8),
    Send(u8, IpEndpoint, usize),
    Close(u8),
    Wait(u8, bool),
    Compute,
    Exit,
    OpenScreen(usize),
    Screen(u8, Verdict),
    Show(u8),
    Judge(u8, Verdict),
    OpenCapture(Capture),
    Captured(u8),
    Dup(u8, Option<u8>),
    /// A select; the flag is whether to sleep in it if nothing is ready.
    Select(bool),
    Poll(bool),
    OpenQueue,
    Add(u8, u8, Trigger),
    Delete(u8, u8),
    TakeEvents(u8),
    OpenTimer(u8),
    Expirations(u8),
    OpenUserEvent,
    Post(u8),
    Posted(u8),
    Limit(u8),
}

impl Call {
    fn of(script: &mut Script<'_>) -> Self {
        let address = |script: &mut Script<'_>| {
            let addresses: [Option<IpAddress>; 6] = [
                None,
                Some(HOST.into()),
                Some(HOST_V6.into()),
                Some(GROUP.into()),
                Some(GROUP_V6.into()),
                Some(FROM_V4[0].into()),
            ];
            script.pick(&addresses)
        };
        let verdict = |script: &mut Script<'_>| script.pick(&[Verdict::Pass, Verdict::Drop, Verdict::Reject]);
        match script.byte() % 33 {
            0 | 1 => Self::Bind(address(script), script.pick(&PORTS)),
            2 => Self::Join(script.byte(), address(script).unwrap_or(GROUP.into())),
            3..=5 => Self::Receive(script.byte()),
            6 | 7 => {
                let to =
                    if script.flag() { script.pick(&FROM_V4).into() } else { script.pick(&FROM_V6).into() };
                let to = IpEndpoint::new(to, script.pick(&PORTS));
                Self::Send(script.byte(), to, usize::from(script.byte()) * 24)
            }
            8 => Self::Close(script.byte()),
            9 => Self::Wait(script.byte(), script.flag()),
            10 => Self::Compute,
            11 => Self::Exit,
            12 => Self::OpenScreen(usize::from(script.byte() % 6)),
            13 | 14 => Self::Screen(script.byte(), verdict(script)),
            15 => Self::Show(script.byte()),
            16 => Self::Judge(script.byte(), verdict(script)),
            17 => Self::OpenCapture(Capture {
                limit_pkts: usize::from(script.byte() % 6),
                snaplen: usize::from(script.byte()) * 8,
                sent_too: script.flag(),
                ..Capture::default()
            }),
            18 => Self::Captured(script.byte()),
            19 => Self::Dup(script.byte(), None),
            20 => Self::Dup(script.byte(), Some(script.byte() % 32)),
            21 | 22 => Self::Select(script.flag()),
            23 => Self::Poll(script.flag()),
            24 => Self::OpenQueue,
            25 => {
                let trigger = script.pick(&[Trigger::Level, Trigger::Edge, Trigger::OneShot]);
                Self::Add(script.byte(), script.byte(), trigger)
            }
            26 => Self::Delete(script.byte(), script.byte()),
            27 => Self::TakeEvents(script.byte()),
            28 => Self::OpenTimer(script.byte()),
            29 => Self::Expirations(script.byte()),
            30 => Self::OpenUserEvent,
            31 => {
                if script.flag() {
                    Self::Post(script.byte())
                } else {
                    Self::Posted(script.byte())
                }
            }
            _ => Self::Limit(script.byte()),
        }
    }
}

/// A program that follows the script. It remembers sockets that it has closed, and uses them; they may belong
/// to another program now.
#[derive(Debug)]
struct Puppet {
    strings: Strings,
    sockets: Vec<Fd>,
}

impl Puppet {
    fn socket(&self, nth: u8) -> Fd {
        // Without any socket, this is one that does not exist, or another program's.
        let count = self.sockets.len();
        if count == 0 { Fd(nth.into()) } else { self.sockets[usize::from(nth) % count] }
    }
}

/// Checks that a screened packet is a whole IP packet, at least according to its header.
fn see(transit: &Transit, verdict: Verdict) -> Verdict {
    assert!(transit.packet().len() >= 20);
    verdict
}

impl Puppet {
    /// Selects all remembered sockets that are open. Returns whether none is ready.
    fn select(&self, system: &mut System<'_>) -> bool {
        let (mut selecting, mut found) = (FdSets::new(), FdSets::new());
        let open = self.sockets.iter().filter(|fd| system.socket(**fd).is_ok());
        selecting.read.extend(open.map(|fd| fd.0));
        let ready = system.select(&selecting, &mut found).expect("all are open");
        assert_eq!(ready, found.len());
        assert!(found.read.iter().all(|fd| selecting.read.contains(fd)) && found.write.is_empty());
        ready == 0
    }

    /// Polls all remembered sockets.
    fn poll(&self, system: &mut System<'_>) -> bool {
        let mut entries: Vec<_> =
            self.sockets.iter().map(|fd| PollEntry::new(fd.0, Kinds::READABLE)).collect();
        let ready = system.poll(&mut entries);
        for entry in &entries {
            assert_eq!(entry.ready == Kinds::INVALID, system.socket(Fd(entry.fd)).is_err());
        }
        assert_eq!(ready, entries.iter().filter(|entry| !entry.ready.is_empty()).count());
        ready == 0
    }

    fn captured(&self, system: &mut System<'_>, nth: u8) {
        let queue = CaptureSocket::from(self.socket(nth));
        let now = system.now();
        let Ok(captured) = queue.front(system) else { return };
        assert!(captured.bytes.len() <= captured.original_bytes && captured.at <= now);
        queue.pop(system);
        let c = queue.counters(system).expect("it is this program's");
        assert!(c.seen >= c.accepted && c.accepted >= c.delivered + c.dropped && c.delivered > 0);
    }
}

impl Program for Puppet {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let soon = system.now() + Duration::from_millis(1);
        let Some(call) = self.strings.lock().expect("nobody panicked").pop_front() else {
            return Step::Sleep(soon);
        };
        match call {
            Call::Bind(address, port) => {
                self.sockets.extend(UdpSocket::bind(system, address, port).map(UdpSocket::fd))
            }
            // Refusals are valid results, too.
            Call::Join(nth, group) => _ = UdpSocket::from(self.socket(nth)).join(system, group),
            Call::Receive(nth) => {
                if let Ok(datagram) = UdpSocket::from(self.socket(nth)).receive(system) {
                    assert_eq!(datagram.chunks().map(<[u8]>::len).sum::<usize>(), datagram.len());
                    system.recycle(datagram);
                }
            }
            Call::Send(nth, to, len) => _ = UdpSocket::from(self.socket(nth)).send(system, to, &vec![0; len]),
            Call::Close(nth) => system.close(self.socket(nth)),
            Call::Wait(nth, forever) if forever => return Step::Wait(self.socket(nth)),
            Call::Wait(nth, _) => return Step::WaitUntil(self.socket(nth), soon),
            Call::Compute => system.compute(Duration::from_micros(50)),
            Call::Exit => return Step::Exit,
            Call::OpenScreen(limit_pkts) => {
                self.sockets.extend(Screen::open(system, limit_pkts).map(Screen::fd))
            }
            Call::Screen(nth, verdict) => {
                _ = Screen::from(self.socket(nth)).decide(system, |transit| see(transit, verdict))
            }
            Call::Show(nth) => {
                let _ = Screen::from(self.socket(nth))
                    .show(system, |transit| assert!(transit.packet().len() >= 20));
            }
            Call::Judge(nth, verdict) => _ = Screen::from(self.socket(nth)).judge(system, verdict),
            Call::OpenCapture(wanted) => {
                self.sockets.extend(CaptureSocket::open(system, wanted).map(CaptureSocket::fd))
            }
            Call::Captured(nth) => self.captured(system, nth),
            Call::Dup(nth, None) => self.sockets.extend(system.dup(self.socket(nth))),
            Call::Dup(nth, Some(new)) => {
                let new = Fd(new.into());
                self.sockets.extend(system.dup2(self.socket(nth), new).ok().map(|()| new));
            }
            Call::Select(blocks) => {
                if self.select(system) && blocks {
                    return Step::Block(soon);
                }
            }
            Call::Poll(blocks) => {
                if self.poll(system) && blocks {
                    return Step::Block(soon);
                }
            }
            Call::OpenQueue => self.sockets.extend(EventQueue::open(system).map(EventQueue::fd)),
            Call::Add(queue, nth, trigger) => {
                let fd = self.socket(nth);
                let interest = Interest { events: Kinds::ALL, trigger, token: fd.token() };
                _ = EventQueue::from(self.socket(queue)).add(system, fd, interest);
            }
            Call::Delete(queue, nth) => {
                _ = EventQueue::from(self.socket(queue)).delete(system, self.socket(nth))
            }
            Call::TakeEvents(nth) => {
                let mut events = [Event::default(); 4];
                if let Ok(taken) = EventQueue::from(self.socket(nth)).take(system, &mut events) {
                    assert!(events[..taken].iter().all(|event| !event.ready.is_empty()));
                }
            }
            Call::OpenTimer(millis) => {
                if let Ok(timer) = Timer::open(system) {
                    let after = Duration::from_millis(millis.into());
                    timer.set(system, system.now() + after, Some(after)).expect("it is one");
                    self.sockets.push(timer.fd());
                }
            }
            Call::Expirations(nth) => assert!(Timer::from(self.socket(nth)).expirations(system) != Ok(0)),
            Call::OpenUserEvent => self.sockets.extend(UserEvent::open(system).map(UserEvent::fd)),
            Call::Post(nth) => _ = UserEvent::from(self.socket(nth)).post(system, nth.into()),
            Call::Posted(nth) => assert!(UserEvent::from(self.socket(nth)).posted(system) != Ok(0)),
            Call::Limit(limit) => system.set_descriptor_limit(limit.into()),
        }
        Step::Again
    }
}
