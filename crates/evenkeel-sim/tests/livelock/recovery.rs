//! Tests that a host recovers as soon as a flood ends, and that an idle system costs nothing.

use evenkeel_core::host::Config;
use evenkeel_core::poll::{CycleLimit, Quota};
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::time::{Duration, Instant};

use crate::alternatives::{by_length, interrupts_limited, sampled, tasks};
use crate::rig::{Rig, START, Way, feedback, of, polled};

/// Returns a configuration for every way of receiving packets, each with the flag whether a process
/// screens.
fn every_config() -> Vec<(Config, bool)> {
    let limit = CycleLimit { period: Duration::from_millis(10), percent: 50 };
    let fed_back = Config { feedback: feedback(), ..polled() };
    vec![
        (of(Architecture::Eager), false),
        (of(Architecture::Eager), true),
        (interrupts_limited(feedback()), true),
        (of(Architecture::EarlyDemux), true),
        (polled(), false),
        (Config { quota: Quota::Unlimited, ..polled() }, false),
        (Config { quota: Quota::Dynamic, ..polled() }, false),
        (fed_back.clone(), true),
        (Config { cycle_limit: Some(limit), ..fed_back.clone() }, true),
        (
            fed_back.clone().with_paper_policies(|a| a.clocked_interrupts = Some(Duration::from_millis(1))),
            false,
        ),
        (Config { device_work: DeviceWork::Interrupt, ..polled() }, false),
        (fed_back.with_paper_policies(|a| a.output_feedback = true), true),
        (Config { feedback: feedback(), ..of(Architecture::SoftLrp) }, false),
        (of(Architecture::NiLrp), true),
        (sampled(8), true),
        (tasks(1, 1), false),
        (by_length(), true),
    ]
}

#[test]
fn a_lower_rate_restores_the_output_at_once() {
    for (number, (config, screened)) in every_config().into_iter().enumerate() {
        let what = format!("{number}: {}", config.architecture);
        let mut rig = Rig::new(config);
        if screened {
            rig = rig.screen().0;
        }
        let over = START + Duration::from_millis(1_000);
        rig.load(Way::Out, 20_000, START, over);
        rig.send(Way::Out, 500, evenkeel_sim::traffic::Pattern::Constant, over, Instant::NEVER);
        // This is the time to process full queues: a ring, the IP queue, the screening queue or a channel, an
        // output queue.
        let drained = over + Duration::from_millis(80);
        let m = rig.measure(drained, drained + Duration::from_millis(1_000));
        assert!(m.out.abs_diff(500) <= 1, "{what}: {m:?}");
        assert_eq!((m.ring, m.ip_queue, m.screen, m.output), (0, 0, 0, 0), "{what}: {m:?}");
    }
}

#[test]
fn an_idle_router_does_nothing() {
    for (number, (config, screened)) in every_config().into_iter().enumerate() {
        let (clocked, what) = (config.paper_policies.clocked_interrupts.is_some(), config.architecture);
        let mut rig = Rig::new(config);
        if screened {
            rig = rig.screen().0;
        }
        rig.load(Way::Out, 20_000, START, START + Duration::from_millis(500));
        let m = rig.measure(START + Duration::from_secs(30), START + Duration::from_secs(130));
        // The host sends at most group reports and the like, unless it polls by the clock.
        let most = if clocked { Duration::from_secs(2) } else { Duration::from_millis(2) };
        assert!(m.busy < most, "{number}, {what}: {m:?}");
        assert_eq!(
            (m.taken, rig.host().queued(), rig.host().waiting_to_leave()),
            (0, 0, 0),
            "{number}, {what}"
        );
    }
}
