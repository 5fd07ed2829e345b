//! TCP: SYNs for listeners, and for ports without one.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use evenkeel::raw::device::{Address, Packet, PacketOptions, TxQueue as _};
use evenkeel::raw::frame::Pool;
use evenkeel_testing::{attempt, pause, run, wait_for};
use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::thread::gettid;
use serde_json::Value;

use super::common::{command, signal};
use super::{Bench, Guard, account_of, at_veth, closed, hardware};

pub(crate) const SERVED: u16 = 80;
pub(crate) const CLOSED: u16 = 81;
const BACKLOG: i32 = 8;
pub(crate) const SYNS: u64 = 2_000;
pub(crate) const CLIENTS: u64 = 10;

/// A listener of the kernel with a short backlog, of IPv4 or IPv6.
pub(crate) fn listen(bench: &Bench) -> TcpListener {
    let (address, port) = bench.near(SERVED);
    let address: SocketAddr = (address.parse::<IpAddr>().unwrap(), port).into();
    let family = if bench.is_v6 { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = rustix::net::socket(family, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    rustix::net::bind(&socket, &address).unwrap();
    rustix::net::listen(&socket, BACKLOG).unwrap();
    socket.into()
}

/// Serves as many connections as are wanted, each by what it sent.
pub(crate) fn serve(listener: TcpListener, connections: u64) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 4];
            stream.read_exact(&mut asked).unwrap();
            stream.write_all(&asked.repeat(10_000)).unwrap();
        }
    })
}

impl Bench {
    /// Sends SYNs from many addresses that are behind the other end, and that nobody has.
    pub(crate) fn send_syns(&self, port: u16, count: u64) {
        self.send_packets(count, move |number| syn(number, port));
    }

    /// Sends packets from many addresses that are behind the other end, and that nobody has. The protocol of
    /// each is made of its number, and what is behind the header of IP, with a place for the checksum.
    pub(crate) fn send_packets(&self, count: u64, make: impl Fn(u64) -> Upper + Send + 'static) {
        let hardware = hardware();
        let mut bytes = hardware.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap());
        let hardware = [(); 6].map(|()| bytes.next().unwrap());
        let is_v6 = self.is_v6;
        self.far.here(move || {
            let options = PacketOptions { address: Address::Random, ..PacketOptions::default() };
            let mut device = Packet::open("gd1", &options).unwrap();
            let mut pool = Pool::new(64);
            // In vectors, and before all else that runs, so that a busy machine too sends what is a flood.
            let thread = gettid().as_raw_nonzero();
            attempt(&format!("chrt --fifo --pid 1 {thread}"));
            for first in (0..count).step_by(32) {
                let numbers = first..count.min(first + 32);
                let made = numbers.map(|number| frame(hardware, is_v6, number, make(number)));
                let mut frames: VecDeque<_> = made.map(|frame| pool.take_copy(&frame).unwrap()).collect();
                while !frames.is_empty() {
                    if device.transmit(&mut frames, &mut pool) == 0 {
                        pause(Duration::from_micros(100));
                    }
                }
            }
            attempt(&format!("chrt --other --pid 0 {thread}"));
        });
    }

    /// Opens connections from the other end, one after the other. Asserts that each gets its answer.
    pub(crate) fn connect(&self, clients: u64) {
        let to = self.near(SERVED);
        self.far.here(move || {
            for number in 0..clients {
                let mut stream = TcpStream::connect(to).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                let asked = (number as u32).to_be_bytes();
                stream.write_all(&asked).unwrap();
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).unwrap();
                assert_eq!(answer, asked.repeat(10_000));
            }
        });
    }

    /// Gives the addresses of the flood a way back, on which nobody is.
    pub(crate) fn route_flood(&self) {
        run("ip route add 198.51.100.0/24 via 10.78.0.2");
        run("ip route add 2001:db8::/32 via fd00:78::2");
    }

    /// Makes the other end take what the guard sends: a veth does only if it has an XDP program, too.
    fn receive_answers(&self) -> Far {
        let guard = self.far.here(|| {
            let mut far = command(&["guard", "gd1", "--dry-run"]);
            let child = far.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            wait_for("the far program", || run("ip link show gd1").contains("prog/xdp"));
            child
        });
        Far(guard)
    }
}

