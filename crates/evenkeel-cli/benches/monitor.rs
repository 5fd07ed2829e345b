//! `evenkeel monitor` beside `tcpdump`, on one processor, with a packet generator on another.
//!
//! `cargo bench -p evenkeel-cli --bench monitor` as root; `-- --rounds 5` for more rounds. They take turns, so that a noisy minute hits both,
//! and what is shown is the median. Each load is offered twice: with the kernel's own work for a packet done where the generator runs, and
//! steered (RPS) to the processor of the monitor, which then can livelock. Both get the same filter; `tcpdump` is run as it comes, and with a
//! buffer as large as ours.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may fail, and prints its table")]

use std::io::{Read as _, Write as _};
use std::net::UdpSocket;
use std::process::{Child, Command, ExitCode, Stdio};

use evenkeel::core::time::{Duration, Instant};
use evenkeel::link::{Clock, cpus, pin_to_cpu};
use evenkeel_apps::pace::Pace;

/// Set for the run in a namespace of its own.
const INSIDE: &str = "EVENKEEL_BENCH_INSIDE";
const SENDING: Duration = Duration::from_secs(1);
/// Offered packets a second; the last is as many as can be.
const LOADS: [Option<u64>; 4] = [Some(50_000), Some(200_000), Some(400_000), None];
const FILTER: &str = "udp port 9";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if std::env::var_os(INSIDE).is_some() {
        compare(rounds(&arguments));
        return ExitCode::SUCCESS;
    }
    for (program, package) in
        [("tcpdump", "tcpdump"), ("taskset", "util-linux"), ("ip", "iproute2"), ("ethtool", "ethtool")]
    {
        if Command::new(program).arg("-h").output().is_err() {
            return skip(&format!("there is no `{program}`: install {package}"));
        }
    }
    if cpus().len() < 2 {
        return skip("one processor is not enough");
    }
    let this = std::env::current_exe().unwrap();
    let inside =
        Command::new("unshare").args(["-n", "-m"]).arg(this).args(&arguments).env(INSIDE, "1").status();
    match inside {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => skip("needs root, and a network namespace of its own"),
    }
}

fn skip(why: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "SKIPPED ({why}): monitor");
    ExitCode::SUCCESS
}

fn rounds(arguments: &[String]) -> usize {
    let given = arguments.iter().skip_while(|a| *a != "--rounds").nth(1);
    given.and_then(|rounds| rounds.parse().ok()).unwrap_or(3)
}

fn run(line: &str) {
    let mut words = line.split_whitespace();
    let status = Command::new(words.next().unwrap()).args(words).status().unwrap();
    assert!(status.success(), "{line}");
}

/// A program that captures, with what it writes to.
#[derive(Debug, Clone, Copy)]
struct Contender {
    name: &'static str,
    arguments: &'static [&'static str],
    evenkeel: bool,
}

const CONTENDERS: [Contender; 6] = [
    contender("tcpdump /dev/null", &["-w", "/dev/null"]),
    contender("tcpdump -B 32768 /dev/null", &["-B", "32768", "-w", "/dev/null"]),
    contender("evenkeel /dev/null", &["-w", "/dev/null"]),
    contender("tcpdump file", &["-w", "capture.pcap"]),
    contender("tcpdump -B 32768 file", &["-B", "32768", "-w", "capture.pcap"]),
    contender("evenkeel file", &["-w", "capture.pcapng"]),
];

