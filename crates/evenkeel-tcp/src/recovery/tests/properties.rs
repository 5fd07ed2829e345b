//! The invariants of loss recovery, tested with random steps.

use std::sync::Arc;

use proptest::prelude::*;

use super::link::{Ends, Fortune, Packet, Path, World};
use crate::congestion::Algorithm;
use crate::recovery::scoreboard::{Fate, Segment};
use crate::recovery::{AckInfo, Expired, Recovery, RecoveryConfig};
use crate::time::{Duration, Instant};
use crate::{SeqNumber, SeqRange};

/// Checks that the counters, which change step by step, agree with a recount.
pub(super) fn check(recovery: &Recovery) {
    let board = &recovery.parts.board;
    let count = board.recount();
    assert_eq!(board.pipe(), count.in_flight);
    assert_eq!((board.lost_bytes(), board.sacked_bytes()), (count.lost, count.sacked));
    assert_eq!(board.first_lost().map(|segment| segment.start), count.first_lost);
    let mut end = board.una();
    for segment in board.iter() {
        assert!(segment.start == end && segment.len > 0);
        end = segment.end();
    }
    assert_eq!(end, board.nxt());
    check_short_cuts(recovery);
    assert!(recovery.in_flight() <= board.pipe());
    assert_eq!(recovery.deadline().is_some(), !recovery.is_empty());
    assert!(recovery.parts.rtt.is_rto_of(&recovery.parts.config.rto));
    let allowed = recovery.send_allowance();
    for bytes in [0, 1, recovery.info().mss, recovery.info().mss + 1, allowed, allowed.saturating_add(1)] {
        assert_eq!(recovery.may_send(bytes), bytes <= allowed, "{bytes} of {allowed}");
    }
    assert!(allowed == 0 || recovery.in_flight() + allowed <= recovery.info().cwnd);
    let may_send_again = recovery.next_retransmission(u16::MAX).is_some();
    assert!(!may_send_again || count.lost > 0);
}

/// Checks the predicates that describe all segments without visiting them.
fn check_short_cuts(recovery: &Recovery) {
    let board = &recovery.parts.board;
    if board.is_undisturbed() {
        assert!(board.iter().all(|segment| segment.fate == Fate::InFlight && !segment.retransmitted));
    }
    if let Some(newest) = recovery.parts.rack.newest().filter(|newest| board.is_sent_since(*newest)) {
        let in_flight = |segment: &&Segment| segment.fate == Fate::InFlight;
        assert!(board.iter().filter(in_flight).all(|segment| (segment.sent_at, segment.end()) >= newest));
    }
}

/// A random event of a sender.
#[derive(Debug, Clone)]
enum Step {
    /// New bytes leave, allowed or not.
    New(u16),
    /// Lost segments are sent again, at most this number of times.
    Again(u8),
    /// An acknowledgment, with positions relative to SND.UNA that may be nonsense.
    Ack {
        upto: i32,
        blocks: Vec<(i32, i32)>,
        payload: bool,
        ece: bool,
        unsent: bool,
        age: Option<u32>,
    },
    Wait(u32),
    Expire,
    Mss(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let position = || prop_oneof![4 => -2000i32..30_000, 1 => any::<i32>()];
    let upto = prop_oneof![3 => Just(0), 2 => 0i32..4000, 1 => position()];
    let blocks = prop::collection::vec((position(), position()), 0..5);
    let ack = (upto, blocks, any::<[bool; 3]>(), any::<Option<u32>>()).prop_map(
        |(upto, blocks, [payload, ece, unsent], age)| Step::Ack { upto, blocks, payload, ece, unsent, age },
    );
    prop_oneof![
        4 => (1u16..3000).prop_map(Step::New),
        3 => (1u8..5).prop_map(Step::Again),
        6 => ack,
        3 => (0u32..300_000).prop_map(Step::Wait),
        2 => Just(Step::Expire),
        1 => (1u16..2000).prop_map(Step::Mss),
    ]
}

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Cubic, Algorithm::NewReno, Algorithm::Bbr];

/// A sender to which anything may happen.
struct Sender {
    recovery: Recovery,
    una: SeqNumber,
    nxt: SeqNumber,
    now: Instant,
    mss: u16,
}

impl Sender {
    fn new(algorithm: Algorithm, sack: bool, iss: u32) -> Self {
        let config = RecoveryConfig { algorithm, pacing: true, ..RecoveryConfig::default() };
        let iss = SeqNumber::new(iss);
        let mut recovery = Recovery::new(&Arc::new(config), iss, 1000);
        recovery.set_sack_permitted(sack);
        recovery.on_sent(SeqRange::at(iss, 1), false, Instant::ZERO);
        Self { recovery, una: iss, nxt: iss + 1, now: Instant::ZERO, mss: 1000 }
    }

    fn offset(&self, by: i32) -> SeqNumber {
        SeqNumber::new(self.una.to_u32().wrapping_add_signed(by))
    }

    fn perform(&mut self, step: &Step) {
        match step {
            Step::New(bytes) => {
                let range = SeqRange::at(self.nxt, u32::from(*bytes));
                self.nxt = range.end;
                self.recovery.on_sent(range, false, self.now);
            }
            Step::Again(count) => (0..*count).for_each(|_| self.send_again()),
            Step::Ack { upto, blocks, payload, ece, unsent, age } => {
                let sack: Vec<SeqRange> = blocks
                    .iter()
                    .map(|&(from, to)| SeqRange::new(self.offset(from), self.offset(to)))
                    .collect();
                self.acknowledge(
                    self.offset(*upto),
                    &sack,
                    [*payload, *ece, *unsent],
                    age.map(|age| Duration::from_micros(age.into())),
                );
            }
            Step::Wait(micros) => self.now += Duration::from_micros(u64::from(*micros)),
            Step::Expire => self.expire(),
            Step::Mss(mss) => {
                self.mss = *mss;
                self.recovery.set_mss(*mss);
            }
        }
    }

