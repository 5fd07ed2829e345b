//! The guard's configuration file, and SIGHUP.

use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::path::PathBuf;
use std::process::{ChildStderr, Stdio};

use evenkeel_testing::{run, wait_for};

use crate::common::{command, signal};
use crate::{FLOOD_PKTS, FLOODED, Guard, OTHER, account, at_veth, drain};

/// A file that is removed when it is dropped.
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A guard with a configuration file, and what it says.
struct Configured {
    guard: Guard,
    file: File,
    said: Lines<BufReader<ChildStderr>>,
}

impl Configured {
    fn start(text: &str) -> Self {
        let (process, thread) = (std::process::id(), std::thread::current().id());
        let file = File(std::env::temp_dir().join(format!("evenkeel-guard-{process}-{thread:?}.toml")));
        fs::write(&file.0, text).unwrap();
        let mut command = command(&["guard", "gd0", "--json", "--config"]);
        command.arg(&file.0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap()).lines();
        wait_for("the guard", || run("ip link show gd0").contains("prog/xdp"));
        Self { guard: Guard(child), file, said }
    }

    /// Writes the file anew, and has the guard read it. Returns when it has said a line with `expected`.
    fn reload(&mut self, text: &str, expected: &str) {
        fs::write(&self.file.0, text).unwrap();
        signal(&self.guard.0, "HUP");
        self.expect(expected);
    }

    fn expect(&mut self, expected: &str) {
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.contains(expected)) {
            let line = self.said.next().unwrap_or_else(|| panic!("no `{expected}`: {lines:?}"));
            lines.push(line.unwrap());
        }
    }
}

/// The ports of the file are guarded, and after SIGHUP those that it has then. The accounts go on.
#[test]
fn sighup_reads_the_ports_again() {
    at_veth(|bench| {
        let (flooded, other) = (bench.bind(FLOODED), bench.bind(OTHER));
        let mut configured = Configured::start(&format!("port = {FLOODED}\n"));
        configured.expect("guarding sockets at port 7 behind gd0");
        bench.send(FLOODED, FLOOD_PKTS, 1);
        bench.send(OTHER, FLOOD_PKTS, 1);
        let first = drain(&flooded);
        drain(&other);
        let ports = format!("port = [{OTHER}, 53]\n");
        configured.reload(&ports, "guarding sockets at ports 9, 53 behind gd0");
        bench.send(FLOODED, FLOOD_PKTS, 1);
        bench.send(OTHER, FLOOD_PKTS, 1);
        drain(&flooded);
        let second = drain(&other);
        // A file that cannot be used changes nothing.
        for (text, why) in [
            ("port = \"domain\"\n", "all stays as it was"),
            ("threaded = 20\n", "`threaded` cannot change while the guard runs; all stays as it was"),
        ] {
            configured.reload(text, why);
        }
        configured.reload("dry-run = true\n", "guarding all sockets behind gd0, and dropping nothing");
        bench.send(FLOODED, FLOOD_PKTS, 1);
        let Configured { guard, file: _file, said: _said } = configured;
        let report = guard.stop();
        assert_eq!((report["dry_run"].as_bool(), first < FLOOD_PKTS / 2), (Some(true), true), "{report}");
        let (passed, dropped) = account(&report, FLOODED);
        assert_eq!(passed + dropped, 2 * FLOOD_PKTS, "{report}");
        assert!(dropped > FLOOD_PKTS && passed > first, "{report}");
        assert_eq!(account(&report, OTHER), (second, FLOOD_PKTS - second), "{report}");
    });
}
