//! Commands as services: their messages to the service manager, the user that they become, and their units.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::fs::{self, Permissions};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{command, pause, signal};
use evenkeel_testing::{Program, has_xdp, in_namespace, run, wait_for};

const PROGRAMS: [Program; 3] = [("ip", "iproute2"), ("ping", "iputils-ping"), ("setpriv", "util-linux")];
/// The user that services become, and its number.
const USER: (&str, u32) = ("nobody", 65_534);

/// A directory that is removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("evenkeel-service-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns what a command prints to the journal, until it ends or has printed a line.
fn journal_of(arguments: &[&str]) -> String {
    let directory = Directory::new(&format!("journal-{}", arguments[0]));
    let path = directory.write("journal", "");
    let facts = fs::metadata(&path).unwrap();
    let mut child = command(arguments)
        .env("JOURNAL_STREAM", format!("{}:{}", facts.dev(), facts.ino()))
        .stdout(Stdio::null())
        .stderr(fs::File::options().append(true).open(&path).unwrap())
        .spawn()
        .unwrap();
    wait_for("a line", || fs::read_to_string(&path).unwrap().ends_with('\n'));
    child.kill().unwrap();
    child.wait().unwrap();
    fs::read_to_string(path).unwrap()
}

/// The journal has the name of the program, and wants the level.
#[test]
fn lines_for_the_journal_have_their_level() {
    let began = journal_of(&["metrics", "--listen", "127.0.0.1:0"]);
    assert!(began.starts_with("<6>") && began.contains("127.0.0.1"), "{began}");
    let failed = journal_of(&["route", "--config", "/nowhere"]);
    assert!(failed.starts_with("<3>") && failed.contains("/nowhere"), "{failed}");
    // Another program's journal is not this one's.
    let output = command(&["route", "--config", "/nowhere"]).env("JOURNAL_STREAM", "1:2").output().unwrap();
    assert!(output.stderr.starts_with(b"evenkeel: "), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A service manager: the socket that it reads, and what it puts into the environment of a service.
struct Manager {
    socket: UnixDatagram,
    address: String,
}

impl Manager {
    /// Listens at an address without a file.
    fn new(name: &str) -> Self {
        let name = format!("evenkeel-{}-{name}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        Self::at(UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}"))
    }

    /// Listens at a file.
    fn at_file(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        Self::at(socket, path.to_str().unwrap().to_owned())
    }

    fn at(socket: UnixDatagram, address: String) -> Self {
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { socket, address }
    }

    /// Starts a command as a service.
    fn start(&self, command: &mut Command) -> Service<'_> {
        command.env("NOTIFY_SOCKET", &self.address).env_remove("XDG_RUNTIME_DIR");
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        Service { child: command.spawn().unwrap(), manager: self }
    }

    /// Returns the next message.
    fn next(&self) -> Option<String> {
        let mut message = [0; 4096];
        let length = self.socket.recv(&mut message).ok()?;
        Some(String::from_utf8(message[..length].to_vec()).unwrap())
    }
}

/// A command that runs until the test ends it.
struct Service<'a> {
    child: Child,
    manager: &'a Manager,
}

impl Service<'_> {
    /// Waits for a message that begins so, and returns it with those before it.
    fn expect(&mut self, begin: &str) -> Vec<String> {
        let mut messages = Vec::new();
        while let Some(message) = self.manager.next() {
            messages.push(message.clone());
            if message.starts_with(begin) {
                return messages;
            }
        }
        let _ = self.child.kill();
        panic!("no {begin}, but {messages:?}; {}", self.said());
    }

    fn said(&mut self) -> String {
        std::io::read_to_string(self.child.stderr.take().unwrap()).unwrap()
    }

    /// Ends the command as its manager does, and asserts that it reports that and succeeds.
    fn end(mut self) -> Vec<String> {
        signal(&self.child, "TERM");
        let messages = self.expect("STOPPING=1");
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.said());
        messages
    }

    /// Returns a field of the status of each thread.
    fn field(&self, name: &str) -> Vec<String> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let field = |status: String| {
            let line = status.lines().find(|line| line.split(':').next() == Some(name)).unwrap().to_owned();
            line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
        };
        threads
            .map(|entry| field(fs::read_to_string(entry.unwrap().path().join("status")).unwrap()))
            .collect()
    }

    fn assert_every_thread(&self, name: &str, expected: &str) {
        let fields = self.field(name);
        assert!(!fields.is_empty() && fields.iter().all(|field| field == expected), "{name}: {fields:?}");
    }
}

impl Drop for Service<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that needs no privilege.
const CABLE: [&str; 6] = ["echo", "cable", "--rate", "1k", "--duration", "60s"];

