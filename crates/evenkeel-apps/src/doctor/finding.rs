//! Findings about a machine: a check, its verdict, what was seen, and what mends it.

use schemars::JsonSchema;
use serde::Serialize;

/// A verdict on one property of the machine, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Packets are lost at present, or would be under load.
    Bad,
    /// The machine or the process lacks it.
    Missing,
    /// It works, and another setting would serve better.
    CouldBeBetter,
    /// It could not be seen; `seen` says why.
    Unknown,
    /// Nothing has to be done.
    Good,
}

impl Verdict {
    /// Returns `Good` if `holds`, and otherwise `or`.
    pub(super) const fn good_if(holds: bool, or: Self) -> Self {
        if holds { Self::Good } else { or }
    }

    /// Returns the verdict in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Missing => "missing",
            Self::CouldBeBetter => "could be better",
            Self::Unknown => "unknown",
            Self::Good => "good",
        }
    }
}

/// A part of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    /// The kernel, the privileges of the process, and limits.
    Kernel,
    /// A network interface.
    Interface,
    /// The share of processors that programs get.
    Share,
    /// Losses at present.
    Trouble,
    /// The livelock test.
    Livelock,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// The part of the machine.
    pub area: Area,
    /// The network interface, if it is about one.
    pub interface: Option<String>,
    /// The name of the check.
    pub check: &'static str,
    /// The verdict.
    pub verdict: Verdict,
    /// The observation, in words and figures.
    pub seen: String,
    /// The file, or the question to the kernel, where that was seen.
    pub source: String,
    /// Why it matters.
    pub why: &'static str,
    /// A command that mends it, if there is one.
    pub mend: Option<String>,
}

impl Finding {
    /// Adds the command that mends it, unless it is good.
    #[must_use]
    pub fn mended_by(self, command: impl Into<String>) -> Self {
        let needs = !matches!(self.verdict, Verdict::Good | Verdict::Unknown);
        Self { mend: needs.then(|| command.into()), ..self }
    }

    /// Adds the network interface that it is about.
    #[must_use]
    pub fn of_interface(self, name: &str) -> Self {
        Self { interface: Some(name.to_owned()), ..self }
    }
}

/// A check by its name, and why it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    area: Area,
    /// The name.
    pub name: &'static str,
    why: &'static str,
}

impl Check {
    const fn new(area: Area, name: &'static str, why: &'static str) -> Self {
        Self { area, name, why }
    }

    /// Returns a finding of this check.
    pub(super) fn finds(
        self,
        verdict: Verdict,
        seen: impl Into<String>,
        source: impl Into<String>,
    ) -> Finding {
        Finding {
            area: self.area,
            interface: None,
            check: self.name,
            verdict,
            seen: seen.into(),
            source: source.into(),
            why: self.why,
            mend: None,
        }
    }

    /// Returns the finding that it could not be seen.
    pub(super) fn unseen(self, why: impl ToString, source: impl Into<String>) -> Finding {
        self.finds(Verdict::Unknown, why.to_string(), source)
    }
}

macro_rules! checks {
    ($($area:ident $constant:ident $name:literal $why:literal;)*) => {
        impl Check {
            $(pub(super) const $constant: Self = Self::new(Area::$area, $name, $why);)*
            /// All checks, in the order of the report.
            pub const ALL: &[Self] = &[$(Self::$constant),*];
        }
    };
}

