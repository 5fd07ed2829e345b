//! Plans of worlds: all events of a world are drawn from the seed before it runs.

use std::sync::Arc;

use evenkeel_core::tcp::congestion::Algorithm;
use evenkeel_core::tcp::connection::{Config, Keepalive};
use evenkeel_core::tcp::recovery::{RecoveryConfig, Restart, RtoConfig, Start};
use evenkeel_core::tcp::{EndpointConfig, ListenerConfig, TimeWaitConfig};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_sim::net::Conditions;
use evenkeel_sim::rng::{Ratio, Rng};
use evenkeel_sim::tcp::{Change, Direction, Middlebox};

use crate::program::{Ending, Program};

/// A world. Node 0 is the server; node n has link n - 1 to it.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) nodes: Vec<EndpointConfig>,
    pub(crate) links: Vec<[Conditions; 2]>,
    pub(crate) changes: Vec<(Instant, Direction, Change)>,
    pub(crate) listener: ListenerConfig,
    /// The time that the server takes to accept a connection.
    pub(crate) accept_pause: Option<Duration>,
    /// The time at which the server gets another key for its Fast Open cookies, and whether it keeps the
    /// old one.
    pub(crate) rekey: Option<(Duration, bool)>,
    pub(crate) connections: Vec<Opening>,
    /// Whether no connection with orderly users may fail.
    pub(crate) gentle: bool,
}

/// A connection to be opened.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    pub(crate) client: usize,
    pub(crate) ipv6: bool,
    /// The time of the opening, from the start or after the previous connection of the client.
    pub(crate) after: Duration,
    pub(crate) when: When,
    /// Whether the call that opens the connection gets the data that is ready to be sent.
    pub(crate) early: bool,
    /// The opener's, the other's.
    pub(crate) programs: [Program; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// This long after the beginning.
    Beginning,
    /// After the previous connection has ended for its opener, from its port if `same_port` and the port is
    /// free again.
    Before { same_port: bool },
    /// After the beginning, and the other end opens, too, this much later.
    Together(Duration),
}

/// The severity of the networks' faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weather {
    Clear,
    Light,
    Heavy,
}

struct Dice(Rng);

impl Dice {
    fn chance(&mut self, percent: u32) -> bool {
        self.0.chance(Ratio::percent(percent))
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0.between(low, high)
    }

    fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        self.0.magnitude(low, high)
    }

    fn micros(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.magnitude(low, high))
    }

    fn permille(&mut self, most: u64) -> Ratio {
        Ratio::new(self.between(0, most) as u32, 1_000)
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        *self.0.choose(items).expect("something to choose")
    }
}

impl Plan {
    pub(crate) fn random(seed: u64) -> Self {
        let mut dice = Dice(Rng::new(seed ^ 0x7463_7072_756e_7321));
        let weather = dice.one_of(&[Weather::Clear, Weather::Light, Weather::Light, Weather::Heavy]);
        let clients = match dice.between(0, 9) {
            0..=5 => 1,
            6..=8 => dice.between(2, 8),
            _ => dice.between(9, 32),
        } as usize;
        let mut gentle = weather != Weather::Heavy;
        let mut nodes: Vec<_> = (0..=clients).map(|_| endpoint(&mut dice)).collect();
        // Old segments may reach new connections if TIME-WAIT is shortened.
        let forgetful = dice.chance(10);
        if forgetful {
            nodes[0].time_wait.connections = 4;
        }
        if dice.chance(5) {
            nodes[0].connections = 8;
            gentle = false;
        }
        let links =
            (0..clients).map(|_| [(); 2].map(|()| conditions(&mut dice, weather, &mut gentle))).collect();
        let mut plan = Self {
            seed,
            nodes,
            links,
            changes: Vec::new(),
            listener: ListenerConfig::default(),
            accept_pause: None,
            rekey: None,
            connections: Vec::new(),
            gentle,
        };
        plan.listen(&mut dice, clients);
        for link in 0..clients {
            plan.change(&mut dice, link, weather);
        }
        let huge = seed.is_multiple_of(100);
        for client in 1..=clients {
            plan.connect(&mut dice, client, !forgetful, huge && client == 1);
        }
        plan
    }

    fn listen(&mut self, dice: &mut Dice, clients: usize) {
        if dice.chance(50) {
            self.listener.fast_open = dice.magnitude(1, 16) as usize;
            if dice.chance(25) {
                self.rekey = Some((dice.micros(10_000, 8_000_000), dice.chance(50)));
                // Connections that wait to be accepted then are reset.
                self.gentle = false;
            }
        }
        if dice.chance(50) {
            return;
        }
        self.listener.backlog = dice.between(1, 4) as usize;
        self.listener.syn_queue = dice.between(1, 4) as usize;
        self.listener.syn_cookies = dice.chance(75);
        self.listener.ecn = dice.chance(50);
        if dice.chance(30) {
            self.accept_pause = Some(dice.micros(1_000, 2_000_000));
            // Handshakes wait for room, and time out.
            self.gentle = false;
        }
        self.gentle &= self.listener.syn_cookies || clients <= 2;
    }

