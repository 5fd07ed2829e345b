use proptest::prelude::*;

use super::*;
use crate::table::slot_bytes;
use crate::tuple::tests::{flags, tuple};

const PEER_ISS: SeqNumber = SeqNumber::new(u32::MAX - 3);
const MSS: u16 = 1_460;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn numbers() -> InitialSequence {
    InitialSequence::new(Secret::new([1; 16]))
}

struct Bench {
    listener: Listener,
    counters: Counters,
}

impl Bench {
    fn new(config: ListenerConfig) -> Self {
        Self { listener: Listener::new(config, Secret::new([2; 16]), numbers()), counters: Counters::new() }
    }

    /// Returns a listener whose SYN queue has no room.
    fn full(config: ListenerConfig) -> Self {
        Self::new(ListenerConfig { syn_queue: 0, ..config })
    }

    fn with_fast_open(waiting_max: usize) -> Self {
        let mut bench = Self::new(ListenerConfig::default());
        bench.listener.enable_fast_open(FastOpenServer::new(Secret::new([3; 16]), waiting_max));
        bench
    }

    fn input(&mut self, millis: u64, n: u16, header: Header) -> Reaction {
        self.input_with(millis, n, header, b"", None)
    }

    fn input_with(
        &mut self,
        millis: u64,
        n: u16,
        header: Header,
        payload: &[u8],
        previous: Option<SeqNumber>,
    ) -> Reaction {
        let segment = Segment { header, payload: [payload, b""] };
        let arrival = Arrival { tuple: tuple(n), segment, mss: MSS, previous, now: at(millis) };
        self.listener.handle_segment(&arrival, &mut self.counters)
    }

    /// Inputs a segment and returns the header that is sent in answer.
    fn answer(&mut self, millis: u64, n: u16, header: Header) -> Header {
        match self.input(millis, n, header) {
            Reaction::Send(header) | Reaction::Open(header) | Reaction::SendAgain(header) => header,
            other => panic!("{other:?}"),
        }
    }

    fn established(&mut self, millis: u64, n: u16, header: Header) -> Handshake {
        match self.input(millis, n, header) {
            Reaction::Establish(handshake) => handshake,
            other => panic!("{other:?}"),
        }
    }

    fn count(&self, counter: Counter) -> u64 {
        self.counters.get(counter)
    }
}

fn plain_syn() -> Header {
    let options = Options { mss: Some(1_400), ..Options::default() };
    Header { seq: PEER_ISS, flags: Flags::SYN, window: 1_000, options, ..Header::default() }
}

/// Returns a SYN that offers every option.
fn full_syn() -> Header {
    let options = Options {
        mss: Some(1_400),
        window_scale: Some(9),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 500, echo: 0 }),
        ..Options::default()
    };
    Header { flags: Flags::SYN | Flags::ECE | Flags::CWR, options, ..plain_syn() }
}

/// Returns the last of the handshake, from a peer that has seen `syn_ack`.
fn ack_of(syn_ack: &Header) -> Header {
    let timestamps = syn_ack.options.timestamps.map(|t| Timestamps { value: t.echo + 10, echo: t.value });
    let options = Options { timestamps, ..Options::default() };
    Header {
        seq: PEER_ISS + 1,
        ack: syn_ack.seq + 1,
        flags: Flags::ACK,
        window: 1_000,
        options,
        ..Header::default()
    }
}

fn reset_at(seq: SeqNumber) -> Header {
    Header { seq, flags: Flags::RST, ..Header::default() }
}

// --- Handshake ---

#[test]
fn a_half_open_connection_costs_at_most_96_bytes() {
    assert!(slot_bytes::<HalfOpen>() <= 96, "{}", slot_bytes::<HalfOpen>());
}

#[test]
fn a_plain_handshake() {
    let mut bench = Bench::new(ListenerConfig::default());
    let syn_ack = bench.answer(0, 0, plain_syn());
    let options = Options { mss: Some(MSS), ..Options::default() };
    let expected = Header {
        source: 80,
        destination: tuple(0).remote.port,
        seq: numbers().next(&tuple(0), at(0), None),
        ack: PEER_ISS + 1,
        flags: Flags::SYN | Flags::ACK,
        window: 65_535,
        options,
        ..Header::default()
    };
    assert_eq!(syn_ack, expected);
    assert_eq!(bench.listener.syn_queue_len(), 1);
    let handshake = bench.established(30, 0, ack_of(&syn_ack));
    let expected = Handshake {
        tuple: tuple(0),
        iss: syn_ack.seq,
        irs: PEER_ISS,
        peer_mss: 1_400,
        mss: MSS,
        window: 1_000,
        peer_window_scale: None,
        sack_permitted: false,
        ts_recent: None,
        ecn: false,
        sent_at: Some(at(0)),
        sent_again: 0,
    };
    assert_eq!(handshake, expected);
    assert_eq!((bench.listener.syn_queue_len(), bench.listener.next_deadline()), (0, None));
    assert_eq!(bench.count(Counter::PassiveOpens), 1);
}

#[test]
fn what_both_ends_have_is_agreed_on() {
    let mut bench = Bench::new(ListenerConfig::default());
    let syn_ack = bench.answer(0, 1, full_syn());
    assert_eq!(syn_ack.flags, Flags::SYN | Flags::ACK | Flags::ECE);
    let timestamps = Timestamps { value: numbers().timestamp(&tuple(1), at(0)), echo: 500 };
    let expected = Options {
        mss: Some(MSS),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(timestamps),
        ..Options::default()
    };
    assert_eq!(syn_ack.options, expected);
    let agreed = bench.established(1, 1, ack_of(&syn_ack));
    assert_eq!((agreed.peer_window_scale, agreed.sack_permitted, agreed.ecn), (Some(9), true, true));
    assert_eq!(agreed.ts_recent, Some(510));
}

