//! Whatever arrives, in whatever state: nothing panics, no deadline stays due, and what leaves is what was
//! written.

use std::sync::Arc;

use proptest::prelude::*;

use crate::connection::{Allowance, Config, Connection, Keepalive, Open, Outgoing};
use crate::time::{Duration, Instant};
use crate::{Ecn, Flags, Header, Options, SackBlocks, Segment, SeqNumber, SeqRange, State, Timestamps};

const ISS: SeqNumber = SeqNumber::new(u32::MAX - 5_000);
const IRS: SeqNumber = SeqNumber::new(u32::MAX - 3_000);

#[derive(Debug, Clone)]
enum Step {
    Arrive {
        flags: u8,
        seq: i32,
        ack: i32,
        window: u16,
        len: u16,
        sack: Option<(u16, u16)>,
        clock: Option<i16>,
    },
    Write(u16),
    Read(u16),
    Pass(u32),
    TooBig(u16, u16),
    Unreachable(u16, bool),
    Memory(u32, bool),
    Shutdown,
    Close,
    Abort,
}

/// Returns segments that header prediction expects, and segments that nearly qualify.
fn expected() -> impl Strategy<Value = Step> {
    let ack = prop_oneof![6 => Just(0), 2 => 0i32..6_000, 1 => -1i32..2];
    let window = prop_oneof![2 => Just(60_000), 1 => Just(0), 1 => any::<u16>()];
    let len = prop_oneof![Just(0u16), Just(1), Just(1_000), 1u16..1_500];
    let clock = proptest::option::weighted(0.95, -1i16..4);
    (prop_oneof![Just(0x10u8), Just(0x18)], ack, window, len, clock).prop_map(
        |(flags, ack, window, len, clock)| Step::Arrive {
            flags,
            seq: 0,
            ack,
            window,
            len,
            sack: None,
            clock,
        },
    )
}

/// Draws a number that is mostly near the expected one, and sometimes any.
fn number() -> impl Strategy<Value = i32> {
    prop_oneof![4 => Just(0), 4 => -3i32..4, 4 => 0i32..6_000, 1 => any::<i32>()]
}

