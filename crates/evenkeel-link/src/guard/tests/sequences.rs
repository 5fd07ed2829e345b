//! Random sequences of what happens to sockets: programs open and close them, fill and read them, change
//! their limits, and datagrams come for them. The model is what `ss` says of their memory.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::thread;

use evenkeel_core::time::Duration;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use rustix::net::sockopt;

use super::{
    Fate, PEER_V4, PEER_V6, Recipe, V4, V6, behind_xdp, bind, frame, guard_of_test, in_xdp, with_addresses,
};
use crate::guard::Transport;

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
        (Event::Close, Some(_)) => {
            sockets.remove(&(port, is_v6));
            // A program that is being started by another test has it for a moment still.
            while memory_of(at).is_some() {}
        }
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

/// Returns the bytes in the queue of the socket at an address, and its limit; `None` if there is none.
fn memory_of(at: SocketAddr) -> Option<(i64, i64)> {
    let output = Command::new("ss").args(["-u", "-a", "-n", "-m", "-H", "src", &at.to_string()]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    // Such as `skmem:(r0,rb212992,t0,…)`.
    let memory = text.split_once("skmem:(")?.1;
    let number = |name: &str| -> i64 {
        let word = memory.split([',', ')']).find_map(|word| word.strip_prefix(name)?.parse().ok());
        word.unwrap_or_else(|| panic!("{name}: {memory}"))
    };
    Some((number("r"), number("rb")))
}

/// Returns the fate of a datagram for a socket: dropped if more than seven eighths of its memory are in use.
fn fate_at(port: usize, is_v6: bool) -> Fate {
    let (held, limit) = memory_of(SocketAddr::new(addresses(is_v6).0, PORTS[port])).unwrap();
    if limit - held <= limit >> 3 { Fate::IsDropped } else { Fate::Passes }
}

/// The program decides by the state that a socket has when the datagram comes, whatever came before.
#[test]
fn random_sequences_of_sockets_and_fills_have_the_fate_that_the_model_says() {
    with_addresses(|| {
        if Command::new("ss").arg("-V").output().is_err() {
            let name = thread::current().name().unwrap().to_owned();
            return evenkeel_skip::skip(&name, &evenkeel_skip::Lack::Other("no ss (iproute2)"));
        }
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
                    let is_open = sockets.contains_key(&(port, is_v6));
                    let fate = if is_open { fate_at(port, is_v6) } else { Fate::Passes };
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
                Ok(())
            })
            .unwrap();
        // Closed ports lose nothing, because the kernel has refused nothing.
        assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [(false, false), (true, false), (true, true)]);
        assert!(seen.values().all(|count| *count > 20), "{seen:?}");
        let accounts = guard.ports().unwrap();
        assert!(accounts.iter().all(|of| of.transport == Transport::Udp && of.answered == 0));
        let accounts: BTreeMap<_, _> = accounts.iter().map(|of| (of.port, [of.passed, of.dropped])).collect();
        assert_eq!(accounts, counted);
    });
}
