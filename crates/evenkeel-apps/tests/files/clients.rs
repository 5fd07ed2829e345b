//! The server with other people's clients: curl, nc, and sockets of std for what they cannot do.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_apps::http::files::{Settings, Tls, TlsError};
use evenkeel_skip::Lack;

use crate::running::{Running, on_both_kinds_of_sockets};
use crate::tree::{DATE, Tree, bytes, set_date};

/// An answer as curl got it.
#[derive(Debug)]
struct Answer {
    /// The version and the status, such as `1.1 200`.
    status: String,
    /// The fields, in lower case, as lines.
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn code(&self) -> u16 {
        self.status.split(' ').nth(1).unwrap().parse().unwrap()
    }

    fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }
}

fn curl(arguments: &[&str]) -> std::process::Output {
    let fixed = ["-sS", "--path-as-is", "--globoff", "--max-time", "100"];
    Command::new("curl").args(fixed).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Fetches an address. curl must succeed.
fn fetch(url: &str, arguments: &[&str]) -> Answer {
    let output = curl(&[arguments, &["-i", url]].concat());
    assert!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stderr));
    let all = output.stdout;
    let end = all.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let head = str::from_utf8(&all[..end]).unwrap();
    let (status, fields) = head.split_once("\r\n").unwrap();
    let fields = fields.lines().map(|line| {
        let (name, value) = line.split_once(": ").unwrap();
        format!("{}: {value}\n", name.to_lowercase())
    });
    Answer {
        status: status.strip_prefix("HTTP/").unwrap().trim().to_owned(),
        head: fields.collect(),
        body: all[end + 4..].to_vec(),
    }
}

/// Runs a test if there is curl.
fn with_curl(test: &str, run: impl Fn() + Send + 'static) {
    if Command::new("curl").arg("--version").output().is_err() {
        return evenkeel_skip::skip(test, &Lack::Program { program: "curl", package: "curl" });
    }
    on_both_kinds_of_sockets(run);
}

/// Runs a test with both versions of the protocol: the option of curl that selects each, and its name.
fn with_each_version(test: &str, run: impl Fn(&str, &str) + Send + 'static) {
    with_curl(test, move || {
        run("--http1.1", "1.1");
        run("--http2-prior-knowledge", "2");
    });
}

#[test]
fn a_file_is_served_with_its_type_length_and_validators() {
    with_each_version("a_file_is_served_with_its_type_length_and_validators", |option, version| {
        let large = bytes(3_000_000);
        let tree =
            Tree::new(&[("a b.html", b"<p>"), ("large.mp4", &large), ("noextension", b""), ("x.js", b"1")]);
        let server = Running::new(&tree, Settings::default());
        let answer = fetch(&server.url("/a%20b.html?q"), &[option]);
        assert_eq!(answer.status.trim_end_matches(" OK"), format!("{version} 200"));
        assert_eq!(answer.text(), "<p>");
        for (name, value) in [
            ("content-type", "text/html; charset=utf-8"),
            ("content-length", "3"),
            ("last-modified", DATE),
            ("accept-ranges", "bytes"),
            ("x-content-type-options", "nosniff"),
            ("server", "evenkeel"),
            ("vary", "Accept-Encoding"),
        ] {
            assert_eq!(answer.field(name), Some(value), "{answer:?}");
        }
        assert!(answer.field("etag").unwrap().starts_with('"') && answer.field("date").is_some());
        let answer = fetch(&server.url("/large.mp4"), &[option]);
        assert_eq!(answer.field("content-type"), Some("video/mp4"));
        assert!(answer.body == large, "{} bytes", answer.body.len());
        let answer = fetch(&server.url("/noextension"), &[option]);
        assert_eq!((answer.code(), answer.body.len()), (200, 0));
        assert_eq!(answer.field("content-type"), Some("application/octet-stream"));
        let head = fetch(&server.url("/large.mp4"), &[option, "-I"]);
        assert_eq!((head.code(), head.body.len()), (200, 0));
        assert_eq!(head.field("content-length"), Some("3000000"));
    });
}

