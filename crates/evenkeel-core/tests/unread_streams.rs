//! A stream that its program does not read goes on in the other direction, under every architecture.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::sync::Arc;

use common::two::{A, B, Two};
use evenkeel_core::host::Config;
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::StreamError;
use evenkeel_core::system::TcpStream;
use evenkeel_core::tcp::{self, EndpointConfig};
use evenkeel_core::time::Duration;

/// Opens a connection on which nothing more can arrive at A.
fn full(architecture: Architecture) -> (Two, TcpStream, TcpStream) {
    let buffer = 20_000;
    let connection = tcp::Config {
        receive_buffer_initial: buffer,
        receive_buffer_max: buffer,
        // A scaled window may be too coarse to be filled to the last byte.
        window_scaling: false,
        ..tcp::Config::default()
    };
    let tcp = EndpointConfig { connection: Arc::new(connection), ..EndpointConfig::default() };
    let mut two = Two::with(|_| Config { tcp: tcp.clone(), ..Config::of(architecture) });
    let (unread, other) = two.connected();
    while two.call(B, |system| other.write(system, &[1; 10_000])) != Err(StreamError::WouldBlock) {
        two.run(Duration::from_millis(10));
    }
    // The last segment is smaller, and waits for that.
    two.run(Duration::from_secs(1));
    let (_, info) = two.call(A, |system| unread.info(system)).unwrap();
    assert_eq!(info.receive_window, 0, "{architecture}");
    (two, unread, other)
}

/// An acknowledgment finds the receive buffer of its stream full. It takes no room there.
#[test]
fn what_is_written_arrives_though_nothing_is_read() {
    const BYTES: usize = 500_000;
    for architecture in Architecture::ALL {
        let (mut two, unread, other) = full(architecture);
        let (mut written, mut arrived) = (0, 0);
        for _ in 0..100 {
            let left = [2; BYTES];
            written += two.call(A, |system| unread.write(system, &left[written..])).unwrap_or(0);
            two.run(Duration::from_millis(10));
            while let Ok(bytes) = two.read(B, other) {
                arrived += bytes.len();
            }
        }
        let (_, info) = two.call(A, |system| unread.info(system)).unwrap();
        assert_eq!((arrived, info.recovery.retransmitted_segments), (BYTES, 0), "{architecture}");
    }
}

/// Probes of a closed window are answered, so that the connection lasts (RFC 9293, 3.8.6.1).
#[test]
fn a_stream_that_is_not_read_for_an_hour_lasts() {
    for architecture in Architecture::ALL {
        let (mut two, unread, other) = full(architecture);
        two.run(Duration::from_secs(3_600));
        let (_, info) = two.call(B, |system| other.info(system)).unwrap();
        assert_eq!(info.error, None, "{architecture}");
        assert!(two.read(A, unread).is_ok(), "{architecture}");
    }
}
