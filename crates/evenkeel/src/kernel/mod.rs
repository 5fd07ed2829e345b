//! A follower of the kernel's tables: a host takes over the kernel's addresses on its devices, the neighbours
//! that the kernel knows there, and the kernel's routes.
//!
//! The kernel keeps the addresses and sees the frames of the devices, too. In the router, through which a
//! routing daemon forwards, the kernel stays the host of its addresses: it answers ARP and pings, and BIRD or
//! FRR speak to their neighbours through it. The router forwards packets for other hosts, and ignores packets
//! for the kernel's addresses ([`forward_only`](evenkeel_core::stack::Config::forward_only)). The kernel must
//! not forward them a second time.

mod decision;
mod error;
mod fib;
mod followed;
mod lookup;
mod sharing;
mod table;

use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use evenkeel_core::host::Host;
use evenkeel_core::stack::{InterfaceId, NeighborUpdate, Route, RouteError, Via};
use evenkeel_core::time::Instant;
use evenkeel_core::wire::{EthernetAddress, IpAddress, IpCidr};
use evenkeel_link::{Entry, KernelStack, KernelTables, News, device_index};

use crate::driver::Driver;
use decision::Decision;
pub use error::FollowError;
use fib::{Fib, Swept};
pub use followed::{FollowedTables, KernelReport};
use followed::{Moves, lock};
pub use sharing::{addresses_on, sharing};
use table::{Round, truncated};

/// The entries taken over from the kernel, with the reading in which each was last seen.
#[derive(Debug)]
struct Follower {
    tables: KernelTables,
    /// The interfaces on the kernel's devices.
    interfaces: BTreeMap<u32, InterfaceId>,
    addresses: BTreeMap<(InterfaceId, IpCidr), Round>,
    neighbors: BTreeMap<(InterfaceId, IpAddress), Round>,
    taken: Neighbors,
    fib: Fib,
    /// Prefixes for which the host had no room.
    left_out: BTreeSet<IpCidr>,
    round: Round,
    /// The removal in progress of entries that were not in the last whole reading.
    sweep: Option<Sweep>,
    report: Arc<Mutex<KernelReport>>,
}

/// The neighbours of the kernel's that a host takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Neighbors {
    /// All that the kernel is sure of. The host asks for others itself.
    All,
    /// Those that the host has requested from the kernel, of which this is the answer.
    OnRequest,
}

/// The position up to which outdated entries have been removed; the next ones come after it.
#[derive(Debug)]
enum Sweep {
    Addresses,
    Neighbors(Option<(InterfaceId, IpAddress)>),
    Routes(Swept),
}

/// The number of entries that are taken over or checked in one piece: a few dozen microseconds, in which no
/// packet is forwarded.
const PIECE: usize = 32;

/// Makes a driver's host follow the kernel's tables for `devices`. A device's place in the list is the
/// number of its interface.
pub(crate) fn follow(driver: &mut Driver, devices: &[&str]) -> Result<FollowedTables, FollowError> {
    follow_as(driver, devices, Neighbors::All)
}

/// Makes a driver's host share the kernel's addresses on a device, its only one.
pub(crate) fn share(driver: &mut Driver, device: &str) -> Result<(), FollowError> {
    addresses_on(device)?;
    driver.units.host.share_with(Box::new(KernelStack::new(device_index(device)?)));
    follow_as(driver, &[device], Neighbors::OnRequest).map(drop)
}

fn follow_as(
    driver: &mut Driver,
    devices: &[&str],
    neighbors: Neighbors,
) -> Result<FollowedTables, FollowError> {
    let Driver { units, outside, .. } = driver;
    let follower = Follower::open(devices, neighbors, &mut units.host, units.clock.now())?;
    let (handle, Moves { moved, event }) = FollowedTables::new(follower.report())?;
    let fds = follower.tables.fds();
    // The engine's thread calls both, so it never waits here.
    let follower = Arc::new(Mutex::new(follower));
    for fd in fds {
        let follower = Arc::clone(&follower);
        outside.attend(fd, None, Box::new(move |host, now| lock(&follower).follow(host, now)));
    }
    outside.attend_event(&event, move |_host, _now| {
        let mut follower = lock(&follower);
        moved.try_iter().for_each(|(index, interface)| follower.moved(index, interface));
    });
    Ok(handle)
}

impl Follower {
    /// Records that an interface is now on another device. The entries of that device are unknown.
    fn moved(&mut self, index: u32, interface: InterfaceId) {
        self.interfaces.retain(|_, known| *known != interface);
        self.interfaces.insert(index, interface);
        self.fib.moved(index, interface);
        // If the request fails now, the next announcement repeats it.
        let _ = self.tables.read_again();
    }