#[test]
fn a_directory_has_an_index_and_a_slash() {
    with_curl("a_directory_has_an_index_and_a_slash", || {
        let tree =
            Tree::new(&[("index.html", b"top"), ("sub/index.html", b"sub"), ("e<m>/x", b""), ("f", b"")]);
        let server = Running::new(&tree, Settings::default());
        let text = |path| fetch(&server.url(path), &[]).text().to_owned();
        assert_eq!((text("/"), text("/sub/"), text("//sub//")), ("top".into(), "sub".into(), "sub".into()));
        for (path, location) in
            [("/sub", "/sub/"), ("/sub?a=b&c", "/sub/?a=b&c"), ("//e%3Cm%3E", "/e%3Cm%3E/")]
        {
            let answer = fetch(&server.url(path), &[]);
            assert_eq!((answer.code(), answer.field("location")), (301, Some(location)), "{path}");
        }
        for path in ["/e%3Cm%3E/", "/f/", "/sub/index.html/"] {
            assert_eq!(fetch(&server.url(path), &[]).code(), 404, "{path}");
        }
        let listing = Running::new(&tree, Settings { listing: true, ..Settings::default() });
        let answer = fetch(&listing.url("/e%3Cm%3E/"), &[]);
        assert_eq!(answer.field("content-type"), Some("text/html; charset=utf-8"));
        assert!(answer.text().contains("<a href=\"./x\">x</a>") && !answer.text().contains("<m>"));
        assert_eq!(fetch(&listing.url("/sub/"), &[]).text(), "sub", "an index goes before a list");
        assert_eq!(fetch(&listing.url("/f/"), &[]).code(), 404);
    });
}

#[test]
fn nothing_outside_of_the_root_is_served() {
    with_each_version("nothing_outside_of_the_root_is_served", |option, _| {
        let tree = Tree::new(&[("file", b"file"), (".hidden", b"hidden"), (".git/config", b"hidden")]);
        fs::write(tree.outside("secret"), "secret").unwrap();
        for (name, to) in [
            ("inside", Path::new("file")),
            ("outside", Path::new("../secret")),
            ("absolute", &tree.outside("secret")),
            ("up", Path::new("..")),
            ("loop", Path::new("loop")),
        ] {
            symlink(to, tree.root().join(name)).unwrap();
        }
        assert!(Command::new("mkfifo").arg(tree.root().join("fifo")).status().unwrap().success());
        let server = Running::new(&tree, Settings { listing: true, ..Settings::default() });
        assert_eq!(fetch(&server.url("/inside"), &[option]).text(), "file");
        for path in [
            "/../secret",
            "/%2e%2e/secret",
            "/..%2fsecret",
            "/outside",
            "/absolute",
            "/up/secret",
            "/up/",
            "/loop",
            "/.hidden",
            "/%2Ehidden",
            "/.git/config",
            "/.git/",
            "/./file",
            "/file%00",
            "/file%00.html",
            "/..\\secret",
            "/%5c..%5csecret",
            "/none",
            "/fifo",
        ] {
            let answer = fetch(&server.url(path), &[option]);
            assert_eq!((answer.code(), answer.text()), (404, "404 Not Found\n"), "{path}");
        }
        let long = format!("/{}", "x".repeat(300));
        assert_eq!(fetch(&server.url(&long), &[option]).code(), 404);
    });
}

