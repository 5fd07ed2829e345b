//! Screening rules: the forwarding rate of a router with few and many rules, the time of a decision, and the
//! time to read rules.
//!
//! `cargo bench -p evenkeel-apps --bench screening` prints three tables. `-- forward`, `-- decide` or `--
//! read` selects one of them; further words select kinds of rules by words in their names. `-- --rounds 9`
//! gives more rounds. `-- --count KIND RULES TRAFFIC` only decides, for `valgrind --tool=callgrind
//! --toggle-collect=*decide_all*`.
//!
//! Rules and packets are drawn at random, always the same sequence. Sets of different sizes alternate, so
//! that a noisy minute affects all of them. The tables show medians, and the ratio of each to that of one
//! rule of its kind. A set is the beginning of the next larger one, and all get the packets drawn for the
//! largest.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may fail, and prints its table")]

mod draw;

use std::net::IpAddr;

use draw::{KINDS, Kind, Traffic};
use evenkeel::raw::cpu::thread_cpu_time;
use evenkeel::raw::host::Config;
use evenkeel::raw::time::{Clock, Duration};
use evenkeel_apps::route::active_rules::{ActiveRules, Text};
use evenkeel_apps::route::flood::{Flood, flood};
use evenkeel_apps::route::rules::{Compiled, Counters, RuleSet, Surroundings};

const COUNTS: [usize; 4] = [1, 100, 1_000, 10_000];
const MOST: usize = 10_000;
const EACH: Duration = Duration::from_millis(250);
const LINKS: [&str; 2] = ["lan", "wan"];

/// A router without addresses, whose route to everything leads back to the packet's link.
struct Around;

impl Surroundings for Around {
    fn is_routed(&self, _address: IpAddr) -> bool {
        true
    }
    fn leads_back(&self, _source: IpAddr) -> bool {
        true
    }
    fn interfaces(&self) -> u8 {
        2
    }
    fn addresses(&self, _interface: u8) -> impl Iterator<Item = (IpAddr, u8)> {
        std::iter::empty()
    }
    fn random(&mut self) -> u32 {
        0
    }
}

fn compiled(text: &str) -> Compiled {
    let mut set = RuleSet::parse("rules", text).unwrap();
    set.bind(&LINKS).unwrap();
    Compiled::new(set)
}

/// Decides about all packets, and returns the number that a rule decided.
#[inline(never)]
fn decide_all(rules: &Compiled, packets: &[Vec<u8>], tally: &Counters) -> usize {
    packets.iter().filter(|packet| rules.decide(packet, 0, &mut Around, tally).rule.is_some()).count()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A contender: rules, its packets, and its measurements.
struct Contender {
    name: String,
    text: Option<String>,
    packets: Vec<Vec<u8>>,
    measured: Vec<f64>,
    /// The number of packets that rules decided.
    decided: usize,
}

fn contenders(kind: &Kind, traffic: Traffic) -> Vec<Contender> {
    let rules = kind.draw(MOST);
    let packets = draw::packets(&rules, traffic);
    let text = |count: usize| rules[..count].iter().map(|rule| rule.text()).collect::<String>();
    let contender = |name: String, text: Option<String>| Contender {
        name,
        text,
        packets: packets.clone(),
        measured: vec![],
        decided: 0,
    };
    let counts = COUNTS.map(|count| contender(format!("{count}"), Some(text(count))));
    counts.into_iter().collect()
}

fn ratios(contenders: &[Contender], unit: &str, is_rate: bool) {
    let one = median(contenders[0].measured.clone());
    for Contender { name, measured, decided, .. } in contenders {
        let value = median(measured.clone());
        let ratio = if is_rate { value / one } else { one / value };
        println!("    {name:>28} {value:>12.1} {unit}  {ratio:>6.3}  {decided:>6} rules decided");
    }
}

fn forward(kinds: &[&Kind], rounds: usize) {
    println!("forwarded, by a router that is offered more than it can forward (ratio to one rule)");
    for (kind, traffic) in kinds.iter().flat_map(|kind| Traffic::ALL.map(|traffic| (kind, traffic))) {
        println!("  {}, packets {}", kind.name, traffic.name());
        let mut all = contenders(kind, traffic);
        let packets = all[0].packets.clone();
        let contender = |name: &str, text: Option<String>| Contender {
            name: name.to_owned(),
            text,
            packets: packets.clone(),
            measured: vec![],
            decided: 0,
        };
        all.push(contender("no screening", None));
        all.push(contender("0", Some(String::new())));
        all.push(contender("1, table of 100 000 prefixes", Some(draw::table(100_000))));
        for _ in 0..rounds {
            for contender in &mut all {
                contender.flood();
            }
        }
        ratios(&all, "kpackets/s", true);
    }
}

impl Contender {
    fn flood(&mut self) {
        let flooded = flood(
            &Flood {
                config: Config::default(),
                rules: self.text.clone().map(|text| Text { file: "rules".into(), text }),
                packets: self.packets.clone(),
                screen_queue_pkts: 256,
                rates_pps: vec![None],
                each: EACH,
                reports: None,
            },
            |_| {},
        );
        // The run was interrupted.
        let Some(step) = flooded.unwrap().steps.pop() else { std::process::exit(1) };
        self.decided = step.rules.iter().filter(|rule| rule.packets > 0).count();
        // Other programs take the core from the router for part of the time, so the rate counts per core
        // time.
        self.measured.push(step.forwarded_pps / step.core_share / 1e3);
    }
}

fn decide(kinds: &[&Kind], rounds: usize) {
    println!("a decision (ratio to one rule)");
    for (kind, traffic) in kinds.iter().flat_map(|kind| Traffic::ALL.map(|traffic| (kind, traffic))) {
        println!("  {}, packets {}", kind.name, traffic.name());
        let mut all = contenders(kind, traffic);
        let compiled: Vec<_> =
            all.iter().map(|one| compiled(one.text.as_deref().unwrap_or_default())).collect();
        let tallies: Vec<_> = compiled.iter().map(|rules| Counters::new(rules.set())).collect();
        for _ in 0..rounds * 4 {
            for ((contender, rules), tally) in all.iter_mut().zip(&compiled).zip(&tallies) {
                let start = thread_cpu_time();
                decide_all(rules, &contender.packets, tally);
                let took = thread_cpu_time().saturating_sub(start);
                contender.measured.push(took.as_secs_f64() * 1e9 / contender.packets.len() as f64);
                contender.decided = tally.counts().iter().filter(|count| count.packets > 0).count();
            }
        }
        ratios(&all, "ns", false);
    }
}

/// Returns the memory of the process in bytes.
fn memory() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<f64>().unwrap() * 4096.0
}

