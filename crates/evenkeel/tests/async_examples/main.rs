//! The examples on tokio serve the kernel's clients, over a TAP in a network namespace. Needs root; says
//! aloud if it is skipped.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod grpc;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::Stdio;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use evenkeel::net::Net;
use evenkeel_testing::{Program, Scratch, words};
use tokio::runtime::Builder;
use tokio::sync::{Notify, oneshot};

#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/axum.rs"]
mod axum;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/game_loop.rs"]
mod game_loop;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/graceful_shutdown.rs"]
mod graceful_shutdown;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/grpc_health.rs"]
mod grpc_health;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/memcached_like.rs"]
mod memcached_like;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/quic_echo.rs"]
mod quic_echo;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/reverse_proxy.rs"]
mod reverse_proxy;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/several_cores.rs"]
mod several_cores;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/static_file_server.rs"]
mod static_file_server;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/tls.rs"]
mod tls;

const PROGRAMS: [Program; 3] = [("ip", "iproute2"), ("curl", "curl"), ("nc", "netcat-openbsd")];

/// Runs an example on a thread of its own, and `ask` at the other end of its TAP device.
fn beside<F: Future>(serve: impl FnOnce(Net) -> F + Send + 'static, ask: impl FnOnce() + Send + 'static) {
    evenkeel_testing::in_namespace(&[&PROGRAMS], || {
        let net = Net::open("tap:keel0").unwrap();
        let (end, ended) = oneshot::channel::<()>();
        let serving = thread::spawn(move || {
            Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                tokio::select! {
                    _ = serve(net.clone()) => {}
                    _ = ended => {}
                }
                net.check().unwrap();
            });
        });
        ask();
        drop(end);
        serving.join().unwrap();
    });
}

