//! Two endpoints talk over a pipe in memory that loses every seventh segment: a client writes, a server sends
//! everything back. Nothing here waits: time is a number, which goes on to the next arrival or deadline.
#![allow(
    clippy::print_stdout,
    clippy::needless_range_loop,
    reason = "it shows what it did; two ends, each the other's peer"
)]

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use evenkeel_tcp::endpoint::{ListenAt, Packet};
use evenkeel_tcp::time::Instant;
use evenkeel_tcp::{Ecn, Endpoint, EndpointConfig, FourTuple, ListenerConfig, Secret};

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
const MSS: u16 = 1_460;
const DELAY: Duration = Duration::from_millis(10);

fn main() {
    let text: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
    let (back, lost, time) = echo(&text);
    assert!(back == text, "what came back is not what was sent");
    println!(
        "{} bytes went there and back in {time:?} of virtual time; {lost} segments were lost",
        back.len()
    );
}

/// Sends `text` to an echo server over a lossy pipe. Returns what comes back, the number of segments lost
/// and the time it took.
pub(crate) fn echo(text: &[u8]) -> (Vec<u8>, u32, Duration) {
    // Sequence numbers, cookies and hashes come from the secrets: outside of examples they must be random.
    let mut ends = [1, 2].map(|key| Endpoint::new(EndpointConfig::default(), Secret::new([key; 16])));
    let mut now = Instant::ZERO;
    let at = ListenAt { address: None, port: 7 };
    ends[1].listen(at, &ListenerConfig::default(), None).expect("nobody listens there yet");
    let tuple = FourTuple::new((CLIENT, 0), (SERVER, at.port));
    let client = ends[0].connect(tuple, MSS, now).expect("a port is free");
    let (mut server, mut written, mut back, mut buffer) = (None, 0, Vec::new(), [0; 2_000]);
    let (mut pipe, mut count, mut lost) = (VecDeque::new(), 0, 0);
    loop {
        // The two programs.
        written += ends[0].write(client, &text[written..]).unwrap_or(0);
        while let Ok(len @ 1..) = ends[0].read(client, &mut buffer, now) {
            back.extend_from_slice(&buffer[..len]);
        }
        server = server.or_else(|| ends[1].accept(&at));
        while let Some(id) = server {
            let Ok(len @ 1..) = ends[1].peek(id, &mut buffer) else { break };
            let Ok(taken) = ends[1].write(id, &buffer[..len]) else { break };
            ends[1].read(id, &mut buffer[..taken], now).expect("it was there");
        }
        if back.len() == text.len() {
            return (back, lost, now.since(Instant::ZERO));
        }
        // What leaves: every seventh is lost, the others arrive after a while.
        for from in 0..2 {
            while let Some(sent) = ends[from].poll_transmit(now, &(), &mut buffer) {
                count += 1;
                if count % 7 == 0 {
                    lost += 1;
                } else {
                    pipe.push_back((now + DELAY, 1 - from, buffer[..sent.len].to_vec()));
                }
            }
        }
        // Time goes on to whatever is next, and what has arrived goes in.
        let deadlines = ends.iter_mut().filter_map(Endpoint::next_deadline);
        now = pipe.front().map(|first| first.0).into_iter().chain(deadlines).min().expect("it goes on");
        while pipe.front().is_some_and(|first| first.0 <= now) {
            let Some((_, to, segment)) = pipe.pop_front() else { break };
            let (source, destination) = if to == 1 { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
            let packet = Packet { source, destination, ecn: Ecn::NotCapable, mss: MSS };
            ends[to].input(&segment, &packet, now);
        }
        ends.iter_mut().for_each(|end| end.advance(now));
    }
}
