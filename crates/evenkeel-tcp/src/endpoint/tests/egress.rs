//! Segments that leave through several interfaces, some of them full.

use proptest::prelude::*;

use super::*;

/// The bytes of payload in a full segment.
const PAYLOAD: usize = 1_448;

fn only(egress: u8) -> EgressSet {
    EgressSet::one(Egress::new(egress))
}

/// Returns the client ports of the segments that the client may send now, `most` of them at most.
fn leaving(world: &mut World, most: usize) -> Vec<u16> {
    let mut bytes = [0; 2_000];
    let next = || world.ends[0].poll_transmit(world.now, &world.routes, &mut bytes);
    core::iter::from_fn(next).take(most).map(|transmit| transmit.tuple.local.port).collect()
}

/// Returns a world and four connections with four full segments each to send: the first two through
/// interface 0, the others through 1.
fn by_two_interfaces() -> (World, [Id; 4]) {
    let listener = ListenerConfig::default();
    let mut world = World::listening(EndpointConfig::default(), &listener, Faults::default(), 1);
    [3, 4].into_iter().for_each(|port| world.routes.set(port, 1));
    let ids = [1, 2, 3, 4].map(|port| world.connect(port));
    world.pass(Duration::from_secs(1));
    for id in ids {
        assert_eq!(world.ends[0].write(id, &[0; 4 * PAYLOAD]), Ok(4 * PAYLOAD));
    }
    (world, ids)
}

#[test]
fn a_full_interface_blocks_its_own_connections_only_and_they_miss_no_turn() {
    let [none, first] = [EgressSet::NONE, only(0)];
    let (mut world, _) = by_two_interfaces();
    assert_eq!(leaving(&mut world, 3), [1, 2, 3]);
    world.ends[0].set_full(first);
    assert_eq!(leaving(&mut world, 100), [4, 3, 4, 3, 4, 3, 4]);
    let may_transmit = |world: &World, full| world.ends[0].may_transmit(full, &world.routes);
    assert!(!may_transmit(&world, first) && may_transmit(&world, none));
    world.ends[0].set_full(none);
    assert_eq!(leaving(&mut world, 1), [1]);
    world.ends[0].set_full(first);
    assert_eq!(leaving(&mut world, 100), []);
    world.ends[0].set_full(none);
    assert_eq!(leaving(&mut world, 100), [2, 1, 2, 1, 2]);
    assert!(!may_transmit(&world, none));
}

#[test]
fn who_was_blocked_takes_turns_with_the_others_again() {
    let (mut world, _) = by_two_interfaces();
    world.ends[0].set_full(only(0).union(only(1)));
    assert_eq!(leaving(&mut world, 100), []);
    world.ends[0].set_full(EgressSet::NONE);
    assert_eq!(leaving(&mut world, 100), [1, 2, 3, 4].repeat(4));
}

#[test]
fn a_connection_whose_route_has_changed_leaves_by_the_new_one() {
    let (mut world, _) = by_two_interfaces();
    assert_eq!(leaving(&mut world, 4), [1, 2, 3, 4]);
    world.routes.set(1, 1);
    world.ends[0].set_full(only(0));
    assert_eq!(leaving(&mut world, 100), [1, 3, 4].repeat(3));
    world.ends[0].set_full(only(1));
    assert_eq!(leaving(&mut world, 100), [2; 3]);
}

/// A connection must not depend on its old interface, which may never have room again.
#[test]
fn a_blocked_connection_whose_route_has_changed_is_not_stuck() {
    let (mut world, _) = by_two_interfaces();
    world.ends[0].set_full(only(0));
    assert_eq!(leaving(&mut world, 100), [3, 4].repeat(4));
    assert!(!world.ends[0].may_transmit(only(0), &world.routes));
    world.routes.set(2, 1);
    assert!(world.ends[0].may_transmit(only(0), &world.routes));
    assert_eq!(leaving(&mut world, 100), [2; 4]);
    assert!(!world.ends[0].may_transmit(only(0), &world.routes), "the other waits on");
    world.ends[0].set_full(EgressSet::NONE);
    assert_eq!(leaving(&mut world, 100), [1; 4]);
}

