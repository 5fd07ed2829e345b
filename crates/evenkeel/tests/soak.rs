//! Mixed load over AF_XDP, with floods, faults, and sockets that open and close: a few seconds of it, 30
//! minutes in the long tier, or as many minutes as `EVENKEEL_SOAK_MINUTES` says. Nothing may be left of it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "over_xdp/kernel.rs"]
mod kernel;

use std::io::{Read as _, Write as _};
use std::net::{TcpStream as KernelStream, UdpSocket as KernelSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use evenkeel::metrics::Snapshot;
use evenkeel::net::{Net, TcpListener, UdpSocket};
use evenkeel::raw::time::Clock;
use evenkeel_testing::{Place, attempt, has_xdp, in_namespace, is_long, pause, run, wait_for};

/// The variable that says how long the load lasts.
const MINUTES: &str = "EVENKEEL_SOAK_MINUTES";
/// The longest time that an answer may take while nothing is wrong.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time that a client waits for an answer that a fault may have swallowed.
const LOST: Duration = Duration::from_millis(200);

const ECHO_PORTS: [u16; 2] = [7, 8];
const FLOODED_PORT: u16 = 9;
const STREAM_PORT: u16 = 80;
/// More than there are rings for.
const OPENED_PORTS: core::ops::Range<u16> = 2000..2040;

/// The rates of the flood in datagrams per second, one after the other. The last one is all that can be had.
const RATES: [u64; 6] = [0, 5_000, 100_000, 20_000, 1_000, u64::MAX];

/// Memory that the process may need more of at the end, in pages. In a short run not all buffers have been
/// used before.
const PAGES_MORE: [u64; 2] = [2048, 16_384];

fn duration() -> Duration {
    let minutes = std::env::var(MINUTES).ok().map(|minutes| minutes.parse::<f64>().unwrap());
    match minutes {
        Some(minutes) => Duration::from_secs_f64(minutes * 60.0),
        None if is_long() => Duration::from_secs(30 * 60),
        None => Duration::from_secs(6),
    }
}

/// The state that all parts of the load share.
#[derive(Clone)]
struct Shared {
    /// Whether the load has ended. The servers go on.
    load_ends: Arc<AtomicBool>,
    servers_end: Arc<AtomicBool>,
    /// Requests, lost ones of them, streams, and sockets that were opened.
    done: Arc<[AtomicU64; 4]>,
    clock: Clock,
    duration: Duration,
}

impl Shared {
    fn new(duration: Duration) -> Self {
        Self {
            load_ends: Arc::default(),
            servers_end: Arc::default(),
            done: Arc::default(),
            clock: Clock::start(),
            duration,
        }
    }

    fn goes_on(&self) -> bool {
        !self.load_ends.load(Ordering::Relaxed)
    }

    fn is_served(&self) -> bool {
        !self.servers_end.load(Ordering::Relaxed)
    }

    fn count(&self, what: usize) {
        self.done[what].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of the present phase of `phases`, which begin again every so often.
    fn phase(&self, phases: usize) -> usize {
        let each = (self.duration.as_secs_f64() / 60.0).clamp(0.3, 10.0);
        (self.clock.now().as_secs_f64() / each) as usize % phases
    }
}

// --- Our end ---

/// Answers datagrams until the servers end.
fn echo(net: &Net, port: u16, shared: Shared) -> JoinHandle<()> {
    let socket = UdpSocket::bind(net, ("0.0.0.0", port)).unwrap();
    socket.set_read_timeout(Some(LOST)).unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 2000];
        while shared.is_served() {
            // An answer that finds no room is lost, as datagrams may be.
            if let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(&buffer[..len], from);
            }
        }
    })
}

/// Returns what it gets on each connection, until the servers end.
fn streams(net: &Net, shared: Shared) -> JoinHandle<()> {
    let listener = TcpListener::bind(net, ("0.0.0.0", STREAM_PORT)).unwrap();
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        let mut connections = Vec::new();
        while shared.is_served() {
            let Ok((stream, _)) = listener.accept() else {
                pause(Duration::from_millis(1));
                continue;
            };
            connections.retain(|thread: &JoinHandle<()>| !thread.is_finished());
            connections.push(thread::spawn(move || {
                stream.set_nonblocking(false).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut buffer = [0; 1 << 14];
                while let Ok(len @ 1..) = (&stream).read(&mut buffer) {
                    if (&stream).write_all(&buffer[..len]).is_err() {
                        break;
                    }
                }
            }));
        }
        connections.into_iter().for_each(|thread| thread.join().unwrap());
    })
}

