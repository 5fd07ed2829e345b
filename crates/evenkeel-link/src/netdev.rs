//! A network device of the kernel: its addresses, flags and counters.

use core::ops::{Add, Sub};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::frame::LinkType;
use evenkeel_core::wire::{EthernetAddress, IpCidr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::error::LinkError;
use crate::rtnetlink::add_address;
use crate::sys;

/// A device known by name, and a socket for requests about it to the kernel, in the network namespace it was
/// opened in.
#[derive(Debug)]
pub(crate) struct NetDevice {
    name: DeviceName,
    control: OwnedFd,
}

/// Raw IP of modems (linux/if_arp.h).
const ARPHRD_RAWIP: u16 = 519;

/// The header that frames of a device begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Ethernet.
    Ethernet,
    /// Ethernet with addresses of zeros. Each frame is seen twice, when it is sent and when it comes back.
    Loopback,
    /// No link-layer header: the device has plain IP packets, as a tunnel.
    Raw,
}

impl Framing {
    /// Returns the link type of the first header of frames.
    pub(crate) const fn link_type(self) -> LinkType {
        match self {
            Self::Ethernet | Self::Loopback => LinkType::ETHERNET,
            Self::Raw => LinkType::RAW,
        }
    }
}

/// Returns the devices that a packet monitor can listen to. They are up, in the network namespace of the
/// calling thread, and have Ethernet frames or packets of IP.
#[must_use]
pub fn devices_to_listen_to() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let usable = |name: &&str| {
        let device = NetDevice::open(name);
        device.is_ok_and(|device| device.framing().is_ok() && device.is_up().unwrap_or(false))
    };
    names(&table).filter(usable).map(str::to_owned).collect()
}

/// Returns the names of the devices in the table `/proc/net/dev`.
fn names(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim())
}

/// Returns the kernel's index of the device called `name`, in the network namespace of the calling thread.
///
/// # Errors
/// [`LinkError::BadName`], [`LinkError::NoDevice`].
pub fn device_index(name: &str) -> Result<u32, LinkError> {
    let index = NetDevice::open(name)?.index()?;
    u32::try_from(index).map_err(|_| LinkError::NoDevice { name: name.to_owned() })
}

/// Returns an error if the kernel forwards frames of the device called `name`. A host that shares the
/// device's hardware address gets the same frames as the kernel, so the kernel must not forward them.
///
/// # Errors
/// [`LinkError::KernelForwards`]
pub fn refuse_kernel_forwarding(name: &str) -> Result<(), LinkError> {
    for (before, device, after) in
        [("net.ipv4.conf.", name, ".forwarding"), ("net.ipv6.conf.", "all", ".forwarding")]
    {
        let path = format!("/proc/sys/{}{device}{}", before.replace('.', "/"), after.replace('.', "/"));
        // A kernel without IPv6 has no such file.
        if std::fs::read_to_string(path).is_ok_and(|value| value.trim() != "0") {
            // sysctl(8) writes a dot in a name as a slash.
            let setting = format!("{before}{}{after}", device.replace('.', "/"));
            return Err(LinkError::KernelForwards { name: name.to_owned(), setting });
        }
    }
    Ok(())
}

/// A valid name of a network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceName(String);

