//! `evenkeel monitor` compared with `tcpdump`, on one processor, with packet generators on all others.
//!
//! Run `cargo bench -p evenkeel-cli --bench monitor` as root; `-- --rounds 5` gives more rounds. The two
//! programs alternate, so that a noisy minute affects both, and the table shows medians. There are three
//! settings. In the first, the kernel processes a packet on the processor that sends it. In the second, it
//! steers the packets (RPS) to the monitor's processor, which can then livelock. The third adds a program
//! that only computes to the second, so that the monitor has half of its processor, and a generator on one
//! other processor is enough to flood it. Both programs have the same filter. `tcpdump` runs with its default
//! buffer, and with a buffer as large as ours.
//!
//! Some of the offered packets do not reach the monitors' sockets, because the kernel's own queue for steered
//! packets is full. *Reached* is the program's count of packets that the filter accepted, including those
//! that were dropped later. *Captured* is the number of packets that it wrote.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may fail, and prints its table")]

use std::io::{Read as _, Write as _};
use std::net::UdpSocket;
use std::process::{Child, Command, ExitCode, Stdio};

use evenkeel::raw::cpu::{cpus, pin_to_cpu};
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel_apps::pace::Pace;
use rustix::net::sockopt;

/// The variable that marks the run in its own namespace.
const INSIDE: &str = "EVENKEEL_BENCH_INSIDE";
const SENDING: Duration = Duration::from_secs(1);
/// Offered packets a second; the last load is as high as possible.
const LOADS: [Option<u64>; 5] = [Some(100_000), Some(300_000), Some(600_000), Some(900_000), None];
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

/// A capturing program, and the file that it writes to.
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

/// A setting of the benchmark: the kernel's processor, and whether another program computes there.
#[derive(Debug, Clone, Copy)]
struct Setting {
    name: &'static str,
    steered: bool,
    beside: bool,
}

const SETTINGS: [Setting; 3] = [
    Setting { name: "the kernel works where packets are made", steered: false, beside: false },
    Setting { name: "the kernel works on the monitor's processor", steered: true, beside: false },
    Setting { name: "and a program computes beside the monitor", steered: true, beside: true },
];

/// The results of one run, with rates in packets a second.
#[derive(Debug, Clone, Copy, Default)]
struct Outcome {
    offered_pps: f64,
    reached_pps: f64,
    captured_pps: f64,
    /// CPU time of the program for a captured packet, in nanoseconds. The kernel also charges it for
    /// interrupts that hit it.
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
    // No station has this address. The kernel's own stack drops the frames as another station's.
    run("ip neigh add 10.77.0.1 lladdr 02:00:00:00:00:09 dev far");
    let processors = cpus();
    println!("packets a second, and CPU time of the program for one captured; medians of {rounds} rounds");
    for setting in SETTINGS {
        let mask = if setting.steered { 1_u64 << processors[0] } else { 0 };
        std::fs::write("/sys/class/net/near/queues/rx-0/rps_cpus", format!("{mask:x}")).unwrap();
        println!("\n{}", setting.name);
        println!(
            "{:<28} {:>10} {:>10} {:>10} {:>7} {:>8}",
            "", "offered", "reached", "captured", "share", "ns each"
        );
        for load in LOADS {
            let mut outcomes = vec![Vec::new(); CONTENDERS.len()];
            for _ in 0..rounds {
                for (contender, outcomes) in CONTENDERS.iter().zip(&mut outcomes) {
                    outcomes.push(contender.run(setting, load, &processors));
                }
            }
            for (contender, outcomes) in CONTENDERS.iter().zip(&outcomes) {
                contender.report(outcomes);
            }
        }
    }
    std::env::set_current_dir("/").unwrap();
    let _ = std::fs::remove_dir_all(folder);
}

