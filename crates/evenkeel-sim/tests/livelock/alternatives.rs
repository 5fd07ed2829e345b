//! Policies that the paper names in addition to its own mechanisms: sampling at clock ticks (section 5.1),
//! real-time tasks behind handlers that only set a flag, and scheduling by the length of queues (section
//! 10). The class of behaviour of each is in `classes`.

use evenkeel_core::Scheduling;
use evenkeel_core::host::Config;
use evenkeel_core::poll::{Feedback, FeedbackBy, TaskWeights, TickSampling};
use evenkeel_core::process::ProcessId;
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::SocketId;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_sim::workload::{Sink, Spinner};

use crate::rig::{HungScreend, Rig, SCREEN_PKTS, START, TICK, Way, feedback, of, output, polled};

/// Returns a kernel with a limiter of interrupts that samples at clock ticks. A pause lets `screend` empty
/// the IP queue and the queue behind it.
pub(crate) fn sampled(pause_ticks: u32) -> Config {
    let sampling = TickSampling { tick: TICK, samples: 2, pause_ticks };
    of(Architecture::Eager).with_paper_policies(|a| {
        a.limit_interrupts = true;
        a.tick_sampling = Some(sampling);
    })
}

/// Returns a kernel with Mogul and Ramakrishnan's interrupt-rate limiter.
pub(crate) fn interrupts_limited(feedback: Option<Feedback>) -> Config {
    Config { feedback, ..of(Architecture::Eager) }.with_paper_policies(|a| a.limit_interrupts = true)
}

pub(crate) fn tasks(receive: u16, transmit: u16) -> Config {
    polled().with_paper_policies(|a| a.real_time_tasks = Some(TaskWeights { receive, transmit }))
}

pub(crate) fn by_length() -> Config {
    Config { feedback: feedback().map(|f| Feedback { by: FeedbackBy::Length, ..f }), ..polled() }
}

/// Returns the share of the core that a computing process gets during a flood that is forwarded.
fn spinner_share(config: &Config, rate: u64) -> f64 {
    let mut rig = Rig::new(config.clone());
    let spinner = rig.spawn("spinner", Spinner);
    rig.load(Way::Out, rate, START, Instant::NEVER);
    rig.world.run_until(START + Duration::from_millis(500));
    let before = used(&rig, spinner);
    rig.world.run_until(START + Duration::from_millis(2_500));
    (used(&rig, spinner) - before).div_duration_f64(Duration::from_secs(2))
}

/// Returns the CPU time that a process has used.
fn used(rig: &Rig, process: ProcessId) -> Duration {
    rig.host().bill(process).expect("it goes on for ever").used
}

#[test]
fn without_a_cycle_counter_a_process_gets_the_ticks_of_the_pauses() {
    assert!(spinner_share(&polled(), 12_000) < 0.01, "without a limit it starves");
    for (samples, pause_ticks) in [(4, 4), (4, 12), (8, 2)] {
        let sampling = TickSampling { tick: TICK, samples, pause_ticks };
        let config = polled().with_paper_policies(|a| a.tick_sampling = Some(sampling));
        let share = |ticks: u32| f64::from(ticks) / f64::from(samples + pause_ticks);
        for rate in [8_000, 14_880] {
            let spinner = spinner_share(&config, rate);
            // In the first tick of a pause, and a little of the next, the transmit side continues: it has
            // packets that were received before.
            let expected = share(pause_ticks - 1) - 0.02..=share(pause_ticks);
            assert!(expected.contains(&spinner), "{samples}, {pause_ticks} at {rate}: {spinner}");
        }
    }
}

#[test]
fn samples_pause_next_to_nothing_at_a_load_that_leaves_a_process_time() {
    let sampling = TickSampling { tick: TICK, samples: 4, pause_ticks: 4 };
    let mut rig = Rig::new(polled().with_paper_policies(|a| a.tick_sampling = Some(sampling)));
    rig.spawn("spinner", Spinner);
    rig.load(Way::Out, 500, START, Instant::NEVER);
    let m = rig.measure(START + Duration::from_millis(500), START + Duration::from_millis(2_500));
    assert!(m.ring == 0 && m.offered.abs_diff(m.out) < 5, "{m:?}");
    // One tick in seven finds the core at packets, and four in a row do so once in two seconds.
    assert!(rig.host().resumes().period < 20, "{:?}", rig.host().resumes());
}

