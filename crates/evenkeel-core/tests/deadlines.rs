//! The deadlines of a host: each wakes the part or the process that waits for it, and no other.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::*;
use evenkeel_core::deadline::Deadline;
use evenkeel_core::host::{Config, Host, System};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::{TcpStream, UdpSocket};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::work::Work;

/// Does nothing but sleep, for so long each time.
#[derive(Debug)]
struct Sleeper(Duration);

impl Program for Sleeper {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        Step::Sleep(system.now() + self.0)
    }
}

/// Does one thing, then waits for a datagram for a second at most.
#[derive(Debug)]
struct Once(Option<fn(&mut System<'_>)>);

impl Program for Once {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        match self.0.take() {
            Some(act) => {
                act(system);
                let socket = UdpSocket::bind(system, None, 7).unwrap();
                Step::WaitUntil(socket.fd(), system.now() + Duration::from_secs(1))
            }
            None => Step::Exit,
        }
    }
}

fn waiting(host: &Host) -> Vec<(Deadline, &str)> {
    let mut all: Vec<_> = host.deadlines().map(|(who, name, _)| (who, name)).collect();
    all.sort_unstable();
    all
}

/// Creates an idle host that has announced its addresses and groups.
fn rested(config: Config) -> Bench {
    let mut bench = Bench::new(config);
    bench.run(Duration::from_secs(30));
    bench.sent();
    bench
}

/// An action of a process in its step.
type Act = fn(&mut System<'_>);

#[test]
fn an_idle_host_waits_for_nothing() {
    for architecture in Architecture::ALL {
        let mut bench = rested(Config::of(architecture));
        let (sink, seen) = Sink::new(7);
        bench.host.spawn("sink", 0, Box::new(sink));
        bench.settle();
        assert_eq!(waiting(&bench.host), [], "{architecture}");
        assert_eq!(bench.host.next_deadline(), Instant::NEVER);
        bench.send(&[udp(7, b"x")]);
        bench.settle();
        assert_eq!((seen.count(), waiting(&bench.host)), (1, vec![]), "{architecture}");
    }
}

#[test]
fn a_sleeper_is_listed_until_it_is_woken_or_killed() {
    let mut bench = rested(Config::default());
    let sleeper = bench.host.spawn("sleeper", 0, Box::new(Sleeper(Duration::from_millis(50))));
    let other = bench.host.spawn("other", 0, Box::new(Sleeper(Duration::from_millis(70))));
    bench.settle();
    let mut listed: Vec<_> = bench.host.deadlines().collect();
    listed.sort_unstable();
    let [(first, "sleeper", at), (second, "other", later)] = listed[..] else { panic!("{listed:?}") };
    assert_eq!((first, second), (Deadline::Process(sleeper), Deadline::Process(other)));
    assert_eq!(bench.host.next_deadline(), at);
    assert!(at > bench.now && later > at);

    bench.host.wake_process(sleeper, bench.now);
    assert!(waiting(&bench.host).iter().all(|(who, _)| *who != Deadline::Process(sleeper)), "it is awake");
    bench.settle();
    assert!(waiting(&bench.host).contains(&(Deadline::Process(sleeper), "sleeper")), "it sleeps again");

    bench.host.kill(sleeper, bench.now);
    assert_eq!(waiting(&bench.host), [(Deadline::Process(other), "other")]);
    assert_eq!(bench.host.next_deadline(), later);
    bench.host.kill(other, bench.now);
    assert_eq!((waiting(&bench.host), bench.host.next_deadline()), (vec![], Instant::NEVER));
}

#[test]
fn a_call_from_outside_is_followed_by_the_deadlines_it_makes() {
    let mut bench = rested(Config::default());
    let outside = bench.host.attach("outside", 0, bench.now);
    assert_eq!(waiting(&bench.host), []);
    let connect =
        |system: &mut System<'_>| TcpStream::connect(system, IpEndpoint::new(PEER.into(), 80)).is_ok();
    assert_eq!(bench.host.enter(outside, bench.now, connect), Ok(true));
    let listed = [(Deadline::Neighbors, "neighbors"), (Deadline::Tcp, "tcp")];
    assert_eq!(waiting(&bench.host), listed);
    assert!(bench.host.next_deadline() <= bench.now + Duration::from_secs(1));
}

#[test]
fn what_has_come_in_time_leaves_no_clock_interrupt_behind() {
    for architecture in Architecture::ALL {
        let mut bench = rested(Config::of(architecture));
        bench.host.spawn("once", 0, Box::new(Once(Some(|_| {}))));
        bench.settle();
        assert_eq!(waiting(&bench.host).len(), 1, "{architecture}: for a second at most");
        bench.send(&[udp(7, b"x")]);
        let before = bench.done(Work::Clock);
        bench.run(Duration::from_secs(5));
        assert_eq!(bench.done(Work::Clock), before, "{architecture}");
    }
}

#[test]
fn parts_of_the_host_are_listed_by_name_while_they_wait() {
    let mut bench = rested(Config::of(Architecture::Polled));
    let acts: [(&str, Act); 2] = [
        ("neighbors", |system| {
            let socket = UdpSocket::bind(system, None, 9).unwrap();
            socket.send(system, IpEndpoint::new(PEER.into(), 9), b"x").unwrap();
        }),
        ("tcp", |system| {
            TcpStream::connect(system, IpEndpoint::new(PEER.into(), 80)).unwrap();
        }),
    ];
    for (name, act) in acts {
        let process = bench.host.spawn("once", 0, Box::new(Once(Some(act))));
        bench.settle();
        let listed = waiting(&bench.host);
        assert!(listed.iter().any(|(_, listed)| *listed == name), "{name}: {listed:?}");
        bench.host.kill(process, bench.now);
        bench.run(Duration::from_secs(600));
        assert_eq!(waiting(&bench.host), [], "{name}");
    }
    bench.send(&udp_fragments(9, &[1; 64], 32, 1)[..1]);
    bench.settle();
    assert_eq!(waiting(&bench.host), [(Deadline::Reassembly, "reassembly")]);
    let config = Config::of(Architecture::Eager)
        .with_paper_policies(|a| a.clocked_interrupts = Some(Duration::from_millis(1)));
    let ticking = Host::new(config).unwrap();
    assert_eq!(waiting(&ticking), [(Deadline::ClockedInterrupts, "clocked-interrupts")]);
}

#[test]
fn the_scheduler_waits_only_while_somebody_wants_the_core() {
    let mut bench = rested(Config::default());
    let spinner = bench.host.spawn("spinner", 0, Box::new(Spinner));
    bench.settle_some();
    assert_eq!(waiting(&bench.host), [(Deadline::Decay, "decay")]);
    bench.host.kill(spinner, bench.now);
    assert_eq!(waiting(&bench.host), []);
}
