//! A stack that shares its addresses with another one, which resolves neighbours and answers for both.

use super::*;
use crate::stack::neighbor::table::Key;
use crate::time::Duration;

fn sharing() -> Node {
    Node::new(2, Config { shared: true, announce: true, ..Config::default() })
}

fn requested(node: &mut Node) -> Vec<Key> {
    core::iter::from_fn(|| node.stack.next_neighbor_request()).collect()
}

fn resolve(node: &mut Node, address: IpAddress, confirmed: bool) {
    let update = NeighborUpdate::resolved(LAN, address, mac(1), confirmed);
    node.with(|stack, io| stack.sync_neighbor(update, io));
}

#[test]
fn a_neighbor_is_resolved_by_the_other_stack() {
    for address in [v4(1), v6(1)] {
        let mut node = sharing();
        node.send(address, b"first").unwrap();
        node.send(address, b"second").unwrap();
        assert_eq!(node.sent().len(), 0, "no question is sent");
        assert_eq!(requested(&mut node), [(LAN, address)]);
        resolve(&mut node, address, true);
        let sent = node.sent();
        assert_eq!(sent.len(), 2);
        assert!(sent.iter().all(|frame| frame[..6] == mac(1).0));
        assert_eq!(requested(&mut node), []);
        node.check();
    }
}

/// A neighbour that is doubted is in use at once. It is requested again, and stays if it is confirmed.
#[test]
fn a_neighbor_that_is_not_confirmed_is_requested_again() {
    let mut node = sharing();
    node.send(v4(1), b"x").unwrap();
    requested(&mut node);
    resolve(&mut node, v4(1), false);
    assert_eq!(node.sent().len(), 1);
    for confirmed in [true, false] {
        node.now += Duration::from_secs(60);
        node.send(v4(1), b"x").unwrap();
        assert_eq!(node.tick_at(node.now + Duration::from_secs(6)).len(), 1);
        assert_eq!(requested(&mut node), [(LAN, v4(1))]);
        resolve(&mut node, v4(1), confirmed);
    }
    node.check();
}

#[test]
fn a_neighbor_that_the_other_stack_does_not_find_is_given_up() {
    let mut node = sharing();
    node.send(v4(1), b"x").unwrap();
    for _ in 0..3 {
        assert_eq!(requested(&mut node), [(LAN, v4(1))]);
        assert_eq!(node.tick_at(node.now + Duration::from_secs(1)).len(), 0);
    }
    assert_eq!((requested(&mut node), node.sent().len(), node.stack.neighbors.len()), (vec![], 0, 0));
    node.check();
}

/// Only neighbours that were requested are kept, however many the other stack has.
#[test]
fn neighbors_of_the_other_stack_are_not_kept() {
    let mut node = sharing();
    for n in 3..100 {
        resolve(&mut node, v4(n), true);
    }
    assert_eq!(node.stack.neighbors.len(), 0);
}

/// The other stack has said everything about the addresses.
#[test]
fn nothing_is_sent_about_addresses_and_groups() {
    let mut node = sharing();
    assert!(node.stack.routing.interfaces().of(LAN).unwrap().link_local().is_none());
    for _ in 0..20 {
        assert_eq!(node.tick_at(node.now + Duration::from_secs(1)).len(), 0);
    }
    assert_eq!(requested(&mut node), []);
}
