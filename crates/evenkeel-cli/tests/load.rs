//! `evenkeel load` against servers in this process, well-behaved ones and hostile ones, as a user runs it.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use common::{command, evenkeel, in_namespace, json, pause, run, signal};
use serde_json::Value;

/// Serves each connection on a thread of its own for as long as the test runs; returns the server's URL.
fn serve(each: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    format!("http://127.0.0.1:{}/", serve_at(each))
}

/// Serves each connection at all addresses, on a thread of its own for as long as the test runs; returns
/// the port.
fn serve_at(each: impl Fn(TcpStream) + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let each = each.clone();
            thread::spawn(move || stream.map(each));
        }
    });
    port
}

/// Reads the next request on a connection; `None` at its end.
fn request(stream: &mut TcpStream) -> Option<String> {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        text.extend(byte);
    }
    String::from_utf8(text).ok()
}

/// Answers every request with `text`, and closes the connection when asked to.
fn answering(text: &'static str) -> impl Fn(TcpStream) + Clone + Send + 'static {
    move |mut stream| {
        while let Some(request) = request(&mut stream) {
            if stream.write_all(text.as_bytes()).is_err() || request.contains("Connection: close") {
                return;
            }
        }
    }
}

const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
/// The arguments of a hundred requests in two seconds, without a warm-up.
const CALM: [&str; 8] = ["--rate", "50", "--arrivals", "constant", "--duration", "2s", "--warm-up", "0"];

fn load(url: &str, more: &[&str]) -> Value {
    json(&[&["load", url, "--json"], &CALM[..], more].concat())
}

/// Asserts that every request that was due ended in exactly one way.
fn assert_adds_up(result: &Value) {
    let sum = |counts: &Value| counts.as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>();
    assert_eq!(result["due"], sum(&result["statuses"]) + sum(&result["failed"]), "{result}");
    let parts = result["intervals"].as_array().unwrap().iter();
    assert_eq!(parts.map(|part| part["due"].as_u64().unwrap()).sum::<u64>(), result["due"], "{result}");
}

#[test]
fn a_good_server_answers_all_and_connections_are_kept() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    for text in [GOOD, chunked] {
        let result = load(&serve(answering(text)), &["--timeout", "60s"]);
        assert_eq!(result["due"], 100, "{result}");
        assert_eq!((&result["offered"], &result["statuses"]["2xx"]), (&100.into(), &100.into()), "{result}");
        assert!(result["connections"]["opened"].as_u64().unwrap() < 100, "{result}");
        assert_eq!(result["response_us"]["count"], 100, "{result}");
        assert!(result["response_us"]["p50"].as_f64() >= result["service_us"]["p50"].as_f64(), "{result}");
        assert_eq!(
            (&result["mode"], &result["on"], &result["stopped"]),
            (&"open".into(), &"kernel".into(), &false.into())
        );
        assert_adds_up(&result);
    }
}

#[test]
fn connections_are_closed_after_as_many_requests_as_asked_for() {
    let url = serve(answering(GOOD));
    for (more, connections) in [(&["--close"][..], 100), (&["--requests-per-connection", "10"], 10)] {
        let result = load(&url, &[&["--timeout", "60s", "--connections", "1"], more].concat());
        assert_eq!(
            (&result["statuses"]["2xx"], &result["connections"]["opened"]),
            (&100.into(), &connections.into()),
            "{result}"
        );
    }
}

/// One server closes without an announcement; the answer of another ends with the connection.
#[test]
fn a_server_that_closes_after_each_answer_is_served_by_new_connections() {
    let close = |mut stream: TcpStream| {
        request(&mut stream);
        let _ = stream.write_all(GOOD.as_bytes());
    };
    let until_end = |mut stream: TcpStream| {
        request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nuntil the end");
    };
    for url in [serve(close), serve(until_end)] {
        let result = load(&url, &["--timeout", "60s"]);
        assert_eq!(result["statuses"]["2xx"], 100, "{result}");
        assert!(result["connections"]["opened"].as_u64().unwrap() >= 100, "{result}");
        assert_adds_up(&result);
    }
}

