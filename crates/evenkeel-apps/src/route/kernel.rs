//! Following the kernel's tables, so that a routing daemon that knows nothing of us steers the router.
//!
//! The kernel keeps its addresses on the devices and goes on being a host there: it answers ARP and pings,
//! and BIRD or FRR speak to their neighbours through it. The router takes packets for everybody else, and
//! leaves those for the kernel's addresses alone
//! ([`forward_only`](evenkeel_core::stack::Config::forward_only)). Since the kernel sees every frame too, it
//! must not forward.

use core::ops::Bound;
use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel::Engine;
use evenkeel_core::host::Host;
use evenkeel_core::stack::{InterfaceId, Multipath, NextHop, Route, Via};
use evenkeel_core::time::Instant;
use evenkeel_core::wire::{IpAddress, IpCidr};
use evenkeel_link::{
    Entry, EventFd, KernelHop, KernelRoute, KernelTables, KernelWay, News, device_index,
    refuse_kernel_forwarding,
};

use super::error::RouterError;
use super::report::{KernelReport, lock};

/// What has been taken over from the kernel, and when it was last heard of.
#[derive(Debug)]
struct Follower {
    tables: KernelTables,
    /// Our interfaces on the kernel's devices.
    interfaces: BTreeMap<u32, InterfaceId>,
    addresses: BTreeMap<(InterfaceId, IpCidr), Round>,
    /// Of the same prefix and metric there may be several, by different interfaces.
    routes: BTreeMap<(IpCidr, u32), Vec<(Via, Round)>>,
    neighbors: BTreeMap<(InterfaceId, IpAddress), Round>,
    /// How many ways all routes together have.
    ways: u64,
    round: Round,
    /// What is being removed because a whole reading had nothing of it.
    sweep: Option<Sweep>,
    report: Arc<Mutex<KernelReport>>,
}

/// A reading of the whole tables.
type Round = u64;

/// How far the old has been swept out: what comes next is behind these.
#[derive(Debug)]
enum Sweep {
    Addresses,
    Neighbors(Option<(InterfaceId, IpAddress)>),
    Routes(Option<(IpCidr, u32)>),
}

/// Entries that are taken over, or looked at, in one piece: a few dozen microseconds, in which no packet is
/// forwarded.
const PIECE: usize = 32;

/// Tells a follower that one of its interfaces is on another device of the kernel's now.
#[derive(Debug)]
pub(super) struct Arrivals {
    arrived: Sender<(u32, InterfaceId)>,
    event: EventFd,
}

impl Arrivals {
    pub(super) fn tell(&self, index: u32, interface: InterfaceId) {
        // A host that is gone need not know.
        let _ = self.arrived.send((index, interface));
        self.event.notify();
    }
}

/// Has an engine's host follow the tables of the devices, whose interfaces are numbered in their order.
pub(super) fn follow(
    engine: &mut Engine,
    devices: &[&str],
) -> Result<(Arc<Mutex<KernelReport>>, Arrivals), RouterError> {
    let now = engine.clock().now();
    let follower = Follower::open(devices, engine.host_mut(), now)?;
    let (report, fd) = (follower.report(), follower.tables.fd());
    let ((tell, arrived), event) = (channel(), EventFd::new()?);
    // Both are called by the engine's thread, which never waits here.
    let follower = Arc::new(Mutex::new(follower));
    let notified = Arc::clone(&follower);
    engine.attend_in_pieces(fd, move |host, now| lock(&follower).follow(host, now));
    engine.attend_event(&event, move |_host, _now| {
        let mut follower = lock(&notified);
        arrived.try_iter().for_each(|(index, interface)| follower.moved(index, interface));
    });
    Ok((report, Arrivals { arrived: tell, event }))
}

impl Follower {
    /// An interface is on another device now, of whose entries nothing is known.
    fn moved(&mut self, index: u32, interface: InterfaceId) {
        self.interfaces.retain(|_, known| *known != interface);
        self.interfaces.insert(index, interface);
        // If that cannot be asked for now, it is with the next announcement.
        let _ = self.tables.read_again();
    }

