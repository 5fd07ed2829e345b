//! A host that shares the kernel's addresses: `xdp:NAME,share`.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{
    Ipv4Addr, SocketAddr, TcpListener as KernelListener, TcpStream as KernelStream, UdpSocket as KernelSocket,
};
use std::thread;
use std::time::Duration;

use evenkeel::net::{Net, TcpListener, TcpStream, UdpSocket};
use evenkeel::raw::device::Address;
use evenkeel::raw::receive::Architecture;
use evenkeel_testing::{Place, Program, has_xdp, in_namespace, run, uninterrupted, wait_for};

use super::faults::{BPFTOOL, detach, program};
use super::{PATIENCE, kernel};

const PROGRAMS: [Program; 2] = [("ip", "iproute2"), ("ping", "iputils-ping")];

/// The address of the kernel at our end, which is also the host's.
const HERE: &str = "10.77.0.3";
/// The address of the kernel at the other end.
const FAR: &str = "10.77.0.1";

/// Runs a test beside the kernel at one end of a veth pair. The other end is in another namespace.
fn beside(test: impl FnOnce(&Place) + Send + 'static) {
    in_namespace(&[&PROGRAMS], || {
        if has_xdp() {
            let far = Place::new();
            kernel::link(&far);
            test(&far);
        }
    });
}

fn open() -> Net {
    Net::open("xdp:ek0,share").unwrap()
}

/// Answers the only connection to a listener of the kernel.
fn answer_once(listener: KernelListener, text: &'static str) -> thread::JoinHandle<()> {
    thread::spawn(move || listener.accept().unwrap().0.write_all(text.as_bytes()).unwrap())
}

fn read_from(at: (&'static str, u16)) -> String {
    let mut stream = KernelStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Both have the same address at the same time, and each its own ports; ping is the kernel's.
#[test]
fn the_kernel_and_the_host_serve_at_one_address() {
    beside(|far| {
        let theirs = answer_once(KernelListener::bind((HERE, 8080)).unwrap(), "the kernel's");
        let net = open();
        let listener = TcpListener::bind(&net, "0.0.0.0:80").unwrap();
        let ours = thread::spawn(move || (&listener.accept().unwrap().0).write_all(b"ours").unwrap());
        let socket = UdpSocket::bind(&net, (HERE, 7)).unwrap();
        let echo = thread::spawn(move || {
            let (len, from) = socket.recv_from(&mut [0; 100]).unwrap();
            socket.send_to(&[7; 100][..len], from).unwrap();
        });
        far.here(|| {
            assert!(kernel::answers());
            assert_eq!(
                (read_from((HERE, 80)), read_from((HERE, 8080))),
                ("ours".into(), "the kernel's".into())
            );
            assert_eq!(KernelStream::connect((HERE, 81)).unwrap_err().kind(), ErrorKind::ConnectionRefused);
            let socket = KernelSocket::bind((FAR, 0)).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.send_to(&[0; 5], (HERE, 7)).unwrap();
            assert_eq!(uninterrupted(|| socket.recv(&mut [0; 100])).unwrap(), 5);
        });
        [ours, theirs, echo].into_iter().for_each(|thread| thread.join().unwrap());
        net.check().unwrap();
    });
}

/// Frames to the kernel pass the program anyway, so none of them says that it is detached.
#[test]
fn a_detached_program_is_attached_again() {
    in_namespace(&[&PROGRAMS, &[BPFTOOL]], || {
        if !has_xdp() {
            return;
        }
        let far = Place::new();
        kernel::link(&far);
        let net = open();
        let socket = UdpSocket::bind(&net, (HERE, 7)).unwrap();
        for _ in 0..2 {
            detach();
            assert_eq!(program(), None);
            wait_for("the program", || program().is_some());
        }
        far.here(|| KernelSocket::bind((FAR, 0)).unwrap().send_to(b"after", (HERE, 7)).unwrap());
        assert_eq!(socket.recv_from(&mut [0; 100]).unwrap().0, 5);
        assert_eq!(net.failed_device(), None);
        net.check().unwrap();
    });
}

/// The host resolves neighbours through the kernel, also when it is the first to send.
#[test]
fn the_host_connects_from_the_shared_address() {
    beside(|far| {
        let net = open();
        let listener = far.here(|| KernelListener::bind((FAR, 80)).unwrap());
        let answering = answer_once(listener, "far");
        let stream = TcpStream::connect(&net, (FAR, 80)).unwrap();
        assert_eq!(stream.local_addr().unwrap().ip().to_string(), HERE);
        let mut text = String::new();
        (&stream).read_to_string(&mut text).unwrap();
        assert_eq!(text, "far");
        answering.join().unwrap();
        // The kernel reports what no neighbour does.
        let socket = UdpSocket::bind(&net, "0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        socket.connect((FAR, 9)).unwrap();
        // The kernel limits its errors, those of all namespaces together.
        wait_for("the report that nobody is there", || {
            let sent = socket.send(b"nobody").map(drop);
            let refused = sent.and_then(|()| socket.recv(&mut [0; 10])).unwrap_err();
            refused.kind() == ErrorKind::ConnectionRefused
        });
        let gone = TcpStream::connect(&net, ("10.77.0.99", 80)).unwrap_err();
        assert!(matches!(gone.kind(), ErrorKind::HostUnreachable | ErrorKind::TimedOut), "{gone}");
        assert!(TcpStream::connect(&net, ("192.0.2.1", 80)).is_err(), "the kernel has no route");
        run(&format!("ip route add 192.0.2.0/24 via {FAR}"));
        far.run("ip addr add 192.0.2.1/32 dev kernel0");
        let listener = far.here(|| KernelListener::bind(("192.0.2.1", 80)).unwrap());
        let answering = answer_once(listener, "routed");
        wait_for("the kernel's route", || TcpStream::connect(&net, ("192.0.2.1", 80)).is_ok());
        answering.join().unwrap();
        net.check().unwrap();
    });
}

/// A neighbour's new hardware address reaches the host through the kernel.
#[test]
fn a_neighbor_that_moves_is_found_again() {
    beside(|far| {
        let net = open();
        let socket = UdpSocket::bind(&net, "0.0.0.0:7").unwrap();
        thread::spawn(move || {
            while let Ok((len, from)) = socket.recv_from(&mut [0; 100]) {
                let _ = socket.send_to(&[7; 100][..len], from);
            }
        });
        for address in ["02:00:00:00:00:11", "02:00:00:00:00:12"] {
            far.run(&format!("ip link set kernel0 address {address}"));
            far.here(move || {
                let socket = KernelSocket::bind((FAR, 0)).unwrap();
                socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
                // The kernel at our end learns the new address when it is asked.
                wait_for(&format!("an answer to {address}"), || {
                    let _ = kernel::answers();
                    let _ = socket.send_to(&[0; 5], (HERE, 7));
                    socket.recv(&mut [0; 100]).is_ok()
                });
            });
        }
    });
}

/// A port is either the kernel's or the host's.
#[test]
fn ports_are_taken_from_each_other() {
    beside(|_| {
        let theirs = KernelListener::bind((HERE, 8080)).unwrap();
        let net = open();
        let refused = TcpListener::bind(&net, "0.0.0.0:8080").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse);
        UdpSocket::bind(&net, "0.0.0.0:8080").unwrap();
        let listener = TcpListener::bind(&net, "0.0.0.0:80").unwrap();
        let in_use = || KernelListener::bind((HERE, 80)).is_err_and(|e| e.kind() == ErrorKind::AddrInUse);
        assert!(in_use());
        drop(listener);
        wait_for("the port", || !in_use());
        let listener = TcpListener::bind(&net, "0.0.0.0:80").unwrap();
        assert!(in_use());
        let chosen = UdpSocket::bind(&net, "0.0.0.0:0").unwrap().local_addr().unwrap().port();
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
        let ends: Vec<u16> = range.split_ascii_whitespace().map(|end| end.parse().unwrap()).collect();
        assert!(chosen < ends[0] || chosen > ends[1], "{chosen} is of the kernel's {range}");
        drop(net);
        drop(listener);
        wait_for("the port of a host that has ended", || !in_use());
        drop(theirs);
    });
}

/// Addresses come and go with the kernel's.
#[test]
fn addresses_follow_the_kernels() {
    beside(|far| {
        let net = open();
        let listener = TcpListener::bind(&net, "0.0.0.0:80").unwrap();
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let _ = (&stream).write_all(b"ours");
            }
        });
        let answers = |address: &'static str| {
            far.here(move || {
                let at = SocketAddr::new(address.parse().unwrap(), 80);
                let stream = KernelStream::connect_timeout(&at, Duration::from_millis(300));
                let mut text = String::new();
                stream.is_ok_and(|mut stream| stream.read_to_string(&mut text).is_ok() && text == "ours")
            })
        };
        assert!(answers(HERE) && !answers("10.77.0.4"));
        run("ip addr add 10.77.0.4/24 dev ek0");
        wait_for("the second address", || answers("10.77.0.4"));
        run("ip addr del 10.77.0.4/24 dev ek0");
        wait_for("the end of the second address", || !answers("10.77.0.4"));
        assert!(answers(HERE));
    });
}

