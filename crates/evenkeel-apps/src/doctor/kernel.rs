//! Checks of the kernel, the privileges of the process and its limits.

use evenkeel::raw::capture::{Expression, FilterError, Frames};
use evenkeel::raw::device::{LinkError, try_xdp_socket};
use evenkeel::raw::kernel::{Guard, GuardOptions};

use super::files::{Files, Unread};
use super::finding::{Check, Finding, Verdict};
use super::parse;
use crate::quantity::{count, si};

const RELEASE: &str = "/proc/sys/kernel/osrelease";
const STATUS: &str = "/proc/self/status";
const LIMITS: &str = "/proc/self/limits";
const TUN: &str = "/dev/net/tun";
const CLOCKS: &str = "/sys/devices/system/clocksource/clocksource0";

/// Bits of capabilities (linux/capability.h).
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_NICE: u32 = 23;
const CAP_BPF: u32 = 39;

/// Gives the program all capabilities that evenkeel uses.
const GIVE: &str = "setcap CAP_BPF,CAP_NET_ADMIN,CAP_NET_RAW,CAP_PERFMON,CAP_SYS_NICE,CAP_IPC_LOCK+ep \
                    $(command -v evenkeel)";

/// Checks what evenkeel can do on this kernel.
pub(super) fn findings(files: &Files) -> Vec<Finding> {
    let mut found = vec![kernel(files), btf(files), af_xdp(), jit(files), guard(), tcx(files)];
    found.extend(capabilities(files));
    found.extend([tun(files), libpcap(), nofile(files), memlock(files), buffers(files), backlog(files)]);
    found.extend([syncookies(files), clock(files), cores(files)]);
    found
}

fn kernel(files: &Files) -> Finding {
    let seen = files.text(RELEASE).and_then(|text| Ok((parse::release(&text).ok_or(Unread::Unclear)?, text)));
    let (version, text) = match seen {
        Ok(seen) => seen,
        Err(why) => return Check::KERNEL.unseen(why, RELEASE),
    };
    let verdict = match version {
        (5, 9..) | (6, 0) => Verdict::CouldBeBetter,
        (..=5, _) => Verdict::Missing,
        _ => Verdict::Good,
    };
    Check::KERNEL.finds(verdict, format!("Linux {text}"), RELEASE)
}

fn btf(files: &Files) -> Finding {
    const FILE: &str = "/sys/kernel/btf/vmlinux";
    match files.size(FILE) {
        Ok(bytes) => Check::BTF.finds(Verdict::Good, format!("{}B", si(bytes as f64)), FILE),
        Err(Unread::Absent) if files.names("/sys/kernel").is_ok() => Check::BTF.finds(
            Verdict::Missing,
            "none: this kernel was built without CONFIG_DEBUG_INFO_BTF",
            FILE,
        ),
        Err(why) => Check::BTF.unseen(why, FILE),
    }
}

fn af_xdp() -> Finding {
    const CALL: &str = "socket(AF_XDP)";
    match try_xdp_socket().map_err(|error| error.kind()) {
        Ok(()) => Check::AF_XDP.finds(Verdict::Good, "can be opened", CALL),
        Err(std::io::ErrorKind::PermissionDenied) => {
            let seen = "the kernel has it, and this process may not open it";
            Check::AF_XDP.finds(Verdict::Missing, seen, CALL).mended_by(GIVE)
        }
        Err(_) => {
            let seen = "none: this kernel was built without CONFIG_XDP_SOCKETS";
            Check::AF_XDP.finds(Verdict::Missing, seen, CALL)
        }
    }
}

fn jit(files: &Files) -> Finding {
    const FILE: &str = "/proc/sys/net/core/bpf_jit_enable";
    match files.number::<u32>(FILE) {
        Ok(0) => Check::JIT.finds(Verdict::CouldBeBetter, "off", FILE),
        Ok(_) => Check::JIT.finds(Verdict::Good, "on", FILE),
        Err(why) => Check::JIT.unseen(why, FILE),
    }
    .mended_by("sysctl -w net.core.bpf_jit_enable=1")
}

/// Loads the guard, which is attached to nothing and gone again.
fn guard() -> Finding {
    const CALL: &str = "loading its program";
    match Guard::attach(&[], &GuardOptions::default()) {
        Ok(_) => Check::GUARD.finds(Verdict::Good, "the kernel takes its program", CALL),
        Err(LinkError::Privilege { capability, .. }) => {
            Check::GUARD.unseen(format!("this process may not load it: it needs {capability}"), CALL)
        }
        Err(error) => Check::GUARD.finds(Verdict::Missing, error.to_string(), CALL),
    }
}