/// RFC 3168, 6.1.1.1: a middlebox may have dropped the first SYN because it requested ECN.
#[test]
fn a_peer_that_does_not_ask_for_ecn_again_does_not_get_it() {
    let mut bench = Bench::new(ListenerConfig::default());
    assert!(bench.answer(0, 1, full_syn()).flags.contains(Flags::ECE));
    let again = Header { flags: Flags::SYN, ..full_syn() };
    let syn_ack = bench.answer(1_000, 1, again);
    assert_eq!(syn_ack.flags, Flags::SYN | Flags::ACK);
    assert!(!bench.established(1_010, 1, ack_of(&syn_ack)).ecn);
}

#[test]
fn what_we_do_not_want_is_not_agreed_on() {
    let none = ListenerConfig {
        window_scale: None,
        sack_permitted: false,
        timestamps: false,
        ecn: false,
        ..ListenerConfig::default()
    };
    for mut bench in [Bench::new(none), Bench::full(none)] {
        let syn_ack = bench.answer(0, 1, full_syn());
        assert_eq!(syn_ack.options, Options { mss: Some(MSS), ..Options::default() });
        assert_eq!(syn_ack.flags, Flags::SYN | Flags::ACK);
        // They are not in use even if the peer sends them.
        let timestamps = Some(Timestamps { value: 1, echo: 0x31 });
        let ack = Header { options: Options { timestamps, ..Options::default() }, ..ack_of(&syn_ack) };
        let agreed = bench.established(1, 1, ack);
        assert_eq!((agreed.peer_window_scale, agreed.sack_permitted), (None, false));
        assert_eq!((agreed.ecn, agreed.ts_recent), (false, None));
    }
}

#[test]
fn a_peer_that_does_not_say_its_mss_has_the_default() {
    let mut bench = Bench::new(ListenerConfig::default());
    for (n, said, expected) in [(0, None, 536), (1, None, 1_220), (2, Some(0), 48), (4, Some(65_535), 65_535)]
    {
        let syn = Header { options: Options { mss: said, ..Options::default() }, ..plain_syn() };
        let syn_ack = bench.answer(0, n, syn);
        assert_eq!(bench.established(0, n, ack_of(&syn_ack)).peer_mss, expected);
    }
}

#[test]
fn a_scale_of_more_than_14_is_14() {
    let mut bench = Bench::new(ListenerConfig { window_scale: Some(200), ..ListenerConfig::default() });
    let mut syn = full_syn();
    syn.options.window_scale = Some(255);
    let syn_ack = bench.answer(0, 0, syn);
    assert_eq!(syn_ack.options.window_scale, Some(14));
    assert_eq!(bench.established(0, 0, ack_of(&syn_ack)).peer_window_scale, Some(14));
}

#[test]
fn data_may_come_before_the_ack_that_was_lost() {
    let mut bench = Bench::new(ListenerConfig::default());
    let syn_ack = bench.answer(0, 1, full_syn());
    // The second segment of data overtakes all others: it is in the window, but not next, so its timestamp is
    // not recorded.
    let ack = ack_of(&syn_ack);
    let reaction = bench.input_with(5, 1, Header { seq: ack.seq + 100, ..ack }, b"data", None);
    assert!(matches!(reaction, Reaction::Establish(Handshake { ts_recent: Some(500), .. })), "{reaction:?}");
}

#[test]
fn a_new_incarnation_follows_the_old_one() {
    let mut bench = Bench::new(ListenerConfig::default());
    let own = numbers().next(&tuple(0), at(0), None);
    let Reaction::Open(syn_ack) = bench.input_with(0, 0, plain_syn(), b"", Some(own + 1_000_000)) else {
        panic!()
    };
    assert_eq!(syn_ack.seq, own + 1_000_001);
}

// --- SYN-ACKs again ---

#[test]
fn a_syn_ack_is_sent_again_at_1_3_7_15_and_31_s_and_given_up_at_63() {
    let mut bench = Bench::new(ListenerConfig::default());
    let first = bench.answer(0, 1, full_syn());
    let mut times = Vec::new();
    while let Some(deadline) = bench.listener.next_deadline() {
        assert_eq!(
            bench.listener.poll_transmit(Instant::from_nanos(deadline.as_nanos() - 1), &mut bench.counters),
            None
        );
        if let Some((to, again)) = bench.listener.poll_transmit(deadline, &mut bench.counters) {
            let clock = again.options.timestamps.unwrap().value;
            assert_eq!(clock, numbers().timestamp(&tuple(1), deadline));
            let mut expected = first;
            expected.options.timestamps = again.options.timestamps;
            assert_eq!((to, again), (tuple(1), expected));
        }
        times.push(deadline.as_nanos() / 1_000_000_000);
    }
    assert_eq!(times, [1, 3, 7, 15, 31, 63]);
    assert_eq!(bench.listener.syn_queue_len(), 0);
    assert_eq!((bench.count(Counter::SynRetrans), bench.count(Counter::HalfOpenTimeouts)), (5, 1));
}

#[test]
fn without_retries_one_syn_ack_is_all() {
    let mut bench = Bench::new(ListenerConfig { syn_ack_retries: 0, ..ListenerConfig::default() });
    bench.answer(0, 0, plain_syn());
    assert_eq!(bench.listener.poll_transmit(at(1_000), &mut bench.counters), None);
    assert_eq!(bench.listener.syn_queue_len(), 0);
}