#[test]
fn statuses_are_told_apart() {
    let answers = [
        ("2xx", "HTTP/1.1 204 No Content\r\n\r\n"),
        ("3xx", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
        ("4xx", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
        ("5xx", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
    ];
    thread::scope(|scope| {
        for (class, text) in answers {
            scope.spawn(move || {
                let result = load(&serve(answering(text)), &["--timeout", "60s"]);
                assert_eq!(result["statuses"][class], 100, "{class}: {result}");
            });
        }
    });
}

#[test]
fn the_request_is_as_asked_for() {
    let check = |mut stream: TcpStream| {
        while let Some(head) = request(&mut stream) {
            let mut content = [0; 2];
            let good = head.starts_with("POST / HTTP/1.1\r\nHost: 127.0.0.1:")
                && head.contains("\r\nX-Test: yes\r\n")
                && head.contains("\r\nContent-Length: 2\r\n")
                && stream.read_exact(&mut content).is_ok()
                && &content == b"hi";
            let text = if good { GOOD } else { "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" };
            let _ = stream.write_all(text.as_bytes());
        }
    };
    let result =
        load(&serve(check), &["--timeout", "60s", "--method", "POST", "-H", "X-Test: yes", "--body", "hi"]);
    assert_eq!(result["statuses"]["2xx"], 100, "{result}");
}

/// Runs against a server that never gives an answer; returns the result.
fn hostile(each: impl Fn(TcpStream) + Clone + Send + 'static) -> Value {
    let url = serve(each);
    let output = evenkeel(&[&["load", &url, "--json", "--timeout", "400ms"], &CALM[..]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("no request was answered") && said.contains("is an HTTP server listening"),
        "{said}"
    );
    let result = common::report(&["load"], output.stdout);
    assert_adds_up(&result);
    assert_eq!((&result["due"], &result["answered_rps"]), (&100.into(), &0.0.into()), "{result}");
    result
}

fn failed(result: &Value, ways: &[&str]) -> u64 {
    ways.iter().map(|way| result["failed"][way].as_u64().unwrap()).sum()
}

#[test]
fn a_server_that_never_answers_is_waited_for_in_vain() {
    let result = hostile(|mut stream| while request(&mut stream).is_some() {});
    assert_eq!(failed(&result, &["timeout"]), 100, "{result}");
    assert_eq!((&result["offered"], &result["response_us"]["count"]), (&100.into(), &100.into()), "{result}");
}

#[test]
fn one_that_drips_is_not_waited_for_longer() {
    let result = hostile(|mut stream| {
        let _ = request(&mut stream);
        let drops = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n".iter().chain([b'x'; 1_000].iter());
        for byte in drops {
            pause();
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
        }
    });
    assert_eq!(failed(&result, &["timeout"]), 100, "{result}");
}

#[test]
fn half_answers_and_resets_are_failures() {
    let half = |mut stream: TcpStream| {
        request(&mut stream);
        let _ = stream.write_all(&GOOD.as_bytes()[..GOOD.len() - 1]);
    };
    assert_eq!(failed(&hostile(half), &["short"]), 100);
    // A socket that is closed with unread data resets the connection.
    let reset = |stream: TcpStream| drop(stream.peek(&mut [0]));
    assert_eq!(failed(&hostile(reset), &["reset", "short"]), 100);
    let close = |stream: TcpStream| drop(stream);
    assert_eq!(failed(&hostile(close), &["reset", "short"]), 100);
}

#[test]
fn nonsense_is_counted_as_such_and_costs_no_memory() {
    for text in ["SSH-2.0-OpenSSH_9.2p1\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n"] {
        assert_eq!(failed(&hostile(answering(text)), &["malformed"]), 100, "{text:?}");
    }
    // The head of this answer has no end.
    let endless = |mut stream: TcpStream| {
        request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nA: ");
        while stream.write_all(&[b'a'; 10_000]).is_ok() {}
    };
    assert_eq!(failed(&hostile(endless), &["malformed"]), 100);
}

#[test]
fn nobody_there_is_said_with_what_to_do() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let output = evenkeel(&["load", &gone, "--duration", "200ms", "--warm-up", "0", "--json"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    let complaint = format!("no connection to http://{gone}/: {gone}, refused: is an HTTP server listening");
    assert!(said.contains(&complaint), "{said}");
    let result = common::report(&["load"], output.stdout);
    assert_eq!((&result["due"], &result["stopped"]), (&0.into(), &true.into()), "{result}");
    assert_eq!(result["unreached"][0], serde_json::json!({"address": gone, "failed": "refused"}), "{result}");
    let output = evenkeel(&["load", "no-such-host.invalid"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot find `no-such-host.invalid`"));
}

/// The command fails at once, not when the time of the run is over.
#[test]
fn a_refused_port_is_given_up_at_once() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut child = command(&["load", &gone, "--duration", "1h", "--json"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = (0..400).find_map(|_| {
        pause();
        child.try_wait().unwrap()
    });
    let _ = child.kill();
    assert_eq!(status.and_then(|status| status.code()), Some(1));
}

/// Runs `load` with a hosts file that has only the name `keel-two`, with these addresses; returns the
/// result.
fn load_by_name(folder: &Path, addresses: &[&str], port: u16) -> Value {
    let hosts = folder.join("hosts");
    let lines: Vec<String> = addresses.iter().map(|address| format!("{address} keel-two\n")).collect();
    fs::write(&hosts, lines.concat()).unwrap();
    let script = "mount --make-rprivate / && mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .arg(&hosts)
        .args([env!("CARGO_BIN_EXE_evenkeel"), "load", &format!("http://keel-two:{port}/"), "--json"])
        .args([&CALM[..], &["--timeout", "60s"]].concat())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{addresses:?}: {said}");
    common::report(&["load"], output.stdout)
}

/// The server is at one of the addresses, which need not be tried first.
#[test]
fn every_address_of_a_name_is_tried() {
    in_namespace("every_address_of_a_name_is_tried", || {
        run("ip link set lo up");
        let folder = std::env::temp_dir().join(format!("evenkeel-{}-names", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (addresses, at, tried) in [
            (&["127.0.0.1", "::1"][..], "127.0.0.1:0", 1),
            (&["127.0.0.1", "::1"], "[::1]:0", 0),
            (&["127.0.0.2", "127.0.0.3", "127.0.0.4"], "127.0.0.4:0", 2),
        ] {
            let listener = TcpListener::bind(at).unwrap();
            let server = listener.local_addr().unwrap();
            thread::spawn(move || {
                for stream in listener.incoming() {
                    thread::spawn(move || stream.map(answering(GOOD)));
                }
            });
            let result = load_by_name(&folder, addresses, server.port());
            assert_eq!((&result["statuses"]["2xx"], &result["due"]), (&100.into(), &100.into()), "{result}");
            assert_eq!(result["to"], server.to_string(), "{result}");
            assert_eq!(result["unreached"].as_array().unwrap().len(), tried, "{result}");
        }
        fs::remove_dir_all(&folder).unwrap();
    });
}

#[test]
fn threads_share_the_load() {
    let result = load(&serve(answering(GOOD)), &["--timeout", "60s", "--threads", "3"]);
    assert_eq!((&result["threads"], &result["due"]), (&3.into(), &100.into()), "{result}");
    assert_eq!(result["statuses"]["2xx"], 100, "{result}");
    assert_adds_up(&result);
}

/// The server speaks neither TLS nor HTTP/2.
#[test]
fn a_server_of_other_protocols_is_told_from_a_good_one() {
    let url = serve(answering(GOOD));
    // A handshake of TLS is no request that the other server could answer.
    let impatient = |mut stream: TcpStream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        while stream.read(&mut [0; 1_000]).is_ok_and(|n| n > 0) {}
    };
    let secure = serve(impatient).replace("http:", "https:");
    let failing = |arguments: &[&str]| {
        let output = evenkeel(&[&["load"], arguments, &["--duration", "200ms", "--warm-up", "0"]].concat());
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        (String::from_utf8(output.stderr).unwrap(), output.stdout)
    };
    let (said, printed) = failing(&[&secure, "--insecure", "--json"]);
    assert!(said.contains("tls: ") && said.contains("is an HTTPS server listening there?"), "{said}");
    let result = common::report(&["load"], printed);
    assert_eq!((&result["unreached"][0]["failed"], &result["due"]), (&"tls".into(), &0.into()), "{result}");
    let (said, _) = failing(&[&secure, "--cacert", "no-such-file.pem"]);
    assert!(said.contains("--cacert: cannot read `no-such-file.pem`"), "{said}");
    let (said, printed) = failing(&[&url, "--http2", "--timeout", "300ms", "--json"]);
    assert!(said.contains("is an HTTP/2 server listening"), "{said}");
    let result = common::report(&["load"], printed);
    assert_eq!(result["http"], "2", "{result}");
    assert_adds_up(&result);
}

#[test]
fn cold_connections_are_open_all_the_time_and_made_again() {
    let url = serve(answering(GOOD));
    let more = ["--timeout", "60s", "--cold", "300", "--cold-rate", "100", "--bind", "127.0.0.2-127.0.0.3"];
    let result = load(&url, &more);
    let cold = &result["cold"];
    assert_eq!(
        (&cold["at_start"], &cold["at_end"], &cold["closed"]),
        (&300.into(), &300.into(), &0.into()),
        "{result}"
    );
    assert!(cold["requests"].as_u64().unwrap() > 100 && cold["failed"] == 0, "{result}");
    assert_eq!((&result["due"], &result["statuses"]["2xx"]), (&100.into(), &100.into()), "{result}");
    let closing = |mut stream: TcpStream| {
        pause();
        stream.set_nonblocking(true).unwrap();
        let begun = stream.peek(&mut [0]).is_ok();
        stream.set_nonblocking(false).unwrap();
        if begun {
            answering(GOOD)(stream);
        } else {
            let _ = stream.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n");
        }
    };
    let result = load(&serve(closing), &["--timeout", "60s", "--cold", "20"]);
    let cold = &result["cold"];
    assert!(cold["closed"].as_u64().unwrap() >= 20 && cold["opened"].as_u64().unwrap() > 20, "{result}");
    assert_eq!(result["due"], 100, "{result}");
    assert_adds_up(&result);
}

#[test]
fn a_closed_loop_asks_when_it_was_answered() {
    let url = serve(answering(GOOD));
    let more =
        ["--closed", "--connections", "3", "--duration", "500ms", "--warm-up", "100ms", "--timeout", "60s"];
    let result = json(&[&["load", &url, "--json"], &more[..]].concat());
    assert_eq!((&result["mode"], &result["target_rps"]), (&"closed".into(), &Value::Null), "{result}");
    assert_eq!(result["connections"]["most"], 3, "{result}");
    assert!(result["statuses"]["2xx"].as_u64().unwrap() > 3, "{result}");
    assert_adds_up(&result);
}

#[test]
fn a_day_is_played_hour_by_hour() {
    let url = serve(answering(GOOD));
    let file = std::env::temp_dir().join(format!("evenkeel-{}-day", std::process::id()));
    fs::write(&file, "00:00 0 # nobody\n06:00 100\n18:00 50\n").unwrap();
    let (day, constant) = (file.to_str().unwrap(), ["--arrivals", "constant", "--warm-up", "0"]);
    let result =
        json(&[&["load", &url, "--json", "--day", day, "--compress", "43200"], &constant[..]].concat());
    // The day has two seconds: no requests for a half, 100/s for one, 50/s for a half.
    assert_eq!((&result["due"], &result["day"]["mean_rps"]), (&125.into(), &62.5.into()), "{result}");
    let hours = result["intervals"].as_array().unwrap();
    assert_eq!(hours.len(), 24, "{result}");
    assert!(hours[..6].iter().all(|hour| hour["due"] == 0), "{result}");
    assert!(hours[6..18].iter().all(|hour| hour["due"].as_u64().unwrap().abs_diff(8) <= 1), "{result}");
    fs::write(&file, "06:00 1\n").unwrap();
    let said = String::from_utf8(evenkeel(&["load", &url, "--day", day]).stderr).unwrap();
    assert!(said.contains("the first line must say the rate at 00:00"), "{said}");
    fs::remove_file(&file).unwrap();
    let synthetic = ["--day", "synthetic", "--duration", "2s", "--rate", "200", "--peak", "300"];
    let output = evenkeel(&[&["load", &url], &synthetic[..]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("a day 43200 times as fast") && text.contains("and 300 /s at its busiest"),
        "{text}"
    );
    let is_row = |line: &&str| line.split_whitespace().next().is_some_and(|word| word.ends_with(":00"));
    assert_eq!(text.lines().filter(is_row).count(), 24, "{text}");
}

#[test]
fn the_histogram_is_written_as_plotters_read_it() {
    let file: PathBuf = std::env::temp_dir().join(format!("evenkeel-{}.hgrm", std::process::id()));
    let url = serve(answering(GOOD));
    let result = load(&url, &["--timeout", "60s", "--histogram", file.to_str().unwrap()]);
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    assert!(text.starts_with("       Value     Percentile TotalCount 1/(1-Percentile)\n\n"), "{text}");
    assert!(text.contains("Total count    =          100]"), "{text}");
    assert_eq!(result["response_us"]["count"], 100);
    let output = evenkeel(&["load", &url, "--histogram", "/no/such/folder/file"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.stdout.is_empty() && said.contains("choose another with --histogram"), "{said}");
}

#[test]
fn ctrl_c_ends_it_with_the_report_so_far() {
    let url = serve(answering(GOOD));
    for more in [&["--rate", "200"][..], &["--closed"], &["--day", "synthetic", "--rate", "200"]] {
        let arguments = [&["load", &url, "--json", "--warm-up", "0"], more].concat();
        let child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        (0..20).for_each(|_| pause());
        signal(&child, "INT");
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{more:?}: {said}");
        let result = common::report(&["load"], output.stdout);
        assert_eq!(result["stopped"], true, "{result}");
        assert!(result["statuses"]["2xx"].as_u64().unwrap() > 0, "{result}");
        assert_adds_up(&result);
    }
}

/// Requests of HTTP/2 are under way when the signal comes: the server never answers.
#[test]
fn ctrl_c_ends_requests_of_http2_that_are_under_way() {
    let silent = |mut stream: TcpStream| while stream.read(&mut [0; 1_000]).is_ok_and(|n| n > 0) {};
    let url = serve(silent);
    let arguments = ["load", &url, "--http2", "--json", "--warm-up", "0", "--rate", "200", "--threads", "2"];
    let child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    (0..20).for_each(|_| pause());
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    let result = common::report(&["load"], output.stdout);
    assert_eq!((output.status.code(), &result["stopped"]), (Some(1), &true.into()), "{result}");
    assert_eq!(result["failed"]["unfinished"], result["due"], "{result}");
    assert_adds_up(&result);
}

#[test]
fn people_get_a_table() {
    let output = evenkeel(
        &[&["load", &serve(answering(GOOD)), "--timeout", "60s", "--interval", "1s"], &CALM[..]].concat(),
    );
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "open loop, at equal distances",
        "50.0 /s wanted",
        "100 2xx",
        "due to answered",
        "99.99 %",
        "generator: ",
        "1.00 s",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Asserts that a run with our own TCP accounts for every frame, and reports the TCP counters.
fn assert_conserved(result: &Value) {
    assert_eq!(result["counters"]["conserved"], true, "{result}");
    assert!(result["tcp"]["counters"].is_object() && result["device_failed"].is_null(), "{result}");
}

#[test]
fn on_a_cable_our_own_tcp_asks_our_own_server() {
    for (url, close, connections) in
        [("http://10.77.0.1/", "--keep-alive", 1..100), ("http://[fd77::1]:81/", "--close", 100..101)]
    {
        let more = [
            "--on",
            "cable",
            close,
            "--timeout",
            "60s",
            "--cold",
            "200",
            "--cold-rate",
            "20",
            "--size",
            "5000",
        ];
        let result = load(url, &more);
        assert_eq!(
            (&result["on"], &result["due"], &result["statuses"]["2xx"]),
            (&"cable".into(), &100.into(), &100.into()),
            "{result}"
        );
        assert!(connections.contains(&result["connections"]["opened"].as_u64().unwrap()), "{result}");
        let (cold, server) = (&result["cold"], &result["server"]);
        assert_eq!((&cold["at_start"], &cold["at_end"]), (&200.into(), &200.into()), "{result}");
        assert_eq!((&cold["failed"], &cold["answered"]), (&0.into(), &cold["requests"]), "{result}");
        assert_eq!(
            server["requests"].as_u64().unwrap(),
            100 + cold["requests"].as_u64().unwrap(),
            "{result}"
        );
        assert_eq!(server["counters"]["conserved"], true, "{result}");
        assert!(result["bytes_in"].as_u64().unwrap() > 500_000, "{result}");
        assert_adds_up(&result);
        assert_conserved(&result);
    }
    let closed =
        ["--on", "cable", "--closed", "--connections", "2", "--duration", "300ms", "--timeout", "60s"];
    let result = json(&[&["load", "http://10.77.0.1/", "--json"], &closed[..]].concat());
    assert!(
        result["statuses"]["2xx"].as_u64().unwrap() > 2 && result["connections"]["most"] == 2,
        "{result}"
    );
    assert_conserved(&result);
}

#[test]
fn on_a_cable_ctrl_c_ends_it_with_the_report_so_far() {
    let arguments = [
        "load",
        "http://10.77.0.1/",
        "--on",
        "cable",
        "--json",
        "--rate",
        "200",
        "--duration",
        "1h",
        "--warm-up",
        "0",
    ];
    let child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    (0..20).for_each(|_| pause());
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result = common::report(&["load"], output.stdout);
    assert_eq!(result["stopped"], true, "{result}");
    assert!(result["statuses"]["2xx"].as_u64().unwrap() > 0, "{result}");
    assert_adds_up(&result);
    assert_conserved(&result);
}

const ON_A_TAP: [&str; 4] = ["--on", "tap:ekload", "--kernel-address", "10.77.0.1/24"];

fn unreached(address: &str, failed: &str) -> Value {
    serde_json::json!([{"address": address, "failed": failed}])
}

/// Without an answer to ARP the command fails after three seconds, long before the timeout of a
/// connection.
#[test]
fn nobody_on_a_tap_is_unreachable() {
    in_namespace("nobody_on_a_tap_is_unreachable", || {
        let nobody = ["load", "http://10.77.0.9/", "--json", "--timeout", "60s", "--duration", "1h"];
        let output = evenkeel(&[nobody.as_slice(), &ON_A_TAP].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("no connection to http://10.77.0.9/: 10.77.0.9:80, unreachable"), "{said}");
        let result = common::report(&["load"], output.stdout);
        assert_eq!(result["unreached"], unreached("10.77.0.9:80", "unreachable"), "{result}");
        assert_eq!((&result["offered"], &result["bytes_out"]), (&0.into(), &0.into()), "{result}");
    });
}

/// On a device our own TCP sends requests to the kernel's: to good servers, to a port without one, and to
/// one that resets.
#[test]
fn on_a_tap_our_own_tcp_asks_the_kernels() {
    in_namespace("on_a_tap_our_own_tcp_asks_the_kernels", || {
        let ask = |port: u16, more: &[&str]| {
            let url = format!("http://10.77.0.1:{port}/");
            let output = evenkeel(&[&["load", &url, "--json"], &CALM[..], &ON_A_TAP, more].concat());
            let result = common::report(&["load"], output.stdout);
            assert_adds_up(&result);
            assert_conserved(&result);
            (output.status.code(), result)
        };
        let (status, result) = ask(serve_at(answering(GOOD)), &["--timeout", "60s", "--cold", "30"]);
        assert_eq!((status, &result["statuses"]["2xx"]), (Some(0), &100.into()), "{result}");
        assert_eq!(result["cold"]["at_end"], 30, "{result}");
        let (status, result) = ask(serve_at(answering(GOOD)), &["--timeout", "60s", "--close"]);
        assert_eq!((status, &result["connections"]["opened"]), (Some(0), &100.into()), "{result}");
        let until_end = |mut stream: TcpStream| {
            request(&mut stream);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nuntil the end");
        };
        let (_, result) = ask(serve_at(until_end), &["--timeout", "60s"]);
        assert_eq!(result["statuses"]["2xx"], 100, "{result}");
        let (status, result) = ask(9, &[]);
        assert_eq!((status, &result["due"]), (Some(1), &0.into()), "{result}");
        assert_eq!(result["unreached"], unreached("10.77.0.1:9", "refused"), "{result}");
        let reset = |stream: TcpStream| drop(stream.peek(&mut [0]));
        let (_, result) = ask(serve_at(reset), &[]);
        assert_eq!(failed(&result, &["reset", "short"]), 100, "{result}");
        let (status, result) = ask(9, &["--http2"]);
        assert_eq!((status, &result["due"]), (Some(1), &0.into()), "{result}");
        assert_eq!(result["unreached"], unreached("10.77.0.1:9", "refused"), "{result}");
    });
}
