//! Programs that pages call and that a machine may lack.

use std::path::Path;

use crate::shell;

/// Programs, each with the Debian package that contains it.
const PACKAGES: [(&str, &str); 22] = [
    ("arping", "iputils-arping"),
    ("bird", "bird2"),
    ("birdc", "bird2"),
    ("bridge", "iproute2"),
    ("capinfos", "wireshark-common"),
    ("curl", "curl"),
    ("dig", "bind9-dnsutils"),
    ("ethtool", "ethtool"),
    ("ip", "iproute2"),
    ("iperf3", "iperf3"),
    ("jq", "jq"),
    ("man", "man-db"),
    ("nc", "netcat-openbsd"),
    ("nginx", "nginx-light"),
    ("nsenter", "util-linux"),
    ("ping", "iputils-ping"),
    ("socat", "socat"),
    ("ss", "iproute2"),
    ("sysctl", "procps"),
    ("tcpdump", "tcpdump"),
    ("traceroute", "traceroute"),
    ("tshark", "tshark"),
];

/// Returns the first program of a line that the machine lacks, with its package. A program without a known
/// package is not looked for: its command fails.
#[must_use]
pub fn missing(line: &str) -> Option<(&'static str, &'static str)> {
    let words: Vec<String> = shell::simple_commands(line).concat();
    PACKAGES
        .into_iter()
        .find(|(program, _)| words.iter().any(|word| word == program) && !is_installed(program))
}

/// Returns whether a program is on the search path.
#[must_use]
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder: std::path::PathBuf| Path::is_file(&folder.join(program)))
}
