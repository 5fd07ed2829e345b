//! SYN cookies and Fast Open cookies: for any acknowledgments and cookies, only our own fresh ones are
//! accepted.
//!
//! A fuzzer can find a right number by chance, because the key is always the same. So an acceptable cookie is
//! one that our own function computes for the same sockets and numbers, now or an epoch ago. The hash makes
//! it hard to guess.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use evenkeel_core::tcp::cookie::SynCookies;
use evenkeel_core::tcp::fast_open::{FastOpenCache, FastOpenServer, Presented};
use evenkeel_core::tcp::listener::{Arrival, Handshake, Listener, Reaction};
use evenkeel_core::tcp::{
    AddrPort, Cookie, Counters, Flags, FourTuple, Header, InitialSequence, ListenerConfig, Options, Secret,
    Segment, SeqNumber, Timestamps,
};
use evenkeel_core::time::{Duration, Instant};

use super::Script;

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const SERVER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));
const PEERS: u8 = 6;
const EPOCH: Duration = Duration::from_secs(60);
/// The values of the MSS that a cookie can encode: see [`SynCookies`].
const MSS: [u16; 8] = [216, 536, 1_220, 1_300, 1_400, 1_440, 1_460, 8_940];
const WAITING_MAX: usize = 2;
/// The number of SYN-ACKs that peers remember.
const KEPT: usize = 16;

/// The results of a script.
#[derive(Debug, Default)]
pub struct Report {
    /// The counters of the listener.
    pub counters: Counters,
    /// Acknowledgments that were accepted.
    pub established: u64,
    /// SYNs whose data was accepted.
    pub opened_fast: u64,
    /// Refused acknowledgments whose cookie was once right.
    pub stale: u64,
}

/// A SYN-ACK with a cookie, as the peer received it.
#[derive(Debug, Clone, Copy)]
struct Given {
    peer: u8,
    irs: SeqNumber,
    iss: SeqNumber,
    at: Instant,
    echo: u32,
}

struct World {
    now: Instant,
    listener: Listener,
    cookies: SynCookies,
    given: VecDeque<Given>,
    /// The listener's key for Fast Open, the previous one, and the number of changes.
    key: u8,
    /// For connections with data before their handshake: the time at which each stops counting, if it does.
    waiting: Vec<Option<Instant>>,
    /// The Fast Open cache of a client, the object of the test.
    cache: FastOpenCache,
    remembered: [Option<Cookie>; PEERS as usize],
    report: Report,
}

/// Runs the script `input` and returns its results.
pub fn run(input: &[u8]) -> Report {
    let mut script = Script(input);
    let mut world = World::new(&mut script);
    while !script.is_over() {
        world.act(&mut script);
    }
    world.report
}

impl World {
    fn new(script: &mut Script<'_>) -> Self {
        let secret = Secret::new([5; 16]);
        let options = script.byte();
        let config = ListenerConfig {
            // There is no SYN queue, so each SYN is answered with a cookie.
            syn_queue: 0,
            backlog: usize::MAX,
            timestamps: options & 1 == 0,
            ecn: options & 2 == 0,
            sack_permitted: options & 4 == 0,
            window_scale: (options & 8 == 0).then_some(7),
            ..ListenerConfig::default()
        };
        let mut listener = Listener::new(config, secret, InitialSequence::new(secret));
        listener.enable_fast_open(FastOpenServer::new(key(0), WAITING_MAX));
        Self {
            now: Instant::from_millis(u64::from(script.word()) * 1_000),
            listener,
            cookies: SynCookies::new(secret),
            given: VecDeque::new(),
            key: 0,
            waiting: Vec::new(),
            cache: FastOpenCache::new(secret, 64),
            remembered: [None; PEERS as usize],
            report: Report::default(),
        }
    }

