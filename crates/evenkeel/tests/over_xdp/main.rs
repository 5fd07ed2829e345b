//! Sockets over AF_XDP, with the kernel's at the other end of a veth pair.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod cookies;
mod counted;
mod faults;
mod hosts;
mod kernel;
mod shared;

use std::io::{Read as _, Write as _};
use std::net::{TcpStream as KernelStream, UdpSocket as KernelSocket};
use std::thread;
use std::time::Duration;

use evenkeel::net::{Net, TcpListener, UdpSocket};
use evenkeel_testing::{has_xdp, in_namespace, run, uninterrupted};

/// The answers are waited for as long as a machine may leave a thread without a core.
const PATIENCE: Duration = Duration::from_secs(20);

/// Opens a host at one end of a veth pair; the kernel has the other.
fn open() -> Net {
    open_on("xdp:ek0", "")
}

/// Opens a host on `link`, at one end of a veth pair that has `queues`.
fn open_on(link: &str, queues: &str) -> Net {
    run(&format!("ip link add kernel0 {queues} type veth peer name ek0 {queues}"));
    run("sysctl -qw net.ipv6.conf.kernel0.disable_ipv6=1");
    run("sysctl -qw net.ipv6.conf.ek0.disable_ipv6=1");
    run("ip addr add 10.77.0.1/24 dev kernel0");
    run("ip link set kernel0 up");
    run("ip link set ek0 up");
    Net::builder().link(link).address("10.77.0.2/24").open().unwrap()
}

#[test]
fn threads_with_a_socket_each_are_served_side_by_side() {
    in_namespace(&[], || {
        if !has_xdp() {
            return;
        }
        let net = open();
        let servers: Vec<_> = (0..3)
            .map(|n| {
                let socket = UdpSocket::bind(&net, ("0.0.0.0", 7000 + n)).unwrap();
                thread::spawn(move || {
                    let mut buffer = [0; 2000];
                    for _ in 0..500 {
                        let (len, from) = socket.recv_from(&mut buffer).unwrap();
                        socket.send_to(&buffer[..len], from).unwrap();
                    }
                })
            })
            .collect();
        let clients: Vec<_> = (0..3)
            .map(|n| {
                let socket = KernelSocket::bind("10.77.0.1:0").unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                thread::spawn(move || {
                    let mut buffer = [0; 2000];
                    for number in 0..500_u16 {
                        let request = vec![number as u8; usize::from(number) * 2 + 1];
                        socket.send_to(&request, ("10.77.0.2", 7000 + n)).unwrap();
                        let len = uninterrupted(|| socket.recv(&mut buffer));
                        let len = len.unwrap_or_else(|error| panic!("{n}: request {number}: {error}"));
                        assert_eq!(buffer[..len], request);
                    }
                })
            })
            .collect();
        for thread in clients.into_iter().chain(servers) {
            thread.join().unwrap();
        }
        net.check().unwrap();
    });
}

#[test]
fn a_flooded_socket_costs_the_other_no_answer() {
    in_namespace(&[], || {
        if !has_xdp() {
            return;
        }
        let net = open();
        // Nobody reads from it.
        let flooded = UdpSocket::bind(&net, "0.0.0.0:9").unwrap();
        let socket = UdpSocket::bind(&net, "0.0.0.0:7").unwrap();
        let server = thread::spawn(move || {
            let mut buffer = [0; 100];
            for _ in 0..200 {
                let (len, from) = socket.recv_from(&mut buffer).unwrap();
                socket.send_to(&buffer[..len], from).unwrap();
            }
        });
        let [flood, client] = [(); 2].map(|()| KernelSocket::bind("10.77.0.1:0").unwrap());
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        for number in 0..200_u8 {
            for _ in 0..500 {
                flood.send_to(&[0; 100], "10.77.0.2:9").unwrap();
            }
            client.send_to(&[number], "10.77.0.2:7").unwrap();
            let mut answer = [0; 8];
            assert_eq!(uninterrupted(|| client.recv(&mut answer)).unwrap(), 1);
            assert_eq!(answer[0], number);
        }
        server.join().unwrap();
        net.check().unwrap();
        drop(flooded);
        net.check().unwrap();
    });
}

#[test]
fn streams_of_threads_arrive_whole() {
    in_namespace(&[], || {
        if !has_xdp() {
            return;
        }
        let net = open();
        let listener = TcpListener::bind(&net, "0.0.0.0:80").unwrap();
        let server = thread::spawn(move || {
            for _ in 0..4 {
                let (stream, _) = listener.accept().unwrap();
                thread::spawn(move || {
                    let mut buffer = vec![0; 1 << 16];
                    loop {
                        let len = (&stream).read(&mut buffer).unwrap();
                        if len == 0 {
                            break;
                        }
                        (&stream).write_all(&buffer[..len]).unwrap();
                    }
                });
            }
        });
        let clients: Vec<_> = (0..4_u8)
            .map(|n| {
                thread::spawn(move || {
                    let mut stream = KernelStream::connect("10.77.0.2:80").unwrap();
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    let sent: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8 ^ n).collect();
                    let (mut writing, data) = (stream.try_clone().unwrap(), sent.clone());
                    let writer = thread::spawn(move || {
                        writing.write_all(&data).unwrap();
                        writing.shutdown(std::net::Shutdown::Write).unwrap();
                    });
                    let mut back = Vec::new();
                    stream.read_to_end(&mut back).unwrap();
                    writer.join().unwrap();
                    assert!(back == sent, "{} of {} bytes, or others", back.len(), sent.len());
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        server.join().unwrap();
        net.check().unwrap();
    });
}
