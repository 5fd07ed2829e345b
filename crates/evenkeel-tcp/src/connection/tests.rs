//! Tests of a connection that scripts cannot express.

use std::sync::Arc;

use super::{Config, Connection, Open, Outgoing};
use crate::time::{Duration, Instant};
use crate::{Flags, Header, Options, Segment, SeqNumber, SeqRange};

const ISS: SeqNumber = SeqNumber::new(5_000);
const IRS: SeqNumber = SeqNumber::new(9_000);
const START: Instant = Instant::from_millis(1_000);

/// Opens a connection actively, with nothing in flight.
fn established() -> Connection {
    let config = Arc::new(Config { timestamps: false, ..Config::default() });
    let open = Open { local_port: 1, remote_port: 2, ipv6: false, mss: 1_000, iss: ISS, timestamp_offset: 0 };
    let mut connection = Connection::connect(&config, &open, None, START);
    assert!(connection.poll_transmit(START).is_some(), "the SYN");
    let options = Options { mss: Some(1_000), sack_permitted: true, ..Options::default() };
    let flags = Flags::SYN | Flags::ACK;
    let header = Header { seq: IRS, ack: ISS + 1, flags, window: 60_000, options, ..Header::default() };
    connection.on_segment(&Segment::bare(header), START);
    assert!(connection.poll_transmit(START).is_some() && connection.poll_transmit(START).is_none());
    connection
}

/// Gives the connection an acknowledgment of `bytes` bytes, without data.
fn acknowledge(connection: &mut Connection, bytes: u32, now: Instant) {
    let flags = Flags::ACK;
    let header = Header { seq: IRS + 1, ack: ISS + 1 + bytes, flags, window: 60_000, ..Header::default() };
    connection.on_segment(&Segment::bare(header), now);
}

/// Returns the flags and the sequence numbers of each segment that leaves now.
fn sent(connection: &mut Connection, now: Instant) -> Vec<(Flags, SeqRange)> {
    let next = || connection.poll_transmit(now).map(|Outgoing { segment, .. }| segment_of(&segment));
    core::iter::from_fn(next).collect()
}

fn segment_of(segment: &Segment<'_>) -> (Flags, SeqRange) {
    (segment.header.flags, segment.range())
}

/// Sequence numbers from the beginning of a connection seem to be recent: SND.UNA comes round to ISS,
/// where a SYN once was.
#[test]
fn after_four_gigabytes_what_is_lost_there_is_data_and_no_syn() {
    let mut connection = established();
    connection.tcb.handshake.iss = connection.tcb.snd.una;
    connection.write(&[7; 100]).unwrap();
    let segment = (Flags::ACK | Flags::PSH, SeqRange::at(ISS + 1, 100));
    assert_eq!(sent(&mut connection, START), [segment]);
    let mut now = START;
    let mut again = 0;
    while now < START + Duration::from_secs(10) {
        let (at, _) = connection.deadline().expect("something is on its way");
        now = at;
        connection.on_deadline(now);
        for repeated in sent(&mut connection, now) {
            assert_eq!(repeated, segment);
            again += 1;
        }
    }
    assert!(again >= 3 && connection.tcb.recovery.info().timeouts >= 2, "{again}");
    acknowledge(&mut connection, 100, now);
    assert!(connection.tcb.recovery.is_empty() && connection.tcb.snd.buffer.is_empty());
}

/// The last segment that was not full lies more than half the circle back.
#[test]
fn after_two_gigabytes_of_full_segments_a_small_one_need_not_wait() {
    let mut connection = established();
    let small = connection.tcb.snd.una - (1 << 31) - 1_000;
    connection.tcb.nagle.on_small(small);
    connection.write(&[7; 2_100]).unwrap();
    assert_eq!(sent(&mut connection, START).len(), 3, "two full segments and a small one");
    connection.write(&[7; 100]).unwrap();
    assert_eq!(sent(&mut connection, START), [], "Nagle: the small one is on its way");
}

/// The connection is used alone, without an endpoint that takes its memory for others.
#[test]
fn an_idle_connection_owns_no_memory_in_either_direction() {
    let mut connection = established();
    for n in 1..=3 {
        connection.write(&[7; 2_000]).unwrap();
        assert_eq!(sent(&mut connection, START).len(), 2);
        assert!(connection.held() >= 2_000);
        acknowledge(&mut connection, n * 2_000, START);
        assert_eq!((sent(&mut connection, START), connection.held()), (vec![], 0));
    }
    let flags = Flags::ACK;
    let header = Header { seq: IRS + 1, ack: ISS + 6_001, flags, window: 60_000, ..Header::default() };
    connection.on_segment(&Segment { header, payload: [&[7; 900], &[]] }, START);
    assert!(
        connection.poll_transmit(START).is_none() && connection.held() >= 900,
        "there is time to read it"
    );
    assert_eq!(connection.read(&mut [0; 1_000], START), Ok(900));
    assert!(connection.poll_transmit(START).is_none() && connection.held() == 0);
}
