//! Hosts and what they consist of, for programs that sockets are too little for.
//!
//! A router, a packet monitor or an emulator needs more than [`net`](crate::net): frames, devices, programs
//! that the host schedules, and the choice of the receive architecture. This module has these parts, without
//! the ones that only a driver of hosts needs. An [`Engine`](crate::Engine) or a [`Group`](crate::Group) runs
//! the hosts.
//!
//! | looking for | see |
//! | --- | --- |
//! | a host and its settings; architectures and their policies | [`host`]; [`receive`] |
//! | programs that a host schedules, and their calls | [`process`], [`socket`], [`error`] |
//! | addresses and routes; deciding on packets in transit | [`ip`]; [`screen`] |
//! | TAP devices, packet sockets, drivers of your own; a link in memory | [`device`]; [`cable`] |
//! | frames, and views of their headers | [`frame`], [`wire`] |
//! | settings and counters of TCP | [`tcp`] |
//! | recording frames, pcapng, filters | [`capture`] |
//! | where every frame went, and why it was dropped | [`drops`] |
//! | the clock; cores and their threads; sleeping; signals | [`time`]; [`cpu`]; [`wait`]; [`signal`] |
//! | following the kernel's routes; its sockets and its files | [`kernel`] |
//! | becoming another user | [`privilege`] |
//!
//! ```
//! use evenkeel::raw::host::{Config, Host};
//! use evenkeel::raw::receive::Architecture;
//!
//! let host = Host::new(Config::of(Architecture::NiLrp))?;
//! assert_eq!(host.interfaces().count(), 0);
//! # Ok::<(), evenkeel::raw::frame::PoolLimit>(())
//! ```

/// A host, its settings and scheduler, and what its work consists of.
pub mod host {
    pub use evenkeel_core::Scheduling;
    pub use evenkeel_core::host::{
        AddInterfaceError, Config, Host, Level, NotAttached, PaperPolicies, Traffic, Transmit,
        TransmitService, Untaken,
    };
    pub use evenkeel_core::work::{Work, WorkLog};
    pub use evenkeel_link::random_bits;
}

/// Programs that a host schedules, and threads that make calls as processes of a host.
pub mod process {
    pub use evenkeel_core::host::System;
    pub use evenkeel_core::process::{Bill, ProcessId, Program, Step};
}

/// Receive architectures, and the policies of polling and feedback.
pub mod receive {
    pub use evenkeel_core::poll::{
        CycleLimit, Feedback, FeedbackBy, FeedbackScope, Inhibition, NetworkPolling, PollInterval, Quota,
        Resumes, TaskWeights, TickSampling,
    };
    pub use evenkeel_core::receive::{
        AfterDevice, Architecture, DeviceWork, ReceivePath, UnknownArchitecture,
    };
}

/// The sockets, event queues and timers of a process: small handles, whose calls take a
/// [`System`](process::System).
pub mod socket {
    pub use evenkeel_core::channel::ChannelCounters;
    pub use evenkeel_core::socket::{
        Allocation, ConnectOptions, Datagrams, Event, Fd, FdSet, FdSets, Interest, Kinds, PollEntry, Select,
        SocketCounters, SocketId, SocketReport, Trigger,
    };
    pub use evenkeel_core::stack::Datagram;
    pub use evenkeel_core::system::{EventQueue, TcpListener, TcpStream, Timer, UdpSocket, UserEvent};
}

/// Errors of the calls of a process.
pub mod error {
    pub use evenkeel_core::error::{
        BadDescriptor, BindError, ConnectError, DupError, ListenError, ReceiveError, RegisterError,
        SendError, StreamError, TooManyOpen,
    };
}

/// Interfaces of a host as IP sees them: addresses, neighbours and routes.
pub mod ip {
    pub use evenkeel_core::stack::{
        AddressConflict, Config, InterfaceId, Multipath, Neighbor, NeighborError, NeighborState, NextHop,
        Origin, Route, RouteError, Via,
    };
}

/// Packets in transit, and the process that decides on them.
pub mod screen {
    pub use evenkeel_core::offload::{ACCOUNTS, Depth, Flow, FlowHits, FlowScope};
    pub use evenkeel_core::screen::Verdict;
    pub use evenkeel_core::stack::{Screened, Transit};
    pub use evenkeel_core::system::Screen;
}