#[test]
fn a_handler_that_only_sets_a_flag_runs_for_every_frame_even_one_that_the_ring_sheds() {
    let mut rig = Rig::with_transmit_ring(tasks(1, 1), None);
    rig.load(Way::Out, 12_000, START, Instant::NEVER);
    let m = rig.measure(START + Duration::from_millis(500), START + Duration::from_millis(1_500));
    assert!(m.ring > 6_000, "{m:?}");
    // Packets that arrive while one is being handled share the next interrupt.
    assert!(m.interrupts <= m.offered && m.interrupts * 10 > m.offered * 8, "{m:?}");
}

#[test]
fn flags_livelock_only_when_frames_are_closer_than_a_handler_takes() {
    let peak = output(&tasks(1, 1), false, 5_000).out;
    let at_most = output(&tasks(1, 1), false, 14_880).out;
    // At the highest rate of the Ethernet, a sixth of the core goes to handlers.
    assert!(at_most * 100 > peak * 80, "{at_most} of {peak}");
    // Ten packets arrive in the time of a handler.
    let livelocked = output(&tasks(1, 1), false, 800_000).out;
    assert!(livelocked < 10, "{livelocked}");
}

#[test]
fn a_transmit_side_of_too_little_weight_lets_frames_die_in_the_output_queue() {
    let (even, uneven) = (output(&tasks(1, 1), false, 8_000), output(&tasks(16, 1), false, 8_000));
    assert_eq!(even.output, 0, "{even:?}");
    assert!(uneven.output > 1_000 && uneven.out * 2 < even.out, "{uneven:?}");
}

#[test]
fn by_length_screening_keeps_its_peak_and_the_queue_its_room() {
    for rate in [4_000, 8_000, 14_880] {
        let m = output(&by_length(), true, rate);
        assert!(m.out > 2_500, "{rate}: {m:?}");
        // The queue never refuses a packet, because it never becomes full.
        assert_eq!((m.screen, m.ip_queue, m.output), (0, 0, 0), "{rate}: {m:?}");
    }
}

#[test]
fn by_length_a_hung_consumer_leaves_the_others_a_packet_in_each_period() {
    let mut rig = Rig::new(by_length());
    rig.spawn("screend", HungScreend);
    let (sink, received) = Sink::new(5_000, Duration::ZERO);
    rig.spawn("sink", sink);
    rig.load(Way::Out, 3_000, START, Instant::NEVER);
    rig.load(Way::ToPort(5_000), 2_000, START, Instant::NEVER);
    rig.world.run_until(START + Duration::from_millis(100));
    let (taken, got) = (rig.host().ledger().received, received.get());
    rig.world.run_until(START + Duration::from_millis(1_100));
    let ticks = Duration::from_secs(1).div_duration_f64(TICK);
    let (taken, got) = (rig.host().ledger().received - taken, received.get() - got);
    assert!(taken as f64 > ticks * 0.95, "{taken} in {ticks} periods");
    // Two packets in five are not for the hung program.
    assert!(got as f64 > ticks * 0.3, "{got} in {ticks} periods");
    assert!(rig.host().waiting_in(SocketId(0)).expect("it is open") <= SCREEN_PKTS);
}

#[test]
fn by_length_whoever_reads_a_full_queue_gets_more_than_one_that_computes() {
    let shares = |config: Config| {
        let mut rig = Rig::new(Config { scheduler: Scheduling::Stride, ..config });
        let (server, _) = Sink::new(2_049, Duration::from_micros(500));
        let server = rig.spawn("server", server);
        let spinner = rig.spawn("spinner", Spinner);
        rig.load(Way::ToPort(2_049), 8_000, START, Instant::NEVER);
        rig.world.run_until(START + Duration::from_secs(2));
        used(&rig, server).div_duration_f64(used(&rig, spinner))
    };
    let (by_marks, by_length) = (shares(Config { feedback: feedback(), ..polled() }), shares(by_length()));
    assert!((0.8..=1.1).contains(&by_marks), "equal shares: {by_marks}");
    assert!(by_length > 1.5, "{by_length}");
}
