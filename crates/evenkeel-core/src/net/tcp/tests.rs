//! Tests of asynchronous protocol processing on a whole host.

use super::state::Owner;
use crate::channel::SegmentKind;
use crate::config::Config;
use crate::id::InterfaceId;
use crate::id::ProcessId;
use crate::looks::LOOKS;
use crate::net::Net;
use crate::poll::Gate;
use crate::receive::Architecture;
use crate::socket::Descriptor;
use crate::system::TcpListener;
use crate::tcp::FourTuple;
use crate::tcp::ListenerConfig;
use crate::tcp::endpoint::ListenAt;
use crate::time::Instant;
use crate::wire::IpAddress;

/// Descriptors and channels looked at when programs are notified on a host with so many listeners.
fn looks(listeners: u16) -> u64 {
    let small = Config { channel_pkts: 1, ..Config::of(Architecture::SoftLrp) };
    let mut net = Net::new(small).unwrap();
    for port in 1..=listeners {
        let at = ListenAt { address: None, port };
        TcpListener::open(&mut net, ProcessId(5), at, &ListenerConfig::default(), None).unwrap();
    }
    let before = LOOKS.get();
    net.tcp.pending = true;
    net.notify_programs();
    LOOKS.get() - before
}

#[test]
fn a_listener_that_is_not_stopped_is_not_looked_at() {
    assert_eq!(looks(1_000), looks(1));
}

/// As it does when its accept queue is full, and has room again.
#[test]
fn a_listener_that_stops_gives_no_feedback_until_it_goes_on() {
    let mut net = Net::new(Config::of(Architecture::SoftLrp)).unwrap();
    let at = ListenAt { address: None, port: 80 };
    let socket = TcpListener::open(&mut net, ProcessId(5), at, &ListenerConfig::default(), None).unwrap();
    let Some(Descriptor::Listener(listener)) = net.sockets.descriptors.get(socket) else { panic!() };
    let syns = listener.syns.unwrap();
    let frame = net.pool.take().unwrap();
    net.rx.channels.get_mut(syns).unwrap().push(InterfaceId(0), frame).unwrap();
    net.activation().activate(syns, SegmentKind::Syns(socket));
    let gives_feedback = |net: &Net| net.rx.channels.get(syns).unwrap().gate != Gate::open();
    assert!(gives_feedback(&net));
    net.activation().settle_channel(syns, true);
    assert!(!gives_feedback(&net));
    net.activation().resume_listeners();
    assert!(gives_feedback(&net));
}

/// Its channel is free for others at once, and stays where it is while a second segment waits.
#[test]
fn a_connection_with_one_segment_is_visited_once() {
    let mut net = Net::new(Config { batch_pkts: 1, ..Config::of(Architecture::SoftLrp) }).unwrap();
    net.tcp_channels().reserve_segments().unwrap();
    let end = |last, port| (IpAddress::v4(10, 0, 0, last), port);
    let tuple = FourTuple::new(end(1, 1_000), end(2, 7));
    let id = net.tcp.endpoint.connect(tuple, 1_460, Instant::ZERO).unwrap();
    let program = ProcessId(5);
    net.tcp.set_owner(Owner { id, process: Some(program), socket: None, channel: None });
    let channel = net.tcp.segment_channel(&tuple, false, &mut net.rx.channels, &net.rx.table).unwrap();
    for _ in 0..2 {
        let frame = net.pool.take().unwrap();
        net.rx.channels.get_mut(channel).unwrap().push(InterfaceId(0), frame).unwrap();
        net.tcp.segments.count_held(SegmentKind::Connection(id));
    }
    net.activation().activate(channel, SegmentKind::Connection(id));
    let state = |net: &Net| {
        let has = net.tcp.owner(id).unwrap().channel;
        (net.tcp.has_segments(program), has, net.tcp.segments.free.len(), net.tcp.segments.held_pkts())
    };
    net.process_segments(program, Instant::ZERO);
    assert_eq!(state(&net), (true, Some(channel), 0, 1));
    net.process_segments(program, Instant::ZERO);
    assert_eq!(state(&net), (false, None, 1, 0));
}

/// It had no segments before it ended; then some came for what is left of its connections.
#[test]
fn what_comes_for_a_process_that_has_ended_is_the_daemons() {
    let mut net = Net::new(Config::of(Architecture::SoftLrp)).unwrap();
    let daemon = ProcessId(1);
    let control = net.rx.channels.daemons().control.unwrap();
    net.rx.channels.set_reader(control, daemon);
    let end = |last, port| (IpAddress::v4(10, 0, 0, last), port);
    let tuple = FourTuple::new(end(1, 1_000), end(2, 7));
    let id = net.tcp.endpoint.connect(tuple, 1_460, Instant::ZERO).unwrap();
    let program = ProcessId(5);
    net.tcp.set_owner(Owner { id, process: Some(program), socket: None, channel: None });
    net.activation().end_processing(program);
    assert_eq!(net.activation().process_for(SegmentKind::Connection(id)), daemon);
}
