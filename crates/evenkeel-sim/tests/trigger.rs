//! Tests of trigger states of a simulated CPU: the times of calls of handlers, and the lost expirations of
//! timers.

use evenkeel_core::host::{Config, System};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::{Architecture, DeviceWork};
use evenkeel_core::system::UserEvent;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpCidr, Ipv4Address};
use evenkeel_sim::machine::{Costs, Machine};
use evenkeel_sim::net::Conditions;
use evenkeel_sim::packet::Station;
use evenkeel_sim::traffic::{Flow, Pattern};
use evenkeel_sim::trigger::{Devices, Handlers, PeriodicTimer, Source};
use evenkeel_sim::workload::{Log, Sink, Tally};
use evenkeel_sim::world::{HostId, Port, SegmentId, World, hardware_address};

const PORT: u16 = 9;
const ADDRESS: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);

/// Handlers that record their calls, and take a fixed time. From a given time on they want calls when the CPU
/// is idle.
#[derive(Debug, Default)]
struct Notes {
    states: Log<(Instant, Source)>,
    fired: Log<Instant>,
    takes: Duration,
    due: Option<Instant>,
    one_shot: Option<Instant>,
}

impl Handlers for Notes {
    fn trigger(&mut self, now: Instant, at: Source, _: &mut Devices) -> Duration {
        self.states.push((now, at));
        self.due = self.due.filter(|due| *due > now);
        self.takes
    }

    fn next_due(&self) -> Option<Instant> {
        self.due
    }

    fn periodic(&mut self, now: Instant, _: &mut Devices) -> Duration {
        self.fired.push(now);
        self.takes
    }

    fn one_shot(&mut self) -> Option<Instant> {
        self.one_shot
    }

    fn overdue(&mut self, now: Instant, _: &mut Devices) -> Duration {
        self.one_shot = None;
        self.fired.push(now);
        Duration::ZERO
    }
}

fn world() -> (World, HostId, SegmentId) {
    let mut world = World::new(1);
    let segment = world.add_segment();
    let config = Config { device_work: DeviceWork::Interrupt, ..Config::of(Architecture::Eager) };
    let port = Port::new(segment, IpCidr::new(ADDRESS.into(), 24));
    let host = world.add_host(config, costs(), &[port]).expect("there is room");
    (world, host, segment)
}

fn costs() -> Costs {
    Machine::built_in("pentium-ii-300").expect("a test checks the models").costs(Architecture::Eager)
}

fn send(world: &mut World, (host, segment): (HostId, SegmentId), rate_pps: u64, pattern: Pattern) {
    let station = |hardware, address, port| Station { hardware, address, port };
    let flow = Flow {
        from: station(hardware_address(9, 0), Ipv4Address::new(10, 0, 0, 9), 1),
        to: station(hardware_address(host.0, 0), ADDRESS, PORT),
        payload_bytes: 10,
        rate_pps,
        pattern,
        start: Instant::ZERO,
        stop: Instant::NEVER,
    };
    world.add_source(segment, flow, Conditions::PERFECT);
}

/// A program that computes, and makes a call now and then.
#[derive(Debug)]
struct Calls {
    compute: Duration,
    event: Option<UserEvent>,
    traps: Option<Tally>,
}

impl Program for Calls {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let is_first = self.event.is_none();
        let event = *self.event.get_or_insert_with(|| UserEvent::open(system).expect("there is room"));
        system.compute(self.compute);
        match &self.traps {
            Some(traps) if !is_first => traps.add_one(),
            _ => _ = event.posted(system),
        }
        Step::Again
    }
}

const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn count(states: &[(Instant, Source)], source: Source) -> usize {
    states.iter().filter(|(_, at)| *at == source).count()
}

#[test]
fn a_packet_ends_in_one_state_and_a_call_in_another() {
    let (mut world, host, segment) = world();
    let (sink, received) = Sink::new(PORT, us(10));
    world.host_mut(host).spawn("sink", 0, Box::new(sink));
    send(&mut world, (host, segment), 1_000, Pattern::Constant);
    let notes = Notes::default();
    let states = notes.states.clone();
    world.cpu_mut(host).set_handlers(Box::new(notes), Tally::default(), us(2));
    world.run_until(Instant::from_millis(100));
    let states = states.take();
    let packets = received.get() as usize;
    assert!(packets > 95, "{packets}");
    assert!(count(&states, Source::Input).abs_diff(packets) < 3, "{states:?}");
    // One call returns the datagram, and one finds no other; `bind` is the first.
    assert!(count(&states, Source::SystemCall).abs_diff(2 * packets) < 5, "{states:?}");
    assert_eq!(count(&states, Source::Idle), 0, "nothing was due");
}

