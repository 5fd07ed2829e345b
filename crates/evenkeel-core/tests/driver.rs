//! A driver on public traits only: what the driver contract promises to it, and what a host does with it.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::sync::{Arc, Mutex};

use common::nic::{Adaptor, BUFFERS, Event, Nic, RING_PKTS};
use common::*;
use evenkeel_core::cable::{End, Options, pair};
use evenkeel_core::demux::{Binding, Change};
use evenkeel_core::drop::QueueDrop;
use evenkeel_core::frame::Pool;
use evenkeel_core::host::{AddInterfaceError, Config, Host, System};
use evenkeel_core::id::ChannelId;
use evenkeel_core::interface::{CONSENT, Interface as _};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::{Architecture, DeviceWork, ReceivePath};
use evenkeel_core::system::{TcpListener, UdpSocket};
use evenkeel_core::tcp::cookie::SynCookies;
use evenkeel_core::tcp::{Counter, Flags, FourTuple, Header, ListenerConfig, Secret, SeqNumber};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::IpCidr;
use evenkeel_core::work::Work;

/// Channels that a host with `ni-lrp` has without any socket.
const DAEMONS: usize = 4;

/// A host without an interface, and the two ends that are to be one.
fn apart(config: Config, rings_max: usize) -> (Host, End, Nic) {
    let options = |name, n| Options { ring_pkts: RING_PKTS, ..Options::new(name, n) };
    let (mut wire, end) = pair(options("wire", 1), options("host", 2));
    wire.attach(&mut Pool::with_limit(RING_PKTS)).unwrap();
    (Host::new(config).unwrap(), wire, Nic::new(end, rings_max))
}

struct Stand {
    host: Host,
    wire: End,
    adaptor: Arc<Mutex<Adaptor>>,
    now: Instant,
    polls: u32,
}

impl Stand {
    fn new(config: Config, rings_max: usize) -> Self {
        let (host, wire, nic) = apart(config, rings_max);
        let mut stand = Self { host, wire, adaptor: nic.adaptor(), now: Instant::ZERO, polls: 0 };
        stand.add(nic, None).unwrap();
        stand
    }

    fn add(&mut self, nic: Nic, plan: Option<ReceivePath>) -> Result<(), AddInterfaceError> {
        let address = [IpCidr::new(HOST.into(), 24)];
        match plan {
            None => self.host.add_interface(Box::new(nic), &address, self.now),
            Some(plan) => self.host.add_interface_with(Box::new(nic), &address, plan, self.now),
        }
        .map(|_| ())
    }

    fn run(&mut self) {
        for _ in 0..2_000 {
            match self.host.turn(self.now) {
                Some(ran) => {
                    self.polls += self.host.work().count(Work::PollRound);
                    let elapsed = UNIT + self.host.work().compute;
                    self.now += elapsed;
                    self.host.charge(&ran, elapsed);
                    self.host.finish(&ran, self.now);
                }
                None if self.host.halt(self.now) => break,
                None => {}
            }
        }
        self.host.check().unwrap();
    }

    fn send(&mut self, frames: &[Vec<u8>]) {
        assert!(frames.iter().all(|frame| self.wire.send(frame)));
    }

    fn events(&self) -> Vec<Event> {
        core::mem::take(&mut self.adaptor.lock().unwrap().events)
    }
}

#[test]
fn channels_without_a_ring_of_their_own_share_one_and_the_host_demultiplexes_it() {
    for rings_max in [0, 1, DAEMONS, DAEMONS + 1, DAEMONS + 3] {
        let mut stand = Stand::new(Config::of(Architecture::NiLrp), rings_max);
        let seen = [7, 8, 9].map(|port| {
            let (sink, seen) = Sink::new(port);
            stand.host.spawn("sink", 0, Box::new(sink));
            seen
        });
        stand.run();
        assert_eq!(stand.adaptor.lock().unwrap().rings(), rings_max.min(DAEMONS + 3), "{rings_max}");
        for n in 0..10 {
            stand.send(&[udp(7, &[n]), udp(8, &[n]), udp(9, &[n]), udp(9, &[n])]);
            stand.run();
        }
        assert_eq!(seen.map(|seen| seen.count()), [10, 10, 20], "{rings_max}");
    }
}

#[test]
fn a_flood_of_a_channel_that_shares_a_ring_is_discarded_early_and_its_buffers_go_home() {
    // Feedback would pause the ring in time.
    let mut stand = Stand::new(Config { feedback: None, ..Config::of(Architecture::NiLrp) }, 0);
    // Opened, and never read.
    let (mut idle, _) = Sink::new(9);
    idle.nap = Some(Duration::from_secs(1_000));
    stand.host.spawn("idle", 0, Box::new(idle));
    let (sink, seen) = Sink::new(7);
    stand.host.spawn("sink", 0, Box::new(sink));
    stand.run();
    for _ in 0..8 {
        let mut frames = vec![udp(9, b"flood"); RING_PKTS - 1];
        frames.push(udp(7, b"here"));
        stand.send(&frames);
        stand.run();
    }
    assert_eq!(seen.count(), 8);
    assert!(stand.polls >= 8, "a shared ring is polled, so that a flood cannot have the core");
    let discarded = stand.host.ledger().input_drops(QueueDrop::Channel) as usize;
    let held = 8 * (RING_PKTS - 1) - discarded;
    assert!(
        held < 3 * stand.host.config().channel_pkts,
        "in the channel and the queue of its socket: {held}"
    );
    let home = stand.adaptor.lock().unwrap().pool.available();
    assert_eq!(home + held + RING_PKTS, BUFFERS, "all others are home, or in the cable's ring");
}