#[test]
fn a_syn_that_comes_again_is_answered_again_but_not_at_once() {
    let mut bench = Bench::new(ListenerConfig::default());
    let first = bench.answer(0, 0, plain_syn());
    assert_eq!(bench.input(499, 0, plain_syn()), Reaction::Nothing);
    assert_eq!(bench.answer(500, 0, plain_syn()), first);
    assert_eq!(bench.input(999, 0, plain_syn()), Reaction::Nothing);
    assert_eq!(bench.count(Counter::AckSkippedSynRecv), 2);
    assert_eq!(
        bench.established(999, 0, ack_of(&first)).sent_at,
        None,
        "whose answer it is nobody knows (Karn)"
    );
}

/// A peer that gets a second SYN-ACK after it has answered the first must challenge it (RFC 5961, 4.2).
#[test]
fn a_syn_repeated_when_the_timer_expires_gets_one_syn_ack_not_two() {
    let mut bench = Bench::new(ListenerConfig::default());
    let first = bench.answer(0, 0, plain_syn());
    assert_eq!(bench.answer(999, 0, plain_syn()), first, "before the timer");
    assert_eq!(bench.listener.poll_transmit(at(1_000), &mut bench.counters), None);
    assert_eq!(bench.listener.next_deadline(), Some(at(999 + 2_000)));
    assert!(bench.listener.poll_transmit(at(2_999), &mut bench.counters).is_some());
    assert_eq!(bench.input(3_001, 0, plain_syn()), Reaction::Nothing, "behind the timer");
    assert_eq!(bench.answer(3_499, 0, plain_syn()), first);
    assert_eq!(bench.count(Counter::SynRetrans), 3);
}

#[test]
fn a_syn_repeated_during_the_last_wait_is_answered_and_begins_it_anew() {
    let mut bench = Bench::new(ListenerConfig { syn_ack_retries: 0, ..ListenerConfig::default() });
    let first = bench.answer(0, 0, plain_syn());
    assert_eq!(bench.answer(999, 0, plain_syn()), first);
    // Its ACK arrives after the end of the first wait.
    assert_eq!(bench.listener.next_deadline(), Some(at(1_999)));
    bench.established(1_100, 0, ack_of(&first));
    // Or it does not arrive.
    bench.answer(2_000, 1, plain_syn());
    bench.answer(2_999, 1, plain_syn());
    assert_eq!(bench.listener.poll_transmit(at(3_998), &mut bench.counters), None);
    assert_eq!(bench.listener.syn_queue_len(), 1);
    assert_eq!(bench.listener.poll_transmit(at(3_999), &mut bench.counters), None);
    assert_eq!(bench.listener.syn_queue_len(), 0);
}

#[test]
fn the_round_trip_is_not_taken_from_a_syn_ack_sent_again() {
    let mut bench = Bench::new(ListenerConfig::default());
    let syn_ack = bench.answer(0, 0, plain_syn());
    assert!(bench.listener.poll_transmit(at(1_000), &mut bench.counters).is_some());
    assert_eq!(bench.established(1_001, 0, ack_of(&syn_ack)).sent_at, None);
    // A SYN from a peer whose timer is late gets one.
    let syn_ack = bench.answer(100, 2, plain_syn());
    assert_eq!(bench.established(1_200, 2, ack_of(&syn_ack)).sent_at, Some(at(100)));
}

// --- Segments that do not belong ---

#[test]
fn in_listen_a_reset_is_ignored_and_an_ack_reset() {
    let mut bench = Bench::new(ListenerConfig::default());
    assert_eq!(bench.input(0, 0, reset_at(PEER_ISS)), Reaction::Nothing);
    assert_eq!(
        bench.input(0, 0, Header { flags: Flags::RST | Flags::ACK, ..plain_syn() }),
        Reaction::Nothing
    );
    let ack = Header { ack: SeqNumber::new(77), flags: Flags::ACK | Flags::PSH, ..Header::default() };
    let answer = bench.answer(0, 0, ack);
    assert_eq!((answer.seq, answer.flags), (SeqNumber::new(77), Flags::RST));
    assert!(matches!(bench.input(0, 0, Header { flags: Flags::SYN | Flags::ACK, ..ack }), Reaction::Send(_)));
    for flags in [Flags::NONE, Flags::FIN, Flags::SYN | Flags::FIN, Flags::PSH | Flags::URG] {
        assert_eq!(bench.input(0, 0, Header { flags, ..plain_syn() }), Reaction::Nothing);
    }
    assert_eq!(bench.listener.syn_queue_len(), 0);
}

#[test]
fn a_half_open_connection_is_reset_by_the_exact_number_only() {
    let mut bench = Bench::new(ListenerConfig::default());
    let syn_ack = bench.answer(0, 0, plain_syn());
    for outside in [PEER_ISS, PEER_ISS + 65_536, PEER_ISS - 1_000] {
        assert_eq!(bench.input(600, 0, reset_at(outside)), Reaction::Nothing);
    }
    let challenge = bench.answer(600, 0, reset_at(PEER_ISS + 2));
    assert_eq!((challenge.flags, challenge.seq, challenge.ack), (Flags::ACK, syn_ack.seq + 1, PEER_ISS + 1));
    assert_eq!(bench.input(601, 0, reset_at(PEER_ISS + 3)), Reaction::Nothing, "not twice in half a second");
    assert_eq!((bench.count(Counter::ChallengeAck), bench.listener.syn_queue_len()), (1, 1));
    assert_eq!(bench.input(602, 0, reset_at(PEER_ISS + 1)), Reaction::Nothing);
    assert_eq!((bench.count(Counter::EmbryonicRsts), bench.listener.syn_queue_len()), (1, 0));
    assert_eq!(bench.listener.next_deadline(), None);
}