    /// Reads the kernel's tables for `devices`. A device's place in the list is the number of its interface.
    fn open(devices: &[&str], taken: Neighbors, host: &mut Host, now: Instant) -> Result<Self, FollowError> {
        let mut follower = Self {
            tables: KernelTables::open()?,
            interfaces: BTreeMap::new(),
            addresses: BTreeMap::new(),
            neighbors: BTreeMap::new(),
            taken,
            fib: Fib::default(),
            left_out: BTreeSet::new(),
            round: 0,
            sweep: None,
            report: Arc::default(),
        };
        for (number, device) in devices.iter().enumerate() {
            let number = u8::try_from(number).map_err(|_| FollowError::TooManyLinks)?;
            let (index, interface) = (device_index(device)?, InterfaceId(number));
            follower.interfaces.insert(index, interface);
            follower.fib.moved(index, interface);
        }
        let mut all = Vec::new();
        follower.tables.read_all(|news| all.push(news))?;
        for news in all {
            follower.hear(news, host, now);
        }
        while follower.sweep.is_some() || follower.fib.has_work() {
            follower.work(host, now);
        }
        follower.report_changes(0);
        Ok(follower)
    }

    /// Returns whether the follower has taken over all announcements and all changes that result from them.
    #[cfg(test)]
    fn is_settled(&self) -> bool {
        self.tables.is_settled() && self.sweep.is_none() && !self.fib.has_work()
    }

    fn report(&self) -> Arc<Mutex<KernelReport>> {
        Arc::clone(&self.report)
    }

    /// Takes over a piece of the kernel's announcements. Returns whether there may be more.
    fn follow(&mut self, host: &mut Host, now: Instant) -> bool {
        if self.sweep.is_some() || self.fib.has_work() {
            self.work(host, now);
            self.report_changes(0);
            return true;
        }
        let mut heard = Vec::with_capacity(PIECE);
        // If the kernel is short of memory, the next announcement requests the missed ones again.
        let more = self.tables.read(PIECE, |news| heard.push(news)).unwrap_or(false);
        let changes = heard.iter().filter(|news| matches!(news, News::Is { .. } | News::Gone(_))).count();
        for news in heard {
            self.hear(news, host, now);
        }
        self.report_changes(changes as u64);
        more || self.sweep.is_some() || self.fib.has_work()
    }

    /// Does a piece of the work that follows from announcements.
    fn work(&mut self, host: &mut Host, now: Instant) {
        if !self.decide(host) {
            self.fib.walk_piece(PIECE);
            self.sweep_piece(host, now);
        }
    }

    fn report_changes(&self, changes: u64) {
        let mut report = lock(&self.report);
        report.routes = self.fib.routes();
        report.closed = self.fib.closed() + self.left_out.len() as u64;
        report.neighbors = self.neighbors.len() as u64;
        report.changes += changes;
        report.resyncs = self.tables.resyncs();
    }

    fn skip(&self) {
        lock(&self.report).skipped += 1;
    }

    fn hear(&mut self, news: News, host: &mut Host, now: Instant) {
        match news {
            News::Begins => self.round += 1,
            News::Complete => {
                self.fib.listed(self.round);
                self.fib.sweep_objects(self.round);
                self.sweep = Some(Sweep::Addresses);
            }
            News::Unreadable => self.skip(),
            News::Is { entry: Entry::Address { index, address }, .. } => {
                self.address(index, address, host, now)
            }
            News::Gone(Entry::Address { index, address }) => {
                if let Some(&interface) = self.interfaces.get(&index)
                    && self.addresses.remove(&(interface, address)).is_some()
                {
                    self.remove_address(interface, address, host);
                }
            }
            News::Is { entry: Entry::Neighbor { index, address, hardware: Some(hardware) }, .. } => {
                if let Some(&interface) = self.interfaces.get(&index) {
                    self.neighbor(interface, address, hardware, host, now);
                }
            }
            // The kernel is not sure of the address any more, so a host with packets for the neighbour
            // resolves it again.
            News::Is { entry: Entry::Neighbor { index, address, .. }, .. }
            | News::Gone(Entry::Neighbor { index, address, .. }) => {
                if let Some(&interface) = self.interfaces.get(&index)
                    && self.neighbors.remove(&(interface, address)).is_some()
                {
                    host.remove_neighbor(interface, address, now);
                }
            }
            News::Is { entry, place } => {
                if self.fib.is(entry, place, self.round).0 {
                    let _ = self.tables.read_again();
                }
            }
            News::Gone(entry) => {
                if self.fib.gone(entry, self.round).0 {
                    let _ = self.tables.read_again();
                }
            }
        }
    }