#[test]
fn ranges_are_served_one_or_several() {
    with_each_version("ranges_are_served_one_or_several", |option, _| {
        let content = bytes(200_000);
        let tree = Tree::new(&[("file.txt", &content)]);
        let server = Running::new(&tree, Settings::default());
        let range = |range| fetch(&server.url("/file.txt"), &[option, "-r", range]);
        for (spec, from, to) in [("0-0", 0, 1), ("100-150000", 100, 150_001), ("-7", 199_993, 200_000)] {
            let answer = range(spec);
            let expected = format!("bytes {from}-{}/200000", to - 1);
            assert_eq!((answer.code(), answer.field("content-range")), (206, Some(&*expected)), "{spec}");
            assert!(answer.body == content[from..to], "{spec}: {} bytes", answer.body.len());
        }
        let answer = range("200000-");
        assert_eq!((answer.code(), answer.field("content-range")), (416, Some("bytes */200000")));
        let answer = range("5-4");
        assert_eq!((answer.code(), answer.body.len()), (200, 200_000), "no range at all is the whole file");

        let answer = range("0-9,70000-150000,-1");
        let content_type = answer.field("content-type").unwrap();
        let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let mut expected = Vec::new();
        for (from, to) in [(0, 10), (70_000, 150_001), (199_999, 200_000)] {
            let last = to - 1;
            expected.extend(
                format!(
                    "\r\n--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\
                     Content-Range: bytes {from}-{last}/200000\r\n\r\n"
                )
                .into_bytes(),
            );
            expected.extend(&content[from..to]);
        }
        expected.extend(format!("\r\n--{boundary}--\r\n").into_bytes());
        assert!(answer.code() == 206 && answer.body == expected, "{answer:?}");
        let head = fetch(&server.url("/file.txt"), &[option, "-I", "-r", "0-9"]);
        assert_eq!((head.code(), head.field("content-length")), (200, Some("200000")), "ranges are of GET");

        // An interrupted download goes on where it was.
        let partial = tree.outside("partial");
        fs::write(&partial, &content[..150_000]).unwrap();
        let output = curl(&[option, "-C", "-", "-o", partial.to_str().unwrap(), &server.url("/file.txt")]);
        assert!(output.status.success() && fs::read(partial).unwrap() == content);
    });
}

#[test]
fn conditions_are_those_of_the_files_version() {
    with_each_version("conditions_are_those_of_the_files_version", |option, _| {
        let tree = Tree::new(&[("file", b"content")]);
        let server = Running::new(&tree, Settings::default());
        let url = server.url("/file");
        let etag = fetch(&url, &[option]).field("etag").unwrap().to_owned();
        let with = |fields: &[String]| {
            let options = fields.iter().flat_map(|field| ["-H", field]);
            fetch(&url, &[&[option][..], &options.collect::<Vec<_>>()].concat())
        };
        let answer = with(&[format!("If-None-Match: \"x\", {etag}")]);
        assert_eq!((answer.code(), answer.body.len()), (304, 0));
        assert_eq!(answer.field("etag"), Some(&*etag));
        assert_eq!((answer.field("content-length"), answer.field("content-type")), (None, None));
        assert_eq!(with(&[format!("If-Modified-Since: {DATE}")]).code(), 304);
        assert_eq!(with(&["If-Match: \"x\"".to_owned()]).code(), 412);
        assert_eq!(with(&[format!("If-Match: {etag}")]).text(), "content");
        let ranges = |condition: &str| with(&["Range: bytes=0-1".into(), format!("If-Range: {condition}")]);
        assert_eq!(ranges(&etag).text(), "co");
        assert_eq!(ranges(DATE).text(), "co");
        assert_eq!(ranges("\"x\"").text(), "content");

        let (saved, kept) = (tree.outside("etag"), tree.outside("kept"));
        let (saved, kept) = (saved.to_str().unwrap(), kept.to_str().unwrap());
        let get =
            || curl(&["--etag-save", saved, "--etag-compare", saved, "-o", kept, "-w", "%{http_code}", &url]);
        fs::write(saved, "").unwrap();
        let codes = [get(), get()].map(|output| String::from_utf8(output.stdout).unwrap());
        assert_eq!(codes, ["200", "304"]);
        fs::write(tree.root().join("file"), "changed").unwrap();
        set_date(&tree.root().join("file"), 1);
        assert_eq!(get().stdout, b"200");
        assert_eq!(fs::read_to_string(kept).unwrap(), "changed");
    });
}