/// Opens a socket, and closes it again.
struct Brief(Option<UdpSocket>);

impl core::fmt::Debug for Brief {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Brief")
    }
}

impl Program for Brief {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        match self.0 {
            None => self.0 = Some(UdpSocket::bind(system, None, 7).unwrap()),
            Some(socket) => {
                system.close(socket);
                return Step::Exit;
            }
        }
        Step::Sleep(system.now() + Duration::from_millis(1))
    }
}

#[test]
fn a_channel_is_open_for_as_long_as_anything_is_bound_to_it() {
    let bound = |events: &[Event]| -> Vec<ChannelId> {
        let bind = |e: &Event| if let Event::Update(Change::Bind(_, id)) = *e { Some(id) } else { None };
        events.iter().filter_map(bind).collect()
    };
    let opened = |events: &[Event]| -> Vec<ChannelId> {
        events.iter().filter_map(|e| if let Event::Open(id, _) = *e { Some(id) } else { None }).collect()
    };
    for is_first in [false, true] {
        let (host, wire, nic) = apart(Config::of(Architecture::NiLrp), DAEMONS);
        let mut stand = Stand { host, wire, adaptor: nic.adaptor(), now: Instant::ZERO, polls: 0 };
        let spawn = |stand: &mut Stand| {
            stand.host.spawn("brief", 0, Box::new(Brief(None)));
            stand.run();
        };
        if is_first {
            spawn(&mut stand);
        }
        stand.add(nic, None).unwrap();
        let added = stand.events();
        let first_bind = added.iter().position(|e| matches!(e, Event::Update(_))).unwrap();
        let channels = DAEMONS + usize::from(is_first);
        assert_eq!(opened(&added[..first_bind]).len(), channels, "all are opened first: {added:?}");
        assert_eq!(bound(&added[first_bind..]).len(), channels);
        if !is_first {
            spawn(&mut stand);
            let events = stand.events();
            let [Event::Open(id, false), Event::Update(Change::Bind(_, to))] = events[..] else {
                panic!("{events:?}");
            };
            assert_eq!(id, to);
        }
        stand.now += Duration::from_millis(2);
        stand.run();
        let events = stand.events();
        assert!(matches!(events[..], [Event::Update(Change::Unbind(_)), Event::Close(_)]), "{events:?}");
    }
}

#[test]
fn an_interface_that_demultiplexes_and_has_a_receive_ring_serves_any_architecture() {
    for (architecture, device_work) in [
        (Architecture::SoftLrp, DeviceWork::Polled),
        (Architecture::SoftLrp, DeviceWork::Interrupt),
        (Architecture::Eager, DeviceWork::Interrupt),
    ] {
        let (host, wire, nic) = apart(Config::of(architecture), 64);
        let mut stand = Stand { host, wire, adaptor: nic.adaptor(), now: Instant::ZERO, polls: 0 };
        stand.add(nic, Some(ReceivePath::of(architecture, device_work))).unwrap();
        let (sink, seen) = Sink::new(7);
        stand.host.spawn("sink", 0, Box::new(sink));
        stand.run();
        stand.send(&vec![udp(7, b"here"); 20]);
        stand.run();
        assert_eq!((seen.count(), stand.events()), (20, Vec::new()), "{architecture}");
    }
}

/// A SYN that comes into a ring just after the host has found it empty does not stop the listener, which
/// would wait for room that it has.
#[test]
fn a_syn_that_comes_after_the_last_look_is_answered() {
    let config = Config { batch_pkts: 1, ..Config::of(Architecture::NiLrp) };
    let mut stand = Stand::new(config, 100);
    let server = stand.host.attach("server", 0, stand.now);
    let listen = |system: &mut System<'_>| TcpListener::listen(system, None, 80, &ListenerConfig::default());
    stand.host.enter(server, stand.now, listen).unwrap().unwrap();
    stand.run();
    stand.send(&[syn(5_000, 80)]);
    let count = |stand: &Stand| stand.host.tcp().counters().get(Counter::InSegs);
    // The first one has been put into the ring, and the next one is on its way.
    assert!(stand.adaptor.lock().unwrap().looks() > 0);
    stand.adaptor.lock().unwrap().late = true;
    stand.send(&[syn(5_001, 80)]);
    stand.run();
    assert_eq!(count(&stand), 2);
}