#[test]
fn what_computes_passes_no_states_but_the_clocks_and_a_trap_is_one() {
    let run = |traps: Option<Tally>| {
        let (mut world, host, _) = world();
        let tally = traps.clone().unwrap_or_default();
        world.host_mut(host).spawn("computes", 0, Box::new(evenkeel_sim::workload::Spinner));
        if traps.is_some() {
            let calls = Calls { compute: us(100), event: None, traps };
            world.host_mut(host).spawn("faults", 0, Box::new(calls));
        }
        let notes = Notes::default();
        let states = notes.states.clone();
        world.cpu_mut(host).set_clock(us(1_000));
        world.cpu_mut(host).set_handlers(Box::new(notes), tally, us(2));
        world.run_until(Instant::from_millis(100));
        states.take()
    };
    let states = run(None);
    assert!(states.iter().all(|(_, at)| *at == Source::Clock), "{states:?}");
    assert_eq!(states.len(), 99);
    assert!(count(&run(Some(Tally::default())), Source::Trap) > 100);
}

#[test]
fn handlers_take_their_time_before_the_cpu_goes_on() {
    let calls = |takes| {
        let (mut world, host, _) = world();
        let calls = Calls { compute: us(10), event: None, traps: None };
        world.host_mut(host).spawn("calls", 0, Box::new(calls));
        let notes = Notes { takes, ..Notes::default() };
        let states = notes.states.clone();
        world.cpu_mut(host).set_handlers(Box::new(notes), Tally::default(), us(2));
        world.run_until(Instant::from_millis(100));
        count(&states.take(), Source::SystemCall)
    };
    // A call takes 11.5 us. With half as much again it is 17.25.
    let ratio = calls(Duration::ZERO) as f64 / calls(Duration::from_nanos(5_750)) as f64;
    assert!((ratio - 1.5).abs() < 0.01, "{ratio}");
}

#[test]
fn an_idle_cpu_goes_round_its_loop_only_for_what_is_due() {
    let (mut world, host, _) = world();
    let due = Instant::from_micros(501);
    let notes = Notes { due: Some(due), ..Notes::default() };
    let states = notes.states.clone();
    world.cpu_mut(host).set_handlers(Box::new(notes), Tally::default(), us(2));
    world.run_until(Instant::from_millis(10));
    let states = states.take();
    assert_eq!(states.len(), 1, "{states:?}");
    assert!(states[0].1 == Source::Idle && states[0].0 >= due && states[0].0 < due + us(3), "{states:?}");
}

#[test]
fn what_a_timer_dispatches_while_it_runs_is_done_once() {
    let fired = |takes| {
        let (mut world, host, _) = world();
        world.host_mut(host).spawn("computes", 0, Box::new(evenkeel_sim::workload::Spinner));
        let notes = Notes { takes, ..Notes::default() };
        let fired = notes.fired.clone();
        let cpu = world.cpu_mut(host);
        cpu.set_handlers(Box::new(notes), Tally::default(), us(2));
        cpu.set_periodic_timer(PeriodicTimer { period: us(20), interrupt: us(4) });
        world.run_until(Instant::from_millis(100));
        fired.take().len()
    };
    assert_eq!(fired(us(1)), 4_999, "none is lost");
    // During a run of the handler three interrupts arrive. Two of them are lost, and still take their time.
    let slow = fired(us(50));
    assert!((1_400..1_800).contains(&slow), "{slow}");
}

#[test]
fn a_one_shot_goes_off_when_it_is_aimed_at() {
    let (mut world, host, _) = world();
    world.host_mut(host).spawn("computes", 0, Box::new(evenkeel_sim::workload::Spinner));
    let notes = Notes { one_shot: Some(Instant::from_micros(2_500)), ..Notes::default() };
    let fired = notes.fired.clone();
    let cpu = world.cpu_mut(host);
    cpu.set_clock(us(1_000));
    cpu.set_handlers(Box::new(notes), Tally::default(), us(2));
    cpu.set_one_shot(us(1));
    world.run_until(Instant::from_millis(10));
    assert_eq!(fired.take(), [Instant::from_micros(2_501)]);
}

#[test]
fn what_nobody_has_polled_is_taken_in_when_the_cpu_goes_idle() {
    let received = |polls: bool| {
        let (mut world, host, segment) = world();
        let (sink, received) = Sink::new(PORT, us(200));
        world.host_mut(host).spawn("sink", 0, Box::new(sink));
        send(&mut world, (host, segment), 1_000, Pattern::Poisson);
        let cpu = world.cpu_mut(host);
        cpu.set_handlers(Box::new(Notes::default()), Tally::default(), us(2));
        if polls {
            // No handler ever polls.
            cpu.poll_devices();
        }
        world.run_until(Instant::from_millis(500));
        received.get()
    };
    assert!(received(false) > 400);
    assert_eq!(received(true), received(false));
}
