//! The server under the load generator: HTTP/1.1 and HTTP/2, through TLS and in clear, on several threads.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use evenkeel::net::Net;
use evenkeel_apps::host_setup::Limits;
use evenkeel_apps::http::files::{Settings, Tls};
use evenkeel_apps::load::{
    self, Curve, Failure, Load, Measured, OnKernel, Plan, Protocols, RefusedTls, Report, Request, Share,
    Spacing, Tasks, TasksError, Trust, TrustError, Version,
};

use evenkeel_skip::Lack;

use crate::clients::certify;
use crate::running::Running;
use crate::tree::{Tree, bytes};

/// The requests of a plan, in half a second.
const DUE: u64 = 100;

fn plan() -> Plan {
    let length = Duration::from_millis(500);
    Plan {
        load: Load::Open { curve: Curve::flat(2.0 * DUE as f64, length), spacing: Spacing::Constant },
        length,
        warm_up: Duration::ZERO,
        connections: 20,
        requests_per_connection: None,
        timeout: Duration::from_secs(60),
        connect_timeout: Duration::from_secs(60),
        cold: 0,
        cold_rate: 0.0,
        interval: Duration::from_millis(100),
        seed: 1,
        share: Share::WHOLE,
    }
}

/// A load and the protocols that it is to have.
struct Case {
    url: String,
    protocols: Protocols,
    threads: usize,
    plan: Plan,
    /// The host whose sockets are used instead of the kernel's.
    net: Option<Net>,
    /// The addresses that the server has in addition, before the one of the URL.
    before: Vec<SocketAddr>,
}

impl Case {
    fn new(url: String, version: Version, trust: Trust) -> Self {
        Self {
            url,
            protocols: Protocols { version, streams: 10, trust },
            threads: 1,
            plan: plan(),
            net: None,
            before: Vec::new(),
        }
    }

    fn measure(&self) -> Result<Measured, TasksError> {
        let target = self.url.parse().unwrap();
        let request = Request::new(&target, "GET", &[], b"").unwrap();
        let mut to = self.before.clone();
        to.push(SocketAddr::new(target.host.parse().unwrap(), target.port));
        let (plan, request, protocols, threads) = (&self.plan, &request, &self.protocols, self.threads);
        let tasks = Tasks { plan, request, protocols, threads };
        if let Some(net) = &self.net {
            let (measured, _, hosts) = tasks.run_on_net(net, to, Limits::default(), |_| {})?;
            assert!(hosts.counters.conserved, "{hosts:?}");
            return Ok(measured);
        }
        let at = OnKernel { to, from: Vec::new() };
        tasks.run_on_kernel(at, Limits::default(), |_| {}).map(|(measured, _)| measured)
    }

    /// Carries out the load. Every request that was due must have ended in exactly one way.
    fn report(&self) -> Report {
        let report = Report::new(&self.measure().unwrap(), load::Effort::default());
        let counts = &report.counts;
        assert_eq!(counts.due, counts.statuses.all() + counts.failed.all(), "{report:?}");
        let in_parts = |of: fn(&load::Interval) -> u64| report.intervals.iter().map(of).sum::<u64>();
        assert_eq!(in_parts(|part| part.due), counts.due, "{report:?}");
        assert_eq!(in_parts(|part| part.answered), counts.statuses.all(), "{report:?}");
        assert_eq!(report.service_us.count, counts.statuses.all(), "{report:?}");
        report
    }
}

/// A file server that speaks TLS, and the file of its certificate.
fn secure(tree: &Tree) -> (Running, PathBuf) {
    let [certificate, key] = certify(tree, "127.0.0.1");
    let tls = Arc::new(Tls::load(&certificate, &key).unwrap());
    (Running::with(tree, Settings::default(), |server| server.with_tls(tls)), certificate)
}

#[test]
fn requests_are_answered_in_each_version_through_tls_and_in_clear() {
    let tree = Tree::new(&[("file", &bytes(100_000))]);
    let (server, certificate) = secure(&tree);
    let url = format!("https://{}/file", server.address);
    let clear = Running::new(&tree, Settings::default());
    for case in [
        Case::new(url.clone(), Version::Http1, Trust::File(certificate)),
        Case::new(url, Version::Http2, Trust::All),
        Case::new(clear.url("/file"), Version::Http2, Trust::System),
    ] {
        let report = case.report();
        assert_eq!((report.counts.due, report.counts.statuses.successful), (DUE, DUE), "{report:?}");
        assert!(report.bytes_in > DUE * 100_000 && report.bytes_out > 0, "{report:?}");
        let opened = report.connections.opened;
        let is_shared = case.protocols.version == Version::Http1 || opened <= 1 + DUE / 10;
        assert!(is_shared && report.connections.most <= 20, "{report:?}");
    }
}

