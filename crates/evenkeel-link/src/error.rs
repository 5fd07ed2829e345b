//! Errors of links. Every message is one line and says what the user can do.

use std::io;
use std::path::PathBuf;

use evenkeel_core::wire::EthernetAddress;

/// The reason why a link could not be opened. The message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The process lacks a capability.
    #[error(
        "no permission to {what}: run as root, give the program {capability} (setcap {capability}+ep FILE), \
         or use the link `cable`, which needs none"
    )]
    Privilege {
        /// The operation that was refused.
        what: String,
        /// The capability that allows it.
        capability: &'static str,
    },
    /// No device has that name.
    #[error(
        "no network device is called `{name}`: `ip link` lists them; to make one: ip link add \
         {name} type veth peer name {name}-peer"
    )]
    NoDevice {
        /// The requested name.
        name: String,
    },
    /// The device is down.
    #[error("`{name}` is down: ip link set {name} up")]
    Down {
        /// The device.
        name: String,
    },
    /// The frames of the device are larger than our buffers.
    #[error(
        "`{name}` has an MTU of {mtu}, and frames of more than {max} bytes of IP cannot be received: ip \
         link set {name} mtu 1500, and the same at its neighbours"
    )]
    Jumbo {
        /// The device.
        name: String,
        /// Its MTU.
        mtu: usize,
        /// The largest MTU with which it can be used.
        max: usize,
    },
    /// The frames of the device are larger than a chunk of AF_XDP, and the kernel does not divide them.
    #[error(
        "`{name}` has an MTU of {mtu}, and AF_XDP of this kernel takes packets of at most {max} bytes: use \
         Linux 6.6 or later, or ip link set {name} mtu 1500, and the same at its neighbours"
    )]
    OneBuffer {
        /// The device.
        name: String,
        /// Its MTU.
        mtu: usize,
        /// The largest MTU with which it can be used.
        max: usize,
    },
    /// Another evenkeel has its XDP program on the device, which can have one only.
    #[error("another evenkeel is on `{name}`: stop that one, or use another device")]
    Taken {
        /// The device.
        name: String,
    },
    /// Another evenkeel uses this hardware address on the device, and would also answer every frame.
    #[error(
        "another evenkeel is {address} on `{name}`, and both would answer: stop that one, use another \
         device, or give this one another address (--mac random)"
    )]
    Claimed {
        /// The device.
        name: String,
        /// The hardware address.
        address: EthernetAddress,
    },
    /// The kernel forwards frames to the hardware address that we share with it.
    #[error(
        "the kernel forwards what comes to the hardware address of `{name}` as well, so packets would arrive \
         twice: sysctl -w {setting}=0"
    )]
    KernelForwards {
        /// The device.
        name: String,
        /// The kernel's setting.
        setting: String,
    },
    /// Another program uses the device.
    #[error("`{name}` is in use by another program: stop that one, or choose another name")]
    Busy {
        /// The device.
        name: String,
    },
    /// The process may not lock as much memory as AF_XDP needs.
    #[error(
        "AF_XDP on `{name}` needs {mib} MiB of locked memory for each queue, and this process may not have \
         that much: ulimit -l unlimited, or give the program CAP_IPC_LOCK"
    )]
    LockedMemory {
        /// The device.
        name: String,
        /// The memory for a queue, in MiB.
        mib: usize,
    },
    /// The device has no queue of that number.
    #[error("`{name}` has no queue {queue}: `ethtool -l {name}` says how many there are, counted from 0")]
    NoQueue {
        /// The device.
        name: String,
        /// The number of the queue.
        queue: u32,
    },
    /// The device has fewer queues than hosts that are to share it.
    #[error(
        "`{name}` has queues for {queues} of {hosts} hosts, and each needs one of its own: \
         `ethtool -L {name} combined N` sets their number, or give fewer cores"
    )]
    FewQueues {
        /// The device.
        name: String,
        /// The number of queues that can be used.
        queues: usize,
        /// The number of hosts.
        hosts: usize,
    },
    /// Several hosts were to share a device in a way that only one can use it.
    #[error("`{name}` is for one host if the kernel shares its addresses, or if all its frames are taken")]
    OneHost {
        /// The device.
        name: String,
    },
    /// A monitor was requested with several receive rings.
    #[error(
        "a packet monitor sees the frames of `{name}` in order, by one receive ring: name it without \
         `,queues={queues}`"
    )]
    ManyRings {
        /// The device.
        name: String,
        /// The number of receive queues requested.
        queues: usize,
    },
    /// The name cannot be a device's name.
    #[error("`{name}` cannot be a network device's name: 1 to 15 bytes, no `/`, no space")]
    BadName {
        /// The name given.
        name: String,
    },
    /// The device with that name is of another kind.
    #[error("`{name}` exists and is not {wanted}")]
    WrongKind {
        /// The device.
        name: String,
        /// The kind of device requested.
        wanted: &'static str,
    },
    /// The device is not Ethernet, so hosts on it have no hardware addresses.
    #[error(
        "`{name}` is not an Ethernet device, on which hosts are told apart by hardware addresses: programs \
         of this machine reach a host on a TAP (tap:ek0 with --kernel-address 10.77.0.1/24), and `evenkeel \
         monitor {name}` shows what passes here"
    )]
    NotEthernet {
        /// The device.
        name: String,
    },
    /// The kernel has no TAP devices, or the container has no access to them.
    #[error(
        "/dev/net/tun is missing: load the kernel module (modprobe tun), or give the container the device \
         (--device /dev/net/tun)"
    )]
    NoTun,
    /// The kernel does not show its types, by which the guard finds the fields of its sockets.
    #[error(
        "the guard needs the types of the kernel, and /sys/kernel/btf/vmlinux cannot be read: {why}; use a \
         kernel with CONFIG_DEBUG_INFO_BTF, which distributions have, and mount /sys"
    )]
    NoTypes {
        /// The error.
        why: String,
    },
    /// The device already existed, so we may not set its addresses.
    #[error("`{name}` exists already; set its address by hand: ip addr add {address} dev {name}")]
    AddressOfExisting {
        /// The device.
        name: String,
        /// The requested address.
        address: String,
    },
    /// A capture file cannot be played or written.
    #[error("{path}: {what}")]
    Capture {
        /// The file.
        path: PathBuf,
        /// The defect of the file.
        what: String,
    },
    /// Any other error of the operating system.
    #[error("cannot {what}: {source}")]
    Os {
        /// The operation that failed.
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl LinkError {
    /// Returns the error of drawing a random hardware address.
    pub(crate) fn random(source: io::Error) -> Self {
        Self::Os { what: "draw a hardware address".to_owned(), source }
    }

    /// Returns the error for a failed system call that was to do `what` to device `name` and needs
    /// `capability`.
    pub(crate) fn of_device(name: &str, what: &str, capability: &'static str, source: io::Error) -> Self {
        let (name, full) = (name.to_owned(), format!("{what} `{name}`"));
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Privilege { what: full, capability },
            Some(libc::ENODEV | libc::ENXIO) => Self::NoDevice { name },
            Some(libc::EBUSY) => Self::Busy { name },
            _ => Self::Os { what: full, source },
        }
    }
}
