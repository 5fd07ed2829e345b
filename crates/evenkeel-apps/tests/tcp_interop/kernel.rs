//! Independent checks of our segments: by the kernel that received them, and by tshark.

use std::collections::BTreeMap;
use std::path::Path;

use evenkeel_testing::run;

/// Counters of the kernel that must stay zero, whatever the network loses. Each counts an invalid segment, or
/// a connection that ended wrongly.
const NEVER: [&str; 22] = [
    "Tcp.InErrs",
    "Tcp.InCsumErrors",
    "TcpExt.PAWSActive",
    "TcpExt.PAWSEstab",
    "TcpExt.TCPChallengeACK",
    "TcpExt.TCPSYNChallenge",
    "TcpExt.EmbryonicRsts",
    "TcpExt.OutOfWindowIcmps",
    "TcpExt.SyncookiesFailed",
    "TcpExt.TCPSACKReneging",
    "TcpExt.TCPSACKDiscard",
    "TcpExt.TCPAbortOnData",
    "TcpExt.TCPAbortOnClose",
    "TcpExt.TCPAbortOnMemory",
    "TcpExt.TCPAbortOnTimeout",
    "TcpExt.TCPAbortOnLinger",
    "TcpExt.TCPAbortFailed",
    "TcpExt.TCPACKSkippedSynRecv",
    "TcpExt.TCPACKSkippedPAWS",
    "TcpExt.TCPACKSkippedFinWait2",
    "TcpExt.TCPACKSkippedTimeWait",
    "TcpExt.TCPACKSkippedChallenge",
];

/// Returns the counters of this namespace's kernel, by group and name.
pub(crate) fn counters() -> BTreeMap<String, u64> {
    let text = run("cat /proc/net/snmp /proc/net/netstat");
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks(2).flat_map(|pair| {
        let group = pair[0].split(':').next().unwrap();
        let names = pair[0].split_whitespace().skip(1);
        let counts = pair[1].split_whitespace().skip(1);
        names.zip(counts).map(move |(name, count)| (format!("{group}.{name}"), count.parse().unwrap_or(0)))
    });
    pairs.collect()
}

/// Events on the network that make good segments look wrong.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Network {
    /// Frames to the kernel that were delayed, so that later ones overtook them.
    pub(crate) held_back: u64,
    /// SYN-ACKs that we sent again because no answer came. If only the answer was lost, the kernel has two.
    pub(crate) syn_acks_again: u64,
}

impl Network {
    /// Returns the most that a counter may have counted because of these events.
    fn most(&self, counter: &str) -> u64 {
        match counter {
            // The kernel counts a repeated SYN-ACK as an error, and challenges it (RFC 5961, 4.2).
            "Tcp.InErrs" | "TcpExt.TCPSYNChallenge" | "TcpExt.TCPChallengeACK" => self.syn_acks_again,
            // An overtaken segment has an old timestamp (RFC 7323, 5.3). Some of them get no answer.
            "TcpExt.PAWSEstab" | "TcpExt.TCPACKSkippedPAWS" => self.held_back,
            _ => 0,
        }
    }
}

/// Asserts that the kernel has found nothing wrong except through events of the network.
pub(crate) fn check_counters(network: &Network) {
    let counters = counters();
    let wrong: Vec<_> = NEVER.iter().filter(|name| counters[**name] > network.most(name)).collect();
    let all: Vec<_> =
        counters.iter().filter(|(name, count)| name.starts_with("Tcp") && **count > 0).collect();
    assert!(wrong.is_empty(), "{wrong:?} in {all:?} of {network:?}");
    let challenged = counters["TcpExt.TCPSYNChallenge"];
    assert_eq!([counters["Tcp.InErrs"], counters["TcpExt.TCPChallengeACK"]], [challenged; 2], "{all:?}");
    assert!(counters["Tcp.InSegs"] > 10, "there was something to find");
}

/// Checks the findings of tshark's experts on our segments. There must be no error. Warnings are allowed only
/// if they are no fault, or if [`trace`](crate::trace) has shown that the segments are right.
pub(crate) fn check_capture(capture: &Path) {
    let capture = capture.display();
    for source in ["ip.src == 10.77.0.2", "ipv6.src == fd77::2"] {
        // TCP is dissected without reassembly of requests, which complains about retransmissions with another
        // length.
        let options = "-o tcp.desegment_tcp_streams:false -q -z";
        let said = tshark(&format!("-r {capture} {options}"), &format!("expert,warn,{source}"));
        let lines = said.lines().filter(|line| !line.contains("====") && !line.trim().is_empty());
        let wrong: Vec<&str> = lines
            .filter(|line| line.split_whitespace().nth(2) == Some("TCP"))
            .filter(|line| !is_fair(line))
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?} in {said}");
    }
}

/// Returns whether a warning is allowed. A full window is no fault; `trace` checks each D-SACK and reset; and
/// segments that seem out of order were retransmitted. A late acknowledgment of a closed connection gets a
/// reset. On a link without loss it is the second one, of a tail loss probe that was not needed.
fn is_fair(line: &str) -> bool {
    [
        "window specified by the receiver is now completely full",
        "TCP Zero Window segment",
        "D-SACK Sequence",
        "This frame is a (suspected) out-of-order segment",
        "Connection reset (RST)",
    ]
    .iter()
    .any(|fair| line.contains(fair))
}

/// Runs tshark. The last argument has blanks. On a busy machine tshark may fail for reasons of its own, so it
/// is tried three times.
pub(crate) fn tshark(arguments: &str, last: &str) -> String {
    let mut said = String::new();
    for _ in 0..3 {
        let output = evenkeel_testing::words(&format!("tshark {arguments}")).arg(last).output().unwrap();
        if output.status.success() {
            return String::from_utf8(output.stdout).unwrap();
        }
        said = format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    panic!("tshark {arguments}: {said}")
}
