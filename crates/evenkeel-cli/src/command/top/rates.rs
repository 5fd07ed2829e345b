//! The rates of a host over an interval, made from the difference of two snapshots.

use std::cmp::Reverse;
use std::net::IpAddr;

use evenkeel::metrics::{CpuShares, Device, Dropped, Interface, Listener, Process, Snapshot, Socket};
use evenkeel::raw::time::Duration;
use schemars::JsonSchema;
use serde::Serialize;

use crate::command::stats;

/// The share of its frames that a socket loses at least if it counts as flooded.
const FLOODED: f64 = 0.01;

/// The rates of a host over an interval.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub(crate) struct HostRates {
    /// The length of the interval by the host's clock, in seconds.
    pub(super) seconds: f64,
    /// The account of the frames.
    pub(super) frames: FrameRates,
    /// The dropped frames by place and reason, the highest rate first.
    pub(super) drops: Vec<DropRate>,
    /// The sockets that have a queue of their own: flooded ones first, then by the rate of lost frames.
    pub(super) sockets: Vec<SocketRates>,
    /// The number of TCP connections, without half-open ones and those in TIME-WAIT.
    pub(super) connections: usize,
    /// The queues of TCP listeners.
    pub(super) listeners: Vec<Backlog>,
    /// The processes of the host, the highest bill first.
    pub(super) processes: Vec<Bill>,
    /// The shares of the core's time; `None` if the host has no thread of its own, so that they are not
    /// measured.
    pub(super) cpu: Option<CpuShares>,
    /// The interfaces of the host.
    pub(super) interfaces: Vec<InterfaceRates>,
}

/// The account of a host's frames, in frames a second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub(crate) struct FrameRates {
    /// Frames that came for the host: taken, missed, dropped or forwarded by its interfaces.
    pub(super) offered_pps: f64,
    /// Frames that did what they came for: delivered to a program, or forwarded by host or interface.
    pub(super) served_pps: f64,
    /// Frames taken from the interfaces.
    pub(super) received_pps: f64,
    /// Copies made for further members of a multicast group.
    pub(super) duplicated_pps: f64,
    /// Frames whose payload a program has received.
    pub(super) delivered_pps: f64,
    /// Frames that ended inside the host: ARP, NDP, ICMP, IGMP, MLD.
    pub(super) consumed_pps: f64,
    /// Frames for another host that were forwarded.
    pub(super) forwarded_pps: f64,
    /// Frames dropped by host or interface, on the way in or out.
    pub(super) dropped_pps: f64,
    /// Frames that this host created for sending.
    pub(super) originated_pps: f64,
    /// Frames handed to an interface.
    pub(super) transmitted_pps: f64,
    /// Frames inside the host that are not delivered yet, at the end of the interval.
    pub(super) queued: u64,
    /// Outgoing frames that wait for a neighbour's address or in an output queue, at the end of the interval.
    pub(super) waiting: u64,
}

/// Frames dropped at one place for one reason.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct DropRate {
    /// The place of the drops.
    pub(super) place: String,
    /// The reason of the drops.
    pub(super) reason: String,
    /// Frames dropped, in frames a second.
    pub(super) dropped_pps: f64,
    /// The share of all dropped frames.
    pub(super) share: f64,
}

/// The frames that came for a socket, by what became of them.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct SocketRates {
    /// The kind of the socket with its address, such as `udp *:7`.
    pub(super) name: String,
    /// The kind of the socket.
    pub(super) kind: String,
    /// The local address; `None` for all addresses of the host.
    pub(super) address: Option<IpAddr>,
    /// The local port; 0 for a socket without ports.
    pub(super) port: u16,
    /// The name of the owner; `None` if that has ended.
    pub(super) process: Option<String>,
    /// Whether at least a hundredth of the frames found the socket's queue or channel full.
    pub(super) flooded: bool,
    /// Frames that came for the socket's channels; 0 under an architecture without channels.
    pub(super) arrived_pps: f64,
    /// Datagrams or frames handed to the program.
    pub(super) delivered_pps: f64,
    /// Frames that found the channel full, and were discarded before any protocol work.
    pub(super) discarded_pps: f64,
    /// Datagrams or frames that found the queue full, and were dropped after all protocol work.
    pub(super) dropped_pps: f64,
    /// Datagrams that the program sent.
    pub(super) sent_pps: f64,
    /// Frames and datagrams that wait for the program, at the end of the interval.
    pub(super) waiting: usize,
}