impl DeviceName {
    /// Checks a device name by the rules of the kernel's `dev_valid_name`.
    pub(crate) fn new(name: &str) -> Result<Self, LinkError> {
        let reserved = name.is_empty() || name == "." || name == "..";
        let bad = |byte: u8| {
            matches!(byte, b'/' | b':' | 0x0b) || byte.is_ascii_whitespace() || byte.is_ascii_control()
        };
        if reserved || name.len() >= libc::IFNAMSIZ || name.bytes().any(bad) {
            return Err(LinkError::BadName { name: name.to_owned() });
        }
        Ok(Self(name.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns an otherwise empty argument for an ioctl about this device.
    pub(crate) fn request(&self) -> libc::ifreq {
        sys::ifreq(self.0.as_bytes())
    }
}

impl NetDevice {
    /// # Errors
    /// [`LinkError::BadName`], [`LinkError::NoDevice`].
    pub(crate) fn open(name: &str) -> Result<Self, LinkError> {
        let device = Self { name: DeviceName::new(name)?, control: control()? };
        device.index()?;
        Ok(device)
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Returns the kernel's index of the device, in the type of a socket address.
    pub(crate) fn index(&self) -> Result<i32, LinkError> {
        let request = self.ask(libc::SIOCGIFINDEX, "find")?;
        // SAFETY: SIOCGIFINDEX filled this member of the union; any bit pattern is an integer.
        Ok(unsafe { request.ifr_ifru.ifru_ifindex })
    }

    pub(crate) fn mtu(&self) -> Result<usize, LinkError> {
        let request = self.ask(libc::SIOCGIFMTU, "read the MTU of")?;
        // SAFETY: SIOCGIFMTU filled this member of the union; any bit pattern is an integer.
        Ok(usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
    }

    /// Returns the hardware address that the kernel has on the device.
    pub(crate) fn address(&self) -> Result<EthernetAddress, LinkError> {
        match self.framing()? {
            (Framing::Ethernet, address) => Ok(address),
            (Framing::Loopback | Framing::Raw, _) => Err(self.not_ethernet()),
        }
    }

    /// Returns the framing of the device and its hardware address, which is all zeros if its frames have
    /// none.
    pub(crate) fn framing(&self) -> Result<(Framing, EthernetAddress), LinkError> {
        let request = self.ask(libc::SIOCGIFHWADDR, "read the address of")?;
        // SAFETY: SIOCGIFHWADDR filled this member of the union; any bit pattern is a family and bytes.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        let framing = match address.sa_family {
            libc::ARPHRD_ETHER => Framing::Ethernet,
            libc::ARPHRD_LOOPBACK => Framing::Loopback,
            libc::ARPHRD_NONE
            | ARPHRD_RAWIP
            | libc::ARPHRD_TUNNEL
            | libc::ARPHRD_TUNNEL6
            | libc::ARPHRD_SIT
            | libc::ARPHRD_IPGRE => Framing::Raw,
            _ => return Err(self.not_ethernet()),
        };
        let [a, b, c, d, e, f, ..] = address.sa_data.map(|byte| byte as u8);
        Ok((framing, EthernetAddress([a, b, c, d, e, f])))
    }

    /// Returns the mask of the device's first IPv4 address.
    pub(crate) fn netmask(&self) -> Result<Ipv4Addr, LinkError> {
        let request = self.ask(libc::SIOCGIFNETMASK, "read the netmask of")?;
        // SAFETY: SIOCGIFNETMASK filled this member of the union; any bit pattern is a family and bytes.
        let [_, _, a, b, c, d, ..] = unsafe { request.ifr_ifru.ifru_addr }.sa_data.map(|byte| byte as u8);
        Ok(Ipv4Addr::new(a, b, c, d))
    }

    fn not_ethernet(&self) -> LinkError {
        LinkError::NotEthernet { name: self.name().to_owned() }
    }

    pub(crate) fn is_up(&self) -> Result<bool, LinkError> {
        Ok(self.flags()? & libc::IFF_UP as libc::c_short != 0)
    }

    /// Returns whether both ends of the device's cable are up.
    pub(crate) fn has_carrier(&self) -> Result<bool, LinkError> {
        Ok(self.flags()? & libc::IFF_RUNNING as libc::c_short != 0)
    }

    /// Brings the device up or down.
    pub(crate) fn set_up(&self, up: bool) -> Result<(), LinkError> {
        let flags = self.flags()?;
        let bit = libc::IFF_UP as libc::c_short;
        let mut request = self.name.request();
        request.ifr_ifru.ifru_flags = if up { flags | bit } else { flags & !bit };
        let ioctl = sys::socket_request(libc::SIOCSIFFLAGS);
        let result = sys::ioctl(self.control.as_fd(), ioctl, &mut request);
        result.map_err(|e| LinkError::of_device(self.name(), "bring up", "CAP_NET_ADMIN", e))
    }

    fn flags(&self) -> Result<libc::c_short, LinkError> {
        let request = self.ask(libc::SIOCGIFFLAGS, "read the flags of")?;
        // SAFETY: SIOCGIFFLAGS filled this member of the union; any bit pattern is an integer.
        Ok(unsafe { request.ifr_ifru.ifru_flags })
    }

    /// Adds an address to the kernel's side of the device, with the route to its network that comes with it.
    pub(crate) fn add_ip(&self, cidr: IpCidr) -> Result<(), LinkError> {
        let result = add_address(self.index()?.unsigned_abs(), cidr);
        result.map_err(|e| LinkError::of_device(self.name(), "set the address of", "CAP_NET_ADMIN", e))
    }

    fn ask(&self, ioctl: libc::c_ulong, what: &str) -> Result<libc::ifreq, LinkError> {
        let mut request = self.name.request();
        let result = sys::ioctl(self.control.as_fd(), sys::socket_request(ioctl), &mut request);
        result.map_err(|e| LinkError::of_device(self.name(), what, "CAP_NET_ADMIN", e))?;
        Ok(request)
    }
}

fn control() -> Result<OwnedFd, LinkError> {
    socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(|e| LinkError::Os { what: "open a socket".into(), source: e.into() })
}

/// A handle to the kernel's counters of a device, from the time it was opened. Each call reads them anew.
/// For a device that is gone it returns the last values read. All clones share one state, bound to the
/// network namespace in which the device was opened.
#[derive(Debug, Clone)]
pub struct KernelCounters(Arc<Mutex<Counted>>);

#[derive(Debug)]
struct Counted {
    device: Arc<NetDevice>,
    index: Option<i32>,
    table: Option<File>,
    /// The counters when the device was opened.
    before: KernelCounts,
    /// The counters read last.
    last: KernelCounts,
}

/// Frames that the kernel did not deliver to the process that has opened the device, or to the device. The
/// meaning of each counter depends on the kind of device. For a TAP, a frame to us that finds the queue full
/// counts as dropped in transmission, because the kernel transmits there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelCounts {
    /// Errors on reception.
    pub rx_errors: u64,
    /// Received frames that were not passed on because of no room or no buffer, including `rx_missed_errors`.
    pub rx_dropped: u64,
    /// Overruns of the device's own queue.
    pub rx_fifo_errors: u64,
    /// Errors in transmission.
    pub tx_errors: u64,
    /// Frames dropped before transmission.
    pub tx_dropped: u64,
}

impl Add for KernelCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            rx_errors: self.rx_errors + other.rx_errors,
            rx_dropped: self.rx_dropped + other.rx_dropped,
            rx_fifo_errors: self.rx_fifo_errors + other.rx_fifo_errors,
            tx_errors: self.tx_errors + other.tx_errors,
            tx_dropped: self.tx_dropped + other.tx_dropped,
        }
    }
}