/// One answer takes so long that the others of its connection would wait for it, if they were not in streams
/// of their own.
#[test]
fn a_connection_of_http2_has_many_requests_and_each_has_its_status() {
    let tree = Tree::new(&[("file", b"content")]);
    let (server, certificate) = secure(&tree);
    let url = format!("https://{}/nothing", server.address);
    let mut case = Case::new(url, Version::Http2, Trust::File(certificate));
    (case.plan.load, case.plan.connections) = (Load::Closed, 1);
    let report = case.report();
    assert_eq!((report.connections.opened, report.connections.most), (1, 1), "{report:?}");
    assert!(report.counts.statuses.client_error > 10, "{report:?}");
    assert_eq!(report.counts.statuses.all(), report.counts.statuses.client_error, "{report:?}");
}

#[test]
fn threads_share_the_requests_of_a_plan() {
    let tree = Tree::new(&[("file", b"content")]);
    let (server, certificate) = secure(&tree);
    for (url, version) in [
        (format!("https://{}/file", server.address), Version::Http1),
        (format!("https://{}/file", server.address), Version::Http2),
    ] {
        let mut case = Case::new(url, version, Trust::File(certificate.clone()));
        case.threads = 3;
        let report = case.report();
        assert_eq!((report.threads, report.connections.limit), (3, 20), "{report:?}");
        assert_eq!((report.counts.due, report.counts.statuses.successful), (DUE, DUE), "{report:?}");
        assert_eq!(report.intervals.len(), 5, "{report:?}");
        assert!(report.intervals.iter().all(|part| part.p50_us <= part.max_us), "{report:?}");
        assert!((report.target_rps.unwrap() - 2.0 * DUE as f64).abs() < 0.1, "{report:?}");
    }
}

/// Threads of the generator that has no need of hyper.
#[test]
fn threads_share_the_requests_of_a_plan_without_hyper() {
    let tree = Tree::new(&[("file", b"content")]);
    let server = Running::new(&tree, Settings::default());
    let request = Request::new(&server.url("/file").parse().unwrap(), "GET", &[], b"").unwrap();
    let at = OnKernel { to: vec![server.address], from: Vec::new() };
    let plan = Plan { cold: 5, ..plan() };
    let (measured, effort) = load::run(&at, &plan, &request, 3, Limits::default(), |_| {}).unwrap();
    let report = Report::new(&measured, effort);
    assert_eq!((report.threads, report.connections.limit), (3, 20), "{report:?}");
    assert_eq!((report.counts.due, report.counts.statuses.successful), (DUE, DUE), "{report:?}");
    let cold = report.cold.unwrap();
    assert_eq!((cold.wanted, cold.at_start, cold.at_end), (5, 5, 5), "{report:?}");
    assert_eq!(report.response_us.count, DUE, "{report:?}");
}

#[test]
fn cold_connections_are_open_all_the_time_and_have_few_requests() {
    let tree = Tree::new(&[("file", b"content")]);
    let (server, certificate) = secure(&tree);
    for version in [Version::Http1, Version::Http2] {
        let url = format!("https://{}/file", server.address);
        let mut case = Case::new(url, version, Trust::File(certificate.clone()));
        (case.plan.cold, case.plan.cold_rate, case.threads) = (25, 100.0, 2);
        let report = case.report();
        let cold = report.cold.unwrap();
        assert_eq!((cold.wanted, cold.at_start, cold.at_end), (25, 25, 25), "{report:?}");
        assert_eq!((cold.opened, cold.failed, cold.closed), (25, 0, 0), "{report:?}");
        assert!(cold.answered > 10 && cold.answered <= cold.requests, "{report:?}");
        assert_eq!((report.counts.due, report.counts.statuses.successful), (DUE, DUE), "{report:?}");
    }
}

#[test]
fn a_connection_ends_after_as_many_requests_as_asked_for() {
    let tree = Tree::new(&[("file", b"content")]);
    let (server, certificate) = secure(&tree);
    for version in [Version::Http1, Version::Http2] {
        let url = format!("https://{}/file", server.address);
        let mut case = Case::new(url, version, Trust::File(certificate.clone()));
        case.plan.requests_per_connection = Some(1);
        let report = case.report();
        assert_eq!(report.counts.statuses.successful, DUE, "{report:?}");
        assert_eq!((report.connections.opened, report.repeated), (DUE, 0), "{report:?}");
    }
}

