//! Tests that the simulated CPU keeps time exactly: costs, preemption, resumption, and charges.

use evenkeel_core::host::{Config, Level, System};
use evenkeel_core::process::{ProcessId, Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpCidr, Ipv4Address};
use evenkeel_sim::machine::{Costs, Machine};
use evenkeel_sim::net::Conditions;
use evenkeel_sim::packet::Station;
use evenkeel_sim::traffic::{Flow, Pattern};
use evenkeel_sim::workload::{Delivery, Log, Recorder, Sink, Spinner, Tally};
use evenkeel_sim::world::{HostId, Port, SegmentId, World, hardware_address};

const ADDRESS: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const PORT: u16 = 5001;

/// Returns costs in round numbers: 10 µs for an interrupt with its frame, 20 µs for the software interrupt
/// and 30 µs for each frame in it, 100 µs for a receive call.
fn costs() -> Costs {
    let cost =
        |kind: &str, us: u32| format!("{kind} = {{ ns = {us}_000, source = \"fit: a round number\" }}\n");
    let kinds = [("receive", 10), ("soft-interrupt", 20), ("input", 30), ("deliver", 100), ("switch", 5)];
    let lines: String = kinds.iter().map(|(kind, us)| cost(kind, *us)).collect();
    let text = format!("name = \"round\"\nabout = \"round numbers\"\n[cost]\n{lines}");
    Machine::parse("round.toml", &text).expect("a sound model").costs(Architecture::Eager)
}

fn world(architecture: Architecture) -> (World, SegmentId, HostId) {
    let mut world = World::new(1);
    let segment = world.add_segment();
    let config = Config { batch_pkts: 1, ..Config::of(architecture) };
    let port = Port::new(segment, IpCidr::new(ADDRESS.into(), 24));
    let host = world.add_host(config, costs(), &[port]).expect("a host of default size");
    (world, segment, host)
}

fn recorder(world: &mut World, host: HostId) -> (ProcessId, Log<Delivery>) {
    let (program, log) = Recorder::new(PORT);
    (world.host_mut(host).spawn("recorder", 0, Box::new(program)), log)
}

fn send(world: &mut World, segment: SegmentId, pkts: u32, gap_us: u64, start: Instant) {
    let from =
        Station { hardware: hardware_address(9, 0), address: Ipv4Address::new(10, 0, 0, 9), port: 4000 };
    let to = Station { hardware: hardware_address(0, 0), address: ADDRESS, port: PORT };
    let pattern = Pattern::Once { pkts, gap: Duration::from_micros(gap_us) };
    let flow = Flow { from, to, payload_bytes: 8, rate_pps: 1, pattern, start, stop: Instant::NEVER };
    world.add_source(segment, flow, Conditions::PERFECT);
}

/// Returns the times, in microseconds after `start`, at which a program had its datagrams. Free work takes a
/// nanosecond, hence the rounding.
fn times_us(log: &Log<Delivery>, start: Instant) -> Vec<u64> {
    log.take().iter().map(|d| (d.at.since(start).as_nanos() as u64 + 500) / 1000).collect()
}

const START: Instant = Instant::from_millis(10);

#[test]
fn a_datagram_takes_the_sum_of_its_stages() {
    let (mut world, segment, host) = world(Architecture::Eager);
    let (_, log) = recorder(&mut world, host);
    send(&mut world, segment, 1, 0, START);
    world.run_until(Instant::from_millis(20));
    assert_eq!(times_us(&log, START), [10 + 20 + 30 + 100]);
    let cpu = |level| world.host(host).cpu(level);
    assert_eq!(cpu(Level::Interrupt), Duration::from_micros(10));
    assert_eq!(cpu(Level::SoftInterrupt), Duration::from_micros(50));
}

#[test]
fn a_process_is_interrupted_and_goes_on_where_it_was() {
    let (mut world, segment, host) = world(Architecture::Eager);
    let (_, log) = recorder(&mut world, host);
    // The second datagram arrives at 100 us, in the middle of the first one's receive call (60 to 160), which
    // continues 10 + 20 + 30 us later.
    send(&mut world, segment, 2, 100, START);
    world.run_until(Instant::from_millis(20));
    assert_eq!(times_us(&log, START), [220, 320]);
    assert!(world.cpu(host).counters().preemptions >= 1);
}

#[test]
fn an_interrupt_suspends_the_software_interrupt_and_dispatches_no_second() {
    let (mut world, segment, host) = world(Architecture::Eager);
    let (_, log) = recorder(&mut world, host);
    // Arrivals are at 0, 20 and 40 us. The software interrupt begins at 10, is suspended from 20 to 30 and
    // from 40 to 50, and processes the two others after the first. It takes 20 + 3 x 30 us of its own, and
    // interrupts take 30 us.
    send(&mut world, segment, 3, 20, START);
    world.run_until(Instant::from_millis(20));
    assert_eq!(times_us(&log, START)[0], 30 + 20 + 90 + 100);
    assert_eq!(world.host(host).cpu(Level::SoftInterrupt), Duration::from_micros(110));
}

#[test]
fn interrupts_are_charged_to_whom_they_hit_and_lazy_work_to_the_receiver() {
    for (architecture, spinner_pays_us) in [(Architecture::Eager, 60), (Architecture::NiLrp, 0)] {
        let (mut world, segment, host) = world(architecture);
        let (receiver, _) = recorder(&mut world, host);
        let spinner = world.host_mut(host).spawn("spinner", 20, Box::new(Spinner));
        send(&mut world, segment, 1, 0, START);
        world.run_until(Instant::from_millis(20));
        let bill = |process| world.host(host).bill(process).expect("a living process");
        let others = bill(spinner).charged - bill(spinner).used;
        assert_eq!(others.as_micros(), spinner_pays_us, "{architecture}");
        assert!(bill(receiver).used >= Duration::from_micros(100), "{architecture}");
    }
}