#[test]
fn what_ends_while_it_is_blocked_leaves_nothing_behind() {
    let (mut world, ids) = by_two_interfaces();
    world.ends[0].set_full(only(1));
    assert_eq!(leaving(&mut world, 100), [1, 2].repeat(4));
    world.ends[0].abort(ids[2]).unwrap();
    ids.iter().for_each(|&id| world.ends[0].close(id, world.now));
    world.ends[0].set_full(EgressSet::NONE);
    while world.step() {
        while let Some(id) = world.ends[1].accept(&HTTP) {
            world.ends[1].abort(id).unwrap();
        }
    }
    world.assert_empty();
}

#[test]
fn an_accepted_connection_waits_for_its_own_route_and_what_is_nobodys_for_none() {
    let listener = ListenerConfig::default();
    let mut world = World::listening(EndpointConfig::default(), &listener, Faults::default(), 1);
    let mut bytes = [0; 2_000];
    world.routes.set(1, 3);
    world.connect(1);
    world.ends[1].set_full(only(3));
    let mut routes = Vec::new();
    for from in [0, 1, 0] {
        let sent = world.ends[from].poll_transmit(world.now, &world.routes, &mut bytes).unwrap();
        routes.push(sent.route);
        let (source, destination) = (sent.tuple.local.addr, sent.tuple.remote.addr);
        let packet = Packet { source, destination, ..FROM_CLIENT };
        world.ends[1 - from].input(&bytes[..sent.len], &packet, world.now);
    }
    let route = Some(Egress::new(3));
    assert_eq!(routes, [route, None, route]);
    let id = world.ends[1].accept(&HTTP).unwrap();
    assert_eq!(world.ends[1].route(id, &world.routes), route);
    world.ends[1].write(id, b"!").unwrap();
    assert_eq!(world.ends[1].poll_transmit(world.now, &world.routes, &mut bytes), None);
    world.ends[1].set_full(EgressSet::NONE);
    let sent = world.ends[1].poll_transmit(world.now, &world.routes, &mut bytes).unwrap();
    assert_eq!(sent.route, route);
}

#[derive(Debug, Clone)]
enum Step {
    /// Routes the connection of a port through an interface.
    Route(u16, u8),
    /// Sets the interfaces that are full, as bits.
    Full(u64),
    Write(usize),
    Send(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..5_u16, 0..3_u8).prop_map(|(port, egress)| Step::Route(port, egress)),
        (0..8_u64).prop_map(Step::Full),
        (0..4_usize).prop_map(Step::Write),
        (1..20_usize).prop_map(Step::Send),
    ]
}

proptest! {
    /// Whatever routes change and interfaces fill, each segment leaves by the route that its connection
    /// has at that moment, no full interface gets one, and a connection that waits does so for a full
    /// interface.
    #[test]
    fn segments_leave_by_the_routes_of_the_moment(steps in proptest::collection::vec(any_step(), 1..60)) {
        let (mut world, ids) = by_two_interfaces();
        let mut full = EgressSet::NONE;
        let mut bytes = [0; 2_000];
        for step in steps {
            match step {
                Step::Route(port, egress) => world.routes.set(port, egress),
                Step::Full(bits) => {
                    let each = (0..3).filter(|egress| bits >> egress & 1 != 0).map(only);
                    full = each.fold(EgressSet::NONE, EgressSet::union);
                    world.ends[0].set_full(full);
                }
                Step::Write(which) => _ = world.ends[0].write(ids[which], &[0; PAYLOAD]),
                Step::Send(most) => {
                    let before = world.ends[0].may_transmit(full, &world.routes);
                    let mut left = most;
                    while left > 0
                        && let Some(sent) = world.ends[0].poll_transmit(world.now, &world.routes, &mut bytes)
                    {
                        left -= 1;
                        let fresh = world.routes.lookup(&sent.tuple);
                        prop_assert_eq!(sent.route, Some(fresh));
                        prop_assert!(before && !full.contains(fresh));
                    }
                    if left > 0 {
                        prop_assert!(!world.ends[0].may_transmit(full, &world.routes));
                        for id in ids {
                            let entry = world.ends[0].state.connections.get(id).unwrap();
                            let waits_for = world.routes.lookup(world.ends[0].tuple(id).unwrap());
                            prop_assert!(!entry.is_queued || full.contains(waits_for));
                        }
                    }
                }
            }
        }
    }
}
