//! The hosts A and B and the router R, in network namespaces.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Command, Stdio};

use evenkeel_testing::{Program, words};
pub(crate) use evenkeel_testing::{Running, Scratch, attempt, run, wait_for};

/// The programs that these tests run, with the Debian packages that contain them.
const PROGRAMS: [Program; 7] = [
    ("ip", "iproute2"),
    ("ping", "iputils-ping"),
    ("traceroute", "traceroute"),
    ("iperf3", "iperf3"),
    ("ethtool", "ethtool"),
    ("nsenter", "util-linux"),
    ("capinfos", "wireshark-common"),
];

/// Runs `test` in a network namespace of its own, R.
pub(crate) fn in_namespace(also: &[Program], test: impl FnOnce() + Send + 'static) {
    evenkeel_testing::in_namespace(&[&PROGRAMS, also], test);
}

/// A host in its own network namespace, which ends with the process that holds it.
pub(crate) struct Host {
    holder: Running,
}

impl Host {
    pub(crate) fn new() -> Self {
        // This process ends by itself if the test is killed.
        let holder = Running(words("unshare -n sleep 300").spawn().unwrap());
        let host = Self { holder };
        let own = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let other = format!("/proc/{}/ns/net", host.pid());
        wait_for("a namespace", || std::fs::read_link(&other).is_ok_and(|link| link != own));
        wait_for("its `sleep`", || {
            std::fs::read_to_string(format!("/proc/{}/comm", host.pid()))
                .is_ok_and(|comm| comm.trim() == "sleep")
        });
        host.run("ip link set lo up");
        host.run("sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0");
        host
    }

    pub(crate) fn pid(&self) -> u32 {
        self.holder.0.id()
    }

    fn inside(&self, command: &str) -> String {
        format!("nsenter -t {} -n {command}", self.pid())
    }

    pub(crate) fn run(&self, command: &str) -> String {
        let is_ping = command.starts_with("ping ") && !command.contains(" -f ");
        if is_ping { self.ping(command) } else { run(&self.inside(command)) }
    }

    /// Runs a `ping` until all of its questions were answered, a few times at most.
    ///
    /// The kernel answers for all namespaces through one socket on each processor. While that is short of
    /// memory, because of other tests, answers are lost (`OutErrors` of `Icmp` in /proc/net/snmp).
    fn ping(&self, command: &str) -> String {
        const ATTEMPTS: u32 = 4;
        let inside = self.inside(command);
        let answered = |_| Some(attempt(&inside).1).filter(|said| said.contains(" 0% packet loss"));
        (1..ATTEMPTS).find_map(answered).unwrap_or_else(|| run(&inside))
    }

    pub(crate) fn attempt(&self, command: &str) -> (bool, String) {
        attempt(&self.inside(command))
    }

    pub(crate) fn spawn(&self, command: &str) -> Running {
        let mut command = words(&self.inside(command));
        Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Creates a link from R (`ours`) to the host (`theirs`), and gives the host's end its addresses.
    pub(crate) fn link(&self, ours: &str, theirs: &str, net: u8) {
        run(&format!("ip link add {ours} type veth peer name {theirs} netns {}", self.pid()));
        run(&format!("ip link set {ours} up"));
        self.run(&format!("ip addr add 10.0.{net}.2/24 dev {theirs}"));
        self.run(&format!("ip addr add fd00:{net}::2/64 dev {theirs} nodad"));
        self.run(&format!("ip link set {theirs} up"));
    }

    pub(crate) fn default_route(&self, net: u8) {
        self.run(&format!("ip route add default via 10.0.{net}.1"));
        self.run(&format!("ip route add default via fd00:{net}::1"));
    }

    /// Returns the number of packets that a device of the host has received.
    pub(crate) fn received(&self, device: &str) -> u64 {
        let shown = self.run(&format!("ip -s -j link show dev {device}"));
        let links: serde_json::Value = serde_json::from_str(&shown).unwrap();
        links[0]["stats64"]["rx"]["packets"].as_u64().unwrap()
    }
}

/// A router that runs in R.
pub(crate) struct Router {
    child: Option<Child>,
    /// The router's standard error while it runs.
    said: Option<BufReader<ChildStderr>>,
    /// The router's messages before its first line of counters.
    at_start: String,
}

impl Router {
    /// Starts `evenkeel route` and waits until it forwards.
    pub(crate) fn start(arguments: &str) -> Self {
        Self::start_as(&[], arguments)
    }

    /// Starts `evenkeel route` through another command, `before`, and waits until it forwards.
    pub(crate) fn start_as(before: &[&str], arguments: &str) -> Self {
        let binary = env!("CARGO_BIN_EXE_evenkeel");
        let mut words: Vec<&str> = before.to_vec();
        // The time is limited so that the test does not wait for ever.
        words.extend([binary, "route", "--json", "--stats-interval", "100ms", "--duration", "60s"]);
        words.extend(arguments.split_whitespace());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = Some(BufReader::new(child.stderr.take().unwrap()));
        let mut router = Self { child: Some(child), said, at_start: String::new() };
        // The first line of counters shows that the router runs.
        router.at_start = router.read_until("forwarded").0;
        router
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Returns the router's messages before its first line of counters.
    pub(crate) fn said_at_start(&self) -> &str {
        &self.at_start
    }

    /// Reads the router's messages up to a line that contains `sign`, and returns that line.
    pub(crate) fn wait_until_said(&mut self, sign: &str) -> String {
        self.read_until(sign).1
    }

    /// Reads the router's messages up to a line that contains `sign`. Returns the lines before it, and
    /// that line.
    fn read_until(&mut self, sign: &str) -> (String, String) {
        let said = self.said.as_mut().unwrap();
        let mut all = String::new();
        loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).unwrap() > 0, "it ended without `{sign}`: {all}");
            if line.contains(sign) {
                return (all, line);
            }
            all.push_str(&line);
        }
    }

    /// Makes the router read its files again, and returns the next line of its messages that contains
    /// `sign`.
    pub(crate) fn reload(&mut self, sign: &str) -> String {
        run(&format!("kill -HUP {}", self.pid()));
        self.wait_until_said(sign)
    }

    /// Ends the router, and returns its report; asserts that every frame is accounted for.
    pub(crate) fn stop(mut self) -> serde_json::Value {
        run(&format!("kill -INT {}", self.pid()));
        let mut rest = String::new();
        self.said.take().unwrap().read_to_string(&mut rest).unwrap();
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        assert!(output.status.success(), "{rest}");
        let done = crate::common::report(&["route"], output.stdout);
        assert_eq!(done["counters"]["conserved"], true, "{done}");
        done
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
