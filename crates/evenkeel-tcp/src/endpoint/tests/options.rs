//! Options that users set for connections, and calls on connections that are over.

use core::net::Ipv6Addr;

use super::*;
use crate::connection::StreamOption;

const PORT: u16 = 40_000;

/// Returns a world with a connection from [`PORT`], the client's end and the server's end.
fn opened() -> (World, Id, Id) {
    let mut world =
        World::listening(EndpointConfig::default(), &ListenerConfig::default(), Faults::default(), 1);
    let client = world.connect(PORT);
    world.pass(Duration::from_millis(50));
    let server = world.ends[1].accept(&HTTP).unwrap();
    (world, client, server)
}

fn set(world: &mut World, end: usize, id: Id, option: StreamOption) {
    world.ends[end].set(id, option, world.now).unwrap();
}

fn info(world: &World, end: usize, id: Id) -> crate::connection::Info {
    world.ends[end].connection(id).unwrap().info()
}

/// Returns the next segment that leaves: its header, and its bytes of payload.
fn leaves(world: &mut World, end: usize) -> Option<(Header, usize)> {
    let mut bytes = [0; 2_000];
    let left = world.ends[end].poll_transmit(world.now, &world.routes, &mut bytes)?;
    let (local, remote) = (left.tuple.local.addr, left.tuple.remote.addr);
    let segment = Segment::parse(&bytes[..left.len], local, remote, Ecn::NotCapable).unwrap();
    Some((segment.header, segment.payload_len()))
}

#[test]
fn under_a_cork_only_full_segments_leave_and_the_rest_after_it() {
    let (mut world, client, _) = opened();
    set(&mut world, 0, client, StreamOption::Cork(true));
    world.ends[0].write(client, &[7; 2_000]).unwrap();
    assert_eq!(leaves(&mut world, 0).map(|(_, len)| len), Some(1_448));
    assert_eq!(leaves(&mut world, 0), None);
    set(&mut world, 0, client, StreamOption::Cork(false));
    assert_eq!(leaves(&mut world, 0).map(|(_, len)| len), Some(552));
}

/// A user who forgets a cork must not wait for ever. In Linux a cork holds for 200 ms.
#[test]
fn a_cork_that_is_forgotten_holds_for_a_timeout_only() {
    let (mut world, client, server) = opened();
    set(&mut world, 0, client, StreamOption::Cork(true));
    world.ends[0].write(client, b"hello").unwrap();
    world.pass(Duration::from_millis(100));
    assert_eq!(world.ends[1].connection(server).unwrap().readable(), 0);
    world.pass(Duration::from_millis(400));
    assert_eq!(world.ends[1].connection(server).unwrap().readable(), 5);
}

#[test]
fn what_is_written_with_more_to_come_waits_for_it() {
    let (mut world, client, _) = opened();
    assert_eq!(world.ends[0].write_more(client, b"head"), Ok(4));
    assert_eq!(leaves(&mut world, 0), None);
    assert_eq!(world.ends[0].write(client, b"body"), Ok(4));
    assert_eq!(leaves(&mut world, 0).map(|(_, len)| len), Some(8));
    // The end is more than enough.
    world.pass(Duration::from_millis(100));
    assert_eq!(world.ends[0].write_more(client, b"last"), Ok(4));
    world.ends[0].shutdown(client).unwrap();
    assert_eq!(leaves(&mut world, 0).map(|(_, len)| len), Some(4));
}

#[test]
fn who_peeks_reads_the_same_again() {
    let (mut world, client, server) = opened();
    let mut to = [0; 10];
    assert_eq!(world.ends[1].peek(server, &mut to), Err(Unavailable::WouldBlock));
    world.ends[0].write(client, b"hello").unwrap();
    world.pass(Duration::from_millis(50));
    assert_eq!((world.ends[1].peek(server, &mut to[..2]), &to[..2]), (Ok(2), &b"he"[..]));
    assert_eq!((world.ends[1].peek(server, &mut to), &to[..5]), (Ok(5), &b"hello"[..]));
    assert_eq!(world.ends[1].read(server, &mut to, world.now), Ok(5));
    world.ends[0].shutdown(client).unwrap();
    world.pass(Duration::from_millis(50));
    assert_eq!(world.ends[1].peek(server, &mut to), Ok(0), "the end");
    world.ends[1].close(server, world.now);
    world.pass(Duration::from_millis(50));
    assert_eq!(world.ends[1].peek(server, &mut to), Err(Unavailable::Closed));
}

