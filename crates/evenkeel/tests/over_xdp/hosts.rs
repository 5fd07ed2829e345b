//! Two hosts that share a device of two queues, and appear as one to the kernel at the other end.
//!
//! The kernel spreads flows over the queues of a veth by a hash that the hosts do not know.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{
    IpAddr, SocketAddr, TcpListener as KernelListener, TcpStream as KernelStream, UdpSocket as KernelSocket,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use evenkeel::net::{Net, TcpListener, TcpStream, UdpSocket};
use evenkeel::raw::receive::Architecture;
use evenkeel_testing::{Program, attempt, has_xdp, in_namespace, pause, run, uninterrupted, wait_for};

use super::PATIENCE;
use super::faults::{BPFTOOL, detach, program};

const PROGRAMS: [Program; 2] = [("ip", "iproute2"), ("ping", "iputils-ping")];

/// Connections or datagrams of each host or client. All of them by one of two queues would be a chance of one
/// in 2^31.
const FLOWS: usize = 32;

/// Opens two hosts at one end of a veth pair.
fn open(link: &str, architecture: Architecture) -> [Net; 2] {
    let queues = "numrxqueues 2 numtxqueues 2";
    run(&format!("ip link add kernel0 {queues} type veth peer name ek0 {queues}"));
    run("sysctl -qw net.ipv6.conf.kernel0.disable_ipv6=1");
    run("sysctl -qw net.ipv6.conf.ek0.disable_ipv6=1");
    run("sysctl -qw net.ipv4.icmp_ratelimit=0");
    run("ip addr add 10.77.0.1/24 dev kernel0");
    run("ip link set kernel0 up");
    run("ip link set ek0 up");
    let builder = Net::builder().link(link).address("10.77.0.2/24").architecture(architecture);
    builder.open_each(2).unwrap().try_into().unwrap()
}

/// Runs a test with two hosts of each lazy architecture, and then checks where their frames went.
fn with_hosts(test: impl Fn(&[Net; 2]) + Copy + Send + 'static) {
    for architecture in [Architecture::SoftLrp, Architecture::NiLrp] {
        in_namespace(&[&PROGRAMS], move || {
            if has_xdp() {
                let hosts = open("xdp:ek0", architecture);
                test(&hosts);
                hosts.iter().for_each(|host| host.check().unwrap());
                drop(hosts);
                wait_for("the end of the program", || !run("ip link show ek0").contains("prog/xdp"));
            }
        });
    }
}

/// Each host looks after the program of all, also when the one that opened the device first is gone.
#[test]
fn the_last_host_attaches_a_detached_program_again() {
    in_namespace(&[&PROGRAMS, &[BPFTOOL]], || {
        if !has_xdp() {
            return;
        }
        let [first, last] = open("xdp:ek0", Architecture::NiLrp);
        drop(first);
        assert!(program().is_some());
        detach();
        wait_for("the program", || program().is_some());
        assert_eq!(last.failed_device(), None);
        last.check().unwrap();
    });
}

/// Returns the number of packets that hosts have handed over to each other.
fn handed_over(hosts: &[Net; 2]) -> u64 {
    let of = |host: &Net| -> u64 {
        let drops = host.snapshot().drops;
        drops.iter().filter(|drop| drop.reason == "handed-over").map(|drop| drop.frames).sum()
    };
    hosts.iter().map(of).sum()
}

/// Serves connections of the kernel: sends back what it gets.
fn kernel_echo() -> SocketAddr {
    let listener = KernelListener::bind("10.77.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
        }
    });
    at
}

fn exchange(mut stream: impl std::io::Read + std::io::Write, text: &[u8]) {
    let mut back = vec![0; text.len()];
    stream.write_all(text).unwrap();
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, text);
}

#[test]
fn connections_that_hosts_open_get_their_answers_by_whatever_queue() {
    with_hosts(|hosts| {
        let server = kernel_echo();
        let mut ports = Vec::new();
        for number in 0..FLOWS {
            let stream = TcpStream::connect(&hosts[number % 2], server).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let port = stream.local_addr().unwrap().port();
            assert_eq!(usize::from(port) % 2, number % 2, "no two hosts choose one port");
            exchange(&stream, &[number as u8; 5_000]);
            ports.push(port);
        }
        assert!(handed_over(hosts) > 0, "{ports:?}");
    });
}

