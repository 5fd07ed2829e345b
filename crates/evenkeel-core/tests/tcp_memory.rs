//! The memory cost of an idle connection, the heap included.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use allocation_counter::measure;

#[path = "../benches/tcp/ends.rs"]
#[allow(dead_code, reason = "what the benchmark measures is not idle")]
mod ends;

use ends::{Ends, discard_events};
use evenkeel_core::tcp::table::Id;
use evenkeel_core::time::Duration;

/// 100 000 idle connections in less than 100 MB.
const OCTETS_MAX: f64 = 1_024.0;

/// Whatever grows by doubling is at its worst at some of these.
const CONNECTIONS: [usize; 4] = [1_000, 10_000, 70_000, 100_000];

#[test]
fn an_idle_connection_takes_less_than_a_kibibyte() {
    for connections in CONNECTIONS {
        let mut ends = Ends::new(0, 1_000, 4);
        let allocated = measure(|| (0..connections).for_each(|_| _ = ends.establish()));
        assert_eq!((ends.client.len(), ends.server.len()), (connections, connections));
        // Client and server are here both.
        let each = allocated.bytes_current as f64 / connections as f64 / 2.0;
        println!("{connections} connections: {each:.0} bytes each");
        assert!(each < OCTETS_MAX, "{each} bytes for each of {connections}");
    }
}

/// A connection that has sent and received much, so that its windows have grown, and whose peer has lost a
/// segment, so that its congestion control remembers a loss.
#[test]
fn one_that_was_busy_once_takes_less_than_a_kibibyte_and_a_quarter() {
    const CONNECTIONS: usize = 4_096;
    for (lossy, most) in [(false, OCTETS_MAX), (true, OCTETS_MAX + 256.0)] {
        let mut ends = Ends::new(0, 1_000, 64);
        let allocated = measure(|| {
            for _ in 0..CONNECTIONS {
                let (client, server) = ends.establish();
                (0..6).for_each(|round| talk(&mut ends, client, server, lossy && round == 2));
            }
        });
        assert_eq!((ends.client.len(), ends.server.len()), (CONNECTIONS, CONNECTIONS));
        assert_eq!((ends.client.buffered(), ends.server.buffered()), (0, 0));
        let again = ends.client.connections().filter(|(_, _, info)| info.recovery.retransmitted_segments > 0);
        assert_eq!(again.count(), if lossy { CONNECTIONS } else { 0 });
        let each = allocated.bytes_current as f64 / CONNECTIONS as f64 / 2.0;
        println!("busy once, lossy {lossy}: {each:.0} bytes each");
        assert!(each < most, "{each} bytes each");
    }
}

/// Sends 20 000 bytes from each end, and reads all of them. If `lossy`, the first segment of each end is
/// lost.
fn talk(ends: &mut Ends, client: Id, server: Id, lossy: bool) {
    ends.client.write(client, &[7; 20_000]).unwrap();
    ends.server.write(server, &[7; 20_000]).unwrap();
    if lossy {
        let mut bytes = [0; 2_000];
        assert!(ends.client.poll_transmit(ends.now, &(), &mut bytes).is_some());
        assert!(ends.server.poll_transmit(ends.now, &(), &mut bytes).is_some());
    }
    loop {
        let now = ends.now;
        ends.to_server.fill(&mut ends.client, now);
        ends.to_client.fill(&mut ends.server, now);
        ends.now += Duration::from_millis(1);
        if ends.to_server.len() + ends.to_client.len() == 0 {
            let deadlines = [ends.client.next_deadline(), ends.server.next_deadline()];
            let Some(next) = deadlines.into_iter().flatten().min() else { break };
            ends.now = ends.now.max(next);
        }
        ends.to_server.empty_into(&mut ends.server, ends.now, |_| {});
        ends.to_client.empty_into(&mut ends.client, ends.now, |_| {});
        for (end, id) in [(&mut ends.client, client), (&mut ends.server, server)] {
            end.advance(ends.now);
            while end.read(id, &mut [0; 4_000], ends.now).is_ok() {}
            discard_events(end);
        }
    }
}

/// Connections close in another order than they were opened. What is left is one piece of each table, and
/// room for the places and queues.
#[test]
fn closed_connections_give_their_memory_back() {
    const CONNECTIONS: usize = 20_000;
    let mut ends = Ends::new(0, 1_000, 64);
    let mut open = Vec::with_capacity(CONNECTIONS);
    let opened = measure(|| open.extend((0..CONNECTIONS).map(|_| ends.establish())));
    let closed = measure(|| {
        for n in (0..CONNECTIONS).map(|n| (n * 7_919) % CONNECTIONS) {
            let (client, server) = open[n];
            ends.client.abort(client).unwrap();
            ends.server.abort(server).unwrap();
            // The resets leave, and hurt nobody.
            loop {
                let now = ends.now;
                ends.to_server.fill(&mut ends.client, now);
                ends.to_client.fill(&mut ends.server, now);
                if ends.to_server.len() + ends.to_client.len() == 0 {
                    break;
                }
                ends.to_server.empty_into(&mut ends.server, now, |_| {});
                ends.to_client.empty_into(&mut ends.client, now, |_| {});
            }
            discard_events(&mut ends.client);
            discard_events(&mut ends.server);
        }
    });
    assert_eq!((ends.client.len(), ends.server.len()), (0, 0));
    let left = opened.bytes_current + closed.bytes_current;
    println!("of {} bytes {left} are left", opened.bytes_current);
    assert!(left * 10 < opened.bytes_current, "of {} bytes {left} are left", opened.bytes_current);
}
