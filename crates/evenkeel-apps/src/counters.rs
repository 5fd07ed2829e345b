//! The counters of a host in the reports of commands: a view of its [`Snapshot`], with names that are
//! published.

pub use evenkeel::metrics::{CpuShares, Dropped as Drop, KernelDrops};
use evenkeel::metrics::{Device, Frames, Interface, Snapshot};
use evenkeel::raw::time::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The account of every frame of a host, and of its core's time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HostCounters {
    /// Frames taken from the interface.
    pub received: u64,
    /// Copies made for further members of a multicast group.
    pub duplicated: u64,
    /// Frames whose payload a program has received.
    pub delivered: u64,
    /// Frames that ended inside the host: ARP, NDP, ICMP, IGMP, MLD.
    pub consumed: u64,
    /// Frames for another host that were forwarded.
    #[serde(default)]
    pub forwarded: u64,
    /// Frames inside the host that are not delivered yet.
    pub queued: u64,
    /// Frames that this host created for sending.
    pub originated: u64,
    /// Frames handed to the interface.
    pub transmitted: u64,
    /// The dropped frames, by place and reason.
    pub drops: Vec<Drop>,
    /// The shares of the core's time.
    pub cpu: CpuShares,
    /// The operating system's counters of the host's devices.
    #[serde(default)]
    pub interfaces: Vec<InterfaceCounters>,
    /// Whether every frame is accounted for.
    pub conserved: bool,
}

/// The operating system's counters of a device.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceCounters {
    /// The name of the device.
    pub name: String,
    /// Frames handed to the operating system.
    pub sent: u64,
    /// The number of system calls that sent these frames.
    pub send_calls: u64,
    /// The number of frames per system call.
    pub frames_per_call: f64,
    /// Frames that the operating system refused.
    pub refused: u64,
    /// The frames lost in the kernel since the device was opened; `None` if it is no network device.
    pub kernel: Option<KernelDrops>,
    /// Frames for the host that the kernel's stack did not get, though the host has the device's own hardware
    /// address; `None` if nothing keeps the kernel off them.
    #[serde(default)]
    pub kept_from_kernel: Option<u64>,
}

impl InterfaceCounters {
    /// Returns the counters of the device of an interface; `None` for a cable.
    fn of(interface: &Interface) -> Option<Self> {
        let Device { sent, send_calls, refused, kernel, kept_from_kernel } = interface.device?;
        let (name, frames_per_call) = (interface.name.clone(), ratio(sent, send_calls));
        Some(Self { name, sent, send_calls, frames_per_call, refused, kernel, kept_from_kernel })
    }

    /// Adds the counters of another host on this device. The kernel's counters already cover both hosts.
    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.send_calls += other.send_calls;
        self.frames_per_call = ratio(self.sent, self.send_calls);
        self.refused += other.refused;
        // Only the first host of a device has the program.
        self.kept_from_kernel = self.kept_from_kernel.or(other.kept_from_kernel);
    }
}

#[expect(clippy::cast_precision_loss, reason = "for reports")]
fn ratio(frames: u64, calls: u64) -> f64 {
    if calls == 0 { 0.0 } else { frames as f64 / calls as f64 }
}

impl HostCounters {
    /// Returns the counters of a host in `snapshot`, after it has been driven for `elapsed`.
    #[must_use]
    pub fn of(snapshot: &Snapshot, elapsed: Duration) -> Self {
        let Frames { received, duplicated, delivered, consumed, forwarded, queued, .. } = snapshot.frames;
        let Frames { originated, transmitted, .. } = snapshot.frames;
        Self {
            received,
            duplicated,
            delivered,
            consumed,
            forwarded,
            queued,
            originated,
            transmitted,
            drops: snapshot.drops.clone(),
            cpu: snapshot.cpu.shares(elapsed),
            interfaces: snapshot.interfaces.iter().filter_map(InterfaceCounters::of).collect(),
            conserved: snapshot.check().is_ok(),
        }
    }

    /// Adds the counters of several hosts, which ran at the same time, each on its own core. Shares of CPU
    /// time are averages over the cores.
    #[must_use]
    pub fn together<'a>(each: impl ExactSizeIterator<Item = &'a Self>) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "there are few cores")]
        let part = 1.0 / each.len().max(1) as f64;
        let mut sum = Self { conserved: true, ..Self::default() };
        for counters in each {
            sum.add(counters, part);
        }
        sum
    }

    fn add(&mut self, other: &Self, part: f64) {
        self.received += other.received;
        self.duplicated += other.duplicated;
        self.delivered += other.delivered;
        self.consumed += other.consumed;
        self.forwarded += other.forwarded;
        self.queued += other.queued;
        self.originated += other.originated;
        self.transmitted += other.transmitted;
        self.conserved &= other.conserved;
        for drop in &other.drops {
            match self.drops.iter_mut().find(|own| (&own.reason, &own.place) == (&drop.reason, &drop.place)) {
                Some(own) => own.frames += drop.frames,
                None => self.drops.push(drop.clone()),
            }
        }
        self.cpu.interrupt += part * other.cpu.interrupt;
        self.cpu.soft_interrupt += part * other.cpu.soft_interrupt;
        self.cpu.polling_thread += part * other.cpu.polling_thread;
        self.cpu.process += part * other.cpu.process;
        self.cpu.idle += part * other.cpu.idle;
        self.cpu.halting += part * other.cpu.halting;
        self.cpu.run_delay += part * other.cpu.run_delay;
        self.cpu.system += part * other.cpu.system;
        for interface in &other.interfaces {
            match self.interfaces.iter_mut().find(|own| own.name == interface.name) {
                Some(own) => own.add(interface),
                None => self.interfaces.push(interface.clone()),
            }
        }
    }

    /// Returns the number of dropped frames, for any reason.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|d| d.frames).sum()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel::raw::drops::Reason;

    /// `docs/reference/drop-reasons.md` explains each reason to users, in the words of the code.
    #[test]
    fn every_drop_reason_is_documented() {
        let documented = include_str!("../../../docs/reference/drop-reasons.md");
        for reason in Reason::all() {
            let row = format!("| `{}` | {} |", reason.name(), reason.meaning());
            assert!(documented.contains(&row), "docs/reference/drop-reasons.md lacks: {row}");
        }
    }
}
