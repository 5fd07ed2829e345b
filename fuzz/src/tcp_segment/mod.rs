//! TCP's endpoint and peers that send anything: in every state it does only what RFC 9293 allows.
//!
//! An input chooses the segments of peers, the calls of the user, and the passing of time. These checks
//! follow each step:
//!
//! - the user reads the bytes that the peer sent, in order and once. The bytes that leave are those that the
//!   user wrote, in order and within the window;
//! - the endpoint acknowledges only bytes that a peer sent, and only within the window that it offered;
//! - a reset counts only with exactly the expected sequence number (RFC 5961), and no SYN ends a connection;
//! - buffers, connections, and connections in TIME-WAIT stay within their bounds;
//! - the endpoint stops sending after a bounded number of segments, and no deadline stays due;
//! - the endpoint notifies the user of every event that it waits for.
//!
//! In the end all connections close, the endpoint serves a new peer, and no state is left.

mod peer;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use evenkeel_core::tcp::congestion::Algorithm;
use evenkeel_core::tcp::connection::{Config, Connection, Error, Keepalive, StreamOption, Unavailable};
use evenkeel_core::tcp::endpoint::{EndpointEvent, ListenAt, Packet};
use evenkeel_core::tcp::fast_open::FastOpenServer;
use evenkeel_core::tcp::recovery::{RecoveryConfig, Restart, Start};
use evenkeel_core::tcp::table::Id;
use evenkeel_core::tcp::{
    AddrPort, Counter, Counters, Ecn, Endpoint, EndpointConfig, Flags, FourTuple, ListenerConfig, Rate,
    Secret, Segment, SeqNumber, State, TimeWaitConfig,
};
use evenkeel_core::time::{Duration, Instant};

use super::Script;
use peer::{Made, Peer, byte};

const US: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const THEM: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const US_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));
const THEM_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2));

/// The ports of the listeners: an ordinary one, one with room for nearly nothing, and one with Fast Open.
const PORTS: [u16; 3] = [80, 81, 82];
const MSS: u16 = 1_460;
const SEND_BUFFER: usize = 40_000;
/// A bound of buffers below the need of one connection.
const BUFFERS_FEW: usize = 30_000;
/// The bytes that a connection may take beyond all bounds: a segment in each direction, and the step by
/// which a buffer grows.
const BEYOND: usize = 2 * 9_000 + BUFFERS_FEW;
/// More segments than can leave at once, with all buffers full and the smallest segments.
const SEGMENTS_MAX: usize = 20_000;
/// More deadlines than can pass between two steps.
const DEADLINES_MAX: usize = 50_000;
const HELD_MAX: usize = 12;

/// The progress of a script, for tests and seeds.
#[derive(Debug, Default)]
pub struct Report {
    /// States in which a connection of the user was observed after a step.
    pub states: Vec<State>,
    /// States in which a connection received a segment.
    pub given_in: Vec<State>,
    /// The counters of the endpoint.
    pub counters: Counters,
    /// Bytes read.
    pub read: u64,
    /// Bytes sent, including retransmitted ones.
    pub sent: u64,
    /// The errors of failed connections.
    pub errors: Vec<Error>,
}

/// Runs the script `input` on an endpoint and checks it after each step. Returns the progress of the
/// script.
pub fn run(input: &[u8]) -> Report {
    let mut script = Script(input);
    let mut world = World::new(&mut script);
    while !script.is_over() {
        world.act(&mut script);
        world.check();
    }
    world.end();
    world.report.counters = world.endpoint.counters().clone();
    world.report
}