#[test]
fn a_certificate_that_is_not_trusted_ends_the_run() {
    let tree = Tree::new(&[("file", b"content")]);
    let [certificate, key] = certify(&tree, "127.0.0.1");
    let tls = Arc::new(Tls::load(&certificate, &key).unwrap());
    let all = Ipv4Addr::UNSPECIFIED;
    let server = Running::at(all, &tree, Settings::default(), |server| server.with_tls(tls));
    // Another certificate of the same name.
    let other = tree.outside("other.pem");
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&other, made.cert.pem()).unwrap();
    let url = |host: &str| format!("https://{host}:{}/file", server.address.port());
    for (url, trust) in [
        (url("127.0.0.1"), Trust::File(other)),
        // The certificate is of another name.
        (url("127.0.0.2"), Trust::File(certificate.clone())),
    ] {
        let mut case = Case::new(url, Version::Http1, trust);
        case.threads = 2;
        let measured = case.measure().unwrap();
        assert_eq!(measured.address, None);
        assert!(matches!(measured.refused_tls, Some(RefusedTls::Certificate(_))), "{measured:?}");
        assert_eq!(measured.unreached, [(0, Failure::Tls)], "{measured:?}");
        assert_eq!(Report::new(&measured, load::Effort::default()).counts.due, 0);
    }
    let refused = |trust| Case::new(url("127.0.0.1"), Version::Http1, trust).measure().unwrap_err();
    let nonsense = tree.outside("key.pem");
    let error = refused(Trust::File(nonsense));
    assert!(matches!(error, TasksError::Trust(TrustError::NoCertificate(_))), "{error}");
    let error = refused(Trust::File(tree.outside("missing.pem")));
    assert!(matches!(error, TasksError::Trust(TrustError::File { .. })), "{error}");
}

/// The server is not at the first of its addresses, and a server without TLS is at the second one.
#[test]
fn every_address_of_a_name_is_tried() {
    let tree = Tree::new(&[("file", b"content")]);
    let (server, certificate) = secure(&tree);
    let clear = Running::new(&tree, Settings::default());
    let nobody = SocketAddr::new(Ipv4Addr::new(127, 0, 0, 9).into(), server.address.port());
    for version in [Version::Http1, Version::Http2] {
        let url = format!("https://{}/file", server.address);
        let mut case = Case::new(url, version, Trust::File(certificate.clone()));
        case.before = vec![nobody, clear.address];
        case.threads = 2;
        let measured = case.measure().unwrap();
        assert_eq!(measured.address, Some(2), "{measured:?}");
        assert_eq!(measured.unreached, [(0, Failure::Refused), (1, Failure::Tls)], "{measured:?}");
        let report = Report::new(&measured, load::Effort::default());
        assert_eq!((report.counts.due, report.counts.statuses.successful), (DUE, DUE), "{report:?}");
    }
}

/// The server is on the kernel's sockets, the generator on those of a host at the other end of a TAP device.
#[test]
fn our_own_tcp_speaks_both_versions_on_a_tap() {
    let test = || {
        let (address, tree) = ("10.77.0.1", Tree::new(&[("file", &bytes(20_000))]));
        let net = Net::builder().link("tap:eklo0").address("10.77.0.2/24").kernel_address("10.77.0.1/24");
        let net = net.open().unwrap();
        let [certificate, key] = certify(&tree, address);
        let tls = Arc::new(Tls::load(&certificate, &key).unwrap());
        let address: Ipv4Addr = address.parse().unwrap();
        let server = Running::at(address, &tree, Settings::default(), |server| server.with_tls(tls));
        for version in [Version::Http1, Version::Http2] {
            let mut case = Case::new(
                format!("https://{}/file", server.address),
                version,
                Trust::File(certificate.clone()),
            );
            case.net = Some(net.clone());
            let report = case.report();
            assert_eq!((report.counts.due, report.counts.statuses.successful), (DUE, DUE), "{report:?}");
        }
        drop(server);
        let mut case = Case::new("https://10.77.0.1:9/".to_owned(), Version::Http2, Trust::All);
        case.net = Some(net.clone());
        assert_eq!(case.measure().unwrap().unreached, [(0, Failure::Refused)]);
        net.check().unwrap();
    };
    thread::scope(|scope| {
        let isolated = scope.spawn(|| match evenkeel::raw::kernel::enter_new_network() {
            Ok(()) => test(),
            Err(error) => {
                let lack = Lack::Root(&error.to_string());
                evenkeel_skip::skip("our_own_tcp_speaks_both_versions_on_a_tap", &lack);
            }
        });
        isolated.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Serves each connection on a thread of its own for as long as the test runs.
fn serve(each: impl Fn(std::net::TcpStream, usize) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (each, count) = (each.clone(), Arc::clone(&count));
            thread::spawn(move || stream.map(|stream| each(stream, count.fetch_add(1, Ordering::Relaxed))));
        }
    });
    format!("https://{address}/")
}

