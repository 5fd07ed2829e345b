//! Requests, each with a connection of its own, during a flood of SYNs.

use super::*;

/// The number of clients, each with one request at a time. They take turns with as many ports, so that the
/// server, which closes first, has each of them in TIME-WAIT.
const CLIENTS: usize = 8;
const STEP: Duration = Duration::from_millis(1);

/// A flood of SYNs to the server's port, from addresses that never answer.
struct Flood {
    per_second: u64,
    sent: u64,
}

impl Flood {
    fn send_until(&mut self, since: Instant, world: &mut World) {
        let due = world.now.since(since).as_millis() as u64 * self.per_second / 1_000;
        let mut bytes = [0; 100];
        for n in core::mem::replace(&mut self.sent, due)..due {
            let [.., b, c, d] = (n as u32).to_be_bytes();
            let source = IpAddr::V4(Ipv4Addr::new(11, b, c, d));
            let options = Options { mss: Some(1_460), ..Default::default() };
            let ports = Header { source: 1_024 + n as u16 % 50_000, destination: 80, ..Header::default() };
            let syn = Header { flags: Flags::SYN, window: 1_000, options, ..ports };
            let len = Segment::bare(syn).emit(&mut bytes, source, SERVER).unwrap();
            world.ends[1].input(&bytes[..len], &Packet { source, ..FROM_CLIENT }, world.now);
            // What is answered goes nowhere; the queue of answers is a thousand long.
            if n % 500 == 499 {
                world.send();
            }
        }
    }
}

/// Returns the number of requests answered in the last ten of `seconds` seconds.
fn requests(timestamps: bool, per_second: u64, seconds: u64) -> u32 {
    let plain = Config { timestamps, ..Config::default() };
    let config =
        EndpointConfig { connection: Arc::new(plain), ports: 50_000..=50_031, ..EndpointConfig::default() };
    let mut world = World::listening(config, &ListenerConfig::default(), Faults::default(), 1);
    let start = world.now;
    let mut flood = Flood { per_second, sent: 0 };
    let mut clients = [None; CLIENTS];
    let mut answered = 0;
    while world.now < start + Duration::from_secs(seconds) {
        flood.send_until(start, &mut world);
        for client in &mut clients {
            let now = world.now;
            let id = *client.get_or_insert_with(|| {
                let id = world.ends[0].connect(some_port(), MSS, now).unwrap();
                world.ends[0].write(id, b"?").unwrap();
                id
            });
            let mut to = [0; 10];
            match world.ends[0].read(id, &mut to, now) {
                Ok(0) | Err(Unavailable::Failed(_)) => {
                    world.ends[0].close(id, now);
                    *client = None;
                }
                Ok(_) => answered += u32::from(now >= start + Duration::from_secs(seconds - 10)),
                Err(_) => {}
            }
        }
        while let Some(id) = world.ends[1].accept(&HTTP) {
            // The request came with the handshake's last ACK, or right behind it.
            world.ends[1].write(id, b"!").unwrap();
            world.ends[1].shutdown(id).unwrap();
        }
        while let Some(event) = world.ends[1].poll_event() {
            if let EndpointEvent::Connection(id, Readiness { over: true, .. }) = event {
                world.ends[1].close(id, world.now);
            }
        }
        world.pass(STEP);
    }
    answered
}

#[test]
fn requests_go_on_beside_a_slow_flood_and_a_fast_one() {
    for timestamps in [true, false] {
        let quiet = requests(timestamps, 0, 12);
        // After 42 s the SYN queue would be full for good if each SYN had its place for a minute.
        let slow = requests(timestamps, 100, 60);
        let fast = requests(timestamps, 20_000, 12);
        println!(
            "timestamps {timestamps}: {quiet} requests in 10 s, {slow} beside 100 SYN/s, {fast} beside 20000 \
             SYN/s"
        );
        assert!(quiet > 1_500, "{quiet}");
        assert!(slow > quiet * 95 / 100 && fast > quiet * 95 / 100, "{slow} and {fast} of {quiet}");
    }
}

