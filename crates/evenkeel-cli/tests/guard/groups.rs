//! Datagrams for groups (multicast).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use evenkeel_testing::{Program, pause, run, wait_for};
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::{
    Bench, Duration, FLOOD_PKTS, FLOODED, Guard, account, at_veth_with, drain, dropped_by_kernel, script,
};

const GROUP_V4: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 0x1234);
const PROGRAMS: [Program; 1] = [("unshare", "util-linux")];
/// The guard looks at its devices every second.
const LOOKS: Duration = Duration::from_millis(2_000);

fn index(device: &str) -> u32 {
    run(&format!("ip -o link show {device}")).split(':').next().unwrap().parse().unwrap()
}

impl Bench {
    /// Opens a socket that is in the group, as others of its port may be.
    fn join(&self) -> UdpSocket {
        let (family, any): (_, std::net::IpAddr) = if self.is_v6 {
            (AddressFamily::INET6, Ipv6Addr::UNSPECIFIED.into())
        } else {
            (AddressFamily::INET, Ipv4Addr::UNSPECIFIED.into())
        };
        let socket = rustix::net::socket(family, SocketType::DGRAM, None).unwrap();
        sockopt::set_socket_reuseaddr(&socket, true).unwrap();
        rustix::net::bind(&socket, &SocketAddr::new(any, FLOODED)).unwrap();
        let socket = UdpSocket::from(socket);
        if self.is_v6 {
            socket.join_multicast_v6(&GROUP_V6, index("gd0")).unwrap();
        } else {
            socket.join_multicast_v4(&GROUP_V4, &Ipv4Addr::new(10, 78, 0, 1)).unwrap();
        }
        socket
    }

    fn send_to_group(&self, datagrams: u64) {
        let to: SocketAddr = if self.is_v6 { (GROUP_V6, FLOODED).into() } else { (GROUP_V4, FLOODED).into() };
        self.far.run(if self.is_v6 {
            "ip route replace multicast ff15::/16 dev gd1 table local"
        } else {
            "ip route replace 239.0.0.0/8 dev gd1"
        });
        self.far.here(move || {
            let from = UdpSocket::bind(if to.is_ipv4() { "10.78.0.2:0" } else { "[fd00:78::2]:0" }).unwrap();
            (0..datagrams).for_each(|_| _ = from.send_to(&[7; 20], to).unwrap());
        });
    }
}

/// Datagrams that one socket cannot take are dropped in front of the kernel. Where two sockets have a port,
/// or a device on top may have them for others, the kernel gets all.
#[test]
fn a_group_is_guarded_where_it_is_for_one_socket() {
    at_veth_with(&PROGRAMS, |bench| {
        let first = bench.join();
        let guard = Guard::with_sys();
        pause(LOOKS);
        bench.send_to_group(FLOOD_PKTS);
        assert_eq!(dropped_by_kernel(), 0);
        let held = drain(&first);
        assert!(held > 100 && held < FLOOD_PKTS / 2, "{held}");
        let second = bench.join();
        bench.send_to_group(FLOOD_PKTS);
        let of_both = [&first, &second].map(drain).iter().sum::<u64>() + dropped_by_kernel();
        assert_eq!(of_both, 2 * FLOOD_PKTS);
        drop(second);
        // A program that is being started by another test may have it for a moment still.
        wait_for("the end of the socket", || {
            let tables = ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"];
            let tables = tables.map(|file| std::fs::read_to_string(file).unwrap()).concat();
            tables.matches(&format!(":{FLOODED:04X} ")).count() == 1
        });
        run("ip link add gd2 link gd0 type macvlan");
        pause(LOOKS);
        let before = dropped_by_kernel();
        bench.send_to_group(FLOOD_PKTS);
        assert_eq!(drain(&first) + dropped_by_kernel() - before, FLOOD_PKTS);
        run("ip link del gd2");
        let report = guard.stop();
        assert_eq!(account(&report, FLOODED), (held, FLOOD_PKTS - held), "{report}");
    });
}

/// Without the kernel's types the guard would read what is not there.
#[test]
fn the_guard_says_that_the_kernel_does_not_show_its_types() {
    at_veth_with(&PROGRAMS, |_| {
        let guard = format!("exec {} guard gd0", env!("CARGO_BIN_EXE_evenkeel"));
        let output = script(&format!("mount -t tmpfs none /sys/kernel && {guard}")).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("/sys/kernel/btf/vmlinux cannot be read"), "{said}");
        assert!(!run("ip link show gd0").contains("prog/xdp"));
    });
}