fn tcx(files: &Files) -> Finding {
    match files.parsed(RELEASE, parse::release) {
        Ok(version) if version >= (6, 6) => Check::TCX.finds(Verdict::Good, "Linux 6.6 or later", RELEASE),
        Ok(_) => {
            Check::TCX.finds(Verdict::CouldBeBetter, "before Linux 6.6: a filter serves instead", RELEASE)
        }
        Err(why) => Check::TCX.unseen(why, RELEASE),
    }
}

fn capabilities(files: &Files) -> Vec<Finding> {
    let checks = [
        (Check::NET_ADMIN, "CAP_NET_ADMIN", CAP_NET_ADMIN, Verdict::Missing),
        (Check::NET_RAW, "CAP_NET_RAW", CAP_NET_RAW, Verdict::Missing),
        (Check::CAP_BPF, "CAP_BPF", CAP_BPF, Verdict::Missing),
        (Check::NICE, "CAP_SYS_NICE", CAP_SYS_NICE, Verdict::CouldBeBetter),
    ];
    let own = files.parsed(STATUS, parse::capabilities);
    let of = |(check, name, bit, or): (Check, &str, u32, Verdict)| match &own {
        Ok(own) if has(*own, bit) => check.finds(Verdict::Good, format!("this process has {name}"), STATUS),
        Ok(_) => check.finds(or, format!("this process has no {name}"), STATUS).mended_by(GIVE),
        Err(why) => check.unseen(why, STATUS),
    };
    checks.into_iter().map(of).collect()
}

/// Returns whether a set has a capability. CAP_SYS_ADMIN contains CAP_BPF.
fn has(own: u64, bit: u32) -> bool {
    own >> bit & 1 == 1 || bit == CAP_BPF && has(own, CAP_SYS_ADMIN)
}

fn tun(files: &Files) -> Finding {
    let check = Check::TUN;
    match files.try_open(TUN) {
        Ok(()) => check.finds(Verdict::Good, "can be opened", TUN),
        Err(Unread::Forbidden) => {
            let seen = "this user may not open it";
            check.finds(Verdict::Missing, seen, TUN).mended_by(format!("chmod a+rw {TUN}"))
        }
        Err(_) => check.finds(Verdict::Missing, "there is none", TUN).mended_by("modprobe tun"),
    }
}

fn libpcap() -> Finding {
    const CALL: &str = "opening libpcap.so";
    let compiled = Frames::on_device("lo").map(|frames| Expression::new("udp").compile(&frames));
    match compiled {
        Ok(Ok(_)) => Check::LIBPCAP.finds(Verdict::Good, "filters can be compiled", CALL),
        Ok(Err(FilterError::NoLibrary)) => {
            let install = "apt install libpcap0.8 || dnf install libpcap || apk add libpcap";
            Check::LIBPCAP.finds(Verdict::Missing, "it is not installed", CALL).mended_by(install)
        }
        Ok(Err(error)) => Check::LIBPCAP.finds(Verdict::Missing, error.to_string(), CALL),
        Err(error) => Check::LIBPCAP.unseen(error, CALL),
    }
}

fn nofile(files: &Files) -> Finding {
    const ENOUGH: u64 = 4096;
    match files.parsed(LIMITS, |text| parse::limit(text, "Max open files")) {
        Ok(limit) => {
            let verdict = Verdict::good_if(limit >= ENOUGH, Verdict::CouldBeBetter);
            Check::NOFILE.finds(verdict, format!("{} descriptors", or_unlimited(limit)), LIMITS)
        }
        Err(why) => Check::NOFILE.unseen(why, LIMITS),
    }
    .mended_by("ulimit -n 65536")
}

fn memlock(files: &Files) -> Finding {
    const ENOUGH_BYTES: u64 = 64 << 20;
    let locks = files.parsed(STATUS, parse::capabilities).is_ok_and(|own| has(own, CAP_IPC_LOCK));
    match files.parsed(LIMITS, |text| parse::limit(text, "Max locked memory")) {
        Ok(_) if locks => Check::MEMLOCK.finds(Verdict::Good, "no limit with CAP_IPC_LOCK", STATUS),
        Ok(limit) => {
            let verdict = Verdict::good_if(limit >= ENOUGH_BYTES, Verdict::CouldBeBetter);
            Check::MEMLOCK.finds(verdict, format!("{} bytes", or_unlimited(limit)), LIMITS)
        }
        Err(why) => Check::MEMLOCK.unseen(why, LIMITS),
    }
    .mended_by("ulimit -l unlimited")
}