/// Gives the server a segment of no connection; returns the number of resets that leave.
fn resets_to(world: &mut World, source: u32, port: u16, flags: Flags) -> u64 {
    let [_, b, c, d] = source.to_be_bytes();
    let source = IpAddr::V4(Ipv4Addr::new(11, b, c, d));
    let mut bytes = [0; 2_000];
    let header = Header { source: 1_024, destination: port, flags, ..Header::default() };
    let len = Segment::bare(header).emit(&mut bytes, source, SERVER).unwrap();
    world.ends[1].input(&bytes[..len], &Packet { source, ..FROM_CLIENT }, world.now);
    let before = world.ends[1].counters().get(Counter::OutRsts);
    while world.ends[1].poll_transmit(world.now, &world.routes, &mut bytes).is_some() {}
    world.ends[1].counters().get(Counter::OutRsts) - before
}

fn with_few_resets() -> World {
    let config = EndpointConfig { resets_per_s: 100, reset_burst: 50, ..EndpointConfig::default() };
    let mut world = World::listening(config, &ListenerConfig::default(), Faults::default(), 1);
    world.now += Duration::from_secs(1);
    world
}

/// A million segments per second arrive, in turn at a closed port and at a listener without a connection.
/// The limit on resets does not apply to those of connections.
#[test]
fn resets_of_no_connection_have_a_rate_limit() {
    const FLOOD: u32 = 300_000;
    let mut world = with_few_resets();
    let mut sent = 0;
    for n in 0..FLOOD {
        let (port, flags) = if n % 2 == 0 { (9, Flags::SYN) } else { (80, Flags::ACK) };
        sent += resets_to(&mut world, n, port, flags);
        world.now += Duration::from_micros(1);
    }
    let skipped = world.ends[1].counters().get(Counter::ResetsSkipped);
    assert!((60..=100).contains(&sent), "{sent}: a burst of 50, and almost 0.3 s of the flood");
    assert_eq!(skipped, u64::from(FLOOD) - sent);
    // A connection's own reset.
    let client = world.connect(40_000);
    world.pass(Duration::from_millis(100));
    let server = world.ends[1].accept(&HTTP).unwrap();
    world.ends[1].abort(server).unwrap();
    world.pass(Duration::from_millis(100));
    assert_eq!(world.ends[0].read(client, &mut [0; 9], world.now), Err(Unavailable::Failed(Error::Reset)));
    // In quiet times everybody is refused at once.
    world.pass(Duration::from_secs(1));
    for n in 0..20 {
        assert_eq!(resets_to(&mut world, n << 8, 9, Flags::SYN), 1, "{n}");
    }
}

/// A peer that counts the resets it is sent learns neither whether others were sent any nor whether there
/// is a connection.
#[test]
fn how_many_resets_leave_depends_on_the_secret() {
    let sent = |secret| {
        let mut world = with_few_resets();
        world.ends[1] = Endpoint::new(world.ends[1].config().clone(), Secret::new([secret; 16]));
        (0..2_000).map(|n| resets_to(&mut world, n << 8, 9, Flags::SYN)).sum::<u64>()
    };
    let counts: std::collections::BTreeSet<u64> = (1..=8).map(sent).collect();
    assert!(counts.len() > 4, "{counts:?}");
}

#[test]
fn while_one_floods_closed_ports_others_are_refused_at_once() {
    let mut world = with_few_resets();
    let mut refused = 0;
    for n in 0..20_000 {
        world.now += Duration::from_micros(100);
        resets_to(&mut world, n % 200, 9, Flags::SYN);
        if n % 1_000 == 999 {
            refused += resets_to(&mut world, 0x00aa_0000 + (n << 8), 9, Flags::SYN);
        }
    }
    assert_eq!(refused, 20);
}