    fn neighbor(
        &mut self,
        interface: InterfaceId,
        address: IpAddress,
        hardware: EthernetAddress,
        host: &mut Host,
        now: Instant,
    ) {
        if self.taken == Neighbors::OnRequest {
            let update = NeighborUpdate::resolved(interface, address, hardware, true);
            return host.membership().sync_neighbor(update, now);
        }
        match host.set_neighbor(interface, address, hardware, now) {
            Ok(()) => drop(self.neighbors.insert((interface, address), self.round)),
            Err(_) => self.skip(),
        }
    }

    fn address(&mut self, index: u32, address: IpCidr, host: &mut Host, now: Instant) {
        let Some(&interface) = self.interfaces.get(&index) else { return };
        if self.addresses.insert((interface, address), self.round).is_none() {
            host.add_address(interface, address, now);
            self.keep_off_link(interface, address, host);
        }
    }

    fn remove_address(&self, interface: InterfaceId, address: IpCidr, host: &mut Host) {
        host.remove_address(interface, address);
        self.keep_off_link(interface, address, host);
    }

    /// Removes the prefix of an address from the host's on-link prefixes. The host adds it by itself with the
    /// address, but the kernel decides what is on the link.
    fn keep_off_link(&self, interface: InterfaceId, address: IpCidr, host: &mut Host) {
        let to = truncated(address, address.prefix_len());
        let own = Route { to, via: Via::Link(interface), metric: 0 };
        match self.fib.decided(&to) {
            // The two routes have the same name.
            Some(decision) if decision.metric == 0 && decision.via.interface() == Some(interface) => {
                // The previous state is restored.
                let _ = host.set_route(Route { via: decision.via.clone(), ..own });
            }
            _ => drop(host.remove_route(&own)),
        }
    }

    /// Decides about some prefixes, if any are marked.
    fn decide(&mut self, host: &mut Host) -> bool {
        for done in 0..PIECE {
            let Some(to) = self.fib.next_dirty() else { return done > 0 };
            if self.stands_in(&to) {
                continue;
            }
            if let Some((before, now)) = self.fib.decide_anew(to) {
                self.set(to, before, now, host);
            }
        }
        true
    }

    /// Applies the decision about a prefix to the host.
    fn set(&mut self, to: IpCidr, before: Option<Decision>, now: Option<Decision>, host: &mut Host) {
        let route = |decision: Decision| Route { to, via: decision.via, metric: decision.metric };
        let wanted = now.is_some();
        // The new route is added first, so that there is a route at any time.
        let now = now.map(route).and_then(|now| match host.set_route(now.clone()) {
            Ok(()) => Some(now),
            Err(error) => {
                self.skip();
                let closed = (error != RouteError::Full).then(|| route(self.fib.close(to)));
                closed.filter(|closed| host.set_route(closed.clone()).is_ok())
            }
        });
        if let Some(before) = before.map(route)
            && now.as_ref().is_none_or(|now| name(now) != name(&before))
        {
            host.remove_route(&before);
            // There is room for one of them now.
            self.left_out.first().into_iter().for_each(|left_out| self.fib.decide_again(*left_out));
        }
        if self.left_out.remove(&to) {
            self.fib.shorter(to).into_iter().for_each(|shorter| self.fib.decide_again(shorter));
        }
        if wanted && now.is_none() {
            self.leave_out(to, host);
        }
    }

    /// Closes the next shorter prefix if the host has no room for one: packets to the longer prefix must not
    /// use the shorter one's route.
    fn leave_out(&mut self, to: IpCidr, host: &mut Host) {
        self.fib.forget(to);
        self.left_out.insert(to);
        let Some(shorter) = self.fib.shorter(to) else { return };
        if let Some(before) = self.fib.decided(&shorter).cloned() {
            host.remove_route(&Route { to: shorter, via: before.via, metric: before.metric });
        }
        let closed = self.fib.close(shorter);
        let _ = host.set_route(Route { to: shorter, via: closed.via, metric: closed.metric });
    }

    /// Returns whether packets to a longer prefix must not take the route of this one, because the longer
    /// prefix was left out.
    fn stands_in(&self, to: &IpCidr) -> bool {
        let mut under = self.left_out.range(table::under(*to));
        under.any(|left_out| left_out != to && self.fib.shorter(*left_out) == Some(*to))
    }