/// Opens sockets, reads a little from some of them, and closes them again, while datagrams come.
fn open_and_close(net: &Net, shared: Shared) -> JoinHandle<()> {
    let net = net.clone();
    thread::spawn(move || {
        while shared.goes_on() {
            let sockets: Vec<_> =
                OPENED_PORTS.map(|port| UdpSocket::bind(&net, ("0.0.0.0", port)).unwrap()).collect();
            OPENED_PORTS.for_each(|_| shared.count(3));
            for socket in sockets.iter().step_by(3) {
                socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
                let _ = socket.recv_from(&mut [0; 2000]);
            }
        }
    })
}

// --- The kernel's end ---

/// Asks, and counts answers and losses, at a rate that changes.
fn ask(port: u16, shared: Shared) -> JoinHandle<()> {
    thread::spawn(move || {
        let socket = KernelSocket::bind("10.77.0.1:0").unwrap();
        socket.set_read_timeout(Some(LOST)).unwrap();
        let mut buffer = [0; 2000];
        for number in 0_u64.. {
            if !shared.goes_on() {
                return;
            }
            let request = [&number.to_be_bytes()[..], &vec![number as u8; (number % 1400) as usize]].concat();
            if socket.send_to(&request, ("10.77.0.2", port)).is_err() {
                // There is no way while the device is down.
                pause(Duration::from_millis(10));
                continue;
            }
            shared.count(0);
            match answer_to(&request, &socket, &mut buffer) {
                Some(answer) => assert_eq!(answer, request, "request {number} at port {port}"),
                None => shared.count(1),
            }
            pause(Duration::from_micros([0, 100, 1000, 10][shared.phase(4)]));
        }
    })
}

/// Waits for the answer to a request. Those to earlier ones, which were given up, may still come before.
fn answer_to<'a>(request: &[u8], socket: &KernelSocket, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    loop {
        let len = socket.recv(buffer).ok()?;
        if buffer[..8] == request[..8] {
            return Some(&buffer[..len]);
        }
    }
}

/// Floods sockets: one that nobody reads, and those that open and close.
fn flood(shared: Shared) -> JoinHandle<()> {
    thread::spawn(move || {
        const BATCH: u64 = 50;
        let socket = KernelSocket::bind("10.77.0.1:0").unwrap();
        let opened = OPENED_PORTS.cycle();
        for (number, port) in opened.enumerate() {
            if !shared.goes_on() {
                return;
            }
            let rate = RATES[shared.phase(RATES.len())];
            for n in 0..BATCH.min(rate) {
                let port = if n % 2 == 0 { FLOODED_PORT } else { port };
                // A device that is down takes none.
                let _ = socket.send_to(&[number as u8; 100], ("10.77.0.2", port));
            }
            let rest = 1_000_000 * BATCH / rate.max(1);
            if rest > 0 {
                pause(Duration::from_micros(rest.min(50_000)));
            }
        }
    })
}

/// Opens connections, has a few bytes or many echoed, and closes them.
fn connect(shared: Shared) -> JoinHandle<()> {
    thread::spawn(move || {
        for number in 0_usize.. {
            if !shared.goes_on() {
                return;
            }
            let opened = KernelStream::connect_timeout(&([10, 77, 0, 2], STREAM_PORT).into(), PATIENCE);
            // While the device is down there is no way.
            let Ok(mut stream) = opened else {
                pause(Duration::from_millis(10));
                continue;
            };
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let sent = vec![number as u8; [1, 100, 10_000, 100_000][number % 4]];
            let mut back = vec![0; sent.len()];
            let mut writing = stream.try_clone().unwrap();
            let data = sent.clone();
            let writer = thread::spawn(move || writing.write_all(&data));
            stream.read_exact(&mut back).unwrap_or_else(|error| panic!("stream {number}: {error}"));
            writer.join().unwrap().unwrap();
            assert!(back == sent, "stream {number}");
            shared.count(2);
        }
    })
}

