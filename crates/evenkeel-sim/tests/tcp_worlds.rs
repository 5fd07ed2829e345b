//! TCP between whole hosts over bad networks: random worlds from a seed, under every receive architecture.
//!
//! `EVENKEEL_SEED=n` runs that seed alone; `EVENKEEL_SEEDS=n` runs the first `n`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use evenkeel_core::host::Config;
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::Endpoint;
use evenkeel_core::tcp::connection::Keepalive;
use evenkeel_core::tcp::{Counter, ListenerConfig};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpAddress, IpCidr};
use evenkeel_sim::machine::{Costs, Machine};
use evenkeel_sim::net::Conditions;
use evenkeel_sim::rng::{Ratio, Rng};
use evenkeel_sim::streams::{Outcome, StreamClient, StreamEcho};
use evenkeel_sim::world::{Port, World};

const SEEDS: u64 = 60;
const PORT: u16 = 7;
/// Every connection is over by then, and every TIME-WAIT.
const END: Instant = Instant::from_millis(3_000_000);

#[derive(Debug)]
struct Plan {
    seed: u64,
    v6: bool,
    clients: u8,
    connections: usize,
    abreast: usize,
    octets: usize,
    conditions: Conditions,
    listener: ListenerConfig,
    /// CPUs take their time.
    slow: bool,
    gentle: bool,
}

impl Plan {
    fn random(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x686f_7374_7470_6321);
        let harsh = rng.chance(Ratio::percent(30));
        let faults = if harsh { 100 } else { 8 };
        let mut permille = |most| Ratio::new(rng.between(0, most) as u32, 1_000);
        let delay = Duration::from_micros(20 << permille(10).numerator());
        let conditions = Conditions {
            delay,
            loss: permille(faults),
            corruption: permille(faults / 2),
            duplication: permille(faults),
            reordering: permille(2 * faults),
            reordering_delay: delay,
            ..Conditions::PERFECT
        };
        let small = rng.chance(Ratio::percent(40));
        let listener = if small {
            ListenerConfig {
                backlog: rng.between(1, 4) as usize,
                syn_queue: rng.between(1, 4) as usize,
                ..ListenerConfig::default()
            }
        } else {
            ListenerConfig::default()
        };
        Self {
            seed,
            v6: rng.chance(Ratio::percent(40)),
            clients: rng.between(1, 4) as u8,
            connections: rng.between(1, 12) as usize,
            abreast: rng.between(1, 4) as usize,
            octets: rng.between(1, 16) as usize * rng.between(1, 4_000) as usize,
            conditions,
            listener,
            slow: rng.chance(Ratio::percent(50)),
            gentle: !harsh && !small,
        }
    }
}

fn cidr(last: u8, v6: bool) -> IpCidr {
    if v6 {
        IpCidr::new(IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)), 64)
    } else {
        IpCidr::new(IpAddress::v4(10, 0, 0, last), 24)
    }
}

/// What happened to a plan: the trace's number, how many streams were echoed and failed, and how many segments were sent again.
type Happened = (u64, usize, usize, u64);

fn run(plan: &Plan, architecture: Architecture) -> Happened {
    let mut world = World::new(plan.seed);
    let segment = world.add_segment();
    let costs = if plan.slow {
        Machine::built_in("sparcstation-20").expect("a machine").costs(architecture)
    } else {
        Costs::FREE
    };
    let mut host = |last: u8| {
        let mut config = Config { seed: plan.seed ^ u64::from(last), ..Config::of(architecture) };
        // A peer that has gone unheard is noticed.
        Arc::make_mut(&mut config.tcp.connection).keepalive = Some(Keepalive {
            idle: Duration::from_secs(30),
            interval: Duration::from_secs(10),
            probes_max: 9,
        });
        // A frame crosses the client's wire and the server's. Were it changed on both, the checksum would not notice once in 32 times: when a bit is set,
        // and the same bit of another word is cleared.
        let corruption = if last == 1 { Ratio::ZERO } else { plan.conditions.corruption };
        let conditions = Conditions { corruption, ..plan.conditions };
        let port = Port::new(segment, cidr(last, plan.v6)).with_conditions(conditions);
        world.add_host(config, costs, &[port]).expect("a host")
    };
    let server = host(1);
    let clients: Vec<_> = (2..2 + plan.clients).map(&mut host).collect();
    let (echo, _) = StreamEcho::new(PORT, plan.listener);
    world.host_mut(server).spawn("echo", 0, Box::new(echo));
    world.run_until(Instant::from_millis(10));
    let to = Endpoint::new(cidr(1, plan.v6).address(), PORT);
    let logs: Vec<_> = clients
        .iter()
        .map(|&client| {
            let (program, outcomes) = StreamClient::new(to, plan.connections, plan.abreast, plan.octets);
            world.host_mut(client).spawn("client", 0, Box::new(program));
            outcomes
        })
        .collect();
    world.run_until(END);

    let mut happened = (world.trace().hash(), 0, 0, 0);
    for outcomes in logs {
        let outcomes = outcomes.take();
        assert_eq!(outcomes.len(), plan.connections, "all streams are over: {outcomes:?}");
        for outcome in outcomes {
            match outcome {
                Outcome::Echoed => happened.1 += 1,
                Outcome::Failed(_) if !plan.gentle => happened.2 += 1,
                _ => panic!("{outcome:?}"),
            }
        }
    }
    for (_, host) in world.hosts() {
        host.check().expect("the books balance");
        assert!(host.tcp().is_empty() && host.tcp().waiting() == 0, "{:?}", host.tcp());
        assert_eq!(host.segments_waiting(), 0);
        happened.3 += host.tcp_counters().get(Counter::RetransSegs);
    }
    happened
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("the variable holds a number"))
}

#[test]
fn every_octet_comes_back_or_an_error_is_reported_and_nothing_is_left() {
    let seeds = match number("EVENKEEL_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("EVENKEEL_SEEDS").unwrap_or(SEEDS)).collect(),
    };
    let (mut echoed, mut failed, mut again) = (0, 0, 0);
    for &seed in &seeds {
        let plan = Plan::random(seed);
        for architecture in Architecture::ALL {
            let result = catch_unwind(AssertUnwindSafe(|| {
                let happened = run(&plan, architecture);
                if seed.is_multiple_of(16) {
                    assert_eq!(run(&plan, architecture), happened, "run again it is the same");
                }
                happened
            }));
            let Ok(happened) = result else {
                panic!(
                    "seed {seed} fails under {architecture}: {plan:#?}\nreplay it with\n\n    EVENKEEL_SEED={seed} cargo test -p evenkeel-sim --test tcp_worlds\n"
                );
            };
            echoed += happened.1;
            failed += happened.2;
            again += happened.3;
        }
    }
    println!("{echoed} streams echoed, {failed} failed, {again} segments sent again");
    assert!(seeds.len() < 50 || echoed > 20 * failed && again > 1_000, "{echoed}, {failed}, {again}");
}