fn config(script: &mut Script<'_>) -> EndpointConfig {
    let (options, sizes, starts) = (script.byte(), script.byte(), script.byte());
    let recovery = RecoveryConfig {
        algorithm: match (starts & 1 != 0, options & 32 != 0) {
            (true, _) => Algorithm::Bbr,
            (_, false) => Algorithm::Cubic,
            (_, true) => Algorithm::NewReno,
        },
        pacing: options & 64 != 0,
        initial_window_segments: if sizes & 32 == 0 { 10 } else { 1 },
        segments_max: if sizes & 64 == 0 { 1 << 16 } else { 4 },
        start: match starts >> 1 & 3 {
            0 => Start::SlowStart,
            1 => Start::Estimated,
            2 => Start::Remembered,
            _ => Start::At(Rate::bits_per_s(1_000_000)),
        },
        restart: if starts & 8 == 0 { Restart::SlowStart } else { Restart::LastRate },
        ..RecoveryConfig::default()
    };
    let keepalive = Keepalive { idle: Duration::from_secs(5), ..Keepalive::default() };
    let connection = Config {
        timestamps: options & 1 == 0,
        sack: options & 2 == 0,
        window_scaling: options & 4 == 0,
        nagle: options & 8 == 0,
        ecn: options & 16 != 0,
        keepalive: (options & 128 != 0).then_some(keepalive),
        send_buffer_initial: SEND_BUFFER,
        send_buffer_max: SEND_BUFFER,
        receive_buffer_initial: if sizes & 1 == 0 { 20_000 } else { 2_000 },
        // Windows are scaled by five bits, or not at all.
        receive_buffer_max: if sizes & 2 == 0 { 2_000_000 } else { 50_000 },
        challenge_acks_max: if sizes & 4 == 0 { 10 } else { 1 },
        recovery: Arc::new(recovery),
        ..Config::default()
    };
    let in_time_wait = if sizes & 8 == 0 { 64 } else { 1 };
    EndpointConfig {
        connection: Arc::new(connection),
        time_wait: TimeWaitConfig { connections: in_time_wait, ..TimeWaitConfig::default() },
        connections: if sizes & 16 == 0 { 64 } else { 3 },
        buffers: if sizes & 128 == 0 { 256 << 20 } else { BUFFERS_FEW },
        ..EndpointConfig::default()
    }
}

/// A connection of the user.
struct Held {
    id: Id,
    peer: usize,
    /// The number of the byte to be read next, once the handshake is over.
    place: Option<SeqNumber>,
    written: u32,
    /// Whether the endpoint has notified the user that it can read, and no read has shown otherwise since.
    readable: bool,
    writable: bool,
}

struct World {
    endpoint: Endpoint,
    config: EndpointConfig,
    now: Instant,
    peers: Vec<Peer>,
    held: Vec<Held>,
    report: Report,
}

impl World {
    fn new(script: &mut Script<'_>) -> Self {
        let config = config(script);
        let ours = |port| AddrPort::new(US, port);
        let ours_v6 = |port| AddrPort::new(US_V6, port);
        let peers = vec![
            Peer::new(ours(80), AddrPort::new(THEM, 5_000), 1_000),
            Peer::new(ours(80), AddrPort::new(THEM, 5_001), u32::MAX - 10_000),
            Peer::new(ours_v6(80), AddrPort::new(THEM_V6, 5_000), 1 << 31),
            Peer::new(ours(81), AddrPort::new(THEM, 5_002), 0),
            Peer::new(ours_v6(82), AddrPort::new(THEM_V6, 5_003), 77),
            Peer::new(ours(82), AddrPort::new(THEM, 5_004), u32::MAX),
            // The user connects to these peers.
            Peer::new(ours(9_000), AddrPort::new(THEM, 7), 12_345),
            Peer::new(ours_v6(9_000), AddrPort::new(THEM_V6, 7), u32::MAX - 1_000),
        ];
        let mut endpoint = Endpoint::new(config.clone(), Secret::new([7; 16]));
        PORTS.iter().for_each(|port| listen(&mut endpoint, *port));
        let now = Instant::from_millis(10_000);
        Self { endpoint, config, now, peers, held: Vec::new(), report: Report::default() }
    }

