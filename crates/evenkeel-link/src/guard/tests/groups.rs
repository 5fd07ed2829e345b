//! Datagrams for groups: judged where there is one socket at their port.

use std::fs;
use std::os::fd::AsFd as _;

use evenkeel_core::time::Duration;
use proptest::collection::vec;

use super::*;
use crate::sys;

const PORT: u16 = 6_000;
/// Ports whose sockets the kernel may keep in one list with those of [`PORT`], by the size of its table.
const OTHERS: [u16; 6] = [256, 512, 1_024, 2_048, 4_096, 8_192];
/// The index of the loopback device, where frames of test runs come from.
const LOOPBACK: u32 = 1;
/// The longest time that the program remembers a socket.
const REMEMBERED: Duration = Duration::from_millis(2);

fn for_group(is_v6: bool) -> Recipe {
    let (source, destination, version): (IpAddr, IpAddr, _) = match is_v6 {
        false => (PEER_V4.into(), [239, 1, 2, 3].into(), 4),
        true => (PEER_V6.into(), [0xff15, 0, 0, 0, 0, 0, 0, 0x1234].into(), 6),
    };
    Recipe { to_group: true, source, destination, version, ..Recipe::datagram(PORT) }
}

/// Opens a socket of both families.
fn open(port: u16) -> UdpSocket {
    let socket = rustix::net::socket(AddressFamily::INET6, SocketType::DGRAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    sockopt::set_ipv6_v6only(&socket, false).unwrap();
    rustix::net::bind(&socket, &SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)).unwrap();
    socket.into()
}

/// Fills a socket, of those at its port the one that was opened last.
fn fill(socket: &UdpSocket) {
    let from = UdpSocket::bind((PEER_V4, 0)).unwrap();
    let to = (V4, socket.local_addr().unwrap().port());
    // The kernel may bring them to it later.
    while {
        let (held, limit) = sys::receive_memory(socket.as_fd()).unwrap();
        limit - held > limit >> 3
    } {
        from.send_to(&[0; 10], to).unwrap();
    }
}

/// Waits until the kernel has so many sockets at the port: a program that is being started by another test
/// has closed ones for a moment still.
fn wait_for_sockets(open: usize) {
    let port = format!(":{PORT:04X} ");
    let at_port = || {
        let tables = ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"];
        let tables = tables.map(|file| fs::read_to_string(file).unwrap()).concat();
        tables.matches(&port).count()
    };
    while at_port() != open {}
}

/// Returns the fate of a frame by either program, once what was known before is forgotten.
fn judged(object: &Ebpf, recipe: &Recipe) -> Fate {
    crate::Clock::start().spin(REMEMBERED);
    let fates = [in_xdp, behind_xdp].map(|judge| judge(object, &frame(recipe)).unwrap().0.unwrap());
    assert_eq!(fates[0], fates[1], "{recipe:?}");
    fates[0]
}

fn counted(guard: &Guard) -> [u64; 2] {
    let accounts = guard.accounts().unwrap();
    let account = accounts.iter().find(|it| it.of == Judged::Port(Transport::Udp, PORT));
    account.map_or([0; 2], |it| [it.passed, it.dropped])
}

/// One that finds a single socket is judged by it. What is for several, or by a device that has it for others
/// as well, is the kernel's, and so is what says in one header only that it is for a group.
#[test]
fn a_datagram_for_a_group_is_judged_by_the_one_socket_at_its_port() {
    with_addresses(|| {
        let Some((object, mut guard)) = guard_of_test() else { return };
        guard.groups.insert(LOOPBACK, 1, 0).unwrap();
        let families = [false, true].map(for_group);
        let assert_judged = |guard: &Guard, fate: Fate, passed: u64, dropped: u64| {
            let before = counted(guard);
            families.iter().for_each(|recipe| assert_eq!(judged(&object, recipe), fate));
            assert_eq!(counted(guard), [before[0] + passed, before[1] + dropped]);
        };
        assert_judged(&guard, Fate::Passes, 0, 0);
        let first = open(PORT);
        assert_judged(&guard, Fate::Passes, 4, 0);
        fill(&first);
        assert_judged(&guard, Fate::IsDropped, 0, 4);
        for recipe in &families {
            let ours = if recipe.version == 4 { V4.into() } else { V6.into() };
            let of_device = Recipe { to_group: false, ..recipe.clone() };
            let of_ip = Recipe { destination: ours, ..recipe.clone() };
            let segment = Recipe { protocol: 6, ..recipe.clone() };
            let echo = Recipe { protocol: if ours.is_ipv4() { 1 } else { 58 }, flags: 8, ..recipe.clone() };
            let before = guard.accounts().unwrap();
            [of_device, of_ip, segment, echo]
                .iter()
                .for_each(|it| assert_eq!(judged(&object, it), Fate::Passes));
            assert_eq!(guard.accounts().unwrap(), before);
        }
        let second = open(PORT);
        assert_judged(&guard, Fate::Passes, 0, 0);
        drop(first);
        wait_for_sockets(1);
        assert_judged(&guard, Fate::Passes, 4, 0);
        fill(&second);
        assert_judged(&guard, Fate::IsDropped, 0, 4);
        // One that nothing is for.
        let elsewhere = bind((PEER_V4, PORT).into(), None);
        assert_judged(&guard, Fate::Passes, 0, 0);
        drop(elsewhere);
        wait_for_sockets(1);
        assert_judged(&guard, Fate::IsDropped, 0, 4);
        guard.groups.remove(&LOOPBACK).unwrap();
        assert_judged(&guard, Fate::Passes, 0, 0);
        drop(second);
    });
}

/// Wherever sockets of other ports are in the kernel's list, a datagram is dropped only if there is one at
/// its port, and always if there are few in all.
#[test]
fn sockets_at_one_port_are_found_among_others() {
    with_addresses(|| {
        let Some((object, mut guard)) = guard_of_test() else { return };
        guard.groups.insert(LOOPBACK, 1, 0).unwrap();
        let seen = std::cell::RefCell::new([0; 3]);
        let opened = vec((0..=OTHERS.len(), any::<bool>()), 0..30);
        let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
        TestRunner::new(config)
            .run(&(opened, 0..3_usize), |(opened, of_port)| {
                // As many as are wanted stay open at the port, of any address or of another one than the
                // group's, and half of the others, in any order.
                let (mut any, mut elsewhere, mut others) = (Vec::new(), Vec::new(), Vec::new());
                for (other, choice) in opened {
                    if other < OTHERS.len() {
                        let socket = open(PORT + OTHERS[other]);
                        others.extend(choice.then_some(socket));
                    } else if any.len() + elsewhere.len() < of_port && choice {
                        any.push(open(PORT));
                    } else if any.len() + elsewhere.len() < of_port {
                        elsewhere.push(bind((PEER_V4, PORT).into(), None));
                    }
                }
                any.iter().rev().take(1).for_each(fill);
                let at_port = any.len() + elsewhere.len();
                wait_for_sockets(at_port);
                let fate = judged(&object, &for_group(false));
                match (any.len(), elsewhere.len(), others.len()) {
                    (1, 0, 0..16) => prop_assert_eq!(fate, Fate::IsDropped),
                    (1, 0, _) => {}
                    _ => prop_assert_eq!(fate, Fate::Passes),
                }
                seen.borrow_mut()[at_port] += 1;
                Ok(())
            })
            .unwrap();
        assert!(seen.borrow().iter().all(|times| *times > 20), "{seen:?}");
    });
}
