//! `evenkeel http --root` as a user runs it, with curl: on the kernel's sockets, and on a TAP in a namespace
//! (needs root; reports if it is skipped).
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{assert_described, command, evenkeel, in_namespace, report, run, signal, wait_for};
use evenkeel_skip::Lack;
use serde_json::{Value, json};

/// A directory of its own, with files to serve in `root`.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let tree = Self(std::env::temp_dir().join(format!("evenkeel-http-{}-{name}", std::process::id())));
        fs::create_dir_all(tree.0.join("root/sub")).unwrap();
        tree.write("root/index.html", "<p>index");
        tree.write("root/other", "other");
        let lines: String = (0..100_000).map(|line| format!("{line}\n")).collect();
        tree.write("root/lines", &lines);
        tree.write("secret", "secret");
        tree
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    /// Writes a certificate for `host`, and its key.
    fn certify(&self, host: &str) {
        let made = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
        self.write("cert.pem", &made.cert.pem());
        self.write("key.pem", &made.signing_key.serialize_pem());
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running server, which is killed when the test ends in any way.
struct Serving {
    child: Option<Child>,
    said: BufReader<std::process::ChildStderr>,
    /// The first address that the server prints, without a slash at its end.
    url: String,
}

impl Serving {
    /// Starts a server, and waits until it listens.
    fn start(tree: &Tree, arguments: &[&str]) -> Self {
        let fixed = ["http", "--root", &tree.path("root"), "--json"];
        let mut child = command(&[&fixed[..], arguments].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut serving = Self { child: Some(child), said, url: String::new() };
        let line = serving.line();
        let url = line.split_once(" at ").and_then(|(_, rest)| rest.split(['/', ' ']).nth(2));
        let scheme = if line.contains("https://") { "https" } else { "http" };
        serving.url = format!("{scheme}://{}", url.unwrap_or_else(|| panic!("{line}")));
        serving
    }

    /// Returns the next line that the server says.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line
    }

    fn signal(&self, name: &str) {
        signal(self.child.as_ref().unwrap(), name);
    }

    /// Ends the server with a signal, and returns its report. Its frames are all accounted for.
    fn end(mut self, name: &str) -> Value {
        self.signal(name);
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        assert_eq!(output.status.code(), Some(0), "{said}");
        // Interim reports go before the last one.
        let reports = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
        let served =
            reports.map(|report| report.unwrap()).inspect(|report| assert_described(&["http"], report));
        let served = served.last().unwrap();
        assert!(served["link"] == "kernel" || served["counters"]["conserved"] == true, "{served}");
        served
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs curl, which must succeed; returns what it prints.
fn curl(arguments: &[&str]) -> String {
    let fixed = ["-sS", "--path-as-is", "-g", "--max-time", "60"];
    let output = Command::new("curl").args(fixed).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a test if there is curl.
fn with_curl(name: &str, test: impl FnOnce()) {
    if Command::new("curl").arg("--version").output().is_err() {
        return evenkeel_skip::skip(name, &Lack::Program { program: "curl", package: "curl" });
    }
    test();
}

/// Fetches files as browsers and downloads do, and checks the report of all that and the access log.
fn serve_curl(tree: &Tree, server: Serving, client: &str) {
    let url = |path: &str| format!("{}{path}", server.url);
    let code = ["-o", "/dev/null", "-w", "%{http_code}"];
    assert_eq!(curl(&[&url("/")]), "<p>index");
    assert!(curl(&[&url("/lines")]) == tree.read("root/lines"));
    assert_eq!(curl(&["-r", "2-9", &url("/lines")]), "1\n2\n3\n4\n");
    let both = curl(&["-r", "0-1", &url("/lines"), &url("/other")]);
    assert_eq!(both, "0\not", "two files over one connection");
    let head = curl(&["-I", &url("/lines")]);
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("content-length: 588890"), "{head}");
    let etag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    let condition = format!("If-None-Match: {etag}");
    assert_eq!(curl(&[&code[..], &["-H", &condition, &url("/lines")]].concat()), "304");
    for path in ["/none", "/../secret", "/%2e%2e/secret", "/sub/"] {
        assert_eq!(curl(&[&code[..], &[&url(path)]].concat()), "404", "{path}");
    }
    let served = server.end("INT");
    let statuses = json!({"200": 3, "206": 3, "304": 1, "404": 4});
    assert_eq!((&served["requests"], &served["statuses"]), (&11.into(), &statuses), "{served}");
    assert_eq!((&served["accepted"], &served["timed_out"]), (&10.into(), &0.into()), "{served}");
    // The index, the lines, and three parts; and the text of each 404.
    assert_eq!(served["content_bytes"], 8 + 588_890 + 8 + 2 + 2 + 4 * 14, "{served}");
    let log = tree.read("log");
    assert_eq!(log.lines().count(), 11, "{log}");
    assert!(log.lines().all(|line| line.starts_with(client)), "{log}");
    assert!(log.contains("\"GET /lines HTTP/1.1\" 206 8 "), "{log}");
}

#[test]
fn files_are_served_on_the_kernels_sockets() {
    with_curl("files_are_served_on_the_kernels_sockets", || {
        let tree = Tree::new("kernel");
        let arguments = ["--kernel-sockets", "--listen", "127.0.0.1:0", "--access-log", &tree.path("log")];
        serve_curl(&tree, Serving::start(&tree, &arguments), "127.0.0.1 - - [");
    });
}

/// The options of a TAP with the kernel as the peer.
const TAP: [&str; 5] = ["tap:keel0", "--kernel-address", "10.77.0.1/24", "--kernel-address", "fd77::1/64"];

#[test]
fn files_are_served_on_a_tap() {
    with_curl("files_are_served_on_a_tap", || {
        in_namespace("files_are_served_on_a_tap", || {
            let tree = Tree::new("tap");
            let (log, capture) = (tree.path("log"), tree.path("capture.pcapng"));
            let more = ["--access-log", &log, "--capture", &capture, "--connections"];
            let server = Serving::start(&tree, &[&TAP[..], &more].concat());
            wait_for("ping -c 1 -w 1 fd77::2");
            assert_eq!(curl(&["-I", "http://[fd77::2]/other"]).lines().next(), Some("HTTP/1.1 200 OK"));
            fs::remove_file(&log).unwrap();
            let figures = evenkeel(&["stats", &server.child.as_ref().unwrap().id().to_string()]);
            let figures = String::from_utf8(figures.stdout).unwrap();
            assert!(figures.contains("evenkeel http") && figures.contains("keel0"), "{figures}");
            server.signal("USR1");
            let served = server.end("TERM");
            assert_eq!((&served["capture"]["complete"], &served["requests"]), (&true.into(), &1.into()));
            let frames = served["capture"]["captured"].as_u64().unwrap();
            assert!(frames > 8 && fs::metadata(capture).unwrap().len() > 1_000, "{served}");
            let arguments = [&TAP[..], &["--access-log", &log, "--listen", "10.77.0.2:8080"]].concat();
            serve_curl(&tree, Serving::start(&tree, &arguments), "10.77.0.1 - - [");
        });
    });
}

/// A client that sends half a request is closed, and so is one that sends nothing.
#[test]
fn slow_clients_of_files_are_closed() {
    in_namespace("slow_clients_of_files_are_closed", || {
        let tree = Tree::new("slow");
        let server = Serving::start(&tree, &[&TAP[..], &["--head-timeout", "300ms"]].concat());
        let mut clients = ["", "GET / HTTP/1.1\r\nHost"].map(|text| {
            let mut client = TcpStream::connect("10.77.0.2:80").unwrap();
            client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            client.write_all(text.as_bytes()).unwrap();
            client
        });
        for client in &mut clients {
            let mut said = Vec::new();
            assert_eq!(client.read_to_end(&mut said).unwrap(), 0, "{}", String::from_utf8_lossy(&said));
        }
        let served = server.end("HUP");
        assert_eq!((&served["timed_out"], &served["open"]), (&2.into(), &0.into()), "{served}");
    });
}

#[test]
fn sighup_reads_the_certificate_again() {
    with_curl("sighup_reads_the_certificate_again", || {
        in_namespace("sighup_reads_the_certificate_again", || {
            let tree = Tree::new("tls");
            tree.certify("10.77.0.2");
            let (certificate, key, old) = (tree.path("cert.pem"), tree.path("key.pem"), tree.path("old.pem"));
            fs::copy(&certificate, &old).unwrap();
            let files = ["--tls-cert", &certificate, "--tls-key", &key];
            let mut server = Serving::start(&tree, &[&TAP[..], &files].concat());
            let url = format!("{}/other", server.url);
            assert_eq!(url, "https://10.77.0.2/other");
            let version = ["-w", " %{http_version}", "--http2"];
            assert_eq!(curl(&[&version[..], &["--cacert", &old, &url]].concat()), "other 2");
            assert_eq!(curl(&["-k", "--http1.1", "-r", "1-3", &url]), "the");

            tree.certify("10.77.0.2");
            server.signal("HUP");
            assert_eq!(server.line(), "evenkeel: the certificate was read again\n");
            assert_eq!(curl(&["--cacert", &certificate, &url]), "other");
            let refused = Command::new("curl").args(["-sS", "--cacert", &old, &url]).output().unwrap();
            assert!(!refused.status.success(), "the former certificate is gone");

            tree.write("cert.pem", "nonsense");
            server.signal("HUP");
            let said = server.line();
            assert!(said.ends_with("the former certificate stays\n") && said.contains("cert.pem"), "{said}");
            assert_eq!(curl(&["-k", &url]), "other");
            let served = server.end("TERM");
            assert_eq!((&served["requests"], &served["tls"]), (&4.into(), &true.into()), "{served}");
        });
    });
}

/// The answers in flight at a signal are finished. A client that takes none of its answer is cut off when the
/// grace is over.
#[test]
fn a_signal_leaves_answers_in_flight_a_time_to_finish() {
    in_namespace("a_signal_leaves_answers_in_flight_a_time_to_finish", || {
        let tree = Tree::new("grace");
        tree.write("root/large", &"x".repeat(30_000_000));
        for (grace, unfinished) in [("60s", 0), ("100ms", 1)] {
            let server = Serving::start(&tree, &[&TAP[..], &["--grace", grace]].concat());
            let mut client = TcpStream::connect("10.77.0.2:80").unwrap();
            client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            client.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut begin = [0; 1_000];
            client.read_exact(&mut begin).unwrap();
            server.signal("INT");
            if unfinished == 0 {
                let mut rest = Vec::new();
                client.read_to_end(&mut rest).unwrap();
                assert!(rest.len() > 29_999_000 && rest.ends_with(b"xx"), "{} bytes", rest.len());
            }
            let output = server_output(server);
            assert_eq!(output["unfinished"], unfinished, "{output}");
            assert_eq!(output["open"], 1, "{output}");
        }
    });
}

/// Waits for a server that was asked to end, and returns its report.
fn server_output(mut server: Serving) -> Value {
    let output = server.child.take().unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    report(&["http"], &output.stdout)
}

#[test]
fn a_device_that_goes_ends_the_server_and_is_named() {
    in_namespace("a_device_that_goes_ends_the_server_and_is_named", || {
        run("ip link add kernel0 type veth peer name ek0");
        run("ip addr add 10.77.0.1/24 dev kernel0");
        run("ip link set kernel0 up");
        run("ip link set ek0 up");
        let tree = Tree::new("gone");
        let mut server = Serving::start(&tree, &["packet:ek0"]);
        wait_for("ping -c 1 -w 1 10.77.0.2");
        let mut client = TcpStream::connect("10.77.0.2:80").unwrap();
        client.write_all(b"GET /other HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("other"), "{answer}");
        // A connection that waits for a request does not delay the end.
        let _open = TcpStream::connect("10.77.0.2:80").unwrap();
        run("ip link del ek0");
        let output = server.child.take().unwrap().wait_with_output().unwrap();
        let mut said = String::new();
        server.said.read_to_string(&mut said).unwrap();
        assert!(output.status.code() == Some(1) && said.contains("ek0"), "{:?} {said}", output.status);
        assert_eq!(report(&["http"], &output.stdout)["requests"], 1);
    });
}