    fn act(&mut self, script: &mut Script<'_>) {
        match script.byte() % 16 {
            0..=4 => {
                let peer = self.peer(script);
                let made = self.peers[peer].make(script, self.now);
                self.give(peer, &made, &[]);
            }
            5 => self.raw(script),
            6 => {
                let peer = self.peer(script);
                let made = self.peers[peer].acknowledgment(self.now);
                self.give(peer, &made, &[]);
            }
            7 => self.pass(Duration::from_millis(u64::from(script.byte()) * 10)),
            8 => {
                let seconds = [1_u64, 3, 10, 59, 61, 121, 301, 3_000_000];
                self.pass(Duration::from_secs(script.pick(&seconds)));
            }
            9 => self.connect(6 + usize::from(script.byte() % 2)),
            10 => self.accept(script.pick(&PORTS)),
            11 => self.write(script),
            12 => self.read(script),
            13 | 14 => self.call(script),
            _ if script.flag() => self.icmp(script),
            _ => {
                let at = ListenAt { address: None, port: script.pick(&PORTS) };
                self.endpoint.unlisten(&at);
                self.drain();
                listen(&mut self.endpoint, at.port);
            }
        }
        self.drain();
        self.hear();
    }

    fn peer(&self, script: &mut Script<'_>) -> usize {
        usize::from(script.byte()) % self.peers.len()
    }

    // --- What peers do ---

    /// Passes a segment to the endpoint. `edits` are places and values of bytes that change in transit,
    /// before the checksum is corrected.
    fn give(&mut self, peer: usize, made: &Made, edits: &[u8]) {
        let tuple = self.peers[peer].tuple;
        let (source, destination) = (tuple.remote.addr, tuple.local.addr);
        let mut bytes = vec![0; 60 + made.payload.len()];
        let segment = Segment { header: made.header, payload: [&made.payload, &[]] };
        let Some(len) = segment.emit(&mut bytes, source, destination) else { panic!("room for all") };
        bytes.truncate(len);
        if !edits.is_empty() {
            spoil(&mut bytes, edits, &source, &destination);
        }
        self.input(peer, &bytes, made.header.ecn);
    }

    /// Passes a segment with a partly random header: with lengths, flags and options that no implementation
    /// sends. The payload still identifies its bytes.
    fn raw(&mut self, script: &mut Script<'_>) {
        let peer = self.peer(script);
        let made = self.peers[peer].make(script, self.now);
        let count = 2 * usize::from(1 + script.byte() % 16);
        let edits = script.bytes(count);
        self.give(peer, &made, if edits.is_empty() { &[0, 0] } else { edits });
    }

    fn input(&mut self, peer: usize, bytes: &[u8], ecn: Ecn) {
        let tuple = self.peers[peer].tuple;
        let (source, destination) = (tuple.remote.addr, tuple.local.addr);
        let packet = Packet { source, destination, ecn, mss: MSS };
        let Ok(segment) = Segment::parse(bytes, source, destination, ecn) else {
            self.endpoint.input(bytes, &packet, self.now);
            return;
        };
        let local = AddrPort::new(destination, segment.header.destination);
        let tuple = FourTuple::new(local, AddrPort::new(source, segment.header.source));
        let Some(peer) = self.peers.iter().position(|peer| peer.tuple == tuple) else {
            // The segment is from an unknown sender, or for an unknown receiver.
            self.endpoint.input(bytes, &packet, self.now);
            return;
        };
        self.peers[peer].note_given(&segment);
        let before = self.stand(peer);
        let (connections, cookies) = (self.endpoint.len(), self.cookies());
        let taken = before.as_ref().and_then(|before| self.peers[peer].must_take(&segment, before.next));
        self.endpoint.input(bytes, &packet, self.now);
        let connection = &self.config.connection;
        if self.cookies() > cookies {
            let shift = connection.window_scaling.then(|| connection.window_shift());
            self.peers[peer].note_cookie(&segment.header, connection.syn_window(), shift);
        } else if self.endpoint.len() > connections && segment.header.flags.contains(Flags::ACK) {
            self.peers[peer].note_established(&segment.header);
        }
        if let Some(before) = before {
            self.report.given_in.push(before.state);
            self.check_input(peer, &before, &segment);
            self.check_taken(&before, taken);
            let after = self.stand(peer).map_or(State::Closed, |after| after.state);
            if before.state == State::SynSent && !matches!(after, State::SynSent | State::Closed) {
                let syn_window = self.config.connection.syn_window();
                self.peers[peer].note_answered(&segment.header, syn_window);
            }
        }
    }

