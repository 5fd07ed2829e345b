//! One connection that is never without something to send.

use std::hint::black_box;

use evenkeel_core::tcp::table::Id;
use evenkeel_core::time::Duration;

use crate::ends::{Ends, PAYLOAD, discard_events};
use crate::meter::{Meter, Scenario};

/// Segments that are on their way at most.
const CABLE: usize = 64;
/// Bytes that the programs write and read at a time.
const CHUNK: usize = 16 << 10;

pub(crate) struct Bulk {
    ends: Ends,
    sender: Id,
    receiver: Id,
    data: Vec<u8>,
    room: Vec<u8>,
}

impl Bulk {
    pub(crate) fn new(idle: usize) -> Self {
        let mut ends = Ends::new(idle, 1_000, CABLE);
        let (sender, receiver) = ends.establish();
        let data = (0..CHUNK).map(|n| (n % 251) as u8).collect();
        Self { ends, sender, receiver, data, room: vec![0; CHUNK] }
    }

    /// Acknowledgments come, each lets some segments leave, and the program writes what there is room for.
    fn send(&mut self) {
        let Self { ends, data, sender, .. } = self;
        let Ends { client, to_server, to_client, now, .. } = ends;
        to_client.empty_into(client, *now, |client| to_server.fill(client, *now));
        discard_events(client);
        while client.write(*sender, data).is_ok() {}
        to_server.fill(client, *now);
        client.advance(*now);
        black_box(client.next_deadline());
    }

    /// Runs a turn: segments arrive, due acknowledgments leave, and the program reads all data.
    fn receive(&mut self) {
        let Self { ends, room, receiver, .. } = self;
        let Ends { server, to_server, to_client, now, .. } = ends;
        to_server.empty_into(server, *now, |server| to_client.fill(server, *now));
        discard_events(server);
        while server.read(*receiver, room, *now).is_ok() {}
        to_client.fill(server, *now);
        server.advance(*now);
        black_box(server.next_deadline());
    }
}

impl Scenario for Bulk {
    fn ends(&self) -> [&'static str; 2] {
        ["sender", "receiver"]
    }

    fn turn(&mut self, meter: &mut Meter) -> usize {
        meter.part(0, || self.send());
        let segments = self.ends.to_server.len();
        self.ends.now += Duration::from_micros(10);
        meter.part(1, || self.receive());
        self.ends.now += Duration::from_micros(10);
        segments
    }

    fn rate(&self, nanos: f64) -> String {
        format!("{:.1} Gbit/s", PAYLOAD as f64 * 8.0 / nanos)
    }
}
