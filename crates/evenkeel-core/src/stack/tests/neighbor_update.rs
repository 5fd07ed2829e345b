//! Two hosts that are one to the outside: what reaches the one serves the other.

use super::*;

/// Hosts of the same addresses that keep so many `neighbor_updates` for each other.
fn twins(neighbor_updates: usize) -> [Node; 2] {
    [(); 2].map(|()| Node::new(2, Config { report_groups: false, neighbor_updates, ..Config::default() }))
}

fn pass_on(from: &mut Node, to: &mut Node) -> usize {
    let mut count = 0;
    while let Some(update) = from.stack.next_neighbor_update() {
        assert_eq!(update.interface(), LAN);
        to.with(|stack, io| stack.sync_neighbor(update, io));
        count += 1;
    }
    count
}

#[test]
fn an_answer_that_reaches_the_other_one_is_passed_on_and_no_question_is_answered_twice() {
    for address in [v4, v6] {
        let ([mut asks, mut hears], mut neighbor) = (twins(8), Node::quiet(1));
        asks.send(address(1), b"hello").unwrap();
        for question in asks.sent() {
            assert!(neighbor.receive(&question).is_none());
        }
        for answer in neighbor.sent() {
            assert!(hears.receive(&answer).is_none());
        }
        assert_eq!((asks.sent().len(), hears.stack.neighbors.len()), (0, 0));
        assert_eq!(pass_on(&mut hears, &mut asks), 1);
        let sent = asks.sent();
        assert_eq!(neighbor.receive_udp(&sent[0]).map(|(.., payload)| payload), Some(b"hello".to_vec()));
        assert_eq!((sent.len(), hears.sent().len()), (1, 0));
        // What came by word of mouth is not told again.
        assert_eq!(pass_on(&mut asks, &mut hears), 0);
        [&asks, &hears, &neighbor].into_iter().for_each(Node::check);
    }
}

#[test]
fn who_asks_the_one_is_known_to_the_other() {
    for address in [v4, v6] {
        let ([mut one, mut other], mut neighbor) = (twins(8), Node::quiet(1));
        neighbor.send(address(2), b"hello").unwrap();
        exchange(&mut neighbor, &mut one);
        pass_on(&mut one, &mut other);
        assert_eq!(other.sent().len(), 0, "the one has answered");
        other.send(address(1), b"hello").unwrap();
        assert_eq!(other.sent()[0][..6], mac(1).0);
        other.check();
    }
}

#[test]
fn no_more_is_kept_than_may_be_and_nothing_for_nobody() {
    for (neighbor_updates, kept) in [(0, 0), (3, 3)] {
        let ([mut one, mut other], mut neighbor) = (twins(neighbor_updates), Node::quiet(1));
        for _ in 0..5 {
            neighbor.with(|stack, io| stack.remove_neighbor(LAN, v4(2), io));
            neighbor.send(v4(2), b"hello").unwrap();
            exchange(&mut neighbor, &mut one);
        }
        assert_eq!(pass_on(&mut one, &mut other), kept);
    }
}