/// Sends frames of no use.
fn send_rubbish(ours: [u8; 6], shared: Shared) -> JoinHandle<()> {
    let mut raw = kernel::Raw::open();
    thread::spawn(move || {
        while shared.goes_on() {
            for (ethertype, version, host) in [(0x88b5, 4, 2), (0x0800, 9, 2), (0x0800, 4, 9)] {
                raw.send(10, &kernel::frame(ours, ethertype, version, host));
            }
            pause(Duration::from_millis(50));
        }
    })
}

// --- Faults ---

/// Inflicts one fault after the other, each with what mends it, until a time of the load's clock.
fn harm(far: &Place, shared: &Shared, end: Duration) {
    let now = || shared.clock.now().as_secs_f64();
    let between = (shared.duration.as_secs_f64() / 60.0).clamp(0.5, 10.0);
    for number in 0.. {
        match number % 4 {
            0 => ["down", "up"].into_iter().for_each(|state| {
                run(&format!("ip link set ek0 {state}"));
                pause(Duration::from_millis(50));
            }),
            1 => ["down", "up"].into_iter().for_each(|state| {
                far.run(&format!("ip link set kernel0 {state}"));
                pause(Duration::from_millis(50));
            }),
            2 => [1400, 1500].into_iter().for_each(|mtu| {
                run(&format!("ip link set ek0 mtu {mtu}"));
                pause(Duration::from_millis(50));
            }),
            _ => assert!(!attempt("ip link set ek0 xdp off").0, "anybody may remove the program"),
        }
        let until = now() + between;
        while now() < until {
            if now() >= end.as_secs_f64() {
                return;
            }
            pause(Duration::from_millis(20));
        }
    }
}

// --- What may not grow ---

/// Resources of a host and its process while nothing happens.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    /// Free buffers of the host, and all.
    pool: (usize, usize),
    sockets: usize,
    connections: usize,
    channels: usize,
    /// Frames that the ring of the flooded socket holds.
    ring_pkts: usize,
}

fn pages() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse().unwrap()
}

fn held(net: &Net, ring_pkts: usize) -> Held {
    Held {
        descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
        pool: net.raw(|host| host.pool()),
        sockets: net.snapshot().sockets.len(),
        connections: net.snapshot().tcp.connections,
        channels: net.raw(|host| host.channel_count()),
        ring_pkts,
    }
}

/// Floods a socket that nobody reads, and returns how many frames it has then.
fn fill(net: &Net, far: &Place, flooded: &UdpSocket) -> usize {
    drain(flooded);
    far.here(|| kernel::send(20_000, FLOODED_PORT, 100));
    let waiting = || {
        let sockets = net.snapshot().sockets;
        let flooded = sockets.iter().find(|socket| socket.port == FLOODED_PORT).unwrap();
        (flooded.waiting, flooded.arrived)
    };
    let mut last = (0, 0);
    wait_for("the end of the flood", || {
        let now = waiting();
        let is_still = now == last;
        last = now;
        is_still
    });
    let (full, _) = waiting();
    drain(flooded);
    full
}

fn drain(socket: &UdpSocket) {
    socket.set_nonblocking(true).unwrap();
    while socket.recv_from(&mut [0; 2000]).is_ok() {}
}

/// Returns the frames for us that the XDP program has seen, by the counters of the kernel.
fn came() -> u64 {
    let shown = run("ethtool -S ek0");
    let counter = |name: &str| -> u64 {
        let line = shown.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap();
        line.trim_start_matches(':').trim().parse().unwrap()
    };
    // The second is of frames that a socket had no room for.
    counter("rx_queue_0_xdp_redirect") + counter("rx_queue_0_drops") + counter("rx_queue_0_xdp_drops")
}

fn known(snapshot: &Snapshot) -> u64 {
    let interface = &snapshot.interfaces[0];
    interface.received + interface.missed + interface.discarded + interface.in_rings
}