/// The queue of a TCP listener at the end of the interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Backlog {
    /// The address that the listener is on; `None` for all addresses of the host.
    pub(super) address: Option<String>,
    /// The port that the listener is on.
    pub(super) port: u16,
    /// The number of half-open connections.
    pub(super) half_open: usize,
    /// The number of connections that wait to be accepted.
    pub(super) to_accept: usize,
    /// The maximum number of connections that may wait to be accepted.
    pub(super) backlog: usize,
}

/// The core time on the bill of a process of the host.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Bill {
    /// The name of the process.
    pub(super) name: String,
    /// The share of the interval on its bill: its own steps, and the interrupts and discards charged to it.
    pub(super) charged: f64,
    /// The share of the interval in its own steps.
    pub(super) used: f64,
}

/// The frames that an interface received, sent and lost.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct InterfaceRates {
    /// The name of the interface.
    pub(super) name: String,
    /// Frames that the host took from the receive rings.
    pub(super) received_pps: f64,
    /// Frames that found the receive rings full, those of channels included, or no buffer.
    pub(super) missed_pps: f64,
    /// Frames that the interface dropped for another reason, before the host had them.
    pub(super) discarded_pps: f64,
    /// Packets that the interface forwarded by itself, in XDP.
    pub(super) offloaded_pps: f64,
    /// Packets that the interface dropped by itself, as screening rules demand, in XDP.
    pub(super) offload_refused_pps: f64,
    /// Frames that the host handed to the interface.
    pub(super) transmitted_pps: f64,
    /// Frames that found the output queue full.
    pub(super) output_full_pps: f64,
    /// Frames in the receive rings at the end of the interval, as far as they show.
    pub(super) in_rings: u64,
    /// Frames in the output queue at the end of the interval.
    pub(super) queued: u64,
    /// The operating system's part; `None` for a cable.
    pub(super) device: Option<DeviceRates>,
}

/// The frames that the operating system sent and lost for a device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct DeviceRates {
    /// Frames handed to the operating system.
    pub(super) sent_pps: f64,
    /// The number of frames per system call.
    pub(super) frames_per_call: f64,
    /// Frames that the operating system refused.
    pub(super) refused_pps: f64,
    /// The frames lost in the kernel, by its name of the reason.
    pub(super) kernel: Vec<Loss>,
}

/// Frames that the kernel lost for one reason.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Loss {
    /// The kernel's name of the reason.
    pub(super) reason: String,
    /// Frames lost, in frames a second.
    pub(super) lost_pps: f64,
}

impl HostRates {
    /// Returns the rates of what was `added` in an interval; `None` if no time has passed.
    pub(super) fn of(added: &Snapshot) -> Option<Self> {
        let seconds = added.elapsed.as_secs_f64();
        if added.elapsed.is_zero() {
            return None;
        }
        let per_s = |frames: u64| rate(frames, seconds);
        let cpu = &added.cpu;
        let is_measured = !(cpu.ran.is_zero() && cpu.idle.is_zero());
        Some(Self {
            seconds,
            frames: FrameRates::of(added, per_s),
            drops: drops(&added.drops, per_s),
            sockets: sockets(added, per_s),
            connections: added.tcp.connections,
            listeners: added.tcp.listeners.iter().map(Backlog::of).collect(),
            processes: bills(added),
            cpu: is_measured.then(|| cpu.shares(added.elapsed)),
            interfaces: added.interfaces.iter().map(|it| InterfaceRates::of(it, per_s)).collect(),
        })
    }
}

impl FrameRates {
    fn of(added: &Snapshot, per_s: impl Fn(u64) -> f64) -> Self {
        let frames = &added.frames;
        let offloaded: u64 = added.interfaces.iter().map(|interface| interface.offloaded).sum();
        Self {
            offered_pps: per_s(added.interfaces.iter().map(offered).sum()),
            served_pps: per_s(frames.delivered + frames.forwarded + offloaded),
            received_pps: per_s(frames.received),
            duplicated_pps: per_s(frames.duplicated),
            delivered_pps: per_s(frames.delivered),
            consumed_pps: per_s(frames.consumed),
            forwarded_pps: per_s(frames.forwarded),
            dropped_pps: per_s(added.dropped()),
            originated_pps: per_s(frames.originated),
            transmitted_pps: per_s(frames.transmitted),
            queued: frames.queued,
            waiting: frames.waiting,
        }
    }
}

