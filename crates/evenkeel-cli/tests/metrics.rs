//! The figures of running commands as Prometheus reads them: printed once, over TCP, and over a Unix socket.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::session::{Running, Session};
use common::{command, signal};
use evenkeel_skip::Lack;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A service that gets more than it can take, so that there are drops.
const FLOODED: [&str; 8] = ["echo", "cable", "--rate", "200k", "--work", "50us", "--duration", "120s"];

/// An exporter that runs until the test ends it.
struct Exporter {
    child: Child,
    /// The line that says where the metrics are.
    began: String,
}

impl Exporter {
    fn start(session: &Session, arguments: &[&str]) -> Self {
        let mut command = command(&[&["metrics"], arguments].concat());
        command.env("XDG_RUNTIME_DIR", session.path()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut began = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut began).unwrap();
        assert!(began.starts_with("evenkeel: serving metrics at "), "{began}");
        Self { child, began }
    }

    /// Starts one at a free port of this machine, for the figures of a command.
    fn of(session: &Session, running: &Running<'_>) -> Self {
        Self::start(session, &[&running.pid(), "--listen", "127.0.0.1:0"])
    }

    fn url(&self) -> &str {
        self.began.trim_end().rsplit(' ').next().unwrap()
    }

    fn connect(&self) -> TcpStream {
        let address = self.url().strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends bytes. Returns what comes until the server closes; nothing if it closes with an error.
    fn send(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        // The server may close before it has read all.
        let _ = stream.write_all(bytes.as_ref());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    /// Returns the text of the metrics over TCP.
    fn scrape(&self) -> String {
        let answer = self.send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
        text.to_owned()
    }

    /// Ends the exporter by a signal, and asserts that it succeeds.
    fn end(mut self, name: &str) {
        signal(&self.child, name);
        assert!(self.child.wait().unwrap().success(), "{name}");
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the values of a text, by name and labels. A wrong line fails.
fn values(text: &str) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(values.insert(series.to_owned(), value).is_none(), "twice: {line}");
    }
    values
}

/// Returns the sum of a metric's values that have this text in their labels.
fn sum(values: &BTreeMap<String, f64>, name: &str, part: &str) -> f64 {
    let own =
        values.iter().filter(|(series, _)| series.split('{').next() == Some(name) && series.contains(part));
    own.map(|(_, value)| value).sum()
}

/// Runs curl; `None` if it is missing, which is reported.
fn curl(test: &str, arguments: &[&str]) -> Option<String> {
    let Ok(output) = Command::new("curl").args(["-sS", "--max-time", "60"]).args(arguments).output() else {
        evenkeel_skip::skip(test, &Lack::Program { program: "curl", package: "curl" });
        return None;
    };
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The figures that are compared: of the JSON of `stats`, and of the metrics.
fn compared(process: &Value, metrics: &BTreeMap<String, f64>) -> Vec<(String, f64, f64)> {
    let host = &process["hosts"][0];
    let mut all = Vec::new();
    for name in ["received", "delivered", "consumed", "originated", "transmitted"] {
        let metric = format!("evenkeel_frames_{name}_total");
        all.push((metric.clone(), host["frames"][name].as_f64().unwrap(), sum(metrics, &metric, "")));
    }
    let drops = host["drops"].as_array().unwrap().iter();
    let dropped = drops.map(|drop| drop["frames"].as_f64().unwrap()).sum();
    all.push(("drops".to_owned(), dropped, sum(metrics, "evenkeel_drops_total", "")));
    let sockets = host["sockets"].as_array().unwrap().iter();
    let socket = sockets.clone().find(|socket| socket["port"] == 7).unwrap();
    let received = sum(metrics, "evenkeel_socket_received_datagrams_total", "port=\"7\"");
    all.push(("socket".to_owned(), socket["received"].as_f64().unwrap(), received));
    let missed = sum(metrics, "evenkeel_interface_missed_frames_total", "interface=\"cable0\"");
    all.push(("missed".to_owned(), host["interfaces"][0]["missed"].as_f64().unwrap(), missed));
    let service = host["processes"].as_array().unwrap().iter().find(|it| it["name"] == "service").unwrap();
    let charged = sum(metrics, "evenkeel_process_charged_seconds_total", "name=\"service\"");
    all.push(("charged".to_owned(), service["charged_seconds"].as_f64().unwrap(), charged));
    all
}

#[test]
fn metrics_over_tcp_and_a_unix_socket_agree_with_stats() {
    const NAME: &str = "metrics_over_tcp_and_a_unix_socket_agree_with_stats";
    let session = Session::new("metrics-agree");
    let running = session.start(&FLOODED);
    let (socket, pid) = (session.path().join("metrics"), running.pid());
    let path = socket.to_str().unwrap();
    let tcp = Exporter::of(&session, &running);
    let unix = Exporter::start(&session, &[&pid, "--listen", path]);
    let over_unix = ["--unix-socket", path, "http://localhost/metrics"];
    for arguments in [&[tcp.url()][..], &over_unix, &[tcp.url()], &over_unix] {
        let [before] = &session.stats(&[&pid])[..] else { panic!("one process") };
        let Some(text) = curl(NAME, arguments) else { return };
        let [after] = &session.stats(&[&pid])[..] else { panic!("one process") };
        let metrics = values(&text);
        for ((name, least, value), (_, most, _)) in
            compared(before, &metrics).into_iter().zip(compared(after, &metrics))
        {
            assert!((least..=most).contains(&value), "{name}: {value} is not from {least} to {most}");
        }
        assert!(sum(&metrics, "evenkeel_frames_received_total", "") > 0.0, "{text}");
        assert!(sum(&metrics, "evenkeel_drops_total", "reason=\"ring-full\"") > 0.0, "{text}");
        let labels = format!("pid=\"{pid}\",program=\"evenkeel echo\",host=\"0\"");
        assert!(text.contains(&labels), "{text}");
        let limit = sum(&metrics, "evenkeel_socket_queue_limit_frames", "port=\"7\"");
        let queue = sum(&metrics, "evenkeel_socket_queue_frames", "port=\"7\"");
        assert!(limit > 0.0 && queue <= limit + 16.0, "{queue} of {limit}");
    }
    unix.end("INT");
    tcp.end("TERM");
    assert!(!socket.exists());
}

/// The account of the frames balances in the metrics, too.
#[test]
fn printed_metrics_balance_and_promtool_finds_no_fault() {
    const NAME: &str = "printed_metrics_balance_and_promtool_finds_no_fault";
    let session = Session::new("metrics-print");
    let running = [session.start(&FLOODED), session.start(&["sink", "cable", "--tcp", "--duration", "120s"])];
    for running in &running {
        let output = session.run(&["metrics", &running.pid()]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{text}");
        let metrics = values(&text);
        let frames = |name: &str| sum(&metrics, &format!("evenkeel_frames_{name}"), "");
        let before_host = ["interface ring", "output", "channel on the interface", "adaptor"];
        let apart: f64 = before_host
            .iter()
            .map(|place| sum(&metrics, "evenkeel_drops_total", &format!("place=\"{place}\"")))
            .sum();
        let dropped = sum(&metrics, "evenkeel_drops_total", "") - apart;
        let ended = ["delivered_total", "consumed_total", "forwarded_total", "queued"].map(frames);
        assert_eq!(frames("received_total"), ended.iter().sum::<f64>() + dropped, "{text}");
    }
    // Of all processes: those of other tests, too.
    let output = session.run(&["metrics"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(sum(&values(&text), "evenkeel_processes", "") >= 2.0, "{text}");
    assert!(text.contains("evenkeel_tcp_events_total{") && text.contains("evenkeel_tcp_listener"), "{text}");
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = promtool.spawn() else {
        return evenkeel_skip::skip(NAME, &Lack::Program { program: "promtool", package: "prometheus" });
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[test]
fn only_metrics_are_served() {
    let session = Session::new("metrics-requests");
    let running = session.start(&FLOODED);
    let exporter = Exporter::of(&session, &running);
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
        ("GET /metrics/ HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
        ("GET /metrics?x=y HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
        ("GET /metrics HTTP/1.0\r\n\r\n", "200"),
        ("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
        ("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "405"),
        ("DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "405"),
        ("GET metrics HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
        ("GET /metrics\r\n\r\n", "400"),
        ("\u{1}\u{2}\u{3}\r\n\r\n", "400"),
    ] {
        let answer = exporter.send(request);
        let found = answer.split(' ').nth(1);
        assert_eq!(found, Some(status), "{request:?}: {answer}");
        if request.starts_with("HEAD") {
            assert!(answer.ends_with("\r\n\r\n"), "{answer}");
        }
        if status == "405" {
            assert!(answer.contains("\r\nallow: GET, HEAD\r\n"), "{answer}");
        }
    }
}

#[test]
fn bad_clients_stop_no_later_scrape() {
    let session = Session::new("metrics-hostile");
    let running = session.start(&FLOODED);
    let exporter = Exporter::of(&session, &running);
    let mut before = 0.0;
    let mut assert_serves = |after: &str| {
        let received = sum(&values(&exporter.scrape()), "evenkeel_frames_received_total", "");
        assert!(received >= before, "after {after}: {received} of {before}");
        before = received;
    };
    assert_serves("nothing");
    for garbage in [vec![0; 100_000], vec![0xff; 3], b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()]
    {
        exporter.connect().write_all(&garbage).unwrap();
        assert_serves("garbage");
    }
    let long = |name: &str| format!("GET /metrics HTTP/1.1\r\n{name}: {}\r\n\r\n", "x".repeat(1 << 20));
    let many: String = (0..1_000).map(|number| format!("x{number}: y\r\n")).collect();
    for head in [long("x"), format!("GET /{} HTTP/1.1\r\n\r\n", "m".repeat(1 << 20))] {
        assert!(!exporter.send(&head).contains(" 200 "), "a long head");
        assert_serves("a long head");
    }
    assert!(!exporter.send(format!("GET /metrics HTTP/1.1\r\n{many}\r\n")).contains(" 200 "));
    assert_serves("many fields");
    // Clients that read nothing of their answer.
    let unread: Vec<TcpStream> = (0..20).map(|_| exporter.connect()).collect();
    for mut stream in &unread {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    }
    assert_serves("clients that do not read");
    // Clients that never finish their heads, more than there may be connections.
    let idle: Vec<TcpStream> = (0..200).map(|_| exporter.connect()).collect();
    for mut stream in &idle {
        // The oldest connections are closed already.
        let _ = stream.write_all(b"GET /metr");
    }
    assert_serves("idle clients");
    // The server closes all of them after a while.
    for mut stream in &idle {
        let ended = stream.read_to_end(&mut Vec::new());
        let is_late = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!is_late, "an idle connection stays open");
    }
    assert_serves("all of them");
}

#[test]
fn a_server_ends_at_signals_and_when_its_time_is_over() {
    let session = Session::new("metrics-ends");
    let socket = session.path().join("socket");
    let listen = ["--listen", socket.to_str().unwrap()];
    for name in ["INT", "TERM", "HUP"] {
        let exporter = Exporter::start(&session, &listen);
        let mode = fs::metadata(&socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777 & !0o600, 0, "{mode:o}");
        // A request for a report changes nothing.
        signal(&exporter.child, "USR1");
        exporter.end(name);
        assert!(!socket.exists(), "{name}");
    }
    let mut exporter = Exporter::start(&session, &[&listen[..], &["--duration", "50ms"]].concat());
    assert!(exporter.child.wait().unwrap().success());
    assert!(!socket.exists());
}

#[test]
fn a_socket_in_use_is_refused_and_one_that_was_left_is_replaced() {
    let session = Session::new("metrics-stale");
    let socket: PathBuf = session.path().join("socket");
    let listen = ["metrics", "--listen", socket.to_str().unwrap(), "--duration", "50ms"];
    let refused = |why: &str| {
        let output = session.run(&listen);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_eq!(said, format!("evenkeel: cannot listen at {}: {why}\n", socket.display()));
    };
    let live = UnixListener::bind(&socket).unwrap();
    refused("another process listens there: end it, or choose another path");
    drop(live);
    assert!(session.run(&listen).status.success(), "one that was left");
    fs::write(&socket, "a file").unwrap();
    refused("the file is there, and is no socket: choose another path");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = session.run(&["metrics", "--listen", &address]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("Address already in use"), "{said}");
}

#[test]
fn a_process_that_does_not_answer_is_counted() {
    let session = Session::new("metrics-silent");
    let (stopped, running) = (session.start(&FLOODED), session.start(&FLOODED));
    kill_process(Pid::from_child(&stopped.child), Signal::STOP).unwrap();
    let exporter = Exporter::start(&session, &["--listen", "127.0.0.1:0"]);
    let text = exporter.scrape();
    let metrics = values(&text);
    assert!(sum(&metrics, "evenkeel_unreadable_processes", "") >= 1.0, "{text}");
    assert!(sum(&metrics, "evenkeel_frames_received_total", &running.pid()) > 0.0, "{text}");
    assert!(!text.contains(&format!("pid=\"{}\"", stopped.pid())), "{text}");
    let output = session.run(&["metrics", &stopped.pid()]);
    assert_eq!(output.status.code(), Some(1));
    let output = session.run(&["metrics"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && said.contains(&format!("process {} is left out", stopped.pid())),
        "{said}"
    );
    kill_process(Pid::from_child(&stopped.child), Signal::CONT).unwrap();
    let text = exporter.scrape();
    assert!(text.contains(&format!("pid=\"{}\"", stopped.pid())), "{text}");
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    let session = Session::new("metrics-none");
    let output = session.run(&["metrics", "4000000"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("evenkeel: process 4000000: no such process serves its figures"), "{said}");
    assert!(output.stdout.is_empty());
}

/// Returns the expressions of the targets in the page for Grafana, with values for its variables.
fn expressions() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/grafana/evenkeel.json");
    let page: Value = serde_json::from_str(&fs::read_to_string(page).unwrap()).unwrap();
    let panels = page["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap());
    let set = |text: &str| {
        [("$__rate_interval", "1m"), ("$instance", ".*"), ("$program", ".*")]
            .iter()
            .fold(text.to_owned(), |text, (variable, value)| text.replace(variable, value))
    };
    expressions.map(set).collect()
}

#[test]
fn prometheus_understands_every_expression_of_the_page_for_grafana() {
    let expressions = expressions();
    assert!(expressions.len() > 20);
    let session = Session::new("metrics-rules");
    let rules: String = expressions.iter().zip(0..).fold(
        "groups:\n- name: page\n  rules:\n".to_owned(),
        |rules, (expression, number)| {
            let quoted = serde_json::to_string(expression).unwrap();
            format!("{rules}  - record: rule{number}\n    expr: {quoted}\n")
        },
    );
    let file = session.path().join("rules.yml");
    fs::write(&file, rules).unwrap();
    let Ok(output) = Command::new("promtool").args(["check", "rules"]).arg(&file).output() else {
        let test = "prometheus_understands_every_expression_of_the_page_for_grafana";
        return evenkeel_skip::skip(test, &Lack::Program { program: "promtool", package: "prometheus" });
    };
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains(&format!("{} rules found", expressions.len())),
        "{said}"
    );
}