fn read(kinds: &[&Kind]) {
    println!("reading and compiling, and reading again for one reader");
    let clock = Clock::start();
    for kind in kinds {
        let rules = kind.draw(100_000);
        for count in [1_000, 10_000, 100_000] {
            let text: String = rules[..count].iter().map(|rule| rule.text()).collect();
            let text = Text { file: "rules".into(), text };
            let (before, start) = (memory(), clock.now());
            let active = ActiveRules::open(&text, LINKS.map(str::to_owned).into(), 1).unwrap();
            let (opened, used) = (clock.now().since(start), memory() - before);
            let start = clock.now();
            active.replace(&text).unwrap();
            let replaced = clock.now().since(start);
            let each = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
            println!(
                "  {:>24} {count:>8} rules: {:>6.2} µs a rule to read, {:>6.2} again; {:>6.0} bytes a rule",
                kind.name,
                each(opened),
                each(replaced),
                used / count as f64
            );
        }
    }
}

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let Some([kind, count, traffic]) = words.strip_prefix(&["--count".to_owned()]) {
        let kind = KINDS.iter().find(|known| known.name == *kind).unwrap();
        let traffic = Traffic::ALL.into_iter().find(|known| known.name() == *traffic).unwrap();
        let rules = kind.draw(MOST);
        let packets = draw::packets(&rules, traffic);
        let count: usize = count.parse().unwrap();
        let text: String = rules[..count].iter().map(|rule| rule.text()).collect();
        let rules = compiled(&text);
        let decided = decide_all(&rules, &packets, &Counters::new(rules.set()));
        println!("{} packets, {decided} by a rule", packets.len());
        return;
    }
    let rounds = words.iter().position(|word| word == "--rounds").map_or(5, |at| {
        words.remove(at);
        words.remove(at).parse().unwrap()
    });
    let tables = ["forward", "decide", "read"];
    let (chosen, names): (Vec<_>, Vec<_>) = words.iter().partition(|word| tables.contains(&word.as_str()));
    let is_chosen = |table: &str| chosen.is_empty() || chosen.iter().any(|word| *word == table);
    let is_named =
        |kind: &&Kind| names.is_empty() || names.iter().any(|word| kind.name.contains(word.as_str()));
    let kinds: Vec<&Kind> = KINDS.iter().filter(is_named).collect();
    if is_chosen("decide") {
        decide(&kinds, rounds);
    }
    if is_chosen("read") {
        read(&kinds);
    }
    if is_chosen("forward") {
        forward(&kinds, rounds);
    }
}
