//! The reference model: the possible output of a network of UDP hosts for its input. It does not depend on
//! how hosts work.

use std::collections::BTreeMap;

use evenkeel_core::wire::IpAddress;
use evenkeel_sim::workload::{Delivery, Sent};

/// The faults that the network may show to its programs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// The most copies of one datagram that may arrive.
    pub(crate) copies_max: usize,
    /// Whether the datagrams of one flow arrive in the order in which they were sent.
    pub(crate) ordered: bool,
}

/// A program that sent.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) host_addresses: Vec<IpAddress>,
    pub(crate) sent: Vec<Sent>,
}

/// A socket that received.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) host_addresses: Vec<IpAddress>,
    pub(crate) port: u16,
    pub(crate) got: Vec<Delivery>,
}

/// Returns everything in `inboxes` that `outboxes` and the rules do not explain.
pub(crate) fn violations(outboxes: &[Outbox], inboxes: &[Inbox], rules: Rules) -> Vec<String> {
    let mut sent = BTreeMap::new();
    for (sender, outbox) in outboxes.iter().enumerate() {
        for (number, datagram) in outbox.sent.iter().enumerate() {
            let previous = sent.insert(datagram.payload.as_slice(), (sender, number, datagram));
            assert!(previous.is_none(), "the test sends no two equal payloads");
        }
    }
    let mut found = Vec::new();
    for inbox in inboxes {
        let mut copies: BTreeMap<&[u8], usize> = BTreeMap::new();
        let mut last: BTreeMap<(usize, IpAddress), usize> = BTreeMap::new();
        for delivery in &inbox.got {
            let Some(&(sender, number, datagram)) = sent.get(delivery.payload.as_slice()) else {
                found.push(format!("port {}: nobody sent {delivery:?}", inbox.port));
                continue;
            };
            let place = format!("port {}, datagram {number} of sender {sender}", inbox.port);
            if datagram.to.port != inbox.port || !inbox.host_addresses.contains(&datagram.to.addr) {
                found.push(format!("{place}: was sent to {}", datagram.to));
            }
            if !outboxes[sender].host_addresses.contains(&delivery.from.addr) {
                found.push(format!("{place}: says it comes from {}", delivery.from));
            }
            if delivery.at < datagram.at {
                found
                    .push(format!("{place}: arrived at {:?} and was sent at {:?}", delivery.at, datagram.at));
            }
            let count = copies.entry(&delivery.payload).or_default();
            *count += 1;
            if *count > rules.copies_max {
                found.push(format!("{place}: arrived {count} times"));
            }
            let before = last.insert((sender, datagram.to.addr), number);
            if rules.ordered && before.is_some_and(|before| before > number) {
                found.push(format!("{place}: came after datagram {before:?}"));
            }
        }
    }
    found
}