    fn act(&mut self, script: &mut Script<'_>) {
        match script.byte() % 8 {
            0 => self.syn(script),
            1 => self.answer(script),
            2 => self.any_ack(script),
            3 => {
                let seconds = [0_u64, 1, 30, 59, 60, 61, 120, 15_360];
                self.now += Duration::from_secs(script.pick(&seconds));
            }
            4 => self.early_data(script),
            5 => self.finish(script.flag()),
            6 => self.rotate(),
            _ => self.client(script),
        }
    }

    fn handle(&mut self, peer: u8, header: Header, payload: &[u8]) -> Reaction {
        let tuple = tuple(peer);
        let header =
            Header { source: tuple.remote.port, destination: tuple.local.port, window: 1_000, ..header };
        let segment = Segment { header, payload: [payload, &[]] };
        let arrival = Arrival { tuple, segment, mss: 1_460, previous: None, now: self.now };
        self.listener.handle_segment(&arrival, &mut self.report.counters)
    }

    // --- SYN cookies ---

    fn syn(&mut self, script: &mut Script<'_>) {
        let (peer, which, irs) = (script.byte() % PEERS, script.byte(), long(script));
        let options = Options {
            mss: Some(if which & 8 == 0 { MSS[usize::from(which & 7)] } else { script.word() }),
            window_scale: (which & 16 == 0).then(|| script.byte()),
            sack_permitted: which & 32 == 0,
            timestamps: (which & 64 == 0).then_some(Timestamps { value: 1, echo: 0 }),
            ..Options::default()
        };
        let ecn = if which & 128 == 0 { Flags::NONE } else { Flags::ECE | Flags::CWR };
        let irs = SeqNumber::new(irs);
        let header = Header { seq: irs, flags: Flags::SYN | ecn, options, ..Header::default() };
        let known = MSS.iter().copied().filter(|mss| *mss <= options.mss.unwrap_or_default().max(48)).max();
        match self.handle(peer, header, &[]) {
            Reaction::Nothing | Reaction::Drop => assert_eq!(known, None),
            Reaction::Send(syn_ack) | Reaction::Open(syn_ack) | Reaction::SendAgain(syn_ack) => {
                assert_eq!((syn_ack.ack, syn_ack.flags.contains(Flags::SYN | Flags::ACK)), (irs + 1, true));
                // The cookie is checked at once, when it is surely fresh.
                assert_eq!(self.cookies.check(&tuple(peer), irs, syn_ack.seq, self.now), known);
                let echo = syn_ack.options.timestamps.map_or(0, |timestamps| timestamps.value);
                self.given.push_back(Given { peer, irs, iss: syn_ack.seq, at: self.now, echo });
                if self.given.len() > KEPT {
                    self.given.pop_front();
                }
            }
            other => panic!("{other:?} to a SYN"),
        }
    }

    /// Makes a peer answer its SYN-ACK, exactly or a little off; or makes another peer answer.
    fn answer(&mut self, script: &mut Script<'_>) {
        let (which, off) = (usize::from(script.byte()), script.byte());
        if self.given.is_empty() {
            return;
        }
        let given = self.given[which % self.given.len()];
        let [seq, ack, peer] = match off % 8 {
            0 => [0, 0, 0],
            1 => [0, u32::from(script.byte()), 0],
            2 => [0, u32::from(script.byte()).wrapping_neg(), 0],
            3 => [u32::from(script.byte()), 0, 0],
            4 => [1, 1, 0],
            5 => [0, 0, 1],
            6 => [0, u32::from(script.byte()) << 24, 0],
            _ => [long(script), long(script), u32::from(script.byte())],
        };
        let peer = (given.peer + peer as u8 % PEERS) % PEERS;
        let flags = Flags::ACK | if off & 8 == 0 { Flags::NONE } else { Flags::PSH };
        let timestamps =
            (off & 16 == 0).then_some(Timestamps { value: 9, echo: given.echo ^ (u32::from(off) >> 5) });
        let options = Options { timestamps, ..Options::default() };
        let header = Header {
            seq: given.irs + 1 + seq,
            ack: given.iss + 1 + ack,
            flags,
            options,
            ..Header::default()
        };
        let taken = self.acknowledge(peer, header);
        let age = self.now.since(given.at);
        if (seq, ack, peer) == (0, 0, given.peer) {
            assert!(taken || age >= EPOCH, "our own of {age:?} ago was refused");
            assert!(!taken || age < SynCookies::LIFETIME, "one of {age:?} ago was taken");
            self.report.stale += u64::from(!taken);
        }
    }

