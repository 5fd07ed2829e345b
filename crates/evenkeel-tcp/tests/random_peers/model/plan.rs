//! The plan of a run: our configuration, the peer, the network and the programs.

use std::sync::Arc;

use evenkeel_tcp::congestion::Algorithm;
use evenkeel_tcp::connection::{Config, Keepalive};
use evenkeel_tcp::recovery::{RecoveryConfig, Restart, RtoConfig, Start};
use evenkeel_tcp::time::{Duration, Instant};
use evenkeel_tcp::{EndpointConfig, ListenerConfig, Rate, TimeWaitConfig};

use super::choices::Choices;
use super::invariants::Times;
use super::network::Way;
use super::peer::{PeerPlan, Windows};

/// The virtual time at which a run begins.
pub(crate) const BEGIN: Instant = Instant::from_millis(1_000);

/// The end that opens the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Listener,
    /// A listener whose SYN queue has no place: it answers with SYN cookies.
    Cookies,
    /// Both ends open.
    Simultaneous,
}

/// The behaviour of our user in a run.
#[derive(Debug, Clone)]
pub(crate) struct UserPlan {
    pub(crate) total: u64,
    pub(crate) write_chunk: u64,
    pub(crate) write_pause: Duration,
    pub(crate) read_chunk: u64,
    pub(crate) read_pause: Duration,
    /// Whether the user closes its direction after the peer's.
    pub(crate) closes_last: bool,
    /// The time at which the user closes, whatever is unread, or aborts.
    pub(crate) closes_at: Option<Instant>,
    pub(crate) aborts: bool,
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) role: Role,
    pub(crate) fast_open: bool,
    pub(crate) endpoint: EndpointConfig,
    pub(crate) listener: ListenerConfig,
    pub(crate) user: UserPlan,
    pub(crate) peer: PeerPlan,
    pub(crate) ways: [Way; 2],
    pub(crate) mtu: Option<(Instant, usize, bool)>,
    pub(crate) calm_at: Instant,
    pub(crate) times: Times,
    /// The time after the network is calm within which the run has to complete.
    pub(crate) rest: Duration,
}

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Cubic, Algorithm::NewReno, Algorithm::Bbr];

impl Plan {
    pub(crate) fn new(choices: &mut Choices<'_>) -> Self {
        let role = choices.pick(&[
            Role::Client,
            Role::Listener,
            Role::Client,
            Role::Listener,
            Role::Cookies,
            Role::Simultaneous,
        ]);
        let fast_open = matches!(role, Role::Client | Role::Listener) && choices.chance(25);
        let rough = choices.chance(60);
        let ways = [(); 2].map(|()| way(choices, rough));
        let calm_at = BEGIN + choices.micros(200_000, 12_000_000);
        let (connection, pacing_rate) = connection(choices);
        let peer = peer(choices, role, fast_open);
        let mut user = user(choices);
        user.closes_last &= !peer.closes_last;
        let mtu = choices.chance(12).then(|| {
            let at = BEGIN + choices.micros(1_000, 3_000_000);
            (at, choices.between(600, 1_499) as usize, !choices.chance(30))
        });
        let mut peer = peer;
        if role == Role::Cookies {
            // A cookie cannot encode a smaller MSS.
            peer.mss = peer.mss.map(|mss| mss.max(216));
            // If the end of a handshake by cookies was lost, our side learns of the connection only if the
            // peer sends data.
            peer.total = peer.total.max(1);
            peer.closes_last &= peer.total > 1;
        }
        // This leaves enough round trips.
        peer.total = peer.total.min(peer.segment as u64 * u64::from(peer.flight) * 60);
        let times = times(&connection, &peer, &ways, pacing_rate);
        let least = u64::from(peer.last_window).clamp(1, 500);
        let rounds = user.total / least + 64;
        let each = times.silence / 4 + Duration::from_millis(500);
        let rest = Duration::from_secs(150) + each * u32::try_from(rounds).unwrap_or(u32::MAX);
        let listener = ListenerConfig {
            syn_queue: if role == Role::Cookies { 0 } else { 16 },
            fast_open: if fast_open { 8 } else { 0 },
            ..ListenerConfig::default()
        };
        let time_wait = TimeWaitConfig::default();
        let endpoint =
            EndpointConfig { connection: Arc::new(connection), time_wait, ..EndpointConfig::default() };
        Self { role, fast_open, endpoint, listener, user, peer, ways, mtu, calm_at, times, rest }
    }
}

