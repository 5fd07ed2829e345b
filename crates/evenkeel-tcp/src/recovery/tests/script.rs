//! A sender by hand: segments by number, times in milliseconds.

use std::sync::Arc;

use crate::recovery::{AckInfo, Acked, Expired, Recovery, RecoveryConfig};
use crate::time::{Duration, Instant};
use crate::{SeqNumber, SeqRange};

pub(super) const MSS: u32 = 1000;
/// Close to the end of the circle, so that all scripts cross it.
const ISS: SeqNumber = SeqNumber::new(u32::MAX - 5000);

pub(super) struct Script {
    pub(super) recovery: Recovery,
    pub(super) now: Instant,
    /// The number of segments ever sent. `available` is the number of segments that the application has
    /// provided.
    sent: u32,
    pub(super) available: u32,
    acked: u32,
}

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Script {
    /// Creates a connection with SACK and a round trip of 100 ms, established at 100 ms, without HyStart++
    /// (which needs its own tests).
    pub(super) fn new() -> Self {
        Self::with(&RecoveryConfig { hystart: false, ..RecoveryConfig::default() }, true)
    }

    pub(super) fn without_sack() -> Self {
        let algorithm = crate::congestion::Algorithm::NewReno;
        Self::with(&RecoveryConfig { hystart: false, algorithm, ..RecoveryConfig::default() }, false)
    }

    pub(super) fn with(config: &RecoveryConfig, sack: bool) -> Self {
        let mut script = Self::before_handshake(config);
        script.recovery.set_sack_permitted(sack);
        script.recovery.on_sent(SeqRange::at(ISS, 1), false, Instant::ZERO);
        script.at(100);
        script.ack(0);
        script
    }

    pub(super) fn before_handshake(config: &RecoveryConfig) -> Self {
        let recovery = Recovery::new(&Arc::new(config.clone()), ISS, 1000);
        Self { recovery, now: Instant::ZERO, sent: 0, available: 0, acked: 0 }
    }

    pub(super) fn at(&mut self, millis: u64) -> &mut Self {
        assert!(self.now <= Instant::from_millis(millis), "time never goes back");
        self.now = Instant::from_millis(millis);
        self
    }

    pub(super) fn after(&mut self, time: Duration) -> &mut Self {
        self.now += time;
        self
    }

    pub(super) fn syn(&self) -> SeqRange {
        SeqRange::at(ISS, 1)
    }

    pub(super) fn segments(&self, from: u32, to: u32) -> SeqRange {
        SeqRange::new(ISS + 1 + from * MSS, ISS + 1 + to * MSS)
    }

    /// Gives the application this many segments more, and sends all that may leave.
    pub(super) fn write(&mut self, segments: u32) -> String {
        self.available += segments;
        self.pump()
    }

    /// Sends all that may leave; tells what that was: `R` for segments sent again, `N` for new ones.
    pub(super) fn pump(&mut self) -> String {
        let mut left = Vec::new();
        while self.recovery.send_allowance() >= MSS {
            if let Some(range) = self.recovery.next_retransmission(1000) {
                left.push(format!("R{}", self.number(range)));
                self.recovery.on_sent(range, true, self.now);
            } else if self.sent < self.available {
                left.push(format!("N{}", self.send_new()));
            } else {
                break;
            }
        }
        left.join(" ")
    }

    /// Sends one new segment, whatever is allowed.
    pub(super) fn send_new(&mut self) -> u32 {
        let number = self.sent;
        self.recovery.on_sent(self.segments(number, number + 1), false, self.now);
        self.sent += 1;
        number
    }

    /// Sends the probe: a new segment, or the last one again.
    pub(super) fn probe(&mut self) -> String {
        if self.sent < self.available {
            return format!("N{}", self.send_new());
        }
        let range = self.recovery.probe_range(1000, self.segments(0, self.sent).end).unwrap();
        self.recovery.on_sent(range, true, self.now);
        format!("R{}", self.number(range))
    }

    pub(super) fn number(&self, range: SeqRange) -> u32 {
        range.start.since(ISS + 1) / MSS
    }

    /// Acknowledges all before segment `upto`.
    pub(super) fn ack(&mut self, upto: u32) -> Acked {
        self.sack(upto, &[])
    }

    /// Acknowledges all before `upto`, and selectively the segments from the first up to the second number
    /// of each block.
    pub(super) fn sack(&mut self, upto: u32, blocks: &[(u32, u32)]) -> Acked {
        self.acknowledge(upto, blocks, None, false)
    }

    /// Acknowledges with SACK blocks and a timestamp that reports that the segment left at `echo_millis`.
    pub(super) fn sack_echoing(&mut self, upto: u32, blocks: &[(u32, u32)], echo_millis: u64) -> Acked {
        let age = self.now.since(Instant::from_millis(echo_millis));
        self.acknowledge(upto, blocks, Some(age), false)
    }

    /// Delivers an acknowledgment up to `upto` with ECE set.
    pub(super) fn ack_with_ece(&mut self, upto: u32) -> Acked {
        self.acknowledge(upto, &[], None, true)
    }

    /// Acknowledges all before segment `upto`, and `bytes` bytes of it.
    pub(super) fn ack_in_part(&mut self, upto: u32, bytes: u32) -> Acked {
        let ack = self.segments(upto, upto).start + bytes;
        self.recovery.on_ack(&AckInfo { ack, ..self.info(upto, &[]) })
    }

    fn acknowledge(
        &mut self,
        upto: u32,
        blocks: &[(u32, u32)],
        rtt_echo: Option<Duration>,
        ece: bool,
    ) -> Acked {
        self.acked = self.acked.max(upto);
        let sack: Vec<SeqRange> = blocks.iter().map(|&(from, to)| self.segments(from, to)).collect();
        self.recovery.on_ack(&AckInfo { rtt_echo, ece, ..self.info(upto, &sack) })
    }

    fn info<'a>(&self, upto: u32, sack: &'a [SeqRange]) -> AckInfo<'a> {
        AckInfo {
            ack: self.segments(upto, upto).start,
            sack,
            window_update: false,
            payload: false,
            rtt_echo: None,
            ece: false,
            unsent: self.sent < self.available,
            now: self.now,
        }
    }

    /// Goes to the next deadline.
    pub(super) fn expire(&mut self) -> Expired {
        self.now = self.recovery.deadline().expect("a timer runs");
        self.recovery.on_deadline(self.now)
    }

    pub(super) fn millis(&self) -> u64 {
        self.now.as_nanos() / 1_000_000
    }

    /// Returns the window in segments.
    pub(super) fn cwnd(&self) -> u32 {
        self.recovery.info().cwnd / MSS
    }

    /// Returns the number of segments in flight.
    pub(super) fn in_flight(&self) -> u32 {
        self.recovery.in_flight() / MSS
    }

    /// Sends whole windows, one a round trip of 100 ms, until the window has so many segments.
    pub(super) fn grow_to(&mut self, segments: u32) {
        while self.cwnd() < segments {
            self.write(self.cwnd());
            self.after(ms(100));
            (self.acked + 1..=self.sent).for_each(|upto| {
                self.ack(upto);
            });
        }
        assert!(self.recovery.is_empty());
    }

    /// Returns the number of the next new segment.
    pub(super) fn next(&self) -> u32 {
        self.sent
    }
}