#[test]
fn a_peer_that_begins_anew_gets_its_way_by_a_reset() {
    let mut bench = Bench::new(ListenerConfig::default());
    let syn_ack = bench.answer(0, 0, plain_syn());
    let challenge = bench.answer(2_000, 0, Header { seq: PEER_ISS + 5_000, ..plain_syn() });
    assert_eq!(
        (challenge.flags, challenge.ack, bench.count(Counter::SynChallenge)),
        (Flags::ACK, PEER_ISS + 1, 1)
    );
    // RFC 9293, 3.10.7.3: in SYN-SENT an ACK of what was not sent is answered with <SEQ=SEG.ACK><CTL=RST>.
    assert_eq!(bench.input(2_001, 0, reset_at(challenge.ack)), Reaction::Nothing);
    let again = bench.answer(3_000, 0, Header { seq: PEER_ISS + 5_000, ..plain_syn() });
    assert_eq!((again.ack, again.flags), (PEER_ISS + 5_001, Flags::SYN | Flags::ACK));
    assert!(again.seq.after(syn_ack.seq));
}

#[test]
fn an_ack_of_something_else_is_reset_and_ends_nothing() {
    let mut bench = Bench::new(ListenerConfig::default());
    let syn_ack = bench.answer(0, 0, plain_syn());
    for wrong in [syn_ack.seq, syn_ack.seq + 2, syn_ack.seq - 70_000] {
        let answer = bench.answer(1, 0, Header { ack: wrong, ..ack_of(&syn_ack) });
        assert_eq!((answer.flags, answer.seq), (Flags::RST, wrong));
    }
    bench.established(2, 0, ack_of(&syn_ack));
}

#[test]
fn out_of_the_window_means_an_ack_and_no_connection() {
    let mut bench = Bench::new(ListenerConfig::default());
    let syn_ack = bench.answer(0, 0, plain_syn());
    let answer = bench.answer(600, 0, Header { seq: PEER_ISS + 70_000, ..ack_of(&syn_ack) });
    assert_eq!((answer.flags, answer.ack), (Flags::ACK, PEER_ISS + 1));
    assert_eq!(bench.listener.syn_queue_len(), 1);
}

#[test]
fn timestamps_once_agreed_on_are_in_everything_and_never_older() {
    let mut bench = Bench::new(ListenerConfig::default());
    let syn_ack = bench.answer(0, 1, full_syn());
    let mut ack = ack_of(&syn_ack);
    ack.options.timestamps = None;
    assert_eq!(bench.input(600, 1, ack), Reaction::Nothing);
    ack.options.timestamps = Some(Timestamps { value: 499, echo: 0 });
    let answer = bench.answer(600, 1, ack);
    assert_eq!((answer.flags, answer.options.timestamps.unwrap().echo), (Flags::ACK, 500));
    assert_eq!(answer.window, 65_535 >> 7);
    assert_eq!((bench.count(Counter::PawsEstab), bench.listener.syn_queue_len()), (1, 1));
    bench.established(601, 1, ack_of(&syn_ack));
}

// --- Bounds ---

#[test]
fn a_full_accept_queue_stops_the_listener_until_there_is_room() {
    let mut bench = Bench::new(ListenerConfig { backlog: 2, ..ListenerConfig::default() });
    let syn_acks: Vec<_> = (0..3).map(|n| bench.answer(0, n, plain_syn())).collect();
    let mut connections = Table::new(Secret::new([0; 16]), 10);
    for n in 0..2 {
        assert!(bench.listener.accepts());
        let handshake = bench.established(1, n, ack_of(&syn_acks[usize::from(n)]));
        bench.listener.queue(connections.insert(handshake.tuple, ()).unwrap());
    }
    assert!(!bench.listener.accepts());
    assert_eq!(bench.input(1, 2, ack_of(&syn_acks[2])), Reaction::Drop);
    assert_eq!(bench.input(1, 4, plain_syn()), Reaction::Drop);
    assert_eq!((bench.count(Counter::ListenOverflows), bench.count(Counter::ListenDrops)), (2, 2));
    // The first connection is accepted first; the dropped one succeeds when it tries again.
    assert_eq!(bench.listener.accept().and_then(|id| connections.tuple(id).copied()), Some(tuple(0)));
    assert!(bench.listener.accepts());
    assert!(
        bench.listener.poll_transmit(at(1_000), &mut bench.counters).is_some(),
        "the SYN-ACK is sent again"
    );
    bench.established(1_001, 2, ack_of(&syn_acks[2]));
    assert_eq!(bench.listener.accept_queue_len(), 1);
}

#[test]
fn without_cookies_a_full_syn_queue_accepts_no_more_until_a_handshake_is_over() {
    let config = ListenerConfig { syn_queue: 2, syn_cookies: false, ..ListenerConfig::default() };
    let mut bench = Bench::new(config);
    assert!(bench.listener.accepts());
    let syn_acks: Vec<_> = (0..2).map(|n| bench.answer(0, n, plain_syn())).collect();
    assert!(!bench.listener.accepts());
    assert_eq!(bench.input(1, 2, plain_syn()), Reaction::Drop);
    assert_eq!(bench.count(Counter::ReqQFullDrop), 1);
    // That concerns only SYNs: the last ACK of a handshake frees a place.
    bench.established(1, 0, ack_of(&syn_acks[0]));
    assert!(bench.listener.accepts());
    bench.answer(2, 2, plain_syn());
    assert!(!bench.listener.accepts());
    // With cookies a SYN can always be answered.
    let mut bench = Bench::new(ListenerConfig { syn_cookies: true, ..config });
    let _ = [0, 1].map(|n| bench.answer(0, n, plain_syn()));
    assert!(bench.listener.accepts());
}

#[test]
fn cookies_are_used_only_when_the_syn_queue_is_full() {
    let mut bench = Bench::new(ListenerConfig { syn_queue: 10, ..ListenerConfig::default() });
    for n in 0..10 {
        bench.answer(0, n, plain_syn());
    }
    assert_eq!(bench.count(Counter::SyncookiesSent), 0);
    for n in 10..1_000 {
        bench.answer(0, n, plain_syn());
    }
    assert_eq!((bench.count(Counter::SyncookiesSent), bench.listener.syn_queue_len()), (990, 10));
    // Once there is room, no more cookies are given.
    bench.input(1, 3, reset_at(PEER_ISS + 1));
    bench.answer(2, 5_000, plain_syn());
    assert_eq!((bench.count(Counter::SyncookiesSent), bench.listener.syn_queue_len()), (990, 10));
}

