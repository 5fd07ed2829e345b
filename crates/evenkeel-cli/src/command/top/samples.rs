//! Answers of processes for tests: a flood with known figures, and any others.

use std::borrow::Cow;

use evenkeel::metrics::{
    Device, Dropped, Frames, Guarded, Interface, KernelDrops, Limited, LimitedAccount, Listener, PortAccount,
    Process, Protocol, Published, Snapshot, Socket, ThreadShare,
};
use evenkeel::raw::time::{Duration, Instant};
use proptest::collection::vec;
use proptest::prelude::*;

use super::model::{Answer, Model};

/// The answers of several processes at one time; `None` for one that does not answer.
pub(super) type Round = Vec<(u32, Option<Published>)>;

pub(super) fn at(seconds: u64) -> Instant {
    Instant::from_millis(1000 * seconds)
}

pub(super) fn published(pid: u32, program: &str, hosts: Vec<Snapshot>) -> Published {
    Published { pid, program: program.to_owned(), hosts, guards: Vec::new() }
}

/// Gives a model the answers of one time.
pub(super) fn feed(model: &mut Model, round: &Round, now: Instant) {
    model.follow(&round.iter().map(|(pid, _)| *pid).collect::<Vec<_>>());
    for pid in model.ask(now, Duration::ZERO) {
        let answer = round.iter().find(|(other, _)| *other == pid).and_then(|(_, answer)| answer.clone());
        model.take(pid, answer.map_or(Answer::Late, Answer::Figures), now);
    }
    model.look(now);
}

pub(super) fn socket(number: u32, port: u16, [arrived, discarded, received]: [u64; 3]) -> Socket {
    Socket {
        number,
        kind: Cow::Borrowed("udp"),
        process: Some(3),
        address: None,
        port,
        waiting: 64,
        limit: 64,
        arrived,
        discarded,
        received,
        sent: received,
        dropped: 0,
    }
}

/// Returns the answer of a guard `seconds` after it was attached, which drops and lets pass these rates at
/// UDP port 53.
pub(super) fn guarding(seconds: u64, dropped_pps: u64, passed_pps: u64) -> Published {
    let port = |protocol, port, passed, dropped, answered| PortAccount {
        protocol,
        port,
        passed: seconds * passed,
        dropped: seconds * dropped,
        answered: seconds * answered,
    };
    let ports = vec![
        port(Protocol::Udp, 9, passed_pps, 0, 0),
        port(Protocol::Udp, 53, passed_pps, dropped_pps, 0),
        port(Protocol::Tcp, 443, 20, 0, 70),
    ];
    let guard = Guarded {
        seconds: Duration::from_secs(seconds).as_secs_f64(),
        interfaces: vec!["eth0".to_owned(), "g0".to_owned()],
        mute: vec!["g0".to_owned()],
        behind: Vec::new(),
        dry_run: false,
        passed: seconds * (2 * passed_pps + 20),
        dropped: seconds * dropped_pps,
        answered: seconds * 70,
        ports,
        threads: Some(ThreadShare {
            percent: 10,
            lowered_seconds: Duration::from_millis(500 * seconds).as_secs_f64(),
        }),
        limited: vec![LimitedAccount { kind: Limited::TcpClosed, passed: 0, dropped: 0 }],
    };
    Published { guards: vec![guard], ..published(9, "evenkeel guard", Vec::new()) }
}

/// Returns a model of a guard under a flood.
pub(super) fn guarded() -> Model {
    let mut model = Model::default();
    for second in 1..4 {
        feed(&mut model, &vec![(9, Some(guarding(second, 400_000, 1_500)))], at(second));
    }
    model
}

fn process(number: u32, name: &str, used: u64, charged: u64) -> Process {
    let [used, charged] = [used, charged].map(Duration::from_millis);
    Process { number, name: name.to_owned(), used, charged }
}

