//! What a connection costs that has nothing to do: memory, the heap included.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use allocation_counter::measure;

#[path = "../benches/tcp/ends.rs"]
#[allow(dead_code, reason = "what the benchmark measures is not idle")]
mod ends;

use ends::Ends;

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
        println!("{connections} connections: {each:.0} octets each");
        assert!(each < OCTETS_MAX, "{each} octets for each of {connections}");
    }
}
