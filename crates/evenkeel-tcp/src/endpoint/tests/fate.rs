//! The fates of segments that the endpoint returns.

use super::*;
use crate::TcpDrop;

const PORT: u16 = 40_000;

#[test]
fn what_became_of_a_segment_is_said_of_each() {
    let mut world =
        World::listening(EndpointConfig::default(), &ListenerConfig::default(), Faults::default(), 1);
    let client = world.connect(PORT);
    world.pass(Duration::from_millis(50));
    let server = world.ends[1].accept(&HTTP).unwrap();
    let seq = world.ends[1].connection(server).unwrap().rcv_nxt();
    let ack = world.ends[0].connection(client).unwrap().rcv_nxt();
    let timestamps = Some(Timestamps { value: u32::MAX / 4, echo: 0 });
    let options = Options { timestamps, ..Default::default() };
    let header = Header { seq, ack, flags: Flags::ACK, window: 1_000, options, ..tuple(PORT).header() };
    let mut give = |header: Header, payload: &[u8]| {
        let mut bytes = [0; 2_000];
        let len = Segment { header, payload: [payload, b""] }.emit(&mut bytes, CLIENT, SERVER).unwrap();
        world.ends[1].input(&bytes[..len], &FROM_CLIENT, world.now)
    };
    let reset = |seq| Header { seq, flags: Flags::RST, ..header };
    let out_of_place = Fate::Dropped(TcpDrop::NotAcceptable);
    assert_eq!(give(header, b"hello"), Fate::Data);
    assert_eq!(give(header, b"hello"), out_of_place, "the same again");
    assert_eq!(give(Header { seq: seq + 10, ..header }, b"later"), Fate::Data);
    assert_eq!(give(Header { seq: seq + 10, ..header }, b"later"), out_of_place);
    assert_eq!(give(Header { seq: seq + 5, ..header }, b""), Fate::Control);
    let no_room = Fate::Dropped(TcpDrop::NoRoom);
    assert_eq!(give(Header { seq: seq + 200_000, ..header }, b"beyond the window"), no_room);
    // However many are challenged, and whatever is answered.
    for _ in 0..20 {
        assert_eq!(give(reset(seq + 100), b""), out_of_place);
    }
    assert_eq!(give(reset(seq + 200_000), b""), out_of_place);
    assert_eq!(give(Header { flags: Flags::ACK | Flags::SYN, ..header }, b""), out_of_place);
    assert_eq!(give(Header { seq: seq + 5, ack: ack + 1, ..header }, b""), out_of_place);
    let old = Options { timestamps: Some(Timestamps { value: 0, echo: 0 }), ..options };
    assert_eq!(give(Header { seq: seq + 5, options: old, ..header }, b"old"), out_of_place);
    let fin = Header { seq: seq + 15, flags: Flags::ACK | Flags::FIN, ..header };
    assert_eq!(give(fin, b""), Fate::Control, "behind a hole");
    assert_eq!(give(Header { seq: seq + 5, ..header }, b"xxxxx"), Fate::Data);
    assert_eq!(give(reset(seq + 16), b""), Fate::Control, "believed");
    assert_eq!(give(header, b""), Fate::Control, "the listener resets what is for no connection");
    assert_eq!(give(Header { destination: 81, ..header }, b""), Fate::Dropped(TcpDrop::NoSocket));
    let ofo = world.ends[1].counters().get(Counter::OfoQueue);
    assert_eq!(ofo, 1, "a FIN is not out of order for having no payload");
}

#[test]
fn what_leaves_again_is_known_without_a_look_at_the_counters() {
    let listener = ListenerConfig { syn_queue: 1, syn_cookies: false, ..ListenerConfig::default() };
    let mut world = World::listening(EndpointConfig::default(), &listener, Faults::default(), 1);
    let mut bytes = [0; 100];
    let mut give = |world: &mut World, port: u16| {
        let syn = Header { flags: Flags::SYN, ..tuple(port).header() };
        let len = Segment::bare(syn).emit(&mut bytes, CLIENT, SERVER).unwrap();
        world.ends[1].input(&bytes[..len], &FROM_CLIENT, world.now)
    };
    assert_eq!(give(&mut world, 1), Fate::Control);
    assert_eq!(give(&mut world, 2), Fate::Dropped(TcpDrop::Backlog));
    world.now += Duration::from_millis(600);
    assert_eq!(give(&mut world, 1), Fate::Control);
    let mut to = [0; 2_000];
    while world.ends[1].poll_transmit(world.now, &world.routes, &mut to).is_some() {}
    let counters = world.ends[1].counters();
    assert_eq!((counters.get(Counter::OutSegs), counters.get(Counter::RetransSegs)), (1, 1));
}