fn or_unlimited(limit: u64) -> String {
    if limit == u64::MAX { "unlimited".to_owned() } else { count(limit) }
}

fn buffers(files: &Files) -> Finding {
    const MAX: &str = "/proc/sys/net/core/rmem_max";
    const ENOUGH_BYTES: u64 = 4 << 20;
    match files.number::<u64>(MAX) {
        Ok(max) => {
            let default = files.number("/proc/sys/net/core/rmem_default").map_or_else(
                |_| String::new(),
                |default| format!(", and has {} unless it asks", count(default)),
            );
            let seen = format!("a socket may have {} bytes{default}", count(max));
            Check::BUFFERS.finds(Verdict::good_if(max >= ENOUGH_BYTES, Verdict::CouldBeBetter), seen, MAX)
        }
        Err(why) => Check::BUFFERS.unseen(why, MAX),
    }
    .mended_by("sysctl -w net.core.rmem_max=4194304")
}

fn backlog(files: &Files) -> Finding {
    const FILE: &str = "/proc/sys/net/core/netdev_max_backlog";
    const USUAL: u64 = 1000;
    match files.number::<u64>(FILE) {
        Ok(frames) => {
            let budget = files.number("/proc/sys/net/core/netdev_budget");
            let budget =
                budget.map_or_else(|_| String::new(), |n| format!("; budget of a poll: {}", count(n)));
            let verdict = Verdict::good_if(frames >= USUAL, Verdict::CouldBeBetter);
            Check::BACKLOG.finds(verdict, format!("{} frames for each core{budget}", count(frames)), FILE)
        }
        Err(why) => Check::BACKLOG.unseen(why, FILE),
    }
    .mended_by(format!("sysctl -w net.core.netdev_max_backlog={USUAL}"))
}

fn syncookies(files: &Files) -> Finding {
    const FILE: &str = "/proc/sys/net/ipv4/tcp_syncookies";
    match files.number::<u32>(FILE) {
        Ok(0) => Check::SYNCOOKIES.finds(Verdict::CouldBeBetter, "off", FILE),
        Ok(1) => Check::SYNCOOKIES.finds(Verdict::Good, "sent when a listener's queue is full", FILE),
        Ok(_) => Check::SYNCOOKIES.finds(Verdict::Good, "always sent", FILE),
        Err(why) => Check::SYNCOOKIES.unseen(why, FILE),
    }
    .mended_by("sysctl -w net.ipv4.tcp_syncookies=1")
}

fn clock(files: &Files) -> Finding {
    let current = format!("{CLOCKS}/current_clocksource");
    let source = match files.text(&current) {
        Ok(source) => source,
        Err(why) => return Check::CLOCK.unseen(why, current),
    };
    // Other processors than those of x86 have fast ones of other names.
    let is_fast = source == "tsc" || !cfg!(target_arch = "x86_64");
    let found = Check::CLOCK.finds(Verdict::good_if(is_fast, Verdict::CouldBeBetter), source, &current);
    let available = files.text(&format!("{CLOCKS}/available_clocksource")).unwrap_or_default();
    match available.split_whitespace().any(|name| name == "tsc") {
        true => found.mended_by(format!("echo tsc > {current}")),
        false => found,
    }
}

fn cores(files: &Files) -> Finding {
    const FILE: &str = "/sys/devices/system/cpu/online";
    match files.text(FILE).map(|text| parse::cpu_list(&text).len()) {
        Ok(cores) => {
            let verdict = Verdict::good_if(cores > 1, Verdict::CouldBeBetter);
            Check::CORES.finds(verdict, format!("{cores} on line"), FILE)
        }
        Err(why) => Check::CORES.unseen(why, FILE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rights_of_an_administrator_contain_those_of_bpf() {
        assert!(has(1 << CAP_SYS_ADMIN, CAP_BPF) && has(1 << CAP_BPF, CAP_BPF));
        assert!(!has(1 << CAP_SYS_ADMIN, CAP_NET_RAW) && !has(0, CAP_BPF));
    }
}