    /// Takes over the tables of the devices, whose interfaces are numbered in their order.
    fn open(devices: &[&str], host: &mut Host, now: Instant) -> Result<Self, RouterError> {
        let mut interfaces = BTreeMap::new();
        for (number, device) in devices.iter().enumerate() {
            refuse_kernel_forwarding(device).map_err(|error| RouterError::Links(error.to_string()))?;
            let number = u8::try_from(number).map_err(|_| RouterError::Links("too many links".to_owned()))?;
            interfaces.insert(device_index(device)?, InterfaceId(number));
        }
        let mut follower = Self {
            tables: KernelTables::open()?,
            interfaces,
            addresses: BTreeMap::new(),
            routes: BTreeMap::new(),
            neighbors: BTreeMap::new(),
            ways: 0,
            round: 0,
            sweep: None,
            report: Arc::default(),
        };
        let mut all = Vec::new();
        follower.tables.read_all(|news| all.push(news))?;
        for news in all {
            follower.hear(news, host, now);
        }
        while follower.sweep.is_some() {
            follower.sweep_piece(host, now);
        }
        follower.tell(0);
        Ok(follower)
    }

    fn report(&self) -> Arc<Mutex<KernelReport>> {
        Arc::clone(&self.report)
    }

    /// Takes over a piece of what the kernel has announced; says whether there may be more.
    fn follow(&mut self, host: &mut Host, now: Instant) -> bool {
        if self.sweep.is_some() {
            self.sweep_piece(host, now);
            self.tell(0);
            return true;
        }
        let mut heard = Vec::with_capacity(PIECE);
        // What is announced while the kernel is short of memory is asked for again with the next
        // announcement.
        let more = self.tables.read(PIECE, |news| heard.push(news)).unwrap_or(false);
        let changes = heard.iter().filter(|news| matches!(news, News::Is { .. } | News::Gone(_))).count();
        for news in heard {
            self.hear(news, host, now);
        }
        self.tell(changes as u64);
        more
    }