/// More data than any buffer holds comes and is discarded, and the peer is not reset.
#[test]
fn who_reads_no_more_holds_nobody_up_and_nothing_in_memory() {
    let (mut world, client, server) = opened();
    world.ends[0].write(client, &[7; 1_000]).unwrap();
    world.pass(Duration::from_millis(50));
    world.ends[1].shutdown_read(server).unwrap();
    assert_eq!(world.ends[1].read(server, &mut [0; 10], world.now), Ok(0));
    let mut sent = 0;
    while sent < 10_000_000 {
        sent += world.ends[0].write(client, &[7; 100_000]).unwrap_or(0);
        assert!(world.step());
        assert_eq!(world.ends[1].connection(server).unwrap().readable(), 0);
    }
    assert_eq!(world.ends[1].write(server, b"still"), Ok(5));
    world.pass(Duration::from_secs(1));
    assert_eq!((world.ends[1].buffered(), info(&world, 0, client).send_queue), (0, 0));
    assert_eq!(world.ends[0].read(client, &mut [0; 10], world.now), Ok(5));
    world.ends[1].close(server, world.now);
    world.ends[0].close(client, world.now);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.ends[0].counters().get(Counter::EstabResets), 0);
}

#[test]
fn segments_are_no_larger_than_the_user_says_in_either_direction() {
    let mut world =
        World::listening(EndpointConfig::default(), &ListenerConfig::default(), Faults::default(), 1);
    let client = world.connect(PORT);
    set(&mut world, 0, client, StreamOption::MssMax(500));
    world.pass(Duration::from_millis(50));
    let server = world.ends[1].accept(&HTTP).unwrap();
    assert_eq!((info(&world, 0, client).mss, info(&world, 1, server).mss), (488, 488));
    // Later, what is sent only.
    set(&mut world, 1, server, StreamOption::MssMax(300));
    assert_eq!((info(&world, 0, client).mss, info(&world, 1, server).mss), (488, 288));
    set(&mut world, 1, server, StreamOption::MssMax(1));
    assert_eq!(info(&world, 1, server).mss, Config::MSS_MAX_LEAST - 12);
}

/// The right edge of a window never moves back (RFC 9293, 3.8.6).
#[test]
fn buffers_have_the_size_that_the_user_says() {
    let (mut world, client, server) = opened();
    set(&mut world, 0, client, StreamOption::SendBuffer(10_000));
    assert_eq!(world.ends[0].write(client, &[7; 50_000]), Ok(10_000));
    let promised = info(&world, 1, server).receive_window;
    set(&mut world, 1, server, StreamOption::ReceiveBuffer(4_000));
    assert_eq!(info(&world, 1, server).receive_window, promised);
    world.pass(Duration::from_millis(300));
    assert_eq!(world.ends[1].connection(server).unwrap().readable(), 10_000, "it was promised");
    assert_eq!(world.ends[1].read(server, &mut [0; 10_000], world.now), Ok(10_000));
    for _ in 0..40 {
        let _ = world.ends[0].write(client, &[7; 10_000]);
        world.pass(Duration::from_millis(100));
        let _ = world.ends[1].read(server, &mut [0; 10_000], world.now);
    }
    let info = info(&world, 1, server);
    assert!(info.receive_limit == 4_000 && info.receive_window <= 4_000, "{info:?}");
}