    fn change(&mut self, dice: &mut Dice, link: usize, weather: Weather) {
        let at = |dice: &mut Dice| Instant::from_millis(1_000) + dice.micros(1_000, 8_000_000);
        for back in [false, true] {
            let way = Direction { link, back };
            let now = self.links[link][usize::from(back)];
            if dice.chance(20) {
                for _ in 0..dice.between(1, 3) {
                    let delay = now.delay * dice.one_of(&[1, 2, 3, 8, 30]) / dice.one_of(&[1, 2, 8]);
                    self.changes.push((at(dice), way, Change::Conditions(Conditions { delay, ..now })));
                }
            }
            if dice.chance(20) {
                let percent = if weather == Weather::Heavy { 30 } else { 5 };
                self.changes.push((
                    at(dice),
                    way,
                    Change::Mark(Ratio::percent(dice.between(0, percent) as u32)),
                ));
            }
            if dice.chance(10) {
                let middlebox =
                    dice.one_of(&[Middlebox::EatsData, Middlebox::EatsOption, Middlebox::StripsOption]);
                self.changes.push((at(dice), way, Change::Middlebox(Some(middlebox))));
                if dice.chance(50) {
                    self.changes.push((at(dice), way, Change::Middlebox(None)));
                }
            }
            if dice.chance(15) {
                let tells = dice.chance(70);
                self.changes.push((at(dice), way, Change::Mtu(dice.between(700, 1_499) as u16, tells)));
                self.gentle &= tells;
                if dice.chance(50) {
                    self.changes.push((at(dice), way, Change::Mtu(1_500, true)));
                }
            }
        }
        if dice.chance(15) {
            let ways: &[bool] = dice.one_of(&[&[false][..], &[true][..], &[false, true][..]]);
            let start = at(dice);
            let heals = dice.chance(85);
            // Without cookies all clients that retry after it at one time compete for the few places of the
            // SYN queue, and not all get one in time.
            self.gentle &= heals && self.listener.syn_cookies;
            let end = start + dice.micros(10_000, 30_000_000);
            for &back in ways {
                self.changes.push((start, Direction { link, back }, Change::Hole(true)));
                if heals {
                    self.changes.push((end, Direction { link, back }, Change::Hole(false)));
                }
            }
        }
    }

    fn connect(&mut self, dice: &mut Dice, client: usize, reuse: bool, huge: bool) {
        let clients = self.links.len();
        let most = if clients > 8 { 4 } else { 8 };
        let sequential = dice.chance(50);
        let early = dice.chance(50);
        for n in 0..dice.magnitude(1, most) {
            let programs = programs(dice, huge && n == 0);
            let when = match n {
                _ if clients == 1 && dice.chance(5) => When::Together(dice.micros(1, 200_000)),
                1.. if sequential => When::Before { same_port: reuse && dice.chance(60) },
                _ => When::Beginning,
            };
            let after = if dice.chance(30) { Duration::ZERO } else { dice.micros(100, 4_000_000) };
            self.connections.push(Opening { client, ipv6: dice.chance(40), after, when, early, programs });
        }
    }
}

fn programs(dice: &mut Dice, huge: bool) -> [Program; 2] {
    let mut programs = [(); 2].map(|()| program(dice, huge));
    if huge {
        programs[0].bytes = 3_000_000;
    }
    for side in 0..2 {
        let (written, read) = (programs[side].bytes, programs[1 - side].bytes);
        let program = &mut programs[side];
        (program.write_pause, program.write_chunk) = steps(dice, written);
        (program.read_pause, program.read_chunk) = steps(dice, read);
    }
    // One side has to begin.
    if programs.iter().all(|program| program.ending == Ending::ShutdownLast) {
        programs[0].ending = Ending::Shutdown;
    }
    programs
}

