//! Multicast groups, fragments, sockets of others: where several receivers or several frames meet.

mod common;

use common::*;
use evenkeel_core::host::{Config, System};
use evenkeel_core::process::{Program, Step};
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::Fd;
use evenkeel_core::system::UdpSocket;
use evenkeel_core::wire::{EthernetAddress, Ipv4Address};

const GROUP: Ipv4Address = Ipv4Address::new(239, 1, 2, 3);
const GROUP_MAC: EthernetAddress = EthernetAddress([0x01, 0x00, 0x5e, 0x01, 0x02, 0x03]);

#[test]
fn all_members_of_a_group_receive_and_strangers_do_not() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::new(Config::of(architecture));
        let mut seen = Vec::new();
        for (port, group) in [(5000, true), (5000, true), (5001, false)] {
            let (mut sink, sees) = Sink::new(port);
            sink.bind_to = group.then(|| GROUP.into());
            bench.host.spawn("sink", 0, Box::new(sink));
            seen.push(sees);
        }
        bench.settle();
        bench.send(&[
            udp_to(GROUP_MAC, GROUP, 5000, b"to all"),
            udp_to(GROUP_MAC, GROUP, 5001, b"not joined"),
        ]);
        bench.settle();
        for member in &seen[..2] {
            assert_eq!(*member.payloads.lock().unwrap(), [b"to all".to_vec()], "{architecture}");
        }
        assert_eq!(seen[2].count(), 0, "{architecture}");
        assert_eq!(bench.host.ledger().duplicated, 1);
    }
}

#[test]
fn fragments_in_every_order_reach_the_right_socket() {
    let payload: Vec<u8> = (0..60).collect();
    let other: Vec<u8> = (100..160).collect();
    // Three fragments of one datagram, interleaved with three of another to another port, in every order.
    let mut orders = vec![vec![]];
    for _ in 0..6 {
        orders = orders
            .into_iter()
            .flat_map(|order: Vec<usize>| {
                (0..6)
                    .filter(|n| !order.contains(n))
                    .map(|n| [order.clone(), vec![n]].concat())
                    .collect::<Vec<_>>()
            })
            .collect();
    }
    assert_eq!(orders.len(), 720);
    for architecture in Architecture::ALL {
        for (number, order) in orders.iter().enumerate().filter(|(n, _)| n % 7 == 0) {
            let mut bench = Bench::new(Config::of(architecture));
            let (a, seen_a) = Sink::new(7);
            let (b, seen_b) = Sink::new(9);
            bench.host.spawn("a", 0, Box::new(a));
            bench.host.spawn("b", 0, Box::new(b));
            bench.settle();
            let frames = [udp_fragments(7, &payload, 24, 1), udp_fragments(9, &other, 24, 2)].concat();
            assert_eq!(frames.len(), 6);
            for &n in order {
                bench.send(&frames[n..=n]);
                if number % 2 == 0 {
                    bench.settle();
                }
            }
            bench.settle();
            assert_eq!(
                *seen_a.payloads.lock().unwrap(),
                std::slice::from_ref(&payload),
                "{architecture}, order {order:?}"
            );
            assert_eq!(
                *seen_b.payloads.lock().unwrap(),
                std::slice::from_ref(&other),
                "{architecture}, order {order:?}"
            );
            assert_eq!(bench.host.queued(), 0);
        }
    }
}

/// Goes for the first socket there is, whosever it is.
#[derive(Debug, Default)]
struct Thief {
    steps: u32,
}

impl Program for Thief {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let socket = UdpSocket::from(Fd(0));
        self.steps += 1;
        match self.steps % 4 {
            0 => assert!(socket.receive(system).is_err()),
            1 => system.close(socket),
            2 => return Step::WaitUntil(socket.fd(), system.now() + UNIT * 5),
            _ => return Step::Sleep(system.now() + UNIT * 5),
        }
        Step::Again
    }
}

#[test]
fn a_program_cannot_touch_the_socket_of_another() {
    for architecture in Architecture::ALL {
        let mut bench = Bench::new(Config::of(architecture));
        let (sink, seen) = Sink::new(7);
        bench.host.spawn("sink", 0, Box::new(sink));
        bench.settle();
        bench.host.spawn("thief", 0, Box::new(Thief::default()));
        for _ in 0..100 {
            bench.send(&[udp(7, b"mine")]);
            bench.run(UNIT * 20);
        }
        assert_eq!(seen.count(), 100, "{architecture}");
    }
}