#[test]
fn compressed_copies_are_sent_to_clients_that_accept_them() {
    with_curl("compressed_copies_are_sent_to_clients_that_accept_them", || {
        let page = "<p>text</p>".repeat(1000);
        let tree = Tree::new(&[
            ("page.html", page.as_bytes()),
            ("page.html.br", b"brotli"),
            ("data.gz", b"x"),
            ("same", b"1"),
            ("same.br", b"2"),
        ]);
        let gzip = Command::new("gzip").arg("-kn").arg(tree.root().join("page.html")).status().unwrap();
        assert!(gzip.success());
        let server = Running::new(&tree, Settings::default());
        let url = server.url("/page.html");
        let get = |accepted| fetch(&url, &["-H", accepted]);
        let plain = get("Accept-Encoding:");
        assert_eq!((plain.text(), plain.field("content-encoding")), (&*page, None));
        let brotli = get("Accept-Encoding: gzip, br");
        assert_eq!((brotli.text(), brotli.field("content-encoding")), ("brotli", Some("br")));
        assert_eq!(brotli.field("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(brotli.field("vary"), Some("Accept-Encoding"));
        assert_ne!(brotli.field("etag"), plain.field("etag"));
        assert_eq!(get("Accept-Encoding: br;q=0.1, gzip").field("content-encoding"), Some("gzip"));
        assert_eq!(fetch(&url, &["--compressed", "-H", "Accept-Encoding: gzip"]).text(), page);
        let part = fetch(&url, &["-H", "Accept-Encoding: br", "-r", "1-2"]);
        assert_eq!((part.text(), part.field("content-range")), ("ro", Some("bytes 1-2/6")));
        assert_eq!(fetch(&server.url("/data.gz"), &["--compressed"]).field("content-encoding"), None);

        let same = ["Accept-Encoding:", "Accept-Encoding: br"]
            .map(|accepted| fetch(&server.url("/same"), &["-H", accepted]).field("etag").unwrap().to_owned());
        assert_ne!(same[0], same[1], "of one length and date");

        set_date(&tree.root().join("page.html"), 1);
        let fresh = get("Accept-Encoding: br");
        assert_eq!(fresh.field("content-encoding"), None, "a copy of an older version is not sent");
        let without = Running::new(&tree, Settings { precompressed: false, ..Settings::default() });
        let answer = fetch(&without.url("/page.html"), &["-H", "Accept-Encoding: gzip"]);
        assert_eq!((answer.field("content-encoding"), answer.field("vary")), (None, None));
    });
}

#[test]
fn other_methods_are_refused() {
    with_each_version("other_methods_are_refused", |option, _| {
        let tree = Tree::new(&[("file", b"content")]);
        let server = Running::new(&tree, Settings::default());
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "MADEUP"] {
            let answer = fetch(&server.url("/file"), &[option, "-X", method]);
            assert_eq!((answer.code(), answer.field("allow")), (405, Some("GET, HEAD")), "{method}");
        }
    });
}

/// With HTTP/1 only: HTTP/2 resets the stream without an error (RFC 9113, 8.1). curl 7.88 takes that for an
/// error, with nginx as well.
#[test]
fn an_upload_is_refused_with_an_answer() {
    with_curl("an_upload_is_refused_with_an_answer", || {
        let tree = Tree::new(&[("file", b"content")]);
        let server = Running::new(&tree, Settings::default());
        let upload = tree.outside("upload");
        fs::write(&upload, bytes(900_000)).unwrap();
        let data = format!("@{}", upload.display());
        for expect in ["Expect:", "Expect: 100-continue"] {
            let answer = fetch(&server.url("/file"), &["-H", expect, "--data-binary", &data]);
            assert_eq!(answer.code(), 405, "{expect}");
        }
    });
}

/// With HTTP/2 through TLS: curl 7.88 cannot use a connection twice that has HTTP/2 by prior knowledge, with
/// nginx neither.
#[test]
fn requests_share_a_connection() {
    with_curl("requests_share_a_connection", || {
        let content = bytes(300_000);
        let tree = Tree::new(&[("file", &content)]);
        let [certificate, key] = certify(&tree, "127.0.0.1");
        let tls = Arc::new(Tls::load(&certificate, &key).unwrap());
        let server = Running::with(&tree, Settings::default(), |server| server.with_tls(tls));
        let url = format!("https://{}/file", server.address);
        let certificate = certificate.to_str().unwrap();
        let format = "%{http_version} %{size_download} %{num_connects}\n";
        for (option, version, connections) in [("--http1.1", "1.1", 1..=20), ("--http2", "2", 1..=1)] {
            let mut arguments = vec![option, "--cacert", certificate, "--parallel", "--parallel-max", "20"];
            arguments.extend(["-w", format]);
            (0..40).for_each(|_| arguments.extend(["-o", "/dev/null", &url]));
            let output = String::from_utf8(curl(&arguments).stdout).unwrap();
            let whole = format!("{version} 300000 ");
            assert_eq!(output.lines().filter(|line| line.starts_with(&whole)).count(), 40, "{output}");
            let new = output.lines().filter(|line| line.ends_with(" 1")).count();
            assert!(connections.contains(&new), "{output}");
        }
    });
}

#[test]
fn a_request_with_the_end_behind_it_is_answered_every_time() {
    on_both_kinds_of_sockets(|| {
        let tree = Tree::new(&[("file", b"content")]);
        let server = Running::new(&tree, Settings::default());
        for request in 0..1000 {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.write_all(b"GET /file HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.ends_with("\r\n\r\ncontent"), "request {request}: {answer:?}");
        }
    });
}

#[test]
fn raw_requests_of_nc_are_answered_or_refused() {
    if Command::new("nc").arg("-h").output().is_err() {
        let lack = Lack::Program { program: "nc", package: "netcat-openbsd" };
        return evenkeel_skip::skip("raw_requests_of_nc_are_answered_or_refused", &lack);
    }
    on_both_kinds_of_sockets(|| {
        let tree = Tree::new(&[("file", b"content")]);
        let server = Running::new(&tree, Settings::default());
        let ask = |request: &str| {
            let (ip, port) = (server.address.ip().to_string(), server.address.port().to_string());
            let mut nc = Command::new("nc")
                .args(["-N", &ip, &port])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            nc.stdin.take().unwrap().write_all(request.as_bytes()).unwrap();
            String::from_utf8(nc.wait_with_output().unwrap().stdout).unwrap()
        };
        for (request, status) in [
            ("GET /file HTTP/1.0\r\n\r\n", "HTTP/1.0 200 OK"),
            ("GET /file HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 OK"),
            ("GET http://x/file HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK"),
            ("GET /file HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request"),
            ("GET /file HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "HTTP/1.1 400 Bad Request"),
            ("GET /fi le HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400 Bad Request"),
            ("GET file HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 4"),
            ("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"),
            ("CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"),
            (
                "GET /file HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                "HTTP/1.1 400 Bad Request",
            ),
            ("hello\r\n\r\n", "HTTP/1.1 400 Bad Request"),
            ("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "HTTP/1.1 4"),
        ] {
            let answer = ask(request);
            assert!(answer.starts_with(status), "{request:?}: {answer:?}");
        }
        for silent in
            ["", "GET /file HT", "GET /file HTTP/1.1\r\nHost: x\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n?"]
        {
            let answer = ask(silent);
            assert!(!answer.contains("content"), "{silent:?}: {answer:?}");
        }
        assert!(ask("GET /file HTTP/1.0\r\n\r\n").ends_with("content"), "the server goes on");
    });
}

#[test]
fn slow_clients_are_closed() {
    on_both_kinds_of_sockets(|| {
        let tree = Tree::new(&[("file", b"content")]);
        let [certificate, key] = certify(&tree, "127.0.0.1");
        let tls = Arc::new(Tls::load(&certificate, &key).unwrap());
        let settings = Settings { head_timeout: Duration::from_millis(100), ..Settings::default() };
        let servers = [
            Running::new(&tree, settings.clone()),
            Running::with(&tree, settings, |server| server.with_tls(tls)),
        ];
        let texts =
            [&b""[..], b"G", b"GET /file HTTP/1.1\r\n", b"PRI * HTTP/2.0", b"\x16\x03\x01\x02\x00\x01"];
        let streams = servers.iter().flat_map(|server| {
            texts.map(|text| {
                let mut stream = TcpStream::connect(server.address).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
                stream.write_all(text).unwrap();
                stream
            })
        });
        for mut stream in streams.collect::<Vec<_>>() {
            let mut answer = Vec::new();
            // A connection with unread bytes may be reset.
            let read = stream.read_to_end(&mut answer);
            assert!(!read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "still open");
            assert!(!String::from_utf8_lossy(&answer).contains("200 OK"));
        }
    });
}

#[test]
fn a_stopped_server_ends_with_its_connections() {
    on_both_kinds_of_sockets(|| {
        let tree = Tree::new(&[("file", b"content")]);
        let mut server = Running::new(&tree, Settings::default());
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(b"GET /file HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut some = [0; 10];
        stream.read_exact(&mut some).unwrap();
        assert_eq!(server.stop().unfinished, 0);
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(rest.ends_with("content"));
    });
}

/// Writes a certificate for a server, and for the first of a test at a TAP, and its key.
pub(crate) fn certify(tree: &Tree, name: &str) -> [std::path::PathBuf; 2] {
    let made = rcgen::generate_simple_self_signed([name.to_owned(), "10.77.0.2".to_owned()]).unwrap();
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| tree.outside(name));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    [certificate, key]
}

#[test]
fn files_are_served_through_tls_and_the_certificate_can_change() {
    with_curl("files_are_served_through_tls_and_the_certificate_can_change", || {
        let content = bytes(1_000_000);
        let tree = Tree::new(&[("file", &content)]);
        let [certificate, key] = certify(&tree, "127.0.0.1");
        let tls = Arc::new(Tls::load(&certificate, &key).unwrap());
        let server = Running::with(&tree, Settings::default(), |server| server.with_tls(Arc::clone(&tls)));
        let url = format!("https://{}/file", server.address);
        let trusted = tree.outside("trusted.pem");
        fs::copy(&certificate, &trusted).unwrap();
        let trusted = trusted.to_str().unwrap();
        for (options, version) in [(&[][..], "2"), (&["--http1.1"], "1.1"), (&["--tls-max", "1.2"], "2")] {
            let answer = fetch(&url, &[&["--cacert", trusted], options].concat());
            assert!(answer.status.starts_with(version) && answer.body == content, "{:?}", answer.status);
        }
        assert!(!curl(&["--cacert", trusted, &server.url("/file")]).status.success(), "no clear text");

        certify(&tree, "127.0.0.1");
        assert!(
            curl(&["--cacert", trusted, "-o", "/dev/null", &url]).status.success(),
            "not before it is told"
        );
        tls.reload().unwrap();
        assert!(!curl(&["--cacert", trusted, &url]).status.success());
        assert!(fetch(&url, &["--cacert", certificate.to_str().unwrap()]).body == content);

        fs::write(&certificate, "nonsense").unwrap();
        assert!(matches!(tls.reload(), Err(TlsError::NoCertificate(_))));
        assert!(curl(&["-k", "-o", "/dev/null", &url]).status.success(), "the former certificate stays");
    });
}

#[test]
fn certificates_that_cannot_be_used_say_why() {
    let tree = Tree::new(&[]);
    let [certificate, key] = certify(&tree, "127.0.0.1");
    let missing = tree.outside("missing.pem");
    let text = Tls::load(&missing, &key).unwrap_err().to_string();
    assert!(text.contains("missing.pem") && text.contains("No such file"), "{text}");
    assert!(matches!(Tls::load(&certificate, &certificate), Err(TlsError::File { .. })));
    let old = tree.outside("old.pem");
    fs::rename(&key, &old).unwrap();
    certify(&tree, "127.0.0.1");
    assert!(
        matches!(Tls::load(&certificate, &old), Err(TlsError::Refused(_))),
        "a key of another certificate"
    );
}