/// Returns bounds that follow from the longest possible round trip.
fn times(config: &Config, peer: &PeerPlan, ways: &[Way; 2], rate: Option<Rate>) -> Times {
    let longest = ways[0].longest() + ways[1].longest() + peer.ack_delay;
    // A peer that opens simultaneously answers when its own SYN has had no answer.
    let longest = longest + if peer.simultaneous { Duration::from_secs(1) } else { Duration::ZERO };
    let packet = rate.map_or(Duration::ZERO, |rate| rate.time_for(1_600));
    // The timeout is a second at first; then SRTT + 4 * RTTVAR (RFC 6298, 2).
    let silence = Duration::from_millis(1_050).max(longest * 5 + Duration::from_millis(300)) + packet;
    let recovery = &config.recovery;
    let paces = recovery.pacing
        || recovery.algorithm == Algorithm::Bbr
        || recovery.rate_max.is_some()
        || recovery.start != Start::SlowStart
        || recovery.restart != Restart::SlowStart;
    let pacing = paces.then(|| longest + packet + Duration::from_millis(100));
    Times { silence, pacing, ack_delay: config.ack_delay }
}

fn way(choices: &mut Choices<'_>, rough: bool) -> Way {
    let delay = choices.micros(50, 120_000);
    let jitter = if choices.chance(30) { delay / 2 } else { Duration::ZERO };
    let mut percent = |some: &[u64]| if rough && choices.chance(60) { choices.pick(some) } else { 0 };
    let loss = percent(&[1, 3, 10, 30]);
    let duplication = percent(&[2, 10, 30]);
    let reordering = percent(&[2, 10, 40]);
    let mark = percent(&[1, 10, 50]);
    let reordering_delay = delay * choices.pick(&[1, 2, 4]);
    Way { delay, jitter, loss, duplication, reordering, reordering_delay, mark }
}

fn connection(choices: &mut Choices<'_>) -> (Config, Option<Rate>) {
    let rate = |choices: &mut Choices<'_>| Rate::bits_per_s(choices.magnitude(200_000, 1_000_000_000));
    let start = match choices.below(6) {
        0..=2 => Start::SlowStart,
        3 => Start::Remembered,
        4 => Start::Estimated,
        _ => Start::At(rate(choices)),
    };
    let rate_max = choices.chance(10).then(|| rate(choices));
    let known = if let Start::At(rate) = start { Some(rate) } else { None };
    let slowest = match (known, rate_max) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    let recovery = RecoveryConfig {
        algorithm: choices.pick(&ALGORITHMS),
        hystart: !choices.chance(30),
        segments_per_ack: choices.pick(&[8, 1]),
        fast_convergence: !choices.chance(50),
        initial_window_segments: choices.pick(&[10, 1, 2, 4, 40]),
        rto: RtoConfig { max: Duration::from_secs(choices.pick(&[60, 120])), ..RtoConfig::default() },
        pacing: choices.chance(30),
        segments_max: choices.pick(&[1 << 16, 16]),
        restart: choices.pick(&[Restart::SlowStart, Restart::LastRate]),
        start,
        rate_max,
        ..RecoveryConfig::default()
    };
    let receive_buffer_initial = choices.pick(&[65_536, 2_000, 4_000, 10_000, 20_000]);
    let send_buffer_initial = choices.pick(&[65_536, 1_000, 5_000, 20_000]);
    let connection = Config {
        send_buffer_initial,
        send_buffer_max: send_buffer_initial * choices.pick(&[64, 1, 4]),
        receive_buffer_initial,
        receive_buffer_max: receive_buffer_initial * choices.pick(&[64, 1, 4]),
        window_scaling: !choices.chance(25),
        sack: !choices.chance(30),
        timestamps: !choices.chance(40),
        ecn: choices.chance(30),
        nagle: !choices.chance(30),
        ack_delay: Duration::from_millis(choices.pick(&[40, 0, 10, 200, 499])),
        keepalive: choices.chance(10).then(|| Keepalive {
            idle: Duration::from_secs(choices.between(1, 20)),
            interval: Duration::from_secs(choices.between(1, 5)),
            probes_max: 20,
        }),
        recovery: Arc::new(recovery),
        ..Config::default()
    };
    (connection, slowest)
}