#[test]
fn with_cookies_off_the_excess_is_dropped() {
    let mut bench = Bench::full(ListenerConfig { syn_cookies: false, ..ListenerConfig::default() });
    assert_eq!(bench.input(0, 0, plain_syn()), Reaction::Drop);
    assert_eq!((bench.count(Counter::ReqQFullDrop), bench.count(Counter::ListenDrops)), (1, 1));
}

#[test]
fn a_cookie_brings_everything_back_if_there_are_timestamps() {
    let mut bench = Bench::full(ListenerConfig::default());
    let syn_ack = bench.answer(5, 1, full_syn());
    assert!(syn_ack.flags.contains(Flags::ECE));
    assert_eq!((syn_ack.options.window_scale, syn_ack.options.sack_permitted), (Some(7), true));
    let agreed = bench.established(90, 1, ack_of(&syn_ack));
    let expected = Handshake {
        tuple: tuple(1),
        iss: syn_ack.seq,
        irs: PEER_ISS,
        peer_mss: 1_400,
        mss: MSS,
        window: 1_000,
        peer_window_scale: Some(9),
        sack_permitted: true,
        ts_recent: Some(510),
        ecn: true,
        sent_at: None,
        sent_again: 0,
    };
    assert_eq!(agreed, expected);
    assert_eq!(bench.count(Counter::SyncookiesRecv), 1);
}

#[test]
fn without_timestamps_a_cookie_offers_what_it_can_bring_back() {
    let mut bench = Bench::full(ListenerConfig::default());
    let mut syn = full_syn();
    syn.options.timestamps = None;
    let syn_ack = bench.answer(0, 0, syn);
    assert_eq!(syn_ack.options, Options { mss: Some(MSS), ..Options::default() });
    assert_eq!(syn_ack.flags, Flags::SYN | Flags::ACK);
    let agreed = bench.established(1, 0, ack_of(&syn_ack));
    assert_eq!((agreed.peer_mss, agreed.peer_window_scale, agreed.sack_permitted), (1_400, None, false));
}

#[test]
fn a_cookie_is_good_once_the_queue_is_no_longer_full_but_not_for_ever() {
    let mut bench = Bench::new(ListenerConfig { syn_queue: 1, ..ListenerConfig::default() });
    bench.answer(0, 0, plain_syn());
    let syn_ack = bench.answer(0, 2, plain_syn());
    bench.input(1, 0, reset_at(PEER_ISS + 1));
    bench.established(1, 2, ack_of(&syn_ack));
    // Its two minutes are over while others are still good. Two minutes after the last cookie, the listener
    // checks none: that costs nothing, and guessing is useless.
    bench.answer(2, 0, plain_syn());
    bench.answer(59_999, 4, plain_syn());
    assert_eq!(bench.input(120_000, 2, ack_of(&syn_ack)), Reaction::Nothing);
    assert_eq!(bench.count(Counter::SyncookiesFailed), 1);
    assert!(matches!(bench.input(179_999, 2, ack_of(&syn_ack)), Reaction::Send(_)));
    assert_eq!(bench.count(Counter::SyncookiesFailed), 1);
}

/// Only the first segment of a stream gives the peer's initial number. A reset in answer to the others would
/// end a connection whose first segment is late. Taking one of them for the first would begin the stream in
/// its middle.
#[test]
fn a_segment_that_overtakes_the_one_with_the_cookie_waits_for_it() {
    let mut bench = Bench::full(ListenerConfig::default());
    let syn_ack = bench.answer(0, 0, plain_syn());
    let first = ack_of(&syn_ack);
    for later in 1..10 {
        let overtaking = Header { seq: first.seq + later, ..first };
        assert_eq!(bench.input(1, 0, overtaking), Reaction::Nothing, "{later} bytes later");
    }
    bench.established(2, 0, first);
}

#[test]
fn a_cookie_is_good_though_the_syn_came_again_and_found_room() {
    let mut bench = Bench::new(ListenerConfig { syn_queue: 1, ..ListenerConfig::default() });
    bench.answer(0, 0, plain_syn());
    let with_cookie = bench.answer(0, 2, plain_syn());
    bench.input(1, 0, reset_at(PEER_ISS + 1));
    let again = bench.answer(1_000, 2, plain_syn());
    assert_ne!(with_cookie.seq, again.seq);
    assert_eq!(bench.input(1_001, 2, Header { ack: again.seq + 2, ..ack_of(&again) }), Reaction::Nothing);
    assert_eq!(bench.established(1_001, 2, ack_of(&with_cookie)).iss, with_cookie.seq);
    assert_eq!(bench.listener.syn_queue_len(), 0);
}

#[test]
fn a_cookie_waits_for_room_in_the_accept_queue_too() {
    let mut bench = Bench::full(ListenerConfig { backlog: 1, ..ListenerConfig::default() });
    let syn_ack = bench.answer(0, 0, plain_syn());
    let mut connections = Table::new(Secret::new([0; 16]), 10);
    bench.listener.queue(connections.insert(tuple(2), ()).unwrap());
    assert_eq!(bench.input(1, 0, ack_of(&syn_ack)), Reaction::Drop);
    bench.listener.accept();
    bench.established(2, 0, ack_of(&syn_ack));
}

// --- Fast Open ---

fn fast_syn(cookie: Cookie) -> Header {
    Header { options: Options { fast_open: Some(cookie), ..full_syn().options }, ..full_syn() }
}

