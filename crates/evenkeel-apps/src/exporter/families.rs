//! The metrics: each family with its name, type, labels and meaning.

use prometheus_client::metrics::MetricType;

/// The begin of all names of metrics.
pub(super) const PREFIX: &str = "evenkeel";

/// A family of metrics: one name, and a value for each set of labels.
#[derive(Debug)]
pub struct Family {
    /// The name, without the prefix and the suffix of its type.
    pub(super) stem: &'static str,
    kind: Kind,
    of: Of,
    own: &'static [&'static str],
    /// The meaning, as a sentence.
    pub help: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

/// The thing that the values of a family are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// The exporter itself.
    Exporter,
    /// A host of a process, or one of its guards.
    Host,
    Guard,
}

impl Family {
    /// Returns the whole name, as Prometheus stores it.
    #[must_use]
    pub fn name(&self) -> String {
        let suffix = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{PREFIX}_{}{suffix}", self.stem)
    }

    /// Returns the type: `counter` or `gauge`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }

    /// Returns the labels that every value has, in their order.
    pub fn labels(&self) -> impl Iterator<Item = &'static str> {
        let common: &[&str] = match self.of {
            Of::Exporter => &[],
            Of::Host => &["pid", "program", "host"],
            Of::Guard => &["pid", "program", "guard"],
        };
        common.iter().chain(self.own).copied()
    }

    pub(super) const fn metric_type(&self) -> MetricType {
        match self.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
        }
    }
}

/// Defines the families, and the list of all in the order of the text.
macro_rules! families {
    ($($name:ident = $stem:literal: $kind:ident of $of:ident by $own:expr, $help:literal;)*) => {
        $(pub(super) static $name: Family = Family {
            stem: $stem, kind: Kind::$kind, of: Of::$of, own: &$own, help: $help,
        };)*

        /// Returns all families, in the order of the text.
        #[must_use]
        pub fn all() -> Vec<&'static Family> {
            vec![$(&$name),*]
        }
    };
}

/// The labels of a socket.
const SOCKET: [&str; 4] = ["socket", "kind", "address", "port"];
/// The labels of a listener of TCP.
const LISTENER: [&str; 2] = ["address", "port"];