    /// Removes entries that were not in the last complete reading. Each call checks some of them.
    fn sweep_piece(&mut self, host: &mut Host, now: Instant) {
        let round = self.round;
        self.sweep = match self.sweep.take() {
            None => None,
            Some(Sweep::Addresses) => {
                // There are few addresses.
                let old = self.addresses.iter().filter(|(_, heard)| **heard != round).map(|(key, _)| *key);
                for (interface, address) in old.collect::<Vec<_>>() {
                    self.addresses.remove(&(interface, address));
                    self.remove_address(interface, address, host);
                }
                Some(Sweep::Neighbors(None))
            }
            Some(Sweep::Neighbors(behind)) => {
                let (old, last) = next_piece(&self.neighbors, behind, |heard| *heard != round);
                for (interface, address) in old {
                    self.neighbors.remove(&(interface, address));
                    host.remove_neighbor(interface, address, now);
                }
                Some(last.map_or(Sweep::Routes(Swept::default()), |last| Sweep::Neighbors(Some(last))))
            }
            Some(Sweep::Routes(behind)) => self.fib.sweep_piece(behind, PIECE, round).map(Sweep::Routes),
        };
    }
}

/// Returns the name of a route in the host's table.
fn name(route: &Route) -> (u32, Option<InterfaceId>) {
    (route.metric, route.via.interface())
}

/// Returns the old ones among the next entries after a key, and the last of these entries; `None` if there
/// was none.
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

#[cfg(test)]
mod history;

#[cfg(test)]
mod tests {
    use evenkeel_core::cable;
    use evenkeel_core::host::Config;
    use evenkeel_core::time::Duration;
    use evenkeel_link::LinkError;
    use evenkeel_testing::{Scratch, in_namespace, run};

    use super::*;
    use crate::test_host::engine;
    use crate::{Engine, Error};

    fn routes(verb: &str, count: u32) -> String {
        (0..count).map(|n| format!("route {verb} 20.{}.{}.0/24 dev d0\n", n >> 8, n & 255)).collect()
    }

    /// The work between two work items is bounded for any number of changes. This includes the removal of
    /// entries whose end was not announced.
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
            let mut follower = Follower::open(&["d0"], Neighbors::All, &mut host, Instant::ZERO).unwrap();
            let all = host.route_count();
            assert!(all > COUNT as usize && follower.fib.routes() == lock(&follower.report).routes);
            // All routes of d0 are removed with it, most of them without an announcement.
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
        });
    }

    /// Runs an engine until its host has a route to `to` on the link of an interface. A route through another
    /// device of the kernel would be closed.
    fn run_until_routed(engine: &mut Engine, to: &str, interface: InterfaceId) {
        let (to, via): (IpCidr, _) = (to.parse().unwrap(), Via::Link(interface));
        let has = |host: &Host| host.routes().any(|route| route.to == to && route.via == via);
        let until = engine.clock().now() + Duration::from_secs(60);
        engine.run(until, has).unwrap();
        assert!(has(engine.host()), "no route to {to}");
    }

    #[test]
    fn an_engine_follows_the_kernel_on_a_device_and_on_the_one_that_takes_its_place() {
        in_namespace(&[&[("ip", "iproute2")]], || {
            let make = || {
                run("ip link add d0 type veth peer name d1");
                run("ip link set d1 up");
                run("ip link set d0 up");
            };
            make();
            let mut engine = engine();
            let (end, _other) = cable::pair(cable::Options::new("a", 1), cable::Options::new("b", 2));
            let interface = engine.add_cable(end, &[]).unwrap();
            let followed = engine.follow_kernel(&["d0"]).unwrap();
            run("ip route add 20.1.0.0/16 dev d0");
            run_until_routed(&mut engine, "20.1.0.0/16", interface);
            let before = followed.report();
            assert!(before.routes > 0 && before.changes > 0, "{before:?}");
            run("ip link del d0");
            make();
            followed.clone().moved(device_index("d0").unwrap(), interface);
            run("ip route add 20.2.0.0/16 dev d0");
            run_until_routed(&mut engine, "20.2.0.0/16", interface);
            assert!(followed.report().changes > before.changes);
        });
    }

    #[test]
    fn devices_that_cannot_be_followed_are_refused() {
        let error = |devices: &[&str]| engine().follow_kernel(devices).unwrap_err();
        assert!(matches!(error(&["nosuch0"]), FollowError::Link(LinkError::NoDevice { .. })));
        assert_eq!(Error::from(error(&["nosuch0"])).errno().1, "ENODEV");
        let too_many = error(&["lo"; 257]);
        assert!(matches!(too_many, FollowError::TooManyLinks));
        assert!(matches!(Error::from(too_many), Error::Follow(_)));
    }
}
