//! Links of Linux for evenkeel: TAP devices, packet sockets and captures, with the clock and the sleep of a
//! thread.
//!
//! [`evenkeel_core`] takes frames and the time as arguments; this crate is the source of both. Nearly every
//! system call of evenkeel is here, with the unsafe code that it needs. Soft timers have a clock and a timer
//! of their own, in `evenkeel-soft-timers`. Programs open links through the crate `evenkeel`.
//!
//! A link has a name, a [`LinkSpec`] (`tap:NAME`, `packet:NAME`, `pcap:FILE`). An open device is a
//! [`Device`]: an [`evenkeel_core::interface::Interface`] with descriptors that a [`Halt`] can wait for.
//! Dropping a value of this crate undoes the effects of opening it.
//!
//! ```
//! use evenkeel_link::LinkSpec;
//!
//! let link: LinkSpec = "packet:eth0,queues=4".parse()?;
//! assert_eq!(link.to_string(), "packet:eth0,queues=4");
//! assert!("eth0".parse::<LinkSpec>().is_err());
//! # Ok::<(), evenkeel_link::SpecError>(())
//! ```
//!
//! | looking for | see |
//! | --- | --- |
//! | opening a link by its name | [`LinkSpec`], [`open`], [`open_with`] |
//! | TAP devices; packet sockets; AF_XDP; a driver of your own | [`Tap`]; [`Packet`]; [`Xdp`]; [`Device`] |
//! | the clock; sleeping and waking | [`Clock`]; [`Halt`], [`EventFd`] |
//! | captures, pcapng, filters of libpcap | [`capture`] |
//! | devices that change, go and return | [`DeviceChanges`] |
//! | routes, rules and next hops of the kernel | [`KernelTables`] |
//! | files of a directory, by names that strangers choose | [`Beneath`] |
//! | signals: stop, reload, report | [`Stop`], [`hangup_events`], [`ReportRequests`] |
//! | connections on the kernel's sockets, for comparison | [`Connections`], [`Accepted`] |
//!
//! The book describes [privileges] and the [driver contract].
//!
//! [privileges]: https://github.com/evenkeel/evenkeel/blob/main/docs/start/install.md
//! [driver contract]: https://github.com/evenkeel/evenkeel/blob/main/docs/decisions/driver-contract.md
#![cfg(target_os = "linux")]

mod accepted;
mod alarm;
mod atomic;
mod attached;
mod beneath;
mod blocks;
mod bpf;
mod buffer;
pub mod capture;
mod changes;
mod claim;
mod clock;
mod closing;
mod connections;
mod cpu;
mod device;
mod device_facts;
mod error;
mod eventfd;
mod flood;
mod genetlink;
mod guard;
mod hangup;
mod hardware;
mod interrupting;
mod keeper;
mod kept;
mod kernel_stack;
mod large;
mod listen;
mod namespace;
mod napi;
mod netdev;
mod packet;
mod parking;
mod privileges;
mod put_back;
mod random;
mod received;
mod refuser;
mod report_requests;
mod restorer;
mod ring;
mod rtnetlink;
mod segment;
mod shown;
mod socket;
mod spec;
mod stamped;
mod stop;
mod sys;
mod tap;
mod unfinished;
mod utc;
mod wait;
mod wakeup;
mod xdp;

pub use accepted::{Accepted, WaitBy, have_own_descriptors};
pub use alarm::Alarm;
pub use beneath::Beneath;
pub use buffer::{MTU_MAX, buffer_bytes_for};
pub use changes::{DeviceChange, DeviceChanges, device_now};
pub use clock::{Clock, monotonic_nanos};
pub use closing::AttachedProgram;
pub use connections::{Connections, Happened, allow_descriptors};
pub use cpu::{
    ThreadMeter, ThreadTime, are_shared_by_session, cpus, pin_to_cpu, prefer_this_thread, run_in_real_time,
    set_timer_slack, taken_from_kernel, thread_cpu_time,
};
pub use device::{Descriptors, Device, DeviceInfo, DeviceState, KernelWork, QUEUES_MAX, Refusal, Status};
pub use device_facts::{DeviceFacts, XdpProgram};
pub use error::LinkError;
pub use eventfd::EventFd;
pub use flood::{Flood, FloodProgress};
pub use guard::{Guard, GuardAccount, GuardOptions, Judged, Transport};
pub use hangup::hangup_events;
pub use hardware::{Address, hardware_address};
pub use interrupting::{SignalTimer, TimerFd};
pub use kernel_stack::KernelStack;
pub use listen::{FRAME_BYTES, LISTEN_BYTES, Listen, Listener};
pub use namespace::enter_new_network;
pub use napi::NapiThreads;
pub use netdev::{
    KernelCounters, KernelCounts, device_index, devices_to_listen_to, refuse_kernel_forwarding,
};
pub use packet::{Packet, PacketOptions};
pub use parking::Parking;
pub use privileges::{CapabilitySet, Identity, become_user, gain_no_privileges, is_root};
pub use random::random_bits;
pub use report_requests::ReportRequests;
pub use rtnetlink::{
    ALL_LINKS, Entry, KernelHop, KernelNexthop, KernelRoute, KernelRule, KernelTables, KernelWay, News,
    NexthopKind, Place, RuleAction,
};
pub use spec::{
    CABLE_QUEUES_MAX, DeviceSpec, LinkSpec, NetSpec, OpenOptions, SpecError, XdpSpec, listen, open,
    open_queues, open_with, parse_queues,
};
pub use stamped::{Stamp, StampedFrame};
pub use stop::Stop;
pub use sys::{in_own_session, send_in_segments, set_congestion_control};
pub use tap::{Tap, TapOptions};
pub use utc::Utc;
pub use wait::{Halt, Nap, Notifier, Woken};
pub use xdp::{Xdp, XdpOptions, try_xdp_socket};
