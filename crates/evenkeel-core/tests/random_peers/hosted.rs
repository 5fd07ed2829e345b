//! Our side as a process of a whole host, on a cable whose other end is the network.

use std::collections::VecDeque;

use evenkeel_core::cable::{End, Options, pair};
use evenkeel_core::frame::Pool;
use evenkeel_core::host::{Config, Host, System};
use evenkeel_core::interface::Interface;
use evenkeel_core::process::ProcessId;
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::{ConnectOptions, StreamError};
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::system::{EventQueue, TcpListener, TcpStream};
use evenkeel_core::tcp::connection::Info;
use evenkeel_core::tcp::{Checksum, Ecn, FourTuple};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{EthernetAddress, IpCidr, IpEndpoint};

use crate::model::ours::{Notice, OUR_PORT, Ours, PEER, PEER_PORT, Refusal, US, end, ip};
use crate::model::plan::{BEGIN, Plan};
use crate::model::wire::{RST, SYN, Seg};

const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// The time charged for a work item. The clock does not advance meanwhile.
const UNIT: Duration = Duration::from_micros(1);
/// More units at one instant are a loop.
const UNITS_MAX: u32 = 100_000;
const TCP: u8 = 6;
const ICMP: u8 = 1;

/// A host with one process, which is called from outside.
#[derive(Debug)]
pub(crate) struct Hosted {
    host: Host,
    wire: End,
    pool: Pool,
    me: ProcessId,
    events: EventQueue,
    listener: Option<TcpListener>,
    stream: Option<TcpStream>,
    accepted: bool,
    /// Whether segments have come that the host has not processed.
    has_input: bool,
    sent: VecDeque<(Vec<u8>, Ecn)>,
}

impl Hosted {
    pub(crate) fn new(plan: &Plan, config: Config) -> Self {
        let demultiplexes = config.architecture == Architecture::NiLrp;
        let ring_pkts = 2_048;
        let (mut wire, end) = pair(
            Options { ring_pkts, ..Options::new("network", 1) },
            Options { ring_pkts, demultiplexes, ..Options::new("host", 2) },
        );
        let mut host = Host::new(Config { tcp: plan.endpoint.clone(), ..config }).unwrap();
        let address = IpCidr::new(ip(US).into(), 24);
        host.add_interface(Box::new(end), &[address], BEGIN).unwrap();
        host.set_neighbor(InterfaceId(0), ip(PEER).into(), EthernetAddress(PEER_MAC), BEGIN).unwrap();
        let mut pool = Pool::with_limit(2 * ring_pkts);
        wire.attach(&mut pool).unwrap();
        let me = host.attach("program", 0, BEGIN);
        let events = host.enter(me, BEGIN, EventQueue::of_all).unwrap().unwrap();
        let (listener, stream, sent) = (None, None, VecDeque::new());
        Self { host, wire, pool, me, events, listener, stream, accepted: false, has_input: false, sent }
    }

