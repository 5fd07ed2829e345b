//! Hardware addresses of neighbours, for ARP and NDP alike: the states of RFC 4861 7.3, and the frames that
//! wait.
//!
//! The cache is bounded, and a flood cannot wash it out. Entries are created only when this host asks for an
//! address, or when a neighbour asks for one of this host. Unsolicited messages change existing entries at
//! most. When the cache is full, an entry that never answered a question of this host goes before any that
//! did, and the one used longest ago goes first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::drop::IpDrop;
use crate::frame::Frame;
use crate::id::InterfaceId;
use crate::stack::config::Config;
use crate::stack::io::Io;
use crate::stack::random::Random;
use crate::time::{Duration, Instant};
use crate::wire::{EthernetAddress, IpAddress};

/// Time between solicitations (RFC 4861 10, RETRANS_TIMER).
const RETRANSMIT: Duration = Duration::from_secs(1);
/// Solicitations before giving up (RFC 4861 10, MAX_MULTICAST_SOLICIT and MAX_UNICAST_SOLICIT).
const SOLICITATIONS: u8 = 3;
/// The average time for which a confirmed neighbour counts as reachable (RFC 4861 10, REACHABLE_TIME).
const REACHABLE: Duration = Duration::from_secs(30);
/// The time for which a stale entry is used before it is probed (RFC 4861 10, DELAY_FIRST_PROBE_TIME).
const DELAY: Duration = Duration::from_secs(5);
/// The granularity with which an entry's last use is recorded. Sorting entries anew for every packet would
/// cost more than the precision is worth.
const USE_GRAIN: Duration = Duration::from_secs(1);

/// The key of a neighbour in the cache: its interface and its address.
pub(crate) type Key = (InterfaceId, IpAddress);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Asked for, not known yet.
    Incomplete { asked: u8 },
    /// REACHABLE up to a time, from then on STALE.
    Known { confirmed_until: Instant },
    /// In use but doubted; about to be probed.
    Delay,
    /// Being probed.
    Probe { asked: u8 },
    /// The entry was set by the operator: it is neither probed, nor changed by received packets, nor
    /// forgotten.
    Static,
}

/// A neighbour's entry in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Neighbor {
    /// The interface to whose link the neighbour is attached.
    pub interface: InterfaceId,
    /// Its address.
    pub address: IpAddress,
    /// Its hardware address, if known.
    pub hardware: Option<EthernetAddress>,
    /// The state of the neighbour's entry.
    pub state: NeighborState,
}

/// The state of a neighbour's entry (RFC 4861 7.3.2), by Linux's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NeighborState {
    /// A solicitation was sent and not answered yet.
    Incomplete,
    /// The neighbour has answered recently.
    Reachable,
    /// The neighbour's address is known but not confirmed. After its next use the neighbour is probed.
    Stale,
    /// The entry is in use; the neighbour is about to be probed.
    Delay,
    /// The neighbour is being probed.
    Probe,
    /// Set by [`Host::set_neighbor`](crate::host::Host::set_neighbor).
    Permanent,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    state: State,
    /// Meaningless while the state is `Incomplete`.
    hardware: EthernetAddress,
    /// The time when the state's timer fires; [`Instant::NEVER`] if it has none.
    due: Instant,
    /// Whether it ever answered a question of ours.
    proven: bool,
    used: Instant,
    waiting: VecDeque<Waiting>,
    /// Of these, how many have come since it was last asked: the youngest.
    unasked: usize,
}

/// A packet that waits for a neighbour.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// From the IP header on.
    pub(crate) frame: Frame,
    /// The interface by which it came, if it is forwarded.
    pub(crate) came_by: Option<InterfaceId>,
}

/// The action that an expired timer asks for.
#[derive(Debug)]
pub(crate) enum Due {
    /// The solicitation to send.
    Ask(Solicitation),
    /// The neighbour does not answer: these packets will not reach it. They no longer count as held.
    GaveUp(VecDeque<Waiting>),
}

impl Entry {
    const fn is_resolved(&self) -> bool {
        !matches!(self.state, State::Incomplete { .. })
    }