    /// Returns the number of cookies that have come back, and of acknowledgments that were taken for
    /// cookies.
    fn cookies(&self) -> u64 {
        self.endpoint.counters().get(Counter::SyncookiesRecv)
    }

    /// Passes an ICMP error that quotes a segment to a peer, or a guessed one.
    fn icmp(&mut self, script: &mut Script<'_>) {
        let peer = self.peer(script);
        let seq = self.peers[peer].guess(script);
        let tuple = self.peers[peer].tuple;
        match script.byte() % 4 {
            0 => self.endpoint.unreachable(&tuple, seq, true),
            1 => self.endpoint.unreachable(&tuple, seq, false),
            2 => drop(self.endpoint.packet_too_big(&tuple, seq, script.word(), self.now)),
            _ => self.endpoint.next_hop_silent(&tuple, seq),
        }
    }

    /// Returns the state of the user's connection with a peer; of the one that lives, if there is one.
    fn stand(&self, peer: usize) -> Option<Stand> {
        let mut stands = self.held.iter().filter(|held| held.peer == peer).filter_map(|held| {
            let connection = self.endpoint.connection(held.id)?;
            let (state, next) = (connection.state(), connection.rcv_nxt());
            Some(Stand { id: held.id, state, next, refused: refused(connection, self.endpoint.counters()) })
        });
        let first = stands.next()?;
        Some(if first.lives() { first } else { stands.find(Stand::lives).unwrap_or(first) })
    }

    /// Checks that a segment that was let in is taken as far as it had to be, unless the segment was
    /// refused. If memory is scarce, the segment may be dropped.
    fn check_taken(&self, before: &Stand, reach: Option<SeqNumber>) {
        use State::{Established, FinWait1, FinWait2};
        let Some(reach) = reach.filter(|_| self.config.buffers > BUFFERS_FEW) else { return };
        let Some(connection) = self.endpoint.connection(before.id) else { panic!("the user holds it") };
        let open = matches!(connection.state(), Established | FinWait1 | FinWait2);
        if open && refused(connection, self.endpoint.counters()) == before.refused {
            let next = connection.rcv_nxt();
            assert!(next.at_or_after(reach), "{next:?}, and not {reach:?}, which was let in: {connection:?}");
        }
    }

    fn check_input(&self, peer: usize, before: &Stand, segment: &Segment<'_>) {
        let Some(connection) = self.endpoint.connection(before.id) else { panic!("the user holds it") };
        let (after, header) = (connection.state(), &segment.header);
        if before.state == after {
            return;
        }
        let reset = header.flags.contains(Flags::RST);
        assert!(before.state != State::TimeWait, "{header:?} has ended TIME-WAIT");
        if before.state == State::SynSent {
            let iss = self.peers[peer].iss();
            let acceptable = iss.is_some_and(|iss| header.ack.after(iss))
                && header.ack.at_or_before(self.peers[peer].sent());
            assert!(!header.flags.contains(Flags::ACK) || acceptable, "{header:?} answers no SYN of ours");
            assert!(after != State::Closed || reset && header.flags.contains(Flags::ACK), "{header:?}");
            return;
        }
        if reset {
            assert_eq!(header.seq, before.next, "a reset out of place was taken in {}", before.state);
        } else {
            let last = before.state == State::LastAck;
            assert!(after != State::Closed || last, "{header:?} has ended {}", before.state);
            let again = before.state == State::SynReceived;
            assert!(!header.flags.contains(Flags::SYN) || again, "{header:?} counts in {}", before.state);
        }
    }