    fn call<T>(&mut self, now: Instant, call: impl FnOnce(&mut System<'_>) -> T) -> T {
        self.settle(now);
        let result = self.host.enter(self.me, now, call).unwrap();
        self.work(now);
        result
    }

    /// Has the host look at what has come.
    fn settle(&mut self, now: Instant) {
        if core::mem::take(&mut self.has_input) {
            self.wire.flush();
            self.work(now);
        }
    }

    /// Runs units until the host has nothing to do.
    fn work(&mut self, now: Instant) {
        for _ in 0..UNITS_MAX {
            if let Some(ran) = self.host.turn(now) {
                self.host.charge(&ran, UNIT);
                self.host.finish(&ran, now);
            } else if self.host.halt(now) {
                return self.collect();
            }
        }
        panic!("the host never comes to rest");
    }

    /// Takes the segments that have left.
    fn collect(&mut self) {
        while let Some(frame) = self.wire.queue_mut(0).take(&mut self.pool) {
            let bytes = frame.bytes();
            if bytes[12..14] == [8, 0] && bytes[23] == TCP {
                let len = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
                let ecn = match bytes[15] & 3 {
                    0 => Ecn::NotCapable,
                    3 => Ecn::Experienced,
                    _ => Ecn::Capable,
                };
                self.sent.push_back((bytes[34..14 + len].to_vec(), ecn));
            }
            self.pool.recycle(frame);
        }
    }

    fn receive(&mut self, protocol: u8, body: &[u8], ecn: Ecn) {
        let tos = match ecn {
            Ecn::NotCapable => 0,
            Ecn::Capable1 => 1,
            Ecn::Capable => 2,
            Ecn::Experienced => 3,
        };
        assert!(self.wire.send(&frame(protocol, tos, body)), "the ring is full");
        self.has_input = true;
    }

    /// Gives the host a segment of another connection's, if there is one, and returns what leaves first.
    fn exchange(&mut self, segment: Option<Vec<u8>>, now: Instant) -> Option<Seg> {
        if let Some(segment) = segment {
            self.receive(TCP, &segment, Ecn::NotCapable);
            self.settle(now);
        }
        let answer = self.sent.pop_front()?;
        self.sent.clear();
        Seg::parse(&answer.0, US, PEER)
    }

    /// Has an earlier connection of ours ask for a Fast Open cookie.
    fn get_cookie(&mut self, plan: &Plan, now: Instant) -> Result<(), String> {
        let ours = OUR_PORT + 1;
        let options = ConnectOptions { port: ours, data: Some(&[]), ..ConnectOptions::default() };
        let to = IpEndpoint::new(ip(PEER).into(), PEER_PORT);
        let opened = self.call(now, |system| TcpStream::connect_with(system, to, &options));
        let (stream, _) = opened.map_err(|why| why.to_string())?;
        let syn = self.exchange(None, now).ok_or("no SYN")?;
        let answer = plan.peer.cookie_for(&syn);
        self.exchange(Some(answer.emit((PEER, PEER_PORT), (US, ours))), now);
        let _ = self.call(now, |system| stream.abort(system));
        self.call(now, |system| system.close(stream));
        self.sent.clear();
        Ok(())
    }

    /// Has an earlier connection of the peer's ask for a Fast Open cookie, and returns it.
    fn give_cookie(&mut self, now: Instant) -> Option<Vec<u8>> {
        let (peer, us) = ((PEER, PEER_PORT + 1), (US, OUR_PORT));
        let syn = Seg { seq: 1, flags: SYN, cookie: Some(Vec::new()), ..Seg::default() };
        let answer = self.exchange(Some(syn.emit(peer, us)), now)?;
        let reset = Seg { seq: 2, flags: RST, ..Seg::default() };
        self.exchange(Some(reset.emit(peer, us)), now);
        answer.cookie
    }

    fn accept(&mut self, listener: TcpListener, now: Instant) -> bool {
        let before = self.accepted;
        while let Ok((stream, _)) = self.call(now, |system| listener.accept(system)) {
            if self.accepted {
                // An old SYN has come again.
                let _ = self.call(now, |system| stream.abort(system));
                self.call(now, |system| system.close(stream));
            } else {
                (self.stream, self.accepted) = (Some(stream), true);
            }
        }
        self.accepted && !before
    }
}

impl Ours for Hosted {
    const SENDS_BETWEEN: bool = true;

    fn listen(&mut self, plan: &Plan, now: Instant) -> Option<Vec<u8>> {
        let config = plan.listener;
        let listening = self.call(now, |system| TcpListener::listen(system, None, OUR_PORT, &config));
        self.listener = Some(listening.unwrap());
        if plan.fast_open { self.give_cookie(now) } else { None }
    }

    fn connect(&mut self, plan: &Plan, data: Option<&[u8]>, now: Instant) -> Result<usize, String> {
        if data.is_some() {
            self.get_cookie(plan, now)?;
        }
        let options = ConnectOptions { port: OUR_PORT, data, ..ConnectOptions::default() };
        let to = IpEndpoint::new(ip(PEER).into(), PEER_PORT);
        let opened = self.call(now, |system| TcpStream::connect_with(system, to, &options));
        let (stream, taken) = opened.map_err(|why| why.to_string())?;
        self.stream = Some(stream);
        Ok(taken)
    }

    fn input(&mut self, segment: &[u8], ecn: Ecn, now: Instant) {
        self.receive(TCP, segment, ecn);
        if !self.info().is_some_and(|info| info.state.is_synchronized()) {
            // Others come together.
            self.settle(now);
        }
    }

