//! The account of a guard, as `stats`, `top` and `metrics` show it while the guard runs.

use std::process::{Child, Stdio};

use evenkeel_testing::wait_for;
use serde_json::Value;

use crate::common::session::Session;
use crate::common::{command, report, signal};
use crate::{FLOOD_PKTS, FLOODED, OTHER, at_veth, drain};

/// A guard that serves its figures in a session.
struct Guard<'a> {
    child: Child,
    session: &'a Session,
}

impl<'a> Guard<'a> {
    fn start(session: &'a Session, options: &[&str]) -> Self {
        let mut command = command(&[&["guard", "gd0"], options].concat());
        command.env("XDG_RUNTIME_DIR", session.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let guard = Self { child: command.spawn().unwrap(), session };
        wait_for("the guard", || session.path().join("evenkeel").join(guard.pid()).exists());
        guard
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Returns what a command prints about the guard.
    fn shown(&self, command: &str, options: &[&str]) -> String {
        let output = self.session.run(&[&[command, &self.pid()], options].concat());
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, command: &str, options: &[&str]) -> Value {
        let all = [options, &["--json"]].concat();
        let report = report(&[command], self.shown(command, &all));
        let [process] = &report["processes"].as_array().unwrap()[..] else { panic!("{report:#}") };
        assert_eq!(process["program"], "evenkeel guard");
        let [guard] = &process["guards"].as_array().unwrap()[..] else { panic!("{report:#}") };
        guard.clone()
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn other_commands_show_the_account_of_a_running_guard() {
    at_veth(|bench| {
        let session = Session::new("guard-figures");
        let (flooded, other) = (bench.bind(FLOODED), bench.bind(OTHER));
        let mut guard = Guard::start(&session, &["--dry-run"]);
        bench.send(FLOODED, FLOOD_PKTS, 1);
        bench.send(OTHER, 50, 1);
        let account = guard.json("stats", &[]);
        let [port, quiet] = &account["ports"].as_array().unwrap()[..] else { panic!("{account:#}") };
        assert_eq!((&port["protocol"], &port["port"]), (&"udp".into(), &FLOODED.into()));
        let [passed, dropped] = ["passed", "dropped"].map(|what| port[what].as_u64().unwrap());
        assert!(passed + dropped == FLOOD_PKTS && dropped > FLOOD_PKTS / 2, "{account:#}");
        assert_eq!((&quiet["port"], &quiet["passed"]), (&OTHER.into(), &50.into()));
        assert_eq!((&account["dry_run"], &account["mute"]), (&true.into(), &serde_json::json!(["gd0"])));
        let text = guard.shown("stats", &[]);
        assert!(text.contains("  behind gd0: would have been: ") && text.contains("\n  udp 7 "), "{text}");
        let metrics = guard.shown("metrics", &[]);
        for (port, verdict, packets) in [
            (FLOODED, "passed", passed),
            (FLOODED, "dropped", dropped),
            (FLOODED, "answered", 0),
            (OTHER, "passed", 50),
        ] {
            let line = format!(
                "evenkeel_guard_packets_total{{pid=\"{}\",program=\"evenkeel guard\",guard=\"0\",\
                 protocol=\"udp\",port=\"{port}\",verdict=\"{verdict}\"}} {packets}\n",
                guard.pid()
            );
            assert!(metrics.contains(&line), "{line}{metrics}");
        }
        assert!(metrics.contains(",interface=\"gd0\"} 1\n"), "{metrics}");
        // Nothing came in the interval, and the ports are still there.
        let rates = guard.json("top", &["--once", "--interval", "100ms"]);
        assert_eq!((&rates["dropped_pps"], &rates["ports"][0]["passed_pps"]), (&0.0.into(), &0.0.into()));
        let text = guard.shown("top", &["--once", "--interval", "100ms"]);
        assert!(text.contains("port ") && text.contains("udp 9 ") && text.contains("only counted"), "{text}");
        signal(&guard.child, "INT");
        assert!(guard.child.wait().unwrap().success());
        assert_eq!(session.sockets(), [""; 0], "the socket is removed");
        assert!(drain(&flooded) > 0 && drain(&other) > 0);
    });
}
