//! Random sequences of what happens to sockets: programs open and close them, fill and read them, change
//! their limits, and datagrams come for them. The model is what the kernel says of their memory
//! (`SO_MEMINFO`).

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;

use evenkeel_core::time::Duration;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use rustix::net::sockopt;

use super::{
    Fate, PEER_V4, PEER_V6, Recipe, V4, V6, behind_xdp, bind, frame, guard_of_test, in_xdp, with_addresses,
};
use crate::guard::{Judged, Transport};
use crate::sys;

const PORTS: [u16; 2] = [4_000, 4_001];
/// The longest time that the program remembers a socket's state.
const FORGOTTEN: Duration = Duration::from_millis(2);
/// The number of times that a verdict is asked for. A processor may have work of others in its backlog, which
/// the program takes for this socket's, for a moment.
const TRIES: usize = 3;

/// An event at a port.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// A program opens a socket with a limit of so many bytes.
    Open(usize),
    Close,
    /// So many datagrams come by another way than the guard's.
    Fill(usize),
    /// The program reads so many.
    Read(usize),
    /// The program changes the limit.
    Limit(usize),
    /// A datagram comes to the guard.
    Arrive,
}

fn events() -> impl Strategy<Value = Vec<(usize, bool, Event)>> {
    let limit = || select(&[2_304_usize, 8_192, 65_536, 212_992][..]);
    let event = prop_oneof![
        6 => limit().prop_map(Event::Open),
        1 => Just(Event::Close),
        8 => (1..400_usize).prop_map(Event::Fill),
        2 => (1..400_usize).prop_map(Event::Read),
        1 => limit().prop_map(Event::Limit),
        6 => Just(Event::Arrive),
    ];
    prop::collection::vec((0..PORTS.len(), any::<bool>(), event), 1..60)
}

/// The sockets by port and family.
type Sockets = BTreeMap<(usize, bool), UdpSocket>;

fn addresses(is_v6: bool) -> (IpAddr, IpAddr) {
    if is_v6 { (V6.into(), PEER_V6.into()) } else { (V4.into(), PEER_V4.into()) }
}

fn set_limit(socket: &UdpSocket, bytes: usize) {
    // The kernel doubles what it is asked for (socket(7)).
    sockopt::set_socket_recv_buffer_size(socket, bytes / 2).unwrap();
}

/// Lets something happen at a port.
fn happen(sockets: &mut Sockets, (port, is_v6): (usize, bool), event: Event) {
    let (ours, peer) = addresses(is_v6);
    let at = SocketAddr::new(ours, PORTS[port]);
    match (event, sockets.get(&(port, is_v6))) {
        (Event::Open(limit), None) => {
            let socket = bind(at, None);
            socket.set_nonblocking(true).unwrap();
            set_limit(&socket, limit);
            sockets.insert((port, is_v6), socket);
        }
        (Event::Close, _) => close(sockets, (port, is_v6)),
        (Event::Fill(datagrams), Some(_)) => {
            let from = UdpSocket::bind((peer, 0)).unwrap();
            (0..datagrams).for_each(|_| _ = from.send_to(&[0; 10], at).unwrap());
        }
        (Event::Read(datagrams), Some(socket)) => {
            (0..datagrams).take_while(|_| socket.recv(&mut [0; 100]).is_ok()).for_each(drop);
        }
        (Event::Limit(bytes), Some(socket)) => set_limit(socket, bytes),
        _ => {}
    }
}

/// Closes a socket, and waits until the kernel has none there. A program that is being started by another
/// test has it for a moment still.
fn close(sockets: &mut Sockets, key: (usize, bool)) {
    let Some(socket) = sockets.remove(&key) else { return };
    drop(socket);
    let port = format!(":{:04X} ", PORTS[key.0]);
    let file = if key.1 { "/proc/thread-self/net/udp6" } else { "/proc/thread-self/net/udp" };
    while fs::read_to_string(file).unwrap().contains(&port) {}
}

/// Returns the fate of a datagram for a socket: dropped if more than seven eighths of its memory are in use.
fn fate_at(socket: &UdpSocket) -> Fate {
    let (held, limit) = sys::receive_memory(socket.as_fd()).unwrap();
    if limit - held <= limit >> 3 { Fate::IsDropped } else { Fate::Passes }
}

/// The program decides by the state that a socket has when the datagram comes, whatever came before.
#[test]
fn random_sequences_of_sockets_and_fills_have_the_fate_that_the_model_says() {
    with_addresses(|| {
        let Some((object, guard)) = guard_of_test() else { return };
        let mut seen = BTreeMap::new();
        let mut counted: BTreeMap<u16, [u64; 2]> = BTreeMap::new();
        let state = std::cell::RefCell::new((&mut seen, &mut counted));
        let config = Config { cases: 100, failure_persistence: None, ..Config::default() };
        TestRunner::new(config)
            .run(&events(), |events| {
                let (seen, counted) = &mut *state.borrow_mut();
                let mut sockets = Sockets::new();
                for (port, is_v6, event) in events {
                    happen(&mut sockets, (port, is_v6), event);
                    if !matches!(event, Event::Arrive) {
                        continue;
                    }
                    let socket = sockets.get(&(port, is_v6));
                    let (is_open, fate) = (socket.is_some(), socket.map_or(Fate::Passes, fate_at));
                    let (destination, source) = addresses(is_v6);
                    let version = if is_v6 { 6 } else { 4 };
                    let datagram = Recipe { source, destination, version, ..Recipe::datagram(PORTS[port]) };
                    let frame = frame(&datagram);
                    let account = counted.entry(if is_open { PORTS[port] } else { 0 }).or_default();
                    for judge in [in_xdp, behind_xdp] {
                        let judged = (0..TRIES).any(|_| {
                            crate::Clock::start().spin(FORGOTTEN);
                            let judged = judge(&object, &frame).unwrap().0.unwrap();
                            account[judged as usize] += 1;
                            judged == fate
                        });
                        prop_assert!(judged, "port {port}, v6 {is_v6}, open {is_open}: not {fate:?}");
                    }
                    *seen.entry((is_open, fate == Fate::IsDropped)).or_insert(0) += 1;
                }
                let open: Vec<_> = sockets.keys().copied().collect();
                open.into_iter().for_each(|key| close(&mut sockets, key));
                Ok(())
            })
            .unwrap();
        // Closed ports lose nothing, because the kernel has refused nothing.
        assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [(false, false), (true, false), (true, true)]);
        assert!(seen.values().all(|count| *count > 20), "{seen:?}");
        let accounts = guard.accounts().unwrap();
        assert!(accounts.iter().all(|account| account.answered == 0));
        let port = |of| match of {
            Judged::Port(Transport::Udp, port) => port,
            Judged::Closed(Transport::Udp) => 0,
            other => panic!("{other:?}"),
        };
        let accounts: BTreeMap<_, _> =
            accounts.iter().map(|it| (port(it.of), [it.passed, it.dropped])).collect();
        assert_eq!(accounts, counted);
    });
}