/// Options that are set before the SYN has left are in the SYN.
#[test]
fn a_buffer_that_was_chosen_before_the_syn_is_offered_by_it() {
    let options = |size| {
        let mut world = World::new(EndpointConfig::default(), Faults::default(), 1);
        let client = world.connect(PORT);
        set(&mut world, 0, client, StreamOption::ReceiveBuffer(size));
        let (syn, _) = leaves(&mut world, 0).unwrap();
        (syn.window, syn.options.window_scale)
    };
    assert_eq!(options(20_000), (20_000, Some(0)));
    assert_eq!(options(100 << 20), (65_535, Some(11)));
}

#[test]
fn acknowledgments_wait_as_long_as_the_user_says() {
    let (mut world, client, server) = opened();
    let acked_after = |world: &mut World| {
        let start = world.now;
        world.ends[0].write(client, b"!").unwrap();
        while info(world, 0, client).send_queue > 0 {
            assert!(world.step());
        }
        world.now.since(start).as_millis()
    };
    assert_eq!(acked_after(&mut world), 20 + 40);
    set(&mut world, 1, server, StreamOption::AckDelay(Duration::from_millis(100)));
    assert_eq!(acked_after(&mut world), 20 + 100);
    set(&mut world, 1, server, StreamOption::AckDelay(Duration::ZERO));
    assert_eq!(acked_after(&mut world), 20);
    // One that waits leaves at once when it may wait no more.
    set(&mut world, 1, server, StreamOption::AckDelay(Duration::from_millis(400)));
    world.ends[0].write(client, b"!").unwrap();
    world.pass(Duration::from_millis(15));
    assert_eq!(leaves(&mut world, 1), None);
    set(&mut world, 1, server, StreamOption::AckDelay(Duration::ZERO));
    assert_eq!(leaves(&mut world, 1).map(|(header, len)| (header.flags, len)), Some((Flags::ACK, 0)));
}

#[test]
fn fin_wait_2_lasts_as_long_as_the_user_says() {
    let (mut world, client, _) = opened();
    set(&mut world, 0, client, StreamOption::FinWait2(Duration::from_secs(3)));
    world.ends[0].close(client, world.now);
    world.pass(Duration::from_millis(2_900));
    assert_eq!(info(&world, 0, client).state, State::FinWait2);
    world.pass(Duration::from_millis(300));
    assert!(world.ends[0].is_empty());
}

#[test]
fn accepted_connections_inherit_what_their_listener_was_given() {
    let mut world = World::new(EndpointConfig::default(), Faults::default(), 1);
    let options = Config {
        mss_max: 600,
        receive_buffer_initial: 9_000,
        receive_buffer_max: 9_000,
        send_buffer_initial: 5_000,
        send_buffer_max: 5_000,
        ack_delay: Duration::ZERO,
        timestamps: false,
        ..Config::default()
    };
    world.ends[1].listen_with(HTTP, &ListenerConfig::default(), Arc::new(options), None).unwrap();
    let client = world.connect(PORT);
    world.pass(Duration::from_millis(50));
    let server = world.ends[1].accept(&HTTP).unwrap();
    let (ours, theirs) = (info(&world, 1, server), info(&world, 0, client));
    assert_eq!((ours.mss, theirs.mss, ours.timestamps), (600, 600, false));
    assert_eq!((ours.receive_limit, theirs.send_window, ours.send_limit), (9_000, 9_000, 5_000));
}

#[test]
fn no_connection_lets_more_wait_than_the_endpoint_does_whatever_its_options_are() {
    let mut world = World::new(EndpointConfig::default(), Faults::default(), 1);
    world.ends.iter_mut().for_each(|end| end.limit_receive_buffers(20_000));
    let all = 1 << 20;
    let large = Config { receive_buffer_initial: all, receive_buffer_max: all, ..Config::default() };
    let large = Arc::new(large);
    world.ends[1].listen_with(HTTP, &ListenerConfig::default(), Arc::clone(&large), None).unwrap();
    let opening = Opening { options: Some(&large), ..Opening::new(MSS) };
    let (client, _) = world.ends[0].connect_as(tuple(PORT), &opening, world.now).unwrap();
    world.pass(Duration::from_millis(50));
    let server = world.ends[1].accept(&HTTP).unwrap();
    for (end, id) in [(0, client), (1, server)] {
        assert_eq!(info(&world, end, id).receive_limit, 20_000);
        set(&mut world, end, id, StreamOption::ReceiveBuffer(all));
        assert_eq!(info(&world, end, id).receive_limit, 20_000);
    }
}