    // --- What passes ---

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..DEADLINES_MAX {
            let Some(next) = self.endpoint.next_deadline().filter(|next| *next <= end) else {
                self.now = end;
                return self.endpoint.advance(self.now);
            };
            self.now = self.now.max(next);
            self.endpoint.advance(self.now);
            self.drain();
            let again = self.endpoint.next_deadline();
            assert!(again.is_none_or(|again| again > self.now), "still due: {again:?}");
            self.hear();
        }
        panic!("no end of deadlines");
    }

    fn drain(&mut self) {
        let mut bytes = [0; 2_000];
        for _ in 0..SEGMENTS_MAX {
            let Some(transmit) = self.endpoint.poll_transmit(self.now, &(), &mut bytes) else { return };
            let (local, remote) = (transmit.tuple.local, transmit.tuple.remote);
            let segment = Segment::parse(&bytes[..transmit.len], local.addr, remote.addr, transmit.ecn)
                .expect("a segment with its checksum");
            assert_eq!((segment.header.source, segment.header.destination), (local.port, remote.port));
            assert!(segment.payload_len() + segment.header.options.len() <= usize::from(MSS));
            self.report.sent += segment.payload_len() as u64;
            if let Some(peer) = self.peers.iter_mut().find(|peer| peer.tuple == transmit.tuple) {
                peer.hear(&segment);
            }
        }
        panic!("no end of segments");
    }

    /// Takes the endpoint's events, and checks that they are complete: a user that waits for an event that is
    /// never reported would wait for ever.
    fn hear(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            if let EndpointEvent::Connection(id, ready) = event {
                let held = self.held.iter_mut().find(|held| held.id == id).expect("one of the user's");
                held.readable |= ready.readable;
                held.writable |= ready.writable;
            }
        }
        for held in &self.held {
            let connection = self.endpoint.connection(held.id).expect("the user holds it");
            assert!(held.readable || !connection.is_readable(), "not told: {connection:?}");
            // If memory is scarce, other connections may free room; pending events then report it.
            let waits = self.config.buffers > BUFFERS_FEW || connection.info().send_queue == 0;
            let writable = connection.state().is_synchronized() && connection.writable() > 0 && waits;
            assert!(held.writable || !writable, "not told: {connection:?}");
        }
    }

    // --- What the user does ---

    fn hold(&mut self, id: Id) {
        let tuple = self.endpoint.tuple(id).expect("it is there");
        let Some(peer) = self.peers.iter().position(|peer| peer.tuple == *tuple) else {
            // The connection is that of an unknown client, by Fast Open with a peer's address.
            let _ = self.endpoint.abort(id);
            return;
        };
        let written = 0;
        self.held.push(Held { id, peer, place: None, written, readable: false, writable: false });
        self.find_places();
    }

    fn connect(&mut self, peer: usize) {
        if self.held.len() < HELD_MAX
            && let Ok(id) = self.endpoint.connect(self.peers[peer].tuple, MSS, self.now)
        {
            self.hold(id);
        }
    }

    fn accept(&mut self, port: u16) {
        if self.held.len() < HELD_MAX
            && let Some(id) = self.endpoint.accept(&ListenAt { address: None, port })
        {
            self.hold(id);
        }
    }

    fn pick(&self, script: &mut Script<'_>) -> Option<usize> {
        let which = usize::from(script.byte());
        (!self.held.is_empty()).then(|| which % self.held.len())
    }

    fn write(&mut self, script: &mut Script<'_>) {
        let (picked, len) = (self.pick(script), script.pick(&[100_u32, 1, 1_460, 5_000, 50_000]));
        let Some(held) = picked.and_then(|place| self.held.get_mut(place)) else { return };
        let data: Vec<u8> = (held.written..held.written + len).map(byte).collect();
        match self.endpoint.write(held.id, &data) {
            Ok(taken) => {
                held.written += taken as u32;
                // Until a write finds no room the user knows that it can continue.
                held.writable = true;
            }
            Err(Unavailable::WouldBlock) => held.writable = false,
            Err(_) => {}
        }
    }

    fn read(&mut self, script: &mut Script<'_>) {
        let (picked, len) = (self.pick(script), script.pick(&[50_000_usize, 1, 100, 1_460]));
        let Some(held) = picked.and_then(|place| self.held.get_mut(place)) else { return };
        let mut data = vec![0; len];
        match self.endpoint.read(held.id, &mut data, self.now) {
            Ok(0) | Err(Unavailable::Closed | Unavailable::Failed(_)) => {}
            Err(Unavailable::WouldBlock) => held.readable = false,
            Ok(taken) => {
                let place = held.place.expect("nothing can be read before the handshake");
                for (i, byte) in (0..).zip(&data[..taken]) {
                    assert_eq!(*byte, peer::byte((place + i).to_u32()), "byte {i} of {taken}, {place:?}");
                }
                held.place = Some(place + taken as u32);
                self.report.read += taken as u64;
            }
        }
    }

    fn call(&mut self, script: &mut Script<'_>) {
        let (picked, call) = (self.pick(script), script.byte() % 8);
        let Some(place) = picked else { return };
        let id = self.held[place].id;
        match call {
            0 | 1 => _ = self.endpoint.shutdown(id),
            2..=4 => self.endpoint.close(id, self.now),
            5 => _ = self.endpoint.abort(id),
            6 => _ = self.endpoint.set(id, StreamOption::Nagle(false), self.now),
            _ => _ = self.endpoint.set(id, StreamOption::Nagle(true), self.now),
        }
        if (2..=5).contains(&call) {
            self.held.swap_remove(place);
        }
    }

    // --- What must hold ---

    fn check(&mut self) {
        self.find_places();
        for held in &mut self.held {
            let connection = self.endpoint.connection(held.id).expect("the user holds it");
            // The user checks the room, and waits if there is none.
            held.writable &= connection.writable() > 0;
            let info = connection.info();
            let config = &self.config.connection;
            assert!(
                info.receive_queue <= config.receive_buffer_max && info.send_queue <= SEND_BUFFER,
                "{info:?}"
            );
            self.report.states.push(info.state);
            self.report.errors.extend(connection.error());
        }
        assert!(self.endpoint.len() <= self.config.connections);
        assert!(self.endpoint.buffered() <= self.config.buffers + self.endpoint.len() * BEYOND);
        assert!(self.endpoint.waiting() <= self.config.time_wait.connections);
        // A deadline may be now, and is then handled.
        self.pass(Duration::ZERO);
    }

    /// Records the start of the stream of each connection whose stream has begun.
    fn find_places(&mut self) {
        for held in self.held.iter_mut().filter(|held| held.place.is_none()) {
            let Some(connection) = self.endpoint.connection(held.id) else { continue };
            if connection.state().is_synchronized() || connection.readable() > 0 {
                held.place = Some(first_unread(connection));
            }
        }
    }

    /// Leaves all peers alone, then connects a new peer; checks that nothing is left in the end.
    fn end(&mut self) {
        for held in self.held.drain(..) {
            self.endpoint.close(held.id, self.now);
        }
        self.drain();
        self.pass(Duration::from_secs(3_600));
        for port in PORTS {
            while let Some(id) = self.endpoint.accept(&ListenAt { address: None, port }) {
                let _ = self.endpoint.abort(id);
            }
        }
        self.drain();
        while self.endpoint.poll_event().is_some() {}
        assert!(self.endpoint.is_empty(), "left: {:?}", self.endpoint);
        assert_eq!(self.endpoint.waiting(), 0);
        self.serve_newcomer();
        for port in PORTS {
            self.endpoint.unlisten(&ListenAt { address: None, port });
        }
        self.drain();
        self.pass(Duration::from_secs(3_600));
        self.drain();
        assert_eq!((self.endpoint.len(), self.endpoint.waiting(), self.endpoint.buffered()), (0, 0, 0));
        assert_eq!(self.endpoint.next_deadline(), None);
    }

    fn serve_newcomer(&mut self) {
        let mut peer = Peer::new(AddrPort::new(US, 80), AddrPort::new(THEM, 6_000), 1 << 30);
        let syn = peer.make(&mut Script(&[3]), self.now);
        peer.note_given(&Segment::bare(syn.header));
        self.peers.push(peer);
        let newcomer = self.peers.len() - 1;
        self.give(newcomer, &syn, &[]);
        self.drain();
        // The new peer sends 100 bytes.
        let data = self.peers[newcomer].make(&mut Script(&[1, 0, 0, 0, 3]), self.now);
        self.give(newcomer, &data, &[]);
        self.drain();
        self.accept(80);
        let mut got = [0; 200];
        let id = self.held.last().expect("a newcomer is accepted").id;
        assert_eq!(self.endpoint.read(id, &mut got, self.now), Ok(100));
        assert_eq!(got[..100], data.payload);
        let _ = self.endpoint.abort(id);
        self.held.clear();
        self.drain();
        self.pass(Duration::from_secs(1));
    }
}