/// Returns the number of frames that came for a host by an interface.
fn offered(interface: &Interface) -> u64 {
    let &Interface { received, missed, discarded, offloaded, offload_refused, .. } = interface;
    received + missed + discarded + offloaded + offload_refused
}

fn drops(drops: &[Dropped], per_s: impl Fn(u64) -> f64) -> Vec<DropRate> {
    let all: u64 = drops.iter().map(|drop| drop.frames).sum();
    let mut drops: Vec<&Dropped> = drops.iter().collect();
    drops.sort_by_key(|drop| Reverse(drop.frames));
    let drop = |drop: &Dropped| DropRate {
        place: drop.place.to_string(),
        reason: drop.reason.to_string(),
        dropped_pps: per_s(drop.frames),
        share: ratio(drop.frames, all),
    };
    drops.into_iter().map(drop).collect()
}

fn sockets(added: &Snapshot, per_s: impl Fn(u64) -> f64) -> Vec<SocketRates> {
    let mut sockets: Vec<&Socket> = added.sockets.iter().collect();
    sockets.sort_by_key(|socket| (!is_flooded(socket), Reverse(lost(socket)), Reverse(socket.received)));
    let owner = |number: u32| added.processes.iter().find(|process| process.number == number);
    let socket = |socket: &Socket| SocketRates {
        name: stats::name(socket),
        kind: socket.kind.to_string(),
        address: socket.address,
        port: socket.port,
        process: socket.process.and_then(owner).map(|process| process.name.clone()),
        flooded: is_flooded(socket),
        arrived_pps: per_s(socket.arrived),
        delivered_pps: per_s(socket.received),
        discarded_pps: per_s(socket.discarded),
        dropped_pps: per_s(socket.dropped),
        sent_pps: per_s(socket.sent),
        waiting: socket.waiting,
    };
    sockets.into_iter().map(socket).collect()
}

/// Returns the number of frames that found the socket's queue or channel full.
fn lost(socket: &Socket) -> u64 {
    socket.discarded + socket.dropped
}

/// Returns whether a socket lost too much of what came. Only channels count what arrives, and a listener
/// hands no frames on.
fn is_flooded(socket: &Socket) -> bool {
    let came = socket.arrived.max(socket.received + lost(socket));
    ratio(lost(socket), came) >= FLOODED
}

fn bills(added: &Snapshot) -> Vec<Bill> {
    let seconds = added.elapsed.as_secs_f64() / own_part(added);
    let share = |time: Duration| time.as_secs_f64() / seconds;
    let mut processes: Vec<&Process> = added.processes.iter().collect();
    processes.sort_by_key(|process| Reverse(process.charged));
    let bill = |process: &Process| Bill {
        name: process.name.clone(),
        charged: share(process.charged),
        used: share(process.used),
    };
    processes.into_iter().map(bill).collect()
}

/// Returns the part of the time of work items in which the host really had its core. Their time is read from
/// the clock, and other programs may have had the core in the middle of an item. That is on no bill.
fn own_part(added: &Snapshot) -> f64 {
    let (times, shares) = (&added.cpu, added.cpu.shares(added.elapsed));
    let clocked = times.interrupt + times.soft_interrupt + times.polling_thread + times.process;
    let own = shares.interrupt + shares.soft_interrupt + shares.polling_thread + shares.process;
    let part = own * added.elapsed.as_secs_f64() / clocked.as_secs_f64();
    if part.is_normal() { part } else { 1.0 }
}

impl Backlog {
    fn of(listener: &Listener) -> Self {
        let Listener { port, ref address, half_open, to_accept, backlog } = *listener;
        Self { address: address.clone(), port, half_open, to_accept, backlog }
    }
}

impl InterfaceRates {
    fn of(interface: &Interface, per_s: impl Fn(u64) -> f64) -> Self {
        Self {
            name: interface.name.clone(),
            received_pps: per_s(interface.received),
            missed_pps: per_s(interface.missed),
            discarded_pps: per_s(interface.discarded),
            offloaded_pps: per_s(interface.offloaded),
            offload_refused_pps: per_s(interface.offload_refused),
            transmitted_pps: per_s(interface.transmitted),
            output_full_pps: per_s(interface.output_full),
            in_rings: interface.in_rings,
            queued: interface.queued,
            device: interface.device.map(|device| DeviceRates::of(&device, per_s)),
        }
    }
}