    fn too_big(&mut self, seq: u32, mss: u16, now: Instant) {
        let mut body = vec![3, 4, 0, 0, 0, 0];
        body.extend((mss + 40).to_be_bytes());
        body.extend(ip_header(TCP, 0, 1_480, US, PEER));
        body.extend([OUR_PORT, PEER_PORT].map(u16::to_be_bytes).concat());
        body.extend(seq.to_be_bytes());
        let sum = Checksum::default().add(&body).finish();
        body[2..4].copy_from_slice(&sum.to_be_bytes());
        self.receive(ICMP, &body, Ecn::NotCapable);
        self.settle(now);
    }

    fn advance(&mut self, now: Instant) {
        self.settle(now);
        self.work(now);
    }

    fn deadline(&mut self) -> Instant {
        self.host.next_deadline()
    }

    fn transmit(&mut self, to: &mut [u8], _now: Instant) -> Option<(usize, Ecn)> {
        let (segment, ecn) = self.sent.pop_front()?;
        to[..segment.len()].copy_from_slice(&segment);
        Some((segment.len(), ecn))
    }

    fn notice(&mut self, now: Instant) -> Option<Notice> {
        let events = self.events;
        while let Ok(event) = self.call(now, |system| events.next(system)) {
            if Some(TcpListener::of(&event)) == self.listener {
                if self.accept(TcpListener::of(&event), now) {
                    return Some(Notice::Accepted);
                }
            } else if Some(TcpStream::of(&event)) == self.stream {
                let over = event.ready.is_hang_up();
                let (readable, writable) = (event.ready.is_readable(), event.ready.is_writable());
                return Some(Notice::Ready { readable: readable || over, writable: writable || over });
            }
        }
        None
    }

    fn write(&mut self, data: &[u8], now: Instant) -> Result<usize, Refusal> {
        let Some(stream) = self.stream else { return Err(Refusal::WouldBlock) };
        self.call(now, |system| stream.write(system, data)).map_err(refusal)
    }

    fn read(&mut self, to: &mut [u8], now: Instant) -> Result<usize, Refusal> {
        let Some(stream) = self.stream else { return Err(Refusal::WouldBlock) };
        self.call(now, |system| stream.read(system, to)).map_err(refusal)
    }

    fn shutdown(&mut self, now: Instant) -> bool {
        self.stream.is_some_and(|stream| self.call(now, |system| stream.shutdown(system)).is_ok())
    }

    fn close(&mut self, now: Instant) {
        if let Some(stream) = self.stream.take() {
            self.call(now, |system| system.close(stream));
        }
    }

    fn abort(&mut self, now: Instant) {
        if let Some(stream) = self.stream {
            let _ = self.call(now, |system| stream.abort(system));
            self.close(now);
        }
    }

    fn info(&self) -> Option<Info> {
        let endpoint = self.host.tcp();
        let id = endpoint.find(&FourTuple::new(end(US, OUR_PORT), end(PEER, PEER_PORT)))?;
        endpoint.connection(id).map(|connection| connection.info())
    }

    fn left(&mut self, _now: Instant) -> Option<String> {
        if let Err(why) = self.host.check() {
            return Some(format!("the ledger does not balance: {why:?}"));
        }
        let endpoint = self.host.tcp();
        let left = [endpoint.len(), endpoint.buffered(), endpoint.waiting(), self.host.segments_waiting()];
        let frames = [self.host.queued(), self.host.waiting_to_leave(), self.host.in_rings()];
        let nothing = left.iter().all(|left| *left == 0) && frames.iter().all(|left| *left == 0);
        (!nothing).then(|| {
            format!("left: {left:?} (connections, bytes, in TIME-WAIT, segments), and frames {frames:?}")
        })
    }
}

fn refusal(why: StreamError) -> Refusal {
    match why {
        StreamError::WouldBlock => Refusal::WouldBlock,
        other => Refusal::Failed(other.to_string()),
    }
}

fn ip_header(protocol: u8, tos: u8, len: usize, from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
    let mut header = vec![0x45, tos];
    header.extend((20 + len as u16).to_be_bytes());
    header.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    header.extend(from);
    header.extend(to);
    let sum = Checksum::default().add(&header).finish();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

/// Returns a frame from the peer with a packet.
fn frame(protocol: u8, tos: u8, body: &[u8]) -> Vec<u8> {
    let header = ip_header(protocol, tos, body.len(), PEER, US);
    [&OUR_MAC[..], &PEER_MAC, &[8, 0], &header, body].concat()
}