/// Returns the figures of a flooded host `seconds` after its start, of which `offered` frames came in all.
/// It serves 60 000 a second, and less under a flood.
pub(super) fn flooded(seconds: u64, offered: u64, served: u64) -> Snapshot {
    let (mut host, missed) = (Snapshot::default(), offered / 2);
    let received = offered - missed;
    let discarded = received - served - 100 * seconds;
    host.elapsed = Duration::from_secs(seconds);
    host.frames = Frames { received, delivered: served, consumed: 100 * seconds, queued: 64, ..host.frames };
    (host.frames.originated, host.frames.transmitted) = (served, served);
    let drop = |reason, place, frames| Dropped {
        reason: Cow::Borrowed(reason),
        place: Cow::Borrowed(place),
        frames,
    };
    host.drops = vec![
        drop("channel-full", "channel", discarded),
        drop("ring-full", "interface ring", missed),
        drop("arp-failed", "output", 3),
    ];
    host.sockets = vec![
        socket(1, 53, [2_000 * seconds, 0, 2_000 * seconds]),
        socket(2, 7, [received, discarded, served]),
    ];
    let kernel = KernelDrops { rx_dropped: 12 * seconds, ..KernelDrops::default() };
    let device = Device {
        sent: served,
        send_calls: served / 10,
        refused: 0,
        kernel: Some(kernel),
        kept_from_kernel: None,
    };
    host.interfaces = vec![Interface {
        name: "eth0".to_owned(),
        received,
        missed,
        transmitted: served,
        in_rings: 512,
        device: Some(device),
        ..Interface::default()
    }];
    host.processes = vec![
        process(1, "arpd", 0, 2 * seconds),
        process(2, "icmpd", 0, 0),
        process(3, "service", 700 * seconds, 900 * seconds),
    ];
    host.cpu.process = Duration::from_millis(900 * seconds);
    host.cpu.polling_thread = Duration::from_millis(80 * seconds);
    (host.cpu.ran, host.cpu.system) = (host.elapsed, host.elapsed / 5);
    let (half_open, to_accept) = (3, 64);
    host.tcp.listeners = vec![Listener { port: 80, address: None, half_open, to_accept, backlog: 128 }];
    host.tcp.connections = 1_234;
    host
}

/// Returns a model of an echo service whose load rises to a flood, and of a process that fell silent.
pub(super) fn flood() -> Model {
    let mut model = Model::default();
    let (mut offered, mut served) = (10_000, 0);
    for second in 1..12 {
        offered += 20_000 << second.min(6);
        served += if second < 4 { 10_000 << second } else { 62_000 };
        let echo = published(101, "evenkeel echo", vec![flooded(second, offered, served)]);
        let sink = published(202, "evenkeel sink", vec![Snapshot::default()]);
        feed(&mut model, &vec![(101, Some(echo)), (202, (second < 3).then_some(sink))], at(second));
    }
    model
}

/// Returns a model of `count` processes.
pub(super) fn many(count: u32) -> Model {
    let mut model = Model::default();
    let process = |pid| (pid, Some(published(pid, "evenkeel echo", vec![Snapshot::default()])));
    feed(&mut model, &(1000..1000 + count).map(process).collect(), at(1));
    model
}

fn counts<const N: usize>() -> impl Strategy<Value = [u64; N]> {
    proptest::array::uniform(0..1_u64 << 40)
}

fn any_host() -> impl Strategy<Value = Snapshot> {
    let sockets = vec((any::<u32>(), any::<u16>(), counts::<3>()), 0..30);
    let names = vec(("\\PC{0,20}", counts::<4>()), 0..5);
    (counts::<8>(), sockets, names, 0..100_000_u64).prop_map(|(figures, sockets, names, millis)| {
        let mut host = Snapshot::default();
        host.elapsed = Duration::from_millis(millis);
        let [received, delivered, forwarded, queued, ran, idle, process, frames] = figures;
        host.frames = Frames { received, delivered, forwarded, queued, ..host.frames };
        [host.cpu.ran, host.cpu.idle, host.cpu.process] = [ran, idle, process].map(Duration::from_nanos);
        host.sockets = sockets.into_iter().map(|(number, port, of)| socket(number, port, of)).collect();
        for (number, (name, [received, missed, used, charged])) in (0..).zip(names) {
            let place = Cow::Owned(name.clone());
            host.drops.push(Dropped { reason: Cow::Borrowed("ring-full"), place, frames });
            host.processes.push(process_of(number, &name, used, charged));
            host.interfaces.push(Interface { name, received, missed, ..Interface::default() });
        }
        host
    })
}

fn process_of(number: u32, name: &str, used: u64, charged: u64) -> Process {
    process(number, name, used >> 20, charged >> 20)
}

/// The figures of a process: its program, hosts and guards.
type AnyFigures = (String, Vec<Snapshot>, Vec<(u64, [u64; 2])>);

fn any_published(pid: u32, (program, hosts, guards): AnyFigures) -> Published {
    let guard = |(seconds, [dropped, passed]): (u64, [u64; 2])| guarding(seconds, dropped, passed).guards;
    let guards = guards.into_iter().flat_map(guard).collect();
    Published { guards, ..published(pid, &program, hosts) }
}

/// Draws what up to six processes answer at up to five times.
pub(super) fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let answer = |pid: u32| {
        let program = "\\PC{0,30}";
        let figures = (program, vec(any_host(), 0..4), vec((0..9_u64, counts::<2>()), 0..3));
        prop::option::of(figures).prop_map(move |it| (pid, it.map(|it| any_published(pid, it))))
    };
    let round = vec(1..7_u32, 0..6).prop_flat_map(move |mut pids| {
        pids.sort_unstable();
        pids.dedup();
        pids.into_iter().map(answer).collect::<Vec<_>>()
    });
    vec(round, 1..6)
}