    fn send_again(&mut self) {
        if let Some(range) = self.recovery.next_retransmission(self.mss) {
            assert!(!range.is_empty() && range.len() <= u32::from(self.mss));
            assert!(range.start.at_or_after(self.una) && range.end.at_or_before(self.nxt));
            self.recovery.on_sent(range, true, self.now);
        }
    }

    fn acknowledge(
        &mut self,
        ack: SeqNumber,
        sack: &[SeqRange],
        [payload, ece, unsent]: [bool; 3],
        rtt_echo: Option<Duration>,
    ) {
        let una = self.una;
        let info = AckInfo { ack, sack, window_update: false, payload, rtt_echo, ece, unsent, now: self.now };
        let acked = self.recovery.on_ack(&info);
        if ack.at_or_after(una) && ack.at_or_before(self.nxt) {
            self.una = ack;
        }
        assert_eq!(acked.newly_acked, self.una.since(una));
    }

    fn expire(&mut self) {
        let Some(deadline) = self.recovery.deadline() else { return };
        self.now = self.now.max(deadline);
        match self.recovery.on_deadline(self.now) {
            Expired::TailLossProbe => {
                let range = self.recovery.probe_range(self.mss, self.una + (1 << 30));
                let range = range.expect("a probe is for something outstanding");
                self.recovery.on_sent(range, true, self.now);
            }
            Expired::Timeout => {
                assert!(self.recovery.next_retransmission(1).is_some_and(|range| range.start == self.una))
            }
            Expired::Reordering { lost, .. } => assert!(lost > 0),
            Expired::Nothing => {}
        }
    }

    /// Finishes the transfer without further loss. Every lost byte must be sent again, and all bytes are
    /// acknowledged in the end.
    fn finish(&mut self) {
        for _ in 0..20_000 {
            if self.recovery.is_empty() {
                return;
            }
            let mut sent = self.una;
            while let Some(range) = self.recovery.next_retransmission(self.mss) {
                if self.recovery.send_allowance() < range.len() {
                    break;
                }
                self.recovery.on_sent(range, true, self.now);
                sent = sent.max(range.end);
            }
            self.now += Duration::from_millis(10);
            if sent.after(self.una)
                && self.recovery.next_retransmission(self.mss).is_none_or(|next| next.start.at_or_after(sent))
            {
                self.acknowledge(sent, &[], [true, false, false], None);
            } else {
                self.expire();
            }
            check(&self.recovery);
        }
        panic!("{:?} is left of {:?}", self.recovery.info(), SeqRange::new(self.una, self.nxt));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever is sent, acknowledged, right or wrong, and whichever timer expires.
    #[test]
    fn counters_are_what_a_recount_says_and_all_is_sent_again_in_the_end(
        steps in prop::collection::vec(step(), 1..120),
        sack: bool,
        algorithm in 0u8..3,
        iss: u32,
    ) {
        let algorithm = ALGORITHMS[usize::from(algorithm)];
        let mut sender = Sender::new(algorithm, sack, iss);
        for step in &steps {
            sender.perform(step);
            check(&sender.recovery);
        }
        sender.finish();
    }
}

/// Returns random treatments of packets: of a thousand, `lost` are lost, `late` late and `doubled` doubled.
/// One seed gives one sequence.
pub(super) fn dice(seed: u64, lost: u64, late: u64, doubled: u64) -> impl FnMut(Packet) -> Fortune {
    let mut state = seed | 1;
    move |_| {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let draw = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        match draw % 1000 {
            roll if roll < lost => Fortune::Lost,
            roll if roll < lost + late => Fortune::Late(Duration::from_micros(draw % 150_000)),
            roll if roll < lost + late + doubled => Fortune::Twice,
            _ => Fortune::Arrives,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Over any path, with packets and acknowledgments lost, late and doubled: all arrives.
    #[test]
    fn whatever_the_path_does_all_arrives(
        seed: u64,
        lost in prop_oneof![Just(0u64), 1u64..50, 50u64..300],
        late in prop_oneof![Just(0u64), 0u64..300],
        doubled in 0u64..100,
        ends: [bool; 3],
        algorithm in 0u8..3,
        rtt_ms in 1u64..300,
        bottleneck: bool,
    ) {
        let [sack, timestamps, delayed_acks] = ends;
        let algorithm = ALGORITHMS[usize::from(algorithm)];
        let path = Path {
            rtt: Duration::from_millis(rtt_ms),
            segment_time: if bottleneck { Duration::from_micros(500) } else { Duration::ZERO },
            queue: 50,
        };
        let config = RecoveryConfig { algorithm, ..RecoveryConfig::default() };
        let ends = Ends { config, sack, timestamps, delayed_acks };
        let mut world = World::new(path, ends, 1, 300, dice(seed, lost, late, doubled));
        world.checked = true;
        // With three of ten lost each way, a timeout of two minutes may well be reached.
        let by = Instant::ZERO + Duration::from_secs(100_000);
        prop_assert!(world.run(by), "{:?}", world.flows[0].recovery.info());
        prop_assert!(world.flows[0].recovery.is_empty());
    }
}
