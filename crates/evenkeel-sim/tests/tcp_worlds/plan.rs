//! Plans of worlds: a world and all its events are drawn from the seed before it runs.

use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_sim::net::Conditions;
use evenkeel_sim::rng::{Ratio, Rng};
use evenkeel_sim::streams::Manners;

/// A world: hosts on one Ethernet. The first ones are servers.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) v6: bool,
    pub(crate) hosts: Vec<Station>,
    pub(crate) servers: usize,
    pub(crate) listener: ListenerConfig,
    pub(crate) clients: Vec<Client>,
    /// The changes, in the order of their times.
    pub(crate) changes: Vec<Change>,
    /// Whether no connection may fail, unless one of its ends is cut off.
    gentle: bool,
}

/// A host of the plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Station {
    /// The conditions to the switch, and from it.
    pub(crate) wires: [Conditions; 2],
    pub(crate) ring_pkts: usize,
    /// Whether the work of its CPU takes time.
    pub(crate) slow: bool,
    /// Whether it is cut off for good.
    cut_off: bool,
}

/// A program that opens connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    pub(crate) host: usize,
    pub(crate) server: usize,
    pub(crate) begins: Duration,
    pub(crate) connections: usize,
    pub(crate) abreast: usize,
    pub(crate) bytes: usize,
    pub(crate) manners: Manners,
}

/// A change of a host's wires at a given time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change {
    pub(crate) at: Instant,
    pub(crate) host: usize,
    pub(crate) wires: [Conditions; 2],
    pub(crate) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Delay,
    /// All frames are dropped, in one direction or both.
    Hole,
    /// The wires have their conditions from before the hole again.
    Healed,
    /// All faults end.
    Calm,
}

/// The severity of the networks' faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weather {
    Clear,
    Light,
    Heavy,
}

/// The time at which programs begin.
pub(crate) const BEGIN: Instant = Instant::from_millis(10);

/// The time that a host waits for the answer to an address request before it drops the waiting packets (RFC
/// 4861, 10). On a slower Ethernet no address is ever resolved.
const RESOLUTION: Duration = Duration::from_secs(3);

struct Dice(Rng);

impl Dice {
    fn chance(&mut self, percent: u32) -> bool {
        self.0.chance(Ratio::percent(percent))
    }

    fn between(&mut self, low: u64, high: u64) -> usize {
        self.0.between(low, high) as usize
    }

    fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        self.0.magnitude(low, high)
    }

    fn micros(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.magnitude(low, high))
    }

    fn permille(&mut self, most: u64) -> Ratio {
        Ratio::new(self.0.between(0, most) as u32, 1_000)
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        *self.0.choose(items).expect("something to choose")
    }
}

impl Plan {
    pub(crate) fn random(seed: u64) -> Self {
        let mut dice = Dice(Rng::new(seed ^ 0x686f_7374_7470_6321));
        let weather = dice.one_of(&[Weather::Clear, Weather::Light, Weather::Light, Weather::Heavy]);
        let pair = dice.chance(35);
        let servers = if pair { 1 } else { dice.between(1, 3) };
        let clients = match dice.between(0, 9) {
            _ if pair => 1,
            0..=6 => dice.between(1, 6),
            _ => dice.between(7, 24),
        };
        let mut plan = Self {
            seed,
            v6: dice.chance(40),
            hosts: Vec::new(),
            servers,
            listener: ListenerConfig::default(),
            clients: Vec::new(),
            changes: Vec::new(),
            gentle: weather != Weather::Heavy,
        };
        let slow = dice.chance(40);
        for number in 0..servers + clients {
            let station = plan.station(&mut dice, weather, number < servers, slow);
            plan.hosts.push(station);
        }
        plan.listen(&mut dice);
        for host in 0..servers + clients {
            plan.connect(&mut dice, host);
            plan.change(&mut dice, host);
        }
        plan.changes.sort_by_key(|change| change.at);
        plan
    }

    /// Returns whether the connections of this client must not fail.
    pub(crate) fn must_work(&self, client: &Client) -> bool {
        let ends = [client.host, client.server];
        let round_trip = ends.map(|host| self.slowest(host)).into_iter().fold(Duration::ZERO, |a, b| a + b);
        self.gentle && round_trip < RESOLUTION && !ends.iter().any(|host| self.hosts[*host].cut_off)
    }

    /// Returns the greatest delay that the wires of a host add to a round trip, over all changes.
    fn slowest(&self, host: usize) -> Duration {
        let changes = self.changes.iter().filter(|change| change.host == host).map(|change| change.wires);
        let both = |wires: [Conditions; 2]| {
            let one = |wire: Conditions| wire.delay + wire.jitter + wire.reordering_delay;
            one(wires[0]) + one(wires[1])
        };
        changes.chain([self.hosts[host].wires]).map(both).max().unwrap_or_default()
    }