const fn contender(name: &'static str, arguments: &'static [&'static str]) -> Contender {
    Contender { name, arguments, evenkeel: matches!(name.as_bytes(), [b'e', ..]) }
}

/// What came of one run.
#[derive(Debug, Clone, Copy, Default)]
struct Outcome {
    offered_pps: f64,
    captured_pps: f64,
    /// CPU time of the program for a captured packet, in nanoseconds.
    nanos: f64,
}

fn compare(rounds: usize) {
    let folder = std::env::temp_dir().join(format!("evenkeel-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::env::set_current_dir(&folder).unwrap();
    run("mount -t sysfs none /sys");
    run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
    run("ip link add near type veth peer name far");
    run("ip link set near up");
    run("ip link set far up");
    run("ethtool -K far tx-udp-segmentation off");
    run("ip addr add 10.77.0.2/24 dev far");
    // A station that is not there: the kernel's own stack drops what comes as somebody else's.
    run("ip neigh add 10.77.0.1 lladdr 02:00:00:00:00:09 dev far");
    let processors = cpus();
    println!(
        "offered and captured packets a second, CPU time of the program for one captured; medians of {rounds} rounds"
    );
    for steered in [false, true] {
        let mask = if steered { 1_u64 << processors[0] } else { 0 };
        std::fs::write("/sys/class/net/near/queues/rx-0/rps_cpus", format!("{mask:x}")).unwrap();
        println!(
            "\nthe kernel's work is done {}",
            if steered { "on the monitor's processor" } else { "where the generator runs" }
        );
        println!("{:<28} {:>10} {:>10} {:>7} {:>8}", "", "offered/s", "captured/s", "share", "ns each");
        for load in LOADS {
            let mut outcomes = vec![Vec::new(); CONTENDERS.len()];
            for _ in 0..rounds {
                for (contender, outcomes) in CONTENDERS.iter().zip(&mut outcomes) {
                    outcomes.push(contender.run(load, &processors));
                }
            }
            for (contender, outcomes) in CONTENDERS.iter().zip(&outcomes) {
                let median = |value: fn(&Outcome) -> f64| {
                    let mut values: Vec<f64> = outcomes.iter().map(value).collect();
                    values.sort_by(f64::total_cmp);
                    values[values.len() / 2]
                };
                println!(
                    "{:<28} {:>10.0} {:>10.0} {:>5.1} % {:>8.0}",
                    contender.name,
                    median(|o| o.offered_pps),
                    median(|o| o.captured_pps),
                    100.0 * median(|o| o.captured_pps / o.offered_pps),
                    median(|o| o.nanos)
                );
            }
        }
    }
    std::env::set_current_dir("/").unwrap();
    let _ = std::fs::remove_dir_all(folder);
}

impl Contender {
    fn run(&self, load: Option<u64>, processors: &[usize]) -> Outcome {
        let mut command = Command::new("taskset");
        command.args(["-c", &processors[0].to_string()]);
        if self.evenkeel {
            command.args([env!("CARGO_BIN_EXE_evenkeel"), "monitor", "packet:near"]);
        } else {
            command.args(["tcpdump", "-Z", "root", "-n", "-i", "near"]);
        }
        command.args(self.arguments).arg(FILTER).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        while !std::fs::read_to_string("/proc/thread-self/net/packet").unwrap().contains(" 0003 ") {
            pause(Duration::from_millis(20));
        }
        pause(Duration::from_millis(200));
        let (processor, before) = (processors[1], cpu_nanos(&child));
        let (sent, seconds) = std::thread::spawn(move || send(load, processor)).join().unwrap();
        pause(Duration::from_millis(300));
        let used = cpu_nanos(&child) - before;
        let captured = stop(&mut child);
        Outcome {
            offered_pps: sent as f64 / seconds,
            captured_pps: captured as f64 / seconds,
            nanos: used / captured.max(1) as f64,
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "other processes are waited for, which tell nobody when they are ready"
)]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Interrupts it; gives the packets it says it has captured.
fn stop(child: &mut Child) -> u64 {
    run(&format!("kill -INT {}", child.id()));
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    let captured = text.lines().find_map(|line| line.strip_suffix(" packets captured"));
    captured.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

/// CPU time that a process has used, its threads included (proc(5): utime and stime, in ticks of 10 ms).
fn cpu_nanos(child: &Child) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: f64 = fields[11..13].iter().map(|field| field.parse::<f64>().unwrap()).sum();
    ticks * 1e7
}

/// Datagrams in one system call: as many as fit into 64 KiB, at most 64 before Linux 6.
const SEGMENTS: u64 = 60;
const PAYLOAD: u16 = 18;

/// Sends, and says how many and how long. The kernel cuts large datagrams into small ones: no other generator is as fast.
fn send(load: Option<u64>, processor: usize) -> (u64, f64) {
    let _ = pin_to_cpu(processor);
    let clock = Clock::start();
    let socket = UdpSocket::bind("10.77.0.2:0").unwrap();
    evenkeel::link::send_in_segments(&socket, PAYLOAD).unwrap();
    let payload = vec![0; usize::from(PAYLOAD) * SEGMENTS as usize];
    let start = clock.now();
    let mut pace =
        load.map_or_else(|| Pace::unlimited(1, start), |rate| Pace::new(rate / SEGMENTS, 4, start));
    let (mut sent, mut now): (u64, Instant) = (0, start);
    while now < start + SENDING {
        for _ in 0..pace.take(now) {
            // Full queues are the generator's limit.
            sent += u64::from(socket.send_to(&payload, "10.77.0.1:9").is_ok());
        }
        now = clock.spin_until(pace.next().min(start + SENDING));
    }
    (sent * SEGMENTS, now.since(start).as_secs_f64())
}