#[test]
fn a_connection_may_have_options_of_its_own_from_the_beginning() {
    let mut world = World::new(EndpointConfig::default(), Faults::default(), 1);
    let options = Config { mss_max: 700, timestamps: false, sack: false, ..Config::default() };
    let options = Arc::new(options);
    let opening = Opening { options: Some(&options), ..Opening::new(MSS) };
    world.ends[0].connect_as(tuple(PORT), &opening, world.now).unwrap();
    let (syn, _) = leaves(&mut world, 0).unwrap();
    assert_eq!(
        (syn.options.mss, syn.options.timestamps, syn.options.sack_permitted),
        (Some(700), None, false)
    );
}

#[test]
fn a_listener_may_have_any_port_that_is_free() {
    let config = EndpointConfig { ports: 50_000..=50_003, ..EndpointConfig::default() };
    let mut end = Endpoint::new(config, Secret::new([1; 16]));
    let any = ListenAt { address: None, port: 0 };
    let listen = |end: &mut Endpoint, at| end.listen(at, &ListenerConfig::default(), None);
    listen(&mut end, ListenAt { address: None, port: 50_002 }).unwrap();
    let mut ports: Vec<u16> = (0..3).map(|_| listen(&mut end, any).unwrap().port).collect();
    assert_eq!(listen(&mut end, any), Err(InUse));
    let of_one = ListenAt { address: Some(SERVER), port: 0 };
    assert_eq!(listen(&mut end, of_one), Err(InUse), "one of all addresses listens at each");
    ports.sort_unstable();
    assert_eq!(ports, [50_000, 50_001, 50_003]);
    end.unlisten(&ListenAt { address: None, port: 50_001 });
    assert_eq!(listen(&mut end, of_one), Ok(ListenAt { address: Some(SERVER), port: 50_001 }));
}

#[test]
fn listeners_with_an_address_in_common_conflict() {
    let all_v4 = Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let all_v6 = Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    let (one_v4, one_v6) = (Some(SERVER), Some(IpAddr::V6(Ipv6Addr::LOCALHOST)));
    let addresses = [None, all_v4, all_v6, one_v4, one_v6, Some(CLIENT)];
    let conflicts_with = |first| {
        addresses.map(|second| {
            let mut end: Endpoint = Endpoint::new(EndpointConfig::default(), Secret::new([1; 16]));
            let mut listen = |address, port| {
                end.listen(ListenAt { address, port }, &ListenerConfig::default(), None).is_err()
            };
            assert!(!listen(first, 80) && !listen(second, 81));
            u8::from(listen(second, 80))
        })
    };
    assert_eq!(conflicts_with(None), [1, 1, 1, 1, 1, 1]);
    assert_eq!(conflicts_with(all_v4), [1, 1, 0, 1, 0, 1]);
    assert_eq!(conflicts_with(all_v6), [1, 0, 1, 0, 1, 0]);
    assert_eq!(conflicts_with(one_v4), [1, 1, 0, 1, 0, 0]);
    assert_eq!(conflicts_with(one_v6), [1, 0, 1, 0, 1, 0]);
}

#[test]
fn an_unspecified_address_listens_at_all_of_its_family() {
    let mut end: Endpoint = Endpoint::new(EndpointConfig::default(), Secret::new([1; 16]));
    let at = ListenAt { address: Some(Ipv4Addr::UNSPECIFIED.into()), port: 80 };
    end.listen(at, &ListenerConfig::default(), None).unwrap();
    let [v4, v6] = [SERVER, Ipv6Addr::LOCALHOST.into()].map(|address| AddrPort::new(address, 80));
    assert_eq!((end.listener_for(&v4), end.listener_for(&v6)), (Some(at), None));
}