    fn any_ack(&mut self, script: &mut Script<'_>) {
        let (peer, seq, ack) = (script.byte() % PEERS, long(script), long(script));
        let header = Header {
            seq: SeqNumber::new(seq),
            ack: SeqNumber::new(ack),
            flags: Flags::ACK,
            ..Header::default()
        };
        self.acknowledge(peer, header);
    }

    /// Checks that an acknowledgment is accepted if our own function allows it. Otherwise it gets no answer,
    /// or a reset if no cookie can be in the network.
    fn acknowledge(&mut self, peer: u8, header: Header) -> bool {
        let ours = self.ours(peer, header.seq - 1, header.ack - 1);
        match self.handle(peer, header, &[]) {
            Reaction::Establish(handshake) => {
                assert_eq!(Some(handshake.peer_mss), ours, "{header:?}");
                check(&handshake, &header);
                self.report.established += 1;
                true
            }
            Reaction::Nothing => {
                assert_eq!(ours, None, "our own was refused");
                false
            }
            Reaction::Send(reset) => {
                assert_eq!((reset.flags, reset.seq), (Flags::RST, header.ack));
                // While no cookie can be in the network the listener checks none.
                let sleeps = self.given.iter().all(|given| self.now.since(given.at) >= SynCookies::LIFETIME);
                assert!(sleeps, "a cookie is under way, and {header:?} is answered with a reset");
                false
            }
            other => panic!("{other:?} to an ACK"),
        }
    }

    /// Returns the MSS for which we give this cookie, now or in the epoch before.
    fn ours(&self, peer: u8, irs: SeqNumber, cookie: SeqNumber) -> Option<u16> {
        let before = self.now.as_nanos().checked_sub(EPOCH.as_nanos() as u64).map(Instant::from_nanos);
        MSS.into_iter().find(|mss| {
            let gives = |at| self.cookies.make(&tuple(peer), irs, *mss, at) == Some(cookie);
            gives(self.now) || before.is_some_and(gives)
        })
    }

    // --- Fast Open, the server ---

    fn early_data(&mut self, script: &mut Script<'_>) {
        let (peer, which) = (script.byte() % PEERS, script.byte());
        let (client, server) = (tuple(peer).remote.addr, tuple(peer).local.addr);
        let cookie_of =
            |key_of: u8, client: &IpAddr| FastOpenServer::new(key(key_of), 0).cookie(client, &server);
        let cookie = match which % 6 {
            0 => cookie_of(self.key, &client),
            1 => cookie_of(self.key.wrapping_sub(1), &client),
            2 => cookie_of(self.key.wrapping_sub(2), &client),
            3 => cookie_of(self.key, &tuple(peer + 2).remote.addr),
            4 => Cookie::REQUEST,
            _ => Cookie::new(script.bytes(8)).unwrap_or(Cookie::REQUEST),
        };
        let good = cookie == cookie_of(self.key, &client);
        let old = self.key > 0 && !good && cookie == cookie_of(self.key - 1, &client);
        let now = self.now;
        self.waiting.retain(|until| until.is_none_or(|until| until > now));
        let room = self.waiting.len() < WAITING_MAX;
        let options = Options { mss: Some(1_460), fast_open: Some(cookie), ..Options::default() };
        let header = Header { flags: Flags::SYN, options, ..Header::default() };
        match self.handle(peer, header, b"GET /") {
            Reaction::FastOpen(_, new) => {
                assert!((good || old) && room, "data was taken with {cookie:?}");
                assert_eq!(new, old.then(|| cookie_of(self.key, &client)), "a new cookie for an old one");
                self.waiting.push(None);
                self.report.opened_fast += 1;
            }
            Reaction::Send(_) | Reaction::Open(_) => assert!(!(good || old) || !room, "our own was refused"),
            other => panic!("{other:?} to a SYN"),
        }
        // SYNs that are answered with a SYN cookie get a Fast Open cookie, too, which may be used.
        self.given.clear();
    }

