//! Recorded links, in mahimahi's format: the times at which a packet could be delivered.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::str::FromStr;
use evenkeel_timers::{Duration, Instant};

/// The number of bytes that one delivery opportunity carries.
pub const OPPORTUNITY_BYTES: u32 = 1_500;

/// A recorded link: the times of its delivery opportunities. After its end it begins again.
///
/// The text has a line for each opportunity, with its time in whole milliseconds since the beginning. Several
/// may have one time. The last time is also the length of the trace. Clones share the times.
///
/// ```
/// use evenkeel_wan::Trace;
///
/// let trace: Trace = "10\n20\n20\n".parse()?;
/// // Three packets of 1 500 bytes in 20 ms.
/// assert_eq!((trace.opportunities(), trace.mean_bps()), (3, 1_800_000));
/// assert!("20\n10\n".parse::<Trace>().is_err());
/// # Ok::<(), evenkeel_wan::TraceError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace(Arc<[u32]>);

/// A trace that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line is not a number of milliseconds.
    #[error("line {line}: `{text}`: expected the time of a delivery opportunity in whole milliseconds")]
    Time {
        /// The line, from 1.
        line: usize,
        /// The text of the line.
        text: String,
    },
    /// The time of a line, counted from 1, is earlier than that of the line before.
    #[error("line {0}: the time is earlier than that of the line before")]
    Order(usize),
    /// The trace has no opportunity, or only opportunities at time 0.
    #[error("no delivery opportunity after time 0, so the trace has no length")]
    Empty,
}

impl FromStr for Trace {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let mut times: Vec<u32> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let (line, number) = (line.trim(), number + 1);
            // `parse` would take a sign.
            let digits = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
            let time = line.parse().ok().filter(|_| digits);
            let wrong = || TraceError::Time { line: number, text: line.chars().take(32).collect() };
            let time = time.ok_or_else(wrong)?;
            if times.last().is_some_and(|last| time < *last) {
                return Err(TraceError::Order(number));
            }
            times.push(time);
        }
        if times.last().is_none_or(|last| *last == 0) {
            Err(TraceError::Empty)
        } else {
            Ok(Self(times.into()))
        }
    }
}

impl Trace {
    /// Returns the number of delivery opportunities.
    #[must_use]
    pub fn opportunities(&self) -> usize {
        self.0.len()
    }

    /// Returns the times of the delivery opportunities, from the beginning of the trace.
    pub fn times(&self) -> impl Iterator<Item = Duration> {
        self.0.iter().map(|millis| Duration::from_millis(u64::from(*millis)))
    }

    /// Returns the length of the trace. After it the trace begins again.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms())
    }

    /// Returns the bits per second that the trace can deliver, over its whole length.
    #[must_use]
    pub fn mean_bps(&self) -> u64 {
        let bits = self.0.len() as u128 * u128::from(OPPORTUNITY_BYTES) * 8;
        u64::try_from(bits * 1_000 / u128::from(self.period_ms())).unwrap_or(u64::MAX)
    }

    fn period_ms(&self) -> u64 {
        self.0.last().map_or(1, |last| u64::from(*last))
    }

    fn at(&self, index: usize) -> u64 {
        self.0.get(index).map_or(0, |at| u64::from(*at))
    }
}

/// A place in a trace: an opportunity, and what is left of it.
#[derive(Debug, Clone)]
pub(crate) struct Cursor {
    trace: Trace,
    begin: Instant,
    lap: u64,
    index: usize,
    left: u32,
}

impl Cursor {
    /// Creates a cursor at the first opportunity of a trace that begins at `begin`.
    pub(crate) const fn new(trace: Trace, begin: Instant) -> Self {
        Self { trace, begin, lap: 0, index: 0, left: OPPORTUNITY_BYTES }
    }

    pub(crate) const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Returns the time of the present opportunity.
    pub(crate) fn time(&self) -> Instant {
        let millis = self.lap.saturating_mul(self.trace.period_ms()) + self.trace.at(self.index);
        self.begin + Duration::from_millis(millis)
    }

    /// Goes to the first opportunity after `now` of which something is left. Those before are gone, used or
    /// not.
    pub(crate) fn seek(&mut self, now: Instant) {
        if self.time() <= now {
            // Rounded down: an opportunity at a whole millisecond is later than `now` if it is later than
            // this.
            let elapsed_ms = u64::try_from(now.since(self.begin).as_millis()).unwrap_or(u64::MAX);
            let (lap, offset) = (elapsed_ms / self.trace.period_ms(), elapsed_ms % self.trace.period_ms());
            // The last one is at the period, which is more than any offset.
            let index = self.trace.0.partition_point(|at| u64::from(*at) <= offset);
            (self.lap, self.index, self.left) = (lap, index, OPPORTUNITY_BYTES);
        } else if self.left == 0 {
            self.advance();
        }
    }

    /// Uses so many bytes, of as many opportunities as that takes.
    pub(crate) fn consume(&mut self, mut bytes: u32) {
        while bytes > self.left {
            bytes -= self.left;
            self.advance();
        }
        self.left -= bytes;
    }

    fn advance(&mut self) {
        self.index += 1;
        if self.index >= self.trace.0.len() {
            (self.index, self.lap) = (0, self.lap + 1);
        }
        self.left = OPPORTUNITY_BYTES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_trace_can_deliver_is_known() {
        let trace: Trace = "0\n1\n1\n3\n".parse().unwrap();
        assert_eq!((trace.opportunities(), trace.period()), (4, Duration::from_millis(3)));
        assert_eq!(trace.mean_bps(), 16_000_000);
        assert_eq!("7\r\n9".parse::<Trace>().unwrap().period(), Duration::from_millis(9));
    }

    #[test]
    fn what_is_wrong_with_a_trace_is_said_with_its_line() {
        let said = |text: &str| text.parse::<Trace>().unwrap_err().to_string();
        assert!(said("1\n\n2").starts_with("line 2: ``: expected the time"));
        for wrong in ["1\n2\n3.5", "1\n2\n-3", "1\n2\n+3", "1\n2\nx", "1\n2\n99999999999"] {
            assert!(said(wrong).starts_with("line 3: `"), "{wrong}: {}", said(wrong));
        }
        assert_eq!(said("5\n4"), "line 2: the time is earlier than that of the line before");
        for empty in ["", "0", "0\n0\n"] {
            assert!(said(empty).contains("no length"), "{empty:?}");
        }
    }

    #[test]
    fn after_a_long_silence_the_place_is_found_at_once() {
        let trace: Trace = "2\n5\n10".parse().unwrap();
        let mut cursor = Cursor::new(trace, Instant::from_millis(100));
        let at = |millis: u64, cursor: &mut Cursor| {
            cursor.seek(Instant::from_millis(millis));
            cursor.time().as_nanos() / 1_000_000
        };
        assert_eq!(at(0, &mut cursor), 102);
        assert_eq!(at(102, &mut cursor), 105, "one at this instant is gone");
        assert_eq!(at(109, &mut cursor), 110);
        assert_eq!(at(110, &mut cursor), 112);
        assert_eq!(at(10_000_000_106, &mut cursor), 10_000_000_110);
        cursor.seek(Instant::from_nanos(10_000_000_109_999_999));
        assert_eq!(cursor.time(), Instant::from_millis(10_000_000_110));
    }
}