#[test]
fn every_moment_is_accounted_for() {
    let (mut world, _, host) = world(Architecture::Eager);
    world.host_mut(host).spawn("spinner", 0, Box::new(Spinner));
    world.run_until(Instant::from_millis(500));
    let busy: Duration = Level::ALL.iter().map(|&l| world.host(host).cpu(l)).sum();
    assert!(busy > Duration::from_millis(498), "a spinner leaves no time unused: {busy:?}");
    assert!(busy <= Duration::from_millis(500), "{busy:?}");
}

#[test]
fn the_clock_takes_its_time_from_whoever_runs() {
    let (mut world, segment, host) = world(Architecture::Eager);
    let costs = "name = \"tick\"\nabout = \"a clock\"\n[cost]\nclock = { ns = 50_000, source = \"fit: a \
        round number\" }";
    let costs = Machine::parse("tick.toml", costs).expect("a sound model").costs(Architecture::Eager);
    let port = Port::new(segment, IpCidr::new(Ipv4Address::new(10, 0, 0, 2).into(), 24));
    let ticking =
        world.add_host(Config { batch_pkts: 1, ..Config::default() }, costs, &[port]).expect("a host");
    world.cpu_mut(ticking).set_clock(Duration::from_millis(1));
    let spin = |world: &mut World, host| world.host_mut(host).spawn("spinner", 0, Box::new(Spinner));
    let spinners = [spin(&mut world, host), spin(&mut world, ticking)];
    world.run_until(Instant::from_millis(1_000));
    let used = |host, process| world.host(host).bill(process).expect("a living process").used.as_micros();
    let difference = used(host, spinners[0]) - used(ticking, spinners[1]);
    assert!((49_000..=51_000).contains(&difference), "1000 ticks of 50 us: {difference}");
    assert!(world.host(ticking).cpu(Level::Interrupt) >= Duration::from_micros(49_900));
}

/// Runs a quiet socket and a flooded one. Their receivers compute nothing. Returns how much of the quiet
/// traffic arrived, and how much was sent.
fn beside_a_flood(architecture: Architecture, seed: u64) -> (u64, u64) {
    let mut world = World::new(seed);
    let segment = world.add_segment();
    let config = Config {
        device_work: evenkeel_core::receive::DeviceWork::Interrupt,
        batch_pkts: 1,
        ip_queue_pkts: 50,
        ..Config::of(architecture)
    };
    let costs = Machine::built_in("sparcstation-20").expect("a sound model").costs(architecture);
    let port = Port::new(segment, IpCidr::new(ADDRESS.into(), 24));
    let host = world.add_host(config, costs, &[port]).expect("a host of default size");
    let sink = |world: &mut World, port| -> Tally {
        let (program, tally) = Sink::new(port, Duration::ZERO);
        world.host_mut(host).spawn("sink", 0, Box::new(program));
        tally
    };
    let (_, quiet) = (sink(&mut world, PORT), sink(&mut world, PORT + 1));
    let flow = |number: u8, port, rate_pps, stop| Flow {
        from: Station {
            hardware: hardware_address(usize::from(number), 0),
            address: Ipv4Address::new(10, 0, 0, number),
            port: 4000,
        },
        to: Station { hardware: hardware_address(0, 0), address: ADDRESS, port },
        payload_bytes: 14,
        rate_pps,
        pattern: Pattern::Poisson,
        start: START,
        stop,
    };
    let flood = 20_000 + 2_000 * (seed % 5);
    world.add_source(segment, flow(9, PORT, flood, Instant::from_millis(2_000)), Conditions::PERFECT);
    let source =
        world.add_source(segment, flow(10, PORT + 1, 200, Instant::from_millis(1_900)), Conditions::PERFECT);
    world.run_until(Instant::from_millis(2_500));
    world.host(host).check().expect("the counters add up");
    (quiet.get(), world.sent(source))
}

#[test]
fn a_flooded_channel_costs_another_socket_no_frame() {
    for seed in 0..10 {
        for architecture in [Architecture::SoftLrp, Architecture::NiLrp] {
            let (received, sent) = beside_a_flood(architecture, seed);
            assert_eq!(received, sent, "{architecture}, seed {seed}");
        }
        let (received, sent) = beside_a_flood(Architecture::Eager, seed);
        assert!(received < sent, "the shared IP queue loses for both, seed {seed}: {received} of {sent}");
    }
}

/// A program that never rests and whose work is free would keep its world busy for ever.
#[test]
#[should_panic(expected = "restless")]
fn a_world_in_which_hardly_any_time_passes_says_who_goes_on() {
    #[derive(Debug)]
    struct Restless;

    impl Program for Restless {
        fn step(&mut self, _: &mut System<'_>) -> Step {
            Step::Again
        }
    }

    let mut world = World::new(1);
    let segment = world.add_segment();
    let port = Port::new(segment, IpCidr::new(ADDRESS.into(), 24));
    let host = world.add_host(Config::default(), Costs::FREE, &[port]).expect("a host of default size");
    world.host_mut(host).spawn("restless", 0, Box::new(Restless));
    world.run_until(Instant::from_millis(10));
}
