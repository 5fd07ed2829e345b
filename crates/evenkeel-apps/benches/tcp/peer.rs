//! Two of smoltcp's interfaces on a cable. They poll for frames without ever sleeping.

use std::collections::VecDeque;
use std::sync::Barrier;

use evenkeel::raw::cable::{End, Options, pair};
use evenkeel::raw::device::Interface as _;
use evenkeel::raw::frame::{Frame, Pool};
use evenkeel::raw::time::Clock;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};

use crate::shared::{BULK_WINDOW, CHUNK, PORT, Progress, TOGETHER, Workload, on_two_processors};

const RING_PKTS: usize = 1_024;
const MTU: usize = 1_514;
const SMALL_WINDOW: usize = 1 << 12;
const SERVER: IpAddress = IpAddress::v4(10, 0, 0, 1);
const CLIENT: IpAddress = IpAddress::v4(10, 0, 0, 2);
/// The number of listening sockets: smoltcp has no backlog, and each socket takes one connection.
const LISTENING: usize = 2 * TOGETHER;

/// An end of a cable.
struct Port {
    end: End,
    pool: Pool,
    room: Vec<u8>,
}

struct Came<'a> {
    frame: Frame,
    pool: &'a mut Pool,
}

struct Leaves<'a> {
    end: &'a mut End,
    room: &'a mut [u8],
}

impl RxToken for Came<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let result = f(self.frame.bytes());
        self.pool.recycle(self.frame);
        result
    }
}

impl TxToken for Leaves<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let frame = &mut self.room[..len];
        let result = f(frame);
        self.end.send(frame);
        result
    }
}

impl Device for Port {
    type RxToken<'a> = Came<'a>;
    type TxToken<'a> = Leaves<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Came<'_>, Leaves<'_>)> {
        let frame = self.end.queue_mut(0).take(&mut self.pool)?;
        Some((Came { frame, pool: &mut self.pool }, Leaves { end: &mut self.end, room: &mut self.room }))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Leaves<'_>> {
        Some(Leaves { end: &mut self.end, room: &mut self.room })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = MTU;
        capabilities
    }
}

/// An interface and its sockets.
struct Node {
    port: Port,
    interface: Interface,
    sockets: SocketSet<'static>,
    clock: Clock,
}

impl Node {
    fn new(mut end: End, address: IpAddress, both: &Barrier) -> Self {
        let mut pool = Pool::with_limit(4 * RING_PKTS);
        end.attach(&mut pool).unwrap();
        both.wait();
        let hardware = HardwareAddress::Ethernet(EthernetAddress(end.properties().address.0));
        let mut port = Port { end, pool, room: vec![0; MTU] };
        let mut interface = Interface::new(Config::new(hardware), &mut port, Instant::ZERO);
        interface.update_ip_addrs(|addresses| addresses.push(IpCidr::new(address, 24)).unwrap());
        Self { port, interface, sockets: SocketSet::new(Vec::new()), clock: Clock::start() }
    }

    fn poll(&mut self) {
        let micros = self.clock.now().as_nanos() / 1_000;
        let now = Instant::from_micros(i64::try_from(micros).unwrap());
        self.interface.poll(now, &mut self.port, &mut self.sockets);
        self.port.end.flush();
    }

    fn add(&mut self, window: usize) -> SocketHandle {
        let room = || SocketBuffer::new(vec![0; window]);
        let mut socket = Socket::new(room(), room());
        socket.set_nagle_enabled(false);
        self.sockets.add(socket)
    }

    fn socket(&mut self, handle: SocketHandle) -> &mut Socket<'static> {
        self.sockets.get_mut(handle)
    }

    fn listen(&mut self, window: usize) -> SocketHandle {
        let handle = self.add(window);
        self.socket(handle).listen(PORT).unwrap();
        handle
    }

    fn connect(&mut self, number: usize, window: usize) -> SocketHandle {
        let handle = self.add(window);
        let port = 1_024 + (number % 60_000) as u16;
        let context = self.interface.context();
        self.sockets.get_mut::<Socket<'_>>(handle).connect(context, (SERVER, PORT), port).unwrap();
        handle
    }
}

pub(crate) fn run(idle: usize, workload: Workload, progress: &Progress) {
    let end = |name, number| Options { ring_pkts: RING_PKTS, ..Options::new(name, number) };
    let (near, far) = pair(end("client", 1), end("server", 2));
    // A frame that arrives before the receiver is ready is lost, and its sender waits for a second.
    let both = Barrier::new(2);
    on_two_processors(
        || ask(Node::new(near, CLIENT, &both), idle, workload, progress),
        || serve(Node::new(far, SERVER, &both), idle, workload, progress),
    );
}

const fn window(workload: Workload) -> usize {
    if matches!(workload, Workload::Bulk) { BULK_WINDOW } else { SMALL_WINDOW }
}

fn serve(mut node: Node, idle: usize, workload: Workload, progress: &Progress) {
    // Idle connections are established first.
    let mut listening: Vec<_> = (0..idle).map(|_| node.listen(64)).collect();
    let mut room = vec![0; CHUNK];
    while listening.iter().any(|&handle| node.socket(handle).state() != State::Established) {
        node.poll();
        if progress.is_over() {
            return;
        }
    }
    listening = (0..LISTENING).map(|_| node.listen(window(workload))).collect();
    while !progress.is_over() {
        node.poll();
        for &handle in &listening {
            let socket = node.socket(handle);
            while socket.can_recv() {
                let len = socket.recv_slice(&mut room).unwrap();
                if workload == Workload::Bulk {
                    progress.add(len as u64);
                } else {
                    socket.send_slice(b"!").unwrap();
                }
            }
            match socket.state() {
                State::CloseWait => socket.close(),
                State::Closed => socket.listen(PORT).unwrap(),
                _ => {}
            }
        }
    }
}

fn ask(mut node: Node, idle: usize, workload: Workload, progress: &Progress) {
    let mut opened = 0;
    let mut connect = |node: &mut Node, window| {
        opened += 1;
        node.connect(opened, window)
    };
    let mut waiting: VecDeque<_> = VecDeque::new();
    for _ in 0..idle {
        waiting.push_back(connect(&mut node, 64));
        while node.socket(waiting[waiting.len() - 1]).state() != State::Established && !progress.is_over() {
            node.poll();
        }
    }
    let streams = if workload == Workload::Bulk { 1 } else { TOGETHER };
    let mut streams: Vec<_> = (0..streams).map(|_| (connect(&mut node, window(workload)), false)).collect();
    let data = vec![b'x'; CHUNK];
    progress.begin();
    while !progress.is_over() {
        node.poll();
        for (handle, asked) in &mut streams {
            // A connection in TIME-WAIT would keep its socket, so its state is dropped at once.
            if matches!(node.socket(*handle).state(), State::TimeWait | State::Closed) {
                node.sockets.remove(*handle);
                (*handle, *asked) = (connect(&mut node, window(workload)), false);
            }
            let socket = node.socket(*handle);
            if workload == Workload::Bulk {
                while socket.can_send() && socket.send_slice(&data).unwrap() > 0 {}
                continue;
            }
            if socket.can_recv() {
                socket.recv_slice(&mut [0; 16]).unwrap();
                progress.add(1);
                *asked = false;
                if workload == Workload::Connections {
                    socket.close();
                    *asked = true;
                }
            }
            if socket.may_send() && !*asked {
                socket.send_slice(b"?").unwrap();
                *asked = true;
            }
        }
    }
}