/// The state of a connection before a segment arrived.
struct Stand {
    id: Id,
    state: State,
    next: SeqNumber,
    /// The number of segments that were refused up to then.
    refused: u64,
}

impl Stand {
    fn lives(&self) -> bool {
        self.state != State::Closed
    }
}

/// Returns the number of segments that were refused: old ones, and those that were challenged or would have
/// been challenged without the rate limit (RFC 5961, 7).
fn refused(connection: &Connection, counters: &Counters) -> u64 {
    let counts = connection.info().counts;
    u64::from(counts.paws + counts.challenge_acks) + counters.get(Counter::AckSkippedChallenge)
}

fn listen(endpoint: &mut Endpoint, port: u16) {
    let few = port == 81;
    let config = ListenerConfig {
        backlog: if few { 1 } else { 8 },
        syn_queue: if few { 0 } else { 8 },
        ..ListenerConfig::default()
    };
    let server = (port == 82).then(|| FastOpenServer::new(Secret::new([8; 16]), 2));
    endpoint.listen(ListenAt { address: None, port }, &config, server).expect("nobody listens there");
}

/// Returns RCV.NXT minus the bytes that wait and the FIN.
fn first_unread(connection: &Connection) -> SeqNumber {
    use State::{CloseWait, Closing, LastAck, TimeWait};
    let fin = matches!(connection.state(), CloseWait | Closing | LastAck | TimeWait);
    connection.rcv_nxt() - (connection.readable() as u32 + u32::from(fin))
}

