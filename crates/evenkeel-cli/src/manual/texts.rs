//! Parts of guides that several commands share.

use super::guide::{Block, Group, Section, Term};

/// The links of a command that runs a host.
pub(crate) const HOST_LINKS: Section = Section {
    heading: "Links",
    blocks: &[Block::Terms(&[
        TAP,
        PACKET,
        XDP,
        ("...,queues=N", "tap: and packet: with N receive rings. A flood in one spares flows in the others."),
        (
            "pcap:FILE",
            "Frames from a capture, played once at its own pace. Answers are discarded, or written to a file \
             with --dump.",
        ),
        ("cable", "In memory, with a load generator or TCP clients as the peer. It needs nothing."),
    ])],
};

pub(crate) const TAP: Term = (
    "tap:NAME",
    "A TAP device. The command creates it if it does not exist, and then removes it at the end. It needs \
     root (CAP_NET_ADMIN).",
);

pub(crate) const PACKET: Term =
    ("packet:NAME", "An existing network interface, through AF_PACKET. It needs root (CAP_NET_RAW).");

pub(crate) const XDP: Term = (
    "xdp:NAME",
    "An existing network interface, through AF_XDP. @0,1 uses some of its queues. It needs root (CAP_BPF, \
     CAP_NET_ADMIN, CAP_NET_RAW, CAP_PERFMON).",
);

/// The addresses of a command that runs a host.
pub(crate) const HOST_ADDRESSES: Group =
    Group { heading: "Addresses", first: &["address", "kernel_address"], others: &["gateway", "mac"] };

/// The addresses of a command that sends to a peer.
pub(crate) const PEER_ADDRESSES: Group =
    Group { heading: "Addresses", first: &["to", "from", "kernel_address"], others: &["gateway", "mac"] };

/// The end of a run that lasts until Ctrl-C unless it is limited.
pub(crate) const RUN: Group =
    Group { heading: "Run", first: &["duration"], others: &["count", "cores", "user"] };

/// The output of a command that runs a host.
pub(crate) const HOST_OUTPUT: Group =
    Group { heading: "Output", first: &["json"], others: &["stats_interval", "dump", "capture"] };

/// The options of TCP servers.
pub(crate) const TCP: Group =
    Group { heading: "TCP", first: &[], others: &["connections", "backlog", "fast_open"] };

/// The exit status of a command that accounts for every frame.
pub(crate) const EXIT_STATUS: &[Term] = &[
    ("0", "The command ran to its end or to a signal, and every frame is accounted for."),
    (
        "1",
        "The machine or a missing privilege prevented the work, a device or a file failed, or a frame is not \
         accounted for.",
    ),
    ("2", BAD_ARGUMENTS),
];

pub(crate) const BAD_ARGUMENTS: &str = "An argument is wrong; one line says which.";

/// The signals of a command that runs until it is ended.
pub(crate) const SIGNALS: &[Term] =
    &[("SIGINT, SIGTERM, SIGHUP", "End the command with its whole report."), SIGUSR1];

pub(crate) const SIGUSR1: Term = (
    "SIGUSR1",
    "Prints an interim report to the place of the final one, with --json as one more object. The command \
     continues.",
);

/// The signals of a command that measures step by step.
pub(crate) const STEP_SIGNALS: &[Term] = &[
    ("SIGINT, SIGTERM, SIGHUP", "End the command at once, without a report."),
    ("SIGUSR1", "Prints the progress on standard error after the present step. The command continues."),
];

/// The device file of TAPs.
pub(crate) const TUN_FILE: Term = ("/dev/net/tun", "The kernel's device for TAPs, which tap:NAME opens.");

/// The sockets on which running commands serve their figures.
pub(crate) const FIGURES: &[Term] = &[
    ("$XDG_RUNTIME_DIR/evenkeel/PID", "The socket of a running command."),
    ("/run/evenkeel/PID", "The socket of a command that root runs without XDG_RUNTIME_DIR."),
    ("/run/evenkeel/user-UID/PID", "The socket of a command that root runs with --user."),
];

pub(crate) const QUEUES: &str = "Either link with N receive rings. Each flow uses one of them.";

/// The signals of a command that can read files again.
pub(crate) const REREAD_SIGNALS: &[Term] = &[
    ("SIGINT, SIGTERM", "End the command with its whole report."),
    (
        "SIGHUP",
        "Reads the files that can change (--config, --rules) again. Without such a file it ends the command \
         with its whole report.",
    ),
    SIGUSR1,
];
