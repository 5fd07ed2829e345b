//! The counters of a host for reports: its frames and its CPU time.

use evenkeel::link::{KernelCounts, ThreadTime};
use evenkeel::{CoreUse, DeviceCounters, Engine, Observer};
use evenkeel_core::drop::{LinkDrop, Reason};
use evenkeel_core::host::{Host, Level};
use evenkeel_core::stack::InterfaceId;
use evenkeel_core::time::Duration;
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
}

/// Frames that a network device lost, before they reached us or after they left us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct KernelDrops {
    /// Errors on reception.
    pub rx_errors: u64,
    /// Received frames that were not passed on.
    pub rx_dropped: u64,
    /// Overruns of the device's own queue.
    pub rx_fifo_errors: u64,
    /// Errors in transmission.
    pub tx_errors: u64,
    /// Frames that were to be transmitted and were dropped. For a TAP the kernel transmits to us.
    pub tx_dropped: u64,
}

impl InterfaceCounters {
    fn of(device: &DeviceCounters) -> Self {
        let kernel = device.kernel.map(|counts| {
            let KernelCounts { rx_errors, rx_dropped, rx_fifo_errors, tx_errors, tx_dropped } = counts;
            KernelDrops { rx_errors, rx_dropped, rx_fifo_errors, tx_errors, tx_dropped }
        });
        let DeviceCounters { sent, send_calls, refused, .. } = *device;
        let frames_per_call = ratio(sent, send_calls);
        Self { name: device.name.clone(), sent, send_calls, frames_per_call, refused, kernel }
    }

    /// Adds the counters of another host on this device. The kernel's counters already cover both hosts.
    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.send_calls += other.send_calls;
        self.frames_per_call = ratio(self.sent, self.send_calls);
        self.refused += other.refused;
    }
}

#[expect(clippy::cast_precision_loss, reason = "for reports")]
fn ratio(frames: u64, calls: u64) -> f64 {
    if calls == 0 { 0.0 } else { frames as f64 / calls as f64 }
}

impl KernelDrops {
    /// Returns the non-zero losses, each with the kernel's name of its reason.
    pub fn losses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = [
            ("rx_errors", self.rx_errors),
            ("rx_dropped", self.rx_dropped),
            ("rx_fifo_errors", self.rx_fifo_errors),
            ("tx_errors", self.tx_errors),
            ("tx_dropped", self.tx_dropped),
        ];
        all.into_iter().filter(|&(_, frames)| frames > 0)
    }
}

/// Frames dropped at one place for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drop {
    /// The reason of the drop, by its name.
    pub reason: String,
    /// The place of the drop: an interface's ring, a named queue, a socket.
    pub place: String,
    /// The number of frames dropped.
    pub frames: u64,
}

impl Drop {
    fn new(reason: Reason, place: &str, frames: u64) -> Self {
        Self { reason: reason.name().to_owned(), place: place.to_owned(), frames }
    }

    /// Creates the entry of `frames` that an interface dropped.
    pub(crate) fn on_interface(reason: impl Into<Reason>, frames: u64) -> Self {
        let reason = reason.into();
        Self::new(reason, reason.place_on_interface(), frames)
    }

    /// Returns whether the frames were shed by an interface whose ring was full.
    pub(crate) fn is_at_ring(&self) -> bool {
        self.place == Reason::from(LinkDrop::RingFull).place()
    }
}

/// The shares of a core's time. They add up to one, without `system`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CpuShares {
    /// The share at interrupt level.
    pub interrupt: f64,
    /// The share at software-interrupt level.
    pub soft_interrupt: f64,
    /// The share of the polling thread.
    pub polling_thread: f64,
    /// The share of processes: the service, the unflooded socket's program, and the neighbour.
    pub process: f64,
    /// The share at idle level, or asleep because there was no work.
    pub idle: f64,
    /// The share awake outside of work items: looking for work, falling asleep and waking up.
    #[serde(default)]
    pub halting: f64,
    /// The share in which the thread was runnable, while the machine gave the core to others.
    #[serde(default)]
    pub run_delay: f64,
    /// The share spent in system calls, inside work items or outside of them. It overlaps the other shares.
    #[serde(default)]
    pub system: f64,
}

impl CpuShares {
    /// Returns the shares that add up to 1, in the order of their fields.
    pub(crate) const fn parts(&self) -> [f64; 7] {
        let &Self {
            interrupt,
            soft_interrupt,
            polling_thread,
            process,
            idle,
            halting,
            run_delay,
            // System calls overlap the other shares.
            system: _,
        } = self;
        [interrupt, soft_interrupt, polling_thread, process, idle, halting, run_delay]
    }
}

impl HostCounters {
    /// Returns the counters of a host with one interface, after it has been driven for `elapsed`.
    #[must_use]
    pub fn of(engine: &mut Engine, interface: InterfaceId, elapsed: Duration) -> Self {
        let observer = engine.observer();
        Self::of_all(engine.host_mut(), &observer, &[interface], elapsed)
    }