/// The kernel joins the groups of the host's sockets, and reports them.
#[test]
fn the_kernel_joins_groups_for_the_host() {
    const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
    beside(|far| {
        let net = open();
        let socket = UdpSocket::bind(&net, "0.0.0.0:5000").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let is_member = || run("ip maddr show dev ek0").contains("239.1.2.3");
        assert!(!is_member());
        socket.join_multicast_v4(&GROUP, &Ipv4Addr::UNSPECIFIED).unwrap();
        assert!(is_member());
        far.run("ip route add 224.0.0.0/4 dev kernel0");
        far.here(|| KernelSocket::bind((FAR, 0)).unwrap().send_to(b"all", (GROUP, 5000)).unwrap());
        assert_eq!(socket.recv(&mut [0; 10]).unwrap(), 3);
        socket.leave_multicast_v4(&GROUP, &Ipv4Addr::UNSPECIFIED).unwrap();
        assert!(!is_member());
    });
}

#[test]
fn settings_that_do_not_suit_are_refused() {
    beside(|_| {
        let shared = || Net::builder().link("xdp:ek0,share");
        for builder in [
            shared().address("10.77.0.9/24"),
            shared().gateway(FAR),
            shared().mac(Address::Random),
            shared().route("192.0.2.0/24", FAR),
        ] {
            let refused = builder.open().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput);
            assert!(refused.to_string().contains("the kernel's"), "{refused}");
        }
        let refused = shared().architecture(Architecture::Eager).open().unwrap_err();
        assert!(refused.to_string().contains("ni-lrp, not eager"), "{refused}");
        run("ip addr flush dev ek0");
        let refused = shared().open().unwrap_err();
        assert!(refused.to_string().contains("ip addr add"), "{refused}");
    });
}