/// Opens more connections at once than the load has. The host keeps their channels for the next ones.
fn open_many(far: &Place) {
    far.here(|| {
        let open = || KernelStream::connect(("10.77.0.2", STREAM_PORT)).unwrap();
        let streams: Vec<_> = (0..32).map(|_| open()).collect();
        for mut stream in &streams {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(b"?").unwrap();
            stream.read_exact(&mut [0; 1]).unwrap();
        }
    });
}

/// Asserts that each socket answers, and that the kernel at our end does.
fn everything_answers(far: &Place) {
    far.here(|| {
        for port in ECHO_PORTS {
            let socket = KernelSocket::bind("10.77.0.1:0").unwrap();
            socket.set_read_timeout(Some(LOST)).unwrap();
            let mut asks = || {
                let _ = socket.send_to(b"still there?", ("10.77.0.2", port));
                socket.recv(&mut [0; 20]).is_ok_and(|len| len == 12)
            };
            wait_for("an answer", &mut asks);
        }
        let mut stream = KernelStream::connect(("10.77.0.2", STREAM_PORT)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"still there?").unwrap();
        stream.read_exact(&mut [0; 12]).unwrap();
        wait_for("the kernel", kernel::answers);
    });
}

#[test]
fn mixed_load_with_faults_leaves_nothing_and_loses_no_frame_uncounted() {
    in_namespace(&[&[("ethtool", "ethtool"), ("ping", "iputils-ping")]], || {
        if !has_xdp() {
            return;
        }
        let far = Place::new();
        let net = kernel::beside(&far);
        let ours = net.raw(|host| host.interfaces().next().unwrap().properties().address.0);
        let shared = Shared::new(duration());
        let flooded = UdpSocket::bind(&net, ("0.0.0.0", FLOODED_PORT)).unwrap();
        let mut servers: Vec<_> =
            ECHO_PORTS.map(|port| echo(&net, port, shared.clone())).into_iter().collect();
        servers.push(streams(&net, shared.clone()));
        everything_answers(&far);
        open_many(&far);
        let ring_pkts = fill(&net, &far, &flooded);
        wait_for("the end of connections", || net.snapshot().tcp.connections == 0);
        let before = held(&net, ring_pkts);
        let here = open_and_close(&net, shared.clone());
        let of_far = shared.clone();
        let clients = far.here(move || {
            let asking = ECHO_PORTS.map(|port| ask(port, of_far.clone()));
            let more = [flood(of_far.clone()), connect(of_far.clone()), send_rubbish(ours, of_far.clone())];
            asking.into_iter().chain(more).collect::<Vec<_>>()
        });
        // What is allocated once is, after a while.
        harm(&far, &shared, shared.duration / 4);
        let pages_before = pages();
        harm(&far, &shared, shared.duration);
        shared.load_ends.store(true, Ordering::Relaxed);
        clients.into_iter().chain([here]).for_each(|thread| thread.join().unwrap());
        everything_answers(&far);
        let pages_after = pages();
        let ring_pkts = fill(&net, &far, &flooded);
        // Connections that have ended keep what they have for a while.
        let patience = shared.clock.now() + PATIENCE.into();
        while held(&net, ring_pkts) != before && shared.clock.now() < patience {
            pause(Duration::from_millis(100));
        }
        let after = held(&net, ring_pkts);
        assert_eq!(before, after, "{:?}", net.snapshot().tcp);
        wait_for("the last frame", || known(&net.snapshot()) == came());
        let snapshot = net.snapshot();
        let done = shared.done.each_ref().map(|count| count.load(Ordering::Relaxed));
        eprintln!("{done:?} {:?} {:?}", snapshot.frames, snapshot.drops);
        eprintln!("{} frames came; {pages_before} pages, {pages_after} after; {after:?}", came());
        assert!([0, 2, 3].into_iter().all(|what| done[what] > 0), "{done:?}");
        let is_short = shared.duration < Duration::from_secs(60);
        let most = pages_before + PAGES_MORE[usize::from(is_short)];
        assert!(pages_after < most, "{pages_before} {pages_after}");
        assert!(!snapshot.drops.iter().any(|drop| drop.reason == "no-buffer"), "{:?}", snapshot.drops);
        snapshot.check().unwrap();
        shared.servers_end.store(true, Ordering::Relaxed);
        servers.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