/// Subtracts an earlier reading, field by field.
impl Sub for KernelCounts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            rx_errors: self.rx_errors.saturating_sub(earlier.rx_errors),
            rx_dropped: self.rx_dropped.saturating_sub(earlier.rx_dropped),
            rx_fifo_errors: self.rx_fifo_errors.saturating_sub(earlier.rx_fifo_errors),
            tx_errors: self.tx_errors.saturating_sub(earlier.tx_errors),
            tx_dropped: self.tx_dropped.saturating_sub(earlier.tx_dropped),
        }
    }
}

impl KernelCounters {
    pub(crate) fn open(device: &Arc<NetDevice>) -> Self {
        let (device, index) = (Arc::clone(device), device.index().ok());
        let table = File::open("/proc/thread-self/net/dev").ok();
        let mut counted =
            Counted { device, index, table, before: KernelCounts::default(), last: KernelCounts::default() };
        counted.before = counted.read().unwrap_or_default();
        counted.last = counted.before;
        Self(Arc::new(Mutex::new(counted)))
    }

    /// Returns the counts since the device was opened; all zeros if they could never be read.
    #[must_use]
    pub fn since_opened(&self) -> KernelCounts {
        // No holder of the lock panics. It is held while the table is read; otherwise a reader could combine
        // lines of different times.
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.last = counted.read().unwrap_or(counted.last);
        counted.last - counted.before
    }
}

impl Counted {
    /// Reads the device's counters; `None` if it is gone.
    fn read(&self) -> Option<KernelCounts> {
        let (table, mut text, mut part) = (self.table.as_ref()?, Vec::new(), [0; 4096]);
        loop {
            match table.read_at(&mut part, text.len() as u64).ok()? {
                0 => break,
                len => text.extend_from_slice(part.get(..len)?),
            }
        }
        // Another device may have its name by now. If the index is still the same, the line was this
        // device's.
        let is_there = self.device.index().ok() == self.index;
        counts(&String::from_utf8_lossy(&text), self.device.name()).filter(|_| is_there)
    }
}

/// Finds the counters of `name` in the table `/proc/net/dev`: `name: bytes packets errors drops fifo frame
/// compressed multicast`, as received, and then `bytes packets errors drops ...` as transmitted.
fn counts(table: &str, name: &str) -> Option<KernelCounts> {
    let row = table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let mut row = row.split_whitespace();
    let mut at = |skip| row.nth(skip)?.parse().ok();
    Some(KernelCounts {
        rx_errors: at(2)?,
        rx_dropped: at(0)?,
        rx_fifo_errors: at(0)?,
        tx_errors: at(5)?,
        tx_dropped: at(0)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_held_to_the_kernels_rules() {
        for good in ["ek0", "eth0.100", "fifteen-bytes-"] {
            assert!(DeviceName::new(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a b", "a/b", "a:b", "sixteen--bytes--", "nul\0"] {
            assert!(matches!(DeviceName::new(bad), Err(LinkError::BadName { .. })), "{bad:?}");
        }
    }

    #[test]
    fn the_loopback_device_can_be_asked() {
        let lo = NetDevice::open("lo").unwrap();
        assert!(lo.index().unwrap() > 0);
        assert!(lo.mtu().unwrap() > 1000);
        assert!(matches!(lo.address(), Err(LinkError::NotEthernet { .. })));
        assert_eq!(lo.framing().unwrap(), (Framing::Loopback, EthernetAddress::default()));
        assert!(matches!(NetDevice::open("no-such-dev"), Err(LinkError::NoDevice { .. })));
        assert_eq!(KernelCounters::open(&Arc::new(lo)).since_opened(), KernelCounts::default());
    }

    #[test]
    fn drops_are_found_in_the_kernels_table() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets\n  ek0: 1 2 3 4 5 6 7 8 9 10 11 12 \
            13\n ek01: 0 0 0 0 0 0 0 0 0 0 0 99 0\n";
        let of = |name| {
            counts(table, name)
                .map(|c| [c.rx_errors, c.rx_dropped, c.rx_fifo_errors, c.tx_errors, c.tx_dropped])
        };
        assert_eq!(of("ek0"), Some([3, 4, 5, 11, 12]));
        assert_eq!(of("ek01"), Some([0, 0, 0, 0, 99]));
        assert_eq!(of("ek"), None);
        assert_eq!(counts("ek0:", "ek0"), None);
    }
}
