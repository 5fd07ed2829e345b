//! Text about TCP: counters, connections, and progress.

use std::time::Duration;

use evenkeel::raw::tcp::counters::Counter;
use evenkeel_apps::quantity::{bit_rate, byte_rate, count, three_digits};
use evenkeel_apps::stream::{ConnectionReport, TcpReport};

use crate::terminal::Progress;

/// The default interval between updates of the progress line on a terminal.
const OFTEN: Duration = Duration::from_millis(250);

/// Counters that indicate how well TCP worked, with their names in a sentence.
const TELLING: [(Counter, &str); 14] = [
    (Counter::RetransSegs, "retransmitted"),
    (Counter::Timeouts, "timeouts"),
    (Counter::OutRsts, "resets sent"),
    (Counter::EstabResets, "connections reset"),
    (Counter::AttemptFails, "attempts failed"),
    (Counter::ListenDrops, "dropped by the listener"),
    (Counter::ListenOverflows, "with the accept queue full"),
    (Counter::SyncookiesSent, "SYN cookies sent"),
    (Counter::FastOpenActive, "opened with data in the SYN"),
    (Counter::FastOpenPassive, "accepted with data in the SYN"),
    (Counter::FastOpenBlackhole, "Fast Open given up"),
    (Counter::OfoQueue, "out of order"),
    (Counter::ChallengeAck, "challenge ACKs"),
    (Counter::InErrs, "in error"),
];

/// Returns the line about the segments and TCP counters of a host.
pub(super) fn segments(tcp: &TcpReport) -> String {
    let (received, sent) = (tcp.count(Counter::InSegs), tcp.count(Counter::OutSegs));
    let mut text = format!("  segments: {} received, {} sent", count(received), count(sent));
    for (counter, what) in TELLING {
        let times = tcp.count(counter);
        if times > 0 {
            text.push_str(&format!(", {} {what}", count(times)));
        }
    }
    text + "\n"
}

/// Returns two lines about a connection, as `ss -ti` shows it.
pub(super) fn connection(connection: &ConnectionReport) -> String {
    let c = connection;
    let [receive_queue, send_queue] = [c.receive_queue, c.send_queue].map(|bytes| count(bytes as u64));
    let mut text = format!(
        "{:<12} recv-q {receive_queue:<7} send-q {send_queue:<7} {}  {}\n        {}",
        c.state, c.local, c.peer, c.congestion_control
    );
    for option in &c.options {
        text.push_str(&format!(" {option}"));
    }
    if let Some((srtt, rttvar)) = c.srtt_us.zip(c.rttvar_us) {
        text.push_str(&format!(" rtt:{}/{} ms", three_digits(srtt / 1e3), three_digits(rttvar / 1e3)));
    }
    text.push_str(&format!(" rto:{} ms mss:{} cwnd:{}", three_digits(c.rto_us / 1e3), c.mss, c.cwnd));
    if let Some(ssthresh) = c.ssthresh {
        text.push_str(&format!(" ssthresh:{ssthresh}"));
    }
    for (rate, what) in [(c.pacing_bps, "pacing"), (c.limit_bps, "limit"), (c.delivery_bps, "delivery")] {
        if let Some(rate) = rate {
            text.push_str(&format!(" {what}:{}", bit_rate(rate as f64)));
        }
    }
    text.push_str(&format!(" snd_wnd:{} rcv_wnd:{}", c.send_window, c.receive_window));
    text.push_str(&format!(" out:{} in:{} retrans:{}", c.bytes_out, c.bytes_in, c.retransmits));
    for (times, what) in
        [(c.timeouts, "timeouts"), (c.out_of_order, "ofo"), (c.duplicates, "dup"), (c.drops, "drops")]
    {
        if times > 0 {
            text.push_str(&format!(" {what}:{times}"));
        }
    }
    if c.recovery != "open" {
        text.push_str(&format!(" {}", c.recovery));
    }
    if let Some(error) = &c.error {
        text.push_str(&format!(" ({error})"));
    }
    text.push('\n');
    text
}

/// Bytes in and out up to some time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moved {
    pub(super) seconds: f64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

impl Moved {
    /// Returns the bytes a second in each direction since `before`.
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    pub(super) fn rates(self, before: Self) -> (f64, f64) {
        let seconds = self.seconds - before.seconds;
        let rate = |now: u64, then: u64| {
            if seconds > 0.0 { now.saturating_sub(then) as f64 / seconds } else { 0.0 }
        };
        (rate(self.bytes_in, before.bytes_in), rate(self.bytes_out, before.bytes_out))
    }
}

/// Returns text such as `1.23 G bytes in (45.6 MB/s)`, and the same for out. It omits a direction without
/// bytes.
pub(super) fn moved(moved: Moved, before: Moved) -> String {
    let (rate_in, rate_out) = moved.rates(before);
    let ways = [("in", moved.bytes_in, rate_in), ("out", moved.bytes_out, rate_out)];
    let parts = ways
        .into_iter()
        .filter(|(_, bytes, _)| *bytes > 0)
        .map(|(way, bytes, rate)| format!("{} bytes {way} ({})", count(bytes), byte_rate(rate)));
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "nothing in or out".to_owned() } else { parts.join(", ") }
}

/// A display of progress: on a terminal a line that is overwritten, else separate lines if they were
/// requested.
#[derive(Debug)]
pub(super) struct Telling {
    lines: bool,
    progress: Progress,
    before: Moved,
}

impl Telling {
    /// Creates a display. It prints separate lines if there is an interval `every`. `quiet` suppresses the
    /// overwritten line.
    pub(super) fn new(every: Option<Duration>, quiet: bool) -> Self {
        let progress = if quiet { Progress::silent() } else { Progress::new() };
        Self { lines: every.is_some(), progress, before: Moved::default() }
    }

    /// Returns the interval between updates: `every` if given, else the default on a terminal.
    pub(super) fn every(&self, every: Option<Duration>) -> Option<Duration> {
        every.or_else(|| self.progress.is_active().then_some(OFTEN))
    }

    /// Shows progress. `line` makes the line from the data moved since the previous call. `more` is the text
    /// that follows if lines are separate.
    pub(super) fn show(&mut self, now: Moved, line: impl FnOnce(&str) -> String, more: &str) {
        let line = line(&moved(now, self.before));
        self.before = now;
        if self.lines {
            eprint!("{line}\n{more}");
        } else {
            self.progress.show(&line);
        }
    }

    pub(super) fn clear(&mut self) {
        self.progress.clear();
    }
}