    fn rank(&self, slot: usize) -> (bool, Instant, usize) {
        (self.proven, self.used, slot)
    }
}

/// A question to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Solicitation {
    pub(crate) key: Key,
    /// The hardware address to send the solicitation to; `None` for all nodes.
    pub(crate) hardware: Option<EthernetAddress>,
}

/// The content of a neighbour's advertisement or ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Advertisement {
    pub(crate) hardware: Option<EthernetAddress>,
    /// Whether it answers a solicitation, as it says.
    pub(crate) solicited: bool,
    /// Whether it may replace a known hardware address (RFC 4861 4.4; always so in ARP).
    pub(crate) overrides: bool,
}

/// The neighbour cache: resolved hardware addresses, and packets that wait for one.
#[derive(Debug)]
pub(crate) struct Neighbors {
    slots: Vec<Option<Entry>>,
    vacant: Vec<usize>,
    by_key: BTreeMap<Key, usize>,
    /// The slot that a packet was sent to last.
    last: usize,
    /// The order in which entries are evicted when room is needed.
    order: BTreeSet<(bool, Instant, usize)>,
    timers: BTreeSet<(Instant, usize)>,
    /// Frames that wait, of all entries.
    waiting: usize,
    /// The slot of each frame that waits, the one that waits longest first.
    arrivals: VecDeque<usize>,
    /// Neighbours that another stack is to resolve.
    requests: VecDeque<Key>,
    entries_max: usize,
    waiting_max: usize,
    waiting_per_entry: usize,
    random: Random,
    /// The number of times that a known hardware address has changed or been forgotten.
    changes: u32,
}

impl Neighbors {
    pub(crate) fn new(config: &Config, seed: u64) -> Self {
        Self {
            slots: Vec::new(),
            vacant: Vec::new(),
            by_key: BTreeMap::new(),
            last: 0,
            order: BTreeSet::new(),
            timers: BTreeSet::new(),
            waiting: 0,
            arrivals: VecDeque::new(),
            requests: VecDeque::new(),
            entries_max: config.neighbors.max(1),
            waiting_max: config.pending_pkts,
            waiting_per_entry: config.pending_per_neighbor_pkts,
            random: Random::new(seed),
            changes: 0,
        }
    }

    pub(crate) const fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    /// Returns until when a neighbour that has answered now counts as reachable: for half to one and a half
    /// times [`REACHABLE`] (RFC 4861 6.3.2, MIN_RANDOM_FACTOR and MAX_RANDOM_FACTOR). So hosts that learnt
    /// of each other at the same time do not probe at the same time for ever. The time is chosen anew for
    /// each answer, which is more often than the few hours that the RFC asks for.
    fn reachable_until(&mut self, now: Instant) -> Instant {
        now + REACHABLE / 2 + self.random.up_to(REACHABLE)
    }

    /// Returns the number of frames that wait for a neighbour's hardware address.
    pub(crate) const fn held(&self) -> u64 {
        self.waiting as u64
    }