fn arrival() -> impl Strategy<Value = Step> {
    let flags = prop_oneof![
        8 => Just(0x10u8), // ACK
        3 => Just(0x18),   // PSH, ACK
        2 => Just(0x11),   // FIN, ACK
        1 => Just(0x12),   // SYN, ACK
        1 => Just(0x02),   // SYN
        1 => any::<u8>(),
    ];
    let window = prop_oneof![Just(0), Just(1), Just(65_535), any::<u16>()];
    let len = prop_oneof![3 => Just(0u16), 2 => 1u16..1_500];
    let sack = proptest::option::of((0u16..6_000, 0u16..3_000));
    let clock = proptest::option::weighted(0.9, -5i16..100);
    (flags, number(), number(), window, len, sack, clock).prop_map(
        |(flags, seq, ack, window, len, sack, clock)| Step::Arrive {
            flags,
            seq,
            ack,
            window,
            len,
            sack,
            clock,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => arrival(),
        3 => (1u16..6_000).prop_map(Step::Write),
        2 => (1u16..6_000).prop_map(Step::Read),
        4 => (0u32..3_000).prop_map(Step::Pass),
        1 => (any::<u16>(), any::<u16>()).prop_map(|(seq, mss)| Step::TooBig(seq % 6_000, mss)),
        1 => (any::<u16>(), any::<bool>()).prop_map(|(seq, hard)| Step::Unreachable(seq % 6_000, hard)),
        1 => (prop_oneof![Just(0), 0u32..5_000, Just(u32::MAX)], any::<bool>())
            .prop_map(|(left, pressed)| Step::Memory(left, pressed)),
        1 => prop_oneof![3 => Just(Step::Shutdown), 2 => Just(Step::Close), 1 => Just(Step::Abort)],
    ]
}

fn flags(bits: u8) -> Flags {
    [Flags::FIN, Flags::SYN, Flags::RST, Flags::PSH, Flags::ACK, Flags::URG, Flags::ECE, Flags::CWR]
        .into_iter()
        .enumerate()
        .filter(|(place, _)| bits >> place & 1 == 1)
        .fold(Flags::NONE, |all, (_, flag)| all | flag)
}

struct Run {
    connection: Connection,
    now: Instant,
    /// The furthest number that left: acknowledgments are chosen near it.
    sent: SeqNumber,
    written: u32,
    /// Header prediction is passed over.
    unpredicted: bool,
    /// Segments that came, and those of them that were predicted.
    arrived: u32,
    predicted: u32,
    /// The segments that the connection sent, and the fates of those that arrived.
    heard: Vec<String>,
}

impl Run {
    fn new(timestamps: bool, ecn: bool, sack: bool) -> Self {
        let keepalive = Some(Keepalive { idle: Duration::from_secs(5), ..Keepalive::default() });
        let config = Arc::new(Config { timestamps, ecn, keepalive, ..Config::default() });
        let open =
            Open { local_port: 1, remote_port: 2, ipv6: false, mss: 1_460, iss: ISS, timestamp_offset: 0 };
        let now = Instant::from_millis(1_000);
        let mut run = Self {
            connection: Connection::connect(&config, &open, None, now),
            now,
            sent: ISS,
            written: 0,
            unpredicted: false,
            arrived: 0,
            predicted: 0,
            heard: Vec::new(),
        };
        run.drain();
        let options = Options {
            mss: Some(1_000),
            window_scale: Some(2),
            sack_permitted: sack,
            timestamps: timestamps.then_some(Timestamps { value: 1_000, echo: 1_000 }),
            ..Options::default()
        };
        let flags = Flags::SYN | Flags::ACK | if ecn { Flags::ECE } else { Flags::NONE };
        let header = Header { seq: IRS, ack: ISS + 1, flags, window: 60_000, options, ..Header::default() };
        run.connection.on_segment(&Segment::bare(header), now);
        run.drain();
        assert_eq!(run.connection.state(), State::Established);
        run
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Arrive { flags: bits, seq, ack, window, len, sack, clock } => {
                let sack =
                    sack.map(|(start, len)| SeqRange::at(self.sent - u32::from(start), u32::from(len)));
                let millis = (self.now.as_nanos() / 1_000_000) as u32;
                let timestamps = clock.map(|ahead| Timestamps {
                    value: millis.wrapping_add_signed(ahead.into()),
                    echo: millis,
                });
                let options = Options {
                    sack: sack.into_iter().collect::<SackBlocks>(),
                    timestamps,
                    ..Options::default()
                };
                let header = Header {
                    seq: SeqNumber::new(self.connection.rcv_nxt().to_u32().wrapping_add_signed(seq)),
                    ack: SeqNumber::new(self.sent.to_u32().wrapping_sub(ack.cast_unsigned())),
                    flags: flags(bits),
                    window,
                    options,
                    ecn: if len % 7 == 1 { Ecn::Experienced } else { Ecn::Capable },
                    ..Header::default()
                };
                let payload = vec![0; len.into()];
                let segment = Segment { header, payload: [&payload, &[]] };
                self.arrived += 1;
                self.predicted += u32::from(self.connection.is_expected(&segment, self.now));
                let fate = if self.unpredicted {
                    self.connection.on_unpredicted(&segment, self.now)
                } else {
                    self.connection.on_segment(&segment, self.now)
                };
                self.heard.push(format!("{fate:?}"));
            }
            Step::Write(len) => {
                let data: Vec<u8> = (self.written..self.written + u32::from(len)).map(byte).collect();
                self.written += self.connection.write(&data).unwrap_or_default() as u32;
            }
            Step::Read(len) => _ = self.connection.read(&mut vec![0; len.into()], self.now),
            Step::Pass(millis) => self.pass(Duration::from_millis(millis.into())),
            Step::TooBig(seq, mss) => {
                self.connection.on_packet_too_big(self.sent - u32::from(seq), mss, self.now);
            }
            Step::Unreachable(seq, hard) => {
                self.connection.on_unreachable(self.sent - u32::from(seq), hard);
            }
            Step::Memory(left, pressed) => self.connection.set_allowance(Allowance { left, pressed }),
            Step::Shutdown => self.connection.shutdown(),
            Step::Close => self.connection.close(self.now),
            Step::Abort => self.connection.abort(),
        }
        self.drain();
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some((at, timer)) = self.connection.deadline().filter(|(at, _)| *at <= end) {
            self.now = self.now.max(at);
            self.connection.on_deadline(self.now);
            self.drain();
            let next = self.connection.deadline();
            assert_eq!(self.connection.next_deadline(), next.map_or(Instant::NEVER, |(at, _)| at));
            assert!(
                next.is_none_or(|next| next.0 > self.now),
                "{timer:?}, then {next:?}, in {}",
                self.connection.state()
            );
        }
        self.now = end;
    }

    fn drain(&mut self) {
        for _ in 0..10_000 {
            let Some(Outgoing { segment, .. }) = self.connection.poll_transmit(self.now) else { return };
            let header = &segment.header;
            self.heard.push(format!("{segment:?}"));
            assert!(segment.payload_len() + header.options.len() <= 1_000, "more than a segment");
            let first = header.seq.since(ISS + 1);
            let payload = segment.payload.concat();
            assert!(
                payload.iter().copied().eq((first..).map(byte).take(payload.len())),
                "not what was written"
            );
            if !header.flags.contains(Flags::RST) {
                self.sent = self.sent.max(segment.range().end);
            }
        }
        panic!("no end of segments");
    }
}

