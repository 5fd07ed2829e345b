//! Following the kernel's tables, so that a routing daemon that knows nothing of us steers the router.
//!
//! The kernel keeps its addresses on the devices and goes on being a host there: it answers ARP and pings, and BIRD or FRR speak to their
//! neighbours through it. The router takes packets for everybody else, and leaves those for the kernel's addresses alone
//! ([`forward_only`](evenkeel_core::stack::Config::forward_only)). Since the kernel sees every frame too, it must not forward.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::host::Host;
use evenkeel_core::stack::{InterfaceId, Multipath, NextHop, Route, Via};
use evenkeel_core::time::Instant;
use evenkeel_core::wire::{IpAddress, IpCidr};
use evenkeel_link::{Entry, KernelHop, KernelRoute, KernelTables, KernelWay, News, device_index};

use super::report::KernelReport;
use super::router::RouterError;

/// What has been taken over from the kernel, and when it was last heard of.
#[derive(Debug)]
pub(super) struct Follower {
    tables: KernelTables,
    /// Our interfaces on the kernel's devices.
    interfaces: BTreeMap<u32, InterfaceId>,
    addresses: BTreeMap<(InterfaceId, IpCidr), Round>,
    /// Of the same prefix and metric there may be several, by different interfaces.
    routes: BTreeMap<(IpCidr, u32), Vec<(Via, Round)>>,
    neighbors: BTreeMap<(InterfaceId, IpAddress), Round>,
    round: Round,
    report: Arc<Mutex<KernelReport>>,
}

/// A reading of the whole tables.
type Round = u64;

impl Follower {
    /// Takes over the tables of the devices, whose interfaces are numbered in their order.
    pub(super) fn open(devices: &[&str], host: &mut Host, now: Instant) -> Result<Self, RouterError> {
        let mut interfaces = BTreeMap::new();
        for (number, device) in devices.iter().enumerate() {
            refuse_forwarding(device)?;
            let number = u8::try_from(number).map_err(|_| RouterError::Links("too many links".to_owned()))?;
            interfaces.insert(device_index(device)?, InterfaceId(number));
        }
        let mut follower = Self {
            tables: KernelTables::open()?,
            interfaces,
            addresses: BTreeMap::new(),
            routes: BTreeMap::new(),
            neighbors: BTreeMap::new(),
            round: 0,
            report: Arc::default(),
        };
        let mut all = Vec::new();
        follower.tables.read_all(|news| all.push(news))?;
        for news in all {
            follower.hear(news, host, now);
        }
        follower.tell(0);
        Ok(follower)
    }

    pub(super) fn tables(&self) -> &KernelTables {
        &self.tables
    }

    pub(super) fn report(&self) -> Arc<Mutex<KernelReport>> {
        Arc::clone(&self.report)
    }

    /// Takes over a piece of what the kernel has announced.
    pub(super) fn follow(&mut self, host: &mut Host, now: Instant) -> io::Result<()> {
        let mut heard = Vec::new();
        self.tables.read(|news| heard.push(news))?;
        let changes = heard.iter().filter(|news| matches!(news, News::Is { .. } | News::Gone(_))).count();
        for news in heard {
            self.hear(news, host, now);
        }
        self.tell(changes as u64);
        Ok(())
    }

    fn tell(&self, changes: u64) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.routes = self.routes.values().map(|ways| ways.len() as u64).sum();
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
            News::Complete => self.sweep(host, now),
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

    /// Puts a way into the host's table; in place of all others for this prefix and metric if it `replaces` them.
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
        let mut past = Vec::new();
        ways.retain(|(way, _)| {
            let same_name = via.as_ref().is_some_and(|via| via.interface() == way.interface());
            if replaces && !same_name {
                past.push(way.clone());
            }
            !replaces && !same_name
        });
        ways.extend(via.map(|via| (via, round)));
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
        if ways.is_empty() {
            self.routes.remove(&key);
        }
        if gone {
            host.remove_route(&Route { to: route.to, via, metric: route.metric });
        } else if let Some(rest) = rest {
            self.put(key, Some(rest), true, host);
        }
    }

    /// The tables have been read as a whole: what was not in them is gone.
    fn sweep(&mut self, host: &mut Host, now: Instant) {
        let round = self.round;
        self.addresses.retain(|&(interface, address), heard| {
            *heard == round || {
                host.remove_address(interface, address);
                false
            }
        });
        self.neighbors.retain(|&(interface, address), heard| {
            *heard == round || {
                host.remove_neighbor(interface, address, now);
                false
            }
        });
        self.routes.retain(|&(to, metric), ways| {
            ways.retain(|(via, heard)| {
                *heard == round || {
                    host.remove_route(&Route { to, via: via.clone(), metric });
                    false
                }
            });
            !ways.is_empty()
        });
    }
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

/// The kernel has every frame, too: if it forwarded, all would arrive twice.
fn refuse_forwarding(device: &str) -> Result<(), RouterError> {
    for (path, setting) in [
        (
            format!("/proc/sys/net/ipv4/conf/{device}/forwarding"),
            format!("net.ipv4.conf.{device}.forwarding"),
        ),
        ("/proc/sys/net/ipv6/conf/all/forwarding".to_owned(), "net.ipv6.conf.all.forwarding".to_owned()),
    ] {
        // A kernel without IPv6 has no such file.
        if std::fs::read_to_string(Path::new(&path)).is_ok_and(|value| value.trim() != "0") {
            let what =
                format!("the kernel forwards as well, so packets would arrive twice: sysctl -w {setting}=0");
            return Err(RouterError::Links(what));
        }
    }
    Ok(())
}