/// Changes bytes of the header, and cuts or lengthens the packet. Then corrects the payload, which identifies
/// its bytes, and the checksum.
fn spoil(bytes: &mut Vec<u8>, edits: &[u8], source: &IpAddr, destination: &IpAddr) {
    let header_len = |bytes: &[u8]| (usize::from(bytes[12] >> 4) * 4).min(bytes.len());
    let head = header_len(bytes).max(20);
    for edit in edits.chunks(2) {
        let (place, value) = (usize::from(edit[0]), edit.get(1).copied().unwrap_or_default());
        match place {
            255 => bytes.truncate(bytes.len().min(value.into())),
            254 => bytes.extend(core::iter::repeat_n(0, value.into())),
            _ if bytes.is_empty() => {}
            _ => {
                let place = place % head.min(bytes.len());
                bytes[place] = value;
            }
        }
    }
    if bytes.len() < 20 {
        return;
    }
    let start = header_len(bytes);
    let seq = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    let first = seq.wrapping_add(u32::from(bytes[13] >> 1 & 1));
    for (i, place) in (0..).zip(&mut bytes[start.clamp(20, 64)..]) {
        *place = byte(first.wrapping_add(i));
    }
    seal(bytes, source, destination);
}

/// Corrects the checksum (RFC 9293, 3.1).
pub(super) fn seal(bytes: &mut [u8], source: &IpAddr, destination: &IpAddr) {
    bytes[16..18].fill(0);
    let len = (bytes.len() as u32).to_be_bytes();
    let pseudo = [&address(source)[..], &address(destination), &len, &[0, 0, 0, 6]].concat();
    let words = |bytes: &[u8]| -> u32 {
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum()
    };
    let mut sum = words(&pseudo) + words(bytes);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    bytes[16..18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

fn address(address: &IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
