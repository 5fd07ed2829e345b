//! The three classes of behaviour beyond the maximum loss-free rate (section 4.2). Output continues to grow
//! (ideal, which no processor is), stays at its peak (realizable), or falls towards nothing (prone to
//! livelock).

use evenkeel_core::host::Config;
use evenkeel_core::poll::{Feedback, Quota};
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_sim::workload::Sink;

use crate::alternatives::{by_length, interrupts_limited, sampled, tasks};
use crate::rig::{HungScreend, Rig, START, Way, feedback, of, output, polled};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Output at the highest rate is at least 95 % of the peak.
    Realizable,
    /// Output is in between, and lower at each higher rate.
    Falling,
    /// Output at the highest rate is less than a tenth of the peak.
    Livelock,
}

fn class(name: &str, out: &[u64]) -> Class {
    let (peak, last) = (out.iter().copied().max().unwrap_or(0), out.last().copied().unwrap_or(0));
    assert!(peak > 1_000, "{name}: {out:?}");
    if last * 100 >= peak * 95 {
        Class::Realizable
    } else if last * 10 < peak {
        Class::Livelock
    } else {
        assert!(out.is_sorted_by(|a, b| a >= b), "{name}: {out:?}");
        Class::Falling
    }
}

/// Rates beyond every peak of this machine, up to more than a 10 Mbit/s Ethernet can carry.
const RATES: [u64; 4] = [5_000, 8_000, 12_000, 18_000];

fn forwarding(name: &str, config: &Config, screened: bool) -> Class {
    let rates = if screened { [3_000, 5_000, 9_000, 18_000] } else { RATES };
    class(name, &rates.map(|rate| output(config, screened, rate).out))
}

#[test]
fn forwarding_has_the_class_that_each_mechanism_promises() {
    let eager = of(Architecture::Eager);
    let fed_back = Config { feedback: feedback(), ..polled() };
    let clocked = Some(Duration::from_millis(1));
    let patient = feedback().map(|f| Feedback { timeout: Duration::from_millis(50), ..f });
    for (name, config, screened, expected) in [
        ("interrupts", eager.clone(), false, Class::Livelock),
        ("interrupts, screened", eager.clone(), true, Class::Livelock),
        ("polling without a quota", Config { quota: Quota::Unlimited, ..polled() }, false, Class::Livelock),
        ("polling", polled(), false, Class::Realizable),
        ("polling, dynamic quota", Config { quota: Quota::Dynamic, ..polled() }, false, Class::Realizable),
        ("polling without feedback, screened", polled(), true, Class::Livelock),
        ("polling with feedback, screened", fed_back.clone(), true, Class::Realizable),
        ("interrupt-rate limiter", interrupts_limited(feedback()), false, Class::Realizable),
        // The packets in the IP queue take longer than a tick, so the limiter's timeout must be longer.
        (
            "interrupt-rate limiter, screened, timeout of a tick",
            interrupts_limited(feedback()),
            true,
            Class::Livelock,
        ),
        ("interrupt-rate limiter, screened", interrupts_limited(patient), true, Class::Realizable),
        (
            "all at the highest level",
            Config { device_work: DeviceWork::Interrupt, ..polled() },
            false,
            Class::Realizable,
        ),
        (
            "all at the highest level, screened",
            Config { device_work: DeviceWork::Interrupt, ..polled() },
            true,
            Class::Livelock,
        ),
        (
            "clocked interrupts that start polling",
            polled().with_paper_policies(|a| a.clocked_interrupts = clocked),
            false,
            Class::Realizable,
        ),
        (
            "clocked interrupts",
            eager.with_paper_policies(|a| a.clocked_interrupts = clocked),
            false,
            Class::Livelock,
        ),
        ("interrupts sampled at clock ticks", sampled(4), false, Class::Realizable),
        // This is like the limiter: two ticks do not empty the IP queue, and screend comes after it.
        ("interrupts sampled at clock ticks, screened, short pause", sampled(2), true, Class::Livelock),
        ("interrupts sampled at clock ticks, screened", sampled(8), true, Class::Realizable),
        ("real-time tasks", tasks(1, 1), false, Class::Falling),
        ("real-time tasks, screened", tasks(1, 1), true, Class::Livelock),
        ("scheduling by queue length, screened", by_length(), true, Class::Realizable),
    ] {
        assert_eq!(forwarding(name, &config, screened), expected, "{name}");
    }
}

