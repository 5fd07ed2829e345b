//! The hosts A and B and the router R, in network namespaces.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Command, Stdio};

use evenkeel_testing::{Program, words};
pub(crate) use evenkeel_testing::{Running, Scratch, attempt, run, wait_for};

/// What these tests run.
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

/// A host: a namespace of its own, which ends with the process that holds it.
pub(crate) struct Host {
    holder: Running,
}

impl Host {
    pub(crate) fn new() -> Self {
        // Should the test be killed, this ends by itself.
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
        run(&self.inside(command))
    }

    pub(crate) fn attempt(&self, command: &str) -> (bool, String) {
        attempt(&self.inside(command))
    }

    pub(crate) fn spawn(&self, command: &str) -> Running {
        let mut command = words(&self.inside(command));
        Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// A link from R (`ours`) to the host (`theirs`), where it has addresses and a default route to the
    /// router's.
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

    /// Packets the host's device has received.
    pub(crate) fn received(&self, device: &str) -> u64 {
        let shown = self.run(&format!("ip -s -j link show dev {device}"));
        let links: serde_json::Value = serde_json::from_str(&shown).unwrap();
        links[0]["stats64"]["rx"]["packets"].as_u64().unwrap()
    }
}

/// A router that runs in R.
pub(crate) struct Router {
    child: Option<Child>,
    /// What it says while it runs.
    said: Option<BufReader<ChildStderr>>,
    /// What it said before it ran.
    at_start: String,
}

impl Router {
    /// Starts `evenkeel route` and waits until it forwards.
    pub(crate) fn start(arguments: &str) -> Self {
        Self::start_as(&[], arguments)
    }

    /// The same, by another command.
    pub(crate) fn start_as(before: &[&str], arguments: &str) -> Self {
        let binary = env!("CARGO_BIN_EXE_evenkeel");
        let mut words: Vec<&str> = before.to_vec();
        // Bounded, so that what never comes is not waited for for ever.
        words.extend([binary, "route", "--json", "--stats-interval", "100ms", "--duration", "60s"]);
        words.extend(arguments.split_whitespace());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = Some(BufReader::new(child.stderr.take().unwrap()));
        let mut router = Self { child: Some(child), said, at_start: String::new() };
        // The first line of counters: it runs.
        router.at_start = router.read_until("forwarded").0;
        router
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// What it said before its first line of counters.
    pub(crate) fn said_at_start(&self) -> &str {
        &self.at_start
    }

    /// Reads what it says until that contains `sign`; gives the line.
    pub(crate) fn wait_until_said(&mut self, sign: &str) -> String {
        self.read_until(sign).1
    }

    /// The same; gives also what came before.
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

    /// Asks it to read its files again, and gives what it says to that.
    pub(crate) fn reload(&mut self, sign: &str) -> String {
        run(&format!("kill -HUP {}", self.pid()));
        self.wait_until_said(sign)
    }

    /// Ends it; gives what it has done. Every frame is accounted for.
    pub(crate) fn stop(mut self) -> serde_json::Value {
        run(&format!("kill -INT {}", self.pid()));
        let mut rest = String::new();
        self.said.take().unwrap().read_to_string(&mut rest).unwrap();
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        assert!(output.status.success(), "{rest}");
        let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
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
