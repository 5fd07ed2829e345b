//! A client that closes first, and has few ports.

use core::ops::RangeInclusive;

use super::*;

/// Opens a connection whenever there is a port, sends a byte, and closes first. Returns the number of
/// connections opened in each of `seconds` seconds.
fn opened_in(seconds: u64, ports: RangeInclusive<u16>, config: Config) -> Vec<usize> {
    let config = EndpointConfig { connection: Arc::new(config), ports, ..EndpointConfig::default() };
    let mut world = World::listening(config, &ListenerConfig::default(), Faults::default(), 1);
    let start = world.now;
    let mut opened = vec![0; seconds as usize];
    while world.now < start + Duration::from_secs(seconds) {
        let now = world.now;
        let second = now.since(start).as_secs() as usize;
        // As many as the queue of answers holds.
        for _ in 0..500 {
            let Ok(id) = world.ends[0].connect(some_port(), MSS, now) else { break };
            world.ends[0].write(id, b"?").unwrap();
            world.ends[0].shutdown(id).unwrap();
            opened[second] += 1;
        }
        for index in 0..2 {
            while let Some(event) = world.ends[index].poll_event() {
                if let EndpointEvent::Connection(id, ready) = event
                    && (ready.readable || ready.over)
                {
                    while matches!(world.ends[index].read(id, &mut [0; 10], now), Ok(1..)) {}
                    if index == 0 || ready.over {
                        world.ends[index].close(id, now);
                    }
                }
            }
        }
        while let Some(id) = world.ends[1].accept(&HTTP) {
            world.ends[1].write(id, b"!").unwrap();
            world.ends[1].shutdown(id).unwrap();
        }
        world.pass(Duration::from_millis(5));
    }
    opened
}

/// As in Linux with `tcp_tw_reuse`, the client opens as many connections per second to one server as there
/// are ports, without end.
#[test]
fn with_timestamps_each_port_is_used_again_after_a_second() {
    let opened = opened_in(20, 50_000..=50_003, Config::default());
    assert!(opened.iter().all(|opened| (3..=4).contains(opened)), "{opened:?}");
    let opened = opened_in(5, EndpointConfig::default().ports, Config::default());
    assert!(opened.iter().all(|opened| (15_000..=16_384).contains(opened)), "{opened:?}");
}

#[test]
fn without_timestamps_each_port_rests_for_a_minute() {
    let opened = opened_in(70, 50_000..=50_003, Config { timestamps: false, ..Config::default() });
    assert_eq!((opened[0], opened[1..60].iter().sum::<usize>()), (4, 0), "{opened:?}");
    assert_eq!(opened[60..].iter().sum::<usize>(), 4);
}