impl DeviceRates {
    fn of(device: &Device, per_s: impl Fn(u64) -> f64) -> Self {
        let losses = device.kernel.iter().flat_map(|kernel| kernel.losses());
        let loss =
            |(reason, frames): (&str, u64)| Loss { reason: reason.to_owned(), lost_pps: per_s(frames) };
        Self {
            sent_pps: per_s(device.sent),
            frames_per_call: ratio(device.sent, device.send_calls),
            refused_pps: per_s(device.refused),
            kernel: losses.map(loss).collect(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn rate(frames: u64, seconds: f64) -> f64 {
    frames as f64 / seconds
}

/// Returns the quotient of two counts; 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::top::samples::{flooded, socket};

    /// Returns the rates of two seconds in which 200 000 frames came and 90 000 were served.
    fn rates() -> HostRates {
        let (before, now) = (flooded(1, 20_000, 5_000), flooded(3, 220_000, 95_000));
        HostRates::of(&now.since(&before)).unwrap()
    }

    #[test]
    fn counters_become_rates() {
        let rates = rates();
        let frames = &rates.frames;
        assert_eq!((rates.seconds, frames.queued), (2.0, 64));
        assert_eq!([frames.offered_pps, frames.served_pps, frames.received_pps], [1e5, 4.5e4, 5e4]);
        let dropped: f64 = rates.drops.iter().map(|drop| drop.dropped_pps).sum();
        assert_eq!(frames.dropped_pps, dropped);
        let device = rates.interfaces[0].device.as_ref().unwrap();
        assert_eq!((device.sent_pps, device.frames_per_call), (4.5e4, 10.0));
        let lost: Vec<_> = device.kernel.iter().map(|loss| (loss.reason.as_str(), loss.lost_pps)).collect();
        assert_eq!(lost, [("rx_dropped", 12.0)]);
    }

    #[test]
    fn the_largest_drops_and_bills_come_first() {
        let rates = rates();
        let drops: Vec<_> = rates.drops.iter().map(|drop| (drop.reason.as_str(), drop.dropped_pps)).collect();
        assert_eq!(drops, [("ring-full", 5e4), ("channel-full", 4_900.0)]);
        assert!((rates.drops[0].share - 5e4 / 54_900.0).abs() < 1e-9);
        let names: Vec<_> = rates.processes.iter().map(|bill| bill.name.as_str()).collect();
        assert_eq!(names, ["service", "arpd", "icmpd"]);
        assert!((rates.processes[0].charged - 0.9).abs() < 1e-9, "{rates:?}");
    }

    #[test]
    fn flooded_sockets_come_first() {
        let rates = rates();
        let sockets: Vec<_> = rates.sockets.iter().map(|socket| (&socket.name[..], socket.flooded)).collect();
        assert_eq!(sockets, [("udp *:7", true), ("udp *:53", false)]);
        assert_eq!(rates.sockets[0].process.as_deref(), Some("service"));
        assert!(!is_flooded(&socket(1, 7, [1_000, 9, 991])), "less than a hundredth");
        assert!(is_flooded(&socket(1, 7, [0, 10, 990])), "an architecture without channels");
    }

    #[test]
    fn time_that_others_had_the_core_is_on_no_bill() {
        let (before, mut now) = (flooded(1, 20_000, 5_000), flooded(3, 220_000, 95_000));
        now.cpu.ran = before.cpu.ran + Duration::from_secs(1);
        now.cpu.run_delay = Duration::from_secs(1);
        let rates = HostRates::of(&now.since(&before)).unwrap();
        let cpu = rates.cpu.unwrap();
        let paid: f64 = rates.processes.iter().map(|bill| bill.charged).sum();
        assert!(cpu.run_delay > 0.49 && paid < 0.5, "{rates:?}");
        assert!(paid <= cpu.process + cpu.polling_thread, "{rates:?}");
    }

    #[test]
    fn no_time_is_no_interval() {
        let now = flooded(1, 20_000, 5_000);
        assert_eq!(HostRates::of(&now.since(&now)), None);
    }
}
