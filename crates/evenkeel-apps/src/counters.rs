//! What a host did, for those who ask afterwards: frames and CPU time.

use evenkeel_core::drop::{LinkDrop, QueueDrop, Reason};
use evenkeel_core::host::{Host, Level};
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::time::Duration;
use serde::{Deserialize, Serialize};

/// The place of frames that an interface sheds.
pub(crate) const RING: &str = "interface ring";

/// Where every frame went, and how the core spent its time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HostCounters {
    /// Frames taken from the interface.
    pub received: u64,
    /// Copies made for further members of a multicast group.
    pub duplicated: u64,
    /// Frames whose payload a program has received.
    pub delivered: u64,
    /// Frames that ended inside the host: ARP, NDP, ICMP, IGMP, MLD.
    pub consumed: u64,
    /// Frames for somebody else that were sent on their way.
    #[serde(default)]
    pub forwarded: u64,
    /// Frames still on their way up.
    pub queued: u64,
    /// Frames this host made to be sent.
    pub originated: u64,
    /// Frames handed to the interface.
    pub transmitted: u64,
    /// Where frames were dropped, and why.
    pub drops: Vec<Drop>,
    /// How the core spent its time.
    pub cpu: CpuShares,
    /// Whether every frame is accounted for.
    pub conserved: bool,
}

/// Frames dropped at one place for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drop {
    /// Name of an [`evenkeel_core::drop::Reason`].
    pub reason: String,
    /// Where: an interface's ring, a named queue, a socket.
    pub place: String,
    /// How many.
    pub frames: u64,
}

/// How a core spent its time; the shares add up to one.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CpuShares {
    /// At interrupt level.
    pub interrupt: f64,
    /// At software-interrupt level.
    pub soft_interrupt: f64,
    /// In the polling thread.
    pub polling_thread: f64,
    /// In processes: the service, the unflooded socket's program, and the neighbour.
    pub process: f64,
    /// At idle level, or halted.
    pub idle: f64,
}

impl HostCounters {
    /// The counters of a host with one interface, after it has been driven for `elapsed`.
    #[must_use]
    pub fn of(host: &mut Host, interface: InterfaceId, elapsed: Duration) -> Self {
        Self::of_all(host, &[interface], elapsed)
    }

    /// The counters of a host with several interfaces.
    #[must_use]
    pub fn of_all(host: &mut Host, interfaces: &[InterfaceId], elapsed: Duration) -> Self {
        let missed = interfaces.iter().map(|&interface| missed(host, interface)).sum();
        let ledger = host.ledger();
        let mut drops: Vec<Drop> =
            ledger.drops().flat_map(|(reason, input, output)| drops_of(reason, input, output)).collect();
        if missed > 0 {
            drops.insert(0, drop(LinkDrop::RingFull.into(), RING, missed));
        }
        Self {
            received: ledger.received,
            duplicated: ledger.duplicated,
            delivered: ledger.delivered,
            consumed: ledger.consumed,
            forwarded: ledger.forwarded,
            queued: host.queued(),
            originated: ledger.originated,
            transmitted: ledger.transmitted,
            drops,
            cpu: cpu(host, elapsed),
            conserved: host.check().is_ok(),
        }
    }

    /// The counters of several hosts, which ran at the same time each on a core of its own. Shares of CPU
    /// time are those of all cores.
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
    }

    /// Frames dropped, for whatever reason.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|d| d.frames).sum()
    }
}

/// Frames that found the interface's rings full.
pub(crate) fn missed(host: &mut Host, interface: InterfaceId) -> u64 {
    let Some(interface) = host.interface_mut(interface) else { return 0 };
    (0..interface.queues()).map(|queue| interface.queue(queue).missed()).sum()
}

pub(crate) fn drops_of(reason: Reason, input: u64, output: u64) -> impl Iterator<Item = Drop> {
    let input = (input > 0).then(|| drop(reason, place(reason), input));
    let output = (output > 0).then(|| drop(reason, "output", output));
    input.into_iter().chain(output)
}

/// `frames` dropped at `place`.
pub(crate) fn drop(reason: Reason, place: &str, frames: u64) -> Drop {
    Drop { reason: reason.name().to_owned(), place: place.to_owned(), frames }
}

/// Where received frames are dropped for a reason.
#[must_use]
pub fn place(reason: Reason) -> &'static str {
    match reason {
        Reason::Link(LinkDrop::RingFull) => RING,
        Reason::Link(_) => "link input",
        Reason::Queue(QueueDrop::IpQueue) => "shared IP queue",
        Reason::Queue(QueueDrop::Channel) => "channel",
        Reason::Queue(QueueDrop::Socket) => "socket queue",
        Reason::Queue(QueueDrop::Closed) => "closed socket",
        Reason::Queue(QueueDrop::Screen | QueueDrop::Unscreened) => "screening queue",
        Reason::Queue(QueueDrop::Capture) => "capture queue",
        Reason::Queue(QueueDrop::Output) => "output queue",
        Reason::Ip(_) => "IP input",
        Reason::Udp(_) => "UDP input",
        Reason::Tcp(_) => "TCP input",
    }
}

/// How a host's core spent `elapsed`; what no level used, it was halted.
#[must_use]
pub fn cpu(host: &Host, elapsed: Duration) -> CpuShares {
    let used = Level::ALL.map(|level| host.cpu(level));
    let whole = elapsed.max(used.iter().sum()).as_secs_f64();
    if whole == 0.0 {
        return CpuShares { idle: 1.0, ..CpuShares::default() };
    }
    let share = |level| host.cpu(level).as_secs_f64() / whole;
    let cpu = CpuShares {
        interrupt: share(Level::Interrupt),
        soft_interrupt: share(Level::SoftInterrupt),
        polling_thread: share(Level::PollingThread),
        process: share(Level::Process),
        idle: 0.0,
    };
    CpuShares {
        idle: (1.0 - cpu.interrupt - cpu.soft_interrupt - cpu.polling_thread - cpu.process).max(0.0),
        ..cpu
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `docs/results.md` tells users what each reason means; it must tell what the code says.
    #[test]
    fn every_drop_reason_is_documented() {
        let documented = include_str!("../../../docs/results.md");
        for reason in Reason::all() {
            let row = format!("| `{}` | {} |", reason.name(), reason.meaning());
            assert!(documented.contains(&row), "docs/results.md lacks: {row}");
        }
    }
}
