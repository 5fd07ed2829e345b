//! The conditions that must hold when a world is at rest, and the counters of its events.

use evenkeel_core::tcp::Counter;
use evenkeel_core::tcp::connection::Error;
use evenkeel_core::time::Instant;
use evenkeel_sim::tcp::Network;

use crate::program::Fate;
use crate::run::{Conversation, Users};

/// Counters of the events in worlds.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) digest: u64,
    worlds: u64,
    connections: u64,
    complete: u64,
    left: u64,
    refused: u64,
    reset: u64,
    timed_out: u64,
    bytes: u64,
    segments: u64,
    damaged: u64,
    retransmitted: u64,
    timeouts: u64,
    probes: u64,
    out_of_order: u64,
    cookies: u64,
    overflows: u64,
    reused: u64,
    ghosts: u64,
    challenges: u64,
    paws: u64,
    fast_opened: u64,
    fast_passive: u64,
    fast_refused: u64,
    fast_vanished: u64,
    fast_overflows: u64,
    wrong_cookies: u64,
    old_cookies: u64,
    heard_twice: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.worlds += other.worlds;
        self.connections += other.connections;
        self.complete += other.complete;
        self.left += other.left;
        self.refused += other.refused;
        self.reset += other.reset;
        self.timed_out += other.timed_out;
        self.bytes += other.bytes;
        self.segments += other.segments;
        self.damaged += other.damaged;
        self.retransmitted += other.retransmitted;
        self.timeouts += other.timeouts;
        self.probes += other.probes;
        self.out_of_order += other.out_of_order;
        self.cookies += other.cookies;
        self.overflows += other.overflows;
        self.reused += other.reused;
        self.ghosts += other.ghosts;
        self.challenges += other.challenges;
        self.paws += other.paws;
        self.fast_opened += other.fast_opened;
        self.fast_passive += other.fast_passive;
        self.fast_refused += other.fast_refused;
        self.fast_vanished += other.fast_vanished;
        self.fast_overflows += other.fast_overflows;
        self.wrong_cookies += other.wrong_cookies;
        self.old_cookies += other.old_cookies;
        self.heard_twice += other.heard_twice;
    }

    /// Asserts that every kind of event has happened: worlds in which nothing goes wrong show nothing.
    pub(crate) fn assert_everything_happened(&self) {
        let rare =
            [self.refused, self.reset, self.timed_out, self.cookies, self.overflows, self.reused, self.paws];
        assert!(rare.iter().all(|count| *count > 0), "{self:?}");
        let fast_open = [
            self.fast_refused,
            self.fast_vanished,
            self.fast_overflows,
            self.wrong_cookies,
            self.old_cookies,
            self.heard_twice,
        ];
        assert!(fast_open.iter().all(|count| *count > 0), "{self:?}");
        assert!(self.fast_opened.min(self.fast_passive) > self.connections / 50, "{self:?}");
        let common =
            [self.left, self.damaged, self.retransmitted, self.timeouts, self.probes, self.out_of_order];
        assert!(common.iter().all(|count| *count > self.worlds / 10), "{self:?}");
        assert!(self.complete > self.connections / 2, "{self:?}");
    }
}

/// Checks that everything is over in a world, and returns its counters.
pub(crate) fn judge(network: &Network, users: &Users) -> Result<Tally, String> {
    let mut wrong = users.violations.clone();
    wrong.extend(
        users.open().iter().map(|c| format!("nothing will ever happen, and this is not over: {c:?}")),
    );
    for node in 0..network.nodes() {
        let endpoint = network.endpoint(node);
        let left = (endpoint.len(), endpoint.waiting(), network.deadline(node));
        if left != (0, 0, Instant::NEVER) {
            wrong.push(format!("node {node} keeps {left:?}: {endpoint:?}"));
        }
    }
    for conversation in &users.conversations {
        wrong.extend(failures(conversation, users));
        wrong.extend(busy(conversation));
    }
    if wrong.is_empty() { Ok(tally(network, users)) } else { Err(wrong.join("\n")) }
}

/// Returns a description of connections that failed without a reason.
fn failures(conversation: &Conversation, users: &Users) -> Option<String> {
    let orderly = conversation.opening.programs.iter().all(|program| program.is_orderly());
    let together = matches!(conversation.opening.when, crate::plan::When::Together(_));
    let complete = conversation.sides.iter().all(|side| side.fate == Some(Fate::Complete));
    let whole =
        (0..2).all(|side| conversation.sides[1 - side].read == conversation.opening.programs[side].bytes);
    let unheard = users.forgets && conversation.opening.programs[0].bytes == 0;
    let fine = !users.gentle || !orderly || together || unheard || complete && whole;
    (!fine).then(|| format!("failed in a gentle world: {conversation:?}"))
}

/// Returns a description of connections that sent far more segments than necessary.
fn busy(conversation: &Conversation) -> Option<String> {
    let segments = conversation.segments;
    let bytes: u64 = conversation.opening.programs.iter().map(|program| program.bytes).sum();
    let calls: u64 = conversation
        .opening
        .programs
        .iter()
        .map(|program| program.bytes / program.write_chunk as u64 + program.bytes / program.read_chunk as u64)
        .sum();
    let most = 300 + bytes / 50 + 4 * calls;
    (segments > most).then(|| format!("{segments} segments for {bytes} bytes: {conversation:?}"))
}

fn tally(network: &Network, users: &Users) -> Tally {
    let mut tally = Tally {
        digest: network.digest(),
        worlds: 1,
        connections: users.conversations.len() as u64,
        segments: network.segments(),
        damaged: network.damaged(),
        reused: users.reused,
        ghosts: users.ghosts,
        heard_twice: users.heard_twice,
        ..Tally::default()
    };
    for side in users.conversations.iter().flat_map(|c| &c.sides) {
        tally.bytes += side.read;
        let Some(fate) = side.fate else { continue };
        let count = match fate {
            Fate::Complete => &mut tally.complete,
            Fate::Left => &mut tally.left,
            Fate::Failed(Error::Refused) => &mut tally.refused,
            Fate::Failed(Error::Reset) => &mut tally.reset,
            Fate::Failed(_) => &mut tally.timed_out,
        };
        *count += 1;
    }
    for node in 0..network.nodes() {
        let counters = network.endpoint(node).counters();
        tally.retransmitted += counters.get(Counter::RetransSegs);
        tally.timeouts += counters.get(Counter::Timeouts);
        tally.probes += counters.get(Counter::LossProbes);
        tally.out_of_order += counters.get(Counter::OfoQueue);
        tally.cookies += counters.get(Counter::SyncookiesRecv);
        tally.overflows += counters.get(Counter::ListenOverflows);
        tally.challenges += counters.get(Counter::ChallengeAck);
        tally.paws += counters.get(Counter::PawsEstab);
        tally.fast_opened += counters.get(Counter::FastOpenActive);
        tally.fast_passive += counters.get(Counter::FastOpenPassive);
        tally.fast_refused += counters.get(Counter::FastOpenActiveFail);
        tally.fast_vanished += counters.get(Counter::FastOpenBlackhole);
        tally.fast_overflows += counters.get(Counter::FastOpenListenOverflow);
        tally.wrong_cookies += counters.get(Counter::FastOpenPassiveFail);
        tally.old_cookies += counters.get(Counter::FastOpenPassiveAltKey);
    }
    tally
}
