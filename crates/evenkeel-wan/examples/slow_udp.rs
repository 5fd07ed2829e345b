//! Forwards the datagrams that one address receives to another one, as a link of 1 Mbit/s with 50 ms of delay
//! and 1 % of loss would.
//!
//! `cargo run -p evenkeel-wan --example slow_udp -- 127.0.0.1:7000 127.0.0.1:7001`, then for example
//! `nc -ul 7001` in a second terminal and `nc -u 127.0.0.1 7000` in a third.
#![allow(clippy::print_stderr, reason = "it says how to use it")]

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::time::Instant as Clock;

use evenkeel_timers::{Duration, Instant};
use evenkeel_wan::{Loss, Path, Rate, Ratio, Rng, Settings};

fn main() -> io::Result<()> {
    let addresses: Vec<_> = std::env::args().skip(1).collect();
    let [from, to] = &addresses[..] else {
        eprintln!("usage: slow_udp FROM TO, for example 127.0.0.1:7000 127.0.0.1:7001");
        return Ok(());
    };
    let (from, to) = (UdpSocket::bind(from)?, connected(to)?);
    forward(&from, &to, link(Ratio::percent(1)), usize::MAX)
}

/// Returns a socket that sends to `address`.
fn connected(address: &str) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" })?;
    socket.connect(address)?;
    Ok(socket)
}

/// Returns the settings of the link.
pub(crate) fn link(loss: Ratio) -> Settings {
    Settings {
        rate: Rate::Bits(1_000_000),
        delay: Duration::from_millis(50),
        loss: Loss::Independent(loss),
        ..Settings::PERFECT
    }
}

/// Forwards datagrams until `count` of them have come out of the link.
#[expect(clippy::disallowed_methods, reason = "real time is what it is about")]
pub(crate) fn forward(from: &UdpSocket, to: &UdpSocket, link: Settings, count: usize) -> io::Result<()> {
    let start = Clock::now();
    let now = || Instant::ZERO + start.elapsed();
    let mut path: Path = Path::new(link, Rng::new(1), now());
    let (mut buffer, mut sent) = ([0; 65_536], 0);
    loop {
        while let Some(datagram) = path.poll_frame(now()) {
            to.send(&datagram)?;
            sent += 1;
        }
        if sent == count {
            return Ok(());
        }
        // Zero would mean to wait for ever.
        let wait = path.poll_timeout().since(now()).max(Duration::from_micros(1));
        from.set_read_timeout(Some(wait))?;
        match from.recv(&mut buffer) {
            Ok(len) => path.handle_frame(now(), buffer[..len].to_vec()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
}