/// An adaptor may answer SYNs as long as their listener has room for connections. The host accepts what the
/// adaptor's cookies bring back.
#[test]
fn an_adaptor_that_answers_syns_knows_when_it_may_and_the_host_that_it_did() {
    let secret = Secret::of_seed(9);
    let config = Config { secret: Some(secret), ..Config::of(Architecture::NiLrp) };
    let mut stand = Stand::new(config, 100);
    let server = stand.host.attach("server", 0, stand.now);
    stand.run();
    stand.events();
    let config = ListenerConfig { backlog: 1, ..ListenerConfig::default() };
    let listen = |system: &mut System<'_>| TcpListener::listen(system, None, 80, &config);
    let listener = stand.host.enter(server, stand.now, listen).unwrap().unwrap();
    let offered = |events: Vec<Event>| {
        let offers = events.into_iter().filter_map(|event| match event {
            Event::Update(Change::AnswerSyns(channel, offer)) => Some((channel, offer)),
            _ => None,
        });
        offers.collect::<Vec<_>>()
    };
    let offers = offered(stand.events());
    let [(channel, offer)] = offers[..] else { panic!("{offers:?}") };
    assert_eq!((offer.secret, offer.hop_limit), (secret, 64));
    let answers = |stand: &Stand| stand.adaptor.lock().unwrap().answers(channel);
    let accept = |stand: &mut Stand| stand.host.enter(server, stand.now, |it| listener.accept(it)).unwrap();
    assert_eq!(answers(&stand), None, "the host has not said so yet");
    stand.send(&[syn(5_000, 80)]);
    stand.run();
    assert!(answers(&stand).is_some());

    // The ACK of a cookie: the first one is of no use.
    let tuple = FourTuple::new((HOST, 80), (PEER, 6_000));
    let irs = SeqNumber::new(77);
    let cookie = SynCookies::new(secret).make(&tuple, irs, 1_460, stand.now).unwrap();
    let ports = Header { source: 6_000, destination: 80, ..Header::default() };
    let ack = tcp(Header { seq: irs + 1, ack: cookie + 1, flags: Flags::ACK, ..ports }, b"");
    stand.send(std::slice::from_ref(&ack));
    stand.run();
    assert!(accept(&mut stand).is_err());
    stand.adaptor.lock().unwrap().answer(channel, 3);
    stand.send(&[ack]);
    stand.run();
    assert_eq!(stand.host.tcp().counters().get(Counter::SyncookiesSent), 3);

    // The accept queue is full.
    stand.send(&[syn(5_001, 80)]);
    stand.run();
    assert_eq!(answers(&stand), None);
    accept(&mut stand).unwrap();
    stand.run();
    assert!(answers(&stand).is_some());
    let limit = core::num::NonZeroU8::new(9).unwrap();
    stand.host.enter(server, stand.now, |system| listener.set_hop_limit(system, limit)).unwrap().unwrap();
    assert_eq!(offered(stand.events())[0].1.hop_limit, 9);
}

/// An adaptor may drop segments that belong to no connection as long as their listener expects cookies.
#[test]
fn an_adaptor_refuses_segments_only_while_cookies_are_expected() {
    let secret = Secret::of_seed(9);
    let config = Config { secret: Some(secret), ..Config::of(Architecture::NiLrp) };
    let mut stand = Stand::new(config, 100);
    let server = stand.host.attach("server", 0, stand.now);
    stand.run();
    stand.events();
    let config = ListenerConfig::default();
    let listen = |system: &mut System<'_>| TcpListener::listen(system, None, 80, &config);
    stand.host.enter(server, stand.now, listen).unwrap().unwrap();
    let events = stand.events();
    let channel_of = |wanted: bool| {
        let mut bound = events.iter().filter_map(|event| match event {
            Event::Update(Change::Bind(Binding::Tcp { port: 80, opens, .. }, channel)) => {
                Some((*opens, *channel))
            }
            _ => None,
        });
        bound.find(|(opens, _)| *opens == wanted).unwrap().1
    };
    let (syns, others) = (channel_of(true), channel_of(false));
    let ports = Header { source: 6_000, destination: 80, ..Header::default() };
    let ack = tcp(Header { seq: SeqNumber::new(1), ack: SeqNumber::new(1), flags: Flags::ACK, ..ports }, b"");
    let refuses = |stand: &mut Stand| {
        stand.send(std::slice::from_ref(&ack));
        stand.run();
        stand.adaptor.lock().unwrap().refuses(others)
    };
    assert_eq!(refuses(&mut stand), None, "a reset is to answer them");
    stand.adaptor.lock().unwrap().answer(syns, 1);
    let begin = stand.now;
    assert!(refuses(&mut stand).is_some_and(|since| since >= begin));
    // The consent is for a time in which cookies are good.
    let lifetime = SynCookies::LIFETIME;
    let late = begin + (lifetime - 3 * CONSENT);
    stand.now = late;
    assert!(refuses(&mut stand).is_some_and(|since| since >= late));
    stand.now = begin + (lifetime - CONSENT);
    assert_eq!(refuses(&mut stand), None);
    assert_eq!(stand.adaptor.lock().unwrap().refuses(syns), None);
}