/// Those of a listener, too, and its repetitions: a peer may take no others (RFC 5082).
#[test]
fn segments_have_the_hop_limit_of_their_connection_or_listener() {
    let limit = |limit| core::num::NonZeroU8::new(limit);
    let mut end = Endpoint::new(EndpointConfig::default(), Secret::new([1; 16]));
    let mut bytes = [0; 2_000];
    let now = Instant::from_millis(1_000);
    end.listen(HTTP, &ListenerConfig::default(), None).unwrap();
    assert_eq!(end.listener_hop_limit(&HTTP), None);
    assert!(end.set_listener_hop_limit(&HTTP, limit(255).unwrap()));
    assert!(!end.set_listener_hop_limit(&ListenAt::any(81), limit(255).unwrap()), "nothing listens there");
    assert_eq!(end.listener_hop_limit(&HTTP), limit(255));
    for port in [80, 81] {
        let syn = Header { source: 4_000, destination: port, flags: Flags::SYN, ..Header::default() };
        let len = Segment::bare(syn).emit(&mut bytes, CLIENT, SERVER).unwrap();
        end.input(&bytes[..len], &FROM_CLIENT, now);
    }
    let id = end.connect(FourTuple::new((SERVER, 5_000), (CLIENT, 80)), MSS, now).unwrap();
    end.set(id, StreamOption::HopLimit(limit(3).unwrap()), now).unwrap();
    let mut sent = |end: &mut Endpoint, now| {
        let segments = core::iter::from_fn(|| end.poll_transmit(now, &ONE_WAY, &mut bytes));
        segments.map(|sent| (sent.tuple.local.port, sent.hop_limit)).collect::<Vec<_>>()
    };
    assert_eq!(sent(&mut end, now), [(80, limit(255)), (81, None), (5_000, limit(3))]);
    let later = now + Duration::from_secs(1);
    end.advance(later);
    assert_eq!(sent(&mut end, later), [(80, limit(255)), (5_000, limit(3))]);
}

#[test]
fn an_error_is_told_once_to_who_asks_for_it() {
    let (mut world, client, server) = opened();
    assert_eq!(world.ends[1].take_error(server), None);
    world.ends[0].abort(client).unwrap();
    world.pass(Duration::from_millis(50));
    assert_eq!(world.ends[1].write(server, b"!"), Err(Unavailable::Failed(Error::Reset)));
    assert_eq!(
        (world.ends[1].take_error(server), world.ends[1].take_error(server)),
        (Some(Error::Reset), None)
    );
    assert_eq!(world.ends[1].write(server, b"!"), Err(Unavailable::Closed));
    assert_eq!(world.ends[1].read(server, &mut [0; 10], world.now), Err(Unavailable::Closed));
    assert!(world.ends[1].connection(server).unwrap().is_readable(), "nobody waits for what will not come");
}

#[test]
fn calls_on_a_connection_that_is_over_say_so() {
    let (mut world, client, server) = opened();
    world.ends[0].abort(client).unwrap();
    world.pass(Duration::from_millis(50));
    for id in [client, server] {
        let end = &mut world.ends[1];
        assert_eq!(end.shutdown(server), Err(NotConnected));
        assert_eq!(end.shutdown_read(server), Err(NotConnected));
        assert_eq!(end.set(server, StreamOption::Nagle(false), world.now), Err(NotConnected));
        assert_eq!(end.set_dscp(server, 1), Err(NotConnected));
        assert_eq!(world.ends[0].shutdown(id), Err(NotConnected), "there is none");
        assert_eq!(world.ends[0].set_dscp(id, 1), Err(NotConnected));
    }
    assert_eq!(world.ends[1].abort(server), Err(NotConnected));
    world.pass(Duration::from_millis(50));
    assert!(world.ends[1].is_empty(), "but it is released");
}