    fn tell(&self, changes: u64) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.routes = self.ways;
        report.neighbors = self.neighbors.len() as u64;
        report.changes += changes;
        report.resyncs = self.tables.resyncs();
    }

    fn skip(&self) {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).skipped += 1;
    }

    fn hear(&mut self, news: News, host: &mut Host, now: Instant) {
        match news {
            News::Begins => self.round += 1,
            News::Complete => self.sweep = Some(Sweep::Addresses),
            News::Is { entry: Entry::Address { index, address }, .. } => {
                self.address(index, address, host, now)
            }
            News::Gone(Entry::Address { index, address }) => {
                if let Some(&interface) = self.interfaces.get(&index)
                    && self.addresses.remove(&(interface, address)).is_some()
                {
                    host.remove_address(interface, address);
                }
            }
            News::Is { entry: Entry::Route(route), replaces } => self.route(&route, replaces, host),
            News::Gone(Entry::Route(route)) => self.route_gone(&route, host),
            News::Is { entry: Entry::Neighbor { index, address, hardware: Some(hardware) }, .. } => {
                if let Some(&interface) = self.interfaces.get(&index) {
                    match host.set_neighbor(interface, address, hardware, now) {
                        Ok(()) => drop(self.neighbors.insert((interface, address), self.round)),
                        Err(_) => self.skip(),
                    }
                }
            }
            // The kernel is no longer sure of it: whoever has packets for it asks.
            News::Is { entry: Entry::Neighbor { index, address, .. }, .. }
            | News::Gone(Entry::Neighbor { index, address, .. }) => {
                if let Some(&interface) = self.interfaces.get(&index)
                    && self.neighbors.remove(&(interface, address)).is_some()
                {
                    host.remove_neighbor(interface, address, now);
                }
            }
        }
    }

    fn address(&mut self, index: u32, address: IpCidr, host: &mut Host, now: Instant) {
        let Some(&interface) = self.interfaces.get(&index) else { return };
        if self.addresses.insert((interface, address), self.round).is_none() {
            host.add_address(interface, address, now);
        }
    }

    /// Where a route of the kernel leads by our interfaces: by all next hops that are on one.
    fn via(&self, route: &KernelRoute) -> Option<Via> {
        match &route.way {
            KernelWay::Blackhole => Some(Via::Blackhole),
            KernelWay::Unreachable => Some(Via::Unreachable),
            KernelWay::Prohibit => Some(Via::Prohibit),
            KernelWay::Unicast(hops) => {
                let ours = |hop: &KernelHop| {
                    let interface = *self.interfaces.get(&hop.index)?;
                    Some(NextHop { interface, gateway: hop.gateway, weight: hop.weight })
                };
                by_hops(&hops.iter().filter_map(ours).collect::<Vec<_>>())
            }
        }
    }

    fn route(&mut self, route: &KernelRoute, replaces: bool, host: &mut Host) {
        self.put((route.to, route.metric), self.via(route), replaces, host);
    }

    /// Puts a way into the host's table; in place of all others for this prefix and metric if it `replaces`
    /// them.
    fn put(&mut self, key: (IpCidr, u32), via: Option<Via>, replaces: bool, host: &mut Host) {
        let ((to, metric), round) = (key, self.round);
        // All next hops are told at once, also if only one has come or gone: what was told before is no more.
        let replaces = replaces || matches!(via, Some(Via::Multipath(_)));
        if let Some(via) = via.clone() {
            // The new way first: at no time is there none.
            if host.set_route(Route { to, via, metric }).is_err() {
                return self.skip();
            }
        } else {
            self.skip();
        }
        let ways = self.routes.entry(key).or_default();
        self.ways -= ways.len() as u64;
        let mut past = Vec::new();
        ways.retain(|(way, _)| {
            let same_name = via.as_ref().is_some_and(|via| via.interface() == way.interface());
            if replaces && !same_name {
                past.push(way.clone());
            }
            !replaces && !same_name
        });
        ways.extend(via.map(|via| (via, round)));
        self.ways += ways.len() as u64;
        if ways.is_empty() {
            self.routes.remove(&key);
        }
        for via in past {
            host.remove_route(&Route { to, via, metric });
        }
    }

    fn route_gone(&mut self, route: &KernelRoute, host: &mut Host) {
        let Some(via) = self.via(route) else { return };
        let key = (route.to, route.metric);
        let Some(ways) = self.routes.get_mut(&key) else { return };
        // Of IPv6 one of several next hops may go alone.
        let rest = ways.iter().find_map(|(way, _)| without(way, &via));
        // One that has been replaced since, by the same interface, is another one.
        let before = ways.len();
        ways.retain(|(way, _)| *way != via);
        let gone = ways.len() < before;
        self.ways -= (before - ways.len()) as u64;
        if ways.is_empty() {
            self.routes.remove(&key);
        }
        if gone {
            host.remove_route(&Route { to: route.to, via, metric: route.metric });
        } else if let Some(rest) = rest {
            self.put(key, Some(rest), true, host);
        }
    }

    /// The tables have been read as a whole: what was not in them is gone. Looks at some entries, and removes
    /// those.
    fn sweep_piece(&mut self, host: &mut Host, now: Instant) {
        let round = self.round;
        self.sweep = match self.sweep.take() {
            None => None,
            Some(Sweep::Addresses) => {
                // There are few.
                self.addresses.retain(|&(interface, address), heard| {
                    *heard == round || {
                        host.remove_address(interface, address);
                        false
                    }
                });
                Some(Sweep::Neighbors(None))
            }
            Some(Sweep::Neighbors(behind)) => {
                let (old, last) = next_piece(&self.neighbors, behind, |heard| *heard != round);
                for (interface, address) in old {
                    self.neighbors.remove(&(interface, address));
                    host.remove_neighbor(interface, address, now);
                }
                Some(last.map_or(Sweep::Routes(None), |last| Sweep::Neighbors(Some(last))))
            }
            Some(Sweep::Routes(behind)) => {
                let has_old = |ways: &Vec<(Via, Round)>| ways.iter().any(|(_, heard)| *heard != round);
                let (old, last) = next_piece(&self.routes, behind, has_old);
                old.into_iter().for_each(|key| self.sweep_ways(key, host));
                last.map(|last| Sweep::Routes(Some(last)))
            }
        };
    }

    /// Removes the ways to one prefix that were not heard of in this round.
    fn sweep_ways(&mut self, key: (IpCidr, u32), host: &mut Host) {
        let ((to, metric), round) = (key, self.round);
        let Some(ways) = self.routes.get_mut(&key) else { return };
        for (via, _) in ways.extract_if(.., |(_, heard)| *heard != round) {
            self.ways -= 1;
            host.remove_route(&Route { to, via, metric });
        }
        if ways.is_empty() {
            self.routes.remove(&key);
        }
    }
}

