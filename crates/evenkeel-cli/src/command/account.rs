//! Text about the use of a host's core, and about the operating system's counters of its devices.

use evenkeel_apps::counters::{CpuShares, Drop, HostCounters, InterfaceCounters};
use evenkeel_apps::quantity::{count, percent};

/// The least share that the text mentions.
const WORTH_SAYING: f64 = 0.005;

/// Returns the idle share of a host's core as text, for a short line.
pub(super) fn idle_alone(cpu: &CpuShares) -> String {
    format!("{} % idle", percent(cpu.idle))
}

/// Returns the idle share of a host's core as text. Appends the shares spent in system calls and waiting for
/// the core if they are large enough to mention.
pub(super) fn idle(cpu: &CpuShares) -> String {
    let mut text = idle_alone(cpu);
    for (share, what) in [(cpu.system, "in system calls"), (cpu.run_delay, "waiting for its core")] {
        if share >= WORTH_SAYING {
            text.push_str(&format!(", {} % {what}", percent(share)));
        }
    }
    text
}

/// Returns one line for each reason of drops.
pub(super) fn drops(counters: &HostCounters) -> String {
    let line = |drop: &Drop| format!("  dropped {} at {}: {}\n", count(drop.frames), drop.place, drop.reason);
    counters.drops.iter().map(line).collect()
}

/// Returns one line for each device that has sent or lost frames.
pub(super) fn interfaces(counters: &HostCounters) -> String {
    counters.interfaces.iter().filter_map(interface).collect()
}

fn interface(interface: &InterfaceCounters) -> Option<String> {
    let mut parts = Vec::new();
    if interface.send_calls > 0 {
        let (sent, per_call) = (count(interface.sent), interface.frames_per_call);
        parts.push(format!("{sent} frames sent, {per_call:.1} a system call"));
    }
    if interface.refused > 0 {
        parts.push(format!("{} refused", count(interface.refused)));
    }
    if let Some(kept) = interface.kept_from_kernel.filter(|kept| *kept > 0) {
        parts.push(format!("{} kept from the kernel's stack", count(kept)));
    }
    let lost = interface.kernel.iter().flat_map(|kernel| kernel.losses());
    parts.extend(lost.map(|(why, frames)| format!("{} lost in the kernel: {why}", count(frames))));
    (!parts.is_empty()).then(|| format!("  {}: {}\n", interface.name, parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use evenkeel_apps::counters::KernelDrops;

    use super::*;

    #[test]
    fn what_is_nothing_is_not_said() {
        let cpu = CpuShares { idle: 0.25, ..CpuShares::default() };
        assert_eq!(idle(&cpu), "25.0 % idle");
        let cpu = CpuShares { system: 0.5, run_delay: 0.125, ..cpu };
        assert_eq!(idle(&cpu), "25.0 % idle, 50.0 % in system calls, 12.5 % waiting for its core");
        assert_eq!(interface(&InterfaceCounters::default()), None);
        let kernel = KernelDrops { rx_dropped: 7, tx_dropped: 2, ..KernelDrops::default() };
        let eth0 = InterfaceCounters {
            name: "eth0".to_owned(),
            sent: 100,
            send_calls: 8,
            frames_per_call: 12.5,
            refused: 1,
            kernel: Some(kernel),
            kept_from_kernel: Some(9),
        };
        assert_eq!(
            interface(&eth0).unwrap(),
            "  eth0: 100 frames sent, 12.5 a system call; 1 refused; 9 kept from the kernel's stack; 7 \
             lost in the kernel: rx_dropped; 2 lost in the kernel: tx_dropped\n"
        );
    }
}