families! {
    BUILD = "build_info": Gauge of Exporter by ["version"], "The version of evenkeel that reads the figures.";
    PROCESSES = "processes": Gauge of Exporter by [], "Processes whose figures were read.";
    UNREADABLE = "unreadable_processes": Gauge of Exporter by [],
        "Processes that serve figures, and did not answer in time or not in a known form.";

    HOST_AGE = "host_age_seconds": Gauge of Host by [], "Time since the clock of the host started.";
    RECEIVED = "frames_received": Counter of Host by [], "Frames taken from the interfaces.";
    DUPLICATED = "frames_duplicated": Counter of Host by [],
        "Copies made for further members of a multicast group.";
    DELIVERED = "frames_delivered": Counter of Host by [],
        "Frames whose payload a program has received.";
    CONSUMED = "frames_consumed": Counter of Host by [],
        "Frames that ended inside the host: ARP, NDP, ICMP, IGMP, MLD.";
    FORWARDED = "frames_forwarded": Counter of Host by [],
        "Frames for another host that were forwarded.";
    QUEUED = "frames_queued": Gauge of Host by [],
        "Frames inside the host that are not delivered yet.";
    ORIGINATED = "frames_originated": Counter of Host by [],
        "Frames that the host created for sending.";
    TRANSMITTED = "frames_transmitted": Counter of Host by [], "Frames handed to an interface.";
    WAITING = "frames_waiting": Gauge of Host by [],
        "Outgoing frames that wait for a neighbour's address or in an output queue.";
    DROPS = "drops": Counter of Host by ["reason", "place"],
        "Dropped frames, also those that an interface dropped before the host had them.";

    CPU = "cpu_seconds": Counter of Host by ["level"],
        "Time of work items at each level, by the clock.";
    RAN = "thread_ran_seconds": Counter of Host by [],
        "Time that the thread of the host ran on a processor, by the kernel's account.";
    SYSTEM = "thread_system_seconds": Counter of Host by [],
        "The part of that time in system calls.";
    RUN_DELAY = "thread_run_delay_seconds": Counter of Host by [],
        "Time in which the thread of the host was runnable while others had the processor.";
    HALTED = "thread_halted_seconds": Counter of Host by [], "Time in calls that halt the core.";
    USED = "process_used_seconds": Counter of Host by ["number", "name"],
        "Core time that a process of the host used in its own steps.";
    CHARGED = "process_charged_seconds": Counter of Host by ["number", "name"],
        "Core time on the bill of a process of the host: its own steps, and interrupts and discards for it.";

    SOCKET_WAITING = "socket_queue_frames": Gauge of Host by SOCKET,
        "Frames and datagrams that wait for the program.";
    SOCKET_LIMIT = "socket_queue_limit_frames": Gauge of Host by SOCKET,
        "Frames and datagrams that may wait, in the queue and in channels that were used.";
    SOCKET_ARRIVED = "socket_arrived_frames": Counter of Host by SOCKET,
        "Frames that came for the socket's channels.";
    SOCKET_DISCARDED = "socket_discarded_frames": Counter of Host by SOCKET,
        "Frames discarded because the channel was full, before any protocol work.";
    SOCKET_RECEIVED = "socket_received_datagrams": Counter of Host by SOCKET,
        "Datagrams or frames handed to the program.";
    SOCKET_DROPPED = "socket_dropped_datagrams": Counter of Host by SOCKET,
        "Datagrams or frames dropped because the queue was full, after all protocol work.";
    SOCKET_SENT = "socket_sent_datagrams": Counter of Host by SOCKET,
        "Datagrams that the program sent.";
    SOCKETS_OMITTED = "omitted_sockets": Gauge of Host by [],
        "Sockets that have no metrics, because only those with most losses have.";

    TCP_CONNECTIONS = "tcp_connections": Gauge of Host by [],
        "TCP connections, without half-open ones and those in TIME-WAIT.";
    TCP_TIME_WAIT = "tcp_time_wait_connections": Gauge of Host by [],
        "TCP connections in TIME-WAIT.";
    TCP_EVENTS = "tcp_events": Counter of Host by ["event"],
        "Events of TCP, with their names from RFC 4022 and Linux; those that have happened.";
    HALF_OPEN = "tcp_listener_half_open_connections": Gauge of Host by LISTENER,
        "Half-open connections of a listener.";
    TO_ACCEPT = "tcp_listener_waiting_connections": Gauge of Host by LISTENER,
        "Connections that wait to be accepted.";
    BACKLOG = "tcp_listener_backlog_connections": Gauge of Host by LISTENER,
        "Connections that may wait to be accepted.";

    IF_RECEIVED = "interface_received_frames": Counter of Host by ["interface"],
        "Frames that the host took from the receive rings of an interface.";
    IF_MISSED = "interface_missed_frames": Counter of Host by ["interface"],
        "Frames that found the receive rings full, those of channels included, or no buffer.";
    IF_DISCARDED = "interface_discarded_frames": Counter of Host by ["interface"],
        "Frames that the interface dropped for another reason, before the host had them.";
    IF_IN_RINGS = "interface_ring_frames": Gauge of Host by ["interface"],
        "Frames in the receive rings now, as far as they show without being taken.";
    IF_OFFLOADED = "interface_offloaded_packets": Counter of Host by ["interface"],
        "Packets that the interface forwarded by itself, in XDP.";
    IF_REFUSED = "interface_offload_refused_packets": Counter of Host by ["interface"],
        "Packets that the interface dropped by itself as screening rules demand, in XDP.";
    IF_TRANSMITTED = "interface_transmitted_frames": Counter of Host by ["interface"],
        "Frames that the host handed to an interface.";
    IF_OUTPUT_FULL = "interface_output_full_frames": Counter of Host by ["interface"],
        "Frames that found the output queue full.";
    IF_QUEUED = "interface_output_queue_frames": Gauge of Host by ["interface"],
        "Frames in the output queue now.";
    DEVICE_SENT = "device_sent_frames": Counter of Host by ["interface"],
        "Frames handed to the operating system.";
    DEVICE_CALLS = "device_send_calls": Counter of Host by ["interface"],
        "System calls that sent these frames.";
    DEVICE_REFUSED = "device_refused_frames": Counter of Host by ["interface"],
        "Frames that the operating system refused.";
    DEVICE_KEPT = "device_kept_from_kernel_frames": Counter of Host by ["interface"],
        "Frames for the host that the kernel's stack did not get.";
    DEVICE_KERNEL = "device_kernel_drops": Counter of Host by ["interface", "counter"],
        "Frames that the network device lost, by the kernel's name of the counter.";

    GUARD_AGE = "guard_age_seconds": Gauge of Guard by [], "Time since the guard was attached.";
    GUARD_DRY_RUN = "guard_dry_run": Gauge of Guard by [],
        "Whether packets are only counted, and none is dropped or answered: 1 or 0.";
    GUARD_MUTE = "guard_mute": Gauge of Guard by ["interface"],
        "Whether the kernel answers all SYNs of the interface, because the guard's would not leave: 1 or 0.";
    GUARD_PACKETS = "guard_packets": Counter of Guard by ["protocol", "port", "verdict"],
        "Datagrams and SYNs for guarded ports that passed, were dropped, or were answered by a cookie.";
    GUARD_LIMITED = "guard_limited_packets": Counter of Guard by ["kind", "verdict"],
        "Packets of a kind that the kernel gets only so often, that passed or were dropped.";
    GUARD_LOWERED = "guard_lowered_seconds": Counter of Guard by [],
        "Time during which sockets were flooded, and the interface's threads had less weight.";
    GUARD_OMITTED = "guard_omitted_ports": Gauge of Guard by [],
        "Ports that have no metrics, because only those with most losses have.";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The list of Prometheus' conventions is at <https://prometheus.io/docs/practices/naming/>.
    #[test]
    fn names_follow_the_conventions_and_are_there_once() {
        let names: BTreeSet<String> = all().iter().map(|family| family.name()).collect();
        assert_eq!(names.len(), all().len());
        for family in all() {
            let name = family.name();
            let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            assert!(is_plain(&name) && family.labels().all(is_plain), "{name}");
            assert_eq!(name.ends_with("_total"), family.kind() == "counter", "{name}");
            assert!(family.help.ends_with('.') && family.help.len() > 20, "{name}");
            let labels: BTreeSet<_> = family.labels().collect();
            assert_eq!(labels.len(), family.labels().count(), "{name}");
        }
    }
}
