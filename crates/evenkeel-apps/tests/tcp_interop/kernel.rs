//! What others say of our segments: the kernel that received them, and tshark.

use std::collections::BTreeMap;
use std::path::Path;

use evenkeel_testing::run;

/// Counters of the kernel that must stay zero, whatever the network loses: each counts a segment that should not have been sent, or a connection that
/// ended as none should.
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

/// What the kernel of this namespace has counted, by group and name.
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

/// What a network that loses and delays makes of good segments: a SYN-ACK is repeated to who has it already, because the ACK was lost; and one that was
/// overtaken by its own repetition has an old timestamp.
const BY_LOSS: [&str; 4] =
    ["Tcp.InErrs", "TcpExt.TCPChallengeACK", "TcpExt.TCPSYNChallenge", "TcpExt.PAWSEstab"];

/// The kernel has found nothing wrong.
pub(crate) fn check_counters(loses: bool) {
    let counters = counters();
    let excused = |name: &&&str| loses && BY_LOSS.contains(*name);
    let wrong: Vec<_> =
        NEVER.iter().filter(|name| counters[**name] > 0).filter(|name| !excused(name)).collect();
    let all: Vec<_> =
        counters.iter().filter(|(name, count)| name.starts_with("Tcp") && **count > 0).collect();
    assert!(wrong.is_empty(), "{wrong:?} in {all:?}");
    assert!(counters["Tcp.InSegs"] > 10, "there was something to find");
}

/// What tshark's experts say of what we sent: no error, and no warning but those that the network is to blame for.
pub(crate) fn check_capture(capture: &Path, loses: bool) {
    let capture = capture.display();
    for source in ["ip.src == 10.77.0.2", "ipv6.src == fd77::2"] {
        // TCP's own business, not that of putting requests together from segments, which mislikes those sent again with another length.
        let options = "-o tcp.desegment_tcp_streams:false -q -z";
        let said = tshark(&format!("-r {capture} {options}"), &format!("expert,warn,{source}"));
        let lines = said.lines().filter(|line| !line.contains("====") && !line.trim().is_empty());
        let wrong: Vec<&str> = lines
            .filter(|line| line.split_whitespace().nth(2) == Some("TCP"))
            .filter(|line| !is_fair(line, loses))
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?} in {said}");
    }
}

/// Of a full window nobody is to blame, and of a D-SACK who sent again too soon; of what is missing or out of order, the network.
fn is_fair(line: &str, loses: bool) -> bool {
    let always = [
        "window specified by the receiver is now completely full",
        "TCP Zero Window segment",
        "D-SACK Sequence",
    ];
    // A late acknowledgment of a connection that is over gets a reset.
    let lost = [
        "Connection reset (RST)",
        "Previous segment(s) not captured",
        "This segment is (suspected) to be out-of-order",
        "out-of-order",
    ];
    always.iter().any(|fair| line.contains(fair)) || loses && lost.iter().any(|fair| line.contains(fair))
}

/// The last argument has blanks. On a machine without a free core tshark may give up for reasons of its own: it is asked three times.
fn tshark(arguments: &str, last: &str) -> String {
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