    /// Entries in the cache.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn next_deadline(&self) -> Instant {
        self.timers.first().map_or(Instant::NEVER, |(due, _)| *due)
    }

    fn entry(&mut self, slot: usize) -> Option<&mut Entry> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// Returns the hardware address to send to, if there is one to try. A stale address starts the timer of
    /// its probe.
    pub(crate) fn resolve(&mut self, key: Key, now: Instant) -> Option<EthernetAddress> {
        let slot = self.slot_again(key)?;
        self.touch(slot, now);
        let entry = self.entry(slot)?;
        let hardware = entry.hardware;
        match entry.state {
            State::Incomplete { .. } => return None,
            State::Known { confirmed_until } if confirmed_until <= now => {
                self.enter(slot, State::Delay, now + DELAY);
            }
            State::Known { .. } | State::Delay | State::Probe { .. } | State::Static => {}
        }
        Some(hardware)
    }

    /// Returns the slot of an entry. The last slot is tried first, because look-ups of one entry often
    /// follow each other.
    #[inline]
    fn slot_again(&mut self, key: Key) -> Option<usize> {
        if self.entry(self.last).is_none_or(|entry| entry.key != key) {
            self.last = *self.by_key.get(&key)?;
        }
        Some(self.last)
    }

    /// Returns the hardware address as far as it is known, without marking the entry as used.
    pub(crate) fn hardware(&self, key: Key) -> Option<EthernetAddress> {
        let entry = self.slots.get(*self.by_key.get(&key)?)?.as_ref()?;
        entry.is_resolved().then_some(entry.hardware)
    }

    /// Lets a frame wait for a neighbour that [`Neighbors::resolve`] did not know. Returns the solicitation
    /// to send, if the neighbour is new to the cache.
    ///
    /// The oldest frame goes when there are too many (RFC 1122 2.3.2.2).
    pub(crate) fn park(&mut self, key: Key, waiting: Waiting, io: &mut Io<'_>) -> Option<Solicitation> {
        let (slot, new) = match self.by_key.get(&key) {
            Some(slot) => (*slot, false),
            None => (self.create(key, State::Incomplete { asked: 1 }, EthernetAddress::default(), io), true),
        };
        if new {
            self.enter(slot, State::Incomplete { asked: 1 }, io.now + RETRANSMIT);
        }
        self.wait(slot, waiting, io);
        new.then_some(Solicitation { key, hardware: None })
    }

    /// Queues a request that another stack resolves a neighbour. If too many are queued, the oldest is lost:
    /// it comes again after [`RETRANSMIT`].
    pub(crate) fn request(&mut self, key: Key) {
        if self.requests.len() >= self.entries_max {
            self.requests.pop_front();
        }
        self.requests.push_back(key);
    }

    /// Takes the oldest request.
    pub(crate) fn next_request(&mut self) -> Option<Key> {
        self.requests.pop_front()
    }

    /// Begins to ask for a neighbour that nothing waits for; returns the question, unless the neighbour is
    /// known or asked for already.
    pub(crate) fn ask(&mut self, key: Key, io: &mut Io<'_>) -> Option<Solicitation> {
        if self.by_key.contains_key(&key) {
            return None;
        }
        let slot = self.create(key, State::Incomplete { asked: 1 }, EthernetAddress::default(), io);
        self.enter(slot, State::Incomplete { asked: 1 }, io.now + RETRANSMIT);
        Some(Solicitation { key, hardware: None })
    }

    fn wait(&mut self, slot: usize, waiting: Waiting, io: &mut Io<'_>) {
        if self.waiting_max == 0 || self.waiting_per_entry == 0 {
            return give_up(waiting, io);
        }
        if self.entry(slot).map_or(0, |entry| entry.waiting.len()) >= self.waiting_per_entry {
            self.drop_oldest(slot, io);
        }
        if self.waiting >= self.waiting_max
            && let Some(oldest) = self.arrivals.front().copied()
        {
            self.drop_oldest(oldest, io);
        }
        let Some(entry) = self.entry(slot) else { return give_up(waiting, io) };
        entry.waiting.push_back(waiting);
        entry.unasked += 1;
        self.waiting += 1;
        self.arrivals.push_back(slot);
    }

    fn drop_oldest(&mut self, slot: usize, io: &mut Io<'_>) {
        let Some(entry) = self.entry(slot) else { return };
        let oldest = entry.waiting.pop_front();
        entry.unasked = entry.unasked.min(entry.waiting.len());
        if let Some(oldest) = oldest {
            self.waiting -= 1;
            if let Some(arrival) = self.arrivals.iter().position(|arrival| *arrival == slot) {
                self.arrivals.remove(arrival);
            }
            give_up(oldest, io);
        }
    }

    /// Records the hardware address of a neighbour that solicited an address of this host: RFC 4861 7.2.3,
    /// RFC 826 "merge".
    ///
    /// Returns the frames that waited for it.
    pub(crate) fn on_solicitation(
        &mut self,
        key: Key,
        hardware: EthernetAddress,
        io: &mut Io<'_>,
    ) -> VecDeque<Waiting> {
        match self.by_key.get(&key) {
            Some(slot) => {
                let slot = *slot;
                if self.entry(slot).is_some_and(|entry| {
                    entry.state != State::Static
                        && (entry.hardware != hardware || matches!(entry.state, State::Incomplete { .. }))
                }) {
                    self.set_hardware(slot, hardware);
                    self.enter(slot, State::Known { confirmed_until: io.now }, Instant::NEVER);
                }
                self.release(slot, io.now)
            }
            None => {
                self.create(key, State::Known { confirmed_until: io.now }, hardware, io);
                VecDeque::new()
            }
        }
    }

    /// Processes a neighbour's advertisement: RFC 4861 7.2.5, and alike for ARP. Only an existing entry is
    /// changed.
    ///
    /// Returns the frames that waited for it, with its address.
    pub(crate) fn on_advertisement(
        &mut self,
        key: Key,
        advertisement: Advertisement,
        now: Instant,
    ) -> Option<(EthernetAddress, VecDeque<Waiting>)> {
        let slot = *self.by_key.get(&key)?;
        let entry = self.entry(slot).filter(|entry| entry.state != State::Static)?;
        let known = !matches!(entry.state, State::Incomplete { .. });
        let asked = matches!(entry.state, State::Incomplete { .. } | State::Probe { .. });
        let hardware = match (advertisement.hardware, known) {
            (Some(hardware), _) => hardware,
            (None, true) => entry.hardware,
            (None, false) => return None,
        };
        let differs = known && hardware != entry.hardware;
        if differs && !advertisement.overrides {
            // Another host claims the address without the right to replace: the entry becomes stale, and
            // keeps its hardware address (7.2.5 I).
            if matches!(entry.state, State::Known { .. }) {
                self.enter(slot, State::Known { confirmed_until: now }, Instant::NEVER);
            }
            return None;
        }
        self.set_hardware(slot, hardware);
        if advertisement.solicited {
            // In any state. An unsolicited message that claims to be an answer does not protect the entry
            // from eviction.
            if asked {
                self.prove(slot);
            }
            let confirmed_until = self.reachable_until(now);
            self.enter(slot, State::Known { confirmed_until }, Instant::NEVER);
        } else if differs || !known {
            self.enter(slot, State::Known { confirmed_until: now }, Instant::NEVER);
        }
        Some((hardware, self.release(slot, now)))
    }

    fn set_hardware(&mut self, slot: usize, hardware: EthernetAddress) {
        let Some(entry) = self.entry(slot) else { return };
        let is_change = entry.hardware != hardware && entry.is_resolved();
        entry.hardware = hardware;
        self.changes = self.changes.wrapping_add(u32::from(is_change));
    }

    /// Returns the number of times that a known hardware address has become another one or been forgotten.
    pub(crate) const fn changes(&self) -> u32 {
        self.changes
    }

    /// Does what one timer that is due asks for. `None` when none is left.
    ///
    /// A neighbour that did not answer is forgotten, unless something has come for it since it was last
    /// asked: for that it is asked anew. (A SYN is repeated after one and three seconds. The second time is
    /// just when what has waited from the beginning is given up.)
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Due> {
        let slot = self.timers.first().filter(|(due, _)| *due <= now)?.1;
        let entry = self.entry(slot)?;
        let (key, hardware) = (entry.key, entry.hardware);
        let unasked = core::mem::take(&mut entry.unasked);
        let state = entry.state;
        let (asked, next) = match state {
            State::Incomplete { asked } => (asked, State::Incomplete { asked: asked + 1 }),
            State::Probe { asked } => (asked, State::Probe { asked: asked + 1 }),
            State::Delay | State::Known { .. } | State::Static => (0, State::Probe { asked: 1 }),
        };
        if asked >= SOLICITATIONS {
            let asks_anew = unasked > 0 && matches!(state, State::Incomplete { .. });
            return Some(Due::GaveUp(if asks_anew {
                self.ask_anew(slot, unasked, now)
            } else {
                self.take(slot)
            }));
        }
        self.enter(slot, next, now + RETRANSMIT);
        let ask_it = matches!(next, State::Probe { .. });
        Some(Due::Ask(Solicitation { key, hardware: ask_it.then_some(hardware) }))
    }

    /// Restarts the resolution of a neighbour that has not answered, for the youngest packets that wait.
    /// Returns the others.
    fn ask_anew(&mut self, slot: usize, youngest: usize, now: Instant) -> VecDeque<Waiting> {
        self.enter(slot, State::Incomplete { asked: 0 }, now);
        let Some(entry) = self.entry(slot) else { return VecDeque::new() };
        let rest = entry.waiting.split_off(entry.waiting.len().saturating_sub(youngest));
        let given_up = core::mem::replace(&mut entry.waiting, rest);
        self.waiting -= given_up.len();
        let mut left = given_up.len();
        self.arrivals.retain(|arrival| {
            let stays = *arrival != slot || left == 0;
            left -= usize::from(!stays);
            stays
        });
        given_up
    }

    /// Makes an entry that stays as it is. Returns the frames that waited for it.
    pub(crate) fn set(&mut self, key: Key, hardware: EthernetAddress, io: &mut Io<'_>) -> VecDeque<Waiting> {
        let slot = match self.by_key.get(&key) {
            Some(slot) => *slot,
            None => self.create(key, State::Static, hardware, io),
        };
        let Some(entry) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return VecDeque::new() };
        self.order.remove(&entry.rank(slot));
        self.set_hardware(slot, hardware);
        self.enter(slot, State::Static, Instant::NEVER);
        self.release(slot, io.now)
    }

    /// Forgets one neighbour. Returns whether it was known or solicited. Frames that wait for it are
    /// dropped.
    pub(crate) fn forget(&mut self, key: Key, io: &mut Io<'_>) -> bool {
        let slot = self.by_key.get(&key).copied();
        slot.into_iter().for_each(|slot| self.remove(slot, io));
        slot.is_some()
    }

    /// Forgets the neighbours of an interface, but for those that were set. Frames that wait for them are
    /// dropped.
    pub(crate) fn forget_learned(&mut self, interface: InterfaceId, io: &mut Io<'_>) {
        let learned = |n: &Neighbor| n.interface == interface && n.state != NeighborState::Permanent;
        let keys: Vec<Key> = self.iter(io.now).filter(learned).map(|n| (n.interface, n.address)).collect();
        for key in keys {
            self.forget(key, io);
        }
    }

    /// Returns every entry, in order of interface and address.
    pub(crate) fn iter(&self, now: Instant) -> impl Iterator<Item = Neighbor> {
        self.by_key.iter().filter_map(move |(&(interface, address), &slot)| {
            let entry = self.slots.get(slot)?.as_ref()?;
            let state = match entry.state {
                State::Incomplete { .. } => NeighborState::Incomplete,
                State::Known { confirmed_until } if confirmed_until > now => NeighborState::Reachable,
                State::Known { .. } => NeighborState::Stale,
                State::Delay => NeighborState::Delay,
                State::Probe { .. } => NeighborState::Probe,
                State::Static => NeighborState::Permanent,
            };
            let hardware = (state != NeighborState::Incomplete).then_some(entry.hardware);
            Some(Neighbor { interface, address, hardware, state })
        })
    }

    /// Forgets all neighbours. Frames that wait are dropped.
    pub(crate) fn drain(&mut self, io: &mut Io<'_>) {
        for slot in 0..self.slots.len() {
            self.remove(slot, io);
        }
    }

    fn create(&mut self, key: Key, state: State, hardware: EthernetAddress, io: &mut Io<'_>) -> usize {
        // Static entries are not in `order`: they take no room from the others.
        if state != State::Static
            && self.order.len() >= self.entries_max
            && let Some((_, _, slot)) = self.order.first().copied()
        {
            self.remove(slot, io);
        }
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let due = Instant::NEVER;
        let entry = Entry {
            key,
            state,
            hardware,
            due,
            proven: false,
            used: io.now,
            waiting: VecDeque::new(),
            unasked: 0,
        };
        if state != State::Static {
            self.order.insert(entry.rank(slot));
        }
        self.by_key.insert(key, slot);
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(entry);
        }
        slot
    }

    fn remove(&mut self, slot: usize, io: &mut Io<'_>) {
        self.take(slot).into_iter().for_each(|waiting| give_up(waiting, io));
    }

    /// Takes an entry out; gives what waited for it.
    fn take(&mut self, slot: usize) -> VecDeque<Waiting> {
        let Some(entry) = self.slots.get_mut(slot).and_then(Option::take) else { return VecDeque::new() };
        self.order.remove(&entry.rank(slot));
        self.timers.remove(&(entry.due, slot));
        self.by_key.remove(&entry.key);
        self.vacant.push(slot);
        self.changes = self.changes.wrapping_add(u32::from(entry.is_resolved()));
        self.left(slot, entry.waiting.len());
        entry.waiting
    }

    /// Lets the frames go that waited. They are sent to a neighbour which may be in doubt, so that is about
    /// to be probed (RFC 4861 7.3.3).
    fn release(&mut self, slot: usize, now: Instant) -> VecDeque<Waiting> {
        let Some(entry) = self.entry(slot) else { return VecDeque::new() };
        entry.unasked = 0;
        let frames = core::mem::take(&mut entry.waiting);
        let is_stale = matches!(entry.state, State::Known { confirmed_until } if confirmed_until <= now);
        if is_stale && !frames.is_empty() {
            self.enter(slot, State::Delay, now + DELAY);
        }
        self.left(slot, frames.len());
        frames
    }

    /// All `frames` that waited for the entry wait no longer.
    fn left(&mut self, slot: usize, frames: usize) {
        if frames > 0 {
            self.waiting -= frames;
            self.arrivals.retain(|arrival| *arrival != slot);
        }
    }

    fn enter(&mut self, slot: usize, state: State, due: Instant) {
        let Some(entry) = self.entry(slot) else { return };
        entry.state = state;
        let before = core::mem::replace(&mut entry.due, due);
        if before != due {
            self.timers.remove(&(before, slot));
            if due != Instant::NEVER {
                self.timers.insert((due, slot));
            }
        }
    }

    fn touch(&mut self, slot: usize, now: Instant) {
        let Some(entry) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        if now.since(entry.used) >= USE_GRAIN && entry.state != State::Static {
            self.order.remove(&entry.rank(slot));
            entry.used = now;
            self.order.insert(entry.rank(slot));
        }
    }

    fn prove(&mut self, slot: usize) {
        let Some(entry) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        self.order.remove(&entry.rank(slot));
        entry.proven = true;
        self.order.insert(entry.rank(slot));
    }
}

