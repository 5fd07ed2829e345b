//! Tests of our TCP with the kernel's and with independent clients and servers, over devices, without and
//! with loss. They need root, and report if they are skipped.
#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(clippy::print_stdout, reason = "what TCP counted is for people")]

mod kernel;
mod stand;
mod trace;

use std::fs;
use std::path::Path;

use evenkeel::raw::tcp::Counter;
use evenkeel_apps::http::Document;
use evenkeel_apps::stream::{Echo, Sink, Web};
use evenkeel_testing::{Scratch, run};

use stand::{Stand, Way, in_namespace, lossy, lossy_nearby};

const MIB: u64 = 1 << 20;

/// Creates a file of this many bytes for transfers.
fn made_up(path: &Path, bytes: u64) {
    let mut file = fs::File::create(path).unwrap();
    let document = Document::new(bytes);
    let mut piece = vec![0; 1 << 20];
    for start in (0..bytes).step_by(piece.len()) {
        let len = (bytes - start).min(piece.len() as u64) as usize;
        document.read(start, &mut piece[..len]);
        std::io::Write::write_all(&mut file, &piece[..len]).unwrap();
    }
}

fn sha256(path: &Path) -> String {
    run(&format!("sha256sum {}", path.display())).split(' ').next().unwrap().to_owned()
}

fn same(one: &Path, other: &Path) {
    assert_eq!(fs::metadata(one).unwrap().len(), fs::metadata(other).unwrap().len());
    assert_eq!(sha256(one), sha256(other));
}

/// curl gets the document, twice over one connection, its head, and the errors.
fn curl(way: Way, bytes: u64) {
    in_namespace(move || {
        if !way.is_there() {
            return;
        }
        let files = Scratch::new();
        let (wanted, got) = (files.file("wanted"), files.file("got"));
        made_up(&wanted, bytes);
        let mut stand = Stand::new(way, &files);
        // Each run of curl has a connection.
        let server = stand.serve(Web::new(Document::new(bytes)), 80, 8);
        for host in ["10.77.0.2", "[fd77::2]"] {
            let curl = |more: &str| run(&format!("curl -sS -g --max-time 120 {more}"));
            let got = got.display();
            curl(&format!("-o {got} -o {got}.2 http://{host}/ http://{host}/"));
            same(&wanted, &files.file("got"));
            same(&wanted, &files.file("got.2"));
            let head = curl(&format!("-I http://{host}/"));
            assert!(head.contains(&format!("Content-Length: {bytes}\r\n")), "{head}");
            assert!(curl(&format!("-i http://{host}/missing")).starts_with("HTTP/1.1 404"));
            assert!(curl(&format!("-0 -i -o {got} -w %{{http_code}} http://{host}/")).ends_with("200"));
        }
        let served = stand.ended(server);
        assert_eq!((served.accepted, served.failed, served.requests), (8, 0, 10));
    });
}

#[test]
fn curl_over_a_tap() {
    curl(Way::Tap, 4 * MIB);
}

#[test]
fn curl_over_packet_sockets() {
    curl(Way::Packet, 4 * MIB);
}

#[test]
fn curl_over_xdp() {
    curl(Way::Xdp, 4 * MIB);
}

#[test]
fn curl_over_a_way_that_loses() {
    curl(Way::Emulated(lossy()), MIB);
}

/// Bytes that socat and nc send to our echo server come back unchanged.
fn echo(way: Way, bytes: u64) {
    in_namespace(move || {
        if !way.is_there() {
            return;
        }
        let files = Scratch::new();
        let (from, back) = (files.file("from"), files.file("back"));
        made_up(&from, bytes);
        let mut stand = Stand::new(way, &files);
        let server = stand.serve(Echo::default(), 7, 4);
        let shell = |line: String| run_shell(&files, &line);
        for host in ["10.77.0.2", "fd77::2"] {
            let address =
                if host.contains(':') { format!("TCP6:[{host}]:7") } else { format!("TCP:{host}:7") };
            shell(format!("socat -t 60 - {address} < {} > {}", from.display(), back.display()));
            same(&from, &back);
            shell(format!("nc -N {host} 7 < {} > {}", from.display(), back.display()));
            same(&from, &back);
        }
        let served = stand.ended(server);
        assert_eq!((served.accepted, served.failed), (4, 0));
        assert_eq!((served.bytes_in, served.bytes_out), (4 * bytes, 4 * bytes));
    });
}

fn run_shell(files: &Scratch, line: &str) {
    let script = files.write("script", &format!("set -e\n{line}\n"));
    run(&format!("timeout 300 sh {script}"));
}

#[test]
fn echo_over_a_tap() {
    echo(Way::Tap, 8 * MIB);
}