impl Contender {
    fn report(&self, outcomes: &[Outcome]) {
        let median = |value: fn(&Outcome) -> f64| {
            let mut values: Vec<f64> = outcomes.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        println!(
            "{:<28} {:>10.0} {:>10.0} {:>10.0} {:>5.1} % {:>8.0}",
            self.name,
            median(|o| o.offered_pps),
            median(|o| o.reached_pps),
            median(|o| o.captured_pps),
            100.0 * median(|o| o.captured_pps / o.offered_pps),
            median(|o| o.nanos)
        );
    }

    fn run(&self, setting: Setting, load: Option<u64>, processors: &[usize]) -> Outcome {
        let [monitors, generators @ ..] = processors else { panic!("no processor") };
        let _beside = setting.beside.then(|| Computing::on(*monitors));
        let mut command = Command::new("taskset");
        command.args(["-c", &monitors.to_string()]);
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
        pause(Duration::from_millis(300));
        let before = cpu_nanos(&child);
        let (sent, seconds) = send_from(generators, load);
        pause(Duration::from_millis(300));
        let used = cpu_nanos(&child) - before;
        let (captured, reached) = stop(&mut child);
        Outcome {
            offered_pps: sent as f64 / seconds,
            reached_pps: reached as f64 / seconds,
            captured_pps: captured as f64 / seconds,
            nanos: used / captured.max(1) as f64,
        }
    }
}

/// A program that only computes, until the value is dropped.
struct Computing(Child);

impl Computing {
    fn on(processor: usize) -> Self {
        let mut command = Command::new("taskset");
        command.args(["-c", &processor.to_string(), "sh", "-c", "while :; do :; done"]);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "other processes are waited for, which tell nobody when they are ready"
)]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Interrupts the program. Returns the numbers of captured packets and of packets that its filter accepted.
fn stop(child: &mut Child) -> (u64, u64) {
    run(&format!("kill -INT {}", child.id()));
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    let number = |what: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_suffix(what)).and_then(|number| number.trim().parse().ok())
    };
    number(" packets captured").zip(number(" packets received by filter")).unwrap_or_else(|| panic!("{text}"))
}

/// Returns the CPU time that a process and its threads have used, in nanoseconds
/// (`/proc/PID/task/TID/schedstat`).
fn cpu_nanos(child: &Child) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let used = |path| -> f64 {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or_default()
    };
    threads.map(|thread| used(thread.unwrap().path().join("schedstat"))).sum()
}

/// Datagrams in one system call: as many as fit into 64 KiB, at most 64 before Linux 6.
const SEGMENTS: u64 = 60;
const PAYLOAD: u16 = 18;
const IN_FLIGHT_BYTES: usize = 256 << 20;

/// Sends from all these processors; returns the number of packets and the seconds.
fn send_from(processors: &[usize], load: Option<u64>) -> (u64, f64) {
    let load = load.map(|load| load / processors.len() as u64);
    let threads: Vec<_> =
        processors.iter().map(|&processor| std::thread::spawn(move || send(load, processor))).collect();
    let all = threads.into_iter().map(|thread| thread.join().unwrap());
    all.fold((0, 0.0), |(sum, longest), (sent, seconds)| (sum + sent, seconds.max(longest)))
}

/// Sends datagrams and returns their number and the seconds it took. The kernel segments large datagrams into
/// small ones, which makes this the fastest generator.
fn send(load: Option<u64>, processor: usize) -> (u64, f64) {
    let _ = pin_to_cpu(processor);
    let clock = Clock::start();
    let socket = UdpSocket::bind("10.77.0.2:0").unwrap();
    // With a small buffer the generator would wait while packets wait for the monitor's processor, and those
    // would count as not sent.
    sockopt::set_socket_send_buffer_size_force(&socket, IN_FLIGHT_BYTES).unwrap();
    evenkeel::raw::kernel::send_in_segments(&socket, PAYLOAD).unwrap();
    let payload = vec![0; usize::from(PAYLOAD) * SEGMENTS as usize];
    let start = clock.now();
    let mut pace =
        load.map_or_else(|| Pace::unlimited(1, start), |rate| Pace::new(rate / SEGMENTS, 4, start));
    let (mut sent, mut now): (u64, Instant) = (0, start);
    while now < start + SENDING {
        for _ in 0..pace.take(now) {
            // A full queue refuses the datagram, which limits the generator.
            sent += u64::from(socket.send_to(&payload, "10.77.0.1:9").is_ok());
        }
        now = clock.spin_until(pace.next().min(start + SENDING));
    }
    (sent * SEGMENTS, now.since(start).as_secs_f64())
}
