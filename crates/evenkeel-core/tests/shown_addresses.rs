//! Tests of the addresses that a host shows to its interfaces.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use evenkeel_core::cable::{End, Options, pair};
use evenkeel_core::frame::{Frame, Pool, PoolLimit};
use evenkeel_core::host::{Config, Host};
use evenkeel_core::interface::{Interface, Properties, RxQueue, TxQueue};
use evenkeel_core::receive::Architecture;
use evenkeel_core::time::Instant;
use evenkeel_core::wire::{IpAddress, IpCidr};

type Shown = Arc<Mutex<BTreeSet<IpAddress>>>;

/// The end of a cable, as an interface that records the addresses that it is shown.
#[derive(Debug)]
struct Recorder {
    end: End,
    shown: Shown,
}

impl TxQueue for Recorder {
    fn transmit(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool) -> usize {
        self.end.transmit(frames, pool)
    }
}

impl Interface for Recorder {
    fn properties(&self) -> &Properties {
        self.end.properties()
    }

    fn queue(&self, index: usize) -> &dyn RxQueue {
        self.end.queue(index)
    }

    fn queue_mut(&mut self, index: usize) -> &mut dyn RxQueue {
        self.end.queue_mut(index)
    }

    fn attach(&mut self, pool: &mut Pool) -> Result<(), PoolLimit> {
        self.end.attach(pool)
    }

    fn set_addresses(&mut self, addresses: &mut dyn Iterator<Item = IpAddress>) {
        *self.shown.lock().unwrap() = addresses.collect();
    }
}

fn recorder(seed: u8) -> (Recorder, Shown) {
    let (_, end) = pair(Options::new("wire", seed), Options::new("host", seed + 1));
    let shown = Shown::default();
    (Recorder { end, shown: Arc::clone(&shown) }, shown)
}

const FIRST: IpAddress = IpAddress::v4(10, 0, 0, 1);
const SECOND: IpAddress = IpAddress::v4(10, 0, 1, 1);
const THIRD: IpAddress = IpAddress::v4(10, 0, 2, 1);

fn cidr(address: IpAddress) -> IpCidr {
    IpCidr::new(address, 24)
}

fn has(shown: &Shown, addresses: &[IpAddress]) -> bool {
    let v4 = |address: &&IpAddress| matches!(address, IpAddress::Ipv4(_));
    shown.lock().unwrap().iter().filter(v4).eq(addresses)
}

/// Broadcast addresses and groups are not among them: other stacks have these, too.
#[test]
fn interfaces_are_shown_the_hosts_unicast_addresses_of_all_interfaces() {
    for architecture in [Architecture::Eager, Architecture::Polled, Architecture::SoftLrp] {
        let mut host = Host::new(Config::of(architecture)).unwrap();
        let ((one, of_one), (other, of_other)) = (recorder(1), recorder(3));
        let first = host.add_interface(Box::new(one), &[cidr(FIRST)], Instant::ZERO).unwrap();
        assert!(has(&of_one, &[FIRST]), "{of_one:?}");
        let second = host.add_interface(Box::new(other), &[], Instant::ZERO).unwrap();
        assert!(has(&of_other, &[FIRST]), "{of_other:?}");
        host.add_address(second, cidr(SECOND), Instant::ZERO);
        host.add_address(first, cidr(THIRD), Instant::ZERO);
        assert!(has(&of_one, &[FIRST, SECOND, THIRD]) && has(&of_other, &[FIRST, SECOND, THIRD]));
        assert!(host.remove_address(first, cidr(FIRST)));
        assert!(has(&of_one, &[SECOND, THIRD]) && has(&of_other, &[SECOND, THIRD]));
        let (new, of_new) = recorder(5);
        host.replace_interface(first, Box::new(new), Instant::ZERO).unwrap();
        assert!(has(&of_new, &[SECOND, THIRD]), "{of_new:?}");
    }
}