/// Drops a packet that waited in vain.
pub(crate) fn give_up(waiting: Waiting, io: &mut Io<'_>) {
    io.ledger.drop_output(IpDrop::Unresolved);
    io.pool.recycle(waiting.frame);
}

#[cfg(test)]
impl Neighbors {
    pub(crate) fn check_invariants(&self, config: &Config) {
        let entries = || self.slots.iter().flatten();
        let fixed = entries().filter(|entry| entry.state == State::Static).count();
        assert_eq!(entries().count(), self.len());
        assert!(self.order.len() <= config.neighbors);
        assert_eq!(self.slots.len(), self.len() + self.vacant.len());
        assert_eq!(self.order.len() + fixed, self.len());
        assert_eq!(entries().map(|entry| entry.waiting.len()).sum::<usize>(), self.waiting);
        assert!(self.waiting <= config.pending_pkts && self.arrivals.len() == self.waiting);
        assert!(entries().all(|entry| entry.waiting.len() <= config.pending_per_neighbor_pkts));
        assert_eq!(entries().filter(|entry| entry.due != Instant::NEVER).count(), self.timers.len());
        for (slot, entry) in self.slots.iter().enumerate() {
            let Some(entry) = entry else { continue };
            assert_eq!(self.by_key.get(&entry.key), Some(&slot));
            assert_eq!(self.order.contains(&entry.rank(slot)), entry.state != State::Static);
            let arrivals = self.arrivals.iter().filter(|arrival| **arrival == slot).count();
            assert_eq!(entry.waiting.len(), arrivals, "each waiting frame has its arrival");
        }
    }
}
