//! The cycle limit (section 7), and its effect on the first packet of a flood (section 8.3).

use evenkeel_core::host::Config;
use evenkeel_core::poll::CycleLimit;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_sim::workload::{Recorder, Spinner};

use crate::rig::{Rig, START, Way, polled};

fn limited(period_ms: u64, percent: u8) -> Config {
    let limit = CycleLimit { period: Duration::from_millis(period_ms), percent };
    Config { cycle_limit: Some(limit), socket_queue_pkts: 1_000, ..polled() }
}

#[test]
fn an_idle_router_never_waits_for_the_period() {
    // This is a tenth of a packet's time in a second.
    let config =
        Config { cycle_limit: Some(CycleLimit { period: Duration::from_secs(1), percent: 0 }), ..polled() };
    let mut rig = Rig::new(config);
    let (recorder, log) = Recorder::new(7);
    rig.spawn("recorder", recorder);
    rig.send(Way::ToPort(7), 100, evenkeel_sim::traffic::Pattern::Constant, START, Instant::NEVER);
    rig.world.run_until(START + Duration::from_secs(3));
    let log = log.take();
    assert!(log.len() >= 300, "{}", log.len());
    for (n, delivery) in log.iter().enumerate() {
        let sent = START + Duration::from_millis(10) * n as u32;
        assert!(delivery.at.since(sent) < Duration::from_millis(1), "{n}: {:?}", delivery.at.since(sent));
    }
    assert!(rig.host().resumes().idle > 100, "{:?}", rig.host().resumes());
}

/// Measures the time that the first packet of a flood takes to its program. The flood begins `after` the
/// start.
fn first_packet(config: &Config, after: Duration) -> Option<Duration> {
    let mut rig = Rig::new(config.clone());
    let (recorder, log) = Recorder::new(7);
    rig.spawn("recorder", recorder);
    rig.spawn("spinner", Spinner);
    let start = START + after;
    // Some packets come before the flood.
    rig.load(Way::ToPort(7), 150, START, start);
    rig.load(Way::ToPort(7), 14_000, start, Instant::NEVER);
    rig.world.run_until(start);
    let _ = log.take();
    rig.world.run_until(start + Duration::from_millis(100));
    let before = |delivery: &&evenkeel_sim::workload::Delivery| delivery.at > start;
    log.take().iter().find(before).map(|delivery| delivery.at.since(start))
}

#[test]
fn the_first_packet_of_a_flood_reaches_its_program_within_the_limit() {
    for (percent, ms) in [(30, 3), (50, 5)] {
        for after in [100, 103, 107, 111, 119] {
            let latency = first_packet(&limited(10, percent), Duration::from_millis(after));
            let latency = latency.expect("it arrives");
            // The bound is the budget of the current period, and at most that of the next if this one ends
            // meanwhile.
            let bound = Duration::from_millis(2 * ms) + Duration::from_millis(2);
            assert!(latency <= bound, "{percent} %, {after} ms: {latency:?}");
        }
    }
    let config = Config { socket_queue_pkts: 1_000, ..polled() };
    let unlimited = first_packet(&config, Duration::from_millis(100));
    assert!(
        unlimited.is_none_or(|l| l > Duration::from_millis(50)),
        "without a limit it starves: {unlimited:?}"
    );
}
