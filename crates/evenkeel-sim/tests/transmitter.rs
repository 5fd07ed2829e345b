//! Tests of a paced adaptor, which puts one frame at a time on the wire. Each frame raises a transmit
//! interrupt when it has left.

use evenkeel_core::cable::{self, Completion, Options};
use evenkeel_core::host::{Config, Host, System};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::UdpSocket;
use evenkeel_core::time::Instant;
use evenkeel_core::wire::{IpCidr, Ipv4Address};
use evenkeel_core::work::Work;
use evenkeel_sim::cpu::Cpu;
use evenkeel_sim::machine::{Costs, Machine};
use evenkeel_sim::wire::Wire;

/// Sends some short datagrams to a group in one step; that needs no neighbour.
#[derive(Debug)]
struct Burst(u8);

impl Program for Burst {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let socket = UdpSocket::bind(system, None, 7).expect("the port is free");
        let group = IpEndpoint { addr: Ipv4Address::new(239, 1, 1, 1).into(), port: 9 };
        for number in 0..self.0 {
            socket.send(system, group, &[number]).expect("a route to the group");
        }
        Step::Sleep(Instant::NEVER)
    }
}

/// Returns costs: 100 µs for sending a datagram, 5 µs for an interrupt, and 10 µs for reclaiming a buffer.
fn costs() -> Costs {
    let text = r#"
        name = "round"
        about = "round numbers"
        [cost]
        output = { ns = 100_000, source = "fit: a round number" }
        interrupt = { ns = 5_000, source = "fit: a round number" }
        reclaim = { ns = 10_000, source = "fit: a round number" }
    "#;
    Machine::parse("round.toml", text).expect("a sound model").costs(Architecture::Eager)
}

/// Sends three frames in one step, over a 10 Mbit/s Ethernet or a cable without a rate. Returns the
/// departure times, and the CPU.
fn departures(rate_bps: Option<u64>) -> (Vec<u64>, Cpu) {
    let completion = Completion::ByPeer;
    let inside = Options { completion, transmit_ring_pkts: 8, ..Options::new("inside", 1) };
    let (inside, outside) = cable::pair(inside, Options::new("outside", 2));
    let config = Config { batch_pkts: 1, ..Config::of(Architecture::Eager) };
    let mut host = Host::new(config).expect("a host of default size");
    let address = IpCidr::new(Ipv4Address::new(10, 0, 0, 1).into(), 24);
    host.add_interface(Box::new(inside), &[address], Instant::ZERO).expect("room for one interface");
    host.spawn("burst", 0, Box::new(Burst(3)));
    let mut cpu = Cpu::new(host, costs(), vec![Wire::new(outside, rate_bps)]);
    cpu.record();
    let (mut now, mut left) = (Instant::ZERO, Vec::new());
    while now < Instant::from_millis(2) {
        cpu.run(now);
        while let Some((_, frame)) = cpu.poll_frame() {
            // The host announces itself to its neighbours with frames of its own.
            if frame.get(36..38) == Some(&[0, 9]) {
                left.push(now.as_nanos());
            }
        }
        now = cpu.deadline();
    }
    cpu.host().check().expect("the counters add up");
    (left, cpu)
}

fn nanos(cpu: &Cpu, work: Work) -> Vec<u64> {
    cpu.timeline().expect("it records").times(work).map(Instant::as_nanos).collect()
}

#[test]
fn frames_leave_one_after_the_other_and_each_interrupts_when_it_has() {
    let (left, cpu) = departures(Some(10_000_000));
    let [first, second, third] = left[..] else { panic!("three frames: {left:?}") };
    assert_eq!(
        (second - first, third - second),
        (67_200, 67_200),
        "the shortest frame of a 10 Mbit/s Ethernet"
    );
    let interrupts = nanos(&cpu, Work::Interrupt);
    for frame in left {
        assert!(interrupts.contains(&frame), "no transmit interrupt at {frame}: {interrupts:?}");
    }
    let reclaims = nanos(&cpu, Work::Reclaim);
    assert!(reclaims.contains(&(third + 5_000)), "the buffer comes back behind the interrupt: {reclaims:?}");
}

#[test]
fn without_a_rate_all_have_left_when_the_unit_is_over() {
    let (left, _) = departures(None);
    assert!(left.len() == 3 && left.iter().all(|at| *at == left[0] && *at >= 300_000), "{left:?}");
}

#[test]
fn a_timeline_notes_the_stages_of_a_unit_as_they_are_begun() {
    let (_, cpu) = departures(None);
    let output = nanos(&cpu, Work::Output);
    let [first, second, third] = output[..] else { panic!("three datagrams: {output:?}") };
    assert_eq!((second - first, third - second), (100_000, 100_000));
}