#[test]
fn echo_over_packet_sockets() {
    echo(Way::Packet, 8 * MIB);
}

#[test]
fn echo_over_xdp() {
    echo(Way::Xdp, 8 * MIB);
}

#[test]
fn echo_over_a_way_that_loses() {
    echo(Way::Emulated(lossy()), MIB);
}

/// Bytes go to us from nc, and from us to a server of socat's.
fn bulk(way: Way, bytes: u64) {
    in_namespace(move || {
        if !way.is_there() {
            return;
        }
        let files = Scratch::new();
        let (from, back) = (files.file("from"), files.file("back"));
        made_up(&from, bytes);
        let mut stand = Stand::new(way, &files);
        let server = stand.serve(Sink::default(), 9, 2);
        for host in ["10.77.0.2", "fd77::2"] {
            run_shell(&files, &format!("nc -N {host} 9 < {}", from.display()));
        }
        let served = stand.ended(server);
        assert_eq!((served.accepted, served.failed, served.bytes_in), (2, 0, 2 * bytes));
        println!("{:?}", served.tcp);
        for host in ["10.77.0.1", "fd77::1"] {
            let sent = stand.send(&from, host, &back, false);
            assert!(sent.complete && sent.bytes_out == bytes, "{sent:?}");
            println!("{:?}", sent.tcp);
            same(&from, &back);
            assert_eq!(sent.tcp.count(Counter::InErrs), 0);
        }
    });
}

#[test]
fn bulk_over_a_tap() {
    bulk(Way::Tap, 64 * MIB);
}

#[test]
fn bulk_over_packet_sockets() {
    bulk(Way::Packet, 64 * MIB);
}

#[test]
fn bulk_over_xdp() {
    bulk(Way::Xdp, 64 * MIB);
}

#[test]
fn bulk_over_xdp_with_a_large_mtu() {
    bulk(Way::LargeXdp, 256 * MIB);
}

#[test]
fn bulk_over_a_way_that_loses() {
    bulk(Way::Emulated(lossy()), 4 * MIB);
}

/// curl and the kernel's server use Fast Open: the first connection obtains the cookie, and the second has
/// data in its SYN.
fn fast_open(way: Way) {
    in_namespace(move || {
        let files = Scratch::new();
        let (from, back) = (files.file("from"), files.file("back"));
        made_up(&from, 100_000);
        let mut stand = Stand::new(way, &files);
        // The setting applies to clients and servers, also to those that have not requested it (the kernel's
        // ip-sysctl.rst).
        run("sysctl -qw net.ipv4.tcp_fastopen=0x403");
        let server = stand.serve(Web::new(Document::new(100_000)), 80, 4);
        for host in ["10.77.0.2", "[fd77::2]"] {
            for _ in 0..2 {
                run(&format!(
                    "curl -sS -g --max-time 120 --tcp-fastopen -o {} http://{host}/",
                    back.display()
                ));
                same(&from, &back);
            }
        }
        let served = stand.ended(server);
        assert_eq!((served.accepted, served.failed, served.requests), (4, 0, 4));
        assert_eq!(served.tcp.count(Counter::FastOpenCookieReqd), 2);
        assert_eq!(served.tcp.count(Counter::FastOpenPassive), 2);
        assert_eq!(kernel::counters()["TcpExt.TCPFastOpenActive"], 2);
        for host in ["10.77.0.1", "fd77::1"] {
            let sent = stand.send(&from, host, &back, true);
            assert!(sent.complete && sent.bytes_out == 100_000, "{sent:?}");
            same(&from, &back);
            assert_eq!(sent.tcp.count(Counter::FastOpenActive), 1, "{sent:?}");
        }
        assert_eq!(kernel::counters()["TcpExt.TCPFastOpenPassive"], 2);
    });
}

#[test]
fn fast_open_over_a_tap() {
    fast_open(Way::Tap);
}

#[test]
fn fast_open_over_packet_sockets() {
    fast_open(Way::Packet);
}

/// This takes minutes: `EVENKEEL_LONG=1 cargo test -p evenkeel-apps --test tcp_interop gigabyte`.
fn gigabyte(test: &str, way: impl FnOnce() -> Way) {
    if evenkeel_testing::is_long_or_skip(test) {
        bulk(way(), 1 << 30);
    }
}

#[test]
fn a_gigabyte_over_a_tap() {
    gigabyte("a_gigabyte_over_a_tap", || Way::Tap);
}

#[test]
fn a_gigabyte_over_packet_sockets() {
    gigabyte("a_gigabyte_over_packet_sockets", || Way::Packet);
}

#[test]
fn a_gigabyte_over_a_way_that_loses() {
    gigabyte("a_gigabyte_over_a_way_that_loses", || Way::Emulated(lossy_nearby()));
}