/// Which of the next entries behind a key are old, and the last of these entries; `None` if there was none.
fn next_piece<K: Ord + Copy, V>(
    table: &BTreeMap<K, V>,
    behind: Option<K>,
    is_old: impl Fn(&V) -> bool,
) -> (Vec<K>, Option<K>) {
    let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
    let piece = table.range((from, Bound::Unbounded)).take(PIECE);
    let last = piece.clone().last().map(|(&key, _)| key);
    (piece.filter(|(_, value)| is_old(value)).map(|(&key, _)| key).collect(), last)
}

fn by_hops(hops: &[NextHop]) -> Option<Via> {
    match *hops {
        [NextHop { interface, gateway: None, .. }] => Some(Via::Link(interface)),
        [NextHop { interface, gateway: Some(gateway), .. }] => Some(Via::Gateway(interface, gateway)),
        _ => Multipath::new(hops).map(Via::Multipath),
    }
}

/// What is left of several next hops when some are gone; `None` if none of them is.
fn without(way: &Via, gone: &Via) -> Option<Via> {
    let Via::Multipath(all) = way else { return None };
    let is_gone = |hop: &NextHop| gone.hops().any(|gone| gone == (hop.interface, hop.gateway));
    let rest: Vec<_> = all.hops().filter(|hop| !is_gone(hop)).collect();
    if rest.len() < all.hops().count() { by_hops(&rest) } else { None }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::cable;
    use evenkeel_core::host::Config;
    use evenkeel_testing::{Scratch, in_namespace, run};

    use super::*;

    fn routes(verb: &str, count: u32) -> String {
        (0..count).map(|n| format!("route {verb} 20.{}.{}.0/24 dev d0\n", n >> 8, n & 255)).collect()
    }

    /// What is taken over between two units of work is bounded, whatever comes at once; also what is swept
    /// out because it is gone without a word.
    #[test]
    fn changes_are_taken_over_in_small_pieces() {
        const COUNT: u32 = 2_000;
        in_namespace(&[&[("ip", "iproute2")]], || {
            run("ip link add d0 type veth peer name d1");
            run("ip link set d1 up");
            run("ip link set d0 up");
            run("ip addr add 10.0.1.1/24 dev d0");
            let scratch = Scratch::new();
            run(&format!("ip -batch {}", scratch.write("add", &routes("add", COUNT))));
            let mut host = Host::new(Config::default()).unwrap();
            let (end, _other) = cable::pair(cable::Options::new("a", 1), cable::Options::new("b", 2));
            host.add_interface(Box::new(end), &[], Instant::ZERO).unwrap();
            let mut follower = Follower::open(&["d0"], &mut host, Instant::ZERO).unwrap();
            let all = host.route_count();
            assert!(all > COUNT as usize && follower.ways == lock(&follower.report).routes);
            // All of d0's routes go with it, and of most nothing is said.
            run("ip link set d0 down");
            let (mut pieces, mut most) = (0, 0);
            while host.route_count() > all - COUNT as usize {
                let before = (host.route_count(), lock(&follower.report).changes);
                follower.follow(&mut host, Instant::ZERO);
                let removed = before.0.abs_diff(host.route_count());
                most = most.max(removed).max((lock(&follower.report).changes - before.1) as usize);
                pieces += 1;
                assert!(pieces < 1_000_000, "{} routes are left", host.route_count());
            }
            assert!(most <= 64, "{most} at once");
            let ways: usize = follower.routes.values().map(Vec::len).sum();
            assert_eq!(follower.ways, ways as u64);
        });
    }
}
