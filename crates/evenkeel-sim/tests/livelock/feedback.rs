//! Tests of feedback from full queues (sections 6.6.1 and 9).

use evenkeel_core::capture::Capture;
use evenkeel_core::host::Config;
use evenkeel_core::poll::{Feedback, FeedbackBy, FeedbackScope, Inhibition, Quota};
use evenkeel_core::socket::SocketId;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_sim::daemons::{Tcpdump, Writing};
use evenkeel_sim::workload::Sink;

use crate::rig::{HungScreend, Rig, SCREEN_PKTS, START, TICK, Way, feedback, output, polled};

fn with_feedback() -> Config {
    Config { quota: Quota::Fixed(10), feedback: feedback(), ..polled() }
}

#[test]
fn with_feedback_packets_die_in_the_ring() {
    for rate in [4_000, 8_000, 14_880] {
        let m = output(&with_feedback(), true, rate);
        assert!(m.out > 2_500, "{rate}: {m:?}");
        // A few may after timeouts.
        assert!(m.screen <= m.timeouts && m.screen * 20 < m.ring, "{rate}: {m:?}");
        assert_eq!((m.ip_queue, m.output), (0, 0), "{rate}: {m:?}");
    }
    let without = output(&polled(), true, 8_000);
    assert!(without.out < 100 && without.screen > 3_000, "{without:?}");
}

#[test]
fn a_hung_screening_process_blocks_nobody_for_longer_than_a_tick() {
    for inhibition in [Inhibition::AtOnce, Inhibition::AfterCallback] {
        let mut rig = Rig::new(with_feedback().with_paper_policies(|a| a.inhibition = inhibition));
        rig.spawn("screend", HungScreend);
        let (sink, received) = Sink::new(5_000, Duration::ZERO);
        rig.spawn("sink", sink);
        rig.load(Way::Out, 3_000, START, Instant::NEVER);
        rig.load(Way::ToPort(5_000), 2_000, START, Instant::NEVER);
        rig.world.run_until(START + Duration::from_millis(100));
        let (mut now, mut silent, before) = (rig.world.now(), 0, received.get());
        let taken_before = rig.host().ledger().received;
        for _ in 0..500 {
            let taken = rig.host().ledger().received;
            // This is a tick of inhibition, and the time to process the earlier packets.
            now += TICK + Duration::from_micros(600);
            rig.world.run_until(now);
            silent += u32::from(rig.host().ledger().received == taken);
            // This is the first descriptor of the host.
            let waiting = rig.host().waiting_in(SocketId(0)).expect("it is open");
            assert!(waiting <= SCREEN_PKTS, "{waiting}");
        }
        assert_eq!(silent, 0, "{inhibition:?}: an inhibition of more than a tick");
        let ticks = now.since(START + Duration::from_millis(100)).div_duration_f64(TICK);
        let got = received.get() - before;
        assert!(got as f64 >= ticks, "{inhibition:?}: {got} datagrams in {ticks} ticks");
        assert!(rig.host().ledger().received - taken_before < 5_000);
    }
}

#[test]
fn with_a_long_timeout_input_resumes_every_sixteen_packets() {
    let timeout = Duration::from_millis(200);
    let (mut rig, passed) =
        Rig::new(Config { feedback: feedback().map(|f| Feedback { timeout, ..f }), ..with_feedback() })
            .screen();
    rig.load(Way::Out, 8_000, START, Instant::NEVER);
    rig.world.run_until(START + Duration::from_millis(500));
    let before = passed.get();
    let m = rig.measure(START + Duration::from_millis(500), START + Duration::from_millis(2_500));
    let screened = passed.get() - before;
    assert_eq!(m.timeouts, 0);
    // The queue drains from the high mark of 24 to the low mark of 8.
    let between = screened as f64 / m.low_marks as f64;
    assert!((15.9..=17.5).contains(&between), "{screened} packets, {} resumes", m.low_marks);
}

#[test]
fn with_a_timeout_of_a_tick_it_resumes_at_every_tick() {
    let (mut rig, _) = Rig::new(with_feedback()).screen();
    rig.load(Way::Out, 8_000, START, Instant::NEVER);
    let m = rig.measure(START + Duration::from_millis(500), START + Duration::from_millis(2_500));
    // Sixteen packets take more than three milliseconds, so the low mark is never reached.
    assert_eq!(m.low_marks, 0, "{m:?}");
    let apart = Duration::from_secs(2).div_duration_f64(TICK) / m.timeouts as f64;
    assert!((1.0..=2.5).contains(&apart), "{apart} ticks from one to the next");
}

/// Feedback for a queue of 32: input stops when fewer than eight slots are free.
const MONITORING: Feedback = Feedback {
    high_percent: 79,
    low_percent: 25,
    timeout: Duration::from_millis(1),
    resume_on_space: true,
    scope: FeedbackScope::Feeding,
    discard_percent: 25,
    by: FeedbackBy::Marks,
};

/// Returns the number of packets with `payload` bytes that a monitor captures in two seconds of a flood.
fn captured(feedback: Option<Feedback>, payload_bytes: usize) -> u64 {
    let config = Config { feedback, quota: Quota::Fixed(10), listen_only: true, ..polled() };
    let mut rig = Rig::new(config.with_paper_policies(|a| a.inhibition = Inhibition::AfterCallback));
    rig.payload_bytes = payload_bytes;
    let wanted = Capture { limit_pkts: 32, snaplen: 68, ..Capture::default() };
    let writing = Writing { frame: Duration::from_micros(40), buffer_pkts: u64::MAX, flush: Duration::ZERO };
    let (tcpdump, captured) = Tcpdump::new(wanted, writing);
    rig.spawn("tcpdump", tcpdump);
    rig.load(Way::Out, 14_000, START, Instant::NEVER);
    rig.world.run_until(START + Duration::from_secs(2));
    captured.get()
}

#[test]
fn a_monitor_captures_as_many_packets_whatever_their_size() {
    let [small, large] = [8, 1_400].map(|payload_bytes| captured(Some(MONITORING), payload_bytes));
    assert_eq!(small, large);
}

#[test]
fn a_monitor_captures_in_overload_whatever_lets_input_resume() {
    let none = captured(None, 8);
    let timeout_only = captured(Some(Feedback { resume_on_space: false, ..MONITORING }), 8);
    let on_space = captured(Some(MONITORING), 8);
    assert!(timeout_only > none * 3, "{timeout_only} with feedback, {none} without");
    // Resuming on space makes hardly any difference, because a read empties the queue.
    assert!(on_space * 10 >= timeout_only * 9, "{on_space} on space, {timeout_only} by the timeout");
}

#[test]
fn a_server_makes_progress_if_its_queue_gives_feedback() {
    let served = |feedback| {
        let mut rig = Rig::new(Config { feedback, socket_queue_pkts: 32, ..polled() });
        let (server, served) = Sink::new(2_049, Duration::from_micros(500));
        rig.spawn("server", server);
        rig.load(Way::ToPort(2_049), 12_000, START, Instant::NEVER);
        rig.world.run_until(START + Duration::from_secs(1));
        served.get()
    };
    let (with, without) = (served(feedback()), served(None));
    assert!(without < 20, "{without}");
    assert!(with > 800, "{with}");
}
