//! A client that closes first, and has few ports.

use super::*;

const PORTS: u32 = 4;

/// Opens a connection whenever there is a port, says something, and closes first. How many were opened in so many seconds?
fn opened_in(seconds: u64, config: Config) -> u32 {
    let config =
        EndpointConfig { connection: Arc::new(config), ports: 50_000..=50_003, ..EndpointConfig::default() };
    let mut world = World::listening(config, &ListenerConfig::default(), Faults::default(), 1);
    let end = world.now + Duration::from_secs(seconds);
    let mut opened = 0;
    while world.now < end {
        let now = world.now;
        while let Ok(id) = world.ends[0].connect(some_port(), MSS, now) {
            world.ends[0].write(id, b"?").unwrap();
            world.ends[0].shutdown(id).unwrap();
            opened += 1;
        }
        for index in 0..2 {
            while let Some(event) = world.ends[index].poll_event() {
                if let Event::Connection(id, ready) = event
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

#[test]
fn with_timestamps_each_port_is_used_again_about_every_second() {
    let opened = opened_in(20, Config::default());
    println!("{opened}");
    assert!(opened >= PORTS * 18, "{opened}");
}