    /// Returns the counters of a host with several interfaces.
    #[must_use]
    pub fn of_all(
        host: &mut Host,
        observer: &Observer,
        interfaces: &[InterfaceId],
        elapsed: Duration,
    ) -> Self {
        let devices = observer.devices();
        let before = devices.iter().filter(|device| interfaces.contains(&device.interface));
        let missed = interfaces.iter().map(|&interface| missed(host, interface)).sum::<u64>()
            + before.map(|device| device.missed_before).sum::<u64>();
        let ledger = host.ledger();
        let mut drops: Vec<Drop> =
            ledger.drops().flat_map(|(reason, input, output)| drops_of(reason, input, output)).collect();
        if missed > 0 {
            drops.insert(0, Drop::on_interface(LinkDrop::RingFull, missed));
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
            cpu: cpu(Level::ALL.map(|level| host.cpu(level)), observer.core(), elapsed),
            interfaces: devices.iter().map(InterfaceCounters::of).collect(),
            conserved: host.check().is_ok(),
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

/// Frames that found the interface's rings full.
pub(crate) fn missed(host: &mut Host, interface: InterfaceId) -> u64 {
    let Some(interface) = host.interface_mut(interface) else { return 0 };
    (0..interface.properties().queues).map(|queue| interface.queue(queue).missed()).sum()
}

pub(crate) fn drops_of(reason: Reason, input: u64, output: u64) -> impl Iterator<Item = Drop> {
    let input = (input > 0).then(|| Drop::new(reason, reason.place(), input));
    let output = (output > 0).then(|| Drop::new(reason, Reason::OUTPUT_PLACE, output));
    input.into_iter().chain(output)
}

/// Returns the shares of `elapsed` that a core spent at each level. `levels` is the time of the work items
/// at each level, and `used` is the kernel's account of the thread.
///
/// Work items are timed by the clock, which continues while the kernel gives the core to other threads. If
/// the items took longer than the thread ran, their times are scaled down to that.
#[must_use]
pub fn cpu(levels: [Duration; Level::ALL.len()], used: CoreUse, elapsed: Duration) -> CpuShares {
    let share = |time: Duration| time.as_secs_f64() / elapsed.as_secs_f64();
    if elapsed.is_zero() {
        return CpuShares { idle: 1.0, ..CpuShares::default() };
    }
    let ThreadTime { ran, system, run_delay } = used.thread;
    let slept = elapsed.saturating_sub(ran + run_delay).min(used.halted);
    let run_delay = run_delay.min(elapsed - slept);
    let awake = elapsed - slept - run_delay;
    let units: Duration = levels.iter().sum();
    let scale = if units > awake { awake.as_secs_f64() / units.as_secs_f64() } else { 1.0 };
    let level = |level: Level| scale * share(levels[level as usize]);
    CpuShares {
        interrupt: level(Level::Interrupt),
        soft_interrupt: level(Level::SoftInterrupt),
        polling_thread: level(Level::PollingThread),
        process: level(Level::Process),
        idle: level(Level::Idle) + share(slept),
        halting: share(awake.saturating_sub(units)),
        run_delay: share(run_delay),
        system: share(system),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn used(ran: u64, run_delay: u64, halted: u64) -> CoreUse {
        let thread = ThreadTime { ran: millis(ran), system: millis(ran) / 4, run_delay: millis(run_delay) };
        CoreUse { thread, halted: millis(halted) }
    }

    fn sum(cpu: &CpuShares) -> f64 {
        cpu.interrupt
            + cpu.soft_interrupt
            + cpu.polling_thread
            + cpu.process
            + cpu.idle
            + cpu.halting
            + cpu.run_delay
    }

    /// In 100 ms a thread ran for 50, of which 30 were in work items, and slept for 40. For 10 it waited for
    /// its core on the way back from halting.
    #[test]
    fn idle_is_asleep_and_neither_halting_nor_waiting_for_the_core() {
        let levels = [0, 0, 10, 20, 0].map(millis);
        let cpu = cpu(levels, used(50, 10, 70), millis(100));
        let near = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-9, "{cpu:?}");
        near(cpu.polling_thread, 0.1);
        near(cpu.process, 0.2);
        near(cpu.idle, 0.4);
        near(cpu.halting, 0.2);
        near(cpu.run_delay, 0.1);
        near(cpu.system, 0.125);
        near(sum(&cpu), 1.0);
    }

    /// The clock continues while another thread has the core in the middle of a work item.
    #[test]
    fn what_others_took_is_on_nobodys_bill() {
        let levels = [0, 0, 0, 100, 0].map(millis);
        let cpu = cpu(levels, used(60, 40, 0), millis(100));
        assert!((cpu.process - 0.6).abs() < 1e-9 && (cpu.run_delay - 0.4).abs() < 1e-9, "{cpu:?}");
        assert!((sum(&cpu) - 1.0).abs() < 1e-9 && cpu.idle == 0.0, "{cpu:?}");
    }

    #[test]
    fn a_thread_that_is_blocked_elsewhere_is_not_idle() {
        let cpu = cpu([Duration::ZERO; 5], used(10, 0, 20), millis(100));
        assert!((cpu.idle - 0.2).abs() < 1e-9 && (sum(&cpu) - 1.0).abs() < 1e-9, "{cpu:?}");
    }

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