    /// Ends the handshake of a connection that had data, or resets it.
    fn finish(&mut self, reset: bool) {
        let now = self.now;
        let Some(server) = self.listener.fast_open() else { panic!("it is enabled") };
        server.finish(reset, now);
        if let Some(place) = self.waiting.iter().position(Option::is_none) {
            self.waiting.remove(place);
            if reset {
                self.waiting.push(Some(now + Duration::from_secs(60)));
            }
        }
    }

    fn rotate(&mut self) {
        if let (Some(next), Some(server)) = (self.key.checked_add(1), self.listener.fast_open()) {
            self.key = next;
            server.rotate(key(next));
            assert_eq!(server.judge(&SERVER, &SERVER, &Cookie::REQUEST), Presented::Request);
        }
    }

    // --- Fast Open, the client ---

    /// Checks that the client presents the cookie of this server, or requests one.
    fn client(&mut self, script: &mut Script<'_>) {
        let peer = script.byte() % PEERS;
        let (local, server) = (tuple(peer).local.addr, tuple(peer).remote.addr);
        match script.byte() % 6 {
            0 | 1 => {
                let offer = self.cache.offer(&local, &server, self.now);
                let known = self.remembered[usize::from(peer)].unwrap_or(Cookie::REQUEST);
                assert!(offer.is_none_or(|offer| offer.cookie == known), "{offer:?}, not {known:?}");
            }
            2 => {
                let cookie = Cookie::new(script.bytes(8)).unwrap_or(Cookie::REQUEST);
                self.cache.remember(&local, &server, cookie, 1_460, self.now);
                self.remembered[usize::from(peer)] = Some(cookie);
            }
            3 => {
                self.cache.vanished(&local, &server, self.now);
                assert_eq!(self.cache.offer(&local, &server, self.now), None, "left alone");
                self.remembered[usize::from(peer)].get_or_insert(Cookie::REQUEST);
            }
            4 => self.cache.worked(&local, &server),
            _ => {
                self.cache.forget(&local, &server);
                self.remembered[usize::from(peer)] = None;
            }
        }
    }
}

/// Checks that the connection begins where the acknowledgment says, with no more than its abilities.
fn check(handshake: &Handshake, header: &Header) {
    assert_eq!((handshake.irs + 1, handshake.iss + 1), (header.seq, header.ack));
    assert!(handshake.peer_window_scale.is_none_or(|shift| shift <= 14));
    assert_eq!(handshake.sent_at, None);
    if header.options.timestamps.is_none() {
        assert!(!handshake.sack_permitted && !handshake.ecn && handshake.peer_window_scale.is_none());
    }
}

fn key(n: u8) -> Secret {
    Secret::new([n; 16])
}

/// Returns the tuple of a peer. Odd ones are of IPv6.
fn tuple(peer: u8) -> FourTuple {
    let port = 5_000 + u16::from(peer / 4);
    if peer.is_multiple_of(2) {
        return FourTuple::new(
            AddrPort::new(SERVER, 80),
            AddrPort::new(IpAddr::V4(Ipv4Addr::new(10, 0, 1, peer)), port),
        );
    }
    let client = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 1, peer.into()));
    FourTuple::new(AddrPort::new(SERVER_V6, 80), AddrPort::new(client, port))
}

fn long(script: &mut Script<'_>) -> u32 {
    u32::from(script.word()) << 16 | u32::from(script.word())
}