/// Returns what a client prints, with `input` and then end-of-file as its standard input.
fn client(command: &str, input: &[u8]) -> String {
    let mut child =
        words(&format!("timeout 30 {command}")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // What it does not take it need not: the answer shows that.
    let _ = child.stdin.take().unwrap().write_all(input);
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// The options with which curl tries again until the server listens.
const CURL: &str = "curl --silent --show-error --retry 20 --retry-delay 1 --retry-connrefused";

#[test]
fn axum_answers_curl() {
    beside(
        async |net| axum::serve(&net).await,
        || {
            assert_eq!(client(&format!("{CURL} http://10.77.0.2/hello/you"), b""), "Hello, you!\n");
            let long = [b'x'; 100_000];
            assert_eq!(
                client(&format!("{CURL} --data-binary @- http://10.77.0.2/length"), &long),
                "100000\n"
            );
            let missing =
                format!("{CURL} --output /dev/null --write-out %{{http_code}} http://10.77.0.2/none");
            assert_eq!(client(&missing, b""), "404");
        },
    );
}

#[test]
fn tls_answers_curl() {
    beside(
        async |net| tls::serve(&net).await,
        || {
            let answer = client(&format!("{CURL} --insecure https://10.77.0.2/here"), b"");
            assert_eq!(answer, "Nobody else has seen /here\n");
        },
    );
}

/// Both threads serve until the program ends.
#[test]
fn each_core_answers_curl_at_its_own_address() {
    evenkeel_testing::in_namespace(&[&PROGRAMS], || {
        let nets = ["tap:keel0", "tap:keel1"]
            .map(|link| several_cores::open(link, usize::from(link.ends_with('1'))));
        for (core, net) in nets.into_iter().enumerate() {
            let net = net.unwrap();
            thread::spawn(move || several_cores::serve(&net, core));
        }
        for core in [0, 1, 0] {
            let answer = client(&format!("{CURL} http://10.77.{core}.2/a http://10.77.{core}.2/b"), b"");
            assert_eq!(answer, format!("core {core} has /a\ncore {core} has /b\n"));
        }
    });
}

#[test]
fn the_file_server_answers_curl() {
    let scratch = Scratch::new();
    for (name, text) in [("index.html", "<p>"), ("digits", "0123456789"), (".hidden", "x")] {
        scratch.write(&format!("root/{name}"), text);
    }
    scratch.write("secret", "x");
    let root = scratch.file("root");
    std::os::unix::fs::symlink("../secret", root.join("way-out")).unwrap();
    beside(
        async move |net| static_file_server::serve(&net, &root).await,
        || {
            let curl = |rest: &str| client(&format!("{CURL} --path-as-is http://10.77.0.2{rest}"), b"");
            assert_eq!((curl("/"), curl("/digits")), ("<p>".into(), "0123456789".into()));
            assert_eq!((curl("/digits -r 2-5"), curl("/digits -r -3")), ("2345".into(), "789".into()));
            let code = "--output /dev/null --write-out %{http_code}";
            for (rest, expected) in [
                ("/digits -r 10-", "416"),
                ("/digits -X POST", "405"),
                ("/none", "404"),
                ("/.hidden", "404"),
                ("/../secret", "404"),
                ("/way-out", "404"),
            ] {
                assert_eq!(curl(&format!("{rest} {code}")), expected, "{rest}");
            }
            let head = curl("/digits --head");
            assert!(head.contains("content-length: 10"), "{head}");
            let etag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
            assert_eq!(curl(&format!("/digits {code} --header If-None-Match:{etag}")), "304");
            assert_eq!(curl(&format!("/digits {code} --header If-None-Match:\"other\"")), "200");
        },
    );
}

/// The answer waits for the end of the service, and the service for the answer.
#[test]
fn a_graceful_shutdown_answers_the_request_that_is_open() {
    let (begin, begun) = mpsc::channel();
    let (over, is_over) = mpsc::channel();
    let (end, ended) = oneshot::channel::<()>();
    let release = Arc::new(Notify::new());
    let released = Arc::clone(&release);
    let slow = async move || {
        begin.send(()).unwrap();
        released.notified().await;
        "The last answer.\n"
    };
    beside(
        async move |net| {
            let end = async { ended.await.unwrap() };
            graceful_shutdown::serve(&net, ::axum::routing::get(slow), end).await.unwrap();
            over.send(()).unwrap();
        },
        move || {
            let open = thread::spawn(|| client(&format!("{CURL} http://10.77.0.2/"), b""));
            begun.recv_timeout(Duration::from_secs(30)).unwrap();
            end.send(()).unwrap();
            let early = is_over.recv_timeout(Duration::from_millis(200));
            assert!(early.is_err(), "a request is still open");
            release.notify_one();
            assert_eq!(open.join().unwrap(), "The last answer.\n");
            is_over.recv_timeout(Duration::from_secs(30)).unwrap();
        },
    );
}

#[test]
fn the_store_answers_nc() {
    beside(
        async |net| memcached_like::serve(&net).await,
        || {
            // It listens as soon as it accepts this.
            while !client("nc -N -w 5 10.77.0.2 11211", b"get a\r\n").starts_with("END") {}
            let requests =
                b"set a 7 0 5\r\nhello\r\nget a b\r\ndelete a\r\ndelete a\r\nget a\r\nsing\r\nquit\r\n";
            let answers = "STORED\r\nVALUE a 7 5\r\nhello\r\nEND\r\nDELETED\r\nNOT_FOUND\r\nEND\r\nERROR\r\n";
            assert_eq!(client("nc -N -w 5 10.77.0.2 11211", requests), answers);
        },
    );
}

#[test]
fn the_world_moves_its_players_with_every_tick() {
    beside(
        async |net| game_loop::serve(&net).await,
        || {
            let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            let (mut buffer, mut seen) = ([0; 1_500], Vec::new());
            while seen.len() < 30 {
                socket.send_to(b"1 -2", "10.77.0.2:6000").unwrap();
                let Ok(len) = socket.recv(&mut buffer) else { continue };
                let text = String::from_utf8(buffer[..len].to_vec()).unwrap();
                let numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
                seen.push(numbers.collect::<Vec<i64>>());
            }
            for pair in seen.windows(2) {
                let [tick, x, y] = [0, 1, 2].map(|nth| pair[1][nth] - pair[0][nth]);
                assert_eq!((x, y), (tick, -2 * tick), "{pair:?}");
            }
        },
    );
}

#[test]
fn the_reverse_proxy_asks_another_server_for_curl() {
    let upstream: SocketAddr = "10.77.0.1:8000".parse().unwrap();
    beside(
        async move |net| reverse_proxy::serve(&net, upstream).await,
        move || {
            let url = "http://10.77.0.2/page";
            let status = format!("{CURL} --output /dev/null --write-out %{{http_code}} {url}");
            assert_eq!(client(&status.replace("--retry 20", ""), b""), "502");
            let listener = TcpListener::bind(upstream).unwrap();
            let serving = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let (mut request, mut buffer) = (Vec::new(), [0; 1_000]);
                while !request.ends_with(b"\r\n\r\n") {
                    let len = stream.read(&mut buffer).unwrap();
                    request.extend_from_slice(&buffer[..len]);
                }
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nbehind\n").unwrap();
                String::from_utf8(request).unwrap()
            });
            assert_eq!(client(&format!("{CURL} {url}"), b""), "behind\n");
            let request = serving.join().unwrap();
            assert!(request.starts_with("GET /page HTTP/1.1\r\n"), "{request}");
            assert!(request.contains("x-forwarded-for: 10.77.0.1\r\n"), "{request}");
        },
    );
}

/// A client over the kernel's sockets that trusts any certificate.
mod trusting {
    use super::Arc;
    use tokio_rustls::rustls::client::danger::{
        HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
    };
    use tokio_rustls::rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

    #[derive(Debug)]
    struct Any(Arc<CryptoProvider>);

    impl ServerCertVerifier for Any {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.signature_verification_algorithms.supported_schemes()
        }
    }

    pub(super) fn config() -> quinn::ClientConfig {
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let mut config = builder
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Any(provider)))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"echo".to_vec()];
        let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(config).unwrap();
        quinn::ClientConfig::new(Arc::new(crypto))
    }
}

#[test]
fn quic_echoes_to_a_client_over_the_kernel() {
    beside(
        async |net| quic_echo::serve(&net).await,
        || {
            Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                let endpoint = quinn::Endpoint::client("10.77.0.1:0".parse().unwrap()).unwrap();
                let to = "10.77.0.2:4433".parse().unwrap();
                let connecting = endpoint.connect_with(trusting::config(), to, "evenkeel.example").unwrap();
                let connection = connecting.await.unwrap();
                for len in [1, 1_000, 1_000_000] {
                    let message: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
                    let (mut send, mut receive) = connection.open_bi().await.unwrap();
                    send.write_all(&message).await.unwrap();
                    send.finish().unwrap();
                    assert!(receive.read_to_end(len).await.unwrap() == message, "{len}");
                }
                connection.close(0_u32.into(), b"");
                endpoint.wait_idle().await;
            });
        },
    );
}