#[test]
fn a_service_on_each_host_has_a_share_of_the_connections() {
    with_hosts(|hosts| {
        let done = Arc::new(AtomicBool::new(false));
        let serve = |host: &Net| {
            let (listener, done) = (TcpListener::bind(host, "0.0.0.0:80").unwrap(), Arc::clone(&done));
            listener.set_nonblocking(true).unwrap();
            thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let Ok((mut stream, _)) = listener.accept() else {
                        pause(Duration::from_millis(1));
                        continue;
                    };
                    stream.set_nonblocking(false).unwrap();
                    let mut text = [0];
                    stream.read_exact(&mut text).unwrap();
                    stream.write_all(&text).unwrap();
                }
            })
        };
        let servers = hosts.each_ref().map(serve);
        for _ in 0..FLOWS {
            let stream = KernelStream::connect("10.77.0.2:80").unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            exchange(stream, b"x");
        }
        done.store(true, Ordering::Relaxed);
        servers.into_iter().for_each(|server| server.join().unwrap());
        assert!(attempt("ping -c 3 -i 0.1 -W 10 10.77.0.2").0);
        let accepted = hosts.each_ref().map(|host| {
            let counters = host.snapshot().tcp.counters;
            counters.iter().find(|(name, _)| name == "PassiveOpens").map_or(0, |(_, count)| *count)
        });
        assert!(accepted.iter().all(|&count| count > 0), "{accepted:?}");
    });
}

/// The datagrams of each host, from a port that only that host has, are answered to it. A port of no host is
/// refused, by the last one that was asked.
#[test]
fn datagrams_find_the_host_of_their_port() {
    with_hosts(|hosts| {
        let sockets = hosts.each_ref().map(|host| {
            let socket = UdpSocket::bind(host, "0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket
        });
        let far: Vec<_> = (0..FLOWS).map(|_| KernelSocket::bind("10.77.0.1:0").unwrap()).collect();
        for (number, far) in far.iter().enumerate() {
            for socket in &sockets {
                let (to, mut buffer) = (far.local_addr().unwrap(), [0; 8]);
                socket.send_to(&[number as u8], to).unwrap();
                let (_, from) = far.recv_from(&mut buffer).unwrap();
                assert_eq!(from.ip(), IpAddr::from([10, 77, 0, 2]));
                far.send_to(&[number as u8; 3], from).unwrap();
                let (len, from) = uninterrupted(|| socket.recv_from(&mut buffer)).unwrap();
                assert_eq!((&buffer[..len], from), (&[number as u8; 3][..], to));
            }
        }
        assert!(handed_over(hosts) > 0);
        let far = KernelSocket::bind("10.77.0.1:0").unwrap();
        far.set_read_timeout(Some(PATIENCE)).unwrap();
        far.connect("10.77.0.2:9").unwrap();
        far.send(b"closed").unwrap();
        let refused = uninterrupted(|| far.recv(&mut [0; 8])).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let refused = KernelStream::connect("10.77.0.2:81").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
}

/// The kernel reports that a port of its own is closed, by whatever queue. The host that asked hears of it.
#[test]
fn errors_of_icmp_find_the_host_of_the_socket() {
    with_hosts(|hosts| {
        for number in 0..FLOWS {
            let socket = UdpSocket::bind(&hosts[number % 2], "0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.connect(("10.77.0.1", 9_000 + number as u16)).unwrap();
            socket.send(b"closed").unwrap();
            let refused = uninterrupted(|| socket.recv(&mut [0; 8])).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        }
    });
}

#[test]
fn a_link_that_hosts_cannot_share_is_refused() {
    for link in ["tap:hq9", "cable", "xdp:ek0,share"] {
        let error = Net::builder().link(link).open_each(2).unwrap_err().to_string();
        assert!(error.contains("is for one host"), "{link}: {error}");
    }
}