#[test]
fn whoever_asks_gets_a_cookie_and_may_then_send_data_at_once() {
    let mut bench = Bench::with_fast_open(5);
    let syn_ack = bench.answer(0, 0, fast_syn(Cookie::REQUEST));
    let cookie = syn_ack.options.fast_open.unwrap();
    assert_eq!(
        bench.listener.fast_open().unwrap().cookie(&tuple(0).remote.addr, &tuple(0).local.addr),
        cookie
    );
    let (_, again) = bench.listener.poll_transmit(at(1_000), &mut bench.counters).unwrap();
    assert_eq!(again.options.fast_open, Some(cookie), "in the second SYN-ACK, too");
    let (_, again) = bench.listener.poll_transmit(at(3_000), &mut bench.counters).unwrap();
    assert_eq!(again.options.fast_open, None, "something on the path may not let it pass");
    bench.established(3_001, 0, ack_of(&syn_ack));
    let reaction = bench.input_with(4_000, 0, fast_syn(cookie), b"GET /", None);
    let Reaction::FastOpen(agreed, None) = reaction else { panic!("{reaction:?}") };
    assert_eq!((agreed.iss, agreed.irs), (numbers().next(&tuple(0), at(4_000), None), PEER_ISS));
    assert_eq!((agreed.peer_window_scale, agreed.ts_recent, agreed.ecn), (Some(9), Some(500), true));
    assert_eq!((bench.count(Counter::FastOpenCookieReqd), bench.count(Counter::FastOpenPassive)), (1, 1));
}

#[test]
fn a_wrong_cookie_or_too_many_waiting_means_an_ordinary_handshake() {
    let mut bench = Bench::with_fast_open(1);
    let good = bench.answer(0, 0, fast_syn(Cookie::REQUEST)).options.fast_open.unwrap();
    // The cookie belongs to another client: the right one comes with the SYN-ACK.
    let syn_ack = bench.answer(0, 2, fast_syn(good));
    let cookie = syn_ack.options.fast_open.unwrap();
    assert_ne!(cookie, good);
    assert!(matches!(bench.input(0, 2, reset_at(PEER_ISS + 1)), Reaction::Nothing));
    assert!(matches!(bench.input(1, 2, fast_syn(cookie)), Reaction::FastOpen(..)));
    // The next client has to wait for its handshake, and needs no cookie.
    let other = bench.answer(1, 4, fast_syn(Cookie::REQUEST)).options.fast_open.unwrap();
    bench.input(1, 4, reset_at(PEER_ISS + 1));
    assert_eq!(bench.answer(1, 4, fast_syn(other)).options.fast_open, None);
    assert_eq!(bench.count(Counter::FastOpenListenOverflow), 1);
}

#[test]
fn a_cookie_of_the_key_before_is_good_and_replaced() {
    let mut bench = Bench::with_fast_open(5);
    let old = bench.answer(0, 0, fast_syn(Cookie::REQUEST)).options.fast_open.unwrap();
    bench.input(1, 0, reset_at(PEER_ISS + 1));
    bench.listener.fast_open().unwrap().rotate(Secret::new([4; 16]));
    let Reaction::FastOpen(_, Some(new)) = bench.input(2, 0, fast_syn(old)) else { panic!() };
    assert_ne!(new, old);
    assert_eq!(bench.count(Counter::FastOpenPassiveAltKey), 1);
}

#[test]
fn a_full_accept_queue_refuses_data_in_syns_too() {
    let mut bench = Bench::with_fast_open(5);
    let cookie = bench.answer(0, 0, fast_syn(Cookie::REQUEST)).options.fast_open.unwrap();
    bench.input(1, 0, reset_at(PEER_ISS + 1));
    bench.listener.config.backlog = 0;
    assert_eq!(bench.input(2, 0, fast_syn(cookie)), Reaction::Drop);
}

#[test]
fn where_fast_open_is_off_nobody_gets_a_cookie() {
    let mut bench = Bench::new(ListenerConfig::default());
    assert_eq!(bench.answer(0, 0, fast_syn(Cookie::REQUEST)).options.fast_open, None);
}

// --- Hostile input ---

/// Draws any header. Sequence numbers are near those in use, because otherwise nearly all would be outside
/// the window.
fn any_header() -> impl Strategy<Value = Header> {
    let number = prop_oneof![Just(0_u32), any::<u32>(), 0..70_000_u32].prop_map(|n| PEER_ISS + n);
    let flags = prop_oneof![
        3 => Just(Flags::SYN),
        3 => Just(Flags::ACK),
        1 => Just(Flags::RST),
        2 => any::<u8>().prop_map(flags),
    ];
    let timestamps = prop::option::of((0..2_000_u32, any::<u32>()))
        .prop_map(|t| t.map(|(value, echo)| Timestamps { value, echo }));
    (number.clone(), number, flags, any::<(u16, Option<u16>, Option<u8>, bool)>(), timestamps).prop_map(
        |(seq, ack, flags, (window, mss, window_scale, sack_permitted), timestamps)| {
            let options = Options { mss, window_scale, sack_permitted, timestamps, ..Options::default() };
            Header { seq, ack, flags, window, options, ..Header::default() }
        },
    )
}