#[test]
fn readiness_state_and_end_are_reported_at_both_kinds_of_addresses() {
    let directory = Directory::new("notify");
    for manager in [Manager::new("notify"), Manager::at_file(&directory.0.join("socket"))] {
        let mut service = manager.start(&mut command(&CABLE));
        let before = service.expect("READY=1");
        assert!(before[0].starts_with("STATUS=listening on UDP port 7 of 10.77.0.2"), "{before:?}");
        service.end();
    }
}

#[test]
fn a_service_without_a_manager_or_with_one_that_is_gone_runs() {
    for address in ["", "@evenkeel-nobody-listens-here"] {
        let mut command = command(&["echo", "cable", "--rate", "1k", "--duration", "50ms"]);
        if !address.is_empty() {
            command.env("NOTIFY_SOCKET", address).env("WATCHDOG_USEC", "1000");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{address}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn signs_of_life_come_while_the_host_works_and_stop_when_it_is_stuck() {
    let manager = Manager::new("watchdog");
    let mut service = manager.start(command(&CABLE).env("WATCHDOG_USEC", "400000"));
    service.expect("READY=1");
    for _ in 0..3 {
        assert_eq!(service.expect("WATCHDOG=1").len(), 1);
    }
    service.end();
    // Nobody reads the lines, so that the host's thread waits when the pipe is full.
    let stuck = ["echo", "cable", "--rate", "1k", "--duration", "60s", "--stats-interval", "1ms"];
    let mut service = manager.start(command(&stuck).env("WATCHDOG_USEC", "400000"));
    service.expect("READY=1");
    manager.socket.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let last = std::iter::from_fn(|| manager.next()).last();
    assert_ne!(last.as_deref(), Some("STOPPING=1"), "the host was never stuck");
}

#[test]
fn a_watchdog_of_another_process_is_none() {
    let manager = Manager::new("other");
    let mut other = command(&CABLE);
    let mut service = manager.start(other.env("WATCHDOG_USEC", "1000").env("WATCHDOG_PID", "1"));
    service.expect("READY=1");
    (0..10).for_each(|_| pause());
    assert_eq!(service.end(), ["STOPPING=1"]);
}

/// Creates two veth pairs, `ra` with `rb` and `rc` with `rd`, in the namespace of this thread.
fn two_pairs() {
    for (near, far) in [("ra", "rb"), ("rc", "rd")] {
        run(&format!("ip link add {near} type veth peer name {far}"));
        run(&format!("ip link set {near} up"));
        run(&format!("ip link set {far} up"));
    }
}

const ROUTER: &str = "rules = \"rules.conf\"\n\
                      [[link]]\nname = \"lan\"\ndevice = \"packet:ra\"\naddress = \"10.0.1.1/24\"\n\
                      [[link]]\nname = \"wan\"\ndevice = \"packet:rc\"\naddress = \"10.0.2.1/24\"\n";

#[test]
fn a_reload_is_reported_from_its_begin_to_its_end() {
    in_namespace(&[&PROGRAMS], || {
        two_pairs();
        let directory = Directory::new("reload");
        let config = directory.write("router.toml", ROUTER);
        directory.write("rules.conf", "pass all\n");
        let manager = Manager::new("reload");
        let mut route = command(&["route", "--config", &config]);
        let mut service = manager.start(route.env("WATCHDOG_USEC", "400000"));
        service.expect("READY=1");
        service.expect("WATCHDOG=1");
        for (rules, state) in [("block all\n", "STATUS=read again: "), ("blok\n", "STATUS=rules.conf:1:1")] {
            directory.write("rules.conf", rules);
            signal(&service.child, "HUP");
            let reloading = service.expect("RELOADING=1").pop().unwrap();
            let micros = reloading.split_once("\nMONOTONIC_USEC=").unwrap().1;
            assert!(micros.parse::<u64>().unwrap() > 0, "{reloading}");
            let messages = service.expect("READY=1");
            let has_state =
                |message: &String| message.starts_with("STATUS=") && message.contains(&state[7..]);
            assert!(messages.iter().any(has_state), "{messages:?}");
        }
        service.end();
    });
}

/// Asserts that a service has become the user in all threads, with the capabilities in `kept`.
fn assert_has_left_root(service: &Service<'_>, kept: &str) {
    let (_, number) = USER;
    service.assert_every_thread("Uid", &[number.to_string().as_str(); 4].join(" "));
    service.assert_every_thread("Groups", "");
    service.assert_every_thread("NoNewPrivs", "1");
    for set in ["CapEff", "CapPrm"] {
        service.assert_every_thread(set, kept);
    }
    for set in ["CapInh", "CapAmb"] {
        service.assert_every_thread(set, "0000000000000000");
    }
}

/// The figures of a service that has become the user, which only root and that user can read.
fn assert_figures(service: &Service<'_>) -> PathBuf {
    let socket = PathBuf::from(format!("/run/evenkeel/user-{}/{}", USER.1, service.child.id()));
    assert_eq!(fs::metadata(&socket).unwrap().uid(), USER.1);
    let stats = command(&["stats", &service.child.id().to_string()]).env_remove("XDG_RUNTIME_DIR").output();
    let stats = stats.unwrap();
    assert!(stats.status.success(), "{}", String::from_utf8_lossy(&stats.stderr));
    socket
}

const NONE: &str = "0000000000000000";
const NET_RAW: &str = "0000000000002000";

#[test]
fn a_server_leaves_root_in_all_threads_and_still_serves() {
    in_namespace(&[&PROGRAMS], || {
        two_pairs();
        run("ip addr add 10.77.0.1/24 dev rb");
        let directory = Directory::new("server");
        let capture = directory.0.join("capture.pcapng");
        let capture = capture.to_str().unwrap();
        let mut links = vec!["packet:ra"];
        if has_xdp() {
            links.push("xdp:ra");
        }
        for link in links {
            let manager = Manager::new(link);
            let arguments = ["echo", link, "--user", USER.0, "--capture", capture];
            let mut service = manager.start(&mut command(&arguments));
            service.expect("READY=1");
            assert_has_left_root(&service, NONE);
            let socket = assert_figures(&service);
            run("ping -c 2 -W 5 10.77.0.2");
            service.end();
            assert!(!socket.exists(), "{}", socket.display());
        }
    });
}

#[test]
fn a_router_keeps_what_it_needs_to_open_a_device_that_returns() {
    in_namespace(&[&PROGRAMS], || {
        two_pairs();
        run("ip addr add 10.0.1.2/24 dev rb");
        let directory = Directory::new("router");
        let config = directory.write("router.toml", ROUTER);
        directory.write("rules.conf", "pass all\n");
        let manager = Manager::new("router");
        let mut service = manager.start(&mut command(&["route", "--config", &config, "--user", USER.0]));
        service.expect("READY=1");
        assert_has_left_root(&service, NET_RAW);
        run("ping -c 1 -W 5 10.0.1.1");
        run("ip link del ra");
        service.expect("STATUS=");
        run("ip link add ra type veth peer name rb");
        run("ip addr add 10.0.1.2/24 dev rb");
        run("ip link set rb up");
        run("ip link set ra up");
        common::wait_for("ping -c 1 -W 1 10.0.1.1");
        assert_has_left_root(&service, NET_RAW);
        let socket = assert_figures(&service);
        service.end();
        assert!(!socket.exists());
    });
}

#[test]
fn a_guard_reads_its_accounts_without_any_capability() {
    in_namespace(&[&PROGRAMS], || {
        if !has_xdp() {
            return;
        }
        two_pairs();
        let manager = Manager::new("guard");
        let arguments = ["guard", "ra", "--user", USER.0, "--stats-interval", "50ms"];
        let mut service = manager.start(command(&arguments).env("WATCHDOG_USEC", "400000"));
        service.expect("READY=1");
        assert_has_left_root(&service, NONE);
        // It tells the program in the kernel each new address.
        run("ip addr add 10.78.0.1/24 dev ra");
        service.expect("WATCHDOG=1");
        service.expect("WATCHDOG=1");
        service.end();
    });
}

#[test]
fn an_unknown_user_is_a_wrong_argument() {
    for (user, expected) in [("nobdy", "there is no user `nobdy`"), ("nobody:nogrp", "no group `nogrp`")] {
        let output = command(&["echo", "cable", "--user", user]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(expected), "{said}");
    }
}

/// The directory of the units.
const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
const DEFAULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/default");

/// A unit file of the package, as systemd reads it.
struct Unit(String);

impl Unit {
    fn read(name: &str) -> Self {
        let text = fs::read_to_string(format!("{UNITS}/{name}")).unwrap();
        Self(text.replace("\\\n", " "))
    }

    /// Returns the words of a setting that the unit has once.
    fn words(&self, setting: &str) -> Vec<String> {
        let lines = self.0.lines().filter_map(|line| line.split_once('='));
        let values: Vec<&str> = lines.filter(|(name, _)| *name == setting).map(|(_, value)| value).collect();
        assert_eq!(values.len(), 1, "{setting}");
        values[0].split_whitespace().map(str::to_owned).collect()
    }

    /// Returns the options that the file of the administrator has for the unit.
    fn options(&self) -> Vec<String> {
        let Some((_, file)) = self.0.split_once("EnvironmentFile=-/etc/default/") else { return vec![] };
        let text = fs::read_to_string(format!("{DEFAULTS}/{}", file.lines().next().unwrap())).unwrap();
        let options = text.lines().find_map(|line| line.strip_prefix("OPTIONS=")).unwrap();
        options.trim_matches('"').split_whitespace().map(str::to_owned).collect()
    }

    /// Returns the capabilities that the unit has.
    fn capabilities(&self) -> Vec<String> {
        let bounding = self.words("CapabilityBoundingSet");
        assert_eq!(bounding, self.words("AmbientCapabilities"));
        bounding
    }

    /// Returns the command of the unit for the interface `ra`, with its files below `directory`, as a user
    /// with these capabilities and nothing else.
    fn command(&self, program: &str, directory: &Directory, capabilities: &[String]) -> Command {
        let added = capabilities.iter().map(|name| name.replace("CAP_", ",+").to_lowercase());
        let capabilities = format!("-all{}", added.collect::<String>());
        let mut command = Command::new("setpriv");
        command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--no-new-privs"]);
        for set in ["inh-caps", "ambient-caps", "bounding-set"] {
            command.arg(format!("--{set}={capabilities}"));
        }
        let below = format!("{}/", directory.0.display());
        let mut words = self.words("ExecStart").into_iter();
        assert_eq!(words.next().as_deref(), Some("/usr/bin/evenkeel"));
        command.arg(program);
        for word in words {
            let word = word.replace("%I", "ra").replace("%i", "ra");
            match word.as_str() {
                "$OPTIONS" => command.args(self.options()),
                word => {
                    let word = word.replace("/etc/evenkeel/", &below).replace("/var/log/evenkeel/", &below);
                    command.arg(word)
                }
            };
        }
        command
    }
}

fn units() -> Vec<String> {
    let names = fs::read_dir(UNITS).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(".service")).collect();
    names.sort_unstable();
    names
}

/// Copies the program to where every user can run it.
fn program_for_all(directory: &Directory) -> String {
    let program = directory.0.join("evenkeel");
    fs::copy(env!("CARGO_BIN_EXE_evenkeel"), &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    program.to_str().unwrap().to_owned()
}

#[test]
fn each_unit_runs_with_the_capabilities_that_it_names_and_not_with_fewer() {
    in_namespace(&[&PROGRAMS], || {
        if !has_xdp() {
            return;
        }
        two_pairs();
        let directory = Directory::new("units");
        let program = program_for_all(&directory);
        let captures = directory.0.join("monitor-ra");
        fs::create_dir(&captures).unwrap();
        fs::set_permissions(&captures, Permissions::from_mode(0o777)).unwrap();
        directory.write("router.toml", ROUTER);
        directory.write("rules.conf", "pass all\n");
        directory.write("guard.toml", include_str!("../../../packaging/evenkeel/guard.toml"));
        directory
            .write("wan.toml", "delay = \"1ms\"\nlink = [\"packet:ra\", \"packet:rc\"]\nrealtime = true\n");
        let manager = Manager::new("units");
        for name in units() {
            let unit = Unit::read(&name);
            let capabilities = unit.capabilities();
            let mut command = unit.command(&program, &directory, &capabilities);
            let mut service = manager.start(command.env("WATCHDOG_USEC", "400000"));
            service.expect("READY=1");
            service.expect("WATCHDOG=1");
            if unit.0.contains("ExecReload=") {
                signal(&service.child, "HUP");
                service.expect("RELOADING=1");
                service.expect("READY=1");
            }
            service.end();
            for capability in &capabilities {
                let fewer: Vec<_> =
                    capabilities.iter().filter(|other| *other != capability).cloned().collect();
                let output = unit.command(&program, &directory, &fewer).output().unwrap();
                assert_eq!(output.status.code(), Some(1), "{name} runs without {capability}");
            }
        }
    });
}

#[test]
fn units_are_as_systemd_wants_them() {
    let Ok(_) = Command::new("systemd-analyze").arg("--version").output() else {
        let lack = evenkeel_skip::Lack::Program { program: "systemd-analyze", package: "systemd" };
        return evenkeel_skip::skip("units_are_as_systemd_wants_them", &lack);
    };
    let directory = Directory::new("verify");
    for entry in fs::read_dir(UNITS).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace("/usr/bin/evenkeel", env!("CARGO_BIN_EXE_evenkeel"));
        directory.write(path.file_name().unwrap().to_str().unwrap(), &text);
    }
    let paths = fs::read_dir(&directory.0).unwrap().map(|entry| entry.unwrap().path());
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(paths).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[test]
fn the_guide_shows_the_unit_of_the_router_as_it_is() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/service.md");
    let unit = fs::read_to_string(format!("{UNITS}/evenkeel-route.service")).unwrap();
    assert!(fs::read_to_string(page).unwrap().contains(&format!("```text\n{unit}```\n")), "{unit}");
}