/// A program at the other end.
struct Far(Child);

impl Drop for Far {
    fn drop(&mut self) {
        signal(&self.0, "INT");
        self.0.wait().unwrap();
    }
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(*two.get(1).unwrap_or(&0))).sum()
}

fn checksum(sum: u32) -> [u8; 2] {
    let folded = (sum & 0xffff) + (sum >> 16);
    (!((folded & 0xffff) + (folded >> 16)) as u16).to_be_bytes()
}

/// The protocol of a packet, what it carries, and where in that the checksum is.
pub(crate) type Upper = (u8, Vec<u8>, usize);

/// Returns a segment without data, from the port that belongs to its number.
pub(crate) fn segment(number: u64, port: u16, flags: u8, options: &[u8]) -> Upper {
    let from_port = 1_024 + (number / 250) as u16;
    let mut segment = [from_port.to_be_bytes(), port.to_be_bytes()].concat();
    segment.extend((number as u32 ^ 0x5a5a_5a5a).to_be_bytes());
    segment.extend([0, 0, 0, 0, (5 + options.len() as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(options);
    (6, segment, 16)
}

/// Returns a SYN that offers a maximum segment size.
fn syn(number: u64, port: u16) -> Upper {
    segment(number, port, 2, &[2, 4, 5, 0xb4])
}

/// Returns a frame with a packet from the address that belongs to its number.
fn frame(hardware: [u8; 6], is_v6: bool, number: u64, (protocol, mut body, sum_at): Upper) -> Vec<u8> {
    let host = 1 + (number % 250) as u8;
    let (kind, mut header, addresses) = if is_v6 {
        let from = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host];
        let to = [0xfd, 0, 0, 0x78, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        ([0x86, 0xdd], vec![0x60, 0, 0, 0, 0, body.len() as u8, protocol, 64], [from, to].concat())
    } else {
        let addresses = vec![198, 51, 100, host, 10, 78, 0, 1];
        let header = vec![0x45, 0, 0, 20 + body.len() as u8, 0, 0, 0x40, 0, 64, protocol, 0, 0];
        ([8, 0], header, addresses)
    };
    // That of ICMP for IPv4 is of the message alone.
    let pseudo = if protocol == 1 { 0 } else { sum(&addresses) + u32::from(protocol) + body.len() as u32 };
    let of_body = checksum(pseudo + sum(&body));
    body[sum_at..sum_at + 2].copy_from_slice(&of_body);
    header.extend(addresses);
    if !is_v6 {
        let of_header = checksum(sum(&header));
        header[10..12].copy_from_slice(&of_header);
    }
    [&hardware[..], &[2, 0, 0, 0, 0, 0x99], &kind, &header, &body].concat()
}

/// Returns a counter of the kernel in this network namespace.
pub(crate) fn kernel(name: &str) -> u64 {
    let text = ["netstat", "snmp"]
        .map(|file| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap())
        .concat();
    let lines: Vec<_> = text.lines().collect();
    let values = lines.chunks_exact(2).flat_map(|two| {
        let (names, values) = (two[0].split_whitespace(), two[1].split_whitespace());
        names.zip(values)
    });
    let v6 = std::fs::read_to_string("/proc/thread-self/net/snmp6").unwrap();
    let v6 = v6.lines().filter_map(|line| line.split_once(char::is_whitespace));
    let mut values = values.chain(v6).filter(|(of, _)| *of == name);
    values.next().unwrap().1.trim().parse().unwrap()
}

/// The kernel sends no cookie: it has the SYNs that fill its queue, and recognizes the cookies of the others.
#[test]
fn syns_for_a_listener_with_a_full_queue_are_answered_by_cookies_that_the_kernel_takes() {
    at_veth(|bench| {
        bench.route_flood();
        let _far = bench.receive_answers();
        let guard = Guard::start(&[]);
        let served = serve(listen(bench), 2 * CLIENTS);
        bench.connect(CLIENTS);
        bench.send_syns(SERVED, SYNS);
        bench.connect(CLIENTS);
        served.join().unwrap();
        let report = guard.stop();
        let [passed, dropped, answered] = account_of(&report, "tcp", SERVED);
        assert_eq!((passed + answered, dropped), (SYNS + 2 * CLIENTS, 0), "{report}");
        assert!(passed < CLIENTS + 10 * BACKLOG as u64, "{report}");
        assert_eq!((kernel("SyncookiesSent"), kernel("SyncookiesFailed")), (0, 0));
        assert_eq!(kernel("SyncookiesRecv"), CLIENTS);
    });
}

/// A program that does not accept what it has gets no more; the kernel has nothing left to drop.
#[test]
fn syns_for_a_listener_that_accepts_nothing_are_dropped() {
    at_veth(|bench| {
        let _far = bench.receive_answers();
        let listener = listen(bench);
        let to = bench.near(SERVED);
        let clients = bench
            .far
            .here(move || (0..=BACKLOG).map(|_| TcpStream::connect(to).unwrap()).collect::<Vec<_>>());
        let guard = Guard::start(&[]);
        bench.send_syns(SERVED, SYNS);
        assert_eq!(kernel("ListenOverflows"), 0);
        let first = listener.accept().unwrap();
        bench.far.here(move || drop(TcpStream::connect(to).unwrap()));
        let report = guard.stop();
        assert_eq!(account_of(&report, "tcp", SERVED), [1, SYNS, 0], "{report}");
        drop((clients, first));
    });
}

/// The kernel sends as many resets as the guard lets it. One who knocks at other times is refused as always.
#[test]
fn resets_of_closed_ports_are_limited() {
    at_veth(|bench| {
        bench.route_flood();
        let guard = Guard::start(&[]);
        bench.send_syns(CLOSED, 3 * SYNS);
        pause(Duration::from_millis(200));
        let to = bench.near(CLOSED);
        let refused = bench.far.here(move || TcpStream::connect(to).unwrap_err());
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        let report = guard.stop();
        let [passed, dropped] = closed(&report, "tcp");
        assert_eq!(
            (passed + dropped, report["ports"].as_array().unwrap().len()),
            (3 * SYNS + 1, 0),
            "{report}"
        );
        assert!(dropped > 0, "{report}");
        assert_eq!(kernel("OutRsts"), passed);
    });
}

/// A veth drops what the guard sends, unless its other end has a program. Then the kernel has to answer.
#[test]
fn where_a_device_would_drop_its_answers_the_guard_leaves_them_to_the_kernel() {
    at_veth(|bench| {
        bench.route_flood();
        let guard = Guard::start(&["--stats-interval", "100ms"]);
        let served = serve(listen(bench), 2 * CLIENTS);
        bench.send_syns(SERVED, SYNS);
        bench.connect(CLIENTS);
        let sent = kernel("SyncookiesSent");
        assert!(sent > SYNS / 2, "{sent}");
        let _far = bench.receive_answers();
        // The guard learns of it a moment later.
        wait_for("answers by the guard", || {
            let sent = kernel("SyncookiesSent");
            bench.send_syns(SERVED, 100);
            pause(Duration::from_millis(20));
            kernel("SyncookiesSent") == sent
        });
        bench.connect(CLIENTS);
        served.join().unwrap();
        let report = guard.stop();
        assert_eq!(report["mute"], Value::Array(Vec::new()));
        assert!(account_of(&report, "tcp", SERVED)[2] >= 100, "{report}");
    });
}

/// A dry run answers and drops nothing, and says what it would have done.
#[test]
fn a_dry_run_leaves_syns_to_the_kernel() {
    at_veth(|bench| {
        bench.route_flood();
        let _far = bench.receive_answers();
        let guard = Guard::start(&["--dry-run"]);
        let served = serve(listen(bench), CLIENTS);
        bench.send_syns(SERVED, SYNS);
        bench.send_syns(CLOSED, SYNS);
        bench.connect(CLIENTS);
        served.join().unwrap();
        let report = guard.stop();
        let [passed, dropped, answered] = account_of(&report, "tcp", SERVED);
        assert_eq!((passed + answered, dropped), (SYNS + CLIENTS, 0), "{report}");
        assert!(answered > SYNS / 2 && kernel("SyncookiesSent") == answered, "{report}");
        assert_eq!(kernel("OutRsts"), SYNS, "{report}");
    });
}