    fn station(&mut self, dice: &mut Dice, weather: Weather, serves: bool, slow: bool) -> Station {
        let delay = dice.micros(20, 100_000);
        let rate = dice.chance(40).then(|| {
            let queue_pkts = dice.magnitude(4, 200) as usize;
            (dice.magnitude(if serves { 2_000_000 } else { 200_000 }, 1_000_000_000), queue_pkts)
        });
        let jitter = if dice.chance(40) { delay * dice.one_of(&[1, 2, 4]) / 4 } else { Duration::ZERO };
        let wires = [(); 2].map(|()| {
            let (rate_bps, queue_pkts) = rate.unzip();
            let wire = Conditions {
                rate_bps,
                queue_pkts: queue_pkts.unwrap_or(0),
                delay,
                jitter,
                ..Conditions::PERFECT
            };
            faults(dice, wire, weather, serves)
        });
        let ring_pkts = dice.one_of(&[16, 64, 64, 4_096]);
        Station { wires, ring_pkts, slow: slow && dice.chance(70), cut_off: false }
    }

    fn listen(&mut self, dice: &mut Dice) {
        if dice.chance(50) {
            self.listener.fast_open = dice.magnitude(1, 64) as usize;
        }
        if dice.chance(40) {
            self.listener.backlog = dice.between(1, 4);
            self.listener.syn_queue = dice.between(1, 4);
            self.listener.syn_cookies = dice.chance(75);
            // Without cookies handshakes wait for room, and time out.
            self.gentle &= self.listener.syn_cookies;
        }
    }

    /// Makes servers clients of each other, now and then.
    fn connect(&mut self, dice: &mut Dice, host: usize) {
        let server = dice.between(0, self.servers as u64 - 1);
        if server == host || host < self.servers && dice.chance(50) {
            return;
        }
        let bytes = dice.magnitude(1, 60_000) as usize;
        let manners = Manners {
            early: dice.chance(50),
            leaves_after: dice.chance(20).then(|| dice.between(0, bytes as u64)),
        };
        self.clients.push(Client {
            host,
            server,
            begins: if dice.chance(50) { Duration::ZERO } else { dice.micros(1_000, 3_000_000) },
            connections: dice.between(1, 12),
            abreast: dice.between(1, 4),
            bytes,
            manners,
        });
    }

    fn change(&mut self, dice: &mut Dice, host: usize) {
        let at = |dice: &mut Dice| BEGIN + dice.micros(1_000, 8_000_000);
        let mut wires = self.hosts[host].wires;
        let mut then = |at, wires, what| self.changes.push(Change { at, host, wires, what });
        if dice.chance(25) {
            let at = at(dice);
            for wire in &mut wires {
                wire.delay = wire.delay * dice.one_of(&[1, 3, 8, 30]) / dice.one_of(&[1, 2, 8]);
            }
            then(at, wires, What::Delay);
        }
        if dice.chance(15) {
            let (start, lasts) = (at(dice), dice.micros(10_000, 30_000_000));
            let mut hole = wires;
            for wire in dice.one_of(&[&[0][..], &[1], &[0, 1]]) {
                hole[*wire].loss = Ratio::percent(100);
            }
            then(start, hole, What::Hole);
            if dice.chance(85) {
                then(start + lasts, wires, What::Healed);
            } else {
                self.hosts[host].cut_off = true;
            }
        } else if dice.chance(10) {
            then(at(dice), wires.map(Conditions::without_faults), What::Calm);
        }
    }
}

/// A frame crosses the client's wire and the server's. Only one of them changes frames. If both did, the
/// checksum would miss one change in 32: a bit that is set, and the same bit of another word that is cleared.
fn faults(dice: &mut Dice, wire: Conditions, weather: Weather, serves: bool) -> Conditions {
    let (lost, doubled, reordered) = match weather {
        Weather::Clear => return wire,
        Weather::Light => (6, 25, 100),
        Weather::Heavy if serves => (10, 100, 150),
        Weather::Heavy => (190, 100, 150),
    };
    let mut wire = Conditions { loss: dice.permille(lost), ..wire };
    if !serves && dice.chance(50) {
        wire.corruption = dice.permille(lost / 2);
    }
    if dice.chance(50) {
        wire.duplication = dice.permille(doubled);
    }
    if dice.chance(50) {
        wire.reordering = dice.permille(reordered);
        wire.reordering_delay = wire.delay * dice.one_of(&[1, 2, 4, 8, 24]) / 4;
    }
    wire
}