#[derive(Debug, Clone)]
enum Step {
    /// An attacker that does not see the answers.
    Blind(u16, Header, u8),
    /// A peer that answers its last SYN-ACK, if it got one.
    Honest(u16),
    Pass(u64),
    Accept,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..12_u16, any_header(), 0..5_u8).prop_map(|(n, header, len)| Step::Blind(n, header, len)),
        3 => (0..12_u16).prop_map(Step::Honest),
        2 => prop_oneof![0..2_000_u64, Just(70_000)].prop_map(Step::Pass),
        1 => Just(Step::Accept),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// For any input, the bounds hold, and a connection is established only by a peer that acknowledges a
    /// sent SYN-ACK, with its numbers. In the end nothing is left.
    #[test]
    fn strangers_establish_nothing(
        steps in prop::collection::vec(step(), 1..120),
        syn_queue in 0..6_usize,
        backlog in 1..4_usize,
    ) {
        let mut bench = Bench::new(ListenerConfig { syn_queue, backlog, ..ListenerConfig::default() });
        let mut connections = Table::new(Secret::new([0; 16]), 1_000);
        let mut sent = std::collections::BTreeMap::<u16, Vec<Header>>::new();
        let mut now = 0;
        for step in steps {
            let (n, header, payload) = match step {
                Step::Blind(n, header, payload) => (n, header, payload),
                Step::Honest(n) => match sent.get(&n).and_then(|all| all.last()) {
                    Some(syn_ack) => (n, Header { seq: syn_ack.ack, ..ack_of(syn_ack) }, 0),
                    None => (n, full_syn(), 0),
                },
                Step::Pass(by) => {
                    now += by;
                    while let Some((to, again)) = bench.listener.poll_transmit(at(now), &mut bench.counters) {
                        let n = (0..12).find(|&n| tuple(n) == to).unwrap();
                        let known = |first: &Header| (first.seq, first.ack) == (again.seq, again.ack);
                        prop_assert!(sent[&n].iter().any(known));
                    }
                    prop_assert!(bench.listener.next_deadline().is_none_or(|deadline| deadline > at(now)));
                    continue;
                }
                Step::Accept => {
                    bench.listener.accept();
                    continue;
                }
            };
            let was_full = !bench.listener.has_room();
            match bench.input_with(now, n, header, &[7; 4][..usize::from(payload.min(4))], None) {
                Reaction::Send(reply) | Reaction::Open(reply) | Reaction::SendAgain(reply) => {
                    if reply.flags.contains(Flags::SYN) {
                        sent.entry(n).or_default().push(reply);
                    } else {
                        prop_assert!(!header.flags.contains(Flags::RST) || reply.flags == Flags::ACK);
                    }
                }
                Reaction::Establish(handshake) => {
                    prop_assert!(!was_full);
                    let numbers = (handshake.iss, handshake.irs + 1);
                    let known = |syn_ack: &Header| (syn_ack.seq, syn_ack.ack) == numbers;
                    prop_assert!(sent.get(&n).is_some_and(|all| all.iter().any(known)));
                    prop_assert_eq!(header.ack, handshake.iss + 1);
                    if let Ok(id) = connections.insert(handshake.tuple, ()) {
                        bench.listener.queue(id);
                    }
                }
                Reaction::FastOpen(..) => prop_assert!(false, "Fast Open is off"),
                Reaction::Nothing | Reaction::Drop => {}
            }
            prop_assert!(bench.listener.syn_queue_len() <= syn_queue);
            prop_assert!(bench.listener.accept_queue_len() <= backlog);
        }
        // At most five more SYN-ACKs are sent, and all connections without an answer are given up.
        let mut rounds = 0;
        while let Some(deadline) = bench.listener.next_deadline() {
            let mut sent = 0;
            while bench.listener.poll_transmit(deadline.max(at(now)), &mut bench.counters).is_some() {
                sent += 1;
            }
            prop_assert!(sent <= syn_queue);
            rounds += 1;
            prop_assert!(rounds <= 6 * syn_queue.max(1));
        }
        prop_assert_eq!(bench.listener.syn_queue_len(), 0);
    }
}

// --- Under pressure ---

/// RFC 5961, 3.2: a peer that has restarted gets an answer at once, and need not wait for its timer.
#[test]
fn the_first_challenge_is_answered_however_soon_after_the_syn_ack() {
    let mut bench = Bench::new(ListenerConfig::default());
    bench.answer(0, 0, plain_syn());
    let reset = Header { seq: PEER_ISS + 5, flags: Flags::RST, ..Header::default() };
    let challenge = bench.answer(1, 0, reset);
    assert_eq!((challenge.flags, challenge.ack), (Flags::ACK, PEER_ISS + 1));
    assert_eq!(bench.input(2, 0, reset), Reaction::Nothing);
    assert_eq!((bench.count(Counter::ChallengeAck), bench.count(Counter::AckSkippedSynRecv)), (1, 1));
    // A challenge does not delay the SYN-ACK for a peer that repeats its SYN.
    assert_eq!(bench.input(499, 0, plain_syn()), Reaction::Nothing);
    assert_eq!(bench.answer(500, 0, plain_syn()).flags, Flags::SYN | Flags::ACK);
}

/// Inputs the SYN with which the old connection's peer begins a new one. TIME-WAIT answered that our number
/// has to follow `previous`.
fn follow(bench: &mut Bench, previous: SeqNumber, syn: Header) -> Reaction {
    bench.input_with(0, 0, syn, b"", Some(previous))
}

#[test]
fn a_cookie_serves_a_syn_that_follows_time_wait_if_both_have_timestamps() {
    for previous in [0, 0x4000_0000, 0x8000_0000, 0xc000_0000].map(SeqNumber::new) {
        let mut bench = Bench::full(ListenerConfig::default());
        let Reaction::Send(syn_ack) = follow(&mut bench, previous, full_syn()) else { panic!() };
        assert_eq!(bench.count(Counter::SyncookiesSent), 1);
        let handshake = bench.established(10, 0, ack_of(&syn_ack));
        assert_eq!((handshake.iss, handshake.irs), (syn_ack.seq, PEER_ISS));
    }
}