/// Returns the number of datagrams that a program receives in a second of a flood.
fn delivered(config: &Config, rate: u64) -> u64 {
    let mut rig = Rig::new(config.clone());
    let (sink, received) = Sink::new(7, Duration::ZERO);
    rig.spawn("sink", sink);
    rig.load(Way::ToPort(7), rate, START, Instant::NEVER);
    rig.world.run_until(START + Duration::from_millis(500));
    let before = received.get();
    rig.world.run_until(START + Duration::from_millis(1_500));
    received.get() - before
}

#[test]
fn delivery_to_programs_has_the_class_that_each_architecture_promises() {
    let fed_back = Config { feedback: feedback(), ..polled() };
    let in_the_interrupt = Config { device_work: DeviceWork::Interrupt, ..of(Architecture::SoftLrp) };
    for (name, config, expected) in [
        ("interrupts", of(Architecture::Eager), Class::Livelock),
        ("polling without feedback", polled(), Class::Livelock),
        ("polling with feedback", fed_back, Class::Realizable),
        ("soft-lrp", in_the_interrupt, Class::Livelock),
        (
            "soft-lrp, polled, with feedback",
            Config { feedback: feedback(), ..of(Architecture::SoftLrp) },
            Class::Realizable,
        ),
        ("ni-lrp", of(Architecture::NiLrp), Class::Realizable),
    ] {
        let out: Vec<u64> = RATES.map(|rate| delivered(&config, rate)).into();
        assert_eq!(class(name, &out), expected, "{name}: {out:?}");
    }
}

#[test]
fn soft_demultiplexing_falls_more_slowly_than_interrupts() {
    let in_the_interrupt = Config { device_work: DeviceWork::Interrupt, ..of(Architecture::SoftLrp) };
    for rate in [8_000, 10_000] {
        let (eager, lrp) = (delivered(&of(Architecture::Eager), rate), delivered(&in_the_interrupt, rate));
        assert!(lrp > eager + 500, "{rate}: {lrp} against {eager}");
    }
}

/// Returns the CPU time that a router spends for each packet that it takes or sheds, when none of them
/// arrives anywhere.
fn cost_of_a_dropped_packet(config: &Config) -> Duration {
    let mut rig = Rig::new(config.clone());
    rig.spawn("screend", HungScreend);
    rig.load(Way::Out, 5_000, START, Instant::NEVER);
    let m = rig.measure(START + Duration::from_millis(500), START + Duration::from_millis(2_500));
    assert_eq!(m.out, 0);
    m.busy / m.offered as u32
}

#[test]
fn what_is_dropped_early_costs_nothing() {
    let us = |config: &Config| cost_of_a_dropped_packet(config).as_micros();
    let eager = us(&of(Architecture::Eager));
    assert!(eager >= 72 + 38, "device level, and input up to the screening queue: {eager} us");
    let demultiplexed = us(&Config { device_work: DeviceWork::Interrupt, ..of(Architecture::SoftLrp) });
    assert!((66..eager).contains(&demultiplexed), "an interrupt and a classification: {demultiplexed} us");
    let timeout = Duration::from_millis(100);
    let fed_back = feedback().map(|f| Feedback { timeout, ..f });
    let polled = us(&Config { feedback: fed_back, ..polled() });
    assert!(polled <= 5, "{polled} us");
    let nothing = us(&of(Architecture::NiLrp));
    assert!(nothing <= 1, "{nothing} us");
}