fn peer(choices: &mut Choices<'_>, role: Role, fast_open: bool) -> PeerPlan {
    let active = matches!(role, Role::Listener | Role::Cookies);
    let mss = choices.pick(&[Some(1_460), None, Some(536), Some(100), Some(1_000), Some(8_960)]);
    let full = u64::from(mss.unwrap_or(536));
    let windows = if choices.chance(50) {
        let size = choices.magnitude(100, 60_000) as u32;
        let bytes = choices.between(1, u64::from(size)) as u32;
        Windows::Buffer(size, bytes, choices.micros(1_000, 500_000))
    } else {
        Windows::Wild(choices.micros(2_000, 1_000_000))
    };
    let total = total(choices);
    let write_chunk = choices.magnitude(total / 50 + 1, total.max(2));
    PeerPlan {
        active,
        simultaneous: role == Role::Simultaneous,
        cookie: fast_open.then(|| vec![7; 8]),
        takes_early: choices.chance(60),
        iss: choices.pick(&[5_000, 0xffff_fff0, 0x7fff_fff0, 0xffff_d000]),
        mss,
        scale: choices.pick(&[Some(7), None, Some(0), Some(2), Some(14)]),
        sack: !choices.chance(30),
        timestamps: !choices.chance(30),
        ecn: choices.chance(30),
        nagle: choices.chance(50),
        segment: choices.magnitude(full.min(50), 1_460) as usize,
        pieces: choices.pick(&[0, 0, 10, 80]),
        flight: choices.pick(&[10, 1, 2, 40]),
        rto: choices.micros(250_000, 1_000_000),
        windows,
        strict: choices.chance(50),
        last_window: choices.pick(&[60_000, 60_000, 16_000, 4_000, full.min(1_460) as u32, 300]),
        silent_opening: choices.chance(30),
        ack_every: choices.pick(&[2, 1, 2, 4, 16, 100]),
        ack_delay: choices.pick(&[40, 0, 40, 200, 500].map(Duration::from_millis)),
        partial_acks: choices.pick(&[0, 0, 10, 70]),
        reneging: choices.pick(&[0, 0, 0, 10, 60]),
        urgent: choices.pick(&[0, 0, 0, 20]),
        total,
        write_chunk,
        write_pause: choices.micros(50, 200_000),
        closes_last: choices.chance(40),
        oddities: choices.chance(40).then(|| choices.micros(5_000, 800_000)),
        resets_at: choices.chance(4).then(|| BEGIN + choices.micros(1_000, 5_000_000)),
    }
}

fn total(choices: &mut Choices<'_>) -> u64 {
    match choices.below(8) {
        0 | 1 => choices.between(1, 2_000),
        2 => 0,
        3 | 4 => choices.magnitude(1, 500),
        5 | 6 => choices.magnitude(2_000, 20_000),
        _ => choices.magnitude(10_000, 80_000),
    }
}

fn user(choices: &mut Choices<'_>) -> UserPlan {
    let total = total(choices);
    let least = total / 60 + 1;
    let leaves = choices.chance(8);
    UserPlan {
        total,
        write_chunk: choices.magnitude(least, total.max(least) * 2),
        write_pause: if choices.chance(50) { choices.micros(100, 150_000) } else { Duration::ZERO },
        read_chunk: choices.magnitude(500, 65_536),
        read_pause: if choices.chance(40) { choices.micros(100, 300_000) } else { Duration::ZERO },
        closes_last: choices.chance(40),
        closes_at: leaves.then(|| BEGIN + choices.micros(1_000, 5_000_000)),
        aborts: choices.chance(30),
    }
}

impl Plan {
    /// Returns what distinguishes the plan, in a line.
    pub(crate) fn in_brief(&self) -> String {
        let Self { role, fast_open, endpoint, peer, .. } = self;
        let recovery = &endpoint.connection.recovery;
        let (algorithm, start, odd) = (recovery.algorithm, recovery.start, peer.oddities.is_some());
        format!("{role:?}, {algorithm:?}, {start:?}, fast open {fast_open}, odd {odd}, {:?}", peer.windows)
    }
}