/// Addresses, and views of packets: the formats of smoltcp.
pub mod wire {
    pub use evenkeel_core::wire::{
        ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr,
        IpAddress, IpCidr, IpEndpoint, IpProtocol, Ipv4Address, Ipv4Cidr, Ipv4Packet, Ipv4Repr, Ipv6Address,
        Ipv6Cidr, Ipv6Packet, Ipv6Repr, UdpPacket, UdpRepr,
    };
}

/// The clock of the machine, points in time, and the timers of a program.
pub mod time {
    pub use evenkeel_core::time::{Duration, Instant, nanos};
    pub use evenkeel_link::{Alarm, Clock, SignalTimer, TimerFd, Utc, monotonic_nanos};
    pub use evenkeel_timers::{Timer, Timers};
}

pub use evenkeel_core::tcp;

/// Frames, and the pools that their buffers belong to.
pub mod frame {
    pub use evenkeel_core::frame::{BUFFER_BYTES, Frame, LinkType, Metadata, Pool, PoolLimit};
}

/// A link in memory between two hosts, which needs no privilege.
pub mod cable {
    pub use evenkeel_core::cable::{Bundle, Completion, End, Options, WireCounters, bundle, pair};
}

/// Links by their names, TAP devices and packet sockets, and the traits of a driver.
pub mod device {
    pub use evenkeel_core::demux::steering_hash;
    pub use evenkeel_core::interface::{
        Arrived, Burst, Demultiplexer, Effort, Flows, Frames, Interface, Opened, Properties, RxCounters,
        RxQueue, Seen, TxQueue,
    };
    pub use evenkeel_link::{
        Address, Descriptors, Device, DeviceChange, DeviceChanges, DeviceFacts, DeviceInfo, DeviceSpec,
        DeviceState, FRAME_BYTES, Flood, FloodProgress, KernelWork, LISTEN_BYTES, LinkError, LinkSpec,
        Listen, Listener, NetSpec, OpenOptions, Packet, PacketOptions, Refusal, SpecError, Stamp,
        StampedFrame, Status, Tap, TapOptions, Xdp, XdpOptions, XdpProgram, XdpSpec, buffer_bytes_for,
        device_now, devices_to_listen_to, hardware_address, listen, open, open_queues, open_with,
        parse_queues, refuse_kernel_forwarding, try_xdp_socket,
    };
}

/// Following the routes of the kernel; its sockets, its network namespaces and its files.
pub mod kernel {
    pub use crate::kernel::{FollowError, FollowedTables, KernelReport, addresses_on, sharing};
    pub use evenkeel_link::{
        Accepted, Beneath, Connections, Guard, GuardAccount, GuardOptions, Happened, Judged, NapiThreads,
        Transport, WaitBy, allow_descriptors, enter_new_network, have_own_descriptors, send_in_segments,
        set_congestion_control,
    };
}

/// Frames that are recorded: captures of a host, files in pcapng, and filters.
pub mod capture {
    pub use evenkeel_core::bpf;
    pub use evenkeel_core::capture::{
        Capture, CaptureCounters, Captured, Filter, KEPT_BYTES_MAX, Seen, Tapped,
    };
    pub use evenkeel_core::system::CaptureSocket;
    pub use evenkeel_link::capture::{
        CaptureError, Described, Direction, Expression, FilterError, Frames, Judge, Output, Packet,
        PassedOver, Reader, Recorded, Recording, Row, Target, Totals, Writing, encode,
        stdout_takes_a_capture,
    };
}

/// The account of every frame, and the reasons of drops.
pub mod drops {
    pub use evenkeel_core::drop::{IpDrop, LinkDrop, QueueDrop, Reason, TcpDrop, UdpDrop};
    pub use evenkeel_core::ledger::{Imbalance, Ledger};
}

/// The cores of the machine, the threads on them, and the CPU time that they use.
pub mod cpu {
    pub use evenkeel_link::{
        ThreadMeter, ThreadTime, are_shared_by_session, cpus, pin_to_cpu, prefer_this_thread,
        run_in_real_time, set_timer_slack, taken_from_kernel, thread_cpu_time,
    };
}

/// Sleeping until a descriptor, a deadline or another thread wakes the sleeper.
pub mod wait {
    pub use evenkeel_link::{EventFd, Halt, Nap, Notifier, Woken};
}

/// Giving up root: another user, and only the capabilities that are needed later.
pub mod privilege {
    pub use evenkeel_link::{CapabilitySet, Identity, become_user, gain_no_privileges, is_root};
}

/// The signals that end a program, make it report, or make it read its settings again.
pub mod signal {
    pub use evenkeel_link::{ReportRequests, Stop, hangup_events, in_own_session};
}