fn byte(place: u32) -> u8 {
    (place % 251) as u8
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn nothing_that_arrives_does_harm(
        timestamps: bool,
        ecn: bool,
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut run = Run::new(timestamps, ecn, true);
        for step in &steps {
            run.step(step);
        }
        // Left alone, it fails or lives on, but does not go on sending for ever.
        run.connection.close(run.now);
        run.drain();
        run.pass(Duration::from_secs(3_600));
        prop_assert_eq!(run.connection.state(), State::Closed);
        prop_assert!(run.connection.is_over());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    /// Whatever comes, in whatever state: a connection is the same afterwards, and has sent the same, whether
    /// its segments were predicted or not.
    #[test]
    fn prediction_makes_no_difference(
        timestamps: bool,
        ecn: bool,
        sack: bool,
        steps in proptest::collection::vec(
            prop_oneof![
                4 => expected(),
                1 => step(),
                2 => (1u16..6_000).prop_map(Step::Write),
                1 => (1u16..6_000).prop_map(Step::Read),
                1 => (0u32..300).prop_map(Step::Pass),
            ],
            1..120,
        ),
    ) {
        let mut predicted = Run::new(timestamps, ecn, sack);
        let mut other = Run { unpredicted: true, ..Run::new(timestamps, ecn, sack) };
        for step in &steps {
            predicted.step(step);
            other.step(step);
            prop_assert_eq!(format!("{:?}", predicted.connection), format!("{:?}", other.connection));
            prop_assert_eq!(&predicted.heard, &other.heard);
        }
    }
}

/// Or else the test above would say nothing.
#[test]
fn nearly_everything_is_predicted() {
    let mut run = Run::new(true, false, true);
    let clock = Some(0);
    let arrive = |len, ack| Step::Arrive { flags: 0x10, seq: 0, ack, window: 60_000, len, sack: None, clock };
    for n in 0..100 {
        // A request and what acknowledges the response, apart and together.
        let steps = [Step::Write(2_500), arrive(0, 500), arrive(700, 0), Step::Read(700), arrive(700, 0)];
        steps.iter().for_each(|step| run.step(step));
        run.step(&Step::Pass(n % 3));
    }
    assert!(run.arrived == 300 && run.predicted >= 270, "{} of {}", run.predicted, run.arrived);
}

/// A connection that has repaired a loss predicts segments as before, although some are always in flight.
#[test]
fn after_a_loss_nearly_everything_is_predicted_again() {
    const SEGMENT: u16 = 988;
    const FLIGHT: i32 = 5;
    let behind = |segments: i32| segments * i32::from(SEGMENT);
    let mut run = Run::new(true, false, true);
    let clock = Some(0);
    let ack = |ack, sack| Step::Arrive { flags: 0x10, seq: 0, ack, window: 60_000, len: 0, sack, clock };
    run.step(&Step::Write(10 * SEGMENT));
    run.step(&Step::Pass(1));
    // The first is lost, and all others have come.
    run.step(&ack(behind(10), Some((9 * SEGMENT, 9 * SEGMENT))));
    let retransmitted = |run: &Run| run.connection.info().recovery.retransmitted_segments;
    assert_eq!(retransmitted(&run), 1);
    for _ in 0..FLIGHT {
        run.step(&Step::Write(SEGMENT));
    }
    (run.arrived, run.predicted) = (0, 0);
    for _ in 0..1_000 {
        run.step(&Step::Pass(1));
        run.step(&ack(behind(FLIGHT - 1), None));
        run.step(&Step::Write(SEGMENT));
        assert!(run.connection.info().recovery.in_flight > 0, "something is always on its way");
    }
    assert_eq!(retransmitted(&run), 1);
    assert!(run.predicted >= 900, "{} of {}", run.predicted, run.arrived);
}
