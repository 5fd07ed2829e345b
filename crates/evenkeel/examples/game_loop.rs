//! A world that changes 60 times a second. Players send steps by UDP, and each gets the world after every
//! tick.
//!
//! As root: `cargo run --example game_loop -- tap:keel0`, and then `nc -u 10.77.0.2 6000`, with lines such as
//! `1 -2`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use evenkeel::net::Net;
use evenkeel::net::tokio::UdpSocket;
use tokio::time::MissedTickBehavior;

const TICK: Duration = Duration::from_nanos(1_000_000_000 / 60);
/// The ticks after which a player is gone who sends nothing.
const PATIENCE: u64 = 600;

#[derive(Debug, Default)]
struct Player {
    at: (i64, i64),
    step: (i64, i64),
    last_heard: u64,
}

#[derive(Debug, Default)]
struct World {
    tick: u64,
    players: BTreeMap<SocketAddr, Player>,
}

impl World {
    /// Takes a player's step: how far it goes with each tick from now on.
    fn take(&mut self, from: SocketAddr, message: &[u8]) {
        let Ok(text) = std::str::from_utf8(message) else { return };
        let mut numbers = text.split_whitespace().map(|word| word.parse::<i8>().map(i64::from));
        let (Some(Ok(x)), Some(Ok(y))) = (numbers.next(), numbers.next()) else { return };
        let last_heard = self.tick;
        let player = self.players.entry(from).or_default();
        (player.step, player.last_heard) = ((x, y), last_heard);
    }

    /// Moves everybody, and returns the world as text.
    fn tick(&mut self) -> String {
        self.tick += 1;
        let oldest = self.tick.saturating_sub(PATIENCE);
        self.players.retain(|_, player| player.last_heard >= oldest);
        let mut world = format!("tick {}\n", self.tick);
        for (address, Player { at, step, .. }) in &mut self.players {
            *at = (at.0 + step.0, at.1 + step.1);
            let _ = writeln!(world, "{address} at {} {}", at.0, at.1);
        }
        world
    }
}

/// Serves until the task is dropped.
pub(crate) async fn serve(net: &Net) -> io::Result<()> {
    let (socket, mut world) = (UdpSocket::bind(net, "0.0.0.0:6000").await?, World::default());
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut buffer = [0; 64];
    loop {
        tokio::select! {
            received = socket.recv_from(&mut buffer) => {
                let (len, from) = received?;
                world.take(from, &buffer[..len]);
            }
            _ = ticks.tick() => {
                let text = world.tick();
                for player in world.players.keys() {
                    // A player for whom there is no buffer gets the next one.
                    let _ = socket.try_send_to(text.as_bytes(), *player);
                }
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let link = std::env::args().nth(1).unwrap_or_else(|| "tap:keel0".to_owned());
    serve(&Net::open(&link)?).await
}