#[test]
fn a_server_without_tls_or_without_http2_says_so_before_the_run() {
    let tree = Tree::new(&[]);
    let clear = Running::new(&tree, Settings::default());
    let measured =
        Case::new(format!("https://{}/", clear.address), Version::Http1, Trust::All).measure().unwrap();
    assert!(matches!(measured.refused_tls, Some(RefusedTls::Other(_))), "{measured:?}");
    // A server that ends each handshake at once.
    let url = serve(|mut stream, _| drop(stream.read(&mut [0; 10])));
    let measured = Case::new(url, Version::Http2, Trust::All).measure().unwrap();
    assert_eq!(measured.unreached, [(0, Failure::Tls)], "{measured:?}");
    // One that has only HTTP/1.1 in its handshakes.
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth();
    let mut config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    for alpn in [vec![b"http/1.1".to_vec()], Vec::new()] {
        config.alpn_protocols = alpn;
        let config = Arc::new(config.clone());
        let url = serve(move |mut stream, _| {
            let mut tls = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            while tls.complete_io(&mut stream).is_ok() && tls.is_handshaking() {}
            let _ = stream.read(&mut [0; 10]);
        });
        let measured = Case::new(url, Version::Http2, Trust::All).measure().unwrap();
        assert_eq!(measured.refused_tls, Some(RefusedTls::Protocol), "{measured:?}");
    }
}

/// The server answers for a while. Then it dies, with requests under way and new ones to come.
#[test]
fn a_server_that_dies_fails_the_rest() {
    for version in [Version::Http1, Version::Http2] {
        let tree = Tree::new(&[("file", b"content")]);
        let (mut server, certificate) = secure(&tree);
        let url = format!("https://{}/file", server.address);
        let mut case = Case::new(url, version, Trust::File(certificate));
        case.plan.load =
            Load::Open { curve: Curve::flat(1_000.0, Duration::from_secs(2)), spacing: Spacing::Poisson };
        case.plan.length = Duration::from_secs(2);
        let report = thread::scope(|scope| {
            let measuring = scope.spawn(|| case.report());
            // The server must have answered before it is stopped, and the load still be on.
            let mut client = std::net::TcpStream::connect(server.address).unwrap();
            client.set_read_timeout(Some(Duration::from_millis(800))).unwrap();
            let _ = client.read(&mut [0; 10]);
            drop(client);
            server.stop();
            measuring.join().unwrap()
        });
        let counts = &report.counts;
        assert!(counts.statuses.successful > 0, "{version:?}: {report:?}");
        assert!(counts.failed.of(Failure::Refused) > 10, "{version:?}: {report:?}");
        let others = [Failure::Malformed, Failure::Timeout, Failure::Unfinished];
        assert_eq!(others.map(|failure| counts.failed.of(failure)), [0; 3], "{version:?}: {report:?}");
    }
}

/// The server never answers, or with something else than HTTP.
#[test]
fn silence_times_out_and_nonsense_is_told_apart() {
    let silent =
        |mut stream: std::net::TcpStream, _| while stream.read(&mut [0; 1_000]).is_ok_and(|n| n > 0) {};
    let nonsense = |mut stream: std::net::TcpStream, _| {
        let _ = stream.write_all(b"HTTP/1.1 400 no\r\n\r\nsomething much longer than the header of a frame");
        // With unread bytes the connection would be reset.
        while stream.read(&mut [0; 1_000]).is_ok_and(|n| n > 0) {}
    };
    let (soon, late) = (Duration::from_millis(100), Duration::from_secs(10));
    for (url, timeout, expected) in
        [(serve(silent), soon, Failure::Timeout), (serve(nonsense), late, Failure::Malformed)]
    {
        let mut case = Case::new(url.replace("https", "http"), Version::Http2, Trust::System);
        case.plan.timeout = timeout;
        let report = case.report();
        assert_eq!(report.counts.due, DUE, "{report:?}");
        assert!(report.counts.failed.of(expected) > DUE / 2, "{report:?}");
        assert_eq!(report.counts.statuses.all(), 0, "{report:?}");
    }
}