checks! {
    Kernel KERNEL "kernel" "xdp: needs Linux 5.9, and the guard 6.1.";
    Kernel BTF "btf" "The guard reads the kernel's sockets by their type information.";
    Kernel AF_XDP "af-xdp" "xdp: receives past the kernel's stack through AF_XDP sockets.";
    Kernel JIT "bpf-jit" "Without the JIT an XDP program costs several times as much for each frame.";
    Kernel GUARD "guard" "evenkeel guard drops excess datagrams in front of the kernel's own sockets.";
    Kernel TCX "tcx" "A tcx link keeps the kernel off our frames, and goes with its process.";
    Kernel NET_ADMIN "cap-net-admin" "tap:, xdp: and guard change network devices.";
    Kernel NET_RAW "cap-net-raw" "packet: and xdp: receive frames.";
    Kernel CAP_BPF "cap-bpf" "xdp:, guard and early refusal on packet: load BPF programs.";
    Kernel NICE "cap-sys-nice" "Generators and wan --realtime are to run before ordinary threads.";
    Kernel TUN "tun" "tap: creates its device through it.";
    Kernel LIBPCAP "libpcap" "Filters of monitor are compiled by libpcap.";
    Kernel NOFILE "nofile" "Each connection on the kernel's sockets takes a descriptor.";
    Kernel MEMLOCK "memlock" "An AF_XDP queue locks about 50 MiB of memory.";
    Kernel BUFFERS "socket-buffers" "A larger receive buffer bridges a longer pause of the server.";
    Kernel BACKLOG "backlog" "Frames steered to another core, and those of a veth pair, wait in this queue.";
    Kernel SYNCOOKIES "syncookies" "Without cookies a flood of SYNs shuts out every new connection.";
    Kernel CLOCK "clock" "With another clock source than tsc each reading of the clock is slow.";
    Kernel CORES "cores" "On one core the network's work and the program always compete.";
    Interface STATE "state" "A host has no frames from an interface that is down.";
    Interface QUEUES "queues" "A flood spares flows that arrive by another receive queue.";
    Interface NATIVE_XDP "native-xdp"
        "Behind the driver, XDP sees a frame only after the kernel made a packet of it.";
    Interface PROGRAM "xdp-program" "An interface has one XDP program: xdp: and guard need the place.";
    Interface THREADED "threaded-napi"
        "Softirqs come before every program on their core; a NAPI thread competes as threads do.";
    Interface RPS "rps"
        "Protocol work in softirqs comes before every program on these cores: the classic livelock.";
    Interface OFFLOADS "offloads" "LRO changes packets: drivers refuse XDP with it, and forwarding breaks.";
    Interface INTERRUPTS "interrupts" "A core that gets all interrupts does all of the network's work.";
    Interface DEFERRAL "deferral" "Deferred interrupts help busy polling; other programs wait for the timer.";
    Share CGROUP "cpu-group" "A group above its quota is stopped for the rest of each period.";
    Share AUTOGROUP "autogroup"
        "All that one login starts has one share together, and nice counts inside it only.";
    Share REALTIME "real-time"
        "Without the limit a real-time thread that never halts takes its core from all others.";
    Trouble SOFTNET_DROPS "softnet-drops" "The kernel drops frames because a core's backlog is full.";
    Trouble SQUEEZES "time-squeezes" "The kernel interrupts its receive work although more frames wait.";
    Trouble UDP_BUFFERS "udp-buffers" "The kernel drops datagrams because the queue of a socket is full.";
    Trouble LISTENERS "listen-drops"
        "The kernel drops connection requests because a listener's queue is full.";
    Trouble SOCKET "socket" "This socket loses datagrams because its program does not read as fast.";
    Livelock LIVELOCK "livelock" "A kernel that livelocks delivers next to nothing to a flooded socket.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_has_a_name_of_its_own_and_a_whole_sentence() {
        let mut names: Vec<_> = Check::ALL.iter().map(|check| check.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        for Check { name, why, .. } in Check::ALL {
            assert!(why.ends_with('.'), "{name}: {why}");
        }
    }

    #[test]
    fn what_is_good_or_unknown_needs_no_command() {
        let of = |verdict| Check::BTF.finds(verdict, "", "").mended_by("mend").mend;
        assert_eq!([of(Verdict::Good), of(Verdict::Unknown)], [None, None]);
        assert_eq!(of(Verdict::Missing).as_deref(), Some("mend"));
    }
}