#[test]
fn without_timestamps_a_cookie_that_does_not_follow_the_old_number_is_not_given() {
    let mut bench = Bench::full(ListenerConfig::default());
    let Reaction::Send(cookie) = bench.input(0, 0, plain_syn()) else { panic!() };
    assert!(matches!(follow(&mut bench, cookie.seq - 1, plain_syn()), Reaction::Send(_)));
    assert_eq!(follow(&mut bench, cookie.seq, plain_syn()), Reaction::Drop);
    assert_eq!((bench.count(Counter::ReqQFullDrop), bench.count(Counter::ListenDrops)), (1, 1));
}

/// The half-open connection with the least chance of completion makes room for a peer that was connected
/// before.
#[test]
fn without_timestamps_the_oldest_makes_way_for_who_follows_time_wait() {
    let config = ListenerConfig { syn_queue: 3, ..ListenerConfig::default() };
    let mut bench = Bench::new(config);
    for n in 1..=2 {
        bench.answer(u64::from(n), n, plain_syn());
    }
    // The second has had its SYN-ACK twice, the others once.
    bench.answer(600, 2, plain_syn());
    bench.answer(700, 3, plain_syn());
    let cookie = bench.answer(700, 0, plain_syn());
    let previous = cookie.seq + 7;
    let Reaction::Open(syn_ack) = bench.input_with(700, 0, plain_syn(), b"", Some(previous)) else {
        panic!()
    };
    assert!(syn_ack.seq.after(previous));
    assert_eq!((bench.listener.syn_queue_len(), bench.count(Counter::AttemptFails)), (3, 1));
    bench.established(710, 0, ack_of(&syn_ack));
    // The connections that stayed are still there; by retries the second was the first to go.
    assert_eq!(bench.answer(1_200, 1, plain_syn()).flags, Flags::SYN | Flags::ACK);
    assert_eq!(bench.answer(1_200, 3, plain_syn()).flags, Flags::SYN | Flags::ACK);
    assert_eq!(bench.listener.syn_queue_len(), 2);
}

/// Floods a listener with this many SYNs a second from peers that never answer, for this many seconds.
/// Returns the greatest length of the SYN queue, and the time at which the last were given up.
fn flood(per_second: u64, seconds: u64) -> (usize, u64) {
    let mut bench = Bench::new(ListenerConfig::default());
    let mut fullest = 0;
    for n in 0..per_second * seconds {
        let now = n * 1_000 / per_second;
        while bench.listener.poll_transmit(at(now), &mut bench.counters).is_some() {}
        bench.input(now, n as u16, plain_syn());
        fullest = fullest.max(bench.listener.syn_queue_len());
    }
    while let Some(next) = bench.listener.next_deadline() {
        while bench.listener.poll_transmit(next, &mut bench.counters).is_some() {}
        if bench.listener.syn_queue_len() == 0 {
            return (fullest, next.as_nanos() / 1_000_000_000 - seconds);
        }
    }
    (fullest, 0)
}

#[test]
fn a_slow_flood_never_fills_the_syn_queue_and_a_fast_one_holds_each_place_for_seconds() {
    // With less than half of the queue in use, no connection is given up early.
    assert_eq!(flood(30, 100), (30 * 63, 62));
    let (fullest, _) = flood(100, 100);
    assert!((2_048..3_500).contains(&fullest), "{fullest} of 4096, and none beyond");
    let (fullest, _) = flood(400, 60);
    assert!((2_048..3_500).contains(&fullest), "{fullest}");
    // 4096 places are taken within two tenths of a second, and most are free again after seven seconds.
    let mut bench = Bench::new(ListenerConfig::default());
    for n in 0..4_096 {
        bench.answer(u64::from(n) / 20, n, plain_syn());
    }
    for now in 1..=7_300 {
        while bench.listener.poll_transmit(at(now), &mut bench.counters).is_some() {}
    }
    assert!(bench.listener.syn_queue_len() <= 2_048, "{}", bench.listener.syn_queue_len());
}

// --- What the listener tells ---

#[test]
fn a_connection_that_is_gone_does_not_count_as_one_that_waits() {
    let mut bench = Bench::new(ListenerConfig::default());
    let mut table = Table::new(Secret::new([4; 16]), 16);
    let ids: Vec<_> = (0..5).map(|n| table.insert(tuple(n), n).unwrap()).collect();
    for id in &ids {
        bench.listener.queue(*id);
    }
    bench.listener.withdraw(|id| id != ids[0]);
    assert_eq!(bench.listener.accept_queue_len(), 4);
    assert_eq!(bench.listener.accept(), Some(ids[0]), "too few are gone to look for them");
    bench.listener.on_withdrawn_accepted();
    assert_eq!(bench.listener.accept_queue_len(), 4);
}

#[test]
fn challenges_are_answered_twice_a_second() {
    let mut bench = Bench::new(ListenerConfig::default());
    bench.answer(0, 0, plain_syn());
    let reset = Header { seq: PEER_ISS + 5, flags: Flags::RST, ..Header::default() };
    bench.answer(100, 0, reset);
    assert_eq!(bench.input(599, 0, reset), Reaction::Nothing);
    bench.answer(600, 0, reset);
}

/// RFC 9293, 3.4: the end of a segment may be in the window although its beginning was received before.
#[test]
fn data_that_begin_before_the_window_and_end_in_it_are_acceptable() {
    let mut bench = Bench::new(ListenerConfig::default());
    let syn_ack = bench.answer(0, 0, plain_syn());
    let begins = |before: u32| Header { seq: PEER_ISS + 1 - before, ..ack_of(&syn_ack) };
    let reaction = bench.input_with(10, 0, begins(5), b"01234", None);
    assert!(!matches!(reaction, Reaction::Establish(_)), "all of it is before the window: {reaction:?}");
    let reaction = bench.input_with(20, 0, begins(5), b"012345", None);
    assert!(matches!(reaction, Reaction::Establish(_)), "{reaction:?}");
}