fn program(dice: &mut Dice, orderly: bool) -> Program {
    let bytes = match dice.between(0, 19) {
        0..=2 => 0,
        3..=6 => dice.between(1, 100),
        7..=13 => dice.magnitude(100, 10_000),
        14..=18 => dice.magnitude(10_000, 60_000),
        _ => dice.magnitude(60_000, 500_000),
    };
    let ending = match dice.between(0, 19) {
        _ if orderly => Ending::Shutdown,
        0..=9 => Ending::Shutdown,
        10..=14 => Ending::ShutdownLast,
        15..=16 => Ending::Close,
        17 => Ending::CloseAt(dice.micros(1_000, 5_000_000)),
        _ => Ending::AbortAt(dice.micros(1_000, 5_000_000)),
    };
    Program {
        bytes,
        write_chunk: 1,
        read_chunk: 1,
        write_pause: None,
        read_pause: None,
        ending,
        nagle: dice.chance(70),
    }
}

/// Draws the pause between calls and the bytes of each call, for some hundred calls at most.
fn steps(dice: &mut Dice, bytes: u64) -> (Option<Duration>, usize) {
    let pause = (bytes < 20_000 && dice.chance(15)).then(|| dice.micros(100, 1_500_000));
    let least = bytes / 200 + 1;
    (pause, dice.magnitude(least, 65_536.max(least)) as usize)
}

fn conditions(dice: &mut Dice, weather: Weather, gentle: &mut bool) -> Conditions {
    let delay = dice.micros(20, 150_000);
    let mut conditions = Conditions { delay, ..Conditions::PERFECT };
    if dice.chance(50) {
        conditions.rate_bps = Some(dice.magnitude(100_000, 1_000_000_000));
        conditions.queue_pkts = dice.magnitude(2, 200) as usize;
        *gentle &= conditions.queue_pkts >= 8;
    }
    if dice.chance(50) {
        conditions.jitter = delay * dice.one_of(&[1, 2, 4]) / 4;
    }
    // A changed segment is lost, too, and counts among the losses of the weather.
    let (lost, doubled, reordered) = match weather {
        Weather::Clear => return conditions,
        Weather::Light => (15, 50, 200),
        Weather::Heavy => (100, 200, 300),
    };
    conditions.loss = dice.permille(if weather == Weather::Heavy { 2 * lost } else { lost });
    if dice.chance(50) {
        conditions.corruption = dice.permille(lost);
    }
    if dice.chance(50) {
        conditions.duplication = dice.permille(doubled);
    }
    if dice.chance(50) {
        conditions.reordering = dice.permille(reordered);
        conditions.reordering_delay = delay * dice.one_of(&[1, 2, 4, 8, 24]) / 4;
    }
    conditions
}

fn endpoint(dice: &mut Dice) -> EndpointConfig {
    let recovery = RecoveryConfig {
        algorithm: dice.one_of(&[Algorithm::Cubic, Algorithm::Cubic, Algorithm::NewReno, Algorithm::Bbr]),
        hystart: dice.chance(50),
        initial_window_segments: dice.one_of(&[1, 2, 10, 10, 10, 40]),
        rto: RtoConfig::default(),
        pacing: dice.chance(30),
        segments_max: dice.one_of(&[16, 1 << 16, 1 << 16]),
        restart: dice.one_of(&[Restart::SlowStart, Restart::LastRate]),
        start: dice.one_of(&[Start::SlowStart, Start::SlowStart, Start::Estimated, Start::Remembered]),
        ..RecoveryConfig::default()
    };
    let receive_buffer_initial = dice.magnitude(2_000, 65_536) as usize;
    let send_buffer_initial = dice.magnitude(1_000, 65_536) as usize;
    let seconds = |dice: &mut Dice, low, high| Duration::from_secs(dice.between(low, high));
    let time_wait = seconds(dice, 20, 60);
    let connection = Config {
        send_buffer_initial,
        send_buffer_max: send_buffer_initial * dice.one_of(&[1, 4, 64]),
        receive_buffer_initial,
        receive_buffer_max: receive_buffer_initial * dice.one_of(&[1, 4, 64]),
        mss_max: u16::MAX,
        window_scaling: dice.chance(80),
        sack: dice.chance(75),
        timestamps: dice.chance(60),
        ecn: dice.chance(40),
        nagle: true,
        ack_delay: dice.one_of(&[0, 10, 40, 40, 200].map(Duration::from_millis)),
        keepalive: Some(Keepalive {
            idle: seconds(dice, 20, 60),
            interval: seconds(dice, 10, 20),
            probes_max: 9,
        }),
        connect_timeout: seconds(dice, 180, 300),
        user_timeout: seconds(dice, 200, 400),
        fin_wait_2: seconds(dice, 10, 60),
        time_wait,
        challenge_acks_max: dice.one_of(&[3, 10]),
        hop_limit: None,
        recovery: Arc::new(recovery),
    };
    EndpointConfig {
        connection: Arc::new(connection),
        time_wait: TimeWaitConfig { wait: time_wait, ..TimeWaitConfig::default() },
        ..EndpointConfig::default()
    }
}
